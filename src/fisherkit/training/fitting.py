"""Rows to a fitted pipeline and held-out rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic, perf_counter
from typing import Unpack

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.model_selection import GroupKFold, GroupShuffleSplit

from fisherkit.columns import (
    Column,
    TableError,
    in_memory,
    match,
    row_parts,
)
from fisherkit.core import Array
from fisherkit.interfaces import FilePath
from fisherkit.methods import RecipeError, TableModel
from fisherkit.tables import TableFile, open_table
from fisherkit.terminal import counted
from fisherkit.training import code
from fisherkit.training.baselines import SECONDS, SHARE, Baseline, Split, baselines
from fisherkit.training.classes import CLASSES
from fisherkit.training.goals import Answers, Goal, HeldOut, Options
from fisherkit.training.intake import Data, Words, example, read_data
from fisherkit.training.numbers import NUMBERS
from fisherkit.training.out_of_core import BUDGET, Prepared, map_data, workspace

HELD_OUT = ("auto", "folds", "split", "none")

_FOLDS = 5
_FOLD_ROWS = 2000  # rows up to which "auto" fits a model for each fold
_SET_ASIDE = 0.2
_OF_THE_REST = 0.9  # of the time that is left, for fits
_LEAST_SECONDS = 1.0  # of a fit
_FEWER = (
    "the report leaves out every row at every regularisation, so that {:,} rows are centres; "
    "without a report, time and memory choose their number"
)

STAGES = "fisherkit.training"  # the logger of the stages of a training

log = logging.getLogger(STAGES)


@dataclass(frozen=True)
class Training:
    """What one ``fisherkit fit`` did: all that the report and the printed summary need.

    ``model`` is fitted on all training rows ``X`` and their targets ``y``; rows without a target
    are in neither. ``source`` is the name of the file, ``method`` one of fisher, committee, sparse,
    forward, bayes and ridge, ``code`` Python that reproduces the model, ``notes`` are sentences
    that users should read, and ``seconds`` is the time of all of it: reading (by `opened`), held-
    out fits and the last fit, without that of ``baselines``, the answers of other methods to the
    held-out rows, if they were asked for. ``features`` (n, d) is what the model has seen of X, in a
    mapped file, if it was fitted out of core.
    """

    model: TableModel
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
    weights: np.ndarray | None = None
    baselines: tuple[Baseline, ...] = ()

    @property
    def goal(self) -> Goal:
        """Whether it predicts classes or numbers."""
        return goal_of(self.model)


def goal_of(model: BaseEstimator) -> Goal:
    """What a fitted model predicts."""
    return NUMBERS if is_regressor(model) else CLASSES


def goal_named(task: str) -> Goal:
    """The goal that a summary names."""
    return NUMBERS if task == NUMBERS.name else CLASSES


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
    method: str | None = None,
    *,
    test: FilePath | None = None,
    held_out: str = "auto",
    seed: int = 0,
    encoding: str = "utf-8",
    baseline: bool = False,
    max_time: float | None = None,
    leaving_out: bool = False,
    **options: Unpack[Options],
) -> Training:
    """Fit a model to all rows, and estimate its error on rows that it has not seen.

    Parameters
    ----------
    data : Data
        What `read_data` or `example` returns.
    method : {"fisher", "committee", "sparse", "forward", "bayes", "ridge"}, default=None
        ``None`` is "fisher" for classes and "ridge" for numbers, which has no other method.
    test : str or path, default=None
        A file of other rows with their targets.
    held_out : {"auto", "folds", "split", "none"}
        What to do without one: "auto" is "folds" (5 of them) up to 2,000 rows, "split" beyond.
    seed : int
        The seed of every random choice: folds, rows set aside, centres.
    encoding : str
        The encoding of the test file.
    baseline : bool, default=False
        Whether to have other methods answer for the same held-out rows, for the report.
    max_time : float, default=None
        Seconds in which reading, held-out fits and the last fit are to end, where the method plans
        by time (`KernelFisherClassifier`); without it, what is fitted follows from the table alone.
    leaving_out : bool, default=False
        Whether every row will be left out at every regularisation, as the report does: of many rows
        some are then centres, whatever the time.
    **options
        ``kernel`` and ``penalty``, names as the estimator takes them; ``balanced`` (bool), classes
        as if equally frequent; ``centres`` (int), their number, or that of candidates or inducing
        points; ``max_memory``. What is not given follows from the method and the number of rows.

    Returns
    -------
    Training
        ``model``, a `TableClassifier` or `TableRegressor` fitted to all rows; ``held_out`` with
        ``y`` and ``predicted`` (n,) and, of classes, ``probabilities`` (n, n_classes) of rows by
        models that have not seen them, or ``None``; ``code``, a program that fits the same model;
        ``notes``, sentences that users should read; ``seconds``.

    Notes
    -----
    *Cost.* The cost of the estimator; on m centres, O(n m^2). "folds" fit
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
        if data.weights is not None or data.groups is not None:
            raise RecipeError(
                "--out-of-core takes neither --weights nor --groups. Leave it out; --max-memory "
                "bounds the memory of the fit to a table that is read whole."
            )
        options["max_memory"] = options.get("max_memory") or BUDGET
    chosen, notes = data.goal.method(method), data.notes
    method = chosen.name
    many = chosen.planned and chosen.search == "mu" and len(data.y) > chosen.exact_rows
    if leaving_out and many and options.get("centres") is None:
        options["centres"] = chosen.centres
        notes = (*notes, _FEWER.format(chosen.centres))
    asked = data.goal.asked(method, seed, **options)
    planned = chosen.planned and options.get("centres") is None
    clock = _Clock.of(max_time if planned else None, data.seconds)
    others, checked, splits = None, None, list[Split]()
    if test is not None:
        others = _TestFile.checked(data, test, encoding)
        splits = [Split.elsewhere(data.X, data.y, others.tables)]
    elif held_out != "none":
        folds = held_out == "folds" or (held_out == "auto" and len(data.y) <= _FOLD_ROWS)
        log.info("estimating the error on rows that the model has not seen")
        checked, splits = (_cross_validate if folds else _set_aside)(data, asked, seed, clock)
    log.info("fitting the model to all %d rows", len(data.y))
    model, features = _fit(clock.given(asked, 1), data)
    if others is not None:
        log.info("predicting the rows of %s", test)
        checked = others.predicted_by(model)
    seconds = round(data.seconds + perf_counter() - start, 3)
    compared: tuple[Baseline, ...] = ()
    if baseline and checked is not None:
        log.info("comparing with other methods on the same rows")
        known = None if data.goal is NUMBERS else np.unique(data.y)
        budget = max(SECONDS, SHARE * seconds)
        compared = baselines(splits, len(checked.y), known, budget)
    return Training(
        model=model,
        X=data.X,
        y=data.y,
        target=data.target,
        source=data.source,
        method=method,
        held_out=checked,
        code=_code(data, model),
        notes=notes,
        seconds=seconds,
        asked_text=data.asked_text,
        features=features,
        weights=data.weights,
        baselines=compared,
    )


