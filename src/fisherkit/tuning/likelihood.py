"""The cross-entropy of many models' logits at once, and the calibration of each.

With logits u, smoothed targets t (`smoothed_targets`) and rows weighted by shares of sum one,

    N = mean_i [ log(1 + e^u) - t u ]                      two classes, one logit
    N = mean_i [ log sum_k e^u_k - sum_k t_k u_k ]         more, one logit for each

Calibration fits u = a z + b to centred scores z, with a > 0 within bounds relative to the spread
of the scores, and the sum of b over the classes zero. Two classes written as indicators have
scores (1 +- f)/2, so that their logits differ by a z + (b_2 - b_1): the second formula then gives
the first, slope for slope.

Newton steps need sums over the rows only. `fit_scalar` gets them from a function
``total(terms, ...)``, so that rows may be in one array, in blocks or on other machines (`Parts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Protocol

import numpy as np

from fisherkit.core import Array, Weights, arrays

SLOPE_BOUNDS = (1e-3, 1e9)  # over the spread of the scores
_ROUNDING = 16  # units of roundoff in a centred score that mean nothing
MAX_STEPS = 100
DAMPING = 1e-12  # of a Hessian, relative to the largest it may have
_CERTAIN = 1e-10  # squared Newton decrement below which values are rounding, and steps right
_CONVERGED = 1e-12  # squared Newton decrement: the step that follows leaves rounding
# A gain in log-likelihood below this is nothing: on noise the best member of the default grid has
# more in one case of four, and a larger threshold would give up weak signals.
_NATS = 2.0


def smoothed_targets(indicator: Array, weights: Weights, copies: Array | None = None) -> Array:
    """What probabilities are fitted to: labels, with a little of each other class; (n, c).

    Two classes: Platt's (n_k + 1)/(n_k + 2) for a row's own class k of n_k rows, and the rest for
    the other. More: n + 3 - c for the own class and 1/2 for each other one, over their sum, with n
    the number of all rows. The smoothing then vanishes as 1/n whatever the number of classes:
    Platt's targets would leave the rows of a small class to the others.

    ``copies`` are the n_k, if there are more rows than these.
    """
    xp = arrays.namespace(indicator)
    if copies is None:
        copies = xp.sum(weights.frequency[:, None] * indicator, axis=0)
    c = indicator.shape[1]
    if c == 2:
        own = (indicator @ copies)[:, None]
        return (indicator * own + 1) / (own + 2)
    own = max(float(xp.sum(copies)) + 3 - c, 1.0)
    return (indicator * (own - 0.5) + 0.5) / (own + 0.5 * (c - 1))


def balancing(indicator: Array, copies: Array, mass: Array) -> Array:
    """What makes of the weights v of rows shares in which classes are equally frequent; (n,).

    ``copies`` (c,) are the rows of each class and ``mass`` (c,) the sums of v, which differ by the
    cost of the class: costs stay. A class without rows has no share.
    """
    xp = arrays.namespace(indicator)
    each = xp.where(copies > 0, 1 / xp.where(copies > 0, copies, xp.ones_like(copies)), 0 * copies)
    return indicator @ each / xp.sum(mass * each)


@dataclass(frozen=True)
class Calibration:
    """Slopes a (q,), offsets b (k, q) and cross-entropies N (q,) of q members.

    ``bounded`` (q,) says where a bound decided the slope.
    """

    slope: Array
    offset: Array
    loss: Array
    bounded: Array


@dataclass(frozen=True)
class Likelihood:
    """The cross-entropy of logits (n, k, q): k = 1 for two classes, otherwise one for each.

    ``target`` (n, k) are smoothed labels, ``share`` (n,) the weights of the rows, which sum to one
    over all of them, and ``total`` is l.
    """

    target: Array
    share: Array
    total: float

    @classmethod
    def of(
        cls,
        indicator: Array,
        weights: Weights,
        classes: Weights | None = None,
        *,
        balanced: bool = False,
    ) -> Likelihood:
        """Rows that are part of a larger set come with the weights of its ``classes``: copies of
        all rows of a class as the frequency, and their cost. ``balanced`` has all classes count as
        if they had as many rows."""
        copies = None if classes is None else classes.frequency
        target = smoothed_targets(indicator, weights, copies)
        target = target[:, 1:] if target.shape[1] == 2 else target
        everything = weights if classes is None else classes
        share = weights.v / everything.mass
        if balanced:
            classes = weights.of_classes(indicator) if classes is None else classes
            share = weights.v * balancing(indicator, classes.frequency, classes.v)
        return cls(target, share, everything.total)

    @property
    def prior(self) -> Array:
        """Logits (k,) of the best constant: the class shares, as the targets see them."""
        xp = arrays.namespace(self.target)
        mean = self.share @ self.target
        if mean.shape[0] == 1:
            return xp.log(mean / (1 - mean))
        return xp.log(mean) - xp.mean(xp.log(mean))

    def loss(self, logits: Array) -> Array:
        """Mean cross-entropy of each member; (q,)."""
        xp = arrays.namespace(logits)
        fitted = xp.sum(self.target[:, :, None] * logits, axis=1)
        return self.share @ (log_normaliser(logits)[0] - fitted)

    @property
    def prior_loss(self) -> float:
        """The loss of the class shares."""
        return float(self.loss((self.prior[None, :] + 0 * self.target)[:, :, None])[0])

    def nothing_found(self, best: float) -> bool:
        """Whether the loss of the best member is no better than noise makes it.

        Few rows cannot gain much: half of what a perfect member would gain is then enough.
        """
        xp = arrays.namespace(self.target)
        t = self.target
        prior = self.prior_loss
        t = xp.concat([t, 1 - t], axis=1) if t.shape[1] == 1 else t
        least = xp.finfo(t.dtype).smallest_normal  # 0 log 0 is 0
        perfect = -float(self.share @ xp.sum(t * xp.log(xp.clip(t, least, None)), axis=1))
        gain, most = self.total * (prior - best), self.total * (prior - perfect)
        return gain < min(_NATS, 0.5 * most)

    def mean(self, values: Array) -> Array:
        """Weighted mean over the first axis."""
        xp = arrays.namespace(values)
        flat = xp.reshape(values, (values.shape[0], -1))
        return xp.reshape(self.share @ flat, values.shape[1:])

    def rows(self, some: slice) -> Likelihood:
        """The share of some rows in the likelihood of all."""
        return Likelihood(self.target[some, :], self.share[some], self.total)


class Parts(Protocol):
    """Parts of the rows. A *column* holds an array with the rows of each part.

    ``terms(part, pieces, ...)`` is called for each part with its pieces of the columns: `total`
    adds the tuples of arrays that it returns, `each` makes a column of what it returns.
    """

    def total(
        self, terms: Callable[..., tuple[Array, ...]], columns: Sequence[Any], *arguments: Any
    ) -> tuple[Array, ...]: ...

    def each(
        self, terms: Callable[..., Array], columns: Sequence[Any], *arguments: Any
    ) -> Sequence[Any]: ...


@dataclass(frozen=True)
class LocalParts:
    """Parts in the memory of this process; columns are lists of arrays."""

    parts: Sequence[Any]

    def total(
        self, terms: Callable[..., tuple[Array, ...]], columns: Sequence[Any], *arguments: Any
    ) -> tuple[Array, ...]:
        return add_up(self.map(terms, columns, arguments))

    def each(
        self, terms: Callable[..., Array], columns: Sequence[Any], *arguments: Any
    ) -> list[Array]:
        return list(self.map(terms, columns, arguments))

    def map(
        self, terms: Callable[..., Any], columns: Sequence[Any], arguments: Sequence[Any]
    ) -> Iterable[Any]:
        """The result of each part, in order."""
        for position, part in enumerate(self.parts):
            yield terms(part, [column[position] for column in columns], *arguments)


@dataclass(frozen=True)
class Shown:
    """Parts as a column of other things shows them: terms get the pieces of that column instead."""

    parts: Parts
    column: Sequence[Any]

    def total(
        self, terms: Callable[..., tuple[Array, ...]], columns: Sequence[Any], *arguments: Any
    ) -> tuple[Array, ...]:
        return self.parts.total(_shown, [self.column, *columns], terms, arguments)

    def each(
        self, terms: Callable[..., Array], columns: Sequence[Any], *arguments: Any
    ) -> Sequence[Any]:
        return self.parts.each(_shown, [self.column, *columns], terms, arguments)


def _shown(part: Any, pieces: Sequence[Any], terms: Callable[..., Any], arguments: Any) -> Any:
    return terms(pieces[0], pieces[1:], *arguments)


def add_up(results: Iterable[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Sums of the arrays in tuples, entry by entry."""
    return reduce(lambda a, b: tuple(map(add, a, b)), results)


