"""Answers of a model file for the rows of a table: what ``fisherkit predict`` does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fisherkit.model_files import ModelFile
from fisherkit.recipes import RecipeError
from fisherkit.tables import match
from fisherkit.training_files import columns, labels, read_rows

UNASKED = 0.9  # confidence of the sets of small models

_SMALL = 2000  # training rows


@dataclass(frozen=True)
class Predictions:
    """``table`` has one row for each of the data.

    ``remark`` is the error, if labels are there, and which texts training has not seen.
    """

    table: pd.DataFrame
    remark: str


def predict(
    file: ModelFile, path: Any, *, confidence: float | None = None, encoding: str = "utf-8"
) -> Predictions:
    """Label, probabilities and, where available, the set of labels of every row.

    Parameters
    ----------
    file : ModelFile
    path : str or path
        A table with the columns of the training, in any order; others are ignored.
    confidence : float in (0, 1), default=None
        Of the sets. ``None`` adds sets of 0.9 if they cost little.
    encoding : str

    Returns
    -------
    Predictions
        Its table has the columns "predicted", "p_<label>" for each label and "set" (labels
        separated by "|", possibly none), and is indexed by the lines of the file.
    """
    model, about = file.model, file.metadata
    read = read_rows(file, path, encoding)
    X = match(read, columns(file), path)
    classes = [str(label) for label in model.classes_]
    answers = {"predicted": model.predict(X)}
    p = model.predict_proba(X)
    answers |= {f"p_{label}": p[:, k] for k, label in enumerate(classes)}
    if confidence is None and about["summary"]["rows"] <= _SMALL and _has_sets(model):
        confidence = UNASKED
    if confidence is not None:
        answers["set"] = _sets(model, X, classes, confidence)
    remarks = _unseen(model, X)
    if about["target"] in read.columns:
        truth = read[about["target"]].notna().to_numpy()
        wrong = answers["predicted"][truth] != labels(file, read[truth])
        if len(wrong):
            rows = f"{len(wrong)} rows with a label"
            remarks.append(f"error on {path}: {np.mean(wrong):.2%} of {rows}")
    return Predictions(pd.DataFrame(answers, index=read.index), "\n".join(remarks))


def _unseen(model: Any, X: pd.DataFrame) -> list[str]:
    """Sentences about the levels that the encoder does not know."""
    encoded = model["prepare"].named_transformers_.get("text")
    if encoded is None:
        return []
    remarks = []
    for name, levels in zip(encoded.feature_names_in_, encoded[-1].categories_, strict=True):
        known = X[name].dropna()
        unseen = known[~known.isin(levels)]
        if len(unseen):
            some = "1 row has a value" if len(unseen) == 1 else f"{len(unseen)} rows have values"
            remarks.append(
                f"{some} of {name!r} that training has not seen, such as {unseen.iloc[0]!r}"
            )
    return remarks


def _has_sets(model: Any) -> bool:
    return hasattr(model[-1], "predict_set")


def _sets(model: Any, X: pd.DataFrame, classes: list[str], confidence: float) -> list[str]:
    if not _has_sets(model):
        raise RecipeError(
            f"--confidence: {type(model[-1]).__name__} has no label sets; methods fisher and "
            "bayes have."
        )
    members = model[-1].predict_set(model[:-1].transform(X), confidence)
    return ["|".join(np.asarray(classes)[row]) for row in members]
