"""The Bayesian Fisher discriminant by expectation-maximisation: the slow way to the same optimum.

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

from fisherkit import BayesianFisherClassifier
from fisherkit.bayes import Climb, Ending
from fisherkit.bayes.evidence import RATE, SHAPE, SIDE, Contrasts, _constant, resolvent
from fisherkit.bayes.learning import Learned, Sample
from fisherkit.core import LOG_BOUND, Covariance, arrays

_MOST = 500  # iterations
_TOLERANCE = 1e-9  # relative rise of the objective per iteration that ends the climb


class FisherByEM(BayesianFisherClassifier):
    """The classifier whose kernel parameters are found by `compete`; rows count once.

    With widths of their own for the features there is no hyper-prior.
    """

    def _learn(self, sample: Sample, rng: np.random.RandomState) -> Learned:
        if sample.U is not None or self.evidence != "fisher":
            raise ValueError("expectation-maximisation needs every row and evidence='fisher'.")
        n_classes = sample.indicator.shape[1]
        spare = (n_classes - 1) * (sample.weights.total - n_classes)
        if not sample.weights.uniform or spare < 2:
            raise ValueError("expectation-maximisation needs rows enough, which count once.")
        return super()._learn(sample, rng)

    def _climb(self, sample: Sample, covariance: Covariance, starts: list[np.ndarray]) -> Learned:
        climbs = compete(covariance, sample, starts)
        return Learned(covariance, climbs[0].theta, climbs, {})


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


def fixed_noise(W: np.ndarray, contrasts: Contrasts, beta: float, ratio: float) -> float:
    """phi where beta and the ratio are given rather than maximised away."""
    k, N = W.shape[0], contrasts.total
    C = ratio * np.linalg.inv(W) - np.linalg.inv(contrasts.scatter)
    separation = 0.5 * SIDE**2 * float(np.trace(np.linalg.inv(C)))
    volume = (N - 1 - k) * math.log(ratio) + float(np.linalg.slogdet(W @ C)[1])
    nu = k * (N - 1) + 2 * (SHAPE - 1)
    noise = nu * math.log(beta) - beta * (separation + 2 * RATE)
    return 0.5 * noise - 0.5 * k * volume + _constant(contrasts)


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
