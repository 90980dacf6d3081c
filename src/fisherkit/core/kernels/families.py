"""Kernel families by name: values, diagonal, and what their widths measure.

`Kernel` is a family with its parameters fixed. A family is a stateless class whose methods are
given the kernel, for its parameters; names and parameters follow ``sklearn.metrics.pairwise``. A
new kernel is a class and its line in `KERNELS`; its nodes in `fisherkit.models.onnx_graph` are
optional. Kernels over columns of several kinds are families, too: X is any matrix of numbers, of
which a kernel may see some columns only, each in a unit of its own (`View`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics.pairwise import (
    additive_chi2_kernel,
    chi2_kernel,
    cosine_similarity,
    pairwise_kernels,
    sigmoid_kernel,
)

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.stored import stored

_AHEAD = 1.001  # factor in gamma of a central difference
_ROUNDED = 16.0  # times the rounding of the largest square: below it, two rows are the same
_SAME = 1e-7  # of the largest distance, below which rows are one: rounding of squares


@stored("view")
@dataclass(frozen=True, eq=False)
class View:
    """What a kernel sees of a row: some columns, each times a number.

    Attributes
    ----------
    columns : (p,) of int
    scale : (p,) or None
        ``None`` leaves the columns as they are.
    name : str
        What it is called.
    """

    columns: np.ndarray
    scale: np.ndarray | None = None
    name: str = ""

    def __call__(self, X: Array) -> Array:
        """The columns (n, p) of rows X (n, d)."""
        seen = arrays.namespace(X).take(X, arrays.indices(self.columns, X), axis=1)
        return seen if self.scale is None else seen * arrays.like(self.scale, X)

    def moments(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (p,) of what is seen, from those of all columns (d,)."""
        scale = 1.0 if self.scale is None else self.scale
        return mean[self.columns] * scale, variance[self.columns] * scale**2

    def scaled(self, scale: np.ndarray) -> View:
        """The same columns in other units; (p,)."""
        return replace(self, scale=scale)


class Family:
    """What every kernel has; only `block` has no default.

    Attributes
    ----------
    parameters : tuple of str
        Which of gamma, degree and coef0 the values depend on.
    positive : bool
        Whether theory guarantees a positive semi-definite Gram matrix.
    step : float
        Factor in gamma for half an octave of the length that the kernel measures.
    by_column : {"product", "sum", "other", ""}
        How values follow from gaps, numbers of one column each (`gap`) that are added up: as
        exp(-sum), as the sum itself, otherwise (`of_gaps`); or that there are no such numbers.
    """

    parameters: tuple[str, ...] = ()
    positive: ClassVar[bool] = False
    step: ClassVar[float] = 2.0
    by_column: ClassVar[str] = ""

    def block(self, X: Array, Y: Array, kernel: Kernel) -> Array:
        """Values between rows of X (n, d) and rows of Y (m, d); a fresh (n, m) array."""
        raise NotImplementedError

    def diagonal(self, X: Array, kernel: Kernel) -> Array:
        """Values k(x, x) for the rows of X; (n,)."""
        singles = (X[i : i + 1, :] for i in range(X.shape[0]))
        return arrays.like([float(self.block(row, row, kernel)[0, 0]) for row in singles], X)

    def width_slope(self, X: Array, Y: Array, kernel: Kernel) -> Array:
        """dk/dlog gamma between rows of X (n, d) and of Y (m, d), by central differences."""
        above, below = (replace(kernel, gamma=kernel.gamma * e) for e in (_AHEAD, 1 / _AHEAD))
        difference = self.block(X, Y, above) - self.block(X, Y, below)
        return difference / (2 * math.log(_AHEAD))

    def gap(self, x: Array, y: Array, kernel: Kernel) -> Array:
        """What one column, x (n,) and y (m,), adds to the sum behind the values; (n, m)."""
        raise NotImplementedError

    def of_gaps(self, total: Array, kernel: Kernel) -> Array:
        """The values whose gaps add up to these."""
        return total if self.by_column == "sum" else arrays.exp_in_place(-total)

    def known_positive(self, kernel: Kernel) -> bool:
        """``positive``, where the parameters do not matter."""
        return self.positive

    def spread(self, mean: np.ndarray, variance: np.ndarray) -> float:
        """1/gamma for a width in the middle, from the mean and variance of each feature."""
        return float(np.sum(variance + mean**2))

    def spacing(self, X: Array) -> Array:
        """What has the median 1/gamma by the median heuristic, for all pairs of rows; (n, n)."""
        return -2 * _scaled_distances(X, X, 1.0)

    def length(self, gamma: float) -> float:
        """The length that the kernel measures."""
        return 1 / gamma

    def sides(self, X: Array, distinct: Callable[[], Array]) -> Any:
        """What many short calls of `of_sides` share, if these are quicker than `block`."""
        return None

    def of_sides(
        self, sides: Any, rows: Array | slice, columns: Array | slice | None, kernel: Kernel
    ) -> Array:
        """Values between some rows and others, or all."""
        raise NotImplementedError

    def factors(self, sides: Any, kernel: Kernel) -> tuple[Array, Array]:
        """A and B (n, q) with log K = A B', for kernels that have `sides`."""
        raise NotImplementedError


