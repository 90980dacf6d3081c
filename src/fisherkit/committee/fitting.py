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
    probabilities,
)

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
        found = assemble(_families(rows, asked), rows.Y, _pricing(asked, parts, labels))
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
