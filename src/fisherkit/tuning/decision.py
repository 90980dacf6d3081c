"""From scores to decisions and probabilities: the rule, and what left-out scores say of it.

`decide` is the one place where a classifier's decisions are made, whether its rows are in memory,
in blocks or on Dask workers: it gets the residuals of a fit part by part, and asks for sums over
them and for columns of their rows. The rule "softmax" is that of `fisherkit.tuning.softmax`; the
decisions of the others get one slope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherkit.core import Array, Residuals, Rule, Weights, arrays, coding, membership
from fisherkit.stored import stored
from fisherkit.tuning.calibrate import Slope, Status, left_out_slope, loo_decisions
from fisherkit.tuning.likelihood import (
    Likelihood,
    LocalParts,
    Parts,
    Shown,
    centred,
    meaningful,
)
from fisherkit.tuning.softmax import Softmax, fit_softmax, untold


@stored("decision")
@dataclass(frozen=True)
class Decision:
    """From scores f (n, k) to decisions, ``f @ matrix + offset``, and discriminant coordinates.

    ``matrix`` is ``None`` for the identity; ``shares`` (c,) are those of the classes, and ``axes``
    (c, c-1) belong to indicator scores.
    """

    rule: Rule
    matrix: Array | None
    offset: Array
    shares: Array
    axes: Array

    @classmethod
    def of(
        cls, rule: Rule, counts: Array, scatter: Array, softmax: Softmax | None = None
    ) -> Decision:
        """By the (weighted) class counts (c,) and the residual scatter E (k, k) of the fit.

        ``softmax`` is what was fitted for the rule of that name.
        """
        if softmax is None:
            matrix, offset = rule.affine(counts, scatter)
        else:
            matrix, offset = _of_scores(softmax, counts)
        if rule.kind == "binary":  # of the two indicators, from that of the code
            scatter = scatter / 4 * arrays.like([[1.0, -1.0], [-1.0, 1.0]], scatter)
        axes = coding.discriminant_axes(counts, scatter)
        return cls(rule, matrix, offset, counts / arrays.namespace(counts).sum(counts), axes)

    def __call__(self, scores: Array) -> Array:
        """Decisions (n, k)."""
        return (scores if self.matrix is None else scores @ self.matrix) + self.offset

    def coordinates(self, scores: Array) -> Array:
        """Discriminant coordinates (n, c-1)."""
        if scores.shape[1] == 1:
            xp = arrays.namespace(scores)
            scores = xp.concat([1 - scores, 1 + scores], axis=1) / 2
        return (scores - self.shares) @ self.axes


def _of_scores(softmax: Softmax, counts: Array) -> tuple[Array, Array]:
    """Matrix and offset that make logits of scores F, by way of F - m 1'F, m the class shares."""
    xp = arrays.namespace(counts)
    identity = arrays.like(np.eye(counts.shape[0]), counts)
    zero, shares = softmax(0 * identity[:1, :]), counts / xp.sum(counts)
    return softmax(centred(identity, shares[None, :])) - zero, zero[0, :]


@dataclass(frozen=True)
class Decided:
    """What `decide` returns; ``left_out`` is a column of leave-one-out decisions (b, k)."""

    decision: Decision
    slope: Slope
    left_out: Sequence[Any]


def decide(
    left: Parts,
    rule: Rule,
    classes: Weights,
    scatter: Array,
    *,
    sampled: bool = False,
    ridge: float | None = None,
) -> Decided:
    """Decisions of a fit, and of the models that left out one row each.

    The parts of ``left`` are the `Residuals` of rows of positive weight. ``classes`` holds for each
    class the copies of all of its rows as the frequency, and their cost; ``scatter`` (k, k) is E.
    ``ridge`` is that of a softmax, where it is not to be chosen. If the parts are ``sampled`` from
    the rows of the fit, probabilities are fitted to them as if they were all rows.
    """
    counts = classes.v
    seen = Weights.of_sums(*left.total(_sums_of_classes, [])) if sampled else classes
    if rule.kind == "softmax":
        scores = left.each(_scores, [], classes)
        rows = Shown(left, left.each(_likelihood, [], seen, rule.balanced))
        everything = arrays.like(np.eye(counts.shape[0]), counts)
        prior = Likelihood.of(everything, classes, balanced=rule.balanced).prior
        softmax = fit_softmax(rows, scores, prior, ridge)
        decision = Decision.of(rule, counts, scatter, softmax)
        return Decided(decision, softmax, left.each(_logits, [scores], softmax))
    slope, decisions = left_out_slope(left, rule, classes, scatter, seen)
    return Decided(Decision.of(rule, counts, scatter), slope, decisions)


def decide_rows(
    fit: Residuals, rule: Rule, classes: Weights, *, ridge: float | None = None
) -> tuple[Decided, Array]:
    """`decide` for rows in one array, which may be part of a larger set; and their decisions."""
    decided = decide(LocalParts([fit]), rule, classes, fit.scatter, ridge=ridge)
    return decided, decided.left_out[0]


def decide_again(fit: Residuals, rule: Rule, classes: Weights, slope: Slope) -> Array:
    """Decisions (n, k) of all rows by models without them; a softmax is that found before."""
    if isinstance(slope, Softmax):
        return slope(_scores(fit, [], classes))
    return loo_decisions(fit, rule, membership(fit.Y), classes.v)


def fit_decisions(
    decisions: Array, indicator: Array, weights: Weights, *, balanced: bool
) -> Softmax:
    """The softmax of held-out decisions (n, k), each known but for a constant of its row."""
    xp = arrays.namespace(decisions)
    seen = weights.frequency @ indicator
    if int(xp.sum(xp.astype(seen > 0, xp.int64))) < 2:
        return untold(Status.NOTHING_TO_FIT, 1.0, 0 * seen)
    rows = Likelihood.of(indicator, weights, balanced=balanced)
    scores = meaningful(decisions - xp.mean(decisions, axis=1, keepdims=True))
    return fit_softmax(LocalParts([rows]), [scores], rows.prior)


def logits_without(
    fit: Residuals, scores: Array, rule: Rule, classes: Weights, slope: Slope
) -> Array:
    """Logits (n, k) of scores (n, k) that the models without one row each give.

    The arguments are those of `decide_rows`, and the slope that it found.
    """
    if isinstance(slope, Softmax):
        mean = fit.mean_left(classes.v, classes.mass)
        return slope(meaningful(centred(scores, mean)))
    return slope.value * loo_decisions(fit, rule, membership(fit.Y), classes.v, scores)


def left_out_scores(fit: Residuals, pieces: Sequence[Array]) -> Array:
    """Scores of some rows by the models that left them out, (b, k)."""
    return fit.Y - fit.leave_one_out()


def _sums_of_classes(fit: Residuals, pieces: Sequence[Array]) -> tuple[Array, Array]:
    indicator = membership(fit.Y)
    return fit.weights.frequency @ indicator, fit.weights.v @ indicator


def _likelihood(
    fit: Residuals, pieces: Sequence[Array], classes: Weights, balanced: bool
) -> Likelihood:
    return Likelihood.of(fit.Y, fit.weights, classes, balanced=balanced)


def _scores(fit: Residuals, pieces: Sequence[Array], classes: Weights) -> Array:
    """Centred left-out scores (b, k)."""
    mean = fit.mean_left(classes.v, classes.mass)
    return meaningful(centred(fit.Y - fit.leave_one_out(), mean))


def _logits(fit: Residuals, pieces: Sequence[Array], softmax: Softmax) -> Array:
    return softmax(pieces[0])
