"""Least squares on each pair of classes, coupled, beside the default.

The tables of classes.py, its five splits and five more. Each pair of classes has a kernel ridge of
its own on its own rows: targets -1 and 1, a free bias, an rbf kernel. All pairs share one width and
one mu, those of the least exact leave-one-out squared error (PRESS), summed over pairs, on a grid.
A slope against Platt's targets makes a probability of each pair's left-out scores, and the pairs
are coupled (Wu, Lin and Weng, 2004, their second method). The left-out probabilities of a row take
the left-out score from the pairs that contain its class, and the prediction from the others, which
have not seen it.

    default         KernelFisherClassifier()
    coupled         the class probabilities as they are
    pairwise        the softmax rule of fisherkit, matrix form and all, on their logarithms

Error, log-loss and calibration error are those of classes.py; seconds are of a processor, for
``coupled`` and ``pairwise`` those of both together. Every (method, table, split) is a row of
results/pairwise.csv, written as it finishes; a later run computes only what is missing, and a table
with a class of one training row is left out. results/pairwise_summary.csv has the ratios of the
geometric means of (error + 0.3) and (log-loss + 0.02) over tables, the relative standard
errors of these ratios, how many tables have less and more of each, and the ratio of the sums of
seconds: over the splits of classes.py, over the five others, and over all.
"""

import argparse
import time
from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np
from _common import Row, append_csv, print_table, read_csv, write_csv
from classes import ADDED, SPLITS, means, run, scores, split_of, tables
from scipy.special import expit, softmax
from sklearn.metrics import euclidean_distances

from fisherkit.core import Weights
from fisherkit.tuning import GRID, fit_decisions, fit_slope

FILE = "pairwise"
WIDTHS = 2.0 ** np.arange(-8, 9)  # gamma in units of 1 / (2 sum of the features' variances)
CERTAIN = 1e-7  # how close to 0 and 1 the probabilities of a pair may come
LEAST = 1e-12  # and those of a class to 0
PAIRS = (("pairwise", "default"), ("coupled", "default"), ("pairwise", "coupled"))


class Ridge(NamedTuple):
    """Kernel ridges with a free bias on a centred kernel matrix, for targets y and many mu."""

    values: np.ndarray
    vectors: np.ndarray
    y: np.ndarray

    @classmethod
    def of(cls, K: np.ndarray, y: np.ndarray) -> Self:
        mean = K.mean(axis=0)
        values, vectors = np.linalg.eigh(K - mean - mean[:, None] + mean.mean())
        return cls(np.maximum(values, 0), vectors, y)

    def residuals(self, mu: np.ndarray) -> np.ndarray:
        """Leave-one-out residuals for each mu, (n, len(mu)): e_i / (1 - 1/n - h_i)."""
        kept = mu / (self.values[:, None] + mu)  # the constant vector has eigenvalue 0
        y = self.y - self.y.mean()
        fitted = self.vectors @ ((self.vectors.T @ y)[:, None] * (1 - kept))
        leverage = self.vectors**2 @ (1 - kept) + 1 / len(y)
        return (y[:, None] - fitted) / (1 - leverage)

    def coefficients(self, mu: float) -> np.ndarray:
        y = self.y - self.y.mean()
        return self.vectors @ (self.vectors.T @ y / (self.values + mu))


