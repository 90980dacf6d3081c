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

    ``target`` is the column to predict, and ``task`` what it holds: "classification" is classes,
    "regression" is numbers, and "auto" lets its values decide. Columns of ``drop`` are
    left out, columns of ``keep`` are used although they look like row numbers, and columns of
    ``text`` are text although they look like numbers. ``command`` says that they were given to the
    command, for advice in messages. The column ``weights`` counts the copies of each row, and rows
    of one value of ``groups`` stay together in every fold.
    """

    path: FilePath
    target: str | None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    encoding: str = "utf-8"
    command: bool = True
    task: str = "auto"
    weights: str | None = None
    groups: str | None = None

    @property
    def no_features(self) -> tuple[str, ...]:
        """Columns that the user does not want as features, beside the target."""
        roles = (name for name in (self.weights, self.groups) if name is not None)
        return (*self.drop, *(name for name in roles if name not in self.drop))

    def option(self, what: str, name: str) -> str:
        """How the user would say it of a column: ``--drop 'age'`` or ``drop=['age']``."""
        return f"--{what} {name!r}" if self.command else f"{what}=[{name!r}]"

    def check(self, names: list[str]) -> str:
        """The target, if the table with these columns has it and everything else named."""
        roles = {"--target": self.target, "--weights": self.weights, "--groups": self.groups}
        named = [(option, name) for option, name in roles.items() if name is not None]
        if self.target is not None and self.target in (self.weights, self.groups):
            raise TableError(
                f"{self.path}: column {self.target!r} is the target, and holds neither weights nor "
                "groups as well. Name another column."
            )
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
