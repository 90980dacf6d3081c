"""The searches behind fitted models, as they are drawn: error against mu, or against the size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fisherkit.estimators import ExpansionMixin
from fisherkit.tuning import Selection


@dataclass(frozen=True)
class WidthCurve:
    """The criterion at one kernel width.

    ``gamma`` is NaN for kernels without a width; ``relative`` (p,) are the values of mu in units
    of tr(G)/n, ascending, and ``values`` (p,) what the criterion was at each of them.
    """

    gamma: float
    relative: np.ndarray
    values: np.ndarray


def width_curves(selection: Selection) -> list[WidthCurve]:
    """One curve for each kernel width that the search has visited, widest first."""
    path = selection.path
    widths = np.unique(path["gamma"][np.isfinite(path["gamma"])])
    curves = []
    for gamma in widths if len(widths) else [np.nan]:
        visited = path[np.isnan(path["gamma"]) if np.isnan(gamma) else path["gamma"] == gamma]
        # A setting may have been assessed more than once: the last value is the most exact.
        last = dict(zip(visited["mu"].tolist(), visited["value"].tolist(), strict=True))
        mus = np.array(sorted(last))
        values = np.array([last[mu] for mu in mus.tolist()])
        curves.append(WidthCurve(float(gamma), mus / selection.unit, values))
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
