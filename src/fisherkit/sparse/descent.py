"""Minima of sparse least squares on a support: Newton steps and the steps of (8).

`sparse` says what J, H, C and lam are, and which columns are on a support.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import lapack

from fisherkit.core import Array

EPS = float(np.finfo(np.float64).eps)
KKT = 1e-9  # relative violation of the optimality conditions that is accepted
STATIONARY = 1e-11  # relative gradient, or distance to the minimum, that iterations aim at
EQUAL = 1e-11  # relative distance at which columns, or their correlations, are equal
PATIENCE = 5  # Newton steps that lower neither J nor its gradient
_JITTERS = (1e-13, 1e-11, 1e-8)  # of the largest element of H: Gaussian columns nearly repeat
_LARGE = 100  # rows from which a factorisation costs more than a few solutions
_ENTRIES = 8  # columns that enter between two descents

Rows = tuple[Array, Array]  # which rows of A are not zero, and these rows


def solve_small(H: Array, C: Array, lam: float, A: Array, tol: float, square: float) -> Rows:
    """The lasso of a small problem, H (w, w) and C (w, k), from A (w, k).

    Descend on the support, then let the worst violators enter, until there are none. Each takes the
    minimiser of its own row, the others held, so that its neighbours need not follow it.
    """
    diagonal, on = np.diagonal(H), np.flatnonzero(A.any(axis=1))
    A = A[on]
    descend = descend_binary if C.shape[1] == 1 else descend_group
    for _ in range(_ENTRIES * 8):
        left, A = descend(corner(H, on), C[on], lam, A)
        on = on[left]
        G = C - H[on].T @ A
        size = norms(G)
        size[on] = 0.0
        worst = size.max(initial=0.0)
        if worst <= lam * (1 + tol) + rounding(diagonal, on, A, square):
            break
        new: list[int] = []
        bar = 0.5 * (lam + worst)
        while worst > bar and len(new) < _ENTRIES:
            j = int(np.argmax(size >= worst * (1 - EQUAL)))
            new.append(j)
            A = np.concatenate([A, G[j : j + 1] * ((1 - lam / size[j]) / diagonal[j])])
            G -= H[j][:, None] * A[-1]
            size = norms(G)
            size[on] = size[new] = 0.0
            worst = size.max()
        on = np.concatenate([on, new])
    order = np.argsort(on)
    return on[order], A[order]


def descend_binary(H: Array, C: Array, lam: float, A: Array) -> Rows:
    """The lasso of one target on a support: what is left of it, and its coefficients.

    With signs given, H w = c - lam sign(w). The step there ends where the first coefficient reaches
    zero; that one leaves. The jitter of H is made up for by the next step.

    A large H is factorised once: the step that leaves the coefficients ``gone`` at zero is x - V m,
    where Hx is the residual, V (s, g) has their columns of H^-1, and V[gone] m = x[gone].
    """
    w, sign, left = A[:, 0], np.sign(A[:, 0]), np.arange(len(A))
    aim, top = C[:, 0] - lam * sign, H.max(initial=0.0)
    gone: list[int] = []
    V, R, before, idle = np.empty((len(w), 0)), None, np.inf, 0
    while len(gone) < len(w) and idle < PATIENCE:
        residual = aim - H @ w
        if gone:
            residual[gone] = 0.0
        worst, noise = np.abs(residual).max(), 4 * EPS * top * np.abs(w).sum()
        stuck = worst > 0.5 * before
        if worst <= max(STATIONARY * lam, noise) or (stuck and worst <= KKT * lam):
            break
        if gone and (stuck or len(w) < _LARGE):  # stuck: perhaps for want of digits in V
            keep = sign.nonzero()[0]
            left, w, sign, aim, residual = (x[keep] for x in (left, w, sign, aim, residual))
            H, R, V, gone = corner(H, keep), None, np.empty((len(keep), 0)), []
        R = cholesky(H, _JITTERS[0] * top) if R is None else R
        step = solve(R, residual)
        if gone:
            if V.shape[1] < len(gone):
                unit = np.zeros((len(w), 1))
                unit[gone[-1]] = 1.0
                V = np.hstack([V, solve(R, unit)])
            _, m, info = lapack.dposv(V[gone], step[gone])
            if info:
                before = 0.0
                continue
            step -= V @ m
            step[gone] = 0.0
        if stuck:  # H is smaller than its jitter along this step: go as far as H alone would
            step *= residual @ step / max(step @ (H @ step), EPS * (residual @ step))
        crossed = ((w + step) * sign <= np.abs(sign) - 1).nonzero()[0]  # none that is gone
        if not len(crossed):
            w, before, idle = w + step, min(before, worst), idle + stuck
            continue
        t = w[crossed] / -step[crossed]
        first = t.argmin()
        w, before, idle = w + t[first] * step, np.inf, 0
        gone.append(int(crossed[first]))
        w[gone[-1]] = sign[gone[-1]] = 0.0
    keep = sign.nonzero()[0]
    return left[keep], w[keep, None]


def descend_group(H: Array, C: Array, lam: float, A: Array) -> Rows:
    """What `descend_binary` does, for several targets: Newton steps that lower J."""
    left, HA, before, idle = np.arange(len(A)), H @ A, np.inf, 0
    while idle < PATIENCE:
        size = norms(A)
        U = A / size[:, None]
        F = HA - C + lam * U
        worst = norms(F).max(initial=0.0)
        if worst <= STATIONARY * lam or 0.5 * before < worst <= KKT * lam:
            break
        step = next(steps(H, A, F, lam / size, 1.0, convex=True))
        inward = np.sum(U * step, axis=1)
        crossing = np.full(len(size), np.inf)
        np.divide(-size, inward, out=crossing, where=inward < 0)
        crossing[size * np.diagonal(H) <= EQUAL * lam] = 0.0  # no step can tell these from zero
        value = objective(A, HA, C, lam, 1.0)
        slack = 8 * EPS * (abs(value) + (np.sqrt(np.diagonal(H)) @ size) ** 2)  # rounding of J
        t, gain, first = 1.0, -np.inf, crossing[crossing > 0].min(initial=np.inf)
        while gain < -slack and t > EPS:
            keep = crossing > t * (1 + EQUAL)
            B = np.where(keep[:, None], A + t * step, 0.0)
            HB = H @ B
            gain = value - objective(B, HB, C, lam, 1.0)
            t = first if t > first else 0.5 * t
        if gain < -slack:
            break
        idle = idle + 1 if gain <= slack and worst > 0.5 * before else 0
        A, HA, before = B, HB, min(before, worst)
        if not keep.all():
            left, A, HA, H, C = left[keep], A[keep], HA[keep], H[keep][:, keep], C[keep]
    return left, A


def bend(H: Array, A: Array, V: Array, curve: Array, q: float) -> float:
    """The second derivative of J along V (s, k), ``curve`` (s,) being lam q |A_j|^(q-2).

    Steps of (8) go where J bends down, so that the last one often tells that the Hessian, which
    `steps` describes, is not positive definite; O(s^2), not O(s^3).
    """
    radial = np.einsum("ij,ij->i", A, V) / norms(A)
    return float(np.vdot(V, H @ V) + curve @ (norms(V) ** 2 - (2 - q) * radial**2))


def steps(H: Array, A: Array, F: Array, curve: Array, q: float, convex: bool) -> Iterator[Array]:
    """The Newton step from A (s, k), no row zero, and the step of (8); F is the gradient of J.

    With ``curve`` (s,) = lam q |A_j|^(q-2), the matrix of (8) is M = H + diag(curve), and its step
    x = -M^-1 F. The Hessian is M x I_k less blocks (2-q) w_j w_j', w_j = sqrt(curve_j) A_j / |A_j|,
    and the Newton step x + M^-1 diag(y) W with (I / (2-q) - M^-1 o WW') y = diag(Wx'):
    O(s^3 + s^2 k), not O(s^3 k^3); for k = 1 the Hessian is H - (1-q) diag(curve). Where it is not
    positive definite, which the caller may know (``convex`` false), there is no Newton step.
    """
    if A.shape[1] == 1 and convex:
        R, info = factor(H, (q - 1) * curve)
        if not info:
            yield -solve(R, F)
    R = cholesky(H, curve)
    x = -solve(R, F)
    if A.shape[1] > 1 and convex:
        W = A * (np.sqrt(curve) / norms(A))[:, None]
        inner = -lapack.dpotri(R, lower=1)[0] * (W @ W.T).T
        inner.T.ravel()[:: len(A) + 1] += 1 / (2 - q) + _JITTERS[1]
        _, y, info = lapack.dposv(inner, np.sum(W * x, axis=1), lower=1, overwrite_a=1)
        if not info:
            yield x + solve(R, y[:, None] * W)
    yield x


def objective(A: Array, HA: Array, C: Array, lam: float, q: float) -> float:
    """J - |Y|^2 / 2."""
    return float(0.5 * np.vdot(A, HA - 2 * C) + lam * (norms(A) ** q).sum())


def cholesky(H: Array, ridge: float | Array) -> Array:
    """The lower factor R of H + diag(ridge) = RR', jittered where it is singular to rounding."""
    for jitter in (0.0, *_JITTERS[1:]):
        R, info = factor(H, ridge + (jitter and jitter * H.max()))
        if info == 0:
            return R
    raise np.linalg.LinAlgError("the kernel columns are not finite, or rho is below rounding")


def factor(H: Array, ridge: float | Array) -> tuple[Array, int]:
    """The lower factor of H + diag(ridge), with rubbish above it; not 0 where there is none.

    OpenBLAS is a quarter faster with the lower factor.
    """
    shifted = H.copy()
    shifted.ravel()[:: len(H) + 1] += ridge
    return lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)


def solve(R: Array, B: Array) -> Array:
    return lapack.dpotrs(R, B, lower=1)[0] if len(B) else B


def corner(H: Array, keep: Array) -> Array:
    return H.take(keep, axis=0).take(keep, axis=1)


def norms(A: Array) -> Array:
    """Lengths of the rows."""
    return np.abs(A[:, 0]) if A.shape[1] == 1 else np.sqrt(np.einsum("ij,ij->i", A, A))


def rounding(diagonal: Array, S: Array, A: Array, square: float) -> float:
    """A scale of the rounding of G."""
    reach = np.sqrt(square) + np.sqrt(diagonal[S]) @ norms(A)
    return 4 * EPS * float(np.sqrt(diagonal.max(initial=0.0)) * reach)
