"""The evidence of a Fisher discriminant with a Gaussian process prior, and its gradient.

Peña Centeno and Lawrence (2006) put a Gaussian process prior K on the discriminant f, observe that
f does not vary within classes but for noise of precision beta, and fix the class centres on a
regular simplex of side d = 2. All of it is Gaussian. Let the kernel have a nugget theta I, measure
the rest of it in units of the total noise 1/beta + theta, and write, for c classes and k = c - 1,

    M = I + P K P        P removes the mean, N rows counted with their copies
    Z = P Y E            class membership in k orthonormal contrasts E
    A = M^-1 Z,  W = Z'A

Then the log evidence, with beta and the nugget maximised away, depends on M and W alone:

    J = -k/2 log |M| + phi(W) + const,     dJ/dK = -k/2 (M^-1 - 11'/N) - A phi'(W) A'.

`fisher` is phi of the discriminant, `least_squares` that of a regression on the labels (Bayesian
LS-SVM). For two classes that overlap they differ by a constant; they part where classes are nearly
separable, where the prior on beta keeps the discriminant from a noise-free fit.

Cost of J and its gradient: O(N^3 + N^2 d), or O(N m^2) for m inducing points.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.optimize import brentq

from fisherkit.core import (
    Array,
    Covariance,
    CovarianceBlock,
    NotPositiveError,
    Piece,
    Weights,
    arrays,
)
from fisherkit.stored import stored

SIDE = 2.0  # distance between class centres
SHAPE, RATE = 0.5, 0.5  # of the gamma prior on beta: a uniform one on the equal error rate
JITTER = 1e-8  # on the diagonal of the inducing kernel, relative to its amplitude
_LOG_RATIOS = np.linspace(0.0, 20.0, 41)  # where the maximum over the nugget is looked for
_SMALLEST_GAP = 1e-100  # of s - u, which vanishes where the kernel does
_NOT_POSITIVE = (
    "The kernel matrix plus noise is not positive definite: the kernel is not positive "
    "semi-definite, its values overflow, or rounding hides the noise beside them, as with very "
    "large sample weights or as many classes as rows. Scale the features, for example with "
    "sklearn.preprocessing.StandardScaler, and weights to a mean of one."
)
_LOG_2PI = math.log(2 * math.pi)


@stored("contrasts")
@dataclass(frozen=True)
class Contrasts:
    """Class membership as the evidence sees it.

    ``Z`` (n, k) are centred contrasts times ``root`` (n,), the root of the number of copies;
    ``counts`` (c,) are rows per class, ``E`` (c, k) the orthonormal contrasts, and ``uniform``
    says that every row counts once.
    """

    Z: Array
    root: Array
    counts: np.ndarray
    E: np.ndarray
    uniform: bool

    @classmethod
    def of(cls, indicator: Array, weights: Weights) -> Contrasts:
        xp = arrays.namespace(indicator)
        counts = xp.sum(weights.v[:, None] * indicator, axis=0)
        # Towards the last class: two classes have the signs of +-1.
        E = -scipy.linalg.helmert(indicator.shape[1]).T
        membership = indicator @ arrays.like(E, indicator)
        Z = weights.root[:, None] * (membership - weights.mean(membership))
        return cls(
            Z=Z,
            root=weights.root,
            counts=arrays.to_numpy(counts).astype(np.float64),
            E=E,
            uniform=weights.uniform,
        )

    @property
    def total(self) -> float:
        """N, the number of rows with their copies."""
        return float(np.sum(self.counts))

    @functools.cached_property
    def scatter(self) -> np.ndarray:
        """Z'Z, (k, k)."""
        return contrast_scatter(self.counts, self.E)


