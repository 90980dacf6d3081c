"""From a Gram matrix and targets to a tuned fit: which decomposition, which mu, which width.

    path                  when                                                     cost
    Cholesky              mu and kernel given, every row a centre                  n^3
    full eigenvectors     n <= 500, or the rank is not low                         about 9 n^3
    low rank              otherwise; K is never formed                             O(n r^2)
    centres               a basis was asked for                                    O(n m^2)

The low-rank path leaves out a trace of 1e-2 of the smallest mu priced, enough to choose mu; the
chosen model is accepted if that trace is below 3e-6 of its mu (leave-one-out residuals are then
within 1e-7 of the full path, relative to their size) and otherwise factored again. While widths
are compared, a mean residual of 1e-2 of each width's best mu will do: it prices to about 1 %.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from fisherkit import _array, basis
from fisherkit._array import Array
from fisherkit.canonical import Canonical, NotPositiveError, require_positive
from fisherkit.criteria import Criterion
from fisherkit.kernels import Gram, reference_width, width_step
from fisherkit.ridge import Ridge, RidgePath, solve
from fisherkit.select import GRID, PATH_DTYPE, MuSearch, Selection, Status, log, march
from fisherkit.weights import Weights

SMALL = 500  # rows up to which the full path is cheaper than looking for low rank
_SEARCH = 1e-2  # trace left out, relative to the smallest mu priced
_ACCEPT = 3e-6  # trace left out, relative to the chosen mu
_COARSE = (1e-2, 1e-3)  # mean residual diagonal relative to the best mu, while comparing widths
_KEEP_ELEMENTS = 1 << 22  # size up to which the best decomposition is kept while others are tried
_LARGEST_FULL = 20_000  # rows beyond which the full path is not attempted by itself


@dataclass(frozen=True)
class Problem:
    """Everything about a fit except mu and gamma.

    ``rows`` are the centres that the user gave; ``basis`` is one of `basis.BASES`. With nothing
    to choose, the criterion must be a leave-one-out one.
    """

    gram: Gram
    Y: Array
    weights: Weights
    criterion: Criterion
    penalty: str
    bias: str
    basis: str
    n_components: int | None
    rows: np.ndarray | None
    rng: np.random.RandomState

    @property
    def every_row(self) -> bool:
        """Whether all rows are centres."""
        return self.rows is None and self.basis in ("auto", "full")


@dataclass(frozen=True)
class Tuned:
    """A fit with its centres and the record of how it was chosen."""

    ridge: Ridge
    centres: np.ndarray
    selection: Selection


@dataclass(frozen=True)
class _Decomposed:
    canonical: Canonical
    centres: np.ndarray
    method: str


@dataclass
class _Tuner:
    """The search over mu and gamma for one problem; keeps what has been priced."""

    problem: Problem
    mu: float | None
    priced: list[tuple[float, float, float]] = field(default_factory=list)
    full_from: float = np.inf  # gamma from which the rank is known not to be low
    likely_mu: dict[float | None, float] = field(default_factory=dict)
    prices: dict[float, tuple[float, float]] = field(default_factory=dict)
    kept: dict[float, tuple[MuSearch, _Decomposed]] = field(default_factory=dict)

    def tune(self, gamma: float | None) -> Tuned:
        """Choose mu (unless given) at this gamma, on an accurate decomposition."""
        search, decomposed, mu, value, status = self._accurate(gamma)
        canonical = decomposed.canonical
        self.priced.append((np.nan if gamma is None else gamma, mu, value))
        selection = Selection(
            criterion=self.problem.criterion.name,
            value=value,
            mu=mu,
            gamma=gamma,
            status=status,
            rank=canonical.rank,
            method=decomposed.method,
            tolerance=canonical.tolerance,
            unit=canonical.unit,
            path=np.array(self.priced, dtype=PATH_DTYPE),
        )
        return Tuned(search.path.at(mu), decomposed.centres, selection)

    def price(self, gamma: float, level: int) -> float:
        """The criterion at this gamma with its best mu on the grid, as exact as the level asks."""
        if gamma in self.prices:
            value, tolerance = self.prices[gamma]
            if tolerance <= self._allowed(level, self.likely_mu[gamma]):
                return value
        if level < len(_COARSE):
            search, decomposed = self._rough(gamma, level)
        else:
            search, decomposed, *_ = self._accurate(gamma)
        log.log(
            logging.DEBUG if gamma in self.prices else logging.INFO,
            "gamma %.4g: %s %.6g at mu %.4g (%s, rank %d)",
            gamma,
            self.problem.criterion.name,
            search.value,
            self.likely_mu[gamma],
            decomposed.method,
            decomposed.canonical.rank,
        )
        self.prices[gamma] = search.value, decomposed.canonical.tolerance
        self._keep(gamma, search, decomposed)
        return search.value

    def _allowed(self, level: int, mu: float) -> float:
        """Trace that a model may leave out to be priced at this level."""
        if level < len(_COARSE):
            return _COARSE[level] * self.problem.weights.total * mu
        return _ACCEPT * mu

    def _rough(self, gamma: float, level: int) -> tuple[MuSearch, _Decomposed]:
        """A search that leaves out no more than its level allows at the mu that it finds."""
        # The best mu grows as kernels narrow: that of the next wider one errs on the safe side.
        wider = max((g for g in self.likely_mu if g is not None and g <= gamma), default=None)
        guess = self.mu if self.mu is not None else self.likely_mu.get(wider)
        while True:
            trace = None if guess is None else self._allowed(level, guess)
            search, decomposed = self._search(gamma, trace)
            mu = self.likely_mu[gamma] = float(search.mus[search.best])
            if decomposed.canonical.tolerance <= self._allowed(level, mu):
                return search, decomposed
            guess = 0.5 * mu

    def _accurate(self, gamma: float | None) -> tuple[MuSearch, _Decomposed, float, float, Status]:
        """A search whose decomposition is accurate at the mu that it finds."""
        trace = None
        if gamma in self.likely_mu:
            trace = 0.5 * _ACCEPT * self.likely_mu[gamma]
        kept = None if gamma is None else self.kept.get(gamma)
        last = np.inf
        while True:
            search, decomposed = kept or self._search(gamma, trace)
            kept = None
            mu, value, status = self._finish(search)
            tolerance = decomposed.canonical.tolerance
            if tolerance <= _ACCEPT * mu or tolerance >= last:
                self.likely_mu[gamma] = mu
                return search, decomposed, mu, value, status
            trace, last = 0.5 * _ACCEPT * mu, tolerance

    def _keep(self, gamma: float, search: MuSearch, decomposed: _Decomposed) -> None:
        """Remember the best accurate decomposition while it is small."""
        accurate = decomposed.canonical.tolerance <= _ACCEPT * self.likely_mu[gamma]
        small = decomposed.canonical.rank * self.problem.gram.n <= _KEEP_ELEMENTS
        best = min(((s.value, g) for g, (s, _) in self.kept.items()), default=(np.inf, np.inf))
        if accurate and small and (search.value, gamma) <= best:
            self.kept = {gamma: (search, decomposed)}

    def _finish(self, search: MuSearch) -> tuple[float, float, Status]:
        if self.mu is not None:
            return self.mu, search.value, Status.GIVEN
        return search.refine()

    def _search(self, gamma: float | None, trace: float | None) -> tuple[MuSearch, _Decomposed]:
        """Decompose but for a trace (default: 1e-2 of the smallest mu priced), and price."""

        def budget(unit: float) -> float:
            if trace is not None:
                return trace
            return _SEARCH * (float(GRID[0]) * unit if self.mu is None else self.mu)

        gram = self.problem.gram.with_gamma(gamma)
        decomposed = self._decompose(gram, budget)
        path = RidgePath.of(decomposed.canonical, self.problem.Y)
        search = MuSearch(path, self.problem.criterion, given=self.mu)
        label = np.nan if gamma is None else gamma
        self.priced.extend((label, m, v) for m, v in zip(search.mus, search.values, strict=True))
        return search, decomposed

    def _decompose(self, gram: Gram, budget: Callable[[float], float]) -> _Decomposed:
        p = self.problem
        if not p.every_row:
            return self._centres(gram)
        gamma = gram.kernel.gamma if gram.kernel.gamma is not None else 0.0
        if p.basis == "auto" and p.gram.n > SMALL and gamma < self.full_from:
            found = self._low_rank(gram, budget)
            if found is not None:
                return found
            self.full_from = gamma
        rows = np.arange(gram.n)
        if p.penalty == "coefficients":
            if not gram.kernel.known_positive:
                require_positive(gram.full(), p.weights)
            features = basis.centres(gram, rows, p.weights.frequency, p.penalty)
            canonical = Canonical.from_features(features.Z, p.weights, p.bias, lift=features.lift)
        else:
            K, shift = gram.shifted() if p.bias == "free" else (gram.full(), 0.0)
            canonical = Canonical.from_gram(
                K, p.weights, p.bias, known_positive=gram.kernel.known_positive, shift=shift
            )
        return _Decomposed(canonical, rows, "full")

    def _centres(self, gram: Gram) -> _Decomposed:
        p = self.problem
        rows = p.rows
        if rows is None:
            assert p.n_components is not None
            rows = basis.choose_rows(p.basis, p.n_components, gram, p.weights.v, p.rng)
        features = basis.centres(gram, rows, p.weights.frequency, p.penalty)
        canonical = Canonical.from_features(features.Z, p.weights, p.bias, lift=features.lift)
        return _Decomposed(canonical, features.rows, "centres")

    def _low_rank(self, gram: Gram, budget: Callable[[float], float]) -> _Decomposed | None:
        """The low-rank form, or ``None`` where the rank is not low or K is not what it seems."""
        p = self.problem
        xp = _array.namespace(gram.X)
        trace = float(xp.sum(p.weights.v * gram.diagonal()))
        unit, amplification = trace / p.weights.total, 1.0
        if p.penalty == "coefficients":
            # G = K W K: an error E in K enters G as about 2 |K| E.
            norm = basis.frobenius(gram, p.weights.frequency, p.rng)
            unit, amplification = norm**2 / p.weights.total, 2 * norm
        allowed = budget(unit) / amplification
        rounding = 8 * _array.eps(gram.X) * trace
        if not allowed > rounding:
            if gram.n <= _LARGEST_FULL:
                return None
            allowed = rounding
        # A row of little weight must still be predicted well.
        emphasis = xp.clip(p.weights.v, p.weights.mass / gram.n, None)
        factor = basis.low_rank(gram, emphasis, allowed, p.rng)
        if factor is None:
            return None
        if not gram.kernel.known_positive and not basis.explains(factor, gram, p.rng):
            return None
        lift = basis.corner_solver(factor)
        L = factor.L
        if p.penalty == "coefficients":
            L, R = basis.squared(factor, p.weights.frequency)
            corner, lift = lift, lambda w: corner(R @ w)
        canonical = Canonical.from_low_rank(
            L,
            p.weights,
            p.bias,
            lift=lift,
            left_out=amplification * factor.left_out,
            cut=0.5 * amplification * allowed,
        )
        return _Decomposed(canonical, factor.pivots, "low-rank")


def tune(problem: Problem, *, mu: float | None, gamma: float | None, search_gamma: bool) -> Tuned:
    """Fit the problem: mu and gamma as given, or chosen where ``None`` / ``search_gamma``."""
    kernel = problem.gram.kernel
    if mu is not None and not search_gamma and problem.every_row:
        exact = _by_cholesky(problem, mu)
        if exact is not None:
            return exact
    tuner, edge = _Tuner(problem, mu), None
    if search_gamma:
        reference = reference_width(problem.gram.X, problem.weights.v, kernel)
        gamma, edge = march(
            tuner.price,
            reference,
            width_step(kernel),
            negligible=problem.criterion.negligible,
            baseline=problem.criterion.baseline,
        )
    tuned = tuner.tune(gamma)
    if edge is not None and tuned.selection.status in (Status.INTERIOR, Status.GIVEN):
        tuned = replace(tuned, selection=replace(tuned.selection, status=edge))
    return tuned


def _by_cholesky(problem: Problem, mu: float) -> Tuned | None:
    """One Cholesky factorisation at the given mu; ``None`` where rounding spoils it."""
    p = problem
    kernel = p.gram.kernel
    K = p.gram.full()
    if not kernel.known_positive:
        require_positive(K + 0.0, p.weights)
    try:
        ridge, unit = solve(K, p.Y, p.weights, bias=p.bias, penalty=p.penalty, mu=mu)
    except NotPositiveError:
        return None
    value = float(p.criterion.of_residuals(ridge.leave_one_out()[:, :, None])[0])
    label = np.nan if kernel.gamma is None else kernel.gamma
    selection = Selection(
        criterion=p.criterion.name,
        value=value,
        mu=mu,
        gamma=kernel.gamma,
        status=Status.GIVEN,
        rank=p.gram.n,
        method="cholesky",
        tolerance=0.0,
        unit=unit,
        path=np.array([(label, mu, value)], dtype=PATH_DTYPE),
    )
    return Tuned(ridge, np.arange(p.gram.n), selection)
