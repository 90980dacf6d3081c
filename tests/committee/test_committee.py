"""The committee against a plain one built on refits, and the conditions its parts must meet."""

from itertools import pairwise

import numpy as np
import oracles
import pytest
from scipy.special import expit, logsumexp, softmax
from sklearn.base import clone

from fisherkit import FisherCommitteeClassifier
from fisherkit.committee import fitting, pricing
from fisherkit.committee import widths as widths_module
from fisherkit.committee.stacking import stack
from fisherkit.core import decompose
from fisherkit.core.weights import Weights
from fisherkit.tuning import Likelihood, LocalParts, fit_scalar, meaningful

RELATIVE_MU = 2.0 ** np.arange(-14, 11)
CLASSES = pytest.mark.parametrize("n_classes", [2, 3])
COMBINE = pytest.mark.parametrize("combine", ["average", "stack", "best"])


def widths(X, kernel, n_widths, w=None):
    """The gammas of the spec: octaves about the spread of the features."""
    w = np.ones(len(X)) if w is None else w
    variance = np.average((X - np.average(X, axis=0, weights=w)) ** 2, axis=0, weights=w)
    octaves = 2.0 ** (np.arange(n_widths) - (n_widths - 1) / 2)[::-1]
    if kernel == "rbf":
        return 1 / (2 * variance.sum() * octaves**2)
    return 1 / (np.sqrt(variance).sum() * octaves)


def reference(model, X, y, new, **options):
    """The plain committee at the gammas of the model, which are those of the spec to 8 digits."""
    grams = []
    for kernel in model.kernels:
        own = model.members_[model.members_["kernel"] == kernel]
        gammas = own["gamma"][:: len(RELATIVE_MU)]
        expected = widths(X, kernel, model.n_widths, options.get("w"))
        np.testing.assert_allclose(gammas, expected, rtol=1e-7)
        grams.append(
            [
                (oracles.gram(X, kernel=kernel, gamma=g), oracles.gram(new, X, kernel, gamma=g))
                for g in gammas
            ]
        )
    return oracles.committee(grams, y, RELATIVE_MU, **options)


def offsets(members):
    if "offset" in members.dtype.names:
        return members["offset"]
    names = [name for name in members.dtype.names if name.startswith("offset_")]
    return np.stack([members[name] for name in names], axis=1)


