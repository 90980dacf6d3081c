"""Left-out logits are those of models that were fitted without the row."""

import numpy as np
import oracles
import pytest
from sklearn.base import clone
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold

from fisherkit import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    SparseFisherClassifier,
)
from fisherkit.datasets import make_relevance
from fisherkit.estimators import inside
from fisherkit.inspection.left_out import (
    how_left_out,
    left_out_coordinates,
    left_out_logits,
    left_out_path,
)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"n_components": 15}, {"threshold": "balanced"}])
def test_every_mu_of_the_path_equals_a_fit_with_that_mu(n_classes, options):
    X, y = oracles.noisy_classes(40, n_classes, seed=0)
    model = KernelFisherClassifier(random_state=0, **options).fit(X, y)
    path = left_out_path(model)
    assert path.mu[path.chosen] == model.regularization_
    assert np.all(np.diff(path.mu) > 0)
    given = {"gamma": model.gamma_, "basis": model.basis_indices_} | options
    given.pop("n_components", None)
    if not options.get("n_components"):
        given["basis"] = "auto"
    for number in (0, path.chosen - 3, path.chosen, len(path.mu) - 1):
        alone = KernelFisherClassifier(regularization=path.mu[number], **given).fit(X, y)
        np.testing.assert_allclose(
            path.logits[:, :, number], left_out_logits(alone), rtol=1e-5, atol=1e-6
        )


def test_the_path_holds_every_mu_priced_at_the_width_chosen():
    X, y = oracles.noisy_classes(40, 2, seed=1)
    model = KernelFisherClassifier().fit(X, y)
    priced = model.selection_.path
    own = priced["mu"][priced["gamma"] == model.gamma_]
    mu = left_out_path(model).mu
    assert all(np.min(np.abs(np.log(mu / value))) < 1e-5 for value in own)
    assert len(mu) >= 26


def test_a_low_rank_fit_has_the_path_of_the_full_one():
    X, y = oracles.noisy_classes(600, 2, seed=0)
    low = KernelFisherClassifier(gamma=0.02, random_state=0).fit(X, y)
    assert low.selection_.method == "low-rank"
    full = KernelFisherClassifier(gamma=0.02, basis="full").fit(X, y)
    a, b = left_out_path(low), left_out_path(full)
    steps = np.round(np.log(a.mu), 5), np.round(np.log(b.mu), 5)
    ours, theirs = np.isin(steps[0], steps[1]), np.isin(steps[1], steps[0])
    apart = np.max(np.abs(a.logits[:, 0, ours] - b.logits[:, 0, theirs]), axis=0)
    assert len(apart) >= 25
    assert np.max(apart) < 0.01
    assert np.max(apart[a.mu[ours] >= low.regularization_]) < 1e-5


def test_a_mu_that_was_given_lies_on_the_default_grid():
    X, y = oracles.noisy_classes(30, 2, seed=0)
    path = left_out_path(KernelFisherClassifier(gamma=0.5, regularization=0.3).fit(X, y))
    assert path.mu[path.chosen] == 0.3
    assert len(path.mu) == 26


def before_softmax(model, decisions):
    """The decisions of the learner, less the mean of their row, behind those of three classes."""
    found = model.calibration_
    if decisions.ndim == 1:
        return decisions
    g = np.linalg.solve(found.matrix.T, (decisions - found.shift).T).T
    return (g - found.offset) / found.slope


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        SparseFisherClassifier(gamma=0.5, rho=0.02),
        ForwardFisherClassifier(gamma=0.5),
    ],
    ids=["sparse", "forward"],
)
def test_sparse_decisions_are_those_of_the_folds_without_the_row(model, n_classes):
    X, y = oracles.noisy_classes(60, n_classes, seed=2)
    X, y = np.r_[X, X[:6]], np.r_[y, y[:6]]  # merged rows land in different folds
    folds = list(StratifiedKFold(4).split(X, y))
    model = clone(model).set_params(cv=folds).fit(X, y)
    assert model.cv_decision_.shape == (len(y),) if n_classes == 2 else (len(y), n_classes)
    for train, test in folds:
        alone = clone(model).set_params(cv=4).fit(X[train], y[train])
        np.testing.assert_allclose(
            before_softmax(model, model.cv_decision_[test]),
            before_softmax(alone, alone.decision_function(X[test])),
            rtol=1e-4,
            atol=1e-5,
        )


