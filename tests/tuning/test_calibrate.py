"""The slope of the probabilities against a plain minimiser, and probabilities at their limits."""

import numpy as np
import oracles
import pytest
from oracles import gap

from fisherkit.core.bias import BIASES
from fisherkit.core.canonical import Canonical
from fisherkit.core.coding import Rule
from fisherkit.core.ridge import RidgePath
from fisherkit.core.weights import Weights
from fisherkit.tuning.calibrate import (
    SLOPE_BOUNDS,
    Slope,
    Status,
    fit_slope,
    known_classes,
    loo_decisions,
    probabilities,
    slope_terms,
    smoothed_targets,
)

N = 60


def scores(n_classes, scale=1.0, seed=0, n=N):
    """Decisions that agree with the labels more often than not."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)])
    decisions = scale * (rng.normal(size=(n, n_classes)) + 1.5 * np.eye(n_classes)[y])
    if n_classes == 2:
        decisions = decisions[:, 1:] - decisions[:, :1]
    return decisions, y


def weights_of(n=N, weighted=False):
    rng = np.random.default_rng(3)
    if not weighted:
        return Weights(np.ones(n), np.ones(n))
    return Weights(rng.uniform(0.2, 3.0, size=n), rng.uniform(0.5, 2.0, size=n))


def slope_of(decisions, y, weights=None, *, balanced=False, known=None):
    return calibrated(decisions, y, weights, balanced=balanced, known=known).value


def calibrated(decisions, y, weights=None, *, balanced=False, known=None):
    weights = weights_of(len(y)) if weights is None else weights
    known = np.ones(len(y), dtype=bool) if known is None else known
    return fit_slope(decisions, known, oracles.indicators(y), weights, balanced=balanced)


def spread_of(decisions):
    """Of the decisions about the mean of their row, where all classes are equally probable."""
    pair = np.hstack([0 * decisions, decisions]) if decisions.shape[1] == 1 else decisions
    return np.sqrt(np.mean(pair.var(axis=1)))


def flat(decisions):
    return decisions[:, 0] if decisions.shape[1] == 1 else decisions


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_slope_minimises_the_log_loss_against_smoothed_targets(
    n_classes, balanced, weighted, scale
):
    decisions, y = scores(n_classes, scale)
    weights = weights_of(weighted=weighted)
    loss_weight = weights.v
    if balanced:
        Y = oracles.indicators(y)
        loss_weight = loss_weight / (Y @ (Y.T @ weights.v))
    truth = oracles.slope(flat(decisions), y, weights.frequency, loss_weight)
    ours = slope_of(decisions, y, weights, balanced=balanced)
    assert ours == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_slope_of_anticorrelated_decisions_is_the_lower_bound(n_classes):
    decisions, y = scores(n_classes)
    slope = calibrated(-decisions, y)
    assert slope.value == pytest.approx(SLOPE_BOUNDS[0] / spread_of(decisions), rel=1e-12)
    assert slope.status is Status.FLAT and not slope.decided


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_slope_of_separable_decisions_is_finite_and_inside_the_bounds(n_classes):
    _, y = scores(n_classes)
    margin = np.random.default_rng(1).uniform(0.5, 1.5, size=N)
    decisions = margin[:, None] * np.eye(n_classes)[y]
    if n_classes == 2:
        decisions = decisions[:, 1:] - decisions[:, :1]
    slope = slope_of(decisions, y)
    assert 1.0 < slope < 100.0
    assert slope == pytest.approx(oracles.slope(flat(decisions), y), rel=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_decisions_that_are_all_equal_have_a_slope_of_one_and_say_so(n_classes):
    _, y = scores(n_classes)
    for decisions in (np.zeros((N, 1 if n_classes == 2 else n_classes)), np.full((N, 3), 7.1)):
        if decisions.shape[1] == 3 and n_classes == 2:
            continue
        assert calibrated(decisions, y) == Slope(1.0, Status.NOTHING_TO_FIT)


def test_decisions_of_which_a_few_dwarf_the_others_get_the_slope_they_need():
    decisions, y = scores(2)
    steep = np.sign(decisions) * np.abs(decisions) ** 1e-3 * 1e-12
    steep[0] = 1.0 if y[0] else -1.0
    assert calibrated(steep, y).status in (Status.INTERIOR, Status.STEEP)


@pytest.mark.parametrize("n_classes", [3, 19])
def test_smoothing_vanishes_with_the_number_of_rows_not_of_a_class(n_classes):
    for n in (40, 400, 4000):
        y = np.arange(n) % n_classes
        target = smoothed_targets(oracles.indicators(y), weights_of(n))
        own = target[np.arange(n), y]
        assert np.all(1 - own < n_classes / n)
        np.testing.assert_allclose(target, oracles.smoothed_targets(y), rtol=1e-13)
        np.testing.assert_allclose(target.sum(axis=1), 1, rtol=1e-14)
        twice = weights_of(n // 2)
        twice = Weights(2 * twice.frequency, twice.cost)
        half = smoothed_targets(oracles.indicators(y[: n // 2]), twice)
        doubled = oracles.smoothed_targets(np.repeat(y[: n // 2], 2))[::2]
        np.testing.assert_allclose(half, doubled, rtol=1e-13)


def test_weights_far_below_one_leave_targets_that_are_probabilities():
    y = np.arange(12) % 6
    target = smoothed_targets(oracles.indicators(y), Weights(np.full(12, 1e-6), np.ones(12)))
    assert np.all(target > 0) and np.all(np.argmax(target, axis=1) == y)


def test_scores_of_any_spread_are_calibrated_without_a_clip():
    """Scores of the penalised-LDA rule spread over many orders of magnitude."""
    decisions, y = scores(5, n=400)
    for scale in (1e-9, 1e9):
        slope = calibrated(scale * decisions, y)
        assert slope.status is Status.INTERIOR
        assert slope.value * scale == pytest.approx(slope_of(decisions, y), rel=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_whose_class_was_never_seen_do_not_count(n_classes):
    decisions, y = scores(n_classes)
    known = np.arange(N) % 7 != 0
    decisions[~known] *= -1e6
    ours = slope_of(decisions, y, known=known)
    loss_weight = known.astype(float)
    assert ours == pytest.approx(
        oracles.slope(flat(decisions), y, np.ones(N), loss_weight), rel=1e-6
    )
    assert slope_of(decisions, y, known=np.zeros(N, dtype=bool)) == 1.0


@pytest.mark.parametrize("columns", [lambda d: [0 * d, d], lambda d: [-d / 2, d / 2]])
def test_two_columns_are_the_binary_formula(columns):
    decisions, y = scores(2)
    pair = np.concatenate(columns(decisions), axis=1)
    slope = slope_of(decisions, y)
    assert slope_of(pair, y) == pytest.approx(slope, rel=1e-9)
    binary = 1 / (1 + np.exp(-slope * decisions[:, 0]))
    for given in (decisions, pair):
        assert gap(probabilities(given, slope), np.stack([1 - binary, binary], axis=1)) < 1e-14


@pytest.mark.parametrize("size", [0.0, 1.0, 1e8, 1e300])
@pytest.mark.parametrize("slope", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_probabilities_sum_to_one_and_are_never_nan(n_classes, slope, size):
    decisions, _ = scores(n_classes, size)
    P = probabilities(decisions, slope)
    assert P.shape == (N, n_classes)
    assert np.all((P >= 0) & (P <= 1))
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_slope_is_finite_for_decisions_of_any_size(n_classes, size):
    decisions, y = scores(n_classes, size)
    slope = slope_of(decisions, y) * spread_of(decisions)
    assert SLOPE_BOUNDS[0] * (1 - 1e-12) <= slope <= SLOPE_BOUNDS[1] * (1 + 1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_most_probable_class_is_the_one_decided(n_classes):
    decisions, _ = scores(n_classes)
    P = probabilities(decisions, 0.37)
    truth = decisions[:, 0] > 0 if n_classes == 2 else np.argmax(decisions, axis=1)
    np.testing.assert_array_equal(np.argmax(P, axis=1), truth)


@pytest.mark.parametrize("kind", ["binary", "ovr", "lda"])
def test_a_class_of_one_is_unknown_to_the_model_without_it(kind):
    rng = np.random.default_rng(0)
    n_classes = 2 if kind == "binary" else 3
    y = np.array([*([0] * 9), *([1] * 10), 2 if n_classes == 3 else 1])
    y[0] = 0
    if n_classes == 2:
        y = np.array([1, *([0] * 19)])
    K = oracles.gram(rng.normal(size=(20, 2)))
    indicator = oracles.indicators(y)
    Y = indicator if n_classes == 3 else 2 * indicator[:, 1:] - 1
    fit = RidgePath.of(Canonical.from_gram(K, weights_of(20), BIASES["free"]), Y).at(0.3)
    decisions = loo_decisions(fit, Rule(kind, False), indicator)
    known = known_classes(fit, indicator, indicator.sum(axis=0))
    np.testing.assert_array_equal(known, np.bincount(y)[y] > 1)
    assert np.all(np.isfinite(decisions))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_class_decided_leads_even_where_probabilities_cannot_show_it(n_classes, dtype):
    tiny = np.zeros((3, 1 if n_classes == 2 else n_classes))
    tiny[1, 0 if n_classes == 2 else 1] = 1e-30
    tiny[2, -1] = 1e-30
    shown = probabilities(tiny, 1.0, dtype)
    np.testing.assert_array_equal(np.argmax(shown, axis=1), [0, 1, n_classes - 1])
    np.testing.assert_allclose(shown, 1 / n_classes, rtol=4 * np.finfo(dtype).eps)
    assert shown.dtype == dtype


@pytest.mark.parametrize("a", [1e-3, 1.0, 1e3])
def test_two_classes_have_the_terms_of_a_softmax(a):
    rng = np.random.default_rng(0)
    d, t = rng.normal(size=(50, 1)), rng.random(50)
    target, share = np.stack([1 - t, t], axis=1), rng.random(50)
    softmax = slope_terms(a, np.hstack([0 * d, d]), target, share)
    assert slope_terms(a, d, target, share) == pytest.approx(softmax, rel=1e-12, abs=1e-14)
