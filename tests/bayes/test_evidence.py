"""The evidence against the density it claims to be, its gradient by differences, its theorems.

Section numbers are those of the derivation: 2.2 the collapsed objective, 2.3 the nugget theorem.
"""

import em
import numpy as np
import oracles
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from fisherkit.bayes.evidence import (
    EVIDENCE,
    Contrasts,
    Dense,
    Profile,
    Thin,
    contrast_scatter,
    fisher,
    least_squares,
    resolvent,
)
from fisherkit.core.covariance import KernelObject, Parametric
from fisherkit.core.weights import Weights

D = 3
CLASSES = pytest.mark.parametrize("n_classes", [2, 3])
KINDS = pytest.mark.parametrize("kind", EVIDENCE)
COVARIANCES = {
    "rbf": (Parametric(1), [0.5, -0.7]),
    "ard": (Parametric(D), [0.5, -0.7, 0.2, -2.0]),
    "ard + linear": (Parametric(D, linear=True), [0.5, -1.1, -0.7, 0.2, -2.0]),
    "linear": (Parametric(1, rbf=False, linear=True), [-0.4]),
    "linear ard": (Parametric(D, rbf=False, linear=True), [-0.4, 0.6, -1.0]),
    "RBF object": (KernelObject(RBF(0.8)), [0.5, 0.1]),
    "Matern object": (KernelObject(Matern([0.8, 1.0, 2.0], nu=2.5)), [0.5, 0.1, 0.4, -0.2]),
}
EVERY = pytest.mark.parametrize("case", COVARIANCES.values(), ids=COVARIANCES)
PARAMETRIC = pytest.mark.parametrize("name", ["rbf", "ard", "ard + linear", "linear", "linear ard"])


def problem(n=36, n_classes=2, seed=0, frequency=None, apart=1.0):
    """Rows, labels and contrasts; ``apart`` moves the classes away from each other."""
    X, y = oracles.noisy_classes(n, n_classes, D, seed)
    X[:, :n_classes] += apart * oracles.indicators(y)
    return X, y, contrasts_of(X, y, frequency)


def contrasts_of(X, y, frequency=None):
    frequency = np.ones(len(X)) if frequency is None else frequency
    return Contrasts.of(oracles.indicators(y), Weights(frequency, np.ones(len(X))))


def within(contrasts, K):
    """W = Z'(I + PKP)^-1 Z and log |I + PKP|, with inverses."""
    n = len(K)
    P = np.eye(n) - np.ones((n, n)) / n
    M = np.eye(n) + P @ K @ P
    return contrasts.Z.T @ np.linalg.inv(M) @ contrasts.Z, np.linalg.slogdet(M)[1]


def overlapping(n=40, seed=0, gamma=0.5, rho=0.5):
    """A two-class problem with a nugget: labels that the kernel cannot explain."""
    X, y = oracles.noisy_classes(n, 2, D, seed)
    return X, y, contrasts_of(X, y), rho * oracles.gram(X, gamma=gamma)


def separated(n=40, seed=0):
    X, y = oracles.noisy_classes(n, 2, D, seed)
    X[:, 0] += 12 * y
    return X, y, contrasts_of(X, y), 100 * oracles.gram(X, gamma=0.05)


# --- contrasts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [2, 3, 5])
def test_contrasts_are_orthonormal_and_point_to_the_last_class(c):
    y = np.arange(20) % c
    contrasts = contrasts_of(np.zeros((20, 1)), y)
    np.testing.assert_allclose(contrasts.E, oracles.simplex_contrasts(c), atol=1e-14)
    np.testing.assert_allclose(contrasts.E.T @ contrasts.E, np.eye(c - 1), atol=1e-14)
    np.testing.assert_allclose(contrasts.E.sum(axis=0), 0.0, atol=1e-14)


@CLASSES
def test_the_scatter_of_the_contrasts_is_that_of_Z(n_classes):
    frequency = np.random.default_rng(0).integers(1, 4, 36).astype(float)
    _, y, contrasts = problem(36, n_classes, frequency=frequency)
    np.testing.assert_allclose(contrasts.Z.T @ contrasts.Z, contrasts.scatter, rtol=1e-12)
    np.testing.assert_allclose(contrasts.counts, frequency @ oracles.indicators(y))
    assert contrasts.total == frequency.sum()
    many = np.stack([contrasts.counts, contrasts.counts + 1])
    np.testing.assert_allclose(contrast_scatter(many, contrasts.E)[0], contrasts.scatter)


