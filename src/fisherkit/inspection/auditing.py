"""Which labels does leave-one-out doubt?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin

from fisherkit.core import Array, Ridge, arrays, winners
from fisherkit.estimators import (
    BayesianFisherClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    inside,
    validation,
)
from fisherkit.inference import influences, leverages, remaining
from fisherkit.inspection.left_out import judged_logits, left_out_logits
from fisherkit.tuning import probabilities

if TYPE_CHECKING:
    import pandas as pd

_NORMAL = 1.4826  # standard deviation of a normal variable by the median of its size


def audit(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> pd.DataFrame:
    r"""Rows whose labels the model fitted without them doubts, most suspicious first.

    Parameters
    ----------
    estimator : KernelFisherClassifier, BayesianFisherClassifier or KernelRidgeCV, or a Pipeline
        The estimator, or a pipeline that ends in one, is fitted once to X and y; the object given
        is left alone. Steps before the last are fitted on all rows without labels; steps that need
        labels are refused.
    X : (n, d), or (n, n) for a precomputed kernel
    y : (n,)
    sample_weight : (n,), default=None
        Number of copies of each row.

    Returns
    -------
    pandas.DataFrame
        One row for each row of X, under its index (position, or that of the frame X), sorted by
        ``probability``:

        ``label``
            As given.
        ``suggested``
            The label that the model without the row would give it.
        ``probability``
            Probability of the given label, by the model without the row.
        ``leverage``
            Change of the row's own score for a unit change of its code, from 0 to 1. Where it is
            high, the row's neighbours say little about it.
        ``influence``
            How much the mean squared leave-one-out residual of the other rows falls if the row is
            left out altogether: positive for rows that harm the predictions of others.

        For a regression the table is sorted by the size of ``ratio``, and the first three columns
        are replaced by

        ``target``
            As given.
        ``predicted``
            The number that the model without the row predicts.
        ``residual``
            The target less that prediction, R_i.
        ``ratio``
            The residual in units of its spread: with the noise of scale s that the other residuals
            show, it is R_i (1 - h_i)^(1/2) / s. Beyond 3 or so it is a doubt.

    Notes
    -----
    With B the residual maker of the fit, r = B y its residuals and q = I - B, for unit weights,

    .. math::

        h_i = q_{ii} , \qquad
        R_j^{(i)} = \frac{(1 - h_i) r_j + q_{ij} r_i}{(1 - h_i)(1 - h_j) - q_{ij}^2} , \qquad
        I_i = \frac{1}{n - 1} \sum_{j \ne i} \bigl( |R_j|^2 - |R_j^{(i)}|^2 \bigr)

    are the leverage, the residual of row j by the model without i and j, and the influence; R_j is
    the residual r_j / (1 - h_j) by the model without j alone.

    Scores, leverages and influences are exact, without refits: they equal those of models fitted
    without the row (and, for influences, without every pair), hyper-parameters held at those of
    the fit to all rows. The slope that turns scores into probabilities is held, too. For the
    coefficients penalty, a chosen basis and inducing points, the results are conditional on the
    centres.

    A small probability is a doubt, not a proof: it may be a wrong label or a rare case. Rows of
    weight 0 are judged by the model, on which they have no influence.

    *Spread of a residual.* Under a Gaussian process whose covariance is the kernel and whose noise
    is mu, the residual of a row by the model without it has a variance in proportion to
    1 / (1 - h_i): a row far from all others may lie far from its prediction. The scale s is 1.4826
    times the median of ``|R_i| (1 - h_i)^(1/2)``, the standard deviation of normal residuals, which
    a few wrong targets do not move; where this is zero it is their root mean square.

    Every row is judged, also where the fit has left out a sample of them alone: the factorisation
    that the leverages need is then that of all rows in double precision.

    *Cost.* One fit, one more factorisation (in memory of O(n r) where the fit had a low-rank form
    or centres), and O(n^2 (r + k)) flops for the influences of all rows on all others, a few
    million pairs at a time: 45,000 rows on 500 centres are 2e12 flops.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fisherkit import KernelFisherClassifier, audit
    >>> X, y = load_iris(return_X_y=True)
    >>> y[17] = 2
    >>> table = audit(KernelFisherClassifier(), X, y)
    >>> int(table.index[0]), int(table.suggested.iloc[0])
    (17, 0)
    """
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("audit returns a pandas table; pip install pandas.") from error
    model, data = validation.label_free(estimator, X)
    if not isinstance(model, (KernelFisherClassifier, BayesianFisherClassifier, KernelRidgeCV)):
        raise TypeError(
            "audit needs exact leave-one-out, which KernelFisherClassifier, "
            f"BayesianFisherClassifier and KernelRidgeCV have; got {type(model).__name__}."
        )
    model.fit(data, y, sample_weight=sample_weight)
    index = X.index if isinstance(X, pd.DataFrame) else None
    if isinstance(model, KernelRidgeCV):
        return doubted_targets(model, y, index=index, influence=True)
    return doubts(model, y, index=index, leverage=True, influence=True)


def doubts(
    model: ClassifierMixin,
    y: ArrayLike,
    *,
    index: ArrayLike | None = None,
    leverage: bool = False,
    influence: bool,
) -> pd.DataFrame:
    """The table of `audit` for a model that has been fitted to y.

    Without ``leverage`` and ``influence`` it ends with the probability and costs next to nothing,
    for every classifier; rows that were never left out keep their label, have NaN and come last.
    """
    import pandas as pd

    ridge = inside(model).refit() if leverage or influence else None
    if ridge is not None and isinstance(model, KernelFisherClassifier):
        logits = judged_logits(model, ridge)
    else:
        logits = left_out_logits(model)
    known = np.all(np.isfinite(logits), axis=1)
    given = _positions(model.classes_, y)
    classes = arrays.to_numpy(model.classes_)
    n = len(given)
    table = pd.DataFrame(
        {
            "label": classes[given],
            "suggested": classes[np.where(known, winners(logits), given)],
            "probability": probabilities(logits, 1.0)[np.arange(n), given],
        },
        index=index,
    )
    if ridge is not None:
        table["leverage"] = _spread(model, leverages(ridge), n)
    if influence and ridge is not None:
        table["influence"] = _spread(model, influences(ridge), n)
    return table.sort_values("probability", kind="stable")


def doubted_targets(
    model: KernelRidgeCV, y: ArrayLike, *, index: ArrayLike | None = None, influence: bool
) -> pd.DataFrame:
    """The table of `audit` for a regression that has been fitted to y, all rows with weight."""
    import pandas as pd

    ridge, task = inside(model).refit(), inside(model).training
    if len(model.dual_coef_.shape) > 1:
        raise ValueError(
            f"audit judges one target; the model has {model.dual_coef_.shape[0]}. Fit one alone."
        )
    assert task is not None
    targets = arrays.to_numpy(y).astype(np.float64).reshape(-1)
    if len(task.kept) < len(targets):
        raise ValueError(
            f"{len(targets) - len(task.kept)} of {len(targets)} rows have sample_weight 0; leave "
            "these rows out."
        )
    residual = arrays.to_numpy(ridge.leave_one_out())[:, 0]
    alike = residual * np.sqrt(arrays.to_numpy(remaining(ridge)))  # of one spread
    scale = float(_NORMAL * np.median(np.abs(alike)))
    if scale <= 1e-9 * float(np.abs(alike).max()):  # most rows are predicted exactly
        scale = float(np.sqrt(np.mean(alike**2)))
    found = {
        "target": targets,
        "predicted": targets - residual,
        "residual": residual,
        "ratio": alike / scale if scale > 0 else np.zeros_like(alike),
        "leverage": arrays.to_numpy(leverages(ridge)),
    }
    if influence:
        found["influence"] = arrays.to_numpy(influences(ridge))
    table = pd.DataFrame(found, index=index)
    return table.iloc[np.argsort(-np.abs(table["ratio"].to_numpy()), kind="stable")]


def harms(
    model: KernelFisherClassifier | BayesianFisherClassifier, ridge: Ridge, rows: np.ndarray
) -> np.ndarray:
    """Whether the other rows are predicted better without each of these; ``ridge`` is the fit."""
    _, merged = inside(model).rows
    return arrays.to_numpy(influences(ridge, merged[rows])) > 0


def _positions(classes: Array, y: ArrayLike) -> np.ndarray:
    """Position of each label among the classes; a row of weight 0 may carry one never fitted."""
    classes, labels = arrays.to_numpy(classes), arrays.to_numpy(y)
    positions = np.searchsorted(classes, labels)
    unknown = classes[np.minimum(positions, len(classes) - 1)] != labels
    if np.any(unknown):
        raise ValueError(
            f"y contains {labels[unknown].tolist()[0]!r} only in rows whose sample_weight is 0; "
            "leave those rows out."
        )
    return positions


def _spread(
    model: KernelFisherClassifier | BayesianFisherClassifier, values: Array, n: int
) -> np.ndarray:
    """Values of the rows of the fit for all rows of the data; 0 for those of weight 0."""
    kept, merged = inside(model).rows
    result = np.zeros(n)
    result[kept] = arrays.to_numpy(values)[merged]
    return result
