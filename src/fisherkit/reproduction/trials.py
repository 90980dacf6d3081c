"""Settings of trials as text and back, and the results of a study by setting."""

from collections.abc import Mapping

import numpy as np

from fisherkit.reproduction.tasks import Result, Task


def options(setting: str) -> dict[str, str]:
    """The parts of a setting.

    Examples
    --------
    >>> options("n=64 mu=1")
    {'n': '64', 'mu': '1'}
    """
    return dict(part.split("=", 1) for part in setting.split())


def by_setting(results: Mapping[Task, Result], study: str) -> dict[str, list[Result]]:
    """Results of all trials of each setting, in the order of the trials."""
    grouped: dict[str, list[Result]] = {}
    for task in sorted(results):
        if task.method == study:
            grouped.setdefault(task.data, []).append(results[task])
    return grouped


def values(trials: list[Result], field: str) -> np.ndarray:
    """One field of every trial."""
    return np.array([float(str(trial[field])) for trial in trials])


def numbers(text: object) -> np.ndarray:
    """Numbers kept as one text."""
    return np.array(str(text).split(), dtype=float)


def as_text(array: np.ndarray, digits: int = 5) -> str:
    """Numbers as one text."""
    return " ".join(f"{value:.{digits}g}" for value in array)
