"""From scores to decisions.

Two classes are coded +-1 in one column, more as 0/1 indicators. A `Rule` turns scores f into
decisions, one per class (or one signed number for two classes), by an affine map

    decision = f @ matrix + offset

whose parts depend only on the class counts n_k and on the residual scatter E = Y'(I - H)Y, so that
the same code serves the model fitted to all rows and every model with rows left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.arrays import Array
from fisherkit.core.labels import indicators, winners
from fisherkit.stored import stored


def narrowed(decisions: Array, dtype: Any) -> Array:
    """Decisions in a dtype that users expect, in which the same class leads."""
    xp = arrays.namespace(decisions)
    narrow = arrays.narrowed(decisions, dtype)
    winner = winners(decisions)
    hidden = winners(narrow) != winner
    if not bool(xp.any(hidden)):
        return narrow
    if decisions.shape[1] == 1:
        least = xp.finfo(narrow.dtype).smallest_normal
        return xp.where(hidden[:, None], xp.full_like(narrow, least), narrow)
    return ahead(narrow, winner, hidden)


def ahead(values: Array, winner: Array, rows: Array) -> Array:
    """Values (n, c) with that of the winner a little above all others, in the ``rows`` marked."""
    xp = arrays.namespace(values)
    own = indicators(winner, values.shape[1], values) > 0
    top = xp.max(values, axis=1, keepdims=True)
    least = xp.finfo(values.dtype).smallest_normal
    above = top + xp.maximum(2 * arrays.eps(values) * xp.abs(top), xp.full_like(top, least))
    return xp.where(rows[:, None] & own, above, values)


@stored("decision rule")
@dataclass(frozen=True)
class Rule:
    """From scores to decisions.

    ``kind`` is "binary" (f - t), "ovr" (indicator scores as they are), "lda" (the penalised-LDA
    rule on the indicator scores, which needs a free bias) or "softmax" (logits that are fitted to
    left-out scores: no function of counts and scatter, see `fisherkit.tuning.softmax`).
    ``balanced`` treats classes as equally likely: t is the mean label, indicator scores lose the
    class shares, LDA has equal priors, and classes count alike in the fit of the logits.
    """

    kind: str
    balanced: bool

    @property
    def fixed(self) -> bool:
        """Whether decisions are the scores as they are, whatever the rows trained on."""
        return self.kind in ("binary", "ovr") and not self.balanced

    @property
    def of_scores(self) -> Rule:
        """The rule on scores alone, without what is fitted to left-out ones."""
        return Rule("ovr", self.balanced) if self.kind == "softmax" else self

    def affine(self, counts: Array, scatter: Array | None) -> tuple[Array | None, Array]:
        """Matrix (..., c, c) (``None`` for the identity) and offset (..., k) of the rule.

        ``counts`` (..., c) are the class counts n_k of the rows trained on, ``scatter``
        (..., c, c) is E; leading axes index models with rows left out.
        """
        xp = arrays.namespace(counts)
        if self.kind == "lda":
            return _lda(counts, scatter, balanced=self.balanced)
        shares = counts / xp.sum(counts, axis=-1, keepdims=True)
        if self.kind == "binary":
            shares = shares[..., 1:] - shares[..., :1]  # the mean label
        return None, -shares if self.balanced else xp.zeros_like(shares)

    def decide(self, scores: Array, counts: Array, scatter: Array | None) -> Array:
        """Decisions for scores (n, k) under one model, or row by row under n models."""
        xp = arrays.namespace(scores)
        matrix, offset = self.affine(counts, scatter)
        if matrix is None:
            return scores + offset
        if len(matrix.shape) == 2:
            return scores @ matrix + offset
        decisions = xp.sum(scores[:, :, None] * matrix, axis=1) + offset
        return _demote_absent(decisions, counts)


def _lda(counts: Array, scatter: Array, *, balanced: bool) -> tuple[Array, Array]:
    """Penalised LDA as an affine rule on indicator scores.

    With l = sum n_k, ybar = n/l and (D - Q)^-1 = S + 11'/l, S = Pi E^+ Pi', Pi = I - 1 n'/l:

        delta(x) = l [ (f - ybar)' S - (diag S + 1/l - 1/n_k)/2 ] + log(n_k / l)

    S is found without cancellation: E 1 = 0, so any kappa > 0 gives
    (E + kappa n n'/l)^-1 = S + 11'/(kappa l); kappa brings both terms to one scale.
    Classes that are absent (n_k = 0) are decoupled.
    """
    xp = arrays.namespace(counts)
    present = xp.astype(counts > 0, counts.dtype)
    n = counts * present
    total = xp.sum(n, axis=-1, keepdims=True)
    identity = arrays.like(np.eye(counts.shape[-1]), counts)
    pair = present[..., :, None] * present[..., None, :]
    E = scatter * pair
    trace = xp.sum(E * identity, axis=(-2, -1))[..., None]
    kappa = xp.where(trace > 0, trace, xp.ones_like(trace)) / total
    absent = (1 - present)[..., None] * identity
    outer = n[..., :, None] * n[..., None, :]
    try:
        inverse = xp.linalg.inv(E + absent + (kappa / total)[..., None] * outer)
    except (np.linalg.LinAlgError, RuntimeError) as error:  # the latter is PyTorch's
        raise ValueError(
            "The penalised-LDA rule has no answer: at this regularisation rounding hides how far "
            "the scores are from the classes. Use a larger regularization, or multiclass='ovr'."
        ) from error
    S = (inverse - 1 / (kappa * total)[..., None]) * pair
    diagonal = xp.sum(S * identity, axis=-1)
    safe = xp.where(n > 0, n, xp.ones_like(n))
    mean_term = xp.sum((n / total)[..., :, None] * S, axis=-2)
    offset = -total * mean_term - 0.5 * (total * diagonal + 1 - total / safe)
    if not balanced:
        offset = offset + xp.log(safe / total)
    return total[..., None] * S, offset


def _demote_absent(decisions: Array, counts: Array) -> Array:
    """Rank a class that the left-out model never saw last, by a factor of n in probability."""
    xp = arrays.namespace(decisions)
    present = counts > 0
    if bool(xp.all(present)):
        return decisions
    lowest = xp.min(
        xp.where(present, decisions, xp.full_like(decisions, float("inf"))),
        axis=1,
        keepdims=True,
    )
    return xp.where(present, decisions, lowest - xp.log(xp.sum(counts, axis=1, keepdims=True) + 1))


def discriminant_axes(counts: Array, scatter: Array) -> Array:
    """Discriminant coordinates as a map from indicator scores: z = (F - ybar) @ axes, (c, c-1).

    With e_j, epsilon_j the eigenpairs of D^-1/2 E D^-1/2 orthogonal to sqrt(n) (epsilon_j is one
    minus the squared canonical correlation), z_j = (F - ybar) D^-1/2 e_j sqrt(l/(eps_j (1-eps_j)))
    has the covariance I within classes, penalty included (mu alpha'K alpha / l for rkhs), and
    delta_k = z'm_k - |m_k|^2/2 + log prior. Columns are ordered by canonical correlation; the class
    with the largest mean on an axis is on its positive side.
    """
    xp = arrays.namespace(counts)
    root = xp.sqrt(counts)
    total = float(xp.sum(counts))
    trivial = (root / total**0.5)[:, None]
    scaled = scatter / (root[:, None] * root[None, :])
    projector = arrays.like(np.eye(counts.shape[0]), counts) - trivial @ trivial.T
    scaled = projector @ scaled @ projector
    bound = 1 + float(xp.linalg.matrix_norm(scaled))
    epsilon, vectors = arrays.eigh(scaled + bound * (trivial @ trivial.T))
    epsilon, vectors = epsilon[:-1], vectors[:, :-1]  # the trivial axis has the largest eigenvalue
    tiny = 1e4 * arrays.eps(counts)
    epsilon = xp.clip(epsilon, tiny, 1 - tiny)
    axes = vectors / root[:, None]
    return axes * _orientation(axes) * xp.sqrt(total / (epsilon * (1 - epsilon)))


def _orientation(axes: Array) -> Array:
    """Signs that put the class farthest out (the last one if several are) on the positive side."""
    host = arrays.to_numpy(axes)
    size = np.abs(host)
    far = size >= (1 - 1e-6) * size.max(axis=0)
    far[-1] |= len(host) == 2  # two classes: always towards the second
    farthest = len(host) - 1 - np.argmax(far[::-1], axis=0)
    return arrays.like(np.sign(host[farthest, np.arange(host.shape[1])]), axes)


def optimal_scores(counts: np.ndarray) -> np.ndarray:
    """Theta (c, c-1): scores of the classes with mean 0 and unit covariance over all rows.

    Theta = sqrt(N) diag(n)^-1/2 V with V orthonormal and V' sqrt(n/N) = 0. The last class is on
    the positive side of every axis, so that two classes are coded with the signs of +-1.
    """
    root = np.sqrt(counts / counts.sum())
    # A reflection that takes the last axis to sqrt(n/N): its other columns are orthogonal to it.
    u = root.copy()
    u[-1] += 1.0
    V = np.eye(len(root)) - np.outer(u, u) / u[-1]
    return -V[:, :-1] / root[:, None]


def lda_of_scores(
    F: np.ndarray, indicator: np.ndarray, frequency: np.ndarray, log_prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Linear discriminant analysis on fitted scores F (n, k): matrix (k, c) and offset (c,).

    delta_c(f) = (f - m)'S^-1 m_c - m_c'S^-1 m_c / 2 + log prior_c, with m the mean, m + m_c that of
    class c, and S the pooled covariance within classes, in which costs have no part. Directions in
    which S vanishes beside the scatter of all scores count as if S were a millionth of it there.
    """
    counts = indicator.T @ frequency
    total = counts.sum()
    mean = frequency @ F / total
    centred = F - mean
    means = (indicator * frequency[:, None]).T @ centred / counts[:, None]
    within = centred - indicator @ means
    S = (within * frequency[:, None]).T @ within / total
    scatter = float(np.sum(frequency[:, None] * centred**2)) / total
    # What centring leaves of constant scores is rounding: they say nothing.
    if scatter <= (len(F) * np.finfo(np.float64).eps) ** 2 * float(mean @ mean):
        return np.zeros_like(means.T), log_prior
    lam, V = np.linalg.eigh(S)
    matrix = V / np.maximum(lam, 1e-6 * scatter) @ V.T @ means.T
    return matrix, log_prior - np.sum((mean + 0.5 * means).T * matrix, axis=0)
