"""The scikit-learn estimators: the words users know, translated to the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fisherkit.core import BASES, Array, Rule, arrays
from fisherkit.estimators import ard, validation
from fisherkit.estimators.base import THRESHOLDS, KernelModel, all_or_nothing
from fisherkit.estimators.compressing import CompressingMixin
from fisherkit.estimators.decisions import DiscriminantMixin
from fisherkit.inference import conformal
from fisherkit.interfaces import FilePath
from fisherkit.rows import Fit, RowSource, Spec, lazily
from fisherkit.stored import stored
from fisherkit.tuning import CRITERIA, Widths, left_out_scores

MULTICLASS = ("softmax", "lda", "ovr")
_WITH_LABELS = (*BASES, "greedy")


class _FeatureWidths(KernelModel):
    """What ``ard`` means for both."""

    ard: bool

    def _check_ard(self) -> None:
        validation.flag("ard", self.ard)
        if self.ard:
            ard.check(self)

    def _store_widths(self, fit: Fit) -> None:
        self.relevance_: Array = None
        self.widths_: Widths | None = None
        if isinstance(fit, ard.FeatureFit):
            self.gamma_, self.relevance_, self.widths_ = fit.gamma, fit.relevance, fit.widths


@stored("KernelFisherClassifier")
class KernelFisherClassifier(DiscriminantMixin, CompressingMixin, _FeatureWidths):
    r"""Optimally regularised kernel Fisher discriminant (LS-SVM, kernel ridge) that tunes itself.

    Minimises ``sum_i w_i (y_i - f(x_i) - b)^2 + mu * penalty`` on class codes. One decomposition
    of the kernel matrix prices every mu by exact leave-one-out; by default the kernel width is
    chosen by the same criterion.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        A name of ``sklearn.metrics.pairwise``, "precomputed", or a callable of two rows.
    gamma : {"loo", "scale", "median"} or float, default="loo"
        Kernel coefficient (``exp(-gamma |x - x'|^2)`` for rbf); ignored by kernels without one.
        "loo" chooses it together with mu.
    ard : bool, default=False
        One width per feature of the rbf, laplacian or exponential kernel, by how steep a fit is
        along each standardised feature (Notes). Widths differ only as far as rows that had no part
        in them approve; where they do not, one width serves all. Learned on at most 3,000 and at
        least 40 different rows, on four folds of its own whatever ``cv`` says, in about twice the
        time of one width; ``selection_`` is then in the units of the features that the kernel sees.
    degree, coef0 : float, default=3, 1.0
        Parameters of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Extra arguments of a callable kernel.
    penalty : {"rkhs", "coefficients"}, default="rkhs"
        ``mu f'K^-1 f`` (LS-SVM, kernel ridge) or ``mu alpha'alpha`` (KFD of the papers).
    bias : {"free", "penalized", "none"}, default="free"
        Whether f has an intercept, and whether the penalty includes it.
    regularization : "loo" or float, default="loo"
        The absolute mu, or the rule that chooses it.
    criterion : {"auto", "press", "log_loss", "error", "smoothed_error"} or callable, default="auto"
        What selection minimises on held-out rows. "auto" is "log_loss" for ``multiclass="softmax"``
        with three classes or more, "press" otherwise. A callable
        ``loss(y, decision, sample_weight)`` is evaluated on the grid of mu; decisions of more than
        two classes are indicator scores.
    cv : int, splitter or iterable, default=None
        ``None`` is leave-one-out; otherwise closed-form cross-validation on these folds chooses
        the hyper-parameters. `loo_decision_` and the calibration stay leave-one-out.
    threshold : {"prior", "balanced"}, default="prior"
        "balanced" decides as if the classes were equally frequent.
    multiclass : {"softmax", "lda", "ovr"}, default="softmax"
        From three classes on: logits fitted to left-out scores, which are decisions and
        probabilities in one (Notes); the penalised-LDA rule on the scores (needs ``bias="free"``);
        or the largest indicator score.
    basis : {"auto", "full", "pivoted", "random", "greedy"} or array of row indices, default="auto"
        Rows that serve as centres. "auto" uses every row, through a low-rank factorisation where
        the kernel matrix allows it (then `basis_indices_` holds its pivots). "random" draws them by
        weight, "pivoted" by randomly pivoted Cholesky, both blind to y. "greedy" adds the centre
        that lowers PRESS most, one by one, among four times as many rows; the width is tuned on
        random centres. Fewer centres then do; choosing them costs O(m^2 (R + m)) on R rows, at
        most 10 m or 5,000.
    n_components : int, default=None
        Number m of centres for "pivoted", "random" and "greedy"; with "auto" it means "pivoted".
    max_memory : int, str or None, default=None
        Bytes, or a text such as "2GB"; ``None`` is half of what is free. A fit that would take more
        reads its rows in blocks (memory-mapped files and sparse matrices are then never loaded
        whole), on centres: "auto" chooses their number, or takes every row through a low-rank
        factor where that fits. `selection_.reason` says what was chosen and why.
    max_time : float, "auto" or None, default=None
        Seconds that the fit may take. Of all rows and of so many centres it then takes the most
        accurate that this machine is predicted to fit in that time, and within ``max_memory``, once
        levels of the search have told whether more centres are worth it: `plan_` says what was
        chosen. "auto" is a minute of a nominal laptop with two cores, whatever this machine: the
        choice follows from the table alone. ``None`` is bounded by memory only, and warns of a fit
        that is predicted to take more than two minutes. ``basis`` and ``n_components`` come first.
    checkpoint : path, default=None
        A file that keeps the state of a fit of many rows by conjugate gradients, written every half
        minute. The same fit begun again goes on from there; the file goes when it has succeeded.
    class_weight : dict, "balanced" or None, default=None
        Cost of each class, multiplied with the sample weights.
    random_state : int, RandomState or None, default=None
        For random pivots and centres.
    verbose : bool, default=False
        Print what is being done, and how far it is, on standard error.

    Attributes
    ----------
    classes_ : (n_classes,)
    dual_coef_ : (m,) for two classes, otherwise (n_classes, m)
        ``f(x) = k(x, centres) @ dual_coef_.T + intercept_``.
    intercept_ : scalar or (n_classes,)
    basis_indices_ : (m,)
        Rows of the training data that are centres.
    regularization_ : float
        The mu in use.
    gamma_ : float, (n_features,) or None
    relevance_ : (n_features,) or None
        With ``ard``: squared ratio of a feature's standard deviation to its length scale.
    widths_ : Widths or None
        With ``ard``: the ``strength`` by which features are scaled, a power of their relevance (0
        is one width for all), the ``spread`` of the log relevances, and in ``record`` (fields
        strength, gain, standard_error) how much lower than with one width the criterion was, for
        every strength, on rows that had no part in the relevances.
    loo_decision_ : (n,) or (n, n_classes)
        Decision for each training row by the model fitted without it (where ``ard`` has found
        widths, without its fold, whose labels had no part in these either); of a softmax,
        conditional on its W and c. NaN for rows that have not been left out: beyond 12,000 rows
        whose width or mu is searched, these are all but a sample (Notes).
    calibration_ : Slope or Softmax
        The ``value`` of the slope that takes decisions to probabilities, and in ``status`` how it
        was found (its value is a sentence). A softmax has a ``value`` of one, a and b as ``slope``
        and ``offset``, W and c as ``matrix`` and ``shift``, the ``ridge`` chosen, and cross-fitted
        ``log_loss`` and ``error``: those of training rows that W and c were not fitted to.
    selection_ : Selection
        The choice (``mu``, ``gamma``, and the ``value`` of the ``criterion`` there), the ``status``
        (its value is a sentence that says why the search ended; at a bound it is logged as a
        warning, too), the ``path`` with every setting compared (fields rows, gamma, mu, value), the
        ``unit`` tr(G)/n of mu, and how it was computed: ``method`` ("full", "low-rank", "centres",
        "cholesky", "conjugate", "recomputed" or "streamed"), ``rank``, the trace that a low-rank
        factor left out (``tolerance``), the ``reason`` for that choice, of which rows and to which
        digits left-out scores are known (``leave_one_out``), and the standard ``error`` of the
        ``value`` where it is that of a sample.
    plan_ : FitPlan
        What was done with the rows: a ``sentence``, the ``seconds`` and ``bytes`` that it was
        predicted to take (NaN where nothing was to be chosen), and the ``parameters`` that ask for
        the same.

    Notes
    -----
    For codes y (n, k), one column of +-1 for two classes and c indicators for more, unit weights
    and a free bias, G = K (rkhs) or K^2 (coefficients), centred, is decomposed as U diag(lam) U'.
    With P the projection that removes the mean, the residual maker and the left-out residuals are

    .. math::

        B(\mu) = (P - U U') + U \, \mathrm{diag} \frac{\mu}{\lambda_j + \mu} \, U',
        \qquad y_i - f_{(i)}(x_i) = \frac{(B y)_i}{B_{ii}} .

    "press" is the mean of their squares. The others are means over the margins m of left-out
    scores, "log_loss" of log(1 + exp(-4 m)), "smoothed_error" of 1/(1 + exp(4 m)) and "error" of
    m < 0. "log_loss" of three and more classes is the log-loss of the scalar form below, whose a
    and b are fitted anew at each mu.

    Probabilities of two classes, and under "lda" and "ovr", are sigmoid(a d), or softmax(a d), of
    the decisions d; the slope a > 0 minimises the log-loss of left-out decisions. "softmax": with Z
    the left-out scores less the mean codes of the rows trained on,

    .. math::

        u = (a Z + b) W + c , \qquad p = \mathrm{softmax}(u) , \qquad
        \min_{W, c} \sum_i -\log p_{i y_i} + \frac{\lambda}{2} |W - I|^2
        + \frac{\lambda}{20} |c|^2 .

    First a > 0 and b (*scalar form*, W = I and c = 0) minimise the log-loss against labels that are
    smoothed by 1/n. Then W and c (*matrix form*) do so against the labels, with the ridge lambda of
    1, 3, 10 and 30 that is best in 5-fold cross-validation on the logits a Z + b. Beyond 50 classes
    W is a diagonal plus a matrix of rank 20. ``threshold="balanced"`` has all classes count alike
    in both. Decisions are u.

    *One width per feature.* With f at the best width and mu for standardised features, feature j
    has the slope g_j = mean of sum_k (df_k/dx_j)^2 over rows, and is scaled by s_j = sqrt(g_j / max
    g), at least 1e-3, and ``|s| = sqrt(d)``; twice. Each of four folds of different rows compares
    s^0, s^(1/2) and s, learned without it, by the criterion; a power is used if it is better than
    one width by half a standard error of the paired difference. Width and mu are then found anew.
    The labels have chosen s, of which leave-one-out knows nothing: decisions on left-out rows, and
    the probabilities calibrated on them, are those of fits without a fold that learn s without it.
    What refits the model later (`audit`, `predict_set`, `column_importance`) holds s fixed.

    *Very many rows.* Beyond 6,000 rows the last fit is in single precision, refined until
    predictions are within 1e-7 of the largest target. Beyond 12,000 rows it leaves out a sample,
    100 rows for each column of codes, at least 500 and at most 2,000, on which levels have not
    looked; probabilities rest on these. Coefficients are then found by a Cholesky factor or by
    conjugate gradients, whichever is predicted to be quicker on this machine: predictions agree to
    1e-7 of the largest target, left-out residuals to some 3e-4. Where memory does not hold half of
    the kernel matrix, 4 n^2 bytes, a fit that takes every row as a centre finds kernel values anew
    for each step (method "recomputed"), to the same accuracy; it leaves out a sample whatever the
    number of rows, and ``checkpoint`` lets it be stopped and resumed. `predict_set` compares new
    rows with the sample. What needs every row, as `audit` does, makes a factorisation of its own in
    double precision; so does a fit to given width and mu.

    *Cost.* Width and mu are found by Cholesky factorisations of some of the rows and a few of all,
    O(n^3) time and O(n^2) memory. Otherwise one decomposition for each kernel width: O(n r^2) and
    O(n r) where the kernel matrix has a low rank r, or O(n m^2) and O(n m) on m centres; in blocks,
    two passes of O(n m^2) for the choice of mu and memory for O(m^2) and a block. Then O(n r k) for
    each mu. With numbers for mu and gamma, one Cholesky factorisation. The matrix form takes
    O(n k^2) for each of some hundred steps, on 262,144 logits at most where lambda is chosen. A
    prediction takes O(m d).

    Leave-one-out is exact: for the rkhs penalty it equals refits without the row; for the
    coefficients penalty, and for a chosen basis, it equals refits with the centres kept (it is
    conditional on them). Hyper-parameters are those of the full fit. Centres of ``basis="greedy"``
    have seen all labels: leave-one-out values, and the probabilities calibrated on them, are then
    optimistic.

    ``sample_weight`` counts copies: a weight of 2 equals the row twice, 0 its absence. (Under the
    coefficients penalty a chosen centre counts its own row only, not copies of it elsewhere.)

    Features are not scaled: put a scaler in front.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from fisherkit import KernelFisherClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), KernelFisherClassifier()).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _bases = _WITH_LABELS

    def __init__(
        self,
        kernel: str | Callable[..., Any] = "rbf",
        *,
        gamma: float | str = "loo",
        ard: bool = False,
        degree: float = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        penalty: str = "rkhs",
        bias: str = "free",
        regularization: float | str = "loo",
        criterion: str | Callable[..., Any] = "auto",
        cv: Any = None,
        threshold: str = "prior",
        multiclass: str = "softmax",
        basis: Any = "auto",
        n_components: int | None = None,
        class_weight: dict[Any, float] | str | None = None,
        max_memory: int | str | None = None,
        checkpoint: FilePath | None = None,
        max_time: float | str | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.ard = ard
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.penalty = penalty
        self.bias = bias
        self.regularization = regularization
        self.criterion = criterion
        self.cv = cv
        self.threshold = threshold
        self.multiclass = multiclass
        self.basis = basis
        self.n_components = n_components
        self.class_weight = class_weight
        self.max_memory = max_memory
        self.checkpoint = checkpoint
        self.max_time = max_time
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Choose the hyper-parameters and fit.

        Parameters
        ----------
        X : (n, d), or (n, n) for a precomputed kernel
        y : (n,)
            Labels of any type.
        sample_weight : (n,), default=None
            Number of copies of each row. Weights that count nothing should be scaled to sum to n:
            criterion and calibration take a weight of 0.01 for a hundredth of a row.
        groups : (n,), default=None
            Passed to the splitter given as ``cv``.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            self._check_words()
            rows = self._open(X, y, sample_weight)
            spec = self._spec(rows, groups)
            self._store(rows, ard.fit(rows, spec) if self.ard else rows.fit(spec))
        return self

    def _store(self, rows: RowSource, fit: Fit) -> None:
        super()._store(rows, fit)
        self._store_widths(fit)
        labels = rows.labels
        assert labels is not None
        self.classes_ = labels.classes
        rule = self._rule_for(labels.n_classes)
        sampled = fit.sampled is not None
        column = self._decide(fit.left_out, rule, labels.of_classes, fit.scatter, sampled=sampled)
        column, scores, decide = fit.of_every_row(column), fit.expansion, self._decision
        decisions = rows.in_order(column, lambda X: decide(scores(X)), labels.n_decisions)
        self.loo_decision_ = decisions[:, 0] if rows.flat else decisions

    def _rows_of_fit(self) -> tuple[np.ndarray, np.ndarray]:
        kept = self._training.kept
        return kept, np.arange(len(kept))

    def _spec(self, rows: RowSource, groups: Any = None, **words: Any) -> Spec:
        assert rows.labels is not None
        rule, criterion = self._rule_for(rows.labels.n_classes), self.criterion
        if isinstance(criterion, str) and criterion == "auto":
            criterion = "log_loss" if rule.kind == "softmax" else "press"
        return super()._spec(rows, groups, criterion=criterion, rule=rule)

    def _check_words(self) -> None:
        self._check_ard()
        if not callable(self.criterion):
            names = ("auto", *CRITERIA)
            validation.one_of("criterion", self.criterion, names, also=" or a callable")
        validation.one_of("threshold", self.threshold, THRESHOLDS)
        validation.one_of("multiclass", self.multiclass, MULTICLASS)

    def _rule_for(self, n_classes: int) -> Rule:
        kind = "binary" if n_classes == 2 else self.multiclass
        if kind == "lda" and not validation.bias(self.bias).directions:
            raise ValueError(
                f"multiclass='lda' needs bias='free'; got bias={self.bias!r}. Use "
                "multiclass='softmax' or 'ovr'."
            )
        return Rule(kind, self.threshold == "balanced")


@stored("KernelRidgeCV")
class KernelRidgeCV(RegressorMixin, CompressingMixin, _FeatureWidths):
    r"""Kernel ridge regression that chooses its regularisation and kernel width by leave-one-out.

    The regression sibling of `KernelFisherClassifier`: same decomposition, PRESS criterion, one mu
    for all outputs. With numbers for ``gamma`` and ``regularization`` and ``bias="none"`` it is
    scikit-learn's ``KernelRidge``.

    Parameters
    ----------
    kernel, gamma, ard, degree, coef0, kernel_params, penalty, bias
    regularization, cv, basis, n_components, max_memory, max_time, checkpoint, random_state, verbose
        As in `KernelFisherClassifier`.

    Attributes
    ----------
    dual_coef_ : (m,) or (n_outputs, m)
        ``f(x) = k(x, centres) @ dual_coef_.T + intercept_``.
    intercept_ : scalar or (n_outputs,)
    basis_indices_, regularization_, gamma_, relevance_, widths_, selection_, plan_
        As in `KernelFisherClassifier`.
    loo_prediction_ : (n,) or (n, n_outputs)
        Prediction for each training row by the model fitted without it (or, with ``ard``, without
        its fold); NaN for rows that have not been left out, as in `KernelFisherClassifier`.

    Notes
    -----
    mu, and the kernel width with it, minimise the mean squared left-out residual,

    .. math::

        \mathrm{PRESS}(\mu) = \frac{1}{n} \sum_i
        \left| \frac{(B(\mu) y)_i}{B_{ii}(\mu)} \right|^2 ,

    with B as in `KernelFisherClassifier`, where it says when leave-one-out is exact.

    *Cost.* That of `KernelFisherClassifier`, with k the number of outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from fisherkit import KernelRidgeCV
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = KernelRidgeCV().fit(X, y)
    >>> bool(np.max(np.abs(model.predict(X) - y)) < 1e-3)
    True
    """

    _bases = _WITH_LABELS

    def __init__(
        self,
        kernel: str | Callable[..., Any] = "rbf",
        *,
        gamma: float | str = "loo",
        ard: bool = False,
        degree: float = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        penalty: str = "rkhs",
        bias: str = "free",
        regularization: float | str = "loo",
        cv: Any = None,
        basis: Any = "auto",
        n_components: int | None = None,
        max_memory: int | str | None = None,
        checkpoint: FilePath | None = None,
        max_time: float | str | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.ard = ard
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.penalty = penalty
        self.bias = bias
        self.regularization = regularization
        self.cv = cv
        self.basis = basis
        self.n_components = n_components
        self.max_memory = max_memory
        self.checkpoint = checkpoint
        self.max_time = max_time
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Choose the hyper-parameters and fit.

        Parameters
        ----------
        X : (n, d), or (n, n) for a precomputed kernel
        y : (n,) or (n, n_outputs)
        sample_weight : (n,), default=None
            Number of copies of each row.
        groups : (n,), default=None
            Passed to the splitter given as ``cv``.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            self._check_ard()
            rows = self._open(X, y, sample_weight)
            spec = self._spec(rows, groups)
            self._store(rows, ard.fit(rows, spec) if self.ard else rows.fit(spec))
        return self

    def _store(self, rows: RowSource, fit: Fit) -> None:
        super()._store(rows, fit)
        self._store_widths(fit)
        column = fit.of_every_row(fit.left_out.each(left_out_scores, []))
        width = fit.expansion.intercept.shape[0]
        predictions = rows.in_order(column, fit.expansion, width)
        self.loo_prediction_ = predictions[:, 0] if rows.flat else predictions

    def predict(self, X: Any) -> Any:
        """Predicted targets of the rows of X (n, d); (n,) or (n, n_outputs).

        In the precision of X, unless they overflow in it.
        """
        if arrays.is_dask(X):
            return lazily(self, "predict", X)
        scores, dtype = self._scores(X, "predict")
        scores = arrays.narrowed(scores, dtype)
        return scores[:, 0] if len(self.dual_coef_.shape) == 1 else scores

    def predict_interval(
        self, X: Any, confidence: float = 0.9, method: str = "full"
    ) -> tuple[Any, Any]:
        r"""Intervals that contain the targets of new rows with the confidence asked for.

        Parameters
        ----------
        X : (n, d)
        confidence : float in (0, 1), default=0.9
        method : {"full", "jackknife+"}, default="full"
            "full" gives every candidate target to the new row and compares its left-out residual
            with the exact leave-one-out residuals of all rows, in closed form. "jackknife+" uses
            the predictions of the models that left out one row each.

        Returns
        -------
        lower, upper : (n,) or (n, n_outputs)
            Infinite where there are too few rows for the confidence.

        Notes
        -----
        If the rows of the fit and the new one are exchangeable, and the hyper-parameters were not
        chosen on them, an interval contains its target with probability at least ``confidence``
        ("full") or at least ``2 * confidence - 1`` ("jackknife+"; in practice about
        ``confidence``). It is an average over all rows, not a promise for each x, and it holds
        for every output by itself. Hyper-parameters are held fixed: where they were tuned on the
        same rows, the guarantee is approximate. So it is for the coefficients penalty and a
        chosen basis: the new row is no centre.

        With R_i(x, y) as in `KernelFisherClassifier.predict_set`, the "full" interval holds every
        y for which more than a share 1 - ``confidence`` of the n + 1 rows have a left-out residual
        at least as large as that of the new row, ``|y - f(x)| <= |R_i(x, y)|``. "jackknife+" has
        quantiles of ``f(x) - q_ix R_i -+ |R_i|``, predictions without row i and its own residual.

        *Cost.* One decomposition, O(n^3) or O(n r^2), and O(n (r + log n)) for each new row. After
        a fit that has left out a sample of the rows, new rows are compared with that sample: one
        factorisation in single precision, and O(n^2) for each new row.

        Examples
        --------
        >>> import numpy as np
        >>> from fisherkit import KernelRidgeCV
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 6, (300, 1))
        >>> y = np.sin(X[:, 0]) + rng.normal(scale=0.3, size=300)
        >>> model = KernelRidgeCV(gamma=0.5, regularization=1.0).fit(X[:200], y[:200])
        >>> lower, upper = model.predict_interval(X[200:], confidence=0.8)
        >>> bool(0.7 < np.mean((lower <= y[200:]) & (y[200:] <= upper)) < 0.9)
        True
        """
        check_is_fitted(self)
        confidence = validation.confidence(confidence)
        validation.one_of("method", method, conformal.METHODS)
        reach, centres = self._reach()
        full = method == "full"
        blocks = self._kernel_blocks(
            X, "predict_interval", centres, reach.block, diagonal=full and reach.needs_diagonal
        )
        ends = [conformal.interval(reach, k, own, confidence, method) for k, own in blocks]
        xp = arrays.namespace(self.dual_coef_)
        flat = len(self.dual_coef_.shape) == 1
        joined = (xp.concat(list(side), axis=0) for side in zip(*ends, strict=True))
        lower, upper = (side[:, 0] if flat else side for side in joined)
        return lower, upper
