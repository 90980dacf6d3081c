"""Models in files that are safe to open.

A model file is a skops archive (never a pickle) with one more member, ``fisherkit.json``: versions,
the columns and the target, and what the training found. Opening one builds nothing but the types
named here and those of scikit-learn and NumPy that skops knows to be harmless; a file that asks for
anything else is refused before any of it is built.

skops knows neither enumerations nor dictionaries with keys other than text, and takes long lists
item by item: `_encode` replaces these on the way to the file, `_decode` brings them back.
"""

from __future__ import annotations

import copy
import json
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import skops.io
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning
from skops.io.exceptions import UntrustedTypesFoundException

from fisherkit.committee import members
from fisherkit.models.archives import (
    METADATA,
    ModelFileError,
    compact,
    contents,
    member,
    opened,
    parsed,
)
from fisherkit.models.checks import check_metadata, check_model
from fisherkit.tuning import calibrate, climb, select
from fisherkit.whole_files import written

__all__ = ["ModelFile", "ModelFileError", "VersionWarning", "load", "read_metadata", "save"]

FORMAT = 1
LIBRARIES = ("fisherkit", "scikit-learn", "numpy", "skops")

_LONG = 20  # items from which a list is kept as an array

_ENUMS = {
    "select.Status": select.Status,
    "committee.Status": members.Status,
    "climb.Ending": climb.Ending,
    "calibrate.Status": calibrate.Status,
}
_OURS = (
    "bayes.learning.Sample",
    "estimators.bayes.BayesianFisherClassifier",
    "tuning.calibrate.Slope",
    "tuning.climb.Climb",
    "core.coding.Rule",
    "committee.members.Expansion",
    "estimators.committee.FisherCommitteeClassifier",
    "estimators.committee._Record",
    "core.covariance.FittedKernel",
    "core.covariance.Parametric",
    "tuning.criteria.Criterion",
    "tuning.criteria.HeldOut",
    "core.decompose.Design",
    "estimators.fisher.KernelFisherClassifier",
    "estimators.fisher.KernelRidgeCV",
    "bayes.evidence.Contrasts",
    "estimators.base.Task",
    "core.bias.Bias",
    "core.bias.Free",
    "core.bias.Penalized",
    "core.kernels.gram.Gram",
    "core.kernels.gram.Kernel",
    "models.files._Member",
    "models.files._Pairs",
    "models.files._Many",
    "bayes.posterior.Exact",
    "bayes.posterior.Posterior",
    "bayes.posterior.Projected",
    "tuning.relevance.Widths",
    "tuning.select.Selection",
    "estimators.sparse.ForwardFisherClassifier",
    "estimators.sparse.SparseFisherClassifier",
    "training.fitting.HeldOut",
    "tuning.search.Problem",
    "core.weights.Weights",
)
TRUSTED = ("numpy.dtype", *(f"fisherkit.{name}" for name in _OURS))


