"""Which path a fit takes: in memory or in blocks of rows, on which centres, in how much memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fisherkit.core import Array, Limits, arrays, blas_threads, measured
from fisherkit.interfaces import Container, MemoryLimit, TimeLimit
from fisherkit.rows.routes import TWO_CORES, FitPlan, Job, Outlook, Route
from fisherkit.terminal import lasting, sized
from fisherkit.tuning import greedy, log

_DEFAULT_SHARE = 0.5  # of the free memory
SAMPLE_SHARE = 0.25  # of the budget, for a sample of the rows
_FULL_COPIES = 3  # of K that the exact path holds at a time
_THIN_COPIES = 5  # of the features that a path on centres, or on a low-rank factor, holds at a time
_AUTO_CENTRES = (1000, 4000)
TALL = 8  # rows for each centre of those that the width is tuned on
_TALL_ENOUGH = 2  # rows for each centre from which sums over blocks take less time
SUMS = 1 << 22  # numbers of the features from which that matters
_QUICK = 1000  # rows up to which a fit of all of them takes a second
_COPY_SHARE = 0.5  # of memory, at most, for a copy of X
_AUTO_SECONDS = 60.0  # that max_time="auto" gives a nominal machine
_NOMINAL = 40.0  # seconds there from which this one is asked
LONG = 120.0  # seconds of a fit that are worth a warning
_LEAST_RANK = 50  # below which trying the low-rank path is not worth it
_UNITS = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4}


def memory_budget(value: MemoryLimit, reference: Array) -> int:
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
    holds the fit, and sums over blocks merely take less of it, and less time. With an ``outlook``,
    all of this is chosen when levels of the search have been seen.
    """

    streamed: bool
    basis: str
    n_components: int | None
    reason: str
    max_rank: int | None = None
    why: str = ""
    held: bool = False
    outlook: Outlook | None = None
    chosen: FitPlan | None = None

    def asked_for(self, route: Route, chosen: FitPlan, *, beside: int = 0) -> Plan:
        """The plan of an outlook, as if the way that was chosen had been asked for.

        The width is known, or that of a part of the rows.
        """
        assert self.outlook is not None
        if route.centres is None:
            return replace(IN_MEMORY, basis=self.basis, chosen=chosen)
        n, d, memory = self.outlook.job.n, self.outlook.job.d, int(self.outlook.memory)
        asked = plan(n, d, 0, "random", route.centres, memory, beside)
        if asked.streamed or not self.held:
            return replace(
                self,
                n_components=route.centres,
                reason=chosen.words,
                outlook=None,
                chosen=chosen,
            )
        return replace(asked, chosen=chosen)

    def in_memory(self, n: int, memory: int) -> Plan:
        """The same without sums over blocks of n rows, if so many bytes hold a decomposition."""
        assert self.n_components is not None
        if 8 * _THIN_COPIES * n * self.n_components > memory:
            return self
        return replace(self, streamed=False)


IN_MEMORY = Plan(False, "", None, "")


def reference_of(X: Any) -> Array:
    """An empty array of the namespace and device of the computation, in double precision."""
    if arrays.dispatched(X):
        return arrays.widen(X[:0, :])
    return np.empty((0, 1))


def time_budget(value: TimeLimit) -> float | None:
    """``max_time`` in seconds, of which "auto" is a minute; ``None`` without a bound."""
    if value is None or (isinstance(value, str) and value == "auto"):
        return None if value is None else _AUTO_SECONDS
    if isinstance(value, (int, float, np.number)) and value is not True and 0 < value < math.inf:
        return float(value)
    raise ValueError(
        f"max_time={value!r} is not valid; use None, a positive number of seconds, or 'auto'."
    )


def job_of(X: Container, *, nominal: bool) -> Job:
    """The fit of rows X on this machine, or on a nominal one."""
    n, d = X.shape
    if nominal:
        return Job(n, d, 1, TWO_CORES, 2)
    return Job(n, d, 1, measured(), blas_threads())


