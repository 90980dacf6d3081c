"""Every model on the grid, calibrated on its left-out scores and weighted by its likelihood."""

from fisherkit.committee.members import Pricing
from fisherkit.committee.streamed import (
    Asked,
    LocalScores,
    ScorePass,
    fit_committee,
    members_within,
    within,
)

__all__ = [
    "Asked",
    "LocalScores",
    "Pricing",
    "ScorePass",
    "fit_committee",
    "members_within",
    "within",
]
