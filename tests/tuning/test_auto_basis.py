"""What basis="auto" chooses from the number of rows and the memory budget, and what it says."""

import logging

import numpy as np
import pytest
import scipy.sparse

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.core.bias import BIASES
from fisherkit.core.decompose import Decomposer, Design, RankError
from fisherkit.core.kernels import Gram, Kernel
from fisherkit.core.weights import Weights
from fisherkit.rows.planning import plan
from fisherkit.tuning.select import Status

N = 1500
MEMORY = 20_000_000  # bytes: below 24 n^2, above five factors of rank 200
WIDE, NARROW = 0.05, 30.0


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    return X, (np.sum(np.sin(2 * X), axis=1) + 1.5 * rng.normal(size=N) > 0).astype(int)


def fit(X, y, sample_weight=None, estimator=KernelFisherClassifier, **options):
    options = {"gamma": WIDE, "max_memory": MEMORY, "random_state": 0} | options
    return estimator(**options).fit(X, y, sample_weight)


def assert_exact(large, whole, X):
    """The leave-one-out values of the two agree as those of two low-rank fits do."""
    assert large.selection_.method == "low-rank" and whole.selection_.method in ("low-rank", "full")
    assert large.regularization_ == pytest.approx(whole.regularization_, rel=1e-4)
    name = "loo_decision_" if hasattr(whole, "loo_decision_") else "loo_prediction_"
    exact = getattr(whole, name)
    assert np.max(np.abs(getattr(large, name) - exact)) < 1e-5 * np.std(exact)
    np.testing.assert_array_equal(np.shape(large.predict(X[:7])), np.shape(whole.predict(X[:7])))


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize("estimator", [KernelFisherClassifier, KernelRidgeCV])
def test_a_low_rank_factor_that_fits_makes_every_row_a_centre(data, penalty, estimator):
    X, y = data
    options = {"penalty": penalty, "estimator": estimator}
    if penalty == "coefficients":
        # An error in K is amplified: a higher rank is needed.
        X, y, options = X[:900], y[:900], options | {"gamma": 0.02}
    large = fit(X, y, **options | {"max_memory": 15_000_000})
    assert_exact(large, fit(X, y, max_memory="8GB", **options), X)
    assert "every row is a centre" in large.selection_.reason
    assert f"factor of rank {len(large.basis_indices_)}" in large.selection_.reason


def test_where_the_rank_is_not_low_rows_are_read_in_blocks(data):
    model = fit(*data, gamma=NARROW)
    assert model.selection_.method == "streamed"
    assert "the kernel matrix has a rank above 250" in model.selection_.reason
    assert "row blocks with" in model.selection_.reason


@pytest.mark.parametrize("gamma", ["loo", "median"])
def test_the_width_is_that_of_row_blocks(data, gamma):
    X, y = data
    large = fit(X, y, gamma=gamma)
    assert large.selection_.method == "low-rank"
    blocks = fit(X, y, gamma=gamma, n_components=200, max_memory=2_300_000)
    assert blocks.selection_.method == "streamed"
    if gamma == "median":
        assert large.gamma_ == blocks.gamma_
    assert large.selection_.value == pytest.approx(blocks.selection_.value, rel=0.05)


def test_weights_count_copies_and_zero_is_absence(data):
    X, y = data
    weight = (np.arange(N) % 4).astype(float)
    large, whole = fit(X, y, weight), fit(X, y, weight, max_memory="8GB")
    assert_exact(large, whole, X)
    assert np.all(weight[large.basis_indices_] > 0)


@pytest.mark.parametrize("kind", ["memmap", "sparse", "float32"])
def test_containers_agree(data, kind, tmp_path):
    X, y = data
    X = X.astype(np.float32).astype(np.float64)
    whole = fit(X, y, max_memory="8GB")
    if kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        held = np.load(tmp_path / "X.npy", mmap_mode="r")
    else:
        held = scipy.sparse.csr_matrix(X) if kind == "sparse" else X.astype(np.float32)
    assert_exact(fit(held, y), whole, X)


def test_a_given_mu_is_used_as_it_is(data):
    X, y = data
    large = fit(X, y, regularization=0.5)
    whole = fit(X, y, regularization=0.5, max_memory="8GB")
    assert large.selection_.method == "low-rank" and whole.selection_.method == "cholesky"
    assert large.selection_.status is Status.GIVEN and large.regularization_ == 0.5
    gap = np.max(np.abs(large.loo_decision_ - whole.loo_decision_))
    assert gap < 1e-5 * np.std(whole.loo_decision_)


def test_the_choice_is_logged(data, caplog):
    with caplog.at_level(logging.INFO, logger="fisherkit"):
        for gamma in (WIDE, NARROW):
            assert fit(*data, gamma=gamma).selection_.reason in caplog.messages
        in_memory = fit(data[0][:600], data[1][:600])
        assert in_memory.selection_.reason in caplog.messages


def test_what_needs_the_whole_kernel_matrix_says_so(data):
    X, y = data
    with pytest.raises(ValueError, match="needs all of the kernel matrix in memory"):
        fit(X, y).predict_set(X[:3])


def test_nan_is_named_by_row_and_column_here_too(data):
    X, y = data
    X = X.copy()
    X[1222, 1] = np.nan
    with pytest.raises(ValueError, match="NaN in row 1222, column 1"):
        fit(X, y)


@pytest.mark.parametrize(
    ("n", "options", "method", "said"),
    [
        (300, {}, "full", "so few"),
        (700, {}, "low-rank", "factor of rank"),
        (700, {"gamma": 300.0}, "cholesky", "no low rank"),
        (300, {"regularization": 1.0}, "cholesky", "one Cholesky factorisation"),
    ],
)
def test_in_memory_the_path_is_named_where_there_was_a_choice(data, n, options, method, said):
    X, y = data
    model = fit(X[:n], y[:n], **options)
    assert model.selection_.method == method
    assert said in model.selection_.reason and f"{n} rows fit in memory" in model.selection_.reason
    assert fit(X[:n], y[:n], basis="random", n_components=20, **options).selection_.reason == ""


def test_a_plan_has_a_rank_where_memory_holds_a_factor():
    assert plan(1000, 20, 0, "auto", None, 10**9).max_rank is None  # all of it fits
    assert plan(10**6, 20, 0, "auto", None, 10**9).max_rank is None  # no factor worth it does
    assert plan(10**5, 20, 0, "auto", None, 10**9).max_rank == 187
    assert plan(10**5, 20, 0, "auto", None, 2 * 10**10).max_rank == 1000  # no more than centres
    assert plan(10**5, 20, 0, "pivoted", 300, 10**8).max_rank is None


def test_a_rank_limit_excludes_the_full_path(data):
    X = data[0][:600]
    weights = Weights.unit(X)
    design = Design(
        Gram(X, Kernel("rbf", gamma=NARROW)), weights, "rkhs", BIASES["free"], "auto", None, None, 0
    )
    with pytest.raises(RankError):
        Decomposer(design, max_rank=20).decompose(NARROW, lambda unit: 1e-6)
