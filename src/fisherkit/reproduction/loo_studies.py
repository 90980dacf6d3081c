"""Leave-one-out of the kernel Fisher discriminant, by four routes, on the torus of the papers.

Saadi et al. (2007) and Cawley and Talbot (2003) solve, with Z = [K 1] and R = diag(mu, ..., mu, 0),

    (Z'Z + R) [alpha; b] = Z'y,        leave-one-out residual = (y - yhat)_i / (1 - h_ii).

"direct" refits without each row, "closed" has the hat matrix of each mu, "canonical" decomposes
K'K once as the paper prints it, and "ours" is the core of this package. Routes are timed by the
processor time of one thread.
"""

import time
from collections.abc import Callable

import numpy as np
from scipy.linalg import cholesky, solve, solve_triangular
from sklearn.metrics.pairwise import rbf_kernel

from fisherkit.core import FREE, Decomposer, Design, Gram, Kernel, RidgePath, Weights
from fisherkit.datasets import make_torus
from fisherkit.estimators import KernelFisherClassifier
from fisherkit.reproduction.tasks import Result, rounded
from fisherkit.reproduction.trials import options

GAMMA = 0.5
MUS = 2.0 ** np.arange(-10, 11)
TEST_ROWS = 4000
ROUNDING = 1e-15  # relative squared differences below it are not told apart
_BUDGET = 1e-4  # trace that our low-rank form may leave out, relative to the smallest mu

# seconds before the search, and leave-one-out residuals (n, number of mu) after it
Route = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[float, np.ndarray]]


