"""What selection minimises: functions of held-out scores, with derivatives in log mu.

A criterion is the weighted mean over held-out rows of a loss l(u): of the residuals, summed over
columns, or of the margin, the signed decision s (f - t) for two classes, the score of the true
class minus the best other score for more. With the derivatives u', u'' of u in log mu,

    Q = mean l(u),   Q' = mean l'(u) u',   Q'' = mean l''(u) u'^2 + l'(u) u''.

The log-loss of three and more classes is that of probabilities, whose calibration is fitted anew to
all held-out rows at each mu (`CalibratedLogLoss`).

A new loss is a class and its line in `CRITERIA`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fisherkit.core import (
    UNLIMITED,
    Array,
    Design,
    Fold,
    Limits,
    RidgePath,
    Weights,
    arrays,
)
from fisherkit.stored import stored
from fisherkit.tuning.likelihood import (
    DAMPING,
    Calibration,
    Likelihood,
    LocalParts,
    balancing,
    centred,
    fit_scalar,
    log_normaliser,
    meaningful,
    newton_system,
    smoothed_targets,
)

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
        return cls(xp.take(Y, rows, axis=0), mean, threshold, weight, folds, labels)

    def taken(self, rows: Array) -> HeldOut:
        """Some of the rows left out one at a time, with the means of all."""
        xp = arrays.namespace(self.Y)
        return HeldOut(
            Y=xp.take(self.Y, rows, axis=0),
            mean=xp.take(self.mean, rows, axis=0),
            threshold=xp.take(self.threshold, rows, axis=0),
            weight=xp.take(self.weight, rows, axis=0),
        )

    @cached_property
    def balanced(self) -> bool:
        """Whether classes count alike: then, and only then, there are thresholds."""
        return bool(arrays.namespace(self.threshold).any(self.threshold != 0))

    @cached_property
    def likelihood(self) -> Likelihood:
        """The cross-entropy of three and more classes on these rows."""
        xp, weight = arrays.namespace(self.Y), self.weight
        target = smoothed_targets(self.Y, Weights(weight, xp.ones_like(weight)))
        return Likelihood(target, self.shares, float(xp.sum(weight)))

    @property
    def shares(self) -> Array:
        """How much each row counts, classes alike if they are balanced; their sum is one."""
        if self.balanced:
            counts = self.weight @ self.Y
            return self.weight * balancing(self.Y, counts, counts)
        return self.weight / arrays.namespace(self.weight).sum(self.weight)

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
    by_row : bool
        Whether the loss of a row depends on its own residuals alone, so that parts of the rows
        have sums.
    calibrated : bool
        Whether scores are calibrated first, so that their size does not count.
    """

    smooth: ClassVar[bool] = True
    of_margins: ClassVar[bool] = False
    squared: ClassVar[bool] = False
    by_row: ClassVar[bool] = True
    calibrated: ClassVar[bool] = False

    def of_columns(self, k: int) -> Loss:
        """The loss of targets with so many columns: one for two classes, or one for each."""
        return self

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
    """log(1 + exp(-4 m)) of two classes; the `CalibratedLogLoss` of more."""

    def of_columns(self, k: int) -> Loss:
        return self if k == 1 else CalibratedLogLoss()

    def value(self, u: Array) -> Array:
        return -log_sigmoid(_SHARPNESS * u)

    def slope(self, u: Array) -> Array:
        return -_SHARPNESS * _sigmoid(-_SHARPNESS * u)

    def curvature(self, u: Array) -> Array:
        p = _sigmoid(-_SHARPNESS * u)
        return _SHARPNESS**2 * p * (1 - p)


