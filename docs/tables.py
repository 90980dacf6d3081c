"""Rewrite the numbers of the documentation from the tracked CSV files: ``python docs/tables.py``.

A table stands between the comments ``<!-- table: NAME -->`` and ``<!-- end -->``; NAME is a
function of this file or of ``docs/benchmark_tables.py``. A number within a sentence stands between
``<!-- value: EXPRESSION:FORMAT -->`` and ``<!-- end -->``; EXPRESSION is Python, and asks the files
through ``cell`` and ``column``, and the benchmark scripts for their constants through ``stated``.
A line must not begin with such a comment: Markdown would end the paragraph there. A test fails
where a page does not show what the CSV files hold.
"""

import re
import sys
from pathlib import Path
from statistics import mean, stdev

sys.path.insert(0, str(Path(__file__).parent))

import benchmark_tables
from benchmark_tables import ROOT, cell, column, markdown, read, stated

PLACE = re.compile(r"(<!-- (table|value): (.+?) -->)(.*?)(<!-- end -->)", re.DOTALL)
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


def errata_kfdaq() -> str:
    """Errors of kFDA_1 in print, and of classifiers trained anew on each of 100 splits."""
    ours = {
        row["set"]: row
        for row in read("benchmarks/results/accuracy_sparse.csv")
        if row["protocol"] == "fixed" and row["method"] == "q=1"
    }
    table = []
    for file in ("kfdaq_table1_ida.csv", "kfdaq_table2_uci.csv"):
        for row in read(f"src/fisherkit/reproduction/published/{file}"):
            own = ours.get(row["dataset"])
            if own is not None:
                kept = round(float(row["q1_nrs_pct"]) * int(row["n_train"]) / 100)
                table.append(
                    [
                        row["dataset"].replace("_", " "),
                        f"{float(row['q1_mcr']):.1f} ± {float(row['q1_pm']):.1f}",
                        f"{float(own['error']):.1f} ± {float(own['sd']):.1f}",
                        f"{row['q1_nrs_pct']} %: {kept} of {row['n_train']}",
                    ]
                )
    return markdown(["set", "in print", "trained on each split", "retained, in print"], table)


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


def large_plans() -> str:
    """Error and wall time of fits that are planned by time, beside boosted trees."""
    table, last = [], ""
    for row in read("benchmarks/results/large_plans_accuracy.csv"):
        name = "" if row["set"] == last else f"{row['set']}, {int(row['rows']):,} rows"
        digits = 3 if float(row["error_percent"]) < 0.1 else 2
        error, centres = f"{float(row['error_percent']):.{digits}f}", row["plan"].split(" ")
        kept = {"": "", "All": "all"}.get(centres[0], centres[0])
        table.append([name, row["model"], kept, f"{float(row['seconds']):.1f}", error])
        last = row["set"]
    return markdown(["set", "model", "centres", "fit, s", "held-out error, %"], table)


def large_plans_command() -> str:
    """Wall time of the command from the start of its process, and what it chose."""
    table = [
        [
            row["set"],
            row["time"],
            f"{float(row['seconds']):.0f}",
            row["held_out_error"],
            row["plan"],
        ]
        for row in read("benchmarks/results/large_plans_command.csv")
    ]
    return markdown(["set", "`--time`", "seconds", "held-out error", "plan"], table)


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
    million, exact, press, log_loss, more = read("benchmarks/results/large_gpu.csv")
    lines = [
        [
            "1,000,000 rows, d = 20, 10,000 centres, 25 μ by leave-one-out error",
            f"{float(million['seconds']):.1f} s",
            "",
        ],
        [
            "10,000,000 rows in the memory of the host, d = 20, 5,000 centres",
            f"{float(more['seconds']):.1f} s",
            "",
        ],
        [
            "16,384 rows, every row a centre",
            f"{float(exact['seconds']):.1f} s",
            f"{float(exact['ratio']):.2f} times one `torch.linalg.eigh`",
        ],
    ]
    for criterion, row in (("PRESS", press), ("calibrated log-loss", log_loss)):
        lines.append(
            [
                f"mnist, ten classes, 60,000 rows, every row a centre, width and μ by {criterion}",
                f"{float(row['seconds']):.1f} s",
                f"{float(row['error_percent']):.2f} % test error, left out exactly "
                f"{float(row['left_out_error_percent']):.2f} %",
            ]
        )
    return markdown(["fit", "time", ""], lines)


def committee_sets() -> str:
    methods = ("press", "best", "rbf", "average", "stack")
    table = []
    for row in read("benchmarks/results/accuracy_committee.csv"):
        name = row["set"].replace("_", " ")
        cells = [f"{float(row[f'{method}_error']):.2f}" for method in methods]
        losses = [f"{float(row[f'{method}_log_loss']):.3f}" for method in ("press", "average")]
        if name == "all":
            name = "**ratio** to the pick, mean log-loss"
        table.append([name, *cells, *losses])
    head = ["set", "PRESS pick", "best member", "average, rbf alone", "average", "stack"]
    return markdown([*head, "log-loss of the pick", "… of the average"], table)


def committee_digits() -> str:
    rows = {
        "committee_log_loss": "the committee",
        "ranked_first_log_loss": "the member that leave-one-out ranks first",
        "pick_log_loss": "the PRESS pick (`KernelFisherClassifier()`)",
        "hindsight_log_loss": "the best member in hindsight, which nobody can know",
    }
    table = [[text, f"{mean(column('pages_digits', name)):.3f}"] for name, text in rows.items()]
    return markdown(["test log-loss, mean of ten splits", ""], table)


