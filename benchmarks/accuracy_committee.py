"""The committee against the single PRESS pick and against scikit-learn's classifiers.

Test error (percent), test log-loss and tuning time on the 13 IDA and 7 UCI sets, 20 splits each (5
for image, splice and chess), features standardised on the training part. The peers are tuned by
5-fold grid search on the same training rows: their error is that of the parameters of best
cross-validated accuracy, their log-loss that of best cross-validated log-loss (SVC: Platt scaling
of the most accurate one, not counted as tuning). Gaussian processes tune by marginal likelihood,
and run where there are at most 700 training rows.

Every (method, set, split) is a row of results/accuracy_committee_splits.csv (part "ours": the
committee and the PRESS pick) or results/accuracy_peers_splits.csv (part "peers": the committee,
TableClassifier and peers), written as it finishes; a later run computes only what is missing. The
summaries are results/accuracy_committee.csv, accuracy_peers.csv and accuracy_table.csv. Times are
processor seconds on one thread.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from _common import Row, append_csv, print_table, read_csv, split_of, write_csv
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits
from versus_svc import GRIDS

from fisherkit import FisherCommitteeClassifier, KernelFisherClassifier, TableClassifier
from fisherkit.reproduction.splits import UCI

# From small to large, so that an unfinished run is of use.
IDA = (
    *("thyroid", "heart", "titanic", "breast_cancer", "ringnorm", "twonorm", "waveform", "banana"),
    *("diabetis", "flare_solar", "german", "splice", "image"),
)
SETS = (*(s for s in IDA if s not in ("splice", "image")), *UCI[:-1], "splice", "image", "chess")
LARGE = ("image", "splice", "chess")
# Largest mean test error of the committee, in percent.
LIMITS = {"splice": 5.8, "image": 2.0, "chess": 0.9, "ringnorm": 1.65, "twonorm": 2.65}
RATIO_LIMIT = 0.90  # geometric mean over the sets of (error + 0.1) / (error of the pick + 0.1)
WORST_LIMIT = 1.2  # points
GAUSSIAN_PROCESS_ROWS = 700
TREES = 200

OURS = {
    "press": KernelFisherClassifier(random_state=0),
    "average": FisherCommitteeClassifier(random_state=0),
    "stack": FisherCommitteeClassifier(combine="stack", random_state=0),
    "best": FisherCommitteeClassifier(combine="best", random_state=0),
    "rbf": FisherCommitteeClassifier(("rbf",), random_state=0),
}
PEERS = {
    "svc": (SVC(), GRIDS["narrow"]),
    "logistic": (LogisticRegression(max_iter=2000), {"C": 10.0 ** np.arange(-3, 4)}),
    "neighbours": (
        KNeighborsClassifier(),
        {"n_neighbors": [1, 3, 5, 9, 15, 25, 45], "weights": ["uniform", "distance"]},
    ),
    "boosting": (
        HistGradientBoostingClassifier(random_state=0),
        {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [4, 31]},
    ),
    "forest": (
        RandomForestClassifier(TREES, random_state=0),
        {"max_features": ["sqrt", 0.5], "min_samples_leaf": [1, 3]},
    ),
    "extra": (
        ExtraTreesClassifier(TREES, random_state=0),
        {"max_features": ["sqrt", 0.5], "min_samples_leaf": [1, 3]},
    ),
    "process": (GaussianProcessClassifier(n_restarts_optimizer=2, random_state=0), None),
}
TABLE = {"table": TableClassifier(random_state=0)}
PARTS = {"ours": tuple(OURS), "peers": ("average", *TABLE, *PEERS)}
FILES = {"ours": "accuracy_committee_splits", "peers": "accuracy_peers_splits"}
MEASURES = ("error", "log_loss", "s")
Results = dict[tuple[str, str], dict[int, tuple[float, float, float]]]
T = TypeVar("T")


def n_splits(name: str, method: str = "") -> int:
    return 5 if name in LARGE and (method not in TABLE or name == "chess") else 20


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Processor seconds of one call, in which other programs do not count, and its result."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def tuned(method: str, X: np.ndarray, y: np.ndarray) -> tuple[float, Any, Any]:
    """Seconds of tuning, the model that is to predict labels, and the one for probabilities."""
    if method in OURS | TABLE:
        seconds, model = timed(lambda: clone((OURS | TABLE)[method]).fit(X, y))
        return seconds, model, model
    model, grid = PEERS[method]
    if grid is None:  # a start that suits standardised features: the size of a typical distance
        kernel = ConstantKernel() * RBF(X.shape[1] ** 0.5, (1e-2, 1e3))
        seconds, model = timed(lambda: clone(model).set_params(kernel=kernel).fit(X, y))
        return seconds, model, model
    if method == "svc":
        seconds, search = timed(lambda: GridSearchCV(model, grid, cv=5).fit(X, y))
        calibrated = CalibratedClassifierCV(search.best_estimator_, cv=5, ensemble=False)
        return seconds, search, calibrated.fit(X, y)
    scoring = ["accuracy", "neg_log_loss"]
    seconds, search = timed(
        lambda: GridSearchCV(model, grid, cv=5, scoring=scoring, refit="accuracy").fit(X, y)
    )
    results = search.cv_results_
    best = results["params"][np.argmin(results["rank_test_neg_log_loss"])]
    return seconds, search, clone(model).set_params(**best).fit(X, y)


def run(method: str, name: str, split: int) -> Row:
    X, y, X_test, y_test = split_of(name, split)
    seconds, labels, chances = tuned(method, X, y)
    p = chances.predict_proba(X_test)
    return {
        "method": method,
        "set": name,
        "split": split,
        "error": 100 * float(np.mean(labels.predict(X_test) != y_test)),
        "log_loss": log_loss(y_test, np.clip(p, 1e-12, None) / p.sum(axis=1, keepdims=True)),
        "seconds": seconds,
        "members": getattr(labels, "effective_members_", ""),
    }


def run_missing(part: str, sets: list[str], splits: int) -> None:
    done = {(r["method"], r["set"], int(r["split"])) for r in read_csv(FILES[part])}
    for split in range(splits):  # one split of every set before the next
        for name in sets:
            missing = [m for m in PARTS[part] if (m, name, split) not in done]
            for method in [m for m in missing if split < n_splits(name, m)]:
                if method == "process" and len(split_of(name, 0)[1]) > GAUSSIAN_PROCESS_ROWS:
                    continue
                row = run(method, name, split)
                append_csv(FILES[part], [row])
                print(
                    f"{name} {split} {method}: error {row['error']:.2f} %, log-loss "
                    f"{row['log_loss']:.4f} in {row['seconds']:.1f} s",
                    flush=True,
                )


def results(part: str) -> Results:
    """Error, log-loss and seconds of each split, for each (method, set)."""
    found: Results = {}
    for r in read_csv(FILES[part]):
        numbers = float(r["error"]), float(r["log_loss"]), float(r["seconds"])
        found.setdefault((r["method"], r["set"]), {})[int(r["split"])] = numbers
    return found


def paired(found: Results, methods: list[str], name: str) -> np.ndarray | None:
    """Splits x methods x (error, log-loss, seconds) on the splits that all of them have."""
    tables = [found.get((method, name), {}) for method in methods]
    common = sorted(set.intersection(*[set(table) for table in tables]))
    return np.array([[table[s] for table in tables] for s in common]) if common else None


def summarise_ours() -> list[Row]:
    """The committee beside the PRESS pick; the row "all" has geometric mean ratios."""
    found, rows, ratios = results("ours"), [], []
    methods = [m for m in OURS if any(key[0] == m for key in found)]
    for name in SETS:
        table = paired(found, methods, name)
        if table is None or len(table) < 2:
            continue
        error, loss, seconds = np.moveaxis(table.mean(axis=0), 1, 0)
        gap = table[:, methods.index("average"), 0] - table[:, 0, 0]
        limit = LIMITS.get(name)
        ratios.append((error + 0.1) / (error[0] + 0.1))
        rows.append(
            {"set": name, "splits": len(table)}
            | {f"{m}_error": e for m, e in zip(methods, error, strict=True)}
            | {f"{m}_log_loss": e for m, e in zip(methods, loss, strict=True)}
            | {f"{m}_s": e for m, e in zip(methods, seconds, strict=True)}
            | {
                "difference": gap.mean(),
                "difference_se": gap.std(ddof=1) / np.sqrt(len(gap)),
                "limit": "" if limit is None else limit,
                "holds": bool(
                    gap.mean() <= WORST_LIMIT
                    and (limit is None or error[methods.index("average")] <= limit)
                ),
            }
        )
    ratio = np.exp(np.mean(np.log(ratios), axis=0))
    total = dict.fromkeys(rows[0], "") | {"set": "all", "splits": sum(r["splits"] for r in rows)}
    total |= {f"{m}_error": r for m, r in zip(methods, ratio, strict=True)}
    total |= {f"{m}_log_loss": np.mean([r[f"{m}_log_loss"] for r in rows]) for m in methods}
    total |= {f"{m}_s": np.sum([r[f"{m}_s"] for r in rows]) for m in methods}
    total |= {"limit": RATIO_LIMIT, "holds": bool(ratio[methods.index("average")] <= RATIO_LIMIT)}
    return [*rows, total]


def summarise_peers() -> list[Row]:
    """The average beside scikit-learn's classifiers: each set, then mean ranks and total times.

    Ranks are taken on the sets where every method ran, and on all sets among those that ran there.
    """
    return compared_with_peers("average")


def compared_with_peers(ours: str) -> list[Row]:
    found, rows = results("peers"), []
    methods = [ours, *(m for m in PEERS if any(key[0] == m for key in found))]
    tables: dict[str, tuple[list[str], np.ndarray]] = {}
    for name in SETS:
        present = [m for m in methods if (m, name) in found]
        table = paired(found, present, name) if len(present) > 1 else None
        if table is None:
            continue
        tables[name] = present, table
        means = table.mean(axis=0)
        row: Row = {"set": name, "splits": len(table)}
        for j, suffix in enumerate(MEASURES):
            row |= {f"{m}_{suffix}": "" for m in methods}
            row |= {f"{m}_{suffix}": v for m, v in zip(present, means[:, j], strict=True)}
        rival = 1 + int(np.argmin(means[1:, 0]))
        gap = table[:, 0, 0] - table[:, rival, 0]
        row |= {"best_peer": present[rival], "difference": gap.mean()}
        row["difference_se"] = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else ""
        rows.append(row)
    everywhere = [m for m in methods if all(m in present for present, _ in tables.values())]
    return [*rows, ranks(methods, tables, rows), ranks(everywhere, tables, rows)]


def summarise_table() -> list[Row]:
    """TableClassifier in the place of the average, and its error on all splits that it has done."""
    rows, found = compared_with_peers("table"), results("peers")
    for row in rows:
        splits = found.get(("table", str(row["set"])), {})
        row["table_splits"] = len(splits) or ""
        row["table_error_on_all"] = np.mean([s[0] for s in splits.values()]) if splits else ""
    return rows


def ranks(
    ranked: list[str],
    tables: dict[str, tuple[list[str], np.ndarray]],
    rows: list[Row],
) -> Row:
    """Mean ranks of the ranked methods on the sets where all of them ran, and seconds in total."""
    some = {name: t for name, (present, t) in tables.items() if set(ranked) <= set(present)}
    row = dict.fromkeys(rows[0], "") | {"set": f"mean rank of {len(ranked)}", "splits": len(some)}
    for j, measure in enumerate(MEASURES):
        values = []
        for name, table in some.items():
            columns = [tables[name][0].index(m) for m in ranked]
            each = table[:, columns, j]
            values.append(
                each.sum(axis=0) if measure == "s" else rankdata(each.mean(axis=0).round(9))
            )
        if values:
            total = np.sum(values, axis=0) if measure == "s" else np.mean(values, axis=0)
            row |= {f"{m}_{measure}": v for m, v in zip(ranked, total, strict=True)}
    return row


SUMMARIES = {
    "ours": {"accuracy_committee": summarise_ours},
    "peers": {"accuracy_peers": summarise_peers, "accuracy_table": summarise_table},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="default: both")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--splits", type=int, default=20, help="at most this many per set")
    parser.add_argument("--fresh", action="store_true", help="recompute ours on these sets")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="sklearn")  # iterations and bounds of the peers
    os.environ["OMP_NUM_THREADS"] = "1"
    for part in options.part or PARTS:
        if options.fresh:
            kept = [
                row
                for row in read_csv(FILES[part])
                if row["set"] not in options.sets or row["method"] in PEERS
            ]
            write_csv(FILES[part], list(kept))
        with threadpool_limits(1):
            run_missing(part, options.sets, options.splits)
        for name, summarise in SUMMARIES[part].items():
            rows = summarise()
            write_csv(name, rows)
            print_table(rows)


if __name__ == "__main__":
    main()
