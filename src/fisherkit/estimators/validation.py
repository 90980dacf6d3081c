"""The friendly shell: what users pass is checked here, once, and becomes what the core expects."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import PredefinedSplit, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import compute_class_weight, get_tags

from fisherkit.core import (
    BIASES,
    LARGEST,
    Array,
    Bias,
    Fold,
    Weights,
    arrays,
)
from fisherkit.tuning import HeldOut, log

_SCALE_RATIO = 1e3
_WEIGHTS = (1e-50, 1e15)  # where one row more or less is rounding, there is no leave-one-out
_SMALLEST = 1e-150  # spread of targets whose square is one, with digits


def one_of(name: str, value: Any, valid: Collection[str], also: str = "") -> str:
    """``value`` if it is a valid word, an error that lists the valid ones otherwise."""
    if isinstance(value, str) and value in valid:
        return value
    options = ", ".join(repr(v) for v in valid)
    raise ValueError(f"{name}={value!r} is not valid; use one of {options}{also}.")


def bias(name: Any) -> Bias:
    """What the bias of this name does."""
    return BIASES[one_of("bias", name, BIASES)]


def number(name: str, value: Any, least: float = -np.inf) -> float:
    """``value`` if it is a finite number, and not below the least one."""
    if _real(value) and np.isfinite(float(value)) and float(value) >= least:
        return float(value)
    bound = f" of at least {least:g}" if np.isfinite(least) else ""
    raise ValueError(f"{name}={value!r} is not valid; use a finite number{bound}.")


def flag(name: str, value: Any) -> bool:
    """``value`` if it is True or False: any other value would count as one of them unsaid."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ValueError(f"{name}={value!r} is not valid; use True or False.")


def kernel_arguments(params: Any, kernels: Sequence[Any]) -> dict[str, Any]:
    """The extra arguments of callable kernels; without such a kernel there is no use for any."""
    if params is None:
        return {}
    if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
        raise ValueError(
            f"kernel_params={params!r} is not valid; use None, or a dict from names of arguments "
            "to their values."
        )
    named = [kernel for kernel in kernels if not callable(kernel)]
    if params and len(named) == len(kernels):
        raise ValueError(
            f"kernel_params={dict(params)!r} are arguments for a callable kernel, and "
            f"{', '.join(map(repr, named))} is none. Kernels given by name take gamma, degree and "
            "coef0, which are parameters of their own; leave kernel_params at None."
        )
    return dict(params)


def _real(value: Any) -> bool:
    """Whether it is a number; truth values, which Python counts among them, are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def number_or_rule(name: str, value: Any, rules: Sequence[str]) -> float | None:
    """The positive number given, or ``None`` for a rule."""
    if isinstance(value, str):
        one_of(name, value, rules, also=" or a positive number")
        return None
    if not _real(value) or not 0 < float(value) < np.inf:
        options = ", ".join(repr(v) for v in rules)
        raise ValueError(f"{name}={value!r} is not valid; use {options} or a positive number.")
    return float(value)


def fraction(name: str, value: Any) -> float:
    """A number from 0 to below 1."""
    if not _real(value) or not 0 <= float(value) < 1:
        raise ValueError(f"{name}={value!r} is not valid; use a number of at least 0 and below 1.")
    return float(value)


def gamma_lists(name: str, value: Any, n_kernels: int) -> list[tuple[float, ...]] | None:
    """The widths of each kernel: one list for all of them, one for each, or ``None``."""
    if value is None:
        return None
    hint = "use None, a sequence of positive numbers, or one such sequence for each kernel."
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{name}={value!r} is not valid; {hint}")
    lists = list(value)
    if not any(isinstance(entry, Iterable) for entry in lists):
        lists = [lists] * n_kernels
    if len(lists) != n_kernels:
        raise ValueError(f"{name} has {len(lists)} sequences for {n_kernels} kernels; {hint}")
    for entry in lists:
        numbers = isinstance(entry, Iterable) and not isinstance(entry, str) and list(entry)
        if not numbers or not all(_real(g) and 0 < float(g) < np.inf for g in numbers):
            raise ValueError(f"{name}={value!r} is not valid; {hint}")
        if len({float(g) for g in numbers}) < len(numbers):
            raise ValueError(f"{name}={value!r} names a width twice; each must appear once.")
    return [tuple(float(g) for g in entry) for entry in lists]


def positive(name: str, value: Any, also: str = "") -> int:
    """A positive integer."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name}={value!r} is not valid; use {also}an integer >= 1.")
    return int(value)


