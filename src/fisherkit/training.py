"""What one training run did: all that the report and the printed summary need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from sklearn.pipeline import Pipeline


@dataclass(frozen=True)
class HeldOut:
    """Rows that took no part in any choice."""

    how: str
    y: np.ndarray
    predicted: np.ndarray
    probabilities: np.ndarray


@dataclass(frozen=True)
class Training:
    """What one `fisherkit fit` did: all that the report and the printed summary need."""

    model: Pipeline
    X: pd.DataFrame
    y: np.ndarray
    target: str
    source: str
    method: str
    held_out: HeldOut | None
    code: str
    notes: tuple[str, ...]
    seconds: float
