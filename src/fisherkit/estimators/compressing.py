"""Fitted kernel models on fewer centres: smaller files, quicker predictions."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fisherkit.core import Array, Gram, Kernel, Original, arrays, progress, winners
from fisherkit.estimators import validation
from fisherkit.interfaces import Seed
from fisherkit.rows import Expansion
from fisherkit.stored import stored


@stored("compression")
@dataclass(frozen=True)
class Compression:
    """What a model lost with its centres, on the rows of its fit.

    Attributes
    ----------
    n_centres : int
    of : int
        Number of centres before.
    error : float
        Root mean square of the change of scores, relative to their standard deviation.
    changed : float or None
        Share of the rows whose predicted label is another one; ``None`` for a regression.
    rows : int
        Number of rows that both are over.
    """

    n_centres: int
    of: int
    error: float
    changed: float | None
    rows: int


class CompressingMixin:
    """Kernel models of one expansion, which fewer centres may serve as well."""

    _expansion: Expansion
    _training: Any
    basis_indices_: Array
    verbose: bool
    compression_: Compression

    def compress(
        self,
        n_centres: int | None = None,
        *,
        tolerance: float | None = None,
        random_state: Seed = 0,
    ) -> Self:
        r"""The model on fewer of its centres: nearly the same scores, in less memory and time.

        Parameters
        ----------
        n_centres : int, default=None
        tolerance : float in (0, 1), default=None
            Instead of a number: about as few centres as change scores by less than this, as
            ``compression_.error`` measures it. 16, 32, 64, ... centres are tried, and then some
            numbers between the last two.
        random_state : int, RandomState or None, default=0
            For the choice of the centres.

        Returns
        -------
        model
            A fitted estimator of the same class and parameters; this one is left as it is. Its
            attribute ``compression_`` says what was lost: ``n_centres`` of how many (``of``), the
            ``error`` of its scores on so many ``rows``, a root mean square relative to their
            standard deviation, and the share of these whose label has ``changed`` (``None`` for a
            regression).

        Notes
        -----
        Of random centres z among those of the model, coefficients c minimise

        .. math::

            \sum_i w_i \Bigl| f(x_i) - \sum_j c_j k(x_i, z_j) \Bigr|^2

        over the rows of the fit and their frequency weights, if memory holds them, otherwise over
        the centres of the model. Labels take no part. Centres that repeat others to rounding are
        dropped.

        Decision rule, calibration, `selection_` and what leave-one-out has found are those of the
        model before. Sets and intervals compare new rows with all rows of the fit: they have to be
        asked of that model.

        *Cost.* O(n p^2) for p centres of n rows, and O(n m) for the scores of m centres.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from fisherkit import KernelFisherClassifier
        >>> X, y = make_moons(400, noise=0.2, random_state=0)
        >>> model = KernelFisherClassifier(gamma=3.0, regularization=0.1).fit(X, y)
        >>> small = model.compress(60)
        >>> len(small.basis_indices_), bool(small.compression_.changed < 0.02)
        (60, True)
        """
        check_is_fitted(self)
        if (n_centres is None) == (tolerance is None):
            raise ValueError(
                "compress needs either n_centres, a number of centres, or tolerance, a change of "
                f"scores; got n_centres={n_centres!r}, tolerance={tolerance!r}."
            )
        count = validation.count("n_centres", n_centres)
        if tolerance is not None:
            tolerance = validation.number("tolerance", tolerance, least=0)
        before: Expansion = self._expansion
        m = before.coef.shape[0]
        if count is not None and count > m:
            raise ValueError(
                f"n_centres={count} is more than the {m} centres of the model; give fewer."
            )
        gram, places, weight = self._seen_rows()
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        with progress.printed(self.verbose), arrays.quiet_overflow():
            original = Original.of(gram, places, before.coef, weight, seed)
            if count is not None:
                found = original.on(count)
            else:
                assert tolerance is not None
                found = original.within(tolerance)
        xp = arrays.namespace(before.coef)
        which = np.argsort(places)[np.searchsorted(np.sort(places), found.places)]
        kept = arrays.indices(which, before.coef)

        def taken(part: Array) -> Array:
            return None if part is None else xp.take(part, kept, axis=0)

        small = copy(self)
        small._shrink(
            replace(
                before,
                centres=taken(before.centres),
                columns=taken(before.columns),
                coef=found.coef,
            ),
            taken(self.basis_indices_),
            Compression(
                n_centres=len(found.places),
                of=m,
                error=original.error(found),
                changed=self._changed(original, found.scores),
                rows=gram.n,
            ),
        )
        return small

    def _shrink(self, model: Expansion, places: Array, compression: Compression) -> None:
        """Take the expansion on fewer centres, at these places in the data."""
        self._expansion, self.basis_indices_, self._training = model, places, None
        self.compression_ = compression

    def _seen_rows(self) -> tuple[Gram, np.ndarray, Array]:
        """Rows of the fit as a Gram matrix, the places of the centres there, and their weights."""
        model, task = self._expansion, self._training
        if task is not None:
            design, kept = task.problem.design, task.kept
            places = np.searchsorted(kept, arrays.to_numpy(self.basis_indices_))
            gram = Gram(design.gram.X, design.gram.kernel, design.gram.rounding)
            return gram, places, design.weights.frequency
        if model.centres is None or not isinstance(model.kernel, Kernel):
            raise ValueError(
                "compress needs the kernel values of the centres, which this model does not keep: "
                "compress the model that was fitted, before anything else."
            )
        xp = arrays.namespace(model.coef)
        m = model.coef.shape[0]
        return Gram(model.centres, model.kernel), np.arange(m), xp.ones_like(model.coef[:, 0])

    def _changed(self, original: Original, scores: Array) -> float | None:
        """The share of rows that get another label by other scores."""
        decision = getattr(self, "_decision", None)
        if decision is None:
            return None
        intercept, xp = self._expansion.intercept, arrays.namespace(scores)
        labels = [
            winners(decision(part + intercept[None, :])) for part in (original.scores, scores)
        ]
        other = xp.astype(labels[0] != labels[1], original.weight.dtype)
        return float(original.weight @ other) / float(xp.sum(original.weight))
