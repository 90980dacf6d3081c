"""Array namespaces, devices and precision: the only module that knows about them.

Every other module writes the array API standard against the namespace that `namespace` returns.
The functions below are the few places where NumPy arrays deserve a BLAS or LAPACK routine that the
standard does not expose: products in place, in-place eigenvectors, the Cholesky inverse,
pivoted Cholesky. `read` makes arrays of the rows of frames and sparse matrices.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import array_api_compat as compat
import numpy as np
import scipy.linalg
from scipy.linalg import lapack
from sklearn import get_config

from fisherkit.core import blas, l1_distances
from fisherkit.interfaces import Container

if TYPE_CHECKING:
    from pandas import DataFrame

Array = Any

_NUMPY = compat.array_namespace(np.empty(0))
_SMALL_MATRIX = 2048  # rows up to which memory does not matter
_SMALL_FACTOR = 600  # rows of a triangle up to which inverting it by halves is faster
_UNKNOWN_MEMORY = 4 << 30  # bytes taken to be free where the system does not say
_PANEL = 4096  # columns of a large matrix that an accelerator factors, or inverts, together
_GRAM_LEAF = 1280  # columns of the smallest product in a symmetric one
_LEAST_ROWS = 1024  # of a block
BLOCK_ELEMENTS = 1 << 18  # 2 MiB of float64: a block of rows stays in the cache


def namespace(*arrays: Array) -> Any:
    """Return the array namespace shared by ``arrays`` (``None`` entries are ignored)."""
    if all(type(a) is np.ndarray for a in arrays):  # in inner loops, asking compat costs time
        return _NUMPY
    return compat.array_namespace(*(a for a in arrays if a is not None))


def is_array_api(x: Array) -> bool:
    """Say whether ``x`` is an array of some namespace (lists, frames and sparse are not)."""
    return compat.is_array_api_obj(x)


def dispatched(x: Any) -> bool:
    """Say whether scikit-learn's setting has the computation stay in the namespace of ``x``."""
    return is_array_api(x) and not is_numpy(x) and bool(get_config()["array_api_dispatch"])


def is_numpy(x: Array) -> bool:
    """Say whether ``x`` is a NumPy array."""
    return compat.is_numpy_array(x)


def is_dask(x: object) -> bool:
    """Say whether ``x`` is a Dask collection, without Dask."""
    return type(x).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(x, "to_delayed")


def library(x: Any) -> str:
    """Name of the array library of ``x``; whatever is not an array will become NumPy."""
    if not is_array_api(x):
        return "numpy"
    return namespace(x).__name__.removeprefix("array_api_compat.")


def to_numpy(x: Array) -> np.ndarray:
    """Copy a (small) array to host memory as NumPy."""
    try:
        return np.asarray(x)
    except (TypeError, RuntimeError):  # what device arrays raise
        pass
    try:
        return np.asarray(compat.to_device(x, "cpu"))
    except ValueError:  # a namespace with another name for the host
        devices = namespace(x).__array_namespace_info__().devices()
        return np.asarray(compat.to_device(x, next(d for d in devices if "cpu" in str(d).lower())))


def widen(x: Array) -> Array:
    """``x`` in float64, or as it is on a device that has none.

    Leave-one-out at small mu needs the digits: single precision would put the floor of mu at
    about 1e-3 of tr(G)/n.
    """
    xp = namespace(x)
    try:
        return xp.astype(x, xp.float64, copy=False)
    except (TypeError, RuntimeError):
        return x


def like(x: Any, reference: Array, *, dtype: Any = None) -> Array:
    """Bring ``x`` to the namespace, device and dtype of ``reference``."""
    xp = namespace(reference)
    dtype = reference.dtype if dtype is None else dtype
    if is_array_api(x) and namespace(x) is not xp:
        x = to_numpy(x)
    return xp.asarray(x, dtype=dtype, device=compat.device(reference))


def beside(x: np.ndarray, reference: Array) -> Array:
    """A host array moved to the namespace and device of ``reference``, its dtype kept."""
    return namespace(reference).asarray(x, device=compat.device(reference))


