"""Training and test rows of the benchmark sets.

The original splits of the IDA benchmark come first, where the data holds them; seeded random ones
of the same size follow. A split depends on the name of the set and its number alone. UCI sets have
no standard splits: random halves, as in Harrison and Pasupa (2010).
"""

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from sklearn.preprocessing import StandardScaler

from fisherkit.datasets import load_ida, load_uci

# From small to large, so that an unfinished run is of use.
IDA = (
    *("thyroid", "titanic", "heart", "breast_cancer", "banana", "ringnorm", "twonorm", "waveform"),
    *("diabetis", "flare_solar", "german", "splice", "image"),
)
UCI = ("sonar", "liver", "ionosphere", "wdbc", "credit", "wbc", "chess")
LARGE = ("splice", "image", "chess")  # 20 splits instead of 100
# rows in training and in all, which tables need where the data is not at hand
SIZES = {
    "thyroid": (140, 215),
    "titanic": (150, 2201),
    "heart": (170, 270),
    "breast_cancer": (200, 277),
    "banana": (400, 5300),
    "ringnorm": (400, 7400),
    "twonorm": (400, 7400),
    "waveform": (400, 5000),
    "diabetis": (468, 768),
    "flare_solar": (666, 1066),
    "german": (700, 1000),
    "splice": (1000, 3175),
    "image": (1300, 2310),
    "sonar": (104, 208),
    "liver": (172, 345),
    "ionosphere": (175, 351),
    "wdbc": (284, 569),
    "credit": (326, 653),
    "wbc": (341, 683),
    "chess": (1598, 3196),
}


@dataclass(frozen=True)
class Split:
    """Both parts of a split, and whether the benchmark's authors drew it ("original")."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    origin: str


def n_splits(name: str, asked: int = 100) -> int:
    """Number of splits of a set: at most 20 of the large ones."""
    return min(asked, 20) if name in LARGE else asked


def random_split(name: str, split: int, n_rows: int, n_train: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows of one seeded split."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), split])
    order = rng.permutation(n_rows)
    return order[:n_train], order[n_train:]


@lru_cache(maxsize=2)
def load(name: str) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """X, y, the number of training rows and the original training splits of a set."""
    if name in UCI:
        data = load_uci(name)
        X = data.get("data_onehot", data.data)
        return X, data.target, len(X) // 2, np.empty((0, 0), dtype=np.intp)
    data = load_ida(name)
    return data.data, data.target, data.n_train, data.train_idx


def split_of(name: str, split: int, *, scale: str = "training") -> Split:
    """Split number ``split`` of a set, standardised on the training part or on all rows."""
    X, y, n_train, original = load(name)
    known = split < len(original)
    train = original[split] if known else random_split(name, split, len(y), n_train)[0]
    test = np.setdiff1d(np.arange(len(y)), train)
    scaler = StandardScaler().fit(X[train] if scale == "training" else X)
    return Split(
        X=scaler.transform(X[train]),
        y=y[train],
        X_test=scaler.transform(X[test]),
        y_test=y[test],
        origin="original" if known else "random",
    )
