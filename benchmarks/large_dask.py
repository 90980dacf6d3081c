"""Twenty million rows that no process ever holds: generated on the workers, fitted through Dask.

A torus with 18 noise dimensions, 200 random centres, two worker processes of one thread. The table
has the time of the fit and the peak resident memory of the client and of each worker.
"""

import argparse
import resource
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Dask looks for a package called sparse, and would find the benchmark of that name.
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != HERE]

import dask.array as da  # noqa: E402
import numpy as np  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

from fisherkit import KernelFisherClassifier  # noqa: E402
from fisherkit.datasets import make_torus  # noqa: E402

NOISE = 18
LIMIT = 2.0  # GB for each process


def chunk(block: np.ndarray, block_info: dict | None = None) -> np.ndarray:
    """Rows of one chunk, label in the last column; they follow from its number."""
    if not block_info:
        return np.empty((0, 3 + NOISE))
    number = block_info[0]["chunk-location"][0]
    n = block.shape[0]
    X, y = make_torus(n, random_state=number)
    noise = 0.3 * np.random.default_rng(number).normal(size=(n, NOISE))
    return np.concatenate([X, noise, y[:, None]], axis=1)


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--chunk", type=int, default=250_000)
    parser.add_argument("--centres", type=int, default=200)
    args = parser.parse_args()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        seed = da.zeros((args.rows, 1), chunks=(args.chunk, 1))
        everything = seed.map_blocks(
            chunk, dtype=float, chunks=(seed.chunks[0], (3 + NOISE,)), meta=np.empty((0, 0))
        )
        model = KernelFisherClassifier(
            gamma=0.05, basis="random", n_components=args.centres, random_state=0
        )
        start = time.perf_counter()
        model.fit(everything[:, :-1], everything[:, -1].astype(np.int8))
        seconds = time.perf_counter() - start
        workers = client.run(peak_gb)
        test = everything[-args.chunk :]
        wrong = (model.predict(test[:, :-1]) != test[:, -1].astype(np.int8)).mean()
        row = {
            "rows": args.rows,
            "chunks": everything.numblocks[0],
            "centres": args.centres,
            "data_gb": round(args.rows * (2 + NOISE) * 8 / 2**30, 2),
            "seconds": round(seconds, 1),
            "error_percent": round(100 * float(wrong.compute()), 3),
            "client_gb": round(peak_gb(), 3),
            "worker_gb": round(max(workers.values()), 3),
        }
        row["holds"] = max(row["client_gb"], row["worker_gb"]) <= LIMIT
    sys.path.append(str(HERE))
    from _common import print_table, write_csv

    write_csv("large_dask", [row])
    print_table([row])


if __name__ == "__main__":
    main()
