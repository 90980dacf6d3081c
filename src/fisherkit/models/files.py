"""Models in files that are safe to open.

A model file is a skops archive (never a pickle) with one more member, ``fisherkit.json``: versions,
the columns and the target, and what the training found. The archive holds plain values, arrays and
those objects of scikit-learn and NumPy that skops knows to be harmless; a file that asks for
anything else is refused before any of it is built. An object of ours is a dictionary with the name
under which its type is registered (`fisherkit.stored`) and its state, so that files do not depend
on where a type is defined. Dictionaries with keys other than text, which skops does not know, and
long lists, which it takes item by item, have names of their own: "pairs", "list" and "objects".
"""

from __future__ import annotations

import copy
import json
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import skops.io
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning
from skops.io.exceptions import UntrustedTypesFoundException

from fisherkit.interfaces import FilePath
from fisherkit.models.archives import (
    METADATA,
    TAG,
    ModelFileError,
    compact,
    contents,
    member,
    opened,
    parsed,
)
from fisherkit.models.checks import Metadata, check_metadata, check_model
from fisherkit.stored import NAMES, rebuilt, state_of
from fisherkit.whole_files import written

FORMAT = 2
LIBRARIES = ("fisherkit", "scikit-learn", "numpy", "skops")
TRUSTED = ("numpy.dtype",)  # beside what skops trusts

_LONG = 20  # items from which a list is kept as an array


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
    >>> opened = ModelFile(model=None, metadata={"format": 2}, extra={"unit": "mm"})
    >>> opened.metadata["format"], opened.extra["unit"]
    (2, 'mm')
    """

    model: BaseEstimator
    metadata: Metadata
    extra: Metadata


def save(
    model: BaseEstimator,
    path: FilePath,
    *,
    metadata: Metadata | None = None,
    extra: Mapping[str, object] | None = None,
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
    if unknown := _untrusted(archive):
        raise ModelFileError(
            f"The model holds {unknown}, which no model file may contain. Kernels must be given by "
            "name, the steps before the classifier must be scikit-learn's, and other types must be "
            "registered (fisherkit.stored)."
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


def read_metadata(path: FilePath) -> Metadata:
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


def load(path: FilePath) -> ModelFile:
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
        far more than it is, or names a type that is not registered, nor one of scikit-learn's or
        NumPy's: nothing of it has been built then. Or if the model in it does not answer for rows
        that it must know with finite numbers.

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
        raise ModelFileError(
            f"{path} was not opened: it asks for {_untrusted(tree)}, which no model of "
            "fisherkit needs. It may have been made to run code on your machine; nothing was run."
        ) from error
    except Exception as error:  # whatever skops stumbles over: it builds no type of ours
        raise ModelFileError(f"{path} is damaged: {error}") from error
    try:
        model, extra = _decode(content["model"]), _decode(content["extra"])
        check_model(model, metadata, len(tree))
    except Exception as error:  # whatever goes wrong with parts that do not fit
        raise ModelFileError(f"{path} is damaged: {error}") from error
    return ModelFile(model=model, metadata=metadata, extra=extra)


def _untrusted(archive: bytes) -> str:
    """The types in an archive that are not trusted."""
    return ", ".join(sorted(set(skops.io.get_untrusted_types(data=archive)) - set(TRUSTED)))


def _metadata(archive: zipfile.ZipFile, path: FilePath) -> Metadata:
    about = parsed(member(archive, METADATA), Path(path).stat().st_size)
    if not isinstance(about, dict):
        about = {}
    number = about.get("format")
    if type(number) is not int or number != FORMAT:
        raise ModelFileError(
            f"it has the file format {str(number)[:100]}; this version of fisherkit "
            f"({version('fisherkit')}) reads format {FORMAT}. Train the model again, or install "
            "the version that wrote it."
        )
    check_metadata(about)
    return about


def _compare_versions(path: FilePath, metadata: Metadata) -> None:
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


def _encode(value: object) -> object:
    """The value with every object of ours as a dictionary of its registered name and its state."""
    kind = type(value)
    if kind in NAMES:
        return _entry(NAMES[kind], _encode(state_of(value)))
    if isinstance(value, dict) and kind is dict:
        if all(isinstance(key, str) for key in value) and TAG not in value:
            return {key: _encode(item) for key, item in value.items()}
        return _entry("pairs", [list(value), [_encode(item) for item in value.values()]])
    if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1:
        return _entry("objects", value.astype(str)) if _all_words(value) else value
    if isinstance(value, list) and kind is list and len(value) > _LONG:
        if _all_words(value):
            return _entry("list", np.array(value, dtype=str))
        if all(type(item) is int for item in value):
            return _entry("list", np.array(value, dtype=np.int64))
    if kind.__module__.partition(".")[0] == "fisherkit":
        raise ModelFileError(
            f"The model holds an object of type {kind.__name__}, which is not registered for model "
            "files (fisherkit.stored)."
        )
    return _mapped(value, _encode)


def _entry(name: str, state: object) -> dict[str, object]:
    return {TAG: name, "state": state}


def _all_words(values: Iterable[object]) -> bool:
    """Whether all are texts that an array of texts gives back as they were."""
    return all(type(value) is str and not value.endswith("\0") for value in values)


def _decode(value: Any) -> Any:
    if type(value) is not dict or TAG not in value:
        return _mapped(value, _decode)
    name, state = value[TAG], value["state"]
    if name == "pairs":
        keys, values = state
        return dict(zip(keys, map(_decode, values), strict=True))
    if name in ("list", "objects"):
        if state.dtype.kind != "U" and state.dtype != np.int64:
            raise ValueError(f"a list of {state.dtype} was never saved as an array")
        return state.tolist() if name == "list" else state.astype(object)
    return rebuilt(name, _decode(state))


def _mapped(value: object, change: Callable[[object], object]) -> object:
    """A copy of plain containers and estimators with every part changed."""
    if isinstance(value, dict) and type(value) is dict:
        return {key: change(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(change(item) for item in value)
    if isinstance(value, BaseEstimator):
        twin = copy.copy(value)
        vars(twin).clear()
        vars(twin).update({name: change(item) for name, item in vars(value).items()})
        return twin
    return value
