"""Ridge fits from streamed moments: two passes over row blocks, never an n x m matrix.

The model stands on m centres, z(x) are its features (`fisherkit.core.basis.centres`), and

    pass 1    G = sum_i v_i (z_i - z)(z_i - z)',   C = sum_i v_i (z_i - z) y_i'        n m^2 flops
    between   G = W diag(lam) W'                                                        O(m^3)
    pass 2    q_i = W'(z_i - z)                                                       2 n m^2 flops

(z the mean of z_i for a free bias; a penalized one adds the feature 1.) Every mu is then priced by
exact leave-one-out,

    e_i(mu) = y_i - y - (W'C / (lam + mu))'q_i,
    B_ii(mu) = 1 - v_i / mass - v_i sum_j q_ij^2 / (lam_j + mu).

Accuracy. Moments square the condition number. Two things keep that harmless:

- q_i is never divided by sqrt(lam): an error in a small lam matters only beside mu. Rounding of G,
  about eps lam_max, therefore changes leave-one-out by a relative eps lam_max / mu.
- For the rkhs penalty z = L^-1 k with K_mm = L L' by pivoted Cholesky. Moments of the raw kernel
  values k would multiply that error by the condition number of K_mm, and solving for z in pass 1
  costs another n m^2. Only the first p pivots are solved for, and what they explain is subtracted
  from the others: what remains is small and evenly scaled, and the rest of L is applied to
  the moments. p is the smallest that multiplies the error by no more than 256 in the worst case,
  which is about 20 in practice.

Directions with lam below 1e-10 of the smallest mu priced are left out: no mu can see them.

Where mu is so small that this costs too many digits (`Form.doubt`), the moments are taken once
more: `fisherkit.rows.refined`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fisherkit.core import (
    Array,
    Bias,
    Gram,
    Kernel,
    Weights,
    arrays,
    leading_rows,
    require_positive,
    trace_unit,
)
from fisherkit.rows.sums import Block, Numbers, Sums, moment_numbers

INVISIBLE = 1e-10  # of the smallest mu priced: directions below it are left out
_POWER_STEPS = 8  # of the power iterations that estimate a condition number
_MANY = 2048  # centres beyond which pivots are sought among the leading ones only
_LOSS = 256.0  # factor of the (worst) error that solving for fewer pivots may cost
_PLAIN = 1e-10  # error of the features that saves solving for pivots again in pass 2
_DEPENDENT = 300.0  # error of moments where centres nearly depend on each other, as seen
_ORIGIN_ROWS = 2048  # whose mean moments are taken about
_FIRST_SPLIT = 32  # pivots solved for in pass 1 are 0, 32, 64, 128, ..., m


@dataclass(frozen=True)
class Centres:
    """Features of a model on centres, row block by row block."""

    kernel: Kernel
    X: Array  # (m, d), the centres in the order of the features
    kept: np.ndarray  # (m,), which of the rows asked for they are; repeated ones are dropped (rkhs)
    scale: Array | None  # (m,), coefficients penalty: square roots of the centres' frequencies
    corner: Array | None  # (m, m), rkhs penalty: L, lower triangular, with K_mm = L L'
    split: int = 0  # how many pivots pass 1 solves for
    largest_inverse: float = 0.0  # the largest eigenvalue of K_mm^-1

    @classmethod
    def of(cls, kernel: Kernel, X: Array, frequency: Array, penalty: str) -> Centres:
        """The model on the rows X (m, d); O(m^3)."""
        xp = arrays.namespace(X)
        rows = np.arange(X.shape[0])
        if not kernel.known_positive:
            gram = Gram(X, kernel)
            corner = gram.corner(arrays.indices(rows, X))
            require_positive(corner, Weights.unit(corner), gram.rounding)
        if penalty == "coefficients":
            return cls(kernel, X, rows, xp.sqrt(frequency), None)
        if len(rows) > _MANY:  # pivots for all would take longer than the factorisation itself
            rows = leading_rows(Gram(X, kernel), _MANY // 2)
            X = xp.take(X, arrays.indices(rows, X), axis=0)
        # As `basis.centres` does: for a product of X with itself, the BLAS rounds differently.
        K = Gram(X, kernel).corner(arrays.indices(np.arange(len(rows)), X))
        largest = float(xp.max(xp.linalg.diagonal(K)))
        tolerance = len(rows) * arrays.eps(X) * largest
        corner = arrays.lower_factor(K) if len(rows) > _MANY else None
        kept = np.arange(len(rows))
        if corner is None or float(xp.min(xp.linalg.diagonal(corner))) ** 2 <= tolerance:
            corner, kept = arrays.pivoted_cholesky(K, tolerance)
        if len(kept) == 0:  # a kernel that vanishes on every centre
            return cls(kernel, X[:1, :], rows[:1], xp.ones_like(frequency[:1]), None)
        largest_inverse = _norm(corner, inverse=True)
        split = _enough_pivots(corner, largest_inverse)
        chosen = xp.take(X, arrays.indices(kept, X), axis=0)
        return cls(kernel, chosen, rows[kept], None, corner, split, largest_inverse)

    def carefully(self) -> Centres:
        """The same features, every pivot solved for: n m^2 flops more in each pass."""
        if self.corner is None:
            return self
        return replace(self, split=self.size)

    @property
    def size(self) -> int:
        return self.X.shape[0]

    def block(self, X: Array, *, plain: bool = False) -> Array:
        """F (b, m): features of rows X but for the last triangle, see `finish`. O(b m p).

        ``plain``: the kernel values alone, O(b m d).
        """
        F = self.kernel.block(arrays.widen(X), self.X)
        if self.scale is not None:
            F *= self.scale
        if self.corner is None or plain:
            return F
        L, p = self.corner, self.split
        if p:  # not by an inverse, whose errors the next line would multiply
            F[:, :p] = arrays.solve_lower(L[:p, :p], F[:, :p].T).T
        if 0 < p < self.size:
            arrays.subtract_product(F[:, p:], F[:, :p], L[p:, :p].T)
        return F

    def finish(self, M: Array) -> Array:
        """T'M for the T that takes F to the features, z = F T."""
        p = self.split
        if self.corner is None or p == self.size:
            return M
        xp = arrays.namespace(M)
        return xp.concat([M[:p, :], arrays.solve_lower(self.corner[p:, p:], M[p:, :])], axis=0)

    def unfinish(self, W: Array) -> Array:
        """T W, so that F (T W) are features times W."""
        p = self.split
        if self.corner is None or p == self.size:
            return W
        xp = arrays.namespace(W)
        lower = arrays.solve_lower(self.corner[p:, p:], W[p:, :], transposed=True)
        return xp.concat([W[:p, :], lower], axis=0)

    @property
    def plain(self) -> bool:
        """Whether q may be found from kernel values in one product, to `_PLAIN` in the features."""
        return self.corner is None or (self.split < self.size and self.plain_error <= _PLAIN)

    @property
    def plain_error(self) -> float:
        """Error of the features where they are found so."""
        return (self.size * self.largest_inverse) ** 0.5 * arrays.eps(self.X)

    def lift(self, w: Array) -> Array:
        """Coefficients of the centres from weights (m, k) of the features."""
        if self.corner is not None:
            return arrays.solve_lower(self.corner, w, transposed=True)
        return w if self.scale is None else self.scale[:, None] * w


