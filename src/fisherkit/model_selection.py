"""Closed-form twins of scikit-learn's cross-validation functions."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from fisherkit import _array, coding, validation
from fisherkit._array import Array
from fisherkit.calibrate import fit_slope, loo_decisions, probabilities
from fisherkit.estimators import KernelFisherClassifier, KernelRidgeCV
from fisherkit.kernel_model import Task
from fisherkit.ridge import Fold, Ridge

METHODS = ("predict", "decision_function", "predict_proba")


def cross_val_predict(estimator, X, y, *, groups=None, cv=None, method="predict"):
    """Out-of-fold predictions in closed form: what refitting on each fold would give.

    One factorisation serves all folds: the rows of a fold G are left out by
    ``(y - f_(G))_G = B_GG^-1 (B y)_G``, see `fisherkit.canonical`. Probabilities are calibrated
    within each fold, on leave-one-out decisions of its training rows (nested closed form).

    Parameters
    ----------
    estimator : KernelFisherClassifier or KernelRidgeCV
        With numbers for all hyper-parameters that its kernel uses.
    X : (n, d), or (n, n) for a precomputed kernel
    y : (n,) or (n, n_outputs)
    groups : (n,), default=None
        For group splitters.
    cv : int, splitter or iterable of (train, test), default=None
        ``None`` is leave-one-out. The test parts must be a partition of the rows.
    method : {"predict", "decision_function", "predict_proba"}, default="predict"

    Returns
    -------
    ndarray
        Predictions in the order of the rows.

    Notes
    -----
    Exact for the rkhs penalty with every row a centre. For the coefficients penalty, and for a
    chosen basis, it is conditional on the centres: they stay in place when their row is left out.
    ``class_weight="balanced"`` is refused: each fold would weigh its rows anew.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.model_selection import cross_val_predict
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelFisherClassifier(gamma=0.2, regularization=0.1)
    >>> bool((cross_val_predict(model, X, y) == y).mean() > 0.95)
    True
    """
    if not isinstance(estimator, (KernelFisherClassifier, KernelRidgeCV)):
        raise TypeError(
            "cross_val_predict has closed forms for KernelFisherClassifier and KernelRidgeCV; got "
            f"{type(estimator).__name__}. Use sklearn.model_selection.cross_val_predict."
        )
    validation.one_of("method", method, METHODS)
    if not hasattr(estimator, method):
        raise AttributeError(f"{type(estimator).__name__} has no method {method!r}.")
    rules = estimator._rules_in_use()
    if rules:
        raise ValueError(
            f"{', '.join(rules)} would be chosen on all rows, the held-out ones included, and the "
            "predictions would leak. Give a number, or use "
            "sklearn.model_selection.cross_val_predict, which chooses anew in each fold."
        )
    if getattr(estimator, "class_weight", None) == "balanced":
        raise ValueError(
            "class_weight='balanced' weighs the rows anew in each fold, which has no closed form. "
            "Give the weights as a dict, or use sklearn.model_selection.cross_val_predict."
        )
    task = clone(estimator)._prepare(X, y)
    gram = task.problem.design.gram
    n = gram.n
    if cv is None:
        cv = [(np.delete(np.arange(n), i), np.array([i])) for i in range(n)]
    pairs = validation.fold_pairs(
        cv, gram.X, y, groups, task.kept, n, classifier=task.rule is not None
    )
    folds = validation.folds_of(pairs, gram.X)
    order = np.concatenate([test for _, test in pairs])
    if len(order) != n or len(np.unique(order)) != n:
        raise ValueError("cross_val_predict only works for partitions")
    ridge = task.tune().ridge
    predict = _regress if task.rule is None else _classify
    parts = [predict(task, ridge, fold, method) for fold in folds]
    xp = _array.namespace(task.problem.Y)
    joined = xp.concat(parts, axis=0)
    joined = xp.take(joined, _array.indices(np.argsort(order), joined), axis=0)
    if method == "predict" and task.rule is not None:
        return coding.decode(task.classes, joined[:, 0])
    return joined[:, 0] if joined.shape[1] == 1 and task.flat else joined


def _left_out_scores(ridge: Ridge, fold: Fold) -> tuple[Array, Array]:
    """Scores of the tested rows and residuals of all removed rows."""
    xp = _array.namespace(ridge.Y)
    residual = ridge.leave_group_out(fold.removed)
    scores = xp.take(ridge.Y, fold.removed, axis=0) - residual
    return xp.take(scores, fold.tested, axis=0), residual


def _regress(task: Task, ridge: Ridge, fold: Fold, method: str) -> Array:
    return _left_out_scores(ridge, fold)[0]


def _classify(task: Task, ridge: Ridge, fold: Fold, method: str) -> Array:
    """Decisions (or class indices, or probabilities) of the tested rows of one fold."""
    xp = _array.namespace(ridge.Y)
    scores, residual = _left_out_scores(ridge, fold)
    removed = fold.removed
    v = ridge.weights.v
    counts = xp.sum(v[:, None] * task.indicator, axis=0)
    left = counts - xp.sum(
        xp.take(v, removed, axis=0)[:, None] * xp.take(task.indicator, removed, axis=0), axis=0
    )
    missing = _array.to_numpy(left <= 1e-9 * counts)
    if np.any(missing):
        label = _array.to_numpy(task.classes)[missing][0]
        raise ValueError(
            f"cv: class {label!r} is missing from the training part of a fold. Use a stratified "
            "splitter or fewer folds."
        )
    decisions = task.rule.decide(scores, left, ridge.scatter_without(removed, residual))
    if method == "decision_function":
        return decisions
    if method == "predict":
        return coding.winners(decisions)[:, None]
    remaining = np.setdiff1d(np.arange(ridge.Y.shape[0]), _array.to_numpy(removed))
    rest = _array.indices(remaining, ridge.Y)
    inner = ridge.without(removed, rest)
    indicator = xp.take(task.indicator, rest, axis=0)
    loo, known = loo_decisions(inner, task.rule, indicator)
    slope = fit_slope(loo, known, indicator, inner.weights, balanced=task.rule.balanced)
    return probabilities(decisions, slope)
