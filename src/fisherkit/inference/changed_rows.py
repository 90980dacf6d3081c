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
    Canonical,
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
    ``centres`` (m,), and ``reach`` (b, m) those that a unit target of each row gets.
    """

    residuals: Residuals
    centres: np.ndarray
    coef: Array
    reach: Array

    @property
    def pull(self) -> Array:
        """`pull_of` the rows."""
        return pull_of(self.residuals)


def pull_of(fit: Residuals) -> Array:
    """What the target of each row loses when it is left out, (b, k): -d R / v."""
    return -(fit.weights.delta / fit.weights.v)[:, None] * fit.leave_one_out()


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
                return _by_form(found, Y, mu, rows)
        exact = _by_cholesky(design, Y, mu, rows)
        if exact is not None:
            return exact
    if design.every_row:
        design = replace(design, basis="full")
    found = Decomposer(design).decompose(design.gram.kernel.gamma, lambda unit: 0.0)
    return _by_form(found, Y, mu, rows)


def _by_form(found: Decomposed, Y: Array, mu: float, rows: np.ndarray) -> LeftOutFit:
    """From a decomposition."""
    form = found.canonical
    ridge = RidgePath.of(form, Y).at(mu)
    reach = form.to_centres(_unit_coordinates(form, rows) * _filter(form, mu)[:, None])
    return LeftOutFit(_of_rows(ridge, rows), found.centres, ridge.coef, reach.T)


def _of_rows(fit: Residuals, rows: np.ndarray) -> Residuals:
    """The residuals of some rows."""
    xp, place = arrays.namespace(fit.Y), arrays.indices(rows, fit.Y)
    Y, B_diag, BY = (xp.take(part, place, axis=0) for part in (fit.Y, fit.B_diag, fit.BY))
    return Residuals(Y, fit.weights.take(place), B_diag, BY, fit.scatter)


def _unit_coordinates(form: Canonical, rows: np.ndarray) -> Array:
    """A unit target for each of some rows in canonical coordinates, (r, b)."""
    place = arrays.indices(rows, form.U)
    root = arrays.namespace(form.U).take(form.weights.root, place, axis=0)
    return (arrays.take_rows(form.U, place) * root[:, None]).T


def _filter(form: Canonical, mu: float) -> Array:
    """1 / (lam + mu), (r,), and 0 for directions of length zero, which predict nothing."""
    xp = arrays.namespace(form.lam)
    return xp.astype(form.lam > 0, form.lam.dtype) / (form.lam + mu)


@dataclass(frozen=True)
class LeftOutSum:
    """A weighted sum of fits at several mu, without one row each.

    ``scores`` (b, k) are those of the rows as they are, without the intercepts; ``coef`` (k, b, m)
    are the coefficients of the models without each row, on the ``centres`` (m,).
    """

    scores: Array
    centres: np.ndarray
    coef: Array


def left_out_sum(
    found: Decomposed, Y: Array, mus: Sequence[float], shares: Sequence[float], rows: np.ndarray
) -> LeftOutSum:
    """Sum of ``shares`` times the fits at ``mus``; O(n r b k) in all, not for each mu."""
    xp, form, k = arrays.namespace(Y), found.canonical, Y.shape[1]
    path, units = RidgePath.of(form, Y), _unit_coordinates(form, rows)
    coefs, intercepts = path.coefficients(mus)
    scores, filters = 0.0, [0.0 * units for _ in range(k)]
    for number, (mu, share) in enumerate(zip(mus, shares, strict=True)):
        fit = _of_rows(path.at(mu), rows)
        scores = scores + share * (fit.Y - fit.leave_one_out() - intercepts[:, number])
        pull, decay = share * pull_of(fit), _filter(form, mu)
        for output, total in enumerate(filters):
            total += decay[:, None] * pull[:, output][None, :]
    whole = coefs @ arrays.like(np.asarray(shares), Y)  # (m, k)
    parts = [
        whole[:, output][None, :] + form.to_centres(units * total).T
        for output, total in enumerate(filters)
    ]
    return LeftOutSum(scores, found.centres, xp.stack(parts, axis=0))


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
    return LeftOutFit(residuals, np.arange(Y.shape[0]), coef, reach)


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
    def by_reach(self) -> bool:
        """Whether reaches are all that there is."""
        return not self.term.coef.any()

    @property
    def fewest(self) -> LeftOutTerm:
        """The same with as few reaches as there are outputs, if that is fewer."""
        q, k = len(self.reach), self.term.coef.shape[1]
        if k > max(q, 1) or (q == k and self.by_reach):
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
        gaps = np.empty((len(players), len(X), len(term.centres[some])))
        for place, (_, features) in enumerate(players):
            gap = term.gap(seen, features, term.centres[some])
            gaps[place] = family.of_gaps(gap, kernel) if product else gap
        after = np.full((len(players) + 1, len(rows), gaps.shape[2]), nothing)
        for place in range(len(players) - 1, -1, -1):
            join(gaps[place, rows], after[place + 1], out=after[place])
        before = np.full(after.shape[1:], nothing)
        whole = after[0] if product else family.of_gaps(after[0] + 0.0, kernel)
        reaches = [reach[:, some] for reach in part.reach]
        as_it_is = [np.einsum("am,am->a", whole, reach) for reach in reaches]
        for place, (column, _) in enumerate(players):
            others = join(before, after[place + 1])
            if product and part.by_reach:  # the sums without the column, once for all repeats
                reaches = [others * reach[:, some] for reach in part.reach]
            for repeat in range(donors.shape[1]):
                values = gaps[place][donors[column, repeat, rows]]
                total = changes[column, repeat]
                if product and part.by_reach:
                    _add_sums(part, values, reaches, as_it_is, total)
                    continue
                values = join(others, values, out=values)
                if not product:
                    values = family.of_gaps(values, kernel)
                values -= whole
                _add(part, values, some, total)
            join(before, gaps[place, rows], out=before)


def _add_sums(
    part: LeftOutTerm,
    values: np.ndarray,
    reaches: Sequence[np.ndarray],
    as_it_is: Sequence[np.ndarray],
    total: np.ndarray,
) -> None:
    """What sums of values (a, s) times reaches are beside those of the rows as they are."""
    for reach, pull, before in zip(reaches, part.pull, as_it_is, strict=True):
        total[part.rows] += (np.einsum("am,am->a", values, reach) - before)[:, None] * pull


def _add(part: LeftOutTerm, difference: np.ndarray, some: slice, total: np.ndarray) -> None:
    """What a difference of kernel values (a, s) with some centres does to the scores (b, k)."""
    if len(part.reach) < part.term.coef.shape[1]:
        total[part.rows] += difference @ part.term.coef[some]
    for reach, pull in zip(part.reach, part.pull, strict=True):
        size = np.einsum("am,am->a", difference, reach[:, some])
        total[part.rows] += size[:, None] * pull
