"""Three and more classes on real tables: the default, the rule before it, SVC and committees.

The dev suite of tables with three classes and more (FISHERKIT_DATA/tables/*.parquet, target column
"target"). Five stratified splits: training on at most 1,000 rows and 70 %, test on at most 2,000
others; medians where numbers are missing, standardised; levels of text as they are, the missing one
among them, rare ones together. All of it is learned from the training part and the same for every
method.

    default         KernelFisherClassifier()
    lda             KernelFisherClassifier(multiclass="lda", criterion="press")
    press           KernelFisherClassifier(criterion="press")
    committee       FisherCommitteeClassifier()
    svc             SVC, 5 C x 4 gamma x 5 folds; log-loss is that of CalibratedClassifierCV on it

Error in percent; log-loss with probabilities of at least 1e-6 (``below`` counts the rows under it);
expected calibration error of the answer's confidence in 15 bins. Every (method, table, split) is a
row of results/classes.csv, written as it finishes; a later run computes only what is missing.
``--label before`` marks the rows of another version of fisherkit, on PYTHONPATH, as such.
results/classes_summary.csv has the geometric means over tables, results/classes_reliability.csv the
calibration of tables with 1,000 test rows and more.

``--cost`` times the decision stage, the choice of its ridge included, on blobs, beside the fit:
results/classes_cost.csv, processor seconds.
"""

import argparse
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _common import Row, append_csv, print_table, read_csv, write_csv
from sklearn.base import ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from fisherkit import FisherCommitteeClassifier, KernelFisherClassifier
from fisherkit.core import Rule, Weights
from fisherkit.tuning import Parts

FILE = "classes"
TRAIN, TEST, SPLITS = 1000, 2000, 5
LEAST = 1e-6  # probability that is scored
BINS = 15
OURS = {
    "default": KernelFisherClassifier(random_state=0),
    "lda": KernelFisherClassifier(random_state=0),
    "press": KernelFisherClassifier(criterion="press", random_state=0),
    "committee": FisherCommitteeClassifier(random_state=0),
}
PARAMETERS = {"lda": {"multiclass": "lda", "criterion": "press"}}
METHODS = ("default", "lda", "press", "svc", "committee")
C = 10.0 ** np.arange(-1, 4)
GAMMA = 2.0 ** np.arange(-5, 3, 2)  # in units of "scale"
# Against which method, and at most which ratio of error and of log-loss.
LIMITS = {
    ("default", "default before"): (0.88, 0.60),
    ("default", "svc"): (1.0, 0.80),
    ("committee", "committee before"): (0.97, 0.85),
}
RELIABILITY_LIMIT = 0.06
SHARE_LIMIT = 0.3
COSTS = (
    (1000, 10, 0.4, {}),
    (1000, 26, 1.0, {}),
    (4000, 200, None, {"basis": "random", "n_components": 500}),
    (100_000, 10, None, {"basis": "random", "n_components": 1000}),
)
ADDED = np.array([0.3, 0.02])  # to error and log-loss, so that zeros have ratios


def tables() -> dict[str, pd.DataFrame]:
    """Tables with three classes and more, by name."""
    folder = Path(os.environ["FISHERKIT_DATA"]) / "tables"
    found = {path.stem: pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))}
    return {name: table for name, table in found.items() if table["target"].nunique() > 2}


def split_of(table: pd.DataFrame, split: int) -> tuple[np.ndarray, ...]:
    """X, y of the training rows and of the test rows."""
    n = len(table)
    train = min(TRAIN, int(0.7 * n))
    draw = StratifiedShuffleSplit(
        1, train_size=train, test_size=min(TEST, n - train), random_state=split
    )
    features, y = table.drop(columns="target"), table["target"].astype(str).to_numpy()
    (inside, outside), *_ = draw.split(features, y)
    numbers = [c for c in features if pd.api.types.is_numeric_dtype(features[c])]
    texts = [c for c in features if c not in numbers]
    features = features.astype(dict.fromkeys(numbers, float))
    features[texts] = features[texts].astype(object).where(features[texts].notna(), "missing")
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (
            OneHotEncoder(
                handle_unknown="infrequent_if_exist", min_frequency=3, sparse_output=False
            ),
            texts,
        ),
    )
    with warnings.catch_warnings():  # levels and columns that the training part does not have
        warnings.simplefilter("ignore")
        X = prepare.fit_transform(features.iloc[inside])
        X_test = prepare.transform(features.iloc[outside])
    return X, y[inside], X_test, y[outside]


def fitted(method: str, X: np.ndarray, y: np.ndarray) -> tuple[ClassifierMixin, ClassifierMixin]:
    """What answers, and what gives probabilities."""
    if method != "svc":
        model = clone(OURS[method]).set_params(**PARAMETERS.get(method, {})).fit(X, y)
        return model, model
    gammas = GAMMA / (X.shape[1] * X.var())
    search = GridSearchCV(SVC(), {"C": C, "gamma": gammas}, cv=5).fit(X, y)
    return search, CalibratedClassifierCV(SVC(**search.best_params_), cv=5).fit(X, y)


def scores(y: np.ndarray, answer: np.ndarray, P: np.ndarray, classes: np.ndarray) -> Row:
    own = P[np.arange(len(y)), np.searchsorted(classes, y)]
    confidence, right = P.max(axis=1), classes[P.argmax(axis=1)] == y
    bins = np.minimum((BINS * confidence).astype(int), BINS - 1)
    gaps = [abs(np.sum(confidence[bins == b] - right[bins == b])) for b in range(BINS)]
    return {
        "error": 100 * np.mean(answer != y),
        "log_loss": -np.mean(np.log(np.maximum(own, LEAST))),
        "below": int(np.sum(own < LEAST)),
        "calibration_error": sum(gaps) / len(y),
    }


