"""Sections of the report on the model: settings, search, coordinates, relevance, retained rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
from sklearn.base import ClassifierMixin

from fisherkit.estimators import (
    BayesianFisherClassifier,
    ExpansionMixin,
    FisherCommitteeClassifier,
    KernelFisherClassifier,
)
from fisherkit.inspection import WidthCurve, size_curve, width_curves
from fisherkit.methods import CRITERION_WORDS, Fact, Method, method_named
from fisherkit.report.blocks import (
    MOST_CURVES,
    Block,
    Section,
    rounded,
    section,
    series_of,
    text,
)
from fisherkit.report.left_out_scores import stratified
from fisherkit.terminal import percent, spent
from fisherkit.training import Training, about_sets, has_sets
from fisherkit.tuning import Selection, Softmax

KERNELS = {
    "rbf": "rbf (two rows count as alike when they are close)",
    "laplacian": "laplacian (two rows count as alike when they are close)",
    "linear": "linear (a weighted sum of the features)",
}
_POINTS = 1500


def chosen(training: Training) -> Section:
    """The method, its settings and the search behind them."""
    model, method = training.model.estimator_, method_named(training.method)
    rows = [("Method", method.title), *_settings(method, model)]
    sets = about_sets(training.model)
    rows.append(("Label sets", f"{'yes' if has_sets(training.model) else 'none'}: {sets}"))
    rows.append(("Time", spent(training.seconds, held_out=training.held_out is not None)))
    rows.append(("Version", f"fisherkit {version('fisherkit')}"))
    return section(
        "What was fitted and chosen",
        "The settings in use, and how the search for them went.",
        {"type": "facts", "rows": [list(fact) for fact in rows]},
        *SEARCHES[method.search](model),
    )


def _settings(method: Method, model: ClassifierMixin) -> list[Fact]:
    kernel = getattr(model, "kernel", None)
    rows: list[Fact] = []
    if kernel is not None:
        name = kernel if isinstance(kernel, str) else type(kernel).__name__
        rows.append(("Kernel", KERNELS.get(name, name)))
    gamma = getattr(model, "gamma_", None)
    if isinstance(gamma, float):
        width = f"; width {1 / np.sqrt(2 * gamma):.4g}" if kernel == "rbf" else ""
        rows.append(("Kernel coefficient", f"gamma {gamma:.4g}{width}"))
    rows += method.facts(model)
    if isinstance(model.calibration_, Softmax):
        ridge = model.calibration_.ridge
        rows.append(("Decision", f"softmax of all scores; ridge {ridge:g}, by cross-validation"))
    if not model.calibration_.decided:
        rows.append(("Probabilities", model.calibration_.status.value))
    return rows


def _members(model: FisherCommitteeClassifier) -> list[Block]:
    best = np.sort(model.members_, order="weight")[::-1][:10]
    rows = [
        [
            str(m["kernel"]),
            f"{m['width']:.3g}",
            f"{m['mu'] / m['unit']:.3g}",
            percent(m["weight"]),
            f"{m['loo_log_loss']:.4f}",
        ]
        for m in best
    ]
    head = ["kernel", "width", "mu / (tr(G)/n)", "weight", "leave-one-out log-loss"]
    title = "The members of largest weight"
    return [{"type": "table", "title": title, "head": head, "rows": rows, "numbers": 1}]


def _learned(model: BayesianFisherClassifier) -> list[Block]:
    return [
        text(
            "This method learns its regularisation together with the kernel from the evidence of "
            "all rows: it compares no values of mu one by one."
        )
    ]


def _apart(curve: WidthCurve, selection: Selection) -> float:
    """How far the width of a curve is from the chosen one, in log gamma."""
    return 0.0 if selection.gamma is None else abs(math.log(curve.gamma / selection.gamma))


def _mu_path(model: KernelFisherClassifier) -> list[Block]:
    """The criterion against mu, for the width chosen and, in grey, for the others."""
    selection = model.selection_
    if len(selection.path) == 1:
        return []
    criterion = CRITERION_WORDS.get(selection.criterion, selection.criterion)
    series: list[Block] = []
    curves = [curve for curve in width_curves(selection) if len(curve.values) > 2]
    if not curves:
        return []
    every = int(selection.path["rows"].max())
    fewer = sorted({curve.rows for curve in curves if curve.rows < every})
    chosen_curve = min(curves, key=lambda curve: (-curve.rows, _apart(curve, selection)))
    exact = chosen_curve.rows == every and _apart(chosen_curve, selection) == 0
    for curve in curves:
        here = curve is chosen_curve
        x = [float(f"{log_mu:.5g}") for log_mu in np.log10(curve.relative)]
        name = "other widths"
        if here:
            name = "the chosen width" if exact else "the width nearest to the chosen one"
        series.append(series_of(name, x, curve.values.tolist()) | {"faint": not here})
    series.sort(key=lambda one: not one["faint"])
    finite = selection.path["value"][np.isfinite(selection.path["value"])]
    top = min(float(np.max(finite)), max(4 * selection.value, float(np.quantile(finite, 0.25))))
    chosen: Block = {"x": float(np.log10(selection.mu / selection.unit)), "y": selection.value}
    return [
        {
            "type": "lines",
            "title": "The search for the regularisation",
            "series": series,
            "x": {"label": "log10 of mu (in units of tr(G)/n)"},
            "y": {"label": criterion, "top": top},
            "marks": [chosen],
            "note": "All settings compared, judged on left-out rows: lower is better, and the "
            "ring marks the chosen one. With little regularisation (left) the model follows "
            "single rows, with much (right) it smooths the pattern away."
            + (" Grey: other kernel widths." if len(series) > 1 else "")
            + (
                f" The curves were compared on {fewer[0]} of the rows, the ring is on all {every}."
                if fewer
                else ""
            ),
        }
    ]


def _size_path(model: ExpansionMixin) -> list[Block]:
    path = size_curve(model)
    terms, error, spread = path["n_terms"], path["cv_error"], path["cv_se"]
    return [
        {
            "type": "lines",
            "title": "Error against the size of the model",
            "series": [
                series_of("cross-validated error", terms.tolist(), error.tolist())
                | {"low": (error - spread).tolist(), "high": (error + spread).tolist()}
            ],
            "x": {"label": "kernels retained (mean over folds)"},
            "y": {"label": "cross-validated error", "percent": True, "zero": True},
            "marks": [{"x": float(model.n_terms_), "y": model.cv_error_}],
            "note": "At the chosen kernel width; the band is one standard error. The ring marks "
            "the model in use.",
        }
    ]


SEARCHES: dict[str | None, Callable[[ClassifierMixin], list[Block]]] = {
    "mu": _mu_path,
    "size": _size_path,
    "members": _members,
    "evidence": _learned,
    None: lambda model: [],
}


def coordinates(
    training: Training, index: np.ndarray, values: np.ndarray | None, seed: int
) -> Section | None:
    """The first two discriminant coordinates of left-out rows, from three classes on."""
    model = training.model.estimator_
    names = [str(c) for c in model.classes_]
    if len(names) == 2:
        return None
    title = "Discriminant coordinates"
    if values is None:
        return section(title, "This method decides class by class and has no common coordinates.")
    rows = stratified(index, _POINTS, seed)
    low, high = np.quantile(values[:, :2], [0.005, 0.995], axis=0)
    margin = 0.25 * (high - low)
    inside = np.clip(values[rows, :2], low - margin, high + margin)
    order = np.argsort(-np.bincount(index), kind="stable")[:MOST_CURVES]
    series = [
        series_of(names[c], *[rounded(inside[index[rows] == c, j]) for j in (0, 1)])
        for c in sorted(order.tolist())
    ]
    sample = f" A sample of {len(rows):,} rows." if len(rows) < len(index) else ""
    few = f" The {MOST_CURVES} largest classes." if len(names) > MOST_CURVES else ""
    return section(
        title,
        "The two directions that separate the classes best. Each dot is a row, placed by the "
        "model fitted without it; the unit is the spread within classes.",
        {
            "type": "scatter",
            "title": "Left-out rows in discriminant coordinates",
            "series": series,
            "x": {"label": "coordinate 1"},
            "y": {"label": "coordinate 2"},
            "note": f"Classes far apart are told apart easily.{sample}{few}",
        },
    )
