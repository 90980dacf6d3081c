"""Pictures of fitted models, in scikit-learn's Display convention. Needs matplotlib.

A display that has been drawn has its matplotlib axes in ``ax_`` and its figure in ``figure_``.
"""

from fisherkit.plots.displays import (
    CommitteeDisplay,
    ImportanceDisplay,
    ProjectionDisplay,
    RegularizationPathDisplay,
    RelevanceDisplay,
    SparsityPathDisplay,
)
from fisherkit.plots.loo import AuditDisplay, LearningCurveDisplay, PermutationDisplay, SetDisplay

__all__ = [
    "AuditDisplay",
    "CommitteeDisplay",
    "ImportanceDisplay",
    "LearningCurveDisplay",
    "PermutationDisplay",
    "ProjectionDisplay",
    "RegularizationPathDisplay",
    "RelevanceDisplay",
    "SetDisplay",
    "SparsityPathDisplay",
]
