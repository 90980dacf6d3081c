"""The fit of many rows at one mu, when width and mu are known."""

from fisherkit.core.solvers.refined import HalfResolvent, solve_refined

__all__ = ["HalfResolvent", "solve_refined"]
