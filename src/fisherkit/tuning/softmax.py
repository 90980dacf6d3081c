"""Decisions of three and more classes: a softmax of left-out scores.

With Z (n, k) the `centred` left-out scores, the logits of the rows are

    u = g W + c,   g = a Z + b,   p = softmax(u).

*Scalar form.* a > 0 and b are those of `fit_scalar`, against labels smoothed by 1/n. Where a ends
on its lower bound the scores say nothing: b are the class shares, W = I and c = 0.

*Matrix form.* W (k, k) and c (k,) minimise, strictly convexly,

    sum_i w_i [ log sum_c exp u_ic - u_iy(i) ] + ridge/2 |W - I|^2 + ridge/20 |c|^2

for the labels y as they are. The weights w_i count copies; class costs, and the weights that make
classes equally frequent, enter through shares, so that w adds up to the number of rows. The ridge
is absolute: it says how far W is from I beforehand, whatever the number of rows.

Beyond 50 classes W = diag(d) + A M B', where A and B (k, 20) are the leading singular vectors of
the derivative of the first sum in W at W = I. Free are d, M (20, 20) and c, and |W - I|^2 is then
|d - 1|^2 + |M|^2. Another restriction of W is a class with the methods of `Shape`.

*The ridge* is the best of `RIDGES` in 5-fold cross-validation on g. Rows belong to folds by what g
says of them and of their class: copies of a row share a fold, whatever their order, number and
weight. Where the scores of all rows are more than `_SAMPLE` numbers, rows chosen in the same way
stand for them in this choice, and in it alone. The log-loss and the error on the folds' own rows
are *cross-fitted*: a, b and the model have seen these rows, W and c have not.

The last fit needs sums over rows only (`Parts`); a Newton step solves for its direction by
conjugate gradients, O(n k^2) each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from fisherkit.core import Array, arrays
from fisherkit.stored import stored
from fisherkit.tuning.calibrate import Slope, Status
from fisherkit.tuning.likelihood import (
    Likelihood,
    LocalParts,
    Parts,
    fit_scalar,
    log_normaliser,
)

RIDGES = (30.0, 10.0, 3.0, 1.0)
DENSE = 50  # classes up to which W is free
_RANK = 20  # of what W has beside its diagonal, beyond
_OFFSET = math.sqrt(10.0)  # the unit in which c costs as much as W
_FOLDS = 5
_SAMPLE = 1 << 18  # logits on which the ridge is chosen
_FINE = 1e3  # logits are told apart by folds if they differ by about 1 / _FINE
_STEPS = 50  # Newton steps
_PRODUCTS = 200  # with the Hessian, for one step
_LOOSE, _TIGHT = 1e-3, 1e-22  # squared Newton decrement, in nats, at which a fit ends
_TIED = 1e-10  # relative difference of log-losses that is rounding


@stored("softmax")
@dataclass(frozen=True)
class Softmax(Slope):
    """From centred left-out scores Z to logits (a Z + b) W + c; decisions are these logits.

    Attributes
    ----------
    value : float
        One: decisions are logits as they are.
    status : Status
        Its value is a sentence.
    slope : float
        a of the scalar form.
    offset : (n_classes,)
        b of the scalar form.
    matrix : (n_classes, n_classes)
        W.
    shift : (n_classes,)
        c.
    ridge : float
        How strongly W is drawn to the identity, chosen from 1, 3, 10 and 30.
    log_loss, error : float
        Mean log-loss, and share of wrong answers, of rows that W and c were not fitted to (by 5
        folds). They are weighted as the fit is, and NaN where the scores of all rows are alike.
    rows : int
        The rows of which these are means.
    """

    slope: float
    offset: Array
    matrix: Array
    shift: Array
    ridge: float
    log_loss: float
    error: float
    rows: int

    def __call__(self, Z: Array) -> Array:
        """Logits (n, k) of centred scores."""
        return (self.slope * Z + self.offset) @ self.matrix + self.shift


class _Chosen(NamedTuple):
    """A ridge, and the cross-fitted log-loss and error of so many rows, where it was chosen."""

    ridge: float
    log_loss: float = math.nan
    error: float = math.nan
    rows: int = 0


class MatrixForm(NamedTuple):
    """W, c, and the ridge with what its choice has seen."""

    matrix: Array
    shift: Array
    chosen: _Chosen


def fit_softmax(
    parts: Parts, scores: Sequence[Any], prior: Array, ridge: float | None = None
) -> Softmax:
    """Both forms, from a column of (`meaningful`, centred) scores (b, k); ``ridge`` may be known.

    Parts are `Likelihood`s; ``prior`` are the logits of all rows' best constant.
    """
    stacked = parts.each(_stacked, [scores])
    found = fit_scalar(parts, stacked, prior)
    a, b = float(found.slope[0]), found.offset[:, 0]
    if bool(found.bounded[0]):  # scores say nothing that a matrix could improve
        return untold(Status.FLAT, a, prior)
    logits = parts.each(_scalar_logits, [scores], a, b)
    return _softmax(Status.LOG_ODDS, a, b, fit_matrix(parts, logits, prior.shape[0], ridge))


def untold(status: Status, slope: float, prior: Array) -> Softmax:
    """W = I and offsets b that are the best constant, free of rounding that would break ties."""
    identity = arrays.like(np.eye(prior.shape[0]), prior)
    offset = arrays.namespace(prior).round(prior * 1e12) / 1e12
    return _softmax(status, slope, offset, MatrixForm(identity, 0 * prior, _Chosen(RIDGES[0])))


def fit_pooled(parts: Parts, logits: Sequence[Any], like: Array) -> Softmax:
    """The matrix form alone, on a column of logits (b, k) that need no scalar form."""
    found = fit_matrix(parts, logits, like.shape[0])
    return _softmax(Status.LOG_ODDS, 1.0, 0 * like, found)


def _softmax(status: Status, slope: float, offset: Array, found: MatrixForm) -> Softmax:
    return Softmax(
        value=1.0,
        status=status,
        slope=slope,
        offset=offset,
        matrix=found.matrix,
        shift=found.shift,
        **found.chosen._asdict(),
    )


def fit_matrix(
    parts: Parts, logits: Sequence[Any], k: int, ridge: float | None = None
) -> MatrixForm:
    """The matrix form on a column of logits (b, k); its ridge by cross-validation, if not known."""
    (sample,) = parts.total(_gathered, [logits], k)
    chosen = _Chosen(ridge) if ridge is not None else _Folds.of(sample).choose()
    shape = _shape(parts, logits, k)
    theta = _newton(parts, logits, shape, chosen.ridge, shape.home(sample.reference), _TIGHT)
    return MatrixForm(*shape.matrix(theta), chosen)


class Shape(Protocol):
    """What W may be: logits are linear in the parameters theta (q,), which begin at ``home``."""

    def home(self, reference: Array) -> Array: ...

    def matrix(self, theta: Array) -> tuple[Array, Array]:
        """W and c."""
        ...

    def logits(self, g: Array, theta: Array) -> Array: ...

    def pull(self, g: Array, S: Array) -> Array:
        """Derivatives in theta (q,), from those S (b, k) in the logits."""
        ...

    def bent(self, g: Array, S: Array) -> Array:
        """What `relaxed` needs of rows whose second derivative in each logit is S (b, k)."""
        ...

    def relaxed(self, bent: Array, ridge: float) -> Callable[[Array], Array]:
        """About H^-1 v for the Hessian H of the loss and the ridge, by the sum of `bent`."""
        ...


@dataclass(frozen=True)
class Full:
    """W and c / sqrt 10 as they are."""

    k: int

    def home(self, reference: Array) -> Array:
        both = np.vstack([np.eye(self.k), np.zeros((1, self.k))])
        return arrays.like(both.ravel(), reference)

    def matrix(self, theta: Array) -> tuple[Array, Array]:
        both = arrays.namespace(theta).reshape(theta, (self.k + 1, self.k))
        return both[:-1, :], _OFFSET * both[-1, :]

    def logits(self, g: Array, theta: Array) -> Array:
        W, c = self.matrix(theta)
        return g @ W + c

    def pull(self, g: Array, S: Array) -> Array:
        return _flat(g.T @ S, _OFFSET * (arrays.namespace(g).ones_like(g[:, 0]) @ S))

    def bent(self, g: Array, S: Array) -> Array:
        """What couples the parameters of each class, (k, k + 1, k + 1)."""
        xp = arrays.namespace(g)
        both = xp.concat([g, _OFFSET * xp.ones_like(g[:, :1])], axis=1)
        return xp.stack([(S[:, c, None] * both).T @ both for c in range(self.k)], axis=0)

    def relaxed(self, bent: Array, ridge: float) -> Callable[[Array], Array]:
        xp = arrays.namespace(bent)
        inverses = xp.linalg.inv(bent + ridge * arrays.unit_matrix(self.k + 1, bent))

        def solved(v: Array) -> Array:
            columns = xp.reshape(v, (self.k + 1, self.k)).T[:, :, None]
            return xp.reshape((inverses @ columns)[:, :, 0].T, (-1,))

        return solved


@dataclass(frozen=True)
class LowRank:
    """W = diag(d) + A M B'; the parameters are d, M and c / sqrt 10."""

    A: Array
    B: Array

    @classmethod
    def of(cls, derivative: Array) -> LowRank:
        """A and B from the derivative (k, k) of the loss in W at the identity."""
        A, _, Bh = arrays.namespace(derivative).linalg.svd(derivative)
        return cls(A[:, :_RANK], Bh[:_RANK, :].T)

    def home(self, reference: Array) -> Array:
        k, r = self.A.shape
        return arrays.like(np.concatenate([np.ones(k), np.zeros(r * r + k)]), reference)

    def _parts(self, theta: Array) -> tuple[Array, Array, Array]:
        k, r = self.A.shape
        M = arrays.namespace(theta).reshape(theta[k : k + r * r], (r, r))
        return theta[:k], M, _OFFSET * theta[k + r * r :]

    def matrix(self, theta: Array) -> tuple[Array, Array]:
        d, M, c = self._parts(theta)
        return arrays.like(np.eye(self.A.shape[0]), d) * d + self.A @ M @ self.B.T, c

    def logits(self, g: Array, theta: Array) -> Array:
        d, M, c = self._parts(theta)
        return g * d + (g @ self.A) @ M @ self.B.T + c

    def pull(self, g: Array, S: Array) -> Array:
        xp = arrays.namespace(S)
        inner = (g @ self.A).T @ (S @ self.B)
        return _flat(xp.sum(g * S, axis=0), inner, _OFFSET * xp.sum(S, axis=0))

    def bent(self, g: Array, S: Array) -> Array:
        """About the diagonal of the Hessian, (q,)."""
        xp = arrays.namespace(S)
        inner = ((g @ self.A) ** 2).T @ (S @ self.B**2)
        return _flat(xp.sum(g * g * S, axis=0), inner, _OFFSET**2 * xp.sum(S, axis=0))

    def relaxed(self, bent: Array, ridge: float) -> Callable[[Array], Array]:
        return lambda v: v / (bent + ridge)


