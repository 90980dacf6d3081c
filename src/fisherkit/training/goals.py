"""What a training is after: classes or numbers, and all that differs between the two.

`fisherkit.training.classes` has one goal and `fisherkit.training.numbers` the other; everything
else of a training asks its goal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import pandas as pd
from sklearn.model_selection import BaseCrossValidator

from fisherkit.interfaces import FilePath, Json
from fisherkit.methods import METHODS, RIDGE, Method, RecipeError, TableModel
from fisherkit.training.label_words import LabelWords

TASKS = ("auto", "classification", "regression")  # what --task may say

Row = tuple[str, str]  # name and words of a line of the printed summary


class Options(TypedDict, total=False):
    """What may be asked of a method; ``None`` leaves a choice to the size of the table."""

    kernel: str | None
    penalty: str | None
    balanced: bool
    centres: int | None
    max_memory: str | None


@dataclass(frozen=True)
class Answers:
    """What a model says of rows: ``predicted`` (n,) and, of classes, ``probabilities`` (n, k)."""

    predicted: np.ndarray
    probabilities: np.ndarray | None = None

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        """The answers for the rows of several parts, one after the other."""
        p = [part.probabilities for part in parts if part.probabilities is not None]
        return cls(
            predicted=np.concatenate([part.predicted for part in parts]),
            probabilities=np.concatenate(p) if p else None,
        )

    def at(self, rows: np.ndarray) -> Answers:
        """The answers for some of the rows."""
        p = self.probabilities
        return Answers(self.predicted[rows], None if p is None else p[rows])


@dataclass(frozen=True)
class HeldOut:
    """Rows that were used neither to fit a model nor to choose its settings.

    ``how`` says which rows, for example "20 % of the rows, set aside"; ``y`` (n,) are their
    targets, ``predicted`` (n,) the answers of the model that has not seen them, and
    ``probabilities`` (n, n_classes) its probabilities, ``None`` where it predicts numbers. Errors
    count a row as often as its weight (n,) says, ``None`` once.
    """

    how: str
    y: np.ndarray
    predicted: np.ndarray
    probabilities: np.ndarray | None = None
    weights: np.ndarray | None = None


class Tally(ABC):
    """Rows whose target is known, and how well they were predicted."""

    rows: int = 0

    @abstractmethod
    def add(self, given: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        """Count rows with these targets and these columns of predictions."""

    @abstractmethod
    def __str__(self) -> str: ...

    @property
    def more(self) -> list[str]:
        """Further sentences on these rows."""
        return []


class Goal(ABC):
    """What differs between predicting classes and predicting numbers.

    ``name`` is what ``--task`` and the summary call it, ``model`` what the summary calls the
    estimator, ``default`` the method unless one is asked for, ``answer`` what a row is predicted to
    have, and ``contributions`` what a column adds to in a page of explanations.
    """

    name: str
    model: str
    default: str
    answer: str
    contributions: str

    @property
    def other(self) -> str:
        """The name of the other goal, for advice."""
        return TASKS[2] if self.name == TASKS[1] else TASKS[1]

    # Before the fit

    @abstractmethod
    def target(self, values: pd.Series, path: FilePath, words: LabelWords) -> np.ndarray:
        """The targets (n,) of a column; refuses what cannot be predicted."""

    @abstractmethod
    def conversion(self, values: pd.Series) -> str:
        """Python that makes an array of the column, such as ``.to_numpy()``."""

    @abstractmethod
    def remarks(self, y: np.ndarray, name: str) -> list[str]:
        """Sentences that users should read about the target of this name."""

    @abstractmethod
    def method(self, name: str | None) -> Method:
        """The method of a name; refuses one that serves another goal."""

    @abstractmethod
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
    ) -> TableModel:
        """The estimator that the words of the command ask for, not fitted."""

    # Rows that are held out

    @abstractmethod
    def folds(self, y: np.ndarray, count: int, seed: int) -> BaseCrossValidator:
        """How rows are divided into folds."""

    @abstractmethod
    def check_fold(self, y: np.ndarray, rows: np.ndarray, source: str) -> None:
        """Refuse rows that no model can be fitted to."""

    @abstractmethod
    def part(self, y: np.ndarray, size: int, seed: int) -> np.ndarray:
        """So many rows drawn at random, in order."""

    @abstractmethod
    def given(self, values: pd.Series, known: np.ndarray, path: FilePath) -> np.ndarray:
        """The targets (n,) of rows of another file; ``known`` are those of the training."""

    @abstractmethod
    def answers(self, model: TableModel, features: np.ndarray, known: np.ndarray) -> Answers:
        """What a model says of rows; ``known`` are the targets of the whole training."""

    # After the fit

    def chosen(self, model: TableModel, method: str) -> dict[str, Json]:
        """Names and values of what the fit has chosen."""
        return self.method(method).chosen(model.estimator_)

    @abstractmethod
    def summary(
        self,
        model: TableModel,
        y: np.ndarray,
        held_out: HeldOut | None,
        weights: np.ndarray | None = None,
    ) -> dict[str, Json]:
        """Entries of the summary of a training: how well it does, beside the simplest answer."""

    @abstractmethod
    def rows(self, summary: Mapping[str, Json]) -> tuple[str, list[Row]]:
        """Words for the entries of `summary`: the target, and the lines on the errors."""

    @abstractmethod
    def doubts(self, model: TableModel, y: np.ndarray, index: pd.Index) -> pd.DataFrame:
        """Training rows, those first whose target the model fitted without them doubts."""

    # Of a model file

    @abstractmethod
    def classes(self, model: TableModel) -> list[Json]:
        """The classes of a model, for the metadata of its file; none if it predicts numbers."""

    @abstractmethod
    def texts(self, model: TableModel) -> bool:
        """Whether the target is read as text."""

    @abstractmethod
    def read(self, model: TableModel, values: pd.Series) -> np.ndarray:
        """Targets of a column in the type that the model answers in; NaN where there is none."""

    @abstractmethod
    def strange(self, model: TableModel, given: np.ndarray) -> np.ndarray:
        """For each target (n,) whether it is none that the model can answer."""

    @abstractmethod
    def judged(
        self, rows: np.ndarray, given: np.ndarray, strange: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which rows (n,) with a target are compared with it, and their targets."""

    @abstractmethod
    def strange_words(self, count: int, example: str) -> str:
        """A sentence on such targets."""

    @abstractmethod
    def columns(
        self, model: TableModel, features: np.ndarray, confidence: float | None
    ) -> dict[str, np.ndarray]:
        """The columns that ``fisherkit predict`` writes; the first is the answer."""

    @abstractmethod
    def has_sets(self, model: TableModel) -> bool:
        """Whether `columns` takes a confidence."""

    @abstractmethod
    def about_sets(self, model: TableModel) -> str:
        """Why it takes none."""

    @abstractmethod
    def tally(self) -> Tally:
        """Counts how well rows are predicted."""


def check_method(name: str | None) -> None:
    """Refuse a method that serves no goal."""
    if name is not None and name not in (*METHODS, RIDGE.name):
        named = ", ".join([*METHODS, RIDGE.name])
        raise RecipeError(f"there is no method {name!r}; there are {named}.")
