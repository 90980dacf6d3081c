"""Learned relevance against its definition, its price against refits, and stacked families."""

import numpy as np
import oracles
import pytest
from scipy.special import expit, softmax

from fisherkit import FisherCommitteeClassifier
from fisherkit.committee import fitting, widths
from fisherkit.core import Weights, coefficients_at, solve
from fisherkit.core.bias import FREE
from fisherkit.core.kernels import Kernel, View
from fisherkit.tuning import SeenRows, deal
from fisherkit.tuning.relevance import FOLDS

RNG = np.random.default_rng(0)


def problem(n=90, d=6, seed=0):
    """Two columns of six tell the class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 1] * X[:, 4] + 0.3 * rng.normal(size=n) > 0).astype(int)


def weights(frequency):
    frequency = np.asarray(frequency, dtype=float)
    return Weights(frequency, np.ones_like(frequency))


@pytest.mark.parametrize("mu", [1e-3, 1.0])
def test_coefficients_are_those_of_the_whole_solution(mu):
    X, y = problem()
    K, Y = Kernel("rbf", gamma=0.2).block(X, X), (2.0 * y - 1)[:, None]
    own = weights(RNG.integers(1, 4, len(y)))
    coef, intercept = coefficients_at(K.copy(), Y, own, FREE, mu)
    truth, _ = solve(K.copy(), Y, own, bias=FREE, penalty="rkhs", mu=mu)
    np.testing.assert_allclose(coef, truth.coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(intercept, truth.intercept, rtol=1e-9)
    assert coefficients_at(-K, Y, own, FREE, 1e-9) is None


@pytest.mark.parametrize("name", ["rbf", "laplacian", "exponential"])
def test_relevance_is_the_mean_squared_slope_twice(name):
    X, y = problem(40)
    Y, own = (2.0 * y - 1)[:, None], weights(np.ones(40))
    found = SeenRows(X, Y, own).relevance(Kernel(name, gamma=0.2), 0.1)
    scale = np.ones(6)
    for _ in range(2):
        Z, kernel = X * scale, Kernel(name, gamma=0.2)
        coef, _ = coefficients_at(kernel.block(Z, Z), Y, own, FREE, 0.1)
        gradient = [np.mean(part**2) for part in kernel.stationary.slopes(Z, coef, 0.2)]
        scale = scale * np.sqrt(gradient)
        scale = np.maximum(scale / scale.max(), 1e-3)
        scale *= 6**0.5 / np.linalg.norm(scale)
    np.testing.assert_allclose(found, scale, rtol=1e-7)  # near a row, distances are rounded


def test_columns_that_matter_are_found():
    X, y = problem(200)
    model = FisherCommitteeClassifier(learn=True, combine="families").fit(X, y)
    for scale in model.relevance_.values():
        assert set(np.argsort(-scale)[:2]) == {1, 4}
    plain = FisherCommitteeClassifier().fit(X, y)
    new, label = problem(1000, seed=1)
    assert model.score(new, label) > plain.score(new, label) + 0.02


def test_copies_and_groups_share_a_fold_and_the_order_of_rows_does_not_matter():
    X, y = problem(60)
    twice = np.repeat(np.arange(60), RNG.integers(1, 4, 60))
    fold = np.empty(len(twice), dtype=int)
    folds = deal(X[twice], weights(np.ones(len(twice))), y[twice])
    for number, rows in enumerate(folds):
        fold[rows] = number
    assert len(folds) == FOLDS and all(len(set(fold[twice == i])) == 1 for i in range(60))
    order = RNG.permutation(len(twice))
    again = deal(X[twice][order], weights(np.ones(len(twice))), y[twice][order])
    for rows, others in zip(folds, again, strict=True):
        assert sorted(twice[rows]) == sorted(twice[order][others])
    shares = [y[twice][rows].mean() for rows in folds]
    assert max(shares) - min(shares) < 0.3
    group = np.arange(60) // 5
    for rows in deal(X, weights(np.ones(60)), y, group):
        assert set(group[rows]).isdisjoint(group[np.setdiff1d(np.arange(60), rows)])


def test_scores_of_learned_kernels_are_those_of_models_without_the_fold():
    X, y = problem(60)
    model = FisherCommitteeClassifier(("laplacian",), n_widths=2, learn=True).fit(X, y)
    members = model.members_
    own = members[members["kernel"] == "learned laplacian"]
    plain = members[members["kernel"] == "laplacian"]
    best = plain[np.argmin(plain["loo_log_loss"])]
    Y, all_rows = (2.0 * y - 1)[:, None], np.arange(60)
    for member in own[[0, 4, 8]]:
        kernel, scores = Kernel("laplacian", gamma=member["gamma"]), np.empty(60)
        bare = np.empty(60)
        for test in deal(X, weights(np.ones(60)), y):
            train = np.setdiff1d(all_rows, test)
            inside = SeenRows(X[train], Y[train], weights(np.ones(len(train))))
            scale = inside.relevance(Kernel("laplacian", gamma=best["gamma"]), best["mu"])
            for target, s, k, mu in (
                (scores, scale, kernel, member["mu"]),
                (bare, np.ones(6), Kernel("laplacian", gamma=best["gamma"]), best["mu"]),
            ):
                Z = X * s
                coef, b = coefficients_at(
                    k.block(Z[train], Z[train]), Y[train], inside.weights, FREE, mu
                )
                score = k.block(Z[test], Z[train]) @ coef + b
                target[test] = score[:, 0] - Y[train].mean()
        handicap = calibrated(bare, y) - best["loo_log_loss"]
        assert member["loo_log_loss"] == pytest.approx(calibrated(scores, y) - handicap, abs=1e-6)


def calibrated(scores, y):
    """The cross-entropy of a member with these scores."""
    ones = np.ones(len(y))
    return oracles.calibrate(scores, oracles.smoothed_targets(y, ones), ones / len(y))[2]


def test_families_are_averages_that_are_stacked():
    X, y = problem(80)
    model = FisherCommitteeClassifier(("rbf", "laplacian", "linear"), combine="families").fit(X, y)
    members, total = model.members_, {}
    for kernel in ("rbf", "laplacian", "linear"):
        own = members["kernel"] == kernel
        likely = softmax(-80 / 2 * members["loo_log_loss"][own])
        likely = np.where(likely >= 1e-4, likely, 0)
        total[kernel] = model.weights_[own].sum()
        np.testing.assert_allclose(
            model.weights_[own], total[kernel] * likely / likely.sum(), atol=1e-9
        )
    g = np.log(model.loo_proba_[:, 1] / model.loo_proba_[:, 0])
    target = np.where(y == 1, 81 / 82, 1 / 82)
    loss = np.mean(np.logaddexp(0, g) - target * g)
    alone = members["loo_log_loss"].min()
    assert loss < alone + 0.01 and all(weight >= 0 for weight in total.values())
    assert np.abs(expit(g) - model.predict_proba(X)[:, 1]).max() < 0.9


def test_kernels_that_cannot_learn_say_so():
    X, y = problem(40)
    with pytest.raises(ValueError, match="'linear' to learn what matters, which has no slopes"):
        FisherCommitteeClassifier(("rbf", "linear"), learn=[False, True]).fit(X, y)
    with pytest.raises(ValueError, match="learn has 1 values for 2 kernels"):
        FisherCommitteeClassifier(learn=[True]).fit(X, y)
    model = FisherCommitteeClassifier(("rbf", "linear"), learn=True).fit(X, y)
    assert list(model.relevance_) == ["learned rbf"]


def test_kernels_on_some_columns():
    X, y = problem(60)
    model = FisherCommitteeClassifier(
        (("rbf", [1, 4]), ("rbf", View(np.array([0, 2]), name="others"))), learn=True
    ).fit(X, y)
    assert list(model.relevance_) == ["learned rbf on columns 1, 4", "learned rbf on others"]
    assert np.flatnonzero(model.relevance_["learned rbf on others"]).tolist() == [0, 2]
    for wrong, said in (
        ((("rbf", [7]),), "asks for column 7, but X has 6 columns"),
        ((("rbf", [0.5]),), "counted from 0"),
        ((("rbf", [0, 1]), ("rbf", [0, 1])), "names a kernel twice"),
        ((("rbf", View(np.array([0]), np.array([np.nan]))),), "give a finite number"),
    ):
        with pytest.raises(ValueError, match=said):
            FisherCommitteeClassifier(wrong).fit(X, y)


@pytest.mark.parametrize("groups", [np.zeros(60), np.arange(59)])
def test_groups_that_are_none(groups):
    with pytest.raises(ValueError, match="groups"):
        FisherCommitteeClassifier().fit(*problem(60), groups=groups)


def test_groups_are_left_out_together():
    """By brute force: the price of a member from models without a fold of groups."""
    X, y = problem(60)
    group = np.arange(60) // 3
    model = FisherCommitteeClassifier(("rbf",), n_widths=1).fit(X, y, groups=group)
    Y = (2.0 * y - 1)[:, None]
    for member in model.members_[[3, 12, 20]]:
        kernel, scores = Kernel("rbf", gamma=member["gamma"]), np.empty(60)
        for test in deal(X, weights(np.ones(60)), y, group):
            train = np.setdiff1d(np.arange(60), test)
            own = weights(np.ones(len(train)))
            K = kernel.block(X[train], X[train])
            coef, b = coefficients_at(K, Y[train], own, FREE, member["mu"])
            scores[test] = (kernel.block(X[test], X[train]) @ coef + b)[:, 0] - Y[train].mean()
        assert member["loo_log_loss"] == pytest.approx(calibrated(scores, y), abs=1e-6)


def test_a_family_without_a_width_that_is_worth_a_fit_learns_nothing(monkeypatch):
    X, y = problem(120)
    monkeypatch.setattr(fitting, "MANY", 100)
    monkeypatch.setattr(widths, "SOME", 60)
    monkeypatch.setattr(widths, "_UNSURE", -1e-9)
    monkeypatch.setattr(widths, "_LEAST", 1 - 1e-9)
    model = FisherCommitteeClassifier(("rbf", "laplacian"), learn=True).fit(X, y)
    assert len(model.relevance_) == 1
    assert np.isfinite(model.predict_proba(X)).all()
