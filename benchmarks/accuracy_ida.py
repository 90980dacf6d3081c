"""Test error on the 13 IDA sets, tuned anew on every training split, paired with a plain reference.

Every (set, split) is one row of results/accuracy_ida_splits.csv (fisherkit) and of
results/accuracy_ida_reference.csv (reference.py), written as it finishes; a later run computes
only what is missing. The summary goes to results/accuracy_ida.csv.
"""

import argparse
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache

import numpy as np
import reference
from _common import Row, append_csv, print_table, read_csv, write_csv
from sklearn.preprocessing import StandardScaler

from fisherkit import KernelFisherClassifier
from fisherkit.datasets import load_ida
from fisherkit.reproduction.splits import random_split

# Largest mean test error allowed, in percent.
LIMITS = {
    "heart": 17.9,
    "thyroid": 5.3,
    "titanic": 23.2,
    "breast_cancer": 27.8,
    "banana": 11.0,
    "ringnorm": 2.1,
    "twonorm": 3.1,
    "waveform": 10.3,
    "diabetis": 23.9,
    "flare_solar": 35.3,
    "german": 24.1,
    "splice": 11.0,
    "image": 3.8,
}
DIFFERENCE_LIMIT = 0.2
# Saadi, Talbot, Cawley: Optimally regularised kernel Fisher discriminant classification,
# Neural Networks 20 (2007), Table 1, column ORKFD: mean test error in percent.
ORKFD = {
    "heart": 15.78,
    "thyroid": 4.88,
    "titanic": 22.53,
    "breast_cancer": 27.00,
    "banana": 10.5,
    "ringnorm": 1.47,
    "twonorm": 2.64,
    "waveform": 9.55,
    "diabetis": 23.22,
    "flare_solar": 34.09,
    "german": 23.62,
    "splice": 10.80,
    "image": 4.03,
}
FILES = {"reference": "accuracy_ida_reference", "fisherkit": "accuracy_ida_splits"}
PREDICT_ROWS = 2048


def n_splits(name: str) -> int:
    return 20 if name in ("image", "splice") else 100


load = lru_cache(maxsize=1)(load_ida)


def run_split(method: str, name: str, split: int) -> Row:
    """Tune on one training part, count errors on the rest."""
    pool = load(name)
    signs = np.where(pool.target == np.max(pool.target), 1.0, -1.0)
    train, test = random_split(name, split, len(signs), pool.n_train)
    scaler = StandardScaler().fit(pool.data[train])
    X_train, X_test = scaler.transform(pool.data[train]), scaler.transform(pool.data[test])
    start = time.perf_counter()
    scores, chosen = METHODS[method](X_train, signs[train], X_test)
    elapsed = time.perf_counter() - start
    error = 100 * float(np.mean((scores > 0) != (signs[test] > 0)))
    return {"set": name, "split": split, "error": error, **chosen, "seconds": elapsed}


def run_reference(X: np.ndarray, signs: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, Row]:
    model = reference.fit(X, signs)
    chosen: Row = {"press": model.press, "gamma": model.gamma, "mu": model.mu}
    return model.decision_function(X_test), chosen


def run_fisherkit(X: np.ndarray, signs: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, Row]:
    model = KernelFisherClassifier(random_state=0).fit(X, signs)
    blocks = range(0, len(X_test), PREDICT_ROWS)
    scores = [model.decision_function(X_test[start : start + PREDICT_ROWS]) for start in blocks]
    chosen: Row = {
        "press": float(np.mean((signs - model.loo_decision_) ** 2)),
        "gamma": model.gamma_,
        "mu": model.regularization_,
        "rank": model.selection_.rank,
        "method": model.selection_.method,
        "status": model.selection_.status.name,
    }
    return np.concatenate(scores), chosen


METHODS = {"reference": run_reference, "fisherkit": run_fisherkit}


def run_missing(method: str, sets: list[str], splits: int, jobs: int) -> None:
    done = {(row["set"], int(row["split"])) for row in read_csv(FILES[method])}
    missing = [
        (name, split)
        for name in sets
        for split in range(min(splits, n_splits(name)))
        if (name, split) not in done
    ]
    # Spawned workers load their BLAS after this, so each one runs on a single thread.
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as workers:
        futures = [workers.submit(run_split, method, *task) for task in missing]
        for count, future in enumerate(as_completed(futures), start=1):
            row = future.result()
            append_csv(FILES[method], [row])
            print(
                f"{method} {count}/{len(missing)}: {row['set']} {row['split']} "
                f"error {row['error']:.2f} % in {row['seconds']:.2f} s",
                flush=True,
            )


def summarise(sets: list[str]) -> list[Row]:
    errors = {
        method: {(row["set"], int(row["split"])): float(row["error"]) for row in read_csv(file)}
        for method, file in FILES.items()
    }
    ours, plain = errors["fisherkit"], errors["reference"]
    rows: list[Row] = []
    for name in sets:
        pairs = [(ours[key], plain[key]) for key in ours if key[0] == name and key in plain]
        if len(pairs) < 2:
            continue
        a, b = np.array(pairs).T
        rows.append(
            {
                "set": name,
                "splits": len(a),
                "fisherkit": a.mean(),
                "sd": a.std(ddof=1),
                "reference": b.mean(),
                "reference_sd": b.std(ddof=1),
                "difference": (a - b).mean(),
                "difference_se": (a - b).std(ddof=1) / np.sqrt(len(a)),
                "difference_limit": DIFFERENCE_LIMIT,
                "mean_limit": LIMITS[name],
                "orkfd_printed": ORKFD[name],
                "holds": bool((a - b).mean() <= DIFFERENCE_LIMIT and a.mean() <= LIMITS[name]),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=LIMITS, default=list(LIMITS))
    parser.add_argument("--splits", type=int, default=100, help="at most this many per set")
    parser.add_argument("--jobs", type=int, default=2, help="processes, one BLAS thread each")
    parser.add_argument("--only-reference", action="store_true")
    parser.add_argument("--fresh", action="store_true", help="recompute fisherkit on these sets")
    options = parser.parse_args()
    if options.fresh:
        kept = [row for row in read_csv(FILES["fisherkit"]) if row["set"] not in options.sets]
        write_csv(FILES["fisherkit"], list(kept))
    run_missing("reference", options.sets, options.splits, options.jobs)
    if options.only_reference:
        return
    run_missing("fisherkit", options.sets, options.splits, options.jobs)
    rows = summarise(list(LIMITS))
    write_csv("accuracy_ida", rows)
    print_table(rows)


if __name__ == "__main__":
    main()