def test_the_error_of_the_decisions_is_the_cross_validated_error():
    X, y = oracles.noisy_classes(80, 3, seed=0)
    for model in (SparseFisherClassifier(), ForwardFisherClassifier()):
        model.fit(X, y)
        before = before_softmax(model, model.cv_decision_)
        error = np.mean(model.classes_[np.argmax(before, axis=1)] != y)
        assert error == pytest.approx(model.cv_error_, abs=1e-12)
        assert abs(model.calibration_.error - error) < 0.1


def test_rows_tested_twice_have_the_mean_and_rows_never_tested_none():
    X, y = oracles.noisy_classes(40, 2, seed=0)
    once = SparseFisherClassifier(gamma=0.5, rho=0.02, cv=[(np.arange(20), np.arange(20, 40))])
    decisions = once.fit(X, y).cv_decision_
    assert np.all(np.isnan(decisions[:20])) and np.all(np.isfinite(decisions[20:]))
    folds = list(RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0).split(X, y))
    options = {"gamma": 0.5, "rho": 0.02}
    both = SparseFisherClassifier(cv=folds, **options).fit(X, y).cv_decision_
    halves = [
        SparseFisherClassifier(cv=part, **options).fit(X, y) for part in (folds[:2], folds[2:])
    ]
    np.testing.assert_allclose(both, np.mean([half.cv_decision_ for half in halves], axis=0))


def test_leave_one_out_of_a_sparse_model_leaves_weights_in_place():
    X, y = oracles.noisy_classes(16, 2, seed=0)
    weight = np.ones(16)
    weight[3] = 0
    options = {"gamma": 0.5, "rho": 0.05, "cv": None}
    model = SparseFisherClassifier(**options).fit(X, y, sample_weight=weight)
    assert np.isnan(model.cv_decision_[3])
    kept = weight > 0
    alone = SparseFisherClassifier(**options).fit(X[kept], y[kept])
    np.testing.assert_allclose(model.cv_decision_[kept], alone.cv_decision_)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logits_of_a_committee_give_its_left_out_probabilities(n_classes):
    X, y = oracles.noisy_classes(40, n_classes, seed=0)
    model = FisherCommitteeClassifier(kernels=("rbf",), n_widths=2).fit(X, y)
    logits = left_out_logits(model)
    if n_classes == 2:
        logits = np.c_[0 * logits, logits]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(p / p.sum(axis=1, keepdims=True), model.loo_proba_, atol=1e-12)


@pytest.mark.parametrize("kind", [KernelFisherClassifier, BayesianFisherClassifier])
def test_coordinates_of_two_classes_are_the_left_out_decisions_on_another_scale(kind):
    X, y = oracles.noisy_classes(40, 2, seed=0)
    X, y = np.r_[X, X[:5]], np.r_[y, y[:5]]
    model = kind().fit(X, y)
    fisher = kind is KernelFisherClassifier
    z = (left_out_path(model).coordinates if fisher else left_out_coordinates(model))[:, 0]
    assert np.corrcoef(z, model.loo_decision_)[0, 1] == pytest.approx(1, abs=1e-9)


def test_coordinates_of_more_classes_are_those_of_the_left_out_scores():
    X, y = oracles.noisy_classes(40, 3, seed=0)
    model = KernelFisherClassifier(multiclass="ovr").fit(X, y)
    expected = inside(model).decision.coordinates(model.loo_decision_)
    found = left_out_path(model).coordinates
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_the_sentence_names_the_kind_of_leaving_out():
    assert how_left_out(SparseFisherClassifier()).startswith("Cross-validation")
    assert how_left_out(KernelFisherClassifier()).startswith("Leave-one-out")
    X, y = make_relevance(200, n_irrelevant=4, random_state=0)
    assert "widths" in how_left_out(KernelFisherClassifier(ard=True).fit(X, y))
    assert "committee" in how_left_out(FisherCommitteeClassifier())
