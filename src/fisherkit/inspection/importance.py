"""Which columns does the error on left-out rows hang on?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from fisherkit.core import arrays, winners
from fisherkit.estimators import (
    FisherCommitteeClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    inside,
    validation,
)
from fisherkit.inference import LeftOutTerm, left_out_fit, score_changes
from fisherkit.inspection.columns import opened
from fisherkit.inspection.members import Members
from fisherkit.interfaces import Seed
from fisherkit.tuning import logits_without

MOST_ROWS = 2000
_LEFT_OUT = {
    KernelFisherClassifier: "loo_decision_",
    KernelRidgeCV: "loo_prediction_",
    FisherCommitteeClassifier: "loo_proba_",
}


@dataclass(frozen=True, eq=False)
class ColumnImportance:
    """What `column_importance` finds, for c columns.

    Attributes
    ----------
    columns : list of str
    measure : {"log-loss", "squared error"}
    rise : (c,)
        By how much the mean of the measure over the rows rises when the column is permuted.
    standard_error : (c,)
        Of ``rise``, over the rows.
    error_rise, error_standard_error : (c,) or None
        The same for the share of wrong answers of a classifier.
    base : float
        The mean of the measure as the rows are.
    base_error : float or None
        The share of wrong answers as the rows are.
    rows : int
        The number of rows.
    left_out : bool
        Whether each row was judged by a model fitted without it.

    Examples
    --------
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.datasets import make_relevance
    >>> from fisherkit.inspection import column_importance
    >>> X, y = make_relevance(n_irrelevant=2, random_state=0)
    >>> found = column_importance(KernelFisherClassifier().fit(X, y), X, y)
    >>> found.to_frame().index[0], found.left_out
    ('x0', True)
    """

    columns: list[str]
    measure: str
    rise: np.ndarray
    standard_error: np.ndarray
    error_rise: np.ndarray | None
    error_standard_error: np.ndarray | None
    base: float
    base_error: float | None
    rows: int
    left_out: bool

    def to_frame(self) -> pd.DataFrame:
        """A row for each column, the most important first."""
        found = {"rise": self.rise, "standard_error": self.standard_error}
        if self.error_rise is not None and self.error_standard_error is not None:
            found["error_rise"] = self.error_rise
            found["error_standard_error"] = self.error_standard_error
        table = pd.DataFrame(found, index=pd.Index(self.columns, name="column"))
        return table.sort_values("rise", ascending=False, kind="stable")


@dataclass(frozen=True)
class Judged:
    """Rows that are judged by models, and what these say if columns of the rows change.

    Attributes
    ----------
    X : (b, d)
        Features of the rows.
    scores : (b, k)
        Scores of the rows as they are, once all parts have been looked at.
    parts : iterable of LeftOutTerm
        What changes of scores follow from.
    finish : callable
        From scores (b, k) to logits, or predictions.
    weight : (b,)
        How much each row counts.
    """

    X: np.ndarray
    scores: np.ndarray
    parts: Iterable[LeftOutTerm]
    finish: Callable[[np.ndarray], np.ndarray]
    weight: np.ndarray


def column_importance(
    model: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    left_out: bool | None = None,
    n_repeats: int = 5,
    max_rows: int = MOST_ROWS,
    random_state: Seed = 0,
) -> ColumnImportance:
    r"""How much worse a fitted model answers when a column is permuted among the rows.

    Parameters
    ----------
    model : a fitted estimator of fisherkit, or a Pipeline of scalers that ends in one
    X : (n, d)
        The training data, for models that have exact leave-one-out (`KernelFisherClassifier`,
        `FisherCommitteeClassifier`, `KernelRidgeCV`, and tables with these behind them), or rows
        that the model has not seen.
    y : (n,) or (n, n_outputs)
        Their labels, or numbers.
    left_out : bool, default=None
        Whether each row is judged by the model fitted without it; ``None`` does so if X and y are
        the training data. ``False`` judges rows by the model as it is.
    n_repeats : int, default=5
        Permutations of each column.
    max_rows : int, default=2000
        Rows that are judged at most, drawn at random; values are exchanged among them.
    random_state : int, RandomState or None, default=0

    Returns
    -------
    ColumnImportance

    Notes
    -----
    The measure is the log-loss, beside the error rate; of a regression the squared error. A row of
    weight 2 counts twice, and loses one copy when it is left out.

    *Exact without refits.* Let R_i be the left-out residual of row i, c_i the coefficients that a
    unit target of the row alone would get, and d_i of its weight v_i be taken away (all of it,
    unless the row has copies). Coefficients are linear in the targets, and the model without row i
    has

    .. math::

        a^{(i)} = a - \frac{d_i}{v_i} R_i c_i , \qquad
        f^{(i)}(x') = y_i - R_i + \sum_j [k(x', x_j) - k(x_i, x_j)] \, a_j^{(i)} ,

    at the row x' with a column from elsewhere: what a refit without the row at the same width and
    mu would say, with any bias, penalty and choice of centres (which stay in place). The slope of
    the probabilities, or the softmax, is that of the fit, and so are widths learned by ``ard``.

    *Committees.* Every member with weight is left out so, one kernel width after the other; members
    that have learned which columns matter were judged on folds, and the model without a row is
    the one of the other folds. Weights and calibrations are those of the fit. A committee keeps
    neither sample weights nor groups: one that had them is judged on new rows only.

    A column may be important to the model in place of another that says the same; permuting one of
    them then does little harm.

    *Cost.* One Cholesky factorisation, O(n^3), or one decomposition (of a committee one for each
    kernel width in use, and four solves for each that has learned), and for every column
    O(b m ``n_repeats``) for b rows and m centres where the kernel follows from a sum over columns
    (rbf, laplacian, additive, exponential, linear, polynomial), otherwise a kernel matrix each.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.inspection import column_importance
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> found = column_importance(KernelFisherClassifier().fit(X, y), X, y)
    >>> sorted(found.to_frame().index[:2])
    ['petal length (cm)', 'petal width (cm)']
    """
    n_repeats = validation.positive("n_repeats", n_repeats)
    max_rows = validation.positive("max_rows", max_rows)
    if left_out is not None:
        validation.flag("left_out", left_out)
    rng = check_random_state(random_state)
    front, preparation = opened(model)
    features = preparation.features(preparation.table(X))
    targets = arrays.to_numpy(y)
    if len(targets) != len(features):
        raise ValueError(f"X has {len(features)} rows and y has {len(targets)}; give one y a row.")
    classes, used = getattr(front, "classes_", None), preparation.rows_used
    if used is not None and len(used) == len(features) and left_out is not False:
        # Rows without weight or label, which a table leaves out before it fits.
        own = features[used], targets[used]
        if _unlike(front, own[0], _truth(classes, own[1])) is None:
            features, targets = own
    truth = _truth(classes, targets)
    unlike = _unlike(front, features, truth)
    if left_out is None:
        left_out = unlike is None
    if left_out and unlike is not None:
        raise ValueError(f"left_out=True needs the training data: {unlike}")
    if left_out and isinstance(front, FisherCommitteeClassifier):
        judged, rows = _members_left_out(front, features, targets, max_rows, rng)
    elif left_out:
        judged, rows = _left_out(front, features, max_rows, rng)
    else:
        judged, rows = _as_it_is(front, features, max_rows, rng)
    names, sources = preparation.names, preparation.sources
    donors = np.empty((len(names), n_repeats, len(rows)), dtype=int)
    for place in np.ndindex(*donors.shape[:2]):
        donors[place] = rng.permutation(len(rows))
    classifier = classes is not None
    loss = partial(_losses, truth[rows], classifier=classifier)
    k = judged.scores.shape[1]
    changes = score_changes(judged.parts, judged.X, sources, donors, k)
    base = loss(judged.finish(judged.scores))
    rises = np.zeros((len(names), *base.shape))
    for column, of_column in enumerate(changes):
        for change in of_column:
            rises[column] += (loss(judged.finish(judged.scores + change)) - base) / n_repeats
    mean, error = _mean_and_error(rises, judged.weight)
    weighted = base @ judged.weight / judged.weight.sum()
    return ColumnImportance(
        columns=names,
        measure="log-loss" if classifier else "squared error",
        rise=mean[:, 0],
        standard_error=error[:, 0],
        error_rise=mean[:, 1] if classifier else None,
        error_standard_error=error[:, 1] if classifier else None,
        base=float(weighted[0]),
        base_error=float(weighted[1]) if classifier else None,
        rows=len(rows),
        left_out=left_out,
    )


def _truth(classes: ArrayLike | None, y: np.ndarray) -> np.ndarray:
    """Places of labels among the classes (n,), or targets (n, k)."""
    if classes is None:
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    known = arrays.to_numpy(classes)
    places = np.minimum(np.searchsorted(known, y), len(known) - 1)
    if np.any(known[places] != y):
        strange = y[known[places] != y].tolist()[0]
        raise ValueError(
            f"y has the label {strange!r}, which is no class of the model; it knows "
            f"{known.tolist()}."
        )
    return places


def _losses(truth: np.ndarray, numbers: np.ndarray, *, classifier: bool) -> np.ndarray:
    """The measures of each row: log-loss of logits and wrong answers, or squared errors; (q, b)."""
    if not classifier:
        return np.sum((truth - numbers) ** 2, axis=1)[None, :]
    wrong = winners(numbers) != truth
    if numbers.shape[1] == 1:
        numbers = np.hstack([0 * numbers, numbers])
    own = np.take_along_axis(numbers, truth[:, None], axis=1)[:, 0]
    return np.stack([logsumexp(numbers, axis=1) - own, wrong])


def _mean_and_error(values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means over the last axis, and their standard errors."""
    share = weight / weight.sum()
    mean = values @ share
    spread = (values - mean[..., None]) ** 2 @ share**2
    return mean, np.sqrt(spread * len(weight) / max(len(weight) - 1, 1))


