"""Closed forms of scikit-learn's cross-validation functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import LeaveOneOut
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from fisherkit.core import Array, Fold, Ridge, arrays, decode, winners
from fisherkit.estimators import KernelFisherClassifier, KernelRidgeCV, inside, validation
from fisherkit.inference import Relabelled, relabel
from fisherkit.inspection import TaskLabels, metric_name, missing
from fisherkit.interfaces import CrossValidation, Seed
from fisherkit.rows import Task
from fisherkit.tuning import Decided, decide_rows, probabilities, shared_decomposer

__all__ = ["cross_val_predict", "learning_curve", "permutation_test_score"]

Model = KernelFisherClassifier | KernelRidgeCV
Pairs = list[tuple[np.ndarray, np.ndarray]]  # rows that train, rows that are tested

METHODS = ("predict", "decision_function", "predict_proba")


def cross_val_predict(
    estimator: Model,
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    cv: CrossValidation = None,
    method: str = "predict",
) -> Array:
    """Out-of-fold predictions in closed form: what refitting on each fold would give.

    One factorisation serves all folds. Within each fold probabilities are calibrated, or the logits
    of a softmax fitted, on leave-one-out scores of its training rows (nested closed form).

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
    (n,) or (n, n_outputs) for "predict", otherwise (n,) or (n, n_classes)
        In the order of the rows.

    Notes
    -----
    With the residual maker B of the fit to all rows (`KernelFisherClassifier`), the rows of a fold
    S of g rows are left out together by

    .. math:: (y - f_{(S)})_S = B_{SS}^{-1} (B y)_S .

    *Cost.* One factorisation, O(n^3) or O(n r^2), and O(g^2 (r + g)) for each fold; probabilities,
    and everything under ``multiclass="softmax"``, take O(n g (r + g)) and the fit of the slope or
    of the logits.

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
    _require_closed_form(estimator, "cross_val_predict")
    validation.one_of("method", method, METHODS)
    if not hasattr(estimator, method):
        raise AttributeError(f"{type(estimator).__name__} has no method {method!r}.")
    _require_numbers(estimator, "cross_val_predict")
    task = inside(clone(estimator)).task(X, y)
    gram = task.problem.design.gram
    n = gram.n
    pairs = _pairs(task, cv, y, groups)
    folds = validation.folds_of(pairs, gram.X)
    order = np.concatenate([test for _, test in pairs])
    if len(order) != n or len(np.unique(order)) != n:
        raise ValueError("cross_val_predict only works for partitions")
    ridge = task.tune().ridge
    indicator = None if task.indicator is None else task.indicator[:, :, None]
    fit = Relabelled.of(ridge, task.problem.Y[:, :, None], indicator)
    with _naming_missing_classes(task):
        parts = [_predictions(task, fit, fold, method) for fold in folds]
    xp = arrays.namespace(task.problem.Y)
    joined = xp.concat(parts, axis=0)
    joined = xp.take(joined, arrays.indices(np.argsort(order), joined), axis=0)
    if method == "predict" and task.rule is not None:
        return decode(task.classes, joined[:, 0])
    return joined[:, 0] if joined.shape[1] == 1 and task.flat else joined


def _pairs(task: Task, cv: CrossValidation, y: ArrayLike, groups: ArrayLike | None) -> Pairs:
    """The folds of ``cv``, or every row by itself."""
    gram = task.problem.design.gram
    splitter = LeaveOneOut() if cv is None else cv
    classifier = task.rule is not None
    return validation.fold_pairs(
        splitter, gram.X, y, groups, task.kept, gram.n, classifier=classifier
    )


@contextmanager
def _naming_missing_classes(task: Task) -> Iterator[None]:
    """A fold without training rows of a class is an error that names the class."""
    try:
        yield
    except relabel.MissingClassError as error:
        raise ValueError(missing(task, error.index)) from error


def _predictions(task: Task, fit: Relabelled, fold: Fold, method: str) -> Array:
    """Scores, decisions, class indices or probabilities of the tested rows of one fold."""
    decisions, decided = _fold_decisions(task, fit, fold, slope=method == "predict_proba")
    if task.rule is None or method == "decision_function":
        return decisions
    if method == "predict":
        return winners(decisions)[:, None]
    assert decided is not None
    return probabilities(decisions, decided.slope.value)


