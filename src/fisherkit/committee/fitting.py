"""One fit of a committee, wherever its rows are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fisherkit.committee.members import (
    Committee,
    KernelFamily,
    Pricing,
    Status,
    assemble,
    expand,
)
from fisherkit.committee.streamed import (
    Asked,
    LocalScores,
    ScorePass,
    fit_streamed,
    members_within,
    within,
)
from fisherkit.core import (
    FREE,
    Array,
    Design,
    Gram,
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
    fit_pooled,
    log,
    probabilities,
)

_MANY, _SOME = 1500, 1000  # different rows from which some say which widths are worth a fit
_LEAST = 1e-4  # of the weight of the best width on all rows
_UNSURE = -4.0  # difference of log weights on some rows that may be luck
_PART = 1 << 16  # numbers of a member's scores in the parts that a task sums over


@dataclass(frozen=True)
class CommitteeFit:
    """A committee, what predicts, and a column of the probabilities (b, c) of left-out rows.

    The centres of each part are those at these positions of ``places``, places in the data.
    """

    committee: Committee
    expansion: Blend
    places: np.ndarray
    left_out: Sequence[Any]


def fit(rows: RowSource, asked: Asked) -> CommitteeFit:
    """Price every member, weigh them, and add them up."""
    labels = rows.labels
    assert labels is not None
    if isinstance(rows, MemoryRows) and not rows.plan.streamed:
        parts: Parts = LocalParts([Likelihood.of(labels.indicator, rows.weights)])
        families = _worth_a_fit(_families(rows, asked), rows, asked)
        found = assemble(families, rows.Y, _pricing(asked, parts, labels))
        X, places = rows.X, rows.kept
    else:
        scores: DaskScores | LocalScores = (
            DaskScores.of(rows) if isinstance(rows, DaskRows) else LocalScores.of(_local(rows))
        )
        pricing = _pricing(asked, scores, labels, scores.limit)
        found, X, places = fit_streamed(asked, rows.plan, scores, pricing, rows.named(asked.basis))
        places = rows.kept[places] if isinstance(rows, MemoryRows) else places
        parts = scores
    found = _in_matrix_form(found, parts)
    expansion = Blend(expand(found.parts, asked.kernels, X), found.intercept, rows.flat)
    return CommitteeFit(found, expansion, places, parts.each(_left_out, [found.logits]))


def _worth_a_fit(
    families: list[KernelFamily], rows: MemoryRows, asked: Asked
) -> list[KernelFamily]:
    """The families with the widths that may end up with weight, by what some of the rows say.

    On fewer rows the weights are less unequal: what has next to none there has none on all. The
    rows are different ones, drawn by their values, so that copies and order do not matter.
    """
    labels, design = rows.labels, families[0].design
    assert labels is not None
    distinct, index = design.gram.distinct(), arrays.to_numpy(labels.index)
    first, group = distinct.split(index, labels.n_classes)
    if not design.every_row or len(first) < _MANY:
        return families
    drawn = np.argsort(-race(distinct.key[distinct.group[first]], np.ones(len(first)), 0))
    classes = index[first[drawn]]
    alone = [int(np.argmax(classes == c)) for c in np.setdiff1d(classes, classes[:_SOME])]
    drawn = np.append(drawn[:_SOME], drawn[alone])
    copies = np.bincount(group, weights=arrays.to_numpy(labels.weights.frequency))[drawn]
    part = labels.take(first[drawn], arrays.like(copies, rows.Y))
    parts = LocalParts([Likelihood.of(part.indicator, part.weights)])
    pricing = replace(_pricing(asked, parts, part), combine="average", min_weight=0.0)
    some = [replace(f, design=_on(f.design, first[drawn], part.weights)) for f in families]
    log.info("%d widths on %d rows, to see which are worth a fit", len(some), len(drawn))
    mass: dict[tuple[int, float | None], float] = {}
    for rung in assemble(some, part.codes, pricing).rungs:
        mass[rung.family, rung.gamma] = float(np.logaddexp.reduce(rung.log_weight))
    # The logarithms of weights grow with the number of rows; half of that is certain.
    sure = max(1.0, 0.5 * len(first) / len(drawn))
    least = max(mass.values()) + min(math.log(_LEAST) / sure, _UNSURE)
    kept = [
        replace(f, gammas=[gamma for gamma in f.gammas if mass[i, gamma] >= least])
        for i, f in enumerate(families)
    ]
    log.info("%d of them are", sum(len(family.gammas) for family in kept))
    return kept


def _on(design: Design, rows: np.ndarray, weights: Weights) -> Design:
    """The design on some of its rows, of other weights."""
    return replace(design, gram=design.gram.taken(rows), weights=weights)


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


def _families(rows: MemoryRows, asked: Asked) -> list[KernelFamily]:
    """The kernels and their widths on rows in memory."""
    basis, X = asked.basis, rows.X
    widths = asked.widths(*feature_moments(X, rows.weights.frequency))
    centres = basis.positions(rows.kept, rows.n)
    return [
        KernelFamily(
            name,
            Design(
                gram=Gram(X, kernel, rows.rounding),
                weights=rows.weights,
                penalty=asked.penalty,
                bias=FREE,
                basis=basis.kind,
                n_components=basis.n_components,
                rows=centres,
                seed=asked.seed,
            ),
            gammas,
            len(gammas),
        )
        for name, kernel, gammas in zip(asked.names, asked.kernels, widths, strict=True)
    ]


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
