"""Ridge fits in canonical form: coefficients, residuals, and every left-out prediction.

`RidgePath` is a `Canonical` with targets: all mu at once, with derivatives. `Ridge` is the fit at
one mu, from the path, one Cholesky factorisation (`solve`) or `fisherkit.core.solvers`, with what
is needed to leave rows out of it. The formulas are those of `fisherkit.core.canonical`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.bias import Bias
from fisherkit.core.canonical import Canonical, trace_unit, whiten
from fisherkit.core.weights import Weights

_SQUARING = 1e-4  # relative mu below which squaring K costs digits
_GRID = 1 << 22  # residuals (rows, targets, values of mu) priced at once


@dataclass(frozen=True)
class Fold:
    """Rows removed from training, and the positions among them that are tested."""

    removed: Array
    tested: Array


class Resolvent(Protocol):
    """B(mu) = I - H~ at one mu: what leaving rows out needs, and B y~ for any targets Y (n, k)."""

    def diagonal(self) -> Array: ...

    def block(self, rows: Array, columns: Array) -> Array: ...

    def strip(self, rows: Array) -> Array: ...

    def residuals(self, Y: Array) -> Array: ...


@dataclass(frozen=True)
class SpectralResolvent:
    """B(mu) in canonical coordinates."""

    canonical: Canonical
    c: Array

    def diagonal(self) -> Array:
        return _leverage_complement(self.canonical, self.c[:, None])[:, 0]

    def block(self, rows: Array, columns: Array) -> Array:
        return _block(self.canonical, rows, columns, self.c)

    def strip(self, rows: Array) -> Array:
        """All columns of some rows, (b, n); O(b n r), and no copy of U."""
        return _block(self.canonical, rows, None, self.c)

    def residuals(self, Y: Array) -> Array:
        xi, outside = self.canonical.project(Y)
        BY = self.canonical.U @ (self.c[:, None] * xi)
        return BY if outside is None else BY + outside


@dataclass(frozen=True)
class DenseResolvent:
    """B(mu) as a matrix, from one Cholesky factorisation, and the whitening s (n,)."""

    B: Array
    root: Array

    def diagonal(self) -> Array:
        return arrays.namespace(self.B).linalg.diagonal(self.B)

    def block(self, rows: Array, columns: Array) -> Array:
        xp = arrays.namespace(self.B)
        if columns.shape[0] < rows.shape[0]:  # the short axis first: no (n, n) copy
            return xp.take(xp.take(self.B, columns, axis=1), rows, axis=0)
        return xp.take(xp.take(self.B, rows, axis=0), columns, axis=1)

    def strip(self, rows: Array) -> Array:
        """All columns of some rows, (b, n)."""
        return arrays.namespace(self.B).take(self.B, rows, axis=0)

    def residuals(self, Y: Array) -> Array:
        return self.B @ (self.root[:, None] * Y)


@dataclass(frozen=True)
class Residuals:
    """The residuals of a fit at one mu, and with them every leave-one-out residual.

    ``Y`` (n, k) are the targets, ``B_diag`` (n,) and ``BY`` (n, k) the diagonal of B and B y~, and
    ``scatter`` (k, k) is E = y~' B y~, the residual scatter of the targets.
    """

    Y: Array
    weights: Weights
    B_diag: Array
    BY: Array
    scatter: Array

    @property
    def residual(self) -> Array:
        """y - f on the rows trained on, (n, k)."""
        return self.BY / self.weights.root[:, None]

    def taken(self, rows: Array) -> Residuals:
        """The residuals of some of the rows; E is still that of all rows."""
        xp = arrays.namespace(self.Y)
        return Residuals(
            Y=xp.take(self.Y, rows, axis=0),
            weights=self.weights.take(rows),
            B_diag=xp.take(self.B_diag, rows, axis=0),
            BY=xp.take(self.BY, rows, axis=0),
            scatter=self.scatter,
        )

    def leave_one_out(self) -> Array:
        """y_i - f_(i)(x_i), (n, k); exact with centres fixed."""
        return left_out(self.BY, self.B_diag[:, None], self.weights)

    def mean_left(self, total: Array, mass: float) -> Array:
        """Mean targets (n, k) of the rows that each left-out row's model was fitted to.

        ``total`` (k,) is the weighted sum of all targets, which may be more than these, and
        ``mass`` the sum of the weights.
        """
        return self.weights.fold_mean_within(self.Y, total, mass)

    def counts_left(self, indicator: Array, counts: Array) -> Array:
        """Class counts (n, c) of the rows that each left-out row's model was fitted to.

        ``indicator`` (n, c) has the classes of the rows, and ``counts`` (c,) are those of all.
        """
        xp = arrays.namespace(indicator)
        left = counts[None, :] - self.weights.delta[:, None] * indicator
        return xp.where(left > 1e-9 * counts[None, :], left, xp.zeros_like(left))

    def loo_scatter(self, loo: Array, rows: slice) -> Array:
        """E_(i) = E - delta_i r_i R_i' for some left-out rows; (b, k, k)."""
        residual = self.BY[rows, :] / self.weights.root[rows, None]
        drop = residual[:, :, None] * loo[rows, None, :]
        return self.scatter[None, :, :] - self.weights.delta[rows, None, None] * drop

    def scatter_without(self, group: Array, left_out: Array) -> Array:
        """E_(G) = E - r_G' V_G R_G, with R_G the residuals of `leave_group_out`."""
        xp = arrays.namespace(self.Y)
        plain = xp.take(self.weights.root[:, None] * self.BY, group, axis=0)
        return self.scatter - plain.T @ left_out


