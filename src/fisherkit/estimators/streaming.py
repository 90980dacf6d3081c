"""Fits on row blocks, from what users pass to what `fisherkit.rows.planning` expects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from fisherkit.committee import LocalScores, Pricing, fit_committee
from fisherkit.core import Array, Residuals, Weights, arrays, coding
from fisherkit.estimators import validation
from fisherkit.rows import (
    Budget,
    LargeFit,
    LocalRows,
    Plan,
    Request,
    Sample,
    all_residuals,
    fit_large,
    memory_budget,
    read_rows,
    require_number_columns,
)
from fisherkit.tuning import CRITERIA, Likelihood, probabilities


def reference_of(X: Any) -> Array:
    """An empty array of the namespace and device of the computation, in double precision."""
    if arrays.dispatched(X):
        return arrays.widen(X[:0, :])
    return np.empty((0, 1))


def copied_itemsize(X: Any) -> int:
    """Bytes for each entry of the copy of X that a fit in memory makes; 0 if it makes none."""
    whole = arrays.is_array_api(X) and X.dtype == arrays.namespace(X).float64
    return 0 if whole else 8


def dense(X: Any) -> Any:
    """A sparse matrix that memory holds, as an array; anything else as it is."""
    return X.toarray() if hasattr(X, "toarray") else X


def by_sums(model: Any, X: Any) -> bool:
    """Whether a fit that memory holds can be had from sums over blocks of rows as well."""
    if getattr(model, "cv", None) is not None or callable(getattr(model, "criterion", None)):
        return False
    try:
        if hasattr(X, "columns"):
            require_number_columns(X, "X")
    except ValueError:  # memory converts what is a number, and says what is none
        return False
    return not arrays.is_numpy(X) or X.dtype.kind in "biuf"


def require_streamable(model: Any, reason: str) -> None:
    """Refuse what needs every row at once, before any row is read."""
    criterion = getattr(model, "criterion", "press")
    trouble = None
    cv = getattr(model, "cv", None)
    if cv is not None:
        trouble = f"cv={cv!r}: folds need every row at once; leave cv=None"
    elif callable(criterion):
        trouble = (
            f"criterion={criterion!r}: a callable needs every decision at once; use one of "
            + ", ".join(map(repr, CRITERIA))
        )
    if trouble:
        raise ValueError(
            f"Rows have to be read in blocks ({reason}), which excludes {trouble}, or raise "
            "max_memory."
        )


def checked_targets(X: Any, y: Any, *, classifier: bool) -> Any:
    """y of any container, as long as X; nothing of X is read but its shape."""
    if not arrays.is_array_api(y):
        y = np.asarray(y)
    if classifier:
        if arrays.is_numpy(y):
            y = column_or_1d(y, warn=True)
            if y.dtype.kind == "f":
                assert_all_finite(y, input_name="y")
        check_classification_targets(y)
    elif arrays.is_numpy(y):
        y = check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
    check_consistent_length(X, y)
    if X.shape[0] < 2:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) (shape={X.shape}) while a minimum of 2 is "
            "required."
        )
    return y


@dataclass(frozen=True)
class Labelled:
    """Rows with class labels: all rows have an index, those of weight 0 an arbitrary one."""

    classes: Any
    index: Array
    weights: Weights
    kept: np.ndarray


def labelled(
    model: Any, X: Any, y: Any, sample_weight: Any, class_weight: Any, reference: Array
) -> Labelled:
    """Classes among the rows of positive weight, and the weights of all rows."""
    y = checked_targets(X, y, classifier=True)
    frequency, kept = frequencies(X, sample_weight, reference)
    everything = len(kept) == X.shape[0]
    some = y
    if not everything:
        numpy = arrays.is_numpy(y)  # labels may be texts
        some = y[kept] if numpy else arrays.namespace(y).take(y, arrays.indices(kept, y), axis=0)
    classes, index = coding.encode(some, reference)
    validation.several_classes(model, classes)
    present = arrays.namespace(frequency).take(frequency, arrays.indices(kept, frequency), axis=0)
    cost = validation.class_costs(class_weight, classes, index, present)
    if not everything:
        index, cost = _spread(index, kept, X.shape[0]), _spread(cost, kept, X.shape[0])
    return Labelled(classes, index, Weights(frequency, cost), kept)


def frequencies(X: Any, sample_weight: Any, reference: Array) -> tuple[Array, np.ndarray]:
    """Sample weights of all rows, and the rows where they are positive."""
    return validation.frequencies(sample_weight, arrays.zeros((X.shape[0], 1), reference))


def _spread(values: Array, kept: np.ndarray, n: int) -> Array:
    """Values of the kept rows at their places among n, zeros between them."""
    out = np.zeros(n, dtype=arrays.to_numpy(values).dtype)
    out[kept] = arrays.to_numpy(values)
    return arrays.beside(out, values)


def fit_classifier(model: Any, plan: Plan, X: Any, y: Any, sample_weight: Any) -> Any:
    """`KernelFisherClassifier.fit` on row blocks."""
    model._check_words()
    reference, X = _begin(model, X)
    data = labelled(model, X, y, sample_weight, model.class_weight, reference)
    n_classes = data.classes.shape[0]
    rule = model._rule_for(n_classes)
    asked = model._request(plan, criterion=model.criterion, balanced=rule.balanced)
    Y = coding.targets(data.index, n_classes, reference)
    fit, residuals = _fit_local(model, asked, X, Y, data.weights)
    model._store_large(fit, flat=rule.kind == "binary")
    model.classes_, model.relevance_, model.widths_ = data.classes, None, None
    index = data.index
    if len(data.kept) < X.shape[0]:
        index = arrays.namespace(index).take(index, arrays.indices(data.kept, index), axis=0)
    decisions = model._calibrate(residuals, rule, coding.indicators(index, n_classes, reference))
    if plan.held:
        model._keep_rows(model._prepare(dense(X), y, sample_weight), fit)
    else:
        model._indicator = None  # only sets of labels need it, and they need all rows in memory
    absent = _dropped(X, data.kept)
    if absent is not None:
        decisions = interleave(decisions, model._decide(model._raw_scores(absent)), data.kept)
    model.loo_decision_ = decisions[:, 0] if rule.kind == "binary" else decisions
    return model


def fit_regressor(model: Any, plan: Plan, X: Any, y: Any, sample_weight: Any) -> Any:
    """`KernelRidgeCV.fit` on row blocks."""
    reference, X = _begin(model, X)
    y = arrays.like(checked_targets(X, y, classifier=False), reference)
    frequency, kept = frequencies(X, sample_weight, reference)
    xp = arrays.namespace(reference)
    Y = xp.reshape(y, (y.shape[0], -1))
    validation.targets(Y)
    flat = len(y.shape) == 1
    weights = Weights(frequency, xp.ones_like(frequency))
    # Sums over targets far from zero would lose what these differ by.
    shift = validation.bias(model.bias).mean(Y, weights)
    fit, residuals = _fit_local(model, model._request(plan), X, Y - shift, weights)
    fit = replace(fit, intercept=fit.intercept + shift)
    model._store_large(fit, flat=flat)
    if plan.held:
        model._keep_rows(model._prepare(dense(X), y, sample_weight), fit)
    prediction = residuals.Y + shift - residuals.leave_one_out()
    absent = _dropped(X, kept)
    if absent is not None:
        prediction = interleave(prediction, model._raw_scores(absent), kept)
    model.loo_prediction_ = prediction[:, 0] if flat else prediction
    return model


def fit_members(model: Any, plan: Plan, X: Any, y: Any, sample_weight: Any) -> Any:
    """`FisherCommitteeClassifier.fit` on row blocks."""
    reference, X = _begin(model, X)
    data = labelled(model, X, y, sample_weight, model.class_weight, reference)
    n_classes = data.classes.shape[0]
    Y = coding.targets(data.index, n_classes, reference)
    likelihood = Likelihood.of(coding.indicators(data.index, n_classes, reference), data.weights)
    budget = Budget(memory_budget(model.max_memory, Y))
    rows = LocalRows(X, Y, data.weights.frequency, data.weights.cost, budget)
    parts = LocalScores.of(rows, likelihood)
    pricing = Pricing(
        parts, likelihood, data.weights.mean(Y), model.combine, model.min_weight, parts.limit
    )
    given = _given(model, plan, rows)
    fit = fit_committee(model._asked(plan), parts.rows, parts, pricing, X.shape[1], given)
    validation.mention_spreads(fit.spread)
    model.classes_ = data.classes
    model._store_committee(fit.committee, fit.pool, fit.places)
    xp = arrays.namespace(Y)
    logits = xp.concat(fit.committee.logits, axis=0)
    absent = _dropped(X, data.kept)
    if absent is not None:
        inside = xp.take(logits, arrays.indices(data.kept, logits), axis=0)
        logits = interleave(inside, model._raw_scores(absent), data.kept)
    model.loo_proba_ = probabilities(logits, 1.0)
    return model


def _begin(model: Any, X: Any) -> tuple[Array, Any]:
    """Forget earlier fits and note the columns of X; the reference array, and X by rows."""
    model._forget()
    validate_data(model, X, skip_check_array=True)
    if hasattr(X, "columns"):
        require_number_columns(X, "X")
    return reference_of(X), X.tocsr() if hasattr(X, "tocsr") else X


def _fit_local(
    model: Any, asked: Request, X: Any, Y: Array, weights: Weights
) -> tuple[LargeFit, Residuals]:
    """Fit to rows on this machine; residuals of the rows of positive weight."""
    budget = Budget(memory_budget(model.max_memory, Y))
    rows = LocalRows(X, Y, weights.frequency, weights.cost, budget)
    fit = fit_large(asked, rows, X.shape[1], _given(model, asked.plan, rows))
    validation.mention_spreads(fit.spread)
    return fit, all_residuals(fit, rows)


def _given(model: Any, plan: Plan, rows: LocalRows) -> Sample | None:
    """The centres that the user has named by their rows."""
    if plan.basis != "given":
        return None
    given = rows.sample_of(np.asarray(arrays.to_numpy(model.basis)))
    if np.any(given.frequency == 0):
        row = given.index[given.frequency == 0][0]
        raise ValueError(f"basis names row {row}, whose sample_weight is 0.")
    return given


def _dropped(X: Any, kept: np.ndarray) -> Array | None:
    """The rows of weight 0; ``None`` if there are none."""
    if len(kept) == X.shape[0]:
        return None
    places = np.setdiff1d(np.arange(X.shape[0]), kept)
    rows = read_rows(X, places)
    finite = np.isfinite(np.asarray(arrays.to_numpy(rows), dtype=np.float64)).all(axis=1)
    if not finite.all():
        raise ValueError(f"Input X contains NaN or infinity in row {places[~finite][0]}.")
    return rows


def interleave(inside: Array, outside: Array, kept: np.ndarray) -> Array:
    """Values of kept and dropped rows back in the order of the data."""
    xp = arrays.namespace(inside)
    n = inside.shape[0] + outside.shape[0]
    order = np.concatenate([kept, np.setdiff1d(np.arange(n), kept)])
    joined = xp.concat([inside, outside], axis=0)
    return xp.take(joined, arrays.indices(np.argsort(order), joined), axis=0)
