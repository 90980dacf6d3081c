"""Tuned fits on row blocks: the same two passes for an array, a memory-mapped file or a cluster.

`fit_rows` runs the passes of `fisherkit.rows.moments` and chooses mu as `fisherkit.tuning.select`
does in memory. Newton steps need the criterion at values of mu that are not known before pass 2. A
*pilot* of some rows, priced under the form of all rows, tells where the optimum will be and how
uncertain that is; pass 2 then prices Chebyshev nodes in that window beside the grid. The criterion
is analytic in log mu within a strip of half-width pi, so the nodes determine it, and each row's
residual, to rounding. A window that turns out to miss the optimum costs one more pass. Losses of
the margin between three and more classes are not analytic: the last steps then sweep for exact
derivatives, one pass each.

A loss whose calibration needs all rows at once, the log-loss of three and more classes, has no sums
over blocks. It is priced on the rows that were drawn, left out exactly of the form of all rows: on
every row where that many were drawn, on a random sample of them otherwise.

A flat criterion is a hard question to a few pilot rows, but the mean squared residual of all rows
is known from pass 1. For ``press`` only what leverage adds to it is asked of them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from fisherkit.core import Array, Bias, arrays, relative_floor
from fisherkit.rows.moments import Centres, FirstPass, Form, left_out
from fisherkit.rows.refined import refined
from fisherkit.rows.sources import Rows
from fisherkit.rows.sums import Block, Numbers
from fisherkit.tuning import (
    CRITERIA,
    GRID,
    PATH_DTYPE,
    Criterion,
    GridSearch,
    HeldOut,
    Loss,
    MuSearch,
    Selection,
    Status,
    log,
    newton,
    settled,
    vertex,
)

_PILOT_ROWS = 16384  # at most, whose left-out prices tell where the best mu will be
_GROUPS = 16  # of pilot rows, whose spread tells how uncertain the optimum is
_ERRORS = 4.0  # standard errors that the window reaches to either side
_WIDTHS = (0.35, 1.4)  # least and largest half-width of the window, in log mu
_DIGITS = 13  # of the interpolation in the window
_NODES = (10, 32)
_OCTAVE = math.log(2)
_CLOSE = 0.2  # half-width of the window of a second look
_BLUR = 1e-8  # of log mu: beyond it, the optimum is looked at again
_DOUBT = 5e-9  # relative error beyond which the moments are taken again
_AT_ONCE = 1 << 22  # residuals of a sample at several mus
_NEIGHBOURS = 2  # grid points to either side that are kept where there is no derivative


@dataclass
class Tally:
    """Sums of the criterion at every mu, and the residuals kept: (index, e and B) of each block."""

    sums: np.ndarray
    weight: float
    kept: list[tuple[np.ndarray, Array]]


def second_pass_numbers(m: int, d: int, k: int, p: int | None = None) -> Numbers:
    """The numbers that pass 2 has alive, on m features at p mus or at a grid and a window."""
    p = len(GRID) + _NODES[1] if p is None else p
    return Numbers(2 * (m + 1) + 2 * d + (4 * k + 2) * p, (m + 1) ** 2)


@dataclass(frozen=True)
class SecondPass:
    """Pass 2: the criterion at every mu; residuals at those from ``keep_from`` on are kept."""

    on_host: ClassVar[bool] = False
    title: ClassVar[str] = "pass 2"

    form: Form
    rule: str
    balanced: bool
    mus: Sequence[float]
    keep_from: int

    @property
    def numbers(self) -> Numbers:
        return second_pass_numbers(*self.form.shape, len(self.mus))

    @property
    def loss(self) -> Loss:
        return CRITERIA[self.rule].of_columns(self.form.xi.shape[1])

    def begin(self) -> Tally:
        return Tally(np.zeros(len(self.mus)), 0.0, [])

    def add(self, tally: Tally, block: Block) -> None:
        e, B = self.form.residuals(self.form.coordinates(block.X), block, self.mus)
        if self.rule:
            weight = block.weights.mass
            losses = self.criterion(block).of_residuals(left_out(e, B, block.weights))
            tally.sums += weight * losses
            tally.weight += weight
        if self.keep_from < len(self.mus):
            xp = arrays.namespace(e)
            kept = slice(self.keep_from, len(self.mus))
            both = xp.concat([e[:, :, kept], B[:, None, kept]], axis=1)
            tally.kept.append((block.index, both))

    def merge(self, a: Tally, b: Tally) -> Tally:
        return Tally(a.sums + b.sums, a.weight + b.weight, a.kept + b.kept)

    def criterion(self, block: Block, weight: Array | None = None) -> Criterion:
        """The criterion on these rows, left out one by one of the fit to all."""
        xp = arrays.namespace(block.Y)
        mean = block.weights.fold_mean_within(block.Y, self.form.targets, self.form.mass)
        threshold = mean if self.balanced else xp.zeros_like(mean)
        weight = block.weights.v if weight is None else weight
        return Criterion(self.rule, HeldOut(block.Y, mean, threshold, weight))


@dataclass(frozen=True)
class SlopePass(SecondPass):
    """The criterion at one mu, and its first two derivatives in log mu."""

    title: ClassVar[str] = "Newton step"

    @property
    def numbers(self) -> Numbers:
        return second_pass_numbers(*self.form.shape, 6)

    def begin(self) -> Tally:
        return Tally(np.zeros(3), 0.0, [])

    def add(self, tally: Tally, block: Block) -> None:
        q = self.form.coordinates(block.X)
        left_out = self.form.left_out_derivatives(q, block, self.mus[0])
        weight = block.weights.mass
        tally.sums += weight * self.criterion(block).of_derivatives(*left_out)
        tally.weight += weight


@dataclass
class _Priced:
    """What a search over mu knows of a form whose rows are priced by ``step``."""

    step: SecondPass
    floor: float

    @property
    def form(self) -> Form:
        return self.step.form

    @property
    def unit(self) -> float:
        return self.form.unit

    @property
    def negligible(self) -> float:
        return 1e-13 * self.form.spread / self.form.mass if self.step.loss.squared else 0.0


class _Guess(NamedTuple):
    """Which mus pass 2 is to price, the best of them so far, and the window that it will be in.

    There is no window for a mu that is given.
    """

    mus: np.ndarray
    best: int
    window: tuple[float, float] | None

    @property
    def mu(self) -> float:
        return float(self.mus[self.best])

    @classmethod
    def of(cls, step: SecondPass, floor: float, pilot: Block, mu: float | None) -> _Guess:
        """By the pilot rows, unless mu is given."""
        if mu is not None:
            return cls(np.array([mu]), 0, None)
        scout = _Pilot.of(step, floor, pilot)
        search = GridSearch(scout)
        return cls(search.mus, search.best, scout.window(search))


@dataclass
class _Pilot(_Priced):
    """The prices of some rows under the form of all, group by group; for `GridSearch`."""

    blocks: list[tuple[Array, Block]]
    groups: dict[float, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, step: SecondPass, floor: float, pilot: Block) -> _Pilot:
        form = step.form
        n, few = pilot.Y.shape[0], arrays.preferred_elements(form.lam) // form.rank
        n = min(n, max(_GROUPS, min(_PILOT_ROWS, few)))
        blocks = []
        for part in arrays.row_blocks(n, 1, -(-n // _GROUPS)):
            block = pilot.rows(part)
            blocks.append((form.coordinates(block.X), block))
        return cls(step, floor, blocks)

    def values(self, mus: Sequence[float]) -> np.ndarray:
        parts = np.stack([self._losses(q, block, mus) for q, block in self.blocks])
        if self.step.loss.squared:  # the mean of what _losses takes off, known for all rows
            shared = np.asarray(arrays.to_numpy(self.form.mean_complements(mus)))
            parts += self.form.training_errors(mus) / shared**2
        self.groups.update(zip(mus, parts.T, strict=True))
        return parts.mean(axis=0)

    def _losses(self, q: Array, block: Block, mus: Sequence[float]) -> np.ndarray:
        """Mean loss of some rows at each mu; for press, less that with every B_ii at the mean."""
        e, B = self.form.residuals(q + 0.0, block, mus)
        alike = arrays.namespace(q).ones_like(block.weights.v)  # rows were drawn by weight
        criterion = self.step.criterion(block, alike)
        losses = criterion.of_residuals(left_out(e, B, block.weights))
        if self.step.loss.squared:
            losses -= criterion.of_residuals(e / self.form.mean_complements(mus))
        return losses

    def window(self, search: GridSearch) -> tuple[float, float]:
        """Where the optimum of all rows will be, in log mu."""
        j = search.best
        t = np.log(search.mus)
        if j == 0 or j == len(t) - 1:
            return (t[0], t[1]) if j == 0 else (t[-2], t[-1])
        around = np.stack([self.groups[mu] for mu in search.mus[j - 1 : j + 2]])
        step = 0.5 * (t[j + 1] - t[j - 1])
        below, at, above = search.values[j - 1 : j + 2]
        slopes = (around[2] - around[0]) / (2 * step)
        curvature = (above - 2 * at + below) / step**2
        error = float(np.std(slopes)) / math.sqrt(len(slopes)) / max(curvature, 1e-300)
        half = min(max(_ERRORS * error, _WIDTHS[0]), _WIDTHS[1])
        middle = vertex(t[j - 1 : j + 2], search.values[j - 1 : j + 2], 1)
        lower, upper = max(middle - half, t[0]), min(middle + half, t[-1])
        return lower, upper


@dataclass
class _Sampled(_Priced):
    """The prices of some rows together; for `MuSearch`, in place of sums over all rows.

    ``weight`` (n,) is how much each of them counts.
    """

    blocks: list[tuple[Array, Block]]
    held_out: HeldOut

    @classmethod
    def of(cls, step: SecondPass, floor: float, some: Block, *, every: bool) -> _Sampled:
        """``every`` says that these are all rows; otherwise they were drawn by weight."""
        xp, form, n = arrays.namespace(some.Y), step.form, some.Y.shape[0]
        if not every:
            some = some.rows(slice(0, min(n, _PILOT_ROWS)))
        weight = some.weights.v if every else xp.ones_like(some.weights.v)
        blocks = []
        for part in arrays.row_blocks(some.Y.shape[0], form.rank):
            block = some.rows(part)
            blocks.append((form.coordinates(block.X), block))
        return cls(step, floor, blocks, step.criterion(some, weight).held_out)

    @property
    def smooth(self) -> bool:
        return self.step.loss.smooth

    def values(self, mus: Sequence[float]) -> np.ndarray:
        """A few mus at a time: their residuals are in memory together."""
        n, k = self.held_out.Y.shape
        groups = arrays.row_blocks(len(mus), n * k, _AT_ONCE)
        return np.concatenate([self._values(mus[group]) for group in groups])

    def _values(self, mus: Sequence[float]) -> np.ndarray:
        parts = []
        for q, block in self.blocks:
            e, B = self.form.residuals(q + 0.0, block, mus)
            parts.append(left_out(e, B, block.weights))
        R = arrays.namespace(parts[0]).concat(parts, axis=0)
        return self.step.loss.values(R, self.held_out)

    def derivatives(self, log_mu: float) -> tuple[float, float, float]:
        parts = [
            self.form.left_out_derivatives(q + 0.0, block, math.exp(log_mu))
            for q, block in self.blocks
        ]
        xp = arrays.namespace(parts[0][0])
        R, R1, R2 = (xp.concat(list(pieces), axis=0) for pieces in zip(*parts, strict=True))
        value, first, second = self.step.loss.derivatives(R, R1, R2, self.held_out).tolist()
        return value, first, second


@dataclass
class _Prices(_Priced):
    """What `MuSearch` asks, answered from sweeps over all rows: one, unless the pilot misled."""

    rows: Rows
    kept_bytes: float
    known: dict[float, float] = field(default_factory=dict)
    window: tuple[float, float] = (math.inf, -math.inf)
    series: list[np.ndarray] = field(default_factory=list)
    nodes: np.ndarray = field(default_factory=lambda: np.empty(0))
    parts: list[tuple[np.ndarray, Array]] = field(default_factory=list)

    def prepare(self, grid: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Sweep: prices on the grid and at the nodes; residuals at the nodes are kept if few."""
        grid = grid[~np.isin(grid, nodes)]
        mus = np.concatenate([grid, nodes])
        keep = len(nodes) if self.affordable(len(nodes)) else 0
        self.parts = []
        tally = self.rows.sweep(replace(self.step, mus=tuple(mus), keep_from=len(mus) - keep))
        values = tally.sums / tally.weight
        self.known.update(zip(mus.tolist(), values.tolist(), strict=True))
        self.nodes, self.parts = nodes, tally.kept
        return values[len(grid) :]

    @property
    def smooth(self) -> bool:
        return self.step.loss.smooth

    def searched(self, guess: _Guess) -> MuSearch:
        """Pass 2, and the search over what it has priced."""
        mus, j, window = guess
        if window is not None and self.smooth:
            self.look_at(window, mus)
        else:
            nodes = mus
            if not self.affordable(len(nodes)):
                nodes = mus[max(j - _NEIGHBOURS, 0) : j + _NEIGHBOURS + 1]
            self.prepare(mus, nodes)
        return MuSearch(self, given=guess.mu if window is None else None)

    def around(self, log_mu: float, half: float = _OCTAVE) -> tuple[float, float]:
        """A window about this value, as far as mu may go."""
        return max(log_mu - half, math.log(self.floor)), log_mu + half

    def affordable(self, count: int) -> bool:
        """Whether the residuals of all rows can be kept at so many nodes."""
        return 8 * self.form.rows * (self.form.xi.shape[1] + 1) * count <= self.kept_bytes

    def look_at(self, window: tuple[float, float], grid: np.ndarray) -> None:
        """Sweep: prices on the grid, and the criterion as a function of log mu in the window."""
        half = 0.5 * (window[1] - window[0])
        rate = math.pi / half + math.hypot(1, math.pi / half)
        count = math.ceil(_DIGITS * math.log(10) / math.log(rate))
        count = min(max(count, _NODES[0]), _NODES[1])
        x = _chebyshev_nodes(count)
        values = self.prepare(grid, np.exp(window[0] + half * (x + 1)))
        lowest = values.min()
        series = chebyshev.chebfit(x, values - lowest, count - 1)
        slope = chebyshev.chebder(series)
        self.series = [series, slope, chebyshev.chebder(slope)]
        self.series[0][0] += lowest
        self.window = window

    def values(self, mus: Sequence[float]) -> np.ndarray:
        missing = np.array([mu for mu in mus if mu not in self.known])
        if len(missing):
            self._again()
            self.prepare(np.empty(0), missing)
            self.window = (math.inf, -math.inf)
        return np.array([self.known[mu] for mu in mus])

    def derivatives(self, log_mu: float) -> tuple[float, float, float]:
        if not self.window[0] <= log_mu <= self.window[1]:
            self._again()
            self.look_at(self.around(log_mu), np.empty(0))
        half = 0.5 * (self.window[1] - self.window[0])
        x = (log_mu - self.window[0]) / half - 1
        value, first, second = (float(chebyshev.chebval(x, c)) for c in self.series)
        return value, first / half, second / half**2

    def exact_derivatives(self, log_mu: float) -> tuple[float, float, float]:
        """`derivatives` by a sweep over all rows."""
        step = SlopePass(self.form, self.step.rule, self.step.balanced, (math.exp(log_mu),), 1)
        tally = self.rows.sweep(step)
        value, first, second = (tally.sums / tally.weight).tolist()
        return value, first, second

    def blur(self, log_mu: float) -> float:
        """How far the interpolation may have moved the optimum, from the decay of its series."""
        if not self.window[0] <= log_mu <= self.window[1]:
            return 0.0
        half = 0.5 * (self.window[1] - self.window[0])
        tail = float(np.max(np.abs(self.series[1][-2:])))
        return tail / half / max(self.derivatives(log_mu)[2], sys.float_info.min)

    def kept(self, mu: float) -> Kept | None:
        """Residuals at this mu, from those at the nodes; ``None`` if there are none."""
        if not self.parts:
            return None
        same = self.nodes == mu
        if same.any():
            return Kept(self.parts, same.astype(float))
        if not self.window[0] <= math.log(mu) <= self.window[1]:
            return None
        half = 0.5 * (self.window[1] - self.window[0])
        x = (math.log(mu) - self.window[0]) / half - 1
        nodes = _chebyshev_nodes(len(self.nodes))
        degree = len(nodes) - 1
        # The weights that take values at the nodes to the value at x.
        return Kept(
            self.parts,
            np.linalg.solve(
                chebyshev.chebvander(nodes, degree).T, chebyshev.chebvander([x], degree)[0]
            ),
        )

    def _again(self) -> None:
        if self.known:
            log.info("pass 2 again: the pilot rows misjudged where the best mu is")