def _shape(parts: Parts, logits: Sequence[Any], k: int) -> Shape:
    """What W is for so many classes."""
    return Full(k) if k <= DENSE else LowRank.of(parts.total(_derivative, [logits])[0])


def _flat(*parts: Array) -> Array:
    xp = arrays.namespace(parts[0])
    return xp.concat([xp.reshape(part, (-1,)) for part in parts], axis=0)


def _newton(
    parts: Parts, logits: Sequence[Any], shape: Shape, ridge: float, theta: Array, enough: float
) -> Array:
    """The parameters of least loss from theta: Newton steps, halved until they descend."""
    xp, home = arrays.namespace(theta), shape.home(theta)

    def objective(at: Array) -> float:
        away = at - home
        return float(parts.total(_loss, [logits], shape, at)[0]) + 0.5 * ridge * float(away @ away)

    value = objective(theta)
    for _ in range(_STEPS):
        P = parts.each(_probabilities, [logits], shape, theta)
        gradient, bent = parts.total(_slopes, [logits, P], shape)
        gradient = gradient + ridge * (theta - home)
        relaxed = shape.relaxed(bent, ridge)

        def curved(v: Array, P: Sequence[Any] = P) -> Array:
            return parts.total(_curvature, [logits, P], shape, v)[0] + ridge * v

        if float(gradient @ relaxed(gradient)) <= 0:
            break
        step = _solve(curved, gradient, relaxed, enough)
        decrement = float(gradient @ step)
        length, slack = 1.0, 1e-14 * abs(value) + 1e-300
        while length > 1e-9:
            trial = theta - length * step
            new = objective(trial)
            # The last steps gain less than rounding hides.
            if new <= value + slack or decrement <= 1e-9 * max(1.0, abs(value)):
                break
            length /= 2
        else:
            break
        theta, value = trial, new
        if length == 1.0 and decrement <= enough:
            break
    return xp.where(xp.isfinite(theta), theta, home)


