r"""What models without a row each say of that row after one of its columns has changed.

Taking weight d off row i, whose left-out residual is R_i, does to the fit what a change of its
target by -d R_i / v_i does. With c_i the coefficients (m,) that a unit target of row i alone gets,
the coefficients of the model without the row are

    coef^(i) = coef - c_i d_i R_i / v_i ,

exactly: every bias, penalty and choice of centres makes coefficients linear in the targets. The
score of a changed row x' follows from the left-out score of the row as it is, without a bias,

    f^(i)(x') = y_i - R_i + sum_j [k(x', z_j) - k(x_i, z_j)] coef^(i)_j .

A kernel that follows from a sum over columns (`fisherkit.core.kernels`) needs O(n m) for each
changed column: the gaps of the others are added up before and after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fisherkit.core import (
    Array,
    Decomposed,
    Decomposer,
    Design,
    RankError,
    Residuals,
    RidgePath,
    arrays,
    coefficients_at,
)
from fisherkit.rows import Term

_NUMBERS = 1 << 22  # of a row, a column and a centre held at once
_LARGE = 3000  # rows from which a low rank is looked for
_LEFT_OUT = 5e-7  # trace that a low-rank form leaves out, relative to mu


@dataclass(frozen=True)
class LeftOutFit:
    """A fit, and what makes of it the models without one row each.

    ``residuals`` are those of b rows left out, ``coef`` (m, k) the coefficients of the fit on the
    ``centres`` (m,), beside the ``intercept`` (k,), and ``reach`` (b, m) those that a unit target
    of each row gets.
    """

    residuals: Residuals
    centres: np.ndarray
    coef: Array
    intercept: Array
    reach: Array

    @property
    def pull(self) -> Array:
        """What the target of each row loses when it is left out, (b, k): -d R / v."""
        weights = self.residuals.weights
        return -(weights.delta / weights.v)[:, None] * self.residuals.leave_one_out()


def left_out_fit(design: Design, Y: Array, mu: float, rows: np.ndarray) -> LeftOutFit:
    """The fit to the targets Y (n, k) at mu, ready to leave out some of its rows.

    One Cholesky factorisation where every row is a centre, a decomposition otherwise.
    """
    if design.every_row and design.penalty == "rkhs":
        if design.basis == "auto" and design.gram.n > _LARGE:
            limited = Decomposer(design, max_rank=design.gram.n // 2)
            try:
                found = limited.decompose(design.gram.kernel.gamma, lambda unit: _LEFT_OUT * mu)
            except RankError:
                pass
            else:
                return left_out_fits(found, Y, [mu], rows)[0]
        exact = _by_cholesky(design, Y, mu, rows)
        if exact is not None:
            return exact
    if design.every_row:
        design = replace(design, basis="full")
    found = Decomposer(design).decompose(design.gram.kernel.gamma, lambda unit: 0.0)
    return left_out_fits(found, Y, [mu], rows)[0]


def left_out_fits(
    found: Decomposed, Y: Array, mus: Sequence[float], rows: np.ndarray
) -> list[LeftOutFit]:
    """The fits at several mu from one decomposition."""
    xp, canonical, k = arrays.namespace(Y), found.canonical, Y.shape[1]
    place = arrays.indices(rows, Y)
    everything = RidgePath.of(canonical, xp.concat([Y, _units(rows, Y)], axis=1))
    coef, intercept = everything.coefficients(mus)
    path, fits = RidgePath.of(canonical, Y), []
    for number, mu in enumerate(mus):
        ridge = path.at(mu)
        residuals = Residuals(
            Y=xp.take(Y, place, axis=0),
            weights=ridge.weights.take(place),
            B_diag=xp.take(ridge.B_diag, place, axis=0),
            BY=xp.take(ridge.BY, place, axis=0),
            scatter=ridge.scatter,
        )
        own, reach = coef[:, :k, number], coef[:, k:, number].T
        fits.append(LeftOutFit(residuals, found.centres, own, intercept[:k, number], reach))
    return fits


def _by_cholesky(design: Design, Y: Array, mu: float, rows: np.ndarray) -> LeftOutFit | None:
    """With A = B / mu, the coefficients are s A s times targets, and c_ii = v_i A_ii."""
    xp, weights, k = arrays.namespace(Y), design.weights, Y.shape[1]
    both = xp.concat([Y, _units(rows, Y)], axis=1)
    solved = coefficients_at(design.gram.full(), both, weights, design.bias, mu)
    if solved is None:
        return None
    coef, reach = solved[0][:, :k], solved[0][:, k:].T
    place = arrays.indices(rows, Y)
    some = weights.take(place)
    own = xp.sum(xp.take(reach, place, axis=1) * arrays.like(np.eye(len(rows)), Y), axis=1)
    residuals = Residuals(
        Y=xp.take(Y, place, axis=0),
        weights=some,
        B_diag=mu * own / some.v,
        BY=mu * xp.take(coef, place, axis=0) / some.root[:, None],
        scatter=mu * (Y.T @ coef),
    )
    return LeftOutFit(residuals, np.arange(Y.shape[0]), coef, solved[1][:k], reach)


def _units(rows: np.ndarray, Y: Array) -> Array:
    """A unit target for each of some rows, (n, b)."""
    units = np.zeros((Y.shape[0], len(rows)))
    units[rows, np.arange(len(rows))] = 1.0
    return arrays.like(units, Y)


@dataclass(frozen=True)
class LeftOutTerm:
    """A kernel term of the models without one row each, for some of the b rows looked at.

    Attributes
    ----------
    term : Term
        With the coefficients (m, k) that all these models share.
    rows : (a,) of int
    reach, pull : (q, a, m) and (q, a, k)
        The coefficients of the model without row i are coef + sum_q reach_qi pull_qi'.
    """

    term: Term
    rows: np.ndarray
    reach: np.ndarray
    pull: np.ndarray

    @property
    def fewest(self) -> LeftOutTerm:
        """The same with as few reaches as there are outputs, if that is fewer."""
        q, k = len(self.reach), self.term.coef.shape[1]
        if k > max(q, 1):
            return self
        reach = self.term.coef.T[:, None, :] + np.einsum("qam,qak->kam", self.reach, self.pull)
        pull = np.repeat(np.eye(k)[:, None, :], len(self.rows), axis=1)
        return LeftOutTerm(replace(self.term, coef=0 * self.term.coef), self.rows, reach, pull)


def score_changes(
    parts: Iterable[LeftOutTerm],
    X: np.ndarray,
    sources: np.ndarray,
    donors: np.ndarray,
    k: int,
) -> np.ndarray:
    """By how much scores change when one column takes the values that it has in other rows.

    Parameters
    ----------
    parts : iterable of LeftOutTerm
        Looked at one by one.
    X : (b, d)
        Features of the rows looked at.
    sources : (d,) of int
        The column that each feature comes from, of c.
    donors : (c, r, b) of int
        The row that each row has its value from, for each column, r times.
    k : int
        Number of scores.

    Returns
    -------
    (c, r, b, k)
    """
    changes = np.zeros((*donors.shape, k))
    for part in parts:
        add = _by_gaps if part.term.kernel.family.by_column else _by_blocks
        add(part.fewest, X, sources, donors, changes)
    return changes


def _by_blocks(
    part: LeftOutTerm, X: np.ndarray, sources: np.ndarray, donors: np.ndarray, changes: np.ndarray
) -> None:
    """Kernel values of every changed row anew."""
    term, rows = part.term, part.rows
    before = term.values(X[rows])
    for column, _ in term.players(sources):
        own = sources == column
        for repeat in range(donors.shape[1]):
            changed = X[rows]
            changed[:, own] = X[donors[column, repeat, rows]][:, own]
            _add(part, term.values(changed) - before, slice(None), changes[column, repeat])


def _by_gaps(
    part: LeftOutTerm, X: np.ndarray, sources: np.ndarray, donors: np.ndarray, changes: np.ndarray
) -> None:
    """Centres a few at a time; of products, factors instead of gaps."""
    term, rows = part.term, part.rows
    players, seen = term.players(sources), term.see(X)
    kernel, family = term.kernel, term.kernel.family
    product = family.by_column == "product"
    join, nothing = (np.multiply, 1.0) if product else (np.add, 0.0)
    step = max(1, _NUMBERS // max(1, len(players) * len(X)))
    for start in range(0, len(term.centres), step):
        some = slice(start, start + step)
        gaps = np.stack([term.gap(seen, places, term.centres[some]) for _, places in players])
        if product:
            gaps = family.of_gaps(gaps, kernel)
        after = np.full((len(players) + 1, len(rows), gaps.shape[2]), nothing)
        for place in range(len(players) - 1, -1, -1):
            join(gaps[place, rows], after[place + 1], out=after[place])
        before = np.full(after.shape[1:], nothing)
        whole = after[0] if product else family.of_gaps(after[0] + 0.0, kernel)
        for place, (column, _) in enumerate(players):
            others = join(before, after[place + 1])
            for repeat in range(donors.shape[1]):
                values = join(others, gaps[place][donors[column, repeat, rows]])
                if not product:
                    values = family.of_gaps(values, kernel)
                values -= whole
                _add(part, values, some, changes[column, repeat])
            join(before, gaps[place, rows], out=before)


def _add(part: LeftOutTerm, difference: np.ndarray, some: slice, total: np.ndarray) -> None:
    """What a difference of kernel values (a, s) with some centres does to the scores (b, k)."""
    if len(part.reach) < part.term.coef.shape[1]:
        total[part.rows] += difference @ part.term.coef[some]
    for reach, pull in zip(part.reach, part.pull, strict=True):
        size = np.einsum("am,am->a", difference, reach[:, some])
        total[part.rows] += size[:, None] * pull
