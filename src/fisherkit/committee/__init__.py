"""Every model on the grid, calibrated on its left-out scores and weighted by its likelihood."""

from fisherkit.committee.fitting import CommitteeFit, fit
from fisherkit.committee.members import COMBINE, Status, table
from fisherkit.committee.streamed import Asked

__all__ = [
    "COMBINE",
    "Asked",
    "CommitteeFit",
    "Status",
    "fit",
    "table",
]