class Stationary(Family):
    """log k(x, y) = -gamma D(x, y) for a distance D, so that dk/dlog gamma = k log k."""

    parameters = ("gamma",)

    def distances(self, X: Array, Y: Array) -> Array:
        """D of all pairs, a fresh (n, m) array."""
        raise NotImplementedError

    def exponent(self, X: Array, Y: Array, kernel: Kernel) -> Array:
        """log k(x, y); (n, m)."""
        distances = self.distances(X, Y)
        distances *= -kernel.gamma
        return distances

    def block(self, X: Array, Y: Array, kernel: Kernel) -> Array:
        return arrays.exp_in_place(self.exponent(X, Y, kernel))

    def diagonal(self, X: Array, kernel: Kernel) -> Array:
        return arrays.namespace(X).ones_like(X[:, 0])

    @property
    def has_slopes(self) -> bool:
        """Whether `slopes` is there."""
        return type(self).slopes is not Stationary.slopes

    def slopes(self, X: Array, coef: Array, gamma: float) -> Iterator[Array]:
        """df/dx_j at every row x of X (n, d), for each column j; (n, k) each.

        f(x) = sum_i k(x, x_i) coef_i, with the coefficients (n, k) of the same rows.
        """
        raise NotImplementedError


class Rbf(Stationary):
    """exp(-gamma |x - y|^2); gamma may be one number for each feature."""

    positive = True
    by_column = "product"

    def gap(self, x: Array, y: Array, kernel: Kernel) -> Array:
        difference = x[:, None] - y[None, :]
        difference *= difference
        difference *= kernel.gamma
        return difference

    def distances(self, X: Array, Y: Array) -> Array:
        xp, shift = arrays.namespace(X, Y), _rough_mean(Y)
        X, Y = X - shift, Y - shift
        unit = float(xp.max(xp.abs(Y))) or 1.0
        distances = _scaled_distances(X / unit, Y / unit, 1.0)
        distances *= -(unit**2)
        return distances

    def exponent(self, X: Array, Y: Array, kernel: Kernel) -> Array:
        return _scaled_distances(X, Y, kernel.gamma)

    def slopes(self, X: Array, coef: Array, gamma: float) -> Iterator[Array]:
        return _radial_slopes(X, 2 * gamma * self._values(X, gamma), coef)

    def _values(self, X: Array, gamma: float) -> Array:
        return arrays.exp_in_place(_scaled_distances(X, X, gamma))

    def spread(self, mean: np.ndarray, variance: np.ndarray) -> float:
        return 2 * float(np.sum(variance))

    def length(self, gamma: float) -> float:
        return (2 * gamma) ** -0.5

    def sides(self, X: Array, distinct: Callable[[], Array]) -> tuple[float, Array]:
        """A unit of length, and rows x in it beside |x|^2 and 1, (n, d + 2).

        They are moved to about the mean of the ``distinct`` rows, so that a row has the same bits
        however often it or others are repeated.
        """
        xp = arrays.namespace(X)
        X = X - _rough_mean(xp.take(X, distinct(), axis=0))
        unit = float(xp.max(xp.abs(X))) or 1.0
        X = X / unit
        squares = xp.sum(X * X, axis=1, keepdims=True)
        return unit, xp.concat([X, squares, xp.ones_like(squares)], axis=1)

    def of_sides(
        self, sides: Any, rows: Array | slice, columns: Array | slice | None, kernel: Kernel
    ) -> Array:
        unit, right = sides
        left = self._left(unit, arrays.some_rows(right, rows), kernel)
        right = right if columns is None else arrays.some_rows(right, columns)
        return arrays.exp_in_place(arrays.clip_in_place(left @ right.T, upper=0.0))

    def _left(self, unit: float, right: Array, kernel: Kernel) -> Array:
        """What the rows of `sides` are multiplied with: log k = left right'."""
        left = (-kernel.gamma * unit) * unit * right
        # -gamma |x - y|^2 = -gamma (-2 x'y + 1 |y|^2 + |x|^2 1)
        parts = [-2 * left[:, :-2], left[:, -1:], left[:, -2:-1]]
        return arrays.namespace(right).concat(parts, axis=1)

    def factors(self, sides: Any, kernel: Kernel) -> tuple[Array, Array]:
        unit, right = sides
        return self._left(unit, right, kernel), right


