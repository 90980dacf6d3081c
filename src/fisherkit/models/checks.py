"""What is asked of a model file once it can be read: metadata as they are written, and answers.

Checks raise `ModelFileError` without the name of the file, which the caller adds.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from fisherkit.estimators import inside
from fisherkit.methods import TableModel
from fisherkit.models.archives import ModelFileError
from fisherkit.stored import NAMES

Metadata: TypeAlias = dict[str, Any]  # what JSON holds
Rows: TypeAlias = np.ndarray | pd.DataFrame

_SETS_TRIED = 500  # training rows up to which label sets and intervals cost little
_LEVELS_TRIED = 1 << 18  # cells
_ROWS_TRIED = 16  # about
# Preparations that must have an answer for a row of zeros.
_NUMERIC = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "PCA")

# Shapes of metadata: a type, a tuple of alternatives, [shape] for a list of any length, a
# dictionary of entries that must be there, or {str: shape} for one with keys of any name.
_Number = (int, float)
_Label = (str, int, float, bool)
_Error = {"how": str, "error": _Number, "rows": int}
_Distance = {"how": str, "rows": int, "r2": _Number, "rmse": _Number, "mae": _Number}
_VERSIONS = {"fisherkit": str, "scikit-learn": str, "numpy": str}
_TRAINING = {
    "target": str,
    "source": str,
    "method": str,
    "classes": [_Label],
    "columns": [{"name": str, "kind": str, "missing": int, "values": [_Number]}],
    "asked_text": [str],
    "rows_sha256": str,
    "code": str,
    "summary": {
        "source": str,
        "target": str,
        "rows": int,
        "columns": int,
        "features": int,
        "method": str,
        "chosen": {str: (str, *_Number, bool, None, [_Label])},
        "notes": [str],
        "seconds": _Number,
    },
}
_OF_CLASSES = {
    "classes": {str: int},
    "classifier": str,
    "error_after_selection": _Error,
    "held_out": (None, {**_Error, "log_loss": _Number}),
    "error_of_the_largest_class": _Number,
}
_OF_NUMBERS = {
    "target_range": [_Number],
    "regressor": str,
    "error_after_selection": _Distance,
    "held_out": (None, _Distance),
    "error_of_the_mean": {"value": _Number, **_Distance},
}


def check_metadata(about: Metadata) -> None:
    """Refuse metadata that those who read them would stumble over.

    Entries of other names may be anything. Those that a training writes belong together; without
    columns and summary, a model was saved from Python, and they are free as well.
    """
    _check(about.get("versions"), {str: str}, "versions")
    _check(about["versions"], _VERSIONS, "versions")
    if "columns" not in about and "summary" not in about:
        return
    for name, shape in _TRAINING.items():
        _check(about.get(name), shape, name)
    numbers = about["summary"].get("task") == "regression"
    _check(about["summary"], _OF_NUMBERS if numbers else _OF_CLASSES, "summary")
    if numbers and len(about["summary"]["target_range"]) != 2:
        raise ModelFileError("its target has no range of two ends.")
    for column in about["columns"]:
        wanted = {"number": 2, "text": 1}.get(column["kind"])
        if len(column["values"]) != wanted:
            raise ModelFileError(f"its column {column['name'][:100]!r} is not described.")
    summary = about["summary"]
    for error in (summary["error_after_selection"], summary["held_out"]):
        if error is None:
            continue
        if numbers or error.get("interval") is not None:
            _check(error.get("interval"), [_Number], "interval")
            if len(error["interval"]) != 2:
                raise ModelFileError("its error has no interval of two ends.")


def _check(value: object, shape: object, name: str) -> None:
    if not _fits(value, shape):
        raise ModelFileError(
            f"its entry {name!r} is {str(value)[:100]!r}, which no training writes there."
        )


def _fits(value: object, shape: object) -> bool:
    if isinstance(shape, tuple):
        return any(_fits(value, one) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(item, shape[0]) for item in value)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return False
        if str in shape:
            return all(_fits(item, shape[str]) for item in value.values())
        return all(_fits(value.get(key), one) for key, one in shape.items())
    if shape is None:
        return value is None
    if shape is int:
        return type(value) is int and abs(value) < 2**63
    return type(value) is shape


def check_model(model: BaseEstimator, about: Metadata, size: int) -> None:
    """Refuse a model that does not answer: numbers that are not finite, parts that do not fit.

    ``size`` is that of its tree and arrays in bytes, beyond which no model has features.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            _check_model(model, about, size)
        except ModelFileError:
            raise
        except Exception as error:  # anything may go wrong with parts that do not fit
            raise ModelFileError(f"its model does not answer: {str(error)[:300]}") from error


