"""The smallest change of one column of a row that changes the answer of a classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fisherkit.columns import is_number

_MOST = 32  # values of a column that are tried
_PARTS, _ROUNDS = 32, 4  # the boundary between two of them is found to 32^-4 of their difference

Answer = Callable[[pd.DataFrame], np.ndarray]  # classes, by their numbers, of rows


@dataclass(frozen=True)
class Change:
    """Another value of one column, and the answer that it brings.

    Attributes
    ----------
    column : str
    value : float, str or None
        The new value; ``None`` is a missing text.
    label : object
        The answer with it.
    size : float
        How far the value is from that of the row, in standard deviations of the column among the
        training rows; one for texts.

    Examples
    --------
    >>> from fisherkit.inspection import Change
    >>> print(Change("size", 1.75, "large", 0.4))
    large if size were 1.75
    """

    column: str
    value: object
    label: object
    size: float

    def __str__(self) -> str:
        return f"{self.label} if {self.column} were {shown(self.value)}"


def shown(value: object) -> str:
    """A value of a column, for a sentence."""
    if isinstance(value, float | int | np.number):
        return "missing" if np.isnan(float(value)) else f"{float(value):.4g}"
    return "missing" if value is None or value is pd.NA else str(value)


@dataclass(frozen=True)
class _Bracket:
    """Values of a column of numbers, beside each other: only the outer one changes the answer.

    Sizes of changes are those from ``start``, in units of ``spread``.
    """

    column: int
    start: float
    spread: float
    inner: float
    outer: float
    whole: bool

    @property
    def near(self) -> float:
        return abs(self.inner - self.start) / self.spread

    @property
    def far(self) -> float:
        return abs(self.outer - self.start) / self.spread


def smallest_change(
    row: pd.DataFrame, answer: Answer, values: Sequence[np.ndarray], classes: np.ndarray
) -> Change | None:
    """The smallest change of one column that changes the answer for a row, a table of one.

    Values that the training rows have are tried, at most 32 for a column of numbers; between one
    that changes the answer and the next that does not, the boundary is searched for. ``None``
    where no such value of any single column changes the answer.
    """
    before = answer(row)[0]
    tried: list[tuple[int, np.ndarray]] = []
    for column, name in enumerate(row.columns):
        own = values[column]
        if is_number(row[name]) and len(own) > _MOST:
            own = own[np.linspace(0, len(own) - 1, _MOST).astype(int)]
        tried.append((column, own))
    numbers = np.repeat([column for column, _ in tried], [len(own) for _, own in tried])
    if not len(numbers):
        return None
    flips = answer(_changed(row, numbers, np.concatenate([_objects(own) for _, own in tried])))
    flips = flips != before
    brackets: list[_Bracket] = []
    found: list[tuple[float, int, object]] = []  # size, column and value
    for (column, own), flip in zip(tried, np.split(flips, _ends(tried)), strict=True):
        if is_number(row.iloc[:, column]):
            here = _floats(row.iloc[:, column])[0]
            brackets += _around(column, float(here), own, flip, values[column])
        elif flip.any():
            found.append((1.0, column, own[np.argmax(flip)]))
    least = min([b.far for b in brackets] + [size for size, _, _ in found], default=0.0)
    brackets = _narrowed(row, answer, before, [b for b in brackets if b.near <= least])
    found += [(b.far, b.column, b.outer) for b in brackets]
    if not found:
        return None
    size, column, value = min(found, key=lambda one: one[0])
    label = answer(_changed(row, np.array([column]), _objects([value])))[0]
    return Change(str(row.columns[column]), value, classes.tolist()[label], size)


def _ends(tried: Sequence[tuple[int, np.ndarray]]) -> np.ndarray:
    return np.cumsum([len(own) for _, own in tried])[:-1]


def _objects(values: Sequence[object] | np.ndarray) -> np.ndarray:
    found = np.empty(len(values), dtype=object)
    found[:] = list(values)
    return found


def _floats(values: pd.Series) -> np.ndarray:
    """Numbers, NaN where missing."""
    return values.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)


def _changed(row: pd.DataFrame, columns: np.ndarray, values: np.ndarray) -> pd.DataFrame:
    """Copies of a row, each with another value in one of its columns."""
    table = row.iloc[np.zeros(len(columns), dtype=int)].reset_index(drop=True)
    for column in np.unique(columns):
        own = np.flatnonzero(columns == column)
        numbers = is_number(row.iloc[:, column])
        old = table.iloc[:, column]
        series = _floats(old) if numbers else old.to_numpy(dtype=object, copy=True)
        series[own] = values[own]
        table[table.columns[column]] = series
    return table


def _around(
    column: int, known: float, values: np.ndarray, flip: np.ndarray, all_values: np.ndarray
) -> list[_Bracket]:
    """The nearest value that changes the answer on either side of a number, and the one before."""
    spread = float(np.std(all_values)) or 1.0
    whole = bool(np.all(all_values == np.round(all_values)))
    start = float(np.median(all_values)) if np.isnan(known) else known
    found = []
    for side in (-1, 1):
        own = np.flatnonzero((side * (values - start) > 0) & flip)
        if not len(own):
            continue
        outer = values[own[0] if side > 0 else own[-1]]
        between = values[(side * (values - start) > 0) & (side * (outer - values) > 0)]
        inner = start if not len(between) else float(between[-1] if side > 0 else between[0])
        found.append(_Bracket(column, start, spread, inner, float(outer), whole))
    return found


def _narrowed(
    row: pd.DataFrame, answer: Answer, before: int, brackets: Sequence[_Bracket]
) -> list[_Bracket]:
    """The brackets with their outer ends next to where the answer changes."""
    if not brackets:
        return []
    columns = np.array([b.column for b in brackets])
    inner, outer = (np.array([getattr(b, end) for b in brackets]) for end in ("inner", "outer"))
    first, each = outer, np.arange(len(brackets))
    parts = np.arange(1, _PARTS) / _PARTS
    for _ in range(_ROUNDS):
        points = inner[:, None] + (outer - inner)[:, None] * parts
        rows = _changed(row, np.repeat(columns, len(parts)), _objects(points.ravel()))
        flips = (answer(rows) != before).reshape(points.shape)
        points = np.column_stack([inner, points, outer])
        place = np.argmax(np.column_stack([flips, np.ones(len(brackets), dtype=bool)]), axis=1)
        inner, outer = points[each, place], points[each, place + 1]
    # Whole numbers stay whole: the next one beyond, if it changes the answer as well.
    whole = np.array([b.whole for b in brackets])
    beyond = np.where(outer > inner, np.ceil(outer), np.floor(outer))
    fits = answer(_changed(row, columns, _objects(beyond))) != before
    outer = np.where(whole, np.where(fits, beyond, first), outer)
    return [replace(b, outer=float(end)) for b, end in zip(brackets, outer, strict=True)]