def draw(n: int, trial: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the torus, and +1 for the blob, -1 for the annulus."""
    X, y = make_torus(n, random_state=trial)
    return X, np.where(y == 1, 1.0, -1.0)


def direct(X: np.ndarray, y: np.ndarray, mus: np.ndarray) -> tuple[float, np.ndarray]:
    """One refit for each row and mu, from the n - 1 rows that are left."""
    return 0.0, np.column_stack([refits(X, y, mu) for mu in mus])


def refits(X: np.ndarray, y: np.ndarray, mu: float, *, keep_centre: bool = False) -> np.ndarray:
    """Residual of each row in the fit without it, its kernel dropped as well or kept; (n,)."""
    n = len(y)
    Z = np.append(rbf_kernel(X, gamma=GAMMA), np.ones((n, 1)), axis=1)
    residuals = np.empty(n)
    for i in range(n):
        rows = np.arange(n) != i
        columns = rows | keep_centre
        kept = Z[rows][:, np.append(columns, True)]
        C = kept.T @ kept
        C.flat[: -len(C) : len(C) + 1] += mu
        coef = solve(C, kept.T @ y[rows], assume_a="pos")
        residuals[i] = y[i] - Z[i, np.append(columns, True)] @ coef
    return residuals


def closed(X: np.ndarray, y: np.ndarray, mus: np.ndarray) -> tuple[float, np.ndarray]:
    """Cawley and Talbot: the hat matrix of each mu."""
    start = time.process_time()
    n = len(y)
    Z = np.append(rbf_kernel(X, gamma=GAMMA), np.ones((n, 1)), axis=1)
    products = Z.T @ Z
    before = time.process_time() - start
    residuals = np.empty((n, len(mus)))
    for j, mu in enumerate(mus):
        C = products.copy()
        C.flat[: -(n + 1) : n + 2] += mu
        root = cholesky(C, lower=True, overwrite_a=True, check_finite=False)
        W = solve_triangular(root, Z.T, lower=True, check_finite=False)
        leverage = np.einsum("ij,ij->j", W, W)
        residuals[:, j] = (y - W.T @ (W @ y)) / (1 - leverage)
    return before, residuals


def canonical(X: np.ndarray, y: np.ndarray, mus: np.ndarray) -> tuple[float, np.ndarray]:
    """Saadi et al., section 3.4: K'K = V diag(lam) V', U = K V, every mu from these."""
    start = time.process_time()
    n = len(y)
    K = rbf_kernel(X, gamma=GAMMA)
    lam, V = np.linalg.eigh(K.T @ K)
    lam = np.maximum(lam, 0.0)
    U = K @ V
    squares, zeta, xi = U**2, U.sum(axis=0), U.T @ y
    before = time.process_time() - start
    residuals = np.empty((n, len(mus)))
    for j, mu in enumerate(mus):
        g = 1 / (lam + mu)
        eta = U @ (g * zeta)
        S = n - np.sum(g * zeta**2)
        fitted = U @ (g * xi) + (eta - 1) / S * (eta @ y - y.sum())
        leverage = squares @ g + (1 - eta) ** 2 / S
        residuals[:, j] = (y - fitted) / (1 - leverage)
    return before, residuals


def ours(X: np.ndarray, y: np.ndarray, mus: np.ndarray) -> tuple[float, np.ndarray]:
    """The canonical form of this package: low rank where it is low, no 1 - h."""
    start = time.process_time()
    design = Design(
        gram=Gram(X, Kernel("rbf", gamma=GAMMA)),
        weights=Weights.unit(X),
        penalty="coefficients",
        bias=FREE,
        basis="auto",
        n_components=None,
        rows=None,
        seed=0,
    )
    form = Decomposer(design).decompose(GAMMA, lambda unit: _BUDGET * float(mus.min())).canonical
    before = time.process_time() - start
    return before, RidgePath.of(form, y[:, None]).held_out(list(mus))[:, 0, :]


ROUTES: dict[str, Route] = {
    "direct": direct,
    "closed": closed,
    "canonical": canonical,
    "ours": ours,
}


def timed(
    route: Route, X: np.ndarray, y: np.ndarray, mus: np.ndarray
) -> tuple[float, float, np.ndarray]:
    """Seconds in all and of the search, and the residuals; a small run goes first, untimed."""
    route(X[:8], y[:8], mus)
    start = time.process_time()
    before, residuals = route(X, y, mus)
    total = time.process_time() - start
    return total, total - before, residuals


def mu_search(setting: str, trial: int) -> Result:
    """Time of the best of 21 mu by leave-one-out; "route=closed n=64"."""
    chosen = options(setting)
    X, y = draw(int(chosen["n"]), trial)
    total, search, residuals = timed(ROUTES[chosen["route"]], X, y, MUS)
    press = np.mean(residuals**2, axis=0)
    best = int(np.argmin(press))
    return {
        "log2_mu": int(np.log2(MUS[best])),
        "press": rounded(float(press[best]), 4),
        "total_seconds": rounded(total, 4),
        "search_seconds": rounded(search, 4),
    }


def approximation(setting: str, trial: int) -> Result:
    """Closed forms beside refits at one mu, "n=64 mu=1": relative squared error, and times.

    ``removed``: refits whose kernel expansion loses the left-out row too. ``kept``: refits that
    keep its kernel, of which the closed form is exact.
    """
    chosen = options(setting)
    X, y = draw(int(chosen["n"]), trial)
    mus = np.array([float(chosen["mu"])])
    seconds, residuals = {}, {}
    for name, route in ROUTES.items():
        seconds[name], _, left_out = timed(route, X, y, mus)
        residuals[name] = left_out[:, 0]
    kept = refits(X, y, mus[0], keep_centre=True)
    result: Result = {}
    for name in ("closed", "canonical", "ours"):
        result[f"removed_{name}"] = relative_error(residuals["direct"], residuals[name])
        result[f"kept_{name}"] = relative_error(kept, residuals[name])
    return result | {f"{name}_seconds": rounded(value, 4) for name, value in seconds.items()}


def relative_error(exact: np.ndarray, approximate: np.ndarray) -> float:
    """||exact - approximate||^2 / ||exact||^2, as both papers define it; no less than 1e-15."""
    error = float(np.sum((exact - approximate) ** 2) / np.sum(exact**2))
    return rounded(max(error, ROUNDING), 4)


def torus_classifier() -> KernelFisherClassifier:
    return KernelFisherClassifier(penalty="coefficients", random_state=0)


def surface(setting: str, trial: int) -> Result:
    """The tuned classifier on the torus, "n=256": its parameters and errors."""
    X, y = make_torus(int(options(setting)["n"]), random_state=trial)
    model = torus_classifier().fit(X, y)
    X_test, y_test = make_torus(TEST_ROWS, random_state=10_000 + trial)
    return {
        "gamma": rounded(model.gamma_),
        "mu": rounded(model.regularization_),
        "loo_error": rounded(100 * float(np.mean((model.loo_decision_ > 0) != (y == 1)))),
        "test_error": rounded(100 * float(np.mean(model.predict(X_test) != y_test))),
    }
