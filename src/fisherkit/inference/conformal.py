"""Prediction sets and intervals from exact leave-one-out, hyper-parameters held fixed.

Let q(x, x') be the change of f(x) for a unit weighted change of the target at x', the posterior
covariance over mu. In canonical coordinates p(x) of a row, and with what lies outside of them,

    q(x, x_i) = sum_j p_j(x) sqrt(lam_j)/(lam_j + mu) u_ij / s_i       [+ 1/mass, free bias]
    q(x, x)   = sum_j p_j(x)^2/(lam_j + mu) + outside(x)/mu            [+ 1/mass, free bias].

Adding a row (x, y) of weight w, with e = y - f(x), takes the leave-one-out residual of row i from
R_i = r_i / a_i (`fisherkit.inference.influence`) to

    R_i(x, y) = (r_i - q_ix w e / (1 + w q_xx)) / (a_i + d_i q_ix^2 w / (1 + w q_xx)),

and the new row, left out, has the residual e: full conformal prediction without a refit. Leaving
row i out takes f(x) to f(x) - q_ix d_i R_i: what jackknife+ and cross-conformal sets need.

V. Vovk, A. Gammerman, G. Shafer. Algorithmic learning in a random world. Springer, 2005.
R. F. Barber, E. J. Candes, A. Ramdas, R. J. Tibshirani. Predictive inference with the jackknife+.
Annals of Statistics 49(1):486-507, 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fisherkit.core import Array, Canonical, Ridge, RidgePath, Weights, arrays
from fisherkit.inference.influence import remaining
from fisherkit.inference.sampled import SampledReach

METHODS = ("full", "jackknife+")


@dataclass(frozen=True)
class Reach:
    """A fit at one mu, and q between new rows and the rows it was fitted to.

    ``to_canonical`` (m, r) and ``origin`` (r,) take kernel values of the m centres to p sqrt(lam).
    ``features`` (m, number) and ``mean`` describe rows in the space of the penalty; without
    features (every row a centre, rkhs penalty) the kernel itself measures it, and ``level`` is its
    mean over all pairs of rows.
    """

    block: ClassVar[int] = 1 << 18  # pairs of a new row and a centre held at once

    canonical: Canonical
    ridge: Ridge
    mu: float
    to_canonical: Array
    origin: Array
    features: Array | None
    mean: Array | None
    level: float

    @classmethod
    def of(cls, canonical: Canonical, Y: Array, mu: float, K: Array) -> Reach:
        """K (n, m) are the kernel values between the rows and the centres."""
        weights, right = canonical.weights, canonical.right
        ridge = RidgePath.of(canonical, Y).at(mu)
        features, mean, level = None, None, 0.0
        if right is None:
            to_canonical = weights.root[:, None] * canonical.U
            level = float(weights.v @ (K @ weights.v)) / canonical.bias.span(weights.mass) ** 2
        else:
            lift = canonical.lift or (lambda coef: coef)
            to_canonical = lift(right)
            features = lift(arrays.like(np.eye(right.shape[0]), Y))
            mean = canonical.bias.mean(K, weights) @ features
        return cls(
            canonical=canonical,
            ridge=ridge,
            mu=mu,
            to_canonical=to_canonical,
            origin=canonical.bias_row,
            features=features,
            mean=mean,
            level=level,
        )

    @property
    def everyone(self) -> tuple[Array, Weights]:
        """Targets (n, k) and weights of all rows."""
        return self.ridge.Y, self.ridge.weights

    @property
    def needs_diagonal(self) -> bool:
        """Whether q(x, x) depends on k(x, x)."""
        return self.features is None

    def scores(self, k: Array) -> Array:
        """f (t, columns) at rows of kernel values k (t, m)."""
        return k @ self.ridge.coef + self.ridge.intercept

    def coordinates(self, k: Array) -> Array:
        """p sqrt(lam), (t, r), of rows of kernel values k (t, m)."""
        return k @ self.to_canonical - self.origin

    def cross(self, g: Array) -> Array:
        """q(x, x_i), (t, n), of rows with coordinates g."""
        form = self.canonical
        return ((g / (form.lam + self.mu)) @ form.U.T) / form.weights.root + self._constant

    def variance(self, g: Array, k: Array, diagonal: Array | None) -> Array:
        """q(x, x), (t,), for k(x, x) = diagonal (t,) where that is needed."""
        xp = arrays.namespace(k)
        form = self.canonical
        # A direction without variance has no coordinate: all of it is outside.
        empty = form.lam <= 0
        root = xp.sqrt(xp.where(empty, xp.ones_like(form.lam), form.lam))
        p = g * (xp.astype(~empty, g.dtype) / root)
        outside = xp.clip(self._norm(k, diagonal) - xp.sum(p * p, axis=1), 0.0, None)
        return xp.sum(p * p / (form.lam + self.mu), axis=1) + outside / self.mu + self._constant

    @property
    def _constant(self) -> float:
        return 1 / self._span

    @property
    def _span(self) -> float:
        return self.canonical.bias.span(self.canonical.weights.mass)

    def _norm(self, k: Array, diagonal: Array | None) -> Array:
        """Squared length of a row in the space of the penalty, relative to the mean row."""
        xp = arrays.namespace(k)
        extra = self.canonical.bias.variance
        if self.features is not None:
            z = k @ self.features - self.mean
            return xp.sum(z * z, axis=1) + extra
        assert diagonal is not None
        return diagonal - 2 * (k @ self.canonical.weights.v) / self._span + self.level + extra


@dataclass(frozen=True)
class Sets:
    """Conformal p-values of labels; ``indicator`` (n, c) classes, ``cost`` (c,) their costs.

    A row is the less typical the smaller the margin of its left-out score: s (f - t) for two
    classes, the score of its class less the best other one for more. ``balanced`` subtracts the
    mean of the targets trained on (t, or the class shares).
    """

    reach: Reach | SampledReach
    indicator: Array
    cost: Array
    balanced: bool
    class_conditional: bool

    def p_values(self, k: Array, diagonal: Array | None, method: str) -> Array:
        """(t, c) for rows of kernel values k (t, m)."""
        return self._full(k, diagonal) if method == "full" else self._left_out(k)

    def _full(self, k: Array, diagonal: Array | None) -> Array:
        xp = arrays.namespace(k)
        reach, weights = self.reach, self.reach.ridge.weights
        g = reach.coordinates(k)
        f, q, variance = reach.scores(k), reach.cross(g), reach.variance(g, k, diagonal)
        a, d, r, Y = remaining(reach.ridge), weights.delta, reach.ridge.residual, reach.ridge.Y
        total, mass = self._total()
        columns = []
        steps: dict[float, tuple[Array, Array]] = {}  # shared by classes of equal cost
        for label in range(self.indicator.shape[1]):
            w = float(self.cost[label])
            y = self._target(label)
            if w not in steps:
                pull = q * (w / (1 + w * variance))[:, None]
                steps[w] = pull, a + d * q * pull
            pull, bottom = steps[w]
            decisions = []
            for j in range(Y.shape[1]):
                loo = (r[:, j] - pull * (y[j] - f[:, j])[:, None]) / bottom
                decisions.append(Y[:, j] - loo)
                if self.balanced:
                    mean = (total[j] + w * y[j] - d * Y[:, j]) / (mass + w - d)
                    decisions[-1] = decisions[-1] - mean
            threshold = total / mass if self.balanced else xp.zeros_like(total)
            new = self._margin([(f - threshold)[:, j] for j in range(Y.shape[1])], y)
            columns.append(self._share(self._margin(decisions, Y.T), new[:, None], label))
        return xp.stack(columns, axis=1)

    def _left_out(self, k: Array) -> Array:
        xp = arrays.namespace(k)
        reach, weights = self.reach, self.reach.ridge.weights
        f, q = reach.scores(k), reach.cross(reach.coordinates(k))
        Y, loo = reach.ridge.Y, reach.ridge.leave_one_out()
        threshold = xp.zeros_like(Y)
        if self.balanced:
            threshold = weights.fold_mean_within(Y, *self._total())
        usual = self._margin([(Y - loo - threshold)[:, j] for j in range(Y.shape[1])], Y.T)
        without = [
            f[:, j, None] - q * (weights.delta * loo[:, j]) - threshold[:, j]
            for j in range(Y.shape[1])
        ]
        columns = []
        for label in range(self.indicator.shape[1]):
            new = self._margin(without, self._target(label))
            columns.append(self._share(usual[None, :], new, label))
        return xp.stack(columns, axis=1)

    def _total(self) -> tuple[Array, float]:
        """The weighted sum of all targets (k,), and the sum of the weights."""
        Y, weights = self.reach.everyone
        return arrays.namespace(Y).sum(weights.v[:, None] * Y, axis=0), weights.mass

    def _target(self, label: int) -> Array:
        """Codes (k,) of a class."""
        if self.reach.ridge.Y.shape[1] == 1:
            return arrays.like([2.0 * label - 1], self.reach.ridge.Y)
        return arrays.like(np.eye(self.indicator.shape[1])[label], self.reach.ridge.Y)

    @staticmethod
    def _margin(decisions: list[Array], codes: Array) -> Array:
        """Margins of decisions, one array for each column, towards codes (k, ...)."""
        xp = arrays.namespace(codes)
        if len(decisions) == 1:
            return codes[0, ...] * decisions[0]
        score = xp.zeros_like(decisions[0])
        best = xp.full_like(score, -float("inf"))
        for j, decision in enumerate(decisions):
            mine = codes[j, ...] > 0.5
            score = xp.where(mine, decision, score)
            best = xp.maximum(best, xp.where(mine, xp.full_like(score, -float("inf")), decision))
        return score - best

    def _share(self, usual: Array, new: Array, label: int) -> Array:
        """Share of the rows, the new one among them, that are no more typical than it; (t,)."""
        xp = arrays.namespace(new)
        count = self.reach.ridge.weights.frequency
        if self.class_conditional:
            count = count * self.indicator[:, label]
        # Rounding must not make a row more typical than its own copy.
        slack = 1e-12 * (1 + xp.abs(new))
        stranger = xp.astype(usual <= new + slack, new.dtype) @ count
        return (stranger + 1) / (xp.sum(count) + 1)


def interval(
    reach: Reach | SampledReach, k: Array, diagonal: Array | None, confidence: float, method: str
) -> tuple[Array, Array]:
    """Lower and upper ends (t, columns) at rows of kernel values k (t, m).

    Full conformal: row i admits the residuals e of the new row with |e| <= |A_i - b_i e|, those
    between A_i/(1 + b_i) and -A_i/(1 - b_i), or any if |b_i| >= 1. All of these contain 0, so what
    enough rows admit is an interval.
    """
    xp = arrays.namespace(k)
    weights, Y = reach.ridge.weights, reach.ridge.Y
    a, d, r = remaining(reach.ridge), weights.delta, reach.ridge.residual
    loo = reach.ridge.leave_one_out()
    needed = math.floor((1 - confidence) * (weights.total + 1) + 1e-9)
    g = reach.coordinates(k)
    f, q = reach.scores(k), reach.cross(g)
    if method == "full":
        pull = q / (1 + reach.variance(g, k, diagonal))[:, None]
        bottom = a + d * q * pull
        b = pull / bottom
        bounded = xp.abs(b) < 1
        b = xp.where(bounded, b, xp.zeros_like(b))
        anything = xp.where(bounded, xp.zeros_like(b), xp.full_like(b, float("inf")))
    low, high = [], []
    for j in range(Y.shape[1]):
        if method == "full":
            A = r[:, j] / bottom
            one, two = A / (1 + b), -A / (1 - b)
            up = f[:, j, None] + xp.maximum(one, two) + anything
            down = f[:, j, None] + xp.minimum(one, two) - anything
        else:
            without = f[:, j, None] - q * (d * loo[:, j])
            up, down = without + xp.abs(loo[:, j]), without - xp.abs(loo[:, j])
        high.append(-_ordered(-up, weights.frequency, needed))
        low.append(_ordered(down, weights.frequency, needed))
    return xp.stack(low, axis=1), xp.stack(high, axis=1)


def _ordered(values: Array, frequency: Array, rank: int) -> Array:
    """The value of this rank (1 is the smallest) in each row, copies counted; -inf for rank 0."""
    xp = arrays.namespace(values)
    if rank < 1:
        return xp.full_like(values[:, 0], -float("inf"))
    order = xp.argsort(values, axis=1)
    copies = xp.reshape(xp.take(frequency, xp.reshape(order, (-1,)), axis=0), order.shape)
    short = xp.cumulative_sum(copies, axis=1) < rank - 1e-9
    position = xp.clip(xp.sum(xp.astype(short, xp.int64), axis=1), None, values.shape[1] - 1)
    chosen = position[:, None] == arrays.indices(np.arange(values.shape[1]), values)[None, :]
    return xp.sum(xp.where(chosen, xp.sort(values, axis=1), xp.zeros_like(values)), axis=1)
