"""A fit is whole, or the estimator is as it was before: every estimator, whatever stops it."""

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
    KernelFisherClassifier(gamma=0.5),
    KernelFisherClassifier(basis="random", n_components=10, max_memory=60_000, random_state=0),
    KernelFisherClassifier(ard=True),
    KernelRidgeCV(gamma=0.5),
    SparseFisherClassifier(gamma=0.5, cv=3),
    ForwardFisherClassifier(gamma=0.5, cv=3),
    BayesianFisherClassifier(n_restarts=1),
    FisherCommitteeClassifier(n_widths=2),
]


def problem(seed=0, n=120):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


class Stopped(BaseException):
    """What Ctrl-C is to a fit."""


def attributes_set_by(model, monkeypatch, X, y):
    """How many attributes of itself a fit sets."""
    count = 0

    def counted(self, name, value):
        nonlocal count
        count += 1
        object.__setattr__(self, name, value)

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "__setattr__", counted, raising=False)
        model.fit(X, y)
    return count


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: repr(model)[:60])
def test_a_fit_stopped_at_any_attribute_leaves_the_model_as_it_was(model, monkeypatch):
    X, y = problem()
    model = clone(model).fit(X, y)
    before, answers = dict(vars(model)), model.predict(X)
    total = attributes_set_by(clone(model), monkeypatch, X, y)
    other, labels = problem(1)
    for last in {0, 1, total // 2, total - 1}:
        left = last

        def stop(self, name, value):
            nonlocal left
            if left == 0:
                raise Stopped
            left -= 1
            object.__setattr__(self, name, value)

        with monkeypatch.context() as patch, pytest.raises(Stopped):
            patch.setattr(type(model), "__setattr__", stop, raising=False)
            model.fit(3 + other, 1 - labels)
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[name] is before[name] for name in before)
        np.testing.assert_array_equal(model.predict(X), answers)


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: repr(model)[:60])
def test_a_refused_refit_leaves_the_model_as_it_was(model):
    X, y = problem()
    model = clone(model).fit(X, y)
    before, answers = dict(vars(model)), model.predict(X)
    holes = X.copy()
    holes[3, 1] = np.nan
    for bad in ((holes, y), (X[:, :1], y[:-1]), (X[:1], y[:1])):
        with pytest.raises(ValueError):
            model.fit(*bad)
        assert all(vars(model)[name] is before[name] for name in before)
    np.testing.assert_array_equal(model.predict(X), answers)
