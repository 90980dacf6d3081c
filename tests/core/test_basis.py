"""The low-rank path and the features of chosen centres, against the matrices they stand for."""

import numpy as np
import pytest
from oracles import gap

from fisherkit.core import basis
from fisherkit.core.kernels import Gram, Kernel

KERNELS = {
    "rbf": Kernel("rbf", gamma=0.1),
    "laplacian": Kernel("laplacian", gamma=1e-3),
    "polynomial": Kernel("polynomial", gamma=0.5, degree=3),
    "linear": Kernel("linear"),
}


def rows(n, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def uneven(n):
    return np.random.default_rng(5).uniform(0.1, 5.0, size=n)


def rng(seed=0):
    return np.random.RandomState(seed)


def nystrom(K, pivots):
    """K_np K_pp^+ K_pn."""
    return K[:, pivots] @ np.linalg.pinv(K[np.ix_(pivots, pivots)], rcond=1e-13) @ K[pivots]


class Reads:
    """Shapes of the blocks of a kernel matrix that were evaluated."""

    def __init__(self, monkeypatch):
        self.shapes = []
        plain = Gram.rows

        def watched(gram, rows, columns=None):
            block = plain(gram, rows, columns)
            self.shapes.append(block.shape)
            return block

        monkeypatch.setattr(Gram, "rows", watched)

    @property
    def values(self):
        return sum(a * b for a, b in self.shapes)

    def whole_rows(self, n):
        return sum(a for a, b in self.shapes if b == n)


# --- the factor -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [1e-2, 1e-6])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["rbf", "polynomial", "linear"])
def test_the_residual_is_positive_and_its_weighted_trace_within_the_budget(
    name, weighted, share, seed
):
    n = 300
    gram = Gram(rows(n), KERNELS[name])
    weight = uneven(n) if weighted else np.ones(n)
    K = gram.full()
    budget = share * float(weight @ np.diag(K))
    factor = basis.low_rank(gram, weight, budget, rng(seed))
    residual = K - factor.L.T @ factor.L
    rounding = 1e-13 * np.trace(K)
    assert factor.L.shape == (len(factor.pivots), n)
    assert len(np.unique(factor.pivots)) == len(factor.pivots)
    assert float(weight @ np.diag(residual)) <= budget + rounding
    assert factor.left_out == pytest.approx(weight @ np.diag(residual), abs=10 * rounding)
    assert np.linalg.eigvalsh(residual)[0] > -rounding


@pytest.mark.parametrize("name", KERNELS)
def test_the_factor_is_the_rkhs_model_on_its_pivots(name):
    n = 200
    gram = Gram(rows(n), KERNELS[name])
    K = gram.full()
    factor = basis.low_rank(gram, np.ones(n), 1e-4 * np.trace(K), rng(), max_rank=60)
    assert gap(factor.L.T @ factor.L, nystrom(K, factor.pivots)) < 1e-8


@pytest.mark.parametrize("name", ["rbf", "linear"])
def test_a_precomputed_matrix_is_factored_as_its_kernel_is(name):
    gram = Gram(rows(150), KERNELS[name])
    budget = 1e-4 * gram.diagonal().sum()
    by_kernel = basis.low_rank(gram, np.ones(150), budget, rng())
    by_matrix = basis.low_rank(
        Gram(gram.full(), Kernel("precomputed")), np.ones(150), budget, rng()
    )
    for factor in (by_kernel, by_matrix):
        assert gap(factor.L.T @ factor.L, nystrom(gram.full(), factor.pivots)) < 1e-8
        assert factor.left_out <= budget


def test_pivots_depend_on_the_values_of_the_rows_not_on_their_order_or_number():
    X = rows(200)
    again = np.random.default_rng(1).permutation(np.repeat(np.arange(200), 1 + np.arange(200) % 3))
    once = basis.low_rank(Gram(X, KERNELS["rbf"]), 1.0 + np.arange(200) % 3, 1e-3, rng())
    many = basis.low_rank(Gram(X[again], KERNELS["rbf"]), np.ones(len(again)), 1e-3, rng())
    np.testing.assert_array_equal(X[once.pivots], X[again][many.pivots])


def test_random_centres_never_repeat_a_row():
    X = np.repeat(rows(20), 10, axis=0)
    chosen = basis.choose_rows("random", 30, Gram(X, KERNELS["rbf"]), np.ones(200), rng())
    assert len(chosen) == len(np.unique(X[chosen], axis=0)) == 20


def test_rows_are_drawn_in_proportion_to_their_chances():
    distinct = Gram(np.arange(4.0)[:, None], KERNELS["rbf"]).distinct()
    chances = np.array([0.0, 1.0, 2.0, 5.0])
    drawn = [int(distinct.draw(chances, 1, seed)[0]) for seed in range(4000)]
    shares = np.bincount(drawn, minlength=4) / 4000
    np.testing.assert_allclose(shares, chances / 8, atol=0.03)


def test_duplicated_rows_need_no_more_rank_than_the_distinct_ones():
    distinct = rows(40, d=6)
    gram = Gram(np.repeat(distinct, 5, axis=0), Kernel("rbf", gamma=1.0))
    factor = basis.low_rank(gram, np.ones(200), 1e-9, rng())
    assert len(factor.pivots) <= 40
    assert gap(factor.L.T @ factor.L, gram.full()) < 1e-9


def test_a_kernel_that_vanishes_has_rank_zero():
    factor = basis.low_rank(Gram(np.zeros((30, 2)), Kernel("linear")), np.ones(30), 0.0, rng())
    assert factor.L.shape == (0, 30) and factor.left_out == 0.0


def test_only_the_rows_that_are_kept_are_read(monkeypatch):
    n = 1500
    reads = Reads(monkeypatch)
    factor = basis.low_rank(Gram(rows(n), KERNELS["rbf"]), np.ones(n), 1e-3, rng())
    assert reads.whole_rows(n) == len(factor.pivots) < 0.1 * n
    assert reads.values < 0.2 * n**2
    assert all(a <= basis._BLOCK for a, _ in reads.shapes)


def test_a_callable_kernel_is_called_far_less_than_for_every_pair():
    n, calls = 600, 0

    def product(x, z):
        nonlocal calls
        calls += 1
        return float(x @ z)

    factor = basis.low_rank(Gram(rows(n), Kernel(product)), np.ones(n), 1e-8, rng())
    assert len(factor.pivots) == 2
    assert calls < 0.1 * n**2


def test_full_rank_data_are_given_up_early(monkeypatch):
    n = 1000
    gram = Gram(rows(n, d=10), Kernel("rbf", gamma=1.0))
    reads = Reads(monkeypatch)
    assert basis.low_rank(gram, np.ones(n), 1e-4, rng()) is None
    assert reads.whole_rows(n) < 0.5 * n


def test_a_rank_beyond_the_cap_is_given_up():
    gram = Gram(rows(100, d=10), Kernel("rbf", gamma=1.0))
    assert basis.low_rank(gram, np.ones(100), 1e-6, rng()) is None


@pytest.mark.parametrize("limit", [1, 17, 130, 250])
def test_a_rank_limit_is_met_and_never_gives_up(limit):
    n = 250
    factor = basis.low_rank(
        Gram(rows(n, d=10), Kernel("rbf", gamma=1.0)), np.ones(n), 0.0, rng(), max_rank=limit
    )
    assert len(np.unique(factor.pivots)) == len(factor.pivots) == limit


def test_weights_draw_the_pivots():
    n = 200
    weight = np.where(np.arange(n) < 20, 1.0, 0.0)
    factor = basis.low_rank(
        Gram(rows(n, d=8), Kernel("rbf", gamma=2.0)), weight, 1e-9, rng(), max_rank=20
    )
    assert set(factor.pivots) == set(range(20))


# --- the probe ------------------------------------------------------------------------------------


def hollow(n):
    """A positive low-rank matrix beside a block with zero diagonal and ones next to it."""
    Z = rows(n, d=3)
    Z[-2:] = 0
    K = Z @ Z.T
    K[-1, -2] = K[-2, -1] = 1.0
    return K


@pytest.mark.parametrize("seed", range(5))
def test_an_indefinite_matrix_with_a_vanishing_residual_diagonal_is_not_explained(seed):
    K = hollow(300)
    gram = Gram(K, Kernel("precomputed"))
    factor = basis.low_rank(gram, np.ones(300), 1e-8, rng(seed))
    assert np.abs(np.diag(K) - np.sum(factor.L**2, axis=0)).max() < 1e-12
    assert np.linalg.eigvalsh(K)[0] < -0.9
    assert not basis.explains(factor, gram, rng(seed + 100))


@pytest.mark.parametrize("seed", range(5))
def test_an_indefinite_callable_with_a_vanishing_residual_diagonal_is_not_explained(seed):
    X = np.hstack([rows(120, d=2), np.repeat([[0.0], [1.0], [-1.0]], 40, axis=0)])

    def indefinite(x, z):
        """Opposite signs of the last feature meet with a value that no diagonal shows."""
        return float(x[:2] @ z[:2]) + (3.0 if x[2] * z[2] < 0 else 0.0)

    gram = Gram(X, Kernel(indefinite))
    weight = np.where(X[:, 2] == 0, 1.0, 0.0)  # pivots only where the kernel looks positive
    factor = basis.low_rank(gram, weight, 1e-8, rng(seed))
    assert not basis.explains(factor, gram, rng(seed + 100))


@pytest.mark.parametrize("budget", [1e-2, 1e-8])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["rbf", "polynomial", "linear"])
def test_a_positive_matrix_is_explained(name, seed, budget):
    gram = Gram(rows(200, seed=seed), KERNELS[name])
    precomputed = Gram(gram.full(), Kernel("precomputed"))
    for positive in (gram, precomputed):
        factor = basis.low_rank(positive, np.ones(200), budget, rng(seed))
        assert basis.explains(factor, positive, rng(seed + 100))