def _solve(
    curved: Callable[[Array], Array],
    b: Array,
    relaxed: Callable[[Array], Array],
    enough: float,
) -> Array:
    """H^-1 b by conjugate gradients, the more exactly the smaller b; ``relaxed`` preconditions.

    What remains of the squared decrement need not be less than a tenth of ``enough``.
    """
    x, r = 0 * b, b
    z = relaxed(r)
    p, size = z, float(r @ z)
    target = max(size * min(1e-2, size), 0.1 * enough)
    for _ in range(_PRODUCTS):
        Hp = curved(p)
        step = size / float(p @ Hp)
        x, r = x + step * p, r - step * Hp
        z = relaxed(r)
        before, size = size, float(r @ z)
        if size <= target:
            break
        p = z + (size / before) * p
    return x


def _labels(rows: Likelihood) -> Array:
    """0/1 labels (b, k): the largest of the smoothed ones."""
    xp = arrays.namespace(rows.target)
    top = xp.max(rows.target, axis=1, keepdims=True)
    return xp.astype(rows.target == top, rows.target.dtype)


def _weights(rows: Likelihood) -> Array:
    return rows.total * rows.share


def _cross_entropy(u: Array, labels: Array) -> Array:
    """-log p of each row's own class, (b,)."""
    norm, _ = log_normaliser(u[:, :, None])
    return norm[:, 0] - arrays.namespace(u).sum(labels * u, axis=1)


