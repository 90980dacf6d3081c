"""What a fit may take of the machine, and where it may keep its state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fisherkit.stored import stored


@stored("limits")
@dataclass(frozen=True)
class Limits:
    """Bytes of memory, ``None`` for all; and the file that a long fit can be resumed from."""

    memory: int | None = None
    checkpoint: Path | None = None

    def hold(self, numbers: float) -> bool:
        """Whether so many numbers in double precision may be in memory."""
        return self.memory is None or 8 * numbers <= self.memory


UNLIMITED = Limits()