class VersionWarning(UserWarning):
    """A model file was written with other versions of the libraries it needs."""


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds.

    Attributes
    ----------
    model : a fitted estimator of fisherkit, or a Pipeline that ends in one
    metadata : dict
        The entries "format", "versions" and those given to `save`.
    extra : dict
        What was saved beside the model.

    Examples
    --------
    >>> from fisherkit.model_files import ModelFile
    >>> opened = ModelFile(model=None, metadata={"format": 1}, extra={"unit": "mm"})
    >>> opened.metadata["format"], opened.extra["unit"]
    (1, 'mm')
    """

    model: Any
    metadata: dict[str, Any]
    extra: dict[str, Any]


@dataclass(frozen=True)
class _Member:
    """A member of one of our enumerations."""

    kind: str
    name: str


@dataclass(frozen=True)
class _Pairs:
    """A dictionary whose keys are not text."""

    keys: list[Any]
    values: list[Any]


@dataclass(frozen=True)
class _Many:
    """Many texts or integers, from a list or an array of objects."""

    values: np.ndarray
    listed: bool


def save(
    model: Any, path: Any, *, metadata: dict[str, Any] | None = None, extra: Any = None
) -> None:
    """Write a model to a file that is safe to open.

    Parameters
    ----------
    model : a fitted estimator of fisherkit, or a Pipeline that ends in one
        Kernels must have names: a callable is code, and no code goes into the file.
    path : str or path
    metadata : dict, default=None
        Readable by anyone, without opening the model; must suit JSON.
    extra : dict of str, default=None
        Arrays and plain values to keep beside the model.

    Raises
    ------
    ModelFileError
        If `load` would not open the file: the model holds something that no file may, or does not
        answer.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.model_files import load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelFisherClassifier(gamma=0.2).fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "iris.fisherkit")
    ...     again = load(Path(folder) / "iris.fisherkit").model
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    content = {"model": _encode(model), "extra": _encode(extra or {})}
    try:
        archive = skops.io.dumps(content, compression=zipfile.ZIP_STORED)
    except Exception as error:  # skops raises many kinds; all mean that it has no words for it
        raise ModelFileError(f"The model cannot be saved without code: {error}") from error
    unknown = set(skops.io.get_untrusted_types(data=archive)) - set(TRUSTED)
    if unknown:
        raise ModelFileError(
            f"The model holds {', '.join(sorted(unknown))}, which no model file may contain. "
            "Kernels must be given by name, and the steps before the classifier must be "
            "scikit-learn's."
        )
    about = {"format": FORMAT, "versions": {name: version(name) for name in LIBRARIES}}
    text = json.dumps({**about, **(metadata or {})})
    check_metadata(json.loads(text))
    try:
        check_model(model, json.loads(text), len(archive))
    except ModelFileError as error:
        raise ModelFileError(f"The model cannot be saved: {error}") from error
    whole = compact(archive, text.encode())
    with written(path) as file:
        file.write(whole)


def read_metadata(path: Any) -> dict[str, Any]:
    """What a model file says about itself; the model is not opened.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict
        The ``metadata`` of `ModelFile`.

    Raises
    ------
    ModelFileError
        If the file is no model file, or not a whole one.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.model_files import read_metadata, save
    >>> model = KernelFisherClassifier(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> with TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "steps.fisherkit", metadata={"made by": "me"})
    ...     about = read_metadata(Path(folder) / "steps.fisherkit")
    >>> about["made by"], sorted(about["versions"])
    ('me', ['fisherkit', 'numpy', 'scikit-learn', 'skops'])
    """
    with opened(path) as archive:
        return _metadata(archive, path)


def load(path: Any) -> ModelFile:
    """Open a model file, and run nothing that is in it.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    ModelFile

    Raises
    ------
    ModelFileError
        If the file is not whole, of another format or version of fisherkit, claims to unfold into
        far more than it is, or names a type that is none of ours, scikit-learn's or NumPy's:
        nothing of it has been built then. Or if the model in it does not answer for rows that it
        must know with finite numbers.

    Warns
    -----
    VersionWarning
        If it was written with another scikit-learn or NumPy.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.model_files import load, save
    >>> model = KernelFisherClassifier(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> with TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "steps.fisherkit", extra={"unit": "mm"})
    ...     opened = load(Path(folder) / "steps.fisherkit")
    >>> opened.model.predict([[0.2], [2.9]]), opened.extra
    (array([0, 1]), {'unit': 'mm'})
    """
    with opened(path) as archive:
        metadata = _metadata(archive, path)
        _compare_versions(path, metadata)
        tree = contents(archive, Path(path).stat().st_size)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # said above already
            content = skops.io.loads(tree, trusted=list(TRUSTED))
    except UntrustedTypesFoundException as error:
        unknown = set(skops.io.get_untrusted_types(data=tree)) - set(TRUSTED)
        raise ModelFileError(
            f"{path} was not opened: it asks for {', '.join(sorted(unknown))}, which no model of "
            "fisherkit needs. It may have been made to run code on your machine; nothing was run."
        ) from error
    except Exception as error:  # whatever skops stumbles over: only types named here were built
        raise ModelFileError(f"{path} is damaged: {error}") from error
    try:
        found = ModelFile(_decode(content["model"]), metadata, _decode(content["extra"]))
    except Exception as error:
        raise ModelFileError(f"{path} is damaged: {error}") from error
    try:
        check_model(found.model, metadata, len(tree))
    except ModelFileError as error:
        raise ModelFileError(f"{path} is damaged: {error}") from error
    return found


