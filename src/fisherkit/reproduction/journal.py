"""Results as they are finished: one JSON line each, flushed to the disk before work goes on.

A killed run loses at most the tasks in flight. Several processes may share a journal: a task is
claimed by a lock on one byte of a file, at a place given by the task's key, which the operating
system takes back when a process ends, however it ends.
"""

import contextlib
import csv
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fisherkit.reproduction.tasks import Result, Task, rounded
from fisherkit.whole_files import written_text

fcntl: Any
try:
    import fcntl
except ImportError:  # no such locks: two processes may then do a task twice, which harms nothing
    fcntl = None


@dataclass(frozen=True)
class Record:
    """What a task yielded, under which key, in what time, and by which version."""

    task: Task
    key: str
    result: Result
    seconds: float
    commit: str
    environment: str


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
            fields = json.loads(line)
            record = Record(task=Task(**fields.pop("task")), **fields)
        except (ValueError, TypeError, KeyError, AttributeError):
            warnings.warn(
                f"{self.path}: line {self._line} is not a record and is skipped; what it held is "
                "done again",
                stacklevel=4,
            )
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
        fields = {**vars(record), "task": vars(record.task)}
        line = json.dumps(fields, sort_keys=True).encode() + b"\n"
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
    """Records of the tracked tables; rows without a run, or the other way round, are left out."""
    environments = {r["environment"]: r["versions"] for r in read_csv(folder / "environments.csv")}
    for path in sorted((folder / "splits").glob("*.csv")):
        runs = {
            tuple(row[name] for name in _TASK): row for row in read_csv(folder / "runs" / path.name)
        }
        for row in read_csv(path):
            place = tuple(row.pop(name) for name in _TASK)
            run = runs.get(place)
            if run is not None:
                yield Record(
                    task=Task(path.stem, place[0], place[1], int(place[2])),
                    key=run["key"],
                    result={
                        name: _value(text) for name, text in (row | run).items() if name not in _RUN
                    },
                    seconds=float(run["seconds"]),
                    commit=run["commit"],
                    environment=environments.get(run["environment"], ""),
                )


def read_csv(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _value(text: str) -> float | int | str | dict[str, float | str] | None:
    if text == "":
        return None
    if text.startswith("{"):
        return json.loads(text)
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text
