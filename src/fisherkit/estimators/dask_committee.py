"""The committee on Dask collections: scores and logits of the members stay on the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherkit.committee import (
    Pricing,
    ScorePass,
    fit_committee,
    members_within,
    within,
)
from fisherkit.core import Weights, coding
from fisherkit.estimators import validation
from fisherkit.estimators.dask_fit import Coder, given_centres, lazy, planned, source_of
from fisherkit.rows import (
    Budget,
    Chunk,
    DaskRows,
    Form,
    Together,
    constant,
    kept_by_workers,
    run,
    task,
    tree,
)
from fisherkit.tuning import Likelihood, add_up, probabilities

_PART = 1 << 16  # numbers of a member's scores in the parts that a task sums over


@dataclass(frozen=True)
class DaskParts:
    """Chunks as parts: columns are lists of arrays that the workers keep, one for each chunk."""

    rows: DaskRows
    likelihoods: Sequence[Any]
    capacity: int
    limit: int

    @classmethod
    def of(cls, rows: DaskRows, coder: Coder, classes: Weights) -> DaskParts:
        """Rows with the memory budget of the whole fit; a chunk's scores are a task's result."""
        make, shared = task(_likelihood), constant((coder, classes))
        likelihoods = kept_by_workers([make(chunk, shared) for chunk in rows.chunks])
        capacity, limit = members_within(rows.budget, int(rows.lengths.max()), rows.k)
        return cls(within(rows), likelihoods, capacity, limit)

    def total(
        self, terms: Callable[..., tuple[Any, ...]], columns: Sequence[Any], *arguments: Any
    ) -> tuple[Any, ...]:
        return tree(task(add_up), self._tasks(_sums, terms, columns, arguments))

    def each(self, terms: Callable[..., Any], columns: Sequence[Any], *arguments: Any) -> list[Any]:
        return kept_by_workers(self._tasks(_call, terms, columns, arguments))

    def score(self, members: Sequence[tuple[Form, Sequence[float]]]) -> list[Sequence[Any]]:
        call, pick, shared = task(_score), task(_pick), constant(members)
        scored = [call(shared, chunk, self.rows.budget) for chunk in self.rows.chunks]
        parts = [pick(part, i) for i in range(len(members)) for part in scored]
        kept, n = kept_by_workers(parts), len(scored)
        return [kept[i * n : (i + 1) * n] for i in range(len(members))]

    def _tasks(
        self, function: Any, terms: Any, columns: Sequence[Any], arguments: tuple[Any, ...]
    ) -> list[Any]:
        call, shared = task(function), constant((terms, arguments))
        return [
            call(shared, likelihood, [column[i] for column in columns])
            for i, likelihood in enumerate(self.likelihoods)
        ]


def _call(shared: tuple[Any, tuple[Any, ...]], likelihood: Likelihood, arrays: list[Any]) -> Any:
    terms, arguments = shared
    return terms(likelihood, arrays, *arguments)


def _sums(shared: tuple[Any, tuple[Any, ...]], likelihood: Likelihood, arrays: list[Any]) -> Any:
    """Terms of a chunk, in parts: what they hold beside the scores stays small."""
    n = len(likelihood.share)
    step = max(1, _PART // max(1, likelihood.target.shape[1]))
    slices = [slice(start, start + step) for start in range(0, n, step)]
    return add_up(
        _call(shared, likelihood.rows(some), [array[some] for array in arrays]) for some in slices
    )


def _likelihood(chunk: Chunk, shared: tuple[Coder, Weights]) -> Likelihood:
    coder, classes = shared
    weights = Weights(chunk.frequency, chunk.cost)
    return Likelihood.of(coder.indicator(chunk.Y), weights, classes)


def _score(
    members: Sequence[tuple[Form, Sequence[float]]], chunk: Chunk, budget: Budget
) -> list[np.ndarray]:
    """Centred left-out scores (b, k, q) of a chunk for each form; 0 where the weight is 0."""
    steps = [
        ScorePass(form, mus, np.zeros((*chunk.Y.shape, len(mus))), chunk.start)
        for form, mus in members
    ]
    run(Together(steps), chunk, budget)
    return [step.scores for step in steps]


def _pick(parts: list[np.ndarray], position: int) -> np.ndarray:
    return parts[position]


def fit_members(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """`FisherCommitteeClassifier.fit` on a Dask collection."""
    source = source_of(model, X, y, sample_weight, classifier=True)
    plan, budget = planned(model, source)
    labels = np.array(sorted(source.labels.copies))
    validation.several_classes(model, labels)
    copies = np.array([source.labels.copies[label] for label in labels.tolist()])
    index = np.arange(len(labels))
    cost = validation.class_costs(model.class_weight, labels, index, copies)
    codes = coding.targets(index, len(labels), np.empty(0))
    coder, classes = Coder(labels, cost), Weights(copies, cost)
    rows = source.rows(coder, codes.shape[1], budget)
    parts = DaskParts.of(rows, coder, classes)
    # One row for each class, with the weight of all of its rows, has the same class shares.
    likelihood = Likelihood.of(np.eye(len(labels)), classes)
    pricing = Pricing(
        *(parts, likelihood, classes.mean(codes), model.combine, model.min_weight, parts.limit)
    )
    d, given = source.shape[0], given_centres(model, plan, rows)
    fit = fit_committee(model._asked(plan), parts.rows, parts, pricing, d, given)
    validation.mention_spreads(fit.spread)
    model.classes_ = labels
    model._store_committee(fit.committee, fit.pool, fit.places)
    finish, shared = task(_probabilities), constant(model)
    found = [
        finish(logits, chunk, shared)
        for logits, chunk in zip(fit.committee.logits, rows.chunks, strict=True)
    ]
    model.loo_proba_ = lazy(rows, kept_by_workers(found), len(labels), False)
    return model


def _probabilities(logits: np.ndarray, chunk: Chunk, model: Any) -> tuple[np.ndarray, None]:
    """Leave-one-out probabilities of a chunk; plain ones where the weight is 0."""
    absent = chunk.frequency == 0
    if absent.any():
        logits = logits.copy()
        logits[absent] = model._raw_scores(np.asarray(chunk.X[absent]))
    return probabilities(logits, 1.0), None
