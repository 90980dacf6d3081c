"""What kernels see of a row, two kernels of ours, and slopes of expansions, against definitions."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fisherkit.core.kernels import Gram, Kernel, View, width_of_moments

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(12, 5)), RNG.normal(size=(7, 5))
SMOOTH = ["rbf", "laplacian", "exponential"]


def test_the_exponential_kernel_is_that_of_its_definition():
    found = Kernel("exponential", gamma=0.7).block(X, Z)
    np.testing.assert_allclose(found, np.exp(-0.7 * cdist(X, Z)), rtol=1e-12)


@pytest.mark.parametrize("share", [0.1, 1.0, 3.0])
def test_the_additive_kernel_is_a_product_over_columns(share):
    near = np.exp(-0.7 * np.abs(X[:, None, :] - Z[None, :, :]))
    truth = np.prod((1 + share * near) / (1 + share), axis=2)
    found = Kernel("additive", gamma=0.7, coef0=share).block(X, Z)
    np.testing.assert_allclose(found, truth, rtol=1e-12)
    assert np.linalg.eigvalsh(Kernel("additive", gamma=0.7, coef0=share).block(X, X)).min() > -1e-12


@pytest.mark.parametrize("name", [*SMOOTH, "additive", "linear", "poly"])
def test_a_view_is_some_columns_in_other_units(name):
    view = View(np.array([4, 0, 2]), np.array([2.0, 0.5, 1.0]))
    bare = Kernel(name, gamma=0.3)
    seen = Kernel(name, gamma=0.3, view=view)
    np.testing.assert_allclose(seen.block(X, Z), bare.block(view(X), view(Z)), rtol=1e-13)
    np.testing.assert_allclose(seen.diagonal(X), bare.diagonal(view(X)), rtol=1e-13)
    gram = Gram(X, seen)
    np.testing.assert_allclose(gram.full(), bare.block(view(X), view(X)), rtol=1e-12)
    np.testing.assert_allclose(gram.columns(np.array([3, 1])), gram.full()[:, [3, 1]], rtol=1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_width_of_a_view_is_that_of_its_columns(name):
    view = View(np.array([1, 3]), np.array([2.0, 0.1]))
    mean, variance = X.mean(axis=0), X.var(axis=0)
    own = width_of_moments(view(X).mean(axis=0), view(X).var(axis=0), Kernel(name))
    assert width_of_moments(mean, variance, Kernel(name, view=view)) == pytest.approx(own, rel=1e-7)


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_are_those_of_differences(name):
    coef = RNG.normal(size=(12, 3))
    kernel = Kernel(name, gamma=0.4)
    slopes = kernel.stationary.slopes(X, coef, 0.4)
    for j, found in enumerate(slopes):
        step = np.zeros(5)
        step[j] = 1e-6
        for i in range(12):  # about row i, which is a peak of its own kernel: leave that one out
            others = np.arange(12) != i
            above, below = (kernel.block(X[[i]] + s, X[others]) for s in (step, -step))
            truth = (above - below) @ coef[others] / 2e-6
            np.testing.assert_allclose(found[[i]], truth, atol=1e-7)


def test_slopes_along_columns_of_two_values():
    both = np.column_stack([X, RNG.integers(0, 2, 12)])
    coef = RNG.normal(size=(12, 2))
    found = list(Kernel("laplacian").stationary.slopes(both, coef, 0.3))[-1]
    K = np.exp(-0.3 * cdist(both, both, "cityblock"))
    sign = np.sign(both[:, None, -1] - both[None, :, -1])
    np.testing.assert_allclose(found, -0.3 * (K * sign) @ coef, rtol=1e-12)


def test_only_some_kernels_have_slopes():
    able = {name for name in ("rbf", "laplacian", "exponential", "chi2") if has_slopes(name)}
    assert able == set(SMOOTH)


def has_slopes(name):
    family = Kernel(name).stationary
    return family is not None and family.has_slopes
