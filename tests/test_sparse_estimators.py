"""The sparse classifiers as scikit-learn users meet them."""

import warnings

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fisherkit import ForwardFisherClassifier, SparseFisherClassifier


@parametrize_with_checks(
    [
        SparseFisherClassifier(),
        SparseFisherClassifier(q=0.5, gamma=0.5),
        SparseFisherClassifier(q=1.5, gamma="scale", rho=0.01),
        SparseFisherClassifier(gamma=0.5, penalize_bias=True, select="sparsest"),
        SparseFisherClassifier(gamma=0.5, rho=1e-3, threshold="balanced", class_weight="balanced"),
        ForwardFisherClassifier(),
        ForwardFisherClassifier(criterion="press", gamma="median", evidence=True),
        ForwardFisherClassifier(criterion="err", gamma=0.5, select="sparsest"),
    ]
)
def test_sklearn_compatible(estimator, check):
    with warnings.catch_warnings():
        # scikit-learn's own remark on classes with fewer members than folds
        warnings.filterwarnings("ignore", message="The least populated class")
        check(estimator)
