"""Rows read in blocks: a fit by passes over them, on centres.

The choices that the passes of `fisherkit.rows.passes` need are made on a sample of rows: the width
by the exact core on at most `SUBSET` rows, the centres by pivoted Cholesky or greedily on some
more. mu is chosen on all rows.

Where nothing is said about centres, and a factor of the kernel matrix with no more columns than
there would be centres fits the budget, the passes are not needed: the low-rank path takes every row
as a centre. It is tried with that rank as its limit, once the width is known, and gives up early.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from fisherkit.core import (
    Array,
    Design,
    Gram,
    Kernel,
    Labels,
    Residuals,
    Ridge,
    Weights,
    arrays,
    basis,
    gamma_of_variance,
    median_gamma,
    race_seed,
)
from fisherkit.rows.checks import mention_spreads
from fisherkit.rows.expansion import Expansion
from fisherkit.rows.fits import Basis, Fit, Spec
from fisherkit.rows.moments import Centres
from fisherkit.rows.passes import Fitted, Kept, fit_rows, second_pass_numbers
from fisherkit.rows.planning import SAMPLE_SHARE, TALL, Plan
from fisherkit.rows.routes import Outlook
from fisherkit.rows.sources import LocalRows, Rows, Sample, Seen, Survey
from fisherkit.rows.sums import Block, moment_numbers
from fisherkit.tuning import (
    CRITERIA,
    Criterion,
    HeldOut,
    LocalParts,
    Problem,
    Scouted,
    Selection,
    greedy,
    greedy_centres,
    log,
    scout,
    tune,
    tune_low_rank,
)

SUBSET = 2048  # rows on which the width is tuned
_PILOT = 16384  # rows that tell where the best mu will be
_POOL = 20  # rows for each centre, of which pivots are chosen
_LEAST_POOL = 20_000


@dataclass(frozen=True)
class BlockRows:
    """Rows of weight zero among others, read in blocks; ``kept`` (n,) are those of positive weight.

    ``labels`` are of the latter. ``rows.Y`` and the weights have a row for every row of the data.
    """

    rows: LocalRows
    plan: Plan
    labels: Labels | None
    flat: bool
    kept: np.ndarray

    def fit(self, spec: Spec) -> Fit:
        if self.plan.outlook is not None:
            return self._chosen(spec, self.plan.outlook)
        return fit_blocks(spec, self.plan, self.rows, self.named(spec.basis))

    def _chosen(self, spec: Spec, outlook: Outlook) -> Fit:
        """The fit that the search on a sample of the rows, time and memory suggest."""
        start = perf_counter()
        outlook = outlook.of_targets(self.rows.k)
        found = self._scouted(spec, outlook)
        trend = None if found is None else found.trend
        route, chosen = outlook.choose(trend, perf_counter() - start)
        assert route.centres is not None
        log.info("%s", chosen.sentence)
        searched, spec = spec.search_gamma, replace(spec, basis=Basis("random", route.centres))
        if found is not None and searched:
            spec = replace(spec, gamma=found.gamma(route.centres))
        settled = replace(self, plan=self.plan.asked_for(route, chosen))
        fit = settled.fit(spec)
        return replace(fit, chosen=chosen.at(fit.selection.gamma) if searched else chosen)

    def _scouted(self, spec: Spec, outlook: Outlook) -> Scouted | None:
        """What levels of a sample of the rows say; ``None`` where they cannot."""
        rows, size = self.rows, outlook.sampled_rows()
        if not size:
            return None
        plan = replace(self.plan, n_components=size, held=False)
        drawn = draw(plan, spec.seed, rows)
        gamma = None if spec.search_gamma else _width(spec, plan, rows, drawn, None)
        problem = _problem(spec, rows, replace(spec.kernel, gamma=gamma), drawn.pool, drawn.seen)
        return scout(
            problem,
            mu=_mu_of_part(spec, problem, drawn.seen),
            gamma=gamma,
            search_gamma=spec.search_gamma,
            most_rows=outlook.most_rows,
            most_rank=0,
        )

    def named(self, basis: Basis) -> Sample | None:
        """The centres that the user has named."""
        return None if basis.rows is None else self.rows.sample_of(basis.rows)

    def in_order(
        self, column: Sequence[Array], plain: Callable[[Array], Array], width: int
    ) -> Array:
        inside = arrays.namespace(column[0]).concat(list(column), axis=0)
        X, n = self.rows.X, self.rows.n
        if len(self.kept) == n:
            return inside
        places = np.setdiff1d(np.arange(n), self.kept)
        dropped = arrays.read(X, places)
        finite = np.isfinite(np.asarray(arrays.to_numpy(dropped), dtype=np.float64)).all(axis=1)
        if not finite.all():
            raise ValueError(f"Input X contains NaN or infinity in row {places[~finite][0]}.")
        return interleave(inside, plain(dropped), self.kept)


def interleave(inside: Array, outside: Array, kept: np.ndarray) -> Array:
    """Values of kept and dropped rows back in the order of the data."""
    xp = arrays.namespace(inside)
    n = inside.shape[0] + outside.shape[0]
    order = np.concatenate([kept, np.setdiff1d(np.arange(n), kept)])
    joined = xp.concat([inside, outside], axis=0)
    return xp.take(joined, arrays.indices(np.argsort(order), joined), axis=0)


def fit_blocks(spec: Spec, plan: Plan, rows: LocalRows, named: Sample | None) -> Fit:
    """The fit by passes over rows on this machine; ``named`` are the centres if they are given."""
    shift: Array | float = 0.0
    if spec.rule is None:  # sums over targets far from zero would lose what these differ by
        shift = spec.bias.mean(rows.Y, Weights(rows.frequency, rows.cost))
        rows = replace(rows, Y=rows.Y - shift)
    large = fit_large(spec, plan, rows, named)
    residuals = all_residuals(large, rows)
    expansion = replace(large.expansion, intercept=large.expansion.intercept + shift)
    return Fit(
        expansion=expansion,
        centres=large.indices,
        selection=large.selection,
        left_out=LocalParts([replace(residuals, Y=residuals.Y + shift)]),
        scatter=residuals.scatter,
    )


@dataclass(frozen=True)
class LargeFit:
    """A model fitted by passes, the places of its centres in the data, and where residuals are.

    Residuals are known to ``passes``, or to the fit of the low-rank path, ``ridge``.
    """

    expansion: Expansion
    indices: np.ndarray
    selection: Selection
    passes: Fitted | None = None
    ridge: Ridge | None = None


def fit_large(spec: Spec, plan: Plan, rows: Rows, named: Sample | None) -> LargeFit:
    """Survey, width, centres, and the two passes; ``named`` are the centres if they are known."""
    m = plan.n_components
    assert m is not None
    refuse_absent(named)
    # Before any row is read; a penalized bias is one feature more.
    rows.budget.require(second_pass_numbers(m + 1, rows.d, rows.k))
    rows.budget.require(moment_numbers(m + 1, rows.d, rows.k))
    drawn = draw(plan, spec.seed, rows)
    kernel = replace(spec.kernel, gamma=_width(spec, plan, rows, drawn, named))
    reason = plan.reason
    if plan.max_rank is not None and isinstance(rows, LocalRows):
        exact = _exactly(spec, plan, rows, kernel, drawn)
        if exact is not None:
            return exact
        reason += f"; the kernel matrix has a rank above {plan.max_rank}"
    chosen = named or drawn.pool.take(_centres(spec, plan, rows, kernel, drawn))
    frequency = arrays.like(chosen.frequency, rows.reference)
    centres = Centres.of(kernel, arrays.like(chosen.X, rows.reference), frequency, spec.penalty)
    assert isinstance(spec.criterion, str)
    pilot, loss = drawn.sample, CRITERIA[spec.criterion].of_columns(rows.k)
    every = bool(np.isclose(pilot.frequency.sum(), drawn.seen.weight, rtol=1e-12, atol=0.0))
    if loss.by_row or not every:
        # The luckiest rows may be the centres, whose leverage is higher than usual.
        pilot = pilot.take(np.arange(min(m, pilot.size // 2), pilot.size))
    log.info("%s", reason)
    fitted = fit_rows(
        rows,
        centres,
        block_of(pilot, rows.reference),
        bias=spec.bias,
        rule=spec.criterion,
        balanced=spec.balanced,
        mu=spec.mu,
        keep=rows.keep_bytes,
        reason=reason,
        every=every,
    )
    return LargeFit(
        expansion=_expansion(kernel, centres.X, fitted.coef, fitted.intercept),
        indices=rows.locate(chosen.index[centres.kept]),
        selection=fitted.selection,
        passes=fitted,
    )


def _expansion(kernel: Kernel, centres: Array, coef: Array, intercept: Array) -> Expansion:
    flat = coef.shape[1] == 1
    return Expansion(kernel, centres, None, coef, intercept, flat)


def refuse_absent(named: Sample | None) -> None:
    """Refuse centres, named by the user, that are not part of the fit."""
    if named is not None and np.any(named.frequency == 0):
        row = named.index[named.frequency == 0][0]
        raise ValueError(f"basis names row {row}, whose sample_weight is 0.")


def _pool(basis: str, m: int) -> int:
    """Rows among which m centres are chosen."""
    if basis == "pivoted":
        return max(_POOL * m, _LEAST_POOL)
    return greedy.priced_rows(m) if basis == "greedy" else m


def _exactly(
    spec: Spec, plan: Plan, rows: LocalRows, kernel: Kernel, drawn: Drawn
) -> LargeFit | None:
    """Every row as a centre, by a factor of the rank planned; ``None`` where that does not do."""
    assert plan.max_rank is not None
    sample = drawn.sample.take(np.arange(min(SUBSET, drawn.sample.size)))
    part = _problem(spec, rows, kernel, sample, drawn.seen)
    limits = {"mu": spec.mu, "gamma": kernel.gamma, "max_rank": plan.max_rank}
    guess = tune_low_rank(part, likely_mu=None, **limits)
    if guess is None:  # the rank only grows with more rows
        return None
    block = rows.block(slice(0, rows.n))
    X = arrays.widen(block.X)
    design = replace(part.design, gram=Gram(X, kernel), weights=block.weights)
    held_out = HeldOut.leave_one_out(block.Y, block.weights, balanced=spec.balanced)
    tuned = tune_low_rank(
        Problem(design, block.Y, Criterion(spec.criterion, held_out)),
        likely_mu=guess.selection.mu,  # in units of K, it hardly depends on the number of rows
        **limits,
    )
    if tuned is None:
        return None
    rank = len(tuned.centres)
    reason = (
        f"{plan.why}, but a factor of rank {rank} of the kernel matrix fits: every row is a centre"
    )
    log.info("%s", reason)
    centres = arrays.namespace(X).take(X, arrays.indices(tuned.centres, X), axis=0)
    return LargeFit(
        expansion=_expansion(kernel, centres, tuned.ridge.coef, tuned.ridge.intercept),
        indices=rows.locate(block.index[tuned.centres]),
        selection=replace(tuned.selection, reason=reason),
        ridge=tuned.ridge,
    )


@dataclass(frozen=True)
class Drawn:
    """A sample of the rows, those of it that may be centres, and what was seen of all rows."""

    sample: Sample
    pool: Sample
    seen: Seen


def draw(plan: Plan, seed: int, rows: Rows) -> Drawn:
    """Survey the rows."""
    m = plan.n_components
    assert m is not None
    pool = _pool(plan.basis, m)
    survey = Survey(1, race_seed(seed), rows.d, rows.k, rows.describe)
    least, one = (replace(survey, size=size).numbers.state for size in (0, 1))
    affordable = int(SAMPLE_SHARE * rows.budget.bytes / 8 - least) // (one - least)
    survey = replace(survey, size=max(m, min(max(m + _PILOT, pool), affordable)))
    seen = rows.sweep(survey)
    mention_spreads(seen.highest - seen.lowest)
    if m > seen.rows:
        raise ValueError(f"n_components={m} is more than the {seen.rows} rows of positive weight.")
    sample = survey.drawn(seen)
    return Drawn(sample, sample.take(np.arange(min(pool, sample.size))), seen)


def block_of(sample: Sample, reference: Array) -> Block:
    """A sample as rows of the computation."""
    X, Y, frequency, cost = (
        arrays.like(part, reference) for part in (sample.X, sample.Y, sample.frequency, sample.cost)
    )
    return Block(X, Y, Weights(frequency, cost), sample.index)


def all_residuals(fit: LargeFit, rows: LocalRows) -> Residuals:
    """Residuals of the rows of positive weight at the chosen mu."""
    if fit.passes is None:
        assert fit.ridge is not None
        return fit.ridge
    kept = fit.passes.kept
    if kept is None:
        kept = Kept(rows.sweep(fit.passes.left_out_pass()).kept, np.ones(1))
    index, e, B = kept.residuals()
    place = arrays.indices(index, rows.Y)
    xp = arrays.namespace(rows.Y)
    Y, weights = rows.Y, Weights(rows.frequency, rows.cost)
    if len(index) < rows.n:
        Y, weights = xp.take(Y, place, axis=0), weights.take(place)
    scatter = (weights.v[:, None] * Y).T @ e
    return Residuals(Y, weights, B, weights.root[:, None] * e, 0.5 * (scatter + scatter.T))


def _width(spec: Spec, plan: Plan, rows: Rows, drawn: Drawn, named: Sample | None) -> float | None:
    """gamma as given, by a rule of thumb, or tuned by the exact core on some rows.

    Few centres call for a wider kernel than every row as a centre does: where memory holds the fit,
    so many rows are tuned on that they can have the centres asked for.
    """
    sample, seen = drawn.sample, drawn.seen
    if spec.gamma is not None or not spec.kernel.has_gamma:
        return spec.gamma
    if spec.gamma_rule == "scale":
        return gamma_of_variance(seen.variance, sample.X.shape[1])
    if plan.held and spec.gamma_rule == "loo":
        problem = _problem_on_centres(spec, plan, rows, drawn, named)
    else:
        part = sample.take(np.arange(min(SUBSET, sample.size)))
        problem = _problem(spec, rows, spec.kernel, part, seen)
    X, weights = problem.design.gram.X, problem.design.weights
    if spec.gamma_rule == "median":
        return median_gamma(X, weights.frequency, spec.kernel, spec.seed)
    mu = _mu_of_part(spec, problem, seen)
    gamma = tune(problem, mu=mu, gamma=None, search_gamma=True).selection.gamma
    log.info("gamma %.4g tuned on %d of %d rows", gamma, X.shape[0], seen.rows)
    return gamma


def _problem_on_centres(
    spec: Spec, plan: Plan, rows: Rows, drawn: Drawn, named: Sample | None
) -> Problem:
    """The fit on a sample with the centres asked for."""
    m = plan.n_components
    assert m is not None and isinstance(rows, LocalRows)
    sample = drawn.sample
    part = sample.take(np.arange(min(max(_PILOT, TALL * m), sample.size)))
    if named is not None:
        part = rows.sample_of(np.union1d(part.index, named.index))
    problem = _problem(spec, rows, spec.kernel, part, drawn.seen, plan.basis, m)
    if named is not None:
        places = np.searchsorted(part.index, named.index)
        problem = replace(problem, design=replace(problem.design, rows=places))
    return problem


def _problem(
    spec: Spec,
    rows: Rows,
    kernel: Kernel,
    sample: Sample,
    seen: Seen,
    basis: str = "auto",
    m: int | None = None,
) -> Problem:
    """The fit asked for on the rows of a sample, in memory."""
    block = block_of(sample, rows.reference)
    X, weights = arrays.widen(block.X), block.weights
    if X.shape[0] < seen.rows:  # drawn by weight: they count alike
        weights = Weights.unit(X)
    held_out = HeldOut.leave_one_out(block.Y, weights, balanced=spec.balanced)
    gram = Gram(X, kernel)
    design = Design(gram, weights, spec.penalty, spec.bias, basis, m, None, spec.seed)
    return Problem(design, block.Y, Criterion(spec.criterion, held_out))


def _mu_of_part(spec: Spec, problem: Problem, seen: Seen) -> float | None:
    """The mu asked for, if any, in proportion to the rows of a part."""
    if spec.mu is None:
        return None
    return spec.mu * problem.design.weights.total / seen.weight


def _centres(spec: Spec, plan: Plan, rows: Rows, kernel: Kernel, drawn: Drawn) -> np.ndarray:
    """Which rows of the pool are the centres, in the order of the data."""
    pool = drawn.pool
    if plan.basis != "greedy":
        return choose(plan, spec.seed, kernel, pool, rows.reference)
    problem = _problem(spec, rows, kernel, pool, drawn.seen, "greedy", plan.n_components)
    mu = _mu_of_part(spec, problem, drawn.seen)
    chosen, _ = greedy_centres(problem, mu=mu, gamma=kernel.gamma, search_gamma=False)
    return chosen[np.argsort(pool.index[chosen])]


def choose(plan: Plan, seed: int, kernel: Kernel, pool: Sample, reference: Array) -> np.ndarray:
    """`_centres` where the labels have no part in it."""
    m = plan.n_components
    assert m is not None
    if plan.basis == "random":
        chosen = np.arange(min(m, pool.size))
    else:
        block = block_of(pool, reference)
        gram = Gram(arrays.widen(block.X), kernel)
        if not kernel.known_positive:
            basis.require_positive_diagonal(gram)
        rng = np.random.RandomState(seed)
        chosen = basis.choose_rows(plan.basis, m, gram, block.weights.v, rng)
    return chosen[np.argsort(pool.index[chosen])]
