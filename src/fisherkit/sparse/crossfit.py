"""Families of sparse expansions: which width and how many terms, by cross-validation.

A *family* is what one run of a sparse learner yields at one kernel width: models from small to
large, each deciding by f(x) = sum_t k(x, z_t) coef_t + intercept on its own few centres z_t. Folds
rate every member of every family; the winner is refitted on all rows, and the held-out decisions
of its folds calibrate its probabilities.

Rows equal in x and label are merged into one weighted row and centres equal in x into one, in an
order that follows from their values: repeated, shuffled and weighted versions of the same data are
the same problem, to the last bit, for the same folds. A fold is a pair of weights on the merged
rows; splitters of scikit-learn, and a number of folds, deal rows in the order in which they come.

Of many rows, some say which widths are worth comparing on all: widths whose error is within one
standard error of the smallest, three at most, go on from 1,000 rows to 4,000, and from there to
all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from fisherkit.core import (
    Distinct,
    ForwardPath,
    Gram,
    Labels,
    Meter,
    Weights,
    choose_rows,
    race,
    require_squares,
    winners,
)
from fisherkit.tuning import Slope, Softmax, fit_decisions, fit_slope, log

_LEVELS = (1000, 4000)  # rows that say which widths are worth comparing on more
_SHARE = 0.6  # of all rows: a level has fewer
_SURVIVORS = 3  # widths of a level that are compared on more rows, at most
MANY, CANDIDATES = 3000, 2000  # centres beyond which fewer are candidates by default, and how many


@dataclass(frozen=True)
class Family:
    """M models on U common centres, from small to large."""

    terms: np.ndarray  # (U,), the centres in use, as positions among the candidates
    coef: np.ndarray  # (M, U, k), zero where a model does not use a centre
    intercept: np.ndarray  # (M, k)
    sizes: np.ndarray  # (M,), the number of centres of each model
    stop: int | None = None  # the model that the learner itself prefers, if it does
    growth: ForwardPath | None = None  # the forward selection that the models are steps of

    def decisions(self, P: np.ndarray) -> np.ndarray:
        """Decisions (M, m, k) from kernel values P (L, m) of all candidates; one product."""
        M, U, k = self.coef.shape
        stacked = self.coef.transpose(1, 0, 2).reshape(U, M * k)
        values = P[self.terms].T @ stacked
        return values.reshape(-1, M, k).transpose(1, 0, 2) + self.intercept[:, None, :]

    def member(self, number: int | None) -> int:
        """The model of this number, the last if there are fewer; ``None``: the one preferred."""
        if number is None:
            assert self.stop is not None
            number = self.stop
        return min(number, len(self.sizes) - 1)

    @classmethod
    def of(
        cls,
        models: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
        stop: int | None = None,
        growth: ForwardPath | None = None,
    ) -> Family:
        """From (terms (s,), coef (s, k), intercept (k,)) of each model."""
        terms = np.unique(np.concatenate([model[0] for model in models]).astype(np.int64))
        k = len(models[0][2])
        coef = np.zeros((len(models), len(terms), k))
        for row, (used, values, _) in zip(coef, models, strict=True):
            row[np.searchsorted(terms, used)] = values
        # Without terms the intercept decides alone: rounding must not break a tie of classes.
        intercept = np.array([b if len(used) else np.round(b, 12) for used, _, b in models])
        sizes = np.array([len(model[0]) for model in models])
        return cls(terms, coef, intercept, sizes, stop, growth)


class Learner(Protocol):
    """What yields a family at one width; ``rhos`` are the penalties of its models, if any."""

    @property
    def rhos(self) -> np.ndarray | None: ...

    def settle(self, P: np.ndarray, labels: Labels) -> Learner:
        """The learner with all that must not differ between folds fixed on all rows."""
        ...

    def fit(self, P: np.ndarray, labels: Labels) -> Family:
        """The family on candidate kernel rows P (L, n), a fresh array that it may overwrite."""
        ...


@dataclass(frozen=True)
class Sample:
    """Merged rows: kernel, labels, candidates and, for each fold, training and test frequencies.

    ``rows`` (n,) are their positions in the data; ``centres`` (c,) the first merged row of each
    distinct x, and ``centre_of`` (n,) which of them each merged row is. ``basis`` says which of
    the centres are candidates: "all", ``n_candidates`` of them "random" or "pivoted", or "given"
    (their merged rows). ``tests`` are the rows of the data that each fold tests, and ``group`` the
    merged row of each (-1 for rows without weight).
    """

    gram: Gram
    labels: Labels
    rows: np.ndarray
    centres: np.ndarray
    centre_of: np.ndarray
    folds: list[tuple[np.ndarray, np.ndarray]]
    tests: list[np.ndarray]
    group: np.ndarray
    basis: str
    n_candidates: int
    given: np.ndarray | None
    seed: int

    def candidates(self, gamma: float | None) -> np.ndarray:
        """Merged rows that may become centres at this width."""
        if self.given is not None:
            return self.given
        if self.basis == "all" or self.n_candidates >= len(self.centres):
            return self.centres
        gram = self.gram.with_gamma(gamma)
        rng = np.random.RandomState(self.seed)
        v = self.labels.weights.v
        return choose_rows(self.basis, self.n_candidates, gram, v, rng)

    def first(self, size: int) -> Sample:
        """So many of the merged rows, drawn by their values; for `hold_out` alone."""
        distinct = self.gram.distinct()
        keys = distinct.key[distinct.group]
        drawn = np.argsort(-race(keys, np.ones(len(keys)), 0), kind="stable")[:size]
        gram = self.gram.taken(drawn)
        centres, centre_of = centres_of(gram.distinct())
        folds = [(train[drawn], test[drawn]) for train, test in self.folds]
        return replace(
            self,
            gram=gram,
            labels=self.labels.take(drawn, self.labels.weights.frequency[drawn]),
            rows=self.rows[drawn],
            centres=centres,
            centre_of=centre_of,
            folds=[(train, test) for train, test in folds if train.any() and test.any()],
        )

    def kernel_rows(self, gamma: float | None, candidates: np.ndarray) -> np.ndarray:
        """P (L, n), a fresh array."""
        rows = self.gram.with_gamma(gamma).rows(candidates)
        require_squares(rows)
        return rows


def merge(gram: Gram, labels: Labels) -> tuple[Gram, Labels, np.ndarray, np.ndarray]:
    """Merge rows equal in x and label; also their first positions, and the merged row of each row.

    The kernel rows of a precomputed matrix are taken as all different.
    """
    first, group = gram.distinct().split(labels.index, labels.n_classes)
    X = gram.X[first]
    if gram.kernel.precomputed:
        X = X[:, first]
    weights = labels.weights.merge(first, group)
    merged = Labels(labels.classes, labels.index[first], weights)
    return Gram(X, gram.kernel, gram.rounding), merged, first, group


def merged_folds(
    pairs: Iterable[tuple[np.ndarray, np.ndarray]], group: np.ndarray, frequency: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test frequencies of the merged rows for folds of (train, test) row numbers."""
    n = int(group.max()) + 1
    return [
        (
            np.bincount(group[train], weights=frequency[train], minlength=n),
            np.bincount(group[test], weights=frequency[test], minlength=n),
        )
        for train, test in pairs
    ]


