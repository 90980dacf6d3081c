"""What a criterion's slopes mean for mu and for the kernel matrix, by differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import hadamard

from fisherkit.core import BIASES, Gram, Kernel, Prefixes, Pullback, Weights, solve
from fisherkit.tuning import Criterion, HeldOut

N = 32


def problem(n_classes, *, weighted, rule, balanced=False):
    rng = np.random.default_rng(n_classes)
    index = np.append(np.arange(n_classes), rng.integers(n_classes, size=N - n_classes))
    X = rng.normal(size=(N, 3)) + index[:, None] * [1.0, 0.3, 0.0]
    Y = np.eye(n_classes)[index]
    Y = 2 * Y[:, 1:] - 1 if n_classes == 2 else Y
    weights = Weights.unit(X)
    if weighted:
        weights = Weights(rng.choice([0.5, 1.0, 2.0], size=N), rng.choice([1.0, 1.5], size=N))
    held_out = HeldOut.leave_one_out(Y, weights, balanced=balanced)
    return X, Y, weights, Criterion(rule, held_out)


def priced(K, Y, weights, bias, mu, criterion):
    """The criterion, and its slopes pulled back."""
    fit, _ = solve(K + 0.0, Y, weights, bias=bias, penalty="rkhs", mu=mu)
    losses, slopes = criterion.slopes(fit.leave_one_out())
    share = weights.v / weights.mass
    return float(share @ losses), Pullback.of(fit, mu, share[:, None] * slopes)


@pytest.mark.parametrize("rule", ["press", "log_loss", "smoothed_error"])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "poly", "chi2"])
def test_the_gradient_is_that_of_differences(name, n_classes, weighted, bias, rule):
    X, Y, weights, criterion = problem(n_classes, weighted=weighted, rule=rule)
    kernels = Prefixes(Gram(np.abs(X), Kernel(name, gamma=0.3, degree=2)))

    def value(x):
        K, D = kernels.at(N, float(np.exp(x[0])), exact=True, sloped=True)
        mu = float(np.exp(x[1]))
        return *priced(K, Y, weights, BIASES[bias], mu, criterion), D

    x, h = np.log([1.2, 0.05]), 1e-5
    _, pull, D = value(x)
    slope = [pull.along(D), pull.by_log_mu()]
    around = [value(x + h * e)[0] - value(x - h * e)[0] for e in np.eye(2)]
    assert_allclose(slope, np.divide(around, 2 * h), rtol=2e-5, atol=2e-8)


@pytest.mark.parametrize("rule", ["press", "smoothed_error"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_trace_by_signs_is_exact_if_they_are_orthogonal_and_as_many_as_rows(weighted, rule):
    X, Y, weights, criterion = problem(3, weighted=weighted, rule=rule)
    K, D = Prefixes(Gram(X, Kernel("rbf", gamma=0.3))).at(N, 1.0, exact=True, sloped=True)
    _, pull = priced(K, Y, weights, BIASES["free"], 0.05, criterion)
    assert pull.along(D, hadamard(N).astype(float)) == pytest.approx(pull.along(D), rel=1e-12)


def test_the_slope_in_the_whitened_kernel_matrix_is_symmetric_and_that_of_differences():
    X, Y, weights, criterion = problem(2, weighted=True, rule="press")
    K = Kernel("rbf", gamma=0.3).block(X, X)
    _, pull = priced(K, Y, weights, BIASES["penalized"], 0.05, criterion)
    slope = pull.by_gram()
    assert_allclose(slope, slope.T, atol=1e-15)
    rng, h = np.random.default_rng(0), 1e-6
    change = rng.normal(size=(N, N))
    change += change.T
    root = weights.root
    values = [
        priced(K + e * change, Y, weights, BIASES["penalized"], 0.05, criterion)[0] for e in (h, -h)
    ]
    whitened = root[:, None] * change * root
    assert np.sum(slope * whitened) == pytest.approx(np.subtract(*values) / (2 * h), rel=1e-6)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "poly"])
def test_prefixes_are_the_kernel_matrices_of_the_first_rows(name):
    X = np.random.default_rng(0).normal(size=(N, 3))
    gram = Gram(X, Kernel(name, gamma=0.8, degree=2))
    prefixes = Prefixes(gram)
    truth = Kernel(name, gamma=0.2, degree=2).block(X, X)
    for m in (1, 7, N):
        exact, slope = prefixes.at(m, 0.25, exact=True, sloped=False)
        assert_allclose(exact, truth[:m, :m], rtol=1e-12)
        assert slope is None
        rough, slope = prefixes.at(m, 0.25, exact=False, sloped=True)
        assert rough.dtype == slope.dtype == np.float32
        assert_allclose(rough, truth[:m, :m], rtol=1e-4)
