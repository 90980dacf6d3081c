"""What the sparse learners solve, against scikit-learn's lasso and each other."""

from itertools import pairwise

import numpy as np
import oracles
import pytest
from majorise import mm
from sklearn.linear_model import Lasso
from sklearn.metrics.pairwise import rbf_kernel

from fisherkit import SparseFisherClassifier
from fisherkit.core.labels import Labels
from fisherkit.core.weights import Weights
from fisherkit.sparse import lasso
from fisherkit.sparse.learners import ForwardLearner, LqLearner

CLASSES = pytest.mark.parametrize("n_classes", [2, 3])
GAMMA = 0.5


def labels_of(y, n_classes=None):
    return Labels(np.arange(n_classes or y.max() + 1), y, Weights(np.ones(len(y)), np.ones(len(y))))


def test_a_penalised_bias_is_one_more_coefficient_of_the_lasso():
    X, y = oracles.noisy_classes(40)
    rho, share = 0.02, np.mean(y)
    spread = 2 * np.sqrt(share * (1 - share))
    model = SparseFisherClassifier(gamma=GAMMA, cv=2, rho=rho, penalize_bias=True).fit(X, y)
    codes = (2 * y - 1 - (2 * share - 1)) / spread
    D = np.c_[np.ones(40), rbf_kernel(X, gamma=GAMMA)]
    peer = Lasso(alpha=rho, fit_intercept=False, tol=1e-12, max_iter=1_000_000).fit(D, codes)
    truth = spread * peer.predict(D) + 2 * share - 1
    np.testing.assert_allclose(model.decision_function(X), truth, atol=1e-6)
    free = SparseFisherClassifier(gamma=GAMMA, cv=2, rho=rho).fit(X, y)
    peer = Lasso(alpha=rho, tol=1e-12, max_iter=1_000_000).fit(D[:, 1:], codes)
    truth = spread * peer.predict(D[:, 1:]) + 2 * share - 1
    np.testing.assert_allclose(free.decision_function(X), truth, atol=1e-6)
    np.testing.assert_array_equal(free.basis_indices_, np.flatnonzero(np.abs(peer.coef_) > 1e-6))


@CLASSES
def test_the_iteration_of_the_paper_is_close_to_the_exact_lasso(n_classes, monkeypatch):
    X, y = oracles.noisy_classes(30, n_classes)
    exact = SparseFisherClassifier(gamma=GAMMA, cv=2, rho=0.1).fit(X, y)
    monkeypatch.setattr(lasso, "solve_path", lambda *of: [mm(of[0], rho, of[2]) for rho in of[1]])
    slow = SparseFisherClassifier(gamma=GAMMA, cv=2, rho=0.1).fit(X, y)
    truth = exact.decision_function(X)
    np.testing.assert_allclose(slow.decision_function(X), truth, atol=1e-3 * np.abs(truth).max())
    assert set(exact.basis_indices_) <= set(slow.basis_indices_)


@pytest.mark.parametrize("q", [1.0, 0.5])
def test_the_group_penalty_of_two_classes_is_the_binary_one(q):
    """Two of three classes present: the group code on one score."""
    X, y = oracles.noisy_classes(40)
    K = rbf_kernel(X, gamma=GAMMA)
    learner = LqLearner(q=q, penalize_bias=False, balanced=False, rhos=np.array([0.1, 0.02]))
    binary = learner.fit(K.copy(), labels_of(y))
    group = learner.fit(K.copy(), labels_of(y, n_classes=3))
    np.testing.assert_array_equal(binary.terms, group.terms)
    for one, two in zip(binary.coef, group.coef, strict=True):
        direction = two[:, 1] - two[:, 0]
        factor = direction @ one[:, 0] / (one[:, 0] @ one[:, 0])
        assert factor > 0
        np.testing.assert_allclose(direction, factor * one[:, 0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("q", [1.0, 0.5])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_grid_of_rho_starts_where_nothing_is_retained(n_classes, q):
    X, y = oracles.noisy_classes(40, n_classes)
    P, labels = rbf_kernel(X, gamma=GAMMA), labels_of(y)
    settled = LqLearner(q=q, penalize_bias=False, balanced=False).settle(P, labels)
    sizes = settled.fit(P, labels).sizes
    assert len(settled.rhos) == 20
    assert all(a > b for a, b in pairwise(settled.rhos))
    assert sizes[0] == 0
    assert sizes[-1] > sizes.max() / 2 > 1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_fold_of_one_class_decides_for_it(n_classes):
    K = rbf_kernel(oracles.noisy_classes(12)[0], gamma=GAMMA)
    for own in range(n_classes):
        labels = labels_of(np.full(12, own), n_classes)
        for learner in (
            LqLearner(q=1.0, penalize_bias=False, balanced=False, rhos=np.array([0.1, 0.01])),
            ForwardLearner("loo_error", 5, 3, False, False),
            ForwardLearner("press", 5, 3, True, False),
            ForwardLearner("err", 5, 3, False, False),
        ):
            family = learner.settle(K, labels).fit(K.copy(), labels)
            for decisions in family.decisions(K):
                decided = decisions[:, 0] > 0 if n_classes == 2 else np.argmax(decisions, axis=1)
                assert np.all(decided == own)


@pytest.mark.parametrize("evidence", [False, True])
@CLASSES
def test_prefixes_of_a_forward_run_are_least_squares_fits(n_classes, evidence):
    X, y = oracles.noisy_classes(40, n_classes)
    K = rbf_kernel(X, gamma=GAMMA)
    learner = ForwardLearner("press", 6, 5, evidence, False).settle(K, labels_of(y))
    family = learner.fit(K.copy(), labels_of(y))
    Y = oracles.indicators(y) if n_classes > 2 else 2.0 * y[:, None] - 1
    order = family.growth.order
    assert family.sizes[0] == 0
    assert np.all(family.sizes <= np.arange(len(order) + 1))
    assert evidence or np.all(family.sizes == np.arange(len(order) + 1))
    for size, decisions in enumerate(family.decisions(K)):
        D = np.c_[np.ones(40), K[:, order[:size]]]
        best = D @ np.linalg.lstsq(D, Y)[0]
        excess = np.sum((decisions - Y) ** 2) - np.sum((best - Y) ** 2)
        assert -1e-9 < excess < (0.1 if evidence else 1e-4) * np.sum(Y**2)
