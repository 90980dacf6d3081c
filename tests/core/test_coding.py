"""The affine decision rules against the formulas of penalised LDA written with D and Q."""

import numpy as np
import oracles
import pytest
from oracles import gap, row_centred
from scipy.special import softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from fisherkit.core import coding
from fisherkit.core.coding import Rule, discriminant_axes
from fisherkit.core.labels import decode, encode, targets, winners

MU = 0.3


class LinearModel:
    """Ridge regression on indicators with explicit features, everything by dense algebra."""

    def __init__(self, n=40, n_classes=4, d=5, seed=0, mu=MU):
        rng = np.random.default_rng(seed)
        self.y = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)])
        self.Phi = rng.normal(size=(n, d)) + rng.normal(size=(n_classes, d))[self.y]
        self.mu = mu
        self.Y = oracles.indicators(self.y)
        self.counts = self.Y.sum(axis=0)
        self.shares = self.counts / n
        centred = self.Phi - self.Phi.mean(axis=0)
        total = centred.T @ centred + mu * np.eye(d)
        self.beta = np.linalg.solve(total, centred.T @ self.Y)
        self.F = self.shares + centred @ self.beta
        self.scatter = self.Y.T @ (self.Y - self.F)  # E = Y'(I - H)Y


def lda_by_formula(F, counts, YtF, *, priors=True):
    """delta(x) of the LDA rule with D, Q and (D - Q)^-1 as printed."""
    total = counts.sum()
    D = np.diag(counts)
    Q = YtF - np.outer(counts, counts) / total
    inverse = np.linalg.inv(D - Q)
    delta = (F - counts / total) @ inverse - 0.5 * np.diag(np.linalg.inv(D) @ Q @ inverse)
    return total * delta + (np.log(counts / total) if priors else 0.0)


@pytest.mark.parametrize("mu", [1e-6, 0.3, 1e3])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("balanced", [False, True])
def test_the_lda_rule_is_the_formula_with_D_and_Q(balanced, n_classes, mu):
    model = LinearModel(n_classes=n_classes, mu=mu)
    decisions = Rule("lda", balanced).decide(model.F, model.counts, model.scatter)
    truth = lda_by_formula(model.F, model.counts, model.Y.T @ model.F, priors=not balanced)
    assert gap(row_centred(decisions), row_centred(truth)) < 1e-9


def test_the_lda_rule_is_penalised_lda_of_the_features():
    model = LinearModel()
    decisions = Rule("lda", False).decide(model.F, model.counts, model.scatter)
    truth = oracles.penalised_lda(model.Phi, model.y, model.mu, model.Phi)
    assert gap(row_centred(decisions), row_centred(truth)) < 1e-11


def test_the_lda_rule_survives_a_scatter_that_vanishes():
    model = LinearModel(n=8, n_classes=3, d=20, mu=1e-12)  # the features interpolate the labels
    decisions = Rule("lda", False).decide(model.F, model.counts, model.scatter)
    np.testing.assert_array_equal(np.argmax(decisions, axis=1), model.y)


@pytest.mark.parametrize("balanced", [False, True])
def test_the_offset_of_two_classes_is_the_threshold(balanced):
    counts = np.array([3.0, 5.0])
    matrix, offset = Rule("binary", balanced).affine(counts, None)
    assert matrix is None
    np.testing.assert_allclose(offset, [-0.25 if balanced else 0.0])


@pytest.mark.parametrize("balanced", [False, True])
def test_the_offset_of_one_versus_rest_is_the_class_shares(balanced):
    counts = np.array([1.0, 3.0, 4.0])
    matrix, offset = Rule("ovr", balanced).affine(counts, None)
    assert matrix is None
    np.testing.assert_allclose(offset, -counts / 8 if balanced else np.zeros(3))


