"""A task: the smallest piece of work that is journaled, and the key it is journaled under."""

import hashlib
import json
from dataclasses import asdict, dataclass

# what a task yields: numbers and short texts, or numbers by name (parameters chosen)
Result = dict[str, float | int | str | dict[str, float | str] | None]

HONEST = "honest"  # tuned on every training part, scaling included
TUNING = "tuning"  # the same on the first splits only, features as the benchmark scaled them
PAPER = "paper"  # parameters of the TUNING splits (median), a fit for every split
LEAK = "leak"  # one classifier for all test parts, which hold rows it was trained on
TRIAL = "trial"  # of a study
TUNING_SPLITS = 5


@dataclass(frozen=True, order=True)
class Task:
    """One classifier on one split of a data set, or one trial of a study at one setting."""

    method: str
    data: str
    protocol: str
    split: int

    def __str__(self) -> str:
        return f"{self.method} on {self.data}, {self.protocol} {self.split}"

    def key(self, settings: str) -> str:
        """Hash of all that determines the result: the task and the settings of its method."""
        text = json.dumps([asdict(self), settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def rounded(value: float, digits: int = 7) -> float:
    """The number as it is kept, in the journal and in tables alike."""
    return float(f"{value:.{digits}g}")
