"""Conformal prediction from sampled rows of a fit to many, by one factor of all rows.

With M = s (K + variance) s + mu I, a = M^-1 s and g = M^-1 s (k + variance) for the kernel values k
of a new row x, the posterior covariance over mu (`fisherkit.inference.conformal`) is

    q(x, x_i) = (g_i + c a_i (1 - s'g)) / s_i
    q(x, x)   = (k(x, x) + variance - g's (k + variance) + c (1 - s'g)^2) / mu

where c = 1/s'a for a free bias and 0 otherwise. The new row is compared with sampled rows alone,
which were drawn without their labels: the guarantee is that of fewer rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fisherkit.core import Array, Factored, Residuals, System, Weights, arrays, leave_out


@dataclass(frozen=True)
class SampledReach:
    """What `Reach` is for all rows; ``ridge`` holds the ``rows`` that are compared with."""

    block: ClassVar[int] = 1 << 22
    needs_diagonal: ClassVar[bool] = True

    factored: Factored
    ridge: Residuals
    rows: Array
    coef: Array
    intercept: Array
    share: float

    @classmethod
    def of(cls, system: System, rows: np.ndarray) -> SampledReach | None:
        """``None`` where single precision has too few digits."""
        factored = Factored.of(system)
        if factored is None:
            return None
        fit = leave_out(system, factored.solved, factored.inverse_diagonal(rows), rows)
        place = arrays.indices(rows, fit.coef)
        return cls(
            factored=factored,
            ridge=fit.taken(place),
            rows=place,
            coef=fit.coef,
            intercept=fit.intercept,
            share=system.share(factored.solved),
        )

    @property
    def everyone(self) -> tuple[Array, Weights]:
        """Targets (n, k) and weights of all rows."""
        return self.factored.system.Y, self.factored.system.weights

    def scores(self, k: Array) -> Array:
        """f (t, columns) at rows of kernel values k (t, n)."""
        return k @ self.coef + self.intercept

    def coordinates(self, k: Array) -> Array:
        """g of each row, (t, n)."""
        return self.factored.inverse(self._whitened(k).T).T

    def cross(self, g: Array) -> Array:
        """q(x, x_i) with the sampled rows, (t, q)."""
        xp, rows = arrays.namespace(g), self.rows
        a = xp.take(self.factored.solved[:, -1], rows, axis=0)
        q = xp.take(g, rows, axis=1) + (self.share * self._free(g))[:, None] * a
        return q / self.ridge.weights.root

    def variance(self, g: Array, k: Array, diagonal: Array | None) -> Array:
        """q(x, x), (t,), for k(x, x) = diagonal (t,)."""
        assert diagonal is not None
        xp, system = arrays.namespace(g), self.factored.system
        explained = xp.sum(g * self._whitened(k), axis=1)
        left = xp.clip(diagonal + system.bias.variance - explained, 0.0, None)
        return (left + self.share * self._free(g) ** 2) / system.mu

    def _whitened(self, k: Array) -> Array:
        system = self.factored.system
        return (k + system.bias.variance) * system.weights.root

    def _free(self, g: Array) -> Array:
        """1 - s'g, (t,)."""
        return 1 - g @ self.factored.system.weights.root
