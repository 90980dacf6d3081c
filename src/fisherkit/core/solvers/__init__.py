"""The fit of many rows at one mu, when width and mu are known."""

from fisherkit.core.solvers.many import Solved, solve_many
from fisherkit.core.solvers.rates import Rates, measured
from fisherkit.core.solvers.sampled import expected_seconds, sample_size

__all__ = ["Rates", "Solved", "expected_seconds", "measured", "sample_size", "solve_many"]
