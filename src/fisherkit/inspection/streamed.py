"""Left-out logits at every mu for fits in blocks; `left_out` finds them for fits in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fisherkit.core import Array, Kernel, Residuals, Weights, arrays, membership
from fisherkit.estimators import KernelFisherClassifier, inside, validation
from fisherkit.inspection.left_out import (
    LeftOutPath,
    calibrated_logits,
    left_out_logits,
    ridge_of,
)
from fisherkit.interfaces import Container
from fisherkit.rows import Centres, Form, Kept, LocalRows, SecondPass, form_of_rows
from fisherkit.tuning import mu_grid


def streamed_path(
    model: KernelFisherClassifier, X: Container, y: ArrayLike, rows: np.ndarray
) -> LeftOutPath:
    """Left-out logits of some rows at the mu of the fit and on the grid around it.

    Parameters
    ----------
    model : KernelFisherClassifier
        Fitted to X and y in blocks, without sample weights.
    X : (n, d), of any container
    y : (n,)
    rows : (s,)
        Ascending positions of the rows wanted.

    Notes
    -----
    The form of all rows is found again, n m^2 flops; the rows wanted cost O(s m^2 + s m k) for each
    mu. The slope at any mu but that of the fit is fitted to these rows alone.
    """
    everything, rule = inside(model).blocks(X, y)
    Y, budget = everything.Y, everything.budget
    weights, indicator = Weights(everything.frequency, everything.cost), membership(Y)
    place = arrays.indices(rows, Y)
    w = weights.take(place)
    part = LocalRows(arrays.read(X, rows), arrays.take_rows(Y, place), w.frequency, w.cost, budget)
    expansion = inside(model).expansion
    ones = arrays.namespace(Y).ones_like(expansion.coef[:, 0])
    assert isinstance(expansion.kernel, Kernel)
    centres = Centres.of(expansion.kernel, expansion.centres, ones, model.penalty)
    bias = validation.bias(model.bias)
    form, relative = form_of_rows(everything, centres, part.block(slice(0, part.n)), bias)
    mus = np.union1d(mu_grid(form.unit, relative * form.unit), [model.regularization_])
    chosen = int(np.flatnonzero(mus == model.regularization_)[0])
    swept = part.sweep(SecondPass(form, rule="", balanced=False, mus=tuple(mus), keep_from=0)).kept
    classes = weights.of_classes(indicator)
    squares = _squares(form, Y, weights)
    logits = []
    for number, mu in enumerate(mus):
        _, e, B = Kept(swept, np.eye(len(mus))[number]).residuals()
        fit = Residuals(part.Y, w, B, w.root[:, None] * e, _scatter(form, squares, mu))
        if number == chosen:
            logits.append(left_out_logits(model)[rows])
            coordinates = inside(model).left_out_coordinates(fit)
            continue
        logits.append(calibrated_logits(fit, rule, classes, ridge_of(model)))
    logits_at = np.stack(logits, axis=2)
    return LeftOutPath(mu=mus, chosen=chosen, logits=logits_at, coordinates=coordinates, ridge=None)


def _squares(form: Form, Y: Array, weights: Weights) -> Array:
    """Weighted scatter of the targets, about their mean if the bias is free; (k, k)."""
    centred = Y - form.mean
    return centred.T @ (weights.v[:, None] * centred)


def _scatter(form: Form, squares: Array, mu: float) -> Array:
    """E = y~'B y~ of all rows, B = P - U diag(lam/(lam + mu)) U'; (k, k)."""
    return squares - form.xi.T @ (form.xi / (form.lam + mu)[:, None])
