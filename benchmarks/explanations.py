"""Which columns matter, and why a row is answered so: right, how fast, and on planted truth.

    OPENBLAS_NUM_THREADS=1 python benchmarks/explanations.py

Exactness is beside refits and the sum over all coalitions; of sampled values it is the share that
lies within two standard errors. Planted truth is n = 500 with 20 columns of noise, ten draws: the
share of draws in which the columns that matter come first. Friedman's function is cut at its
median; of its five columns the first four in the list must be among them.
"""

import time
from collections.abc import Callable, Iterator
from itertools import combinations
from math import factorial

import numpy as np
from _common import Row, print_table, write_csv
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fisherkit import (
    FisherCommitteeClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    TableClassifier,
)
from fisherkit.datasets import make_relevance
from fisherkit.inspection import column_importance, explain

DRAWS, N, NOISE = 10, 500, 20
Draw = tuple[np.ndarray, np.ndarray]


def processor_seconds(call: Callable[[], object]) -> float:
    """Of one call, whatever else the machine does."""
    start = time.process_time()
    call()
    return time.process_time() - start


def row(what: str, setting: str, measured: float, asked: str, holds: bool) -> Row:
    return {"what": what, "setting": setting, "measured": measured, "asked": asked, "holds": holds}


def friedman(seed: int) -> Draw:
    X = np.random.default_rng(seed).uniform(size=(N, 5 + NOISE))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3]
    f += 5 * X[:, 4]
    return X, (f > np.median(f)).astype(int)


def relevance(seed: int) -> Draw:
    return make_relevance(N, n_irrelevant=NOISE, random_state=seed)


def xor(seed: int) -> Draw:
    X = np.random.default_rng(seed).uniform(-1, 1, size=(N, 2 + NOISE))
    return X, ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)


PROBLEMS: dict[str, tuple[Callable[[int], Draw], int, int]] = {  # columns that matter, and to find
    "friedman": (friedman, 5, 4),
    "relevance": (relevance, 1, 1),
    "xor": (xor, 2, 2),
}
MODELS: dict[str, Callable[[], BaseEstimator]] = {
    "fisher": lambda: make_pipeline(StandardScaler(), KernelFisherClassifier(random_state=0)),
    "fisher, ard": lambda: make_pipeline(
        StandardScaler(), KernelFisherClassifier(ard=True, random_state=0)
    ),
    "table, committee": TableClassifier,
}


def planted() -> Iterator[Row]:
    for name, (draw, matter, wanted) in PROBLEMS.items():
        for title, make in MODELS.items():
            orders = []
            for seed in range(DRAWS):
                X, y = draw(seed)
                orders.append(np.argsort(-column_importance(make().fit(X, y), X, y).rise))
            share = float(np.mean([np.all(order[:wanted] < matter) for order in orders]))
            yield row(f"planted {name}", title, share, ">= 0.9 of draws", share >= 0.9)
            if wanted < matter:
                share = float(np.mean([np.all(order[:matter] < matter) for order in orders]))
                yield row(f"planted {name}, all {matter}", title, share, "", True)


