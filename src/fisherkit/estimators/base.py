"""What every kernel estimator shares: kernel and basis parameters, rows, tuning, scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from fisherkit.core import (
    BASES,
    KERNELS,
    Array,
    Decomposer,
    Kernel,
    Limits,
    Ridge,
    RidgePath,
    System,
    Weights,
    arrays,
    progress,
)
from fisherkit.estimators import opening, validation
from fisherkit.inference import Reach, SampledReach
from fisherkit.interfaces import FilePath
from fisherkit.rows import (
    IN_MEMORY,
    Basis,
    FitPlan,
    MemoryRows,
    Plan,
    RowSource,
    Spec,
    Task,
    memory_budget,
    mention_time,
    plan_for,
    require_finite_model,
    time_budget,
)
from fisherkit.tuning import AT_BOUNDS, CRITERIA, accurate_path, mention

PENALTIES = ("rkhs", "coefficients")
THRESHOLDS = ("prior", "balanced")
GAMMA_RULES = ("loo", "scale", "median")


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """A fit that fails or is interrupted leaves the estimator as it was: no half of a model.

    It prints its progress if the estimator is ``verbose``. Numbers that overflow on the way end in
    a criterion or a model that is not finite, and are refused there: NumPy need not warn first.
    """
    before = dict(vars(model))
    verbose = validation.flag("verbose", model.verbose)
    try:
        with progress.printed(verbose) if verbose else nullcontext(), arrays.quiet_overflow():
            yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise


class KernelModel(BaseEstimator):
    """What the classifier and the regressor share: kernel, rows, tuning, scores."""

    _bases: ClassVar[tuple[str, ...]] = BASES
    _gamma_rules: ClassVar[tuple[str, ...]] = GAMMA_RULES
    checkpoint: FilePath | None = None  # a parameter of the estimators that fit many rows

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

    def _basis(self) -> Basis:
        """The centres asked for."""
        m = validation.count("n_components", self.n_components)
        if not isinstance(self.basis, str):
            return Basis("given", m, np.asarray(arrays.to_numpy(self.basis)))
        kind = validation.one_of(
            "basis", self.basis, self._bases, also=" or an array of row indices"
        )
        if kind == "auto" and m is not None:
            kind = "pivoted"
        if kind == "full" and m is not None:
            raise ValueError(
                f"n_components={m} has no meaning with basis='full', where every row is a "
                "centre; use another basis, or n_components=None."
            )
        if kind not in ("auto", "full") and m is None:
            raise ValueError(f"basis={kind!r} needs n_components, the number of centres; got None.")
        return Basis(kind, m)

    def _open(self, X: Any, y: Any, sample_weight: Any, *, sums: bool = True) -> RowSource:
        """The rows of positive weight, wherever it is best to have them.

        Without ``sums``, in memory where it holds the fit, though sums over blocks are quicker.
        """
        class_weight = getattr(self, "class_weight", None)
        if arrays.is_dask(X):
            if getattr(self, "max_time", None) is not None:
                raise ValueError(
                    f"max_time={self.max_time!r} says nothing of a Dask collection, whose workers "
                    "this machine does not know; give n_components, a number of centres."
                )
            rows = opening.on_dask(self, X, y, sample_weight, class_weight)
            self.n_features_in_ = int(X.shape[1])
            if hasattr(X, "columns"):
                self.feature_names_in_ = np.asarray(list(X.columns), dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return rows
        plan = self._closed(self._plan(X), y)
        if not sums and plan.held:
            memory = memory_budget(self.max_memory, np.empty(0))
            plan = plan.in_memory(X.shape[0], memory)
        where = opening.in_blocks if plan.streamed and not plan.held else opening.in_memory
        return where(self, X, y, sample_weight, plan, class_weight)

    def _plan(self, X: Any) -> Plan:
        """Whether memory holds the fit, and what to do where it does not."""
        if self.max_memory is not None:  # also where it does not matter
            memory_budget(self.max_memory, np.empty(0))
        max_time = getattr(self, "max_time", None)
        time_budget(max_time)
        shape: Any = getattr(X, "shape", ())
        if self._pairwise or len(shape) != 2 or getattr(self, "ard", False):
            return IN_MEMORY
        basis = self._basis()
        basis.positions(np.arange(shape[0]), shape[0])
        whole, beside = self._needs_every_row(), self._row_numbers()
        plan = plan_for(
            X,
            basis.kind,
            basis.count,
            self.max_memory,
            whole=whole,
            beside=beside,
            max_time=max_time,
        )
        if max_time is None:
            mention_time(X, plan)
        return plan

    def _closed(self, plan: Plan, y: ArrayLike) -> Plan:
        """The plan, which may stay open until levels of a search have been seen."""
        return plan

    def _limits(self, rows: RowSource) -> Limits:
        """What a fit in memory may take, and where it may keep its state."""
        path = validation.path("checkpoint", self.checkpoint)
        if not isinstance(rows, MemoryRows):
            return Limits(None, path)
        return Limits(memory_budget(self.max_memory, rows.X), path)

    def _needs_every_row(self) -> str | None:
        """Which parameter needs every row at once, and what to use instead; ``None`` if none."""
        cv, criterion = getattr(self, "cv", None), getattr(self, "criterion", None)
        if cv is not None:
            return f"cv={cv!r}: folds need every row at once; leave cv=None"
        if callable(criterion):
            return (
                f"criterion={criterion!r}: a callable needs every decision at once; use one of "
                + ", ".join(map(repr, CRITERIA))
            )
        return None

    def _row_numbers(self) -> int:
        """Numbers for each row that a fit in memory holds beside features and decomposition."""
        return 0

    def _spec(self, rows: RowSource, groups: Any = None, **decisions: Any) -> Spec:
        """The parameters, checked; ``decisions`` are the criterion and the rule of a classifier."""
        validation.one_of("penalty", self.penalty, PENALTIES)
        mu = validation.number_or_rule("regularization", self.regularization, ("loo",))
        kernel, gamma = self._kernel(), None
        if kernel.has_gamma:
            gamma = validation.number_or_rule("gamma", self.gamma, GAMMA_RULES)
        spec = Spec(
            kernel=kernel,
            gamma=gamma,
            gamma_rule=self.gamma,
            mu=mu,
            penalty=self.penalty,
            bias=validation.bias(self.bias),
            basis=self._basis(),
            seed=check_random_state(self.random_state).randint(np.iinfo(np.int32).max),
            limits=self._limits(rows),
            **decisions,
        )
        if self.cv is None:
            return spec
        assert isinstance(rows, MemoryRows)
        values = None if rows.labels is None else rows.labels.values
        classifier = values is not None
        pairs = validation.fold_pairs(
            self.cv, rows.X, values, groups, rows.kept, rows.n, classifier=classifier
        )
        searched = mu is None or spec.search_gamma
        return replace(spec, folds=validation.folds_of(pairs, rows.X) if searched else None)

    def _store(self, rows: RowSource, fit: Any) -> None:
        """Fitted attributes of f; the one place that writes them."""
        model, selection = fit.expansion, fit.selection
        require_finite_model(model.coef, model.intercept)
        self.gamma_: Any = selection.gamma
        self.regularization_ = selection.mu
        self.selection_ = selection
        mention(self, selection.status, AT_BOUNDS)
        self._expansion: Any = replace(model, flat=rows.flat)
        self.basis_indices_ = arrays.indices(fit.centres, model.coef)
        self._training: Any = fit.training
        if self.checkpoint is not None and selection.method == "recomputed":
            Path(self.checkpoint).unlink(missing_ok=True)  # it has served
        self.plan_ = fit.chosen or self._carried_out(len(fit.centres))

    def _carried_out(self, centres: int) -> FitPlan:
        """What was done where no choice was open."""
        selection, words = self.selection_, f"{centres:,} rows are centres"
        parameters = {name: getattr(self, name) for name in ("basis", "n_components")}
        if selection.method == "low-rank":
            words, parameters = "Every row is a centre, through a factor of low rank", {}
        elif selection.method not in ("centres", "streamed"):
            words, parameters = "Every row is a centre", {"basis": "full"}
        elif isinstance(self.basis, str) and self.basis == "auto":
            parameters = {"basis": "pivoted", "n_components": centres}
        reason = f": {selection.reason}" if selection.method == "streamed" else ""
        return FitPlan(f"{words}{reason}", parameters=parameters)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_expansion")

    @property
    def dual_coef_(self) -> Any:
        """Coefficients of the centres: (m,), or a row (m,) for each output."""
        model = self._expansion
        return model.coef[:, 0] if model.flat else model.coef.T

    @property
    def intercept_(self) -> Any:
        """What is added to the expansion: a scalar, or a number for each output."""
        model = self._expansion
        return model.intercept[0] if model.flat else model.intercept

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
        """The task, if memory holds its rows; what its Gram matrix keeps does not stay."""
        if hasattr(self, "compression_"):
            raise ValueError(
                "This needs every row of the fit, of which a compressed model keeps "
                f"{self.compression_.n_centres} of {self.compression_.of} centres. Ask the model "
                "that compress was called on."
            )
        if self._training is None or self.selection_.method == "recomputed":
            lacking = "every row of the fit in memory, but the fit has read them in blocks"
            if self.selection_.method != "streamed":
                lacking = "all of the kernel matrix in memory"
            raise ValueError(
                f"This needs {lacking} ({self.selection_.reason}). Raise max_memory, or fit a part "
                "of the rows."
            )
        return self._training.fresh()

    def _reach(self) -> tuple[Reach | SampledReach, Array]:
        """The fit as one that rows can be added to, and its centres, as new rows see them."""
        task = self._fresh_training()
        design, Y = task.problem.design, task.problem.Y
        if task.sampled is not None:
            assert task.mu is not None
            system = System.of(design.gram, Y, design.weights, design.bias, task.mu)
            sampled = SampledReach.of(system, task.sampled)
            if sampled is not None:
                return sampled, design.gram.X if task.features is None else task.features
        if design.every_row:
            design = replace(design, basis="full")
        found = Decomposer(design).decompose(task.gamma, lambda unit: 0.0)
        centres = arrays.indices(found.centres, Y)
        assert task.mu is not None
        reach = Reach.of(found.canonical, Y, task.mu, design.gram.columns(centres))
        if design.gram.kernel.precomputed:
            return reach, arrays.indices(task.kept[found.centres], Y)
        features = design.gram.X if task.features is None else task.features
        return reach, arrays.namespace(Y).take(features, centres, axis=0)

    def _kernel_blocks(
        self, X: Any, method: str, centres: Array, size: int, *, diagonal: bool
    ) -> Iterator[tuple[Array, Array | None]]:
        """Kernel values of new rows with the centres, and with themselves, in row blocks."""
        self._check_namespace(X, method)
        X = arrays.widen(validate_data(self, X, reset=False, dtype=arrays.float_dtypes(X)))
        precomputed = self.kernel == "precomputed"
        if diagonal and precomputed:
            raise ValueError(
                f"{method} with method='full' needs k(x, x) of the new rows, which "
                "kernel='precomputed' does not give. Use method='jackknife+'."
            )
        for rows in arrays.row_blocks(X.shape[0], centres.shape[0], size):
            some = X[rows, :]
            if precomputed:
                yield arrays.namespace(X).take(some, centres, axis=1), None
            else:
                kernel = self._expansion.kernel
                yield kernel.block(some, centres), kernel.diagonal(some) if diagonal else None

    def _scores(self, X: Any, method: str) -> tuple[Array, Any]:
        """f(x) for each row, (n, k), and the dtype in which users expect results."""
        check_is_fitted(self)
        self._check_namespace(X, method)
        sparse = "csr" if hasattr(self, "max_memory") else False
        X = validate_data(self, X, reset=False, accept_sparse=sparse, dtype=arrays.float_dtypes(X))
        return self._expansion(X), X.dtype

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
