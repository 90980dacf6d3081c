"""One width per feature of KernelFisherClassifier: what it gains, and what it takes.

Test error, log-loss and processor time on small training parts: one width for all features, one
for each (ard=True), and one for each by the method before (L-BFGS on the leave-one-out criterion,
judged by the other half of the rows), which this script measures on the code of that time.

    FISHERKIT_DATA=<folder> OPENBLAS_NUM_THREADS=1 python benchmarks/relevance_loo.py
    PYTHONPATH=<checkout of 372a72c>/src ... python benchmarks/relevance_loo.py --before

Names of sets restrict the run to these. Choices (powers of relevance, how clear a gain must be)
were made on the first six sets; the others confirm them, or do not.
"""

import csv
import sys
import time

import numpy as np
from _common import RESULTS, Row, print_table, write_csv
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from fisherkit import KernelFisherClassifier
from fisherkit.datasets import load_ida, load_uci, make_bumpy
from fisherkit.reproduction.splits import random_split

SETS = {  # training rows; those for choices first
    "heart": 170,
    "thyroid": 140,
    "splice": 400,
    "sonar": 124,
    "image": 300,
    "bumpy_noise": 150,
    "breast_cancer": 200,
    "titanic": 150,
    "diabetis": 468,
    "waveform": 400,
    "ionosphere": 210,
    "german": 400,
    "friedman": 500,
}
SPLITS = 10

Draw = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def drawn(name: str, split: int) -> Draw:
    """Standardised rows and labels for training, and for the test."""
    n_train = SETS[name]
    if name == "bumpy_noise":  # two columns of eight say something
        X, y = make_bumpy(n_train + 2000, random_state=split)
        noise = np.random.RandomState(split).normal(size=(len(X), 6))
        X, order = np.hstack([X, noise]), np.random.RandomState(split).permutation(len(X))
    elif name == "friedman":  # five columns of 25, one of them by its square alone
        X = np.random.RandomState(split).uniform(size=(n_train + 2000, 25))
        f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
        f += 10 * X[:, 3] + 5 * X[:, 4]
        y, order = (f > np.median(f)).astype(int), np.arange(len(X))
    else:
        data = load_uci(name) if name in ("sonar", "ionosphere") else load_ida(name)
        X, y = data.data, data.target
        order = np.concatenate(random_split(name, split, len(y), n_train))
    train, test = order[:n_train], order[n_train:]
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def measured(name: str, *, ard: bool) -> np.ndarray:
    """Error (%), log-loss, whether widths differ, and seconds; for each split."""
    found = []
    for split in range(SPLITS):
        X, y, X_test, y_test = drawn(name, split)
        start = time.process_time()
        model = KernelFisherClassifier(ard=ard, random_state=0).fit(X, y)
        seconds = time.process_time() - start
        relevance = model.relevance_
        many = relevance is not None and np.ptp(np.log(relevance[relevance > 0])) > 1e-9
        wrong = 100 * (1 - model.score(X_test, y_test))
        found.append((wrong, log_loss(y_test, model.predict_proba(X_test)), many, seconds))
    return np.array(found, dtype=float)


def main() -> None:
    before = "--before" in sys.argv
    asked = [name for name in sys.argv[1:] if name in SETS] or list(SETS)
    done: list[Row] = []
    path = RESULTS / "relevance_loo.csv"
    if path.exists():
        with path.open() as file:
            done = list(csv.DictReader(line for line in file if not line.startswith("#")))
    for name in asked:
        methods = {"before": True} if before else {"one width": False, "one per feature": True}
        for method, ard in methods.items():
            values = measured(name, ard=ard)
            error, loss, many, seconds = values.mean(axis=0)
            row: Row = {
                "set": name,
                "n": SETS[name],
                "splits": SPLITS,
                "method": method,
                "error": error,
                "log_loss": loss,
                "share_with_many_widths": many,
                "seconds": seconds,
            }
            print_table([row])
            done = [old for old in done if (old["set"], old["method"]) != (name, method)] + [row]
    names = list(SETS)
    write_csv("relevance_loo", sorted(done, key=lambda row: names.index(str(row["set"]))))


if __name__ == "__main__":
    main()
