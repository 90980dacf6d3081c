"""Small questions about the columns of a table, in memory or mapped from files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized

import numpy as np
import pandas as pd

_CELLS = 1 << 21  # cells of a table that are looked at together
_WHOLE = 2.0**53  # beyond which floats are not the numbers that they were written as


class TableError(ValueError):
    """A table that cannot be used; the message names file, line and column."""


def is_number(values: pd.Series) -> bool:
    """Whether a column as read by `fisherkit.tables.read_table` holds numbers."""
    return bool(pd.api.types.is_numeric_dtype(values.dtype))


def number_mask(table: pd.DataFrame) -> np.ndarray:
    """For each column whether it holds numbers; quick for very many columns."""
    known = {dtype: pd.api.types.is_numeric_dtype(dtype) for dtype in set(table.dtypes)}
    return np.array([known[dtype] for dtype in table.dtypes], dtype=bool)


def numbers(table: pd.DataFrame) -> pd.DataFrame:
    """The columns that hold numbers."""
    return table.loc[:, number_mask(table)]


def texts(table: pd.DataFrame) -> pd.DataFrame:
    """The columns that hold anything but numbers."""
    return table.loc[:, ~number_mask(table)]


def replaced(table: pd.DataFrame, changed: dict[str, pd.Series]) -> pd.DataFrame:
    """The table with other values in some columns.

    `DataFrame.assign` moves all columns for each one that it replaces.
    """
    if not changed:
        return table
    rest = table.loc[:, ~table.columns.isin(list(changed))]
    both = pd.concat([rest, pd.DataFrame(changed, index=table.index)], axis=1)
    return both[list(table.columns)]


def moments(values: pd.Series) -> bool:
    """Whether pandas knows the values as points in time or spans of it."""
    kinds = pd.api.types
    return kinds.is_datetime64_any_dtype(values.dtype) or kinds.is_timedelta64_dtype(values.dtype)


def as_text(values: pd.Series) -> pd.Series:
    """Text of every known value; a missing one stays missing."""
    known = values.astype(object).where(values.notna(), np.nan)
    return known.map(str, na_action="ignore").astype(object)  # also where all are missing


def as_levels(values: pd.Series) -> pd.Series:
    """Text of every known value, numbers alike whether they are written 1 or 1.0."""
    known = values.astype(object).where(values.notna(), np.nan)
    return known.map(_level, na_action="ignore").astype(object)


def _level(value: object) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))
    return str(value)


def level_counts(values: pd.Series) -> pd.Series:
    """How often each known text of a column occurs, under the texts."""
    counts = values.value_counts()
    counts = counts[counts > 0]
    return counts.set_axis(counts.index.astype(object))


def row_parts(table: Sized, columns: int) -> Iterator[slice]:
    """Slices of rows that together are the table, each of a few million cells."""
    step = max(_CELLS // max(columns, 1), 1)
    for start in range(0, len(table), step):
        yield slice(start, min(start + step, len(table)))


def column_parts(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Groups of neighbouring columns, of a few million cells; single columns if rows are many."""
    step = max(_CELLS // max(len(table), 1), 1)
    for start in range(0, table.shape[1], step):
        yield table.iloc[:, start : start + step]


def place(table: pd.DataFrame | pd.Series, position: int) -> str:
    """Where a row is in its file, for a message."""
    return f"{table.index.name or 'row'} {table.index[position]}"


def quoted(names: Iterable[object], most: int = 8) -> str:
    """The first few names, for a message."""
    names = list(names)
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
