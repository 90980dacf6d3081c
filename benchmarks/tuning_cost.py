"""What tuning costs: leave-one-out selection of mu against one fit of a peer that selects nothing.

Both sides start from X and take turns in one run. Parts, each with its own results file:
  torus     25 mu priced and calibrated, against one untuned KernelRidge.fit
  fullrank  the same on data of full numerical rank, against one numpy.linalg.eigh of K
  centres   300 random centres, against Nystroem(300) + RidgeClassifierCV(21 alphas)
  cases     rank, time and error of the leave-one-out scores against a dense eigh, eight cases
"""

import argparse
from functools import partial

import numpy as np
from _common import Row, best_of, make_gaussians, print_table, write_csv
from reference import loo_residuals
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from fisherkit import KernelFisherClassifier
from fisherkit.datasets import make_torus

REPEATS = {1000: 7, 2000: 7, 4000: 5, 8000: 3, 16000: 2}
TORUS_LIMITS = {4000: 0.4, 16000: 0.04}
# The parallel Cholesky factorisation of OpenBLAS, which KernelRidge calls, crashes at n = 16,000
# (OpenBLAS issues 1413, 2821): there, both sides run on one thread.
ONE_THREAD_FROM = 16_000
FULL_RANK_LIMIT = 1.3
CENTRES_LIMIT = 1.0
ERROR_LIMIT = 1e-7


def compare(
    n: int, model: KernelFisherClassifier, peer: str, best: dict[str, float], limit: float | None
) -> Row:
    ratio = best["fisherkit"] / best["peer"]
    return {
        "n": n,
        "peer": peer,
        "fisherkit_s": best["fisherkit"],
        "peer_s": best["peer"],
        "ratio": ratio,
        "limit": "" if limit is None else limit,
        "holds": "" if limit is None else ratio <= limit,
        "mu_priced": len(model.selection_.path),
        "rank": model.selection_.rank,
        "method": model.selection_.method,
    }


def torus(sizes: list[int]) -> list[Row]:
    rows = []
    for n in sizes:
        X, y = make_torus(n, random_state=0)
        signs = np.where(y == y.max(), 1.0, -1.0)
        model = KernelFisherClassifier(gamma=0.5, random_state=0)
        peer = KernelRidge(kernel="rbf", gamma=0.5, alpha=1)
        threads = 1 if n >= ONE_THREAD_FROM else None
        with threadpool_limits(threads):
            best = best_of(
                REPEATS[n], fisherkit=partial(model.fit, X, y), peer=partial(peer.fit, X, signs)
            )
        row = compare(n, model, "KernelRidge.fit", best, TORUS_LIMITS.get(n))
        rows.append(row | {"threads": threads or "all"})
    return rows


def fullrank(n: int = 4000) -> list[Row]:
    X, y = make_gaussians(n, 10, random_state=0)
    K = pairwise_kernels(X, metric="rbf", gamma=0.1)
    model = KernelFisherClassifier(gamma=0.1, random_state=0)
    best = best_of(3, fisherkit=partial(model.fit, X, y), peer=partial(np.linalg.eigh, K))
    return [compare(n, model, "numpy.linalg.eigh", best, FULL_RANK_LIMIT)]


def centres(n: int = 4000) -> list[Row]:
    X, y = make_torus(n, random_state=0)
    model = KernelFisherClassifier(gamma=0.5, basis="random", n_components=300, random_state=0)
    peer = make_pipeline(
        Nystroem(gamma=0.5, n_components=300, random_state=0),
        RidgeClassifierCV(alphas=2.0 ** np.arange(-10, 11)),
    )
    best = best_of(9, fisherkit=partial(model.fit, X, y), peer=partial(peer.fit, X, y))
    row = compare(n, model, "Nystroem(300) + RidgeClassifierCV(21)", best, CENTRES_LIMIT)
    row["fisherkit_test_error"], row["peer_test_error"] = (
        100 * np.mean(fitted.predict(X_test) != y_test)
        for X_test, y_test in [make_torus(10_000, random_state=1)]
        for fitted in (model, peer)
    )
    row["probabilities"] = bool(np.allclose(model.predict_proba(X[:100]).sum(axis=1), 1))
    return [row]


def cases(n: int = 2000) -> list[Row]:
    plane, ball5, ball10 = (
        make_torus(n, random_state=0),
        make_gaussians(n, 5, random_state=0),
        make_gaussians(n, 10, random_state=0),
    )
    # Labels differ among copies of a row, so the duplicates conflict.
    repeated = (np.tile(ball10[0][: n // 10], (10, 1)), ball10[1])
    gram = (pairwise_kernels(plane[0], metric="rbf", gamma=0.5), plane[1])
    table = [
        ("rbf d=2", plane, {"kernel": "rbf", "gamma": 0.5}),
        ("rbf d=5", ball5, {"kernel": "rbf", "gamma": 0.2}),
        ("rbf d=10", ball10, {"kernel": "rbf", "gamma": 0.1}),
        ("laplacian d=5", ball5, {"kernel": "laplacian", "gamma": 0.2}),
        ("polynomial d=5", ball5, {"kernel": "polynomial", "gamma": 0.2, "degree": 3, "coef0": 1}),
        ("linear d=10", ball10, {"kernel": "linear"}),
        ("precomputed rbf d=2", gram, {"kernel": "precomputed"}),
        ("duplicates rbf d=10", repeated, {"kernel": "rbf", "gamma": 0.1}),
    ]
    return [case(name, X, y, options) for name, (X, y), options in table]


def case(name: str, X: np.ndarray, y: np.ndarray, options: dict) -> Row:
    parameters = {key: value for key, value in options.items() if key != "kernel"}
    K = pairwise_kernels(X, metric=options["kernel"], **parameters)
    signs = np.where(y == y.max(), 1.0, -1.0)
    model = KernelFisherClassifier(**options, random_state=0)
    best = best_of(3, fisherkit=partial(model.fit, X, y), eigh=partial(np.linalg.eigh, K))
    exact = loo_residuals(K, signs, np.array([model.regularization_]))[:, 0]
    error = np.max(np.abs(signs - model.loo_decision_ - exact)) / np.sqrt(np.mean(exact**2))
    return {
        "case": name,
        "n": len(y),
        "rank": model.selection_.rank,
        "method": model.selection_.method,
        "tolerance": model.selection_.tolerance,
        "mu_over_unit": model.selection_.mu / model.selection_.unit,
        "fisherkit_s": best["fisherkit"],
        "eigh_s": best["eigh"],
        "ratio": best["fisherkit"] / best["eigh"],
        "loo_error": float(error),
        "limit": ERROR_LIMIT,
        "holds": bool(error <= ERROR_LIMIT),
    }


PARTS = {"torus": torus, "fullrank": fullrank, "centres": centres, "cases": cases}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all four")
    parser.add_argument("--sizes", type=int, nargs="+", choices=REPEATS, default=list(REPEATS))
    options = parser.parse_args()
    # The first call of a process pays for thread pools and lazy imports.
    KernelFisherClassifier(gamma=0.5).fit(*make_torus(1000, random_state=0))
    for name in options.part or PARTS:
        rows = torus(options.sizes) if name == "torus" else PARTS[name]()
        print(f"\n{name}")
        print_table(rows)
        write_csv(f"tuning_cost_{name}", rows)


if __name__ == "__main__":
    main()
