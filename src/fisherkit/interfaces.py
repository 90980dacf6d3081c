"""Types of values that come from elsewhere: tables, folds, paths, random states, JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import ArrayLike
    from sklearn.model_selection import BaseCrossValidator


class Container(Protocol):
    """What rows are read from: an array of any library, a sparse matrix, a frame."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: slice | np.ndarray | tuple[slice, slice], /) -> Any: ...


class Frame(Protocol):
    """A table with named columns: of pandas, polars or Dask."""

    @property
    def columns(self) -> Iterable[str]: ...

    @property
    def dtypes(self) -> Iterable[object]: ...


ClassWeight: TypeAlias = "Mapping[Any, float] | str | None"
CrossValidation: TypeAlias = (
    "int | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]] | None"
)
FilePath: TypeAlias = "str | PathLike[str]"
Json: TypeAlias = "bool | float | str | Sequence[Json] | Mapping[str, Json] | None"
KernelName: TypeAlias = "str | Callable[..., float]"
MemoryLimit: TypeAlias = "float | str | None"
Seed: TypeAlias = "int | np.random.RandomState | None"
TimeLimit: TypeAlias = "float | str | None"
Table: TypeAlias = "Frame | ArrayLike"
