"""Rows that memory holds, all at once: the exact fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from fisherkit.core import (
    Array,
    Design,
    Gram,
    Kernel,
    Labels,
    Residuals,
    Weights,
    arrays,
    median_gamma,
    scale_gamma,
)
from fisherkit.rows.blocks import fit_blocks, interleave
from fisherkit.rows.expansion import Expansion
from fisherkit.rows.fits import Basis, Fit, Spec, Task
from fisherkit.rows.planning import IN_MEMORY, Plan
from fisherkit.rows.routes import Outlook
from fisherkit.rows.sources import Budget, LocalRows, Sample
from fisherkit.tuning import Criterion, HeldOut, LocalParts, Problem, Tuned, log

_NO_BUDGET = Budget(0)


@dataclass(frozen=True)
class MemoryRows:
    """Validated rows X of positive weight, at the places ``kept`` among ``n``, and their targets Y.

    ``rounding`` is that of the numbers that users gave. ``dropped`` are the rows of weight 0. The
    ``plan`` may be to take sums over blocks of these rows within the ``budget``.
    """

    X: Array
    Y: Array
    weights: Weights
    labels: Labels | None
    flat: bool
    rounding: float
    n: int
    kept: np.ndarray
    dropped: Array | None
    plan: Plan = IN_MEMORY
    budget: Budget = _NO_BUDGET

    def fit(self, spec: Spec) -> Fit:
        if self.plan.outlook is not None:
            return self._chosen(spec, self.plan.outlook)
        if not self.plan.streamed:
            task = self.task(spec)
            return fitted(task, task.tune())
        fit = fit_blocks(spec, self.plan, self.blocks(), self.named(spec.basis))
        task = self.task(spec).on_centres(fit.centres)
        return replace(
            fit,
            centres=self.kept[fit.centres],
            training=task.settled(fit.selection, fit.centres),
        )

    def _chosen(self, spec: Spec, outlook: Outlook) -> Fit:
        """The fit that the search on some rows, time and memory suggest."""
        start, task = perf_counter(), self.task(spec)
        outlook = outlook.of_targets(self.Y.shape[1])
        if not task.has_levels:
            outlook = outlook.without_levels(searched=spec.search_gamma or spec.mu is None)
        if outlook.decided:
            return replace(fitted(task, task.tune()), chosen=outlook.every_row())
        found = task.scout(outlook.most_rows, outlook.most_rank) if task.has_levels else None
        if found is not None and found.exact is not None:
            return replace(
                fitted(task, found.fit()), chosen=outlook.low_rank(len(found.exact.centres))
            )
        trend = None if found is None else found.trend
        route, chosen = outlook.choose(trend, perf_counter() - start)
        log.info("%s", chosen.sentence)
        if route.centres is None:
            tuned = task.tune() if found is None else found.fit()
            return replace(fitted(task, tuned), chosen=chosen)
        searched, spec = spec.search_gamma, replace(spec, basis=Basis("random", route.centres))
        if found is not None and searched:
            spec = replace(spec, gamma=found.gamma(route.centres))
        settled = replace(self.plan.asked_for(route, chosen), held=False)
        fit = replace(self, plan=settled).fit(spec)
        return replace(fit, chosen=chosen.at(fit.selection.gamma) if searched else chosen)

    def blocks(self) -> LocalRows:
        """The same rows, for passes over them."""
        return LocalRows(self.X, self.Y, self.weights.frequency, self.weights.cost, self.budget)

    def named(self, basis: Basis) -> Sample | None:
        """The centres that the user has named."""
        places = basis.positions(self.kept, self.n)
        return None if places is None else self.blocks().sample_of(places)

    def task(self, spec: Spec) -> Task:
        """Everything short of fitting."""
        kernel, gamma = spec.kernel, spec.gamma
        if kernel.has_gamma and gamma is None:
            frequency = self.weights.frequency
            gamma = gamma_by_thumb(spec.gamma_rule, self.X, frequency, kernel, spec.seed)
        # What a callable criterion is given as y.
        asked = self.labels if callable(spec.criterion) else None
        held_out = HeldOut.of(
            self.Y,
            self.weights,
            spec.folds,
            balanced=spec.balanced,
            labels=None if asked is None else asked.values,
        )
        design = Design(
            gram=Gram(self.X, replace(kernel, gamma=gamma), self.rounding),
            weights=self.weights,
            penalty=spec.penalty,
            bias=spec.bias,
            basis=spec.basis.kind,
            n_components=spec.basis.n_components,
            rows=spec.basis.positions(self.kept, self.n),
            seed=spec.seed,
        )
        return Task(
            problem=Problem(design, self.Y, Criterion(spec.criterion, held_out), spec.limits),
            mu=spec.mu,
            gamma=gamma,
            search_gamma=spec.search_gamma,
            kept=self.kept,
            flat=self.flat,
            labels=self.labels,
            rule=spec.rule,
        )

    def in_order(self, column: Sequence[Any], plain: Callable[[Any], Array], width: int) -> Array:
        inside = arrays.namespace(column[0]).concat(list(column), axis=0)
        if self.dropped is None:
            return inside
        return interleave(inside, plain(self.dropped), self.kept)


def gamma_by_thumb(
    rule: Any, X: Array, frequency: Array, kernel: Kernel, seed: int
) -> float | None:
    """gamma by the rule of thumb of this name, ``None`` if the rule is a search."""
    if rule == "scale":
        return scale_gamma(X, frequency)
    if rule == "median":
        return median_gamma(X, frequency, kernel, seed)
    return None


def fitted(task: Task, tuned: Tuned) -> Fit:
    """The fit of a task that has been tuned."""
    gram, ridge = task.problem.design.gram, tuned.ridge
    places = task.kept[tuned.centres]
    precomputed = gram.kernel.precomputed
    centres = columns = None
    if precomputed:
        columns = arrays.indices(places, gram.X)
    else:
        rows = arrays.indices(tuned.centres, gram.X)
        centres = arrays.namespace(gram.X).take(gram.X, rows, axis=0)
    left_out: Residuals = ridge
    if tuned.sampled is not None:
        left_out = ridge.taken(arrays.indices(tuned.sampled, gram.X))
    if tuned.selection.reason:
        log.info("%s", tuned.selection.reason)
    return Fit(
        expansion=Expansion(
            kernel=replace(gram.kernel, gamma=tuned.selection.gamma),
            centres=centres,
            columns=columns,
            coef=ridge.coef,
            intercept=ridge.intercept,
            flat=task.flat,
        ),
        centres=places,
        selection=tuned.selection,
        left_out=LocalParts([left_out]),
        scatter=ridge.scatter,
        training=task.settled(tuned.selection, tuned.centres, tuned.sampled),
        sampled=tuned.sampled,
    )
