"""A model taken apart: one kernel at one width after another, and the columns that each sees.

The numbers of a model, logits of a classifier or predictions of a regression, are

    sum over terms of  k(see(x), centres) coef,  plus an intercept.

Everything here is on the host: it serves questions about single rows and columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fisherkit.core import Kernel, arrays

_VALUES = 1 << 21  # kernel values held at once


@dataclass(frozen=True)
class Term:
    """k(see(x), centres) coef of a kernel that has its width and sees all that it is given.

    Attributes
    ----------
    kernel : Kernel
    columns : (p,) of int
        Columns of the features that it sees,
    shift, scale : (p,)
        as (x - shift) scale.
    centres : (m, p)
        As seen.
    places : (m,) of int
        Rows of the training data that the centres are.
    coef : (m, k)
    """

    kernel: Kernel
    columns: np.ndarray
    shift: np.ndarray
    scale: np.ndarray
    centres: np.ndarray
    places: np.ndarray
    coef: np.ndarray

    def see(self, X: np.ndarray) -> np.ndarray:
        """What the kernel sees (n, p) of features X (n, d)."""
        return (X[:, self.columns] - self.shift) * self.scale

    def values(self, X: np.ndarray) -> np.ndarray:
        """Kernel values (n, m) between features X (n, d) and the centres."""
        return self.kernel.block(self.see(X), self.centres)

    def players(self, sources: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """The columns of a table that the term sees, each with the places of its features.

        ``sources`` (d,) are the columns that all features come from.
        """
        own = sources[self.columns]
        return [(int(column), np.flatnonzero(own == column)) for column in np.unique(own)]

    def gap(self, seen: np.ndarray, places: np.ndarray, centres: np.ndarray) -> np.ndarray:
        """What some features of seen rows (b, p) add to the sum behind the values; (b, m)."""
        family, kernel = self.kernel.family, self.kernel
        total = family.gap(seen[:, places[0]], centres[:, places[0]], kernel)
        for place in places[1:]:
            total += family.gap(seen[:, place], centres[:, place], kernel)
        return total


@dataclass(frozen=True)
class Terms:
    """The sum of terms, plus an intercept (k,)."""

    parts: Sequence[Term]
    intercept: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The numbers of the model at features X (n, d); (n, k)."""
        longest = max([X.shape[1], *(len(part.centres) for part in self.parts)])
        numbers = np.zeros((len(X), self.k)) + self.intercept
        for rows in arrays.row_blocks(len(X), longest, _VALUES):
            for part in self.parts:
                numbers[rows] += part.values(X[rows]) @ part.coef
        return numbers

    @property
    def k(self) -> int:
        return len(self.intercept)

    def mapped(self, matrix: np.ndarray | None, offset: np.ndarray | float, slope: float) -> Terms:
        """The numbers ((sum) matrix + offset) slope; without a matrix it is the identity."""

        def through(values: np.ndarray) -> np.ndarray:
            return slope * (values if matrix is None else values @ matrix)

        parts = [replace(part, coef=through(part.coef)) for part in self.parts]
        return Terms(parts, through(self.intercept) + slope * offset)
