"""Kernel values against scikit-learn, and the width heuristics against their definitions."""

import numpy as np
import pytest
from oracles import gap
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from fisherkit.core import arrays
from fisherkit.core.kernels import (
    Gram,
    Kernel,
    families,
    length,
    median_gamma,
    reference_width,
    scale_gamma,
    width_step,
    widths,
)
from fisherkit.core.kernels import gram as kernels

NAMES = sorted(PAIRWISE_KERNEL_FUNCTIONS)
STATIONARY = ["rbf", "laplacian"]
OFFSET = 1e6


def positive_rows(n, seed=0, d=3):
    """Rows that every kernel accepts: chi2 needs them positive."""
    return np.random.default_rng(seed).uniform(0.1, 2.0, size=(n, d))


def dyadic_rows(n, seed=0, d=3):
    """Rows on a grid of 2^-12, to which a large offset can be added without rounding."""
    return np.round(np.random.default_rng(seed).normal(size=(n, d)) * 2**12) / 2**12


def kernel(name, gamma=0.7):
    return Kernel(name, gamma=gamma, degree=2, coef0=0.5)


def squared_distance(x, z):
    return float(np.sum((x - z) ** 2))


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_block_holds_the_values_of_scikit_learn(name):
    X, Z = positive_rows(9), positive_rows(7, seed=1)
    ours = kernel(name)
    assert gap(ours.block(X, Z), pairwise_kernels(X, Z, name, **ours.arguments)) < 1e-14


