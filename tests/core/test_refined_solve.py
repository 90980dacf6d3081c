"""One fit by a factor in single precision, refined, beside the one in double precision."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fisherkit.core import BIASES, Gram, Kernel, Weights, solve
from fisherkit.core.solvers import symmetric
from fisherkit.core.solvers.refined import solve_refined
from fisherkit.core.solvers.symmetric import System, UpperBlocks

N = 300


def problem(*, weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    Y = np.stack([np.sign(X[:, 0] + 0.3 * rng.normal(size=N)), X[:, 1] * X[:, 2]], axis=1) + 3
    weights = Weights.unit(X)
    if weighted:
        weights = Weights(rng.choice([0.5, 1.0, 3.0], size=N), rng.choice([1.0, 1.5], size=N))
    return X, Y, weights


@pytest.mark.parametrize("mu", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_it_is_the_fit_in_double_precision(kernel, weighted, bias, mu):
    X, Y, weights = problem(weighted=weighted)
    gram = Gram(X, Kernel(kernel, gamma=0.2))
    words = {"bias": BIASES[bias], "mu": mu}
    exact, unit = solve(gram.full(), Y, weights, penalty="rkhs", **words)
    system = System.of(gram, Y, weights, BIASES[bias], mu)
    fit = solve_refined(system)
    assert system.unit == pytest.approx(unit, rel=1e-12)
    size = np.abs(exact.coef).max()
    assert_allclose(fit.coef, exact.coef, atol=1e-9 * size)
    assert_allclose(fit.intercept, exact.intercept, rtol=1e-8, atol=1e-8)
    assert_allclose(fit.scatter, exact.scatter, rtol=1e-8, atol=1e-8)
    # Denominators have the digits of the factor: single precision, times lam / mu.
    rounding = 3e-6 * max(1.0, N / mu * 1e-2)
    assert_allclose(fit.leave_one_out(), exact.leave_one_out(), atol=10 * rounding)
    rows, columns = np.arange(0, 40, 3), np.arange(5)
    block = exact.resolvent.block(rows, columns)
    assert_allclose(fit.resolvent.block(rows, columns), block, atol=rounding)
    assert_allclose(fit.resolvent.strip(rows), exact.resolvent.strip(rows), atol=rounding)
    assert_allclose(fit.resolvent.diagonal(), exact.resolvent.diagonal(), atol=rounding)
    assert_allclose(fit.resolvent.residuals(Y), exact.resolvent.residuals(Y), atol=30 * rounding)


@pytest.mark.parametrize("mu", [1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("bias", BIASES)
def test_predictions_are_as_close_as_promised_anywhere(bias, mu):
    X, Y, weights = problem(weighted=True)
    gram, words = Gram(X, Kernel("rbf", gamma=0.2)), {"bias": BIASES[bias], "mu": mu}
    exact, _ = solve(gram.full(), Y, weights, penalty="rkhs", **words)
    fit = solve_refined(System.of(gram, Y, weights, BIASES[bias], mu))
    K = gram.kernel.block(2 * np.random.default_rng(1).normal(size=(200, 4)), X)
    gap = K @ (fit.coef - exact.coef) + fit.intercept - exact.intercept
    assert np.abs(gap).max() < 1e-7 * np.abs(Y).max()


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "precomputed"])
def test_half_of_a_symmetric_matrix_multiplies_as_all_of_it(kernel, monkeypatch):
    monkeypatch.setattr(symmetric, "_BLOCK", 40 * N)
    X, Y, _ = problem(weighted=False)
    gram = Gram(X, Kernel(kernel, gamma=0.2))
    if kernel == "precomputed":
        gram = Gram(X @ X.T, Kernel(kernel))
    K = gram.full()
    half = UpperBlocks.of(gram)
    assert len(half.rows) == 8
    assert_allclose(half @ Y, K @ Y, rtol=1e-12, atol=1e-12 * np.abs(K @ Y).max())


def test_a_system_that_single_precision_does_not_solve_is_left_to_double():
    X, Y, weights = problem(weighted=False)
    gram = Gram(X, Kernel("rbf", gamma=1e-3))
    assert solve_refined(System.of(gram, Y, weights, BIASES["free"], 1e-10)) is None
