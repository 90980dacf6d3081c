"""What selection minimises: functions of held-out scores, with derivatives in log mu.

A criterion is the weighted mean over held-out rows of a loss l(u): of the residuals, summed over
columns, or of the margin, the signed decision s (f - t) for two classes, the score of the true
class minus the best other score for more. With the derivatives u', u'' of u in log mu,

    Q = mean l(u),   Q' = mean l'(u) u',   Q'' = mean l''(u) u'^2 + l'(u) u''.

A new loss is a class and its line in `CRITERIA`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fisherkit.core import Array, Design, Fold, RidgePath, Weights, arrays
from fisherkit.stored import stored

_SHARPNESS = 4.0  # k of log_loss and the compression factor of smoothed_error


def _sigmoid(x: Array) -> Array:
    xp = arrays.namespace(x)
    t = xp.exp(-xp.abs(x))  # never overflows
    return xp.where(x >= 0, 1 / (1 + t), t / (1 + t))


def log_sigmoid(x: Array) -> Array:
    """log(1/(1 + exp(-x))) without overflow."""
    xp = arrays.namespace(x)
    return xp.where(x < 0, x, xp.zeros_like(x)) - xp.log1p(xp.exp(-xp.abs(x)))


@stored("rows held out")
@dataclass(frozen=True)
class HeldOut:
    """The rows that a criterion looks at: targets, thresholds and weights beside the residuals.

    Attributes
    ----------
    Y, mean, threshold : (rows, k)
        Targets of the held-out rows; mean targets and thresholds of the models that did not see
        them.
    weight : (rows,)
    folds : list of Fold or None
        ``None`` means leave-one-out.
    labels : array
        What a callable criterion is given as y.
    balanced : bool
        Whether the thresholds are the mean targets, and not zero.
    """

    Y: Array
    mean: Array
    threshold: Array
    weight: Array
    folds: Sequence[Fold] | None = None
    labels: Any = None
    balanced: bool = False

    @classmethod
    def leave_one_out(
        cls, Y: Array, weights: Weights, *, balanced: bool, labels: Any = None
    ) -> HeldOut:
        """Every row of Y (n, k) once."""
        mean = weights.fold_mean(Y)
        threshold = mean if balanced else arrays.namespace(Y).zeros_like(Y)
        return cls(Y, mean, threshold, weights.v, labels=labels, balanced=balanced)

    @classmethod
    def of(
        cls,
        Y: Array,
        weights: Weights,
        folds: Sequence[Fold] | None,
        *,
        balanced: bool,
        labels: Any = None,
    ) -> HeldOut:
        """Every row once (leave-one-out), or the tested rows of the folds."""
        if folds is None:
            return cls.leave_one_out(Y, weights, balanced=balanced, labels=labels)
        xp = arrays.namespace(Y)
        total = xp.sum(weights.v[:, None] * Y, axis=0)
        tested, means = [], []
        for fold in folds:
            v = xp.take(weights.v, fold.removed, axis=0)
            gone = xp.sum(v[:, None] * xp.take(Y, fold.removed, axis=0), axis=0)
            mean = (total - gone) / (weights.mass - float(xp.sum(v)))
            tested.append(xp.take(fold.removed, fold.tested, axis=0))
            means.append(mean[None, :] + xp.zeros_like(xp.take(Y, tested[-1], axis=0)))
        rows, mean = xp.concat(tested, axis=0), xp.concat(means, axis=0)
        threshold = mean if balanced else xp.zeros_like(mean)
        if labels is not None:
            labels = arrays.to_numpy(labels)[arrays.to_numpy(rows)]
        weight = xp.take(weights.v, rows, axis=0)
        return cls(xp.take(Y, rows, axis=0), mean, threshold, weight, folds, labels, balanced)

    def average(self, losses: Array) -> np.ndarray:
        """Weighted mean over rows, (rows, p) -> (p,) on the host."""
        total = arrays.namespace(losses).sum(self.weight)
        return np.asarray(arrays.to_numpy((self.weight @ losses) / total), dtype=np.float64)

    def decisions(self, R: Array) -> Array:
        """Left-out scores beyond the thresholds, for residuals (rows, k, p) of p models."""
        return (self.Y - self.threshold)[:, :, None] - R

    def margins(self, R: Array) -> tuple[Array, Array]:
        """Margins (rows, p) of p models, and how those of the first fall with R, (rows, k)."""
        xp = arrays.namespace(R)
        decision, Y = self.decisions(R), self.Y
        if Y.shape[1] == 1:
            return Y * decision[:, 0, :], Y
        own = Y > 0.5
        true = xp.sum(xp.where(own[:, :, None], decision, xp.zeros_like(decision)), axis=1)
        others = xp.where(own[:, :, None], xp.full_like(decision, -float("inf")), decision)
        best = xp.argmax(others[:, :, 0], axis=1)
        classes = arrays.indices(np.arange(Y.shape[1]), Y)
        falls = Y - xp.astype(best[:, None] == classes[None, :], Y.dtype)
        return true - xp.max(others, axis=1), falls


class Loss:
    """A loss of residuals, as a function l(u) of each with two derivatives.

    What is no mean over rows of such a function replaces `values`, `derivatives` and `slopes`.

    Attributes
    ----------
    smooth : bool
        Whether there are derivatives, and Newton steps apply.
    of_margins : bool
        Whether l is a function of margins, which have kinks from three classes on.
    squared : bool
        Whether it is the square, of which moments know more than of others.
    """

    smooth: ClassVar[bool] = True
    of_margins: ClassVar[bool] = False
    squared: ClassVar[bool] = False

    def value(self, u: Array) -> Array:
        raise NotImplementedError

    def slope(self, u: Array) -> Array:
        raise NotImplementedError

    def curvature(self, u: Array) -> Array:
        raise NotImplementedError

    def values(self, R: Array, held_out: HeldOut) -> np.ndarray:
        """The criterion for held-out residuals (rows, k, p) of p models; (p,) on the host."""
        return held_out.average(arrays.namespace(R).sum(self.value(R), axis=1))

    def derivatives(self, R: Array, R1: Array, R2: Array, held_out: HeldOut) -> np.ndarray:
        """Value, gradient and second derivative for residuals (rows, k) with theirs."""
        xp, slope = arrays.namespace(R), self.slope(R)
        parts = self.value(R), slope * R1, self.curvature(R) * R1 * R1 + slope * R2
        return held_out.average(xp.stack([xp.sum(part, axis=1) for part in parts], axis=1))

    def slopes(self, R: Array, held_out: HeldOut) -> tuple[Array, Array]:
        """Losses (rows,) of residuals (rows, k), and their derivatives (rows, k)."""
        return arrays.namespace(R).sum(self.value(R), axis=1), self.slope(R)

    def negligible(self, held_out: HeldOut) -> float:
        """A value that means every held-out row is predicted to rounding."""
        mean = (held_out.weight @ held_out.Y) / arrays.namespace(held_out.Y).sum(held_out.weight)
        return 1e-13 * float(self.values((held_out.Y - mean)[:, :, None], held_out)[0])


class MarginLoss(Loss):
    """A loss l(m) of the margin."""

    of_margins = True

    def values(self, R: Array, held_out: HeldOut) -> np.ndarray:
        return held_out.average(self.value(held_out.margins(R)[0]))

    def derivatives(self, R: Array, R1: Array, R2: Array, held_out: HeldOut) -> np.ndarray:
        margin, falls = held_out.margins(R[:, :, None])
        m1, m2 = (-arrays.namespace(R).sum(falls * M, axis=1, keepdims=True) for M in (R1, R2))
        return super().derivatives(margin, m1, m2, held_out)

    def slopes(self, R: Array, held_out: HeldOut) -> tuple[Array, Array]:
        margin, falls = held_out.margins(R[:, :, None])
        value, slope = super().slopes(margin, held_out)
        return value, -slope * falls

    def negligible(self, held_out: HeldOut) -> float:
        return 0.0


class Press(Loss):
    """r^2."""

    squared = True

    def value(self, u: Array) -> Array:
        return u * u

    def slope(self, u: Array) -> Array:
        return 2 * u

    def curvature(self, u: Array) -> Array:
        return 2 * arrays.namespace(u).ones_like(u)


class LogLoss(MarginLoss):
    """log(1 + exp(-4 m))."""

    def value(self, u: Array) -> Array:
        return -log_sigmoid(_SHARPNESS * u)

    def slope(self, u: Array) -> Array:
        return -_SHARPNESS * _sigmoid(-_SHARPNESS * u)

    def curvature(self, u: Array) -> Array:
        p = _sigmoid(-_SHARPNESS * u)
        return _SHARPNESS**2 * p * (1 - p)


class SmoothedError(MarginLoss):
    """1 - 1/(1 + exp(-4 m)), the paper's sigmoid with compression factor 4."""

    def value(self, u: Array) -> Array:
        return 1 - _sigmoid(_SHARPNESS * u)

    def slope(self, u: Array) -> Array:
        f = _sigmoid(_SHARPNESS * u)
        return -_SHARPNESS * f * (1 - f)

    def curvature(self, u: Array) -> Array:
        return _SHARPNESS * self.slope(u) * (1 - 2 * _sigmoid(_SHARPNESS * u))


