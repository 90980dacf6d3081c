"""Which path a fit takes: in memory or in blocks of rows, on which centres, in how much memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherkit.core import Array, arrays
from fisherkit.tuning import greedy

_DEFAULT_SHARE = 0.5  # of the free memory
SAMPLE_SHARE = 0.25  # of the budget, for a sample of the rows
_FULL_COPIES = 3  # of K that the exact path holds at a time
_THIN_COPIES = 5  # of the features that a path on centres, or on a low-rank factor, holds at a time
_AUTO_CENTRES = (1000, 4000)
TALL = 8  # rows for each centre from which sums over blocks take a fraction of the time
SUMS = 1 << 22  # numbers of the features from which that matters
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


IN_MEMORY = Plan(False, "", None, "")


def reference_of(X: Any) -> Array:
    """An empty array of the namespace and device of the computation, in double precision."""
    if arrays.dispatched(X):
        return arrays.widen(X[:0, :])
    return np.empty((0, 1))


def plan_for(
    X: Any, basis: str, m: int | None, max_memory: Any, *, whole: str | None, beside: int = 0
) -> Plan:
    """`plan` for the rows X of any container.

    ``whole`` says why the fit needs every row at once, if it does: then rows are not read in
    blocks, and the fit is refused where memory does not hold it.
    """
    memory = memory_budget(max_memory, reference_of(X))
    # A fit in memory copies X, unless it is what the computation works on.
    given = arrays.is_array_api(X) and X.dtype == arrays.namespace(X).float64
    chosen = plan(X.shape[0], X.shape[1], 0 if given else 8, basis, m, memory, beside)
    if whole is None or not chosen.streamed:
        return chosen
    if chosen.held:
        return IN_MEMORY
    raise ValueError(refusal(whole, chosen.reason))


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
        why = f"the exact path on {n} rows takes about {_size(need)} of memory"
        basis = "pivoted"
    else:
        assert m is not None
        need = copy + 8 * _THIN_COPIES * n * m
        need += 8 * greedy.numbers(m, n) if basis == "greedy" else 0
        if need <= memory:
            if basis == "greedy" or n < TALL * m or n * m < SUMS:
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
