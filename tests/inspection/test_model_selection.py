"""cross_val_predict in closed form against scikit-learn's cross_val_predict, which refits."""

import warnings

import numpy as np
import oracles
import pytest
from oracles import gap
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.model_selection import cross_val_predict as refitted

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.model_selection import cross_val_predict

N = 48
GROUPS = np.arange(N) // 3 % 7
NUMBERS = {"gamma": 0.4, "regularization": 0.6}
METHODS = ["predict", "decision_function", "predict_proba"]


def random_halves():
    rows = np.random.default_rng(9).permutation(N)
    return [(rows[N // 2 :], rows[: N // 2]), (rows[: N // 2], rows[N // 2 :])]


SPLITS = {
    "int": lambda: 4,
    "KFold": lambda: KFold(5, shuffle=True, random_state=1),
    "StratifiedKFold": lambda: StratifiedKFold(3),
    "GroupKFold": lambda: GroupKFold(4),
    "LeaveOneOut": LeaveOneOut,
    "list of pairs": random_halves,
    "generator of pairs": lambda: iter(random_halves()),
}


def labels(n_classes, names=False):
    X, y = oracles.noisy_classes(N, n_classes, seed=6)
    return X, (np.array(["lo", "mid", "up"])[y] if names else y)


def assert_same(ours, theirs):
    if theirs.dtype.kind == "f":
        assert gap(ours, theirs) < 1e-8
    else:
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_splitter_equals_refits(n_classes, split, method):
    X, y = labels(n_classes)
    # scikit-learn warns about groups that the splitter ignores.
    options = dict(groups=GROUPS if split == "GroupKFold" else None, method=method)
    estimator = KernelFisherClassifier(**NUMBERS)
    ours = cross_val_predict(estimator, X, y, cv=SPLITS[split](), **options)
    assert_same(ours, refitted(estimator, X, y, cv=SPLITS[split](), **options))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("threshold", ["prior", "balanced"])
@pytest.mark.parametrize(
    "options",
    [
        {"n_classes": 2, "bias": "free"},
        {"n_classes": 2, "bias": "penalized"},
        {"n_classes": 2, "bias": "none"},
        {"n_classes": 3, "multiclass": "lda"},
        {"n_classes": 3, "multiclass": "softmax", "bias": "none"},
        {"n_classes": 3, "multiclass": "ovr"},
        {"n_classes": 3, "multiclass": "ovr", "bias": "none"},
        {"n_classes": 3, "kernel": "laplacian"},
        {"n_classes": 2, "kernel": "polynomial", "degree": 2},
    ],
    ids=str,
)
def test_every_rule_equals_refits_with_named_labels(options, threshold, method):
    parameters = dict(options)
    X, y = labels(parameters.pop("n_classes"), names=True)
    estimator = KernelFisherClassifier(threshold=threshold, **NUMBERS, **parameters)
    cv = KFold(4, shuffle=True, random_state=2)
    ours = cross_val_predict(estimator, X, y, cv=cv, method=method)
    assert_same(ours, refitted(estimator, X, y, cv=cv, method=method))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 3.0, 2: 0.5}])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_weights_equal_refits_or_are_refused(n_classes, class_weight, method):
    X, y = labels(n_classes)
    if isinstance(class_weight, dict):
        class_weight = {k: class_weight[k] for k in range(n_classes)}
    estimator = KernelFisherClassifier(class_weight=class_weight, **NUMBERS)
    cv = [(np.flatnonzero(part), np.flatnonzero(~part)) for part in (GROUPS < 3, GROUPS >= 3)]
    try:
        ours = cross_val_predict(estimator, X, y, cv=cv, method=method)
    except ValueError as error:
        assert class_weight == "balanced"
        assert "class_weight" in str(error)
    else:
        assert_same(ours, refitted(estimator, X, y, cv=cv, method=method))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_cv_means_leave_one_out(n_classes, method):
    X, y = labels(n_classes)
    estimator = KernelFisherClassifier(**NUMBERS)
    ours = cross_val_predict(estimator, X, y, method=method)
    assert_same(ours, refitted(estimator, X, y, cv=LeaveOneOut(), method=method))
    if method == "decision_function":
        # A softmax is fitted anew without the row; `loo_decision_` is conditional on it.
        estimator = KernelFisherClassifier(**NUMBERS, multiclass="lda")
        ours = cross_val_predict(estimator, X, y, method=method)
        assert gap(ours, estimator.fit(X, y).loo_decision_) < 1e-9


