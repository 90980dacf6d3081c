"""Sample weights are frequencies, class weights are costs: in fit, selection and calibration."""

import numpy as np
import oracles
import pytest
from oracles import gap
from sklearn.base import clone
from sklearn.model_selection import KFold, LeaveOneGroupOut, PredefinedSplit

from fisherkit import KernelFisherClassifier, KernelRidgeCV

N = 40
GAMMA = 0.5
PENALTIES = ["rkhs", "coefficients"]
BIASES = ["free", "penalized", "none"]


def data(n_classes=2, seed=1):
    """X, y, frequencies 0..3 and the rows of the equivalent unweighted table.

    Most frequencies are one, or rows would be predicted best by their twins and every optimum
    would lie at vanishing mu, which rounding resolves to fewer digits than these tests ask for.
    """
    X, y = oracles.noisy_classes(N, n_classes, d=3, seed=seed)
    w = np.random.default_rng(seed + 1).choice([0.0, 1.0, 2.0, 3.0], N, p=[0.1, 0.7, 0.15, 0.05])
    return X, y, w, np.repeat(np.arange(N), w.astype(int))


def costs(y, class_weight, w=None):
    """c per row; "balanced" is total weight / (classes * weight of the class)."""
    w = np.ones(len(y)) if w is None else w
    if class_weight == "balanced":
        count = np.bincount(y, weights=w)
        return (w.sum() / (len(count) * count))[y]
    return np.array([class_weight[k] for k in y])


