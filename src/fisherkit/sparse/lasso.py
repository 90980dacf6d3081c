"""Sparse expansions: least squares with the penalty sum_j |A_j|^q, 0 < q <= 2.

For targets Y (N, k), kernel columns K (N, L), row weights v of sum m, and rows A_j of A (L, k),

    J(A, b) = 1/2 sum_i v_i |Y_i - b - K_i A|^2 + rho m sum_j |A_j|^q .                          (5)

With several targets a column serves all or none, and their basis, if orthogonal, does not matter.
A free bias is eliminated by centring; a penalised one is the coefficient of a column of ones in
front of K. With lam = rho m and the whitened design D, all that is needed of the data is H = D'D,
C = D'Y and |Y|^2. G = C - HA are the correlations with the residual.

**q = 1** is convex: A is optimal iff G_j = lam A_j / |A_j| on the support and |G_j| <= lam off it.
`lasso_path` takes Newton steps on the support; rows that reach zero leave, violators enter.

**Other q**: |a|^q is concave in |a|^2 and lies below its tangents (6). The minimiser of the
majoriser at A is the next A, with Psi = diag |A_j|^((2-q)/2),

    A <- Psi (Psi H Psi + lam q I)^-1 Psi C ,                                                    (8)

and J never increases. For q < 1 every row is attracted by zero: the limit depends on the
start, and a local minimum has no row with 0 < |A_j| < (lam q (1-q) / H_jj)^(1/(2-q)), where the
second derivative along A_j is negative. `solve_path` starts from an exact lasso and takes Newton
steps beside those of (8). For q = 2 this is ridge regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fisherkit.core import Array, repeated_columns
from fisherkit.sparse.descent import (
    EPS,
    EQUAL,
    KKT,
    PATIENCE,
    STATIONARY,
    bend,
    cholesky,
    corner,
    norms,
    objective,
    rounding,
    solve,
    solve_small,
    steps,
)

_SLACK = 1e-13  # relative rounding of J
_ALL_ROWS = 1024  # up to this width, H is computed whole
_NEAR = 128  # columns beside the support that a working set holds at least
_ZERO = 1e-100  # length of a row of A that is as good as zero
_VANISHING = 0.1  # of the lower bound: from here (8) takes a row to zero for good

Rhos = Sequence[float]


@dataclass(frozen=True)
class Solution:
    """A minimiser of J: f(x) = k(x)[support] @ coef + intercept.

    ``support`` (s,) are the columns of K in use, ascending, possibly none; ``coef`` is (s, k) and
    ``intercept`` (k,). ``gap`` is the duality gap, a bound on J - min J, for q = 1, otherwise nan.
    """

    support: Array
    coef: Array
    intercept: Array
    objective: float
    gap: float
    n_iter: int
    converged: bool


class How(NamedTuple):
    """How a solution was found."""

    n_iter: int
    converged: bool


class State(NamedTuple):
    """Columns of D in use (s,), ascending; their coefficients (s, k); G = C - HA (L, k)."""

    S: Array
    A: Array
    G: Array


class GramRows:
    """Rows of H = D'D (L, L), computed when first asked for, or H itself where it is known."""

    def __init__(self, D: Array, H: Array | None = None) -> None:
        self._D = D
        self._H = D.T @ D if H is None and D.shape[1] <= _ALL_ROWS else H
        self._rows: dict[int, Array] = {}

    def rows(self, index: Array) -> Array:
        """H[index], (len(index), L); O(N L) for each row that is new."""
        if self._H is None:
            new = [j for j in index.tolist() if j not in self._rows]
            if 2 * (len(self._rows) + len(new)) <= self._D.shape[1]:
                self._rows.update(zip(new, self._D[:, new].T @ self._D, strict=True))
                rows = [self._rows[j] for j in index.tolist()]
                return np.reshape(rows, (len(index), self._D.shape[1]))
            self._H = self._D.T @ self._D
        return self._H[index]

    def block(self, index: Array) -> Array:
        return self.rows(index)[:, index] if self._H is None else corner(self._H, index)


