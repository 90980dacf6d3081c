"""The canonical form against dense solves of the problem it decomposes."""

import tracemalloc
from dataclasses import fields

import numpy as np
import oracles
import pytest
from oracles import gap
from sklearn.datasets import make_blobs
from sklearn.metrics.pairwise import rbf_kernel

from fisherkit.core import arrays, basis
from fisherkit.core.bias import BIASES
from fisherkit.core.canonical import (
    Canonical,
    NotPositiveError,
    mu_floor,
    require_positive,
    trace_unit,
)
from fisherkit.core.kernels import Gram, Kernel
from fisherkit.core.ridge import RidgePath
from fisherkit.core.weights import Weights
from fisherkit.datasets.generators import make_torus

N = 36
CENTRES = np.array([0, 5, 9, 14, 17, 22, 30])
# Penalty and centres: the four rows of the table of G.
ROWS = [("rkhs", None), ("rkhs", CENTRES), ("coefficients", None), ("coefficients", CENTRES)]
ROW_NAMES = ["rkhs-all", "rkhs-centres", "coefficients-all", "coefficients-centres"]
each_row = pytest.mark.parametrize("penalty, centres", ROWS, ids=ROW_NAMES)
each_bias = pytest.mark.parametrize("bias", BIASES)
each_weighting = pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])


