"""Columns of a table to features of a classifier: a `ColumnTransformer`, fitted whole or in parts.

Missing numbers are replaced by the median, and numbers are scaled. Text becomes one column for each
level, where "missing" is a level and all rare levels share a column with levels that training has
not seen.

In parts, means and variances are updated part by part, levels are counted, and a median is taken
of the whole column, the only one in memory then: it is exact. The transformer is the same object
with the same parameters; means and variances differ from those of a fit in memory by rounding.

Columns are given by name, so that they can be read; many of them by position, as scikit-learn looks
for each name from the first column on, which takes minutes for 100,000.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fisherkit.columns.frames import level_counts, number_mask, replaced, row_parts

MISSING_LEVEL = "missing"
MOST_NAMES = 100  # columns that are given by name

_RARE = 10  # a level with fewer rows is rare, in tables of 1,000 rows and more


def rare_below(n_rows: int) -> int:
    """The number of rows below which a level is rare."""
    return max(2, min(_RARE, n_rows // 100))


def preparation(X: pd.DataFrame, n_rows: int) -> ColumnTransformer:
    """What `fisherkit.training.code` prints, not fitted."""
    mask = number_mask(X)
    numbers, texts = (_given(X.columns, np.flatnonzero(kind)) for kind in (mask, ~mask))
    steps: list[tuple[str, Pipeline, list[str] | np.ndarray]] = []
    if len(numbers):
        number = Pipeline(
            [("impute", SimpleImputer(strategy="median")), ("scale", StandardScaler())]
        )
        steps.append(("number", number, numbers))
    if len(texts):
        encode = OneHotEncoder(
            min_frequency=rare_below(n_rows),
            handle_unknown="infrequent_if_exist",
            sparse_output=False,
        )
        impute = SimpleImputer(strategy="constant", fill_value=MISSING_LEVEL)
        steps.append(("text", Pipeline([("impute", impute), ("encode", encode)]), texts))
    return ColumnTransformer(steps)


def _given(names: pd.Index, positions: np.ndarray) -> list[str] | np.ndarray:
    """Columns as they are given to scikit-learn: by name, if they are few."""
    few = len(names) <= MOST_NAMES
    return [str(name) for name in names[positions]] if few else positions


def names_of(columns: ArrayLike, names: ArrayLike) -> list[str]:
    """Names of columns of a table, given by name or by position.

    Examples
    --------
    >>> from fisherkit.columns.features import names_of
    >>> names_of([2, 0], ["age", "town", "child"]), names_of(["town"], ["age", "town"])
    (['child', 'age'], ['town'])
    """
    given = np.asarray(columns)
    if given.dtype.kind in "iub":
        given = np.asarray(names, dtype=object)[given]
    return [str(name) for name in given]


def fit_in_parts(
    prepare: ColumnTransformer, X: pd.DataFrame, rows: np.ndarray | None
) -> ColumnTransformer:
    """A copy of ``prepare`` fitted to some rows of a mapped table (``None``: all), in parts.

    The copy is fitted to a small table that stands for the large one: it has the medians of the
    numbers, and of every level enough rows to tell whether it is rare. Only the scaler, which
    needs more, sees all rows.
    """
    prepare = clone(prepare)
    columns = {name: names_of(given, X.columns) for name, _, given in prepare.transformers}
    numbers, texts = columns.get("number", []), columns.get("text", [])
    levels = {name: _levels(_at(X[name], rows)) for name in texts}
    prepare.fit(_stand_in(X, numbers, levels, rows, _min_frequency(prepare)))
    if numbers:
        _fit_scaler(prepare.named_transformers_["number"], X[numbers], rows)
    return prepare


def transformed(
    prepare: ColumnTransformer, X: pd.DataFrame, rows: np.ndarray | None
) -> Iterator[np.ndarray]:
    """Features of some rows of a mapped table (``None``: all), a part at a time."""
    for part in _parts(X, rows, max(X.shape[1], len(prepare.get_feature_names_out()))):
        yield prepare.transform(part)


def in_memory(part: pd.DataFrame) -> pd.DataFrame:
    """Some rows of a mapped table with texts as texts, not as places in a list of levels."""
    coded = part.columns[part.dtypes == "category"]
    texts = {str(name): part[name].astype(object) for name in coded}
    return replaced(part, texts).copy()  # one block for each type, not for each column


def _parts(X: pd.DataFrame, rows: np.ndarray | None, columns: int) -> Iterator[pd.DataFrame]:
    for part in row_parts(X if rows is None else rows, columns):
        yield in_memory(X.iloc[part if rows is None else rows[part]])


def _at(values: pd.Series, rows: np.ndarray | None) -> pd.Series:
    return values if rows is None else values.iloc[rows]


def _levels(values: pd.Series) -> pd.Series:
    """How often each level occurs, missing ones among them."""
    counts = level_counts(values)
    missing = int(values.isna().sum())
    if missing:
        counts[MISSING_LEVEL] = counts.get(MISSING_LEVEL, 0) + missing
    return counts


def _min_frequency(prepare: ColumnTransformer) -> int:
    return next(
        (step["encode"].min_frequency for name, step, _ in prepare.transformers if name == "text"),
        0,
    )


def _stand_in(
    X: pd.DataFrame,
    numbers: list[str],
    levels: dict[str, pd.Series],
    rows: np.ndarray | None,
    rare: int,
) -> pd.DataFrame:
    """A table with the medians of X, and with as many rows of each level as make it rare or not.

    Columns that have fewer such rows are filled up with their most frequent level, which is not
    rare: a column that has only rare levels keeps all its rows here, and no column has more rows.
    """
    few = {name: counts.clip(upper=rare) for name, counts in levels.items()}
    n = max((int(counts.sum()) for counts in few.values()), default=1)
    columns: dict[str, np.ndarray] = {}
    for name, counts in few.items():
        counts = counts.copy()
        counts[levels[name].idxmax()] += n - int(counts.sum())
        columns[name] = np.repeat(counts.index.to_numpy(dtype=object), counts.to_numpy())
    for name in numbers:
        columns[name] = np.full(n, np.nanmedian(_at(X[name], rows).to_numpy()))
    return pd.DataFrame({name: columns[name] for name in X.columns})


def _fit_scaler(steps: Pipeline, X: pd.DataFrame, rows: np.ndarray | None) -> None:
    """Means and variances of all rows instead of those of the stand-in."""
    scale = steps["scale"]
    fit = scale.fit
    for part in _parts(X, rows, X.shape[1]):
        fit(steps["impute"].transform(part))
        fit = scale.partial_fit
