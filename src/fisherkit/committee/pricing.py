"""Left-out scores of the members of a committee, one kernel width after the other.

One decomposition gives those of every mu. On more than 1,500 rows, where the rank of the kernel
matrix is not low, members are priced one by one instead, from the mu that some rows say is likely
to both sides, while they get better: one factorisation each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fisherkit.committee.members import Priced, Pricing, above_rounding, log_prior
from fisherkit.core import (
    FREE,
    Array,
    Decomposed,
    Decomposer,
    Design,
    Fold,
    NotPositiveError,
    RankError,
    RidgePath,
    arrays,
    left_out_and_fit,
    mu_floor,
    trace_unit,
)
from fisherkit.tuning import GRID, mu_grid

_SMALL = 1 << 22  # numbers of a decomposition up to which one more of them does not matter
_FACTORED = 1500  # rows beyond which members are priced one by one, where the rank is not low
_LOW_RANK = 0.25  # of the rows
_STRIDE = 2  # steps of the grid of mu between members that are priced one by one
_LEFT_OUT = 1e-4  # trace that a low-rank path leaves out, relative to the smallest mu


@dataclass(frozen=True)
class KernelFamily:
    """A kernel on the training rows, and the widths (gammas) of its members."""

    name: str
    design: Design
    gammas: Sequence[float | None]
    number: int  # its place among all families
    asked: int  # widths in all, of which those that cannot matter may be left out
    likely: Mapping[float | None, float] = field(default_factory=dict)  # mu / unit, by some rows
    different: int = 0  # rows that differ, where some of them have been asked


def price(
    families: Sequence[KernelFamily],
    count: int,
    Y: Array,
    pricing: Pricing,
    folds: Sequence[np.ndarray] | None = None,
) -> None:
    """Price the members of these families, of ``count``, on rows with the codes Y (n, k).

    ``folds`` are rows that are left out together.
    """
    held = None
    for family in families:
        design = family.design
        alone = folds is None and design.penalty == "rkhs"
        few = int(_LOW_RANK * family.different)
        factored = alone and family.different > _FACTORED
        decomposer = Decomposer(design, max_rank=few if factored else None)
        for gamma in family.gammas:
            try:
                # Let go when the next one is there: memory freed before would go back to the
                # system, and cost a tenth of a small decomposition to get again.
                held = _price(pricing, decomposer, gamma, Y, count, family, folds)
            except NotPositiveError as error:
                width = "" if gamma is None else f" at gamma={gamma:.6g}"
                raise NotPositiveError(f"kernel {family.name!r}{width}: {error}") from None
    del held


def price_budget(unit: float) -> float:
    """The trace that a low-rank form of members may leave out, from tr(G)/n."""
    return _LEFT_OUT * float(GRID[0]) * unit


def _price(
    pricing: Pricing,
    decomposer: Decomposer,
    gamma: float | None,
    Y: Array,
    count: int,
    family: KernelFamily,
    folds: Sequence[np.ndarray] | None,
) -> Decomposed | None:
    """Price the members at one width; returns the decomposition if it is small."""
    try:
        decomposed = decomposer.decompose(gamma, price_budget)
    except RankError:
        _price_by_factors(pricing, gamma, Y, count, family)
        return None
    canonical = decomposed.canonical
    path = RidgePath.of(canonical, Y)
    mus = mu_grid(canonical.unit, mu_floor(canonical.unit, canonical.weights))
    if folds is None:
        means, left_out = canonical.weights.fold_mean(Y), path.held_out(list(mus))
    else:
        means, left_out = _by_folds(path, list(mus), folds)
    centred = Y - means
    pricing.add(
        Priced(
            family=family.number,
            gamma=gamma,
            unit=canonical.unit,
            mus=mus,
            log_prior=log_prior(count, family.asked, len(mus)),
            scores=[above_rounding(centred[:, :, None] - left_out)],
            coefficients=path.coefficients,
            centres=decomposed.centres,
            path=f"{decomposed.method}, rank {canonical.rank}",
        )
    )
    return decomposed if canonical.rank * Y.shape[0] <= _SMALL else None


def _price_by_factors(
    pricing: Pricing, gamma: float | None, Y: Array, count: int, family: KernelFamily
) -> None:
    """Price members at one width, from the mu that is likely to both sides while they get better.

    One factorisation for each.
    """
    gram, weights = family.design.gram.with_gamma(gamma), family.design.weights
    xp, K = arrays.namespace(Y), gram.full()
    unit = trace_unit(float(weights.v @ gram.diagonal()), weights.total)
    grid = mu_grid(unit, mu_floor(unit, weights))
    start = int(np.argmin(np.abs(np.log(grid / (family.likely[gamma] * unit)))))
    centred = Y - weights.fold_mean(Y)
    losses: dict[int, float] = {}
    members: dict[int, tuple[Array, Array, Array]] = {}
    ahead = {start - _STRIDE, start, start + _STRIDE}
    while ahead:
        for place in sorted(ahead):
            mu = float(grid[place])
            found = left_out_and_fit(K + 0.0, Y, weights, FREE, mu)
            losses[place] = math.inf
            if found is not None:
                scores = above_rounding(centred - found[0])[:, :, None]
                losses[place] = pricing.loss(scores)
                members[place] = scores, *found[1:]
        best = min(losses, key=lambda place: losses[place])
        beside = {best - _STRIDE, best + _STRIDE} - losses.keys()
        ahead = {place for place in beside if 0 <= place < len(grid)}
    if not members:
        raise NotPositiveError("it has no Cholesky factor at any mu that is likely")
    places = sorted(members)
    scores, coef, intercept = (
        xp.stack([members[place][part] for place in places], axis=axis)
        for part, axis in ((0, 2), (1, 2), (2, 1))
    )
    pricing.add(
        Priced(
            family=family.number,
            gamma=gamma,
            unit=unit,
            mus=grid[places],
            log_prior=log_prior(count, family.asked, len(grid)),
            scores=[scores[:, :, :, 0]],
            coefficients=_Known(grid[places], coef, intercept),
            centres=np.arange(gram.n),
            path="one factorisation for each mu",
        )
    )


@dataclass(frozen=True)
class _Known:
    """Coefficients (n, k, q) and intercepts (k, q) that were found at some mu."""

    mus: np.ndarray
    coef: Array
    intercept: Array

    def __call__(self, mus: list[float]) -> tuple[Array, Array]:
        xp, place = arrays.namespace(self.coef), np.flatnonzero(np.isin(self.mus, mus))
        some = arrays.indices(place, self.coef)
        return xp.take(self.coef, some, axis=2), xp.take(self.intercept, some, axis=1)


def _by_folds(
    path: RidgePath, mus: list[float], folds: Sequence[np.ndarray]
) -> tuple[Array, Array]:
    """Mean codes (n, k) of the rows that remain, and left-out residuals (n, k, q)."""
    xp, Y, weights = arrays.namespace(path.Y), path.Y, path.canonical.weights
    groups, means = [], []
    for rows in folds:
        others = arrays.indices(np.setdiff1d(np.arange(Y.shape[0]), rows), Y)
        mean = weights.take(others).mean(arrays.take_rows(Y, others))
        means.append(mean[None, :] + xp.zeros_like(Y[: len(rows), :]))
        places = arrays.indices(rows, Y)
        groups.append(Fold(places, arrays.indices(np.arange(len(rows)), Y)))
    back = arrays.indices(np.argsort(np.concatenate(folds), kind="stable"), Y)
    residuals = path.held_out(mus, groups)
    return arrays.take_rows(xp.concat(means, axis=0), back), arrays.take_rows(residuals, back)
