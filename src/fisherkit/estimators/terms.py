"""From what predicts to the kernel terms that it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fisherkit.core import Array, FittedKernel, Kernel, Parametric, arrays
from fisherkit.rows import Blend, Expansion, Term, Terms

Places = Array | Mapping[tuple[str, float | None], Array]


def of_expansion(model: Expansion | Blend, places: Places) -> Terms:
    """The terms of a model whose centres are these rows of the training data.

    A committee has such rows for each kernel, by name, and width.
    """
    intercept = arrays.to_numpy(model.intercept)
    if isinstance(model, Expansion):
        if model.columns is not None:
            raise ValueError(
                "kernel='precomputed' compares rows as wholes: there are no columns to explain."
            )
        coef, rows = arrays.to_numpy(model.coef), arrays.to_numpy(places)
        centres = np.empty((0, 1)) if model.centres is None else arrays.to_numpy(model.centres)
        if isinstance(model.kernel, FittedKernel):
            return Terms(_of_fitted(model.kernel, centres, rows, coef), intercept)
        return Terms([_term(model.kernel, centres, rows, coef)], intercept)
    assert isinstance(places, Mapping)
    parts = []
    for part, rows in zip(model.parts, _in_groups(places), strict=True):
        centres = arrays.to_numpy(part.centres)
        for gamma, coef in zip(part.gammas, part.coefs, strict=True):
            kernel = replace(part.kernel, gamma=gamma)
            parts.append(_term(kernel, centres, rows, arrays.to_numpy(coef)))
    return Terms(parts, intercept)


def _in_groups(places: Mapping[tuple[str, float | None], Array]) -> list[np.ndarray]:
    """Centres of each group of widths: of one kernel, with the same centres, in their order."""
    groups: dict[tuple[str, bytes], np.ndarray] = {}
    for (name, _), array in places.items():
        rows = arrays.to_numpy(array)
        groups.setdefault((name, rows.tobytes()), rows)
    return list(groups.values())


def _term(kernel: Kernel, centres: np.ndarray, places: np.ndarray, coef: np.ndarray) -> Term:
    """A kernel on centres (m, d) as they are given."""
    view, d = kernel.view, centres.shape[1]
    columns = np.arange(d) if view is None else np.asarray(view.columns)
    scale = np.ones(len(columns))
    if view is not None and view.scale is not None:
        scale = np.asarray(view.scale)
    return Term(
        kernel=kernel.bare,
        columns=columns,
        shift=np.zeros(len(columns)),
        scale=scale,
        centres=centres[:, columns] * scale,
        places=places,
        coef=coef,
    )


def _of_fitted(
    kernel: FittedKernel, centres: np.ndarray, places: np.ndarray, coef: np.ndarray
) -> list[Term]:
    """The parts of a kernel whose parameters were learned; ``centres`` are as it sees them."""
    learned = kernel.covariance
    if not isinstance(learned, Parametric):
        raise ValueError(
            "A kernel object of sklearn.gaussian_process does not say what each column does. Use "
            "kernel='rbf' or 'linear'."
        )
    w = learned.weights(kernel.theta, centres.shape[1])
    found = []
    if learned.rbf:
        amplitude = float(np.exp(kernel.theta[0]))
        found.append((Kernel("rbf", gamma=1.0), np.sqrt(w / 2), amplitude * coef))
    if learned.linear:
        found.append((Kernel("linear"), np.sqrt(learned.slope(kernel.theta) * w), coef))
    scale = arrays.to_numpy(kernel.scale)
    return [
        Term(
            kernel=part,
            columns=arrays.to_numpy(kernel.columns),
            shift=arrays.to_numpy(kernel.shift),
            scale=size / scale,
            centres=centres * size,
            places=places,
            coef=coefs,
        )
        for part, size, coefs in found
    ]
