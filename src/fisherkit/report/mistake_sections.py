"""Sections of the report on mistakes: probabilities that hold, measures, what mistakes cost."""

from __future__ import annotations

import math

import numpy as np
from sklearn.metrics import precision_recall_curve, roc_auc_score, roc_curve

from fisherkit.inspection import how_left_out
from fisherkit.report.blocks import (
    MOST_CURVES,
    Block,
    Section,
    between,
    section,
    series_of,
    text,
)
from fisherkit.report.evidence import Evidence
from fisherkit.report.left_out_scores import thinned, wilson
from fisherkit.report.quality import Counts, Judged, Measures, Verdict, bins
from fisherkit.report.verdict_sections import how_trusted
from fisherkit.terminal import percent

_LONG = 13  # rows of a narrow table from which it is drawn in two halves


def probabilities(evidence: Evidence) -> Section:
    """Stated probabilities against what came true, and what to do about them."""
    found, trust = bins(evidence.judged), evidence.trust
    short, _, words = how_trusted(evidence)
    what = f"“{evidence.names[1]}”" if evidence.two else "the answer"
    dots: list[Block] = [
        {"x": b.stated, "y": b.right / b.n, "range": wilson(b.right, b.n), "n": b.n} for b in found
    ]
    true = f"share that are {what}" if evidence.two else "share of answers that were right"
    return section(
        "Can I trust the probabilities?",
        f"{short}. {words}",
        {
            "type": "reliability",
            "title": "Promised and observed",
            "dots": dots,
            "x": f"stated probability of {what}",
            "y": true,
            "note": "Dots on the line keep their promise: of the rows given 80 %, 80 % come true. "
            "Bars are 95 % intervals; where they cross the line, chance explains the distance.",
        },
        {
            "type": "table",
            "title": "The same in numbers",
            "head": [f"stated for {what}", "rows", "came true"],
            "rows": [
                [f"about {percent(b.stated)}", f"{b.n:,}", percent(b.right / b.n)] for b in found
            ],
            "numbers": 1,
        },
        *(text(words) for words in _remedies(evidence) if trust.verdict is not Verdict.UNKNOWN),
        name="probabilities",
    )


def _remedies(evidence: Evidence) -> list[str]:
    trust = evidence.trust
    if trust.verdict is Verdict.TRUSTED:
        return [
            "What this is good for: rows can be ranked by their probability, probabilities can be "
            "averaged over rows, and a threshold can be derived from costs."
        ]
    formula = f"log-odds × {trust.scale:.2f} {trust.offset:+.2f}"
    if not evidence.two:
        formula = f"probabilities to the power of {trust.scale:.2f}, scaled to a sum of one"
    said = [
        f"What to do: correct them ({formula}), or train again with more rows or with "
        "--method committee, and look here again. The order of the probabilities is not affected, "
        "and neither is the most likely answer where classes are not shifted."
    ]
    if evidence.two:
        read = ", ".join(
            f"{100 * p:.0f}\N{NO-BREAK SPACE}% as {percent(trust.corrected(p))}"
            for p in (0.1, 0.5, 0.9)
        )
        said.append(f"Until then, read {read}.")
    return said


def numbers(evidence: Evidence) -> Section:
    """The measures that people expect, with their references, and those of each class."""
    judged = evidence.judged
    return section(
        "The numbers",
        _whose(evidence),
        _measures(evidence),
        _classes(evidence, judged),
        _after_selection(evidence),
        *_curves(evidence),
        name="in-numbers",
    )


def _whose(evidence: Evidence) -> str:
    aside = evidence.training.held_out
    how = how_left_out(evidence.training.model.estimator_)
    if aside is None:
        return (
            f"{how} These rows also chose the settings, so that no figure here is free of "
            "selection: expect somewhat more errors on new rows."
        )
    strange = int(np.sum(evidence.judged.truth < 0))
    unknown = f" Of their labels, {strange} never occurred in training." if strange else ""
    return (
        f"Counted on {evidence.judged.n:,} held-out rows ({aside.how}). The models that judged "
        f"these rows were fitted and tuned without them.{unknown}"
    )


def _measures(evidence: Evidence) -> Block:
    judged, constant = evidence.judged, evidence.constant.theirs
    assert constant is not None
    ours, theirs = Measures.of(judged), Measures.of(constant)
    right = int(np.sum(judged.right))
    rows = [
        [
            "Accuracy",
            percent(ours.accuracy),
            percent(theirs.accuracy),
            f"Right answers among all; {between(right, judged.n)}.",
        ],
        [
            "Balanced accuracy",
            percent(ours.balanced_accuracy),
            percent(theirs.balanced_accuracy),
            "The share of each class that is found, averaged over the classes.",
        ],
        [
            f"F1 of “{evidence.names[1]}”" if evidence.two else "F1, mean of classes",
            percent(ours.f1),
            percent(theirs.f1),
            "Between precision and recall (below): high only if both are.",
        ],
        [
            "Log-loss",
            f"{ours.log_loss:.3f}",
            f"{theirs.log_loss:.3f}",
            "How surprising the true labels were; lower is better. The reference states the "
            "shares of the classes for every row.",
        ],
    ]
    if (area := _area(evidence, judged)) is not None:
        words = (
            f"The chance that a row of “{evidence.names[1]}” gets a higher probability than one of "
            f"“{evidence.names[0]}”."
        )
        rows.append(["Area under ROC", f"{area:.3f}", "0.500", words])
    return {
        "type": "table",
        "title": "Over all rows",
        "head": ["measure", "model", f"always “{evidence.frequent}”", "meaning"],
        "rows": rows,
        "numbers": 1,
        "last": 3,
    }


