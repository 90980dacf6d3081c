"""Which columns of the kernel matrix span the model, and the low-rank path.

`low_rank` finds K = L'L + E with a residual E whose trace is below a given budget, reading only the
rows of K that it keeps: blocks of random pivots drawn in proportion to the residual diagonal, each
block thinned by a small pivoted Cholesky. The draw depends on the values of the rows, not on their
order or on how often they are repeated. Its pivots are centres, and L'L is exactly the rkhs model
on these centres, so prediction evaluates r kernels. Where the rank is not low it gives up early.

`centres` builds the features of a model on given centres, for either penalty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.kernels import Gram, not_finite

BASES = ("auto", "full", "pivoted", "random")  # that do not depend on labels

_BLOCK = 128  # pivots drawn at once
_LAST_BLOCK = 16  # drawn at least
_MARGIN = 1.2  # drawn for each one that is predicted to be missing
_OWN = 1e-3  # error of k(x, x), relative, from which products say nothing of the others
_KEEP = 0.002  # a drawn pivot is kept while its residual is above this share of the block's largest
_CAP = 0.7  # of n: beyond this rank a full eigendecomposition is cheaper
_PREDICT_FROM = 0.06  # of the distinct rows: from this many pivots on, the rank is predicted
_ENOUGH = 1000  # pivots from which it is predicted, however many rows there are
_PREDICT_SHARE = 0.25  # of the rank at which to give up: the same
_CAPACITY = 1024  # rows reserved for the factor at first
_PROBE_ROWS = 32


@dataclass(frozen=True)
class Factor:
    """K = L'L + E, with L (r, n), the r pivot rows and the weighted trace of E."""

    L: Array
    pivots: np.ndarray
    left_out: float


def low_rank(
    gram: Gram,
    weight: Array,
    budget: float,
    rng: np.random.RandomState,
    *,
    max_rank: int | None = None,
    give_up: int | None = None,
    copies: float = 0.0,
) -> Factor | None:
    """Factor K until sum_i weight_i E_ii <= budget; O(n r^2), K is never formed.

    Without ``max_rank`` it returns ``None`` as soon as the rank is predicted to pass 0.7 of the
    number of rows (or ``copies`` of them, if more), or ``give_up``; with ``max_rank``, it stops
    there whatever is left.
    """
    xp = arrays.namespace(gram.X)
    distinct, seed = gram.distinct(), rng.randint(np.iinfo(np.int32).max)
    highest = len(distinct.first)
    cap = min(highest, int(_CAP * max(gram.n, copies)) + 1 if max_rank is None else max_rank)
    predict_from = min(_PREDICT_FROM * highest, _ENOUGH)
    if give_up is not None:
        cap, predict_from = min(cap, give_up), min(predict_from, _PREDICT_SHARE * give_up)
    residual = gram.diagonal()
    scale = float(xp.max(residual))
    rounding = 4 * arrays.eps(gram.X) * scale  # below this a residual diagonal is noise
    store = _Rows(residual, gram.n, _CAPACITY if max_rank is None else cap)
    pivots: list[int] = []
    history: list[tuple[int, float]] = []
    alarms = 0
    while True:
        host = np.asarray(arrays.to_numpy(weight * residual), dtype=np.float64)
        trace = float(host.sum())
        history.append((len(pivots), trace))
        if trace <= budget or len(pivots) >= cap or not np.any(host > 0):
            break
        if max_rank is None and len(pivots) >= predict_from:
            alarms = alarms + 1 if _predicted_rank(history, budget) > cap else 0
            if alarms >= 2:
                return None
        size = min(_BLOCK, cap - len(pivots))
        if len(history) > 1 and max_rank is None:  # no more than the last block will need
            missing = _predicted_rank(history, budget) - len(pivots)
            size = min(size, max(_LAST_BLOCK, math.ceil(_MARGIN * min(missing, size))))
        drawn = distinct.draw(host, size, seed + len(history))
        S = arrays.indices(drawn, gram.X)
        # Cholesky of the residual kernel among the drawn rows decides which of them are kept.
        L = store.filled
        L_S = xp.take(L, S, axis=1)
        H = gram.rows(S, S)
        if not pivots and not _own_values(H, xp.take(residual, S, axis=0)):
            if max_rank is None:
                return None
            raise ValueError(
                "The kernel is so narrow, beside the largest distance between rows, that rounding "
                "decides its values. Use a smaller gamma, or bring outlying rows nearer, for "
                "example by sklearn.preprocessing.RobustScaler or QuantileTransformer."
            )
        H = H - L_S.T @ L_S
        largest = float(xp.max(xp.take(residual, S, axis=0)))
        corner, kept = arrays.pivoted_cholesky(H, max(_KEEP * largest, rounding))
        if len(kept) == 0:
            residual = _clear(residual, distinct.like(drawn))
            continue
        P = arrays.indices(drawn[kept], gram.X)
        rows = gram.rows(P)
        if not bool(xp.all(xp.isfinite(rows))):
            raise ValueError(not_finite("a row has NaN or infinity with some other"))
        rows -= xp.take(L, P, axis=1).T @ L
        rows = arrays.lower_triangular_inverse(corner) @ rows
        store.append(rows)
        pivots.extend(int(i) for i in drawn[kept])
        residual = arrays.clip_in_place(residual - xp.sum(rows * rows, axis=0), lower=0.0)
        residual = _clear(residual, distinct.like(drawn[kept]))
    if trace > budget and max_rank is None:
        return None
    return Factor(store.filled, np.asarray(pivots, dtype=np.int64), trace)


