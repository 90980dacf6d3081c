"""A user's program. ``.ci/packaging`` checks it with ``mypy --strict`` and runs it on the wheel."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fisherkit import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    SparseFisherClassifier,
    audit,
)
from fisherkit.datasets import make_torus
from fisherkit.model_selection import cross_val_predict, permutation_test_score

Rows = npt.NDArray[np.float64]


def share_right(model: KernelFisherClassifier, X: Rows, y: npt.NDArray[np.int64]) -> float:
    return float(np.mean(model.predict(X) == y))


def main() -> None:
    X, y = make_torus(120, random_state=0)
    model = KernelFisherClassifier(gamma=1.0, criterion="press").fit(X, y)
    print(f"right on the rows of the fit: {share_right(model, X, y):.2f}")
    print(f"mu = {model.regularization_:.3g}, {model.selection_.status.value}")
    given = KernelFisherClassifier(gamma=1.0, regularization=1.0)
    left_out: Rows = cross_val_predict(given, X, y, method="decision_function")
    score, permuted, pvalue = permutation_test_score(given, X, y, n_permutations=19)
    print(f"{len(left_out)} decisions, score {score:.2f}, p = {pvalue:.2f}, {len(permuted)}")
    sets = model.predict_set(X[:5], confidence=0.9)
    print(sets.shape, audit(model, X, y).shape)
    regression = KernelRidgeCV(gamma=1.0).fit(X[:, :1], X[:, 1])
    lower, upper = regression.predict_interval(X[:5, :1], confidence=0.9)
    print(bool(np.all(lower <= upper)))
    for other in (
        SparseFisherClassifier(gamma="scale"),
        ForwardFisherClassifier(gamma="scale", max_terms=5),
        BayesianFisherClassifier(),
        FisherCommitteeClassifier(n_widths=3),
    ):
        print(type(other).__name__, other.fit(X, y).predict_proba(X[:2]).shape)


if __name__ == "__main__":
    main()
