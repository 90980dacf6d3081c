"""How far a fit has come, for whoever listens; nobody does unless asked to.

Steps of a fit report to the logger ``fisherkit`` at level INFO. Long ones of known length, such as
a pass over the rows or the folds of a cross-validation, also report how far they are, to the logger
``fisherkit.progress`` at level DEBUG and at most ten times a second. Such a record has the
attribute ``progress``, a `Progress`. The command line draws a bar from it, ``verbose=True`` of the
estimators prints lines; a program can listen in the same way, or just show the messages:

>>> import logging
>>> logging.getLogger("fisherkit.progress").setLevel(logging.DEBUG)
>>> logging.getLogger("fisherkit.progress").setLevel(logging.NOTSET)  # silent again
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

LOGGER = "fisherkit.progress"

_SECONDS = 0.1  # between reports
_LINES = 2.0  # seconds between printed lines on the same step

_steps, _log = logging.getLogger("fisherkit"), logging.getLogger(LOGGER)


class Progress(NamedTuple):
    """What a step has done, of all that it has to do, counted in ``unit``."""

    title: str
    done: int
    total: int
    unit: str


class Meter:
    """Counts what the workers of one step have done."""

    def __init__(self, title: str, total: int, unit: str = "rows") -> None:
        self._title = title
        self._total = total
        self._unit = unit
        self._done = 0
        self._next = 0.0
        self._lock = threading.Lock()

    def advance(self, done: int = 1) -> None:
        """Report so much more; cheap where nobody listens."""
        if not _log.isEnabledFor(logging.DEBUG):
            return
        with self._lock:
            self._done += done
            now = time.monotonic()
            if now < self._next and self._done < self._total:
                return
            self._next = now + _SECONDS
            state = Progress(self._title, self._done, self._total, self._unit)
            # Within the lock, so that reports do not overtake each other.
            _log.debug("%s: %d of %d %s", *state, extra={"progress": state})


class _Printer(logging.Handler):
    """Prints steps with the seconds since the start; of progress, a line every two seconds."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.start = self.last = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if hasattr(record, "progress") and now < self.last + _LINES:
            return
        self.last = now
        print(f"[fisherkit {now - self.start:7.1f} s] {record.getMessage()}", file=sys.stderr)


@contextmanager
def printed(wanted: bool) -> Iterator[None]:
    """Print steps and progress on standard error while the block runs, if ``wanted``.

    Loggers are left as they were; a block within such a block prints nothing twice.
    """
    if not wanted or any(isinstance(handler, _Printer) for handler in _steps.handlers):
        yield
        return
    handler, levels = _Printer(), (_steps.level, _log.level)
    _steps.addHandler(handler)
    _steps.setLevel(min(logging.INFO, _steps.level or logging.INFO))
    _log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        _steps.removeHandler(handler)
        _steps.setLevel(levels[0])
        _log.setLevel(levels[1])
