"""Whether more rows still help: losses of the same rows by models of some of the rows, and of more.

A kernel model on m centres of n rows has at least what one of m rows alone has. So what centres
can cost is bounded by what losses still fall between m and n rows, and levels of the search tell it
before any fit of all rows: the rows of one level are among those of the next, and losses of the
same rows, left out one by one, are compared. Pairs have little of the noise of single losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

FALLING = 0.08  # relative gain of twice the rows beyond which losses are still falling


class End(NamedTuple):
    """Where the search has come to on the first ``rows``: x, and the loss of each row there."""

    rows: int
    x: np.ndarray
    losses: np.ndarray


@dataclass(frozen=True)
class Trend:
    """How much lower the losses of the same rows are with twice the rows to learn from.

    The ``gain`` is relative, with its standard ``error``, and was seen from a part of the ``rows``
    to all of them.
    """

    rows: int
    gain: float
    error: float

    @classmethod
    def between(cls, few: End, many: End, weight: np.ndarray) -> Trend:
        """From two levels; ``weight`` (n,) is that of the rows of the smaller one."""
        gain = few.losses - many.losses[: few.rows]
        total, scale = float(weight @ gain), float(weight @ few.losses) or 1.0
        noise = float(np.sum((weight * (gain - total / weight.sum())) ** 2)) ** 0.5
        unit = abs(scale) * math.log2(many.rows / few.rows)
        return cls(many.rows, total / unit, noise / unit)

    @property
    def falling(self) -> bool:
        """Whether losses still fall; elsewhere a kernel on many more rows gains little."""
        return self.gain - self.error > FALLING

    def words(self, more: float) -> str:
        """What losses do, and what so many times the centres could gain at most."""
        change = f"{100 * abs(self.gain):.2g} % {'lower' if self.gain >= 0 else 'higher'}"
        how = "still fall" if self.falling else "are nearly flat"
        found = f"losses {how} ({change} with twice the rows, at {self.rows:,})"
        most = 1 - (1 - min(max(self.gain, 0.0), 0.99)) ** math.log2(max(more, 1.0))
        return f"{found}: every row as a centre could lower them by {100 * most:.2g} % at most"
