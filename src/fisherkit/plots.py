"""Pictures of fitted models, in scikit-learn's Display convention. Needs matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fisherkit.select import Selection


class SelectionDisplay:
    """The search behind a model: the criterion against mu, one curve for each kernel width.

    Parameters
    ----------
    selection : Selection
        The ``selection_`` of a fitted estimator.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of matplotlib Line2D
        One for each kernel width, widest first.

    Examples
    --------
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.datasets import make_torus
    >>> from fisherkit.plots import SelectionDisplay
    >>> X, y = make_torus(100, random_state=0)
    >>> display = SelectionDisplay.from_estimator(KernelFisherClassifier().fit(X, y))
    >>> display.ax_.get_xlabel()
    'regularisation $\\\\mu$ (in units of tr G / n)'
    """

    def __init__(self, selection: Selection):
        self.selection = selection

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> SelectionDisplay:
        """Draw the search of a fitted estimator, or of the last step of a pipeline."""
        if isinstance(estimator, Pipeline):
            estimator = estimator[-1]
        check_is_fitted(estimator)
        return cls(estimator.selection_).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> SelectionDisplay:
        """Draw on ``ax``, or on a new figure."""
        import matplotlib.pyplot as plt
        from matplotlib.colors import LogNorm

        if ax is None:
            _, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
        selection = self.selection
        path = selection.path
        widths = np.unique(path["gamma"][np.isfinite(path["gamma"])])
        colours, norm = plt.get_cmap("viridis"), None
        if len(widths) > 1:
            norm = LogNorm(widths[0], widths[-1])
        self.lines_ = []
        for gamma in widths if len(widths) else [np.nan]:
            curve = path[np.isnan(path["gamma"]) if np.isnan(gamma) else path["gamma"] == gamma]
            # A width may have been priced more than once: the last price is the most exact.
            last = {mu: value for mu, value in zip(curve["mu"], curve["value"], strict=True)}
            mu = np.array(sorted(last))
            colour = colours(norm(gamma) if norm is not None else 0.4)
            self.lines_ += ax.plot(
                mu / selection.unit, [last[m] for m in mu], color=colour, lw=1.4, alpha=0.9
            )
        ax.plot(
            selection.mu / selection.unit,
            selection.value,
            "o",
            color="tab:red",
            ms=8,
            zorder=3,
            label=f"chosen: {selection.value:.4g} at $\\mu$ = {selection.mu:.3g}",
        )
        ax.set_xscale("log")
        if selection.value > 0:
            finite = path["value"][np.isfinite(path["value"])]
            ax.set_ylim(selection.value * 0.9, min(finite.max() * 1.05, 4 * selection.value))
        ax.set_xlabel("regularisation $\\mu$ (in units of tr G / n)")
        ax.set_ylabel(f"held-out {selection.criterion}")
        ax.legend(frameon=False, loc="upper left")
        if norm is not None:
            scale = plt.cm.ScalarMappable(norm=norm, cmap=colours)
            ax.figure.colorbar(scale, ax=ax, label="kernel coefficient $\\gamma$")
        self.ax_, self.figure_ = ax, ax.figure
        return self
