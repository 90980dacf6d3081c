"""The top of the report: a plain verdict, what to do, and the comparison with other methods."""

from __future__ import annotations

import numpy as np

from fisherkit.methods import method_named
from fisherkit.report.blocks import Section, between, points, quoted, section, text
from fisherkit.report.evidence import Evidence, Rival
from fisherkit.report.left_out_scores import wilson
from fisherkit.report.quality import Counts, Measures, Verdict
from fisherkit.report.reasons import Mattering
from fisherkit.terminal import percent

Answer = tuple[str, str, str]  # how it reads at a glance, a mood for its colour, and a sentence

_GRADES = ((0.8, "Very good"), (0.4, "Good"), (0.1, "Useful"), (-np.inf, "A little"))
_PERFECT, _OVERWHELMING = 0.99, 3.0
_UNFOUND = 0.5  # share of a class that is found, below which something is to be done
_COMMITTEE_ROWS = 4000


def verdict(evidence: Evidence, found: Mattering | None, doubted: int) -> Section:
    """How good, compared with what, to be trusted how far, and what to do."""
    judged, training = evidence.judged, evidence.training
    right = int(np.sum(judged.right))
    unseen = "rows that the model had not seen"
    if evidence.held_out is None:
        unseen = "training rows, each judged by the model without it"
    questions = [
        ("How good is it?", how_good(evidence), "in-numbers"),
        ("Is it better than what I have?", how_compared(evidence), "comparison"),
        ("Can I trust the probabilities?", how_trusted(evidence), "probabilities"),
    ]
    if found is not None:
        questions.append(("Which columns matter?", _columns(found), "columns"))
    return section(
        "In short",
        _lead(evidence),
        {
            "type": "verdict",
            "value": percent(right / judged.n),
            "label": "of the answers are right",
            "plain": _plain(evidence),
            "range": f"{right:,} of {judged.n:,} {unseen} ({between(right, judged.n)}).",
            "todo": advice(evidence, found, doubted),
            "answers": [
                {"question": question, "answer": short, "mood": mood, "text": words, "link": link}
                for question, (short, mood, words), link in questions
            ],
        },
        *(text(f"Note: {note}") for note in training.notes),
    )


def _plain(evidence: Evidence) -> str:
    """The verdict in three short sentences."""
    good, compared = how_good(evidence)[0], how_compared(evidence)[0]
    said = {
        Verdict.TRUSTED: "Its probabilities can be trusted",
        Verdict.UNKNOWN: "There are too few rows to tell whether its probabilities hold",
        Verdict.TOO_SURE: "Its probabilities are too sure of themselves",
        Verdict.TOO_CAUTIOUS: "Its probabilities are more cautious than they need be",
        Verdict.SHIFTED: "Its probabilities lean to one side",
    }[evidence.trust.verdict]
    beside = "" if compared == "Not compared" else f" {compared}, on the same rows."
    return f"{good} on rows that it has not seen.{beside} {said}."


def _lead(evidence: Evidence) -> str:
    training, d = evidence.training, evidence.training.X.shape[1]
    named = quoted(evidence.names, "or") if len(evidence.names) < 4 else ""
    return (
        f"This model predicts {training.target} ({named or f'{len(evidence.names)} classes'}) from "
        f"{d:,} column{'s' * (d != 1)}. It learned from {len(evidence.index):,} rows of "
        f"{training.source}. Every error on this page is that of rows which the judging "
        "model had not seen."
    )


def how_good(evidence: Evidence) -> Answer:
    """The answer by how many of the mistakes of the most frequent class are gone."""
    constant, n = evidence.constant, evidence.judged.n
    assert constant.theirs is not None
    ours, theirs = np.mean(evidence.judged.right), np.mean(constant.theirs.right)
    said = (
        f"It is right for {percent(ours)} of the rows; always answering “{evidence.frequent}” "
        f"would be right for {percent(theirs)}."
    )
    difference = constant.difference
    if difference.side_of_answers > 0:
        gone = 1 - (1 - ours) / (1 - theirs)
        grade = next(words for least, words in _GRADES if gone >= least)
        grade = "Slightly better than guessing" if grade == "A little" else grade
        mistakes = f" That is {gone:.0%} fewer mistakes.".replace("%", "\N{NO-BREAK SPACE}%")
        return grade, "good" if gone >= 0.4 else "fair", said + mistakes
    if difference.side_of_answers == 0 and difference.side_of_probabilities > 0:
        words = " Its answers gain little by that, but its probabilities do tell rows apart."
        return "Only its probabilities help", "fair", said + words
    few = " There are few rows to judge by." if n < 100 else ""
    return "No better than guessing", "poor", f"{said} The difference is no more than chance.{few}"


