"""One static HTML page: printed and measured results side by side, figures, findings.

The page is a view of the journal. Tables are also written as CSV files, which are tracked.
"""

from __future__ import annotations

import io
import re
from html import escape
from importlib.resources import files
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fisherkit.reproduction import tables
from fisherkit.reproduction.catalogue import EXPERIMENTS
from fisherkit.reproduction.experiments import CONTROLS, PAPERS, Figure, Table
from fisherkit.reproduction.findings import about_figures
from fisherkit.reproduction.journal import Journal
from fisherkit.reproduction.methods import METHODS
from fisherkit.reproduction.rank_figure import critical_difference
from fisherkit.reproduction.table_findings import about_tables
from fisherkit.reproduction.tables import MEAN, Ranks, Row
from fisherkit.reproduction.tasks import HONEST, LEAK, PAPER
from fisherkit.whole_files import written_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_PROTOCOLS = {HONEST: "", PAPER: "paper's protocol", LEAK: "leaking protocol"}
_OVERVIEW = (
    *("data", "splits", "committee", "se", "svc", "difference", "relative"),
    *("best_printed", "printed_by", "to_printed", "to_printed_in_se"),
    *("doubtful_printed", "doubtful_by"),
)
_MOST_POINTS, _MOST_RELATIVE = 1.2, 0.15  # by which the committee may be worse than SVC


def publish(journal: Journal, *, splits: int = 100, quick: bool = False) -> list[Path]:
    """Write the tables and the page; return the files. Rows with too few splits are left out."""
    journal.write_tables()
    results = journal.folder / "results"
    results.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    sections: dict[str, list[str]] = {paper: [] for paper in PAPERS}
    summaries: dict[str, dict[str, list[Row]]] = {paper: {} for paper in PAPERS}
    errors: list[Row] = []
    for name, experiment in EXPERIMENTS.items():
        paper = name.split("-")[0]
        if isinstance(experiment, Figure):
            sections[paper].append(_figure(journal, experiment, quick=quick))
            continue
        view = tables.View(journal, experiment, splits=splits, quick=quick)
        rows = summaries[paper][name] = view.summary()
        if rows:
            path = results / f"{name}.csv"
            tables.write(path, tables.COLUMNS, rows)
            written.append(path)
        if experiment.measure == "error":
            errors += rows
        sections[paper].append(_table(experiment, rows, view.ranks()))
    overview = tables.overview(journal, splits=splits, quick=quick)
    if overview:
        tables.write(results / "overview.csv", _OVERVIEW, overview)
        written.append(results / "overview.csv")
    path = journal.folder / "page.html"
    for paper, found in summaries.items():
        texts = about_tables(paper, found), about_figures(journal, paper)
        sections[paper][:0] = [f"<p>{escape(text)}</p>" for text in texts if text]
    page = _page(journal, _overview(overview, errors), sections)
    with written_text(path) as file:
        file.write(page)
    return [*written, path]