def _chebyshev_nodes(count: int) -> np.ndarray:
    return np.asarray(chebyshev.chebpts1(count))


@dataclass(frozen=True)
class Kept:
    """Residuals of every row at some values of mu, in blocks, and how to get to another mu."""

    parts: list[tuple[np.ndarray, Array]]
    weights: np.ndarray

    def residuals(self) -> tuple[np.ndarray, Array, Array]:
        """Places (n,), e (n, k) and B_ii (n,) at the mu wanted, in the order of the data."""
        xp = arrays.namespace(self.parts[0][1])
        at = [part @ arrays.like(self.weights, part) for _, part in self.parts]
        index = np.concatenate([index for index, _ in self.parts])
        order = np.argsort(index, kind="stable")
        both = xp.concat(at, axis=0)
        both = xp.take(both, arrays.indices(order, both), axis=0)
        return index[order], both[:, :-1], both[:, -1]


@dataclass(frozen=True)
class Fitted:
    """A tuned model on centres. ``kept`` is ``None`` where residuals have to be swept for."""

    form: Form
    selection: Selection
    coef: Array
    intercept: Array
    kept: Kept | None

    def left_out_pass(self) -> SecondPass:
        """The pass that finds the residuals at the chosen mu, and nothing else."""
        return SecondPass(self.form, "", False, (self.selection.mu,), 0)


