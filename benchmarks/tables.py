"""Tables with numbers, words and holes: TableClassifier beside its peers, on the same splits.

The dev suite (FISHERKIT_DATA/tables/*.parquet, target column "target"). Stratified splits: training
on at most 1,000 rows and 70 %, test on at most 2,000 others. Every method is given the raw training
part and learns all it needs from it.

    table       TableClassifier()                         fast    TableClassifier(learn=False)
    committee   FisherCommitteeClassifier() on medians, standardised, and indicators of levels
    svc         SVC, 5 C x 4 gamma x 5 folds, on the same; log-loss of CalibratedClassifierCV on it
    logistic    LogisticRegressionCV                      extratrees  ExtraTrees, 500 trees
    boosting    HistGradientBoosting at its defaults, categories as such
    lightgbm    12 random configurations x 4 folds with early stopping, for native categories and
                for indicators; the best by its folds, fitted to all rows
    catboost    native categories, its defaults or 500 trees at rate .06, the better by 3 folds
    xgboost     300 trees at rate .1 and its other defaults, categories as such
    xrfm        12 configurations on a validation fifth

Peers come with `pip install "fisherkit[peers]"`. Error in percent; log-loss with probabilities of
at least 1e-6; processor seconds of one thread. Every (method, table, split) is a row of
results/tables.csv, written as it finishes; a later run computes only what is missing, so that a
killed run loses one fit. ``--label before`` marks the rows of another version of fisherkit, on
PYTHONPATH, as such. ``--summary`` writes results/tables_summary.csv (geometric means of ratios of
error + .3 and log-loss + .02, mean ranks) and the pictures docs/images/tables_rank_*.svg and
docs/images/tables_time.png.

    python benchmarks/tables.py --splits 5 --methods table,catboost
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _common import RESULTS, Row, append_csv, print_table, read_csv, write_csv
from scipy.stats import studentized_range
from sklearn.base import ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from fisherkit.reproduction.rank_figure import critical_difference

FILE = "tables"
TRAIN, TEST, SPLITS = 1000, 2000, 5
LEAST = 1e-6  # probability that is scored
ADDED = np.array([0.3, 0.02])  # to error and log-loss, so that zeros have ratios
C = 10.0 ** np.arange(-1, 4)
GAMMA = 2.0 ** np.arange(-5, 3, 2)  # in units of "scale"
TRIALS, FOLDS, ROUNDS, PATIENCE = 12, 4, 1000, 30

Probabilities = tuple[np.ndarray, np.ndarray]  # labels (n,) and probabilities (n, k)
Answer = Callable[[pd.DataFrame], Probabilities]


def tables() -> dict[str, pd.DataFrame]:
    """The dev suite by name."""
    folder = Path(os.environ["FISHERKIT_DATA"]) / "tables"
    return {path.stem: pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))}


def split_of(table: pd.DataFrame, split: int) -> tuple[Any, ...]:
    """X, y of the training rows and of the test rows, as they are."""
    n = len(table)
    train = min(TRAIN, int(0.7 * n))
    draw = StratifiedShuffleSplit(
        1, train_size=train, test_size=min(TEST, n - train), random_state=split
    )
    X, y = table.drop(columns="target"), table["target"].astype(str).to_numpy()
    (inside, outside), *_ = draw.split(X, y)
    return X.iloc[inside], y[inside], X.iloc[outside], y[outside]


def numbers_and_texts(X: pd.DataFrame) -> tuple[list[str], list[str]]:
    numbers = [c for c in X if pd.api.types.is_numeric_dtype(X[c])]
    return numbers, [c for c in X if c not in numbers]


def plain(X: pd.DataFrame) -> pd.DataFrame:
    """Floats with NaN, and texts in which "missing" is one."""
    numbers, texts = numbers_and_texts(X)
    X = X.astype(dict.fromkeys(numbers, float))
    if texts:
        known = X[texts].astype(object)
        X[texts] = known.where(known.notna(), "missing").astype(str)
    return X


def indicators(X: pd.DataFrame, *, scaled: bool = True) -> Any:
    """Medians and indicators of levels; numbers standardised."""
    numbers, texts = numbers_and_texts(X)
    number = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    encode = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=3, sparse_output=False
    )
    return make_pipeline(
        make_column_transformer(
            (number if scaled else "passthrough", numbers),
            (encode, texts),
        )
    )


class Categories:
    """Texts as pandas categories of the training levels; others are missing."""

    def __init__(self, X: pd.DataFrame) -> None:
        _, texts = numbers_and_texts(X)
        self.levels = {name: sorted(X[name].unique()) for name in texts}

    def __call__(self, X: pd.DataFrame) -> pd.DataFrame:
        coded = {
            name: pd.Categorical(X[name].where(X[name].isin(levels)), categories=levels)
            for name, levels in self.levels.items()
        }
        return X.assign(**coded)


def of(model: Any, prepare: Callable[[pd.DataFrame], Any] = plain) -> Answer:
    """The answer of a fitted scikit-learn classifier."""

    def answer(X: pd.DataFrame) -> Probabilities:
        seen = prepare(X)
        return model.predict(seen), model.predict_proba(seen)

    return answer


def scikit(make: Callable[[int], ClassifierMixin]) -> Callable[..., Answer]:
    """A classifier on indicators."""

    def fit(X: pd.DataFrame, y: np.ndarray) -> Answer:
        X = plain(X)
        return of(make_pipeline(indicators(X), make(len(X))).fit(X, y))

    return fit


def svc(X: pd.DataFrame, y: np.ndarray) -> Answer:
    X = plain(X)
    prepare = indicators(X).fit(X)
    Z = prepare.transform(X)
    gammas = GAMMA / (Z.shape[1] * Z.var())
    search = GridSearchCV(SVC(), {"C": C, "gamma": gammas}, cv=5).fit(Z, y)
    likely = CalibratedClassifierCV(SVC(**search.best_params_), cv=5).fit(Z, y)

    def answer(X: pd.DataFrame) -> Probabilities:
        Z = prepare.transform(plain(X))
        return search.predict(Z), likely.predict_proba(Z)

    return answer


def boosting(X: pd.DataFrame, y: np.ndarray) -> Answer:
    categories = Categories(plain(X))
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    return of(model.fit(categories(plain(X)), y), lambda X: categories(plain(X)))


def folds_of(y: np.ndarray, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(StratifiedKFold(folds, shuffle=True, random_state=0).split(y, y))


def trials(seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "num_leaves": int(rng.choice([4, 8, 16, 31, 63])),
            "learning_rate": float(rng.choice([0.03, 0.06, 0.1])),
            "min_child_samples": int(rng.choice([2, 5, 10, 20])),
            "colsample_bytree": float(rng.choice([0.4, 0.7, 1.0])),
            "subsample": float(rng.choice([0.7, 1.0])),
            "subsample_freq": 1,
            "reg_lambda": float(rng.choice([0.0, 1.0, 10.0])),
        }
        for _ in range(TRIALS)
    ]


def lightgbm(X: pd.DataFrame, y: np.ndarray) -> Answer:
    from lightgbm import LGBMClassifier, early_stopping

    raw, labels = plain(X), LabelEncoder().fit(y)
    code = labels.transform(y)
    categories, encode = Categories(raw), indicators(raw, scaled=False).fit(raw)
    ways = {"native": lambda X: categories(plain(X))}
    if categories.levels:
        ways["indicators"] = lambda X: encode.transform(plain(X))
    fixed = {"n_jobs": 1, "verbose": -1, "random_state": 0, "force_row_wise": True}
    best: tuple[float, Any] = (np.inf, None)
    for way, prepare in ways.items():
        Z = prepare(X)
        take = Z.iloc if isinstance(Z, pd.DataFrame) else Z
        for trial in trials(0):
            losses, rounds = [], []
            for inside, outside in folds_of(y, FOLDS):
                present = np.unique(code[inside])
                outside = outside[np.isin(code[outside], present)]
                place = np.searchsorted(present, code)
                model = LGBMClassifier(n_estimators=ROUNDS, **trial, **fixed)
                model.fit(
                    take[inside],
                    place[inside],
                    eval_set=[(take[outside], place[outside])],
                    callbacks=[early_stopping(PATIENCE, verbose=False)],
                )
                rounds.append(model.best_iteration_ or ROUNDS)
                P = model.predict_proba(take[outside])
                losses.append(log_loss(place[outside], P, labels=np.arange(len(present))))
            if np.mean(losses) < best[0]:
                best = np.mean(losses), (prepare, trial, int(np.mean(rounds)), way)
    prepare, trial, rounds_, _ = best[1]
    model = LGBMClassifier(n_estimators=max(rounds_, 1), **trial, **fixed).fit(prepare(X), code)

    def answer(X: pd.DataFrame) -> Probabilities:
        P = np.asarray(model.predict_proba(prepare(X)))
        return labels.classes_[P.argmax(axis=1)], P

    return answer


CATBOOST: tuple[dict[str, Any], ...] = ({}, {"iterations": 500, "learning_rate": 0.06})


def cat(X: pd.DataFrame, y: np.ndarray, **parameters: Any) -> Any:
    from catboost import CatBoostClassifier

    _, texts = numbers_and_texts(X)
    fixed = {"thread_count": 1, "verbose": 0, "allow_writing_files": False, "random_seed": 0}
    return CatBoostClassifier(cat_features=texts, **fixed, **parameters).fit(plain(X), y)


def catboost(X: pd.DataFrame, y: np.ndarray) -> Answer:
    losses = []
    for parameters in CATBOOST:
        total = 0.0
        for inside, outside in folds_of(y, 3):
            model = cat(X.iloc[inside], y[inside], **parameters)
            P, classes = model.predict_proba(plain(X.iloc[outside])), list(model.classes_)
            known = np.isin(y[outside], classes)
            total += log_loss(y[outside][known], P[known], labels=classes)
        losses.append(total)
    model = cat(X, y, **CATBOOST[int(np.argmin(losses))])
    return lambda X: (model.predict(plain(X)).ravel(), model.predict_proba(plain(X)))


def catboost_once(X: pd.DataFrame, y: np.ndarray) -> Answer:
    """One fit at the defaults: the measure of time."""
    model = cat(X, y)
    return lambda X: (model.predict(plain(X)).ravel(), model.predict_proba(plain(X)))


def xgboost(X: pd.DataFrame, y: np.ndarray) -> Answer:
    from xgboost import XGBClassifier

    categories, labels = Categories(plain(X)), LabelEncoder().fit(y)
    model = XGBClassifier(
        n_estimators=300,
        learning_rate=0.1,
        n_jobs=1,
        tree_method="hist",
        enable_categorical=True,
        random_state=0,
    )
    model.fit(categories(plain(X)), labels.transform(y))

    def answer(X: pd.DataFrame) -> Probabilities:
        P = model.predict_proba(categories(plain(X)))
        return labels.classes_[P.argmax(axis=1)], P

    return answer


def xrfm(X: pd.DataFrame, y: np.ndarray) -> Answer:
    from xrfm import xRFM

    X, labels = plain(X), LabelEncoder().fit(y)
    prepare = indicators(X).fit(X)
    Z, code = prepare.transform(X).astype(np.float32), labels.transform(y)
    inside, outside = folds_of(y, 5)[0]
    best: tuple[float, Any] = (np.inf, None)
    for kernel, norm in (("l2", {}), ("l1_kermac", {}), ("lpq_kermac", {"norm_p": 1.5})):
        for bandwidth in (3.0, 10.0):
            for ridge in (1e-4, 1e-2):
                parameters = {
                    "model": {
                        "kernel": kernel,
                        "bandwidth": bandwidth,
                        "exponent": 1.0,
                        **norm,
                        "diag": True,
                        "bandwidth_mode": "adaptive",
                    },
                    "fit": {"reg": ridge, "iters": 3, "verbose": False},
                }
                model = xRFM(parameters, device="cpu", tuning_metric="logloss")
                model.fit(Z[inside], code[inside], Z[outside], code[outside])
                P = np.asarray(model.predict_proba(Z[outside]))
                loss = log_loss(code[outside], P, labels=np.arange(len(labels.classes_)))
                if loss < best[0]:
                    best = loss, model

    def answer(X: pd.DataFrame) -> Probabilities:
        P = np.asarray(best[1].predict_proba(prepare.transform(plain(X)).astype(np.float32)))
        return labels.classes_[P.argmax(axis=1)], P

    return answer


def committee(n: int) -> ClassifierMixin:
    from fisherkit import FisherCommitteeClassifier

    return FisherCommitteeClassifier(random_state=0)


def table(**parameters: Any) -> Callable[..., Answer]:
    def fit(X: pd.DataFrame, y: np.ndarray) -> Answer:
        from fisherkit import TableClassifier

        model = TableClassifier(random_state=0, **parameters).fit(X, y)
        return lambda X: (model.predict(X), model.predict_proba(X))

    return fit


def logistic(n: int) -> ClassifierMixin:
    return LogisticRegressionCV(
        Cs=8,
        cv=5,
        max_iter=2000,
        scoring="neg_log_loss",
        l1_ratios=(0,),
        use_legacy_attributes=False,
    )


def trees(n: int) -> ClassifierMixin:
    return ExtraTreesClassifier(500, n_jobs=1, random_state=0)


METHODS: dict[str, Callable[..., Answer]] = {
    "table": table(),
    "fast": table(learn=False),
    "committee": scikit(committee),
    "catboost": catboost,
    "lightgbm": lightgbm,
    "boosting": boosting,
    "xgboost": xgboost,
    "svc": svc,
    "logistic": scikit(logistic),
    "extratrees": scikit(trees),
    "xrfm": xrfm,
    "catboost_once": catboost_once,
}
UNRANKED = ("fast", "committee", "catboost_once")
IMAGES = Path(__file__).parents[1] / "docs" / "images"
NAMES = {
    "table": "TableClassifier",
    "catboost": "CatBoost",
    "lightgbm": "LightGBM",
    "boosting": "HistGradientBoosting",
    "xgboost": "XGBoost",
    "svc": "SVC",
    "logistic": "LogisticRegression",
    "extratrees": "ExtraTrees",
    "xrfm": "xRFM",
}

PLACES = {  # of labels in the picture of time, in points from their mark
    "table": (0, -17, "center"),
    "fast": (-9, -3, "right"),
    "boosting": (-6, -16, "left"),
    "xgboost": (-6, 7, "left"),
}


def run(method: str, name: str, data: pd.DataFrame, split: int, label: str) -> Row:
    X, y, X_test, y_test = split_of(data, split)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes of fewer rows than folds, levels not seen
        answer = METHODS[method](X, y)
        seconds = time.process_time() - start
        predicted, P = answer(X_test)
    classes = np.unique(y)
    own = P[np.arange(len(y_test)), np.searchsorted(classes, y_test)]
    return {
        "table": name,
        "split": split,
        "method": " ".join(filter(None, (method, label))),
        "n": len(y),
        "n_features": X.shape[1],
        "n_classes": len(classes),
        "error": 100 * np.mean(predicted != y_test),
        "log_loss": -np.mean(np.log(np.maximum(own, LEAST))),
        "seconds": seconds,
    }


def compute(methods: list[str], splits: int, names: list[str], label: str) -> None:
    """What is missing, written as it finishes; the first split of all tables before the next."""
    suite = tables()
    done = {(row["method"], row["table"], int(row["split"])) for row in read_csv(FILE)}
    for split in range(splits):
        for method in methods:
            called = " ".join(filter(None, (method, label)))
            for name in names or suite:
                if (called, name, split) not in done:
                    row = run(method, name, suite[name], split, label)
                    print_table([row])
                    append_csv(FILE, [row])


def frame() -> pd.DataFrame:
    """All rows so far."""
    rows = pd.DataFrame(read_csv(FILE))
    numbers = ["error", "log_loss", "seconds"]
    return rows.astype(dict.fromkeys(numbers, float)).astype({"split": int})


def ratios(rows: pd.DataFrame, method: str, other: str) -> dict[str, float]:
    """Geometric means over tables, of means over the splits that both have."""
    keys = ["table", "split"]
    both = rows[rows.method == method].merge(rows[rows.method == other], on=keys)
    mean = both.groupby("table")[
        ["error_x", "error_y", "log_loss_x", "log_loss_y", "seconds_x", "seconds_y"]
    ].mean()
    found: dict[str, float] = {"tables": len(mean), "fits": len(both)}
    for name, added in (("error", ADDED[0]), ("log_loss", ADDED[1]), ("seconds", 0.0)):
        logs = np.log((mean[f"{name}_x"] + added) / (mean[f"{name}_y"] + added))
        found[name] = float(np.exp(logs.mean()))
    return found


def ranks(rows: pd.DataFrame, methods: list[str], column: str) -> tuple[pd.Series, int]:
    """Mean rank over the tables that all of the methods have done, and their number."""
    rows = rows[rows.method.isin(methods)]
    splits = rows.groupby(["table", "split"]).method.nunique()
    complete = splits[splits == len(methods)].index
    rows = rows.set_index(["table", "split"]).loc[complete].reset_index()
    means = rows.groupby(["table", "method"])[column].mean().unstack()
    return means.rank(axis=1).mean(), len(means)


def draw(place: pd.Series, tables: int, column: str) -> None:
    """The critical-difference picture: Nemenyi's test at 5 %."""
    k = len(place)
    q = studentized_range.ppf(0.95, k, np.inf) / 2**0.5
    names = {NAMES.get(method, method): rank for method, rank in place.items()}
    drawing = critical_difference(names, q * (k * (k + 1) / (6 * tables)) ** 0.5)
    drawing.savefig(IMAGES / f"tables_rank_{column}.svg", bbox_inches="tight")


