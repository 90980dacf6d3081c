"""One fit, many labellings: left-out decisions for permuted labels, and their scores.

The residual maker B does not know the labels, so p labellings cost one matrix product, B y~ for
their targets side by side, and leaving rows out of all of them costs nothing more
(`fisherkit.core.canonical`). Arrays are (n, k, p): rows, columns of the targets, labellings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from fisherkit.core import (
    Array,
    Fold,
    Residuals,
    Ridge,
    Rule,
    arrays,
    left_out,
    solve_left_out,
    winners,
)
from fisherkit.tuning import loo_decisions

BLOCK = 1 << 22  # residuals (rows, columns, labellings) held at once


class MissingClassError(ValueError):
    """A class has no rows left to train on; ``index`` is its position."""

    def __init__(self, index: int):
        super().__init__(f"class {index} is missing from a training set")
        self.index = index


@dataclass(frozen=True)
class Relabelled:
    """A fit under p labellings: ``Y`` the targets and ``BY`` the whitened residuals, (n, k, p).

    ``indicator`` (n, c, p) is the class membership, ``None`` for a regression.
    """

    ridge: Ridge
    Y: Array
    BY: Array
    indicator: Array | None

    @classmethod
    def of(cls, ridge: Ridge, Y: Array, indicator: Array | None = None) -> Relabelled:
        """One matrix product, O(n r k p)."""
        xp = arrays.namespace(Y)
        BY = ridge.resolvent.residuals(xp.reshape(Y, (Y.shape[0], -1)))
        return cls(ridge, Y, xp.reshape(BY, Y.shape), indicator)

    def decisions(self, rule: Rule | None) -> Array:
        """Decisions for every row by the models that left it out, (n, k, p); or scores."""
        xp = arrays.namespace(self.Y)
        if rule is None or rule.fixed:
            B_diag = self.ridge.B_diag[:, None, None]
            return self.Y - left_out(self.BY, B_diag, self.ridge.weights)
        parts = []
        for j, fit in enumerate(self._each()):
            assert self.indicator is not None
            parts.append(loo_decisions(fit, rule, self.indicator[:, :, j]))
        return xp.stack(parts, axis=2)

    def fold_decisions(self, fold: Fold, rule: Rule | None) -> Array:
        """Decisions for the tested rows by the models without the removed ones, (tested, k, p)."""
        xp = arrays.namespace(self.Y)
        G, weights = fold.removed, self.ridge.weights
        b = xp.take(self.BY, G, axis=0)
        solved = solve_left_out(self.ridge.resolvent.block(G, G), xp.reshape(b, (b.shape[0], -1)))
        residual = xp.reshape(solved, b.shape) / xp.take(weights.root, G, axis=0)[:, None, None]
        scores = xp.take(self.Y, G, axis=0) - residual
        scores = xp.take(scores, fold.tested, axis=0)
        if rule is None:
            return scores
        left = self.require_classes(G)
        if rule.fixed:
            return scores
        decided = [
            rule.decide(scores[:, :, j], left[:, j], fit.scatter_without(G, residual[:, :, j]))
            for j, fit in enumerate(self._each())
        ]
        return xp.stack(decided, axis=2)

    def fold_score(
        self, fold: Fold, index: Array | None, rule: Rule | None, metric: str
    ) -> np.ndarray:
        """The metric of each labelling on the tested rows, (p,); ``index`` (n, p) as below."""
        xp = arrays.namespace(self.Y)
        truth = self.Y if index is None else index
        tested = xp.take(fold.removed, fold.tested, axis=0)
        return METRICS[metric](xp.take(truth, tested, axis=0), self.fold_decisions(fold, rule))

    def require_classes(self, group: Array) -> Array:
        """Class counts (c, p) of the rows that remain; raises where a class is gone."""
        xp = arrays.namespace(self.Y)
        v = self.ridge.weights.v[:, None, None]
        counts = xp.sum(v * self.indicator, axis=0)
        left = counts - xp.sum(xp.take(v * self.indicator, group, axis=0), axis=0)
        missing = arrays.to_numpy(xp.any(left <= 1e-9 * counts, axis=1))
        if np.any(missing):
            raise MissingClassError(int(np.argmax(missing)))
        return left

    def _each(self) -> Iterator[Residuals]:
        """The fits one by one, with their scatter E = y~' B y~."""
        weights = self.ridge.weights
        for j in range(self.Y.shape[2]):
            Y, BY = self.Y[:, :, j], self.BY[:, :, j]
            scatter = (weights.root[:, None] * Y).T @ BY
            yield Residuals(Y, weights, self.ridge.B_diag, BY, scatter)

    def leave_pair_out_auc(self) -> np.ndarray:
        """Share of pairs of opposite classes ranked rightly by the model without the two; (p,).

        With G = {i, j}, B_GG R_G = (B y)_G is solved for all pairs of a labelling at once; O(n^2)
        each. For unit weights and +-1 codes.
        """
        rows = arrays.indices(np.arange(self.Y.shape[0]), self.Y)
        B = arrays.to_numpy(self.ridge.resolvent.block(rows, rows))
        d = np.diag(B)
        Y, BY = arrays.to_numpy(self.Y[:, 0, :]), arrays.to_numpy(self.BY[:, 0, :])
        values = []
        for y, b in zip(Y.T, BY.T, strict=True):
            up, down = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
            cross = B[np.ix_(up, down)]
            determinant = d[up, None] * d[None, down] - cross**2
            difference = (d[None, down] + cross) * b[up, None] - (d[up, None] + cross) * b[down]
            gain = 2 - difference / determinant  # f(x_i) - f(x_j), both left out
            tied = np.abs(gain) <= 1e-12
            values.append(np.mean(np.where(tied, 0.5, gain > 0)))
        return np.asarray(values)


