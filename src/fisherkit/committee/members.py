"""A committee of every model on the grid, weighted by what each predicts of left-out rows.

A member j is one kernel, one width and one mu. With F_ij its exact leave-one-out score of row i
(codes +-1 for two classes, indicators for more) and m_i the mean code of the rows that remain when
i is left out, its calibrated logits are

    u_ij = a_j (F_ij - m_i) + b_j,     a_j > 0,  sum of b_j over the classes = 0,

where a_j and b_j minimise N_j, their mean cross-entropy (`fisherkit.tuning.likelihood`).
Centring on m_i takes away the label of row i that the bias of a heavily regularised member betrays.

    average   omega_j proportional to pi_j exp(-l N_j / 2), pi_j uniform in each family of kernels
    families  the average within each family; then the families are stacked, as members are below
    stack     v >= 0 and b_0 minimise the cross-entropy of b_0 + sum_j v_j u_ij plus
              0.05 |v - omega|^2, over the 120 largest omega
    best      the member of the smallest N_j alone

    g(x) = b_0 + sum_j omega_j [ a_j (f_j(x) - mean y) + b_j ],
    p = sigmoid(g) for two classes, softmax(g W + c) for more.

W and c are the matrix form of `fisherkit.tuning.softmax` on g of the left-out rows. l is the number
of rows, copies counted; class costs enter N_j through the shares of the rows only.
Given the calibrations, g has one coefficient vector for each kernel and width.

Cost: one decomposition for each kernel and width, or one factorisation for each member
(`fisherkit.committee.pricing`), plus O(n k) for each member and Newton step. No
decomposition is kept: of the members that may still end up with weight when a width has been
priced, the logits and coefficients are, n k numbers each. Logits are columns of
`fisherkit.tuning.Parts`: rows in one array here, in blocks in `fisherkit.committee.streamed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np

from fisherkit.committee.stacking import stack
from fisherkit.core import (
    Array,
    Kernel,
    arrays,
    length,
)
from fisherkit.rows import Basis, SharedCentres
from fisherkit.stored import stored
from fisherkit.tuning import (
    LOG_ODDS,
    Likelihood,
    Parts,
    Slope,
    fit_scalar,
    log,
    meaningful,
)

COMBINE = ("average", "families", "stack", "best")

_TEMPERATURE = 2.0
STACKED = 120  # members that stacking may weigh
_SHOWN = 2.0**12  # times the rounding of scores, below which they would need too large a slope
_LEAST_FAMILY = 1e-3  # of all weight, from which a family takes part


@dataclass(frozen=True)
class Asked:
    """A committee as the estimator asks for it: everything but the rows.

    ``widths`` gives the gammas of each kernel from the mean and variance of each feature, and
    ``learns`` says which of them learn the relevance of features.
    """

    names: Sequence[str]
    kernels: Sequence[Kernel]
    widths: Callable[[np.ndarray, np.ndarray], list[tuple[float | None, ...]]]
    penalty: str
    basis: Basis
    combine: str
    min_weight: float
    seed: int
    learns: Sequence[bool] = ()


@stored("status of a committee")
class Status(Enum):
    """What the committee found."""

    SHARED = "several members share the weight"
    ONE_MEMBER = "one member carries all of the weight"
    CLASS_PRIOR = (
        "no member predicts left-out rows better than the class shares do: the model is these "
        "shares, and no member has any weight"
    )


@dataclass(frozen=True)
class Priced:
    """Members of one kernel width, left out but not calibrated.

    ``scores`` is a column of centred left-out scores (b, k, q), ``log_prior`` the log of the prior
    mass of each member, ``coefficients`` gives those of f at some mu, (m, k, s) and (k, s).
    ``handicap`` is what the scores lose beside leave-one-out ones, in cross-entropy.
    """

    family: int
    gamma: float | None
    unit: float
    mus: np.ndarray
    log_prior: float
    scores: Sequence[Any]
    coefficients: Callable[[list[float]], tuple[Array, Array]]
    centres: np.ndarray
    path: str
    handicap: float = 0.0


@dataclass(frozen=True)
class Rung:
    """The members of one kernel width: all calibrations, and what is kept of those that matter.

    ``kept`` (s,) are positions among the members; the column ``logits`` (b, k, s), ``coef``
    (m, k, s) and ``intercept`` (k, s), the latter two of f, belong to these. ``centres`` (m,) are
    training rows. Where memory is short, several rungs share a width.
    """

    family: int
    gamma: float | None
    unit: float
    mus: np.ndarray
    slope: np.ndarray
    bounded: np.ndarray
    offset: np.ndarray
    loss: np.ndarray
    log_weight: np.ndarray
    kept: np.ndarray
    logits: Sequence[Any]
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

    ``logits`` is a column (b, k): g of left-out rows, conditional on the weights and calibrations.
    ``calibration`` says that they are log-odds, or has the matrix form that made them so.
    """

    rungs: list[Rung]
    weights: np.ndarray
    parts: list[Part]
    intercept: Array
    logits: Sequence[Any]
    status: Status
    calibration: Slope = LOG_ODDS

    @property
    def effective_members(self) -> float:
        """1 / sum of squared weights, the weights normalised; 0 where there is no weight."""
        total = float(self.weights.sum())
        return total**2 / float(np.sum(self.weights**2)) if total > 0 else 0.0


