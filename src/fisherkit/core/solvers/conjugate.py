"""Conjugate gradients with a low-rank preconditioner: no factorisation of all rows.

P = F F' + D with F from a pivoted Cholesky factorisation of K of some rank, which leaves little of
its trace, and D such that P has the diagonal of M. Each column of M X = b has steps of its own. For
the columns e_i of sampled rows the diagonal of M^-1 alone is found. With x after some steps and the
residual r, both from P^-1 e_i on,

    (M^-1)_ii = x_i + r'M^-1 r,    about    x_i + r'P^-1 r,

whose error is that of P^-1 in the last term: an order smaller than the error of x_i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.basis import low_rank
from fisherkit.core.solvers.symmetric import System

_STEPS = 100  # beyond which a factorisation is quicker
_FEW = 10  # the same, for the columns of sampled rows
_STARTS = 3
_SEED = 0  # of the pivots: the draw depends on the values of rows, not on their order
_TOGETHER = 1 << 22  # numbers of columns solved for at the same time
_SMALL = 1e-3  # of (M^-1)_ii, of the term that P is good enough for


@dataclass(frozen=True)
class Preconditioner:
    """P^-1 = D^-1 - W C^-1 W' with W = D^-1 F (n, r), C = I + F'D^-1 F and its Cholesky factor."""

    D: Array
    W: Array
    factor: Array

    @classmethod
    def of(cls, system: System, rank: int) -> Preconditioner:
        """With F of this rank, and a column for a penalised bias; O(n r^2)."""
        gram, weights, variance = system.gram, system.weights, system.bias.variance
        xp, s = arrays.namespace(system.Y), weights.root
        rng = np.random.RandomState(_SEED)
        found = low_rank(gram, weights.v, 0.0, rng, max_rank=rank)
        assert found is not None  # a rank limit never gives up
        L = found.L
        left = xp.clip(gram.diagonal() - xp.sum(L * L, axis=0), 0.0, None)
        D = weights.v * left + system.mu
        F = arrays.narrow(L.T * s[:, None])
        if variance:
            F = xp.concat([F, arrays.cast(variance**0.5 * s[:, None], F.dtype)], axis=1)
        F *= arrays.cast(D**-0.5, F.dtype)[:, None]
        C = arrays.widen(F.T @ F)
        arrays.add_to_diagonal(C, 1.0)
        factor = arrays.cholesky(C)
        assert factor is not None  # C is I and more
        F *= arrays.cast(D**-0.5, F.dtype)[:, None]
        return cls(D, F, arrays.cast(factor, F.dtype))

    def __call__(self, R: Array) -> Array:
        """P^-1 R for R (n, k), in the precision of R; the product with W in its own."""
        inner = arrays.cholesky_solve(self.factor, self.W.T @ arrays.cast(R, self.W.dtype))
        Z = R / arrays.cast(self.D, R.dtype)[:, None]
        Z -= arrays.cast(self.W @ inner, R.dtype)
        return Z


def solve_all(system: System, P: Preconditioner) -> Array | None:
    """M^-1 b (n, k + 1), as good as `System` says; ``None`` where that takes too many steps."""
    X, R = 0 * system.both, system.both
    for _ in range(_STARTS):
        for step, left, _ in islice(descend(system, P, R), _STEPS):
            X = X + step
            if system.settled(left):
                break
        else:
            return None
        R = system.rest(X)  # free of the rounding of the steps
        if system.settled(R):
            return X
    return None


def inverse_diagonal(system: System, P: Preconditioner, rows: np.ndarray) -> Array | None:
    """(M^-1)_ii of some rows (q,), to some 1e-4; ``None`` where that takes too many steps."""
    parts = []
    for some in arrays.row_blocks(len(rows), system.n, _TOGETHER):
        found = _diagonal(system, P, arrays.indices(rows[some], system.Y))
        if found is None:
            return None
        parts.append(found)
    return arrays.namespace(system.Y).concat(parts, axis=0)


def _diagonal(system: System, P: Preconditioner, rows: Array) -> Array | None:
    xp = arrays.namespace(system.Y)
    everyone = arrays.indices(np.arange(system.n), system.Y)
    E = xp.astype(everyone[:, None] == rows[None, :], P.W.dtype)
    known = xp.zeros_like(E[0, :])
    for step, _, rest in islice(descend(system, P, E), _FEW):
        known = known + xp.sum(E * step, axis=0)
        if bool(xp.all(rest <= _SMALL * known)):
            return arrays.widen(known + rest)
    return None


def descend(system: System, P: Preconditioner, R: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Steps towards M^-1 R: what each adds, the residual after it, and r'P^-1 r (k,)."""
    xp = arrays.namespace(R)
    Z = direction = P(R)
    size = xp.sum(R * Z, axis=0)
    while True:
        image = system.times(direction)
        length = _ratio(size, xp.sum(direction * image, axis=0))
        R = R - length * image
        Z, before = P(R), size
        size = xp.sum(R * Z, axis=0)
        yield length * direction, R, size
        direction = Z + _ratio(size, before) * direction


def _ratio(a: Array, b: Array) -> Array:
    """a / b, or 0 for a column that is solved."""
    xp = arrays.namespace(a)
    return xp.where(b > 0, a / xp.where(b > 0, b, xp.ones_like(b)), xp.zeros_like(a))
