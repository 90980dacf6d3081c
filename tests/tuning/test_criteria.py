"""Criteria against plain loops, their derivatives against differences, and their limits."""

import math

import numpy as np
import oracles
import pytest

from fisherkit.core.bias import BIASES
from fisherkit.core.canonical import Canonical
from fisherkit.core.ridge import Fold, Pullback, RidgePath, solve
from fisherkit.core.weights import Weights
from fisherkit.tuning.criteria import Criterion, HeldOut, log_sigmoid

N = 40
SMOOTH = ["press", "log_loss", "smoothed_error"]
each_smooth = pytest.mark.parametrize("rule", SMOOTH)
each_rule = pytest.mark.parametrize("rule", [*SMOOTH, "error"])
each_problem = pytest.mark.parametrize("n_classes", [2, 3], ids=["binary", "3-class"])
each_split = pytest.mark.parametrize("folds", [False, True], ids=["loo", "folds"])


def setting(n_classes, folds, *, bias="free", seed=0):
    """A path with uneven weights, and the held-out rows that a criterion sees."""
    rng = np.random.default_rng(seed)
    X, y = oracles.noisy_classes(N, n_classes, seed=seed)
    Y = oracles.indicators(y) if n_classes > 2 else (2.0 * y - 1)[:, None]
    weights = Weights(rng.uniform(0.3, 3.0, size=N), np.ones(N))
    path = RidgePath.of(Canonical.from_gram(oracles.gram(X, gamma=0.5), weights, BIASES[bias]), Y)
    if not folds:
        mean = weights.fold_mean(Y)
        return path, HeldOut(Y, mean, mean, weights.v, labels=y)
    blocks = np.array_split(rng.permutation(N), 5)
    rows = np.concatenate(blocks)
    return path, HeldOut(
        Y[rows],
        np.zeros((N, Y.shape[1])),
        rng.normal(scale=0.1, size=(N, Y.shape[1])),
        weights.v[rows],
        [Fold(block, np.arange(len(block))) for block in blocks],
        labels=y[rows],
    )


def naive(rule, R, held_out):
    """Weighted mean of the loss, one row at a time."""
    if rule == "log_loss" and R.shape[1] > 1:
        return calibrated(R, held_out)
    total, value = 0.0, 0.0
    for r, y, t, w in zip(R, held_out.Y, held_out.threshold, held_out.weight, strict=True):
        decision = y - r - t
        if len(y) == 1:
            margin = y[0] * decision[0]
        else:
            own = int(np.argmax(y))
            margin = decision[own] - max(d for k, d in enumerate(decision) if k != own)
        value += (
            w
            * {
                "press": sum(part**2 for part in r),
                "log_loss": math.log(1 + math.exp(-4 * margin)),
                "smoothed_error": 1 - 1 / (1 + math.exp(-4 * margin)),
                "error": float(margin < 0),
            }[rule]
        )
        total += w
    return value / total


def calibrated(R, held_out):
    """The least cross-entropy of logits a Z + b; classes count alike where there are thresholds."""
    Y, w = held_out.Y, held_out.weight
    F = Y - R
    Z = F - held_out.mean * F.sum(axis=1, keepdims=True)
    share = w / w.sum()
    if np.any(held_out.threshold):
        share = w / (Y @ (Y.T @ w)) / Y.shape[1]
    return oracles.calibrate(Z, oracles.smoothed_targets(np.argmax(Y, axis=1), w), share)[2]


@each_split
@each_problem
@each_rule
def test_values_are_those_of_plain_loops(rule, n_classes, folds):
    path, held_out = setting(n_classes, folds)
    criterion = Criterion(rule, held_out)
    mus = [1e-3, 0.1, 10.0]
    R = path.held_out(mus, held_out.folds)
    truth = [naive(rule, R[:, :, j], held_out) for j in range(3)]
    np.testing.assert_allclose(criterion.values(path, mus), truth, rtol=1e-12)
    np.testing.assert_allclose(criterion.of_residuals(R), truth, rtol=1e-12)


