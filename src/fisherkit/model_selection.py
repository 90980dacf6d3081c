"""Closed-form twins of scikit-learn's cross-validation functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from fisherkit import _array, coding, relabel, validation
from fisherkit._array import Array
from fisherkit.calibrate import fit_slope, loo_decisions, probabilities
from fisherkit.estimators import KernelFisherClassifier, KernelRidgeCV
from fisherkit.kernel_model import Task
from fisherkit.relabel import Relabelled
from fisherkit.ridge import Fold, Ridge
from fisherkit.tune import shared_decomposer

METHODS = ("predict", "decision_function", "predict_proba")
CLASSIFIER_SCORES = ("accuracy", "balanced_accuracy", "roc_auc", relabel.PAIRS)


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
        raise ValueError(_missing(task, int(np.argmax(missing))))
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


def permutation_test_score(
    estimator,
    X,
    y,
    *,
    groups=None,
    cv=None,
    n_permutations=100,
    random_state=0,
    scoring=None,
    reselect="auto",
):
    """Is there a signal? The cross-validated score beside those of permuted labels, without refits.

    The residual maker B does not depend on the labels: all permutations share one factorisation,
    and each costs one column of a matrix product, O(n r). The scores are those of refits, and for
    an integer seed the permutations are those of scikit-learn's function.

    Parameters
    ----------
    estimator : KernelFisherClassifier or KernelRidgeCV, or a Pipeline that ends in one
        Steps before the last are fitted once, on all rows, without labels; steps that need labels
        are refused.
    X : (n, d), or (n, n) for a precomputed kernel
    y : (n,), or (n, n_outputs) for a regression
    groups : (n,), default=None
        Labels are permuted within groups only; also passed to the splitter.
    cv : int, splitter or iterable of (train, test), default=None
        ``None`` is leave-one-out. Otherwise scores are means over the folds, as in scikit-learn.
    n_permutations : int, default=100
    random_state : int, RandomState or None, default=0
    scoring : str, default=None
        "accuracy" (default of classifiers), "balanced_accuracy", "roc_auc" (two classes),
        "leave_pair_out_auc" (two classes, ``cv=None``) or "r2" (default of regressors).
    reselect : {"auto", True, False}, default="auto"
        Whether hyper-parameters with the rule "loo" are chosen anew for each permutation. "auto"
        does so where there is such a rule.

    Returns
    -------
    score : float
    permutation_scores : (n_permutations,)
    pvalue : float
        ``(C + 1) / (n_permutations + 1)`` with C the number of permutations that score at least as
        well (to rounding).

    Notes
    -----
    *Guarantee.* If the rows are exchangeable given no dependence of y on X (within groups, if
    given), P(p <= a) <= a for every a, for any n. It needs every step that sees the labels to be
    repeated on the permuted ones. With numbers for the hyper-parameters there is no such step.
    With rules, ``reselect=True`` repeats the choice: mu and width are those that `fit` would choose
    on the permuted labels, from one decomposition for each width, and the score is the
    cross-validated one at that choice. It is optimistic as an estimate of performance, equally for
    true and permuted labels. ``reselect=False`` keeps the choice made on the true labels, which
    favours them: p-values are then too small.

    *Pooling.* With ``cv=None`` all scores are computed once over the left-out rows: a one-row fold
    has no AUC, r2 or balanced accuracy. Left-out scores carry the mean label of the rows trained
    on, which is the lower the higher the row's own label is. For "roc_auc" that mean is
    subtracted from each; without it the test would stay valid but lose power, as with much
    regularisation the mean alone ranks the classes in reverse. "leave_pair_out_auc" compares two
    rows by the model that has seen neither, and needs no such correction.

    *Conditions.* Exact for the rkhs penalty with every row a centre, conditional on the centres
    otherwise. Rules of thumb for gamma see no labels and are applied once, on all rows. A
    ``class_weight`` would make B depend on the labels and is refused.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.model_selection import permutation_test_score
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelFisherClassifier(gamma=0.2, regularization=0.1)
    >>> score, permuted, pvalue = permutation_test_score(model, X, y, n_permutations=999)
    >>> bool(score > 0.95), pvalue
    (True, 0.001)
    """
    model, X = validation.label_free(estimator, X)
    _require_label_free(model)
    if validation.count("n_permutations", n_permutations) is None:
        raise ValueError("n_permutations=None is not valid; use an integer >= 1.")
    if not (isinstance(reselect, bool) or reselect == "auto"):
        raise ValueError(f"reselect={reselect!r} is not valid; use 'auto', True or False.")
    labels = _Labels.of(model._prepare(X, y))
    metric = _metric(scoring, labels, cv)
    if groups is not None:
        groups = _checked_groups(groups, labels)
    task = labels.task
    searched = task.mu is None or task.search_gamma
    if searched and reselect:
        shared = shared_decomposer(task.problem.design)
    else:
        ridge = task.tune().ridge
        shared = None
    rng = check_random_state(random_state)
    values = []
    for orders, folds in _blocks(
        labels, cv, groups, n_permutations, rng, single=shared is not None
    ):
        if shared is not None:
            ridge = model._prepare(X, labels.shuffled(orders[0])).tune(shared).ridge
        Y, indicator, index = labels.take(orders)
        try:
            relabelled = Relabelled.of(ridge, Y, indicator)
            values.append(relabel.held_out_scores(relabelled, index, task.rule, folds, metric))
        except relabel.MissingClassError as error:
            raise ValueError(_missing(task, error.index)) from error
    score, *rest = np.concatenate(values)
    permuted = np.asarray(rest)
    at_least = np.sum(permuted >= score - 1e-12 * max(1.0, abs(score)))
    return float(score), permuted, float((at_least + 1.0) / (n_permutations + 1))


def _missing(task: Task, index: int) -> str:
    label = _array.to_numpy(task.classes).tolist()[index]
    return (
        f"cv: class {label!r} is missing from the training part of a fold. Use a stratified "
        "splitter or fewer folds."
    )


def _require_label_free(model: Any) -> None:
    """Refuse models whose residual maker depends on the labels."""
    if not isinstance(model, (KernelFisherClassifier, KernelRidgeCV)):
        raise TypeError(
            "permutation_test_score has closed forms for KernelFisherClassifier and "
            f"KernelRidgeCV; got {type(model).__name__}. Use "
            "sklearn.model_selection.permutation_test_score, which refits."
        )
    if getattr(model, "class_weight", None) is not None:
        raise ValueError(
            f"class_weight={model.class_weight!r} weighs rows by their labels, so every "
            "permutation would be another model. Use threshold='balanced' and "
            "scoring='balanced_accuracy', or sklearn.model_selection.permutation_test_score."
        )
    if getattr(model, "ard", False):
        raise ValueError(
            "ard=True learns one width per feature from the labels, which has no closed form for "
            "permuted ones. Use ard=False, or sklearn.model_selection.permutation_test_score."
        )


@dataclass(frozen=True)
class _Labels:
    """The labels of a task on the host, in any order: class indices (n,), or targets (n, k)."""

    task: Task
    values: np.ndarray

    @classmethod
    def of(cls, task: Task) -> _Labels:
        if task.indicator is None:
            return cls(task, _array.to_numpy(task.problem.Y))
        return cls(task, np.argmax(_array.to_numpy(task.indicator), axis=1))

    def shuffled(self, order: np.ndarray) -> Any:
        """y in another order, as a user would give it."""
        values = self.values[order]
        if self.task.indicator is not None:
            return coding.decode(self.task.classes, _array.indices(values, self.task.problem.Y))
        return _array.like(values[:, 0] if self.task.flat else values, self.task.problem.Y)

    def take(self, orders: np.ndarray) -> tuple[Array, Array | None, Array | None]:
        """Targets (n, k, p), indicators (n, c, p) and class indices (n, p) of orders (p, n)."""
        Y = self.task.problem.Y
        xp = _array.namespace(Y)
        if self.task.indicator is None:
            values = np.moveaxis(self.values[orders], 0, 2)
            return _array.like(np.ascontiguousarray(values), Y), None, None
        n_classes = self.task.indicator.shape[1]
        index = _array.indices(np.ascontiguousarray(self.values[orders].T), Y)
        classes = _array.indices(np.arange(n_classes), Y)
        indicator = xp.astype(index[:, None, :] == classes[None, :, None], Y.dtype)
        return (2 * indicator[:, 1:, :] - 1 if n_classes == 2 else indicator), indicator, index


def _metric(scoring: Any, labels: _Labels, cv: Any) -> str:
    """The name of the score, checked against what the task and the folds allow."""
    classifier = labels.task.indicator is not None
    valid = CLASSIFIER_SCORES if classifier else ("r2",)
    if scoring is None:
        scoring = valid[0]
    if not isinstance(scoring, str) or scoring not in valid:
        names = ", ".join(repr(name) for name in valid)
        raise ValueError(
            f"scoring={scoring!r} has no closed form here; use one of {names}, or "
            "sklearn.model_selection.permutation_test_score, which refits."
        )
    if "auc" in scoring and len(labels.task.classes) != 2:
        raise ValueError(
            f"scoring={scoring!r} needs two classes; got {len(labels.task.classes)}. Use "
            "'accuracy' or 'balanced_accuracy'."
        )
    if scoring == relabel.PAIRS and cv is not None:
        raise ValueError("scoring='leave_pair_out_auc' leaves out every pair; use cv=None.")
    if classifier and cv is None:
        counts = np.bincount(labels.values)
        if counts.min() < 2:
            raise ValueError(_missing(labels.task, int(np.argmin(counts))))
    return scoring


def _checked_groups(groups: Any, labels: _Labels) -> np.ndarray:
    groups = np.asarray(_array.to_numpy(groups))
    n = len(labels.values)
    if groups.shape != (n,):
        raise ValueError(f"groups has shape {groups.shape} for {n} rows of X; use ({n},).")
    for group in np.unique(groups).tolist():
        inside = labels.values[groups == group]
        if labels.task.indicator is not None and len(np.unique(inside)) < 2:
            label = _array.to_numpy(labels.task.classes).tolist()[inside[0]]
            raise ValueError(
                f"groups: group {group!r} has rows of one class only ({label!r}), which permuting "
                "within groups never changes. Leave the group out, or merge it with another."
            )
    return groups


def _blocks(
    labels: _Labels,
    cv: Any,
    groups: np.ndarray | None,
    n_permutations: int,
    rng: np.random.RandomState,
    *,
    single: bool,
) -> Iterator[tuple[np.ndarray, list[Fold] | None]]:
    """Orders of the labels (p, n), the first as given, in blocks that share their folds."""
    task = labels.task
    X = task.problem.design.gram.X
    n, k = task.problem.Y.shape
    size = 1 if single else max(1, relabel.BLOCK // (n * k))
    if cv is not None and not isinstance(cv, int) and not hasattr(cv, "split"):
        cv = list(cv)
    block: list[np.ndarray] = []
    pairs: Any = None
    for i in range(n_permutations + 1):
        order = np.arange(n) if i == 0 else _permuted(n, groups, rng)
        new = pairs
        if cv is not None:
            y = labels.shuffled(order)
            classifier = task.indicator is not None
            new = validation.fold_pairs(cv, X, y, groups, task.kept, n, classifier=classifier)
        if block and (len(block) == size or not _same_pairs(pairs, new)):
            yield np.stack(block), None if cv is None else validation.folds_of(pairs, X)
            block = []
        pairs = new
        block.append(order)
    yield np.stack(block), None if cv is None else validation.folds_of(pairs, X)


def _permuted(n: int, groups: np.ndarray | None, rng: np.random.RandomState) -> np.ndarray:
    """An order as scikit-learn's function draws it."""
    if groups is None:
        return rng.permutation(n)
    order = np.arange(n)
    for group in np.unique(groups):
        inside = groups == group
        order[inside] = rng.permutation(order[inside])
    return order


def _same_pairs(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(
        np.array_equal(a, b)
        for p, q in zip(one, other, strict=True)
        for a, b in zip(p, q, strict=True)
    )
