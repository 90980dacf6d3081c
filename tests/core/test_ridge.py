"""Ridge fits in canonical form: derivatives by differences, left-out rows by refits."""

import numpy as np
import pytest
from oracles import gap

from fisherkit.core import arrays, basis
from fisherkit.core.bias import BIASES
from fisherkit.core.canonical import Canonical
from fisherkit.core.kernels import Gram, Kernel
from fisherkit.core.ridge import Fold, RidgePath, solve
from fisherkit.core.weights import Weights

N = 30
CENTRES = np.array([1, 4, 8, 13, 19, 27])
MUS = [1e-3, 0.2, 5.0]
each_bias = pytest.mark.parametrize("bias", BIASES)
each_weighting = pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
each_shape = pytest.mark.parametrize("centres", [None, CENTRES], ids=["full", "thin"])

RNG = np.random.default_rng(0)
GRAM = Gram(RNG.normal(size=(N, 2)), Kernel("rbf", gamma=1.0))
Y = RNG.normal(size=(N, 2)) + GRAM.X
# The third fold tests only part of what it removes.
FOLDS = [
    Fold(np.arange(0, N, 3), np.arange(10)),
    Fold(np.array([1, 2, 4]), np.arange(3)),
    Fold(np.array([5, 7, 8, 10, 11]), np.array([3, 0])),
]


def weights_of(weighted, n=N):
    rng = np.random.default_rng(8)
    if not weighted:
        return Weights(np.ones(n), np.ones(n))
    return Weights(rng.uniform(0.3, 3.0, size=n), rng.uniform(0.5, 2.0, size=n))


def decompose(bias, weights, centres=None, penalty="rkhs"):
    if centres is None and penalty == "rkhs":
        return Canonical.from_gram(GRAM.full(), weights, BIASES[bias])
    rows = np.arange(N) if centres is None else centres
    features = basis.centres(GRAM, rows, weights.frequency, penalty)
    return Canonical.from_features(features.Z, weights, BIASES[bias], lift=features.lift)


def path_of(bias, weighted, centres=None, penalty="rkhs", targets=Y):
    return RidgePath.of(decompose(bias, weights_of(weighted), centres, penalty), targets)


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("folds", [None, FOLDS], ids=["loo", "folds"])
@each_weighting
@each_bias
@each_shape
def test_derivatives_of_held_out_residuals_are_central_differences(centres, bias, weighted, folds):
    path, h = path_of(bias, weighted, centres), 1e-4
    for mu in MUS:
        r, r1, r2 = path.held_out_derivatives(mu, folds)
        up, up1, _ = path.held_out_derivatives(mu * np.exp(h), folds)
        down, down1, _ = path.held_out_derivatives(mu * np.exp(-h), folds)
        assert gap(r, path.held_out([mu], folds)[:, :, 0]) < 1e-12
        assert gap(r1, (up - down) / (2 * h)) < 1e-7
        assert gap(r2, (up1 - down1) / (2 * h)) < 1e-7


# --- many mu, any block size ----------------------------------------------------------------------


@pytest.mark.parametrize("folds", [None, FOLDS], ids=["loo", "folds"])
@each_bias
@each_shape
def test_many_mu_at_once_equal_one_at_a_time(centres, bias, folds):
    path = path_of(bias, True, centres)
    together = path.held_out(MUS, folds)
    assert together.shape == (N if folds is None else 15, 2, len(MUS))
    for j, mu in enumerate(MUS):
        assert gap(together[:, :, j], path.held_out([mu], folds)[:, :, 0]) < 1e-12