@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
@each_split
@each_problem
@each_smooth
def test_gradient_and_second_derivative_are_central_differences(rule, n_classes, folds, bias):
    path, held_out = setting(n_classes, folds, bias=bias)
    criterion, h = Criterion(rule, held_out), 1e-4
    for log_mu in (-6.0, -1.0, 3.0):
        value, gradient, hessian = criterion.derivatives(path, log_mu)
        up, down = (criterion.derivatives(path, log_mu + step) for step in (h, -h))
        assert value == pytest.approx(criterion.values(path, [math.exp(log_mu)])[0], rel=1e-12)
        assert gradient == pytest.approx((up[0] - down[0]) / (2 * h), rel=1e-6, abs=1e-8)
        assert hessian == pytest.approx((up[1] - down[1]) / (2 * h), rel=1e-6, abs=1e-8)


@each_split
@pytest.mark.parametrize(
    "rule, n_classes, dtype",
    [
        *((rule, k, np.float64) for rule in SMOOTH for k in (2, 3)),
        ("press", 3, np.float32),
        ("log_loss", 3, np.float32),
    ],
)
def test_slopes_are_differences_of_the_weighted_mean(rule, n_classes, folds, dtype):
    path, held_out = setting(n_classes, folds)
    criterion = Criterion(rule, held_out)
    R = path.held_out([0.1], held_out.folds)[:, :, 0].astype(dtype)
    losses, slopes = criterion.slopes(R)
    assert slopes.dtype == dtype and losses.shape == (len(R),) and slopes.shape == R.shape
    tolerance = 1e-6 if dtype is np.float64 else 1e-4
    R, share = R.astype(float), held_out.weight / held_out.weight.sum()
    value = criterion.of_residuals(R[:, :, None])[0]
    assert share @ losses == pytest.approx(value, rel=0.1 * tolerance)
    away = np.random.default_rng(0).normal(size=R.shape)
    up, down = (criterion.of_residuals((R + h * away)[:, :, None])[0] for h in (1e-5, -1e-5))
    by_slopes = share @ np.sum(slopes * away, axis=1)
    assert by_slopes == pytest.approx((up - down) / 2e-5, rel=tolerance, abs=1e-9)


