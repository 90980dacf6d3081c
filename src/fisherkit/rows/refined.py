"""Moments taken once more, where a small mu would feel their rounding.

`fisherkit.rows.moments` finds G with an error of about eps lam_max, and its eigenvectors W with it.
The coordinates q_i = W'(z_i - z) of the rows do not suffer: they are found to eps |z_i|. Divided by

    t_i = q_i / sqrt(lam + mu_0),            M = sum_i v_i (t_i - t)(t_i - t)' ~ I,

mu_0 the least mu (or eps lam_max, if that is more: lam is known no better), they are all of one
size, and the error of M is eps. With M = V diag(theta) V',

    W'G W = A'A,       A = diag(sqrt(theta)) V' diag(sqrt(lam + mu_0)),

and singular values of A, never A'A, give the eigenvectors of G as well as those of all features
would in memory: fits have an error of eps sqrt(lam_max / mu), no longer eps lam_max / mu. (This is
the second step of a Cholesky QR factorisation.) What rounding has left out of W is added to it.

For the rkhs penalty the features are solved for all pivots. That K_mm is known to rounding only
remains: fits to nearly dependent centres have an error of eps n / mu in memory and here.

B_ii stays a difference, 1 minus leverage: left-out residuals of rows with a leverage next to one (a
narrow kernel's centres, at small mu) have an error of eps / B_ii, which memory has not.

Cost: one pass of 4 n m^2 flops, and n m^2 more in each later one (3 n m^2 for coefficients).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fisherkit.core import Array, arrays
from fisherkit.rows.moments import INVISIBLE, Form
from fisherkit.rows.sources import Rows
from fisherkit.rows.sums import Block, Numbers, Sums, moment_numbers


@dataclass(frozen=True)
class RefiningPass:
    """The moments of coordinates that are divided by ``scale`` (r,)."""

    on_host: ClassVar[bool] = False
    title: ClassVar[str] = "pass 1 again"

    form: Form
    scale: Array

    @property
    def numbers(self) -> Numbers:
        return moment_numbers(*self.form.shape)

    def begin(self) -> Sums:
        r, k = self.form.xi.shape
        return Sums.zero(r, k, self.scale)

    def add(self, sums: Sums, block: Block) -> None:
        T = self.form.coordinates(block.X)
        T /= self.scale
        sums.add(T, block)

    def merge(self, a: Sums, b: Sums) -> Sums:
        return a.merge(b)


def refined(rows: Rows, form: Form, *, least: float) -> Form:
    """The form with the digits that a fit at mu >= ``least`` needs; one pass."""
    form = _complete(form)
    xp = arrays.namespace(form.lam)
    eps, largest = arrays.eps(form.lam), float(xp.max(form.lam))
    scale = xp.sqrt(form.lam + max(least, eps * largest))
    sums = rows.sweep(RefiningPass(form, scale))
    span = form.bias.span(form.mass)
    M, cross = sums.about_mean(span, form.mean)
    point = sums.first / span  # what the mean of the rows has lacked
    theta, V = arrays.eigh(M)
    A = xp.sqrt(arrays.clip_in_place(theta, lower=0.0))[:, None] * V.T * scale
    _, sigma, Wt = xp.linalg.svd(A)
    lam = sigma * sigma
    # Rounding of the rows alone makes singular values of up to r eps times the largest.
    visible = lam > max(INVISIBLE * least, (form.rank * eps) ** 2 * largest)
    seen = max(int(xp.sum(xp.astype(visible, xp.int64))), 1)
    W = Wt[:seen, :].T
    return replace(
        form,
        rotation=form.rotation @ W,
        centre=(form.centre + scale * point) @ W,
        features=form.features @ W,
        lam=lam[:seen],
        xi=W.T @ (scale[:, None] * cross),
    )


def _complete(form: Form) -> Form:
    """The form on features solved carefully, with the directions that it has left out; O(m^3)."""
    xp = arrays.namespace(form.lam)
    W = form.bias.join(form.features, form.centre)
    Q, _ = xp.linalg.qr(W, mode="complete")
    W = xp.concat([W, Q[:, form.rank :]], axis=1)
    added = W.shape[1] - form.rank
    lam = xp.concat([form.lam, arrays.zeros((added,), W)], axis=0)
    xi = xp.concat([form.xi, arrays.zeros((added, form.xi.shape[1]), W)], axis=0)
    features, of_bias = form.bias.split(W)
    return replace(
        form,
        centres=form.centres.carefully(),
        rotation=features,
        centre=of_bias + (form.mass / form.bias.span(form.mass)) * (form.point @ features),
        features=features,
        lam=lam,
        xi=xi,
        plain=form.centres.corner is None,
    )
