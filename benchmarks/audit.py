"""Flipped labels found by `fisherkit.audit` and by cleanlab, in the same run.

    FISHERKIT_DATA=... python benchmarks/audit.py
    FISHERKIT_DATA=... python benchmarks/audit.py --nested --noise 0.1 --draws 1 --sets heart

A share of the labels of each set is flipped at random. Precision is the share of flipped rows
among the most suspicious ones, as many as were flipped. cleanlab ranks by 5-fold probabilities of
a calibrated SVC, tuned on a grid by 5-fold cross-validation: once, on all rows, or with --nested
in each fold, so that no row had a part in choosing the model that judges it; beside it, of 5-fold
LogisticRegression. Needs cleanlab. `chance` is the precision of a random ranking.
"""

import argparse

import numpy as np
from _common import Row, append_csv, print_table, timed
from cleanlab.rank import get_label_quality_scores
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fisherkit import KernelFisherClassifier, audit
from fisherkit.datasets import load_ida, load_uci

IDA = (
    *("banana", "breast_cancer", "diabetis", "flare_solar", "german", "heart", "image"),
    *("ringnorm", "splice", "thyroid", "titanic", "twonorm", "waveform"),
)
UCI = ("chess", "credit", "ionosphere", "liver", "sonar", "wbc", "wdbc")
GRID = {
    "C": 2.0 ** np.arange(-5, 12, 2),
    "gamma": 2.0 ** np.arange(-9, 2, 2),
}  # the narrow one of versus_svc.py
NOISE = (0.1, 0.05, 0.2)


def by_audit(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return audit(KernelFisherClassifier(), X, y).sort_index().probability.to_numpy()


def by_svc(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    best = GridSearchCV(SVC(), GRID, cv=5).fit(X, y).best_estimator_
    model = CalibratedClassifierCV(best, ensemble=False)
    return get_label_quality_scores(y, cross_val_predict(model, X, y, method="predict_proba"))


def by_nested_svc(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    p = np.empty((len(y), 2))
    for train, test in StratifiedKFold(5).split(X, y):
        best = GridSearchCV(SVC(), GRID, cv=5).fit(X[train], y[train]).best_estimator_
        model = CalibratedClassifierCV(best, ensemble=False).fit(X[train], y[train])
        p[test] = model.predict_proba(X[test])
    return get_label_quality_scores(y, p)


def by_logistic(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    model = LogisticRegression(max_iter=1000)
    return get_label_quality_scores(y, cross_val_predict(model, X, y, method="predict_proba"))


METHODS = {"audit": by_audit, "svc": by_svc, "logistic": by_logistic}


def compare(name: str, noise: float, rows: int, draws: int) -> Row:
    X, y = (load_uci if name in UCI else load_ida)(name, return_X_y=True)
    precision = {method: [] for method in METHODS}
    seconds = dict.fromkeys(METHODS, 0.0)
    for seed in range(draws):
        rng = np.random.default_rng([seed, len(y)])
        chosen = rng.permutation(len(y))[:rows]
        data, label = StandardScaler().fit_transform(X[chosen]), y[chosen].astype(int)
        flipped = rng.permutation(len(label))[: round(noise * len(label))]
        label[flipped] = 1 - label[flipped]
        for method, rank in METHODS.items():
            time, quality = timed(lambda rank=rank, data=data, label=label: rank(data, label))
            seconds[method] += time / draws
            worst = np.argsort(quality, kind="stable")[: len(flipped)]
            precision[method].append(np.mean(np.isin(worst, flipped)))
    row: Row = {"set": name, "rows": len(label), "noise": noise, "draws": draws}
    row |= {f"{method} precision": float(np.mean(precision[method])) for method in METHODS}
    row |= {f"{method} s": seconds[method] for method in METHODS}
    return row | {"svc s / audit s": seconds["svc"] / seconds["audit"], "chance": noise}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--noise", type=float, nargs="+", default=NOISE)
    parser.add_argument("--sets", nargs="+", default=(*IDA, *UCI))
    parser.add_argument("--nested", action="store_true")
    arguments = parser.parse_args()
    if arguments.nested:
        METHODS["svc"] = by_nested_svc
    name_of_table = "audit_nested" if arguments.nested else "audit"
    compare("titanic", 0.1, 100, 1)  # whatever is imported late, before the first timing
    for noise in arguments.noise:
        table = []
        for name in arguments.sets:
            table.append(compare(name, noise, arguments.rows, arguments.draws))
            append_csv(name_of_table, table[-1:])
            print_table(table[-1:])
        wins = sum(row["audit precision"] >= row["svc precision"] for row in table)
        print(f"noise {noise}: at least equal on {wins} of {len(table)}")


if __name__ == "__main__":
    main()
