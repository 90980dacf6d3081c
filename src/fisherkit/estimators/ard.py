"""One kernel width per feature of the Fisher classifier and ridge: from rows to a fit.

Width and mu are found for standardised features. Relevance is learned there, on rows merged by
value and class, and rows that had no part in it say whether it helps, and to which power. Then
width and mu are found again. Left-out scores of such a fit are those of fits without a fold, whose
relevance is learned without that fold: leave-one-out would not know that the labels chose the
scales.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator

from fisherkit.core import (
    KERNELS,
    Array,
    Fold,
    Gram,
    Kernel,
    Residuals,
    Stationary,
    View,
    Weights,
    arrays,
)
from fisherkit.estimators.base import standardisation
from fisherkit.rows import Fit, MemoryRows, RowSource, Spec, Task, fitted
from fisherkit.tuning import (
    CRITERIA,
    FOLDS,
    Criterion,
    HeldOut,
    LearnedFold,
    LocalParts,
    NotSolvedError,
    Problem,
    SeenRows,
    Tuned,
    Widths,
    choose_strength,
    deal,
    joined,
    learned_folds,
    log,
    of_usual_length,
    tune,
)

LARGEST = 3000  # different rows that learn; more are thinned to so many
_FEWEST = 40  # different rows that can learn: ten in each fold


@dataclass(frozen=True)
class FeatureFit(Fit):
    """A fit whose kernel has a width for each feature: gamma and relevance (d,), how learned."""

    gamma: Array | None = None
    relevance: Array | None = None
    widths: Widths | None = None


@dataclass(frozen=True)
class OutOfFold(Residuals):
    """The residuals of a fit, whose left-out ones, ``held_out`` (n, k), are those of other fits.

    ``counts`` (n, c) are the class counts of the rows that these were fitted to.
    """

    held_out: Array
    counts: Array

    @classmethod
    def of(cls, fit: Residuals, held_out: Array, counts: Array) -> OutOfFold:
        return cls(
            Y=fit.Y,
            weights=fit.weights,
            B_diag=fit.B_diag,
            BY=fit.BY,
            scatter=fit.scatter,
            held_out=held_out,
            counts=counts,
        )

    def taken(self, rows: Array) -> OutOfFold:
        held_out, counts = (arrays.take_rows(part, rows) for part in (self.held_out, self.counts))
        return OutOfFold.of(super().taken(rows), held_out, counts)

    def leave_one_out(self) -> Array:
        return self.held_out

    def mean_left(self, total: Array, mass: float) -> Array:
        return self.counts / arrays.namespace(self.counts).sum(self.counts, axis=1, keepdims=True)

    def counts_left(self, indicator: Array, counts: Array) -> Array:
        return self.counts

    def loo_scatter(self, loo: Array, rows: slice) -> Array:
        """E_(i) with the columns scaled as they are: residuals of other fits would spoil it."""
        return super().loo_scatter(super().leave_one_out(), rows)


@dataclass(frozen=True)
class _Learned:
    """The scale of each column seen (p,), and those that rows without each of the folds learn."""

    scale: np.ndarray
    folds: Sequence[np.ndarray]
    scales: Sequence[np.ndarray]


def fit(rows: RowSource, spec: Spec) -> FeatureFit:
    """One width per feature if they are better, one for all (standardised) otherwise."""
    assert isinstance(rows, MemoryRows)
    raw = rows.X
    view, spread = _standard(raw, rows.weights)
    plain = rows.task(replace(spec, kernel=replace(spec.kernel, view=view)))
    task, tuned = plain, plain.tune()
    widths, learned = _learn(plain, tuned, raw)
    if learned is not None:
        view = view.scaled(view.scale * learned.scale)
        task = plain.on(plain.problem.design.gram.X * arrays.like(learned.scale, raw))
        tuned = task.tune()
    found = fitted(replace(task, features=raw), tuned)
    left_out: Residuals = tuned.ridge
    if learned is not None:
        scores, counts = _of_folds(plain, tuned, learned)
        left_out = OutOfFold.of(tuned.ridge, task.problem.Y - scores, counts)
    if tuned.sampled is not None:
        left_out = left_out.taken(arrays.indices(tuned.sampled, raw))
    gamma, family = tuned.selection.gamma, spec.kernel.family
    assert gamma is not None and view.scale is not None
    kernel = replace(spec.kernel, gamma=gamma, view=view)
    # Of features so small that it overflows, gamma is infinite.
    gammas = gamma * view.scale ** (2 * math.log2(family.step))
    relevance = (spread * view.scale / family.length(gamma)) ** 2
    centres = arrays.take_rows(raw, arrays.indices(tuned.centres, raw))
    return FeatureFit(
        expansion=replace(found.expansion, kernel=kernel, centres=centres),
        centres=found.centres,
        selection=found.selection,
        left_out=LocalParts([left_out]),
        scatter=found.scatter,
        training=found.training,
        sampled=found.sampled,
        gamma=_of_features(gammas, view, raw),
        relevance=_of_features(relevance, view, raw),
        widths=widths,
    )


def _standard(X: Array, weights: Weights) -> tuple[View, np.ndarray]:
    """The columns that vary (the first if none does) in units of their standard deviations (p,)."""
    columns, _, scale = (arrays.to_numpy(part) for part in standardisation(X, weights))
    seen = arrays.namespace(X).take(X, arrays.indices(columns, X), axis=1)
    xp = arrays.namespace(X)
    varies = arrays.to_numpy(xp.max(seen, axis=0) > xp.min(seen, axis=0))
    return View(columns, 1 / scale), np.where(varies, scale, 0.0)


def _of_features(values: np.ndarray, view: View, X: Array) -> Array:
    """Values (p,) of the columns that are seen, for each feature (d,); 0 for the others."""
    found = np.zeros(X.shape[1])
    found[view.columns] = values
    return arrays.like(found, X)


def _learn(task: Task, tuned: Tuned, raw: Array) -> tuple[Widths, _Learned | None]:
    """What the rows of a task say of its columns at the width and mu found; ``None`` if nothing.

    Folds are dealt by the values of the ``raw`` rows.
    """
    problem, gram = task.problem, task.problem.design.gram
    distinct, labels = gram.distinct(), task.labels
    if gram.X.shape[1] < 2 or len(distinct.first) < _FEWEST:
        return Widths.one(), None
    if labels is None:
        index = np.zeros(gram.n, dtype=int)
        kind = np.unique(arrays.to_numpy(problem.Y), axis=0, return_inverse=True)[1].ravel()
    else:
        index = kind = arrays.to_numpy(labels.index)
    first, group = distinct.split(kind, int(kind.max()) + 1)
    rows = _merged(problem, first, group)
    different = arrays.take_rows(raw, arrays.indices(first, raw))
    folds = deal(different, rows.weights, index[first])
    dealt = np.empty(len(first), dtype=int)
    for number, fold_rows in enumerate(folds):
        dealt[fold_rows] = number
    # The merged order is that of a hash of the values: any part of it is a random draw.
    chosen = np.linspace(0, len(first) - 1, min(LARGEST, len(first))).astype(int)
    rows, some = rows.take(chosen), dealt[chosen]
    kernel, mu = _start(problem, rows, tuned)
    try:
        whole = rows.relevance(kernel, mu)
        parts = learned_folds(rows, kernel, mu, [np.flatnonzero(some == j) for j in range(FOLDS)])
        losses = partial(_losses, problem.criterion, rows, parts)
        strength, record = choose_strength(parts, kernel, mu, losses, rows.weights)
    except NotSolvedError:
        log.info("no Cholesky factor at mu %.3g: one width for all columns", mu)
        return Widths.one(), None
    if strength == 0:
        return replace(Widths.one(), record=record), None
    scale = of_usual_length(whole**strength)
    scales = [of_usual_length(fold.scale**strength) for fold in parts]
    spread = 2 * float(np.std(np.log(scale)))
    places = [np.flatnonzero(dealt[group] == number) for number in range(FOLDS)]
    return Widths(strength, spread, record), _Learned(scale, places, scales)


def _merged(problem: Problem, first: np.ndarray, group: np.ndarray) -> SeenRows:
    """Rows of equal values and targets as one, that counts as often."""
    design, rows = problem.design, arrays.indices(first, problem.Y)
    return SeenRows(
        X=arrays.take_rows(design.gram.X, rows),
        Y=arrays.take_rows(problem.Y, rows),
        weights=design.weights.merge(first, group),
        bias=design.bias,
    )


def _start(problem: Problem, rows: SeenRows, tuned: Tuned) -> tuple[Kernel, float]:
    """Width and mu for the rkhs penalty, by which relevance is learned."""
    design, found = problem.design, tuned.selection
    if design.penalty != "rkhs":
        design = replace(
            design,
            gram=Gram(rows.X, design.gram.kernel, design.gram.rounding),
            weights=rows.weights,
            penalty="rkhs",
            basis="full",
            n_components=None,
            rows=None,
        )
        held_out = HeldOut.leave_one_out(
            rows.Y, rows.weights, balanced=problem.criterion.held_out.balanced
        )
        criterion = Criterion(problem.criterion.rule, held_out)
        own = Problem(design, rows.Y, criterion)
        found = tune(own, mu=None, gamma=None, search_gamma=True).selection
    return replace(design.gram.kernel, gamma=found.gamma), found.mu


def _losses(
    criterion: Criterion, rows: SeenRows, folds: Sequence[LearnedFold], scores: Array
) -> np.ndarray:
    """The loss of each row (n,) for scores (n, k) by the folds without it."""
    places = [fold.places for fold in folds]
    order = np.concatenate(places)
    held_out = HeldOut.of(
        rows.Y,
        rows.weights,
        [
            Fold(arrays.indices(some, rows.Y), arrays.indices(np.arange(len(some)), rows.Y))
            for some in places
        ],
        balanced=criterion.held_out.balanced,
    )
    residuals = arrays.take_rows(rows.Y - scores, arrays.indices(order, rows.Y))
    losses = np.empty(len(order))
    losses[order] = arrays.to_numpy(Criterion(criterion.rule, held_out).slopes(residuals)[0])
    return losses


def _of_folds(task: Task, tuned: Tuned, learned: _Learned) -> tuple[Array, Array]:
    """Scores (n, k) of all rows by fits without their fold, and class counts (n, c) of these fits.

    Columns are scaled as these fits learn, width and mu are those of the fit to all rows, and so
    are the centres that remain.
    """
    found, Y, weights = tuned.selection, task.problem.Y, task.problem.design.weights
    everything, X = np.arange(Y.shape[0]), task.problem.design.gram.X
    indicator = Y[:, :0] if task.indicator is None else task.indicator
    scores, counts = [], []
    for places, scale in zip(learned.folds, learned.scales, strict=True):
        inside = np.setdiff1d(everything, places)
        kept, others = (arrays.indices(some, Y) for some in (inside, places))
        seen = X * arrays.like(scale, Y)
        problem = task.on(seen).problem.take(inside)
        if not problem.design.every_row:
            centres = np.flatnonzero(np.isin(inside, tuned.centres))
            if len(centres) == 0:
                centres = problem.design.gram.distinct().first[:1]
            design = replace(problem.design, basis="given", n_components=len(centres), rows=centres)
            problem = replace(problem, design=design)
        fold = tune(problem, mu=found.mu, gamma=found.gamma, search_gamma=False)
        gram = problem.design.gram.with_gamma(found.gamma)
        centres = arrays.take_rows(gram.X, arrays.indices(fold.centres, Y))
        block = gram.kernel.block(arrays.take_rows(seen, others), centres)
        scores.append(block @ fold.ridge.coef + fold.ridge.intercept)
        total = weights.take(kept).v @ arrays.take_rows(indicator, kept)
        counts.append(total[None, :] + 0 * arrays.take_rows(indicator, others))
    return joined(learned.folds, scores), joined(learned.folds, counts)


def check(model: BaseEstimator) -> None:
    """Refuse parameters that leave nothing, or nothing with a gradient, to learn widths by."""
    able = [
        name
        for name, family in KERNELS.items()
        if isinstance(family, Stationary) and family.has_slopes
    ]
    if callable(model.kernel) or model.kernel not in able:
        raise ValueError(
            f"ard=True needs a kernel that has slopes in its columns, one of "
            f"{', '.join(map(repr, able))}; got kernel={model.kernel!r}."
        )
    for name in ("gamma", "regularization"):
        value = getattr(model, name)
        if not (isinstance(value, str) and value == "loo"):
            raise ValueError(
                f"ard=True learns from fits at the best width and mu and needs {name}='loo'; got "
                f"{name}={value!r}."
            )
    smooth = [name for name, loss in CRITERIA.items() if loss.smooth]
    criterion = getattr(model, "criterion", "press")
    if not (isinstance(criterion, str) and criterion in ("auto", *smooth)):
        raise ValueError(
            f"ard=True needs a criterion with a gradient, one of {', '.join(map(repr, smooth))}; "
            f"got criterion={criterion!r}."
        )
