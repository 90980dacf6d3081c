"""The public originals of the benchmark sets: downloaded once, checked and cached.

The IDA benchmark is one MATLAB file, fetched with pooch. It keeps each pattern once; the indices
of a realisation repeat those that the set holds several times. The UCI sets come from OpenML.

A file is checked on arrival (SHA-256 of the IDA file; scikit-learn compares OpenML's MD5), and
what is made of it is compared with `FINGERPRINTS`, so that a set is the same wherever it comes
from, up to the order of its rows.
"""

import hashlib
import os
import warnings
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from types import ModuleType

import numpy as np
from scipy.io import loadmat
from sklearn.datasets import fetch_openml

ARCHIVE_URL = (
    "https://github.com/tdiethe/gunnar_raetsch_benchmark_datasets/raw/master/benchmarks.mat"
)
ARCHIVE_SHA256 = "47c19e4bc4716edc4077cfa5ea61edf4d02af4ec51a0ecfe035626ae8b561c75"


@dataclass(frozen=True)
class OpenMLSource:
    """Where OpenML keeps a UCI set, which column is the class and which of its values is 1."""

    data_id: int
    positive: str
    target: str = "default-target"
    # indicators of all categories but the first of each feature; otherwise of all of them
    drop_first: bool = False


OPENML = {
    "chess": OpenMLSource(3, "won", drop_first=True),
    "credit": OpenMLSource(29, "+"),
    "ionosphere": OpenMLSource(59, "g"),
    # OpenML predicts the drinks; the class of the papers is the selector
    "liver": OpenMLSource(8, "2", target="selector"),
    "sonar": OpenMLSource(40, "Mine"),
    "wbc": OpenMLSource(15, "malignant"),
    "wdbc": OpenMLSource(1510, "2"),
}

# `fingerprint` of each set
FINGERPRINTS = {
    "ida_banana": "6a12ef3fd1b2c876bf835b6e799deb7dc754e04d92c58fb6607ce9408ac2c309",
    "ida_breast_cancer": "0a2c44fc06ec4dd9ef4f885804099693fad1a565784425e439f6bee84b07ae5d",
    "ida_diabetis": "5c9bcba1280065c67a988777f32e1f73cb0c9ce06aa30b8f7847b3f5b40fbc82",
    "ida_flare_solar": "0ac468d80977a1e939e23c7f0cad7fc26e21958b7261f7314a994b72796966fa",
    "ida_german": "11c89b2e4a26a73f125342a583a53a6ee57570c19658752188bcb02e1f44ca70",
    "ida_heart": "835447a9cf622e4a68bbb84e17339927d87bbf4c8dab1ff00f3467470b35877c",
    "ida_image": "46858c225f1d49541a6a6c0b5863ffbebef479a803423e63a4043038e764c069",
    "ida_ringnorm": "1fc8387200e117a18f18c71fc655ebe48807b3930be6725226837422c6e93631",
    "ida_splice": "4ae3fac64771ac60533b263a51e4cfbdf2c62b2d15aa864bfea36f4724fcb0de",
    "ida_thyroid": "ec7ffd28b474d9a940a7bcf3bdb7cb928d70ddbe32367682d6c09cc4e8109490",
    "ida_titanic": "be2765a3e535c8c06c82ef6f9ab65b84ed876ce4307d5f12c42e7d5d44d62dc7",
    "ida_twonorm": "eacce63734a1120cdc2dab50cb64f6224bf827a9716d2778197090dcb2ec6521",
    "ida_waveform": "7d2e7e93d5cb6ddec5e178aaf011c63e1612133cd485ef01178a0eef88ad59f1",
    "uci_chess": "deb0eadb6fe2ca93f7ad3a4b97b8cf07a9e14da5f9128bbf6345cb6f75a1af41",
    "uci_credit": "8806e80f9c1b8cbae7b3290c94c85795cfa6e1a6617a65576e01201f2c47b511",
    "uci_ionosphere": "1633d80ee90f4b4b08cba703ba936d7683fb4f723f2156f62ff3bad9061e131d",
    "uci_liver": "d3e0587f55237f9dd07dd6ef8c7f55dd0e928909ff5ff86d8b48fb34512c60f0",
    "uci_sonar": "ed98dcbc81babb058086679e12c4047c0b251f6a577f2978c960bd5ea03c8da6",
    "uci_wbc": "f5941e139d250525ddcefa84be1c77ddf651625a61a790b2fd01e64cf7b0e1fc",
    "uci_wdbc": "9e45090004ff2d0927d6934c396f16e8229138e724a6aebf1d1832bbcfe38f60",
}


