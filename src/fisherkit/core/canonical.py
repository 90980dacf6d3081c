"""The canonical form: decompose once, ask many questions.

A kernel discriminant minimises  sum_i v_i (y_i - f(x_i) - b)^2 + mu * penalty  over f. With
whitening by s = sqrt(v), the part that depends on the data is one positive semi-definite matrix G~,

    penalty        centres   G~                        f(x)
    rkhs           all       s K s                     k(x)' s alpha~
    rkhs           n         s K_n K_nn^+ K_n' s       k_n(x)' K_nn^+ K_n' s alpha~
    coefficients   all       s K W K s                 k(x)' W K s alpha~
    coefficients   n         s K_n W_n K_n' s          k_n(x)' W_n K_n' s alpha~

and the bias is folded into it: free, the direction s is projected out; penalized, s s' is added.
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
from dataclasses import dataclass, replace

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.kernels import not_finite
from fisherkit.core.weights import Weights

MU_FLOOR = 1e-8  # in units of tr(G)/n: below it, rounding of duplicated rows spoils leave-one-out

_FAR_BELOW = 32.0  # how much less the rounding of a rough low-rank form is than what it lacks
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
    bias_row : (r,) or None
        The bias is  [mean y for a free bias] - bias_row @ (xi / (lam + mu)).
    unit : float
        tr(G)/n, the natural unit of mu.
    tolerance : float
        Trace of what a low-rank factorisation, or the rounding of single precision, left out of
        G~; 0 for an exact form.
    single : bool
        Whether U was found in single precision: good for prices, not for a fit at any mu.
    """

    U: Array
    lam: Array
    rest: Array | None
    weights: Weights
    bias: str
    right: Array | None
    lift: Callable[[Array], Array] | None
    bias_row: Array | None
    unit: float
    tolerance: float = 0.0
    single: bool = False

    @property
    def rank(self) -> int:
        return self.lam.shape[0]

    @classmethod
    def from_gram(
        cls,
        K: Array,
        weights: Weights,
        bias: str,
        *,
        rounding: float | None = None,
        shift: float = 0.0,
        spare: Callable[[float], float] | None = None,
    ) -> Canonical:
        """All eigenvectors of s K s (rkhs penalty, every row a centre). Consumes K; O(n^3).

        A free bias is projected out by a rank-two update that also gives the direction s an
        eigenvalue above all others: its eigenvector is the last one and is dropped. Then K may
        also be given less a constant ``shift``, which the projection removes anyway.

        A kernel that theory does not guarantee to be positive comes with the relative ``rounding``
        of its values; `NotPositiveError` is raised for eigenvalues negative beyond it.

        Where a trace of ``spare(unit)`` might be left out and the rounding of single precision is
        less, that will do: it takes half the time, and the rounding is the tolerance.
        """
        xp = arrays.namespace(K)
        K, unit = whiten(K, weights, shift)
        trace = float(xp.sum(xp.linalg.diagonal(K)))
        if rounding is not None:
            _check_positive(K, _positive_tolerance(unit, weights, rounding))
        s = weights.root
        bias_row = None
        if bias == "free":
            K, centre = _project_out(K, s)
        elif bias == "penalized":
            rank_two_update(K, s, 0.5 * s)
        tolerance, rough = 0.0, None
        if spare is not None:
            tolerance = weights.total * arrays.SINGLE_EPS * _norm_bound(K)
            rough = arrays.single_eigh(K) if tolerance <= spare(unit) else None
        if rough is None:
            tolerance = 0.0
        lam, U = rough or arrays.eigh(K)
        if bias == "free":
            lam, U = lam[:-1], U[:, :-1]
            bias_row = centre @ U
        elif bias == "penalized":
            bias_row = -(s @ U)
        if lam.shape[0]:  # a free bias is all that a single row can have
            floor = max(mu_floor(unit, weights), 1e-6 * float(lam[-1]), tolerance)
            if float(lam[0]) < -floor:
                raise NotPositiveError(_indefinite(float(lam[0]), floor))
        # Of length zero and no less: what rounding has made of them, a small mu would take for lam.
        trace = max(trace, float(xp.sum(lam)))
        noise = K.shape[0] ** 0.5 * arrays.eps(lam) * trace
        noise = min(noise, 1e-3 * mu_floor(unit, weights))  # no mu may tell it from zero
        lam = xp.where(lam > noise, lam, xp.zeros_like(lam))
        found = (bias_row, unit, tolerance, rough is not None)
        return cls(U, lam, None, weights, bias, None, None, *found)

    @classmethod
    def from_features(
        cls,
        Z: Array,
        weights: Weights,
        bias: str,
        *,
        lift: Callable[[Array], Array] | None = None,
    ) -> Canonical:
        """G = Z Z' for features Z (n, m): singular values, never Z'Z. Cost O(n m^2).

        A free bias is projected out as in `from_gram`: a column along s, longer than all the
        others together, takes the first singular vector, and the rest is orthogonal to it.
        """
        xp = arrays.namespace(Z)
        s = weights.root[:, None]
        Z = Z * s
        trace = float(xp.sum(Z * Z))
        unit = trace_unit(trace, weights.total)
        rounding = max(Z.shape) * arrays.eps(Z) * trace**0.5
        mean, first = None, 0
        if bias == "free":
            mean = xp.sum(Z * s, axis=0) / weights.mass
            Z = Z - s * mean
            longest = 2 * float(xp.sum(Z * Z)) ** 0.5 or 1.0
            Z = xp.concat([Z, s * (longest / weights.mass**0.5)], axis=1)
            first = 1
        elif bias == "penalized":
            Z = xp.concat([Z, s], axis=1)
        U, sigma, Wt = xp.linalg.svd(Z, full_matrices=False)
        spans_all = U.shape[0] == U.shape[1]
        U, sigma, W = U[:, first:], sigma[first:], Wt[first:, : Z.shape[1] - first].T
        r = int(xp.sum(xp.astype(sigma > rounding, xp.int64)))
        if spans_all and 2 * r > sigma.shape[0]:
            # The few directions below rounding stay, of length zero: found again by subtraction,
            # they would have half of the digits.
            sigma = xp.where(sigma > rounding, sigma, xp.zeros_like(sigma))
            r = sigma.shape[0]
        return cls._thin(U[:, :r], sigma[:r], W[:, :r], weights, bias, lift, mean, unit, 0.0)

    @classmethod
    def from_low_rank(
        cls,
        L: Array,
        weights: Weights,
        bias: str,
        *,
        lift: Callable[[Array], Array],
        left_out: float,
        cut: float,
        rough: bool = False,
    ) -> Canonical:
        """G = L'L for a factor L (r, n) of K, consumed; eigenvalues of L L', O(n r^2).

        Eigenvalues are dropped, smallest first, while their sum stays below ``cut``;
        ``left_out`` is the trace that the factorisation of K already lacks. Squaring the factor
        is safe here: what it blurs lies below the tolerance, not below mu. The same is asked of
        single precision, which serves a ``rough`` form where that is so.
        """
        xp = arrays.namespace(L)
        s = weights.root[None, :]
        if not weights.uniform:
            L *= s
        mean, offset = None, 0.0
        if bias == "free":
            mean = (L @ weights.root) / weights.mass
            for rows in arrays.row_blocks(*L.shape):
                L[rows, :] -= mean[rows, None] * s
            offset = weights.mass * float(mean @ mean)
        elif bias == "penalized":
            L = xp.concat([L, s + 0.0], axis=0)
            offset = -weights.mass
        L, inner = _inner(L, left_out / weights.total if rough else 0.0)
        trace = float(xp.sum(xp.linalg.diagonal(inner))) + offset + left_out
        unit = trace_unit(trace, weights.total)
        lam, W = arrays.eigh(inner)
        lam = xp.clip(lam, 0.0, None)
        dropped = int(xp.sum(xp.astype(xp.cumulative_sum(lam) <= cut, xp.int64)))
        dropped = max(dropped, L.shape[0] + (bias == "free") - L.shape[1], 0)
        dropped += int(xp.sum(xp.astype(lam[dropped:] <= 0, xp.int64)))
        tolerance = left_out + float(xp.sum(lam[:dropped]))
        lam, W = lam[dropped:], W[:, dropped:]
        sigma = xp.sqrt(lam)
        # U takes the memory of L, column block by column block.
        rotation = (W / sigma).T
        for columns in arrays.row_blocks(L.shape[1], L.shape[0], 1 << 20):
            L[: lam.shape[0], columns] = rotation @ L[:, columns]
        single = arrays.eps(L) > arrays.eps(weights.v)
        U, sigma, W = (arrays.widen(part) for part in (L[: lam.shape[0], :].T, sigma, W))
        form = cls._thin(U, sigma, W, weights, bias, lift, mean, unit, tolerance)
        return replace(form, single=single)

    @classmethod
    def _thin(
        cls,
        U: Array,
        sigma: Array,
        W: Array,
        weights: Weights,
        bias: str,
        lift: Callable[[Array], Array] | None,
        mean: Array | None,
        unit: float,
        tolerance: float,
    ) -> Canonical:
        """Assemble from the thin singular value decomposition U diag(sigma) W' of the features."""
        scaled = W * sigma
        bias_row = None
        if bias == "free":
            bias_row = mean @ scaled
        elif bias == "penalized":
            bias_row = -scaled[-1, :]
            scaled = scaled[:-1, :]
        rest = None
        if U.shape[1] + (bias == "free") < U.shape[0]:
            rest = _remainder(U, weights, bias)
        return cls(U, sigma**2, rest, weights, bias, scaled, lift, bias_row, unit, tolerance)

    def shrinkage(self, mu: float) -> Array:
        """c = mu/(lam + mu), (r,)."""
        return mu / (self.lam + mu)

    def project(self, Y: Array) -> tuple[Array, Array | None]:
        """Whitened targets in canonical coordinates, and what lies outside of U (or ``None``)."""
        xp = arrays.namespace(Y)
        s = self.weights.root[:, None]
        # What U is orthogonal to goes first: a large mean would leave its rounding.
        whitened = s * (Y - self.weights.mean(Y)) if self.bias == "free" else s * Y
        xi = self.U.T @ whitened
        if self.rest is None:
            return xi, None
        outside = whitened - self.U @ xi
        # Rounding would swamp residuals at small mu: a row of leverage one has no part outside,
        # and neither has one whose copies agree with it.
        rounding = 4 * Y.shape[0] * arrays.eps(Y) * xp.max(xp.abs(whitened))
        real = (self.rest > 0)[:, None] & (xp.abs(outside) > rounding)
        return xi, xp.where(real, outside, xp.zeros_like(outside))