@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
@pytest.mark.parametrize("cv", [None, 4, KFold(3, shuffle=True, random_state=0)], ids=str)
@pytest.mark.parametrize("outputs", [1, 2])
def test_regression_equals_refits(outputs, cv, bias):
    X, y = labels(2)
    Y = np.c_[np.sin(X[:, 0]), X[:, 1] - y] if outputs == 2 else np.sin(X[:, 0]) + y
    estimator = KernelRidgeCV(bias=bias, **NUMBERS)
    ours = cross_val_predict(estimator, X, Y, cv=cv)
    assert_same(ours, refitted(estimator, X, Y, cv=LeaveOneOut() if cv is None else cv))


@pytest.mark.parametrize(
    ("penalty", "centres"),
    [("coefficients", None), ("rkhs", np.arange(0, N, 5)), ("coefficients", np.arange(0, N, 5))],
    ids=["coefficients", "rkhs on centres", "coefficients on centres"],
)
def test_folds_are_conditional_on_the_centres(penalty, centres):
    X, y = labels(2)
    basis = "auto" if centres is None else centres
    estimator = KernelFisherClassifier(penalty=penalty, basis=basis, **NUMBERS)
    cv = KFold(4, shuffle=True, random_state=3)
    ours = cross_val_predict(estimator, X, y, cv=cv, method="decision_function")
    truth = oracles.leave_group_out(
        oracles.gram(X, gamma=NUMBERS["gamma"]),
        2.0 * y - 1,
        NUMBERS["regularization"],
        [test for _, test in cv.split(X)],
        penalty=penalty,
        centres=centres,
    )
    assert gap(ours, truth) < 1e-8
    label = cross_val_predict(estimator, X, y, cv=cv)
    np.testing.assert_array_equal(label, (truth > 0).astype(int))


