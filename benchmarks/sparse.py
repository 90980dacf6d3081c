"""Speed of the sparse learners beside scikit-learn and skglm.

rho and gamma are given and compiled code is warm. Parts: "path" (20 values of rho at N=1000, all
contenders handed the same centred design and Gram matrix), "lq" (one fit with q=0.5 at N=2000 on
200 candidates, calibration included, beside SVC), "forward" (selection at N=2000, kernel matrix
excluded) and "large" (selection at N=100,000 on 500 candidates, kernel included, two threads).
"""

import argparse
import os

PARTS = ("path", "lq", "forward", "large")
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS[:3]))
parser.add_argument("--repeats", type=int, default=5)
options = parser.parse_args()
# Before NumPy loads its BLAS.
THREADS = "2" if "large" in options.parts else "1"
os.environ.update({f"{key}_NUM_THREADS": THREADS for key in ("OPENBLAS", "OMP", "NUMBA")})

import warnings  # noqa: E402

import numpy as np  # noqa: E402
from _common import Row, best_of, draw, make_gaussians, print_table, timed, write_csv  # noqa: E402
from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.linear_model import lasso_path  # noqa: E402
from sklearn.svm import SVC  # noqa: E402

from fisherkit import ForwardFisherClassifier, SparseFisherClassifier  # noqa: E402
from fisherkit.core import forward  # noqa: E402
from fisherkit.core.coding import optimal_scores  # noqa: E402
from fisherkit.core.kernels import Kernel  # noqa: E402
from fisherkit.core.weights import Weights  # noqa: E402
from fisherkit.sparse import lasso  # noqa: E402