def _metadata(archive: zipfile.ZipFile, path: Any) -> dict[str, Any]:
    about = parsed(member(archive, METADATA), Path(path).stat().st_size)
    found = about.get("format") if isinstance(about, dict) else None
    if type(found) is not int or found != FORMAT:
        raise ModelFileError(
            f"it has the file format {str(found)[:100]}; this version of fisherkit "
            f"({version('fisherkit')}) reads format {FORMAT}."
        )
    check_metadata(about)
    return about


def _compare_versions(path: Any, metadata: dict[str, Any]) -> None:
    written = metadata["versions"]
    here = {name: version(name) for name in LIBRARIES}
    ours = written["fisherkit"]
    if _release(ours) != _release(here["fisherkit"]):
        raise ModelFileError(
            f"it was written by fisherkit {ours[:100]}, and this is fisherkit {here['fisherkit']}. "
            "Train it again, or install that version."
        )
    others = [
        f"{name} {written[name][:100]} (here {here[name]})"
        for name in ("scikit-learn", "numpy")
        if _release(written[name]) != _release(here[name])
    ]
    if others:
        warnings.warn(
            f"{path} was written with {' and '.join(others)}; predictions may differ.",
            VersionWarning,
            stacklevel=3,
        )


def _release(text: str) -> list[str]:
    """Major and minor version."""
    return text.split(".")[:2]


def _with(original: Any, state: dict[str, Any]) -> Any:
    twin = copy.copy(original)
    vars(twin).clear()
    vars(twin).update(state)
    return twin


def _encode(value: Any) -> Any:
    return _mapped(value, _encode_one)


def _encode_one(value: Any) -> Any:
    if isinstance(value, Enum):
        for kind, enum in _ENUMS.items():
            if isinstance(value, enum):
                return _Member(kind, value.name)
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        return _Pairs(list(value.keys()), [_encode(v) for v in value.values()])
    objects = isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1
    if objects and _all_words(value):
        return _Many(value.astype(str), listed=False)
    if type(value) is list and len(value) > _LONG:
        if _all_words(value):
            return _Many(np.array(value, dtype=str), listed=True)
        if all(type(item) is int for item in value):
            return _Many(np.array(value, dtype=np.int64), listed=True)
    return value


def _all_words(values: Any) -> bool:
    """Whether all are texts that an array of texts gives back as they were."""
    return all(type(value) is str and not value.endswith("\0") for value in values)


def _decode(value: Any) -> Any:
    return _mapped(value, _decode_one)


def _decode_one(value: Any) -> Any:
    if isinstance(value, _Member):
        return _ENUMS[value.kind][value.name]
    if isinstance(value, _Pairs):
        return dict(zip(value.keys, map(_decode, value.values), strict=True))
    if isinstance(value, _Many):
        if value.values.dtype.kind != "U" and value.values.dtype != np.int64:
            raise ValueError(f"a list of {value.values.dtype} was never saved as an array")
        return value.values.tolist() if value.listed else value.values.astype(object)
    return value


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of plain containers, dataclasses and estimators with every part changed."""
    changed = change(value)
    if changed is not value:
        return changed
    if type(value) is dict:
        return {key: _mapped(item, change) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(item, change) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        state = {f.name: _mapped(getattr(value, f.name), change) for f in fields(value)}
        return _with(value, state)
    if isinstance(value, BaseEstimator):
        return _with(value, {name: _mapped(item, change) for name, item in vars(value).items()})
    return value