def assert_same_classifier(weighted, repeated, X, rows):
    np.testing.assert_allclose(weighted.regularization_, repeated.regularization_, rtol=1e-7)
    if weighted.gamma_ is not None:
        np.testing.assert_allclose(weighted.gamma_, repeated.gamma_, rtol=1e-7)
    new = np.vstack([X, X + 0.5])
    decisions = weighted.decision_function(new), repeated.decision_function(new)
    np.testing.assert_allclose(*decisions, rtol=1e-7, atol=1e-7)
    chances = weighted.predict_proba(new), repeated.predict_proba(new)
    np.testing.assert_allclose(*chances, rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(weighted.predict(new), repeated.predict(new))
    np.testing.assert_allclose(
        weighted.transform(new), repeated.transform(new), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(
        weighted.loo_decision_[rows], repeated.loo_decision_, rtol=1e-7, atol=1e-7
    )


def mean_absolute(y, loo_decision, sample_weight):
    code = 2.0 * np.asarray(y) - 1 if set(np.unique(y)) <= {0, 1} else np.asarray(y)
    return np.average(np.abs(code - loo_decision), weights=sample_weight)


@pytest.mark.parametrize("criterion", ["press", "log_loss", "error", "smoothed_error"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_frequency_is_a_repeated_row_through_the_whole_selection(n_classes, penalty, criterion):
    X, y, w, rows = data(n_classes)
    model = KernelFisherClassifier(penalty=penalty, criterion=criterion)
    weighted = clone(model).fit(X, y, w)
    assert_same_classifier(weighted, clone(model).fit(X[rows], y[rows]), X, rows)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "laplacian"},
        {"kernel": "linear"},
        {"kernel": "polynomial", "degree": 2, "gamma": 0.3},
        {"gamma": "scale"},
        {"gamma": "median"},
        {"kernel": "laplacian", "gamma": "median"},
        {"bias": "penalized"},
        {"bias": "none", "penalty": "coefficients"},
        {"threshold": "balanced"},
        {"class_weight": "balanced"},
        {"class_weight": {0: 1.0, 1: 2.5}, "penalty": "coefficients"},
        {"class_weight": "balanced", "threshold": "balanced"},
        {"gamma": GAMMA, "criterion": mean_absolute},
        {"gamma": GAMMA, "regularization": 0.7},
        {"gamma": GAMMA, "regularization": 0.7, "penalty": "coefficients"},
    ],
    ids=str,
)
def test_a_frequency_is_a_repeated_row_for_every_option(options):
    X, y, w, rows = data()
    weighted = KernelFisherClassifier(**options).fit(X, y, w)
    repeated = KernelFisherClassifier(**options).fit(X[rows], y[rows])
    assert_same_classifier(weighted, repeated, X, rows)


@pytest.mark.parametrize("threshold", ["prior", "balanced"])
@pytest.mark.parametrize("multiclass", ["lda", "ovr"])
def test_a_frequency_is_a_repeated_row_for_three_classes(multiclass, threshold):
    X, y, w, rows = data(3)
    model = KernelFisherClassifier(multiclass=multiclass, threshold=threshold)
    weighted = clone(model).fit(X, y, w)
    assert_same_classifier(weighted, clone(model).fit(X[rows], y[rows]), X, rows)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_frequency_is_a_repeated_row_in_regression(outputs, penalty):
    X, y, w, rows = data()
    noise = np.random.default_rng(7).normal(scale=0.5, size=(N, 2))
    Y = (np.c_[np.sin(X[:, 0]) + y, X[:, 1]] + noise)[:, :outputs]
    Y = Y[:, 0] if outputs == 1 else Y
    model = KernelRidgeCV(penalty=penalty)
    weighted, repeated = clone(model).fit(X, Y, w), clone(model).fit(X[rows], Y[rows])
    np.testing.assert_allclose(weighted.regularization_, repeated.regularization_, rtol=1e-7)
    np.testing.assert_allclose(weighted.gamma_, repeated.gamma_, rtol=1e-7)
    assert gap(weighted.predict(X + 0.5), repeated.predict(X + 0.5)) < 1e-7
    assert gap(weighted.loo_prediction_[rows], repeated.loo_prediction_) < 1e-7


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("criterion", ["press", "log_loss"])
def test_folds_are_mapped_through_weights_and_drops(criterion, penalty):
    """A fold removes the whole weight of its rows, however many rows it stands for."""
    X, y, w, rows = data()
    folds = KFold(3, shuffle=True, random_state=0).split(X)
    splits = [(train, test) for train, test in folds]
    inflated = [
        (np.flatnonzero(np.isin(rows, train)), np.flatnonzero(np.isin(rows, test)))
        for train, test in splits
    ]
    options = dict(penalty=penalty, criterion=criterion)
    weighted = KernelFisherClassifier(cv=splits, **options).fit(X, y, w)
    repeated = KernelFisherClassifier(cv=inflated, **options).fit(X[rows], y[rows])
    assert_same_classifier(weighted, repeated, X, rows)


def test_groups_are_mapped_through_weights_and_drops():
    X, y, w, rows = data()
    groups = np.arange(N) % 5
    model = KernelFisherClassifier(cv=LeaveOneGroupOut())
    weighted = clone(model).fit(X, y, w, groups=groups)
    repeated = clone(model).fit(X[rows], y[rows], groups=groups[rows])
    assert_same_classifier(weighted, repeated, X, rows)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_row_of_zero_weight_is_absent(n_classes, penalty):
    X, y, _, _ = data(n_classes)
    w = np.ones(N)
    w[[3, 10, 11, 30]] = 0
    outlier = np.where(w[:, None] == 0, 1e6, X)
    model = KernelFisherClassifier(penalty=penalty)
    weighted = clone(model).fit(outlier, y, w)
    absent = clone(model).fit(X[w > 0], y[w > 0])
    np.testing.assert_allclose(weighted.regularization_, absent.regularization_, rtol=1e-9)
    np.testing.assert_allclose(weighted.gamma_, absent.gamma_, rtol=1e-9)
    assert gap(weighted.decision_function(X), absent.decision_function(X)) < 1e-8
    assert gap(weighted.loo_decision_[w > 0], absent.loo_decision_) < 1e-8
    assert np.all(w[weighted.basis_indices_] > 0)
    assert weighted.loo_decision_.shape[0] == N
    plain = weighted.decision_function(outlier)
    np.testing.assert_allclose(weighted.loo_decision_[w == 0], plain[w == 0], atol=1e-9)


def test_a_class_of_zero_weight_is_absent():
    """Three labels, one of them without weight: the rule in force is the binary one."""
    X, y, _, _ = data(3)
    w = (y != 2).astype(float)
    model = KernelFisherClassifier(gamma=GAMMA, regularization=1.0)
    try:
        model.fit(X, y, w)
    except ValueError as error:
        assert "class" in str(error)
    else:
        assert np.all(np.isfinite(model.predict_proba(X)))
        assert not np.any(np.isnan(model.loo_decision_))
        assert set(model.predict(X)) <= {0, 1}


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_fractional_weights_leave_out_a_unit_or_the_row(penalty, bias):
    X, y, _, _ = data()
    s, K = 2.0 * y - 1, oracles.gram(X, gamma=GAMMA)
    w = np.random.default_rng(5).choice([0.2, 0.5, 1.0, 1.5, 3.0], N)
    model = KernelFisherClassifier(gamma=GAMMA, penalty=penalty, bias=bias, regularization=0.4)
    model.fit(X, y, w)
    centre_weight = w if penalty == "coefficients" else None
    truth = oracles.ridge(K, s, 0.4, penalty=penalty, bias=bias, v=w, centre_weight=centre_weight)
    cross = oracles.gram(X + 0.2, X, gamma=GAMMA)
    assert gap(model.decision_function(X + 0.2), oracles.predict(cross, truth)) < 1e-8
    truth = oracles.leave_one_out(K, s, 0.4, w=w, penalty=penalty, bias=bias)
    assert gap(model.loo_decision_, truth) < 1e-8
    regression = KernelRidgeCV(gamma=GAMMA, penalty=penalty, bias=bias, regularization=0.4)
    assert gap(regression.fit(X, s, w).loo_prediction_, truth) < 1e-8


@pytest.mark.parametrize("penalty", PENALTIES)
def test_fractional_weights_of_a_tuned_model_leave_out_a_unit_or_the_row(penalty):
    """The decomposed path, where the test above takes one Cholesky."""
    X, y, _, _ = data()
    w = np.random.default_rng(5).choice([0.2, 0.5, 1.0, 1.5, 3.0], N)
    model = KernelFisherClassifier(gamma=GAMMA, penalty=penalty).fit(X, y, w)
    K = oracles.gram(X, gamma=GAMMA)
    truth = oracles.leave_one_out(K, 2.0 * y - 1, model.regularization_, w=w, penalty=penalty)
    assert gap(model.loo_decision_, truth) < 1e-8


@pytest.mark.parametrize("bias", BIASES)
def test_weighted_centres_leave_out_a_unit_or_the_row(bias):
    X, y, _, _ = data()
    s, K = 2.0 * y - 1, oracles.gram(X, gamma=GAMMA)
    w = np.random.default_rng(5).choice([0.5, 1.0, 2.0], N)
    centres = np.arange(1, N, 6)
    model = KernelFisherClassifier(gamma=GAMMA, bias=bias, regularization=0.4, basis=centres)
    model.fit(X, y, w)
    truth = oracles.leave_one_out(K, s, 0.4, w=w, bias=bias, centres=centres)
    assert gap(model.loo_decision_, truth) < 1e-8


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", [{0: 0.5, 1: 3.0}, "balanced"], ids=str)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_cost_goes_with_the_row(penalty, class_weight, weighted):
    """v = w c, and leave-one-out removes delta = c min(1, w)."""
    X, y, _, _ = data()
    s, K = 2.0 * y - 1, oracles.gram(X, gamma=GAMMA)
    w = np.random.default_rng(5).choice([0.5, 1.0, 2.0], N) if weighted else np.ones(N)
    c = costs(y, class_weight, w)
    model = KernelFisherClassifier(
        gamma=GAMMA, penalty=penalty, regularization=0.4, class_weight=class_weight
    ).fit(X, y, w if weighted else None)
    centre_weight = w if penalty == "coefficients" else None
    truth = oracles.ridge(K, s, 0.4, penalty=penalty, v=w * c, centre_weight=centre_weight)
    assert gap(model.decision_function(X), oracles.predict(K, truth)) < 1e-8
    truth = oracles.leave_one_out(K, s, 0.4, w=w, c=c, penalty=penalty)
    assert gap(model.loo_decision_, truth) < 1e-8


@pytest.mark.parametrize("class_weight", [None, {0: 0.5, 1: 3.0, 2: 1.0}], ids=str)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_weighted_lda_rule_equals_weighted_refits(penalty, class_weight):
    X, y, _, _ = data(3)
    w = np.random.default_rng(5).choice([0.5, 1.0, 2.0], N)
    c = np.ones(N) if class_weight is None else costs(y, class_weight)
    K = oracles.gram(X, gamma=GAMMA)
    Phi = oracles.features(K, penalty, centre_weight=w)
    model = KernelFisherClassifier(
        gamma=GAMMA,
        penalty=penalty,
        regularization=0.4,
        class_weight=class_weight,
        multiclass="lda",
    ).fit(X, y, w)
    truth = oracles.penalised_lda(Phi, y, 0.4, Phi, v=w * c)
    assert gap(*map(oracles.row_centred, (model.decision_function(X), truth))) < 1e-8
    truth = oracles.penalised_lda_loo(Phi, y, 0.4, w=w, c=c)
    assert gap(*map(oracles.row_centred, (model.loo_decision_, truth))) < 1e-8


def test_weighted_balanced_threshold_is_the_weighted_mean_label_of_the_fold():
    X, y, w, _ = data()
    w = w + 0.5
    s = 2.0 * y - 1
    f = KernelFisherClassifier(gamma=GAMMA, regularization=1.0).fit(X, y, w)
    z = clone(f).set_params(threshold="balanced").fit(X, y, w)
    mean = np.average(s, weights=w)
    np.testing.assert_allclose(z.decision_function(X), f.decision_function(X) - mean, atol=1e-10)
    fold = oracles.fold_means(s, w)
    np.testing.assert_allclose(z.loo_decision_, f.loo_decision_ - fold, atol=1e-10)


def test_weighted_calibration_minimises_the_weighted_loss():
    X, y, w, _ = data()
    w = w + 0.5
    s, K = 2.0 * y - 1, oracles.gram(X, gamma=GAMMA)
    model = KernelFisherClassifier(gamma=GAMMA, regularization=0.4).fit(X, y, w)
    slope = oracles.slope(oracles.leave_one_out(K, s, 0.4, w=w), y, w)
    z = model.decision_function(X)
    np.testing.assert_allclose(
        model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-slope * z)), rtol=1e-6
    )