def _enough_pivots(L: Array, largest_inverse: float) -> int:
    """The smallest split p at which raw moments of what is left cost few digits.

    The error of G from the block beyond p is eps |S|^2 / |S^-1|^-1 with S = L22 L22', against
    eps |K| from all of G.
    """
    m = L.shape[0]
    largest = _norm(L, inverse=False)
    # S^-1 is a part of K^-1, so its norm is no larger.
    p = 0
    while p < m:
        if _norm(L[p:, p:], inverse=False) ** 2 * largest_inverse <= _LOSS * largest:
            return p
        p = 2 * p if p else _FIRST_SPLIT
    return m


def _norm(L: Array, *, inverse: bool) -> float:
    """Largest eigenvalue of L L', or of its inverse, by power iteration."""
    xp = arrays.namespace(L)
    x = arrays.like(np.random.RandomState(0).standard_normal((L.shape[0], 1)), L)
    size = 1.0
    for _ in range(_POWER_STEPS):
        x = x / xp.linalg.vector_norm(x)
        if inverse:
            x = arrays.solve_lower(L, arrays.solve_lower(L, x), transposed=True)
        else:
            x = L @ (L.T @ x)
        size = float(xp.linalg.vector_norm(x))
    return size


@dataclass
class Moments:
    """`Sums` of the features about ``FirstPass.origin``, and those of the targets and weights."""

    features: Sums
    targets: Array
    squares: Array
    mass: float
    total: float
    rows: int


