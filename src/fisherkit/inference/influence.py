"""What one row does to a fit: its leverage, and the leave-one-out error of the rest without it.

With q_ij = (I - B)_ij / (s_i s_j) and r the residuals, taking weight d off the rows of a group G
changes their residuals to (I - Q_GG D)^-1 r_G. One row is leave-one-out; two rows i, j are

    r_j = (a_i r_j + q_ij d_i r_i) / (a_i a_j - q_ij^2 d_i d_j),     a_i = 1 - q_ii d_i,

the residual of row j by the model that has seen neither: every pair from one B, without refits. In
the units t_i = r_i sqrt(d_i / a_i) and u_ij = q_ij sqrt(d_i d_j / (a_i a_j)) it is

    r_j sqrt(a_j d_j) = (t_j + u_ij t_i) / (1 - u_ij^2).
"""

from __future__ import annotations

import numpy as np

from fisherkit.core import Array, Residuals, Ridge, arrays


def remaining(fit: Residuals) -> Array:
    """a_i = 1 - q_ii d_i, (n,): what one copy of a row does not explain of itself."""
    return fit.weights.left_out_denominator(fit.B_diag) / fit.weights.v


def leverages(fit: Residuals) -> Array:
    """q_ii d_i, (n,): the change of a row's own fit for a unit change of one copy's target."""
    w = fit.weights
    return w.delta * (1 - fit.B_diag) / w.v


def influences(ridge: Ridge, rows: np.ndarray | None = None) -> Array:
    """How much the mean squared leave-one-out residual of the other rows falls without row i.

    Positive for a row that harms the predictions of others. Exact at fixed hyper-parameters. One
    copy is taken away of a row that has copies.

    Parameters
    ----------
    ridge : Ridge
    rows : (b,), default=None
        Rows to take away, each by itself; ``None`` is all of them.

    Notes
    -----
    Every pair of rows has its own quotient, which no low-rank factor sums up: O(b n (r + k)) flops.
    Strips of pairs are held a few million at a time, so that memory is that of the ridge,
    O(n r) on centres and on the low-rank path.
    """
    xp = arrays.namespace(ridge.Y)
    w = ridge.weights
    n = w.v.shape[0]
    wanted = np.arange(n) if rows is None else np.asarray(rows)
    a, d, r, loo = remaining(ridge), w.delta, ridge.residual, ridge.leave_one_out()
    losses = xp.sum(loo * loo, axis=1)
    everyone = arrays.indices(np.arange(n), ridge.Y)
    # The other copies of the row, whose residuals are those of a fit without two copies.
    second = w.cost * xp.clip(w.frequency - 1, 0.0, 1.0)
    both = a - second * (1 - ridge.B_diag) / w.v
    both = xp.where(second > 0, both, xp.ones_like(both))
    copies = (w.v - d) * xp.sum((r / both[:, None]) ** 2, axis=1)
    unit = xp.sqrt(d / a)
    t, share = r * unit[:, None], w.v / (a * d)
    squares = xp.sum(t * t, axis=1)
    parts = []
    for block in arrays.row_blocks(len(wanted), n):
        i = arrays.indices(wanted[block], ridge.Y)
        t_i, squares_i, share_i = (xp.take(values, i, axis=0) for values in (t, squares, share))
        u = ridge.resolvent.strip(i)
        u *= unit / w.root
        u *= -xp.take(unit / w.root, i, axis=0)[:, None]
        u = xp.where(i[:, None] == everyone[None, :], xp.zeros_like(u[:1, :1]), u)
        # The square of the sum t_j + u t_i, term by term: powers of u times g.
        g = 1 - u * u
        g *= g
        g = 1 / g
        total = g @ (share * squares) - share_i * squares_i  # without the row itself
        g *= u
        total += 2 * xp.sum(t_i * (g @ (share[:, None] * t)), axis=1)
        g *= u
        total += squares_i * (g @ share)
        parts.append(total)
    i = arrays.indices(wanted, ridge.Y)
    d_i, losses_i, copies_i = (xp.take(values, i, axis=0) for values in (d, losses, copies))
    mass = w.mass - d_i
    before = (xp.sum(w.v * losses) - d_i * losses_i) / mass
    return before - (xp.concat(parts, axis=0) + copies_i) / mass