def count(name: str, value: Any) -> int | None:
    """A positive integer, or ``None``."""
    return None if value is None else positive(name, value, also="None or ")


def confidence(value: Any) -> float:
    """A confidence, strictly between 0 and 1."""
    if isinstance(value, Real) and 0 < float(value) < 1:
        return float(value)
    raise ValueError(f"confidence={value!r} is not valid; use a number between 0 and 1, as 0.9.")


def train_sizes(value: Any, largest: int) -> np.ndarray:
    """Numbers of training rows, from shares of the largest training set or numbers; increasing."""
    sizes = np.asarray(value)
    shares = sizes.dtype.kind == "f"
    valid = sizes.ndim == 1 and sizes.size and sizes.dtype.kind in "iuf"
    if not valid or sizes.min() <= 0 or sizes.max() > (1 if shares else largest):
        raise ValueError(
            f"train_sizes={value!r} is not valid; use shares in (0, 1] or numbers of rows from 1 "
            f"to {largest}, the rows of the largest training set."
        )
    return np.unique(np.maximum((sizes * largest).astype(int), 1) if shares else sizes)


def label_free(estimator: Any, X: Any) -> tuple[Any, Any]:
    """A copy of the last step of a pipeline, and X after the steps before it, fitted without y.

    Steps that use labels are refused: every relabelling or left-out row would need them anew.
    Anything but a pipeline is copied, and X is returned as it is.
    """
    if not isinstance(estimator, Pipeline):
        return clone(estimator), X
    for name, step in estimator.steps[:-1]:
        if step is None or step == "passthrough":
            continue
        reason = "it is fitted to labels"
        if not get_tags(step).target_tags.required:
            try:
                X = clone(step).fit_transform(X)
                continue
            except (TypeError, ValueError) as error:
                reason = f"without labels it fails ({error})"
        raise ValueError(
            f"Pipeline step {name!r} ({type(step).__name__}) has no closed form: {reason}, and "
            "steps before the last are fitted once, on all rows, without labels. Leave it out, or "
            "use the function of sklearn.model_selection, which refits."
        )
    return clone(estimator.steps[-1][1]), X


def several_classes(model: Any, classes: Any) -> None:
    """Refuse labels of one class only."""
    if classes.shape[0] < 2:
        raise ValueError(
            f"{type(model).__name__} needs at least two classes in y among the rows of "
            f"positive weight; got only one class: {classes[0]!r}."
        )


def component_count(value: Any, n: int) -> int | None:
    """Number of centres, at most n."""
    m = count("n_components", value)
    if m is not None and m > n:
        raise ValueError(f"n_components={m} is more than the {n} training rows of positive weight.")
    return m


def centre_rows(value: Any, kept: np.ndarray, n: int) -> np.ndarray:
    """Positions, among the kept rows, of the training rows that the user named as centres."""
    rows = np.asarray(arrays.to_numpy(value))
    if rows.ndim != 1 or rows.size == 0 or not np.issubdtype(rows.dtype, np.integer):
        raise ValueError(
            "basis given as an array must be a non-empty 1-d array of integer row indices; got "
            f"shape {rows.shape} and dtype {rows.dtype}."
        )
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(
            f"basis contains row {rows.min() if rows.min() < 0 else rows.max()}, outside the "
            f"{n} training rows."
        )
    if len(np.unique(rows)) < len(rows):
        raise ValueError("basis names a row twice; each centre must appear once.")
    position = np.full(n, -1)
    position[kept] = np.arange(len(kept))
    if np.any(position[rows] < 0):
        row = rows[position[rows] < 0][0]
        raise ValueError(f"basis names row {row}, whose sample_weight is 0.")
    return position[rows]


def precomputed(K: Array, rounding: float) -> None:
    """Refuse a kernel matrix that is not square or not symmetric."""
    xp = arrays.namespace(K)
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square matrix of kernel values; got shape {K.shape}."
        )
    largest = max(abs(float(xp.max(K))), abs(float(xp.min(K))))
    gap = max(
        float(xp.max(xp.abs(K[rows, :] - K[:, rows].T))) for rows in arrays.row_blocks(*K.shape)
    )
    if gap > max(1e-8, 10 * rounding) * largest:
        raise ValueError(
            "kernel='precomputed' needs a symmetric matrix; K and its transpose differ by up to "
            f"{gap:.3g} where the largest value is {largest:.3g}. Use (K + K.T) / 2 if this is "
            "rounding."
        )


