"""One Cholesky factorisation in single precision, refined: half the time of double."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.bias import Bias
from fisherkit.core.canonical import trace_unit
from fisherkit.core.kernels import Gram
from fisherkit.core.ridge import Ridge
from fisherkit.core.solvers.symmetric import System, UpperBlocks
from fisherkit.core.weights import Weights

_REFINEMENTS = 8  # a factor that needs more has too few digits


@dataclass(frozen=True)
class HalfResolvent:
    """B(mu) = mu (H'H - share a a') from H (n, n), the inverse of a Cholesky factor."""

    half: Array
    a: Array
    share: float
    mu: float
    root: Array

    def diagonal(self) -> Array:
        xp = arrays.namespace(self.half)
        n = self.a.shape[0]
        parts = [self.half[some.start :, some] for some in arrays.row_blocks(n, n)]
        squares = xp.concat([xp.sum(part * part, axis=0) for part in parts], axis=0)
        return self.mu * (arrays.widen(squares) - self.share * self.a * self.a)

    def block(self, rows: Array, columns: Array) -> Array:
        xp = arrays.namespace(self.half)
        left, right = (xp.take(self.half, places, axis=1) for places in (rows, columns))
        a, b = (xp.take(self.a, places, axis=0) for places in (rows, columns))
        product = arrays.widen(left.T @ right)
        return self.mu * (product - (self.share * a)[:, None] * b[None, :])

    def strip(self, rows: Array) -> Array:
        """All columns of some rows, (b, n)."""
        return self.block(rows, arrays.indices(np.arange(self.a.shape[0]), self.a))

    def residuals(self, Y: Array) -> Array:
        whitened = self.root[:, None] * Y
        inner = self.half.T @ (self.half @ arrays.cast(whitened, self.half.dtype))
        outer = self.a[:, None] * (self.share * (self.a @ whitened))[None, :]
        return self.mu * (arrays.widen(inner) - outer)


def solve_refined(
    gram: Gram, Y: Array, weights: Weights, bias: Bias, mu: float
) -> tuple[Ridge, float] | None:
    """The fit of `solve` (rkhs) by a factor in single precision, in half the time.

    Coefficients are refined with a kernel matrix in double precision until predictions are within
    1e-7 of the largest target (`System`); left-out denominators have the digits of the factor.
    ``None`` where it has too few. Memory is that of K in double precision.
    """
    xp, s, n = arrays.namespace(Y), weights.root, gram.n
    unit = trace_unit(float(weights.v @ gram.diagonal()), weights.total)
    system = System.of(gram, UpperBlocks.held(gram), Y, weights, bias, mu)
    factor = _factor(system, n)
    if factor is None:
        return None
    solved, rest = xp.zeros_like(system.both), system.both
    for _ in range(_REFINEMENTS):
        step = arrays.cholesky_solve(factor, arrays.cast(rest, factor.dtype))
        solved = solved + arrays.widen(step)
        rest = system.rest(solved)
        if system.solved(rest):
            break
    else:
        return None
    targets = system.both[:, :-1]
    alpha, intercept, share = bias.eliminate(solved, s, targets)
    resolvent = HalfResolvent(arrays.inverse_half(factor), solved[:, -1], share, mu, s)
    ridge = Ridge(
        Y=Y,
        weights=weights,
        B_diag=resolvent.diagonal(),
        BY=mu * alpha,
        scatter=mu * (targets.T @ alpha),
        resolvent=resolvent,
        coef=s[:, None] * alpha,
        intercept=intercept,
    )
    return ridge, unit


def _factor(system: System, n: int) -> Array | None:
    """The Cholesky factor of G~ + mu I in single precision; ``None`` where there is none."""
    s, G = system.s, None
    for place, rows in enumerate(system.K.rows):
        part = (system.K.block(place) + system.variance) * s[None, rows.start :]
        part = arrays.narrow(part * s[rows, None])
        G = arrays.empty((n, n), part) if G is None else G
        arrays.set_symmetric(G, rows, part)
    assert G is not None
    arrays.add_to_diagonal(G, system.mu)
    return arrays.cholesky(G)
