"""Figures of Harrison and Pasupa (2010) and of Peña Centeno and Lawrence (2006)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from fisherkit.estimators import BayesianFisherClassifier, KernelFisherClassifier
from fisherkit.reproduction.canvas import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    MARKERS,
    SKY,
    STYLES,
    VERMILION,
    below,
    canvas,
    contour,
    scatter,
)
from fisherkit.reproduction.tasks import Result, Task
from fisherkit.reproduction.toy_studies import (
    BINS,
    PARAMETERS,
    PENALTIES,
    STARTS,
    TOYS,
    Tuned,
    fit_ard,
    fit_from,
    generalisation_error,
    iterates,
    objective,
    printed_toys,
    regression_rows,
)
from fisherkit.reproduction.trials import by_setting, numbers, options, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from numpy.typing import ArrayLike

POOR_START = 0.1
_METHODS = {"BFD": (BLUE, "-"), "KFD": (VERMILION, "--"), "LS-SVM": (GREEN, ":")}


def priors(results: Mapping[Task, Result]) -> Drawing:
    """exp(-|w|^q) for q = 2, 1 and 1/2."""
    figure, ((ax,),) = canvas(height=3.6)
    w = np.linspace(-3, 3, 1201)
    for k, q in enumerate((2, 1, 0.5)):
        ax.plot(
            w, np.exp(-(np.abs(w) ** q)), color=COLOURS[k], ls=STYLES[k], lw=1.8, label=f"q = {q}"
        )
    ax.set(xlabel="coefficient $\\omega$", ylabel="p($\\omega$), up to a constant", xlim=(-3, 3))
    ax.legend(frameon=False)
    return figure


def penalised_objective(results: Mapping[Task, Result]) -> Drawing:
    """The objective with two minima, and the iterates from two starts."""
    x, y = regression_rows(0)
    figure, ((ax,),) = canvas(height=4.0)
    w = np.concatenate([np.linspace(-0.6, 1.8, 2401), np.linspace(-0.01, 0.01, 401)])
    w.sort()
    ax.plot(w, objective(w, x, y), color=BLACK, lw=1.5, label="objective J($\\omega$)")
    for k, start in enumerate(STARTS.values()):
        steps = iterates(start, x, y)
        label = f"start at {start}: {len(steps) - 1} steps, ends at {steps[-1]:.3f}"
        look = {"color": COLOURS[k], "marker": MARKERS[k], "ls": STYLES[k], "ms": 6, "lw": 1.0}
        ax.plot(steps, objective(steps, x, y), **look, label=label, mfc="none", mew=1.4)
    ax.set(xlabel="coefficient $\\omega$", ylabel="J($\\omega$)")
    ax.legend(frameon=False, loc="upper center")
    return figure


def projected_error(results: Mapping[Task, Result]) -> Drawing:
    """Two projected classes with their overlap, and the error against beta for three d."""
    figure, ((left, right),) = canvas(1, 2, height=3.6)
    f = np.linspace(-4, 4, 401)
    densities = [norm.pdf(f, centre) for centre in (-1, 1)]
    for density, style, name in zip(densities, STYLES, ("$c_0$", "$c_1$"), strict=False):
        left.plot(f, 0.5 * density, color=BLACK, ls=style, label=f"class centred at {name}")
    left.fill_between(f, 0.5 * np.minimum(*densities), color=SKY, alpha=0.7, label="error")
    left.annotate("", (-1, 0.215), (1, 0.215), arrowprops={"arrowstyle": "<->"})
    left.text(0, 0.222, "d = 2", ha="center")
    left.set(xlabel="projection f", ylabel="density", ylim=(0, 0.36))
    left.legend(frameon=False, loc="upper center")
    beta = np.geomspace(0.1, 20, 200)
    runs = by_setting(results, "projected-error")
    distances = sorted({float(options(setting)["d"]) for setting in runs})
    for k, d in enumerate(distances):
        error = [100 * generalisation_error(b, d) for b in beta]
        right.plot(beta, error, color=COLOURS[k], ls=STYLES[k], label=f"d = {d:g}")
        here = [s for s in runs if float(options(s)["d"]) == d]
        right.plot(
            [float(options(s)["beta"]) for s in here],
            [np.mean(values(runs[s], "simulated")) for s in here],
            MARKERS[k],
            color=COLOURS[k],
            mfc="white",
        )
    right.set_xscale("log")
    right.set_yscale("log")
    right.set(xlabel="precision $\\beta$", ylabel="generalisation error (%)", ylim=(1e-2, 60))
    right.legend(frameon=False, loc="lower left")
    return figure


def toys(results: Mapping[Task, Result]) -> Drawing:
    """Boundaries of the three classifiers on the toys, trial 0."""
    figure, grid = canvas(2, 2, height=7.2)
    runs = by_setting(results, "toy-rbf")
    for ax, (toy, draw) in zip(grid.flat, TOYS.items(), strict=True):
        X, y = draw(random_state=0)
        scatter(ax, X, y)
        ax.set_title(toy, fontsize=10)
        for method, (colour, style) in _METHODS.items():
            trials = runs.get(f"toy={toy} method={method}")
            if trials:
                model = _again(method, trials[0], X, y)
                contour(ax, X, model.decision_function, [0.0], color=colour, style=style, width=1.8)
        ax.set(xlabel="first feature", ylabel="second feature")
    for method, (colour, style) in _METHODS.items():
        ax.plot([], [], color=colour, ls=style, lw=1.8, label=method)
    below(figure, ax, ncols=5)
    return figure


def _again(method: str, result: Result, X: np.ndarray, y: np.ndarray) -> Tuned:
    """The classifier of a trial; KFD and LS-SVM with the parameters that it found."""
    if method == "BFD":
        return BayesianFisherClassifier(random_state=0).fit(X, y)
    model = KernelFisherClassifier(penalty=PENALTIES[method])
    return model.set_params(gamma=result["gamma"], regularization=result["mu"]).fit(X, y)


def toys_ard(results: Mapping[Task, Result]) -> Drawing:
    """Boundaries of BFD with two widths and a linear part, trial 0; log evidence in brackets."""
    figure, grid = canvas(2, 2, height=7.2)
    runs = by_setting(results, "toy-ard")
    for ax, (toy, draw) in zip(grid.flat, TOYS.items(), strict=True):
        X, y = draw(random_state=0)
        scatter(ax, X, y)
        ax.set(xlabel="first feature", ylabel="second feature")
        trials = runs.get(f"toy={toy}")
        if trials:
            ax.set_title(f"{toy} ({trials[0]['log_evidence']:.1f})", fontsize=10)
            _latent_lines(ax, X, fit_ard(toy, 0).latent)
    ax.plot([], [], color=BLUE, lw=2, label="boundary")
    ax.plot([], [], color=BLUE, ls=":", lw=1.3, label="1/4 of the way to the class centres")
    below(figure, ax, ncols=4)
    return figure


def _latent_lines(ax: Axes, X: np.ndarray, latent: Callable[[np.ndarray], ArrayLike]) -> None:
    """The midpoint of the class centres, which lie at -1 and 1, and a quarter to either side."""
    contour(ax, X, latent, [0.0], color=BLUE, style="-", width=2.0)
    contour(ax, X, latent, [-0.25, 0.25], color=BLUE, style=":", width=1.3)


def poor_start(results: Mapping[Task, Result]) -> Drawing:
    """The spiral from a poor start, and the evidence reached from every start."""
    figure, ((left, right),) = canvas(1, 2, height=3.9)
    X, y = TOYS["spiral"](random_state=0)
    scatter(left, X, y)
    _latent_lines(left, X, fit_from(POOR_START, 0).latent)
    left.set(xlabel="first feature", ylabel="second feature", aspect="equal")
    runs = by_setting(results, "toy-start")
    starts = sorted(runs, key=lambda setting: float(options(setting)["theta2"]))
    theta = [float(options(s)["theta2"]) for s in starts]
    evidence = [np.mean(values(runs[s], "log_evidence")) for s in starts]
    error = [np.mean(values(runs[s], "test_error")) for s in starts]
    right.plot(theta, evidence, color=BLUE, marker="o", label="log evidence")
    right.set_xscale("log")
    right.set(xlabel="start $\\theta_2$ = 1 / width$^2$", ylabel="log evidence reached")
    other = right.twinx()
    other.plot(theta, error, color=VERMILION, ls="--", marker="s", mfc="white", label="test error")
    other.set(ylabel="test error (%)", ylim=(-3, 60))
    other.spines["top"].set_visible(False)
    figure.legend(
        handles=[*right.get_lines(), *other.get_lines()],
        loc="outside lower right",
        frameon=False,
        ncols=2,
    )
    return figure


def toy_parameters(results: Mapping[Task, Result]) -> Drawing:
    """Measured and printed parameters of the four toys."""
    figure, grid = canvas(2, 2, height=5.8, sharex=True, sharey=True)
    runs, printed = by_setting(results, "toy-ard"), printed_toys()
    places = np.arange(len(PARAMETERS))
    for ax, toy in zip(grid.flat, TOYS, strict=True):
        ax.plot(
            list(printed[toy].values()), places, "D", color=VERMILION, mfc="none", label="printed"
        )
        for place, name in enumerate(PARAMETERS):
            trials = [trial for trial in runs.get(f"toy={toy}", []) if trial[name] is not None]
            if trials:
                ln = values(trials, name)
                ax.plot([ln.min(), ln.max()], [place, place], color=BLUE, lw=1.2)
                ax.plot(np.median(ln), place, "o", color=BLUE, ms=5)
            else:
                ax.annotate("0", (-19, place), color=BLUE, ha="center", va="center")
        ax.set_title(toy, fontsize=10)
        ax.grid(axis="x", alpha=0.25)
    ax.plot([], [], "o-", color=BLUE, ms=5, lw=1.2, label="measured: median and range of trials")
    ax.set_yticks(places, [f"${symbol}$" for symbol in PARAMETERS.values()])
    ax.invert_yaxis()
    for ax_below in grid[1]:
        ax_below.set_xlabel("natural logarithm")
    below(figure, ax, ncols=2)
    return figure


def relevances(results: Mapping[Task, Result]) -> Drawing:
    """Weights of the features of ringnorm and splice by both evidences."""
    runs = by_setting(results, "relevances")
    sets = list(dict.fromkeys(options(setting)["data"] for setting in runs))
    figure, grid = canvas(len(sets), 1, height=2.9 * len(sets))
    looks = {"fisher": ("BFD", BLUE, "-", "o"), "lssvm": ("LS-SVM", VERMILION, "--", "x")}
    for ax, name in zip(grid.flat, sets, strict=True):
        for evidence, (label, colour, style, marker) in looks.items():
            trials = runs.get(f"data={name} evidence={evidence}")
            if not trials:
                continue
            weights = np.array([numbers(trial["weights"]) for trial in trials])
            feature = np.arange(1, weights.shape[1] + 1)
            ax.plot(
                *(feature, np.median(weights, axis=0)),
                color=colour,
                ls=style,
                marker=marker,
                ms=4,
                lw=1.2,
                label=f"{label}, median",
            )
            if evidence == "fisher":
                ax.vlines(
                    *(feature, weights.min(axis=0), weights.max(axis=0)),
                    color=BLUE,
                    alpha=0.3,
                    lw=3,
                    label=f"{label}, range",
                )
        ax.set(xlabel=f"feature of {name}", ylabel="weight 1 / width$^2$", ylim=(0, None))
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.margins(y=0.3)
        if name == "splice":
            ax.set_yscale("log")
            ax.set_ylim(bottom=1e-4)
        ax.legend(frameon=False, ncols=3, loc="upper right")
    return figure


def projections_bayes(results: Mapping[Task, Result]) -> Drawing:
    return _projections(results, "BFD")


def projections_kernel(results: Mapping[Task, Result]) -> Drawing:
    return _projections(results, "KFD")


def _projections(results: Mapping[Task, Result], method: str) -> Drawing:
    """Histograms of training rows (filled), left-out training rows and test rows (lines)."""
    runs = by_setting(results, "projections")
    sets = list(dict.fromkeys(options(setting)["data"] for setting in runs))
    figure, grid = canvas(1, len(sets), height=3.9, sharey=True)
    width = BINS[1] - BINS[0]
    for ax, name in zip(grid[0], sets, strict=True):
        result = runs[f"data={name} method={method}"][0]
        for k, colour in enumerate((VERMILION, BLUE)):
            heights = {part: numbers(result[f"{part}_{k}"]) for part in ("training", "loo", "test")}
            density = {part: h / (h.sum() * width) for part, h in heights.items()}
            ax.stairs(
                density["training"],
                BINS,
                fill=True,
                color=colour,
                alpha=0.3,
                label=f"class {k}, training",
            )
            ax.stairs(
                density["loo"], BINS, color=colour, ls=":", lw=1.5, label=f"class {k}, left out"
            )
            ax.stairs(density["test"], BINS, color=colour, lw=1.7, label=f"class {k}, test")
        ax.axvline(0, color=GREY, lw=0.8)
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("projection")
    grid[0, 0].set_ylabel("density within the class")
    below(figure, ax, ncols=2)
    return figure