def draw_time(rows: pd.DataFrame, methods: list[str]) -> None:
    """Error and log-loss, as multiples of those of TableClassifier, against the time of a fit."""
    import matplotlib.pyplot as plt

    drawing, panes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for pane, name in zip(panes, ("error", "log_loss"), strict=True):
        for method in methods:
            own = rows[rows.method == method]
            seconds = float(np.exp(np.log(own.groupby("table").seconds.mean()).mean()))
            height = 1 / ratios(rows, "table", method)[name]
            ours = method in ("table", "fast")
            pane.plot(seconds, height, "o", ms=9 if ours else 6, color="C3" if ours else "0.45")
            *place, side = PLACES.get(method, (0, 7, "center"))
            pane.annotate(
                NAMES.get(method, "learn=False"),
                (seconds, height),
                xytext=place,
                textcoords="offset points",
                ha=side,
                fontsize=9,
                weight="bold" if ours else "normal",
            )
        pane.set_xscale("log")
        pane.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
        pane.margins(x=0.16, y=0.14)
        words = name.replace("_", "-")
        pane.set_xlabel("processor time of a fit with its tuning, seconds")
        pane.set_ylabel(f"{words}, TableClassifier = 1")
        pane.set_title(f"Test {words} on 36 tables: lower is better", fontsize=10)
        pane.spines[["top", "right"]].set_visible(False)
        pane.grid(visible=True, color="0.92")
    drawing.savefig(IMAGES / "tables_time.png", dpi=150)


