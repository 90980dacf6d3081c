"""Group penalty against one-vs-rest: kernels evaluated at prediction for the same test error.

scikit-learn's digits (500 training rows) and three-class waveform (400), q = 1 and 0.5, one width,
a path of rho. One-vs-rest fits a binary model for each class and decides for the largest; it
evaluates the union of their kernels. Curves are means over splits; at each error level, the fewest
kernels with which a curve reaches it.
"""

import argparse

import numpy as np
from _common import Row, print_table, write_csv
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from fisherkit.core.kernels import Kernel
from fisherkit.core.labels import Labels
from fisherkit.core.weights import Weights
from fisherkit.datasets import make_waveform
from fisherkit.sparse.learners import LqLearner

SETS = {"digits": 500, "waveform": 400}
FRACTIONS = np.logspace(-0.2, -3.2, 13)  # of the largest useful rho


def split(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        order = rng.permutation(len(y))
        X, y = X[order], y[order]
    else:
        X, y = make_waveform(5000, random_state=seed)
    n = SETS[name]
    scaler = StandardScaler().fit(X[:n])
    return scaler.transform(X[:n]), y[:n], scaler.transform(X[n:]), y[n:]


def curve(P: np.ndarray, P_test: np.ndarray, y: np.ndarray, y_test: np.ndarray, q: float, *, group):
    """Kernels evaluated and test error for each rho."""
    weights, C = Weights.unit(P.T), int(y.max()) + 1
    problems = [Labels(np.arange(C), y, weights)]
    if not group:
        problems = [Labels(np.arange(2), (y == c).astype(int), weights) for c in range(C)]
    decisions, used = [], []
    for labels in problems:
        learner = LqLearner(q=q, penalize_bias=False, balanced=False).settle(P, labels)
        assert learner.rhos is not None
        learner = LqLearner(
            q=q, penalize_bias=False, balanced=False, rhos=learner.rhos[0] * FRACTIONS
        )
        family = learner.fit(P.copy(), labels)
        decisions.append(family.decisions(P_test))
        mask = np.zeros((len(FRACTIONS), len(P)), dtype=bool)
        mask[:, family.terms] = np.any(family.coef != 0, axis=2)
        used.append(mask)
    retained = np.any(used, axis=0).sum(axis=1)
    scores = np.concatenate(decisions, axis=2)
    return retained, 100 * np.mean(np.argmax(scores, axis=2) != y_test, axis=1)


def fewest(retained: np.ndarray, error: np.ndarray, level: float) -> float:
    """Fewest kernels at which the curve is at the level, on straight lines between its points."""
    crossings = [retained[i] for i in range(len(error)) if error[i] <= level]
    for i in range(len(error) - 1):
        low, high = sorted((error[i], error[i + 1]))
        if low <= level <= high and high > low:
            share = (level - error[i]) / (error[i + 1] - error[i])
            crossings.append(retained[i] + share * (retained[i + 1] - retained[i]))
    return min(crossings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    curves: list[Row] = []
    levels: list[Row] = []
    for name in SETS:
        for q in (1.0, 0.5):
            found: dict[bool, list] = {True: [], False: []}
            for seed in range(options.splits):
                X, y, X_test, y_test = split(name, seed)
                kernel = Kernel("rbf", gamma=1 / (2 * X.shape[1]))
                P, P_test = kernel.block(X, X), kernel.block(X, X_test)
                for group in found:
                    found[group].append(curve(P, P_test, y, y_test, q, group=group))
            mean = {group: np.mean(results, axis=0) for group, results in found.items()}
            for group, (retained, error) in mean.items():
                curves += [
                    {
                        "set": name,
                        "q": q,
                        "penalty": "group" if group else "one-vs-rest",
                        "fraction": fraction,
                        "retained": r,
                        "error": e,
                    }
                    for fraction, r, e in zip(FRACTIONS, retained, error, strict=True)
                ]
            lowest = max(error.min() for _, error in mean.values())
            highest = min(error.max() for _, error in mean.values())
            for level in np.geomspace(lowest, 0.99 * highest, 12):
                at = {group: fewest(mean[group][0], mean[group][1], level) for group in mean}
                levels.append(
                    {
                        "set": name,
                        "q": q,
                        "error": level,
                        "group": at[True],
                        "one_vs_rest": at[False],
                        "group_is_smaller": bool(at[True] < at[False]),
                    }
                )
    write_csv("group_sparsity_curves", curves)
    write_csv("group_sparsity", levels)
    print_table(levels)


if __name__ == "__main__":
    main()
