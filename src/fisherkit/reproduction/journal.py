"""Results as they are finished: one JSON line each, flushed to the disk before work goes on.

A killed run loses at most the tasks in flight. Several processes may share a journal: a task is
claimed by a lock on one byte of a file, at a place given by the task's key, which the operating
system takes back when a process ends, however it ends.
"""

import contextlib
import csv
import io
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from fisherkit.reproduction.tasks import Result, Task, rounded
from fisherkit.whole_files import written_text

fcntl: Any
try:
    import fcntl
except ImportError:  # no such locks: two processes may then do a task twice, which harms nothing
    fcntl = None


SKIPPED = "is not a record and is skipped"


@dataclass(frozen=True)
class Record:
    """What a task yielded, under which key, in what time, and by which version."""

    task: Task
    key: str
    result: Result
    seconds: float
    commit: str
    environment: str

    @classmethod
    def read(cls, fields: Any) -> Self:
        """From what `fields` wrote; ValueError or TypeError says what is no part of a record."""
        fields = dict(fields)
        task, result = Task(**fields.pop("task")), fields.get("result")
        words = [task.method, task.data, task.protocol]
        words += [fields.get(name) for name in ("key", "commit", "environment")]
        if not all(isinstance(word, str) for word in words):
            raise ValueError("a name, key or version in it is no text")
        if type(task.split) is not int or task.split < 0:
            raise ValueError(f"{task.split!r} is no number of a split")
        if not _measured(fields.get("seconds")):
            raise ValueError(f"{fields.get('seconds')!r} is no time in seconds")
        if not isinstance(result, dict) or not all(map(_is_result, result.values())):
            raise ValueError("its result is not made of numbers and texts by name")
        return cls(task=task, **fields)

    @property
    def fields(self) -> dict[str, object]:
        """The record in words that suit JSON."""
        return {**vars(self), "task": vars(self.task)}


def _measured(value: object) -> bool:
    return type(value) in (int, float)


def _is_result(value: object) -> bool:
    """Whether a task yields such a value; see `fisherkit.reproduction.tasks.Result`."""
    if isinstance(value, dict):
        return all(_measured(part) or isinstance(part, str) for part in value.values())
    return value is None or _measured(value) or isinstance(value, str)


