"""Coverage and size of full conformal and jackknife+ sets, hyper-parameters given.

    python benchmarks/conformal_coverage.py

Mean coverage of 2,000 test rows over 20 draws at n = 200, with its standard error over the draws.
Full conformal sets cover with at least the confidence and at most 1/(n+1) more (ties apart).
"""

import argparse

import numpy as np
from _common import Row, make_gaussians, print_table, timed, write_csv

from fisherkit import KernelFisherClassifier
from fisherkit.datasets import make_ringnorm, make_torus, make_twonorm, make_waveform

ROWS, TESTED = 200, 2000
CONFIDENCES = (0.8, 0.9, 0.95)
METHODS = ("full", "jackknife+")


def imbalanced(n: int, *, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Two Gaussians, one row in ten of the second class."""
    rng = np.random.default_rng(random_state)
    y = (rng.random(n) < 0.1).astype(int)
    return rng.normal(size=(n, 2)) + 1.5 * y[:, None], y


def three_classes(n: int, *, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(random_state)
    y = rng.choice(3, n, p=(0.6, 0.3, 0.1))
    centres = 1.5 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    return rng.normal(size=(n, 2)) + centres[y], y


FAMILIES = {
    "torus": (make_torus, 0.5),
    "twonorm": (make_twonorm, 0.02),
    "ringnorm": (make_ringnorm, 0.02),
    "waveform": (make_waveform, 0.02),
    "gauss10": (lambda n, *, random_state: make_gaussians(n, 10, random_state=random_state), 0.05),
    "imbalanced": (imbalanced, 0.3),
    "three classes": (three_classes, 0.3),
}


def cover(name: str, method: str, draws: int) -> list[Row]:
    make, gamma = FAMILIES[name]
    covered, sizes = np.empty((2, draws, len(CONFIDENCES)))
    for seed in range(draws):
        X, y = make(ROWS + TESTED, random_state=seed)
        model = KernelFisherClassifier(gamma=gamma, regularization=1.0).fit(X[:ROWS], y[:ROWS])
        label = np.searchsorted(model.classes_, y[ROWS:])
        for j, confidence in enumerate(CONFIDENCES):
            sets = model.predict_set(X[ROWS:], confidence, method)
            covered[seed, j] = np.mean(sets[np.arange(TESTED), label])
            sizes[seed, j] = np.mean(np.sum(sets, axis=1))
    rows: list[Row] = []
    for j, confidence in enumerate(CONFIDENCES):
        mean, se = covered[:, j].mean(), covered[:, j].std(ddof=1) / np.sqrt(draws)
        rows.append(
            {
                "family": name,
                "method": method,
                "confidence": confidence,
                "coverage": mean,
                "se": se,
                "size": sizes[:, j].mean(),
                "holds": bool(confidence - 2 * se <= mean <= confidence + 1 / ROWS + 2 * se),
            }
        )
    return rows


def speed() -> Row:
    X, y = make_gaussians(11_000, 5, random_state=0)
    model = KernelFisherClassifier(gamma=0.1, regularization=1.0).fit(X[:1000], y[:1000])
    seconds = {m: timed(lambda m=m: model.predict_set(X[1000:], 0.9, m))[0] for m in METHODS}
    return {"rows": 1000, "tested": 10_000} | {f"{m} s": s for m, s in seconds.items()}


def coverage(draws: int) -> None:
    table = [row for name in FAMILIES for method in METHODS for row in cover(name, method, draws)]
    print_table(table)
    write_csv("conformal_coverage", table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--parts", nargs="+", default=("coverage", "speed"))
    arguments = parser.parse_args()
    if "coverage" in arguments.parts:
        coverage(arguments.draws)
    if "speed" in arguments.parts:
        row = speed()
        print_table([row])
        write_csv("conformal_speed", [row])


if __name__ == "__main__":
    main()