@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
def test_the_calibrated_log_loss_cannot_read_labels_off_the_mean_of_the_others(bias):
    """As mu grows, what the mean of the other rows' codes says of a row's own must not count."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    Y, weights = oracles.indicators(y), Weights(np.ones(60), np.ones(60))
    K = oracles.gram(rng.normal(size=(60, 2)), gamma=0.5)
    path = RidgePath.of(Canonical.from_gram(K, weights, BIASES[bias]), Y)
    criterion = Criterion("log_loss", HeldOut.leave_one_out(Y, weights, balanced=False))
    assert np.all(criterion.values(path, [1.0, 1e2, 1e4, 1e6]) > 0.9 * math.log(3))


def test_the_calibrated_log_loss_does_not_depend_on_the_scale_of_the_scores():
    _, held_out = setting(3, False)
    Z = np.random.default_rng(0).normal(size=(N, 3)) + held_out.Y
    Z -= Z.mean(axis=1, keepdims=True)
    values = []
    for scale in (1e-6, 1.0, 1e6):
        F = scale * Z + held_out.mean
        values.append(Criterion("log_loss", held_out).of_residuals((held_out.Y - F)[:, :, None])[0])
    np.testing.assert_allclose(values, values[1], rtol=1e-8)


def test_at_infinite_mu_press_is_that_of_the_leave_one_out_mean():
    path, held_out = setting(3, False)
    Y, w = path.Y, path.canonical.weights
    means = np.array(
        [np.average(Y, axis=0, weights=oracles.reduced(w.frequency, w.cost, i)) for i in range(N)]
    )
    truth = np.average(np.sum((Y - means) ** 2, axis=1), weights=w.v)
    values = Criterion("press", held_out).values(path, [1e6, 1e9, 1e12])
    assert values[2] == pytest.approx(truth, rel=1e-9)
    assert abs(values[1] - truth) < abs(values[0] - truth)


def test_at_infinite_mu_balanced_classes_are_always_missed_without_a_fold_threshold():
    """The leak: the mean of the other labels points away from the label left out."""
    X, y = oracles.noisy_classes(N, seed=1)
    y = np.arange(N) % 2
    Y = (2.0 * y - 1)[:, None]
    weights = Weights(np.ones(N), np.ones(N))
    path = RidgePath.of(Canonical.from_gram(oracles.gram(X, gamma=0.5), weights, BIASES["free"]), Y)
    plain = Criterion("error", HeldOut(Y, weights.fold_mean(Y), np.zeros((N, 1)), weights.v))
    assert plain.values(path, [1e12])[0] == 1.0
    centred = Criterion(
        "log_loss", HeldOut(Y, weights.fold_mean(Y), weights.fold_mean(Y), weights.v)
    )
    assert centred.values(path, [1e12])[0] == pytest.approx(math.log(2.0), rel=1e-9)


@pytest.mark.parametrize("rule", ["log_loss", "smoothed_error", "error"])
def test_margins_of_any_size_give_finite_losses(rule):
    Y = np.array([[1.0], [-1.0], [1.0]])
    criterion = Criterion(rule, HeldOut(Y, np.zeros((3, 1)), np.zeros((3, 1)), np.ones(3)))
    R = np.array([1e8, 1e8, -1e8])[:, None, None]
    assert np.all(np.isfinite(criterion.of_residuals(R)))


def test_the_log_of_the_sigmoid_neither_overflows_nor_cancels():
    x = np.array([-1e9, -40.0, -1.0, 0.0, 1.0, 40.0, 1e9])
    truth = [-1e9, -40.0, -math.log1p(math.e), -math.log(2), -math.log1p(1 / math.e)]
    np.testing.assert_allclose(log_sigmoid(x)[:5], truth, rtol=1e-14)
    np.testing.assert_allclose(log_sigmoid(x)[5:], [-math.exp(-40.0), 0.0], rtol=1e-12)


@pytest.mark.parametrize("rule, smooth", [*((rule, True) for rule in SMOOTH), ("error", False)])
def test_only_smooth_criteria_take_newton_steps(rule, smooth):
    assert Criterion(rule, setting(2, False)[1]).smooth is smooth


@each_split
@each_problem
def test_a_callable_sees_labels_decisions_and_weights(n_classes, folds):
    path, held_out = setting(n_classes, folds)
    seen = []

    def loss(y, decision, sample_weight):
        seen.append((y, decision, sample_weight))
        return float(len(seen))

    criterion = Criterion(loss, held_out)
    np.testing.assert_array_equal(criterion.values(path, [0.1, 1.0]), [1.0, 2.0])
    assert criterion.name == "loss" and not criterion.smooth
    decisions = (held_out.Y - held_out.threshold)[:, :, None] - path.held_out(
        [0.1, 1.0], held_out.folds
    )
    for j, (y, decision, sample_weight) in enumerate(seen):
        np.testing.assert_array_equal(y, held_out.labels)
        np.testing.assert_array_equal(sample_weight, held_out.weight)
        truth = decisions[:, 0, j] if n_classes == 2 else decisions[:, :, j]
        np.testing.assert_allclose(decision, truth, rtol=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_callable_that_returns_no_number_is_named(value):
    def broken(y, decision, sample_weight):
        return value

    path, held_out = setting(2, False)
    with pytest.raises(ValueError, match=f"'broken' returned {value}"):
        Criterion(broken, held_out).values(path, [1.0])


@each_smooth
@each_problem
@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
def test_the_gradient_of_a_dense_fit_is_that_of_the_path(bias, n_classes, rule):
    path, held_out = setting(n_classes, False, bias=bias)
    criterion = Criterion(rule, held_out)
    X, _ = oracles.noisy_classes(N, n_classes, seed=0)
    K = oracles.gram(X, gamma=0.5)
    for mu in (1e-3, 1.0, 50.0):
        ridge, _ = solve(
            K.copy(), path.Y, path.canonical.weights, bias=BIASES[bias], penalty="rkhs", mu=mu
        )
        expected = criterion.derivatives(path, math.log(mu))[:2]
        losses, slopes = criterion.slopes(ridge.leave_one_out())
        share = ridge.weights.v / ridge.weights.mass
        found = share @ losses, Pullback.of(ridge, mu, share[:, None] * slopes).by_log_mu()
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)
