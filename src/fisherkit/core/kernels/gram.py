"""Kernels and Gram matrices.

`Kernel` is a kernel with its parameters fixed: blocks of values and the diagonal. `Gram` is that
kernel on one set of rows: single rows of the matrix for the low-rank path, or the whole of it.
Names and parameters follow ``sklearn.metrics.pairwise``.

The distances behind ``rbf`` and ``laplacian`` do not depend on the width. While the matrix is small
(`_KEEP_ROWS` rows) they are computed once and reused for every width; beyond that, recomputing them
costs little beside the decomposition that follows and saves n^2 numbers of memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.stored import stored

KERNELS = (*sorted(PAIRWISE_KERNEL_FUNCTIONS), "precomputed")

_WITH_GAMMA = frozenset({"rbf", "laplacian", "poly", "polynomial", "sigmoid", "chi2"})
_WITH_DEGREE = frozenset({"poly", "polynomial"})
_WITH_COEF0 = frozenset({"poly", "polynomial", "sigmoid"})
_STATIONARY = frozenset({"rbf", "laplacian"})
_KEEP_ROWS = 2048
_KEEP_NUMBERS = 1 << 22  # in the rows up to which what distances need of them is kept

LARGEST = 1e153  # number whose square is one


@stored("kernel")
@dataclass(frozen=True)
class Kernel:
    """A positive semi-definite kernel with its parameters; see ``sklearn.metrics.pairwise``.

    Parameters
    ----------
    name : str or callable
        One of `KERNELS`, or a function of two rows as in scikit-learn's ``KernelRidge``.
    gamma, degree, coef0 : float
        Used by the kernels that have them, ignored by the others.
    params : mapping
        Extra arguments of a callable.
    takes_gamma : bool
        Whether a callable is given gamma, too.
    """

    name: str | Callable[..., float]
    gamma: Any = None  # a number for the kernels that use one
    degree: float = 3
    coef0: float = 1.0
    params: Mapping[str, Any] = field(default_factory=dict)
    takes_gamma: bool = False

    @property
    def has_gamma(self) -> bool:
        return self.takes_gamma if callable(self.name) else self.name in _WITH_GAMMA

    @property
    def precomputed(self) -> bool:
        return self.name == "precomputed"

    @property
    def known_positive(self) -> bool:
        """Whether theory guarantees a positive semi-definite Gram matrix."""
        if self.name in _WITH_DEGREE:
            return self.coef0 >= 0 and self.degree > 0 and float(self.degree).is_integer()
        return self.name in {"rbf", "laplacian", "linear", "cosine", "chi2"}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that scikit-learn's function of this kernel takes."""
        if callable(self.name):
            return dict(self.params) | ({"gamma": self.gamma} if self.takes_gamma else {})
        named = {
            "gamma": (self.gamma, _WITH_GAMMA),
            "degree": (self.degree, _WITH_DEGREE),
            "coef0": (self.coef0, _WITH_COEF0),
        }
        return {key: value for key, (value, users) in named.items() if self.name in users}

    @arrays.quiet_overflow()
    def block(self, X: Array, Y: Array) -> Array:
        """Kernel values between rows of X (n, d) and rows of Y (m, d); a fresh (n, m) array.

        For ``precomputed`` X already holds the values and is returned.
        """
        if self.precomputed:
            return X
        if self.name == "laplacian":
            return arrays.cityblock(X, Y, self._decay)
        if self.name == "rbf":
            return arrays.exp_in_place(self.exponent(X, Y))
        if self.name == "linear":
            return X @ Y.T
        if self.name in _WITH_DEGREE:
            values = X @ Y.T
            values *= self.gamma
            values += self.coef0
            return values**self.degree
        if not arrays.is_numpy(X):
            values = pairwise_kernels(
                arrays.to_numpy(X), arrays.to_numpy(Y), self.name, **self.arguments
            )
            return arrays.like(values, X)
        return pairwise_kernels(X, Y, self.name, **self.arguments)

    def blocks(self, X: Array, Y: Array, gammas: Iterable[float | None]) -> Iterator[Array]:
        """The block for each gamma in turn; the distances behind them are found once."""
        distances = None
        if self.name in _STATIONARY:
            distances = replace(self, gamma=1.0).exponent(X, Y)
        for gamma in gammas:
            if distances is None:
                yield replace(self, gamma=gamma).block(X, Y)
            else:
                yield arrays.exp_in_place(distances * gamma)

    def _decay(self, distances: Array) -> Array:
        distances *= -self.gamma
        return arrays.exp_in_place(distances)

    def exponent(self, X: Array, Y: Array) -> Array:
        """log k(x, y) of a stationary kernel: -gamma times the distance; (n, m)."""
        if self.name == "rbf":
            return _scaled_distances(X, Y, self.gamma)
        distances = arrays.cityblock(X, Y)
        distances *= -self.gamma
        return distances

    @arrays.quiet_overflow()
    def diagonal(self, X: Array) -> Array:
        """Values k(x, x) for the rows of X; (n,)."""
        xp = arrays.namespace(X)
        if self.precomputed:
            return xp.linalg.diagonal(X) * 1.0
        if self.name in _STATIONARY:
            return xp.ones_like(X[:, 0])
        if self.name == "linear":
            return xp.sum(X * X, axis=1)
        if self.name in _WITH_DEGREE:
            return (self.gamma * xp.sum(X * X, axis=1) + self.coef0) ** self.degree
        if self.name == "chi2":
            return xp.ones_like(X[:, 0])
        if self.name == "cosine":
            return xp.astype(xp.any(X != 0, axis=1), X.dtype)
        singles = (X[i : i + 1, :] for i in range(X.shape[0]))
        values = [float(self.block(row, row)[0, 0]) for row in singles]
        return arrays.like(values, X)