def assert_equals_reference(model, truth, X, new):
    members = model.members_
    np.testing.assert_allclose(members["slope"], truth["slope"], rtol=1e-8)
    np.testing.assert_allclose(offsets(members), truth["offset"], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(members["loo_log_loss"], truth["loss"], rtol=1e-10)
    np.testing.assert_allclose(model.weights_, truth["weight"], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(model.decision_function(new), truth["new"], rtol=1e-8, atol=1e-8)
    link = (lambda g: np.c_[expit(-g), expit(g)]) if truth["new"].ndim == 1 else softmax_rows
    np.testing.assert_allclose(model.predict_proba(new), link(truth["new"]), atol=1e-8)
    np.testing.assert_allclose(model.loo_proba_, link(truth["left_out"]), atol=1e-8)


def softmax_rows(g):
    return softmax(g, axis=1)


def new_rows(X, n=15, seed=1):
    return np.random.default_rng(seed).normal(size=(n, X.shape[1]))


@COMBINE
@CLASSES
def test_the_committee_equals_one_built_on_refits(n_classes, combine):
    X, y = oracles.noisy_classes(30, n_classes, d=3)
    new = new_rows(X)
    model = FisherCommitteeClassifier(n_widths=3, combine=combine).fit(X, y)
    truth = reference(model, X, y, new, combine=combine)
    assert_equals_reference(model, truth, X, new)


@CLASSES
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_weights_and_costs_enter_as_in_refits(n_classes, penalty):
    X, y = oracles.noisy_classes(26, n_classes, d=3, seed=3)
    new = new_rows(X)
    w = np.random.default_rng(0).integers(1, 4, size=len(X)) * np.where(
        np.arange(len(X)) % 5, 1, 0.5
    )
    cost = {k: 1.0 + 0.7 * k for k in range(n_classes)}
    c = np.array([cost[k] for k in y])
    model = FisherCommitteeClassifier(n_widths=2, class_weight=cost, penalty=penalty)
    model.fit(X, y, sample_weight=w)
    truth = reference(model, X, y, new, w=w, c=c, penalty=penalty)
    assert_equals_reference(model, truth, X, new)


def test_the_matrix_form_is_that_of_the_average_and_two_classes_have_none():
    X, y = oracles.noisy_classes(60, 3, d=3)
    found = FisherCommitteeClassifier(n_widths=3).fit(X, y).calibration_
    assert found.matrix.shape == (3, 3) and found.ridge in oracles.RIDGES and found.rows == 60
    assert (found.slope, found.value) == (1.0, 1.0) and not np.any(found.offset)
    assert 0 < found.log_loss < 1.2 and 0 <= found.error < 0.6
    two = FisherCommitteeClassifier(n_widths=3).fit(X, y > 0).calibration_
    assert not hasattr(two, "matrix")


def test_the_class_shares_have_no_matrix_form():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 3
    model = FisherCommitteeClassifier(n_widths=2).fit(X, y)
    if model.status_.name == "CLASS_PRIOR":
        assert not hasattr(model.calibration_, "matrix")
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-12)


@COMBINE
@CLASSES
def test_a_weight_of_two_is_the_row_twice(n_classes, combine):
    X, y = oracles.noisy_classes(40, n_classes, d=3)
    w = np.random.default_rng(0).integers(0, 3, size=len(X))
    options = dict(combine=combine, class_weight="balanced")
    weighted = FisherCommitteeClassifier(**options).fit(X, y, sample_weight=w)
    repeated = FisherCommitteeClassifier(**options).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    new = new_rows(X)
    for name in ("weight", "slope", "loo_log_loss"):
        np.testing.assert_allclose(
            weighted.members_[name], repeated.members_[name], rtol=1e-7, atol=1e-9, err_msg=name
        )
    np.testing.assert_allclose(
        weighted.decision_function(new), repeated.decision_function(new), rtol=1e-7, atol=1e-7
    )
    np.testing.assert_allclose(
        np.repeat(weighted.loo_proba_, w, axis=0), repeated.loo_proba_, atol=1e-7
    )
    # A row of weight 0 is predicted, not left out.
    np.testing.assert_allclose(
        weighted.loo_proba_[w == 0], weighted.predict_proba(X[w == 0]), atol=1e-10
    )


# Calibration


def likelihood_of(y, w=None, n_classes=None):
    indicator = oracles.indicators(y)
    w = np.ones(len(y)) if w is None else w
    return Likelihood.of(indicator, Weights(w, np.ones(len(y))))


def cut(likelihood, sizes):
    """The likelihood in parts of these sizes, and a function that makes columns of arrays."""
    ends = np.cumsum([0, *sizes])
    slices = [slice(*pair) for pair in pairwise(ends)]
    return LocalParts([likelihood.rows(s) for s in slices]), lambda Z: [Z[s] for s in slices]


def calibrated(likelihood, Z):
    return fit_scalar(LocalParts([likelihood]), [meaningful(Z)], likelihood.prior)


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 1e3])
@CLASSES
def test_calibrations_of_many_members_equal_one_by_one(n_classes, scale):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(60) % n_classes)
    signal = 2.0 * y[:, None] - 1 if n_classes == 2 else oracles.indicators(y)
    strengths = np.array([-2.0, 0.0, 0.3, 1.0, 4.0, 30.0])
    Z = scale * (strengths * signal[:, :, None] + rng.normal(size=(60, signal.shape[1], 6)))
    w = rng.integers(1, 4, size=60).astype(float)
    found = calibrated(likelihood_of(y, w), Z)
    for j in range(len(strengths)):
        z = Z[:, 0, j] if n_classes == 2 else Z[:, :, j]
        a, b, loss = oracles.calibrate(z, oracles.smoothed_targets(y, w), w / w.sum())
        np.testing.assert_allclose(found.slope[j], a, rtol=1e-6)
        np.testing.assert_allclose(found.offset[:, j], b, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found.loss[j], loss, rtol=1e-11)
    # the labels reversed: no negative slope, and the bound is not silent
    relative = found.slope * np.sqrt((w / w.sum()) @ np.sum(Z**2, axis=1))
    assert relative[0] == pytest.approx(1e-3)
    assert found.bounded[0] and not found.bounded[2:].any()
    assert np.all((relative >= 1e-3 * (1 - 1e-12)) & (relative <= 1e9 * (1 + 1e-12)))