@pytest.mark.parametrize("kind", ["binary", "ovr", "lda"])
@pytest.mark.parametrize("balanced", [False, True])
def test_a_stack_of_models_decides_row_by_row(kind, balanced):
    n_classes = 2 if kind == "binary" else 4
    models = [LinearModel(seed=seed, n_classes=n_classes) for seed in range(5)]
    scores = np.array([model.F[7] for model in models])
    scores = 2 * scores[:, 1:] - 1 if kind == "binary" else scores
    rule = Rule(kind, balanced)
    stacked = rule.decide(
        scores, np.array([m.counts for m in models]), np.array([m.scatter for m in models])
    )
    for row, model, decision in zip(scores, models, stacked, strict=True):
        single = rule.decide(row[None, :], model.counts, model.scatter)[0]
        np.testing.assert_allclose(decision, single, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("absent", [0, 2, 3])
@pytest.mark.parametrize("balanced", [False, True])
def test_an_absent_class_leaves_the_rule_of_the_others_alone_and_ranks_last(absent, balanced):
    model = LinearModel(n_classes=3)
    present = np.delete(np.arange(4), absent)
    scores, counts, scatter = np.zeros((40, 4)), np.zeros(4), np.zeros((4, 4))
    scores[:, present] = model.F
    counts[present] = model.counts
    scatter[np.ix_(present, present)] = model.scatter
    rule = Rule("lda", balanced)
    decisions = rule.decide(scores, np.tile(counts, (40, 1)), np.tile(scatter, (40, 1, 1)))
    truth = rule.decide(model.F, model.counts, model.scatter)
    np.testing.assert_allclose(decisions[:, present], truth, rtol=1e-10, atol=1e-10)
    behind = truth.min(axis=1) - decisions[:, absent]
    np.testing.assert_allclose(behind, np.log(41.0), rtol=1e-10)


# --- discriminant coordinates ---------------------------------------------------------------------


def coordinates(model):
    return (model.F - model.shares) @ discriminant_axes(model.counts, model.scatter)


def class_means(model, z):
    return (model.Y.T @ z) / model.counts[:, None]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_discriminant_axes_have_unit_regularised_within_class_variance(n_classes):
    model = LinearModel(n_classes=n_classes)
    W = model.beta @ discriminant_axes(model.counts, model.scatter)  # axes in feature space
    within = model.mu * np.eye(model.Phi.shape[1])
    for k in range(n_classes):
        deviation = model.Phi[model.y == k] - model.Phi[model.y == k].mean(axis=0)
        within += deviation.T @ deviation
    assert W.shape == (5, n_classes - 1)
    np.testing.assert_allclose(W.T @ within @ W / 40, np.eye(n_classes - 1), atol=1e-11)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_lda_decisions_are_distances_to_class_means_in_discriminant_coordinates(n_classes):
    model = LinearModel(n_classes=n_classes)
    z = coordinates(model)
    means = class_means(model, z)
    by_distance = z @ means.T - 0.5 * np.sum(means**2, axis=1) + np.log(model.shares)
    decisions = Rule("lda", False).decide(model.F, model.counts, model.scatter)
    assert gap(row_centred(by_distance), row_centred(decisions)) < 1e-11


@pytest.mark.parametrize("seed", range(6))
def test_the_class_farthest_out_on_an_axis_is_on_its_positive_side(seed):
    model = LinearModel(seed=seed)
    means = class_means(model, coordinates(model))
    assert np.all(means[np.argmax(np.abs(means), axis=0), np.arange(3)] > 0)


def test_axes_are_ordered_by_canonical_correlation():
    model = LinearModel()
    z = coordinates(model)
    # The share of an axis' regularised total variance that lies between classes.
    between = np.sum(model.counts[:, None] * class_means(model, z) ** 2, axis=0) / 40
    correlation = between / (1 + between)
    root = np.sqrt(model.counts)
    Q = model.Y.T @ model.F - np.outer(model.counts, model.counts) / 40
    truth = np.sort(np.linalg.eigvalsh(Q / np.outer(root, root)))[::-1][:3]
    np.testing.assert_allclose(correlation, truth, rtol=1e-10)


def test_axes_of_a_model_that_sees_nothing_are_finite():
    model = LinearModel(mu=1e18)
    assert np.all(np.isfinite(discriminant_axes(model.counts, model.scatter)))


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [["b", "a", "c", "a"], [3, -1, 7, -1], [True, False, True]])
def test_labels_survive_a_round_trip(labels):
    y, reference = np.array(labels), np.zeros((1, 1))
    classes, index = encode(y, reference)
    np.testing.assert_array_equal(classes, np.unique(y))
    np.testing.assert_array_equal(decode(classes, index), y)


def test_two_classes_are_signs_and_more_are_indicators():
    reference = np.zeros((1, 1))
    np.testing.assert_array_equal(
        targets(np.array([0, 1, 1]), 2, reference), [[-1.0], [1.0], [1.0]]
    )
    np.testing.assert_array_equal(targets(np.array([2, 0, 1]), 3, reference), np.eye(3)[[2, 0, 1]])


def test_winners_follow_the_sign_or_the_largest_decision():
    np.testing.assert_array_equal(winners(np.array([[-0.1], [0.0], [2.0]])), [0, 0, 1])
    np.testing.assert_array_equal(winners(np.array([[1.0, 3.0, 2.0], [5.0, 1, 2]])), [1, 0])


