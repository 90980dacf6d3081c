"""Studies behind the figures: one trial at one setting yields a few numbers."""

from collections.abc import Callable
from dataclasses import dataclass

from fisherkit.reproduction.tasks import Result


@dataclass(frozen=True)
class Study:
    """A computation repeated over trials.

    ``run(setting, trial)`` yields the result; ``settings`` names, with numbers, all else that
    determines it and is part of the key under which it is journaled.
    """

    name: str
    settings: str
    run: Callable[[str, int], Result]


STUDIES: dict[str, Study] = {}
