"""Cells of the tables that the command writes, made safe for spreadsheets."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

from fisherkit.columns import is_number
from fisherkit.terminal import printable

# A cell that begins so is a formula, also in the full width of East Asian scripts; and the mark.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")

_WRITTEN_OUT = re.compile(r"\\([nrt]|[xuU][0-9a-f])")  # as `printable` writes control characters


def joined(labels: Iterable[str]) -> str:
    r"""Labels in one cell, separated by bars; bars and backslashes within them get a backslash.

    Examples
    --------
    >>> from fisherkit.tables.sheets import joined
    >>> print(joined(["a", "b|c"]))
    a|b\|c
    """
    return "|".join(label.replace("\\", "\\\\").replace("|", "\\|") for label in labels)


def guarded(table: pd.DataFrame) -> pd.DataFrame:
    """The table with safe texts and headers; columns of numbers stay as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> from fisherkit.tables.sheets import guarded
    >>> guarded(pd.DataFrame({"label": ["-high", "low"], "x": [-1.5, 2.0]})).to_numpy().tolist()
    [["'-high", -1.5], ['low', 2.0]]
    """
    columns = {
        place: values if is_number(values) else values.astype(object).map(_cell, na_action="ignore")
        for place, (_, values) in enumerate(table.items())
    }
    cells = pd.DataFrame(columns, index=table.index)
    return cells.set_axis([_cell(name) for name in table.columns], axis=1)


def _cell(value: object) -> str:
    """A text that no spreadsheet takes for a formula: it begins with an apostrophe where needed.

    Control characters, which include tabs and line ends, are written out; backslashes are doubled
    in a text that has both, or where one of them would read as such. A text that begins with an
    apostrophe gets another, so that taking away the first one gives the text again.
    """
    text = str(value)
    words = printable(text)
    if "\\" in text and (words != text or _WRITTEN_OUT.search(text)):
        words = printable(text.replace("\\", "\\\\"))
    return f"'{words}" if words.lstrip().startswith(_FORMULA) else words
