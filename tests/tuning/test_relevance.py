"""Widths by leave-one-out: the gradient is that of differences, and other rows judge the widths."""

import os

import numpy as np
import oracles
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.core.bias import BIASES
from fisherkit.core.weights import Weights
from fisherkit.datasets import make_bumpy, make_relevance, make_waveform
from fisherkit.model_selection import cross_val_predict
from fisherkit.tuning import relevance
from fisherkit.tuning.relevance import LeftOut

RULES = ("press", "log_loss", "smoothed_error")


def problem(n_classes=2, *, weighted=False, **options):
    rng = np.random.RandomState(n_classes)
    index = np.append(np.arange(n_classes), rng.randint(n_classes, size=22 - n_classes))
    X = rng.normal(size=(22, 3)) + index[:, None] * [1.0, 0.3, 0.0]
    Y = np.eye(n_classes)[index]
    Y = 2 * Y[:, 1:] - 1 if n_classes == 2 else Y
    weights = Weights.unit(X)
    if weighted:
        weights = Weights(rng.choice([0.5, 1.0, 2.0], size=22), rng.choice([1.0, 1.5], size=22))
    defaults = {"rule": "press", "penalty": "rkhs", "bias": "free", "balanced": False}
    options = defaults | options
    options["bias"] = BIASES[options["bias"]]
    return LeftOut(X, Y, weights, **options)


@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_gradient_is_that_of_differences(n_classes, rule, penalty, bias):
    left_out = problem(n_classes, weighted=True, rule=rule, penalty=penalty, bias=bias)
    theta = np.array([-1.0, -0.3, 0.1, -0.6])
    gradient = left_out(theta)[1]
    assert_allclose(
        gradient, oracles.slope_by_differences(lambda t: left_out(t)[0], theta), atol=1e-8
    )


@pytest.mark.parametrize("bias", ["free", "none"])
def test_the_losses_are_those_of_refits(bias):
    left_out = problem(bias=bias)
    theta = np.array([-1.0, -0.3, 0.1, -0.6])
    X = left_out.X * np.exp(0.5 * theta[1:]) / np.sqrt(2)
    y = left_out.Y[:, 0]
    losses = []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        model = KernelRidgeCV(gamma=1.0, regularization=np.exp(-1.0), bias=bias).fit(
            X[rest], y[rest]
        )
        losses.append((y[i] - model.predict(X[i : i + 1])[0]) ** 2)
    assert_allclose(left_out.losses(theta), losses, rtol=1e-9)
    assert_allclose(left_out(theta)[0], np.mean(losses), rtol=1e-9)


def test_the_search_never_ends_below_its_start():
    left_out = problem()
    start = np.array([0.0, -1.0])
    tied = left_out.tied(start)
    assert left_out(tied)[0] <= left_out(np.append(start, [-1.0, -1.0]))[0]
    assert len(set(tied[1:])) == 1
    loose = left_out.spread_out(tied, 2.0)
    assert left_out(loose)[0] <= left_out(tied)[0]
    tight = left_out.spread_out(tied, 0.05)
    assert np.ptp(tight[1:]) < np.ptp(loose[1:])
    assert left_out(left_out.best_mu(loose))[0] <= left_out(loose)[0] + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_relevant_features_come_first(seed):
    rng = np.random.RandomState(seed)
    rows, y = make_bumpy(150, random_state=seed)
    X = np.hstack([rows, rng.normal(size=(150, 6))])
    model = KernelFisherClassifier(ard=True).fit(X, y)
    assert model.widths_.spread > 0
    assert set(np.argsort(-model.relevance_)[:2]) == {0, 1}
    assert model.gamma_.shape == model.relevance_.shape == (8,)
    assert_allclose(model.relevance_, 2 * model.gamma_ * X.var(axis=0), rtol=1e-10)
    one = KernelFisherClassifier().fit(X, y)
    new, label = make_bumpy(2000, random_state=99)
    new = np.hstack([new, rng.normal(size=(2000, 6))])
    assert model.score(new, label) > one.score(new, label)


def test_noise_alone_falls_back_to_one_width():
    back = 0
    for seed in range(5):
        rng = np.random.RandomState(seed)
        X, y = rng.normal(size=(60, 6)), rng.permutation(np.arange(60) % 2)
        model = KernelFisherClassifier(ard=True).fit(X, y)
        back += model.widths_.spread == 0 and np.ptp(model.relevance_) < 1e-12
    assert back >= 4