@dataclass(frozen=True)
class Ridge(Residuals):
    """The fit at one mu, f(x) = k(x)' coef + intercept, and the means to leave groups out of it."""

    resolvent: Resolvent
    coef: Array
    intercept: Array

    def leave_group_out(self, group: Array) -> Array:
        """(y - f_(G))_G for the rows of one group removed together, (g, k)."""
        xp = arrays.namespace(self.Y)
        solved = solve_left_out(self.resolvent.block(group, group), xp.take(self.BY, group, axis=0))
        return solved / xp.take(self.weights.root, group, axis=0)[:, None]

    def without(self, group: Array, remaining: Array) -> Residuals:
        """The fit to the remaining rows, B_(G) = B_RR - B_RG B_GG^-1 B_GR; O(n g^2)."""
        xp = arrays.namespace(self.Y)
        across = self.resolvent.block(remaining, group)
        solved = solve_left_out(
            self.resolvent.block(group, group),
            xp.concat([across.T, xp.take(self.BY, group, axis=0)], axis=1),
        )
        m = remaining.shape[0]
        diag = xp.take(self.B_diag, remaining, axis=0) - xp.sum(across * solved[:, :m].T, axis=1)
        BY = xp.take(self.BY, remaining, axis=0) - across @ solved[:, m:]
        return Residuals(
            Y=xp.take(self.Y, remaining, axis=0),
            weights=self.weights.take(remaining),
            B_diag=diag,
            BY=BY,
            scatter=self.scatter_without(group, self.leave_group_out(group)),
        )


