"""From a table to a fitted pipeline: what ``fisherkit fit`` does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline


@dataclass(frozen=True)
class HeldOut:
    """Rows that took no part in any choice.

    ``how`` says which rows, for example "20 % of the rows, set aside"; ``y`` (n,) are their
    labels, ``predicted`` (n,) those of the model that has not seen them, ``probabilities``
    (n, n_classes) its probabilities.
    """

    how: str
    y: np.ndarray
    predicted: np.ndarray
    probabilities: np.ndarray


@dataclass(frozen=True)
class Training:
    """What one ``fisherkit fit`` did: all that the report and the printed summary need.

    ``model`` has the steps "prepare" (a `ColumnTransformer`) and "classify" (a classifier of
    fisherkit), fitted on all training rows ``X`` and their labels ``y``; rows without a label are
    in neither. ``source`` is the name of the file, ``method`` one of fisher, committee, sparse,
    forward and bayes, ``code`` Python that reproduces the model, and ``notes`` are sentences that
    a user should read.
    """

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
