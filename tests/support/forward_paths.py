"""Scores of forward selections of every size, from the parts that a path keeps."""

import numpy as np
from scipy.linalg import solve_triangular

from fisherkit.core.forward import _SATURATED


def loo_scores(path, size):
    """Left-out scores (n, k) of the prefix, conditional on the selection; O(n size k)."""
    terms = (path.W[:size] / path.weights.root).T
    residual = path.Y - path.mean - terms @ path.gamma[:size]
    leverage = 1 / path.weights.mass + terms**2 @ (1 / (path.kappa + path.ridge)[:size])
    beta = 1 - path.weights.delta[:, None] * leverage[:, None]
    left_out = path.Y - residual / np.maximum(beta, _SATURATED)
    return np.where(beta < _SATURATED, 0.0, left_out)


def prefix_scores(path, K_new):
    """Scores of all sizes on m new rows, (T + 1, m, k), from K_new (m, T) = k(x, order).

    W_new = (K_new - means) A^-1, then running sums of its columns times gamma; O(m T (T + k)).
    """
    scores = np.empty((len(path.order) + 1, len(K_new), len(path.mean)))
    scores[0] = path.mean
    if len(path.order):
        W = solve_triangular(path.A, (K_new - path.means).T, trans="T", unit_diagonal=True)
        np.multiply(W[:, :, None], path.gamma[:, None, :], out=scores[1:])
        np.cumsum(scores, axis=0, out=scores)
    return scores
