"""Width and mu by levels: nested samples of the rows, then a few Newton steps on all of them.

The criterion Q of leave-one-out residuals at (log gamma, log mu) costs one Cholesky factorisation
of the rows looked at, and its gradient O(n^2) more (`fisherkit.core.Pullback`). So most of the
search takes place on few rows, in single precision where its rounding is far below mu:

    coarse     500 rows: octaves of the width and, for each, steps of a factor 4 in mu
    levels     500, 1000, 2000, 4000 rows while that is less than .6 n: quasi-Newton steps from
               every valley that is nearly as deep as the deepest, beyond 1000 rows from that one
    between    width and mu move on with the logarithm of the number of rows, as they did before
    all rows   the same steps, seldom more than two

Levels are prefixes of one order of the rows, which keep their weights: of a row that counts twice,
one copy is left out, whatever the number of rows. The order follows from the values of
the rows alone, and so does all that is computed here, to the last bit: shuffled,
repeated and weighted versions of the same data choose the same model. (Copies have been merged.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fisherkit.core import (
    Array,
    Prefixes,
    Pullback,
    Weights,
    arrays,
    fingerprints,
    left_out_and_fit,
    race,
    reference_width,
    relative_floor,
    solve,
    trace_unit,
    width_step,
)
from fisherkit.tuning.criteria import Problem
from fisherkit.tuning.select import FARTHEST, MU_CEILING, RISE, STEEP, Priced, Status, log
from fisherkit.tuning.trends import End, Trend

LEVELS = (500, 1000, 2000, 4000)  # numbers of rows
_SHARE = 0.6  # of all rows: a level has fewer
ALL_ROWS = 6000  # up to which steps are taken on all of them
_SEVERAL = 1000  # rows up to which several valleys are looked at
_BLIND = 2000  # rows up to which the coarse search begins anew where it sees nothing
_DEEP = 0.1  # relative height above the deepest valley up to which another one may be the deepest
_OCTAVES = 3  # of the width, in either direction from the reference
_FOUND = 0.02  # relative gain on the model without a kernel from which a kernel has found something
_FACTOR = math.log(4.0)  # step in log mu of the coarse search
_FLAT = 1e-3  # relative gain for which a step to a smaller mu is not taken: plateaus have no slope
_FIRST_MU = math.log(2.0**-6)  # relative
_PROBED = (-4, 0, 3)  # steps from there: at one width, the criterion may have several minima
_RISE = 1e-3  # relative, that a step may bring
_LONGEST = 1.0  # step in log gamma and log mu
_STEPS = 10  # at one level, at most
_HALVINGS = 4
_ASIDE = 0.7  # in log gamma, how far beside a bottom another one may be seen
_TRADED = math.log(100.0)  # in log mu, for as much in log gamma
_LOOKS, _SEEN = 3, 1000  # how often that is done at most, and up to how many rows
_GAIN = 1e-3  # predicted relative gain from which another step is worth it at a level
_LAST_GAINS = (1e-4, 3e-4)  # and on all rows, few or many
_CURVED = (0.02, 1.0)  # bounds of the first guess of the curvature, relative to Q
_BENT = (0.005, 50.0)  # and of what steps make of it
_APART = 0.2  # in log gamma or log mu, of valleys that are two
_DRIFT = 0.1  # of log gamma and log mu for each unit of log n, a priori
_FASTEST = 0.5  # drift that is believed
_SIGNS = 64  # random vectors by which a trace is estimated
_EXACT = 800  # rows up to which it is not estimated
_FEW = 250  # rows up to which single precision saves no time
_SINGLE = 5e-2  # rounding of single precision that is allowed, relative to mu
_DRAWN_DIGITS = 26  # binary ones of a value that decide on its luck
_FAINT = 0.1  # spread of scores, relative to the targets, below which their size needs double
_NO_DIGITS = 1e-9  # of the model without a kernel: below it, single precision sees noise


class Point(NamedTuple):
    """The criterion at x = (log gamma, log mu), and its gradient, relative to its size.

    In x, gamma is relative to the reference width, and mu to tr(G)/n unless it is given.
    """

    x: np.ndarray
    mu: float
    value: float
    slope: np.ndarray

    @property
    def size(self) -> float:
        return abs(self.value) or 1.0


class Valley(NamedTuple):
    """Where the criterion is small, and about its curvature (2, 2) there, relative to its size."""

    x: np.ndarray
    value: float
    curvature: np.ndarray


class NotServed(Exception):
    """Rounding hides the optimum from single factorisations; decompositions may find it."""


@dataclass
class Level:
    """The criterion on the first rows of the order; ``free`` says which of x may change."""

    problem: Problem
    kernels: Prefixes
    bounds: np.ndarray
    free: np.ndarray
    given: float | None
    priced: list[Priced]
    least: float = math.inf  # of the values seen, and the loss of each row there
    losses: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def m(self) -> int:
        return self.problem.Y.shape[0]

    @cached_property
    def signs(self) -> Array | None:
        """Random signs (m, p), where the gradient is estimated."""
        if self.m <= _EXACT:
            return None
        drawn = np.random.RandomState(self.m).randint(2, size=(self.m, _SIGNS))
        return arrays.like(2.0 * drawn - 1.0, self.problem.Y)

    @cached_property
    def centred(self) -> Array:
        """Targets without what the bias takes off them, which changes no residual."""
        design = self.problem.design
        return self.problem.Y - design.bias.mean(self.problem.Y, design.weights)

    @cached_property
    def scale(self) -> float:
        """A power of two near the largest target: squares of targets in its units are numbers."""
        largest = float(arrays.namespace(self.centred).max(abs(self.centred)))
        return 2.0 ** math.frexp(largest)[1] if largest > 0 else 1.0

    @cached_property
    def double(self) -> tuple[Array, Weights]:
        """Scaled targets, and weights."""
        return self.centred / self.scale, self.problem.design.weights

    @cached_property
    def single(self) -> tuple[Array, Weights]:
        """The same in single precision."""
        Y, weights = self.double
        narrow = Weights(arrays.narrow(weights.frequency), arrays.narrow(weights.cost))
        return arrays.narrow(Y), narrow

    @cached_property
    def baseline(self) -> float:
        """The criterion of the model without a kernel."""
        return self.problem.criterion.baseline

    def at(self, x: np.ndarray, *, sloped: bool = True) -> Point | None:
        """The criterion; ``None`` where rounding does not let it be found."""
        x = np.clip(x, *self.bounds)
        point = None if self.m <= _FEW else self._at(x, sloped, exact=False)
        point = point or self._at(x, sloped, exact=True)
        if point is not None:
            gamma = self.kernels.gamma(math.exp(x[0]))
            self.priced.append(Priced(self.m, math.nan if gamma is None else gamma, *point[1:3]))
        return point

    def _at(self, x: np.ndarray, sloped: bool, *, exact: bool) -> Point | None:
        design, criterion = self.problem.design, self.problem.criterion
        sloped_by_gamma = sloped and bool(self.free[0])
        K, D = self.kernels.at(self.m, math.exp(x[0]), exact=exact, sloped=sloped_by_gamma)
        single = K.dtype != self.problem.Y.dtype
        Y, weights = self.single if single else self.double
        trace = _trace(K, weights)
        mu, drift = self.given, 0.0
        if mu is None:
            mu = math.exp(x[1]) * trace / design.weights.total
            drift = 0.0 if D is None else _trace(D, weights) / trace
        if not trace > 0 or (single and arrays.eps(K) * _norm(K, weights) > _SINGLE * mu):
            return None
        if sloped:
            solved = solve(K, Y, weights, bias=design.bias, penalty=design.penalty, mu=mu)
            left_out = None if solved is None else solved[0].leave_one_out()
        else:
            found = left_out_and_fit(K, Y, weights, design.bias, mu)
            solved, left_out = None, None if found is None else found[0]
        faint = single and not criterion.loss.by_row
        if left_out is None or (faint and _spread(Y - left_out) < _FAINT * _spread(Y)):
            return None
        share = design.weights.v / design.weights.mass
        losses, slopes = criterion.slopes(self.scale * left_out)
        value = float(share @ losses)
        if not math.isfinite(value) or (single and abs(value) < _NO_DIGITS * abs(self.baseline)):
            return None
        if value < self.least:
            self.least, self.losses = value, arrays.to_numpy(arrays.widen(losses))
        slope = np.zeros(2)
        if solved is not None:
            slopes = slopes * share[:, None] * (self.scale / (abs(value) or 1.0))
            pull = Pullback.of(solved[0], mu, arrays.cast(slopes, K.dtype))
            slope[1] = pull.by_log_mu()
            if D is not None:
                signs = None if self.signs is None else arrays.cast(self.signs, D.dtype)
                slope[0] = pull.along(D, signs) + drift * slope[1]
        return Point(x, mu, value, np.where(self.free, slope, 0.0))

    def descend(self, valley: Valley, gain: float) -> Valley:
        """The bottom of a valley, or of one beside it that is deeper."""
        bottom = self._bottom(valley, gain)
        for _ in range(_LOOKS if self.free[0] and self.m <= _SEEN else 0):
            H = bottom.curvature
            along = np.array([_ASIDE, -_ASIDE * H[0, 1] / H[1, 1]])  # where mu is best
            across = np.array([_ASIDE, -_TRADED])  # a narrow kernel regularises, too
            apart = np.array([_ASIDE, 0.0])  # at the same mu
            moves = [s * move * self.free for move in (along, across, apart) for s in (1, -1)]
            sides = [self.at(bottom.x + move, sloped=False) for move in moves]
            values = [math.inf if side is None else side.value for side in sides]
            if not min(values) < bottom.value - gain * abs(bottom.value):
                break
            x = bottom.x + moves[int(np.argmin(values))]
            bottom = self._bottom(bottom._replace(x=np.clip(x, *self.bounds)), gain)
        return bottom

    def _bottom(self, valley: Valley, gain: float) -> Valley:
        """Quasi-Newton steps until the next one promises less than ``gain``; that one is free.

        Of few rows, whether it keeps its promise is looked at.
        """
        here, H = self.at(valley.x), valley.curvature
        if here is None:
            raise NotServed
        for _ in range(_STEPS):
            step = self._step(here, H)
            if -0.5 * float(here.slope @ step) < gain:
                free = np.clip(here.x + step, *self.bounds)
                there = self.at(free, sloped=False) if self.m <= _SEEN else None
                worse = there is not None and there.value > here.value
                return Valley(here.x if worse else free, here.value, H)
            for _ in range(_HALVINGS):
                there = self.at(here.x + step)
                if there is not None and there.value <= here.value + _RISE * here.size:
                    break
                step = 0.5 * step
            else:
                break
            H = _updated(H, there.x - here.x, there.slope * there.size / here.size - here.slope)
            here = there
        return Valley(here.x, here.value, H)

    def _step(self, here: Point, H: np.ndarray) -> np.ndarray:
        """The Newton step within the bounds, not too long."""
        lower, upper = self.bounds
        held = ((here.x <= lower) & (here.slope > 0)) | ((here.x >= upper) & (here.slope < 0))
        moves = np.flatnonzero(self.free & ~held)
        step = np.zeros(2)
        step[moves] = -np.linalg.solve(H[np.ix_(moves, moves)], here.slope[moves])
        return step * min(1.0, _LONGEST / max(float(np.abs(step).max()), 1e-300))


@dataclass
class Levels:
    """The search of one problem, whose rows are in the order; see the module docstring."""

    problem: Problem
    order: np.ndarray
    kernels: Prefixes
    bounds: np.ndarray
    free: np.ndarray
    start: np.ndarray
    octave: float
    given: float | None
    priced: list[Priced] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    m: int = 0  # rows of the coarse search

    @classmethod
    def of(
        cls, problem: Problem, *, mu: float | None, gamma: float | None, search_gamma: bool
    ) -> Levels:
        """mu and gamma as given, or to be chosen where ``None`` / ``search_gamma``."""
        design, n = problem.design, problem.Y.shape[0]
        kernel, order = design.gram.kernel, order_of(problem)
        problem = replace(problem, Y=_columns_in_order(problem.Y, order))
        middle = gamma or 1.0
        if search_gamma:
            middle = reference_width(design.gram.X, design.weights.frequency, kernel)
        octave = 2 * math.log(width_step(kernel))
        reach = 0.5 * octave * (FARTHEST + 1) if search_gamma else 0.0
        floor = relative_floor(design.weights.total, arrays.eps(problem.Y))
        low, high = math.log(floor), math.log(MU_CEILING)
        if mu is not None:
            low = high = math.log(mu)
        ordered = replace(design.gram.taken(order), kernel=replace(kernel, gamma=middle))
        return cls(
            problem=problem,
            order=order,
            kernels=Prefixes(ordered.first(n if n <= ALL_ROWS else LEVELS[-1], ordered.kernel)),
            bounds=np.array([[-reach, low], [reach, high]]),
            free=np.array([search_gamma, mu is None]),
            start=np.array([0.0, min(max(_FIRST_MU, low), high)]),
            octave=octave,
            given=mu,
        )

    @property
    def n(self) -> int:
        return self.problem.Y.shape[0]

    def level(self, m: int) -> Level:
        """The first m rows, with their weights."""
        part = self.problem.take(self.order[:m])
        return Level(part, self.kernels, self.bounds, self.free, self.given, self.priced)

    @property
    def middle(self) -> float:
        """The gamma that widths are relative to."""
        return float(self.kernels.gram.kernel.gamma)

    @property
    def step(self) -> float:
        """The factor in gamma of half an octave."""
        return math.exp(0.5 * self.octave)

    def at_width(self, gamma: float) -> Valley:
        """A valley to be at a width, wherever in mu."""
        x = np.array([math.log(gamma / self.middle), self.start[1]])
        return Valley(x, math.inf, np.eye(2))

    def gamma(self, valley: Valley) -> float | None:
        return self.kernels.gamma(math.exp(valley.x[0]))

    def mu(self, valley: Valley) -> float:
        """mu where a valley is, on all rows."""
        if self.given is not None:
            return self.given
        design = self.problem.design
        gamma = self.gamma(valley)
        gram = design.gram if gamma is None else design.gram.with_gamma(gamma)
        trace = float(design.weights.v @ gram.diagonal())
        return math.exp(valley.x[1]) * trace_unit(trace, design.weights.total)

    def status(self, valley: Valley) -> Status:
        """How the search over mu has ended."""
        if self.given is not None:
            return Status.GIVEN
        ends = valley.x[1] <= self.bounds[0, 1], valley.x[1] >= self.bounds[1, 1]
        found = {(True, False): Status.AT_LOWER_BOUND, (False, True): Status.AT_UPPER_BOUND}
        return found.get(ends, Status.INTERIOR)

    def edge(self, valley: Valley) -> Status | None:
        """The end of the widths that the search has come to, if it has."""
        if not self.free[0]:
            return None
        ends = valley.x[0] <= self.bounds[0, 0], valley.x[0] >= self.bounds[1, 0]
        return {(True, False): Status.AT_WIDEST, (False, True): Status.AT_NARROWEST}.get(ends)

    def coarse(self) -> list[Valley]:
        """The valleys on the first rows, the deepest first."""
        for m in (*LEVELS, self.n):
            level = self.level(min(m, self.n))
            columns = self._columns(level)
            best = min(column.value for column in columns.values())
            if not math.isfinite(best):
                raise NotServed
            seen = best < level.baseline - _FOUND * abs(level.baseline)
            if seen or level.m >= min(self.n, _BLIND):
                break
        self.m = level.m
        valleys = []
        for j, column in columns.items():
            beside = [columns[i].value for i in (j - 1, j + 1) if i in columns]
            if column.value <= min([best + _DEEP * abs(best), *beside]):
                valleys.append(self._valley(columns, j))
        return sorted(valleys, key=lambda valley: valley.value)

    def _columns(self, level: Level) -> dict[int, Valley]:
        """The best mu at octaves of the width, first the narrower ones.

        Clear rises end the search among the wider ones alone: a wide kernel that follows a trend
        hides that a narrow one follows every row.
        """
        columns = {0: self._column(level, 0, 0)}
        best, beaten = 0, level.baseline - _FOUND * abs(level.baseline)
        for direction in (1, -1) if self.free[0] else ():
            j, rises = 0, 0
            while abs(j) < _OCTAVES or (j == best and abs(j) < FARTHEST // 2):
                near = round((columns[j].x[1] - self.start[1]) / _FACTOR)
                j += direction
                columns[j] = self._column(level, j, near)
                best = min(columns, key=lambda i: columns[i].value)
                least = columns[best].value
                rise = (columns[j].value - least) / (abs(least) or 1.0) if least < beaten else 0.0
                rises = rises + 1 if rise >= RISE else 0
                if direction < 0 and (rises == 2 or rise >= STEEP):
                    break
        return columns

    def _column(self, level: Level, j: int, near: int) -> Valley:
        """The best mu at one width, near the best of ``near`` and some that are far apart."""
        values: dict[int, float] = {}
        foot = self.start + np.array([j * self.octave, 0.0])
        lower, upper = self.bounds[0, 1] - _FACTOR, self.bounds[1, 1] + _FACTOR

        def at(i: int) -> float:
            if i not in values:
                x = foot + np.array([0.0, i * _FACTOR])
                inside = lower < x[1] < upper
                point = level.at(x, sloped=False) if inside else None
                values[i] = math.inf if point is None else point.value
            return values[i]

        best = 0
        if self.free[1]:
            first = best = min((*_PROBED, near), key=lambda i: (at(i), -i))
            while at(best + 1) < at(best):
                best += 1
            while best <= first and at(best - 1) < at(best) - _FLAT * abs(at(best)):
                best -= 1
        at(best)
        beside = sorted(i for i in values if abs(i - best) <= 1 and math.isfinite(values[i]))
        place, value, second = _parabola(beside, [values[i] for i in beside], best)
        curvature = np.clip(second / (_FACTOR**2 * (abs(value) or 1.0)), *_CURVED)
        x = np.clip(foot + np.array([0.0, place * _FACTOR]), *self.bounds)
        valley = Valley(x, value, np.diag([_CURVED[1], curvature]))
        log.info(
            "gamma %.4g: %s %.6g at mu %.4g (%d rows)",
            self.gamma(valley) or math.nan,
            self.problem.criterion.name,
            value,
            self.mu(valley),
            level.m,
        )
        return valley

    def _valley(self, columns: dict[int, Valley], j: int) -> Valley:
        """The valley about column j."""
        near = [i for i in (j - 1, j, j + 1) if i in columns and math.isfinite(columns[i].value)]
        place, value, second = _parabola(near, [columns[i].value for i in near], j)
        log_mu = np.interp(place, near, [columns[i].x[1] for i in near]) - columns[j].x[1]
        move = np.array([(place - j) * self.octave, np.clip(log_mu, -_FACTOR, _FACTOR)])
        curvature = np.array(columns[j].curvature)
        curvature[0, 0] = np.clip(second / (self.octave**2 * (abs(value) or 1.0)), *_CURVED)
        return Valley(columns[j].x + move, value, curvature)

    def refine(self, valleys: list[Valley], most: int | None = None) -> Valley:
        """The best of the valleys on all rows, or, of many, where it is expected there.

        No more than ``most`` rows are looked at, but for those of the coarse search.
        """
        sizes = [m for m in LEVELS if self.m <= m < _SHARE * self.n]
        if self.n <= ALL_ROWS:
            sizes.append(self.n)
        sizes = [m for m in sizes if most is None or m <= max(most, self.m)]
        starts, smaller = valleys, self.m
        before: list[np.ndarray | None] = [None] * len(valleys)
        for m, following in zip(sizes, [*sizes[1:], self.n], strict=True):
            level = self.level(m)
            gain = _LAST_GAINS[m > _SEEN] if m == self.n else _GAIN
            ended = [level.descend(start, gain) for start in starts]
            best = min(ended, key=lambda valley: valley.value)
            log.info("%d rows: %s %.6g", m, self.problem.criterion.name, best.value)
            self.ends.append(End(m, best.x, level.losses))
            deep = best.value + _DEEP * abs(best.value)
            moved = []
            for last, valley in zip(before, ended, strict=True):
                rival = m < _SEVERAL and valley.value <= deep and not _same(valley, best)
                if valley is best or rival:
                    drift = _DRIFT * self.free
                    if last is not None:
                        seen = (valley.x - last) / math.log(m / smaller)
                        drift = 0.5 * (drift + np.clip(seen, -_FASTEST, _FASTEST))
                    x = valley.x + drift * math.log(following / m)
                    moved.append((valley.x, valley._replace(x=np.clip(x, *self.bounds))))
            before, starts = [x for x, _ in moved], [valley for _, valley in moved]
            smaller = m
        return self._least(min(starts, key=lambda valley: valley.value))

    @property
    def trend(self) -> Trend | None:
        """How losses fall with the number of rows, by the last two levels; ``None`` of one."""
        if len(self.ends) < 2:
            return None
        few, many = self.ends[-2:]
        weights = self.level(few.rows).problem.design.weights
        return Trend.between(few, many, arrays.to_numpy(weights.v))

    def width_of(self, rows: int) -> float | None:
        """The gamma found on about so many rows, at most."""
        known = [end for end in self.ends if end.rows <= max(rows, self.ends[0].rows)]
        return self.kernels.gamma(math.exp(known[-1].x[0]))

    def _least(self, valley: Valley) -> Valley:
        """The valley, or the best setting seen on all rows, if that is better."""
        on_all = [one for one in self.priced if one.rows == self.n]
        seen = min(on_all, key=lambda one: one.value, default=None)
        if seen is None or not seen.value < valley.value:
            return valley
        x = np.array([0.0, valley.x[1]])
        if self.free[0]:
            x[0] = math.log(seen.gamma / self.middle)
        if self.free[1]:
            x[1] = math.log(seen.mu / self.mu(valley._replace(x=np.array([x[0], 0.0]))))
        return valley._replace(x=np.clip(x, *self.bounds), value=seen.value)


def _spread(Y: Array) -> float:
    """Root mean square of what is left of the columns of Y (n, k) without their means."""
    xp = arrays.namespace(Y)
    return float(xp.mean((Y - xp.mean(Y, axis=0)) ** 2)) ** 0.5


def _trace(K: Array, weights: Weights) -> float:
    xp = arrays.namespace(K)
    return float(xp.sum(weights.v * xp.linalg.diagonal(K)))


def _norm(K: Array, weights: Weights) -> float:
    """A bound of the largest eigenvalue of s K s, for K of numbers that are not negative."""
    xp, s = arrays.namespace(K), weights.root
    return max(float(xp.max(s * (K @ s))), _trace(K, weights) / K.shape[0])


def _updated(H: np.ndarray, step: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The damped BFGS update of a curvature, kept positive."""
    Hs = H @ step
    least = 0.2 * float(step @ Hs)
    along = float(step @ change)
    if not least > 0:
        return H
    if along < least:
        share = 0.8 * float(step @ Hs) / (float(step @ Hs) - along)
        change = share * change + (1 - share) * Hs
    H = H - np.outer(Hs, Hs) / float(step @ Hs) + np.outer(change, change) / float(step @ change)
    size, axes = np.linalg.eigh(H)
    return (axes * np.clip(size, *_BENT)) @ axes.T


