"""Orthogonal forward selection of kernel columns.

A model of t terms is f = mean(Y) + sum_j gamma_j w_j: the bias is always in, unpenalised, and the
w_j are the chosen kernel columns made orthogonal to the constant and to each other under the
weights v. With the equation numbers of the F-OFS-LOO paper, corrected,

    kappa_j = sum_i v_i w_j(i)^2,   gamma_j = sum_i v_i w_j(i) y(i) / (kappa_j + lambda_j)     (8)
    h(i) = v_i/sum(v) + sum_j v_i w_j(i)^2 / (kappa_j + lambda_j),   beta(i) = 1 - h(i) delta_i/v_i
    left-out residual  (y(i) - f(i)) / beta(i)                                           (19)-(22)

Leaving row i out removes delta_i of its weight v_i; the orthogonalisation is kept. The row is then
misclassified where its margin is negative. With e = y - f, beta(i) times the margin is

    +-1 codes:  beta(i) - y(i) e(i)        indicators:  beta(i) - e_c(i) + min_{c' != c} e_c'(i)

"loo_error" and "press" deflate all candidates at each step (modified Gram-Schmidt), in a compiled
sweep that also bounds the price of each from below: beta only shrinks as terms enter, and 1/beta^2
lies above its tangent. Exact prices, compiled or not, then come from the same code. "err"
(orthogonal least squares) needs one product with P a step.

*Penalty rows.* Ridge regression is least squares with rows added: columns [K; T] with targets 0 in
the added rows and T'T = mu S minimise sum_i v_i e(i)^2 + mu alpha'S alpha. Columns of P beyond the
rows of Y are such rows: they take part in every product, and neither in the bias nor in the prices.
With lambda = 0 the left-out residuals are then those of the ridge regression on the chosen terms.

All leave-one-out quantities are conditional on the selection: exact for the terms as chosen, and
optimistic because the rows left out took part in choosing them.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
from collections import namedtuple
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import lapack

from fisherkit.core.arrays import row_blocks
from fisherkit.core.weights import Weights

CRITERIA = ("loo_error", "press", "err")

_SINGULAR = {"loo_error": 1e-8, "press": 1e-8, "err": 1e-9}  # of the largest kappa: skipped below
_CONSTANT = 1e-26  # of a column's squared mean: what centring may leave of a constant
_BOUNDARY = 1e-10  # a margin this close to zero is zero, and the row counts as right
# Leverage one to half the digits: nothing but the row itself determines its score. The left-out
# score is then taken as zero, and the row counts as wrong.
_SATURATED = 1e-8
_NOISE = 1e-12  # the same, relative to the price of the bias alone
_STALE = 1e-3  # fall of a downdated kappa after which it is computed afresh
_CACHED = 1 << 16  # numbers handled at once by NumPy, to stay in cache
_THREADED = 1 << 20  # numbers in P from which threads pay
TIE = 1e-9  # relative difference of prices that rounding could make

Step = namedtuple("Step", "last R q q3 margin lean label v ridge rate")


@dataclass(frozen=True)
class ForwardPath:
    """Models of every size 0 ... T, nested in the order in which their terms entered.

    Attributes
    ----------
    order : (T,)
        Candidates in order of entry.
    loo_error, loo_mse : (T + 1,)
        Weighted share of rows misclassified when left out, and weighted mean of their squared
        residuals (summed over targets), by size; conditional on the selection.
    best : int
        Size with the best criterion; 0 where no term improves on the bias, T for "err".
    A, W : (T, T), (T, n)
        K[:, order] = 1 means' + w A with A unit upper triangular; W has sqrt(v) w_j as rows.
    kappa, ridge, means, gamma : (T,), (T,), (T,), (T, k)
        w_j'w_j, lambda_j, weighted means of the chosen columns, coefficients of the w_j.
    """

    order: np.ndarray
    loo_error: np.ndarray
    loo_mse: np.ndarray
    best: int
    A: np.ndarray = field(repr=False)
    W: np.ndarray = field(repr=False)
    kappa: np.ndarray = field(repr=False)
    ridge: np.ndarray = field(repr=False)
    means: np.ndarray = field(repr=False)
    gamma: np.ndarray = field(repr=False)
    Y: np.ndarray = field(repr=False)
    weights: Weights = field(repr=False)

    @functools.cached_property
    def mean(self) -> np.ndarray:
        """The bias alone, (k,)."""
        return self.weights.mean(self.Y)

    def coefficients(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """coef (size, k), intercept (k,) of f(x) = k(x, order[:size])' coef + intercept.

        Back-substitution in A coef = gamma; O(size^2 k).
        """
        coef = self.gamma[:size]
        if size:
            coef = lapack.dtrtrs(self.A[:size, :size], coef, unitdiag=1)[0]
        return coef, self.mean - self.means[:size] @ coef


def select_terms(
    P: np.ndarray,
    Y: np.ndarray,
    weights: Weights,
    *,
    criterion: str,
    max_terms: int,
    patience: int,
    ridge: float = 1e-6,
    compiled: bool | None = None,
) -> ForwardPath:
    """Forward selection among the candidate kernel columns k(x_i, c_j) = P[j, i].

    O(n L k) per step, without a copy of P. Candidates of which orthogonalisation leaves a kappa_j
    below 1e-8 ("err": 1e-9) of the largest initial one are skipped.

    Parameters
    ----------
    P : (L, n) or (L, n + s)
        One candidate per row, in C order, and s penalty rows if there are any. Overwritten.
    Y : (n, k)
        +-1 codes (k = 1) or class indicators (k >= 3).
    weights : Weights
        All positive.
    criterion : {"loo_error", "press", "err"}
        The candidate entered has the smallest left-out error rate (ties: left-out squared error),
        the smallest left-out squared error, or the largest error reduction ratio
        (w_j'y)^2 / (w_j'w_j y'y). What still ties, to rounding, goes to the lowest index.
    max_terms, patience : int
        "loo_error" and "press" stop after ``patience`` steps without a better criterion.
    ridge : float
        lambda of every term, absolute (in units of kappa).
    compiled : bool, optional
        Sweep with numba (by default where it is installed) or NumPy; the terms are the same.
    """
    if compiled is None:
        compiled = importlib.util.find_spec("numba") is not None
    P = np.ascontiguousarray(P, dtype=np.float64)
    means, kappa = _whiten(P, weights)
    floor = _SINGULAR[criterion] * kappa.max(initial=0.0)
    floor = np.maximum(floor, _CONSTANT * weights.mass * means**2)
    capacity, rate = min(max_terms, len(P)), criterion == "loo_error"
    fit = _Fit(Y, weights, capacity, rate, penalty_rows=P.shape[1] - len(Y))
    live = np.flatnonzero(kappa > floor)
    if criterion == "err":
        entries, patience = _least_squares(P, live, floor, fit), max_terms
    else:
        entries = _leave_one_out(P, live, floor, fit, ridge, compiled)
    best = 0
    for j, slopes in itertools.islice(entries, max_terms):
        fit.add(j, P[j], means[j], slopes, ridge)
        if fit.better(fit.size, best):
            best = fit.size
        if fit.size - best >= patience:
            break
    return fit.path(fit.size if criterion == "err" else best)


def update_ridge(path: ForwardPath, size: int, *, iterations: int = 10) -> ForwardPath:
    """The prefix with one lambda per term, from the evidence procedure; O(n size (size + k)).

    rho_j = kappa_j / (kappa_j + lambda_j),  lambda_j <- rho_j/(n - 1 - sum rho) e'e/|gamma_j|^2

    with old values on the right, (9) and (10), summed over targets; the bias takes one degree of
    freedom. Terms with rho_j < 1e-6 are dropped and the others made orthogonal again. The
    leave-one-out values of the new path belong to the new lambda, which did not minimise them.
    """
    W, kappa, ridge = path.W[:size], path.kappa[:size], path.ridge[:size]
    projection = path.gamma[:size] * (kappa + ridge)[:, None]
    target = (path.Y - path.mean).T * path.weights.root
    for _ in range(iterations):
        rho, gamma = kappa / (kappa + ridge), projection / (kappa + ridge)[:, None]
        noise = np.sum((target - gamma.T @ W) ** 2) / max(path.weights.total - 1 - rho.sum(), 1.0)
        signal = np.maximum(np.sum(gamma**2, axis=1), 1e-280)
        ridge = np.clip(rho * noise / signal, 1e-12, 1e12)
    kept = np.flatnonzero(kappa / (kappa + ridge) >= 1e-6)
    columns = path.A[:size, :size].T @ W
    fit = _Fit(path.Y, path.weights, capacity=len(kept))
    for j in kept:
        fit.add(path.order[j], columns[j], path.means[j], np.zeros(fit.size), ridge[j])
    return fit.path(fit.size)


class _Fit:
    """The model while terms enter it: residuals E (k, n), beta (n,), whitened terms W (t, n)."""

    def __init__(
        self,
        Y: np.ndarray,
        weights: Weights,
        capacity: int,
        rate: bool = False,
        penalty_rows: int = 0,
    ):
        def padded(values: np.ndarray, filling: float) -> np.ndarray:
            beyond = np.full((*values.shape[:-1], penalty_rows), filling)
            return np.concatenate([values, beyond], axis=-1)

        self.Y, self.weights, self.capacity, self.rate = Y, weights, capacity, rate
        self.root, self.counted = padded(weights.root, 1.0), padded(weights.v, 0.0)
        self.share = padded(weights.delta / weights.v, 0.0)
        self.code = padded(np.where(Y.T > 0, 1.0, -1.0), 1.0)
        self.E = padded((Y - weights.mean(Y)).T, 0.0)
        self.beta = padded(1 - weights.delta / weights.mass, 1.0)
        self.basis = np.empty((capacity + 1, len(self.root)))
        self.norms = np.empty(capacity + 1)
        self.basis[0], self.norms[0] = padded(weights.root, 0.0), weights.mass  # the bias, whitened
        self.W, self.kappa = self.basis[1:], self.norms[1:]
        self.size, self.order = 0, np.empty(capacity, dtype=np.intp)
        self.A = np.eye(capacity)
        self.ridge, self.means = np.empty((2, capacity))
        self.gamma = np.empty((capacity, Y.shape[1]))
        self.prices = [self.price(self.E, self.beta)]

    def margins(self, E: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """beta times the left-out margin against each rival, (..., k, n); infinite for c itself."""
        if len(self.code) == 1:
            return beta[..., None, :] - self.code * E
        truth = np.sum(E, axis=-2, where=self.code > 0, keepdims=True)
        return np.where(self.code > 0, np.inf, beta[..., None, :] - truth + E)

    def price(self, E: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Left-out error rate and mean square (2, ...) for residuals (..., k, n), beta (..., n)."""
        unknown = beta < _SATURATED
        wrong = (np.min(self.margins(E, beta), axis=-2) < -_BOUNDARY) | unknown
        squares = np.einsum("...ki,...ki->...i", E, E) / np.maximum(beta, _SATURATED) ** 2
        np.maximum(squares, 1.0, out=squares, where=unknown)
        return np.stack([wrong @ self.counted, squares @ self.counted]) / self.weights.mass

    def price_with(self, X: np.ndarray, ridge: float) -> np.ndarray:
        """Prices (2, m) of the model with each of the deflated candidates X (m, n) entered."""
        root = self.root
        scale = np.maximum(np.einsum("mi,mi->m", X, X) + ridge, np.finfo(float).tiny)
        gamma = X @ (self.E * root).T / scale[:, None]
        E = self.E - gamma[:, :, None] * (X / root)[:, None, :]
        return self.price(E, self.beta - self.share * X**2 / scale[:, None])

    def slack(self, mse: float) -> float:
        """Difference of mean squares that rounding could make."""
        return TIE * mse + _NOISE * self.prices[0][1]

    def better(self, size: int, other: int) -> bool:
        """Whether one prefix has the better criterion, by more than rounding."""
        (error, mse), (old_error, old_mse) = self.prices[size], self.prices[other]
        if self.rate and abs(error - old_error) > TIE:
            return bool(error < old_error)
        return bool(mse < old_mse - self.slack(old_mse))

    def add(self, j: int, x: np.ndarray, mean: float, slopes: np.ndarray, ridge: float) -> None:
        """Enter candidate j, of which deflation by ``slopes`` (t,) has left x (n,), whitened."""
        t, root = self.size, self.root
        basis, norms, w = self.basis[: t + 1], self.norms[: t + 1], self.W[t]
        w[:] = x
        for _ in range(2):  # twice is enough; deflation alone degrades with the condition of K
            extra = basis @ w / norms
            w -= extra @ basis
            slopes, mean = slopes + extra[1:], mean + extra[0]
        self.A[:t, t], self.order[t], self.size = slopes, j, t + 1
        self.kappa[t], self.ridge[t], self.means[t] = w @ w, ridge, mean
        scale = self.kappa[t] + ridge
        self.gamma[t] = self.E @ (root * w) / scale  # (8): E is y less terms orthogonal to w
        self.E -= np.outer(self.gamma[t], w / root)
        self.beta -= self.share * w**2 / scale
        self.prices.append(self.price(self.E, self.beta))

    def path(self, best: int) -> ForwardPath:
        T, n = self.size, len(self.Y)
        errors, squares = np.array(self.prices).T
        return ForwardPath(
            order=self.order[:T],
            loo_error=errors,
            loo_mse=squares,
            best=best,
            A=self.A[:T, :T],
            W=self.W[:T, :n],
            kappa=self.kappa[:T],
            ridge=self.ridge[:T],
            means=self.means[:T],
            gamma=self.gamma[:T],
            Y=self.Y,
            weights=self.weights,
        )


def _step(fit: _Fit, last: np.ndarray, ridge: float) -> Step:
    """What the compiled sweep has to know of the model, besides the unit vector ``last`` (n,).

    With a deflated candidate x entered, c = 1/(kappa + lambda), row i is misclassified when left
    out if, for some rival class (k = 1: the only one), margin (k, n) + (gamma of the own class -
    gamma of the rival) lean x - c x^2 < 0, and the left-out squared residuals sum to at least
    sum_i |R - gamma x|^2 (q + 2 c q3 x^2), R (k, n) the whitened residuals.
    """
    root = fit.root
    beta = np.maximum(fit.beta, 1e-3)  # larger: still a bound, and its sums well scaled
    share = np.where(fit.counted > 0, fit.share, 1.0)
    margin = (fit.margins(fit.E, fit.beta) + 2 * _BOUNDARY) / share
    lean = (fit.code[0] if len(fit.code) == 1 else 1.0) / (root * share)
    label = np.argmax(fit.code, axis=0)
    q, q3 = (fit.counted > 0) * beta**-2, fit.share * beta**-3
    return Step(last, fit.E * root, q, q3, margin, lean, label, fit.counted, float(ridge), fit.rate)


def _leave_one_out(
    P: np.ndarray, live: np.ndarray, floor: np.ndarray, fit: _Fit, ridge: float, compiled: bool
) -> Iterator[tuple[int, np.ndarray]]:
    """Best candidates by leave-one-out, each with the slopes (t,) that P[j] was deflated by.

    The rows ``live`` of P are kept orthogonal to the terms that the caller enters in between.
    """
    history: list[np.ndarray] = []
    last, length = np.zeros_like(fit.beta), 1.0
    while live.size:
        out = np.zeros((4, len(P)))
        if compiled:
            compiled_sweep(P, live, _step(fit, last, ridge), out)
        else:
            _plain_sweep(P, live, fit, last, ridge, out)
        history.append(out[0] / length)
        live = live[out[1, live] > floor[live]]
        if not live.size:
            return
        j = _cheapest(P, live, fit, ridge, *out[2:] / fit.weights.mass)
        yield j, np.array([slope[j] for slope in history[1:]])
        live = live[live != j]
        length = np.sqrt(fit.kappa[fit.size - 1])
        last = fit.W[fit.size - 1] / length


def _cheapest(
    P: np.ndarray, live: np.ndarray, fit: _Fit, ridge: float, error: np.ndarray, bound: np.ndarray
) -> int:
    """Lowest index among the best exact prices, given lower bounds (L,) of all of them."""
    rest = live[np.lexsort((bound[live], error[live] * fit.rate))]
    tried, prices, batch = rest[:0], np.empty((2, 0)), 1
    while rest.size:
        new, rest = rest[:batch], rest[batch:]
        tried = np.append(tried, new)
        prices = np.append(prices, fit.price_with(P[new], ridge), axis=1)
        rate, squares = prices[0] * fit.rate, prices[1]
        lowest = rate.min() + TIE
        least = squares[rate <= lowest].min()
        least += fit.slack(least)
        fewer, tied = error[rest] < lowest - 2 * TIE, error[rest] * fit.rate <= lowest
        rest = rest[(fewer & fit.rate) | (tied & (bound[rest] <= least))]
        batch = min(2 * batch, max(1, _CACHED // fit.E.size))
    return int(tried[(rate <= lowest) & (squares <= least)].min())


def _least_squares(
    P: np.ndarray, live: np.ndarray, floor: np.ndarray, fit: _Fit
) -> Iterator[tuple[int, np.ndarray]]:
    """Candidates with the largest |w_j'y|^2 / kappa_j; P is only read, so no slopes to report.

    kappa_j and w_j'y are downdated. That loses the digits by which kappa_j falls, so both are
    computed afresh after a fall by 1e3 (as in LAPACK's pivoted QR).
    """
    target = fit.E * fit.root
    product, kappa = P @ target.T, np.einsum("mi,mi->m", P, P)
    fresh = kappa.copy()
    while live.size:
        gain = np.sum(product[live] ** 2, axis=1) / kappa[live]
        slack = TIE * gain.max() + _NOISE * np.sum(target**2)
        j = int(live[np.argmax(gain >= gain.max() - slack)])
        yield j, np.zeros(fit.size)
        W, lengths = fit.W[: fit.size], np.sqrt(fit.kappa[: fit.size])
        slope = P @ (W[-1] / lengths[-1])
        kappa -= slope**2
        product -= np.outer(slope, target @ (W[-1] / lengths[-1]))
        live = live[live != j]
        stale = live[kappa[live] < _STALE * fresh[live]]
        for block in row_blocks(len(stale), P.shape[1], _CACHED):
            rows = stale[block]
            X = P[rows]
            X -= (X @ W.T / lengths**2) @ W
            kappa[rows] = fresh[rows] = np.einsum("mi,mi->m", X, X)
            product[rows] = X @ target.T
        live = live[kappa[live] > floor[live]]


def _whiten(P: np.ndarray, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Centre the rows of P and scale them by sqrt(v), in place; weighted means and kappa, (L,).

    Penalty rows, beyond those that have weights, are left as they are.
    """
    n = len(weights.v)
    means = P[:, :n] @ weights.v / weights.mass
    kappa = np.empty(len(P))
    for block in row_blocks(len(P), P.shape[1], _CACHED):
        X = P[block, :n]
        X -= means[block, None]
        if not weights.uniform:
            X *= weights.root
        kappa[block] = np.einsum("mi,mi->m", P[block], P[block])
    return means, kappa


def _plain_sweep(
    P: np.ndarray, live: np.ndarray, fit: _Fit, last: np.ndarray, ridge: float, out: np.ndarray
) -> None:
    """What the compiled sweep does, in NumPy; the bounds are the prices themselves."""
    for block in row_blocks(len(live), fit.E.size, _CACHED):
        rows = live[block]
        X = P[rows]
        out[0, rows] = X @ last
        X -= np.outer(out[0, rows], last)
        P[rows] = X
        out[1, rows] = np.einsum("mi,mi->m", X, X)
        out[2:, rows] = fit.price_with(X, ridge) * fit.weights.mass


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
