"""Side-by-side timing, the record of the environment, result files and shared data."""

import csv
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import numpy as np
import scipy
import sklearn
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

from fisherkit.datasets import load_ida, make_torus
from fisherkit.reproduction import splits
from fisherkit.reproduction.runner import processor

RESULTS = Path(__file__).parent / "results"
Row = dict[str, object]
T = TypeVar("T")


def best_of(repeats: int, **contenders: Callable[[], object]) -> dict[str, float]:
    """Least wall time of each contender in seconds; they take turns, so drift hits all alike."""
    best = dict.fromkeys(contenders, np.inf)
    for _ in range(repeats):
        for name, contender in contenders.items():
            best[name] = min(best[name], timed(contender)[0])
    return best


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Wall time of one call in seconds, and what it returned."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def environment() -> str:
    threads = os.environ.get("OPENBLAS_NUM_THREADS") or max(
        (pool["num_threads"] for pool in threadpool_info()), default=1
    )
    return (
        f"threads: {threads}, cpu: {processor()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    )


def write_csv(name: str, rows: list[Row]) -> None:
    """Write results/<name>.csv under two comment lines: the command and the environment."""
    path = RESULTS / f"{name}.csv"
    path.unlink(missing_ok=True)
    append_csv(name, rows)


def append_csv(name: str, rows: Iterable[Row]) -> None:
    """Add rows to results/<name>.csv as they come; a new file starts with its comment lines."""
    path = RESULTS / f"{name}.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("a", newline="") as file:
        writer = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, fieldnames=list(row), lineterminator="\n")
                if file.tell() == 0:
                    command = " ".join(
                        ["python benchmarks/" + Path(sys.argv[0]).name, *sys.argv[1:]]
                    )
                    file.write(f"# command: {command}\n# {environment()}\n")
                    writer.writeheader()
            writer.writerow({key: _short(value, 7) for key, value in row.items()})
            file.flush()


def read_csv(name: str) -> list[dict[str, str]]:
    """Rows of results/<name>.csv as strings without its comment lines; none without a file."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def print_table(rows: list[Row]) -> None:
    cells = [list(rows[0])] + [[str(_short(value, 4)) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def _short(value: object, digits: int) -> object:
    return f"{value:.{digits}g}" if isinstance(value, float | np.floating) else value


def split_of(name: str, split: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X_train, y_train, X_test, y_test of an IDA or UCI set, standardised on the training part."""
    part = splits.split_of(name, split)
    return part.X, part.y, part.X_test, part.y_test


def make_gaussians(
    n_samples: int, n_features: int, *, random_state: int
) -> tuple[np.ndarray, np.ndarray]:
    """Two unit Gaussians, centres 2 apart along the diagonal: Bayes error 15.9 % for any d."""
    rng = np.random.default_rng(random_state)
    y = rng.integers(0, 2, n_samples)
    X = rng.standard_normal((n_samples, n_features)) + (2 * y - 1)[:, None] / np.sqrt(n_features)
    return X, y


def draw(
    family: str, n_train: int, seed: int, n_test: int = 4000
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X_train, y_train, X_test, y_test standardised on the training part.

    Families: "banana" (training rows from the IDA pool, tested on the rest), "torus", "gauss<d>".
    """
    if family == "banana":
        pool = load_ida("banana")
        X, y = pool.data, pool.target
        train, test = splits.random_split(family, seed, len(y), n_train)
    else:
        n_samples = n_train + n_test
        if family == "torus":
            X, y = make_torus(n_samples, random_state=seed)
        else:
            n_features = int(family.removeprefix("gauss"))
            X, y = make_gaussians(n_samples, n_features, random_state=seed)
        train, test = np.arange(n_train), np.arange(n_train, n_samples)
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]
