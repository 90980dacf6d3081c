"""Colours, lines and empty figures that all pictures share. Needs matplotlib.

Colours are those of Okabe and Ito, told apart by colour-blind readers; lines and markers differ
too, for those who print in grey. A figure is 700 pixels wide at 100 dots per inch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from numpy.typing import ArrayLike

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))


def canvas(
    rows: int = 1, columns: int = 1, *, height: float = 4.2, **options: Any
) -> tuple[Drawing, np.ndarray]:
    """A figure and its axes as a (rows, columns) array; nothing global changes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, height), dpi=100, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    for ax in grid.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, grid


def scatter(ax: Axes, X: np.ndarray, y: np.ndarray) -> None:
    """Two classes of points as pluses (label 1) and circles (label 0)."""
    ax.plot(*X[y == 1].T, "+", color=BLACK, ms=5, mew=1.0, label="class 1")
    ax.plot(*X[y == 0].T, "o", color="#444444", ms=3.5, mew=0.9, mfc="none", label="class 0")


def plane(X: np.ndarray, *, points: int = 160) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A grid over the rows of X (n, 2) with a margin: both axes, and all points (points^2, 2)."""
    low, high = X.min(axis=0), X.max(axis=0)
    margin = 0.08 * (high - low)
    first, second = (np.linspace(low[k] - margin[k], high[k] + margin[k], points) for k in (0, 1))
    return first, second, np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2)


def contour(
    ax: Axes,
    X: np.ndarray,
    f: Callable[[np.ndarray], ArrayLike],
    levels: list[float],
    *,
    color: str,
    style: str | tuple[float, tuple[float, ...]],
    width: float = 1.5,
) -> None:
    """Lines where f, a function of rows, has the levels; none where it does not reach them."""
    first, second, points = plane(X)
    heights = np.reshape(f(points), (len(second), len(first)))
    inside = [level for level in levels if heights.min() < level < heights.max()]
    if inside:
        ax.contour(
            first, second, heights, inside, colors=color, linestyles=[style], linewidths=width
        )


def below(figure: Drawing, ax: Axes, **options: Any) -> None:
    """One legend for the whole figure, beneath it."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, **options)