@pytest.mark.parametrize("name", NAMES)
def test_the_diagonal_is_that_of_the_matrix(name):
    X = positive_rows(9)
    ours = kernel(name)
    truth = np.diag(pairwise_kernels(X, X, name, **ours.arguments))
    np.testing.assert_allclose(ours.diagonal(X), truth, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("keep_rows", [0, 2048])
@pytest.mark.parametrize("name", [*NAMES, squared_distance, "precomputed"])
def test_rows_columns_corner_and_diagonal_are_parts_of_the_full_matrix(
    name, keep_rows, monkeypatch
):
    monkeypatch.setattr(kernels, "_KEEP_ROWS", keep_rows)
    X = positive_rows(11)
    X = X @ X.T if name == "precomputed" else X
    gram = Gram(X, kernel(name))
    K, rows = gram.full(), np.array([4, 0, 9])
    for part, truth in [
        (gram.rows(rows), K[rows]),
        (gram.columns(rows), K[:, rows]),
        (gram.corner(rows), K[np.ix_(rows, rows)]),
        (gram.diagonal(), np.diag(K)),
    ]:
        np.testing.assert_allclose(part, truth, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("keep_rows", [0, 2048])
@pytest.mark.parametrize("name", NAMES)
def test_the_full_matrix_is_that_of_scikit_learn_on_either_side_of_the_cache(
    name, keep_rows, monkeypatch
):
    monkeypatch.setattr(kernels, "_KEEP_ROWS", keep_rows)
    X = positive_rows(12)
    ours = kernel(name)
    assert gap(Gram(X, ours).full(), pairwise_kernels(X, X, name, **ours.arguments)) < 1e-14


@pytest.mark.parametrize("name", ["rbf", "linear", "precomputed"])
def test_the_caller_may_overwrite_the_full_matrix(name):
    X = positive_rows(6)
    X = X @ X.T if name == "precomputed" else X
    before = X.copy()
    gram = Gram(X, kernel(name))
    first = gram.full()
    kept = first.copy()
    first[:] = np.nan
    np.testing.assert_array_equal(gram.full(), kept)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("keep_rows", [0, 2048])
@pytest.mark.parametrize("name", [*NAMES, "precomputed"])
def test_the_shifted_matrix_and_its_shift_are_the_full_matrix(name, keep_rows, monkeypatch):
    monkeypatch.setattr(kernels, "_KEEP_ROWS", keep_rows)
    X = positive_rows(11)
    gram = Gram(X @ X.T if name == "precomputed" else X, kernel(name))
    K, shift = gram.shifted()
    assert gap(K + shift, gram.full()) < 1e-15
    assert shift == (1.0 if name in STATIONARY else 0.0)


@pytest.mark.parametrize("name", STATIONARY)
def test_the_shifted_matrix_of_a_wide_kernel_keeps_the_digits_of_its_distances(name):
    X, gamma = positive_rows(8), 1e-12
    power = 2 if name == "rbf" else 1
    distances = np.sum(np.abs(X[:, None, :] - X[None, :, :]) ** power, axis=2)
    assert gap(Gram(X, kernel(name, gamma)).shifted()[0] / -gamma, distances) < 1e-11


@pytest.mark.parametrize("keep_rows", [0, 2048])
@pytest.mark.parametrize("name", STATIONARY)
def test_the_exponent_is_log_K_and_with_K_its_slope_in_log_gamma(name, keep_rows, monkeypatch):
    monkeypatch.setattr(kernels, "_KEEP_ROWS", keep_rows)
    X, t, h = positive_rows(8), np.log(0.3), 1e-5
    up, down = (Gram(X, kernel(name, np.exp(t + step))).full() for step in (h, -h))
    gram = Gram(X, kernel(name, np.exp(t)))
    E = gram.exponent(gram.kernel.stationary)
    assert gap(np.exp(E), gram.full()) < 1e-15
    assert gap(E * np.exp(E), (up - down) / (2 * h)) < 1e-8


def wide(x, z, gamma, factor=1.0):
    return factor * np.exp(-gamma * np.sum((x - z) ** 2))


@pytest.mark.parametrize("name", [*NAMES, wide])
def test_blocks_at_several_widths_are_those_of_each(name):
    X, Z = positive_rows(9), positive_rows(6, seed=1)
    ours = Kernel(name, degree=2, coef0=0.5, takes_gamma=callable(name))
    gammas = [0.1, 0.7, 3.0]
    for gamma, block in zip(gammas, ours.blocks(X, Z, gammas), strict=True):
        assert gap(block, Gram(Z, ours).with_gamma(gamma).kernel.block(X, Z)) < 1e-13


def test_a_callable_that_takes_gamma_is_given_it():
    X = positive_rows(5)
    ours = Kernel(wide, gamma=0.7, params={"factor": 2.0}, takes_gamma=True)
    assert ours.has_gamma
    assert gap(ours.block(X, X), 2 * kernel("rbf").block(X, X)) < 1e-14


def test_the_width_of_a_kernel_is_a_length():
    assert length(kernel("rbf"), 2.0) == 0.5
    assert length(kernel("laplacian"), 4.0) == 0.25
    assert np.isnan(length(kernel("linear"), None))


def test_a_callable_gets_its_own_parameters_only():
    def scaled(x, z, factor):
        return factor * float(x @ z)

    X = positive_rows(5)
    ours = Kernel(scaled, gamma=3.0, params={"factor": 2.0})
    assert gap(ours.block(X, X), 2 * X @ X.T) < 1e-15


@pytest.mark.parametrize("name", [name for name in NAMES if kernel(name).known_positive])
def test_a_kernel_known_to_be_positive_has_no_negative_eigenvalue(name):
    values = np.linalg.eigvalsh(Gram(positive_rows(40), kernel(name)).full())
    assert values[0] > -1e-13 * np.abs(values).max()


@pytest.mark.parametrize(
    "ours",
    [
        Kernel("sigmoid"),
        Kernel("precomputed"),
        Kernel(squared_distance),
        Kernel("polynomial", degree=2.5),
        Kernel("polynomial", coef0=-1.0),
    ],
)
def test_nothing_is_promised_where_theory_promises_nothing(ours):
    assert not ours.known_positive


# --- accuracy and cost ----------------------------------------------------------------------------


@pytest.mark.parametrize("keep_rows", [0, 2048])
@pytest.mark.parametrize("name", STATIONARY)
def test_a_large_common_offset_costs_no_digits(name, keep_rows, monkeypatch):
    monkeypatch.setattr(kernels, "_KEEP_ROWS", keep_rows)
    X, rows = dyadic_rows(15), np.array([1, 5])
    near, far = Gram(X, kernel(name)), Gram(X + OFFSET, kernel(name))
    assert gap(far.full(), near.full()) < 1e-14
    assert gap(far.rows(rows), near.rows(rows)) < 1e-14
    assert gap(far.columns(rows), near.columns(rows)) < 1e-14


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("name", STATIONARY)
def test_extreme_feature_scales_cost_no_digits(name, scale):
    X = positive_rows(8)
    gamma = 0.7 / (scale**2 if name == "rbf" else scale)
    far = Gram(X * scale, kernel(name, gamma))
    assert gap(far.full(), Gram(X, kernel(name)).full()) < 1e-13


@pytest.mark.parametrize("name, distance", [("rbf", "_scaled_distances"), ("laplacian", None)])
def test_distances_are_computed_once_for_all_widths(name, distance, monkeypatch):
    module, attribute = (families, distance) if distance else (arrays, "cityblock")
    plain, calls = getattr(module, attribute), []
    monkeypatch.setattr(module, attribute, lambda *args: calls.append(1) or plain(*args))
    X = positive_rows(10)
    gram = Gram(X, kernel(name))
    widths = [0.01, 0.3, 5.0]
    matrices = [gram.with_gamma(gamma).full() for gamma in widths]
    assert len(calls) == 1
    for gamma, K in zip(widths, matrices, strict=True):
        assert gap(K, pairwise_kernels(X, metric=name, gamma=gamma)) < 1e-14


def test_another_width_leaves_the_first_matrix_alone():
    gram = Gram(positive_rows(6), kernel("rbf", 0.3))
    before = gram.full()
    gram.with_gamma(4.0).full()
    np.testing.assert_array_equal(gram.full(), before)
    assert gram.kernel.gamma == 0.3


# --- widths ---------------------------------------------------------------------------------------


def heuristics(X, weight, name):
    ours = Kernel(name)
    return [
        reference_width(X, weight, ours),
        scale_gamma(X, weight),
        median_gamma(X, weight, ours, 0),
    ]


@pytest.mark.parametrize("name", ["rbf", "laplacian", "polynomial", "chi2"])
def test_a_frequency_of_two_is_the_row_twice_for_every_width_heuristic(name):
    X = positive_rows(20)
    w = np.random.default_rng(3).integers(1, 4, size=20)
    repeated = np.repeat(X, w, axis=0)
    np.testing.assert_allclose(
        heuristics(X, w.astype(float), name),
        heuristics(repeated, np.ones(len(repeated)), name),
        rtol=1e-12,
    )


@pytest.mark.parametrize("value", [0.0, 3.7, 1e6 + 0.1])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "polynomial", "sigmoid", "chi2"])
def test_every_width_heuristic_is_positive_and_finite_for_constant_data(name, value):
    X = np.full((7, 2), value)
    widths = np.array(heuristics(X, np.ones(7), name))
    assert np.all(np.isfinite(widths)) and np.all(widths > 0)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "polynomial", "chi2"])
