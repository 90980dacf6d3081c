"""Cells of the tables that the command writes, for people and for their spreadsheets."""

from __future__ import annotations

from collections.abc import Iterable


def joined(labels: Iterable[str]) -> str:
    r"""Labels in one cell, separated by bars; bars and backslashes within them get a backslash.

    Examples
    --------
    >>> from fisherkit.sheets import joined
    >>> print(joined(["a", "b|c"]))
    a|b\|c
    """
    return "|".join(label.replace("\\", "\\\\").replace("|", "\\|") for label in labels)
