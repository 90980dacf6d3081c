"""A plain least-squares kernel classifier tuned by leave-one-out: what fisherkit is compared with.

Dense `eigh` of the RBF kernel matrix at every width, free bias, penalty mu f'K^-1 f, PRESS over
25 regularisation values. It shares no code with fisherkit. Run as a script, it checks itself
against refits with one row left out.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from sklearn.metrics.pairwise import euclidean_distances

MU_GRID = 2.0 ** np.arange(-14, 11)  # in units of tr(K)/n
WIDTH_GRID = 2.0 ** np.arange(-3, 3.5, 0.5)  # in units of the root of the summed feature variances


@dataclass(frozen=True)
class Reference:
    """A fitted model f(x) = sum_i exp(-gamma |x - x_i|^2) coef_i + bias, and its PRESS."""

    X: np.ndarray  # (n, d)
    coef: np.ndarray  # (n,)
    bias: float
    gamma: float
    mu: float
    press: float

    def decision_function(self, X: np.ndarray, block: int = 1024) -> np.ndarray:
        scores = np.empty(len(X))
        for start in range(0, len(X), block):
            rows = slice(start, start + block)
            kernel = np.exp(-self.gamma * euclidean_distances(X[rows], self.X, squared=True))
            scores[rows] = kernel @ self.coef + self.bias
        return scores


def loo_residuals(K: np.ndarray, y: np.ndarray, mus: np.ndarray) -> np.ndarray:
    """Leave-one-out residuals of y (n,) at every mu, shape (n, len(mus)); one eigh, two GEMMs.

    residual_i = alpha_i / A_ii with A = M^-1 - M^-1 1 1' M^-1 / 1'M^-1 1 and M = K + mu I.
    """
    lam, V = np.linalg.eigh(K)
    g = 1 / (np.maximum(lam, 0)[:, None] + mus)
    zeta, xi = V.sum(axis=0)[:, None], (V.T @ y)[:, None]
    S = (g * zeta**2).sum(axis=0)
    bias = (g * zeta * xi).sum(axis=0) / S
    alpha, a = np.hsplit(V @ np.hstack([g * (xi - zeta * bias), g * zeta]), 2)
    A_diagonal = V**2 @ g - a**2 / S
    return alpha / A_diagonal


def solve(K: np.ndarray, y: np.ndarray, mu: float) -> tuple[np.ndarray, float]:
    """Coefficients and free bias of (K + mu I) coef + bias = y, 1'coef = 0."""
    factor = scipy.linalg.cho_factor(K + mu * np.eye(len(K)))
    fit_y, fit_one = scipy.linalg.cho_solve(factor, np.column_stack([y, np.ones(len(y))])).T
    bias = fit_y.sum() / fit_one.sum()
    return fit_y - bias * fit_one, float(bias)


def fit(X: np.ndarray, y: np.ndarray, widths: np.ndarray = WIDTH_GRID) -> Reference:
    """Least PRESS over widths x MU_GRID for targets y of -1 and +1."""
    distances = euclidean_distances(X, squared=True)
    best = (np.inf, np.nan, np.nan)
    for gamma in 1 / (2 * X.var(axis=0).sum() * widths**2):
        press = np.mean(loo_residuals(np.exp(-gamma * distances), y, MU_GRID) ** 2, axis=0)
        best = min(best, (press.min(), gamma, MU_GRID[press.argmin()]))
    press, gamma, mu = map(float, best)
    coef, bias = solve(np.exp(-gamma * distances), y, mu)
    return Reference(X, coef, bias, gamma, mu, press)


def _check_against_refits() -> float:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.where(rng.random(40) < 0.4, 1.0, -1.0)
    X[1] = X[0]
    K = np.exp(-0.3 * euclidean_distances(X, squared=True))
    closed = loo_residuals(K, y, MU_GRID)
    refitted = np.empty_like(closed)
    for i, j in np.ndindex(closed.shape):
        keep = np.arange(len(y)) != i
        coef, bias = solve(K[np.ix_(keep, keep)], y[keep], MU_GRID[j])
        refitted[i, j] = y[i] - K[i, keep] @ coef - bias
    return float(np.max(np.abs(closed - refitted) / np.sqrt(np.mean(refitted**2, axis=0))))


if __name__ == "__main__":
    print(f"leave-one-out against refits, max|dr|/rms(r): {_check_against_refits():.1e}")