# --- from features to coefficients ----------------------------------------------------------------


def test_the_corner_takes_feature_weights_to_pivot_coefficients():
    gram = Gram(rows(120), KERNELS["rbf"])
    factor = basis.low_rank(gram, np.ones(120), 1e-4, rng())
    w = np.random.default_rng(1).normal(size=(len(factor.pivots), 2))
    coef = basis.corner_solver(factor)(factor.L @ factor.L.T @ w)
    assert gap(gram.columns(factor.pivots) @ coef, factor.L.T @ (factor.L @ factor.L.T @ w)) < 1e-9


def test_the_squared_factor_is_that_of_the_coefficients_penalty():
    gram = Gram(rows(100), Kernel("polynomial", gamma=0.5, degree=2))
    frequency = uneven(100)
    factor = basis.low_rank(gram, np.ones(100), 1e-10, rng())
    L2, R = basis.squared(factor, frequency)
    K = gram.full()
    assert gap(L2.T @ L2, (K * frequency) @ K) < 1e-12
    assert gap(L2, R.T @ factor.L) < 1e-15


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_features_of_centres_carry_the_penalty(penalty):
    gram, frequency = Gram(rows(60), Kernel("rbf", gamma=1.0)), uneven(60)
    chosen = np.array([50, 3, 7, 21, 33])
    features = basis.centres(gram, chosen, frequency, penalty)
    K = gram.full()
    G = nystrom(K, chosen)
    if penalty == "coefficients":
        G = (K[:, chosen] * frequency[chosen]) @ K[chosen]
    assert set(features.rows) == set(chosen)
    assert gap(features.Z @ features.Z.T, G) < 1e-12
    w = np.random.default_rng(1).normal(size=(5, 2))
    assert gap(K[:, features.rows] @ features.lift(w), features.Z @ w) < 1e-12