class CalibratedLogLoss(Loss):
    """The least cross-entropy of softmax(a z + b) over a > 0 and b, for indicator scores.

    With Z the `centred` held-out scores and s their root mean square, z = Z / s. The calibration
    (a, b) is that of `fit_scalar` and minimises the mean of l_i = -sum_c t_ic log p_ic, t smoothed
    labels, p = softmax(u), u = a z + b: to first order it stays where it is (envelope theorem), so
    that with q = a (p - t) and means over rows

        dQ/dZ = (q - z mean(q.z)) / s,      Q'' = mean(u'.J u' + q.z'') - h' H^-1 h,   u' = a z'

    where J = diag p - p p', H is the Hessian in (a, b) and h = (mean(z.J u' + (p - t).z'),
    mean(J u')). At a bound a stays, and mean(q.z) does not vanish.
    """

    by_row = False
    calibrated = True

    def values(self, R: Array, held_out: HeldOut) -> np.ndarray:
        Z = _scores(R, held_out)
        loss = _calibrate(Z, held_out).loss
        return np.asarray(arrays.to_numpy(loss), dtype=np.float64)

    def slopes(self, R: Array, held_out: HeldOut) -> tuple[Array, Array]:
        xp = arrays.namespace(R)
        Z, share = _scores(R[:, :, None], held_out)[:, :, 0], held_out.shares
        z, s = _scaled(Z, share)
        a, b, _ = _parameters(_calibrate(z[:, :, None], held_out))
        losses, P = _losses(a * z + b, held_out.likelihood.target)
        q = a * (P - held_out.likelihood.target)
        slope = (z * (share @ xp.sum(q * z, axis=1)) - q) / s
        slope = slope - xp.sum(held_out.mean * slope, axis=1, keepdims=True)  # by `centred`
        # The criterion weighs rows as they are, whatever classes count.
        ratio = share * xp.sum(held_out.weight) / held_out.weight
        return ratio * losses, arrays.cast(ratio[:, None] * slope, R.dtype)

    def derivatives(self, R: Array, R1: Array, R2: Array, held_out: HeldOut) -> np.ndarray:
        xp, share = arrays.namespace(R), held_out.shares
        target = held_out.likelihood.target
        Z = _scores(R[:, :, None], held_out)[:, :, 0]
        Z1, Z2 = (-centred(part, held_out.mean) for part in (R1, R2))
        z, s = _scaled(Z, share)
        found = _calibrate(z[:, :, None], held_out)
        a, b, bounded = _parameters(found)

        def mean(values: Array) -> float:
            return float(share @ xp.sum(values, axis=1))

        # z = Z / s with s^2 = mean Z^2: s' / s and s'' / s, then z' and z''.
        s1 = mean(z * Z1) / s
        s2 = (mean(Z1 * Z1) + mean(Z * Z2)) / s**2 - s1**2
        z1 = Z1 / s - z * s1
        z2 = Z2 / s - 2 * s1 * Z1 / s + z * (2 * s1**2 - s2)
        losses, P = _losses(a * z + b, target)
        u1 = a * z1
        Ju = P * u1 - P * xp.sum(P * u1, axis=1, keepdims=True)
        q = a * (P - target)
        value = float(share @ losses)
        second = mean(u1 * Ju) + mean(q * z2)
        mixed = np.append(mean(z * Ju + (P - target) * z1), arrays.to_numpy(share @ Ju))
        _, _, hessian = newton_system(held_out.likelihood, z[:, :, None], found)
        H = np.asarray(arrays.to_numpy(hessian)[0], dtype=np.float64)
        H = H + DAMPING * np.eye(len(H))
        free = slice(1 if bounded else 0, None)
        second -= float(mixed[free] @ np.linalg.solve(H[free, free], mixed[free]))
        return np.array([value, mean(q * z1), second])

    def negligible(self, held_out: HeldOut) -> float:
        return 0.0


def _scores(R: Array, held_out: HeldOut) -> Array:
    """`centred` held-out scores (rows, k, p) in double precision; rounding is zero."""
    mean = arrays.widen(held_out.mean)
    scores = arrays.widen(held_out.Y)[:, :, None] - arrays.widen(R)
    return meaningful(centred(scores, mean[:, :, None]), arrays.eps(R))


def _scaled(Z: Array, share: Array) -> tuple[Array, float]:
    """Z (rows, k) with a mean square of one, and what it was divided by; Z = 0 stays."""
    s = float(share @ arrays.namespace(Z).sum(Z * Z, axis=1)) ** 0.5 or 1.0
    return Z / s, s


def _calibrate(Z: Array, held_out: HeldOut) -> Calibration:
    rows = held_out.likelihood
    return fit_scalar(LocalParts([rows]), [Z], rows.prior)


def _parameters(found: Calibration) -> tuple[float, Array, bool]:
    """a, b (k,) and whether a is at a bound, of a single model."""
    return float(found.slope[0]), found.offset[:, 0], bool(found.bounded[0])


def _losses(logits: Array, target: Array) -> tuple[Array, Array]:
    """Cross-entropy (rows,) of logits (rows, k), and their probabilities."""
    xp = arrays.namespace(logits)
    norm, P = log_normaliser(logits[:, :, None])
    return norm[:, 0] - xp.sum(target * logits, axis=1), P[:, :, 0]


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
        if callable(self.rule):
            return CalledLoss(self.rule)
        return CRITERIA[self.rule].of_columns(self.held_out.Y.shape[1])

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
    """A design, targets Y (n, k) and a criterion: leave-one-out if there is nothing to choose.

    ``limits`` are those of the fit to all rows.
    """

    design: Design
    Y: Array
    criterion: Criterion
    limits: Limits = UNLIMITED

    def take(self, rows: np.ndarray) -> Problem:
        """The problem of some of the rows, left out one at a time."""
        xp, design = arrays.namespace(self.Y), self.design
        place = arrays.indices(rows, self.Y)
        weights, Y = design.weights.take(place), xp.take(self.Y, place, axis=0)
        seen = self.criterion.held_out
        held_out = HeldOut.leave_one_out(Y, weights, balanced=seen.balanced)
        design = replace(design, gram=design.gram.taken(rows), weights=weights)
        return Problem(design, Y, replace(self.criterion, held_out=held_out))
