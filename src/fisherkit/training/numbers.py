"""Trainings that predict numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import BaseCrossValidator, KFold

from fisherkit.columns import TableError, is_number, place
from fisherkit.core import arrays
from fisherkit.estimators import inside
from fisherkit.inspection import doubted_targets
from fisherkit.interfaces import FilePath, Json
from fisherkit.methods import RIDGE, Method, RecipeError, TableModel, TableRegressor
from fisherkit.terminal import amount, counted
from fisherkit.training.classes import Z
from fisherkit.training.goals import Answers, Goal, HeldOut, Row, Tally
from fisherkit.training.label_words import LabelWords

_INFLUENCE_ROWS = 50_000  # up to which every row's influence on all others is found


class Distances(Tally):
    """Rows with a target, how far predictions are from it, and how often intervals hold it."""

    def __init__(self) -> None:
        self.squares = self.sizes = 0.0
        self.inside: int | None = None

    def add(self, given: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        self.rows += len(given)
        distances = np.abs(columns["prediction"] - given)
        self.squares += float(distances @ distances)
        self.sizes += float(distances.sum())
        if "lower" in columns:
            held = (columns["lower"] <= given) & (given <= columns["upper"])
            self.inside = (self.inside or 0) + int(held.sum())

    def __str__(self) -> str:
        rmse, mae = (self.squares / self.rows) ** 0.5, self.sizes / self.rows
        return f"RMSE {amount(rmse)} and MAE {amount(mae)} on {counted(self.rows, 'row')}"

    @property
    def more(self) -> list[str]:
        if self.inside is None or not self.rows:
            return []
        return [
            f"{self.inside} of {counted(self.rows, 'interval')} for new rows contain the target"
        ]


class Regression(Goal):
    """Predicting a number, with a `TableRegressor`."""

    name = "regression"
    model = "regressor"
    default = RIDGE.name
    answer = "target"
    contributions = "the prediction"

    def target(self, values: pd.Series, path: FilePath, words: LabelWords) -> np.ndarray:
        if not is_number(values):
            raise TableError(
                f"{path}: column {values.name!r} holds texts such as {str(values.iloc[0])!r}, and "
                "a regression predicts numbers. Use --task classification, or another --target."
            )
        y = values.to_numpy(dtype=np.float64)
        if y.min() == y.max():
            raise TableError(
                f"{path}: column {values.name!r} has one value only, {y[0]:g}; there is nothing to "
                "predict."
            )
        return y

    def conversion(self, values: pd.Series) -> str:
        return '.to_numpy(dtype="float64")'

    def remarks(self, y: np.ndarray, name: str) -> list[str]:
        return []

    def method(self, name: str | None) -> Method:
        if name not in (None, RIDGE.name):
            raise RecipeError(
                f"method {name} trains classifiers, and the target holds numbers to predict, for "
                f"which there is the method {RIDGE.name}. Leave --method out, or use --task "
                "classification if the numbers are names of classes."
            )
        return RIDGE

    def asked(
        self,
        method: str,
        seed: int,
        *,
        kernel: str | None = None,
        penalty: str | None = None,
        balanced: bool = False,
        centres: int | None = None,
        max_memory: str | None = None,
    ) -> TableRegressor:
        if balanced:
            raise RecipeError(
                "--balanced makes classes count alike, and the target holds numbers to predict. "
                "Leave it out, or use --task classification if the numbers are names of classes."
            )
        return TableRegressor(
            kernel,
            centres=centres,
            keep=True,  # reading has left out what says nothing
            parameters=None if penalty is None else {"penalty": penalty},
            max_memory=max_memory,
            random_state=seed,
        )

    def folds(self, y: np.ndarray, count: int, seed: int) -> BaseCrossValidator:
        return KFold(count, shuffle=True, random_state=seed)

    def check_fold(self, y: np.ndarray, rows: np.ndarray, source: str) -> None:
        """Any rows will do."""

    def part(self, y: np.ndarray, size: int, seed: int) -> np.ndarray:
        return np.sort(np.random.RandomState(seed).choice(len(y), size, replace=False))

    def given(self, values: pd.Series, known: np.ndarray, path: FilePath) -> np.ndarray:
        if not is_number(values) and len(values):
            raise TableError(
                f"{path}, {place(values, 0)}, column {values.name!r}: {values.iloc[0]!r} is not a "
                "number, and the model predicts numbers."
            )
        return values.to_numpy(dtype=np.float64)

    def answers(self, model: TableModel, features: np.ndarray, known: np.ndarray) -> Answers:
        return Answers(model.estimator_.predict(features))

    def chosen(self, model: Any, method: str) -> dict[str, Json]:
        kernel, view = model.kernel_
        chosen = super().chosen(model, method)
        seen = "as ranks" if view == "rank" else "as scaled values"
        compared = {"kernels_compared": len(model.compared_)}
        return {"kernel": kernel, "sees_numbers": seen} | compared | chosen

    def summary(
        self,
        model: Any,
        y: np.ndarray,
        held_out: HeldOut | None,
        weights: np.ndarray | None = None,
    ) -> dict[str, Json]:
        w = np.ones(len(y)) if weights is None else weights
        left_out = arrays.to_numpy(model.estimator_.loo_prediction_)
        known = np.isfinite(left_out)  # rows that were left out
        mean = float(np.average(y, weights=w))
        return {
            "target_range": [float(y.min()), float(y.max())],
            "error_after_selection": _distances(
                "leave-one-out", y[known], left_out[known], w[known]
            ),
            "held_out": None
            if held_out is None
            else _distances(held_out.how, held_out.y, held_out.predicted, held_out.weights),
            "error_of_the_mean": {
                "value": mean,
                **_distances("mean", y, np.full(len(y), mean), w),
            },
        }

    def rows(self, summary: Mapping[str, Any]) -> tuple[str, list[Row]]:
        low, high = summary["target_range"]
        left_out, held_out = summary["error_after_selection"], summary["held_out"]
        mean = summary["error_of_the_mean"]
        rows = [(f"{left_out['how']} error", f"{_shown(left_out)}, after selection")]
        if held_out is not None:
            rows.append(("held-out error", f"{_shown(held_out)}; {held_out['how']}"))
        rows.append(
            (
                "mean alone",
                f"RMSE {amount(mean['rmse'])}, MAE {amount(mean['mae'])}: always predicting "
                f"{amount(mean['value'])}",
            )
        )
        return f"numbers from {amount(low)} to {amount(high)}", rows

    def doubts(self, model: TableModel, y: np.ndarray, index: pd.Index) -> pd.DataFrame:
        influence = len(y) <= _INFLUENCE_ROWS
        return doubted_targets(model.estimator_, y, index=index, influence=influence)

    def classes(self, model: TableModel) -> list[Json]:
        return []

    def texts(self, model: TableModel) -> bool:
        return False

    def read(self, model: TableModel, values: pd.Series) -> np.ndarray:
        numbers = pd.to_numeric(values, errors="coerce")
        return numbers.to_numpy(dtype=np.float64, na_value=np.nan)

    def strange(self, model: TableModel, given: np.ndarray) -> np.ndarray:
        return np.isnan(given)

    def judged(
        self, rows: np.ndarray, given: np.ndarray, strange: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        kept = rows.copy()
        kept[rows] = ~strange
        return kept, given[~strange]

    def strange_words(self, count: int, example: str) -> str:
        return (
            f"{counted(count, 'row')} with a target that is not a number: no prediction was "
            f"compared with {'it' if count == 1 else 'them'}"
        )

    def columns(
        self, model: Any, features: np.ndarray, confidence: float | None
    ) -> dict[str, np.ndarray]:
        found = {"prediction": model.estimator_.predict(features)}
        if confidence is not None:
            lower, upper = model.estimator_.predict_interval(features, confidence)
            found |= {"lower": lower, "upper": upper}
        return found

    def has_sets(self, model: TableModel) -> bool:
        return not inside(model.estimator_).in_blocks

    def about_sets(self, model: TableModel) -> str:
        return (
            "intervals need the training rows, which a model fitted in blocks (--out-of-core, "
            "--max-memory) does not keep"
        )

    def tally(self) -> Distances:
        return Distances()


def _distances(
    how: str, y: np.ndarray, predicted: np.ndarray, weights: np.ndarray | None
) -> dict[str, Json]:
    """How far predictions (n,) are from their targets, with an interval around the RMSE.

    R^2 is one minus the mean squared error, divided by that of always predicting the mean of these
    rows. The interval is that of a mean of squared errors, by the normal distribution.
    """
    share = np.full(len(y), 1 / len(y)) if weights is None else weights / weights.sum()
    squares = (y - predicted) ** 2
    mse = float(share @ squares)
    variance = float(share @ (y - share @ y) ** 2)
    reach = Z * float(np.sqrt(share**2 @ (squares - mse) ** 2))
    return {
        "how": how,
        "rows": len(y),
        "r2": 1 - mse / variance if variance > 0 else 0.0,
        "rmse": mse**0.5,
        "mae": float(share @ np.abs(y - predicted)),
        "interval": [max(mse - reach, 0.0) ** 0.5, (mse + reach) ** 0.5],
    }


def _shown(error: Mapping[str, Any]) -> str:
    low, high = error["interval"]
    return (
        f"R^2 {error['r2']:.4f}, RMSE {amount(error['rmse'])} ({amount(low)} to {amount(high)}), "
        f"MAE {amount(error['mae'])} on {counted(error['rows'], 'row')}"
    )


NUMBERS = Regression()
