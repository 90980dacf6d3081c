"""What selection minimises: functions of held-out scores, with derivatives in log mu.

A criterion is the weighted mean over held-out rows of a loss of the residual (press) or of the
margin m: the signed decision s (f - t) for two classes, the score of the true class minus the best
other score for more. Given the held-out residuals R and their derivatives R', R'' in log mu,

    Q = mean l(m),   Q' = mean l'(m) m',   Q'' = mean l''(m) m'^2 + l'(m) m''.

Available criteria: ``press`` (r^2, summed over columns), ``log_loss`` (log(1 + exp(-4 m))),
``smoothed_error`` (1 - 1/(1 + exp(-4 m)), the paper's sigmoid with compression factor 4),
``error`` (m < 0, counted; priced on the grid only).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fisherkit.core import Array, DenseResolvent, Fold, Ridge, RidgePath, Weights, arrays
from fisherkit.stored import stored

CRITERIA = ("press", "log_loss", "error", "smoothed_error")

_SHARPNESS = 4.0  # k of log_loss and the compression factor of smoothed_error


def _sigmoid(x: Array) -> Array:
    xp = arrays.namespace(x)
    t = xp.exp(-xp.abs(x))  # never overflows
    return xp.where(x >= 0, 1 / (1 + t), t / (1 + t))


def log_sigmoid(x: Array) -> Array:
    """log(1/(1 + exp(-x))) without overflow."""
    xp = arrays.namespace(x)
    return xp.where(x < 0, x, xp.zeros_like(x)) - xp.log1p(xp.exp(-xp.abs(x)))


def _log_loss(m: Array) -> tuple[Array, Array, Array]:
    k = _SHARPNESS
    p = _sigmoid(-k * m)
    return -log_sigmoid(k * m), -k * p, k * k * p * (1 - p)


def _smoothed_error(m: Array) -> tuple[Array, Array, Array]:
    k = _SHARPNESS
    f = _sigmoid(k * m)
    slope = k * f * (1 - f)
    return 1 - f, -slope, -k * slope * (1 - 2 * f)


_MARGIN_LOSSES = {"log_loss": _log_loss, "smoothed_error": _smoothed_error}


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
    """

    Y: Array
    mean: Array
    threshold: Array
    weight: Array
    folds: Sequence[Fold] | None = None
    labels: Any = None

    @classmethod
    def leave_one_out(
        cls, Y: Array, weights: Weights, *, balanced: bool, labels: Any = None
    ) -> HeldOut:
        """Every row of Y (n, k) once."""
        mean = weights.fold_mean(Y)
        threshold = mean if balanced else arrays.namespace(Y).zeros_like(Y)
        return cls(Y, mean, threshold, weights.v, labels=labels)


