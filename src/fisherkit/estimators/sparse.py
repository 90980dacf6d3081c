"""Small classifiers on few kernels: lq-penalised and forward-selected Fisher discriminants."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
from numpy.lib.recfunctions import repack_fields
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags, check_random_state

from fisherkit.core import Array, Gram, forward, reference_width, width_step
from fisherkit.estimators import opening, validation
from fisherkit.estimators.base import THRESHOLDS, KernelModel, all_or_nothing
from fisherkit.estimators.decisions import DecisionMixin
from fisherkit.interfaces import ClassWeight, CrossValidation, KernelName, Seed
from fisherkit.rows import IN_MEMORY, Expansion, centre_rows, gamma_by_thumb, require_finite_model
from fisherkit.sparse import Choice, Family, ForwardLearner, LqLearner, Sample, crossfit
from fisherkit.stored import stored

SELECT = ("error", "sparsest")
BASES = ("auto", "random", "pivoted")
GAMMA_RULES = ("cv", "scale", "median")

GROWTH_DTYPE = [("row", int), ("conditional_loo_error", float), ("conditional_loo_mse", float)]

_WIDTHS = range(-3, 4)  # half octaves about the reference width
_MOST_TERMS = 200  # of a forward selection that is not told otherwise


class ExpansionMixin(ClassifierMixin):
    """What the two sparse classifiers share: merged rows, cross-validation, the terms kept."""

    _gamma_rules: ClassVar[tuple[str, ...]] = GAMMA_RULES

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.array_api_support = False
        return tags

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose the kernel width and the size of the model by cross-validation, and fit.

        Parameters
        ----------
        X : (n, d), or (n, n) for a precomputed kernel
        y : (n,)
            Labels of any type.
        sample_weight : (n,), default=None
            Number of copies of each row.
        groups : (n,), default=None
            Passed to the splitter given as ``cv``.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            learner = self._learner()
            sample, classes = self._sample(X, y, sample_weight, groups)
            choice = crossfit.choose(
                sample,
                learner,
                self._gammas(sample),
                sparsest=self.select == "sparsest",
                balanced=self.threshold == "balanced",
            )
            family, member, candidates = crossfit.refit(sample, choice)
            self._keep(sample, classes, choice, family, member, candidates)
            self._keep_path(sample, choice, family, candidates)
        return self

    def _learner(self) -> crossfit.Learner:
        """What is fitted to each fold; refuses parameters that are not valid."""
        raise NotImplementedError

    def _keep_path(
        self, sample: Sample, choice: Choice, family: Family, candidates: np.ndarray
    ) -> None:
        """Fitted attributes that say what was compared."""
        raise NotImplementedError

    def _sample(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> tuple[Sample, Array]:
        """Validated, merged rows with their folds, and what `_keep` needs of the rest."""
        validation.one_of("select", self.select, SELECT)
        validation.one_of("threshold", self.threshold, THRESHOLDS)
        source = opening.in_memory(self, X, y, sample_weight, IN_MEMORY, self.class_weight)
        kept, n_rows, labels = source.kept, source.n, source.labels
        assert labels is not None
        frequency = labels.weights.frequency
        gram = Gram(source.X, self._kernel(), source.rounding)
        merged_gram, merged, first, group = crossfit.merge(gram, labels)
        cv = self.cv
        if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool) and cv >= 2:
            # No more folds than the largest class has members; a class of one is never tested.
            largest = int(np.bincount(labels.index).max())
            cv = min(int(cv), largest) if largest > 1 else None
        if cv is None:
            folds = crossfit.leave_one_out(merged.weights.frequency)
            order, copies = np.argsort(group, kind="stable"), np.bincount(group)
            tests = np.split(kept[order], np.cumsum(copies)[:-1])
        else:
            pairs = validation.fold_pairs(
                cv, source.X, labels.values, groups, kept, n_rows, classifier=True
            )
            folds = crossfit.merged_folds(pairs, group, frequency)
            tests = [kept[test] for _, test in pairs]
        merged_row = np.full(n_rows, -1)
        merged_row[kept] = group
        centres, centre_of = crossfit.centres_of(merged_gram.distinct())
        rng = check_random_state(self.random_state)
        basis, n_candidates, given = "all", len(centres), None
        count = validation.count("n_candidates", self.n_candidates)
        if not isinstance(self.basis, str):
            rows = centre_rows(self.basis, kept, n_rows)
            if count is not None and count != len(rows):
                raise ValueError(
                    f"n_candidates={count} contradicts basis, which names {len(rows)} rows; leave "
                    "it at None."
                )
            given = np.unique(centres[centre_of[group[rows]]])
        else:
            basis = validation.one_of("basis", self.basis, BASES, also=" or an array of rows")
            few = count is None and basis == "auto" and len(centres) > crossfit.MANY
            if few and not merged_gram.kernel.precomputed:
                basis, count = "random", crossfit.CANDIDATES
            if count is not None:
                n_candidates = count
                basis = "pivoted" if basis == "auto" else basis
            elif basis != "auto":
                raise ValueError(
                    f"basis={basis!r} needs n_candidates, the number of candidate centres; got "
                    "None."
                )
            basis = "all" if count is None else basis
        sample = Sample(
            gram=merged_gram,
            labels=merged,
            rows=kept[first],
            centres=centres,
            centre_of=centre_of,
            folds=folds,
            tests=tests,
            group=merged_row,
            basis=basis,
            n_candidates=n_candidates,
            given=given,
            seed=rng.randint(np.iinfo(np.int32).max),
        )
        return sample, labels.classes

    def _gammas(self, sample: Sample) -> list[float | None]:
        """The widths to try."""
        kernel, X = sample.gram.kernel, sample.gram.X
        if not kernel.has_gamma:
            return [None]
        gamma = validation.number_or_rule("gamma", self.gamma, GAMMA_RULES)
        frequency = sample.labels.weights.frequency
        if gamma is None:
            gamma = gamma_by_thumb(self.gamma, X, frequency, kernel, sample.seed)
        if gamma is not None:
            return [gamma]
        reference, step = reference_width(X, frequency, kernel), width_step(kernel)
        return [reference * step**j for j in _WIDTHS]

    def _keep(
        self,
        sample: Sample,
        classes: Array,
        choice: Choice,
        family: Family,
        member: int,
        candidates: np.ndarray,
    ) -> None:
        used = np.flatnonzero(np.any(family.coef[member] != 0, axis=1))
        centres = candidates[family.terms[used]]
        order = np.argsort(sample.rows[centres])
        # Logits are affine in what the learner decides by: their value at 0, and what is beside it.
        zero = crossfit.logits(choice.slope, np.zeros_like(family.intercept[member]))
        coef = crossfit.logits(choice.slope, family.coef[member][used][order]) - zero
        intercept = crossfit.logits(choice.slope, family.intercept[member])
        require_finite_model(coef, intercept)
        flat = len(classes) == 2
        self.classes_ = classes
        self.gamma_ = choice.gamma
        self.basis_indices_ = sample.rows[centres][order]
        self.n_terms_ = len(used)
        self.cv_error_ = float(choice.path["cv_error"][choice.chosen])
        self._set_calibration(choice.slope)
        precomputed = sample.gram.kernel.precomputed
        self._expansion = Expansion(
            kernel=replace(sample.gram.kernel, gamma=choice.gamma),
            centres=None if precomputed else sample.gram.X[centres[order]],
            columns=self.basis_indices_ if precomputed else None,
            coef=coef,
            intercept=intercept,
            flat=flat,
        )
        self.cv_decision_ = choice.decisions[:, 0] if flat else choice.decisions


@stored("SparseFisherClassifier")
class SparseFisherClassifier(ExpansionMixin, DecisionMixin, KernelModel):
    r"""Kernel Fisher discriminant with an lq penalty: few kernels, many or two classes (kFDA_q).

    A regression on optimal scores of the classes. The penalty takes the norm of each row of
    coefficients, which couples the classes: a centre serves all of them or none.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        A name of ``sklearn.metrics.pairwise``, "precomputed", or a callable of two rows.
    q : float in (0, 2], default=1.0
        1 is the (group) lasso, solved exactly. Below 1 the models are smaller and the objective
        has many local minima: majorise-minimise from the lasso solution at rho/3. Above 1 every
        centre is retained.
    rho : "cv" or float, default="cv"
        The penalty, or its choice by cross-validation from 20 values, the largest of which is the
        smallest that retains nothing, over three decades or more.
    gamma : {"cv", "scale", "median"} or float, default="cv"
        Kernel coefficient; "cv" tries 7 widths about the spread of the data, beyond 1,700 rows on
        1,000 of them first.
    degree, coef0 : float, default=3, 1.0
        Parameters of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Extra arguments of a callable kernel.
    cv : int, splitter, iterable or None, default=5
        The folds that choose rho and gamma and calibrate the probabilities (at most as many as
        the largest class has rows); ``None`` is leave-one-out, which refits for every row. A
        number is that of scikit-learn's stratified folds, dealt in the order of the rows.
    penalize_bias : bool, default=False
        Whether the penalty includes the intercept, as in the paper.
    select : {"error", "sparsest"}, default="error"
        The smallest cross-validated error, or the fewest terms within one standard error of it.
    threshold : {"prior", "balanced"}, default="prior"
        "balanced" decides as if the classes were equally frequent.
    basis : {"auto", "random", "pivoted"} or array of row indices, default="auto"
        Rows that may become centres: all, or ``n_candidates`` of them ("auto" then means
        "pivoted").
    n_candidates : int, default=None
        With it the full kernel matrix is never formed. ``None`` means all rows up to 3,000
        different ones, and 2,000 random ones of more.
    class_weight : dict, "balanced" or None, default=None
        Cost of each class, multiplied with the sample weights.
    random_state : int, RandomState or None, default=None
        For the choice of candidates.
    verbose : bool, default=False
        Print what is being done, and how far it is, on standard error.

    Attributes
    ----------
    classes_ : (n_classes,)
    dual_coef_ : (n_terms,) for two classes, otherwise (n_classes, n_terms)
        ``decision_function(x) = k(x, centres) @ dual_coef_.T + intercept_``.
    intercept_ : scalar or (n_classes,)
    basis_indices_ : (n_terms,)
        Rows of the training data that are centres.
    n_terms_ : int
        Kernels evaluated for a prediction.
    rho_ : float
    gamma_ : float or None
    path_ : ndarray with fields gamma, rho, n_terms, cv_error, cv_se
        Every model compared on all rows; ``n_terms`` is the mean over the folds.
    cv_error_ : float
        Cross-validated error of the choice: optimistic, as the smallest of many. From three classes
        on it is that before the softmax, whose own is ``calibration_.error``.
    cv_decision_ : (n,) or (n, n_classes)
        Decision of the choice for each training row by the folds without it (their mean if there
        are several); NaN for rows that no fold tests, or of weight 0.
    calibration_ : Slope or Softmax
        As in `KernelFisherClassifier`, from the decisions of the folds. A `Softmax` is fitted to
        the discriminants that compare models, less the mean of their row, and makes `cv_decision_`
        and decisions of them.

    Notes
    -----
    With optimal scores Y (n, k), k = c - 1, of mean 0 and covariance I, and L candidates z_j, the
    coefficients A (L, k) minimise

    .. math::

        J(A, b) = \frac{1}{2} \sum_i v_i \Bigl| Y_i - b - \sum_j k(x_i, z_j) A_j \Bigr|^2
        + \rho\, m \sum_j |A_j|^q , \qquad m = \sum_i v_i .

    Two classes are decided at the midpoint of the codes +-1 (``threshold="prior"``). With more,
    linear discriminant analysis of the scores compares models, and held-out discriminants of the
    choice become logits by the softmax rule of `KernelFisherClassifier`.

    *Cost.* For each width and fold O(n L^2) for the Gram matrix of the columns (beyond 1,024
    candidates only of those that some model uses), then O(s^3 + s L k) for each step on s terms;
    memory O(n L). A prediction takes O(s d).

    The rho of the paper, whose codes are N/N_1 and -N/N_2, is this one times s^(2-q) with
    s^2 = N (1/N_1 + 1/N_2).

    ``sample_weight`` counts copies: a weight of 2 equals the row twice, 0 its absence.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from fisherkit import SparseFisherClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), SparseFisherClassifier(q=0.5)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9), bool(model[-1].n_terms_ < 40)
    (True, True)
    """

    def __init__(
        self,
        kernel: KernelName = "rbf",
        *,
        q: float = 1.0,
        rho: float | str = "cv",
        gamma: float | str = "cv",
        degree: float = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, object] | None = None,
        cv: CrossValidation = 5,
        penalize_bias: bool = False,
        select: str = "error",
        threshold: str = "prior",
        basis: str | ArrayLike = "auto",
        n_candidates: int | None = None,
        class_weight: ClassWeight = None,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.q = q
        self.rho = rho
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.cv = cv
        self.penalize_bias = penalize_bias
        self.select = select
        self.threshold = threshold
        self.basis = basis
        self.n_candidates = n_candidates
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    def _learner(self) -> LqLearner:
        q = validation.number("q", self.q)
        if not 0 < q <= 2:
            raise ValueError(f"q={self.q!r} is not valid; use a number in (0, 2].")
        rho = validation.number_or_rule("rho", self.rho, ("cv",))
        return LqLearner(
            q=q,
            penalize_bias=validation.flag("penalize_bias", self.penalize_bias),
            balanced=self.threshold == "balanced",
            rhos=None if rho is None else np.array([rho]),
        )

    def _keep_path(
        self, sample: Sample, choice: Choice, family: Family, candidates: np.ndarray
    ) -> None:
        self.path_ = repack_fields(choice.path[["gamma", "rho", "n_terms", "cv_error", "cv_se"]])
        self.rho_ = float(choice.path["rho"][choice.chosen])
        if self.rho != "cv" and self.n_terms_ == 0:
            words = validation.nothing_retained(self.rho_, len(sample.centres))
            warnings.warn(words, stacklevel=3)


@stored("ForwardFisherClassifier")
class ForwardFisherClassifier(ExpansionMixin, DecisionMixin, KernelModel):
    r"""Kernel classifier grown term by term, by leave-one-out error (F-OFS-LOO) or kFDA_OLS.

    Each step adds the kernel that most improves the criterion and makes all others orthogonal to
    it, so that one run compares models of every size.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        A name of ``sklearn.metrics.pairwise``, "precomputed", or a callable of two rows.
    criterion : {"loo_error", "press", "err"}, default="loo_error"
        What a new term improves: the leave-one-out error rate (ties broken by squared error), the
        leave-one-out squared error, or the share of the targets explained (orthogonal least
        squares; the number of terms is then chosen by cross-validation).
    gamma : {"cv", "scale", "median"} or float, default="cv"
        Kernel coefficient; "cv" tries 7 widths about the spread of the data, beyond 1,700 rows on
        1,000 of them first.
    degree, coef0 : float, default=3, 1.0
        Parameters of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Extra arguments of a callable kernel.
    cv : int, splitter, iterable or None, default=5
        The folds that choose the width (and the size, for "err") and calibrate the probabilities.
        Every fold selects its own terms, so their errors are honest. ``None`` is leave-one-out
        with a new selection for every row. A number is that of scikit-learn's stratified folds,
        dealt in the order of the rows.
    max_terms : int, default=None
        Largest number of terms; by default 200, or all candidates if they are fewer.
    patience : int, default=5
        Steps without improvement after which selection ends; the best prefix is kept.
    evidence : bool, default=False
        Whether each term of the final models gets a penalty of its own by evidence updates.
    select : {"error", "sparsest"}, default="error"
        The smallest cross-validated error, or the fewest terms within one standard error of it:
        among widths and sizes for "err", among widths otherwise.
    threshold, basis, n_candidates, class_weight, random_state, verbose
        As in `SparseFisherClassifier`.

    Attributes
    ----------
    classes_, dual_coef_, intercept_, basis_indices_, n_terms_, gamma_, cv_error_, cv_decision_
    calibration_
        As in `SparseFisherClassifier`.
    path_ : ndarray with fields gamma, n_terms, cv_error, cv_se, stopped
        Every size of every width compared on all rows, and for each width the model where each fold
        stopped by itself (``stopped``; not for "err"). Every fold selects its own terms.
    growth_ : ndarray with fields row, conditional_loo_error, conditional_loo_mse
        The run on all rows at the chosen width, by size: the row that entered (-1 for the bias
        alone) and the leave-one-out errors. These are conditional on the selection, and too low:
        the rows left out took part in choosing the terms. `cv_error_` is the honest one.

    Notes
    -----
    A term w_j is a kernel column made orthogonal, under the weights v, to the constant and to the
    terms before it. With kappa_j its squared length and a small ridge lambda, the coefficient, and
    the residual of row i of unit weight left out of the fit to the terms chosen, are

    .. math::

        \gamma_j = \frac{\sum_i v_i w_j(i) y(i)}{\kappa_j + \lambda} , \qquad
        \frac{y(i) - f(i)}{\beta(i)} , \quad
        \beta(i) = 1 - \frac{1}{n} - \sum_j \frac{w_j(i)^2}{\kappa_j + \lambda} .

    "loo_error" counts left-out rows on the wrong side, "press" sums their squared residuals, and
    "err" takes the largest (w_j'y)^2 / (w_j'w_j y'y).

    *Cost.* O(n L k) for each term among L candidates, with k columns of codes, once for each width
    and fold; memory O(n L). A prediction takes O(s d) for s terms.

    Compiled with numba if it is installed (``pip install fisherkit[fast]``); without it the same
    terms are selected more slowly.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from fisherkit import ForwardFisherClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), ForwardFisherClassifier(gamma=0.01)).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), bool(model[-1].n_terms_ < 40)
    (True, True)
    """

    def __init__(
        self,
        kernel: KernelName = "rbf",
        *,
        criterion: str = "loo_error",
        gamma: float | str = "cv",
        degree: float = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, object] | None = None,
        cv: CrossValidation = 5,
        max_terms: int | None = None,
        patience: int = 5,
        evidence: bool = False,
        select: str = "error",
        threshold: str = "prior",
        basis: str | ArrayLike = "auto",
        n_candidates: int | None = None,
        class_weight: ClassWeight = None,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.criterion = criterion
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.cv = cv
        self.max_terms = max_terms
        self.patience = patience
        self.evidence = evidence
        self.select = select
        self.threshold = threshold
        self.basis = basis
        self.n_candidates = n_candidates
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    def _learner(self) -> ForwardLearner:
        validation.one_of("criterion", self.criterion, forward.CRITERIA)
        return ForwardLearner(
            criterion=self.criterion,
            max_terms=validation.count("max_terms", self.max_terms) or _MOST_TERMS,
            patience=validation.positive("patience", self.patience),
            evidence=validation.flag("evidence", self.evidence),
            balanced=self.threshold == "balanced",
        )

    def _keep_path(
        self, sample: Sample, choice: Choice, family: Family, candidates: np.ndarray
    ) -> None:
        fields = ["gamma", "n_terms", "cv_error", "cv_se", "stopped"]
        self.path_ = repack_fields(choice.path[fields])
        run = family.growth
        assert run is not None
        self.growth_ = np.empty(len(run.order) + 1, dtype=GROWTH_DTYPE)
        self.growth_["row"] = np.append(-1, sample.rows[candidates[run.order]])
        self.growth_["conditional_loo_error"] = run.loo_error
        self.growth_["conditional_loo_mse"] = run.loo_mse
