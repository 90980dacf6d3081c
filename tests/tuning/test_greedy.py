"""Greedy centres: every step against brute force, and the same centres however rows are given."""

from importlib.util import find_spec

import numpy as np
import pytest
from forward_paths import loo_scores

from fisherkit import FisherCommitteeClassifier, KernelFisherClassifier, KernelRidgeCV
from fisherkit.core.forward import select_terms
from fisherkit.core.kernels import Gram, Kernel
from fisherkit.core.weights import Weights
from fisherkit.model_selection import cross_val_predict, learning_curve, permutation_test_score
from fisherkit.tuning import greedy

KERNEL = Kernel("rbf", gamma=0.5)
each_penalty = pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
each_weighting = pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
each_sweep = pytest.mark.parametrize(
    "compiled", [pytest.param(False, id="plain"), pytest.param(True, marks=needs_numba, id="numba")]
)


def problem(n=40, k=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    Y = np.sign(np.sin(2 * X) @ rng.normal(size=(2, k)) + 0.3 * rng.normal(size=(n, k)))
    return X, Y


def some_weights(n, weighted, seed=0):
    if not weighted:
        return Weights(np.ones(n), np.ones(n))
    rng = np.random.default_rng(seed)
    return Weights(rng.integers(1, 4, n).astype(float), rng.choice([0.5, 1.0, 2.0], n))


def brute_press(X, Y, weights, centres, penalty, mu):
    """Mean squared left-out residual of the ridge model on these centres: one refit per row."""
    K = KERNEL.block(X, X[centres])
    D = np.column_stack([np.ones(len(X)), K])
    S = K[centres] if penalty == "rkhs" else np.diag(1 / weights.frequency[centres])
    ridge = np.zeros((D.shape[1], D.shape[1]))
    ridge[1:, 1:] = mu * S
    total = 0.0
    for i in range(len(X)):
        v = weights.v.copy()
        v[i] -= weights.delta[i]
        theta = np.linalg.solve((D.T * v) @ D + ridge, (D.T * v) @ Y)
        total += weights.v[i] * np.sum((Y[i] - D[i] @ theta) ** 2)
    return total / weights.mass


@each_penalty
@each_weighting
@pytest.mark.parametrize("k", [1, 3])
def test_every_centre_is_the_one_that_leaves_the_smallest_press(penalty, weighted, k):
    X, Y = problem(k=k)
    weights, mu, m = some_weights(len(X), weighted), 0.3, 3
    candidates = Gram(X, KERNEL).distinct().draw(weights.v, 4 * m, seed=7)
    expected: list[int] = []
    for _ in range(m):
        rest = [c for c in candidates if c not in expected]
        prices = [brute_press(X, Y, weights, [*expected, c], penalty, mu) for c in rest]
        expected.append(rest[int(np.argmin(prices))])
    chosen = greedy.choose_rows(Gram(X, KERNEL), Y, weights, penalty, m, mu, seed=7)
    np.testing.assert_array_equal(chosen, np.sort(expected))


@each_sweep
@each_penalty
@each_weighting
def test_with_penalty_rows_forward_selection_prices_the_ridge_model(compiled, penalty, weighted):
    X, Y = problem()
    weights, mu = some_weights(len(X), weighted), 0.3
    candidates = np.arange(12)
    P = greedy._columns(
        Gram(X, KERNEL), candidates, np.arange(len(X)), weights.frequency[:12], penalty, mu
    )
    options = {"criterion": "press", "max_terms": 6, "patience": 6, "ridge": 0.0}
    path = select_terms(P, Y, weights, compiled=compiled, **options)
    for size in range(1, 7):
        press = brute_press(X, Y, weights, path.order[:size], penalty, mu)
        assert path.loo_mse[size] == pytest.approx(press, rel=1e-9)
        scores = loo_scores(path, size)
        assert np.average(((Y - scores) ** 2)[:, 0], weights=weights.v) == pytest.approx(press)


@each_penalty
@pytest.mark.parametrize("limit", [5000, 30], ids=["all rows", "a part"])
def test_shuffled_repeated_and_weighted_rows_lead_to_the_same_centres(penalty, limit, monkeypatch):
    monkeypatch.setattr(greedy, "_LEAST_ROWS", limit)
    monkeypatch.setattr(greedy, "_ROWS", 1)
    X, Y = problem(80)
    copies = 1 + np.arange(80) % 3
    again = np.random.default_rng(1).permutation(np.repeat(np.arange(80), copies))
    once = Weights(copies.astype(float), np.ones(80))
    if penalty == "coefficients":  # where a centre carries the weight of its row
        again, once = np.random.default_rng(1).permutation(80), Weights.unit(X)
    weighted = greedy.choose_rows(Gram(X, KERNEL), Y, once, penalty, 8, 0.3, seed=3)
    ones = Weights.unit(X[again])
    many = greedy.choose_rows(Gram(X[again], KERNEL), Y[again], ones, penalty, 8, 0.3, seed=3)
    np.testing.assert_array_equal(np.sort(X[weighted], axis=0), np.sort(X[again][many], axis=0))


@pytest.mark.parametrize("kernel", [Kernel("linear"), Kernel("rbf", gamma=1e-9)])
def test_directions_that_run_out_are_filled_with_other_rows(kernel):
    X, Y = problem(60)
    chosen = greedy.choose_rows(Gram(X, kernel), Y, Weights.unit(X), "rkhs", 10, 0.1, seed=0)
    assert len(np.unique(chosen)) == 10


def test_there_are_no_more_centres_than_different_rows():
    X, Y = problem(20)
    X, Y = np.repeat(X, 5, axis=0), np.repeat(Y, 5, axis=0)
    chosen = greedy.choose_rows(Gram(X, KERNEL), Y, Weights.unit(X), "rkhs", 30, 0.1, seed=0)
    assert len(chosen) == len(np.unique(X[chosen], axis=0)) == 20


# --- the estimators -------------------------------------------------------------------------------


def rings(n=900, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (np.sum(X[:, :2] ** 2, axis=1) + 0.5 * rng.normal(size=n) > 2).astype(int)


def fit(X, y, sample_weight=None, estimator=KernelFisherClassifier, **options):
    options = {"gamma": 0.3, "basis": "greedy", "n_components": 15, "random_state": 0} | options
    return estimator(**options).fit(X, y, sample_weight)


@each_penalty
@pytest.mark.parametrize("estimator", [KernelFisherClassifier, KernelRidgeCV])
def test_greedy_centres_leave_less_press_than_others_of_equal_number(penalty, estimator):
    X, y = rings()
    greedily = fit(X, y, penalty=penalty, estimator=estimator)
    assert len(greedily.basis_indices_) == 15 and greedily.selection_.method == "centres"
    for basis in ("random", "pivoted"):
        other = fit(X, y, penalty=penalty, estimator=estimator, basis=basis)
        assert greedily.selection_.value < 0.97 * other.selection_.value


def test_the_fit_is_the_ordinary_one_on_the_centres_found():
    X, y = rings()
    greedily = fit(X, y, gamma="loo")
    named = fit(X, y, gamma=greedily.gamma_, basis=greedily.basis_indices_, n_components=None)
    assert named.regularization_ == pytest.approx(greedily.regularization_, rel=1e-10)
    np.testing.assert_allclose(named.loo_decision_, greedily.loo_decision_, rtol=1e-9, atol=1e-12)
    assert len(np.unique(greedily.selection_.path["gamma"])) > 3  # the width was searched
    assert greedily.predict_set(X[:5]).shape == (5, 2)  # on the same centres


def test_weights_count_copies():
    X, y = rings(300)
    copies = 1 + np.arange(300) % 3
    again = np.repeat(np.arange(300), copies)
    weighted, repeated = fit(X, y, copies), fit(X[again], y[again])
    np.testing.assert_array_equal(
        np.sort(X[weighted.basis_indices_], axis=0),
        np.sort(X[again][repeated.basis_indices_], axis=0),
    )
    assert weighted.regularization_ == pytest.approx(repeated.regularization_, rel=1e-7)


def test_several_classes_and_a_precomputed_kernel():
    X, y = rings(400)
    y = y + (X[:, 2] > 0.7)
    by_kernel = fit(X, y)
    assert by_kernel.dual_coef_.shape == (3, 15)
    K = KERNEL.block(X, X)
    model = fit(K, y, kernel="precomputed")
    assert model.dual_coef_.shape == (3, 15)
    assert np.mean(model.predict(K) == y) > 0.8


@each_penalty
def test_row_blocks_find_the_centres_of_memory_while_all_rows_compete(penalty):
    X, y = rings()
    whole = fit(X, y, penalty=penalty, n_components=60)
    blocks = fit(X, y, penalty=penalty, n_components=60, max_memory=3_000_000)
    assert blocks.selection_.method == "streamed" and "greedy" in blocks.selection_.reason
    np.testing.assert_array_equal(np.sort(whole.basis_indices_), np.sort(blocks.basis_indices_))
    assert blocks.regularization_ == pytest.approx(whole.regularization_, rel=1e-6)


def test_row_blocks_choose_on_a_part_of_many_rows(monkeypatch):
    monkeypatch.setattr(greedy, "_LEAST_ROWS", 200)
    X, y = rings(6000)
    greedily = fit(X, y, max_memory=2_500_000)
    random = fit(X, y, basis="random", max_memory=2_500_000)
    assert greedily.selection_.method == random.selection_.method == "streamed"
    assert greedily.selection_.value < random.selection_.value


def test_dask_collections_choose_on_the_sample():
    da = pytest.importorskip("dask.array", reason="Dask is an extra")
    X, y = rings()
    lazy = fit(da.from_array(X, chunks=(300, 3)), da.from_array(y, chunks=300))
    np.testing.assert_array_equal(
        np.sort(np.asarray(lazy.basis_indices_)), np.sort(fit(X, y).basis_indices_)
    )


# --- bad input ------------------------------------------------------------------------------------


def test_a_number_of_centres_is_needed():
    with pytest.raises(ValueError, match="basis='greedy' needs n_components"):
        fit(*rings(50), n_components=None)
    with pytest.raises(ValueError, match="n_components=51 is more than the 50"):
        fit(*rings(50), n_components=51)


def test_a_budget_that_does_not_hold_the_choice_is_refused():
    with pytest.raises(ValueError, match=r"100000 bytes does not hold .* basis='greedy' takes"):
        fit(*rings(), max_memory=100_000)


@pytest.mark.parametrize("call", [cross_val_predict, permutation_test_score, learning_curve])
def test_centres_that_saw_the_labels_have_no_closed_form(call):
    X, y = rings(60)
    model = KernelFisherClassifier(gamma=0.3, regularization=1.0, basis="greedy", n_components=5)
    with pytest.raises(ValueError, match="basis='greedy' chooses centres by the labels"):
        call(model, X, y)


def test_a_committee_has_centres_that_saw_no_label():
    with pytest.raises(ValueError, match="basis='greedy' is not valid"):
        FisherCommitteeClassifier(basis="greedy", n_components=5).fit(*rings(60))
