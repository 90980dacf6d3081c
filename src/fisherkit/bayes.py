"""Bayesian Fisher discriminant: kernel parameters by evidence, features by relevance.

`maximise` climbs the evidence of `fisherkit.evidence` by L-BFGS from several starts; a few steps
tell which one to follow.

With one width per feature the evidence alone over-fits (type II): irrelevant features gain weight.
So the log weights share a normal prior about a common value, log w_k = m + delta_k, and its spread
is learned too: `learn_relevance` compares spreads, zero among them (one width for all), by their
marginal likelihood in Laplace's approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from scipy.optimize import Bounds, minimize

from fisherkit import _array
from fisherkit._array import Array
from fisherkit.canonical import Canonical, NotPositiveError, rank_two_update
from fisherkit.covariance import Covariance, Parametric
from fisherkit.evidence import JITTER, Contrasts, Dense, Thin, inducing_inverse
from fisherkit.ridge import Ridge, RidgePath, solve
from fisherkit.select import log
from fisherkit.weights import Weights

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]

SPREADS = (0.5, 1.0, 2.0, 3.0)  # standard deviations of log w_k about their common value
_SCREEN = 5  # iterations after which the best start goes on alone
_NEAR = 1e-3  # distance from a bound that counts as being there
_STEP = 1e-3  # of the differences that give the curvature
_SCALE_SD, _WEIGHT_SD = 3.0, 1.5  # of the prior on log amplitudes, and on the common log w
_WEIGHT_MEAN = 0.5  # over d: the common w at the centre of its prior, for standardised features


class Ending(Enum):
    """How a climb ended."""

    CONVERGED = "the evidence has a maximum inside the bounds"
    AT_BOUND = (
        "the evidence keeps rising towards a bound of the kernel parameters: the classes are "
        "separable without noise, or a part of the kernel is not needed"
    )
    SCREENED = "given up after a few steps: another start was ahead"
    EXHAUSTED = "the largest number of iterations was reached before a maximum"


@dataclass(frozen=True)
class Climb:
    """One start: where it began, where it ended, and the objective there."""

    start: np.ndarray
    theta: np.ndarray
    value: float
    evaluations: int
    ending: Ending


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


def promising(
    value: Callable[[np.ndarray], float], grid: Sequence[np.ndarray], count: int
) -> list[np.ndarray]:
    """The ``count`` points of the grid where the objective is largest, best first."""
    prices = np.array([value(theta) for theta in grid])
    return [grid[i] for i in np.argsort(-prices, kind="stable")[:count]]


def _climb(objective: Objective, start: np.ndarray, bounds: np.ndarray, max_iter: int) -> Climb:
    start = np.clip(start, bounds[:, 0], bounds[:, 1])
    seen: list[float] = []

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
        options={"maxiter": max_iter, "gtol": 1e-2, "ftol": 1e-7},
    )
    at_bound = np.any(np.abs(found.x[:, None] - bounds) < _NEAR)
    ending = Ending.AT_BOUND if at_bound else Ending.CONVERGED
    if found.nit >= max_iter:
        ending = Ending.EXHAUSTED
    log.info("evidence %.6g after %d evaluations (%s)", -found.fun, found.nfev, ending.name.lower())
    return Climb(start, found.x, -float(found.fun), int(found.nfev), ending)


@dataclass(frozen=True)
class TiedPrior:
    """Normal prior of theta: amplitudes apart, log w_k = m + delta_k with sd(delta_k) = spread."""

    mean: np.ndarray
    precision: np.ndarray

    @classmethod
    def of(cls, covariance: Parametric, n_features: int, spread: float) -> TiedPrior:
        p, q = covariance.n_scales, covariance.n_weights
        variance = np.diag(np.full(p + q, _SCALE_SD**2))
        variance[p:, p:] = _WEIGHT_SD**2 + spread**2 * np.eye(q)
        mean = np.concatenate([np.zeros(p), np.full(q, math.log(_WEIGHT_MEAN / n_features))])
        return cls(mean, np.linalg.inv(variance))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and its gradient."""
        z = theta - self.mean
        slope = -self.precision @ z
        log_det = float(np.linalg.slogdet(self.precision / (2 * math.pi))[1])
        return 0.5 * float(z @ slope) + 0.5 * log_det, slope

    def on_top_of(self, evidence: Objective) -> Objective:
        """The evidence plus the log prior."""

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = evidence(theta)
            more, steeper = self(theta)
            return value + more, slope + steeper

        return objective


def marginal(objective: Objective, climb: Climb, prior: TiedPrior) -> float:
    """log of the integral of evidence times prior over theta, by Laplace's approximation.

    Curvature by differences of the gradient: p evaluations. Directions less curved than the prior
    alone would be (not a maximum, or at a bound) count as the prior's.
    """
    theta = climb.theta
    here = objective(theta)[1]
    steps = _STEP * np.eye(len(theta))
    H = np.array([(here - objective(theta + step)[1]) / _STEP for step in steps])
    scale = np.linalg.cholesky(np.linalg.inv(prior.precision))  # prior in unit coordinates
    curvature = np.maximum(np.linalg.eigvalsh(scale.T @ (0.5 * (H + H.T)) @ scale), 1.0)
    log_det = float(np.sum(np.log(curvature))) + float(np.linalg.slogdet(prior.precision)[1])
    return climb.value + 0.5 * len(theta) * math.log(2 * math.pi) - 0.5 * log_det