def _scaled_distances(X: Array, Y: Array, gamma: Any) -> Array:
    """-gamma |x - y|^2 for all pairs as one matrix product of rows extended by their norms.

    ``gamma`` may be a number or one for each feature, -sum_k gamma_k (x_k - y_k)^2.
    Both sides are first moved to about the mean of Y: a large common offset costs no digits.
    """
    xp = arrays.namespace(X, Y)
    shift = _rough_mean(Y)
    scale = gamma**0.5
    A = (X - shift) * scale
    B = (Y - shift) * scale
    a = xp.sum(A * A, axis=1, keepdims=True)
    b = xp.sum(B * B, axis=1, keepdims=True)
    left = xp.concat([A, a, xp.ones_like(a)], axis=1)
    right = xp.concat([2 * B, -xp.ones_like(b), -b], axis=1)
    return arrays.clip_in_place(left @ right.T, upper=0.0)


def _rough_mean(Y: Array) -> Array:
    """The column means of Y to a millionth of its size.

    Fewer digits, so that shuffled, repeated and weighted versions of the same data share them.
    """
    xp = arrays.namespace(Y)
    quantum = float(xp.max(xp.abs(Y))) * 2.0**-20
    mean = xp.mean(Y, axis=0)
    return xp.round(mean / quantum) * quantum if quantum > 0 else mean


