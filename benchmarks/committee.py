"""What a committee costs beyond the scores it is made of, and how fast an L1 kernel matrix is.

Parts, each with its own results file:
  cost       FisherCommitteeClassifier().fit against the leave-one-out scores of the same members
             alone (kernel matrices, decompositions, 25 values of mu), and for scale against
             KernelFisherClassifier().fit
  laplacian  kernel matrix of n = 2,000 rows and 60 features against scikit-learn's
             laplacian_kernel, compiled with numba and with SciPy alone, bits compared
"""

import argparse
from functools import partial

import numpy as np
from _common import Row, best_of, make_gaussians, print_table, write_csv
from sklearn.metrics.pairwise import laplacian_kernel

from fisherkit import FisherCommitteeClassifier, KernelFisherClassifier
from fisherkit.core.bias import FREE
from fisherkit.core.canonical import mu_floor
from fisherkit.core.decompose import Decomposer, Design
from fisherkit.core.kernels import Gram, Kernel, reference_width, width_step
from fisherkit.core.l1_distances import cityblock
from fisherkit.core.ridge import RidgePath
from fisherkit.core.weights import Weights
from fisherkit.tuning.select import mu_grid

COST_LIMITS = {400: 1.25, 1300: 1.1}
REPEATS = {400: 15, 1300: 3}
GRAM_LIMIT = 3.0
OCTAVES = np.arange(-3, 4)


def scores_alone(X: np.ndarray, Y: np.ndarray) -> int:
    """Leave-one-out scores of the members of the default committee; how many there are."""
    count = 0
    weights = Weights.unit(X)
    for name in ("rbf", "laplacian"):
        kernel = Kernel(name)
        design = Design(Gram(X, kernel), weights, "rkhs", FREE, "auto", None, None, 0)
        decomposer = Decomposer(design)
        octave = width_step(kernel) ** 2
        for gamma in reference_width(X, weights.frequency, kernel) * octave**OCTAVES:
            canonical = decomposer.decompose(gamma, lambda unit: 1e-4 * 2.0**-14 * unit).canonical
            mus = mu_grid(canonical.unit, mu_floor(canonical.unit, weights))
            scores = RidgePath.of(canonical, Y).held_out(list(mus))
            count += scores.shape[2]
    return count


def cost() -> list[Row]:
    rows = []
    for n, limit in COST_LIMITS.items():
        X, y = make_gaussians(n, 20, random_state=0)
        Y = (2.0 * y - 1)[:, None]
        models = {
            c: FisherCommitteeClassifier(combine=c, random_state=0)
            for c in ("average", "stack", "best")
        }
        best = best_of(
            REPEATS[n],
            scores=partial(scores_alone, X, Y),
            pick=partial(KernelFisherClassifier(random_state=0).fit, X, y),
            **{name: partial(model.fit, X, y) for name, model in models.items()},
        )
        members = scores_alone(X, Y)
        for name, model in models.items():
            assert len(model.members_) == members
            ratio = best[name] / best["scores"]
            rows.append(
                {
                    "n": n,
                    "combine": name,
                    "members": members,
                    "fit_s": best[name],
                    "scores_alone_s": best["scores"],
                    "ratio": ratio,
                    "limit": limit,
                    "holds": bool(ratio <= limit),
                    "press_pick_s": best["pick"],
                }
            )
    return rows


def laplacian(n: int = 2000, d: int = 60) -> list[Row]:
    X = make_gaussians(n, d, random_state=0)[0]
    kernel = Kernel("laplacian", gamma=1 / d)

    def decay(distances: np.ndarray) -> np.ndarray:
        distances *= -1 / d
        return np.exp(distances, out=distances)

    contenders = {
        "numba": partial(kernel.block, X, X),
        "scipy": partial(cityblock, X, X, decay, compiled=False),
    }
    truth = laplacian_kernel(X, gamma=1 / d)
    for contender in contenders.values():  # compiles, and compares
        assert np.max(np.abs(contender() - truth)) < 1e-15
    assert np.array_equal(contenders["numba"](), contenders["scipy"]())
    best = best_of(20, peer=partial(laplacian_kernel, X, gamma=1 / d), **contenders)
    return [
        {
            "n": n,
            "d": d,
            "path": name,
            "fisherkit_s": best[name],
            "sklearn_s": best["peer"],
            "times_faster": best["peer"] / best[name],
            "limit": GRAM_LIMIT if name == "numba" else "",
            "holds": bool(best["peer"] / best[name] >= GRAM_LIMIT) if name == "numba" else "",
        }
        for name in contenders
    ]


PARTS = {"cost": cost, "laplacian": laplacian}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="default: both")
    options = parser.parse_args()
    # The first call of a process pays for thread pools and lazy imports.
    FisherCommitteeClassifier().fit(*make_gaussians(300, 20, random_state=0))
    for name in options.part or PARTS:
        rows = PARTS[name]()
        print(f"\n{name}")
        print_table(rows)
        write_csv(f"committee_{name}", rows)


if __name__ == "__main__":
    main()