def _own_values(H: Array, diagonal: Array) -> bool:
    """Whether kernel values found by products have k(x, x) where a row meets itself."""
    xp = arrays.namespace(H)
    gap = xp.abs(xp.linalg.diagonal(H) - diagonal)
    return bool(xp.all(gap <= _OWN * xp.max(diagonal)))


class _Rows:
    """A matrix that grows by rows. Memory that is not filled is not touched, and doubles."""

    def __init__(self, reference: Array, length: int, capacity: int):
        self._buffer = arrays.empty((capacity, length), reference)
        self._count = 0

    @property
    def filled(self) -> Array:
        return self._buffer[: self._count, :]

    def append(self, rows: Array) -> None:
        end = self._count + rows.shape[0]
        if end > self._buffer.shape[0]:
            larger = arrays.empty((2 * end, rows.shape[1]), rows)
            larger[: self._count, :] = self.filled
            self._buffer = larger
        self._buffer[self._count : end, :] = rows
        self._count = end


def corner_solver(factor: Factor) -> Callable[[Array], Array]:
    """Map from weights of the features L' (n, r) to coefficients of the pivots, L_pp^-1 w."""
    xp = arrays.namespace(factor.L)
    corner = xp.take(factor.L, arrays.indices(factor.pivots, factor.L), axis=1).T
    return lambda w: arrays.solve_lower(corner, w, transposed=True)


def squared(factor: Factor, frequency: Array) -> tuple[Array, Array]:
    """L2 and R with K W K = L2'L2 and L2 = R'L: the coefficients penalty on a low-rank factor."""
    xp = arrays.namespace(factor.L)
    d, V = arrays.eigh((factor.L * frequency[None, :]) @ factor.L.T)
    R = V * xp.sqrt(xp.clip(d, 0.0, None))
    return R.T @ factor.L, R


def frobenius(gram: Gram, frequency: Array, rng: np.random.RandomState) -> float:
    """Estimate of the Frobenius norm of W^1/2 K W^1/2 from a few of its rows."""
    xp = arrays.namespace(gram.X)
    p = np.asarray(arrays.to_numpy(frequency), dtype=np.float64)
    drawn = np.unique(rng.choice(gram.n, size=_PROBE_ROWS, p=p / p.sum()))
    rows = gram.rows(arrays.indices(drawn, gram.X))
    return (float(xp.mean(xp.sum(frequency * rows * rows, axis=1))) * float(p.sum())) ** 0.5


def _clear(residual: Array, rows: np.ndarray) -> Array:
    """Residual diagonal with the rows already interpolated (a mask) set to zero."""
    return residual * arrays.like(~rows, residual)


def _predicted_rank(history: list[tuple[int, float]], budget: float) -> float:
    """Rank at which the trace falls to the budget, by the slope of its logarithm so far."""
    k, trace = history[-1]
    k0, trace0 = min(history[:-1], key=lambda point: abs(point[0] - k / 2))
    slope = math.log(trace0 / trace) / (k - k0) if trace0 > trace else 0.0
    return k + math.log(trace / budget) / slope if slope > 0 else math.inf