# --- scores of the sparse classifiers -------------------------------------------------------------


@pytest.mark.parametrize("counts", [[3, 5], [1, 1], [4, 1, 7], [10, 20, 30, 1, 2], [1e-4, 1e3, 1]])
def test_optimal_scores_have_mean_zero_and_unit_covariance_over_the_rows(counts):
    counts = np.array(counts, dtype=float)
    scores = coding.optimal_scores(counts)
    share = counts / counts.sum()
    assert scores.shape == (len(counts), len(counts) - 1)
    np.testing.assert_allclose(np.sqrt(share) @ (np.sqrt(share)[:, None] * scores), 0, atol=1e-14)
    covariance = scores.T @ (share[:, None] * scores)
    np.testing.assert_allclose(covariance, np.eye(len(counts) - 1), atol=1e-13)


@pytest.mark.parametrize("counts", [[3, 5], [500, 1]])
def test_optimal_scores_of_two_classes_are_the_standardised_signs(counts):
    counts = np.array(counts, dtype=float)
    share = counts / counts.sum()
    truth = (np.array([-1.0, 1.0]) - (share[1] - share[0])) / (2 * np.sqrt(share[0] * share[1]))
    np.testing.assert_allclose(coding.optimal_scores(counts)[:, 0], truth, rtol=1e-13)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_the_last_class_is_on_the_positive_side_of_every_optimal_score(n_classes):
    assert np.all(coding.optimal_scores(np.arange(1.0, n_classes + 1))[-1] > 0)


def scores_of(n, n_classes, k, seed=0):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)])
    F = rng.normal(size=(n, k)) @ rng.normal(size=(k, k)) + rng.normal(size=(n_classes, k))[y]
    return F, y


def decisions_of(F, y, frequency=None, log_prior=None):
    indicator = oracles.indicators(y)
    frequency = np.ones(len(y)) if frequency is None else frequency
    if log_prior is None:
        log_prior = np.log(indicator.T @ frequency / frequency.sum())
    matrix, offset = coding.lda_of_scores(F, indicator, frequency, log_prior)
    return F @ matrix + offset


@pytest.mark.parametrize(("n_classes", "k"), [(2, 1), (3, 2), (4, 3), (3, 5)])
@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_lda_of_scores_is_that_of_scikit_learn(n_classes, k, shift):
    F, y = scores_of(60, n_classes, k)
    F = F + shift
    truth = LinearDiscriminantAnalysis(solver="lsqr").fit(F, y)
    np.testing.assert_allclose(softmax(decisions_of(F, y), axis=1), truth.predict_proba(F), 1e-7)


def test_lda_of_scores_takes_the_priors_given():
    F, y = scores_of(60, 3, 2)
    log_prior = np.log([0.1, 0.7, 0.2])
    difference = decisions_of(F, y, log_prior=log_prior) - decisions_of(F, y, log_prior=np.zeros(3))
    np.testing.assert_allclose(difference, np.tile(log_prior, (60, 1)))


def test_lda_of_scores_counts_a_weight_as_copies():
    F, y = scores_of(40, 3, 2)
    copies = np.random.default_rng(1).integers(1, 4, size=40)
    repeated = decisions_of(np.repeat(F, copies, axis=0), np.repeat(y, copies))
    weighted = decisions_of(F, y, copies.astype(float))
    np.testing.assert_allclose(np.repeat(weighted, copies, axis=0), repeated, rtol=1e-10)


@pytest.mark.parametrize("constant", [0.0, 0.1, -3e-5, 1e12])
def test_lda_of_constant_scores_decides_by_the_priors_alone(constant):
    y = np.array([0, 0, 1, 2, 2, 2, 2])
    F = np.full((7, 2), constant)
    decisions = decisions_of(F, y, np.linspace(0.1, 0.7, 7))
    np.testing.assert_allclose(decisions, np.tile(np.log([0.3, 0.3, 2.2]) - np.log(2.8), (7, 1)))


def test_lda_of_scores_without_spread_within_classes_tells_the_classes_apart():
    y = np.repeat([0, 1, 2], 4)
    F = np.array([[0.0, 1.0], [2.0, -1.0], [-1.0, -1.0]])[y]
    decisions = decisions_of(F, y)
    np.testing.assert_array_equal(np.argmax(decisions, axis=1), y)
    assert np.abs(decisions).max() < 1e7


def test_residuals_that_rounding_hides_leave_no_lda_rule_and_say_so():
    with pytest.raises(ValueError, match="penalised-LDA rule has no answer"):
        Rule("lda", False).affine(np.full(3, 4.0), np.zeros((3, 3)))
