"""Weights of stacked members: the logits of all together, fitted to left-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fisherkit.core import Array, arrays
from fisherkit.tuning import DAMPING, MAX_STEPS, Likelihood, Parts, log_normaliser

_SHRINK = 0.05  # of stacked weights towards the average


def stack(parts: Parts, columns: Sequence[Any], omega: Array, k: int) -> tuple[Array, Array]:
    """v (q,) and b_0 (k,) that minimise the loss of b_0 + sum_j v_j U_j + 0.05 |v - omega|^2.

    Projected Newton steps from omega; the logits U_j of the members are those of all ``columns``.
    """
    xp = arrays.namespace(omega)
    q = omega.shape[0]
    pull = arrays.like(2 * _SHRINK * (np.arange(q + k) < q), omega)
    ridge = np.zeros((q + k, q + k))
    ridge[q:, q:] = k > 1  # as in `_derivatives`
    ridge = ridge + np.diag(arrays.to_numpy(pull)) + DAMPING * np.eye(q + k)
    ridge = arrays.like(ridge, omega)
    home = xp.concat([omega, arrays.zeros((k,), omega)], axis=0)
    bounded = pull > 0

    def objective(x: Array) -> float:
        shrink = 0.5 * float(xp.sum(pull * (x - home) ** 2))
        return float(parts.total(_stacked_loss, columns, x)[0]) + shrink

    x, value = home, objective(home)
    for _ in range(MAX_STEPS):
        gradient, H = parts.total(_stacked_derivatives, columns, x)
        gradient, H = gradient + pull * (x - home), H + ridge
        free = xp.astype(~(bounded & (x <= 0) & (gradient > 0)), x.dtype)
        H = H * free[:, None] * free[None, :] + xp.linalg.diagonal(H)[None, :] * (
            arrays.like(np.eye(q + k), omega) * (1 - free)[None, :]
        )
        step = -xp.linalg.solve(H, (free * gradient)[:, None])[:, 0]
        length = 1.0
        while length > 1e-12:
            trial = x + length * step
            trial = xp.where(bounded & (trial < 0), xp.zeros_like(trial), trial)
            new = objective(trial)
            if new <= value + 4 * arrays.eps(omega) * abs(value):
                break
            length /= 2
        else:
            break
        moved = float(xp.max(xp.abs(trial - x)))
        x, value = trial, new
        if moved <= 1e-12:
            break
    return x[:q], x[q:]


def _stacked(pieces: Sequence[Array]) -> Array:
    """Logits of the members, and a unit vector for each offset; (b, k, q + k)."""
    xp = arrays.namespace(*pieces)
    n, k = pieces[0].shape[:2]
    return xp.concat([*pieces, arrays.like(np.tile(np.eye(k), (n, 1, 1)), pieces[0])], axis=2)


def _stacked_loss(rows: Likelihood, pieces: Sequence[Array], x: Array) -> tuple[Array]:
    logits = arrays.namespace(x).matmul(_stacked(pieces), x)
    return (rows.loss(logits[:, :, None])[0],)


def _stacked_derivatives(
    rows: Likelihood, pieces: Sequence[Array], x: Array
) -> tuple[Array, Array]:
    """Gradient and Hessian of the loss in the weights of all members and the offsets."""
    xp = arrays.namespace(x)
    A = _stacked(pieces)
    P = log_normaliser(xp.matmul(A, x)[:, :, None])[1][:, :, 0]
    gradient = rows.share @ xp.sum((P - rows.target)[:, :, None] * A, axis=1)
    pulled = xp.sum(P[:, :, None] * A, axis=1)
    H = -pulled.T @ (rows.share[:, None] * pulled)
    for c in range(A.shape[1]):
        H = H + A[:, c, :].T @ ((rows.share * P[:, c])[:, None] * A[:, c, :])
    return gradient, H