@dataclass(frozen=True)
class RidgePath:
    """A canonical form with targets: every ridge fit, and every left-out prediction, at any mu."""

    canonical: Canonical
    Y: Array
    xi: Array
    outside: Array | None

    @classmethod
    def of(cls, canonical: Canonical, Y: Array) -> RidgePath:
        """All fits to the targets Y (n, k); O(n r k)."""
        return cls(canonical, Y, *canonical.project(Y))

    def at(self, mu: float) -> Ridge:
        """The fit at one mu; O(n r k)."""
        form = self.canonical
        c = form.shrinkage(mu)
        coef, intercept = self.coefficients([mu])
        diag = _leverage_complement(form, c[:, None])[:, 0]
        BY = self._residual_coordinates(c[:, None])[:, :, 0]
        scatter = self.xi.T @ (c[:, None] * self.xi)
        if self.outside is not None:
            scatter = scatter + self.outside.T @ self.outside
        resolvent = SpectralResolvent(form, c)
        return Ridge(
            Y=self.Y,
            weights=form.weights,
            B_diag=diag,
            BY=BY,
            scatter=scatter,
            resolvent=resolvent,
            coef=coef[:, :, 0],
            intercept=intercept[:, 0],
        )

    def coefficients(self, mus: Sequence[float]) -> tuple[Array, Array]:
        """Coefficients of the centres (m, k, p) and biases (k, p) at p values of mu; O(n r k p)."""
        xp = arrays.namespace(self.Y)
        form, k, p = self.canonical, self.Y.shape[1], len(mus)
        grid = arrays.like(np.asarray(mus, dtype=np.float64), self.Y)
        # A direction of length zero predicts nothing: in the dual form its weight xi / mu, huge for
        # a small mu, would leave its rounding.
        xi = xp.where(form.lam[:, None] > 0, self.xi, xp.zeros_like(self.xi))
        filtered = xi[:, :, None] / (form.lam[:, None] + grid[None, :])[:, None, :]
        filtered = xp.reshape(filtered, (form.rank, k * p))
        coef = form.to_centres(filtered)
        mean = form.bias.mean(self.Y, form.weights)
        intercept = mean[:, None] - xp.reshape(form.bias_row @ filtered, (k, p))
        return xp.reshape(coef, (coef.shape[0], k, p)), intercept

    def held_out(self, mus: Sequence[float], folds: Sequence[Fold] | None = None) -> Array:
        """Residuals of held-out rows for many mu at once, (rows, k, number of mu).

        Leave-one-out costs two matrix products, O(n r k) per mu; folds of g rows cost
        O(g^2 (r + g)) each and per mu.
        """
        xp = arrays.namespace(self.Y)
        grid = arrays.like(np.asarray(mus, dtype=np.float64), self.Y)
        C = grid[None, :] / (self.canonical.lam[:, None] + grid[None, :])
        parts = []
        for some in arrays.row_blocks(C.shape[1], self.Y.shape[0] * self.Y.shape[1], _GRID):
            c = C[:, some]
            numerator = self._residual_coordinates(c)
            if folds is None:
                denominator = _leverage_complement(self.canonical, c)[:, None, :]
                parts.append(left_out(numerator, denominator, self.canonical.weights))
            else:
                parts.append(self._fold_residuals(folds, c, numerator))
        return xp.concat(parts, axis=2)

    def held_out_derivatives(
        self, mu: float, folds: Sequence[Fold] | None = None
    ) -> tuple[Array, Array, Array]:
        """Held-out residuals (rows, k) and their first two derivatives in log mu."""
        xp = arrays.namespace(self.Y)
        c = self.canonical.shrinkage(mu)
        # c' and c'' have no part outside of U, hence the differences to the zero filter.
        C = xp.stack([c, c * (1 - c), c * (1 - c) * (1 - 2 * c)], axis=1)
        num = self._residual_coordinates(C)
        if self.outside is not None:
            num[:, :, 1:] -= self.outside[:, :, None]
        if folds is not None:
            return self._fold_derivatives(folds, C, num)
        den = _leverage_complement(self.canonical, C)
        if self.canonical.rest is not None:
            den[:, 1:] -= self.canonical.rest[:, None]
        return self.canonical.weights.left_out_derivatives(num, den)

    def _residual_coordinates(self, C: Array) -> Array:
        """B y~ for each column of filters C (r, p): (n, k, p)."""
        xp = arrays.namespace(C)
        n, k, p = self.Y.shape[0], self.Y.shape[1], C.shape[1]
        filtered = xp.reshape(self.xi[:, :, None] * C[:, None, :], (C.shape[0], k * p))
        BY = xp.reshape(self.canonical.U @ filtered, (n, k, p))
        return BY if self.outside is None else BY + self.outside[:, :, None]

    def _fold_residuals(self, folds: Sequence[Fold], C: Array, BY: Array) -> Array:
        """(y - f_(G))_G of the tested rows for filters C (r, p) and B y~ (n, k, p)."""
        xp = arrays.namespace(C)
        parts = []
        for fold in folds:
            group = _Group.of(self.canonical, fold.removed)
            rows = xp.take(BY, fold.removed, axis=0)
            solved = [
                xp.take(solve_left_out(group.B(C[:, j]), rows[:, :, j]), fold.tested, axis=0)
                for j in range(C.shape[1])
            ]
            root = xp.take(xp.take(self.canonical.weights.root, fold.removed), fold.tested)
            parts.append(xp.stack(solved, axis=2) / root[:, None, None])
        return xp.concat(parts, axis=0)

    def _fold_derivatives(
        self, folds: Sequence[Fold], C: Array, num: Array
    ) -> tuple[Array, Array, Array]:
        """The quotient rule with matrices: B R = b, so B R' = b' - B' R and so on."""
        xp = arrays.namespace(C)
        parts = []
        for fold in folds:
            G = fold.removed
            b = xp.take(num, G, axis=0)
            group = _Group.of(self.canonical, G)
            B = group.B(C[:, 0])
            R = solve_left_out(B, b[:, :, 0])
            R1 = solve_left_out(B, b[:, :, 1] - group.times(C[:, 1], R))
            R2 = solve_left_out(
                B, b[:, :, 2] - 2 * group.times(C[:, 1], R1) - group.times(C[:, 2], R)
            )
            stacked = xp.stack([R, R1, R2], axis=2)
            stacked = stacked / xp.take(self.canonical.weights.root, G, axis=0)[:, None, None]
            parts.append(xp.take(stacked, fold.tested, axis=0))
        joined = xp.concat(parts, axis=0)
        return joined[:, :, 0], joined[:, :, 1], joined[:, :, 2]


