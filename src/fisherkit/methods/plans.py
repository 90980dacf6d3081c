"""With which parameters a method is fitted to a table of a given size.

Methods whose estimators plan by time and memory choose their centres themselves (`fisherkit.rows`).
Of the others every row is in the kernel up to a number of rows that the method names; beyond, the
model has some hundred centres. Where centres are asked for, the kernel width of more than 3,000
rows is chosen on a part of them first, and the rest on all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.model_selection import GroupKFold, StratifiedShuffleSplit

from fisherkit.core import KERNELS, Array, Kernel, View, read
from fisherkit.interfaces import ClassWeight, MemoryLimit, TimeLimit
from fisherkit.methods.registry import (
    Method,
    Parameters,
    RecipeError,
    names_where,
)
from fisherkit.rows import memory_budget, time_budget

WIDTH_ROWS = 3000  # rows on which the width is chosen, where there are more
_LEARN_ROWS = 3000  # up to which the relevance of columns is learned by default
_FOLDS = 5

Kernels = str | Sequence[str | tuple[str, str]] | None
Centres = int | str | None


@dataclass(frozen=True)
class Asked:
    """What a user says of a fit; ``None`` leaves a choice to the plan."""

    method: Method
    kernel: Kernels = None
    learn: bool | str = "auto"
    class_weight: ClassWeight = None
    centres: Centres = None
    max_memory: MemoryLimit = None
    max_time: TimeLimit = "auto"
    parameters: Mapping[str, object] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.parameters, Mapping):
            raise RecipeError(
                f"parameters={self.parameters!r} is not valid; use None, or a dict from names of "
                f"parameters of {self.method.estimator.__name__} to their values."
            )


@dataclass(frozen=True)
class Plan:
    """An estimator that is yet to be built: its method and the parameters that are not defaults.

    ``centres`` is their number, ``None`` for all rows. With ``width_rows`` the width is first
    chosen on that many rows; then ``gamma`` is what was found.
    """

    method: Method
    parameters: Parameters
    seed: int
    centres: int | None = None
    width_rows: int | None = None
    gamma: float | None = None

    @classmethod
    def of(
        cls, asked: Asked, n_rows: int, views: Mapping[str, View], *, by_time: bool = True
    ) -> Plan:
        """The plan for so many rows, of which kernels may have these views.

        Not ``by_time``, centres follow from the number of rows alone.
        """
        method = asked.method
        kernels = _kernels(method, asked.kernel, views)
        by_time = by_time and method.planned
        centres = _centres(method, asked.centres, n_rows, by_time=by_time)
        parameters = kernels | _weights(method, asked.class_weight)
        if centres is not None:
            parameters[method.centres_parameter] = centres
            if method.basis is not None:
                parameters["basis"] = method.basis
        if by_time and asked.centres is None:
            _time(asked.max_time)
            parameters["max_time"] = asked.max_time
        elif asked.max_time not in ("auto", None) and not method.planned:
            able = ", ".join(names_where(lambda other: other.planned))
            raise RecipeError(
                f"method {method.name} has no plan by time; max_time and --time are for {able}."
            )
        if method.learns:
            parameters |= _learning(asked.learn, parameters, n_rows, centres)
        if asked.max_memory is not None:
            parameters["max_memory"] = _memory(method, asked.max_memory)
        known = signature(method.estimator).parameters
        if "random_state" in known:
            parameters["random_state"] = asked.seed
        for name in asked.parameters:
            if name == "penalty" and not method.penalties:
                raise RecipeError(f"method {method.name} has no penalty to choose.")
            if name not in known:
                raise RecipeError(
                    f"method {method.name} has no parameter {name!r}; it has {', '.join(known)}."
                )
        parameters |= asked.parameters
        named = asked.kernel if isinstance(asked.kernel, str) else "rbf"
        widths = Kernel(named).has_gamma and "gamma" not in asked.parameters
        search = method.one_width and widths and n_rows > WIDTH_ROWS and centres is not None
        return cls(
            method=method,
            parameters=parameters,
            seed=asked.seed,
            centres=centres,
            width_rows=WIDTH_ROWS if search else None,
        )

    def build(self) -> BaseEstimator:
        """The estimator, not fitted."""
        found = {} if self.gamma is None else {"gamma": self.gamma}
        return self.method.estimator(**self.parameters, **found)

    def settled(self, X: Array, y: np.ndarray, weights: np.ndarray | None = None) -> Plan:
        """The plan with the width found on a part of the rows, where that is called for."""
        if self.width_rows is None or len(y) <= self.width_rows:
            return replace(self, width_rows=None)
        rows = part_of(y, self.width_rows, self.seed)
        given = {} if weights is None else {"sample_weight": weights[rows]}
        gamma = self.build().fit(read(X, rows), y[rows], **given).gamma_
        return replace(self, gamma=float(gamma), width_rows=None)

    def with_groups(self, groups: np.ndarray) -> Plan:
        """The plan where rows of a group are left out together."""
        method = self.method
        if method.groups == "folds":
            folds = GroupKFold(min(_FOLDS, len(np.unique(groups))))
            return replace(self, parameters=self.parameters | {"cv": folds}, width_rows=None)
        if method.groups is None:
            able = ", ".join(names_where(lambda other: other.groups is not None))
            raise RecipeError(f"method {method.name} has no folds for groups; {able} have.")
        return self


def _kernels(method: Method, kernel: Kernels, views: Mapping[str, View]) -> Parameters:
    """The parameters that ask for kernels."""
    if method.of_views is not None:
        return method.of_views(None if kernel is None else view_pairs(kernel, views), views)
    if kernel is None:
        return {}
    if not isinstance(kernel, str):
        raise RecipeError(
            f"method {method.name} has one kernel, given by its name; got {kernel!r}."
        )
    valid = [name for name in method.kernels or KERNELS if name != "precomputed"]
    if kernel not in valid:
        kernels = f"{', '.join(valid[:-1])} and {valid[-1]}"
        raise RecipeError(f"method {method.name} has the kernels {kernels}; got {kernel}.")
    return method.kernel(kernel)


def view_pairs(kernel: str | Sequence[str | tuple[str, str]], views: Mapping[str, View]) -> list:
    """Kernels with the view of each; a name alone has all views."""
    if not isinstance(kernel, Sequence):
        raise RecipeError(
            f"kernel={kernel!r} is not valid; use None, a name, or a list of names and of pairs "
            "such as ('rbf', 'rank')."
        )
    pairs, wanted = [], [kernel] if isinstance(kernel, str) else list(kernel)
    if not wanted or any(not isinstance(one, str) and len(one) != 2 for one in wanted):
        raise RecipeError(
            f"kernel={kernel!r} is not valid; each kernel is a name or a pair of a name and a "
            "view, and there is at least one."
        )
    for given in wanted:
        name, seen = (given, list(views)) if isinstance(given, str) else (given[0], [given[1]])
        if name not in KERNELS or name == "precomputed":
            raise RecipeError(f"there is no kernel {name!r}; there are {', '.join(KERNELS)}.")
        for view in seen:
            if view not in ("standard", "rank"):
                raise RecipeError(f"there is no view {view!r}; there are standard and rank.")
            if view in views:  # without numbers to rank, both are one
                pairs.append((name, view))
    return pairs or [(name, "standard")]


def _centres(method: Method, asked: Centres, n_rows: int, *, by_time: bool) -> int | None:
    if asked == "all":
        return None
    if asked is not None and not _is_count(asked):
        raise RecipeError(
            f"centres={asked!r} is not valid; use 'all', a positive whole number, or None."
        )
    many = not by_time and n_rows > method.exact_rows
    m = method.centres if asked is None and many else asked
    return int(m) if m is not None and int(m) < n_rows else None


def _is_count(value: object) -> bool:
    """Whether it is a positive whole number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return bool(0 < value < np.inf) and value == int(value)