def test_without_support_it_is_the_model_of_one_width_on_standardised_features(monkeypatch):
    monkeypatch.setattr(relevance, "_CLEARLY", np.inf)
    X, y = load_iris(return_X_y=True)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    one = KernelFisherClassifier(random_state=0).fit(scaled, y)
    many = KernelFisherClassifier(ard=True, random_state=0).fit(X, y)
    assert_allclose(many.decision_function(X), one.decision_function(scaled), rtol=1e-6, atol=1e-8)
    assert_allclose(many.loo_decision_, one.loo_decision_, rtol=1e-6, atol=1e-8)


def test_the_fitted_kernel_is_that_of_gamma():
    X, y = make_relevance(60, n_irrelevant=3, random_state=1)
    model = KernelFisherClassifier(ard=True, basis="full").fit(X, y)
    root = np.sqrt(model.gamma_)
    K = rbf_kernel(X * root, X[model.basis_indices_] * root, gamma=1.0)
    decision = K @ model.dual_coef_ + model.intercept_
    assert_allclose(model.decision_function(X), decision, rtol=1e-9, atol=1e-10)


def test_units_do_not_matter():
    X, y = make_relevance(60, n_irrelevant=3, random_state=2)
    units = np.array([1e4, 1.0, 1e-3, 7.0])
    plain = KernelFisherClassifier(ard=True).fit(X, y)
    other = KernelFisherClassifier(ard=True).fit(X * units + 5 * units, y)
    # Rows are split by a hash of their values, so only the kind of answer is the same.
    assert np.argmax(plain.relevance_) == np.argmax(other.relevance_) == 0


def test_a_constant_feature_is_irrelevant_and_changes_nothing():
    X, y = make_relevance(60, n_irrelevant=2, random_state=3)
    constant = np.column_stack([X[:, :1], np.full(60, 3.0), X[:, 1:]])
    one, two = (KernelFisherClassifier(ard=True).fit(rows, y) for rows in (X, constant))
    assert two.relevance_[1] == 0 and two.gamma_[1] == 0
    assert np.argmax(one.relevance_) == np.argmax(two.relevance_) == 0
    far = constant.copy()
    far[:, 1] = -1e6  # what never varied says nothing
    assert_allclose(two.decision_function(far), two.decision_function(constant))


def test_many_classes_many_rows_and_folds_work():
    X, y = make_waveform(1300, random_state=0)
    model = KernelFisherClassifier(ard=True, cv=5, basis="random", n_components=60)
    model.fit(X[:, :8], y)
    assert model.score(X[:, :8], y) > 0.5
    assert model.relevance_.shape == (8,)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"kernel": "laplacian"}, "kernel='rbf'"),
        ({"gamma": 0.5}, "gamma='loo'"),
        ({"regularization": 1.0}, "regularization='loo'"),
        ({"criterion": "error"}, "'smoothed_error'"),
        ({"criterion": lambda y, d, w: 0.0}, "'smoothed_error'"),
    ],
)
def test_what_widths_cannot_be_learned_with_is_refused(options, word):
    X, y = make_relevance(40, random_state=0)
    with pytest.raises(ValueError, match="ard=True") as caught:
        KernelFisherClassifier(ard=True, **options).fit(X, y)
    assert word in str(caught.value)


def test_closed_form_cross_validation_refuses_widths_learned_on_all_rows():
    X, y = make_relevance(40, random_state=0)
    with pytest.raises(ValueError, match="leak"):
        cross_val_predict(KernelFisherClassifier(ard=True), X, y)


@pytest.mark.parametrize("namespace", ["array_api_strict", "torch"])
def test_other_arrays_give_the_same_widths(namespace):
    if not os.environ.get("SCIPY_ARRAY_API"):
        pytest.skip("SCIPY_ARRAY_API is not set")
    xp = pytest.importorskip(namespace)
    X, y = make_relevance(60, n_irrelevant=3, random_state=0)
    plain = KernelFisherClassifier(ard=True).fit(X, y)
    with sklearn.config_context(array_api_dispatch=True):
        other = KernelFisherClassifier(ard=True).fit(xp.asarray(X), xp.asarray(y))
        p = np.asarray(other.predict_proba(xp.asarray(X)))
    # L-BFGS ends where its gradient is small: rounding decides on the digits after that
    assert_allclose(p, plain.predict_proba(X), atol=1e-6)


@parametrize_with_checks([KernelFisherClassifier(ard=True)])
def test_scikit_learn_accepts(estimator, check):
    check(estimator)
