"""Width and mu by levels: time beside a grid of SVC, and the criterion beside a dense search.

    time     KernelFisherClassifier(criterion="press") and KernelFisherClassifier() beside
             GridSearchCV(SVC, 5 C x 4 gamma, cv=5): processor seconds and test errors
    choice   PRESS at the choice beside the least of a dense search: 23 widths by decompositions,
             mu to rounding, then bounded minimisation about the two best widths
    large    tables of 10,000 rows and more

Tables come from the folder that FISHERKIT_DATA names. Run with OPENBLAS_NUM_THREADS=1. With
``--device cuda`` and SCIPY_ARRAY_API=1, the dense search takes place on a GPU, through PyTorch.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.linalg
import sklearn
from _common import Row, append_csv, print_table, read_csv
from scipy.optimize import minimize_scalar
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fisherkit import KernelFisherClassifier
from fisherkit.core import Decomposer, RidgePath, width_step
from fisherkit.core import reference_width as reference
from fisherkit.estimators import inside
from fisherkit.tuning.select import MuSearch, PathPrices

TIMED = ("pendigits", "optdigits", "texture", "waveform5000", "magic")
COMPARED = (
    *("pendigits", "optdigits", "texture", "waveform5000", "magic", "ecoli", "vowel", "wine"),
    *("saheart", "collins", "banana", "image", "ringnorm", "twonorm", "waveform", "german"),
    *("diabetis", "winequality_red_4", "wdbc", "sonar"),
)
SIZES = (200, 500, 1000, 2000, 4000)
GRID = {"C": [0.1, 1.0, 10.0, 100.0, 1000.0], "gamma": [0.25, 0.5, 1.0, 2.0]}
TEST_ROWS = 2000
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a table, without words."""
    folder = Path(os.environ["FISHERKIT_DATA"])
    parquet = folder / "tables" / f"{name}.parquet"
    if parquet.exists():
        table = pd.read_parquet(parquet)
        y = table.pop("target").astype(str).to_numpy()
        numbers = table.select_dtypes("number")
        return numbers.fillna(numbers.median()).to_numpy(float), y
    kinds = [folder / f"{kind}_{name}.npz" for kind in ("large", "ida", "uci")]
    with np.load(next(path for path in kinds if path.exists())) as data:
        return np.asarray(data["X"], dtype=float), data["y"].astype(str)


def split_of(name: str, n: int, seed: int = 0) -> Split:
    """Standardised training and test rows."""
    X, y = rows_of(name)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n], order[n : n + TEST_ROWS]
    scaler = StandardScaler().fit(X[train])
    later = scaler.transform(X[test]) if len(test) else X[test]
    return scaler.transform(X[train]), y[train], later, y[test]


