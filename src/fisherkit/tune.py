"""From a Gram matrix and targets to a tuned fit: which decomposition, which mu, which width.

    path                  when                                                     cost
    Cholesky              mu and kernel given, every row a centre                  n^3
    full eigenvectors     n <= 500, or the rank is not low                         about 9 n^3
    low rank              otherwise; K is never formed                             O(n r^2)
    centres               a basis was asked for                                    O(n m^2)

The low-rank path factors K to a trace of 1e-2 of the smallest mu priced, which is enough to choose;
the chosen model is accepted if that trace is below 3e-6 of its mu (leave-one-out residuals are then
within 1e-7 of the full path, relative to their size) and otherwise factored again to that trace.
"""

from __future__ import annotations

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
_KEEP_ROWS = 2048  # up to here the best width's decomposition is kept while others are tried
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
    kept: tuple[float, MuSearch, _Decomposed] | None = None

    def tune(self, gamma: float | None) -> Tuned:
        """Choose mu (unless given) at this gamma."""
        if self.kept is not None and self.kept[0] == gamma:
            _, search, decomposed = self.kept
        else:
            search, decomposed = self._search(gamma, self._first_budget)
        if search.needs_smaller_mu:
            search, decomposed = self._search(gamma, lambda unit: search.floor * _SEARCH)
        mu, value, status = self._finish(search)
        if decomposed.canonical.tolerance > _ACCEPT * mu:
            search, decomposed = self._search(gamma, lambda unit: 0.5 * _ACCEPT * mu)
            mu, value, status = self._finish(search)
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

    def price(self, gamma: float) -> float:
        """The criterion at this gamma with its best mu on the grid."""
        search, decomposed = self._search(gamma, self._first_budget)
        log.info(
            "gamma %.4g: %s %.6g at mu %.4g (%s, rank %d)",
            gamma,
            self.problem.criterion.name,
            search.value,
            search.mus[search.best],
            decomposed.method,
            decomposed.canonical.rank,
        )
        if self.problem.gram.n <= _KEEP_ROWS and (
            self.kept is None or search.value < self.kept[1].value
        ):
            self.kept = (gamma, search, decomposed)
        return search.value

    def _first_budget(self, unit: float) -> float:
        return _SEARCH * (GRID[0] * unit if self.mu is None else self.mu)

    def _finish(self, search: MuSearch) -> tuple[float, float, Status]:
        if self.mu is not None:
            return self.mu, search.value, Status.GIVEN
        return search.refine()

    def _search(
        self, gamma: float | None, budget: Callable[[float], float]
    ) -> tuple[MuSearch, _Decomposed]:
        gram = self.problem.gram.with_gamma(gamma)
        decomposed = self._decompose(gram, budget)
        path = RidgePath.of(decomposed.canonical, self.problem.Y)
        lowest = decomposed.canonical.tolerance / _SEARCH or None
        search = MuSearch(path, self.problem.criterion, lowest=lowest, given=self.mu)
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
            canonical = Canonical.from_gram(
                gram.full(), p.weights, p.bias, known_positive=gram.kernel.known_positive
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
        gamma, edge = march(tuner.price, reference, width_step(kernel))
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
