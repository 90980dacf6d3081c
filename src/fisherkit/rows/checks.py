"""What users pass is checked, and numbers that overflow: targets, labels, weights, coefficients."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import compute_class_weight

from fisherkit.core import LARGEST, Array, Labels, Weights, arrays, encode
from fisherkit.interfaces import ClassWeight
from fisherkit.tuning import log

_WEIGHTS = (1e-50, 1e15)  # where one row more or less is rounding, there is no leave-one-out
_SCALE_RATIO = 1e3  # of the ranges of features
_SMALLEST = 1e-150  # spread of targets whose square is one, with digits


def labels_of(name: str, y: Array, frequency: Array, class_weight: ClassWeight) -> Labels:
    """The labels of rows of positive weight; ``name`` is that of the estimator."""
    classes, index = encode(y, frequency)
    several_classes(name, classes)
    host = arrays.to_numpy(index)
    costs = class_costs(class_weight, classes, np.bincount(host, arrays.to_numpy(frequency)))
    return Labels(classes, index, Weights(frequency, arrays.like(costs[host], frequency)))


def several_classes(name: str, classes: Array) -> None:
    """Refuse labels of one class only."""
    if classes.shape[0] < 2:
        raise ValueError(
            f"{name} needs at least two classes in y among the rows of positive weight; got only "
            f"one class: {classes[0]!r}."
        )


def class_costs(class_weight: ClassWeight, classes: Array, copies: np.ndarray) -> np.ndarray:
    """The cost of each class; "balanced" counts the copies (c,) of its rows."""
    if class_weight is None:
        return np.ones(len(copies))
    labels = arrays.to_numpy(classes)
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                f"class_weight={class_weight!r} is not valid; use one of 'balanced', a dict or "
                "None."
            )
        costs = copies.sum() / (len(labels) * copies)
    else:
        costs = compute_class_weight(class_weight, classes=labels, y=labels)
    if not np.all(np.isfinite(costs)) or np.any(costs <= 0):
        raise ValueError(f"class_weight={class_weight!r} is not valid; costs must be positive.")
    weights_in_range("class_weight", costs)
    return np.asarray(costs)


def frequencies(
    sample_weight: ArrayLike | None, n: int, reference: Array
) -> tuple[Array, np.ndarray]:
    """Sample weights of n rows beside the reference, and the rows where they are positive."""
    if sample_weight is None:
        return arrays.like(np.ones(n), reference), np.arange(n)
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
    weights_in_range("sample_weight", weight[weight > 0])
    return arrays.like(weight, reference), np.flatnonzero(weight > 0)


def weights_in_range(name: str, weight: np.ndarray) -> None:
    """Refuse positive weights of which one row has too many or too little."""
    lowest, highest = _WEIGHTS
    for value in (weight.min(), weight.max()):
        if not lowest <= value <= highest:
            raise ValueError(
                f"{name} has the value {value:.3g}, which is not between {lowest:.0e} and "
                f"{highest:.0e}: beyond, one row more or less is lost in rounding. Scale the "
                "weights, for example to a mean of one."
            )


def squarable(name: str, values: Array) -> None:
    """Refuse numbers whose squares overflow."""
    xp = arrays.namespace(values)
    largest = max(abs(float(xp.max(values))), abs(float(xp.min(values))))
    if largest > LARGEST:
        raise ValueError(
            f"{name} has values of size {largest:.3g}, whose squares overflow. Scale {name}, for "
            "example with sklearn.preprocessing.StandardScaler."
        )


def target_range(Y: Array) -> None:
    """Refuse targets Y (n, k) whose squares overflow, or whose spread has none."""
    xp = arrays.namespace(Y)
    squarable("y", Y)
    spread = float(xp.max(xp.max(Y, axis=0) - xp.min(Y, axis=0)))
    if 0 < spread < _SMALLEST:
        raise ValueError(
            f"The targets y differ by no more than {spread:.3g}, whose square is not a number "
            "with digits. Scale y, for example with sklearn.preprocessing.StandardScaler."
        )


def mention_spreads(spread: np.ndarray) -> None:
    """Log a line when the ranges (d,) of the features say that a scaler is likely missing."""
    spread = spread[spread > 0]
    if len(spread) and spread.max() > _SCALE_RATIO * spread.min():
        log.info(
            "the scales of the features differ by a factor of %.3g; estimators do not scale "
            "features: put a StandardScaler in front",
            spread.max() / spread.min(),
        )


def require_finite_model(coef: Array, intercept: Array) -> None:
    """Refuse coefficients that overflow: the model would predict nothing."""
    xp = arrays.namespace(coef)
    if not (bool(xp.all(xp.isfinite(coef))) and bool(xp.all(xp.isfinite(intercept)))):
        raise ValueError(
            "The coefficients of the model overflow: targets or weights are too large for kernel "
            "values as small as these. Scale X and y, for example with "
            "sklearn.preprocessing.StandardScaler."
        )


def component_count(m: int | None, n: int) -> None:
    """Refuse more centres than there are rows."""
    if m is not None and m > n:
        raise ValueError(f"n_components={m} is more than the {n} training rows of positive weight.")


def centre_rows(value: ArrayLike, kept: np.ndarray, n: int) -> np.ndarray:
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
