"""A fitted function on fewer centres: the one nearest to it on the rows of the fit.

With f the scores on n rows, K_np the kernel values of the rows with p of the centres, and
K_pp = L L' those of the centres among themselves, c minimises

    sum_i weight_i |f(x_i) - (K_np c)_i|^2 + ridge |L'c|^2 ,   ridge = 1e-10 of the trace,

by normal equations for w = L'c, whose features K_np L'^-1 are well scaled. Centres that repeat
others to rounding are dropped (pivoted Cholesky); the ridge bounds the norm of the function.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.kernels import Gram
from fisherkit.core.progress import Meter
from fisherkit.core.solvers.tiles import Recomputed

_RIDGE = 1e-10  # of the trace of the normal equations
_FIRST = 32  # centres that a search begins with
_HALVINGS = 3  # of the last step of a search


@dataclass(frozen=True)
class Distilled:
    """Coefficients (p, k) of centres at these places, and scores (n, k) of all rows by them."""

    places: np.ndarray
    coef: Array
    scores: Array


@dataclass(frozen=True)
class Original:
    """A function on rows of a kernel matrix: centres at ``places`` (m,), coefficients (m, k).

    ``weight`` (n,) says how much each row counts.
    """

    gram: Gram
    places: np.ndarray
    scores: Array
    weight: Array
    order: np.ndarray

    @classmethod
    def of(cls, gram: Gram, places: np.ndarray, coef: Array, weight: Array, seed: int) -> Original:
        """Its scores on all rows, and a random order of its different centres; O(n m)."""
        everyone = len(places) == gram.n
        own = gram if everyone else gram.taken(places)
        distinct = own.distinct()
        order = distinct.draw(np.ones(own.n), len(distinct.first), seed)
        if everyone:
            xp = arrays.namespace(coef)
            back = arrays.indices(np.argsort(places), coef)
            scores = Recomputed.of(gram) @ xp.take(coef, back, axis=0)
        else:
            scores = _scores(gram, places, coef)
        return cls(gram, places, scores, weight, places[order])

    @property
    def spread(self) -> float:
        """Root of the weighted variance of the scores, over all columns."""
        xp, share = arrays.namespace(self.scores), self.weight / float(sum_of(self.weight))
        mean = share @ self.scores
        return float(share @ xp.sum((self.scores - mean) ** 2, axis=1)) ** 0.5

    def error(self, found: Distilled) -> float:
        """Root mean square of the difference, relative to `spread`."""
        xp, share = arrays.namespace(self.scores), self.weight / float(sum_of(self.weight))
        square = float(share @ xp.sum((self.scores - found.scores) ** 2, axis=1))
        return square**0.5 / (self.spread or 1.0)

    def on(self, count: int) -> Distilled:
        """The nearest function on the first so many centres of the order; O(n p^2)."""
        gram, meter = self.gram, Meter("fewer centres", self.gram.n)
        chosen = self.order[:count]
        K_pp = gram.corner(arrays.indices(chosen, gram.X))
        largest = float(arrays.namespace(K_pp).max(arrays.namespace(K_pp).linalg.diagonal(K_pp)))
        corner, kept = arrays.pivoted_cholesky(K_pp, count * arrays.eps(K_pp) * largest)
        del K_pp
        if len(kept) == 0:  # a kernel that vanishes on every centre
            return Distilled(chosen[:1], 0 * self.scores[:1, :], 0 * self.scores)
        chosen = chosen[kept]
        centres = arrays.indices(chosen, gram.X)
        p = len(chosen)
        G = arrays.zeros((p, p), corner)
        b = arrays.zeros((p, self.scores.shape[1]), corner)
        size = arrays.preferred_rows(gram.X, max(p, gram.X.shape[1])) * p
        for rows in arrays.row_blocks(gram.n, p, size):
            some = arrays.indices(np.arange(rows.start, rows.stop), gram.X)
            features = arrays.solve_lower(corner, gram.between(some, centres).T).T
            root = arrays.namespace(b).sqrt(self.weight[rows])[:, None]
            features = features * root
            arrays.add_gram(G, features)
            b += features.T @ (root * self.scores[rows, :])
            meter.advance(rows.stop - rows.start)
        G = arrays.symmetric(G)
        arrays.add_to_diagonal(G, _RIDGE * float(arrays.namespace(G).linalg.trace(G)))
        factor = arrays.cholesky(G)
        assert factor is not None  # by the ridge
        w = arrays.cholesky_solve(factor, b)
        coef = arrays.solve_lower(corner, w, transposed=True)
        return Distilled(chosen, coef, _scores(gram, chosen, coef))

    def within(self, tolerance: float) -> Distilled:
        """The function on about as few centres as have an error below the tolerance.

        Twice as many each time; then the last step is halved a few times.
        """
        most = len(self.order)
        low, high = 0, min(_FIRST, most)
        found = self.on(high)
        while self.error(found) > tolerance and high < most:
            low, high = high, min(2 * high, most)
            found = self.on(high)
        for _ in range(_HALVINGS):
            middle = (low + high) // 2
            if not low < middle < high:
                break
            between = self.on(middle)
            if self.error(between) > tolerance:
                low = middle
            else:
                high, found = middle, between
        return found


def sum_of(x: Array) -> float:
    return float(arrays.namespace(x).sum(x))


def _scores(gram: Gram, places: np.ndarray, coef: Array) -> Array:
    """K[:, places] coef, in blocks of rows."""
    centres, parts = arrays.indices(places, gram.X), []
    size = arrays.preferred_rows(gram.X, max(len(places), gram.X.shape[1])) * len(places)
    for rows in arrays.row_blocks(gram.n, len(places), size):
        some = arrays.indices(np.arange(rows.start, rows.stop), gram.X)
        parts.append(gram.between(some, centres) @ coef)
    return arrays.namespace(coef).concat(parts, axis=0)
