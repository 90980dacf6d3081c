"""Width and mu by levels: where they end, and that nothing but the rows decides on it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_blobs, make_classification

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.core import (
    BIASES,
    Decomposer,
    Design,
    Gram,
    Kernel,
    RidgePath,
    Weights,
    reference_width,
)
from fisherkit.core import width_step as step_of
from fisherkit.tuning import Criterion, HeldOut, MuSearch, Problem, Status, levels
from fisherkit.tuning.levels import Levels, Valley
from fisherkit.tuning.select import PathPrices


def table(n, n_classes=2, seed=0):
    return make_classification(
        n,
        8,
        n_informative=5,
        n_classes=n_classes,
        flip_y=0.1,
        class_sep=0.7,
        random_state=seed,
    )


def problem_of(X, y, *, kernel="rbf", rule="press", bias="free", weights=None, basis="full"):
    index = np.unique(y, return_inverse=True)[1]
    Y = np.eye(index.max() + 1)[index] if index.max() > 1 else 2.0 * index[:, None] - 1
    weights = weights or Weights.unit(X)
    design = Design(
        gram=Gram(X, Kernel(kernel, gamma=1.0)),
        weights=weights,
        penalty="rkhs",
        bias=BIASES[bias],
        basis=basis,
        n_components=None,
        rows=None,
        seed=0,
    )
    return Problem(design, Y, Criterion(rule, HeldOut.leave_one_out(Y, weights, balanced=False)))


def searched(problem, **given):
    options = {"mu": None, "gamma": None, "search_gamma": True} | given
    search = Levels.of(problem, **options)
    return search, search.refine(search.coarse())


def least(problem):
    """The least criterion over widths a tenth of an octave apart, mu by Newton steps."""
    gram = problem.design.gram
    reference = reference_width(gram.X, problem.design.weights.frequency, gram.kernel)
    values = []
    for j in np.arange(-4, 4.1, 0.2):
        gamma = reference * step_of(gram.kernel) ** j
        form = Decomposer(problem.design).decompose(gamma, lambda unit: 0.0).canonical
        prices = PathPrices(RidgePath.of(form, problem.Y), problem.criterion)
        values.append(MuSearch(prices).refine()[1])
    return min(values)


def value_at(search, end):
    level = search.level(search.n)
    return level.at(end.x, sloped=False).value


@pytest.mark.parametrize("rule", ["press", "log_loss", "smoothed_error"])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n", [150, 700])
def test_the_end_is_as_good_as_the_best_of_many_widths(n, n_classes, kernel, rule):
    problem = problem_of(*table(n, n_classes), kernel=kernel, rule=rule)
    search, end = searched(problem)
    assert np.log(value_at(search, end) / least(problem)) < 1e-3


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("m", [300, 900])
def test_the_gradient_of_a_level_is_that_of_differences(m, bias):
    X, y = table(900, 3)
    rng = np.random.default_rng(0)
    weights = Weights(rng.choice([0.5, 1.0, 2.0], size=900), rng.choice([1.0, 1.5], size=900))
    search = Levels.of(
        problem_of(X, y, bias=bias, weights=weights), mu=None, gamma=None, search_gamma=True
    )
    level = search.level(m)
    x = search.start + np.array([0.4, 1.0])
    point = level._at(x, True, exact=True)
    h = 1e-4
    around = [
        level._at(x + h * e, False, exact=True).value
        - level._at(x - h * e, False, exact=True).value
        for e in np.eye(2)
    ]
    slope = np.divide(around, 2 * h) / point.value
    # Of many rows the trace is estimated, in the direction of gamma alone.
    assert point.slope[1] == pytest.approx(slope[1], rel=1e-5)
    assert point.slope[0] == pytest.approx(slope[0], rel=1e-5, abs=1e-6 if m <= 800 else 0.02)
    rough = level._at(x, True, exact=False)
    assert_allclose(rough.slope, point.slope, atol=1e-3)


def model(X, y, w=None, estimator=KernelFisherClassifier, **options):
    return estimator(**options).fit(X, y, sample_weight=w)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("n", [200, 900, 1500])
def test_weights_copies_and_order_do_not_matter(n, kernel, n_classes):
    X, y = table(n, n_classes, seed=n)
    rng = np.random.default_rng(n)
    w = rng.integers(1, 4, size=n)
    weighted = model(X, y, w, kernel=kernel)
    order = rng.permutation(w.sum())
    rows = np.repeat(np.arange(n), w)[order]
    copied = model(X[rows], y[rows], kernel=kernel)
    for name in ("gamma_", "regularization_"):
        assert getattr(copied, name) == pytest.approx(getattr(weighted, name), rel=1e-7)
    gap = copied.decision_function(X[:50]) - weighted.decision_function(X[:50])
    assert np.abs(gap).max() < 1e-6 * np.abs(weighted.decision_function(X[:50])).max()


def test_two_valleys_are_both_looked_at():
    """Of valleys of nearly the same depth, the one that is deeper in the end is found."""
    search = Levels.of(problem_of(*table(300)), mu=None, gamma=None, search_gamma=True)
    wide, narrow = search.coarse()[0], search.coarse()[0]
    shifted = Valley(narrow.x + np.array([1.5, 0.0]), narrow.value * 1.01, narrow.curvature)
    ends = search.refine([shifted, wide]), search.refine([wide])
    assert_allclose(ends[0].x, ends[1].x, atol=0.05)


def test_fine_patterns_that_few_rows_do_not_show_are_found_on_more():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 14, size=(2500, 2))
    y = (np.sum(np.floor(X), axis=1) % 2).astype(int)
    fit = model(X, y)
    best = min(model(X, y, gamma=g).selection_.value for g in (1.0, 2.0, 4.0, 8.0))
    assert fit.selection_.value < 1.1 * best


@pytest.mark.parametrize("n", [300, 900])
def test_noise_without_a_signal_ends_on_the_largest_mu(n):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 5)), rng.integers(2, size=n)
    fit = model(X, y)
    constant = np.mean((y - (y.sum() - y) / (n - 1)) ** 2) * 4
    assert fit.selection_.value <= constant * (1 + 1e-6)


def test_a_given_mu_leaves_the_width_to_be_found():
    X, y = table(900)
    fit = model(X, y, regularization=0.05)
    assert fit.selection_.mu == 0.05
    assert fit.selection_.status is Status.GIVEN
    values = [
        model(X, y, regularization=0.05, gamma=fit.gamma_ * e).selection_.value
        for e in (0.8, 0.9, 1.1, 1.25)
    ]
    assert fit.selection_.value < min(values) * (1 + 1e-4)


def test_a_given_width_leaves_mu_to_be_found():
    X, y = table(900)
    fit = model(X, y, gamma=0.1)
    assert fit.selection_.method == "cholesky"
    full = model(X, y, gamma=0.1, criterion="error")  # decomposes
    assert full.selection_.method == "full"
    values = [model(X, y, gamma=0.1, regularization=fit.regularization_ * e) for e in (0.9, 1.1)]
    assert fit.selection_.value < min(v.selection_.value for v in values) * (1 + 1e-6)


def test_folds_choose_near_where_leaving_one_out_would():
    X, y = table(700)
    fit = model(X, y, cv=5)
    other = [
        model(X, y, cv=5, gamma=fit.gamma_ * e).selection_.value for e in (0.7, 0.85, 1.2, 1.4)
    ]
    assert fit.selection_.value < min(other) * (1 + 1e-3)


def test_the_path_says_on_how_many_rows_each_setting_was_compared():
    X, y = table(2000)
    path = model(X, y).selection_.path
    assert path.dtype.names == ("rows", "gamma", "mu", "value")
    assert list(np.unique(path["rows"])) == [500, 1000, 2000]
    assert np.all(np.diff(path["rows"]) >= 0)
    assert np.sum(path["rows"] == 2000) <= 8


def test_regression_targets_of_any_size_choose_the_same_width():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.2 * rng.normal(size=900)
    one = model(X, y, estimator=KernelRidgeCV)
    for scale in (1e-9, 1e9):
        other = model(X, scale * y, estimator=KernelRidgeCV)
        assert other.gamma_ == pytest.approx(one.gamma_, rel=0.05)


def test_levels_draw_the_same_rows_whatever_their_order():
    X, y = make_blobs(400, 3, centers=3, random_state=0)
    order = np.random.default_rng(0).permutation(400)
    first = Levels.of(problem_of(X, y), mu=None, gamma=None, search_gamma=True)
    other = Levels.of(problem_of(X[order], y[order]), mu=None, gamma=None, search_gamma=True)
    assert_allclose(X[first.order], X[order][other.order])
    assert levels.ALL_ROWS >= 4000


@pytest.mark.parametrize("hostile", ["offset", "outlier", "few values"])
def test_the_draw_does_not_sort_by_class_whatever_the_features(hostile):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 2)), rng.integers(2, size=900)
    if hostile == "offset":
        X += 1e8
    elif hostile == "outlier":
        X[0] = 1e7
    else:
        X = np.round(X)
    search = Levels.of(problem_of(X, y), mu=None, gamma=None, search_gamma=True)
    share = np.mean(y[search.order[:300]])
    assert abs(share - y.mean()) < 0.1
    shuffled = rng.permutation(900)
    other = Levels.of(problem_of(X[shuffled], y[shuffled]), mu=None, gamma=None, search_gamma=True)
    assert_allclose(X[search.order], X[shuffled][other.order], rtol=0)
    assert_allclose(y[search.order], y[shuffled][other.order])


def test_many_rows_end_on_a_factor_in_single_precision():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6200, 6))
    y = (np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=6200) > 0).astype(int)
    fit = model(X, y)
    found = fit.selection_
    assert found.method == "cholesky" and "single precision" in found.leave_one_out
    assert found.path["rows"].max() == 6200 and np.sum(found.path["rows"] == 6200) == 1
    given = model(X, y, gamma=fit.gamma_, regularization=fit.regularization_)
    size = np.abs(given.decision_function(X[:200])).max()
    gap = fit.decision_function(X[:200]) - given.decision_function(X[:200])
    assert np.abs(gap).max() < 1e-7 * size
    assert np.abs(fit.loo_decision_ - given.loo_decision_).max() < 1e-3 * size
    assert found.value == pytest.approx(given.selection_.value, rel=1e-4)
