"""Tracked tasks of the reproduction, drawn at random, done again: is every result the same?

Methods and studies take turns, so that each is drawn about equally often. A row of
results/again.csv is a task: how many columns were compared (all but times), how many differ, and
the largest relative difference of a number. Results are kept to seven digits.
"""

import argparse
import itertools
import logging
import math
import random
import warnings
from pathlib import Path

from _common import Row, append_csv, read_csv

from fisherkit.reproduction import catalogue
from fisherkit.reproduction.journal import Record, read_tables
from fisherkit.reproduction.runner import processor
from fisherkit.reproduction.tasks import Result, Task

TRACKED = Path(__file__).parents[1] / "reproduction" / "results"
TASK = ("method", "data", "protocol", "split")


def drawn(tasks: list[Task], count: int, seed: int) -> list[Task]:
    """Tasks in random order, one of each method in turn."""
    random.Random(seed).shuffle(tasks)
    turns: dict[str, list[Task]] = {}
    for task in tasks:
        turns.setdefault(task.method, []).append(task)
    rounds = itertools.chain.from_iterable(itertools.zip_longest(*turns.values()))
    return [task for task in rounds if task is not None][:count]


def columns(result: Result) -> dict[str, object]:
    """Values by column but for times, the chosen parameters each under its own name."""
    values: dict[str, object] = {}
    for name, value in result.items():
        if isinstance(value, dict):
            values |= {f"{name} {part}": chosen for part, chosen in value.items()}
        elif not name.endswith("_seconds") and value is not None:
            values[name] = value
    return values


def difference(a: object, b: object) -> float:
    """Relative difference of two numbers, or texts of numbers; infinity where there is none."""
    if a == b:
        return 0.0
    try:
        pairs = zip(map(float, str(a).split()), map(float, str(b).split()), strict=True)
        return max(abs(x - y) / max(abs(x), abs(y), 1e-300) for x, y in pairs)
    except ValueError:
        return math.inf


def compare(record: Record, known: dict[Task, Record]) -> Row:
    """Do the task again, on the tracked results of what it needs, and compare."""
    task = record.task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, _ = catalogue.run(task, [known[other].result for other in catalogue.needs(task)])
    before, after = columns(record.result), columns(result)
    differences = {name: difference(before.get(name), after.get(name)) for name in before | after}
    moved = {name: size for name, size in differences.items() if size > 0}
    return {
        **vars(task),
        "recorded_on": record.environment.rsplit(", ", 1)[-1],
        "columns": len(differences),
        "differ": len(moved),
        "largest": max(moved.values(), default=0.0),
        "where": max(moved, key=lambda name: moved[name], default=""),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--longest", type=float, default=30.0, help="seconds when recorded")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.getLogger("fisherkit").setLevel(logging.ERROR)
    known = {record.task: record for record in read_tables(TRACKED)}
    quick = sorted(task for task, record in known.items() if record.seconds <= options.longest)
    print(f"{len(known)} tasks are tracked, {len(known) - len(quick)} of them took longer")
    done = {tuple(row[name] for name in TASK) for row in read_csv("again")}
    for task in drawn(quick, options.tasks, options.seed):
        if tuple(str(getattr(task, name)) for name in TASK) not in done:
            append_csv("again", [compare(known[task], known)])
    rows = read_csv("again")
    same = sum(row["differ"] == "0" for row in rows)
    print(f"{same} of {len(rows)} are the same in every column, on {processor()}")
    for row in rows:
        if row["differ"] != "0":
            print(*row.values())


if __name__ == "__main__":
    main()
