"""The compiled sweep of forward selection: deflate every candidate, and bound its price.

The loops are written for numba, which turns them into machine code where it is installed; the model
that they serve, and what the numbers mean, is in `fisherkit.core.forward`.
"""

from __future__ import annotations

import functools
import importlib
from collections import namedtuple
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

_THREADED = 1 << 20  # numbers in P from which threads pay
TIE = 1e-9  # relative difference of prices that rounding could make

Step = namedtuple("Step", "last R q q3 margin lean label v ridge rate")


def compiled_sweep(P: np.ndarray, live: np.ndarray, step: Step, out: np.ndarray) -> None:
    """`sweep` on all threads; candidates are independent, so their number changes nothing."""
    run, threads = _compile()
    if threads == 1 or P.size < _THREADED:
        run(P, live, step, out)
        return
    with ThreadPoolExecutor(threads) as executor:
        parts = np.array_split(live, 4 * threads)
        list(executor.map(lambda part: run(P, part, step, out), parts))


@functools.cache
def _compile() -> tuple[Callable[..., None], int]:
    """`sweep` in machine code, free of the interpreter lock, and the threads it may use."""
    numba = importlib.import_module("numba")  # here, so that importing fisherkit does not pay
    flags = {"reassoc", "contract", "nsz", "arcp"}
    compiled = numba.njit(cache=True, nogil=True, fastmath=flags)(sweep)
    return compiled, numba.config.NUMBA_NUM_THREADS


def sweep(P: np.ndarray, live: np.ndarray, step: Step, out: np.ndarray) -> None:
    """Deflate the ``live`` rows of P by the term entered last and bound the price of each.

    Fills ``out`` (4, L) with slope (product with the last term), kappa, weight of misclassified
    rows (if counted), bound (zero where others misclassify less). Written for the compiler.
    """
    last, R, q, q3, margins, lean, label, v, ridge, rate = step
    k, n = R.shape
    gamma, lift, low = np.empty(k), np.empty(n), np.empty(n)
    fewest = np.inf
    for j in live:
        p = P[j]
        a = 0.0
        for i in range(n):
            a += last[i] * p[i]
        r = R[0]
        square = product = 0.0
        for i in range(n):
            x = p[i] - a * last[i]
            p[i] = x
            square += x * x
            product += r[i] * x
        out[0, j], out[1, j], gamma[0] = a, square, product
        if square == 0.0:
            continue
        for c in range(1, k):
            r = R[c]
            product = 0.0
            for i in range(n):
                product += r[i] * p[i]
            gamma[c] = product
        curve = 1.0 / (square + ridge)
        gamma *= curve
        if rate:
            wrong = 0.0
            if k == 1:
                g, m = gamma[0], margins[0]
                for i in range(n):
                    x = p[i]
                    if m[i] + x * (g * lean[i] - curve * x) < 0.0:
                        wrong += v[i]
            else:
                for i in range(n):
                    lift[i] = gamma[label[i]]
                low[:] = np.inf
                for c in range(k):
                    g, m = gamma[c], margins[c]
                    for i in range(n):
                        low[i] = min(low[i], m[i] + (lift[i] - g) * lean[i] * p[i])
                for i in range(n):
                    if low[i] < curve * p[i] * p[i]:
                        wrong += v[i]
            out[2, j] = wrong
            if wrong > fewest * (1.0 + TIE):
                continue
            fewest = min(fewest, wrong)
        total = 0.0
        for c in range(k):
            g, r = gamma[c], R[c]
            for i in range(n):
                x = p[i]
                e = r[i] - g * x
                total += e * e * (q[i] + 2.0 * curve * q3[i] * x * x)
        out[3, j] = total
