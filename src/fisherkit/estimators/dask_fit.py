"""Fits to Dask collections: labels, weights and calibration without rows coming to the client."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from fisherkit.core import Residuals, Weights, coding
from fisherkit.estimators import validation
from fisherkit.estimators.streaming import require_streamable
from fisherkit.rows import (
    Budget,
    Chunk,
    DaskRows,
    LargeFit,
    Plan,
    Sample,
    SecondPass,
    aligned_parts,
    automatic_centres,
    compute_all,
    constant,
    fit_large,
    kept_by_workers,
    memory_budget,
    parts_of,
    require_greedy,
    run,
    task,
    to_rows,
    tree,
)
from fisherkit.tuning import loo_decisions, slope_terms, smoothed_targets, solve_slope

_TASK_BYTES = 1 << 29  # that a task may take beside its chunk, unless max_memory says otherwise


@dataclass(frozen=True)
class Coder:
    """From the labels of a chunk to targets and costs; without ``classes``, y is the target."""

    classes: np.ndarray | None
    cost: np.ndarray | None

    def encode(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.classes is None or self.cost is None:
            Y = np.asarray(y, dtype=np.float64)
            return Y.reshape(len(y), -1), np.ones(len(y))
        index = np.searchsorted(self.classes, y)
        index = np.minimum(index, len(self.classes) - 1)
        return coding.targets(index, len(self.classes), np.empty(0)), self.cost[index]

    def indicator(self, Y: np.ndarray) -> np.ndarray:
        """0/1 membership (b, c) of the targets."""
        return np.concatenate([Y < 0, Y > 0], axis=1).astype(float) if Y.shape[1] == 1 else Y


@dataclass(frozen=True)
class Labels:
    """What the labels of some chunks hold: rows of each chunk, and copies of each class."""

    lengths: dict[int, int]
    copies: dict[Any, float]
    outputs: int | None
    positive: int


def _describe(y: Any, weight: Any, number: int, classifier: bool) -> Labels:
    y = to_rows(y)
    if len(y) == 0:
        raise ValueError(f"Chunk {number} of y has no rows; drop empty chunks first.")
    w = _weights(weight, len(y), number)
    copies: dict[Any, float] = {}
    if classifier:
        if y.ndim > 2 or (y.ndim == 2 and y.shape[1] != 1):
            raise ValueError(f"y should be a 1d array; chunk {number} has shape {y.shape}.")
        y = y.reshape(len(y))
        if np.any(y != y):
            raise ValueError(f"Input y contains NaN in chunk {number}.")
        check_classification_targets(y)
        classes, index = np.unique(y[w > 0], return_inverse=True)
        copies = dict(zip(classes.tolist(), np.bincount(index, weights=w[w > 0]), strict=True))
    else:
        values = np.asarray(y, dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError(f"Input y contains NaN or infinity in chunk {number}.")
        validation.squares(f"y in chunk {number}", values)
    outputs = None if y.ndim == 1 else y.shape[1]
    return Labels({number: len(y)}, copies, outputs, int(np.count_nonzero(w > 0)))


def _weights(weight: Any, n: int, number: int) -> np.ndarray:
    if weight is None:
        return np.ones(n)
    w = np.asarray(to_rows(weight), dtype=np.float64)
    if w.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {w.shape} in chunk {number}, where y has {n} rows."
        )
    if not np.all(np.isfinite(w)) or np.any(w < 0):
        raise ValueError(f"sample_weight is negative, NaN or infinite in chunk {number}.")
    if np.any(w > 0):
        validation.within_range(f"sample_weight in chunk {number}", w[w > 0])
    return w


def _join_labels(group: list[Labels]) -> Labels:
    lengths: dict[int, int] = {}
    copies: dict[Any, float] = {}
    for labels in group:
        lengths |= labels.lengths
        for label, count in labels.copies.items():
            copies[label] = copies.get(label, 0.0) + count
    positive = sum(labels.positive for labels in group)
    return Labels(lengths, copies, group[0].outputs, positive)


def _chunk(x: Any, y: Any, weight: Any, number: int, coder: Coder, shape: tuple[int, Any]) -> Chunk:
    """Put the parts of a chunk together, on a worker; say which one is not what it should be."""
    X, labels = to_rows(x), to_rows(y)
    if len(X) == 0:
        raise ValueError(f"Chunk {number} of X has no rows; drop empty chunks first.")
    if len(X) != len(labels):
        raise ValueError(
            f"Chunk {number} of X has {len(X)} rows, that of y has {len(labels)}: they must be "
            "cut alike."
        )
    d, dtype = shape
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(f"Chunk {number} of X has shape {X.shape}; expected {d} columns.")
    if dtype is not None and X.dtype != dtype:
        raise ValueError(f"Chunk {number} of X has dtype {X.dtype}; the collection says {dtype}.")
    w = _weights(weight, len(X), number)
    if coder.classes is not None and labels.ndim > 1:
        labels = labels.reshape(len(labels), -1)[:, 0]
    Y, cost = coder.encode(labels)
    return Chunk(X, Y, w, cost, number)


@dataclass(frozen=True)
class _Source:
    """Delayed parts of X, y and the weights, and what their labels hold."""

    X: list[Any]
    y: list[Any]
    weight: list[Any]
    labels: Labels
    shape: tuple[int, Any]

    @property
    def n(self) -> int:
        return sum(self.labels.lengths.values())

    def rows(self, coder: Coder, k: int, budget: Budget) -> DaskRows:
        make = task(_chunk)
        shared = constant(coder)
        parts = zip(self.X, self.y, self.weight, strict=True)
        chunks = [
            make(x, y, w, number, shared, self.shape) for number, (x, y, w) in enumerate(parts)
        ]
        lengths = np.array([self.labels.lengths[i] for i in range(len(chunks))])
        return DaskRows(chunks, lengths, k, budget)


def source_of(model: Any, X: Any, y: Any, sample_weight: Any, *, classifier: bool) -> _Source:
    """Forget earlier fits, note the columns, and look at the labels of all chunks."""
    require_streamable(model, "X is a Dask collection")
    if model._pairwise or getattr(model, "ard", False):
        raise ValueError("kernel='precomputed' and ard=True need all rows at once: no Dask input.")
    if X.ndim != 2:
        raise ValueError(f"X should be a 2d collection; got {X.ndim} dimension(s).")
    model._forget()
    parts = parts_of(X, "X")
    targets = aligned_parts(y, X, parts, "y")
    weights = [None] * len(parts)
    if sample_weight is not None:
        weights = aligned_parts(sample_weight, X, parts, "sample_weight")
    look = task(_describe)
    looks = [
        look(t, w, i, classifier) for i, (t, w) in enumerate(zip(targets, weights, strict=True))
    ]
    labels = tree(task(_join_labels), looks)
    if labels.positive < 2:
        raise ValueError(f"{labels.positive} row(s) of positive weight; at least 2 are needed.")
    model.n_features_in_ = int(X.shape[1])
    if hasattr(X, "columns"):
        model.feature_names_in_ = np.asarray(list(X.columns), dtype=object)
    dtype = getattr(X, "dtype", None)
    return _Source(parts, targets, weights, labels, (int(X.shape[1]), dtype))


def planned(model: Any, source: _Source) -> tuple[Plan, Budget]:
    memory = memory_budget(model.max_memory, np.empty(0))
    if model.max_memory is None:
        memory = min(memory, _TASK_BYTES)
    n = source.labels.positive
    basis, m, rows = model._basis(np.arange(n), source.n)
    if rows is not None:
        m = len(rows)
    if basis in ("auto", "full"):
        if basis == "full":
            raise ValueError(
                "basis='full' makes every row a centre, which a Dask collection does not allow; "
                "use 'auto', or 'pivoted', 'random' or 'greedy' with n_components."
            )
        basis, m = "pivoted", automatic_centres(n, memory)
    assert m is not None
    require_greedy(basis, n, m, memory)
    reason = (
        f"X is a Dask collection of {source.n} rows in {len(source.X)} chunks: {m} centres "
        f"({basis})"
    )
    return Plan(True, basis, m, reason), Budget(memory)


def fit_classifier(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """`KernelFisherClassifier.fit` on a Dask collection."""
    model._check_words()
    source = source_of(model, X, y, sample_weight, classifier=True)
    plan, budget = planned(model, source)
    classes = np.array(sorted(source.labels.copies))
    validation.several_classes(model, classes)
    copies = np.array([source.labels.copies[label] for label in classes.tolist()])
    cost = validation.class_costs(model.class_weight, classes, np.arange(len(classes)), copies)
    rule = model._rule_for(len(classes))
    coder = Coder(classes, cost)
    rows = source.rows(coder, 1 if rule.kind == "binary" else len(classes), budget)
    asked = model._request(plan, criterion=model.criterion, balanced=rule.balanced)
    fit = fit_large(asked, rows, source.shape[0], given_centres(model, plan, rows))
    left = _residuals(fit, rows)
    scatter = _total(left, _scatter)
    scatter, counts = 0.5 * (scatter + scatter.T), copies * cost
    decided = kept_by_workers(_each(left, _decide, scatter, counts, rule, coder))
    weigh = partial(_slope_terms, copies=copies, counts=counts, rule=rule, coder=coder)
    pairs = list(zip(left, decided, strict=True))
    total = _total(pairs, weigh, None)
    slope = solve_slope(lambda a: _total(pairs, weigh, a) / float(total.sum()), total)
    validation.mention_spreads(fit.spread)
    model._store_large(fit, flat=rule.kind == "binary")
    model.classes_, model.relevance_, model.widths_ = classes, None, None
    model._set_rule(rule, counts, scatter)
    model._set_calibration(slope)
    model.loo_decision_ = lazy(rows, decided, rows.k, rule.kind == "binary")
    return model


def fit_regressor(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """`KernelRidgeCV.fit` on a Dask collection."""
    source = source_of(model, X, y, sample_weight, classifier=False)
    plan, budget = planned(model, source)
    outputs = source.labels.outputs
    rows = source.rows(Coder(None, None), outputs or 1, budget)
    fit = fit_large(model._request(plan), rows, source.shape[0], given_centres(model, plan, rows))
    left = kept_by_workers(_each(_residuals(fit, rows), _predictions))
    model._store_large(fit, flat=outputs is None)
    model.loo_prediction_ = lazy(rows, left, rows.k, outputs is None)
    return model


def given_centres(model: Any, plan: Plan, rows: DaskRows) -> Sample | None:
    """The centres that the user has named by their rows."""
    if plan.basis != "given":
        return None
    index = np.asarray(model.basis)
    ends = np.cumsum(rows.lengths)
    number = np.searchsorted(ends, index, side="right")
    place = index - (ends - rows.lengths)[number]
    take = task(_take)
    wanted = np.unique(number)
    parts = compute_all(*(take(rows.chunks[i], place[number == i]) for i in wanted))
    order = np.argsort(np.concatenate([np.flatnonzero(number == i) for i in wanted]))
    joined = Sample(*(np.concatenate(columns)[order] for columns in zip(*parts, strict=True)))
    if np.any(joined.frequency == 0):
        row = index[joined.frequency == 0][0]
        raise ValueError(f"basis names row {row}, whose sample_weight is 0.")
    return joined


def _take(chunk: Chunk, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    empty = np.zeros(len(rows))
    block = chunk.block(rows)
    return (
        *(block.X, block.Y, chunk.frequency[rows], chunk.cost[rows], block.index),
        *(empty, empty, empty),
    )


@dataclass(frozen=True)
class LeftOut:
    """What a worker keeps of a chunk: residuals of the rows of positive weight, and what goes with
    them. ``frequency`` is ``None`` where all rows count once; ``scores`` (b, k) are plain ones, if
    there are rows of weight 0."""

    e: np.ndarray
    B: np.ndarray
    Y: np.ndarray
    frequency: np.ndarray | None
    cost: np.ndarray | None
    kept: np.ndarray | None
    scores: np.ndarray | None

    @property
    def weights(self) -> Weights:
        ones = np.ones(len(self.Y))
        frequency = ones if self.frequency is None else self.frequency
        return Weights(frequency, ones if self.cost is None else self.cost)

    def residuals(self, scatter: np.ndarray) -> Residuals:
        weights = self.weights
        return Residuals(self.Y, weights, self.B, weights.root[:, None] * self.e, scatter)

    def among_all(self, inside: np.ndarray, outside: np.ndarray | None) -> np.ndarray:
        """Values of the rows of positive weight between those of the others."""
        if outside is None:
            return inside
        outside[self.kept] = inside
        return outside


def _residuals(fit: LargeFit, rows: DaskRows) -> list[Any]:
    """Residuals of every chunk at the chosen mu, kept by the workers: pass 3."""
    assert fit.passes is not None
    step, model = constant(fit.passes.left_out_pass()), constant(fit)
    call = task(_left_out)
    return kept_by_workers([call(step, chunk, rows.budget, model) for chunk in rows.chunks])


def _left_out(step: SecondPass, chunk: Chunk, budget: Budget, fit: LargeFit) -> LeftOut:
    kept = chunk.kept
    parts = [part[:, :, 0] for _, part in run(step, chunk, budget).kept]
    both = np.concatenate(parts or [np.empty((0, chunk.Y.shape[1] + 1))])
    frequency, cost = (
        None if np.all(values == 1) else values[kept] for values in (chunk.frequency, chunk.cost)
    )
    where = scores = None
    if len(kept) < len(chunk.Y):
        X = np.asarray(chunk.X, dtype=np.float64)
        values = fit.kernel.block(X, fit.centres)
        where, scores = kept, values @ fit.coef + fit.intercept
    return LeftOut(both[:, :-1], both[:, -1], chunk.Y[kept], frequency, cost, where, scores)


def _each(parts: list[Any], function: Any, *arguments: Any) -> list[Any]:
    """A task for each part that the workers keep."""
    call, shared = task(function), [constant(argument) for argument in arguments]
    return [call(part, *shared) for part in parts]


def _total(parts: list[Any], function: Any, *arguments: Any) -> np.ndarray:
    """The sum of a function over all chunks."""
    return tree(task(sum), _each(parts, function, *arguments))


def _scatter(left: LeftOut) -> np.ndarray:
    return (left.weights.v[:, None] * left.Y).T @ left.e


def _decide(
    left: LeftOut, scatter: np.ndarray, counts: np.ndarray, rule: coding.Rule, coder: Coder
) -> tuple[np.ndarray, np.ndarray]:
    """Leave-one-out decisions of a chunk; plain ones where the weight is 0."""
    fit = left.residuals(scatter)
    decisions, known = loo_decisions(fit, rule, coder.indicator(left.Y), counts)
    plain = None
    if left.scores is not None:
        matrix, offset = rule.affine(counts, scatter)
        plain = (left.scores if matrix is None else left.scores @ matrix) + offset
    return left.among_all(decisions, plain), known


def _predictions(left: LeftOut) -> tuple[np.ndarray, None]:
    """Leave-one-out predictions of a chunk; plain ones where the weight is 0."""
    prediction = left.Y - left.residuals(np.empty(0)).leave_one_out()
    plain = None if left.scores is None else left.scores + 0.0
    return left.among_all(prediction, plain), None


def _slope_terms(
    pair: tuple[LeftOut, tuple[np.ndarray, np.ndarray]],
    a: float | None,
    *,
    copies: np.ndarray,
    counts: np.ndarray,
    rule: coding.Rule,
    coder: Coder,
) -> np.ndarray:
    """The terms of the slope's log-loss over a chunk; without a slope, the weight of each class."""
    left, (decisions, known) = pair
    indicator, weights = coder.indicator(left.Y), left.weights
    weight = weights.v * known
    if rule.balanced:
        weight = weight / (indicator @ counts)
    if a is None:
        return weight @ indicator
    inside = decisions if left.kept is None else decisions[left.kept]
    return slope_terms(a, inside, smoothed_targets(indicator, weights, copies), weight)


def lazy(rows: DaskRows, parts: list[Any], k: int, flat: bool) -> Any:
    """What the workers keep of each row, as a Dask array."""
    import dask.array as da

    first = task(_first)
    arrays = [
        da.from_delayed(
            first(part, flat), shape=(int(n),) if flat else (int(n), k), dtype=np.float64
        )
        for part, n in zip(parts, rows.lengths, strict=True)
    ]
    return da.concatenate(arrays, axis=0)


def _first(part: tuple[np.ndarray, Any], flat: bool) -> np.ndarray:
    return part[0][:, 0] if flat else part[0]
