"""Data on which a width search is easily fooled, inputs that once broke it, and its accuracy."""

import numpy as np
import oracles
import pytest
from sklearn.metrics import roc_auc_score

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.datasets import make_torus


def wiggles(n, *, frequency=10.0, noise=0.3, slope=0.0, seed=0):
    rng = np.random.RandomState(seed)
    x = np.sort(6 * rng.rand(n, 1), axis=0)
    return x, slope * x[:, 0] + np.sin(frequency * x[:, 0]) + noise * rng.randn(n)


def checkerboard(n, *, cells=4, seed=0):
    X = cells * np.random.RandomState(seed).rand(n, 2)
    return X, np.floor(X).sum(axis=1).astype(int) % 2


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize(
    ("model", "data"),
    [
        (KernelRidgeCV, wiggles(600)),
        (KernelRidgeCV, wiggles(600, frequency=3.0, noise=0.1)),
        (KernelFisherClassifier, checkerboard(700)),
    ],
    ids=["fast wiggles", "slow wiggles", "checkerboard"],
)
def test_the_low_rank_search_finds_what_the_full_one_finds(model, data, penalty):
    quick = model(penalty=penalty, random_state=0).fit(*data).selection_
    exact = model(penalty=penalty, basis="full").fit(*data).selection_
    assert quick.value <= 1.05 * exact.value


@pytest.mark.parametrize("seed", range(2))
def test_a_laplacian_kernel_under_the_coefficients_penalty_is_not_priced_loosely(seed):
    rng = np.random.default_rng(seed)
    X = rng.random((600, 6))
    y = np.sin(6 * X[:, 0]) + np.cos(3 * X[:, 1])
    options = dict(kernel="laplacian", penalty="coefficients", random_state=0)
    quick = KernelRidgeCV(**options).fit(X, y).selection_
    exact = KernelRidgeCV(basis="full", **options).fit(X, y).selection_
    assert quick.value <= 1.01 * exact.value


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize("seed", range(2))
def test_counts_of_errors_are_priced_exactly(seed, penalty):
    X = np.random.default_rng(seed).random((600, 2))
    y = (np.prod(np.sin(4 * np.pi * X), axis=1) > 0).astype(int)
    options = dict(criterion="error", penalty=penalty, random_state=0)
    quick = KernelFisherClassifier(**options).fit(X, y)
    exact = KernelFisherClassifier(basis="full", **options).fit(X, y)
    assert quick.selection_.value == exact.selection_.value
    assert quick.gamma_ == exact.gamma_