def _loss(rows: Likelihood, pieces: Sequence[Array], shape: Shape, theta: Array) -> tuple[Array]:
    u = shape.logits(pieces[0], theta)
    return (_weights(rows) @ _cross_entropy(u, _labels(rows)),)


def _probabilities(rows: Likelihood, pieces: Sequence[Array], shape: Shape, theta: Array) -> Array:
    return log_normaliser(shape.logits(pieces[0], theta)[:, :, None])[1][:, :, 0]


def _slopes(rows: Likelihood, pieces: Sequence[Array], shape: Shape) -> tuple[Array, Array]:
    """The gradient of the loss in theta, and what the shape wants of its Hessian."""
    (g, P), w = pieces, _weights(rows)[:, None]
    return shape.pull(g, w * (P - _labels(rows))), shape.bent(g, w * P * (1 - P))


def _curvature(rows: Likelihood, pieces: Sequence[Array], shape: Shape, v: Array) -> tuple[Array]:
    """The Hessian of the loss in theta, times v."""
    g, P = pieces
    # Logits move by J v, probabilities by (diag p - p p') J v.
    Pv = P * (shape.logits(g, v))
    moved = Pv - P * (Pv @ arrays.namespace(P).ones_like(P[0, :]))[:, None]
    return (shape.pull(g, _weights(rows)[:, None] * moved),)


def _derivative(rows: Likelihood, pieces: Sequence[Array]) -> tuple[Array]:
    """The derivative (k, k) of the loss in W at W = I."""
    g = pieces[0]
    P = log_normaliser(g[:, :, None])[1][:, :, 0]
    return (g.T @ (_weights(rows)[:, None] * (P - _labels(rows))),)


def _stacked(rows: Likelihood, pieces: Sequence[Array]) -> Array:
    return pieces[0][:, :, None]


