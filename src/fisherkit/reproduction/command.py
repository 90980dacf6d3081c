"""What ``fisherkit reproduce`` does: run, show progress, publish."""

import contextlib
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from threadpoolctl import threadpool_limits

from fisherkit.reproduction import catalogue, page, runner, tables
from fisherkit.reproduction.experiments import Figure, Table
from fisherkit.reproduction.journal import Journal, Record
from fisherkit.reproduction.tasks import Task


def execute(name: str, folder: Path, *, quick: bool, splits: int, jobs: int) -> int:
    """Run an experiment, "all" or none ("page"), and publish; or "list". Return the exit code."""
    errors = Console(stderr=True, highlight=False)
    folder = folder / "quick" if quick else folder
    try:
        if name == "list":
            with _said(errors):
                grid = _list(folder)
            Console(highlight=False).print(grid)
            return 0
        if name not in ("all", "page"):
            catalogue.find(name)
        with _said(errors):
            journal = runner.open_journal(folder)
        if name != "page":
            _run(journal, name, errors, quick=quick, splits=splits, jobs=jobs)
        with threadpool_limits(1):  # the models drawn are small
            written = page.publish(journal, splits=splits, quick=quick)
        for path in written:
            Console(highlight=False).print(f"wrote {path}", soft_wrap=True)
    except KeyboardInterrupt:
        errors.print("stopped; what was finished is in the journal, the same command goes on")
        return 130
    except (OSError, ValueError, RuntimeError) as error:
        errors.print(f"fisherkit reproduce: {error}", markup=False, soft_wrap=True)
        return 1
    return 0


@contextlib.contextmanager
def _said(console: Console) -> Iterator[None]:
    """Warnings as sentences, without the line of code they come from."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        console.print(f"fisherkit reproduce: {warning.message}", markup=False, soft_wrap=True)


def _list(folder: Path) -> Grid:
    journal = runner.open_journal(folder) if folder.is_dir() else None
    grid = Grid("experiment", "in the paper", "what", "tasks", "done", box=None, pad_edge=False)
    for name, experiment in catalogue.EXPERIMENTS.items():
        tasks = set(experiment.tasks())
        done = 0 if journal is None else sum(task in journal for task in tasks)
        grid.add_row(name, experiment.what, experiment.title, str(len(tasks)), str(done))
    return grid


def _experiments(name: str) -> list[Table | Figure]:
    return list(catalogue.EXPERIMENTS.values()) if name == "all" else [catalogue.find(name)]


def _run(
    journal: Journal, name: str, console: Console, *, quick: bool, splits: int, jobs: int
) -> None:
    tasks = dict.fromkeys(
        task
        for experiment in _experiments(name)
        for task in experiment.tasks(splits=splits, quick=quick)
    )
    todo = runner.missing(journal, tasks)
    console.print(
        f"{name}: {len(tasks)} tasks, {len(tasks) - len(todo)} of them done before", soft_wrap=True
    )
    if not todo:
        return
    with _progress(journal, todo, jobs, console) as done:
        elsewhere = runner.run_all(journal, todo, jobs=jobs, done=done)
    if elsewhere:
        console.print(
            f"{len(elsewhere)} tasks are with other processes in {journal.folder}, "
            "or wait for theirs; run the command again when they have ended",
            soft_wrap=True,
        )


@contextlib.contextmanager
def _progress(
    journal: Journal, todo: list[Task], jobs: int, console: Console
) -> Iterator[runner.Done]:
    """Show what was finished and the time left, by what such tasks took so far."""
    known = tables.typical_seconds(journal.records.values())
    usual = sum(known.values()) / len(known) if known else 1.0

    def cost(task: Task) -> float:
        return known.get((task.method, task.data, task.protocol), usual) + 0.01

    total, spent, start = sum(map(cost, todo)), 0.0, time.monotonic()
    columns = (
        TextColumn("{task.completed:.0f} of {task.total:.0f}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=len(todo))
        count = 0
        last = start

        def done(task: Task, record: Record | None) -> None:
            nonlocal spent, count, last
            spent += cost(task)
            count += 1
            elapsed = time.monotonic() - start
            left = elapsed * (total - spent) / spent
            text = f"{_duration(left)} left; {task}"
            progress.update(bar, completed=count, description=text)
            if not console.is_interactive and time.monotonic() - last > 30:
                last = time.monotonic()
                console.print(f"{count} of {len(todo)}, about {text}", soft_wrap=True)

        yield done


def _duration(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours} h {rest // 60:02d} min" if hours else f"{rest // 60} min {rest % 60:02d} s"
