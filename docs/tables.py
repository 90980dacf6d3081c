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


def rewritten(text: str) -> str:
    return PLACE.sub(lambda place: f"{place[1]}{globals()[place[2]]()}{place[4]}", text)


if __name__ == "__main__":
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        page.write_text(rewritten(text), encoding="utf-8")