def how_compared(evidence: Evidence) -> Answer:
    """The answer beside other methods that were judged on the same rows."""
    compared = [rival for rival in evidence.rivals if rival.theirs is not None]
    if not compared:
        why = (
            "No rows were held out, so that nothing could be compared fairly."
            if evidence.held_out is None
            else "Other methods were left out of this report."
        )
        return "Not compared", "fair", f"{why} Run fisherkit fit again with --report to compare."
    sides = [rival.difference.side for rival in compared]
    said = " ".join(_beside(rival) for rival in compared)
    names = [rival.name.lower() for rival in compared]
    worse = [name for name, side in zip(names, sides, strict=True) if side < 0]
    better = [name for name, side in zip(names, sides, strict=True) if side > 0]
    if worse:
        return f"No: {worse[0]} does better", "poor", said
    if len(better) == len(names):
        return f"Yes, better than {' and '.join(better)}", "good", said
    alike = [name for name in names if name not in better]
    start = f"Better than {better[0]}, as good as" if better else "As good as"
    return f"{start} {' and '.join(alike)}", "good" if better else "fair", said


def _beside(rival: Rival) -> str:
    difference = rival.difference
    name = rival.name if rival.name[0].isupper() else rival.name.capitalize()
    assert rival.theirs is not None
    rate = percent(np.mean(rival.theirs.right))
    if difference.side_of_answers:
        more = "more" if difference.accuracy > 0 else "fewer"
        size = points(abs(difference.accuracy))
        return f"{name} is right for {rate}; this model answers {size} {more} of the rows rightly."
    said = f"{name} is right for {rate}, a difference that chance explains"
    if difference.side_of_probabilities:
        which = "better" if difference.log_loss > 0 else "worse"
        return f"{said}; the probabilities of this model are clearly {which}."
    return f"{said}."


TRUST = {
    Verdict.TRUSTED: ("Yes", "good"),
    Verdict.UNKNOWN: ("Too few rows to tell", "fair"),
    Verdict.TOO_SURE: ("Not as they are: too sure", "poor"),
    Verdict.TOO_CAUTIOUS: ("Roughly: they are too cautious", "fair"),
    Verdict.SHIFTED: ("Not as they are: they lean to one side", "poor"),
}


def how_trusted(evidence: Evidence) -> Answer:
    """Whether probabilities hold what they promise."""
    trust = evidence.trust
    short, mood = TRUST[trust.verdict]
    gap = f"Stated and observed shares are {points(trust.gap)} apart on average."
    words = {
        Verdict.TRUSTED: f"{gap} That is what chance does among so many rows.",
        Verdict.UNKNOWN: f"With {evidence.judged.n} rows, any promise could be luck.",
        Verdict.TOO_SURE: f"{gap} High probabilities come true less often than they say.",
        Verdict.TOO_CAUTIOUS: f"{gap} High probabilities come true more often than they say.",
        Verdict.SHIFTED: f"{gap} One class comes true more often than it is promised.",
    }[trust.verdict]
    return short, mood, words


def _columns(found: Mattering) -> Answer:
    """The columns without which the answers suffer by more than chance."""
    names, rise, error = found.found.columns, found.found.rise, found.found.standard_error
    clear = [j for j in found.order if rise[j] > 2 * error[j]]
    if not clear:
        words = "Shuffling any one column does little harm: columns may say the same things."
        return "No single column", "fair", words
    top = quoted([names[j] for j in clear[:3]], "and")
    count = len(clear)
    words = f"Shuffling any of the {len(names)} columns makes the answers worse."
    if count < len(names):
        words = (
            f"Of {len(names)} columns, shuffling {count} of them, one by one, makes the answers "
            "clearly worse. The others matter little beside these."
        )
    return f"Most of all {top}", "plain", words


def advice(evidence: Evidence, found: Mattering | None, doubted: int) -> list[str]:
    """What a reader should do, most pressing first."""
    said: list[str] = []
    good = how_good(evidence)[1]
    if good == "poor":
        said.append(
            "Do not use the answers yet. Collect more rows, or columns that say more about "
            f"{evidence.training.target}."
        )
    if evidence.held_out is None:
        said.append("Train again without --held-out none, for an error that is free of selection.")
    compared = [rival for rival in evidence.rivals if rival.theirs is not None]
    worse = [rival.name for rival in compared if rival.difference.side < 0]
    other_method = evidence.training.method != "committee"
    small = len(evidence.index) <= _COMMITTEE_ROWS
    committee = "try --method committee, the most accurate method here"
    if worse:
        choice = f"{committee}, or use that method" if other_method else "consider that method"
        said.append(f"{worse[0]} does better on this table: {choice}.")
    elif other_method and small and good != "poor":
        said.append(f"To gain accuracy, {committee}. It takes longer.")
    if (leak := _leak(evidence, found)) is not None:
        said.append(leak)
    said += _about_probabilities(evidence)
    said += _about_classes(evidence)
    if doubted:
        them = "this row" if doubted == 1 else f"these {doubted:,} rows"
        said.append(f"Check the labels of {them} under “Rows worth a second look”.")
    if good != "poor" and not worse:
        said.append("To answer new rows: fisherkit predict MODEL new.csv -o answers.csv.")
    return said


