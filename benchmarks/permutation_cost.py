"""10,000 leave-one-out permutations at n = 1000 beside one tuned fit, one product, and refits.

    OPENBLAS_NUM_THREADS=1 python benchmarks/permutation_cost.py

scikit-learn's function refits n times for each permutation; its time is extrapolated from 20 such
refits, all of the same cost.
"""

import numpy as np
from _common import best_of, make_gaussians, print_table, timed, write_csv
from sklearn.base import clone

from fisherkit import KernelFisherClassifier
from fisherkit.model_selection import permutation_test_score

ROWS, PERMUTATIONS, REFITS = 1000, 10_000, 20


def main() -> None:
    X, y = make_gaussians(ROWS, 5, random_state=0)
    model = KernelFisherClassifier(gamma=0.1, regularization=1.0)
    square = np.random.default_rng(0).normal(size=(ROWS, ROWS))
    wide = np.random.default_rng(1).normal(size=(ROWS, PERMUTATIONS))
    times = best_of(
        3,
        ours=lambda: permutation_test_score(model, X, y, n_permutations=PERMUTATIONS),
        tuned_fit=lambda: KernelFisherClassifier().fit(X, y),
        product=lambda: square @ wide,
    )

    def refit() -> None:
        for i in range(REFITS):
            rest = np.delete(np.arange(ROWS), i)
            clone(model).fit(X[rest], y[rest]).score(X[[i]], y[[i]])

    refits = timed(refit)[0] / REFITS * ROWS * PERMUTATIONS
    limit = 2 * times["tuned_fit"] + times["product"]
    row = {"rows": ROWS, "permutations": PERMUTATIONS}
    row |= {f"{name} s": seconds for name, seconds in times.items()}
    row |= {
        "limit s": limit,
        "refits s (extrapolated)": refits,
        "times faster": refits / times["ours"],
        "holds": bool(times["ours"] <= limit and refits >= 1000 * times["ours"]),
    }
    print_table([row])
    write_csv("permutation_cost", [row])


if __name__ == "__main__":
    main()
