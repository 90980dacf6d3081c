"""The building blocks of the report, as plain data.

A section is a title, an introduction and blocks; a block has a ``type`` that the page knows how to
draw: ``verdict``, ``text``, ``facts``, ``table``, ``examples``, ``lines``, ``reliability``,
``bars``, ``intervals``, ``levels``, ``scatter``, ``code``, ``terms``, ``live`` or ``smoothing``.
Blocks flow in two columns where there is room, unless they are ``wide``. Numbers in sentences are
formatted here. Whatever comes from the data stays a string, which the page shows as text and never
reads as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from fisherkit.interfaces import Json
from fisherkit.report.left_out_scores import wilson
from fisherkit.terminal import percent
from fisherkit.training import Training

Block = dict[str, Json]


class Section(TypedDict):
    """A part of the page with a heading of its own."""

    id: str
    title: str
    intro: str
    blocks: list[Block]


class Page(TypedDict):
    """All that the page says and shows."""

    title: str
    sections: list[Section]


MOST_CURVES = 7  # classes that are told apart by colour, dash and symbol
_SHOWN = 4  # columns of a row that are shown beside it


def section(title: str, intro: str, *blocks: Block | None, name: str | None = None) -> Section:
    """A section; ``name`` is its address within the page, unless its title will do."""
    name = name or title.lower().split(":")[0].replace(" ", "-")
    return {"id": name, "title": title, "intro": intro, "blocks": [b for b in blocks if b]}


def wide(block: Block) -> Block:
    """The block over all columns of the page."""
    return block | {"wide": True}


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def number(value: float) -> str:
    """Four digits, or all digits before the point where there are more."""
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e9 else f"{value:.4g}"


def points(share: float) -> str:
    """A difference of shares, in percentage points."""
    return f"{100 * share:.1f} percentage points"


def quoted(names: Sequence[str], last: str) -> str:
    """Names in quotation marks, with a word before the last."""
    marked = [f"“{name}”" for name in names]
    return f" {last} ".join([", ".join(marked[:-1]), marked[-1]] if len(marked) > 1 else marked)


def between(wrong: float, n: int) -> str:
    low, high = wilson(wrong, n)
    return f"95\N{NO-BREAK SPACE}% interval {percent(low)} to {percent(high)}"


def series_of(name: str, x: list[float], y: list[float]) -> Block:
    return {"name": name, "x": x, "y": y}


def rounded(values: np.ndarray) -> list[float]:
    return [float(f"{v:.4g}") for v in values]


def rows_table(
    training: Training, rows: np.ndarray, head: list[str], cells: list[list[str]], numbers: int
) -> Block:
    """Rows of the data: their numbers, ``cells``, and the first of their columns."""
    values = training.X.iloc[rows, :_SHOWN]
    kind = str(values.index.name or "row")
    counted = {
        "line": "Lines are those of the file where the rows begin.",
        "row": f"Rows are counted from {1 if values.index.name else 0}.",
    }
    return {
        "type": "table",
        "head": [kind, *head, *(str(c) for c in values.columns)],
        "rows": [
            [str(row[0]), *cell, *(_cell(v) for v in row[1:])]
            for cell, row in zip(cells, values.itertuples(name=None), strict=True)
        ],
        "numbers": numbers,
        "note": counted.get(kind, f"Rows are named by {kind}.")
        + (f" The first {_SHOWN} columns are shown." if training.X.shape[1] > _SHOWN else ""),
    }


def _cell(value: object) -> str:
    if pd.isna(value):
        return "missing"
    return number(value) if isinstance(value, float) else str(value)
