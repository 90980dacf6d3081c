"""Sections of the report on how good the classifier is."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import log_loss, precision_recall_curve, roc_auc_score, roc_curve

from fisherkit.core import winners
from fisherkit.inspection import cross_fitted, how_left_out
from fisherkit.methods import method_named
from fisherkit.report.blocks import MOST_CURVES, Block, Section, between, section, series_of, text
from fisherkit.report.left_out_scores import thinned, wilson
from fisherkit.terminal import percent
from fisherkit.training import Training


def _after_selection(training: Training, error: float) -> str:
    """What the choice of settings has done to the error of left-out rows."""
    said = "The same rows chose the settings, which makes this error a little too low on average"
    held_out = training.held_out
    if held_out is not None and error > np.mean(held_out.predicted != held_out.y):
        return f"{said}; here it is above the held-out error, which is within what chance does."
    return f"{said}."


def summary(training: Training, index: np.ndarray, logits: np.ndarray) -> Section:
    """Error rates: left out after selection, held out, and without a model."""
    classes = training.model.estimator_.classes_
    n = len(index)
    known = np.all(np.isfinite(logits), axis=1)
    wrong = int(np.sum(winners(logits[known]) != index[known]))
    judged = int(np.sum(known))
    folds = hasattr(training.model.estimator_, "cv_decision_")
    kind = "Cross-validation" if folds else "Leave-one-out"
    cards: list[Block] = []
    if training.held_out is not None:
        cards.append(_held_out_card(training))
    note, found = (
        "each judged by a model that had not seen it.",
        cross_fitted(training.model.estimator_),
    )
    if found is not None:  # the logits of left-out rows have seen these rows
        judged, wrong = found.rows, round(found.error * found.rows)
        note = (
            "each judged by a model that had not seen it, whose scores became probabilities as 5 "
            f"folds without the row say. Log-loss {found.log_loss:.3f}."
        )
    cards.append(
        {
            "label": f"{kind} error, after selection",
            "value": percent(wrong / judged),
            "range": between(wrong, judged),
            "note": f"{wrong:,} of {judged:,} training rows, {note} "
            f"{_after_selection(training, wrong / judged)}",
        }
    )
    largest = int(np.argmax(np.bincount(index)))
    baseline = 1 - np.bincount(index)[largest] / n
    cards.append(
        {
            "label": "Error without a model",
            "value": percent(baseline),
            "note": f"Always answering “{classes[largest]}”, the most frequent class.",
        }
    )
    if len(classes) == 2 and 0 < index[known].sum() < judged:
        area = roc_auc_score(index[known], logits[known, 0])
        cards.append(
            {
                "label": "Area under the ROC curve",
                "value": f"{area:.3f}",
                "note": f"The chance that a left-out row of “{classes[1]}” scores higher than one "
                f"of “{classes[0]}”. 0.5 is guessing, 1 is perfect.",
            }
        )
    how = how_left_out(training.model.estimator_)
    caution = (
        "The 95 % intervals (Wilson) assume that rows are independent, and make no allowance for "
        "the selection of settings."
    )
    missing = None
    if training.held_out is None:
        missing = text(
            "No rows were held out, so no figure here is free of the selection of settings: expect "
            "somewhat more errors on new rows."
        )
    return section(
        "At a glance",
        _lead(training, index),
        {"type": "cards", "items": cards},
        missing,
        text(f"{how} {caution}"),
    )


def _lead(training: Training, index: np.ndarray) -> str:
    classes = [str(c) for c in training.model.estimator_.classes_]
    named = (
        " or ".join(f"“{c}”" for c in classes) if len(classes) < 4 else f"{len(classes)} classes"
    )
    d = training.X.shape[1]
    return (
        f"A classifier that predicts {training.target} ({named}) from {d:,} "
        f"column{'s' * (d != 1)}, trained on {len(index):,} rows of {training.source}. "
        f"Method: {method_named(training.method).title}."
    )


def _held_out_card(training: Training) -> Block:
    rows = training.held_out
    assert rows is not None
    classes = training.model.estimator_.classes_
    n, wrong = len(rows.y), int(np.sum(rows.predicted != rows.y))
    note = (
        f"{wrong:,} of {n:,}: {rows.how}. The models that judged these rows were fitted and tuned "
        "without them."
    )
    try:
        note += f" Log-loss {log_loss(rows.y, rows.probabilities, labels=classes):.3f}."
    except ValueError:  # a label that training never saw
        note += " Some of their labels never occurred in training."
    return {
        "label": "Held-out error",
        "value": percent(wrong / n),
        "range": between(wrong, n),
        "note": note,
        "main": True,
    }


def curves(training: Training, index: np.ndarray, logits: np.ndarray) -> Section | None:
    """One class against the others, and reliability, for more than two classes."""
    if logits.shape[1] == 1:
        return None
    known = np.all(np.isfinite(logits), axis=1)
    index, logits = index[known], logits[known]
    mass = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = mass / mass.sum(axis=1, keepdims=True)
    names = [str(c) for c in training.model.estimator_.classes_]
    shown = np.argsort(-np.bincount(index, minlength=len(names)), kind="stable")[:MOST_CURVES]
    roc: list[Block] = []
    pr: list[Block] = []
    for c in sorted(shown.tolist()):
        members = index == c
        if not 0 < members.sum() < len(members):
            continue
        false, true, _ = roc_curve(members, p[:, c])
        area = roc_auc_score(members, p[:, c])
        roc.append(series_of(f"{names[c]} (area {area:.3f})", *thinned(false, true)))
        precision, recall, _ = precision_recall_curve(members, p[:, c])
        pr.append(series_of(names[c], *thinned(recall[::-1], precision[::-1])))
    confidence, right = p.max(axis=1), np.argmax(p, axis=1) == index
    bins = np.clip((10 * confidence).astype(int), 0, 9)
    dots: list[Block] = [
        {
            "x": float(confidence[bins == b].mean()),
            "y": float(right[bins == b].mean()),
            "range": wilson(int(right[bins == b].sum()), int((bins == b).sum())),
            "n": int((bins == b).sum()),
        }
        for b in range(10)
        if np.any(bins == b)
    ]
    few = f" of the {MOST_CURVES} largest classes" if len(names) > MOST_CURVES else ""
    return section(
        "Each class against the others",
        f"Curves{few} from left-out probabilities at the chosen settings.",
        _curves(
            "ROC: false alarms against hits",
            roc,
            x="false alarms (share of the other classes)",
            y="hits (share of the class found)",
            note="The closer to the upper left corner, the better.",
        )
        | {"diagonal": True},
        _curves(
            "Precision and recall",
            pr,
            x="recall (share of the class found)",
            y="precision (answers that are right)",
            note="The closer to the upper right corner, the better.",
        ),
        {
            "type": "reliability",
            "title": "Reliability: can the probabilities be trusted?",
            "dots": dots,
            "x": "stated probability of the answer",
            "y": "share of answers that were right",
            "note": "Dots on the line mean that answers given with, say, 80 % were right in 80 % "
            "of cases. Bars are 95 % intervals.",
        },
    )


def _curves(title: str, series: list[Block], *, x: str, y: str, note: str) -> Block:
    """A square figure of shares, one curve for each class."""
    return {
        "type": "lines",
        "title": title,
        "series": series,
        "x": {"label": x, "percent": True},
        "y": {"label": y, "percent": True},
        "square": True,
        "note": note,
    }
