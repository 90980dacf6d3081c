"""The fit of very many rows, some of which are left out.

Leaving out every row takes the inverse of a Cholesky factor. Beyond `EVERY_ROW` rows the rows of a
sample are left out, and what rests on left-out scores then rests on those rows. Which they are
depends on the rows alone. The fit is a factor in single precision, refined, or conjugate gradients,
whichever is predicted to take less time on this machine. Coefficients are as accurate either way,
with predictions within 1e-7 of the largest target. Left-out residuals are within some 3e-4 of their
size at worst, 5e-5 as a rule, so that probabilities differ by some 1e-5 between the ways.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.ridge import Ridge
from fisherkit.core.solvers import conjugate, rates
from fisherkit.core.solvers.checkpoints import Checkpoint
from fisherkit.core.solvers.limits import UNLIMITED, Limits
from fisherkit.core.solvers.recomputed import solve_recomputed
from fisherkit.core.solvers.refined import Factored
from fisherkit.core.solvers.symmetric import System

EVERY_ROW = 12_000  # up to which all are left out
_LEAST, _MOST, _FOR_EACH = 500, 2000, 100  # sampled rows, and those for each column of targets
_RANK, _SHARE = 2000, 0.1  # of a preconditioner, at most, and of the rows
_INVERTED = 1.25  # times n^2 numbers that a fit by factorisation holds, a margin included
_COPIES = 2.5  # of the factor that making a preconditioner holds, in double precision
_FOR_RANK = 0.5  # of the memory, for these


def sample_size(n: int, k: int, reference: Array, limits: Limits = UNLIMITED) -> int | None:
    """How many of n rows with k columns of targets are left out; ``None`` for all of them."""
    many = n > EVERY_ROW and not arrays.on_accelerator(reference)
    if many or not limits.hold(_INVERTED * n * n):
        return min(max(_LEAST, _FOR_EACH * k), _MOST, n)
    return None


def expected_seconds(
    n: int,
    d: int,
    sample: int | None,
    limits: Limits = UNLIMITED,
    speed: rates.Rates | None = None,
) -> float:
    """Seconds of the fit of n rows that leaves out so many, or all of them; on this machine."""
    speed, rank = speed or rates.measured(), preconditioner_rank(n, limits)
    if sample is None:
        return speed.inverted(n)
    if not half_held(n, limits):
        return speed.recomputed(n, d, rank, sample)
    by_steps = speed.conjugate(n, rank, sample)
    return min(by_steps, speed.factored(n, sample)) if factor_held(n, limits) else by_steps


def preconditioner_rank(n: int, limits: Limits = UNLIMITED) -> int:
    """The rank of a preconditioner of n rows: as high as is worth it, and as memory holds."""
    rank = min(_RANK, int(_SHARE * n))
    if limits.memory is not None:
        rank = min(rank, int(_FOR_RANK * limits.memory / (8 * _COPIES * n)))
    return max(1, rank)


def half_held(n: int, limits: Limits) -> bool:
    """Whether memory holds half of the kernel matrix of n rows beside a preconditioner."""
    return limits.hold(n * n / 2 + _COPIES * n * preconditioner_rank(n, limits))


def factor_held(n: int, limits: Limits) -> bool:
    """Whether memory holds half of the kernel matrix beside a factor in single precision."""
    return limits.hold(_INVERTED * n * n)


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


def solve_sampled(
    system: System, rows: np.ndarray, limits: Limits = UNLIMITED
) -> tuple[Ridge | None, str]:
    """The fit of `solve` (rkhs) that knows how to leave out some rows, and by which method."""
    n, sample, speed = system.n, len(rows), rates.measured()
    if not system.held:
        P = conjugate.Preconditioner.of(system, preconditioner_rank(n, limits))
        checkpoint = Checkpoint(limits.checkpoint, system, rows)
        return leave_out(system, *solve_recomputed(system, P, rows, checkpoint), rows), "recomputed"
    found, method = None, "conjugate"
    rank, limit = preconditioner_rank(n, limits), speed.factored(n, sample)
    limit = limit if factor_held(n, limits) else math.inf
    if speed.conjugate(n, rank, sample) < limit:
        P = conjugate.Preconditioner.of(system, rank)
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
    if solved is None:
        return None
    parts: list[np.ndarray] = []
    for part in conjugate.inverse_diagonal(system, P, rows):
        if part is None:
            return None
        parts.append(part)
    return solved, arrays.like(np.concatenate(parts), solved)
