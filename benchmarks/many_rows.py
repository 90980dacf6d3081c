"""Fits whose kernel matrix is in memory nowhere, and fitted models on fewer centres.

    OPENBLAS_NUM_THREADS=2 OMP_NUM_THREADS=2 python benchmarks/many_rows.py recomputed
    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/many_rows.py agreement magic
    SCIPY_ARRAY_API=1 python benchmarks/many_rows.py mnist gpu

``recomputed``: 50,000 rows of 20 columns, every row a centre, conjugate gradients with kernel
values found anew, within 2 GB; ``formula`` is what 2 n^2 d operations at the measured rate of
products and n^2 exponentials at theirs take for each of its steps. ``agreement``: 10,000 rows, its
predictions beside those of a Cholesky factorisation in double precision. ``magic`` and ``mnist``:
a model on all training rows and on fewer centres (reads FISHERKIT_DATA). ``gpu``: 200,000 rows.
``--scale`` shrinks the number of rows, to try the script.
"""

import argparse
import csv
import os
import resource
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
import sklearn
from sklearn.preprocessing import StandardScaler

from fisherkit import KernelFisherClassifier
from fisherkit.core import BIASES, Gram, Kernel, Limits, Weights, blas_threads, measured, solve
from fisherkit.core.solvers import solve_many
from fisherkit.core.solvers.checkpoints import Checkpoint
from fisherkit.core.solvers.conjugate import Preconditioner
from fisherkit.core.solvers.recomputed import solve_recomputed
from fisherkit.core.solvers.sampled import preconditioner_rank
from fisherkit.core.solvers.symmetric import System
from fisherkit.core.solvers.tiles import Recomputed

RESULTS = Path(__file__).parent / "results" / "many_rows.csv"
GAMMA, MU = 0.025, 0.3
FIELDS = (
    *("part", "device", "threads", "n", "d", "rank", "steps", "sweeps", "columns"),
    *("seconds", "all_seconds", "formula", "ratio", "sampled_seconds", "memory_mb", "difference"),
    *("centres", "of", "error", "changed_percent", "test_error_percent", "test_error_before"),
    *("rows_per_second", "onnx_bytes", "onnx_ratio"),
)


def problem(n: int, d: int = 20):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + np.tanh(X[:, 3:8].sum(axis=1))
    return X, np.sign(f + 0.5 * rng.normal(size=n))[:, None]


