"""The Bayesian Fisher discriminant as scikit-learn users meet it."""

import os
import pickle

import numpy as np
import oracles
import pandas as pd
import pytest
from oracles import gap
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fisherkit import BayesianFisherClassifier
from fisherkit.bayes.climb import Ending
from fisherkit.datasets import make_bumpy, make_overlap, make_relevance, make_spiral

CLASSES = pytest.mark.parametrize("n_classes", [2, 3])
MODELS = {
    "rbf": {},
    "ard": dict(ard=True),
    "ard, evidence alone": dict(ard=True, hyperprior=None),
    "ard, given spread": dict(ard=True, hyperprior=1.0),
    "rbf + linear": dict(linear=True),
    "linear": dict(kernel="linear"),
    "linear ard": dict(kernel="linear", ard=True),
    "lssvm": dict(evidence="lssvm"),
    "inducing": dict(n_inducing=10, random_state=0),
    "noise model": dict(probability="noise_model"),
    "inducing, noise model": dict(n_inducing=10, random_state=0, probability="noise_model"),
    "object": dict(kernel=RBF(1.0), n_restarts=2, random_state=0),
    "fixed object": dict(kernel=RBF(1.0, length_scale_bounds="fixed")),
}
EVERY = pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
METHODS = ["decision_function", "predict_proba", "transform", "latent", "predict"]


@parametrize_with_checks(
    [
        BayesianFisherClassifier(),
        BayesianFisherClassifier(ard=True),
        BayesianFisherClassifier(kernel="linear"),
        BayesianFisherClassifier(n_inducing=10),
    ]
)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


def fit(X, y, w=None, **options):
    return BayesianFisherClassifier(**options).fit(X, y, w)


def gram_of(model, X):
    """The RBF kernel in units of the total noise."""
    noise = 1 / model.noise_precision_ + model.nugget_
    rows = X / model.length_scale_
    return model.amplitude_ / noise * oracles.gram(rows, gamma=0.5)


def assert_same_model(one, two, X, tolerance=1e-7):
    for method in METHODS[:4]:
        a, b = getattr(one, method)(X), getattr(two, method)(X)
        scale = max(1.0, np.abs(a).max())
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale, err_msg=method)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    np.testing.assert_allclose(*(m.latent(X, True)[1] for m in (one, two)), rtol=10 * tolerance)
    if one.relevance_ is not None:
        np.testing.assert_allclose(one.relevance_, two.relevance_, rtol=tolerance, atol=tolerance)


def assert_agreement(model, X):
    """Labels, signs or largest of decisions, and largest probabilities are the same."""
    decisions, p = model.decision_function(X), model.predict_proba(X)
    winner = (decisions > 0).astype(int) if decisions.ndim == 1 else np.argmax(decisions, axis=1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[winner])
    np.testing.assert_array_equal(model.predict(X), model.classes_[np.argmax(p, axis=1)])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-5)
    assert np.all(np.isfinite(decisions)) and np.all(p >= 0)


# --- leave-one-out --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, dict(ard=True, hyperprior=1.0)])
def test_leave_one_out_equals_refits_of_two_classes(options):
    X, y = oracles.noisy_classes(40, 2, 3)
    model = fit(X, y, **options)
    truth = oracles.leave_one_out(gram_of(model, X), 2.0 * y - 1, 1.0)
    assert gap(model.loo_decision_, truth) < 1e-10


def test_leave_one_out_equals_refits_of_three_classes():
    X, y = oracles.noisy_classes(40, 3, 3)
    model = fit(X, y)
    Phi = oracles.features(gram_of(model, X))
    K = Phi @ Phi.T
    truth = oracles.softmax_rule(K, y, 1.0, K)
    assert gap(model.loo_decision_, truth["left_out"]) < 1e-7
    assert gap(model.decision_function(X), truth["new"]) < 1e-7


@CLASSES
def test_leave_one_out_removes_one_copy(n_classes):
    X, y = oracles.noisy_classes(40, n_classes, 3)
    w = np.random.default_rng(0).integers(1, 4, 40)
    again = np.repeat(np.arange(40), w)
    weighted, repeated = fit(X, y, w.astype(float)), fit(X[again], y[again])
    assert gap(weighted.loo_decision_[again], repeated.loo_decision_) < 1e-7
    if n_classes == 2:
        truth = oracles.leave_one_out(gram_of(weighted, X), 2.0 * y - 1, 1.0, w=w.astype(float))
        assert gap(weighted.loo_decision_, truth) < 1e-10


