"""From a table to a fitted pipeline and an honest figure of its error: what ``fisherkit fit`` does.

Columns are prepared by a `ColumnTransformer`: numbers get their median where missing and are
scaled, text becomes one column for each level, rare levels (and those that training has not seen)
together. The error is estimated on rows that took no part in any choice: another file, folds in
each of which everything is chosen anew, or a fifth of the rows set aside. The model itself is then
fitted to all rows.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fisherkit import training_code
from fisherkit.inspection import doubts
from fisherkit.recipes import Recipe, part_of
from fisherkit.tables import (
    Column,
    TableError,
    date_columns,
    is_number,
    match,
    numbers,
    place,
    quoted,
    read_table,
    stray_text,
    texts,
)

__all__ = ["doubtful", "example", "read_data", "train"]

HELD_OUT = ("auto", "folds", "split", "none")
EXAMPLE = "breast cancer (embedded example)"
EXAMPLE_TARGET = "diagnosis"

_FOLDS = 5
_FOLD_ROWS = 2000  # rows up to which "auto" fits a model for each fold
_SET_ASIDE = 0.2
_MOST_CLASSES = 100
_UNNAMED = ("column 1", "Unnamed: 0")  # what a saved index of pandas is called
_MANY_NUMBERS = 20  # of a target, from which a note asks whether they are classes
_RARE = 10  # rows below which a level is rare, in tables of 1,000 rows and more
_FEW_ROWS = 20  # below, nothing is said about columns that look like identifiers
_IMBALANCED = 0.1
INFLUENCE_ROWS = 3000  # up to which every row's influence on all others is found

STAGES = "fisherkit.training"  # the logger of the stages of a training

log = logging.getLogger(STAGES)


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

    ``model`` has the steps "prepare" (a `ColumnTransformer`) and "classify" (a classifier of
    fisherkit), fitted on all training rows ``X`` and their labels ``y``; rows without a label are
    in neither. ``source`` is the name of the file, ``method`` one of fisher, committee, sparse,
    forward and bayes, ``code`` Python that reproduces the model, and ``notes`` are sentences that
    a user should read.
    """

    model: Pipeline
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


@dataclass(frozen=True)
class Data:
    """Rows to train on, and how they were read.

    ``left_out`` are columns that are not used, ``asked_text`` those that were to be text.
    """

    X: pd.DataFrame
    y: np.ndarray
    target: str
    source: str
    reading: str
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    asked_text: tuple[str, ...] = ()

    @property
    def numbers(self) -> list[str]:
        """Columns of numbers."""
        return [str(name) for name in numbers(self.X).columns]

    @property
    def texts(self) -> list[str]:
        """Columns of text."""
        return [str(name) for name in texts(self.X).columns]


def example() -> Data:
    """The table that scikit-learn carries: 569 tumours, 30 measurements of each.

    Examples
    --------
    >>> from fisherkit.training import example
    >>> example().X.shape
    (569, 30)
    """
    bunch = load_breast_cancer(as_frame=True)
    labels = bunch.target_names[bunch.target]
    return Data(bunch.data, labels, EXAMPLE_TARGET, EXAMPLE, training_code.READ_EXAMPLE, (), ())


