"""Fitted models on fewer centres: the function nearest to theirs, and what was lost."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_classification

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.core import Gram, Kernel, Original
from fisherkit.core.solvers import distil
from fisherkit.model_files import load, save


def table(n=300, n_classes=2, seed=0):
    return make_classification(
        n, 6, n_informative=4, n_classes=n_classes, class_sep=0.8, random_state=seed
    )


def classifier(n_classes=2, **words):
    X, y = table(n_classes=n_classes)
    weight = np.random.default_rng(1).choice([0.0, 1.0, 2.0], size=len(y))
    model = KernelFisherClassifier(gamma=0.1, regularization=0.3, **words)
    return model.fit(X, y, sample_weight=weight), X, y, weight


@pytest.mark.parametrize("n_classes", [2, 3])
def test_coefficients_are_those_of_weighted_least_squares(n_classes):
    model, X, _, weight = classifier(n_classes)
    small = model.compress(25)
    centres = X[small.basis_indices_]
    assert set(small.basis_indices_) <= set(model.basis_indices_)
    assert len(centres) == 25 and small.dual_coef_.shape[-1] == 25
    K, s = model._expansion.kernel.block(X, centres), np.sqrt(weight)[:, None]
    f = model._expansion(X) - model._expansion.intercept
    best = np.linalg.lstsq(s * K, s * f, rcond=None)[0]
    assert_allclose(K @ small._expansion.coef, K @ best, atol=1e-4 * np.abs(f).max())
    gap = small._expansion(X) - model._expansion(X)
    share = weight / weight.sum()
    spread = share @ np.sum((f - share @ f) ** 2, axis=1)
    lost = small.compression_
    assert lost.error == pytest.approx((share @ np.sum(gap**2, axis=1) / spread) ** 0.5, rel=1e-6)
    assert lost.changed == pytest.approx(share @ (small.predict(X) != model.predict(X)))
    assert (lost.n_centres, lost.of) == (25, len(model.basis_indices_))
    assert lost.rows == np.count_nonzero(weight)


def test_the_model_stays_and_the_small_one_is_a_model(tmp_path):
    model, X, y, _ = classifier(3)
    before = model.predict_proba(X)
    small = model.compress(60)
    assert type(small) is KernelFisherClassifier and small.get_params() == model.get_params()
    assert_allclose(model.predict_proba(X), before)
    assert small.calibration_ is model.calibration_
    assert_allclose(small.loo_decision_, model.loo_decision_)
    p = small.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1)
    assert np.all(small.classes_[p.argmax(axis=1)] == small.predict(X))
    save(small, tmp_path / "small")
    opened = load(tmp_path / "small").model
    assert_allclose(opened.predict_proba(X), p)
    assert opened.compression_ == small.compression_
    again = small.compress(20)
    assert again.compression_.of == 60 and len(again.dual_coef_[0]) == 20
    clone(small).fit(X, y)


def test_all_centres_lose_nothing_and_more_lose_less():
    model, X, *_ = classifier()
    m = len(model.basis_indices_)
    whole = model.compress(m)
    assert_allclose(whole.decision_function(X), model.decision_function(X), atol=1e-4)
    errors = [model.compress(p).compression_.error for p in (5, 20, 60, 150)]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.02


@pytest.mark.parametrize("tolerance", [0.3, 0.05, 0.01, 0.0])
def test_a_tolerance_is_kept_by_few_centres(tolerance):
    model, *_ = classifier()
    lost = model.compress(tolerance=tolerance).compression_
    assert lost.error <= max(tolerance, 1e-4)
    if lost.n_centres > 40:
        fewer = model.compress(lost.n_centres * 3 // 4).compression_
        assert fewer.error > tolerance


def test_a_regression_with_two_outputs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    Y = np.stack([np.sin(X[:, 0]), X[:, 0] * X[:, 1]], axis=1)
    model = KernelRidgeCV(gamma=0.5, regularization=1e-3).fit(X, Y)
    small = model.compress(80)
    assert small.compression_.changed is None
    assert np.abs(small.predict(X) - model.predict(X)).max() < 0.05
    with pytest.raises(ValueError, match="every row of the fit, of which a compressed model"):
        small.predict_interval(X)


def test_copies_are_dropped_and_kernels_of_other_kinds_serve():
    X, y = table(120)
    doubled = np.concatenate([X, X]), np.concatenate([y, y])
    model = KernelFisherClassifier(gamma=0.1, regularization=0.3).fit(*doubled)
    assert model.compress(240).compression_.n_centres <= 120
    for kernel in ("laplacian", "poly", "linear"):
        one = KernelFisherClassifier(kernel, gamma=0.1, regularization=1.0).fit(X, y)
        assert one.compress(60).compression_.error < 0.3
    K = Kernel("rbf", gamma=0.1).block(X, X)
    given = KernelFisherClassifier("precomputed", regularization=0.3).fit(K, y)
    named = KernelFisherClassifier(gamma=0.1, regularization=0.3).fit(X, y)
    small = given.compress(40)
    assert small.compression_.error == pytest.approx(named.compress(40).compression_.error, rel=2)
    assert np.mean(small.predict(K) == given.predict(K)) > 0.95


def test_widths_of_features_and_models_on_centres_serve():
    X, y = table(200)
    learned = KernelFisherClassifier(ard=True).fit(X, y)
    small = learned.compress(60)
    gap = small.decision_function(X) - learned.decision_function(X)
    assert np.std(gap) / np.std(learned.decision_function(X)) == pytest.approx(
        small.compression_.error, rel=1e-3
    )
    on_centres = KernelFisherClassifier(
        gamma=0.1, regularization=0.3, basis="random", n_components=80, random_state=0
    ).fit(X, y)
    lost = on_centres.compress(30).compression_
    assert (lost.of, lost.rows) == (80, 200)
    blocks = KernelFisherClassifier(
        gamma=0.1, basis="random", n_components=30, random_state=0, max_memory=700_000
    ).fit(*table(4000))
    assert blocks.selection_.method == "streamed"
    assert blocks.compress(10).compression_.rows == 30


def test_what_is_not_valid_is_refused():
    model, X, *_ = classifier()
    for words in ({}, {"n_centres": 10, "tolerance": 0.1}):
        with pytest.raises(ValueError, match="either n_centres, a number of centres, or tolerance"):
            model.compress(**words)
    with pytest.raises(ValueError, match="n_centres=1000 is more than the"):
        model.compress(1000)
    for words in ({"n_centres": 0}, {"tolerance": -1.0}, {"tolerance": "few"}):
        with pytest.raises(ValueError, match="not valid"):
            model.compress(**words)
    small = model.compress(20)
    with pytest.raises(ValueError, match="Ask the model that compress was called on"):
        small.predict_set(X)


def test_a_kernel_of_zeros_and_the_scores_of_all_rows():
    X = np.random.default_rng(0).normal(size=(50, 2))
    gram, coef = Gram(X, Kernel("rbf", gamma=0.3)), np.ones((50, 1))
    original = Original.of(gram, np.arange(50), coef, np.ones(50), 0)
    assert_allclose(original.scores, gram.full() @ coef)
    shuffled = np.random.default_rng(1).permutation(50)
    other = Original.of(gram, shuffled, coef * shuffled[:, None], np.ones(50), 0)
    assert_allclose(other.scores, gram.full() @ np.arange(50.0)[:, None])
    zero = Original.of(Gram(0 * X, Kernel("linear")), np.arange(50), coef, np.ones(50), 0)
    assert np.all(zero.on(3).scores == 0)
    assert distil._RIDGE < 1e-8
