"""Fits on row blocks at small mu: as good as memory, and nearer to the truth than plain moments."""

import logging
import os
import re

import numpy as np
import pytest
from sklearn.datasets import make_moons

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.core import basis
from fisherkit.core.bias import BIASES
from fisherkit.core.kernels import Gram, Kernel
from fisherkit.core.weights import Weights
from fisherkit.rows import passes
from fisherkit.rows.moments import Centres
from fisherkit.rows.passes import form_of_rows
from fisherkit.rows.refined import refined
from fisherkit.rows.sources import Budget, LocalRows
from fisherkit.rows.sums import Block

N, M = 700, 60
SMALL = 700_000  # bytes
WIDTHS = {"wide": 0.02, "medium": 0.3, "narrow": 3.0}


@pytest.fixture(scope="module")
def data():
    X, y = make_moons(N, noise=0.15, random_state=0)
    rows = np.sort(np.random.default_rng(1).choice(N, M, replace=False))
    return X, y, rows


def gap(a, b):
    return float(np.max(np.abs(a - b)) / np.max(np.abs(a)))


def fitted(X, y, rows, memory, **options):
    model = KernelFisherClassifier(**options, basis=rows, max_memory=memory).fit(X, y)
    assert model.selection_.method == ("streamed" if memory == SMALL else "centres")
    return model


