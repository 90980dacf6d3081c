"""Sums of absolute differences between the rows of NumPy arrays, on all cores.

No matrix product gives the L1 distance, so at many features it costs more than all else of a kernel
matrix. Blocks of rows go to threads, of a symmetric matrix the upper half only; inside a block
SciPy does the work, or machine code if numba is installed and there is enough to do. Every entry is
summed in the order of the features either way: the result depends neither on the number of threads
nor on numba, to the last bit.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.spatial.distance import cdist

_ROWS = 64  # of a block
_THREADED = 1 << 21  # differences from which threads pay
_COMPILED = 1 << 26  # differences from which importing numba pays
_COLUMNS = 512  # of a tile: a row of it stays in the first cache

Finish = Callable[[np.ndarray], np.ndarray]


def cityblock(
    X: np.ndarray, Y: np.ndarray, finish: Finish | None = None, *, compiled: bool | None = None
) -> np.ndarray:
    """Distances (n, m) between rows of X (n, d) and Y (m, d); half the work where Y is X.

    ``finish`` works on the blocks in place, entry by entry, while they are in the cache.
    """
    n, m, d = len(X), len(Y), X.shape[1]
    work = n * m * d
    if compiled is None:
        doubles = X.dtype == Y.dtype == np.float64
        compiled = work >= _COMPILED and doubles and importlib.util.find_spec("numba") is not None
    symmetric = Y is X
    out = np.empty((n, m))
    tiles = None
    if compiled:
        columns = np.ascontiguousarray(X.T), np.ascontiguousarray(Y.T)
        tiles = functools.partial(_compile(), *columns)

    def fill(start: int) -> None:
        stop = min(start + _ROWS, n)
        first = start if symmetric else 0
        if tiles is None:
            block = cdist(X[start:stop], Y[first:], "cityblock")
        else:
            block = np.empty((stop - start, m - first))
            tiles(start, first, block)
        if finish is not None:
            block = finish(block)
        out[start:stop, first:] = block
        if symmetric:
            out[stop:, start:stop] = block[:, stop - start :].T

    workers = _threads() if work >= _THREADED else 1
    if workers == 1:
        for start in range(0, n, _ROWS):
            fill(start)
    else:
        with ThreadPoolExecutor(workers) as executor:
            list(executor.map(fill, range(0, n, _ROWS)))
    return out


def _threads() -> int:
    """Cores that this process may use, or fewer if OMP_NUM_THREADS says so."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores


@functools.cache
def _compile() -> Callable[..., None]:
    """`_tiles` in machine code, free of the interpreter lock."""
    numba = importlib.import_module("numba")  # here, so that importing fisherkit does not pay
    return numba.njit(cache=True, nogil=True)(_tiles)


def _tiles(XT: np.ndarray, YT: np.ndarray, start: int, first: int, out: np.ndarray) -> None:
    """Distances of columns ``start``... of XT to columns ``first``... of YT into out.

    Written for the compiler: four features at a time, so that sums stay in registers.
    """
    d = XT.shape[0]
    for begin in range(0, out.shape[1], _COLUMNS):
        width = min(_COLUMNS, out.shape[1] - begin)
        left = first + begin
        for i in range(out.shape[0]):
            row = out[i, begin : begin + width]
            row[:] = 0.0
            f = 0
            while f + 4 <= d:
                x0, x1 = XT[f, start + i], XT[f + 1, start + i]
                x2, x3 = XT[f + 2, start + i], XT[f + 3, start + i]
                y0, y1 = YT[f, left : left + width], YT[f + 1, left : left + width]
                y2, y3 = YT[f + 2, left : left + width], YT[f + 3, left : left + width]
                for j in range(width):
                    pair = row[j] + abs(x0 - y0[j]) + abs(x1 - y1[j])
                    row[j] = pair + abs(x2 - y2[j]) + abs(x3 - y3[j])
                f += 4
            while f < d:
                x0, y0 = XT[f, start + i], YT[f, left : left + width]
                for j in range(width):
                    row[j] += abs(x0 - y0[j])
                f += 1
