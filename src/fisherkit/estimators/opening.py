"""From what users pass to rows of positive weight, in memory, in blocks or on Dask workers."""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from fisherkit.core import Array, Labels, Weights, arrays
from fisherkit.estimators import validation
from fisherkit.interfaces import ClassWeight, Container, Frame, MemoryLimit
from fisherkit.rows import (
    Basis,
    BlockRows,
    Budget,
    Collection,
    DaskRows,
    LocalRows,
    MemoryRows,
    Plan,
    frequencies,
    labels_of,
    memory_budget,
    mention_spreads,
    open_dask,
    reference_of,
    refusal,
    require_number_columns,
    squarable,
    target_range,
)


class Model(Protocol):
    """What is asked of an estimator whose rows are opened."""

    max_memory: MemoryLimit

    @property
    def _pairwise(self) -> bool: ...

    def _basis(self) -> Basis: ...

    def _needs_every_row(self) -> str | None: ...


def in_memory(
    model: Model,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    plan: Plan,
    class_weight: ClassWeight = None,
) -> MemoryRows:
    """Rows that are validated, all at once; the plan may still be to take sums over blocks."""
    if hasattr(X, "toarray") and hasattr(model, "max_memory"):  # sparse rows that memory holds
        X = X.toarray()
    elif hasattr(X, "to_numpy") and not hasattr(X, "columns"):
        X = X.to_numpy()
    classifier = is_classifier(model)
    options = {} if classifier else {"multi_output": True, "y_numeric": True}
    given, targets = validate_data(
        model, X, y, dtype=arrays.float_dtypes(X), ensure_min_samples=2, **options
    )
    rounding, x, n = arrays.eps(given), arrays.widen(given), given.shape[0]
    pairwise = model._pairwise
    if pairwise:
        validation.precomputed(x, rounding)
    else:
        xp = arrays.namespace(x)
        mention_spreads(arrays.to_numpy(xp.max(x, axis=0) - xp.min(x, axis=0)))
    if classifier:
        check_classification_targets(targets)
    frequency, kept = frequencies(sample_weight, n, x)
    x, dropped = split_rows(x, kept, pairwise=pairwise)
    if not pairwise:
        squarable("X", x)
    targets = take_rows(targets, kept)
    Y, labels, weights = _targets(model, targets, take_rows(frequency, kept), class_weight)
    return MemoryRows(
        X=x,
        Y=Y,
        weights=weights,
        labels=labels,
        flat=labels.n_classes == 2 if labels else len(targets.shape) == 1,
        rounding=rounding,
        n=n,
        kept=kept,
        dropped=dropped,
        plan=plan,
        budget=Budget(memory_budget(model.max_memory, x) if plan.streamed else 0),
    )


def in_blocks(
    model: Model,
    X: Container,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    plan: Plan,
    class_weight: ClassWeight = None,
) -> BlockRows:
    """Rows of any container, of which nothing but the shape is read yet."""
    validate_data(model, X, skip_check_array=True)
    if hasattr(X, "columns"):
        require_number_columns(cast("Frame", X), "X")
    X, reference, n = X.tocsr() if hasattr(X, "tocsr") else X, reference_of(X), X.shape[0]
    targets = _checked_targets(X, y, classifier=is_classifier(model))
    frequency, kept = frequencies(sample_weight, n, reference)
    flat = len(targets.shape) == 1
    targets = take_rows(targets, kept)
    Y, labels, weights = _targets(model, targets, take_rows(frequency, kept), class_weight)
    budget = Budget(memory_budget(model.max_memory, Y))
    rows = LocalRows(X, _spread(Y, kept, n), frequency, _spread(weights.cost, kept, n), budget)
    return BlockRows(rows, plan, labels, labels.n_classes == 2 if labels else flat, kept)


def on_dask(
    model: Model,
    X: Collection,
    y: Collection | ArrayLike,
    sample_weight: Collection | ArrayLike | None,
    class_weight: ClassWeight = None,
) -> DaskRows:
    """Rows of a Dask collection, whose targets are looked at where they are."""
    whole = model._needs_every_row()
    if whole:
        raise ValueError(refusal(whole, "X is a Dask collection"))
    if model._pairwise or getattr(model, "ard", False):
        raise ValueError("kernel='precomputed' and ard=True need all rows at once: no Dask input.")
    return open_dask(
        X,
        y,
        sample_weight,
        basis=model._basis(),
        max_memory=model.max_memory,
        estimator=type(model).__name__,
        classifier=is_classifier(model),
        class_weight=class_weight,
    )


def _targets(
    model: Model, y: Array, frequency: Array, class_weight: ClassWeight
) -> tuple[Array, Labels | None, Weights]:
    """Targets Y (n, k) of rows of positive weight, their labels if they have any, and weights."""
    xp = arrays.namespace(frequency)
    if is_classifier(model):
        labels = labels_of(type(model).__name__, y, frequency, class_weight)
        return labels.codes, labels, labels.weights
    y = arrays.like(y, frequency)
    Y = xp.reshape(y, (y.shape[0], -1))
    target_range(Y)
    return Y, None, Weights(frequency, xp.ones_like(frequency))


def _checked_targets(X: Container, y: ArrayLike, *, classifier: bool) -> Array:
    """y of any container, as long as X; nothing of X is read but its shape."""
    targets: Array = y if arrays.is_array_api(y) else np.asarray(y)
    if classifier:
        if arrays.is_numpy(targets):
            targets = column_or_1d(targets, warn=True)
            if targets.dtype.kind == "f":
                assert_all_finite(targets, input_name="y")
        check_classification_targets(targets)
    elif arrays.is_numpy(targets):
        targets = check_array(targets, ensure_2d=False, dtype="numeric", input_name="y")
    check_consistent_length(X, targets)
    if X.shape[0] < 2:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) (shape={X.shape}) while a minimum of 2 is "
            "required."
        )
    return targets


def _spread(values: Array, kept: np.ndarray, n: int) -> Array:
    """Values of the kept rows at their places among n, zeros between them."""
    if len(kept) == n:
        return values
    out = np.zeros((n, *values.shape[1:]))
    out[kept] = arrays.to_numpy(values)
    return arrays.like(out, values)


def take_rows(values: Array, kept: np.ndarray) -> Array:
    """Rows ``kept`` of an array of any namespace."""
    if len(kept) == values.shape[0]:
        return values
    rows = kept if arrays.is_numpy(values) else arrays.indices(kept, values)
    return arrays.take_rows(values, rows)


def split_rows(X: Array, kept: np.ndarray, *, pairwise: bool) -> tuple[Array, Array | None]:
    """Rows of positive weight, and the others (``None`` if there are none)."""
    if len(kept) == X.shape[0]:
        return X, None
    dropped = take_rows(X, np.setdiff1d(np.arange(X.shape[0]), kept))
    X = take_rows(X, kept)
    if pairwise:
        X = arrays.namespace(X).take(X, arrays.indices(kept, X), axis=1)
    return X, dropped
