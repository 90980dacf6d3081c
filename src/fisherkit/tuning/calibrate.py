"""Probabilities from leave-one-out decisions.

One slope a > 0 turns decisions d into probabilities, sigmoid(a d) for two classes and
softmax(a d) for more. It minimises the (weighted) log-loss of the leave-one-out decisions against
smoothed targets, which keep it finite when the classes are separable. There is no intercept, so
the most probable class is always the one decided.

The bounds of the slope are relative to the spread of the decisions, so that they do not depend on
the units of these; a slope on a bound is a `Status`, never silent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from fisherkit.core import Array, Residuals, Rule, Weights, ahead, arrays, membership, winners
from fisherkit.stored import stored
from fisherkit.tuning.likelihood import SLOPE_BOUNDS, Parts, smoothed_targets
from fisherkit.tuning.select import newton

_ROUNDING = 16  # units of roundoff in a decision that mean nothing
_SCATTERS = 1 << 22  # entries of left-out scatters held at once


@stored("status of a slope")
class Status(Enum):
    """How the slope of the probabilities was found."""

    INTERIOR = "the slope of the probabilities minimises the log-loss of left-out decisions"
    FLAT = (
        "decisions on left-out rows agree with the labels no better than chance: the slope of the "
        "probabilities is at its lower bound, and all classes get nearly the same probability"
    )
    STEEP = (
        "decisions on left-out rows tell the classes apart on a scale far below their spread: the "
        "slope of the probabilities is at its upper bound"
    )
    NOTHING_TO_FIT = (
        "decisions on left-out rows are all equal, or of one class alone: they say nothing of the "
        "slope of the probabilities, which is one"
    )
    LOG_ODDS = "decisions are log-odds as they are"


@stored("slope")
@dataclass(frozen=True)
class Slope:
    """The slope that turns decisions into probabilities, and how it was found.

    Attributes
    ----------
    value : float
    status : Status
        Its value is a sentence.
    """

    value: float
    status: Status

    @property
    def decided(self) -> bool:
        """Whether the decisions, and no bound or default, decided the slope."""
        return self.status not in UNDECIDED


UNDECIDED = frozenset({Status.FLAT, Status.STEEP, Status.NOTHING_TO_FIT})
LOG_ODDS = Slope(1.0, Status.LOG_ODDS)
_NO_SLOPE = Slope(1.0, Status.NOTHING_TO_FIT)


def loo_decisions(
    ridge: Residuals,
    rule: Rule,
    indicator: Array,
    counts: Array | None = None,
    scores: Array | None = None,
) -> Array:
    """Decisions for each row by the model that left it out, rule included; (n, k).

    Rows that are part of a larger set come with its (weighted) class ``counts``. ``scores`` (n, k)
    are what these models say, if that is not of the rows as they are.
    """
    xp = arrays.namespace(indicator)
    loo = ridge.leave_one_out()
    if counts is None:
        counts = xp.sum(ridge.weights.v[:, None] * indicator, axis=0)
    left = ridge.counts_left(indicator, counts)
    if scores is None:
        scores = ridge.Y - loo
    if rule.kind != "lda":
        return rule.decide(scores, left, None)
    decisions = [  # in blocks: each row has a scatter of its own
        rule.decide(scores[rows, :], left[rows, :], ridge.loo_scatter(loo, rows))
        for rows in arrays.row_blocks(loo.shape[0], loo.shape[1] ** 2, _SCATTERS)
    ]
    return xp.concat(decisions, axis=0)


def known_classes(fit: Residuals, indicator: Array, counts: Array) -> Array:
    """For each row, whether the model that left it out had seen the row's class at all; (n,)."""
    left = fit.counts_left(indicator, counts)
    return arrays.namespace(left).sum(left * indicator, axis=1) > 0


def left_out_slope(
    left: Parts, rule: Rule, classes: Weights, scatter: Array, seen: Weights
) -> tuple[Slope, Sequence[Any]]:
    """The slope for the leave-one-out decisions of a fit, and a column of these (b, k).

    The arguments are those of `fisherkit.tuning.decide`; ``seen`` are the classes in the parts.
    """
    decisions = left.each(_decisions, [], rule, classes.v, scatter)
    weights = left.each(_slope_weights, [], rule, classes.v, seen.v)
    (mass,) = left.total(_weight_of_classes, [weights])
    total = float(arrays.namespace(mass).sum(mass))

    def terms(a: float) -> Array:
        return left.total(_slope_terms, [decisions, weights], a, seen.frequency)[0] / total

    return solve_slope(terms, arrays.to_numpy(mass)), decisions


def _decisions(
    fit: Residuals, pieces: Sequence[Array], rule: Rule, counts: Array, scatter: Array
) -> Array:
    """Leave-one-out decisions of some rows; the scatter is that of all rows."""
    fit = replace(fit, scatter=scatter)
    return loo_decisions(fit, rule, membership(fit.Y), counts)


def _slope_weights(
    fit: Residuals, pieces: Sequence[Array], rule: Rule, counts: Array, seen: Array
) -> Array:
    """How much each row counts for the slope, (b,)."""
    indicator = membership(fit.Y)
    known = known_classes(fit, indicator, counts)
    weight = fit.weights.v * arrays.namespace(counts).astype(known, counts.dtype)
    return weight / (indicator @ seen) if rule.balanced else weight


