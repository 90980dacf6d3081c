"""What ``fisherkit`` prints: progress while it works, and a summary of the result.

Progress goes to the standard error stream, results to the standard output.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pandas as pd
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from fisherkit.columns import Column
from fisherkit.core import progress
from fisherkit.interfaces import Json
from fisherkit.terminal import amount, counted, printable, spent
from fisherkit.training import STAGES, Training, goal_named

_SHOWN = 50  # columns
_REFRESHES = 5  # of the live line in a second
_SILENCE = 30.0  # seconds after which a line of progress is written to a file


def describe(training: Training) -> dict[str, Json]:
    """The summary of a training, in numbers and words that suit JSON."""
    table_model, goal = training.model, training.goal
    model = table_model.estimator_
    return {
        "task": goal.name,
        "source": training.source,
        "target": training.target,
        "rows": len(training.y),
        "columns": training.X.shape[1],
        "features": int(model.n_features_in_),
        "method": training.method,
        goal.model: type(model).__name__,
        "chosen": goal.chosen(table_model, training.method),
        **goal.summary(table_model, training.y, training.held_out, training.weights),
        "plan": _planned(training),
        "notes": list(training.notes),
        "seconds": round(training.seconds, 3),
    }


def _planned(training: Training) -> str | None:
    """What was done with the rows, in the words of the command."""
    if not hasattr(training.model.estimator_, "plan_"):
        return None
    return training.model.plan_.said(_option)


def _option(name: str, value: object) -> str:
    """A parameter of the table as an option of the command, where all rows need more time."""
    if name == "centres" and value == "all":
        return "a fit of all rows (a longer --time)"
    return f"--{name} {value}"


def show(summary: Mapping[str, Any]) -> None:
    """Print a summary, of a training or from a model file."""
    goal = goal_named(summary.get("task", ""))
    target, errors = goal.rows(summary)
    grid = Table.grid(padding=(0, 3))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    add = grid.add_row
    size = f"{counted(summary['rows'], 'row')}, {counted(summary['columns'], 'column')}"
    add("data", _plain(f"{summary['source']}: {size}"))
    add("target", _plain(f"{summary['target']}: {target}"))
    add("method", _plain(f"{summary['method']} ({summary[goal.model]})"))
    if summary.get("plan"):
        add("plan", _plain(summary["plan"]))
    for key, value in summary["chosen"].items():
        add(_plain(key.replace("_", " ")), _plain(_word(value)))
    for name, words in errors:
        add(_plain(name), _plain(words))
    for note in summary["notes"]:
        add("note", _plain(note))
    add("time", spent(summary["seconds"], held_out=summary["held_out"] is not None))
    _Screen(highlight=False).print(grid)


def show_columns(columns: list[Column], versions: dict[str, str]) -> None:
    """Print the columns of a model file, and the versions that wrote it."""
    table = Table("column", "kind", "missing", "values", box=None, padding=(0, 3, 0, 0))
    for column in columns[:_SHOWN]:
        values = " to ".join(f"{value:.4g}" for value in column.values)
        if column.kind == "text":
            values = counted(int(column.values[0]), "level")
        table.add_row(*map(_plain, (column.name, column.kind, str(column.missing), values)))
    console = _Screen(highlight=False)
    console.print()
    console.print(table)
    hidden = len(columns) - _SHOWN
    if hidden > 0:
        console.print(f"and {counted(hidden, 'more column')}")
    written = ", ".join(f"{name} {version}" for name, version in versions.items())
    console.print()
    console.print(_plain(f"written with {written}"))


def show_table(rows: pd.DataFrame) -> None:
    """Print a small DataFrame."""
    head = [printable(name) for name in (rows.index.name, *rows.columns)]
    table = Table(*head, box=None, padding=(0, 3, 0, 0))
    for name, values in zip(rows.index, rows.itertuples(index=False), strict=True):
        table.add_row(_plain(str(name)), *(_plain(_word(value)) for value in values))
    _Screen(highlight=False).print(table)


class _Screen(Console):
    """A console that leaves closed pipes to the command."""

    def on_broken_pipe(self) -> None:
        raise  # called while the error is handled


def _plain(words: str) -> Text:
    """Text in which square brackets are no markup and no character steers the terminal."""
    return Text(printable(words))


def _word(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return amount(value) if isinstance(value, float) else str(value)


class _LiveHandler(logging.Handler):
    """Shows every step on the live line of a terminal, a few times a second at most.

    While a step says how far it is, the line has a bar. Elsewhere, as in a file, each stage has a
    line, and a long stage has another one every half minute.
    """

    def __init__(self, live: Progress, message: str) -> None:
        super().__init__(logging.DEBUG)
        self.live = live
        self.title = message
        self.task = live.add_task(message, total=1, reading=False)
        self.shown = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        if self.live.console.is_interactive:
            self._update(record)
        elif record.name == STAGES or time.monotonic() - self.shown >= _SILENCE:
            self.shown = time.monotonic()
            self.live.console.print(
                printable(record.getMessage()), markup=False, highlight=False, soft_wrap=True
            )

    def _update(self, record: logging.LogRecord) -> None:
        read: progress.Progress | None = getattr(record, "progress", None)
        if read is None:
            self.title = printable(record.getMessage())
            self.live.reset(self.task, description=self.title, reading=False)
        else:
            if read.title != self.title or read.done < self.live.tasks[0].completed:
                self.title = read.title
                self.live.reset(self.task, description=self.title, total=read.total, reading=True)
            self.live.update(self.task, completed=read.done)


class _WhileReading(ProgressColumn):
    """A column that is shown only while rows are read."""

    def __init__(self, column: ProgressColumn) -> None:
        super().__init__()
        self.column = column

    def render(self, task: Task) -> RenderableType:
        return self.column.render(task) if task.fields["reading"] else Text("")


@contextmanager
def following(message: str, *, quiet: bool = False) -> Iterator[None]:
    """Follow the library's log while the block runs, then leave the loggers as they were."""
    if quiet:
        with _handled(logging.NullHandler(), {"fisherkit": logging.CRITICAL}):
            yield
        return
    screen = Console(stderr=True)
    live = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *map(_WhileReading, (BarColumn(), TaskProgressColumn(), TimeRemainingColumn())),
        console=screen,
        transient=True,
        refresh_per_second=_REFRESHES,
        disable=not screen.is_interactive,
    )
    levels = {"fisherkit": logging.INFO, progress.LOGGER: logging.DEBUG}
    with live, _handled(_LiveHandler(live, message), levels):
        yield


@contextmanager
def _handled(handler: logging.Handler, levels: dict[str, int]) -> Iterator[None]:
    """While the block runs, the log goes to a handler, at these levels of its loggers."""
    loggers = {logging.getLogger(name): level for name, level in levels.items()}
    before = [logger.level for logger in loggers]
    root = logging.getLogger("fisherkit")
    root.addHandler(handler)
    for logger, level in loggers.items():
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
        root.removeHandler(handler)
