"""What all displays have in common: a picture on axes, and the model that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from typing import Self

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Ax: TypeAlias = "Axes | None"


class Display:
    """A picture on ``ax_``, in the matplotlib figure ``figure_``; `_draw` says what it shows."""

    ax_: Axes
    figure_: Figure | SubFigure

    def plot(self, *, ax: Ax = None) -> Self:
        """Draw on ``ax``, or on a new figure."""
        self._draw(self._axes(ax))
        return self

    def _draw(self, ax: Axes) -> None:
        raise NotImplementedError

    def _axes(self, ax: Ax, height: float = 4.5) -> Axes:
        """``ax``, or that of a new figure."""
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(7, height), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def fitted(estimator: BaseEstimator | Pipeline) -> BaseEstimator:
    """The fitted estimator, or the last step of a fitted pipeline."""
    model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    check_is_fitted(model)
    return model
