"""Every parameter of every estimator is checked by fit, whatever the others make of it."""

import numpy as np
import oracles
import pytest

import fisherkit
from fisherkit import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    SparseFisherClassifier,
    TableClassifier,
    TableRegressor,
)

ESTIMATORS = (
    KernelFisherClassifier,
    KernelRidgeCV,
    FisherCommitteeClassifier,
    SparseFisherClassifier,
    ForwardFisherClassifier,
    BayesianFisherClassifier,
)
TABLES = (TableClassifier, TableRegressor)
FLAGS = [
    (KernelFisherClassifier, "ard"),
    (SparseFisherClassifier, "penalize_bias"),
    (ForwardFisherClassifier, "evidence"),
    (BayesianFisherClassifier, "ard"),
    (BayesianFisherClassifier, "linear"),
]
X, y = oracles.noisy_classes(30)


def parameters(Estimator):
    return [(Estimator, name) for name in Estimator().get_params(deep=False)]


def refuse(Estimator, X=X, **options):
    with pytest.raises((ValueError, TypeError)) as caught:
        Estimator(**options).fit(X, y)
    return str(caught.value)


def test_every_estimator_is_here():
    public = {getattr(fisherkit, name) for name in fisherkit.__all__}
    assert {found for found in public if hasattr(found, "fit")} == {*ESTIMATORS, *TABLES}


@pytest.mark.parametrize("value", ["zz", np.nan, object()], ids=["word", "nan", "object"])
@pytest.mark.parametrize(
    ("Estimator", "name"),
    [pair for Estimator in (*ESTIMATORS, *TABLES) for pair in parameters(Estimator)],
)
def test_nonsense_is_refused_by_every_parameter(Estimator, name, value):
    if name == "checkpoint" and isinstance(value, str):
        return  # any word is the path of a file
    said = refuse(Estimator, **{name: value})
    assert name.rstrip("s") in said or repr(value) in said


@pytest.mark.parametrize("value", ["no", 1, 0, None, "False"])
@pytest.mark.parametrize(("Estimator", "name"), FLAGS)
def test_truth_values_are_truth_values(Estimator, name, value):
    assert f"{name}={value!r} is not valid; use True or False" in refuse(Estimator, **{name: value})


@pytest.mark.parametrize(("Estimator", "name"), FLAGS)
def test_truth_values_of_numpy_are_truth_values(Estimator, name):
    Estimator(**{name: np.False_}).fit(X, y)


@pytest.mark.parametrize("Estimator", ESTIMATORS[:-1])
def test_arguments_of_a_callable_have_no_use_with_a_named_kernel(Estimator):
    assert "kernel_params={'zz': 1}" in refuse(Estimator, kernel_params={"zz": 1})
    assert "kernel_params={1: 2}" in refuse(Estimator, kernel_params={1: 2})
    Estimator(kernel_params={}).fit(X, y)


@pytest.mark.parametrize("Estimator", ESTIMATORS[:-1])
@pytest.mark.parametrize(("name", "value"), [("degree", True), ("degree", -1), ("coef0", False)])
def test_numbers_are_numbers_in_their_range(Estimator, name, value):
    assert f"{name}={value!r} is not valid" in refuse(Estimator, **{name: value})


@pytest.mark.parametrize("Estimator", [KernelFisherClassifier, KernelRidgeCV])
def test_what_a_kernel_does_not_use_must_be_valid_too(Estimator):
    assert "gamma='zz'" in refuse(Estimator, kernel="linear", gamma="zz")
    K = X @ X.T
    assert "max_memory='zz'" in refuse(Estimator, K, kernel="precomputed", max_memory="zz")


def test_truth_values_are_no_widths_and_no_penalty():
    assert "gammas=(True,)" in refuse(FisherCommitteeClassifier, gammas=(True,))
    assert "q=True" in refuse(SparseFisherClassifier, q=True)
