"""The page, put together: data, template, style and scripts."""

from __future__ import annotations

import html
import json
import logging
import math
import re
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

import numpy as np
import pandas as pd

from fisherkit.core import Ridge
from fisherkit.estimators import inside
from fisherkit.inspection import (
    doubts,
    in_blocks,
    left_out_coordinates,
    left_out_logits,
    left_out_path,
    streamed_path,
)
from fisherkit.interfaces import Json
from fisherkit.methods import method_named
from fisherkit.report import (
    column_sections,
    data_sections,
    mistake_sections,
    model_sections,
    number_sections,
    row_sections,
    verdict_sections,
)
from fisherkit.report.blocks import Page, Section, text
from fisherkit.report.evidence import Evidence
from fisherkit.report.left_out_scores import live, stratified
from fisherkit.report.numbers import NumberEvidence
from fisherkit.report.reasons import (
    EFFECTS,
    Effect,
    Example,
    Mattering,
    Predict,
    effects,
    explained,
    mattering,
)
from fisherkit.training import CLASSES, STAGES, Training

# Libraries in the order of their dependence, with the licences that must accompany them.
VENDOR = {
    "vendor/d3.min.js": "vendor/LICENSE-d3.txt",
    "vendor/plot.umd.min.js": "vendor/LICENSE-plot.txt",
}
SCRIPTS = ("charts.js", "counting.js", "live.js", "page.js")

_UNWEIGHTED = (
    "Note: the rows of the training have weights. This page counts each row once; the summary that "
    "fisherkit fit prints has the weighted errors."
)

log = logging.getLogger(STAGES)


