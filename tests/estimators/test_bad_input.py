"""Bad input is refused in words that name the parameter and the value seen."""

import re

import numpy as np
import oracles
import pytest
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import PredefinedSplit

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.model_selection import cross_val_predict

BOTH = pytest.mark.parametrize("Estimator", [KernelFisherClassifier, KernelRidgeCV])
X, y = oracles.noisy_classes(30)


def assert_refused(estimator, *words, X=X, y=y, **fit):
    """fit raises ValueError and every word (a regular expression) is in the message."""
    with pytest.raises(ValueError) as caught:
        estimator.fit(X, y, **fit)
    message = str(caught.value)
    for word in words:
        assert re.search(word, message), f"{word!r} is not in {message!r}"
    return message


def spoiled(array, value):
    array = np.array(array, dtype=float)
    array[(3,) + (0,) * (array.ndim - 1)] = value
    return array


@BOTH
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
def test_nan_and_infinity_are_named(Estimator, value, word):
    assert_refused(Estimator(), "X", word, X=spoiled(X, value))
    assert_refused(Estimator(), "sample_weight", word, sample_weight=spoiled(np.ones(30), value))
    with pytest.raises(ValueError, match=word):
        Estimator(gamma=1.0, regularization=1.0).fit(X, y).predict(spoiled(X, value))


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "inf")])
def test_nan_and_infinity_in_targets_are_named(value, word):
    assert_refused(KernelRidgeCV(), "y", word, y=spoiled(y, value))


def test_one_class_is_refused_with_its_name():
    message = assert_refused(KernelFisherClassifier(), "class", y=np.full(30, "only"))
    assert "only" in message or "1" in message or "one" in message


def test_one_class_after_zero_weights_is_refused():
    assert_refused(KernelFisherClassifier(), "class", sample_weight=(y == 0).astype(float))


@BOTH
def test_one_sample_is_refused(Estimator):
    assert_refused(Estimator(), r"\b(1|one)\b", "sample", X=X[:1], y=y[:1])


@BOTH
def test_one_sample_after_zero_weights_is_refused(Estimator):
    w = np.zeros(30)
    w[4] = 1
    assert_refused(Estimator(), "class|sample|row", sample_weight=w)


@BOTH
def test_empty_input_is_refused(Estimator):
    assert_refused(Estimator(), r"0 sample", X=X[:0], y=y[:0])
    assert_refused(Estimator(), r"0 feature", X=X[:, :0])


@BOTH
def test_different_lengths_are_refused_with_both_numbers(Estimator):
    assert_refused(Estimator(), "30", "29", y=y[:-1])
    assert_refused(Estimator(), "sample_weight", "29", sample_weight=np.ones(29))
    assert_refused(Estimator(cv=3), "30", "29", groups=np.ones(29))


@BOTH
def test_one_dimensional_features_are_refused(Estimator):
    assert_refused(Estimator(), "1D|1-d|2D", X=X[:, 0])


@BOTH
def test_negative_weights_are_refused_with_the_value(Estimator):
    assert_refused(
        Estimator(), "sample_weight", r"-0?\.25", sample_weight=spoiled(np.ones(30), -0.25)
    )


@BOTH
def test_all_zero_weights_are_refused(Estimator):
    assert_refused(Estimator(), "sample_weight", "zero|0", sample_weight=np.zeros(30))


# Precomputed kernels


@BOTH
def test_a_non_square_kernel_is_refused_with_its_shape(Estimator):
    assert_refused(Estimator("precomputed"), "square", "30", "20", X=np.ones((30, 20)))


@BOTH
def test_an_asymmetric_kernel_is_refused(Estimator):
    K = oracles.gram(X)
    K[3, 7] += 0.5
    assert_refused(Estimator("precomputed"), "symmetric", X=K)


