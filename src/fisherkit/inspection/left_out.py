"""What fitted classifiers say of rows that they have not seen, for every method.

A *logit* is a decision times the slope of the probabilities: the log-odds of ``classes_[1]`` for
two classes, one logit per class (up to a constant of the row) for more. Every classifier keeps the
decisions on its training rows by models fitted without them; `left_out_path` finds them again for
every regularisation that tuning compared, from one decomposition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import ClassifierMixin

from fisherkit.core import Residuals, Ridge, Rule, Weights, arrays, mu_floor
from fisherkit.estimators import (
    BayesianFisherClassifier,
    ExpansionMixin,
    FisherCommitteeClassifier,
    KernelFisherClassifier,
    inside,
)
from fisherkit.tuning import Selection, Softmax, decide_again, decide_rows, mu_grid


@dataclass(frozen=True)
class LeftOutPath:
    """Logits of left-out rows along mu, at the kernel width of the fit."""

    mu: np.ndarray  # (p,), ascending: all that tuning compared at this width, and the chosen one
    chosen: int  # the position of the chosen one
    logits: np.ndarray  # (n, k, p), each mu with the slope that its own left-out decisions call for
    coordinates: np.ndarray  # (n, c-1), discriminant coordinates at the mu chosen
    ridge: Ridge | None  # the fit at the mu chosen; None for a fit in blocks


def how_left_out(model: ClassifierMixin) -> str:
    """A sentence on who judged the rows in `left_out_logits`."""
    if isinstance(model, FisherCommitteeClassifier):
        return (
            "Leave-one-out: each row is judged by committee members fitted to all other rows. The "
            "weights of the members and their calibration have seen it."
        )
    if isinstance(model, ExpansionMixin):
        return (
            "Cross-validation: each row is judged by a model fitted without its fold, with the "
            "settings that these same folds preferred."
        )
    widths = getattr(model, "widths_", None)
    if widths is not None and widths.strength > 0:
        return (
            "Cross-validation: each row is judged by a model fitted without its fold, whose widths "
            "are learned without it, with the width and regularisation that all rows preferred."
        )
    return (
        "Leave-one-out: each row is judged by the model fitted to all other rows, with the "
        "settings that all rows preferred."
    )


def left_out_logits(model: ClassifierMixin) -> np.ndarray:
    """Logits (n, k) of the training rows by models fitted without them; NaN where there is none."""
    if isinstance(model, FisherCommitteeClassifier):
        smallest = np.finfo(np.float64).tiny
        log_p = np.log(np.maximum(arrays.to_numpy(model.loo_proba_), smallest))
        return log_p[:, 1:] - log_p[:, :1] if log_p.shape[1] == 2 else log_p
    if isinstance(model, ExpansionMixin):
        decisions, slope = model.cv_decision_, model.calibration_
    else:
        decisions, slope = arrays.to_numpy(model.loo_decision_), model.calibration_
    return slope.value * decisions.reshape(len(decisions), -1)


def judged_logits(model: KernelFisherClassifier, ridge: Ridge) -> np.ndarray:
    """`left_out_logits` for every row, also where the fit has left out a sample of them alone.

    ``ridge`` is the fit once more; the probabilities stay those of the fit.
    """
    logits, view = left_out_logits(model), inside(model)
    if model.selection_.sampled:
        task, slope = view.training, model.calibration_
        assert task is not None and task.labels is not None
        again = decide_again(ridge, view.decision.rule, task.labels.of_classes, slope)
        logits[task.kept] = slope.value * arrays.to_numpy(again)
    return logits


def cross_fitted(model: ClassifierMixin) -> Softmax | None:
    """The softmax of a model, if its cross-fitted figures are means over rows that count alike."""
    found = model.calibration_
    alike = getattr(model, "threshold", "prior") == "prior"
    alike = alike and getattr(model, "class_weight", None) is None
    return found if isinstance(found, Softmax) and alike and found.rows > 0 else None


def in_blocks(model: KernelFisherClassifier) -> bool:
    """Whether the rows of the fit were read in blocks, so that the model keeps none of them."""
    return inside(model).training is None


def left_out_path(model: KernelFisherClassifier) -> LeftOutPath:
    """Left-out logits of the rows of the fit at every mu; one decomposition, O(n r k) for each mu.

    At the mu of the fit the logits are those of the fit; at smaller mu they are as accurate as its
    decomposition (exact on the full path and with chosen centres).
    """
    view = inside(model)
    task, path = view.training, view.path()
    assert task is not None
    mus = _compared(model.selection_)
    if len(mus) == 1:
        unit = path.canonical.unit
        mus = np.union1d(mu_grid(unit, mu_floor(unit, path.canonical.weights)), mus)
    chosen = int(np.argmin(np.abs(np.log(mus / model.regularization_))))
    rule, of_matrix, logits = task.rule, ridge_of(model), []
    for number, mu in enumerate(mus):
        if number == chosen:
            logits.append(left_out_logits(model)[task.kept])
            continue
        fit = path.at(float(mu))
        classes = fit.weights.of_classes(task.indicator)
        logits.append(calibrated_logits(fit, rule, classes, of_matrix))
    ridge = path.at(model.regularization_)
    return LeftOutPath(
        mu=mus,
        chosen=chosen,
        logits=np.stack(logits, axis=2),
        coordinates=view.left_out_coordinates(ridge),
        ridge=ridge,
    )


def _compared(selection: Selection) -> np.ndarray:
    """The values of mu that tuning compared at the chosen width, ascending; the chosen one too."""
    gamma = selection.path["gamma"]
    at_width = np.isnan(gamma) if selection.gamma is None else gamma == selection.gamma
    mus = np.append(selection.path["mu"][at_width], selection.mu)
    # A width may have been visited more than once, on grids that differ by rounding.
    _, first = np.unique(np.round(np.log2(mus / selection.unit), 6), return_index=True)
    return np.sort(mus[first])


def left_out_coordinates(model: BayesianFisherClassifier) -> np.ndarray:
    """Discriminant coordinates (n, c-1) of the rows of the fit by models fitted without them."""
    view = inside(model)
    return view.left_out_coordinates(view.refit())[view.rows[1]]


def calibrated_logits(
    fit: Residuals, rule: Rule, classes: Weights, ridge: float | None
) -> np.ndarray:
    """Leave-one-out decisions times the slope that they call for, (n, k).

    For a softmax these are its logits, fitted to these rows with the ridge of the model.
    """
    decided, decisions = decide_rows(fit, rule, classes, ridge=ridge)
    return decided.slope.value * arrays.to_numpy(decisions)


def ridge_of(model: KernelFisherClassifier) -> float | None:
    """The ridge of the matrix form of a model that has one."""
    return model.calibration_.ridge if isinstance(model.calibration_, Softmax) else None
