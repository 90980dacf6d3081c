"""Centres at equal number: random, pivoted (two ways), greedy, k-means and leverage scores.

Every basis has the same kernel width, that of the exact fit to at most 1,000 rows, and mu tuned on
its own centres by leave-one-out; greedy and leverage take that of random centres. Pivots are
drawn in proportion to the residual diagonal ("pivoted", as in the library), or are its largest
entry ("greedy cholesky"). k-means centres are not rows: the row nearest to each stands in. Leverage
scores are exact. Times are processor seconds of choosing the centres and of the fit on them: run it
on one thread. Means over splits; adult and magic: 2,000 training rows, three splits. Sets that the
file of results holds are kept: a run goes on where another ended.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import Row, append_csv, read_csv, split_of
from sklearn.cluster import KMeans
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from fisherkit import KernelFisherClassifier
from fisherkit.core import basis
from fisherkit.core.kernels import Gram, Kernel
from fisherkit.core.weights import Weights
from fisherkit.tuning import greedy

SETS = ("banana", "waveform", "splice", "image", "magic", "adult")
CENTRES = (50, 200, 500)
LARGE = ("magic", "adult")
ROWS = 2000
SUBSET = 1000


def load(name: str, split: int) -> tuple[np.ndarray, ...]:
    if name not in LARGE:
        return split_of(name, split)
    data = np.load(Path(os.environ["FISHERKIT_DATA"]) / f"large_{name}.npz")
    X, y = data["X"].astype(np.float64), data["y"].astype(int)
    X, test, y, truth = train_test_split(X, y, train_size=ROWS, random_state=split, stratify=y)
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(test), truth


def greedy_cholesky(gram: Gram, m: int) -> np.ndarray:
    """Pivots with the largest residual diagonal, one by one."""
    residual, L, chosen = gram.diagonal(), np.empty((m, gram.n)), []
    for t in range(m):
        j = int(np.argmax(residual))
        row = gram.rows(np.array([j]))[0] - L[:t, j] @ L[:t]
        L[t] = row / np.sqrt(residual[j])
        residual = np.maximum(residual - L[t] ** 2, 0.0)
        residual[j] = 0.0
        chosen.append(j)
    return np.array(chosen)


def nearest_to_means(X: np.ndarray, m: int, seed: int) -> np.ndarray:
    means = KMeans(m, n_init=1, max_iter=30, random_state=seed).fit(X).cluster_centers_
    distances = (X**2).sum(axis=1)[:, None] - 2 * X @ means.T
    return np.unique(np.argmin(distances, axis=0))


def by_leverage(gram: Gram, m: int, mu: float, rng: np.random.RandomState) -> np.ndarray:
    """Rows drawn in proportion to diag(K (K + mu)^-1)."""
    K = gram.full()
    K[np.diag_indices(gram.n)] += mu
    leverage = 1 - mu * np.diagonal(np.linalg.inv(K))
    return rng.choice(gram.n, size=m, replace=False, p=leverage / leverage.sum())


def choosers(
    X: np.ndarray, y: np.ndarray, gamma: float, m: int, mu: float, seed: int
) -> dict[str, Callable[[], np.ndarray]]:
    gram, weights = Gram(X, Kernel("rbf", gamma=gamma)), Weights.unit(X)
    Y = np.where(y == y.max(), 1.0, -1.0)[:, None]

    def drawn(kind: str) -> np.ndarray:
        return basis.choose_rows(kind, m, gram, weights.v, np.random.RandomState(seed))

    return {
        "random": lambda: drawn("random"),
        "pivoted": lambda: drawn("pivoted"),
        "greedy cholesky": lambda: greedy_cholesky(gram, m),
        "greedy": lambda: greedy.choose_rows(gram, Y, weights, "rkhs", m, mu, seed),
        "k-means": lambda: nearest_to_means(X, m, seed),
        "leverage": lambda: by_leverage(gram, m, mu, np.random.RandomState(seed)),
    }


def compare(name: str, splits: int) -> list[Row]:
    found: dict[tuple[int, str], list[list[float]]] = {}
    splits = min(splits, 3) if name in LARGE else splits
    for split in range(splits):
        X, y, test, truth = load(name, split)
        exact = KernelFisherClassifier().fit(X[:SUBSET], y[:SUBSET])
        for m in (m for m in CENTRES if 2 * m <= len(X)):
            start = KernelFisherClassifier(
                gamma=exact.gamma_, basis="random", n_components=m, random_state=split
            ).fit(X, y)
            choose = choosers(X, y, exact.gamma_, m, start.regularization_, split)
            for kind, call in choose.items():
                begin = time.process_time()
                rows = call()
                chosen = time.process_time()
                model = KernelFisherClassifier(gamma=exact.gamma_, basis=np.unique(rows)).fit(X, y)
                fitted = time.process_time()
                error = 100 * float(np.mean(model.predict(test) != truth))
                numbers = [error, model.selection_.value, chosen - begin, fitted - chosen]
                found.setdefault((m, kind), []).append(numbers)
    table = []
    for (m, kind), numbers in found.items():
        error, press, choose_s, fit_s = np.mean(numbers, axis=0)
        spread = np.std([each[0] for each in numbers], ddof=1) / np.sqrt(splits)
        row = {
            "set": name,
            "rows": len(X),
            "centres": m,
            "basis": kind,
            "splits": splits,
            "error_percent": round(float(error), 3),
            "standard_error": round(float(spread), 3),
            "press": round(float(press), 4),
            "choose_s": round(float(choose_s), 3),
            "fit_s": round(float(fit_s), 3),
        }
        print(row, flush=True)
        table.append(row)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--splits", type=int, default=5)
    args = parser.parse_args()
    done = {row["set"] for row in read_csv("bases")}
    X = np.random.default_rng(0).normal(size=(20, 2))
    choosers(X, X[:, 0] > 0, 1.0, 4, 1.0, 0)["greedy"]()  # compiles, or loads what was compiled
    append_csv(
        "bases",
        (row for name in args.sets if name not in done for row in compare(name, args.splits)),
    )


if __name__ == "__main__":
    main()
