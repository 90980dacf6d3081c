"""Fits to very many rows: a sample of them is left out, and what rests on that rests on it."""

import math

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification

from fisherkit import KernelFisherClassifier, KernelRidgeCV, audit
from fisherkit.core.solvers import Rates, sampled
from fisherkit.inspection import doubts
from fisherkit.model_files import load, save
from fisherkit.tuning import levels, search

N, SAMPLE = 640, 120


@pytest.fixture(autouse=True, params=["steps", "factor"])
def few_are_many(request, monkeypatch):
    quick = Rates(product=1.0, factor=1e-9 if request.param == "steps" else 1e9, memory=1.0)
    monkeypatch.setattr(sampled.rates, "measured", lambda: quick)
    monkeypatch.setattr(sampled, "_SHARE", 0.5)
    monkeypatch.setattr(search, "ALL_ROWS", 400)
    monkeypatch.setattr(levels, "ALL_ROWS", 400)
    monkeypatch.setattr(levels, "LEVELS", (150, 300))
    monkeypatch.setattr(sampled, "EVERY_ROW", 500)
    monkeypatch.setattr(sampled, "_LEAST", SAMPLE)
    monkeypatch.setattr(sampled, "_FOR_EACH", 1)


def table(n_classes=2, seed=0):
    return make_classification(
        N, 8, n_informative=6, n_classes=n_classes, flip_y=0.1, class_sep=0.8, random_state=seed
    )


def exact(model, X, y, **words):
    """The same model with every row left out."""
    given = {"gamma": model.gamma_, "regularization": model.regularization_}
    return type(model)(**(model.get_params() | given)).fit(X, y, **words)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("threshold", ["prior", "balanced"])
def test_sampled_rows_are_left_out_exactly_and_the_others_not_at_all(n_classes, threshold):
    X, y = table(n_classes)
    fit = KernelFisherClassifier(threshold=threshold, multiclass="ovr").fit(X, y)
    truth = exact(fit, X, y)
    decisions = fit.loo_decision_.reshape(N, -1)
    known = np.isfinite(decisions[:, 0])
    assert known.sum() == SAMPLE and np.all(np.isnan(decisions[~known]))
    size = np.abs(truth.loo_decision_).max()
    assert_allclose(
        fit.loo_decision_[known], truth.loo_decision_[known], rtol=5e-3, atol=1e-3 * size
    )
    assert_allclose(fit.decision_function(X), truth.decision_function(X), atol=1e-7 * size)
    assert fit.selection_.leave_one_out.startswith(f"exact, for {SAMPLE} sampled rows")
    assert fit.selection_.method in ("cholesky", "conjugate")


@pytest.mark.parametrize("threshold", ["prior", "balanced"])
def test_the_slope_is_that_of_the_sampled_rows_alone(threshold):
    X, y = table()
    fit = KernelFisherClassifier(threshold=threshold).fit(X, y)
    known = np.isfinite(fit.loo_decision_)
    weight = None if threshold == "prior" else 1 / np.bincount(y[known])[y[known]]
    slope = oracles.slope(fit.loo_decision_[known], y[known], loss_weight=weight)
    assert fit.calibration_.value == pytest.approx(slope, rel=1e-5)


def test_the_softmax_is_that_of_the_sampled_rows_alone():
    X, y = table(3)
    fit = KernelFisherClassifier().fit(X, y)
    known = np.isfinite(fit.loo_decision_[:, 0])
    assert fit.calibration_.rows == known.sum() == SAMPLE
    log_p = np.log(fit.predict_proba(X))
    assert np.all(np.isfinite(log_p))
    truth = exact(fit, X, y)
    assert np.mean(fit.predict(X) == truth.predict(X)) > 0.9


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("criterion", ["press", "log_loss"])
def test_the_criterion_is_a_mean_with_a_standard_error(criterion, n_classes):
    X, y = table(n_classes)
    fit = KernelFisherClassifier(criterion=criterion).fit(X, y)
    truth, found = exact(fit, X, y), fit.selection_
    assert math.isnan(truth.selection_.error)
    assert 0 < found.error < 0.5 * found.value
    assert abs(found.value - truth.selection_.value) < 4 * found.error
    if criterion == "press" and n_classes == 2:
        known = np.isfinite(fit.loo_decision_)
        losses = (2.0 * y[known] - 1 - fit.loo_decision_[known]) ** 2
        assert found.value == pytest.approx(losses.mean(), rel=1e-6)
        assert found.error == pytest.approx(losses.std() / SAMPLE**0.5, rel=1e-6)


