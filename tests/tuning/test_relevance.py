"""One width per feature: by what rows that had no part in the relevances say of them."""

import os

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_friedman1
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.core import Kernel
from fisherkit.core.bias import BIASES
from fisherkit.core.weights import Weights
from fisherkit.datasets import make_bumpy, make_relevance, make_waveform
from fisherkit.estimators import ard
from fisherkit.estimators.base import standardisation
from fisherkit.model_selection import cross_val_predict
from fisherkit.tuning import relevance


def weights(frequency):
    frequency = np.asarray(frequency, dtype=float)
    return Weights(frequency, np.ones_like(frequency))


def noisy(seed, n=150, noise=6):
    """Two columns of eight say something."""
    rows, y = make_bumpy(n, random_state=seed)
    return np.hstack([rows, np.random.RandomState(seed).normal(size=(n, noise))]), y


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_powers_are_judged_by_rows_that_had_no_part_in_the_relevances(strength):
    X, y = noisy(0, n=80, noise=2)
    Y, kernel, own = (2.0 * y - 1)[:, None], Kernel("rbf", gamma=0.3), weights(np.ones(80))
    rows = relevance.SeenRows(X, Y, own)
    places = relevance.deal(X, own, y)
    folds = relevance.learned_folds(rows, kernel, 0.5, places)
    seen = []

    def losses(scores):
        seen.append(scores[:, 0])
        return (scores[:, 0] - Y[:, 0]) ** 2

    record = relevance.choose_strength(folds, kernel, 0.5, losses, own)[1]
    scores = np.empty(80)
    for test in places:
        train = np.setdiff1d(np.arange(80), test)
        inside = relevance.SeenRows(X[train], Y[train], weights(np.ones(len(train))))
        scale = inside.relevance(kernel, 0.5) ** strength
        scale *= 2 / np.linalg.norm(scale)
        model = KernelRidgeCV(gamma=0.3, regularization=0.5).fit(X[train] * scale, Y[train, 0])
        scores[test] = model.predict(X[test] * scale)
    number = [0.0, *relevance.STRENGTHS].index(strength)
    assert_allclose(seen[number], scores, rtol=1e-8)
    difference = (seen[0] - Y[:, 0]) ** 2 - (scores - Y[:, 0]) ** 2
    assert_allclose(record["gain"][number], difference.mean(), rtol=1e-6, atol=1e-12)
    error = np.std(difference) / 80**0.5
    assert_allclose(record["standard_error"][number], error, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": "laplacian"},
        {"kernel": "exponential", "multiclass": "lda"},
        {"penalty": "coefficients"},
        {"bias": "none", "cv": 3},
        {"basis": "random", "n_components": 40, "random_state": 0},
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_left_out_scores_are_those_of_models_that_learn_without_the_fold(options, n_classes):
    """The promise behind honest probabilities, by brute force."""
    X, y = noisy(1)
    y = y if n_classes == 2 else y + (X[:, 0] > 0.5) * (1 - y) * 2
    model = KernelFisherClassifier(ard=True, criterion="press", **options).fit(X, y)
    strength, (mu, gamma) = model.widths_.strength, (model.regularization_, model.selection_.gamma)
    assert strength > 0
    Z, n = X * (1 / standardisation(X, weights(np.ones(len(y))))[2]), len(y)
    plain = KernelFisherClassifier(criterion="press", **options).fit(Z, y)
    start = plain.gamma_, plain.regularization_
    if options.get("penalty") == "coefficients":
        base = KernelFisherClassifier(criterion="press", basis="full").fit(Z, y)
        start = base.gamma_, base.regularization_
    kernel, index = options.get("kernel", "rbf"), np.unique(y, return_inverse=True)[1]
    Y = 2.0 * y[:, None] - 1 if n_classes == 2 else np.eye(n_classes)[index]
    bias = options.get("bias", "free")
    scores, means = np.empty((2, n, Y.shape[1]))
    for test in relevance.deal(X, weights(np.ones(n)), index):
        train = np.setdiff1d(np.arange(n), test)
        own = relevance.SeenRows(Z[train], Y[train], weights(np.ones(len(train))), BIASES[bias])
        scale = own.relevance(Kernel(kernel, gamma=start[0]), start[1]) ** strength
        scale *= (8 / np.sum(scale**2)) ** 0.5
        inside = {}
        if "basis" in options:
            inside = {"basis": np.flatnonzero(np.isin(train, model.basis_indices_))}
        fold = KernelRidgeCV(
            kernel,
            gamma=gamma,
            regularization=mu,
            penalty=options.get("penalty", "rkhs"),
            bias=bias,
            **inside,
        ).fit(Z[train] * scale, Y[train])
        scores[test] = fold.predict(Z[test] * scale)
        means[test] = Y[train].mean(axis=0)
    if n_classes == 2:
        assert_allclose(model.loo_decision_, scores[:, 0], rtol=1e-4, atol=1e-5)
    elif options.get("multiclass") != "lda":
        centred = scores - means * scores.sum(axis=1, keepdims=True)
        assert_allclose(model.loo_decision_, model.calibration_(centred), atol=1e-3)
    else:
        shift = model.loo_decision_ - scores  # the penalised-LDA rule is affine but for its scatter
        assert 0.5 < np.mean(model.classes_[model.loo_decision_.argmax(axis=1)] == y) < 1, shift


@pytest.mark.parametrize("seed", range(3))
def test_relevant_features_come_first(seed):
    rng = np.random.RandomState(seed)
    rows, y = make_bumpy(150, random_state=seed)
    X = np.hstack([rows, rng.normal(size=(150, 6))])
    model = KernelFisherClassifier(ard=True).fit(X, y)
    assert model.widths_.strength > 0 and model.widths_.spread > 0
    assert set(np.argsort(-model.relevance_)[:2]) == {0, 1}
    assert model.gamma_.shape == model.relevance_.shape == (8,)
    assert_allclose(model.relevance_, 2 * model.gamma_ * X.var(axis=0), rtol=1e-10)
    one = KernelFisherClassifier().fit(X, y)
    new, label = make_bumpy(2000, random_state=99)
    new = np.hstack([new, rng.normal(size=(2000, 6))])
    assert model.score(new, label) > one.score(new, label)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_regression_finds_the_columns_that_matter(kernel):
    X, y = make_friedman1(200, n_features=12, noise=1.0, random_state=0)
    new, truth = make_friedman1(1000, n_features=12, random_state=1)
    Y = np.column_stack([y, 15 * X[:, 5]])
    for targets, expected in ((y, {0, 1, 2, 3, 4}), (Y, {0, 1, 2, 3, 4, 5})):
        model = KernelRidgeCV(kernel, ard=True).fit(X, targets)
        assert set(np.argsort(-model.relevance_)[: len(expected)]) == expected
        assert model.loo_prediction_.shape == targets.shape
    model, one = (KernelRidgeCV(kernel, ard=ard).fit(X, y) for ard in (True, False))
    assert model.score(new, truth) > one.score(new, truth)
    left_out = np.mean((model.loo_prediction_ - y) ** 2)
    assert left_out > np.mean((model.predict(new) - truth) ** 2)  # y has noise, truth has none


def test_noise_alone_mostly_falls_back_to_one_width_and_stays_unsure():
    back, losses, new = 0, [], np.random.RandomState(99).normal(size=(500, 6))
    for seed in range(10):
        rng = np.random.RandomState(seed)
        X, y = rng.normal(size=(60, 6)), rng.permutation(np.arange(60) % 2)
        model = KernelFisherClassifier(ard=True).fit(X, y)
        back += model.widths_.spread == 0 and np.ptp(model.relevance_) < 1e-12
        losses.append(log_loss(np.arange(500) % 2, model.predict_proba(new)))
    assert back >= 7
    assert np.mean(losses) < np.log(2) + 0.06


def test_without_support_it_is_the_model_of_one_width_on_standardised_features(monkeypatch):
    monkeypatch.setattr(relevance, "_CLEARLY", np.inf)
    X, y = load_iris(return_X_y=True)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    one = KernelFisherClassifier(random_state=0).fit(scaled, y)
    many = KernelFisherClassifier(ard=True, random_state=0).fit(X, y)
    assert_allclose(many.decision_function(X), one.decision_function(scaled), rtol=1e-6, atol=1e-8)
    assert_allclose(many.loo_decision_, one.loo_decision_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_the_fitted_kernel_is_that_of_gamma(kernel):
    X, y = make_relevance(60, n_irrelevant=3, random_state=1)
    model = KernelFisherClassifier(kernel, ard=True, basis="full").fit(X, y)
    size = np.sqrt(model.gamma_) if kernel == "rbf" else model.gamma_
    values = rbf_kernel if kernel == "rbf" else laplacian_kernel
    K = values(X * size, X[model.basis_indices_] * size, gamma=1.0)
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


def test_many_classes_and_more_rows_than_it_learns_from_work(monkeypatch):
    monkeypatch.setattr(ard, "LARGEST", 200)
    X, y = make_waveform(600, random_state=0)
    model = KernelFisherClassifier(ard=True, cv=5, basis="random", n_components=60)
    model.fit(X[:, :8], y)
    assert model.score(X[:, :8], y) > 0.5
    assert model.relevance_.shape == (8,)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"kernel": "linear"}, "'exponential', 'laplacian', 'rbf'"),
        ({"kernel": lambda x, y: x @ y}, "'exponential', 'laplacian', 'rbf'"),
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
    assert_allclose(p, plain.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_weights_are_copies_and_the_order_of_rows_does_not_matter(kernel):
    X, y = noisy(0, n=100)
    rng = np.random.RandomState(0)
    copies = rng.randint(0, 4, size=100)
    weighted = KernelFisherClassifier(kernel, ard=True).fit(X, y, sample_weight=copies)
    order = rng.permutation(np.repeat(np.arange(100), copies))
    repeated = KernelFisherClassifier(kernel, ard=True).fit(X[order], y[order])
    assert weighted.widths_.strength == repeated.widths_.strength > 0
    assert_allclose(weighted.relevance_, repeated.relevance_, rtol=1e-4)
    new = rng.normal(size=(50, 8))
    assert_allclose(weighted.predict_proba(new), repeated.predict_proba(new), atol=1e-4)
    decisions = weighted.loo_decision_[order]
    assert_allclose(repeated.loo_decision_, decisions, atol=1e-3)


def test_probabilities_are_more_honest_than_those_of_leave_one_out():
    """The labels chose the scales, of which leave-one-out with these scales knows nothing."""
    losses = []
    for seed in range(8):
        X, y = noisy(seed, n=100, noise=20)
        model = KernelFisherClassifier(ard=True).fit(X, y)
        size, mu = np.sqrt(model.gamma_), model.regularization_
        scaled = KernelFisherClassifier(gamma=1.0, regularization=mu).fit(X * size, y)
        new, label = noisy(seed + 50, n=600, noise=20)
        assert_allclose(model.decision_function(new), scaled.decision_function(new * size))
        found = model.predict_proba(new), scaled.predict_proba(new * size)
        losses.append([log_loss(label, p) for p in found])
    folds, leave_one_out = np.mean(losses, axis=0)
    assert folds < leave_one_out


@parametrize_with_checks([KernelFisherClassifier(ard=True), KernelRidgeCV(ard=True)])
def test_scikit_learn_accepts(estimator, check):
    check(estimator)
