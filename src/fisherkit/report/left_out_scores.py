"""Left-out scores as the report page needs them: few bytes, and counts that stay exact.

The page counts rows whose log-odds pass a threshold, for every threshold on its slider and every
mu on its path. Scores and thresholds share one scale of at most 65,536 levels: a score becomes the
number of *edges* below it, a threshold is the position k of an edge, and ``score > edge_k`` holds
exactly where ``level > k``. All thresholds of the sliders are edges. Further edges separate the
scores at the chosen mu (to single precision), so that their ranks are kept; the remaining edges
separate as many scores at other values of mu as they can.
"""

from __future__ import annotations

import math
from base64 import b64encode
from dataclasses import dataclass

import numpy as np

from fisherkit.interfaces import Json

LEVELS = 65_536
LARGEST_PATH = 650_000  # scores that fit, with the page, into 3 MB
LARGEST_LOGITS = 200_000  # of three and more classes, one for each row and class
LARGEST_ROWS = 60_000  # rows whose ranks the scale can keep
STEP = math.log(2) / 8
STOPS = STEP * np.arange(-80, 81)  # thresholds in log-odds: probabilities 0.001 to 0.999
BINS = np.linspace(0.1, 0.9, 9)  # probabilities that divide the reliability diagram


@dataclass(frozen=True)
class ScoreScale:
    """Edges in log-odds, ascending and exact in single precision."""

    edges: np.ndarray

    @classmethod
    def of(cls, logits: np.ndarray, chosen: int) -> ScoreScale:
        """For logits (n, p) at p values of mu."""
        needed = np.concatenate([STOPS, np.log(BINS / (1 - BINS)), _between(logits[:, chosen])])
        needed = np.unique(needed.astype(np.float32))
        others = _between(logits)
        spare = LEVELS - 1 - len(needed)
        if len(others) > spare:
            others = others[np.linspace(0, len(others) - 1, spare).astype(int)]
        return cls(np.union1d(needed, others.astype(np.float32)).astype(np.float64))

    def levels(self, logits: np.ndarray) -> np.ndarray:
        """The number of edges below each logit."""
        return np.searchsorted(self.edges, logits, side="left").astype(np.uint16)

    def positions(self, thresholds: np.ndarray) -> list[int]:
        """Positions of thresholds that are edges."""
        return np.searchsorted(self.edges, thresholds.astype(np.float32)).tolist()


def _between(values: np.ndarray) -> np.ndarray:
    """Middles between neighbours of the distinct values, ascending."""
    distinct = np.unique(values)
    return distinct[:-1] + np.diff(distinct) / 2


def packed(values: np.ndarray, kind: str) -> str:
    """Little-endian bytes of an array, in base64; ``kind`` is a NumPy type string."""
    return b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def stratified(index: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Ascending positions of ``size`` rows with the class shares of all rows, and every class."""
    n = len(index)
    if size >= n:
        return np.arange(n)
    rng = np.random.default_rng(seed)
    counts = np.bincount(index)
    share = counts * size / n
    take = np.floor(share).astype(int)
    remainders = np.argsort(take - share, kind="stable")
    take[remainders[: size - int(take.sum())]] += 1
    take = np.maximum(take, np.minimum(counts, 1))
    parts = [
        rng.choice(np.flatnonzero(index == c), m, replace=False) for c, m in enumerate(take) if m
    ]
    return np.sort(np.concatenate(parts))


def wilson(wrong: float, n: float, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson's 95 % interval for a rate of which ``wrong`` of ``n`` were seen."""
    rate = wrong / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def live(
    logits: np.ndarray,
    index: np.ndarray,
    *,
    chosen: int,
    log_mu: np.ndarray | None,
    sample: int,
    seed: int,
) -> dict[str, Json]:
    """The data behind the sliders.

    Parameters
    ----------
    logits : (n, k, p)
        Left-out logits at p values of mu; rows with NaN were never left out, and are not counted.
    index : (n,)
        Class of each row.
    chosen : int
        Position of the mu in use.
    log_mu : (p,) or None
        Decimal logarithms, in units of tr(G)/n; ``None`` without a path.
    sample : int
        From more rows than this, a stratified sample is taken.
    """
    known = np.flatnonzero(np.all(np.isfinite(logits[:, :, chosen]), axis=1))
    logits, index = logits[known], index[known]
    most = min(sample, LARGEST_ROWS, LARGEST_PATH // logits.shape[2])
    if logits.shape[1] > 1:
        most = min(most, LARGEST_LOGITS // logits.shape[1])
    rows = stratified(index, most, seed)
    data: dict[str, Json] = {
        "rows": len(rows),
        "of": len(index),
        "chosen": chosen,
        "logMu": None if log_mu is None else np.round(log_mu, 4).tolist(),
        "labels": packed(index[rows], "|u1" if index.max() < 256 else "<u2"),
    }
    if logits.shape[1] > 1:
        decided = np.argmax(logits[rows], axis=1).T
        return data | {
            "decided": packed(decided, "|u1" if logits.shape[1] <= 256 else "<u2"),
            "logits": packed(logits[rows, :, chosen], "<f4"),
        }
    path = logits[rows, 0, :]
    scale = ScoreScale.of(path, chosen)
    return data | {
        "stops": STOPS.tolist(),
        "stopLevels": scale.positions(STOPS),
        "binLevels": scale.positions(np.log(BINS / (1 - BINS))),
        "edges": packed(scale.edges, "<f4"),
        "levels": packed(scale.levels(path).T, "<u2"),
    }


def thinned(*columns: np.ndarray, most: int = 200) -> list[list[float]]:
    """At most ``most`` points of a curve, its ends among them, to four digits."""
    n = len(columns[0])
    keep = np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))
    return [[float(f"{value:.4g}") for value in np.asarray(column)[keep]] for column in columns]
