"""Types of values that come from elsewhere: folds, paths, random states, JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import ArrayLike
    from sklearn.model_selection import BaseCrossValidator

CrossValidation: TypeAlias = (
    "int | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]] | None"
)
FilePath: TypeAlias = "str | PathLike[str]"
Json: TypeAlias = "bool | float | str | Sequence[Json] | Mapping[str, Json] | None"
Seed: TypeAlias = "int | np.random.RandomState | None"
