"""What classifiers share: decisions, labels, probabilities and, for ridge scores, coordinates."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from fisherkit import _array, coding
from fisherkit._array import Array
from fisherkit.calibrate import fit_slope, loo_decisions, probabilities
from fisherkit.ridge import Residuals


class DecisionMixin(ClassifierMixin):
    """Classifiers whose scores are decisions; ``_slope`` takes them to probabilities."""

    def _decisions(self, X: Any, method: str) -> tuple[Array, Any]:
        """Decisions (n, k) for each row, and the dtype in which users expect results."""
        return self._scores(X, method)

    def decision_function(self, X):
        """Decision for each row: positive for ``classes_[1]``, or one score per class.

        Parameters
        ----------
        X : (n, d)

        Returns
        -------
        (n,) for two classes, otherwise (n, n_classes)
        """
        decisions, dtype = self._decisions(X, "decision_function")
        decisions = _array.cast(decisions, dtype)
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    def predict(self, X):
        """Predicted label of each row of X (n, d); (n,)."""
        decisions, _ = self._decisions(X, "predict")
        return coding.decode(self.classes_, coding.winners(decisions))

    def predict_proba(self, X):
        """Probability of each class, calibrated on held-out decisions; (n, n_classes)."""
        decisions, dtype = self._decisions(X, "predict_proba")
        return probabilities(decisions, self._slope, dtype)


class DiscriminantMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DecisionMixin):
    """From the scores of a `KernelModel` to decisions, labels, probabilities and coordinates."""

    def _calibrate(self, fit: Residuals, rule: coding.Rule, indicator: Array) -> Array:
        """Decisions, coordinates and probabilities from scores; returns leave-one-out decisions."""
        xp = _array.namespace(indicator)
        counts = xp.sum(fit.weights.v[:, None] * indicator, axis=0)
        scatter = fit.scatter
        self._matrix, self._offset = rule.affine(counts, scatter)
        if rule.kind == "binary":  # of the two indicators, from that of the code
            scatter = scatter / 4 * _array.like([[1.0, -1.0], [-1.0, 1.0]], scatter)
        self._axes = coding.discriminant_axes(counts, scatter)
        self._shares = counts / xp.sum(counts)
        self._n_features_out = self._axes.shape[1]
        decisions, known = loo_decisions(fit, rule, indicator)
        self._slope = fit_slope(decisions, known, indicator, fit.weights, balanced=rule.balanced)
        return decisions

    def _decide(self, scores: Array) -> Array:
        return (scores if self._matrix is None else scores @ self._matrix) + self._offset

    def _decisions(self, X: Any, method: str) -> tuple[Array, Any]:
        scores, dtype = self._scores(X, method)
        return self._decide(scores), dtype

    def transform(self, X):
        """Discriminant coordinates with unit within-class variance; (n, n_classes - 1).

        Columns are ordered by canonical correlation. Two classes: positive towards
        ``classes_[1]``; otherwise the class farthest out on an axis is on its positive side.
        """
        scores, dtype = self._scores(X, "transform")
        if scores.shape[1] == 1:
            xp = _array.namespace(scores)
            scores = xp.concat([1 - scores, 1 + scores], axis=1) / 2
        return _array.cast((scores - self._shares) @ self._axes, dtype)
