"""The fit of more rows than memory holds kernel values of, by conjugate gradients.

Steps take kernel values in single precision (`tiles`). A round of them ends where the residual is a
thousandth of what it was; it is then found again with values in double precision, and the next
round begins. Where that shows that single precision does not bring a round to its end,
steps take double precision, too. After the last round predictions are within 1e-7 of the largest
target (`System`), as those of a factorisation.

What a stopped solution needs to go on is written to a file from time to time (`Checkpoint`).
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.progress import Meter
from fisherkit.core.solvers.checkpoints import Checkpoint, State
from fisherkit.core.solvers.conjugate import Descent, Preconditioner, inverse_diagonal
from fisherkit.core.solvers.symmetric import WITHIN, System

log = logging.getLogger("fisherkit")

_ROUND = 1e-3  # of the residual, at which a round ends
_GAIN = 0.3  # of the residual, above which a round was in vain
_STEPS = 1000  # of a round: no fit that is any good takes as many
_COLUMN_STEPS = 200
_BEARABLE = 100.0  # times what is promised, where rounding allows no more
_PERCENT = 100


@dataclass
class Solution:
    """M^-1 b (n, k + 1) as far as it is found: ``X``, and the ``path`` of the round under way.

    ``start`` (k + 1,) are the residual norms at the beginning of that round, ``single`` says how
    kernel values are found. ``inner`` (q,) are the (M^-1)_ii of sampled rows, NaN where unknown.
    """

    X: Array
    path: Descent
    start: np.ndarray
    single: bool
    inner: np.ndarray
    steps: int = 0

    def state(self, rank: int) -> State:
        """What a file holds of it."""
        moving = {"R": self.path.R, "direction": self.path.direction, "size": self.path.size}
        return {
            "X": arrays.to_numpy(self.X),
            **{name: arrays.to_numpy(part) for name, part in moving.items()},
            "start": self.start,
            "single": np.array(self.single),
            "inner": self.inner,
            "steps": np.array(self.steps),
            "rank": np.array(rank),
        }

    @classmethod
    def begun(cls, system: System, P: Preconditioner, sample: int) -> Solution:
        path = Descent.of(P, system.both)
        return cls(0 * system.both, path, _norms(path.R), True, np.full(sample, np.nan))

    @classmethod
    def resumed(cls, system: System, P: Preconditioner, state: State, *, same: bool) -> Solution:
        """From a file; the round under way goes on where settings and preconditioner are the same.

        Otherwise a new one begins.
        """
        X = arrays.like(state["X"], system.both)
        if same and int(state["rank"]) == P.rank:
            names = ("R", "direction", "size")
            path = Descent(*(arrays.like(state[name], system.both) for name in names))
            start = state["start"]
        else:
            path = Descent.of(P, system.rest(X))
            start = _norms(path.R)
        inner, steps = state["inner"], int(state["steps"])
        return cls(X, path, start, bool(state["single"]), inner, steps)


def solve_recomputed(
    system: System, P: Preconditioner, rows: np.ndarray, checkpoint: Checkpoint
) -> tuple[Array, Array]:
    """M^-1 b (n, k + 1), as good as `System` says, and (M^-1)_ii of some rows (q,)."""
    found = checkpoint.read()
    if found is None:
        solution = Solution.begun(system, P, len(rows))
    else:
        solution = Solution.resumed(system, P, found[0], same=found[1])
        log.info("going on after %d steps, from %s", solution.steps, checkpoint.path)
    quick = system.quick

    def keep() -> None:
        checkpoint.write(solution.state(P.rank))

    try:
        _descend(system, quick, P, solution, checkpoint)
        missing = np.flatnonzero(np.isnan(solution.inner))
        parts = inverse_diagonal(quick, P, rows[missing], most=_COLUMN_STEPS)
        for part in parts:
            if part is None:
                raise ValueError(_lost(system, _COLUMN_STEPS, "left-out scores are not found"))
            solution.inner[missing[: len(part)]] = part
            missing = missing[len(part) :]
            if checkpoint.due():
                keep()
    except BaseException:
        keep()
        raise
    keep()
    return solution.X, arrays.like(solution.inner, system.Y)


def _descend(
    system: System, quick: System, P: Preconditioner, solution: Solution, checkpoint: Checkpoint
) -> None:
    """Rounds, until predictions are good enough."""
    meter, shown, first = Meter("conjugate gradients", _PERCENT, "percent"), 0, _norms(system.both)
    enough = arrays.to_numpy(system.enough)
    steps = 0
    while True:
        now = _norms(solution.path.R)
        far = _decades(now, enough) / max(_decades(first, enough), 1e-9)
        done = max(shown, int(_PERCENT * (1 - min(max(far, 0.0), 1.0))))
        meter.advance(done - shown)
        shown = done
        if steps == _STEPS and not solution.single:
            raise ValueError(_lost(system, solution.steps, "coefficients are not found"))
        if steps == _STEPS or np.all(now <= np.maximum(enough, _ROUND * solution.start)):
            R = system.rest(solution.X)  # free of the rounding of the steps
            if system.settled(R):
                return
            rest, steps = _norms(R), 0
            if np.any(rest > np.maximum(_GAIN * solution.start, enough)):
                if not solution.single:
                    _accept(system, rest, solution.steps)
                    return
                log.info("kernel values in double precision from step %d on", solution.steps)
                solution.single = False
            solution.path, solution.start = Descent.of(P, R), rest
            if checkpoint.due():
                checkpoint.write(solution.state(P.rank))
            continue
        more, path = solution.path.step(quick if solution.single else system, P)
        solution.X, solution.path = solution.X + more, path
        solution.steps, steps = solution.steps + 1, steps + 1
        log.debug("step %d: residual %.2g of what is enough", solution.steps, np.max(now / enough))
        if checkpoint.due():
            checkpoint.write(solution.state(P.rank))


def _accept(system: System, rest: np.ndarray, steps: int) -> None:
    """Take what rounding allows, if that is bearable, and say so."""
    worse = float(np.max(rest / arrays.to_numpy(system.enough)))
    within = f"{worse * WITHIN:.1g} of the largest target"
    if not worse <= _BEARABLE:
        raise ValueError(_lost(system, steps, f"predictions are within {within} at best"))
    log.warning("conjugate gradients: rounding leaves predictions within %s", within)


def _lost(system: System, steps: int, what: str) -> str:
    return (
        f"Conjugate gradients on {system.n} rows do not settle: {what} after {steps} steps at "
        f"mu={system.mu:.3g}. Raise regularization, raise max_memory, or take fewer centres "
        "(n_components)."
    )


def _norms(R: Array) -> np.ndarray:
    xp = arrays.namespace(R)
    return arrays.to_numpy(xp.sqrt(xp.sum(R * R, axis=0)))


def _decades(norms: np.ndarray, enough: np.ndarray) -> float:
    """Powers of ten between residuals and what is enough, of the column that has the most."""
    left = np.log10(np.maximum(norms, 1e-300) / np.maximum(enough, 1e-300))
    return float(np.max(left[np.isfinite(left)], initial=-math.inf))
