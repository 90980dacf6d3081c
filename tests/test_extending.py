"""What ARCHITECTURE.md says of extensions: one class and one line in a registry, from outside."""

import numpy as np
import oracles
import pytest
from oracles import gap

from fisherkit import FisherCommitteeClassifier, KernelFisherClassifier, KernelRidgeCV
from fisherkit.core import BIASES, KERNELS
from fisherkit.core.bias import Penalized
from fisherkit.core.kernels.families import Family, Stationary
from fisherkit.tuning import CRITERIA, Criterion, HeldOut, Loss

N, GAMMA, MU = 30, 0.4, 0.2
SMALL = 300_000  # bytes


class Loose(Penalized):
    """A bias penalised less than the weight of a feature: b^2/9."""

    variance = 9.0


class Quartic(Loss):
    """r^4: one row far off counts more than under PRESS."""

    def value(self, u):
        return u**4

    def slope(self, u):
        return 4 * u**3

    def curvature(self, u):
        return 12 * u**2


class Cauchy(Family):
    """1/(1 + gamma |x - y|^2)."""

    parameters = ("gamma",)
    positive = True

    def block(self, X, Y, kernel):
        return 1 / (1 + kernel.gamma * np.sum((X[:, None, :] - Y[None, :, :]) ** 2, axis=2))


class Exponential(Stationary):
    """exp(-gamma |x - y|)."""

    positive = True

    def distances(self, X, Y):
        return np.sqrt(np.sum((X[:, None, :] - Y[None, :, :]) ** 2, axis=2))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(BIASES, "loose", Loose())
    monkeypatch.setitem(CRITERIA, "quartic", Quartic())
    monkeypatch.setitem(KERNELS, "cauchy", Cauchy())
    monkeypatch.setitem(KERNELS, "exponential", Exponential())


@pytest.fixture
def data():
    X, y = oracles.noisy_classes(N, seed=3)
    return X, y, X @ np.ones(X.shape[1]) + 0.3 * np.random.default_rng(0).normal(size=N) + 2.0


def in_memory_and_blocks(estimator, criterion_or_bias, targets):
    """Fits on some centres, to rows in memory and to rows read in blocks."""
    X, y = oracles.noisy_classes(600, seed=4)
    options = {"gamma": GAMMA, "basis": np.arange(0, 600, 20), **criterion_or_bias}
    y = y if targets == "classes" else X[:, 0] + y
    inside = estimator(**options, max_memory="8GB").fit(X, y)
    blocks = estimator(**options, max_memory=SMALL).fit(X, y)
    assert blocks.selection_.method == "streamed"
    assert blocks.regularization_ == pytest.approx(inside.regularization_, rel=1e-6)
    return inside, blocks


def left_out_by_refits(model, X, y):
    """The prediction of each row by the same model, fitted without it."""
    rest = [np.delete(np.arange(N), i) for i in range(N)]
    return np.array([model.fit(X[k], y[k]).predict(X[i : i + 1])[0] for i, k in enumerate(rest)])


def with_constant(X):
    """The kernel that a bias of variance 9 is a part of."""
    return oracles.gram(X, gamma=GAMMA) + 9.0


def test_a_bias_is_fitted_and_left_out_as_a_part_of_the_kernel(data):
    X, _, t = data
    K = with_constant(X)
    fit = KernelRidgeCV(gamma=GAMMA, regularization=MU, bias="loose").fit(X, t)
    coef, _ = oracles.ridge(K, t, MU, bias="none")
    assert gap(fit.predict(X), K @ coef) < 1e-10
    assert gap(fit.intercept_, 9.0 * coef.sum()) < 1e-10
    assert gap(fit.loo_prediction_, oracles.leave_one_out(K, t, MU, bias="none")) < 1e-10
    assert gap(fit.loo_prediction_, left_out_by_refits(fit, X, t)) < 1e-10


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_a_bias_serves_searches_centres_and_blocks_of_rows(data, penalty):
    X, y, t = data
    options = {"gamma": GAMMA, "penalty": penalty, "bias": "loose"}
    found = KernelRidgeCV(**options).fit(X, t)
    options["regularization"] = found.regularization_
    assert gap(found.loo_prediction_, KernelRidgeCV(**options).fit(X, t).loo_prediction_) < 1e-9
    options["basis"] = np.arange(0, N, 3)
    inside = KernelRidgeCV(**options).fit(X, t)
    wider = np.hstack(
        [
            oracles.features(oracles.gram(X, gamma=GAMMA), penalty, options["basis"]),
            np.full((N, 1), 3.0),
        ]
    )
    truth = oracles.leave_one_out(wider @ wider.T, t, options["regularization"], bias="none")
    assert gap(inside.loo_prediction_, truth) < 1e-8
    KernelFisherClassifier(bias="loose", ard=True).fit(X, y)
    inside, blocks = in_memory_and_blocks(
        KernelRidgeCV, {"penalty": penalty, "bias": "loose"}, "numbers"
    )
    assert gap(inside.loo_prediction_, blocks.loo_prediction_) < 1e-6


