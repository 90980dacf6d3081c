"""Every model on the grid, calibrated on its left-out scores and weighted by its likelihood."""

from fisherkit.committee.fitting import CommitteeFit, families_of, fit
from fisherkit.committee.learning import Rows, deal, learned_folds
from fisherkit.committee.members import COMBINE, Asked, Status, table
from fisherkit.committee.pricing import KernelFamily, price_budget

__all__ = [
    "COMBINE",
    "Asked",
    "CommitteeFit",
    "KernelFamily",
    "Rows",
    "Status",
    "deal",
    "families_of",
    "fit",
    "learned_folds",
    "price_budget",
    "table",
]
