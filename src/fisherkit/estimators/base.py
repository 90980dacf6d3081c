"""What every kernel estimator shares: kernel and basis parameters, rows, tuning, scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fisherkit.core import (
    BASES,
    KERNELS,
    Array,
    Decomposer,
    Design,
    Gram,
    Kernel,
    Ridge,
    RidgePath,
    Weights,
    arrays,
    coding,
    median_gamma,
    not_finite,
    progress,
    scale_gamma,
)
from fisherkit.estimators import streaming, validation
from fisherkit.inference import BLOCK, Reach
from fisherkit.rows import LargeFit, Plan, Request, memory_budget, plan, read
from fisherkit.stored import stored
from fisherkit.tuning import (
    AT_BOUNDS,
    Criterion,
    HeldOut,
    Problem,
    Selection,
    Tuned,
    accurate_path,
    log,
    mention,
    tune,
)

PENALTIES = ("rkhs", "coefficients")
THRESHOLDS = ("prior", "balanced")
GAMMA_RULES = ("loo", "scale", "median")

_ROWS = 128  # of a block, where they are long


@stored("task")
@dataclass(frozen=True)
class Task:
    """A fit that is about to happen: validated rows of positive weight, and how to tune on them.

    ``flat`` says that outputs have no second axis. ``classes``, ``indicator`` (n, c) and ``rule``
    are ``None`` for a regression.
    """

    problem: Problem
    mu: float | None
    gamma: float | None
    search_gamma: bool
    kept: np.ndarray
    dropped: Array | None
    flat: bool = True
    classes: Any = None
    indicator: Array | None = None
    rule: Any = None

    def on(self, X: Array) -> Task:
        """The same task with the features replaced by X."""
        design = self.problem.design
        gram = Gram(X, design.gram.kernel, design.gram.rounding)
        return replace(self, problem=replace(self.problem, design=replace(design, gram=gram)))

    def tune(self, decomposer: Decomposer | None = None) -> Tuned:
        return tune(
            self.problem,
            mu=self.mu,
            gamma=self.gamma,
            search_gamma=self.search_gamma,
            decomposer=decomposer,
        )

    def settled(self, selection: Selection, centres: np.ndarray) -> Task:
        """The task with the hyper-parameters found, and without what only finding them needed."""
        problem = self.problem
        gram = problem.design.gram
        kernel = replace(gram.kernel, gamma=selection.gamma)
        design = replace(problem.design, gram=Gram(gram.X, kernel, gram.rounding))
        if design.basis == "greedy":
            design = replace(design, basis="given", rows=centres)
        held_out = HeldOut.leave_one_out(problem.Y, design.weights, balanced=False)
        return replace(
            self,
            problem=Problem(design, problem.Y, Criterion("press", held_out)),
            mu=selection.mu,
            gamma=selection.gamma,
            search_gamma=False,
            dropped=None,
        )


def whole(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that fails or is interrupted leaves the estimator as it was: no half of a model.

    It prints its progress if the estimator is ``verbose``. Numbers that overflow on the way end in
    a criterion or a model that is not finite, and are refused there: NumPy need not warn first.
    """

    @wraps(fit)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        verbose = validation.flag("verbose", self.verbose)
        try:
            with progress.printed(verbose), arrays.quiet_overflow():
                return fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return guarded