def recomputed(scale: float, device=None) -> dict:
    n = int((200_000 if device else 50_000) * scale)
    X, Y = problem(n)
    if device:
        import torch

        X, Y = (torch.asarray(part, device=device) for part in (X, Y))
    limits, speed = Limits(memory=None if device else 2 << 30), measured()
    system = System.of(
        Gram(X, Kernel("rbf", gamma=GAMMA)), Y, Weights.unit(X), BIASES["free"], MU, held=False
    )
    sweeps, clock, plain = [0, 0], {}, Recomputed.__matmul__

    def counted(self, V):
        sweeps[V.shape[1] > 2] += 1
        clock.setdefault(V.shape[1] > 2, time.perf_counter())
        return plain(self, V)

    start = time.perf_counter()
    with patch.object(Recomputed, "__matmul__", counted):
        P = Preconditioner.of(system, preconditioner_rank(n, limits))
        rows = np.arange(n - 500, n)
        solve_recomputed(system, P, rows, Checkpoint(None, system, rows))
        end = time.perf_counter()
    seconds = clock[True] - start
    formula = sweeps[0] * (2 * n * n * 20 / speed.product + n * n / speed.exponential)
    return {
        "n": n,
        "d": 20,
        "rank": P.rank,
        "sweeps": sweeps[0],
        "columns": 500,
        "seconds": seconds,
        "all_seconds": end - start,
        "sampled_seconds": end - clock[True],
        "formula": None if device else formula,
        "ratio": None if device else seconds / formula,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def agreement(scale: float) -> dict:
    n = int(10_000 * scale)
    X, Y = problem(n + 1000)
    test, X, Y = X[n:], X[:n], Y[:n]
    gram, bias = Gram(X, Kernel("rbf", gamma=GAMMA)), BIASES["free"]
    weights, order = Weights.unit(X), np.arange(n)
    start = time.perf_counter()
    found = solve_many(gram, Y, weights, bias, MU, order, 500, Limits(memory=n * n * 2))
    seconds = time.perf_counter() - start
    assert found is not None and found.method == "recomputed"
    exact = solve(gram.full(), Y, weights, bias=bias, penalty="rkhs", mu=MU)
    assert exact is not None
    K = gram.kernel.block(test, X)
    gap = K @ (found.ridge.coef - exact[0].coef) + found.ridge.intercept - exact[0].intercept
    return {"n": n, "d": 20, "all_seconds": seconds, "difference": float(np.abs(gap).max())}


def curve(model, X, y, counts) -> list[dict]:
    """The model on fewer and fewer centres: errors on test rows, size as ONNX, speed."""

    def wrong(one) -> tuple[float, float]:
        start = time.perf_counter()
        labels = one.predict(X)
        seconds = time.perf_counter() - start
        labels = labels if isinstance(labels, np.ndarray) else labels.cpu().numpy()
        return 100 * float(np.mean(labels != y)), len(y) / seconds

    before, rate = wrong(model)
    m, d = model._expansion.coef.shape[0], X.shape[1]
    rows = [{"of": m, "centres": m, "test_error_percent": before, "rows_per_second": rate, "d": d}]
    for count in counts:
        start = time.perf_counter()
        small = model.compress(count)
        seconds = time.perf_counter() - start
        lost, (error, rate) = small.compression_, wrong(small)
        rows.append(
            {
                "of": m,
                "d": d,
                "seconds": seconds,
                "centres": lost.n_centres,
                "error": lost.error,
                "changed_percent": 100 * lost.changed,
                "test_error_percent": error,
                "test_error_before": before,
                "rows_per_second": rate,
            }
        )
    return rows


def magic(scale: float) -> list[dict]:
    data = np.load(Path(os.environ["FISHERKIT_DATA"]) / "large_magic.npz")
    order = np.random.default_rng(0).permutation(len(data["y"]))[: int(19_020 * scale)]
    n = int(13_000 * scale)
    X, y = data["X"][order].astype(np.float64), data["y"][order]
    X = StandardScaler().fit(X[:n]).transform(X)
    model = KernelFisherClassifier().fit(X[:n], y[:n])
    return curve(model, X[n:], y[n:], [int(m * scale) for m in (500, 1000, 2000, 4000)])


def mnist(scale: float) -> list[dict]:
    import torch

    data = np.load(Path(os.environ["FISHERKIT_DATA"]) / "large_mnist.npz")
    X, y = data["X"].astype(np.float64) / 255, data["y_digit"].astype(int)
    n, device = int(60_000 * scale), "cuda" if torch.cuda.is_available() else "cpu"
    X, labels = (torch.asarray(part, device=device) for part in (X, y))
    words = {"max_memory": "120GB"}
    counts = [int(m * scale) for m in (3000, 6000, 12_000)]
    with sklearn.config_context(array_api_dispatch=True):
        model = KernelFisherClassifier(**words).fit(X[:n], labels[:n])
        return curve(model, X[60_000:], y[60_000:], counts)


PARTS = {
    "recomputed": recomputed,
    "agreement": agreement,
    "magic": magic,
    "mnist": mnist,
    "gpu": lambda scale: recomputed(scale, device="cuda"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    known: list[dict] = []
    head = "# command: python benchmarks/many_rows.py recomputed agreement magic mnist gpu\n"
    if args.out.exists():
        with open(args.out, encoding="utf-8") as file:
            known = list(csv.DictReader(line for line in file if not line.startswith("#")))
    for part in args.parts:
        found = PARTS[part](args.scale)
        device = "NVIDIA H200" if part in ("mnist", "gpu") else "AMD EPYC"
        rows = found if isinstance(found, list) else [found]
        new = [{"part": part, "device": device, "threads": blas_threads()} | row for row in rows]
        for row in new:
            print(row, flush=True)
        known = [row for row in known if row["part"] != part] + new
        with open(args.out, "w", encoding="utf-8", newline="") as file:
            file.write(head + "# threads: the column of this name; --scale 1\n")
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            for row in known:
                shown = {
                    k: f"{v:.6g}" if isinstance(v, float) else v
                    for k, v in row.items()
                    if v is not None
                }
                writer.writerow(shown)


if __name__ == "__main__":
    main()