def fit_rows(
    rows: Rows,
    centres: Centres,
    pilot: Block,
    *,
    bias: Bias,
    rule: str,
    balanced: bool,
    mu: float | None,
    keep: float,
    reason: str,
    every: bool = False,
) -> Fitted:
    """Two passes over the rows and the mu that the criterion ``rule`` prefers (unless given).

    ``pilot`` are some rows at random, or ``every`` one; residuals are kept if they take no more
    than ``keep`` bytes.
    Cost: 3 n m^2 flops and 2 n m kernel values; twice that where moments are `refined`.
    """
    form, relative = form_of_rows(rows, centres, pilot, bias)
    log.info("pass 1: %d rows, %d centres, rank %d", form.rows, centres.size, form.rank)
    step, floor = SecondPass(form, rule, balanced, (), 0), relative * form.unit
    if not step.loss.by_row:
        return _fit_sampled(rows, centres, step, floor, pilot, mu, reason, every=every)
    prices, guess = _Prices(step, floor, rows, keep), _Guess.of(step, floor, pilot, mu)
    trusted = form.doubt(guess.mu) <= _DOUBT
    if trusted:
        search = prices.searched(guess)
        if mu is None:
            near = prices.around(math.log(search.best_mu))
            guess = _Guess(search.mus, search.best, near)
    doubt = form.doubt(guess.mu)
    if doubt > _DOUBT:  # so say the pilot rows, or all rows where these misjudged
        log.info(
            "pass 1 again: near mu=%.1e the rounding error of its sums is %.0e", guess.mu, doubt
        )
        form = refined(rows, form, least=min(floor, guess.mu))
        step = replace(step, form=form)
        prices = _Prices(step, floor, rows, keep)
        search = prices.searched(guess if trusted else _Guess.of(step, floor, pilot, mu))
    chosen, value, status = search.refine()
    if status is Status.INTERIOR and step.loss.of_margins and rows.k > 1:
        log.info("more passes: the criterion has kinks, which interpolation does not resolve")
        t = math.log(chosen)
        t, value = newton(prices.exact_derivatives, t, *prices.around(t))
        chosen = math.exp(t)
    elif status is Status.INTERIOR and prices.blur(math.log(chosen)) > _BLUR:
        log.info("pass 2 again: the criterion is too flat to be interpolated in a wide window")
        prices.look_at(prices.around(math.log(chosen), _CLOSE), np.empty(0))
        chosen, value, status = MuSearch(prices, given=mu).refine()
    selection = _selection(step, centres, prices.known, (chosen, value), status, reason)
    return Fitted(form, selection, *form.coefficients(chosen), prices.kept(chosen))


