"""Estimators that take a table as it is: numbers, words and holes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import check_array, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    _get_feature_names,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

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
from fisherkit.core import Array
from fisherkit.estimators import all_or_nothing
from fisherkit.interfaces import ClassWeight, MemoryLimit, Seed
from fisherkit.methods.plans import Asked, Centres, Kernels, Plan, view_pairs
from fisherkit.methods.registry import REGRESSION, RIDGE, method_named
from fisherkit.stored import stored

_SOURCE = "X"


def _has(name: str) -> Any:
    """Whether the estimator behind the table has the method; for `available_if`."""
    return lambda self: not hasattr(self, "estimator_") or hasattr(self.estimator_, name)


class TableModel(BaseEstimator):
    """What classifier and regressor share: columns, features, the estimator behind them."""

    def __sklearn_tags__(self) -> Any:
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
        return ColumnOptions(_SOURCE, None, said["drop"], said["keep"], said["text"], command=False)

    def _read(self, X: Any) -> pd.DataFrame:
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
        _check_feature_names(self, X, reset=True)
        self.n_features_in_ = table.shape[1]
        self._names = list(table.columns)
        return table

    def _judge(self, table: pd.DataFrame) -> list[Column]:
        """Which columns are used; refuses what cannot be."""
        options = self._options()
        for name in (*options.drop, *(() if self.keep is True else options.keep)):
            if name not in table:
                raise TableError(f"X has no column {name!r}; its columns are {quoted(table)}.")
        left = table.drop(columns=list(options.drop))
        refuse_infinite(left, _SOURCE)
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

    def prepare(self, X: Any) -> np.ndarray:
        """What the estimator behind the table sees of rows X: their features (n, d)."""
        return self.transformed(self.used(X))

    def transformed(self, table: pd.DataFrame) -> np.ndarray:
        """The features (n, d) of rows with the columns that the fit uses."""
        return self.features_.transform(table)[:, self._features_seen]

    @property
    def sources(self) -> np.ndarray:
        """Which of these columns each feature comes from; (d,)."""
        return self.features_.sources[self._features_seen]

    @property
    def _features_seen(self) -> slice | np.ndarray:
        """The features that the estimator behind the table is given."""
        return slice(None)

    def used(self, X: Any) -> pd.DataFrame:
        """The columns of rows X that the fit uses, checked."""
        check_is_fitted(self)
        text = tuple(column.name for column in self._columns if column.kind == "text")
        named = _get_feature_names(X) is not None and hasattr(self, "feature_names_in_")
        table = frame_of(X, tuple(self._options().text) if named else ())
        if not named:  # otherwise columns may come in any order, and others beside them
            _check_feature_names(self, X, reset=False)
            _check_n_features(self, table, reset=False)
            table = table.set_axis(self._names, axis=1)
        table = match(table, self._columns, _SOURCE)
        refuse_infinite(table.drop(columns=list(text)), _SOURCE)
        return table

    def fit(
        self,
        X: Any,
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
            Labels of any type, or numbers for a regression.
        sample_weight : (n,), default=None
            Number of copies of each row.
        groups : (n,), default=None
            Rows of a group (of a person, say) stay together in every fold that prices models.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            table = self._read(X)
            targets = self._targets(y)
            check_consistent_length(table, targets)
            check_consistent_length(targets, groups)
            group = None if groups is None else np.asarray(groups)
            weights = None
            if sample_weight is not None:
                weights = _check_sample_weight(sample_weight, table, ensure_non_negative=True)
                kept = weights > 0
                table, targets, weights = table.loc[kept], targets[kept], weights[kept]
                group = None if group is None else group[kept]
            columns = self._judge(table)
            used = match(table, columns, _SOURCE)
            features = self.features_of(used, weights)
            self._columns, self.features_ = columns, features
            return self._learn(features.transform(used), targets, weights, group)

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
        self._names = [column.name for column in columns]
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = np.array(self._names, dtype=object)
        return self._learn(Z, y, None, None)

    def _targets(self, y: Any) -> np.ndarray:
        """Labels or numbers, none of them missing."""
        raise NotImplementedError

    def _learn(
        self, Z: Array, y: np.ndarray, sample_weight: np.ndarray | None, groups: np.ndarray | None
    ) -> Self:
        """Fit to features (n, d), with parameters that follow from their number."""
        raise NotImplementedError

    @property
    def _has_views(self) -> bool:
        """Whether kernels may see ranks."""
        raise NotImplementedError

    def _seed(self) -> int:
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        return int(seed)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")


@stored("TableClassifier")
class TableClassifier(ClassifierMixin, TableModel):
    r"""The classifier for a data frame as it is: numbers, words and holes.

    Every column becomes what kernels understand: numbers are scaled and ranked, levels of texts
    get indicators, missing values are filled (`columns_` says what each was taken for). The method
    is then fitted to these features, with parameters that follow from the size of the table.

    Parameters
    ----------
    method : {"committee", "fisher", "sparse", "forward", "bayes"}, default="committee"
        `FisherCommitteeClassifier`, the most accurate, of five families of kernels;
        `KernelFisherClassifier`, `SparseFisherClassifier`, `ForwardFisherClassifier` or
        `BayesianFisherClassifier`.
    kernel : str or sequence, default=None
        The kernel of the method. For the committee, names or pairs such as ``("rbf", "rank")`` of
        a kernel and what it sees of numbers: "standard", scaled values, or "rank".
    learn : bool or "auto", default="auto"
        Whether the committee learns how much each column matters (`relevance_`); "auto" does up to
        3,000 rows. Without, fits are some times faster.
    class_weight : dict, "balanced" or None, default=None
        Cost of each class.
    centres : int, "all" or None, default=None
        Rows that kernels are centred on; ``None`` chooses by the size of the table.
    drop : sequence of str, default=()
        Columns to leave out.
    keep : sequence of str or True, default=()
        Columns to use although they look like row numbers or identifiers; ``True`` keeps all.
    text : sequence of str, default=()
        Columns that are text although they look like numbers.
    parameters : dict, default=None
        Further parameters of the method's classifier.
    max_memory : int, str or None, default=None
        As of `KernelFisherClassifier`.
    random_state : int, RandomState or None, default=0
        Of centres and parts of the rows.
    verbose : bool, default=False
        Print what is being done, and how far it is, on standard error.

    Attributes
    ----------
    classes_ : (n_classes,)
    columns_ : DataFrame
        For each column of X its kind (number, text or unused), how many values are missing, and a
        note: range, levels, or why it is not used.
    relevance_ : Series
        How much each column matters, 1 for the one that matters most, where the fit has learned it.
    explicit_ : TableClassifier
        The same, not fitted, with all that this fit has chosen as parameters.
    features_ : Features
        From columns to features, with ``names`` and ``transform``.
    estimator_ : classifier
        The fitted classifier of the features.
    Notes
    -----
    New rows may have their columns in any order, and others beside them. Levels that the fit has
    not seen count as rare ones; dates are refused, as their meaning is for you to say.

    The committee has these families of kernels, with S numbers scaled to variance one, Q their
    ranks (mid-ranks of the training column, straight lines between them) scaled so, and indicators
    of levels in both,

    .. math::

        e^{-\gamma |S - S'|^2}, \quad e^{-\gamma |Q - Q'|^2}, \quad e^{-\gamma |S - S'|_1}, \quad
        e^{-\gamma |Q - Q'|_1}, \quad e^{-\gamma |S - S'|} ,

    the last three also with each feature in a unit that was learned from gradients of a fit, priced
    on four folds. Families are stacked by the cross-entropy of left-out rows.

    ``sample_weight`` counts copies of rows.

    *Cost.* That of the method. The committee compares 35 widths on 500 rows, and fits 10 of them to
    all rows: O(n^3) each; learning takes about 120 solves of three quarters of the rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from fisherkit import TableClassifier
    >>> table = pd.DataFrame(
    ...     {
    ...         "size": [1.2, 1.9, 1.5, None, 1.1, 1.8] * 5,
    ...         "town": ["Oslo", "Rome", "Oslo", "Rome", None, "Rome"] * 5,
    ...         "tall": ["no", "yes", "no", "yes", "no", "yes"] * 5,
    ...     }
    ... )
    >>> model = TableClassifier().fit(table.drop(columns="tall"), table["tall"])
    >>> model.predict(pd.DataFrame({"size": [1.7], "town": ["Rome"]})).tolist()
    ['yes']
    >>> model.columns_.kind.tolist()
    ['number', 'text']
    """

    def __init__(
        self,
        method: str = "committee",
        *,
        kernel: Kernels = None,
        learn: bool | str = "auto",
        class_weight: ClassWeight = None,
        centres: Centres = None,
        drop: Sequence[str] = (),
        keep: Sequence[str] | bool = (),
        text: Sequence[str] = (),
        parameters: dict[str, object] | None = None,
        max_memory: MemoryLimit = None,
        random_state: Seed = 0,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.kernel = kernel
        self.learn = learn
        self.class_weight = class_weight
        self.centres = centres
        self.drop = drop
        self.keep = keep
        self.text = text
        self.parameters = parameters
        self.max_memory = max_memory
        self.random_state = random_state
        self.verbose = verbose

    def _asked(self) -> Asked:
        return Asked(
            method=method_named(self.method),
            kernel=self.kernel,
            learn=self.learn,
            class_weight=self.class_weight,
            centres=self.centres,
            max_memory=self.max_memory,
            parameters=self.parameters or {},
            seed=self._seed(),
        )

    @property
    def _has_views(self) -> bool:
        return method_named(self.method).of_views is not None

    def _targets(self, y: Any) -> np.ndarray:
        if y is None:
            raise ValueError("TableClassifier requires y to be passed, but the target y is None.")
        y = column_or_1d(y.to_numpy() if hasattr(y, "to_numpy") else y, warn=True, dtype=None)
        _refuse_missing(y, "labels")
        return y

    def _learn(
        self, Z: Array, y: np.ndarray, sample_weight: np.ndarray | None, groups: np.ndarray | None
    ) -> Self:
        """Fit the method to features (n, d), with parameters that follow from their number."""
        features = self.features_
        plan = Plan.of(self._asked(), len(y), features.views)
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        if groups is not None:
            plan, given = plan.with_groups(groups), given | {"groups": groups}
        plan = plan.settled(Z, y, sample_weight)
        self._chosen: dict[str, object] = {
            "centres": "all" if plan.centres is None else plan.centres
        }
        if plan.gamma is not None:
            self._chosen["gamma"] = plan.gamma
        self.estimator_ = plan.build().fit(Z, y, **given)
        self.classes_ = self.estimator_.classes_
        return self

    def behind(self, X: Any) -> tuple[BaseEstimator, np.ndarray]:
        """The classifier behind the table, not fitted, and the features of rows X for it.

        For what has closed forms for that classifier, such as `fisherkit.audit`.
        """
        model = clone(self)
        table = model._read(X)
        columns = model._judge(table)
        used = match(table, columns, _SOURCE)
        features = model.features_of(used, None)
        plan = Plan.of(model._asked(), len(table), features.views)
        return plan.build(), features.transform(used)

    @property
    def explicit_(self) -> TableClassifier:
        """The same classifier, not fitted, with what this fit has chosen as parameters."""
        check_is_fitted(self)
        chosen = dict(self._chosen)
        parameters = dict(self.parameters or {})
        if "gamma" in chosen:
            parameters["gamma"] = chosen.pop("gamma")
        return type(self)(
            **self.get_params(deep=False)
            | {"parameters": parameters or None, "keep": True, "drop": list(self._unused)}
            | chosen
        )

    @property
    def relevance_(self) -> pd.Series:
        """How much each column matters, 1 for the one that matters most."""
        check_is_fitted(self)
        found = getattr(self.estimator_, "relevance_", None)
        if found is None or len(found) == 0:
            raise AttributeError(
                "There is no relevance: this fit has not learned it. method='committee' with "
                "learn=True does, where every row is a centre."
            )
        shares = {None: 1.0}
        if isinstance(found, dict):  # of each kernel that has learned, by the weight it has
            members, found = self.estimator_.members_, {k: s**2 for k, s in found.items()}
            shares = {k: float(members["weight"][members["kernel"] == k].sum()) for k in found}
        else:
            found = {None: np.asarray(found)}
        if not any(shares.values()):
            shares = dict.fromkeys(found, 1.0)
        total = np.zeros(len(self.features_.columns))
        for name, values in found.items():
            part = np.bincount(self.features_.sources, values, minlength=len(total))
            total += shares[name] * part / part.sum()
        series = pd.Series(total / total.max(), index=self.features_.columns, name="relevance")
        return series.reindex(pd.Index(self._names, name="column"), fill_value=0.0)

    def predict(self, X: Any) -> Any:
        """Predicted label of each row; (n,)."""
        features = self.prepare(X)
        return self.estimator_.predict(features)

    def predict_proba(self, X: Any) -> Any:
        """Probability of each class, calibrated on held-out decisions; (n, n_classes)."""
        features = self.prepare(X)
        return self.estimator_.predict_proba(features)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Decision for each row: positive for ``classes_[1]``, or one score per class."""
        features = self.prepare(X)
        return self.estimator_.decision_function(features)

    @available_if(_has("predict_set"))
    def predict_set(self, X: Any, confidence: float = 0.9, **options: Any) -> Any:
        """Sets of labels that contain those of new rows with the confidence asked for.

        As of `KernelFisherClassifier.predict_set`, whose options it takes; (n, n_classes) of bool.
        """
        features = self.prepare(X)
        return self.estimator_.predict_set(features, confidence, **options)


@stored("TableRegressor")
class TableRegressor(RegressorMixin, TableModel):
    r"""Numbers from a data frame as it is: numbers, words and holes.

    Columns become features as in `TableClassifier`. Of a few kernels on them, each tuned as a
    `KernelRidgeCV`, the one of the smallest leave-one-out error is kept.

    Parameters
    ----------
    kernel : sequence of pairs or None, default=None
        Kernels and what they see of numbers, "standard" or "rank", such as ``[("rbf", "rank")]``;
        ``None`` compares rbf and laplacian on both, and exponential on standard.
    centres : int, "all" or None, default=None
        Rows that kernels are centred on; ``None`` takes all up to 4,000.
    drop, keep, text, max_memory, random_state, verbose
        As of `TableClassifier`.
    parameters : dict, default=None
        Further parameters of `KernelRidgeCV`.

    Attributes
    ----------
    columns_, features_
        As of `TableClassifier`.
    kernel_ : (str, str)
        The kernel that was kept, and what it sees of numbers.
    compared_ : DataFrame
        The leave-one-out error of each kernel: the weighted mean of squared residuals.
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
        kernel: Sequence[tuple[str, str]] | None = None,
        *,
        centres: Centres = None,
        drop: Sequence[str] = (),
        keep: Sequence[str] | bool = (),
        text: Sequence[str] = (),
        parameters: dict[str, object] | None = None,
        max_memory: MemoryLimit = None,
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
        _refuse_missing(y, "numbers")
        return column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y

    def _learn(
        self, Z: Array, y: np.ndarray, sample_weight: np.ndarray | None, groups: np.ndarray | None
    ) -> Self:
        views, found = self.features_.views, []
        asked = Asked(
            method=RIDGE,
            centres=self.centres,
            max_memory=self.max_memory,
            parameters=self.parameters or {},
            seed=self._seed(),
        )
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        for kernel, view in view_pairs(self.kernel, views) if self.kernel else REGRESSION:
            if view not in views:
                continue
            plan = Plan.of(replace(asked, kernel=kernel), len(y), views)
            if groups is not None:
                plan, given = plan.with_groups(groups), given | {"groups": groups}
            model = plan.build().fit(Z[:, views[view].columns], y, **given)
            found.append((float(model.selection_.value), kernel, view, model))
        best = min(found, key=lambda one: one[0])
        self.kernel_, self.estimator_ = best[1:3], best[3]
        self._columns_seen = views[best[2]].columns
        self.compared_ = pd.DataFrame(
            [one[:3] for one in found], columns=["left_out_error", "kernel", "view"]
        )
        return self

    @property
    def _features_seen(self) -> np.ndarray:
        return self._columns_seen

    def predict(self, X: Any) -> Any:
        """Predicted number of each row; (n,), or (n, n_outputs)."""
        features = self.prepare(X)
        return self.estimator_.predict(features)

    def predict_interval(
        self, X: Any, confidence: float = 0.9, **options: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Intervals that contain the targets of new rows with the confidence asked for.

        As of `KernelRidgeCV.predict_interval`, whose options it takes.
        """
        features = self.prepare(X)
        return self.estimator_.predict_interval(features, confidence, **options)


def _different(table: pd.DataFrame) -> np.ndarray:
    """Places of rows that differ, the first of each."""
    keys = pd.util.hash_pandas_object(table, index=False).to_numpy()
    return np.sort(np.unique(keys, return_index=True)[1])


def _refuse_missing(y: np.ndarray, what: str) -> None:
    missing = pd.isna(y)
    if missing.any():
        raise ValueError(
            f"Input y contains NaN: {missing.sum()} of {len(y)} {what} are missing. Leave these "
            "rows out: X[y.notna()], y.dropna()."
        )