def _as_it_is(
    model: BaseEstimator, X: np.ndarray, most: int, rng: np.random.RandomState
) -> tuple[Judged, np.ndarray]:
    """Rows judged by the model that is given."""
    terms = inside(model).terms
    rows = _drawn(len(X), most, rng)
    b, k = len(rows), terms.k
    everyone = np.arange(b)
    parts = [
        LeftOutTerm(part, everyone, np.zeros((0, b, len(part.centres))), np.zeros((0, b, k)))
        for part in terms.parts
    ]
    return Judged(X[rows], terms(X[rows]), parts, _unchanged, np.ones(b)), rows


def _unchanged(scores: np.ndarray) -> np.ndarray:
    return scores


def _drawn(n: int, most: int, rng: np.random.RandomState) -> np.ndarray:
    """At most so many of n rows, in order."""
    return np.arange(n) if n <= most else np.sort(rng.permutation(n)[:most])


def _unlike(model: BaseEstimator, X: np.ndarray, truth: np.ndarray) -> str | None:
    """Why rows cannot be left out of the fit; ``None`` if they can."""
    committee = isinstance(model, FisherCommitteeClassifier)
    if not committee and not isinstance(model, KernelFisherClassifier | KernelRidgeCV):
        return (
            f"{type(model).__name__} has no exact leave-one-out. Give rows that the model has not "
            "seen."
        )
    view = inside(model)
    if view.in_blocks and not committee:
        return "the fit has read its rows in blocks and keeps none. Give rows that it has not seen."
    left = getattr(model, _LEFT_OUT[type(model)])
    if len(X) != len(left):
        return f"X has {len(X)} rows, and the fit had {len(left)}."
    for part in view.score_terms.parts:
        if not np.allclose(part.see(X[part.places]), part.centres, rtol=1e-9, atol=1e-9):
            return "the rows of X are not those of the fit, in their order."
    if committee and view.goes_in_blocks(X):
        return "the fit has read its rows in blocks. Give rows that it has not seen."
    task = view.training
    if task is None:  # what a committee says of left-out rows tells whether the labels are right
        return None
    kept, fitted = task.kept, task.problem.Y if task.labels is None else task.labels.index
    if not np.array_equal(arrays.to_numpy(fitted), truth[kept]):
        return "y is not what the model was fitted to."
    return None


