"""The Bayesian Fisher discriminant as a scikit-learn classifier."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import Kernel as KernelOfSklearn
from sklearn.gaussian_process.kernels import WhiteKernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from fisherkit.bayes import (
    EVIDENCE,
    SIDE,
    Climb,
    Contrasts,
    Ending,
    Exact,
    Posterior,
    Projected,
    Sample,
    learning,
    maximise,
)
from fisherkit.core import (
    Array,
    Covariance,
    Distinct,
    FittedKernel,
    KernelObject,
    Labels,
    Parametric,
    Ridge,
    Weights,
    arrays,
    coding,
)
from fisherkit.estimators import opening, validation
from fisherkit.estimators.base import KernelModel, all_or_nothing, standardisation
from fisherkit.estimators.decisions import DiscriminantMixin
from fisherkit.inference import Reach
from fisherkit.interfaces import Seed
from fisherkit.rows import IN_MEMORY, Expansion, require_finite_model, rows_have_numbers
from fisherkit.stored import stored
from fisherkit.tuning import LocalParts, log, mention

KERNELS = ("rbf", "linear")
PROBABILITIES = ("loo", "noise_model")

_EXACT_ROWS = 3000  # distinct rows up to which all are in the kernel unless n_inducing says more
_INDUCING = 300
_SCREEN_ROWS = 1500  # rows on which the starts of a larger fit compete


@stored("BayesianFisherClassifier")
class BayesianFisherClassifier(DiscriminantMixin, KernelModel):
    r"""Bayesian Fisher discriminant: every hyper-parameter from the marginal likelihood.

    A Gaussian process prior on the discriminant, class centres fixed at distance 2, noise within
    the classes. Kernel parameters maximise the evidence, from which the noise and a nugget have
    been maximised away; the posterior gives error bars, and widths of their own tell which
    features matter.

    Parameters
    ----------
    kernel : {"rbf", "linear"} or a kernel of sklearn.gaussian_process, default="rbf"
        Amplitude and nugget are always part of the model and need not be in a kernel object.
    ard : bool, default=False
        One width per feature (automatic relevance determination), where the marginal likelihood
        supports it: see ``hyperprior``.
    linear : bool, default=False
        Add a linear part to the RBF kernel.
    evidence : {"fisher", "lssvm"}, default="fisher"
        The evidence that is maximised: that of the discriminant, or of a Bayesian LS-SVM, which is
        a regression on the labels. The two agree unless the classes are nearly separable.
    n_restarts : int, default=3
        Starts of the optimiser, the best points of a coarse grid (for a kernel object: its own
        parameters and random ones); after a few steps the best goes on alone.
    hyperprior : "auto", float or None, default="auto"
        Standard deviation (spread) of the log weights of the features about their common value.
        "auto" compares 0 (one width for all) with 1, then with 2 and 3 while that is better or 0.5
        if 1 is not clearly better, by marginal likelihood times exp(-spread^2/2). ``None`` is the
        evidence alone, which over-fits. Used with ``ard``.
    n_inducing : int, default=None
        Inducing points: cost O(n m^2) for each evaluation. ``None`` has every row in the kernel up
        to 3,000 distinct ones, and 300 inducing points beyond.
    probability : {"loo", "noise_model"}, default="loo"
        How `predict_proba` comes about: one slope fitted to leave-one-out decisions, or the noise
        model of the paper, which is over-confident. With the noise model, the values of
        `decision_function` are its log odds.
    random_state : int, RandomState instance or None, default=None
        For inducing points and, with a kernel object, for the starts.
    verbose : bool, default=False
        Print what is being done, and how far it is, on standard error.

    Attributes
    ----------
    classes_ : (n_classes,)
    length_scale_ : float or (n_features,)
        Width of the RBF kernel, or the inverse root of the prior variance of linear weights; one
        per feature with ``ard``. Infinite for constant features. ``None`` for a kernel object.
    relevance_ : (n_features,)
        Squared ratio of a feature's standard deviation to its length scale: how much of the
        kernel's variation is due to it. ``None`` for a kernel object.
    noise_precision_, nugget_ : float
        beta, and the variance of the part of f that no other row shares.
    amplitude_ : float
        Prior variance of the RBF part of f; 1 for a linear kernel, the factor of `kernel_` for a
        kernel object.
    kernel_ : kernel object or None
        With the parameters found, if a kernel object was given.
    log_evidence_ : float
        J of the Notes at the kernel found.
    hyperprior_ : dict
        Log posterior, up to a constant, of every spread compared; the largest was chosen. Empty
        unless ``ard`` and ``hyperprior="auto"``.
    restarts_ : list
        For every start the ``start``, the end ``theta`` (logarithms), the objective ``value``
        there, ``evaluations`` and ``ending``; best first. With ``ard`` these are the starts of one
        width, after the climb that learned the relevances from where the best of them ended.
    status_ : Ending
        How the best start ended; its value is a sentence.
    class_centres_ : (n_classes, n_classes - 1)
        Where the class centres are put in the space of `latent`.
    expected_error_ : float
        Error rate at equal class sizes that the noise model expects, Phi(-sqrt(beta)). It cannot
        rank models: where classes overlap, the nugget takes up what varies and beta depends on
        the class sizes alone. Estimate the error from `loo_decision_` or held-out data instead.
    calibration_ : Slope or Softmax
        As in `KernelFisherClassifier`; not used with ``probability="noise_model"``.
    loo_decision_ : (n,) or (n, n_classes)
        Decision for each training row by the model fitted without it, hyper-parameters (and
        inducing points) held; of the scores, also with ``probability="noise_model"``.
    dual_coef_ : (m,) for two classes, otherwise (n_classes, m)
    intercept_ : scalar or (n_classes,)
        Coefficients and intercept of the score f(x) = sum_i k(x, z_i) dual_coef_i + intercept; k
        has the amplitude in units of the total noise.

    Notes
    -----
    With K in units of the total noise, P the projection that removes the mean, k = c - 1 and Z
    (n, k) the centred class membership in orthonormal contrasts, the log evidence is

    .. math::

        J = -\frac{k}{2} \log \det M + \varphi(W) , \qquad M = I + P K P , \quad
        W = Z' M^{-1} Z ,

    where phi is what remains of the k x k matrix W once noise and nugget are maximised away; for
    "lssvm" it is -k (n - 1)/2 log tr W and a constant.

    *Cost.* O(n^3 + n^2 d) time and O(n^2) memory for each evaluation of J and its gradient, or
    O(n m^2 + n m d) and O(n m) on m inducing points; `restarts_` counts evaluations. A prediction
    takes O(m d), and its variance O(m^2) more, with m = n where there are no inducing points.

    The decision is that of the regression on class codes with the same direction, not the side of
    the midpoint between the centres: with unequal classes it has the lower error. Three classes or
    more use the softmax rule of `KernelFisherClassifier`.

    Features are not scaled: put a scaler in front (with ``ard`` each has its own scale anyway).
    Without inducing points the fitted model holds an n x n matrix, for `latent`.

    References
    ----------
    T. Peña Centeno and N. D. Lawrence. Optimising kernel parameters and regularisation coefficients
    for non-linear discriminant analysis. Journal of Machine Learning Research 7:455-491, 2006.

    Examples
    --------
    >>> from fisherkit import BayesianFisherClassifier
    >>> from fisherkit.datasets import make_relevance
    >>> X, y = make_relevance(100, n_irrelevant=5, random_state=0)
    >>> model = BayesianFisherClassifier(ard=True).fit(X, y)
    >>> int(model.relevance_.argmax())
    0
    >>> mean, std = model.latent(X[:3], return_std=True)
    >>> mean.shape, std.shape
    ((3,), (3,))
    """

    def __init__(
        self,
        kernel: str | KernelOfSklearn = "rbf",
        *,
        ard: bool = False,
        linear: bool = False,
        evidence: str = "fisher",
        n_restarts: int = 3,
        hyperprior: float | str | None = "auto",
        n_inducing: int | None = None,
        probability: str = "loo",
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.ard = ard
        self.linear = linear
        self.evidence = evidence
        self.n_restarts = n_restarts
        self.hyperprior = hyperprior
        self.n_inducing = n_inducing
        self.probability = probability
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyper-parameters and fit.

        Parameters
        ----------
        X : (n, d)
        y : (n,)
            Labels of any type.
        sample_weight : (n,), default=None
            Number of copies of each row.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            self._check_parameters()
            rows = opening.in_memory(self, X, y, sample_weight, IN_MEMORY)
            labels = rows.labels
            assert labels is not None
            self.classes_ = labels.classes
            rng = check_random_state(self.random_state)
            sample, group = self._sample(rows.X, labels, rng)
            self._rows_seen, self._training = (rows.kept, group), sample
            learned = self._learn(sample, rng)
            decisions = self._fit_scores(sample, learned)
            self._keep(sample, learned)
            decisions = arrays.take_rows(decisions, arrays.indices(group, decisions))
            decisions = rows.in_order(
                [decisions], lambda X: self._decision(self._expansion(X)), labels.n_decisions
            )
            self.loo_decision_ = decisions[:, 0] if rows.flat else decisions
        return self

    def _check_parameters(self) -> None:
        """Refuse parameters that are not valid, or not together."""
        if not isinstance(self.kernel, KernelOfSklearn):
            also = " or a kernel of sklearn.gaussian_process"
            validation.one_of("kernel", self.kernel, KERNELS, also=also)
        validation.flag("ard", self.ard)
        validation.flag("linear", self.linear)
        validation.one_of("evidence", self.evidence, tuple(EVIDENCE))
        validation.one_of("probability", self.probability, PROBABILITIES)
        validation.count("n_inducing", self.n_inducing)
        validation.positive("n_restarts", self.n_restarts)
        if self.hyperprior is not None:
            spread = validation.number_or_rule("hyperprior", self.hyperprior, ("auto",))
            if spread is not None and not self.ard:
                raise ValueError(
                    f"hyperprior={self.hyperprior!r} is a spread of the features' log weights and "
                    "needs ard=True; leave it at 'auto'."
                )
        if self.kernel != "rbf" and self.linear:
            raise ValueError(f"linear=True adds to kernel='rbf' only; got kernel={self.kernel!r}.")
        if isinstance(self.kernel, KernelOfSklearn):
            if self.ard:
                raise ValueError(
                    "ard=True has no meaning with a kernel object; give the object one length "
                    "scale per feature instead."
                )
            if self.n_inducing is not None:
                raise ValueError(
                    "n_inducing needs kernel='rbf': kernel objects have no gradient between "
                    "different rows. Leave it at None."
                )
            parts = [self.kernel, *self.kernel.get_params().values()]
            if any(isinstance(part, WhiteKernel) for part in parts):
                raise ValueError(
                    f"kernel={self.kernel!r} has a WhiteKernel; noise is always part of the model. "
                    "Leave it out."
                )
        if self.kernel == "linear" and self.n_inducing is not None:
            raise ValueError(
                "n_inducing has no meaning with kernel='linear', which is exact at the cost of "
                "the number of features; leave it at None."
            )

    def _sample(
        self, X: Array, labels: Labels, rng: np.random.RandomState
    ) -> tuple[Sample, np.ndarray]:
        """Merged and scaled rows, and the merged row of each row."""
        weights, index = labels.weights, labels.index
        xp = arrays.namespace(X)
        if isinstance(self.kernel, KernelOfSklearn) and not arrays.is_numpy(X):
            raise ValueError(
                f"Kernel objects work on NumPy arrays; got {arrays.library(X)}. "
                "Use kernel='rbf' or 'linear'."
            )
        n_classes = self.classes_.shape[0]
        first, group = Distinct.rows(X).split(arrays.to_numpy(index), n_classes)
        if (n_classes - 1) * (weights.total - n_classes) < 0.5:
            raise ValueError(
                f"{weights.total:g} rows (counted by sample_weight) of {n_classes} classes leave "
                "the evidence nothing to learn from; it needs more rows than classes."
            )
        rows = arrays.indices(first, X)
        X = xp.take(X, rows, axis=0)
        merged = weights.merge(first, group)
        columns, shift, scale = standardisation(X, merged)
        if isinstance(self.kernel, KernelOfSklearn):
            columns = arrays.indices(np.arange(X.shape[1]), X)
            shift, scale = xp.zeros_like(X[0, :]), xp.ones_like(X[0, :])
        elif not self.ard:
            largest = float(xp.max(scale))
            common = largest * float(xp.mean((scale / largest) ** 2)) ** 0.5
            scale = xp.ones_like(scale) * common
        sample = Sample(
            X=(xp.take(X, columns, axis=1) - shift) / scale,
            columns=columns,
            shift=shift,
            scale=scale,
            indicator=labels.take(first).indicator,
            weights=merged,
        )
        return self._with_inducing(sample, Distinct.rows(X), rng), group

    def _with_inducing(
        self, sample: Sample, distinct: Distinct, rng: np.random.RandomState
    ) -> Sample:
        """The sample with inducing points, drawn from its distinct rows, where they are due."""
        n, d = sample.X.shape
        if self.kernel == "linear":
            if d >= n:
                return sample
            return replace(sample, U=arrays.like(np.eye(d), sample.X), jitter=0.0)
        m = self.n_inducing
        if m is None and n > _EXACT_ROWS and self.kernel == "rbf":
            m = _INDUCING
            log.info("%d distinct rows: the kernel is that of %d inducing points", n, m)
        if m is None or m >= len(distinct.first):
            return sample
        chances = arrays.to_numpy(sample.weights.frequency)
        chosen = distinct.draw(chances, m, rng.randint(np.iinfo(np.int32).max))
        xp = arrays.namespace(sample.X)
        return replace(sample, U=xp.take(sample.X, arrays.indices(chosen, sample.X), axis=0))

    def _learn(self, sample: Sample, rng: np.random.RandomState) -> learning.Learned:
        """Kernel parameters that maximise the evidence."""
        if isinstance(self.kernel, KernelOfSklearn):
            covariance = KernelObject(self.kernel)
            starts = learning.starts_of_object(covariance, sample, self.n_restarts, rng)
            return self._climb(sample, covariance, starts)
        d, rbf = sample.X.shape[1], self.kernel == "rbf"
        linear = self.linear or not rbf
        single = Parametric(1, rbf=rbf, linear=linear)
        starts = learning.starts_on_grid(single, sample, self.evidence, self.n_restarts)
        if not self.ard or d == 1:
            return self._climb(sample, single, starts)
        many = Parametric(d, rbf=rbf, linear=linear)
        if self.hyperprior is None:
            starts = [np.append(start[:-1], np.full(d, start[-1])) for start in starts]
            return self._climb(sample, many, starts)
        return learning.learn_relevance(
            sample,
            self.evidence,
            single,
            many,
            starts,
            spread=None if self.hyperprior == "auto" else float(self.hyperprior),
        )

    def _climb(
        self, sample: Sample, covariance: Covariance, starts: list[np.ndarray]
    ) -> learning.Learned:
        """From all starts, which compete on a part of the rows where there are many."""
        losers: list[Climb] = []
        if sample.X.shape[0] > 2 * _SCREEN_ROWS and len(starts) > 1:
            part = sample.thinned(_SCREEN_ROWS).evidence(covariance, self.evidence)
            screened = maximise(part, starts, covariance.bounds)
            starts, losers = [screened[0].theta], screened[1:]
        objective = sample.evidence(covariance, self.evidence)
        climbs = maximise(objective, starts, covariance.bounds) + losers
        return learning.Learned(
            covariance=covariance, theta=climbs[0].theta, climbs=climbs, spreads={}
        )

    def _keep(self, sample: Sample, learned: learning.Learned) -> None:
        """Fitted attributes of the kernel."""
        covariance, theta = learned.covariance, learned.theta
        self.log_evidence_ = sample.evidence(covariance, self.evidence).value(theta)
        self.hyperprior_ = dict(sorted(learned.spreads.items()))
        self.restarts_ = learned.climbs
        self.status_ = learned.climbs[0].ending
        mention(self, self.status_, set(Ending) - {Ending.CONVERGED})
        self.kernel_: Any = None
        self.length_scale_: Any = None
        self.relevance_: Array = None
        noise = self._posterior.ratio / self._posterior.beta
        self.amplitude_ = noise * math.exp(theta[0])
        if isinstance(covariance, KernelObject):
            self.kernel_ = covariance.kernel.clone_with_theta(theta[1:])
            return
        w = covariance.weights(theta, sample.X.shape[1])
        if not covariance.rbf:
            w, self.amplitude_ = noise * w, 1.0
        columns, scale = arrays.to_numpy(sample.columns), arrays.to_numpy(sample.scale)
        spread = arrays.to_numpy(sample.weights.mean(sample.X**2)) ** 0.5 * scale
        length, relevance = np.full(self.n_features_in_, np.inf), np.zeros(self.n_features_in_)
        length[columns] = np.where(spread > 0, scale / np.sqrt(w), np.inf)
        relevance[columns] = (spread / length[columns]) ** 2
        self.relevance_ = arrays.like(relevance, sample.X)
        self.length_scale_ = float(scale[0] / np.sqrt(w[0]))
        if self.ard:
            self.length_scale_ = arrays.like(length, sample.X)

    def _fit_scores(self, sample: Sample, learned: learning.Learned) -> Array:
        """Scores, posterior and probabilities; returns leave-one-out decisions."""
        n_classes = self.classes_.shape[0]
        covariance, theta = learned.covariance, learned.theta
        indicator, weights = sample.indicator, sample.weights
        contrasts = Contrasts.of(indicator, weights)
        K_nm, K_mm = self._kernel_values(sample, covariance, theta)
        if K_mm is None:
            moments: Exact | Projected = Exact.of(K_nm, contrasts, indicator)
        else:
            moments = Projected.of(K_nm, K_mm, contrasts, indicator)
        ridge = self._ridge(K_nm, K_mm, sample)
        require_finite_model(ridge.coef, ridge.intercept)
        self._posterior = Posterior.of(moments, contrasts)
        self.noise_precision_ = self._posterior.beta
        self.nugget_ = self._posterior.nugget
        self.class_centres_ = arrays.like(self._posterior.centres, sample.X)
        self.expected_error_ = float(ndtr(-0.5 * SIDE * math.sqrt(self.noise_precision_)))
        flat = n_classes == 2
        self._expansion = Expansion(
            kernel=FittedKernel(covariance, theta, sample.columns, sample.shift, sample.scale),
            centres=sample.X if sample.U is None else sample.U,
            columns=None,
            coef=ridge.coef,
            intercept=ridge.intercept,
            flat=flat,
        )
        rule = coding.Rule("binary" if flat else "softmax", balanced=False)
        copies = weights.frequency @ indicator
        classes = Weights(copies, arrays.namespace(copies).ones_like(copies))
        (decisions,) = self._decide(LocalParts([ridge]), rule, classes, ridge.scatter)
        self._noise_model = self.probability == "noise_model"
        return decisions

    def _slope_in_use(self) -> float:
        return 1.0 if self._noise_model else super()._slope_in_use()

    @staticmethod
    def _kernel_values(
        sample: Sample, covariance: Covariance, theta: np.ndarray
    ) -> tuple[Array, Array | None]:
        """Between rows and centres (n, m), and between inducing points if there are any."""
        if sample.U is None:
            return covariance.block(theta, sample.X, sample.X).values, None
        K_mm = covariance.block(theta, sample.U, sample.U, jitter=sample.jitter).values
        return covariance.block(theta, sample.X, sample.U).values, K_mm

    @staticmethod
    def _ridge(K_nm: Array, K_mm: Array | None, sample: Sample) -> Ridge:
        """The regression on codes; K_nm is consumed."""
        if K_mm is None:
            return learning.score(K_nm, sample.codes, sample.weights)
        return learning.score_on_inducing(K_nm, K_mm, sample.codes, sample.weights)

    def _rows_of_fit(self) -> tuple[np.ndarray, np.ndarray]:
        return self._rows_seen

    def _refit(self) -> Ridge:
        kernel = self._expansion.kernel
        K_nm, K_mm = self._kernel_values(self._training, kernel.covariance, kernel.theta)
        return self._ridge(K_nm, K_mm, self._training)

    def _reach(self) -> tuple[Reach, Array]:
        kernel, sample = self._expansion.kernel, self._training
        K_nm, K_mm = self._kernel_values(sample, kernel.covariance, kernel.theta)
        form = learning.canonical(K_nm, K_mm, sample.weights)
        mu = learning.noise(K_nm, sample.weights) if K_mm is None else 1.0
        return Reach.of(form, sample.codes, mu, K_nm), self._expansion.centres

    def latent(self, X: ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """The discriminant relative to the midpoint of the class centres, and its error bars.

        Parameters
        ----------
        X : (n, d)
        return_std : bool, default=False

        Returns
        -------
        mean : (n,) for two classes, positive towards ``classes_[1]``; otherwise (n, n_classes - 1)
            Posterior mean; `class_centres_` are the centres of the classes in this space.
        std : (n,)
            If ``return_std``: posterior standard deviation of every coordinate, of the smooth part
            of the discriminant (the nugget is not in it).
        """
        check_is_fitted(self)
        self._check_namespace(X, "latent")
        rows = validate_data(self, X, reset=False, dtype=arrays.float_dtypes(X))
        mean, variance = self._latent(arrays.widen(rows), with_variance=return_std)
        mean = arrays.narrowed(mean[:, 0] if mean.shape[1] == 1 else mean, rows.dtype)
        if variance is None:
            return mean
        return mean, arrays.narrowed(variance**0.5, rows.dtype)

    def _latent(self, X: Array, *, with_variance: bool) -> tuple[Array, Array | None]:
        """Posterior mean (n, c-1) and variance (n,), in row blocks."""
        xp = arrays.namespace(X)
        kernel, centres = self._expansion.kernel, self._expansion.centres
        means, variances = [], []
        for rows in arrays.row_blocks(X.shape[0], centres.shape[0]):
            with arrays.quiet_overflow():  # `rows_have_numbers` says which row
                k = kernel.block(X[rows, :], centres)
                means.append(self._posterior.mean(k))
                if with_variance:
                    prior = kernel.diagonal(X[rows, :])
                    variances.append(self._posterior.variance(k, prior))
        mean = xp.concat(means, axis=0)
        variance = xp.concat(variances, axis=0) if with_variance else None
        rows_have_numbers(mean, "position")
        if variance is not None:
            rows_have_numbers(variance[:, None], "error bar")
        return mean, variance

    def _decisions(self, X: ArrayLike, method: str) -> tuple[Array, np.dtype]:
        check_is_fitted(self)
        if not self._noise_model:
            return super()._decisions(X, method)
        self._check_namespace(X, method)
        rows = validate_data(self, X, reset=False, dtype=arrays.float_dtypes(X))
        mean, variance = self._latent(arrays.widen(rows), with_variance=True)
        return self._posterior.log_odds(mean, variance), rows.dtype