@dataclass(frozen=True)
class Distinct:
    """The u distinct rows of a data set, in an order that does not depend on that of the rows.

    ``key`` (u,) is a fingerprint of each row's values, ``first`` (u,) the first place where it
    occurs, and ``group`` (n,) says which of them each row is.
    """

    key: np.ndarray
    first: np.ndarray
    group: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray) -> Distinct:
        """From the fingerprint of each row."""
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        return cls(keys[first], first, group)

    @classmethod
    def rows(cls, X: Array) -> Distinct:
        """Of the rows of X (n, d)."""
        return cls.of(fingerprints(arrays.to_numpy(X)))

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sum of values (n,) over equal rows; (u,)."""
        if len(self.first) == len(self.group):
            return values[self.first]
        return np.bincount(self.group, weights=values, minlength=len(self.first))

    def split(self, index: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows equal in x and class: the first place of each pair, and the pair of each row (n,).

        Ordered by x first, then class: the order does not depend on that of the rows.
        """
        joint = self.group.astype(np.int64) * n_classes + index
        _, first, group = np.unique(joint, return_index=True, return_inverse=True)
        return first, group

    def like(self, rows: np.ndarray) -> np.ndarray:
        """Mask (n,) of the rows that equal one of ``rows``."""
        chosen = np.zeros(len(self.first), dtype=bool)
        chosen[self.group[rows]] = True
        return chosen[self.group]

    def draw(self, chances: np.ndarray, size: int, seed: int) -> np.ndarray:
        """``size`` different rows, with probabilities in proportion to ``chances`` (n,).

        A race: a row's luck follows from its values and the seed alone, so shuffled, repeated
        and weighted versions of the same data draw the same rows.
        """
        total = self.total(chances)
        running = np.flatnonzero(total > 0)
        score = race(self.key[running], total[running], seed)
        winners = np.argpartition(-score, min(size, len(score)) - 1)[:size]
        return self.first[running[winners[np.argsort(-score[winners])]]]


def race(keys: np.ndarray, chances: np.ndarray, seed: int) -> np.ndarray:
    """Scores of rows with these fingerprints: the m highest are a draw without replacement.

    The probabilities are in proportion to ``chances``, which are positive.
    """
    return np.log(chances) - np.log(-np.log(_uniform(keys + np.uint64(seed))))


def race_seed(seed: int) -> int:
    """The seed of the races of a fit with this seed: in memory and on row blocks the same."""
    return int(np.random.RandomState(seed).randint(np.iinfo(np.int32).max))


def fingerprints(X: np.ndarray) -> np.ndarray:
    """A 64-bit hash of the values in each row; (n,)."""
    keys = np.empty(len(X), dtype=np.uint64)
    odd = 2 * np.random.RandomState(0).randint(1 << 62, size=X.shape[1], dtype=np.uint64) + 1
    for rows in arrays.row_blocks(*X.shape):
        bits = (X[rows].astype(np.float64) + 0.0).view(np.uint64)  # -0.0 equals 0.0
        # Mixed first: sums of products alone would confuse rows that differ in a few bits.
        bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
        keys[rows] = (bits ^ (bits >> np.uint64(29))) @ odd
    return keys


def _uniform(keys: np.ndarray) -> np.ndarray:
    """Numbers in (0, 1) that look random, one for each key (the finaliser of splitmix64)."""
    z = keys * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54


