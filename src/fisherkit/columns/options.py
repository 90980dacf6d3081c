"""What a user says of the columns of a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from fisherkit.columns.frames import TableError, quoted
from fisherkit.interfaces import FilePath
from fisherkit.terminal import counted

_SHOWN = 8  # names of columns in a message


@dataclass(frozen=True)
class ColumnOptions:
    """What a user says of the columns of a file.

    ``target`` holds the labels; columns of ``drop`` are left out, columns of ``keep`` are used
    although they look like row numbers, and columns of ``text`` are text although they look like
    numbers. ``command`` says that they were given to the command, for advice in messages.
    """

    path: FilePath
    target: str | None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    encoding: str = "utf-8"
    command: bool = True

    def option(self, what: str, name: str) -> str:
        """How the user would say it of a column: ``--drop 'age'`` or ``drop=['age']``."""
        return f"--{what} {name!r}" if self.command else f"{what}=[{name!r}]"

    def check(self, names: list[str]) -> str:
        """The target, if the table with these columns has it and everything else named."""
        named = [("--target", self.target)] if self.target is not None else []
        options = {"--drop": self.drop, "--keep": self.keep, "--text": self.text}
        named += [(option, name) for option, names_given in options.items() for name in names_given]
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
    close = get_close_matches(name.lower(), lower, n=1)
    close += [other for other in lower if name.lower() in other][:1]
    return f" Do you mean {lower[close[0]]!r}?" if close else ""
