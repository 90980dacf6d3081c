"""One line fits every table of the dev suite, however it was read."""

import io
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fisherkit import TableClassifier

FOLDER = Path(os.environ.get("FISHERKIT_DATA", "")) / "tables"
TABLES = sorted(path.stem for path in FOLDER.glob("*.parquet"))
ROWS = 100

pytestmark = pytest.mark.skipif(
    not os.environ.get("FISHERKIT_DATA"),
    reason="FISHERKIT_DATA is not set: the tables are not available",
)


def some_of(name):
    """The first rows of a table in random order, of classes with two rows or more."""
    table = pd.read_parquet(FOLDER / f"{name}.parquet")
    table = table.sample(min(ROWS, len(table)), random_state=0).reset_index(drop=True)
    return table[table.groupby("target")["target"].transform("size") > 1].reset_index(drop=True)


def probabilities(X, y):
    """Of the rows of the fit, with the classes as texts."""
    with warnings.catch_warnings():
        # read_csv takes the class "None" of one table for a missing value
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ targets are missing")
        model = TableClassifier(learn=False).fit(X, y)
    return [str(label) for label in model.classes_], model.predict_proba(X)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_the_same_however_it_was_read(name):
    table = some_of(name)
    X, y = table.drop(columns="target"), table["target"]
    classes, P = probabilities(X, y)
    frame = pl.from_pandas(table)
    again, Q = probabilities(frame.drop("target"), frame["target"])
    assert again == classes
    np.testing.assert_allclose(Q, P, atol=1e-9)
    text = io.StringIO(table.to_csv(index=False))
    read = pd.read_csv(text)
    known, R = probabilities(read.drop(columns="target"), read["target"])
    assert set(known) <= set(classes) and R.shape == (len(table), len(known))
    assert np.isfinite(R).all()
