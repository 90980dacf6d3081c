"""From results of single splits to tables: means, differences to print, tests and ranks."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from math import sqrt
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata, studentized_range
from scipy.stats import t as student

from fisherkit.interfaces import FilePath
from fisherkit.reproduction.experiments import (
    CONTROLS,
    QUICK_SETS,
    QUICK_SPLITS,
    TABLES,
    Printed,
    Table,
)
from fisherkit.reproduction.journal import Journal, Record
from fisherkit.reproduction.splits import IDA, SIZES, UCI, n_splits
from fisherkit.reproduction.tasks import HONEST, Task, rounded
from fisherkit.whole_files import written_text

Row = dict[str, object]
MEAN = "mean of the sets"


@dataclass(frozen=True)
class Cell:
    """One method on one set: all its splits."""

    values: Mapping[int, float]  # the measure by split
    records: tuple[Record, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.values.values())))

    @property
    def sd(self) -> float:
        return float(np.std(list(self.values.values()), ddof=1)) if len(self.values) > 1 else np.nan

    @property
    def se(self) -> float:
        """Standard error of the mean over splits, as if these were independent."""
        return self.sd / sqrt(len(self.values))


def cell(
    journal: Journal, table: Table, data: str, method: str, protocol: str, splits: int = 100
) -> Cell | None:
    """A method on a set; None unless it has all the splits asked for."""
    tasks = [Task(method, data, protocol, s) for s in range(table.asked(method, data, splits))]
    if any(task not in journal for task in tasks):
        return None
    records = tuple(journal.records[task] for task in tasks)
    values = {record.task.split: _measure(record, table.measure, journal) for record in records}
    return Cell(values, records)


def _measure(record: Record, name: str, journal: Journal) -> float:
    value = record.result.get(name)
    if isinstance(value, (int, float)):
        return float(value)
    raise ValueError(
        f"{journal.folder}: the result of {record.task} has {value!r} for {name!r}, which is no "
        "number. Delete its line in journal.jsonl and in the table of its method in "
        "results/splits, and it is measured again."
    )


def published(name: str) -> dict[str, dict[str, str]]:
    """A printed table by data set."""
    text = files("fisherkit.reproduction").joinpath("published", name).read_text("utf-8")
    return {row["dataset"]: row for row in csv.DictReader(text.splitlines())}


class Quoted(NamedTuple):
    """A figure of a printed table, its spread and the share of training rows in the model."""

    mean: float
    spread: float
    share: float


def printed_values(table: Table, data: str) -> dict[Printed, Quoted]:
    """What is printed for a set, by column, where there is something."""
    quoted: dict[Printed, Quoted] = {}
    for name in table.published:
        row = published(name).get(data, {})
        for column in table.printed:
            if row.get(column.column):
                mean, spread, size = (
                    float(row.get(part) or "nan")
                    for part in (column.column, column.spread, column.size)
                )
                share = 1.0 if column.size.endswith("_pct") else 100 / SIZES[data][0]
                quoted[column] = Quoted(mean, spread, rounded(share * size, 4))
    return quoted


@dataclass(frozen=True)
class Ranks:
    """Mean ranks (1 is best) over the sets that all methods have, and the critical difference."""

    mean: dict[str, float]
    n_sets: int
    critical: float


class View:
    """A table of a paper as far as the journal fills it."""

    def __init__(
        self, journal: Journal, table: Table, *, splits: int = 100, quick: bool = False
    ) -> None:
        self.table = table
        self.sets = table.sets[:QUICK_SETS] if quick else table.sets
        splits = QUICK_SPLITS if quick else splits
        self.cells = {
            (data, *column): found
            for data in self.sets
            for column in table.columns()
            if (found := cell(journal, table, data, *column, splits)) is not None
        }

    def summary(self) -> list[Row]:
        """Rows for each set: the measured columns, then the printed; then means over the sets."""
        table = self.table
        honest = {key[:2]: found for key, found in self.cells.items() if key[2] == HONEST}
        p_values = tests(table, honest)
        rows: list[Row] = []
        for data in self.sets:
            if not any(key[0] == data for key in self.cells):
                continue
            prints = printed_values(table, data)
            for method, protocol in table.columns():
                found = self.cells.get((data, method, protocol))
                if found is None:
                    continue
                row = _measured(table, data, method, protocol, found)
                match = next((column for column in prints if column.method == method), None)
                if match is not None:
                    row |= _against(found, prints[match], n_splits(data)) | {"column": match.title}
                if protocol == HONEST and (data, method) in p_values:
                    row["p_holm"] = rounded(p_values[data, method], 3)
                rows.append(row)
            rows += [_quoted(data, column, value) for column, value in prints.items()]
        means = _means(rows, len(self.sets))
        shown = means if table.means_only else [*rows, *means]
        return shown if any("splits" in row for row in shown) else []

    def ranks(self) -> Ranks | None:
        """Mean ranks of the methods under the honest protocol, controls left out.

        Two methods differ (Nemenyi, 5 %) if their mean ranks are further apart than ``critical``.
        """
        methods = [
            method
            for method in self.table.methods
            if method not in CONTROLS
            and all((data, method, HONEST) in self.cells for data in self.sets)
        ]
        if len(methods) < 2 or len(self.sets) < 2:
            return None
        means = [[self.cells[data, m, HONEST].mean for m in methods] for data in self.sets]
        sign = -1 if self.table.measure == "auc" else 1
        mean = rankdata(sign * np.round(means, 9), axis=1).mean(axis=0)
        k, n = len(methods), len(self.sets)
        q = studentized_range.ppf(0.95, k, np.inf) / sqrt(2)
        named = {m: float(r) for m, r in zip(methods, mean, strict=True)}
        return Ranks(named, n, float(q * sqrt(k * (k + 1) / (6 * n))))


COLUMNS = (
    *("data", "method", "protocol", "splits", "asked", "originals", "mean", "sd", "se"),
    *("share", "column", "printed", "printed_sd", "difference", "in_se", "p_holm", "note"),
    *("seconds", "commit", "command"),
)


def _measured(table: Table, data: str, method: str, protocol: str, cell: Cell) -> Row:
    sizes = [r.result["size"] for r in cell.records if r.result.get("size") is not None]
    share = 100 * float(np.mean(sizes)) / SIZES[data][0] if sizes else np.nan  # type: ignore[arg-type]
    return {
        "data": data,
        "method": method,
        "protocol": protocol,
        "splits": len(cell.values),
        "asked": table.asked(method, data),
        "originals": sum(r.result["origin"] == "original" for r in cell.records),
        "mean": rounded(cell.mean, 6),
        "sd": rounded(cell.sd, 4),
        "se": rounded(cell.se, 4),
        "share": rounded(share, 4),
        "seconds": rounded(float(np.mean([r.seconds for r in cell.records])), 3),
        "commit": " ".join(sorted({r.commit for r in cell.records})),
        "command": f"fisherkit reproduce {table.name}",
    }


def _quoted(data: str, column: Printed, value: Quoted) -> Row:
    return {
        "data": data,
        "method": column.title,
        "protocol": column.kind,
        "mean": value.mean,
        "sd": value.spread,
        "share": value.share,
        "note": column.doubt,
    }


def _against(cell: Cell, printed: Quoted, n_printed: int) -> Row:
    """Difference to the printed mean, in standard errors of both where the spread is known."""
    value, spread, _ = printed
    error = sqrt(cell.se**2 + (0.0 if np.isnan(spread) else spread**2 / n_printed))
    return {
        "printed": value,
        "printed_sd": spread,
        "difference": rounded(cell.mean - value, 4),
        "in_se": rounded((cell.mean - value) / error, 3) if error > 0 else np.nan,
    }


def _means(rows: list[Row], n_sets: int) -> list[Row]:
    """Mean over the sets of each column that has all of them."""
    columns = dict.fromkeys((row["method"], row["protocol"]) for row in rows)
    means: list[Row] = []
    for method, protocol in columns:
        own = [r for r in rows if (r["method"], r["protocol"]) == (method, protocol)]
        if len(own) == n_sets > 1:
            row: Row = {"data": MEAN, "method": method, "protocol": protocol}
            for name in ("mean", "share", "printed", "difference", "seconds"):
                values = [r.get(name, np.nan) for r in own]
                row[name] = rounded(float(np.mean(values)), 6)  # type: ignore[arg-type]
            if "splits" in own[0]:
                row["splits"] = min(int(r["splits"]) for r in own)  # type: ignore[call-overload]
            row["note"] = own[0].get("note", "")
            means.append(row)
    return means


def tests(table: Table, cells: Mapping[tuple[str, str], Cell]) -> dict[tuple[str, str], float]:
    """p-values of paired tests of each method against the reference, Holm-corrected as one family.

    The splits of a set share rows, so their differences are not independent: the variance is that
    of Nadeau and Bengio (2003), s^2 (1/J + n_test/n_train).
    """
    raw: dict[tuple[str, str], float] = {}
    for (data, method), found in cells.items():
        other = cells.get((data, table.reference))
        if method in (*CONTROLS, table.reference) or other is None:
            continue
        common = sorted(found.values.keys() & other.values.keys())
        if len(common) < 2:
            continue
        d = np.array([found.values[s] - other.values[s] for s in common])
        n_train, n = SIZES[data]
        scale = d.std(ddof=1) * sqrt(1 / len(d) + (n - n_train) / n_train)
        if scale == 0:
            raw[data, method] = 1.0 if d.mean() == 0 else 0.0
        else:
            raw[data, method] = float(2 * student.sf(abs(d.mean()) / scale, len(d) - 1))
    return holm(raw)


def holm(p_values: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Holm's step-down correction."""
    corrected, largest = {}, 0.0
    for rank, key in enumerate(sorted(p_values, key=lambda key: p_values[key])):
        largest = max(largest, min(1.0, p_values[key] * (len(p_values) - rank)))
        corrected[key] = largest
    return corrected