def _area(evidence: Evidence, judged: Judged) -> float | None:
    known = judged.truth >= 0
    if not evidence.two or not 0 < np.sum(judged.truth[known]) < np.sum(known):
        return None
    return float(roc_auc_score(judged.truth[known], judged.p[known, 1]))


def _classes(evidence: Evidence, judged: Judged) -> Block:
    counts = Counts.of(judged)
    shown = [c for c in range(len(evidence.names)) if counts.rows[c] or counts.answers[c]]
    values = zip(counts.precision, counts.recall, counts.f1, strict=True)
    shares = [[_share(value) for value in of_class] for of_class in values]
    return {
        "type": "table",
        "title": "Class by class",
        "head": ["class", "rows", "precision", "recall", "F1"],
        "rows": [[evidence.names[c], f"{counts.rows[c]:,}", *shares[c]] for c in shown],
        "numbers": 1,
        "halves": len(shown) >= _LONG,
        "wide": len(shown) >= _LONG,
        "note": "Precision: of the answers of this class, the share that is right. Recall: of the "
        "rows of this class, the share that is found.",
    }


def _share(value: float) -> str:
    return "none" if math.isnan(value) else percent(value)


def _after_selection(evidence: Evidence) -> Block:
    """The error of left-out rows, which also chose the settings."""
    wrong, n, loss = evidence.left_out_figures
    kind = "Cross-validation" if evidence.folds else "Leave-one-out"
    words = (
        f"{kind} error, after selection: {percent(wrong / n)} ({wrong:,} of {n:,} training rows; "
        f"{between(wrong, n)}), log-loss {loss:.3f}. {_low(evidence, wrong / n)} The 95 % "
        "intervals (Wilson) assume that rows are independent."
    )
    return text(words)


def _low(evidence: Evidence, error: float) -> str:
    said = "The same rows chose the settings, which makes this error a little too low on average"
    held_out = evidence.held_out
    if held_out is not None and error > 1 - np.mean(held_out.right):
        return f"{said}; here it is above the held-out error, which is within what chance does."
    return f"{said}."


def _curves(evidence: Evidence) -> list[Block]:
    """One class against the others, for more than two classes."""
    if evidence.two:
        return []
    judged, names = evidence.judged, evidence.names
    judged = judged.take(np.flatnonzero(judged.truth >= 0))
    index, p = judged.truth, judged.p
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
    few = f" The {MOST_CURVES} largest classes." if len(names) > MOST_CURVES else ""
    return [
        _square(
            "Each class against the others: false alarms and hits",
            roc,
            x="false alarms (share of the other classes)",
            y="hits (share of the class found)",
            note=f"ROC curves. The closer to the upper left corner, the better.{few}",
        )
        | {"diagonal": True},
        _square(
            "Each class against the others: precision and recall",
            pr,
            x="recall (share of the class found)",
            y="precision (answers that are right)",
            note=f"The closer to the upper right corner, the better.{few}",
        ),
    ]


def _square(title: str, series: list[Block], *, x: str, y: str, note: str) -> Block:
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


def costs(evidence: Evidence, scores: Block) -> Section:
    """The live part: what to answer where mistakes cost differently."""
    if evidence.two:
        intro = (
            "The model answers the likelier class. Where one kind of mistake costs more than the "
            "other, another threshold is cheaper: say what they cost, and the page finds it. Or "
            "move the threshold and watch the mistakes."
        )
    else:
        intro = (
            "Which classes are taken for which, and what to answer if some mistakes cost more than "
            "others: with costs, the answer is the one of the lowest expected cost."
        )
    intro += " Counted on left-out training rows, which also chose the settings."
    note = None
    if scores["rows"] != scores["of"]:
        note = text(
            f"Counted on a random sample of {scores['rows']:,} of {scores['of']:,} rows, with the "
            "class shares of all; the figures at the top of the page use every row."
        )
    live: Block = {"type": "live", "data": scores, "classes": evidence.names, "wide": True}
    return section(evidence.about_costs, intro, note, live, name="costs")


def smoothing(scores: Block) -> Section | None:
    """The slider over mu, in plain words, where tuning has compared values of it."""
    if scores["logMu"] is None:
        return None
    return section(
        "How smooth should the model be?",
        "The model weighs two wishes: to follow the training rows closely, and to be smooth, so "
        "that single odd rows do not matter. The regularisation, mu, sets the balance. It was "
        "chosen for you; the slider shows what other choices would have done to left-out rows.",
        {"type": "smoothing", "wide": True},
        name="smoothing",
    )