@stored("criterion")
@dataclass(frozen=True)
class Criterion:
    """A named criterion, or a callable ``loss(y, decision, sample_weight)`` to be minimised."""

    rule: str | Callable[..., float]
    held_out: HeldOut

    @property
    def name(self) -> str:
        return (
            self.rule if isinstance(self.rule, str) else getattr(self.rule, "__name__", "callable")
        )

    @property
    def smooth(self) -> bool:
        """Whether Newton steps apply."""
        return self.rule in ("press", *_MARGIN_LOSSES)

    @property
    def baseline(self) -> float:
        """The criterion of the model without a kernel: the mean of the rows trained on."""
        return float(self.of_residuals((self.held_out.Y - self.held_out.mean)[:, :, None])[0])

    @cached_property
    def negligible(self) -> float:
        """A value that means every held-out row is predicted to rounding."""
        if self.rule != "press":
            return 0.0
        Y = self.held_out.Y
        xp = arrays.namespace(Y)
        weight = self.held_out.weight[:, None] / xp.sum(self.held_out.weight)
        spread = Y - xp.sum(weight * Y, axis=0)
        return 1e-13 * float(xp.sum(weight * spread**2))

    def values(self, path: RidgePath, mus: Sequence[float]) -> np.ndarray:
        """The criterion at each mu; O(n r k) per mu."""
        return self.of_residuals(path.held_out(mus, self.held_out.folds))

    def of_residuals(self, R: Array) -> np.ndarray:
        """The criterion for held-out residuals (rows, k, p) of p models; (p,) on the host."""
        xp = arrays.namespace(R)
        if self.rule == "press":
            return self._mean(xp.sum(R * R, axis=1))
        decision = (self.held_out.Y - self.held_out.threshold)[:, :, None] - R
        if callable(self.rule):
            return np.asarray([self._call(decision[:, :, j]) for j in range(R.shape[2])])
        margin, _ = self._margin(decision)
        if self.rule == "error":
            return self._mean(xp.astype(margin < 0, R.dtype))
        return self._mean(_MARGIN_LOSSES[self.name](margin)[0])

    def derivatives(self, path: RidgePath, log_mu: float) -> tuple[float, float, float]:
        """Value, gradient and second derivative in log mu; O(n r k)."""
        held_out = path.held_out_derivatives(float(np.exp(log_mu)), self.held_out.folds)
        value, gradient, hessian = self.of_derivatives(*held_out).tolist()
        return value, gradient, hessian

    def slope(self, ridge: Ridge) -> tuple[float, float]:
        """Leave-one-out criterion of a fit by `ridge.solve` and its gradient in log mu; O(n^2)."""
        xp = arrays.namespace(ridge.Y)
        assert isinstance(ridge.resolvent, DenseResolvent)
        diag1, BY1 = ridge.resolvent.slopes(ridge.BY)
        num = xp.stack([ridge.BY, BY1, xp.zeros_like(BY1)], axis=2)
        den = xp.stack([ridge.B_diag, diag1, xp.zeros_like(diag1)], axis=1)
        value, gradient, _ = self.of_derivatives(
            *ridge.weights.left_out_derivatives(num, den)
        ).tolist()
        return value, gradient

    def of_derivatives(self, R: Array, R1: Array, R2: Array) -> np.ndarray:
        """Value, gradient and second derivative for held-out residuals (rows, k) with theirs."""
        xp = arrays.namespace(R)
        if self.rule == "press":
            parts = (
                xp.sum(R * R, axis=1),
                xp.sum(2 * R * R1, axis=1),
                xp.sum(2 * (R1 * R1 + R * R2), axis=1),
            )
        else:
            decision = self.held_out.Y - self.held_out.threshold - R
            margin, along = self._margin(decision[:, :, None])
            m1, m2 = along(-R1), along(-R2)
            value, slope, curvature = _MARGIN_LOSSES[self.name](margin[:, 0])
            parts = (value, slope * m1, curvature * m1 * m1 + slope * m2)
        return np.concatenate([self._mean(part[:, None]) for part in parts])

    def slopes(self, R: Array) -> tuple[Array, Array]:
        """Losses (rows,) of residuals R (rows, k) of one model, and their derivatives (rows, k).

        The criterion is the weighted mean of the losses.
        """
        xp = arrays.namespace(R)
        if self.rule == "press":
            return xp.sum(R * R, axis=1), 2 * R
        margin, along = self._margin((self.held_out.Y - self.held_out.threshold - R)[:, :, None])
        value, slope, _ = _MARGIN_LOSSES[self.name](margin[:, 0])
        unit = arrays.like(np.eye(R.shape[1]), R)
        towards = xp.stack([along(xp.zeros_like(R) + row) for row in unit], axis=1)
        return value, -slope[:, None] * towards

    def _mean(self, losses: Array) -> np.ndarray:
        """Weighted mean over rows, (rows, p) -> (p,) on the host."""
        weight = self.held_out.weight
        total = arrays.namespace(losses).sum(weight)
        return np.asarray(arrays.to_numpy((weight @ losses) / total), dtype=np.float64)

    def _margin(self, decision: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Margins (rows, p) of decisions (rows, k, p), and the linear map of score changes."""
        xp = arrays.namespace(decision)
        Y = self.held_out.Y
        if Y.shape[1] == 1:
            sign = Y[:, 0]
            return sign[:, None] * decision[:, 0, :], lambda change: sign * change[:, 0]
        own = Y > 0.5
        true = xp.sum(xp.where(own[:, :, None], decision, xp.zeros_like(decision)), axis=1)
        others = xp.where(own[:, :, None], xp.full_like(decision, -float("inf")), decision)
        best = xp.argmax(others[:, :, 0], axis=1)
        classes = arrays.indices(np.arange(Y.shape[1]), Y)
        direction = Y - xp.astype(best[:, None] == classes[None, :], Y.dtype)
        return true - xp.max(others, axis=1), lambda change: xp.sum(direction * change, axis=1)

    def _call(self, decision: Array) -> float:
        assert callable(self.rule)
        one_column = decision.shape[1] == 1
        value = self.rule(
            self.held_out.labels,
            decision[:, 0] if one_column else decision,
            self.held_out.weight,
        )
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