def _learning(
    asked: bool | str, parameters: Parameters, n_rows: int, centres: int | None
) -> Parameters:
    """Which of the kernels learn what matters: none, if the parameters say so."""
    if asked not in (True, False, "auto"):
        raise RecipeError(f"learn={asked!r} is not valid; use True, False or 'auto'.")
    able = n_rows <= _LEARN_ROWS and centres is None
    return parameters if asked is True or (asked == "auto" and able) else {"learn": False}


def _weights(method: Method, class_weight: ClassWeight) -> Parameters:
    if class_weight is None:
        return {}
    if isinstance(class_weight, str) and class_weight == "balanced":
        if method.balanced is None:
            raise RecipeError(f"method {method.name} cannot be balanced; use another method.")
        return method.balanced
    if "class_weight" not in signature(method.estimator).parameters:
        raise RecipeError(f"method {method.name} has no class weights; use another method.")
    return {"class_weight": class_weight}


def _memory(method: Method, asked: MemoryLimit) -> MemoryLimit:
    if not method.in_blocks:
        able = ", ".join(names_where(lambda other: other.in_blocks))
        raise RecipeError(
            f"method {method.name} needs all rows at once; --out-of-core and --max-memory are "
            f"for {able}."
        )
    try:
        memory_budget(asked, np.empty(0))
    except ValueError as error:
        raise RecipeError(f"--max-memory: {error}") from error
    return asked


def _time(asked: TimeLimit) -> None:
    try:
        time_budget(asked)
    except ValueError as error:
        raise RecipeError(str(error)) from error


def part_of(y: ArrayLike, size: int, seed: int) -> np.ndarray:
    """``size`` rows with every class in proportion, in order; (size,)."""
    y = np.asarray(y)
    _, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:  # too rare for proportions
        return np.sort(np.random.RandomState(seed).choice(len(y), size, replace=False))
    split = StratifiedShuffleSplit(1, train_size=size, random_state=seed)
    return np.sort(next(split.split(np.zeros(len(y)), y))[0])