def test_centres_that_repeat_others_are_dropped():
    X = rows(30)
    X[[4, 9]] = X[2]
    gram = Gram(X, Kernel("rbf", gamma=1.0))
    chosen = np.array([2, 4, 9, 11, 20])
    features = basis.centres(gram, chosen, np.ones(30), "rkhs")
    assert len(features.rows) == features.Z.shape[1] == 3
    assert {11, 20} < set(features.rows) <= set(chosen)
    assert gap(features.Z @ features.Z.T, nystrom(gram.full(), chosen)) < 1e-12


def test_centres_beyond_the_rank_of_the_kernel_are_dropped():
    gram = Gram(rows(40, d=3), Kernel("linear"))
    features = basis.centres(gram, np.arange(10), np.ones(40), "rkhs")
    assert features.Z.shape[1] == 3
    assert gap(features.Z @ features.Z.T, gram.full()) < 1e-12


def test_centres_on_which_the_kernel_vanishes_give_one_empty_feature():
    features = basis.centres(
        Gram(np.zeros((9, 2)), Kernel("linear")), np.arange(4), np.ones(9), "rkhs"
    )
    np.testing.assert_array_equal(features.Z, np.zeros((9, 1)))
    assert features.lift(np.ones((1, 1))).shape == (len(features.rows), 1)


def test_the_frobenius_norm_is_estimated_from_rows():
    frequency = uneven(400)
    constant = Gram(np.ones((400, 1)), Kernel("linear"))
    assert basis.frobenius(constant, frequency, rng()) == pytest.approx(frequency.sum())
    gram = Gram(rows(400), KERNELS["rbf"])
    root = np.sqrt(frequency)
    truth = np.linalg.norm(root[:, None] * gram.full() * root)
    assert basis.frobenius(gram, frequency, rng()) == pytest.approx(truth, rel=0.3)


@pytest.mark.parametrize("kind", ["random", "pivoted"])
def test_chosen_rows_are_distinct_sorted_and_follow_the_weight(kind):
    weight = np.where(np.arange(80) % 2 == 0, 1.0, 1e-12)
    chosen = basis.choose_rows(
        kind, 20, Gram(rows(80, d=8), Kernel("rbf", gamma=2.0)), weight, rng()
    )
    assert len(chosen) == 20
    assert np.all(np.diff(chosen) > 0) and np.all(chosen % 2 == 0)
