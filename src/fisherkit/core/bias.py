"""The bias of a model f(x) + b: penalised, free or none.

On the whitened rows a constant b has the values s b. A bias penalised by b^2/variance is a feature
like any other, the constant sqrt(variance); a free one takes the direction s out of the rows,

    penalised   G~ + variance s s'    and   P = I,
    free        P G~ P                with  P = I - s s'/mass,

and the rows left are centred. Every bias has P = I - s s'/`Bias.span`, infinite where nothing is
projected out, and adds `Bias.variance` s s'. A new bias is a class and its line in `BIASES`.
"""

from __future__ import annotations

import math
from typing import ClassVar

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.weights import Weights
from fisherkit.stored import stored


@stored("no bias")
class Bias:
    """No bias at all, and what the others share.

    Attributes
    ----------
    directions : int
        How many directions of the rows P leaves out.
    variance : float
        The prior variance of a penalised bias.
    """

    directions: ClassVar[int] = 0
    variance: ClassVar[float] = 0.0

    def span(self, mass: float) -> float:
        """The number m of P = I - s s'/m, for rows of this mass."""
        return math.inf

    def mean(self, Y: Array, weights: Weights) -> Array:
        """What P takes off each column of Y (n, k): the mean for a free bias, 0 otherwise; (k,)."""
        return weights.mean(Y) * (weights.mass / self.span(weights.mass))

    def fold(self, G: Array, s: Array) -> tuple[Array, Array]:
        """G~ (n, n) with the bias in it, in place, and a (n,) such that ``bias_row`` is a @ U.

        The eigenvectors of the ``directions`` largest eigenvalues are to be dropped.
        """
        return G, arrays.namespace(s).zeros_like(s)

    def svd(self, Z: Array, s: Array) -> tuple[Array, Array, Array]:
        """Thin U, sigma and W of whitened features P Z (n, m) with the bias among them."""
        U, sigma, Wt = arrays.namespace(Z).linalg.svd(self.extend(Z, s), full_matrices=False)
        return U, sigma, Wt.T

    def extend(self, Z: Array, s: Array) -> Array:
        """Whitened features (n, m) and that of the bias, if it is one."""
        return Z

    def extend_moments(
        self, G: Array, C: Array, total: Array, targets: Array, mass: float
    ) -> tuple[Array, Array]:
        """`extend` for the moments of m features, G (m, m) and C (m, k) with the targets.

        ``total`` (m,) and ``targets`` (k,) are weighted sums over the rows.
        """
        return G, C

    def split(self, W: Array) -> tuple[Array, Array]:
        """The weights of the features, and those of the bias, negative; (m, r) and (r,)."""
        return W, arrays.zeros((W.shape[1],), W)

    def join(self, features: Array, bias: Array) -> Array:
        """The W that `split` takes apart."""
        return features

    def solve(
        self, G: Array, s: Array, mu: float, targets: Array
    ) -> tuple[Array, Array, Array] | None:
        """A = P (P G~ P + mu I)^-1 P, A times whitened targets (n, k), and the bias (k,).

        Consumes G~; ``None`` where it is not positive definite to rounding.
        """
        self.fold(G, s)
        arrays.add_to_diagonal(G, mu)
        A = arrays.spd_inverse(G)
        if A is None:
            return None
        alpha = A @ targets
        return A, alpha, (self.variance * s) @ alpha

    def leverages(
        self, G: Array, s: Array, mu: float, targets: Array
    ) -> tuple[Array, Array, Array] | None:
        """The diagonal of A (n,), A times whitened targets (n, k), and the bias (k,)."""
        if self.variance:
            self.fold(G, s)
        arrays.add_to_diagonal(G, mu)
        both = arrays.namespace(G).concat([targets, s[:, None]], axis=1)
        solved = arrays.spd_solve(G, both)
        if solved is None:
            return None
        alpha, bias, share = self.eliminate(solved[0], s, targets)
        a = solved[0][:, -1]
        return solved[1] - share * a * a, alpha, bias

    def eliminate(self, both: Array, s: Array, targets: Array) -> tuple[Array, Array, float]:
        """A times whitened targets (n, k), the bias (k,), and c such that A = M - c a a'.

        ``both`` is M = (G~ + variance s s' + mu I)^-1 times the targets and, last, s: a = M s.
        """
        alpha = both[:, :-1]
        return alpha, (self.variance * s) @ alpha, 0.0


