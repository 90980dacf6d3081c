"""The table of the README: error and time beside three ways that scikit-learn offers.

Every model is tuned on the training part alone and sees the same splits, features standardised on
the training part. Widths of the peers come from the six values of `versus_svc.py`, where a peer
does not learn its own. Seconds are processor time of `fit`, in all splits together. Run it on one
thread:

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/readme.py
"""

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from _common import Row, print_table, split_of, write_csv
from sklearn.datasets import load_breast_cancer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from versus_svc import GRIDS

from fisherkit import FisherCommitteeClassifier, KernelFisherClassifier

WISCONSIN = "wisconsin"  # the breast-cancer table of scikit-learn; IDA's has another origin
SETS = (WISCONSIN, "heart", "banana", "diabetis", "ringnorm")
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def models() -> dict[str, Any]:
    """Untrained classifiers; the first is what the others are compared with."""
    features = make_pipeline(
        Nystroem(random_state=0),  # its 100 components
        RidgeClassifierCV(alphas=np.logspace(-6, 3, 25)),
    )
    return {
        "KernelFisherClassifier": KernelFisherClassifier(random_state=0),
        "FisherCommitteeClassifier": FisherCommitteeClassifier(random_state=0),
        "SVC + GridSearchCV": GridSearchCV(SVC(), GRIDS["narrow"], cv=5),
        "GaussianProcessClassifier": GaussianProcessClassifier(ConstantKernel() * RBF()),
        "Nystroem + RidgeClassifierCV": GridSearchCV(
            features, {"nystroem__gamma": GRIDS["narrow"]["gamma"]}, cv=5
        ),
    }


def parts(name: str, splits: int) -> Iterator[Parts]:
    """Training rows and labels, test rows and labels of every split."""
    for split in range(splits):
        if name != WISCONSIN:
            yield split_of(name, split)
            continue
        X, y = load_breast_cancer(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=split)
        scaler = StandardScaler().fit(X)
        yield scaler.transform(X), y, scaler.transform(X_test), y_test


def compare(name: str, splits: int) -> list[Row]:
    errors: dict[str, list[float]] = {}
    seconds: dict[str, float] = {}
    for X, y, X_test, y_test in parts(name, splits):
        for method, model in models().items():
            start = time.process_time()
            model.fit(X, y)
            seconds[method] = seconds.get(method, 0.0) + time.process_time() - start
            errors.setdefault(method, []).append(100 * np.mean(model.predict(X_test) != y_test))
    ours = np.array(next(iter(errors.values())))
    rows = []
    for method, own in errors.items():
        gaps = np.array(own) - ours
        rows.append(
            {
                "set": name,
                "rows": len(X),
                "splits": splits,
                "method": method,
                "error": np.mean(own),
                "minus_first": gaps.mean(),
                "standard_error": gaps.std(ddof=1) / np.sqrt(splits),
                "seconds": seconds[method],
                "probabilities": hasattr(models()[method], "predict_proba"),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()
    # the first fit of a process pays for lazy imports
    KernelFisherClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    rows = []
    for name in SETS:
        rows += compare(name, options.splits)
        print_table(rows[-len(models()) :])
    write_csv("readme", rows)


if __name__ == "__main__":
    main()