@pytest.mark.parametrize("penalty", PENALTIES)
def test_selection_minimises_the_weighted_press(penalty):
    X, y, w, _ = data()
    w = w + 0.5
    s, K = 2.0 * y - 1, oracles.gram(X, gamma=0.2)
    model = KernelFisherClassifier(gamma=0.2, penalty=penalty).fit(X, y, w)

    def price(log_shift):
        mu = model.regularization_ * np.exp(log_shift)
        return oracles.press(s, oracles.leave_one_out(K, s, mu, w=w, penalty=penalty), w)

    left, middle, right = price(-1e-3), price(0.0), price(1e-3)
    # The vertex of the parabola through the three prices is the distance to the optimum.
    assert abs(0.5e-3 * (left - right) / (left - 2 * middle + right)) < 1e-4
    assert middle <= min(price(k * np.log(2)) for k in (-4, -2, 2, 4))


def test_scaling_all_costs_scales_mu_and_nothing_else():
    X, y, _, _ = data()
    plain = KernelFisherClassifier(gamma=GAMMA, regularization=0.4).fit(X, y)
    costly = KernelFisherClassifier(
        gamma=GAMMA, regularization=5 * 0.4, class_weight={0: 5.0, 1: 5.0}
    ).fit(X, y)
    assert gap(costly.decision_function(X), plain.decision_function(X)) < 1e-10
    assert gap(costly.loo_decision_, plain.loo_decision_) < 1e-10
    assert gap(costly.predict_proba(X), plain.predict_proba(X)) < 1e-8


