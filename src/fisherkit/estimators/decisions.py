"""What classifiers share: decisions, labels, probabilities and, for ridge scores, coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fisherkit.core import Array, Rule, Weights, arrays, coding, decode, membership, winners
from fisherkit.estimators import validation
from fisherkit.inference import conformal
from fisherkit.rows import lazily
from fisherkit.tuning import UNDECIDED, Parts, Slope, decide, mention, probabilities


class DecisionMixin(ClassifierMixin):
    """Classifiers whose scores are decisions; ``calibration_`` takes them to probabilities."""

    def _set_calibration(self, slope: Slope) -> None:
        """From held-out decisions to probabilities; says where these did not decide the slope."""
        self.calibration_ = slope
        mention(self, slope.status, UNDECIDED)

    def _slope_in_use(self) -> float:
        """From the decisions that users see to probabilities."""
        return self.calibration_.value

    def _decisions(self, X: Any, method: str) -> tuple[Array, Any]:
        """Decisions (n, k) for each row, and the dtype in which users expect results."""
        return self._scores(X, method)

    def decision_function(self, X: Any) -> Any:
        """Decision for each row: positive for ``classes_[1]``, or one score per class.

        Parameters
        ----------
        X : (n, d)

        Returns
        -------
        (n,) for two classes, otherwise (n, n_classes)
        """
        if arrays.is_dask(X):
            return lazily(self, "decision_function", X)
        decisions, dtype = self._decisions(X, "decision_function")
        decisions = coding.narrowed(decisions, dtype)
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    def predict(self, X: Any) -> Any:
        """Predicted label of each row of X (n, d); (n,)."""
        if arrays.is_dask(X):
            return lazily(self, "predict", X)
        decisions, _ = self._decisions(X, "predict")
        return decode(self.classes_, winners(decisions))

    def predict_proba(self, X: Any) -> Any:
        """Probability of each class, calibrated on held-out decisions; (n, n_classes)."""
        if arrays.is_dask(X):
            return lazily(self, "predict_proba", X)
        decisions, dtype = self._decisions(X, "predict_proba")
        return probabilities(decisions, self._slope_in_use(), dtype)


class DiscriminantMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DecisionMixin):
    """From the scores of a `KernelModel` to decisions, labels, probabilities and coordinates."""

    def _decide(
        self, left: Parts, rule: Rule, classes: Weights, scatter: Array, *, sampled: bool = False
    ) -> Sequence[Any]:
        """Decisions, coordinates and probabilities; returns a column of leave-one-out decisions."""
        decided = decide(left, rule, classes, scatter, sampled=sampled)
        self._decision = decided.decision
        self._n_features_out = decided.decision.axes.shape[1]
        self._set_calibration(decided.slope)
        return decided.left_out

    def _decisions(self, X: Any, method: str) -> tuple[Array, Any]:
        scores, dtype = self._scores(X, method)
        return self._decision(scores), dtype

    def transform(self, X: Any) -> Any:
        """Discriminant coordinates, with a within-class variance, penalty included, of one.

        Columns are ordered by canonical correlation. Two classes: positive towards
        ``classes_[1]``; otherwise the class farthest out on an axis is on its positive side.

        Parameters
        ----------
        X : (n, d)

        Returns
        -------
        (n, n_classes - 1)
            ``z = (f(x) - shares) @ axes`` of the indicator scores f and the shares of the classes;
            with m_k the mean of a class, the penalised-LDA rule takes the largest
            ``z @ m_k - |m_k|^2 / 2 + log(share_k)``.
        """
        if arrays.is_dask(X):
            return lazily(self, "transform", X)
        scores, dtype = self._scores(X, "transform")
        return arrays.narrowed(self._decision.coordinates(scores), dtype)

    def predict_set(
        self,
        X: Any,
        confidence: float = 0.9,
        method: str = "full",
        *,
        class_conditional: bool = False,
    ) -> Any:
        r"""Sets of labels that contain those of new rows with the confidence asked for.

        Parameters
        ----------
        X : (n, d)
        confidence : float in (0, 1), default=0.9
        method : {"full", "jackknife+"}, default="full"
            "full" gives every candidate label to the new row and compares its left-out score with
            the exact leave-one-out scores of all rows, the new one included, in closed form.
            "jackknife+" compares by the models that left out one row each (cross-conformal).
        class_conditional : bool, default=False
            Compare with rows of the candidate class only: the confidence then holds within each
            class, also a rare one.

        Returns
        -------
        (n, n_classes) of bool
            Columns as ``classes_``. A set may be empty (the row resembles none of the classes) or
            hold several labels.

        Notes
        -----
        If the rows of the fit and the new one are exchangeable, and the hyper-parameters were not
        chosen on them, a set contains the label with probability at least ``confidence`` ("full")
        or at least ``2 * confidence - 1`` ("jackknife+"; in practice about ``confidence``). It is
        an average over all rows (of a class), not a promise for each x. Hyper-parameters are held
        fixed: where they were tuned on the same rows, the guarantee is approximate. So it is for
        the coefficients penalty and a chosen basis: the new row is no centre.

        Rows are compared by the margin of their left-out scores: the signed score for two classes,
        the indicator score of the class less the largest other one for more.

        With q the change of f(x) for a unit change of the code at x' and r the residuals, a new
        row of code y, e = y - f(x), takes the left-out residual of row i to

        .. math::

            R_i(x, y) = \frac{r_i - q_{ix} e / (1 + q_{xx})}
            {1 - q_{ii} + q_{ix}^2 / (1 + q_{xx})} .

        A label is in the "full" set if the share of the n + 1 rows whose margin, that of y_i - R_i
        or f(x), is no larger than that of the new row exceeds 1 - ``confidence``. For "jackknife+"
        the new row has the score f(x) - q_ix R_i, its prediction without row i, beside row i.

        *Cost.* One decomposition, O(n^3) or O(n r^2), and O(n (r + c k)) for each new row. After a
        fit that has left out a sample of the rows, new rows are compared with that sample: one
        factorisation in single precision, and O(n^2) for each new row.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from fisherkit import KernelFisherClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelFisherClassifier(gamma=0.2, regularization=0.1).fit(X[::2], y[::2])
        >>> sets = model.predict_set(X[1::2], confidence=0.9)
        >>> sets.shape
        (75, 3)
        >>> bool(sets[range(75), y[1::2]].mean() > 0.85)
        True
        """
        check_is_fitted(self)
        confidence = validation.confidence(confidence)
        validation.one_of("method", method, conformal.METHODS)
        reach, centres = self._reach()
        indicator, (codes, weights) = membership(reach.ridge.Y), reach.everyone
        xp = arrays.namespace(indicator)
        cost = xp.max(membership(codes) * weights.cost[:, None], axis=0)
        balanced = self._decision.rule.balanced
        sets = conformal.Sets(reach, indicator, cost, balanced, class_conditional)
        full = method == "full"
        blocks = self._kernel_blocks(
            X, "predict_set", centres, reach.block, diagonal=full and reach.needs_diagonal
        )
        p = xp.concat([sets.p_values(k, own, method) for k, own in blocks], axis=0)
        return p > 1 - confidence + 1e-9  # a p-value that equals 1 - confidence excludes