def accuracy(index: Array, decisions: Array) -> np.ndarray:
    """Share of rows decided rightly, (p,)."""
    xp = arrays.namespace(decisions)
    right = xp.astype(_winners(decisions) == index, decisions.dtype)
    return _host(xp.mean(right, axis=0))


def balanced_accuracy(index: Array, decisions: Array) -> np.ndarray:
    """Mean over the classes present of the share of their rows decided rightly, (p,)."""
    xp = arrays.namespace(decisions)
    right = _winners(decisions) == index
    recall, present = 0.0, 0.0
    for q in range(max(2, decisions.shape[1])):
        members = index == q
        size = xp.sum(xp.astype(members, decisions.dtype), axis=0)
        hits = xp.sum(xp.astype(right & members, decisions.dtype), axis=0)
        recall = recall + hits / xp.clip(size, 1.0, None)
        present = present + xp.astype(size > 0, decisions.dtype)
    return _host(recall / present)


def roc_auc(index: Array, decisions: Array) -> np.ndarray:
    """Area under the ROC curve of two classes by ranks, ties counted half, (p,)."""
    positive = arrays.to_numpy(index) == 1
    ranks = rankdata(arrays.to_numpy(decisions[:, 0, :]), axis=0)
    n1 = positive.sum(axis=0)
    n0 = positive.shape[0] - n1
    if np.any((n0 == 0) | (n1 == 0)):
        raise ValueError(
            "a fold tests rows of one class only, which has no ROC curve. Use a stratified "
            "splitter or fewer folds."
        )
    return (np.sum(ranks * positive, axis=0) - n1 * (n1 + 1) / 2) / (n1 * n0)


def r2(Y: Array, predictions: Array) -> np.ndarray:
    """Coefficient of determination, averaged over the outputs, (p,)."""
    xp = arrays.namespace(Y)
    if Y.shape[0] < 2:
        raise ValueError("a fold tests one row, for which r2 is not defined; use larger folds.")
    error = xp.sum((Y - predictions) ** 2, axis=0)
    spread = xp.sum((Y - xp.mean(Y, axis=0)) ** 2, axis=0)
    # As in scikit-learn: constant targets are predicted perfectly (1) or not (0).
    constant = xp.astype(error == 0, Y.dtype)
    safe = xp.where(spread > 0, spread, xp.ones_like(spread))
    return _host(xp.mean(xp.where(spread > 0, 1 - error / safe, constant), axis=0))


METRICS: dict[str, Callable[[Array, Array], np.ndarray]] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "roc_auc": roc_auc,
    "r2": r2,
}
PAIRS = "leave_pair_out_auc"


def score(metric: str, truth: Array, rows: Array, decisions: Array) -> float:
    """The metric of decisions (b, k) on some rows of one labelling; ``truth`` is of all rows."""
    seen = arrays.namespace(truth).take(truth, rows, axis=0)
    return float(METRICS[metric](seen, decisions[:, :, None])[0])


def held_out_scores(
    relabelled: Relabelled,
    index: Array | None,
    rule: Rule | None,
    folds: Sequence[Fold] | None,
    metric: str,
) -> np.ndarray:
    """The metric of each labelling, (p,): mean over the folds, or pooled over left-out rows.

    ``index`` (n, p) are class indices, ``None`` for a regression. Left-out scores of different
    rows come from models with different mean labels, which pull them away from the label of
    the row; for the AUC, which ranks them against each other, that mean is subtracted.
    """
    if metric == PAIRS:
        return relabelled.leave_pair_out_auc()
    if folds is None:
        truth = relabelled.Y if index is None else index
        if metric != "roc_auc":
            return METRICS[metric](truth, relabelled.decisions(rule))
        mean = relabelled.ridge.weights.fold_mean(relabelled.Y[:, 0, :])[:, None, :]
        return roc_auc(truth, relabelled.decisions(None) - mean)
    return np.mean([relabelled.fold_score(fold, index, rule, metric) for fold in folds], axis=0)


def _winners(decisions: Array) -> Array:
    """Class indices (n, p) decided by decisions (n, k, p)."""
    xp = arrays.namespace(decisions)
    n, k, p = decisions.shape
    flat = xp.reshape(xp.permute_dims(decisions, (0, 2, 1)), (n * p, k))
    return xp.reshape(winners(flat), (n, p))


def _host(values: Array) -> np.ndarray:
    return np.asarray(arrays.to_numpy(values), dtype=np.float64)
