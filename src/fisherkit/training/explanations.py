"""Why a model file answers as it does: what ``fisherkit explain`` does."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np
import pandas as pd

from fisherkit.columns import TableError, match
from fisherkit.inspection import Explanation, explain
from fisherkit.models import ModelFile
from fisherkit.tables import TableFile
from fisherkit.training.fitting import goal_of
from fisherkit.training.saved import columns

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 52rem; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .1rem .8rem .1rem 0; text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.bar { display: inline-block; height: .7rem; } .for { background: #2166ac; }
.against { background: #b2182b; }
"""


_PRINTED = 10  # rows, unless one is asked for


def explanations(
    file: ModelFile, rows: TableFile, line: int | None = None, most: int | None = None
) -> Iterator[Explanation]:
    """Why the rows of a table are answered so, a part at a time.

    ``line`` is the line of the file where the only row wanted begins; ``most`` is a number of rows.
    """
    known, found = columns(file), False
    for part in rows.parts(rows.part_rows):
        if line is not None:
            part = part.loc[part.index == line]
        part = part.head(most)
        if len(part):
            found = True
            yield explain(file.model, match(part, known, rows.path))
        if most is not None:
            break
    if line is not None and not found:
        raise TableError(f"{rows.path} has no row that begins in line {line}.")


def printed(file: ModelFile, rows: TableFile, line: int | None) -> Iterator[str]:
    """The first rows, or the one that begins in a line, in words."""
    most = _PRINTED if line is None else None
    for found in explanations(file, rows, line, most):
        for row in range(len(found.base)):
            name = f"{found.table.index.name or 'row'} {found.table.index[row]}"
            yield f"{name}: " + "\n  ".join(found.sentences(row, training=False))
    if most is not None and rows.n_rows > most:
        yield f"and {rows.n_rows - most} more rows: -o writes all of them"


def sheet(found: Explanation) -> pd.DataFrame:
    """A row for each row: answer, contributions and, of classes, the change that turns it."""
    if found.seconds is None:
        return found.to_frame()
    changes = ["" if change is None else str(change) for change in found.changes]
    return found.to_frame().assign(**{"would be": changes})


def page(file: ModelFile, parts: Iterator[Explanation], title: str) -> Iterator[str]:
    """An HTML page, piece by piece."""
    what = goal_of(file.model).contributions
    yield (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n<title>{escape(title)}'
        f"</title>\n<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n"
        f"<p>A bar is what a column adds to {what}, or takes from it.</p>\n"
    )
    for found in parts:
        for row in range(len(found.base)):
            yield _section(found, row)
    yield "</body></html>\n"


def _section(found: Explanation, row: int) -> str:
    """One row: sentences, and a bar for each column, the longest first."""
    values = found.contributions[row]
    unit = float(np.abs(values).max(initial=0.0)) or 1.0
    lines = []
    for j in np.argsort(-np.abs(values), kind="stable"):
        side, width = "for" if values[j] > 0 else "against", 120 * abs(values[j]) / unit
        lines.append(
            f"<tr><td>{escape(found.columns[j])}</td><td>{escape(found.shown(row, int(j)))}</td>"
            f'<td class="number">{values[j]:+.3g}</td>'
            f'<td><span class="bar {side}" style="width:{width:.0f}px"></span></td></tr>'
        )
    words = escape(" ".join(found.sentences(row, training=False)))
    name = f"{found.table.index.name or 'row'} {found.table.index[row]}"
    head = "<tr><th>column</th><th>value</th><th>adds</th><th></th></tr>"
    table = f"<table>{head}{''.join(lines)}</table>"
    return f"<h2>{escape(name)}</h2>\n<p>{words}</p>\n{table}\n"
