"""The fit of many rows in an order that does not depend on theirs.

Rounding in single precision depends on the order of the rows. In an order that follows from their
values, shuffled and repeated versions of a table have the same fit to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.bias import Bias
from fisherkit.core.kernels import Gram
from fisherkit.core.ridge import Resolvent, Ridge
from fisherkit.core.solvers.limits import UNLIMITED, Limits
from fisherkit.core.solvers.refined import solve_refined
from fisherkit.core.solvers.sampled import half_held, solve_sampled
from fisherkit.core.solvers.symmetric import System
from fisherkit.core.weights import Weights


class Solved(NamedTuple):
    """A fit, tr(G)/n, and the method by which it was found.

    That is "cholesky", "conjugate" or "recomputed": conjugate gradients with K in memory nowhere.
    """

    ridge: Ridge
    unit: float
    method: str


def solve_many(
    gram: Gram,
    Y: Array,
    weights: Weights,
    bias: Bias,
    mu: float,
    order: np.ndarray,
    sample: int | None,
    limits: Limits = UNLIMITED,
) -> Solved | None:
    """The fit of `solve` (rkhs), computed in this order of the rows, within limits.

    Every row can be left out of it, or so many of them (`sample_size`), the last in the order.
    ``None`` where single precision has too few digits.
    """
    xp, place = arrays.namespace(Y), arrays.indices(order, Y)
    held = sample is None or half_held(gram.n, limits)
    Y_, weights_ = xp.take(Y, place, axis=0), weights.take(place)
    system = System.of(gram.taken(order), Y_, weights_, bias, mu, held=held)
    if sample is None:
        fit, method = solve_refined(system), "cholesky"
    else:
        fit, method = solve_sampled(system, np.arange(gram.n - sample, gram.n), limits)
    if fit is None:
        return None
    back = arrays.indices(np.argsort(order), Y)
    ridge = Ridge(
        Y=Y,
        weights=weights,
        B_diag=xp.take(fit.B_diag, back, axis=0),
        BY=xp.take(fit.BY, back, axis=0),
        scatter=fit.scatter,
        resolvent=OrderedResolvent(fit.resolvent, place, back),
        coef=xp.take(fit.coef, back, axis=0),
        intercept=fit.intercept,
    )
    return Solved(ridge, system.unit, method)


@dataclass(frozen=True)
class OrderedResolvent:
    """B(mu) of rows from that of the same rows in an ``order`` (n,); ``back`` is its inverse."""

    inner: Resolvent
    order: Array
    back: Array

    def diagonal(self) -> Array:
        return self._back(self.inner.diagonal(), 0)

    def block(self, rows: Array, columns: Array) -> Array:
        return self.inner.block(self._places(rows), self._places(columns))

    def strip(self, rows: Array) -> Array:
        """All columns of some rows, (b, n)."""
        return self._back(self.inner.strip(self._places(rows)), 1)

    def residuals(self, Y: Array) -> Array:
        ordered = arrays.namespace(Y).take(Y, self.order, axis=0)
        return self._back(self.inner.residuals(ordered), 0)

    def _places(self, rows: Array) -> Array:
        return arrays.namespace(self.back).take(self.back, rows, axis=0)

    def _back(self, values: Array, axis: int) -> Array:
        return arrays.namespace(values).take(values, self.back, axis=axis)
