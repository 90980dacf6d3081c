"""Kernels with parameters: values one pair at a time, and pulls by differences."""

import numpy as np
import oracles
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic

from fisherkit.core.covariance import LOG_BOUND, FittedKernel, KernelObject, Parametric

D = 3
rng = np.random.default_rng(0)
X, Z = rng.normal(size=(9, D)), rng.normal(size=(6, D))
A = rng.normal(size=(9, 6))

CASES = {
    "rbf": (Parametric(1), [0.3, -0.7]),
    "ard": (Parametric(D), [0.3, -0.7, 0.2, -2.0]),
    "rbf + linear": (Parametric(1, linear=True), [0.3, -1.1, -0.7]),
    "ard + linear": (Parametric(D, linear=True), [0.3, -1.1, -0.7, 0.2, -2.0]),
    "linear": (Parametric(1, rbf=False, linear=True), [-0.4]),
    "linear ard": (Parametric(D, rbf=False, linear=True), [-0.4, 0.6, -1.0]),
}
OBJECTS = {
    "RBF": RBF(0.8),
    "ARD RBF": RBF([0.8, 1.2, 2.0]),
    "Matern": Matern(1.3, nu=1.5),
    "sum and product": ConstantKernel(0.5) * RBF(2.0) + RationalQuadratic(1.0, 0.7),
}
EVERY = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
EVERY_OBJECT = pytest.mark.parametrize("kernel", OBJECTS.values(), ids=OBJECTS)


def pair_by_pair(covariance, theta, X, Z):
    """The kernel of the module docstring in plain loops."""
    theta = list(theta)
    rho = np.exp(theta.pop(0)) if covariance.rbf else 0.0
    slope = 1.0 if not covariance.rbf else np.exp(theta.pop(0)) if covariance.linear else 0.0
    w = np.exp(theta) * np.ones(X.shape[1])
    return np.array(
        [
            [rho * np.exp(-0.5 * np.sum(w * (x - z) ** 2)) + slope * np.sum(w * x * z) for z in Z]
            for x in X
        ]
    )


def whole(A):
    return [(slice(0, A.shape[0]), slice(0, A.shape[1]), A)]


@EVERY
def test_values_and_diagonal_follow_the_formula(case):
    covariance, theta = case
    theta = np.array(theta)
    truth = pair_by_pair(covariance, theta, X, Z)
    np.testing.assert_allclose(covariance.block(theta, X, Z).values, truth, rtol=1e-12)
    square = pair_by_pair(covariance, theta, X, X)
    np.testing.assert_allclose(covariance.symmetric(theta, X).values, square, atol=1e-13)
    np.testing.assert_allclose(covariance.diagonal(theta, X), np.diag(square), rtol=1e-13)


@EVERY
def test_the_pull_is_the_derivative_of_the_contraction(case):
    covariance, theta = case
    theta = np.array(theta)
    truth = oracles.slope_by_differences(
        lambda t: np.sum(A * pair_by_pair(covariance, t, X, Z)), theta
    )
    pulled = covariance.block(theta, X, Z).pull(whole(A))
    assert pulled.shape == theta.shape
    np.testing.assert_allclose(pulled, truth, rtol=1e-7, atol=1e-8)


@EVERY
def test_pieces_of_a_pull_add_up(case):
    covariance, theta = case
    block = covariance.block(np.array(theta), X, Z)
    cuts = [slice(0, 2), slice(2, 9)], [slice(0, 5), slice(5, 6)]
    pieces = [(rows, columns, A[rows, columns]) for rows in cuts[0] for columns in cuts[1]]
    np.testing.assert_allclose(block.pull(pieces), block.pull(whole(A)), rtol=1e-12)


@EVERY
def test_bounds_have_a_row_for_each_parameter(case):
    covariance, theta = case
    assert covariance.bounds.shape == (len(theta), 2)
    assert np.all(covariance.bounds == [-LOG_BOUND, LOG_BOUND])