def best_printed(data: str, *, doubtful: bool) -> tuple[Printed, Quoted] | None:
    """The smallest error printed for a set, by methods whose protocol is in doubt or by others."""
    found = [
        (column, value)
        for table in TABLES
        if table.measure == "error" and not table.means_only
        for column, value in printed_values(table, data).items()
        if bool(column.doubt) is doubtful
    ]
    return min(found, key=lambda entry: entry[1].mean) if found else None


def overview(journal: Journal, *, splits: int = 100, quick: bool = False) -> list[Row]:
    """The committee, one choice for all sets, beside grid-tuned SVC and the best printed figure."""
    rows: list[Row] = []
    for data in (*IDA, *UCI):
        table = next(t for t in TABLES if t.name == f"kfdaq-table{1 + (data in UCI)}")
        asked = QUICK_SPLITS if quick else splits
        ours = cell(journal, table, data, "committee", HONEST, asked)
        svc = cell(journal, table, data, "svc", HONEST, asked)
        if ours is None or svc is None:
            continue
        common = sorted(ours.values.keys() & svc.values.keys())
        gap = np.array([ours.values[s] - svc.values[s] for s in common])
        row: Row = {
            "data": data,
            "splits": len(common),
            "committee": rounded(ours.mean, 6),
            "se": rounded(ours.se, 4),
            "svc": rounded(svc.mean, 6),
            "difference": rounded(float(gap.mean()), 4),
            "relative": rounded(float(gap.mean()) / svc.mean, 4) if svc.mean else np.nan,
        }
        best, doubtful = best_printed(data, doubtful=False), best_printed(data, doubtful=True)
        if doubtful is not None:
            row |= {"doubtful_printed": doubtful[1].mean, "doubtful_by": doubtful[0].title}
        if best is not None:
            column, value = best
            against = _against(ours, value, n_splits(data))
            row |= {
                "best_printed": value.mean,
                "printed_by": column.title,
                "to_printed": against["difference"],
                "to_printed_in_se": against["in_se"],
            }
        rows.append(row)
    return rows


def write(path: FilePath, columns: Iterable[str], rows: Iterable[Row]) -> None:
    """Write a table as CSV; what a row lacks, and what is not a number, is left empty."""
    with written_text(path) as file:
        writer = csv.DictWriter(file, list(columns), restval="", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: "" if v != v else v for k, v in row.items()})


def typical_seconds(records: Iterable[Record]) -> dict[tuple[str, str, str], float]:
    """Median time of the tasks known, by method, set and protocol: what the next will take."""
    times: dict[tuple[str, str, str], list[float]] = {}
    for record in records:
        task = record.task
        times.setdefault((task.method, task.data, task.protocol), []).append(record.seconds)
    return {key: median(values) for key, values in times.items()}
