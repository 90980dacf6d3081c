"""Forward selection by leave-one-out error exactly as Hong, Chen and Harris (2006) print it.

No bias, the first of equally good candidates, and an end at the first step that does not lower the
leave-one-out error rate. `ForwardFisherClassifier` mends all three; this is the control.
"""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold


class PrintedForwardSelection(ClassifierMixin, BaseEstimator):
    """F-OFS-LOO as printed, Gaussian kernel; "cv" takes the best of 7 widths by 5 folds."""

    def __init__(self, gamma="cv"):
        self.gamma = gamma

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        signs = np.where(y == self.classes_[1], 1.0, -1.0)
        self.gamma_ = self._width(X, y, signs) if self.gamma == "cv" else self.gamma
        terms, self.dual_coef_ = select(rbf_kernel(X, gamma=self.gamma_), signs)
        self.centres_ = X[terms]
        self.n_terms_ = len(terms)
        return self

    def _width(self, X, y, signs):
        gammas = 2.0 ** np.arange(-3, 4) / (2 * X.shape[1])
        errors = np.zeros(len(gammas))
        for train, test in StratifiedKFold(5).split(X, y):
            for i, gamma in enumerate(gammas):
                terms, coef = select(rbf_kernel(X[train], gamma=gamma), signs[train])
                scores = rbf_kernel(X[test], X[train][terms], gamma=gamma) @ coef
                errors[i] += np.sum(scores * signs[test] <= 0)
        return float(gammas[np.argmin(errors)])

    def decision_function(self, X):
        return rbf_kernel(X, self.centres_, gamma=self.gamma_) @ self.dual_coef_

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def select(P: np.ndarray, signs: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Columns of P (n, n) in the order chosen, and their coefficients."""
    W = P.copy()
    residual, denominator = signs.copy(), np.ones(len(signs))
    terms: list[int] = []
    best = np.inf
    while len(terms) < len(signs):
        energy = np.sum(W**2, axis=0)
        usable = energy > 1e-10 * np.sum(P**2, axis=0)
        energy = np.where(usable, energy, 1.0)
        theta = residual @ W / energy
        left = (residual[:, None] - W * theta) / (denominator[:, None] - W**2 / energy)
        rates = np.mean(signs[:, None] * left >= 1, axis=0)  # y - yhat(-i): wrong where y f <= 0
        rates[~usable] = np.inf
        j = int(np.argmin(rates))
        if not rates[j] < best:
            break
        best = rates[j]
        w = W[:, j].copy()
        residual -= theta[j] * w
        denominator -= w**2 / energy[j]
        W -= np.outer(w, w @ W / energy[j])
        terms.append(j)
    return terms, np.linalg.lstsq(P[:, terms], signs, rcond=None)[0]