def _fold_decisions(
    task: Task, fit: Relabelled, fold: Fold, *, slope: bool = False
) -> tuple[Array, Decided | None]:
    """Decisions (tested, k) of a fold, and the decision stage of its training rows.

    That stage is found, on left-out scores of the training rows, where it makes the decisions, or
    if its ``slope`` is asked for.
    """
    rule = task.rule
    if rule is None:
        return fit.fold_decisions(fold, None)[:, :, 0], None
    nested = rule.of_scores is not rule
    decisions = fit.fold_decisions(fold, None if nested else rule)[:, :, 0]
    if not (nested or slope):
        return decisions, None
    ridge, xp = fit.ridge, arrays.namespace(fit.ridge.Y)
    remaining = np.setdiff1d(np.arange(ridge.Y.shape[0]), arrays.to_numpy(fold.removed))
    rest = arrays.indices(remaining, ridge.Y)
    inner, indicator = ridge.without(fold.removed, rest), xp.take(task.indicator, rest, axis=0)
    fit.require_classes(fold.removed)
    decided, _ = decide_rows(inner, rule, inner.weights.of_classes(indicator))
    return decided.decision(decisions) if nested else decisions, decided


def permutation_test_score(
    estimator: Model | Pipeline,
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    cv: CrossValidation = None,
    n_permutations: int = 100,
    random_state: Seed = 0,
    scoring: str | None = None,
    reselect: bool | str = "auto",
) -> tuple[float, np.ndarray, float]:
    """Is there a signal? The cross-validated score beside scores of permuted labels, no refits.

    The residual maker B does not depend on the labels: all permutations share one factorisation.
    The scores are those of refits, and for an integer seed the permutations are those of
    scikit-learn's function.

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
    Three and more classes under ``multiclass="softmax"`` are scored by the largest score, as under
    "ovr" (``threshold="balanced"``: score less class share): their logits would have to be fitted
    anew for each permutation. The scores are then those of refits under "ovr".

    *Guarantee.* If the rows are exchangeable given no dependence of y on X (within groups, if
    given), P(p <= a) <= a for every a, for any n. It needs every step that sees the labels to be
    repeated on the permuted ones. With numbers for the hyper-parameters there is no such step.
    With rules, ``reselect=True`` repeats the choice for every labelling, the true one included: the
    width among half octaves, from one decomposition for each, and mu to rounding; `fit` chooses
    close by. The score is the cross-validated one at that choice. It is optimistic as an estimate
    of performance, equally for true and permuted labels. ``reselect=False`` keeps the choice made
    on the true labels, which favours them: p-values are then too small.

    *Pooling.* With ``cv=None`` all scores are computed once over the left-out rows: a one-row fold
    has no AUC, r2 or balanced accuracy. Left-out scores carry the mean label of the rows trained
    on, which is the lower the higher the row's own label is. For "roc_auc" that mean is
    subtracted from each; without it the test would stay valid but lose power, as with much
    regularisation the mean alone ranks the classes in reverse. "leave_pair_out_auc" compares two
    rows by the model that has seen neither, and needs no such correction.

    *Cost.* One factorisation, O(n^3) or O(n r^2), and for each permutation a column of a matrix
    product, O(n r k), with folds as in `cross_val_predict`; "leave_pair_out_auc" takes O(n^2).
    ``reselect`` has one factorisation for each width, and tunes mu for each permutation.

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
    _require_closed_form(model, "permutation_test_score")
    _require_label_free(model)
    validation.positive("n_permutations", n_permutations)
    if not (isinstance(reselect, bool) or reselect == "auto"):
        raise ValueError(f"reselect={reselect!r} is not valid; use 'auto', True or False.")
    labels = TaskLabels.of(inside(model).task(X, y))
    metric = metric_name(scoring, labels, "permutation_test_score", pairs=True)
    if metric == relabel.PAIRS and cv is not None:
        raise ValueError("scoring='leave_pair_out_auc' leaves out every pair; use cv=None.")
    if cv is None and labels.task.labels is not None:
        counts = np.bincount(labels.values)
        if counts.min() < 2:
            raise ValueError(missing(labels.task, int(np.argmin(counts))))
    if groups is not None:
        groups = _checked_groups(groups, labels)
    task = labels.task
    rule = None if task.rule is None else task.rule.of_scores
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
            ridge = inside(model).task(X, labels.shuffled(orders[0])).tune(shared).ridge
        Y, indicator, index = labels.take(orders)
        relabelled = Relabelled.of(ridge, Y, indicator)
        with _naming_missing_classes(task):
            values.append(relabel.held_out_scores(relabelled, index, rule, folds, metric))
    score, *rest = np.concatenate(values)
    permuted = np.asarray(rest)
    at_least = np.sum(permuted >= score - 1e-12 * max(1.0, abs(score)))
    return float(score), permuted, float((at_least + 1.0) / (n_permutations + 1))


def learning_curve(
    estimator: Model | Pipeline,
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    train_sizes: ArrayLike = (0.1, 0.325, 0.55, 0.775, 1.0),
    cv: CrossValidation = 5,
    scoring: str | None = None,
    shuffle: bool = True,
    random_state: Seed = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores against the number of training rows, without refits.

    Training on a part of the rows is leaving out the others (formula of `cross_val_predict`): one
    factorisation serves all sizes and folds. Under the same ``cv``, ``shuffle`` and seed the
    scores are those of scikit-learn's function.

    Parameters
    ----------
    estimator : KernelFisherClassifier or KernelRidgeCV, or a Pipeline that ends in one
        With numbers for all hyper-parameters that its kernel uses: they stay fixed, mu in absolute
        terms. Steps before the last are fitted once, on all rows, without labels.
    X : (n, d), or (n, n) for a precomputed kernel
    y : (n,), or (n, n_outputs) for a regression
    groups : (n,), default=None
        For group splitters.
    train_sizes : sequence of float or int, default=(0.1, 0.325, 0.55, 0.775, 1.0)
        Shares of the largest training set, or numbers of rows.
    cv : int, splitter or iterable of (train, test), default=5
        The rows tested, the same for all sizes; the first rows of each training part are used.
        ``None`` is leave-one-out.
    scoring : str, default=None
        "accuracy" (default of classifiers), "balanced_accuracy", "roc_auc" (two classes) or "r2"
        (default of regressors).
    shuffle : bool, default=True
        Whether training parts are drawn at random.
    random_state : int, RandomState or None, default=0

    Returns
    -------
    train_sizes_abs : (n_sizes,)
    train_scores, test_scores : (n_sizes, n_folds)

    Notes
    -----
    *Cost.* One factorisation, O(n^3) or O(n r^2), and O(n g (r + g)) for every g rows left out.

    Exact for the rkhs penalty with every row a centre. For the coefficients penalty, and for a
    chosen basis, it is conditional on the centres: they stay in place when their row is left out.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.model_selection import learning_curve
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelFisherClassifier(gamma=0.2, regularization=0.1)
    >>> sizes, train_scores, test_scores = learning_curve(model, X, y, train_sizes=(30, 120))
    >>> test_scores.shape, bool(test_scores[1].mean() > 0.95)
    ((2, 5), True)
    """
    model, X = validation.label_free(estimator, X)
    _require_closed_form(model, "learning_curve")
    _require_numbers(model, "learning_curve")
    task = inside(model).task(X, y)
    labels = TaskLabels.of(task)
    metric = metric_name(scoring, labels, "learning_curve", pairs=False)
    rows, n = task.problem.design.gram.X, len(labels.values)
    identity = np.arange(n)
    pairs = _pairs(task, cv, labels.shuffled(identity), groups)
    sizes = validation.train_sizes(train_sizes, len(pairs[0][0]))
    if shuffle:
        rng = check_random_state(random_state)
        pairs = [(rng.permutation(train), test) for train, test in pairs]
    ridge = task.tune().ridge
    Y, indicator, index = labels.take(identity[None, :])
    fit, truth = Relabelled.of(ridge, Y, indicator), Y if index is None else index
    xp = arrays.namespace(Y)
    train_scores, test_scores = np.empty((2, len(sizes), len(pairs)))
    for i, size in enumerate(sizes):
        parts = [(train[:size], test) for train, test in pairs]
        for j, fold in enumerate(validation.folds_of(parts, rows)):
            used = arrays.indices(np.sort(parts[j][0]), rows)
            with _naming_missing_classes(task):
                decisions, decided = _fold_decisions(task, fit, fold)
            tested = xp.take(fold.removed, fold.tested, axis=0)
            test_scores[i, j] = relabel.score(metric, truth, tested, decisions)
            decisions = _training_decisions(task, ridge, fold.removed, used, decided)
            train_scores[i, j] = relabel.score(metric, truth, used, decisions)
    return sizes, train_scores, test_scores


