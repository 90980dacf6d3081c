"""From a design and targets to a tuned fit: which mu, which width, how accurate.

The low-rank path first leaves out a trace of 4e-3 of the smallest mu priced, enough to choose mu;
the chosen model is accepted if that trace is below 5e-7 of its mu (leave-one-out residuals are then
within 1e-7 of the full path, relative to their size) and otherwise factored again. While widths
are compared, a mean residual of 3e-2 of each width's best mu will do, then 1e-4 for near ties; but
no more than that of 1e-4 tr(G)/n, unless the rank is not very low and the penalty is rkhs. Counts
of errors jump, and are priced exactly throughout.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from fisherkit.core import (
    SMALL,
    Array,
    Budget,
    Decomposed,
    Decomposer,
    Design,
    RankError,
    Ridge,
    RidgePath,
    SharedDecomposer,
    arrays,
    basis,
    race_seed,
    reference_width,
    require_positive,
    solve,
    width_step,
)
from fisherkit.stored import stored
from fisherkit.tuning import greedy
from fisherkit.tuning.copies import Copies
from fisherkit.tuning.criteria import Criterion
from fisherkit.tuning.select import (
    GRID,
    PATH_DTYPE,
    PRICE_BLUR,
    MuSearch,
    PathPrices,
    Selection,
    Status,
    log,
    march,
    polish,
)

_SEARCH = 4e-3  # trace left out, relative to the smallest mu priced
_CAUTION = 1e-4  # relative mu above which a rough factorisation may hide the signal
_ACCEPT = 5e-7  # trace left out, relative to the chosen mu
_ROUGH = (3e-2, 1e-4)  # mean residual diagonal, relative to the best mu, at levels of pricing
_WIDTH_ENDS = (Status.AT_WIDEST, Status.AT_NARROWEST)
_ROUNDED = 1e3  # times the rounding of tr(G~): mu below which a factorisation has lost its digits
_KEEP_ELEMENTS = 1 << 22  # size up to which the best decomposition is kept while others are tried


@stored("problem")
@dataclass(frozen=True)
class Problem:
    """A design, targets Y (n, k) and a criterion: leave-one-out if there is nothing to choose."""

    design: Design
    Y: Array
    criterion: Criterion


@dataclass(frozen=True)
class Tuned:
    """A fit with its centres and the record of how it was chosen."""

    ridge: Ridge
    centres: np.ndarray
    selection: Selection


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
        exact = _by_cholesky(problem, mu)
        if exact is not None:
            return exact
        problem = replace(problem, design=replace(design, basis="full"))
    copies = Copies.of(design, problem.Y, problem.criterion) if decomposer is None else None
    if copies is not None:
        return _on_merged_rows(problem, copies, mu=mu, gamma=gamma, search_gamma=search_gamma)
    tuner, edge = _Tuner(problem, mu, decomposer or Decomposer(problem.design)), None
    if search_gamma:
        kernel = design.gram.kernel
        gamma, edge = march(
            tuner.price,
            reference_width(design.gram.X, design.weights.frequency, kernel),
            width_step(kernel),
            negligible=problem.criterion.negligible,
            baseline=problem.criterion.baseline,
        )
    tuned = tuner.tune(gamma)
    if edge is not None and tuned.selection.status in (Status.INTERIOR, Status.GIVEN):
        tuned = replace(tuned, selection=replace(tuned.selection, status=edge))
    return tuned


def _on_merged_rows(problem: Problem, copies: Copies, **words: Any) -> Tuned:
    """`tune` with rows that repeat one another as one; the fit to all of them."""
    design = problem.design
    merged = Problem(*copies.merged(design, problem.Y, problem.criterion))
    tuned = tune(merged, **words)
    every = tuned.selection.method != "low-rank"
    centres = np.arange(design.gram.n) if every else copies.first[tuned.centres]
    ridge = copies.expand(tuned.ridge, problem.Y, design.weights, centres=every)
    reason = tuned.selection.reason
    if reason:
        reason = f"{design.gram.n} rows, {len(copies.first)} of them different: {reason}"
    return Tuned(ridge, centres, replace(tuned.selection, reason=reason))


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
        return _Tuner(problem, mu, decomposer, likely_mu=known).tune(gamma)
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


def _by_cholesky(problem: Problem, mu: float) -> Tuned | None:
    """One Cholesky factorisation at the given mu; ``None`` where rounding spoils it."""
    design, criterion = problem.design, problem.criterion
    gram = design.gram
    K = gram.full()
    if not gram.kernel.known_positive:
        require_positive(K + 0.0, design.weights, gram.rounding)
    solved = solve(K, problem.Y, design.weights, bias=design.bias, penalty=design.penalty, mu=mu)
    if solved is None:
        return None
    ridge, unit = solved
    if mu < _ROUNDED * arrays.eps(problem.Y) * unit * design.weights.total:
        return None
    value = float(criterion.of_residuals(ridge.leave_one_out()[:, :, None])[0])
    return _solved(problem, ridge, unit, mu, value, Status.GIVEN, gram.kernel.gamma, [])


def _solved(
    problem: Problem,
    ridge: Ridge,
    unit: float,
    mu: float,
    value: float,
    status: Status,
    gamma: float | None,
    priced: list[tuple[float, float, float]],
) -> Tuned:
    """A fit by one Cholesky factorisation, after those that were ``priced``."""
    form = {"method": "cholesky", "rank": problem.design.gram.n, "tolerance": 0.0, "unit": unit}
    chosen = {"mu": mu, "gamma": gamma, "value": value, "status": status}
    return _tuned(problem, ridge, np.arange(problem.design.gram.n), priced, **form, **chosen)


def _tuned(
    problem: Problem,
    ridge: Ridge,
    centres: np.ndarray,
    priced: list[tuple[float, float, float]],
    **found: Any,
) -> Tuned:
    """A fit with what was found of it; the chosen model ends the path."""
    last = (_number(found["gamma"]), found["mu"], found["value"])
    selection = Selection(
        criterion=problem.criterion.name, path=np.array([*priced, last], dtype=PATH_DTYPE), **found
    )
    reason = _reason(problem.design, selection, len(centres))
    return Tuned(ridge, centres, replace(selection, reason=reason))


@dataclass(frozen=True)
class _Search:
    """The models priced on one decomposition."""

    mu: MuSearch
    path: RidgePath
    decomposed: Decomposed

    @property
    def tolerance(self) -> float:
        return self.decomposed.canonical.tolerance

    @property
    def to_resolve(self) -> float:
        """The mu at which the form has to be accurate: the best one.

        Where nothing but rounding is left out, a larger one whose price is as good will do.
        """
        whole = self.decomposed.method == "full"
        return self.mu.largest_mu_within(0.1 * PRICE_BLUR[0]) if whole else self.mu.best_mu


class _Price(NamedTuple):
    """The criterion at the best mu of a search, and how accurate it is."""

    value: float
    tolerance: float
    unit: float
    centres: int

    @classmethod
    def of(cls, search: _Search) -> _Price:
        unit = search.decomposed.canonical.unit
        return cls(search.mu.value, search.tolerance, unit, len(search.decomposed.centres))


class _Minimum(NamedTuple):
    """Where a form that is not kept has its least criterion, and the curvature in log mu there."""

    mu: float
    curvature: float


@dataclass
class _Tuner:
    """The search over mu and gamma for one problem; remembers what has been priced."""

    problem: Problem
    mu: float | None
    decomposer: Decomposer
    priced: list[tuple[float, float, float]] = field(default_factory=list)
    likely_mu: dict[float | None, float] = field(default_factory=dict)
    prices: dict[float, _Price] = field(default_factory=dict)
    kept: dict[float | None, _Search] = field(default_factory=dict)
    minima: dict[float | None, _Minimum] = field(default_factory=dict)

    def tune(self, gamma: float | None) -> Tuned:
        """Choose mu (unless given) at this gamma, on an accurate decomposition or without one."""
        if gamma in self.minima and gamma not in self.kept:
            polished = self._polish(gamma, self.minima[gamma])
            if polished is not None:
                return polished
        search, mu, value, status = self._accurate(gamma)
        canonical, centres = search.decomposed.canonical, search.decomposed.centres
        return _tuned(
            self.problem,
            search.path.at(mu),
            centres,
            self.priced,
            mu=mu,
            gamma=gamma,
            value=value,
            status=status,
            method=search.decomposed.method,
            rank=canonical.rank,
            tolerance=canonical.tolerance,
            unit=canonical.unit,
        )

    def price(self, gamma: float, level: int) -> float:
        """The criterion at this gamma with its best mu on the grid; levels as in `march`."""
        exact = level == len(_ROUGH) or not self.problem.criterion.smooth
        known = self.prices.get(gamma)
        if known is not None:
            enough = _ACCEPT * self.likely_mu[gamma]
            if not exact:
                enough = max(enough, self._allowed(known, _ROUGH[level], self.likely_mu[gamma]))
            if known.tolerance <= enough:
                return known.value
        search = self._accurate(gamma)[0] if exact else self._rough(gamma, _ROUGH[level])
        price = self.prices[gamma] = _Price.of(search)
        log.log(
            logging.INFO if known is None else logging.DEBUG,
            "gamma %.4g: %s %.6g at mu %.4g (%s, rank %d)",
            gamma,
            self.problem.criterion.name,
            price.value,
            self.likely_mu[gamma],
            search.decomposed.method,
            search.decomposed.canonical.rank,
        )
        self._keep(gamma, search)
        return price.value

    def _polish(self, gamma: float | None, minimum: _Minimum) -> Tuned | None:
        """The fit at the best mu by Cholesky factorisations, n^3 flops each: seldom more than two.

        ``None`` if they do not settle.
        """
        problem, design = self.problem, self.problem.design
        gram = design.gram.with_gamma(gamma)
        words: dict[str, Any] = {"bias": design.bias, "penalty": design.penalty}
        solved, value = None, np.nan

        def slope(log_mu: float) -> float | None:
            nonlocal solved, value
            solved = None  # one matrix at a time
            solved = solve(gram.full(), problem.Y, design.weights, **words, mu=math.exp(log_mu))
            if solved is None:
                return None
            value, gradient = problem.criterion.slope(solved[0])
            return gradient

        log_mu = polish(slope, math.log(minimum.mu), minimum.curvature)
        if log_mu is None or solved is None:
            return None
        mu, status = math.exp(log_mu), Status.INTERIOR
        return _solved(problem, *solved, mu, value, status, gamma, self.priced)

    def _rough(self, gamma: float, share: float) -> _Search:
        """A search that leaves out little at the mu that it finds: a mean of ``share`` of it."""
        # The best mu grows as kernels narrow: that of the next wider one errs on the safe side.
        wider = max((g for g in self.likely_mu if g is not None and g < gamma), default=None)
        guess = self.mu if self.mu is not None else self.likely_mu.get(wider, np.inf)
        guess, last = self.likely_mu.get(gamma, guess), np.inf
        while True:
            search = self._search(gamma, *self._budgets(share, guess))
            mu = self.likely_mu[gamma] = search.to_resolve
            enough = self._allowed(_Price.of(search), share, mu)
            if search.tolerance <= enough or search.tolerance >= last:
                return search
            guess, last = 0.5 * mu, search.tolerance
            del search  # one large form at a time

    def _budgets(self, share: float, mu: float) -> tuple[Budget, Budget]:
        """Trace that a rough factorisation may leave out, and one of many directions."""
        design = self.problem.design
        strict = _rough_budget(share * design.weights.total, mu)
        # What is left out of K W K is no multiple of I: the coefficients penalty stays strict.
        if design.penalty != "rkhs":
            return strict, strict
        return strict, _loose_budget(share * design.weights.total, mu)

    def _allowed(self, price: _Price, share: float, mu: float) -> float:
        """Trace that a factorisation with so many centres may leave out."""
        strict, loose = self._budgets(share, mu)
        many = basis.many(price.centres, self.problem.design.gram)
        return (loose if many else strict)(price.unit)

    def _accurate(self, gamma: float | None) -> tuple[_Search, float, float, Status]:
        """A search that is accurate at the mu that it finds; with that mu, its value and status."""
        search = self.kept.get(gamma)
        if search is None and gamma in self.likely_mu:
            search = self._search(gamma, _sharp_budget(self.likely_mu[gamma]))
        elif search is None:
            search = self._search(gamma, self._first_budget)
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

    def _keep(self, gamma: float, search: _Search) -> None:
        """Remember the best accurate decomposition while it is small."""
        canonical = search.decomposed.canonical
        accurate = search.tolerance <= _ACCEPT * self.likely_mu[gamma] and not canonical.single
        small = canonical.rank * self.problem.design.gram.n <= _KEEP_ELEMENTS
        rivals = [(kept.mu.value, g) for g, kept in self.kept.items()]
        if accurate and small and all((search.mu.value, gamma) <= rival for rival in rivals):
            self.kept = {gamma: search}
        elif search.decomposed.method == "full" and self._polishes:
            mu, _, status = search.mu.refine()
            if status is Status.INTERIOR:
                curvature = search.mu.prices.derivatives(math.log(mu))[2]
                self.minima[gamma] = _Minimum(mu, curvature)

    @property
    def _polishes(self) -> bool:
        """Whether factorisations yield the gradient, and may cost less than the form once more."""
        criterion, rkhs = self.problem.criterion, self.problem.design.penalty == "rkhs"
        leave_one_out = criterion.smooth and criterion.held_out.folds is None
        return leave_one_out and rkhs and not self.decomposer.keeps

    def _first_budget(self, unit: float) -> float:
        return _SEARCH * (float(GRID[0]) * unit if self.mu is None else self.mu)

    def _search(self, gamma: float | None, budget: Budget, loose: Budget | None = None) -> _Search:
        """Decompose but for a trace of ``budget(tr(G)/n)``, or of ``loose``, and price."""
        decomposed = self.decomposer.decompose(gamma, budget, loose)
        path = RidgePath.of(decomposed.canonical, self.problem.Y)
        search = MuSearch(PathPrices(path, self.problem.criterion), given=self.mu)
        prices = zip(search.mus, search.values, strict=True)
        self.priced.extend((_number(gamma), mu, value) for mu, value in prices)
        return _Search(search, path, decomposed)


def _reason(design: Design, selection: Selection, centres: int) -> str:
    """Why every row is a centre, and how; empty where the basis was asked for."""
    if design.basis != "auto":
        return ""
    n = design.gram.n
    if selection.method == "low-rank":
        return f"{n} rows fit in memory, through a factor of rank {centres} of the kernel matrix"
    why, how = "the kernel matrix has no low rank", "all of it is decomposed"
    if selection.method == "cholesky":
        how = "one Cholesky factorisation at the chosen mu"
        if selection.status is Status.GIVEN:
            why, how = "width and mu are given", "one Cholesky factorisation"
    elif n <= SMALL:
        why = "few enough to look for no factor"
    return f"{n} rows fit in memory, {why}: {how}"


def _rough_budget(share: float, mu: float) -> Budget:
    """Trace that a rough factorisation may leave out: a share of mu, or of 1e-4 tr(G)/n if less.

    A truncated model prefers a large mu, and a large mu alone would justify the truncation.
    """
    return lambda unit: share * min(mu, _CAUTION * unit)


def _loose_budget(share: float, mu: float) -> Budget:
    """The same for kernels of many directions, among which the signal is not missed.

    What such a kernel leaves out is about a multiple of I, and raises mu by as much.
    """
    return lambda unit: share * min(mu, unit)


def _sharp_budget(mu: float) -> Budget:
    """Trace that may be left out of a model that is accurate at mu."""
    return lambda unit: 0.75 * _ACCEPT * mu


def _number(gamma: float | None) -> float:
    return np.nan if gamma is None else gamma
