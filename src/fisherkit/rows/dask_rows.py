"""Rows of a Dask collection: every pass is one task for each chunk and a tree of merges.

`DaskRows` runs the passes of `fisherkit.rows.sources` on whatever scheduler is in force: the client
that the user has made, or Dask's default. Chunks are never concatenated and never come to the
client; it sees sums only. Chunk sizes need not be known. A pass travels as part of the graph, so
that whatever a lost worker has done can be done again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from fisherkit.core import Array, Weights, arrays
from fisherkit.rows.sources import Budget, Pass, frame_values, require_number_columns
from fisherkit.rows.sums import Block

_FAN_IN = 8  # states merged by one task
_PLACE = 1 << 40  # places of rows are chunk * _PLACE + row until chunk lengths are known


def task(function: Callable[..., Any]) -> Any:
    """A function whose calls become tasks."""
    from dask.delayed import delayed

    return delayed(function, pure=False)


def constant(value: Any) -> Any:
    """A value that travels with the graph, once for all tasks that use it."""
    from dask.delayed import delayed

    return delayed(value, pure=False, traverse=False)


def is_dask(x: Any) -> bool:
    """Say whether ``x`` is a Dask collection; Dask need not be installed to be sure it is not."""
    return type(x).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(x, "to_delayed")


def parts_of(x: Any, name: str) -> list[Any]:
    """The row chunks of a Dask array (all columns together) or of the partitions of a frame."""
    if hasattr(x, "rechunk") and x.ndim == 2 and x.numblocks[1] > 1:
        x = x.rechunk({1: -1})
    if hasattr(x, "dtypes") and x.ndim == 2:
        require_number_columns(x, name)
    return list(np.asarray(x.to_delayed(), dtype=object).ravel())


def aligned_parts(values: Any, X: Any, parts: Sequence[Any], name: str) -> list[Any]:
    """Chunks of targets or weights, one for each chunk of X."""
    if not is_dask(values):
        lengths = _lengths(X)
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
    lengths = _lengths(X)
    if hasattr(values, "rechunk") and lengths is not None and _lengths(values) is not None:
        values = values.rechunk({0: lengths})
    found = parts_of(values, name)
    if len(found) != len(parts):
        raise ValueError(
            f"{name} has {len(found)} chunks, X has {len(parts)}: they must be cut alike."
        )
    return found


def _lengths(x: Any) -> tuple[int, ...] | None:
    """Rows of each chunk, if they are known."""
    chunks = getattr(x, "chunks", None)
    if chunks is None or any(np.isnan(size) for size in chunks[0]):
        return None
    return tuple(int(size) for size in chunks[0])


def to_rows(part: Any) -> np.ndarray:
    """A chunk as a NumPy array, on the worker."""
    if hasattr(part, "iloc") and part.ndim == 2:
        part = frame_values(part)
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


def run(step: Pass, chunk: Chunk, budget: Budget) -> Any:
    """One pass over one chunk, in blocks."""
    state = step.begin()
    kept = chunk.kept
    size = budget.block_rows(step, 1, chunk.Y)
    if not size:
        budget.require(step.numbers)
    for rows in arrays.row_blocks(len(kept), 1, size):
        step.add(state, chunk.block(kept[rows]))
    return state


def merge(step: Pass, states: Sequence[Any]) -> Any:
    return reduce(step.merge, states)


@dataclass(frozen=True)
class DaskRows:
    """Rows in ``chunks``, delayed `Chunk` objects; ``lengths`` are their numbers of rows."""

    chunks: Sequence[Any]
    lengths: np.ndarray
    k: int
    budget: Budget

    @property
    def reference(self) -> Array:
        return np.empty((0, 1))

    @property
    def keep_bytes(self) -> float:
        return 0.0

    def sweep(self, step: Pass) -> Any:
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


def place(index: int) -> str:
    """Where a row is that a pass has met."""
    return f"row {index % _PLACE} of chunk {index // _PLACE}"


def tree(merge_group: Callable[[list[Any]], Any], states: list[Any]) -> Any:
    """Merge delayed states by a tree of tasks, and compute what is left."""
    while len(states) > 1:
        states = [merge_group(states[i : i + _FAN_IN]) for i in range(0, len(states), _FAN_IN)]
    return compute(states[0])


def compute(task: Any) -> Any:
    with warnings.catch_warnings():
        # The decomposition is part of the graph on purpose: a scattered one could get lost.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        return task.compute()


def compute_all(*tasks: Any) -> tuple[Any, ...]:
    from dask.base import compute

    return compute(*tasks)


def kept_by_workers(tasks: list[Any]) -> list[Any]:
    """Have the workers compute these and keep them."""
    from dask.base import persist

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        return list(persist(*tasks))


def lazily(model: Any, method: str, X: Any) -> Any:
    """A method of a fitted model on every chunk of X, when it is asked for; a Dask array."""
    import dask.array as da

    columns = list(X.columns) if hasattr(X, "columns") else None
    sample = np.zeros((1, X.shape[1]), dtype=getattr(X, "dtype", np.float64))
    if columns is not None:
        import pandas as pd

        sample = pd.DataFrame(sample, columns=columns)
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


def _call(model: Any, method: str, part: Any, like: np.ndarray) -> np.ndarray:
    if len(part) == 0:
        return like[:0]
    return getattr(model, method)(part)
