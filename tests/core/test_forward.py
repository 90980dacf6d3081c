"""Forward selection: exact leave-one-out, the same terms by every route, and degenerate input."""

import subprocess
import sys
import tracemalloc
from importlib.util import find_spec

import numpy as np
import pytest
from forward_paths import loo_scores, prefix_scores

from fisherkit.core import forward
from fisherkit.core.forward import select_terms, update_ridge
from fisherkit.core.weights import Weights

LEAVE_ONE_OUT = ["loo_error", "press"]
SEEDS = range(4)
each_criterion = pytest.mark.parametrize("criterion", forward.CRITERIA)
each_class_count = pytest.mark.parametrize("n_classes", [2, 3])
needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
each_sweep = pytest.mark.parametrize(
    "compiled", [pytest.param(False, id="plain"), pytest.param(True, marks=needs_numba, id="numba")]
)


def rbf(X, Z, gamma=0.5):
    return np.exp(-gamma * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2))


def targets(y):
    """+-1 codes of two classes, indicators of more."""
    classes = np.unique(y)
    if len(classes) == 2:
        return np.where(y == classes[1], 1.0, -1.0)[:, None]
    return (y[:, None] == classes).astype(float)


def noisy(n=40, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n, 2)) + 1.2 * np.eye(3)[y][:, :2], y


