"""Least squares with an lq penalty by the paper's iteration: the slow way to the same minima.

Equation (8), problems and solutions are those of `fisherkit.sparse.lasso`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fisherkit.core import Array
from fisherkit.sparse.descent import KKT, cholesky, norms, solve
from fisherkit.sparse.lasso import How, LeastSquares, Solution, State, _lower_bound


@dataclass(frozen=True)
class Traced(Solution):
    """A solution with J at the start and after each iteration."""

    trace: Array


def mm(
    problem: LeastSquares,
    rho: float,
    q: float,
    *,
    start: Array | None = None,
    tol: float = 1e-8,
    max_iter: int = 10_000,
) -> Traced:
    """The paper's iteration (8) from ``start``, (columns of D, k), or from ridge; O(L^3) a step.

    Ends when the relative duality gap (q = 1) or the estimated relative distance to the limit is
    below ``tol``: the last change (q < 1, rows vanish superlinearly), or that times (2-q) / (q-1)
    (q > 1, the rate is at most 2 - q); or when rounding keeps J from falling. No row reaches zero
    in finitely many steps. Afterwards rows are set to zero, one after the other, where this
    minimises J, |G_j + H_jj A_j| <= lam (q = 1), or where they are below the bound (q < 1).
    """
    lam, S = rho * problem.mass, np.flatnonzero(problem.diagonal > 0)
    H, C = problem.H.block(S), problem.C[S]
    first = solve(cholesky(H, lam), C) if start is None else start[S]
    state = problem.state(S, first)
    trace, converged = [problem.objective(state, lam, q)[0]], False
    while not converged and len(trace) <= max_iter:
        psi = scale(state.A, lam, q)
        trial = problem.state(S, psi * solve(cholesky(psi * H * psi.T, 1.0), psi * C))
        value, gap = problem.objective(trial, lam, q)
        if value > trace[-1]:
            converged = value <= trace[-1] * (1 + KKT)
            break
        if q != 1:
            gap = np.abs(trial.A - state.A).max(initial=0) * ((2 - q) / (q - 1) if q > 1 else 1)
        converged = bool(gap <= tol * (value if q == 1 else np.abs(trial.A).max(initial=0)))
        state = trial
        trace.append(value)
    how = How(n_iter=len(trace) - 1, converged=converged)
    found = vars(problem.solution(_without_zeros(problem, state, lam, q), lam, q, how))
    gap = min(found["gap"], problem.objective(state, lam, q)[1])  # J fell since
    return Traced(**{**found, "gap": gap}, trace=np.array(trace))


def _without_zeros(problem: LeastSquares, state: State, lam: float, q: float) -> State:
    """A state of `mm`, rows that tend to zero at zero; see there."""
    S, A, G = state.S, state.A, state.G.copy()
    size, diagonal = norms(A), problem.diagonal[S]
    keep = size > _lower_bound(diagonal, lam, q)
    if q == 1:
        for i in np.argsort(size):
            if np.sum((G[S[i]] + diagonal[i] * A[i]) ** 2) <= lam * lam:
                keep[i] = False
                G += problem.H.rows(S[i : i + 1]).T * A[i]
    return problem.state(S[keep], A[keep])


def scale(A: Array, lam: float, q: float) -> Array:
    """psi = diag(Psi) / sqrt(lam q), a column."""
    return np.sqrt(norms(A) ** (2 - q) / (lam * q))[:, None]
