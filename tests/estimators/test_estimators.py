"""The public estimators against brute force, scikit-learn, and their own promises.

Numbers in brackets of a docstring are the equations and sections of Saadi, Talbot and Cawley,
"Optimally Regularised Kernel Fisher Discriminant Classification".
"""

import logging
import pickle

import numpy as np
import oracles
import pandas as pd
import pytest
import scipy.linalg
from oracles import gap
from scipy.optimize import minimize_scalar
from sklearn import config_context
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneGroupOut
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.tuning.select import AT_BOUNDS

PENALTIES = ["rkhs", "coefficients"]
BIASES = ["free", "penalized", "none"]
CHOSEN_BASES = ["random", "pivoted"]
RELATIVE_MU = [1e-6, 1e-3, 1.0, 1e3, 1e6]
GAMMA = 0.5


@parametrize_with_checks(
    [
        KernelFisherClassifier(),
        KernelFisherClassifier(penalty="coefficients"),
        KernelFisherClassifier(kernel="laplacian", criterion="log_loss"),
        KernelFisherClassifier(basis="random", n_components=3, random_state=0),
        KernelFisherClassifier(bias="penalized"),
        KernelFisherClassifier(multiclass="lda"),
        KernelFisherClassifier(multiclass="ovr", class_weight="balanced"),
        KernelFisherClassifier(regularization=1.0, gamma=0.1, multiclass="ovr"),
        KernelFisherClassifier(cv=3, gamma="scale", bias="penalized", multiclass="ovr"),
        KernelRidgeCV(),
        KernelRidgeCV(kernel="laplacian", penalty="coefficients", gamma="median"),
        KernelRidgeCV(regularization=1.0, gamma=0.1, bias="none"),
        KernelRidgeCV(cv=3, gamma="scale"),
    ]
)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


def binary(n=50, d=4, seed=0):
    """X, labels, +-1 codes and Gram matrix of an overlapping problem."""
    X, y = oracles.noisy_classes(n, 2, d, seed)
    return X, y, 2.0 * y - 1, oracles.gram(X, gamma=GAMMA)


def multiclass(n=50, d=4, seed=0):
    X, y = oracles.noisy_classes(n, 3, d, seed)
    return X, y, oracles.indicators(y), oracles.gram(X, gamma=GAMMA)


def two_outputs(n=50, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.c_[np.sin(2 * X[:, 0]), X[:, 1] ** 2] + 0.3 * rng.normal(size=(n, 2))
    return X, Y, oracles.gram(X, gamma=GAMMA)


def slope_of(model, X):
    """The calibration slope, read off the probabilities where they are not saturated."""
    p, z = model.predict_proba(X), model.decision_function(X)
    if z.ndim == 1:
        log_odds = np.log(p[:, 1] / p[:, 0])
    else:
        log_odds, z = np.log(p[:, 1] / p[:, 0]), z[:, 1] - z[:, 0]
    clear = (np.abs(z) > 1e-3) & (np.abs(log_odds) < 20)
    slopes = log_odds[clear] / z[clear]
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-8)
    return slopes[0]


# Leave-one-out and the fit itself, against refits


@pytest.mark.parametrize("relative_mu", RELATIVE_MU)
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_binary_fit_and_leave_one_out_equal_refits(penalty, bias, relative_mu):
    X, y, s, K = binary()
    mu = relative_mu * oracles.unit(K, penalty)
    model = KernelFisherClassifier(gamma=GAMMA, penalty=penalty, bias=bias, regularization=mu)
    model.fit(X, y)
    coef, b = oracles.ridge(K, s, mu, penalty=penalty, bias=bias)
    order = model.basis_indices_
    assert sorted(order) == list(range(len(X)))
    assert gap(model.dual_coef_, coef[order]) < 1e-8
    np.testing.assert_allclose(model.intercept_, b, rtol=1e-8, atol=1e-8)
    truth = oracles.leave_one_out(K, s, mu, penalty=penalty, bias=bias)
    assert gap(model.loo_decision_, truth) < 1e-8
    assert model.regularization_ == mu
    assert model.gamma_ == GAMMA


@pytest.mark.parametrize("relative_mu", RELATIVE_MU)
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_multi_output_regression_and_leave_one_out_equal_refits(penalty, bias, relative_mu):
    X, Y, K = two_outputs()
    mu = relative_mu * oracles.unit(K, penalty)
    model = KernelRidgeCV(gamma=GAMMA, penalty=penalty, bias=bias, regularization=mu).fit(X, Y)
    coef, b = oracles.ridge(K, Y, mu, penalty=penalty, bias=bias)
    assert gap(model.dual_coef_, coef[model.basis_indices_].T) < 1e-8
    np.testing.assert_allclose(model.intercept_, b, rtol=1e-8, atol=1e-8)
    truth = oracles.leave_one_out(K, Y, mu, penalty=penalty, bias=bias)
    assert gap(model.loo_prediction_, truth) < 1e-8