def leave_one_out(frequency: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """One fold for each merged row: a copy of it leaves, and all its copies are tested."""
    folds = []
    for i, w in enumerate(frequency):
        train, test = frequency.copy(), np.zeros_like(frequency)
        train[i], test[i] = max(0.0, w - 1.0), w
        folds.append((train, test))
    return folds


def centres_of(distinct: Distinct) -> tuple[np.ndarray, np.ndarray]:
    """First row of each distinct x in row order, and which of them each row is."""
    order = np.argsort(distinct.first)
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    return distinct.first[order], position[distinct.group]


PathRow = tuple[float, float, float, float, float, bool]
PATH_DTYPE = [
    ("gamma", float),
    ("rho", float),
    ("n_terms", float),
    ("cv_error", float),
    ("cv_se", float),
    ("stopped", bool),
]


@dataclass(frozen=True)
class HeldOut:
    """Decisions of the M models of one width on the rows tested, fold after fold.

    ``decisions`` (M, t, k) for merged rows ``rows`` (t,) with test frequencies ``frequency`` (t,)
    in fold ``fold`` (t,); ``known`` says whether the fold's training rows had the row's class.
    ``own`` (t, k) are the decisions of the model at which each fold's learner stopped.
    """

    decisions: np.ndarray
    own: np.ndarray | None
    rows: np.ndarray
    frequency: np.ndarray
    fold: np.ndarray
    known: np.ndarray
    sizes: np.ndarray  # (M,) mean over folds
    own_size: float

    def weights(self, labels: Labels) -> Weights:
        return Weights(self.frequency, labels.weights.cost[self.rows])


def hold_out(sample: Sample, learner: Learner, gamma: float | None) -> tuple[HeldOut, Learner]:
    """Fit the learner, once settled, on every fold at this width; decide on the rows left out."""
    candidates = sample.candidates(gamma)
    P = sample.kernel_rows(gamma, candidates)
    learner = learner.settle(P, sample.labels)
    parts, families = [], []
    title = "cross-validation" if gamma is None else f"cross-validation at gamma {gamma:.4g}"
    meter = Meter(title, len(sample.folds), "folds")
    for number, (train, test) in enumerate(sample.folds):
        inside, outside = np.flatnonzero(train > 0), np.flatnonzero(test > 0)
        # A centre is a training row's x: those of rows held out are not available.
        seen = np.zeros(len(sample.centres), dtype=bool)
        seen[sample.centre_of[inside]] = True
        usable = np.flatnonzero(seen[sample.centre_of[candidates]])
        labels = sample.labels.take(inside, train[inside])
        family = learner.fit(_corner(P, usable, inside), labels)
        families.append(family)
        meter.advance()
        known = labels.counts[sample.labels.index[outside]] > 0
        parts.append((family.decisions(_corner(P, usable, outside)), outside, test, number, known))
    M = max(len(family.sizes) for family in families)
    own_models = [family.stop for family in families]
    stopped = None
    if None not in own_models:
        stopped = np.concatenate(
            [part[0][stop] for part, stop in zip(parts, own_models, strict=True)]
        )
    padded = [np.arange(M).clip(max=len(family.sizes) - 1) for family in families]
    mass = np.array([part[2].sum() for part in parts])
    sizes = [family.sizes[pad] for family, pad in zip(families, padded, strict=True)]
    own_sizes = [family.sizes[family.stop or 0] for family in families]
    held = HeldOut(
        decisions=np.concatenate(
            [part[0][pad] for part, pad in zip(parts, padded, strict=True)], axis=1
        ),
        own=stopped,
        rows=np.concatenate([part[1] for part in parts]),
        frequency=np.concatenate([part[2][part[1]] for part in parts]),
        fold=np.concatenate([np.full(len(part[1]), part[3]) for part in parts]),
        known=np.concatenate([part[4] for part in parts]),
        sizes=np.average(np.array(sizes), axis=0, weights=mass),
        own_size=float(np.average(own_sizes, weights=mass)),
    )
    return held, learner


def _corner(P: np.ndarray, candidates: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """P[candidates][:, rows], a fresh array."""
    columns = P.take(rows, axis=1)
    return columns if len(candidates) == len(P) else columns[candidates]


def fold_errors(held: HeldOut, decisions: np.ndarray, labels: Labels) -> tuple[float, float]:
    """Weighted share of wrong decisions (t, k) on the rows held out, and its standard error.

    The standard error is that of the mean of the folds' own error rates.
    """
    v = held.weights(labels).v
    wrong = v * (winners(decisions) != labels.index[held.rows])
    mass = np.bincount(held.fold, weights=v)
    rates = np.bincount(held.fold, weights=wrong)[mass > 0] / mass[mass > 0]
    spread = float(np.std(rates, ddof=1)) / len(rates) ** 0.5 if len(rates) > 1 else 0.0
    return float(wrong.sum() / v.sum()), spread


@dataclass(frozen=True)
class Choice:
    """The width, the settled learner and the member of its family that cross-validation prefers.

    ``member`` is ``None`` where the learner stops by itself. ``path`` has a row for every model
    compared, with the fields of `PATH_DTYPE` (``rho`` is NaN for a learner without one; ``stopped``
    marks the models at which the folds' learners stopped); ``chosen`` is the row of the choice.
    ``decisions`` (rows of the data, k) are those of the choice by folds without the row. Three and
    more classes have a `Softmax` as their ``slope``: logits of decisions, which `logits` gives.
    """

    gamma: float | None
    learner: Learner
    member: int | None
    path: np.ndarray = field(repr=False)
    chosen: int
    slope: Slope
    decisions: np.ndarray = field(repr=False)


def logits(slope: Slope, decisions: np.ndarray) -> np.ndarray:
    """What users see as decisions of three and more classes, from those of a learner (..., k)."""
    if not isinstance(slope, Softmax):
        return decisions
    return slope(decisions - decisions.mean(axis=-1, keepdims=True))


def choose(
    sample: Sample,
    learner: Learner,
    gammas: Sequence[float | None],
    *,
    sparsest: bool,
    balanced: bool,
) -> Choice:
    """Cross-validate the learner at each width that is worth it, and choose.

    The smallest error wins, the fewest terms among equals, the first of these. ``sparsest`` is the
    one-standard-error rule: the fewest terms within one standard error of the smallest error.
    """
    gammas = _worth_comparing(sample, learner, gammas)
    path: list[PathRow] = []
    places: list[tuple[int, int | None]] = []
    learners: list[Learner] = []
    best, kept = -1, None
    for i, gamma in enumerate(gammas):
        held, settled = hold_out(sample, learner, gamma)
        learners.append(settled)
        rated, lowest = _rated(sample, held, settled, gamma)
        places += [(i, None if row[-1] else m) for m, row in enumerate(rated)]
        lowest += len(path)
        path += rated
        if best < 0 or (path[lowest][3], path[lowest][2]) < (path[best][3], path[best][2]):
            best, kept = lowest, held
    table = np.array(path, dtype=PATH_DTYPE)
    chosen = best
    if sparsest:
        fit = functools.cache(lambda i: _fit_all(sample, learners[i], gammas[i])[0])

        def size(j: int) -> int:
            family = fit(places[j][0])
            return int(family.sizes[family.member(places[j][1])])

        chosen = _sparsest(table, best, size)
    i, member = places[chosen]
    if i != places[best][0] or kept is None:
        kept, _ = hold_out(sample, learner, gammas[i])
    decisions = kept.own if member is None else kept.decisions[member]
    assert decisions is not None
    slope = _calibrated(sample, kept, decisions, balanced=balanced)
    rows = _by_row(sample, kept, logits(slope, decisions))
    return Choice(gammas[i], learners[i], member, table, chosen, slope, rows)


def _rated(
    sample: Sample, held: HeldOut, learner: Learner, gamma: float | None
) -> tuple[list[PathRow], int]:
    """The models of one width as rows of a path, and which of them is the best.

    Where the learner stops by itself, that is the last row, and the others are for the record.
    """
    number = np.nan if gamma is None else gamma
    rows: list[PathRow] = []
    for m, decisions in enumerate(held.decisions):
        rho = np.nan if learner.rhos is None else float(learner.rhos[m])
        errors = fold_errors(held, decisions, sample.labels)
        rows.append((number, rho, float(held.sizes[m]), *errors, False))
    lowest = min(range(len(rows)), key=lambda j: (rows[j][3], rows[j][2]))
    if held.own is not None:
        errors = fold_errors(held, held.own, sample.labels)
        lowest = len(rows)
        rows.append((number, np.nan, held.own_size, *errors, True))
    log.info(
        "gamma %.4g: cross-validated error %.4g with %.3g terms (%d rows)",
        number,
        rows[lowest][3],
        rows[lowest][2],
        len(sample.rows),
    )
    return rows, lowest


def _worth_comparing(
    sample: Sample, learner: Learner, gammas: Sequence[float | None]
) -> Sequence[float | None]:
    """The widths that some of the rows leave in question."""
    for size in _LEVELS:
        if len(gammas) == 1 or sample.given is not None or size >= _SHARE * len(sample.rows):
            break
        part, best = sample.first(size), []
        if not part.folds:  # none of them tests one of these rows
            break
        for gamma in gammas:
            held, settled = hold_out(part, learner, gamma)
            rows, lowest = _rated(part, held, settled, gamma)
            best.append(rows[lowest])
        order = sorted(range(len(best)), key=lambda j: (best[j][3], best[j][2]))
        bound = best[order[0]][3] + best[order[0]][4]
        kept = [j for j in order[:_SURVIVORS] if best[j][3] <= bound]
        gammas = [gammas[j] for j in sorted(kept)]
    return gammas


def _calibrated(sample: Sample, held: HeldOut, decisions: np.ndarray, *, balanced: bool) -> Slope:
    """From held-out decisions (t, k) to probabilities; rows of classes unknown to their fold have
    no part in it."""
    indicator, weights = sample.labels.indicator[held.rows], held.weights(sample.labels)
    if decisions.shape[1] == 1:
        return fit_slope(decisions, held.known, indicator, weights, balanced=balanced)
    weights = Weights(np.where(held.known, weights.frequency, 0.0), weights.cost)
    return fit_decisions(decisions, indicator, weights, balanced=balanced)


def _by_row(sample: Sample, held: HeldOut, decisions: np.ndarray) -> np.ndarray:
    """Decisions (t, k) on merged rows for the rows of the data.

    The mean over the folds that test a row; NaN where none does.
    """
    total = np.zeros((len(sample.group), decisions.shape[1]))
    times = np.zeros((len(sample.group), 1))
    place = np.zeros(len(sample.labels.index), dtype=np.int64)
    for number, rows in enumerate(sample.tests):
        tested = np.flatnonzero(held.fold == number)
        place[held.rows[tested]] = tested
        total[rows] += decisions[place[sample.group[rows]]]
        times[rows] += 1
    return np.where(times > 0, total / np.maximum(times, 1), np.nan)


def _sparsest(path: np.ndarray, best: int, size: Callable[[int], int]) -> int:
    """The fewest terms within one standard error of the best; the smallest error among equals.

    ``size`` gives the number of terms that the model of a row of the path has on all rows: folds
    retain more or fewer.
    """
    bound = path["cv_error"][best] + path["cv_se"][best]
    comparable = path["stopped"] == path["stopped"][best]
    within = np.flatnonzero(comparable & (path["cv_error"] <= bound)).tolist()
    return min(within, key=lambda j: (size(j), path["cv_error"][j]))


def refit(sample: Sample, choice: Choice) -> tuple[Family, int, np.ndarray]:
    """The family on all rows at the chosen width, the member chosen, and its candidate rows."""
    family, candidates = _fit_all(sample, choice.learner, choice.gamma)
    return family, family.member(choice.member), candidates


def _fit_all(sample: Sample, learner: Learner, gamma: float | None) -> tuple[Family, np.ndarray]:
    """The family of a settled learner on all rows, and its candidate rows."""
    candidates = sample.candidates(gamma)
    return learner.fit(sample.kernel_rows(gamma, candidates), sample.labels), candidates