def squares(name: str, values: Array) -> None:
    """Refuse numbers whose squares overflow."""
    xp = arrays.namespace(values)
    largest = max(abs(float(xp.max(values))), abs(float(xp.min(values))))
    if largest > LARGEST:
        raise ValueError(
            f"{name} has values of size {largest:.3g}, whose squares overflow. Scale {name}, for "
            "example with sklearn.preprocessing.StandardScaler."
        )


def targets(Y: Array) -> None:
    """Refuse targets Y (n, k) whose squares overflow, or whose spread has none."""
    xp = arrays.namespace(Y)
    squares("y", Y)
    spread = float(xp.max(xp.max(Y, axis=0) - xp.min(Y, axis=0)))
    if 0 < spread < _SMALLEST:
        raise ValueError(
            f"The targets y differ by no more than {spread:.3g}, whose square is not a number "
            "with digits. Scale y, for example with sklearn.preprocessing.StandardScaler."
        )


def frequencies(sample_weight: Any, X: Array) -> tuple[Array, np.ndarray]:
    """Sample weights beside X, and the rows where they are positive."""
    xp = arrays.namespace(X)
    n = X.shape[0]
    if sample_weight is None:
        return xp.ones_like(X[:, 0]), np.arange(n)
    weight = np.asarray(arrays.to_numpy(sample_weight), dtype=np.float64)
    weight = np.full(n, float(weight)) if weight.ndim == 0 else weight
    if weight.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar; got shape {weight.shape}.")
    if len(weight) != n:
        raise ValueError(
            f"sample_weight.shape == {weight.shape}, expected ({n},): one weight per row of X."
        )
    if not np.all(np.isfinite(weight)):
        raise ValueError("sample_weight contains NaN or infinity.")
    if np.any(weight < 0):
        raise ValueError(
            f"sample_weight must not be negative; its smallest value is {weight.min():g}."
        )
    if not np.any(weight > 0):
        raise ValueError("sample_weight: all weights are zero; two rows must have a positive one.")
    if np.count_nonzero(weight) < 2:
        raise ValueError("sample_weight leaves only one sample with positive weight; 2 are needed.")
    within_range("sample_weight", weight[weight > 0])
    return arrays.like(weight, X), np.flatnonzero(weight > 0)


def within_range(name: str, weight: np.ndarray) -> None:
    """Refuse positive weights of which one row has too many or too little."""
    lowest, highest = _WEIGHTS
    for value in (weight.min(), weight.max()):
        if not lowest <= value <= highest:
            raise ValueError(
                f"{name} has the value {value:.3g}, which is not between {lowest:.0e} and "
                f"{highest:.0e}: beyond, one row more or less is lost in rounding. Scale the "
                "weights, for example to a mean of one."
            )


def class_costs(class_weight: Any, classes: Any, index: Array, frequency: Array) -> Array:
    """Cost of each row from its class; "balanced" counts rows by their frequency."""
    xp = arrays.namespace(frequency)
    if class_weight is None:
        return xp.ones_like(frequency)
    labels = arrays.to_numpy(classes)
    host = arrays.to_numpy(index)
    if isinstance(class_weight, str):
        one_of("class_weight", class_weight, ("balanced",), also=", a dict or None")
        counts = np.bincount(host, weights=arrays.to_numpy(frequency), minlength=len(labels))
        per_class = counts.sum() / (len(labels) * counts)
    else:
        per_class = compute_class_weight(class_weight, classes=labels, y=labels[host])
    if not np.all(np.isfinite(per_class)) or np.any(per_class <= 0):
        raise ValueError(f"class_weight={class_weight!r} is not valid; costs must be positive.")
    within_range("class_weight", per_class)
    return arrays.like(per_class[host], frequency)