def on_device(x: np.ndarray, device: str) -> Array:
    """A host array moved to a device of PyTorch, such as "cuda"."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"device={device!r} needs PyTorch: pip install torch.") from error
    try:
        return torch.asarray(x, device=device)
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without one
        raise ValueError(f"device={device!r} cannot be used: {error}") from error


def on_host(model: object) -> object:
    """A copy of a fitted model whose arrays of PyTorch are those of NumPy."""
    import torch

    written = io.BytesIO()
    pickler = pickle.Pickler(written)
    pickler.dispatch_table = {torch.Tensor: lambda x: to_numpy(x).__reduce_ex__(4)}
    pickler.dump(model)
    return pickle.loads(written.getvalue())


def cast(x: Array, dtype: Any) -> Array:
    """``x`` in another dtype of its namespace."""
    return namespace(x).astype(x, dtype, copy=False)


def quiet_overflow() -> np.errstate:
    """A block, or a decorated function, whose user refuses what is not finite: no warning first."""
    return np.errstate(over="ignore", invalid="ignore")


def narrowed(x: Array, dtype: Any) -> Array:
    """``x`` in a dtype that users expect, unless finite values would become infinite in it."""
    xp = namespace(x)
    if x.dtype != dtype and x.shape[0] and float(xp.max(xp.abs(x))) > float(xp.finfo(dtype).max):
        return x
    return cast(x, dtype)


def indices(x: Any, reference: Array) -> Array:
    """Integer positions as an array beside ``reference``."""
    xp = namespace(reference)
    return like(np.asarray(x, dtype=np.int64), reference, dtype=xp.int64)


def float_dtypes(x: Any) -> Any:
    """The floats that ``x`` may have: of its own namespace, or of NumPy, which it will become."""
    dispatch = get_config()["array_api_dispatch"] and is_array_api(x)
    xp = namespace(x) if dispatch else np
    return [xp.float64, xp.float32]


def eps(x: Array) -> float:
    """Unit roundoff of the dtype of ``x``."""
    return float(namespace(x).finfo(x.dtype).eps)


def bits(x: Array) -> Array:
    """The bits of numbers in double precision as integers, beside ``x`` where that can be had.

    A zero has no sign.
    """
    x = widen(x) + 0.0
    if compat.is_torch_array(x) or compat.is_cupy_array(x):
        return x.view(namespace(x).int64)
    return to_numpy(x).astype(np.float64, copy=False).view(np.int64)


def row_blocks(n_rows: int, row_length: int, elements: int | None = None) -> Iterator[slice]:
    """Slices over ``n_rows`` such that a block holds about ``elements`` numbers (cache-sized)."""
    step = max(1, min(n_rows, (elements or BLOCK_ELEMENTS) // max(1, row_length)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def read(X: Container, rows: slice | np.ndarray) -> Array:
    """Some rows of any container, in a row or at these places, as a dense array of their dtype."""
    if hasattr(X, "toarray"):
        return X[rows].toarray()
    if hasattr(X, "iloc"):
        return frame_values(X.iloc[rows])
    if not is_array_api(X):
        return X[rows].to_numpy()
    if isinstance(X, np.ndarray):
        return np.asarray(X[rows])
    if isinstance(rows, slice):
        return X[rows, :]
    return namespace(X).take(X, indices(rows, X), axis=0)


def frame_values(frame: DataFrame) -> np.ndarray:
    """A pandas frame as an array; numbers of several types, or nullable ones, as floats."""
    values = frame.to_numpy()
    if values.dtype == object and all(dtype.kind in "biuf" for dtype in frame.dtypes):
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def free_memory(reference: Array) -> int:
    """Bytes that are free where ``reference`` lives."""
    if compat.is_torch_array(reference) and on_accelerator(reference):
        import torch

        return int(torch.cuda.mem_get_info(reference.device)[0])
    if compat.is_cupy_array(reference):
        return int(reference.device.mem_info[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return _UNKNOWN_MEMORY


def on_accelerator(x: Array) -> bool:
    """Say whether ``x`` is in the memory of a GPU."""
    return compat.is_cupy_array(x) or (compat.is_torch_array(x) and str(x.device) != "cpu")


def preferred_elements(reference: Array) -> int:
    """Numbers alive in a large block of rows: more on an accelerator."""
    return 1 << 30 if on_accelerator(reference) else 1 << 23


def accelerator_elements(reference: Array) -> int:
    """Numbers of a block that is worth a call on an accelerator; 0 elsewhere."""
    return 1 << 27 if on_accelerator(reference) else 0


def preferred_rows(reference: Array, row_length: int) -> int:
    """Rows of a block, of ``row_length`` numbers each, that keeps matrix products busy.

    An accelerator wants large ones; beside a cache smaller ones are faster, but not too small ones.
    """
    if on_accelerator(reference):
        return max(1, preferred_elements(reference) // row_length)
    return max(_LEAST_ROWS, (1 << 21) // row_length)


def exp_in_place(x: Array) -> Array:
    """Exponential that reuses the memory of ``x`` where the namespace can."""
    if is_numpy(x):
        return np.exp(x, out=x)
    return namespace(x).exp(x)


def expm1_in_place(x: Array) -> Array:
    """exp(x) - 1 that reuses the memory of ``x`` where the namespace can."""
    if is_numpy(x):
        return np.expm1(x, out=x)
    return namespace(x).expm1(x)


def clip_in_place(x: Array, *, lower: float | None = None, upper: float | None = None) -> Array:
    """Clip that reuses the memory of ``x`` where the namespace can."""
    if is_numpy(x):
        return np.clip(x, lower, upper, out=x)
    return namespace(x).clip(x, lower, upper)


def cityblock(X: Array, Y: Array, finish: Callable[[Array], Array] | None = None) -> Array:
    """Sum of absolute differences between rows of X (n, d) and Y (m, d); O(n m d).

    ``finish`` changes the entries, one by one and in place where the namespace can.
    """
    if is_numpy(X):
        return l1_distances.cityblock(X, Y, finish)
    xp = namespace(X, Y)
    total = xp.zeros((X.shape[0], Y.shape[0]), dtype=X.dtype, device=compat.device(X))
    for j in range(X.shape[1]):  # never an n x m x d tensor
        total += xp.abs(X[:, j, None] - Y[None, :, j])
    return total if finish is None else finish(total)


def take_rows(x: Array, rows: Array) -> Array:
    """x[rows]. (In NumPy, ``take`` first copies an array in Fortran order whole.)"""
    return x[rows] if is_numpy(x) else namespace(x).take(x, rows, axis=0)


def some_rows(x: Array, rows: Array | slice) -> Array:
    """x[rows] for rows in sequence, of which nothing is copied, or at these places."""
    return x[rows, :] if isinstance(rows, slice) else namespace(x).take(x, rows, axis=0)


def add_to_diagonal(M: Array, value: float) -> None:
    """M + value I in place, for a square C-contiguous M."""
    if is_numpy(M):
        M.flat[:: M.shape[0] + 1] += value
        return
    flat = namespace(M).reshape(M, (-1,), copy=False)
    flat[:: M.shape[0] + 1] += value


def subtract_product(total: Array, A: Array, B: Array) -> None:
    """total -= A B in place."""
    if blas.serves(total, A, B):
        blas.subtract_product(total, A, B)
    else:
        total -= A @ B


def add_gram(total: Array, F: Array) -> None:
    """total += F'F in place, for F (b, m): the upper triangle, about b m^2 flops.

    What is below the diagonal of ``total`` is unspecified until `symmetric` completes it.
    """
    if blas.serves(total, F):
        blas.add_gram(total, F)
    else:
        _add_gram_by_halves(total, F, 0, F.shape[1])


def _add_gram_by_halves(total: Array, F: Array, start: int, stop: int) -> None:
    """Large square products beside small ones on the diagonal."""
    if stop - start <= _GRAM_LEAF:
        total[start:stop, start:stop] += F[:, start:stop].T @ F[:, start:stop]
        return
    middle = (start + stop) // 2
    total[start:middle, middle:stop] += F[:, start:middle].T @ F[:, middle:stop]
    _add_gram_by_halves(total, F, start, middle)
    _add_gram_by_halves(total, F, middle, stop)


def symmetric(total: Array) -> Array:
    """The symmetric matrix whose upper triangle is that of ``total``."""
    xp = namespace(total)
    return xp.triu(total) + xp.triu(total, k=1).T


def zeros(shape: tuple[int, ...], reference: Array) -> Array:
    """Array of zeros beside ``reference``."""
    return namespace(reference).zeros(shape, dtype=reference.dtype, device=compat.device(reference))


def unit_matrix(size: int, x: Array) -> Array:
    """The unit matrix beside ``x``."""
    return namespace(x).eye(size, dtype=x.dtype, device=compat.device(x))


def empty(shape: tuple[int, ...], reference: Array) -> Array:
    """Uninitialised array beside ``reference``."""
    return namespace(reference).empty(shape, dtype=reference.dtype, device=compat.device(reference))


def eigh(M: Array) -> tuple[Array, Array]:
    """Eigenvalues (ascending) and eigenvectors of symmetric ``M``, which is consumed.

    Large NumPy matrices: LAPACK ``syevr`` on the transpose of ``M`` in place, peak memory ``M``
    plus 1.1 n^2 (``numpy.linalg.eigh`` needs 4.1 n^2). Small ones stay in NumPy's own LAPACK:
    NumPy and SciPy ship separate OpenBLAS thread pools, and alternating between them is slow.
    """
    if not is_numpy(M) or M.shape[0] <= _SMALL_MATRIX:
        w, V = namespace(M).linalg.eigh(M)
        return w, V
    F = M.T if M.flags.c_contiguous else M  # Fortran order without a copy: M is symmetric
    return scipy.linalg.eigh(F, driver="evr", overwrite_a=True, check_finite=False)


def narrow(x: Array) -> Array:
    """``x`` in single precision where that halves the time: NumPy's arrays, not those of a GPU."""
    return x.astype(np.float32) if is_numpy(x) and x.dtype == np.float64 else x