def _fit_sampled(
    rows: Rows,
    centres: Centres,
    step: SecondPass,
    floor: float,
    some: Block,
    mu: float | None,
    reason: str,
    *,
    every: bool,
) -> Fitted:
    """The mu that a loss of all rows together prefers on some of them."""
    search = MuSearch(_Sampled.of(step, floor, some, every=every), given=mu)
    if step.form.doubt(search.best_mu) > _DOUBT:
        log.info(
            "pass 1 again: near mu=%.1e its sums are dominated by rounding errors", search.best_mu
        )
        step = replace(step, form=refined(rows, step.form, least=min(floor, search.best_mu)))
        search = MuSearch(_Sampled.of(step, floor, some, every=every), given=mu)
    chosen, value, status = search.refine()
    known = dict(zip(search.mus.tolist(), search.values.tolist(), strict=True))
    status = settled(status, step.loss)
    selection = _selection(step, centres, known, (chosen, value), status, reason)
    return Fitted(step.form, selection, *step.form.coefficients(chosen), None)


def _selection(
    step: SecondPass,
    centres: Centres,
    known: dict[float, float],
    chosen: tuple[float, float],
    status: Status,
    reason: str,
) -> Selection:
    """The record of a search: prices by mu, and what was chosen at which price."""
    form, gamma = step.form, centres.kernel.gamma
    mu, value = chosen
    width = np.nan if gamma is None else gamma
    path = [(form.rows, width, *price) for price in (*sorted(known.items()), chosen)]
    return Selection(
        *(step.rule, value, mu, gamma, status, form.rank, "streamed", 0.0, form.unit),
        path=np.array(path, dtype=PATH_DTYPE),
        reason=reason,
    )


def form_of_rows(rows: Rows, centres: Centres, sample: Block, bias: Bias) -> tuple[Form, float]:
    """Pass 1, and the least mu relative to tr(G)/n; ``some`` rows tell where features lie."""
    first = FirstPass.about(centres, sample.X, sample.Y.shape[1], bias)
    sums = rows.sweep(first)
    relative = relative_floor(sums.total, arrays.eps(centres.X))
    return Form.of(first, sums, bias, smallest=relative), relative
