"""How labels are written, where a table that is read as numbers and missing values would not tell.

01 and 1 are two identifiers and one number; NA may be a class. A target whose labels are whole
numbers is taken as it is written (as text) if one of them has leading zeros or is so large that
its neighbours are the same number in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from fisherkit.columns import EXACT, quoted
from fisherkit.tables import TableFile
from fisherkit.terminal import counted

# What pandas takes for missing in a text file, but for the empty field.
MISSING_WORDS = frozenset(
    [
        *("NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NULL", "null", "None"),
        *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    ]
)

_WHOLE = r"[-+]?\d+"
_LEADING_ZEROS = r"[-+]?0\d+"


@dataclass(frozen=True)
class LabelWords:
    """Whether labels have to be read as text, and what is to be said about their words.

    ``missing`` says which words were taken for missing values, in a sentence, if any were, and
    ``unread`` also what to do if they are names of classes.
    """

    text: bool = False
    unread: str = ""
    notes: tuple[str, ...] = ()
    missing: str = ""

    @classmethod
    def of(cls, file: TableFile, target: str, task: str = "auto") -> LabelWords:
        """From all rows of a file; words of a target declared as text are what they are.

        ``task`` is what the user says of the target: in a regression words are numbers, in a
        classification numbers with fractions are names.
        """
        if target in file.text:
            return cls()
        counts = file.words(target)
        known = counts[~counts.index.isin(MISSING_WORDS)]
        missing = counts[counts.index.isin(MISSING_WORDS)]
        distinct = dict.fromkeys(str(word).strip() for word in known.index)
        words = pd.Series(list(distinct), dtype=object)
        numbers = pd.to_numeric(words.str.replace(",", "", regex=False), errors="coerce")
        text, notes = False, tuple[str, ...]()
        if task == "regression":
            return cls(missing=_missing(target, missing))
        if len(words) and numbers.notna().all():
            zeros, large = words.str.fullmatch(_LEADING_ZEROS), _large(words)
            large |= numbers.abs() > EXACT  # 1e20
            fractions = task == "classification" and (numbers % 1 != 0).any()
            text = bool((zeros | large).any() or fractions)
            twice = numbers[numbers.duplicated()]
            if len(twice):
                alike = sorted(words[numbers == twice.iloc[0]])
                notes = (_one_number(target, alike, text=text),)
        return cls(text, _unread(target, missing), notes, _missing(target, missing))


def _large(words: pd.Series) -> pd.Series:
    whole = words.str.fullmatch(_WHOLE)
    return whole & words.where(whole, "0").map(lambda word: abs(int(word)) > EXACT)


def _one_number(target: str, alike: list[str], *, text: bool) -> str:
    """The remark on labels that are written differently and are the same number."""
    if text:
        return (
            f"the labels {quoted(alike)} of {target!r} are different classes: numbers with "
            "leading zeros, or with more digits than are computed with, are taken as text."
        )
    return (
        f"the labels {quoted(alike)} of {target!r} are the same number and one class; "
        f"--text {target!r} takes them as they are written."
    )


def _missing(target: str, missing: pd.Series) -> str:
    """Which words count as missing."""
    if not len(missing):
        return ""
    named = ", ".join(
        f"{word!r} in {counted(int(count), 'row')}" for word, count in missing.head(3).items()
    )
    return f"{named} of {target!r} {'count' if len(missing) > 1 else 'counts'} as missing"


def _unread(target: str, missing: pd.Series) -> str:
    """Which words count as missing, with advice if they are names of classes."""
    if not len(missing):
        return ""
    several = len(missing) > 1
    return (
        f"{_missing(target, missing)}; if "
        f"{'they are names' if several else 'it is the name'} of a class, use --text {target!r}"
    )