def render(training: Training, *, sample: int = 20_000, seed: int = 0) -> str:
    """The report as HTML, under 3 MB however many rows there are.

    Parameters
    ----------
    training : Training
    sample : int, default=20,000
        From more rows than this, the sliders count a stratified sample; the page says so.
    seed : int, default=0
        Seed of the sample.

    Returns
    -------
    str

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fisherkit import TableClassifier
    >>> from fisherkit.report import render
    >>> from fisherkit.training import Training
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> training = Training(
    ...     model=TableClassifier("fisher").fit(X, y), X=X, y=y.to_numpy(), target="species",
    ...     source="iris", method="fisher", held_out=None, code="", notes=(), seconds=0.1,
    ... )
    >>> html = render(training)
    >>> html[:15], len(html) < 3_000_000
    ('<!doctype html>', True)
    """
    page = describe(training, sample=sample, seed=seed)
    scripts = [f"/*\n{_asset(licence)}*/\n{_asset(name)}" for name, licence in VENDOR.items()]
    scripts += [_asset(name) for name in SCRIPTS]
    hashes = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    policy = "; ".join(
        (
            "default-src 'none'",
            "style-src 'unsafe-inline'",
            "script-src " + " ".join(f"'sha256-{value}'" for value in hashes),
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    parts = {
        "title": html.escape(page["title"]),
        "policy": policy,
        "style": _asset("report.css"),
        "data": embedded(page),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("report.html"))


def describe(training: Training, *, sample: int = 20_000, seed: int = 0) -> Page:
    """All that the page says and shows."""
    log.info("finding which columns matter")
    found = mattering(training, seed)
    if training.goal is CLASSES:
        sections = _of_classes(training, found, sample, seed)
    else:
        sections = _of_numbers(training, found, seed)
    if training.weights is not None and sections[0] is not None:
        sections[0]["blocks"].append(text(_UNWEIGHTED))
    return {
        "title": f"Predicting {training.target} from {training.source}",
        "sections": [each for each in sections if each is not None],
    }


def _drawn(
    training: Training, found: Mattering | None, predict: Predict, seed: int
) -> list[Effect]:
    """The effects of the columns that matter most."""
    shown = [] if found is None else [found.found.columns[j] for j in found.order[:EFFECTS]]
    return effects(training, shown, predict, seed)


def _of_numbers(training: Training, found: Mattering | None, seed: int) -> list[Section | None]:
    evidence = NumberEvidence.of(training, seed)
    drawn = _drawn(training, found, training.model.predict, seed)
    chosen = number_sections.examples_of(evidence)
    why = explained(training, _of_training(chosen, evidence.known), seed)
    doubted = number_sections.doubtful(
        training.goal.doubts(training.model, training.y, np.arange(len(training.y)))
        if not inside(training.model.estimator_).in_blocks
        else pd.DataFrame({"ratio": []})
    )
    return [
        number_sections.verdict(evidence, found, len(doubted)),
        number_sections.comparison(evidence),
        column_sections.columns(training, found, drawn, []),
        number_sections.examples(evidence, chosen, why),
        number_sections.intervals(evidence),
        number_sections.numbers(evidence, seed),
        number_sections.suspects(training, doubted),
        data_sections.data(training, number_sections.target_table(training)),
        model_sections.chosen(training),
        *data_sections.ending(training, data_sections.NUMBER_WORDS),
    ]


def _of_training(chosen: list[Example], known: np.ndarray) -> list[Example]:
    """Examples among left-out rows, by their places among all rows of the training."""
    return [Example(int(known[one.row]), one.why) for one in chosen]


def _of_classes(
    training: Training, found: Mattering | None, sample: int, seed: int
) -> list[Section | None]:
    model = training.model.estimator_
    if method_named(training.method).search == "mu" and model.selection_.sampled:
        raise ValueError(
            f"The fit of {len(training.y)} rows has left out a sample of them alone, and the "
            "report shows every row. Fit with a number of centres (--centres), or with --report, "
            "which chooses one."
        )
    logits = left_out_logits(model)
    evidence, scored = Evidence.of(training, logits), _scored(training, logits, sample, seed)
    scores = live(
        scored.path,
        evidence.index[scored.rows],
        chosen=scored.chosen,
        log_mu=scored.log_mu,
        sample=sample,
        seed=seed,
    )
    if len(scored.rows) < len(evidence.index):
        scores["of"] = len(evidence.index)
    drawn = _drawn(training, found, training.model.predict_proba, seed)
    chosen = row_sections.examples_of(evidence)
    why = explained(training, _of_training(chosen, evidence.known), seed)
    doubted = doubts(model, training.y, index=np.arange(len(training.y)), influence=False)
    doubted = doubted[(doubted["label"] != doubted["suggested"]) & doubted["probability"].notna()]
    return [
        verdict_sections.verdict(evidence, found, len(doubted)),
        verdict_sections.comparison(evidence),
        column_sections.columns(training, found, drawn, evidence.names),
        row_sections.examples(evidence, chosen, why),
        mistake_sections.probabilities(evidence),
        mistake_sections.costs(evidence, scores),
        mistake_sections.numbers(evidence),
        row_sections.suspects(training, doubted, scored.ridge),
        data_sections.data(training, data_sections.class_table(training)),
        model_sections.chosen(training),
        mistake_sections.smoothing(scores),
        model_sections.coordinates(training, evidence.index[scored.rows], scored.coordinates, seed),
        row_sections.retained(training, model)
        if method_named(training.method).search == "size"
        else None,
        *data_sections.ending(training, data_sections.WORDS),
    ]


@dataclass(frozen=True)
class _Scored:
    """Logits (q, k, p) of left-out ``rows`` along mu, and what else their decomposition gives."""

    path: np.ndarray
    rows: np.ndarray
    chosen: int = 0
    log_mu: np.ndarray | None = None
    coordinates: np.ndarray | None = None
    ridge: Ridge | None = None


def _scored(training: Training, logits: np.ndarray, sample: int, seed: int) -> _Scored:
    model, method = training.model.estimator_, method_named(training.method)
    rows = np.arange(len(logits))
    if method.search == "mu":
        if in_blocks(model):
            index = np.searchsorted(model.classes_, np.asarray(training.y))
            rows = stratified(index, sample, seed)
            features = training.features
            if features is None:  # the table is in memory, though the fit was not
                features = training.model.features_.transform(training.X)
            left_out = streamed_path(model, features, training.y, rows)
        else:
            left_out = left_out_path(model)
        return _Scored(
            path=left_out.logits,
            rows=rows,
            chosen=left_out.chosen,
            log_mu=np.log10(left_out.mu / model.selection_.unit),
            coordinates=left_out.coordinates,
            ridge=left_out.ridge,
        )
    if not method.influence:
        return _Scored(logits[:, :, None], rows)
    coordinates = left_out_coordinates(model) if logits.shape[1] > 1 else None
    return _Scored(logits[:, :, None], rows, coordinates=coordinates, ridge=inside(model).refit())


def embedded(page: Page | Json) -> str:
    """JSON that is safe inside a script element; numbers that JSON lacks become null."""
    words = json.dumps(_finite(page), allow_nan=False, separators=(",", ":"))
    return words.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _asset(name: str) -> str:
    return (
        files("fisherkit.report").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")
    )
