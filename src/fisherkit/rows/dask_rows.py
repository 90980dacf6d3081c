"""Rows of a Dask collection: every pass is one task for each chunk and a tree of merges.

`DaskRows` runs the passes of `fisherkit.rows.sources` on whatever scheduler is in force: the client
that the user has made, or Dask's default. Chunks are never concatenated and never come to the
client; it sees sums only. Chunk sizes need not be known. A pass travels as part of the graph, so
that whatever a lost worker has done can be done again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from fisherkit.core import Array, Labels, Residuals, Weights, arrays
from fisherkit.interfaces import ClassWeight, MemoryLimit
from fisherkit.rows.blocks import fit_large, interleave
from fisherkit.rows.checks import (
    class_costs,
    component_count,
    several_classes,
    squarable,
    weights_in_range,
)
from fisherkit.rows.fits import Basis, Fit, Spec
from fisherkit.rows.passes import SecondPass
from fisherkit.rows.planning import Plan, automatic_centres, memory_budget, require_greedy
from fisherkit.rows.sources import (
    Budget,
    Pass,
    Sample,
    State,
    require_number_columns,
)
from fisherkit.rows.sums import Block
from fisherkit.tuning import add_up

if TYPE_CHECKING:
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
    from numpy.typing import ArrayLike

T = TypeVar("T")
Kept = TypeVar("Kept")
Value = TypeVar("Value", covariant=True)
Collection: TypeAlias = "da.Array | dd.DataFrame | dd.Series"
Column: TypeAlias = "Sequence[Delayed[Array]]"
Label: TypeAlias = "str | float"
Part: TypeAlias = "np.ndarray | pd.DataFrame | pd.Series"  # of a collection, on a worker

_TASK_BYTES = 1 << 29  # that a task may take beside its chunk, unless max_memory says otherwise
_FAN_IN = 8  # states merged by one task
_PLACE = 1 << 40  # places of rows are chunk * _PLACE + row until chunk lengths are known


class Delayed(Protocol[Value]):
    """A value that a worker computes when it is asked for, or keeps."""

    def compute(self) -> Value: ...


def task(function: Callable[..., T]) -> Callable[..., Delayed[T]]:
    """A function whose calls become tasks."""
    from dask.delayed import delayed

    return delayed(function, pure=False)


def constant(value: T) -> Delayed[T]:
    """A value that travels with the graph, once for all tasks that use it."""
    from dask.delayed import delayed

    return delayed(value, pure=False, traverse=False)


def parts_of(x: Collection, name: str) -> list[Delayed[Part]]:
    """The row chunks of a Dask array (all columns together) or of the partitions of a frame."""
    if hasattr(x, "rechunk") and x.ndim == 2 and x.numblocks[1] > 1:
        x = x.rechunk({1: -1})
    if hasattr(x, "dtypes") and x.ndim == 2:
        require_number_columns(cast("dd.DataFrame", x), name)
    return list(np.asarray(x.to_delayed(), dtype=object).ravel())


def aligned_parts(
    values: Collection | ArrayLike, X: Collection, parts: Sequence[Delayed[Part]], name: str
) -> list[Delayed[Part]]:
    """Chunks of targets or weights, one for each chunk of X."""
    lengths = _lengths(X)
    if not arrays.is_dask(values):
        if lengths is None:
            raise ValueError(
                f"X has chunks of unknown size, so {name} must be a Dask collection with the same "
                f"chunks; got {type(values).__name__}."
            )
        values = np.asarray(values)
        if len(values) != sum(lengths):
            raise ValueError(f"{name} has {len(values)} rows, X has {sum(lengths)}.")
        ends = np.cumsum(lengths)[:-1]
        return [constant(part) for part in np.split(values, ends)]
    if hasattr(values, "rechunk") and lengths is not None and _lengths(values) is not None:
        values = values.rechunk({0: lengths})
    aligned = parts_of(cast("Collection", values), name)
    if len(aligned) != len(parts):
        raise ValueError(
            f"{name} has {len(aligned)} chunks, X has {len(parts)}: they must be cut alike."
        )
    return aligned


def _lengths(x: object) -> tuple[int, ...] | None:
    """Rows of each chunk, if they are known."""
    chunks = getattr(x, "chunks", None)
    if chunks is None or any(np.isnan(size) for size in chunks[0]):
        return None
    return tuple(int(size) for size in chunks[0])


def to_rows(part: Part) -> np.ndarray:
    """A chunk as a NumPy array, on the worker."""
    if hasattr(part, "iloc") and part.ndim == 2:
        part = arrays.frame_values(part)
    part = part.to_numpy() if hasattr(part, "to_numpy") else part
    return part.toarray() if hasattr(part, "toarray") else np.asarray(part)


@dataclass(frozen=True)
class Chunk:
    """A chunk on a worker: rows X (b, d), targets (b, k), frequencies and costs (b,)."""

    X: np.ndarray
    Y: np.ndarray
    frequency: np.ndarray
    cost: np.ndarray
    number: int

    def block(self, rows: np.ndarray) -> Block:
        weights = Weights(self.frequency[rows], self.cost[rows])
        return Block(self.X[rows], self.Y[rows], weights, self.start + rows)

    @property
    def start(self) -> int:
        """The place of the first row."""
        return self.number * _PLACE

    @property
    def kept(self) -> np.ndarray:
        """Rows of positive weight."""
        return np.flatnonzero(self.frequency > 0)


def run(step: Pass[State], chunk: Chunk, budget: Budget) -> State:
    """One pass over one chunk, in blocks."""
    state = step.begin()
    kept = chunk.kept
    size = budget.block_rows(step, 1, chunk.Y)
    if not size:
        budget.require(step.numbers)
    for rows in arrays.row_blocks(len(kept), 1, size):
        step.add(state, chunk.block(kept[rows]))
    return state


def merge(step: Pass[State], states: Sequence[State]) -> State:
    return reduce(step.merge, states)


@dataclass(frozen=True)
class DaskRows:
    """Rows in ``chunks``, delayed `Chunk` objects; ``lengths`` are their numbers of rows.

    ``classes`` has one row for each class, with the weights of all of its rows; ``absent`` says
    whether there are rows of weight 0.
    """

    chunks: Sequence[Delayed[Chunk]]
    lengths: np.ndarray
    d: int
    k: int
    budget: Budget
    plan: Plan
    labels: Labels | None
    flat: bool
    absent: bool

    @property
    def reference(self) -> Array:
        return np.empty((0, 1))

    @property
    def keep_bytes(self) -> float:
        return 0.0

    def sweep(self, step: Pass[State]) -> State:
        """Run a pass: the client gets the sum over all chunks only."""
        shared = constant(step)
        call, join = task(run), task(merge)
        states = [call(shared, chunk, self.budget) for chunk in self.chunks]
        return tree(lambda group: join(shared, group), states)

    def locate(self, index: np.ndarray) -> np.ndarray:
        """Places in the data of rows that passes have met."""
        starts = np.concatenate([[0], np.cumsum(self.lengths)])
        return starts[index // _PLACE] + index % _PLACE

    @property
    def describe(self) -> Callable[[int], str]:
        return place

    def fit(self, spec: Spec) -> Fit:
        large = fit_large(spec, self.plan, self, self.named(spec.basis))
        assert large.passes is not None
        kept = self.each(_left_out, large.passes.left_out_pass(), self.budget)
        parts = DaskParts(kept, LeftOut.residuals)
        (scatter,) = parts.total(_scatter, [])
        return Fit(
            expansion=large.expansion,
            centres=large.indices,
            selection=large.selection,
            left_out=parts,
            scatter=0.5 * (scatter + scatter.T),
        )

    def each(self, function: Callable[..., T], *arguments: object) -> list[Delayed[T]]:
        """A column of what a function of the chunk, and of these arguments, returns."""
        return kept_by_workers(self._tasks(function, arguments))

    def columns(
        self, count: int, function: Callable[..., Sequence[T]], *arguments: object
    ) -> list[Sequence[Delayed[T]]]:
        """Several columns, from a function that returns a piece of each."""
        results, n = self._tasks(function, arguments), len(self.chunks)
        pick: Callable[..., Delayed[T]] = task(getitem)
        kept = kept_by_workers([pick(part, i) for i in range(count) for part in results])
        return [kept[i * n : (i + 1) * n] for i in range(count)]

    def _tasks(self, function: Callable[..., T], arguments: tuple[object, ...]) -> list[Delayed[T]]:
        call, shared = task(_on_chunk), constant((function, arguments))
        return [call(shared, chunk) for chunk in self.chunks]

    def named(self, basis: Basis) -> Sample | None:
        """The centres that the user has named."""
        from dask.base import compute

        index = basis.rows
        if index is None:
            return None
        ends = np.cumsum(self.lengths)
        number = np.searchsorted(ends, index, side="right")
        place = index - (ends - self.lengths)[number]
        take = task(_take)
        wanted = np.unique(number)
        parts = compute(*(take(self.chunks[i], place[number == i]) for i in wanted))
        order = np.argsort(np.concatenate([np.flatnonzero(number == i) for i in wanted]))
        return Sample(*(np.concatenate(columns)[order] for columns in zip(*parts, strict=True)))

    def in_order(
        self, column: Sequence[Delayed[Array]], plain: Callable[[Array], Array], width: int
    ) -> da.Array:
        """A Dask array of what the workers keep."""
        import dask.array as da

        if self.absent:
            call, shared = task(_with_absent), constant(plain)
            pairs = zip(column, self.chunks, strict=True)
            column = kept_by_workers([call(part, chunk, shared) for part, chunk in pairs])
        parts = zip(column, self.lengths, strict=True)
        return da.concatenate(
            [da.from_delayed(part, (int(n), width), dtype=np.float64) for part, n in parts], axis=0
        )


def _on_chunk(shared: tuple[Callable[..., T], tuple[object, ...]], chunk: Chunk) -> T:
    function, arguments = shared
    return function(chunk, *arguments)


@dataclass(frozen=True)
class DaskParts(Generic[Kept]):
    """Parts that the workers keep: a column is a list of arrays that they keep, too.

    ``load`` makes of a part what the terms of sums are asked of.
    """

    parts: Sequence[Delayed[Kept]]
    load: Callable[[Kept], object]

    def total(
        self, terms: Callable[..., tuple[Array, ...]], columns: Sequence[Column], *arguments: object
    ) -> tuple[Array, ...]:
        return tree(task(add_up), self._tasks(terms, columns, arguments))

    def each(
        self, terms: Callable[..., T], columns: Sequence[Column], *arguments: object
    ) -> list[Delayed[T]]:
        return kept_by_workers(self._tasks(terms, columns, arguments))

    def _tasks(
        self, terms: Callable[..., T], columns: Sequence[Column], arguments: tuple[object, ...]
    ) -> list[Delayed[T]]:
        call, shared = task(_terms), constant((self.load, terms, arguments))
        return [
            call(shared, part, [column[i] for column in columns])
            for i, part in enumerate(self.parts)
        ]


def _terms(
    shared: tuple[Callable[[Kept], object], Callable[..., T], tuple[object, ...]],
    part: Kept,
    pieces: list[Array],
) -> T:
    load, terms, arguments = shared
    return terms(load(part), pieces, *arguments)


@dataclass(frozen=True)
class LeftOut:
    """What a worker keeps of a chunk: residuals of the rows of positive weight, and their weights.

    ``frequency`` and ``cost`` are ``None`` where they are all one.
    """

    e: np.ndarray
    B: np.ndarray
    Y: np.ndarray
    frequency: np.ndarray | None
    cost: np.ndarray | None

    def residuals(self) -> Residuals:
        """The residuals of the chunk alone: the scatter is that of its rows."""
        ones = np.ones(len(self.Y))
        frequency = ones if self.frequency is None else self.frequency
        weights = Weights(frequency, ones if self.cost is None else self.cost)
        scatter = (weights.v[:, None] * self.Y).T @ self.e
        return Residuals(self.Y, weights, self.B, weights.root[:, None] * self.e, scatter)


def _left_out(chunk: Chunk, step: SecondPass, budget: Budget) -> LeftOut:
    kept = chunk.kept
    parts = [part[:, :, 0] for _, part in run(step, chunk, budget).kept]
    both = np.concatenate(parts or [np.empty((0, chunk.Y.shape[1] + 1))])
    frequency, cost = (
        None if np.all(values == 1) else values[kept] for values in (chunk.frequency, chunk.cost)
    )
    return LeftOut(both[:, :-1], both[:, -1], chunk.Y[kept], frequency, cost)


def _scatter(part: Residuals, pieces: Sequence[Array]) -> tuple[Array]:
    return (part.scatter,)


def _with_absent(inside: np.ndarray, chunk: Chunk, plain: Callable[[Array], Array]) -> np.ndarray:
    """Values of the rows of positive weight between those of the others."""
    absent = np.flatnonzero(chunk.frequency == 0)
    if not len(absent):
        return inside
    return interleave(inside, plain(np.asarray(chunk.X[absent])), chunk.kept)


def _take(chunk: Chunk, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    block, empty = chunk.block(rows), np.zeros(len(rows))
    weights = block.weights
    return block.X, block.Y, weights.frequency, weights.cost, block.index, empty, empty, empty


@dataclass(frozen=True)
class Look:
    """What the targets of some chunks hold: rows of each chunk, and copies of each class."""

    lengths: dict[int, int]
    copies: dict[Label, float]
    outputs: int | None
    positive: int


def _look(y: Part, weight: Part | None, number: int, classifier: bool) -> Look:
    y = to_rows(y)
    if len(y) == 0:
        raise ValueError(f"Chunk {number} of y has no rows; drop empty chunks first.")
    w = _weights(weight, len(y), number)
    copies: dict[Label, float] = {}
    if classifier:
        if y.ndim > 2 or (y.ndim == 2 and y.shape[1] != 1):
            raise ValueError(f"y should be a 1d array; chunk {number} has shape {y.shape}.")
        y = y.reshape(len(y))
        if np.any(y != y):
            raise ValueError(f"Input y contains NaN in chunk {number}.")
        check_classification_targets(y)
        classes, index = np.unique(y[w > 0], return_inverse=True)
        copies = dict(zip(classes.tolist(), np.bincount(index, weights=w[w > 0]), strict=True))
    else:
        values = np.asarray(y, dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError(f"Input y contains NaN or infinity in chunk {number}.")
        squarable(f"y in chunk {number}", values)
    outputs = None if y.ndim == 1 else y.shape[1]
    return Look({number: len(y)}, copies, outputs, int(np.count_nonzero(w > 0)))


def _weights(weight: Part | None, n: int, number: int) -> np.ndarray:
    if weight is None:
        return np.ones(n)
    w = np.asarray(to_rows(weight), dtype=np.float64)
    if w.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {w.shape} in chunk {number}, where y has {n} rows."
        )
    if not np.all(np.isfinite(w)) or np.any(w < 0):
        raise ValueError(f"sample_weight is negative, NaN or infinite in chunk {number}.")
    if np.any(w > 0):
        weights_in_range(f"sample_weight in chunk {number}", w[w > 0])
    return w


def _join(group: list[Look]) -> Look:
    lengths: dict[int, int] = {}
    copies: dict[Label, float] = {}
    for look in group:
        lengths |= look.lengths
        for label, count in look.copies.items():
            copies[label] = copies.get(label, 0.0) + count
    positive = sum(look.positive for look in group)
    return Look(lengths, copies, group[0].outputs, positive)


def _chunk(
    x: Part,
    y: Part,
    weight: Part | None,
    number: int,
    classes: Labels | None,
    shape: tuple[int, np.dtype | None],
) -> Chunk:
    """Put the parts of a chunk together, on a worker; say which one is not what it should be."""
    X, labels = to_rows(x), to_rows(y)
    if len(X) == 0:
        raise ValueError(f"Chunk {number} of X has no rows; drop empty chunks first.")
    if len(X) != len(labels):
        raise ValueError(
            f"Chunk {number} of X has {len(X)} rows, that of y has {len(labels)}: they must be "
            "cut alike."
        )
    d, dtype = shape
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(f"Chunk {number} of X has shape {X.shape}; expected {d} columns.")
    if dtype is not None and X.dtype != dtype:
        raise ValueError(f"Chunk {number} of X has dtype {X.dtype}; the collection says {dtype}.")
    w = _weights(weight, len(X), number)
    if classes is None:
        return Chunk(
            X, np.asarray(labels, np.float64).reshape(len(X), -1), w, np.ones(len(X)), number
        )
    index = np.searchsorted(classes.classes, labels.reshape(len(X), -1)[:, 0])
    index = np.minimum(index, classes.n_classes - 1)  # a row of weight 0 may be of another class
    known = classes.take(index)
    return Chunk(X, known.codes, w, known.weights.cost, number)


def open_dask(
    X: Collection,
    y: Collection | ArrayLike,
    sample_weight: Collection | ArrayLike | None,
    *,
    basis: Basis,
    max_memory: MemoryLimit,
    estimator: str,
    classifier: bool,
    class_weight: ClassWeight,
) -> DaskRows:
    """Look at the targets of all chunks, and plan; nothing of X is read but its shape."""
    if X.ndim != 2:
        raise ValueError(f"X should be a 2d collection; got {X.ndim} dimension(s).")
    parts = parts_of(X, "X")
    targets = aligned_parts(y, X, parts, "y")
    weights: Sequence[Delayed[Part] | None] = [None] * len(parts)
    if sample_weight is not None:
        weights = aligned_parts(sample_weight, X, parts, "sample_weight")
    call = task(_look)
    looks = [
        call(t, w, i, classifier) for i, (t, w) in enumerate(zip(targets, weights, strict=True))
    ]
    look = tree(task(_join), looks)
    if look.positive < 2:
        raise ValueError(f"{look.positive} row(s) of positive weight; at least 2 are needed.")
    labels, k = None, look.outputs or 1
    if classifier:
        classes = np.array(sorted(look.copies))
        several_classes(estimator, classes)
        copies = np.array([look.copies[label] for label in classes.tolist()])
        costs = class_costs(class_weight, classes, copies)
        labels = Labels(classes, np.arange(len(classes)), Weights(copies, costs))
        k = labels.n_decisions
    make, shared = task(_chunk), constant(labels)
    shape = (int(X.shape[1]), getattr(X, "dtype", None))
    chunks = [
        make(*chunk, number, shared, shape)
        for number, chunk in enumerate(zip(parts, targets, weights, strict=True))
    ]
    lengths = np.array([look.lengths[i] for i in range(len(chunks))])
    n, memory = int(lengths.sum()), memory_budget(max_memory, np.empty(0))
    if max_memory is None:
        memory = min(memory, _TASK_BYTES)
    return DaskRows(
        chunks=chunks,
        lengths=lengths,
        d=shape[0],
        k=k,
        budget=Budget(memory),
        plan=_planned(look.positive, n, len(chunks), basis, memory),
        labels=labels,
        flat=k == 1 if classifier else look.outputs is None,
        absent=look.positive < n,
    )


def _planned(positive: int, n: int, n_chunks: int, basis: Basis, memory: int) -> Plan:
    """On which centres: n rows, of which some of positive weight, are always read in chunks."""
    kind, m = basis.kind, basis.count
    component_count(basis.n_components, positive)
    basis.positions(np.arange(n), n)
    if kind == "full":
        raise ValueError(
            "basis='full' makes every row a centre, which a Dask collection does not allow; use "
            "'auto', or 'pivoted', 'random' or 'greedy' with n_components."
        )
    if kind == "auto":
        kind, m = "pivoted", automatic_centres(positive, memory)
    assert m is not None
    require_greedy(kind, positive, m, memory)
    reason = f"X is a Dask collection of {n} rows in {n_chunks} chunks: {m} centres ({kind})"
    return Plan(True, kind, m, reason)


def place(index: int) -> str:
    """Where a row is that a pass has met."""
    return f"row {index % _PLACE} of chunk {index // _PLACE}"


def tree(merge_group: Callable[[list[Delayed[T]]], Delayed[T]], states: list[Delayed[T]]) -> T:
    """Merge delayed states by a tree of tasks, and compute what is left."""
    while len(states) > 1:
        states = [merge_group(states[i : i + _FAN_IN]) for i in range(0, len(states), _FAN_IN)]
    with _large_graphs():
        return states[0].compute()


def kept_by_workers(tasks: list[Delayed[T]]) -> list[Delayed[T]]:
    """Have the workers compute these and keep them."""
    from dask.base import persist

    with _large_graphs():
        return list(persist(*tasks))


@contextmanager
def _large_graphs() -> Iterator[None]:
    """The decomposition is part of the graph on purpose: a scattered one could get lost."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield


def lazily(model: object, method: str, X: Collection) -> da.Array:
    """A method of a fitted model on every chunk of X, when it is asked for; a Dask array."""
    import dask.array as da

    sample = np.zeros((1, X.shape[1]), dtype=getattr(X, "dtype", np.float64))
    if hasattr(X, "columns"):
        import pandas as pd

        sample = pd.DataFrame(sample, columns=list(X.columns))
    like = getattr(model, method)(sample)
    shared = constant(model)
    parts = parts_of(X, "X")
    lengths = _lengths(X) or (np.nan,) * len(parts)
    call = task(_call)
    arrays = [
        da.from_delayed(
            call(shared, method, part, like), shape=(length, *like.shape[1:]), dtype=like.dtype
        )
        for part, length in zip(parts, lengths, strict=True)
    ]
    return da.concatenate(arrays, axis=0)


def _call(model: object, method: str, part: Part, like: np.ndarray) -> np.ndarray:
    if len(part) == 0:
        return like[:0]
    return getattr(model, method)(part)