def spd_inverse(M: Array) -> Array | None:
    """Inverse of a positive definite ``M`` by Cholesky, or ``None`` where it is not one.

    Consumes ``M``. NumPy: ``potrf`` and ``potri`` in place, n^3 flops in all.
    """
    if is_numpy(M):
        F = M.T if M.flags.c_contiguous else M
        potrf, potri = scipy.linalg.get_lapack_funcs(("potrf", "potri"), (F,))
        factor, info = potrf(F, lower=1, overwrite_a=1, clean=0)
        if info:
            return None
        inverse, info = potri(factor, lower=1, overwrite_c=1)
        for rows in row_blocks(inverse.shape[0], inverse.shape[0]):
            inverse[: rows.stop, rows] = _symmetric_rows(inverse, rows)
        return inverse
    factor = cholesky(M)
    if factor is None:
        return None
    half = lower_triangular_inverse(factor)
    return half.T @ half


def spd_solve(M: Array, B: Array) -> tuple[Array, Array] | None:
    """M^-1 B and the diagonal of M^-1 by Cholesky, for ``M`` as in `spd_inverse`; consumes ``M``.

    Two thirds of the flops of `spd_inverse`.
    """
    if is_numpy(M):
        F = M.T if M.flags.c_contiguous else M
        potrf, potrs, trtri = scipy.linalg.get_lapack_funcs(("potrf", "potrs", "trtri"), (F,))
        factor, info = potrf(F, lower=1, overwrite_a=1, clean=1)
        if info:
            return None
        solved = potrs(factor, B, lower=1)[0]
        half = trtri(factor, lower=1, overwrite_c=1)[0]
        return solved, np.einsum("ij,ij->j", half, half)
    factor = cholesky(M)
    if factor is None:
        return None
    half = lower_triangular_inverse(factor)
    return half.T @ (half @ B), namespace(M).sum(half * half, axis=0)


