"""Which columns matter to a kernel, by the slopes of a fit, and whether knowing it helps.

Of f at a width and mu that are known, column j has the relevance

    g_j = mean over rows of sum_k (df_k/dx_j)^2,

and is scaled by s_j = sqrt(g_j / max g), at least 1e-3, rescaled to |s| = sqrt(d); twice. (The
diagonal of the average gradient outer product.)

The labels have chosen s, so that leave-one-out of fits to scaled columns is no honest price:
relevance is learned without a fold, and scores of its rows come from that (`LearnedFold`). By these
`choose_strength` decides whether to scale columns at all, by s or by a power of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fisherkit.core import (
    FREE,
    Array,
    Bias,
    Distinct,
    Kernel,
    Weights,
    arrays,
    coefficients_at,
    race,
)
from fisherkit.stored import stored
from fisherkit.tuning.select import log

FOLDS = 4
STRENGTHS = (0.5, 1.0)  # powers of s that compete with columns as they are

_ROUNDS = 2
_LEAST = 1e-3  # of the largest scale
_CLEARLY = 0.5  # standard errors by which scaled columns must be better

RECORD_DTYPE = [("strength", float), ("gain", float), ("standard_error", float)]


class NotSolvedError(Exception):
    """A kernel matrix that is not positive definite to rounding."""


def deal(
    X: Array, weights: Weights, index: np.ndarray, groups: np.ndarray | None = None
) -> list[np.ndarray]:
    """Rows of each fold, by their values: copies, and rows of a group, share one.

    Each class is spread over the folds, whatever the order of the rows. ``index`` (n,) are classes.
    """
    distinct = Distinct.rows(X)
    unit = distinct.group
    if groups is not None:
        unit = np.unique(groups, return_inverse=True)[1]
    u, k = int(unit.max()) + 1, int(index.max()) + 1
    copies = np.bincount(unit * k + index, arrays.to_numpy(weights.frequency), minlength=u * k)
    classes = np.argmax(copies.reshape(u, k), axis=1)
    keys = np.zeros(u, dtype=np.uint64)  # of a group: a sum over its different rows
    pairs = np.unique(np.column_stack([unit, distinct.group]), axis=0)
    np.add.at(keys, pairs[:, 0], distinct.key[pairs[:, 1]])
    fold = np.empty(u, dtype=int)
    fold[np.lexsort((race(keys, np.ones(u), 0), classes))] = np.arange(u) % FOLDS
    found = [np.flatnonzero(fold[unit] == number) for number in range(FOLDS)]
    return [rows for rows in found if 0 < len(rows) < len(unit)]


@dataclass(frozen=True)
class SeenRows:
    """Rows as a kernel sees them, with targets and weights, and the bias of fits to them."""

    X: Array
    Y: Array
    weights: Weights
    bias: Bias = FREE

    def take(self, rows: np.ndarray) -> SeenRows:
        place = arrays.indices(rows, self.X)
        X, Y = (arrays.take_rows(array, place) for array in (self.X, self.Y))
        return replace(self, X=X, Y=Y, weights=self.weights.take(place))

    def scaled(self, scale: np.ndarray) -> SeenRows:
        return replace(self, X=self.X * arrays.like(scale, self.X))

    def fit(self, kernel: Kernel, mus: Sequence[float]) -> tuple[Array, Array]:
        """Coefficients (n, k, q) and intercepts (k, q) at several mu."""
        xp, K = arrays.namespace(self.X), kernel.block(self.X, self.X)
        coefs, intercepts = [], []
        for number, mu in enumerate(mus):
            last = number + 1 == len(mus)
            found = coefficients_at(K if last else K + 0.0, self.Y, self.weights, self.bias, mu)
            if found is None:
                raise NotSolvedError
            coefs.append(found[0])
            intercepts.append(found[1])
        return xp.stack(coefs, axis=2), xp.stack(intercepts, axis=1)

    def relevance(self, kernel: Kernel, mu: float) -> np.ndarray:
        """The scale of each column, (d,)."""
        family, xp = kernel.stationary, arrays.namespace(self.X)
        assert family is not None
        share = self.weights.v / self.weights.mass
        scale = np.ones(self.X.shape[1])
        for _ in range(_ROUNDS):
            rows = self.scaled(scale)
            coef = rows.fit(kernel, [mu])[0][:, :, 0]
            slopes = family.slopes(rows.X, coef, kernel.gamma)
            gradient = [float(share @ xp.sum(slope * slope, axis=1)) for slope in slopes]
            size = scale * np.sqrt(np.asarray(gradient))
            if not size.max() > 0:
                return np.ones(len(size))
            scale = of_usual_length(np.maximum(size / size.max(), _LEAST))
        return scale


def of_usual_length(scale: np.ndarray) -> np.ndarray:
    """The scale (d,) with |s| = sqrt(d)."""
    return scale * (len(scale) ** 0.5 / np.linalg.norm(scale))


@dataclass(frozen=True)
class LearnedFold:
    """Rows that learn, the others at their ``places``, and the scale that was learned, (p,)."""

    rows: SeenRows
    others: Array
    places: np.ndarray
    scale: np.ndarray

    def scores(self, kernel: Kernel, mus: Sequence[float], scale: np.ndarray | float) -> Array:
        """Scores (b, k, q) of the others, columns scaled so."""
        size = arrays.like(scale * np.ones(self.others.shape[1]), self.others)
        rows = replace(self.rows, X=self.rows.X * size)
        coef, intercept = rows.fit(kernel, mus)
        K = kernel.block(self.others * size, rows.X)
        b, (n, k, q) = K.shape[0], coef.shape
        xp = arrays.namespace(K)
        return xp.reshape(K @ xp.reshape(coef, (n, k * q)), (b, k, q)) + intercept

    @property
    def mean(self) -> Array:
        """Mean targets of the rows that learn, (k,)."""
        return self.rows.weights.mean(self.rows.Y)


def learned_folds(
    rows: SeenRows, kernel: Kernel, mu: float, folds: Sequence[np.ndarray]
) -> list[LearnedFold]:
    """What the rows without each fold learn at a width and mu."""
    found = []
    for places in folds:
        inside = rows.take(np.setdiff1d(np.arange(rows.X.shape[0]), places))
        others = arrays.take_rows(rows.X, arrays.indices(places, rows.X))
        found.append(LearnedFold(inside, others, places, inside.relevance(kernel, mu)))
    return found


def joined(folds: Sequence[np.ndarray], parts: Sequence[Array]) -> Array:
    """What is known of the rows of each fold, as one array of all rows."""
    order = np.argsort(np.concatenate(folds), kind="stable")
    both = arrays.namespace(parts[0]).concat(list(parts), axis=0)
    return arrays.take_rows(both, arrays.indices(order, both))


@stored("widths of features")
@dataclass(frozen=True)
class Widths:
    """The power of the relevances that scales columns, and how the powers compared.

    ``strength`` 0 leaves one width for all columns. ``spread`` is the standard deviation of the log
    relevances. ``record`` has fields strength, gain (of the mean loss, over one width for all, on
    rows that had no part in the relevances) and standard_error.
    """

    strength: float
    spread: float
    record: np.ndarray

    @classmethod
    def one(cls) -> Widths:
        """One width for all, with nothing compared."""
        return cls(0.0, 0.0, np.empty(0, dtype=RECORD_DTYPE))


def choose_strength(
    folds: Sequence[LearnedFold],
    kernel: Kernel,
    mu: float,
    losses: Callable[[Array], np.ndarray],
    weights: Weights,
) -> tuple[float, np.ndarray]:
    """The power of the scale that is best for rows that had no part in it, and the record.

    It is 0 unless another is better by half a standard error of the paired difference. ``losses``
    are those of all rows (n,) for scores (n, k).
    """
    places = [fold.places for fold in folds]

    def loss(strength: float) -> np.ndarray:
        scales = [of_usual_length(fold.scale**strength) for fold in folds]
        parts = [
            fold.scores(kernel, [mu], scale) for fold, scale in zip(folds, scales, strict=True)
        ]
        return losses(joined(places, parts)[:, :, 0])

    share = arrays.to_numpy(weights.v) / weights.mass
    plain = loss(0.0)
    compared = [(0.0, 0.0, 0.0)]
    for strength in STRENGTHS:
        difference = plain - loss(strength)
        gain = float(difference @ share)
        error = (float((difference - gain) ** 2 @ share) / weights.total) ** 0.5
        compared.append((strength, gain, error))
        log.info("columns scaled by relevance^%.3g: gain %.4g +- %.2g", *compared[-1])
    record = np.array(compared, dtype=RECORD_DTYPE)
    best = record[np.argmax(record["gain"])]
    clear = best["gain"] > _CLEARLY * best["standard_error"]
    return (float(best["strength"]) if clear else 0.0), record