def centred_banana(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Centred kernel columns (Fortran order) and centred +-1 codes."""
    X, y, _, _ = draw("banana", n, 0)
    K = Kernel("rbf", gamma=1.0).block(X, X)
    t = 2.0 * y - 1.0
    return np.asfortranarray(K - K.mean(axis=0)), t - t.mean()


def objective(D: np.ndarray, t: np.ndarray, w: np.ndarray, rho: float) -> float:
    return 0.5 * float(np.sum((t - D @ w) ** 2)) / len(t) + rho * float(np.sum(np.abs(w)))


def price_path(repeats: int) -> list[Row]:
    D, t = centred_banana(1000)
    H = D.T @ D
    rhos = np.max(np.abs(D.T @ t)) / len(t) * np.logspace(0, -2, 20)
    coefficients: dict[str, np.ndarray] = {}

    def ours() -> None:
        problem = lasso.LeastSquares.of(D, t[:, None], np.ones(len(t)), gram=H)
        W = np.zeros((len(rhos), D.shape[1]))
        for w, solution in zip(W, lasso.lasso_path(problem, rhos), strict=True):
            w[solution.support] = solution.coef[:, 0]
        coefficients["fisherkit"] = W

    def peer(name: str, **options: float) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says so where it stops early
            found = lasso_path(D, t, alphas=rhos, precompute=H, **options)
        coefficients[name] = found[1].T

    contenders = {
        "fisherkit": ours,
        "sklearn": lambda: peer("sklearn"),
        "sklearn_converged": lambda: peer("sklearn_converged", tol=1e-8, max_iter=100_000),
    }
    try:
        from skglm.datafits import Quadratic
        from skglm.penalties import L1
        from skglm.solvers import AndersonCD
        from skglm.utils.jit_compilation import compiled_clone
    except ImportError:
        print("skglm is not installed: left out")
    else:
        datafit, penalty = compiled_clone(Quadratic()), compiled_clone(L1(1.0))
        datafit.initialize(D, t)

        def skglm_path() -> None:
            solver = AndersonCD(tol=1e-4, fit_intercept=False, warm_start=True, max_iter=50)
            w, fit, W = np.zeros(D.shape[1]), np.zeros(len(t)), []
            for rho in rhos:
                penalty.alpha = rho
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    w = solver.solve(D, t, datafit, penalty, w, fit)[0]
                fit = D @ w
                W.append(w.copy())
            coefficients["skglm"] = np.array(W)

        skglm_path()  # compiles
        contenders["skglm"] = skglm_path
    seconds = best_of(repeats, **contenders)
    prices = {
        name: np.array([objective(D, t, w, rho) for w, rho in zip(W, rhos, strict=True)])
        for name, W in coefficients.items()
    }
    excess = {name: price / prices["fisherkit"] - 1 for name, price in prices.items()}
    return [
        {
            "part": "path",
            "case": f"lasso path, 20 rho, N=1000, {name}",
            "seconds": seconds[name],
            "times_ours": seconds[name] / seconds["fisherkit"],
            "largest_excess_objective": excess[name].max(),
            "smallest_excess_objective": excess[name].min(),
        }
        for name in contenders
    ]


def price_lq(repeats: int) -> list[Row]:
    X, y, X_test, y_test = draw("banana", 2000, 0)
    model = SparseFisherClassifier(
        q=0.5, rho=1e-3, gamma=1.0, basis="random", n_candidates=200, random_state=0
    ).fit(X, y)
    kernel = Kernel("rbf", gamma=1.0)
    chosen = np.random.RandomState(0).choice(len(X), 200, replace=False)
    scores = optimal_scores(np.bincount(y).astype(float))[y]
    svc = SVC(C=1.0, gamma=1.0).fit(X, y)
    calibrated = CalibratedClassifierCV(svc, cv=5, ensemble=False)

    def solve() -> None:
        problem = lasso.LeastSquares.of(kernel.block(X, X[chosen]), scores, np.ones(len(y)))
        lasso.solve_path(problem, [1e-3], 0.5)

    contenders = {
        "SVC, N=2000": lambda: svc.fit(X, y),
        "q=0.5, 200 candidates: kernel and solution": solve,
        "SVC with 5-fold calibration": lambda: calibrated.fit(X, y),
        "q=0.5, 200 candidates: fit with 5-fold calibration": lambda: model.fit(X, y),
    }
    seconds = best_of(repeats, **contenders)
    baseline = seconds["SVC, N=2000"]
    rows: list[Row] = [
        {"part": "lq", "case": name, "seconds": best, "times_svc": best / baseline}
        for name, best in seconds.items()
    ]
    errors = [100 * (1 - fitted.score(X_test, y_test)) for fitted in (svc, model)]
    print(f"test error: SVC {errors[0]:.2f} % with {len(svc.support_)} kernels, ", end="")
    print(f"q=0.5 {errors[1]:.2f} % with {model.n_terms_}")
    return rows


def price_forward(repeats: int) -> list[Row]:
    X, y, _, _ = draw("banana", 2000, 0)
    P = Kernel("rbf", gamma=1.0).block(X, X)
    codes = 2.0 * y[:, None] - 1.0
    weights = Weights.unit(X)
    rows: list[Row] = []
    for criterion in forward.CRITERIA:
        for compiled in (True, False):
            # The selection overwrites P: only it is timed, not the copy.
            best, path = np.inf, None
            for _ in range(repeats if compiled else 1):
                fresh = P.copy()
                elapsed, path = timed(
                    lambda criterion=criterion, compiled=compiled, fresh=fresh: (
                        forward.select_terms(
                            fresh,
                            codes,
                            weights,
                            criterion=criterion,
                            max_terms=40,
                            patience=5,
                            compiled=compiled,
                        )
                    )
                )
                best = min(best, elapsed)
            assert path is not None
            rows.append(
                {
                    "part": "forward",
                    "case": f"{criterion}, N=2000, {'compiled' if compiled else 'NumPy'}",
                    "seconds": best,
                    "terms": len(path.order),
                    "best": path.best,
                }
            )
    return rows


def price_large(repeats: int) -> list[Row]:
    X, y = make_gaussians(100_000, 10, random_state=0)
    options = dict(
        gamma=0.05, basis="random", n_candidates=500, max_terms=40, patience=40, random_state=0
    )
    kernel, weights = Kernel("rbf", gamma=0.05), Weights.unit(X)
    chosen = np.random.RandomState(0).choice(len(X), 500, replace=False)
    codes = 2.0 * y[:, None] - 1.0

    def select() -> forward.ForwardPath:
        P = kernel.block(X[chosen], X)
        return forward.select_terms(
            P, codes, weights, criterion="loo_error", max_terms=40, patience=40
        )

    select()
    seconds, path = timed(select)
    for _ in range(repeats - 1):
        seconds = min(seconds, timed(select)[0])
    model = ForwardFisherClassifier(**options)
    whole, _ = timed(lambda: model.fit(X, y))
    return [
        {
            "part": "large",
            "case": "N=100,000, 500 candidates: kernel and selection",
            "seconds": seconds,
            "terms": len(path.order),
        },
        {
            "part": "large",
            "case": "the whole fit: the same, and 5 folds for calibration",
            "seconds": whole,
            "terms": len(model.growth_) - 1,
        },
    ]


RUN = {"path": price_path, "lq": price_lq, "forward": price_forward, "large": price_large}

if __name__ == "__main__":
    for part in options.parts:
        rows = RUN[part](options.repeats)
        print_table(rows)
        write_csv(f"sparse_{part}", rows)
