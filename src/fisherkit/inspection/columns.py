"""The columns of X as a fitted model sees them, whatever stands before its kernel.

Columns are what users know: those of a frame, or of an array. Before the kernel a column may be
scaled, or become several features (ranks, indicators of levels). A change of a column is a change
of all of its features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from fisherkit.columns import Features
from fisherkit.core import arrays
from fisherkit.estimators import KernelModel
from fisherkit.methods import TableModel
from fisherkit.rows import Terms

BY_COLUMN = (
    *(StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler),
    *(PowerTransformer, QuantileTransformer),
)


class Preparation(Protocol):
    """From rows with named columns to features, and back to values of one column."""

    @property
    def names(self) -> list[str]:
        """The columns."""
        ...

    @property
    def sources(self) -> np.ndarray:
        """The column that each feature comes from; (d,)."""
        ...

    @property
    def rows_used(self) -> np.ndarray | None:
        """Which rows of its table (n,) a fit used, ``None`` where the model behind knows."""
        ...

    def table(self, X: ArrayLike) -> pd.DataFrame:
        """Rows X as users have them, with these columns; refuses what the model cannot take."""
        ...

    def features(self, table: pd.DataFrame) -> np.ndarray:
        """The features (n, d) of rows."""
        ...

    def values(self, terms: Terms) -> list[np.ndarray]:
        """For each column different values that it may have, as training rows have them."""
        ...


def opened(model: BaseEstimator) -> tuple[BaseEstimator, Preparation]:
    """The estimator that has the kernel, and what stands before it."""
    steps: list[tuple[str, TransformerMixin]] = []
    front = model
    if isinstance(model, Pipeline):
        steps = [
            (name, step)
            for name, step in model.steps[:-1]
            if step is not None and step != "passthrough"
        ]
        front = model[-1]
    check_is_fitted(front)
    if isinstance(front, TableModel):
        if steps:
            raise ValueError(
                f"{type(front).__name__} prepares the columns of a table itself; got a pipeline "
                f"with {type(steps[0][1]).__name__} before it. Leave that step out."
            )
        return front.estimator_, TableColumns(front)
    if not isinstance(front, KernelModel):
        raise TypeError(
            f"This needs an estimator of fisherkit, or a pipeline that ends in one; got "
            f"{type(front).__name__}."
        )
    for name, step in steps:
        if not isinstance(step, BY_COLUMN):
            raise ValueError(
                f"Pipeline step {name!r} ({type(step).__name__}) may mix columns, so that a change "
                "of one column is no change of one feature. Steps that scale each column by "
                "itself, such as StandardScaler, can stay; TableClassifier takes columns of any "
                "kind."
            )
    return front, ArrayColumns(model, front, [step for _, step in steps])


@dataclass(frozen=True)
class ArrayColumns:
    """Columns of numbers, each scaled by itself."""

    whole: BaseEstimator
    model: BaseEstimator
    steps: Sequence[TransformerMixin]

    @property
    def names(self) -> list[str]:
        named = getattr(self.whole, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.count)] if named is None else list(map(str, named))

    @property
    def count(self) -> int:
        return int(self.model.n_features_in_)

    @property
    def sources(self) -> np.ndarray:
        return np.arange(self.count)

    @property
    def rows_used(self) -> np.ndarray | None:
        return None  # the model behind knows them itself

    def table(self, X: ArrayLike) -> pd.DataFrame:
        first = self.steps[0] if self.steps else self.model
        seen = arrays.to_numpy(validate_data(first, X, reset=False)).astype(np.float64)
        index = X.index if isinstance(X, pd.DataFrame) else None
        return pd.DataFrame(seen, columns=self.names, index=index)

    def features(self, table: pd.DataFrame) -> np.ndarray:
        values: ArrayLike = table.to_numpy()
        for step in self.steps:
            if hasattr(step, "feature_names_in_"):
                values = pd.DataFrame(values, columns=step.feature_names_in_)
            values = step.transform(values)
        return np.asarray(values, dtype=np.float64)

    def values(self, terms: Terms) -> list[np.ndarray]:
        found = feature_values(terms, self.count)
        most = max(map(len, found))
        values = np.zeros((most, self.count))
        for j, own in enumerate(found):
            values[: len(own), j] = own
        for step in reversed(self.steps):
            values = step.inverse_transform(values)
        columns = np.asarray(values).T
        return [_values(column[: len(own)]) for column, own in zip(columns, found, strict=True)]


@dataclass(frozen=True)
class TableColumns:
    """Columns of a table: numbers and texts, with holes."""

    model: TableModel

    @property
    def names(self) -> list[str]:
        return list(self.model.features_.columns)

    @property
    def sources(self) -> np.ndarray:
        return self.model.sources

    @property
    def rows_used(self) -> np.ndarray | None:
        return self.model.rows_used

    def table(self, X: ArrayLike) -> pd.DataFrame:
        return self.model.used(X)

    def features(self, table: pd.DataFrame) -> np.ndarray:
        return self.model.transformed(table)

    def values(self, terms: Terms) -> list[np.ndarray]:
        features: Features = self.model.features_
        numbers, texts = features.numbers, {text.name: text for text in features.texts}
        standard = feature_values(terms, len(self.sources))
        place = {name: j for j, name in enumerate(numbers.names)}
        found = []
        for column, name in enumerate(self.names):
            if name in texts:
                found.append(np.array(texts[name].levels, dtype=object))
                continue
            j = place[name]
            if len(knots := numbers.knots_of(j)[0]):
                found.append(knots)
                continue
            own = standard[int(np.flatnonzero(self.sources == column)[0])]
            found.append(_values(own * numbers.scale[j] + numbers.mean[j]))
        return found


def feature_values(terms: Terms, d: int) -> list[np.ndarray]:
    """The values of each feature among the centres, empty where no kernel sees it."""
    found = [np.empty(0)] * d
    for part in terms.parts:
        for place, j in enumerate(part.columns):
            if not len(found[j]) and part.scale[place] != 0:
                found[j] = part.centres[:, place] / part.scale[place] + part.shift[place]
    return found


def _values(scaled_back: np.ndarray) -> np.ndarray:
    """Different numbers, without the rounding of a scale and its inverse."""
    largest = float(np.abs(scaled_back).max(initial=0.0))
    digits = 11 - math.floor(math.log10(largest)) if 0 < largest < math.inf else 0
    return np.unique(np.round(scaled_back, min(digits, 300)) + 0.0)
