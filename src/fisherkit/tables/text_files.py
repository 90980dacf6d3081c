"""CSV, TSV and their like: the structure of a file checked, and its rows read whole or in parts.

How the numbers of a column are written is decided by all rows: plain (3.14), with a comma for the
point (3,14) or in groups of three (1,234.5). 1,234 has two readings. Where commas separate fields
it is 1234, and so in files separated by tabs or bars, in tables that have decimal points, and in
columns with groups that can be nothing else (1,234,567); where semicolons separate, it is 1.234.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import pandas as pd

from fisherkit.columns import TableError, as_text, is_number, number_mask, replaced
from fisherkit.core import progress

if TYPE_CHECKING:
    from _csv import Reader

MISSING = ["", "?"]  # missing in every column; words such as NA only where text was not asked for

_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_WITH_COMMA = r"[-+]?\d+(,\d+)?"
_IN_GROUPS = r"[-+]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d+)?"
_SURELY_GROUPS = r",\d{3}[,.]"
_WHOLE = r"[-+]?\d+"
_FEW = 100
_WORD_ROWS = 1 << 18  # rows of one column that are read together
_REPORTED = 1 << 16  # records between reports of progress

log = logging.getLogger(progress.LOGGER)


@dataclass
class _Writing:
    """What has been seen of a column that is not plain numbers alone."""

    with_comma: bool = True
    in_groups: bool = True
    whole: bool = True
    any_comma: bool = False
    surely_groups: bool = False

    def see(self, known: pd.Series) -> None:
        for sample in (known.iloc[:_FEW], known):  # the first values rule most texts out
            if not (self.with_comma or self.in_groups):
                return
            words = sample.astype(str).str.strip()
            self.with_comma = self.with_comma and bool(words.str.fullmatch(_WITH_COMMA).all())
            self.in_groups = self.in_groups and bool(words.str.fullmatch(_IN_GROUPS).all())
            self.whole = self.whole and bool(words.str.fullmatch(_WHOLE).all())
        self.any_comma = self.any_comma or bool(words.str.contains(",").any())
        sure = words.str.contains(_SURELY_GROUPS).any()
        self.surely_groups = self.surely_groups or bool(sure)


@dataclass
class _Look:
    """What all rows say of the columns, gathered part by part.

    ``odd`` are the columns that were not plain numbers in some part, ``points`` the columns with a
    number such as 3.14 in some part.
    """

    separator: str
    kept: frozenset[str]
    odd: dict[str, _Writing] = field(default_factory=dict)
    points: set[str] = field(default_factory=set)

    def see(self, part: pd.DataFrame) -> None:
        self.points.update(_decimal_points(part))
        odd = np.isin(part.dtypes.astype(str), ("bool", "uint64")) | ~number_mask(part)
        for name, values in part.loc[:, odd].items():
            known = values.dropna()
            if len(known) and name not in self.kept:
                self.odd.setdefault(str(name), _Writing()).see(known)

    @property
    def too_large(self) -> frozenset[str]:
        """Columns of whole numbers from 2^63 up: identifiers, and no numbers for pandas either."""
        return frozenset(self._whole - self.points)

    @property
    def _whole(self) -> set[str]:
        return {name for name, seen in self.odd.items() if seen.whole}

    def writing(self) -> dict[str, str]:
        """What a comma stands for in each column that holds numbers after all."""
        commas = dict.fromkeys(self._whole & self.points, "")  # large quantities, with fractions
        for name, seen in self.odd.items():
            groups = seen.in_groups and (self.separator != ";" or seen.surely_groups or self.points)
            if not seen.any_comma:
                continue
            if groups:
                commas[name] = ""
            elif seen.with_comma and self.separator != "," and not self.points:
                commas[name] = "."
        return commas


def _plain(values: pd.Series, comma: str) -> pd.Series:
    """The numbers in the texts of a column, where commas are written otherwise."""
    if is_number(values):
        return values
    return pd.to_numeric(values.str.strip().str.replace(",", comma, regex=False))


@dataclass(frozen=True)
class TextFile:
    """A text file whose records all have the width of the header.

    ``lines`` (n,) are the lines where the records begin.
    """

    path: Path
    encoding: str
    separator: str
    names: list[str]
    lines: np.ndarray

    @classmethod
    def open(cls, path: Path, encoding: str, separator: str | None) -> TextFile:
        """Check every record of the file; a wrong one raises `TableError` with its line."""
        try:
            return cls._scan(path, _encoding(path, encoding), separator)
        except UnicodeDecodeError as error:
            raise TableError(_undecodable(path, encoding, error)) from error
        except LookupError as error:
            raise TableError(f"{path}: {encoding!r} is not a known encoding.") from error
        except (EOFError, gzip.BadGzipFile) as error:
            raise TableError(f"{path} is not a whole gzip file: {error}") from error

    @classmethod
    def _scan(cls, path: Path, encoding: str, separator: str | None) -> TextFile:
        csv.field_size_limit(sys.maxsize)
        with _text(path, encoding) as file:
            if separator is None:
                separator = _separator(file.readline())
                file.seek(0)
            reader = csv.reader(file, delimiter=separator, strict=True, skipinitialspace=True)
            names, lines = _structure(reader, path)
        return cls(path, encoding, separator, names, np.frombuffer(lines, dtype=np.int64))

    def parts(
        self, text: Sequence[str], levels: Sequence[str], rows: int | None
    ) -> Iterator[pd.DataFrame]:
        """The table, indexed by lines, in parts of ``rows`` rows; ``None`` is all at once.

        Columns have the same kind in every part: with more than one, the file is read twice.
        """
        if not len(self.lines):
            return
        known = set(self.names)
        asked = [name for name in text if name in known]
        kept = frozenset(name for name in (*asked, *levels) if name in known)
        look = _Look(self.separator, kept)
        if rows is not None and len(self.lines) > rows:
            for part in self._parse(kept, rows):
                look.see(part)
            kept = frozenset([*kept, *look.odd])
            yield from self._written(self._asked(kept, asked, rows), look)
            return
        (table,) = self._asked(kept, asked, len(self.lines))
        look.see(table)
        if look.too_large:
            (table,) = self._asked(kept | look.too_large, asked, len(self.lines))
        yield from self._written(iter([table]), look)

    def words(self, name: str) -> pd.Series:
        """How often each text of a column occurs, as it is written; only "" and "?" are missing."""
        counts = pd.Series(dtype="int64")
        column = frozenset([name])
        for part in self._parse(column, _WORD_ROWS, usecols=[name], keep_default_na=False):
            counts = counts.add(part[name].value_counts(), fill_value=0)
        return counts.sort_values(ascending=False, kind="stable").astype("int64")

    def _written(self, parts: Iterator[pd.DataFrame], look: _Look) -> Iterator[pd.DataFrame]:
        writing = look.writing()
        for part in parts:
            changed = {name: _plain(part[name], comma) for name, comma in writing.items()}
            odd = [dtype in ("bool", "object") for dtype in part.dtypes]
            for name, values in part.loc[:, odd].items():
                if _truth_values(values):
                    changed[str(name)] = as_text(values)
            yield replaced(part, changed)

    def _asked(self, kept: frozenset[str], asked: list[str], rows: int) -> Iterator[pd.DataFrame]:
        """Parts in which words such as NA are texts of the columns that were to be text."""
        if not asked:
            yield from self._parse(kept, rows)
            return
        words = self._parse(frozenset(asked), rows, usecols=asked, keep_default_na=False)
        for part, texts_of_part in zip(self._parse(kept, rows), words, strict=True):
            part[asked] = texts_of_part[asked]
            yield part

    def _parse(self, texts: frozenset[str], rows: int, **options: object) -> Iterator[pd.DataFrame]:
        start = 0
        with (
            _text(self.path, self.encoding) as file,
            pd.read_csv(
                file,
                sep=self.separator,
                header=0,
                names=self.names,
                index_col=False,
                dtype=dict.fromkeys(texts, str),
                na_values=MISSING,
                skipinitialspace=True,
                low_memory=False,
                chunksize=rows,
                **options,
            ) as reader,
        ):
            for part in reader:
                lines = self.lines[start : start + len(part)]
                start += len(part)
                if len(lines) < len(part):
                    break
                part.index = pd.Index(lines, name="line")
                yield part.copy()  # one block for each type, not for each column
        if start != len(self.lines):
            raise TableError(f"{self.path}: the quotes in it can be read in two ways.")


def _encoding(path: Path, encoding: str) -> str:
    """The encoding that the byte-order mark names, or else the given one, which must exist."""
    codecs.lookup(encoding)
    with _binary(path) as file:
        start = file.read(4096)
    mark = next((known for known in _MARKS if start.startswith(known)), None)
    if mark is not None:
        return _MARKS[mark]
    if b"\0" in start and not encoding.lower().startswith(("utf-16", "utf-32")):
        raise TableError(
            f"{path}, line {start[: start.index(0)].count(10) + 1}: there is a zero byte. "
            "Either this is no text file, or its encoding is utf-16 (--encoding utf-16)."
        )
    return encoding


def _binary(path: Path) -> IO[bytes] | gzip.GzipFile:
    return gzip.open(path) if path.suffix == ".gz" else open(path, "rb")


def _text(path: Path, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(_binary(path), encoding=encoding, newline="")


def _undecodable(path: Path, encoding: str, error: UnicodeDecodeError) -> str:
    with _binary(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as wrong:
                byte = line[wrong.start]
                return (
                    f"{path}, line {number}: byte 0x{byte:02x} is not {encoding}. Save the file "
                    "as UTF-8, or give its encoding with --encoding (often cp1252 or latin-1)."
                )
    return f"{path} is not {encoding}: {error.reason}. Save the file as UTF-8."


def _separator(header: str) -> str:
    """The most frequent candidate outside quotes."""
    bare = "".join(header.split('"')[::2])
    return max(",;\t|", key=bare.count)


def _structure(reader: Reader, path: Path) -> tuple[list[str], array[int]]:
    """Names of the columns and the line where each record begins; every record is checked."""
    names: list[str] | None = None
    lines = array("q")
    begin = 1
    for record in _records(reader, path):
        blank = not record or (len(record) == 1 and not record[0].strip())
        if blank:
            pass
        elif names is None:
            names = _checked_names([name.strip() for name in record], path, begin)
        elif len(record) != len(names):
            raise TableError(_wrong_width(record, names, path, begin))
        else:
            lines.append(begin)
            if len(lines) % _REPORTED == 0:
                log.debug("checking the records of %s, line %d", path, begin)
        begin = reader.line_num + 1
    if names is None:
        raise TableError(f"{path} is empty.")
    return names, lines


def _records(reader: Reader, path: Path) -> Iterator[list[str]]:
    """The records; a broken one raises with the line where it begins, as a missing quote takes
    the rest of the file into it.
    """
    begin = 1
    try:
        for record in reader:
            begin = reader.line_num + 1
            yield record
    except csv.Error as error:
        message = f"{path}, line {begin}: {error} (is a quote missing?)"
        raise TableError(message) from error


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
    given, wanted = len(record), len(names)
    if given < wanted:
        what = f"the first one missing is {names[given]!r}. Is the file truncated?"
    else:
        what = f"the first one too many is {record[wanted]!r}. Is a quote missing?"
    return f"{path}, line {line}: {given} fields where the header has {wanted}; {what}"


def _decimal_points(table: pd.DataFrame) -> list[str]:
    """Columns that have numbers such as 3.14; whole numbers beside missing values do not tell."""
    floats = table.select_dtypes("float")
    values = floats.to_numpy()
    known = np.isfinite(values)
    fractions = np.mod(values, 1, where=known, out=np.zeros_like(values)) != 0
    pointed = fractions.any(axis=0) | ~np.isnan(values).any(axis=0)
    return [str(name) for name in floats.columns[pointed]]


def _truth_values(values: pd.Series) -> bool:
    """Whether pandas has made truth values of a column."""
    return bool(values.dropna().map(lambda value: isinstance(value, bool)).any())
