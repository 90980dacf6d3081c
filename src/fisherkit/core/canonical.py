"""The canonical form: decompose once, ask many questions.

A kernel discriminant minimises  sum_i v_i (y_i - f(x_i) - b)^2 + mu * penalty  over f. With
whitening by s = sqrt(v), the part that depends on the data is one positive semi-definite matrix G~,

    penalty        centres   G~                        f(x)
    rkhs           all       s K s                     k(x)' s alpha~
    rkhs           n         s K_n K_nn^+ K_n' s       k_n(x)' K_nn^+ K_n' s alpha~
    coefficients   all       s K W K s                 k(x)' W K s alpha~
    coefficients   n         s K_n W_n K_n' s          k_n(x)' W_n K_n' s alpha~

and the bias is folded into it (`fisherkit.core.bias`): free, the direction s is projected out;
penalized, s s' is added.
Let G~ = U diag(lam) U' with orthonormal columns U (n, r), and P the projection that remains. Then

    B(mu) = I - H~ = (P - U U') + U diag(c) U',        c = mu / (lam + mu)

is the residual maker: B y~ are the residuals, and leaving out row i, or the rows of a group,

    y_i - f_(i)(x_i) = (B y~)_i / (s_i B_ii),          (y - f_(G))_G = B_GG^-1 (B y~)_G / s_G.

This is the A form (B = mu A): sums of positive terms, no 1 - h subtraction, accurate for any mu.
Its derivatives in log mu replace c by c' = c (1 - c) and c'' = c (1 - c)(1 - 2 c).

Cost: the decomposition O(n^3) or O(n r^2); then O(n r) for another mu or another labelling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.bias import Bias
from fisherkit.core.kernels import not_finite
from fisherkit.core.weights import Weights

MU_FLOOR = 1e-8  # in units of tr(G)/n: below it, rounding of duplicated rows spoils leave-one-out

_VANISHING = 1e-301  # unit below which no mu in its proportion is a number
_FEW_DIGITS = 1e-6  # of a diagonal found as a difference to one: below it, few are right


def mu_floor(unit: float, weights: Weights) -> float:
    """The smallest mu that a search may reach: 1e-8 tr(G)/n, or what rounding allows.

    No eigenvalue of G~ passes its trace, n tr(G)/n with copies counted.
    """
    return relative_floor(weights.total, arrays.eps(weights.v)) * unit


def relative_floor(total: float, eps: float) -> float:
    """`mu_floor` in units of tr(G)/n."""
    return max(MU_FLOOR, 10 * total * eps)


class NotPositiveError(ValueError):
    """The kernel matrix has a negative eigenvalue beyond rounding."""


@dataclass(frozen=True)
class Canonical:
    """G~ = U diag(lam) U' with the bias folded in; see the module docstring.

    Attributes
    ----------
    U : (n, r)
        Orthonormal eigenvectors; orthogonal to ``weights.root`` for a free bias.
    lam : (r,)
        Eigenvalues, not negative.
    rest : (n,) or None
        Diagonal of P - U U'; ``None`` where U spans all that P leaves.
    right : (m, r) or None
        Weights of the m features are right @ (xi / (lam + mu)); ``None``: the dual form s * U.
    lift : callable or None
        Takes feature weights (m, k) to coefficients of the centres; ``None``: they are equal.
    bias_row : (r,)
        The bias is  [mean y for a free bias] - bias_row @ (xi / (lam + mu)).
    unit : float
        tr(G)/n, the natural unit of mu.
    tolerance : float
        Trace of what a low-rank factorisation left out of G~; 0 for an exact form.
    """

    U: Array
    lam: Array
    rest: Array | None
    weights: Weights
    bias: Bias
    right: Array | None
    lift: Callable[[Array], Array] | None
    bias_row: Array
    unit: float
    tolerance: float = 0.0

    @property
    def rank(self) -> int:
        return self.lam.shape[0]

    @classmethod
    def from_gram(
        cls,
        K: Array,
        weights: Weights,
        bias: Bias,
        *,
        rounding: float | None = None,
        shift: float = 0.0,
    ) -> Canonical:
        """All eigenvectors of s K s (rkhs penalty, every row a centre). Consumes K; O(n^3).

        Where a free bias is projected out, K may also be given less a constant ``shift``, which
        the projection removes anyway.

        A kernel that theory does not guarantee to be positive comes with the relative ``rounding``
        of its values; `NotPositiveError` is raised for eigenvalues negative beyond it.
        """
        xp = arrays.namespace(K)
        K, unit = whiten(K, weights, shift)
        trace = float(xp.sum(xp.linalg.diagonal(K)))
        if rounding is not None:
            _check_positive(K, _positive_tolerance(unit, weights, rounding))
        K, towards = bias.fold(K, weights.root)
        lam, U = arrays.eigh(K)
        kept = lam.shape[0] - bias.directions
        lam, U = lam[:kept], U[:, :kept]
        if lam.shape[0]:  # a free bias is all that a single row can have
            floor = max(mu_floor(unit, weights), 1e-6 * float(lam[-1]))
            if float(lam[0]) < -floor:
                raise NotPositiveError(_indefinite(float(lam[0]), floor))
        # Of length zero and no less: what rounding has made of them, a small mu would take for lam.
        trace = max(trace, float(xp.sum(lam)))
        noise = K.shape[0] ** 0.5 * arrays.eps(lam) * trace
        noise = min(noise, 1e-3 * mu_floor(unit, weights))  # no mu may tell it from zero
        lam = xp.where(lam > noise, lam, xp.zeros_like(lam))
        return cls(
            U=U,
            lam=lam,
            rest=None,
            weights=weights,
            bias=bias,
            right=None,
            lift=None,
            bias_row=towards @ U,
            unit=unit,
        )

    @classmethod
    def from_features(
        cls,
        Z: Array,
        weights: Weights,
        bias: Bias,
        *,
        lift: Callable[[Array], Array] | None = None,
    ) -> Canonical:
        """G = Z Z' for features Z (n, m): singular values, never Z'Z. Cost O(n m^2)."""
        xp, s = arrays.namespace(Z), weights.root
        Z = Z * s[:, None]
        trace = float(xp.sum(Z * Z))
        unit = trace_unit(trace, weights.total)
        rounding = max(Z.shape) * arrays.eps(Z) * trace**0.5
        mean = (s @ Z) / bias.span(weights.mass)
        Z -= s[:, None] * mean
        U, sigma, W = bias.svd(Z, s)
        spans_all = U.shape[0] == U.shape[1] + bias.directions
        r = int(xp.sum(xp.astype(sigma > rounding, xp.int64)))
        if spans_all and 2 * r > sigma.shape[0]:
            # The few directions below rounding stay, of length zero: found again by subtraction,
            # they would have half of the digits.
            sigma = xp.where(sigma > rounding, sigma, xp.zeros_like(sigma))
            r = sigma.shape[0]
        kept = U[:, :r], sigma[:r], W[:, :r]
        return cls._thin(*kept, weights, bias, lift=lift, mean=mean, unit=unit)

    @classmethod
    def from_low_rank(
        cls,
        L: Array,
        weights: Weights,
        bias: Bias,
        *,
        lift: Callable[[Array], Array],
        left_out: float,
        cut: float,
    ) -> Canonical:
        """G = L'L for a factor L (r, n) of K, consumed; eigenvalues of L L', O(n r^2).

        Eigenvalues are dropped, smallest first, while their sum stays below ``cut``;
        ``left_out`` is the trace that the factorisation of K already lacks. Squaring the factor
        is safe here: what it blurs lies below the tolerance, not below mu.
        """
        xp = arrays.namespace(L)
        s = weights.root
        if not weights.uniform:
            L *= s[None, :]
        mean = (L @ s) / bias.span(weights.mass)
        for rows in arrays.row_blocks(*L.shape):
            L[rows, :] -= mean[rows, None] * s[None, :]
        offset = weights.mass * (float(mean @ mean) - bias.variance)
        L = bias.extend(L.T, s).T
        inner = L @ L.T
        trace = float(xp.sum(xp.linalg.diagonal(inner))) + offset + left_out
        unit = trace_unit(trace, weights.total)
        lam, W = arrays.eigh(inner)
        lam = xp.clip(lam, 0.0, None)
        dropped = int(xp.sum(xp.astype(xp.cumulative_sum(lam) <= cut, xp.int64)))
        dropped = max(dropped, L.shape[0] + bias.directions - L.shape[1], 0)
        dropped += int(xp.sum(xp.astype(lam[dropped:] <= 0, xp.int64)))
        tolerance = left_out + float(xp.sum(lam[:dropped]))
        lam, W = lam[dropped:], W[:, dropped:]
        sigma = xp.sqrt(lam)
        # U takes the memory of L, column block by column block.
        rotation = (W / sigma).T
        for columns in arrays.row_blocks(L.shape[1], L.shape[0], 1 << 20):
            L[: lam.shape[0], columns] = rotation @ L[:, columns]
        words = {"lift": lift, "mean": mean, "unit": unit, "tolerance": tolerance}
        return cls._thin(L[: lam.shape[0], :].T, sigma, W, weights, bias, **words)

    @classmethod
    def _thin(
        cls,
        U: Array,
        sigma: Array,
        W: Array,
        weights: Weights,
        bias: Bias,
        *,
        mean: Array,
        **others: Any,
    ) -> Canonical:
        """Assemble from the thin singular value decomposition U diag(sigma) W' of the features."""
        right, own = bias.split(W * sigma)
        spans_all = U.shape[1] + bias.directions >= U.shape[0]
        return cls(
            U=U,
            lam=sigma**2,
            rest=None if spans_all else _remainder(U, weights, bias),
            weights=weights,
            bias=bias,
            right=right,
            bias_row=own + mean @ right,
            **others,
        )

    def shrinkage(self, mu: float) -> Array:
        """c = mu/(lam + mu), (r,)."""
        return mu / (self.lam + mu)

    def to_centres(self, coordinates: Array) -> Array:
        """Coefficients of the centres (m, p) of weights in canonical coordinates (r, p)."""
        if self.right is None:
            coef = self.weights.root[:, None] * (self.U @ coordinates)
        else:
            coef = self.right @ coordinates
        return coef if self.lift is None else self.lift(coef)

    def project(self, Y: Array) -> tuple[Array, Array | None]:
        """Whitened targets in canonical coordinates, and what lies outside of U (or ``None``)."""
        xp = arrays.namespace(Y)
        s = self.weights.root[:, None]
        # What U is orthogonal to goes first: a large mean would leave its rounding.
        whitened = s * (Y - self.bias.mean(Y, self.weights))
        xi = self.U.T @ whitened
        if self.rest is None:
            return xi, None
        outside = whitened - self.U @ xi
        # Rounding would swamp residuals at small mu: a row of leverage one has no part outside,
        # and neither has one whose copies agree with it.
        rounding = 4 * Y.shape[0] * arrays.eps(Y) * xp.max(xp.abs(whitened))
        real = (self.rest > 0)[:, None] & (xp.abs(outside) > rounding)
        return xi, xp.where(real, outside, xp.zeros_like(outside))


