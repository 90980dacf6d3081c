"""The regression that takes a table as it is: numbers, words and holes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import RegressorMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fisherkit.core import Array
from fisherkit.interfaces import MemoryLimit, Seed, Table, TimeLimit
from fisherkit.methods.base import TableModel, fitted_on, time_left
from fisherkit.methods.plans import Asked, Centres, Kernels, Plan, view_pairs
from fisherkit.methods.registry import REGRESSION, RIDGE
from fisherkit.stored import stored


@stored("TableRegressor")
class TableRegressor(RegressorMixin, TableModel):
    r"""Numbers from a data frame as it is: numbers, words and holes.

    Columns become features as in `TableClassifier`. Of a few kernels on them, each tuned as a
    `KernelRidgeCV`, the one of the smallest leave-one-out error is kept.

    Parameters
    ----------
    kernel : str, sequence of pairs or None, default=None
        A kernel, or kernels with what they see of numbers, "standard" or "rank", such as
        ``[("rbf", "rank")]``; ``None`` compares rbf and laplacian on both, and exponential on
        standard.
    centres : int, "all" or None, default=None
        Rows that kernels are centred on; ``None`` chooses by time, memory, and whether more centres
        are worth it.
    drop, keep, text, max_memory, device, random_state, verbose
        As in `TableClassifier`.
    parameters : dict, default=None
        Further parameters of `KernelRidgeCV`.
    max_time : float, "auto" or None, default="auto"
        As of `KernelRidgeCV`: seconds for all kernels together; "auto" is a nominal minute for
        each.

    Attributes
    ----------
    columns_, features_
        What each column was taken for and how it became features, as in `TableClassifier`.
    kernel_ : (str, str)
        The kernel that was kept, and what it sees of numbers.
    compared_ : DataFrame
        The leave-one-out error of each kernel: the weighted mean of squared residuals.
    explicit_ : TableRegressor
        The same regressor, not fitted, with all that this fit has chosen as parameters.
    plan_ : FitPlan
        What was done with the rows, as of `KernelRidgeCV`.
    estimator_ : KernelRidgeCV
        The fitted model of the features that its kernel sees.

    Notes
    -----
    A kernel is kept for its leave-one-out error, as width and regularisation are: this error is
    slightly too small for new rows. With r_i the residual of row i by the model without it, it is

    .. math::

        \frac{\sum_i w_i |r_i|^2}{\sum_i w_i} .

    *Cost.* That of five fits of `KernelRidgeCV`.

    Examples
    --------
    >>> import pandas as pd
    >>> from fisherkit import TableRegressor
    >>> table = pd.DataFrame({"size": range(40), "town": ["Oslo", "Rome"] * 20})
    >>> price = table["size"] ** 2 + 100 * (table["town"] == "Rome")
    >>> model = TableRegressor(keep=["size"]).fit(table, price)
    >>> bool(abs(model.predict(table) - price).max() < 10)
    True
    >>> lower, upper = model.predict_interval(table, confidence=0.8)
    >>> bool(((lower <= price) & (price <= upper)).mean() > 0.7)
    True
    """

    def __init__(
        self,
        kernel: Kernels = None,
        *,
        centres: Centres = None,
        drop: Sequence[str] = (),
        keep: Sequence[str] | bool = (),
        text: Sequence[str] = (),
        parameters: dict[str, object] | None = None,
        max_memory: MemoryLimit = None,
        max_time: TimeLimit = "auto",
        device: str | None = None,
        random_state: Seed = 0,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.centres = centres
        self.drop = drop
        self.keep = keep
        self.text = text
        self.parameters = parameters
        self.max_memory = max_memory
        self.max_time = max_time
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _has_views(self) -> bool:
        return True

    def _targets(self, y: Any) -> np.ndarray:
        if y is None:
            raise ValueError("TableRegressor requires y to be passed, but the target y is None.")
        y = y.to_numpy() if hasattr(y, "to_numpy") else y
        y = check_array(
            y, ensure_2d=False, dtype=np.float64, input_name="y", ensure_all_finite="allow-nan"
        )
        return column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y

    def _learn(
        self,
        Z: Array,
        y: np.ndarray,
        sample_weight: np.ndarray | None,
        groups: np.ndarray | None,
        *,
        spent: float = 0.0,
    ) -> Self:
        views, found, centres = self.features_.views, [], None
        asked = Asked(
            method=RIDGE,
            centres=self.centres,
            max_memory=self.max_memory,
            max_time=self.max_time,
            parameters={} if self.parameters is None else self.parameters,
            seed=self._seed(),
        )
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        pairs = view_pairs(self.kernel, views) if self.kernel is not None else REGRESSION
        pairs = [pair for pair in pairs if pair[1] in views]
        asked = replace(asked, max_time=time_left(self.max_time, spent, len(pairs)))
        for kernel, view in pairs:
            plan = Plan.of(replace(asked, kernel=kernel), len(y), views)
            if groups is not None:
                plan, given = plan.with_groups(groups), given | {"groups": groups}
            centres = plan.centres
            seen = Z[:, views[view].columns]
            model = fitted_on(self.device, plan.build(), seen, y, **given)
            found.append((float(model.selection_.value), kernel, view, model))
        best = min(found, key=lambda one: one[0])
        self.kernel_, self.estimator_ = best[1:3], best[3]
        self._columns_seen = views[best[2]].columns
        self._chosen = self._choices(centres, None)
        self._compared = [one[:3] for one in found]
        return self

    @property
    def explicit_(self) -> TableRegressor:
        """The same regressor, not fitted, with what this fit has chosen as parameters."""
        check_is_fitted(self)
        chosen, parameters = {"kernel": [self.kernel_]} | self._chosen, dict(self.parameters or {})
        if "gamma" in chosen:
            parameters["gamma"] = chosen.pop("gamma")
        said = {"keep": True, "drop": list(self._unused), "parameters": parameters or None}
        # Centres that are given need no time.
        return type(self)(**self.get_params(deep=False) | said | {"max_time": "auto"} | chosen)

    @property
    def compared_(self) -> pd.DataFrame:
        """The leave-one-out error of each kernel."""
        check_is_fitted(self)
        return pd.DataFrame(self._compared, columns=["left_out_error", "kernel", "view"])

    @property
    def features_seen(self) -> np.ndarray:
        return self._columns_seen

    def predict(self, X: Table) -> np.ndarray:
        """Predicted number of each row; (n,), or (n, n_outputs)."""
        features = self.prepare(X)
        return self.estimator_.predict(features)

    def predict_interval(
        self, X: Table, confidence: float = 0.9, **options: bool | float | str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Intervals that contain the targets of new rows with the confidence asked for.

        They are those of `KernelRidgeCV.predict_interval`, whose options this method takes.
        """
        features = self.prepare(X)
        return self.estimator_.predict_interval(features, confidence, **options)
