"""Every model on the grid, calibrated on its left-out scores and weighted by its likelihood."""

from fisherkit.committee.fitting import CommitteeFit, families_of, fit
from fisherkit.committee.members import COMBINE, Asked, Status, table
from fisherkit.committee.pricing import KernelFamily, price_budget

__all__ = [
    "COMBINE",
    "Asked",
    "CommitteeFit",
    "KernelFamily",
    "Status",
    "families_of",
    "fit",
    "price_budget",
    "table",
]
