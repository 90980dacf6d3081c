"""Files to tables, whole or in parts, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fisherkit.columns import (
    TableError,
    moments,
    refuse_infinite,
    replaced,
    texts,
)
from fisherkit.interfaces import FilePath
from fisherkit.tables.columnar_files import COLUMNAR, ColumnarFile
from fisherkit.tables.text_files import MISSING, TextFile

SEPARATORS = {".csv": None, ".txt": None, ".tsv": "\t", ".tab": "\t"}

_PART_CELLS = 1 << 19
_PART_ROWS = (128, 1 << 16)  # at least some: every part has a cost for each column
_ONE_WAY: dict[str, str | float] = {
    **{"TRUE": "True", "true": "True", "FALSE": "False", "false": "False"},
    **dict.fromkeys(MISSING, np.nan),
}


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
            refuse_infinite(part, self.path)
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