@pytest.mark.parametrize("relative_mu", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_one_versus_rest_leave_one_out_equals_refits(penalty, bias, relative_mu):
    X, y, Y, K = multiclass()
    mu = relative_mu * oracles.unit(K, penalty)
    model = KernelFisherClassifier(
        gamma=GAMMA, penalty=penalty, bias=bias, regularization=mu, multiclass="ovr"
    ).fit(X, y)
    model_truth = oracles.ridge(K, Y, mu, penalty=penalty, bias=bias)
    assert gap(model.decision_function(X), oracles.predict(K, model_truth)) < 1e-8
    truth = oracles.leave_one_out(K, Y, mu, penalty=penalty, bias=bias)
    assert gap(model.loo_decision_, truth) < 1e-8


@pytest.mark.parametrize("priors", [True, False])
@pytest.mark.parametrize("relative_mu", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_lda_rule_and_its_leave_one_out_equal_penalised_lda_refits(penalty, relative_mu, priors):
    X, y, _, K = multiclass()
    mu = relative_mu * oracles.unit(K, penalty)
    threshold = "prior" if priors else "balanced"
    model = KernelFisherClassifier(
        gamma=GAMMA, penalty=penalty, regularization=mu, threshold=threshold, multiclass="lda"
    ).fit(X, y)
    Phi = oracles.features(K, penalty)
    truth = oracles.penalised_lda(Phi, y, mu, Phi, priors=priors)
    assert gap(*map(oracles.row_centred, (model.decision_function(X), truth))) < 1e-8
    truth = oracles.penalised_lda_loo(Phi, y, mu, priors=priors)
    assert gap(*map(oracles.row_centred, (model.loo_decision_, truth))) < 1e-8


def test_lda_rule_of_a_linear_kernel_is_penalised_lda_of_the_features():
    X, y, _, _ = multiclass()
    model = KernelFisherClassifier("linear", regularization=3.0, multiclass="lda").fit(X, y)
    new = X + 0.3
    truth = oracles.penalised_lda(X, y, 3.0, new)
    assert gap(*map(oracles.row_centred, (model.decision_function(new), truth))) < 1e-9
    truth = oracles.penalised_lda_loo(X, y, 3.0)
    assert gap(*map(oracles.row_centred, (model.loo_decision_, truth))) < 1e-9


@pytest.mark.parametrize("relative_mu", [1e-6, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_thin_model_on_given_centres_equals_refits_with_centres_fixed(penalty, bias, relative_mu):
    X, y, s, K = binary()
    centres = np.array([31, 2, 17, 40, 8, 25, 11, 49])
    mu = relative_mu * oracles.unit(K, penalty, centres)
    options = dict(gamma=GAMMA, penalty=penalty, bias=bias, regularization=mu, basis=centres)
    model = KernelFisherClassifier(**options).fit(X, y)
    order = np.argsort(centres)[np.argsort(np.argsort(model.basis_indices_))]
    np.testing.assert_array_equal(model.basis_indices_, centres[order])
    refit = dict(penalty=penalty, bias=bias, centres=centres)
    coef, b = oracles.ridge(K, s, mu, **refit)
    assert gap(model.dual_coef_, coef[order]) < 1e-8
    np.testing.assert_allclose(model.intercept_, b, rtol=1e-8, atol=1e-8)
    truth = oracles.leave_one_out(K, s, mu, **refit)
    assert gap(model.loo_decision_, truth) < 1e-8
    regression = KernelRidgeCV(**options).fit(X, s)
    assert gap(regression.loo_prediction_, truth) < 1e-8


@pytest.mark.parametrize("penalty", PENALTIES)
def test_lda_rule_on_given_centres_equals_refits_with_centres_fixed(penalty):
    X, y, _, K = multiclass()
    centres = np.arange(0, 50, 6)
    model = KernelFisherClassifier(
        gamma=GAMMA, penalty=penalty, regularization=0.2, basis=centres, multiclass="lda"
    ).fit(X, y)
    truth = oracles.penalised_lda_loo(oracles.features(K, penalty, centres), y, 0.2)
    assert gap(*map(oracles.row_centred, (model.loo_decision_, truth))) < 1e-8


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial", "linear"])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_tuned_model_reports_the_leave_one_out_of_its_own_mu(kernel, penalty):
    X, y, s, _ = binary()
    model = KernelFisherClassifier(kernel, gamma=0.3, penalty=penalty, degree=2).fit(X, y)
    K = oracles.gram(X, kernel=kernel, gamma=0.3, degree=2)
    truth = oracles.leave_one_out(K, s, model.regularization_, penalty=penalty)
    assert gap(model.loo_decision_, truth) < 1e-8


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("precomputed", [True, False])
def test_leave_one_out_keeps_ten_digits_at_mu_1e_14(penalty, bias, precomputed):
    rng = np.random.default_rng(3)
    X, s = rng.normal(size=(14, 6)), np.where(np.arange(14) % 3 == 0, 1.0, -1.0)
    K = oracles.gram(X, kernel="laplacian", gamma=0.4)
    assert np.linalg.cond(K) < 50
    truth = oracles.leave_one_out_extended(K, s, 1e-14, penalty=penalty, bias=bias)
    kernel = "precomputed" if precomputed else "laplacian"
    model = KernelFisherClassifier(
        kernel, gamma=0.4, penalty=penalty, bias=bias, regularization=1e-14
    ).fit(K if precomputed else X, s)
    np.testing.assert_allclose(model.loo_decision_, truth, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_mu_1e_14_keeps_ten_digits_on_the_decomposed_path(penalty):
    rng = np.random.default_rng(4)
    X, s = rng.normal(size=(14, 6)), np.where(np.arange(14) % 3 == 0, 1.0, -1.0)
    model = KernelFisherClassifier(
        "laplacian", gamma="median", penalty=penalty, regularization=1e-14
    ).fit(X, s)
    K = oracles.gram(X, kernel="laplacian", gamma=model.gamma_)
    truth = oracles.leave_one_out_extended(K, s, 1e-14, penalty=penalty)
    np.testing.assert_allclose(model.loo_decision_, truth, rtol=1e-10, atol=1e-10)


# Relatives: kernel ridge, equation (4), the Fisher direction


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [60, 700])
def test_no_bias_and_numbers_equal_kernel_ridge(n, weighted):
    X, Y, _ = two_outputs(n)
    w = np.random.default_rng(1).uniform(0.5, 2, n) if weighted else None
    ours = KernelRidgeCV(gamma=0.3, bias="none", regularization=0.07).fit(X, Y, w)
    theirs = KernelRidge(kernel="rbf", gamma=0.3, alpha=0.07).fit(X, Y, w)
    new = X + 0.1
    np.testing.assert_allclose(ours.predict(new), theirs.predict(new), rtol=1e-10, atol=1e-10)
    coef = theirs.dual_coef_[ours.basis_indices_].T
    np.testing.assert_allclose(ours.dual_coef_, coef, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "params"),
    [
        ("cosine", {}),
        ("polynomial", {"gamma": 0.2, "degree": 2, "coef0": 0.5}),
        ("poly", {"gamma": 0.2, "degree": 2, "coef0": 0.5}),
        ("linear", {}),
        ("laplacian", {"gamma": 0.2}),
    ],
)
def test_kernel_names_mean_what_they_mean_in_kernel_ridge(kernel, params):
    X, Y, _ = two_outputs()
    ours = KernelRidgeCV(kernel, bias="none", regularization=2.0, **params).fit(X, Y)
    theirs = KernelRidge(kernel=kernel, alpha=2.0, **params).fit(X, Y)
    np.testing.assert_allclose(ours.predict(X + 1), theirs.predict(X + 1), rtol=1e-9, atol=1e-9)


def scaled_rbf(x, z, scale):
    return float(np.exp(-scale * np.sum((x - z) ** 2)))


def test_a_callable_kernel_and_a_precomputed_one_equal_the_named_one():
    X, y, _, K = binary()
    named = KernelFisherClassifier(gamma=GAMMA).fit(X, y)
    called = KernelFisherClassifier(scaled_rbf, kernel_params={"scale": GAMMA}).fit(X, y)
    given = KernelFisherClassifier("precomputed").fit(K, y)
    truth = named.decision_function(X + 0.2)
    cross = oracles.gram(X + 0.2, X, gamma=GAMMA)
    assert gap(called.decision_function(X + 0.2), truth) < 1e-7
    assert gap(given.decision_function(cross), truth) < 1e-7
    assert given.n_features_in_ == len(X)
    assert given.gamma_ is None
    assert given.__sklearn_tags__().input_tags.pairwise


def test_coefficients_penalty_solves_equation_4():
    """[(4)] with targets l/l1 and -l/l2, whose threshold 0 is the balanced threshold here."""
    X, y, _, K = binary(40)
    mu, n = 0.1, len(X)
    model = KernelFisherClassifier(
        gamma=GAMMA, penalty="coefficients", regularization=mu, threshold="balanced"
    ).fit(X, y)
    n1, n2 = np.sum(y == 1), np.sum(y == 0)
    targets = np.where(y == 1, n / n1, -n / n2)
    scale = n**2 / (2 * n1 * n2)
    alpha = np.empty(n)
    alpha[model.basis_indices_] = scale * model.dual_coef_
    b = np.mean(scale * model.decision_function(X) - K @ alpha)
    ones = np.ones((n, 1))
    system = np.block([[K.T @ K + mu * np.eye(n), K.T @ ones], [ones.T @ K, np.array([[n]])]])
    rhs = np.r_[K.T @ targets, targets.sum()]
    residual = system @ np.r_[alpha, b] - rhs
    assert np.max(np.abs(residual)) < 1e-10 * np.max(np.abs(rhs))
    # The residual is blind where the system is nearly singular: compare with a QR solution too.
    stacked = np.block([[K, ones], [np.sqrt(mu) * np.eye(n), 0 * ones]])
    truth = np.linalg.lstsq(stacked, np.r_[targets, np.zeros(n)])[0]
    assert gap(np.r_[alpha, b], truth) < 1e-8


def test_coefficients_direction_is_the_leading_eigenvector_of_fisher():
    """[Section 2] alpha is the leading eigenvector of N_mu^-1 M."""
    X, y, _, K = binary(40)
    mu = 0.05
    model = KernelFisherClassifier(gamma=GAMMA, penalty="coefficients", regularization=mu)
    model.fit(X, y)
    m1, m2 = K[:, y == 1].mean(axis=1), K[:, y == 0].mean(axis=1)
    N = mu * np.eye(len(K))
    for label in (0, 1):
        block = K[:, y == label]
        block = block - block.mean(axis=1, keepdims=True)
        N += block @ block.T
    leading = scipy.linalg.eigh(np.outer(m1 - m2, m1 - m2), N)[1][:, -1]
    alpha = np.empty(len(K))
    alpha[model.basis_indices_] = model.dual_coef_
    leading *= np.sign(leading @ alpha) / np.linalg.norm(leading)
    np.testing.assert_allclose(alpha / np.linalg.norm(alpha), leading, atol=1e-8)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_all_rows_as_centres_equal_the_full_model(penalty):
    X, y, _, _ = binary(40)
    options = dict(gamma=GAMMA, penalty=penalty, regularization=0.3)
    full = KernelFisherClassifier(**options).fit(X, y)
    everything = KernelFisherClassifier(basis=np.arange(40), **options).fit(X, y)
    assert gap(everything.decision_function(X + 0.1), full.decision_function(X + 0.1)) < 1e-8
    assert gap(everything.loo_decision_, full.loo_decision_) < 1e-8


def test_scale_rule_is_the_one_of_scikit_learn():
    X, y, _, _ = binary()
    model = KernelFisherClassifier(gamma="scale", regularization=1.0).fit(X, y)
    np.testing.assert_allclose(model.gamma_, 1 / (X.shape[1] * X.var()), rtol=1e-12)


# scikit-learn manners


def test_grid_search_pipeline_clone_and_pickle_work_together():
    X, y, _, _ = binary(60)
    labels = np.array(["healthy", "ill"])[y]
    search = GridSearchCV(
        Pipeline([("scale", StandardScaler()), ("kfd", KernelFisherClassifier(gamma="scale"))]),
        {"kfd__penalty": PENALTIES, "kfd__threshold": ["prior", "balanced"]},
        cv=3,
    ).fit(X, labels)
    assert search.score(X, labels) > 0.7
    best = clone(search.best_estimator_).fit(X, labels)
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(again.predict_proba(X), best.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    assert set(again.predict(X)) == {"healthy", "ill"}
    assert again[-1].selection_.status is best[-1].selection_.status


def test_pandas_column_names_are_kept_and_checked():
    X, y, _, _ = binary()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = KernelFisherClassifier(gamma=GAMMA).fit(frame, pd.Series(y, name="label"))
    assert list(model.feature_names_in_) == list("abcd")
    truth = KernelFisherClassifier(gamma=GAMMA).fit(X, y).decision_function(X)
    np.testing.assert_allclose(model.decision_function(frame), truth, rtol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.fit(frame, y).predict(frame[list("dcba")])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_transform_names_its_columns_and_speaks_pandas(n_classes):
    X, y = oracles.noisy_classes(50, n_classes)
    model = KernelFisherClassifier(gamma=GAMMA).fit(X, y).set_output(transform="pandas")
    Z = model.transform(X)
    assert list(Z.columns) == [f"kernelfisherclassifier{j}" for j in range(n_classes - 1)]
    assert list(Z.columns) == list(model.get_feature_names_out())


def test_sample_weight_is_routed_through_pipelines_and_searches():
    X, y, _, _ = binary()
    w = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    with config_context(enable_metadata_routing=True):
        routed = KernelFisherClassifier(gamma=GAMMA).set_fit_request(sample_weight=True)
        routed.set_score_request(sample_weight=False)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), routed)
        pipe.fit(X, y, sample_weight=w)
        GridSearchCV(routed, {"penalty": PENALTIES}, cv=2).fit(X, y, sample_weight=w)
    direct = KernelFisherClassifier(gamma=GAMMA)
    direct.fit(StandardScaler().fit_transform(X), y, w)
    np.testing.assert_allclose(pipe[-1].loo_decision_, direct.loo_decision_)


def test_score_is_accuracy_and_r_squared():
    X, y, s, _ = binary()
    classifier = KernelFisherClassifier(gamma=GAMMA).fit(X, y)
    assert classifier.score(X, y) == np.mean(classifier.predict(X) == y)
    regressor = KernelRidgeCV(gamma=GAMMA).fit(X, s)
    assert np.isclose(regressor.score(X, s), 1 - np.mean((s - regressor.predict(X)) ** 2) / s.var())


def test_the_library_prints_nothing_and_logs_each_width(capsys, caplog):
    X, y, _, _ = binary()
    with caplog.at_level(logging.INFO, logger="fisherkit"):
        model = KernelFisherClassifier().fit(X, y)
    assert capsys.readouterr() == ("", "")
    records = [record for record in caplog.records if record.name.startswith("fisherkit")]
    widths = [record for record in records if record.getMessage().startswith("gamma")]
    assert len(widths) >= 7  # octaves, each with the mu that is best there
    bound = [record for record in records if record.levelno != logging.INFO]
    assert len(bound) == (model.selection_.status in AT_BOUNDS)


def test_unequal_feature_scales_are_logged(caplog):
    X, y, _, _ = binary()
    with caplog.at_level(logging.INFO, logger="fisherkit"):
        KernelFisherClassifier(gamma=1.0, regularization=1.0).fit(X, y)
        assert "scale" not in caplog.text
        KernelFisherClassifier(gamma=1.0, regularization=1.0).fit(X * [1, 1, 1, 1e4], y)
        assert "scale" in caplog.text


def test_positional_parameters_are_never_written_by_fit():
    X, y, _, _ = binary()
    model = KernelFisherClassifier()
    before = model.get_params()
    model.fit(X, y)
    assert model.get_params() == before


# One decision, three voices


@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}, {"penalty": "coefficients"}])
@pytest.mark.parametrize("multiclass", ["lda", "ovr"])
@pytest.mark.parametrize("threshold", ["prior", "balanced"])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_predict_decision_function_and_probabilities_agree(
    n_classes, threshold, multiclass, options
):
    X, y = oracles.noisy_classes(60, n_classes, seed=5)
    labels = np.array(["a", "b", "c", "d"])[y]
    model = KernelFisherClassifier(threshold=threshold, multiclass=multiclass, **options)
    model.fit(X, labels)
    new = np.random.default_rng(0).normal(scale=3, size=(500, 2))
    label, z, p = model.predict(new), model.decision_function(new), model.predict_proba(new)
    if n_classes == 2:
        assert z.shape == (500,)
        np.testing.assert_array_equal(label, model.classes_[(z > 0).astype(int)])
    else:
        assert z.shape == (500, n_classes)
        np.testing.assert_array_equal(label, model.classes_[z.argmax(axis=1)])
    np.testing.assert_array_equal(label, model.classes_[p.argmax(axis=1)])
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert p.min() >= 0