def solve_left_out(B: Array, b: Array) -> Array:
    """B^-1 b for a block B of the residual maker: residuals of rows that are left out together."""
    try:
        return arrays.namespace(B).linalg.solve(B, b)
    except (np.linalg.LinAlgError, RuntimeError) as error:  # the latter is PyTorch's
        raise ValueError(
            "Rows cannot be left out of the fit: at this regularisation it passes through them to "
            "rounding. Use a larger regularization, or the search for it."
        ) from error


def solve(
    K: Array, Y: Array, weights: Weights, *, bias: Bias, penalty: str, mu: float
) -> tuple[Ridge, float] | None:
    """One fit at a given mu by Cholesky, every row a centre; and tr(G)/n.

    Consumes K; n^3 flops (rkhs). ``None`` where a decomposition does better: G~ + mu I is not
    positive definite to rounding, or K would be squared (coefficients) for a small mu.
    """
    if penalty == "rkhs":
        G, unit = whiten(K, weights)
        fit = solve_whitened(G, Y, weights, bias, mu)
        return None if fit is None else (fit, unit)
    xp = arrays.namespace(K)
    root = xp.sqrt(weights.frequency)
    Z = K * (weights.root[:, None] * root[None, :])
    unit = trace_unit(float(xp.sum(Z * Z)), weights.total)
    fit = None if mu < _SQUARING * unit else solve_whitened(Z @ Z.T, Y, weights, bias, mu)
    if fit is None:
        return None
    return replace(fit, coef=weights.frequency[:, None] * (K @ fit.coef)), unit


