"""Fits to files that memory does not hold.

The rows of a table are read in parts and copied, column by column, to a temporary folder: numbers
as they are, texts as places in a list of levels. `Data.X` is then a frame whose columns are mapped
files, which every check of a table understands. The preparation is fitted to it in parts
(`fisherkit.columns.features`), the features are written row by row to one more mapped file, and the
classifier reads that in blocks (`fisherkit.rows.planning`). What stays in memory is a few numbers
for each row (labels, left-out decisions, line numbers, a byte or two for each text) and what one
part takes.

The folder is removed at the end, also after an error or Ctrl-C.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, TypeVar, Unpack, overload

import numpy as np
import pandas as pd
from sklearn.base import clone, is_regressor

from fisherkit.columns import (
    Column,
    ColumnOptions,
    Features,
    TableError,
    moments,
    number_mask,
    refuse_dates,
    row_parts,
)
from fisherkit.core import Meter
from fisherkit.interfaces import FilePath
from fisherkit.methods import TableModel
from fisherkit.tables import TableFile
from fisherkit.training.intake import Data, Words, data_of, open_labelled
from fisherkit.training.label_words import LabelWords

Model = TypeVar("Model", bound=TableModel)

BUDGET = "128MB"  # of the fit itself, unless asked otherwise

_SPREAD = 1 << 13  # so that a few hundred scattered rows are read at a time
_MOST_LEVELS = 100_000  # of a text whose levels are counted


@contextmanager
def workspace() -> Iterator[Path]:
    """A temporary folder, gone at the end. TMPDIR says where."""
    with TemporaryDirectory(prefix="fisherkit-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def fit_table(
    path: FilePath,
    target: str,
    model: Model,
    *,
    encoding: str = "utf-8",
) -> Model:
    """A copy of a classifier or regressor, fitted to a file that memory need not hold.

    This is what ``fisherkit fit --out-of-core`` does.

    Parameters
    ----------
    path : str or path
        A CSV, TSV, Parquet or Arrow (Feather) file.
    target : str
        Column to predict; rows without a value in it are left out.
    model : TableClassifier or TableRegressor
        The model to copy, not fitted; a classifier has a method that reads its rows in blocks,
        fisher or committee. Its ``max_memory`` bounds the fit, its ``drop``, ``keep`` and ``text``
        are about the columns.
    encoding : str, default="utf-8"
        The encoding of a text file.

    Returns
    -------
    TableClassifier or TableRegressor
        The fitted copy.

    Notes
    -----
    *Cost.* A text file is read three times, and the features take 8 n d bytes of disk. The fit on m
    centres takes two passes of O(n m^2); its memory is bounded by ``max_memory``, with some numbers
    for each row and one part of the table beside it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fisherkit import TableClassifier
    >>> from fisherkit.out_of_core import fit_table
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "small.csv"
    ...     _ = path.write_text("x,y\\n" + "".join(f"{k % 7},{k % 7 > 3}\\n" for k in range(70)))
    ...     model = fit_table(path, "y", TableClassifier("fisher", max_memory="64MB"))
    >>> [str(label) for label in model.classes_]
    ['False', 'True']
    """
    with workspace() as folder:
        said = model.get_params(deep=False)
        task = "regression" if is_regressor(model) else "classification"
        keep = () if said["keep"] is True else tuple(said["keep"])
        asked = ColumnOptions(
            *(path, target, tuple(said["drop"]), keep, tuple(said["text"]), encoding),
            command=False,
            task=task,
        )
        file, words = open_labelled(asked)
        if said["keep"] is True:
            asked = replace(asked, keep=tuple(file.names))
        data = _map(folder, file, asked, words)
        return Prepared.of(model, data).fit(clone(model), data.y)


@dataclass(frozen=True)
class MappedRows:
    """Rows of doubles in a file, of which only those in use are mapped.

    The file holds a matrix of the shape ``whole``, of which the columns ``seen`` are in use, or all
    (``None``).

    One map of all rows would keep every page that was ever read, as long as memory lasts.
    """

    path: Path
    whole: tuple[int, int]
    seen: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and columns in use."""
        return self.whole[0], self.whole[1] if self.seen is None else len(self.seen)

    def __len__(self) -> int:
        return self.whole[0]

    @overload
    def __getitem__(self, rows: slice | np.ndarray) -> Window: ...

    @overload
    def __getitem__(self, rows: tuple[slice, np.ndarray]) -> MappedRows: ...

    def __getitem__(
        self, rows: slice | np.ndarray | tuple[slice, np.ndarray]
    ) -> Window | MappedRows:
        """Rows in a row, as they lie in the file, or a copy of the rows at these places.

        All rows with some of the columns are no copy, but a view of the file.
        """
        if isinstance(rows, tuple):
            return replace(self, seen=rows[1])
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self.shape[0])
            return Window(self._used(self._map(start, stop - start)))
        copy = np.empty((len(rows), self.shape[1]))
        for part in row_parts(rows, _SPREAD):  # a map of a part at a time: pages are let go
            copy[part] = self._used(self._map(0, self.shape[0])[rows[part]])
        return Window(copy)

    def to_numpy(self) -> np.ndarray:
        """All rows, in memory."""
        return self._used(np.fromfile(self.path, dtype=np.float64).reshape(self.whole))

    def _used(self, values: np.ndarray) -> np.ndarray:
        return values if self.seen is None else values[:, self.seen]

    def _map(self, start: int, rows: int) -> np.ndarray:
        d = self.whole[1]
        return np.memmap(
            self.path, dtype=np.float64, mode="r", offset=8 * start * d, shape=(rows, d)
        )