@BOTH
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize("regularization", ["loo", 1.0, 1e-3])
def test_an_indefinite_kernel_is_refused_with_eigenvalue_and_tolerance(
    Estimator, penalty, regularization
):
    K = oracles.gram(X) - 0.75 * np.eye(30)
    smallest = np.linalg.eigvalsh(K)[0]
    model = Estimator("precomputed", penalty=penalty, regularization=regularization)
    message = assert_refused(model, "eigenvalue", "tolerance", X=K)
    numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e[-+]?\d+)?", message)]
    assert any(np.isclose(number, smallest, rtol=0.05) for number in numbers), message


def test_a_slightly_indefinite_kernel_is_refused_where_the_penalty_would_hide_it():
    """With mu larger than the negative eigenvalue, G + mu I alone is positive definite."""
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 30)))[0]
    K = (vectors * np.r_[-1e-3, np.linspace(0.1, 1, 29)]) @ vectors.T
    model = KernelFisherClassifier("precomputed", regularization=10.0)
    assert_refused(model, "eigenvalue", X=(K + K.T) / 2)


def test_rounding_noise_in_a_precomputed_kernel_is_accepted():
    K = X @ X.T
    K += 1e-15 * np.random.default_rng(0).normal(size=K.shape)
    model = KernelFisherClassifier("precomputed").fit(K, y)
    assert np.all(np.isfinite(model.loo_decision_))


def test_an_indefinite_callable_kernel_is_refused():
    assert_refused(KernelFisherClassifier(lambda a, b: -float(a @ b)), "eigenvalue|definite")


@pytest.mark.parametrize("basis", [np.arange(10), "random", "pivoted", "greedy"], ids=str)
def test_an_indefinite_kernel_is_refused_on_chosen_centres(basis):
    """Also where no centre is among the rows at fault: what the centres leave of K is probed."""
    K = X @ X.T
    K[20, 21] = K[21, 20] = 30.0
    m = None if isinstance(basis, np.ndarray) else 10
    model = KernelFisherClassifier("precomputed", basis=basis, n_components=m, random_state=0)
    assert_refused(model, "eigenvalue", "tolerance", X=K)


def test_a_kernel_that_is_not_positive_among_the_centres_is_refused():
    model = KernelFisherClassifier(
        "sigmoid", gamma=2.0, basis="random", n_components=20, random_state=0
    )
    assert_refused(model, "eigenvalue", "tolerance")


# Kernel values that are not finite


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@BOTH
@pytest.mark.parametrize("regularization", ["loo", 1.0])
@pytest.mark.parametrize("basis", ["auto", "random"])
def test_a_power_that_is_not_defined_is_refused(Estimator, basis, regularization):
    m = None if basis == "auto" else 10
    options = dict(basis=basis, n_components=m, random_state=0, regularization=regularization)
    seen = "not finite.*NaN" if basis == "auto" else "not finite|eigenvalue"
    assert_refused(Estimator("poly", degree=1.5, gamma=1.0, **options), seen)


@BOTH
@pytest.mark.parametrize("n", [30, 600])
def test_a_callable_that_returns_nan_is_refused(Estimator, n):
    rows, labels = oracles.noisy_classes(n)

    def kernel(a, b):
        return 1.0 if np.array_equal(a, b) else np.nan

    assert_refused(Estimator(kernel), "not finite", X=rows, y=labels)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "transform"])
def test_new_rows_on_which_the_kernel_overflows_are_named(method):
    model = KernelFisherClassifier("poly", gamma=1.0, regularization=1.0).fit(X, y)
    new = np.vstack([X[:2], 1e120 * X[:1]])
    with pytest.raises(ValueError, match="not finite: row 2 of X"):
        getattr(model, method)(new)


@BOTH
def test_features_whose_squares_overflow_are_named(Estimator):
    assert_refused(Estimator(), "X has values of size", "overflow", X=1e160 * X)