def _symmetric_rows(lower: np.ndarray, rows: slice) -> np.ndarray:
    """Columns ``rows`` of the symmetric matrix whose lower triangle is valid, down to rows.stop."""
    out = lower[rows, : rows.stop].T.copy()
    square = lower[rows, rows]
    out[rows] = np.tril(square) + np.tril(square, -1).T
    return out


def set_symmetric(M: Array, rows: slice, block: Array) -> None:
    """M[rows, rows.start:] = block (b, n - start) in a symmetric ``M`` (n, n) for `cholesky`.

    NumPy: that reads no more, and memory below the diagonal is not touched.
    """
    M[rows, rows.start :] = block
    if not is_numpy(M):
        M[rows.start :, rows] = block.T


def cholesky(M: Array) -> Array | None:
    """Factor of a positive definite ``M``, consumed, for the functions below; ``None`` otherwise.

    NumPy: LAPACK in place, n^3/3 flops. The upper triangle is read, the other left as it was.
    """
    if is_numpy(M):
        (potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), (M,))
        factor, info = potrf(M.T, lower=1, overwrite_a=1, clean=0)
        return None if info else factor
    try:
        if on_accelerator(M):
            return _cholesky_in_place(M)
        return namespace(M).linalg.cholesky(M)
    except Exception:  # each namespace raises its own error type for a matrix that is not SPD
        return None


