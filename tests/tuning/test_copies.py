"""Rows that repeat one another: merged for tuning, and the fit to all of them afterwards."""

import numpy as np
import oracles
import pytest

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.core.bias import BIASES
from fisherkit.core.decompose import Design
from fisherkit.core.kernels import Gram, Kernel
from fisherkit.core.ridge import solve
from fisherkit.core.weights import Weights
from fisherkit.tuning.copies import Copies
from fisherkit.tuning.criteria import Criterion, HeldOut, Problem

MU = 0.3
each_bias = pytest.mark.parametrize("bias", ["free", "penalized", "none"])
each_penalty = pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])


def repeated(n=25, seed=0):
    """Rows that occur up to three times in any order, some of them with two labels; weights."""
    rng = np.random.default_rng(seed)
    X, y = oracles.noisy_classes(n, 2, seed=seed)
    rows = rng.permutation(np.repeat(np.arange(n), rng.integers(1, 4, size=n)))
    X, y = X[rows], y[rows]
    y[:4] = 1 - y[:4]
    costs = np.where(y > 0, 2.0, 1.0)
    return X, (2.0 * y - 1)[:, None], Weights(rng.integers(1, 3, len(y)).astype(float), costs)


def problem(X, Y, weights, bias="free", penalty="rkhs", basis="auto"):
    gram = Gram(X, Kernel("rbf", gamma=0.7))
    design = Design(gram, weights, penalty, BIASES[bias], basis, None, None, 0)
    held_out = HeldOut.leave_one_out(Y, weights, balanced=False)
    return design, Y, Criterion("press", held_out)


def fit(design, Y):
    words = {"bias": design.bias, "penalty": design.penalty, "mu": MU}
    return solve(design.gram.full(), Y, design.weights, **words)[0]


@each_bias
@each_penalty
def test_the_fit_to_merged_rows_expands_to_that_of_all_rows(penalty, bias):
    whole = problem(*repeated(), bias, penalty)
    copies = Copies.of(Problem(*whole))
    merged = copies.merged(Problem(*whole))
    design, Y = merged.design, merged.Y
    assert len(copies.first) == design.gram.n < whole[0].gram.n
    found = copies.expand(fit(design, Y), whole[1], whole[0].weights, centres=True)
    expected = fit(whole[0], whole[1])
    for name in ("B_diag", "BY", "scatter", "intercept"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-12, err_msg=name
        )
    K = whole[0].gram.full()
    np.testing.assert_allclose(K @ found.coef, K @ expected.coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.leave_one_out(), expected.leave_one_out(), atol=1e-12)
    group = np.arange(0, 20, 3)
    np.testing.assert_allclose(
        found.leave_group_out(group), expected.leave_group_out(group), atol=1e-11
    )


@each_bias
def test_the_residual_maker_of_all_rows_follows_from_that_of_the_merged_ones(bias):
    whole = problem(*repeated(), bias)
    copies = Copies.of(Problem(*whole))
    merged = copies.merged(Problem(*whole))
    design, Y = merged.design, merged.Y
    found = copies.expand(fit(design, Y), whole[1], whole[0].weights, centres=True).resolvent
    expected = fit(whole[0], whole[1]).resolvent
    rows, columns = np.array([0, 5, 7]), np.array([5, 1, 9, 30])
    targets = np.random.default_rng(3).normal(size=(whole[0].gram.n, 2))
    for name, arguments in [
        ("diagonal", ()),
        ("block", (rows, columns)),
        ("strip", (rows,)),
        ("residuals", (targets,)),
    ]:
        values = (getattr(resolvent, name)(*arguments) for resolvent in (found, expected))
        np.testing.assert_allclose(*values, atol=1e-12, err_msg=name)


def test_rows_are_merged_only_where_that_makes_no_difference():
    X, Y, weights = repeated()
    design, _, criterion = problem(X, Y, weights)
    assert Copies.of(Problem(design, Y, criterion)) is not None
    different = np.arange(30)
    apart = problem(different[:, None].astype(float), Y[:30], weights.take(different))
    assert Copies.of(Problem(*apart)) is None
    assert Copies.of(Problem(*problem(X, Y, weights, basis="random"))) is None
    loss = Criterion(lambda y, d, sample_weight: 0.0, criterion.held_out)
    assert Copies.of(Problem(design, Y, loss)) is None
    light = Weights(0.5 * np.ones(len(Y)), weights.cost)
    assert Copies.of(Problem(*problem(X, Y, light))) is None


CASES = {
    "linear": {"kernel": "linear", "criterion": "smoothed_error"},
    "poly, balanced": {"kernel": "poly", "criterion": "smoothed_error", "threshold": "balanced"},
    "folds": {"cv": 5},
    "folds, log_loss": {"cv": 5, "criterion": "log_loss"},
    "laplacian, folds": {"kernel": "laplacian", "cv": 5, "criterion": "smoothed_error"},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_frequencies_hold_through_selection_where_rounding_used_to_choose(seed, n_classes, options):
    """Spurious directions of a kernel of low rank, and copies in a fold, decided on mu."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 3))
    z = np.sin(2 * X[:, 0]) + 0.4 * rng.normal(size=50)
    y = np.digitize(z, np.quantile(z, np.arange(1, n_classes) / n_classes))
    w = rng.integers(0, 4, size=50)
    fold = rng.integers(0, 5, size=50)
    rows = np.repeat(np.arange(50), w)

    def model(fold):
        pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
        return KernelFisherClassifier(**(options | ({"cv": pairs} if "cv" in options else {})))

    weighted = model(fold).fit(X, y, w)
    copied = model(fold[rows]).fit(X[rows], y[rows])
    assert copied.gamma_ == weighted.gamma_
    np.testing.assert_allclose(copied.regularization_, weighted.regularization_, rtol=1e-6)
    np.testing.assert_allclose(
        copied.decision_function(X), weighted.decision_function(X), rtol=1e-7, atol=1e-7
    )


def test_predictions_of_copies_are_those_of_their_weights_on_the_low_rank_path():
    X, y = oracles.noisy_classes(600, 2, seed=1)
    rows = np.r_[np.arange(600), np.arange(100)]
    w = np.bincount(rows)
    weighted = KernelRidgeCV(random_state=0).fit(X, y.astype(float), w)
    copied = KernelRidgeCV(random_state=0).fit(X[rows], y[rows].astype(float))
    assert copied.selection_.method == "low-rank"
    np.testing.assert_allclose(copied.predict(X), weighted.predict(X), atol=1e-9)
    np.testing.assert_allclose(copied.loo_prediction_[:600], weighted.loo_prediction_, atol=1e-9)
    np.testing.assert_array_equal(X[rows][copied.basis_indices_], X[weighted.basis_indices_])