def fetch_ida(name: str) -> dict[str, np.ndarray]:
    """Arrays X, y, train_idx and test_idx of an IDA set, from the cache or the network.

    Raises
    ------
    OSError
        If the file is neither cached nor reachable, or fails its checksum.
    ValueError
        If it holds other rows than the benchmark.
    """
    folder = cache_folder()
    try:
        path = _pooch().retrieve(
            ARCHIVE_URL, known_hash=f"sha256:{ARCHIVE_SHA256}", fname="benchmarks.mat", path=folder
        )
    except (OSError, ValueError) as error:
        raise OSError(
            f"{ARCHIVE_URL} could not be fetched ({error}). By hand: put that file, with "
            f"SHA-256 {ARCHIVE_SHA256}, into the folder {folder}"
        ) from error
    record = loadmat(path, variable_names=[name])[name][0, 0]
    X, y, train_idx, test_idx = _expand(name, *(record[key] for key in ("x", "t", "train", "test")))
    _compare(f"ida_{name}", X, y, ARCHIVE_URL)
    return {"X": X, "y": y, "train_idx": train_idx, "test_idx": test_idx}


def fetch_uci(name: str) -> dict[str, np.ndarray]:
    """Arrays X, y and, where there are categories, X_onehot of a UCI set.

    Rows with missing values are left out. A category is coded by its place in the sorted list of
    those that remain. Numeric features precede the indicators in X_onehot.

    Raises
    ------
    OSError
        If the set is neither cached nor reachable, or fails its checksum.
    ValueError
        If it holds other rows than the set of the papers.
    """
    source = OPENML[name]
    url = f"https://www.openml.org/d/{source.data_id}"
    folder = cache_folder()
    try:
        with warnings.catch_warnings():
            # the class of liver is not the target that OpenML advises
            warnings.filterwarnings("ignore", message="target_column=.* has flag is_ignore")
            table = fetch_openml(
                data_id=source.data_id,
                target_column=source.target,
                data_home=folder,
                as_frame=False,
                parser="liac-arff",  # needs no pandas
            )
    except (OSError, ValueError, HTTPException) as error:
        raise OSError(
            f"{url} could not be fetched ({error}). By hand: load the set on a machine that "
            f"reaches it and copy its cache to the folder {folder}"
        ) from error
    complete = ~np.isnan(table.data).any(axis=1)
    X, y = table.data[complete], (table.target[complete] == source.positive).astype(np.int64)
    categorical = np.isin(table.feature_names, list(table.categories))
    indicators = []
    for j in np.flatnonzero(categorical):
        labels = np.asarray(table.categories[table.feature_names[j]], dtype=str)
        present, X[:, j] = np.unique(labels[X[:, j].astype(np.intp)], return_inverse=True)
        indicators.append(X[:, [j]] == np.arange(len(present))[source.drop_first :])
    _compare(f"uci_{name}", X, y, url)
    if not indicators:
        return {"X": X, "y": y}
    return {"X": X, "y": y, "X_onehot": np.column_stack([X[:, ~categorical], *indicators])}


def cache_folder() -> Path:
    """The folder named by ``FISHERKIT_CACHE``, or the user's cache."""
    folder = os.environ.get("FISHERKIT_CACHE")
    return Path(folder) if folder else Path(_pooch().os_cache("fisherkit"))


def fingerprint(X: np.ndarray, y: np.ndarray) -> str:
    """SHA-256 of the rows of (X, y) to six digits, whatever their order."""
    # a factor above 1 takes decimals off the ties, which an error in the last bit would decide
    table = np.column_stack([X, y]) * (1 + 1e-10) + 0.0  # + 0.0 makes -0.0 a plain zero
    form = " ".join(["%.5e"] * table.shape[1])
    lines = sorted(form % tuple(row) for row in table)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _expand(
    name: str, x: np.ndarray, t: np.ndarray, train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Repeat each pattern as often as a realisation does, and number the rows in its splits.

    Equal rows are told apart by giving the first ones to the training part.
    """
    n_train = train.shape[1]
    drawn = np.hstack([train, test]).astype(np.intp) - 1  # MATLAB counts from 1
    pattern = np.sort(drawn[0])  # of each row
    order = np.argsort(drawn, axis=1, kind="stable")
    whole = (np.take_along_axis(drawn, order, axis=1) == pattern).all(axis=1)
    if not whole.all():
        warnings.warn(
            f"{np.count_nonzero(~whole)} of the {len(whole)} realisations of {name} do not hold "
            "each of its rows once and are left out",
            stacklevel=2,
        )
    rows = np.argsort(order[whole], axis=1)  # the inverse of each order
    y = (t.ravel()[pattern] > 0).astype(np.int64)
    return x[pattern].astype(np.float64), y, rows[:, :n_train], rows[:, n_train:]


def _compare(key: str, X: np.ndarray, y: np.ndarray, url: str) -> None:
    """Refuse rows that are not those of the benchmark."""
    if fingerprint(X, y) != FINGERPRINTS[key]:
        raise ValueError(
            f"{url} was read as {X.shape[0]} rows of {X.shape[1]} features for {key}, which are "
            f"not those of the benchmark: the source has changed, or the cache in "
            f"{cache_folder()} is damaged; remove it and try again"
        )


def _pooch() -> ModuleType:
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            "downloads need the package pooch: pip install 'fisherkit[data]'"
        ) from error
    return pooch