class Laplacian(Stationary):
    """exp(-gamma |x - y|_1)."""

    positive = True
    step = 2.0**0.5
    by_column = "product"

    def gap(self, x: Array, y: Array, kernel: Kernel) -> Array:
        return kernel.gamma * arrays.namespace(x).abs(x[:, None] - y[None, :])

    def distances(self, X: Array, Y: Array) -> Array:
        return arrays.cityblock(X, Y)

    def block(self, X: Array, Y: Array, kernel: Kernel) -> Array:
        def decay(distances: Array) -> Array:
            distances *= -kernel.gamma
            return arrays.exp_in_place(distances)

        return arrays.cityblock(X, Y, decay)  # on the cores that find the distances

    def slopes(self, X: Array, coef: Array, gamma: float) -> Iterator[Array]:
        """-gamma sum_i sign(x_j - x_ij) k(x, x_i) coef_i.

        Where a column has two values, as indicators have, the sums over the rows of one value are
        products with the matrix as it is.
        """
        xp = arrays.namespace(X)
        K = arrays.exp_in_place(arrays.cityblock(X, X) * -gamma)
        whole = K @ coef
        low, high = xp.min(X, axis=0), xp.max(X, axis=0)
        two = np.asarray(arrays.to_numpy(xp.all((low == X) | (high == X), axis=0)))
        for j in range(X.shape[1]):
            x = X[:, j]
            if two[j]:
                upper = (x > low[j])[:, None]
                above = K @ xp.where(upper, coef, 0 * coef)
                yield -gamma * xp.where(upper, whole - above, -above)
            else:
                yield -gamma * ((K * xp.sign(x[:, None] - x[None, :])) @ coef)

    def spread(self, mean: np.ndarray, variance: np.ndarray) -> float:
        return float(np.sum(np.sqrt(variance)))

    def spacing(self, X: Array) -> Array:
        return arrays.cityblock(X, X)


class Exponential(Rbf):
    """exp(-gamma |x - y|), with the Euclidean distance."""

    step = 2.0**0.5
    by_column = "other"

    def gap(self, x: Array, y: Array, kernel: Kernel) -> Array:
        return kernel.gamma * super().gap(x, y, kernel)

    def of_gaps(self, total: Array, kernel: Kernel) -> Array:
        return arrays.exp_in_place(-arrays.namespace(total).sqrt(total))

    def distances(self, X: Array, Y: Array) -> Array:
        squares, xp = super().distances(X, Y), arrays.namespace(X)
        if squares.shape[0] and squares.shape[1]:  # the root of a rounding error is none
            squares *= xp.astype(squares > _ROUNDED * arrays.eps(X) * xp.max(squares), X.dtype)
        return squares**0.5

    def exponent(self, X: Array, Y: Array, kernel: Kernel) -> Array:
        distances = self.distances(X, Y)
        distances *= -kernel.gamma
        return distances

    def slopes(self, X: Array, coef: Array, gamma: float) -> Iterator[Array]:
        """Rows that equal x count for nothing there: the kernel has a peak."""
        xp = arrays.namespace(X)
        D = self.distances(X, X)
        near = _SAME * float(xp.max(D)) >= D
        W = gamma * arrays.exp_in_place(D * -gamma) / xp.where(near, xp.ones_like(D), D)
        return _radial_slopes(X, xp.where(near, xp.zeros_like(W), W), coef)

    def spread(self, mean: np.ndarray, variance: np.ndarray) -> float:
        return (2 * float(np.sum(variance))) ** 0.5

    def length(self, gamma: float) -> float:
        return 1 / gamma

    def sides(self, X: Array, distinct: Callable[[], Array]) -> Any:
        return None  # near its peak, the square root of a rounding error is no rounding error