def test_balanced_threshold_is_the_mean_label():
    X, y, s, _ = binary()
    f = KernelFisherClassifier(gamma=GAMMA, regularization=1.0).fit(X, y)
    z = clone(f).set_params(threshold="balanced").fit(X, y)
    np.testing.assert_allclose(
        z.decision_function(X), f.decision_function(X) - s.mean(), atol=1e-12
    )
    fold = oracles.fold_means(s)
    np.testing.assert_allclose(z.loo_decision_, f.loo_decision_ - fold, atol=1e-10)


def test_balanced_one_versus_rest_subtracts_the_class_shares():
    X, y, Y, _ = multiclass()
    f = KernelFisherClassifier(gamma=GAMMA, regularization=1.0, multiclass="ovr").fit(X, y)
    z = clone(f).set_params(threshold="balanced").fit(X, y)
    shares = Y.mean(axis=0)
    np.testing.assert_allclose(z.decision_function(X), f.decision_function(X) - shares, atol=1e-12)
    fold = oracles.fold_means(Y)
    np.testing.assert_allclose(z.loo_decision_, f.loo_decision_ - fold, atol=1e-10)


@pytest.mark.parametrize("threshold", ["prior", "balanced"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("case", ["binary", "ovr", "lda"])
def test_calibration_slope_minimises_the_logistic_loss_of_refits(case, penalty, threshold):
    X, y, s, K = binary(60) if case == "binary" else multiclass(60)
    mu = 0.5 * oracles.unit(K, penalty)
    model = KernelFisherClassifier(
        gamma=GAMMA,
        penalty=penalty,
        regularization=mu,
        threshold=threshold,
        multiclass="lda" if case == "binary" else case,
    ).fit(X, y)
    balanced = threshold == "balanced"
    if case == "lda":
        Phi = oracles.features(K, penalty)
        scores = oracles.penalised_lda_loo(Phi, y, mu, priors=not balanced)
    else:
        scores = oracles.leave_one_out(K, s, mu, penalty=penalty)
        scores = scores - oracles.fold_means(s) if balanced else scores
    loss_weight = 1 / np.bincount(y)[y] if balanced else None
    truth = oracles.slope(scores, y, loss_weight=loss_weight)
    np.testing.assert_allclose(slope_of(model, X), truth, rtol=1e-6)


def test_calibration_slope_is_positive_where_leave_one_out_scores_are_anticorrelated():
    X, y, s, _ = binary()
    model = KernelFisherClassifier(gamma=GAMMA, regularization=1e9).fit(X, y)
    assert np.corrcoef(model.loo_decision_, s)[0, 1] < -0.99
    p, z = model.predict_proba(X), model.decision_function(X)
    assert np.all(np.isfinite(p))
    np.testing.assert_array_equal(p[:, 1] > 0.5, z > 0)


# Discriminant coordinates


@pytest.mark.parametrize("penalty", PENALTIES)
def test_transform_gives_the_discriminant_coordinates(penalty):
    X, y = oracles.noisy_classes(60, 3)
    K = oracles.gram(X, gamma=GAMMA)
    mu = 0.3 * oracles.unit(K, penalty)
    model = KernelFisherClassifier(gamma=GAMMA, penalty=penalty, regularization=mu).fit(X, y)
    Phi = oracles.features(K, penalty)
    truth = oracles.discriminant_coordinates(Phi, y, mu, Phi)
    Z = model.transform(X)
    assert Z.shape == truth.shape == (60, 2)
    for ours, theirs in zip(Z.T, truth.T, strict=True):
        assert np.isclose(abs(np.corrcoef(ours, theirs)[0, 1]), 1, atol=1e-9)


def test_binary_transform_is_one_column_that_orders_rows_as_the_decision_does():
    X, y, _, _ = binary()
    model = KernelFisherClassifier(gamma=GAMMA).fit(X, y)
    Z = model.transform(X)
    assert Z.shape == (len(X), 1)
    assert np.isclose(np.corrcoef(Z[:, 0], model.decision_function(X))[0, 1], 1, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("multiclass", ["lda", "ovr"])
def test_transform_signs_do_not_depend_on_row_order(n_classes, multiclass):
    X, y = oracles.noisy_classes(60, n_classes)
    order = np.random.default_rng(1).permutation(60)
    model = KernelFisherClassifier(gamma=GAMMA, multiclass=multiclass)
    first = model.fit(X, y).transform(X)
    second = model.fit(X[order], y[order]).transform(X)
    assert first.shape[1] <= n_classes - 1
    assert gap(second, first) < 1e-6


@pytest.mark.parametrize("basis", ["auto", *CHOSEN_BASES])
@pytest.mark.parametrize("n_components", [1, 5, 50])
def test_any_number_of_centres_fits(basis, n_components):
    X, y = oracles.noisy_classes(50, 3)
    model = KernelFisherClassifier(basis=basis, n_components=n_components, random_state=0)
    model.fit(X, y)
    assert len(model.basis_indices_) <= min(n_components, 50)
    assert model.dual_coef_.shape == (3, len(model.basis_indices_))
    assert model.transform(X).shape[1] <= 2
    for output in (model.decision_function(X), model.predict_proba(X), model.loo_decision_):
        assert np.all(np.isfinite(output))


@pytest.mark.parametrize("basis", ["auto", *CHOSEN_BASES])
def test_more_centres_than_rows_work_or_are_explained(basis):
    X, y = oracles.noisy_classes(50, 3)
    model = KernelFisherClassifier(basis=basis, n_components=1000, random_state=0)
    if finite_or_explained(model, X, y) is None:
        with pytest.raises(ValueError, match=r"n_components.*1000"):
            model.fit(X, y)
    else:
        assert len(model.basis_indices_) <= 50


@pytest.mark.parametrize("basis", CHOSEN_BASES)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_leave_one_out_on_a_chosen_basis_is_conditional_on_it(basis, penalty):
    X, y, s, K = binary()
    model = KernelFisherClassifier(
        gamma=GAMMA, penalty=penalty, basis=basis, n_components=7, random_state=3
    ).fit(X, y)
    centres = model.basis_indices_
    assert len(set(centres.tolist())) == 7
    truth = oracles.leave_one_out(K, s, model.regularization_, penalty=penalty, centres=centres)
    assert gap(model.loo_decision_, truth) < 1e-8


def test_random_basis_is_reproducible_and_random():
    X, y, _, _ = binary()
    options = dict(gamma=GAMMA, regularization=1.0, basis="random", n_components=7)

    def chosen(seed):
        fitted = KernelFisherClassifier(random_state=seed, **options).fit(X, y)
        return sorted(fitted.basis_indices_.tolist())

    assert chosen(0) == chosen(0)
    assert len({tuple(chosen(seed)) for seed in range(5)}) > 1


# Degenerate data: works or explains, never NaN, never a hang


def finite_or_explained(model, X, y, new=None):
    """Fit; every output is finite, or the fit says in words why it cannot be done."""
    new = X if new is None else new
    try:
        model.fit(X, y)
    except ValueError as error:
        assert len(str(error)) > 30
        return None
    methods = ("predict_proba", "decision_function", "transform", "predict")
    for method in methods[: 4 if isinstance(model, KernelFisherClassifier) else 0]:
        output = getattr(model, method)(new)
        assert output.dtype.kind not in "fc" or np.all(np.isfinite(output)), method
    loo = getattr(model, "loo_decision_", None)
    loo = model.loo_prediction_ if loo is None else loo
    assert not np.any(np.isnan(loo))
    if isinstance(model, KernelRidgeCV):
        assert np.all(np.isfinite(model.predict(new)))
        assert np.all(np.isfinite(loo))
    return model


ESTIMATORS = [
    KernelFisherClassifier(),
    KernelFisherClassifier("laplacian", penalty="coefficients"),
    KernelFisherClassifier("linear", bias="penalized", criterion="log_loss", multiclass="ovr"),
    KernelFisherClassifier(gamma="scale", basis="random", n_components=5, random_state=0),
    KernelFisherClassifier(gamma="median", cv=3),
    KernelRidgeCV(),
    KernelRidgeCV("polynomial", penalty="coefficients"),
]


def degenerate_data():
    rng = np.random.default_rng(0)
    X, y = oracles.noisy_classes(30)
    yield "duplicates with conflicting labels", np.repeat(X[:15], 2, axis=0), np.arange(30) % 2
    yield "one constant feature", np.c_[X, np.ones(30)], y
    yield "only constant features", np.full((30, 2), 7.0), y
    yield "zero features", np.zeros((30, 2)), y
    yield "scale 1e150", 1e150 * X, y
    yield "scale 1e-150", 1e-150 * X, y
    yield "scales 1e150 and 1e-150", X * [1e150, 1e-150], y
    yield "far from the origin", X + 1e8, y
    yield "a class of one", X, np.r_[1, np.zeros(29, dtype=int)]
    yield "three classes, one of one", X, np.r_[2, y[1:]]
    yield "two rows", X[:2], np.array([0, 1])
    yield "three rows", X[:3], np.array([0, 1, 0])
    yield "three rows, three classes", X[:3], np.array([0, 1, 2])
    yield "separable", X + 50 * y[:, None], y
    yield "labels are noise", X, rng.permutation(y)
    yield "more features than rows", rng.normal(size=(30, 200)), y


@pytest.mark.filterwarnings("ignore:The least populated class in y:UserWarning")
@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
@pytest.mark.parametrize(
    ("X", "y"), [pytest.param(X, y, id=name) for name, X, y in degenerate_data()]
)
def test_degenerate_data_work_or_are_explained(model, X, y):
    finite_or_explained(clone(model), X, y)


def test_conflicting_duplicates_predict_even_odds():
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 2)), 2, axis=0)
    y = np.arange(40) % 2
    model = KernelFisherClassifier(gamma=1.0, regularization=1.0).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), 0, atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X), 0.5, atol=1e-6)