def _code(data: Data, model: TableModel) -> str:
    if data.workspace is not None:
        assert data.asked is not None
        return code.out_of_core_program(data.asked, data.left_out, model)
    return code.program(data.reading, model, data.asked)


def doubtful(data: Data, *, seed: int = 0) -> pd.DataFrame:
    """Every row with what the model fitted without it says of its target, most doubtful first.

    Parameters
    ----------
    data : Data
        What `read_data` or `example` returns.
    seed : int, default=0
        The seed with which centres are drawn.

    Returns
    -------
    DataFrame
        The columns of `fisherkit.audit`: of classes "label", "suggested" and "probability", of
        numbers "target", "predicted", "residual" and "ratio", then "leverage" and, up to 50,000
        rows, "influence", which compares all pairs of rows (n^2 r flops).

    Examples
    --------
    >>> from fisherkit.training import doubtful, example
    >>> doubtful(example()).shape[0]
    569
    """
    goal = data.goal
    log.info("fitting, and leaving out each of %d rows", len(data.y))
    method = goal.method(goal.default)  # with centres where every row cannot be left out else
    centres = method.centres if len(data.y) > method.exact_rows else None
    model = goal.asked(goal.default, seed, centres=centres).fit(data.X, data.y)
    log.info("finding the rows whose targets are doubtful")
    return goal.doubts(model, data.y, data.X.index)


def _fit(asked: TableModel, data: Data, rows: np.ndarray | None = None) -> tuple[TableModel, Array]:
    """A copy fitted to some rows (``None``: all), and the features that it has seen if mapped."""
    y = data.y if rows is None else data.y[rows]
    if data.workspace is None:
        every = np.arange(len(data.y)) if rows is None else rows
        weights, groups = (
            None if values is None else values[every] for values in (data.weights, data.groups)
        )
        X = data.X if rows is None else data.X.iloc[rows]
        return clone(asked).fit(X, y, sample_weight=weights, groups=groups), None
    prepared = Prepared.of(asked, data, rows)
    return prepared.fit(clone(asked), y), prepared.features


