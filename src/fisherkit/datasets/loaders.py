"""Loaders for the benchmark sets: read from a folder, or fetched, checked and kept."""

import difflib
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal, overload

import numpy as np
from sklearn.utils import Bunch

from fisherkit.datasets.fetch import OPENML, fetch_ida, fetch_uci

# training rows of one realisation in the IDA benchmark
_IDA_TRAINING_ROWS = {
    "banana": 400,
    "breast_cancer": 200,
    "diabetis": 468,
    "flare_solar": 666,
    "german": 700,
    "heart": 170,
    "image": 1300,
    "ringnorm": 400,
    "splice": 1000,
    "thyroid": 140,
    "titanic": 150,
    "twonorm": 400,
    "waveform": 400,
}

_IDA_DESCR = """\
{name}: {n} rows, {d} features, 2 classes, from the IDA benchmark.

Features are as preprocessed by the benchmark's authors; label 1 is the benchmark's +1.
One realisation trains on {n_train} rows and tests on the other {n_test}; {n_splits} of the original
realisations are in train_idx and test_idx.

G. Rätsch, T. Onoda and K.-R. Müller. Soft margins for AdaBoost. Machine Learning 42(3):287-320,
2001. Archived as DOI 10.5281/zenodo.18110.
"""
_UCI_DESCR = """\
{name}: {n} rows, {d} features, 2 classes, from the UCI machine learning repository.

D. Dua and C. Graff. UCI machine learning repository. University of California, Irvine, School of
Information and Computer Sciences, 2017.
"""


@overload
def load_ida(name: str, *, return_X_y: Literal[False] = False) -> Bunch: ...
@overload
def load_ida(name: str, *, return_X_y: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...
def load_ida(name: str, *, return_X_y: bool = False) -> Bunch | tuple[np.ndarray, np.ndarray]:
    """Load one of the 13 two-class sets of the IDA benchmark.

    From the folder named by ``FISHERKIT_DATA`` where it holds the set; otherwise downloaded once.

    Parameters
    ----------
    name : str
        banana, breast_cancer, diabetis, flare_solar, german, heart, image, ringnorm, splice,
        thyroid, titanic, twonorm or waveform.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : Bunch
        data : ndarray of shape (n, d)
            The features as the benchmark preprocessed them.
        target : ndarray of shape (n,)
            0 or 1; 1 is the benchmark's +1.
        n_train : int
            Training rows of one realisation.
        train_idx, test_idx : ndarray of shape (n_splits, n_train), (n_splits, n - n_train)
            Original realisations, one per row. The public source has all 100 (20 for image and
            splice); a file may hold fewer, or none; the array then has no rows.
        DESCR : str
            Description and citation.
    (X, y) : tuple of ndarray
        If ``return_X_y``.

    Raises
    ------
    ValueError
        For an unknown name, or if the public source holds other rows than expected.
    FileNotFoundError
        If ``FISHERKIT_DATA`` names no folder, or has no such file and the public source cannot be
        reached.

    Examples
    --------
    Run in the tests where ``FISHERKIT_DATA`` names a folder with the data.

    >>> from fisherkit.datasets import load_ida
    >>> banana = load_ida("banana")
    >>> banana.data.shape, banana.n_train
    ((5300, 2), 400)
    """
    arrays = _arrays("ida", name, _IDA_TRAINING_ROWS, fetch_ida)
    X, y = arrays["X"], arrays["y"].astype(np.int64)
    if return_X_y:
        return X, y
    n_train = _IDA_TRAINING_ROWS[name]
    n_test = len(y) - n_train
    train_idx = arrays.get("train_idx", np.empty((0, n_train))).astype(np.intp)
    test_idx = arrays.get("test_idx", np.empty((0, n_test))).astype(np.intp)
    sizes = {"n_train": n_train, "n_test": n_test, "n_splits": len(train_idx)}
    return Bunch(
        data=X,
        target=y,
        n_train=n_train,
        train_idx=train_idx,
        test_idx=test_idx,
        DESCR=_IDA_DESCR.format(name=name, n=len(y), d=X.shape[1], **sizes),
    )


@overload
def load_uci(name: str, *, return_X_y: Literal[False] = False) -> Bunch: ...
@overload
def load_uci(name: str, *, return_X_y: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...
def load_uci(name: str, *, return_X_y: bool = False) -> Bunch | tuple[np.ndarray, np.ndarray]:
    """Load one of seven two-class UCI sets.

    From the folder named by ``FISHERKIT_DATA`` where it holds the set; otherwise downloaded once
    from OpenML.

    Parameters
    ----------
    name : str
        chess, credit, ionosphere, liver, sonar, wbc or wdbc.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : Bunch
        data : ndarray of shape (n, d)
            The features; categories, where there are any, are integer codes.
        target : ndarray of shape (n,)
            0 or 1.
        data_onehot : ndarray of shape (n, d')
            For chess and credit: the same rows with one indicator per category.
        DESCR : str
            Description and citation.
    (X, y) : tuple of ndarray
        If ``return_X_y``.

    Raises
    ------
    ValueError, FileNotFoundError
        As `load_ida` does.

    Examples
    --------
    >>> from fisherkit.datasets import load_uci
    >>> X, y = load_uci("sonar", return_X_y=True)
    >>> X.shape
    (208, 60)
    """
    arrays = _arrays("uci", name, OPENML, fetch_uci)
    X, y = arrays["X"], arrays["y"].astype(np.int64)
    if return_X_y:
        return X, y
    bunch = Bunch(data=X, target=y, DESCR=_UCI_DESCR.format(name=name, n=len(y), d=X.shape[1]))
    if "X_onehot" in arrays:
        bunch.data_onehot = arrays["X_onehot"]
    return bunch


def _arrays(
    collection: str,
    name: str,
    names: Collection[str],
    fetch: Callable[[str], dict[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Return the arrays of a set, from ``FISHERKIT_DATA`` or else from its public source."""
    if name not in names:
        near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
        hint = f" (nearest: {', '.join(near)})" if near else ""
        raise ValueError(
            f"name={name!r} is no {collection.upper()} set{hint}; choose one of {', '.join(names)}"
        )
    folder = os.environ.get("FISHERKIT_DATA")
    if folder and not Path(folder).is_dir():
        raise FileNotFoundError(f"FISHERKIT_DATA={folder!r} is not a folder")
    file = f"{collection}_{name}.npz"
    if folder and (path := Path(folder) / file).is_file():
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    try:
        return fetch(name)
    except (OSError, ImportError) as error:
        missing = f"={folder!r} holds no file {file}" if folder else ", which is not set"
        raise FileNotFoundError(
            f"{collection.upper()} set {name} not found. Tried the folder named by the environment "
            f"variable FISHERKIT_DATA{missing}. Tried its public source: {error}. Or let "
            f"FISHERKIT_DATA name a folder with a file {file} that holds X of shape (n, d) and y "
            "of 0 and 1"
        ) from error
