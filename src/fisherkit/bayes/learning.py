"""Bayesian Fisher discriminant: kernel parameters by evidence, features by relevance.

With one width per feature the evidence alone over-fits (type II): irrelevant features gain weight.
So the log weights share a normal prior about a common value, log w_k = m + delta_k, and its spread
is learned too: `learn_relevance` compares spreads, zero among them (one width for all), by their
posterior probability: marginal likelihood, in Laplace's approximation, times a prior that prefers
small spreads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fisherkit.bayes.climb import Climb, Objective, maximise, promising
from fisherkit.bayes.evidence import JITTER, Contrasts, Dense, Thin, inducing_inverse
from fisherkit.core import (
    FREE,
    Array,
    Canonical,
    Covariance,
    KernelObject,
    Parametric,
    Ridge,
    RidgePath,
    Weights,
    arrays,
    rank_two_update,
    solve,
)
from fisherkit.stored import stored
from fisherkit.tuning import log

SMALLER, MIDDLE, LARGER = 0.5, 1.0, (2.0, 3.0)  # spreads of log w_k about their common value
_PRICE_ROWS = 300  # rows that price the grid of starts: w d and log rho, for unit variances
_WIDTH_FACTORS = 0.1 * 4.0 ** np.arange(6)
_LOG_AMPLITUDES = (0.0, 3.0)
_STEP = 1e-3  # of the differences that give the curvature
_CURVATURE_ROWS = 500  # rows that are enough for it
_CLEAR = 3.0  # gain in log marginal likelihood that speaks for many widths beyond doubt
_SCALE_SD, _WEIGHT_SD = 3.0, 1.5  # of the prior on log amplitudes, and on the common log w
_ROUNDING = 4.0  # the least noise, in units of eps tr(K), the rounding of K
_WEIGHT_MEAN = 0.5  # over d: the common w at the centre of its prior, for standardised features


@dataclass(frozen=True)
class TiedPrior:
    """Normal prior of theta: amplitudes apart, log w_k = m + delta_k with sd(delta_k) = spread."""

    mean: np.ndarray
    precision: np.ndarray
    height: float

    @classmethod
    def of(cls, covariance: Parametric, n_features: int, spread: float) -> TiedPrior:
        p, q = covariance.n_scales, covariance.n_weights
        variance = np.diag(np.full(p + q, _SCALE_SD**2))
        variance[p:, p:] = _WEIGHT_SD**2 + spread**2 * np.eye(q)
        mean = np.concatenate([np.zeros(p), np.full(q, math.log(_WEIGHT_MEAN / n_features))])
        height = -0.5 * float(np.linalg.slogdet(2 * math.pi * variance)[1])
        return cls(mean, np.linalg.inv(variance), height)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and its gradient."""
        z = theta - self.mean
        slope = -self.precision @ z
        return self.height + 0.5 * float(z @ slope), slope

    def on_top_of(self, evidence: Objective) -> Objective:
        """The evidence plus the log prior."""

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = evidence(theta)
            more, steeper = self(theta)
            return value + more, slope + steeper

        return objective


def marginal(evidence: Objective, climb: Climb, prior: TiedPrior, *, share: float = 1.0) -> float:
    """log of the integral of evidence times prior over theta, by Laplace's approximation.

    Curvature by differences of the gradient, p evaluations of ``evidence``, which may be that of a
    ``share`` of the rows. Directions less curved than the prior alone would be (not a maximum, or
    at a bound) count as the prior's.
    """
    theta = climb.theta
    known = climb.slope is not None and share == 1
    here = climb.slope - prior(theta)[1] if known else evidence(theta)[1]
    steps = _STEP * np.eye(len(theta))
    H = np.array([(here - evidence(theta + step)[1]) / (_STEP * share) for step in steps])
    scale = np.linalg.cholesky(np.linalg.inv(prior.precision))  # prior in unit coordinates
    excess = np.linalg.eigvalsh(scale.T @ (0.5 * (H + H.T)) @ scale)
    curvature = 1 + np.maximum(excess, 0.0)
    log_det = float(np.sum(np.log(curvature))) + float(np.linalg.slogdet(prior.precision)[1])
    return climb.value + 0.5 * len(theta) * math.log(2 * math.pi) - 0.5 * log_det


@dataclass(frozen=True)
class Learned:
    """Kernel parameters, how they were found, and the spreads of log w that were compared.

    ``spreads`` has the log posterior of each, up to a constant. ``climbs`` begins with the one that
    led to theta; those of the starts follow, on fewer parameters if relevances were learned.
    """

    covariance: Covariance
    theta: np.ndarray
    climbs: list[Climb]
    spreads: dict[float, float]


@stored("sample of evidence")
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
            return Dense(covariance=covariance, X=self.X, contrasts=contrasts, kind=kind)
        return Thin(
            covariance=covariance,
            X=self.X,
            U=self.U,
            contrasts=contrasts,
            kind=kind,
            jitter=self.jitter,
        )

    def thinned(self, size: int) -> Sample:
        """About ``size`` rows, two of every class at least.

        Merged rows are in the order of a hash of their values: any part of them is a random draw.
        """
        n = self.X.shape[0]
        if n <= size:
            return self
        kept = np.zeros(n, dtype=bool)
        kept[np.linspace(0, n - 1, size).astype(int)] = True
        label = arrays.to_numpy(self.indicator) > 0
        kept |= np.any(label & (np.cumsum(label, axis=0) <= 2), axis=1)
        rows = arrays.indices(np.flatnonzero(kept), self.X)
        xp = arrays.namespace(self.X)
        return replace(
            self,
            X=xp.take(self.X, rows, axis=0),
            indicator=xp.take(self.indicator, rows, axis=0),
            weights=self.weights.take(rows),
        )