def _page(journal: Journal, overview: str, sections: dict[str, list[str]]) -> str:
    assets = files("fisherkit.reproduction")
    template = assets.joinpath("page.html").read_text("utf-8")
    papers = "".join(
        f'<section id="{paper}"><h2>{escape(_short(citation))}</h2>'
        f"<p>{escape(citation)}</p>{''.join(sections[paper])}</section>"
        for paper, citation in PAPERS.items()
    )
    links = "".join(
        f'<li><a href="#{paper}">{escape(_short(citation))}</a></li>'
        for paper, citation in PAPERS.items()
    )
    records = journal.records.values()
    hours = sum(record.seconds for record in records) / 3600
    made = "; ".join(sorted({record.environment for record in records}))
    parts = {
        "links": links,
        "overview": overview,
        "papers": papers,
        "made": f"{len(records)} results. Their fits took {hours:.1f} hours of one core, "
        f"{hours / 2:.1f} of two (--jobs 2). {escape(made)}.",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _short(citation: str) -> str:
    """Title of a citation: what follows the authors."""
    return re.split(r"(?<=[a-z])\. ", citation)[1]


def _number(value: object, digits: int = 2) -> str:
    if not isinstance(value, float | int) or isnan(value):
        return "-"
    return f"{value:.{digits}f}"


def _table(table: Table, rows: list[Row], ranks: Ranks | None) -> str:
    """Sets down, methods across: measured columns first, printed ones after."""
    title = f"<h3 id='{table.name}'>{escape(table.what)}: {escape(table.title)}</h3>"
    if not rows:
        return f"{title}<p>Not run yet: <code>fisherkit reproduce {table.name}</code></p>"
    measured = [c for c in table.columns() if any((r["method"], r["protocol"]) == c for r in rows)]
    printed = [(column.title, column.kind) for column in table.printed]
    cells = {(r["data"], r["method"], r["protocol"]): r for r in rows}
    head = "".join(
        f"<th scope='col'>{escape(METHODS[method].title)}<small>{_PROTOCOLS[protocol]}</small></th>"
        for method, protocol in measured
    ) + "".join(
        f"<th scope='col' class='printed'>{escape(name)}<small>{kind}</small></th>"
        for name, kind in printed
    )
    body = []
    for data in dict.fromkeys(r["data"] for r in rows):
        own = [
            (cells[data, m, p]["mean"], m)
            for m, p in measured
            if p == HONEST and m not in CONTROLS and (data, m, p) in cells
        ]
        best = (max if table.measure == "auc" else min)(own)[1] if own else ""
        line = "".join(
            _cell(cells.get((data, m, p)), table, best=m == best and p == HONEST)
            for m, p in measured
        ) + "".join(_printed_cell(cells.get((data, *column))) for column in printed)
        body.append(f"<tr><th scope='row'>{escape(str(data))}</th>{line}</tr>")
    splits = [int(r["splits"]) for r in rows if r.get("splits")]  # type: ignore[call-overload]
    seconds: dict[str, float] = {
        method: sum(
            float(str(r["seconds"]))
            for r in rows
            if (r["method"], r["protocol"]) == (method, HONEST) and r["data"] != MEAN
        )
        for method, _ in measured
    }
    unit = "Area under the ROC curve" if table.measure == "auc" else "Test error"
    caption = (
        f"{unit} in percent, mean ± standard error over {min(splits)} to {max(splits)} splits; "
        "the share of training rows in the model in small print; spreads of printed figures are as "
        "printed. Bold: best of the methods run. "
        "Arrows mark means that differ from print by more than two standard errors, stars those "
        f"that differ from {escape(METHODS[table.reference].title)} (5 %, corrected paired tests)."
    )
    times = ", ".join(
        f"{escape(METHODS[method].title)} {_number(value, 1)}"
        for method, value in seconds.items()
        if value >= 0.05
    )
    spent = f"Seconds of training for one split of every set: {times}. " if times else ""
    return (
        f"{title}<div class='wide' tabindex='0' role='region' aria-label='{table.name}'><table>"
        f"<caption>{caption}</caption><thead><tr><th scope='col'>data set</th>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
        f"<p class='note'>{spent}<code>fisherkit reproduce {table.name}</code></p>{_ranks(ranks)}"
    )


def _cell(row: Row | None, table: Table, *, best: bool) -> str:
    if row is None:
        return "<td>-</td>"
    z = row.get("in_se", float("nan"))
    mark = kind = ""
    if isinstance(z, float) and abs(z) > 2:
        worse = (z > 0) == (table.measure == "error")
        mark, kind = (" ▲" if z > 0 else " ▼"), ("worse" if worse else "better")
    p = row.get("p_holm", 1.0)
    star = "*" if isinstance(p, float) and p < 0.05 else ""
    text = f"{_number(row['mean'])}{star}{mark}"
    text = f"<b>{text}</b>" if best else text
    small = _small(row.get("se"), row.get("share"))
    tip = f" title='{_number(z, 1)} standard errors from {row['column']}'" if mark else ""
    return f"<td class='{kind}'{tip}>{text}{small}</td>"


def _printed_cell(row: Row | None) -> str:
    if row is None:
        return "<td class='printed'>-</td>"
    doubt = f" <abbr title='{escape(str(row['note']))}'>!</abbr>" if row.get("note") else ""
    small = _small(row.get("sd"), row.get("share"))
    return f"<td class='printed'>{_number(row['mean'])}{doubt}{small}</td>"


def _small(spread: object, share: object) -> str:
    """What is printed small below a mean: its spread, and the share of rows in the model."""
    text = f"<small>± {_number(spread)}</small>" if isinstance(spread, float) else ""
    if isinstance(share, float) and share < 99.95:
        text += f"<small>{_number(share, 1)} %</small>"
    return text


def _ranks(ranks: Ranks | None) -> str:
    if ranks is None:
        return ""
    drawing = _svg(
        critical_difference({METHODS[m].title: r for m, r in ranks.mean.items()}, ranks.critical)
    )
    return (
        f"<figure>{drawing}<figcaption>Mean ranks over {ranks.n_sets} sets (1 is best), honest "
        "protocol. Methods joined by a bar differ by less than the critical difference "
        f"{ranks.critical:.2f} (Nemenyi, 5 %).</figcaption></figure>"
    )


def _figure(journal: Journal, figure: Figure, *, quick: bool) -> str:
    title = f"<h3 id='{figure.name}'>{escape(figure.what)}: {escape(figure.title)}</h3>"
    results = {task: journal.result(task) for task in figure.tasks() if task in journal}
    if any(task not in journal for task in figure.tasks(quick=quick)):
        return f"{title}<p>Not run yet: <code>fisherkit reproduce {figure.name}</code></p>"
    drawing = _svg(figure.draw(results))
    return (
        f"{title}<figure>{drawing}<figcaption>{escape(figure.caption)} "
        f"<code>fisherkit reproduce {figure.name}</code></figcaption></figure>"
    )


def _svg(drawing: Drawing) -> str:
    """The drawing as SVG for use inside a page; the same for the same drawing."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "fisherkit", "svg.fonttype": "path"}):
        drawing.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches="tight")
    text = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    return text[text.index("<svg") :]


def _overview(rows: list[Row], errors: list[Row]) -> str:
    if not rows:
        return "<p>Not run yet: <code>fisherkit reproduce all</code></p>"
    body, losses, behind, tried = [], [], [], []
    for row in rows:
        d, relative, z = row["difference"], row["relative"], row.get("to_printed_in_se")
        lost = isinstance(d, float) and d > 0
        kind = "worse" if lost else "better"
        if lost:
            losses.append(f"{row['data']} (+{_number(d)} points)")
        if isinstance(z, float) and z > 2:
            behind.append(f"{row['data']} ({row['printed_by']} {row['best_printed']})")
            tried.append(f"<li>{escape(_tried(row, errors))}</li>")
        body.append(
            f"<tr><th scope='row'>{row['data']}</th><td>{row['splits']}</td>"
            f"<td>{_number(row['committee'])}<small>± {_number(row['se'])}</small></td>"
            f"<td>{_number(row['svc'])}</td><td class='{kind}'>{d:+.2f} "
            f"{'▲' if lost else '▼'}<small>{100 * float(relative):+.0f} %</small></td>"  # type: ignore[arg-type]
            f"<td class='printed'>{_number(row.get('best_printed'))}"
            f"<small>{escape(str(row.get('printed_by', '')))}</small></td>"
            f"<td>{_number(row.get('to_printed'))}"
            f"<small>{_number(z, 1)} s.e.</small></td>"
            f"<td class='printed'>{_number(row.get('doubtful_printed'))}"
            f"<small>{escape(str(row.get('doubtful_by', '')))}</small></td></tr>"
        )
    beyond = [
        str(row["data"])
        for row in rows
        if float(row["difference"]) > _MOST_POINTS  # type: ignore[arg-type]
        or float(row["relative"]) > _MOST_RELATIVE  # type: ignore[arg-type]
    ]
    wins = len(rows) - len(losses)
    rank = 1.5 + 0.5 * float(np.mean([np.sign(float(str(row["difference"]))) for row in rows]))
    summary = (
        f"The committee, with the same settings everywhere, is at least level with grid-tuned SVC "
        f"on {wins} of {len(rows)} sets, a mean rank of {rank:.2f} against {3 - rank:.2f}. It is "
        f"behind on {', '.join(losses) or 'none'}; by more than {_MOST_POINTS} points or "
        f"{100 * _MOST_RELATIVE:.0f} % on {', '.join(beyond) or 'none'}. A printed figure "
        "whose protocol is not in doubt is better by more than two standard errors on "
        f"{', '.join(behind) or 'none'}."
    )
    return (
        f"<p>{escape(summary)}</p><div class='wide' tabindex='0' role='region' "
        "aria-label='overview'><table><caption>Test error in percent under the honest protocol, "
        "and the best printed error of any method in the five papers whose protocol is not in "
        "doubt.</caption><thead><tr><th scope='col'>data set</th><th scope='col'>splits</th>"
        "<th scope='col'>FisherCommittee</th><th scope='col'>SVC, 5-fold grid</th>"
        "<th scope='col'>difference</th><th scope='col'>best printed</th>"
        "<th scope='col'>committee minus printed</th>"
        "<th scope='col'>best printed, protocol in doubt</th>"
        f"</tr></thead><tbody>{''.join(body)}"
        "</tbody></table></div>"
        + (f"<p>What was tried on the sets where print is ahead:</p><ul>{''.join(tried)}</ul>")
        * bool(tried)
    )


def _tried(row: Row, errors: list[Row]) -> str:
    """Every method run on a set where a printed figure is ahead, from the best on."""
    figures = {
        (METHODS[str(r["method"])].title, _PROTOCOLS[str(r["protocol"])]): (r["mean"], r["se"])
        for r in errors
        if r["data"] == row["data"] and r["method"] in METHODS and r["method"] not in CONTROLS
    }
    ranked = sorted(figures.items(), key=lambda entry: float(str(entry[1][0])))
    texts = [
        f"{title}{f' ({protocol})' if protocol else ''} {_number(mean)} ± {_number(se)}"
        for (title, protocol), (mean, se) in ranked
    ]
    return f"{row['data']}: {row['printed_by']} {row['best_printed']} in print; " + ", ".join(texts)
