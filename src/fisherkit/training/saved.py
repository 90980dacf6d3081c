"""A training as a model file, and back again with the rows it was trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from fisherkit.columns import Column, ColumnOptions, TableError, match, number_mask, row_parts
from fisherkit.estimators import inside
from fisherkit.interfaces import FilePath
from fisherkit.methods import TableModel
from fisherkit.models import Metadata, ModelFile, ModelFileError, files
from fisherkit.tables import TableFile, open_table
from fisherkit.training.baselines import Baseline
from fisherkit.training.fingerprints import TrainingRows
from fisherkit.training.fitting import Training, goal_of
from fisherkit.training.goals import HeldOut
from fisherkit.training.intake import EXAMPLE, example
from fisherkit.training.out_of_core import Prepared, map_table

NO_TABLE = (
    "The model file was saved from Python and does not say which table it was trained on; load it "
    "with fisherkit.model_files.load, or train with fisherkit fit --model."
)


def save(training: Training, path: FilePath, summary: Mapping[str, object]) -> None:
    """Write model, held-out answers (those of other methods, too), schema and summary."""
    metadata = {
        "target": training.target,
        "source": training.source,
        "method": training.method,
        "task": training.goal.name,
        "classes": training.goal.classes(training.model),
        "columns": [vars(column) for column in Column.all_of(training.X)],
        "asked_text": list(training.asked_text),
        "rows_sha256": _fingerprint(training.X, training.y),
        "code": training.code,
        "summary": summary,
    }
    seen = TrainingRows.of(training.X).entry
    held_out = None if training.held_out is None else vars(training.held_out)
    compared = [vars(baseline) for baseline in training.baselines]
    extra = {"held_out": held_out, "baselines": compared, "training_rows": seen}
    files.save(training.model, path, metadata=metadata, extra=extra)


def columns(file: ModelFile) -> list[Column]:
    """The columns that the model was trained on.

    Raises
    ------
    ModelFileError
        If the file was saved from Python, without them.
    """
    if "columns" not in file.metadata:
        raise ModelFileError(NO_TABLE)
    return described(file.metadata)


def described(metadata: Metadata) -> list[Column]:
    """The columns of a training, from what its file says of itself."""
    return [
        Column(
            name=item["name"],
            kind=item["kind"],
            missing=item["missing"],
            values=tuple(item["values"]),
        )
        for item in metadata["columns"]
    ]


def targets(file: ModelFile, table: pd.DataFrame) -> np.ndarray:
    """The target column in the type of the classes, or as numbers; see `Goal.read`."""
    return goal_of(file.model).read(file.model, table[file.metadata["target"]])


def open_rows(file: ModelFile, path: FilePath, encoding: str) -> TableFile:
    """A table to be read as the one that the model was trained on; all of its columns."""
    levels = [column.name for column in columns(file) if column.kind == "text"]
    if goal_of(file.model).texts(file.model):
        levels.append(file.metadata["target"])
    asked = file.metadata.get("asked_text", [])
    return open_table(path, text=asked, levels=levels, encoding=encoding)


def restore(
    file: ModelFile, path: FilePath | None, folder: Path, encoding: str = "utf-8"
) -> Training:
    """The training behind a model file, given the table that it was trained on.

    ``folder`` is for mapped files, if the model was fitted in blocks.

    Raises
    ------
    TableError
        If the table is another one, or has changed.
    """
    about = file.metadata
    X, y = _rows_of_training(file, path, folder, encoding)
    if _fingerprint(X, y) != about["rows_sha256"]:
        raise TableError(
            f"{path} does not hold the rows that the model was trained on ({about['source']})."
        )
    features = None
    if in_blocks(file.model):
        features = Prepared.by(file.model.features_, X, folder).features
    held_out = file.extra["held_out"]
    summary = about["summary"]
    return Training(
        model=file.model,
        X=X,
        y=y,
        target=about["target"],
        source=about["source"],
        method=about["method"],
        held_out=None if held_out is None else HeldOut(**held_out),
        code=about["code"],
        notes=tuple(summary["notes"]),
        seconds=summary["seconds"],
        asked_text=tuple(about.get("asked_text", [])),
        features=features,
        baselines=tuple(Baseline(**one) for one in file.extra.get("baselines", ())),
    )


def _rows_of_training(
    file: ModelFile, path: FilePath | None, folder: Path, encoding: str
) -> tuple[pd.DataFrame, np.ndarray]:
    known, target, source = columns(file), file.metadata["target"], file.metadata["source"]
    if path is None and source == EXAMPLE:
        data = example()
        return data.X, data.y
    if path is None:
        raise TableError(f"The report needs the rows of the training: give {source}.")
    rows = open_rows(file, path, encoding)
    if target not in rows.names:
        raise TableError(f"{path} has no column {target!r}, the target.")
    if in_blocks(file.model):
        used = {target, *(column.name for column in known)}
        unused = tuple(name for name in rows.names if name not in used)
        table = map_table(folder, rows, ColumnOptions(path, target, drop=unused))
    else:
        (table,) = rows.parts(None)
        table = table[table[target].notna()]
    return match(table, known, path), targets(file, table)


def in_blocks(model: TableModel) -> bool:
    """Whether a model has read its rows in blocks and keeps none of them."""
    return inside(model.estimator_).in_blocks


def _fingerprint(X: pd.DataFrame, y: np.ndarray) -> str:
    """A digest of names, labels and values, read in parts: X may be a mapped table."""
    digest = hashlib.sha256("\0".join(map(str, X.columns)).encode())
    mask = number_mask(X)
    for number, rows in enumerate(row_parts(X, X.shape[1])):
        words = ["" if number == 0 else "\0", "\0".join(map(str, y[rows].tolist()))]
        digest.update("".join(words).encode())
    for rows in row_parts(X, X.shape[1]):
        values = X.iloc[rows, np.flatnonzero(mask)].to_numpy(dtype=np.float64, na_value=np.nan)
        digest.update(values.tobytes())
    for name in X.columns[~mask]:
        for rows in row_parts(X, X.shape[1]):
            known = X[name].iloc[rows].astype(object)
            digest.update("\0".join(map(str, known.fillna("").tolist())).encode())
    return digest.hexdigest()
