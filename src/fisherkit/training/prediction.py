"""Answers of a model file for the rows of a table: what ``fisherkit predict`` does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from fisherkit.columns import match
from fisherkit.core import Meter
from fisherkit.methods import RecipeError
from fisherkit.models import ModelFile
from fisherkit.tables import TableFile
from fisherkit.terminal import counted
from fisherkit.training.fingerprints import TrainingRows
from fisherkit.training.fitting import goal_of
from fisherkit.training.goals import Tally
from fisherkit.training.saved import columns, targets

BY_DEFAULT = 0.9  # confidence of the sets and intervals of small models

_SMALL = 2000  # training rows
_BY_CHANCE = (
    "; rows of the training repeat one another, so that some of these may be equal by chance"
)


@dataclass
class Predictions:
    """Answers of a model for the rows of a table, part by part; a large file is never held whole.

    Iterate over it once; then ``remarks`` has the error, if targets were there, by itself for rows
    that equal rows of the training (``errors_seen``) and for others (``errors_new``), and which
    texts training has not seen.

    Parameters
    ----------
    file : ModelFile
    rows : TableFile
        A table with the columns of the training, in any order; others are ignored.
    confidence : float in (0, 1) or None
        The probability with which label sets or intervals are to hold the truth. ``None`` adds
        those of 0.9 if they cost little.
    """

    file: ModelFile
    rows: TableFile
    confidence: float | None = None
    rows_read: int = 0
    rows_seen: int = 0
    errors: Tally = field(init=False)
    errors_seen: Tally = field(init=False)
    errors_new: Tally = field(init=False)
    unseen: dict[str, tuple[int, str]] = field(default_factory=dict)
    strange: tuple[int, str] = (0, "")

    def __post_init__(self) -> None:
        model = self.file.model
        self.goal = goal_of(model)
        self.errors, self.errors_seen, self.errors_new = (self.goal.tally() for _ in range(3))
        self._seen = TrainingRows.read(self.file.extra.get("training_rows"))
        if self.confidence is not None:
            if not 0 < self.confidence < 1:
                raise RecipeError(
                    f"--confidence {self.confidence:g} is no probability between 0 and 1."
                )
            if not self.goal.has_sets(model):
                raise RecipeError(f"--confidence: {self.goal.about_sets(model)}.")
        elif self.file.metadata["summary"]["rows"] <= _SMALL and self.goal.has_sets(model):
            self.confidence = BY_DEFAULT

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Tables indexed by the lines of the file.

        Their columns are "predicted", "p_<label>" for each label and "set" (of labels, possibly
        none; see `fisherkit.tables.sheets.joined`), or "prediction", "lower" and "upper".
        """
        model, known, target = self.file.model, columns(self.file), self.file.metadata["target"]
        meter = Meter("predicting", self.rows.n_rows)
        for part in self.rows.parts(self.rows.part_rows):
            X = match(part, known, self.rows.path)
            answers = self.goal.columns(model, model.transformed(X), self.confidence)
            self._see_texts(X)
            told, seen = self._told(X)
            self.rows_read += int(told.sum())
            self.rows_seen += int(seen.sum())
            if target in part.columns:
                truth = part[target].notna().to_numpy()
                given = targets(self.file, part[truth])
                strange = self._see_targets(given)
                truth, given = self.goal.judged(truth, given, strange)
                counts = (self.errors, truth), (self.errors_seen, truth & seen)
                for tally, rows in (*counts, (self.errors_new, truth & told & ~seen)):
                    columns_of = {name: values[rows] for name, values in answers.items()}
                    tally.add(given[rows[truth]], columns_of)
            meter.advance(len(part))
            yield pd.DataFrame(answers, index=part.index)

    @property
    def remarks(self) -> list[str]:
        notes = []
        for name, (count, example) in self.unseen.items():
            subject = "1 row has a value" if count == 1 else f"{count} rows have values"
            notes.append(f"{subject} of {name!r} that training has not seen, such as {example!r}")
        if self.strange[0]:
            notes.append(self.goal.strange_words(*self.strange))
        if self.errors.rows:
            what = self.goal.answer
            notes.append(f"error on {self.rows.path}: {self.errors} with a {what}{self._split()}")
            notes += (self.errors_new if self.errors_seen.rows else self.errors).more
        elif 2 * self.rows_seen > self.rows_read:
            subject = f"{self.rows_seen} of {counted(self.rows_read, 'row')}"
            notes.append(
                f"{subject} equal rows of the training, and a model is more certain of rows that "
                "it was fitted to"
            )
        return notes

    def _see_targets(self, given: np.ndarray) -> np.ndarray:
        """Count the targets that the model cannot answer; says which they are."""
        strange = self.goal.strange(self.file.model, given)
        if strange.any():
            example = self.strange[1] or str(given[strange][0])
            self.strange = self.strange[0] + int(strange.sum()), example
        return strange

    def _split(self) -> str:
        """What the error means, where rows equal rows of the training."""
        seen, new = self.errors_seen, self.errors_new
        if not seen.rows:
            return ""
        caution = _BY_CHANCE if self._seen is not None and self._seen.repeats else ""
        told = seen.rows + new.rows
        sample = f", by a sample of {told} rows" if told < self.errors.rows else ""
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

    def _see_texts(self, X: pd.DataFrame) -> None:
        """Count the levels that the training has not seen."""
        for levels in self.file.model.features_.texts:
            name, known = levels.name, X[levels.name].dropna()
            unseen = known[~known.isin([*levels.known, *levels.rare])]
            if len(unseen):
                count, example = self.unseen.get(name, (0, unseen.iloc[0]))
                self.unseen[name] = count + len(unseen), example
