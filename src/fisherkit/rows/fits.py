"""What is asked of rows, wherever they are, and what they return: a fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from fisherkit.core import (
    UNLIMITED,
    Array,
    Bias,
    Decomposer,
    Fold,
    Gram,
    Kernel,
    Labels,
    Limits,
    Rule,
    arrays,
)
from fisherkit.rows.checks import centre_rows, component_count
from fisherkit.rows.expansion import Expansion
from fisherkit.rows.planning import Plan
from fisherkit.rows.routes import FitPlan
from fisherkit.rows.sources import Sample
from fisherkit.stored import stored
from fisherkit.tuning import (
    Criterion,
    HeldOut,
    Parts,
    Problem,
    Scouted,
    Selection,
    Tuned,
    has_levels,
    scout,
    tune,
)


@dataclass(frozen=True)
class Basis:
    """The centres asked for: how they are found, their number and, if named, their rows.

    ``kind`` is one of `fisherkit.core.BASES`, "greedy" or "given"; ``rows`` are places in the data.
    """

    kind: str
    n_components: int | None
    rows: np.ndarray | None = None

    @property
    def count(self) -> int | None:
        return self.n_components if self.rows is None else len(self.rows)

    def positions(self, kept: np.ndarray, n: int) -> np.ndarray | None:
        """The rows named, among the ``kept`` ones of n; refuses centres that cannot be had."""
        component_count(self.n_components, len(kept))
        if self.rows is None:
            return None
        positions = centre_rows(self.rows, kept, n)
        if self.n_components not in (None, len(positions)):
            raise ValueError(
                f"n_components={self.n_components} contradicts basis, which names {len(positions)} "
                "rows; leave it at None."
            )
        return positions


@dataclass(frozen=True)
class Spec:
    """A fit as the estimator asks for it: everything but the rows.

    ``gamma`` and ``mu`` are ``None`` where they are to be found, gamma by ``gamma_rule`` ("loo",
    "scale" or "median"); ``kernel`` has no width yet. ``rule`` makes decisions of the scores of a
    classifier. ``folds`` are those that choose mu and gamma, if not leave-one-out; ``limits`` those
    of a fit in memory.
    """

    kernel: Kernel
    gamma: float | None
    gamma_rule: Any
    mu: float | None
    penalty: str
    bias: Bias
    basis: Basis
    seed: int
    criterion: str | Callable[..., float] = "press"
    rule: Rule | None = None
    folds: list[Fold] | None = None
    limits: Limits = UNLIMITED

    @property
    def balanced(self) -> bool:
        return self.rule is not None and self.rule.balanced

    @property
    def search_gamma(self) -> bool:
        return self.kernel.has_gamma and self.gamma is None and self.gamma_rule == "loo"


@stored("task")
@dataclass(frozen=True)
class Task:
    """A fit to rows in memory: validated rows of positive weight, and how to tune on them.

    ``kept`` (n,) are their places in the data. ``labels`` and ``rule`` (a `Rule`) are ``None`` for
    a regression, and ``flat`` says that outputs have no second axis. ``features`` are what the
    fitted kernel compares new rows with, where that is not what the kernel matrix is made of.
    ``sampled`` are the rows that have been left out, where not all have.
    """

    problem: Problem
    mu: float | None
    gamma: float | None
    search_gamma: bool
    kept: np.ndarray
    flat: bool = True
    labels: Labels | None = None
    rule: Any = None
    features: Array | None = None
    sampled: np.ndarray | None = None

    @property
    def classes(self) -> Any:
        return None if self.labels is None else self.labels.classes

    @property
    def indicator(self) -> Any:
        """0/1 membership (n, c)."""
        return None if self.labels is None else self.labels.indicator

    def on(self, X: Array) -> Task:
        """The same task with the features replaced by X."""
        design = self.problem.design
        gram = Gram(X, design.gram.kernel, design.gram.rounding)
        return replace(self, problem=replace(self.problem, design=replace(design, gram=gram)))

    def fresh(self) -> Task:
        """A copy of the task: what its Gram matrix keeps must not stay with the estimator."""
        return self.on(self.problem.design.gram.X)

    def tune(self, decomposer: Decomposer | None = None) -> Tuned:
        return tune(
            self.problem,
            mu=self.mu,
            gamma=self.gamma,
            search_gamma=self.search_gamma,
            decomposer=decomposer,
        )

    @property
    def has_levels(self) -> bool:
        """Whether levels of more and more rows find the hyper-parameters."""
        return has_levels(self.problem, self.mu, self.search_gamma)

    def scout(self, most_rows: int, most_rank: int) -> Scouted | None:
        """`tune` on at most so many rows, before all are fitted; ``None`` where that is no use."""
        return scout(
            self.problem,
            mu=self.mu,
            gamma=self.gamma,
            search_gamma=self.search_gamma,
            most_rows=most_rows,
            most_rank=most_rank,
        )

    def settled(
        self, selection: Selection, centres: np.ndarray, sampled: np.ndarray | None = None
    ) -> Task:
        """The task with the hyper-parameters found, and without what only finding them needed."""
        problem = self.problem
        gram = problem.design.gram
        kernel = replace(gram.kernel, gamma=selection.gamma)
        design = replace(problem.design, gram=Gram(gram.X, kernel, gram.rounding))
        if design.basis == "greedy":
            design = replace(design, basis="given", rows=centres)
        held_out = HeldOut.leave_one_out(problem.Y, design.weights, balanced=False)
        return replace(
            self,
            problem=Problem(design, problem.Y, Criterion("press", held_out)),
            mu=selection.mu,
            gamma=selection.gamma,
            search_gamma=False,
            sampled=sampled,
        )

    def on_centres(self, centres: np.ndarray) -> Task:
        """The task with these of its rows as the centres."""
        design = replace(
            self.problem.design, basis="given", n_components=len(centres), rows=centres
        )
        return replace(self, problem=replace(self.problem, design=design))


@dataclass(frozen=True)
class Fit:
    """A fitted model, and what it says of its own rows.

    ``centres`` are the places of the centres in the data; the parts of ``left_out`` are the
    `Residuals` of the rows of positive weight, ``scatter`` (k, k) is E. ``training`` is there if
    memory holds the rows, for what is asked of the fit later. Where every row is a centre but some
    alone have been left out, the one part holds those, and ``sampled`` are their places.
    ``chosen`` says what was chosen by time and memory.
    """

    expansion: Expansion
    centres: np.ndarray
    selection: Selection
    left_out: Parts
    scatter: Array
    training: Task | None = None
    sampled: np.ndarray | None = None
    chosen: FitPlan | None = None

    def of_every_row(self, column: Sequence[Array]) -> Sequence[Array]:
        """A column with NaN for rows that have not been left out."""
        if self.sampled is None:
            return column
        (known,), centres = column, len(self.centres)
        host = np.full((centres, known.shape[1]), np.nan)
        host[self.sampled] = arrays.to_numpy(known)
        return [arrays.like(host, known)]


class RowSource(Protocol):
    """Rows with targets and weights, in memory, in blocks, or on Dask workers.

    ``labels`` is ``None`` for a regression, whose outputs have no second axis if they are ``flat``.
    """

    @property
    def labels(self) -> Labels | None: ...

    @property
    def flat(self) -> bool: ...

    @property
    def plan(self) -> Plan: ...

    def named(self, basis: Basis) -> Sample | None:
        """The centres that the user has named."""
        ...

    def fit(self, spec: Spec) -> Fit:
        """Choose the hyper-parameters and fit."""
        ...

    def in_order(self, column: Sequence[Any], plain: Callable[[Any], Array], width: int) -> Any:
        """A column of left-out values (b, width) as an array with a row for every row of the data.

        Rows of weight 0 are not part of the fit: their values are what ``plain`` makes of them.
        """
        ...
