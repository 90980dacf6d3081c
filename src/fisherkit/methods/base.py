"""What estimators of tables share: from columns to features, whatever the model behind them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from fisherkit.columns import (
    Column,
    ColumnOptions,
    Features,
    TableError,
    frame_of,
    match,
    quoted,
    refuse_infinite,
    refuse_unusable,
    unused,
)
from fisherkit.core import Array, arrays
from fisherkit.estimators import all_or_nothing, validation
from fisherkit.interfaces import Table, TimeLimit
from fisherkit.rows import FitPlan, frequencies, time_budget

SOURCE = "X"
_DEVICES = r"(cpu|cuda|mps|xpu)(:\d+)?"
_LEAST_LEFT = 0.1  # of the time given, for the fit itself


class TableModel(BaseEstimator):
    """What classifier and regressor share: columns, features, the estimator behind them."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _options(self) -> ColumnOptions:
        """What the user says of columns."""
        said: dict[str, tuple[str, ...]] = {}
        for name in ("drop", "keep", "text"):
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray | bool):
                raise ValueError(f"{name}={value!r} is not valid; use a list of names of columns.")
            said[name] = () if isinstance(value, bool) else tuple(map(str, value))
        if self.keep is True:
            said["keep"] = tuple(getattr(self, "_names", ()))
        return ColumnOptions(SOURCE, None, said["drop"], said["keep"], said["text"], command=False)

    def _read(self, X: Table) -> pd.DataFrame:
        """The table of a fit, and what scikit-learn wants to know of it."""
        table = frame_of(X, self._options().text)
        for number, least, what in (
            (len(table), 2, "sample(s)"),
            (table.shape[1], 1, "feature(s)"),
        ):
            if number < least:
                raise ValueError(
                    f"Found array with {number} {what} (shape={table.shape}) while a minimum of "
                    f"{least} is required."
                )
        validate_data(self, X, skip_check_array=True)
        self._names, self._named = list(table.columns), _has_names(X)
        return table

    def _judge(self, table: pd.DataFrame) -> list[Column]:
        """Which columns are used; refuses what cannot be."""
        options = self._options()
        for name in (*options.drop, *(() if self.keep is True else options.keep)):
            if name not in table:
                raise TableError(f"X has no column {name!r}; its columns are {quoted(table)}.")
        left = table.drop(columns=list(options.drop))
        refuse_infinite(left, SOURCE)
        self._unused = dict.fromkeys(options.drop, "left out as asked")
        different = left.iloc[_different(left)]  # so that copies of rows do not matter
        refuse_unusable(different, options)
        if self.keep is not True:
            why = unused(different, options)
            self._unused |= {name: reason for name, (reason, _) in why.items()}
            left = left.drop(columns=list(why))
        if left.shape[1] == 0:
            reasons = "; ".join(f"{name}: {why}" for name, why in self._unused.items())
            raise TableError(f"X has no column to predict from ({reasons}).")
        return Column.all_of(left)

    @property
    def columns_(self) -> pd.DataFrame:
        """What each column was taken for, and why it is not used."""
        check_is_fitted(self)
        used = {column.name: column for column in self._columns}
        rows = []
        for name in self._names:
            column = used.get(name)
            if column is None:
                rows.append(("unused", 0, self._unused[name]))
            elif column.kind == "number":
                rows.append(("number", column.missing, "from {:g} to {:g}".format(*column.values)))
            else:
                rows.append(("text", column.missing, f"{column.values[0]:.0f} levels"))
        index = pd.Index(self._names, name="column")
        return pd.DataFrame(rows, index=index, columns=["kind", "missing", "note"])

    def prepare(self, X: Table) -> np.ndarray:
        """What the estimator behind the table sees of rows X: their features (n, d)."""
        return self.transformed(self.used(X))

    def transformed(self, table: pd.DataFrame) -> np.ndarray:
        """The features (n, d) of rows with the columns that the fit uses."""
        return self.features_.transform(table)[:, self.features_seen]

    @property
    def rows_used(self) -> np.ndarray | None:
        """Which rows of its table (n,) the fit used, ``None`` for all: others have no weight."""
        return self._kept

    @property
    def sources(self) -> np.ndarray:
        """Which of these columns each feature comes from; (d,)."""
        return self.features_.sources[self.features_seen]

    @property
    def features_seen(self) -> slice | np.ndarray:
        """The features that the estimator behind the table is given."""
        return slice(None)

    def used(self, X: Table) -> pd.DataFrame:
        """The columns of rows X that the fit uses, checked."""
        check_is_fitted(self)
        table = frame_of(X)
        if not (self._named and _has_names(X)):  # else in any order, and others beside them
            validate_data(self, X, reset=False, skip_check_array=True)
            table = table.set_axis(self._names, axis=1)
        return match(table, self._columns, SOURCE)

    def fit(
        self,
        X: Table,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Prepare the columns, and fit the method to them.

        Parameters
        ----------
        X : data frame (pandas, polars, pyarrow) or array, (n, d)
            Numbers, texts, categories, truth values; missing values in any of them.
        y : (n,)
            Labels of any type, or numbers for a regression. Rows without are left out, with a
            warning.
        sample_weight : (n,), default=None
            Number of copies of each row.
        groups : (n,), default=None
            Rows of a group (of a person, say) stay together in every fold that judges models.

        Returns
        -------
        self
        """
        start = perf_counter()
        with all_or_nothing(self):
            table = self._read(X)
            targets = self._targets(y)
            check_consistent_length(table, targets)
            check_consistent_length(targets, groups)
            kept, weights = _labelled(targets), None
            if sample_weight is not None:
                weights, counted = frequencies(sample_weight, len(table), np.empty(0))
                kept &= np.isin(np.arange(len(table)), counted)
                weights = weights[kept]
            group = None
            if groups is not None:
                group = validation.known_groups(groups, np.flatnonzero(kept))
            table, targets = table.loc[kept], _plain(targets[kept])
            columns = self._judge(table)
            used = match(table, columns, SOURCE)
            features = self.features_of(used, weights)
            self._columns, self.features_ = columns, features
            self._kept = None if kept.all() else kept
            Z = features.transform(used)
            return self._learn(Z, targets, weights, group, spent=perf_counter() - start)

    def features_of(
        self, table: pd.DataFrame, weights: np.ndarray | None, rows: np.ndarray | None = None
    ) -> Features:
        """How the columns of a table become features, by some of its rows (``None``: all)."""
        return Features.of(table, weights, rows, ranks=self._has_views)

    def fit_features(
        self, columns: list[Column], features: Features, Z: Array, y: np.ndarray
    ) -> Self:
        """Fit the method to the features ``Z`` (n, d) of columns, in memory or in a file."""
        self._columns, self.features_, self._unused = columns, features, {}
        self._kept = None
        self._names = [column.name for column in columns]
        self._named, self.n_features_in_ = True, len(columns)
        self.feature_names_in_ = np.array(self._names, dtype=object)
        return self._learn(Z, y, None, None)

    def _targets(self, y: Any) -> np.ndarray:
        """Labels or numbers; some may be missing."""
        raise NotImplementedError

    def _learn(
        self,
        Z: Array,
        y: np.ndarray,
        sample_weight: np.ndarray | None,
        groups: np.ndarray | None,
        *,
        spent: float = 0.0,
    ) -> Self:
        """Fit to features (n, d), with parameters that follow from their number.

        Making them has taken ``spent`` seconds of the time given.
        """
        raise NotImplementedError

    @property
    def _has_views(self) -> bool:
        """Whether kernels may see ranks."""
        raise NotImplementedError

    @property
    def plan_(self) -> FitPlan:
        """What the fit has done with the rows, and how to ask for it and for more."""
        check_is_fitted(self)
        plan = getattr(self.estimator_, "plan_", None)
        if plan is None:
            raise AttributeError(
                f"{type(self.estimator_).__name__} has no plan by time and memory."
            )
        asked, more = (_of_table(found) for found in (plan.parameters, plan.more))
        return replace(plan, parameters=asked, more=more)

    def _choices(self, centres: int | None, gamma: float | None) -> dict[str, object]:
        """What has been chosen: by a plan of ours, or by that of the estimator."""
        plan = getattr(self.estimator_, "plan_", None)
        if plan is not None and centres is None:
            if plan.parameters.get("basis") == "pivoted":  # the same memory chooses them again
                return {"centres": self.centres}
            centres, gamma = plan.parameters.get("n_components"), plan.parameters.get("gamma")
        found: dict[str, object] = {"centres": "all" if centres is None else centres}
        return found if gamma is None else found | {"gamma": gamma}

    def _seed(self) -> int:
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        return int(seed)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")


def fitted_on(
    device: str | None, model: BaseEstimator, Z: Array, y: np.ndarray, **given: object
) -> BaseEstimator:
    """The model fitted to features Z where the device is; its arrays are NumPy's again."""
    if device is None:
        return model.fit(Z, y, **given)
    if not isinstance(device, str) or not re.fullmatch(_DEVICES, device):
        raise ValueError(
            f"device={device!r} is not valid; use None, or a device of PyTorch such as 'cuda'."
        )
    with config_context(array_api_dispatch=True):
        fitted = arrays.on_host(model.fit(arrays.on_device(Z, device), y, **given))
    assert isinstance(fitted, BaseEstimator)
    return fitted


def time_left(max_time: TimeLimit, spent: float, fits: int = 1) -> TimeLimit:
    """What a fit, one of so many, may take of the time that is left; words stay what they are."""
    seconds = time_budget(max_time)
    if seconds is None or isinstance(max_time, str):
        return max_time
    return max(seconds - spent, _LEAST_LEFT * seconds) / fits


def _of_table(parameters: dict[str, object]) -> dict[str, object]:
    """Parameters of the estimator behind a table as those of the table."""
    if not parameters:
        return {}
    found: dict[str, object] = {"centres": parameters.get("n_components") or "all"}
    if "gamma" in parameters:
        found["parameters"] = {"gamma": parameters["gamma"]}
    return found


def _has_names(X: Table) -> bool:
    """Whether the columns of X have names."""
    return hasattr(X, "columns") or hasattr(X, "column_names")


def _different(table: pd.DataFrame) -> np.ndarray:
    """Places of rows that differ, the first of each."""
    keys = pd.util.hash_pandas_object(table, index=False).to_numpy()
    return np.sort(np.unique(keys, return_index=True)[1])


def _plain(y: np.ndarray) -> np.ndarray:
    """Targets of one type as an array of that type: holes may have made objects of truth values."""
    return pd.Series(y).infer_objects().to_numpy() if y.dtype == object else y


def _labelled(y: np.ndarray) -> np.ndarray:
    """Which targets (n,) or (n, k) there are; says how many rows have none."""
    missing = pd.isna(y).reshape(len(y), -1).any(axis=1)
    if missing.all():
        raise ValueError(f"Input y contains NaN: all of its {len(y)} values are missing.")
    if missing.any():
        warnings.warn(
            f"{missing.sum()} of {len(y)} targets are missing: the fit leaves these rows out. "
            "Where missing is an answer of its own, say so, with y.fillna('missing') for example.",
            stacklevel=3,
        )
    return ~missing