def data(n=N, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def weights_of(n, weighted):
    rng = np.random.default_rng(8)
    if not weighted:
        return Weights(np.ones(n), np.ones(n))
    return Weights(rng.uniform(0.2, 3.0, size=n), rng.uniform(0.5, 2.0, size=n))


def decompose(gram, weights, bias, penalty="rkhs", centres=None):
    if penalty == "rkhs" and centres is None:
        return Canonical.from_gram(gram.full(), weights, BIASES[bias])
    rows = np.arange(gram.n) if centres is None else centres
    features = basis.centres(gram, rows, weights.frequency, penalty)
    return Canonical.from_features(features.Z, weights, BIASES[bias], lift=features.lift)


def low_rank(gram, weights, bias, *, budget, cut):
    factor = basis.low_rank(gram, weights.v, budget, np.random.RandomState(0), max_rank=gram.n)
    return Canonical.from_low_rank(
        factor.L.copy(),
        weights,
        BIASES[bias],
        lift=basis.corner_solver(factor),
        left_out=factor.left_out,
        cut=cut,
    )


def residual_maker(form, mu):
    """B(mu) = (P - UU') + U diag(c) U', dense, from its definition."""
    s = form.weights.root
    P = np.eye(len(s))
    if form.bias.directions:
        P -= np.outer(s, s) / (s @ s)
    return P + (form.U * (form.shrinkage(mu) - 1)) @ form.U.T


def dense_hat(K, weights, mu, bias, penalty, centres):
    """H with f = H y, column by column from the saddle-point system."""
    model = oracles.ridge(
        K,
        np.eye(len(K)),
        mu,
        penalty=penalty,
        bias=bias,
        v=weights.v,
        centres=centres,
        centre_weight=weights.frequency if penalty == "coefficients" else None,
    )
    return oracles.predict(K, model, centres)


# --- the hat matrix -------------------------------------------------------------------------------


@each_weighting
@each_bias
@each_row
def test_the_hat_matrix_is_that_of_a_dense_solve(penalty, centres, bias, weighted):
    gram, weights = Gram(data(), Kernel("rbf", gamma=1.0)), weights_of(N, weighted)
    form = decompose(gram, weights, bias, penalty, centres)
    s = weights.root
    for mu in np.array([1e-4, 1e-1, 1e3]) * form.unit:
        hat = np.eye(N) - residual_maker(form, mu) * s / s[:, None]
        truth = dense_hat(gram.full(), weights, mu, bias, penalty, centres)
        assert gap(hat, truth) < 1e-9


@each_weighting
@each_bias
@each_row
def test_coefficients_and_bias_give_the_fit_that_the_residuals_say(
    penalty, centres, bias, weighted
):
    gram, weights = Gram(data(), Kernel("rbf", gamma=1.0)), weights_of(N, weighted)
    form = decompose(gram, weights, bias, penalty, centres)
    Y = np.random.default_rng(1).normal(size=(N, 2))
    fit = RidgePath.of(form, Y).at(0.1 * form.unit)
    columns = gram.full() if centres is None else gram.full()[:, CENTRES]
    if penalty == "rkhs" and centres is not None:
        columns = gram.columns(basis.centres(gram, centres, weights.frequency, penalty).rows)
    assert gap(columns @ fit.coef + fit.intercept, Y - fit.residual) < 1e-10


@each_weighting
def test_a_shift_of_the_gram_matrix_changes_nothing_under_a_free_bias(weighted):
    gram, weights = Gram(data(), Kernel("rbf", gamma=1.0)), weights_of(N, weighted)
    Y = np.random.default_rng(1).normal(size=(N, 2))
    K, shift = gram.shifted()
    plain = decompose(gram, weights, "free")
    shifted = Canonical.from_gram(K, weights, BIASES["free"], shift=shift)
    assert shifted.unit == pytest.approx(plain.unit, rel=1e-14)
    one, other = (RidgePath.of(form, Y).at(0.1) for form in (shifted, plain))
    for name in ("coef", "intercept", "BY", "B_diag"):
        assert gap(getattr(one, name), getattr(other, name)) < 1e-11


def test_a_shifted_gram_matrix_of_a_wide_kernel_is_that_of_the_linear_kernel():
    """exp(-gamma d^2) - 1 = -gamma d^2 + O(gamma^2); centred, this is 2 gamma X X'."""
    X, gamma = data(), 1e-10
    K, shift = Gram(X, Kernel("rbf", gamma=gamma)).shifted()
    lam = Canonical.from_gram(K, weights_of(N, False), BIASES["free"], shift=shift).lam[-2:]
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(lam, 2 * gamma * np.linalg.eigvalsh(centred.T @ centred), rtol=1e-8)


@each_bias
@each_row
def test_the_unit_is_the_mean_diagonal_of_G(penalty, centres, bias):
    gram, weights = Gram(data(), Kernel("rbf", gamma=1.0)), weights_of(N, True)
    form = decompose(gram, weights, bias, penalty, centres)
    scale = weights.frequency if penalty == "coefficients" else None
    Z = oracles.features(gram.full(), penalty, centres, scale)
    truth = weights.v @ np.sum(Z**2, axis=1) / weights.frequency.sum()
    assert form.unit == pytest.approx(truth, rel=1e-9)


@each_bias
@each_row
def test_rest_is_the_diagonal_of_what_U_leaves(penalty, centres, bias):
    gram, weights = Gram(data(), Kernel("rbf", gamma=1.0)), weights_of(N, True)
    form = decompose(gram, weights, bias, penalty, centres)
    left = np.diag(residual_maker(form, 0.0)) - np.sum(
        form.U**2 * (form.lam == 0), axis=1
    )  # c = 0 where lam > 0
    rest = np.zeros(N) if form.rest is None else form.rest
    np.testing.assert_allclose(rest, left, atol=1e-12)


# --- the eigenvectors -----------------------------------------------------------------------------

# Kernels and rows on which the centred columns keep a rounding component along s.
HARD = {
    "plain": (data(60), 1.0),
    "very wide": (data(60), 1e-5),
    "duplicated": (np.repeat(data(20), 3, axis=0), 1.0),
    "wide and duplicated": (np.repeat(data(20), 3, axis=0), 1e-5),
    "all rows equal": (np.ones((60, 2)), 1.0),
    "far away": (data(60) + 1e4, 1e-3),
}
each_case = pytest.mark.parametrize("case", HARD)


def assert_orthonormal(form, tolerance):
    assert np.abs(form.U.T @ form.U - np.eye(form.rank)).max(initial=0.0) < tolerance
    if form.bias.directions:
        s = form.weights.root
        assert np.abs(form.U.T @ s).max(initial=0.0) < tolerance * np.linalg.norm(s)


@each_weighting
@each_bias
@each_row
@each_case
def test_eigenvectors_are_orthonormal_and_orthogonal_to_a_free_bias(
    case, penalty, centres, bias, weighted
):
    X, gamma = HARD[case]
    gram, weights = Gram(X, Kernel("rbf", gamma=gamma)), weights_of(60, weighted)
    form = decompose(gram, weights, bias, penalty, centres)
    # Centring columns of size |Z| to size |Z_c| costs eps |Z| / |Z_c|, at most 1e4 eps here.
    assert_orthonormal(form, 1e-11)
    assert np.all(form.lam >= 0)


@each_weighting
@each_bias
@each_case
def test_eigenvectors_of_the_low_rank_path_are_orthonormal_within_its_cut(case, bias, weighted):
    X, gamma = HARD[case]
    gram, weights = Gram(X, Kernel("rbf", gamma=gamma)), weights_of(60, weighted)
    cut = 1e-6 * weights.mass
    form = low_rank(gram, weights, bias, budget=cut, cut=cut)
    largest, smallest = (form.lam.max(), form.lam.min()) if form.rank else (1.0, 1.0)
    # Squaring the factor loses eps * largest / smallest.
    assert_orthonormal(form, 1e-13 * max(largest, weights.mass) / smallest)


def test_the_coefficients_penalty_keeps_all_digits_where_its_kernel_has_nearly_full_rank():
    # Some rows are nearly, not quite, interpolated: their part outside of the features is 1e-7.
    X, y = make_torus(256, random_state=14)
    targets, mu = 2.0 * y - 1, 0.01
    K = rbf_kernel(X, gamma=0.5)
    sigma, V = np.linalg.eigh(K)
    V, g = V.astype(np.longdouble), 1 / (sigma.astype(np.longdouble) ** 2 + mu)
    zeta, xi = V.sum(axis=0), V.T @ targets
    a, S, T = V @ (g * zeta), g @ zeta**2, g @ (zeta * xi)
    expected = (V @ (g * xi) - a * T / S) / (V**2 @ g - a**2 / S)
    form = Canonical.from_features(K, Weights.unit(K), BIASES["free"])
    found = RidgePath.of(form, targets[:, None]).held_out([mu])[:, 0, 0]
    np.testing.assert_allclose(found, expected.astype(float), rtol=1e-10, atol=1e-11)


@each_bias
def test_a_rank_deficient_kernel_has_the_rank_of_its_features(bias):
    gram, weights = Gram(data(d=3), Kernel("linear")), weights_of(N, True)
    thin = decompose(gram, weights, bias, "rkhs", np.arange(10))
    squared = decompose(gram, weights, bias, "coefficients")
    assert thin.rank == squared.rank == (4 if bias == "penalized" else 3)


# --- low rank -------------------------------------------------------------------------------------


@each_weighting
@each_bias
def test_an_exact_low_rank_factor_gives_the_fits_of_the_gram_matrix(bias, weighted):
    kernel = Kernel("polynomial", gamma=0.3, degree=3)  # rank 10 in two dimensions
    gram, weights = Gram(data(60), kernel), weights_of(60, weighted)
    full = decompose(gram, weights, bias)
    thin = low_rank(gram, weights, bias, budget=1e-10, cut=1e-10)
    assert thin.rank <= 11
    assert thin.unit == pytest.approx(full.unit, rel=1e-10)
    Y = np.random.default_rng(1).normal(size=(60, 2))
    for relative_mu in (1e-6, 1e-2, 1e2):
        mu = relative_mu * full.unit
        rounding = 1e-12 * max(1.0, 1 / relative_mu)
        assert gap(residual_maker(thin, mu), residual_maker(full, mu)) < rounding
        one, other = RidgePath.of(thin, Y).at(mu), RidgePath.of(full, Y).at(mu)
        assert gap(one.leave_one_out(), other.leave_one_out()) < rounding


@pytest.mark.parametrize("level", [1e-2, 1e-5])
@each_bias
def test_what_is_left_out_bounds_the_change_of_the_residual_maker(bias, level):
    gram, weights = Gram(data(80), Kernel("rbf", gamma=0.3)), weights_of(80, False)
    full = decompose(gram, weights, bias)
    thin = low_rank(gram, weights, bias, budget=level, cut=level)
    assert 0 < thin.tolerance <= 2 * level
    for mu in (0.1, 1.0):
        change = residual_maker(thin, mu) - residual_maker(full, mu)
        assert np.linalg.norm(change, 2) <= thin.tolerance / mu + 1e-10


def test_eigenvalues_are_dropped_only_while_their_sum_is_below_the_cut():
    gram, weights = Gram(data(80), Kernel("rbf", gamma=0.3)), weights_of(80, False)
    lam = np.sort(decompose(gram, weights, "none").lam)
    form = low_rank(gram, weights, "none", budget=1e-9, cut=1e-3)
    assert form.rank == 80 - np.count_nonzero(np.cumsum(lam) <= 1e-3)
    assert form.tolerance <= 1e-3 + 1e-9


# --- guards ---------------------------------------------------------------------------------------


@each_weighting
@each_bias
@each_row
@pytest.mark.parametrize("case", ["plain", "very wide", "duplicated"])
def test_the_denominator_of_leave_one_out_has_a_rigorous_lower_bound(
    case, penalty, centres, bias, weighted
):
    """A_ii >= (1 - v_i / sum v) / (lam_max + mu) for a free bias, 1 / (lam_max + mu) otherwise."""
    X, gamma = HARD[case]
    gram, weights = Gram(X, Kernel("rbf", gamma=gamma)), weights_of(60, weighted)
    form = decompose(gram, weights, bias, penalty, centres)
    path = RidgePath.of(form, np.ones((60, 1)))
    share = weights.v / weights.mass if bias == "free" else 0.0
    for mu in np.array([1e-8, 1e-3, 1.0, 1e4]) * form.unit:
        bound = mu * (1 - share) / (form.lam.max() + mu)
        assert np.all(path.at(mu).B_diag >= bound * (1 - 1e-12))


def test_a_row_of_leverage_one_keeps_its_digits_at_tiny_mu():
    """A feature that only row 0 has: its leave-one-out prediction is the bias of the others."""
    Z = np.zeros((12, 2))
    Z[0, 0], Z[1:, 1] = 1.0, np.linspace(-1, 1, 11)
    y = np.sign(np.arange(12) - 5.5)
    form = Canonical.from_features(Z, weights_of(12, False), BIASES["free"])
    fit = RidgePath.of(form, y[:, None]).at(1e-16)
    b = np.polynomial.polynomial.polyfit(Z[1:, 1], y[1:], 1)[0]
    assert y[0] - fit.leave_one_out()[0, 0] == pytest.approx(b, rel=1e-13)


def indefinite(n=30, smallest=-0.25):
    Q = np.linalg.qr(np.random.default_rng(2).normal(size=(n, n)))[0]
    values = np.linspace(0.1, 2.0, n)
    values[0] = smallest
    return (Q * values) @ Q.T


@each_bias
def test_an_indefinite_matrix_is_refused_with_its_smallest_eigenvalue(bias):
    with pytest.raises(NotPositiveError, match=r"smallest eigenvalue is -0\.25,"):
        Canonical.from_gram(indefinite(), weights_of(30, False), BIASES[bias], rounding=2e-16)
    with pytest.raises(NotPositiveError, match=r"smallest eigenvalue is -0\.25,"):
        require_positive(indefinite(), weights_of(30, False), 2e-16)


def test_an_indefinite_matrix_is_noticed_even_where_theory_promised_otherwise():
    with pytest.raises(NotPositiveError, match=r"smallest eigenvalue is -0\.25,"):
        Canonical.from_gram(indefinite(), weights_of(30, False), BIASES["none"])


def test_a_negative_direction_that_a_free_bias_hides_is_found():
    K = np.eye(20) - 1.5 * np.ones((20, 20)) / 20  # eigenvalue -0.5 along the ones
    with pytest.raises(NotPositiveError, match=r"smallest eigenvalue is -0\.5,"):
        Canonical.from_gram(K, weights_of(20, False), BIASES["free"], rounding=2e-16)


def test_rounding_below_zero_is_accepted():
    K = indefinite(smallest=-1e-13)
    form = Canonical.from_gram(K, weights_of(30, False), BIASES["none"], rounding=2e-16)
    assert np.all(form.lam >= 0)


def test_the_floor_of_mu_follows_the_unit_and_the_precision():
    def weights(w):
        return Weights(w, np.ones_like(w))

    assert mu_floor(3.0, weights(np.ones(10))) == pytest.approx(3e-8)
    assert mu_floor(1.0, weights(np.full(10, 1e8))) == pytest.approx(1e10 * 2.0**-52)
    single = weights(np.ones(10, dtype=np.float32))
    assert mu_floor(1.0, single) == pytest.approx(100 * 2.0**-23)


def test_overflowing_kernel_values_are_explained():
    with pytest.raises(ValueError, match="overflow"):
        trace_unit(np.inf, 3.0)


# --- memory ---------------------------------------------------------------------------------------


def array_sizes(form):
    """Elements of every array that the form holds, its weights included."""
    parts = [getattr(form, f.name) for f in fields(form)]
    parts += [getattr(form.weights, f.name) for f in fields(form.weights)]
    return sorted(part.size for part in parts if isinstance(part, np.ndarray))


@each_bias
def test_the_full_form_holds_one_large_array(bias):
    form = decompose(Gram(data(), Kernel("rbf", gamma=1.0)), weights_of(N, True), bias)
    *others, largest = array_sizes(form)
    assert largest == form.U.size
    assert max(others) <= N


@each_bias
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_the_thin_form_holds_no_square_array(penalty, bias):
    gram, weights = Gram(data(), Kernel("rbf", gamma=1.0)), weights_of(N, True)
    form = decompose(gram, weights, bias, penalty, CENTRES)
    assert max(array_sizes(form)) <= N * (len(CENTRES) + 1)


@each_bias
def test_the_full_form_peaks_at_1_3_matrices_beyond_the_gram_matrix(bias, monkeypatch):
    n = 400
    monkeypatch.setattr(arrays, "BLOCK_ELEMENTS", 8 * n)
    K, weights = Gram(data(n), Kernel("rbf", gamma=1.0)).full(), weights_of(n, False)
    tracemalloc.start()
    try:
        Canonical.from_gram(K, weights, BIASES[bias])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.3 * 8 * n**2


@pytest.mark.parametrize("mu", [1e-2, 1e-4, 1e-6])
def test_a_far_row_that_is_its_own_centre_is_left_out_exactly(mu):
    """Its leverage is nearly one: what lies outside of U is small, and must not be cleared away."""
    X, y = make_blobs(900, 3, centers=3, cluster_std=3.0, random_state=1)
    far, Y = 514, np.eye(3)[y]
    centres = np.append(np.arange(300), far)
    K = rbf_kernel(X / 4, X[centres] / 4, gamma=10.0)
    Z = np.linalg.solve(np.linalg.cholesky(K[centres]), K.T).T
    form = Canonical.from_features(Z, Weights.unit(Z), BIASES["free"])
    assert 0 < form.rest[far] < 1e-12
    found = RidgePath.of(form, Y).at(mu).leave_one_out()[far]
    others = np.arange(900) != far
    mean, level = Z[others].mean(axis=0), Y[others].mean(axis=0)
    U, sigma, Vt = np.linalg.svd(Z[others] - mean, full_matrices=False)
    w = Vt.T @ ((sigma / (sigma**2 + mu))[:, None] * (U.T @ (Y[others] - level)))
    expected = Y[far] - (Z[far] - mean) @ w - level
    np.testing.assert_allclose(found, expected, atol=2e-14 / mu)


# --- single precision -----------------------------------------------------------------------------
