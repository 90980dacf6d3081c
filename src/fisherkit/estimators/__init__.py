"""What users construct: validation, fit, decisions; no linear algebra here."""

from fisherkit.estimators.base import KernelModel, all_or_nothing
from fisherkit.estimators.bayes import BayesianFisherClassifier
from fisherkit.estimators.committee import FisherCommitteeClassifier
from fisherkit.estimators.decisions import DecisionMixin, DiscriminantMixin
from fisherkit.estimators.fisher import KernelFisherClassifier, KernelRidgeCV
from fisherkit.estimators.sparse import (
    ExpansionMixin,
    ForwardFisherClassifier,
    SparseFisherClassifier,
)
from fisherkit.estimators.view import Inside, inside
