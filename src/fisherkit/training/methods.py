"""Which classifier, with which parameters, ``fisherkit fit`` uses for a table of a given size.

Up to 1,000 rows every row is in the kernel. Beyond, the model has some hundred centres; beyond
3,000 rows the kernel width is chosen on a part of the rows first, and the rest on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from fisherkit.core import KERNELS, Kernel
from fisherkit.estimators import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    SparseFisherClassifier,
)
from fisherkit.rows import memory_budget, read_rows

CLASSIFIERS = {
    "fisher": KernelFisherClassifier,
    "committee": FisherCommitteeClassifier,
    "sparse": SparseFisherClassifier,
    "forward": ForwardFisherClassifier,
    "bayes": BayesianFisherClassifier,
}
METHODS = tuple(CLASSIFIERS)

IN_BLOCKS = ("fisher", "committee")  # methods that can read their rows in blocks

_EXACT_ROWS = 1000
WIDTH_ROWS = 3000  # rows on which the width is chosen, where there are more
_CENTRES = {"fisher": 500, "committee": 300, "sparse": 300, "forward": 300, "bayes": 300}
_CENTRES_PARAMETER = {"sparse": "n_candidates", "forward": "n_candidates", "bayes": "n_inducing"}
_SEARCHED = ("fisher", "sparse", "forward")  # methods that search for one width


class RecipeError(ValueError):
    """Options that do not go together."""


@dataclass(frozen=True)
class Recipe:
    """A classifier that is yet to be built: its method and the parameters that are not defaults.

    With ``width_rows`` the width is first chosen on that many rows.
    """

    method: str
    parameters: dict[str, Any]
    width_rows: int | None = None

    @classmethod
    def of(
        cls,
        method: str,
        n_rows: int,
        *,
        kernel: str | None = None,
        penalty: str | None = None,
        balanced: bool = False,
        centres: int | None = None,
        max_memory: str | None = None,
        seed: int = 0,
    ) -> Recipe:
        """The recipe for so many training rows; ``None`` leaves a choice to the recipe."""
        parameters: dict[str, Any] = {}
        if kernel is not None:
            parameters.update(_kernel(method, kernel))
        if penalty is not None:
            if method not in ("fisher", "committee"):
                raise RecipeError(f"method {method} has no penalty to choose.")
            parameters["penalty"] = penalty
        if balanced:
            parameters.update(_balance(method))
        m = centres
        if m is None and n_rows > _EXACT_ROWS:
            m = _CENTRES[method]
        if m is not None and m < n_rows:
            name = _CENTRES_PARAMETER.get(method, "n_components")
            parameters[name] = m
            if method != "bayes":
                parameters["basis"] = "random"
        if max_memory is not None:
            if method not in IN_BLOCKS:
                raise RecipeError(
                    f"method {method} needs all rows at once; --out-of-core and --max-memory are "
                    f"for {', '.join(IN_BLOCKS)}."
                )
            try:
                memory_budget(max_memory, np.empty(0))
            except ValueError as error:
                raise RecipeError(f"--max-memory: {error}") from error
            parameters["max_memory"] = max_memory
        parameters["random_state"] = seed
        no_width = kernel in KERNELS and not Kernel(kernel).has_gamma
        search = method in _SEARCHED and not no_width
        return cls(method, parameters, WIDTH_ROWS if search and n_rows > WIDTH_ROWS else None)

    @property
    def name(self) -> str:
        """Name of the class."""
        return CLASSIFIERS[self.method].__name__

    @property
    def code(self) -> str:
        """Python that builds the classifier."""
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.parameters.items())
        return f"{self.name}({arguments})"

    def build(self) -> Any:
        return CLASSIFIERS[self.method](**self.parameters)

    def settled(self, X: Any, y: np.ndarray) -> Recipe:
        """The recipe with the width found on a part of the rows, where that is called for."""
        if self.width_rows is None or len(X) <= self.width_rows:
            return replace(self, width_rows=None)
        rows = part_of(y, self.width_rows, self.parameters["random_state"])
        gamma = self.build().fit(read_rows(X, rows), y[rows]).gamma_
        return Recipe(self.method, {"gamma": float(gamma), **self.parameters})


def part_of(y: np.ndarray, size: int, seed: int) -> np.ndarray:
    """``size`` rows with every class in proportion, in order; (size,)."""
    _, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:  # too rare for proportions
        return np.sort(np.random.RandomState(seed).choice(len(y), size, replace=False))
    split = StratifiedShuffleSplit(1, train_size=size, random_state=seed)
    return np.sort(next(split.split(np.zeros(len(y)), y))[0])


def _kernel(method: str, kernel: str) -> dict[str, Any]:
    if method == "committee":
        return {"kernels": (kernel,)}
    if method == "bayes" and kernel not in ("rbf", "linear"):
        raise RecipeError(f"method bayes has the kernels rbf and linear; got {kernel}.")
    return {"kernel": kernel}


def _balance(method: str) -> dict[str, Any]:
    if method == "bayes":
        raise RecipeError("method bayes cannot be balanced; use another method.")
    if method == "committee":
        return {"class_weight": "balanced"}
    return {"threshold": "balanced"}
