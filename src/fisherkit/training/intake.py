"""Rows to train on: which columns of a table are features, and what is to be said about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from fisherkit.columns import (
    ColumnOptions,
    TableError,
    identifier,
    is_number,
    number_mask,
    place,
    quoted,
    refuse_unusable,
    unused,
)
from fisherkit.interfaces import FilePath
from fisherkit.methods import RecipeError, are_classes, has_fractions
from fisherkit.tables import TableFile, open_table
from fisherkit.terminal import counted
from fisherkit.training import code
from fisherkit.training.classes import CLASSES
from fisherkit.training.goals import Goal
from fisherkit.training.label_words import LabelWords
from fisherkit.training.numbers import NUMBERS

EXAMPLE = "breast cancer (embedded example)"
EXAMPLE_TARGET = "diagnosis"

_NOTES = 3  # columns left out for one reason that have a note each


@dataclass(frozen=True)
class Data:
    """Rows to train on, and how they were read.

    ``goal`` says whether the target y holds classes or numbers, ``left_out`` are columns that
    are not used, ``asked`` is what the user said, if there is a file, ``seconds`` what reading
    took, where that was measured. X is in memory, or in files of the folder ``workspace``,
    which holds what else a fit needs (see `fisherkit.out_of_core`).
    """

    X: pd.DataFrame
    y: np.ndarray
    target: str
    source: str
    reading: str
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    goal: Goal = CLASSES
    asked: ColumnOptions | None = None
    workspace: Path | None = None
    seconds: float = 0.0
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None

    @property
    def asked_text(self) -> tuple[str, ...]:
        """Columns that were to be text."""
        return () if self.asked is None else self.asked.text

    @property
    def numbers(self) -> list[str]:
        """Columns of numbers."""
        return [str(name) for name in self.X.columns[number_mask(self.X)]]

    @property
    def texts(self) -> list[str]:
        """Columns of text."""
        return [str(name) for name in self.X.columns[~number_mask(self.X)]]


class Words(TypedDict, total=False):
    """What may be said of the columns of a file; see `ColumnOptions`."""

    drop: tuple[str, ...]
    keep: tuple[str, ...]
    text: tuple[str, ...]
    encoding: str
    task: str
    weights: str | None
    groups: str | None


def example() -> Data:
    """The table that scikit-learn carries: 569 tumours, 30 measurements of each.

    Returns
    -------
    Data
        With the attributes that `read_data` describes.

    Examples
    --------
    >>> from fisherkit.training import example
    >>> example().X.shape
    (569, 30)
    """
    bunch = load_breast_cancer(as_frame=True)
    labels = bunch.target_names[bunch.target]
    return Data(
        X=bunch.data,
        y=labels,
        target=EXAMPLE_TARGET,
        source=EXAMPLE,
        reading=code.READ_EXAMPLE,
        left_out=(),
        notes=(),
    )


def read_data(path: FilePath, target: str | None, **words: Unpack[Words]) -> Data:
    """Features and targets of a file, in memory.

    Parameters
    ----------
    path : str or path
    target : str
        Column to predict.
    **words
        ``drop``, columns to leave out; ``keep``, columns to use although they look like row
        numbers; ``text``, columns that are text although they look like numbers (tuples of names);
        ``encoding`` of the file; ``task``, "classification", "regression" or "auto", by which the
        target decides: texts, truth values and whole numbers of at most 20 different values are
        classes; ``weights``, the column that counts the copies of each row, and ``groups``, the
        column whose rows of one value stay together in every fold.

    Returns
    -------
    Data
        The features ``X`` (n, d), a DataFrame, and the targets ``y`` (n,) of the rows that have
        one; ``goal``, which says whether these are classes or numbers;
        ``numbers`` and ``texts``, the names of the columns of each kind; ``notes``, sentences that
        users should read.

    Raises
    ------
    TableError
        With file, line and column.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("size,tall\\n" + "1.9,yes\\n1.6,no\\n" * 2)
    ...     data = read_data(Path(folder, "a.csv"), "tall")
    >>> data.numbers, data.y.tolist()
    (['size'], ['yes', 'no', 'yes', 'no'])
    """
    asked = ColumnOptions(path, target, **words)
    file, labels = open_labelled(asked)
    (table,) = file.parts(None)
    labelled = table[asked.target].notna()
    unlabelled = int((~labelled).sum())
    return data_of(table[labelled] if unlabelled else table, asked, labels, unlabelled)


def open_labelled(asked: ColumnOptions) -> tuple[TableFile, LabelWords]:
    """A file whose labels are read as they are meant, and what is to be said about their words."""
    file = open_table(asked.path, text=asked.text, encoding=asked.encoding)
    target = asked.check(file.names)
    words = LabelWords.of(file, target, asked.task)
    return replace(file, levels=(target,)) if words.text else file, words


def data_of(
    table: pd.DataFrame,
    asked: ColumnOptions,
    words: LabelWords,
    unlabelled: int,
    *,
    skipped: tuple[str, ...] = (),
    workspace: Path | None = None,
) -> Data:
    """Features and targets of a table whose rows all have one; ``unlabelled`` others had none.

    ``skipped`` are identifiers, which the table lacks already.
    """
    path, target = asked.path, str(asked.target)
    values = table[target]
    if len(values) == 0:
        missing = f" ({words.unread})" if words.unread else ""
        raise TableError(f"{path}: no row has a value in column {target!r}{missing}.")
    goal, decision = _decided(asked, values, words)
    y = goal.target(values, path, words)
    notes = []
    if unlabelled:
        left = f"{counted(unlabelled, 'row')} without a value in {target!r} left out"
        unread = words.unread if goal is CLASSES else words.missing
        notes.append(f"{left}: {unread}." if unread else f"{left}.")
    features = table.drop(columns=[target, *(name for name in asked.no_features if name in table)])
    refuse_unusable(features, asked)
    why = unused(features, asked)
    remarks = _remarks(why | {name: identifier() for name in skipped})
    X = features.drop(columns=list(why))
    if X.shape[1] == 0:
        raise TableError(f"{path} has no column to predict {target!r} from.")
    left_out = (*asked.no_features, *why, *skipped)
    conversion = goal.conversion(values)
    reading = code.read_file(asked, left_out, goal.name, conversion, as_written=words.text)
    notes += [*decision, *(words.notes if goal is CLASSES else ()), *remarks]
    notes += goal.remarks(y, target)
    return Data(
        X=X,
        y=y,
        target=target,
        source=str(path),
        reading=reading,
        left_out=left_out,
        notes=tuple(notes),
        goal=goal,
        asked=asked,
        workspace=workspace,
        weights=_weights(table, asked),
        groups=_groups(table, asked),
    )


def _weights(table: pd.DataFrame, asked: ColumnOptions) -> np.ndarray | None:
    """The weight of each row (n,), a positive number."""
    if asked.weights is None:
        return None
    values = table[asked.weights]
    if not is_number(values):
        raise TableError(
            f"{asked.path}: column {asked.weights!r} (--weights) holds texts such as "
            f"{str(values.iloc[0])!r}; a weight is a number."
        )
    weights = values.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.flatnonzero(~(weights > 0))
    if len(wrong):
        raise TableError(
            f"{asked.path}, {place(table, wrong[0])}, column {asked.weights!r}: the weight "
            f"{weights[wrong[0]]:g} is not a positive number. Remove rows that should not count."
        )
    return weights


def _groups(table: pd.DataFrame, asked: ColumnOptions) -> np.ndarray | None:
    """The group of each row (n,)."""
    if asked.groups is None:
        return None
    values = table[asked.groups]
    missing = np.flatnonzero(values.isna())
    if len(missing):
        raise TableError(
            f"{asked.path}, {place(table, missing[0])}, column {asked.groups!r}: the group is "
            "missing. Give every row a group, a row that belongs to none one of its own."
        )
    if values.nunique() < 2:
        raise TableError(
            f"{asked.path}: column {asked.groups!r} (--groups) has one value only; rows are "
            "compared between at least two groups."
        )
    return values.to_numpy()


def _remarks(why: dict[str, tuple[str, str]]) -> list[str]:
    """Sentences about columns left out; where one reason holds for many, one for all of them."""
    alike: dict[str, list[str]] = {}
    for name, (_, reason) in why.items():
        alike.setdefault(reason, []).append(name)
    sentences = []
    for reason, names in alike.items():
        if len(names) > _NOTES:
            sentences.append(f"{len(names)} columns were left out: {reason}: {quoted(names)}.")
        else:
            sentences += [f"column {name!r} was left out: {why[name][0]}." for name in names]
    return sentences


def _decided(asked: ColumnOptions, values: pd.Series, words: LabelWords) -> tuple[Goal, list[str]]:
    """Whether a target is one of classes or of numbers, and a note if the table has decided it."""
    if asked.task == CLASSES.name:
        return CLASSES, []
    if asked.task == NUMBERS.name:
        if asked.target in asked.text:
            raise RecipeError(
                f"--task {NUMBERS.name} predicts numbers, and --text {asked.target!r} makes texts "
                "of them. Leave one of the two out."
            )
        return NUMBERS, []
    y = values.to_numpy() if is_number(values) else np.empty(0, dtype=str)
    goal = CLASSES if are_classes(y) else NUMBERS
    if y.dtype.kind == "U":
        return goal, []
    kind = "numbers, some of them with fractions" if has_fractions(y) else "whole numbers"
    what = "each is a class" if goal is CLASSES else "they are predicted as numbers (a regression)"
    meant = "To predict a number instead" if goal is CLASSES else "If they are names of classes"
    return goal, [
        f"{asked.target!r} has {len(np.unique(y))} different {kind}, so {what}. {meant}, use "
        f"--task {goal.other}."
    ]
