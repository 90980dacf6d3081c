"""A few ratios, quick enough for every release, added to results/history.csv with the commit.

Each is processor time of fisherkit over that of a peer in the same process, the least of three
turns: what the machine does to one side it does to the other. A ratio that grows is a change for
the worse. Run it on one thread:

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/history.py
"""

import argparse
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import append_csv, environment, make_gaussians, print_table
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LassoCV
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from versus_svc import GRIDS

from fisherkit import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    KernelFisherClassifier,
    SparseFisherClassifier,
)
from fisherkit.datasets import make_torus
from fisherkit.model_selection import permutation_test_score

ROOT = Path(__file__).parents[1]
Call = Callable[[], object]


def pairs() -> dict[str, tuple[Call, Call]]:
    """Name, fisherkit's part and the peer's part of every ratio."""
    X, y = make_torus(2000, random_state=0)
    Z, labels = make_gaussians(300, 10, random_state=0)
    K, codes = rbf_kernel(Z, gamma=0.05), 2.0 * labels - 1
    fixed = KernelFisherClassifier(gamma=0.05, regularization=1.0)
    return {
        "25 μ / `KernelRidge`": (
            lambda: KernelFisherClassifier(gamma=0.5, random_state=0).fit(X, y),
            lambda: KernelRidge(kernel="rbf", gamma=0.5, alpha=1.0).fit(X, y),
        ),
        "tuned / `SVC` grid": (
            lambda: KernelFisherClassifier(random_state=0).fit(Z, labels),
            lambda: GridSearchCV(SVC(), GRIDS["narrow"], cv=5).fit(Z, labels),
        ),
        "committee / tuned": (
            lambda: FisherCommitteeClassifier(random_state=0).fit(Z, labels),
            lambda: KernelFisherClassifier(random_state=0).fit(Z, labels),
        ),
        "evidence / `GaussianProcessClassifier`": (
            lambda: BayesianFisherClassifier(random_state=0).fit(Z, labels),
            lambda: GaussianProcessClassifier(ConstantKernel() * RBF()).fit(Z, labels),
        ),
        "q = 1 / `LassoCV`": (
            lambda: SparseFisherClassifier(gamma=0.05, cv=5).fit(Z, labels),
            lambda: LassoCV(alphas=20, cv=5, tol=1e-2, max_iter=20_000).fit(K, codes),
        ),
        "1,000 permutations / tuned": (
            lambda: permutation_test_score(fixed, Z, labels, n_permutations=1000),
            lambda: KernelFisherClassifier(random_state=0).fit(Z, labels),
        ),
    }


def least(calls: tuple[Call, Call], repeats: int) -> list[float]:
    """Least processor time of each call in seconds; they take turns."""
    best = [np.inf] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            start = time.process_time()
            call()
            best[i] = min(best[i], time.process_time() - start)
    return best


def commit() -> str:
    """The checked-out commit, marked where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout[:-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows, head = [], {"date": time.strftime("%Y-%m-%d"), "commit": commit()}
    for name, calls in pairs().items():
        ours, peer = least(calls, options.repeats)
        rows.append(
            {**head, "ratio_of": name, "ours_s": ours, "peer_s": peer, "ratio": ours / peer}
        )
    print_table(rows)
    append_csv("history", [{**row, "environment": environment()} for row in rows])


if __name__ == "__main__":
    main()