@pytest.mark.parametrize("slope", [0.3, 1.0])
@pytest.mark.parametrize("frequency", [10.0, 20.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_small_hill_does_not_hide_a_deep_valley(seed, frequency, slope):
    X, y = wiggles(200, frequency=frequency, slope=slope, seed=seed)
    tuned = KernelRidgeCV().fit(X, y).selection_.value
    given = [KernelRidgeCV(gamma=gamma).fit(X, y).selection_.value for gamma in (3.0, 10.0, 30.0)]
    assert tuned <= 1.1 * min(given)


def test_a_criterion_with_negative_values_is_minimised():
    X, y = checkerboard(120)

    def loss(y, decision, sample_weight):
        return -roc_auc_score(y, decision, sample_weight=sample_weight)

    model = KernelFisherClassifier(criterion=loss).fit(X, y)
    assert model.selection_.value < -0.5


def test_large_weights_are_not_mistaken_for_an_indefinite_kernel():
    X, y = checkerboard(120)
    for weight in (np.full(120, 1e6), np.where(np.arange(120) % 2, 1.0, 1e8)):
        model = KernelFisherClassifier().fit(X, y, weight)
        assert np.all(np.isfinite(model.loo_decision_))


@pytest.mark.parametrize("basis", ["auto", "random", "pivoted"])
def test_a_negative_diagonal_is_an_indefinite_kernel_on_every_path(basis):
    K, y = np.eye(600), np.arange(600) % 2
    K[3, 3] = -1.0
    model = KernelFisherClassifier(
        "precomputed", basis=basis, n_components=None if basis == "auto" else 20, random_state=0
    )
    with pytest.raises(ValueError, match="smallest eigenvalue"):
        model.fit(K, y)


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize("n_components", [None, 2])
@pytest.mark.parametrize("kernel", ["linear", "cosine"])
def test_a_kernel_that_vanishes_predicts_the_majority(kernel, n_components, penalty):
    y = (np.arange(600) % 3 == 0).astype(int)
    options = dict(penalty=penalty, n_components=n_components, random_state=0)
    model = KernelFisherClassifier(kernel, **options).fit(np.zeros((600, 3)), y)
    assert np.all(model.predict(np.zeros((2, 3))) == 0)


@pytest.mark.parametrize("n", [200, 700])
def test_a_kernel_matrix_in_single_precision_is_positive_to_its_own_rounding(n):
    X, y = checkerboard(n)
    D = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    K = np.exp(-2 * D).astype(np.float32)
    model = KernelFisherClassifier("precomputed").fit(K, y)
    assert model.score(K, y) > 0.8


def test_the_coefficients_penalty_with_a_small_given_mu_does_not_square_the_kernel():
    X, y = checkerboard(40)
    tiny = dict(gamma=0.2, penalty="coefficients", regularization=1e-9)
    given = KernelFisherClassifier(**tiny).fit(X, y)
    through_features = KernelFisherClassifier(basis=np.arange(40), **tiny).fit(X, y)
    gap = np.abs(given.loo_decision_ - through_features.loo_decision_)
    assert given.selection_.method == "full"
    assert gap.max() < 1e-8 * np.abs(given.loo_decision_).max()


@pytest.mark.parametrize("criterion", ["press", "log_loss"])
@pytest.mark.parametrize("seed", range(3))
def test_leave_one_out_of_the_low_rank_path_is_exact_to_1e_7_at_the_chosen_mu(seed, criterion):
    X, y = make_torus(700, random_state=seed)
    tuned = KernelFisherClassifier(criterion=criterion, gamma=0.5, random_state=0).fit(X, y)
    assert tuned.selection_.method == "low-rank"
    exact = KernelFisherClassifier(
        gamma=tuned.gamma_, regularization=tuned.regularization_, basis="full"
    ).fit(X, y)
    residual = 2 * y - 1 - exact.loo_decision_
    gap = np.abs(tuned.loo_decision_ - exact.loo_decision_).max()
    assert gap < 1e-7 * np.sqrt(np.mean(residual**2))


@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
def test_where_the_rank_is_not_low_the_search_ends_where_the_full_path_does(bias):
    """Width and mu by single factorisations: the model of a decomposition there, and its least."""
    X, y = oracles.noisy_classes(560, 2, d=8, seed=0)
    quick = KernelFisherClassifier(bias=bias, random_state=0).fit(X, y)
    assert quick.selection_.method == "cholesky"
    options = {"bias": bias, "basis": "full", "gamma": quick.gamma_}
    exact = KernelFisherClassifier(**options).fit(X, y)
    assert exact.selection_.method == "full"
    assert quick.selection_.status is exact.selection_.status
    assert quick.selection_.value < exact.selection_.value * (1 + 1e-4)
    exact = KernelFisherClassifier(**options, regularization=quick.regularization_).fit(X, y)
    np.testing.assert_allclose(quick.loo_decision_, exact.loo_decision_, atol=1e-9)
    np.testing.assert_allclose(quick.selection_.value, exact.selection_.value, rtol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("offset", [1e4, 1e7])
def test_a_large_mean_of_the_targets_does_not_change_the_width(kernel, offset):
    """Rounding of the targets moves the search by what its last step is worth, and no more."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((560, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(560)
    plain = KernelRidgeCV(kernel, random_state=0).fit(X, y)
    moved = KernelRidgeCV(kernel, random_state=0).fit(X, y + offset)
    assert moved.gamma_ == pytest.approx(plain.gamma_, rel=0.02)
    assert moved.selection_.value == pytest.approx(plain.selection_.value, rel=1e-4)
    given = KernelRidgeCV(kernel, gamma=moved.gamma_, regularization=moved.regularization_)
    left_out = given.fit(X, y).loo_prediction_
    np.testing.assert_allclose(moved.loo_prediction_ - offset, left_out, atol=1e-5)


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_no_fit_ends_on_a_form_in_single_precision(offset):
    """At the largest mu its rounding looks negligible, and is not."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 5)), rng.standard_normal(600) + offset
    tuned = KernelRidgeCV(random_state=0).fit(X, y)
    given = KernelRidgeCV(gamma=tuned.gamma_, regularization=tuned.regularization_).fit(X, y)
    np.testing.assert_allclose(tuned.loo_prediction_, given.loo_prediction_, atol=1e-8)


@pytest.mark.parametrize("count", [1e2, 1e6])
def test_counts_of_any_size_leave_the_directions_that_mu_resolves(count):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(100, 1))
    y = np.sin(X[:, 0]) + 1e-4 * rng.standard_normal(100)
    tuned = KernelRidgeCV().fit(X, y, np.full(100, count))
    given = KernelRidgeCV(gamma=tuned.gamma_, regularization=tuned.regularization_)
    given.fit(X, y, np.full(100, count))  # a Cholesky factorisation has lost all digits here
    for model in (tuned, given):
        np.testing.assert_allclose(model.predict(X), np.sin(X[:, 0]), atol=5e-4)
