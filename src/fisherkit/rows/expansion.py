"""What predicts: kernel values between rows and centres, times coefficients, plus an intercept.

A fitted estimator keeps one of these; it is what model files and ONNX graphs are made of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fisherkit.core import Array, FittedKernel, Kernel, arrays, not_finite
from fisherkit.interfaces import Container
from fisherkit.stored import stored

_ROWS = 128  # of a block, where they are long


@stored("expansion")
@dataclass(frozen=True)
class Expansion:
    """f(x) = k(x, centres) coef + intercept, with coef (m, k) and intercept (k,).

    ``centres`` (m, d) are rows as ``kernel`` compares others with. A precomputed kernel has none:
    ``columns`` (m,) are then the places of the centres among the columns of X. Outputs that users
    see have no second axis if they are ``flat``.
    """

    kernel: Kernel | FittedKernel
    centres: Array | None
    columns: Array | None
    coef: Array
    intercept: Array
    flat: bool

    def __call__(self, X: Container) -> Array:
        """f of validated rows X, of any container, (n, k); in row blocks."""
        m, d = self.coef.shape[0], X.shape[1]
        # Each block goes through all centres once more: with long rows, that has to pay.
        pays = arrays.accelerator_elements(self.coef)
        elements = max(arrays.BLOCK_ELEMENTS, min(m, _ROWS) * d, pays)
        return _in_blocks(X, max(m, d), elements, lambda x: self.values(x) @ self.coef, self)

    def values(self, X: Array) -> Array:
        """Kernel values of some rows with the centres, (n, m)."""
        xp = arrays.namespace(X)
        if self.coef.shape[0] == 0:  # a constant model
            return xp.zeros_like(X[:, :0])
        if self.columns is not None:
            return xp.take(X, self.columns, axis=1)
        return self.kernel.block(X, self.centres)


@stored("expansion at several widths")
@dataclass(frozen=True)
class SharedCentres:
    """One kernel on one set of centres (m, d) at several widths, with coefficients (m, k) each."""

    kernel: Kernel
    centres: Array
    gammas: tuple[float | None, ...]
    coefs: tuple[Array, ...]

    def __call__(self, X: Array) -> Array:
        """Sum over the widths, (n, k); distances are found once."""
        blocks = self.kernel.blocks(X, self.centres, self.gammas)
        return sum(K @ coef for K, coef in zip(blocks, self.coefs, strict=True))


@stored("sum of expansions")
@dataclass(frozen=True)
class Blend:
    """The sum of expansions of several kernels and widths, plus an intercept (k,)."""

    parts: list[SharedCentres]
    intercept: Array
    flat: bool

    def __call__(self, X: Container) -> Array:
        """f of validated rows X, of any container, (n, k); in row blocks."""
        longest = max([X.shape[1], *(part.centres.shape[0] for part in self.parts)])

        def total(x: Array) -> Array:
            nothing = arrays.namespace(x).zeros_like(x[:, :1]) + 0 * self.intercept
            return sum((part(x) for part in self.parts), nothing)

        return _in_blocks(X, longest, arrays.BLOCK_ELEMENTS, total, self)


@arrays.quiet_overflow()
def _in_blocks(
    X: Container,
    longest: int,
    elements: int,
    function: Callable[[Array], Array],
    model: Expansion | Blend,
) -> Array:
    """A function of rows, plus the intercept of the model; it must be finite."""
    blocks = arrays.row_blocks(X.shape[0], longest, elements)
    parts = [function(arrays.widen(arrays.read(X, rows))) for rows in blocks]
    xp = arrays.namespace(model.intercept)
    scores = xp.concat(parts, axis=0) + model.intercept[None, :]
    rows_have_numbers(scores, "score")
    return scores


def rows_have_numbers(values: Array, name: str) -> None:
    """Refuse rows of X for which the model has no finite values (n, k)."""
    xp = arrays.namespace(values)
    if not bool(xp.all(xp.isfinite(values))):
        bad = arrays.to_numpy(xp.any(~xp.isfinite(values), axis=1))
        raise ValueError(not_finite(f"row {int(np.flatnonzero(bad)[0])} of X has no {name}"))