class Additive(Family):
    """prod_j (1 + coef0 exp(-gamma |x_j - y_j|)) / (1 + coef0): sums over sets of columns.

    The larger coef0, the more columns take part together; for a small one it is nearly a sum over
    single columns. For columns of like scale, such as ranks: on heavy tails it is a poor model.
    """

    parameters = ("gamma", "coef0")
    step = 2.0**0.5
    by_column = "product"

    def gap(self, x: Array, y: Array, kernel: Kernel) -> Array:
        xp, share = arrays.namespace(x), kernel.coef0 / (1 + kernel.coef0)
        away = xp.expm1(-kernel.gamma * xp.abs(x[:, None] - y[None, :]))
        return -xp.log1p(share * away)

    def known_positive(self, kernel: Kernel) -> bool:
        return kernel.coef0 >= 0

    def block(self, X: Array, Y: Array, kernel: Kernel) -> Array:
        xp = arrays.namespace(X)
        values = xp.ones_like(X[:, :1] * Y[:, 0])
        share = kernel.coef0 / (1 + kernel.coef0)
        for j in range(X.shape[1]):
            gap = xp.abs(X[:, j][:, None] - Y[:, j][None, :])
            gap *= -kernel.gamma
            values *= share * arrays.exp_in_place(gap) + (1 - share)
        return values

    def diagonal(self, X: Array, kernel: Kernel) -> Array:
        return arrays.namespace(X).ones_like(X[:, 0])

    def spread(self, mean: np.ndarray, variance: np.ndarray) -> float:
        return float(np.mean(np.sqrt(variance)))


class Linear(Family):
    """x'y."""

    positive = True
    by_column = "sum"

    def gap(self, x: Array, y: Array, kernel: Kernel) -> Array:
        return x[:, None] * y[None, :]

    def block(self, X: Array, Y: Array, kernel: Kernel) -> Array:
        return X @ Y.T

    def diagonal(self, X: Array, kernel: Kernel) -> Array:
        return arrays.namespace(X).sum(X * X, axis=1)


class Polynomial(Family):
    """(gamma x'y + coef0)^degree."""

    parameters = ("gamma", "degree", "coef0")
    by_column = "other"

    def gap(self, x: Array, y: Array, kernel: Kernel) -> Array:
        return kernel.gamma * x[:, None] * y[None, :]

    def of_gaps(self, total: Array, kernel: Kernel) -> Array:
        return (total + kernel.coef0) ** kernel.degree

    def known_positive(self, kernel: Kernel) -> bool:
        return kernel.coef0 >= 0 and kernel.degree > 0 and float(kernel.degree).is_integer()

    def block(self, X: Array, Y: Array, kernel: Kernel) -> Array:
        values = X @ Y.T
        values *= kernel.gamma
        values += kernel.coef0
        return values**kernel.degree

    def diagonal(self, X: Array, kernel: Kernel) -> Array:
        squares = arrays.namespace(X).sum(X * X, axis=1)
        return (kernel.gamma * squares + kernel.coef0) ** kernel.degree


class Hosted(Family):
    """Values by a function of two NumPy matrices, as those of scikit-learn are."""

    def __init__(self, function: Callable[..., np.ndarray], *parameters: str) -> None:
        self.function, self.parameters = function, parameters

    def block(self, X: Array, Y: Array, kernel: Kernel) -> Array:
        values = self.function(arrays.to_numpy(X), arrays.to_numpy(Y), **kernel.arguments)
        return values if arrays.is_numpy(X) else arrays.like(values, X)


class Cosine(Hosted):
    """x'y/(|x||y|), or 0 for a row of zeros."""

    positive = True

    def diagonal(self, X: Array, kernel: Kernel) -> Array:
        xp = arrays.namespace(X)
        return xp.astype(xp.any(X != 0, axis=1), X.dtype)