def test_scaling_all_frequencies_scales_mu_but_leaves_out_less():
    X, y, _, _ = data()
    K = oracles.gram(X, gamma=GAMMA)
    plain = KernelFisherClassifier(gamma=GAMMA, regularization=0.4).fit(X, y)
    twice = KernelFisherClassifier(gamma=GAMMA, regularization=0.8).fit(X, y, np.full(N, 2.0))
    assert gap(twice.decision_function(X), plain.decision_function(X)) < 1e-10
    truth = oracles.leave_one_out(K, 2.0 * y - 1, 0.8, w=np.full(N, 2.0))
    assert gap(twice.loo_decision_, truth) < 1e-9
    assert gap(twice.loo_decision_, plain.loo_decision_) > 1e-2


def test_unit_weights_and_one_number_are_no_weights():
    X, y, _, _ = data()
    plain = KernelFisherClassifier().fit(X, y)
    for w in (np.ones(N), 1.0, np.ones(N, dtype=int)):
        same = KernelFisherClassifier().fit(X, y, w)
        assert gap(same.loo_decision_, plain.loo_decision_) < 1e-8


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_low_rank_path_sees_frequencies_too(penalty):
    """660 rows on the low-rank path against 600 rows, 60 of them of weight two, on the full one."""
    X, y = oracles.noisy_classes(600)
    w = np.where(np.arange(600) % 10 == 0, 2.0, 1.0)
    rows = np.repeat(np.arange(600), w.astype(int))
    options = dict(gamma=0.3, penalty=penalty, random_state=0)
    weighted = KernelFisherClassifier(basis="full", **options).fit(X, y, w)
    repeated = KernelFisherClassifier(**options).fit(X[rows], y[rows])
    assert repeated.selection_.method == "low-rank"
    np.testing.assert_allclose(repeated.regularization_, weighted.regularization_, rtol=1e-5)
    assert gap(repeated.loo_decision_, weighted.loo_decision_[rows]) < 1e-6