def run(method: str, name: str, table: pd.DataFrame, split: int, label: str) -> Row:
    X, y, X_test, y_test = split_of(table, split)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes of fewer rows than folds
        model, probable = fitted(method, X, y)
    seconds = time.process_time() - start
    found = scores(y_test, model.predict(X_test), probable.predict_proba(X_test), probable.classes_)
    shape = {"n": len(y), "n_test": len(y_test), "n_classes": len(probable.classes_)}
    row = {"table": name, "split": split, "method": " ".join(filter(None, (method, label)))}
    return {**row, **shape, **found, "seconds": seconds}


def produce(methods: Iterable[str], splits: int, label: str) -> Iterable[Row]:
    done = {(r["method"], r["table"], int(r["split"])) for r in read_csv(FILE)}
    # Small tables first, and one split of all before the next.
    every = sorted(tables().items(), key=lambda item: min(len(item[1]), TRAIN))
    for split in range(splits):
        for name, table in every:
            for method in methods:
                if (" ".join(filter(None, (method, label))), name, split) not in done:
                    yield run(method, name, table, split, label)


def means(rows: list[dict[str, str]]) -> dict[str, dict[str, dict[int, tuple[float, float]]]]:
    """Error and log-loss by method, table and split."""
    found: dict[str, dict[str, dict[int, tuple[float, float]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for r in rows:
        found[r["method"]][r["table"]][int(r["split"])] = float(r["error"]), float(r["log_loss"])
    return found


def comparison(rows: list[dict[str, str]]) -> list[Row]:
    """Ratios of geometric means of (error + .3) and (log-loss + .02), over splits of both."""
    found, result = means(rows), []
    pairs = [*LIMITS, ("press", "default before"), ("default", "lda"), ("default", "committee")]
    for method, other in pairs:
        logs, fewest = [], SPLITS
        for name in sorted(set(found[method]) & set(found[other])):
            both = sorted(set(found[method][name]) & set(found[other][name]))
            fewest = min(fewest, len(both))
            ours, theirs = (
                np.mean([found[m][name][s] for s in both], axis=0) for m in (method, other)
            )
            logs.append(np.log((ours + ADDED) / (theirs + ADDED)))
        if logs:
            error, log_loss = np.exp(np.mean(logs, axis=0))
            limits = LIMITS.get((method, other))
            row: Row = {"method": method, "against": other, "tables": len(logs)}
            row |= {"splits": fewest, "error": error}
            row |= {"error_limit": "" if limits is None else limits[0], "log_loss": log_loss}
            row |= {"log_loss_limit": "" if limits is None else limits[1]}
            holds = limits is None or bool(error <= limits[0] and log_loss <= limits[1])
            result.append(row | {"holds": "" if limits is None else holds})
    return result


def reliability(rows: list[dict[str, str]]) -> list[Row]:
    """Mean calibration error of the large tables."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for r in rows:
        if int(r["n_test"]) >= 1000 and r["method"] in ("default", "committee", "svc"):
            found[r["table"], r["method"]].append(float(r["calibration_error"]))
    return [
        {
            "table": name,
            "method": method,
            "splits": len(values),
            "calibration_error": float(np.mean(values)),
            "limit": RELIABILITY_LIMIT if method in OURS else "",
            "holds": bool(method not in OURS or np.mean(values) <= RELIABILITY_LIMIT),
        }
        for (name, method), values in sorted(found.items())
    ]


def cost(n: int, k: int, limit: float | None, **options: object) -> Row:
    """Processor seconds of a fit, and of its decision stage once more."""
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
    X = 1.5 * rng.normal(size=(k, 10))[y] + rng.normal(size=(n, 10))
    model = KernelFisherClassifier(random_state=0, **options)
    start = time.process_time()
    model.fit(X, y)
    whole = time.process_time() - start
    stages = []

    class Timed(KernelFisherClassifier):
        def _decide(
            self,
            left: Parts,
            rule: Rule,
            classes: Weights,
            scatter: np.ndarray,
            *,
            sampled: bool = False,
        ) -> Sequence[Any]:
            start = time.process_time()
            found = super()._decide(left, rule, classes, scatter, sampled=sampled)
            stages.append(time.process_time() - start)
            return found

    Timed(**model.get_params()).fit(X, y)
    share = stages[0] / whole
    holds = stages[0] <= limit if limit is not None else share <= SHARE_LIMIT or n < 100_000
    return {
        "n": n,
        "classes": k,
        "method": model.selection_.method,
        "fit_s": whole,
        "decision_s": stages[0],
        "limit_s": "" if limit is None else limit,
        "share": share,
        "share_limit": SHARE_LIMIT if n >= 100_000 else "",
        "ridge": getattr(model.calibration_, "ridge", ""),
        "holds": bool(holds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs="*", choices=METHODS, default=METHODS)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--label", default="")
    parser.add_argument("--cost", action="store_true")
    options = parser.parse_args()
    if options.cost:
        found = [cost(n, k, limit, **words) for n, k, limit, words in COSTS]
        print_table(found)
        write_csv(f"{FILE}_cost", found)
        return
    append_csv(FILE, produce(options.run, options.splits, options.label))
    rows = read_csv(FILE)
    for name, summary in (("summary", comparison(rows)), ("reliability", reliability(rows))):
        if summary:
            print_table(summary)
            write_csv(f"{FILE}_{name}", summary)


if __name__ == "__main__":
    main()