def test_with_inducing_points_leave_one_out_holds_them():
    X, y = oracles.noisy_classes(40, 2, 3)
    model = fit(X, y, n_inducing=8, random_state=0)
    rows = model._expansion.kernel.features(X)
    centres = [int(np.argmin(np.sum((rows - c) ** 2, axis=1))) for c in model._expansion.centres]
    np.testing.assert_allclose(rows[centres], model._expansion.centres, atol=1e-12)
    truth = oracles.leave_one_out(gram_of(model, X), 2.0 * y - 1, 1.0, centres=np.array(centres))
    assert gap(model.loo_decision_, truth) < 1e-5  # the jitter of the inducing kernel


@CLASSES
@EVERY
def test_the_noise_model_changes_probabilities_only(options, n_classes):
    if "probability" in options:
        pytest.skip("the noise model itself")
    X, y = oracles.noisy_classes(40, n_classes, 3)
    one, two = fit(X, y, **options), fit(X, y, **{**options, "probability": "noise_model"})
    np.testing.assert_array_equal(one.loo_decision_, two.loo_decision_)
    np.testing.assert_array_equal(one.latent(X), two.latent(X))
    assert not np.allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-3)


# --- rows and weights -----------------------------------------------------------------------------


@CLASSES
@EVERY
def test_weight_two_is_the_row_twice_and_order_does_not_matter(options, n_classes):
    X, y = oracles.noisy_classes(45, n_classes, 3)
    rng = np.random.default_rng(0)
    w = rng.integers(0, 4, 45)
    again = rng.permutation(np.repeat(np.arange(45), w))
    weighted, repeated = fit(X, y, w.astype(float), **options), fit(X[again], y[again], **options)
    assert_same_model(weighted, repeated, X)
    assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_, rel=1e-9)
    order = rng.permutation(45)
    assert_same_model(fit(X, y, **options), fit(X[order], y[order], **options), X)


def test_a_row_of_weight_zero_is_decided_by_the_model_without_it():
    X, y = oracles.noisy_classes(40)
    w = np.r_[np.zeros(3), np.ones(37)]
    model = fit(X, y, w)
    np.testing.assert_allclose(model.loo_decision_[:3], model.decision_function(X[:3]), rtol=1e-12)
    np.testing.assert_allclose(model.loo_decision_[3:], fit(X[3:], y[3:]).loo_decision_, rtol=1e-9)


def test_fractional_weights_are_accepted_and_count():
    X, y = oracles.noisy_classes(40)
    half = fit(X, y, np.where(y == 1, 0.5, 1.0))
    assert np.mean(half.predict_proba(X)[:, 1]) < np.mean(fit(X, y).predict_proba(X)[:, 1])


@CLASSES
@EVERY
def test_labels_decisions_and_probabilities_agree(options, n_classes):
    X, y = oracles.noisy_classes(45, n_classes, 3)
    model = fit(X, y, **options)
    rows = np.r_[X, 3 * np.random.default_rng(0).normal(size=(200, 3)), np.full((1, 3), 1e6)]
    assert_agreement(model, rows)
    assert_agreement(model, rows.astype(np.float32))


@CLASSES
def test_float32_stays_float32(n_classes):
    X, y = oracles.noisy_classes(45, n_classes, 3)
    model, single = fit(X, y), fit(X.astype(np.float32), y)
    for method in METHODS[:4]:
        output = getattr(single, method)(X.astype(np.float32))
        assert output.dtype == np.float32
        np.testing.assert_allclose(output, getattr(model, method)(X), rtol=1e-2, atol=1e-3)
    assert single.latent(X.astype(np.float32), return_std=True)[1].dtype == np.float32


@CLASSES
def test_strings_frames_copies_and_pickles(n_classes):
    X, y = oracles.noisy_classes(40, n_classes, 3)
    names = np.array(["ash", "birch", "cedar"])[y]
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = fit(frame, pd.Series(names))
    np.testing.assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    np.testing.assert_array_equal(model.classes_, np.unique(names))
    assert_same_model(model, fit(X, y).fit(frame, names), frame)
    np.testing.assert_array_equal(model.predict(frame), model.classes_[fit(X, y).predict(X)])
    for other in (pickle.loads(pickle.dumps(model)), clone(model).fit(frame, names)):
        assert_same_model(model, other, frame, 1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "z"}))
    expected = [f"bayesianfisherclassifier{j}" for j in range(n_classes - 1)]
    np.testing.assert_array_equal(model.get_feature_names_out(), expected)


def test_before_fit_every_method_says_so():
    for method in METHODS:
        with pytest.raises(NotFittedError):
            getattr(BayesianFisherClassifier(), method)(np.zeros((2, 2)))


def test_it_works_in_a_pipeline_and_cross_validation():
    X, y = make_bumpy(80, random_state=0)
    model = make_pipeline(StandardScaler(), BayesianFisherClassifier())
    assert np.mean(cross_val_score(model, X, y, cv=3)) > 0.8


