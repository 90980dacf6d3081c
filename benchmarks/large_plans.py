"""What the plan by time chooses on tables of 7,500 to 195,000 rows, and how well it predicts.

    accuracy    one held-out part of each set: error and wall time within the time given, beside
                LightGBM and HistGradientBoosting, both stopped early on a fifth of the rows
    command     `fisherkit fit` from Parquet with --time 60 and --time 10: wall time of the process
    predicted   seconds predicted and measured of 30 fits
    memory      300,000 rows with 300 centres, and a frame of 100,000 rows and 50 mixed columns

Sets come from the folder that FISHERKIT_DATA names. The accuracy of peers needs lightgbm. Features
of mnist are pixels divided by 255, in the classifier; the other sets are given to `TableClassifier`
as they are. Run it on two threads: OPENBLAS_NUM_THREADS=2 OMP_NUM_THREADS=2.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from _common import RESULTS, Row, append_csv
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from fisherkit import KernelFisherClassifier, KernelRidgeCV, TableClassifier

TRAINED = {"pendigits": 7500, "magic": 15_000, "adult": 30_000, "skin": 195_056, "mnist": 60_000}
LIMITS = {"pendigits": 0.6, "magic": 12.9, "adult": 15.1, "skin": 0.06, "mnist": 2.1}
LONGEST = 265.0  # seconds given to the fits of mnist and skin; the others have a minute
COMMAND = str(Path(sys.executable).with_name("fisherkit"))
Split = tuple[pd.DataFrame, pd.DataFrame, np.ndarray, np.ndarray]


def split_of(name: str) -> Split:
    """Training and held-out rows, as they are."""
    folder = Path(os.environ["FISHERKIT_DATA"])
    if name == "pendigits":
        table = pd.read_parquet(folder / "tables" / "pendigits.parquet")
        y = table.pop("target").astype(str).to_numpy()
        X = table.to_numpy(float)
    else:
        with np.load(folder / f"large_{name}.npz") as data:
            X, y = data["X"].astype(float), data["y_digit" if name == "mnist" else "y"].astype(int)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    size = TRAINED[name]
    if name == "mnist":  # its own test part
        return frame[:size], frame[size:], y[:size], y[size:]
    return tuple(train_test_split(frame, y, train_size=size, random_state=0, stratify=y))


class Boosted:
    """LightGBM that stops on a fifth of the rows."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Boosted":
        import lightgbm

        part = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
        self.model = lightgbm.LGBMClassifier(n_estimators=2000, verbose=-1, random_state=0)
        stop = lightgbm.early_stopping(20, verbose=False)
        self.model.fit(part[0], part[2], eval_set=[(part[1], part[3])], callbacks=[stop])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(X)


def models(name: str) -> dict[str, Any]:
    seconds = LONGEST if name in ("mnist", "skin") else 60.0
    ours: dict[str, Any] = {
        f"fisher, max_time={seconds:g}": TableClassifier("fisher", max_time=seconds),
        f"committee, max_time={seconds:g}": TableClassifier("committee", max_time=seconds),
    }
    if name == "mnist":
        words = f"KernelFisherClassifier, max_time={seconds:g}"
        ours = {words: KernelFisherClassifier(max_time=seconds, random_state=0)}
    stopped = HistGradientBoostingClassifier(
        early_stopping=True, validation_fraction=0.2, max_iter=2000, random_state=0
    )
    return ours | {"LightGBM": Boosted(), "HistGradientBoosting": stopped}


def accuracy(names: list[str], only: str) -> Iterator[Row]:
    for name in names:
        X, test, y, truth = split_of(name)
        if name == "mnist":
            X, test = X.to_numpy() / 255.0, test.to_numpy() / 255.0
        for label, model in models(name).items():
            if only not in label:
                continue
            start = time.perf_counter()
            model.fit(X, y)
            seconds = time.perf_counter() - start
            error = 100 * float(np.mean(model.predict(test) != truth))
            plan = getattr(model, "plan_", None)
            row: Row = {
                "set": name,
                "rows": len(y),
                "model": label,
                "seconds": round(seconds, 1),
                "error_percent": round(error, 3),
                "limit_percent": LIMITS[name],
                "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
                "plan": "" if plan is None else plan.sentence,
            }
            print(row, flush=True)
            yield row


def command(names: list[str], seconds: list[int]) -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        for name in names:
            X, _, y, _ = split_of(name)
            path = Path(folder) / f"{name}.parquet"
            X.assign(target=y).to_parquet(path)
            for given in seconds:
                words = [COMMAND, "fit", str(path), "-t", "target", "--time", str(given), "--quiet"]
                start = time.perf_counter()
                done = subprocess.run(words, check=True, capture_output=True, text=True)
                took = time.perf_counter() - start
                lines = " ".join(done.stdout.split())
                row: Row = {
                    "set": name,
                    "time": given,
                    "seconds": round(took, 1),
                    "limit_s": {60: 90, 10: 20}.get(given, ""),
                    "held_out_error": lines.split("held-out error ")[1].split()[0],
                    "plan": lines.split(" plan ")[1].split(" kernel ")[0],
                }
                print(row, flush=True)
                yield row


