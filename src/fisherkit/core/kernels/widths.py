"""Rules of thumb for the width of a kernel, and the length that a width means."""

from __future__ import annotations

import math

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.kernels.distinct import Distinct, race_seed
from fisherkit.core.kernels.families import Kernel

_MEDIAN_ROWS = 2048  # up to which the median heuristic looks at all pairs


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

    rbf: 1/(2 u^2) with u^2 the sum of the feature variances; exponential: the root of it;
    laplacian: 1/u1 with u1 the sum of their standard deviations; additive: their number times
    that; polynomial, sigmoid: 1/mean |x|^2; chi2: 1/(sum of feature means).
    """
    if kernel.view is not None:
        mean, variance = kernel.view.moments(mean, variance)
    spread = kernel.family.spread(mean, variance)
    # Half of the digits: shuffled, repeated and weighted data share them.
    mantissa, exponent = math.frexp(_reciprocal(spread))
    return math.ldexp(round(mantissa * 2**26), exponent - 26)


def length(kernel: Kernel, gamma: float | None) -> float:
    """The width of a kernel: 1/sqrt(2 gamma) for rbf, 1/gamma otherwise; nan without a gamma."""
    return math.nan if gamma is None else kernel.family.length(gamma)


def width_step(kernel: Kernel) -> float:
    """Factor in gamma for half an octave of the length that the kernel measures."""
    return kernel.family.step


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
    if len(X) > _MEDIAN_ROWS:
        rows = Distinct.rows(X).draw(weight, _MEDIAN_ROWS, race_seed(seed))
        X, weight = X[rows], np.ones(len(rows))
    distances = kernel.family.spacing(kernel.seen(X))
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