def starts_on_grid(
    covariance: Parametric, sample: Sample, kind: str, count: int
) -> list[np.ndarray]:
    """The best points of a grid over width and amplitude, by evidence on some of the rows."""
    scales = [np.full(covariance.n_scales, rho) for rho in _LOG_AMPLITUDES]
    if not covariance.n_scales:
        scales = scales[:1]
    grid = [
        np.append(scale, np.full(covariance.n_weights, math.log(factor / sample.X.shape[1])))
        for factor in _WIDTH_FACTORS
        for scale in scales
    ]
    return promising(sample.thinned(_PRICE_ROWS).evidence(covariance, kind).value, grid, count)


def starts_of_object(
    covariance: KernelObject, sample: Sample, count: int, rng: np.random.RandomState
) -> list[np.ndarray]:
    """The kernel as given, and random points within its bounds; prior variances of one."""
    bounds = np.reshape(covariance.kernel.bounds, (-1, 2))
    points = [covariance.kernel.theta]
    if len(bounds):
        points += [rng.uniform(*bounds.T) for _ in range(count - 1)]
    starts = []
    for point in points:
        size = float(np.mean(covariance.diagonal(np.append(0.0, point), sample.X)))
        starts.append(np.append(-math.log(size) if size > 0 else 0.0, point))
    return starts


def learn_relevance(
    sample: Sample,
    kind: str,
    single: Parametric,
    many: Parametric,
    starts: Sequence[np.ndarray],
    *,
    spread: float | None,
) -> Learned:
    """One width per feature if the marginal likelihood supports it, one for all otherwise.

    ``starts`` are those of the single width; the many start from where it ends. A spread s of the
    log weights has itself the prior density exp(-s^2/2). It is 1 first, then larger while that is
    better, and smaller if 1 has no clear advantage. A ``spread`` given is taken as it is.
    """
    d = many.n_weights
    part = sample.thinned(_CURVATURE_ROWS)
    share = part.weights.total / sample.weights.total
    prior = TiedPrior.of(single, d, 0.0)
    climbs = maximise(prior.on_top_of(sample.evidence(single, kind)), starts, single.bounds)
    top = climbs[0].theta
    begin = np.append(top[:-1], np.full(d, top[-1]))
    evidence = sample.evidence(many, kind)
    climbs_of: dict[float, list[Climb]] = {0.0: climbs}
    record: dict[float, float] = {}

    def judge(covariance: Parametric, spread: float, prior: TiedPrior) -> float:
        curvature = part.evidence(covariance, kind)
        record[spread] = (
            marginal(curvature, climbs_of[spread][0], prior, share=share) - spread**2 / 2
        )
        log.info("spread %.3g of log w: log posterior %.6g", spread, record[spread])
        return record[spread]

    def climb(spread: float) -> TiedPrior:
        prior = TiedPrior.of(many, d, spread)
        climbs_of[spread] = maximise(prior.on_top_of(evidence), [begin], many.bounds)
        return prior

    if spread is not None:
        climb(spread)
        climbs = climbs_of[spread] + climbs
        return Learned(covariance=many, theta=climbs[0].theta, climbs=climbs, spreads={})
    none = judge(single, 0.0, prior)
    value = judge(many, MIDDLE, climb(MIDDLE))
    best = MIDDLE
    for larger in LARGER if value > none else ():
        begin = climbs_of[best][0].theta
        if judge(many, larger, climb(larger)) < record[best]:
            break
        best = larger
    if best == MIDDLE and value < none + _CLEAR:
        judge(many, SMALLER, climb(SMALLER))
    best = max(record, key=lambda spread: record[spread])
    covariance = many if best > 0 else single
    climbs = climbs_of[best] if best == 0 else climbs_of[best] + climbs_of[0.0]
    return Learned(covariance=covariance, theta=climbs[0].theta, climbs=climbs, spreads=record)


def noise(K: Array, weights: Weights) -> float:
    """mu of `score`: 1, as K is in units of the total noise, but no less than the rounding of K."""
    trace = float(weights.v @ arrays.namespace(K).linalg.diagonal(K))
    return max(1.0, _ROUNDING * arrays.eps(K) * trace)


def score(K: Array, Y: Array, weights: Weights) -> Ridge:
    """The regression on codes Y (n, k) that has the direction of the discriminant; consumes K.

    The kernel is centred first, which gains digits where its amplitude is large; the intercept is
    that of K as it came.
    """
    xp, mu = arrays.namespace(K), noise(K, weights)
    mean = (K @ weights.v) / weights.mass
    level = float(weights.v @ mean) / weights.mass
    rank_two_update(K, xp.ones_like(mean), 0.5 * level - mean)
    solved = solve(K, Y, weights, bias=FREE, penalty="rkhs", mu=mu)
    assert solved is not None
    ridge = solved[0]
    return replace(ridge, intercept=ridge.intercept - mean @ ridge.coef)


def score_on_inducing(K_nm: Array, K_mm: Array, Y: Array, weights: Weights) -> Ridge:
    """`score` for the kernel of m inducing points; coefficients are those of the points."""
    return RidgePath.of(canonical(K_nm, K_mm, weights), Y).at(1.0)


def canonical(K_nm: Array, K_mm: Array | None, weights: Weights) -> Canonical:
    """The form of `score`, or with K_mm of `score_on_inducing`."""
    if K_mm is None:
        return Canonical.from_gram(K_nm + 0.0, weights, FREE)
    inverse = inducing_inverse(K_mm)
    return Canonical.from_features(
        K_nm @ inverse.T, weights, FREE, lift=lambda coef: inverse.T @ coef
    )