def solve_whitened(G: Array, Y: Array, weights: Weights, bias: Bias, mu: float) -> Ridge | None:
    """The fit with the matrix G~ (n, n), consumed, and coefficients s alpha; n^3 flops."""
    s = weights.root[:, None]
    solved = bias.solve(G, weights.root, mu, s * Y)
    if solved is None:
        return None
    B, alpha, intercept = solved
    B *= mu
    resolvent = DenseResolvent(B, weights.root)
    return Ridge(
        Y=Y,
        weights=weights,
        B_diag=resolvent.diagonal(),
        BY=mu * alpha,
        scatter=mu * ((s * Y).T @ alpha),
        resolvent=resolvent,
        coef=s * alpha,
        intercept=intercept,
    )


def coefficients_at(
    K: Array, Y: Array, weights: Weights, bias: Bias, mu: float
) -> tuple[Array, Array] | None:
    """Coefficients (n, k) and intercept (k,) alone, or ``None`` without a factor; consumes K."""
    xp, (G, _) = arrays.namespace(K), whiten(K, weights)
    s, targets = weights.root, weights.root[:, None] * Y
    if bias.variance:
        bias.fold(G, s)
    arrays.add_to_diagonal(G, mu)
    factor = arrays.cholesky(G)
    if factor is None:
        return None
    solved = arrays.cholesky_solve(factor, xp.concat([targets, s[:, None]], axis=1))
    alpha, intercept, _ = bias.eliminate(solved, s, targets)
    return s[:, None] * alpha, intercept


def left_out_and_fit(
    K: Array, Y: Array, weights: Weights, bias: Bias, mu: float
) -> tuple[Array, Array, Array] | None:
    """Leave-one-out residuals (n, k), coefficients (n, k) and intercept (k,), or ``None`` without a
    factor, in two thirds of the time of `solve` (rkhs); consumes K."""
    (G, _), s = whiten(K, weights), weights.root[:, None]
    found = bias.leverages(G, weights.root, mu, s * Y)
    if found is None:
        return None
    diagonal, alpha, intercept = found
    return left_out(mu * alpha, mu * diagonal[:, None], weights), s * alpha, intercept


@dataclass(frozen=True)
class Pullback:
    """What the slopes p = dQ/dr of a criterion say of mu and of the kernel matrix.

    The left-out residuals are r_i = s_i e_i / den_i with e = B y~ and den_i the left-out
    denominator, in which B_ii counts delta_i. With c = p s / den, t_i = sum_k p_ik r_ik delta_i /
    den_i and z = B c,

        dQ = <c, de> - t' dB_ii,     dB/dlog mu = B - B^2,     dB = -B dG~ B / mu,
        dQ/dG~ = (B diag(t) B - (z e' + e z') / 2) / mu.
    """

    fit: Ridge
    B: Array
    mu: float
    c: Array
    t: Array
    z: Array

    @classmethod
    def of(cls, fit: Ridge, mu: float, slopes: Array) -> Pullback:
        """For a fit by `solve`; O(n^2 k)."""
        assert isinstance(fit.resolvent, DenseResolvent)
        B, weights = fit.resolvent.B, fit.weights
        den = weights.left_out_denominator(fit.B_diag)[:, None]
        c = slopes * weights.root[:, None] / den
        r = fit.leave_one_out()
        t = arrays.namespace(B).sum(slopes * r * weights.delta[:, None] / den, axis=1)
        return cls(fit, B, mu, c, t, B @ c)

    def by_log_mu(self) -> float:
        """dQ/dlog mu; O(n^2)."""
        xp, e = arrays.namespace(self.B), self.fit.BY
        blocks = arrays.row_blocks(*self.B.shape)
        squares = xp.concat([xp.sum(self.B[b, :] * self.B[b, :], axis=1) for b in blocks], axis=0)
        means = float(xp.sum((self.c - self.z) * e))
        return means - float(xp.sum(self.t * (self.fit.B_diag - squares)))

    def by_gram(self) -> Array:
        """dQ/dG~, (n, n); n^3 multiplications."""
        S = (self.B * self.t[None, :]) @ self.B
        half = (0.5 * self.z) @ self.fit.BY.T
        S -= half
        S -= half.T
        S /= self.mu
        return S

    def along(self, D: Array, signs: Array | None = None) -> float:
        """dQ for a change s D s of G~.

        The trace of B diag(t) B (s D s) is estimated with random ``signs`` (n, p), O(n^2 p), or
        found in n^3 multiplications.
        """
        xp, s = arrays.namespace(D), self.fit.weights.root[:, None]
        if signs is None:
            return float(xp.sum((s * (self.by_gram() * D)) * s[:, 0]))
        size = xp.sqrt(xp.abs(self.t))[:, None]
        left = self.B @ (size * signs)
        right = left
        if bool(xp.any(self.t < 0)):
            right = self.B @ (xp.sign(self.t)[:, None] * size * signs)
        spread = D @ xp.concat([s * right, s * self.fit.BY], axis=1)
        p = signs.shape[1]
        trace = float(xp.sum(s * left * spread[:, :p])) / p
        return (trace - float(xp.sum(s * self.z * spread[:, p:]))) / self.mu