class Chi2(Hosted):
    """exp(-gamma sum_k (x_k - y_k)^2/(x_k + y_k)), for features that are not negative."""

    positive = True

    def diagonal(self, X: Array, kernel: Kernel) -> Array:
        return arrays.namespace(X).ones_like(X[:, 0])

    def spread(self, mean: np.ndarray, variance: np.ndarray) -> float:
        return float(np.sum(mean))


class Precomputed(Family):
    """The matrix is given: X holds the values."""

    def block(self, X: Array, Y: Array, kernel: Kernel) -> Array:
        return X

    def diagonal(self, X: Array, kernel: Kernel) -> Array:
        return arrays.namespace(X).linalg.diagonal(X) * 1.0


KERNELS: dict[str, Family] = {
    "additive": Additive(),
    "additive_chi2": Hosted(additive_chi2_kernel),
    "chi2": Chi2(chi2_kernel, "gamma"),
    "cosine": Cosine(cosine_similarity),
    "exponential": Exponential(),
    "laplacian": Laplacian(),
    "linear": Linear(),
    "poly": Polynomial(),
    "polynomial": Polynomial(),
    "rbf": Rbf(),
    "sigmoid": Hosted(sigmoid_kernel, "gamma", "coef0"),
    "precomputed": Precomputed(),
}


@stored("kernel")
@dataclass(frozen=True)
class Kernel:
    """A positive semi-definite kernel with its parameters.

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
    view : View or None
        What of a row the kernel sees; ``None`` is all of it as it is.
    """

    name: str | Callable[..., float]
    gamma: Any = None  # a number for the kernels that use one
    degree: float = 3
    coef0: float = 1.0
    params: Mapping[str, Any] = field(default_factory=dict)
    takes_gamma: bool = False
    view: View | None = None

    @property
    def family(self) -> Family:
        if callable(self.name):
            own = ("gamma",) if self.takes_gamma else ()
            return Hosted(partial(pairwise_kernels, metric=self.name), *own)
        return KERNELS[self.name]

    @property
    def has_gamma(self) -> bool:
        return "gamma" in self.family.parameters

    @property
    def stationary(self) -> Stationary | None:
        """The family, if it is a function of distances."""
        return self.family if isinstance(self.family, Stationary) else None

    @property
    def precomputed(self) -> bool:
        return self.name == "precomputed"

    @property
    def known_positive(self) -> bool:
        """Whether theory guarantees a positive semi-definite Gram matrix."""
        return self.family.known_positive(self)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that scikit-learn's function of this kernel takes."""
        named = {name: getattr(self, name) for name in self.family.parameters}
        return {**self.params, **named} if callable(self.name) else named

    @property
    def bare(self) -> Kernel:
        """The kernel of what is seen."""
        return self if self.view is None else replace(self, view=None)

    def seen(self, X: Array) -> Array:
        """What the kernel sees of rows X (n, d)."""
        return X if self.view is None else self.view(X)

    @arrays.quiet_overflow()
    def block(self, X: Array, Y: Array) -> Array:
        """Kernel values between rows of X (n, d) and rows of Y (m, d); a fresh (n, m) array.

        For ``precomputed`` X already holds the values and is returned.
        """
        return self.family.block(self.seen(X), self.seen(Y), self)

    def blocks(self, X: Array, Y: Array, gammas: Iterable[float | None]) -> Iterator[Array]:
        """The block for each gamma in turn; the distances behind them are found once."""
        family, bare = self.stationary, self.bare
        X, Y = self.seen(X), self.seen(Y)
        distances = None if family is None else family.distances(X, Y)
        for gamma in gammas:
            if distances is None:
                yield replace(bare, gamma=gamma).block(X, Y)
            else:
                assert gamma is not None
                yield arrays.exp_in_place(distances * -gamma)

    @arrays.quiet_overflow()
    def diagonal(self, X: Array) -> Array:
        """Values k(x, x) for the rows of X; (n,)."""
        return self.family.diagonal(self.seen(X), self)


def _radial_slopes(X: Array, W: Array, coef: Array) -> Iterator[Array]:
    """-sum_i W(x, x_i) (x_j - x_ij) coef_i for each column j of X; (n, k) each."""
    whole = W @ coef
    for j in range(X.shape[1]):
        x = X[:, j][:, None]
        yield W @ (x * coef) - x * whole


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
