"""How closely fits on row blocks agree with memory, and memory with itself on shuffled rows.

    python benchmarks/large_digits.py

Two moons (2 features) and a 5-dimensional sum of waves, 4,000 rows, 300 centres, mu given in units
of tr(G)/n. Leave-one-out decisions, largest difference relative to the largest decision: of the fit
in memory to the rows in another order; of row blocks whose moments are taken once; and as shipped,
where they are taken again if mu is small. ``holds``: shipped within 1e-8, or within ten times what
memory itself is determined to.
"""

from itertools import product

import numpy as np
from _common import Row, write_csv
from sklearn.datasets import make_moons

from fisherkit import KernelFisherClassifier
from fisherkit.rows import passes

N, CENTRES, BLOCKS = 4000, 300, "20MB"
LIMIT = 1e-8


def families() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    X = np.random.default_rng(0).normal(size=(N, 5))
    waves = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 > 0.5
    return {"moons": make_moons(N, noise=0.15, random_state=0), "waves": (X, waves.astype(int))}


def decisions(X: np.ndarray, y: np.ndarray, rows: np.ndarray, memory: str, **options) -> np.ndarray:
    model = KernelFisherClassifier(basis=rows, max_memory=memory, **options).fit(X, y)
    assert model.selection_.method == ("streamed" if memory == BLOCKS else "centres")
    return model.loo_decision_


def compare(family: str, penalty: str, gamma: float, relative: float) -> Row:
    X, y = families()[family]
    rng = np.random.default_rng(1)
    rows, order = np.sort(rng.choice(N, CENTRES, replace=False)), rng.permutation(N)
    options = {"penalty": penalty, "gamma": gamma}
    unit = KernelFisherClassifier(**options, basis=rows).fit(X, y).selection_.unit
    options["regularization"] = relative * unit
    whole = decisions(X, y, rows, "8GB", **options)
    shuffled = decisions(X[order], y[order], np.argsort(order)[rows], "8GB", **options)
    again = decisions(X, y, rows, BLOCKS, **options)
    shipped, passes._DOUBT = passes._DOUBT, np.inf
    once = decisions(X, y, rows, BLOCKS, **options)
    passes._DOUBT = shipped

    def gap(other: np.ndarray) -> float:
        return float(np.max(np.abs(whole - other)) / np.max(np.abs(whole)))

    itself = float(np.max(np.abs(whole[order] - shuffled)) / np.max(np.abs(whole)))
    return {
        "family": family,
        "penalty": penalty,
        "gamma": gamma,
        "mu_over_unit": relative,
        "memory_shuffled": f"{itself:.1e}",
        "blocks_once": f"{gap(once):.1e}",
        "blocks": f"{gap(again):.1e}",
        "holds": gap(again) <= max(LIMIT, 10 * itself),
    }


def main() -> None:
    mus = (1e-8, 1e-6, 1e-4, 1e-2)
    cases = product(families(), ("rkhs", "coefficients"), (0.02, 0.3, 3.0), mus)
    table = []
    for case in cases:
        table.append(compare(*case))
        print(table[-1], flush=True)
    write_csv("large_digits", table)


if __name__ == "__main__":
    main()
