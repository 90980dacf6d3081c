"""One Cholesky factorisation in single precision, refined: half the time of double."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.ridge import Ridge
from fisherkit.core.solvers.symmetric import System, UpperBlocks

_REFINEMENTS = 8  # a factor that needs more has too few digits
_TOGETHER = 5 << 20  # numbers of columns solved for at the same time


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
        size = max(arrays.BLOCK_ELEMENTS, arrays.accelerator_elements(self.half))
        parts = [self.half[some.start :, some] for some in arrays.row_blocks(n, n, size)]
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


def solve_refined(system: System) -> Ridge | None:
    """The fit of `solve` (rkhs) by a factor in single precision, in half the time.

    Coefficients are refined with a kernel matrix in double precision until predictions are within
    1e-7 of the largest target (`System`); left-out denominators have the digits of the factor.
    ``None`` where it has too few. Memory is that of K in double precision.
    """
    found = Factored.of(system)
    if found is None:
        return None
    half, share = arrays.inverse_half(found.factor), system.share(found.solved)
    a, root = found.solved[:, -1], system.weights.root
    return system.ridge(found.solved, HalfResolvent(half, a, share, system.mu, root))


@dataclass(frozen=True)
class Factored:
    """A system with the factor of M in single precision, and M^-1 b refined with it."""

    system: System
    factor: Array
    solved: Array

    @classmethod
    def of(cls, system: System) -> Factored | None:
        """``None`` where the factor has too few digits."""
        factor = _factor(system)
        if factor is None:
            return None
        solved, rest = 0 * system.both, system.both
        for _ in range(_REFINEMENTS):
            step = arrays.cholesky_solve(factor, arrays.cast(rest, factor.dtype))
            solved = solved + arrays.widen(step)
            rest = system.rest(solved)
            if system.settled(rest):
                return cls(system, factor, solved)
        return None

    def inverse(self, R: Array) -> Array:
        """M^-1 R (n, t), to the digits of the factor."""
        return arrays.widen(arrays.cholesky_solve(self.factor, arrays.cast(R, self.factor.dtype)))

    def inverse_diagonal(self, rows: np.ndarray) -> Array:
        """(M^-1)_ii of some rows (q,): the squared length of L^-1 e_i, L the factor."""
        xp, parts = arrays.namespace(self.factor), []
        everyone = arrays.indices(np.arange(self.system.n), self.factor)
        for some in arrays.row_blocks(len(rows), self.system.n, _TOGETHER):
            place = arrays.indices(rows[some], self.factor)
            E = xp.astype(everyone[:, None] == place[None, :], self.factor.dtype)
            half = arrays.solve_lower(self.factor, E)
            parts.append(xp.sum(half * half, axis=0))
        return arrays.widen(xp.concat(parts, axis=0))


def _factor(system: System) -> Array | None:
    """The Cholesky factor of M in single precision; ``None`` where there is none."""
    s, variance, n, G = system.weights.root, system.bias.variance, system.n, None
    assert isinstance(system.K, UpperBlocks)  # what is factored fits in memory
    for rows, block in zip(system.K.rows, system.K.blocks, strict=True):
        part = (block + variance) * s[None, rows.start :]
        part = arrays.narrow(part * s[rows, None])
        G = arrays.empty((n, n), part) if G is None else G
        arrays.set_symmetric(G, rows, part)
    assert G is not None
    arrays.add_to_diagonal(G, system.mu)
    return arrays.cholesky(G)
