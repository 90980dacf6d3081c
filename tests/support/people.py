"""A table of people, and the program of a training run again."""

import numpy as np
import pandas as pd


def people(n=120, seed=0, classes=("no", "yes")):
    """A table of every kind of column; the label depends on age and town."""
    rng = np.random.RandomState(seed)
    age = rng.uniform(20, 80, n).round(1)
    town = rng.choice(["Bonn", "Köln", "Mainz"], n, p=[0.5, 0.4, 0.1])
    score = (age - 50) / 15 + (town == "Bonn") + rng.normal(0, 0.6, n)
    cuts = np.quantile(score, np.arange(1, len(classes)) / len(classes))
    table = pd.DataFrame(
        {
            "age": age,
            "children": rng.randint(0, 5, n),
            "town": town,
            "member": rng.choice(["True", "False"], n),
            "label": np.asarray(classes)[np.searchsorted(cuts, score)],
        }
    )
    table.loc[3, "age"] = np.nan
    table.loc[5, "town"] = None
    return table


def rerun(done):
    scope = {}
    exec(done.code, scope)
    return scope["model"]
