"""The march over kernel widths beside two other ways to choose width and mu by PRESS.

The march is KernelFisherClassifier(). The scan prices 25 widths x 25 mu by dense eigh
(reference.py). The descent minimises PRESS over (log gamma, log mu) by L-BFGS from three starts,
with the exact gradient of a dense inverse. PRESS reached and time of each, side by side.
"""

import argparse
from functools import partial

import numpy as np
import reference
import scipy.linalg
import scipy.spatial.distance
from _common import Row, draw, print_table, timed, write_csv
from scipy.optimize import minimize

from fisherkit import KernelFisherClassifier

FAMILIES = ("banana", "torus", "gauss10")
SIZES = (400, 1000)
DENSE_WIDTHS = 2.0 ** np.arange(-3, 3.25, 0.25)
STARTS = 2.0 ** np.array([1.0, 0.0, -1.0])  # widths in units of the spread of the data


def press(theta: np.ndarray, D: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """PRESS of the rkhs model with a free bias, and its gradient, at (log gamma, log mu).

    D holds squared distances. With A the inverse of K + mu I with the bias projected out,
    r = (A y) / diag(A), q = 2 r / (n diag(A)) and u = A q:  dPRESS = <B, dM> with
    B = A diag(q r) A - ((A y) u' + u (A y)')/2.
    """
    gamma, mu = np.exp(theta)
    n = len(y)
    K = np.exp(-gamma * D)
    factor = scipy.linalg.cho_factor(K + mu * np.eye(n), lower=True)
    A = scipy.linalg.cho_solve(factor, np.eye(n))
    ones = A.sum(axis=1)
    A -= np.outer(ones, ones) / ones.sum()
    diagonal, alpha = np.diagonal(A), A @ y
    r = alpha / diagonal
    q = 2 * r / (n * diagonal)
    B = (A * (q * r)) @ A - np.outer(alpha, A @ q)
    return np.mean(r**2), np.array([-gamma * np.sum(B * D * K), mu * np.trace(B)])


def descend(X: np.ndarray, y: np.ndarray) -> float:
    D = scipy.spatial.distance.cdist(X, X, "sqeuclidean")
    spread = X.var(axis=0).sum()
    box = [np.log(np.array([1e-4, 1e3]) / spread), np.log([1e-8, 1e6])]
    ends = [
        minimize(
            press, np.log([0.5 / (spread * w**2), 0.1]), (D, y), "L-BFGS-B", jac=True, bounds=box
        )
        for w in STARTS
    ]
    return min(end.fun for end in ends)


def compare(family: str, n: int, seed: int) -> Row:
    X, y, _, _ = draw(family, n, seed)
    signs = np.where(y == y.max(), 1.0, -1.0)
    march_s, model = timed(partial(KernelFisherClassifier(random_state=0).fit, X, signs))
    scan_s, scan = timed(partial(reference.fit, X, signs, DENSE_WIDTHS))
    descent_s, descent = timed(partial(descend, X, signs))
    reached = float(np.mean((signs - model.loo_decision_) ** 2))
    return {
        "family": family,
        "n": n,
        "seed": seed,
        "method": model.selection_.method,
        "march_press": reached,
        "scan_press": scan.press,
        "descent_press": descent,
        "excess_over_scan_percent": 100 * (reached / scan.press - 1),
        "excess_over_descent_percent": 100 * (reached / descent - 1),
        "march_widths": len(np.unique(model.selection_.path["gamma"])),
        "march_s": march_s,
        "scan_s": scan_s,
        "descent_s": descent_s,
        "march_over_descent_time": march_s / descent_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    options = parser.parse_args()
    # The first call of a process pays for thread pools and lazy imports.
    KernelFisherClassifier().fit(*draw("torus", 600, 0)[:2])
    rows = [
        compare(family, n, seed)
        for family in FAMILIES
        for n in SIZES
        for seed in range(options.draws)
    ]
    print_table(rows)
    write_csv("width_search", rows)


if __name__ == "__main__":
    main()