def test_fit_leaves_its_parameters_and_its_input_alone():
    X, y = oracles.noisy_classes(40)
    kept, kernel = X.copy(), ConstantKernel(2.0) * RBF(1.0)
    model = BayesianFisherClassifier(kernel).fit(X, y)
    np.testing.assert_array_equal(X, kept)
    assert model.kernel is kernel and kernel.k2.length_scale == 1.0
    assert model.kernel_.k2.length_scale != 1.0
    assert model.relevance_ is None and model.length_scale_ is None


# --- what the fit says of itself ------------------------------------------------------------------


@EVERY
def test_fitted_attributes(options):
    X, y = oracles.noisy_classes(40, 2, 3)
    model = fit(X, y, **options)
    first = model.restarts_[0]
    assert isinstance(model.status_, Ending) and model.status_ is first.ending
    values = [climb.value for climb in model.restarts_ if len(climb.theta) == len(first.theta)]
    assert values[0] == max(values)
    assert model.expected_error_ == pytest.approx(norm.cdf(-np.sqrt(model.noise_precision_)))
    assert model.noise_precision_ > 0 and model.nugget_ >= 0 and model.amplitude_ > 0
    auto = model.ard and model.hyperprior == "auto"
    tried = list(model.hyperprior_)
    assert tried[:1] == ([0.0] if auto else []) and tried == sorted(tried)
    if "kernel" not in options:
        assert np.shape(model.length_scale_) == ((3,) if model.ard else ())
        relevance = (X.std(axis=0) / model.length_scale_) ** 2
        np.testing.assert_allclose(model.relevance_, relevance, rtol=1e-10)


def test_scales_of_features_do_not_matter_with_their_own_widths():
    X, y = oracles.noisy_classes(45, 2, 3)
    scale = np.array([1e-3, 1.0, 1e4])
    one, two = fit(X, y, ard=True), fit(X * scale, y, ard=True)
    np.testing.assert_allclose(
        two.decision_function(X * scale), one.decision_function(X), rtol=1e-6
    )
    np.testing.assert_allclose(two.length_scale_, one.length_scale_ * scale, rtol=1e-6)
    np.testing.assert_allclose(two.relevance_, one.relevance_, rtol=1e-6)


def test_a_common_scale_does_not_matter_with_one_width():
    X, y = oracles.noisy_classes(45, 2, 3)
    one, two = fit(X, y), fit(1e5 * X, y)
    np.testing.assert_allclose(two.decision_function(1e5 * X), one.decision_function(X), rtol=1e-7)
    assert two.length_scale_ == pytest.approx(1e5 * one.length_scale_)


@pytest.mark.parametrize("seed", range(3))
def test_relevance_finds_the_feature_that_matters(seed):
    X, y = make_relevance(100, n_irrelevant=10, random_state=seed)
    model = fit(X, y, ard=True)
    assert np.argmax(model.relevance_) == 0
    assert model.relevance_[0] > 20 * model.relevance_[1:].max()
    assert np.argmin(model.length_scale_) == 0
    new, label = make_relevance(1000, n_irrelevant=10, random_state=100)
    assert roc_auc_score(label, model.decision_function(new)) > 0.99


def test_noise_alone_falls_back_to_one_width():
    back = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 5)), rng.permutation(np.arange(60) % 2)
        model = fit(X, y, ard=True)
        best = max(model.hyperprior_, key=model.hyperprior_.get)
        back += best == 0 and np.ptp(model.length_scale_ / X.std(axis=0)) < 1e-9
    assert back >= 4


def test_noise_free_classes_end_inside_by_the_prior_and_at_a_bound_without_it():
    """The prior on beta is the brake: regression on the labels runs to the end of the scale."""
    x = np.repeat([[-1.0], [1.0]], 20, axis=0)
    y = (x[:, 0] > 0).astype(int)
    discriminant = fit(x, y, kernel="linear")
    regression = fit(x, y, kernel="linear", evidence="lssvm")
    assert discriminant.status_ is Ending.CONVERGED
    assert regression.status_ is Ending.AT_BOUND and "separable" in regression.status_.value
    for model in (discriminant, regression):
        assert model.nugget_ == 0
        np.testing.assert_array_equal(model.predict(x), y)
        assert_agreement(model, x)


# --- toys -----------------------------------------------------------------------------------------


def test_the_spiral_is_separated_with_defaults():
    X, y = make_spiral()
    model = fit(X, y)
    assert roc_auc_score(y, model.decision_function(X)) == 1.0
    assert roc_auc_score(y, model.loo_decision_) > 0.95