def _parabola(x: Sequence[int], y: Sequence[float], best: int) -> tuple[float, float, float]:
    """Where a parabola is least, its value and second derivative; ``best`` if it is nowhere."""
    if len(x) < 3 or best in (x[0], x[-1]):
        return float(best), y[list(x).index(best)], 0.0
    c, b, a = np.polynomial.polynomial.polyfit(np.asarray(x) - best, y, 2)
    shift = -b / (2 * a) if a > 0 else 0.0
    return best + shift, c + shift * (b + shift * a), 2 * a


def _same(one: Valley, other: Valley) -> bool:
    return bool(np.abs(one.x - other.x).max() < _APART)


def _columns_in_order(Y: Array, order: np.ndarray) -> Array:
    """Targets (n, k) with the columns as they come first among the rows, whatever their names."""
    host = arrays.to_numpy(Y)[order]
    places = np.lexsort(-host[: LEVELS[0]][::-1])
    return arrays.namespace(Y).take(Y, arrays.indices(places, Y), axis=1)


def order_of(problem: Problem) -> np.ndarray:
    """The rows by a draw that depends on their values alone, and not on the rounding of these."""
    gram, Y, weights = problem.design.gram, problem.Y, problem.design.weights
    beside = (part[:, None] for part in (weights.cost, weights.frequency))
    luck = _rough_fingerprints(gram.X)
    ties = gram.distinct().of_rows, _rough_fingerprints(Y, *beside)
    return np.lexsort((*ties, -race(luck, np.ones(len(luck)), 0)))


