"""Committees without one row each, against refits of every member that has weight."""

import numpy as np
import oracles
import pandas as pd
import pytest
from oracles import gap
from scipy.special import logsumexp

from fisherkit import FisherCommitteeClassifier, TableClassifier
from fisherkit.core import Kernel, View, Weights
from fisherkit.inspection import column_importance
from fisherkit.tuning import SeenRows, deal, learned_folds

N, D = 36, 3


def seen(model, name, X):
    """What a kernel of the committee sees of rows, and its name."""
    for kernel in model.kernels:
        plain, view = kernel if isinstance(kernel, tuple) else (kernel, None)
        called = plain if view is None else f"{plain} on {view.name}"
        if called == name:
            return (X if view is None else view(X)), plain
    raise AssertionError(name)


def values(plain, A, B, gamma):
    if plain == "exponential":
        return np.exp(-gamma * np.linalg.norm(A[:, None] - B[None], axis=2))
    return oracles.gram(A, B, plain, gamma=gamma)


class Refits:
    """Scores of each member by a model without row i; ``targets`` (n, k)."""

    def __init__(self, model, X, y):
        self.model, self.X, self.y = model, X, y
        self.Y = oracles.indicators(y) if len(model.classes_) > 2 else (2.0 * y - 1)[:, None]
        members = model.members_[model.members_["weight"] > 0]
        self.members = members
        self.means = oracles.fold_means(self.Y)
        self.fits = [self.fitted(member) for member in members]

    def fitted(self, member):
        name, mu = str(member["kernel"]), float(member["mu"])
        if name.startswith("learned "):
            return self.on_folds(name.removeprefix("learned "), member)
        A, plain = seen(self.model, name, self.X)
        K, n = values(plain, A, A, member["gamma"]), len(A)
        whole = oracles.ridge(K, self.Y, mu)
        without = [oracles.ridge(K, self.Y, mu, v=(np.arange(n) != i) * 1.0) for i in range(n)]

        def score(i, x):
            k = values(plain, seen(self.model, name, x[None])[0], A, member["gamma"])
            own = oracles.predict(k, without[i])[0]
            return own - whole[1] - (self.means[i] - self.Y.mean(axis=0))

        return score

    def on_folds(self, name, member):
        members = self.model.members_
        plain = members[members["kernel"] == name]
        start = plain[np.argmin(plain["loo_log_loss"])]
        A, kind = seen(self.model, name, self.X)
        weights, mu = Weights(np.ones(N), np.ones(N)), float(member["mu"])
        kernel = Kernel(kind, gamma=float(start["gamma"]))
        folds = learned_folds(
            SeenRows(A, self.Y, weights),
            kernel,
            float(start["mu"]),
            deal(self.X, weights, self.y),
        )
        scale = SeenRows(A, self.Y, weights).relevance(kernel, float(start["mu"]))
        K = values(kind, A * scale, A * scale, member["gamma"])
        intercept = oracles.ridge(K, self.Y, mu)[1]
        found = {}
        for fold in folds:
            rest = np.setdiff1d(np.arange(N), fold.places)
            B, Y = A[rest] * fold.scale, self.Y[rest]
            fit = oracles.ridge(values(kind, B, B, member["gamma"]), Y, mu)
            for i in fold.places:
                found[i] = fold.scale, B, Y.mean(axis=0), fit

        def score(i, x):
            size, B, mean, fit = found[i]
            k = values(kind, seen(self.model, name, x[None])[0] * size, B, member["gamma"])
            return oracles.predict(k, fit)[0] - mean - intercept + self.Y.mean(axis=0)

        return score

    def logits(self, i, x):
        shares = self.members["weight"] * self.members["slope"]
        total = sum(a * score(i, x) for a, score in zip(shares, self.fits, strict=True))
        matrix = getattr(self.model.calibration_, "matrix", np.eye(self.Y.shape[1]))
        return self.model.intercept_ + total @ matrix


def losses(logits, y):
    wide = np.column_stack([0 * logits, logits]) if logits.shape[1] == 1 else logits
    return logsumexp(wide, axis=1) - wide[np.arange(len(y)), y], np.argmax(wide, axis=1) != y


