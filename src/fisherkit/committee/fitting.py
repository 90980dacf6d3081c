"""One fit of a committee, wherever its rows are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fisherkit.committee.learning import Start, learn, learned_kernel
from fisherkit.committee.members import (
    Asked,
    Committee,
    Pricing,
    Status,
    expand,
)
from fisherkit.committee.pricing import KernelFamily, price
from fisherkit.committee.streamed import (
    LocalScores,
    ScorePass,
    fit_streamed,
    members_within,
    within,
)
from fisherkit.committee.widths import (
    MANY,
    families_on,
    on_rows,
    spread_over_classes,
    worth_a_fit,
)
from fisherkit.core import (
    Array,
    Distinct,
    Kernel,
    Labels,
    Weights,
    arrays,
    feature_moments,
    membership,
    race,
)
from fisherkit.rows import (
    Blend,
    BlockRows,
    Budget,
    Chunk,
    DaskParts,
    DaskRows,
    Form,
    LocalRows,
    MemoryRows,
    RowSource,
    Together,
    run,
)
from fisherkit.tuning import (
    Likelihood,
    LocalParts,
    Parts,
    Softmax,
    add_up,
    deal,
    fit_pooled,
    log,
    probabilities,
)

_PART = 1 << 16  # numbers of a member's scores in the parts that a task sums over


@dataclass(frozen=True)
class CommitteeFit:
    """A committee, what predicts, and a column of the probabilities (b, c) of left-out rows.

    The centres of each part are those at these positions of ``places``, places in the data.
    ``names`` and ``kernels`` are those of the families, with those that have learned at the end;
    ``relevance`` (families that have learned, d) are the scales of the features, if there are any.
    """

    committee: Committee
    expansion: Blend
    places: np.ndarray
    left_out: Sequence[Any]
    names: Sequence[str]
    kernels: Sequence[Kernel]
    relevance: np.ndarray


def fit(rows: RowSource, asked: Asked, groups: np.ndarray | None = None) -> CommitteeFit:
    """Price every member, weigh them, and add them up; rows of a group are left out together."""
    labels = rows.labels
    assert labels is not None
    names, kernels = list(asked.names), list(asked.kernels)
    if isinstance(rows, MemoryRows) and not rows.plan.streamed:
        parts: Parts = LocalParts([Likelihood.of(labels.indicator, rows.weights)])
        pricing, learned = _priced(rows, asked, parts, groups)
        for number, scale in learned:
            names.append(f"learned {asked.names[number]}")
            kernels.append(learned_kernel(asked.kernels[number], scale, rows.X.shape[1]))
        found, X, places = pricing.add_up(), rows.X, rows.kept
    else:
        if any(asked.learns):
            log.info("rows are read in blocks, so that the relevance of columns is not learned")
        scores: DaskScores | LocalScores = (
            DaskScores.of(rows) if isinstance(rows, DaskRows) else LocalScores.of(_local(rows))
        )
        pricing = _pricing(asked, scores, labels, scores.limit)
        found, X, places = fit_streamed(asked, rows.plan, scores, pricing, rows.named(asked.basis))
        places = rows.kept[places] if isinstance(rows, MemoryRows) else places
        parts = scores
    found = _in_matrix_form(found, parts)
    return CommitteeFit(
        committee=found,
        expansion=Blend(expand(found.parts, kernels, X), found.intercept, rows.flat),
        places=places,
        left_out=parts.each(_left_out, [found.logits]),
        names=names,
        kernels=kernels,
        relevance=_scales(kernels[len(asked.kernels) :], X.shape[1]),
    )


def _scales(learned: Sequence[Kernel], d: int) -> np.ndarray:
    """The scale of each feature in each kernel, 0 for those that it does not see."""
    found = np.zeros((len(learned), d))
    for row, kernel in zip(found, learned, strict=True):
        assert kernel.view is not None
        row[kernel.view.columns] = kernel.view.scale
    return found


def _priced(
    rows: MemoryRows, asked: Asked, parts: Parts, groups: np.ndarray | None
) -> tuple[Pricing, list[tuple[int, np.ndarray]]]:
    """All members on rows in memory; the families that have learned, with what."""
    families, labels = families_of(rows, asked), rows.labels
    assert labels is not None
    learning = [i for i, learns in enumerate(asked.learns) if learns]
    if learning and not families[0].design.every_row:
        log.info("not every row is a centre, so that the relevance of columns is not learned")
        learning = []
    index, count = arrays.to_numpy(labels.index), len(families) + len(learning)
    folds, apart = [], None
    if learning or groups is not None:
        folds = deal(rows.X, rows.weights, index, groups)
        apart = None if groups is None else folds
    worth = _worth_a_fit(families, rows, asked, groups)
    pricing = _pricing(asked, parts, labels)
    price(worth, count, rows.Y, pricing, apart)
    starts = _starts(pricing)
    learned: list[tuple[int, np.ndarray]] = []
    # A family none of whose widths was worth a fit learns nothing, either.
    for number in [i for i in learning if i in starts] if len(folds) > 1 else []:
        place = len(families) + len(learned)
        scale = learn(
            pricing,
            families[number],
            place,
            count,
            starts[number],
            rows.Y,
            folds,
            alone=groups is None,
        )
        if scale is not None:
            learned.append((number, scale))
    return pricing, learned


def _starts(pricing: Pricing) -> dict[int, Start]:
    """Where each family is best."""
    best: dict[int, tuple[float, Start]] = {}
    for rung in pricing.rungs:
        if rung.gamma is None:
            continue
        place = int(np.argmin(rung.loss))
        found = float(rung.loss[place]), Start(rung.gamma, float(rung.mus[place]))
        if rung.family not in best or found[0] < best[rung.family][0]:
            best[rung.family] = found
    return {family: start for family, (_, start) in best.items()}


def _worth_a_fit(
    families: list[KernelFamily], rows: MemoryRows, asked: Asked, groups: np.ndarray | None
) -> list[KernelFamily]:
    """The families with the widths that may end up with weight, by what some of the rows say.

    These are different ones, drawn by their values, so that copies and order do not matter.
    """
    labels, design = rows.labels, families[0].design
    assert labels is not None
    distinct, index = Distinct.rows(rows.X), arrays.to_numpy(labels.index)
    first, group = distinct.split(index, labels.n_classes)
    if not design.every_row or len(first) < MANY:
        return families
    drawn = np.argsort(-race(distinct.key[distinct.group[first]], np.ones(len(first)), 0))
    drawn = drawn[spread_over_classes(index[first[drawn]])]
    copies = np.bincount(group, weights=arrays.to_numpy(labels.weights.frequency))[drawn]
    chosen = first[drawn]
    part = labels.take(chosen, arrays.like(copies, rows.Y))
    folds = None
    if groups is not None:
        X = arrays.take_rows(rows.X, arrays.indices(chosen, rows.X))
        folds = deal(X, part.weights, index[chosen], groups[chosen])
    some = [on_rows(family, chosen, part.weights) for family in families]
    share = len(drawn) / len(first)
    found = worth_a_fit(some, part.codes, part.weights, asked.combine, share, folds)
    return [
        replace(family, gammas=worth.gammas, likely=worth.likely, different=len(first))
        for family, worth in zip(families, found, strict=True)
    ]


def _in_matrix_form(found: Committee, parts: Parts) -> Committee:
    """The committee of three and more classes with the matrix form on its left-out logits."""
    k = found.intercept.shape[0]
    if k == 1 or found.status is Status.CLASS_PRIOR:
        return found
    softmax = fit_pooled(parts, found.logits, found.intercept)
    W = softmax.matrix
    return replace(
        found,
        parts=[replace(part, coef=part.coef @ W) for part in found.parts],
        intercept=found.intercept @ W + softmax.shift,
        logits=parts.each(_transformed, [found.logits], softmax),
        calibration=softmax,
    )


def _transformed(rows: Likelihood, pieces: Sequence[Array], softmax: Softmax) -> Array:
    return softmax(pieces[0])


def _local(rows: RowSource) -> LocalRows:
    """Rows on this machine, for passes over them."""
    if isinstance(rows, MemoryRows):
        return rows.blocks()
    assert isinstance(rows, BlockRows)
    return rows.rows


def _pricing(asked: Asked, parts: Parts, labels: Labels, limit: float = math.inf) -> Pricing:
    weights = labels.weights
    return Pricing(
        parts=parts,
        likelihood=Likelihood.of(labels.indicator, weights),
        mean=weights.mean(labels.codes),
        combine=asked.combine,
        min_weight=asked.min_weight,
        limit=limit,
    )


def families_of(rows: MemoryRows, asked: Asked) -> list[KernelFamily]:
    """The kernels and their widths on rows in memory."""
    basis, X = asked.basis, rows.X
    return families_on(
        X,
        rows.weights,
        asked,
        asked.widths(*feature_moments(X, rows.weights.frequency)),
        rounding=rows.rounding,
        basis=basis.kind,
        n_components=basis.n_components,
        centres=basis.positions(rows.kept, rows.n),
    )


def _left_out(rows: Likelihood, pieces: Sequence[Array]) -> Array:
    """Probabilities of the rows of positive weight."""
    (logits,) = pieces
    present = np.flatnonzero(arrays.to_numpy(rows.share) > 0)
    if len(present) < logits.shape[0]:
        logits = arrays.take_rows(logits, arrays.indices(present, logits))
    return probabilities(logits, 1.0)


@dataclass(frozen=True)
class DaskScores:
    """Chunks as parts; a chunk's scores are a task's result."""

    parts: DaskParts
    rows: DaskRows
    capacity: int
    limit: int

    @classmethod
    def of(cls, rows: DaskRows) -> DaskScores:
        """Rows with the memory budget of the whole fit."""
        assert rows.labels is not None
        parts = DaskParts(rows.each(_likelihood, rows.labels.of_classes), _as_it_is)
        capacity, limit = members_within(rows.budget, int(rows.lengths.max()), rows.k)
        return cls(parts, within(rows), capacity, limit)

    def total(
        self, terms: Callable[..., tuple[Any, ...]], columns: Sequence[Any], *arguments: Any
    ) -> tuple[Any, ...]:
        return self.parts.total(_sums, columns, terms, arguments)

    def each(self, terms: Callable[..., Any], columns: Sequence[Any], *arguments: Any) -> list[Any]:
        return self.parts.each(terms, columns, *arguments)

    def score(self, members: Sequence[tuple[Form, Sequence[float]]]) -> list[Sequence[Any]]:
        return self.rows.columns(len(members), _score, members, self.rows.budget)


def _as_it_is(part: Any) -> Any:
    return part


def _likelihood(chunk: Chunk, classes: Weights) -> Likelihood:
    return Likelihood.of(membership(chunk.Y), Weights(chunk.frequency, chunk.cost), classes)


def _sums(
    rows: Likelihood, pieces: Sequence[Any], terms: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Terms of a chunk, in parts: what they hold beside the scores stays small."""
    n = len(rows.share)
    step = max(1, _PART // max(1, rows.target.shape[1]))
    slices = [slice(start, start + step) for start in range(0, n, step)]
    return add_up(
        terms(rows.rows(some), [array[some] for array in pieces], *arguments) for some in slices
    )


def _score(
    chunk: Chunk, members: Sequence[tuple[Form, Sequence[float]]], budget: Budget
) -> list[np.ndarray]:
    """Centred left-out scores (b, k, q) of a chunk for each form; 0 where the weight is 0."""
    steps = [
        ScorePass(form, mus, np.zeros((*chunk.Y.shape, len(mus))), chunk.start)
        for form, mus in members
    ]
    run(Together(steps), chunk, budget)
    return [step.scores for step in steps]