def _rough_fingerprints(*parts: Array) -> np.ndarray:
    """Fingerprints of rows (n,) from where values are within the range of their column.

    Half of the digits of double precision count. All parts (n, d) make up the columns.
    """
    scales = [_scale(columns) for columns in parts]
    n, d = parts[0].shape[0], sum(columns.shape[1] for columns in parts)
    keys = []
    for rows in arrays.row_blocks(n, d, arrays.preferred_elements(parts[0]) >> 4):
        places = []
        for columns, (unit, low, spread) in zip(parts, scales, strict=True):
            place = arrays.namespace(columns).round(
                (columns[rows, :] / unit - low) / spread * 2.0**_DRAWN_DIGITS
            )
            places.append(place)
        keys.append(fingerprints(arrays.namespace(*places).concat(places, axis=1)))
    return np.concatenate(keys)


def _scale(columns: Array) -> tuple[Array, Array, Array]:
    """The largest size of each column and, in its unit, the lowest value and the range."""
    xp = arrays.namespace(columns)
    low, high = xp.min(columns, axis=0), xp.max(columns, axis=0)
    largest = xp.where(abs(low) > abs(high), abs(low), abs(high))
    unit = xp.where(largest > 0, largest, xp.ones_like(largest))
    low, spread = low / unit, high / unit - low / unit
    return unit, low, xp.where(spread > 0, spread, xp.ones_like(spread))
