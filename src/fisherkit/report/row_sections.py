"""Sections of the report on single rows: examples with reasons, doubtful labels, retained rows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fisherkit.core import Ridge
from fisherkit.estimators import ExpansionMixin
from fisherkit.inspection import Explanation, harms
from fisherkit.report.blocks import Block, Section, number, rows_table, section
from fisherkit.report.evidence import Evidence
from fisherkit.report.reasons import Example
from fisherkit.terminal import percent
from fisherkit.training import Training

_DOUBTED = 15
_FOR, _AGAINST = 5, 3  # columns that are named on either side
_CLASSES = 2  # of the most frequent classes, one sure answer each


def examples_of(evidence: Evidence) -> list[Example]:
    """A sure and right answer of each of two classes, two close calls, two sure mistakes.

    Rows of which the finished model, which knows them, says what the model without them said.
    """
    training, judged, rows = evidence.training, evidence.left_out, evidence.known
    if not len(rows):
        return []
    sure = judged.p[np.arange(judged.n), judged.answer]
    order = np.argsort(-sure, kind="stable")
    candidates: list[tuple[np.ndarray, str]] = []
    frequent = np.argsort(-np.bincount(evidence.index), kind="stable")[:_CLASSES]
    for c in frequent:
        own = order[judged.right[order] & (judged.answer[order] == c)]
        candidates.append((own[:1], "A sure answer, and right"))
    candidates.append((order[~judged.right[order]][:5], "A sure answer, and wrong"))
    candidates.append((order[::-1][:5], "A close call"))
    found: dict[int, str] = {}
    asked = np.unique(np.concatenate([places for places, _ in candidates])).astype(int)
    model = training.model
    again = np.asarray(model.predict(training.X.iloc[rows[asked]]))
    names = np.asarray(model.estimator_.classes_)
    agrees = dict(zip(asked.tolist(), names[judged.answer[asked]] == again, strict=True))
    for places, why in candidates:
        agreeing = [place for place in places.tolist() if agrees[place] and place not in found]
        for place in agreeing[: 1 if "right" in why else 2]:
            found[place] = why
    chosen = [Example(place, why) for place, why in found.items()]
    return chosen[: len(chosen) // 2 * 2] or chosen


def examples(evidence: Evidence, chosen: list[Example], why: Explanation | None) -> Section | None:
    """Rows, their answers, and the columns that speak for and against them."""
    if not chosen or why is None:
        return None
    items = [_card(evidence, example, why, i) for i, example in enumerate(chosen)]
    rest = (
        f"Named are up to {_FOR} columns that speak for the answer, and {_AGAINST} that speak "
        "against it; bars show how much. fisherkit explain MODEL table.csv does the same for "
        "any row."
    )
    if np.any(why.standard_error > 0):
        rest += " For this kernel the bars are estimated from random orders of the columns."
    return section(
        "Why this row?",
        "Some training rows, answered by the model without them, with the reasons of the finished "
        f"model, which gives the same answer. {rest}",
        {"type": "examples", "items": items},
        name="rows",
    )


def _card(evidence: Evidence, example: Example, why: Explanation, i: int) -> Block:
    judged, names, place = evidence.left_out, evidence.names, example.row
    answer, truth = names[judged.answer[place]], names[judged.truth[place]]
    sure = percent(judged.p[place, judged.answer[place]])
    right = answer == truth
    row = evidence.training.X.index[evidence.known[place]]
    kind = str(evidence.training.X.index.name or "row")
    change = why.changes[i]
    return {
        "title": f"{example.why}: {kind} {row}",
        "text": f"Answered “{answer}” with a probability of {sure}. "
        + ("That is right." if right else f"It is labelled “{truth}”."),
        "reasons": reasons(why, i),
        "change": ""
        if change is None
        else f"The answer would be “{change.label}” if {change.column} were "
        f"{_value(change.value)}.",
    }


def reasons(why: Explanation, i: int) -> list[Block]:
    """The columns that move the answer of a row most, with their values and a length for a bar."""
    values = why.contributions[i]
    order = np.argsort(-values, kind="stable")
    unit = float(np.abs(values).max(initial=0.0)) or 1.0
    clear = [int(j) for j in order if abs(values[j]) > 0.02 * unit]
    speaks = [j for j in clear if values[j] > 0][:_FOR]
    opposes = [j for j in reversed(clear) if values[j] < 0][:_AGAINST]
    return [
        {
            "column": why.columns[j],
            "value": why.shown(i, j),
            "share": round(float(values[j]) / unit, 3),
        }
        for j in (*speaks, *opposes)
    ]


def _value(value: object) -> str:
    if isinstance(value, float | int | np.number):
        return "missing" if np.isnan(float(value)) else number(float(value))
    return "missing" if value is None or value is pd.NA else f"“{value}”"


def suspects(training: Training, doubted: pd.DataFrame, ridge: Ridge | None) -> Section:
    """Rows whose label the model without them doubts most; ``ridge`` is the fit, if known."""
    model = training.model.estimator_
    title, name = "Rows worth a second look", "doubts"
    if not len(doubted):
        words = "The models without a row agree with its label, for every row."
        return section(title, words, name=name)
    top = doubted.iloc[:_DOUBTED]
    head = ["label", "suggested", "probability of label"]
    cells = [
        [str(row.label), str(row.suggested), percent(row.probability)] for row in top.itertuples()
    ]
    advice = "A doubt is not a proof: the label may be wrong, or right in a rare case."
    if ridge is not None:
        head.append("harms others")
        for cell, harmful in zip(cells, harms(model, ridge, top.index.to_numpy()), strict=True):
            cell.append("yes" if harmful else "no")
        advice += " “Harms others” says whether the other rows are predicted better without it."
    intro = (
        f"Models that had not seen the row disagree with its label for {len(doubted):,} of "
        f"{len(training.y):,} rows ({percent(len(doubted) / len(training.y))}); these are the "
        f"labels they doubt most. {advice}"
    )
    shown = rows_table(training, top.index.to_numpy(), head, cells, numbers=3)
    return section(title, intro, shown | {"wide": True}, name=name)


def retained(training: Training, model: ExpansionMixin) -> Section:
    """The rows that a sparse model compares new ones with."""
    coef = np.atleast_2d(model.dual_coef_)
    strength = np.linalg.norm(coef, axis=0)
    order = np.argsort(-strength, kind="stable")[:20]
    rows = np.asarray(model.basis_indices_)[order]
    table = rows_table(
        training,
        rows,
        ["label", "coefficient"],
        [
            [str(training.y[i]), f"{coef[0, j]:.3g}" if len(coef) == 1 else f"{strength[j]:.3g}"]
            for i, j in zip(rows, order, strict=True)
        ],
        numbers=2,
    )
    count = (
        f"The {len(order)} rows of largest coefficient are shown."
        if len(order) < model.n_terms_
        else ""
    )
    return section(
        "Retained rows",
        f"The model decides by comparing a new row with {model.n_terms_:,} of the "
        f"{len(training.y):,} training rows; it does not need the others. {count}",
        table | {"wide": True},
    )