def centred(scores: Array, mean: Array) -> Array:
    """Indicator scores F (n, k, ...) less m 1'F, m the mean codes of the rows trained on.

    What is taken off is the score that every label's being m would give: it betrays the label of
    a left-out row, which m lacks. Scores with a free bias add up to one, and lose m.
    """
    return scores - mean * arrays.namespace(scores).sum(scores, axis=1, keepdims=True)


def meaningful(Z: Array, eps: float | None = None) -> Array:
    """Centred scores with those below rounding set to zero: a slope would fit their noise.

    ``eps`` is the unit roundoff of the fit, if that is not of the dtype of Z.
    """
    xp = arrays.namespace(Z)
    return xp.where(xp.abs(Z) > _ROUNDING * (eps or arrays.eps(Z)), Z, xp.zeros_like(Z))


def fit_scalar(parts: Parts, scores: Sequence[Any], prior: Array) -> Calibration:
    """Slopes and offsets of q members at once from a column of (`meaningful`) centred scores.

    Newton steps in (a, b), halved until they descend and cut short at the bounds of a, where
    b alone may go on. They are invariant to the scale of the scores; ten or so do.
    """
    *fixed, square = parts.total(_score_sums, [scores])
    xp = arrays.namespace(square)
    ones = xp.ones_like(square)
    spread = xp.where(square > 0, xp.sqrt(square), ones)
    lower, upper = (bound / spread for bound in SLOPE_BOUNDS)
    theta = xp.concat([lower[None, :], prior[:, None] * ones], axis=0)
    # Saturated logits have no curvature, nor have scores that are all zero.
    damping = xp.concat(
        [xp.where(square > 0, DAMPING * square, ones)[None, :], 0 * theta[1:, :] + DAMPING],
        axis=0,
    )
    damping = damping.T[:, :, None] * arrays.like(np.eye(theta.shape[0]), square)
    step, length, value, decrement = xp.zeros_like(theta), ones, ones * math.inf, ones
    for _ in range(MAX_STEPS):
        trial = theta + length * step
        new, gradient, hessian = _derivatives(
            parts.total(_logit_sums, [scores], trial), trial, *fixed
        )
        better = (new <= value) | (decrement <= _CERTAIN)
        fresh, longest, promise = _bounded_step(trial, gradient, hessian + damping, lower, upper)
        theta, value = xp.where(better, trial, theta), xp.where(better, new, value)
        step, length = xp.where(better, fresh, step), xp.where(better, longest, 0.5 * length)
        decrement = xp.where(better, promise, decrement)
        if bool(xp.all(decrement <= _CONVERGED)):
            break
    theta = theta + length * step
    a = theta[0, :]
    return Calibration(a, theta[1:, :], value, _at(a, lower) | _at(a, upper))