def contrast_scatter(counts: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Z'Z from the class counts (..., c); (..., k, k)."""
    means = counts @ E / np.sum(counts, axis=-1, keepdims=True)
    spread = E.T @ (counts[..., :, None] * E)
    return spread - np.sum(counts, axis=-1)[..., None, None] * (
        means[..., :, None] * means[..., None, :]
    )


@dataclass(frozen=True)
class Profile:
    """phi(W), its derivative (k, k), and the noise that maximises it.

    ``ratio`` is the total noise over 1/beta: one without nugget.
    """

    value: float
    slope: np.ndarray
    beta: float
    ratio: float


def fisher(W: np.ndarray, contrasts: Contrasts) -> Profile:
    """The evidence of the discriminant, class centres fixed, beta and nugget maximised away.

    With W^-1 = V V', (Z'Z)^-1 = V diag(u) V' and C(s) = s W^-1 - (Z'Z)^-1 = V diag(s - u) V',
    s the ``ratio``, nu = k (N - 1) + 2 (a - 1) and beta = nu / (d^2/2 tr C^-1 + 2 b):

        phi = nu/2 (log beta - 1) - k/2 [ (N - 1 - k) log s + log |s I - diag(u)| ] + const.
    """
    N, k = contrasts.total, W.shape[0]
    nu = k * (N - 1) + 2 * (SHAPE - 1)
    try:
        lam, V = scipy.linalg.eigh(contrasts.scatter, W)
    except np.linalg.LinAlgError as error:
        raise NotPositiveError(_NOT_POSITIVE) from error
    u = np.minimum(1 / lam, 1.0)
    size = 0.5 * SIDE**2 * np.sum((W @ V) ** 2, axis=0)

    def gaps(log_s: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        s = np.exp(np.asarray(log_s))[..., None]
        return s, np.maximum(s - u, _SMALLEST_GAP)

    def height(log_s: float | np.ndarray) -> np.ndarray:
        _, gap = gaps(log_s)
        separation = np.sum(size / gap, axis=-1) + 2 * RATE
        volume = (N - 1 - k) * np.asarray(log_s) + np.sum(np.log(gap), axis=-1)
        return -0.5 * nu * np.log(separation) - 0.5 * k * volume

    def rise(log_s: float) -> float:
        s, gap = gaps(log_s)
        separation = np.sum(size / gap) + 2 * RATE
        volume = N - 1 - k + np.sum(s / gap)
        return float(0.5 * nu * np.sum(size * s / gap**2) / separation - 0.5 * k * volume)

    best = int(np.argmax(height(_LOG_RATIOS)))
    log_s = float(_LOG_RATIOS[best])
    left, right = _LOG_RATIOS[max(best - 1, 0)], _LOG_RATIOS[min(best + 1, len(_LOG_RATIOS) - 1)]
    if rise(left) > 0 > rise(right):
        log_s = float(brentq(rise, left, right, xtol=1e-13))
    s, gap = math.exp(log_s), np.maximum(math.exp(log_s) - u, _SMALLEST_GAP)
    beta = nu / (float(np.sum(size / gap)) + 2 * RATE)
    value = float(height(log_s)) + 0.5 * nu * (math.log(nu) - 1) + _constant(contrasts)
    inner = V / gap @ V.T  # W^-1 C^-1 W^-1
    slope = -0.25 * beta * s * SIDE**2 * (inner @ W @ W @ inner)
    slope -= 0.5 * k * (V @ V.T - s * inner)
    return Profile(value=value, slope=slope, beta=beta, ratio=s)


def _constant(contrasts: Contrasts) -> float:
    N, c = contrasts.total, len(contrasts.counts)
    volume = float(np.sum(np.log(contrasts.counts))) - math.log(N)
    return 0.5 * (c - 1) * (volume - (N - 1) * _LOG_2PI)


def least_squares(W: np.ndarray, contrasts: Contrasts) -> Profile:
    """The restricted evidence of a regression on the contrasts, its noise maximised away.

    phi = -k (N - 1)/2 log tr W + const. The noise reported is that of `fisher`: the direction of
    the discriminant is the same, and only its scale depends on it.
    """
    k = W.shape[0]
    freedom = k * (contrasts.total - 1)
    trace = float(np.trace(W))
    value = -0.5 * freedom * (math.log(trace / freedom) + 1 + _LOG_2PI)
    noise = fisher(W, contrasts)
    return replace(noise, value=value, slope=-0.5 * freedom / trace * np.eye(k))


EVIDENCE: dict[str, Callable[[np.ndarray, Contrasts], Profile]] = {
    "fisher": fisher,
    "lssvm": least_squares,
}


@dataclass(frozen=True)
class Dense:
    """The evidence with every row of X (n, d) in the kernel."""

    covariance: Covariance
    X: Array
    contrasts: Contrasts
    kind: str = "fisher"

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """J and dJ/dtheta."""
        block = self.covariance.symmetric(theta, self.X)
        factor, A, profile, value = self._solve(block.values)
        return value, block.pull(self._slopes(factor, A, profile))

    def value(self, theta: np.ndarray) -> float:
        """J alone, for a third of the time."""
        return self._solve(self.covariance.block(theta, self.X, self.X).values)[3]

    def _solve(self, K: Array) -> tuple[Array, Array, Profile, float]:
        """Factor of M, A, phi and J."""
        factor, A, W = solve_dense(K, self.contrasts)
        profile = EVIDENCE[self.kind](W, self.contrasts)
        value = profile.value - 0.5 * W.shape[0] * arrays.cholesky_log_det(factor)
        return factor, A, profile, value

    def _slopes(self, factor: Array, A: Array, profile: Profile) -> Iterator[Piece]:
        """dJ/dK in blocks on and above the diagonal; what is above it counts twice."""
        s, k = self.contrasts.root, A.shape[1]
        xp = arrays.namespace(s)
        left = xp.concat(
            [A @ arrays.like(-profile.slope, A), (0.5 * k / self.contrasts.total) * s[:, None]],
            axis=1,
        )
        right = xp.concat([A, s[:, None]], axis=1)
        for rows, columns, inverse in arrays.cholesky_inverse(factor):
            inverse *= -0.5 * k
            inverse += left[rows, :] @ right[columns, :].T
            if not self.contrasts.uniform:
                inverse *= s[rows, None]
                inverse *= s[None, columns]
            inverse[:, rows.stop - rows.start :] *= 2
            yield rows, columns, inverse


def solve_dense(K: Array, contrasts: Contrasts) -> tuple[Array, Array, np.ndarray]:
    """Factor of M, A = M^-1 Z (n, k) and W = Z'A (k, k)."""
    factor = resolvent(K, contrasts.root)
    A = arrays.cholesky_solve(factor, contrasts.Z)
    return factor, A, arrays.to_numpy(contrasts.Z.T @ A)


def resolvent(K: Array, root: Array) -> Array:
    """Cholesky factor of M = I + P s K s P, where P removes the direction of s; n^3/3 flops."""
    w = root * root
    N = float(root @ root)
    mean = (K @ w) / N
    level = float(w @ mean) / N
    M = K - (mean - level)[:, None]
    M -= mean[None, :]
    M *= root[:, None]
    M *= root[None, :]
    arrays.add_to_diagonal(M, 1.0)
    factor = arrays.cholesky(M)
    if factor is None:
        raise NotPositiveError(_NOT_POSITIVE)
    return factor


@dataclass(frozen=True)
class Thin:
    """The evidence of the kernel K_nm K_mm^-1 K_mn of m inducing points U (m, d).

    Unit vectors as inducing points of a linear kernel make it exact: the weight-space form.
    """

    covariance: Covariance
    X: Array
    U: Array
    contrasts: Contrasts
    kind: str = "fisher"
    jitter: float = JITTER

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """J and dJ/dtheta, O(n m^2)."""
        across, corner, thin, profile, value = self._solve(theta)
        k, inverse, B = len(thin.W), thin.inverse, thin.B
        # dJ/dK Phi = Phi Q + A R
        Q = -0.5 * k * arrays.cholesky_solve(thin.factor, arrays.like(np.eye(inverse.shape[0]), B))
        R = arrays.like(-profile.slope, B) @ B.T
        gradient = across.pull(self._slopes(thin, 2 * (Q @ inverse), 2 * (R @ inverse)))
        inner = inverse.T @ (thin.moments @ Q + B @ R) @ inverse
        everything = slice(0, inner.shape[0])
        gradient += corner.pull([(everything, everything, -0.5 * (inner + inner.T))])
        return value, gradient

    def value(self, theta: np.ndarray) -> float:
        """J alone."""
        return self._solve(theta).value

    def _solve(self, theta: np.ndarray) -> ThinSolution:
        """Kernel blocks, moments, phi and J."""
        across = self.covariance.block(theta, self.X, self.U)
        corner = self.covariance.block(theta, self.U, self.U, jitter=self.jitter)
        thin = ThinMoments.of(across.values, corner.values, self.contrasts)
        profile = EVIDENCE[self.kind](thin.W, self.contrasts)
        value = profile.value - 0.5 * len(thin.W) * arrays.cholesky_log_det(thin.factor)
        return ThinSolution(across=across, corner=corner, thin=thin, profile=profile, value=value)

    def _slopes(self, thin: ThinMoments, Q: Array, R: Array) -> Iterator[Piece]:
        """dJ/dK_nm in blocks of rows."""
        columns = slice(0, thin.Phi.shape[1])
        for rows in arrays.row_blocks(*thin.Phi.shape):
            piece = thin.Phi[rows, :] @ Q + thin.A[rows, :] @ R
            piece *= self.contrasts.root[rows, None]
            yield rows, columns, piece


class ThinSolution(NamedTuple):
    """The evidence at one theta, and what its gradient needs: K_nm, K_mm, moments and phi."""

    across: CovarianceBlock
    corner: CovarianceBlock
    thin: ThinMoments
    profile: Profile
    value: float


@dataclass(frozen=True)
class ThinMoments:
    """What m inducing points make of the data: K = Phi Phi' with Phi = K_nm L^-T, K_mm = L L'.

    ``inverse`` is L^-1, ``Phi`` (n, m) is centred and its ``mean`` (m,) apart, ``moments`` are
    Phi'Phi and ``factor`` is that of I + Phi'Phi; B = (I + Phi'Phi)^-1 Phi'Z, A = M^-1 Z, which is
    Z - Phi B, and W = Z'A.
    """

    inverse: Array
    Phi: Array
    mean: Array
    moments: Array
    factor: Array
    B: Array
    A: Array
    W: np.ndarray

    @classmethod
    def of(cls, K_nm: Array, K_mm: Array, contrasts: Contrasts) -> ThinMoments:
        """O(n m^2)."""
        root, Z = contrasts.root, contrasts.Z
        inverse = inducing_inverse(K_mm)
        Phi = root[:, None] * (K_nm @ inverse.T)
        mean = (root @ Phi) / contrasts.total
        Phi -= root[:, None] * mean[None, :]
        moments = Phi.T @ Phi
        shifted = moments + 0.0
        arrays.add_to_diagonal(shifted, 1.0)
        factor = arrays.cholesky(shifted)
        if factor is None:
            raise NotPositiveError(_NOT_POSITIVE)
        B = arrays.cholesky_solve(factor, Phi.T @ Z)
        A = Z - Phi @ B
        W = arrays.to_numpy(A.T @ A + B.T @ B)  # a sum of squares, not Z'Z less something
        return cls(
            inverse=inverse, Phi=Phi, mean=mean, moments=moments, factor=factor, B=B, A=A, W=W
        )


def inducing_inverse(K: Array) -> Array:
    """L^-1 for K = L L' (m, m)."""
    factor = arrays.lower_factor(K)
    if factor is None:
        raise NotPositiveError(_NOT_POSITIVE)
    return arrays.lower_triangular_inverse(factor)
