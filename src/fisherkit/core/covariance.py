"""Kernels whose parameters are learned: values, and what a gradient in K means for each of them.

    k(x, x') = rho exp(-1/2 sum_k w_k (x_k - x'_k)^2) + rho_l sum_k w_k x_k x'_k

with one weight w for all features or one for each (automatic relevance determination), and either
part optional: equation (33) of Peña Centeno and Lawrence (2006) without its redundant parameters.
Parameters are logarithms, theta = (log rho, log rho_l, log w); a linear kernel alone has only
log w. `KernelObject` is the same for a kernel of ``sklearn.gaussian_process``.

`Block.pull` contracts A = dJ/dK with dK/dtheta by sums of matrix products: with H = A * K_rbf,

    dJ/dlog w_k = -w_k/2 [ (H 1)'x_k^2 + (H'1)'z_k^2 - 2 x_k'H z_k ] + rho_l w_k x_k'A z_k,

O(n m d) and never an n x m x d array.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import Kernel as KernelOfSklearn

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.kernels import Kernel
from fisherkit.stored import stored

LOG_BOUND = 14.0
_OBJECT_BOUND = 50.0  # of log rho of a kernel object, which may have any scale

Piece = tuple[slice, slice, Array]  # rows, columns, and the part of A there


@stored("learned kernel")
@dataclass(frozen=True)
class Parametric:
    """The kernel of the module docstring; ``n_weights`` is 1, or d with a width per feature."""

    n_weights: int
    rbf: bool = True
    linear: bool = False

    def __post_init__(self) -> None:
        assert self.rbf or self.linear

    @property
    def n_scales(self) -> int:
        """Number of amplitudes; a linear part alone has its amplitude in w."""
        return int(self.rbf) + int(self.rbf and self.linear)

    @property
    def bounds(self) -> np.ndarray:
        """Lower and upper bounds of theta, (p, 2)."""
        return np.tile([-LOG_BOUND, LOG_BOUND], (self.n_scales + self.n_weights, 1))

    def weights(self, theta: np.ndarray, n_features: int) -> np.ndarray:
        """w of each feature, (d,)."""
        return np.exp(theta[self.n_scales :]) * np.ones(n_features)

    def slope(self, theta: np.ndarray) -> float:
        """rho_l, the amplitude of the linear part."""
        if not self.linear:
            return 0.0
        return float(np.exp(theta[1])) if self.rbf else 1.0

    def block(
        self, theta: np.ndarray, X: Array, Z: Array, *, jitter: float = 0.0
    ) -> ParametricBlock:
        """Kernel values between the rows of X (n, d) and Z (m, d).

        ``jitter``, relative to the amplitude, goes on the diagonal.
        """
        w = self.weights(theta, X.shape[1])
        local, linear = None, None
        if self.rbf:
            gamma = arrays.like(0.5 * w, X)
            local = Kernel("rbf", gamma=gamma).block(X, Z)
            local *= float(np.exp(theta[0]))
            if jitter:
                arrays.add_to_diagonal(local, jitter * float(np.exp(theta[0])))
        if self.linear:
            linear = (X * arrays.like(self.slope(theta) * w, X)) @ Z.T
        return ParametricBlock(self, theta, X=X, Z=Z, local=local, linear=linear)

    def symmetric(self, theta: np.ndarray, X: Array) -> ParametricBlock:
        """Kernel values between all rows of X."""
        return self.block(theta, X, X)

    def diagonal(self, theta: np.ndarray, X: Array) -> Array:
        """k(x, x) for the rows of X, (n,)."""
        xp = arrays.namespace(X)
        w = arrays.like(self.slope(theta) * self.weights(theta, X.shape[1]), X)
        linear = xp.sum(X * X * w, axis=1)
        return linear + (float(np.exp(theta[0])) if self.rbf else 0.0)


@dataclass(frozen=True)
class ParametricBlock:
    """Values of a `Parametric` kernel, its two parts apart."""

    covariance: Parametric
    theta: np.ndarray
    X: Array
    Z: Array
    local: Array | None
    linear: Array | None

    @property
    def values(self) -> Array:
        if self.local is None:
            return self.linear
        return self.local if self.linear is None else self.local + self.linear

    def pull(self, pieces: Iterable[Piece]) -> np.ndarray:
        """<A, dK/dtheta> for A given in pieces, (p,) on the host."""
        xp = arrays.namespace(self.X)
        zero = xp.zeros_like(self.X[0, :])
        total, spread, product = xp.sum(zero), zero, zero
        X2, Z2 = self.X**2, self.Z**2
        for rows, columns, A in pieces:
            if self.local is not None:
                H = A * self.local[rows, columns]
                by_row, by_column = xp.sum(H, axis=1), xp.sum(H, axis=0)
                total = total + xp.sum(by_row)
                across = xp.sum(self.X[rows, :] * (H @ self.Z[columns, :]), axis=0)
                spread = spread + by_row @ X2[rows, :] + by_column @ Z2[columns, :] - 2 * across
            if self.linear is not None:
                product = product + xp.sum(self.X[rows, :] * (A @ self.Z[columns, :]), axis=0)
        w = self.covariance.weights(self.theta, self.X.shape[1])
        slope = self.covariance.slope(self.theta)
        linear = slope * w * arrays.to_numpy(product)
        by_feature = linear - 0.5 * w * arrays.to_numpy(spread)
        scales = [float(total), float(np.sum(linear))][: self.covariance.n_scales]
        shared = self.covariance.n_weights == 1
        return np.append(scales, np.sum(by_feature) if shared else by_feature)


@dataclass(frozen=True)
class KernelObject:
    """rho times a kernel of ``sklearn.gaussian_process``; theta = (log rho, kernel.theta).

    The methods are those of `Parametric`; only a symmetric block can pull.
    """

    kernel: KernelOfSklearn

    @property
    def bounds(self) -> np.ndarray:
        bounds = np.reshape(self.kernel.bounds, (-1, 2))
        return np.vstack([[-_OBJECT_BOUND, _OBJECT_BOUND], bounds])

    def block(self, theta: np.ndarray, X: Array, Z: Array, *, jitter: float = 0.0) -> ObjectBlock:
        return ObjectBlock(np.exp(theta[0]) * self._at(theta)(X, Z), None)

    def symmetric(self, theta: np.ndarray, X: Array) -> ObjectBlock:
        values, gradient = self._at(theta)(X, eval_gradient=True)
        rho = np.exp(theta[0])
        return ObjectBlock(rho * values, rho * gradient)

    def diagonal(self, theta: np.ndarray, X: Array) -> Array:
        return np.exp(theta[0]) * self._at(theta).diag(X)

    def _at(self, theta: np.ndarray) -> KernelOfSklearn:
        return self.kernel.clone_with_theta(theta[1:])


@dataclass(frozen=True)
class ObjectBlock:
    """Values (n, m) of a kernel object and their derivatives (n, m, p)."""

    values: Array
    gradient: Array | None

    def pull(self, pieces: Iterable[Piece]) -> np.ndarray:
        assert self.gradient is not None
        total = np.zeros(1 + self.gradient.shape[2])
        for rows, columns, A in pieces:
            total[0] += np.sum(A * self.values[rows, columns])
            total[1:] += np.einsum("ij,ijp->p", A, self.gradient[rows, columns])
        return total


Covariance = Parametric | KernelObject
CovarianceBlock = ParametricBlock | ObjectBlock


@stored("fitted kernel")
@dataclass(frozen=True)
class FittedKernel:
    """A covariance with its parameters on some of the columns, shifted and scaled."""

    covariance: Covariance
    theta: np.ndarray
    columns: Array
    shift: Array
    scale: Array

    def features(self, X: Array) -> Array:
        """What the kernel sees of rows X (n, d)."""
        return (arrays.namespace(X).take(X, self.columns, axis=1) - self.shift) / self.scale

    def block(self, X: Array, Z: Array) -> Array:
        """Kernel values between rows X (n, d) and features Z (m, columns)."""
        return self.covariance.block(self.theta, self.features(X), Z).values

    def diagonal(self, X: Array) -> Array:
        return self.covariance.diagonal(self.theta, self.features(X))
