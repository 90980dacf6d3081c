"""Which parameters ``fisherkit fit`` gives a classifier, for a table of a given size.

Up to 1,000 rows every row is in the kernel. Beyond, the model has some hundred centres; beyond
3,000 rows the kernel width is chosen on a part of the rows first, and the rest on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import signature
from typing import TypedDict

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.model_selection import StratifiedShuffleSplit

from fisherkit.core import KERNELS, Array, Kernel
from fisherkit.rows import memory_budget, read
from fisherkit.training.methods import Method, Parameters, RecipeError, method_named, names_where

_EXACT_ROWS = 1000
WIDTH_ROWS = 3000  # rows on which the width is chosen, where there are more


class Options(TypedDict, total=False):
    """What may be asked of a method; see `Recipe.of`."""

    kernel: str | None
    penalty: str | None
    balanced: bool
    centres: int | None
    max_memory: str | None


@dataclass(frozen=True)
class Recipe:
    """A classifier that is yet to be built: its method and the parameters that are not defaults.

    With ``width_rows`` the width is first chosen on that many rows.
    """

    method: Method
    parameters: Parameters
    seed: int
    width_rows: int | None = None

    @classmethod
    def of(
        cls,
        name: str,
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
        method = method_named(name)
        parameters: Parameters = {}
        if kernel is not None:
            if method.kernels is not None and kernel not in method.kernels:
                kernels = " and ".join(method.kernels)
                raise RecipeError(f"method {name} has the kernels {kernels}; got {kernel}.")
            parameters |= method.kernel(kernel)
        if penalty is not None:
            if not method.penalties:
                raise RecipeError(f"method {name} has no penalty to choose.")
            parameters["penalty"] = penalty
        if balanced:
            if method.balanced is None:
                raise RecipeError(f"method {name} cannot be balanced; use another method.")
            parameters |= method.balanced
        m = centres
        if m is None and n_rows > _EXACT_ROWS:
            m = method.centres
        if m is not None and m < n_rows:
            parameters[method.centres_parameter] = m
            if method.basis is not None:
                parameters["basis"] = method.basis
        if max_memory is not None:
            if not method.in_blocks:
                able = ", ".join(names_where(lambda other: other.in_blocks))
                raise RecipeError(
                    f"method {name} needs all rows at once; --out-of-core and --max-memory are "
                    f"for {able}."
                )
            try:
                memory_budget(max_memory, np.empty(0))
            except ValueError as error:
                raise RecipeError(f"--max-memory: {error}") from error
            parameters["max_memory"] = max_memory
        if "random_state" in signature(method.estimator).parameters:
            parameters["random_state"] = seed
        widths = kernel not in KERNELS or Kernel(kernel).has_gamma
        search = method.one_width and widths and n_rows > WIDTH_ROWS
        return cls(
            method=method,
            parameters=parameters,
            seed=seed,
            width_rows=WIDTH_ROWS if search else None,
        )

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.method.estimator.__name__

    @property
    def home(self) -> str:
        """Where programs import the class from."""
        module = self.method.estimator.__module__
        return "fisherkit" if module.partition(".")[0] == "fisherkit" else module

    @property
    def code(self) -> str:
        """Python that builds the classifier."""
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.parameters.items())
        return f"{self.name}({arguments})"

    def build(self) -> ClassifierMixin:
        return self.method.estimator(**self.parameters)

    def settled(self, X: Array, y: np.ndarray) -> Recipe:
        """The recipe with the width found on a part of the rows, where that is called for."""
        if self.width_rows is None or len(y) <= self.width_rows:
            return replace(self, width_rows=None)
        rows = part_of(y, self.width_rows, self.seed)
        gamma = self.build().fit(read(X, rows), y[rows]).gamma_
        parameters = {"gamma": float(gamma), **self.parameters}
        return replace(self, parameters=parameters, width_rows=None)


def part_of(y: np.ndarray, size: int, seed: int) -> np.ndarray:
    """``size`` rows with every class in proportion, in order; (size,)."""
    _, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:  # too rare for proportions
        return np.sort(np.random.RandomState(seed).choice(len(y), size, replace=False))
    split = StratifiedShuffleSplit(1, train_size=size, random_state=seed)
    return np.sort(next(split.split(np.zeros(len(y)), y))[0])