@dataclass(frozen=True)
class LeastSquares:
    """A weighted least-squares problem, the penalty left out.

    ``H`` holds D'D with its ``diagonal`` (L,), ``C`` (L, k) is D'Y and ``square`` |Y|^2, where D is
    sqrt(v) K, centred for a free bias, with a column of ones in front for a penalised one. The
    largest eigenvalue of Y'Y / m is ``variance``, one for optimal scores. ``usable`` (L,) is false
    for constant columns and for those that repeat an earlier one.
    """

    H: GramRows = field(repr=False)
    diagonal: Array
    C: Array
    square: float
    variance: float
    mass: float
    column_mean: Array
    target_mean: Array
    usable: Array
    penalize_bias: bool

    @classmethod
    def of(
        cls, K: Array, Y: Array, v: Array, *, penalize_bias: bool = False, gram: Array | None = None
    ) -> LeastSquares:
        """The problem of K (N, L), Y (N, k), weights v (N,) and, if known, H; O(N L k + N L^2)."""
        if penalize_bias:
            K = np.hstack([np.ones((len(K), 1)), K])
        mass, root = float(v.sum()), np.sqrt(v)[:, None]
        free = 0.0 if penalize_bias else 1.0 / mass
        column_mean, target_mean = free * (v @ K), free * (v @ Y)
        Y = root * (Y - target_mean)
        if gram is None:
            D = K - column_mean
            D *= root
            H, diag, C = GramRows(D), np.einsum("ij,ij->j", D, D), D.T @ Y
        else:  # with centred targets, the columns need no centring
            H, diag, C = GramRows(K, gram), np.diagonal(gram).copy(), K.T @ (root * Y)
        # What centring leaves of a constant column is rounding, and so may be correlations.
        constant = diag <= (len(K) * EPS * column_mean) ** 2 * mass
        diag[constant] = C[constant] = 0.0
        square, variance = float(np.sum(Y * Y)), float(np.linalg.norm(Y.T @ Y, 2)) / mass
        C[norms(C) <= 4 * EPS * np.sqrt(diag * square)] = 0.0
        usable = ~(constant | repeated_columns(K, EQUAL))
        return cls(
            H=H,
            diagonal=diag,
            C=C,
            square=square,
            variance=variance,
            mass=mass,
            column_mean=column_mean,
            target_mean=target_mean,
            usable=usable,
            penalize_bias=penalize_bias,
        )

    def state(self, S: Array, A: Array) -> State:
        return State(S, A, self.C - self.H.rows(S).T @ A)

    def objective(self, state: State, lam: float, q: float) -> tuple[float, float]:
        """J, and for q = 1 its distance to the dual objective at tau R, R the residual.

        |R|^2/2 + lam |A| - |Y|^2/2 + |Y - tau R|^2/2, less large terms by Y'R = |R|^2 + <A, G>.
        """
        S, A, G = state
        fit = max(0.5 * (self.square - float(np.sum(A * (self.C[S] + G[S])))), 0.0)
        penalty = lam * float(np.sum(norms(A) ** q))
        tau = min(1.0, lam / max(float(norms(G).max(initial=0.0)), lam))
        gap = max((1 - tau) ** 2 * fit + penalty - tau * float(np.sum(A * G[S])), 0.0)
        return fit + penalty, gap if q == 1 else np.nan

    def solution(self, state: State, lam: float, q: float, how: How) -> Solution:
        """What a state says about the columns of K; ``how`` it was found goes with it."""
        S, A, _ = state
        intercept = self.target_mean - self.column_mean[S] @ A
        if self.penalize_bias:
            intercept = A[S == 0].sum(axis=0)
            S, A = S[S > 0] - 1, A[S > 0]
        value, gap = self.objective(state, lam, q)
        return Solution(
            support=S, coef=A, intercept=intercept, objective=value, gap=gap, **how._asdict()
        )


def solve_path(problem: LeastSquares, rhos: Rhos, q: float) -> list[Solution]:
    """Minimisers for each rho: global for q >= 1, local for q < 1.

    For q < 1 each starts from the lasso at rho / 3, in units where the targets have variance one;
    on its support the gradient vanishes and every row exceeds its lower bound. For q > 1 each
    starts from ridge, and all columns are kept.
    """
    if q == 1:
        return lasso_path(problem, rhos)
    if q == 2:
        states = [(_ridge(problem, 2 * rho * problem.mass), rho * problem.mass) for rho in rhos]
        how = How(n_iter=1, converged=True)
        return [problem.solution(state, lam, q, how) for state, lam in states]
    if q < 1:
        share = (problem.variance or 1.0) ** (0.5 * (q - 1)) / 3
        starts = [state for state, _ in _lasso_states(problem, [share * r for r in rhos], KKT)]
    else:
        starts = [_ridge(problem, rho * problem.mass) for rho in rhos]
    return [_settle(problem, rho, q, start) for rho, start in zip(rhos, starts, strict=True)]


def lasso_path(problem: LeastSquares, rhos: Rhos, *, tol: float = KKT) -> list[Solution]:
    """Exact minimisers for q = 1, each found from that of the next larger rho.

    Ends where no column violates the optimality conditions by more than the relative ``tol`` and
    rounding; ``converged`` if the relative duality gap is then below 10 ``tol``.
    """
    states = zip(rhos, _lasso_states(problem, rhos, tol), strict=True)
    return [problem.solution(state, rho * problem.mass, 1.0, how) for rho, (state, how) in states]


