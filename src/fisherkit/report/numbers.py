"""How far predicted numbers are from the truth, and how often intervals hold it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from fisherkit.columns import in_memory
from fisherkit.core import arrays
from fisherkit.estimators import inside
from fisherkit.training import Training

CONFIDENCES = (0.5, 0.8, 0.9, 0.95)
_BEYOND = 2.0  # standard errors from which a difference is more than chance
_FITTED, _JUDGED, _FOLDS = 1500, 500, 5  # rows of the fits that intervals are tried on


@dataclass(frozen=True)
class Predicted:
    """Predictions (n,) of rows by models that have not seen them, and the truth (n,)."""

    truth: np.ndarray
    predicted: np.ndarray

    @property
    def n(self) -> int:
        return len(self.truth)

    @property
    def errors(self) -> np.ndarray:
        return self.truth - self.predicted

    @property
    def rmse(self) -> float:
        return float(np.sqrt(np.mean(self.errors**2)))

    @property
    def mae(self) -> float:
        return float(np.mean(np.abs(self.errors)))

    @property
    def median(self) -> float:
        return float(np.median(np.abs(self.errors)))

    @property
    def r2(self) -> float:
        """One minus the mean squared error over that of the mean of these rows."""
        variance = float(np.var(self.truth))
        return 1 - float(np.mean(self.errors**2)) / variance if variance > 0 else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the RMSE, by the normal distribution of the mean of squares."""
        squares = self.errors**2
        mean = float(np.mean(squares))
        reach = 1.96 * float(np.std(squares)) / math.sqrt(self.n)
        return math.sqrt(max(0.0, mean - reach)), math.sqrt(mean + reach)

    def take(self, rows: np.ndarray) -> Predicted:
        """Some of the rows."""
        return Predicted(self.truth[rows], self.predicted[rows])

    def beside(self, other: Predicted) -> int:
        """1 where these predictions are nearer by more than chance, -1 where farther, else 0."""
        gain = other.errors**2 - self.errors**2
        error = float(np.std(gain)) / math.sqrt(self.n)
        mean = float(np.mean(gain))
        return int(np.sign(mean)) if abs(mean) > _BEYOND * error else 0


@dataclass(frozen=True)
class NumberRival:
    """Another method: its predictions, ours of the same rows, and what it has not done."""

    name: str
    theirs: Predicted | None
    ours: Predicted
    note: str = ""

    @property
    def side(self) -> int:
        return 0 if self.theirs is None else self.ours.beside(self.theirs)


@dataclass(frozen=True)
class Coverage:
    """How often intervals hold the truth of rows that their model has not seen.

    ``held`` and ``width`` have an entry for each of `CONFIDENCES`: the share of ``rows`` rows whose
    interval holds the truth, and the mean width; ``fitted`` rows were behind each model.
    """

    held: list[float]
    width: list[float]
    rows: int
    fitted: int

    @property
    def trusted(self) -> bool:
        """Whether no share is below what is stated by more than chance."""
        return all(
            held >= level - _BEYOND * math.sqrt(level * (1 - level) / self.rows)
            for held, level in zip(self.held, CONFIDENCES, strict=True)
        )


@dataclass(frozen=True)
class NumberEvidence:
    """Predictions of training rows by models without them, and of held-out rows."""

    training: Training
    known: np.ndarray
    left_out: Predicted
    held_out: Predicted | None
    constant: NumberRival
    rivals: list[NumberRival]
    coverage: Coverage | None

    @classmethod
    def of(cls, training: Training, seed: int) -> NumberEvidence:
        y = np.asarray(training.y, dtype=np.float64)
        predicted = arrays.to_numpy(training.model.estimator_.loo_prediction_)
        known = np.flatnonzero(np.isfinite(predicted))
        left_out, held_out = Predicted(y[known], predicted[known]), None
        if (aside := training.held_out) is not None:
            held_out = Predicted(np.asarray(aside.y, dtype=np.float64), aside.predicted)
        judged = left_out if held_out is None else held_out
        rivals = []
        for one in training.baselines:
            rows = np.flatnonzero(one.judged)
            ours = judged.take(rows)
            theirs = Predicted(ours.truth, one.predicted[rows]) if len(rows) else None
            rivals.append(NumberRival(one.name, theirs, ours, one.note))
        mean = Predicted(judged.truth, np.full(judged.n, float(np.mean(y))))
        constant = rivals.pop(0) if rivals else NumberRival("The mean", mean, judged)
        coverage = _coverage(training, seed)
        return cls(training, known, left_out, held_out, constant, rivals, coverage)

    @property
    def judged(self) -> Predicted:
        """The rows that say most of new ones: held out if there are some, else left out."""
        return self.left_out if self.held_out is None else self.held_out


def _coverage(training: Training, seed: int) -> Coverage | None:
    """Intervals of models with the settings of the fit, fitted to four fifths of some rows."""
    model, y = training.model.estimator_, np.asarray(training.y, dtype=np.float64)
    if inside(model).in_blocks or len(y) < 2 * _FOLDS:
        return None
    order = np.random.default_rng(seed).permutation(len(y))[: _FITTED * _FOLDS // (_FOLDS - 1)]
    X = training.model.transformed(in_memory(training.X.iloc[order]))
    again = clone(model).set_params(regularization=float(model.regularization_), cv=None)
    if getattr(model, "gamma_", None) is not None:
        again.set_params(gamma=model.gamma_)
    y, parts = y[order], np.array_split(np.arange(len(order)), _FOLDS)
    held, width, rows = np.zeros(len(CONFIDENCES)), np.zeros(len(CONFIDENCES)), 0
    for part in parts:
        others = np.setdiff1d(np.arange(len(order)), part)
        if again.n_components is not None and not isinstance(again.n_components, str):
            again.set_params(n_components=min(again.n_components, len(others)))
        again.fit(X[others], y[others])
        for i, level in enumerate(CONFIDENCES):
            lower, upper = again.predict_interval(X[part], level)
            held[i] += np.sum((lower <= y[part]) & (y[part] <= upper))
            width[i] += np.sum(upper - lower)
        rows += len(part)
        if rows >= _JUDGED:
            break
    return Coverage((held / rows).tolist(), (width / rows).tolist(), rows, len(others))