def test_the_low_rank_path_with_fractional_weights_agrees_with_the_full_one():
    X, y = oracles.noisy_classes(700)
    w = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], 700)
    quick = KernelFisherClassifier(gamma=0.3, random_state=0).fit(X, y, w)
    full = KernelFisherClassifier(gamma=0.3, basis="full").fit(X, y, w)
    np.testing.assert_allclose(quick.regularization_, full.regularization_, rtol=1e-5)
    assert gap(quick.loo_decision_[w > 0], full.loo_decision_[w > 0]) < 1e-6
    # Rows of no weight are new to the factorisation, whose error there is the root of its trace.
    assert gap(quick.loo_decision_[w == 0], full.loo_decision_[w == 0]) < 1e-3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_classes", [2, 3])
def test_frequencies_hold_through_the_low_rank_search(seed, n_classes):
    """Weights, repeated rows and shuffled rows tune to the same model to 1e-7."""
    X, y = oracles.noisy_classes(640, n_classes, seed=seed)
    rng = np.random.default_rng(seed)
    w = np.ones(640, dtype=int)
    w[rng.choice(640, 12, replace=False)] = [2] * 6 + [0] * 6
    rows = rng.permutation(np.repeat(np.arange(640), w))
    weighted = KernelFisherClassifier(random_state=0).fit(X, y, w)
    repeated = KernelFisherClassifier(random_state=0).fit(X[rows], y[rows])
    assert weighted.selection_.method == "low-rank"
    np.testing.assert_allclose(repeated.gamma_, weighted.gamma_, rtol=1e-12)
    np.testing.assert_allclose(repeated.regularization_, weighted.regularization_, rtol=1e-7)
    assert gap(repeated.decision_function(X), weighted.decision_function(X)) < 1e-7
    assert gap(repeated.predict_proba(X), weighted.predict_proba(X)) < 1e-7


def test_a_predefined_split_passes_through_rows_of_weight_zero():
    """Its folds name rows of the original data; the other splitters see the rows that count."""
    X, y = oracles.noisy_classes(60)
    folds, w = np.arange(60) % 4, np.ones(60)
    w[[0, 7, 21]] = 0
    given = KernelFisherClassifier(cv=PredefinedSplit(folds)).fit(X, y, w)
    plain = KernelFisherClassifier(cv=PredefinedSplit(folds[w > 0])).fit(X[w > 0], y[w > 0])
    assert given.gamma_ == plain.gamma_
    np.testing.assert_allclose(given.regularization_, plain.regularization_, rtol=1e-9)
