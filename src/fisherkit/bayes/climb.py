"""Climbing a smooth objective from several starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from scipy.optimize import Bounds, minimize

from fisherkit.core import Meter, NotPositiveError
from fisherkit.stored import stored
from fisherkit.tuning import log

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]  # value and gradient

_SCREEN = 5  # iterations after which the best start goes on alone
_NEAR = 1e-3  # distance from a bound that counts as being there
_STEEP = 1.0  # gradient that no maximum has (or a thousandth of the objective)
_FLAT = 1e-10  # gradient of a plateau


@stored("ending of a climb")
class Ending(Enum):
    """How a climb ended."""

    CONVERGED = "the objective has a maximum inside the bounds"
    AT_BOUND = (
        "the objective keeps rising towards a bound of the kernel parameters: the classes are "
        "separable without noise, or a part of the kernel is not needed"
    )
    STALLED = (
        "the line search ended before a maximum was reached: the kernel may overflow, or rounding "
        "errors may dominate the objective; scale the features, or start elsewhere"
    )
    FLAT = (
        "the objective is flat at the start: under this kernel no row is near another; scale "
        "the features, or start elsewhere"
    )
    SCREENED = "ended after a few steps, as another start was better"
    EXHAUSTED = "the largest number of iterations was reached before a maximum"


@stored("climb")
@dataclass(frozen=True)
class Climb:
    """One start: where it began, where it ended, and the objective and its gradient there."""

    start: np.ndarray
    theta: np.ndarray
    value: float
    evaluations: int
    ending: Ending
    slope: np.ndarray | None = None


def promising(
    value: Callable[[np.ndarray], float], grid: Sequence[np.ndarray], count: int
) -> list[np.ndarray]:
    """The ``count`` points of the grid where the objective is largest, best first."""
    prices = np.array([value(theta) for theta in grid])
    return [grid[i] for i in np.argsort(-prices, kind="stable")[:count]]


def maximise(
    objective: Objective, starts: Sequence[np.ndarray], bounds: np.ndarray, *, max_iter: int = 200
) -> list[Climb]:
    """Climb from every start for a few steps, then from the best to the top; best first."""
    alone = len(starts) == 1
    climbs = [_climb(objective, start, bounds, max_iter if alone else _SCREEN) for start in starts]
    climbs.sort(key=lambda climb: -climb.value)
    best = climbs[0]
    if best.ending is Ending.EXHAUSTED and not alone:
        top = _climb(objective, best.theta, bounds, max_iter)
        best = replace(top, start=best.start, evaluations=best.evaluations + top.evaluations)
    losers = [
        replace(climb, ending=Ending.SCREENED) if climb.ending is Ending.EXHAUSTED else climb
        for climb in climbs[1:]
    ]
    return [best, *losers]


def _climb(objective: Objective, start: np.ndarray, bounds: np.ndarray, max_iter: int) -> Climb:
    """L-BFGS within the bounds."""
    start = np.clip(start, bounds[:, 0], bounds[:, 1])
    seen: list[float] = []
    meter = Meter("climbing the objective", max_iter, "steps at most")

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            value, gradient = objective(theta)
        except NotPositiveError:  # rounding swamps the noise here: the line search steps back
            if not seen:
                raise
            return max(seen) + 1e3 * (1 + abs(max(seen))), np.zeros_like(theta)
        seen.append(-value)
        return -value, -gradient

    found = minimize(
        negative,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(*bounds.T),
        callback=lambda theta: meter.advance(),
        options={"maxiter": max_iter, "gtol": 1e-2, "ftol": 1e-7},
    )
    ending = _ending(found, bounds, max_iter)
    log.info(
        "objective %.6g after %d evaluations (%s)", -found.fun, found.nfev, ending.name.lower()
    )
    return Climb(start, found.x, -float(found.fun), int(found.nfev), ending, -found.jac)


def _ending(found: Any, bounds: np.ndarray, max_iter: int) -> Ending:
    at_bound = np.abs(found.x[:, None] - bounds) < _NEAR
    slope = np.where(np.any(at_bound, axis=1), 0.0, found.jac)
    if found.nit >= max_iter:
        return Ending.EXHAUSTED
    if len(slope) and np.max(np.abs(slope)) > _STEEP * max(1.0, 1e-3 * abs(found.fun)):
        return Ending.STALLED
    if np.any(at_bound):
        return Ending.AT_BOUND
    if found.nit == 0 and np.max(np.abs(found.jac), initial=0.0) < _FLAT and len(slope):
        return Ending.FLAT
    return Ending.CONVERGED
