"""One kernel width per feature of `fisherkit.KernelFisherClassifier`: from rows to a fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator

from fisherkit.core import Array, FittedKernel, Parametric, arrays
from fisherkit.estimators.base import standardisation
from fisherkit.rows import Fit, MemoryRows, RowSource, Spec, Task, fitted
from fisherkit.tuning import CRITERIA, relevance

Widths = relevance.Widths


@dataclass(frozen=True)
class FeatureFit(Fit):
    """A fit whose kernel has a width for each feature: gamma and relevance (d,), how learned."""

    gamma: Array | None = None
    relevance: Array | None = None
    widths: Widths | None = None


def fit(rows: RowSource, spec: Spec) -> FeatureFit:
    """One width per feature if they are better, one for all (standardised) otherwise."""
    assert isinstance(rows, MemoryRows)
    task = rows.task(spec)
    raw = task.problem.design.gram.X
    left_out, classes = _left_out(spec, task)
    columns, shift, scale = standardisation(left_out.X, left_out.weights)
    kernel = FittedKernel(Parametric(columns.shape[0]), np.empty(0), columns, shift, scale)
    features = kernel.features(raw)
    task = task.on(features)
    tuned = task.tune()
    assert tuned.selection.gamma is not None
    log_w = np.full(columns.shape[0], math.log(2 * tuned.selection.gamma))
    # Few digits: weighted and repeated rows must start from the same place.
    start = np.round([math.log(tuned.selection.mu), log_w[0]], 4)
    learner = replace(left_out, X=kernel.features(left_out.X))
    if len(classes) > relevance.LARGEST:
        # The merged order is that of a hash of the values: any part of it is a random draw.
        chosen = np.linspace(0, len(classes) - 1, relevance.LARGEST).astype(int)
        learner, classes = learner.take(chosen), classes[chosen]
    widths = relevance.learn_widths(learner, classes, start)
    if widths.spread > 0:
        log_w = widths.log_w
        root = arrays.like(np.exp(0.5 * log_w) / math.sqrt(2), raw)
        task = replace(task.on(features * root), gamma=1.0, search_gamma=False)
        tuned = task.tune()
    result = fitted(replace(task, features=features), tuned)
    xp = arrays.namespace(raw)
    expansion = replace(
        result.expansion,
        kernel=replace(kernel, theta=np.append(0.0, log_w)),
        centres=xp.take(features, arrays.indices(tuned.centres, raw), axis=0),
    )
    used = arrays.to_numpy(columns)
    gamma, relevances = np.zeros(raw.shape[1]), np.zeros(raw.shape[1])
    # Of features so small that it overflows, gamma is infinite.
    gamma[used] = (np.exp(0.5 * log_w) / arrays.to_numpy(scale)) ** 2 / 2
    varies = arrays.to_numpy(xp.max(features, axis=0)) > 0
    relevances[used] = np.where(varies, np.exp(log_w), 0.0)
    return FeatureFit(
        expansion=expansion,
        centres=result.centres,
        selection=result.selection,
        left_out=result.left_out,
        scatter=result.scatter,
        training=result.training,
        sampled=result.sampled,
        gamma=arrays.like(gamma, raw),
        relevance=arrays.like(relevances, raw),
        widths=widths,
    )


def _left_out(spec: Spec, task: Task) -> tuple[relevance.LeftOut, np.ndarray]:
    """The criterion on rows merged by value and class, and their classes."""
    design = task.problem.design
    X = design.gram.X
    assert isinstance(spec.criterion, str)
    xp = arrays.namespace(X)
    assert task.labels is not None
    index = arrays.to_numpy(task.labels.index)
    first, group = design.gram.distinct().split(index, task.labels.n_classes)
    rows = arrays.indices(first, X)
    left_out = relevance.LeftOut(
        X=xp.take(X, rows, axis=0),
        Y=xp.take(task.problem.Y, rows, axis=0),
        weights=design.weights.merge(first, group),
        rule=spec.criterion,
        penalty=spec.penalty,
        bias=spec.bias,
        balanced=spec.balanced,
    )
    return left_out, index[first]


def check(model: BaseEstimator) -> None:
    """Refuse parameters that leave nothing, or nothing with a gradient, to learn widths by."""
    needs = {"kernel": "rbf", "gamma": "loo", "regularization": "loo"}
    for name, value in needs.items():
        if getattr(model, name) != value:
            raise ValueError(
                f"ard=True learns widths and mu by leave-one-out and needs {name}={value!r}; "
                f"got {name}={getattr(model, name)!r}."
            )
    smooth = [name for name, loss in CRITERIA.items() if loss.smooth]
    if model.criterion not in ("auto", *smooth):
        raise ValueError(
            f"ard=True needs a criterion with a gradient, one of {', '.join(map(repr, smooth))}; "
            f"got criterion={model.criterion!r}."
        )
