"""Numbers at the ends of what floats hold: refused with the value seen, or right."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from fisherkit import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    SparseFisherClassifier,
)

ESTIMATORS = [
    KernelFisherClassifier(),
    KernelFisherClassifier(basis="random", n_components=9, max_memory=60_000, random_state=0),
    KernelRidgeCV(),
    SparseFisherClassifier(cv=3),
    ForwardFisherClassifier(cv=3),
    BayesianFisherClassifier(n_restarts=1),
    FisherCommitteeClassifier(n_widths=3),
    FisherCommitteeClassifier(
        n_widths=3, basis="random", n_components=5, max_memory=1_000_000, random_state=0
    ),
]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    return X, (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)


def answers(model, X):
    return getattr(model, "predict_proba", model.predict)(X)


@pytest.mark.parametrize("weight", [1e160, 1e-160, 1e16])
@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_weights_of_which_one_row_is_rounding_are_refused_with_their_value(model, weight, data):
    X, y = data
    w = np.ones(len(y))
    w[7] = weight
    with pytest.raises(ValueError, match=re.escape(f"sample_weight has the value {weight:.3g}")):
        clone(model).fit(X, y, sample_weight=w)


@pytest.mark.parametrize("weights", [1e12, 1e-12, "mixed"])
@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_weights_of_any_size_that_is_not_refused_give_probabilities(model, weights, data):
    X, y = data
    w = np.logspace(-12, 12, len(y)) if weights == "mixed" else np.full(len(y), weights)
    try:
        fitted = clone(model).fit(X, y, sample_weight=w)
    except ValueError as error:
        assert "more rows than classes" in str(error) or "positive definite" in str(error)
        return
    assert np.all(np.isfinite(answers(fitted, X)))


def test_class_weights_out_of_range_are_refused_with_their_value(data):
    with pytest.raises(ValueError, match=r"class_weight has the value 1e\+160"):
        KernelFisherClassifier(class_weight={0: 1.0, 1: 1e160}).fit(*data)


def test_targets_beyond_single_precision_are_predicted_in_double(data):
    X, _ = data
    X = X.astype(np.float32)
    model = KernelRidgeCV().fit(X, 1e40 * X[:, 0].astype(float))
    predicted = model.predict(X)
    assert predicted.dtype == np.float64 and np.all(np.isfinite(predicted))
    assert np.corrcoef(predicted, X[:, 0])[0, 1] > 0.99
    assert KernelRidgeCV().fit(X, X[:, 0]).predict(X).dtype == np.float32


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_far_beyond_those_of_the_fit_have_no_probabilities_or_finite_ones(n_classes, data):
    X, y = data
    y = y if n_classes == 2 else np.digitize(X[:, 0], [-0.5, 0.5])
    model = BayesianFisherClassifier("linear", probability="noise_model").fit(1e-200 * X, y)
    assert np.all(np.isfinite(model.predict_proba(1e-200 * X)))
    assert np.all(np.isfinite(model.predict_proba(1e-60 * X)))
    with pytest.raises(ValueError, match="row 0 of X has no"):
        model.predict_proba(X)


@pytest.mark.parametrize("kernel", ["linear", "polynomial"])
@pytest.mark.parametrize("scale", [1e100, 1e150])
@pytest.mark.parametrize(
    "model",
    [
        KernelFisherClassifier(penalty="coefficients"),
        ForwardFisherClassifier(cv=3),
        SparseFisherClassifier(cv=3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_kernel_values_whose_squares_overflow_are_refused_with_their_size(
    model, scale, kernel, data
):
    X, y = data
    with pytest.raises(ValueError, match="overflow"):
        clone(model).set_params(kernel=kernel, gamma=1.0).fit(scale * X, y)


def test_the_median_width_of_many_rows_suits_the_sparse_classifiers_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 2))
    y = (X[:, 0] > 0).astype(int)
    options = dict(gamma="median", basis="random", n_candidates=10, random_state=0)
    of_fewer = KernelRidgeCV(gamma="median").fit(X[:900], y[:900]).gamma_
    for model in (SparseFisherClassifier(rho=0.1, **options), ForwardFisherClassifier(**options)):
        assert model.fit(X, y).gamma_ == pytest.approx(of_fewer, rel=0.2)


@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_rows_and_targets_that_are_all_equal_give_a_constant(penalty, bias):
    options = dict(penalty=penalty, bias=bias)
    for value in (3.3, 0.0, -1e10):
        model = KernelRidgeCV(**options).fit(np.ones((5, 1)), np.full(5, value))
        np.testing.assert_allclose(model.predict([[1.0]]), value, rtol=1e-3)
        assert np.all(np.isfinite(model.predict([[0.0], [2.0]])))
    y = [0, 1, 0, 1, 1]
    multiclass = "lda" if bias == "free" else "ovr"
    model = KernelFisherClassifier(multiclass=multiclass, **options).fit(np.ones((5, 2)), y)
    assert np.all(np.isfinite(model.predict_proba(np.ones((1, 2)))))


def test_four_rows_that_no_width_tells_apart_are_fitted_without_a_warning():
    X = [
        [0, 0, 0, 0, 1, 1, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [0, 1, 0, 1, 0, 0, 0],
        [0, 1, 0, 0, 0, 1, 0],
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bias in ("free", "penalized", "none"):
            model = KernelFisherClassifier(bias=bias).fit(X, [0, 1, 0, 1])
            assert np.all(np.isfinite(model.predict_proba(X)))


@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_a_regularisation_beside_which_the_kernel_is_nothing_gives_a_constant(penalty, bias):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), rng.normal(size=600)
    model = KernelRidgeCV(bias=bias, penalty=penalty, regularization=1e150).fit(X, y)
    predicted = model.predict(X[:9])
    assert np.ptp(predicted) < 1e-100 and np.isfinite(predicted[0])


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_a_kernel_too_narrow_for_products_is_fitted_without_a_low_rank(penalty):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), rng.normal(size=600)
    model = KernelRidgeCV(gamma=1e119, penalty=penalty).fit(X, y)
    assert model.selection_.method in ("full", "cholesky")
    assert np.all(np.isfinite(model.predict(X)))
