"""Kernel discriminants that tune themselves."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fisherkit.estimators import (
        BayesianFisherClassifier,
        FisherCommitteeClassifier,
        ForwardFisherClassifier,
        KernelFisherClassifier,
        KernelRidgeCV,
        SparseFisherClassifier,
    )
    from fisherkit.inspection import audit
    from fisherkit.methods import TableClassifier, TableRegressor

__version__ = "0.1.0"

__all__ = [
    "BayesianFisherClassifier",
    "FisherCommitteeClassifier",
    "ForwardFisherClassifier",
    "KernelFisherClassifier",
    "KernelRidgeCV",
    "SparseFisherClassifier",
    "TableClassifier",
    "TableRegressor",
    "audit",
]

# Imported when asked for: the command shows its help without waiting for scikit-learn.
_HOMES = {
    "BayesianFisherClassifier": "estimators.bayes",
    "FisherCommitteeClassifier": "estimators.committee",
    "ForwardFisherClassifier": "estimators.sparse",
    "KernelFisherClassifier": "estimators.fisher",
    "KernelRidgeCV": "estimators.fisher",
    "SparseFisherClassifier": "estimators.sparse",
    "TableClassifier": "methods",
    "TableRegressor": "methods",
    "audit": "inspection.auditing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fisherkit' has no attribute {name!r}")
    value = getattr(import_module(f"fisherkit.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