def test_a_loss_chooses_the_model_by_its_mean_over_rows_left_out(data):
    X, y, _ = data
    fit = KernelFisherClassifier(gamma=GAMMA, criterion="quartic").fit(X, y)
    signs = 2.0 * y - 1

    def price(mu):
        loo = oracles.leave_one_out(oracles.gram(X, gamma=GAMMA), signs, mu)
        return np.mean((signs - loo) ** 4)

    best = fit.regularization_
    assert fit.selection_.criterion == "quartic"
    assert fit.selection_.value == pytest.approx(price(best), rel=1e-9)
    assert price(best) < min(price(best * 1.05), price(best / 1.05))


@pytest.mark.parametrize("n_targets", [1, 3])
def test_the_slopes_of_a_loss_are_those_of_differences(n_targets):
    rng = np.random.default_rng(1)
    Y, R = rng.normal(size=(2, 6, n_targets))
    zero, weight = np.zeros_like(Y), rng.uniform(1, 2, 6)
    criterion = Criterion("quartic", HeldOut(Y, zero, zero, weight))
    losses, slopes = criterion.slopes(R)
    assert weight @ losses / weight.sum() == pytest.approx(criterion.of_residuals(R[:, :, None])[0])
    truth = oracles.slope_by_differences(
        lambda r: float(np.sum(criterion.slopes(r.reshape(R.shape))[0])), R.ravel()
    )
    assert gap(slopes.ravel(), truth) < 1e-6


def test_a_loss_serves_widths_of_features_and_blocks_of_rows(data):
    X, y, _ = data
    KernelFisherClassifier(criterion="quartic", ard=True).fit(X, y)
    inside, blocks = in_memory_and_blocks(
        KernelFisherClassifier, {"criterion": "quartic"}, "classes"
    )
    assert gap(inside.loo_decision_, blocks.loo_decision_) < 1e-6


def cauchy(x, z, gamma):
    return 1 / (1 + gamma * np.sum((x - z) ** 2))


def exponential(x, z, gamma):
    return np.exp(-gamma * np.sqrt(np.sum((x - z) ** 2)))


each_kernel = pytest.mark.parametrize("pair", [cauchy, exponential])


@each_kernel
def test_a_kernel_is_fitted_left_out_and_searched_over(pair, data):
    X, y, t = data
    found = KernelRidgeCV(kernel=pair.__name__, gamma="loo").fit(X, t)
    mu, K = found.regularization_, np.array([[pair(x, z, found.gamma_) for z in X] for x in X])
    coef, b = oracles.ridge(K, t, mu)
    assert gap(found.predict(X), K @ coef + b) < 1e-8
    assert gap(found.loo_prediction_, oracles.leave_one_out(K, t, mu)) < 1e-8
    committee = FisherCommitteeClassifier(kernels=(pair.__name__, "rbf")).fit(X, y)
    assert committee.predict_proba(X).shape == (N, 2)


@each_kernel
@pytest.mark.parametrize("basis", ["auto", "centres"])
def test_a_kernel_is_that_of_a_callable_on_any_path(pair, basis):
    X, y = oracles.noisy_classes(600, seed=4)
    options = {"regularization": 0.5, "random_state": 0}
    if basis == "centres":
        options["basis"] = np.arange(0, 600, 20)
    ours = KernelRidgeCV(kernel=pair.__name__, gamma=0.1, **options).fit(X, 1.0 * y)
    theirs = KernelRidgeCV(kernel=pair, kernel_params={"gamma": 0.1}, **options).fit(X, 1.0 * y)
    assert gap(ours.loo_prediction_, theirs.loo_prediction_) < 1e-6
    assert gap(ours.predict(X[:50]), theirs.predict(X[:50])) < 1e-6