def fold_pairs(
    cv: Any, X: Array, y: Any, groups: Any, kept: np.ndarray, n: int, *, classifier: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test positions among the kept rows, of the folds that test any.

    Splitters see the kept rows; an iterable of index pairs, or a predefined split, names rows of
    the original data.
    """
    if isinstance(cv, PredefinedSplit):
        if len(cv.test_fold) != n:
            raise ValueError(f"cv: test_fold has {len(cv.test_fold)} entries for {n} rows of X.")
        pairs = _kept_pairs(cv.split(), kept, n)
    elif isinstance(cv, Iterable) and not hasattr(cv, "split") and not isinstance(cv, str):
        pairs = _kept_pairs(cv, kept, n)
    else:
        if isinstance(cv, (int, np.integer)) and cv > len(kept):
            raise ValueError(
                f"cv={cv} folds need at least as many rows of positive weight; got {len(kept)}."
            )
        kept_groups = None
        if groups is not None:
            kept_groups = np.asarray(arrays.to_numpy(groups))
            if len(kept_groups) != n:
                raise ValueError(f"groups has {len(kept_groups)} entries for {n} rows of X.")
            kept_groups = kept_groups[kept]
        labels = None if y is None else arrays.to_numpy(y)
        splitter = check_cv(cv, labels, classifier=classifier)
        pairs = list(splitter.split(arrays.to_numpy(X), labels, kept_groups))
    for k, (train, test) in enumerate(pairs):
        if len(np.intersect1d(train, test)):
            raise ValueError(f"cv: fold {k} tests rows that it also trains on.")
        if len(train) == 0:
            raise ValueError(f"cv: fold {k} has no rows to train on.")
        if len(np.unique(train)) < len(train):
            raise ValueError(
                f"cv: fold {k} trains on a row more than once, which has no closed form: folds "
                "leave rows out. Say how often rows count by sample_weight."
            )
    pairs = [pair for pair in pairs if len(pair[1])]
    if not pairs:
        raise ValueError("cv: no fold tests any row.")
    return pairs


def _kept_pairs(
    pairs: Iterable[Any], kept: np.ndarray, n: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of positions among n rows as positions among those that are kept."""
    position = np.full(n, -1)
    position[kept] = np.arange(len(kept))
    found = []
    for k, pair in enumerate(pairs):
        try:
            train, test = (position[np.arange(n)[rows]] for rows in pair)
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"cv: fold {k} is {reprlib.repr(pair)}, not a pair (train, test) of positions "
                f"among the {n} rows: {error}."
            ) from error
        found.append((train[train >= 0], test[test >= 0]))
    return found


def folds_of(pairs: list[tuple[np.ndarray, np.ndarray]], X: Array) -> list[Fold]:
    """What a fold does not train on is removed; what it tests is part of that."""
    folds = []
    for train, test in pairs:
        removed = np.setdiff1d(np.arange(X.shape[0]), train)
        where = np.searchsorted(removed, test)
        folds.append(Fold(arrays.indices(removed, X), arrays.indices(where, X)))
    return folds


def held_out(
    Y: Array, labels: Any, weights: Weights, folds: list[Fold] | None, *, balanced: bool
) -> HeldOut:
    """What the criterion sees: every row once (leave-one-out), or the tested rows of the folds."""
    xp = arrays.namespace(Y)
    if folds is None:
        return HeldOut.leave_one_out(Y, weights, balanced=balanced, labels=labels)
    total = xp.sum(weights.v[:, None] * Y, axis=0)
    tested, means = [], []
    for fold in folds:
        v = xp.take(weights.v, fold.removed, axis=0)
        gone = xp.sum(v[:, None] * xp.take(Y, fold.removed, axis=0), axis=0)
        mean = (total - gone) / (weights.mass - float(xp.sum(v)))
        tested.append(xp.take(fold.removed, fold.tested, axis=0))
        means.append(mean[None, :] + xp.zeros_like(xp.take(Y, tested[-1], axis=0)))
    rows, mean = xp.concat(tested, axis=0), xp.concat(means, axis=0)
    threshold = mean if balanced else xp.zeros_like(mean)
    if labels is not None:
        labels = arrays.to_numpy(labels)[arrays.to_numpy(rows)]
    weight = xp.take(weights.v, rows, axis=0)
    return HeldOut(xp.take(Y, rows, axis=0), mean, threshold, weight, folds, labels)


def mention_scales(X: Array) -> None:
    """Log a line when feature scales differ so much that a scaler is likely missing."""
    xp = arrays.namespace(X)
    mention_spreads(arrays.to_numpy(xp.max(X, axis=0) - xp.min(X, axis=0)))


def mention_spreads(spread: np.ndarray) -> None:
    """`mention_scales` for the ranges (d,) of the features."""
    spread = spread[spread > 0]
    if len(spread) and spread.max() > _SCALE_RATIO * spread.min():
        log.info(
            "feature scales differ by a factor of %.3g; estimators do not scale features, put "
            "a StandardScaler in front",
            spread.max() / spread.min(),
        )


def nothing_retained(rho: float, distinct: int) -> str:
    """Why a model has no terms, as far as it is known."""
    said = f"No term is retained at rho={rho:g}: the model is constant."
    if distinct == 1:
        return f"{said} All rows of X are equal, so that no rho would retain any."
    return (
        f"{said} Use a smaller rho, or rho='cv'; if that retains none either, the rows of X do not "
        "tell the classes apart."
    )
