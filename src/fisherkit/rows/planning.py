"""Fits that read their rows in blocks: when, on which centres, and how wide the kernel.

The choices that the passes of `fisherkit.rows.passes` need are made on a sample of rows: the width
by the exact core on at most `SUBSET` rows, the centres by pivoted Cholesky or greedily on some
more. mu is chosen on all rows.

Where nothing is said about centres, and a factor of the kernel matrix with no more columns than
there would be centres fits the budget, the passes are not needed: the low-rank path takes every row
as a centre. It is tried with that rank as its limit, once the width is known, and gives up early.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fisherkit.core import (
    Array,
    Bias,
    Design,
    Gram,
    Kernel,
    Residuals,
    Ridge,
    Weights,
    arrays,
    basis,
    gamma_of_variance,
    median_gamma,
    race_seed,
)
from fisherkit.rows.moments import Centres
from fisherkit.rows.passes import Fitted, Kept, fit_rows, second_pass_numbers
from fisherkit.rows.sources import LocalRows, Rows, Sample, Seen, Survey
from fisherkit.rows.sums import Block, moment_numbers
from fisherkit.tuning import (
    Criterion,
    HeldOut,
    Problem,
    Selection,
    greedy,
    greedy_centres,
    log,
    tune,
    tune_low_rank,
)

SUBSET = 2048  # rows on which the width is tuned
_PILOT = 16384  # rows that tell where the best mu will be
_POOL = 20  # rows for each centre, of which pivots are chosen
_LEAST_POOL = 20_000
_SAMPLE_SHARE = 0.25  # of the budget, for the sample
_DEFAULT_SHARE = 0.5  # of the free memory
_FULL_COPIES = 3  # of K that the exact path holds at a time
_THIN_COPIES = 5  # of the features that a path on centres, or on a low-rank factor, holds at a time
_AUTO_CENTRES = (1000, 4000)
_TALL = 8  # rows for each centre from which sums over blocks take a fraction of the time
_LEAST_SUMS = 1 << 22  # numbers of the features from which that matters
_LEAST_RANK = 50  # below which trying the low-rank path is not worth it
_UNITS = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4}


def memory_budget(value: Any, reference: Array) -> int:
    """``max_memory`` in bytes: a number, a text like "2GB", or half of what is free."""
    if value is None:
        return int(_DEFAULT_SHARE * arrays.free_memory(reference))
    if isinstance(value, str):
        number = value.strip().upper().rstrip("KMGTB")
        unit = value.strip().upper()[len(number) :].strip()
        try:
            if unit in _UNITS and 0 < float(number) < math.inf:
                return int(float(number) * 1024 ** _UNITS[unit])
        except ValueError:
            pass
    elif isinstance(value, (int, float, np.number)) and value is not True and 0 < value < math.inf:
        return int(value)
    raise ValueError(
        f"max_memory={value!r} is not valid; use None, a positive number of bytes, or a text such "
        "as '2GB'."
    )


@dataclass(frozen=True)
class Plan:
    """Whether rows are read in blocks; with how many centres, found how, and why.

    With ``max_rank``, only if the kernel matrix has no factor of that rank. With ``held``, memory
    holds the fit, and sums over blocks merely take less of it, and less time.
    """

    streamed: bool
    basis: str
    n_components: int | None
    reason: str
    max_rank: int | None = None
    why: str = ""
    held: bool = False


def plan(
    n: int, d: int, itemsize: int, basis: str, m: int | None, memory: int, beside: int = 0
) -> Plan:
    """In memory where it fits, otherwise in blocks; centres are chosen if none are asked for.

    ``itemsize`` is that of a copy of X that the path in memory would make, 0 if it makes none;
    ``beside`` counts the numbers for each row that it holds beside features and decomposition.
    """
    copy, max_rank = n * (d * itemsize + 8 * beside), None
    if basis in ("auto", "full"):
        need = copy + 8 * _FULL_COPIES * n * n
        if need <= memory or basis == "full":
            return Plan(False, basis, m, "")
        m = automatic_centres(n, memory)
        rank = int(((1 - _SAMPLE_SHARE) * memory - copy) / (8 * _THIN_COPIES * n))
        max_rank = min(rank, m) if rank >= _LEAST_RANK else None
        why = f"the exact path on {n} rows takes about {_size(need)} of memory"
        basis = "pivoted"
    else:
        assert m is not None
        need = copy + 8 * _THIN_COPIES * n * m
        need += 8 * greedy.numbers(m, n) if basis == "greedy" else 0
        if need <= memory:
            if basis == "greedy" or n < _TALL * m or n * m < _LEAST_SUMS:
                return Plan(False, basis, m, "")
            reason = (
                f"{n} rows with {m} centres: sums over blocks of rows take a fraction of the time "
                "and memory of a decomposition of all rows"
            )
            return Plan(True, basis, m, reason, held=True)
        require_greedy(basis, n, m, memory)
        why = f"{n} rows with {m} centres take about {_size(need)} of memory"
    why += f", max_memory is {_size(memory)}"
    return Plan(True, basis, m, f"{why}: row blocks with {m} centres ({basis})", max_rank, why)


def require_greedy(basis: str, n: int, m: int, memory: int) -> None:
    """Refuse a budget that does not hold the candidates of a greedy choice."""
    need = 8 * greedy.numbers(m, n)
    if basis == "greedy" and need > memory:
        raise ValueError(
            f"max_memory={memory} bytes does not hold what choosing {m} centres by basis='greedy' "
            f"takes, {need} bytes. Raise max_memory, lower n_components, or use basis='pivoted'."
        )


def automatic_centres(n: int, memory: int) -> int:
    """2 sqrt(n) centres, at least 1000 and at most 4000, and no more than memory holds."""
    wanted = min(max(int(2 * math.sqrt(n)), _AUTO_CENTRES[0]), _AUTO_CENTRES[1], n)
    return max(1, min(wanted, int(math.sqrt(memory / (8 * 6)))))


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1024 or unit == "GB":
            break
        count /= 1024
    return f"{count:.3g} {unit}"


@dataclass(frozen=True)
class Request:
    """A fit on row blocks as the estimators ask for it."""

    kernel: Kernel
    gamma: float | None
    gamma_rule: Any
    penalty: str
    bias: Bias
    criterion: str
    balanced: bool
    mu: float | None
    plan: Plan
    seed: int


@dataclass(frozen=True)
class LargeFit:
    """A fitted model: centres (m, d) and their rows, coefficients, and where residuals are.

    Residuals are known to ``passes``, or to the fit of the low-rank path, ``ridge``.
    """

    kernel: Kernel
    centres: Array
    indices: np.ndarray
    selection: Selection
    coef: Array
    intercept: Array
    spread: np.ndarray
    passes: Fitted | None = None
    ridge: Ridge | None = None


def fit_large(request: Request, rows: Rows, d: int, given: Sample | None = None) -> LargeFit:
    """Survey, width, centres, and the two passes; ``given`` are the centres if they are known."""
    m = request.plan.n_components
    assert m is not None
    # Before any row is read; a penalized bias is one feature more.
    rows.budget.require(second_pass_numbers(m + 1, d, rows.k))
    rows.budget.require(moment_numbers(m + 1, d, rows.k))
    sample, pool, seen = draw(request.plan, request.seed, rows, d)
    if request.plan.held and request.kernel.has_gamma and request.gamma_rule == "loo":
        assert isinstance(rows, LocalRows)
        width: float | None = _width_on_centres(request, rows, sample, seen, given)
    else:
        width = _width(request, rows, sample, seen)
    kernel = replace(request.kernel, gamma=width)
    reason = request.plan.reason
    if request.plan.max_rank is not None and isinstance(rows, LocalRows):
        exact = _exactly(request, rows, kernel, sample, seen)
        if exact is not None:
            return exact
        reason += f"; the kernel matrix has a rank above {request.plan.max_rank}"
    chosen = given or pool.take(_centres(request, rows, kernel, pool, seen))
    frequency = arrays.like(chosen.frequency, rows.reference)
    centres = Centres.of(kernel, arrays.like(chosen.X, rows.reference), frequency, request.penalty)
    # The luckiest rows may be the centres, whose leverage is higher than usual.
    pilot = sample.take(np.arange(min(m, sample.size // 2), sample.size))
    log.info("%s", reason)
    fitted = fit_rows(
        rows,
        centres,
        block_of(pilot, rows.reference),
        bias=request.bias,
        rule=request.criterion,
        balanced=request.balanced,
        mu=request.mu,
        keep=rows.keep_bytes,
        reason=reason,
    )
    return LargeFit(
        kernel,
        centres.X,
        rows.locate(chosen.index[centres.kept]),
        *(fitted.selection, fitted.coef, fitted.intercept),
        seen.highest - seen.lowest,
        passes=fitted,
    )


def _pool(basis: str, m: int) -> int:
    """Rows among which m centres are chosen."""
    if basis == "pivoted":
        return max(_POOL * m, _LEAST_POOL)
    return greedy.priced_rows(m) if basis == "greedy" else m


def _exactly(
    request: Request, rows: LocalRows, kernel: Kernel, sample: Sample, seen: Seen
) -> LargeFit | None:
    """Every row as a centre, by a factor of the rank planned; ``None`` where that does not do."""
    max_rank = request.plan.max_rank
    assert max_rank is not None
    some = _problem(request, rows, kernel, sample.take(np.arange(min(SUBSET, sample.size))), seen)
    limits = {"mu": request.mu, "gamma": kernel.gamma, "max_rank": max_rank}
    guess = tune_low_rank(some, likely_mu=None, **limits)
    if guess is None:  # the rank only grows with more rows
        return None
    block = rows.block(slice(0, rows.n))
    X = arrays.widen(block.X)
    design = replace(some.design, gram=Gram(X, kernel), weights=block.weights)
    held_out = HeldOut.leave_one_out(block.Y, block.weights, balanced=request.balanced)
    tuned = tune_low_rank(
        Problem(design, block.Y, Criterion(request.criterion, held_out)),
        likely_mu=guess.selection.mu,  # in units of K, it hardly depends on the number of rows
        **limits,
    )
    if tuned is None:
        return None
    rank = len(tuned.centres)
    reason = (
        f"{request.plan.why}, but a factor of rank {rank} of the kernel matrix fits: every row is "
        "a centre"
    )
    log.info("%s", reason)
    return LargeFit(
        kernel,
        arrays.namespace(X).take(X, arrays.indices(tuned.centres, X), axis=0),
        rows.locate(block.index[tuned.centres]),
        replace(tuned.selection, reason=reason),
        *(tuned.ridge.coef, tuned.ridge.intercept),
        seen.highest - seen.lowest,
        ridge=tuned.ridge,
    )


def draw(plan: Plan, seed: int, rows: Rows, d: int) -> tuple[Sample, Sample, Seen]:
    """Survey the rows: a sample of them, those of it that may be centres, and what was seen."""
    m = plan.n_components
    assert m is not None
    pool = _pool(plan.basis, m)
    survey = Survey(1, race_seed(seed), d, rows.k, rows.describe)
    least, one = (replace(survey, size=size).numbers.state for size in (0, 1))
    affordable = int(_SAMPLE_SHARE * rows.budget.bytes / 8 - least) // (one - least)
    survey = replace(survey, size=max(m, min(max(m + _PILOT, pool), affordable)))
    seen = rows.sweep(survey)
    if m > seen.rows:
        raise ValueError(f"n_components={m} is more than the {seen.rows} rows of positive weight.")
    sample = survey.drawn(seen)
    return sample, sample.take(np.arange(min(pool, sample.size))), seen


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


def _width(request: Request, rows: Rows, sample: Sample, seen: Seen) -> float | None:
    """gamma as given, by a rule of thumb, or tuned by the exact core on some rows."""
    if request.gamma is not None or not request.kernel.has_gamma:
        return request.gamma
    if request.gamma_rule == "scale":
        return gamma_of_variance(seen.variance, sample.X.shape[1])
    some = sample.take(np.arange(min(SUBSET, sample.size)))
    problem = _problem(request, rows, request.kernel, some, seen)
    X, weights = problem.design.gram.X, problem.design.weights
    if request.gamma_rule == "median":
        return median_gamma(X, weights.frequency, request.kernel, request.seed)
    mu = _mu_of_part(request, problem, seen)
    gamma = tune(problem, mu=mu, gamma=None, search_gamma=True).selection.gamma
    log.info("gamma %.4g tuned on %d of %d rows", gamma, X.shape[0], seen.rows)
    return gamma


def _width_on_centres(
    request: Request, rows: LocalRows, sample: Sample, seen: Seen, given: Sample | None
) -> float | None:
    """The width by the exact core on a sample, with the centres asked for.

    Few centres call for a wider kernel than every row as a centre does.
    """
    m = request.plan.n_components
    assert m is not None
    some = sample.take(np.arange(min(max(_PILOT, _TALL * m), sample.size)))
    if given is not None:
        some = rows.sample_of(np.union1d(some.index, given.index))
    problem = _problem(request, rows, request.kernel, some, seen, request.plan.basis, m)
    if given is not None:
        named = np.searchsorted(some.index, given.index)
        problem = replace(problem, design=replace(problem.design, rows=named))
    mu = _mu_of_part(request, problem, seen)
    gamma = tune(problem, mu=mu, gamma=None, search_gamma=True).selection.gamma
    log.info("gamma %.4g tuned on %d of %d rows", gamma, some.size, seen.rows)
    return gamma


def _problem(
    request: Request,
    rows: Rows,
    kernel: Kernel,
    sample: Sample,
    seen: Seen,
    basis: str = "auto",
    m: int | None = None,
) -> Problem:
    """The fit asked for on the rows of a sample, in memory."""
    some = block_of(sample, rows.reference)
    X, weights = arrays.widen(some.X), some.weights
    if X.shape[0] < seen.rows:  # drawn by weight: they count alike
        weights = Weights.unit(X)
    held_out = HeldOut.leave_one_out(some.Y, weights, balanced=request.balanced)
    gram = Gram(X, kernel)
    design = Design(gram, weights, request.penalty, request.bias, basis, m, None, request.seed)
    return Problem(design, some.Y, Criterion(request.criterion, held_out))


def _mu_of_part(request: Request, problem: Problem, seen: Seen) -> float | None:
    """The mu asked for, if any, in proportion to the rows of a part."""
    if request.mu is None:
        return None
    return request.mu * problem.design.weights.total / seen.weight


def _centres(request: Request, rows: Rows, kernel: Kernel, pool: Sample, seen: Seen) -> np.ndarray:
    """Which rows of the pool are the centres, in the order of the data."""
    if request.plan.basis != "greedy":
        return choose(request.plan, request.seed, kernel, pool, rows.reference)
    problem = _problem(request, rows, kernel, pool, seen, "greedy", request.plan.n_components)
    mu = _mu_of_part(request, problem, seen)
    chosen, _ = greedy_centres(problem, mu=mu, gamma=kernel.gamma, search_gamma=False)
    return chosen[np.argsort(pool.index[chosen])]


def choose(plan: Plan, seed: int, kernel: Kernel, pool: Sample, reference: Array) -> np.ndarray:
    """The same where the labels have no part in it."""
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
