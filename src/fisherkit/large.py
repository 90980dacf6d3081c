"""Fits that read their rows in blocks: when, on which centres, and how wide the kernel.

The choices that the passes of `fisherkit.blocks` need are made on a sample of rows: the width by
the exact core on at most `SUBSET` rows, the centres by pivoted Cholesky or greedily on some more.
mu is chosen on all rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fisherkit import _array, basis
from fisherkit._array import Array
from fisherkit.blocks import Fitted, Kept, fit_rows, second_pass_numbers
from fisherkit.criteria import Criterion, HeldOut
from fisherkit.decompose import Design
from fisherkit.kernels import Gram, Kernel, gamma_of_variance, median_gamma, race_seed
from fisherkit.moments import Block, Centres
from fisherkit.ridge import Residuals
from fisherkit.rows import LocalRows, Rows, Sample, Seen, Survey
from fisherkit.select import log
from fisherkit.tune import Problem, tune
from fisherkit.weights import Weights

SUBSET = 2048  # rows on which the width is tuned
_PILOT = 16384  # rows that tell where the best mu will be
_POOL = 20  # rows for each centre, of which pivots are chosen
_LEAST_POOL = 20_000
_SAMPLE_SHARE = 0.25  # of the budget, for the sample
_DEFAULT_SHARE = 0.5  # of the free memory
_FULL_COPIES = 3  # of K that the exact path holds at a time
_THIN_COPIES = 5  # of the features that the path on centres holds at a time
_AUTO_CENTRES = (1000, 4000)
_UNITS = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4}


def memory_budget(value: Any, reference: Array) -> int:
    """``max_memory`` in bytes: a number, a text like "2GB", or half of what is free."""
    if value is None:
        return int(_DEFAULT_SHARE * _array.free_memory(reference))
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
    """Whether rows are read in blocks; with how many centres, found how, and why."""

    streamed: bool
    basis: str
    n_components: int | None
    reason: str


def plan(
    n: int, d: int, itemsize: int, basis: str, m: int | None, memory: int, beside: int = 0
) -> Plan:
    """In memory where it fits, otherwise in blocks; centres are chosen if none are asked for.

    ``itemsize`` is that of a copy of X that the path in memory would make, 0 if it makes none;
    ``beside`` counts the numbers for each row that it holds beside features and decomposition.
    """
    copy = n * (d * itemsize + 8 * beside)
    if basis in ("auto", "full"):
        need = copy + 8 * _FULL_COPIES * n * n
        if need <= memory or basis == "full":
            return Plan(False, basis, m, "")
        m = automatic_centres(n, memory)
        why = f"the exact path on {n} rows takes about {_size(need)} of memory"
        basis = "pivoted"
    else:
        assert m is not None
        need = copy + 8 * _THIN_COPIES * n * m
        if need <= memory:
            return Plan(False, basis, m, "")
        why = f"{n} rows with {m} centres take about {_size(need)} of memory"
    reason = f"{why}, max_memory is {_size(memory)}: row blocks with {m} centres ({basis})"
    return Plan(True, basis, m, reason)


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
    bias: str
    criterion: str
    balanced: bool
    mu: float | None
    plan: Plan
    seed: int


@dataclass(frozen=True)
class LargeFit:
    """A fitted model: centres (m, d) and their rows, coefficients, and where residuals are."""

    kernel: Kernel
    centres: Array
    indices: np.ndarray
    fitted: Fitted
    spread: np.ndarray


def fit_large(request: Request, rows: Rows, d: int, given: Sample | None = None) -> LargeFit:
    """Survey, width, centres, and the two passes; ``given`` are the centres if they are known."""
    m = request.plan.n_components
    assert m is not None
    rows.budget.require(*second_pass_numbers(m, d, rows.k))  # before any row is read
    sample, pool, seen = draw(request.plan, request.seed, rows, d)
    kernel = replace(request.kernel, gamma=_width(request, rows, sample, seen))
    chosen = given or pool.take(choose(request.plan, request.seed, kernel, pool, rows.reference))
    frequency = _array.like(chosen.frequency, rows.reference)
    centres = Centres.of(kernel, _array.like(chosen.X, rows.reference), frequency, request.penalty)
    # The luckiest rows may be the centres, whose leverage is higher than usual.
    pilot = sample.take(np.arange(min(m, sample.size // 2), sample.size))
    log.info("%s", request.plan.reason)
    fitted = fit_rows(
        rows,
        centres,
        block_of(pilot, rows.reference),
        bias=request.bias,
        rule=request.criterion,
        balanced=request.balanced,
        mu=request.mu,
        keep=rows.keep_bytes,
        reason=request.plan.reason,
    )
    return LargeFit(
        kernel,
        centres.X,
        rows.locate(chosen.index[centres.kept]),
        fitted,
        seen.highest - seen.lowest,
    )


def draw(plan: Plan, seed: int, rows: Rows, d: int) -> tuple[Sample, Sample, Seen]:
    """Survey the rows: a sample of them, those of it that may be centres, and what was seen."""
    m = plan.n_components
    assert m is not None
    pool = max(_POOL * m, _LEAST_POOL) if plan.basis == "pivoted" else m
    survey = Survey(1, race_seed(seed), d, rows.k, rows.describe)
    least, one = (replace(survey, size=size).state_numbers for size in (0, 1))
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
        _array.like(part, reference) for part in (sample.X, sample.Y, sample.frequency, sample.cost)
    )
    return Block(X, Y, Weights(frequency, cost), sample.index)


def all_residuals(fit: LargeFit, rows: LocalRows) -> Residuals:
    """Residuals of the rows of positive weight at the chosen mu."""
    kept = fit.fitted.kept
    if kept is None:
        kept = Kept(rows.sweep(fit.fitted.left_out_pass()).kept, np.ones(1))
    index, e, B = kept.residuals()
    place = _array.indices(index, rows.Y)
    xp = _array.namespace(rows.Y)
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
    some = block_of(sample.take(np.arange(min(SUBSET, sample.size))), rows.reference)
    X, weights = _array.widen(some.X), some.weights
    if X.shape[0] < seen.rows:  # drawn by weight: they count alike
        weights = Weights.unit(X)
    if request.gamma_rule == "median":
        return median_gamma(X, weights.frequency, request.kernel, request.seed)
    held_out = HeldOut.leave_one_out(some.Y, weights, balanced=request.balanced)
    design = Design(
        Gram(X, request.kernel),
        weights,
        request.penalty,
        request.bias,
        "auto",
        None,
        None,
        request.seed,
    )
    problem = Problem(design, some.Y, Criterion(request.criterion, held_out))
    mu = request.mu if request.mu is None else request.mu * weights.total / seen.weight
    gamma = tune(problem, mu=mu, gamma=None, search_gamma=True).selection.gamma
    log.info("gamma %.4g tuned on %d of %d rows", gamma, X.shape[0], seen.rows)
    return gamma


def choose(plan: Plan, seed: int, kernel: Kernel, pool: Sample, reference: Array) -> np.ndarray:
    """Which rows of the pool are the centres, in the order of the data."""
    m = plan.n_components
    assert m is not None
    if plan.basis == "random":
        chosen = np.arange(min(m, pool.size))
    else:
        block = block_of(pool, reference)
        gram = Gram(_array.widen(block.X), kernel)
        if not kernel.known_positive:
            basis.require_positive_diagonal(gram)
        rng = np.random.RandomState(seed)
        chosen = basis.choose_rows(plan.basis, m, gram, block.weights.v, rng)
    return chosen[np.argsort(pool.index[chosen])]