def test_rows_of_weight_zero_may_hold_what_others_may_not():
    w = np.ones(30)
    w[0] = 0
    targets = np.where(w > 0, X[:, 0], 1e200)
    model = KernelRidgeCV(gamma=1.0, regularization=1.0).fit(X, targets, w)
    assert np.all(np.isfinite(model.predict(X)))


@pytest.mark.parametrize("size", [1e160, 1e-170])
def test_targets_without_squares_are_named(size):
    assert_refused(KernelRidgeCV(), r"\by\b", "Scale y", y=size * X[:, 0])


def test_a_regularisation_far_below_rounding_gives_a_finite_model():
    for size, mu in ((1e150, 1e-9), (1.0, 1e-300)):
        model = KernelFisherClassifier("linear", regularization=mu).fit(size * X, y)
        assert np.all(np.isfinite(model.decision_function(size * X)))
        assert model.score(size * X, y) > 0.6


# Parameters


@BOTH
@pytest.mark.parametrize(
    ("parameter", "value", "valid"),
    [
        ("kernel", "gaussian", ["rbf", "laplacian", "linear", "precomputed"]),
        ("penalty", "ridge", ["rkhs", "coefficients"]),
        ("bias", "maybe", ["free", "penalized", "none"]),
        ("gamma", "auto?", ["loo", "scale", "median"]),
        ("regularization", "gcv", ["loo"]),
        ("basis", "nystroem", ["auto", "full", "pivoted", "random"]),
    ],
)
def test_an_unknown_name_is_refused_with_the_valid_ones(Estimator, parameter, value, valid):
    assert_refused(Estimator(**{parameter: value}), parameter, re.escape(value), *valid)


