"""How fast this machine is: measured once, to choose between ways to the same numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from fisherkit.core import arrays

_SIZE = 1536  # rows of the matrices that are measured with
_BEYOND_CACHES = 1 << 23  # numbers, in double precision
_TRIALS = 2
_GOOD = (20.0, 2.0)  # steps with a good preconditioner, and those of columns
_RANKED = 7  # products of n r^2 that a preconditioner of rank r takes
_EIGEN = 6  # times an inverse by Cholesky
_WIDE = 8  # bytes of a number in double precision


@dataclass(frozen=True)
class Rates:
    """What the machine does in a second.

    Operations of products and of Cholesky factors in single precision, and bytes read from memory.
    """

    product: float
    factor: float
    memory: float

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

    def steps(self, n: int, columns: int, all_steps: float, column_steps: float) -> float:
        """Seconds of so many steps: of the whole system, and of the columns of sampled rows."""
        whole = all_steps * _WIDE * n * n / 2 / self.memory
        return whole + column_steps * 2 * n * n * columns / self.product


@cache
def measured() -> Rates:
    """The rates of this process, with the threads that it has; in some tenths of a second."""
    A = np.full((_SIZE, _SIZE), 0.5, dtype=np.float32)
    A.flat[:: _SIZE + 1] = _SIZE
    B, large = A.copy(), np.ones((_BEYOND_CACHES // _SIZE, _SIZE))
    few = large[:2].T.copy()
    return Rates(
        product=2 * _SIZE**3 / _seconds(lambda: A @ B),
        factor=_SIZE**3 / 3 / _seconds(lambda: arrays.cholesky(A.copy())),
        memory=large.nbytes / _seconds(lambda: large @ few),
    )


def _seconds(call: Callable[[], object]) -> float:
    """The lesser of two times: the first call may have to wake threads and memory."""
    times = []
    for _ in range(_TRIALS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)
