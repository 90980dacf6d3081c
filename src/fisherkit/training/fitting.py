"""Rows to a fitted pipeline and held-out rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TypedDict, Unpack

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, KFold, StratifiedKFold

from fisherkit.columns import (
    Column,
    TableError,
    in_memory,
    match,
    place,
    quoted,
    row_parts,
)
from fisherkit.core import Array
from fisherkit.inspection import doubts
from fisherkit.interfaces import FilePath
from fisherkit.methods import RecipeError, TableClassifier, part_of
from fisherkit.tables import TableFile, open_table
from fisherkit.terminal import counted
from fisherkit.training import code
from fisherkit.training.baselines import SECONDS, SHARE, Baseline, Split, baselines
from fisherkit.training.intake import Data, Words, example, read_data
from fisherkit.training.out_of_core import BUDGET, Prepared, map_data, workspace

HELD_OUT = ("auto", "folds", "split", "none")

_FOLDS = 5
_FOLD_ROWS = 2000  # rows up to which "auto" fits a model for each fold
_SET_ASIDE = 0.2
_INFLUENCE_ROWS = 50_000  # up to which every row's influence on all others is found

STAGES = "fisherkit.training"  # the logger of the stages of a training

log = logging.getLogger(STAGES)


class Options(TypedDict, total=False):
    """What may be asked of a method; ``None`` leaves a choice to the size of the table."""

    kernel: str | None
    penalty: str | None
    balanced: bool
    centres: int | None
    max_memory: str | None


@dataclass(frozen=True)
class HeldOut:
    """Rows that took no part in any choice.

    ``how`` says which rows, for example "20 % of the rows, set aside"; ``y`` (n,) are their
    labels, ``predicted`` (n,) those of the model that has not seen them, ``probabilities``
    (n, n_classes) its probabilities.
    """

    how: str
    y: np.ndarray
    predicted: np.ndarray
    probabilities: np.ndarray


@dataclass(frozen=True)
class Training:
    """What one ``fisherkit fit`` did: all that the report and the printed summary need.

    ``model`` is fitted on all training rows ``X`` and their labels ``y``; rows without a label are
    in neither. ``source`` is the name of the file, ``method`` one of fisher, committee, sparse,
    forward and bayes, ``code`` Python that reproduces the model, ``notes`` are sentences that a
    user should read, and ``seconds`` is the time of all of it: reading (by `opened`), held-out fits
    and the last fit, without that of ``baselines``, the answers of other methods to the held-out
    rows, if they were asked for. ``features`` (n, d) is what the classifier has seen of X, in a
    mapped file, if it was fitted out of core.
    """

    model: TableClassifier
    X: pd.DataFrame
    y: np.ndarray
    target: str
    source: str
    method: str
    held_out: HeldOut | None
    code: str
    notes: tuple[str, ...]
    seconds: float
    asked_text: tuple[str, ...] = ()
    features: Array = None
    baselines: tuple[Baseline, ...] = ()


@contextmanager
def opened(
    path: FilePath | None,
    target: str | None,
    *,
    out_of_core: bool = False,
    **words: Unpack[Words],
) -> Iterator[Data]:
    """Rows to train on; without a path those of the example.

    ``out_of_core`` leaves them in files of a temporary folder, which is gone at the end.
    """
    start = perf_counter()
    if path is None:
        yield example()
    elif out_of_core:
        with workspace() as folder:
            data = map_data(folder, path, target, **words)
            yield replace(data, seconds=perf_counter() - start)
    else:
        yield replace(read_data(path, target, **words), seconds=perf_counter() - start)


def train(
    data: Data,
    method: str = "fisher",
    *,
    test: FilePath | None = None,
    held_out: str = "auto",
    seed: int = 0,
    encoding: str = "utf-8",
    baseline: bool = False,
    **options: Unpack[Options],
) -> Training:
    """Fit a classifier to all rows, and estimate its error on rows that it has not seen.

    Parameters
    ----------
    data : Data
        Of `read_data` or `example`.
    method : {"fisher", "committee", "sparse", "forward", "bayes"}
    test : str or path, default=None
        A file of other rows with labels.
    held_out : {"auto", "folds", "split", "none"}
        What to do without one: "auto" is "folds" (5 of them) up to 2,000 rows, "split" beyond.
    seed : int
        Of folds, parts and centres.
    encoding : str
        Of the test file.
    baseline : bool, default=False
        Whether to have other methods answer for the same held-out rows, for the report.
    **options
        ``kernel`` and ``penalty``, names as the estimator takes them; ``balanced`` (bool), classes
        as if equally frequent; ``centres`` (int), their number, or that of candidates or inducing
        points; ``max_memory``. What is not given follows from the method and the number of rows.

    Returns
    -------
    Training
        ``model``, a `TableClassifier` fitted to all rows; ``held_out`` with ``y`` and
        ``predicted`` (n,) and ``probabilities`` (n, n_classes) of rows by models that have not seen
        them, or ``None``; ``code``, a program that fits the same model; ``notes``, sentences to
        read; ``seconds``.

    Notes
    -----
    *Cost.* That of the estimator; beyond 1,000 rows on some hundred centres, O(n m^2). "folds" fit
    five more models and "split" one.

    Examples
    --------
    >>> from fisherkit.training import example, train
    >>> done = train(example(), "forward", centres=30, held_out="split")
    >>> bool((done.held_out.y != done.held_out.predicted).mean() < 0.1)
    True
    """
    start = perf_counter()
    if held_out not in HELD_OUT:
        raise RecipeError(f"held_out={held_out!r} is none of {', '.join(HELD_OUT)}.")
    if data.workspace is not None:
        options["max_memory"] = options.get("max_memory") or BUDGET
    asked = asked_for(method, seed, **options)
    others, checked, splits = None, None, list[Split]()
    if test is not None:
        others = _TestFile.checked(data, test, encoding)
        splits = [Split.elsewhere(data.X, data.y, others.tables)]
    elif held_out != "none":
        folds = held_out == "folds" or (held_out == "auto" and len(data.y) <= _FOLD_ROWS)
        log.info("estimating the error on rows that the model has not seen")
        checked, splits = (_cross_validate if folds else _set_aside)(data, asked, seed)
    log.info("fitting the model to all %d rows", len(data.y))
    model, features = _fit(asked, data)
    if others is not None:
        log.info("predicting the rows of %s", test)
        checked = others.predicted_by(model)
    seconds = round(data.seconds + perf_counter() - start, 3)
    compared: tuple[Baseline, ...] = ()
    if baseline and checked is not None:
        log.info("comparing with other methods on the same rows")
        budget = max(SECONDS, SHARE * seconds)
        compared = baselines(splits, len(checked.y), np.unique(data.y), budget)
    return Training(
        model=model,
        X=data.X,
        y=data.y,
        target=data.target,
        source=data.source,
        method=method,
        held_out=checked,
        code=_code(data, model),
        notes=data.notes,
        seconds=seconds,
        asked_text=data.asked_text,
        features=features,
        baselines=compared,
    )


def asked_for(
    method: str,
    seed: int,
    *,
    kernel: str | None = None,
    penalty: str | None = None,
    balanced: bool = False,
    centres: int | None = None,
    max_memory: str | None = None,
) -> TableClassifier:
    """The classifier that the words of the command ask for."""
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


def _code(data: Data, model: TableClassifier) -> str:
    if data.workspace is not None:
        assert data.asked is not None
        return code.out_of_core_program(data.asked, data.left_out, model.explicit_)
    return code.program(data.reading, model.explicit_)


def doubtful(data: Data, *, seed: int = 0) -> pd.DataFrame:
    """Every row with what the model fitted without it says of its label; see `fisherkit.audit`.

    Parameters
    ----------
    data : Data
        Of `read_data` or `example`.
    seed : int, default=0
        Of centres.

    Returns
    -------
    DataFrame
        As of `fisherkit.audit`; influence, which compares all pairs of rows (n^2 r flops), is there
        up to 50,000 rows.

    Examples
    --------
    >>> from fisherkit.training import doubtful, example
    >>> doubtful(example()).shape[0]
    569
    """
    log.info("fitting, and leaving out each of %d rows", len(data.y))
    model = asked_for("fisher", seed).fit(data.X, data.y)
    influence = len(data.y) <= _INFLUENCE_ROWS
    if influence:
        log.info("finding the influence of every row on all others")
    return doubts(model.estimator_, data.y, index=data.X.index, leverage=True, influence=influence)


def _fit(
    asked: TableClassifier, data: Data, rows: np.ndarray | None = None
) -> tuple[TableClassifier, Array]:
    """A copy fitted to some rows (``None``: all), and the features that it has seen if mapped."""
    y = data.y if rows is None else data.y[rows]
    if data.workspace is None:
        return clone(asked).fit(data.X if rows is None else data.X.iloc[rows], y), None
    prepared = Prepared.of(asked, data, rows)
    return prepared.fit(clone(asked), y), prepared.features


def _predicted(
    model: TableClassifier, data: Data, rows: np.ndarray, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities of some rows, whose classes the model may not all know."""
    predicted = np.empty_like(data.y[rows])
    p = np.zeros((len(rows), len(classes)))
    seen = np.searchsorted(classes, model.classes_)
    for part in row_parts(rows, model.estimator_.n_features_in_):
        features = model.features_.transform(in_memory(data.X.iloc[rows[part]]))
        predicted[part] = model.estimator_.predict(features)
        p[part, seen] = model.estimator_.predict_proba(features)
    return predicted, p