@stored("gram")
@dataclass(frozen=True)
class Gram:
    """A kernel on one set of rows: rows, diagonal or all of the matrix K (n, n).

    ``X`` is the data (n, d), or K itself for a precomputed kernel; ``rounding`` is the relative
    precision of what was given, before it was widened to double precision.
    """

    X: Array
    kernel: Kernel
    rounding: float = 0.0
    _kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def n(self) -> int:
        return self.X.shape[0]

    def with_gamma(self, gamma: float | None) -> Gram:
        """The same rows under another width; kept distances are shared."""
        return replace(self, kernel=replace(self.kernel, gamma=gamma))

    def diagonal(self) -> Array:
        return self.kernel.diagonal(self.X)

    def distinct(self) -> Distinct:
        """Which rows differ; found once for all widths. Rows of a precomputed matrix all do."""
        if "distinct" not in self._kept:
            self._kept["distinct"] = (
                Distinct.of(np.arange(self.n, dtype=np.uint64))
                if self.kernel.precomputed
                else Distinct.rows(self.X)
            )
        return self._kept["distinct"]

    def columns(self, rows: Array) -> Array:
        """K[:, rows], (n, m)."""
        xp = arrays.namespace(self.X)
        if self.kernel.precomputed:
            return xp.take(self.X, rows, axis=1)
        return self.kernel.block(self.X, xp.take(self.X, rows, axis=0))

    @arrays.quiet_overflow()
    def rows(self, rows: Array, columns: Array | None = None) -> Array:
        """K[rows, :], (m, n), in C order; or K[rows, columns].

        For rbf what distances need of each row is kept, so that many short calls are cheap.
        """
        xp = arrays.namespace(self.X)
        if self.kernel.name == "rbf" and self.X.shape[0] * self.X.shape[1] <= _KEEP_NUMBERS:
            unit, sides = self._sides()
            left = (-self.kernel.gamma * unit) * unit * xp.take(sides, rows, axis=0)
            # -gamma |x - y|^2 = -gamma (-2 x'y + 1 |y|^2 + |x|^2 1)
            left = xp.concat([-2 * left[:, :-2], left[:, -1:], left[:, -2:-1]], axis=1)
            right = sides if columns is None else xp.take(sides, columns, axis=0)
            return arrays.exp_in_place(arrays.clip_in_place(left @ right.T, upper=0.0))
        if columns is not None:
            return self.between(rows, columns)
        chosen = xp.take(self.X, rows, axis=0)
        return chosen if self.kernel.precomputed else self.kernel.block(chosen, self.X)

    def _sides(self) -> tuple[float, Array]:
        """A unit of length, and rows x in it beside |x|^2 and 1, (n, d + 2).

        They are moved to about the mean of the distinct rows, so that a row has the same bits
        however often it or others are repeated.
        """
        if "sides" not in self._kept:
            xp = arrays.namespace(self.X)
            first = arrays.indices(self.distinct().first, self.X)
            X = self.X - _rough_mean(xp.take(self.X, first, axis=0))
            unit = float(xp.max(xp.abs(X))) or 1.0
            X = X / unit
            squares = xp.sum(X * X, axis=1, keepdims=True)
            self._kept["sides"] = unit, xp.concat([X, squares, xp.ones_like(squares)], axis=1)
        return self._kept["sides"]

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
        if self.kernel.name not in _STATIONARY:
            return self.kernel.block(self.X, self.X)
        return arrays.exp_in_place(self._exponent())

    @arrays.quiet_overflow()
    def shifted(self) -> tuple[Array, float]:
        """K - shift and the shift: 1 for rbf and laplacian, where wide kernels gain digits.

        What a free bias leaves of K does not depend on the shift.
        """
        if self.kernel.name not in _STATIONARY:
            return self.full(), 0.0
        return arrays.expm1_in_place(self._exponent()), 1.0

    def _exponent(self) -> Array:
        """log K of a stationary kernel, from kept distances where the matrix is small."""
        if self.n > _KEEP_ROWS:
            return self.kernel.exponent(self.X, self.X)
        if "distances" not in self._kept:
            self._kept["distances"] = self._distances()
        return self._kept["distances"] * -self.kernel.gamma

    def _distances(self) -> Array:
        if self.kernel.name == "laplacian":
            return arrays.cityblock(self.X, self.X)
        xp = arrays.namespace(self.X)
        X = self.X - xp.mean(self.X, axis=0)
        unit = float(xp.max(xp.abs(X))) or 1.0
        distances = _scaled_distances(X / unit, X / unit, 1.0)
        distances *= -(unit**2)
        return distances