def left_out(numerator: Array, denominator: Array, weights: Weights) -> Array:
    """Leave-one-out residuals s (B y~) / (v - delta + delta B_ii); trailing axes broadcast."""
    s = weights.root[(slice(None), *(None,) * (len(numerator.shape) - 1))]
    return s * numerator / weights.left_out_denominator(denominator)


def _leverage_complement(form: Canonical, C: Array) -> Array:
    """B_ii = rest_i + sum_j u_ij^2 c_j for each column of filters C (r, p): (n, p)."""
    xp = arrays.namespace(C)
    parts = []
    for rows in arrays.row_blocks(form.U.shape[0], form.U.shape[1]):
        block = form.U[rows, :]
        parts.append((block * block) @ C)
    diagonal = xp.concat(parts, axis=0)
    return diagonal if form.rest is None else diagonal + form.rest[:, None]


@dataclass(frozen=True)
class _Group:
    """Rows removed together: their part of U, once for every filter c."""

    canonical: Canonical
    rows: Array
    U: Array

    @classmethod
    def of(cls, canonical: Canonical, rows: Array) -> _Group:
        return cls(canonical, rows, arrays.take_rows(canonical.U, rows))

    def B(self, c: Array) -> Array:
        """B_GG for c = mu/(lam + mu), (g, g); g^2 r flops, as a symmetric product."""
        if self.canonical.rest is None:
            return self._gram(c)
        return _outside(self.canonical, self.rows, self.rows, -self._gram(1 - c))

    def times(self, c: Array, R: Array) -> Array:
        """U_G diag(c) U_G' R for any c and R (g, k)."""
        return self.U @ (c[:, None] * (self.U.T @ R))

    def _gram(self, c: Array) -> Array:
        """U_G diag(c) U_G' for c that is not negative, (g, g)."""
        half = self.U * arrays.namespace(c).sqrt(c)
        return half @ half.T


def _block(form: Canonical, rows: Array, columns: Array | None, c: Array) -> Array:
    """B_IJ = U_I diag(c) U_J' + (P - U U')_IJ; ``None`` are all columns."""
    left, right = arrays.take_rows(form.U, rows), form.U
    if columns is not None:
        right = arrays.take_rows(form.U, columns)
    if form.rest is None:
        return (left * c) @ right.T
    places = arrays.indices(np.arange(right.shape[0]), c) if columns is None else columns
    return _outside(form, rows, places, (left * (c - 1)) @ right.T)


def _outside(form: Canonical, rows: Array, columns: Array, block: Array) -> Array:
    """block + P_IJ in place."""
    xp, s = arrays.namespace(block), form.weights.root
    block += xp.astype(rows[:, None] == columns[None, :], block.dtype)
    s_columns = xp.take(s, columns, axis=0) / form.bias.span(form.weights.mass)
    block -= xp.take(s, rows, axis=0)[:, None] * s_columns[None, :]
    return block
