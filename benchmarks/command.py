"""Wall time and peak memory of the ``fisherkit`` command, from the start of the process.

    FISHERKIT_DATA=... python benchmarks/command.py

``limits`` (the default): ``--help``, a fit of 200 rows, and adult (45,222 rows, 104 columns) from
CSV to finished model and report, beside the limits that the command is to keep. ``large``: adult
out of core, the influence of each of its rows, and a generated CSV of 300 MB (numbers, texts) out
of core, with its peak memory beside the size of the file.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from _common import Row, print_table, write_csv

COMMAND = (str(Path(sys.executable).with_name("fisherkit")),)
MEGABYTES = 300


# A process starts with the peak memory of the one that starts it: a small one stands in between.
WATCH = """
import os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(time.perf_counter() - start, usage.ru_maxrss / 1e6)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run(*words: object) -> tuple[float, float]:
    """Seconds from the start of the process to its end, and peak memory in GB (Linux)."""
    watched = [sys.executable, "-c", WATCH, *COMMAND, *map(str, words)]
    ended = subprocess.run(watched, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"fisherkit {' '.join(map(str, words))} ended with {ended.returncode}")
    seconds, peak = map(float, ended.stdout.split())
    return seconds, peak


def measured(
    name: str, repeats: int, limit_s: float | None, limit_gb: float, *words: object
) -> Row:
    """The least time of some runs and the most memory, beside the limits."""
    runs = [run(*words) for _ in range(repeats)]
    seconds, peak = min(s for s, _ in runs), max(gb for _, gb in runs)
    holds = (limit_s is None or seconds < limit_s) and peak < limit_gb
    return {
        "what": name,
        "seconds": round(seconds, 2),
        "limit_s": "" if limit_s is None else limit_s,
        "peak_gb": round(peak, 3),
        "limit_gb": limit_gb,
        "holds": holds,
    }


def adult(folder: Path) -> Path:
    data = np.load(Path(os.environ["FISHERKIT_DATA"]) / "large_adult.npz")
    table = pd.DataFrame(data["X"], columns=[f"x{j}" for j in range(data["X"].shape[1])])
    path = folder / "adult.csv"
    table.assign(income=np.where(data["y"] > 0, "high", "low")).to_csv(path, index=False)
    return path


def generated(path: Path, megabytes: int) -> Path:
    """Twelve columns of numbers, three of text, two classes that overlap."""
    rng = np.random.default_rng(0)
    first = True
    while first or path.stat().st_size < megabytes * 1e6:
        X = rng.normal(size=(20_000, 12))
        table = pd.DataFrame(X, columns=[f"x{j}" for j in range(12)])
        for j in range(3):
            table[f"t{j}"] = rng.choice([f"level {k}" for k in range(8)], len(X))
        noise = rng.normal(size=len(X))
        table["y"] = np.where(X[:, 0] * X[:, 1] + X[:, 2] + noise > 0, "yes", "no")
        table.to_csv(path, index=False, mode="w" if first else "a", header=first)
        first = False
    return path


def limits(folder: Path) -> Iterator[Row]:
    small, table = folder / "small.csv", adult(folder)
    pd.read_csv(table, nrows=200).to_csv(small, index=False)
    yield measured("--help", 5, 0.5, 2.0, "--help")
    page = ("--model", folder / "m.fisherkit", "--report", folder / "r.html", "-q")
    yield measured("fit, 200 rows", 3, 5.0, 2.0, "fit", small, "-t", "income", "-q")
    yield measured("fit, 200 rows, report", 3, None, 2.0, "fit", small, "-t", "income", *page)
    yield measured("fit, adult, report", 1, 90.0, 2.0, "fit", table, "-t", "income", *page)
    words = ("predict", folder / "m.fisherkit", table, "-o", folder / "answers.csv", "-q")
    yield measured("predict, adult", 1, None, 2.0, *words)


def large(folder: Path) -> Iterator[Row]:
    table = adult(folder)
    page = ("--model", folder / "m.fisherkit", "--report", folder / "r.html", "-q")
    words: tuple[object, ...] = ("fit", table, "-t", "income", "--out-of-core", *page)
    yield measured("fit --out-of-core, adult, report", 1, None, 2.0, *words)
    yield measured("audit, adult", 1, None, 4.0, "audit", table, "-t", "income", "-q")
    path = generated(folder / "generated.csv", MEGABYTES)
    words = ("fit", path, "-t", "y", "--out-of-core", "--held-out", "none", *page[:2], "-q")
    yield measured(f"fit --out-of-core, {MEGABYTES} MB CSV", 1, None, 0.6, *words)
    words = ("predict", folder / "m.fisherkit", path, "-o", folder / "answers.csv", "-q")
    yield measured(f"predict, {MEGABYTES} MB CSV", 1, None, 0.6, *words)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("limits", "large"), default="limits")
    part = parser.parse_args().part
    with TemporaryDirectory() as name:
        rows = list((limits if part == "limits" else large)(Path(name)))
    print_table(rows)
    write_csv(f"command_{part}", rows)
