"""Tables from files: CSV, TSV, Parquet and Arrow (Feather), read as people expect.

Text files are UTF-8 unless said otherwise, with or without a byte-order mark, with any line ends,
separated by commas, or by semicolons, tabs or bars (then 3,14 may be a number). Every record must
have as many fields as the header. Empty fields, "?" and the usual words (NA, NaN, null, None, ...)
are missing values; the words are texts in columns that are to be text. Blanks around a text do not
count. What is wrong is said with file, line and column; rows are indexed by the line of the file
they begin in.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["TableError", "read_table"]

SEPARATORS = {".csv": None, ".txt": None, ".tsv": "\t", ".tab": "\t"}
COLUMNAR = (".parquet", ".feather", ".arrow")

_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_MOSTLY = 0.8  # share of numbers from which a text among them is taken for a mistake
_MISSING = ["", "?"]  # in every column; where text was not asked for, words such as NA as well
_ONE_WAY: dict[str, Any] = {
    **{"TRUE": "True", "true": "True", "FALSE": "False", "false": "False"},
    **dict.fromkeys(_MISSING, np.nan),
}
_DATE = (
    r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[/.]\d{1,2}[/.](\d{2}|\d{4})( .*)?|\d{4}/\d\d?/\d\d?"
)


class TableError(ValueError):
    """A table that cannot be used; the message names file, line and column."""


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
        missing = X.isna().sum().tolist()
        block = numbers(X)
        spans = dict(zip(block.columns, block.agg(["min", "max"]).to_numpy().T, strict=True))
        return [
            cls(str(name), "number", count, tuple(map(float, spans[name])))
            if name in spans
            else cls(str(name), "text", count, (float(X[name].nunique()),))
            for name, count in zip(X.columns, missing, strict=True)
        ]


def is_number(values: pd.Series) -> bool:
    """Whether a column as read by `read_table` holds numbers."""
    return bool(pd.api.types.is_numeric_dtype(values.dtype))


def numbers(table: pd.DataFrame) -> pd.DataFrame:
    """The columns that hold numbers; quick for very many."""
    return table.loc[:, _number_mask(table)]


def texts(table: pd.DataFrame) -> pd.DataFrame:
    """The columns that hold anything else."""
    return table.loc[:, ~_number_mask(table)]


def _number_mask(table: pd.DataFrame) -> np.ndarray:
    known = {dtype: pd.api.types.is_numeric_dtype(dtype) for dtype in set(table.dtypes)}
    return np.array([known[dtype] for dtype in table.dtypes], dtype=bool)


def read_table(
    path: Any, *, text: Sequence[str] = (), levels: Sequence[str] = (), encoding: str = "utf-8"
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
        Columns to keep as text as well, where NA and None are missing values as elsewhere: those
        that were text in another file.
    encoding : str
        Of a text file without a byte-order mark.

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
    path = Path(path)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise TableError(f"{path} {what}.")
    if path.stat().st_size == 0:
        raise TableError(f"{path} is empty.")
    ending = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    ending = ending.lower()
    if ending in COLUMNAR and path.suffix != ".gz":
        table = _read_columnar(path, ending, [*text, *levels])
    elif ending in SEPARATORS:
        table = _TextFile.open(path, encoding, SEPARATORS[ending]).read(text, levels)
    else:
        known = ", ".join([*SEPARATORS, *COLUMNAR])
        raise TableError(f"{path}: the ending {path.suffix!r} is none of {known}.")
    if len(table) == 0:
        raise TableError(f"{path} has a header and no rows.")
    table = _tidied(table).copy()  # columns of one type side by side, which very many columns need
    _refuse_infinite(table, path)
    return table


def _tidied(table: pd.DataFrame) -> pd.DataFrame:
    """Texts without blanks around them, and truth values written one way, True and False."""
    changed = {}
    for name, values in texts(table).items():
        if not _moments(values):
            tidy = values.str.strip().replace(_ONE_WAY)
            if not tidy.equals(values):
                changed[str(name)] = tidy
    return table.assign(**changed)


def place(table: pd.DataFrame | pd.Series, position: int) -> str:
    """Where a row is in its file, for messages."""
    return f"{table.index.name or 'row'} {table.index[position]}"


def quoted(names: Iterable[Any], most: int = 8) -> str:
    """Names for a message: the first few of them."""
    names = list(names)
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def date_columns(table: pd.DataFrame) -> dict[str, Any]:
    """Columns that hold dates or times, each with one of its values."""
    found = {}
    for name, values in texts(table).items():
        known = values.dropna()
        if len(known) and (_moments(values) or _dates(known)):
            found[str(name)] = known.iloc[0]
    return found


def _moments(values: pd.Series) -> bool:
    """Whether pandas knows the values as points in time or spans of it."""
    kinds = pd.api.types
    return kinds.is_datetime64_any_dtype(values.dtype) or kinds.is_timedelta64_dtype(values.dtype)


def _dates(known: pd.Series) -> bool:
    """Whether known values look like dates."""
    return bool(known.astype(str).str.fullmatch(_DATE).mean() >= _MOSTLY)


def stray_text(values: pd.Series) -> int | None:
    """Position of the first text in a column where nearly all known values are numbers."""
    if is_number(values):
        return None
    numbers = pd.to_numeric(values, errors="coerce")
    known = values.notna()
    stray = np.flatnonzero((known & numbers.isna()).to_numpy())
    mostly = numbers.notna().sum() >= _MOSTLY * known.sum()
    return int(stray[0]) if len(stray) and mostly else None


def match(table: pd.DataFrame, columns: Sequence[Column], source: Any) -> pd.DataFrame:
    """The columns that a model was trained on, in its order, from a table that may have others."""
    missing = [column.name for column in columns if column.name not in table.columns]
    if missing:
        raise TableError(
            f"{source} lacks {len(missing)} of the {len(columns)} columns that the model uses: "
            f"{quoted(missing)}. It has {quoted(table.columns)}."
        )
    table = table[[column.name for column in columns]]
    changed = {}
    for column, number in zip(columns, _number_mask(table), strict=True):
        if (column.kind == "number") != number:
            values = table[column.name]
            as_number = column.kind == "number"
            changed[column.name] = _as_number(values, source) if as_number else _as_text(values)
    return table.assign(**changed)


def _as_number(values: pd.Series, source: Any) -> pd.Series:
    """Numbers of a column of text, which are all missing or written in a way of their own."""
    found = pd.to_numeric(values, errors="coerce")
    wrong = np.flatnonzero((values.notna() & found.isna()).to_numpy())
    if len(wrong):
        raise TableError(
            f"{source}, {place(values, wrong[0])}, column {values.name!r}: "
            f"{values.iloc[wrong[0]]!r} is not a number, as this column was in training."
        )
    return found


def _refuse_infinite(table: pd.DataFrame, path: Path) -> None:
    block = numbers(table)
    infinite = np.isinf(block.to_numpy(dtype=np.float64, na_value=np.nan))
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise TableError(
            f"{path}, {place(table, row)}, column {block.columns[column]!r}: an infinite value. "
            "Leave the field empty if it is unknown."
        )


def _as_text(values: pd.Series) -> pd.Series:
    """Text of every known value; a missing one stays missing."""
    known = values.astype(object).where(values.notna(), np.nan)
    return known.map(str, na_action="ignore")


def _read_columnar(path: Path, ending: str, text: Sequence[str]) -> pd.DataFrame:
    read = pd.read_parquet if ending == ".parquet" else pd.read_feather
    try:
        table = read(path)
    except ImportError as error:
        raise ImportError(
            f"{path}: Parquet and Arrow files need pyarrow; pip install 'fisherkit[parquet]'."
        ) from error
    except Exception as error:  # pyarrow raises many kinds; all mean that the file is no good
        raise TableError(f"{path} cannot be read as {ending[1:]}: {error}") from error
    names = [str(name) for name in table.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TableError(f"{path}: column {twice[0]!r} occurs twice.")
    columns = {}
    for name, values in zip(names, table.items(), strict=True):
        values = values[1]
        if _moments(values) and name not in text:
            columns[name] = values
        elif name in text or pd.api.types.is_bool_dtype(values.dtype) or not is_number(values):
            columns[name] = _as_text(values)
        else:
            columns[name] = values.astype("float64") if values.isna().any() else values
    return pd.DataFrame(columns).set_axis(pd.RangeIndex(1, len(table) + 1, name="row"))


@dataclass(frozen=True)
class _TextFile:
    """A text file whose records all have the width of the header.

    ``lines`` (n,) are the lines where the records begin.
    """

    path: Path
    encoding: str
    separator: str
    names: list[str]
    lines: np.ndarray

    @classmethod
    def open(cls, path: Path, encoding: str, separator: str | None) -> _TextFile:
        try:
            return cls._scan(path, _encoding(path, encoding), separator)
        except UnicodeDecodeError as error:
            raise TableError(_undecodable(path, encoding, error)) from error
        except LookupError as error:
            raise TableError(f"{path}: {encoding!r} is not a known encoding.") from error
        except (EOFError, gzip.BadGzipFile) as error:
            raise TableError(f"{path} is not a whole gzip file: {error}") from error

    @classmethod
    def _scan(cls, path: Path, encoding: str, separator: str | None) -> _TextFile:
        csv.field_size_limit(sys.maxsize)
        with _text(path, encoding) as file:
            if separator is None:
                separator = _separator(file.readline())
                file.seek(0)
            reader = csv.reader(file, delimiter=separator, strict=True, skipinitialspace=True)
            try:
                names, lines = _structure(reader, path)
            except csv.Error as error:
                line = max(reader.line_num, 1)
                raise TableError(f"{path}, line {line}: {error} (is a quote missing?)") from error
        return cls(path, encoding, separator, names, np.asarray(lines, dtype=np.int64))

    def read(self, text: Sequence[str], levels: Sequence[str]) -> pd.DataFrame:
        known = set(self.names)
        kept: dict[str, type] = {name: str for name in (*text, *levels) if name in known}
        table = self._parse(kept)
        asked: dict[str, type] = {name: str for name in text if name in known}
        if asked:
            names = list(asked)
            table[names] = self._parse(asked, usecols=names, keep_default_na=False)[names]
        if self.separator != "," and not _decimal_points(table):
            commas = [
                name
                for name, values in texts(table).items()
                if name not in kept and _decimal_commas(values)
            ]
            if commas:
                table[commas] = self._parse({}, decimal=",", usecols=commas)[commas]
        odd = table.loc[:, [dtype in ("bool", "object") for dtype in table.dtypes]]
        guessed = [name for name, values in odd.items() if _truth_values(values)]
        return table.assign(**{str(name): _as_text(table[name]) for name in guessed})

    def _parse(self, dtype: dict[str, type], **options: Any) -> pd.DataFrame:
        with _text(self.path, self.encoding) as file:
            table = pd.read_csv(
                file,
                sep=self.separator,
                header=0,
                names=self.names,
                index_col=False,
                dtype=dtype,
                na_values=_MISSING,
                skipinitialspace=True,
                low_memory=False,
                **options,
            )
        if len(table) != len(self.lines):
            raise TableError(f"{self.path}: the quotes in it can be read in two ways.")
        return table.set_index(pd.Index(self.lines, name="line"))


def _encoding(path: Path, encoding: str) -> str:
    """What the byte-order mark says, or else the encoding given, which must exist."""
    codecs.lookup(encoding)
    with _binary(path) as file:
        start = file.read(4096)
    mark = next((known for known in _MARKS if start.startswith(known)), None)
    if mark is not None:
        return _MARKS[mark]
    if b"\0" in start and not encoding.lower().startswith(("utf-16", "utf-32")):
        raise TableError(
            f"{path}, line {start[: start.index(0)].count(10) + 1}: a zero byte. This is not a "
            "text file, or one in UTF-16 (then give its encoding, utf-16)."
        )
    return encoding


def _binary(path: Path) -> Any:
    return gzip.open(path) if path.suffix == ".gz" else open(path, "rb")


def _text(path: Path, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(_binary(path), encoding=encoding, newline="")


def _undecodable(path: Path, encoding: str, error: UnicodeDecodeError) -> str:
    where = path
    with _binary(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as found:
                byte = line[found.start]
                return (
                    f"{where}, line {number}: byte 0x{byte:02x} is not {encoding}. Save the file "
                    "as UTF-8, or give its encoding (often cp1252 or latin-1)."
                )
    return f"{where} is not {encoding}: {error.reason}. Save the file as UTF-8."


def _separator(header: str) -> str:
    """The most frequent candidate outside quotes."""
    bare = "".join(header.split('"')[::2])
    return max(",;\t|", key=bare.count)


def _structure(reader: Any, path: Path) -> tuple[list[str], list[int]]:
    """Names of the columns and the line where each record begins; every record is checked."""
    names: list[str] | None = None
    lines: list[int] = []
    begin = 1
    for record in reader:
        blank = not record or (len(record) == 1 and not record[0].strip())
        if blank:
            pass
        elif names is None:
            names = _checked_names([name.strip() for name in record], path, begin)
        elif len(record) != len(names):
            raise TableError(_wrong_width(record, names, path, begin))
        else:
            lines.append(begin)
        begin = reader.line_num + 1
    if names is None:
        raise TableError(f"{path} is empty.")
    return names, lines


def _checked_names(names: list[str], path: Path, line: int) -> list[str]:
    seen: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        name = name or f"column {number}"
        if name in seen:
            raise TableError(
                f"{path}, line {line}: columns {seen[name]} and {number} are both called "
                f"{name!r}. Give them different names."
            )
        seen[name] = number
    return list(seen)


def _wrong_width(record: list[str], names: list[str], path: Path, line: int) -> str:
    found, wanted = len(record), len(names)
    if found < wanted:
        what = f"the first one missing is {names[found]!r}. Is the file truncated?"
    else:
        what = f"the first one too many is {record[wanted]!r}. Is a quote missing?"
    return f"{path}, line {line}: {found} fields where the header has {wanted}; {what}"


def _decimal_commas(values: pd.Series) -> bool:
    """Whether the texts of a column are numbers such as 3,14."""
    known = values.dropna().astype(str)
    return bool(known.str.fullmatch(r"[-+]?\d+(,\d+)?").all() and known.str.contains(",").any())


def _decimal_points(table: pd.DataFrame) -> bool:
    """Whether a column has numbers such as 3.14; whole ones beside missing values do not tell."""
    values = table.select_dtypes("float").to_numpy()
    missing = np.isnan(values)
    return bool(((values % 1 != 0) & ~missing).any() or (~missing.any(axis=0)).any())


def _truth_values(values: pd.Series) -> bool:
    """Whether pandas has made truth values of a column."""
    return bool(values.dropna().map(lambda value: isinstance(value, bool)).any())