def _cross_validate(
    data: Data, asked: TableClassifier, seed: int
) -> tuple[HeldOut, list[Split]]:
    classes, counts = np.unique(data.y, return_counts=True)
    n_folds = min(_FOLDS, len(data.y))
    folds: BaseCrossValidator = KFold(n_folds, shuffle=True, random_state=seed)
    if counts.min() >= n_folds:
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    predicted = np.empty_like(data.y)
    p = np.zeros((len(data.y), len(classes)))
    splits = []
    for number, (rows, others) in enumerate(folds.split(data.X, data.y), 1):
        if len(np.unique(data.y[rows])) < 2:
            raise TableError(
                f"{data.source}: with {counted(int(counts.min()), 'row')} of "
                f"{str(classes[counts.argmin()])!r} there are folds of one class alone. Use "
                "--held-out none, or more rows."
            )
        log.info("fold %d of %d", number, n_folds)
        model, _ = _fit(asked, data, rows)
        predicted[others], p[others] = _predicted(model, data, others, classes)
        splits.append(Split.of(data.X, data.y, rows, others))
    how = f"{n_folds}-fold nested cross-validation"
    return HeldOut(how=how, y=data.y, predicted=predicted, probabilities=p), splits


def _set_aside(data: Data, asked: TableClassifier, seed: int) -> tuple[HeldOut, list[Split]]:
    others = part_of(data.y, round(_SET_ASIDE * len(data.y)), seed)
    rows = np.setdiff1d(np.arange(len(data.y)), others)
    model, _ = _fit(asked, data, rows)
    predicted, p = _predicted(model, data, others, np.unique(data.y))
    how = f"{_SET_ASIDE:.0%} of the rows, set aside".replace("%", " %")
    found = HeldOut(how=how, y=data.y[others], predicted=predicted, probabilities=p)
    return found, [Split.aside(data.X, data.y, rows, others)]


