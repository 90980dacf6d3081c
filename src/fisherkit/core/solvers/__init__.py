"""The fit of many rows at one mu, when width and mu are known."""

from fisherkit.core.solvers.many import Solved, solve_many
from fisherkit.core.solvers.rates import Rates, measured
from fisherkit.core.solvers.refined import Factored
from fisherkit.core.solvers.sampled import expected_seconds, leave_out, sample_size
from fisherkit.core.solvers.symmetric import System

__all__ = [
    "Factored",
    "Rates",
    "Solved",
    "System",
    "expected_seconds",
    "leave_out",
    "measured",
    "sample_size",
    "solve_many",
]
