"""The page, put together: data, template, style and scripts."""

from __future__ import annotations

import html
import json
import math
import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

import numpy as np

from fisherkit.estimators import inside
from fisherkit.inspection import (
    in_blocks,
    left_out_coordinates,
    left_out_logits,
    left_out_path,
    streamed_path,
)
from fisherkit.interfaces import Json
from fisherkit.methods import method_named
from fisherkit.report import data_sections, model_sections, quality_sections
from fisherkit.report.blocks import Block, Page, Section, section, text
from fisherkit.report.left_out_scores import live, stratified
from fisherkit.training import Training

# Libraries in the order of their dependence, with the licences that must accompany them.
VENDOR = {
    "vendor/d3.min.js": "vendor/LICENSE-d3.txt",
    "vendor/plot.umd.min.js": "vendor/LICENSE-plot.txt",
}
SCRIPTS = ("charts.js", "counting.js", "live.js", "page.js")

# The keys say whether there are two classes, and whether there is a path over mu.
INTRODUCTIONS = {
    (True, True): "Move the sliders to change how sure the model must be, what a mistake costs, or "
    "how strongly the model is regularised.",
    (True, False): "Move the sliders to change how sure the model must be, and what a mistake "
    "costs. This method compares no values of mu, so there is no slider for it.",
    (False, True): "Move the slider to change how strongly the model is regularised.",
    (False, False): "This method compares no values of mu, and several classes have no single "
    "threshold, so there are no sliders.",
}


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
    model = training.model.estimator_
    index = np.searchsorted(model.classes_, np.asarray(training.y))
    logits = left_out_logits(model)
    path, chosen, log_mu, coordinates = logits[:, :, None], 0, None, None
    shown, ridge = np.arange(len(index)), None
    method = method_named(training.method)
    if method.search == "mu":
        if in_blocks(model):
            shown = stratified(index, sample, seed)
            features = training.features
            if features is None:  # the table is in memory, though the fit was not
                features = training.model.features_.transform(training.X)
            left_out = streamed_path(model, features, training.y, shown)
        else:
            left_out = left_out_path(model)
        path, chosen, coordinates = left_out.logits, left_out.chosen, left_out.coordinates
        ridge = left_out.ridge
        log_mu = np.log10(left_out.mu / model.selection_.unit)
    elif method.influence:
        ridge = inside(model).refit()
        coordinates = left_out_coordinates(model) if logits.shape[1] > 1 else None
    scores = live(path, index[shown], chosen=chosen, log_mu=log_mu, sample=sample, seed=seed)
    if len(shown) < len(index):
        scores["of"] = len(index)
    sections = [
        quality_sections.summary(training, index, logits),
        _try_it(training, scores),
        quality_sections.curves(training, index, logits),
        model_sections.chosen(training),
        model_sections.coordinates(training, index[shown], coordinates, seed),
        model_sections.importance(training),
        data_sections.suspects(training, ridge),
        data_sections.data(training),
        *data_sections.ending(training),
    ]
    return {
        "title": f"Predicting {training.target} from {training.source}",
        "sections": [each for each in sections if each is not None],
    }


def _try_it(training: Training, scores: Block) -> Section:
    """The live part, and what its sliders do."""
    classes = [str(c) for c in training.model.estimator_.classes_]
    two, path = len(classes) == 2, scores["logMu"] is not None
    intro = (
        INTRODUCTIONS[two, path]
        + " All figures are counted on left-out rows, which also chose the settings."
    )
    note = None
    if scores["rows"] != scores["of"]:
        note = text(
            f"Counted on a random sample of {scores['rows']:,} of {scores['of']:,} rows, with the "
            "class shares of all; the figures at the top of the page use every row."
        )
    title = "Try it" if two or path else "Mistakes by class"
    return section(title, intro, note, {"type": "live", "data": scores, "classes": classes})


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
