"""Rows that repeat one another, as one row that counts as often: the same fit, less rounding.

Equal rows i of one group g, of equal target, cost and folds, add directions to the kernel matrix
that it does not see and that B(mu) keeps whole, beside others of size mu / lam. What rounding
leaves of the former (eps) is then an error of eps lam / mu in held-out residuals, and the least
criterion is found elsewhere than with weights. With v_g = sum v_i and q_i = sqrt(v_i / v_g),

    B_ij = q_i B_gh q_j + [i = j] - [g = h] q_i q_j,   (B y~)_i = q_i (B y~)_g,

and the coefficient of a group is shared among its rows in the proportion of v_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fisherkit.core import Array, Fold, Resolvent, Ridge, Weights, arrays
from fisherkit.tuning.criteria import Criterion, HeldOut, Problem


@dataclass(frozen=True)
class Copies:
    """``first`` (m,) is the first row of each group, in the order of the rows; ``group`` (n,)."""

    first: np.ndarray
    group: np.ndarray

    @classmethod
    def of(cls, problem: Problem) -> Copies | None:
        """``None`` where no row repeats another, or where that makes a difference."""
        design, Y, criterion = problem.design, problem.Y, problem.criterion
        n = design.gram.n
        distinct = design.gram.distinct()
        if not design.every_row or callable(criterion.rule) or len(distinct.first) == n:
            return None
        frequency = arrays.to_numpy(design.weights.frequency)
        # Of a row that counts less than once, all of it is left out at a time, and not of two.
        alone = np.where(frequency < 1, np.arange(1, n + 1), 0)
        key = np.column_stack([arrays.to_numpy(design.weights.cost), arrays.to_numpy(Y), alone])
        folds = criterion.held_out.folds or ()
        marks = np.random.RandomState(0).randint(1 << 62, size=len(folds), dtype=np.uint64)
        removed = np.zeros(n, dtype=np.uint64)  # a fingerprint of the folds that remove the row
        for fold, mark in zip(folds, marks, strict=True):
            removed[arrays.to_numpy(fold.removed)] += mark
        kinds, kind = np.unique(key, axis=0, return_inverse=True)
        parts, part = np.unique(removed, return_inverse=True)
        joint = kind.ravel() * len(parts) + part
        first, group = distinct.split(joint, len(kinds) * len(parts))
        if len(first) == n:
            return None
        order = np.argsort(first)
        return cls(first[order], np.argsort(order)[group])

    def merged(self, problem: Problem) -> Problem:
        """The problem of the merged rows."""
        Y, design = problem.Y, problem.design
        rows = arrays.indices(self.first, Y)
        weights = design.weights.merge(self.first, self.group)
        design = replace(design, gram=design.gram.taken(self.first), weights=weights)
        Y = arrays.namespace(Y).take(Y, rows, axis=0)
        return Problem(design, Y, self._criterion(problem.criterion), problem.limits)

    def _criterion(self, criterion: Criterion) -> Criterion:
        """The criterion of the merged rows: copies that are tested together count together."""
        seen = criterion.held_out
        if seen.folds is None:
            return replace(criterion, held_out=_summed(seen, self.first, self.group, None))
        folds, takes, places = [], [], []
        tested_before = merged_before = 0
        for fold in seen.folds:
            removed = self.group[arrays.to_numpy(fold.removed)]
            tested = removed[arrays.to_numpy(fold.tested)]
            gone = np.unique(removed)
            kept, first, inverse = np.unique(tested, return_index=True, return_inverse=True)
            where = np.searchsorted(gone, kept)
            folds.append(Fold(arrays.indices(gone, seen.Y), arrays.indices(where, seen.Y)))
            takes.append(first + tested_before)
            places.append(inverse + merged_before)
            tested_before, merged_before = tested_before + len(tested), merged_before + len(kept)
        rows, place = np.concatenate(takes), np.concatenate(places)
        return replace(criterion, held_out=_summed(seen, rows, place, folds))

    def expand(self, ridge: Ridge, Y: Array, weights: Weights, *, centres: bool) -> Ridge:
        """The fit to all rows; ``centres`` if each merged row is one, in their order."""
        xp = arrays.namespace(Y)
        group = arrays.indices(self.group, Y)
        share = weights.v / xp.take(ridge.weights.v, group, axis=0)
        q = xp.sqrt(share)
        resolvent = CopiedResolvent(ridge.resolvent, group, q, weights, ridge.weights)
        coef = ridge.coef
        if centres:
            coef = share[:, None] * xp.take(coef, group, axis=0)
        return Ridge(
            Y,
            weights,
            resolvent.spread_diagonal(ridge.B_diag),
            q[:, None] * xp.take(ridge.BY, group, axis=0),
            ridge.scatter,
            resolvent,
            coef,
            ridge.intercept,
        )


def _summed(
    seen: HeldOut, rows: np.ndarray, place: np.ndarray, folds: list[Fold] | None
) -> HeldOut:
    """``rows`` of what is held out, each with the weight of all that have its ``place``."""
    xp = arrays.namespace(seen.Y)
    take = arrays.indices(rows, seen.Y)
    weight = np.bincount(place, weights=arrays.to_numpy(seen.weight))
    return HeldOut(
        xp.take(seen.Y, take, axis=0),
        xp.take(seen.mean, take, axis=0),
        xp.take(seen.threshold, take, axis=0),
        arrays.like(weight, seen.Y),
        folds,
    )


@dataclass(frozen=True)
class CopiedResolvent:
    """B(mu) of all rows, from that of the merged ones."""

    inner: Resolvent
    group: Array
    q: Array
    weights: Weights
    merged: Weights

    def diagonal(self) -> Array:
        return self.spread_diagonal(self.inner.diagonal())

    def spread_diagonal(self, inner: Array) -> Array:
        """The diagonal (n,), from that of the merged rows."""
        share = self.q * self.q
        return (1 - share) + share * arrays.namespace(share).take(inner, self.group, axis=0)

    def block(self, rows: Array, columns: Array) -> Array:
        xp = arrays.namespace(self.q)
        g, h = xp.take(self.group, rows, axis=0), xp.take(self.group, columns, axis=0)
        return self._spread(self.inner.block(g, h), rows, columns)

    def strip(self, rows: Array) -> Array:
        """All columns of some rows, (b, n)."""
        xp = arrays.namespace(self.q)
        inner = self.inner.strip(xp.take(self.group, rows, axis=0))
        everything = arrays.indices(np.arange(self.q.shape[0]), self.q)
        return self._spread(xp.take(inner, self.group, axis=1), rows, everything)

    def residuals(self, Y: Array) -> Array:
        xp = arrays.namespace(Y)
        host = arrays.to_numpy(self.weights.v[:, None] * Y)
        total = np.zeros((self.merged.v.shape[0], Y.shape[1]))
        np.add.at(total, arrays.to_numpy(self.group), host)
        mean = arrays.like(total, Y) / self.merged.v[:, None]
        inside = xp.take(self.inner.residuals(mean), self.group, axis=0)
        outside = Y - xp.take(mean, self.group, axis=0)
        return self.q[:, None] * inside + self.weights.root[:, None] * outside

    def _spread(self, inner: Array, rows: Array, columns: Array) -> Array:
        xp = arrays.namespace(inner)
        qq = xp.take(self.q, rows, axis=0)[:, None] * xp.take(self.q, columns, axis=0)[None, :]
        g, h = xp.take(self.group, rows, axis=0), xp.take(self.group, columns, axis=0)
        same = xp.astype(g[:, None] == h[None, :], inner.dtype)
        # The parts outside of the merged rows by themselves: none for a row without copies.
        return qq * inner + (xp.astype(rows[:, None] == columns[None, :], inner.dtype) - same * qq)
