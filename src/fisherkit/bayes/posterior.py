"""The posterior of the Bayesian Fisher discriminant at new rows.

Given kernel and noise, g(x) = f(x) - midpoint of the class centres is Gaussian. The midpoint is
subtracted because nothing observes the level of f: its variance is that of the prior. With K in
units of the total noise, s = beta times that noise, h the vector that averages f over the classes,

    k_g(x) = k(x) - K h - (1 - 1/s) h,      q = k_g'A W^-1,     C = s W^-1 - (Z'Z)^-1
    mean   s q C^-1 d/sqrt 2
    var    s/beta [ k_gg - k_g'R k_g - s q C^-1 q' ],           R = M^-1 - 11'/N - A W^-1 A'

and R h = 0. `Exact` and `Projected` give k_g'A and k_gg - k_g'R k_g with every row in the kernel,
or with inducing points, where the variance of the prior left out by them is added (DTC).
The variance is that of the smooth part of f: the nugget of the new row itself is not in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fisherkit.bayes.evidence import SIDE, Contrasts, ThinMoments, fisher, solve_dense
from fisherkit.core import Array, arrays
from fisherkit.stored import stored

_ROUNDING = 4 * np.finfo(np.float64).eps


def _averager(contrasts: Contrasts, indicator: Array) -> Array:
    """h, times the root of the number of copies; (n,)."""
    share = arrays.like(1 / (len(contrasts.counts) * contrasts.counts), indicator)
    return contrasts.root * (indicator @ share)


@stored("moments, exact")
@dataclass(frozen=True)
class Exact:
    """Every row in the kernel; holds the factor of M (n, n)."""

    factor: Array
    root: Array
    A: Array
    W: np.ndarray
    h: Array
    Kh: Array

    @classmethod
    def of(cls, K: Array, contrasts: Contrasts, indicator: Array) -> Exact:
        """O(n^3/3)."""
        root = contrasts.root
        h = _averager(contrasts, indicator)
        factor, A, W = solve_dense(K, contrasts)
        return cls(factor=factor, root=root, A=A, W=W, h=h, Kh=root * (K @ (root * h)))

    def _relative(self, k: Array, share: float) -> Array:
        return k * self.root - (self.Kh + share * self.h)

    def projection(self, k: Array, share: float) -> Array:
        """k_g'A (n*, c-1) for kernel values k (n*, n); ``share`` is 1 - 1/s."""
        return self._relative(k, share) @ self.A

    def remainder(self, k: Array, prior: Array, share: float) -> Array:
        """k_gg - k_g'R k_g (n*,) where k(x, x) = prior (n*,)."""
        xp = arrays.namespace(k)
        k_g = self._relative(k, share)
        level = float(self.h @ self.Kh) + share * float(self.h @ self.h)
        k_gg = prior - 2 * (k @ (self.root * self.h)) + level
        explained = xp.sum(k_g * arrays.cholesky_solve(self.factor, k_g.T).T, axis=1)
        explained = explained - (k_g @ self.root) ** 2 / float(self.root @ self.root)
        return k_gg - explained + _quadratic(k_g @ self.A, np.linalg.inv(self.W))


@stored("moments, projected")
@dataclass(frozen=True)
class Projected:
    """m inducing points, in their coordinates phi(x) = L^-1 k(x); methods as in `Exact`."""

    inverse: Array
    factor: Array
    B: Array
    W: np.ndarray
    phi_h: Array
    hA: Array
    hh: float

    @classmethod
    def of(cls, K_nm: Array, K_mm: Array, contrasts: Contrasts, indicator: Array) -> Projected:
        """O(n m^2)."""
        h = _averager(contrasts, indicator)
        thin = ThinMoments.of(K_nm, K_mm, contrasts)
        phi_h = h @ thin.Phi + float(h @ contrasts.root) * thin.mean
        return cls(
            inverse=thin.inverse,
            factor=thin.factor,
            B=thin.B,
            W=thin.W,
            phi_h=phi_h,
            hA=h @ thin.A,
            hh=float(h @ h),
        )

    def projection(self, k: Array, share: float) -> Array:
        return (k @ self.inverse.T - self.phi_h) @ self.B - share * self.hA

    def remainder(self, k: Array, prior: Array, share: float) -> Array:
        xp = arrays.namespace(k)
        phi = k @ self.inverse.T
        missing = xp.clip(prior - xp.sum(phi * phi, axis=1), 0.0, None)
        psi = phi - self.phi_h
        unexplained = xp.sum(psi * arrays.cholesky_solve(self.factor, psi.T).T, axis=1)
        within = _quadratic(psi @ self.B, np.linalg.inv(self.W))
        return missing + unexplained + share * self.hh + within