def test_equal_widths_are_one_width():
    one = Parametric(1, linear=True).block(np.array([0.1, -0.5, 0.4]), X, Z)
    many = Parametric(D, linear=True).block(np.array([0.1, -0.5, 0.4, 0.4, 0.4]), X, Z)
    np.testing.assert_allclose(one.values, many.values, rtol=1e-13)
    shared, own = one.pull(whole(A)), many.pull(whole(A))
    np.testing.assert_allclose(shared, [own[0], own[1], own[2:].sum()], rtol=1e-10)


def test_jitter_is_relative_to_the_amplitude():
    theta = np.array([2.0, 0.0])
    plain, jittered = (Parametric(1).block(theta, X, X, jitter=j).values for j in (0.0, 1e-3))
    np.testing.assert_allclose(jittered - plain, 1e-3 * np.exp(2.0) * np.eye(9), atol=1e-12)


def test_the_pull_follows_the_jitter_too():
    def value(theta):
        return np.sum(B * Parametric(D).block(theta, X, X, jitter=0.1).values)

    B, theta = rng.normal(size=(9, 9)), np.array([0.3, 0.1, -0.4, 0.8])
    pulled = Parametric(D).block(theta, X, X, jitter=0.1).pull(whole(B))
    truth = oracles.slope_by_differences(value, theta)
    np.testing.assert_allclose(pulled, truth, rtol=1e-7, atol=1e-8)


def test_a_feature_of_no_weight_is_not_there():
    theta = np.array([0.0, 0.5, 0.2, -40.0])
    two = Parametric(2).block(theta[:3], X[:, :2], Z[:, :2]).values
    np.testing.assert_allclose(Parametric(D).block(theta, X, Z).values, two, rtol=1e-12)


@EVERY_OBJECT
def test_kernel_objects_have_the_values_of_scikit_learn_times_an_amplitude(kernel):
    covariance = KernelObject(kernel)
    theta = np.append(0.7, kernel.theta + 0.1)
    moved = kernel.clone_with_theta(kernel.theta + 0.1)
    for ours, truth in [
        (covariance.block(theta, X, Z).values, moved(X, Z)),
        (covariance.symmetric(theta, X).values, moved(X)),
        (covariance.diagonal(theta, X), moved.diag(X)),
    ]:
        np.testing.assert_allclose(ours, np.exp(0.7) * truth, rtol=1e-12)
    np.testing.assert_array_equal(covariance.bounds[1:], kernel.bounds)


@EVERY_OBJECT
def test_the_pull_of_a_kernel_object_is_the_derivative_of_the_contraction(kernel):
    covariance, B = KernelObject(kernel), rng.normal(size=(9, 9))
    theta = np.append(0.7, kernel.theta)
    truth = oracles.slope_by_differences(
        lambda t: np.sum(B * covariance.block(t, X, X).values), theta
    )
    pulled = covariance.symmetric(theta, X).pull(whole(B))
    np.testing.assert_allclose(pulled, truth, rtol=1e-6, atol=1e-7)


def test_a_kernel_object_without_parameters_has_its_amplitude_only():
    covariance = KernelObject(RBF(1.0, length_scale_bounds="fixed"))
    theta = np.array([0.7])
    assert covariance.bounds.shape == (1, 2)
    block = covariance.symmetric(theta, X)
    B = rng.normal(size=(9, 9))
    np.testing.assert_allclose(block.pull(whole(B)), [np.sum(B * block.values)], rtol=1e-12)


def test_a_fitted_kernel_takes_its_columns_and_shifts_and_scales_them():
    theta, columns = np.array([0.2, 0.4]), np.array([0, 2])
    shift, scale = np.array([1.0, 3.0]), np.array([2.0, 5.0])
    fitted = FittedKernel(Parametric(1), theta, columns, shift, scale)
    seen = (X[:, columns] - shift) / scale, (Z[:, columns] - shift) / scale
    np.testing.assert_allclose(fitted.features(X), seen[0], rtol=1e-14)
    truth = pair_by_pair(Parametric(1), theta, *seen)
    np.testing.assert_allclose(fitted.block(X, seen[1]), truth, rtol=1e-12)
    np.testing.assert_allclose(fitted.diagonal(X), np.exp(0.2))


def test_a_kernel_of_no_part_is_a_mistake_of_the_programmer():
    with pytest.raises(AssertionError):
        Parametric(1, rbf=False, linear=False)
