"""Pictures of fitted models; pictures of left-out rows are in `fisherkit.plots.loo`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from fisherkit.core import arrays
from fisherkit.inspection import (
    ColumnImportance,
    column_importance,
    size_curve,
    width_curves,
)
from fisherkit.interfaces import Seed
from fisherkit.plots.base import Ax, Display, fitted
from fisherkit.tuning import Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.lines import Line2D

MARKERS = "os^DvP*X"  # classes differ in shape as well as in colour


@dataclass(eq=False, repr=False)
class RegularizationPathDisplay(Display):
    """The search behind a model: the criterion against mu, one curve for each kernel width.

    Where the search began on fewer rows, what it saw there is drawn faintly; dots are single
    settings.

    Parameters
    ----------
    selection : Selection
        The ``selection_`` of a fitted estimator.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        One for each number of rows and kernel width, the widest first.

    Examples
    --------
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.datasets import make_torus
    >>> from fisherkit.plots import RegularizationPathDisplay
    >>> X, y = make_torus(100, random_state=0)
    >>> display = RegularizationPathDisplay.from_estimator(KernelFisherClassifier().fit(X, y))
    >>> display.ax_.get_xlabel()
    'regularisation $\\\\mu$ (in units of tr G / n)'
    """

    selection: Selection

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Ax = None
    ) -> RegularizationPathDisplay:
        """Draw the search of a fitted estimator, or of the last step of a pipeline."""
        model = fitted(estimator)
        if not hasattr(model, "selection_"):
            raise ValueError(
                f"{type(model).__name__} has no path over mu; KernelFisherClassifier and "
                "KernelRidgeCV have. SparsityPathDisplay draws the path of a sparse classifier."
            )
        return cls(model.selection_).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        import matplotlib.pyplot as plt
        from matplotlib.colors import LogNorm

        selection = self.selection
        curves = width_curves(selection)
        colours, norm = plt.get_cmap("viridis"), None
        widths = [curve.gamma for curve in curves]
        if min(widths) < max(widths):
            norm = LogNorm(min(widths), max(widths))
        every = max(curve.rows for curve in curves)
        self.lines_: list[Line2D] = []
        for curve in curves:
            colour = colours(norm(curve.gamma) if norm is not None else 0.4)
            look = "." if len(curve.values) == 1 else "-"
            alpha = 0.9 if curve.rows == every else 0.35
            self.lines_ += ax.plot(
                curve.relative, curve.values, look, color=colour, lw=1.4, ms=9, alpha=alpha
            )
        chosen = f"chosen: {selection.value:.4g} at $\\mu$ = {selection.mu:.3g}"
        _mark(ax, selection.mu / selection.unit, selection.value, chosen)
        ax.set_xscale("log")
        if selection.value > 0:
            values = selection.path["value"]
            highest = float(np.max(values[np.isfinite(values)]))
            ax.set_ylim(selection.value * 0.9, min(highest * 1.05, 4 * selection.value))
        ax.set_xlabel("regularisation $\\mu$ (in units of tr G / n)")
        ax.set_ylabel(f"leave-one-out {selection.criterion}")
        fewer = sorted({curve.rows for curve in curves if curve.rows < every})
        if fewer:
            numbers = ", ".join(map(str, fewer))
            ax.plot([], [], color="grey", alpha=0.35, label=f"on {numbers} of {every} rows")
        ax.legend(frameon=False, loc="upper left")
        if norm is not None:
            scale = plt.cm.ScalarMappable(norm=norm, cmap=colours)
            ax.figure.colorbar(scale, ax=ax, label="kernel coefficient $\\gamma$")


@dataclass(eq=False, repr=False)
class SparsityPathDisplay(Display):
    """Error against the number of terms of a sparse classifier, at the kernel width chosen.

    Cross-validated errors with a band of one standard error; every fold selects its own terms. For
    `ForwardFisherClassifier` also the leave-one-out error of the run on all rows, which is
    conditional on the selection and therefore too low.

    Parameters
    ----------
    path : ndarray
        Rows of ``path_`` at one width, without those where the folds stopped by themselves.
    n_terms : int
        Size of the model chosen.
    cv_error : float
        Its cross-validated error.
    growth : ndarray or None
        ``growth_`` of a forward selection.

    Examples
    --------
    >>> from fisherkit import ForwardFisherClassifier
    >>> from fisherkit.datasets import make_torus
    >>> from fisherkit.plots import SparsityPathDisplay
    >>> X, y = make_torus(100, random_state=0)
    >>> display = SparsityPathDisplay.from_estimator(ForwardFisherClassifier().fit(X, y))
    >>> display.ax_.get_xlabel()
    'kernels retained'
    """

    path: np.ndarray
    n_terms: int
    cv_error: float
    growth: np.ndarray | None = None

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, *, ax: Ax = None) -> SparsityPathDisplay:
        """Draw the path of a fitted sparse classifier, or of the last step of a pipeline."""
        model = fitted(estimator)
        if not hasattr(model, "n_terms_"):
            raise ValueError(
                f"{type(model).__name__} has no path over sizes; SparseFisherClassifier and "
                "ForwardFisherClassifier have."
            )
        growth = getattr(model, "growth_", None)
        return cls(size_curve(model), model.n_terms_, model.cv_error_, growth).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        path = self.path[np.argsort(self.path["n_terms"], kind="stable")]
        percent, spread = 100 * path["cv_error"], 100 * path["cv_se"]
        ax.fill_between(
            path["n_terms"], percent - spread, percent + spread, color="tab:blue", alpha=0.15, lw=0
        )
        ax.plot(path["n_terms"], percent, "o-", color="tab:blue", ms=3, label="cross-validated")
        if self.growth is not None:
            ax.plot(
                np.arange(len(self.growth)),
                100 * self.growth["conditional_loo_error"],
                "--",
                color="tab:grey",
                label="leave-one-out, conditional on the selection",
            )
        chosen = f"chosen: {self.n_terms} terms, {100 * self.cv_error:.3g} %"
        _mark(ax, self.n_terms, 100 * self.cv_error, chosen)
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("kernels retained")
        ax.set_ylabel("error (%)")
        ax.legend(frameon=False)


@dataclass(eq=False, repr=False)
class RelevanceDisplay(Display):
    """The relevance of each feature, largest on top, on a logarithmic axis.

    Parameters
    ----------
    relevance : (n_features,)
        The ``relevance_`` of a fitted estimator: squared ratio of a feature's standard deviation
        to its length scale.
    names : sequence of str
        One for each feature.

    Examples
    --------
    >>> from fisherkit import BayesianFisherClassifier
    >>> from fisherkit.datasets import make_relevance
    >>> from fisherkit.plots import RelevanceDisplay
    >>> X, y = make_relevance(100, n_irrelevant=5, random_state=0)
    >>> model = BayesianFisherClassifier(ard=True).fit(X, y)
    >>> display = RelevanceDisplay.from_estimator(model)
    >>> display.ax_.get_yticklabels()[-1].get_text()
    'x0'
    """

    relevance: np.ndarray
    names: Sequence[str]

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, max_features: int = 20, ax: Ax = None
    ) -> RelevanceDisplay:
        """Draw the relevances of a fitted estimator, or of the last step of a pipeline.

        Names are those of the features of the step itself: a pipeline with pandas output keeps
        them.
        """
        model = fitted(estimator)
        relevance = getattr(model, "relevance_", None)
        if relevance is None:
            raise ValueError(
                f"{type(model).__name__} has no relevance_; fit a BayesianFisherClassifier with "
                "kernel='rbf' or 'linear', KernelFisherClassifier or KernelRidgeCV with ard=True."
            )
        names = getattr(model, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(len(relevance))]
        return cls(arrays.to_numpy(relevance), names).plot(max_features=max_features, ax=ax)

    def plot(self, *, max_features: int = 20, ax: Ax = None) -> RelevanceDisplay:
        """Draw the ``max_features`` most relevant features on ``ax``, or on a new figure."""
        order = np.argsort(-self.relevance, kind="stable")[:max_features][::-1]
        values = self.relevance[order]
        ax = self._axes(ax, height=1.2 + 0.26 * len(order))
        largest = max(float(np.max(values)), np.finfo(float).tiny)
        shown = np.maximum(values, 1e-6 * largest)  # what is smaller is nothing
        rows = np.arange(len(order))
        ax.hlines(rows, 0.5e-6 * largest, shown, color="tab:blue", alpha=0.35, lw=1.5)
        ax.plot(shown, rows, "o", color="tab:blue", ms=6)
        ax.set_xscale("log")
        ax.set_xlim(max(0.5 * float(np.min(shown)), 0.5e-6 * largest), 2 * largest)
        ax.set_yticks(rows, [str(self.names[j]) for j in order])
        ax.set_ylim(-0.6, len(order) - 0.4)
        hidden = len(self.relevance) - len(order)
        if hidden:
            note = f"{hidden} less relevant\nfeatures not shown"
            ax.text(0.98, 0.02, note, ha="right", va="bottom", transform=ax.transAxes, fontsize=9)
        ax.set_xlabel("relevance: (standard deviation / length scale)$^2$")
        ax.grid(axis="x", alpha=0.3)
        return self


@dataclass(eq=False, repr=False)
class ImportanceDisplay(Display):
    """How much the error rises when a column is permuted, the most important column on top.

    Bars have whiskers of two standard errors over the rows.

    Parameters
    ----------
    importance : ColumnImportance

    Examples
    --------
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.datasets import make_relevance
    >>> from fisherkit.plots import ImportanceDisplay
    >>> X, y = make_relevance(100, n_irrelevant=5, random_state=0)
    >>> model = KernelFisherClassifier().fit(X, y)
    >>> display = ImportanceDisplay.from_estimator(model, X, y)
    >>> display.ax_.get_yticklabels()[-1].get_text()
    'x0'
    """

    importance: ColumnImportance

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_repeats: int = 5,
        random_state: Seed = 0,
        max_columns: int = 20,
        ax: Ax = None,
    ) -> ImportanceDisplay:
        """Find the importance as `column_importance` does, and draw it."""
        found = column_importance(estimator, X, y, n_repeats=n_repeats, random_state=random_state)
        return cls(found).plot(max_columns=max_columns, ax=ax)

    def plot(self, *, max_columns: int = 20, ax: Ax = None) -> ImportanceDisplay:
        """Draw the ``max_columns`` most important columns on ``ax``, or on a new figure."""
        found = self.importance
        order = np.argsort(-found.rise, kind="stable")[:max_columns][::-1]
        ax = self._axes(ax, height=1.2 + 0.26 * len(order))
        rows = np.arange(len(order))
        ax.barh(rows, found.rise[order], color="tab:blue", alpha=0.45, height=0.7)
        ax.errorbar(
            found.rise[order], rows, xerr=2 * found.standard_error[order], fmt=".", color="tab:blue"
        )
        ax.axvline(0, color="0.4", lw=0.8)
        ax.set_yticks(rows, [found.columns[j] for j in order])
        ax.set_ylim(-0.6, len(order) - 0.4)
        if hidden := len(found.rise) - len(order):
            note = f"{hidden} less important\ncolumns not shown"
            ax.text(0.98, 0.02, note, ha="right", va="bottom", transform=ax.transAxes, fontsize=9)
        of = "left-out rows" if found.left_out else "rows"
        ax.set_xlabel(f"rise of the {found.measure} of {of} (now {found.base:.3g})")
        ax.grid(axis="x", alpha=0.3)
        return self


@dataclass(eq=False, repr=False)
class ProjectionDisplay(Display):
    """Rows on the discriminant, class by class.

    Two classes: a histogram of the projections on the one axis there is. More: a scatter of the
    first two discriminant coordinates.

    Parameters
    ----------
    projections : (n, n_axes)
    y : (n,)
    classes : sequence
        In the order in which they are drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.plots import ProjectionDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelFisherClassifier().fit(X[::2], y[::2])
    >>> display = ProjectionDisplay.from_estimator(model, X[1::2], y[1::2])
    >>> display.ax_.get_ylabel()
    'discriminant coordinate 2'
    """

    projections: np.ndarray
    y: np.ndarray
    classes: np.ndarray

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: ArrayLike, y: ArrayLike, *, ax: Ax = None
    ) -> ProjectionDisplay:
        """Project X with a fitted classifier (or pipeline), and draw.

        Rows that the classifier was fitted to look better separated than new ones: give it rows
        that it has not seen. Classifiers that have no ``transform`` show their decisions, for two
        classes only.
        """
        if hasattr(estimator, "transform"):
            projections = estimator.transform(X)
        elif len(estimator.classes_) == 2:
            projections = estimator.decision_function(X)
        else:
            raise ValueError(
                f"{type(fitted(estimator)).__name__} has no discriminant coordinates, which "
                f"{len(estimator.classes_)} classes need; KernelFisherClassifier and "
                "BayesianFisherClassifier have."
            )
        return cls.from_predictions(y, projections, classes=estimator.classes_, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        projections: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        ax: Ax = None,
    ) -> ProjectionDisplay:
        """Draw ``projections`` (n,) or (n, n_axes) of rows labelled y."""
        labels, values = arrays.to_numpy(y), arrays.to_numpy(projections)
        names = np.unique(labels) if classes is None else arrays.to_numpy(classes)
        return cls(values.reshape(len(labels), -1), labels, names).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        import matplotlib.pyplot as plt

        colours = plt.get_cmap("viridis")(np.linspace(0.1, 0.85, len(self.classes)))
        bins = np.histogram_bin_edges(self.projections[:, 0], bins=40).tolist()
        for number, (name, colour) in enumerate(zip(self.classes, colours, strict=True)):
            rows = self.projections[self.y == name]
            if rows.shape[1] == 1:
                style = {"color": colour, "label": str(name)}
                ax.hist(rows[:, 0], bins, alpha=0.45, **style)
                ax.hist(rows[:, 0], bins, histtype="step", ls=["-", "--"][number % 2], color=colour)
            else:
                marker = MARKERS[number % len(MARKERS)]
                ax.plot(
                    rows[:, 0], rows[:, 1], marker, color=colour, ms=5, alpha=0.7, label=str(name)
                )
        if self.projections.shape[1] == 1:
            ax.set_xlabel("projection on the discriminant")
            ax.set_ylabel("rows")
        else:
            ax.set_xlabel("discriminant coordinate 1")
            ax.set_ylabel("discriminant coordinate 2")
        ax.legend(frameon=False)


@dataclass(eq=False, repr=False)
class CommitteeDisplay:
    """The weight of each member over kernel width and mu, one panel for each kernel family.

    Parameters
    ----------
    members : ndarray
        The ``members_`` of a fitted `FisherCommitteeClassifier`.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        One for each kernel.
    figure_ : matplotlib Figure
    meshes_ : list of matplotlib QuadMesh

    Examples
    --------
    >>> from fisherkit import FisherCommitteeClassifier
    >>> from fisherkit.datasets import make_torus
    >>> from fisherkit.plots import CommitteeDisplay
    >>> X, y = make_torus(100, random_state=0)
    >>> display = CommitteeDisplay.from_estimator(FisherCommitteeClassifier().fit(X, y))
    >>> [ax.get_title() for ax in display.axes_]
    ['rbf', 'laplacian']
    """

    members: np.ndarray

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Ax | Sequence[Axes] = None
    ) -> CommitteeDisplay:
        """Draw the members of a fitted committee, or of the last step of a pipeline."""
        return cls(fitted(estimator).members_).plot(ax=ax)

    def plot(self, *, ax: Ax | Sequence[Axes] = None) -> CommitteeDisplay:
        """Draw on the array of axes ``ax``, one for each kernel, or on a new figure."""
        import matplotlib.pyplot as plt

        names = list(dict.fromkeys(self.members["kernel"].tolist()))
        if ax is None:
            size = (1 + 3.2 * len(names), 4)
            _, ax = plt.subplots(1, len(names), figsize=size, layout="constrained", sharey=True)
        self.axes_: list[Axes] = np.ravel(np.asarray(ax, dtype=object)).tolist()
        if len(self.axes_) != len(names):
            raise ValueError(
                f"ax has {len(self.axes_)} entries for {len(names)} kernels: {', '.join(names)}."
            )
        best = self.members[np.argmin(self.members["loo_log_loss"])]
        percent = 100 * self.members["weight"]
        self.meshes_: list[QuadMesh] = []
        for panel, name in zip(self.axes_, names, strict=True):
            family = self.members["kernel"] == name
            # Kernels without a width have one column.
            widths, column = np.unique(
                np.nan_to_num(self.members["width"][family], nan=1.0), return_inverse=True
            )
            relative = np.log2(self.members["mu"] / self.members["unit"])
            rows, row = np.unique(np.round(relative[family], 6), return_inverse=True)
            grid = np.zeros((len(rows), len(widths)))
            grid[row, column] = percent[family]
            mesh = panel.pcolormesh(
                np.arange(len(widths)),
                2.0**rows,
                grid,
                cmap="magma_r",
                vmin=0,
                vmax=percent.max() or 1,
            )
            self.meshes_.append(mesh)
            if name == best["kernel"]:
                where = np.searchsorted(widths, best["width"]) if np.isfinite(best["width"]) else 0
                panel.plot(
                    where, best["mu"] / best["unit"], "o", mfc="none", mec="tab:cyan", ms=9, mew=2
                )
            panel.set_yscale("log", base=2)
            has_width = bool(np.all(np.isfinite(self.members["width"][family])))
            labels = [f"{w:.3g}" for w in widths] if has_width else ["none"]
            panel.set_xticks(np.arange(len(widths)), labels, rotation=45)
            panel.set_xlabel("kernel width")
            panel.set_title(name)
        self.axes_[0].set_ylabel("regularisation $\\mu$ (in units of tr G / n)")
        self.figure_ = self.axes_[0].figure
        self.figure_.colorbar(self.meshes_[-1], ax=self.axes_, label="weight of the member (%)")
        return self


def _mark(ax: Axes, x: float, y: float, label: str) -> None:
    """A red dot where the model in use is."""
    ax.plot(x, y, "o", color="tab:red", ms=8, zorder=3, label=label)