def test_a_regression_is_sampled_too():
    X, _ = table()
    Y = np.stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2]], axis=1)
    fit = KernelRidgeCV().fit(X, Y)
    truth = exact(fit, X, Y)
    known = np.isfinite(fit.loo_prediction_[:, 0])
    assert known.sum() == SAMPLE and np.all(np.isnan(fit.loo_prediction_[~known]))
    assert_allclose(fit.loo_prediction_[known], truth.loo_prediction_[known], atol=5e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_weight_of_two_is_the_row_twice_and_the_order_does_not_matter(n_classes):
    X, y = table(n_classes)
    w = np.random.default_rng(0).integers(1, 3, size=N)
    one = KernelFisherClassifier().fit(X, y, sample_weight=w)
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(N), w))
    two = KernelFisherClassifier().fit(X[rows], y[rows])
    order = np.random.default_rng(2).permutation(N)
    three = KernelFisherClassifier().fit(X[order], y[order], sample_weight=w[order])
    for other in (two, three):
        assert other.gamma_ == pytest.approx(one.gamma_, rel=1e-6)
        assert other.selection_.value == pytest.approx(one.selection_.value, rel=1e-6)
        assert other.selection_.error == pytest.approx(one.selection_.error, rel=1e-6)
        assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=1e-6)
    assert_allclose(two.loo_decision_, one.loo_decision_[rows], atol=1e-6)
    assert_allclose(three.loo_decision_, one.loo_decision_[order], atol=1e-6)


def test_no_level_has_looked_at_the_sampled_rows():
    X, y = table()
    fit = KernelFisherClassifier().fit(X, y)
    largest = fit.selection_.path["rows"][:-1].max()
    assert largest + SAMPLE <= N


def test_labels_that_the_sample_lacks_have_a_probability():
    X, y = table(3)
    y[y == 2] = 1
    y[:3] = 2
    fit = KernelFisherClassifier().fit(X, y)
    known = np.isfinite(fit.loo_decision_[:, 0])
    p = fit.predict_proba(X)
    assert np.all(np.isfinite(p)) and np.all(p > 0)
    assert len(np.unique(y[known])) <= 3


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("multiclass", ["softmax", "lda"])
def test_an_audit_judges_every_row(n_classes, multiclass):
    X, y = table(n_classes)
    words = {"multiclass": multiclass, "criterion": "press"}
    table_of_all = audit(KernelFisherClassifier(**words), X, y)
    assert table_of_all.notna().all().all()
    fit = KernelFisherClassifier(**words).fit(X, y)
    known = np.isfinite(fit.loo_decision_.reshape(N, -1)[:, 0])
    short = doubts(fit, y, influence=False)
    assert short["probability"].notna().sum() == SAMPLE
    assert (short["suggested"] == short["label"])[short["probability"].isna()].all()
    assert_allclose(
        table_of_all["probability"].loc[np.flatnonzero(known)],
        short["probability"].loc[np.flatnonzero(known)],
        atol=5e-3,
    )


def test_a_saved_model_keeps_what_it_says_of_the_sample(tmp_path):
    X, y = table()
    fit = KernelFisherClassifier().fit(X, y)
    save(fit, tmp_path / "model.fisherkit")
    again = load(tmp_path / "model.fisherkit").model
    assert again.selection_.sampled and again.selection_.error == fit.selection_.error
    assert_allclose(again.loo_decision_, fit.loo_decision_)


def test_every_row_is_left_out_where_a_class_is_rare():
    X, y = table()
    y[:] = 0
    y[:5] = 1
    X[:5] += 2.0
    fit = KernelFisherClassifier().fit(X, y)
    assert np.isfinite(fit.loo_decision_).all()
    assert "sampled" not in fit.selection_.leave_one_out
    assert fit.predict_proba(X)[5:, 1].mean() < 0.05
