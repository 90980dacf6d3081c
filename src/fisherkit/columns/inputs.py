"""Tables as users have them, in memory: frames of pandas, polars and pyarrow, arrays and lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from fisherkit.columns.frames import TableError, as_levels, moments, quoted, replaced
from fisherkit.core import arrays

# What pandas calls the values of a column of objects that are numbers, or truth values.
_NUMBERS = ("integer", "floating", "mixed-integer-float", "boolean", "decimal", "empty")


def frame_of(X: Any, text: tuple[str, ...] = ()) -> pd.DataFrame:
    """The table as a data frame whose columns are numbers, texts, or points in time.

    Columns of ``text`` are texts whatever they look like. Columns without names are called x0, x1,
    and so on.

    Examples
    --------
    >>> from fisherkit.columns import frame_of
    >>> frame_of([[1, "red"], [None, "blue"]]).dtypes.astype(str).tolist()[0]
    'float64'
    """
    table = _frame(X)
    names = [str(name) for name in table.columns]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise TableError(f"X has several columns called {quoted(twice, 3)}; rename them.")
    table = table.set_axis(names, axis=1)
    lacking = [name for name in text if name not in names]
    if lacking:
        raise TableError(f"X has no column {lacking[0]!r} (text); its columns are {quoted(names)}.")
    changed = {}
    for name, values in table.items():
        typed = as_levels(values) if name in text else _typed(values)
        if typed is not values:
            changed[str(name)] = typed
    return replaced(table, changed)


def _frame(X: Any) -> pd.DataFrame:
    if isinstance(X, pd.DataFrame):
        return X
    if issparse(X):
        raise TypeError("Sparse data was passed, but a table of columns is needed: X.toarray().")
    library = type(X).__module__.partition(".")[0]
    if library == "polars":
        if not hasattr(X, "get_columns"):
            raise TypeError(f"X is a {type(X).__name__} of polars; use X.collect().")
        return pd.DataFrame({values.name: _of_polars(values) for values in X.get_columns()})
    if library == "pyarrow":
        return X.to_pandas()
    if library in ("dask", "dask_expr"):
        raise TypeError(
            "X is a Dask collection. Tables are prepared in memory: use X.compute(), or, for "
            "columns that are numbers, FisherCommitteeClassifier."
        )
    array = np.asarray(arrays.to_numpy(X) if arrays.is_array_api(X) else X)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X has complex numbers.")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {'scalar' if array.ndim == 0 else f'{array.ndim}D'} array "
            "instead. Reshape your data: rows and columns, X.reshape(-1, 1) for one column."
        )
    if array.dtype.kind == "U" and not isinstance(X, np.ndarray):
        array = np.array(X, dtype=object)  # numbers beside words stay numbers
    return pd.DataFrame(array, columns=[f"x{j}" for j in range(array.shape[1])])


def _of_polars(values: Any) -> Any:
    """A column of polars for pandas, without pyarrow."""
    if values.dtype.is_numeric():
        return values.to_numpy()
    if values.dtype.is_temporal():
        return pd.to_datetime(pd.Series(values.to_list(), dtype=object), errors="coerce")
    return pd.Series(values.to_list(), dtype=object)


def _typed(values: pd.Series) -> pd.Series:
    """The column as numbers where all that is known of it are numbers, otherwise as texts."""
    dtype = values.dtype
    if isinstance(dtype, pd.ArrowDtype):
        values = pd.Series(values.to_numpy(na_value=np.nan), values.index, name=values.name)
        dtype = values.dtype
    if pd.api.types.is_complex_dtype(dtype):
        raise ValueError(f"Complex data not supported: column {values.name!r}.")
    if pd.api.types.is_numeric_dtype(dtype) or moments(values):
        return values
    if isinstance(dtype, pd.SparseDtype):
        return values.sparse.to_dense()
    if dtype.kind == "O" and not isinstance(dtype, pd.CategoricalDtype | pd.StringDtype):
        kind = pd.api.types.infer_dtype(values, skipna=True)
        if kind in _NUMBERS:
            known = values.where(values.notna(), np.nan)
            return pd.to_numeric(known.astype(np.float64))
        if kind in ("datetime", "datetime64", "date", "timedelta", "timedelta64"):
            return pd.to_datetime(values, errors="coerce")
    return values if isinstance(dtype, pd.CategoricalDtype) else as_levels(values)