def _answers(model: TableModel, data: Data, rows: np.ndarray) -> Answers:
    """What a model says of some rows, whose targets it may not all know."""
    known = np.unique(data.y)
    parts = [
        data.goal.answers(model, model.transformed(in_memory(data.X.iloc[rows[part]])), known)
        for part in row_parts(rows, len(model.features_.sources))
    ]
    return Answers.joined(parts)


@dataclass(frozen=True)
class _Clock:
    """When a training is to end, which its fits share; ``None`` for any time."""

    end: float | None

    @classmethod
    def of(cls, seconds: float | None, spent: float) -> _Clock:
        """The clock of a training of so many seconds, some of which are spent."""
        return cls(None if seconds is None else monotonic() + seconds - spent)

    def given(self, asked: TableModel, fits: int) -> TableModel:
        """The model with its share of the time that is left, for one of so many fits."""
        if self.end is None:
            return asked
        share = max(_OF_THE_REST * (self.end - monotonic()) / fits, _LEAST_SECONDS)
        return clone(asked).set_params(max_time=round(share, 1))


def _cross_validate(
    data: Data, asked: TableModel, seed: int, clock: _Clock
) -> tuple[HeldOut, list[Split]]:
    n_folds = min(_FOLDS, len(data.y) if data.groups is None else len(np.unique(data.groups)))
    folds = data.goal.folds(data.y, n_folds, seed)
    if data.groups is not None:
        folds = GroupKFold(n_folds, shuffle=True, random_state=seed)
    parts, places, splits = [], [], []
    for number, (rows, others) in enumerate(folds.split(data.X, data.y, data.groups), 1):
        data.goal.check_fold(data.y, rows, data.source)
        log.info("fold %d of %d", number, n_folds)
        model, _ = _fit(clock.given(asked, n_folds + 2 - number), data, rows)
        parts.append(_answers(model, data, others))
        places.append(others)
        splits.append(Split.of(data.X, data.y, rows, others))
    found = Answers.joined(parts).at(np.argsort(np.concatenate(places)))
    how = f"{n_folds}-fold nested cross-validation{_together(data)}"
    return HeldOut(how, data.y, found.predicted, found.probabilities, data.weights), splits


def _set_aside(
    data: Data, asked: TableModel, seed: int, clock: _Clock
) -> tuple[HeldOut, list[Split]]:
    if data.groups is None:
        others = data.goal.part(data.y, round(_SET_ASIDE * len(data.y)), seed)
    else:
        split = GroupShuffleSplit(1, test_size=_SET_ASIDE, random_state=seed)
        others = np.sort(next(split.split(data.X, data.y, data.groups))[1])
    rows = np.setdiff1d(np.arange(len(data.y)), others)
    data.goal.check_fold(data.y, rows, data.source)
    model, _ = _fit(clock.given(asked, 2), data, rows)
    found = _answers(model, data, others)
    what = "rows" if data.groups is None else "groups"
    how = f"{_SET_ASIDE:.0%} of the {what}, set aside".replace("%", " %")
    weights = None if data.weights is None else data.weights[others]
    checked = HeldOut(how, data.y[others], found.predicted, found.probabilities, weights)
    return checked, [Split.aside(data.X, data.y, rows, others)]


def _together(data: Data) -> str:
    return "" if data.groups is None else ", groups kept together"


@dataclass(frozen=True)
class _TestFile:
    """Another file with targets, of which every row has been looked at once."""

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
        """Features and targets of the rows that have one."""
        target, known = self.data.target, np.unique(self.data.y)
        for table in self.file.parts(self.file.part_rows):
            table = table[table[target].notna()]
            y = self.data.goal.given(table[target], known, self.file.path)
            yield match(table, self.columns, self.file.path), y

    def tables(self) -> Iterator[pd.DataFrame]:
        """Features of the rows that have a target."""
        return (X for X, targets in self.parts() if len(targets))

    def predicted_by(self, model: TableModel) -> HeldOut:
        known, y, parts = np.unique(self.data.y), [], []
        for X, targets in self.parts():
            if len(targets):
                y.append(targets)
                parts.append(self.data.goal.answers(model, model.transformed(X), known))
        found = Answers.joined(parts)
        how = f"{counted(self.rows, 'row')} of {self.file.path}"
        return HeldOut(how, np.concatenate(y), found.predicted, found.probabilities)