def _inner(L: Array, lacking: float) -> tuple[Array, Array]:
    """L and L L'; in single precision if its rounding is far below what L lacks of each row.

    Eigenvalues that are kept are hardly less than that, and U is orthonormal to their rounding.
    """
    xp = arrays.namespace(L)
    largest = lacking / (_FAR_BELOW * arrays.SINGLE_EPS)  # norm of L L' for which that is so
    blocks = arrays.row_blocks(*L.shape)
    if lacking > 0 and all(float(xp.max(xp.sum(L[b, :] ** 2, axis=1))) < largest for b in blocks):
        single = arrays.narrow(L)
        if single is not None:
            inner = single @ single.T
            if float(xp.sum(inner * inner)) ** 0.5 < largest:
                return single, inner
    return L, L @ L.T


def _remainder(U: Array, weights: Weights, bias: str) -> Array:
    """Diagonal of P - U U', with rounding cleared away (a row of leverage one has none).

    Where little remains, the difference has lost its digits: there it is the squared length of
    what projection leaves of the row's unit vector, O(n r) for each such row.
    """
    xp = arrays.namespace(U)
    n = U.shape[0]
    inside = xp.concat(
        [xp.sum(U[rows, :] ** 2, axis=1) for rows in arrays.row_blocks(*U.shape)], axis=0
    )
    rest = 1 - inside
    if bias == "free":
        rest = rest - weights.v / weights.mass
    host = np.array(arrays.to_numpy(rest), dtype=np.float64)
    doubtful = np.flatnonzero(host < _FEW_DIGITS)
    for some in arrays.row_blocks(len(doubtful), n):
        rows = arrays.indices(doubtful[some], U)
        unit = xp.astype(arrays.indices(np.arange(n), U)[:, None] == rows[None, :], U.dtype)
        for _ in range(2):  # once more: the first time leaves rounding along U
            unit = unit - U @ (U.T @ unit)
            if bias == "free":
                s = weights.root[:, None]
                unit = unit - s * (xp.sum(s * unit, axis=0) / weights.mass)
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


