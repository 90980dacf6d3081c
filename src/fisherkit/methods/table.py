"""The classifier that takes a table as it is: numbers, words and holes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fisherkit.columns import match
from fisherkit.core import Array
from fisherkit.interfaces import ClassWeight, MemoryLimit, Seed, Table, TimeLimit
from fisherkit.methods.base import SOURCE, TableModel, fitted_on, time_left
from fisherkit.methods.plans import Asked, Centres, Kernels, Plan
from fisherkit.methods.registry import method_named
from fisherkit.methods.targets import refuse_fractions
from fisherkit.stored import stored


def _has(name: str) -> Callable[[object], bool]:
    """Whether the estimator behind the table has the method; for `available_if`."""
    return lambda self: not hasattr(self, "estimator_") or hasattr(self.estimator_, name)


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
        Rows that kernels are centred on; ``None`` chooses by time, memory, and whether more centres
        are worth it.
    drop : sequence of str, default=()
        Columns to leave out.
    keep : sequence of str or True, default=()
        Columns to use although they look like row numbers or identifiers; ``True`` keeps all.
    text : sequence of str, default=()
        Columns that are text although they look like numbers.
    parameters : dict, default=None
        Further parameters of the method's classifier.
    max_memory : int, str or None, default=None
        Memory beyond which the fit reads its rows in blocks, as in `KernelFisherClassifier`.
    max_time : float, "auto" or None, default="auto"
        As in `KernelFisherClassifier`, for methods that plan by time: committee and fisher. "auto"
        is a minute of a nominal laptop, so that the choice follows from the table alone.
    device : str, default=None
        A device of PyTorch on which the fit is computed, such as "cuda"; needs the environment
        variable ``SCIPY_ARRAY_API=1``. The fitted model is one of NumPy arrays all the same.
    random_state : int, RandomState or None, default=0
        Seed of the draw of centres and of parts of the rows.
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
    plan_ : FitPlan
        What was done with the rows, as of `KernelFisherClassifier`, where the method plans.
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

    the last three also with each feature in a unit that was learned from gradients of a fit, judged
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
        max_time: TimeLimit = "auto",
        device: str | None = None,
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
        self.max_time = max_time
        self.device = device
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
            max_time=self.max_time,
            parameters={} if self.parameters is None else self.parameters,
            seed=self._seed(),
        )

    @property
    def _has_views(self) -> bool:
        return method_named(self.method).of_views is not None

    def _targets(self, y: Any) -> np.ndarray:
        if y is None:
            raise ValueError("TableClassifier requires y to be passed, but the target y is None.")
        if type(y).__module__.partition(".")[0] == "pyarrow":
            y = y.to_pandas()
        if isinstance(y, list | tuple):  # an array would make texts of the holes among texts
            y = pd.Series(y) if np.ndim(y) == 1 else y
        y = y.to_numpy() if hasattr(y, "to_numpy") else y
        labels = column_or_1d(y, warn=True, dtype=None)
        refuse_fractions(labels)
        return labels

    def _learn(
        self,
        Z: Array,
        y: np.ndarray,
        sample_weight: np.ndarray | None,
        groups: np.ndarray | None,
        *,
        spent: float = 0.0,
    ) -> Self:
        """Fit the method to features (n, d), with parameters that follow from their number."""
        features = self.features_
        asked = replace(self._asked(), max_time=time_left(self.max_time, spent))
        plan = Plan.of(asked, len(y), features.views)
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        if groups is not None:
            plan, given = plan.with_groups(groups), given | {"groups": groups}
        plan = plan.settled(Z, y, sample_weight)
        self.estimator_ = fitted_on(self.device, plan.build(), Z, y, **given)
        self._chosen = self._choices(plan.centres, plan.gamma)
        self.classes_ = self.estimator_.classes_
        return self

    def behind(self, X: Table) -> tuple[BaseEstimator, np.ndarray]:
        """The classifier behind the table, not fitted, and the features of rows X for it.

        For what has closed forms for that classifier, such as `fisherkit.audit`.
        """
        model = clone(self)
        table = model._read(X)
        columns = model._judge(table)
        used = match(table, columns, SOURCE)
        features = model.features_of(used, None)
        plan = Plan.of(model._asked(), len(table), features.views, by_time=False)
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
            | {"max_time": "auto"}  # which centres that are given do not need
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

    def predict(self, X: Table) -> np.ndarray:
        """Predicted label of each row; (n,)."""
        features = self.prepare(X)
        return self.estimator_.predict(features)

    def predict_proba(self, X: Table) -> np.ndarray:
        """Probability of each class, calibrated on held-out decisions; (n, n_classes)."""
        features = self.prepare(X)
        return self.estimator_.predict_proba(features)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Table) -> np.ndarray:
        """Decision for each row: positive for ``classes_[1]``, or one score per class."""
        features = self.prepare(X)
        return self.estimator_.decision_function(features)

    @available_if(_has("predict_set"))
    def predict_set(
        self, X: Table, confidence: float = 0.9, **options: bool | float | str
    ) -> np.ndarray:
        """Sets of labels that contain those of new rows with the confidence asked for.

        They are those of `KernelFisherClassifier.predict_set`, whose options this method takes;
        (n, n_classes) of bool.
        """
        features = self.prepare(X)
        return self.estimator_.predict_set(features, confidence, **options)