def _training_decisions(
    task: Task, ridge: Ridge, removed: Array, used: Array, decided: Decided | None
) -> Array:
    """Decisions on the rows trained on, by the model without the removed ones; or scores."""
    fit = ridge.without(removed, used)
    scores = fit.Y - fit.residual
    if task.rule is None:
        return scores
    if decided is not None:
        return decided.decision(scores)
    indicator = arrays.namespace(ridge.Y).take(task.indicator, used, axis=0)
    return task.rule.decide(scores, fit.weights.of_classes(indicator).v, fit.scatter)


def _require_closed_form(model: Model, caller: str) -> None:
    if not isinstance(model, (KernelFisherClassifier, KernelRidgeCV)):
        raise TypeError(
            f"{caller} has closed forms for KernelFisherClassifier and KernelRidgeCV; got "
            f"{type(model).__name__}. Use sklearn.model_selection.{caller}."
        )
    if isinstance(model.basis, str) and model.basis == "greedy":
        raise ValueError(
            "basis='greedy' chooses centres by the labels of all rows, the held-out ones included, "
            "which has no closed form. Use basis='pivoted', or "
            f"sklearn.model_selection.{caller}, which chooses anew in each fit."
        )


def _require_numbers(model: Model, caller: str) -> None:
    """Refuse hyper-parameters and weights that each fold would find anew."""
    rules = inside(model).rules()
    if rules:
        raise ValueError(
            f"{', '.join(rules)} would be chosen on all rows, the held-out ones included, and the "
            "predictions would leak. Give a number, or use "
            f"sklearn.model_selection.{caller}, which chooses anew in each fold."
        )
    if getattr(model, "class_weight", None) == "balanced":
        raise ValueError(
            "class_weight='balanced' weighs the rows anew in each fold, which has no closed form. "
            f"Give the weights as a dict, or use sklearn.model_selection.{caller}."
        )


