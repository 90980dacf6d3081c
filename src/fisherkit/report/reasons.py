"""What the page says of columns and rows: how much columns matter, their effect, examples.

Each part has a bound on its cost, which the page states where it is reached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fisherkit.columns import in_memory, is_number
from fisherkit.estimators import FisherCommitteeClassifier, KernelModel, inside
from fisherkit.inspection import ColumnImportance, Explanation, column_importance, explain
from fisherkit.training import Training

EFFECTS = 4  # columns whose effect is drawn
_ROWS, _FEW_ROWS, _REPEATS = 1000, 30, 3  # judged when columns are permuted
_COMMITTEE_ROWS, _COMMITTEE_LARGEST = 150, 2000  # a committee is left out member by member
_VALUES = 1e9  # kernel values that the importance of columns may take
_MANY_COLUMNS = 2000  # beyond which columns are not permuted one by one
_CHANGED_COLUMNS = 500  # up to which changes of a single column are looked for
_EXPLAINED = 3e9  # numbers that explanations may pass over
_EFFECT_ROWS, _GRID, _LEVELS = 200, 15, 8


@dataclass(frozen=True)
class Mattering:
    """How much columns matter, and a sentence on the rows that say so."""

    found: ColumnImportance
    how: str

    @property
    def order(self) -> np.ndarray:
        """Places of the columns, the most important first."""
        return np.argsort(-self.found.rise, kind="stable")


def mattering(training: Training, seed: int) -> Mattering | None:
    """How much the answers suffer when a column is permuted; ``None`` if it cannot be said."""
    model = training.model.estimator_
    X, y, columns = training.X, np.asarray(training.y), training.X.shape[1]
    if not isinstance(model, KernelModel) or columns > _MANY_COLUMNS:
        return None
    left_out = None
    committee = isinstance(model, FisherCommitteeClassifier)
    most = _COMMITTEE_ROWS if committee else _affordable_rows(training)
    if _keeps_no_rows(training) or (
        committee and (len(y) > _COMMITTEE_LARGEST or training.weights is not None)
    ):
        left_out = False
        rows = np.sort(np.random.default_rng(seed).permutation(len(y))[:most])
        X, y = in_memory(X.iloc[rows]), y[rows]
    found = column_importance(
        training.model,
        X,
        y,
        left_out=left_out,
        n_repeats=_REPEATS,
        max_rows=most,
        random_state=seed,
    )
    which = f"{found.rows:,} of the training rows, drawn at random"
    if found.rows == len(training.y):
        which = "all training rows"
    how = (
        f"Judged on {which}, each by the model without that row (exact leave-one-out)."
        if found.left_out
        else f"Judged on {which}, by the model that has seen them: small effects may be flattered."
    )
    return Mattering(found, how)


def _keeps_no_rows(training: Training) -> bool:
    model = training.model.estimator_
    return inside(model).in_blocks or training.features is not None


def _affordable_rows(training: Training) -> int:
    terms = inside(training.model.estimator_).score_terms
    centres = sum(len(part.centres) for part in terms.parts)
    rows = int(_VALUES / (max(centres, 1) * _REPEATS * training.X.shape[1]))
    return min(_ROWS, max(_FEW_ROWS, rows))


@dataclass(frozen=True)
class Effect:
    """The mean answer over rows if all of them had the same value in one column.

    ``values`` are numbers or words, ``means`` (g, k) probabilities of all classes, or predictions.
    """

    column: str
    values: list[float] | list[str]
    means: np.ndarray
    rows: int

    @property
    def numeric(self) -> bool:
        return not isinstance(self.values[0], str)


Predict = Callable[[pd.DataFrame], np.ndarray]


def effects(training: Training, columns: list[str], predict: Predict, seed: int) -> list[Effect]:
    """Partial dependence of columns, on quantiles of numbers and the most frequent levels."""
    n = len(training.y)
    rows = np.sort(np.random.default_rng(seed).permutation(n)[:_EFFECT_ROWS])
    sample = in_memory(training.X.iloc[rows])
    found = []
    for name in columns:
        values = training.X[name]
        grid = _numbers(values) if is_number(values) else _words(values)
        if len(grid) < 2:
            continue
        means = []
        for value in grid:
            filled = sample.copy()
            filled[name] = pd.Series([value] * len(sample), index=sample.index)
            means.append(predict(filled).reshape(len(sample), -1).mean(axis=0))
        found.append(Effect(name, grid, np.array(means), len(sample)))
    return found


def _numbers(values: pd.Series) -> list[float]:
    seen = values.dropna().to_numpy(dtype=np.float64)
    if not len(seen):
        return []
    distinct = np.unique(seen)
    if len(distinct) > _GRID:
        distinct = np.unique(np.quantile(seen, np.linspace(0.02, 0.98, _GRID)))
    return [float(value) for value in distinct]


def _words(values: pd.Series) -> list[str]:
    counts = values.dropna().astype(str).value_counts()
    return [str(level) for level in counts.index[:_LEVELS]]


@dataclass(frozen=True)
class Example:
    """A row, why it was chosen, and who has answered it."""

    row: int
    why: str


def explained(training: Training, examples: list[Example], seed: int) -> Explanation | None:
    """Why the model answers these rows so; ``None`` where that cannot be said or takes too long."""
    model = training.model.estimator_
    if not isinstance(model, KernelModel) or inside(model).noise_model or not examples:
        return None
    columns = training.X.shape[1]
    terms = inside(model).terms
    passes = min(columns / 2 + 1, 5 * columns**0.5)
    numbers = sum(part.centres.size for part in terms.parts) * passes * len(examples)
    if numbers > _EXPLAINED or not all(part.kernel.family.by_column for part in terms.parts):
        return None
    rows = in_memory(training.X.iloc[[example.row for example in examples]])
    return explain(
        training.model,
        rows,
        n_rows=1,
        n_pairs=16,
        changes=columns <= _CHANGED_COLUMNS,
        random_state=seed,
    )
