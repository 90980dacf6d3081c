"""Choosing mu and the kernel width.

For one kernel, the criterion is priced on a grid of mu in one sweep, the grid is extended only
while the optimum sits on its edge, and safeguarded Newton steps on log mu (the paper's, with step
halving) finish inside the bracket. The width is chosen by the same criterion: a march from wide to
narrow kernels in octaves that stops on clear rises, then the half octaves beside the best.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from fisherkit.core import SMALL, Design, RidgePath, mu_floor
from fisherkit.stored import stored
from fisherkit.tuning.criteria import Criterion, Loss

log = logging.getLogger("fisherkit")
Place = TypeVar("Place", int, float)

GRID = 2.0 ** np.arange(-14, 11)  # relative regularisation mu / (tr G / n)
MU_CEILING = 2.0**20  # relative
_LAST_STEP = 3e-8
_VALUE_ROUNDING = 1e-14  # relative, of a mean over thousands of rows
_BEYOND = 0.01  # of the way from a kink to the far end: so that both ends move
_EXTEND = 4  # grid points added at a time
_WIDE, _NARROW = -6, 6  # first and last half octaves of the march, from the reference width
_MOST_PRICES, _SETTLED, _LONGER = 10, 1e-4, 1.6
_BEATEN = 0.02  # relative gain on the baseline from which a kernel has found something
# Relative rises that count, and that end the march at once: lower hills may hide deeper valleys.
RISE, STEEP = 0.1, 0.3
FARTHEST = 10  # half octaves beyond which the march never goes


@stored("status of a search")
class Status(Enum):
    """Where the search ended and why."""

    INTERIOR = "the criterion has a minimum inside the range searched"
    GRID_MINIMUM = "the best value on the grid: this criterion has no derivative to refine it"
    AT_LOWER_BOUND = (
        "the criterion keeps falling as mu shrinks to its floor: the kernel may be too wide, "
        "or the data without noise"
    )
    AT_UPPER_BOUND = (
        "the criterion keeps falling as mu grows: at this kernel width the model predicts hardly "
        "better than a constant"
    )
    AVERAGES = (
        "the criterion is best at the largest mu: probabilities are calibrated, so that the size "
        "of scores does not count, and averages over the classes order rows best"
    )
    NOISELESS = (
        "held-out rows are predicted exactly, up to rounding; this is the largest mu on the grid "
        "for which they are"
    )
    AT_WIDEST = (
        "the criterion keeps falling as the kernel widens: a linear or polynomial kernel may be "
        "enough"
    )
    AT_NARROWEST = (
        "the criterion keeps falling as the kernel narrows: nearest neighbours alone decide, or "
        "rows repeat one another"
    )
    GIVEN = "mu was given, not searched"


AT_BOUNDS = frozenset(
    {Status.AT_LOWER_BOUND, Status.AT_UPPER_BOUND, Status.AT_WIDEST, Status.AT_NARROWEST}
)


def settled(status: Status, loss: Loss) -> Status:
    """The status by a loss: where scores are calibrated, a mu at its ceiling hides nothing."""
    if status is Status.AT_UPPER_BOUND and loss.calibrated:
        return Status.AVERAGES
    return status


def mention(model: object, ending: Enum, worrying: Collection[Enum]) -> None:
    """Log how a search ended where users should know, as a warning: Python prints these."""
    if ending in worrying:
        log.warning("%s: %s", type(model).__name__, ending.value)


EXACT = "exact, for every row"
SINGLE = "exact, for every row, to the digits of single precision"
SAMPLED = "exact, for {} sampled rows, to the digits of single precision"
PATH_DTYPE = np.dtype([("rows", int), ("gamma", float), ("mu", float), ("value", float)])


class Priced(NamedTuple):
    """The criterion of one model on so many rows; gamma is nan for kernels without one."""

    rows: int
    gamma: float
    mu: float
    value: float


@stored("selection")
@dataclass(frozen=True)
class Selection:
    """What was chosen, and the path that led there.

    Attributes
    ----------
    criterion : str
    value : float
        The criterion at the chosen model.
    mu, gamma : float
        The choice; gamma is ``None`` for kernels without one.
    status : Status
        Its value is a sentence.
    rank : int
        Directions of the canonical form.
    method : {"full", "low-rank", "centres", "cholesky", "conjugate", "recomputed", "streamed"}
    tolerance : float
        Trace left out by the low-rank path; 0 on the others.
    unit : float
        tr(G)/n; mu / unit is the relative regularisation.
    path : ndarray with fields rows, gamma, mu, value
        Every setting compared, in order, and the number of rows on which it was.
    reason : str
        What was chosen from the number of rows and the memory budget, and why; empty where the
        basis was asked for and memory holds the fit.
    leave_one_out : str
        For which rows the left-out scores are known, and how well.
    error : float
        Standard error of the ``value``, where a sample of the rows has been left out; otherwise
        NaN.
    """

    criterion: str
    value: float
    mu: float
    gamma: float | None
    status: Status
    rank: int
    method: str
    tolerance: float
    unit: float
    path: np.ndarray = field(repr=False)
    reason: str = ""
    leave_one_out: str = EXACT
    error: float = math.nan

    @property
    def sampled(self) -> bool:
        """Whether a sample of the rows has been left out, and not all of them."""
        return not math.isnan(self.error)


def mu_grid(unit: float, floor: float) -> np.ndarray:
    """The values of mu that are priced first, ascending."""
    return np.unique(np.maximum(GRID * unit, floor))


class _Point(NamedTuple):
    """A function of one variable about a point: its value, gradient and second derivative."""

    x: float
    value: float
    gradient: float
    hessian: float


def newton(
    derivatives: Callable[[float], tuple[float, float, float]],
    x: float,
    lower: float,
    upper: float,
    *,
    max_iter: int = 60,
) -> tuple[float, float]:
    """Minimise a smooth function on [lower, upper] from x: Newton steps, halved until they descend.

    ``derivatives`` returns value, gradient, second derivative. Where the curvature is not positive
    the step goes downhill by a quarter of the interval. Returns x and the value there. The last
    step is so short that its square, the error that remains, is rounding: it is not evaluated.

    The minimum may be a kink between two smooth pieces. No step therefore goes beyond a point that
    is known to fall towards this one; the next trial is then where the two parabolas meet.
    """
    here = _Point(x, *derivatives(x))
    left: _Point | None = None
    right: _Point | None = None
    for _ in range(max_iter):
        downhill = -math.copysign(0.25 * (upper - lower), here.gradient)
        step = -here.gradient / here.hessian if here.hessian > 0 else downhill
        trial = min(max(here.x + step, lower), upper)
        end = left if step < 0 else right
        if end is not None and abs(trial - here.x) >= abs(end.x - here.x):
            trial = _meeting(here, end)
        for _ in range(40):
            if abs(trial - here.x) <= _LAST_STEP:
                return trial, here.value
            there = _Point(trial, *derivatives(trial))
            # Near the minimum values agree to rounding, and the gradient decides instead.
            slack = _VALUE_ROUNDING * abs(here.value)
            descends = there.value < here.value - slack or (
                there.value <= here.value + slack and abs(there.gradient) < abs(here.gradient)
            )
            near, far = (there, here) if descends else (here, there)
            if far.x < near.x and far.gradient < 0:
                left = far
            elif far.x > near.x and far.gradient > 0:
                right = far
            if descends:
                break
            trial = _meeting(here, there)
        else:
            break
        here = there
    return here.x, here.value


def _meeting(here: _Point, there: _Point) -> float:
    """A little beyond where two parabolas that fall towards each other meet; or midway."""
    t = there.x - here.x
    if here.gradient * t < 0 < there.gradient * t:
        # Their difference as a polynomial in the distance from here.
        constant = here.value - there.value + t * there.gradient - 0.5 * t * t * there.hessian
        linear = here.gradient - there.gradient + t * there.hessian
        roots = np.roots([0.5 * (here.hessian - there.hessian), linear, constant])
        inside = [root.real for root in roots if root.imag == 0 and 0 < root.real / t < 1]
        if len(inside) == 1:
            return here.x + inside[0] + _BEYOND * (t - inside[0])
    return here.x + 0.5 * t


class GridPrices(Protocol):
    """A criterion at values of mu."""

    @property
    def unit(self) -> float: ...

    @property
    def floor(self) -> float: ...

    @property
    def negligible(self) -> float: ...

    def values(self, mus: Sequence[float]) -> np.ndarray: ...


class Prices(GridPrices, Protocol):
    """A criterion as a function of mu alone; see `Criterion`."""

    @property
    def smooth(self) -> bool: ...

    def derivatives(self, log_mu: float) -> tuple[float, float, float]: ...


@dataclass(frozen=True)
class PathPrices:
    """The prices of the models on one path."""

    path: RidgePath
    criterion: Criterion

    @property
    def unit(self) -> float:
        return self.path.canonical.unit

    @property
    def floor(self) -> float:
        return mu_floor(self.unit, self.path.canonical.weights)

    @property
    def smooth(self) -> bool:
        return self.criterion.smooth

    @property
    def negligible(self) -> float:
        return self.criterion.negligible

    def values(self, mus: Sequence[float]) -> np.ndarray:
        return self.criterion.values(self.path, mus)

    def derivatives(self, log_mu: float) -> tuple[float, float, float]:
        return self.criterion.derivatives(self.path, log_mu)


@dataclass
class GridSearch:
    """The search over mu by its prices on a grid. A ``given`` mu is only priced."""

    prices: GridPrices
    given: float | None = None
    mus: np.ndarray = field(init=False)
    values: np.ndarray = field(init=False)
    best: int = field(init=False)  # index of the smallest value, of the largest mu among equals

    def __post_init__(self) -> None:
        unit, self.floor = self.prices.unit, self.prices.floor
        self.ceiling = MU_CEILING * unit
        self.mus = self.values = np.empty(0)
        self._price(mu_grid(unit, self.floor) if self.given is None else np.array([self.given]))
        if self.given is None:
            self._extend()

    @property
    def best_mu(self) -> float:
        return float(self.mus[self.best])

    @property
    def value(self) -> float:
        return float(self.values[self.best])

    def _extend(self) -> None:
        while self.best == 0 and self.mus[0] > self.floor:
            more = self.mus[0] * 2.0 ** -np.arange(_EXTEND, 0, -1)
            self._price(np.unique(np.maximum(more, self.floor)), before=True)
        while self.best == len(self.mus) - 1 and self.mus[-1] < self.ceiling:
            more = self.mus[-1] * 2.0 ** np.arange(1, _EXTEND + 1)
            self._price(np.unique(np.minimum(more, self.ceiling)))

    def _price(self, mus: np.ndarray, *, before: bool = False) -> None:
        values = self.prices.values(list(mus))
        order = (mus, self.mus) if before else (self.mus, mus)
        prices = (values, self.values) if before else (self.values, values)
        self.mus, self.values = np.concatenate(order), np.concatenate(prices)
        bound = _tied(float(np.min(self.values)), self.prices.negligible)
        self.best = int(np.flatnonzero(self.values <= bound)[-1])


@dataclass
class MuSearch(GridSearch):
    """The search over mu by its prices: grid first, Newton on request."""

    prices: Prices

    def refine(self) -> tuple[float, float, Status]:
        """The chosen mu, the criterion there, and the status."""
        if self.given is not None:
            return self.given, self.value, Status.GIVEN
        j = self.best
        if self.prices.smooth and self.value <= 2 * self.prices.negligible:
            return self.best_mu, self.value, Status.NOISELESS
        at_lower, at_upper = j == 0, j == len(self.mus) - 1
        status = Status.INTERIOR if self.prices.smooth else Status.GRID_MINIMUM
        if at_lower or at_upper:
            status = Status.AT_LOWER_BOUND if at_lower else Status.AT_UPPER_BOUND
        if not self.prices.smooth:
            return self.best_mu, self.value, status
        lower, upper = max(j - 1, 0), min(j + 1, len(self.mus) - 1)
        log_mus = np.log(self.mus[lower : upper + 1])
        x, value = newton(
            self.prices.derivatives,
            vertex(log_mus, self.values[lower : upper + 1], j - lower),
            log_mus[0],
            log_mus[-1],
        )
        if x == log_mus[j - lower] and (at_lower or at_upper):
            return self.best_mu, self.value, status  # exactly the bound
        return math.exp(x), value, Status.INTERIOR


def vertex(x: np.ndarray, y: np.ndarray, best: int) -> float:
    """Where the parabola through three points is smallest; the best point if there are two."""
    if len(x) < 3:
        return float(x[best])
    left, right = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
    curvature = (right - left) / (0.5 * (x[2] - x[0]))
    middle = 0.5 * (x[1] + x[0]) - left / curvature if curvature > 0 else x[1]
    return float(min(max(middle, x[0]), x[2]))


def march(
    price: Callable[[float], float],
    reference: float,
    step: float,
    *,
    negligible: float = 0.0,
    baseline: float = sys.float_info.max,
) -> tuple[float, Status | None]:
    """Choose gamma by minimising the price over reference * step^j, j in half octaves.

    Whole octaves are visited from wide (small gamma) to narrow until two in a row have risen a
    tenth above the best, or one three tenths, going on past either end while the best is there;
    then the half octaves beside it. Rises count only once a kernel has beaten ``baseline``, the
    price of no kernel at all: on fine patterns every wide kernel is as good as none.

    Prices that differ by less than ``negligible`` are equal, and the widest kernel wins. Also
    returns the status if the optimum is at the end of what is ever tried.
    """
    values: dict[int, float] = {}

    def visit(j: int) -> float:
        values[j] = price(reference * step**j)
        return values[j]

    j, rises = _WIDE, 0
    while j <= _NARROW or (j <= FARTHEST and _best(values, negligible) == j - 2):
        best = min(values.values(), default=math.inf)
        rise = (visit(j) - best - negligible) / max(abs(best), sys.float_info.min)
        found = best < baseline - _BEATEN * abs(baseline)
        rises = rises + 1 if found and rise >= RISE else 0
        if rises == 2 or (found and rise >= STEEP):
            break
        j += 2
    j = _best(values, negligible)
    while j == min(values) and j > -FARTHEST:  # the widest kernel won: look at wider ones
        visit(j - 2)
        j = _best(values, negligible)
    visit(j - 1)
    visit(j + 1)
    j = _best(values, negligible)
    edges = {-FARTHEST - 1: Status.AT_WIDEST, FARTHEST + 1: Status.AT_NARROWEST}
    return reference * step**j, edges.get(j)


def settle(
    price: Callable[[float], float], x: float, step: float, lower: float, upper: float
) -> float:
    """Minimise the price near x, each of which costs much: steps downhill, then parabolas.

    Each step is longer than the one before. It ends where the next price promises to be less by a
    share of 1e-4, on a bound, or after ten prices.
    """
    values: dict[float, float] = {}

    def at(place: float) -> float:
        place = min(max(place, lower), upper)
        if place not in values:
            values[place] = price(place)
        return place

    here = at(x)
    while len(values) < _MOST_PRICES:
        here = _best(values, 0.0)
        left = max((place for place in values if place < here), default=None)
        right = min((place for place in values if place > here), default=None)
        if (left is None and here > lower) or (right is None and here < upper):
            at(here - step if left is None and here > lower else here + step)
            step *= _LONGER
        elif left is None or right is None:
            break
        else:
            near = np.array([left, here, right])
            heights = np.array([values[place] for place in near])
            _, b, a = np.polynomial.polynomial.polyfit(near - here, heights, 2)
            if not a > 0 or b * b / (4 * a) < _SETTLED * abs(values[here]):
                break
            at(here - b / (2 * a))
    return _best(values, 0.0)


def _best(values: dict[Place, float], negligible: float) -> Place:
    """Position of the smallest value, the widest kernel among equals."""
    bound = _tied(min(values.values()), negligible)
    return min(j for j, value in values.items() if value <= bound)


def _tied(value: float, negligible: float) -> float:
    """The largest value that rounding cannot tell from this one."""
    return value + 1e-12 * abs(value) + negligible


def reason_of(design: Design, selection: Selection, centres: int) -> str:
    """Why every row is a centre, and how; empty where the basis was asked for."""
    n, given = design.gram.n, len(selection.path) == 1
    if selection.method == "recomputed":
        found = "width and mu are given" if given else "width and mu by levels"
        return (
            f"{n} rows whose kernel matrix does not fit in memory, {found}: conjugate gradients "
            "that find its values anew for each step"
        )
    if design.basis != "auto":
        return ""
    if selection.method == "low-rank":
        return f"{n} rows fit in memory, through a factor of rank {centres} of the kernel matrix"
    why, how = "the kernel matrix has no low rank", "all of it is decomposed"
    if selection.method == "cholesky":
        how = "width and mu by levels, then one Cholesky factorisation"
        if given:
            why, how = "width and mu are given", "one Cholesky factorisation"
    elif selection.method == "conjugate":
        how = "width and mu by levels, then conjugate gradients"
        if given:
            why, how = "width and mu are given", "conjugate gradients"
    elif n <= SMALL:
        why = "so few that no low-rank factor was looked for"
    return f"{n} rows fit in memory, {why}: {how}"