def newton_system(rows: Likelihood, Z: Array, found: Calibration) -> tuple[Array, Array, Array]:
    """N (q,), its gradient (1 + k, q) and Hessian (q, 1 + k, 1 + k) at a calibration of scores."""
    theta = arrays.namespace(Z).concat([found.slope[None, :], found.offset], axis=0)
    *fixed, _ = _score_sums(rows, [Z])
    return _derivatives(_logit_sums(rows, [Z], theta), theta, *fixed)


def _score_sums(rows: Likelihood, pieces: Sequence[Array]) -> tuple[Array, ...]:
    """Means of the targets (k,), of targets times scores (q,) and of squared scores (q,)."""
    (Z,) = pieces
    xp = arrays.namespace(Z)
    fitted = rows.mean(xp.sum(rows.target[:, :, None] * Z, axis=1))
    return rows.share @ rows.target, fitted, rows.mean(xp.sum(Z * Z, axis=1))


def _logit_sums(rows: Likelihood, pieces: Sequence[Array], theta: Array) -> tuple[Array, ...]:
    """Means over rows at logits a z + b with probabilities p, and pz the sum of p z over classes:
    the log normaliser (q,), p (k, q), p z (k, q), and the entries aa (q,), ab (k, q) and bb
    (k, k, q) of the Hessian, the latter but for the diagonal mean of p where there are classes."""
    (Z,) = pieces
    xp = arrays.namespace(Z)
    norm, P = log_normaliser(theta[0, :] * Z + theta[1:, :][None, :, :])
    PZ = P * Z
    sums = rows.mean(norm), rows.mean(P), rows.mean(PZ)
    if Z.shape[1] == 1:  # the formulas below with half of the passes over the data
        spread = P - P * P
        along = spread * Z
        return *sums, rows.mean(along * Z)[0, :], rows.mean(along), rows.mean(spread)[None, :, :]
    score = xp.sum(PZ, axis=1)
    aa = rows.mean(xp.sum(PZ * Z, axis=1) - score * score)
    ab = sums[2] - rows.mean(P * score[:, None, :])
    return *sums, aa, ab, -_products(rows.share, P)


