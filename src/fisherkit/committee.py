"""A committee of every model on the grid, weighted by what each predicts of left-out rows.

A member j is one kernel, one width and one mu. With F_ij its exact leave-one-out score of row i
(codes +-1 for two classes, indicators for more) and m_i the mean code of the rows that remain when
i is left out, its calibrated logits are

    u_ij = a_j (F_ij - m_i) + b_j,     a_j in [1e-3, 1e6],  sum of b_j over the classes = 0,

where a_j and b_j minimise N_j, their mean cross-entropy (`fisherkit.likelihood`).
Centring on m_i takes away the label of row i that the bias of a heavily regularised member betrays.

    average   omega_j proportional to pi_j exp(-l N_j / 2), pi_j uniform in each family of kernels
    stack     v >= 0 and b_0 minimise the cross-entropy of b_0 + sum_j v_j u_ij plus
              0.05 |v - omega|^2, over the 120 largest omega
    best      the member of the smallest N_j alone

    g(x) = b_0 + sum_j omega_j [ a_j (f_j(x) - mean y) + b_j ],    p = sigmoid(g) or softmax(g).

l is the number of rows, copies counted; class costs enter N_j through the shares of the rows only.
Given the calibrations, g has one coefficient vector for each kernel and width.

Cost: one decomposition for each kernel and width, plus O(n k) for each member and Newton step.
No decomposition is kept: of the members that may still end up with weight when a width has been
priced, the logits and coefficients are, n k numbers each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from fisherkit import _array
from fisherkit._array import Array
from fisherkit.canonical import NotPositiveError, mu_floor
from fisherkit.decompose import Decomposed, Decomposer, Design
from fisherkit.kernels import Kernel, length
from fisherkit.likelihood import Likelihood
from fisherkit.ridge import RidgePath
from fisherkit.select import GRID, log, mu_grid
from fisherkit.weights import Weights

COMBINE = ("average", "stack", "best")

_TEMPERATURE = 2.0
_STACKED = 120  # members that stacking may weigh
_SMALL = 1 << 22  # numbers of a decomposition up to which one more of them does not matter
_LEFT_OUT = 1e-4  # trace that a low-rank path leaves out, relative to the smallest mu


class Status(Enum):
    """What the committee found."""

    SHARED = "several members share the weight"
    ONE_MEMBER = "one member carries all of the weight"
    CLASS_PRIOR = (
        "no member predicts left-out rows better than the class shares do: the model is these "
        "shares, and no member has any weight"
    )


@dataclass(frozen=True)
class KernelFamily:
    """A kernel on the training rows, and the widths (gammas) of its members."""

    name: str
    design: Design
    gammas: Sequence[float | None]


@dataclass(frozen=True)
class Rung:
    """The members of one kernel width: all calibrations, and what is kept of those that matter.

    ``kept`` (s,) are positions among the members; ``logits`` (n, k, s), ``coef`` (m, k, s) and
    ``intercept`` (k, s), the latter two of f, belong to these. ``centres`` (m,) are training rows.
    """

    family: int
    gamma: float | None
    unit: float
    mus: np.ndarray
    slope: np.ndarray
    offset: np.ndarray
    loss: np.ndarray
    log_weight: np.ndarray
    kept: np.ndarray
    logits: Array
    coef: Array
    intercept: Array
    centres: np.ndarray


@dataclass(frozen=True)
class Part:
    """The coefficients (m, k) that g has on the centres (training rows) of one kernel width."""

    family: int
    gamma: float | None
    centres: np.ndarray
    coef: Array


@dataclass(frozen=True)
class Committee:
    """The members of all rungs, their weights (J,), and the model that they add up to.

    ``logits`` (n, k) are g of left-out rows, conditional on the weights and calibrations.
    """

    rungs: list[Rung]
    weights: np.ndarray
    parts: list[Part]
    intercept: Array
    logits: Array
    status: Status

    @property
    def effective_members(self) -> float:
        """1 / sum of squared weights, the weights normalised; 0 where there is no weight."""
        total = float(self.weights.sum())
        return total**2 / float(np.sum(self.weights**2)) if total > 0 else 0.0


@dataclass
class _Pricing:
    """Prices one width after the other; remembers what may still matter."""

    Y: Array
    weights: Weights
    likelihood: Likelihood
    combine: str
    min_weight: float
    rungs: list[Rung] = field(default_factory=list)
    # Let go when the next one is there: memory freed before would go back to the system, and cost
    # a tenth of a small decomposition to get again.
    last: Decomposed | None = None

    def __post_init__(self) -> None:
        self.centred = self.Y - self.weights.fold_mean(self.Y)

    def price(
        self, decomposer: Decomposer, family: int, gamma: float | None, log_prior: float
    ) -> Rung:
        """Calibrate all members at this width; ``log_prior`` is the log of their prior mass."""
        xp = _array.namespace(self.Y)
        decomposed = decomposer.decompose(gamma, lambda unit: _LEFT_OUT * float(GRID[0]) * unit)
        canonical = decomposed.canonical
        small = canonical.rank * self.Y.shape[0] <= _SMALL
        self.last = decomposed if small else None
        path = RidgePath.of(canonical, self.Y)
        mus = mu_grid(canonical.unit, mu_floor(canonical.unit, canonical.weights))
        Z = self.centred[:, :, None] - path.held_out(list(mus))
        calibration = self.likelihood.calibrate(Z)
        slope, offset, loss = (
            np.asarray(_array.to_numpy(part), dtype=np.float64)
            for part in (calibration.slope, calibration.offset, calibration.loss)
        )
        log_weight = log_prior - math.log(len(mus)) - self.likelihood.total * loss / _TEMPERATURE
        kept = np.flatnonzero(self._may_matter(log_weight, loss))
        some = _array.indices(kept, Z)
        a, b = xp.take(calibration.slope, some, axis=0), xp.take(calibration.offset, some, axis=1)
        logits = a * xp.take(Z, some, axis=2) + b[None, :, :]
        coef, intercept = path.coefficients(list(mus[kept]))
        log.info(
            "gamma %.4g: calibrated leave-one-out log-loss %.6g at mu %.4g (%s, rank %d)",
            math.nan if gamma is None else gamma,
            loss.min(),
            mus[np.argmin(loss)],
            decomposed.method,
            canonical.rank,
        )
        return Rung(
            family=family,
            gamma=gamma,
            unit=canonical.unit,
            mus=mus,
            slope=slope,
            offset=offset,
            loss=loss,
            log_weight=log_weight,
            kept=kept,
            logits=logits,
            coef=coef,
            intercept=intercept,
            centres=decomposed.centres,
        )

    def _may_matter(self, log_weight: np.ndarray, loss: np.ndarray) -> np.ndarray:
        """Which new members may end up with weight, whatever the widths still to come bring."""
        if self.combine == "best":
            return loss <= min([loss.min(), *(rung.loss.min() for rung in self.rungs)])
        seen = np.concatenate([log_weight, *(rung.log_weight for rung in self.rungs)])
        if self.combine == "stack":
            return log_weight >= np.sort(seen)[-_STACKED:][0]
        return log_weight >= seen.max() + (
            math.log(self.min_weight) if self.min_weight else -np.inf
        )


def assemble(
    families: Sequence[KernelFamily],
    Y: Array,
    indicator: Array,
    *,
    combine: str,
    min_weight: float,
) -> Committee:
    """Price every member of every family, weigh them, and add them up.

    Y (n, k) are the codes and ``indicator`` (n, c) the classes of the rows. Members of less than
    ``min_weight`` are dropped, and the others rescaled to the same sum.
    """
    weights = families[0].design.weights
    pricing = _Pricing(Y, weights, Likelihood.of(indicator, weights), combine, min_weight)
    for position, family in enumerate(families):
        decomposer = Decomposer(family.design)
        log_prior = -math.log(len(families) * len(family.gammas))
        for gamma in family.gammas:
            try:
                rung = pricing.price(decomposer, position, gamma, log_prior)
            except NotPositiveError as error:
                width = "" if gamma is None else f" at gamma={gamma:.6g}"
                raise NotPositiveError(f"kernel {family.name!r}{width}: {error}") from None
            pricing.rungs.append(rung)
    return _add_up(pricing)


def _add_up(pricing: _Pricing) -> Committee:
    """Weigh all members and sum what is kept of them."""
    xp = _array.namespace(pricing.Y)
    rungs, likelihood = pricing.rungs, pricing.likelihood
    omega, b_0 = _weigh(pricing)
    omega = _prune(omega, pricing.min_weight)
    mean = pricing.weights.mean(pricing.Y)
    intercept, logits, parts = b_0, b_0[None, :] + 0 * likelihood.target, []
    for rung, own in zip(rungs, _per_rung(rungs, omega), strict=True):
        if not np.any(own):
            continue
        w = _array.like(own[rung.kept], logits)
        wa = _array.like((own * rung.slope)[rung.kept], logits)
        logits = logits + xp.matmul(rung.logits, w)
        parts.append(Part(rung.family, rung.gamma, rung.centres, xp.matmul(rung.coef, wa)))
        intercept = intercept + (rung.intercept - mean[:, None]) @ wa
        intercept = intercept + _array.like(rung.offset @ own, logits)
    status = Status.SHARED
    if np.count_nonzero(omega) < 2:
        status = Status.ONE_MEMBER if np.any(omega) else Status.CLASS_PRIOR
    return Committee(rungs, omega, parts, intercept, logits, status)


def _weigh(pricing: _Pricing) -> tuple[np.ndarray, Array]:
    """Weights of all members (J,), and b_0 (k,)."""
    xp = _array.namespace(pricing.Y)
    rungs, likelihood = pricing.rungs, pricing.likelihood
    loss = np.concatenate([rung.loss for rung in rungs])
    log_weight = np.concatenate([rung.log_weight for rung in rungs])
    none = xp.zeros_like(likelihood.prior)
    if likelihood.nothing_found(float(loss.min())):
        return np.zeros(len(loss)), likelihood.prior
    if pricing.combine == "best":
        return (np.arange(len(loss)) == np.argmin(loss)).astype(float), none
    omega = np.exp(log_weight - log_weight.max())
    omega /= omega.sum()
    if pricing.combine == "average":
        return omega, none
    top = np.zeros(len(omega), dtype=bool)
    top[np.argsort(-log_weight, kind="stable")[:_STACKED]] = True
    logits = [
        xp.take(rung.logits, _array.indices(np.flatnonzero(own[rung.kept]), rung.logits), axis=2)
        for rung, own in zip(rungs, _per_rung(rungs, top), strict=True)
    ]
    v, b_0 = likelihood.stack(xp.concat(logits, axis=2), _array.like(omega[top], none))
    stacked = np.zeros(len(omega))
    stacked[top] = _array.to_numpy(v)
    return stacked, b_0


def _prune(omega: np.ndarray, least: float) -> np.ndarray:
    """Weights of at least ``least``, and the largest, rescaled to the sum of all."""
    kept = np.where((omega >= least) | (omega == omega.max()), omega, 0.0)
    return kept * (omega.sum() / kept.sum()) if np.any(kept) else kept


def _per_rung(rungs: list[Rung], values: np.ndarray) -> list[np.ndarray]:
    """Values (J,) of all members, rung by rung."""
    return np.split(values, np.cumsum([len(rung.mus) for rung in rungs])[:-1])


def table(committee: Committee, kernels: Sequence[tuple[str, Kernel]]) -> np.ndarray:
    """Every member as a row; offsets of more than two classes are named by class number."""
    rungs = committee.rungs
    k = rungs[0].offset.shape[0]
    offsets = ["offset"] if k == 1 else [f"offset_{c}" for c in range(k)]
    longest = max(len(name) for name, _ in kernels)
    numbers = ["width", "gamma", "mu", "unit", "weight", "slope", *offsets, "loo_log_loss"]
    rows = np.empty(
        len(committee.weights), [("kernel", f"U{longest}"), *((f, float) for f in numbers)]
    )
    for part, rung in zip(_per_rung(rungs, np.arange(len(rows))), rungs, strict=True):
        name, kernel = kernels[rung.family]
        own = rows[part[0] : part[-1] + 1]
        own["kernel"] = name
        own["gamma"] = math.nan if rung.gamma is None else rung.gamma
        own["width"] = length(kernel, rung.gamma)
        own["mu"], own["unit"] = rung.mus, rung.unit
        own["slope"], own["loo_log_loss"] = rung.slope, rung.loss
        for field_name, offset in zip(offsets, rung.offset, strict=True):
            own[field_name] = offset
    rows["weight"] = committee.weights
    return rows


@dataclass(frozen=True)
class Expansion:
    """One kernel on one set of centres (m, d) at several widths, with coefficients (m, k) each."""

    kernel: Kernel
    centres: Array
    gammas: tuple[float | None, ...]
    coefs: tuple[Array, ...]

    def __call__(self, X: Array) -> Array:
        """Sum over the widths, (n, k); distances are found once."""
        blocks = self.kernel.blocks(X, self.centres, self.gammas)
        return sum(K @ coef for K, coef in zip(blocks, self.coefs, strict=True))


def expand(parts: Sequence[Part], kernels: Sequence[Kernel], X: Array) -> list[Expansion]:
    """The parts on the training rows X; widths of a kernel with the same centres share them."""
    xp = _array.namespace(X)
    shared: dict[tuple[int, bytes], list[Part]] = {}
    for part in parts:
        shared.setdefault((part.family, part.centres.tobytes()), []).append(part)
    return [
        Expansion(
            kernels[family],
            xp.take(X, _array.indices(group[0].centres, X), axis=0),
            tuple(part.gamma for part in group),
            tuple(part.coef for part in group),
        )
        for (family, _), group in shared.items()
    ]
