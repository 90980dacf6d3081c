"""Trainings that predict classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri
from sklearn.metrics import log_loss
from sklearn.model_selection import BaseCrossValidator, KFold, StratifiedKFold

from fisherkit.columns import EXACT, TableError, is_number, place, quoted
from fisherkit.estimators import inside
from fisherkit.inspection import doubts
from fisherkit.interfaces import FilePath, Json
from fisherkit.methods import (
    RIDGE,
    Method,
    RecipeError,
    TableClassifier,
    TableModel,
    has_fractions,
    method_named,
    names_where,
    part_of,
)
from fisherkit.tables import joined
from fisherkit.terminal import counted
from fisherkit.training.goals import Answers, Goal, HeldOut, Row, Tally
from fisherkit.training.label_words import LabelWords

Z = float(ndtri(0.975))  # of intervals of 95 % around errors

_MOST_CLASSES = 100
_IMBALANCED = 0.1
_INFLUENCE_ROWS = 50_000  # up to which every row's influence on all others is found
_LISTED = 10  # classes


class Mistakes(Tally):
    """Rows with a label, and how many of them were answered wrongly."""

    def __init__(self) -> None:
        self.wrong = 0

    def add(self, given: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        self.rows += len(given)
        self.wrong += int(np.sum(columns["predicted"] != given))

    def __str__(self) -> str:
        return f"{self.wrong / self.rows:.2%} of {counted(self.rows, 'row')}"


class Classification(Goal):
    """Predicting which class a row belongs to, with a `TableClassifier`."""

    name = "classification"
    model = "classifier"
    default = "fisher"
    answer = "label"
    contributions = "the margin between the two likeliest classes"

    def target(self, values: pd.Series, path: FilePath, words: LabelWords) -> np.ndarray:
        missing = f" ({words.unread})" if words.unread else ""
        if is_number(values) and not has_fractions(values.to_numpy()):
            self._refuse_inexact(values, path)
        y = _labels(values)
        classes = np.unique(y)
        if len(classes) < 2:
            raise TableError(
                f"{path}: column {values.name!r} has one value only, {str(classes[0])!r}; a "
                f"classifier needs two{missing}."
            )
        if len(y) < 2 * len(classes) and y.dtype.kind == "U":
            raise TableError(
                f"{path}: column {values.name!r} has {len(classes)} different values in {len(y)} "
                f"rows: too few rows to tell them apart.{_advice(classes)}"
            )
        self._refuse_amounts(y, values.name, path)
        return y

    def _refuse_inexact(self, values: pd.Series, path: FilePath) -> None:
        """Refuse whole numbers so large that neighbours are the same number."""
        if pd.api.types.is_float_dtype(values.dtype) and values.abs().max() > EXACT:
            raise TableError(
                f"{path}: column {values.name!r} has labels of up to {values.abs().max():g}, where "
                "double precision cannot tell all whole numbers apart; --text "
                f"{values.name!r} takes them as they are written."
            )

    def _refuse_amounts(self, y: np.ndarray, name: object, path: FilePath) -> None:
        """Refuse numbers that are no names of classes, with advice."""
        classes = np.unique(y)
        many = len(classes) > min(_MOST_CLASSES, max(2, len(y) / 2))
        if y.dtype.kind != "f" and not many:
            return
        what = f"has {len(classes)} different values in {len(y)} rows"
        what += ", with fractions" if y.dtype.kind == "f" else ""
        advice = f" To take {quoted(classes.tolist(), 3)} as names of classes, use --text {name!r}."
        if many:
            advice = " To classify, put the values into groups first."
        raise TableError(
            f"{path}: column {name!r} {what}, which are not classes.{_advice(classes)}{advice}"
        )

    def conversion(self, values: pd.Series) -> str:
        if not is_number(values):
            return ".to_numpy(dtype=str)"
        y = _labels(values)
        if y.dtype == np.int64 and pd.api.types.is_float_dtype(values.dtype):
            return '.to_numpy(dtype="int64")'
        return ".to_numpy()"

    def remarks(self, y: np.ndarray, name: str) -> list[str]:
        classes, counts = np.unique(y, return_counts=True)
        rarest = counts.argmin()
        share = counts[rarest] / len(y)
        if share >= min(_IMBALANCED, 0.5 / len(classes)):
            return []
        return [
            f"the classes are unequal: {classes[rarest]} has {counts[rarest]} of {len(y)} rows "
            f"({share:.1%}). Always answering {classes[counts.argmax()]} would be wrong for only "
            f"{1 - counts.max() / len(y):.1%} of the rows, so that a low error says little: look "
            "at the confusion matrix, and consider --balanced."
        ]

    def method(self, name: str | None) -> Method:
        if name == RIDGE.name:
            raise RecipeError(
                f"method {name} predicts numbers, and the target holds classes. Leave --method "
                "out, or use --task regression."
            )
        return method_named(self.default if name is None else name)

    def asked(
        self,
        method: str,
        seed: int,
        *,
        kernel: str | None = None,
        penalty: str | None = None,
        balanced: bool = False,
        centres: int | None = None,
        max_memory: str | None = None,
    ) -> TableClassifier:
        return TableClassifier(
            method,
            kernel=kernel,
            class_weight="balanced" if balanced else None,
            centres=centres,
            keep=True,  # reading has left out what says nothing
            parameters=None if penalty is None else {"penalty": penalty},
            max_memory=max_memory,
            random_state=seed,
        )

    def folds(self, y: np.ndarray, count: int, seed: int) -> BaseCrossValidator:
        if np.unique(y, return_counts=True)[1].min() >= count:
            return StratifiedKFold(count, shuffle=True, random_state=seed)
        return KFold(count, shuffle=True, random_state=seed)

    def check_fold(self, y: np.ndarray, rows: np.ndarray, source: str) -> None:
        if len(np.unique(y[rows])) < 2:
            classes, counts = np.unique(y, return_counts=True)
            raise TableError(
                f"{source}: with {counted(int(counts.min()), 'row')} of "
                f"{str(classes[counts.argmin()])!r} some folds would have one class only. Use "
                "--held-out none, or more rows."
            )

    def part(self, y: np.ndarray, size: int, seed: int) -> np.ndarray:
        return part_of(y, size, seed)

    def given(self, values: pd.Series, known: np.ndarray, path: FilePath) -> np.ndarray:
        labels = set(known.tolist())
        for position, label in enumerate(values.tolist()):
            if label not in labels:
                raise TableError(
                    f"{path}, {place(values, position)}, column {values.name!r}: {label!r} is none "
                    f"of the labels seen in training, {quoted(sorted(labels))}."
                )
        return values.to_numpy(dtype=known.dtype)

    def answers(self, model: Any, features: np.ndarray, known: np.ndarray) -> Answers:
        p = np.zeros((len(features), len(known)))
        p[:, np.searchsorted(known, model.classes_)] = model.estimator_.predict_proba(features)
        predicted = model.estimator_.predict(features)
        return Answers(predicted.astype(known.dtype), p)

    def summary(
        self,
        model: Any,
        y: np.ndarray,
        held_out: HeldOut | None,
        weights: np.ndarray | None = None,
    ) -> dict[str, Json]:
        classes, index, counts = np.unique(y, return_inverse=True, return_counts=True)
        mass = np.bincount(index, weights)
        return {
            "classes": {str(name): int(count) for name, count in zip(classes, counts, strict=True)},
            "error_after_selection": _after_selection(model.estimator_, y, weights),
            "held_out": None if held_out is None else _held_out(held_out, classes),
            "error_of_the_largest_class": 1 - float(mass.max() / mass.sum()),
        }

    def rows(self, summary: Mapping[str, Any]) -> tuple[str, list[Row]]:
        counts = [f"{name} ({count})" for name, count in summary["classes"].items()]
        more = len(counts) - _LISTED
        classes = ", ".join(counts[:_LISTED]) + (f" and {more} more" if more > 0 else "")
        left_out, held_out = summary["error_after_selection"], summary["held_out"]
        rows = [(f"{left_out['how']} error", f"{_rate(left_out)}, after selection")]
        if held_out is not None:
            rows.append(("held-out error", f"{_rate(held_out)}; {held_out['how']}"))
            rows.append(("held-out log-loss", f"{held_out['log_loss']:.4f}"))
        rows.append(("largest class alone", f"{summary['error_of_the_largest_class']:.2%} error"))
        return classes, rows

    def doubts(self, model: TableModel, y: np.ndarray, index: pd.Index) -> pd.DataFrame:
        influence = len(y) <= _INFLUENCE_ROWS
        return doubts(model.estimator_, y, index=index, leverage=True, influence=influence)

    def classes(self, model: Any) -> list[Json]:
        labels = model.classes_
        return [one.item() if isinstance(one, np.generic) else one for one in labels]

    def texts(self, model: Any) -> bool:
        return model.classes_.dtype.kind == "U"

    def read(self, model: Any, values: pd.Series) -> np.ndarray:
        classes = model.classes_
        if classes.dtype.kind == "U":
            return values.to_numpy(dtype=str)
        numbers = pd.to_numeric(values, errors="coerce")
        floats = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers.to_numpy(dtype=classes.dtype) if np.isin(floats, classes).all() else floats

    def strange(self, model: Any, given: np.ndarray) -> np.ndarray:
        return ~np.isin(given, model.classes_)

    def judged(
        self, rows: np.ndarray, given: np.ndarray, strange: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return rows, given

    def strange_words(self, count: int, example: str) -> str:
        if count == 1:
            return (
                f"1 row has a label that is no class of the model ({example!r}); it counts as an "
                "error"
            )
        return (
            f"{count} rows have labels that are no class of the model (such as {example!r}); they "
            "count as errors"
        )

    def columns(
        self, model: Any, features: np.ndarray, confidence: float | None
    ) -> dict[str, np.ndarray]:
        classifier, classes = model.estimator_, [str(label) for label in model.classes_]
        found = {"predicted": classifier.predict(features)}
        p = classifier.predict_proba(features)
        found |= {f"p_{label}": p[:, k] for k, label in enumerate(classes)}
        if confidence is not None:
            members = classifier.predict_set(features, confidence)
            sets = [joined(np.asarray(classes)[row]) for row in members]
            found["set"] = np.array(sets, dtype=object)
        return found

    def has_sets(self, model: TableModel) -> bool:
        return has_sets(model)

    def about_sets(self, model: TableModel) -> str:
        return about_sets(model)

    def tally(self) -> Mistakes:
        return Mistakes()


def _advice(classes: np.ndarray) -> str:
    """What else may be done with a target whose values are numbers."""
    numbers = pd.to_numeric(pd.Series(classes), errors="coerce").notna().all()
    return " To predict a number, use --task regression." if numbers else ""


def has_sets(model: TableModel) -> bool:
    """Whether a classifier gives label sets."""
    return hasattr(model, "predict_set") and not inside(model.estimator_).in_blocks


def about_sets(model: TableModel) -> str:
    """Where the label sets of a classifier come from, or why there are none."""
    if not hasattr(model, "predict_set"):
        able = " and ".join(names_where(lambda method: method.sets))
        return f"{type(model.estimator_).__name__} has no label sets; methods {able} have"
    if inside(model.estimator_).in_blocks:
        return (
            "label sets need the training rows, which a model fitted in blocks (--out-of-core, "
            "--max-memory) does not keep"
        )
    return "label sets for new rows are given by fisherkit predict --confidence"


def _labels(values: pd.Series) -> np.ndarray:
    """Labels as a plain array; whole numbers as such."""
    if not is_number(values):
        return values.to_numpy(dtype=str)
    if pd.api.types.is_float_dtype(values.dtype) and not has_fractions(values.to_numpy()):
        return values.to_numpy(dtype=np.int64)
    return values.to_numpy()


def _after_selection(model: Any, y: np.ndarray, weights: np.ndarray | None) -> dict[str, Json]:
    """The error on left-out rows, which also chose the settings: too low, if anything."""
    if hasattr(model, "cv_error_"):
        return {"how": "cross-validation", "error": model.cv_error_, "rows": len(y)}
    scores = model.loo_proba_ if hasattr(model, "loo_proba_") else model.loo_decision_
    known = np.isfinite(scores.reshape(len(scores), -1)).all(axis=1)  # rows that were left out
    scores = scores[known]
    winners = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    kept = None if weights is None else weights[known]
    return _error("leave-one-out", model.classes_[winners] != y[known], kept)


def _held_out(rows: HeldOut, classes: np.ndarray) -> dict[str, Json]:
    assert rows.probabilities is not None
    p = np.clip(rows.probabilities, np.finfo(float).eps, 1.0)
    p = p / p.sum(axis=1, keepdims=True)
    error = _error(rows.how, rows.predicted != rows.y, rows.weights)
    loss = log_loss(rows.y, p, labels=classes, sample_weight=rows.weights)
    return {**error, "log_loss": float(loss)}


def _error(how: str, wrong: np.ndarray, weights: np.ndarray | None) -> dict[str, Json]:
    """The share of wrong answers, with the interval of Wilson for as many rows as the weights mean.

    With weights w the number of rows is (sum w)^2 / sum w^2.
    """
    w = np.ones(len(wrong)) if weights is None else weights
    rate, n, z = float(np.average(wrong, weights=w)), w.sum() ** 2 / (w @ w), Z
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z * np.sqrt(rate * (1 - rate) / n + (z / (2 * n)) ** 2) / (1 + z**2 / n)
    interval = [max(0.0, float(centre - reach)), min(1.0, float(centre + reach))]
    return {"how": how, "error": rate, "rows": len(wrong), "interval": interval}


def _rate(error: Mapping[str, Any]) -> str:
    interval = error.get("interval")
    between = "" if interval is None else f" ({interval[0]:.2%} to {interval[1]:.2%})"
    return f"{error['error']:.2%} of {counted(error['rows'], 'row')}{between}"


CLASSES = Classification()
