"""Pictures of what exact leave-one-out gives, in scikit-learn's Display convention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from fisherkit.core import arrays
from fisherkit.inspection import audit
from fisherkit.model_selection import learning_curve, permutation_test_score
from fisherkit.plots.base import Ax, Display

if TYPE_CHECKING:
    from typing import Self

    import pandas as pd
    from matplotlib.axes import Axes


class _ComputedDisplay(Display):
    """A picture of results that a function computes."""

    @classmethod
    def from_predictions(cls, *results: object, ax: Ax = None, **options: object) -> Self:
        """Draw results that have been computed: the parameters of the class."""
        return cls(*results, **options).plot(ax=ax)


@dataclass(eq=False, repr=False)
class PermutationDisplay(_ComputedDisplay):
    """The scores of permuted labels, and the score of the true ones beside them.

    Parameters
    ----------
    score : float
    permutation_scores : (n_permutations,)
    pvalue : float
        As `fisherkit.model_selection.permutation_test_score` returns them.
    name : str, default="score"

    Examples
    --------
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.datasets import make_torus
    >>> from fisherkit.plots import PermutationDisplay
    >>> X, y = make_torus(100, random_state=0)
    >>> model = KernelFisherClassifier(gamma=0.5, regularization=1.0)
    >>> display = PermutationDisplay.from_estimator(model, X, y, n_permutations=99)
    >>> display.ax_.get_ylabel()
    'permutations'
    """

    score: float
    permutation_scores: np.ndarray
    pvalue: float
    name: str = "score"

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: ArrayLike, y: ArrayLike, *, ax: Ax = None, **options: Any
    ) -> PermutationDisplay:
        """Run the test with the ``options`` of `permutation_test_score`, and draw it."""
        score, permuted, pvalue = permutation_test_score(estimator, X, y, **options)
        return cls(score, permuted, pvalue, options.get("scoring") or "score").plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        ax.hist(self.permutation_scores, bins=30, color="tab:blue", alpha=0.5, label="permuted")
        label = f"true labels: {self.score:.3g} (p = {self.pvalue:.3g})"
        ax.axvline(self.score, color="tab:red", lw=2, label=label)
        ax.set_xlabel(f"cross-validated {self.name.replace('_', ' ')}")
        ax.set_ylabel("permutations")
        ax.legend(frameon=False)


@dataclass(eq=False, repr=False)
class SetDisplay(Display):
    """Coverage and size of label sets, class by class.

    Parameters
    ----------
    coverage, size : (n_classes,)
        Share of the rows of a class whose set holds their label; mean number of labels in it.
    classes : sequence
    confidence : float

    Examples
    --------
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.datasets import make_torus
    >>> from fisherkit.plots import SetDisplay
    >>> X, y = make_torus(300, random_state=0)
    >>> model = KernelFisherClassifier().fit(X[:200], y[:200])
    >>> display = SetDisplay.from_estimator(model, X[200:], y[200:], confidence=0.9)
    >>> len(display.coverage)
    2
    """

    coverage: np.ndarray
    size: np.ndarray
    classes: np.ndarray
    confidence: float

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike,
        *,
        confidence: float = 0.9,
        ax: Ax = None,
        **options: Any,
    ) -> SetDisplay:
        """Draw the sets of a fitted classifier, or of the last step of a fitted pipeline.

        ``options`` are those of its ``predict_set``.
        """
        if isinstance(estimator, Pipeline):
            X, estimator = estimator[:-1].transform(X), estimator[-1]
        sets = estimator.predict_set(X, confidence, **options)
        return cls.from_predictions(y, sets, estimator.classes_, confidence=confidence, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        sets: ArrayLike,
        classes: ArrayLike,
        *,
        confidence: float = 0.9,
        ax: Ax = None,
    ) -> SetDisplay:
        """Draw ``sets`` (n, n_classes) of rows labelled y."""
        labels, sets = arrays.to_numpy(y), arrays.to_numpy(sets)
        names = arrays.to_numpy(classes)
        rows = [labels == name for name in names]
        missing = [
            name for name, inside in zip(names.tolist(), rows, strict=True) if not any(inside)
        ]
        if missing:
            raise ValueError(f"y has no row of class {missing[0]!r}, whose coverage is unknown.")
        coverage = [sets[inside, q].mean() for q, inside in enumerate(rows)]
        size = [sets[inside].sum(axis=1).mean() for inside in rows]
        return cls(np.array(coverage), np.array(size), names, confidence).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        where = np.arange(len(self.coverage))
        ax.bar(where, self.coverage, width=0.6, color="tab:blue", alpha=0.5)
        ax.axhline(self.confidence, color="tab:red", lw=1.5, label=f"asked: {self.confidence:g}")
        for x, (height, size) in enumerate(zip(self.coverage, self.size, strict=True)):
            ax.text(x, 0.5 * height, f"{size:.2f} labels", ha="center", va="center")
        ax.set_xticks(where, [str(name) for name in self.classes])
        ax.set_ylim(0, 1.05)
        ax.set_xlabel("class")
        ax.set_ylabel("share of sets that hold the label")
        ax.legend(frameon=False, loc="lower right")


@dataclass(eq=False, repr=False)
class AuditDisplay(_ComputedDisplay):
    """Every row by the probability of its label and its influence; doubted rows in red.

    Parameters
    ----------
    table : pandas.DataFrame
        Of `fisherkit.audit`.

    Examples
    --------
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.datasets import make_torus
    >>> from fisherkit.plots import AuditDisplay
    >>> X, y = make_torus(100, random_state=0)
    >>> display = AuditDisplay.from_estimator(KernelFisherClassifier(), X, y)
    >>> display.ax_.get_xlabel()
    'leave-one-out probability of the given label'
    """

    table: pd.DataFrame

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: ArrayLike, y: ArrayLike, *, ax: Ax = None, **options: Any
    ) -> AuditDisplay:
        """Audit with the ``options`` of `fisherkit.audit`, and draw the table."""
        return cls(audit(estimator, X, y, **options)).plot(ax=ax)

    def plot(self, *, n_names: int = 5, ax: Ax = None) -> AuditDisplay:
        """Draw on ``ax``, or on a new figure, and name the ``n_names`` most doubted rows."""
        ax = self._axes(ax)
        doubted = (self.table.label != self.table.suggested).to_numpy()
        p, influence = self.table.probability.to_numpy(), self.table.influence.to_numpy()
        size = 12 + 150 * self.table.leverage.to_numpy()
        for rows, colour, label in (
            (~doubted, "tab:blue", "label confirmed"),
            (doubted, "tab:red", "another label suggested"),
        ):
            ax.scatter(p[rows], influence[rows], s=size[rows], color=colour, alpha=0.5, label=label)
        for name, x, y in list(zip(self.table.index, p, influence, strict=True))[:n_names]:
            ax.annotate(str(name), (x, y), xytext=(4, 4), textcoords="offset points", fontsize=8)
        ax.axhline(0, color="0.7", lw=0.8, zorder=0)
        ax.set_xlim(-0.02, 1.02)
        ax.set_xlabel("leave-one-out probability of the given label")
        ax.set_ylabel("influence (positive: harms other rows)")
        ax.legend(frameon=False)
        return self


@dataclass(eq=False, repr=False)
class LearningCurveDisplay(_ComputedDisplay):
    """Training and test scores against the number of training rows, with a standard error.

    Parameters
    ----------
    train_sizes : (n_sizes,)
    train_scores, test_scores : (n_sizes, n_folds)
        As `fisherkit.model_selection.learning_curve` returns them.
    name : str, default="score"

    Examples
    --------
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.datasets import make_torus
    >>> from fisherkit.plots import LearningCurveDisplay
    >>> X, y = make_torus(100, random_state=0)
    >>> model = KernelFisherClassifier(gamma=0.5, regularization=1.0)
    >>> display = LearningCurveDisplay.from_estimator(model, X, y, train_sizes=(20, 40, 80))
    >>> display.ax_.get_xlabel()
    'training rows'
    """

    train_sizes: np.ndarray
    train_scores: np.ndarray
    test_scores: np.ndarray
    name: str = "score"

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: ArrayLike, y: ArrayLike, *, ax: Ax = None, **options: Any
    ) -> LearningCurveDisplay:
        """Compute the curve with the ``options`` of `learning_curve`, and draw it."""
        sizes, train, test = learning_curve(estimator, X, y, **options)
        return cls(sizes, train, test, options.get("scoring") or "score").plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        for scores, colour, label in (
            (self.train_scores, "tab:grey", "training rows"),
            (self.test_scores, "tab:blue", "rows left out"),
        ):
            mean = scores.mean(axis=1)
            error = scores.std(axis=1) / np.sqrt(scores.shape[1])
            ax.fill_between(
                self.train_sizes, mean - error, mean + error, color=colour, alpha=0.15, lw=0
            )
            ax.plot(self.train_sizes, mean, "o-", color=colour, ms=4, label=label)
        ax.set_xlabel("training rows")
        ax.set_ylabel(self.name.replace("_", " "))
        ax.legend(frameon=False)
