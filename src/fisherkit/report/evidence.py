"""What the page knows of answers to rows that the model has not seen, gathered once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from fisherkit.core import winners
from fisherkit.inspection import cross_fitted
from fisherkit.report.quality import Difference, Judged, Trust, places
from fisherkit.training import Training


@dataclass(frozen=True)
class Rival:
    """Another method: its answers, ours to the same rows, and what it has not done."""

    name: str
    theirs: Judged | None  # None where it was left out
    ours: Judged
    note: str = ""

    @property
    def difference(self) -> Difference:
        """How much better our answers are."""
        assert self.theirs is not None
        return Difference.of(self.ours, self.theirs)


@dataclass(frozen=True)
class Evidence:
    """Answers to training rows by models without them, and to held-out rows.

    ``index`` (n,) are the classes of the training rows, by their places in ``names``; ``known``
    (q,) are the rows that were left out, which ``left_out`` judges. ``constant`` answers the most
    frequent class always; ``rivals`` are other methods.
    """

    training: Training
    names: list[str]
    index: np.ndarray
    known: np.ndarray
    left_out: Judged
    held_out: Judged | None
    constant: Rival
    rivals: list[Rival]
    trust: Trust

    @classmethod
    def of(cls, training: Training, logits: np.ndarray) -> Evidence:
        """``logits`` (n, k) are those of left-out rows, NaN where there are none."""
        classes = training.model.estimator_.classes_
        index = np.searchsorted(classes, np.asarray(training.y))
        known = np.flatnonzero(np.all(np.isfinite(logits), axis=1))
        left_out = _of_logits(index[known], logits[known])
        held_out = None
        if (aside := training.held_out) is not None and aside.probabilities is not None:
            truth, answer = (places(classes, given) for given in (aside.y, aside.predicted))
            held_out = Judged(truth, answer, aside.probabilities)
        judged = left_out if held_out is None else held_out
        rivals = []
        for one in training.baselines:
            rows = np.flatnonzero(one.judged)
            ours = judged.take(rows)
            assert one.probabilities is not None
            answer = places(classes, one.predicted[rows])
            theirs = Judged(ours.truth, answer, one.probabilities[rows]) if len(rows) else None
            rivals.append(Rival(one.name, theirs, ours, one.note))
        constant = rivals.pop(0) if rivals else _constant(judged, index, len(classes))
        names = [str(label) for label in classes]
        trust = Trust.of(judged)
        return cls(training, names, index, known, left_out, held_out, constant, rivals, trust)

    @property
    def judged(self) -> Judged:
        """The rows that say most of new ones: held out if there are some, else left out."""
        return self.left_out if self.held_out is None else self.held_out

    @property
    def two(self) -> bool:
        return len(self.names) == 2

    @property
    def frequent(self) -> str:
        """The name of the most frequent class."""
        return self.names[int(np.argmax(np.bincount(self.index)))]

    @property
    def left_out_figures(self) -> tuple[int, int, float]:
        """Wrong answers, rows and log-loss after selection.

        Those of a softmax come from folds: the logits of left-out rows have seen these rows.
        """
        if (found := cross_fitted(self.training.model.estimator_)) is not None:
            return round(found.error * found.rows), found.rows, float(found.log_loss)
        wrong = int(np.sum(~self.left_out.right))
        return wrong, self.left_out.n, float(np.mean(self.left_out.losses))

    @property
    def right(self) -> tuple[int, int]:
        """Right answers and rows: the figures that say most of new rows."""
        if self.held_out is not None:
            return int(np.sum(self.held_out.right)), self.held_out.n
        wrong, n, _ = self.left_out_figures
        return n - wrong, n

    @property
    def about_costs(self) -> str:
        """The title of the section on costs."""
        return "What mistakes cost" if self.two else "Which classes are confused, and what it costs"

    @property
    def folds(self) -> bool:
        """Whether rows were left out by folds, not one by one."""
        return hasattr(self.training.model.estimator_, "cv_decision_")


def _of_logits(index: np.ndarray, logits: np.ndarray) -> Judged:
    if logits.shape[1] == 1:
        logits = np.hstack([np.zeros_like(logits), logits])
        return Judged(index, winners(logits[:, 1:]), softmax(logits, axis=1))
    return Judged(index, winners(logits), softmax(logits, axis=1))


def _constant(judged: Judged, index: np.ndarray, n_classes: int) -> Rival:
    counts = np.bincount(index, minlength=n_classes)
    answer = np.full(judged.n, int(np.argmax(counts)))
    p = np.tile(counts / counts.sum(), (judged.n, 1))
    return Rival("The most frequent class", Judged(judged.truth, answer, p), judged)
