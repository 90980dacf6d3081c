"""Blocks of rows, what a pass over them has alive, and sums of features over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fisherkit.core import Array, Weights, arrays


@dataclass(frozen=True)
class Block:
    """Some rows of the data: features, targets (b, k), weights, and their places in the data."""

    X: Array
    Y: Array
    weights: Weights
    index: np.ndarray

    def rows(self, part: slice) -> Block:
        return Block(
            self.X[part, :],
            self.Y[part, :],
            Weights(self.weights.frequency[part], self.weights.cost[part]),
            self.index[part],
        )


class Numbers(NamedTuple):
    """How many floats a pass has alive: for each row of a block, and for each worker."""

    row: int
    state: int


def moment_numbers(m: int, d: int, k: int) -> Numbers:
    """The numbers that a pass has alive which takes the moments of m features."""
    return Numbers(2 * m + 2 * d + 4 * k, m * (m + k + 1))


@dataclass
class Sums:
    """Weighted sums over rows of m features: of their products (the upper triangle), of themselves,
    and of their products with k targets."""

    second: Array
    first: Array
    cross: Array

    @classmethod
    def zero(cls, m: int, k: int, reference: Array) -> Sums:
        return cls(*(arrays.zeros(shape, reference) for shape in ((m, m), (m,), (m, k))))

    def add(self, F: Array, block: Block) -> None:
        """Add the rows F (b, m), which are consumed; b m^2 flops."""
        w = block.weights
        weighted = arrays.namespace(F).concat([w.v[:, None] * block.Y, w.v[:, None]], axis=1)
        both = F.T @ weighted
        self.cross += both[:, :-1]
        self.first += both[:, -1]
        if not w.uniform:
            F *= w.root[:, None]
        arrays.add_gram(self.second, F)

    def merge(self, other: Sums) -> Sums:
        self.second += other.second
        self.first += other.first
        self.cross += other.cross
        return self

    def about_mean(self, span: float, mean: Array) -> tuple[Array, Array]:
        """``second``, all of it, and ``cross``, about the means of features and targets (k,).

        The means are over rows of mass ``span``; of an infinite one they are zero.
        """
        second = arrays.symmetric(self.second)
        second -= (self.first[:, None] * self.first[None, :]) / span
        return second, self.cross - self.first[:, None] * mean[None, :]