def test_equal_rows_predict_the_mean_and_leave_it_out_correctly():
    y = np.r_[np.zeros(12, dtype=int), np.ones(18, dtype=int)]
    s = 2.0 * y - 1
    model = KernelFisherClassifier(gamma=1.0).fit(np.ones((30, 3)), y)
    np.testing.assert_allclose(model.decision_function(np.ones((1, 3))), s.mean(), atol=1e-6)
    np.testing.assert_allclose(model.loo_decision_, oracles.fold_means(s), atol=1e-6)


def test_scaling_the_features_scales_the_width_and_nothing_else():
    X, y, _, _ = binary()
    plain = KernelFisherClassifier().fit(X, y)
    for scale in (2.0**20, 2.0**-20):
        scaled = KernelFisherClassifier().fit(scale * X, y)
        np.testing.assert_allclose(scaled.gamma_ * scale**2, plain.gamma_, rtol=1e-6)
        assert gap(scaled.loo_decision_, plain.loo_decision_) < 1e-6


def test_a_class_of_one_is_scored_by_the_other_label():
    X, _, _, _ = binary()
    y = np.zeros(len(X), dtype=int)
    y[7] = 1
    model = KernelFisherClassifier(gamma=GAMMA).fit(X, y)
    np.testing.assert_allclose(model.loo_decision_[7], -1, atol=1e-9)


