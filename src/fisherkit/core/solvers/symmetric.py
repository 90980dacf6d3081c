"""A large kernel matrix by what is on and above its diagonal: half the values, half the memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.bias import Bias
from fisherkit.core.kernels import Gram
from fisherkit.core.weights import Weights

_BLOCK = 1 << 21  # kernel values found at a time: memory that is used again
_WITHIN = 1e-7  # error of predictions, relative to the largest target


@dataclass(frozen=True)
class UpperBlocks:
    """A symmetric matrix K (n, n): K[rows, rows.start:] for rows in sequence, held or made anew."""

    rows: list[slice]
    block: Callable[[int], Array]

    @classmethod
    def held(cls, gram: Gram) -> UpperBlocks:
        """All blocks in memory; n^2 / 2 numbers."""
        rows = list(arrays.row_blocks(gram.n, gram.n, _BLOCK))
        blocks = [gram.upper(some) for some in rows]
        return cls(rows, blocks.__getitem__)

    def __matmul__(self, V: Array) -> Array:
        """K V for V (n, k)."""
        total = arrays.namespace(V).zeros_like(V)
        for place, rows in enumerate(self.rows):
            block = self.block(place)
            total[rows, :] += block @ V[rows.start :, :]
            total[rows.stop :, :] += block[:, rows.stop - rows.start :].T @ V[rows, :]
        return total


@dataclass(frozen=True)
class System:
    """(G~ + mu I) X = b for a fit at one mu: G~ = s (K + variance) s, b the whitened targets and s.

    ``variance`` is that of a penalised bias. The last column of b is s, from which the bias of any
    kind follows (`Bias.eliminate`).
    """

    K: UpperBlocks
    both: Array
    s: Array
    variance: float
    mu: float
    enough: Array

    @classmethod
    def of(
        cls, gram: Gram, K: UpperBlocks, Y: Array, weights: Weights, bias: Bias, mu: float
    ) -> System:
        """``enough`` (k + 1,) are residual norms that put predictions within 1e-7 anywhere.

        With M = G~ + mu I and a residual e, f(x) is wrong by k'M^-1 e for the whitened kernel
        values k of x, and k'M^-2 k <= k'M^-1 k / mu <= k(x, x) / mu: by no more than
        |e| sqrt(k(x, x) / mu). That is 1e-7 of the largest target where k(x, x) is no larger than
        on the diagonal of K.
        """
        xp, s = arrays.namespace(Y), weights.root
        both = xp.concat([Y, xp.ones_like(Y[:, :1])], axis=1)
        largest = float(xp.max(gram.diagonal())) + bias.variance
        sizes = xp.max(xp.abs(both), axis=0)
        enough = (_WITHIN * math.sqrt(mu / largest)) * sizes
        return cls(K, s[:, None] * both, s, bias.variance, mu, enough)

    def rest(self, X: Array) -> Array:
        """b - (G~ + mu I) X, (n, k + 1)."""
        s = self.s[:, None]
        image = self.K @ (s * X) + self.variance * (self.s @ X)[None, :]
        return self.both - s * image - self.mu * X

    def solved(self, rest: Array) -> bool:
        """Whether predictions are as good as they are promised to be."""
        xp = arrays.namespace(rest)
        return bool(xp.all(xp.sqrt(xp.sum(rest * rest, axis=0)) <= self.enough))