def summary() -> None:
    rows = frame()
    present = [m for m in METHODS if (rows.method == m).any()]
    ranked = [m for m in present if m not in UNRANKED]
    placed = {}
    for column in ("error", "log_loss"):
        placed[column], tables_ranked = ranks(rows, ranked, column)
        if RESULTS.parent == Path(__file__).parent:
            draw(placed[column], tables_ranked, column)
    if RESULTS.parent == Path(__file__).parent:
        draw_time(rows, [m for m in present if m in ("fast", *ranked)])
    found: list[Row] = []
    for method in [*present, *sorted(set(rows.method) - set(present))]:
        row: Row = {"method": method}
        for column, place in placed.items():
            row[f"rank_{column}"] = place.get(method, np.nan)
        for other in ("table", "fast"):
            if other in present:
                for name, value in ratios(rows, other, method).items():
                    row[f"{other}_{name}"] = value
        found.append(row)
    write_csv(f"{FILE}_summary", found)
    print_table(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--tables", default="")
    parser.add_argument("--label", default="")
    parser.add_argument("--summary", action="store_true")
    asked = parser.parse_args()
    if not asked.summary:
        names = list(filter(None, asked.tables.split(",")))
        compute(asked.methods.split(","), asked.splits, names, asked.label)
    summary()


if __name__ == "__main__":
    main()
