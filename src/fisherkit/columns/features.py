"""Columns of a table to features of a classifier, by what was seen of some rows.

A missing number is replaced by the median. Numbers have two views: "standard", scaled to variance
one, and "rank", their place among the training rows (equal numbers share one, others lie between),
scaled as well: kernels on it are blind to monotone changes of a column, as trees are. Texts become
one indicator for each level, not scaled, so that a mismatch adds 2 to the squared distance and to
the L1 distance. "missing" is a level, and all rare levels share an indicator with levels that were
never seen. Weights count copies of rows.

A column is looked at by itself, so that a table may be mapped from files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fisherkit.columns.frames import as_levels, column_parts, number_mask, replaced, row_parts
from fisherkit.core import View
from fisherkit.stored import stored

MISSING_LEVEL = "missing"

_RARE = 10  # a level with fewer rows is rare, in tables of 1,000 rows and more
_KNOTS = 1000  # numbers of a column between which ranks are straight
_ENOUGH = 3  # different numbers of a column, from which its ranks are something else


def rare_below(n_rows: float) -> float:
    """The number of rows below which a level is rare."""
    return max(2, min(_RARE, n_rows // 100))


@stored("levels of a column")
@dataclass(frozen=True)
class Levels:
    """The levels of a text that have an indicator each, and rare ones, which share one."""

    name: str
    known: list[str]
    rare: list[str]

    @property
    def width(self) -> int:
        return len(self.known) + bool(self.rare)

    @property
    def levels(self) -> list[str | None]:
        """Values with different indicators: known levels, a rare one, and a missing value."""
        levels = [*self.known, *self.rare[:1]]
        return [None if level == MISSING_LEVEL else level for level in levels]

    @property
    def feature_names(self) -> list[str]:
        names = [*self.known, *["other"] * bool(self.rare)]
        return [f"{self.name}: {level}" for level in names]

    @classmethod
    def of(cls, name: str, values: pd.Series, weights: np.ndarray | None, rare: float) -> Levels:
        """What a column has; levels of less weight than ``rare`` share an indicator."""
        codes, texts = coded(values)
        counts = np.bincount(codes, weights, minlength=len(texts))
        seen = [(text, count) for text, count in zip(texts, counts, strict=True) if count > 0]
        known = [text for text, count in seen if count >= rare]
        return cls(name, known, [text for text, count in seen if count < rare])

    def indicators(self, values: pd.Series) -> np.ndarray:
        """(n, width)."""
        codes, texts = coded(values)
        places = {level: place for place, level in enumerate(self.known)}
        rest = len(self.known) if self.rare else -1
        place = np.array([places.get(text, rest) for text in texts], dtype=int)[codes]
        found = np.zeros((len(values), self.width))
        told = np.flatnonzero(place >= 0)
        found[told, place[told]] = 1.0
        return found


@stored("numbers of a table")
@dataclass(frozen=True)
class Numbers:
    """What was seen of the columns that hold numbers, (p,) each.

    Column j has the places ``ranks[starts[j]:starts[j + 1]]`` at its ``knots``; one that has none
    has no view "rank" of its own.
    """

    names: list[str]
    median: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    starts: np.ndarray
    knots: np.ndarray
    ranks: np.ndarray

    @classmethod
    def of(
        cls,
        table: pd.DataFrame,
        weights: np.ndarray | None,
        rows: np.ndarray | None,
        *,
        ranks: bool,
    ) -> Numbers:
        centre, places = [], []
        for block in column_parts(table):
            for column in _matrix(block, rows).T:
                numbers = _Column.of(column, weights)
                centre.append((numbers.median, numbers.mean, numbers.scale))
                places.append(numbers.places() if ranks else np.empty((2, 0)))
        joined = np.concatenate(places, axis=1) if places else np.empty((2, 0))
        median, mean, scale = np.array(centre, dtype=float).reshape(-1, 3).T.copy()
        return cls(
            names=[str(name) for name in table.columns],
            median=median,
            mean=mean,
            scale=scale,
            starts=np.cumsum([0, *(part.shape[1] for part in places)]),
            knots=joined[0],
            ranks=joined[1],
        )

    @property
    def ranked(self) -> np.ndarray:
        """Columns that have a view "rank" of their own."""
        return np.flatnonzero(np.diff(self.starts))

    def knots_of(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers in ascending order, and their places."""
        own = slice(self.starts[column], self.starts[column + 1])
        return self.knots[own], self.ranks[own]

    def views(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Views "standard" (n, p) and "rank" (n, of those that have one) of numbers (n, p)."""
        X = np.where(np.isnan(X), self.median, X)
        places = [np.interp(X[:, j], *self.knots_of(j)) for j in self.ranked]
        ranks = np.column_stack(places) if places else np.empty((len(X), 0))
        return (X - self.mean) / self.scale, ranks


@dataclass(frozen=True)
class _Column:
    """Different numbers in ascending order, missing ones replaced, and their shares; (m,)."""

    median: float
    values: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, column: np.ndarray, weights: np.ndarray | None) -> _Column:
        known = ~np.isnan(column)
        if weights is None:  # sorting values is some times faster than sorting places
            values, copies = np.unique(column[known], return_counts=True)
        else:
            values, place = np.unique(column[known], return_inverse=True)
            copies = np.bincount(place, weights[known])
        if not len(values):
            return cls(0.0, np.zeros(1), np.ones(1))
        median = _median(values, copies)
        missing = float(len(column) - known.sum() if weights is None else weights[~known].sum())
        if missing:
            values, place = np.unique(np.append(values, median), return_inverse=True)
            copies = np.bincount(place, np.append(copies, missing))
        return cls(median, values, copies / copies.sum())

    @property
    def mean(self) -> float:
        unit = float(np.abs(self.values).max()) or 1.0  # sums of large numbers may overflow
        return float(self.shares @ (self.values / unit)) * unit

    @property
    def scale(self) -> float:
        """The standard deviation; 1 of a column of one value."""
        if len(self.values) == 1:
            return 1.0
        deviation = self.values - self.mean
        unit = float(np.abs(deviation).max())
        return float(np.sqrt(self.shares @ (deviation / unit) ** 2)) * unit or 1.0

    def places(self) -> np.ndarray:
        """Some of the numbers, and their places of mean 0 and variance 1; (2, knots)."""
        if len(self.values) < _ENOUGH:
            return np.empty((2, 0))
        upper = np.cumsum(self.shares)
        middle = upper - self.shares / 2
        middle = (middle - 0.5) / np.sqrt(self.shares @ (middle - 0.5) ** 2)
        some = np.arange(len(middle))
        if len(middle) > _KNOTS:
            inner = np.searchsorted(upper, np.linspace(0, 1, _KNOTS)[1:-1])
            some = np.unique(np.concatenate([[0], inner, [len(middle) - 1]]))
        return np.stack([self.values[some], middle[some]])


def _median(values: np.ndarray, copies: np.ndarray) -> float:
    """The middle of ascending values, or between the two that are."""
    total = np.cumsum(copies)
    half = total[-1] / 2
    place = int(np.searchsorted(total, half))
    if place + 1 < len(values) and total[place] == half:
        return float(values[place] / 2 + values[place + 1] / 2)
    return float(values[place])


@stored("features of a table")
@dataclass(frozen=True)
class Features:
    """From the columns of a table to the features (n, d) of a classifier.

    Columns of the features are those of the view "standard" of numbers, of their view "rank" where
    they have one, and indicators of the levels of texts.

    Examples
    --------
    >>> import pandas as pd
    >>> from fisherkit.columns.features import Features
    >>> table = pd.DataFrame({"size": [1.0, 2.0, 9.0], "colour": ["red", "red", None]})
    >>> features = Features.of(table)
    >>> features.names
    ['size', 'rank of size', 'colour: red', 'colour: other']
    >>> features.transform(table)[2].round(3).tolist()
    [1.405, 1.225, 0.0, 1.0]
    """

    columns: list[str]
    numbers: Numbers
    texts: list[Levels]

    @classmethod
    def of(
        cls,
        table: pd.DataFrame,
        weights: np.ndarray | None = None,
        rows: np.ndarray | None = None,
        *,
        ranks: bool = True,
    ) -> Features:
        """By what is seen of some rows of a table (``None``: all).

        ``weights`` (n,) are copies of these rows; without ``ranks`` there is no view "rank".
        """
        mask = number_mask(table)
        n = len(table) if rows is None else len(rows)
        rare = rare_below(n if weights is None else float(weights.sum()))
        texts = [
            Levels.of(str(name), _at(values, rows), weights, rare)
            for name, values in table.loc[:, ~mask].items()
        ]
        numbers = Numbers.of(table.loc[:, mask], weights, rows, ranks=ranks)
        return cls([str(name) for name in table.columns], numbers, texts)

    @property
    def names(self) -> list[str]:
        """The name of each feature."""
        numbers = self.numbers.names
        ranks = [f"rank of {numbers[j]}" for j in self.numbers.ranked]
        return numbers + ranks + [name for text in self.texts for name in text.feature_names]

    @property
    def sources(self) -> np.ndarray:
        """The place of the column that each feature comes from; (d,)."""
        place = {name: number for number, name in enumerate(self.columns)}
        numbers = [place[name] for name in self.numbers.names]
        ranks = [numbers[j] for j in self.numbers.ranked]
        levels = [place[text.name] for text in self.texts for _ in range(text.width)]
        return np.array(numbers + ranks + levels, dtype=int)

    @property
    def views(self) -> dict[str, View]:
        """What kernels may see; "rank" is there if it is something else than "standard"."""
        p, q = len(self.numbers.names), len(self.numbers.ranked)
        levels = np.arange(p + q, p + q + sum(text.width for text in self.texts))
        standard = np.arange(p)
        views = {"standard": View(np.append(standard, levels), name="standard")}
        if q:
            ranks = standard.copy()  # those without ranks of their own are seen as they are
            ranks[self.numbers.ranked] = p + np.arange(q)
            views["rank"] = View(np.append(ranks, levels), name="rank")
        return views

    def transform(self, table: pd.DataFrame) -> np.ndarray:
        """The features (n, d) of rows of a table with these columns."""
        parts = self.numbers.views(_matrix(table[self.numbers.names], None))
        levels = [text.indicators(table[text.name]) for text in self.texts]
        return np.concatenate([*parts, *levels], axis=1)

    def transformed(self, table: pd.DataFrame, rows: np.ndarray | None) -> Iterator[np.ndarray]:
        """Features of some rows of a mapped table (``None``: all), a part at a time."""
        width = max(table.shape[1], len(self.sources))
        for part in row_parts(table if rows is None else rows, width):
            yield self.transform(in_memory(table.iloc[part if rows is None else rows[part]]))


def coded(values: pd.Series) -> tuple[np.ndarray, list[str]]:
    """The place of each value in a list of different texts, and the list."""
    codes, levels = pd.factorize(values)
    texts = [*as_levels(pd.Series(levels)).tolist(), MISSING_LEVEL]
    codes = np.where(codes < 0, len(texts) - 1, codes)
    different = sorted(set(texts))  # values of several types may have one text
    place = {text: number for number, text in enumerate(different)}
    return np.array([place[text] for text in texts], dtype=int)[codes], different


def in_memory(part: pd.DataFrame) -> pd.DataFrame:
    """Some rows of a mapped table with texts as texts, not as places in a list of levels."""
    mapped = part.columns[part.dtypes == "category"]
    texts = {str(name): part[name].astype(object) for name in mapped}
    return replaced(part, texts).copy()  # one block for each type, not for each column


def _at(values: pd.Series, rows: np.ndarray | None) -> pd.Series:
    return values if rows is None else values.iloc[rows]


def _matrix(numbers: pd.DataFrame, rows: np.ndarray | None) -> np.ndarray:
    """Some rows of columns of numbers, NaN where missing."""
    some = numbers if rows is None else numbers.iloc[rows]
    return some.to_numpy(dtype=np.float64, na_value=np.nan)