@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize("gamma", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("mu", [1e-8, 1e-6, 1e-4, 1e-2])
def test_blocks_agree_with_memory_as_well_as_memory_with_itself(data, penalty, bias, gamma, mu):
    """On rows in another order, memory finds what rounding of the kernel values allows.

    Some processors round alike in any order. What nearly dependent centres then hide is the error
    eps n / mu that `fisherkit.rows.refined` names, of memory and of blocks.
    """
    X, y, rows = data
    options = {"gamma": gamma, "penalty": penalty, "bias": bias, "regularization": mu}
    shuffle = np.random.default_rng(2).permutation(N)
    whole = fitted(X, y, rows, "8GB", **options)
    other = fitted(X[shuffle], y[shuffle], np.argsort(shuffle)[rows], "8GB", **options)
    parts = fitted(X, y, rows, SMALL, **options)
    itself = gap(whole.loo_decision_[shuffle], other.loo_decision_)
    eps = np.finfo(float).eps
    dependent = np.linalg.cond(Kernel("rbf", gamma=gamma).block(X[rows], X[rows])) > 0.1 / eps
    hidden = eps * N / mu if dependent and penalty == "rkhs" else 0.0
    assert gap(whole.loo_decision_, parts.loo_decision_) < max(1e-8, 10 * itself, hidden)
    # f(x) = k(x)'a rounds by eps |a|_1, however well a is known
    known = eps * np.sum(np.abs(whole.dual_coef_))
    assert gap(whole.decision_function(X), parts.decision_function(X)) < max(1e-8, known)


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_a_search_that_ends_at_the_smallest_mu_agrees_with_memory(data, penalty):
    X, _, rows = data
    target = np.sin(2 * X[:, 0]) + X[:, 1]  # without noise
    options = {"gamma": 0.1, "penalty": penalty, "basis": rows}
    whole = KernelRidgeCV(**options, max_memory="8GB").fit(X, target)
    parts = KernelRidgeCV(**options, max_memory=SMALL).fit(X, target)
    assert parts.selection_.method == "streamed"
    assert parts.regularization_ == pytest.approx(whole.regularization_, rel=1e-8)
    assert gap(whole.loo_prediction_, parts.loo_prediction_) < 1e-8


@pytest.mark.parametrize("name", ["rbf", "laplacian", "linear", "poly"])
def test_memory_and_blocks_factorise_the_same_bits(data, name):
    X, _, rows = data
    kernel = Kernel(name, gamma=0.3)
    memory = basis.centres(Gram(X, kernel), rows, np.ones(N), "rkhs")
    parts = Centres.of(kernel, X[rows], np.ones(M), "rkhs")
    assert np.array_equal(rows[parts.kept], memory.rows)
    w = np.ones((len(memory.rows), 1))
    assert np.array_equal(parts.lift(w), memory.lift(w))


def in_blocks(X, Y, weights):
    return LocalRows(X, Y, weights.frequency, weights.cost, Budget(SMALL))


@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
@pytest.mark.parametrize("gamma", WIDTHS.values(), ids=WIDTHS)
def test_refined_moments_agree_with_extended_precision(data, bias, gamma):
    X, y, rows = data
    rng = np.random.default_rng(3)
    v = rng.integers(1, 4, N).astype(float)
    weights = Weights(v, np.ones(N))
    Y = np.where(y > 0, 1.0, -1.0)[:, None]
    centres = Centres.of(Kernel("rbf", gamma=gamma), X[rows], np.ones(M), "coefficients")
    everything = in_blocks(X, Y, weights)
    form, relative = form_of_rows(
        everything, centres, Block(X, Y, weights, np.arange(N)), BIASES[bias]
    )
    mu = 1e-7 * form.unit
    truth = extended_fit(X, X[rows], Y[:, 0], v, gamma, bias, mu)

    def error(form):
        coef, intercept = form.coefficients(mu)
        K = Kernel("rbf", gamma=gamma).block(X, X[rows])
        return gap(truth, (K @ coef + intercept)[:, 0])

    better = refined(everything, form, least=relative * form.unit)
    assert error(better) < 1e-9
    assert error(better) < 0.3 * error(form)


def extended_fit(X, Z, y, v, gamma, bias, mu):
    """Fitted values of the coefficients penalty, by Cholesky in extended precision."""
    X, Z, y, v = (a.astype(np.longdouble) for a in (X, Z, y, v))
    K = np.exp(-np.longdouble(gamma) * np.sum((X[:, None, :] - Z[None, :, :]) ** 2, axis=2))
    if bias == "penalized":
        K = np.hstack([K, np.ones((len(K), 1), dtype=K.dtype)])
    mean, level = np.zeros(K.shape[1], dtype=K.dtype), np.longdouble(0)
    if bias == "free":
        mean, level = v @ K / v.sum(), v @ y / v.sum()
    C = K - mean
    G = C.T @ (v[:, None] * C) + mu * np.eye(K.shape[1])
    b = C.T @ (v * (y - level))
    for j in range(len(G)):  # G = LL', and b becomes L^-1 b
        G[j, j] = np.sqrt(G[j, j])
        G[j + 1 :, j] /= G[j, j]
        G[j + 1 :, j + 1 :] -= np.outer(G[j + 1 :, j], G[j + 1 :, j])
        b[j] = (b[j] - G[j, :j] @ b[:j]) / G[j, j]
    for j in reversed(range(len(G))):
        b[j] = (b[j] - G[j + 1 :, j] @ b[j + 1 :]) / G[j, j]
    return (C @ b + level).astype(float)


def test_moments_are_taken_again_only_where_mu_is_small(data, caplog):
    X, y, rows = data
    with caplog.at_level(logging.INFO, logger="fisherkit"):
        fitted(X, y, rows, SMALL, gamma=0.3, penalty="coefficients", regularization=1.0)
        assert "pass 1 again" not in caplog.text
        fitted(X, y, rows, SMALL, gamma=0.3, penalty="coefficients", regularization=1e-6)
    assert "pass 1 again" in caplog.text


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize("mu", [1e-14, 1e-24, 1e-30])
def test_a_mu_below_all_rounding_gives_no_wild_fit(data, penalty, mu):
    """Directions that are rounding alone are left out, as in memory."""
    X, y, rows = data
    options = {"gamma": 0.3, "penalty": penalty, "regularization": mu}
    whole = fitted(X, y, rows, "8GB", **options)
    parts = fitted(X, y, rows, SMALL, **options)
    allowed = 1e-5 if mu == 1e-14 else 1.0
    assert gap(whole.loo_decision_, parts.loo_decision_) < allowed


def test_a_fit_that_leaves_no_residual_has_a_price(data):
    """Where every row is a centre and mu is nothing, the mean of B_ii is nothing but rounding."""
    X, y, _ = data
    options = {"gamma": 300.0, "bias": "none", "regularization": 1e-30}
    model = fitted(X[:200], y[:200], np.arange(200), SMALL, **options)
    assert model.score(X[:200], y[:200]) == 1.0


@pytest.mark.parametrize("given", [None, 1e-6])
def test_moments_are_taken_again_where_only_all_rows_see_that_mu_is_small(
    data, given, monkeypatch, caplog
):
    X, _, rows = data
    target = np.sin(2 * X[:, 0]) + X[:, 1]  # without noise
    options = {"gamma": 0.1, "penalty": "coefficients", "basis": rows}
    options["regularization"] = "loo" if given is None else given
    values = passes._Pilot.values

    def misjudged(pilot, mus):
        return np.log(np.asarray(mus) / pilot.unit) ** 2 + 0 * values(pilot, mus)

    whole = KernelRidgeCV(**options, max_memory="8GB").fit(X, target)
    monkeypatch.setattr(passes._Pilot, "values", misjudged)
    with caplog.at_level(logging.INFO, logger="fisherkit"):
        parts = KernelRidgeCV(**options, max_memory=SMALL).fit(X, target)
    assert caplog.text.count("pass 1 again") == 1
    assert ("misjudged" in caplog.text) == (given is None)
    assert parts.regularization_ == pytest.approx(whole.regularization_, rel=1e-8)
    assert gap(whole.loo_prediction_, parts.loo_prediction_) < 1e-8


@pytest.mark.parametrize("bias", ["free", "penalized"])
def test_a_budget_that_is_accepted_lasts_to_the_end(bias):
    """However many centres: no pass needs more than what is asked for before rows are read."""
    X, y = make_moons(700, noise=0.15, random_state=0)
    options = {"gamma": 30.0, "penalty": "coefficients", "bias": bias, "regularization": 1e-8}
    model = KernelFisherClassifier(**options, basis=np.arange(650), max_memory=10_000)
    with pytest.raises(ValueError, match="smaller than one block") as refusal:
        model.fit(X, y)
    least = int(re.search(r"take (\d+) bytes", str(refusal.value))[1])
    model.set_params(max_memory=least).fit(X, y)
    assert model.selection_.method == "streamed"


def test_without_them_small_mu_would_cost_digits(data, monkeypatch):
    X, y, rows = data
    options = {"gamma": 0.3, "penalty": "coefficients", "regularization": 1e-8}
    whole = fitted(X, y, rows, "8GB", **options)
    again = gap(whole.loo_decision_, fitted(X, y, rows, SMALL, **options).loo_decision_)
    monkeypatch.setattr(passes, "_DOUBT", np.inf)
    once = gap(whole.loo_decision_, fitted(X, y, rows, SMALL, **options).loo_decision_)
    assert once > 100 * again


@pytest.mark.skipif(
    os.environ.get("SCIPY_ARRAY_API") != "1",
    reason="array dispatch needs SCIPY_ARRAY_API=1 set before SciPy is imported",
)
@pytest.mark.parametrize(("penalty", "mu"), [("rkhs", 1e-3), ("coefficients", 1e-6)])
def test_torch_rows_agree_with_memory(data, penalty, mu, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch stands in for a GPU here")
    from sklearn import config_context

    X, y, rows = data
    monkeypatch.setattr(passes, "_DOUBT", 0.0)
    options = {"gamma": 0.3, "penalty": penalty, "regularization": mu}
    plain = fitted(X, y, rows, "8GB", **options)
    other = fitted(X, y, np.random.default_rng(0).permutation(rows), "8GB", **options)
    with config_context(array_api_dispatch=True):
        whole, parts = (
            fitted(torch.asarray(X), torch.asarray(y), rows, memory, **options)
            for memory in ("8GB", SMALL)
        )
    assert isinstance(parts.dual_coef_, torch.Tensor)
    assert gap(whole.loo_decision_.numpy(), parts.loo_decision_.numpy()) < 1e-8
    # Nearly dependent centres: other bits of K_mm, as of centres in another order, matter more.
    known = gap(plain.loo_decision_, other.loo_decision_)
    assert gap(plain.loo_decision_, parts.loo_decision_.numpy()) < max(1e-8, 10 * known)
