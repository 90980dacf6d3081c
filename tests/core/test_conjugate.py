"""The fit of many rows by conjugate gradients, or by a factor, that leaves out some of the rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fisherkit.core import BIASES, Gram, Kernel, Weights, sample_size, solve, solve_many
from fisherkit.core.solvers import conjugate, rates, sampled
from fisherkit.core.solvers.conjugate import Preconditioner, inverse_diagonal, solve_all
from fisherkit.core.solvers.rates import Rates
from fisherkit.core.solvers.sampled import solve_sampled
from fisherkit.core.solvers.symmetric import System

N, MU = 240, 0.05
ROWS = np.arange(3, N, 7)
WAYS = {"steps": Rates(1.0, 1e-9, 1.0), "factor": Rates(1.0, 1e9, 1.0)}  # so that it is quicker


def problem(*, weighted=True, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    Y = np.stack([np.sign(X[:, 0] + 0.3 * rng.normal(size=N)), X[:, 1] * X[:, 2]], axis=1) + 3
    weights = Weights.unit(X)
    if weighted:
        weights = Weights(rng.choice([0.5, 1.0, 3.0], size=N), rng.choice([1.0, 1.5], size=N))
    return X, Y, weights


def system_of(*, bias="free", kernel="rbf", weighted=True, mu=MU):
    X, Y, weights = problem(weighted=weighted)
    return System.of(Gram(X, Kernel(kernel, gamma=0.4)), Y, weights, BIASES[bias], mu)


def dense(system):
    """M by its definition."""
    s = system.weights.root
    K = system.gram.full() + system.bias.variance
    return s[:, None] * K * s[None, :] + system.mu * np.eye(N)


def by(way, monkeypatch):
    """One way alone."""
    monkeypatch.setattr(sampled.rates, "measured", lambda: WAYS[way])
    monkeypatch.setattr(sampled, "_SHARE", 0.5)
    other = (sampled.Factored, "of") if way == "steps" else (sampled.conjugate, "solve_all")
    monkeypatch.setattr(*other, lambda *words: pytest.fail("the other way"))


@pytest.mark.parametrize("bias", BIASES)
def test_the_preconditioner_is_positive_and_has_the_diagonal_of_the_system(bias):
    system = system_of(bias=bias)
    inverse = Preconditioner.of(system, 30)(np.eye(N))
    assert_allclose(inverse, inverse.T, atol=1e-4 * np.abs(inverse).max())
    P = np.linalg.inv((inverse + inverse.T) / 2)
    assert np.linalg.eigvalsh(P).min() > 0
    assert_allclose(np.diag(P), np.diag(dense(system)), rtol=1e-3)


@pytest.mark.parametrize("rank", [100, 200])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_steps_solve_the_system(kernel, bias, rank):
    system = system_of(bias=bias, kernel=kernel)
    P, M = Preconditioner.of(system, rank), dense(system)
    solved = solve_all(system, P)
    assert np.all(np.linalg.norm(system.both - M @ solved, axis=0) <= 1.01 * system.enough)
    found = np.concatenate(list(inverse_diagonal(system, P, ROWS)))
    assert_allclose(found, np.diag(np.linalg.inv(M))[ROWS], rtol=5e-3)


def test_a_poor_preconditioner_gives_up():
    system = system_of()
    P = Preconditioner.of(system, 1)
    assert solve_all(system, P) is None
    assert None in list(inverse_diagonal(system, P, ROWS))


def test_columns_of_zeros_are_solved_by_zeros():
    system = system_of()
    system.both[:, 0] = 0.0
    system.enough[0] = 0.0
    assert np.all(solve_all(system, Preconditioner.of(system, 150))[:, 0] == 0)


def test_a_residual_bounds_the_error_of_predictions():
    system, rng = system_of(), np.random.default_rng(1)
    M = dense(system)
    k = system.gram.kernel.block(rng.normal(size=(50, 3)), system.gram.X) * system.weights.root
    for scale in (1.0, 1e3):
        e = scale * rng.normal(size=N)
        bound = np.linalg.norm(e) / np.sqrt(system.mu)  # k(x, x) = 1
        assert np.abs(k @ np.linalg.solve(M, e)).max() <= bound


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_either_way_it_is_the_fit_in_double_precision(weighted, bias, way, monkeypatch):
    by(way, monkeypatch)
    X, Y, weights = problem(weighted=weighted)
    gram, kind = Gram(X, Kernel("rbf", gamma=0.4)), BIASES[bias]
    exact, unit = solve(gram.full(), Y, weights, bias=kind, penalty="rkhs", mu=MU)
    system = System.of(gram, Y, weights, kind, MU)
    fit, method = solve_sampled(system, ROWS)
    assert system.unit == pytest.approx(unit)
    assert method == {"steps": "conjugate", "factor": "cholesky"}[way]
    K = gram.kernel.block(np.random.default_rng(1).normal(size=(99, 3)), X)
    gap = K @ (fit.coef - exact.coef) + fit.intercept - exact.intercept
    assert np.abs(gap).max() < 1e-7 * np.abs(Y).max()
    assert_allclose(fit.scatter, exact.scatter, rtol=1e-6)
    truth, left_out = exact.leave_one_out(), fit.leave_one_out()
    assert_allclose(left_out[ROWS], truth[ROWS], rtol=5e-3, atol=1e-6)
    others = np.setdiff1d(np.arange(N), ROWS)
    assert np.all(np.isnan(left_out[others]))


def test_the_ways_agree_and_do_not_depend_on_the_order_of_rows(monkeypatch):
    X, Y, weights = problem()
    order = np.random.default_rng(5).permutation(N)
    fits = []
    for way in WAYS:
        for rows in (np.arange(N), order):
            gram = Gram(X[rows], Kernel("rbf", gamma=0.4))
            places = np.flatnonzero(np.isin(rows, ROWS))
            part = weights.take(rows)
            with monkeypatch.context() as patch:
                by(way, patch)
                fit, _ = solve_sampled(System.of(gram, Y[rows], part, BIASES["free"], MU), places)
            back = np.argsort(rows)
            fits.append((fit.coef[back], fit.leave_one_out()[back][ROWS]))
    for coef, left_out in fits[1:]:
        assert_allclose(coef, fits[0][0], atol=1e-7 * np.abs(fits[0][0]).max())
        assert_allclose(left_out, fits[0][1], rtol=5e-3, atol=1e-6)


@pytest.mark.parametrize("short", ["_STEPS", "_FEW"])
def test_too_many_steps_end_in_a_factor(short, monkeypatch):
    monkeypatch.setattr(sampled.rates, "measured", lambda: WAYS["steps"])
    monkeypatch.setattr(conjugate, short, 1)
    X, Y, weights = problem()
    gram = Gram(X, Kernel("rbf", gamma=0.4))
    exact, _ = solve(gram.full(), Y, weights, bias=BIASES["free"], penalty="rkhs", mu=MU)
    fit, method = solve_sampled(System.of(gram, Y, weights, BIASES["free"], MU), ROWS)
    assert method == "cholesky"
    assert_allclose(fit.leave_one_out()[ROWS], exact.leave_one_out()[ROWS], rtol=1e-4, atol=1e-6)


def test_what_needs_every_row_is_refused(monkeypatch):
    by("factor", monkeypatch)
    X, Y, weights = problem()
    gram = Gram(X, Kernel("rbf", gamma=0.4))
    fit, _ = solve_sampled(System.of(gram, Y, weights, BIASES["free"], MU), ROWS)
    for call in (
        lambda: fit.leave_group_out(np.array([1, 2])),
        lambda: fit.resolvent.strip(np.array([1])),
        lambda: fit.resolvent.residuals(Y),
    ):
        with pytest.raises(ValueError, match="has left out a sample"):
            call()


def test_samples_grow_with_the_classes_and_few_rows_are_all_left_out():
    reference, n = np.empty(0), sampled.EVERY_ROW
    assert sample_size(n, 1, reference) is None
    sizes = [sample_size(n + 1, k, reference) for k in (1, 5, 10, 26)]
    assert sizes == [500, 500, 1000, 2000]


def test_rates_are_positive_and_steps_pay_beyond_some_number_of_rows():
    speed = rates.measured()
    assert min(speed.product, speed.factor, speed.memory) > 0
    assert rates.measured() is speed
    usual = Rates(product=1e11, factor=1e11, memory=1e10)
    assert usual.factored(6_000, 500) < usual.conjugate(6_000, 600, 500)
    assert usual.factored(40_000, 500) > usual.conjugate(40_000, 2000, 500)


@pytest.mark.parametrize("sample", [None, 40])
def test_rows_in_an_order_are_given_back_in_theirs(sample):
    X, Y, weights = problem()
    gram, bias = Gram(X, Kernel("rbf", gamma=0.4)), BIASES["free"]
    order = np.random.default_rng(3).permutation(N)
    exact, unit = solve(gram.full(), Y, weights, bias=bias, penalty="rkhs", mu=MU)
    found = solve_many(gram, Y, weights, bias, MU, order, sample)
    fit, known = found.ridge, order if sample is None else order[-sample:]
    assert found.unit == pytest.approx(unit)
    assert_allclose(fit.coef, exact.coef, atol=1e-6 * np.abs(exact.coef).max())
    truth = exact.leave_one_out()[known]
    assert_allclose(fit.leave_one_out()[known], truth, rtol=5e-3, atol=1e-4)
    assert np.isfinite(fit.B_diag).sum() == len(known)
    resolvent, places = fit.resolvent, np.array([5, 2, 77])
    assert_allclose(resolvent.diagonal(), fit.B_diag)
    if sample is None:
        for call in ("strip", "residuals", "block"):
            words = {"strip": (places,), "residuals": (Y,), "block": (places, places[1:])}[call]
            found, truth = (getattr(part, call)(*words) for part in (resolvent, exact.resolvent))
            assert_allclose(found, truth, atol=1e-3 * np.abs(truth).max())


def test_a_preconditioner_that_leaves_much_is_left_to_the_factor(monkeypatch):
    X, Y, weights = problem()
    system = System.of(Gram(X, Kernel("rbf", gamma=0.4)), Y, weights, BIASES["free"], MU)
    poor, good = Preconditioner.of(system, 24), Preconditioner.of(system, 200)
    assert poor.all_steps > good.all_steps and poor.column_steps > good.column_steps
    between = Rates(product=1e30, factor=1.0, memory=1.0)
    limit = between.factored(N, len(ROWS))
    between = Rates(1e30, 1.0, between.steps(N, 1, 0.5 * poor.all_steps, 0.0) / limit)
    monkeypatch.setattr(sampled.rates, "measured", lambda: between)
    for share, method in ((0.1, "cholesky"), (200 / N, "conjugate")):
        monkeypatch.setattr(sampled, "_SHARE", share)
        assert solve_sampled(system, ROWS)[1] == method