@pytest.mark.parametrize(
    ("make", "options", "lowest"),
    [
        (make_overlap, {}, 0.955),
        (make_overlap, dict(ard=True, linear=True), 0.955),
        (make_overlap, dict(kernel="linear"), 0.968),
        (make_bumpy, {}, 0.93),
        (make_bumpy, dict(n_inducing=20, random_state=0), 0.92),
    ],
)
def test_new_rows_of_the_toys_are_ranked_as_published(make, options, lowest):
    new, label = make(2000, random_state=99)
    auc = [
        roc_auc_score(label, fit(*make(100, random_state=s), **options).decision_function(new))
        for s in range(4)
    ]
    assert np.mean(auc) > lowest
    if make is make_overlap:  # nobody is better than the Bayes rule
        assert np.max(auc) < norm.cdf(2) + 0.01


def test_a_linear_kernel_cannot_tell_bumpy_classes_apart():
    new, label = make_bumpy(2000, random_state=99)
    model = fit(*make_bumpy(100, random_state=0), kernel="linear")
    assert abs(roc_auc_score(label, model.decision_function(new)) - 0.5) < 0.1


# --- other array namespaces -----------------------------------------------------------------------

needs_dispatch = pytest.mark.skipif(
    os.environ.get("SCIPY_ARRAY_API") != "1",
    reason="array dispatch needs SCIPY_ARRAY_API=1 set before SciPy is imported",
)


@pytest.fixture(params=["torch", "array_api_strict"])
def xp(request):
    return pytest.importorskip(request.param)


def to_numpy(array):
    if isinstance(array, np.ndarray):
        return array
    return array.numpy() if hasattr(array, "numpy") else np.from_dlpack(array)


@needs_dispatch
@CLASSES
@EVERY
def test_other_namespaces_give_the_numbers_of_numpy(xp, options, n_classes):
    # the evidence alone is so flat at its top that where a climb stops depends on rounding
    flat = options.get("hyperprior", "") is None or "evidence" in options
    close = dict(rtol=1e-5, atol=1e-5) if flat else dict(rtol=1e-8, atol=1e-8)
    loose = {name: 10 * value for name, value in close.items()}
    X, y = oracles.noisy_classes(90, n_classes)
    new = 1.5 * np.random.default_rng(0).normal(size=(20, 2))
    w = np.r_[0.0, 0.0, np.random.default_rng(1).integers(1, 3, 88)]
    reference = fit(X, y, w, **options)
    with config_context(array_api_dispatch=True):
        model = BayesianFisherClassifier(**options)
        if isinstance(model.kernel, RBF):
            with pytest.raises(ValueError, match="NumPy"):
                model.fit(xp.asarray(X), xp.asarray(y))
            return
        model.fit(xp.asarray(X), xp.asarray(y), sample_weight=xp.asarray(w))
        for method in METHODS:
            ours = getattr(model, method)(xp.asarray(new))
            assert type(ours) is type(xp.asarray([1.0])), method
            truth = getattr(reference, method)(new)
            unit = max(1.0, np.abs(truth).max())
            np.testing.assert_allclose(to_numpy(ours) / unit, truth / unit, err_msg=method, **close)
        std = to_numpy(model.latent(xp.asarray(new), return_std=True)[1])
        np.testing.assert_allclose(std, reference.latent(new, True)[1], **loose)
        assert type(model.loo_decision_) is type(xp.asarray([1.0]))
    loo = to_numpy(model.loo_decision_)
    np.testing.assert_allclose(loo, reference.loo_decision_, **loose)
    relevance = to_numpy(model.relevance_)
    np.testing.assert_allclose(relevance, reference.relevance_, **loose)


@needs_dispatch
def test_kernel_objects_refuse_other_namespaces(xp):
    X, y = oracles.noisy_classes(40)
    with config_context(array_api_dispatch=True), pytest.raises(ValueError, match="NumPy"):
        BayesianFisherClassifier(RBF(1.0)).fit(xp.asarray(X), xp.asarray(y))


def test_parameters_changed_after_the_fit_change_nothing():
    X, y = oracles.noisy_classes(40)
    model = fit(X, y)
    before = model.predict_proba(X)
    np.testing.assert_array_equal(
        model.set_params(probability="noise_model").predict_proba(X), before
    )


def test_a_kernel_object_is_learned_whatever_the_scale_of_the_features():
    X, y = oracles.noisy_classes(60)
    one, two = (fit(rows, y, kernel=DotProduct() ** 2) for rows in (X, 100 * X))
    assert two.log_evidence_ > one.log_evidence_ - 5
    far = fit(1e6 * X, y, kernel=RBF(1.0, (1e-2, 1e2)), n_restarts=1)
    assert far.status_ is Ending.FLAT
