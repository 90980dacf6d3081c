"""One kernel width per feature of `fisherkit.KernelFisherClassifier`: from a task to its fit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fisherkit.core import FittedKernel, Parametric, arrays
from fisherkit.estimators import validation
from fisherkit.estimators.base import Task, standardisation
from fisherkit.tuning import CRITERIA, Tuned, relevance


def tune(model: Any, task: Task) -> tuple[Task, Tuned]:
    """One width per feature if they are better, one for all (standardised) otherwise."""
    raw = task.problem.design.gram.X
    left_out, classes = _left_out(model, task)
    columns, shift, scale = standardisation(left_out.X, left_out.weights)
    kernel = FittedKernel(Parametric(columns.shape[0]), np.empty(0), columns, shift, scale)
    task = task.on(kernel.features(raw))
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
        task = replace(task.on(kernel.features(raw) * root), gamma=1.0, search_gamma=False)
        tuned = task.tune()
    model._store(task, tuned)
    xp = arrays.namespace(raw)
    chosen = xp.take(raw, arrays.indices(tuned.centres, raw), axis=0)
    model._centres, model._training_features = kernel.features(chosen), kernel.features(raw)
    model._fitted_kernel = replace(kernel, theta=np.append(0.0, log_w))
    used = arrays.to_numpy(columns)
    gamma, relevances = np.zeros(raw.shape[1]), np.zeros(raw.shape[1])
    # Of features so small that it overflows, gamma is infinite.
    gamma[used] = (np.exp(0.5 * log_w) / arrays.to_numpy(scale)) ** 2 / 2
    varies = arrays.to_numpy(xp.max(kernel.features(raw), axis=0)) > 0
    relevances[used] = np.where(varies, np.exp(log_w), 0.0)
    model.gamma_, model.relevance_ = arrays.like(gamma, raw), arrays.like(relevances, raw)
    model.widths_ = widths
    return task, tuned


def _left_out(model: Any, task: Task) -> tuple[relevance.LeftOut, np.ndarray]:
    """The criterion on rows merged by value and class, and their classes."""
    design = task.problem.design
    X = design.gram.X
    xp = arrays.namespace(X)
    assert task.indicator is not None
    index = np.argmax(arrays.to_numpy(task.indicator), axis=1)
    first, group = design.gram.distinct().split(index, task.indicator.shape[1])
    rows = arrays.indices(first, X)
    left_out = relevance.LeftOut(
        X=xp.take(X, rows, axis=0),
        Y=xp.take(task.problem.Y, rows, axis=0),
        weights=design.weights.merge(first, group),
        rule=model.criterion,
        penalty=model.penalty,
        bias=validation.bias(model.bias),
        balanced=task.rule.balanced,
    )
    return left_out, index[first]


def check(model: Any) -> None:
    """Refuse parameters that leave nothing, or nothing with a gradient, to learn widths by."""
    needs = {"kernel": "rbf", "gamma": "loo", "regularization": "loo"}
    for name, value in needs.items():
        if getattr(model, name) != value:
            raise ValueError(
                f"ard=True learns widths and mu by leave-one-out and needs {name}={value!r}; "
                f"got {name}={getattr(model, name)!r}."
            )
    smooth = [name for name, loss in CRITERIA.items() if loss.smooth]
    if model.criterion not in smooth:
        raise ValueError(
            f"ard=True needs a criterion with a gradient, one of {', '.join(map(repr, smooth))}; "
            f"got criterion={model.criterion!r}."
        )