def _remainder(U: Array, weights: Weights, bias: Bias) -> Array:
    """Diagonal of P - U U', with rounding cleared away (a row of leverage one has none).

    Where little remains, the difference has lost its digits: there it is the squared length of
    what projection leaves of the row's unit vector, O(n r) for each such row.
    """
    xp = arrays.namespace(U)
    n = U.shape[0]
    inside = xp.concat(
        [xp.sum(U[rows, :] ** 2, axis=1) for rows in arrays.row_blocks(*U.shape)], axis=0
    )
    s, span = weights.root, bias.span(weights.mass)
    rest = 1 - inside - weights.v / span
    host = np.array(arrays.to_numpy(rest), dtype=np.float64)
    doubtful = np.flatnonzero(host < _FEW_DIGITS)
    for some in arrays.row_blocks(len(doubtful), n):
        rows = arrays.indices(doubtful[some], U)
        unit = xp.astype(arrays.indices(np.arange(n), U)[:, None] == rows[None, :], U.dtype)
        for _ in range(2):  # once more: the first time leaves rounding along U
            unit = unit - U @ (U.T @ unit)
            unit = unit - s[:, None] * ((s @ unit) / span)
        host[doubtful[some]] = arrays.to_numpy(xp.sum(unit * unit, axis=0))
    host[host < (4 * n * arrays.eps(U)) ** 2] = 0.0
    return arrays.like(host, U)


