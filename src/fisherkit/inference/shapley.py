r"""How much each column adds to one number of a model: Shapley values of kernel expansions.

A number of the model is f(x) = sum_j a_j k(x, z_j) plus a constant. If only the columns in S are
known of x, the others are taken out of the kernel: their gaps (`fisherkit.core.kernels`), which
are added up inside it, are zero. So v(S) = sum_j a_j shape(sum over c in S of gap_c(x, z_j)), with
f(x) = v(all) and the base value v(nothing), and column c has the Shapley value

    phi_c = mean over orders of  v(columns up to and with c) - v(columns before c).

*Products of columns*, k = prod_c k_c with k_c = exp(-gap_c), such as rbf and laplacian: a column
comes before c with probability t where c comes at time t, uniform in [0, 1]. With u_c = k_c - 1,

    phi_c = sum_j a_j u_c(j) int_0^1 prod_{c' != c} (1 + t u_c'(j)) dt,

a polynomial of degree q - 1 in t for q columns: Gauss-Legendre quadrature with ceil(q / 2) nodes is
exact. For many columns fewer nodes have the same digits (`nodes`). They lie inside of (0, 1), where
no factor 1 + t u is zero, so that the product without c is the product of all over that factor.

*Sums of columns*, k = x'z: phi_c = sum_j a_j x_c z_jc.

*Other kernels*, such as exp(-|x - z|): orders are drawn, each together with its reverse, and the
standard error is that of the means of such pairs. The sum over columns is exact for every order.

L. S. Shapley. A value for n-person games. Contributions to the Theory of Games 2:307-317, 1953.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fisherkit.rows import Term

_NUMBERS = 1 << 19  # of a row, a column and a centre held at once
_ENOUGH = 1e-14  # error of an integral of a product of numbers in [0, 1]
_SHORT = 20  # columns up to which quadrature is exact in theory, not to rounding


@dataclass(frozen=True)
class Shares:
    """Shapley values (n, columns) and their standard errors, zero where values are exact."""

    values: np.ndarray
    standard_error: np.ndarray


def shapley_values(
    terms: Sequence[Term],
    X: np.ndarray,
    direction: np.ndarray,
    sources: np.ndarray,
    n_columns: int,
    *,
    n_pairs: int,
    rng: np.random.RandomState,
) -> Shares:
    """What each column adds to the number sum_k direction_k f_k(x) of each row.

    Parameters
    ----------
    terms : sequence of Term
    X : (n, d)
        Features.
    direction : (n, k)
    sources : (d,) of int
        The column that each feature comes from, of ``n_columns``.
    n_pairs : int
        Pairs of orders that are drawn for kernels that are no product and no sum.
    rng : RandomState
    """
    values, variance = np.zeros((2, len(X), n_columns))
    drawn = []
    for term in terms:
        kind = term.kernel.family.by_column
        if kind == "product":
            values += _products(term, X, direction, sources, n_columns)
        elif kind == "sum":
            values += _sums(term, X, direction, sources, n_columns)
        else:
            drawn.append(term)
    if drawn:
        for row in range(len(X)):
            pairs = _pairs(drawn, X[row], direction[row], sources, n_columns, n_pairs, rng)
            values[row] += pairs.mean(axis=0)
            variance[row] = pairs.var(axis=0, ddof=1) / n_pairs
    return Shares(values, np.sqrt(variance))


def base_values(terms: Sequence[Term], direction: np.ndarray) -> np.ndarray:
    """The number of each row if no column is known, without the constant of the model; (n,)."""
    total = np.zeros(len(direction))
    for term in terms:
        nothing = term.kernel.family.of_gaps(np.zeros((1, 1)), term.kernel)[0, 0]
        total += direction @ (nothing * term.coef.sum(axis=0))
    return total


def _products(
    term: Term, X: np.ndarray, direction: np.ndarray, sources: np.ndarray, n_columns: int
) -> np.ndarray:
    players = term.players(sources)
    times, weights = nodes(len(players))
    found = np.zeros((len(X), n_columns))
    seen, own = term.see(X), [column for column, _ in players]
    step = max(1, _NUMBERS // max(1, len(players) * len(term.centres)))
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        gaps = [term.gap(seen[rows], places, term.centres) for _, places in players]
        u = np.expm1(-np.stack(gaps))  # (q, b, m)
        integral = np.zeros_like(u)
        for t, weight in zip(times, weights, strict=True):
            factors = 1 + t * u
            product = weight * np.prod(factors, axis=0)
            np.divide(product[None, :, :], factors, out=factors)
            integral += factors
        integral *= u
        shares = direction[rows] @ term.coef.T  # (b, m)
        found[rows, own] = np.einsum("qbm,bm->bq", integral, shares)
    return found


def _sums(
    term: Term, X: np.ndarray, direction: np.ndarray, sources: np.ndarray, n_columns: int
) -> np.ndarray:
    """x_c times what all centres say of it."""
    found = np.zeros((len(X), n_columns))
    slopes = direction @ (term.coef.T @ term.centres)  # (n, p)
    for column, places in term.players(sources):
        found[:, column] = np.sum(term.see(X)[:, places] * slopes[:, places], axis=1)
    return found


def _pairs(
    terms: Sequence[Term],
    x: np.ndarray,
    direction: np.ndarray,
    sources: np.ndarray,
    n_columns: int,
    n_pairs: int,
    rng: np.random.RandomState,
) -> np.ndarray:
    """What each column adds in an order and its reverse, on average; (pairs, columns)."""
    games = [_Game.of(term, x, direction, sources) for term in terms]
    seen = np.unique(np.concatenate([game.columns for game in games]))
    found = np.zeros((n_pairs, n_columns))
    for pair in found:
        order = rng.permutation(seen)
        for walk in (order, order[::-1]):
            for game in games:
                game.walk(walk, pair)
    return found / 2


@dataclass(frozen=True)
class _Game:
    """One row and one term: gaps (q, m) of the columns that the term sees, and shares (m,)."""

    term: Term
    columns: np.ndarray
    gaps: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, term: Term, x: np.ndarray, direction: np.ndarray, sources: np.ndarray) -> _Game:
        players, seen = term.players(sources), term.see(x[None, :])
        gaps = [term.gap(seen, places, term.centres)[0] for _, places in players]
        columns = np.array([column for column, _ in players])
        return cls(term, columns, np.stack(gaps), term.coef @ direction)

    def walk(self, order: np.ndarray, total: np.ndarray) -> None:
        """Add what each column adds in this order to ``total`` (columns,)."""
        own = order[np.isin(order, self.columns)]
        gaps = self.gaps[np.searchsorted(self.columns, own)]
        sums = np.cumsum(np.vstack([np.zeros_like(gaps[:1]), gaps]), axis=0)
        kernel = self.term.kernel
        total[own] += np.diff(kernel.family.of_gaps(sums, kernel) @ self.shares)


@lru_cache(maxsize=64)
def nodes(n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes in (0, 1) and weights that integrate products of so many columns.

    For n columns ceil(n / 2) nodes are exact. Beyond some, as many are taken as the products that
    fall most quickly, (1 - u t)^(n - 1), need to be integrated to rounding.
    """
    exact = max(1, -(-n_columns // 2))
    u = np.linspace(0.02, 1.0, 50)
    truth = (1 - (1 - u) ** n_columns) / (n_columns * u)
    for number in range(min(exact, _SHORT // 2), exact):
        t, weights = _legendre(number)
        error = (1 - u[:, None] * t[None, :]) ** (n_columns - 1) @ weights - truth
        if np.max(np.abs(error)) <= _ENOUGH:
            return t, weights
    return _legendre(exact)


def _legendre(number: int) -> tuple[np.ndarray, np.ndarray]:
    t, weights = np.polynomial.legendre.leggauss(number)
    return (1 + t) / 2, weights / 2