def plan_for(
    X: Array,
    basis: str,
    m: int | None,
    max_memory: MemoryLimit,
    *,
    whole: str | None,
    beside: int = 0,
    max_time: TimeLimit = None,
) -> Plan:
    """`plan` for the rows X of any container.

    ``whole`` says why the fit needs every row at once, if it does: then rows are not read in
    blocks, and the fit is refused where memory does not hold it. With ``max_time`` and nothing said
    of centres, the plan may stay open until levels of the search have been seen.
    """
    memory = memory_budget(max_memory, reference_of(X))
    # A fit in memory copies X, unless it is what the computation works on.
    given = arrays.is_array_api(X) and X.dtype == arrays.namespace(X).float64
    itemsize, seconds = 0 if given else 8, time_budget(max_time)
    if seconds is not None and basis == "auto" and m is None and whole is None:
        open_plan = _open_plan(X, itemsize, memory, seconds, max_time)
        if open_plan is not None:
            return open_plan
    chosen = plan(X.shape[0], X.shape[1], itemsize, basis, m, memory, beside)
    if whole is None or not chosen.streamed:
        return chosen
    if chosen.held:
        return IN_MEMORY
    raise ValueError(refusal(whole, chosen.reason))


def _open_plan(
    X: Container, itemsize: int, memory: int, seconds: float, max_time: TimeLimit
) -> Plan | None:
    """The plan by time; ``None`` for few rows, and for accelerators, whose time is not known."""
    n, d = X.shape
    if n <= _QUICK or arrays.on_accelerator(reference_of(X)):
        return None
    nominal = isinstance(max_time, str)
    job, copy = job_of(X, nominal=nominal), float(n * d * itemsize)
    job = replace(job, whole=copy <= _COPY_SHARE * memory, limits=Limits(memory))
    outlook = Outlook(job, seconds, memory - copy * job.whole, timed=not nominal)
    return Plan(True, "random", None, "", held=job.whole, outlook=outlook)


def mention_time(X: Container, chosen: Plan) -> None:
    """Say how long passes over the rows will take, if that is more than two minutes."""
    m = chosen.n_components
    if not chosen.streamed or m is None or arrays.on_accelerator(reference_of(X)):
        return
    if job_of(X, nominal=True).on_centres(m) < _NOMINAL:
        return
    seconds = job_of(X, nominal=False).on_centres(m)
    if seconds > LONG:
        log.warning(
            "The fit of %d rows on %d centres will take about %s; max_time=60 bounds it, and fewer "
            "n_components shorten it.",
            X.shape[0],
            m,
            lasting(seconds),
        )


def refusal(whole: str, reason: str) -> str:
    """Why rows cannot be read in blocks, though for a reason they have to."""
    return (
        f"Rows have to be read in blocks ({reason}), which excludes {whole}; or raise max_memory."
    )


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
        rank = int(((1 - SAMPLE_SHARE) * memory - copy) / (8 * _THIN_COPIES * n))
        max_rank = min(rank, m) if rank >= _LEAST_RANK else None
        why = f"the exact path on {n} rows takes about {sized(need)} of memory"
        basis = "pivoted"
    else:
        assert m is not None
        need = copy + 8 * _THIN_COPIES * n * m
        need += 8 * greedy.numbers(m, n) if basis == "greedy" else 0
        if need <= memory:
            if basis == "greedy" or n < _TALL_ENOUGH * m or n * m < SUMS:
                return Plan(False, basis, m, "")
            reason = (
                f"{n} rows with {m} centres: sums over blocks of rows take a fraction of the time "
                "and memory of a decomposition of all rows"
            )
            return Plan(True, basis, m, reason, held=True)
        require_greedy(basis, n, m, memory)
        why = f"{n} rows with {m} centres take about {sized(need)} of memory"
    why += f", max_memory is {sized(memory)}"
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
