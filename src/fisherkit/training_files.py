"""A training as a model file, and back again with the rows it was trained on."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from fisherkit import model_files
from fisherkit.model_files import ModelFile, ModelFileError
from fisherkit.tables import Column, TableError, match, numbers, read_table, texts
from fisherkit.training import EXAMPLE, HeldOut, Training, example

NO_TABLE = (
    "The model file was saved from Python and does not say which table it was trained on; load it "
    "with fisherkit.model_files.load, or train with fisherkit fit --model."
)


def save(training: Training, path: Any, summary: dict[str, Any]) -> None:
    """Write model, held-out predictions, schema and summary into one file."""
    metadata = {
        "target": training.target,
        "source": training.source,
        "method": training.method,
        "classes": [_plain(label) for label in training.model.classes_],
        "columns": [asdict(column) for column in Column.all_of(training.X)],
        "asked_text": list(training.asked_text),
        "rows_sha256": _fingerprint(training.X, training.y),
        "code": training.code,
        "summary": summary,
    }
    model_files.save(training.model, path, metadata=metadata, extra={"held_out": training.held_out})


def columns(file: ModelFile) -> list[Column]:
    """The columns that the model was trained on.

    Raises
    ------
    ModelFileError
        If the file was saved from Python, without them.
    """
    if "columns" not in file.metadata:
        raise ModelFileError(NO_TABLE)
    return [
        Column(item["name"], item["kind"], item["missing"], tuple(item["values"]))
        for item in file.metadata["columns"]
    ]


def labels(file: ModelFile, table: pd.DataFrame) -> np.ndarray:
    """The target column in the type of the classes; floats if some labels were never seen."""
    classes, values = file.model.classes_, table[file.metadata["target"]]
    if classes.dtype.kind == "U":
        return values.to_numpy(dtype=str)
    found = pd.to_numeric(values, errors="coerce")
    floats = found.to_numpy(dtype=np.float64, na_value=np.nan)
    return found.to_numpy(dtype=classes.dtype) if np.isin(floats, classes).all() else floats


def read_rows(file: ModelFile, path: Any, encoding: str) -> pd.DataFrame:
    """A table read as the one that the model was trained on; all of its columns."""
    levels = [column.name for column in columns(file) if column.kind == "text"]
    if file.model.classes_.dtype.kind == "U":
        levels.append(file.metadata["target"])
    asked = file.metadata.get("asked_text", [])
    return read_table(path, text=asked, levels=levels, encoding=encoding)


def restore(file: ModelFile, path: Any, encoding: str = "utf-8") -> Training:
    """The training behind a model file, given the table that it was trained on.

    Raises
    ------
    TableError
        If the table is another one, or has changed.
    """
    about, known = file.metadata, columns(file)
    if path is None and about["source"] == EXAMPLE:
        data = example()
        X, y = data.X, data.y
    elif path is None:
        raise TableError(f"The report needs the rows of the training: give {about['source']}.")
    else:
        table = read_rows(file, path, encoding)
        if about["target"] not in table.columns:
            raise TableError(f"{path} has no column {about['target']!r}, the target.")
        table = table[table[about["target"]].notna()]
        X, y = match(table, known, path), labels(file, table)
    if _fingerprint(X, y) != about["rows_sha256"]:
        raise TableError(
            f"{path} does not hold the rows that the model was trained on ({about['source']})."
        )
    held_out = file.extra["held_out"]
    summary = about["summary"]
    assert held_out is None or isinstance(held_out, HeldOut)
    return Training(
        model=file.model,
        X=X,
        y=y,
        target=about["target"],
        source=about["source"],
        method=about["method"],
        held_out=held_out,
        code=about["code"],
        notes=tuple(summary["notes"]),
        seconds=summary["seconds"],
        asked_text=tuple(about.get("asked_text", [])),
    )


def _fingerprint(X: pd.DataFrame, y: np.ndarray) -> str:
    digest = hashlib.sha256()
    for words in (map(str, X.columns), map(str, y.tolist())):
        digest.update("\0".join(words).encode())
    digest.update(numbers(X).to_numpy(dtype=np.float64, na_value=np.nan).tobytes())
    for _, values in texts(X).items():
        digest.update("\0".join(map(str, values.fillna("").tolist())).encode())
    return digest.hexdigest()


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