@dataclass
class Pricing:
    """Calibrates one width after the other; remembers what may still matter.

    ``mean`` (k,) is that of the codes. Logits of more than ``limit`` members are not kept: then
    ``overflow`` is true, and those of left-out rows have to be found again for the members that
    turn out to have weight (`shares`).
    """

    parts: Parts
    likelihood: Likelihood
    mean: Array
    combine: str
    min_weight: float
    limit: float = math.inf
    overflow: bool = False
    rungs: list[Rung] = field(default_factory=list)

    def loss(self, scores: Array) -> float:
        """The cross-entropy of one member, calibrated, from its centred scores (n, k, 1)."""
        return float(
            fit_scalar(self.parts, [above_rounding(scores)], self.likelihood.prior).loss[0]
        )

    def add(self, width: Priced) -> None:
        """Calibrate all members at this width, and keep those that may end up with weight."""
        found = fit_scalar(self.parts, width.scores, self.likelihood.prior)
        slope, offset, loss = (
            np.asarray(arrays.to_numpy(part), dtype=np.float64)
            for part in (found.slope, found.offset, found.loss)
        )
        loss = loss - width.handicap
        log_weight = width.log_prior - self.likelihood.total * loss / _TEMPERATURE
        log.info(
            "gamma %.4g: calibrated leave-one-out log-loss %.6g at mu %.4g (%s)",
            math.nan if width.gamma is None else width.gamma,
            loss.min(),
            width.mus[np.argmin(loss)],
            width.path,
        )
        matter = self._may_matter(width.family, loss, log_weight)
        for position, rung in enumerate(self.rungs):
            if self.combine != "families" or rung.family == width.family:
                self.rungs[position] = self._lighter(rung, matter(rung.loss, rung.log_weight))
        kept = np.flatnonzero(matter(loss, log_weight))
        if len(kept) + sum(len(rung.kept) for rung in self.rungs) > self.limit:
            self.overflow = True
            self.rungs = [replace(rung, logits=()) for rung in self.rungs]
        logits: Sequence[Any] = ()
        if not self.overflow:
            logits = self.parts.each(_logits, [width.scores], kept, found.slope, found.offset)
        coef, intercept = width.coefficients(width.mus[kept].tolist())
        self.rungs.append(
            Rung(
                family=width.family,
                gamma=width.gamma,
                unit=width.unit,
                mus=width.mus,
                slope=slope,
                bounded=arrays.to_numpy(found.bounded),
                offset=offset,
                loss=loss,
                log_weight=log_weight,
                kept=kept,
                logits=logits,
                coef=coef,
                intercept=intercept,
                centres=width.centres,
            )
        )

    def _may_matter(
        self, family: int, loss: np.ndarray, log_weight: np.ndarray
    ) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Which members may end up with weight, whatever the widths still to come bring.

        Members of a family compete among themselves where families are stacked.
        """
        rivals = self.rungs
        if self.combine == "families":
            rivals = [rung for rung in rivals if rung.family == family]
        seen = np.concatenate([log_weight, *(rung.log_weight for rung in rivals)])
        if self.combine == "best":
            least = min([loss.min(), *(rung.loss.min() for rung in self.rungs)])
            return lambda loss, log_weight: loss <= least
        if self.combine == "stack":
            bar = np.sort(seen)[-STACKED:][0]
        else:
            bar = seen.max() + (math.log(self.min_weight) if self.min_weight else -np.inf)
        return lambda loss, log_weight: log_weight >= bar

    def _lighter(self, rung: Rung, matter: np.ndarray) -> Rung:
        """The rung without what can no longer matter."""
        still = matter[rung.kept]
        if still.all():
            return rung
        xp, some = arrays.namespace(rung.coef), np.flatnonzero(still)
        place = arrays.indices(some, rung.coef)
        logits = rung.logits
        if not self.overflow:
            logits = self.parts.each(_some_members, [logits], some)
        return replace(
            rung,
            kept=rung.kept[still],
            logits=logits,
            coef=xp.take(rung.coef, place, axis=2),
            intercept=xp.take(rung.intercept, place, axis=1),
        )

    def add_up(self) -> Committee:
        """Weigh all members and sum what is kept of them; after an overflow, logits are b_0."""
        xp = arrays.namespace(self.mean)
        omega, b_0 = self._weigh()
        # Weights of an average sum to one, not to what rounding has made of it.
        total = float(omega.sum()) if self.combine == "stack" else 1.0
        if self.combine == "families":
            omega, b_0 = self._stack_families(omega, b_0)
            total = float(omega.sum())
        else:
            omega = _prune(omega, self.min_weight, total)
        intercept, columns, shares = b_0, [], []
        parts: dict[tuple[int, float | None], Part] = {}
        for rung, own in zip(self.rungs, _per_rung(self.rungs, omega), strict=True):
            if not np.any(own):
                continue
            wa = arrays.like((own * rung.slope)[rung.kept], b_0)
            if not self.overflow:
                columns.append(rung.logits)
                shares.append(arrays.like(own[rung.kept], b_0))
            key, coef = (rung.family, rung.gamma), xp.matmul(rung.coef, wa)
            if key in parts:  # more members of the same width
                coef = coef + parts[key].coef
            parts[key] = Part(*key, rung.centres, coef)
            intercept = intercept + (rung.intercept - self.mean[:, None]) @ wa
            intercept = intercept + arrays.like(rung.offset @ own, b_0)
        status = Status.SHARED
        if np.count_nonzero(omega) < 2:
            status = Status.ONE_MEMBER if np.any(omega) else Status.CLASS_PRIOR
        logits = self.parts.each(_blend, columns, b_0, shares)
        return Committee(self.rungs, omega, list(parts.values()), intercept, logits, status)

    def _stack_families(self, omega: np.ndarray, b_0: Array) -> tuple[np.ndarray, Array]:
        """Weights of all members that add up to those of their families, which are stacked."""
        if not omega.any() or self.overflow:
            return _prune(omega, self.min_weight, 1.0), b_0
        families = np.concatenate([np.full(len(rung.mus), rung.family) for rung in self.rungs])
        log_weight = np.concatenate([rung.log_weight for rung in self.rungs])
        numbers = np.unique(families)
        within, mass, columns = np.zeros(len(omega)), [], []
        for number in numbers:
            own = families == number
            likely = np.exp(log_weight[own] - log_weight[own].max())
            within[own] = _prune(likely / likely.sum(), self.min_weight, 1.0)
            mass.append(omega[own].sum())
            shares = [
                (rung.logits, arrays.like(part[rung.kept], b_0))
                for rung, part in zip(self.rungs, _per_rung(self.rungs, within * own), strict=True)
                if part.any()
            ]
            pieces = [logits for logits, _ in shares]
            logits = self.parts.each(_blend, pieces, 0 * b_0, [share for _, share in shares])
            columns.append(self.parts.each(_stacked, [logits]))
        v, b_0 = stack(self.parts, columns, arrays.like(np.array(mass), b_0), b_0.shape[0])
        v = arrays.to_numpy(v)
        v = np.where(v >= _LEAST_FAMILY * v.sum(), v, 0.0)
        return within * v[np.searchsorted(numbers, families)], b_0

    def _weigh(self) -> tuple[np.ndarray, Array]:
        """Weights of all members (J,), and b_0 (k,)."""
        rungs, likelihood = self.rungs, self.likelihood
        loss = np.concatenate([rung.loss for rung in rungs])
        log_weight = np.concatenate([rung.log_weight for rung in rungs])
        none = arrays.namespace(self.mean).zeros_like(self.mean)
        if likelihood.nothing_found(float(loss.min())):
            return np.zeros(len(loss)), likelihood.prior
        if self.combine == "best":
            return (np.arange(len(loss)) == np.argmin(loss)).astype(float), none
        omega = np.exp(log_weight - log_weight.max())
        omega /= omega.sum()
        if self.combine in ("average", "families"):
            return omega, none
        # Ties at the bar may have kept more members than are stacked.
        top = np.zeros(len(omega), dtype=bool)
        top[np.argsort(-log_weight, kind="stable")[:STACKED]] = True
        columns = [
            rung.logits
            if own[rung.kept].all()
            else self.parts.each(_some_members, [rung.logits], np.flatnonzero(own[rung.kept]))
            for rung, own in zip(rungs, _per_rung(rungs, top), strict=True)
            if own.any()
        ]
        v, b_0 = stack(self.parts, columns, arrays.like(omega[top], none), none.shape[0])
        stacked = np.zeros(len(omega))
        stacked[top] = arrays.to_numpy(v)
        return stacked, b_0


def above_rounding(scores: Array) -> Array:
    """Centred scores, those set to zero whose size needs a slope that shows rounding.

    A new row's score is a sum beside the intercept, whose rounding the slope enlarges.
    """
    return meaningful(scores, _SHOWN * arrays.eps(scores))


def _logits(
    rows: Likelihood, pieces: Sequence[Array], kept: np.ndarray, slope: Array, offset: Array
) -> Array:
    """Calibrated logits (b, k, s) of some members."""
    xp = arrays.namespace(slope)
    some = arrays.indices(kept, slope)
    a, b = xp.take(slope, some, axis=0), xp.take(offset, some, axis=1)
    return a * xp.take(pieces[0], some, axis=2) + b[None, :, :]


def _some_members(rows: Likelihood, pieces: Sequence[Array], some: np.ndarray) -> Array:
    logits = pieces[0]
    return arrays.namespace(logits).take(logits, arrays.indices(some, logits), axis=2)


def _stacked(rows: Likelihood, pieces: Sequence[Array]) -> Array:
    """Logits (b, k) as those of one member."""
    return pieces[0][:, :, None]


def _blend(
    rows: Likelihood, pieces: Sequence[Array], b_0: Array, weights: Sequence[Array]
) -> Array:
    """b_0 and the weighted logits of all members; (b, k)."""
    xp = arrays.namespace(b_0)
    logits = b_0[None, :] + 0 * rows.target
    for array, w in zip(pieces, weights, strict=True):
        logits = logits + xp.matmul(array, w)
    return logits


def log_prior(families: int, widths: int, mus: int) -> float:
    """The log of the prior mass of one member: equal for all families, and for all in a family."""
    return -math.log(families * widths) - math.log(mus)


@dataclass(frozen=True)
class Share:
    """What the members of one width add to g: of their scores Z (n, k, q), Z @ slope + offset."""

    mus: np.ndarray
    slope: np.ndarray
    offset: np.ndarray


def shares(committee: Committee) -> dict[tuple[int, float | None], list[Share]]:
    """The members with weight, by family and gamma."""
    found: dict[tuple[int, float | None], list[Share]] = {}
    for rung, own in zip(
        committee.rungs, _per_rung(committee.rungs, committee.weights), strict=True
    ):
        some = own > 0
        if some.any():
            share = Share(rung.mus[some], (own * rung.slope)[some], rung.offset @ own)
            found.setdefault((rung.family, rung.gamma), []).append(share)
    return found


def _prune(omega: np.ndarray, least: float, total: float) -> np.ndarray:
    """Weights of at least ``least``, and the largest, rescaled to sum to ``total``."""
    kept = np.where((omega >= least) | (omega == omega.max()), omega, 0.0)
    return kept / kept.sum() * total if np.any(kept) else kept


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
    fields = [("kernel", f"U{longest}"), *((f, float) for f in numbers), ("bounded", bool)]
    rows = np.empty(len(committee.weights), fields)
    for part, rung in zip(_per_rung(rungs, np.arange(len(rows))), rungs, strict=True):
        name, kernel = kernels[rung.family]
        own = rows[part[0] : part[-1] + 1]
        own["kernel"] = name
        own["gamma"] = math.nan if rung.gamma is None else rung.gamma
        own["width"] = length(kernel, rung.gamma)
        own["mu"], own["unit"] = rung.mus, rung.unit
        own["slope"], own["bounded"] = rung.slope, rung.bounded
        own["loo_log_loss"] = rung.loss
        for field_name, offset in zip(offsets, rung.offset, strict=True):
            own[field_name] = offset
    rows["weight"] = committee.weights
    return rows


def expand(parts: Sequence[Part], kernels: Sequence[Kernel], X: Array) -> list[SharedCentres]:
    """The parts on the training rows X; widths of a kernel with the same centres share them."""
    taken: dict[bytes, Array] = {}  # families with the same centres share them, too
    shared: dict[tuple[int, bytes], list[Part]] = {}
    for part in parts:
        shared.setdefault((part.family, part.centres.tobytes()), []).append(part)
    for (_, key), group in shared.items():
        if key not in taken:
            taken[key] = arrays.take_rows(X, arrays.indices(group[0].centres, X))
    return [
        SharedCentres(
            kernels[family],
            taken[key],
            tuple(part.gamma for part in group),
            tuple(part.coef for part in group),
        )
        for (family, key), group in shared.items()
    ]
