"""How far a pass over the rows has come, for whoever listens; nobody does unless asked to.

Passes report to the logger ``fisherkit.progress`` at level DEBUG, at most ten times a second. A
record has the attribute ``progress``, a `Progress`. The command line draws a bar from it; a program
can listen in the same way, or just show the messages:

>>> import logging
>>> logging.getLogger("fisherkit.progress").setLevel(logging.DEBUG)
>>> logging.getLogger("fisherkit.progress").setLevel(logging.NOTSET)  # silent again
"""

from __future__ import annotations

import logging
import threading
import time
from typing import NamedTuple

LOGGER = "fisherkit.progress"

_SECONDS = 0.1  # between reports

_log = logging.getLogger(LOGGER)


class Progress(NamedTuple):
    """Rows that a pass has read, of all rows."""

    title: str
    rows: int
    total: int


class Meter:
    """Counts the rows that the workers of one pass have read."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._rows = 0
        self._next = 0.0
        self._lock = threading.Lock()

    def advance(self, rows: int) -> None:
        """Report so many rows more; cheap where nobody listens."""
        if not _log.isEnabledFor(logging.DEBUG):
            return
        with self._lock:
            self._rows += rows
            now = time.monotonic()
            if now < self._next and self._rows < self._total:
                return
            self._next = now + _SECONDS
            state = Progress(self._title, self._rows, self._total)
            # Within the lock, so that reports do not overtake each other.
            _log.debug("%s: %d of %d rows", *state, extra={"progress": state})