def duplicated(n=40, n_classes=2, seed=0):
    X, y = noisy(n // 2, n_classes, seed)
    return np.vstack([X, X]), np.concatenate([y, y])


def conflicting(n=40, n_classes=2, seed=0):
    """Every row twice, the second time with another label."""
    X, y = noisy(n // 2, n_classes, seed)
    return np.vstack([X, X]), np.concatenate([y, (y + 1) % n_classes])


def symmetric(n=40, n_classes=2, seed=0):
    """Four mirror images of every row: candidates tie exactly, but for rounding."""
    X, y = noisy(n // 4, n_classes, seed)
    return np.vstack([X, -X, X * [1, -1], X * [-1, 1]]), np.tile(y, 4)


def discrete(n=40, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(n, 2)).astype(float)
    y = (X.sum(axis=1) + (rng.random(n) < 0.3)).astype(int) % n_classes
    return X, np.where(np.arange(n) < n_classes, np.arange(n), y)


DATA = [noisy, duplicated, conflicting, symmetric, discrete]
each_data = pytest.mark.parametrize("make", DATA, ids=lambda make: make.__name__)


def some_weights(n, kind, seed=0):
    rng = np.random.default_rng(seed)
    ones = np.ones(n)
    return {
        "unit": Weights(ones, ones),
        "frequency": Weights(rng.integers(1, 4, n).astype(float), ones),
        "both": Weights(rng.choice([0.5, 1.0, 2.5], n), rng.choice([0.3, 1.0, 4.0], n)),
    }[kind]


def run(X, y, *, weights="unit", criterion="loo_error", candidates=None, **options):
    """The path and the kernel columns (n, L) it was selected from."""
    K = rbf(X, X if candidates is None else X[candidates])
    w = some_weights(len(X), weights) if isinstance(weights, str) else weights
    options = {"max_terms": 8, "patience": 3, "compiled": False} | options
    return select_terms(K.T.copy(), targets(y), w, criterion=criterion, **options), K


def orthogonal_design(path, K, size):
    """The constant and the orthogonal terms of a prefix, recovered from K; (n, size + 1)."""
    chosen = K[:, path.order[:size]] - path.means[:size]
    return np.column_stack([np.ones(len(K)), chosen @ np.linalg.inv(path.A[:size, :size])])


def brute_force_loo(D, Y, w, ridge):
    """Left-out scores: one weighted ridge regression per row, the first column unpenalised."""
    penalty = np.diag(np.concatenate([[0.0], ridge]))
    scores = np.empty_like(Y)
    for i in range(len(Y)):
        v = w.v.copy()
        v[i] -= w.delta[i]
        theta = np.linalg.solve((D.T * v) @ D + penalty, (D.T * v) @ Y)
        scores[i] = D[i] @ theta
    return scores


def error_and_mse(scores, Y, v):
    """A row on the boundary, to rounding, counts as right."""
    if Y.shape[1] == 1:
        margin = Y[:, 0] * scores[:, 0]
    else:
        margin = scores[Y > 0] - np.where(Y > 0, -np.inf, scores).max(axis=1)
    return v @ (margin < -1e-9) / v.sum(), v @ ((Y - scores) ** 2).sum(axis=1) / v.sum()


@each_class_count
@each_criterion
@pytest.mark.parametrize("weights", ["unit", "frequency", "both"])
@pytest.mark.parametrize("ridge", [1e-6, 0.3])
def test_leave_one_out_equals_brute_force(n_classes, criterion, weights, ridge):
    X, y = noisy(n_classes=n_classes)
    path, K = run(X, y, weights=weights, criterion=criterion, ridge=ridge, patience=9)
    w = some_weights(len(X), weights)
    assert len(path.order) == 8
    for size in range(len(path.order) + 1):
        D = orthogonal_design(path, K, size)
        truth = brute_force_loo(D, targets(y), w, np.full(size, ridge))
        np.testing.assert_allclose(loo_scores(path, size), truth, rtol=1e-10, atol=1e-10)
        expected = error_and_mse(truth, targets(y), w.v)
        np.testing.assert_allclose(
            [path.loo_error[size], path.loo_mse[size]], expected, rtol=1e-10, atol=1e-12
        )


def lexicographic_twin(K, Y, w, criterion, ridge, steps):
    """Greedy selection that orthogonalises and prices every candidate from scratch."""
    root, order = np.sqrt(w.v)[:, None], []
    for _ in range(steps):
        keys = []
        for j in range(K.shape[1]):
            if j in order:
                continue
            D = np.column_stack([np.ones(len(K)), K[:, [*order, j]]]) * root
            Q, R = np.linalg.qr(D)
            terms = Q * np.diag(R) / root  # orthogonal, of the lengths that Gram-Schmidt gives
            terms[:, 0] = 1.0
            scores = brute_force_loo(terms, Y, w, np.full(len(order) + 1, ridge))
            error, mse = error_and_mse(scores, Y, w.v)
            keys.append((error if criterion == "loo_error" else 0.0, mse, j))
        order.append(min(keys)[2])
    return order


@each_class_count
@pytest.mark.parametrize("criterion", LEAVE_ONE_OUT)
@pytest.mark.parametrize("weights", ["unit", "both"])
@each_sweep
def test_selection_equals_pricing_every_candidate_from_scratch(
    n_classes, criterion, weights, compiled
):
    X, y = noisy(24, n_classes, seed=3)
    options = {"criterion": criterion, "weights": weights, "compiled": compiled}
    path, K = run(X, y, candidates=np.arange(10), max_terms=4, ridge=1e-3, **options)
    w = some_weights(len(X), weights)
    twin = lexicographic_twin(K, targets(y), w, criterion, 1e-3, len(path.order))
    assert path.order.tolist() == twin


@each_class_count
@pytest.mark.parametrize("weights", ["unit", "both"])
@pytest.mark.parametrize("seed", SEEDS)
def test_error_reduction_equals_greedy_least_squares(n_classes, weights, seed):
    X, y = noisy(40, n_classes, seed)
    path, K = run(X, y, criterion="err", weights=weights, candidates=np.arange(20), max_terms=7)
    Y, root, order = targets(y), some_weights(len(X), weights).root[:, None], []
    for _ in range(7):
        residual = np.full(20, np.inf)
        for j in set(range(20)) - set(order):
            D = np.column_stack([np.ones(len(K)), K[:, [*order, j]]]) * root
            fit = np.linalg.lstsq(D, Y * root, rcond=None)[0]
            residual[j] = np.sum((Y * root - D @ fit) ** 2)
        order.append(int(np.argmin(residual)))
    assert path.order.tolist() == order
    assert path.best == 7


def test_error_reduction_keeps_its_digits_when_candidates_nearly_vanish():
    """Wide kernels: almost all of every candidate lies in the span of the terms before it."""
    X, y = noisy(60, seed=1)
    K = rbf(X, X, gamma=1e-2)
    w = some_weights(60, "unit")
    options = {"criterion": "err", "max_terms": 60, "patience": 1, "ridge": 0.0}
    path = select_terms(K.copy(), targets(y), w, **options)
    centred = K - K.mean(axis=0)
    largest = (centred**2).sum(axis=0).max()
    Q = np.empty((60, 0))
    for size, j in enumerate(path.order):
        rest = centred - Q @ (Q.T @ centred)
        rest -= Q @ (Q.T @ rest)
        kappa = (rest**2).sum(axis=0)
        assert kappa[j] > 0.9e-9 * largest
        gain = (targets(y)[:, 0] @ rest) ** 2 / np.where(kappa > 1e-9 * largest, kappa, np.inf)
        assert gain[j] >= gain.max() * (1 - 1e-8) - 1e-11
        np.testing.assert_allclose(path.kappa[size], kappa[j], rtol=1e-8)
        Q = np.column_stack([Q, rest[:, j] / np.sqrt(kappa[j])])
    assert len(path.order) > 5 and kappa.max() > 1e-9 * largest


@each_class_count
@each_criterion
@each_sweep
@pytest.mark.parametrize("cost", [False, True])
def test_integer_weights_equal_repeated_rows(n_classes, criterion, compiled, cost):
    X, y = noisy(30, n_classes, seed=2)
    frequency = some_weights(30, "frequency").frequency
    price = np.array([1.0, 3.0, 0.5])[y] if cost else np.ones(30)
    rows = np.repeat(np.arange(30), frequency.astype(int))
    options = {"criterion": criterion, "compiled": compiled, "max_terms": 10}
    weighted, _ = run(X, y, weights=Weights(frequency, price), **options)
    repeated, _ = run(X[rows], y[rows], weights=Weights(np.ones(len(rows)), price[rows]), **options)
    # of equal candidates the first enters
    np.testing.assert_array_equal(np.searchsorted(rows, weighted.order), repeated.order)
    assert weighted.best == repeated.best
    np.testing.assert_allclose(weighted.loo_error, repeated.loo_error, rtol=1e-9)
    np.testing.assert_allclose(weighted.loo_mse, repeated.loo_mse, rtol=1e-9)
    for ours, theirs in zip(weighted.coefficients(5), repeated.coefficients(5), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(loo_scores(weighted, 5)[rows], loo_scores(repeated, 5), atol=1e-9)


@needs_numba
@each_data
@each_class_count
@pytest.mark.parametrize("criterion", LEAVE_ONE_OUT)
@pytest.mark.parametrize("weights", ["unit", "both"])
def test_compiled_and_plain_select_the_same_terms(make, n_classes, criterion, weights):
    for seed in range(6):
        X, y = make(n_classes=n_classes, seed=seed)
        options = {"criterion": criterion, "weights": weights, "max_terms": 15, "patience": 6}
        plain, _ = run(X, y, compiled=False, **options)
        compiled, _ = run(X, y, compiled=True, **options)
        np.testing.assert_array_equal(plain.order, compiled.order)
        assert plain.best == compiled.best
        np.testing.assert_allclose(plain.loo_error, compiled.loo_error, atol=1e-12)
        np.testing.assert_allclose(plain.loo_mse, compiled.loo_mse, rtol=1e-7)


@each_data
@each_criterion
@each_class_count
@pytest.mark.parametrize("gamma", [0.5, 0.02])
def test_the_order_of_rows_does_not_decide_ties(make, criterion, n_classes, gamma):
    for seed in range(15 if criterion == "err" else 4):
        X, y = make(n_classes=n_classes, seed=seed)
        K, Y, w = rbf(X, X, gamma), targets(y), some_weights(len(X), "unit")
        shuffled = np.random.default_rng(seed).permutation(len(X))
        options = {"criterion": criterion, "max_terms": 12, "patience": 6, "compiled": False}
        path = select_terms(K.copy(), Y, w, **options)
        other = select_terms(K[:, shuffled].copy(), Y[shuffled], w, **options)
        np.testing.assert_array_equal(path.order, other.order)
        np.testing.assert_allclose(path.loo_error, other.loo_error, atol=1e-12)


def test_a_row_on_the_boundary_counts_as_right():
    """Classes of 14, 13 and 13: without a row of the first one, the bias scores them alike."""
    _, y = noisy(40, 3)
    w = some_weights(40, "unit")
    options = {"criterion": "loo_error", "max_terms": 1, "patience": 1}
    path = select_terms(np.empty((0, 40)), targets(y), w, **options)
    np.testing.assert_allclose(path.loo_error, [26 / 40])


@needs_numba
@each_class_count
@pytest.mark.parametrize("criterion", LEAVE_ONE_OUT)
def test_threads_change_nothing(n_classes, criterion, monkeypatch):
    X, y = noisy(60, n_classes)
    alone, _ = run(X, y, criterion=criterion, compiled=True)
    sweep, _ = forward._compile()
    monkeypatch.setattr(forward, "_compile", lambda: (sweep, 3))
    monkeypatch.setattr(forward, "_THREADED", 0)
    shared, _ = run(X, y, criterion=criterion, compiled=True)
    np.testing.assert_array_equal(alone.order, shared.order)
    np.testing.assert_array_equal(alone.loo_mse, shared.loo_mse)
    np.testing.assert_array_equal(alone.gamma, shared.gamma)


@each_class_count
@pytest.mark.parametrize("rate", [False, True])
def test_bounds_of_the_sweep_lie_below_the_prices(n_classes, rate):
    X, y = noisy(24, n_classes, seed=5)
    w = some_weights(24, "both")
    path, K = run(X, y, weights="both", max_terms=2)
    P = K.T.copy()
    means, _ = forward._whiten(P, w)
    fit = forward._Fit(targets(y), w, capacity=2, rate=rate)
    for j in path.order[:2]:
        fit.add(j, P[j], means[j], np.zeros(fit.size), 1e-6)
    live = np.setdiff1d(np.arange(24), path.order[:2])
    P -= (P @ fit.W[0])[:, None] * fit.W[0] / fit.kappa[0]
    out = np.zeros((4, 24))
    forward.sweep(P, live, forward._step(fit, fit.W[1] / np.sqrt(fit.kappa[1]), 1e-6), out)
    np.testing.assert_allclose(P[live] @ fit.W.T, 0.0, atol=1e-12)
    np.testing.assert_allclose(out[1, live], (P[live] ** 2).sum(axis=1))
    error, mse = fit.price_with(P[live], 1e-6) * w.mass
    assert np.all(out[3, live] <= mse * (1 + 1e-12))
    fewest = error == error.min() if rate else np.ones(len(live), dtype=bool)
    assert np.all(out[3, live][fewest] > 0.5 * mse[fewest])
    if rate:
        np.testing.assert_allclose(out[2, live], error)


@each_criterion
@each_class_count
@pytest.mark.parametrize("weights", ["unit", "both"])
def test_coefficients_and_prefix_scores_reproduce_every_prefix(criterion, n_classes, weights):
    X, y = noisy(40, n_classes)
    w = some_weights(40, weights)
    path, K = run(X, y, weights=weights, criterion=criterion)
    new = np.random.default_rng(9).normal(size=(7, 2))
    T = len(path.order)
    on_rows, on_new = (prefix_scores(path, rbf(Z, X[path.order])) for Z in (X, new))
    assert on_new.shape == (T + 1, 7, targets(y).shape[1])
    for size in range(T + 1):
        coef, intercept = path.coefficients(size)
        scores = K[:, path.order[:size]] @ coef + intercept
        D = orthogonal_design(path, K, size) * w.root[:, None]
        np.testing.assert_allclose(D.T @ D, np.diag(np.diag(D.T @ D)), atol=1e-9)
        penalty = np.diag([0.0] + [1e-6] * size)
        theta = np.linalg.solve(D.T @ D + penalty, D.T @ (targets(y) * w.root[:, None]))
        np.testing.assert_allclose(scores, D @ theta / w.root[:, None], atol=1e-8)
        np.testing.assert_allclose(on_rows[size], scores, atol=1e-8)
        scores = rbf(new, X[path.order[:size]]) @ coef + intercept
        np.testing.assert_allclose(on_new[size], scores, atol=1e-8)


@pytest.mark.parametrize("criterion", LEAVE_ONE_OUT)
@pytest.mark.parametrize("patience", [1, 2, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_prefix_is_kept_and_patience_ends_the_search(criterion, patience, seed):
    X, y = noisy(60, seed=seed)
    path, _ = run(X, y, criterion=criterion, patience=patience, max_terms=60)
    error = path.loo_error if criterion == "loo_error" else np.zeros_like(path.loo_mse)
    keys = list(zip(error, path.loo_mse, strict=True))
    assert path.best == keys.index(min(keys))
    assert len(path.order) == path.best + patience
    longer, _ = run(X, y, criterion=criterion, patience=60, max_terms=60)
    np.testing.assert_array_equal(longer.order[: len(path.order)], path.order)
    seen = [min(keys[: t + 1]) for t in range(len(keys))]
    stalls = [seen[t] == seen[t - patience] for t in range(patience, len(seen))]
    assert not any(stalls[:-1])


@each_class_count
def test_the_evidence_update_follows_its_equations(n_classes):
    X, y = noisy(50, n_classes, seed=4)
    w = some_weights(50, "frequency")
    path, K = run(X, y, weights=w, criterion="press", max_terms=6, patience=6)
    Y = targets(y)
    D = orthogonal_design(path, K, 6)
    ridge = np.full(6, 1e-6)
    for _ in range(2):
        kappa = w.v @ D[:, 1:] ** 2
        gamma = (D[:, 1:].T * w.v) @ Y / (kappa + ridge)[:, None]
        rho = kappa / (kappa + ridge)
        residual = Y - w.mean(Y) - D[:, 1:] @ gamma
        noise = np.sum(w.v[:, None] * residual**2) / (w.v.sum() - 1 - rho.sum())
        ridge = np.clip(rho * noise / (gamma**2).sum(axis=1), 1e-12, 1e12)
    updated = update_ridge(path, 6, iterations=2)
    np.testing.assert_array_equal(updated.order, path.order[:6])
    np.testing.assert_allclose(updated.ridge, ridge, rtol=1e-8)
    truth = brute_force_loo(orthogonal_design(updated, K, 6), Y, w, ridge)
    np.testing.assert_allclose(loo_scores(updated, 6), truth, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        [updated.loo_error[6], updated.loo_mse[6]], error_and_mse(truth, Y, w.v), rtol=1e-9
    )


def test_the_evidence_update_drops_what_the_targets_do_not_need():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(6, 200))
    y = np.where(noise[0] > 0, 1.0, -1.0)
    w = some_weights(200, "unit")
    path = select_terms(noise.copy(), y[:, None], w, criterion="err", max_terms=6, patience=1)
    updated = update_ridge(path, 6, iterations=500)
    assert updated.order[0] == 0
    assert 1 <= len(updated.order) < 6
    assert updated.best == len(updated.order)
    coef, intercept = updated.coefficients(updated.best)
    scores = noise[updated.order].T @ coef + intercept
    np.testing.assert_allclose(prefix_scores(updated, noise[updated.order].T)[-1], scores)
    assert np.mean(np.sign(scores[:, 0]) == y) > 0.95


def assert_finite(path, n, k):
    T = len(path.order)
    assert len(set(path.order.tolist())) == T
    assert path.loo_error.shape == path.loo_mse.shape == (T + 1,)
    assert 0 <= path.best <= T
    assert np.all((path.loo_error >= 0) & (path.loo_error <= 1))
    scores = prefix_scores(path, np.ones((3, T)))
    assert scores.shape == (T + 1, 3, k)
    everything = [path.loo_mse, path.A, path.W, path.gamma, path.kappa, path.means, scores]
    for size in range(T + 1):
        everything += [*path.coefficients(size), loo_scores(path, size)]
        assert loo_scores(path, size).shape == (n, k)
    for values in everything:
        assert np.all(np.isfinite(values))


@each_criterion
@each_sweep
@pytest.mark.parametrize("ridge", [1e-6, 0.0])
class TestDegenerateInput:
    def check(self, P, Y, criterion, compiled, ridge, max_terms=50):
        w = some_weights(len(Y), "unit")
        options = {"criterion": criterion, "compiled": compiled, "ridge": ridge}
        path = select_terms(P.copy(), Y, w, max_terms=max_terms, patience=4, **options)
        assert_finite(path, *Y.shape)
        assert_finite(update_ridge(path, len(path.order)), *Y.shape)
        return path

    @each_class_count
    def test_of_equal_candidates_the_first_enters_and_the_others_never(
        self, n_classes, criterion, compiled, ridge
    ):
        X, y = noisy(30, n_classes)
        P = np.tile(rbf(X[:1], X), (6, 1))
        path = self.check(P, targets(y), criterion, compiled, ridge)
        assert path.order.tolist() == [0]

    def test_without_candidates_the_bias_remains(self, criterion, compiled, ridge):
        _, y = noisy(30)
        path = self.check(np.empty((0, 30)), targets(y), criterion, compiled, ridge)
        assert path.best == 0
        np.testing.assert_allclose(path.coefficients(0)[1], targets(y).mean(axis=0))

    def test_one_candidate_and_more_terms_than_candidates(self, criterion, compiled, ridge):
        X, y = noisy(30)
        P = rbf(X[:1], X)
        assert self.check(P, targets(y), criterion, compiled, ridge).order.tolist() == [0]
        P = rbf(X[:5], X)
        assert len(self.check(P, targets(y), criterion, compiled, ridge).order) <= 5
        assert len(self.check(P, targets(y), criterion, compiled, ridge, max_terms=0).order) == 0

    @pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e8])
    def test_constant_columns_are_skipped(self, value, criterion, compiled, ridge):
        X, y = noisy(30)
        P = rbf(X[:4], X)
        P[1:3] = value
        path = self.check(P, targets(y), criterion, compiled, ridge)
        assert not {1, 2} & set(path.order.tolist())
        path = self.check(np.full((3, 30), value), targets(y), criterion, compiled, ridge)
        assert len(path.order) == 0

    @each_class_count
    @pytest.mark.parametrize("gamma", [1e-9, 0.5, 1e9])
    def test_a_class_of_one(self, n_classes, gamma, criterion, compiled, ridge):
        X, _ = noisy(20)
        y = np.zeros(20, dtype=int)
        y[: n_classes - 1] = np.arange(1, n_classes)
        self.check(rbf(X, X, gamma), targets(y), criterion, compiled, ridge)

    @each_class_count
    def test_separable_classes(self, n_classes, criterion, compiled, ridge):
        X, y = noisy(30, n_classes)
        X = X + 20.0 * y[:, None]
        path = self.check(rbf(X, X, 0.01), targets(y), criterion, compiled, ridge)
        assert path.loo_error[path.best] == 0

    def test_two_rows(self, criterion, compiled, ridge):
        self.check(np.array([[1.0, 0.2], [0.2, 1.0]]), targets([0, 1]), criterion, compiled, ridge)

    def test_a_row_that_alone_determines_its_score_counts_as_wrong(
        self, criterion, compiled, ridge
    ):
        X, y = noisy(30)
        X[0] *= 1e8
        path = self.check(X @ X.T, targets(y), criterion, compiled, ridge, max_terms=1)
        # fitted to rounding, and undetermined once it is left out
        assert len(path.order) == 1
        assert abs(loo_scores(path, 1)[0, 0]) == 0
        assert path.loo_error[1] * 30 >= 1


def test_selection_makes_no_copy_of_the_candidates():
    X, y = noisy(1500)
    P = rbf(X[:400], X)
    w = some_weights(1500, "unit")
    tracemalloc.start()
    for criterion in LEAVE_ONE_OUT:
        select_terms(P, targets(y), w, criterion=criterion, max_terms=3, patience=3, compiled=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.8 * P.nbytes


def test_importing_the_module_does_not_import_numba():
    code = "import fisherkit.core.forward, sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