def _leak(evidence: Evidence, found: Mattering | None) -> str | None:
    if found is None or len(found.order) < 2 or np.mean(evidence.judged.right) < _PERFECT:
        return None
    first, second = (found.found.rise[j] for j in found.order[:2])
    if first < _OVERWHELMING * max(second, 0.0):
        return None
    name = found.found.columns[found.order[0]]
    return (
        f"Nearly all answers hang on “{name}”. Make sure that it is known before "
        f"{evidence.training.target} is."
    )


def _about_probabilities(evidence: Evidence) -> list[str]:
    trust = evidence.trust
    if trust.verdict in (Verdict.TRUSTED, Verdict.UNKNOWN):
        return []
    if evidence.two:
        read = percent(trust.corrected(0.9))
        return [
            f"Correct the probabilities before you use them: read 90\N{NO-BREAK SPACE}% for "
            f"“{evidence.names[1]}” as {read} (see “Can I trust the probabilities?”)."
        ]
    return [
        "Use the order of the probabilities, not their size, or correct them as “Can I trust the "
        "probabilities?” says."
    ]


def _about_classes(evidence: Evidence) -> list[str]:
    counts = Counts.of(evidence.judged)
    recall = np.where(counts.rows > 0, counts.recall, 1.0)
    lost = np.flatnonzero(recall < _UNFOUND)
    if not len(lost):
        return []
    named = quoted([evidence.names[c] for c in lost[:3]], "and")
    more = f" and {len(lost) - 3} more classes" if len(lost) > 3 else ""
    share = "less than half" if len(lost) > 1 else f"only {percent(recall[lost[0]])}"
    return [
        f"The model finds {share} of {named}{more}. If missing them is costly, set the costs "
        "under “What mistakes cost”, or train with --balanced."
    ]


def comparison(evidence: Evidence) -> Section:
    """This model beside others on the same rows."""
    assert evidence.constant.theirs is not None
    name = f"Always “{evidence.frequent}”"
    rivals = [rival for rival in evidence.rivals if rival.theirs is not None]
    title = method_named(evidence.training.method).title
    rows = [("This model", evidence.judged)]
    rows += [(rival.name, rival.theirs) for rival in rivals if rival.theirs is not None]
    rows.append((name, evidence.constant.theirs))
    f1 = f"F1 of “{evidence.names[1]}”" if evidence.two else "F1, mean of classes"
    cells = []
    for who, judged in rows:
        found = Measures.of(judged)
        shares = [percent(v) for v in (found.accuracy, found.balanced_accuracy, found.f1)]
        cells.append([who, *shares, f"{found.log_loss:.3f}"])
    rates = [(int(np.sum(judged.right)), judged.n) for _, judged in rows]
    return section(
        "Is it better than what I have?",
        _same_rows(evidence),
        {
            "type": "intervals",
            "title": "Right answers of each method",
            "labels": [who for who, _ in rows],
            "values": [right / n for right, n in rates],
            "low": [wilson(right, n)[0] for right, n in rates],
            "high": [wilson(right, n)[1] for right, n in rates],
            "x": {"label": "share of right answers", "percent": True},
            "note": "Bars are 95 % intervals of each method by itself. As all methods answer the "
            "same rows, differences are surer than the bars suggest: the sentences at the top of "
            "the page compare row by row.",
        },
        {
            "type": "table",
            "title": "The same rows, four measures",
            "head": ["method", "right answers", "mean of classes", f1, "log-loss"],
            "rows": cells,
            "numbers": 1,
            "note": f"This model is a {title}. “Mean of classes” is the balanced accuracy. Lower "
            "is better for the log-loss, higher for the others.",
        },
        *(text(f"{rival.name}: {rival.note}.") for rival in evidence.rivals if rival.note),
        name="comparison",
    )


def _same_rows(evidence: Evidence) -> str:
    aside = evidence.training.held_out
    if aside is None or not evidence.training.baselines:
        return (
            "This report has no other methods to compare with: they were left out with "
            "--no-baseline, or no rows were held out. What remains is the rule that always answers "
            "the most frequent class."
        )
    return (
        f"All methods learned from the same rows and answered the same held-out rows ({aside.how}). "
        "They are used as they come, with numbers scaled and texts as indicators for logistic "
        "regression."
    )