@pytest.mark.parametrize("relative_mu", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_folds_are_exact_over_twelve_decades_of_mu(relative_mu):
    X, y = oracles.noisy_classes(N, 2, d=4)
    K = oracles.gram(X, gamma=0.5)
    mu = relative_mu * oracles.unit(K)
    estimator = KernelFisherClassifier(gamma=0.5, regularization=mu)
    ours = cross_val_predict(estimator, X, y, cv=KFold(4), method="decision_function")
    folds = [test for _, test in KFold(4).split(X)]
    assert gap(ours, oracles.leave_group_out(K, 2.0 * y - 1, mu, folds)) < 1e-8


@pytest.mark.parametrize(
    "rule",
    [
        {"gamma": "loo"},
        {"gamma": "scale"},
        {"gamma": "median"},
        {"regularization": "loo"},
        {"gamma": "scale", "kernel": "laplacian"},
        {"gamma": "median", "kernel": "polynomial"},
        {"regularization": "loo", "kernel": "linear"},
    ],
    ids=str,
)
@pytest.mark.parametrize("Estimator", [KernelFisherClassifier, KernelRidgeCV])
def test_a_rule_among_the_hyper_parameters_would_leak(Estimator, rule):
    X, y = labels(2)
    with pytest.raises(ValueError, match="leak") as caught:
        cross_val_predict(Estimator(**(NUMBERS | rule)), X, y, cv=3)
    assert next(iter(rule)) in str(caught.value)


@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
@pytest.mark.parametrize("Estimator", [KernelFisherClassifier, KernelRidgeCV])
def test_gamma_does_not_count_for_kernels_without_one(Estimator, kernel):
    X, y = labels(2)
    data = X if kernel == "linear" else X @ X.T
    estimator = Estimator(kernel, regularization=2.0)
    assert estimator.get_params()["gamma"] == "loo"
    ours = cross_val_predict(estimator, data, y, cv=KFold(3))
    assert_same(ours, refitted(estimator, data, y, cv=KFold(3)))


@pytest.mark.parametrize(
    "cv",
    [
        ShuffleSplit(3, random_state=0),
        RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
        [(np.arange(10, N), np.arange(10))],
    ],
    ids=["ShuffleSplit", "RepeatedKFold", "rows never tested"],
)
def test_non_partitions_raise_as_in_scikit_learn(cv):
    X, y = labels(2)
    estimator = KernelFisherClassifier(**NUMBERS)
    with pytest.raises(ValueError, match="partition"):
        refitted(estimator, X, y, cv=cv)
    with pytest.raises(ValueError, match="partition"):
        cross_val_predict(estimator, X, y, cv=cv)


@pytest.mark.parametrize("method", METHODS)
def test_training_rows_that_are_not_the_complement_are_obeyed_or_refused(method):
    """A partition of the test rows whose training sets leave out further rows."""
    X, y = labels(2)
    rows = np.arange(N)
    cv = [(rows[rows % 4 == 1], rows[rows % 2 == 0]), (rows[rows % 4 == 0], rows[rows % 2 == 1])]
    estimator = KernelFisherClassifier(**NUMBERS)
    try:
        ours = cross_val_predict(estimator, X, y, cv=cv, method=method)
    except ValueError as error:
        assert "train" in str(error)
    else:
        assert_same(ours, refitted(estimator, X, y, cv=cv, method=method))


@pytest.mark.parametrize("method", METHODS)
def test_a_training_fold_with_one_class_raises_as_a_refit_does(method):
    X, y = labels(2)
    estimator = KernelFisherClassifier(**NUMBERS)
    cv = [(np.flatnonzero(y == k), np.flatnonzero(y != k)) for k in (0, 1)]
    with pytest.raises(ValueError, match="class"):
        refitted(estimator, X, y, cv=cv, method=method)
    with pytest.raises(ValueError, match="class"):
        cross_val_predict(estimator, X, y, cv=cv, method=method)


@pytest.mark.parametrize("multiclass", ["lda", "ovr"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_classes", [3, 4])
def test_a_class_missing_from_a_training_fold_is_treated_as_a_refit_does_or_refused(
    n_classes, method, multiclass
):
    """With three classes the refit is binary, with four it has one column less."""
    X, y = oracles.noisy_classes(N, n_classes, seed=6)
    cv = [(np.flatnonzero(y != k), np.flatnonzero(y == k)) for k in range(n_classes)]
    estimator = KernelFisherClassifier(multiclass=multiclass, **NUMBERS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            theirs = refitted(estimator, X, y, cv=cv, method=method)
        except ValueError:
            theirs = None
        try:
            ours = cross_val_predict(estimator, X, y, cv=cv, method=method)
        except ValueError as error:
            assert "class" in str(error)
            return
    assert theirs is not None
    if theirs.dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
    else:
        np.testing.assert_array_equal(ours, theirs)


def test_the_estimator_given_is_not_fitted_nor_changed():
    X, y = labels(2)
    estimator = KernelFisherClassifier(**NUMBERS)
    before = estimator.get_params()
    cross_val_predict(estimator, X, y, cv=3)
    assert estimator.get_params() == before
    assert not hasattr(estimator, "dual_coef_")


def test_an_unknown_method_is_named():
    X, y = labels(2)
    with pytest.raises((ValueError, AttributeError), match="predict_everything"):
        cross_val_predict(KernelFisherClassifier(**NUMBERS), X, y, method="predict_everything")
    with pytest.raises((ValueError, AttributeError), match="predict_proba"):
        cross_val_predict(KernelRidgeCV(**NUMBERS), X, y, method="predict_proba")


def test_inputs_of_different_length_are_refused():
    X, y = labels(2)
    with pytest.raises(ValueError, match="inconsistent"):
        cross_val_predict(KernelFisherClassifier(**NUMBERS), X, y[:-1], cv=3)