@dataclass(frozen=True)
class FirstPass:
    """Pass 1: the moments of the features. ``origin`` (m,) is about the mean of F, or 0."""

    on_host: ClassVar[bool] = False
    title: ClassVar[str] = "pass 1"

    centres: Centres
    origin: Array | None
    n_targets: int

    @classmethod
    def about(cls, centres: Centres, sample: Array, n_targets: int, bias: Bias) -> FirstPass:
        """For a free bias, about the mean of F over ``some`` rows, a sample of all."""
        if not bias.directions:
            return cls(centres, None, n_targets)
        sample = sample[: min(_ORIGIN_ROWS, sample.shape[0]), :]
        origin = arrays.namespace(sample).mean(centres.block(sample), axis=0)
        return cls(centres, origin, n_targets)

    @property
    def numbers(self) -> Numbers:
        return moment_numbers(self.centres.size, self.centres.X.shape[1], self.n_targets)

    def begin(self) -> Moments:
        k, X = self.n_targets, self.centres.X
        features = Sums.zero(self.centres.size, k, X)
        return Moments(features, arrays.zeros((k,), X), arrays.zeros((k,), X), 0.0, 0.0, 0)

    def add(self, sums: Moments, block: Block) -> None:
        w = block.weights
        F = self.centres.block(block.X)
        if self.origin is not None:
            F -= self.origin
        sums.features.add(F, block)
        xp, weighted = arrays.namespace(F), w.v[:, None] * block.Y
        sums.targets += xp.sum(weighted, axis=0)
        sums.squares += xp.sum(weighted * block.Y, axis=0)
        sums.mass += w.mass
        sums.total += w.total
        sums.rows += F.shape[0]

    def merge(self, a: Moments, b: Moments) -> Moments:
        return Moments(
            *(a.features.merge(b.features), a.targets + b.targets, a.squares + b.squares),
            *(a.mass + b.mass, a.total + b.total, a.rows + b.rows),
        )


