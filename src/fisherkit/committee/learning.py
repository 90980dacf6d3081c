"""Families of members whose kernels learn which columns matter, and their honest price.

Members are the 3 x 3 widths and mu about those at which the family is best without relevance
(`fisherkit.tuning.relevance`). Their left-out scores are those of folds that had no part in it.
Fits to three quarters of the rows are worse than leave-one-out fits to all but one; by how much,
the same kernel without relevance shows: that is taken off the price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fisherkit.committee.members import Priced, Pricing, above_rounding, log_prior
from fisherkit.committee.pricing import KernelFamily
from fisherkit.core import (
    FREE,
    Array,
    Kernel,
    View,
    arrays,
    left_out_and_fit,
)
from fisherkit.tuning import LearnedFold, NotSolvedError, SeenRows, joined, learned_folds, log

_STEPS = (-1, 0, 1)  # from the width (in octaves) and mu (in double octaves) that are known
_DOUBLE_OCTAVE = 4.0


@dataclass(frozen=True)
class Start:
    """The width and mu at which a family is best without relevance."""

    gamma: float
    mu: float


def learn(
    pricing: Pricing,
    family: KernelFamily,
    number: int,
    families: int,
    start: Start,
    Y: Array,
    folds: Sequence[np.ndarray],
    *,
    alone: bool,
) -> np.ndarray | None:
    """Price the members of a family that learns relevance; the scale of what it sees, (p,).

    They are members of family ``number`` of so many. ``alone`` says that other members are priced
    by leave-one-out, not by these folds. ``None``, and no members, where a kernel
    matrix has no Cholesky factor at mu.
    """
    gram, weights = family.design.gram, family.design.weights
    rows, kernel = SeenRows(gram.X, Y, weights), replace(gram.kernel, gamma=start.gamma)
    everything = np.arange(gram.n)
    try:
        some = learned_folds(rows, kernel, start.mu, folds)
        handicap = 0.0
        if alone:
            plain = _centred(some, kernel, [start.mu], plain=True)
            K = gram.with_gamma(start.gamma).full()
            found = left_out_and_fit(K, Y, weights, FREE, start.mu)
            if found is None:
                raise NotSolvedError
            centred = (Y - weights.fold_mean(Y) - found[0])[:, :, None]
            handicap = pricing.loss(plain) - pricing.loss(centred)
        scale = rows.relevance(kernel, start.mu)
        log.info(
            "%s learns which columns matter: fits to folds have %.3g more log-loss",
            family.name,
            handicap,
        )
        mus = np.array([start.mu * _DOUBLE_OCTAVE**step for step in _STEPS])
        octave = kernel.family.step**2
        for step in _STEPS:
            wide = replace(kernel, gamma=start.gamma * octave**step)
            scores = _centred(some, wide, mus.tolist())
            pricing.add(
                Priced(
                    family=number,
                    gamma=wide.gamma,
                    unit=weights.mass / weights.total,
                    mus=mus,
                    log_prior=log_prior(families, len(_STEPS), len(mus)),
                    scores=[above_rounding(scores)],
                    coefficients=_Coefficients(rows.scaled(scale), wide),
                    centres=everything,
                    path="relevance learned",
                    handicap=handicap,
                )
            )
    except NotSolvedError:
        log.info(
            "%s does not learn which columns matter: no Cholesky factor exists at mu %.3g",
            family.name,
            start.mu,
        )
        return None
    return scale


def _centred(
    folds: Sequence[LearnedFold], kernel: Kernel, mus: Sequence[float], *, plain: bool = False
) -> Array:
    """Centred scores (n, k, q) of all rows, each by the fold without it; ``plain`` if unscaled."""
    parts = []
    for fold in folds:
        scores = fold.scores(kernel, mus, 1.0 if plain else fold.scale)
        parts.append(scores - fold.mean[None, :, None])
    return joined([fold.places for fold in folds], parts)


@dataclass(frozen=True)
class _Coefficients:
    """Coefficients (n, k, s) and intercepts (k, s) of f at some mu."""

    rows: SeenRows
    kernel: Kernel

    def __call__(self, mus: list[float]) -> tuple[Array, Array]:
        if not mus:
            n, k = self.rows.Y.shape
            return arrays.zeros((n, k, 0), self.rows.Y), arrays.zeros((k, 0), self.rows.Y)
        return self.rows.fit(self.kernel, mus)


def learned_kernel(kernel: Kernel, scale: np.ndarray, d: int) -> Kernel:
    """The kernel that sees the columns in the units that were learned, of d in all."""
    view = kernel.view or View(np.arange(d))
    own = 1.0 if view.scale is None else view.scale
    return replace(kernel, view=view.scaled(own * scale))
