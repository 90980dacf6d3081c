"""All experiments by name, and what a task of any of them needs and does."""

import difflib
import time

from fisherkit.reproduction import methods
from fisherkit.reproduction.experiments import TABLES, Figure, Table
from fisherkit.reproduction.figures import FIGURES
from fisherkit.reproduction.methods import METHODS
from fisherkit.reproduction.studies import STUDIES
from fisherkit.reproduction.tasks import TRIAL, Result, Task

EXPERIMENTS: dict[str, Table | Figure] = {
    **{table.name: table for table in TABLES},
    **{figure.name: figure for figure in FIGURES},
}


def find(name: str) -> Table | Figure:
    """The experiment called ``name``; an unknown name is answered with the nearest ones."""
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, n=4, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "see 'fisherkit reproduce list'"
        raise ValueError(f"there is no experiment {name!r}; {hint}")
    return EXPERIMENTS[name]


def settings(method: str) -> str | None:
    """All that determines the results of a method or study but the rows; None if unknown."""
    entry = METHODS.get(method) or STUDIES.get(method)
    return None if entry is None else entry.settings


def needs(task: Task) -> list[Task]:
    return [] if task.protocol == TRIAL else methods.needs(task)


def run(task: Task, before: list[Result]) -> tuple[Result, float]:
    """What a task yields, and seconds; ``before`` are the results of what it `needs`."""
    if task.protocol != TRIAL:
        return methods.run(task, before)
    start = time.process_time()
    result = STUDIES[task.method].run(task.data, task.split)
    return result, time.process_time() - start