CASES = [
    *[("magic", n, t) for n, t in ((2000, 60), (4000, 60), (8000, 60), (15_000, 60), (15_000, 5))],
    *[("magic", 8000, 4), ("magic", 15_000, 12)],
    *[("pendigits", n, t) for n, t in ((2000, 60), (4000, 60), (7500, 60), (7500, 5), (7500, 9))],
    *[("adult", n, t) for n, t in ((2000, 60), (5000, 60), (10_000, 60), (10_000, 8))],
    *[("adult", n, t) for n, t in ((20_000, 20), (30_000, 10), (30_000, 30))],
    *[("skin", n, t) for n, t in ((10_000, 60), (30_000, 20), (60_000, 20), (60_000, 8))],
    *[("mnist", n, t) for n, t in ((3000, 60), (10_000, 60), (10_000, 15), (30_000, 30))],
    *[("mnist", 60_000, 40), ("ridge", 10_000, 20), ("ridge", 40_000, 20)],
]


def predicted(first: int, last: int) -> Iterator[Row]:
    """Fits within a time, one after the other; the ridge predicts the first column of magic."""
    for name, n, seconds in CASES[first:last]:
        X, _, y, _ = split_of("skin" if name == "ridge" else name)
        rows = np.random.default_rng(0).permutation(len(y))[:n]
        values, y = X.to_numpy()[rows], y[rows]
        if name == "mnist":
            values = values / 255.0
        else:
            values = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
        options: dict[str, Any] = {"max_time": seconds, "random_state": 0}
        model: Any = KernelFisherClassifier(**options)
        if name == "ridge":
            model, y, values = KernelRidgeCV(**options), values[:, 0], values[:, 1:]
        start = time.perf_counter()
        model.fit(values, y)
        took, plan = time.perf_counter() - start, model.plan_
        row: Row = {
            "set": name,
            "rows": n,
            "columns": values.shape[1],
            "classes": len(np.unique(y)) if name != "ridge" else "",
            "max_time": seconds,
            "centres": plan.parameters.get("n_components", "all"),
            "method": model.selection_.method,
            "predicted_s": round(plan.seconds, 2),
            "measured_s": round(took, 2),
            "ratio": round(max(took / plan.seconds, plan.seconds / took), 3),
        }
        print(row, flush=True)
        yield row


def mixed(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Thirty columns of numbers, some with holes, and twenty of texts."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, 30))
    codes = rng.integers(0, 8, size=(n, 20))
    score = np.sin(2 * Z[:, 0]) + Z[:, 1] * Z[:, 2] + 0.5 * (codes[:, 0] - codes[:, 1]) / 3
    y = np.where(score + 0.5 * rng.normal(size=n) > 0, "yes", "no")
    Z[:, 5:10][rng.random((n, 5)) < 0.05] = np.nan
    frame = pd.DataFrame(Z, columns=[f"x{j}" for j in range(30)])
    texts = {f"t{j}": pd.Series(codes[:, j]).map("level {}".format) for j in range(20)}
    return frame.assign(**texts), y


def memory(which: str) -> Iterator[Row]:
    if which == "centres":
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300_000, 10))
        y = (np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + rng.normal(size=len(X)) > 0).astype(int)
        model: Any = KernelFisherClassifier(n_components=300, basis="random", random_state=0)
    else:
        X, y = mixed(100_000)
        model = TableClassifier(max_time=120)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    start, spent = time.perf_counter(), time.process_time()
    model.fit(X, y)
    row: Row = {
        "what": which,
        "seconds": round(time.perf_counter() - start, 2),
        "processor_s": round(time.process_time() - spent, 2),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "before_gb": round(before, 2),
        "plan": model.plan_.sentence,
    }
    print(row, flush=True)
    yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("accuracy", "command", "predicted", "memory"))
    parser.add_argument("--sets", nargs="+", choices=TRAINED, default=list(TRAINED))
    parser.add_argument("--model", default="", help="models whose name contains this")
    parser.add_argument("--time", nargs="+", type=int, default=[60, 10], help="of the command")
    parser.add_argument("--cases", nargs=2, type=int, default=[0, len(CASES)])
    parser.add_argument("--what", choices=("centres", "mixed"), default="centres")
    parser.add_argument("--again", action="store_true", help="begin the results file anew")
    args = parser.parse_args()
    if args.again:
        (RESULTS / f"large_plans_{args.part}.csv").unlink(missing_ok=True)
    rows = {
        "accuracy": lambda: accuracy(args.sets, args.model),
        "command": lambda: command(args.sets, args.time),
        "predicted": lambda: predicted(*args.cases),
        "memory": lambda: memory(args.what),
    }[args.part]()
    append_csv(f"large_plans_{args.part}", rows)


if __name__ == "__main__":
    main()