def _left_out(
    model: KernelFisherClassifier | KernelRidgeCV,
    X: np.ndarray,
    most: int,
    rng: np.random.RandomState,
) -> tuple[Judged, np.ndarray]:
    """Rows of the training data, each judged by the model without it."""
    view = inside(model)
    task = view.training
    assert task is not None
    design, Y = task.problem.design, task.problem.Y
    rows = _drawn(Y.shape[0], most, rng)
    fit = left_out_fit(design, Y, float(model.regularization_), rows)
    (term,) = view.score_terms.parts
    places = task.kept[fit.centres]
    term = replace(term, centres=term.see(X[places]), places=places, coef=arrays.to_numpy(fit.coef))
    part = LeftOutTerm(
        term,
        np.arange(len(rows)),
        arrays.to_numpy(fit.reach)[None],
        arrays.to_numpy(fit.pull)[None],
    )
    residuals = fit.residuals
    scores = arrays.to_numpy(residuals.Y - residuals.leave_one_out())
    finish = _unchanged
    if task.rule is not None:
        classes = design.weights.of_classes(task.indicator)

        def finish(scores: np.ndarray) -> np.ndarray:
            like = arrays.like(scores, residuals.Y)
            logits = logits_without(residuals, like, task.rule, classes, model.calibration_)
            return arrays.to_numpy(logits)

    weight = arrays.to_numpy(residuals.weights.frequency)
    kept = task.kept[rows]
    return Judged(X[kept], scores, [part], finish, weight), kept


def _members_left_out(
    model: FisherCommitteeClassifier,
    X: np.ndarray,
    y: np.ndarray,
    most: int,
    rng: np.random.RandomState,
) -> tuple[Judged, np.ndarray]:
    """Rows of the training data of a committee, each judged by its members without it."""
    rows, asked = inside(model).committee(X, y)
    places = _drawn(rows.Y.shape[0], most, rng)
    logits = np.zeros((len(places), rows.Y.shape[1]))
    parts = Members(model, rows, asked, places).without_rows(logits)
    weight = arrays.to_numpy(rows.weights.frequency)[places]
    kept = rows.kept[places]
    return Judged(X[kept], logits, parts, _unchanged, weight), kept
