"""Sections of the report on models that predict numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fisherkit.inspection import Explanation
from fisherkit.methods import RIDGE
from fisherkit.report.blocks import (
    Block,
    Section,
    rounded,
    rows_table,
    section,
    series_of,
    text,
)
from fisherkit.report.left_out_scores import wilson
from fisherkit.report.numbers import CONFIDENCES, NumberEvidence, NumberRival, Predicted
from fisherkit.report.reasons import Example, Mattering
from fisherkit.report.row_sections import reasons
from fisherkit.report.verdict_sections import (
    Answer,
    about_columns,
    beside_others,
    said_alone,
)
from fisherkit.terminal import amount, percent
from fisherkit.training import Training

_GRADES = ((0.9, "Very good"), (0.6, "Good"), (0.2, "Useful"), (-np.inf, "Slightly better"))
_DOTS = 1500
_FAR = 3.0  # times the usual distance, from which a target is worth a second look
_DOUBTED = 15


def verdict(evidence: NumberEvidence, found: Mattering | None, doubted: int) -> Section:
    """How far off, compared with what, and what to do."""
    training, judged = evidence.training, evidence.judged
    d = training.X.shape[1]
    questions = [
        ("How good is it?", how_good(evidence), "in-numbers"),
        ("Is it better than what I have?", how_compared(evidence), "comparison"),
        ("Can I trust the intervals?", how_trusted(evidence), "intervals"),
    ]
    if found is not None:
        questions.append(("Which columns matter?", about_columns(found), "columns"))
    unseen = "rows that the model had not seen"
    if evidence.held_out is None:
        unseen = "training rows, each predicted by the model without it"
    low, high = judged.interval
    compared = said_alone(how_compared(evidence)[0])
    good = how_good(evidence)[0]
    plain = f"On rows that it has not seen: {good[0].lower()}{good[1:]}.{compared}"
    return section(
        "In short",
        f"This model predicts {training.target}, a number from {amount(np.min(training.y))} to "
        f"{amount(np.max(training.y))}, from {d:,} column{'s' * (d != 1)}. It learned from "
        f"{len(training.y):,} rows of {training.source}. Every error on this page is that of rows "
        "which the judging model had not seen.",
        {
            "type": "verdict",
            "value": f"\N{PLUS-MINUS SIGN}{amount(judged.mae)}",
            "label": f"is what predictions of {training.target} are off by, on average",
            "plain": plain,
            "range": f"Mean absolute error of {judged.n:,} {unseen}. R² {judged.r2:.3f}; root mean "
            f"squared error {amount(judged.rmse)} (95 % interval {amount(low)} to {amount(high)}).",
            "todo": advice(evidence, doubted),
            "answers": [
                {"question": question, "answer": short, "mood": mood, "text": words, "link": link}
                for question, (short, mood, words), link in questions
            ],
        },
        *(text(f"Note: {note}") for note in training.notes),
    )


def how_good(evidence: NumberEvidence) -> Answer:
    """The answer by the share of the spread that predictions explain."""
    judged, constant = evidence.judged, evidence.constant
    assert constant.theirs is not None
    said = (
        f"Predictions are off by {amount(judged.mae)} on average; always predicting the mean would "
        f"be off by {amount(constant.theirs.mae)}."
    )
    if constant.side <= 0:
        few = " There are few rows to judge by." if judged.n < 100 else ""
        return "No better than the mean", "poor", f"{said} Chance explains the difference.{few}"
    r2 = judged.r2
    grade = next(words for least, words in _GRADES if r2 >= least)
    if grade == "Slightly better":
        grade = "Slightly better than the mean"
    explained = f" Of the spread of the target (its variance), {percent(max(r2, 0))} is explained."
    return grade, "good" if r2 >= 0.6 else "fair", said + explained


def how_compared(evidence: NumberEvidence) -> Answer:
    """The answer beside other methods that were judged on the same rows."""
    compared = [rival for rival in evidence.rivals if rival.theirs is not None]
    sides = [(rival.name.lower(), rival.side) for rival in compared]
    return beside_others(sides, " ".join(map(_beside, compared)), evidence.held_out is not None)


def _beside(rival: NumberRival) -> str:
    assert rival.theirs is not None
    off = f"{rival.name} is off by {amount(rival.theirs.mae)}"
    if rival.side:
        ratio = rival.ours.rmse / rival.theirs.rmse - 1
        size = f"{100 * abs(ratio):.0f}\N{NO-BREAK SPACE}% {'larger' if ratio > 0 else 'smaller'}"
        return f"{off}; the root mean squared error of this model is {size}."
    return f"{off}, a difference that chance explains."


def how_trusted(evidence: NumberEvidence) -> Answer:
    """Whether intervals hold the truth as often as they say."""
    coverage = evidence.coverage
    if coverage is None:
        return "There are none", "fair", "A model fitted in blocks of rows gives no intervals."
    held, width = coverage.held[CONFIDENCES.index(0.9)], coverage.width[CONFIDENCES.index(0.9)]
    said = (
        f"Of {coverage.rows:,} rows, {percent(held)} lie in their interval of 90 %, which is "
        f"{amount(width)} wide on average."
    )
    if coverage.trusted:
        return "Yes", "good", said
    return "Not quite: they are too narrow", "poor", said


def advice(evidence: NumberEvidence, doubted: int) -> list[str]:
    """What a reader should do, most pressing first."""
    said: list[str] = []
    good = how_good(evidence)[1] != "poor"
    target = evidence.training.target
    if not good:
        said.append(
            "Do not use the predictions yet. Collect more rows, or columns that say more about "
            f"{target}."
        )
    if evidence.held_out is None:
        said.append("Train again without --held-out none, for an error that is free of selection.")
    worse = [rival.name for rival in evidence.rivals if rival.side < 0]
    if worse:
        said.append(f"{worse[0]} does better on this table: consider that method.")
    elif good and any(rival.side == 0 for rival in evidence.rivals if rival.theirs is not None):
        alike = next(r.name.lower() for r in evidence.rivals if r.theirs is not None and not r.side)
        said.append(f"Here {alike} does as well; choose by what else matters to you.")
    if evidence.coverage is not None and not evidence.coverage.trusted:
        said.append("Make intervals wider: ask for a higher confidence than you need.")
    if doubted:
        them = "target of this row" if doubted == 1 else f"targets of these {doubted:,} rows"
        said.append(f"Check the {them} under “Rows worth a second look”.")
    if good and not worse:
        said.append(
            "To predict new rows with intervals: fisherkit predict MODEL new.csv --confidence 0.9."
        )
    return said


def comparison(evidence: NumberEvidence) -> Section:
    """This model beside others on the same rows."""
    rows = [("This model", evidence.judged)]
    rows += [(r.name, r.theirs) for r in (*evidence.rivals, evidence.constant) if r.theirs]
    aside = evidence.training.held_out
    intro = (
        "This report has no other methods to compare with: they were left out with --no-baseline, "
        "or no rows were held out. What remains is the rule that always predicts the mean."
    )
    if aside is not None and evidence.training.baselines:
        intro = (
            "All methods learned from the same rows and answered the same held-out rows "
            f"({aside.how}). They are used as they come, with numbers scaled and texts as "
            "indicators for linear regression."
        )
    return section(
        "Is it better than what I have?",
        intro,
        {
            "type": "intervals",
            "title": "Root mean squared error of each method",
            "labels": [who for who, _ in rows],
            "values": rounded(np.array([found.rmse for _, found in rows])),
            "low": rounded(np.array([found.interval[0] for _, found in rows])),
            "high": rounded(np.array([found.interval[1] for _, found in rows])),
            "x": {"label": f"root mean squared error of {evidence.training.target}"},
            "note": "Lower is better. Bars are 95 % intervals of each method by itself; as all "
            "predict the same rows, differences are surer than the bars suggest.",
        },
        {
            "type": "table",
            "title": "The same rows, three measures",
            "head": ["method", "R²", "root mean squared error", "mean absolute error"],
            "rows": [
                [who, f"{found.r2:.3f}", amount(found.rmse), amount(found.mae)]
                for who, found in rows
            ],
            "numbers": 1,
            "note": f"This model is a {RIDGE.title}. R² is the share of the variance that is "
            "explained: 1 is perfect, 0 is what the mean of these rows gives.",
        },
        *(text(f"{rival.name}: {rival.note}.") for rival in evidence.rivals if rival.note),
        name="comparison",
    )


def examples_of(evidence: NumberEvidence) -> list[Example]:
    """A row predicted closely, the largest misses on either side, and the usual one."""
    errors, rows = evidence.left_out.errors, evidence.known
    if len(rows) < 4:
        return []
    size = np.argsort(np.abs(errors), kind="stable")
    return [
        Example(int(size[0]), "Predicted closely"),
        Example(int(size[len(size) // 2]), "A usual error"),
        Example(int(np.argmin(errors)), "Predicted much too high"),
        Example(int(np.argmax(errors)), "Predicted much too low"),
    ]


def examples(
    evidence: NumberEvidence, chosen: list[Example], why: Explanation | None
) -> Section | None:
    """Rows, their predictions, and the columns that raise and lower them."""
    if not chosen or why is None:
        return None
    found, index = evidence.left_out, evidence.training.X.index
    kind = str(index.name or "row")
    items: list[Block] = [
        {
            "title": f"{one.why}: {kind} {index[evidence.known[one.row]]}",
            "text": f"Predicted {amount(found.predicted[one.row])} by the model without this row; "
            f"it is {amount(found.truth[one.row])}. The finished model says "
            f"{amount(why.margin[i])}; without any column it would say {amount(why.base[i])}.",
            "reasons": reasons(why, i),
            "change": "",
            "sides": ["lowers", "raises"],
        }
        for i, one in enumerate(chosen)
    ]
    return section(
        "Why this row?",
        "Some training rows with the columns that raise or lower the prediction most; bars show "
        "how much, on a common scale within a row. fisherkit explain MODEL table.csv does the same "
        "for any row.",
        {"type": "examples", "items": items},
        name="rows",
    )


def intervals(evidence: NumberEvidence) -> Section | None:
    """How often intervals hold the truth, and how wide they are."""
    coverage = evidence.coverage
    if coverage is None:
        return None
    short, _, words = how_trusted(evidence)
    dots: list[Block] = [
        {
            "x": level,
            "y": held,
            "range": wilson(held * coverage.rows, coverage.rows),
            "n": coverage.rows,
        }
        for held, level in zip(coverage.held, CONFIDENCES, strict=True)
    ]
    rows = [
        [percent(level), percent(held), amount(width)]
        for level, held, width in zip(CONFIDENCES, coverage.held, coverage.width, strict=True)
    ]
    return section(
        "Can I trust the intervals?",
        f"{short}. {words} Intervals were tried on models with the same settings that were fitted "
        f"to {coverage.fitted:,} rows, and counted on rows that these had not seen.",
        {
            "type": "reliability",
            "title": "Promised and observed",
            "dots": dots,
            "x": "confidence asked for",
            "y": "share of intervals that hold the truth",
            "note": "Dots on the line or above it keep their promise. Bars are 95 % intervals.",
        },
        {
            "type": "table",
            "title": "The same in numbers",
            "head": ["confidence", "hold the truth", "mean width"],
            "rows": rows,
            "numbers": 0,
            "note": "The promise is about all rows together: some kinds of rows may be harder than "
            "others. The figures below show whether errors grow with the prediction.",
        },
        name="intervals",
    )


def numbers(evidence: NumberEvidence, seed: int) -> Section:
    """Predicted against observed, residuals, and the measures with their references."""
    judged, constant, left_out = evidence.judged, evidence.constant.theirs, evidence.left_out
    assert constant is not None
    target = evidence.training.target
    shown = np.random.default_rng(seed).permutation(judged.n)[:_DOTS]
    few = f" A sample of {_DOTS:,} of {judged.n:,} rows." if judged.n > _DOTS else ""
    predicted = rounded(judged.predicted[shown])
    aside = evidence.training.held_out
    whose = "left-out training rows, each predicted by the model without it"
    if aside is not None:
        whose = f"held-out rows ({aside.how}), predicted by models that were fitted without them"
    table = [
        ["R²", f"{judged.r2:.3f}", f"{constant.r2:.3f}", "The share of the variance explained."],
        [
            "Root mean squared error",
            amount(judged.rmse),
            amount(constant.rmse),
            "Large errors count more than small ones.",
        ],
        ["Mean absolute error", amount(judged.mae), amount(constant.mae), "The error on average."],
        [
            "Median absolute error",
            amount(judged.median),
            amount(constant.median),
            "Half of the rows are nearer than this.",
        ],
        [
            "Mean error",
            _mean_error(judged),
            _mean_error(constant),
            "Above zero where predictions are too low on average.",
        ],
    ]
    return section(
        "How far off is it?",
        f"Counted on {judged.n:,} {whose}.",
        {
            "type": "scatter",
            "title": "Predicted and observed",
            "series": [series_of("rows", predicted, rounded(judged.truth[shown]))],
            "x": {"label": f"predicted {target}"},
            "y": {"label": f"observed {target}"},
            "diagonal": True,
            "note": f"The nearer to the dashed line, the better.{few}",
        },
        {
            "type": "table",
            "title": "Over all rows",
            "head": ["measure", "model", "mean", "meaning"],
            "rows": table,
            "numbers": 1,
            "last": 3,
        },
        {
            "type": "scatter",
            "title": "Errors (residuals)",
            "series": [series_of("rows", predicted, rounded(judged.errors[shown]))],
            "x": {"label": f"predicted {target}"},
            "y": {"label": "observed less predicted"},
            "zero": True,
            "note": "A good model leaves a band of the same width around zero. A funnel means that "
            "errors grow with the prediction, a bend that something is missing.",
        },
        text(
            f"After selection: the left-out training rows, which also chose the settings, have a "
            f"root mean squared error of {amount(left_out.rmse)} and R² {left_out.r2:.3f}. This is "
            "a little too good on average."
        ),
        name="in-numbers",
    )


def _mean_error(found: Predicted) -> str:
    """The mean error, or 0 where it is rounding."""
    mean = float(np.mean(found.errors))
    return amount(mean) if abs(mean) > 1e-9 * found.rmse else "0"


def suspects(training: Training, doubted: pd.DataFrame) -> Section:
    """Rows whose target is far from what the model without them predicts."""
    title, name = "Rows worth a second look", "doubts"
    if not len(doubted):
        return section(title, "No target is unusually far from its prediction.", name=name)
    top = doubted.iloc[:_DOUBTED]
    cells = [
        [amount(row.target), amount(row.predicted), f"{row.ratio:+.1f}"] for row in top.itertuples()
    ]
    return section(
        title,
        f"The targets of {len(doubted):,} of {len(training.y):,} rows are more than {_FAR:g} times "
        "the usual distance from what the model without them predicts. The target may be wrong, or "
        "right in a rare case.",
        rows_table(
            training,
            top.index.to_numpy(),
            [training.target, "predicted", "times the usual"],
            cells,
            numbers=1,
        )
        | {"wide": True},
        name=name,
    )


def doubtful(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of an audit that are far off."""
    return table[np.abs(table["ratio"]) > _FAR]


def target_table(training: Training) -> Block:
    """How the target is spread."""
    shares = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
    words = ("smallest", "5 %", "25 %", "median", "75 %", "95 %", "largest")
    values = np.quantile(np.asarray(training.y, dtype=np.float64), shares)
    return {
        "type": "table",
        "title": f"Values of {training.target}",
        "head": ["of the rows are at most", training.target],
        "rows": [[word, amount(value)] for word, value in zip(words, values, strict=True)],
        "numbers": 1,
    }
