"""Row blocks: any container of rows, swept by one or several threads within a memory budget.

A *pass* visits every block once and sums something up; `Rows.sweep` runs it. `LocalRows` serves
what can be sliced on this machine (arrays of any namespace, memory-mapped files, sparse matrices,
data frames); `fisherkit.rows.dask_rows` does the same on a cluster. The survey is the first pass:
it checks the rows, measures them, and draws a sample, reading X only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from fisherkit.core import LARGEST, Array, Meter, Weights, arrays, blas_threads, fingerprints, race
from fisherkit.interfaces import Container, Frame
from fisherkit.rows.sums import Block, Numbers

State = TypeVar("State")

LEAST_ROWS = 16  # of a block: a budget that does not hold them is refused
_KEEP_SHARE = 0.25  # of the budget, for the residuals of all rows at some values of mu
_HOST_WORKERS = 4  # of a survey: their samples have to be merged
_SPARE = 1000  # rows more in the race than drawn, so that copies of a row find each other


class BudgetError(ValueError):
    """A ``max_memory`` that does not hold one block."""


class Pass(Protocol[State]):
    """What is summed up in one sweep over the rows. Picklable, so that it can travel.

    ``on_host`` says that it runs in NumPy whatever X is; ``title`` names the pass to users.
    """

    on_host: ClassVar[bool]

    @property
    def title(self) -> str: ...

    @property
    def numbers(self) -> Numbers: ...

    def begin(self) -> State: ...

    def add(self, state: State, block: Block) -> None: ...

    def merge(self, a: State, b: State) -> State: ...


@dataclass(frozen=True)
class Budget:
    """How many bytes the passes may hold at a time, beside the data and what lasts."""

    bytes: int

    def block_rows(self, step: Pass[State], workers: int, reference: Array) -> int:
        """Rows of a block that ``workers`` can have in hand at a time; 0 where none fit.

        No more than suit the pass where ``reference`` lives; products want fewer than the host.
        """
        numbers = step.numbers
        rows = max(self.bytes // (8 * workers) - numbers.state, 0) // numbers.row
        if rows < LEAST_ROWS:
            return 0
        if step.on_host:
            return min(rows, max(1, arrays.preferred_elements(np.empty(0)) // numbers.row))
        return min(rows, arrays.preferred_rows(reference, numbers.row))

    def require(self, numbers: Numbers) -> None:
        """Refuse a budget that does not hold a block of so many numbers."""
        least = 8 * (numbers.state + LEAST_ROWS * numbers.row)
        if least > self.bytes:
            raise BudgetError(
                f"max_memory leaves {self.bytes} bytes, which is smaller than one block: "
                f"{LEAST_ROWS} rows and the sums over them take {least} bytes. Raise max_memory, "
                "or lower n_components."
            )


class Rows(Protocol):
    """Rows with their targets and weights, wherever they are.

    ``reference`` is an array of the namespace, device and dtype of the computation, ``d`` the
    number of features and ``k`` that of targets; residuals of all rows may take ``keep_bytes``.
    """

    @property
    def budget(self) -> Budget: ...

    @property
    def reference(self) -> Array: ...

    @property
    def d(self) -> int: ...

    @property
    def k(self) -> int: ...

    @property
    def keep_bytes(self) -> float: ...

    def sweep(self, step: Pass[State]) -> State: ...

    def locate(self, index: np.ndarray) -> np.ndarray: ...

    @property
    def describe(self) -> Callable[[int], str]: ...


@dataclass(frozen=True)
class LocalRows:
    """Rows of one container on this machine.

    ``X`` is anything that `arrays.read` understands; ``Y`` (n, k), ``frequency`` and ``cost`` (n,)
    are arrays of the namespace of the computation. Rows of weight 0 are skipped.
    """

    X: Container
    Y: Array
    frequency: Array
    cost: Array
    budget: Budget

    @property
    def n(self) -> int:
        return self.Y.shape[0]

    @property
    def d(self) -> int:
        return self.X.shape[1]

    @property
    def k(self) -> int:
        return self.Y.shape[1]

    @property
    def reference(self) -> Array:
        return self.Y[:0, :]

    @property
    def keep_bytes(self) -> float:
        return _KEEP_SHARE * self.budget.bytes

    def locate(self, index: np.ndarray) -> np.ndarray:
        """Places in the data of rows that passes have met."""
        return index

    @property
    def describe(self) -> Callable[[int], str]:
        return "row {}".format

    def block(self, rows: slice) -> Block:
        """The rows of positive weight among these."""
        X, Y = arrays.beside(arrays.read(self.X, rows), self.Y), self.Y[rows, :]
        frequency, cost = self.frequency[rows], self.cost[rows]
        index = np.arange(rows.start, rows.stop)
        positive = arrays.to_numpy(frequency) > 0
        if not positive.all():
            index = index[positive]
            kept = arrays.indices(np.flatnonzero(positive), Y)
            take = arrays.namespace(Y).take
            X, Y = take(X, kept, axis=0), take(Y, kept, axis=0)
            frequency, cost = take(frequency, kept, axis=0), take(cost, kept, axis=0)
        return Block(X, Y, Weights(frequency, cost), index)

    def sample_of(self, index: np.ndarray) -> Sample:
        """Rows named by their places, as a sample."""
        empty = np.zeros(len(index))
        Y, frequency, cost = (
            arrays.to_numpy(part)[index] for part in (self.Y, self.frequency, self.cost)
        )
        X = arrays.to_numpy(arrays.read(self.X, index))
        return Sample(X, Y, frequency, cost, index, empty, empty, empty)

    def sweep(self, step: Pass[State]) -> State:
        """Run a pass: blocks are dealt to the workers in turn, sums are added in a fixed order."""
        workers = blas_threads() if step.on_host or arrays.is_numpy(self.Y) else 1
        workers = min(workers, _HOST_WORKERS) if step.on_host else workers
        size = self.budget.block_rows(step, workers, self.Y)
        while not size and workers > 1:
            workers -= 1
            size = self.budget.block_rows(step, workers, self.Y)
        if not size:
            self.budget.require(step.numbers)
        slices = list(arrays.row_blocks(self.n, 1, size))
        workers = min(workers, len(slices))
        stop, meter = threading.Event(), Meter(step.title, self.n)

        def work(first: int) -> State:
            state = step.begin()
            for rows in slices[first::workers]:
                if stop.is_set():
                    break
                block = self.block(rows)
                if block.Y.shape[0]:
                    step.add(state, block)
                meter.advance(rows.stop - rows.start)
            return state

        if workers == 1:
            return work(0)
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
            try:
                futures = [pool.submit(work, first) for first in range(workers)]
                wait(futures, return_when=FIRST_EXCEPTION)
                states = [future.result() for future in futures if future.done()]
            except BaseException:
                stop.set()  # the other workers end after the block that they have in hand
                raise
        total = states[0]
        for state in states[1:]:
            total = step.merge(total, state)
        return total


@dataclass(frozen=True)
class Together(Generic[State]):
    """Several passes in one sweep, which reads every block once; the state is a list of theirs."""

    on_host: ClassVar[bool] = False

    steps: Sequence[Pass[State]]

    @property
    def title(self) -> str:
        many = len(self.steps) > 1
        return self.steps[0].title + (f", {len(self.steps)} widths" if many else "")

    @property
    def numbers(self) -> Numbers:
        rows, states = zip(*(step.numbers for step in self.steps), strict=True)
        return Numbers(max(rows), sum(states))

    def begin(self) -> list[State]:
        return [step.begin() for step in self.steps]

    def add(self, states: list[State], block: Block) -> None:
        for step, state in zip(self.steps, states, strict=True):
            step.add(state, block)

    def merge(self, a: list[State], b: list[State]) -> list[State]:
        return [step.merge(*pair) for step, *pair in zip(self.steps, a, b, strict=True)]


def require_number_columns(frame: Frame, name: str) -> None:
    """Refuse a frame (pandas, polars or Dask) with a column of anything but numbers."""
    for column, dtype in zip(frame.columns, frame.dtypes, strict=True):
        kind, is_numeric = getattr(dtype, "kind", None), getattr(dtype, "is_numeric", bool)
        polars = kind is None and (is_numeric() or str(dtype) == "Boolean")
        if not polars and (kind is None or kind not in "biuf"):
            raise ValueError(
                f"{name} must hold numbers; column {column!r} has dtype {dtype}. Encode or drop it "
                "first."
            )


@dataclass
class Sample:
    """Rows drawn at random, the luckiest first, and what the survey has seen of all rows."""

    X: Array
    Y: Array
    frequency: np.ndarray
    cost: np.ndarray
    index: np.ndarray
    key: np.ndarray
    chance: np.ndarray
    score: np.ndarray

    def take(self, rows: np.ndarray) -> Sample:
        return Sample(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    @property
    def size(self) -> int:
        return len(self.key)


@dataclass
class Seen:
    """The state of a survey."""

    sample: Sample | None = None
    rows: int = 0
    weight: float = 0.0
    mean: np.ndarray = field(default_factory=lambda: np.zeros(1))
    scatter: np.ndarray = field(default_factory=lambda: np.zeros(1))
    lowest: np.ndarray = field(default_factory=lambda: np.empty(0))
    highest: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def variances(self) -> np.ndarray:
        """Weighted variance of each feature; (d,)."""
        return self.scatter / self.weight

    @property
    def variance(self) -> float:
        """Weighted variance over all entries of X."""
        return float(np.mean(self.variances) + np.var(self.mean))


@dataclass(frozen=True)
class Survey:
    """Pass 0: check the rows, measure them, draw ``size`` of them by weight.

    The draw is that of `fisherkit.core.kernels.Distinct`: it does not depend on the order of rows
    or on blocks. (Copies of a row in different blocks are added up among the luckiest only.)
    """

    on_host: ClassVar[bool] = True
    title: ClassVar[str] = "survey"

    size: int
    seed: int
    n_features: int
    n_targets: int
    describe: Callable[[int], str]

    @property
    def numbers(self) -> Numbers:
        wide = self.n_features + self.n_targets
        return Numbers(3 * self.n_features + wide + 8, 3 * (self.size + _SPARE) * (wide + 6))

    def begin(self) -> Seen:
        return Seen()

    def add(self, seen: Seen, block: Block) -> None:
        X = np.asarray(arrays.to_numpy(block.X))
        values = self._checked(X, block.index)
        w = np.asarray(arrays.to_numpy(block.weights.frequency), dtype=np.float64)
        weight = float(w.sum())
        mean = w @ values / weight
        scatter = w @ (values - mean) ** 2
        this = Seen(None, len(X), weight, mean, scatter, values.min(axis=0), values.max(axis=0))
        self._combine(seen, this)
        key = fingerprints(values)
        chance = np.asarray(arrays.to_numpy(block.weights.v), dtype=np.float64)
        cost = np.asarray(arrays.to_numpy(block.weights.cost), dtype=np.float64)
        Y = np.asarray(arrays.to_numpy(block.Y))
        score = race(key, chance, self.seed)
        everything = Sample(X, Y, w, cost, block.index, key, chance, score)
        self._join(seen, everything)

    def merge(self, a: Seen, b: Seen) -> Seen:
        if b.sample is not None:
            self._combine(a, b)
            self._join(a, b.sample)
        return a

    def drawn(self, seen: Seen) -> Sample:
        """The rows drawn, the luckiest first."""
        assert seen.sample is not None
        return _luckiest(seen.sample, self.size)

    def _checked(self, X: np.ndarray, index: np.ndarray) -> np.ndarray:
        place = self.describe(int(index[0]))
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X must hold numbers; from {place} on it has dtype {X.dtype}.")
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"Blocks of X must have the same number of columns: from {place} on there are "
                f"{X.shape[1]}, before there were {self.n_features}."
            )
        values = X.astype(np.float64, copy=False)
        if not np.isfinite(values.sum()) and not np.isfinite(values).all():
            bad = ~np.isfinite(values)
            row, column = (int(i) for i in np.argwhere(bad)[0])
            raise ValueError(
                f"Input X contains {'NaN' if np.isnan(values[row, column]) else 'infinity'} in "
                f"{self.describe(int(index[row]))}, column {column}."
            )
        largest = max(float(values.max()), -float(values.min()))
        if largest > LARGEST:
            raise ValueError(
                f"X has values of size {largest:.3g}, whose squares overflow. Scale X, for example "
                "with sklearn.preprocessing.StandardScaler."
            )
        return values

    def _combine(self, seen: Seen, this: Seen) -> None:
        if seen.rows == 0:
            seen.lowest, seen.highest = this.lowest, this.highest
        total = seen.weight + this.weight
        gap = this.mean - seen.mean
        between = gap * gap * (seen.weight * this.weight / total)
        seen.scatter = seen.scatter + this.scatter + between
        seen.mean = seen.mean + gap * (this.weight / total)
        seen.weight, seen.rows = total, seen.rows + this.rows
        seen.lowest = np.minimum(seen.lowest, this.lowest)
        seen.highest = np.maximum(seen.highest, this.highest)

    def _join(self, seen: Seen, more: Sample) -> None:
        """Add rows to the race: equal ones become one, and only the luckiest stay."""
        limit = self.size + self.size // 4 + _SPARE
        old, more = seen.sample, self._distinct(more)  # copies first: they share a score
        if old is None:
            seen.sample = _luckiest(more, limit)
            return
        scores = np.concatenate([old.score, more.score])
        if len(scores) > limit:
            bar = -np.partition(-scores, limit - 1)[limit - 1]
            more = more.take(np.flatnonzero(more.score >= bar))
            old = old.take(np.flatnonzero(old.score >= bar))
        names = old.__dataclass_fields__
        both = Sample(*(np.concatenate([getattr(old, n), getattr(more, n)]) for n in names))
        seen.sample = self._distinct(both)

    def _distinct(self, sample: Sample) -> Sample:
        """Equal rows as one, the first in the data, with the chances of all."""
        if len(np.unique(sample.key)) == sample.size:
            return sample
        sample = sample.take(np.argsort(sample.index, kind="stable"))
        _, first, group = np.unique(sample.key, return_index=True, return_inverse=True)
        chance = np.bincount(group, weights=sample.chance)
        sample = sample.take(first)
        sample.chance, sample.score = chance, race(sample.key, chance, self.seed)
        return sample


def _luckiest(sample: Sample, size: int) -> Sample:
    """The rows with the highest scores, in falling order."""
    rows = np.arange(sample.size)
    if sample.size > size:
        rows = np.argpartition(-sample.score, size - 1)[:size]
    return sample.take(rows[np.argsort(-sample.score[rows], kind="stable")])