def test_two_classes_as_indicators_are_calibrated_as_one_score():
    """Scores (1 -+ f)/2 of the two indicators: the slope of f, half the offset on each side."""
    rng = np.random.default_rng(1)
    y = (rng.random(50) < 0.4).astype(int)
    z = 0.8 * (2 * y - 1)[:, None, None] + rng.normal(size=(50, 1, 4))
    binary = likelihood_of(y)
    both = Likelihood(
        np.concatenate([1 - binary.target, binary.target], axis=1), binary.share, binary.total
    )
    one = calibrated(binary, z)
    two = calibrated(both, np.concatenate([-z, z], axis=1) / 2)
    np.testing.assert_allclose(two.slope, one.slope, rtol=1e-9)
    np.testing.assert_allclose(two.offset[1] - two.offset[0], one.offset[0], rtol=1e-9)
    np.testing.assert_allclose(two.offset.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(two.loss, one.loss, rtol=1e-12)


@CLASSES
def test_scores_of_nothing_leave_the_class_shares(n_classes):
    y = np.repeat(np.arange(n_classes), np.arange(10, 10 + 5 * n_classes, 5))
    likelihood = likelihood_of(y)
    k = likelihood.target.shape[1]
    for Z in (
        np.zeros((len(y), k, 2)),
        1e-16 * np.ones((len(y), k, 2)),
        1e-200 * np.ones((len(y), k, 2)),
    ):
        found = calibrated(likelihood, Z)
        np.testing.assert_allclose(found.offset, likelihood.prior[:, None] * [1, 1], rtol=1e-12)
        assert np.all(np.isfinite(found.slope))
    shares = likelihood.share @ oracles.smoothed_targets(y)
    logits = np.append(0, likelihood.prior) if n_classes == 2 else likelihood.prior
    np.testing.assert_allclose(softmax(logits), shares, rtol=1e-12)


@CLASSES
def test_stacked_weights_meet_the_conditions_of_the_optimum(n_classes):
    rng = np.random.default_rng(2)
    y = rng.permutation(np.arange(80) % n_classes)
    signal = 2.0 * y[:, None] - 1 if n_classes == 2 else oracles.indicators(y)
    U = signal[:, :, None] * rng.normal(size=30) + rng.normal(size=(80, signal.shape[1], 30))
    omega = rng.dirichlet(np.ones(30))
    likelihood = likelihood_of(y)
    parts, column = cut(likelihood, [7, 30, 43])
    v, b0 = stack(parts, [column(U[:, :, :12]), column(U[:, :, 12:])], omega, U.shape[1])
    assert np.all(v >= 0)
    assert 0 < np.count_nonzero(v) < 30

    def objective(v, b):
        g = U @ v + b
        norm = np.logaddexp(0, g[:, 0]) if n_classes == 2 else logsumexp(g, axis=1)
        loss = likelihood.share @ (norm - np.sum(likelihood.target * g, axis=1))
        return loss + 0.05 * np.sum((v - omega) ** 2)

    h = 1e-6
    for j in range(30):
        e = h * (np.arange(30) == j)
        slope = (objective(v + e, b0) - objective(v - e, b0)) / (2 * h)
        assert abs(slope) < 1e-8 if v[j] > 0 else slope > -1e-8
    for c in range(len(b0)):
        e = h * (np.arange(len(b0)) == c)
        assert abs(objective(v, b0 + e) - objective(v, b0 - e)) / (2 * h) < 1e-8
    np.testing.assert_allclose(b0.sum() if n_classes > 2 else 0, 0, atol=1e-12)


def test_scores_at_the_level_of_rounding_are_not_calibrated():
    """A narrow kernel in 200 columns has scores of 1e-14; a slope that calibrates these would show
    the rounding of the intercept in every new row."""
    rng = np.random.default_rng([150, 7])
    X, y = rng.normal(size=(2150, 200)), rng.integers(0, 2, 2150)
    model = FisherCommitteeClassifier().fit(X[:150], y[:150])
    assert np.nanmax(model.members_["slope"][model.weights_ > 0], initial=0.0) < 1e11
    prior = np.log(y[:150].mean() / (1 - y[:150].mean()))
    assert np.abs(model.decision_function(X[150:]) - prior).max() < 0.5


@pytest.mark.parametrize("n_classes", [2, 3])
def test_members_priced_one_by_one_are_those_of_a_decomposition(monkeypatch, n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 8))
    y = np.digitize(
        X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=160), [0.5, 1.5][: n_classes - 1]
    )
    weights = rng.integers(1, 3, 160).astype(float)
    monkeypatch.setattr(fitting, "MANY", 100)
    monkeypatch.setattr(widths_module, "SOME", 80)
    model = FisherCommitteeClassifier(("laplacian", "rbf"), n_widths=5, combine="families")
    whole = clone(model).fit(X, y, sample_weight=weights)
    monkeypatch.setattr(decompose, "SMALL", 100)
    monkeypatch.setattr(pricing, "_FACTORED", 100)
    monkeypatch.setattr(pricing, "_LOW_RANK", 0.0)
    single = clone(model).fit(X, y, sample_weight=weights)

    def name(row):
        return row["kernel"], *np.round(np.log2([row["gamma"], row["mu"]]), 6)

    every = {name(row): row for row in whole.members_}
    assert 0 < len(single.members_) < len(whole.members_) / 3
    for row in single.members_:
        known = every[name(row)]
        assert row["loo_log_loss"] == pytest.approx(known["loo_log_loss"], abs=1e-7)
        assert row["slope"] == pytest.approx(known["slope"], rel=1e-5)
    best = single.members_["loo_log_loss"].min()
    assert best <= whole.members_["loo_log_loss"].min() + 2e-3
    gap = np.abs(single.predict_proba(X) - whole.predict_proba(X)).max()
    assert gap < 0.05
    monkeypatch.setattr(pricing, "_FACTORED", 200)  # there are more copies, and fewer rows
    whole = clone(model).fit(X, y, sample_weight=weights)
    copies = np.repeat(np.arange(160), weights.astype(int))
    several = clone(model).fit(X[copies], y[copies])
    np.testing.assert_allclose(whole.predict_proba(X), several.predict_proba(X), atol=1e-6)
    monkeypatch.setattr(pricing, "_FACTORED", 100)
    several = clone(model).fit(X[copies], y[copies])
    np.testing.assert_allclose(single.predict_proba(X), several.predict_proba(X), atol=1e-6)
