"""Which widths are worth a fit to all rows, by what some of the rows say.

On fewer rows the weights of members are less unequal: what has next to none there has none on all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fisherkit.committee.members import Asked, Pricing
from fisherkit.committee.pricing import KernelFamily, price
from fisherkit.core import FREE, Array, Design, Gram, Weights, membership
from fisherkit.tuning import Likelihood, LocalParts, log

MANY, SOME = 800, 500  # different rows from which some are asked, and how many
_LEAST = 1e-4  # of the weight of the best width on all rows
_UNSURE = -4.0  # difference of log weights on some rows that may be luck
_WIDTHS = 2  # of a family at most, where families are stacked


@dataclass(frozen=True)
class Worth:
    """The widths of a family that are worth a fit, and the mu / unit that each prefers."""

    gammas: Sequence[float | None]
    likely: dict[float | None, float]


def spread_over_classes(classes: np.ndarray) -> np.ndarray:
    """Places of the first rows, and of the first row of each class that is not among them."""
    alone = [int(np.argmax(classes == c)) for c in np.setdiff1d(classes, classes[:SOME])]
    return np.append(np.arange(min(SOME, len(classes))), np.array(alone, dtype=int))


def worth_a_fit(
    families: Sequence[KernelFamily],
    Y: Array,
    weights: Weights,
    combine: str,
    share: float,
    folds: Sequence[np.ndarray] | None = None,
) -> list[Worth]:
    """What rows with codes Y (n, k), on which the families are, say of the widths of each.

    There are 1 / ``share`` times as many rows in all. ``folds`` are left out together.
    """
    likelihood = Likelihood.of(membership(Y), weights)
    pricing = Pricing(
        parts=LocalParts([likelihood]),
        likelihood=likelihood,
        mean=weights.mean(Y),
        combine="average",
        min_weight=0.0,
    )
    log.info("comparing widths on %d rows", Y.shape[0])
    price(families, len(families), Y, pricing, folds)
    mass: dict[int, dict[float | None, float]] = {family.number: {} for family in families}
    likely: dict[int, dict[float | None, float]] = {family.number: {} for family in families}
    for rung in pricing.rungs:
        mass[rung.family][rung.gamma] = float(np.logaddexp.reduce(rung.log_weight))
        mu = float(rung.mus[np.argmin(rung.loss)])
        likely[rung.family][rung.gamma] = mu / rung.unit
    # The logarithms of weights grow with the number of rows; half of that is certain.
    margin = min(math.log(_LEAST) / max(1.0, 0.5 / share), _UNSURE)
    best = max(max(own.values()) for own in mass.values())
    found = []
    for family in families:
        own = mass[family.number]
        least = best + margin
        if combine == "families":
            least = max(max(own.values()) + margin, sorted(own.values())[-_WIDTHS:][0])
        gammas = [gamma for gamma in family.gammas if own[gamma] >= least]
        found.append(Worth(gammas, likely[family.number]))
    log.info("fitting %d widths to all rows", sum(len(worth.gammas) for worth in found))
    return found


def on_rows(family: KernelFamily, rows: np.ndarray, weights: Weights) -> KernelFamily:
    """The family on some of its rows, of other weights."""
    design = replace(family.design, gram=family.design.gram.taken(rows), weights=weights)
    return replace(family, design=design)


def families_on(
    X: Array,
    weights: Weights,
    asked: Asked,
    gammas: Sequence[Sequence[float | None]],
    *,
    rounding: float,
    basis: str = "full",
    n_components: int | None = None,
    centres: np.ndarray | None = None,
) -> list[KernelFamily]:
    """The kernels asked for with these gammas each, on the rows X (n, d)."""
    return [
        KernelFamily(
            name=name,
            design=Design(
                gram=Gram(X, kernel, rounding),
                weights=weights,
                penalty=asked.penalty,
                bias=FREE,
                basis=basis,
                n_components=n_components,
                rows=centres,
                seed=asked.seed,
            ),
            gammas=own,
            number=number,
            asked=len(own),
        )
        for number, (name, kernel, own) in enumerate(
            zip(asked.names, asked.kernels, gammas, strict=True)
        )
    ]
