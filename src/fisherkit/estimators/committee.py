"""The committee as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from fisherkit.committee import COMBINE, Asked, CommitteeFit, Status, fit, table
from fisherkit.core import KERNELS, Array, Kernel, View, arrays, width_of_moments, width_step
from fisherkit.estimators import validation
from fisherkit.estimators.base import PENALTIES, KernelModel, all_or_nothing
from fisherkit.estimators.decisions import DecisionMixin
from fisherkit.interfaces import ClassWeight, Container, KernelName, MemoryLimit, Seed, TimeLimit
from fisherkit.rows import (
    Basis,
    CommitteeJob,
    FitPlan,
    MemoryRows,
    Plan,
    RowSource,
    require_finite_model,
)
from fisherkit.stored import stored
from fisherkit.tuning import GRID, log, mention, probabilities

_WORTH = 2  # widths of a kernel that are worth a fit to all rows
_CALIBRATION_COPIES = 6  # of the scores of a width that Newton steps hold at a time


@stored("record of a committee")
@dataclass(frozen=True)
class _Record:
    """The table of members: NumPy whatever the namespace of X, in which arrays must be."""

    members: np.ndarray


@stored("FisherCommitteeClassifier")
class FisherCommitteeClassifier(DecisionMixin, KernelModel):
    r"""Every kernel Fisher discriminant on a grid, weighted by its leave-one-out likelihood.

    Tuning compares a grid of kernel widths and regularisations by exact leave-one-out and keeps one
    model. This classifier keeps them all: each member is calibrated on its leave-one-out scores,
    and its weight follows from how well it then predicts the rows left out.

    Parameters
    ----------
    kernels : sequence of str, callable or pair, default=("rbf", "laplacian")
        Names of ``sklearn.metrics.pairwise``, "exponential" or "additive", or callables
        ``k(x, y, gamma=...)`` of two rows; a pair of such a kernel and a list of columns, by their
        numbers, sees these columns only. The families have equal weight before the data are seen.
    n_widths : int, default=7
        Widths of each kernel, an octave apart, about the spread of the features (as
        `reference_width` measures it; that of rbf for callables).
    gammas : None, sequence of float, or one such sequence for each kernel, default=None
        Kernel coefficients to use instead. Kernels that have none ignore both parameters.
    learn : bool or sequence of bool, default=False
        Whether each kernel has a second family that learns how much each column matters (rbf,
        laplacian and exponential can): from slopes of a fit, judged on folds that it has not seen.
    combine : {"average", "families", "stack", "best"}, default="average"
        "average" weighs members by the root of their leave-one-out likelihood, "stack" fits
        non-negative weights to the leave-one-out logits, shrunk to the average, "families"
        averages within each family and stacks these, and "best" takes the single member of the
        smallest calibrated log-loss.
    min_weight : float in [0, 1), default=1e-4
        Members of less weight are dropped, and the others rescaled: prediction evaluates only
        widths that matter.
    degree, coef0 : float, default=3, 1.0
        Parameters of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Extra arguments of callable kernels.
    penalty : {"rkhs", "coefficients"}, default="rkhs"
        ``mu f'K^-1 f`` (LS-SVM, kernel ridge) or ``mu alpha'alpha`` (KFD of the papers).
    basis : {"auto", "full", "pivoted", "random"} or array of row indices, default="auto"
        Rows that serve as centres. "auto" uses every row, through a low-rank factorisation where
        the kernel matrix allows it; that of the Laplacian never does, so beyond some thousand rows
        give ``n_components``. Leave-one-out is conditional on the centres.
    n_components : int, default=None
        Number of centres for "pivoted" and "random"; with "auto" it means "pivoted".
    class_weight : dict, "balanced" or None, default=None
        Cost of each class, multiplied with the sample weights.
    max_memory : int, str or None, default=None
        Bytes, or a text such as "2GB"; ``None`` is half of what is free. A fit that would take more
        reads its rows in blocks, on centres, with every member in the same two passes; "auto"
        chooses their number. A log line says so and why.
    max_time : float, "auto" or None, default=None
        Seconds that the fit may take, as of `KernelFisherClassifier`: more rows than can be fitted
        in that time give way to as many centres as can (`plan_`).
    random_state : int, RandomState or None, default=None
        For random pivots and centres.
    verbose : bool, default=False
        Print what is being done, and how far it is, on standard error.

    Attributes
    ----------
    classes_ : (n_classes,)
    members_ : ndarray with one row for each member
        Fields kernel, width (1/sqrt(2 gamma) for rbf, 1/gamma otherwise), gamma, mu, unit
        (tr(G)/n, so that mu / unit is the relative regularisation), weight, slope, offset (or
        offset_0, offset_1, ... for more than two classes), loo_log_loss and bounded (whether the
        slope is at its bound: decisions that tell nothing). For pandas:
        ``DataFrame(model.members_)``.
    weights_ : (n_members,)
        Their weights; 0 for members dropped. They sum to 1 unless stacked.
    effective_members_ : float
        1 / sum of squared (normalised) weights.
    relevance_ : dict
        For each kernel that has learned the scale of each column, (n_features,); 0 for columns
        that it does not see.
    dual_coef_ : dict
        For each (kernel, gamma) in use the coefficients of its centres, summed over mu: (m,) for
        two classes, otherwise (n_classes, m).
    basis_indices_ : dict
        For each (kernel, gamma) in use the rows of the training data that are centres.
    intercept_ : scalar or (n_classes,)
        ``decision_function(x)`` is the sum of ``k(x, centres) @ dual_coef.T``, plus this.
    loo_proba_ : (n, n_classes)
        Probabilities of each training row from the members fitted without it (a Dask array after a
        fit to a Dask collection). Conditional on the weights and calibrations (with W and c), which
        have seen the row; the log-loss on new rows is higher.
    calibration_ : Slope or Softmax
        A slope of one: decisions are log-odds. From three classes on it has the ``matrix`` W and
        the ``shift`` c that act on the members' average, the ``ridge`` chosen for them, and the
        cross-fitted ``log_loss`` and ``error`` of training rows that W and c were not fitted to.
    status_ : Status
        Its value is a sentence.
    plan_ : FitPlan
        What was done with the rows, as of `KernelFisherClassifier`.

    Notes
    -----
    With F_ij the leave-one-out score of row i under member j and m_i the mean code of the rows
    that remain without it, slope a_j and offset b_j minimise the mean cross-entropy N_j of the
    logits u_ij against smoothed labels. The members are averaged to the logits g,

    .. math::

        u_{ij} = a_j (F_{ij} - m_i) + b_j , \qquad
        \omega_j \propto \pi_j \exp(-n N_j / 2) , \qquad
        g(x) = \sum_j \omega_j [a_j (f_j(x) - \bar y) + b_j] ,

    and p = sigmoid(g), or softmax(g W + c) with the W and c of `KernelFisherClassifier`, fitted to
    g of the left-out rows; the prior pi_j is uniform within each kernel family. "stack"
    minimises the cross-entropy of ``b_0 + sum_j v_j u_ij`` plus ``0.05 |v - omega|^2`` over v >= 0
    and b_0, on the 120 members of largest omega.

    *Cost.* A decomposition for each kernel and width, O(n^3) time and O(n^2) memory, or less as in
    `KernelFisherClassifier`. Beyond 800 rows 500 of them say which widths are fitted to all, and
    beyond 1,500 also which mu is likely: members about it are fitted one by one, by a Cholesky
    factorisation each. Then O(n r k) for each member, k columns of codes, and O(n k) for each of
    its Newton steps. Logits and coefficients of members that may keep weight stay in memory,
    O(n k) each. A prediction takes O(m d) for each kernel and width of positive weight.

    Leave-one-out is exact as in `KernelFisherClassifier`; ``sample_weight`` counts copies. Where
    no member predicts left-out rows better than the class shares do, the model is these shares.

    Features are not scaled: put a scaler in front.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from fisherkit import FisherCommitteeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), FisherCommitteeClassifier()).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.95)
    True
    >>> members = model[-1].members_
    >>> len(members), bool(1 < model[-1].effective_members_ < 350)
    (350, True)
    """

    def __init__(
        self,
        kernels: Sequence[KernelName | tuple[KernelName, View | ArrayLike]] = ("rbf", "laplacian"),
        *,
        n_widths: int = 7,
        gammas: Sequence[ArrayLike] | None = None,
        learn: bool | Sequence[bool] = False,
        combine: str = "average",
        min_weight: float = 1e-4,
        degree: float = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, object] | None = None,
        penalty: str = "rkhs",
        basis: str | ArrayLike = "auto",
        n_components: int | None = None,
        class_weight: ClassWeight = None,
        max_memory: MemoryLimit = None,
        max_time: TimeLimit = None,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.kernels = kernels
        self.n_widths = n_widths
        self.gammas = gammas
        self.learn = learn
        self.combine = combine
        self.min_weight = min_weight
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.penalty = penalty
        self.basis = basis
        self.n_components = n_components
        self.class_weight = class_weight
        self.max_memory = max_memory
        self.max_time = max_time
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _pairwise(self) -> bool:
        return False

    @property
    def members_(self) -> np.ndarray:
        return self._record.members

    @property
    def dual_coef_(self) -> dict[tuple[str, float | None], Array]:
        return self._dual_coef

    def fit(
        self,
        X: Container | ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Rate every member by leave-one-out, weigh them, and add them up.

        Parameters
        ----------
        X : (n, d)
        y : (n,)
            Labels of any type.
        sample_weight : (n,), default=None
            Number of copies of each row.
        groups : (n,), default=None
            Rows of a group (of a person, say) are left out together: members are rated on four
            folds of groups.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            self._check_words()
            rows = self._open(X, y, sample_weight, sums=groups is None)
            self._store(rows, fit(rows, self._asked(rows.plan), _groups_of(rows, groups)))
        return self

    def _store(self, rows: RowSource, fit: CommitteeFit) -> None:
        """Fitted attributes."""
        committee, intercept = fit.committee, fit.committee.intercept
        names, labels, flat = fit.names, rows.labels, rows.flat
        assert labels is not None
        self.classes_ = labels.classes
        self._record = _Record(table(committee, list(zip(names, fit.kernels, strict=True))))
        learned = names[len(names) - len(fit.relevance) :]
        self.relevance_ = dict(zip(learned, fit.relevance, strict=True))
        self.weights_ = arrays.like(committee.weights, intercept)
        self.effective_members_ = committee.effective_members
        self.status_ = committee.status
        mention(self, committee.status, {Status.CLASS_PRIOR})
        self.calibration_ = committee.calibration
        self._dual_coef, self.basis_indices_ = {}, {}
        for part in committee.parts:
            require_finite_model(part.coef, intercept)
            key = names[part.family], part.gamma
            self._dual_coef[key] = part.coef[:, 0] if flat else part.coef.T
            self.basis_indices_[key] = arrays.indices(fit.places[part.centres], intercept)
        self._expansion = fit.expansion
        logits = fit.expansion
        self.plan_ = rows.plan.chosen or self._as_planned(rows.plan)
        self.loo_proba_ = rows.in_order(
            fit.left_out, lambda X: probabilities(logits(X), 1.0), labels.n_classes
        )

    def _as_planned(self, plan: Plan) -> FitPlan:
        """What was done where no choice was open."""
        m = plan.n_components
        if m is None:
            return FitPlan("Every row is a centre", parameters={"basis": "full"})
        parameters = {"n_components": m, "basis": plan.basis}
        if plan.basis == "given":
            parameters = {"basis": self.basis}
        return FitPlan(f"{m:,} rows are centres", parameters=parameters)

    def _check_words(self) -> None:
        """Refuse parameters that make no sense."""
        validation.one_of("combine", self.combine, COMBINE)
        validation.fraction("min_weight", self.min_weight)
        validation.one_of("penalty", self.penalty, PENALTIES)
        validation.positive("n_widths", self.n_widths)
        names = self._names()
        kernels = [kernel for kernel, _ in self._pairs()]
        validation.kernel_arguments(self.kernel_params, kernels)
        validation.gamma_lists("gammas", self.gammas, len(names))
        self._learns()

    def _pairs(self) -> list[tuple[Any, View | None]]:
        """Each kernel, and what it sees."""
        return [
            (kernel[0], _view(kernel[1])) if isinstance(kernel, tuple) else (kernel, None)
            for kernel in self.kernels
        ]

    def _kernels(self) -> list[Kernel]:
        """The kernels but for their widths."""
        return [
            replace(self._with_parameters(kernel), takes_gamma=callable(kernel), view=view)
            for kernel, view in self._pairs()
        ]

    def _learns(self) -> list[bool]:
        """Which of the kernels learn what matters."""
        kernels = self._kernels()
        families = [kernel.stationary for kernel in kernels]
        able = [family is not None and family.has_slopes for family in families]
        if isinstance(self.learn, bool | np.bool_):
            return [bool(self.learn) and can for can in able]
        learn: Any = self.learn
        if isinstance(learn, str) or not isinstance(learn, Iterable):
            raise ValueError(
                f"learn={learn!r} is not valid; use True, False, or one of them for each kernel."
            )
        asked = [validation.flag("learn", flag) for flag in learn]
        if len(asked) != len(kernels):
            raise ValueError(
                f"learn has {len(asked)} values for {len(kernels)} kernels; give one for each."
            )
        for name, flag, can in zip(self._names(), asked, able, strict=True):
            if flag and not can:
                raise ValueError(
                    f"learn asks kernel {name!r} to learn what matters, which has no slopes; rbf, "
                    "laplacian and exponential have."
                )
        return asked

    def _closed(self, plan: Plan, y: ArrayLike) -> Plan:
        """The plan by time and memory alone: no levels tell what centres cost."""
        if plan.outlook is None:
            return plan
        many = self.n_widths if self.combine != "families" else _WORTH
        job = plan.outlook.job
        learning = sum(self._learns())
        classes = len(np.unique(np.asarray(y)))
        work = CommitteeJob(
            **vars(job) | {"k": 1 if classes <= 2 else classes},
            widths=len(self.kernels) * min(many, _WORTH),
            learning=learning,
        )
        outlook = replace(plan.outlook, job=work)
        route, chosen = outlook.choose(None, 0.0)
        log.info("%s", chosen.sentence)
        return plan.asked_for(route, chosen, beside=self._row_numbers())

    def _row_numbers(self) -> int:
        members = len(GRID) * len(self.kernels) * self.n_widths
        return _CALIBRATION_COPIES * len(GRID) + members

    def _asked(self, plan: Plan) -> Asked:
        """The parameters, checked, with the centres that were chosen."""
        kernels, basis = self._kernels(), self._basis()
        if plan.chosen is not None and plan.n_components is not None:
            basis = Basis(plan.basis, plan.n_components)
        for kernel in kernels:
            if kernel.view is not None and kernel.view.columns.max() >= self.n_features_in_:
                raise ValueError(
                    f"a view asks for column {kernel.view.columns.max()}, but X has "
                    f"{self.n_features_in_} columns, counted from 0."
                )
        return Asked(
            names=self._names(),
            kernels=kernels,
            widths=partial(self._widths, kernels),
            penalty=self.penalty,
            basis=basis,
            combine=self.combine,
            learns=self._learns(),
            min_weight=self.min_weight,
            seed=check_random_state(self.random_state).randint(np.iinfo(np.int32).max),
        )

    def _names(self) -> list[str]:
        """Names of the kernels, each of them valid."""
        if isinstance(self.kernels, str) or not isinstance(self.kernels, Sequence):
            raise ValueError(
                f"kernels={self.kernels!r} is not valid; use a sequence of kernels, for example "
                "('rbf', 'laplacian')."
            )
        if len(self.kernels) == 0:
            raise ValueError("kernels is empty; name at least one kernel, for example ('rbf',).")
        known = [name for name in KERNELS if name != "precomputed"]
        names = []
        for kernel, view in self._pairs():
            if callable(kernel):
                name = getattr(kernel, "__name__", type(kernel).__name__)
            else:
                name = validation.one_of("kernels: kernel", kernel, known, also=" or a callable")
            names.append(name if view is None else f"{name} on {_called(view)}")
        if len(set(names)) < len(names):
            raise ValueError(
                f"kernels names a kernel twice: {', '.join(names)}. (Views may have names.)"
            )
        return names

    def _widths(
        self, kernels: list[Kernel], mean: np.ndarray, variance: np.ndarray
    ) -> list[tuple[float | None, ...]]:
        """The gammas of each kernel, from the moments of the features; ``None`` alone for kernels
        without."""
        given = validation.gamma_lists("gammas", self.gammas, len(kernels))
        octaves = np.arange(self.n_widths) - (self.n_widths - 1) / 2
        widths: list[tuple[float | None, ...]] = []
        for position, kernel in enumerate(kernels):
            if not kernel.has_gamma:
                widths.append((None,))
            elif given is not None:
                widths.append(given[position])
            else:
                model = Kernel("rbf") if callable(kernel.name) else kernel
                octave = width_step(model) ** 2
                reference = width_of_moments(mean, variance, model)
                widths.append(tuple(float(g) for g in reference * octave**octaves))
        return widths


def _view(given: Any) -> View:
    """What a kernel is to see, checked."""
    view = given if isinstance(given, View) else View(np.asarray(given))
    columns = np.asarray(view.columns)
    if columns.ndim != 1 or columns.dtype.kind not in "iu" or not len(columns) or columns.min() < 0:
        raise ValueError(
            f"a kernel is to see the columns {given!r}; use a View or a list of column numbers, "
            "counted from 0."
        )
    if view.scale is not None:
        scale = np.asarray(view.scale)
        if scale.shape != columns.shape or not np.all(np.isfinite(scale)):
            raise ValueError(
                f"a view has scale={view.scale!r}; give a finite number for each of its "
                f"{len(columns)} columns, or None."
            )
    return view


def _called(view: View) -> str:
    """The name of a view, or its columns."""
    if view.name:
        return view.name
    columns = ", ".join(map(str, view.columns[:6]))
    return f"columns {columns}" + (f" and {len(view.columns) - 6} more" * (len(view.columns) > 6))


def _groups_of(rows: RowSource, groups: ArrayLike | None) -> np.ndarray | None:
    """The group of each row of the fit, as numbers."""
    if groups is None:
        return None
    if not isinstance(rows, MemoryRows) or rows.plan.streamed:
        raise ValueError("groups need every row in memory; raise max_memory, or leave groups=None.")
    values = np.asarray(groups)
    if values.shape != (rows.n,):
        raise ValueError(
            f"groups has the shape {values.shape}; give one group for each of {rows.n} rows."
        )
    index = np.unique(validation.known_groups(values, rows.kept), return_inverse=True)[1]
    if index.max() < 1:
        raise ValueError("groups names one group only; at least two are needed.")
    return index