def test_a_class_of_one_is_absent_from_its_own_lda_fold():
    X, y, _, K = multiclass()
    y = np.where(y == 2, 0, y)
    y[7] = 2
    model = KernelFisherClassifier(gamma=GAMMA, regularization=0.5, multiclass="lda").fit(X, y)
    truth = oracles.penalised_lda_loo(oracles.features(K), y, 0.5)
    rest = np.arange(len(X)) != 7
    ours = oracles.row_centred(model.loo_decision_[rest])
    assert gap(ours, oracles.row_centred(truth[rest])) < 1e-8
    assert model.loo_decision_[7].argmax() == truth[7].argmax()
    assert model.loo_decision_[7, 2] < model.loo_decision_[7, :2].min()
    assert not np.any(np.isnan(model.loo_decision_))


def test_fewer_rows_than_folds_work_or_are_explained():
    X, y, _, _ = binary(8)
    model = finite_or_explained(KernelFisherClassifier(gamma=1.0, cv=20), X, y)
    if model is None:
        with pytest.raises(ValueError, match=r"20.*8|8.*20|20.*(members|fewer|less)"):
            KernelFisherClassifier(gamma=1.0, cv=20).fit(X, y)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_infinite_mu_predicts_the_mean(penalty):
    X, y, s, K = binary()
    mu = 1e12 * oracles.unit(K, penalty)
    model = KernelFisherClassifier(gamma=GAMMA, penalty=penalty, regularization=mu).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), s.mean(), atol=1e-9)
    np.testing.assert_allclose(model.loo_decision_, oracles.fold_means(s), atol=1e-9)
    without = clone(model).set_params(bias="none").fit(X, y)
    np.testing.assert_allclose(without.decision_function(X), 0, atol=1e-9)


