"""Solvers of lq-penalised least squares: exact lasso, majorise-minimise, local minima for q < 1."""

import numpy as np
import pytest
from majorise import mm
from sklearn.linear_model import Lasso, MultiTaskLasso

from fisherkit.sparse import descent, lasso
from fisherkit.sparse.lasso import LeastSquares, lasso_path, solve_path

SEEDS = [0, 1, 2]
TARGETS = [1, 3]
BIASES = [False, True]
FRACTIONS = [0.5, 0.1, 0.02]  # of rho_max


def data(n, k=1, *, gamma=0.5, columns=None, seed=0):
    """Kernel columns (n, columns) and targets (n, k): noisy signs, or noisy smooth functions."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    squared = np.sum((X[:, None] - X[None]) ** 2, axis=2)
    K = np.exp(-gamma * squared)[:, :columns]
    if k == 1:
        return K, np.sign(X[:, :1] * X[:, 1:] + 0.3 * rng.standard_normal((n, 1)))
    return K, np.sin(X @ rng.standard_normal((2, k))) + 0.3 * rng.standard_normal((n, k))


def rho_max(problem):
    """The smallest rho at which the lasso is empty, max_j |C_j| / m."""
    return float(np.linalg.norm(problem.C, axis=1).max(initial=0.0)) / problem.mass


def design(K, Y, v, penalize_bias):
    """D and whitened targets, in the plainest way."""
    if penalize_bias:
        D = np.column_stack([np.ones(len(K)), K])
    else:
        D = K - np.average(K, axis=0, weights=v)
        Y = Y - np.average(Y, axis=0, weights=v)
    return np.sqrt(v)[:, None] * D, np.sqrt(v)[:, None] * Y


def rows(solution, L, penalize_bias=False):
    """The coefficients of all columns of D."""
    A = np.zeros((L, solution.coef.shape[1]))
    A[solution.support] = solution.coef
    return np.vstack([solution.intercept, A]) if penalize_bias else A


def objective(D, Y, A, lam, q):
    """J by loops over rows and columns."""
    fit = sum(float(np.sum((y - d @ A) ** 2)) for d, y in zip(D, Y, strict=True))
    return 0.5 * fit + lam * sum(float(np.sqrt(np.sum(a**2))) ** q for a in A)


def gradient(D, Y, A, lam, q):
    """The gradient of J in the rows that are not zero; the correlations G in the others."""
    G = D.T @ (Y - D @ A)
    n = np.linalg.norm(A, axis=1)
    on = n > 0
    return G[on] - lam * q * n[on, None] ** (q - 2) * A[on], G[~on]


def assert_optimal(K, Y, v, rho, solution, penalize_bias=False, tol=1e-8):
    """The conditions for a minimum at q = 1."""
    D, T = design(K, Y, v, penalize_bias)
    lam = rho * v.sum()
    A = rows(solution, K.shape[1], penalize_bias)
    inside, outside = gradient(D, T, A, lam, 1.0)
    scale = np.linalg.norm(D, axis=0)
    reach = np.linalg.norm(T) + scale @ np.linalg.norm(A, axis=1)
    tolerance = tol * lam + 1e-15 * scale.max() * reach  # the latter is rounding
    assert np.linalg.norm(inside, axis=1).max(initial=0) <= tolerance
    assert np.linalg.norm(outside, axis=1).max(initial=0) <= lam + tolerance
    assert solution.converged
    np.testing.assert_allclose(solution.objective, objective(D, T, A, lam, 1.0), rtol=1e-9)


def paper_iteration(D, Y, lam, q, steps):
    """J at the ridge start and after each step of (8), written as printed."""
    H, A, values = D.T @ D, None, []
    for _ in range(steps + 1):
        if A is None:
            A = np.linalg.solve(H + lam * np.eye(len(H)), D.T @ Y)
        else:
            Psi = np.diag(np.linalg.norm(A, axis=1) ** ((2 - q) / 2))
            inner = Psi @ H @ Psi + lam * q * np.eye(len(H))
            A = Psi @ np.linalg.solve(inner, Psi @ D.T @ Y)
        values.append(objective(D, Y, A, lam, q))
    return np.array(values)


@pytest.mark.parametrize("penalize_bias", BIASES)
@pytest.mark.parametrize("k", TARGETS)
@pytest.mark.parametrize("q", [1.0, 0.5, 0.25])
def test_mm_is_the_iteration_of_the_paper_and_its_objective_never_increases(q, k, penalize_bias):
    for seed in SEEDS:
        K, Y = data(25, k, seed=seed)
        v = np.ones(25)
        problem = LeastSquares.of(K, Y, v, penalize_bias=penalize_bias)
        for fraction in FRACTIONS:
            rho = fraction * rho_max(problem)
            solution = mm(problem, rho, q, tol=1e-6, max_iter=500)
            assert np.all(np.diff(solution.trace) <= 0)
            assert len(solution.trace) == solution.n_iter + 1
            assert solution.objective <= solution.trace[-1] * (1 + 1e-12)
            printed = paper_iteration(*design(K, Y, v, penalize_bias), rho * 25, q, 12)
            assert np.all(np.diff(printed) <= 1e-12 * printed[0])
            n = min(len(printed), len(solution.trace))
            np.testing.assert_allclose(solution.trace[:n], printed[:n], rtol=1e-10)


@pytest.mark.parametrize("k", TARGETS)
@pytest.mark.parametrize("seed", SEEDS)
def test_mm_converges_to_the_lasso(seed, k):
    K, Y = data(40, k, columns=12, seed=seed)
    problem = LeastSquares.of(K, Y, np.ones(40))
    peer = Lasso if k == 1 else MultiTaskLasso
    for fraction in FRACTIONS:
        rho = fraction * rho_max(problem)
        limit = mm(problem, rho, 1.0, tol=1e-7)
        exact = lasso_path(problem, [rho])[0]
        other = peer(alpha=rho, tol=1e-12, max_iter=200_000).fit(K, Y[:, 0] if k == 1 else Y)
        A = other.coef_.reshape(k, -1).T
        theirs = objective(*design(K, Y, np.ones(40), False), A, rho * 40, 1.0)
        np.testing.assert_allclose(limit.objective, exact.objective, rtol=1e-6)
        np.testing.assert_allclose(exact.objective, theirs, rtol=1e-6)
        assert exact.objective <= theirs * (1 + 1e-12)
        assert limit.converged and limit.gap <= 1e-7 * limit.objective
        D, T = design(K, Y, np.ones(40), False)
        A = rows(limit, 12)
        alone = D.T @ (T - D @ A) + np.sum(D**2, axis=0)[:, None] * A
        kept = np.linalg.norm(alone, axis=1) > rho * 40
        np.testing.assert_array_equal(np.flatnonzero(kept), limit.support)
        np.testing.assert_allclose(A, rows(exact, 12), atol=1e-2 * np.abs(A).max())


@pytest.mark.parametrize("penalize_bias", BIASES)
@pytest.mark.parametrize("k", TARGETS)
@pytest.mark.parametrize("gamma", [1e-4, 0.02, 0.5, 20.0])
def test_the_lasso_meets_its_optimality_conditions(gamma, k, penalize_bias):
    for seed in SEEDS:
        K, Y = data(60, k, gamma=gamma, seed=seed)
        v = np.random.default_rng(seed).uniform(0.5, 3.0, 60)
        problem = LeastSquares.of(K, Y, v, penalize_bias=penalize_bias)
        rhos = rho_max(problem) * np.array([1.0, 0.3, 0.1, 0.03, 0.01, 1e-3])
        for rho, solution in zip(rhos, lasso_path(problem, rhos), strict=True):
            assert_optimal(K, Y, v, rho, solution, penalize_bias)


@pytest.mark.parametrize("k", TARGETS)
@pytest.mark.parametrize("seed", SEEDS)
def test_dependent_columns_do_not_break_the_lasso(seed, k):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((50, 3))
    _, Y = data(50, k, seed=seed)
    for K in (X @ X.T, (1 + X @ X.T) ** 2, X @ rng.integers(-1, 2, (3, 80)), X[:, [0, 1, 0, 2, 1]]):
        problem = LeastSquares.of(K, Y, np.ones(50))
        rhos = rho_max(problem) * np.array([0.9, 0.1, 1e-2, 1e-3])
        for rho, solution in zip(rhos, lasso_path(problem, rhos), strict=True):
            assert_optimal(K, Y, np.ones(50), rho, solution)


@pytest.mark.parametrize("k", TARGETS)
def test_the_gap_is_the_distance_to_the_dual_objective(k):
    K, Y = data(40, k)
    problem = LeastSquares.of(K, Y, np.ones(40))
    D, T = design(K, Y, np.ones(40), False)
    rho = 0.1 * rho_max(problem)
    best = lasso_path(problem, [rho])[0].objective
    for max_iter in (3, 10, 30):
        rough = mm(problem, rho, 1.0, max_iter=max_iter)
        R = T - D @ rows(rough, 40)
        tau = min(1.0, rho * 40 / np.linalg.norm(D.T @ R, axis=1).max())
        dual = 0.5 * np.sum(T**2) - 0.5 * np.sum((T - tau * R) ** 2)
        value, gap = problem.objective(problem.state(rough.support, rough.coef), rho * 40, 1.0)
        np.testing.assert_allclose(value, rough.objective, rtol=1e-12)
        np.testing.assert_allclose(gap, rough.objective - dual, rtol=1e-9)
        assert rough.objective - best <= rough.gap <= gap
        assert not rough.converged


def test_a_path_is_in_the_order_of_its_penalties_and_does_not_depend_on_it():
    K, Y = data(60)
    problem = LeastSquares.of(K, Y, np.ones(60))
    rhos = rho_max(problem) * np.array([0.05, 0.5, 0.01, 0.2])
    for rho, solution in zip(rhos, lasso_path(problem, rhos), strict=True):
        alone = lasso_path(problem, [rho])[0]
        np.testing.assert_array_equal(solution.support, alone.support)
        np.testing.assert_allclose(solution.coef, alone.coef, rtol=1e-8)


@pytest.mark.parametrize("q", [1.0, 0.5])
@pytest.mark.parametrize("penalize_bias", BIASES)
def test_a_gram_matrix_may_be_given_or_computed_row_by_row(q, penalize_bias, monkeypatch):
    K, Y = data(80, seed=4)
    v = np.random.default_rng(4).uniform(0.5, 2.0, 80)
    D, _ = design(K, Y, v, penalize_bias)
    whole = LeastSquares.of(K, Y, v, penalize_bias=penalize_bias)
    given = LeastSquares.of(K, Y, v, penalize_bias=penalize_bias, gram=D.T @ D)
    monkeypatch.setattr(lasso, "_ALL_ROWS", 0)
    monkeypatch.setattr(lasso, "_NEAR", 4)
    by_row = LeastSquares.of(K, Y, v, penalize_bias=penalize_bias)
    rhos = rho_max(whole) * np.array([0.5, 0.2])
    reference = solve_path(whole, rhos, q)
    for problem in (given, by_row):
        for ours, theirs in zip(solve_path(problem, rhos, q), reference, strict=True):
            np.testing.assert_array_equal(ours.support, theirs.support)
            np.testing.assert_allclose(ours.coef, theirs.coef, rtol=1e-7)
    assert by_row.H._H is None and 0 < len(by_row.H._rows) < 40
    everything = by_row.H.rows(np.arange(len(by_row.C)))
    np.testing.assert_allclose(everything, D.T @ D, atol=1e-12)


def test_an_empty_solution_asks_for_no_row_of_the_gram_matrix(monkeypatch):
    monkeypatch.setattr(lasso, "_ALL_ROWS", 0)
    monkeypatch.setattr(lasso, "_NEAR", 2)
    rng = np.random.default_rng(0)
    problem = LeastSquares.of(rng.normal(size=(30, 20)), rng.normal(size=(30, 2)), np.ones(30))
    solution = solve_path(problem, [2 * rho_max(problem)], 1.0)[0]
    assert len(solution.support) == 0 and solution.converged


@pytest.mark.parametrize("k", TARGETS)
@pytest.mark.parametrize("seed", SEEDS)
def test_columns_outside_of_the_working_set_are_optimal_too(seed, k, monkeypatch):
    monkeypatch.setattr(lasso, "_NEAR", 3)
    K, Y = data(150, k, gamma=3.0, seed=seed)
    problem = LeastSquares.of(K, Y, np.ones(150))
    rhos = rho_max(problem) * np.array([0.7, 0.3, 0.1, 0.03])
    for rho, solution in zip(rhos, lasso_path(problem, rhos), strict=True):
        assert_optimal(K, Y, np.ones(150), rho, solution)


@pytest.mark.parametrize("penalize_bias", BIASES)
@pytest.mark.parametrize("k", TARGETS)
@pytest.mark.parametrize("q", [0.8, 0.5, 0.25])
def test_below_one_solutions_are_local_minima_above_the_lower_bound(q, k, penalize_bias):
    for seed in SEEDS:
        K, Y = data(60, k, seed=seed)
        v = np.random.default_rng(seed).uniform(0.5, 3.0, 60)
        problem = LeastSquares.of(K, Y, v, penalize_bias=penalize_bias)
        D, T = design(K, Y, v, penalize_bias)
        rhos = rho_max(problem) * np.array(FRACTIONS)
        for rho, solution in zip(rhos, solve_path(problem, rhos, q), strict=True):
            lam = rho * v.sum()
            A = rows(solution, K.shape[1], penalize_bias)
            n = np.linalg.norm(A, axis=1)
            on = n > 0
            slope = np.linalg.norm(gradient(D, T, A, lam, q)[0], axis=1)
            assert np.all(slope <= 1e-8 * lam * q * n[on] ** (q - 1))
            bound = (lam * q * (1 - q) / np.sum(D[:, on] ** 2, axis=0)) ** (1 / (2 - q))
            assert np.all(n[on] > bound)
            assert solution.converged and np.isnan(solution.gap)
            value = objective(D, T, A, lam, q)
            np.testing.assert_allclose(solution.objective, value, rtol=1e-10)
            rng = np.random.default_rng(seed)
            for _ in range(5):  # zero rows are included: zero attracts them
                near = A + 1e-4 * n.max(initial=1e-3) * rng.standard_normal(A.shape)
                assert objective(D, T, near, lam, q) > value


def test_a_stationary_row_below_the_bound_is_left_for_zero():
    q, rho, v = 0.5, 0.1, np.ones(20)
    K = np.random.default_rng(0).standard_normal((20, 1))
    D, _ = design(K, K, v, False)
    h, lam = float(np.sum(D**2)), rho * 20
    saddle = 0.3 * (lam * q * (1 - q) / h) ** (1 / (2 - q))
    problem = LeastSquares.of(K, (saddle + lam * q * saddle ** (q - 1) / h) * D, v)
    start = problem.state(np.array([0]), np.array([[saddle]]))
    np.testing.assert_allclose(start.G, lam * q * saddle ** (q - 1), rtol=1e-10)
    assert len(lasso._settle(problem, rho, q, start).support) == 0


@pytest.mark.parametrize("q", [1.0, 0.5, 0.25, 1.5])
@pytest.mark.parametrize("k", TARGETS)
@pytest.mark.parametrize("c", [1e-3, 50.0])
def test_solutions_scale_with_the_targets(c, k, q):
    for seed in SEEDS:
        K, Y = data(50, k, seed=seed)
        plain, scaled = (LeastSquares.of(K, T, np.ones(50)) for T in (Y, c * Y))
        rhos = rho_max(plain) * np.array(FRACTIONS)
        both = solve_path(plain, rhos, q), solve_path(scaled, rhos * c ** (2 - q), q)
        for ours, theirs in zip(*both, strict=True):
            np.testing.assert_array_equal(ours.support, theirs.support)
            np.testing.assert_allclose(c * ours.coef, theirs.coef, rtol=1e-7, atol=1e-9 * c)


@pytest.mark.parametrize("q", [1.0, 0.5, 1.5])
def test_labels_and_class_frequencies_are_the_same_codes_after_rescaling_rho(q):
    for seed in SEEDS:
        K, Y = data(50, seed=seed)
        n1, n2 = np.sum(Y > 0), np.sum(Y < 0)
        t = np.where(Y > 0, 50 / n1, -50 / n2)
        c = 0.5 * 50 * (1 / n1 + 1 / n2)
        labels, scores = (LeastSquares.of(K, code, np.ones(50)) for code in (Y, t))
        rho = 0.1 * rho_max(scores)
        (ours,) = solve_path(labels, [rho * c ** (q - 2)], q)
        (paper,) = solve_path(scores, [rho], q)
        np.testing.assert_array_equal(ours.support, paper.support)
        np.testing.assert_allclose(c * ours.coef, paper.coef, rtol=1e-8)
        midpoint = 0.5 * 50 * (1 / n1 - 1 / n2)
        np.testing.assert_allclose(c * ours.intercept, paper.intercept - midpoint, rtol=1e-8)


@pytest.mark.parametrize("q", [1.0, 0.5, 1.5])
@pytest.mark.parametrize("seed", SEEDS)
def test_solutions_turn_with_the_basis_of_the_targets(seed, q):
    K, Y = data(60, 3, columns=25, seed=seed)
    R = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
    plain, turned = (LeastSquares.of(K, T, np.ones(60)) for T in (Y, Y @ R))
    np.testing.assert_allclose(rho_max(plain), rho_max(turned), rtol=1e-12)
    rhos = rho_max(plain) * np.array(FRACTIONS)
    for ours, theirs in zip(solve_path(plain, rhos, q), solve_path(turned, rhos, q), strict=True):
        np.testing.assert_array_equal(ours.support, theirs.support)
        scale = np.abs(ours.coef).max(initial=1e-300)
        assert np.abs(ours.coef @ R - theirs.coef).max(initial=0) <= 1e-10 * scale
        np.testing.assert_allclose(ours.intercept @ R, theirs.intercept, atol=1e-10)


@pytest.mark.parametrize("q", [1.0, 0.5])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_target_among_several_is_the_binary_problem(seed, q, monkeypatch):
    K, Y = data(60, seed=seed)
    binary = LeastSquares.of(K, Y, np.ones(60))
    padded = LeastSquares.of(K, np.column_stack([0 * Y, Y]), np.ones(60))
    rhos = rho_max(binary) * np.array(FRACTIONS)
    reference = solve_path(binary, rhos, q)
    for ours, theirs in zip(solve_path(padded, rhos, q), reference, strict=True):
        np.testing.assert_array_equal(ours.support, theirs.support)
        np.testing.assert_allclose(ours.coef[:, 1:], theirs.coef, rtol=1e-7)
        assert not ours.coef[:, 0].any()
    monkeypatch.setattr(descent, "descend_binary", descent.descend_group)
    for ours, theirs in zip(solve_path(binary, rhos, q), reference, strict=True):
        np.testing.assert_array_equal(ours.support, theirs.support)
        np.testing.assert_allclose(ours.coef, theirs.coef, rtol=1e-7)


@pytest.mark.parametrize("q", [1.0, 0.5, 1.5])
@pytest.mark.parametrize("k", TARGETS)
@pytest.mark.parametrize("penalize_bias", BIASES)
def test_a_weight_is_a_number_of_copies(penalize_bias, k, q):
    for seed in SEEDS:
        K, Y = data(40, k, columns=15, seed=seed)
        w = np.random.default_rng(seed).integers(1, 4, 40)
        copies = np.repeat(np.arange(40), w)
        weighted = LeastSquares.of(K, Y, w.astype(float), penalize_bias=penalize_bias)
        unit = np.ones(len(copies))
        repeated = LeastSquares.of(K[copies], Y[copies], unit, penalize_bias=penalize_bias)
        np.testing.assert_allclose(rho_max(weighted), rho_max(repeated), rtol=1e-12)
        rhos = rho_max(weighted) * np.array(FRACTIONS)
        both = zip(solve_path(weighted, rhos, q), solve_path(repeated, rhos, q), strict=True)
        for ours, theirs in both:
            np.testing.assert_array_equal(ours.support, theirs.support)
            scale = np.abs(ours.coef).max(initial=1.0)
            np.testing.assert_allclose(ours.coef, theirs.coef, rtol=1e-9, atol=1e-9 * scale)
            np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-9)


@pytest.mark.parametrize("k", TARGETS)
@pytest.mark.parametrize("q", [1.0, 0.5])
def test_of_equal_columns_the_first_is_used(q, k):
    for seed in SEEDS:
        K, Y = data(40, k, columns=10, seed=seed)
        order = np.array([3, 7, 0, 0, 3, 1, 2, 4, 7, 5, 6, 8, 9, 3])
        once = LeastSquares.of(K, Y, np.ones(40))
        often = LeastSquares.of(K[:, order], Y, np.ones(40))
        firsts = np.array([np.flatnonzero(order == j)[0] for j in range(10)])
        rhos = rho_max(once) * np.array([0.3, 0.1, 0.02])
        for ours, theirs in zip(solve_path(often, rhos, q), solve_path(once, rhos, q), strict=True):
            np.testing.assert_array_equal(ours.support, np.sort(firsts[theirs.support]))
            np.testing.assert_allclose(rows(ours, 14)[firsts], rows(theirs, 10), atol=1e-8)


def test_mm_shares_a_coefficient_among_equal_columns():
    K, Y = data(40, columns=8)
    twice = LeastSquares.of(np.hstack([K, K]), Y, np.ones(40))
    once = LeastSquares.of(K, Y, np.ones(40))
    rho = 0.1 * rho_max(once)
    both, one = mm(twice, rho, 1.0, tol=1e-9), mm(once, rho, 1.0, tol=1e-9)
    A = rows(both, 16)
    np.testing.assert_allclose(A[:8] + A[8:], rows(one, 8), atol=1e-6)
    np.testing.assert_allclose(both.objective, one.objective, rtol=1e-8)


@pytest.mark.parametrize("q", [1.0, 0.5, 1.5])
@pytest.mark.parametrize("k", TARGETS)
@pytest.mark.parametrize("constant", [0.0, 0.1])
def test_constant_columns_are_never_used_with_a_free_bias(constant, k, q):
    K, Y = data(30, k, columns=6)
    K[:, [0, 4]] = constant
    v = np.random.default_rng(0).uniform(0.5, 2.0, 30)
    problem = LeastSquares.of(K, Y, v)
    for solution in solve_path(problem, [1e-2 * rho_max(problem), 1e-5 * rho_max(problem)], q):
        assert solution.support.tolist() == [1, 2, 3, 5]
    nothing = LeastSquares.of(np.full((30, 4), constant), Y, v)
    assert rho_max(nothing) == 0
    for solver in (lambda: solve_path(nothing, [0.1], q)[0], lambda: mm(nothing, 0.1, q)):
        solution = solver()
        assert len(solution.support) == 0
        np.testing.assert_allclose(solution.intercept, np.average(Y, axis=0, weights=v))


@pytest.mark.parametrize("k", TARGETS)
def test_rho_max_is_the_least_penalty_that_retains_nothing(k):
    K, Y = data(50, k)
    problem = LeastSquares.of(K, Y, np.ones(50))
    rhos = rho_max(problem) * np.array([1e6, 1 + 1e-6, 1 - 1e-6])
    none, barely, one = lasso_path(problem, rhos)
    for empty in (none, barely):
        assert empty.support.shape == (0,) and empty.coef.shape == (0, k)
        np.testing.assert_allclose(empty.intercept, Y.mean(axis=0))
        np.testing.assert_allclose(empty.objective, 0.5 * np.sum((Y - Y.mean(axis=0)) ** 2))
    assert len(one.support) == 1


@pytest.mark.parametrize("q", [0.05, 0.5, 1.0, 1.01, 1.5, 2.0])
@pytest.mark.parametrize("k", TARGETS)
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("penalize_bias", BIASES)
def test_a_few_rows_and_any_penalty_give_finite_models(penalize_bias, n, k, q):
    for seed in SEEDS:
        K, Y = data(n, k, seed=seed)
        for columns in (K, np.ones_like(K)):
            problem = LeastSquares.of(columns, Y, np.ones(n), penalize_bias=penalize_bias)
            rhos = (rho_max(problem) or 1.0) * np.array([1e8, 1.0, 1e-2, 1e-8])
            found = [*solve_path(problem, rhos, q), mm(problem, rhos[2], q, max_iter=50)]
            for solution in found:
                assert np.all(np.isfinite(solution.coef)) and np.all(
                    np.isfinite(solution.intercept)
                )
                assert np.isfinite(solution.objective)


def test_a_penalty_below_rounding_is_not_called_converged():
    K, Y = data(60, gamma=0.02)
    problem = LeastSquares.of(K, Y, np.ones(60))
    (solution,) = lasso_path(problem, [1e-14 * rho_max(problem)])
    assert np.all(np.isfinite(solution.coef))
    assert solution.gap > 1e-8 * solution.objective and not solution.converged


def test_the_square_of_the_norm_is_ridge_regression():
    K, Y = data(40, 3)
    v = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    problem = LeastSquares.of(K, Y, v)
    (solution,) = solve_path(problem, [0.01], 2.0)
    D, T = design(K, Y, v, False)
    A = np.linalg.solve(D.T @ D + 2 * 0.01 * v.sum() * np.eye(40), D.T @ T)
    np.testing.assert_allclose(rows(solution, 40), A, atol=1e-9 * np.abs(A).max())


@pytest.mark.parametrize("k", TARGETS)
@pytest.mark.parametrize("q", [1.2, 1.5, 1.8])
def test_above_one_all_columns_are_kept_and_the_gradient_vanishes(q, k):
    for seed in SEEDS:
        K, Y = data(30, k, seed=seed)
        problem = LeastSquares.of(K, Y, np.ones(30))
        for fraction in FRACTIONS:
            (solution,) = solve_path(problem, [fraction * rho_max(problem)], q)
            assert len(solution.support) == 30 and solution.converged
            lam = fraction * rho_max(problem) * 30
            D, T = design(K, Y, np.ones(30), False)
            inside, _ = gradient(D, T, solution.coef, lam, q)
            largest = np.linalg.norm(D.T @ T, axis=1).max()
            assert np.linalg.norm(inside, axis=1).max() <= 1e-8 * largest


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("width", [0.3, 1.0, 20.0])
def test_leaving_a_factorised_support_equals_factorising_again(seed, width, monkeypatch):
    rng = np.random.default_rng(seed)
    X, lam = rng.standard_normal((40, 2)), 0.05
    D = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / width)
    H, C = D.T @ D, D.T @ np.sign(X[:, :1] + rng.standard_normal((40, 1)))
    start = 0.1 * np.sign(C)
    again = descent.descend_binary(H, C, lam, start)
    monkeypatch.setattr(descent, "_LARGE", 0)
    left, w = descent.descend_binary(H, C, lam, start)
    assert len(left) < 40  # some have left
    gradient = C[left] - H[np.ix_(left, left)] @ w
    np.testing.assert_allclose(gradient, lam * np.sign(w), rtol=1e-6)
    np.testing.assert_array_equal(left, again[0])
    np.testing.assert_allclose(w, again[1], rtol=1e-6, atol=1e-6 * np.abs(w).max())


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("q", [0.5, 1.0, 1.5])
def test_the_newton_step_is_that_of_the_full_hessian(q, k):
    rng = np.random.default_rng(k)
    D, A, F = rng.standard_normal((30, 6)), rng.standard_normal((6, k)), rng.standard_normal((6, k))
    H, lam = D.T @ D, 0.7
    hessian = np.kron(H, np.eye(k))
    for j, a in enumerate(A):
        n = np.linalg.norm(a)
        own = lam * q * n ** (q - 2) * (np.eye(k) + (q - 2) * np.outer(a, a) / n**2)
        hessian[j * k : (j + 1) * k, j * k : (j + 1) * k] += own
    assert np.linalg.eigvalsh(hessian)[0] > 0
    curve = lam * q * np.linalg.norm(A, axis=1) ** (q - 2)
    newton, plain = descent.steps(H, A, F, curve, q, convex=True)
    np.testing.assert_allclose(newton.ravel(), -np.linalg.solve(hessian, F.ravel()), rtol=1e-8)
    np.testing.assert_allclose(plain, -np.linalg.solve(H + np.diag(curve), F), rtol=1e-8)
    (alone,) = descent.steps(H, A, F, curve, q, convex=False)
    np.testing.assert_array_equal(alone, plain)
    second = F.ravel() @ hessian @ F.ravel()
    assert descent.bend(H, A, F, curve, q) == pytest.approx(second, rel=1e-10)
