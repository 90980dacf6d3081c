"""Centres by greedy reduction of the leave-one-out criterion (section 3.5.1 of the ORKFD paper).

Centres enter one by one, each time the candidate that leaves the smallest PRESS of the ridge model
on the centres chosen so far and itself, at a fixed kernel and mu. The model is that of the final
fit, either penalty: with penalty rows, forward selection prices exactly it,

    columns [K; T],     rkhs: T'T = mu K_cc,     coefficients: T'T = mu W_c^-1

(with a free bias, whatever the fit has). Candidates are a few times as many rows as centres are
wanted, drawn by weight; beyond some number of different rows, PRESS is that of a part of them. With
L = 4 m candidates and R rows each of the m steps costs O((R + L) L k).

Labels choose the centres: leave-one-out values of the model are conditional on them, and more
optimistic than with centres that did not see any label.
"""

from __future__ import annotations

import numpy as np

from fisherkit.core import Array, Gram, Weights, arrays, require_squares, select_terms

_CANDIDATES = 4  # for each centre
_ROWS = 10  # for each centre, on which candidates are priced
_LEAST_ROWS = 5000


def numbers(m: int, n: int) -> int:
    """Floats that choosing m centres among n rows holds: candidates by rows and penalty rows."""
    candidates = min(_CANDIDATES * m, n)
    return candidates * (min(priced_rows(m), n) + candidates)


def priced_rows(m: int) -> int:
    """Different rows, at most, on which candidates for m centres are priced."""
    return max(_ROWS * m, _LEAST_ROWS)


def choose_rows(
    gram: Gram, Y: Array, weights: Weights, penalty: str, m: int, mu: float, seed: int
) -> np.ndarray:
    """Rows (m,) of the centres for the targets Y (n, k), in the order of the data.

    The draws follow from the values of the rows and ``seed``; what ties, to rounding, goes to the
    candidate drawn first. So shuffled, repeated and weighted rows lead to the same centres.
    """
    distinct = gram.distinct()
    v = np.asarray(arrays.to_numpy(weights.v), dtype=np.float64)
    candidates = distinct.draw(v, _CANDIDATES * m, seed)
    rows = np.arange(gram.n)
    if len(distinct.first) > priced_rows(m):
        once = np.zeros(gram.n)
        once[distinct.first] = 1.0
        drawn = distinct.draw(once, priced_rows(m), seed + 1)
        rows = np.flatnonzero(distinct.like(drawn))  # with all their copies
    share = float(v[rows].sum() / v.sum())
    P = _columns(gram, candidates, rows, _frequency(weights, candidates), penalty, share * mu)
    require_squares(P)
    path = select_terms(
        P,
        np.asarray(arrays.to_numpy(Y), dtype=np.float64)[rows],
        Weights(_frequency(weights, rows), _host(weights.cost)[rows]),
        criterion="press",
        max_terms=m,
        patience=m,
        ridge=0.0,
    )
    # Where fewer directions than centres are left, to rounding, the others are random.
    spare = np.setdiff1d(np.arange(len(candidates)), path.order)
    return np.sort(candidates[np.append(path.order, spare)[:m]])


def _columns(
    gram: Gram,
    candidates: np.ndarray,
    rows: np.ndarray,
    frequency: np.ndarray,
    penalty: str,
    mu: float,
) -> np.ndarray:
    """Kernel values of the candidates with the rows, and the penalty rows; (L, R + s)."""
    C = arrays.indices(candidates, gram.X)
    values = _host(gram.between(C, arrays.indices(rows, gram.X)))
    if penalty == "coefficients":
        return np.hstack([values, np.diag(np.sqrt(mu / frequency))])
    corner = _host(gram.corner(C))
    largest = float(np.max(np.diagonal(corner)))
    L, kept = arrays.pivoted_cholesky(corner, len(corner) * arrays.eps(corner) * largest)
    root = arrays.solve_lower(L, corner[kept]).T  # root root' = K_cc, to rounding
    return np.hstack([values, np.sqrt(mu) * root])


def _frequency(weights: Weights, rows: np.ndarray) -> np.ndarray:
    return _host(weights.frequency)[rows]


def _host(values: Array) -> np.ndarray:
    return np.asarray(arrays.to_numpy(values), dtype=np.float64)