@each_bias
@each_shape
def test_coefficients_of_many_mu_are_those_of_each_fit(centres, bias):
    path = path_of(bias, True, centres)
    coef, intercept = path.coefficients(MUS)
    for j, mu in enumerate(MUS):
        fit = path.at(mu)
        assert gap(coef[:, :, j], fit.coef) < 1e-12
        np.testing.assert_allclose(intercept[:, j], fit.intercept, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("folds", [None, FOLDS], ids=["loo", "folds"])
@each_bias
@each_shape
def test_block_sizes_change_results_by_rounding_only(centres, bias, folds, monkeypatch):
    plain = path_of(bias, True, centres)
    held_out = plain.held_out(MUS, folds)
    derivatives = plain.held_out_derivatives(0.2, folds)
    monkeypatch.setattr(arrays, "BLOCK_ELEMENTS", 7)
    blocked = path_of(bias, True, centres)
    assert gap(blocked.held_out(MUS, folds), held_out) < 1e-11
    for one, other in zip(blocked.held_out_derivatives(0.2, folds), derivatives, strict=True):
        assert gap(one, other) < 1e-11


@each_bias
def test_block_sizes_change_the_cholesky_fit_by_rounding_only(bias, monkeypatch):
    def fit():
        return solve(GRAM.full(), Y, weights_of(True), bias=BIASES[bias], penalty="rkhs", mu=0.2)[0]

    plain = fit()
    monkeypatch.setattr(arrays, "BLOCK_ELEMENTS", 7)
    blocked = fit()
    assert gap(blocked.coef, plain.coef) < 1e-12
    assert gap(blocked.resolvent.B, plain.resolvent.B) < 1e-12


# --- one fit --------------------------------------------------------------------------------------


def assert_same_fit(one, other, tolerance=1e-9):
    for name in ("coef", "B_diag", "BY", "residual", "scatter"):
        assert gap(getattr(one, name), getattr(other, name)) < tolerance, name
    np.testing.assert_allclose(one.intercept, other.intercept, rtol=tolerance, atol=tolerance)
    assert gap(one.leave_one_out(), other.leave_one_out()) < tolerance
    rows, columns = np.array([3, 0, 7]), np.array([7, 2])
    assert gap(one.resolvent.block(rows, columns), other.resolvent.block(rows, columns)) < tolerance
    assert gap(one.resolvent.diagonal(), one.B_diag) < 1e-13


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@each_weighting
@each_bias
def test_one_cholesky_gives_the_fit_of_the_path(bias, weighted, penalty):
    path = path_of(bias, weighted, penalty=penalty)
    for mu in MUS:
        solved = solve(
            GRAM.full(), Y, weights_of(weighted), bias=BIASES[bias], penalty=penalty, mu=mu
        )
        if solved is None:  # squaring K would cost digits
            assert penalty == "coefficients" and mu < 1e-4 * path.canonical.unit
            continue
        assert_same_fit(path.at(mu), solved[0])
        assert solved[1] == pytest.approx(path.canonical.unit)


def test_a_cholesky_that_fails_says_so():
    options = dict(bias=BIASES["none"], penalty="rkhs", mu=0.1)
    assert solve(-np.eye(5), np.ones((5, 1)), weights_of(False, 5), **options) is None


@each_weighting
@each_bias
@each_shape
def test_the_scatter_is_the_weighted_product_of_targets_and_residuals(centres, bias, weighted):
    fit = path_of(bias, weighted, centres).at(0.2)
    truth = (fit.weights.v[:, None] * Y).T @ fit.residual
    assert gap(fit.scatter, truth) < 1e-11


@pytest.mark.parametrize("folds", [None, FOLDS], ids=["loo", "folds"])
@each_bias
@each_shape
def test_a_fit_leaves_rows_out_as_the_path_does(centres, bias, folds):
    path = path_of(bias, True, centres)
    fit, held_out = path.at(0.2), path.held_out([0.2], folds)[:, :, 0]
    if folds is None:
        truth = fit.leave_one_out()
    else:
        truth = np.concatenate([fit.leave_group_out(f.removed)[f.tested] for f in folds])
    assert gap(held_out, truth) < 1e-12


# --- refits ---------------------------------------------------------------------------------------


def features_of(weights, penalty, centres):
    rows = np.arange(N) if centres is None else centres
    return basis.centres(GRAM, rows, weights.frequency, penalty).Z


def refit(bias, weights, kept, rows, mu, penalty, centres):
    """The fit to some rows with the weights ``kept``, the centres left as ``weights`` made them."""
    if penalty == "rkhs" and centres is None:
        K = GRAM.full()[np.ix_(rows, rows)]
        return solve(K, Y[rows], kept, bias=BIASES[bias], penalty="rkhs", mu=mu)[0]
    Z = features_of(weights, penalty, centres)[rows]
    return RidgePath.of(Canonical.from_features(Z, kept, BIASES[bias]), Y[rows]).at(mu)


CASES = {
    "rkhs": ("rkhs", None),
    "rkhs-thin": ("rkhs", CENTRES),
    "coefficients": ("coefficients", None),
    "coefficients-thin": ("coefficients", CENTRES),
}
GROUP = np.array([2, 3, 11, 20, 25])
REST = np.setdiff1d(np.arange(N), GROUP)


def assert_same_residuals(one, other):
    for name in ("B_diag", "BY", "residual", "scatter"):
        assert gap(getattr(one, name), getattr(other, name)) < 1e-10, name
    loo, truth = one.leave_one_out(), other.leave_one_out()
    assert gap(loo, truth) < 1e-10
    assert gap(one.loo_scatter(loo, slice(None)), other.loo_scatter(truth, slice(None))) < 1e-10


@pytest.mark.parametrize("case", CASES)
@each_weighting
@each_bias
def test_a_fit_without_a_group_is_the_refit_to_the_remaining_rows(bias, weighted, case):
    weights, mu = weights_of(weighted), 0.2
    penalty, centres = CASES[case]
    truth = refit(bias, weights, weights.take(REST), REST, mu, penalty, centres)
    fits = [path_of(bias, weighted, centres, penalty).at(mu)]
    if centres is None:
        fits.append(solve(GRAM.full(), Y, weights, bias=BIASES[bias], penalty=penalty, mu=mu)[0])
    for fit in fits:
        assert_same_residuals(fit.without(GROUP, REST), truth)


@pytest.mark.parametrize("case", CASES)
@each_weighting
@each_bias
def test_the_scatter_without_a_row_is_that_of_the_refit(bias, weighted, case):
    weights, mu = weights_of(weighted), 0.2
    penalty, centres = CASES[case]
    fit = path_of(bias, weighted, centres, penalty).at(mu)
    scatter = fit.loo_scatter(fit.leave_one_out(), slice(None))
    for i in range(0, N, 4):
        frequency = weights.frequency.copy()
        frequency[i] -= min(1.0, frequency[i])
        rows = np.flatnonzero(frequency > 0)
        left = Weights(frequency[rows], weights.cost[rows])
        truth = refit(bias, weights, left, rows, mu, penalty, centres)
        assert gap(scatter[i], truth.scatter) < 1e-9
