"""From a design and targets to a tuned fit: which mu, which width, by which decompositions.

    kernel and criterion                           width and mu
    both given                                     one Cholesky factorisation
    every row a centre, rkhs, smooth criterion     levels; up to 500 rows, or where the rank is low,
                                                   a decomposition at their end, else one Cholesky
                                                   factorisation
    the same with folds                            the width of levels, then decompositions near it
    other                                          a march of decompositions over widths

A low-rank form first leaves out a trace of 4e-3 of the smallest mu priced, enough to choose mu; the
chosen model is accepted if that trace is below 5e-7 of its mu (leave-one-out residuals are then
within 1e-7 of the full path, relative to their size) and otherwise factored again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fisherkit.core import (
    SMALL,
    Budget,
    Decomposed,
    Decomposer,
    Design,
    RankError,
    Ridge,
    RidgePath,
    SharedDecomposer,
    arrays,
    expected_seconds,
    measured,
    membership,
    race_seed,
    reference_width,
    require_positive,
    sample_size,
    solve,
    solve_many,
    width_step,
)
from fisherkit.terminal import counted
from fisherkit.tuning import greedy
from fisherkit.tuning.copies import Copies
from fisherkit.tuning.criteria import Criterion, Problem
from fisherkit.tuning.levels import ALL_ROWS, Levels, NotServed, Valley, order_of
from fisherkit.tuning.select import (
    EXACT,
    GRID,
    PATH_DTYPE,
    SAMPLED,
    SINGLE,
    MuSearch,
    PathPrices,
    Priced,
    Selection,
    Status,
    log,
    march,
    reason_of,
    settle,
    settled,
)

_SEARCH = 4e-3  # trace left out, relative to the smallest mu priced
_ACCEPT = 5e-7  # trace left out, relative to the chosen mu
_WIDTH_ENDS = (Status.AT_WIDEST, Status.AT_NARROWEST)
_ROUNDED = 1e3  # times the rounding of tr(G~): mu below which a factorisation has lost its digits
_THIN_COPIES = 5  # of a low-rank factor that a fit by it holds
_EXACT_COPIES = 3  # of K that a fit in double precision holds
_KEEP_ELEMENTS = 1 << 22  # size up to which the best decomposition is kept while others are tried
_QUICK = 3000  # rows up to which hardly any fit takes a minute
_LONG = 2  # minutes of a fit that are worth a warning
_WIDTHS = 13  # that a march decomposes at, about
_OF_A_CLASS = 10  # sampled rows of each class at least, where some rows are left out
DECOMPOSING = (
    "rounding errors are too large for single factorisations: the kernel matrix is decomposed "
    "instead"
)
_LOW, _LOWEST = 0.5, 0.7  # of the rows: rank of low-rank forms at the reference width, and beyond


@dataclass(frozen=True)
class Tuned:
    """A fit with its centres and the record of how it was chosen.

    ``sampled`` are the rows that have been left out, ``None`` for all of them.
    """

    ridge: Ridge
    centres: np.ndarray
    selection: Selection
    sampled: np.ndarray | None = None


def shared_decomposer(design: Design) -> SharedDecomposer:
    """Forms that stay accurate whichever mu of the grid a labelling chooses."""
    return SharedDecomposer(design, least=lambda unit: _ACCEPT * float(GRID[0]) * unit)


def tune(
    problem: Problem,
    *,
    mu: float | None,
    gamma: float | None,
    search_gamma: bool,
    decomposer: Decomposer | None = None,
) -> Tuned:
    """Fit the problem: mu and gamma as given, or chosen where ``None`` / ``search_gamma``.

    A ``decomposer`` given serves several problems that differ in their targets alone.
    """
    design = problem.design
    if design.basis == "greedy":
        return _on_greedy_centres(problem, mu=mu, gamma=gamma, search_gamma=search_gamma)
    if mu is not None and not search_gamma and design.every_row:
        _announce(problem, lambda n: measured().exact(n))
        exact = _by_cholesky(problem, mu, gamma)
        if exact is not None:
            return exact
        problem = replace(problem, design=replace(design, basis="full"))
    copies = Copies.of(problem) if decomposer is None else None
    if copies is not None:
        merged = copies.merged(problem)  # rows that repeat one another as one
        tuned = tune(merged, mu=mu, gamma=gamma, search_gamma=search_gamma)
        return expanded(problem, copies, tuned)
    tuner = Tuner(problem, mu, decomposer or Decomposer(problem.design))
    if decomposer is None and has_levels(problem, mu, search_gamma):
        levels = Levels.of(problem, mu=mu, gamma=gamma, search_gamma=search_gamma)
        try:
            low_rank = low_rank_or_none(tuner, levels)
            return low_rank or fit_all(tuner, levels, _end_of(tuner, levels))
        except NotServed:
            log.info(DECOMPOSING)
    edge = None
    if decomposer is None and design.every_row:
        widths = _WIDTHS if search_gamma else 1
        _announce(problem, lambda n: widths * measured().decomposed(n), "up to about")
    if search_gamma:
        kernel = design.gram.kernel
        gamma, edge = march(
            tuner.price,
            reference_width(design.gram.X, design.weights.frequency, kernel),
            width_step(kernel),
            **_bounds_of(problem),
        )
    return _ending(tuner.tune(gamma), edge)


def _announce(problem: Problem, expected: Callable[[int], float], about: str = "about") -> None:
    """Say how long a fit to all rows will take by these seconds, if that is over two minutes."""
    n = problem.Y.shape[0]
    if n <= _QUICK or arrays.on_accelerator(problem.Y):
        return
    minutes = expected(n) / 60
    if minutes > _LONG:
        log.warning(
            "The fit of %d rows will take %s %s; max_time, in seconds, or n_components, a number "
            "of centres, bounds it.",
            n,
            about,
            counted(round(minutes), "minute"),
        )


def _bounds_of(problem: Problem) -> dict[str, float]:
    """The prices of a perfect model and of one without a kernel."""
    criterion = problem.criterion
    return {"negligible": criterion.negligible, "baseline": criterion.baseline}


def has_levels(problem: Problem, mu: float | None, search_gamma: bool) -> bool:
    """Whether single factorisations find width and mu, or the width, faster than decompositions."""
    design, criterion = problem.design, problem.criterion
    kernel, n = design.gram.kernel, problem.Y.shape[0]
    rkhs = design.every_row and design.penalty == "rkhs" and not kernel.precomputed
    serves = rkhs and criterion.smooth and kernel.known_positive and n > 1
    if not search_gamma:
        auto = design.basis == "auto" and n > SMALL
        return serves and auto and mu is None and criterion.held_out.folds is None
    return serves


def _end_of(tuner: Tuner, levels: Levels) -> Valley:
    """Where levels end; how long the fit there will take is said first."""
    problem = tuner.problem
    if levels.n > ALL_ROWS and problem.criterion.held_out.folds is None:
        size, d = _sampled(problem, levels.order), problem.design.gram.X.shape[1]
        _announce(problem, lambda n: expected_seconds(n, d, size, problem.limits))
    return levels.refine(levels.coarse())


def fit_all(tuner: Tuner, levels: Levels, best: Valley) -> Tuned:
    """The fit of all rows at the end of levels."""
    tuner.priced = levels.priced
    if tuner.problem.criterion.held_out.folds is not None:
        return near(tuner, levels, best)
    if levels.n > SMALL or tuner.mu is not None:
        return _factored(tuner, levels, best)
    return _ending(tuner.tune(levels.gamma(best)), levels.edge(best))


def low_rank_or_none(tuner: Tuner, levels: Levels, most: float = math.inf) -> Tuned | None:
    """The fit by low-rank forms, of a rank of at most ``most`` at the best width, if it is one."""
    problem, share = tuner.problem, _LOW if levels.free[0] else _LOWEST
    quick = arrays.on_accelerator(problem.Y)  # where factors take less time than their pivots
    together = problem.criterion.held_out.folds is not None
    if problem.design.basis != "auto" or levels.n <= SMALL or together or quick:
        return None
    low, lowest = (int(min(most, _rank_held(problem, part))) for part in (share, _LOWEST))
    limited = Decomposer(problem.design, max_rank=low)
    tuner = replace(tuner, decomposer=limited, priced=[])

    def price(gamma: float) -> float:
        try:
            return tuner.price(gamma)
        except RankError:
            return math.inf

    try:
        if not levels.free[0]:
            return tuner.tune(levels.kernels.gamma(1.0))
        tuner.price(levels.middle)  # first of all, where the rank soon tells
        limited.max_rank = lowest
        gamma, _ = march(price, levels.middle, levels.step, **_bounds_of(tuner.problem))
        if not math.isfinite(price(gamma * levels.step)):
            return None
        return near(tuner, levels, levels.at_width(gamma))
    except RankError:
        return None


def _rank_held(problem: Problem, share: float) -> int:
    """The highest rank of a low-rank form: this share of the rows, or what memory holds."""
    n, memory = problem.Y.shape[0], problem.limits.memory
    most = int(share * n)
    return most if memory is None else max(1, min(most, int(memory / (8 * _THIN_COPIES * n))))


def near(tuner: Tuner, levels: Levels, valley: Valley) -> Tuned:
    """The fit at the best width near a valley, by decompositions."""
    x, free = float(valley.x[0]), bool(levels.free[0])
    if free:
        lower, upper = levels.bounds[:, 0]
        step = 0.25 * levels.octave
        x = settle(lambda x: tuner.price(math.exp(x) * levels.middle), x, step, lower, upper)
    end = valley._replace(x=np.array([x, valley.x[1]]))
    return _ending(tuner.tune(levels.gamma(end)), levels.edge(end))


def _factored(tuner: Tuner, levels: Levels, valley: Valley) -> Tuned:
    """The fit at the end of levels by one Cholesky factorisation."""
    mu = levels.mu(valley)
    fit = _by_cholesky(
        tuner.problem,
        mu,
        levels.gamma(valley),
        levels.status(valley),
        levels.priced,
        levels.order,
    )
    if fit is None:
        raise NotServed
    return _ending(fit, levels.edge(valley))


def _ending(tuned: Tuned, edge: Status | None) -> Tuned:
    """The fit with the end of the search over widths as its status, if that is worth knowing."""
    if edge is None or tuned.selection.status not in (Status.INTERIOR, Status.GIVEN):
        return tuned
    return replace(tuned, selection=replace(tuned.selection, status=edge))


def expanded(problem: Problem, copies: Copies, tuned: Tuned) -> Tuned:
    """A fit to merged rows as that to all of them."""
    design = problem.design
    every = tuned.selection.method != "low-rank"
    centres = np.arange(design.gram.n) if every else copies.first[tuned.centres]
    ridge = copies.expand(tuned.ridge, problem.Y, design.weights, centres=every)
    reason = tuned.selection.reason
    if reason:
        reason = f"{design.gram.n} rows, {len(copies.first)} of them different: {reason}"
    sampled = tuned.sampled
    if sampled is not None:
        sampled = np.flatnonzero(np.isin(copies.group, sampled))
    return Tuned(ridge, centres, replace(tuned.selection, reason=reason), sampled)


def tune_low_rank(
    problem: Problem,
    *,
    mu: float | None,
    gamma: float | None,
    likely_mu: float | None,
    max_rank: int,
) -> Tuned | None:
    """`tune` at this gamma through a factor of at most ``max_rank``; ``None`` if that is too few.

    ``likely_mu`` says how accurate the factor has to be at first, if it is known.
    """
    decomposer = Decomposer(problem.design, max_rank=max_rank)
    known = {} if likely_mu is None else {gamma: likely_mu}
    try:
        return Tuner(problem, mu, decomposer, likely_mu=known).tune(gamma)
    except RankError:
        return None


def greedy_centres(
    problem: Problem, *, mu: float | None, gamma: float | None, search_gamma: bool
) -> tuple[np.ndarray, Selection]:
    """Greedy centres, at the width and mu of as many random centres; and that choice."""
    design = problem.design
    rough = replace(problem, design=replace(design, basis="random"))
    found = tune(rough, mu=mu, gamma=gamma, search_gamma=search_gamma).selection
    log.info("random centres: %s %.6g at mu %.4g", found.criterion, found.value, found.mu)
    assert design.n_components is not None
    rows = greedy.choose_rows(
        design.gram.with_gamma(found.gamma),
        problem.Y,
        design.weights,
        design.penalty,
        design.n_components,
        found.mu,
        race_seed(design.seed),
    )
    return rows, found


def _on_greedy_centres(
    problem: Problem, *, mu: float | None, gamma: float | None, search_gamma: bool
) -> Tuned:
    """The width on random centres; mu once more on the centres that greedy selection finds there.

    The path records both.
    """
    rows, found = greedy_centres(problem, mu=mu, gamma=gamma, search_gamma=search_gamma)
    design = replace(problem.design, basis="given", rows=rows)
    tuned = tune(replace(problem, design=design), mu=mu, gamma=found.gamma, search_gamma=False)
    status = tuned.selection.status
    if found.status in _WIDTH_ENDS and status in (Status.INTERIOR, Status.GIVEN):
        status = found.status
    path = np.concatenate([found.path, tuned.selection.path])
    return replace(tuned, selection=replace(tuned.selection, status=status, path=path))


def accurate_path(problem: Problem, *, mu: float, gamma: float | None) -> RidgePath:
    """Every mu on one decomposition, which is as accurate at ``mu`` as a fit there."""
    found = Decomposer(problem.design).decompose(gamma, _sharp_budget(mu))
    return RidgePath.of(found.canonical, problem.Y)


def _by_cholesky(
    problem: Problem,
    mu: float,
    gamma: float | None,
    status: Status = Status.GIVEN,
    priced: Sequence[Priced] = (),
    order: np.ndarray | None = None,
) -> Tuned | None:
    """One fit at this mu; ``None`` where rounding spoils it.

    Many rows are fitted in single precision if levels have put them in an ``order``: its last rows,
    on which no level has looked, are left out where not all are.
    """
    design = problem.design
    gram, solved, method, sampled = design.gram, None, "cholesky", None
    exact = problem.limits.hold(_EXACT_COPIES * gram.n**2) or design.penalty != "rkhs"
    if order is None and not exact and gram.kernel.known_positive:
        order = order_of(problem)
    gram = gram if gamma is None else gram.with_gamma(gamma)
    if order is not None and (gram.n > ALL_ROWS or not exact):
        size = _sampled(problem, order)
        digits, sampled = SINGLE, None
        if size is not None:
            digits, sampled = SAMPLED.format(size), np.sort(order[-size:])
        log.info("fitting all %d rows", gram.n)
        many = solve_many(
            gram, problem.Y, design.weights, design.bias, mu, order, size, problem.limits
        )
        if many is not None:
            solved, method = (many.ridge, many.unit), many.method
    if solved is None:
        K, digits, sampled = gram.full(), EXACT, None
        if not gram.kernel.known_positive:
            require_positive(K + 0.0, design.weights, gram.rounding)
        bias, penalty = design.bias, design.penalty
        solved = solve(K, problem.Y, design.weights, bias=bias, penalty=penalty, mu=mu)
    if solved is None:
        return None
    ridge, unit = solved
    if mu < _ROUNDED * arrays.eps(problem.Y) * unit * design.weights.total:
        return None
    value, error = _value(problem.criterion, ridge, sampled)
    selection = Selection(
        criterion=problem.criterion.name,
        value=value,
        mu=mu,
        gamma=gram.kernel.gamma,
        status=status,
        rank=gram.n,
        method=method,
        tolerance=0.0,
        unit=unit,
        path=np.empty(0, PATH_DTYPE),
        leave_one_out=digits,
        error=error,
    )
    return replace(_tuned(problem, ridge, np.arange(gram.n), priced, selection), sampled=sampled)


def _sampled(problem: Problem, order: np.ndarray) -> int | None:
    """How many of the last rows in the order are left out; ``None`` for all rows.

    All are where the sample would have few rows of a class: probabilities rest on them.
    """
    n, k = problem.Y.shape
    size = sample_size(n, k, problem.Y, problem.limits)
    if size is None:
        return None
    labels = arrays.to_numpy(membership(problem.Y))
    if not np.array_equal(labels.sum(axis=1), np.ones(len(labels))):
        return size  # a regression
    counts, seen = labels.sum(axis=0), labels[order[-size:]].sum(axis=0)
    if np.all(seen >= np.minimum(counts, _OF_A_CLASS)):
        return size
    log.info("a class is rare, so that every row is left out instead of a sample of %d rows", size)
    return None


def _value(criterion: Criterion, ridge: Ridge, sampled: np.ndarray | None) -> tuple[float, float]:
    """The criterion of a fit and, where it is a mean over sampled rows, its standard error."""
    if sampled is None:
        return float(criterion.of_residuals(ridge.leave_one_out()[:, :, None])[0]), math.nan
    rows = arrays.indices(sampled, ridge.Y)
    held_out = criterion.held_out.taken(rows)
    losses, _ = replace(criterion, held_out=held_out).slopes(ridge.taken(rows).leave_one_out())
    losses, weight = (arrays.to_numpy(part) for part in (losses, held_out.weight))
    value = float(np.average(losses, weights=weight))
    spread = float(np.sum((weight * (losses - value)) ** 2)) ** 0.5
    return value, spread / float(np.sum(weight))


def _tuned(
    problem: Problem,
    ridge: Ridge,
    centres: np.ndarray,
    priced: Sequence[Priced],
    found: Selection,
) -> Tuned:
    """A fit with what was found of it; the chosen model ends the path."""
    last = Priced(problem.Y.shape[0], _number(found.gamma), found.mu, found.value)
    path = np.array([*priced, last], dtype=PATH_DTYPE)
    found = replace(found, path=path, status=settled(found.status, problem.criterion.loss))
    return Tuned(
        ridge, centres, replace(found, reason=reason_of(problem.design, found, len(centres)))
    )


@dataclass(frozen=True)
class _Search:
    """The models priced on one decomposition."""

    mu: MuSearch
    path: RidgePath
    decomposed: Decomposed

    @property
    def tolerance(self) -> float:
        return self.decomposed.canonical.tolerance


@dataclass
class Tuner:
    """The search over mu and gamma for one problem by decompositions; remembers the best one."""

    problem: Problem
    mu: float | None
    decomposer: Decomposer
    priced: list[Priced] = field(default_factory=list)
    likely_mu: dict[float | None, float] = field(default_factory=dict)
    values: dict[float, float] = field(default_factory=dict)
    kept: dict[float | None, _Search] = field(default_factory=dict)

    def tune(self, gamma: float | None) -> Tuned:
        """Choose mu (unless given) at this gamma."""
        search, mu, value, status = self._accurate(gamma)
        canonical, centres = search.decomposed.canonical, search.decomposed.centres
        selection = Selection(
            criterion=self.problem.criterion.name,
            value=value,
            mu=mu,
            gamma=gamma,
            status=status,
            rank=canonical.rank,
            method=search.decomposed.method,
            tolerance=canonical.tolerance,
            unit=canonical.unit,
            path=np.empty(0, PATH_DTYPE),
        )
        return _tuned(self.problem, search.path.at(mu), centres, self.priced, selection)

    def price(self, gamma: float) -> float:
        """The criterion at this gamma with its best mu."""
        if gamma not in self.values:
            search, mu, value, _ = self._accurate(gamma)
            self.values[gamma] = value
            log.info(
                "gamma %.4g: %s %.6g at mu %.4g (%s, rank %d)",
                gamma,
                self.problem.criterion.name,
                value,
                mu,
                search.decomposed.method,
                search.decomposed.canonical.rank,
            )
            size = search.decomposed.canonical.rank * self.problem.Y.shape[0]
            first = min((known, width) for width, known in self.values.items())
            if (value, gamma) == first and size <= _KEEP_ELEMENTS:
                self.kept = {gamma: search}
        return self.values[gamma]

    def _accurate(self, gamma: float | None) -> tuple[_Search, float, float, Status]:
        """A search that is accurate at the mu that it finds; with that mu, its value and status."""
        search = self.kept.get(gamma)
        if search is None:
            search = self._search(gamma, self._budget(gamma))
        while True:
            mu, value, status = search.mu.refine()
            if search.tolerance <= _ACCEPT * mu:
                break
            last = search.tolerance
            del search  # one large form at a time
            search = self._search(gamma, _sharp_budget(mu))
            if search.tolerance >= last:  # rounding is the limit
                mu, value, status = search.mu.refine()
                break
        self.likely_mu[gamma] = mu
        return search, mu, value, status

    def _budget(self, gamma: float | None) -> Budget:
        """Trace that may be left out at first: by the mu of the nearest width known, if any."""
        if self.mu is not None:
            return _sharp_budget(self.mu)
        if gamma is None or not self.likely_mu or not self.problem.criterion.smooth:
            return lambda unit: _SEARCH * float(GRID[0]) * unit
        near = min(self.likely_mu, key=lambda g: abs(math.log((g or gamma) / gamma)))
        return _sharp_budget(self.likely_mu[near])

    def _search(self, gamma: float | None, budget: Budget) -> _Search:
        """Decompose but for a trace of ``budget(tr(G)/n)``, and price."""
        decomposed = self.decomposer.decompose(gamma, budget)
        path = RidgePath.of(decomposed.canonical, self.problem.Y)
        search = MuSearch(PathPrices(path, self.problem.criterion), given=self.mu)
        rows, number = self.problem.Y.shape[0], _number(gamma)
        prices = zip(search.mus, search.values, strict=True)
        self.priced.extend(Priced(rows, number, mu, value) for mu, value in prices)
        return _Search(search, path, decomposed)


def _sharp_budget(mu: float) -> Budget:
    """Trace that may be left out of a model that is accurate at mu."""
    return lambda unit: 0.75 * _ACCEPT * mu


def _number(gamma: float | None) -> float:
    return np.nan if gamma is None else gamma