@dataclass(frozen=True)
class _TestFile:
    """Another file with labels, of which every row has been looked at once."""

    data: Data
    file: TableFile
    columns: list[Column]
    rows: int

    @classmethod
    def checked(cls, data: Data, path: FilePath, encoding: str) -> _TestFile:
        """Refuse a file that cannot be the test, before anything is fitted."""
        levels = data.texts if data.y.dtype.kind != "U" else [*data.texts, data.target]
        file = open_table(path, text=data.asked_text, levels=levels, encoding=encoding)
        if data.target not in file.names:
            raise TableError(f"{path} has no column {data.target!r}, the target.")
        unread = cls(data=data, file=file, columns=Column.all_of(data.X), rows=0)
        rows = sum(len(y) for _, y in unread.parts())
        if rows == 0:
            raise TableError(f"{path}: no row has a value in column {data.target!r}.")
        return replace(unread, rows=rows)

    def parts(self) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
        """Features and labels of the rows that have one."""
        target, known = self.data.target, set(np.unique(self.data.y).tolist())
        for table in self.file.parts(self.file.part_rows):
            table = table[table[target].notna()]
            labels = table[target]
            for position, label in enumerate(labels.tolist()):
                if label not in known:
                    raise TableError(
                        f"{self.file.path}, {place(table, position)}, column {target!r}: {label!r} "
                        f"is none of the labels seen in training, {quoted(sorted(known))}."
                    )
            y = labels.to_numpy(dtype=self.data.y.dtype)
            yield match(table, self.columns, self.file.path), y

    def tables(self) -> Iterator[pd.DataFrame]:
        """Features of the rows that have a label."""
        return (X for X, labels in self.parts() if len(labels))

    def predicted_by(self, model: TableClassifier) -> HeldOut:
        y, predicted, p = [], [], []
        for X, labels in self.parts():
            if len(labels):
                features = model.features_.transform(X)
                y.append(labels)
                predicted.append(model.estimator_.predict(features))
                p.append(model.estimator_.predict_proba(features))
        how = f"{counted(self.rows, 'row')} of {self.file.path}"
        return HeldOut(
            how=how,
            y=np.concatenate(y),
            predicted=np.concatenate(predicted),
            probabilities=np.concatenate(p),
        )