def _quadratic(rows: Array, S: np.ndarray) -> Array:
    """r'S r for each of the rows."""
    return arrays.namespace(rows).sum(rows * (rows @ arrays.like(S, rows)), axis=1)


@stored("posterior")
@dataclass(frozen=True)
class Posterior:
    """Mean and variance of g at new rows, with the noise that the evidence prefers."""

    moments: Exact | Projected
    contrasts: Contrasts
    beta: float
    ratio: float

    @classmethod
    def of(cls, moments: Exact | Projected, contrasts: Contrasts) -> Posterior:
        noise = fisher(moments.W, contrasts)
        return cls(moments=moments, contrasts=contrasts, beta=noise.beta, ratio=noise.ratio)

    @property
    def nugget(self) -> float:
        return (self.ratio - 1) / self.beta

    @property
    def centres(self) -> np.ndarray:
        """Class centres (c, c-1): a regular simplex about the origin."""
        return self.contrasts.E * (SIDE / math.sqrt(2))

    def _precision(self) -> np.ndarray:
        """W^-1 C^-1 W^-1 = V diag(s - u)^-1 V' as in `fisher`; nothing where s - u is rounding,
        along directions of which the kernel says nothing."""
        lam, V = scipy.linalg.eigh(self.contrasts.scatter, self.moments.W)
        gap = self.ratio - np.minimum(1 / lam, 1.0)
        seen = gap > _ROUNDING * len(gap) * self.ratio
        return (V[:, seen] / gap[seen]) @ V[:, seen].T

    def mean(self, k: Array) -> Array:
        """(n*, c-1) for kernel values k (n*, m)."""
        projection = self.moments.projection(k, 1 - 1 / self.ratio)
        turn = (self.ratio * SIDE / math.sqrt(2)) * (self._precision() @ self.moments.W)
        return projection @ arrays.like(turn, projection)

    def variance(self, k: Array, prior: Array) -> Array:
        """(n*,), of every coordinate alike, for kernel values k (n*, m) and k(x, x) (n*,)."""
        xp = arrays.namespace(k)
        share = 1 - 1 / self.ratio
        projection = self.moments.projection(k, share)
        centre = self.ratio * self._precision()
        rest = self.moments.remainder(k, prior, share) - _quadratic(projection, centre)
        return (self.ratio / self.beta) * xp.clip(rest, 0.0, None)

    def log_odds(self, mean: Array, variance: Array) -> Array:
        """Decisions of the noise model: log odds (n*, 1) of two classes, log densities (n*, c).

        Class q has the density N(centre_q, 1/beta + nugget + variance) and its share of the rows.
        Densities are relative to that at the mean: no square of a row far away is ever taken.
        """
        xp = arrays.namespace(mean)
        centres = arrays.like(self.centres, mean)
        nearness = mean @ centres.T - 0.5 * xp.sum(centres**2, axis=1)[None, :]
        noise = self.ratio / self.beta + variance
        prior = arrays.like(np.log(self.contrasts.counts / self.contrasts.total), mean)
        values = prior[None, :] + nearness / noise[:, None]
        return values[:, 1:] - values[:, :1] if values.shape[1] == 2 else values