@stored("penalised bias")
class Penalized(Bias):
    """The bias is penalised as the weight of any feature is."""

    variance = 1.0

    def fold(self, G: Array, s: Array) -> tuple[Array, Array]:
        rank_two_update(G, s, (0.5 * self.variance) * s)
        return G, -self.variance * s

    def extend(self, Z: Array, s: Array) -> Array:
        return arrays.namespace(Z).concat([Z, self._root * s[:, None]], axis=1)

    def extend_moments(
        self, G: Array, C: Array, total: Array, targets: Array, mass: float
    ) -> tuple[Array, Array]:
        xp, side = arrays.namespace(G), self._root * total[:, None]
        corner = xp.zeros_like(side[:1, :]) + self.variance * mass
        below = xp.concat([side.T, corner], axis=1)
        G = xp.concat([xp.concat([G, side], axis=1), below], axis=0)
        return G, xp.concat([C, self._root * targets[None, :]], axis=0)

    def split(self, W: Array) -> tuple[Array, Array]:
        return W[:-1, :], -self._root * W[-1, :]

    def join(self, features: Array, bias: Array) -> Array:
        return arrays.namespace(bias).concat([features, bias[None, :] / -self._root], axis=0)

    @property
    def _root(self) -> float:
        return math.sqrt(self.variance)


@stored("free bias")
class Free(Bias):
    """The bias costs nothing: what it can do is projected out of the rows.

    Projected out, s would be an eigenvector among others of length zero. It is made the longest
    of all instead and dropped: the others are then orthogonal to it.
    """

    directions = 1

    def span(self, mass: float) -> float:
        return mass

    def fold(self, G: Array, s: Array) -> tuple[Array, Array]:
        xp = arrays.namespace(G)
        norm = float(xp.sum(s * s)) ** 0.5
        e = s / norm
        Ge = G @ e
        rank_two_update(G, e, 0.5 * float(e @ Ge) * e - Ge)
        # Above every eigenvalue, and far above the rounding of what was projected out.
        removed = float(xp.max(xp.abs(Ge))) * G.shape[0] ** 0.5
        sigma = 2 * norm_bound(G) + 0.01 * removed or 1.0
        rank_two_update(G, e, 0.5 * sigma * e)
        return G, Ge / norm

    def svd(self, Z: Array, s: Array) -> tuple[Array, Array, Array]:
        xp = arrays.namespace(Z)
        longest = 2 * float(xp.sum(Z * Z)) ** 0.5 or 1.0
        e = s / float(xp.sum(s * s)) ** 0.5
        U, sigma, Wt = xp.linalg.svd(
            xp.concat([Z, longest * e[:, None]], axis=1), full_matrices=False
        )
        return U[:, 1:], sigma[1:], Wt[1:, :-1].T

    def solve(
        self, G: Array, s: Array, mu: float, targets: Array
    ) -> tuple[Array, Array, Array] | None:
        """By elimination: the bias is that of the residuals without one, and A loses a a'/s'a."""
        arrays.add_to_diagonal(G, mu)
        A = arrays.spd_inverse(G)
        if A is None:
            return None
        a = A @ s
        S = s @ a
        if not float(S) > 0:
            return None
        bias = (a @ targets) / S
        rank_two_update(A, a, -0.5 * a / S)
        return A, A @ targets, bias

    def eliminate(self, both: Array, s: Array, targets: Array) -> tuple[Array, Array, float]:
        """By elimination, as in `solve`."""
        alpha, a = both[:, :-1], both[:, -1]
        share = 1 / (float(s @ a) or math.inf)
        return alpha - a[:, None] * (share * (s @ alpha)), share * (a @ targets), share


FREE = Free()
BIASES: dict[str, Bias] = {"free": FREE, "penalized": Penalized(), "none": Bias()}


def norm_bound(K: Array) -> float:
    """The largest absolute row sum of a symmetric K, which bounds every eigenvalue; O(n^2)."""
    xp = arrays.namespace(K)
    return max(
        float(xp.max(xp.sum(xp.abs(K[rows, :]), axis=1))) for rows in arrays.row_blocks(*K.shape)
    )


def rank_two_update(M: Array, a: Array, b: Array) -> None:
    """M += a b' + b a' in place, by blocks of rows: no extra n x n array."""
    for rows in arrays.row_blocks(M.shape[0], M.shape[1]):
        M[rows, :] += a[rows, None] * b[None, :] + b[rows, None] * a[None, :]
