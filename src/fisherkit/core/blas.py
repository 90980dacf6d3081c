"""Products added to NumPy arrays or subtracted in place, by the BLAS that SciPy carries.

NumPy writes every product to memory of its own, which one more pass has to add; SciPy's wrappers do
not let other threads run meanwhile. The same routines called through `ctypes` need neither. To
Fortran, a matrix whose rows are contiguous is its transpose.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from scipy.linalg import cython_blas
from threadpoolctl import threadpool_info

_ADDRESS = ctypes.c_void_p
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_address_of = ctypes.PYFUNCTYPE(_ADDRESS, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _routine(name: str) -> Any:
    """A routine of SciPy's BLAS; ``None`` where its integers are not those of C."""
    capsule = cython_blas.__pyx_capi__[name]
    signature = _name_of(capsule)
    kinds = signature.decode().partition("(")[2].rstrip(")").split(", ")
    if not all(kind in ("char *", "int *") or kind.endswith("_d *") for kind in kinds):
        return None
    return ctypes.CFUNCTYPE(None, *[_ADDRESS] * len(kinds))(_address_of(capsule, signature))


_GEMM, _SYRK = _routine("dgemm"), _routine("dsyrk")


def blas_threads() -> int:
    """Threads that matrix products use now: what the user, or the environment, allows."""
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(pools, default=1)


def serves(total: object, *factors: object) -> bool:
    """Whether the functions below take these arrays."""
    if _GEMM is None or _SYRK is None:
        return False
    matrices = [M for M in (total, *factors) if type(M) is np.ndarray]
    return (
        len(matrices) == 1 + len(factors)
        and _by_rows(matrices[0])
        and matrices[0].flags.writeable
        and all(_by_rows(M) or _by_rows(M.T) for M in matrices[1:])
    )


def subtract_product(total: np.ndarray, A: np.ndarray, B: np.ndarray) -> None:
    """total -= A B; the rows of ``total`` are contiguous, and it overlaps neither A nor B."""
    n, m = total.shape
    if A.shape != (n, len(B)) or B.shape != (len(B), m):
        raise ValueError(f"Shapes {A.shape} and {B.shape} have no product of shape {total.shape}.")
    _GEMM(
        *(_transposed(B), _transposed(A), _int(m), _int(n), _int(A.shape[1]), _double(-1.0)),
        *(*_memory(B), *_memory(A), _double(1.0), *_memory(total)),
    )


def add_gram(total: np.ndarray, F: np.ndarray) -> None:
    """total += F'F, the upper triangle; the rows of ``total`` are contiguous."""
    b, m = F.shape
    if total.shape != (m, m):
        raise ValueError(f"Products of {m} columns do not fit a matrix of shape {total.shape}.")
    _SYRK(
        *(b"L", _transposed(F), _int(m), _int(b), _double(1.0)),
        *(*_memory(F), _double(1.0), *_memory(total)),
    )


def _by_rows(M: np.ndarray) -> bool:
    """Whether the numbers of a row are adjacent doubles, and rows follow each other."""
    if M.dtype != np.float64 or M.ndim != 2 or M.size == 0 or not M.flags.aligned:
        return False
    row, column = M.strides
    return column == M.itemsize and row % M.itemsize == 0 and row >= M.itemsize * M.shape[1]


def _transposed(M: np.ndarray) -> bytes:
    """Whether Fortran has to transpose the transpose that it sees."""
    return b"N" if _by_rows(M) else b"T"


def _memory(M: np.ndarray) -> tuple[int, object]:
    """Where a matrix begins, and how far its rows (or columns) are apart."""
    return M.ctypes.data, _int(max(M.strides) // M.itemsize)


def _int(value: int) -> object:
    return ctypes.byref(ctypes.c_int(value))


def _double(value: float) -> object:
    return ctypes.byref(ctypes.c_double(value))