def test_the_resolvent_factors_the_centred_kernel_plus_one():
    _, _, _, K = overlapping()
    factor = resolvent(K, np.ones(40))
    P = np.eye(40) - np.ones((40, 40)) / 40
    lower = np.tril(factor)
    np.testing.assert_allclose(lower @ lower.T, np.eye(40) + P @ K @ P, atol=1e-12)


def test_a_kernel_that_is_not_positive_is_refused():
    K = np.diag([-5.0, 1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="positive semi-definite"):
        resolvent(K, np.ones(4))


# --- the value ------------------------------------------------------------------------------------


@CLASSES
@pytest.mark.parametrize("beta", [0.3, 4.0])
@pytest.mark.parametrize("nugget", [0.0, 0.7])
def test_the_value_is_the_log_density_of_contrasts_and_centres(n_classes, beta, nugget):
    X, y, contrasts = problem(30, n_classes)
    K = 1.5 * oracles.gram(X, gamma=0.4)
    W, log_det = within(contrasts, K / (1 / beta + nugget))
    k = n_classes - 1
    ours = em.fixed_noise(W, contrasts, beta, 1 + beta * nugget) - 0.5 * k * log_det
    assert ours == pytest.approx(oracles.fisher_evidence(K, y, beta, nugget), abs=1e-9)


@CLASSES
@EVERY
def test_the_evidence_is_the_log_density_at_the_noise_that_it_reports(n_classes, case):
    covariance, theta = case
    theta = np.array(theta)
    X, y, contrasts = problem(36, n_classes)
    value = Dense(covariance, X, contrasts)(theta)[0]
    K = covariance.block(theta, X, X).values
    profile = fisher(within(contrasts, K)[0], contrasts)
    noise, nugget = profile.ratio / profile.beta, (profile.ratio - 1) / profile.beta
    truth = oracles.fisher_evidence(noise * K, y, profile.beta, nugget)
    assert value == pytest.approx(truth, abs=1e-8)


@EVERY
@KINDS
def test_the_value_alone_is_the_value(case, kind):
    covariance, theta = case
    X, _, contrasts = problem(36, 3)
    evidence = Dense(covariance, X, contrasts, kind)
    assert evidence.value(np.array(theta)) == pytest.approx(evidence(np.array(theta))[0], rel=1e-12)


@CLASSES
def test_the_label_evidence_is_the_restricted_density_of_the_contrasts(n_classes):
    """GP regression on Z with flat bias: the N - 1 contrasts of the rows have covariance s2 M."""
    X, _, contrasts = problem(30, n_classes)
    K = oracles.gram(X, gamma=0.4)
    ours = Dense(KernelObject(RBF(np.sqrt(1 / 0.8))), X, contrasts, "lssvm")
    value = ours(np.array([0.0, 0.5 * np.log(1 / 0.8)]))[0]
    T = np.linalg.qr(np.c_[np.ones(30), np.eye(30)[:, :-1]])[0][:, 1:]  # orthogonal to the ones
    S, targets = T.T @ (np.eye(30) + K) @ T, T.T @ contrasts.Z
    s2 = np.mean([z @ np.linalg.solve(S, z) / 29 for z in targets.T])
    truth = 0.0
    for z in targets.T:
        truth -= 0.5 * (29 * np.log(2 * np.pi * s2) + np.linalg.slogdet(S)[1])
        truth -= 0.5 * z @ np.linalg.solve(S, z) / s2
    assert value == pytest.approx(truth, abs=1e-8)


@CLASSES
@KINDS
def test_the_level_of_the_kernel_is_invisible(n_classes, kind):
    """Adding v1' + 1v' to K changes nothing: nothing observes the level of f."""
    X, _, contrasts = problem(30, n_classes)
    K, v = oracles.gram(X, gamma=0.4), np.linspace(0, 2, 30)
    (W, log_det), (W_lifted, lifted) = (
        within(contrasts, kernel) for kernel in (K, K + v[:, None] + v[None, :] + 5)
    )
    assert log_det == pytest.approx(lifted, abs=1e-9)
    one, two = (EVIDENCE[kind](each, contrasts).value for each in (W, W_lifted))
    assert one == pytest.approx(two, abs=1e-9)


@CLASSES
@KINDS
def test_weight_two_is_the_row_twice(n_classes, kind):
    frequency = np.random.default_rng(1).integers(1, 4, 30)
    X, y, weighted = problem(30, n_classes, frequency=frequency.astype(float))
    again = np.repeat(np.arange(30), frequency)
    covariance, theta = Parametric(D, linear=True), np.array([0.5, -1.1, -0.7, 0.2, -2.0])
    one = Dense(covariance, X, weighted, kind)(theta)
    two = Dense(covariance, X[again], contrasts_of(X[again], y[again]), kind)(theta)
    constant = one[0] - two[0]
    np.testing.assert_allclose(one[1], two[1], rtol=1e-8, atol=1e-9)
    moved = theta + 0.3
    other = Dense(covariance, X, weighted, kind)(moved)[0]
    other -= Dense(covariance, X[again], contrasts_of(X[again], y[again]), kind)(moved)[0]
    assert constant == pytest.approx(0.0, abs=1e-9) and other == pytest.approx(0.0, abs=1e-9)


# --- gradients ------------------------------------------------------------------------------------


@CLASSES
@KINDS
@EVERY
def test_the_gradient_equals_differences(case, kind, n_classes):
    covariance, theta = case
    X, _, contrasts = problem(36, n_classes)
    evidence = Dense(covariance, X, contrasts, kind)
    gradient = evidence(np.array(theta))[1]
    truth = oracles.slope_by_differences(evidence.value, np.array(theta))
    np.testing.assert_allclose(gradient, truth, rtol=1e-6, atol=1e-6)


@CLASSES
@KINDS
@PARAMETRIC
def test_the_gradient_with_inducing_points_equals_differences(name, kind, n_classes):
    covariance, theta = COVARIANCES[name]
    frequency = np.random.default_rng(0).integers(1, 4, 36).astype(float)
    X, _, contrasts = problem(36, n_classes, frequency=frequency)
    U, jitter = (X[:8], 1e-6) if covariance.rbf else (np.eye(D), 0.0)
    evidence = Thin(covariance, X, U, contrasts, kind, jitter)
    gradient = evidence(np.array(theta))[1]
    truth = oracles.slope_by_differences(evidence.value, np.array(theta))
    np.testing.assert_allclose(gradient, truth, rtol=1e-6, atol=1e-6)


@KINDS
def test_the_gradient_equals_differences_where_the_nugget_is_nothing(kind):
    X, _, contrasts, _ = separated()
    evidence = Dense(Parametric(D), X, contrasts, kind)
    theta = np.array([4.0, -1.5, -2.0, -3.0])
    W = within(contrasts, Parametric(D).block(theta, X, X).values)[0]
    assert fisher(W, contrasts).ratio == 1.0
    truth = oracles.slope_by_differences(evidence.value, theta)
    np.testing.assert_allclose(evidence(theta)[1], truth, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("profile", [fisher, least_squares])
@CLASSES
def test_the_slope_of_a_profile_equals_differences(profile, n_classes):
    X, _, contrasts = problem(30, n_classes)
    W = within(contrasts, oracles.gram(X, gamma=0.4))[0]
    slope = profile(W, contrasts).slope
    for i in range(len(W)):
        for j in range(len(W)):
            move = np.zeros_like(W)
            move[i, j] += 0.5e-5
            move[j, i] += 0.5e-5
            rise = profile(W + move, contrasts).value - profile(W - move, contrasts).value
            assert slope[i, j] == pytest.approx(rise / 2e-5, rel=1e-6, abs=1e-6)


# --- inducing points ------------------------------------------------------------------------------


@CLASSES
@KINDS
def test_all_rows_as_inducing_points_are_exact(n_classes, kind):
    X, _, contrasts = problem(30, n_classes)
    theta = np.array([0.5, 0.4, 0.2, 0.1])  # a kernel of full rank
    dense = Dense(Parametric(D), X, contrasts, kind)(theta)
    thin = Thin(Parametric(D), X, X, contrasts, kind, jitter=1e-13)(theta)
    assert thin[0] == pytest.approx(dense[0], abs=1e-8)
    np.testing.assert_allclose(thin[1], dense[1], rtol=1e-7, atol=1e-7)


@CLASSES
@KINDS
@pytest.mark.parametrize("name", ["linear", "linear ard"])
def test_unit_vectors_are_exact_for_a_linear_kernel(n_classes, kind, name):
    covariance, theta = COVARIANCES[name]
    X, _, contrasts = problem(30, n_classes)
    dense = Dense(covariance, X, contrasts, kind)(np.array(theta))
    thin = Thin(covariance, X, np.eye(D), contrasts, kind, jitter=0.0)(np.array(theta))
    assert thin[0] == pytest.approx(dense[0], abs=1e-10)
    np.testing.assert_allclose(thin[1], dense[1], rtol=1e-9, atol=1e-10)


def test_few_inducing_points_are_not_exact():
    X, _, contrasts = problem(30)
    theta = np.array([0.5, 0.4, 0.2, 0.1])
    dense = Dense(Parametric(D), X, contrasts)(theta)[0]
    assert abs(Thin(Parametric(D), X, X[:4], contrasts)(theta)[0] - dense) > 1e-2


# --- the nugget theorem (2.3) ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_with_overlap_noise_and_ratio_are_those_of_the_theorem(seed):
    _, y, contrasts, K = overlapping(seed=seed)
    counts = np.bincount(y)
    t, n_h = oracles.nugget_gap(*counts), np.sum(1 / counts)
    W = within(contrasts, K)[0]
    r = W[0, 0] / 2  # the contrast is +-1/sqrt 2, the theorem's code +-1/2
    profile = fisher(W, contrasts)
    assert (t + n_h) * r > 1  # the classes overlap
    assert profile.ratio == pytest.approx((t + n_h) * r, rel=1e-9)
    assert profile.beta == pytest.approx((len(y) - 2) / (4 / t + 1), rel=1e-9)


def test_fifty_rows_of_each_class_have_a_noise_precision_of_8_42():
    y = np.arange(100) % 2
    X = np.random.default_rng(0).normal(size=(100, 2)) + y[:, None]
    contrasts = contrasts_of(X, y)
    W = within(contrasts, 0.3 * oracles.gram(X, gamma=0.5))[0]
    assert fisher(W, contrasts).beta == pytest.approx(8.42, abs=0.005)


def test_with_overlap_beta_depends_on_the_class_sizes_alone():
    _, y, _, _ = overlapping()
    betas = []
    for seed in range(5):
        X = np.random.default_rng(seed).normal(size=(40, D)) + (0.1 * seed) * y[:, None]
        contrasts = contrasts_of(X, y)
        K = (0.1 + 0.1 * seed) * oracles.gram(X, gamma=0.1 + 0.2 * seed)
        betas.append(fisher(within(contrasts, K)[0], contrasts).beta)
    np.testing.assert_allclose(betas, betas[0], rtol=1e-9)


def difference(X, contrasts, theta):
    fisherian, labels = (Dense(Parametric(1), X, contrasts, kind) for kind in EVIDENCE)
    return fisherian(theta)[0] - labels(theta)[0]


def test_with_overlap_the_evidence_is_that_of_least_squares_but_for_a_constant():
    X, _, contrasts, _ = overlapping()
    thetas = [np.array([rho, w]) for rho in (-2.0, -1.0, 0.0) for w in (-3.0, -1.0, 0.0)]
    gaps = [difference(X, contrasts, theta) for theta in thetas]
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-11)


def test_separable_classes_have_no_nugget_and_another_evidence():
    X, _, contrasts, K = separated()
    assert fisher(within(contrasts, K)[0], contrasts).ratio == 1.0
    gaps = [difference(X, contrasts, np.array([rho, -2.0])) for rho in (3.0, 4.0, 6.0)]
    assert np.ptp(gaps) > 0.1


@CLASSES
@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
def test_no_other_noise_has_a_higher_evidence(n_classes, scale):
    X, _, contrasts = problem(36, n_classes)
    W = within(contrasts, scale * oracles.gram(X, gamma=0.4))[0]
    best = fisher(W, contrasts)
    assert best.value == pytest.approx(
        em.fixed_noise(W, contrasts, best.beta, best.ratio), rel=1e-11, abs=1e-9
    )
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        assert em.fixed_noise(W, contrasts, best.beta * factor, best.ratio) < best.value
        if best.ratio * factor >= 1:
            assert em.fixed_noise(W, contrasts, best.beta, best.ratio * factor) < best.value


def test_a_profile_without_a_kernel_is_finite():
    """K = 0: W is the scatter itself; without a nugget the centres could not be apart."""
    _, _, contrasts = problem(30)
    profile = fisher(contrasts.scatter, contrasts)
    assert isinstance(profile, Profile)
    assert np.isfinite(profile.value) and profile.ratio > 1 and np.isfinite(profile.beta)