def processor(call: Callable[[], object], repeats: int = 1) -> float:
    """Least processor seconds."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def factorisation(n: int = 4000) -> float:
    """Processor seconds of spotrf, the measure of the machine."""
    A = np.eye(n, dtype=np.float32) * n + 1
    return processor(lambda: scipy.linalg.cholesky(A, lower=True, check_finite=False), 3)


def timed(name: str, n: int, *, svc: bool = True) -> Row:
    X, y, X_test, y_test = split_of(name, n)
    row: Row = {"table": name, "n": len(y), "classes": len(np.unique(y))}
    for label, options in (("press", {"criterion": "press"}), ("default", {})):
        model = KernelFisherClassifier(**options)
        row[f"{label}_s"] = processor(lambda m=model: m.fit(X, y), 2 if n <= 4000 else 1)
        row[f"{label}_error"] = 100 * (1 - model.score(X_test, y_test))
    if svc:
        unit = 1 / (X.shape[1] * X.var())
        grid = {"C": GRID["C"], "gamma": [g * unit for g in GRID["gamma"]]}
        search = GridSearchCV(SVC(), grid, cv=5)
        row["svc_s"] = processor(lambda: search.fit(X, y))
        row["svc_error"] = 100 * (1 - search.score(X_test, y_test))
        row["press_ratio"] = row["press_s"] / row["svc_s"]
        row["default_ratio"] = row["default_s"] / row["svc_s"]
    return row


def dense_on(device: str | None, X: np.ndarray, y: np.ndarray, kernel: str) -> tuple[float, float]:
    """`dense` on the host, or on a device."""
    if device is None:
        return dense(X, y, kernel)
    import torch

    moved = torch.asarray(X, device=device), torch.asarray(np.unique(y, return_inverse=True)[1])
    with sklearn.config_context(array_api_dispatch=True):
        return dense(moved[0], moved[1].to(device), kernel)


def dense(X: Any, y: Any, kernel: str) -> tuple[float, float]:
    """The least PRESS of a dense search, and its width."""
    model = KernelFisherClassifier(kernel=kernel, criterion="press", basis="full")
    problem = inside(model).task(X, y).problem
    gram, values = problem.design.gram, {}

    def price(j: float) -> float:
        gamma = start * step ** float(j)
        form = Decomposer(problem.design).decompose(gamma, lambda unit: 0.0).canonical
        search = MuSearch(PathPrices(RidgePath.of(form, problem.Y), problem.criterion))
        values[gamma] = search.refine()[1]
        return values[gamma]

    start = reference(gram.X, problem.design.weights.frequency, gram.kernel)
    step = width_step(gram.kernel)
    places = np.arange(-11.0, 12.0)
    heights = np.array([price(j) for j in places])
    for best in np.argsort(heights)[:2]:
        if heights[best] <= 1.1 * heights.min():
            bounds = places[max(best - 1, 0)], places[min(best + 1, len(places) - 1)]
            minimize_scalar(price, bounds=bounds, method="bounded", options={"maxiter": 10})
    gamma = min(values, key=values.__getitem__)
    return values[gamma], gamma


def chosen(name: str, n: int, kernel: str, device: str | None) -> Row | None:
    X, y, *_ = split_of(name, n, seed=1)
    if len(y) < n:
        return None
    model = KernelFisherClassifier(kernel=kernel, criterion="press")
    seconds = processor(lambda: model.fit(X, y))
    if device is not None:  # whose host may have any number of threads
        seconds = np.nan
    found = model.selection_
    least, gamma = dense_on(device, X, y, kernel)
    return {
        "table": name,
        "n": n,
        "kernel": kernel,
        "seconds": seconds,
        "method": found.method,
        "status": found.status.name,
        "gamma": found.gamma,
        "mu": found.mu,
        "press": found.value,
        "dense_gamma": gamma,
        "dense_press": least,
        "loss": np.log(found.value / least),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("time", "choice", "large"))
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES[2:])
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--device")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    name = f"levels_{options.part}"
    if options.part == "choice":
        known = {(r["table"], r["n"], r["kernel"]) for r in read_csv(name)}
        for n in options.sizes:
            for table in options.tables or COMPARED:
                for kernel in ("rbf", "laplacian"):
                    if (table, str(n), kernel) not in known:
                        row = chosen(table, n, kernel, options.device)
                        if row is not None:
                            append_csv(name, [row])
        losses = np.array([float(row["loss"]) for row in read_csv(name)])
        good = np.mean(losses <= 1e-3)
        print(f"{len(losses)} fits, {good:.1%} within 1e-3, worst {losses.max():.2g}")
        return
    print(f"spotrf at n=4000: {factorisation():.3f} s")
    large = (("magic", 10_000), ("mnist", 10_000), ("adult", 20_000))
    cases = [(t, n) for n in options.sizes for t in options.tables or TIMED]
    rows = []
    for table, n in large if options.part == "large" else cases:
        rows.append(timed(table, n, svc=options.part == "time"))
        append_csv(name, rows[-1:])
    print_table(rows)
    for n in sorted({int(str(row["n"])) for row in rows}) if options.part == "time" else ():
        for label in ("press", "default"):
            ratios = [float(row[f"{label}_ratio"]) for row in rows if row["n"] == n]
            print(f"n={n} {label}: {np.exp(np.mean(np.log(ratios))):.3f} of the grid of SVC")


if __name__ == "__main__":
    main()