class Journal:
    """All that is known: the tracked tables of ``folder/results``, then ``folder/journal.jsonl``.

    A record counts only if its key is that of the present settings of its method, which
    ``settings`` tells; others are left where they are and done again.
    """

    def __init__(self, folder: Path, settings: Callable[[str], str | None]) -> None:
        self.folder = folder
        self.path = folder / "journal.jsonl"
        self.records: dict[Task, Record] = {}
        self._settings = settings
        self._offset = 0
        self._line = 0
        self._claims: int | None = None  # a file that stays open, and its locks held
        for record in read_tables(folder / "results"):
            self._take(record)
        self.refresh()

    def key(self, task: Task) -> str:
        settings = self._settings(task.method)
        if settings is None:
            raise KeyError(f"no method or study is called {task.method!r}")
        return task.key(settings)

    def __contains__(self, task: Task) -> bool:
        return task in self.records

    def result(self, task: Task) -> Result:
        return self.records[task].result

    def refresh(self) -> None:
        """Read what was added to the file since last time, by any process."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):  # being written, or torn: the next writer ends it
                    break
                self._offset += len(line)
                self._line += 1
                if line.strip():
                    self._read(line)

    def _read(self, line: bytes) -> None:
        try:
            record = Record.read(json.loads(line))
        except (ValueError, TypeError, KeyError, RecursionError):
            words = f"{self.path}: line {self._line} {SKIPPED}; what it held is done again"
            warnings.warn(words, stacklevel=4)
            return
        self._take(record)

    def _take(self, record: Record) -> None:
        settings = self._settings(record.task.method)
        if settings is not None and record.key == record.task.key(settings):
            self.records[record.task] = record

    def append(self, record: Record) -> None:
        """Add a record and wait until it is on the disk.

        Raises
        ------
        OSError
            If it cannot be written, for example on a full disk; the file is then as before.
        """
        line = json.dumps(record.fields, sort_keys=True).encode() + b"\n"
        with self.path.open("ab", buffering=0) as file, _locked(file):
            end = file.seek(0, os.SEEK_END)
            if end and not _ends_a_line(self.path):
                line = b"\n" + line
            try:
                while line:
                    line = line[file.write(line) :]
                os.fsync(file.fileno())
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.truncate(self.path, end)
                raise OSError(
                    error.errno, f"the journal could not be written: {error.strerror}", self.path
                ) from error
        self.records[record.task] = record

    def claim(self, task: Task) -> bool:
        """Whether this process may do the task: not done, and claimed by nobody else."""
        if self._claims is None:
            self._claims = os.open(self.folder / "journal.claims", os.O_RDWR | os.O_CREAT)
        if fcntl is not None:
            place = int(self.key(task), 16) >> 2  # within the reach of a file offset
            try:
                fcntl.lockf(self._claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place, os.SEEK_SET)
            except OSError:
                return False
        self.refresh()
        return task not in self

    def write_tables(self) -> None:
        """Write all records as the tables that are tracked."""
        write_tables(self.folder / "results", self.records.values())


@contextlib.contextmanager
def _locked(file: IO[bytes]) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


# The tracked tables: splits/<method>.csv has what was measured, the same to the last digit in
# every run; runs/<method>.csv how long it took, with all results that are times (their names end in
# _seconds), and by which version; environments.csv the versions.

_TASK = ("data", "protocol", "split")
_RUN = (*_TASK, "key", "seconds", "commit", "environment")


def write_tables(folder: Path, records: Iterable[Record]) -> None:
    """Write the records of each method to two files, sorted, and the versions to a third."""
    methods: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda r: r.task):
        methods.setdefault(record.task.method, []).append(record)
    texts = sorted({r.environment for rs in methods.values() for r in rs})
    for method, rows in methods.items():
        names = list(dict.fromkeys(name for row in rows for name in row.result))
        times = [name for name in names if name.endswith("_seconds")]
        _write(
            folder / "splits" / f"{method}.csv",
            (*_TASK, *(name for name in names if name not in times)),
            [{**vars(row.task), **_flat(row.result)} for row in rows],
        )
        _write(
            folder / "runs" / f"{method}.csv",
            (*_RUN, *times),
            [
                {
                    **vars(row.task),
                    **_flat(row.result),
                    "key": row.key,
                    "seconds": rounded(row.seconds, 4),
                    "commit": row.commit,
                    "environment": texts.index(row.environment),
                }
                for row in rows
            ],
        )
    if methods:
        _write(
            folder / "environments.csv",
            ("environment", "versions"),
            [{"environment": i, "versions": text} for i, text in enumerate(texts)],
        )


def _flat(result: Result) -> dict[str, object]:
    return {
        name: json.dumps(value, sort_keys=True) if isinstance(value, dict) else value
        for name, value in result.items()
    }


def _write(path: Path, columns: tuple[str, ...], rows: list[dict[str, object]]) -> None:
    """Replace a table in one step, so that it is never seen half-written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_text(path) as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_tables(folder: Path) -> Iterator[Record]:
    """Records of the tracked tables; rows without a run, or the other way round, are left out.

    Raises
    ------
    ValueError
        With file and line, where a table is not what `write_tables` wrote.
    """
    environments = {
        row["environment"]: row["versions"]
        for _, row in read_csv(folder / "environments.csv", ("environment", "versions"))
    }
    for path in sorted((folder / "splits").glob("*.csv")):
        twin = folder / "runs" / path.name
        runs = {
            tuple(row[name] for name in _TASK): (line, row) for line, row in read_csv(twin, _RUN)
        }
        for line, row in read_csv(path, _TASK):
            place = tuple(row.pop(name) for name in _TASK)
            with _place(path, line):
                split = int(place[-1])
            if place not in runs:
                continue
            line_of_run, run = runs[place]
            with _place(twin, line_of_run):
                seconds = float(run["seconds"])
                times = {name: _value(text) for name, text in run.items() if name not in _RUN}
            with _place(path, line):
                names = dict(zip(_TASK, place, strict=True))
                task = {"method": path.stem, **names, "split": split}
                result = {name: _value(text) for name, text in row.items()} | times
                record = Record.read(
                    {
                        "task": task,
                        "key": run["key"],
                        "result": result,
                        "seconds": seconds,
                        "commit": run["commit"],
                        "environment": environments.get(run["environment"], ""),
                    }
                )
            yield record


@contextlib.contextmanager
def _place(path: Path, line: int) -> Iterator[None]:
    """Name file and line of what cannot be read, and how to go on."""
    try:
        yield
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(_damaged(path, line, error)) from error


def _damaged(path: Path, line: int, what: object) -> str:
    return (
        f"{path}, line {line}: {what}. The table is cut or was changed: put back the file that "
        "came with the sources, or delete it, and what it held is measured again."
    )


def read_csv(path: Path, needed: Iterable[str] = ()) -> list[tuple[int, dict[str, str]]]:
    """The rows of a table, which has these columns, each with the line where it ends."""
    if not path.exists():
        return []
    content = path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        what = f"byte 0x{content[error.start]:02x} is not UTF-8"
        raise ValueError(_damaged(path, line, what)) from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, dict[str, str]]] = []
    try:
        names = next(reader, [])
        lacking = [name for name in needed if name not in names]
        if lacking:
            raise ValueError(f"the header lacks {', '.join(map(repr, lacking))}")
        for record in reader:
            if len(record) != len(names):
                raise ValueError(f"{len(record)} fields where the header has {len(names)}")
            rows.append((reader.line_num, dict(zip(names, record, strict=True))))
        if not text.endswith("\n"):
            raise ValueError("the end of the line is missing")
    except (ValueError, csv.Error) as error:
        raise ValueError(_damaged(path, max(reader.line_num, 1), error)) from error
    return rows


def _value(text: str) -> float | int | str | dict[str, float | str] | None:
    if text == "":
        return None
    if text.startswith("{"):
        return json.loads(text)
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text