def _cholesky_in_place(M: Array) -> Array:
    """The factor of M in its memory, by blocks of columns; of those above the diagonal, zeros.

    Libraries of accelerators copy M first.
    """
    xp, n = namespace(M), M.shape[0]
    for some in row_blocks(n, 1, _PANEL):
        corner, below = slice(some.start, some.stop), slice(some.stop, n)
        M[corner, corner] = xp.linalg.cholesky(M[corner, corner])
        if some.stop == n:
            break
        M[corner, below] = solve_lower(M[corner, corner], M[below, corner].T)
        M[below, corner] = M[corner, below].T
        for others in row_blocks(n - some.stop, 1, _PANEL):
            columns = slice(some.stop + others.start, some.stop + others.stop)
            left, right = M[columns.start :, corner], M[corner, columns]
            subtract_product(M[columns.start :, columns], left, right)
        M[corner, below] = 0.0
    return M


def lower_factor(M: Array) -> Array | None:
    """Lower triangular L with L L' = M, which is kept; ``None`` if it is not positive definite."""
    if is_numpy(M):
        factor, info = lapack.dpotrf(M.T, lower=1, overwrite_a=0, clean=1)
        return None if info else factor
    return cholesky(M + 0.0)


def cholesky_log_det(factor: Array) -> float:
    """log |M| from the factor of M."""
    xp = namespace(factor)
    return 2 * float(xp.sum(xp.log(xp.linalg.diagonal(factor))))


def cholesky_solve(factor: Array, B: Array) -> Array:
    """M^-1 B from the factor of M; O(n^2 k)."""
    if is_numpy(factor):
        (potrs,) = scipy.linalg.get_lapack_funcs(("potrs",), (factor,))
        return potrs(factor, B, lower=1)[0]
    return solve_lower(factor, solve_lower(factor, B), transposed=True)


def cholesky_inverse(factor: Array) -> Iterator[tuple[slice, slice, Array]]:
    """M^-1 from the factor of M, consumed: rows, columns and values of blocks [rows, rows.start:].

    They cover the diagonal blocks and what is above them. NumPy: 2/3 n^3 flops, and no pass over
    memory to make the inverse symmetric.
    """
    n = factor.shape[0]
    if not is_numpy(factor):
        half = lower_triangular_inverse(factor)
        yield slice(0, n), slice(0, n), half.T @ half
        return
    if n <= _SMALL_FACTOR:
        upper = lapack.dlauum(_halved_inverse(np.tril(factor)), lower=1, overwrite_c=1)[0].T
    else:
        upper = lapack.dpotri(factor, lower=1, overwrite_c=1)[0].T
    for rows in row_blocks(n, n, 1 << 15):  # small blocks: little is computed twice
        block = upper[rows, rows.start :]
        square = block[:, : block.shape[0]]
        square[...] = np.triu(square) + np.triu(square, 1).T
        yield rows, slice(rows.start, n), block


