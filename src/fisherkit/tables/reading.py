"""Files to tables, whole or in parts, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fisherkit.columns import (
    TableError,
    as_text,
    column_parts,
    is_number,
    level_counts,
    moments,
    number_mask,
    numbers,
    place,
    quoted,
    replaced,
    texts,
)
from fisherkit.interfaces import FilePath
from fisherkit.tables.columnar_files import COLUMNAR, ColumnarFile
from fisherkit.tables.text_files import MISSING, TextFile

SEPARATORS = {".csv": None, ".txt": None, ".tsv": "\t", ".tab": "\t"}

_PART_CELLS = 1 << 19
_PART_ROWS = (128, 1 << 16)  # at least some: every part has a cost for each column
_LARGEST = 1e150  # sums of squares of larger numbers may be infinite
_MOSTLY = 0.8  # where this share of a column are numbers, a text among them is a mistake
_ONE_WAY: dict[str, str | float] = {
    **{"TRUE": "True", "true": "True", "FALSE": "False", "false": "False"},
    **dict.fromkeys(MISSING, np.nan),
}
_EXTREME = (
    f"{{:g}} is too large to compute with (beyond {_LARGEST:g}). Leave the field empty if such a "
    "number stands for an unknown value, or use larger units."
)
_INFINITE = "an infinite value. Leave the field empty if it is unknown."
_DATE = (
    r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[/.]\d{1,2}[/.](\d{2}|\d{4})( .*)?|\d{4}/\d\d?/\d\d?"
)


@dataclass(frozen=True)
class Column:
    """A feature: its name, whether it is a "number" or a "text", and how many values are missing.

    ``values`` is the range of a number (two values) or the number of levels of a text (one).
    """

    name: str
    kind: str
    missing: int
    values: tuple[float, ...]

    @classmethod
    def all_of(cls, X: pd.DataFrame) -> list[Column]:
        """The columns that a training has seen."""
        columns = []
        for part in column_parts(X):
            missing = part.isna().sum().tolist()
            block = numbers(part)
            spans = dict(zip(block.columns, block.agg(["min", "max"]).to_numpy().T, strict=True))
            columns += [
                cls(str(name), "number", count, tuple(map(float, spans[name])))
                if name in spans
                else cls(str(name), "text", count, (float(part[name].nunique()),))
                for name, count in zip(part.columns, missing, strict=True)
            ]
        return columns


def read_table(
    path: FilePath, *, text: Sequence[str] = (), levels: Sequence[str] = (), encoding: str = "utf-8"
) -> pd.DataFrame:
    """The table in a file; the ending of its name says which kind it is.

    Parameters
    ----------
    path : str or path
        Ends in .csv, .txt, .tsv, .tab (or one of these and .gz), .parquet, .feather or .arrow.
    text : sequence of str
        Columns to keep as text whatever they look like, such as codes with leading zeros. Only
        empty fields and "?" are missing values in them: NA and None are texts. Names that the
        table does not have are ignored.
    levels : sequence of str
        Columns to keep as text as well, such as the text columns of another file; here NA and None
        are missing values.
    encoding : str
        Encoding of a text file that has no byte-order mark.

    Returns
    -------
    DataFrame
        Columns of numbers, of text (truth values included) and, from Parquet and Arrow, dates.
        The index is called "line" and holds the line of the file where each row begins ("row",
        counted from 1, for Parquet and Arrow).

    Raises
    ------
    TableError
        With file, line and column.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fisherkit.tables import read_table
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "small.csv"
    ...     _ = path.write_text("width,ripe\\n1.5,yes\\n?,no\\n")
    ...     read_table(path)
          width ripe
    line
    2       1.5  yes
    3       NaN   no
    """
    (table,) = open_table(path, text=text, levels=levels, encoding=encoding).parts(None)
    return table


@dataclass(frozen=True)
class TableFile:
    """A file that holds a table, and how to read it; see `read_table`."""

    path: Path
    names: list[str]
    n_rows: int
    text: tuple[str, ...]
    levels: tuple[str, ...]
    source: TextFile | ColumnarFile

    def parts(self, rows: int | None) -> Iterator[pd.DataFrame]:
        """The table in order, at most ``rows`` rows at a time; ``None`` is all at once.

        A column is of one kind, numbers or text, in all parts.
        """
        for part in self.source.parts(self.text, self.levels, rows):
            part = _tidied(part)
            _refuse(part, self.path, np.isinf, _INFINITE)
            yield part

    def words(self, name: str) -> pd.Series:
        """How often each word of a column occurs, before it is taken for a number or missing."""
        return self.source.words(name)

    @property
    def part_rows(self) -> int:
        """Rows of a part that is small enough for memory to hold several."""
        return min(max(_PART_CELLS // len(self.names), _PART_ROWS[0]), _PART_ROWS[1])


def open_table(
    path: FilePath, *, text: Sequence[str] = (), levels: Sequence[str] = (), encoding: str = "utf-8"
) -> TableFile:
    """Check the structure of every record of a file; the parameters are those of `read_table`."""
    path = Path(path)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise TableError(f"{path} {what}.")
    if path.stat().st_size == 0:
        raise TableError(f"{path} is empty.")
    ending = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    ending = ending.lower()
    source: TextFile | ColumnarFile
    if ending in COLUMNAR and path.suffix != ".gz":
        source = ColumnarFile.open(path, ending)
        n_rows = source.n_rows
    elif ending in SEPARATORS:
        source = TextFile.open(path, encoding, SEPARATORS[ending])
        n_rows = len(source.lines)
    else:
        known = ", ".join([*SEPARATORS, *COLUMNAR])
        raise TableError(f"{path}: the ending {path.suffix!r} is none of {known}.")
    if n_rows == 0:
        raise TableError(f"{path} has a header and no rows.")
    return TableFile(
        path=path,
        names=source.names,
        n_rows=n_rows,
        text=tuple(text),
        levels=tuple(levels),
        source=source,
    )


def _tidied(table: pd.DataFrame) -> pd.DataFrame:
    """Texts without blanks around them, and truth values written one way, True and False."""
    changed = {}
    for name, values in texts(table).items():
        if not moments(values):
            tidy = values.str.strip().replace(_ONE_WAY)
            if not tidy.equals(values):
                changed[str(name)] = tidy
    return replaced(table, changed)


def date_columns(table: pd.DataFrame) -> dict[str, object]:
    """Columns that hold dates or times, each with one of its values."""
    examples = {}
    for name, values in texts(table).items():
        if moments(values):
            known = values.dropna()
            if len(known):
                examples[str(name)] = known.iloc[0]
        elif len(counts := level_counts(values)):
            dates = counts.index.astype(str).str.fullmatch(_DATE)
            if counts[dates].sum() >= _MOSTLY * counts.sum():
                examples[str(name)] = values.loc[values.first_valid_index()]
    return examples


def stray_text(values: pd.Series) -> int | None:
    """Position of the first text in a column where nearly all known values are numbers."""
    if is_number(values):
        return None
    counts = level_counts(values)
    numbers = pd.to_numeric(counts.index.to_series(), errors="coerce").notna().to_numpy()
    if numbers.all() or counts[numbers].sum() < _MOSTLY * counts.sum():
        return None
    return int(np.flatnonzero(values.isin(counts.index[~numbers]))[0])


def match(table: pd.DataFrame, columns: Sequence[Column], source: FilePath) -> pd.DataFrame:
    """The columns that a model was trained on, in its order, from a table that may have others."""
    missing = [column.name for column in columns if column.name not in table.columns]
    if missing:
        raise TableError(
            f"{source} lacks {len(missing)} of the {len(columns)} columns that the model uses: "
            f"{quoted(missing)}. It has {quoted(table.columns)}."
        )
    table = table[[column.name for column in columns]]
    changed = {}
    for column, number in zip(columns, number_mask(table), strict=True):
        if (column.kind == "number") != number:
            values = table[column.name]
            as_number = column.kind == "number"
            changed[column.name] = _as_number(values, source) if as_number else as_text(values)
    table = replaced(table, changed)
    refuse_extreme(table, source)
    return table


def _as_number(values: pd.Series, source: FilePath) -> pd.Series:
    """The numbers of a column that was read as text, where each must be a number or missing."""
    parsed = pd.to_numeric(values, errors="coerce")
    wrong = np.flatnonzero((values.notna() & parsed.isna()).to_numpy())
    if len(wrong):
        raise TableError(
            f"{source}, {place(values, wrong[0])}, column {values.name!r}: "
            f"{values.iloc[wrong[0]]!r} is not a number, as this column was in training."
        )
    return parsed


def refuse_extreme(table: pd.DataFrame, source: FilePath) -> None:
    """Refuse numbers whose squares, summed over the rows, would be infinite."""
    _refuse(table, source, lambda values: np.abs(values) > _LARGEST, _EXTREME)


Wrong = Callable[[np.ndarray], np.ndarray]


def _refuse(table: pd.DataFrame, source: FilePath, wrong: Wrong, complaint: str) -> None:
    """Raise for the first number that is wrong; ``complaint`` has a place for it."""
    block = numbers(table)
    values = block.to_numpy(dtype=np.float64, na_value=np.nan)
    places = np.argwhere(wrong(values))
    if len(places):
        row, column = places[0]
        where = f"{source}, {place(table, row)}, column {block.columns[column]!r}"
        raise TableError(f"{where}: {complaint.format(values[row, column])}")
