"""Gram matrices: a kernel on the rows of a data set.

Distances do not depend on the width. While the matrix is small (`_KEEP_ROWS` rows) they are
computed once and reused for every width; beyond that, recomputing them costs little beside the
decomposition that follows and saves n^2 numbers of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.kernels.distinct import Distinct
from fisherkit.core.kernels.families import Kernel, Stationary
from fisherkit.stored import stored

_KEEP_ROWS = 2048
_KEEP_NUMBERS = 1 << 22  # in the rows up to which what distances need of them is kept

LARGEST = 1e153  # number whose square is one


@stored("gram")
@dataclass(frozen=True)
class Gram:
    """A kernel on one set of rows: rows, diagonal or all of the matrix K (n, n).

    ``X`` is what the kernel sees of the data (n, d), or K itself for a precomputed kernel;
    ``rounding`` is the relative precision of what was given, before it was widened to double
    precision. Made of a kernel with a view, it holds what is seen, and the kernel without.
    """

    X: Array
    kernel: Kernel
    rounding: float = 0.0
    _kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", self.kernel.seen(self.X))
        object.__setattr__(self, "kernel", self.kernel.bare)

    @property
    def n(self) -> int:
        return self.X.shape[0]

    def with_gamma(self, gamma: float | None) -> Gram:
        """The same rows under another width; kept distances are shared."""
        return replace(self, kernel=replace(self.kernel, gamma=gamma))

    def first(self, m: int, kernel: Kernel) -> Gram:
        """Another kernel on the first m rows."""
        X = self.X[:m, :m] if kernel.precomputed else self.X[:m, :]
        return Gram(X, kernel, self.rounding)

    def taken(self, rows: np.ndarray) -> Gram:
        """The same kernel on some of the rows, in this order."""
        place = arrays.indices(rows, self.X)
        X = self.corner(place) if self.kernel.precomputed else arrays.take_rows(self.X, place)
        kept = {}
        if "distinct" in self._kept:
            kept["distinct"] = Distinct.of(self.distinct().of_rows[rows])
        return Gram(X, self.kernel, self.rounding, kept)

    def diagonal(self) -> Array:
        return self.kernel.diagonal(self.X)

    def distinct(self) -> Distinct:
        """Which rows differ; found once for all widths. Rows of a precomputed matrix all do."""

        def found() -> Distinct:
            if self.kernel.precomputed:
                return Distinct.of(np.arange(self.n, dtype=np.uint64))
            return Distinct.rows(self.X)

        return self._once("distinct", found)

    def _once(self, name: str, find: Callable[[], Any]) -> Any:
        """What is found once for all widths."""
        if name not in self._kept:
            self._kept[name] = find()
        return self._kept[name]

    def columns(self, rows: Array) -> Array:
        """K[:, rows], (n, m)."""
        xp = arrays.namespace(self.X)
        if self.kernel.precomputed:
            return xp.take(self.X, rows, axis=1)
        return self.kernel.block(self.X, xp.take(self.X, rows, axis=0))

    @arrays.quiet_overflow()
    def rows(self, rows: Array, columns: Array | None = None) -> Array:
        """K[rows, :], (m, n), in C order; or K[rows, columns].

        What values need of each row may be kept, so that many short calls are cheap.
        """
        xp, family = arrays.namespace(self.X), self.kernel.family
        if self.X.shape[0] * self.X.shape[1] <= _KEEP_NUMBERS:
            sides = self._sides()
            if sides is not None:
                return family.of_sides(sides, rows, columns, self.kernel)
        if columns is not None:
            return self.between(rows, columns)
        chosen = xp.take(self.X, rows, axis=0)
        return chosen if self.kernel.precomputed else self.kernel.block(chosen, self.X)

    def block(self, rows: slice) -> Array:
        """K[rows, :] of some rows in sequence, (b, n)."""
        some = self.X[rows, :]
        return some + 0.0 if self.kernel.precomputed else self.kernel.block(some, self.X)

    @arrays.quiet_overflow()
    def upper(self, rows: slice) -> Array:
        """K[rows, rows.start:] of some rows in sequence, (b, n - start): what symmetry leaves."""
        others = slice(rows.start, self.n)
        if self.kernel.precomputed:
            return self.X[rows, others] + 0.0
        sides = self._sides()
        if sides is None:
            return self.kernel.block(self.X[rows, :], self.X[others, :])
        return self.kernel.family.of_sides(sides, rows, others, self.kernel)

    def factors(self) -> tuple[Array, Array] | None:
        """A and B (n, q) with log K = A B', for kernels that such a product serves."""
        sides = self._sides()
        return None if sides is None else self.kernel.family.factors(sides, self.kernel)

    def tile(self, rows: slice, columns: slice) -> Array:
        """K[rows, columns] of rows in sequence and columns in sequence."""
        if self.kernel.precomputed:
            return self.X[rows, columns]
        return self.kernel.block(self.X[rows, :], self.X[columns, :])

    def _sides(self) -> object:
        """What values need of each row, if that is kept."""
        return self._once("sides", lambda: self.kernel.family.sides(self.X, self._first))

    def _first(self) -> Array:
        return arrays.indices(self.distinct().first, self.X)

    def between(self, rows: Array, others: Array) -> Array:
        """K[rows, others], (m, p)."""
        xp = arrays.namespace(self.X)
        chosen = xp.take(self.X, rows, axis=0)
        if self.kernel.precomputed:
            return xp.take(chosen, others, axis=1)
        return self.kernel.block(chosen, xp.take(self.X, others, axis=0))

    def corner(self, rows: Array) -> Array:
        """K[rows, rows], (m, m)."""
        return self.between(rows, rows)

    @arrays.quiet_overflow()
    def full(self) -> Array:
        """K, a fresh (n, n) array that the caller may overwrite; O(n^2 d) once, O(n^2) again."""
        if self.kernel.precomputed:
            return self.X + 0.0
        if self.kernel.stationary is None:
            return self.kernel.block(self.X, self.X)
        return arrays.exp_in_place(self.exponent(self.kernel.stationary))

    @arrays.quiet_overflow()
    def shifted(self) -> tuple[Array, float]:
        """K - shift and the shift: 1 for stationary kernels, where wide ones gain digits.

        What a free bias leaves of K does not depend on the shift.
        """
        if self.kernel.stationary is None:
            return self.full(), 0.0
        return arrays.expm1_in_place(self.exponent(self.kernel.stationary)), 1.0

    def exponent(self, family: Stationary) -> Array:
        """log K of a stationary kernel, from kept distances where the matrix is small."""
        if self.n > _KEEP_ROWS:
            return family.exponent(self.X, self.X, self.kernel)
        distances = self._once("distances", lambda: family.distances(self.X, self.X))
        return distances * -self.kernel.gamma


