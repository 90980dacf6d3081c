"""Synthetic problems of the papers; `fisherkit.datasets` has the references."""

import numpy as np
from sklearn.utils import check_random_state

from fisherkit.interfaces import Seed

Draw = tuple[np.ndarray, np.ndarray]

# mean of Breiman's twonorm and ringnorm, one entry per feature
_BREIMAN_SHIFT = 2 / np.sqrt(20)


def make_torus(n_samples: int = 400, *, random_state: Seed = None) -> Draw:
    """Draw a round blob inside an annulus, the synthetic problem of Saadi et al. (2007), section 4.

    A quarter of the rows, ``n_samples // 4``, are bivariate standard normal; the others have
    a radius drawn from N(4, 1) and a uniform angle. Rows come in random order.

    Parameters
    ----------
    n_samples : int, default=400
        Number of rows; both classes are present from four rows on.
    random_state : int, RandomState instance or None, default=None
        Seed or source of the draw.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)
        1 for the blob, 0 for the annulus.

    Examples
    --------
    >>> from fisherkit.datasets import make_torus
    >>> X, y = make_torus(8, random_state=0)
    >>> X.shape, int(y.sum())
    ((8, 2), 2)
    """
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_samples) < n_samples // 4).astype(np.int64)
    blob = rng.normal(size=(n_samples, 2))
    radius = rng.normal(4.0, 1.0, size=n_samples)
    angle = rng.uniform(0.0, 2 * np.pi, size=n_samples)
    annulus = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.where(y[:, None] == 1, blob, annulus), y


def make_ringnorm(n_samples: int = 400, *, random_state: Seed = None) -> Draw:
    """Draw a wide Gaussian around a narrow one in 20 dimensions, the ringnorm of Breiman (1996).

    The classes are equally likely: label 1 is N(0, 4 I), label 0 is N((a, ..., a), I) with
    a = 2 / sqrt(20). The IDA set of this name is such a sample, standardised.

    Parameters
    ----------
    n_samples : int, default=400
        Number of rows.
    random_state : int, RandomState instance or None, default=None
        Seed or source of the draw.

    Returns
    -------
    X : ndarray of shape (n_samples, 20)
    y : ndarray of shape (n_samples,)
        1 for the wide class, 0 for the narrow one.

    Examples
    --------
    >>> from fisherkit.datasets import make_ringnorm
    >>> X, y = make_ringnorm(1000, random_state=0)
    >>> bool(X[y == 1].std() > 1.9 > 1.1 > X[y == 0].std())
    True
    """
    rng = check_random_state(random_state)
    y = rng.randint(2, size=n_samples)
    noise = rng.normal(size=(n_samples, 20))
    return np.where(y[:, None] == 1, 2 * noise, noise + _BREIMAN_SHIFT), y


def make_twonorm(n_samples: int = 400, *, random_state: Seed = None) -> Draw:
    """Draw two spherical Gaussians in 20 dimensions, the twonorm of Breiman (1996).

    The classes are equally likely: label 1 is N((a, ..., a), I), label 0 is N((-a, ..., -a), I)
    with a = 2 / sqrt(20). The best rule is linear and errs with probability Phi(-2) = 2.3 %.

    Parameters
    ----------
    n_samples : int, default=400
        Number of rows.
    random_state : int, RandomState instance or None, default=None
        Seed or source of the draw.

    Returns
    -------
    X : ndarray of shape (n_samples, 20)
    y : ndarray of shape (n_samples,)
        1 for the class of positive mean, 0 for the other.

    Examples
    --------
    >>> from fisherkit.datasets import make_twonorm
    >>> X, y = make_twonorm(1000, random_state=0)
    >>> bool(((X.sum(axis=1) > 0) == (y == 1)).mean() > 0.95)
    True
    """
    rng = check_random_state(random_state)
    y = rng.randint(2, size=n_samples)
    noise = rng.normal(size=(n_samples, 20))
    return noise + _BREIMAN_SHIFT * (2 * y[:, None] - 1), y


def make_waveform(n_samples: int = 400, *, random_state: Seed = None) -> Draw:
    """Draw noisy mixtures of two of three triangular waves, as Breiman et al. (1984, 2.6.2).

    With t = 1, ..., 21 and triangles of height 6 and half-width 6 that peak at t = 7, 15 and 11,

        x = u h_a + (1 - u) h_b + noise,    u uniform on (0, 1), noise N(0, I),

    where (a, b) is (7, 15) for label 0, (7, 11) for label 1 and (15, 11) for label 2; the three
    are equally likely. The two-class IDA set of this name has label 1 against the rest,
    ``y == 1``, standardised.

    Parameters
    ----------
    n_samples : int, default=400
        Number of rows.
    random_state : int, RandomState instance or None, default=None
        Seed or source of the draw.

    Returns
    -------
    X : ndarray of shape (n_samples, 21)
    y : ndarray of shape (n_samples,)
        0, 1 or 2.

    Examples
    --------
    >>> from fisherkit.datasets import make_waveform
    >>> X, y = make_waveform(300, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((300, 21), [0, 1, 2])
    """
    rng = check_random_state(random_state)
    peaks = np.array([[7, 15], [7, 11], [15, 11]])
    t = np.arange(1, 22)
    waves = np.maximum(6.0 - np.abs(t - peaks[:, :, None]), 0.0)  # (label, first or second, t)
    y = rng.randint(3, size=n_samples)
    u = rng.uniform(size=(n_samples, 1))
    noise = rng.normal(size=(n_samples, t.size))
    return u * waves[y, 0] + (1 - u) * waves[y, 1] + noise, y


