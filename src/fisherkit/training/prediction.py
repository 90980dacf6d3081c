"""Answers of a model file for the rows of a table: what ``fisherkit predict`` does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from fisherkit.columns import match
from fisherkit.core import Meter
from fisherkit.methods import RecipeError, TableClassifier, names_where
from fisherkit.models import ModelFile
from fisherkit.tables import TableFile, joined
from fisherkit.terminal import counted
from fisherkit.training.fingerprints import TrainingRows
from fisherkit.training.saved import columns, in_blocks, labels

UNASKED = 0.9  # confidence of the sets of small models

_SMALL = 2000  # training rows
_BY_CHANCE = "; rows of the training repeat one another, so some of these may be equal by chance"


@dataclass
class Errors:
    """Labelled rows of one kind, and how many of them were answered wrongly."""

    rows: int = 0
    wrong: int = 0

    def add(self, wrong: np.ndarray) -> None:
        self.rows += len(wrong)
        self.wrong += int(np.sum(wrong))

    def __str__(self) -> str:
        return f"{self.wrong / self.rows:.2%} of {counted(self.rows, 'row')}"


@dataclass
class Predictions:
    """Answers of a model for the rows of a table, part by part; a large file is never held whole.

    Iterate over it once; then ``remarks`` has the error, if labels were there, by itself for rows
    that equal rows of the training (``errors_seen``) and for others (``errors_new``), and which
    texts training has not seen.

    Parameters
    ----------
    file : ModelFile
    rows : TableFile
        A table with the columns of the training, in any order; others are ignored.
    confidence : float in (0, 1) or None
        Of the sets. ``None`` adds sets of 0.9 if they cost little.
    """

    file: ModelFile
    rows: TableFile
    confidence: float | None = None
    rows_read: int = 0
    rows_seen: int = 0
    errors: Errors = field(default_factory=Errors)
    errors_seen: Errors = field(default_factory=Errors)
    errors_new: Errors = field(default_factory=Errors)
    unseen: dict[str, tuple[int, str]] = field(default_factory=dict)
    strange: tuple[int, str] = (0, "")

    def __post_init__(self) -> None:
        model = self.file.model
        self._seen = TrainingRows.read(self.file.extra.get("training_rows"))
        if self.confidence is not None:
            if not 0 < self.confidence < 1:
                raise RecipeError(
                    f"--confidence {self.confidence:g} is no probability between 0 and 1."
                )
            if not has_sets(model):
                raise RecipeError(f"--confidence: {about_sets(model)}.")
        elif self.file.metadata["summary"]["rows"] <= _SMALL and has_sets(model):
            self.confidence = UNASKED

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Tables with the columns "predicted", "p_<label>" for each label and "set" (of labels,
        possibly none; see `fisherkit.tables.sheets.joined`), indexed by the lines of the file."""
        known, target = columns(self.file), self.file.metadata["target"]
        meter = Meter("predicting", self.rows.n_rows)
        for part in self.rows.parts(self.rows.part_rows):
            X = match(part, known, self.rows.path)
            answers = self._answers(X)
            self._see_texts(X)
            told, seen = self._told(X)
            self.rows_read += int(told.sum())
            self.rows_seen += int(seen.sum())
            if target in part.columns:
                truth = part[target].notna().to_numpy()
                given = labels(self.file, part[truth])
                self._see_labels(given)
                wrong = answers["predicted"][truth] != given
                self.errors.add(wrong)
                self.errors_seen.add(wrong[seen[truth]])
                self.errors_new.add(wrong[(told & ~seen)[truth]])
            meter.advance(len(part))
            yield pd.DataFrame(answers, index=part.index)

    @property
    def remarks(self) -> list[str]:
        notes = []
        for name, (count, example) in self.unseen.items():
            subject = "1 row has a value" if count == 1 else f"{count} rows have values"
            notes.append(f"{subject} of {name!r} that training has not seen, such as {example!r}")
        if self.strange[0]:
            count, example = self.strange
            subject = (
                "1 row has a label that is" if count == 1 else f"{count} rows have labels that are"
            )
            such = repr(example) if count == 1 else f"such as {example!r}"
            notes.append(f"{subject} no class of the model ({such}); they count as errors")
        if self.errors.rows:
            notes.append(f"error on {self.rows.path}: {self.errors} with a label{self._split()}")
        elif 2 * self.rows_seen > self.rows_read:
            subject = f"{self.rows_seen} of {counted(self.rows_read, 'row')}"
            notes.append(f"{subject} equal rows of the training; the model is surer of those")
        return notes

    def _see_labels(self, given: np.ndarray) -> None:
        """Count the labels that are no class of the model."""
        strange = given[~np.isin(given, self.file.model.classes_)]
        if len(strange):
            self.strange = self.strange[0] + len(strange), self.strange[1] or str(strange[0])

    def _split(self) -> str:
        """What the error means, where rows equal rows of the training."""
        seen, new = self.errors_seen, self.errors_new
        if not seen.rows:
            return ""
        caution = _BY_CHANCE if self._seen is not None and self._seen.repeats else ""
        told = seen.rows + new.rows
        sample = f", by a sample of {told}" if told < self.errors.rows else ""
        equal = f"{'equals one' if seen.rows == 1 else 'equal rows'} of the training"
        if not new.rows:
            all_of = f"all of them{sample}," if sample else "all of them"
            return (
                f"; {all_of} {equal}, so that this is no measure for new rows: see the held-out "
                f"error{caution}"
            )
        return (
            f"{sample}: {new} that {'is' if new.rows == 1 else 'are'} new, and {seen} that {equal} "
            f"and are no measure for new ones (see the held-out error){caution}"
        )

    def _told(self, X: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """For each row whether it can be told, and whether it equals a row of the training."""
        if self._seen is None:
            return np.zeros(len(X), dtype=bool), np.zeros(len(X), dtype=bool)
        return self._seen.told(X)

    def _answers(self, X: pd.DataFrame) -> dict[str, np.ndarray | list[str]]:
        model = self.file.model
        classes = [str(label) for label in model.classes_]
        features, classifier = model.features_.transform(X), model.estimator_
        answers: dict[str, np.ndarray | list[str]] = {"predicted": classifier.predict(features)}
        p = classifier.predict_proba(features)
        answers |= {f"p_{label}": p[:, k] for k, label in enumerate(classes)}
        if self.confidence is not None:
            members = classifier.predict_set(features, self.confidence)
            answers["set"] = [joined(np.asarray(classes)[row]) for row in members]
        return answers

    def _see_texts(self, X: pd.DataFrame) -> None:
        """Count the levels that the training has not seen."""
        for levels in self.file.model.features_.texts:
            name, known = levels.name, X[levels.name].dropna()
            unseen = known[~known.isin([*levels.known, *levels.rare])]
            if len(unseen):
                count, example = self.unseen.get(name, (0, unseen.iloc[0]))
                self.unseen[name] = count + len(unseen), example


def has_sets(model: TableClassifier) -> bool:
    """Whether the classifier gives label sets."""
    return hasattr(model, "predict_set") and not in_blocks(model)


def about_sets(model: TableClassifier) -> str:
    """Where the label sets of a classifier come from, or why there are none."""
    if not hasattr(model, "predict_set"):
        able = " and ".join(names_where(lambda method: method.sets))
        return f"{type(model.estimator_).__name__} has no label sets; methods {able} have"
    if in_blocks(model):
        return (
            "label sets need the training rows, which a model fitted in blocks (--out-of-core, "
            "--max-memory) does not keep"
        )
    return "label sets for new rows are given by fisherkit predict --confidence"