@dataclass(frozen=True)
class Window:
    """Some rows of a file; what `fisherkit.rows.sources` asks of frames."""

    values: np.ndarray

    def to_numpy(self) -> np.ndarray:
        return np.asarray(self.values)


@dataclass(frozen=True)
class Prepared:
    """How columns become features, and the features (n, d) of rows, in a file."""

    columns: list[Column]
    how: Features
    features: MappedRows

    @classmethod
    def of(cls, model: TableModel, data: Data, rows: np.ndarray | None = None) -> Prepared:
        """Look at some rows of mapped data (``None``: all) and write their features."""
        assert data.workspace is not None
        how = model.features_of(data.X, None, rows)
        return cls.by(how, data.X, data.workspace, rows)

    @classmethod
    def by(
        cls, how: Features, X: pd.DataFrame, folder: Path, rows: np.ndarray | None = None
    ) -> Prepared:
        """Write the features of rows."""
        path = folder / "features"
        path.unlink(missing_ok=True)  # those of other rows
        n, d = 0, 0
        with path.open("wb") as file:
            for part in how.transformed(X, rows):
                np.ascontiguousarray(part, dtype=np.float64).tofile(file)
                n, d = n + part.shape[0], part.shape[1]
        return cls(Column.all_of(X), how, MappedRows(path, (n, d)))

    def fit(self, model: Model, y: np.ndarray) -> Model:
        """The model fitted in blocks, or in memory where its ``max_memory`` holds that."""
        return model.fit_features(self.columns, self.how, self.features, y)


def map_data(folder: Path, path: FilePath, target: str | None, **words: Unpack[Words]) -> Data:
    """The data that `intake.read_data` reads, with the columns of X in files of ``folder``.

    Raises
    ------
    TableError
        With file, line and column; also where a text has too many levels to count.
    """
    asked = ColumnOptions(path, target, **words)
    file, labels = open_labelled(asked)
    return _map(folder, file, asked, labels)


def map_table(folder: Path, file: TableFile, asked: ColumnOptions) -> pd.DataFrame:
    """The rows with a label as a frame of mapped columns, without those to drop."""
    return _Spool.filled(folder, file, asked).frame()


def _map(folder: Path, file: TableFile, asked: ColumnOptions, words: LabelWords) -> Data:
    spool = _Spool.filled(folder, file, asked)
    for name in spool.unread:
        if name in asked.keep or name == asked.target:
            raise TableError(_too_many(asked.path, name))
    unlabelled = file.n_rows - spool.rows
    data = data_of(spool.frame(), asked, words, unlabelled, skipped=spool.unread, workspace=folder)
    spool.release()
    return data


@dataclass
class _Levels:
    """The levels of a text, in the order in which they were met."""

    codes: dict[str, int] = field(default_factory=dict)
    unread: bool = False

    def encode(self, values: pd.Series, seen: int, source: FilePath) -> np.ndarray:
        """The place of each value among the levels, -1 where missing; ``seen`` rows came before."""
        if self.unread:
            return np.full(len(values), -1, dtype=np.int32)
        places, levels = pd.factorize(values)
        codes = [self.codes.setdefault(str(level), len(self.codes)) for level in levels]
        if len(self.codes) > _MOST_LEVELS:
            if len(self.codes) < seen + len(values):
                raise TableError(_too_many(source, values.name))
            self.unread = True  # every row so far has a text of its own: an identifier
            self.codes.clear()
        return np.array([*codes, -1], dtype=np.int32)[places]


