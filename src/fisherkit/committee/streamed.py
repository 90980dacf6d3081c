"""The committee on row blocks: every member in the same two passes.

    pass 1    moments of the features of every width                          n m^2 flops each
    between   one decomposition of an m x m matrix for each width
    pass 2    exact leave-one-out scores of every member                      2 n m^2 flops each

Both passes serve several widths at a time, so that rows are read twice in all. Newton steps of the
calibrations need the scores of all rows again and again: they are kept, n k numbers for each
member, until the members of these widths are calibrated (`fisherkit.tuning.likelihood` sums over
blocks). Where moments or scores of all widths do not fit the memory budget, the passes are repeated
for groups of widths, which costs reading the rows again and no flops; where those of one width do
not fit, pass 2 is repeated for groups of its mu. Results do not depend on the groups but by
rounding.

Left-out logits of members that may end up with weight are kept, too. On many rows these are few;
where they are too many, both passes are repeated for the members that turn out to have weight.

Leave-one-out is conditional on the centres: the same rows for all widths if they are drawn at
random or named, pivots of each width (of one sample) otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from fisherkit.committee.members import (
    STACKED,
    Asked,
    Committee,
    Priced,
    Pricing,
    Share,
    above_rounding,
    log_prior,
    shares,
)
from fisherkit.committee.widths import SOME, families_on, spread_over_classes, worth_a_fit
from fisherkit.core import (
    FREE,
    Array,
    Kernel,
    Weights,
    arrays,
    blas_threads,
    membership,
    relative_floor,
)
from fisherkit.rows import (
    SUMS,
    Block,
    Budget,
    Centres,
    FirstPass,
    Form,
    LocalRows,
    Numbers,
    Plan,
    Rows,
    Sample,
    Together,
    block_of,
    choose,
    draw,
    left_out,
    refuse_absent,
    second_pass_numbers,
)
from fisherkit.tuning import GRID, Likelihood, LocalParts, Parts, log, mu_grid

_PASS_SHARE = 0.5  # of the budget, for the passes
_SCORE_SHARE = 0.25  # for the scores of the members that are being calibrated
_KEPT_SHARE = 0.25  # for the logits of the members that may end up with weight
_FORM_MATRICES = 4  # m x m matrices of a decomposition


@dataclass(frozen=True)
class ScorePass:
    """Pass 2: centred left-out scores at each mu, written to ``scores`` (n, k, q).

    ``start`` is the place in the data of the first row of ``scores``; rows of weight 0 are left as
    they are. Workers write to different rows.
    """

    on_host: ClassVar[bool] = False
    title: ClassVar[str] = "pass 2"

    form: Form
    mus: Sequence[float]
    scores: Array
    start: int = 0

    @property
    def numbers(self) -> Numbers:
        return second_pass_numbers(*self.form.shape, len(self.mus))

    def begin(self) -> None:
        return None

    def add(self, state: None, block: Block) -> None:
        form, weights = self.form, block.weights
        e, B = form.residuals(form.coordinates(block.X), block, self.mus)
        centred = block.Y - weights.fold_mean_within(block.Y, form.targets, form.mass)
        Z = above_rounding(centred[:, :, None] - left_out(e, B, weights))
        places = block.index - self.start
        ends = np.flatnonzero(np.diff(places) > 1) + 1  # rows of weight 0 are missing
        for run in np.split(np.arange(len(places)), ends):
            self.scores[places[run[0]] : places[run[-1]] + 1, :, :] = Z[run[0] : run[-1] + 1, :, :]

    def merge(self, a: None, b: None) -> None:
        return None


class ScoredParts(Parts, Protocol):
    """Parts that can be scored: a column of scores for each form and its mus.

    Scores of ``capacity`` members, and logits of ``limit`` members, can be kept at a time; passes
    over the ``rows`` have their share of the budget.
    """

    @property
    def rows(self) -> Rows: ...

    @property
    def capacity(self) -> int: ...

    @property
    def limit(self) -> int: ...

    def score(self, members: Sequence[tuple[Form, Sequence[float]]]) -> list[Sequence[Any]]: ...


@dataclass(frozen=True)
class LocalScores(LocalParts):
    """Scores of rows on this machine: arrays of all rows, of which the parts are views."""

    rows: LocalRows
    slices: Sequence[slice]
    capacity: int
    limit: int

    @classmethod
    def of(cls, rows: LocalRows) -> LocalScores:
        """Rows with the memory budget of the whole fit."""
        weights = Weights(rows.frequency, rows.cost)
        likelihood = Likelihood.of(membership(rows.Y), weights)
        capacity, limit = members_within(rows.budget, rows.n, rows.k)
        slices = list(arrays.row_blocks(rows.n, len(GRID) * rows.k))
        parts = [likelihood.rows(some) for some in slices]
        return cls(parts, within(rows), slices, capacity, limit)

    def map(
        self, terms: Callable[..., Any], columns: Sequence[Any], arguments: Sequence[Any]
    ) -> Iterable[Any]:
        """The result of each part, in order, by as many threads as passes have."""
        workers = blas_threads() if arrays.is_numpy(self.rows.Y) else 1
        if min(workers, len(self.slices)) == 1:
            return super().map(terms, columns, arguments)

        def call(position: int) -> Any:
            pieces = [column[position] for column in columns]
            return terms(self.parts[position], pieces, *arguments)

        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
            try:
                return list(pool.map(call, range(len(self.slices))))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def score(self, members: Sequence[tuple[Form, Sequence[float]]]) -> list[Sequence[Any]]:
        rows = self.rows
        steps = [
            ScorePass(form, mus, arrays.zeros((rows.n, rows.k, len(mus)), rows.Y))
            for form, mus in members
        ]
        rows.sweep(Together(steps))
        return [[step.scores[some, :, :] for some in self.slices] for step in steps]


def members_within(budget: Budget, n: int, k: int) -> tuple[int, int]:
    """Members whose scores of n rows, and whose logits, can be kept at a time."""
    scores, logits = (int(share * budget.bytes) for share in (_SCORE_SHARE, _KEPT_SHARE))
    return scores // (8 * n * k), logits // (8 * n * k)


def within(rows: Any) -> Any:
    """The rows with the share of the memory budget that passes may take."""
    return replace(rows, budget=Budget(int(_PASS_SHARE * rows.budget.bytes)))


def fit_streamed(
    asked: Asked,
    plan: Plan,
    parts: ScoredParts,
    pricing: Pricing,
    named: Sample | None,
) -> tuple[Committee, Array, np.ndarray]:
    """Survey, widths, centres, and the two passes for all members, which ``pricing`` weighs.

    ``named`` are the centres if they are known. The centres of the members are numbers of the rows
    (p, d) returned, which have these places in the data.
    """
    m, rows = plan.n_components, parts.rows
    assert m is not None
    refuse_absent(named)
    rows.budget.require(second_pass_numbers(m, rows.d, rows.k, len(GRID)))  # before any row is read
    _require_room(parts.capacity, 1, pricing.combine)
    drawn = draw(plan, asked.seed, rows)
    pool, seen = named or drawn.pool, drawn.seen
    some, X = (arrays.like(part.X, rows.reference) for part in (drawn.sample, pool))
    fit = _Fit(asked, plan, parts, pool, some, X)
    log.info("%s", plan.reason)
    gammas = asked.widths(seen.mean, seen.variances)
    worth: Sequence[Sequence[float | None]] = gammas
    if seen.rows * m >= SUMS:
        worth = _worth_passes(asked, drawn.sample, gammas, rows, seen.weight)
    every = [
        _Width(position, replace(kernel, gamma=gamma), len(asked.kernels), len(own))
        for position, (kernel, own) in enumerate(zip(asked.kernels, gammas, strict=True))
        for gamma in worth[position]
    ]
    if pricing.combine == "stack":
        _require_room(parts.limit, min(STACKED, len(every) * len(GRID)), "stack")
    for group in fit.groups(every):
        fit.price(group, pricing)
    found = pricing.add_up()
    if pricing.overflow:
        found = replace(found, logits=fit.blended(found, every))
    return found, X, rows.locate(pool.index)


def _worth_passes(
    asked: Asked,
    sample: Sample,
    gammas: Sequence[Sequence[float | None]],
    rows: Rows,
    total: float,
) -> Sequence[Sequence[float | None]]:
    """The widths of each kernel that may end up with weight, by what some of the rows say."""
    classes = np.argmax(arrays.to_numpy(membership(sample.Y)), axis=1)
    if sample.size < SOME or len(np.unique(classes)) < max(rows.k, 2):
        return gammas
    different = replace(sample, frequency=sample.chance / sample.cost)  # copies counted
    block = block_of(different.take(spread_over_classes(classes)), rows.reference)
    rounding = arrays.eps(block.X)
    some = families_on(block.X, block.weights, asked, gammas, rounding=rounding)
    share = float(arrays.to_numpy(block.weights.total)) / total
    found = worth_a_fit(some, block.Y, block.weights, asked.combine, share)
    return [worth.gammas for worth in found]


@dataclass(frozen=True)
class _Width:
    """A kernel with its width, its place among the ``families``, and how many ``widths`` it has."""

    family: int
    kernel: Kernel
    families: int
    widths: int


@dataclass(frozen=True)
class _Fit:
    """What the passes need: ``pool`` with its rows X (p, d) has the centres, ``some`` (s, d) are
    rows at random."""

    asked: Asked
    plan: Plan
    parts: ScoredParts
    pool: Sample
    some: Array
    X: Array

    @property
    def rows(self) -> Rows:
        return self.parts.rows

    def groups(self, every: list[_Width]) -> Iterator[list[_Width]]:
        """Widths that share their passes: as many as memory holds the moments and scores of."""
        m, rows = self.plan.n_components, self.rows
        assert m is not None
        moments = 8 * m * (blas_threads() * (m + rows.k + 1) + _FORM_MATRICES * m)
        size = min(self.parts.capacity // len(GRID), int(0.5 * rows.budget.bytes) // moments)
        count = -(-len(every) // max(size, 1))
        if count > 1:
            log.info(
                "max_memory does not hold all widths at once: two passes for each of %d groups "
                "of widths",
                count,
            )
        for group in np.array_split(np.arange(len(every)), count):
            yield [every[i] for i in group]

    def forms(self, group: Sequence[_Width]) -> list[tuple[np.ndarray, Form]]:
        """Pass 1 and the decompositions: the centres, numbers of rows of the pool, and the form."""
        centres, steps = [], []
        for width in group:
            chosen = self._chosen(width.kernel)
            rows = arrays.namespace(self.X).take(self.X, arrays.indices(chosen, self.X), axis=0)
            frequency = arrays.like(self.pool.frequency[chosen], self.X)
            model = Centres.of(width.kernel, rows, frequency, self.asked.penalty)
            steps.append(FirstPass.about(model, self.some, self.rows.k, FREE))
            centres.append(chosen[model.kept])
        moments = self.rows.sweep(Together(steps))
        floor = self._floor(moments[0].total)
        forms = [
            Form.of(step, sums, FREE, smallest=floor)
            for step, sums in zip(steps, moments, strict=True)
        ]
        log.info("pass 1: %d rows, widths: %d", forms[0].rows, len(forms))
        return list(zip(centres, forms, strict=True))

    def price(self, group: Sequence[_Width], pricing: Pricing) -> None:
        """Both passes for some widths, and the calibration of their members."""
        models = self.forms(group)
        floor = self._floor(models[0][1].total)
        grids = [mu_grid(form.unit, floor * form.unit) for _, form in models]
        for members in _batches(grids, self.parts.capacity):
            columns = self.parts.score([(models[i][1], mus.tolist()) for i, mus in members])
            for i, mus in members:
                width, (centres, form) = group[i], models[i]
                pricing.add(
                    Priced(
                        family=width.family,
                        gamma=width.kernel.gamma,
                        unit=form.unit,
                        mus=mus,
                        log_prior=log_prior(width.families, width.widths, len(grids[i])),
                        scores=columns.pop(0),  # let go when they are calibrated
                        coefficients=_Coefficients(form),
                        centres=centres,
                        path=f"streamed, rank {form.rank}",
                    )
                )

    def blended(self, found: Committee, every: list[_Width]) -> Sequence[Any]:
        """The left-out logits of the committee, by both passes for the members with weight."""
        weighted, logits = shares(found), found.logits
        used = [width for width in every if (width.family, width.kernel.gamma) in weighted]
        if used:
            log.info("both passes again: max_memory does not hold the logits of all members")
        for group in self.groups(used) if used else ():
            models = self.forms(group)
            for width, (_, form) in zip(group, models, strict=True):
                for share in weighted[width.family, width.kernel.gamma]:
                    logits = self._more(logits, form, share)
        return logits

    def _more(self, logits: Sequence[Any], form: Form, share: Share) -> Sequence[Any]:
        offset = share.offset
        for start in range(0, len(share.mus), self.parts.capacity):
            some = slice(start, start + self.parts.capacity)
            (scores,) = self.parts.score([(form, share.mus[some].tolist())])
            slope = arrays.like(share.slope[some], self.X)
            logits = self.parts.each(
                _with_members, [logits, scores], slope, arrays.like(offset, self.X)
            )
            offset = 0 * offset  # once for all
        return logits

    def _chosen(self, kernel: Kernel) -> np.ndarray:
        if self.plan.basis == "given":
            return np.arange(self.pool.size)
        return choose(self.plan, self.asked.seed, kernel, self.pool, self.rows.reference)

    def _floor(self, total: float) -> float:
        """The smallest mu, relative to tr(G)/n."""
        return relative_floor(total, arrays.eps(self.X))


def _with_members(rows: Likelihood, pieces: Sequence[Array], slope: Array, offset: Array) -> Array:
    logits, scores = pieces
    return logits + arrays.namespace(slope).matmul(scores, slope) + offset


@dataclass(frozen=True)
class _Coefficients:
    """Coefficients (m, k, s) and intercepts (k, s) of f at some mu."""

    form: Form

    def __call__(self, mus: list[float]) -> tuple[Array, Array]:
        form = self.form
        xp = arrays.namespace(form.lam)
        if not mus:
            m, k = form.centres.size, form.xi.shape[1]
            return arrays.zeros((m, k, 0), form.lam), arrays.zeros((k, 0), form.lam)
        coef, intercept = zip(*(form.coefficients(mu) for mu in mus), strict=True)
        return xp.stack(coef, axis=2), xp.stack(intercept, axis=1)


def _require_room(room: int, members: int, combine: str) -> None:
    """Refuse a budget that does not hold the left-out scores of so many members."""
    if room < members:
        raise ValueError(
            f"max_memory holds the left-out scores of {room} members of the committee at a time; "
            f"combine={combine!r} needs {members}. Raise max_memory"
            + (", or use combine='average'." if members > 1 else ".")
        )


def _batches(grids: list[np.ndarray], capacity: int) -> Iterator[list[tuple[int, np.ndarray]]]:
    """Which width, and which of its mus, are scored in one pass 2."""
    if sum(map(len, grids)) <= capacity:
        yield list(enumerate(grids))
        return
    log.info("pass 2 in parts: max_memory holds the scores of %d members", capacity)
    for i, mus in enumerate(grids):
        for start in range(0, len(mus), capacity):
            yield [(i, mus[start : start + capacity])]
