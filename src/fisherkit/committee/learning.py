"""Kernels that learn which columns matter, and an honest price of what they have learned.

Of f at a width and mu that are known, column j has the relevance

    g_j = mean over rows of sum_k (df_k/dx_j)^2,

and is scaled by s_j = sqrt(g_j / max g), at least 1e-3, rescaled to |s| = sqrt(d); twice. (The
diagonal of the average gradient outer product.) Members are the 3 x 3 widths and mu about these.

The labels have chosen s, so that leave-one-out is no honest price: relevance is learned without a
fold, and scores of its rows come from that. Fits to three quarters of the rows are worse than
leave-one-out fits to all but one; by how much, the same kernel without relevance shows: that is
taken off the price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fisherkit.committee.members import Priced, Pricing, above_rounding, log_prior
from fisherkit.committee.pricing import KernelFamily
from fisherkit.core import (
    FREE,
    Array,
    Distinct,
    Kernel,
    View,
    Weights,
    arrays,
    coefficients_at,
    left_out_and_fit,
    race,
)
from fisherkit.tuning import log

FOLDS = 4

_ROUNDS = 2
_LEAST = 1e-3  # of the largest scale
_STEPS = (-1, 0, 1)  # from the width (in octaves) and mu (in double octaves) that are known
_DOUBLE_OCTAVE = 4.0


@dataclass(frozen=True)
class Start:
    """The width and mu at which a family is best without relevance."""

    gamma: float
    mu: float


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
class Rows:
    """Rows as a kernel sees them, with targets and weights."""

    X: Array
    Y: Array
    weights: Weights

    def take(self, rows: np.ndarray) -> Rows:
        place = arrays.indices(rows, self.X)
        X, Y = (arrays.take_rows(array, place) for array in (self.X, self.Y))
        return Rows(X, Y, self.weights.take(place))

    def scaled(self, scale: np.ndarray) -> Rows:
        return replace(self, X=self.X * arrays.like(scale, self.X))

    def fit(self, kernel: Kernel, mus: Sequence[float]) -> tuple[Array, Array]:
        """Coefficients (n, k, q) and intercepts (k, q) at several mu."""
        xp, K = arrays.namespace(self.X), kernel.block(self.X, self.X)
        coefs, intercepts = [], []
        for number, mu in enumerate(mus):
            last = number + 1 == len(mus)
            found = coefficients_at(K if last else K + 0.0, self.Y, self.weights, FREE, mu)
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
            scale = np.maximum(size / size.max(), _LEAST)
            scale *= len(size) ** 0.5 / np.linalg.norm(scale)
        return scale


@dataclass(frozen=True)
class LearnedFold:
    """Rows that learn, the others at their ``places``, and the scale that was learned, (p,)."""

    rows: Rows
    others: Array
    places: np.ndarray
    scale: np.ndarray

    def scores(self, kernel: Kernel, mus: Sequence[float], scale: np.ndarray | float) -> Array:
        """Centred scores (b, k, q) of the others."""
        size = arrays.like(scale * np.ones(self.others.shape[1]), self.others)
        rows = replace(self.rows, X=self.rows.X * size)
        coef, intercept = rows.fit(kernel, mus)
        centre = intercept - rows.weights.mean(rows.Y)[:, None]
        K = kernel.block(self.others * size, rows.X)
        b, (n, k, q) = K.shape[0], coef.shape
        xp = arrays.namespace(K)
        return xp.reshape(K @ xp.reshape(coef, (n, k * q)), (b, k, q)) + centre


def learn(
    pricing: Pricing,
    family: KernelFamily,
    number: int,
    families: int,
    start: Start,
    Y: Array,
    folds: Sequence[np.ndarray],
    *,
    alone: bool,
) -> np.ndarray | None:
    """Price the members of a family that learns relevance; the scale of what it sees, (p,).

    They are members of family ``number`` of so many. ``alone`` says that other members are priced
    by leave-one-out, not by these folds. ``None``, and no members, where a kernel
    matrix has no Cholesky factor at mu.
    """
    gram, weights = family.design.gram, family.design.weights
    rows, kernel = Rows(gram.X, Y, weights), replace(gram.kernel, gamma=start.gamma)
    everything = np.arange(gram.n)
    try:
        some = learned_folds(rows, kernel, start.mu, folds)
        handicap = 0.0
        if alone:
            plain = _joined(some, [fold.scores(kernel, [start.mu], 1.0) for fold in some])
            K = gram.with_gamma(start.gamma).full()
            found = left_out_and_fit(K, Y, weights, FREE, start.mu)
            if found is None:
                raise NotSolvedError
            centred = (Y - weights.fold_mean(Y) - found[0])[:, :, None]
            handicap = pricing.loss(plain) - pricing.loss(centred)
        scale = rows.relevance(kernel, start.mu)
        log.info("%s learns: folds cost %.3g of log-loss", family.name, handicap)
        mus = np.array([start.mu * _DOUBLE_OCTAVE**step for step in _STEPS])
        octave = kernel.family.step**2
        for step in _STEPS:
            wide = replace(kernel, gamma=start.gamma * octave**step)
            scores = _joined(some, [fold.scores(wide, mus.tolist(), fold.scale) for fold in some])
            pricing.add(
                Priced(
                    family=number,
                    gamma=wide.gamma,
                    unit=weights.mass / weights.total,
                    mus=mus,
                    log_prior=log_prior(families, len(_STEPS), len(mus)),
                    scores=[above_rounding(scores)],
                    coefficients=_Coefficients(rows.scaled(scale), wide),
                    centres=everything,
                    path="relevance learned",
                    handicap=handicap,
                )
            )
    except NotSolvedError:
        log.info("%s learns nothing: no Cholesky factor at mu %.3g", family.name, start.mu)
        return None
    return scale


def learned_folds(
    rows: Rows, kernel: Kernel, mu: float, folds: Sequence[np.ndarray]
) -> list[LearnedFold]:
    """What the rows without each fold learn at a width and mu."""
    found = []
    for places in folds:
        inside = rows.take(np.setdiff1d(np.arange(rows.X.shape[0]), places))
        others = arrays.take_rows(rows.X, arrays.indices(places, rows.X))
        found.append(LearnedFold(inside, others, places, inside.relevance(kernel, mu)))
    return found


def _joined(folds: Sequence[LearnedFold], scores: Sequence[Array]) -> Array:
    """Scores of all rows, from those of the folds."""
    order = np.argsort(np.concatenate([fold.places for fold in folds]), kind="stable")
    both = arrays.namespace(scores[0]).concat(list(scores), axis=0)
    return arrays.take_rows(both, arrays.indices(order, both))


@dataclass(frozen=True)
class _Coefficients:
    """Coefficients (n, k, s) and intercepts (k, s) of f at some mu."""

    rows: Rows
    kernel: Kernel

    def __call__(self, mus: list[float]) -> tuple[Array, Array]:
        if not mus:
            n, k = self.rows.Y.shape
            return arrays.zeros((n, k, 0), self.rows.Y), arrays.zeros((k, 0), self.rows.Y)
        return self.rows.fit(self.kernel, mus)


def learned_kernel(kernel: Kernel, scale: np.ndarray, d: int) -> Kernel:
    """The kernel that sees the columns in the units that were learned, of d in all."""
    view = kernel.view or View(np.arange(d))
    own = 1.0 if view.scale is None else view.scale
    return replace(kernel, view=view.scaled(own * scale))
