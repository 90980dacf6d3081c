"""The Bayesian Fisher discriminant by expectation-maximisation: slow, and kept as an oracle.

The algorithm printed by Peña Centeno and Lawrence (2006) leaves the constraint on the class centres
out of the E-step; its objective then rewards a kernel that vanishes, and it collapses. With the
constrained posterior it climbs the same evidence as `fisherkit.bayes.evidence`, here not collapsed:
the parameters are those of the kernel in absolute units, its nugget and beta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, minimize

from fisherkit.bayes.evidence import RATE, SHAPE, SIDE, Contrasts, fixed_noise, resolvent
from fisherkit.bayes.learning import Sample
from fisherkit.core import LOG_BOUND, Covariance, arrays
from fisherkit.tuning import Climb, Ending

_MOST = 500  # iterations
_TOLERANCE = 1e-9  # relative rise of the objective per iteration that ends the climb


@dataclass(frozen=True)
class Parameters:
    """theta of the kernel in absolute units, the log nugget, and beta."""

    theta: np.ndarray
    log_nugget: float
    beta: float

    @property
    def relative(self) -> np.ndarray:
        """theta with the amplitude in units of the total noise, as the collapsed evidence has it.

        The kernel must have its amplitude first.
        """
        noise = 1 / self.beta + math.exp(self.log_nugget)
        return np.append(self.theta[0] - math.log(noise), self.theta[1:])


def compete(covariance: Covariance, sample: Sample, starts: Sequence[np.ndarray]) -> list[Climb]:
    """Iterate from every start; best first, parameters as the collapsed evidence has them."""
    climbs = []
    contrasts = Contrasts.of(sample.indicator, sample.weights)
    for start in starts:
        end, values = climb(covariance, sample.X, contrasts, sample.indicator, start)
        ending = Ending.CONVERGED if len(values) <= _MOST else Ending.EXHAUSTED
        climbs.append(Climb(start, end.relative, float(values[-1]), len(values) - 1, ending))
    return sorted(climbs, key=lambda one: -one.value)


def climb(
    covariance: Covariance,
    X: np.ndarray,
    contrasts: Contrasts,
    indicator: np.ndarray,
    start: np.ndarray,
) -> tuple[Parameters, np.ndarray]:
    """Iterate from ``start``, a total noise of one; parameters, and the objective by iteration.

    Rows count once: there are no weights here.
    """
    now = Parameters(start, math.log(0.5), 2.0)
    values = [log_joint(covariance, X, contrasts, now)]
    for _ in range(_MOST):
        second, within = _expect(covariance, X, contrasts, indicator, now)
        now = _maximise(covariance, X, contrasts, second, within, now)
        values.append(log_joint(covariance, X, contrasts, now))
        if values[-1] - values[-2] <= _TOLERANCE * abs(values[-1]):
            break
    return now, np.array(values)


def log_joint(
    covariance: Covariance, X: np.ndarray, contrasts: Contrasts, now: Parameters
) -> float:
    """log p(t, d | parameters) + log p(beta), the objective that never decreases."""
    factor = resolvent(covariance.symmetric(now.relative, X).values, contrasts.root)
    W = contrasts.Z.T @ arrays.cholesky_solve(factor, contrasts.Z)
    ratio = 1 + now.beta * math.exp(now.log_nugget)
    value = fixed_noise(W, contrasts, now.beta, ratio)
    return value - 0.5 * W.shape[0] * arrays.cholesky_log_det(factor)


def _expect(
    covariance: Covariance,
    X: np.ndarray,
    contrasts: Contrasts,
    indicator: np.ndarray,
    now: Parameters,
) -> tuple[np.ndarray, float]:
    """E[F F'] under the posterior with the class centres fixed, and its trace within classes."""
    n, k = len(X), contrasts.E.shape[1]
    K = covariance.symmetric(now.theta, X).values + math.exp(now.log_nugget) * np.eye(n)
    averages = indicator / contrasts.counts
    L = np.eye(n) - averages @ indicator.T
    free = np.linalg.solve(np.eye(n) + now.beta * K @ L, K)  # without the constraint
    a = averages @ contrasts.E
    gain = np.linalg.solve(a.T @ free @ a, a.T @ free).T
    mean = gain * (SIDE / math.sqrt(2))
    second = k * (free - gain @ (a.T @ free)) + mean @ mean.T
    return 0.5 * (second + second.T), float(np.sum(L * second))


def _maximise(
    covariance: Covariance,
    X: np.ndarray,
    contrasts: Contrasts,
    second: np.ndarray,
    within: float,
    now: Parameters,
) -> Parameters:
    """Kernel and nugget by L-BFGS on the expected log prior of F; beta in closed form."""
    n, c = len(X), len(contrasts.counts)
    k = c - 1
    everything = slice(0, n)

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        block, nugget = covariance.symmetric(x[:-1], X), math.exp(x[-1])
        inverse = np.linalg.inv(block.values + nugget * np.eye(n))
        solved = inverse @ second
        slope = 0.5 * (solved @ inverse - k * inverse)
        value = 0.5 * k * np.linalg.slogdet(inverse)[1] - 0.5 * np.trace(solved)
        gradient = np.append(
            block.pull([(everything, everything, slope)]), nugget * np.trace(slope)
        )
        return -value, -gradient

    bounds = np.vstack([covariance.bounds, [-LOG_BOUND, LOG_BOUND]])
    found = minimize(
        negative,
        np.append(now.theta, now.log_nugget),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(*bounds.T),
    )
    beta = (k * (n - c) + 2 * (SHAPE - 1)) / (within + 2 * RATE)
    return Parameters(found.x[:-1], float(found.x[-1]), beta)