def _products(share: Array, P: Array) -> Array:
    """Means over rows of the products of any two columns of P (n, k, q); (k, k, q)."""
    xp = arrays.namespace(P)
    columns = xp.permute_dims(P, (2, 1, 0))  # (q, k, n)
    products = xp.matmul(columns * share, xp.permute_dims(columns, (0, 2, 1)))
    return xp.permute_dims(products, (1, 2, 0))


def _derivatives(
    sums: tuple[Array, ...], theta: Array, mean_target: Array, target_score: Array
) -> tuple[Array, Array, Array]:
    """N (q,), its gradient (1 + k, q) and Hessian (q, 1 + k, 1 + k) in (a, b)."""
    norm, P, PZ, aa, ab, bb = sums
    xp = arrays.namespace(norm)
    k = P.shape[0]
    value = norm - theta[0, :] * target_score - mean_target @ theta[1:, :]
    slope = (xp.sum(PZ, axis=0) - target_score)[None, :]
    gradient = xp.concat([slope, P - mean_target[:, None]], axis=0)
    if k > 1:
        # The sum of all offsets has no effect: a term along it makes the matrix regular.
        bb = bb + 1.0 + P[:, None, :] * arrays.like(np.eye(k), P)[:, :, None]
    top = xp.concat([aa[None, None, :], ab[None, :, :]], axis=1)
    hessian = xp.concat([top, xp.concat([ab[:, None, :], bb], axis=1)], axis=0)
    return value, gradient, xp.permute_dims(hessian, (2, 0, 1))


def log_normaliser(U: Array) -> tuple[Array, Array]:
    """log(1 + e^u) and its derivative for one logit (n, 1, q); log sum e^u for more; (n, q)."""
    xp = arrays.namespace(U)
    if U.shape[1] == 1:
        t = xp.exp(-xp.abs(U))  # never overflows
        total = 1 + t
        P = xp.where(U >= 0, xp.ones_like(t), t) / total
        return (xp.log(total) + xp.maximum(U, xp.zeros_like(U)))[:, 0, :], P
    top = xp.max(U, axis=1, keepdims=True)
    mass = xp.exp(U - top)
    total = xp.sum(mass, axis=1, keepdims=True)
    return (xp.log(total) + top)[:, 0, :], mass / total


def _at(a: Array, bound: Array) -> Array:
    return arrays.namespace(a).abs(a - bound) <= 1e-9 * bound


def _bounded_step(
    theta: Array, gradient: Array, hessian: Array, lower: Array, upper: Array
) -> tuple[Array, Array, Array]:
    """Newton steps (1 + k, q), how far they may go before a leaves its bounds, and g'H^-1 g."""
    xp = arrays.namespace(theta)
    a = theta[0, :]
    g = gradient.T[:, :, None]
    full = -xp.linalg.solve(hessian, g)[:, :, 0].T
    alone = -xp.linalg.solve(hessian[:, 1:, 1:], g[:, 1:, :])[:, :, 0].T
    alone = xp.concat([xp.zeros_like(a)[None, :], alone], axis=0)
    outward = (_at(a, lower) & (full[0, :] < 0)) | (_at(a, upper) & (full[0, :] > 0))
    step = xp.where(outward, alone, full)
    move = step[0, :]
    room = xp.where(move < 0, lower - a, upper - a)
    still, ones = move == 0, xp.ones_like(move)
    share = room / xp.where(still, ones, move)
    longest = xp.where(still | (share > 1), ones, share)
    return step, longest, -xp.sum(step * gradient, axis=0)