class Pairs(NamedTuple):
    """One ridge for each pair of classes a < b, at a width and mu of all pairs."""

    gamma: float
    mu: float
    X: np.ndarray
    codes: np.ndarray

    @classmethod
    def tuned(cls, X: np.ndarray, codes: np.ndarray) -> Self:
        """The width and mu of least pooled PRESS."""
        D, found = euclidean_distances(X, squared=True), []
        for gamma in WIDTHS / (2 * X.var(axis=0).sum()):
            ridges = [ridge for *_, ridge in _each(np.exp(-gamma * D), codes)]
            trace = sum(ridge.values.sum() for ridge in ridges)
            mu = GRID * trace / sum(len(ridge.y) for ridge in ridges)
            press = sum(np.sum(ridge.residuals(mu) ** 2, axis=0) for ridge in ridges)
            found.append((press.min(), gamma, mu[press.argmin()]))
        return cls(*min(found)[1:], X, codes)

    def probabilities(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coupled probabilities of the training rows, left out, and of rows X."""
        k, n = self.codes.max() + 1, len(self.codes)
        K, K_new = (
            np.exp(-self.gamma * euclidean_distances(Z, self.X, squared=True)) for Z in (self.X, X)
        )
        R = np.full((n + len(X), k, k), 0.5)
        for a, b, rows, ridge in _each(K, self.codes):
            alpha = ridge.coefficients(self.mu)
            bias = np.mean(ridge.y - K[np.ix_(rows, rows)] @ alpha)
            f = np.concatenate([K[:, rows] @ alpha, K_new[:, rows] @ alpha]) + bias
            f[rows] = ridge.y - ridge.residuals(np.array([self.mu]))[:, 0]
            slope = _slope(f[rows], ridge.y)
            R[:, a, b] = np.clip(expit(slope * f), CERTAIN, 1 - CERTAIN)
            R[:, b, a] = 1 - R[:, a, b]
        P = coupled(R)
        return P[:n], P[n:]


def _each(K: np.ndarray, codes: np.ndarray) -> Iterable[tuple[int, int, np.ndarray, Ridge]]:
    """Each pair of classes a, b, its rows, and its ridge: a has targets of 1."""
    for a, b in combinations(range(codes.max() + 1), 2):
        rows = np.flatnonzero((codes == a) | (codes == b))
        yield a, b, rows, Ridge.of(K[np.ix_(rows, rows)], np.where(codes[rows] == a, 1.0, -1.0))


def _slope(f: np.ndarray, y: np.ndarray) -> float:
    """Platt's slope of left-out scores."""
    f, known = f[:, None], np.ones(len(y), dtype=bool)
    indicator = np.column_stack([y < 0, y > 0]).astype(float)
    return fit_slope(f, known, indicator, Weights.unit(f), balanced=False).value


def coupled(R: np.ndarray) -> np.ndarray:
    """Probabilities p (n, k) that minimise the sum over pairs of (r_ba p_a - r_ab p_b)^2."""
    n, k, _ = R.shape
    R = R * (1 - np.eye(k))
    system = np.ones((n, k + 1, k + 1))
    system[:, :k, :k] = -R * R.transpose(0, 2, 1)
    system[:, range(k), range(k)] = np.sum(R**2, axis=1)
    system[:, k, k] = 0
    right = np.zeros((n, k + 1, 1))
    right[:, k] = 1
    P = np.maximum(np.linalg.solve(system, right)[:, :k, 0], LEAST)
    return P / P.sum(axis=1, keepdims=True)


def answers(X: np.ndarray, codes: np.ndarray, X_test: np.ndarray) -> dict[str, np.ndarray]:
    """Class probabilities of test rows, without the softmax rule and with it."""
    left_out, P = Pairs.tuned(X, codes).probabilities(X_test)
    Z, Z_test = (np.log(p) - np.log(p).mean(axis=1, keepdims=True) for p in (left_out, P))
    indicator = np.eye(codes.max() + 1)[codes]
    rule = fit_decisions(Z, indicator, Weights.unit(Z), balanced=False)
    return {"coupled": P, "pairwise": softmax(rule(Z_test), axis=1)}


def produce(splits: int) -> Iterable[Row]:
    done = {(r["method"], r["table"], int(r["split"])) for r in read_csv(FILE)}
    every = sorted(tables().items(), key=lambda item: len(item[1]))
    for split in range(splits):
        for name, table in every:
            X, y, X_test, y_test = split_of(table, split)
            classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
            if counts.min() < 2:
                continue
            if ("default", name, split) not in done:
                yield run("default", name, table, split, "")
            if ("pairwise", name, split) in done:
                continue
            start = time.process_time()
            found = answers(X, codes, X_test)
            seconds = time.process_time() - start
            shape = {"n": len(y), "n_test": len(y_test), "n_classes": len(classes)}
            for method, P in found.items():
                figures = scores(y_test, classes[P.argmax(axis=1)], P, classes)
                row = {"table": name, "split": split, "method": method}
                yield {**row, **shape, **figures, "seconds": seconds}


def comparison(rows: list[dict[str, str]], splits: range) -> list[Row]:
    """Ratios, and how many tables are better and worse, by means over splits."""
    rows = [r for r in rows if int(r["split"]) in splits]
    found, result = means(rows), []
    for method, other in PAIRS if rows else ():
        ours, theirs = (
            np.array([np.mean(list(found[m][name].values()), axis=0) for name in found[method]])
            for m in (method, other)
        )
        row: Row = {"method": method, "against": other, "tables": len(ours)}
        row["splits"] = f"{splits.start}-{splits.stop - 1}"
        logs = np.log((ours + ADDED) / (theirs + ADDED))
        for column, measure in enumerate(("error", "log_loss")):
            row[measure] = np.exp(logs[:, column].mean())
            row[f"{measure}_se"] = logs[:, column].std(ddof=1) / np.sqrt(len(logs))
            row[f"{measure}_better"] = np.sum(ours[:, column] < theirs[:, column])
            row[f"{measure}_worse"] = np.sum(ours[:, column] > theirs[:, column])
        mine, others = (
            sum(float(r["seconds"]) for r in rows if r["method"] == m) for m in (method, other)
        )
        result.append(row | {"seconds": mine / others})
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=2 * SPLITS)
    splits = parser.parse_args().splits
    append_csv(FILE, produce(splits))
    rows = read_csv(FILE)
    parts = range(SPLITS), range(SPLITS, splits), range(splits)
    found = [row for part in parts for row in comparison(rows, part)]
    print_table(found)
    write_csv(f"{FILE}_summary", found)


if __name__ == "__main__":
    main()