def _project_out(K: Array, s: Array) -> tuple[Array, Array]:
    """P K P + sigma e e' in place with e = s/|s|, sigma above every eigenvalue; and K e / |s|."""
    xp = arrays.namespace(K)
    norm = float(xp.sum(s * s)) ** 0.5
    e = s / norm
    Ke = K @ e
    rank_two_update(K, e, 0.5 * float(e @ Ke) * e - Ke)
    # Above every eigenvalue, and far above the rounding of what was projected out.
    removed = float(xp.max(xp.abs(Ke))) * K.shape[0] ** 0.5
    sigma = 2 * _norm_bound(K) + 0.01 * removed or 1.0
    rank_two_update(K, e, 0.5 * sigma * e)
    return K, Ke / norm


def _norm_bound(K: Array) -> float:
    """The largest absolute row sum of a symmetric K, which bounds every eigenvalue; O(n^2)."""
    xp = arrays.namespace(K)
    return max(
        float(xp.max(xp.sum(xp.abs(K[rows, :]), axis=1))) for rows in arrays.row_blocks(*K.shape)
    )


def rank_two_update(M: Array, a: Array, b: Array) -> None:
    """M += a b' + b a' in place, by blocks of rows: no extra n x n array."""
    for rows in arrays.row_blocks(M.shape[0], M.shape[1]):
        M[rows, :] += a[rows, None] * b[None, :] + b[rows, None] * a[None, :]


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