class Error(MarginLoss):
    """m < 0, counted; priced on the grid only."""

    smooth = False

    def value(self, u: Array) -> Array:
        return arrays.namespace(u).astype(u < 0, u.dtype)


CRITERIA: dict[str, Loss] = {
    "press": Press(),
    "log_loss": LogLoss(),
    "error": Error(),
    "smoothed_error": SmoothedError(),
}


@dataclass(frozen=True)
class CalledLoss(MarginLoss):
    """A user's ``loss(y, decision, sample_weight)`` of all held-out rows at once."""

    function: Callable[..., float]

    smooth: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "callable")

    def values(self, R: Array, held_out: HeldOut) -> np.ndarray:
        decisions = held_out.decisions(R)
        return np.asarray([self._call(decisions[:, :, j], held_out) for j in range(R.shape[2])])

    def _call(self, decision: Array, held_out: HeldOut) -> float:
        shown = decision[:, 0] if decision.shape[1] == 1 else decision
        value = self.function(held_out.labels, shown, held_out.weight)
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = np.nan
        if not np.isfinite(number):
            raise ValueError(
                f"criterion {self.name!r} returned {reprlib.repr(value)} for held-out decisions; "
                "it must return a finite number to be minimised."
            )
        return number


@stored("criterion")
@dataclass(frozen=True)
class Criterion:
    """The loss of a name, or of a callable ``loss(y, decision, sample_weight)``, on some rows."""

    rule: str | Callable[..., float]
    held_out: HeldOut

    @property
    def loss(self) -> Loss:
        return CalledLoss(self.rule) if callable(self.rule) else CRITERIA[self.rule]

    @property
    def name(self) -> str:
        return CalledLoss(self.rule).name if callable(self.rule) else self.rule

    @property
    def smooth(self) -> bool:
        """Whether Newton steps apply."""
        return self.loss.smooth

    @property
    def baseline(self) -> float:
        """The criterion of the model without a kernel: the mean of the rows trained on."""
        return float(self.of_residuals((self.held_out.Y - self.held_out.mean)[:, :, None])[0])

    @cached_property
    def negligible(self) -> float:
        """A value that means every held-out row is predicted to rounding."""
        return self.loss.negligible(self.held_out)

    def values(self, path: RidgePath, mus: Sequence[float]) -> np.ndarray:
        """The criterion at each mu; O(n r k) per mu."""
        return self.of_residuals(path.held_out(mus, self.held_out.folds))

    def of_residuals(self, R: Array) -> np.ndarray:
        """The criterion for held-out residuals (rows, k, p) of p models; (p,) on the host."""
        return self.loss.values(R, self.held_out)

    def derivatives(self, path: RidgePath, log_mu: float) -> tuple[float, float, float]:
        """Value, gradient and second derivative in log mu; O(n r k)."""
        held_out = path.held_out_derivatives(float(np.exp(log_mu)), self.held_out.folds)
        value, gradient, hessian = self.of_derivatives(*held_out).tolist()
        return value, gradient, hessian

    def of_derivatives(self, R: Array, R1: Array, R2: Array) -> np.ndarray:
        """Value, gradient and second derivative for held-out residuals (rows, k) with theirs."""
        return self.loss.derivatives(R, R1, R2, self.held_out)

    def slopes(self, R: Array) -> tuple[Array, Array]:
        """Losses (rows,) of residuals R (rows, k) of one model, and their derivatives (rows, k).

        The criterion is the weighted mean of the losses.
        """
        return self.loss.slopes(R, self.held_out)


@stored("problem")
@dataclass(frozen=True)
class Problem:
    """A design, targets Y (n, k) and a criterion: leave-one-out if there is nothing to choose."""

    design: Design
    Y: Array
    criterion: Criterion

    def take(self, rows: np.ndarray) -> Problem:
        """The problem of some of the rows, left out one at a time."""
        xp, design = arrays.namespace(self.Y), self.design
        place = arrays.indices(rows, self.Y)
        weights, Y = design.weights.take(place), xp.take(self.Y, place, axis=0)
        seen = self.criterion.held_out
        held_out = HeldOut.leave_one_out(Y, weights, balanced=seen.balanced)
        design = replace(design, gram=design.gram.taken(rows), weights=weights)
        return Problem(design, Y, replace(self.criterion, held_out=held_out))
