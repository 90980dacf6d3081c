"""The labels of a classification: their classes, the codes they become, and how much rows count.

Two classes are coded +-1 in one column, more as 0/1 indicators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.weights import Weights
from fisherkit.stored import stored


@stored("labels")
@dataclass(frozen=True)
class Labels:
    """The class of each row, as an index (n,) into the sorted ``classes`` (c,), and its weight.

    Rows that are many, or elsewhere, may be one row for each class with the weights of all of its
    rows: sums over classes are the same.
    """

    classes: Array
    index: Array
    weights: Weights

    @property
    def n_classes(self) -> int:
        return int(self.classes.shape[0])

    @property
    def n_decisions(self) -> int:
        """Columns of a decision: one signed number for two classes, otherwise one per class."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def values(self) -> Array:
        """The labels as users have written them; (n,)."""
        return decode(self.classes, self.index)

    @property
    def codes(self) -> Array:
        """Targets (n, n_decisions)."""
        return targets(self.index, self.n_classes, self.weights.v)

    @property
    def indicator(self) -> Array:
        """0/1 membership (n, c)."""
        return indicators(self.index, self.n_classes, self.weights.v)

    @property
    def counts(self) -> Array:
        """Weighted number of rows of each class; (c,)."""
        return self._sums(self.weights.v)

    @property
    def of_classes(self) -> Weights:
        """The weights of each class: copies of all of its rows, and their cost; (c,)."""
        copies = self._sums(self.weights.frequency)
        return Weights(copies, self.counts / copies)

    def take(self, rows: np.ndarray, frequency: Array | None = None) -> Labels:
        """Some of the rows, which may count otherwise; of the same classes."""
        xp, place = arrays.namespace(self.index), arrays.indices(rows, self.index)
        weights = self.weights.take(place)
        if frequency is not None:
            weights = Weights(frequency, weights.cost)
        return Labels(self.classes, xp.take(self.index, place, axis=0), weights)

    def _sums(self, values: Array) -> Array:
        host = np.bincount(
            arrays.to_numpy(self.index), weights=arrays.to_numpy(values), minlength=self.n_classes
        )
        return arrays.like(host, values)


def encode(y: Array, reference: Array) -> tuple[Array, Array]:
    """Sorted classes and the class index of each row, beside reference; strings stay NumPy."""
    xp = arrays.namespace(reference)
    if arrays.library(y) != arrays.library(reference):
        y = arrays.to_numpy(y)
        if not arrays.is_numpy(reference) and y.dtype.kind in "biuf":
            y = arrays.beside(y, reference)
    if arrays.is_numpy(y):
        classes, index = np.unique(y, return_inverse=True)
        return classes, arrays.indices(index, reference)
    unique = xp.unique_inverse(y)
    return unique.values, xp.astype(xp.reshape(unique.inverse_indices, (-1,)), xp.int64)


def decode(classes: Array, index: Array) -> Array:
    """Labels of class indices, in the namespace of the labels seen in fit."""
    if arrays.is_numpy(classes):
        return classes[arrays.to_numpy(index)]
    return arrays.namespace(classes).take(classes, index, axis=0)


def winners(decisions: Array) -> Array:
    """Index of the class decided for each row of decisions (n, 1) or (n, c)."""
    xp = arrays.namespace(decisions)
    if decisions.shape[1] == 1:
        return xp.astype(decisions[:, 0] > 0, xp.int64)
    return xp.argmax(decisions, axis=1)


def indicators(index: Array, n_classes: int, reference: Array) -> Array:
    """0/1 membership (n, c)."""
    xp = arrays.namespace(index)
    classes = arrays.indices(np.arange(n_classes), reference)
    return xp.astype(index[:, None] == classes[None, :], reference.dtype)


def targets(index: Array, n_classes: int, reference: Array) -> Array:
    """+-1 codes (n, 1) for two classes, indicators (n, c) otherwise."""
    Y = indicators(index, n_classes, reference)
    return Y[:, 1:] * 2 - 1 if n_classes == 2 else Y


def membership(Y: Array) -> Array:
    """0/1 membership (n, c) from the codes of `targets`."""
    xp = arrays.namespace(Y)
    if Y.shape[1] > 1:
        return Y
    return xp.astype(xp.concat([Y < 0, Y > 0], axis=1), Y.dtype)