@pytest.mark.parametrize("bias", BIASES)
def test_vanishing_mu_interpolates(bias):
    X, Y, _ = two_outputs()
    model = KernelRidgeCV("laplacian", gamma=1.0, bias=bias, regularization=1e-13).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), Y, atol=1e-9)
    K = oracles.gram(X, kernel="laplacian", gamma=1.0)
    truth = oracles.leave_one_out(K, Y, 1e-13, bias=bias)
    np.testing.assert_allclose(model.loo_prediction_, truth, atol=1e-9)


# Selection


def true_criterion(criterion, targets, K, mu, penalty="rkhs", folds=None):
    refit = oracles.leave_one_out if folds is None else oracles.leave_group_out
    args = (K, targets, mu) if folds is None else (K, targets, mu, folds)
    if criterion == "log_loss" and targets.ndim == 2:
        Z = refit(*args, penalty=penalty) - oracles.fold_means(targets)
        target = oracles.smoothed_targets(targets.argmax(axis=1))
        return oracles.calibrate(Z, target, np.full(len(Z), 1 / len(Z)))[2]
    loss = {"press": oracles.press, "log_loss": oracles.margin_loss}[criterion]
    return loss(targets, refit(*args, penalty=penalty))


@pytest.mark.parametrize(
    ("n_classes", "criterion", "penalty"),
    [
        (2, "press", "rkhs"),
        (2, "press", "coefficients"),
        (2, "log_loss", "rkhs"),
        (2, "log_loss", "coefficients"),
        (3, "press", "rkhs"),
        (3, "log_loss", "rkhs"),
    ],
)
def test_chosen_mu_minimises_the_criterion_of_refits(n_classes, criterion, penalty):
    X, y = oracles.noisy_classes(40, n_classes, d=3, seed=2 * n_classes - 2)
    K = oracles.gram(X, gamma=0.2)
    targets = 2.0 * y - 1 if n_classes == 2 else oracles.indicators(y)
    model = KernelFisherClassifier(gamma=0.2, criterion=criterion, penalty=penalty).fit(X, y)

    def price(log_mu):
        return true_criterion(criterion, targets, K, np.exp(log_mu), penalty)

    chosen = np.log(model.regularization_)
    best = minimize_scalar(
        price, bounds=(chosen - 0.5, chosen + 0.5), method="bounded", options={"xatol": 1e-7}
    )
    assert abs(best.x - chosen) < 1e-4
    unit = oracles.unit(K, penalty)
    coarse = [price(np.log(unit) + k * np.log(2.0)) for k in range(-14, 11, 2)]
    assert price(chosen) <= min(coarse) * (1 + 1e-9)
    np.testing.assert_allclose(model.selection_.unit, unit, rtol=1e-10)
    np.testing.assert_allclose(model.selection_.mu, model.regularization_)


