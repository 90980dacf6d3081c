"""Rows to train on: which columns of a table are features, and what is to be said about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from fisherkit.columns import (
    EXACT,
    ColumnOptions,
    TableError,
    identifier,
    is_number,
    number_mask,
    quoted,
    refuse_unusable,
    unused,
)
from fisherkit.interfaces import FilePath
from fisherkit.tables import TableFile, open_table
from fisherkit.terminal import counted
from fisherkit.training import code
from fisherkit.training.label_words import LabelWords

EXAMPLE = "breast cancer (embedded example)"
EXAMPLE_TARGET = "diagnosis"

_MOST_CLASSES = 100
_MANY_NUMBERS = 20  # of a target, from which a note asks whether they are classes
_IMBALANCED = 0.1
_NOTES = 3  # columns left out for one reason that have a note each


@dataclass(frozen=True)
class Data:
    """Rows to train on, and how they were read.

    ``left_out`` are columns that are not used, ``asked`` is what the user said, if there is a
    file, ``seconds`` what reading took, where that was measured. X is in memory, or in files of the
    folder ``workspace``, which holds what else a fit needs (see `fisherkit.out_of_core`).
    """

    X: pd.DataFrame
    y: np.ndarray
    target: str
    source: str
    reading: str
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    asked: ColumnOptions | None = None
    workspace: Path | None = None
    seconds: float = 0.0

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


def example() -> Data:
    """The table that scikit-learn carries: 569 tumours, 30 measurements of each.

    Returns
    -------
    Data
        As of `read_data`.

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
    """Features and labels of a file, in memory.

    Parameters
    ----------
    path : str or path
    target : str
        Column of the labels.
    **words
        ``drop``, columns to leave out; ``keep``, columns to use although they look like row
        numbers; ``text``, columns that are text although they look like numbers (tuples of names);
        ``encoding`` of the file.

    Returns
    -------
    Data
        The features ``X`` (n, d), a DataFrame, and the labels ``y`` (n,) of the rows that have one;
        ``numbers`` and ``texts``, the names of the columns of each kind; ``notes``, sentences to
        read.

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
    words = LabelWords.of(file, target)
    return replace(file, levels=(target,)) if words.text else file, words


def data_of(
    table: pd.DataFrame,
    asked: ColumnOptions,
    words: LabelWords,
    unlabelled: int,
    *,
    unread: tuple[str, ...] = (),
    workspace: Path | None = None,
) -> Data:
    """Features and labels of a table whose rows all have a label; ``unlabelled`` others had not.

    ``unread`` are identifiers, which the table lacks already.
    """
    path, target = asked.path, str(asked.target)
    notes = []
    if unlabelled:
        left = f"{counted(unlabelled, 'row')} without a value in {target!r} left out"
        notes.append(f"{left}: {words.unread}." if words.unread else f"{left}.")
    y, conversion = _labels(table[target], path, words)
    features = table.drop(columns=[target, *(name for name in asked.drop if name in table)])
    refuse_unusable(features, asked)
    why = unused(features, asked)
    remarks = _remarks(why | {name: identifier() for name in unread})
    X = features.drop(columns=list(why))
    if X.shape[1] == 0:
        raise TableError(f"{path} has no column to predict {target!r} from.")
    left_out = (*asked.drop, *why, *unread)
    reading = code.read_file(asked, left_out, conversion, as_written=words.text)
    notes += [*words.notes, *remarks, *_many_numbers(y, target), *_imbalance(y)]
    return Data(
        X=X,
        y=y,
        target=target,
        source=str(path),
        reading=reading,
        left_out=left_out,
        notes=tuple(notes),
        asked=asked,
        workspace=workspace,
    )


def _labels(values: pd.Series, path: FilePath, words: LabelWords) -> tuple[np.ndarray, str]:
    """Labels as a plain array, and the Python that makes them of the column."""
    missing = f" ({words.unread})" if words.unread else ""
    if len(values) == 0:
        raise TableError(f"{path}: no row has a value in column {values.name!r}{missing}.")
    if not is_number(values):
        y, conversion = values.to_numpy(dtype=str), ".to_numpy(dtype=str)"
    elif pd.api.types.is_float_dtype(values.dtype) and values.abs().max() > EXACT:
        raise TableError(
            f"{path}: column {values.name!r} has labels of up to {values.abs().max():g}, where "
            f"double precision cannot tell all whole numbers apart; --text {values.name!r} takes "
            "them as they are written."
        )
    elif pd.api.types.is_float_dtype(values.dtype) and (values % 1 == 0).all():
        y, conversion = values.to_numpy(dtype=np.int64), '.to_numpy(dtype="int64")'
    else:
        y, conversion = values.to_numpy(), ".to_numpy()"
    classes = np.unique(y)
    if len(classes) < 2:
        raise TableError(
            f"{path}: column {values.name!r} has one value only, {str(classes[0])!r}; a classifier "
            f"needs two{missing}."
        )
    if len(y) < 2 * len(classes) and y.dtype.kind == "U":
        raise TableError(
            f"{path}: column {values.name!r} has {len(classes)} different values in {len(y)} "
            "rows: too few rows to tell them apart."
        )
    many = len(classes) > min(_MOST_CLASSES, max(2, len(y) / 2))
    if y.dtype.kind == "f" or many:
        what = f"has {len(classes)} different values in {len(y)} rows"
        what += ", with fractions" if y.dtype.kind == "f" else ""
        advice = "To predict a number, use KernelRidgeCV in Python; to classify, "
        if many:
            advice += "put the values into groups first."
        else:
            advice += f"say that {quoted(classes.tolist(), 3)} are names: --text {values.name!r}."
        raise TableError(f"{path}: column {values.name!r} {what}, which are not classes. {advice}")
    return y, conversion


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


def _many_numbers(y: np.ndarray, target: str) -> list[str]:
    count = len(np.unique(y))
    if y.dtype.kind == "U" or count <= _MANY_NUMBERS:
        return []
    return [
        f"{target!r} has {count} different numbers, each taken as a class of its own. To predict a "
        "number, use KernelRidgeCV in Python."
    ]


def _imbalance(y: np.ndarray) -> list[str]:
    classes, counts = np.unique(y, return_counts=True)
    rarest = counts.argmin()
    share = counts[rarest] / len(y)
    if share >= min(_IMBALANCED, 0.5 / len(classes)):
        return []
    return [
        f"the classes are unequal: {classes[rarest]} has {counts[rarest]} of {len(y)} rows "
        f"({share:.1%}). Always answering {classes[counts.argmax()]} errs on "
        f"{1 - counts.max() / len(y):.1%} of the rows only; look at the confusion matrix, and at "
        "--balanced."
    ]
