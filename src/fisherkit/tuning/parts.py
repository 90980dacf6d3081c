"""The rows of a fit, cut in parts wherever they are: in one array, in blocks, on Dask workers.

Newton steps, of the slope of the probabilities as of a committee's calibrations, need sums over
rows only. What asks for them does not know where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Protocol

from fisherkit.core import Array


class Parts(Protocol):
    """Parts of the rows. A *column* holds an array with the rows of each part.

    ``terms(part, pieces, ...)`` is called for each part with its pieces of the columns: `total`
    adds the tuples of arrays that it returns, `each` makes a column of what it returns.
    """

    def total(
        self, terms: Callable[..., tuple[Array, ...]], columns: Sequence[Any], *arguments: Any
    ) -> tuple[Array, ...]: ...

    def each(
        self, terms: Callable[..., Array], columns: Sequence[Any], *arguments: Any
    ) -> Sequence[Any]: ...


@dataclass(frozen=True)
class LocalParts:
    """Parts in the memory of this process; columns are lists of arrays."""

    parts: Sequence[Any]

    def total(
        self, terms: Callable[..., tuple[Array, ...]], columns: Sequence[Any], *arguments: Any
    ) -> tuple[Array, ...]:
        return add_up(self.map(terms, columns, arguments))

    def each(
        self, terms: Callable[..., Array], columns: Sequence[Any], *arguments: Any
    ) -> list[Array]:
        return list(self.map(terms, columns, arguments))

    def map(
        self, terms: Callable[..., Any], columns: Sequence[Any], arguments: Sequence[Any]
    ) -> Iterable[Any]:
        """The result of each part, in order."""
        for position, part in enumerate(self.parts):
            yield terms(part, [column[position] for column in columns], *arguments)


def add_up(results: Iterable[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Sums of the arrays in tuples, entry by entry."""
    return reduce(lambda a, b: tuple(map(add, a, b)), results)
