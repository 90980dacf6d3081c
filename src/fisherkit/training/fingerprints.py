"""Which rows of a table a model has seen in training: salted fingerprints in the model file.

A fingerprint is a keyed BLAKE2b hash of the values of one row, features only, cut to 64 bits. It
cannot be turned back into a row; whoever can guess all values of a row can see whether it was
there. A file has a salt of its own, so that fingerprints of two files cannot be compared.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pandas as pd

from fisherkit.columns import number_mask, row_parts
from fisherkit.models import Metadata, ModelFileError

MOST = 1_000_000  # fingerprints that a file keeps: the smallest, a fair sample of all rows

_BYTES = 8
_SALT = 16  # bytes
_REPEATS = 0.9  # distinct rows among all, below which a new row may well equal one by chance


@dataclass(frozen=True)
class TrainingRows:
    """Fingerprints of the ``count`` rows of a training: sorted, each once.

    ``whole`` says that none was left out; otherwise only rows whose fingerprint is not above the
    largest one kept can be told.
    """

    salt: str
    prints: np.ndarray
    count: int
    whole: bool = True

    @classmethod
    def of(cls, X: pd.DataFrame) -> TrainingRows:
        """Fingerprints of the features of all rows, in memory or mapped."""
        salt, kept, whole = secrets.token_hex(_SALT), np.empty(0, dtype=np.uint64), True
        for rows in row_parts(X, X.shape[1]):
            kept = np.union1d(kept, _prints(X.iloc[rows], salt))
            whole = whole and len(kept) <= MOST
            kept = kept[:MOST]
        return cls(salt=salt, prints=kept, count=len(X), whole=whole)

    @classmethod
    def read(cls, entry: Metadata | None) -> TrainingRows | None:
        """From what `entry` wrote into a model file; ``None`` where there is nothing.

        Raises
        ------
        ModelFileError
            If something else is there.
        """
        if entry is None:
            return None
        try:
            rows = cls(**entry)
            sound = len(bytes.fromhex(rows.salt)) == _SALT and rows.prints.dtype == np.uint64
            sound = sound and rows.prints.ndim == 1 and 0 < len(rows.prints) <= rows.count
        except (TypeError, ValueError, AttributeError):
            sound = False
        if not sound:
            raise ModelFileError(
                "The fingerprints of the training rows in the model file are not what fisherkit "
                "writes. Train the model again, or get the file anew."
            )
        return rows

    @property
    def entry(self) -> dict[str, object]:
        """What goes into a model file."""
        return dict(vars(self))

    @property
    def repeats(self) -> bool:
        """Whether rows of the training repeat one another so much that a new one may do, too."""
        return self.whole and len(self.prints) < _REPEATS * self.count

    def told(self, X: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """For each row whether it can be told, and whether it equals a row of the training."""
        prints = _prints(X, self.salt)
        known = np.isin(prints, self.prints)
        if self.whole:
            return np.ones(len(X), dtype=bool), known
        return prints <= self.prints[-1], known


def _prints(X: pd.DataFrame, salt: str) -> np.ndarray:
    """Fingerprints (n,) of rows whose columns have the names and the order of the training."""
    key = bytes.fromhex(salt)
    mask = number_mask(X)
    values = X.iloc[:, np.flatnonzero(mask)].to_numpy(dtype=np.float64, na_value=np.nan) + 0.0
    values[np.isnan(values)] = np.nan  # one of many
    words = [_words(X.iloc[:, place], key) for place in np.flatnonzero(~mask)]
    cells = np.column_stack([values.view(np.uint64), *words])
    rows = np.ascontiguousarray(cells).astype("<u8").tobytes()
    width = _BYTES * cells.shape[1]
    hashes = b"".join(
        blake2b(rows[start : start + width], digest_size=_BYTES, key=key).digest()
        for start in range(0, len(rows), width)
    )
    return np.frombuffer(hashes, dtype="<u8").astype(np.uint64)


def _words(values: pd.Series, key: bytes) -> np.ndarray:
    """A number for each text of a column, 0 where it is missing; (n,)."""
    places, levels = pd.factorize(values)
    hashes = [
        int.from_bytes(
            blake2b(
                str(level).encode("utf-8", "surrogatepass"), digest_size=_BYTES, key=key
            ).digest()
        )
        for level in levels
    ]
    return np.array([*hashes, 0], dtype=np.uint64)[places]
