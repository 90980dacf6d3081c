"""How good answers are, in numbers: measures, comparisons, and whether probabilities hold.

Everything here is a pure function of answers to rows that the answering model has not seen.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit, logsumexp
from scipy.stats import chi2

_SMALLEST = 1e-15  # probability, so that one sure mistake has a finite log-loss
_SURE = 1e-6  # beyond which probabilities are no surer when their scale is judged
_FEW = 50  # rows with which little can be said of probabilities
_CHANCE = 0.01  # p-value from which a scale of one is as likely as any
_WORTH = 0.003  # log-loss per row below which another scale would gain nothing
_BEYOND = 2.0  # standard errors from which a difference is more than chance
_BENT = 0.15  # logarithm of a scale from which it is what is wrong


@dataclass(frozen=True)
class Judged:
    """Answers for rows by models that have not seen them.

    Attributes
    ----------
    truth : (n,)
        Class of each row, by its place among the classes; -1 for a label that is no class.
    answer : (n,)
        Class answered.
    p : (n, n_classes)
        Probabilities.
    """

    truth: np.ndarray
    answer: np.ndarray
    p: np.ndarray

    @property
    def n(self) -> int:
        return len(self.truth)

    @property
    def right(self) -> np.ndarray:
        """Whether each answer is right; (n,)."""
        return self.truth == self.answer

    @property
    def losses(self) -> np.ndarray:
        """Minus the logarithm of the probability of the true class; (n,), NaN where it is none."""
        known = self.truth >= 0
        own = self.p[np.arange(self.n), np.maximum(self.truth, 0)] / self.p.sum(axis=1)
        return np.where(known, -np.log(np.clip(own, _SMALLEST, 1.0)), np.nan)

    def take(self, rows: np.ndarray) -> Judged:
        """Some of the rows."""
        return Judged(self.truth[rows], self.answer[rows], self.p[rows])


def places(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The place of each label among the sorted classes, -1 where it is none; (n,)."""
    found = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[found] == labels, found, -1)


@dataclass(frozen=True)
class Counts:
    """Rows of each class, answers of each class, and those that are right; (n_classes,)."""

    rows: np.ndarray
    answers: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, judged: Judged) -> Counts:
        k = judged.p.shape[1]
        known = judged.truth[judged.truth >= 0]
        return cls(
            rows=np.bincount(known, minlength=k),
            answers=np.bincount(judged.answer, minlength=k),
            right=np.bincount(judged.truth[judged.right], minlength=k),
        )

    @property
    def recall(self) -> np.ndarray:
        """Share of each class that is found; NaN for a class without rows."""
        return _ratio(self.right, self.rows)

    @property
    def precision(self) -> np.ndarray:
        """Share of right answers among those of each class; NaN where there is none."""
        return _ratio(self.right, self.answers)

    @property
    def f1(self) -> np.ndarray:
        """Harmonic mean of precision and recall: 0 for a class that is never found."""
        return _ratio(2 * self.right, self.rows + self.answers)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


@dataclass(frozen=True)
class Measures:
    """The measures that people expect of a classifier."""

    accuracy: float
    balanced_accuracy: float
    f1: float  # of the second of two classes; of more, the mean over the classes
    log_loss: float

    @classmethod
    def of(cls, judged: Judged) -> Measures:
        counts = Counts.of(judged)
        present = counts.rows > 0
        f1 = counts.f1[1] if len(present) == 2 else np.nanmean(counts.f1[present])
        return cls(
            accuracy=float(np.mean(judged.right)),
            balanced_accuracy=float(np.mean(counts.recall[present])),
            f1=float(f1),
            log_loss=float(np.nanmean(judged.losses)),
        )


@dataclass(frozen=True)
class Difference:
    """How much better one model is than another on the same rows, with standard errors."""

    accuracy: float
    accuracy_error: float
    log_loss: float  # by how much that of the other model is larger
    log_loss_error: float

    @classmethod
    def of(cls, ours: Judged, theirs: Judged) -> Difference:
        right = ours.right.astype(float) - theirs.right
        losses = theirs.losses - ours.losses
        losses = losses[np.isfinite(losses)]
        return cls(*_mean_and_error(right), *_mean_and_error(losses))

    @property
    def side_of_answers(self) -> int:
        """1 where more answers are right by more than chance, -1 where fewer are, else 0."""
        return _beyond(self.accuracy, self.accuracy_error)

    @property
    def side_of_probabilities(self) -> int:
        """The same for the log-loss."""
        return _beyond(self.log_loss, self.log_loss_error)


