"""Ways to a fit of many rows: what time and memory each is predicted to take, and which is chosen.

Every cost that a choice rests on is a method of `Job`, at the measured rates of this machine
(`fisherkit.core.Rates`). The ways, for n rows of d features and k columns of targets:

    all rows    levels of the search, then one factorisation, or conjugate gradients     n^3 / 3
    centres     levels of the search, then two passes of sums over m random centres      3 n m^2

Levels come first either way, on a few thousand rows, and tell what is at stake: a model on m
centres has at least what one of m rows alone has, so that centres cost no more than losses still
fall between m and n rows. Where losses are flat, `ENOUGH` centres do; where they fall, the plan
takes every row if time and memory allow, and otherwise as many centres as they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from fisherkit.core import (
    UNLIMITED,
    Limits,
    Rates,
    expected_seconds,
    factor_held,
    half_held,
    preconditioner_rank,
    sample_size,
)
from fisherkit.stored import stored
from fisherkit.terminal import lasting, sized
from fisherkit.tuning import ALL_ROWS, LEVELS, Trend

ENOUGH = 2000  # centres that suffice where losses are flat
_CENTRES = (
    *(500, 600, 700, 850, 1000, 1200, 1400, 1700, 2000, 2400, 2800, 3400, 4000, 4800, 5600),
    *(6700, 8000, 9500, 11_000, 13_000, 16_000, 20_000),
)
# A laptop, for choices that are to depend on the table alone.
TWO_CORES = Rates(product=2e11, factor=1.2e11, memory=8e9, exponential=4e9)
_DOUBLE = 2.0  # times the seconds of single precision
_EXPONENTIAL = 8.0  # exponentials in single precision that a kernel value takes in double
_COARSE, _LAST_STEPS = 40, 6.0  # models compared on the rows of the first level, and on all rows
_ELEMENTWISE = 64  # bytes of memory for each of m^2 numbers that a model of a level takes
_CALIBRATED = 0.08  # of that, for each column of the codes of classes
_LEAST = 0.5  # seconds of any fit of this kind
_SUMS = 5.7  # n m^2 of two passes, the second of which may be taken twice
_BETWEEN = 12.0  # m^3 of the decomposition between them
_PRICED = 2600.0  # n m of leaving out rows at many values of mu; columns of few are slow products
_DECIDED = 1.4e5  # n k^2 of fits of logits
_ASKED = 3.0  # seconds of the widths that 500 rows compare
_MEMBERS = 4  # mus at each width of a committee, where each takes a factorisation
_LEARNT = 120.0  # factorisations of a family that learns which columns matter
_MEMBERS_OF = 1e5  # n k of Newton steps for all members of a width
_STEPS_UP = 4  # from a number of centres to one that is worth mentioning
_SHARE = 0.25  # of the time, at most, for a level of the search
_WIDTHS = 13  # that a march decomposes at, about
_MARCH = 60.0  # n r^2 that a search over widths by factors of rank r takes
_SAMPLE_SHARE, _BESIDE = 0.25, 10  # of memory, for a sample; numbers of its rows beside features
_LEAST_BYTES = 48  # m^2 of the smallest fit on m centres
_HALVES = 1 << 28  # bytes that the levels of a search hold


@stored("plan of a fit")
@dataclass(frozen=True)
class FitPlan:
    """What a fit does with its rows, in which time and memory.

    Attributes
    ----------
    words : str
        What was chosen, and what it costs in accuracy.
    seconds : float
        How long the fit was predicted to take.
    bytes : float
        How much memory, beside that of X.
    parameters : dict
        Parameters of the estimator that ask for the same fit.
    more : dict
        Parameters that ask for a more accurate one; empty where there is none.
    more_seconds : float
        How long that is predicted to take.
    sentence : str
        All of this in words.
    """

    words: str
    seconds: float = math.nan
    bytes: float = math.nan
    parameters: dict[str, object] = field(default_factory=dict)
    more: dict[str, object] = field(default_factory=dict)
    more_seconds: float = math.nan

    @property
    def sentence(self) -> str:
        return self.said(lambda name, value: f"{name}={value!r}")

    def said(self, ask: Callable[[str, object], str]) -> str:
        """The sentence, with what ``ask`` makes of the name and value of a parameter."""
        if not self.more:
            return f"{self.words}."
        how = " with ".join(ask(*one) for one in self.more.items())
        return f"{self.words}. For more, {how} takes about {lasting(self.more_seconds)}."

    def at(self, gamma: float | None) -> FitPlan:
        """The same with the width that levels have found."""
        if gamma is None:
            return self
        return replace(self, parameters=self.parameters | {"gamma": gamma})


@dataclass(frozen=True)
class Route:
    """One way to a fit of all rows, the search aside; without ``centres`` every row is one."""

    centres: int | None
    seconds: float
    bytes: float

    @property
    def parameters(self) -> dict[str, object]:
        """What asks an estimator for this way."""
        if self.centres is None:
            return {"basis": "full"}
        return {"n_components": self.centres, "basis": "random"}

    def at_least(self, centres: int) -> bool:
        """Whether there are so many centres."""
        return self.centres is None or self.centres >= centres


@dataclass(frozen=True)
class Job:
    """A fit of n rows with d features and k columns of targets, by some threads at these rates.

    ``searched`` says whether width or mu are, with ``levels`` by these; ``whole`` that the rows are
    in memory together, as a fit of all of them needs, which respects the ``limits``.
    """

    n: int
    d: int
    k: int
    rates: Rates
    threads: int
    searched: bool = True
    levels: bool = True
    whole: bool = True
    limits: Limits = UNLIMITED

    @property
    def sample(self) -> int | None:
        """How many rows a fit of all of them leaves out; ``None`` for each of them."""
        return sample_size(self.n, self.k, np.empty(0), self.limits)

    # --- seconds ----------------------------------------------------------------------------------

    def kernel(self, values: float) -> float:
        """Of so many kernel values in double precision."""
        distances = 2 * _DOUBLE * self.d / self.rates.product
        return values * (distances + _EXPONENTIAL / self.rates.exponential)

    def factor(self, n: int) -> float:
        """Of a Cholesky factor in single precision."""
        return n**3 / 3 / self.rates.factor

    def level(self, m: int, steps: float = 4.0) -> float:
        """Of the search on m rows: a factor, its inverse and a gradient for each model."""
        beside = _ELEMENTWISE * m * m / self.rates.memory
        one = self.kernel(m * m) + 3 * self.factor(m) + beside
        return one * (steps * (1 + _CALIBRATED * self.k) + (_COARSE if m == LEVELS[0] else 0.0))

    def search(self, most: int) -> float:
        """Of levels on at most so many rows."""
        if not self.levels:
            return 0.0
        return sum(self.level(m) for m in LEVELS if m <= most and m < 0.6 * self.n)

    def all_rows(self) -> float:
        """Of the fit of all rows, beside the search on some of them."""
        n = self.n
        if not self.levels:
            return _WIDTHS * self.rates.decomposed(n) if self.searched else self.rates.exact(n)
        if n <= ALL_ROWS:
            return _LEAST + self.level(n, _LAST_STEPS) + 3 * _DOUBLE * self.factor(n)
        solved = expected_seconds(n, self.d, self.sample, self.limits, self.rates)
        return self.kernel(n * n / 2) + solved + self.decisions()

    def on_centres(self, m: int) -> float:
        """Of the passes and the decomposition on m centres, beside the search."""
        double = self.rates.product / _DOUBLE
        sums = _SUMS * self.n * m**2 + _BETWEEN * m**3
        values = self.n * m
        left_out = _PRICED * values * (0.5 + 0.5 * self.k)
        return (sums + left_out) / double + 2 * self.kernel(values) + self.decisions()

    def decisions(self) -> float:
        """Of the logits of three and more classes, fitted to left-out scores."""
        return _DECIDED * self.n * self.k**2 / self.rates.product if self.k > 1 else 0.0

    # --- bytes ------------------------------------------------------------------------------------

    def all_bytes(self) -> float:
        """Of the kernel matrix and its factor."""
        n = self.n
        if n <= ALL_ROWS or not self.levels:
            return 24.0 * n * n
        if self.sample is None or factor_held(n, self.limits):
            return 12.0 * n * n + _HALVES
        preconditioner = 20.0 * n * preconditioner_rank(n, self.limits)
        return preconditioner + 4.0 * n * n * half_held(n, self.limits) + _HALVES

    def centre_bytes(self, m: int) -> float:
        """Of the sums of every thread, and of a decomposition."""
        sums = 8.0 * m * (self.threads * (m + self.k + 1) + 6 * m)
        return sums + 16.0 * self.n * (self.k + 2) + _HALVES

    # --- ways -------------------------------------------------------------------------------------

    def routes(self, memory: float) -> list[Route]:
        """The ways that memory allows, the least accurate first; at least one."""
        found = [
            Route(m, self.on_centres(m), self.centre_bytes(m)) for m in _CENTRES if 2 * m < self.n
        ]
        if self.whole:
            found.append(Route(None, self.all_rows(), self.all_bytes()))
        allowed = [route for route in found if route.bytes <= memory]
        if allowed:
            return allowed
        few = max(1, min(_CENTRES[0], self.n // 2, int((memory / _LEAST_BYTES) ** 0.5)))
        return [Route(few, self.on_centres(few), self.centre_bytes(few))]


@dataclass(frozen=True)
class Outlook:
    """A choice that is open until levels of the search have been seen.

    ``seconds`` and ``memory`` bound the fit. A machine of nominal rates is not ``timed``, so that
    the choice follows from the table alone.
    """

    job: Job
    seconds: float
    memory: float
    timed: bool = True

    def of_targets(self, k: int) -> Outlook:
        """For so many columns of targets."""
        return replace(self, job=replace(self.job, k=k))

    @property
    def decided(self) -> bool:
        """Whether all rows are looked at in any case, and time and memory allow it."""
        job = self.job
        searched = job.n > ALL_ROWS and job.levels
        if searched or not job.whole or job.all_bytes() > self.memory:
            return False
        return job.search(job.n) + job.all_rows() <= self.seconds

    def without_levels(self, *, searched: bool) -> Outlook:
        """Where levels do not serve: decompositions, or given width and mu."""
        return replace(self, job=replace(self.job, levels=False, searched=searched))

    def low_rank(self, rank: int) -> FitPlan:
        """Every row through a factor of the kernel matrix, which is cheap and exact."""
        n = self.job.n
        words = f"All {n:,} rows are centres, through a factor of rank {rank:,} that loses nothing"
        return FitPlan(words, self.job.on_centres(rank), 40.0 * n * rank)

    @property
    def most_rows(self) -> int:
        """Rows of the largest level that the time allows."""
        allowed = [m for m in LEVELS if self.job.level(m) <= _SHARE * self.seconds]
        largest = max(allowed, default=LEVELS[0])
        every = self.job.whole and largest == LEVELS[-1]
        if every and self.job.search(largest) + self.job.all_rows() <= self.seconds:
            return self.job.n
        return largest

    def sampled_rows(self) -> int:
        """Rows of a sample that levels are to look at, where memory does not hold all rows.

        Levels end below the number of rows, and memory bounds it, down to none.
        """
        job = self.job
        by_memory = int(_SAMPLE_SHARE * self.memory / (8 * (job.d + job.k + _BESIDE)))
        by_levels = int((self.memory / _LEAST_BYTES) ** 0.5)
        size = min(2 * self.most_rows, job.n, by_memory, 2 * by_levels)
        return size if size >= LEVELS[0] else 0

    @property
    def most_rank(self) -> int:
        """The rank up to which factors of all rows are worth looking for."""
        double = self.job.rates.product / _DOUBLE
        return int(math.sqrt(self.seconds * double / (_MARCH * self.job.n)))

    def choose(self, trend: Trend | None, spent: float) -> tuple[Route, FitPlan]:
        """The way after levels that have taken so many seconds, and what to say of it."""
        if not self.timed:
            spent = self.job.search(self.most_rows)
        routes = self.job.routes(self.memory)
        left = self.seconds - spent
        allowed = [route for route in routes if route.seconds <= left]
        allowed = allowed or [min(routes, key=lambda route: route.seconds)]
        chosen = allowed[-1]
        flat = trend is not None and not trend.falling
        if flat and chosen.at_least(ENOUGH):
            enough = [route for route in allowed if route.at_least(ENOUGH)]
            chosen = min(enough, key=lambda route: route.seconds)
        words = self._words(chosen, trend, spent)
        more = routes[min(routes.index(chosen) + _STEPS_UP, len(routes) - 1)]
        if flat and chosen.at_least(ENOUGH):
            more = routes[-1]
        return chosen, FitPlan(
            words=words,
            seconds=spent + chosen.seconds,
            bytes=chosen.bytes,
            parameters=chosen.parameters,
            more={} if more is chosen else more.parameters,
            more_seconds=spent + more.seconds,
        )

    def _words(self, chosen: Route, trend: Trend | None, spent: float) -> str:
        """What is done, and at what cost."""
        n, took = self.job.n, spent + chosen.seconds
        cost = f"about {lasting(took)} and {sized(chosen.bytes)}"
        if took > self.seconds:
            cost += f", more than the {lasting(self.seconds)} given, and no fit is quicker"
        if chosen.centres is None:
            return f"All {n:,} rows are centres: {cost}"
        words = f"{chosen.centres:,} of {n:,} rows are centres: {cost}"
        if trend is not None:
            words += f". Left-out {trend.words(n / chosen.centres)}"
        return words

    def every_row(self) -> FitPlan:
        """The plan of a fit of all rows that needs no search to be decided on."""
        seconds = self.job.search(self.job.n) + self.job.all_rows()
        words = self._words(Route(None, seconds, self.job.all_bytes()), None, 0.0)
        return FitPlan(words, seconds, self.job.all_bytes(), {"basis": "full"})


@dataclass(frozen=True)
class CommitteeJob(Job):
    """A fit of so many ``widths``, and of families that learn what matters on all rows."""

    widths: int = 10
    learning: int = 0

    def all_rows(self) -> float:
        """Of some members at each width, one factorisation each, and of what learns."""
        n = self.n
        each = self.kernel(n * n) + _MEMBERS * 3 * _DOUBLE * self.factor(n) + self.members()
        return _ASKED + self.widths * each + self.learning * _LEARNT * self.factor(n)

    def on_centres(self, m: int) -> float:
        return _ASKED + self.widths * (super().on_centres(m) + self.members())

    def members(self) -> float:
        """Of the calibration of all members of a width."""
        return _MEMBERS_OF * self.n * self.k / self.rates.product

    def decisions(self) -> float:
        return super().decisions() / self.widths

    def all_bytes(self) -> float:
        return 32.0 * self.n**2 + _HALVES
