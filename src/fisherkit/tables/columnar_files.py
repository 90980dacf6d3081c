"""Parquet and Arrow (Feather) files, read whole or in parts; needs pyarrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from fisherkit.columns import TableError, as_text, is_number, moments

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import ipc, parquet

COLUMNAR = (".parquet", ".feather", ".arrow")

_WORD_ROWS = 1 << 16


@dataclass(frozen=True)
class ColumnarFile:
    """A file whose schema says what its columns are."""

    path: Path
    ending: str
    names: list[str]
    n_rows: int

    @classmethod
    def open(cls, path: Path, ending: str) -> ColumnarFile:
        """Read the names and the number of rows; a damaged file raises `TableError`."""
        names, n_rows = _outline(path, ending)
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise TableError(f"{path}: column {twice[0]!r} occurs twice.")
        return cls(path, ending, names, n_rows)

    def parts(
        self, text: Sequence[str], levels: Sequence[str], rows: int | None
    ) -> Iterator[pd.DataFrame]:
        """The table in parts, as `TextFile.parts` gives them; rows are counted from 1."""
        start = 1
        for part in _batches(self.path, self.ending, rows):
            index = pd.RangeIndex(start, start + len(part), name="row")
            start += len(part)
            asked = {*text, *levels}
            columns = {
                name: _column(values, text=name in asked)
                for name, (_, values) in zip(self.names, part.items(), strict=True)
            }
            yield pd.DataFrame(columns).set_axis(index)

    def words(self, name: str) -> pd.Series:
        """How often each value of a column of whole numbers occurs, as text; empty for others."""
        counts = pd.Series(dtype="int64")
        position = self.names.index(name)
        for part in _batches(self.path, self.ending, _WORD_ROWS):
            values = part.iloc[:, position]
            if not pd.api.types.is_integer_dtype(values.dtype):
                break
            counts = counts.add(values.dropna().astype(str).value_counts(), fill_value=0)
        return counts.astype("int64")


def _column(values: pd.Series, *, text: bool) -> pd.Series:
    if moments(values) and not text:
        return values
    if text or pd.api.types.is_bool_dtype(values.dtype) or not is_number(values):
        return as_text(values)
    if values.isna().any():
        return values.astype("float64")
    whole = values.dtype in (pd.Int64Dtype(), pd.UInt64Dtype())
    return values.astype(values.dtype.numpy_dtype) if whole else values


def _outline(path: Path, ending: str) -> tuple[list[str], int]:
    """Names of the columns and number of rows."""
    with _opened(path, ending) as file:
        if ending == ".parquet":
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
        else:
            schema = file.schema
            n_rows = sum(file.get_batch(k).num_rows for k in range(file.num_record_batches))
        return [str(name) for name in schema.empty_table().to_pandas().columns], n_rows


def _batches(path: Path, ending: str, rows: int | None) -> Iterator[pd.DataFrame]:
    """Frames of at most ``rows`` rows; ``None`` is all at once."""
    with _opened(path, ending) as file:
        if rows is None:
            yield _pandas(file.read() if ending == ".parquet" else file.read_all())
        elif ending == ".parquet":
            for batch in file.iter_batches(batch_size=rows):
                yield _frame(batch)
        else:
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                for start in range(0, batch.num_rows, rows):
                    yield _frame(batch.slice(start, rows))


def _frame(batch: pa.RecordBatch) -> pd.DataFrame:
    import pyarrow as pa

    return _pandas(pa.Table.from_batches([batch]))


def _pandas(table: pa.Table) -> pd.DataFrame:
    """A frame in which large whole numbers keep all digits, also beside missing values."""
    import pyarrow as pa

    whole = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    return table.to_pandas(types_mapper=whole.get)


@contextmanager
def _opened(path: Path, ending: str) -> Iterator[parquet.ParquetFile | ipc.RecordBatchFileReader]:
    try:
        import pyarrow as pa
        from pyarrow import ipc, parquet
    except ImportError as error:
        raise ImportError(
            f"{path}: Parquet and Arrow files need pyarrow; pip install 'fisherkit[parquet]'."
        ) from error
    try:
        if ending == ".parquet":
            with parquet.ParquetFile(path) as file:
                yield file
        else:
            with pa.memory_map(str(path)) as mapped, ipc.open_file(mapped) as file:
                yield file
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{path} cannot be read as {ending[1:]}: {error}") from error
