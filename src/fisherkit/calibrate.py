"""Probabilities from leave-one-out decisions.

One slope a > 0 turns decisions d into probabilities, sigmoid(a d) for two classes and
softmax(a d) for more. It minimises the (weighted) log-loss of the leave-one-out decisions against
Platt's targets, which keep it finite when the classes are separable. There is no intercept, so
the most probable class is always the one decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fisherkit import _array
from fisherkit._array import Array
from fisherkit.coding import Rule, indicators, winners
from fisherkit.ridge import Residuals
from fisherkit.select import newton
from fisherkit.weights import Weights

SLOPE_BOUNDS = (1e-3, 1e6)
_SCATTERS = 1 << 22  # entries of left-out scatters held at once


def loo_decisions(
    ridge: Residuals, rule: Rule, indicator: Array, counts: Array | None = None
) -> tuple[Array, Array]:
    """Decisions for each row by the model that left it out, rule included; (n, k).

    Also says, for each row, whether that model had seen the row's class at all. Rows that are part
    of a larger set come with its (weighted) class ``counts``.
    """
    xp = _array.namespace(indicator)
    weights = ridge.weights
    loo = ridge.leave_one_out()
    if counts is None:
        counts = xp.sum(weights.v[:, None] * indicator, axis=0)
    left = counts[None, :] - weights.delta[:, None] * indicator
    left = xp.where(left > 1e-9 * counts[None, :], left, xp.zeros_like(left))
    known = xp.sum(left * indicator, axis=1) > 0
    scores = ridge.Y - loo
    if rule.kind != "lda":
        return rule.decide(scores, left, None), known
    decisions = [  # in blocks: each row has a scatter of its own
        rule.decide(scores[rows, :], left[rows, :], ridge.loo_scatter(loo, rows))
        for rows in _array.row_blocks(loo.shape[0], loo.shape[1] ** 2, _SCATTERS)
    ]
    return xp.concat(decisions, axis=0), known


def platt_targets(indicator: Array, weights: Weights, copies: Array | None = None) -> Array:
    """(n_k + 1)/(n_k + C) for a row's own class k, 1/(n_k + C) for each of the others; (n, c).

    ``copies`` are the n_k, if there are more rows than these.
    """
    if copies is None:
        xp = _array.namespace(indicator)
        copies = xp.sum(weights.frequency[:, None] * indicator, axis=0)
    own = (indicator @ copies)[:, None]
    return (indicator * own + 1) / (own + indicator.shape[1])


def fit_slope(
    decisions: Array, known: Array, indicator: Array, weights: Weights, *, balanced: bool
) -> float:
    """The slope a; ``balanced`` gives every class the same total weight.

    Rows that are not ``known`` are left aside: the model without them never saw their class.
    """
    xp = _array.namespace(decisions)
    target = platt_targets(indicator, weights)
    weight = weights.v * xp.astype(known, weights.v.dtype)
    if balanced:
        weight = weight / (indicator @ xp.sum(weights.v[:, None] * indicator, axis=0))
    total = float(xp.sum(weight))
    seen = xp.sum(weight[:, None] * indicator, axis=0)
    if int(xp.sum(xp.astype(seen > 0, xp.int64))) < 2:
        return 1.0  # decisions on one class alone say nothing of a slope
    return solve_slope(lambda a: slope_terms(a, decisions, target, weight / total))


def slope_terms(a: float, decisions: Array, target: Array, share: Array) -> Array:
    """Log-loss of the rows at slope a, weighted, and its first two derivatives in a; (3,)."""
    xp = _array.namespace(decisions)
    if decisions.shape[1] == 1:  # the same as below with logits 0 and a d, and much faster
        d, t = decisions[:, 0], target[:, 1]
        logit = a * d
        small = xp.exp(-xp.abs(logit))
        p = xp.where(logit >= 0, xp.ones_like(d), small) / (1 + small)
        loss = xp.maximum(logit, xp.zeros_like(d)) + xp.log1p(small) - t * logit
        terms = loss, (p - t) * d, p * (1 - p) * d * d
        return xp.stack([xp.sum(share * term) for term in terms])
    logits = a * decisions
    top = xp.max(logits, axis=1, keepdims=True)
    mass = xp.exp(logits - top)
    norm = xp.sum(mass, axis=1, keepdims=True)
    p = mass / norm
    log_norm = (xp.log(norm) + top)[:, 0]
    mean = xp.sum(p * decisions, axis=1)
    spread = xp.sum(p * decisions**2, axis=1) - mean**2
    slope = mean - xp.sum(target * decisions, axis=1)
    value = xp.sum(share * (log_norm - xp.sum(target * logits, axis=1)))
    return xp.stack([value, xp.sum(share * slope), xp.sum(share * spread)])


def solve_slope(terms: Callable[[float], Array]) -> float:
    """The slope that minimises the log-loss whose `slope_terms` are summed over all rows."""

    def derivatives(log_a: float) -> tuple[float, float, float]:
        a = math.exp(log_a)
        value, first, second = (float(term) for term in terms(a))
        return value, a * first, a * first + a * a * second  # in log a

    lower, upper = (math.log(bound) for bound in SLOPE_BOUNDS)
    return math.exp(newton(derivatives, 0.0, lower, upper)[0])


def probabilities(decisions: Array, slope: float, dtype: Any = None) -> Array:
    """(n, c) probabilities of decisions (n, 1) or (n, c), in ``dtype`` or that of the decisions.

    The class decided is the most probable one even where rounding hides the difference.
    """
    xp = _array.namespace(decisions)
    winner = winners(decisions)
    if decisions.shape[1] == 1:
        half = decisions / 2
        decisions = xp.concat([-half, half], axis=1)
    logits = slope * decisions
    logits = logits - xp.max(logits, axis=1, keepdims=True)
    mass = xp.exp(logits)
    p = mass / xp.sum(mass, axis=1, keepdims=True)
    p = _array.cast(p, decisions.dtype if dtype is None else dtype)
    hidden = xp.argmax(p, axis=1) != winner
    if not bool(xp.any(hidden)):
        return p
    own = indicators(winner, p.shape[1], p) > 0
    ahead = xp.max(p, axis=1, keepdims=True) * (1 + 2 * _array.eps(p))
    return xp.where(hidden[:, None] & own, ahead, p)
