"""The fit of many rows at one mu, when width and mu are known."""

from fisherkit.core.solvers.distil import Original
from fisherkit.core.solvers.limits import UNLIMITED, Limits
from fisherkit.core.solvers.many import Solved, solve_many
from fisherkit.core.solvers.rates import Rates, measured
from fisherkit.core.solvers.refined import Factored
from fisherkit.core.solvers.sampled import (
    expected_seconds,
    factor_held,
    half_held,
    leave_out,
    preconditioner_rank,
    sample_size,
)
from fisherkit.core.solvers.symmetric import System

__all__ = [
    "UNLIMITED",
    "Factored",
    "Limits",
    "Original",
    "Rates",
    "Solved",
    "System",
    "expected_seconds",
    "factor_held",
    "half_held",
    "leave_out",
    "measured",
    "preconditioner_rank",
    "sample_size",
    "solve_many",
]