def _beyond(value: float, error: float) -> int:
    return int(np.sign(value)) if abs(value) > _BEYOND * error else 0


def _mean_and_error(values: np.ndarray) -> tuple[float, float]:
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), error


class Verdict(enum.Enum):
    """Whether probabilities can be trusted."""

    TRUSTED = "yes"
    UNKNOWN = "too few rows to tell"
    TOO_SURE = "no, they are too sure"
    TOO_CAUTIOUS = "no, they are too cautious"
    SHIFTED = "no, they lean to one side"


@dataclass(frozen=True)
class Trust:
    """Whether probabilities hold what they promise.

    Log-odds (of several classes: logarithms of probabilities) times ``scale`` plus ``offset`` would
    have suited the rows best. ``gain`` is what the log-loss of a row would have fallen by.
    """

    verdict: Verdict
    scale: float
    offset: float
    gain: float
    gap: float  # mean distance between stated and observed shares, over bins

    @classmethod
    def of(cls, judged: Judged) -> Trust:
        known = judged.take(np.flatnonzero(judged.truth >= 0))
        scale, offset, gain, parameters = _best_scale(known)
        chance = float(chi2.sf(2 * gain * known.n, parameters))
        if known.n < _FEW:
            verdict = Verdict.UNKNOWN
        elif chance > _CHANCE or gain < _WORTH:
            verdict = Verdict.TRUSTED
        elif abs(math.log(scale)) < _BENT:
            verdict = Verdict.SHIFTED
        else:
            verdict = Verdict.TOO_SURE if scale < 1 else Verdict.TOO_CAUTIOUS
        gap = sum(bin.n * abs(bin.stated - bin.right / bin.n) for bin in bins(judged)) / judged.n
        return cls(verdict, scale, offset, gain, gap)

    def corrected(self, p: float) -> float:
        """What a stated probability of the second of two classes would better be."""
        return float(expit(self.scale * logit(p) + self.offset))


def _best_scale(judged: Judged) -> tuple[float, float, float, int]:
    """Scale and offset of the largest likelihood, the gain per row, and how many were free."""
    p = np.clip(judged.p / judged.p.sum(axis=1, keepdims=True), _SURE, 1 - _SURE)
    if p.shape[1] == 2:
        odds, sign = logit(p[:, 1]), np.where(judged.truth == 1, 1.0, -1.0)

        def loss(at: np.ndarray) -> float:
            return float(-np.mean(log_expit(sign * (math.exp(at[0]) * odds + at[1]))))

        start, bounds = np.zeros(2), [(-3.0, 3.0), (-5.0, 5.0)]
    else:
        logs, rows = np.log(p), np.arange(judged.n)

        def loss(at: np.ndarray) -> float:
            scaled = math.exp(at[0]) * logs
            return float(np.mean(logsumexp(scaled, axis=1) - scaled[rows, judged.truth]))

        start, bounds = np.zeros(1), [(-3.0, 3.0)]
    found = minimize(loss, start, method="L-BFGS-B", bounds=bounds)
    offset = float(found.x[1]) if len(start) == 2 else 0.0
    return math.exp(found.x[0]), offset, max(0.0, loss(start) - float(found.fun)), len(start)


@dataclass(frozen=True)
class Bin:
    """Rows with similar stated probabilities."""

    stated: float  # on average
    n: int
    right: int


def bins(judged: Judged, edges: Sequence[float] = tuple(np.linspace(0.1, 0.9, 9))) -> list[Bin]:
    """Stated probabilities against what came true, in bins that are not empty.

    Of two classes it is the probability of the second, of more that of the answer.
    """
    p = judged.p / judged.p.sum(axis=1, keepdims=True)
    if p.shape[1] == 2:
        stated, came_true = p[:, 1], judged.truth == 1
    else:
        stated, came_true = p[np.arange(judged.n), judged.answer], judged.right
    place = np.searchsorted(edges, stated, side="left")
    return [
        Bin(float(stated[own].mean()), int(own.sum()), int(came_true[own].sum()))
        for own in (place == b for b in range(len(edges) + 1))
        if own.any()
    ]