COMMITTEES = [
    FisherCommitteeClassifier(["rbf", "laplacian"], n_widths=2),
    FisherCommitteeClassifier(["linear"], combine="best"),
    FisherCommitteeClassifier(["rbf"], n_widths=3, combine="stack"),
    FisherCommitteeClassifier(
        [("laplacian", View(np.array([0, 2]), np.array([0.5, 2.0]), "v")), "exponential"],
        n_widths=1,
        learn=True,
        min_weight=1e-3,
    ),
]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", COMMITTEES, ids=["average", "best", "stack", "learned"])
def test_importance_of_a_committee_equals_refits(model, n_classes):
    X, y = oracles.noisy_classes(N, n_classes, d=D, seed=1)
    X[:, :2] *= 1 + y[:, None]
    model = model.fit(X, y)
    assert np.any(model.weights_ > 0)
    if model.learn:
        used = model.members_["kernel"][model.members_["weight"] > 0]
        assert any(str(name).startswith("learned") for name in used)
    found = column_importance(model, X, y, n_repeats=1)
    refits = Refits(model, X, y)
    as_is = losses(np.array([refits.logits(i, X[i]) for i in range(N)]), y)
    assert found.left_out
    assert abs(found.base - as_is[0].mean()) < 1e-7
    assert abs(found.base + np.log(model.loo_proba_[np.arange(N), y]).mean()) < 1e-7
    rng = np.random.RandomState(0)
    for column in range(D):
        changed = X.copy()
        changed[:, column] = X[rng.permutation(N), column]
        now = losses(np.array([refits.logits(i, changed[i]) for i in range(N)]), y)
        assert abs(found.rise[column] - (now[0] - as_is[0]).mean()) < 1e-7
        assert abs(found.error_rise[column] - (now[1] * 1.0 - as_is[1]).mean()) < 1e-12


@pytest.mark.parametrize(
    "options",
    [
        {"basis": "random", "n_components": 9},
        {"penalty": "coefficients"},
        {"class_weight": "balanced"},
        {"basis": np.arange(0, 60, 4)},
    ],
    ids=str,
)
def test_the_base_is_what_the_committee_says_of_left_out_rows(options):
    X, y = oracles.noisy_classes(60, 3, d=2, seed=3)
    model = FisherCommitteeClassifier(n_widths=3, **options).fit(X, y)
    found = column_importance(model, X, y, n_repeats=1)
    assert gap(found.base, -np.log(model.loo_proba_[np.arange(60), y]).mean()) < 1e-9
    assert found.left_out


def test_a_committee_of_a_table_is_judged_by_left_out_rows():
    rng = np.random.default_rng(0)
    n = 160
    table = pd.DataFrame({name: rng.normal(size=n) for name in "abcd"})
    table["town"] = rng.choice(["Oslo", "Rome", None], n)
    label = np.where((table["b"] > 0) ^ (table["town"] == "Rome"), "yes", "no")
    model = TableClassifier().fit(table, label)
    found = column_importance(model, table, label, n_repeats=2)
    own = model.estimator_.loo_proba_[np.arange(n), (label == "yes").astype(int)]
    assert found.left_out and gap(found.base, -np.log(own).mean()) < 1e-9
    assert set(found.to_frame().index[:2]) == {"b", "town"}


def test_what_a_committee_no_longer_knows_is_refused():
    X, y = oracles.noisy_classes(80, 2, d=2, seed=3)
    weight = np.where(np.arange(80) % 2, 3.0, 1.0)
    model = FisherCommitteeClassifier(n_widths=2).fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="sample weights, groups"):
        column_importance(model, X, y)
    assert not column_importance(model, X, y, left_out=False).left_out
    many = np.tile(X, (100, 1)) + np.random.default_rng(0).normal(size=(8000, 2))
    blocks = FisherCommitteeClassifier(["rbf"], n_widths=2, n_components=5, max_memory="3MB")
    blocks.fit(many, np.tile(y, 100))
    with pytest.raises(ValueError, match="in blocks"):
        column_importance(blocks, many, np.tile(y, 100), left_out=True)
    plain = FisherCommitteeClassifier(n_widths=2).fit(X, y)
    with pytest.raises(ValueError, match="sample weights, groups"):
        column_importance(plain, X, 1 - y)
    assert not column_importance(plain, X[:50], y[:50]).left_out


def test_a_committee_of_class_shares_has_no_columns_that_matter():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    model = FisherCommitteeClassifier().fit(X, y)
    assert not np.any(model.weights_)
    found = column_importance(model, X, y)
    assert found.left_out and not found.rise.any()