def explains(factor: Factor, gram: Gram, rng: np.random.RandomState) -> bool:
    """Probe whether K = L'L to within what the residual diagonal allows.

    For a positive semi-definite K the residual is bounded by its diagonal; an indefinite K can
    have a vanishing diagonal and large values beside it. A precomputed matrix is multiplied with a
    random vector, another kernel is compared on random rows.
    """
    xp = arrays.namespace(gram.X)
    n = gram.n
    allowed = factor.left_out + 1e3 * n * arrays.eps(gram.X) * float(xp.max(gram.diagonal()))
    if gram.kernel.precomputed:
        z = arrays.like(rng.standard_normal((n, 1)), gram.X)
        gap = gram.X @ z - factor.L.T @ (factor.L @ z)
        return float(xp.max(xp.abs(gap))) <= 10 * allowed
    rows = arrays.indices(rng.choice(n, size=min(_PROBE_ROWS, n), replace=False), gram.X)
    gap = gram.rows(rows) - xp.take(factor.L, rows, axis=1).T @ factor.L
    return float(xp.max(xp.abs(gap))) <= allowed


@dataclass(frozen=True)
class Features:
    """Features Z (n, m) of a model on centres; ``lift`` takes their weights to coefficients."""

    Z: Array
    rows: np.ndarray
    lift: Callable[[Array], Array]


def centres(gram: Gram, rows: np.ndarray, frequency: Array, penalty: str) -> Features:
    """Features of the model on the centres ``rows``; O(n m^2) for rkhs, O(n m) otherwise.

    rkhs: Z = K_n L^-T with K_nn = L L' by pivoted Cholesky, which drops centres that repeat others
    to rounding. coefficients: Z = K_n W_n^1/2, the centres carry the frequency weights.
    """
    xp = arrays.namespace(gram.X)
    C = arrays.indices(rows, gram.X)
    if penalty == "coefficients":
        root = xp.sqrt(xp.take(frequency, C, axis=0))
        return Features(gram.columns(C) * root[None, :], rows, lambda w: root[:, None] * w)
    K_nn = gram.corner(C)
    largest = float(xp.max(xp.linalg.diagonal(K_nn)))
    corner, kept = arrays.pivoted_cholesky(K_nn, len(rows) * arrays.eps(gram.X) * largest)
    if len(kept) == 0:  # a kernel that vanishes on every centre
        return Features(gram.columns(C)[:, :1], rows[:1], lambda w: w)
    block = gram.columns(arrays.indices(rows[kept], gram.X))
    return Features(
        arrays.solve_lower(corner, block.T).T,
        rows[kept],
        lambda w: arrays.solve_lower(corner, w, transposed=True),
    )


def leading_rows(gram: Gram, count: int) -> np.ndarray:
    """All rows, with ``count`` of them first that leave little of K for the others."""
    factor = low_rank(
        gram,
        arrays.namespace(gram.X).ones_like(gram.X[:, 0]),
        0.0,
        np.random.RandomState(0),
        max_rank=count,
    )
    assert factor is not None
    return np.concatenate([factor.pivots, np.setdiff1d(np.arange(gram.n), factor.pivots)])


def choose_rows(
    basis: str,
    n_components: int,
    gram: Gram,
    weight: Array,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Rows of the centres: drawn by weight ("random"), or as pivots of the kernel ("pivoted")."""
    if basis == "random":
        chances = np.asarray(arrays.to_numpy(weight), dtype=np.float64)
        seed = rng.randint(np.iinfo(np.int32).max)
        return np.sort(gram.distinct().draw(chances, n_components, seed))
    factor = low_rank(gram, weight, 0.0, rng, max_rank=n_components)
    assert factor is not None  # a rank limit never gives up
    return np.sort(factor.pivots) if len(factor.pivots) else np.zeros(1, dtype=np.int64)


def require_positive_diagonal(gram: Gram) -> None:
    """Raise where a negative diagonal already shows that K is not positive semi-definite."""
    smallest = float(arrays.namespace(gram.X).min(gram.diagonal()))
    if smallest < 0:
        raise ValueError(
            "The kernel matrix is not positive semi-definite: its smallest eigenvalue is at most "
            f"{smallest:.6g}, a value on its diagonal."
        )
