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

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.basis import low_rank
from fisherkit.core.progress import Meter
from fisherkit.core.solvers.symmetric import System

_STEPS = 100  # beyond which a factorisation is quicker
_FEW = 20  # the same, for the columns of sampled rows
_STARTS = 3
_COUNTED = 13.0  # steps with a preconditioner that leaves no more than mu
_SEED = 0  # of the pivots: the draw depends on the values of rows, not on their order
_TOGETHER = 5 << 20  # numbers of columns solved for at the same time
_COLUMNS = 128  # of them at least, where kernel values are found anew for each product
_SMALL = 5e-4  # of (M^-1)_ii: the largest last term that P is good enough for


@dataclass(frozen=True)
class Preconditioner:
    """P^-1 = D^-1 - W C^-1 W' with W = D^-1 F (n, r), C = I + F'D^-1 F and its Cholesky factor.

    How many steps it needs is about as on tables where they were counted: ``all_steps`` by the
    largest value that is left on the diagonal, ``column_steps`` by the mean one, in units of mu.
    """

    D: Array
    W: Array
    factor: Array
    all_steps: float
    column_steps: float

    @property
    def rank(self) -> int:
        return self.W.shape[1]

    @classmethod
    def of(cls, system: System, rank: int) -> Preconditioner:
        """With F of this rank, and a column for a penalised bias; O(n r^2)."""
        gram, weights, variance = system.gram, system.weights, system.bias.variance
        xp, s = arrays.namespace(system.Y), weights.root
        rng = np.random.RandomState(_SEED)
        found = low_rank(gram, weights.v, 0.0, rng, max_rank=rank)
        assert found is not None  # a rank limit never gives up
        r, n = found.L.shape
        columns = r + 1 if variance else r
        F = arrays.empty((n, columns), arrays.narrow(system.Y[:1, :]))
        left = gram.diagonal()
        for rows in arrays.row_blocks(n, columns):  # no second matrix of this size
            part = found.L[:, rows].T
            left[rows] -= xp.sum(part * part, axis=1)
            F[rows, :r] = arrays.cast(part * s[rows, None], F.dtype)
        del found, part
        if variance:
            F[:, r] = arrays.cast(variance**0.5 * s, F.dtype)
        left = weights.v * xp.clip(left, 0.0, None) / system.mu
        D = system.mu * (1 + left)
        F *= arrays.cast(D**-0.5, F.dtype)[:, None]
        C = arrays.widen(F.T @ F)
        arrays.add_to_diagonal(C, 1.0)
        factor = arrays.cholesky(C)
        assert factor is not None  # C is I and more
        F *= arrays.cast(D**-0.5, F.dtype)[:, None]
        return cls(
            D=D,
            W=F,
            factor=arrays.cast(factor, F.dtype),
            all_steps=_COUNTED * max(1.0, float(xp.max(left))) ** 0.5,
            column_steps=1.3 + 4.0 * float(xp.mean(left)) ** 0.5,
        )

    def __call__(self, R: Array) -> Array:
        """P^-1 R for R (n, k), in the precision of R; the product with W in its own."""
        inner = arrays.cholesky_solve(self.factor, self.W.T @ arrays.cast(R, self.W.dtype))
        Z = R / arrays.cast(self.D, R.dtype)[:, None]
        Z -= arrays.cast(self.W @ inner, R.dtype)
        return Z


@dataclass(frozen=True)
class Descent:
    """Where columns of M X = b have come to: residuals, directions (n, k) and r'P^-1 r (k,)."""

    R: Array
    direction: Array
    size: Array

    @classmethod
    def of(cls, P: Preconditioner, R: Array) -> Descent:
        """The beginning."""
        Z = P(R)
        return cls(R, Z, arrays.namespace(R).sum(R * Z, axis=0))

    def step(self, system: System, P: Preconditioner) -> tuple[Array, Descent]:
        """What the next step adds to X, and where it leads."""
        xp, image = arrays.namespace(self.R), system.times(self.direction)
        length = _ratio(self.size, xp.sum(self.direction * image, axis=0))
        R = self.R - length * image
        Z = P(R)
        size = xp.sum(R * Z, axis=0)
        direction = Z + _ratio(size, self.size) * self.direction
        return length * self.direction, Descent(R, direction, size)

    def taken(self, columns: Array) -> Descent:
        """Some of the columns."""
        xp = arrays.namespace(self.R)
        return Descent(
            R=xp.take(self.R, columns, axis=1),
            direction=xp.take(self.direction, columns, axis=1),
            size=xp.take(self.size, columns, axis=0),
        )


def solve_all(system: System, P: Preconditioner) -> Array | None:
    """M^-1 b (n, k + 1), as good as `System` says; ``None`` where that takes too many steps."""
    X, R = 0 * system.both, system.both
    for _ in range(_STARTS):
        path, steps = Descent.of(P, R), 0
        while not system.settled(path.R):
            if steps == _STEPS:
                return None
            more, path = path.step(system, P)
            X, steps = X + more, steps + 1
        R = system.rest(X)  # free of the rounding of the steps
        if system.settled(R):
            return X
    return None


def inverse_diagonal(
    system: System, P: Preconditioner, rows: np.ndarray, most: int | None = None
) -> Iterator[np.ndarray | None]:
    """(M^-1)_ii of some rows (q,), part after part, to some 3e-4 at worst and 5e-5 as a rule.

    A part is ``None`` where it takes too many steps, or more than ``most``.
    """
    meter = Meter("leaving out rows", len(rows))
    together = max(_TOGETHER, 0 if system.held else _COLUMNS * system.n)
    for some in arrays.row_blocks(len(rows), system.n, together):
        yield _diagonal(system, P, rows[some], most or _FEW)
        meter.advance(some.stop - some.start)


def _diagonal(system: System, P: Preconditioner, rows: np.ndarray, most: int) -> np.ndarray | None:
    """`inverse_diagonal` of rows solved for together, each for as long as it needs."""
    xp, place = arrays.namespace(system.Y), arrays.indices(rows, system.Y)
    everyone = arrays.indices(np.arange(system.n), system.Y)
    path = Descent.of(P, xp.astype(everyone[:, None] == place[None, :], P.W.dtype))
    found, iterate, left = np.empty(len(rows)), np.zeros(len(rows)), np.arange(len(rows))
    for _ in range(most):
        more, path = path.step(system, P)
        iterate, last = iterate + _own(more, rows[left]), arrays.to_numpy(path.size)
        done = last <= _SMALL * iterate
        found[left[done]] = (iterate + last)[done]
        if np.all(done):
            return found
        left, iterate = left[~done], iterate[~done]
        path = path.taken(arrays.indices(np.flatnonzero(~done), system.Y))
    return None


def _own(columns: Array, rows: np.ndarray) -> np.ndarray:
    """The entry of each column (n, k) in the row that belongs to it (k,)."""
    places = arrays.indices(rows * columns.shape[1] + np.arange(len(rows)), columns)
    xp = arrays.namespace(columns)
    return arrays.to_numpy(xp.take(xp.reshape(columns, (-1,)), places, axis=0))


def _ratio(a: Array, b: Array) -> Array:
    """a / b, or 0 for a column that is solved."""
    xp = arrays.namespace(a)
    return xp.where(b > 0, a / xp.where(b > 0, b, xp.ones_like(b)), xp.zeros_like(a))
