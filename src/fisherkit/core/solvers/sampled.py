"""The fit of very many rows, some of which are left out.

Leaving out every row takes the inverse of a Cholesky factor. Beyond `EVERY_ROW` rows the rows of a
sample are left out, and what rests on left-out scores then rests on those rows. Which they are
depends on the rows alone. The fit is a factor in single precision, refined, or conjugate gradients,
whichever is predicted to take less time on this machine. Coefficients are as accurate either way,
with predictions within 1e-7 of the largest target. Left-out residuals are within some 3e-4 of their
size at worst, 5e-5 as a rule, so that probabilities differ by some 1e-5 between the ways.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.ridge import Ridge
from fisherkit.core.solvers import conjugate, rates
from fisherkit.core.solvers.refined import Factored
from fisherkit.core.solvers.symmetric import System

EVERY_ROW = 12_000  # up to which all are left out
_LEAST, _MOST, _FOR_EACH = 500, 2000, 100  # sampled rows, and those for each column of targets
_RANK, _SHARE = 2000, 0.1  # of a preconditioner, at most, and of the rows


def sample_size(n: int, k: int, reference: Array) -> int | None:
    """How many of n rows with k columns of targets are left out; ``None`` for all of them."""
    if n <= EVERY_ROW or arrays.on_accelerator(reference):
        return None
    return min(max(_LEAST, _FOR_EACH * k), _MOST, n)


def expected_seconds(n: int, sample: int | None) -> float:
    """Seconds of the fit of n rows that leaves out so many, or all of them."""
    speed = rates.measured()
    if sample is None:
        return speed.inverted(n)
    return min(speed.conjugate(n, _rank(n), sample), speed.factored(n, sample))


def _rank(n: int) -> int:
    return min(_RANK, int(_SHARE * n))


@dataclass(frozen=True)
class SampledResolvent:
    """The diagonal of B(mu) for sampled rows; NaN for the others."""

    known: Array

    def diagonal(self) -> Array:
        return self.known

    def block(self, rows: Array, columns: Array) -> Array:
        raise ValueError(_UNKNOWN)

    def strip(self, rows: Array) -> Array:
        raise ValueError(_UNKNOWN)

    def residuals(self, Y: Array) -> Array:
        raise ValueError(_UNKNOWN)


_UNKNOWN = (
    "This fit to many rows has left out a sample of them alone. Give numbers for gamma and "
    "regularization: every row is then left out, which takes longer."
)


def solve_sampled(system: System, rows: np.ndarray) -> tuple[Ridge | None, str]:
    """The fit of `solve` (rkhs) that knows how to leave out some rows, and by which method."""
    n, sample, speed = system.n, len(rows), rates.measured()
    found, method = None, "conjugate"
    limit = speed.factored(n, sample)
    if speed.conjugate(n, _rank(n), sample) < limit:
        P = conjugate.Preconditioner.of(system, _rank(n))
        if speed.steps(n, sample, P.all_steps, P.column_steps) < limit:
            found = _by_steps(system, P, rows)
    if found is None:
        factored, method = Factored.of(system), "cholesky"
        if factored is None:
            return None, method
        found = factored.solved, factored.inverse_diagonal(rows)
    return leave_out(system, *found, rows), method


def leave_out(system: System, solved: Array, inner: Array, rows: np.ndarray) -> Ridge:
    """The fit from M^-1 b, with (M^-1)_ii (q,) of the rows that can be left out."""
    xp, place = arrays.namespace(solved), arrays.indices(rows, solved)
    a = xp.take(solved[:, -1], place, axis=0)
    known = np.full(system.n, np.nan)
    known[rows] = arrays.to_numpy(system.mu * (inner - system.share(solved) * a * a))
    return system.ridge(solved, SampledResolvent(arrays.like(known, solved)))


def _by_steps(
    system: System, P: conjugate.Preconditioner, rows: np.ndarray
) -> tuple[Array, Array] | None:
    """M^-1 b and (M^-1)_ii of some rows (q,) by conjugate gradients."""
    solved = conjugate.solve_all(system, P)
    inner = None if solved is None else conjugate.inverse_diagonal(system, P, rows)
    return None if solved is None or inner is None else (solved, inner)
