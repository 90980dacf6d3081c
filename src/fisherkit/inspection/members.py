"""The members of a committee without one row each.

A committee keeps what it says of left-out rows, not the models that say it. They are found again
here, one kernel width after the other: those with weight, from the decomposition that priced them.
Members that have learned which columns matter were priced on folds; the model without a row is
that of the other folds.

With u_j = a_j (F_j - m) + b_j the calibrated scores of member j, m_i the mean code without row i
and W, c the matrix form (of two classes W = 1), the logits of the committee are

    g(x) = intercept + sum_j w_j a_j [f_j(x) - intercept_j] W ,
    g_i  = intercept + sum_j w_j a_j [F_ij - intercept_j - (m_i - mean)] W

of a new row and of row i left out: whatever the weights are, offsets are in the intercept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fisherkit.committee import (
    Asked,
    KernelFamily,
    families_of,
    price_budget,
)
from fisherkit.core import Array, Decomposer, arrays
from fisherkit.estimators import FisherCommitteeClassifier
from fisherkit.inference import LeftOutTerm, left_out_sum
from fisherkit.rows import MemoryRows, Term
from fisherkit.tuning import SeenRows, Softmax, deal, learned_folds, probabilities

_LEARNED = "learned "
_SAME = 1e-3  # difference of probabilities that another low-rank form may make


@dataclass(frozen=True)
class Members:
    """A fitted committee, the rows of its fit, and the b rows (places among these) to leave out."""

    model: FisherCommitteeClassifier
    rows: MemoryRows
    asked: Asked
    places: np.ndarray

    def without_rows(self, logits: np.ndarray) -> Iterator[LeftOutTerm]:
        """The terms of all models without one row each; at their end ``logits`` (b, k) is filled.

        Raises
        ------
        ValueError
            Where the logits are not those of the fit.
        """
        logits[:] = arrays.to_numpy(self.model.intercept_)
        for added, part in self._parts():
            logits += added @ self._matrix
            coef, pull = part.term.coef @ self._matrix, part.pull @ self._matrix
            yield replace(part, term=replace(part.term, coef=coef), pull=pull)
        found = probabilities(logits, 1.0)
        known = arrays.to_numpy(self.model.loo_proba_)[self.rows.kept[self.places]]
        if not np.allclose(found, known, rtol=0, atol=_SAME):
            raise ValueError(
                "The committee was fitted with sample weights, groups or row blocks, of which it "
                "keeps nothing: rows cannot be left out again. Use left_out=False, on rows that it "
                "has not seen."
            )

    @property
    def _matrix(self) -> np.ndarray:
        """W."""
        found, k = self.model.calibration_, self.rows.Y.shape[1]
        return arrays.to_numpy(found.matrix) if isinstance(found, Softmax) else np.eye(k)

    def _parts(self) -> Iterator[tuple[np.ndarray, LeftOutTerm]]:
        """What each width adds to the logits as they are, before W, and its term."""
        members = self.model.members_
        used = members[members["weight"] > 0]
        for family in families_of(self.rows, self.asked):
            for gamma, own in _by_width(used[used["kernel"] == family.name]):
                yield self._left_out(family, gamma, own)
            learned = used[used["kernel"] == _LEARNED + family.name]
            if len(learned):
                yield from self._on_folds(family, learned)

    def _left_out(
        self, family: KernelFamily, gamma: float | None, own: np.ndarray
    ) -> tuple[np.ndarray, LeftOutTerm]:
        """The members of one width, left out exactly."""
        Y, weights = self.rows.Y, self.rows.weights
        design = family.design
        if not design.every_row:  # the centres may have been drawn at random
            centres = arrays.to_numpy(self.model.basis_indices_[family.name, gamma])
            rows = np.searchsorted(self.rows.kept, centres)
            design = replace(design, basis="given", n_components=None, rows=rows)
        found = Decomposer(design).decompose(gamma, price_budget)
        shares = own["weight"] * own["slope"]
        left = left_out_sum(found, Y, own["mu"].tolist(), shares.tolist(), self.places)
        place, b, k = arrays.indices(self.places, Y), len(self.places), Y.shape[1]
        centre = arrays.take_rows(weights.fold_mean(Y), place) - weights.mean(Y)
        added = arrays.to_numpy(left.scores - float(shares.sum()) * centre)
        X = arrays.to_numpy(family.design.gram.X)[left.centres]
        term = self._term(family, gamma, np.ones(X.shape[1]), X, np.zeros((len(X), k)))
        each = np.repeat(np.eye(k)[:, None, :], b, axis=1)
        return added, LeftOutTerm(term, np.arange(b), arrays.to_numpy(left.coef), each)

    def _on_folds(
        self, family: KernelFamily, learned: np.ndarray
    ) -> Iterator[tuple[np.ndarray, LeftOutTerm]]:
        """The members of a family that has learned, by the folds without each row."""
        Y, weights, labels = self.rows.Y, self.rows.weights, self.rows.labels
        assert labels is not None
        gram, every = family.design.gram, self.model.members_
        plain = every[(every["kernel"] == family.name) & ~np.isnan(every["gamma"])]
        start = plain[np.argmin(plain["loo_log_loss"])]
        rows = SeenRows(gram.X, Y, weights)
        kernel = gram.with_gamma(float(start["gamma"])).kernel
        dealt = deal(self.rows.X, weights, arrays.to_numpy(labels.index))
        folds = learned_folds(rows, kernel, float(start["mu"]), dealt)
        columns, size = self._view(family)
        relevance = arrays.to_numpy(self.model.relevance_[_LEARNED + family.name])[columns] / size
        for gamma, own in _by_width(learned):
            wide, mus = gram.with_gamma(gamma).kernel, own["mu"].tolist()
            shares = own["weight"] * own["slope"]
            whole = rows.scaled(relevance).fit(wide, mus)[1] - weights.mean(Y)[:, None]
            for fold in folds:
                tested = np.flatnonzero(np.isin(self.places, fold.places))
                inside = fold.rows.scaled(fold.scale)
                coefs, intercept = inside.fit(wide, mus)
                level = intercept - inside.weights.mean(inside.Y)[:, None] - whole
                coef = arrays.to_numpy(coefs) @ shares
                seen = self._seen(gram.X, tested) * fold.scale
                centres = arrays.to_numpy(inside.X)
                added = np.zeros((len(self.places), Y.shape[1]))
                added[tested] = arrays.to_numpy(wide.block(seen, centres)) @ coef
                added[tested] += arrays.to_numpy(level) @ shares
                term = self._term(family, gamma, fold.scale, centres, coef)
                nothing = np.zeros((0, len(tested), len(centres)))
                pull = np.zeros((0, len(tested), Y.shape[1]))
                yield added, LeftOutTerm(term, tested, nothing, pull)

    def _seen(self, X: Array, some: np.ndarray) -> np.ndarray:
        return arrays.to_numpy(X)[self.places[some]]

    def _view(self, family: KernelFamily) -> tuple[np.ndarray, np.ndarray]:
        """The columns that a family sees, and their scale."""
        view = self.asked.kernels[family.number].view
        columns = np.arange(self.rows.X.shape[1]) if view is None else np.asarray(view.columns)
        scale = np.ones(len(columns)) if view is None or view.scale is None else view.scale
        return columns, np.asarray(scale)

    def _term(
        self,
        family: KernelFamily,
        gamma: float | None,
        scale: np.ndarray,
        centres: np.ndarray,
        coef: np.ndarray,
    ) -> Term:
        """A term on centres as they are seen, with what was learned of the columns."""
        columns, size = self._view(family)
        return Term(
            kernel=family.design.gram.with_gamma(gamma).kernel,
            columns=columns,
            shift=np.zeros(len(columns)),
            scale=size * scale,
            centres=centres,
            places=np.full(len(centres), -1),
            coef=coef,
        )


def _by_width(members: np.ndarray) -> Iterator[tuple[float | None, np.ndarray]]:
    """Members of one kernel, by their gamma."""
    gammas = members["gamma"]
    if len(gammas) and np.isnan(gammas).all():
        yield None, members
        return
    for gamma in dict.fromkeys(gammas.tolist()):
        yield gamma, members[gammas == gamma]
