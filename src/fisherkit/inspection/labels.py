"""Labels of a task that can be put in any order, and which scores they allow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fisherkit.core import Array, arrays, decode
from fisherkit.inference import relabel
from fisherkit.rows import Task

SCORES = ("accuracy", "balanced_accuracy", "roc_auc", relabel.PAIRS)


def missing(task: Task, index: int) -> str:
    """The message that a fold has no training rows of a class."""
    label = arrays.to_numpy(task.classes).tolist()[index]
    return (
        f"cv: class {label!r} is missing from the training part of a fold. Use a stratified "
        "splitter, fewer folds or larger training sets."
    )


@dataclass(frozen=True)
class TaskLabels:
    """The labels of a task on the host, in any order: class indices (n,), or targets (n, k)."""

    task: Task
    values: np.ndarray

    @classmethod
    def of(cls, task: Task) -> TaskLabels:
        if task.labels is None:
            return cls(task, arrays.to_numpy(task.problem.Y))
        return cls(task, arrays.to_numpy(task.labels.index))

    def shuffled(self, order: np.ndarray) -> Array:
        """y in another order, as a user would give it."""
        values = self.values[order]
        if self.task.labels is not None:
            return decode(self.task.classes, arrays.indices(values, self.task.problem.Y))
        return arrays.like(values[:, 0] if self.task.flat else values, self.task.problem.Y)

    def take(self, orders: np.ndarray) -> tuple[Array, Array | None, Array | None]:
        """Targets (n, k, p), indicators (n, c, p) and class indices (n, p) of orders (p, n)."""
        Y = self.task.problem.Y
        xp = arrays.namespace(Y)
        if self.task.labels is None:
            values = np.moveaxis(self.values[orders], 0, 2)
            return arrays.like(np.ascontiguousarray(values), Y), None, None
        n_classes = self.task.labels.n_classes
        index = arrays.indices(np.ascontiguousarray(self.values[orders].T), Y)
        classes = arrays.indices(np.arange(n_classes), Y)
        indicator = xp.astype(index[:, None, :] == classes[None, :, None], Y.dtype)
        return (2 * indicator[:, 1:, :] - 1 if n_classes == 2 else indicator), indicator, index


def metric_name(scoring: str | None, labels: TaskLabels, caller: str, *, pairs: bool) -> str:
    """The name of the score, if the task allows it and, for the score of pairs, ``pairs`` does."""
    classifier = labels.task.labels is not None
    valid: tuple[str, ...] = ("r2",)
    if classifier:
        valid = SCORES if pairs else SCORES[:-1]
    if scoring is None:
        scoring = valid[0]
    if not isinstance(scoring, str) or scoring not in valid:
        names = ", ".join(repr(name) for name in valid)
        raise ValueError(
            f"scoring={scoring!r} has no closed form here; use one of {names}, or "
            f"sklearn.model_selection.{caller}, which refits."
        )
    if "auc" in scoring and len(labels.task.classes) != 2:
        raise ValueError(
            f"scoring={scoring!r} needs two classes; got {len(labels.task.classes)}. Use "
            "'accuracy' or 'balanced_accuracy'."
        )
    return scoring