def read_data(
    path: Any,
    target: str | None,
    *,
    drop: tuple[str, ...] = (),
    keep: tuple[str, ...] = (),
    text: tuple[str, ...] = (),
    encoding: str = "utf-8",
) -> Data:
    """Features and labels from a file.

    Parameters
    ----------
    path : str or path
    target : str
        Column of the labels.
    drop : names of columns to leave out
    keep : names of columns to use although they look like row numbers
    text : names of columns that are text although they look like numbers
    encoding : str

    Returns
    -------
    Data

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
    table = read_table(path, text=text, encoding=encoding)
    _check_names(table, path, target, {"--drop": drop, "--keep": keep, "--text": text})
    assert target is not None
    labelled = table[target].notna()
    notes = []
    if not labelled.all():
        count = int((~labelled).sum())
        left = "1 row" if count == 1 else f"{count} rows"
        notes.append(f"{left} without a value in {target!r} left out.")
        table = table[labelled]
    y, conversion = _labels(table[target], path)
    features = table.drop(columns=[target, *drop])
    _refuse_unusable(features, path, text)
    unused, remarks = _unused(features, keep)
    X = features.drop(columns=unused)
    if X.shape[1] == 0:
        raise TableError(f"{path} has no column to predict {target!r} from.")
    left_out = (*drop, *unused)
    reading = training_code.read_file(path, text, encoding, target, left_out, conversion)
    notes += [*remarks, *_many_numbers(y, target), *_imbalance(y)]
    return Data(X, y, target, str(path), reading, left_out, tuple(notes), text)


def train(
    data: Data,
    method: str = "fisher",
    *,
    test: Any = None,
    held_out: str = "auto",
    seed: int = 0,
    encoding: str = "utf-8",
    **options: Any,
) -> Training:
    """Fit a classifier to all rows, and estimate its error on rows that it has not seen.

    Parameters
    ----------
    data : Data
    method : {"fisher", "committee", "sparse", "forward", "bayes"}
    test : str or path, default=None
        A file of other rows with labels.
    held_out : {"auto", "folds", "split", "none"}
        What to do without one: "auto" is "folds" (5 of them) up to 2,000 rows, "split" beyond.
    seed : int
    encoding : str
        Of the test file.
    **options
        ``kernel``, ``penalty``, ``balanced``, ``centres``, ``max_memory``: see
        `fisherkit.recipes.Recipe.of`.

    Returns
    -------
    Training

    Examples
    --------
    >>> from fisherkit.training import example, train
    >>> done = train(example(), "forward", centres=30, held_out="split")
    >>> bool((done.held_out.y != done.held_out.predicted).mean() < 0.1)
    True
    """
    start = perf_counter()
    recipe = Recipe.of(method, len(data.y), seed=seed, **options)
    prepare = _prepare(data)
    checked = None
    if test is not None:
        X_test, y_test = _test_rows(data, test, encoding)
    elif held_out != "none":
        folds = held_out == "folds" or (held_out == "auto" and len(data.y) <= _FOLD_ROWS)
        log.info("estimating the error on rows that the model has not seen")
        checked = (_cross_validate if folds else _set_aside)(data, prepare, recipe, seed)
    log.info("fitting the model to all %d rows", len(data.y))
    model, settled = _fit(prepare, recipe, data.X, data.y)
    if test is not None:
        checked = HeldOut(
            f"{len(y_test)} rows of {test}",
            y_test,
            model.predict(X_test),
            model.predict_proba(X_test),
        )
    return Training(
        model=model,
        X=data.X,
        y=data.y,
        target=data.target,
        source=data.source,
        method=method,
        held_out=checked,
        code=training_code.program(data.reading, data.numbers, data.texts, _rare(data), settled),
        notes=data.notes,
        seconds=perf_counter() - start,
        asked_text=data.asked_text,
    )


def doubtful(data: Data, *, seed: int = 0) -> pd.DataFrame:
    """Every row with what the model fitted without it says of its label; see `fisherkit.audit`.

    Leverage and influence, which compare all pairs of rows, are there up to 3,000 rows.

    Examples
    --------
    >>> from fisherkit.training import doubtful, example
    >>> doubtful(example()).shape[0]
    569
    """
    log.info("fitting, and leaving out each of %d rows", len(data.y))
    features = _prepare(data).fit_transform(data.X)
    recipe = Recipe.of("fisher", len(data.y), seed=seed).settled(features, data.y)
    model = recipe.build().fit(features, data.y)
    influence = len(data.y) <= INFLUENCE_ROWS
    return doubts(model, data.y, index=data.X.index, influence=influence)


def _fit(
    prepare: ColumnTransformer, recipe: Recipe, X: pd.DataFrame, y: np.ndarray
) -> tuple[Pipeline, Recipe]:
    """The pipeline fitted to these rows, and the recipe with its width where a part chose it."""
    prepare = clone(prepare)
    features = prepare.fit_transform(X)
    recipe = recipe.settled(features, y)
    classifier = recipe.build().fit(features, y)
    return Pipeline([("prepare", prepare), ("classify", classifier)]), recipe


def _prepare(data: Data) -> ColumnTransformer:
    """What `training_code.program` prints."""
    steps = []
    if data.numbers:
        number = Pipeline(
            [("impute", SimpleImputer(strategy="median")), ("scale", StandardScaler())]
        )
        steps.append(("number", number, data.numbers))
    if data.texts:
        encode = OneHotEncoder(
            min_frequency=_rare(data), handle_unknown="infrequent_if_exist", sparse_output=False
        )
        impute = SimpleImputer(strategy="constant", fill_value="missing")
        steps.append(("text", Pipeline([("impute", impute), ("encode", encode)]), data.texts))
    return ColumnTransformer(steps)


def _rare(data: Data) -> int:
    return max(2, min(_RARE, len(data.y) // 100))


def _cross_validate(data: Data, prepare: Any, recipe: Recipe, seed: int) -> HeldOut:
    classes, counts = np.unique(data.y, return_counts=True)
    n_folds = min(_FOLDS, len(data.y))
    folds: Any = KFold(n_folds, shuffle=True, random_state=seed)
    if counts.min() >= n_folds:
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    predicted = np.empty_like(data.y)
    p = np.zeros((len(data.y), len(classes)))
    for number, (rows, others) in enumerate(folds.split(data.X, data.y), 1):
        if len(np.unique(data.y[rows])) < 2:
            raise TableError(
                f"{data.source}: with {counts.min()} rows of {str(classes[counts.argmin()])!r} "
                "there are folds of one class alone. Use --held-out none, or more rows."
            )
        log.info("fold %d of %d", number, n_folds)
        model, _ = _fit(prepare, recipe, data.X.iloc[rows], data.y[rows])
        predicted[others] = model.predict(data.X.iloc[others])
        seen = np.searchsorted(classes, model.classes_)
        p[np.ix_(others, seen)] = model.predict_proba(data.X.iloc[others])
    return HeldOut(f"{n_folds}-fold nested cross-validation", data.y, predicted, p)


def _set_aside(data: Data, prepare: Any, recipe: Recipe, seed: int) -> HeldOut:
    others = part_of(data.y, round(_SET_ASIDE * len(data.y)), seed)
    rows = np.setdiff1d(np.arange(len(data.y)), others)
    model, _ = _fit(prepare, recipe, data.X.iloc[rows], data.y[rows])
    X, classes = data.X.iloc[others], np.unique(data.y)
    p = np.zeros((len(others), len(classes)))
    p[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(X)
    how = f"{_SET_ASIDE:.0%} of the rows, set aside".replace("%", " %")
    return HeldOut(how, data.y[others], model.predict(X), p)


def _test_rows(data: Data, path: Any, encoding: str) -> tuple[pd.DataFrame, np.ndarray]:
    levels = data.texts if data.y.dtype.kind != "U" else [*data.texts, data.target]
    table = read_table(path, text=data.asked_text, levels=levels, encoding=encoding)
    if data.target not in table.columns:
        raise TableError(f"{path} has no column {data.target!r}, the target.")
    table = table[table[data.target].notna()]
    known = set(np.unique(data.y).tolist())
    labels = table[data.target]
    for position, label in enumerate(labels.tolist()):
        if label not in known:
            raise TableError(
                f"{path}, {place(table, position)}, column {data.target!r}: {label!r} is none of "
                f"the labels seen in training, {quoted(sorted(known))}."
            )
    return match(table, Column.all_of(data.X), path), labels.to_numpy(dtype=data.y.dtype)


def _check_names(
    table: pd.DataFrame, path: Any, target: str | None, options: dict[str, tuple[str, ...]]
) -> None:
    named = [("--target", target)] if target is not None else []
    named += [(option, name) for option, names in options.items() for name in names]
    for option, name in named:
        if name not in table.columns:
            raise TableError(
                f"{path} has no column {name!r} ({option}); its columns are "
                f"{quoted(table.columns)}."
            )
    if target is None:
        raise TableError(
            f"Which column of {path} is to be predicted? Name it with --target; the columns are "
            f"{quoted(table.columns)}."
        )


def _labels(values: pd.Series, path: Any) -> tuple[np.ndarray, str]:
    """Labels as a plain array, and the Python that makes them of the column."""
    if len(values) == 0:
        raise TableError(f"{path}: no row has a value in column {values.name!r}.")
    if not is_number(values):
        y, conversion = values.to_numpy(dtype=str), ".to_numpy(dtype=str)"
    elif pd.api.types.is_float_dtype(values.dtype) and (values % 1 == 0).all():
        y, conversion = values.to_numpy(dtype=np.int64), '.to_numpy(dtype="int64")'
    else:
        y, conversion = values.to_numpy(), ".to_numpy()"
    classes = np.unique(y)
    if len(classes) < 2:
        raise TableError(
            f"{path}: column {values.name!r} has one value only, {str(classes[0])!r}; a classifier "
            "needs two."
        )
    if len(y) < 2 * len(classes) and y.dtype.kind == "U":
        raise TableError(
            f"{path}: column {values.name!r} has {len(classes)} different values in {len(y)} "
            "rows: too few rows to tell them apart."
        )
    if y.dtype.kind == "f" or len(classes) > min(_MOST_CLASSES, max(2, len(y) / 2)):
        raise TableError(
            f"{path}: column {values.name!r} has {len(classes)} different values in {len(y)} "
            "rows, which are not classes. To predict a number, use KernelRidgeCV in Python; to "
            "classify, put the values into groups first."
        )
    return y, conversion


def _refuse_unusable(features: pd.DataFrame, path: Any, text: tuple[str, ...]) -> None:
    for name, value in date_columns(features.drop(columns=[*text], errors="ignore")).items():
        raise TableError(
            f"{path}, column {name!r} holds dates, such as {str(value)!r}. What matters about a "
            "date is for you to say: replace it by numbers (year, month, weekday, days since an "
            f"event), leave it out with --drop {name!r}, or take it as text with --text {name!r}."
        )
    for name, values in texts(features).items():
        stray = None if name in text else stray_text(values)
        if stray is not None:
            raise TableError(
                f"{path}, {place(features, stray)}, column {name!r}: "
                f"{values.iloc[stray]!r} is not a number, though most of the column are. "
                f"Leave unknown values empty, or declare the column as text with --text {name!r}."
            )


def _unused(features: pd.DataFrame, keep: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Columns that say nothing about new rows, and sentences about them."""
    few = len(features) < _FEW_ROWS
    why = {}
    block = numbers(features)
    values = block.to_numpy(dtype=np.float64, na_value=np.nan)
    known = ~np.isnan(values)
    steps = np.diff(np.sort(values, axis=0), axis=0)
    counts = np.all(steps == 1, axis=0) & (not few)
    index = np.all((steps > 0) & (steps % 1 == 0), axis=0) & block.columns.isin(_UNNAMED)
    same = np.all(values == values[0], axis=0)
    for name, any_known, constant, counting in zip(
        block.columns, known.any(axis=0), same, counts | index, strict=True
    ):
        if not any_known:
            why[name] = "it has no values"
        elif constant:
            why[name] = f"its value is always {block[name].iloc[0]}"
        elif counting:
            why[name] = f"it numbers the rows (--keep {name!r} to use it)"
    for name, column in texts(features).items():
        distinct = column.nunique()
        if distinct == 0:
            why[name] = "it has no values"
        elif distinct == 1 and column.notna().all():
            why[name] = f"its value is always {column.iloc[0]!r}"
        elif distinct == len(column) and not few:
            why[name] = "every row has a text of its own, as identifiers do"
    unused = [str(name) for name in features.columns if name in why and name not in keep]
    return unused, [f"column {name!r} was left out: {why[name]}." for name in unused]


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