@dataclass(frozen=True)
class Learned:
    """Kernel parameters, how they were found, and the spreads of log w that were compared.

    ``spreads`` holds pairs (spread, log marginal likelihood).
    """

    covariance: Covariance
    theta: np.ndarray
    climbs: list[Climb]
    spreads: list[tuple[float, float]]


def learn_relevance(
    evidence: Callable[[Parametric], Objective],
    single: Parametric,
    many: Parametric,
    starts: Sequence[np.ndarray],
    *,
    spread: float | None,
) -> Learned:
    """One width per feature if the marginal likelihood supports it, one for all otherwise.

    ``starts`` are those of the single width; the many start from where it ends, and from the first.
    Spreads grow while the marginal likelihood does; a spread s itself has the prior density
    exp(-s^2/2). A ``spread`` given is taken as it is.
    """
    d = many.n_weights
    prior = TiedPrior.of(single, d, 0.0)
    objective = prior.on_top_of(evidence(single))
    climbs = maximise(objective, starts, single.bounds)
    best = Learned(single, climbs[0].theta, climbs, [])
    record = []
    if spread is None:
        record.append((0.0, marginal(objective, climbs[0], prior)))
    highest = record[0][1] if record else -math.inf
    begin = [np.append(at[:-1], np.full(d, at[-1])) for at in (climbs[0].theta, starts[0])]
    objective = evidence(many)
    for candidate in SPREADS if spread is None else [spread]:
        prior = TiedPrior.of(many, d, candidate)
        climbs = maximise(prior.on_top_of(objective), begin, many.bounds)
        begin = [climbs[0].theta]
        value = 0.0
        if spread is None:
            value = marginal(prior.on_top_of(objective), climbs[0], prior) - 0.5 * candidate**2
            record.append((candidate, value))
        log.info("spread %.3g of the log weights: log marginal likelihood %.6g", candidate, value)
        if value > highest:
            highest, best = value, Learned(many, climbs[0].theta, climbs, [])
        elif best.covariance is many or candidate >= 1:
            break
    return replace(best, spreads=record)


@dataclass(frozen=True)
class Sample:
    """Rows merged by value and class, scaled, with their labels.

    ``X`` are the ``columns`` of the data that vary, less ``shift`` and over ``scale``. The kernel
    is that of the inducing points ``U`` (m, d), or of every row where there are none.
    """

    X: Array
    columns: Array
    shift: Array
    scale: Array
    indicator: Array
    weights: Weights
    U: Array | None = None
    jitter: float = JITTER

    @property
    def codes(self) -> Array:
        """+-1 (n, 1) for two classes, the indicators (n, c) for more."""
        return self.indicator[:, 1:] * 2 - 1 if self.indicator.shape[1] == 2 else self.indicator

    def evidence(self, covariance: Covariance, kind: str) -> Dense | Thin:
        contrasts = Contrasts.of(self.indicator, self.weights)
        if self.U is None:
            return Dense(covariance, self.X, contrasts, kind)
        return Thin(covariance, self.X, self.U, contrasts, kind, self.jitter)

    def thinned(self, size: int, seed: int) -> Sample:
        """About ``size`` rows at random, two of every class at least."""
        n = self.X.shape[0]
        order = np.random.RandomState(seed).permutation(n)
        label = _array.to_numpy(self.indicator)[order]
        kept = (np.arange(n) < size) | np.any((np.cumsum(label, axis=0) <= 2) & (label > 0), axis=1)
        rows = _array.indices(np.sort(order[kept]), self.X)
        xp = _array.namespace(self.X)
        return replace(
            self,
            X=xp.take(self.X, rows, axis=0),
            indicator=xp.take(self.indicator, rows, axis=0),
            weights=self.weights.take(rows),
        )


def score(K: Array, Y: Array, weights: Weights) -> Ridge:
    """The regression on codes Y (n, k) that has the direction of the discriminant; consumes K.

    K is in units of the total noise, so that mu = 1. The kernel is centred first, which gains
    digits where its amplitude is large; the intercept is that of K as it came.
    """
    xp = _array.namespace(K)
    mean = (K @ weights.v) / weights.mass
    level = float(weights.v @ mean) / weights.mass
    rank_two_update(K, xp.ones_like(mean), 0.5 * level - mean)
    solved = solve(K, Y, weights, bias="free", penalty="rkhs", mu=1.0)
    assert solved is not None
    ridge = solved[0]
    return replace(ridge, intercept=ridge.intercept - mean @ ridge.coef)


def score_on_inducing(K_nm: Array, K_mm: Array, Y: Array, weights: Weights) -> Ridge:
    """`score` for the kernel of m inducing points; coefficients are those of the points."""
    return RidgePath.of(canonical(K_nm, K_mm, weights), Y).at(1.0)


def canonical(K_nm: Array, K_mm: Array | None, weights: Weights) -> Canonical:
    """The form of `score`, or with K_mm of `score_on_inducing`, to be used at mu = 1."""
    if K_mm is None:
        return Canonical.from_gram(K_nm + 0.0, weights, "free")
    inverse = inducing_inverse(K_mm)
    return Canonical.from_features(
        K_nm @ inverse.T, weights, "free", lift=lambda coef: inverse.T @ coef
    )