def _check_model(model: BaseEstimator, about: Metadata, size: int) -> None:
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    if isinstance(model, TableModel):
        steps = [model.features_, model.estimator_]
    last = steps[-1]
    if not (type(last) in NAMES and isinstance(last, BaseEstimator) and hasattr(last, "predict")):
        raise ModelFileError(f"it holds a {type(last).__name__} where a model should be.")
    _ask(last, _known_rows(last, _features(last, size)))
    if "columns" in about:
        _ask(model, _rows(about["columns"]))
        _try_levels(model, about["columns"])
    elif len(steps) > 1 and all(type(step).__name__ in _NUMERIC for step in steps[:-1]):
        _ask(model, np.zeros((2, _features(steps[0], size))))


def _features(step: BaseEstimator, size: int) -> int:
    features = getattr(step, "n_features_in_", None)
    if type(features) is not int or not 0 < features <= size:
        raise ModelFileError(f"its {type(step).__name__} is for {str(features)[:100]} features.")
    return features


def _ask(model: BaseEstimator, X: Rows) -> None:
    """Ask about all rows and about one: what fits either by chance does not fit both."""
    _ask_about(model, X)
    _ask_about(model, X[:1])


def _ask_about(model: BaseEstimator, X: Rows) -> None:
    answers = {"predict": np.asarray(model.predict(X))}
    if hasattr(model, "predict_proba"):
        answers["predict_proba"] = model.predict_proba(X)
        if np.shape(answers["predict_proba"]) != (len(X), len(model.classes_)):
            raise ModelFileError("its model has probabilities for other classes than its own.")
    for name, values in answers.items():
        if len(values) != len(X):
            raise ModelFileError(f"its model gives {len(values)} answers for {len(X)} rows.")
        if values.dtype.kind in "fc" and not np.isfinite(values).all():
            raise ModelFileError(f"numbers in it are damaged: {name} is not finite.")
    for sets in ("predict_set", "predict_interval"):
        keeps_rows = hasattr(model, sets) and inside(model).training is not None
        if keeps_rows and inside(model).expansion.coef.shape[0] <= _SETS_TRIED:
            getattr(model, sets)(X)


def _known_rows(model: BaseEstimator, features: int) -> np.ndarray:
    """Rows that the model must have an answer for: its own centres, where it has any."""
    expansion = getattr(inside(model), "expansion", None)
    for holder in (expansion, *getattr(expansion, "parts", ())):
        centres = getattr(holder, "centres", None)
        if isinstance(centres, np.ndarray) and centres.ndim == 2 and len(centres):
            return centres[:: max(1, len(centres) // _ROWS_TRIED)]
    return np.zeros((2, features))


def _try_levels(model: TableModel, columns: list[Metadata]) -> None:
    """Encode every text that the training saw, up to some hundred thousand cells."""
    levels = {text.name: [*text.known, *text.rare] for text in model.features_.texts}
    if not levels:
        return
    most = max(1, min(max(map(len, levels.values())), _LEVELS_TRIED // len(columns)))
    table = pd.concat([_rows(columns).iloc[:1]] * most, ignore_index=True)
    for name, known in levels.items():
        table[name] = np.resize(known, most)
    _ask(model, table)


def _rows(columns: list[Metadata]) -> pd.DataFrame:
    """Two rows of a table as the training saw it: the ends of numbers, a text never seen."""
    return pd.DataFrame(
        {
            column["name"]: [v if math.isfinite(v) else 0.0 for v in map(float, column["values"])]
            if column["kind"] == "number"
            else ["?", "?"]
            for column in columns
        }
    )