def _halved_inverse(L: np.ndarray) -> np.ndarray:
    """Inverse of a lower triangular matrix by halves: mostly products, where LAPACK's is slow."""
    n = L.shape[0]
    if n <= 96:
        return lapack.dtrtri(L, lower=1)[0]
    h = n // 2
    out = np.zeros((n, n), order="F")
    first, second = _halved_inverse(L[:h, :h]), _halved_inverse(L[h:, h:])
    out[:h, :h], out[h:, h:] = first, second
    np.matmul(-second, L[h:, :h] @ first, out=out[h:, :h])
    return out


def is_positive_definite(M: Array) -> bool:
    """Say whether the symmetric ``M`` has a Cholesky factor; n^3/3 flops."""
    return lower_factor(M) is not None


def pivoted_cholesky(H: Array, tol: float) -> tuple[Array, np.ndarray]:
    """Greedy pivoted Cholesky of a small symmetric positive semi-definite ``H`` (b, b).

    Stops when the largest residual diagonal is at most ``tol``. Returns the lower triangular
    factor of ``H[piv][:, piv]`` (k, k) and the pivots (k,) on the host.
    """
    F, piv, rank, _ = lapack.dpstrf(to_numpy(H).astype(np.float64), tol=tol, lower=1)
    factor = np.tril(F[:rank, :rank])
    return like(factor, H), piv[:rank] - 1


def inverse_half(factor: Array) -> Array:
    """H with H'H = M^-1 from the `cholesky` factor of M, consumed; n^3/3 flops."""
    if is_numpy(factor):
        (trtri,) = scipy.linalg.get_lapack_funcs(("trtri",), (factor,))
        half = trtri(factor, lower=1, overwrite_c=1)[0]
        for some in row_blocks(*half.shape):  # what is above the diagonal is of the matrix
            half[: some.start, some] = 0.0
            half[some, some] = np.tril(half[some, some])
        return half
    return _inverted_in_place(factor)


def _inverted_in_place(L: Array) -> Array:
    """The inverse X of a lower triangular L in its memory, by blocks of columns, each from its top.

    X_ij = -L_ii^-1 sum_k L_ik X_kj over j <= k < i: products, whose memory is that of a block.
    """
    blocks = list(row_blocks(L.shape[0], 1, _PANEL))
    corners = [lower_triangular_inverse(L[some, some]) for some in blocks]
    for j, columns in enumerate(blocks):
        L[columns, columns] = corners[j]
        for some, corner in zip(blocks[j + 1 :], corners[j + 1 :], strict=True):
            before = slice(columns.start, some.start)
            L[some, columns] = -(corner @ (L[some, before] @ L[before, columns]))
    return L


def lower_triangular_inverse(L: Array) -> Array:
    """Inverse of a lower triangular (k, k) matrix."""
    if is_numpy(L):
        return lapack.dtrtri(L, lower=1)[0]
    return solve_lower(L, unit_matrix(L.shape[0], L))


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """Solve L X = B, or L' X = B, for a lower triangular L (k, k)."""
    if is_numpy(L):
        return scipy.linalg.solve_triangular(
            L, B, lower=True, trans=1 if transposed else 0, check_finite=False
        )
    xp = namespace(L)
    if compat.is_torch_array(L):
        return xp.linalg.solve_triangular(L.T if transposed else L, B, upper=transposed)
    if compat.is_cupy_array(L):
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(L, B, lower=True, trans=1 if transposed else 0)
    return xp.linalg.solve(L.T if transposed else L, B)