def feature_moments(X: Array, weight: Array) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and variance of each feature; (d,) each."""
    xp = arrays.namespace(X)
    share = (weight / xp.sum(weight))[:, None]
    mean = xp.sum(share * X, axis=0)
    variance = xp.sum(share * (X - mean) ** 2, axis=0)
    return np.asarray(arrays.to_numpy(mean)), np.asarray(arrays.to_numpy(variance))


def reference_width(X: Array, weight: Array, kernel: Kernel) -> float:
    """The gamma that the width search is centred on, from the spread of the (weighted) features."""
    return width_of_moments(*feature_moments(X, weight), kernel)


def width_of_moments(mean: np.ndarray, variance: np.ndarray, kernel: Kernel) -> float:
    """`reference_width` from the mean and variance of each feature.

    rbf: 1/(2 u^2) with u^2 the sum of the feature variances; laplacian: 1/u1 with u1 the sum of
    their standard deviations; polynomial, sigmoid: 1/mean |x|^2; chi2: 1/(sum of feature means).
    """
    if kernel.name == "rbf":
        spread = 2 * float(np.sum(variance))
    elif kernel.name == "laplacian":
        spread = float(np.sum(np.sqrt(variance)))
    elif kernel.name == "chi2":
        spread = float(np.sum(mean))
    else:
        spread = float(np.sum(variance + mean**2))
    # Half of the digits: see `_rough_mean`.
    mantissa, exponent = math.frexp(_reciprocal(spread))
    return math.ldexp(round(mantissa * 2**26), exponent - 26)


def length(kernel: Kernel, gamma: float | None) -> float:
    """The width of a kernel: 1/sqrt(2 gamma) for rbf, 1/gamma otherwise; nan without a gamma."""
    if gamma is None:
        return math.nan
    return (2 * gamma) ** -0.5 if kernel.name == "rbf" else 1 / gamma


def width_step(kernel: Kernel) -> float:
    """Factor in gamma for half an octave of the length that the kernel measures."""
    return 2.0**0.5 if kernel.name == "laplacian" else 2.0


def scale_gamma(X: Array, weight: Array) -> float:
    """scikit-learn's ``gamma="scale"``: 1/(n_features Var X), with weighted moments."""
    xp = arrays.namespace(X)
    share = (weight / xp.sum(weight))[:, None] / X.shape[1]
    mean = xp.sum(share * X)
    variance = float(xp.sum(share * (X - mean) ** 2))
    return gamma_of_variance(variance, X.shape[1])


def gamma_of_variance(variance: float, n_features: int) -> float:
    """1/(n_features Var X), or 1 where X is constant."""
    return _reciprocal(n_features * variance)


def median_gamma(X: Array, weight: Array, kernel: Kernel, seed: int) -> float:
    """The median heuristic: 1/(2 median |x-x'|^2) for rbf, 1/median of the distance otherwise.

    The median runs over all ordered pairs, a pair (i, j) counting w_i w_j, so that a weight of two
    equals the row twice. Beyond 2048 rows it is taken on so many different ones, drawn by weight.
    """
    X, weight = arrays.to_numpy(X), arrays.to_numpy(weight)
    if len(X) > _KEEP_ROWS:
        rows = Distinct.rows(X).draw(weight, _KEEP_ROWS, race_seed(seed))
        X, weight = X[rows], np.ones(len(rows))
    if kernel.name == "laplacian":
        distances = arrays.cityblock(X, X)
    else:
        distances = -2 * _scaled_distances(X, X, 1.0)
    np.fill_diagonal(distances, 0.0)
    middle = _weighted_median(distances.ravel(), np.outer(weight, weight).ravel())
    middle = middle or float(np.average(distances, weights=np.outer(weight, weight)))
    return _reciprocal(middle)


def _reciprocal(spread: float) -> float:
    """1/spread, or 1 for data without (a representable) spread."""
    gamma = 1.0 / spread if spread > 0 else 0.0
    return gamma if 0 < gamma < np.inf else 1.0


def _weighted_median(values: np.ndarray, weight: np.ndarray) -> float:
    order = np.argsort(values)
    mass = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(mass, 0.5 * mass[-1])])


def repeated_columns(K: np.ndarray, equal: float) -> np.ndarray:
    """Which columns of K (N, L) are an earlier one, to ``equal`` of its largest value; O(N L)."""
    key = np.cos(np.arange(len(K))) @ K  # equal columns have equal keys, others hardly ever
    key = np.round(key / (np.abs(key).max(initial=0.0) or 1.0), 11)
    _, first, run = np.unique(key, return_index=True, return_inverse=True)
    twin = first[run]
    repeated = twin < np.arange(len(key))
    A, B = K[:, repeated], K[:, twin[repeated]]
    repeated[repeated] = np.abs(A - B).max(axis=0) <= equal * np.abs(B).max(axis=0)
    return repeated


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
