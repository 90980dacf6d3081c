"""What a user says of the columns of a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from fisherkit.columns.frames import TableError, quoted
from fisherkit.terminal import counted

_SHOWN = 8  # names of columns in a message


@dataclass(frozen=True)
class Asked:
    """What a user says of the columns of a file.

    ``target`` are the labels, ``drop`` is to be left out, ``keep`` to be used although it looks
    like row numbers, ``text`` to be text although it looks like numbers.
    """

    path: Any
    target: str | None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    encoding: str = "utf-8"

    def check(self, names: list[str]) -> str:
        """The target, if the table with these columns has it and everything else named."""
        named = [("--target", self.target)] if self.target is not None else []
        options = {"--drop": self.drop, "--keep": self.keep, "--text": self.text}
        named += [(option, name) for option, some in options.items() for name in some]
        known = set(names)
        for option, name in named:
            if name not in known:
                raise TableError(
                    f"{self.path} has no column {name!r} ({option}); its columns are "
                    f"{_outline(names)}.{_meant(name, names)}"
                )
        if self.target is None:
            raise TableError(
                f"Which column of {self.path} is to be predicted? Name it with --target; the "
                f"columns are {_outline(names)}."
            )
        return self.target


def _outline(names: list[str]) -> str:
    """The first columns and, as targets are mostly there, the last one."""
    if len(names) <= _SHOWN:
        return quoted(names)
    first = quoted(names[: _SHOWN - 1], _SHOWN)
    return f"{first}, {counted(len(names) - _SHOWN, 'more column')} and, last, {names[-1]!r}"


def _meant(name: str, names: Iterable[str]) -> str:
    """A question, if a column has nearly that name."""
    lower = {str(other).lower(): other for other in names}
    found = get_close_matches(name.lower(), lower, n=1)
    found += [other for other in lower if name.lower() in other][:1]
    return f" Do you mean {lower[found[0]]!r}?" if found else ""