def test_regression_shares_one_mu_that_minimises_the_summed_press():
    X, Y, K = two_outputs(40)
    model = KernelRidgeCV(gamma=GAMMA).fit(X, Y)
    chosen = np.log(model.regularization_)
    best = minimize_scalar(
        lambda t: true_criterion("press", Y, K, np.exp(t)),
        bounds=(chosen - 0.5, chosen + 0.5),
        method="bounded",
        options={"xatol": 1e-7},
    )
    assert abs(best.x - chosen) < 1e-4


@pytest.mark.parametrize("groups", [None, np.arange(42) % 5])
def test_folds_choose_mu_and_leave_one_out_is_still_reported(groups):
    X, y, s, K = binary(42)
    cv = KFold(4, shuffle=True, random_state=0) if groups is None else LeaveOneGroupOut()
    model = KernelFisherClassifier(gamma=GAMMA, cv=cv).fit(X, y, groups=groups)
    folds = [test for _, test in cv.split(X, y, groups)]
    chosen = np.log(model.regularization_)
    best = minimize_scalar(
        lambda t: true_criterion("press", s, K, np.exp(t), folds=folds),
        bounds=(chosen - 0.5, chosen + 0.5),
        method="bounded",
        options={"xatol": 1e-7},
    )
    assert abs(best.x - chosen) < 1e-4
    truth = oracles.leave_one_out(K, s, model.regularization_)
    assert gap(model.loo_decision_, truth) < 1e-8


@pytest.mark.parametrize("criterion", ["press", "log_loss", "error", "smoothed_error"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_selection_returns_the_cheapest_model_it_priced(criterion, n_classes):
    X, y = oracles.noisy_classes(60, n_classes, seed=4)
    model = KernelFisherClassifier(criterion=criterion).fit(X, y)
    selection = model.selection_
    assert selection.criterion == criterion
    single = 1e-6 * abs(selection.value)  # rounding of settings that were compared on the way
    assert selection.value <= selection.path["value"].min() + single
    assert np.all(np.isfinite(selection.path["value"]))
    assert selection.mu == model.regularization_
    assert selection.gamma == model.gamma_
    assert len(str(selection.status.value)) > 10
    at_width = KernelFisherClassifier(criterion=criterion, gamma=model.gamma_).fit(X, y)
    np.testing.assert_allclose(at_width.selection_.value, selection.value, rtol=1e-7)
    np.testing.assert_allclose(at_width.regularization_, model.regularization_, rtol=1e-5)


def test_refitting_with_the_chosen_numbers_gives_the_same_model():
    X, y = oracles.noisy_classes(60, 3, seed=4)
    tuned = KernelFisherClassifier().fit(X, y)
    fixed = KernelFisherClassifier(gamma=tuned.gamma_, regularization=tuned.regularization_)
    fixed.fit(X, y)
    assert gap(fixed.loo_decision_, tuned.loo_decision_) < 1e-8
    assert gap(fixed.predict_proba(X), tuned.predict_proba(X)) < 1e-8


@pytest.mark.parametrize("threshold", ["prior", "balanced"])
def test_log_loss_is_priced_at_the_threshold_of_each_fold(threshold):
    X, y, s, _ = binary(40, d=3, seed=2)
    model = KernelFisherClassifier(gamma=0.2, criterion="log_loss", threshold=threshold).fit(X, y)
    fold = oracles.fold_means(s) if threshold == "balanced" else 0.0
    K = oracles.gram(X, gamma=0.2)
    scores = oracles.leave_one_out(K, s, model.regularization_)
    value = oracles.margin_loss(s, scores - fold)
    np.testing.assert_allclose(model.selection_.value, value, rtol=1e-9)


@pytest.mark.parametrize("threshold", ["prior", "balanced"])
def test_error_criterion_is_the_leave_one_out_error_rate(threshold):
    X, y, s, _ = binary(60)
    model = KernelFisherClassifier(gamma=GAMMA, criterion="error", threshold=threshold).fit(X, y)
    error = np.mean(s * model.loo_decision_ <= 0)
    np.testing.assert_allclose(model.selection_.value, error, atol=1e-12)


def test_width_search_beats_a_grid_of_widths():
    X, y, _, _ = binary(60)
    tuned = KernelFisherClassifier().fit(X, y).selection_.value
    widths = np.median(KernelFisherClassifier(gamma="scale").fit(X, y).gamma_) * 4.0 ** np.arange(
        -3, 4
    )
    grid = [KernelFisherClassifier(gamma=g).fit(X, y).selection_.value for g in widths]
    assert tuned <= min(grid) * 1.02


def test_optimum_at_the_upper_bound_says_so():
    """Each row has a twin of the other label: any structure the model finds is wrong."""
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 2)), 2, axis=0)
    model = KernelFisherClassifier(gamma=0.5).fit(X, np.arange(40) % 2)
    assert model.selection_.status.name == "AT_UPPER_BOUND"
    assert model.selection_.mu / model.selection_.unit >= 2.0**10 * (1 - 1e-9)


def test_optimum_at_the_lower_bound_says_so():
    """Each row has a twin of its own label: memory predicts a left-out row best."""
    X, y, _, _ = binary(40)
    model = KernelFisherClassifier(gamma=0.02).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert model.selection_.status.name == "AT_LOWER_BOUND"
    np.testing.assert_allclose(model.selection_.mu / model.selection_.unit, 1e-8, rtol=1e-6)


