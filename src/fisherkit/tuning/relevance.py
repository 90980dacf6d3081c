"""One kernel width per feature, by leave-one-out.

The criterion Q of the left-out residuals is differentiated through the residual maker B
(`fisherkit.core.Pullback`), and the contraction of dQ/dG~ with the derivatives of the kernel is
that of `fisherkit.core.covariance`. One evaluation costs three products of n x n matrices, whatever
the number of features.

Many widths over-fit the criterion. Their logarithms therefore have a normal prior about a common
value; how wide it may be is decided by rows that did not choose the widths (`learn_widths`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fisherkit.core import Array, Bias, Parametric, Pullback, Ridge, Weights, arrays, solve_whitened
from fisherkit.stored import stored
from fisherkit.tuning.climb import maximise
from fisherkit.tuning.criteria import Criterion, HeldOut
from fisherkit.tuning.select import log

SPREADS = (0.25, 0.5, 1.0, 2.0)  # standard deviations of the log widths that compete with none
LARGEST = 1000  # rows that learn widths; more are thinned to so many
_LOG_MU = 23.0  # range of log mu, in both directions
_ITERATIONS = 40
_FEWEST = 10  # rows that can learn and judge widths
_CLEARLY = 2.0  # standard errors by which many widths must be better than one

RECORD_DTYPE = [("spread", float), ("gain", float), ("standard_error", float)]


@dataclass(frozen=True)
class LeftOut:
    """A criterion of left-out residuals as a function of (log mu, log w), w = 2 gamma (d,)."""

    X: Array
    Y: Array
    weights: Weights
    rule: str
    penalty: str
    bias: Bias
    balanced: bool

    @property
    def bounds(self) -> np.ndarray:
        return np.vstack([[-_LOG_MU, _LOG_MU], Parametric(self.X.shape[1]).bounds[1:]])

    def take(self, rows: np.ndarray) -> LeftOut:
        xp, chosen = arrays.namespace(self.X), arrays.indices(rows, self.X)
        X, Y = xp.take(self.X, chosen, axis=0), xp.take(self.Y, chosen, axis=0)
        return replace(self, X=X, Y=Y, weights=self.weights.take(chosen))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Q and its gradient."""
        mu, w = float(np.exp(theta[0])), self.weights
        block = Parametric(self.X.shape[1]).block(np.append(0.0, theta[1:]), self.X, self.X)
        ridge = self._solve(block.values, mu)
        losses, slopes = self._criterion().slopes(ridge.leave_one_out())
        pull = Pullback.of(ridge, mu, slopes * w.v[:, None] / w.mass)
        s, slope = w.root[:, None], pull.by_gram()
        if self.penalty == "coefficients":
            root = arrays.namespace(s).sqrt(w.frequency)
            slope = 2 * (slope @ self._half(block.values)) * s * root
        else:
            slope = slope * s * w.root
        everything = slice(0, slope.shape[0])
        gradient = block.pull([(everything, everything, slope)])
        return float(w.v @ losses) / w.mass, np.append(pull.by_log_mu(), gradient[1:])

    def losses(self, theta: np.ndarray) -> np.ndarray:
        """The loss of every left-out row, (n,)."""
        block = Parametric(self.X.shape[1]).block(np.append(0.0, theta[1:]), self.X, self.X)
        residual = self._solve(block.values, float(np.exp(theta[0]))).leave_one_out()
        return arrays.to_numpy(self._criterion().slopes(residual)[0])

    def _criterion(self) -> Criterion:
        held_out = HeldOut.leave_one_out(self.Y, self.weights, balanced=self.balanced)
        return Criterion(self.rule, held_out)

    def _solve(self, K: Array, mu: float) -> Ridge:
        half = self._half(K)
        G = half @ half.T if self.penalty == "coefficients" else half * self.weights.root
        ridge = solve_whitened(G, self.Y, self.weights, self.bias, mu)
        if ridge is None:
            raise ValueError(
                f"The kernel matrix plus mu = {mu:.3g} is not positive definite to rounding."
            )
        return ridge

    def _half(self, K: Array) -> Array:
        """s K, times sqrt(w) with the coefficients penalty, where its square is G~."""
        right = arrays.namespace(K).sqrt(self.weights.frequency)
        left = self.weights.root[:, None]
        return left * K * right if self.penalty == "coefficients" else left * K

    def tied(self, at: np.ndarray) -> np.ndarray:
        """The best (log mu, log w) with one w, from ``at``."""
        d = self.X.shape[1]

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = self._pseudo(np.append(theta[0], np.full(d, theta[1])))
            return value, np.array([slope[0], np.sum(slope[1:])])

        theta = maximise(objective, [at[:2]], self.bounds[:2], max_iter=_ITERATIONS)[0].theta
        return np.append(theta[0], np.full(d, theta[1]))

    def spread_out(self, at: np.ndarray, spread: float) -> np.ndarray:
        """The best (log mu, log w) with log w of this standard deviation a priori, from ``at``."""

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = self._pseudo(theta)
            z = (theta[1:] - np.mean(theta[1:])) / spread
            return value - 0.5 * float(z @ z), slope - np.append(0.0, z / spread)

        return maximise(objective, [at], self.bounds, max_iter=_ITERATIONS)[0].theta

    def best_mu(self, at: np.ndarray) -> np.ndarray:
        """``at`` with the best log mu for its widths."""

        def objective(log_mu: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = self._pseudo(np.append(log_mu, at[1:]))
            return value, slope[:1]

        best = maximise(objective, [at[:1]], self.bounds[:1], max_iter=_ITERATIONS)[0]
        return np.append(best.theta, at[1:])

    def _pseudo(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """-N/2 log Q and its gradient; for PRESS, a log likelihood of the left-out rows."""
        value, slope = self(theta)
        half = 0.5 * self.weights.total
        tiny = max(value, np.finfo(np.float64).tiny)
        return -half * math.log(tiny), -half * slope / tiny


@stored("widths of features")
@dataclass(frozen=True)
class Widths:
    """log w = log 2 gamma of each feature (d,), their spread, and how the spreads compared.

    ``record`` has fields spread, gain (of the mean loss, over one width for all, on rows that did
    not choose the widths) and standard_error.
    """

    log_w: np.ndarray
    spread: float
    record: np.ndarray


def learn_widths(left_out: LeftOut, classes: np.ndarray, start: np.ndarray) -> Widths:
    """Widths from ``start``, as far apart as rows that did not choose them approve of.

    Each half of the rows learns widths for every spread, and the leave-one-out losses of the other
    half, mu chosen anew, price them. The best spread is used if it is better than one width for
    all by two standard errors of the paired difference. Very few rows keep one width.
    """
    halves = _halves(classes)
    if min(len(np.unique(classes[half])) for half in halves) < 2 or len(classes) < _FEWEST:
        one = np.full(left_out.X.shape[1], start[1])
        return Widths(one, 0.0, np.empty(0, dtype=RECORD_DTYPE))
    losses = []
    for mine, other in (halves, halves[::-1]):
        learner, judge = left_out.take(mine), left_out.take(other)
        candidates = candidates_of(learner, start, SPREADS)
        losses.append(np.array([judge.losses(judge.best_mu(at)) for at in candidates]))
    order = np.concatenate(halves[::-1])
    v = arrays.to_numpy(left_out.weights.v)[order]
    share = v / np.sum(v)
    difference = np.hstack(losses)[0] - np.hstack(losses)
    gain = difference @ share
    variance = (difference - gain[:, None]) ** 2 @ share
    error = np.sqrt(variance / left_out.weights.total)
    record = np.array(list(zip((0.0, *SPREADS), gain, error, strict=True)), dtype=RECORD_DTYPE)
    best = int(np.argmax(gain))
    if gain[best] <= _CLEARLY * error[best]:
        best = 0
    for spread, more, noise in record:
        log.info("spread %.3g of the widths: gain %.4g +- %.2g", spread, more, noise)
    at = candidates_of(left_out, start, SPREADS[:best])[-1]
    return Widths(at[1:], float(record["spread"][best]), record)


def candidates_of(
    left_out: LeftOut, start: np.ndarray, spreads: Sequence[float]
) -> list[np.ndarray]:
    """(log mu, log w) with one w, and for each spread from the one before."""
    candidates = [left_out.tied(start)]
    for spread in spreads:
        candidates.append(left_out.spread_out(candidates[-1], spread))
    return candidates


def _halves(classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every second row of each class, and the others."""
    order = np.argsort(classes, kind="stable")
    return np.sort(order[::2]), np.sort(order[1::2])
