"""learning_curve against scikit-learn's, which refits."""

import warnings

import numpy as np
import oracles
import pytest
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, ShuffleSplit, StratifiedKFold
from sklearn.model_selection import learning_curve as refitted
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.model_selection import learning_curve

N = 48
NUMBERS = {"gamma": 0.4, "regularization": 0.6}


def assert_same(model, X, y, ours, **options):
    with warnings.catch_warnings():  # of classes that a small fold does not test
        warnings.simplefilter("ignore")
        theirs = refitted(model, X, y, **options)
    np.testing.assert_array_equal(ours[0], theirs[0])
    for mine, other in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(
    "cv",
    [3, StratifiedKFold(3), ShuffleSplit(4, test_size=0.3, random_state=0)],
    ids=["int", "stratified", "random"],
)
@pytest.mark.parametrize(
    ("n_classes", "scoring"),
    [(2, "accuracy"), (2, "roc_auc"), (3, "accuracy"), (3, "balanced_accuracy")],
)
def test_scores_are_those_of_refits(n_classes, scoring, cv, shuffle):
    X, y = oracles.noisy_classes(N, n_classes, seed=6)
    model = KernelFisherClassifier(**NUMBERS)
    options = dict(
        cv=cv, scoring=scoring, shuffle=shuffle, random_state=4, train_sizes=[0.6, 0.8, 1.0]
    )
    assert_same(model, X, y, learning_curve(model, X, y, **options), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": "balanced"},
        {"bias": "none"},
        {"class_weight": {0: 1.0, 1: 3.0}},
        {"kernel": "linear"},
    ],
    ids=str,
)
def test_every_model_is_obeyed(options):
    X, y = oracles.noisy_classes(N, 2, seed=6)
    model = KernelFisherClassifier(**NUMBERS, **options)
    words = dict(cv=KFold(4), train_sizes=[20, 12, 36], shuffle=True, random_state=1)
    assert_same(model, X, y, learning_curve(model, X, y, **words), **words)


@pytest.mark.parametrize("outputs", [1, 2])
def test_regressions_score_r2(outputs):
    X, y = oracles.noisy_classes(N, 2, seed=6)
    Y = np.c_[np.sin(X[:, 0]), X[:, 1] - y] if outputs == 2 else np.sin(X[:, 0]) + y
    model = KernelRidgeCV(**NUMBERS)
    words = dict(cv=4, train_sizes=[0.1, 0.5, 1.0], shuffle=True, random_state=0)
    assert_same(model, X, Y, learning_curve(model, X, Y, **words), **words)


def test_groups_pipelines_and_leave_one_out():
    X, y = oracles.noisy_classes(N, 2, seed=6)
    model = KernelFisherClassifier(**NUMBERS)
    words = dict(groups=np.arange(N) % 6, cv=GroupKFold(3), train_sizes=[0.9])
    ours = learning_curve(model, X, y, shuffle=False, **words)
    assert_same(model, X, y, ours, **words)
    ours = learning_curve(model, X, y, cv=None, train_sizes=[1.0])
    assert_same(model, X, y, ours, cv=LeaveOneOut(), train_sizes=[1.0])
    scaled = learning_curve(model, StandardScaler().fit_transform(X), y, train_sizes=[20, 30])
    piped = learning_curve(make_pipeline(StandardScaler(), model), X, y, train_sizes=[20, 30])
    np.testing.assert_array_equal(piped[2], scaled[2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_sizes": [0.0, 0.5]}, "train_sizes"),
        ({"train_sizes": [1.5]}, "train_sizes"),
        ({"train_sizes": [60]}, "train_sizes"),
        ({"train_sizes": []}, "train_sizes"),
        ({"train_sizes": [2], "shuffle": False, "sorted": True, "cv": KFold(3)}, "missing"),
        ({"scoring": "leave_pair_out_auc"}, "closed form"),
        ({"scoring": "f1"}, "accuracy"),
        ({"cv": 100}, "cv=100"),
    ],
    ids=str,
)
def test_bad_input_is_named(options, message):
    X, y = oracles.noisy_classes(N, 2, seed=6)
    options = dict(options)
    y = np.sort(y) if options.pop("sorted", False) else y
    with pytest.raises(ValueError, match=message):
        learning_curve(KernelFisherClassifier(**NUMBERS), X, y, **options)


def test_rules_and_foreign_estimators_are_refused():
    X, y = oracles.noisy_classes(N, 2)
    with pytest.raises(ValueError, match="leak"):
        learning_curve(KernelFisherClassifier(), X, y)
    with pytest.raises(ValueError, match="balanced"):
        learning_curve(KernelFisherClassifier(**NUMBERS, class_weight="balanced"), X, y)
    with pytest.raises(TypeError, match="StandardScaler"):
        learning_curve(StandardScaler(), X, y)
