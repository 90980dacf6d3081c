"""Names under which objects of ours go into model files, whatever module their type lives in.

A type is registered where it is defined; a name, once used, keeps its meaning. A dataclass is
stored as its fields, a member of an enumeration as its name, an estimator and any other object as
its attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TypeVar

TYPES: dict[str, type] = {}
NAMES: dict[type, str] = {}

Kind = TypeVar("Kind", bound=type)


def stored(name: str) -> Callable[[Kind], Kind]:
    """Let model files hold objects of the class, under this name.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from fisherkit.stored import TYPES, stored
    >>> @stored("example: interval")
    ... @dataclass(frozen=True)
    ... class Interval:
    ...     low: float
    ...     high: float
    >>> TYPES["example: interval"](low=1.0, high=2.0)
    Interval(low=1.0, high=2.0)
    """

    def register(kind: Kind) -> Kind:
        before = TYPES.setdefault(name, kind)
        if (before.__module__, before.__qualname__) != (kind.__module__, kind.__qualname__):
            raise ValueError(f"{name!r} is the name of {before.__module__}.{before.__qualname__}")
        TYPES[name], NAMES[kind] = kind, name
        return kind

    return register


def state_of(value: object) -> object:
    """What a file holds of an object whose type is registered."""
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    return dict(vars(value))


def rebuilt(name: str, state: object) -> object:
    """The object of this name and state; `KeyError` and `TypeError` if there is none."""
    kind = TYPES[name]
    if issubclass(kind, Enum):
        return kind[str(state)]
    if not isinstance(state, dict):
        raise TypeError(f"{name!r} has no attributes")
    if is_dataclass(kind):
        return kind(**state)
    made = kind.__new__(kind)
    vars(made).update(state)
    return made
