"""The state of a long solution in a file, so that a fit that was stopped goes on from there."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO

import numpy as np

from fisherkit.core import arrays
from fisherkit.core.kernels import Kernel, fingerprints
from fisherkit.core.solvers.symmetric import System
from fisherkit.whole_files import check, written

_EVERY = 30.0  # seconds between states that are written
_PATIENCE = 20.0  # times the seconds that writing takes: no more often
_FORMAT = "fisherkit checkpoint 1"
_NEAR = 1e-6  # relative difference of mu and gamma that other threads may make

State = Mapping[str, np.ndarray]


@dataclass
class Checkpoint:
    """The file that a solution of this system keeps its state in; none without a path."""

    path: Path | None
    system: System
    rows: np.ndarray
    next: float = 0.0

    def __post_init__(self) -> None:
        if self.path is not None:
            check(self.path)
            self.next = time.monotonic() + _EVERY

    def read(self) -> tuple[dict[str, np.ndarray], bool] | None:
        """The state in the file, and whether mu and gamma are the same to the last bit.

        ``None`` without a file; `ValueError` if it belongs to something else.
        """
        if self.path is None or not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as file, np.load(file, allow_pickle=False) as parts:
                state = {name: parts[name] for name in parts.files}
            known = str(state.pop("format")) == _FORMAT
        except (KeyError, OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(self._refusal("is no checkpoint of fisherkit")) from error
        if not known:
            raise ValueError(self._refusal("is a checkpoint of another version of fisherkit"))
        here, there = self._settings(), state.pop("settings")
        same = state.pop("problem").item() == self._problem()
        if not same or not np.allclose(there, here, rtol=_NEAR, atol=0.0, equal_nan=True):
            what = "rows, targets, weights or kernel" if not same else "width or regularisation"
            raise ValueError(self._refusal(f"belongs to another fit: its {what} differ"))
        return state, bool(np.array_equal(there, here, equal_nan=True))

    def due(self) -> bool:
        """Whether it is time to write."""
        return self.path is not None and time.monotonic() >= self.next

    def write(self, state: State) -> None:
        """Put the state in the place of the one before."""
        if self.path is None:
            return
        start = time.monotonic()
        with written(self.path) as file:
            self._write(file, state)
        end = time.monotonic()
        self.next = end + max(_EVERY, _PATIENCE * (end - start))

    def _write(self, file: IO[bytes], state: State) -> None:
        head = {
            "format": np.array(_FORMAT),
            "problem": np.array(self._problem()),
            "settings": self._settings(),
        }
        with zipfile.ZipFile(file, "w") as archive:  # as numpy.load reads it
            for name, part in {**head, **state}.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asanyarray(part), allow_pickle=False)

    def _refusal(self, reason: str) -> str:
        return (
            f"The file {str(self.path)!r}, given as checkpoint, {reason}. Give another path, or "
            "delete the file."
        )

    def _settings(self) -> np.ndarray:
        gamma = self.system.gram.kernel.gamma
        return np.array([self.system.mu, np.nan if gamma is None else gamma], dtype=np.float64)

    def _problem(self) -> str:
        """A fingerprint of all but the settings."""
        system, digest = self.system, blake2b(digest_size=16)
        gram, weights = system.gram, system.weights
        for part in (gram.X, system.both, weights.frequency[:, None], weights.cost[:, None]):
            host = arrays.to_numpy(part)
            digest.update(repr(host.shape).encode())
            digest.update(fingerprints(np.asarray(host, dtype=np.float64)).tobytes())
        digest.update(np.asarray(self.rows, dtype=np.int64).tobytes())
        digest.update(f"{_words(gram.kernel)} {type(system.bias).__name__}".encode())
        return digest.hexdigest()


def _words(kernel: Kernel) -> str:
    """The kernel but for its width."""
    name = getattr(kernel.name, "__qualname__", kernel.name)
    return f"{name} {kernel.degree} {kernel.coef0} {sorted(kernel.params.items())}"
