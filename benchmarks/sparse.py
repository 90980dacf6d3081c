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
from sklearn.linear_model import lasso_path  # noqa: E402
from sklearn.svm import SVC  # noqa: E402

from fisherkit import ForwardFisherClassifier, SparseFisherClassifier, forward, sparse  # noqa: E402
from fisherkit.kernels import Kernel  # noqa: E402
from fisherkit.weights import Weights  # noqa: E402


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
        problem = sparse.LeastSquares.of(D, t[:, None], np.ones(len(t)), gram=H)
        path = sparse.lasso_path(problem, rhos)
        W = np.zeros((len(rhos), D.shape[1]))
        for w, solution in zip(W, path, strict=True):
            w[solution.support] = solution.coef[:, 0]
        coefficients["fisherkit"] = W

    def peer() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it does not converge at the small penalties
            found = lasso_path(D, t, alphas=rhos, precompute=H, max_iter=5000, tol=1e-4)
        coefficients["sklearn"] = found[1].T

    contenders = {"fisherkit": ours, "sklearn": peer}
    try:
        from skglm.datafits import QuadraticHessian
        from skglm.penalties import L1
        from skglm.solvers import AndersonCD
        from skglm.utils.jit_compilation import compiled_clone
    except ImportError:
        print("skglm is not installed: left out")
    else:

        def skglm_path() -> None:
            from skglm.datafits import Quadratic

            solver = AndersonCD(tol=1e-7, fit_intercept=False, warm_start=True, max_iter=50)
            datafit, penalty = compiled_clone(Quadratic()), compiled_clone(L1(1.0))
            datafit.initialize(D, t)
            w, W = np.zeros(D.shape[1]), []
            residual = np.zeros(len(t))
            for rho in rhos:
                penalty.alpha = rho
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    w = solver.solve(D, t, datafit, penalty, w, residual)[0]
                residual = D @ w
                W.append(w.copy())
            coefficients["skglm"] = np.array(W)

        del QuadraticHessian
        contenders["skglm"] = skglm_path
        skglm_path()
    seconds = best_of(repeats, **contenders)
    best = {
        name: [objective(D, t, w, rho) for w, rho in zip(W, rhos, strict=True)]
        for name, W in coefficients.items()
    }
    return [
        {
            "part": "path",
            "case": f"lasso path, 20 rho, N=1000, {name}",
            "seconds": seconds[name],
            "times_ours": seconds[name] / seconds["fisherkit"],
            "worst_excess_objective": max(
                (own - ours) / ours for own, ours in zip(best[name], best["fisherkit"], strict=True)
            ),
            "least_excess_objective": min(
                (own - ours) / ours for own, ours in zip(best[name], best["fisherkit"], strict=True)
            ),
        }
        for name in contenders
    ]


def price_lq(repeats: int) -> list[Row]:
    X, y, X_test, y_test = draw("banana", 2000, 0)
    model = SparseFisherClassifier(
        q=0.5, rho=1e-3, gamma=1.0, basis="random", n_candidates=200, random_state=0
    )
    svc = SVC(C=1.0, gamma=1.0)
    seconds = best_of(repeats, ours=lambda: model.fit(X, y), svc=lambda: svc.fit(X, y))
    return [
        {
            "part": "lq",
            "case": name,
            "seconds": seconds[key],
            "times_svc": seconds[key] / seconds["svc"],
            "test_error": 100 * (1 - fitted.score(X_test, y_test)),
            "terms": terms,
        }
        for name, key, fitted, terms in (
            ("q=0.5, N=2000, 200 candidates, 5-fold calibration", "ours", model, model.n_terms_),
            ("SVC, N=2000", "svc", svc, len(svc.support_)),
        )
    ]


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
