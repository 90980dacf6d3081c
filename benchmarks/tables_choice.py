"""Which families of kernels, how many widths and which combination TableClassifier has by default.

Variants of `TableClassifier` on the dev suite, each at the splits of tables.py. The design is
chosen on half A, tables in alphabetical order at places 1, 3, 5, ..., and confirmed on half B, the
others. Every (variant, table, split) is a row of results/tables_choice.csv, written as it
finishes; results/tables_choice_summary.csv has for each half the geometric means of the ratios of
error + .3, log-loss + .02 and processor seconds to the default.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/tables_choice.py
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from _common import Row, append_csv, print_table, read_csv, write_csv
from tables import ADDED, LEAST, split_of, tables

from fisherkit import TableClassifier

FILE = "tables_choice"
SPLITS = 2
STANDARD = [("rbf", "standard"), ("laplacian", "standard")]
RANKS = [("rbf", "rank"), ("laplacian", "rank")]
ALL = [*STANDARD, *RANKS, ("exponential", "standard")]
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "not learned": {"learn": False},
    "standard view alone without learning": {"kernel": STANDARD, "learn": False},
    "standard view alone": {"kernel": [*STANDARD, ("exponential", "standard")]},
    "without exponential": {"kernel": [*STANDARD, *RANKS]},
    "with additive on ranks": {"kernel": [*ALL, ("additive", "rank")]},
    "rbf learns as well": {"kernel": ALL},
    "averaged over all members": {"parameters": {"combine": "average"}},
    "stacked members": {"parameters": {"combine": "stack"}},
    "5 widths": {"parameters": {"n_widths": 5}},
    "9 widths": {"parameters": {"n_widths": 9}},
}


def run(variant: str, name: str, data: pd.DataFrame, split: int) -> Row:
    X, y, X_test, y_test = split_of(data, split)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = TableClassifier(random_state=0, **VARIANTS[variant]).fit(X, y)
        seconds = time.process_time() - start
        P = model.predict_proba(X_test)
    own = P[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)]
    return {
        "variant": variant,
        "table": name,
        "split": split,
        "error": 100 * np.mean(model.classes_[P.argmax(axis=1)] != y_test),
        "log_loss": -np.mean(np.log(np.maximum(own, LEAST))),
        "seconds": seconds,
    }


def summary() -> list[Row]:
    """Ratios to the default, on each half and on both."""
    rows = pd.DataFrame(read_csv(FILE)).astype({"error": float, "log_loss": float})
    rows["seconds"] = rows["seconds"].astype(float)
    names = sorted(rows.table.unique())
    halves = {"A": names[::2], "B": names[1::2], "both": names}
    means = rows.groupby(["variant", "table"])[["error", "log_loss", "seconds"]].mean()
    means += np.append(ADDED, 0.0)
    found: list[Row] = []
    for variant in [name for name in VARIANTS if name in means.index]:
        logs = np.log(means.loc[variant] / means.loc["default"])
        row: Row = {"variant": variant}
        for half, some in halves.items():
            for column, value in np.exp(logs.reindex(some).mean()).items():
                if column != "seconds" or half == "both":
                    row[f"{column}_{half}"] = float(value)
        found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    asked = parser.parse_args()
    suite = tables()
    done = {(row["variant"], row["table"], int(row["split"])) for row in read_csv(FILE)}
    for variant in asked.variants.split(","):
        for split in range(asked.splits):
            for name in suite:
                if (variant, name, split) not in done:
                    append_csv(FILE, [run(variant, name, suite[name], split)])
    found = summary()
    write_csv(f"{FILE}_summary", found)
    print_table(found)


if __name__ == "__main__":
    main()