def _weight_of_classes(fit: Residuals, pieces: Sequence[Array]) -> tuple[Array]:
    return (pieces[0] @ membership(fit.Y),)


def _slope_terms(fit: Residuals, pieces: Sequence[Array], a: float, copies: Array) -> tuple[Array]:
    """Log-loss at slope a, and its first two derivatives."""
    decisions, weight = pieces
    target = smoothed_targets(membership(fit.Y), fit.weights, copies)
    return (slope_terms(a, decisions, target, weight),)


def fit_slope(
    decisions: Array, known: Array, indicator: Array, weights: Weights, *, balanced: bool
) -> Slope:
    """The slope a; ``balanced`` gives every class the same total weight.

    Rows that are not ``known`` are left aside: the model without them never saw their class.
    """
    xp = arrays.namespace(decisions)
    target = smoothed_targets(indicator, weights)
    weight = weights.v * xp.astype(known, weights.v.dtype)
    if balanced:
        weight = weight / (indicator @ xp.sum(weights.v[:, None] * indicator, axis=0))
    seen = xp.sum(weight[:, None] * indicator, axis=0)
    return solve_slope(
        lambda a: slope_terms(a, decisions, target, weight / xp.sum(weight)),
        arrays.to_numpy(seen),
    )


def slope_terms(a: float, decisions: Array, target: Array, share: Array) -> Array:
    """Log-loss of the rows at slope a, weighted, and its first two derivatives in a; (3,)."""
    xp = arrays.namespace(decisions)
    if decisions.shape[1] == 1:  # the same as below with logits 0 and a d, and much faster
        d, t = decisions[:, 0], target[:, 1]
        logit = a * d
        small = xp.exp(-xp.abs(logit))
        p = xp.where(logit >= 0, xp.ones_like(d), small) / (1 + small)
        loss = xp.maximum(logit, xp.zeros_like(d)) + xp.log1p(small) - t * logit
        terms = loss, (p - t) * d, p * (1 - p) * d * d
        return xp.stack([xp.sum(share * term) for term in terms])
    decisions = _about_mean(decisions)
    logits = a * decisions
    top = xp.max(logits, axis=1, keepdims=True)
    mass = xp.exp(logits - top)
    norm = xp.sum(mass, axis=1, keepdims=True)
    p = mass / norm
    log_norm = (xp.log(norm) + top)[:, 0]
    mean = xp.sum(p * decisions, axis=1)
    spread = xp.sum(p * (decisions - mean[:, None]) ** 2, axis=1)
    slope = mean - xp.sum(target * decisions, axis=1)
    value = xp.sum(share * (log_norm - xp.sum(target * logits, axis=1)))
    return xp.stack([value, xp.sum(share * slope), xp.sum(share * spread)])


def _about_mean(decisions: Array) -> Array:
    """Decisions less the mean of their row, rounding set to zero: a slope would fit its noise."""
    xp = arrays.namespace(decisions)
    noise = _ROUNDING * arrays.eps(decisions) * xp.max(xp.abs(decisions), axis=1, keepdims=True)
    centred = decisions - xp.mean(decisions, axis=1, keepdims=True)
    return xp.where(xp.abs(centred) > noise, centred, xp.zeros_like(centred))


def solve_slope(terms: Callable[[float], Array], seen: np.ndarray) -> Slope:
    """The slope that minimises the log-loss whose `slope_terms` are summed over all rows.

    ``seen`` (c,) are the weights of the rows of each class in it.
    """
    if np.count_nonzero(seen) < 2:
        return _NO_SLOPE
    spread = math.sqrt(max(float(terms(0.0)[2]), 0.0))  # of the decisions about their means
    if not 0 < spread < math.inf:
        return _NO_SLOPE

    def derivatives(log_a: float) -> tuple[float, float, float]:
        a = math.exp(log_a)
        value, first, second = (float(term) for term in terms(a))
        return value, a * first, a * first + a * a * second  # in log a

    lower, upper = (math.log(bound / spread) for bound in SLOPE_BOUNDS)
    log_a, _ = newton(derivatives, -math.log(spread), lower, upper)
    at_bound = {lower: Status.FLAT, upper: Status.STEEP}
    return Slope(math.exp(log_a), at_bound.get(log_a, Status.INTERIOR))


def probabilities(decisions: Array, slope: float, dtype: Any = None) -> Array:
    """(n, c) probabilities of decisions (n, 1) or (n, c), in ``dtype`` or that of the decisions.

    The class decided is the most probable one even where rounding hides the difference.
    """
    xp = arrays.namespace(decisions)
    winner = winners(decisions)
    if decisions.shape[1] == 1:
        half = decisions / 2
        decisions = xp.concat([-half, half], axis=1)
    logits = slope * decisions
    logits = logits - xp.max(logits, axis=1, keepdims=True)
    mass = xp.exp(logits)
    p = mass / xp.sum(mass, axis=1, keepdims=True)
    p = arrays.cast(p, decisions.dtype if dtype is None else dtype)
    hidden = xp.argmax(p, axis=1) != winner
    if not bool(xp.any(hidden)):
        return p
    return ahead(p, winner, hidden)