class KernelModel(BaseEstimator):
    """What the classifier and the regressor share: kernel, rows, tuning, scores."""

    _bases: ClassVar[tuple[str, ...]] = BASES
    _gamma_rules: ClassVar[tuple[str, ...]] = GAMMA_RULES

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._pairwise
        tags.array_api_support = True
        tags.input_tags.sparse = hasattr(self, "max_memory")
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _pairwise(self) -> bool:
        """Whether X holds kernel values instead of features."""
        return self.kernel == "precomputed"

    def _kernel(self) -> Kernel:
        """The kernel but for its width; what it does not use must be valid as well."""
        if not callable(self.kernel):
            validation.one_of("kernel", self.kernel, KERNELS, also=" or a callable")
        validation.kernel_arguments(self.kernel_params, [self.kernel])
        validation.number_or_rule("gamma", self.gamma, self._gamma_rules)
        return self._with_parameters(self.kernel)

    def _with_parameters(self, kernel: Any) -> Kernel:
        """The kernel of this (valid) name, or the callable, with all parameters but gamma."""
        return Kernel(
            kernel,
            degree=validation.number("degree", self.degree, least=0),
            coef0=validation.number("coef0", self.coef0),
            params=self.kernel_params or {},
        )

    def _rules_in_use(self) -> list[str]:
        """The hyper-parameters in use that are chosen from the data, as ``name='rule'``."""
        used = {"regularization": self.regularization}
        if self._kernel().has_gamma:
            used["gamma"] = self.gamma
        return [f"{name}={value!r}" for name, value in used.items() if isinstance(value, str)]

    def _validate(self, X: Any, y: Any, **options: Any) -> tuple[Array, Any, float]:
        X, y = validate_data(self, X, y, dtype=float_dtypes(X), ensure_min_samples=2, **options)
        rounding, X = arrays.eps(X), arrays.widen(X)
        if self._pairwise:
            validation.precomputed(X, rounding)
        else:
            validation.mention_scales(X)
        return X, y, rounding

    def _labelled(
        self, X: Any, y: Any, sample_weight: Any, class_weight: Any = None
    ) -> tuple[Any, ...]:
        """What the classifiers learn from: X whole, its rounding and the rows of positive weight;
        of these rows the labels, their classes, the class index and the weights."""
        X, y, rounding = self._validate(X, y)
        check_classification_targets(y)
        frequency, kept = validation.frequencies(sample_weight, X)
        if not self._pairwise:
            validation.squares("X", take_rows(X, kept))
        frequency, y = take_rows(frequency, kept), take_rows(y, kept)
        classes, index = coding.encode(y, X)
        validation.several_classes(self, classes)
        cost = validation.class_costs(class_weight, classes, index, frequency)
        return X, rounding, kept, y, classes, index, Weights(frequency, cost)

    def _thumb_gamma(self, X: Array, frequency: Array, kernel: Kernel, seed: int) -> float | None:
        """gamma by the rule of thumb asked for, ``None`` if it is a search."""
        if self.gamma == "scale":
            return scale_gamma(X, frequency)
        if self.gamma == "median":
            return median_gamma(X, frequency, kernel, seed)
        return None

    def _basis(self, kept: np.ndarray, n: int) -> tuple[str, int | None, np.ndarray | None]:
        """The centres asked for: how they are found, their number and, where given, their rows."""
        m = validation.component_count(self.n_components, len(kept))
        basis, rows = "given", None
        if isinstance(self.basis, str):
            basis = validation.one_of(
                "basis", self.basis, self._bases, also=" or an array of row indices"
            )
            if basis == "auto" and m is not None:
                basis = "pivoted"
            if basis == "full" and m is not None:
                raise ValueError(
                    f"n_components={m} has no meaning with basis='full', where every row is a "
                    "centre; use another basis, or n_components=None."
                )
            if basis not in ("auto", "full") and m is None:
                raise ValueError(
                    f"basis={basis!r} needs n_components, the number of centres; got None."
                )
        else:
            rows = validation.centre_rows(self.basis, kept, n)
            if m is not None and m != len(rows):
                raise ValueError(
                    f"n_components={m} contradicts basis, which names {len(rows)} rows; leave it "
                    "at None."
                )
        return basis, m, rows

    def _task(
        self,
        X: Array,
        Y: Array,
        y: Any,
        weights: Weights,
        kept: np.ndarray,
        groups: Any,
        *,
        rounding: float,
        criterion: Any = "press",
        rule: coding.Rule | None = None,
        **labels: Any,
    ) -> Task:
        """Assemble the task; X and y are whole, Y and weights belong to the kept rows."""
        validation.one_of("penalty", self.penalty, PENALTIES)
        mu = validation.number_or_rule("regularization", self.regularization, ("loo",))
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        n = X.shape[0]
        X, dropped = split_rows(X, kept, pairwise=self._pairwise)
        kernel = self._kernel()
        gamma, search_gamma = None, False
        if kernel.has_gamma:
            gamma = validation.number_or_rule("gamma", self.gamma, GAMMA_RULES)
            search_gamma = self.gamma == "loo"
            if gamma is None:
                gamma = self._thumb_gamma(X, weights.frequency, kernel, seed)
        basis, m, rows = self._basis(kept, n)
        folds = None
        if self.cv is not None:
            classifier = rule is not None
            pairs = validation.fold_pairs(self.cv, X, y, groups, kept, n, classifier=classifier)
            if mu is None or search_gamma:
                folds = validation.folds_of(pairs, X)
        held_out = validation.held_out(
            Y, y, weights, folds, balanced=rule is not None and rule.balanced
        )
        design = Design(
            gram=Gram(X, replace(kernel, gamma=gamma), rounding),
            weights=weights,
            penalty=self.penalty,
            bias=validation.bias(self.bias),
            basis=basis,
            n_components=m,
            rows=rows,
            seed=seed,
        )
        problem = Problem(design, Y, Criterion(criterion, held_out))
        return Task(problem, mu, gamma, search_gamma, kept, dropped, rule=rule, **labels)

    def _store(self, task: Task, tuned: Tuned) -> None:
        """Fitted attributes of f."""
        gram, ridge = task.problem.design.gram, tuned.ridge
        require_finite_model(ridge.coef, ridge.intercept)
        xp = arrays.namespace(gram.X)
        centres = arrays.indices(tuned.centres, gram.X)
        self.gamma_: Any = tuned.selection.gamma
        self.regularization_ = tuned.selection.mu
        self.selection_ = tuned.selection
        mention(self, tuned.selection.status, AT_BOUNDS)
        if tuned.selection.reason:
            log.info("%s", tuned.selection.reason)
        self._fitted_kernel: Any = replace(gram.kernel, gamma=self.gamma_)
        self.basis_indices_ = arrays.indices(task.kept[tuned.centres], gram.X)
        self._centres: Any = None
        if not gram.kernel.precomputed:
            self._centres = xp.take(gram.X, centres, axis=0)
        self.dual_coef_ = ridge.coef[:, 0] if task.flat else ridge.coef.T
        self.intercept_ = ridge.intercept[0] if task.flat else ridge.intercept
        self._training: Any = task.settled(tuned.selection, tuned.centres)
        self._training_features: Any = gram.X  # what the fitted kernel compares new rows with

    def _store_large(self, fit: LargeFit, *, flat: bool) -> None:
        """Fitted attributes of f, of a fit that memory does not hold the usual way."""
        require_finite_model(fit.coef, fit.intercept)
        self.gamma_ = fit.kernel.gamma
        self.regularization_ = fit.selection.mu
        self.selection_ = fit.selection
        mention(self, fit.selection.status, AT_BOUNDS)
        self._fitted_kernel = fit.kernel
        self.basis_indices_ = arrays.indices(fit.indices, fit.coef)
        self._centres = fit.centres
        self.dual_coef_ = fit.coef[:, 0] if flat else fit.coef.T
        self.intercept_ = fit.intercept[0] if flat else fit.intercept
        self._training = self._training_features = None

    def _keep_rows(self, task: Task, fit: LargeFit) -> None:
        """What label sets, audits and the like need, of a fit by sums whose rows memory holds."""
        design = task.problem.design
        rows = np.searchsorted(task.kept, arrays.to_numpy(self.basis_indices_))
        design = replace(design, basis="given", n_components=len(rows), rows=rows)
        task = replace(task, problem=replace(task.problem, design=design))
        self._training = task.settled(fit.selection, rows)
        self._training_features = design.gram.X

    def _plan(self, X: Any) -> Plan:
        """Whether memory holds the fit, and what to do where it does not."""
        in_memory = Plan(False, "", None, "")
        if self.max_memory is not None:  # also where it does not matter
            memory_budget(self.max_memory, np.empty(0))
        shape: Any = getattr(X, "shape", ())
        if self._pairwise or len(shape) != 2 or getattr(self, "ard", False):
            return in_memory
        n, d = shape[0], shape[1]
        memory = memory_budget(self.max_memory, streaming.reference_of(X))
        basis, m, rows = self._basis(np.arange(n), n)
        m = len(rows) if rows is not None else m
        chosen = plan(n, d, streaming.copied_itemsize(X), basis, m, memory, self._row_numbers())
        if chosen.held and not streaming.by_sums(self, X):
            return in_memory
        if chosen.streamed:
            streaming.require_streamable(self, chosen.reason)
        return chosen

    def _row_numbers(self) -> int:
        """Numbers for each row that a fit in memory holds beside features and decomposition."""
        return 0

    def _request(
        self, chosen: Plan, *, criterion: str = "press", balanced: bool = False
    ) -> Request:
        """The parameters, checked, for a fit that reads its rows in blocks."""
        validation.one_of("penalty", self.penalty, PENALTIES)
        mu = validation.number_or_rule("regularization", self.regularization, ("loo",))
        kernel, gamma = self._kernel(), None
        if kernel.has_gamma:
            gamma = validation.number_or_rule("gamma", self.gamma, GAMMA_RULES)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        words = (
            self.gamma,
            self.penalty,
            validation.bias(self.bias),
            criterion,
            balanced,
            mu,
            chosen,
            seed,
        )
        return Request(kernel, gamma, *words)

    def _forget(self) -> None:
        """Remove what an earlier fit has left: an interrupted fit must not predict."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "intercept_")

    def _refit(self) -> Ridge:
        """The fit once more, with its hyper-parameters; one factorisation.

        A fit that never formed K does not form it here either.
        """
        if self.selection_.method == "low-rank":
            return self._path().at(self.regularization_)
        return self._fresh_training().tune().ridge

    def _path(self) -> RidgePath:
        """Fits of all mu at the width of the fit; one decomposition, K is not formed if it is low.

        As accurate at the mu of the fit as the fit itself.
        """
        task = self._fresh_training()
        assert task.mu is not None
        return accurate_path(task.problem, mu=task.mu, gamma=task.gamma)

    def _fresh_training(self) -> Task:
        """A copy of the task: what its Gram matrix keeps must not stay with the estimator."""
        if self._training is None:
            lacking = "every row of the fit in memory, but the fit has read them in blocks"
            if self.selection_.method != "streamed":
                lacking = "all of the kernel matrix in memory"
            raise ValueError(
                f"This needs {lacking} ({self.selection_.reason}). Raise max_memory, or fit a part "
                "of the rows."
            )
        return self._training.on(self._training.problem.design.gram.X)

    def _reach(self) -> tuple[Reach, Array]:
        """The fit as one that rows can be added to, and its centres, as new rows see them."""
        task = self._fresh_training()
        design, Y = task.problem.design, task.problem.Y
        if design.every_row:
            design = replace(design, basis="full")
        found = Decomposer(design).decompose(task.gamma, lambda unit: 0.0)
        centres = arrays.indices(found.centres, Y)
        assert task.mu is not None
        reach = Reach.of(found.canonical, Y, task.mu, design.gram.columns(centres))
        if design.gram.kernel.precomputed:
            return reach, arrays.indices(task.kept[found.centres], Y)
        return reach, arrays.namespace(Y).take(self._training_features, centres, axis=0)

    def _kernel_blocks(
        self, X: Any, method: str, centres: Array, *, diagonal: bool
    ) -> Iterator[tuple[Array, Array | None]]:
        """Kernel values of new rows with the centres, and with themselves, in row blocks."""
        self._check_namespace(X, method)
        X = arrays.widen(validate_data(self, X, reset=False, dtype=float_dtypes(X)))
        precomputed = self.kernel == "precomputed"
        if diagonal and precomputed:
            raise ValueError(
                f"{method} with method='full' needs k(x, x) of the new rows, which "
                "kernel='precomputed' does not give. Use method='jackknife+'."
            )
        for rows in arrays.row_blocks(X.shape[0], centres.shape[0], BLOCK):
            some = X[rows, :]
            if precomputed:
                yield arrays.namespace(X).take(some, centres, axis=1), None
            else:
                values = self._fitted_kernel.block(some, centres)
                yield values, self._fitted_kernel.diagonal(some) if diagonal else None

    def _scores(self, X: Any, method: str) -> tuple[Array, Any]:
        """f(x) for each row, (n, k), and the dtype in which users expect results."""
        check_is_fitted(self)
        self._check_namespace(X, method)
        sparse = "csr" if hasattr(self, "max_memory") else False
        X = validate_data(self, X, reset=False, accept_sparse=sparse, dtype=float_dtypes(X))
        return self._raw_scores(X), X.dtype

    @arrays.quiet_overflow()
    def _raw_scores(self, X: Array) -> Array:
        """f(x) for validated rows, in row blocks."""
        xp = arrays.namespace(self.dual_coef_)
        flat = len(self.dual_coef_.shape) == 1
        coef = self.dual_coef_[:, None] if flat else self.dual_coef_.T
        parts = []
        longest = max(coef.shape[0], X.shape[1])
        # Each block goes through all centres once more: with long rows, that has to pay.
        elements = max(arrays.BLOCK_ELEMENTS, min(coef.shape[0], _ROWS) * X.shape[1])
        for rows in arrays.row_blocks(X.shape[0], longest, elements):
            some = arrays.widen(read(X, rows))
            if coef.shape[0] == 0:  # a constant model
                K = xp.zeros_like(some[:, :0])
            elif self._centres is None:
                K = xp.take(some, self.basis_indices_, axis=1)
            else:
                K = self._fitted_kernel.block(some, self._centres)
            parts.append(K @ coef)
        scores = xp.concat(parts, axis=0) + xp.reshape(self.intercept_, (1, -1))
        rows_have_numbers(scores, "score")
        return scores

    def _check_namespace(self, X: Any, method: str) -> None:
        """Refuse rows of another array library than fit saw, as scikit-learn does."""
        if not get_config()["array_api_dispatch"]:
            return
        names = [arrays.library(self.intercept_), arrays.library(X)]
        if names[0] != names[1]:
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace "
                "and the same device as those passed to fit(). Array namespaces used during fit "
                f"({names[0]}) and {method} ({names[1]}) differ."
            )


def require_finite_model(coef: Array, intercept: Array) -> None:
    """Refuse coefficients that overflow: the model would predict nothing."""
    xp = arrays.namespace(coef)
    if not (bool(xp.all(xp.isfinite(coef))) and bool(xp.all(xp.isfinite(intercept)))):
        raise ValueError(
            "The coefficients of the model overflow: targets or weights are too large for kernel "
            "values as small as these. Scale X and y, for example with "
            "sklearn.preprocessing.StandardScaler."
        )


def rows_have_numbers(values: Array, name: str) -> None:
    """Refuse rows of X for which the model has no finite values (n, k)."""
    xp = arrays.namespace(values)
    if not bool(xp.all(xp.isfinite(values))):
        bad = arrays.to_numpy(xp.any(~xp.isfinite(values), axis=1))
        raise ValueError(not_finite(f"row {int(np.flatnonzero(bad)[0])} of X has no {name}"))


def float_dtypes(X: Any) -> Any:
    """The floats that X may have: of its own namespace, or of NumPy, which it will become."""
    dispatch = get_config()["array_api_dispatch"] and arrays.is_array_api(X)
    xp = arrays.namespace(X) if dispatch else np
    return [xp.float64, xp.float32]


def standardisation(X: Array, weights: Weights) -> tuple[Array, Array, Array]:
    """Columns that vary (the first if none does), their means and standard deviations."""
    xp = arrays.namespace(X)
    varies = np.flatnonzero(arrays.to_numpy(xp.max(X, axis=0) > xp.min(X, axis=0)))
    columns = arrays.indices(varies if len(varies) else [0], X)
    X = xp.take(X, columns, axis=1)
    mean = weights.mean(X)
    unit = xp.max(xp.abs(X - mean), axis=0)  # so that squares do not overflow
    unit = xp.where(unit > 0, unit, xp.ones_like(unit))
    spread = unit * xp.sqrt(weights.mean(((X - mean) / unit) ** 2))
    return columns, mean, xp.where(spread > 0, spread, xp.ones_like(spread))


def take_rows(values: Any, kept: np.ndarray) -> Any:
    """Rows ``kept`` of an array of any namespace."""
    if len(kept) == values.shape[0]:
        return values
    rows = kept if arrays.is_numpy(values) else arrays.indices(kept, values)
    return arrays.take_rows(values, rows)


def split_rows(X: Array, kept: np.ndarray, *, pairwise: bool) -> tuple[Array, Array | None]:
    """Rows of positive weight, and the others (``None`` if there are none)."""
    if len(kept) == X.shape[0]:
        return X, None
    dropped = take_rows(X, np.setdiff1d(np.arange(X.shape[0]), kept))
    X = take_rows(X, kept)
    if pairwise:
        X = arrays.namespace(X).take(X, arrays.indices(kept, X), axis=1)
    return X, dropped