@dataclass
class Prefixes:
    """Kernel matrices of the first rows of a set at one width after another, and their slopes.

    Widths are relative to that of ``gram``.
    """

    gram: Gram

    @cached_property
    def distances(self) -> Array | None:
        """Distances of the rows in the unit of the width, for all widths and numbers of rows.

        In single precision where that is quicker; ``None`` for kernels that are no function of
        them.
        """
        family = self.gram.kernel.stationary
        if family is None:
            return None
        distances = family.distances(self.gram.X, self.gram.X)
        distances *= self.gram.kernel.gamma
        return arrays.narrow(distances)

    def gamma(self, ratio: float) -> float | None:
        """A relative width as gamma; ``None`` for kernels without one."""
        kernel = self.gram.kernel
        return ratio * kernel.gamma if kernel.has_gamma else None

    def at(self, m: int, ratio: float, *, exact: bool, sloped: bool) -> tuple[Array, Array | None]:
        """K (m, m), fresh, and dK/dlog gamma of the first m rows; in full precision if ``exact``.

        There is no slope where it is not asked for, or the kernel has no width.
        """
        kernel = replace(self.gram.kernel, gamma=self.gamma(ratio))
        sloped = sloped and kernel.has_gamma
        if self.distances is not None and not exact:
            exponent = self.distances[:m, :m] * -ratio
        elif kernel.stationary is not None:
            exponent = self.gram.first(m, kernel).exponent(kernel.stationary)
        else:
            gram = self.gram.first(m, kernel)
            slope = kernel.family.width_slope(gram.X, gram.X, kernel) if sloped else None
            K = gram.full()
            if exact:
                return K, slope
            return arrays.narrow(K), None if slope is None else arrays.narrow(slope)
        if not sloped:
            return arrays.exp_in_place(exponent), None
        K = arrays.exp_in_place(exponent + 0.0)
        exponent *= K
        return K, exponent


def not_finite(seen: str) -> str:
    """What to say of kernel values that are not finite."""
    return (
        f"The kernel values are not finite: {seen}. They overflow, as polynomials of large "
        "features do, or are not defined, as a fractional power of a negative number. Scale the "
        "features, for example with sklearn.preprocessing.StandardScaler, or change the kernel."
    )


def require_squares(values: np.ndarray) -> None:
    """Refuse kernel values that are not finite, or whose squares are not."""
    if not np.all(np.isfinite(values)):
        raise ValueError(not_finite("a candidate has NaN or infinity with some row"))
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest > LARGEST:
        raise ValueError(
            f"The kernel has values of size {largest:.3g}, whose squares overflow. Scale the "
            "features, for example with sklearn.preprocessing.StandardScaler."
        )
