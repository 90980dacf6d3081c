"""The system of one fit: half of its kernel matrix in memory, or its values found anew."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.bias import Bias
from fisherkit.core.canonical import trace_unit
from fisherkit.core.kernels import Gram
from fisherkit.core.progress import Meter
from fisherkit.core.ridge import Resolvent, Ridge
from fisherkit.core.solvers.tiles import Recomputed
from fisherkit.core.weights import Weights

_BLOCK = 1 << 22  # kernel values found at a time
_EACH = 1 << 15  # of them for each column that they are multiplied with at a time
WITHIN = 1e-7  # error of predictions, relative to the largest target


@dataclass(frozen=True)
class UpperBlocks:
    """A symmetric matrix K (n, n): K[rows, rows.start:] for rows in sequence; n^2 / 2 numbers."""

    rows: list[slice]
    blocks: list[Array]

    @classmethod
    def of(cls, gram: Gram) -> UpperBlocks:
        size = max(_BLOCK, arrays.accelerator_elements(gram.X))
        rows, blocks = list(arrays.row_blocks(gram.n, gram.n, size)), []
        meter = Meter("kernel matrix", gram.n)
        for some in rows:
            blocks.append(gram.upper(some))
            meter.advance(some.stop - some.start)
        return cls(rows, blocks)

    @property
    def single(self) -> UpperBlocks:
        """Itself: reading a matrix takes longer than products in double precision."""
        return self

    def __matmul__(self, V: Array) -> Array:
        """K V for V (n, k), in the precision of V."""
        total = arrays.namespace(V).zeros_like(V)
        few = max(arrays.BLOCK_ELEMENTS, _EACH * V.shape[1], arrays.accelerator_elements(V))
        for rows, block in zip(self.rows, self.blocks, strict=True):
            for strip in arrays.row_blocks(block.shape[0], block.shape[1], few):
                some = slice(rows.start + strip.start, rows.start + strip.stop)
                values = arrays.cast(block[strip, strip.start :], V.dtype)
                total[some, :] += values @ V[some.start :, :]
                right = values[:, strip.stop - strip.start :]
                total[some.stop :, :] += right.T @ V[some, :]
        return total


@dataclass(frozen=True)
class System:
    """M X = b for a fit at one mu, with M = s (K + variance) s + mu I and b the whitened targets.

    ``variance`` is that of a penalised bias. The last column of b is s, from which a bias of any
    kind follows (`Bias.eliminate`).
    """

    gram: Gram
    K: UpperBlocks | Recomputed
    Y: Array
    weights: Weights
    bias: Bias
    mu: float
    both: Array
    enough: Array

    @classmethod
    def of(
        cls,
        gram: Gram,
        Y: Array,
        weights: Weights,
        bias: Bias,
        mu: float,
        *,
        held: bool = True,
    ) -> System:
        """With half of K in memory if ``held``, or with its values found anew for each product.

        ``enough`` (k + 1,) are residual norms that put predictions within 1e-7 anywhere.

        With a residual e, f(x) is wrong by k'M^-1 e for the whitened kernel values k of x, and
        k'M^-2 k <= k'M^-1 k / mu <= k(x, x) / mu: by no more than |e| sqrt(k(x, x) / mu). That is
        1e-7 of the largest target where k(x, x) is no larger than on the diagonal of K.
        """
        xp = arrays.namespace(Y)
        both = xp.concat([Y, xp.ones_like(Y[:, :1])], axis=1)
        largest = float(xp.max(gram.diagonal())) + bias.variance
        return cls(
            gram=gram,
            K=UpperBlocks.of(gram) if held else Recomputed.of(gram),
            Y=Y,
            weights=weights,
            bias=bias,
            mu=mu,
            both=weights.root[:, None] * both,
            enough=(WITHIN * math.sqrt(mu / largest)) * xp.max(xp.abs(both), axis=0),
        )

    @property
    def n(self) -> int:
        return self.gram.n

    @property
    def held(self) -> bool:
        """Whether half of K is in memory."""
        return isinstance(self.K, UpperBlocks)

    @property
    def quick(self) -> System:
        """The same with kernel values in single precision where these are found anew."""
        return replace(self, K=self.K.single)

    @property
    def unit(self) -> float:
        """tr(G)/n."""
        return trace_unit(float(self.weights.v @ self.gram.diagonal()), self.weights.total)

    def times(self, X: Array) -> Array:
        """M X for X (n, k), in the precision of X."""
        s = arrays.cast(self.weights.root, X.dtype)
        image = self.K @ (s[:, None] * X) + self.bias.variance * (s @ X)[None, :]
        return s[:, None] * image + self.mu * X

    def rest(self, X: Array) -> Array:
        """b - M X, (n, k + 1)."""
        return self.both - self.times(X)

    def settled(self, rest: Array) -> bool:
        """Whether predictions are as good as they are promised to be."""
        xp = arrays.namespace(rest)
        return bool(xp.all(xp.sqrt(xp.sum(rest * rest, axis=0)) <= self.enough))

    def ridge(self, solved: Array, resolvent: Resolvent) -> Ridge:
        """The fit from M^-1 b."""
        targets, s = self.both[:, :-1], self.weights.root
        alpha, intercept, _ = self.bias.eliminate(solved, s, targets)
        return Ridge(
            Y=self.Y,
            weights=self.weights,
            B_diag=resolvent.diagonal(),
            BY=self.mu * alpha,
            scatter=self.mu * (targets.T @ alpha),
            resolvent=resolvent,
            coef=s[:, None] * alpha,
            intercept=intercept,
        )

    def share(self, solved: Array) -> float:
        """c of A = M^-1 - c a a' with a = M^-1 s, what a bias takes off."""
        return self.bias.eliminate(solved, self.weights.root, self.both[:, :-1])[2]