def trace_unit(trace: float, total: float) -> float:
    """tr(G~)/n with n = ``total`` rows, copies counted; one where the kernel vanishes."""
    unit = trace / total
    if not np.isfinite(unit):
        raise ValueError(not_finite(f"their mean on the diagonal is {unit}"))
    return unit if unit > _VANISHING else 1.0


def whiten(K: Array, weights: Weights, shift: float = 0.0) -> tuple[Array, float]:
    """s K s in place, and tr(G~)/n of the K that is ``shift`` larger."""
    xp = arrays.namespace(K)
    s = weights.root
    if not weights.uniform:
        K *= s[:, None]
        K *= s[None, :]
    trace = float(xp.sum(xp.linalg.diagonal(K))) + shift * weights.mass
    return K, trace_unit(trace, weights.total)


def require_positive(K: Array, weights: Weights, rounding: float) -> None:
    """Raise `NotPositiveError` if K has a negative eigenvalue beyond rounding. Consumes K."""
    K, unit = whiten(K, weights)
    _check_positive(K, _positive_tolerance(unit, weights, rounding))


def _positive_tolerance(unit: float, weights: Weights, rounding: float) -> float:
    return max(mu_floor(unit, weights), 10 * weights.total * rounding * unit)


def _check_positive(K: Array, tolerance: float) -> None:
    """Raise if K is not finite or has an eigenvalue below -tolerance; n^3/3 flops if not."""
    xp = arrays.namespace(K)
    for rows in arrays.row_blocks(*K.shape):
        broken = arrays.to_numpy(xp.any(~xp.isfinite(K[rows, :]), axis=1))
        if np.any(broken):
            row = rows.start + int(np.flatnonzero(broken)[0])
            raise ValueError(not_finite(f"row {row} of the matrix has NaN or infinity"))
    shifted = K + 0.0
    arrays.add_to_diagonal(shifted, tolerance)
    if not arrays.is_positive_definite(shifted):
        smallest = float(xp.min(xp.linalg.eigvalsh(K)))
        if smallest < -tolerance:
            raise NotPositiveError(_indefinite(smallest, tolerance))


def _indefinite(smallest: float, tolerance: float) -> str:
    return (
        f"The kernel matrix is not positive semi-definite: its smallest eigenvalue is "
        f"{smallest:.6g}, below the tolerance of {-tolerance:.3g}. Use a positive semi-definite "
        "kernel, or clip the negative eigenvalues of a precomputed one."
    )