def _ridge(problem: LeastSquares, lam: float) -> State:
    """A = (H + lam I)^-1 C, columns and rows of zeros left out; O(L^3)."""
    S = np.flatnonzero(problem.diagonal > 0)
    A = solve(cholesky(problem.H.block(S), lam), problem.C[S])
    keep = norms(A) > _ZERO
    return problem.state(S[keep], A[keep])


def _lower_bound(diagonal: Array, lam: float, q: float) -> Array:
    """(lam q (1-q) / H_jj)^(1/(2-q)); for q >= 1, what is as good as zero."""
    return (lam * q * (1 - q) / diagonal) ** (1 / (2 - q)) if q < 1 else 0 * diagonal + _ZERO


def _settle(problem: LeastSquares, rho: float, q: float, start: State) -> Solution:
    """A local minimum, q other than 1 and 2, on the support of ``start``: (8) and Newton steps."""
    lam, (S, A, _) = rho * problem.mass, start
    H, C, bound = problem.H.block(S), problem.C[S], _lower_bound(problem.diagonal[S], lam, q)
    HA, size, last = H @ A, norms(A), np.zeros_like(A)
    floor, before, converged, n_iter = _VANISHING, np.inf, False, 0
    while not converged and n_iter < 1000:
        keep = (size > floor * bound).nonzero()[0]
        if len(keep) < len(S):
            S, A, C, bound, H = S[keep], A[keep], C[keep], bound[keep], corner(H, keep)
            HA, size, last, before = H @ A, size[keep], last[keep], np.inf
        curve = lam * q * size ** (q - 2)
        F = HA - C + curve[:, None] * A
        worst = (norms(F) / (curve * size)).max(initial=0.0)
        stuck = worst > 0.5 * before
        blur = rounding(problem.diagonal, S, A, problem.square) if stuck else 0.0
        if worst <= STATIONARY or (stuck and np.all(norms(F) <= KKT * curve * size + blur)):
            # Stationary; with rows below the bound it is a saddle, which they leave for zero.
            floor, converged = 1.0, bool(np.all(size > bound))
            continue
        limit = objective(A, HA, C, lam, q) + _SLACK * problem.square
        convex = bool(np.all(size > bound)) and bend(H, A, last, curve, q) >= 0
        for step in steps(H, A, F, curve, q, convex):
            B = A + step
            HB = H @ B
            if np.all(np.einsum("ij,ij->i", A, B) > 0) and objective(B, HB, C, lam, q) <= limit:
                break
        A, HA, size, last = B, HB, norms(B), step
        floor, before, n_iter = _VANISHING, worst, n_iter + 1
    return problem.solution(problem.state(S, A), lam, q, How(n_iter, converged))


def _lasso_states(problem: LeastSquares, rhos: Rhos, tol: float) -> list[tuple[State, How]]:
    """For each rho the state, and how it was found."""
    values = np.asarray(rhos, dtype=np.float64)
    state = State(np.empty(0, dtype=np.intp), np.empty((0, problem.C.shape[1])), problem.C)
    states = {}
    for i in np.argsort(-values, kind="stable"):
        states[i] = _lasso(problem, float(values[i]) * problem.mass, state, tol)
        state = states[i][0]
    return [states[i] for i in range(len(values))]


def _lasso(problem: LeastSquares, lam: float, state: State, tol: float) -> tuple[State, How]:
    """The lasso from a near-by state: solve it on a working set, check all columns, repeat."""
    C, lowest, n_iter, idle = problem.C, np.inf, 0, 0
    while True:
        n_iter += 1
        W = _working_set(problem, state, lam)
        start = np.zeros_like(C)
        start[state.S] = state.A
        on, A = solve_small(problem.H.block(W), C[W], lam, start[W], tol, problem.square)
        state = problem.state(W[on], A)
        outside = np.delete(np.where(problem.usable, norms(state.G), 0.0), state.S)
        value, gap = problem.objective(state, lam, 1.0)
        limit = lam * (1 + tol) + rounding(problem.diagonal, state.S, A, problem.square)
        lowest, idle = (value, 0) if value < lowest * (1 - _SLACK) else (lowest, idle + 1)
        if idle == PATIENCE or outside.max(initial=0.0) <= limit:
            return state, How(n_iter, gap <= 10 * tol * value)


def _working_set(problem: LeastSquares, state: State, lam: float) -> Array:
    """The support and the columns of largest correlation, at least as many.

    At the start these would all be neighbours: there, violators are taken evenly instead.
    """
    size, s = np.where(problem.usable, norms(state.G), -1.0), len(state.S)
    size[state.S] = np.inf
    order = np.argsort(-size, kind="stable")[: np.count_nonzero(problem.usable)]
    w = s + max(_NEAR, s)
    if s == 0:
        violators = max(int(np.count_nonzero(size > lam)), w)
        order = order[: violators : violators // w]
    return np.sort(order[:w])