def test_every_width_heuristic_is_positive_and_finite_at_extreme_scales(name, scale):
    widths = np.array(heuristics(scale * positive_rows(9), np.ones(9), name))
    assert np.all(np.isfinite(widths)) and np.all(widths > 0)


def test_the_median_heuristic_is_the_median_of_all_ordered_pairs():
    X = positive_rows(15)
    ones = np.ones(15)
    squares = np.sort([squared_distance(x, z) for x in X for z in X])
    lengths = np.sort([np.abs(x - z).sum() for x in X for z in X])
    middle = (len(squares) - 1) // 2
    assert median_gamma(X, ones, Kernel("rbf"), 0) == pytest.approx(0.5 / squares[middle])
    assert median_gamma(X, ones, Kernel("laplacian"), 0) == pytest.approx(1 / lengths[middle])


def test_the_median_of_many_rows_is_taken_on_a_reproducible_subset(monkeypatch):
    monkeypatch.setattr(widths, "_MEDIAN_ROWS", 50)
    X = positive_rows(400)
    first, again, other = (median_gamma(X, np.ones(400), Kernel("rbf"), seed) for seed in (0, 0, 1))
    assert first == again != other
    monkeypatch.setattr(widths, "_MEDIAN_ROWS", 400)
    exact = median_gamma(X, np.ones(400), Kernel("rbf"), 0)
    assert first == pytest.approx(exact, rel=0.5)


def test_the_reference_width_follows_the_spread_and_not_the_offset():
    X, ones = dyadic_rows(30), np.ones(30)
    for name, power in [("rbf", 2), ("laplacian", 1)]:
        ours = Kernel(name)
        width = reference_width(X, ones, ours)
        assert reference_width(X + OFFSET, ones, ours) == pytest.approx(width, rel=1e-8)
        assert reference_width(3 * X, ones, ours) == pytest.approx(width / 3**power)


def test_a_step_of_the_march_is_half_an_octave_of_length():
    X = positive_rows(5)
    for name in STATIONARY:
        step = width_step(Kernel(name))
        half_octave = Kernel(name, gamma=0.4).block(X * 2**0.5, X * 2**0.5)
        assert gap(Kernel(name, gamma=0.4 * step).block(X, X), half_octave) < 1e-14
