"""The sparse learners: from labels and candidate kernels to families of models that decide."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fisherkit.core import Labels, coding, forward
from fisherkit.sparse import lasso
from fisherkit.sparse.crossfit import Family

_RHOS = 20  # penalties on the path
_RIDGE = 1e-6  # lambda of a new term, for kernel values up to one


@dataclass(frozen=True)
class LqLearner:
    """lq-penalised least squares on optimal scores, over a path of penalties rho.

    Two classes are decided at the midpoint of their codes, more by linear discriminant analysis
    on the fitted scores.
    """

    q: float
    penalize_bias: bool
    balanced: bool
    rhos: np.ndarray | None = None

    def settle(self, P: np.ndarray, labels: Labels) -> LqLearner:
        """Fix the grid of rho: from the smallest that retains no term, downwards.

        For q < 1 that is three times as much as for the lasso, from which its solutions start at
        rho / 3; it ends no higher. For q > 1 none gives zeros, and the grid is twice as long.
        """
        if self.rhos is not None:
            return self
        Y = coding.optimal_scores(labels.counts)[labels.index]
        correlation = P @ (labels.weights.v[:, None] * Y)
        top = float(np.max(np.linalg.norm(correlation, axis=1))) / labels.weights.mass
        first = np.log10(3.0) if self.q < 1 else 0.0
        last = -3.0 if self.q <= 1 else -6.0
        return replace(self, rhos=(top or 1.0) * np.logspace(first, last, _RHOS))

    def fit(self, P: np.ndarray, labels: Labels) -> Family:
        assert self.rhos is not None
        counts = labels.counts
        present = np.flatnonzero(counts > 0)
        if len(present) == 1:  # a fold without the other classes
            constant = np.where(counts > 0, 1.0, -1.0)
            none = np.empty(0, dtype=np.int64), np.empty((0, labels.n_decisions))
            return Family.of([(*none, constant[-labels.n_decisions :])] * len(self.rhos))
        index = np.searchsorted(present, labels.index)
        Y = coding.optimal_scores(counts[present])[index]
        v = labels.weights.v
        problem = lasso.LeastSquares.of(P.T, Y, v, penalize_bias=self.penalize_bias)
        models = []
        for solution in lasso.solve_path(problem, self.rhos.tolist(), self.q):
            support, coef, intercept = solution.support, solution.coef, solution.intercept
            if labels.n_classes == 2:
                share = counts[1] / counts.sum()
                mean, spread = 2 * share - 1, 2 * (share * (1 - share)) ** 0.5
                matrix = np.array([[spread]])
                offset = np.array([0.0 if self.balanced else mean])  # minus the threshold
            else:
                F = P[support].T @ coef + intercept
                shares = counts[present] / counts.sum()
                inner, inner_offset = coding.lda_of_scores(
                    F,
                    labels.indicator[:, present],
                    labels.weights.frequency,
                    np.zeros_like(shares) if self.balanced else np.log(shares),
                )
                matrix = np.zeros((len(inner), labels.n_classes))
                matrix[:, present] = inner
                # A class that the fold never saw comes last.
                offset = np.full(labels.n_classes, inner_offset.min() - np.log(v.sum() + 1))
                offset[present] = inner_offset
            models.append((support, coef @ matrix, intercept @ matrix + offset))
        return Family.of(models)


@dataclass(frozen=True)
class ForwardLearner:
    """Orthogonal forward selection; the models are the prefixes of one run.

    "loo_error" and "press" stop by themselves, "err" leaves the size to cross-validation. Two
    classes are decided at the midpoint of their codes, more by the largest indicator score.
    """

    criterion: str
    max_terms: int
    patience: int
    evidence: bool
    balanced: bool
    ridge: float | None = None
    rhos: None = None

    def settle(self, P: np.ndarray, labels: Labels) -> ForwardLearner:
        """Fix the small penalty of each term, in units of the largest kernel value squared."""
        return replace(self, ridge=_RIDGE * float(np.max(P * P, initial=0.0)))

    def run(self, P: np.ndarray, labels: Labels) -> forward.ForwardPath:
        assert self.ridge is not None
        Y = labels.indicator if labels.n_classes > 2 else 2.0 * labels.index[:, None] - 1.0
        return forward.select_terms(
            P,
            Y,
            labels.weights,
            criterion=self.criterion,
            max_terms=min(self.max_terms, len(P)),
            patience=self.patience,
            ridge=self.ridge,
        )

    def fit(self, P: np.ndarray, labels: Labels) -> Family:
        return self.family(self.run(P, labels), labels)

    def family(self, path: forward.ForwardPath, labels: Labels) -> Family:
        threshold = labels.weights.mean(path.Y) if self.balanced else 0.0
        models = []
        for size in range(len(path.order) + 1):
            prefix = forward.update_ridge(path, size) if self.evidence and size else path
            size = len(prefix.order) if self.evidence and size else size
            coef, intercept = prefix.coefficients(size)
            models.append((prefix.order[:size], coef, intercept - threshold))
        stop = None if self.criterion == "err" else path.best
        return Family.of(models, stop, growth=path)