def make_spiral(n_samples: int = 194, *, noise: float = 0.0, random_state: Seed = None) -> Draw:
    """Lay out two intertwined spirals of three turns, as Peña Centeno and Lawrence (2006).

    Points t = 0, ..., 96 (or as many in between as asked for) of label 1 have the angle
    pi t / 16 and the radius 6.5 (104 - t)/104; label 0 is the mirror image through the origin.

    Parameters
    ----------
    n_samples : int, default=194
        Number of rows.
    noise : float, default=0.0
        Standard deviation of the noise added to each coordinate.
    random_state : int, RandomState instance or None, default=None
        Seed or source of the draw.

    Returns
    -------
    X, y : ndarray of shape (n_samples, 2) and (n_samples,)
        The labels are 0 and 1, in random order.

    Examples
    --------
    >>> from fisherkit.datasets import make_spiral
    >>> X, y = make_spiral(random_state=0)
    >>> X.shape, int(y.sum())
    ((194, 2), 97)
    """
    rng = check_random_state(random_state)
    y = _half(n_samples, rng)
    t = np.empty(n_samples)
    for label in (0, 1):
        t[y == label] = np.linspace(0, 96, np.count_nonzero(y == label))
    radius = 6.5 * (104 - t) / 104 * (2 * y - 1)
    X = radius[:, None] * np.column_stack([np.sin(np.pi * t / 16), np.cos(np.pi * t / 16)])
    return X + noise * rng.normal(size=X.shape), y


def make_overlap(n_samples: int = 100, *, random_state: Seed = None) -> Draw:
    """Draw two Gaussians that overlap: the same covariance, means 2 apart on the second axis.

    A problem of Peña Centeno and Lawrence (2006). Both classes have the covariance
    diag(1.5, 0.5); the mean of label 1 is (0, 1), the mean of label 0 is (0, -1).

    Parameters
    ----------
    n_samples : int, default=100
        Number of rows, half of them of each label.
    random_state : int, RandomState instance or None, default=None
        Seed or source of the draw.

    Returns
    -------
    X, y : ndarray of shape (n_samples, 2) and (n_samples,)
        The labels are 0 and 1, in random order.

    Examples
    --------
    >>> from fisherkit.datasets import make_overlap
    >>> X, y = make_overlap(1000, random_state=0)
    >>> bool(0.85 < ((X[:, 1] > 0) == (y == 1)).mean() < 0.95)
    True
    """
    rng = check_random_state(random_state)
    y = _half(n_samples, rng)
    X = rng.normal(size=(n_samples, 2)) * np.sqrt([1.5, 0.5])
    X[:, 1] += 2 * y - 1
    return X, y


def make_bumpy(n_samples: int = 100, *, random_state: Seed = None) -> Draw:
    """Draw two centred Gaussians that cross: no line separates them.

    A problem of Peña Centeno and Lawrence (2006). Label 1 has the standard deviations (2, 0.4),
    label 0 has (0.4, 2).

    Parameters
    ----------
    n_samples : int, default=100
        Number of rows, half of them of each label.
    random_state : int, RandomState instance or None, default=None
        Seed or source of the draw.

    Returns
    -------
    X, y : ndarray of shape (n_samples, 2) and (n_samples,)
        The labels are 0 and 1, in random order.

    Examples
    --------
    >>> from fisherkit.datasets import make_bumpy
    >>> X, y = make_bumpy(1000, random_state=0)
    >>> bool(((abs(X[:, 0]) > abs(X[:, 1])) == (y == 1)).mean() > 0.8)
    True
    """
    rng = check_random_state(random_state)
    y = _half(n_samples, rng)
    deviations = np.where(y[:, None] == 1, [2.0, 0.4], [0.4, 2.0])
    return deviations * rng.normal(size=(n_samples, 2)), y


def make_relevance(
    n_samples: int = 100, *, n_irrelevant: int = 1, random_state: Seed = None
) -> Draw:
    """Draw one feature that tells the labels apart, and others that do not.

    A problem of Peña Centeno and Lawrence (2006). The first feature is N(1.5, 0.25) for label 1
    and N(-1.5, 0.25) for label 0; every other feature is N(0, 9) whatever the label.

    Parameters
    ----------
    n_samples : int, default=100
        Number of rows, half of them of each label.
    n_irrelevant : int, default=1
        Number of features that do not depend on the label.
    random_state : int, RandomState instance or None, default=None
        Seed or source of the draw.

    Returns
    -------
    X, y : ndarray of shape (n_samples, 1 + n_irrelevant) and (n_samples,)
        The labels are 0 and 1, in random order.

    Examples
    --------
    >>> from fisherkit.datasets import make_relevance
    >>> X, y = make_relevance(n_irrelevant=20, random_state=0)
    >>> bool(((X[:, 0] > 0) == (y == 1)).mean() > 0.95)
    True
    """
    rng = check_random_state(random_state)
    y = _half(n_samples, rng)
    X = 3.0 * rng.normal(size=(n_samples, 1 + n_irrelevant))
    X[:, 0] = 1.5 * (2 * y - 1) + X[:, 0] / 6
    return X, y


def _half(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    """Labels 0 and 1, half of each, in random order."""
    return rng.permutation(np.arange(n_samples) % 2)
