"""Permutation tests where there is nothing to find, and where there is little.

    python benchmarks/permutation_noise.py

Pure noise: the share of data sets with p <= a must not pass a + 2 standard errors. Hyper-parameters
given, chosen anew for each permutation, and kept as chosen on the true labels (too small p-values).
Weak signal: the power of each.
"""

import argparse

import numpy as np
from _common import append_csv, print_table

from fisherkit import KernelFisherClassifier
from fisherkit.model_selection import permutation_test_score

LEVELS = (0.01, 0.05, 0.1, 0.2)
ROWS, FEATURES = 40, 4
MODELS = {
    "given": ({"gamma": 0.1, "regularization": 1.0}, "auto", "accuracy"),
    "given, auc": ({"gamma": 0.1, "regularization": 1.0}, "auto", "roc_auc"),
    "given, leave-pair-out auc": (
        {"gamma": 0.1, "regularization": 1.0},
        "auto",
        "leave_pair_out_auc",
    ),
    "chosen anew": ({}, True, "accuracy"),
    "kept": ({}, False, "accuracy"),
}


def draw(seed: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(ROWS) % 2)
    X = rng.normal(size=(ROWS, FEATURES))
    X[:, 0] += shift * y
    return X, y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--permutations", type=int, default=99)
    arguments = parser.parse_args()
    for shift in (0.0, 1.0):
        for name, (parameters, reselect, scoring) in MODELS.items():
            p = np.array(
                [
                    permutation_test_score(
                        KernelFisherClassifier(**parameters),
                        *draw(seed, shift),
                        n_permutations=arguments.permutations,
                        random_state=seed,
                        scoring=scoring,
                        reselect=reselect,
                    )[2]
                    for seed in range(arguments.sets)
                ]
            )
            row = {"shift": shift, "hyper-parameters": name, "sets": arguments.sets}
            for a in LEVELS:
                row[f"P(p <= {a})"] = float(np.mean(p <= a + 1e-12))
                row[f"limit {a}"] = a + 2 * float(np.sqrt(a * (1 - a) / arguments.sets))
            append_csv("permutation_noise", [row])
            print_table([row])


if __name__ == "__main__":
    main()
