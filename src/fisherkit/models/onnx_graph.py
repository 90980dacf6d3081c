"""Building blocks of ONNX graphs in double precision: nodes, constants and kernels.

Kernels that are sums over features with no matrix product (laplacian and the chi-squared ones) run
feature by feature, so that no n x m x d array is ever there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

from fisherkit.core import Kernel

OPSETS = {"": 17, "ai.onnx.ml": 3}
_SMALL = 64  # numbers of a constant that always keeps its digits
_MOST_DIGITS = 2.0**-20  # of the shift that keeps the digits of distances

_TYPES = {
    "number": TensorProto.DOUBLE,
    "text": TensorProto.STRING,
    "integer": TensorProto.INT64,
    "truth": TensorProto.BOOL,
}


@dataclass
class Graph:
    """A graph that grows; tensors are known by their names, which begin with ``prefix``.

    Matrices are kept in single precision if ``single``; what is computed with them is double.
    """

    prefix: str
    single: bool = False
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    outputs: list[onnx.ValueInfoProto] = field(default_factory=list)

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """A node with one output, whose name is returned."""
        name = output or f"{self.prefix}{operator.lower()}_{len(self.nodes)}"
        domain = "ai.onnx.ml" if operator == "LabelEncoder" else None
        self.nodes.append(helper.make_node(operator, inputs, [name], domain=domain, **attributes))
        return name

    def constant(self, values: ArrayLike, kind: str = "number") -> str:
        dtype = {"number": np.float64, "integer": np.int64, "truth": np.bool_, "text": object}[kind]
        array: np.ndarray = np.ascontiguousarray(values, dtype=dtype).reshape(np.shape(values))
        name = f"{self.prefix}constant_{len(self.constants)}"
        narrow = self.single and kind == "number" and array.size > _SMALL
        if narrow:
            array = array.astype(np.float32)
        self.constants.append(numpy_helper.from_array(array, name))
        return self.add("Cast", name, to=TensorProto.DOUBLE) if narrow else name

    def input(self, name: str, kind: str, width: int) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], [None, width]))
        return name

    def output(self, name: str, kind: str, *shape: int) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, _TYPES[kind], [None, *shape]))

    def model(self, properties: dict[str, str]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes, "fisherkit", self.inputs, self.outputs, self.constants
        )
        opsets = [helper.make_opsetid(*item) for item in OPSETS.items()]
        model = helper.make_model(
            graph, opset_imports=opsets, producer_name="fisherkit", ir_version=9
        )
        helper.set_model_props(model, properties)
        onnx.checker.check_model(model, full_check=True)
        return model

    def matmul(self, X: str, matrix: np.ndarray) -> str:
        return self.add("MatMul", X, self.constant(matrix))

    def plus(self, X: str, values: ArrayLike) -> str:
        return self.add("Add", X, self.constant(values))

    def times(self, X: str, values: ArrayLike) -> str:
        return self.add("Mul", X, self.constant(values))

    def row_sums(self, X: str) -> str:
        return self.add("ReduceSum", X, self.axis(1), keepdims=1)

    def axis(self, number: int) -> str:
        return self.constant([number], "integer")


def squared_distances(graph: Graph, X: str, centres: np.ndarray, weight: ArrayLike = 1.0) -> str:
    """sum_k w_k (x_k - z_k)^2 for rows of X and centres (m, d), (n, m).

    About the mean of the centres, so that a large common offset costs no digits.
    """
    quantum = float(np.abs(centres).max(initial=0.0)) * _MOST_DIGITS
    shift = np.round(centres.mean(axis=0) / quantum) * quantum if quantum > 0 else 0.0
    root = np.sqrt(np.broadcast_to(weight, centres.shape[1]))
    A = graph.times(graph.plus(X, np.zeros(centres.shape[1]) - shift), root)
    B = (centres - shift) * root
    matrix = graph.constant(-2 * B.T)
    squares = graph.row_sums(graph.add("Mul", A, A))
    if graph.single:  # those of the numbers that the file holds, which need not be kept
        four = graph.add("ReduceSum", graph.add("Mul", matrix, matrix), graph.axis(0), keepdims=1)
        squares = graph.add("Add", squares, graph.times(four, 0.25))
    else:
        squares = graph.plus(squares, np.sum(B * B, axis=1))
    distances = graph.add("Add", squares, graph.add("MatMul", A, matrix))
    return graph.add("Max", distances, graph.constant(0.0))


Term = Callable[[Graph, str, str], str]  # of x (n, 1) and z (m,), in the body of a loop


def summed_over_features(graph: Graph, X: str, centres: np.ndarray, term: Term) -> str:
    """sum_k term(x_k, z_k), (n, m)."""
    m = len(centres)
    body = Graph(prefix=f"{graph.prefix}sum_{len(graph.nodes)}_")
    total_in, x_in, z, total_out = (f"{body.prefix}{name}" for name in ("sum", "x", "z", "out"))
    x = body.add("Unsqueeze", x_in, body.constant([1], "integer"))
    value = term(body, x, z)
    body.add("Add", total_in, value, output=total_out)
    double = TensorProto.DOUBLE
    step = helper.make_graph(
        body.nodes,
        body.prefix,
        [
            helper.make_tensor_value_info(total_in, double, [None, m]),
            helper.make_tensor_value_info(x_in, double, [None]),
            helper.make_tensor_value_info(z, double, [m]),
        ],
        [helper.make_tensor_value_info(total_out, double, [None, m])],
        body.constants,
    )
    rows = graph.add("Gather", graph.add("Shape", X), graph.constant([0], "integer"))
    shape = graph.add("Concat", rows, graph.constant([m], "integer"), axis=0)
    zero = numpy_helper.from_array(np.zeros(1))
    start = graph.add("ConstantOfShape", shape, value=zero)
    return graph.add(
        "Scan",
        start,
        X,
        graph.constant(centres.T),
        body=step,
        num_scan_inputs=2,
        scan_input_axes=[1, 0],
    )


Gammas = Sequence[Any]  # floats, or None where the kernel has none
Nodes = list[str]
Values = Callable[[Graph, str, np.ndarray, Kernel, Gammas], Nodes]


def _decay(distances: Callable[[Graph, str, np.ndarray], str]) -> Values:
    """exp(-gamma D)."""

    def values(
        graph: Graph, X: str, centres: np.ndarray, kernel: Kernel, gammas: Gammas
    ) -> list[str]:
        D = distances(graph, X, centres)
        return [graph.add("Exp", graph.times(D, -gamma)) for gamma in gammas]

    return values


def _fixed(value: Callable[[Graph, str, np.ndarray], str]) -> Values:
    """The values of a kernel without a width, once for every gamma."""
    return lambda graph, X, centres, kernel, gammas: [value(graph, X, centres)] * len(gammas)


def _linear(graph: Graph, X: str, centres: np.ndarray) -> str:
    return graph.matmul(X, centres.T)


def _cosine(graph: Graph, X: str, centres: np.ndarray) -> str:
    norms = np.linalg.norm(centres, axis=1, keepdims=True)
    length = graph.add("Sqrt", graph.row_sums(graph.add("Mul", X, X)))
    none = graph.add("Equal", length, graph.constant(0.0))
    X = graph.add("Div", X, graph.add("Where", none, graph.constant(1.0), length))
    return graph.matmul(X, (centres / np.where(norms > 0, norms, 1.0)).T)


def _inner(graph: Graph, X: str, centres: np.ndarray, kernel: Kernel, gammas: Gammas) -> Nodes:
    product = graph.matmul(X, centres.T)
    return [graph.plus(graph.times(product, gamma), kernel.coef0) for gamma in gammas]


def _sigmoid(
    graph: Graph, X: str, centres: np.ndarray, kernel: Kernel, gammas: Gammas
) -> list[str]:
    return [graph.add("Tanh", inner) for inner in _inner(graph, X, centres, kernel, gammas)]


def _polynomial(
    graph: Graph, X: str, centres: np.ndarray, kernel: Kernel, gammas: Gammas
) -> list[str]:
    degree = graph.constant(float(kernel.degree))
    return [graph.add("Pow", inner, degree) for inner in _inner(graph, X, centres, kernel, gammas)]


def _absolute(body: Graph, x: str, z: str) -> str:
    """|x - z|."""
    return body.add("Abs", body.add("Sub", x, z))


def _chi2_term(body: Graph, x: str, z: str) -> str:
    """(x - z)^2 / (x + z)."""
    gap, total, zero = body.add("Sub", x, z), body.add("Add", x, z), body.constant(0.0)
    empty = body.add("Equal", total, zero)
    safe = body.add("Where", empty, body.constant(1.0), total)
    return body.add("Where", empty, zero, body.add("Div", body.add("Mul", gap, gap), safe))


def _additive(
    graph: Graph, X: str, centres: np.ndarray, kernel: Kernel, gammas: Gammas
) -> list[str]:
    def term(body: Graph, x: str, z: str, gamma: float) -> str:
        """log((1 + coef0 exp(-gamma |x - z|)) / (1 + coef0))."""
        near = body.add("Exp", body.times(_absolute(body, x, z), -gamma))
        share = kernel.coef0 / (1 + kernel.coef0)
        return body.add("Log", body.plus(body.times(near, share), 1 - share))

    sums = (summed_over_features(graph, X, centres, partial(term, gamma=gamma)) for gamma in gammas)
    return [graph.add("Exp", total) for total in sums]


_chi2 = partial(summed_over_features, term=_chi2_term)
KERNELS: dict[str, Values] = {
    "rbf": _decay(squared_distances),
    "laplacian": _decay(partial(summed_over_features, term=_absolute)),
    "exponential": _decay(lambda *given: given[0].add("Sqrt", squared_distances(*given))),
    "additive": _additive,
    "chi2": _decay(_chi2),
    "additive_chi2": _fixed(lambda graph, *given: graph.add("Neg", _chi2(graph, *given))),
    "linear": _fixed(_linear),
    "cosine": _fixed(_cosine),
    "sigmoid": _sigmoid,
    "poly": _polynomial,
    "polynomial": _polynomial,
}


def kernel_blocks(
    graph: Graph, kernel: Kernel, X: str, centres: np.ndarray, gammas: Gammas
) -> list[str]:
    """Values of a `fisherkit.core.Kernel` in `KERNELS` with centres (m, d) for every gamma."""
    view = kernel.view
    if view is not None:
        X = graph.add("Gather", X, graph.constant(view.columns, "integer"), axis=1)
        X = X if view.scale is None else graph.times(X, view.scale)
        centres = view(centres)
    return KERNELS[str(kernel.name)](graph, X, centres, kernel, gammas)
