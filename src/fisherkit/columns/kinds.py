"""What each column of a table is, which of them say nothing, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fisherkit.columns.frames import (
    TableError,
    as_levels,
    column_parts,
    is_number,
    level_counts,
    moments,
    number_mask,
    numbers,
    place,
    quoted,
    replaced,
    texts,
)
from fisherkit.columns.options import ColumnOptions
from fisherkit.interfaces import FilePath
from fisherkit.stored import stored

EXACT = 2**53  # up to which every whole number is a double

_LARGEST = 1e150  # sums of squares of larger numbers may be infinite
_MOSTLY = 0.8  # where this share of a column are numbers, a text among them is a mistake
_UNNAMED = ("column 1", "Unnamed: 0")  # what a saved index of pandas is called
_FEW_ROWS = 20  # below, nothing is said about columns that look like identifiers
_EMPTY = ("it has no values", "they have no values")
_CONSTANT = "each has one value only"
_NUMBERING = "each numbers the rows"
_OWN_TEXT = "every row has a different text, as identifiers have"
_EXTREME = (
    f"{{:g}} is too large to compute with (beyond {_LARGEST:g}). Leave the field empty if such a "
    "number stands for an unknown value, or use larger units."
)
_INFINITE = "the value is infinite. Leave the field empty if it is unknown."
_DATE = (
    r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[/.]\d{1,2}[/.](\d{2}|\d{4})( .*)?|\d{4}/\d\d?/\d\d?"
)


@stored("column of a table")
@dataclass(frozen=True)
class Column:
    """A feature: its name, whether it is a "number" or a "text", and how many values are missing.

    ``values`` is the range of a number (two values) or the number of levels of a text (one).
    """

    name: str
    kind: str
    missing: int
    values: tuple[float, ...]

    @classmethod
    def all_of(cls, X: pd.DataFrame) -> list[Column]:
        """The columns that a training has seen."""
        columns = []
        for part in column_parts(X):
            missing = part.isna().sum().tolist()
            block = numbers(part)
            spans = dict(zip(block.columns, block.agg(["min", "max"]).to_numpy().T, strict=True))
            columns += [
                cls(str(name), "number", count, tuple(map(float, spans[name])))
                if name in spans
                else cls(str(name), "text", count, (float(part[name].nunique()),))
                for name, count in zip(part.columns, missing, strict=True)
            ]
        return columns


def match(table: pd.DataFrame, columns: Sequence[Column], source: FilePath) -> pd.DataFrame:
    """The columns that a model was trained on, in its order, from a table that may have others."""
    missing = [column.name for column in columns if column.name not in table.columns]
    if missing:
        raise TableError(
            f"{source} lacks {len(missing)} of the {len(columns)} columns that the model uses: "
            f"{quoted(missing)}. It has {quoted(table.columns)}."
        )
    table = table[[column.name for column in columns]]
    changed = {}
    for column, number in zip(columns, number_mask(table), strict=True):
        if (column.kind == "number") != number:
            values = table[column.name]
            as_number = column.kind == "number"
            changed[column.name] = _as_number(values, source) if as_number else as_levels(values)
    table = replaced(table, changed)
    refuse_infinite(table, source)
    refuse_extreme(table, source)
    return table


def _as_number(values: pd.Series, source: FilePath) -> pd.Series:
    """The numbers of a column that was read as text, where each must be a number or missing."""
    parsed = pd.to_numeric(values, errors="coerce")
    wrong = np.flatnonzero((values.notna() & parsed.isna()).to_numpy())
    if len(wrong):
        raise TableError(
            f"{source}, {place(values, wrong[0])}, column {values.name!r}: "
            f"{values.iloc[wrong[0]]!r} is not a number, but the column held numbers in training."
        )
    return parsed


def refuse_unusable(table: pd.DataFrame, asked: ColumnOptions) -> None:
    """Refuse dates, numbers that are too large, and single texts among numbers."""
    refuse_dates(table.drop(columns=[*asked.text], errors="ignore"), asked)
    for block in column_parts(table):
        refuse_extreme(block, asked.path)
    for name, values in texts(table).items():
        stray = None if name in asked.text else stray_text(values)
        if stray is not None:
            raise TableError(
                f"{asked.path}, {place(table, stray)}, column {name!r}: "
                f"{values.iloc[stray]!r} is not a number, though most values of the column are. "
                f"Leave unknown values empty, or declare the column as text with "
                f"{asked.option('text', str(name))}."
            )


def refuse_dates(table: pd.DataFrame, asked: ColumnOptions) -> None:
    """Dates say nothing by themselves; what they mean is for the user to say."""
    for name, date in date_columns(table).items():
        raise TableError(
            f"{asked.path}, column {name!r} holds dates, such as {str(date)!r}. What matters about "
            "a date is for you to say: replace it by numbers (year, month, weekday, days since an "
            f"event), leave it out with {asked.option('drop', name)}, or take it as text with "
            f"{asked.option('text', name)}."
        )


def refuse_extreme(table: pd.DataFrame, source: FilePath) -> None:
    """Refuse numbers whose squares, summed over the rows, would be infinite."""
    _refuse(table, source, lambda values: np.abs(values) > _LARGEST, _EXTREME)


def refuse_infinite(table: pd.DataFrame, source: FilePath) -> None:
    """Refuse infinite numbers."""
    _refuse(table, source, np.isinf, _INFINITE)


def _refuse(
    table: pd.DataFrame,
    source: FilePath,
    wrong: Callable[[np.ndarray], np.ndarray],
    complaint: str,
) -> None:
    """Raise for the first number that is wrong; ``complaint`` has a place for it."""
    block = numbers(table)
    values = block.to_numpy(dtype=np.float64, na_value=np.nan)
    places = np.argwhere(wrong(values))
    if len(places):
        row, column = places[0]
        where = f"{source}, {place(table, row)}, column {block.columns[column]!r}"
        raise TableError(f"{where}: {complaint.format(values[row, column])}")


def date_columns(table: pd.DataFrame) -> dict[str, object]:
    """Columns that hold dates or times, each with one of its values."""
    examples = {}
    for name, values in texts(table).items():
        if moments(values):
            known = values.dropna()
            if len(known):
                examples[str(name)] = known.iloc[0]
        elif len(counts := level_counts(values)):
            dates = counts.index.astype(str).str.fullmatch(_DATE)
            if counts[dates].sum() >= _MOSTLY * counts.sum():
                examples[str(name)] = values.loc[values.first_valid_index()]
    return examples


def stray_text(values: pd.Series) -> int | None:
    """Position of the first text in a column where nearly all known values are numbers."""
    if is_number(values):
        return None
    counts = level_counts(values)
    numeric = pd.to_numeric(counts.index.to_series(), errors="coerce").notna().to_numpy()
    if numeric.all() or counts[numeric].sum() < _MOSTLY * counts.sum():
        return None
    return int(np.flatnonzero(values.isin(counts.index[~numeric]))[0])


def unused(table: pd.DataFrame, asked: ColumnOptions) -> dict[str, tuple[str, str]]:
    """Columns that say nothing about new rows; why, for one and for several of them."""
    few = len(table) < _FEW_ROWS
    why = {}
    for block in map(numbers, column_parts(table)):
        values = block.to_numpy(dtype=np.float64, na_value=np.nan)
        known = ~np.isnan(values)
        steps = np.diff(np.sort(values, axis=0), axis=0)
        counts = np.all(steps == 1, axis=0) & (not few)
        index = np.all((steps > 0) & (steps % 1 == 0), axis=0) & block.columns.isin(_UNNAMED)
        same = np.all(values == values[0], axis=0)
        for name, any_known, constant, counting in zip(
            block.columns, known.any(axis=0), same, counts | index, strict=True
        ):
            if not any_known:
                why[name] = _EMPTY
            elif constant:
                why[name] = _constant(str(name), block[name].iloc[0], asked), _CONSTANT
            elif counting:
                keep = asked.option("keep", str(name))
                remark = _NUMBERING + " (--keep uses one)" * asked.command
                why[name] = f"it numbers the rows ({keep} to use it)", remark
    for name, column in texts(table).items():
        distinct = column.nunique()
        if distinct == 0:
            why[name] = _EMPTY
        elif distinct == 1 and column.notna().all():
            why[name] = f"its value is always {column.iloc[0]!r}", _CONSTANT
        elif distinct == len(column) and not few:
            why[name] = identifier()
    kept = set(asked.keep)
    return {str(name): why[name] for name in table.columns if name in why and name not in kept}


def identifier() -> tuple[str, str]:
    """Why texts that tell all rows apart are not used."""
    return _OWN_TEXT, _OWN_TEXT


def _constant(name: str, value: float, asked: ColumnOptions) -> str:
    """What is said of a column of one number; of large ones only the first digits are known."""
    if abs(value) < EXACT:
        return f"its value is always {value}"
    return (
        f"its numbers are all {value:.15e} in the 16 digits that are computed with "
        f"({asked.option('text', name)} takes them as text)"
    )
