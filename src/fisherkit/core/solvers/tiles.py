"""Products with a kernel matrix that is in memory nowhere: its values are found anew each time.

Tiles of K above the diagonal are found once in a product and serve both halves. On the CPU a tile
stays in the cache, and several are worked on at a time, one thread each; to an accelerator a large
one is given. The Gaussian kernel is one product of rows extended by their squares and one
exponential for each value, in single precision where that is enough; other kernels are
found as everywhere else, in double precision.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event

import numpy as np
from threadpoolctl import threadpool_limits

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.blas import blas_threads
from fisherkit.core.kernels import Gram

_STRIP, _TILE = 128, 1024  # rows and columns of a tile that stays in the cache
_SLOW_STRIP = 512  # rows of a tile of kernels that have threads of their own


@dataclass(frozen=True)
class Recomputed:
    """A symmetric kernel matrix K (n, n) as a factor of products.

    ``factors`` A and B (n, q) with log K = A B', if there are such, have the precision in which
    kernel values are found; so many ``threads`` find them.
    """

    gram: Gram
    factors: tuple[Array, Array] | None
    threads: int

    @classmethod
    def of(cls, gram: Gram) -> Recomputed:
        """In double precision."""
        return cls(gram, gram.factors(), blas_threads())

    @property
    def single(self) -> Recomputed:
        """The same in single precision, for kernels that are quicker so."""
        if self.factors is None:
            return self
        A, B = self.factors
        xp = arrays.namespace(A)
        return replace(self, factors=(xp.astype(A, xp.float32), xp.astype(B, xp.float32)))

    @arrays.quiet_overflow()
    def __matmul__(self, V: Array) -> Array:
        """K V for V (n, k), in the precision of V; sums are, too."""
        xp = arrays.namespace(V)
        dtype = V.dtype if self.factors is None else self.factors[0].dtype
        size = xp.max(xp.abs(V), axis=0)
        size = xp.where(size > 0, size, xp.ones_like(size))
        # In the unit of its largest number, a column can be rounded to single precision.
        narrow = V if V.dtype == dtype else arrays.cast(V / size, dtype)
        strips, workers = self._strips(V)
        stop = Event()

        def share(worker: int) -> Array:
            total = xp.zeros_like(V)
            memory = self._memory(V)
            for strip in _dealt(strips, worker, workers):
                if stop.is_set():
                    break
                self._add(total, narrow, strip, memory)
            return total

        if workers == 1:
            total = share(0)
        else:
            with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
                parts = [pool.submit(share, worker) for worker in range(workers)]
                try:
                    total = sum((part.result() for part in parts[1:]), parts[0].result())
                except BaseException:
                    stop.set()
                    raise
        return total if narrow is V else total * size

    def _strips(self, V: Array) -> tuple[list[slice], int]:
        """Rows that are worked on together, and by how many threads."""
        n = self.gram.n
        if not arrays.is_numpy(V):
            rows = min(n, max(1, arrays.preferred_elements(V) // n))
        else:
            rows = _SLOW_STRIP if self.factors is None else _STRIP
        strips = [slice(start, min(start + rows, n)) for start in range(0, n, rows)]
        quick = arrays.is_numpy(V) and self.factors is not None
        return strips, min(self.threads, len(strips)) if quick else 1

    def _memory(self, V: Array) -> np.ndarray | None:
        """Room for the values of a tile."""
        if self.factors is None or not arrays.is_numpy(V):
            return None
        return np.empty(_STRIP * _TILE, dtype=self.factors[0].dtype)

    def _add(self, total: Array, V: Array, strip: slice, memory: np.ndarray | None) -> None:
        """What the rows of a strip, from the diagonal on, add to the product: both halves."""
        n, wide = self.gram.n, self.gram.n if not arrays.is_numpy(V) else _TILE
        for columns in (
            strip,
            *(slice(at, min(at + wide, n)) for at in range(strip.stop, n, wide)),
        ):
            values = self._values(strip, columns, memory)
            values = arrays.cast(values, V.dtype)
            total[strip, :] += values @ V[columns, :]
            if columns is not strip:
                total[columns, :] += values.T @ V[strip, :]

    def _values(self, rows: slice, columns: slice, memory: np.ndarray | None) -> Array:
        if self.factors is None:
            return self.gram.tile(rows, columns)
        A, B = self.factors
        left, right = A[rows, :], B[columns, :].T
        if memory is None:
            return arrays.exp_in_place(left @ right)
        shape = left.shape[0], right.shape[1]
        out = memory[: shape[0] * shape[1]].reshape(shape)
        return arrays.exp_in_place(np.matmul(left, right, out=out))


def _dealt(strips: list[slice], worker: int, workers: int) -> list[slice]:
    """The strips of one worker: there and back, so that all have about as much to do."""
    there, back = strips[worker :: 2 * workers], strips[2 * workers - 1 - worker :: 2 * workers]
    return [*there, *back]
