"""A table whose target is a number."""

import numpy as np
import pandas as pd


def houses(n=120, seed=0):
    """Numbers, words and holes; the price depends on all columns but the garden."""
    rng = np.random.RandomState(seed)
    size = rng.uniform(20, 200, n).round(1)
    rooms, town = rng.randint(1, 7, n), rng.choice(["Oslo", "Rome"], n)
    price = size * (2 + (town == "Oslo")) + 20 * rooms + rng.normal(0, 15, n)
    garden = rng.choice(["True", "False"], n)
    table = pd.DataFrame({"size": size, "rooms": rooms, "town": town, "garden": garden})
    table["price"] = price.round(2)
    table.loc[3, "size"] = np.nan
    table.loc[5, "town"] = None
    return table
