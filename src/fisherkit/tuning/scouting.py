"""The search on some of the rows, before anything is fitted to all of them.

Levels find width and regularisation on nested samples of the rows. What they have seen, and how
losses fall with the number of rows, is enough to decide whether every row is worth a centre.
"""

from __future__ import annotations

from dataclasses import dataclass

from fisherkit.core import Decomposer
from fisherkit.tuning.copies import Copies
from fisherkit.tuning.criteria import Problem
from fisherkit.tuning.levels import Levels, NotServed, Valley
from fisherkit.tuning.search import (
    DECOMPOSING,
    Tuned,
    Tuner,
    expanded,
    fit_all,
    has_levels,
    low_rank_or_none,
    near,
)
from fisherkit.tuning.select import log
from fisherkit.tuning.trends import Trend


@dataclass(frozen=True)
class Scouted:
    """What some of the rows say before all of them are fitted.

    ``exact`` is the fit of all rows where a kernel matrix of low rank has made it cheap. Otherwise
    there are the ``trend`` of the losses and the width by the number of rows, and `fit` fits all.
    """

    problem: Problem
    exact: Tuned | None = None
    tuner: Tuner | None = None
    levels: Levels | None = None
    end: Valley | None = None
    copies: Copies | None = None

    @property
    def trend(self) -> Trend | None:
        return None if self.levels is None else self.levels.trend

    def gamma(self, rows: int) -> float | None:
        """The width that about so many rows have preferred."""
        assert self.levels is not None
        return self.levels.width_of(rows)

    def fit(self) -> Tuned:
        """The fit of all rows."""
        tuned = self.exact
        if tuned is None:
            assert self.tuner is not None and self.levels is not None and self.end is not None
            try:
                tuned = fit_all(self.tuner, self.levels, self.end)
            except NotServed:
                log.info(DECOMPOSING)
                gamma = self.levels.gamma(self.end)
                tuned = near(self.tuner, self.levels, self.end) if gamma else self.tuner.tune(gamma)
        return tuned if self.copies is None else expanded(self.problem, self.copies, tuned)


def scout(
    problem: Problem,
    *,
    mu: float | None,
    gamma: float | None,
    search_gamma: bool,
    most_rows: int,
    most_rank: int,
) -> Scouted | None:
    """The search of `tune` on some rows, of at most so many; ``None`` where levels do not serve.

    A kernel matrix of a rank up to ``most_rank`` has its fit of all rows at once.
    """
    copies = Copies.of(problem)
    whole, problem = problem, problem if copies is None else copies.merged(problem)
    if not has_levels(problem, mu, search_gamma):
        return None
    tuner = Tuner(problem, mu, Decomposer(problem.design))
    levels = Levels.of(problem, mu=mu, gamma=gamma, search_gamma=search_gamma)
    try:
        exact = low_rank_or_none(tuner, levels, most_rank)
        if exact is not None:
            return Scouted(whole, exact=exact, copies=copies)
        end = levels.refine(levels.coarse(), most_rows)
    except NotServed:
        return None
    return Scouted(whole, None, tuner, levels, end, copies)
