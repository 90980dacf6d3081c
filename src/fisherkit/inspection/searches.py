"""The searches behind fitted models, as they are drawn: error against mu, or against the size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fisherkit.estimators import ExpansionMixin
from fisherkit.tuning import Selection


@dataclass(frozen=True)
class WidthCurve:
    """The criterion at one kernel width, on so many rows.

    ``gamma`` is NaN for kernels without a width; ``relative`` (p,) are the values of mu in units
    of tr(G)/n, ascending, and ``values`` (p,) what the criterion was at each of them.
    """

    rows: int
    gamma: float
    relative: np.ndarray
    values: np.ndarray


def width_curves(selection: Selection) -> list[WidthCurve]:
    """One curve for each number of rows and width visited: few rows, and wide kernels, first."""
    path, curves = selection.path, []
    widths = np.nan_to_num(path["gamma"], nan=-1.0)
    for rows, width in sorted(set(zip(path["rows"].tolist(), widths.tolist(), strict=True))):
        visited = path[(widths == width) & (path["rows"] == rows)]
        gamma = np.nan if width < 0 else width
        # A setting may have been assessed more than once: the last value is the most exact.
        last = dict(zip(visited["mu"].tolist(), visited["value"].tolist(), strict=True))
        mus = np.array(sorted(last))
        values = np.array([last[mu] for mu in mus.tolist()])
        curves.append(WidthCurve(rows, gamma, mus / selection.unit, values))
    return curves


def size_curve(model: ExpansionMixin) -> np.ndarray:
    """The rows of ``path_`` at the kernel width of a sparse model, ascending in size.

    Sizes at which the folds stopped by themselves are left out.
    """
    path = model.path_
    if "stopped" in path.dtype.names:
        path = path[~path["stopped"]]
    if model.gamma_ is not None:
        path = path[path["gamma"] == model.gamma_]
    return path[np.argsort(path["n_terms"], kind="stable")]