@dataclass
class _Columns:
    """A file of columns, one after the other, with room for ``capacity`` rows in each."""

    path: Path
    dtype: type
    names: list[str]
    capacity: int

    def write(self, file: BinaryIO, number: int, start: int, values: np.ndarray) -> None:
        file.seek((number * self.capacity + start) * np.dtype(self.dtype).itemsize)
        file.write(np.ascontiguousarray(values, dtype=self.dtype).data)

    def read(self) -> tuple[np.ndarray, mmap.mmap]:
        """The columns (count, capacity), and the map that holds them."""
        shape = (len(self.names), self.capacity)
        with self.path.open("r+b") as file:
            file.truncate(np.dtype(self.dtype).itemsize * shape[0] * shape[1])
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, dtype=self.dtype).reshape(shape), mapped


@dataclass
class _Spool:
    """The rows of a table with a label, on disk."""

    names: list[str]
    numbers: _Columns
    texts: _Columns
    levels: dict[str, _Levels]
    index: str
    lines: list[np.ndarray] = field(default_factory=list)
    maps: list[mmap.mmap] = field(default_factory=list)
    rows: int = 0

    @classmethod
    def filled(cls, folder: Path, file: TableFile, asked: ColumnOptions) -> _Spool:
        """Read the file once, a part at a time."""
        parts = (part.drop(columns=list(asked.drop)) for part in file.parts(file.part_rows))
        first = next(parts)
        refuse_dates(first.loc[:, [moments(values) for _, values in first.items()]], asked)
        spool = cls._like(first, folder, file.n_rows)
        meter = Meter("reading", file.n_rows)
        with spool.numbers.path.open("wb") as numbers, spool.texts.path.open("wb") as texts:
            for part in chain([first], parts):
                spool._add(part[part[asked.target].notna()], numbers, texts, asked.path)
                meter.advance(len(part))
        return spool

    @classmethod
    def _like(cls, part: pd.DataFrame, folder: Path, capacity: int) -> _Spool:
        mask = number_mask(part)
        numbers, texts = ([str(name) for name in part.columns[kind]] for kind in (mask, ~mask))
        return cls(
            names=[str(name) for name in part.columns],
            numbers=_Columns(folder / "numbers", np.float64, numbers, capacity),
            texts=_Columns(folder / "texts", np.int32, texts, capacity),
            levels={name: _Levels() for name in texts},
            index=str(part.index.name),
        )

    def _add(
        self, part: pd.DataFrame, numbers: BinaryIO, texts: BinaryIO, source: FilePath
    ) -> None:
        for number, name in enumerate(self.numbers.names):
            values = part[name].to_numpy(dtype=np.float64, na_value=np.nan)
            self.numbers.write(numbers, number, self.rows, values)
        for number, name in enumerate(self.texts.names):
            codes = self.levels[name].encode(part[name], self.rows, source)
            self.texts.write(texts, number, self.rows, codes)
        self.lines.append(part.index.to_numpy())
        self.rows += len(part)

    @property
    def unread(self) -> tuple[str, ...]:
        """Identifiers."""
        return tuple(name for name, levels in self.levels.items() if levels.unread)

    def release(self) -> None:
        """Let go of the pages that were read; they come back from the file when needed."""
        for mapped in self.maps:
            if hasattr(mapped, "madvise"):  # not on Windows
                mapped.madvise(mmap.MADV_DONTNEED)

    def frame(self) -> pd.DataFrame:
        """The columns in the order of the file, as views of the mapped files."""
        columns: dict[str, np.ndarray | pd.Categorical] = {}
        if self.numbers.names:
            values, mapped = self.numbers.read()
            self.maps.append(mapped)
            columns |= dict(zip(self.numbers.names, values[:, : self.rows], strict=True))
        if self.texts.names:
            places, mapped = self.texts.read()
            self.maps.append(mapped)
            for name, codes in zip(self.texts.names, places, strict=True):
                levels = list(self.levels[name].codes)
                if not self.levels[name].unread:
                    columns[name] = pd.Categorical.from_codes(codes[: self.rows], levels)
        index = pd.Index(np.concatenate(self.lines), name=self.index)
        ordered = {name: columns[name] for name in self.names if name in columns}
        return pd.DataFrame(ordered, index=index, copy=False)


def _too_many(path: FilePath, name: str) -> str:
    return (
        f"{path}, column {name!r} has more than {_MOST_LEVELS:,} different texts. Leave it out "
        f"with --drop {name!r}, or group its values first."
    )