@pytest.mark.parametrize(
    ("parameter", "value", "valid"),
    [
        ("criterion", "accuracy", ["press", "log_loss", "error", "smoothed_error"]),
        ("threshold", "youden", ["prior", "balanced"]),
        ("multiclass", "ovo", ["lda", "ovr"]),
        ("class_weight", "fair", ["balanced"]),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_unknown_classifier_option_is_refused_with_the_valid_ones(
    parameter, value, valid, n_classes
):
    X, y = oracles.noisy_classes(30, n_classes)
    model = KernelFisherClassifier(**{parameter: value})
    assert_refused(model, parameter, value, *valid, X=X, y=y)


@BOTH
@pytest.mark.parametrize("parameter", ["regularization", "gamma"])
@pytest.mark.parametrize("value", [0, 0.0, -1.5, np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_positive_are_refused_with_the_value(Estimator, parameter, value):
    seen = {0: "0", -1.5: r"-1\.5"}.get(value, "nan|inf")
    assert_refused(Estimator(**{parameter: value}), parameter, seen)


@BOTH
@pytest.mark.parametrize("value", [0, -3, 2.5, "many"])
def test_a_bad_number_of_centres_is_refused_with_the_value(Estimator, value):
    with pytest.raises((ValueError, TypeError)) as caught:
        Estimator(basis="random", n_components=value).fit(X, y)
    assert "n_components" in str(caught.value)
    assert str(value) in str(caught.value)


@BOTH
@pytest.mark.parametrize(
    ("indices", "seen"),
    [([0, 30], "30"), ([-31, 1], "-31"), ([], "empty|0"), ([0.5, 1.5], "0.5|int")],
)
def test_bad_centre_indices_are_refused(Estimator, indices, seen):
    assert_refused(Estimator(basis=np.array(indices)), "basis", seen)


@BOTH
@pytest.mark.parametrize("value", ["five", 1, 0, -2, 2.5])
def test_a_bad_cv_is_refused(Estimator, value):
    assert_refused(Estimator(cv=value), str(value).replace(".", r"\."))


@BOTH
def test_a_bad_cv_is_refused_even_with_nothing_to_choose(Estimator):
    with pytest.raises(ValueError, match="nonsense"):
        Estimator(cv="nonsense", gamma=1.0, regularization=1.0).fit(X, y)


@pytest.mark.parametrize("basis, seen", [("full", "has no meaning"), ([0, 1, 2], "contradicts")])
@BOTH
def test_a_number_of_centres_that_basis_contradicts_is_refused(Estimator, basis, seen):
    with pytest.raises(ValueError, match=f"n_components=5 {seen}"):
        Estimator(basis=basis, n_components=5).fit(X, y)


def test_lda_without_a_free_bias_names_the_alternative():
    X, y = oracles.noisy_classes(30, 3)
    for bias in ("none", "penalized"):
        lda = KernelFisherClassifier(bias=bias, multiclass="lda")
        assert_refused(lda, "multiclass", "softmax", "ovr", bias, X=X, y=y)
        for multiclass in ("softmax", "ovr"):
            KernelFisherClassifier(bias=bias, multiclass=multiclass, gamma=1.0).fit(X, y)
    binary_X, binary_y = oracles.noisy_classes(30, 2)
    KernelFisherClassifier(bias="none", gamma=1.0, multiclass="lda").fit(binary_X, binary_y)


def test_class_weights_for_unknown_or_negative_entries_are_refused():
    assert_refused(KernelFisherClassifier(class_weight={0: 1.0, 1: -2.0}), "class_weight", "-2")


def test_continuous_labels_are_refused():
    assert_refused(
        KernelFisherClassifier(), "[Uu]nknown label type|continuous", y=y + 0.5 * X[:, 0]
    )


def test_multi_output_labels_are_refused():
    assert_refused(KernelFisherClassifier(), "y|label|1d|multi", y=np.c_[y, y])


def test_a_column_of_labels_warns():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        KernelFisherClassifier(gamma=1.0, regularization=1.0).fit(X, y[:, None])


# Prediction


@BOTH
def test_another_number_of_features_is_refused_with_both_numbers(Estimator):
    model = Estimator(gamma=1.0, regularization=1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"3 features.*2 features"):
        model.predict(np.ones((4, 3)))
    precomputed = Estimator("precomputed", regularization=1.0).fit(oracles.gram(X), y)
    with pytest.raises(ValueError, match=r"29.*30"):
        precomputed.predict(np.ones((4, 29)))


@BOTH
def test_prediction_before_fit_says_so(Estimator):
    with pytest.raises(NotFittedError, match=Estimator.__name__):
        Estimator().predict(X)


@pytest.mark.parametrize("method", ["decision_function", "predict_proba", "transform"])
def test_every_method_checks_the_features(method):
    model = KernelFisherClassifier(gamma=1.0, regularization=1.0).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        getattr(model, method)(np.ones((4, 3)))
    with pytest.raises(NotFittedError):
        getattr(KernelFisherClassifier(), method)(X)


@BOTH
@pytest.mark.parametrize(
    ("cv", "seen"),
    [([1, 2, 3], "fold 0 is 1"), ([(np.arange(5), np.array([100]))], "index 100")],
    ids=["numbers", "beyond"],
)
def test_an_iterable_that_holds_no_folds_is_named(Estimator, cv, seen):
    assert_refused(Estimator(cv=cv), "cv", "30 rows", seen)


@BOTH
def test_folds_that_train_on_a_row_twice_are_refused(Estimator):
    """Leaving rows out cannot repeat any: this was once read as training on each row once."""
    folds = [(np.r_[0:15, 0:5], np.r_[15:30]), (np.r_[15:30], np.r_[0:15])]
    assert_refused(Estimator(cv=folds), "cv: fold 0", "more than once", "sample_weight")
    model = Estimator(gamma=0.4, regularization=0.1)
    with pytest.raises(ValueError, match="more than once"):
        cross_val_predict(model, X, y, cv=folds)


def test_a_predefined_split_of_another_length_is_refused():
    model = KernelFisherClassifier(cv=PredefinedSplit(np.arange(20) % 4))
    assert_refused(model, "test_fold", "20", "30")