def _scalar_logits(rows: Likelihood, pieces: Sequence[Array], a: float, b: Array) -> Array:
    return a * pieces[0] + b


# The choice of the ridge


@dataclass(frozen=True)
class _Gathered:
    """Logits g (s, k), labels and weights (s,) of some rows on the host; sums put them together.

    ``reference`` is an (empty) array of where the rows come from.
    """

    g: np.ndarray
    y: np.ndarray
    w: np.ndarray
    reference: Array

    def __add__(self, other: Self) -> _Gathered:
        g, y, w = (
            np.concatenate(pair)
            for pair in ((self.g, other.g), (self.y, other.y), (self.w, other.w))
        )
        return _Gathered(g, y, w, self.reference)


def _gathered(rows: Likelihood, pieces: Sequence[Array], k: int) -> tuple[_Gathered]:
    """Rows that stand for all: every one, or those whose mark is low where there are many."""
    g = np.asarray(arrays.to_numpy(pieces[0]), dtype=np.float64)
    y = np.argmax(arrays.to_numpy(rows.target), axis=1)
    w = np.asarray(arrays.to_numpy(_weights(rows)), dtype=np.float64)
    share, some = _SAMPLE / (k * max(rows.total, 1.0)), w > 0
    if share < 1:
        some &= _marks(g, y, math.sqrt(3), math.sqrt(5)) < share
    return (_Gathered(g[some], y[some], w[some], rows.share[:0]),)


def _marks(g: np.ndarray, y: np.ndarray, first: float, second: float) -> np.ndarray:
    """A number in [0, 1) of each row that looks random, from the logits of its class and of all.

    Order, number and names of rows and classes do not matter, and rounding seldom does.
    """
    own = g[np.arange(len(g)), y] - g.mean(axis=1)
    return (_FINE * (first * own + second * g.std(axis=1))) % 1.0


class _Folds(NamedTuple):
    """A sample, and the fold of each of its rows."""

    sample: _Gathered
    fold: np.ndarray

    @classmethod
    def of(cls, sample: _Gathered) -> _Folds:
        marks = _marks(sample.g, sample.y, math.sqrt(2), math.pi)
        return cls(sample, (_FOLDS * marks).astype(int))

    def choose(self) -> _Chosen:
        """The ridge of least log-loss, the largest of equals, or where there are no folds."""
        w, judged = self.sample.w, np.zeros(len(self.fold), dtype=bool)
        total = np.zeros((len(RIDGES), 2))
        for number in range(_FOLDS):
            test = self.fold == number
            if test.any() and not test.all():
                judged |= test
                total += self._judge(test)
        if not judged.any():
            return _Chosen(RIDGES[0])
        losses, errors = total.T / w[judged].sum()
        best = int(np.flatnonzero(losses <= losses.min() * (1 + _TIED))[0])
        return _Chosen(RIDGES[best], float(losses[best]), float(errors[best]), int(judged.sum()))

    def _judge(self, test: np.ndarray) -> np.ndarray:
        """Sums of log-loss and of errors of the rows tested, for each ridge; (ridges, 2)."""
        sample, k, reference = self.sample, self.sample.g.shape[1], self.sample.reference
        labels, total = np.eye(k)[sample.y], float(sample.w.sum())

        def of(rows: np.ndarray) -> tuple[Array, Array, Array]:
            columns = sample.g[rows], labels[rows], sample.w[rows] / total
            g, own, share = (arrays.like(column, reference) for column in columns)
            return g, own, share

        (g, own, share), (unseen, truth, weight) = of(~test), of(test)
        parts, sums = LocalParts([Likelihood(own, share, total)]), []
        shape = _shape(parts, [g], k)
        theta = shape.home(g)
        for ridge in RIDGES:  # each from the one before
            theta = _newton(parts, [g], shape, ridge, theta, _LOOSE)
            u = shape.logits(unseen, theta)
            right = arrays.to_numpy(u).argmax(axis=1) == sample.y[test]
            loss = float(weight @ _cross_entropy(u, truth))
            sums.append([total * loss, sample.w[test] @ ~right])
        return np.array(sums)
