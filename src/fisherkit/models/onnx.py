"""Fitted models as ONNX graphs, preparation and calibration included, in double precision.

The graph of a classifier has two outputs: ``label`` and ``probabilities`` (n, n_classes), columns
in the order of ``classes_`` (also in the properties of the model). The graph of a regressor has
one, ``prediction``, (n,) or (n, n_outputs). A model of tables has one input (n, 1) for each column,
of doubles or of strings, where an empty string is a missing value; any other model has one input
``X`` (n, n_features) of doubles.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from fisherkit.columns import MISSING_LEVEL, Features, Levels
from fisherkit.core import FittedKernel, Kernel, Parametric
from fisherkit.estimators import (
    DecisionMixin,
    DiscriminantMixin,
    FisherCommitteeClassifier,
    KernelRidgeCV,
    inside,
)
from fisherkit.methods import TableModel

try:
    from onnx import ModelProto

    from fisherkit.models.onnx_graph import KERNELS, Graph, kernel_blocks, squared_distances
except ImportError as error:
    raise ImportError("ONNX export needs onnx; pip install 'fisherkit[onnx]'.") from error


class ExportError(ValueError):
    """A model that has no ONNX graph."""


def to_onnx(model: BaseEstimator, *, single: bool = False) -> ModelProto:
    """The ONNX graph of a fitted classifier or regressor.

    Parameters
    ----------
    model : a fitted estimator of fisherkit, or a Pipeline that ends in one
        Steps before it may be `StandardScaler` and `SimpleImputer`.
    single : bool, default=False
        Keep centres and coefficients in single precision, in half the space: 4 bytes for each
        number of the centres and for each coefficient. What is computed with them stays double;
        scores differ by about 1e-7 of the sum of the sizes of the coefficients.

    Returns
    -------
    onnx.ModelProto
        The inputs are the columns by name, (n, 1) each, of a `TableClassifier` or
        `TableRegressor`, otherwise "X" (n, d). The outputs are "label" (n,) and "probabilities"
        (n, n_classes) of a classifier, and "prediction", (n,) or (n, n_outputs), of a regressor.

    Raises
    ------
    ExportError
        For kernels that are callables, objects or precomputed, ``probability="noise_model"``, and
        other preparations.

    Examples
    --------
    >>> import pytest
    >>> ort = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    >>> from sklearn.datasets import load_iris
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.onnx_export import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelFisherClassifier(gamma=0.2).fit(X, y)
    >>> session = ort.InferenceSession(to_onnx(model).SerializeToString())
    >>> label, probabilities = session.run(None, {"X": X})
    >>> bool(abs(probabilities - model.predict_proba(X)).max() < 1e-9)
    True
    """
    check_is_fitted(model)
    steps = list(model.named_steps.values()) if isinstance(model, Pipeline) else [model]
    *preparation, last = steps
    if isinstance(model, TableModel):
        last = model.estimator_
    if not isinstance(last, DecisionMixin | KernelRidgeCV):
        raise ExportError(
            f"{type(last).__name__} is neither a classifier nor a regressor of fisherkit."
        )
    graph = Graph(_prefix(getattr(model, "feature_names_in_", [])), single=single)
    outputs = ("label", "probabilities") if isinstance(last, DecisionMixin) else ("prediction",)
    if isinstance(model, TableModel):
        X = _features(graph, model.features_, outputs)
        if isinstance(model.features_seen, np.ndarray):  # the kernel sees some of them
            X = graph.add("Gather", X, graph.constant(model.features_seen, "integer"), axis=1)
    else:
        X = graph.input("X", "number", steps[0].n_features_in_)
    for step in preparation:
        X = _numeric(graph, step, X)
    about = {"fisherkit": version("fisherkit")}
    if isinstance(last, DecisionMixin):
        _answers(graph, last, _decisions(graph, last, X))
        known = [item.item() if isinstance(item, np.generic) else item for item in last.classes_]
        about["classes"] = json.dumps(known)
    else:
        _prediction(graph, last, _decisions(graph, last, X))
    return graph.model(about)


def _prefix(columns: Iterable[object]) -> str:
    """How names inside the graph begin, so that none is that of a column."""
    prefix = "fisherkit/"
    while any(str(column).startswith(prefix) for column in columns):
        prefix += "/"
    return prefix


def _numeric(graph: Graph, step: TransformerMixin | str | None, X: str) -> str:
    """A preparation of numbers, (n, d) to (n, d)."""
    if step is None or step == "passthrough":
        return X
    if isinstance(step, StandardScaler):
        if step.mean_ is not None and step.with_mean:
            X = graph.plus(X, -step.mean_)
        if step.scale_ is not None:
            X = graph.add("Div", X, graph.constant(step.scale_))
        return X
    if isinstance(step, SimpleImputer):
        statistics = np.asarray(step.statistics_)
        plain = isinstance(step.missing_values, float) and np.isnan(step.missing_values)
        if statistics.dtype.kind != "f" or not plain or np.isnan(statistics).any():
            raise ExportError("SimpleImputer must fill NaN with numbers in every column.")
        if step.add_indicator:
            raise ExportError("SimpleImputer(add_indicator=True) cannot be exported.")
        return graph.add("Where", graph.add("IsNaN", X), graph.constant(statistics), X)
    raise ExportError(f"{type(step).__name__} cannot be exported; use StandardScaler.")


def _features(graph: Graph, features: Features, outputs: tuple[str, ...]) -> str:
    """Inputs by column, as `Features.transform` makes features of them."""
    taken = sorted(set(outputs).intersection(features.columns))
    if taken:
        raise ExportError(
            f"Column {taken[0]!r} is called as an output of the graph is; give the column "
            "another name and train again."
        )
    parts, numbers = [], features.numbers
    if numbers.names:
        inputs = [graph.input(column, "number", 1) for column in numbers.names]
        X = graph.add("Concat", *inputs, axis=1)
        X = graph.add("Where", graph.add("IsNaN", X), graph.constant(numbers.median), X)
        centred = graph.plus(X, -numbers.mean)
        parts.append(graph.add("Div", centred, graph.constant(numbers.scale)))
    parts += [_ranks(graph, X, int(j), *numbers.knots_of(j)) for j in numbers.ranked]
    parts += [_levels(graph, levels) for levels in features.texts]
    return parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1)


def _ranks(graph: Graph, X: str, column: int, knots: np.ndarray, ranks: np.ndarray) -> str:
    """Places of the numbers of a column, straight between knots; (n, 1)."""
    x = graph.add("Gather", X, graph.constant([column], "integer"), axis=1)
    share = graph.add("Div", graph.plus(x, -knots[:-1]), graph.constant(np.diff(knots)))
    share = graph.add("Clip", share, graph.constant(0.0), graph.constant(1.0))
    return graph.plus(graph.matmul(share, np.diff(ranks)[:, None]), ranks[0])


def _levels(graph: Graph, levels: Levels) -> str:
    """Indicators of the levels of a column of texts, in which missing ones are empty."""
    # Rare and unseen levels share the last column; without one, a row of zeros.
    last = len(levels.known)
    position = {level: number for number, level in enumerate(levels.known)}
    position |= dict.fromkeys(levels.rare, last)
    position.setdefault("", position.get(MISSING_LEVEL, last))
    number = graph.add(
        "LabelEncoder",
        graph.input(levels.name, "text", 1),
        keys_strings=list(position),
        values_int64s=list(position.values()),
        default_int64=last,
    )
    flat = graph.add("Reshape", number, graph.constant([-1], "integer"))
    return graph.add("Gather", graph.constant(np.eye(last + 1, levels.width)), flat)


def _decisions(graph: Graph, model: BaseEstimator, X: str) -> str:
    """Decisions (n, 1) or (n, n_classes), or predictions (n, n_outputs)."""
    if isinstance(model, FisherCommitteeClassifier):
        terms = [
            graph.matmul(values, np.asarray(coef))
            for part in inside(model).blend.parts
            for values, coef in zip(
                kernel_blocks(graph, _named(part.kernel), X, part.centres, part.gammas),
                part.coefs,
                strict=True,
            )
        ]
    else:
        coef = model.dual_coef_[:, None] if model.dual_coef_.ndim == 1 else model.dual_coef_.T
        terms = [graph.matmul(_block(graph, model, X), coef)] if len(coef) else []
    intercept = np.reshape(model.intercept_, (1, -1))
    # A constant model: zeros of as many rows.
    empty = np.zeros((model.n_features_in_, intercept.shape[1]))
    scores = terms[0] if terms else graph.matmul(X, empty)
    for term in terms[1:]:
        scores = graph.add("Add", scores, term)
    scores = graph.plus(scores, intercept)
    if isinstance(model, DiscriminantMixin):
        decision = inside(model).decision
        if decision.matrix is not None:
            scores = graph.matmul(scores, decision.matrix)
        scores = graph.plus(scores, np.reshape(decision.offset, (1, -1)))
    return scores


def _block(graph: Graph, model: BaseEstimator, X: str) -> str:
    """Values of the fitted kernel between rows and centres, (n, m)."""
    if inside(model).noise_model:
        raise ExportError("probability='noise_model' cannot be exported; use 'loo'.")
    expansion = inside(model).expansion
    kernel, centres = expansion.kernel, np.asarray(expansion.centres)
    if not isinstance(kernel, FittedKernel):
        return kernel_blocks(graph, _named(kernel), X, centres, [kernel.gamma])[0]
    covariance = kernel.covariance
    if not isinstance(covariance, Parametric):
        raise ExportError("Kernel objects cannot be exported; use kernel='rbf' or 'linear'.")
    Z = graph.add("Gather", X, graph.constant(kernel.columns, "integer"), axis=1)
    Z = graph.add("Div", graph.plus(Z, -kernel.shift), graph.constant(kernel.scale))
    w, theta = covariance.weights(kernel.theta, centres.shape[1]), kernel.theta
    parts = []
    if covariance.rbf:
        near = graph.add("Exp", graph.times(squared_distances(graph, Z, centres, w), -0.5))
        parts.append(graph.times(near, np.exp(theta[0])))
    if covariance.linear:
        parts.append(graph.matmul(Z, (covariance.slope(theta) * w * centres).T))
    return parts[0] if len(parts) == 1 else graph.add("Add", *parts)


def _named(kernel: Kernel) -> Kernel:
    if callable(kernel.name) or kernel.precomputed:
        raise ExportError("Only kernels with a name can be exported, not callables or matrices.")
    if kernel.name not in KERNELS:
        raise ExportError(
            f"The kernel {kernel.name!r} cannot be exported; {', '.join(KERNELS)} can."
        )
    return kernel


def _prediction(graph: Graph, model: KernelRidgeCV, numbers: str) -> None:
    """The output of a regressor."""
    flat = model.dual_coef_.ndim == 1
    shape = [-1] if flat else [-1, len(model.dual_coef_)]
    graph.add("Reshape", numbers, graph.constant(shape, "integer"), output="prediction")
    if flat:
        graph.output("prediction", "number")
    else:
        graph.output("prediction", "number", len(model.dual_coef_))


def _answers(graph: Graph, model: ClassifierMixin, decisions: str) -> None:
    """The two outputs of a classifier."""
    classes = np.asarray(model.classes_)
    n_classes = len(classes)
    if n_classes == 2:
        positive = graph.add("Greater", decisions, graph.constant(0.0))
        winner = graph.add("Cast", positive, to=7)  # to 64-bit integers
        logits = graph.matmul(decisions, np.array([[-0.5, 0.5]]) * inside(model).slope)
    else:
        winner = graph.add("ArgMax", decisions, axis=1, keepdims=1)
        logits = graph.times(decisions, inside(model).slope)
    kind = {"f": "number", "b": "truth", "i": "integer", "u": "integer"}.get(
        classes.dtype.kind, "text"
    )
    labels = graph.constant([str(c) for c in classes] if kind == "text" else classes, kind)
    flat = graph.add("Reshape", winner, graph.constant([-1], "integer"))
    graph.add("Gather", labels, flat, output="label")
    graph.add("Softmax", logits, axis=1, output="probabilities")
    graph.output("label", kind)
    graph.output("probabilities", "number", n_classes)
