"""Figures of Saadi et al. (2007) and of Cawley and Talbot (2003)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fisherkit.datasets import make_torus
from fisherkit.reproduction.canvas import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    MARKERS,
    ORANGE,
    STYLES,
    VERMILION,
    below,
    canvas,
    contour,
    plane,
    scatter,
)
from fisherkit.reproduction.loo_studies import ROUNDING, torus_classifier
from fisherkit.reproduction.tasks import Result, Task
from fisherkit.reproduction.trials import by_setting, options, values

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

COMPRESSIONS = (1, 2, 4, 10)
SURFACE_ROWS = 256
_ROUTES = {
    "direct": ("a refit per row and $\\mu$", VERMILION, "s"),
    "closed": ("a hat matrix per $\\mu$", ORANGE, "^"),
    "canonical": ("canonical form of K'K", GREEN, "D"),
    "ours": ("fisherkit", BLUE, "o"),
}


def sigmoid(results: Mapping[Task, Result]) -> Drawing:
    """Logistic functions that approach the step."""
    figure, ((ax,),) = canvas(height=3.6)
    x = np.linspace(-3, 3, 601)
    ax.plot([-3, 0, 0, 3], [0, 0, 1, 1], color=BLACK, lw=2.2, label="unit step")
    for factor, colour, style in zip(COMPRESSIONS, COLOURS, STYLES, strict=False):
        label = f"$\\gamma$ = {factor}"
        ax.plot(x, 1 / (1 + np.exp(-factor * x)), color=colour, ls=style, lw=1.8, label=label)
    ax.set(xlabel="x (margin of a left-out row)", ylabel="f(x)", xlim=(-3, 3))
    ax.legend(frameon=False, loc="upper left")
    return figure


def surface(results: Mapping[Task, Result]) -> Drawing:
    """The output of the tuned classifier over the plane, trial 0."""
    from matplotlib.colors import Normalize

    X, y = make_torus(SURFACE_ROWS, random_state=0)
    model = torus_classifier().fit(X, y)
    figure, ((ax,),) = canvas(height=5.6)
    first, second, points = plane(X)
    f = np.reshape(model.decision_function(points), (len(second), len(first)))
    levels = np.linspace(-1.5, 1.5, 13)
    shades = ax.contourf(
        first, second, f, levels, cmap="PuOr", norm=Normalize(-3, 3), extend="both"
    )
    contour(ax, X, model.decision_function, [0.0], color=BLACK, style="-", width=2.2)
    contour(ax, X, model.decision_function, [-1.0, 1.0], color=BLACK, style="--", width=1.1)
    scatter(ax, X, y)
    ax.set(xlabel="first feature", ylabel="second feature", aspect="equal")
    ax.legend(loc="upper right", framealpha=0.9)
    figure.colorbar(shades, ax=ax, label="output f(x); class 1 where positive", shrink=0.85)
    return figure


def run_time(results: Mapping[Task, Result]) -> Drawing:
    """Total time (solid) and time of the search over mu alone (dashed) against n."""
    figure, ((ax,),) = canvas(height=5.0)
    runs = by_setting(results, "mu-search")
    for route, (label, colour, marker) in _ROUTES.items():
        sizes = sorted(int(options(s)["n"]) for s in runs if options(s)["route"] == route)
        trials = [runs[f"route={route} n={n}"] for n in sizes]
        for field, style, fill in (("total", "-", colour), ("search", "--", "white")):
            seconds = [np.mean(values(trial, f"{field}_seconds")) for trial in trials]
            ax.plot(
                *(sizes, seconds),
                color=colour,
                ls=style,
                marker=marker,
                mfc=fill,
                ms=5,
                lw=1.6,
                label=label if field == "total" else None,
            )
    ax.plot([], [], color=GREY, ls="-", label="total (solid)")
    ax.plot([], [], color=GREY, ls="--", label="search over $\\mu$ (dashed)")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set(xlabel="rows n", ylabel="processor time (s)")
    ax.grid(alpha=0.25)
    below(figure, ax, ncols=3)
    return figure


def leave_one_out_time(results: Mapping[Task, Result]) -> Drawing:
    """Time of leave-one-out at one mu against n."""
    figure, ((ax,),) = canvas()
    runs = by_setting(results, "leave-one-out")
    settings = sorted(runs, key=lambda setting: int(options(setting)["n"]))
    sizes = [int(options(setting)["n"]) for setting in settings]
    labels = {"direct": "a refit per row", "closed": "closed form", "ours": "fisherkit"}
    for route, label in labels.items():
        _, colour, marker = _ROUTES[route]
        seconds = np.array([values(runs[s], f"{route}_seconds") for s in settings], dtype=object)
        ax.plot(
            sizes,
            [np.mean(s) for s in seconds],
            color=colour,
            ls=STYLES[list(labels).index(route)],
            marker=marker,
            ms=5,
            lw=1.6,
            label=label,
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set(xlabel="rows n", ylabel="processor time (s)")
    ax.grid(alpha=0.25)
    ax.legend(frameon=False, loc="upper left")
    return figure


def canonical_error(results: Mapping[Task, Result]) -> Drawing:
    return _error(results, "canonical")


def closed_error(results: Mapping[Task, Result]) -> Drawing:
    return _error(results, "closed")


def _error(results: Mapping[Task, Result], route: str) -> Drawing:
    """Relative error of a closed form against n, for each mu; and the error with centres kept."""
    figure, ((ax,),) = canvas()
    runs = by_setting(results, "leave-one-out")
    mus = sorted({options(setting)["mu"] for setting in runs}, key=float)
    for k, mu in enumerate(mus):
        sizes = sorted(int(options(s)["n"]) for s in runs if options(s)["mu"] == mu)
        trials = [runs[f"n={n} mu={mu}"] for n in sizes]
        errors = [values(trial, f"removed_{route}") for trial in trials]
        means = np.array([np.mean(error) for error in errors])
        ax.fill_between(
            sizes,
            [np.quantile(error, 0.1) for error in errors],
            [np.quantile(error, 0.9) for error in errors],
            color=COLOURS[k],
            alpha=0.15,
            lw=0,
        )
        look = {"color": COLOURS[k], "ls": STYLES[k], "marker": MARKERS[k], "ms": 5, "lw": 1.6}
        ax.plot(sizes, means, **look, label=f"without row and kernel, $\\mu$ = {mu}")
    kept = {
        int(options(s)["n"]): max(
            max(values(runs[t], f"kept_{route}"))
            for t in runs
            if options(t)["n"] == options(s)["n"]
        )
        for s in runs
    }
    sizes = sorted(kept)
    ax.plot(
        sizes,
        [kept[n] for n in sizes],
        color=BLACK,
        ls=":",
        lw=1.6,
        label="without the row only, worst trial",
    )
    ax.axvline(30, color=GREY, lw=0.8)
    ax.annotate("n = 30", (30, 3e-11), (4, 0), textcoords="offset points", color=GREY)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set(
        xlabel="rows n",
        ylabel="relative error $\\|\\tilde r - \\hat r\\|^2 / \\|\\tilde r\\|^2$",
        ylim=(ROUNDING / 3, 30),
    )
    ax.grid(alpha=0.25)
    ax.legend(frameon=False, loc="center right")
    return figure