def _halves(advice: dict[str, tuple[str, str]]) -> str:
    table = []
    for method, (name, use) in advice.items():
        kernels, error = (
            cell("pages_halves", what, method=method) for what in ("kernels", "error")
        )
        table.append([name, f"{kernels:.0f}", f"{error:.1f} %", use])
    return markdown(["classifier", "kernels", "test error", "use it if"], table)


def sparse_halves() -> str:
    return _halves(
        {
            "full": (
                "`KernelFisherClassifier()`",
                "error and tuning time matter more than size; the first to try",
            ),
            "q=1": ("`SparseFisherClassifier(q=1)`", "you want one well-defined optimum"),
            "q=0.5": (
                "`SparseFisherClassifier(q=0.5)`",
                "you want fewer kernels and can live with a local minimum",
            ),
            "loo_error": (
                "[`ForwardFisherClassifier()`](forward.md)",
                "you want very few kernels, or a cap on their number (`max_terms`)",
            ),
            "press": ('… `criterion="press"`', "as above, with a smoother criterion"),
            "err": ('… `criterion="err"`', "you want the cheapest steps"),
        }
    )


def forward_halves() -> str:
    return _halves(
        {
            "loo_error": ('`criterion="loo_error"`', "you want very few kernels"),
            "press": (
                '`criterion="press"`',
                "a smoother criterion is worth more terms to you",
            ),
            "err": (
                '`criterion="err"`',
                "steps must be cheap, or `select` is to set the size",
            ),
            "q=1": (
                "[`SparseFisherClassifier(q=1)`](sparse.md)",
                "you want an optimum rather than a greedy search",
            ),
            "q=0.5": (
                "`SparseFisherClassifier(q=0.5)`",
                "you want a sparse model refined jointly",
            ),
            "full": ("`KernelFisherClassifier()`", "size does not matter; the first to try"),
        }
    )


def bayes_auc() -> str:
    """Our AUC beside those that Tables 2 and 3 of the BFD paper print."""
    folder = "src/fisherkit/reproduction/published/"
    printed = {}
    for kernel, file in (("rbf", "bfd_table2_rbf_auc.csv"), ("ard", "bfd_table3_ard_auc.csv")):
        for row in read(folder + file):
            printed[kernel, row["dataset"]] = row["BFD"]
    table = []
    for row in read("benchmarks/results/bayes_auc_summary.csv"):
        name = row["set"]
        cells = []
        for kernel in ("rbf", "ard"):
            cells += [f"{float(row[f'{kernel}_auc']):.1f}", printed[kernel, name]]
        table.append([name.replace("_", " "), *cells, f"{float(row['ard_minus_rbf']):+.2f}"])
    head = ["set", "one width", "paper", "one per feature", "paper", "gain of the latter"]
    return markdown(head, table)


def relevance_widths() -> str:
    methods, found = ("one width", "one per feature", "before"), {}
    for row in read("benchmarks/results/relevance_loo.csv"):
        found[row["set"], row["method"]] = row
    table = [
        [
            name.replace("_", " "),
            found[name, "one width"]["n"],
            *(f"{float(found[name, method]['error']):.1f}" for method in methods),
            *(f"{float(found[name, method]['log_loss']):.3f}" for method in methods),
            *(f"{float(found[name, method]['seconds']):.2f}" for method in methods),
        ]
        for name in dict.fromkeys(name for name, _ in found)
    ]
    short = ("one", "each", "climb")
    kinds = ("error %", "log-loss", "seconds")
    head = ["set", "n", *(f"{kind}: {method}" for kind in kinds for method in short)]
    return markdown(head, table)


def lead(name: str, peer: str, measure: str = "error") -> list[float]:
    """By how much a peer is ahead of the committee on a set: mean over splits, standard error."""
    ours, theirs = (
        column("accuracy_peers_splits", measure, set=name, method=method)
        for method in ("average", peer)
    )
    gaps = [own - other for own, other in zip(ours, theirs, strict=True)]
    return [mean(gaps), stdev(gaps) / len(gaps) ** 0.5]


def ratios(file: str, name: str, other: str, **where: object) -> list[float]:
    """One column over another, row by row."""
    pair = column(file, name, **where), column(file, other, **where)
    return [own / peer for own, peer in zip(*pair, strict=True)]


def reproduction_seconds(method: str = "*") -> list[float]:
    """Processor time of the fit of every task of the reproduction, or of one method."""
    files = sorted((ROOT / "reproduction" / "results" / "runs").glob(f"{method}.csv"))
    return [float(row["seconds"]) for file in files for row in read(str(file))]


NAMES = {
    "cell": cell,
    "column": column,
    "reproduction_seconds": reproduction_seconds,
    "lead": lead,
    "mean": mean,
    "ratios": ratios,
    "stated": stated,
}


def shown(kind: str, text: str) -> str:
    """What belongs between the comments: a table on lines of its own, or one number."""
    if kind == "table":
        table = getattr(benchmark_tables, text, None) or globals()[text]
        return "\n" + table()
    expression, _, spec = text.rpartition(":")
    return format(eval(expression, NAMES), spec)


def rewritten(text: str) -> str:
    return PLACE.sub(lambda place: place[1] + shown(place[2], place[3]) + place[5], text)


if __name__ == "__main__":
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        page.write_text(rewritten(text), encoding="utf-8")
