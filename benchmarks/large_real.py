"""Time and test error on real data of 19,000 to 245,000 rows, beside peers that scale.

One test part each (a third of the rows, at most 50,000; for mnist its own 10,000), features
standardised (mnist: divided by 255). Ours: 1,000 and 4,000 centres, width tuned on 2,048 rows, mu
on all rows. `LinearSVC` stands on as many Nystroem features with the same width; its C, and the
penalty of `SGDClassifier`, are chosen among four values on a fifth of the training rows, held out.
`SVC` sees 10,000 rows and chooses C and gamma among nine pairs likewise.
`HistGradientBoostingClassifier` stops early. Times are processor seconds: run it on one thread.
Part ``width`` compares the width found on the subset with widths around it, mu chosen on all rows.
"""

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _common import RESULTS, Row, append_csv
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, ShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from fisherkit import KernelFisherClassifier

SETS = ("magic", "adult", "skin", "mnist")
CENTRES = (1000, 4000)
SUBSAMPLE = 10_000


def load(name: str) -> tuple[np.ndarray, ...]:
    data = np.load(Path(os.environ["FISHERKIT_DATA"]) / f"large_{name}.npz")
    if name == "mnist":
        X, y = data["X"] / 255.0, data["y_digit"].astype(int)
        return X[:60_000], X[60_000:], y[:60_000], y[60_000:]
    X, y = data["X"].astype(np.float64), data["y"].astype(int)
    size = min(len(X) // 3, 50_000)
    X, test, y, truth = train_test_split(X, y, test_size=size, random_state=0, stratify=y)
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), scaler.transform(test), y, truth


def ours(m: int, **options: Any) -> KernelFisherClassifier:
    return KernelFisherClassifier(n_components=m, max_memory="400MB", random_state=0, **options)


def peers(gamma: float, m: int) -> dict[str, Any]:
    """Peers with the width that ours has found: the comparison is of what follows."""
    features = Nystroem(gamma=gamma, n_components=m, random_state=0)
    fifth = ShuffleSplit(1, test_size=0.2, random_state=0)
    C = {"C": [0.01, 0.1, 1.0, 10.0]}
    alpha = {"alpha": [1e-7, 1e-6, 1e-5, 1e-4]}
    pairs = {"C": [1.0, 10.0, 100.0], "gamma": [0.25 * gamma, gamma, 4 * gamma]}
    return {
        f"Nystroem {m} + LinearSVC": make_pipeline(
            features, GridSearchCV(LinearSVC(dual=False, max_iter=200), C, cv=fifth)
        ),
        f"Nystroem {m} + SGD": make_pipeline(
            features, GridSearchCV(SGDClassifier(random_state=0), alpha, cv=fifth)
        ),
        "HistGradientBoosting": HistGradientBoostingClassifier(early_stopping=True, random_state=0),
        "SVC on 10,000 rows": GridSearchCV(SVC(), pairs, cv=fifth),
    }


def compare(name: str) -> Iterator[Row]:
    X, test, y, truth = load(name)
    some = np.random.default_rng(0).permutation(len(X))[:SUBSAMPLE]

    def measure(label: str, model: Any) -> Row:
        rows = some if label.startswith("SVC") else slice(None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            start = time.process_time()
            model.fit(X[rows], y[rows])
            fitted = time.process_time()
            guess = model.predict(test)
            predicted = time.process_time()
        row = {
            "set": name,
            "rows": len(X),
            "model": label,
            "fit_s": round(fitted - start, 2),
            "predict_s": round(predicted - fitted, 2),
            "error_percent": round(100 * float(np.mean(guess != truth)), 3),
        }
        print(row, flush=True)
        return row

    gamma = 1.0
    for m in CENTRES:
        model = ours(m)
        yield measure(f"fisherkit, {m} centres", model)
        gamma = model.gamma_
    for label, peer in peers(gamma, CENTRES[0]).items():
        yield measure(label, peer)


def widths(name: str) -> Iterator[Row]:
    X, test, y, truth = load(name)
    tuned = ours(CENTRES[0]).fit(X, y)
    for factor in (0.25, 0.5, 1.0, 2.0, 4.0):
        model = ours(CENTRES[0], gamma=factor * tuned.gamma_).fit(X, y)
        row = {
            "set": name,
            "gamma_over_tuned": factor,
            "gamma": model.gamma_,
            "press_all_rows": model.selection_.value,
            "error_percent": round(100 * float(np.mean(model.predict(test) != truth)), 3),
        }
        print(row, flush=True)
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("compare", "width"), default="compare")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    args = parser.parse_args()
    part, result = (compare, "large_real") if args.part == "compare" else (widths, "large_width")
    (RESULTS / f"{result}.csv").unlink(missing_ok=True)
    append_csv(result, (row for name in args.sets for row in part(name)))


if __name__ == "__main__":
    main()
