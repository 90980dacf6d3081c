"""How fast this machine is: measured once, to choose between ways to the same numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.blas import blas_threads

_SIZE = 1536  # rows of the matrices that are measured with
_FACTORED = 3072  # the same, where threads have enough to do
_BEYOND_CACHES = 1 << 23  # numbers, in double precision
_TRIALS = 2
_GOOD = (20.0, 2.0)  # steps with a good preconditioner, and those of columns
_RANKED = 7  # products of n r^2 that a preconditioner of rank r takes
_EIGEN = 6  # times an inverse by Cholesky
_WIDE = 8  # bytes of a number in double precision
_BLOCK = 1 << 17  # kernel values that stay in the cache
_SLIM = 1.8  # products of few columns take so much longer than large ones
_BESIDE = 2.0  # the same, for sums of a few columns: memory decides
_FLAT = 4  # columns of a product that takes no longer than one with fewer
_SOLVED = (60.0, 3.0, 6.0)  # steps, those of columns, and sweeps in double precision
_TOGETHER = 128  # columns that a sweep serves
_DOUBLE = 2.0  # times the seconds of single precision


@dataclass(frozen=True)
class Rates:
    """What the machine does in a second.

    Operations of products and of Cholesky factors in single precision, bytes read from memory, and
    exponentials in single precision, as blocks of kernel values take them.
    """

    product: float
    factor: float
    memory: float
    exponential: float = 1e9

    def factored(self, n: int, columns: int) -> float:
        """Seconds of a Cholesky factor of n rows, and so many columns of its inverse."""
        return n**3 / 3 / self.factor + n * n * columns / self.product

    def inverted(self, n: int) -> float:
        """Seconds of a Cholesky factor of n rows, its inverse and the diagonal of M^-1."""
        return 2 * n**3 / 3 / self.factor

    def exact(self, n: int) -> float:
        """Seconds of M^-1 of n rows by Cholesky in double precision."""
        return 2 * n**3 / self.factor

    def decomposed(self, n: int) -> float:
        """Seconds of the eigenvectors of n rows, in double precision."""
        return _EIGEN * self.exact(n)

    def conjugate(self, n: int, rank: int, columns: int) -> float:
        """Seconds of conjugate gradients on n rows with a good preconditioner of this rank."""
        preconditioner = _RANKED * n * rank**2 / self.product
        return preconditioner + self.steps(n, columns, *_GOOD)

    def sweep(self, n: int, d: int, columns: int) -> float:
        """Seconds of K V for V (n, columns), with half of K found anew in single precision."""
        values = n * n / 2
        found = values * (1 / self.exponential + 2 * _SLIM * (d + 2) / self.product)
        return found + 4 * values * _BESIDE * max(columns, _FLAT) / self.product

    def recomputed(
        self,
        n: int,
        d: int,
        rank: int,
        columns: int,
        all_steps: float = _SOLVED[0],
        column_steps: float = _SOLVED[1],
    ) -> float:
        """Seconds of conjugate gradients on n rows of d columns, with K never in memory.

        With a preconditioner of this rank, and so many columns of M^-1 for sampled rows.
        """
        preconditioner = _DOUBLE * _RANKED * n * rank**2 / self.product
        whole = (all_steps + _SOLVED[2] * _DOUBLE) * self.sweep(n, d, 1)
        parts, rest = divmod(columns, _TOGETHER)
        sampled = parts * self.sweep(n, d, _TOGETHER) + (rest > 0) * self.sweep(n, d, rest)
        return preconditioner + whole + column_steps * sampled

    def steps(self, n: int, columns: int, all_steps: float, column_steps: float) -> float:
        """Seconds of so many steps: of the whole system, and of the columns of sampled rows."""
        whole = all_steps * _WIDE * n * n / 2 / self.memory
        return whole + column_steps * 2 * n * n * columns / self.product


@cache
def measured() -> Rates:
    """The rates of this process, with the threads that it has; in some tenths of a second."""
    A = np.full((_SIZE, _SIZE), 0.5, dtype=np.float32)
    A.flat[:: _SIZE + 1] = _SIZE
    M = np.full((_FACTORED, _FACTORED), 0.5, dtype=np.float32)
    M.flat[:: _FACTORED + 1] = _FACTORED
    B, large = A.copy(), np.ones((_BEYOND_CACHES // _SIZE, _SIZE))
    block = np.full(_BLOCK, -0.5, dtype=np.float32)
    values = np.empty_like(block)
    few = large[:2].T.copy()
    return Rates(
        product=2 * _SIZE**3 / _seconds(lambda: A @ B),
        factor=_FACTORED**3 / 3 / _seconds(lambda: arrays.cholesky(M.copy())),
        memory=large.nbytes / _seconds(lambda: large @ few),
        exponential=_BLOCK * blas_threads() / _seconds(lambda: np.exp(block, out=values)),
    )


def _seconds(call: Callable[[], object]) -> float:
    """The lesser of two times: the first call may have to wake threads and memory."""
    times = []
    for _ in range(_TRIALS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)
