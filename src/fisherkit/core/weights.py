"""Row weights, and what leaving a row out removes of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.stored import stored


@stored("weights")
@dataclass(frozen=True)
class Weights:
    """Row weights: ``frequency`` w counts copies of a row, ``cost`` c goes with each copy.

    Leaving a row out removes one copy, delta = c min(1, w) of its weight v = w c.
    """

    frequency: Array
    cost: Array
    v: Array = field(init=False)
    root: Array = field(init=False)
    delta: Array = field(init=False)
    uniform: bool = field(init=False)

    def __post_init__(self) -> None:
        xp = arrays.namespace(self.frequency)
        v = self.frequency * self.cost
        object.__setattr__(self, "v", v)
        object.__setattr__(self, "root", xp.sqrt(v))
        object.__setattr__(self, "delta", self.cost * xp.clip(self.frequency, None, 1.0))
        object.__setattr__(self, "uniform", bool(xp.all(v == 1)))

    @classmethod
    def unit(cls, reference: Array) -> Weights:
        """Weight one for each row of ``reference``."""
        ones = arrays.namespace(reference).ones_like(reference[:, 0])
        return cls(ones, ones)

    @property
    def total(self) -> float:
        """Number of rows, copies counted."""
        return float(arrays.namespace(self.frequency).sum(self.frequency))

    @property
    def mass(self) -> float:
        return float(arrays.namespace(self.v).sum(self.v))

    @property
    def emphasis(self) -> Array:
        """How much the error of approximating each row counts: v, but no less than the average.

        A row of little weight must still be predicted well. Two copies count twice.
        """
        xp = arrays.namespace(self.v)
        usual = min(1.0, self.total / self.frequency.shape[0])
        cost = xp.clip(self.cost, self.mass / self.total, None)
        return xp.clip(self.frequency, usual, None) * cost

    def left_out_denominator(self, B: Array) -> Array:
        """v - delta + delta B_ii, the share of a row that is left when one copy goes, times v.

        B (n, ...) has the B_ii along its first axis; no difference of numbers that are close.
        """
        extra = (slice(None), *(None,) * (len(B.shape) - 1))
        return (self.v - self.delta)[extra] + self.delta[extra] * B

    def left_out_derivatives(self, e: Array, B: Array) -> tuple[Array, Array, Array]:
        """Left-out residuals v e / (v - delta + delta B_ii) and their first two derivatives.

        e (n, k, 3) are residuals times root(v), with theirs, and B (n, 3) the B_ii with theirs.
        """
        s, delta = self.root[:, None], self.delta[:, None]
        D = self.left_out_denominator(B[:, :1])
        D1, D2 = delta * B[:, 1:2], delta * B[:, 2:]
        r = s * e[:, :, 0] / D
        r1 = (s * e[:, :, 1] - r * D1) / D
        r2 = (s * e[:, :, 2] - 2 * r1 * D1 - r * D2) / D
        return r, r1, r2

    def take(self, rows: Array) -> Weights:
        xp = arrays.namespace(self.v)
        return Weights(xp.take(self.frequency, rows, axis=0), xp.take(self.cost, rows, axis=0))

    def merge(self, first: np.ndarray, group: np.ndarray) -> Weights:
        """The weights of rows merged by value and class: copies add up, the first cost is kept."""
        copies = np.bincount(group, weights=arrays.to_numpy(self.frequency))
        rows = arrays.indices(first, self.cost)
        cost = arrays.namespace(self.cost).take(self.cost, rows, axis=0)
        return Weights(arrays.like(copies, self.frequency), cost)

    def of_classes(self, indicator: Array) -> Weights:
        """The weights of each class of rows with this membership (n, c): all copies, their cost."""
        return Weights.of_sums(self.frequency @ indicator, self.v @ indicator)

    @classmethod
    def of_sums(cls, copies: Array, mass: Array) -> Weights:
        """The weights of classes from the sums of w and v over their rows (c,)."""
        xp = arrays.namespace(copies)
        return cls(copies, mass / xp.where(copies > 0, copies, xp.ones_like(copies)))

    def mean(self, Y: Array) -> Array:
        """Weighted column means of Y (n, k)."""
        return arrays.namespace(Y).sum(self.v[:, None] * Y, axis=0) / self.mass

    def fold_mean(self, Y: Array) -> Array:
        """Column means of the rows that remain when row i is left out, for each i; (n, k)."""
        total = arrays.namespace(Y).sum(self.v[:, None] * Y, axis=0)
        return self.fold_mean_within(Y, total, self.mass)

    def fold_mean_within(self, Y: Array, total: Array, mass: float) -> Array:
        """`fold_mean` of rows of a larger set, whose weighted sum of Y and mass are given."""
        xp = arrays.namespace(Y)
        left = mass - self.delta
        left = xp.where(left > 0, left, xp.ones_like(left))
        return (total - self.delta[:, None] * Y) / left[:, None]