def _require_label_free(model: Model) -> None:
    """Refuse models whose residual maker depends on the labels."""
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


def _checked_groups(groups: ArrayLike, labels: TaskLabels) -> np.ndarray:
    groups = np.asarray(arrays.to_numpy(groups))
    n = len(labels.values)
    if groups.shape != (n,):
        raise ValueError(f"groups has shape {groups.shape} for {n} rows of X; use ({n},).")
    for group in np.unique(groups).tolist():
        members = labels.values[groups == group]
        if labels.task.labels is not None and len(np.unique(members)) < 2:
            label = arrays.to_numpy(labels.task.classes).tolist()[members[0]]
            raise ValueError(
                f"groups: group {group!r} has rows of one class only ({label!r}), which permuting "
                "within groups never changes. Leave the group out, or merge it with another."
            )
    return groups


def _blocks(
    labels: TaskLabels,
    cv: CrossValidation,
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
    pairs: Pairs | None = None
    for i in range(n_permutations + 1):
        order = np.arange(n) if i == 0 else _permuted(n, groups, rng)
        new = pairs
        if cv is not None:
            new = _pairs(task, cv, labels.shuffled(order), groups)
        if block and (len(block) == size or not _same_pairs(pairs, new)):
            yield np.stack(block), None if pairs is None else validation.folds_of(pairs, X)
            block = []
        pairs = new
        block.append(order)
    yield np.stack(block), None if pairs is None else validation.folds_of(pairs, X)


def _permuted(n: int, groups: np.ndarray | None, rng: np.random.RandomState) -> np.ndarray:
    """An order as scikit-learn's function draws it."""
    if groups is None:
        return rng.permutation(n)
    order = np.arange(n)
    for group in np.unique(groups):
        inside = groups == group
        order[inside] = rng.permutation(order[inside])
    return order


def _same_pairs(one: Pairs | None, other: Pairs | None) -> bool:
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(
        np.array_equal(a, b)
        for p, q in zip(one, other, strict=True)
        for a, b in zip(p, q, strict=True)
    )
