"""Sections of the report on columns: which matter, and what the answer makes of their values."""

from __future__ import annotations

import numpy as np

from fisherkit.report.blocks import Block, Section, rounded, section, series_of
from fisherkit.report.reasons import Effect, Mattering
from fisherkit.terminal import amount, percent
from fisherkit.training import Training

_BARS = 15
_SERIES = 4  # classes in the effect of a column


def columns(
    training: Training, found: Mattering | None, effects: list[Effect], names: list[str]
) -> Section | None:
    """How much each column matters, and the effect of the first few.

    ``names`` are those of the classes; none of a regression.
    """
    blocks = [_relevance(training)]
    intro = "This method has learned a scale for every column."
    if found is not None:
        intro = (
            "A column matters if the answers get worse when its values are shuffled among the "
            f"rows. {found.how} Columns that say the same thing stand in for each other: shuffling "
            "one of them does little harm."
        )
        blocks = [_importance(found), *(_effect(effect, names) for effect in effects)]
        if effects:
            what = "probability of the classes" if names else f"predicted {training.target}"
            intro += (
                f" The effect of a column is the mean {what} if all rows had the same value there "
                "and were otherwise as they are (partial dependence)."
            )
    elif blocks[0] is None:
        return None
    return section("Which columns matter?", intro, *blocks, name="columns")


def _importance(found: Mattering) -> Block:
    what = found.found
    order = found.order[:_BARS]
    hidden = len(what.columns) - len(order)
    more = f" Columns that matter less are not shown: {hidden}." if hidden else ""
    unit = (
        "the log-loss of an answer, which is "
        if what.measure == "log-loss"
        else "the mean squared error, which is "
    )
    return {
        "type": "bars",
        "title": "How much worse the answers get when a column is shuffled",
        "labels": [what.columns[j] for j in order],
        "values": rounded(what.rise[order]),
        "errors": rounded(what.standard_error[order]),
        "x": {"label": f"rise of the {what.measure}"},
        "note": f"By how much {unit}{what.base:.3g} as the rows are, rises. Thin lines are two "
        f"standard errors.{more}",
    }


def _effect(effect: Effect, names: list[str]) -> Block:
    """A curve over numbers, or bars over words; one for each of the classes that move most."""
    title = f"The effect of {effect.column}"
    shown, means = _shown(effect.means, names)
    what = "prediction"
    if names:
        what = f"probability of “{names[shown[0]]}”" if len(names) == 2 else "probability"
    series = [names[c] if names else "prediction" for c in shown]
    widest = int(np.argmax(np.ptp(means, axis=0)))
    low, high = (
        percent(end) if names else amount(end)
        for end in (means[:, widest].min(), means[:, widest].max())
    )
    of = f"The mean probability of “{series[widest]}”" if names else "The mean prediction"
    note = f"{of} lies between {low} and {high}."
    if effect.numeric:
        values = [float(value) for value in effect.values]
        return {
            "type": "lines",
            "title": title,
            "small": True,
            "series": [
                series_of(name, rounded(np.array(values)), rounded(means[:, j]))
                for j, name in enumerate(series)
            ],
            "x": {"label": effect.column},
            "y": {"label": what, "percent": bool(names), "zero": bool(names)},
            "note": note,
        }
    return {
        "type": "levels",
        "title": title,
        "labels": [str(value) for value in effect.values],
        "series": [{"name": name, "values": rounded(means[:, j])} for j, name in enumerate(series)],
        "x": {"label": what, "percent": bool(names)},
        "note": note,
    }


def _shown(means: np.ndarray, names: list[str]) -> tuple[list[int], np.ndarray]:
    """The classes to show, those whose probability moves most, and their means."""
    if len(names) == 2:
        return [1], means[:, 1:]
    order = np.argsort(-np.ptp(means, axis=0), kind="stable")[:_SERIES]
    kept = sorted(order.tolist())
    return kept, means[:, kept]


def _relevance(training: Training) -> Block | None:
    """Relevance as the kernel has learned it, where the importance of columns is not known."""
    relevance = getattr(training.model, "relevance_", None)
    if relevance is None:
        return None
    names, values = [str(name) for name in relevance.index], relevance.to_numpy()
    order = np.argsort(-values, kind="stable")[:_BARS]
    hidden = len(values) - len(order)
    return {
        "type": "bars",
        "title": "Relevance of columns",
        "labels": [names[j] for j in order],
        "values": rounded(values[order]),
        "x": {"label": "relevance, 1 for the column that matters most"},
        "note": f"{hidden} less relevant columns are not shown." if hidden else "",
    }