def exact_importance() -> Iterator[Row]:
    """The largest relative error of rises beside those of refits without each row."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:80, :6]
    y, n = y[:80], 80
    for kernel in ("rbf", "laplacian"):
        model = KernelRidgeCV(kernel, gamma=0.1, regularization=0.1).fit(X, 2.0 * y - 1)
        rise = column_importance(model, X, 2.0 * y - 1, n_repeats=2).rise
        rest = [np.arange(n) != i for i in range(n)]
        fits = [
            KernelRidgeCV(kernel, gamma=0.1, regularization=0.1).fit(X[r], 2.0 * y[r] - 1)
            for r in rest
        ]
        rng, truth = np.random.RandomState(0), np.zeros(6)
        base = losses(fits, X, y)
        for column in range(6):
            for _ in range(2):
                changed = X.copy()
                changed[:, column] = X[rng.permutation(n), column]
                truth[column] += (losses(fits, changed, y) - base) / 2
        error = float(np.max(np.abs(rise - truth)) / np.max(np.abs(truth)))
        yield row("importance beside refits", kernel, error, "<= 1e-10", error <= 1e-10)


def losses(fits: list[KernelRidgeCV], X: np.ndarray, y: np.ndarray) -> float:
    found = [fit.predict(x[None])[0] for fit, x in zip(fits, X, strict=True)]
    return float(np.mean((2.0 * y - 1 - np.array(found)) ** 2))


def exact_values() -> Iterator[Row]:
    """Contributions beside the sum over all coalitions: exact ones, and sampled ones."""
    for kernel in ("rbf", "laplacian"):
        X, model = regression(kernel, 12, 0)
        found = explain(model, X[60:62], changes=False).contributions
        truth = np.array([enumerated(model, X[:60], x) for x in X[60:62]])
        error = float(np.max(np.abs(found - truth)) / np.max(np.abs(truth)))
        yield row("contributions, 12 columns", kernel, error, "<= 1e-8", error <= 1e-8)
    within, gaps = [], []
    for case in range(200):
        X, model = regression("exponential", 6, case)
        why = explain(model, X[60:61], changes=False, random_state=case)
        errors = np.abs(why.contributions[0] - enumerated(model, X[:60], X[60]))
        within.append(np.mean(errors <= 2 * why.standard_error[0]))
        gaps.append(abs(why.base[0] + why.contributions[0].sum() - why.margin[0]))
    share = float(np.mean(within))
    what = "sampled within two standard errors"
    yield row(what, "exponential, 200 cases", share, ">= 0.95", share >= 0.95)
    largest = float(np.max(gaps))
    yield row("sum less margin", "exponential, 200 cases", largest, "<= 1e-9", largest <= 1e-9)


def regression(kernel: str, d: int, seed: int) -> tuple[np.ndarray, KernelRidgeCV]:
    """Rows, of which a model has seen the first 60."""
    X = np.random.default_rng(seed).normal(size=(62, d))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2])
    return X, KernelRidgeCV(kernel, gamma=0.1, regularization=0.1).fit(X[:60], y[:60])


def enumerated(model: KernelRidgeCV, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Shapley values by all coalitions."""
    d, away = len(x), np.abs(x - rows[model.basis_indices_])
    sizes = away if model.kernel == "laplacian" else away**2

    def value(known: tuple[int, ...]) -> float:
        distance = sizes[:, list(known)].sum(axis=1)
        if model.kernel == "exponential":
            distance = distance**0.5
        return float(model.dual_coef_ @ np.exp(-model.gamma * distance))

    coalitions = [c for size in range(d + 1) for c in combinations(range(d), size)]
    worth, phi = {c: value(c) for c in coalitions}, np.zeros(d)
    for c in coalitions[:-1]:
        share = factorial(len(c)) * factorial(d - len(c) - 1) / factorial(d)
        for j in set(range(d)) - set(c):
            phi[j] += share * (worth[tuple(sorted((*c, j)))] - worth[c])
    return phi


def times() -> Iterator[Row]:
    X, y = load_breast_cancer(return_X_y=True)
    small = make_pipeline(StandardScaler(), KernelFisherClassifier()).fit(X, y)
    seconds = processor_seconds(lambda: column_importance(small, X, y))
    yield row("processor seconds of importance", "fisher, 569 x 30", seconds, "< 2", seconds < 2)
    seconds = processor_seconds(lambda: explain(small, X, changes=False))
    yield row("processor seconds of explanations", "fisher, 569 rows x 30", seconds, "", True)
    seconds = processor_seconds(lambda: explain(small, X[:100]))
    yield row("processor seconds of explanations", "with changes, 100 rows x 30", seconds, "", True)
    for title, model in (
        ("committee", make_pipeline(StandardScaler(), FisherCommitteeClassifier(random_state=0))),
        ("table, committee", TableClassifier()),
    ):
        fitted = model.fit(X, y)
        seconds = processor_seconds(lambda fitted=fitted: column_importance(fitted, X, y))
        yield row("processor seconds of importance", f"{title}, 569 x 30", seconds, "", True)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 50))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=10_000) > 0).astype(int)
    large = KernelFisherClassifier(gamma=0.01, regularization=1.0).fit(X, y)
    seconds = processor_seconds(lambda: column_importance(large, X, y))
    yield row(
        "processor seconds of importance", "fisher, 10,000 x 50", seconds, "< 60", seconds < 60
    )


def main() -> None:
    rows: list[Row] = []
    for part in (exact_importance, exact_values, times, planted):
        for found in part():
            print_table([found])
            rows.append(found)
    write_csv("explanations", rows)


if __name__ == "__main__":
    main()
