"""Kernel discriminants that tune themselves."""

from fisherkit.bayes_estimator import BayesianFisherClassifier
from fisherkit.committee_estimator import FisherCommitteeClassifier
from fisherkit.estimators import KernelFisherClassifier, KernelRidgeCV
from fisherkit.inspection import audit
from fisherkit.sparse_estimators import ForwardFisherClassifier, SparseFisherClassifier

__version__ = "0.1.0"

__all__ = [
    "BayesianFisherClassifier",
    "FisherCommitteeClassifier",
    "ForwardFisherClassifier",
    "KernelFisherClassifier",
    "KernelRidgeCV",
    "SparseFisherClassifier",
    "audit",
]
