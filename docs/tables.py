"""Rewrite the tables of the documentation from the tracked CSV files: ``python docs/tables.py``.

A table stands between the comments ``<!-- table: NAME -->`` and ``<!-- end -->``; NAME is a
function of this file. A test fails where a page does not show what the CSV files hold.
"""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = re.compile(r"(<!-- table: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
PEERS = {
    "average": "committee",
    "svc": "SVC",
    "extra": "ExtraTrees",
    "forest": "RandomForest",
    "boosting": "HistGradientBoosting",
    "logistic": "LogisticRegression",
    "neighbours": "KNeighbors",
    "process": "GaussianProcess",
}


def read(path: str) -> list[dict[str, str]]:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def peers_ranks() -> str:
    rows = read("benchmarks/results/accuracy_peers.csv")
    some, all_sets = rows[-2:]
    table = []
    for measure, title, digits in (
        ("error", "mean rank in error", 2),
        ("log_loss", "mean rank in log-loss", 2),
        ("s", "tuning, processor seconds", 0),
    ):
        for row in (some, all_sets):
            values = [row[f"{method}_{measure}"] for method in PEERS]
            cells = [f"{float(value):.{digits}f}" if value else "" for value in values]
            table.append([f"{title}, {row['splits']} sets", *cells])
    return markdown(["", *PEERS.values()], table)


def peers_sets() -> str:
    table = []
    for row in read("benchmarks/results/accuracy_peers.csv")[:-2]:
        cells = [
            f"{float(row[f'{method}_error']):.1f} / {float(row[f'{method}_log_loss']):.3f}"
            if row[f"{method}_error"]
            else ""
            for method in PEERS
        ]
        table.append([row["set"].replace("_", " "), row["splits"], *cells])
    return markdown(["set", "splits", *PEERS.values()], table)


def large_width() -> str:
    rows = read("benchmarks/results/large_width.csv")
    factors = dict.fromkeys(float(row["gamma_over_tuned"]) for row in rows)
    table = []
    for name in dict.fromkeys(row["set"] for row in rows):
        errors = [float(row["error_percent"]) for row in rows if row["set"] == name]
        digits = 3 if max(errors) < 1 else 2
        table.append([name, *(f"{error:.{digits}f}" for error in errors)])
    return markdown(["set", *(f"{factor:g} γ" for factor in factors)], table)


def bases() -> str:
    rows = read("benchmarks/results/bases.csv")
    kinds = dict.fromkeys(row["basis"] for row in rows)
    table = []
    for name, m in dict.fromkeys((row["set"], row["centres"]) for row in rows):
        some = {r["basis"]: r for r in rows if (r["set"], r["centres"]) == (name, m)}
        errors = [f"{float(some[kind]['error_percent']):.1f}" for kind in kinds]
        seconds = [f"{float(some['greedy'][part]):.2f}" for part in ("choose_s", "fit_s")]
        label = f"{name}, {int(some['random']['rows']):,} rows"
        table.append(["" if m != "50" else label, m, *errors, *seconds])
    return markdown(["set", "centres", *kinds, "greedy choice, s", "fit, s"], table)


def large_real() -> str:
    table, last = [], ""
    for row in read("benchmarks/results/large_real.csv"):
        name = "" if row["set"] == last else f"{row['set']}, {int(row['rows']):,} rows"
        digits = 3 if float(row["error_percent"]) < 1 else 2
        error = f"{float(row['error_percent']):.{digits}f}"
        table.append([name, row["model"], f"{float(row['fit_s']):.1f}", error])
        last = row["set"]
    return markdown(["set", "model", "fit, processor seconds", "test error, %"], table)


def large_rows() -> str:
    table = [
        [
            f"{int(row['rows']):,}",
            *(f"{float(row[name]):.1f}" for name in ("seconds", "bound")),
            *(f"{float(row[name]):.2f}" for name in ("ratio", "peak_gb")),
        ]
        for row in read("benchmarks/results/large_rows.csv")
    ]
    return markdown(["rows", "fit, s", "work, s", "ratio", "peak memory, GB"], table)


def large_dask() -> str:
    table = [
        [
            *(f"{int(row[name]):,}" for name in ("rows", "chunks", "centres")),
            row["data_gb"],
            row["error_percent"],
            row["client_gb"],
            row["worker_gb"],
        ]
        for row in read("benchmarks/results/large_dask.csv")
    ]
    head = ["rows", "chunks", "centres", "data, GB", "test error, %"]
    return markdown([*head, "client, peak GB", "worker, peak GB"], table)


def large_gpu() -> str:
    million, exact, mnist = read("benchmarks/results/large_gpu.csv")
    lines = [
        [
            "1,000,000 rows, d = 20, 10,000 centres, 25 μ by leave-one-out error",
            f"{float(million['seconds']):.1f} s",
            "",
        ],
        [
            "16,384 rows, every row a centre",
            f"{float(exact['seconds']):.1f} s",
            f"{float(exact['ratio']):.2f} × one `torch.linalg.eigh`",
        ],
        [
            "mnist, ten classes, 60,000 rows, 10,000 centres, width tuned",
            f"{float(mnist['seconds']):.1f} s",
            f"{float(mnist['error_percent']):.2f} % test error",
        ],
    ]
    return markdown(["fit", "time", ""], lines)


def rewritten(text: str) -> str:
    return PLACE.sub(lambda place: f"{place[1]}{globals()[place[2]]()}{place[4]}", text)


if __name__ == "__main__":
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        page.write_text(rewritten(text), encoding="utf-8")
