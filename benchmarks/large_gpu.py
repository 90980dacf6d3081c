"""Large fits on a GPU, through the array API and PyTorch.

    SCIPY_ARRAY_API=1 python benchmarks/large_gpu.py million exact mnist ten_million

``million``: a torus with 18 noise dimensions, 10,000 random centres, every mu of the grid priced by
exact leave-one-out. ``exact``: every row a centre, beside one ``torch.linalg.eigh`` of that
size. ``mnist``: ten digits, 60,000 training rows, every row a centre, width and mu tuned by each
of two criteria, every row left out exactly (reads FISHERKIT_DATA). ``ten_million``: rows in the
memory of the host, moved to the device and fitted with 5,000 random centres.
Needs PyTorch; ``--scale`` shrinks everything to try the script without a GPU.
"""

import argparse
import csv
import logging
import os
import time
from pathlib import Path

import numpy as np
import sklearn
import torch

from fisherkit import KernelFisherClassifier

RESULTS = Path(__file__).parent / "results"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LIMITS = {"million": 9.0, "exact": 1.6, "mnist": 6.0, "ten_million": 60.0}


def torus(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The draw of fisherkit.datasets.make_torus with 18 noise dimensions of scale 0.3."""
    rng = np.random.default_rng(seed)
    inside = rng.random(n) < 0.25
    radius, angle = rng.normal(4, 1, n), rng.uniform(0, 2 * np.pi, n)
    ring = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    plane = np.where(inside[:, None], rng.normal(size=(n, 2)), ring)
    return np.concatenate([plane, 0.3 * rng.normal(size=(n, 18))], axis=1), inside.astype(int)


def wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def timed_fit(model, X, y):
    wait()
    start = time.perf_counter()
    model.fit(X, y)
    wait()
    return time.perf_counter() - start


def on_device(*arrays):
    return [torch.asarray(array, device=DEVICE) for array in arrays]


def million(scale: float) -> dict:
    n, m = int(1_000_000 * scale), int(10_000 * scale**0.5)
    X, y = on_device(*torus(n, 0))
    test, truth = torus(int(100_000 * scale), 1)
    options = dict(gamma=0.05, basis="random", random_state=0, criterion="error")
    memory = None if scale == 1 else 8 * n * m
    KernelFisherClassifier(n_components=m // 10, **options, max_memory=memory).fit(
        X[: n // 10], y[: n // 10]
    )  # warm up
    model = KernelFisherClassifier(n_components=m, max_memory=memory, **options)
    seconds = min(timed_fit(model, X, y) for _ in range(2))
    wrong = model.predict(on_device(test)[0]).cpu().numpy() != truth
    return {
        "part": "million",
        "n": n,
        "m": m,
        "mus": len(model.selection_.path) - 1,
        "seconds": seconds,
        "limit": LIMITS["million"],
        "error_percent": 100 * float(np.mean(wrong)),
        "method": model.selection_.method,
    }


def exact(scale: float) -> dict:
    n = int(16_384 * scale)
    X, y = on_device(*torus(n, 0))
    K = torch.exp(-0.05 * torch.cdist(X, X) ** 2)
    torch.linalg.eigh(K[:1000, :1000])
    wait()
    start = time.perf_counter()
    torch.linalg.eigh(K)
    wait()
    one = time.perf_counter() - start
    del K
    KernelFisherClassifier(gamma=0.05, basis="full").fit(X[:1000], y[:1000])
    model = KernelFisherClassifier(gamma=0.05, basis="full")
    seconds = min(timed_fit(model, X, y) for _ in range(2))
    return {
        "part": "exact",
        "n": n,
        "m": n,
        "mus": len(model.selection_.path) - 1,
        "seconds": seconds,
        "eigh_seconds": one,
        "ratio": seconds / one,
        "limit": LIMITS["exact"],
        "method": model.selection_.method,
    }


def mnist(scale: float) -> list[dict]:
    data = np.load(Path(os.environ["FISHERKIT_DATA"]) / "large_mnist.npz")
    X, y = data["X"].astype(np.float64) / 255, data["y_digit"].astype(int)
    n = int(60_000 * scale)
    X_train, y_train = on_device(X[:n], y[:n])
    X_test = on_device(X[60_000:])[0]
    rows = []
    for criterion in ("press", "log_loss"):
        model = KernelFisherClassifier(criterion=criterion, max_memory="120GB")
        timed_fit(model, X_train[: n // 8], y_train[: n // 8])  # warm up
        seconds = min(timed_fit(model, X_train, y_train) for _ in range(2))
        wrong = model.predict(X_test).cpu().numpy() != y[60_000:]
        left_out = model.loo_decision_.argmax(axis=1).cpu().numpy() != y[:n]
        rows.append(
            {
                "part": f"mnist {criterion}",
                "n": n,
                "m": n,
                "seconds": seconds,
                "limit": LIMITS["mnist"],
                "error_percent": 100 * float(np.mean(wrong)),
                "left_out_error_percent": 100 * float(np.mean(left_out)),
                "method": model.selection_.method,
                "gamma": float(model.gamma_),
                "mu": float(model.regularization_),
            }
        )
    return rows


def ten_million(scale: float) -> dict:
    n, m = int(10_000_000 * scale), int(5_000 * scale**0.5)
    X, y = torus(n, 0)
    test, truth = torus(100_000, 1)
    options = dict(gamma=0.05, basis="random", random_state=0, max_memory="60GB")

    def fit(rows: int) -> tuple[KernelFisherClassifier, float]:
        wait()
        start = time.perf_counter()
        model = KernelFisherClassifier(n_components=m, **options)
        model.fit(*on_device(X[:rows], y[:rows]))
        wait()
        return model, time.perf_counter() - start

    fit(n // 20)  # warm up
    model, seconds = fit(n)
    wrong = model.predict(on_device(test)[0]).cpu().numpy() != truth
    return {
        "part": "ten_million",
        "n": n,
        "m": m,
        "mus": len(model.selection_.path) - 1,
        "seconds": seconds,
        "limit": LIMITS["ten_million"],
        "error_percent": 100 * float(np.mean(wrong)),
        "method": model.selection_.method,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=list(LIMITS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "large_gpu.csv")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if args.verbose:
        logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(message)s")
    rows = []
    for part in args.parts:
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        with sklearn.config_context(array_api_dispatch=True):
            found = globals()[part](args.scale)
        for row in found if isinstance(found, list) else [found]:
            if DEVICE == "cuda":
                row["peak_gpu_gb"] = torch.cuda.max_memory_allocated() / 2**30
            shown = {key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()}
            print(shown, flush=True)
            rows.append(row)
    fields = list(dict.fromkeys(key for row in rows for key in row))
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    with args.out.open("w", newline="") as file:
        file.write(
            f"# command: SCIPY_ARRAY_API=1 python benchmarks/large_gpu.py {' '.join(args.parts)}\n"
        )
        file.write(f"# {name}, torch {torch.__version__}, numpy {np.__version__}\n")
        writer = csv.DictWriter(file, fieldnames=fields, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})


if __name__ == "__main__":
    main()