def test_noiseless_data_stop_at_rounding_and_say_so():
    """A noiseless linear function: a smaller mu would gain nothing but ill-conditioning."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = KernelRidgeCV("linear").fit(X, X @ [1.0, -2.0, 0.5] + 3)
    assert model.selection_.status.name == "NOISELESS"
    assert 1e-8 < model.selection_.mu / model.selection_.unit < 1e-5
    assert model.selection_.value < 1e-11


def test_given_numbers_are_honoured_below_the_floor_of_the_search():
    X, y, _, K = binary()
    model = KernelFisherClassifier(gamma=GAMMA, regularization=1e-11).fit(X, y)
    assert model.regularization_ == 1e-11
    assert oracles.unit(K) * 1e-8 > 1e-11


def squared_error(y, loo_decision, sample_weight):
    return np.average((y - loo_decision) ** 2, weights=sample_weight)


def test_a_callable_criterion_is_priced_on_the_grid():
    X, _, s, _ = binary()
    called = KernelFisherClassifier(gamma=GAMMA, criterion=squared_error).fit(X, s)
    named = KernelFisherClassifier(gamma=GAMMA, criterion="press").fit(X, s)
    path = called.selection_.path
    assert called.selection_.mu == path["mu"][np.argmin(path["value"])]
    assert abs(np.log2(called.regularization_ / named.regularization_)) <= 1.0
    np.testing.assert_allclose(
        called.selection_.value, oracles.press(s, called.loo_decision_), rtol=1e-8
    )


@pytest.mark.parametrize("multiclass", ["lda", "ovr"])
def test_a_callable_criterion_sees_labels_scores_and_weights(multiclass):
    X, y = oracles.noisy_classes(40, 3)
    seen = []

    def record(y, loo_decision, sample_weight):
        seen.append((np.shape(y), np.shape(loo_decision), np.shape(sample_weight)))
        return float(np.sum(np.asarray(loo_decision) ** 2))

    KernelFisherClassifier(gamma=1.0, criterion=record, multiclass=multiclass).fit(X, y)
    assert len(seen) >= 20
    assert {shapes[1] for shapes in seen} == {(40, 3)}
    assert all(shapes[0][0] == 40 for shapes in seen)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_low_rank_path_agrees_with_the_full_one(n_classes, penalty):
    X, y = oracles.noisy_classes(800, n_classes)
    options = dict(gamma=0.3, penalty=penalty)
    quick = KernelFisherClassifier(random_state=1, **options).fit(X, y)
    full = KernelFisherClassifier(basis="full", **options).fit(X, y)
    assert quick.selection_.method == "low-rank"
    assert quick.selection_.rank < 400
    assert quick.selection_.tolerance > 0
    assert full.selection_.method == "full"
    assert full.selection_.tolerance == 0.0
    assert len(quick.basis_indices_) < 800
    np.testing.assert_allclose(quick.regularization_, full.regularization_, rtol=1e-5)
    assert gap(quick.loo_decision_, full.loo_decision_) < 1e-6
    # Between the training rows the factorisation is only as good as the root of its trace.
    assert gap(quick.decision_function(X + 0.1), full.decision_function(X + 0.1)) < 1e-4
    assert gap(quick.predict_proba(X + 0.1), full.predict_proba(X + 0.1)) < 1e-4


def test_the_low_rank_path_of_regression_agrees_with_the_full_one():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(700, 2))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.2 * rng.normal(size=700)
    quick = KernelRidgeCV(random_state=0).fit(X, y)
    full = KernelRidgeCV(gamma=quick.gamma_, basis="full").fit(X, y)
    assert quick.selection_.method == "low-rank"
    np.testing.assert_allclose(quick.regularization_, full.regularization_, rtol=1e-5)
    full.set_params(regularization=quick.regularization_).fit(X, y)
    rounding = 1e-16 * 700 / quick.regularization_
    assert gap(y - quick.loo_prediction_, y - full.loo_prediction_) < max(1e-7, rounding)


def test_a_full_rank_kernel_takes_the_full_path():
    X, y = oracles.noisy_classes(600, d=10)
    for basis, method in (("auto", "cholesky"), ("full", "full")):
        model = KernelFisherClassifier(gamma=0.5, basis=basis).fit(X, y)
        assert model.selection_.method == method
        assert model.selection_.rank >= 599


def test_only_numbers_take_one_cholesky():
    X, y = oracles.noisy_classes(600)
    assert KernelFisherClassifier(gamma=1.0, regularization=1.0).fit(X, y).selection_.method == (
        "cholesky"
    )


@pytest.mark.parametrize(
    "model",
    [
        KernelFisherClassifier(),
        KernelFisherClassifier("laplacian", penalty="coefficients", criterion="log_loss"),
        KernelFisherClassifier(gamma="median", criterion="error", threshold="balanced"),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_row_order_does_not_matter(model, n_classes):
    X, y = oracles.noisy_classes(70, n_classes, seed=1)
    order = np.random.default_rng(2).permutation(70)
    first, second = clone(model).fit(X, y), clone(model).fit(X[order], y[order])
    np.testing.assert_allclose(second.regularization_, first.regularization_, rtol=1e-7)
    np.testing.assert_allclose(second.gamma_, first.gamma_, rtol=1e-7)
    assert gap(second.loo_decision_, first.loo_decision_[order]) < 1e-7
    assert gap(second.predict_proba(X), first.predict_proba(X)) < 1e-7


def test_read_only_memory_maps_are_accepted(tmp_path):
    X, y, _, _ = binary()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = KernelFisherClassifier().fit(mapped, y)
    np.testing.assert_array_equal(
        model.predict(mapped), KernelFisherClassifier().fit(X, y).predict(X)
    )


def test_float32_features_stay_close_to_float64():
    X, y, _, _ = binary()
    single = KernelFisherClassifier(gamma=GAMMA, regularization=1.0).fit(X.astype("f4"), y)
    double = KernelFisherClassifier(gamma=GAMMA, regularization=1.0).fit(X, y)
    assert gap(single.decision_function(X.astype("f4")), double.decision_function(X)) < 1e-4


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial"])
def test_named_kernels_are_those_of_scikit_learn(kernel):
    """The oracle itself is checked where scikit-learn has the same function."""
    X, _, _, _ = binary(10)
    ours = oracles.gram(X, kernel=kernel, gamma=0.3)
    extra = {"degree": 3, "coef0": 1.0} if kernel == "polynomial" else {}
    np.testing.assert_allclose(ours, pairwise_kernels(X, metric=kernel, gamma=0.3, **extra))


@pytest.mark.parametrize("Estimator", [KernelFisherClassifier, KernelRidgeCV])
def test_a_search_that_ends_at_a_bound_is_said_where_python_shows_it(Estimator, caplog):
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 2)), 2, axis=0)
    y = np.arange(40) % 2  # each row has a twin of the other label
    with caplog.at_level(logging.WARNING, logger="fisherkit"):
        Estimator(gamma=0.5).fit(X, y)
        said = [record for record in caplog.records if "keeps falling" in record.getMessage()]
        assert [record.levelname for record in said] == ["WARNING"]
        assert said[0].getMessage().startswith(f"{Estimator.__name__}: the criterion")
        caplog.clear()
        Estimator(gamma=0.5, regularization=1.0).fit(X, y)
        assert "keeps falling" not in caplog.text
