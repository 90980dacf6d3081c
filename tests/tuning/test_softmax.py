"""The softmax rule against plain loops on brute-force leave-one-out, and its promises."""

import numpy as np
import oracles
import pytest
from scipy.special import softmax as softmax_of

from fisherkit import KernelFisherClassifier
from fisherkit.core.weights import Weights
from fisherkit.tuning import softmax
from fisherkit.tuning.calibrate import Slope, Status
from fisherkit.tuning.decision import fit_decisions
from fisherkit.tuning.likelihood import Likelihood, LocalParts
from fisherkit.tuning.softmax import RIDGES, Full, LowRank, Softmax, fit_matrix

GAMMA, MU = 0.5, 0.3


def problem(n=45, n_classes=3, seed=0):
    X, y = oracles.noisy_classes(n, n_classes, d=3, seed=seed)
    return X, y, oracles.gram(X, gamma=GAMMA)


def model(**options):
    return KernelFisherClassifier(**{"gamma": GAMMA, "regularization": MU} | options)


def logits_of(n, k, seed=0, noise=1.0):
    """Logits that agree with the labels, and labels of every class."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
    g = noise * rng.normal(size=(n, k)) + 2.5 * np.eye(k)[y]
    return g - g.mean(axis=1, keepdims=True), y


def rows_of(y, k, weight=None):
    w = np.ones(len(y)) if weight is None else weight
    return LocalParts([Likelihood(np.eye(k)[y], w / w.sum(), w.sum())])


# Against the reference


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
def test_logits_are_those_of_plain_loops_on_refits(bias, penalty, balanced):
    X, y, K = problem()
    X_new = np.random.default_rng(1).normal(size=(10, 3))
    threshold = "balanced" if balanced else "prior"
    ours = model(bias=bias, penalty=penalty, threshold=threshold).fit(X, y)
    truth = oracles.softmax_rule(
        *(K, y, MU, oracles.gram(X_new, X, gamma=GAMMA)),
        bias=bias,
        penalty=penalty,
        balanced=balanced,
    )
    assert_same(ours, truth, X_new)


@pytest.mark.parametrize("cost", [None, {0: 0.5, 1: 3.0, 2: 1.0}], ids=str)
@pytest.mark.parametrize("balanced", [False, True])
def test_weights_and_costs_enter_as_in_plain_loops(balanced, cost):
    X, y, K = problem(seed=2)
    w = np.random.default_rng(5).choice([0.5, 1.0, 2.0, 3.0], len(y))
    c = np.ones(len(y)) if cost is None else np.array([cost[k] for k in y])
    threshold = "balanced" if balanced else "prior"
    ours = model(class_weight=cost, threshold=threshold).fit(X, y, w)
    assert_same(ours, oracles.softmax_rule(K, y, MU, K, w=w, c=c, balanced=balanced), X)


def assert_same(ours, truth, X_new):
    found = ours.calibration_
    assert isinstance(found, Softmax) and found.value == 1.0
    assert found.slope == pytest.approx(truth["slope"], rel=1e-8)
    assert found.ridge == truth["ridge"]
    assert oracles.gap(found.matrix, truth["matrix"]) < 1e-8
    assert np.max(np.abs(found.shift - truth["shift"])) < 1e-8
    assert oracles.gap(ours.loo_decision_, truth["left_out"]) < 1e-8
    assert oracles.gap(ours.decision_function(X_new), truth["new"]) < 1e-8
    P = ours.predict_proba(X_new)
    assert np.max(np.abs(P - softmax_of(truth["new"], axis=1))) < 1e-8
    np.testing.assert_array_equal(ours.predict(X_new), P.argmax(axis=1))
    # The ridge is chosen by fits that are not finished.
    assert found.log_loss == pytest.approx(truth["log_loss"], rel=2e-3)
    assert found.error == pytest.approx(truth["error"], abs=0.03)
    assert found.rows == len(ours.loo_decision_)


@pytest.mark.parametrize("ridge", RIDGES)
def test_the_matrix_form_is_the_minimum_of_its_objective(ridge):
    g, y = logits_of(60, 4)
    w = np.random.default_rng(1).uniform(0.3, 3, len(y))
    found = fit_matrix(rows_of(y, 4, w), [g], 4, ridge)
    W, c = oracles.matrix_form(g, y, w, ridge)
    np.testing.assert_allclose(found.matrix, W, atol=1e-9)
    np.testing.assert_allclose(found.shift, c, atol=1e-9)


def test_rows_in_parts_are_the_rows_together():
    g, y = logits_of(90, 4)
    whole = fit_matrix(rows_of(y, 4), [g], 4)
    blocks = np.array_split(np.arange(90), 4)
    parts = LocalParts([Likelihood(np.eye(4)[y[b]], np.full(len(b), 1 / 90), 90.0) for b in blocks])
    found = fit_matrix(parts, [g[b] for b in blocks], 4)
    assert found.chosen.ridge == whole.chosen.ridge and found.chosen.rows == 90
    np.testing.assert_allclose(found.matrix, whole.matrix, atol=1e-10)
    assert found.chosen.log_loss == pytest.approx(whole.chosen.log_loss, rel=1e-9)


# Forms of W


@pytest.mark.parametrize("form", ["full", "low-rank"])
def test_derivatives_of_a_form_are_differences(form):
    rng = np.random.default_rng(0)
    g, y = logits_of(30, 6)
    shape = Full(6) if form == "full" else LowRank.of(rng.normal(size=(6, 6)))
    theta = shape.home(g) + 0.1 * rng.normal(size=len(shape.home(g)))
    (rows,), away = rows_of(y, 6).parts, rng.normal(size=len(theta))

    def loss(t):
        return softmax._loss(rows, [g], shape, theta + t * away)[0]

    def gradient(t):
        P = softmax._probabilities(rows, [g], shape, theta + t * away)
        return softmax._slopes(rows, [g, P], shape)[0]

    P = softmax._probabilities(rows, [g], shape, theta)
    assert gradient(0) @ away == pytest.approx((loss(1e-5) - loss(-1e-5)) / 2e-5, rel=1e-7)
    difference = (gradient(1e-5) - gradient(-1e-5)) / 2e-5
    np.testing.assert_allclose(
        softmax._curvature(rows, [g, P], shape, away)[0], difference, rtol=1e-6, atol=1e-7
    )
    W, c = shape.matrix(theta)
    np.testing.assert_allclose(shape.logits(g, theta), g @ W + c, atol=1e-12)


def test_the_home_of_a_form_is_the_scalar_form():
    g, _ = logits_of(20, 6)
    for form in (Full(6), LowRank.of(np.random.default_rng(0).normal(size=(6, 6)))):
        W, c = form.matrix(form.home(g))
        np.testing.assert_array_equal(W, np.eye(6))
        np.testing.assert_array_equal(c, np.zeros(6))


def test_beyond_fifty_classes_w_is_diagonal_plus_low_rank_and_a_minimum():
    k = 60
    g, y = logits_of(400, k, noise=1.5)
    found = fit_matrix(rows_of(y, k), [g], k, 1.0)
    form = LowRank.of(g.T @ (softmax_of(g, axis=1) - np.eye(k)[y]))
    assert form.A.shape == (k, 20)

    def objective(d, M, c):
        u = g * d + g @ form.A @ M @ form.B.T + c
        entropy = np.log(np.sum(np.exp(u), axis=1)) - u[np.arange(len(y)), y]
        return np.sum(entropy) + 0.5 * np.sum((d - 1) ** 2) + 0.5 * np.sum(M**2) + 0.05 * c @ c

    # W is a diagonal and A M B', which least squares tell apart.
    columns = [np.diag(np.eye(k)[j]).ravel() for j in range(k)]
    columns += [np.outer(form.A[:, i], form.B[:, j]).ravel() for i in range(20) for j in range(20)]
    columns = np.stack(columns, axis=1)
    solved = np.linalg.lstsq(columns, found.matrix.ravel(), rcond=None)[0]
    assert np.max(np.abs(columns @ solved - found.matrix.ravel())) < 1e-9
    d, M, c = solved[:k], solved[k:].reshape(20, 20), found.shift
    least, rng = objective(d, M, c), np.random.default_rng(0)
    for _ in range(20):
        step = [1e-3 * rng.normal(size=part.shape) for part in (d, M, c)]
        assert objective(d + step[0], M + step[1], c + step[2]) > least


def test_two_hundred_classes_work_in_a_moment():
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(200, 6))
    y = np.concatenate([np.arange(200), rng.integers(200, size=400)])
    X = centres[y] + rng.normal(size=(600, 6))
    fitted = KernelFisherClassifier(gamma=0.05).fit(X, y)
    P = fitted.predict_proba(X)
    assert P.shape == (600, 200)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-12)
    assert np.mean(fitted.predict(X) == y) > 0.8


# Promises


def test_two_classes_never_enter_the_matrix_form(monkeypatch):
    def never(*_, **__):
        raise AssertionError("two classes have a slope")

    monkeypatch.setattr("fisherkit.tuning.decision.fit_softmax", never)
    X, y, _ = problem(n_classes=2)
    for options in ({}, {"threshold": "balanced"}, {"multiclass": "softmax"}):
        fitted = model(**options).fit(X, y)
        assert type(fitted.calibration_) is Slope
        assert fitted.selection_.criterion == "press"


@pytest.mark.parametrize("threshold", ["prior", "balanced"])
def test_a_weight_of_two_is_the_row_twice(threshold):
    X, y, _ = problem(60)
    w = np.random.default_rng(0).integers(0, 4, size=60)
    weighted = KernelFisherClassifier(threshold=threshold).fit(X, y, sample_weight=w)
    repeated = KernelFisherClassifier(threshold=threshold).fit(
        np.repeat(X, w, axis=0), np.repeat(y, w)
    )
    assert weighted.calibration_.ridge == repeated.calibration_.ridge
    assert oracles.gap(weighted.decision_function(X), repeated.decision_function(X)) < 1e-8
    left_out = np.repeat(weighted.loo_decision_, w, axis=0)
    assert oracles.gap(left_out, repeated.loo_decision_) < 1e-8
    assert weighted.calibration_.log_loss == pytest.approx(repeated.calibration_.log_loss, rel=1e-8)


def test_copies_of_a_row_share_a_fold_whatever_the_order():
    g, y = logits_of(50, 4)
    order = np.random.default_rng(0).permutation(150)
    both = softmax._Folds.of(softmax._Gathered(g, y, np.ones(50), g)).fold
    copies = softmax._Folds.of(
        softmax._Gathered(np.tile(g, (3, 1))[order], np.tile(y, 3)[order], np.ones(150), g)
    ).fold
    np.testing.assert_array_equal(copies, np.tile(both, 3)[order])
    assert set(both) == set(range(5))


@pytest.mark.parametrize("n_classes", [3, 5])
def test_other_names_of_the_classes_permute_the_answer(n_classes):
    X, y, _ = problem(80, n_classes)
    names = np.random.default_rng(1).permutation(n_classes)
    ours, other = KernelFisherClassifier().fit(X, y), KernelFisherClassifier().fit(X, names[y])
    assert other.calibration_.ridge == ours.calibration_.ridge
    assert oracles.gap(other.decision_function(X)[:, names], ours.decision_function(X)) < 1e-8
    np.testing.assert_array_equal(other.predict(X), names[ours.predict(X)])


def test_a_class_of_one_has_a_probability():
    X, y, _ = problem(40)
    X, y = np.vstack([X, [[9.0, 9.0, 9.0]]]), np.append(y, 3)
    for threshold in ("prior", "balanced"):
        fitted = KernelFisherClassifier(threshold=threshold).fit(X, y)
        P = fitted.predict_proba(X)
        assert P.shape == (41, 4) and np.all(P > 0)
        assert np.all(np.isfinite(fitted.loo_decision_))


def test_scores_that_are_all_alike_give_the_class_shares():
    _, y, _ = problem(40)
    fitted = model(gamma=1.0).fit(np.zeros((40, 1)), y)
    np.testing.assert_allclose(
        fitted.predict_proba(np.zeros((1, 1)))[0], np.bincount(y) / 40, atol=0.02
    )
    assert fitted.calibration_.status is Status.FLAT and not fitted.calibration_.decided
    assert fitted.calibration_.ridge == RIDGES[0]


def test_separated_classes_have_probabilities_that_are_neither_zero_nor_one():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = 20 * np.eye(3)[y] + rng.normal(size=(90, 3))
    P = KernelFisherClassifier().fit(X, y).predict_proba(X)
    assert np.mean(P.argmax(axis=1) == y) == 1 and 0.98 < np.mean(P.max(axis=1)) < 1


def test_a_sample_chooses_the_ridge_where_there_are_many_rows(monkeypatch):
    g, y = logits_of(4000, 3)
    whole = fit_matrix(rows_of(y, 3), [g], 3)
    monkeypatch.setattr(softmax, "_SAMPLE", 3000)
    some = fit_matrix(rows_of(y, 3), [g], 3)
    assert 800 < some.chosen.rows < 1200 and whole.chosen.rows == 4000
    assert some.chosen.log_loss == pytest.approx(whole.chosen.log_loss, rel=0.3)
    if some.chosen.ridge == whole.chosen.ridge:
        np.testing.assert_allclose(some.matrix, whole.matrix, atol=1e-8)


def test_held_out_decisions_may_have_a_constant_of_each_row():
    g, y = logits_of(80, 4)
    weights, labels = Weights(np.ones(80), np.ones(80)), np.eye(4)[y]
    found = fit_decisions(g, labels, weights, balanced=False)
    moved = fit_decisions(
        g + np.random.default_rng(0).normal(size=(80, 1)), labels, weights, balanced=False
    )
    np.testing.assert_allclose(found.matrix, moved.matrix, atol=1e-9)


def test_auto_is_press_for_two_classes_and_for_rules_without_a_fit_of_logits():
    X, y, _ = problem(40)
    assert KernelFisherClassifier().fit(X, y).selection_.criterion == "log_loss"
    assert KernelFisherClassifier(multiclass="lda").fit(X, y).selection_.criterion == "press"
    assert KernelFisherClassifier(multiclass="ovr").fit(X, y).selection_.criterion == "press"
    assert KernelFisherClassifier().fit(X, y > 0).selection_.criterion == "press"
