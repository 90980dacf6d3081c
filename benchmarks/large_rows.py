"""A million rows from a memory-mapped file on a laptop: time beside the work that has to be done.

The data are a torus (make_torus) with 18 noise dimensions, the model has 1,000 random centres, and
every mu is priced by exact leave-one-out. The bound is 3 n m^2 flops at the rate of matrix products
plus 2 n m exponentials at the rate of all cores, both measured in the same process, before and
after each fit, at the rate that lasts. Of three fits the one with the median ratio is shown.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from _common import print_table, timed, write_csv

from fisherkit import KernelFisherClassifier
from fisherkit.core import blas_threads
from fisherkit.datasets import make_torus

SIZES = (250_000, 500_000, 1_000_000)
CENTRES = 1000
NOISE = 18
GAMMA = 0.05
BLOCK = 50_000
REPEATS = 12
FITS = 3
LIMIT = 1.4
MEMORY_LIMIT = 1.5  # GB


def write_data(folder: Path, n: int) -> None:
    X = np.lib.format.open_memmap(folder / f"X{n}.npy", mode="w+", shape=(n, 2 + NOISE))
    y = np.empty(n, dtype=np.int8)
    for start in range(0, n, BLOCK):
        rng = np.random.default_rng(start)
        rows = slice(start, start + BLOCK)
        X[rows, :2], y[rows] = make_torus(min(BLOCK, n - start), random_state=start)
        X[rows, 2:] = 0.3 * rng.normal(size=X[rows, 2:].shape)
    X.flush()
    np.save(folder / f"y{n}.npy", y)


def product_rate() -> float:
    """Flops per second of a matrix product of the shape that pass 2 has, on all threads."""
    rng = np.random.default_rng(0)
    A, B = rng.random((4096, CENTRES)), rng.random((CENTRES, CENTRES))
    A @ B
    seconds = np.mean([timed(lambda: A @ B)[0] for _ in range(REPEATS)])
    return 2 * A.shape[0] * CENTRES**2 / seconds


def exponential_rate() -> float:
    """Exponentials per second on all cores."""
    threads = blas_threads()
    parts = [-np.random.default_rng(i).random((4096, CENTRES)) for i in range(threads)]
    out = [np.empty_like(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        run = lambda: list(pool.map(lambda a, b: np.exp(a, out=b), parts, out))  # noqa: E731
        run()
        seconds = np.mean([timed(run)[0] for _ in range(REPEATS)])
    return sum(part.size for part in parts) / seconds


def measure(folder: Path, n: int) -> dict[str, object]:
    """One fit, in a process of its own: peak memory is that of the process."""
    X = np.load(folder / f"X{n}.npy", mmap_mode="r")
    y = np.load(folder / f"y{n}.npy")
    model = KernelFisherClassifier(
        gamma=GAMMA,
        basis="random",
        n_components=CENTRES,
        max_memory="800MB",
        criterion="press",
        random_state=0,
    )
    fits = []
    rates = [(product_rate(), exponential_rate())]
    for _ in range(FITS):
        seconds, _ = timed(lambda: model.fit(X, y))
        rates.append((product_rate(), exponential_rate()))
        product, exponential = np.mean(rates[-2:], axis=0)
        bound = 3 * n * CENTRES**2 / product + 2 * n * CENTRES / exponential
        fits.append((seconds / bound, seconds, bound, product, exponential))
    _, seconds, bound, product, exponential = sorted(fits)[FITS // 2]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "rows": n,
        "centres": CENTRES,
        "mus": len(model.selection_.path) - 1,
        "seconds": round(seconds, 2),
        "bound": round(bound, 2),
        "ratio": round(seconds / bound, 3),
        "peak_gb": round(peak, 3),
        "gflops": round(product / 1e9, 1),
        "gexp": round(exponential / 1e9, 3),
        "loo_error": round(float(np.mean((model.loo_decision_ > 0) != y)), 5),
        "holds": bool(seconds <= LIMIT * bound and peak <= MEMORY_LIMIT),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--only", type=int, help="fit this many rows and print the result")
    args = parser.parse_args()
    if args.only:
        print(json.dumps(measure(args.folder, args.only)))
        return
    rows = []
    for n in args.sizes:
        if not (args.folder / f"y{n}.npy").exists():
            write_data(args.folder, n)
        command = [sys.executable, __file__, "--folder", str(args.folder), "--only", str(n)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append(json.loads(out.splitlines()[-1]))
    write_csv("large_rows", rows)
    print_table(rows)


if __name__ == "__main__":
    main()
