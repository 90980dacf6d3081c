"""Pictures of fitted models, in scikit-learn's Display convention. Needs matplotlib."""

from fisherkit.plots.displays import (
    CommitteeDisplay,
    ProjectionDisplay,
    RegularizationPathDisplay,
    RelevanceDisplay,
    SparsityPathDisplay,
)
from fisherkit.plots.loo import AuditDisplay, LearningCurveDisplay, PermutationDisplay, SetDisplay

__all__ = [
    "AuditDisplay",
    "CommitteeDisplay",
    "LearningCurveDisplay",
    "PermutationDisplay",
    "ProjectionDisplay",
    "RegularizationPathDisplay",
    "RelevanceDisplay",
    "SetDisplay",
    "SparsityPathDisplay",
]
