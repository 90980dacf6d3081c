"""Conformal sets and intervals from sampled rows, against refits for every candidate."""

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.core import BIASES, Decomposer, Design, Gram, Kernel, System, Weights
from fisherkit.core.labels import membership
from fisherkit.core.solvers import sampled
from fisherkit.inference import Reach, SampledReach
from fisherkit.inference.conformal import Sets, interval
from fisherkit.tuning import levels, search

N, NEW, MU, GAMMA = 50, 4, 0.3, 0.4
ROWS = np.arange(1, N, 3)


def problem(n_classes=2, *, weighted=False, seed=0):
    X, y = oracles.noisy_classes(N + NEW, n_classes, seed=seed)
    Y = (2.0 * y - 1)[:, None] if n_classes == 2 else np.eye(n_classes)[y]
    weights = Weights.unit(X[:N])
    if weighted:
        w = np.random.default_rng(1).integers(1, 3, size=N).astype(float)
        weights = Weights(w, np.where(y[:N] == 0, 1.5, 1.0))
    return X, y, Y, weights


def reaches(X, Y, weights, bias, rows=ROWS):
    """From sampled rows, and from all of them."""
    gram = Gram(X[:N], Kernel("rbf", gamma=GAMMA))
    reach = SampledReach.of(System.of(gram, Y[:N], weights, BIASES[bias], MU), rows)
    design = Design(gram, weights, "rkhs", BIASES[bias], "full", None, None, 0)
    form = Decomposer(design).decompose(GAMMA, lambda unit: 0.0).canonical
    return reach, Reach.of(form, Y[:N], MU, gram.full())


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_covariances_are_those_of_a_decomposition(weighted, bias):
    X, _, Y, weights = problem(weighted=weighted)
    some, every = reaches(X, Y, weights, bias)
    k, own = oracles.gram(X, gamma=GAMMA)[N:, :N], np.ones(NEW)
    g, truth = some.coordinates(k), every.coordinates(k)
    assert_allclose(some.cross(g), every.cross(truth)[:, ROWS], atol=1e-5)
    assert_allclose(some.variance(g, k, own), every.variance(truth, k, own), rtol=1e-4)
    assert_allclose(some.scores(k), every.scores(k), atol=1e-7)
    assert_allclose(some.ridge.leave_one_out(), every.ridge.leave_one_out()[ROWS], atol=1e-5)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_sets_are_those_of_refits_with_every_candidate(n_classes, bias):
    X, _, Y, weights = problem(n_classes)
    reach, _ = reaches(X, Y, weights, bias)
    K = oracles.gram(X, gamma=GAMMA)
    sets = Sets(reach, membership(Y[ROWS]), np.ones(n_classes), False, False)
    found = sets.p_values(K[N:, :N], np.ones(NEW), "full")
    for new in range(NEW):
        rows = np.append(np.arange(N), N + new)
        for label in range(n_classes):
            codes = Y[rows].copy()
            codes[-1] = (2.0 * label - 1) if n_classes == 2 else np.eye(n_classes)[label]
            F = oracles.leave_one_out(K[np.ix_(rows, rows)], codes, MU, bias=bias)
            F = F.reshape(N + 1, -1)
            if n_classes == 2:
                margin = (F * codes)[:, 0]
            else:
                best = np.max(np.where(codes > 0.5, -np.inf, F), axis=1)
                margin = np.sum(F * codes, axis=1) - best
            compared = np.append(margin[ROWS], margin[-1])
            share = np.mean(compared <= margin[-1] + 1e-9)
            assert found[new, label] == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("method", ["full", "jackknife+"])
@pytest.mark.parametrize("balanced", [False, True])
def test_all_rows_as_the_sample_give_the_sets_and_intervals_of_all(balanced, method):
    X, _, Y, weights = problem(weighted=True)
    some, every = reaches(X, Y, weights, "free", np.arange(N))
    k, own = oracles.gram(X, gamma=GAMMA)[N:, :N], np.ones(NEW)
    words = membership(Y[:N]), np.array([1.5, 1.0]), balanced, True
    p = [Sets(reach, *words).p_values(k, own, method) for reach in (some, every)]
    assert_allclose(p[0], p[1], atol=1e-9)
    ends = [interval(reach, k, own, 0.8, method) for reach in (some, every)]
    assert_allclose(ends[0], ends[1], atol=1e-4)


@pytest.mark.parametrize("method", ["full", "jackknife+"])
def test_fits_to_many_rows_compare_with_their_sample(method, monkeypatch):
    monkeypatch.setattr(search, "ALL_ROWS", 400)
    monkeypatch.setattr(levels, "ALL_ROWS", 400)
    monkeypatch.setattr(levels, "LEVELS", (150,))
    monkeypatch.setattr(sampled, "EVERY_ROW", 400)
    monkeypatch.setattr(sampled, "_LEAST", 200)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    y, t = (f + 0.4 * rng.normal(size=900) > 0).astype(int), f + 0.4 * rng.normal(size=900)
    model = KernelFisherClassifier().fit(X[:600], y[:600])
    given = {"gamma": model.gamma_, "regularization": model.regularization_}
    exact = KernelFisherClassifier(**given).fit(X[:600], y[:600])
    assert model.selection_.sampled and not exact.selection_.sampled
    sets, truth = (each.predict_set(X[600:], 0.8, method) for each in (model, exact))
    assert np.mean(sets == truth) > 0.85
    assert 0.7 < np.mean(sets[np.arange(300), y[600:]]) < 0.9
    regression = KernelRidgeCV().fit(X[:600], t[:600])
    lower, upper = regression.predict_interval(X[600:], 0.8, method)
    assert regression.selection_.sampled
    assert 0.7 < np.mean((lower <= t[600:]) & (t[600:] <= upper)) < 0.9
