"""Which rows of a data set are equal, and draws of different ones, whatever their order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array

_MIXER = 0xBF58476D1CE4E5B9 - (1 << 64)  # the bits of a constant of splitmix64 as an integer


@dataclass(frozen=True)
class Distinct:
    """The u distinct rows of a data set, in an order that does not depend on that of the rows.

    ``key`` (u,) is a fingerprint of each row's values, ``first`` (u,) the first place where it
    occurs, and ``group`` (n,) says which of them each row is.
    """

    key: np.ndarray
    first: np.ndarray
    group: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray) -> Distinct:
        """From the fingerprint of each row."""
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        return cls(keys[first], first, group)

    @classmethod
    def rows(cls, X: Array) -> Distinct:
        """The different rows of X (n, d)."""
        return cls.of(fingerprints(X))

    @property
    def of_rows(self) -> np.ndarray:
        """The fingerprint of every row, (n,)."""
        return self.key[self.group]

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sum of values (n,) over equal rows; (u,)."""
        if len(self.first) == len(self.group):
            return values[self.first]
        return np.bincount(self.group, weights=values, minlength=len(self.first))

    def split(self, index: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows equal in x and class: the first place of each pair, and the pair of each row (n,).

        Ordered by x first, then class: the order does not depend on that of the rows.
        """
        joint = self.group.astype(np.int64) * n_classes + index
        _, first, group = np.unique(joint, return_index=True, return_inverse=True)
        return first, group

    def like(self, rows: np.ndarray) -> np.ndarray:
        """Mask (n,) of the rows that equal one of ``rows``."""
        chosen = np.zeros(len(self.first), dtype=bool)
        chosen[self.group[rows]] = True
        return chosen[self.group]

    def draw(self, chances: np.ndarray, size: int, seed: int) -> np.ndarray:
        """``size`` different rows, with probabilities in proportion to ``chances`` (n,).

        A race: a row's luck follows from its values and the seed alone, so shuffled, repeated
        and weighted versions of the same data draw the same rows.
        """
        total = self.total(chances)
        running = np.flatnonzero(total > 0)
        score = race(self.key[running], total[running], seed)
        winners = np.argpartition(-score, min(size, len(score)) - 1)[:size]
        return self.first[running[winners[np.argsort(-score[winners])]]]


def race(keys: np.ndarray, chances: np.ndarray, seed: int) -> np.ndarray:
    """Scores of rows with these fingerprints: the m highest are a draw without replacement.

    The probabilities are in proportion to ``chances``, which are positive.
    """
    return np.log(chances) - np.log(-np.log(_uniform(keys + np.uint64(seed))))


def race_seed(seed: int) -> int:
    """The seed of the races of a fit with this seed: in memory and on row blocks the same."""
    return int(np.random.RandomState(seed).randint(np.iinfo(np.int32).max))


def fingerprints(X: Array) -> np.ndarray:
    """A 64-bit hash of the values in each row; (n,), on the host."""
    drawn = np.random.RandomState(0).randint(1 << 62, size=X.shape[1], dtype=np.uint64)
    odd, keys = (2 * drawn + 1).view(np.int64), []
    n, d = X.shape
    for rows in arrays.row_blocks(n, d, arrays.preferred_elements(X) >> 5):
        bits = arrays.bits(X[rows, :])
        # Mixed first: sums of products alone would confuse rows that differ in a few bits.
        bits = (bits ^ _shifted(bits, 32)) * _MIXER
        mixed = (bits ^ _shifted(bits, 29)) * arrays.beside(odd, bits)
        keys.append(arrays.to_numpy(arrays.namespace(mixed).sum(mixed, axis=1)))
    return np.concatenate(keys).view(np.uint64)


def _shifted(bits: Array, places: int) -> Array:
    """Bits moved to the right, with zeros on the left."""
    return (bits >> places) & ((1 << (64 - places)) - 1)


def _uniform(keys: np.ndarray) -> np.ndarray:
    """Numbers in (0, 1) that look random, one for each key (the finaliser of splitmix64)."""
    z = keys * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54


def repeated_columns(K: np.ndarray, equal: float) -> np.ndarray:
    """Which columns of K (N, L) are an earlier one, to ``equal`` of its largest value; O(N L)."""
    key = np.cos(np.arange(len(K))) @ K  # equal columns have equal keys, others hardly ever
    key = np.round(key / (np.abs(key).max(initial=0.0) or 1.0), 11)
    _, first, run = np.unique(key, return_index=True, return_inverse=True)
    twin = first[run]
    repeated = twin < np.arange(len(key))
    A, B = K[:, repeated], K[:, twin[repeated]]
    repeated[repeated] = np.abs(A - B).max(axis=0) <= equal * np.abs(B).max(axis=0)
    return repeated