@dataclass(frozen=True)
class Form:
    """The canonical form of a streamed model: q(x) = F(x) rotation - centre; see the module.

    F are kernel values (``plain``) or what pass 1 has taken moments of.

    ``point`` (m,) is the z of a free bias, ``xi`` (r, k) is W'C, ``targets`` (k,) the weighted sum
    of the targets, ``spread`` that of their squares about the mean.
    """

    centres: Centres
    rotation: Array
    centre: Array
    features: Array
    point: Array
    lam: Array
    xi: Array
    mean: Array
    mass: float
    total: float
    rows: int
    bias: Bias
    unit: float
    targets: Array
    spread: float
    plain: bool

    @classmethod
    def of(cls, step: FirstPass, sums: Moments, bias: Bias, *, smallest: float) -> Form:
        """Decompose the moments; O(m^3). ``smallest`` is the least mu, relative to tr(G)/n."""
        centres = step.centres
        xp = arrays.namespace(centres.X)
        point = sums.features.first / sums.mass
        span = bias.span(sums.mass)
        mean = sums.targets / span
        second, cross = sums.features.about_mean(span, mean)
        G = centres.finish(centres.finish(second).T)
        C = centres.finish(cross)
        trace = float(xp.sum(xp.linalg.diagonal(G)))
        if step.origin is not None:
            point = point + step.origin
        z = centres.finish(point[:, None])[:, 0]
        total = sums.mass * z
        trace += float(total @ total) / span  # tr(G)/n is that of the features as they are
        unit = trace_unit(trace, sums.total)
        G, C = bias.extend_moments(G, C, total, sums.targets, sums.mass)
        lam, W = arrays.eigh(0.5 * (G + G.T))
        visible = int(xp.sum(xp.astype(lam <= INVISIBLE * smallest * unit, xp.int64)))
        visible = min(visible, lam.shape[0] - 1)
        lam, W = arrays.clip_in_place(lam[visible:], lower=0.0), W[:, visible:]
        xi = W.T @ C
        spread = float(xp.sum(sums.squares - sums.targets**2 / sums.mass))
        features, of_bias = bias.split(W)
        rotation = centres.unfinish(features)
        if centres.corner is not None and centres.plain:
            rotation = centres.lift(features)
        centre = of_bias + (sums.mass / span) * (point @ centres.unfinish(features))
        return cls(
            *(centres, rotation, centre, features, z, lam, xi, mean, sums.mass, sums.total),
            *(sums.rows, bias, unit, sums.targets, spread, centres.plain),
        )

    @property
    def rank(self) -> int:
        return self.lam.shape[0]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of coordinates, of the features of the data, and of targets."""
        return self.rank, self.centres.X.shape[1], self.xi.shape[1]

    def doubt(self, mu: float) -> float:
        """About the largest relative error of fits at mu that moments taken once cause.

        As seen beside fits in memory; where centres nearly depend on each other it is larger by
        the factor `_DEPENDENT`.
        """
        xp = arrays.namespace(self.lam)
        moments = arrays.eps(self.lam) * float(xp.max(self.lam)) / mu
        if self.centres.corner is None or self.centres.split == self.centres.size:
            return moments
        if not self.plain:
            return _DEPENDENT * moments
        beta = self.xi / (self.lam + mu)[:, None]
        explained = float(xp.sum(self.lam[:, None] * beta * beta)) / self.mass
        length = (float(xp.sum(beta * beta)) / explained) ** 0.5 if explained > 0 else 0.0
        return max(moments, self.centres.plain_error * length)

    def coordinates(self, X: Array) -> Array:
        """q (b, r) of rows X; 2 b m r flops."""
        q = self.centres.block(X, plain=self.plain) @ self.rotation
        q -= self.centre
        return q

    def coefficients(self, mu: float) -> tuple[Array, Array]:
        """Coefficients of the centres (m, k) and intercepts (k,)."""
        beta = self.xi / (self.lam + mu)[:, None]
        return self.centres.lift(self.features @ beta), self.mean - self.centre @ beta

    def residuals(self, q: Array, block: Block, mus: Sequence[float]) -> tuple[Array, Array]:
        """e (b, k, p) and B_ii (b, p) at p values of mu. Consumes q; O(b r k p)."""
        xp = arrays.namespace(q)
        grid = arrays.like(np.asarray(mus, dtype=np.float64), q)
        fitted, leverage = self._filtered(q, block, 1 / (self.lam[:, None] + grid[None, :]))
        outside = self._outside(block)
        B = xp.maximum(outside - leverage, outside * self._least_complements(grid[None, :]))
        return (block.Y - self.mean)[:, :, None] - fitted, B

    def left_out_derivatives(self, q: Array, block: Block, mu: float) -> tuple[Array, Array, Array]:
        """Left-out residuals (b, k) and their first two derivatives in log mu. Consumes q."""
        xp = arrays.namespace(q)
        f = 1 / (self.lam + mu)
        f1 = -mu * f * f
        fitted, leverage = self._filtered(
            q, block, xp.stack([f, f1, f1 * (1 - 2 * mu * f)], axis=1)
        )
        fitted[:, :, 0] -= block.Y - self.mean
        leverage[:, :1] -= self._outside(block)
        root = block.weights.root[:, None, None]
        return block.weights.left_out_derivatives(-root * fitted, -leverage)

    def training_errors(self, mus: Sequence[float]) -> np.ndarray:
        """Weighted mean squared residual of all rows at each mu, from the moments alone."""
        xp = arrays.namespace(self.lam)
        grid = arrays.like(np.asarray(mus, dtype=np.float64), self.lam)[None, :]
        lam, energy = self.lam[:, None], xp.sum(self.xi * self.xi, axis=1)[:, None]
        explained = xp.sum(energy * (lam + 2 * grid) / (lam + grid) ** 2, axis=0)
        about = 1 / self.mass - 1 / self.bias.span(self.mass)
        squares = self.spread + about * float(xp.sum(self.targets**2))
        return (squares - np.asarray(arrays.to_numpy(explained))) / self.mass

    def mean_complements(self, mus: Sequence[float]) -> Array:
        """About the mean of B_ii over all rows, at each mu."""
        xp = arrays.namespace(self.lam)
        grid = arrays.like(np.asarray(mus, dtype=np.float64), self.lam)[None, :]
        lam = self.lam[:, None]
        complements = 1 - xp.sum(lam / (lam + grid), axis=0) / self.rows
        return xp.maximum(complements, self._least_complements(grid)[0, :])

    def _least_complements(self, grid: Array) -> Array:
        """c_min at each mu: B >= c_min P, and below that is rounding."""
        return grid / (float(arrays.namespace(grid).max(self.lam)) + grid)

    def _filtered(self, q: Array, block: Block, filters: Array) -> tuple[Array, Array]:
        """Fitted values (b, k, p) and leverages (b, p) for filters (r, p) of q, consumed."""
        xp = arrays.namespace(q)
        k, p = block.Y.shape[1], filters.shape[1]
        beta = xp.reshape(self.xi[:, :, None] * filters[:, None, :], (self.rank, k * p))
        fitted = xp.reshape(q @ beta, (q.shape[0], k, p))
        q *= q
        return fitted, block.weights.v[:, None] * (q @ filters)

    def _outside(self, block: Block) -> Array:
        """B_ii without any kernel, (b, 1)."""
        return 1 - block.weights.v[:, None] / self.bias.span(self.mass)


def left_out(e: Array, B: Array, weights: Weights) -> Array:
    """Leave-one-out residuals v e / (v - delta + delta B_ii), (b, k, p)."""
    return e * (weights.v[:, None] / weights.left_out_denominator(B))[:, None, :]
