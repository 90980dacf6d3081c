"""Which decomposition serves a model, and to which accuracy.

    path         when                                                          cost
    full         up to 500 rows, or the rank is not low: eigenvectors of K     about 9 n^3
    low-rank     otherwise: K is never formed                                  O(n r^2)
    centres      a basis was asked for                                         O(n m^2)

(One more path, a single Cholesky factorisation, needs no decomposition:
`fisherkit.core.ridge.solve`.)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fisherkit.core import arrays, basis
from fisherkit.core.bias import Bias
from fisherkit.core.canonical import Canonical, require_positive
from fisherkit.core.kernels import Gram
from fisherkit.core.weights import Weights
from fisherkit.stored import stored

log = logging.getLogger("fisherkit")

SMALL = 500  # rows up to which the full path is cheaper than looking for low rank
_SLOW = 3000  # rows from which one decomposition takes seconds
_FACTOR_SHARE = 2 / 3  # of the trace to be left out; the rest is for small eigenvalues
_LARGEST_FULL = 20_000  # rows beyond which the full path is not taken for accuracy alone

Budget = Callable[[float], float]  # trace that may be left out, from tr(G)/n


@stored("design")
@dataclass(frozen=True)
class Design:
    """The model side of a fit, without targets: kernel rows, weights, penalty, bias, centres.

    ``basis`` is one of `basis.BASES`, or "given" with ``rows`` the centres ("greedy" needs targets:
    `fisherkit.tuning.search` turns it into "given"). Whatever is drawn at random follows from
    ``seed``, so that a form does not depend on those computed before it.
    """

    gram: Gram
    weights: Weights
    penalty: str
    bias: Bias
    basis: str
    n_components: int | None
    rows: np.ndarray | None
    seed: int

    @property
    def every_row(self) -> bool:
        """Whether all rows are centres."""
        return self.basis in ("auto", "full")


@dataclass(frozen=True)
class Decomposed:
    """A canonical form, the rows that are its centres, and the path that led to it."""

    canonical: Canonical
    centres: np.ndarray
    method: str


class RankError(Exception):
    """The kernel matrix has no low-rank factor that is small enough."""


@dataclass
class Decomposer:
    """Canonical forms of one design at any gamma; remembers where the rank was not low.

    With ``max_rank`` the full path is excluded: `RankError` where the low-rank one needs more.
    """

    design: Design
    gave_up: tuple[float, float] | None = None  # gamma and trace
    max_rank: int | None = None

    def decompose(self, gamma: float | None, budget: Budget) -> Decomposed:
        """The form at this gamma; a low-rank one leaves out a trace of ``budget(tr(G)/n)``."""
        design = self.design
        gram = design.gram.with_gamma(gamma)
        if not design.every_row:
            return self._centres(gram)
        if design.basis == "auto" and max(gram.n, design.weights.total) > SMALL:
            low_rank = self._low_rank(gram, budget)
            if low_rank is not None:
                return low_rank
            if self.max_rank is not None:
                raise RankError
        return self._full(gram)

    def _full(self, gram: Gram) -> Decomposed:
        design = self.design
        rows = np.arange(gram.n)
        rounding = None if gram.kernel.known_positive else gram.rounding
        if design.penalty == "coefficients":
            if rounding is not None:
                require_positive(gram.full(), design.weights, rounding)
            return self._from_centres(gram, rows, "full")
        if gram.n > _SLOW:
            log.info("decomposing the kernel matrix of %d rows", gram.n)
        K, shift = gram.shifted() if design.bias.directions else (gram.full(), 0.0)
        canonical = Canonical.from_gram(
            K, design.weights, design.bias, rounding=rounding, shift=shift
        )
        return Decomposed(canonical, rows, "full")

    def _centres(self, gram: Gram) -> Decomposed:
        design = self.design
        rows = design.rows
        if not gram.kernel.known_positive:
            basis.require_positive_diagonal(gram)
        if rows is None:
            assert design.n_components is not None
            rng = np.random.RandomState(design.seed)
            rows = basis.choose_rows(design.basis, design.n_components, gram, design.weights.v, rng)
        return self._from_centres(gram, rows, "centres", doubt=not gram.kernel.known_positive)

    def _from_centres(
        self, gram: Gram, rows: np.ndarray, method: str, *, doubt: bool = False
    ) -> Decomposed:
        """The form on these centres; with ``doubt``, the kernel is probed for being positive."""
        weights, penalty = self.design.weights, self.design.penalty
        if doubt:
            corner = gram.corner(arrays.indices(rows, gram.X))
            require_positive(corner, Weights.unit(corner), gram.rounding)
        features = basis.centres(gram, rows, weights.frequency, penalty)
        if doubt and penalty == "rkhs":
            xp = arrays.namespace(features.Z)
            left_out = float(xp.sum(gram.diagonal()) - xp.sum(features.Z * features.Z))
            factor = basis.Factor(features.Z.T, features.rows, left_out)
            if not basis.explains(factor, gram, np.random.RandomState(self.design.seed)):
                require_positive(gram.full(), Weights.unit(gram.X), gram.rounding)
        canonical = Canonical.from_features(
            features.Z, weights, self.design.bias, lift=features.lift
        )
        return Decomposed(canonical, features.rows, method)

    def _low_rank(self, gram: Gram, budget: Budget) -> Decomposed | None:
        """The low-rank form, or ``None`` where the rank is not low or K is not what it seems."""
        weights, penalty = self.design.weights, self.design.penalty
        rng = np.random.RandomState(self.design.seed)
        xp = arrays.namespace(gram.X)
        diagonal = gram.diagonal()
        trace = float(xp.sum(weights.v * diagonal))
        if float(xp.min(diagonal)) < 0 or trace <= 0:
            return None
        unit, amplification = trace / weights.total, 1.0
        if penalty == "coefficients":
            # G = K W K: an error E in K enters G as about 2 |K| E.
            norm = basis.frobenius(gram, weights.frequency, rng)
            if norm == 0:
                return None
            unit, amplification = norm**2 / weights.total, 2 * norm
        allowed = budget(unit) / amplification
        rounding = 8 * arrays.eps(gram.X) * trace
        if not allowed > rounding:
            if gram.n <= _LARGEST_FULL and self.max_rank is None:
                return None
            allowed = rounding
        gamma = gram.kernel.gamma or 0.0
        if self.gave_up is not None and gamma >= self.gave_up[0] and allowed <= self.gave_up[1]:
            return None  # a narrower kernel, or a tighter trace, has no lower rank
        factor = basis.low_rank(
            gram,
            weights.emphasis,
            _FACTOR_SHARE * allowed,
            rng,
            give_up=self.max_rank,
            copies=weights.total,
        )
        if factor is None:
            self.gave_up = gamma, allowed
            return None
        if not gram.kernel.known_positive and not basis.explains(factor, gram, rng):
            return None
        L, lift = factor.L, basis.corner_solver(factor)
        if penalty == "coefficients":
            L, R = basis.squared(factor, weights.frequency)
            corner, lift = lift, lambda w: corner(R @ w)
        canonical = Canonical.from_low_rank(
            L,
            weights,
            self.design.bias,
            lift=lift,
            left_out=amplification * factor.left_out,
            cut=(1 - _FACTOR_SHARE) * amplification * max(allowed, factor.left_out / _FACTOR_SHARE),
        )
        return Decomposed(canonical, factor.pivots, "low-rank")


@dataclass
class SharedDecomposer(Decomposer):
    """Keeps its forms, so that many labellings of the same rows share one for each gamma.

    ``least`` is the budget that serves nearly every labelling; a form is replaced only where a
    labelling asks for less.
    """

    least: Budget = lambda unit: 0.0
    forms: dict[float | None, Decomposed] = field(default_factory=dict)

    def decompose(self, gamma: float | None, budget: Budget) -> Decomposed:
        known = self.forms.get(gamma)
        if known is None or known.canonical.tolerance > budget(known.canonical.unit):
            sharp = super().decompose(gamma, lambda unit: min(budget(unit), self.least(unit)))
            if known is None or sharp.canonical.tolerance < known.canonical.tolerance:
                self.forms[gamma] = sharp
        return self.forms[gamma]
