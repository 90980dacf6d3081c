"""What the pages ask of the tracked CSV files, and the tables of README and benchmarks page."""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
REPRODUCED = ROOT / "reproduction" / "results"
# how the README orders and names the data sets of benchmarks/readme.py
README_SETS = {
    "wisconsin": "breast cancer",
    "heart": "heart",
    "banana": "banana",
    "diabetis": "diabetis",
    "ringnorm": "ringnorm",
}


def read(path: str) -> list[dict[str, str]]:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def column(file: str, name: str, **where: object) -> list:
    """Numbers of a column of a tracked <file>.csv, in the rows where all of ``where`` is.

    The file is one of benchmarks/results or, if it is not there, of reproduction/results. Signs of
    a column's name other than letters and digits are underscores in ``where``.
    """
    found = []
    folder = RESULTS if (RESULTS / f"{file}.csv").exists() else REPRODUCED
    for row in read(str((folder / f"{file}.csv").relative_to(ROOT))):
        plain = {re.sub(r"\W", "_", key): value for key, value in row.items()}
        if all(plain[key] == str(value) for key, value in where.items()):
            found.append(float(row[name]))
    if not found:
        raise LookupError(f"{file}.csv has no row with {where}")
    return found


def cell(file: str, name: str, **where: object) -> float:
    """The number of a column in the one row where all of ``where`` is."""
    (value,) = column(file, name, **where)
    return value


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def short(value: str | float, digits: int = 2) -> str:
    """Two significant digits, without an exponent: 0.035, 7.4, 290."""
    text = f"{float(value):.{digits}g}"
    return f"{float(text):,.0f}" if abs(float(text)) >= 10 ** (digits - 1) else text


def stated(script: str, name: str) -> str:
    """A constant of a benchmark script, as it is written there."""
    text = (ROOT / "benchmarks" / script).read_text(encoding="utf-8")
    return re.search(rf"^{name} = (\S+)", text, re.M)[1]


def readme_comparison() -> str:
    rows = read("benchmarks/results/readme.csv")
    own = sum(float(row["seconds"]) for row in rows if row["method"] == rows[0]["method"])
    table = []
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = {row["set"]: row for row in rows if row["method"] == method}
        errors = [float(mine[name]["error"]) for name in README_SETS]
        seconds = sum(float(row["seconds"]) for row in mine.values())
        table.append(
            [
                f"`{method}`"
                if "+" not in method
                else " + ".join(f"`{part}`" for part in method.split(" + ")),
                *(f"{error:.1f}" for error in errors),
                f"{sum(errors) / len(errors):.1f}",
                f"{seconds / own:.1f}",
                "yes" if mine["heart"]["probabilities"] == "True" else "no",
            ]
        )
    head = ["test error, %", *README_SETS.values(), "mean", "time", "probabilities"]
    return markdown(head, table)


def comparison_differences() -> str:
    rows = read("benchmarks/results/readme.csv")
    table = []
    for method in list(dict.fromkeys(row["method"] for row in rows))[1:]:
        mine = {row["set"]: row for row in rows if row["method"] == method}
        table.append(
            [
                method,
                *(
                    f"{float(mine[name]['minus_first']):+.2f} ± "
                    f"{float(mine[name]['standard_error']):.2f}"
                    for name in README_SETS
                ),
            ]
        )
    return markdown(["classifier", *README_SETS.values()], table)


def comparison_seconds() -> str:
    rows = read("benchmarks/results/readme.csv")
    table = []
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = {
            row["set"]: float(row["seconds"]) / int(row["splits"])
            for row in rows
            if row["method"] == method
        }
        table.append([method, *(f"{mine[name]:.2f}" for name in README_SETS)])
    sizes = {row["set"]: row["rows"] for row in rows}
    return markdown(
        ["classifier", *(f"{title}, n = {sizes[name]}" for name, title in README_SETS.items())],
        table,
    )


def classes_ratios() -> str:
    table = [
        [
            f"`{row['method']}`",
            f"`{row['against']}`",
            row["tables"],
            row["splits"],
            *(
                f"{float(row[name]):.2f}" + (f" (at most {row[limit]})" if row[limit] else "")
                for name, limit in (("error", "error_limit"), ("log_loss", "log_loss_limit"))
            ),
        ]
        for row in read("benchmarks/results/classes_summary.csv")
    ]
    return markdown(["method", "against", "tables", "splits", "error", "log-loss"], table)


def classes_reliability() -> str:
    rows = read("benchmarks/results/classes_reliability.csv")
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found = {(row["table"], row["method"]): row["calibration_error"] for row in rows}
    table = []
    for name in dict.fromkeys(row["table"] for row in rows):
        cells = [found.get((name, method)) for method in methods]
        table.append([name, *("" if cell is None else f"{float(cell):.3f}" for cell in cells)])
    return markdown(["table", *(f"`{method}`" for method in methods)], table)


def tuning() -> str:
    table = []
    for part in ("torus", "fullrank", "centres"):
        for row in read(f"benchmarks/results/tuning_cost_{part}.csv"):
            threads = "one" if row.get("threads") == "1" else "two"
            table.append(
                [
                    f"{int(row['n']):,}",
                    row["rank"],
                    f"`{row['peer']}`",
                    threads,
                    short(row["fisherkit_s"]),
                    short(row["peer_s"]),
                    short(row["ratio"]),
                ]
            )
    return markdown(["rows", "rank", "peer", "threads", "fisherkit, s", "peer, s", "ratio"], table)


def versus_svc() -> str:
    table = []
    for row in read("benchmarks/results/versus_svc.csv"):
        errors = [
            f"{float(row[name]):.2f}" if row[name] else ""
            for name in ("fisherkit_error", "svc_error")
        ]
        difference = (
            f"{float(row['difference']):+.2f} ± {float(row['difference_se']):.2f}"
            if row["difference"]
            else ""
        )
        times = [f"{float(row[name]):.1f}" for name in ("fisherkit_s", "svc_s", "times_faster")]
        table.append([row["grid"], row["family"], row["draws"], *times, *errors, difference])
    head = ["grid", "family", "draws", "fisherkit, s", "SVC, s", "SVC / fisherkit"]
    return markdown([*head, "error, %", "error of SVC, %", "difference"], table)


def other_ratios() -> str:
    """One line for each closed form that a peer computes too."""
    (memory,) = [row for row in read("benchmarks/results/memory.csv") if row["path"] == "low-rank"]
    gpc = {row["kernel"]: row for row in read("benchmarks/results/bayes_versus_gpc.csv")}
    (permutation,) = read("benchmarks/results/permutation_cost.csv")
    (conformal,) = read("benchmarks/results/conformal_speed.csv")
    lines = [
        (
            f"`BayesianFisherClassifier`, n = {gpc[kernel]['n']}, {widths}: all hyper-parameters",
            gpc[kernel]["fisherkit_s"],
            "`GaussianProcessClassifier`, same kernel and starts",
            gpc[kernel]["gpc_s"],
        )
        for kernel, widths in (("rbf", "one width"), ("ard", f"{gpc['ard']['d']} widths"))
    ]
    path = "lasso path, 20 rho, N=1000, "
    lines += [
        (
            "`SparseFisherClassifier`: 20 lassos to optimality, n = 1000",
            cell("sparse_path", "seconds", case=path + "fisherkit"),
            peer,
            cell("sparse_path", "seconds", case=path + case),
        )
        for case, peer in (
            ("sklearn", "`lasso_path`, its default tolerance"),
            ("sklearn_converged", "`lasso_path` to the same objective"),
            ("skglm", "skglm"),
        )
    ]
    lines += [
        (
            "q = 0.5 on 200 candidates, n = 2000, calibrated on 5 folds",
            cell("sparse_lq", "seconds", case="q=0.5, 200 candidates: fit with 5-fold calibration"),
            "`SVC`, calibrated on 5 folds",
            cell("sparse_lq", "seconds", case="SVC with 5-fold calibration"),
        ),
        (
            f"{int(permutation['permutations']):,} leave-one-out permutations, "
            f"n = {permutation['rows']}, parameters given",
            permutation["ours s"],
            "refits (extrapolated)",
            permutation["refits s (extrapolated)"],
        ),
        (
            "L1 distances, n = 2000, 60 features, compiled",
            cell("committee_laplacian", "fisherkit_s", path="numba"),
            "`laplacian_kernel`",
            cell("committee_laplacian", "sklearn_s", path="numba"),
        ),
    ]
    table = [
        [what, short(ours), peer, short(theirs), short(float(theirs) / float(ours))]
        for what, ours, peer, theirs in lines
    ]
    table += [
        [
            f"full conformal sets for {int(conformal['tested']):,} rows, n = {conformal['rows']}",
            short(conformal["full s"]),
            "",
            "",
            "",
        ],
        [
            f"a fit of {int(memory['n']):,} rows, rank {memory['rank']}: "
            f"{float(memory['peak_mb']) / 1000:.2f} GB in all",
            "",
            "",
            "",
            "",
        ],
    ]
    return markdown(["what", "fisherkit, s", "peer", "peer, s", "peer / fisherkit"], table)


# of files with limits that a row misses: what names the row, and text, column, limit of each
LIMITS = {
    "classes_summary": (
        ("method", "against"),
        (
            ("{:.2f} of the error ({})", "error", "error_limit"),
            ("{:.2f} of the log-loss ({})", "log_loss", "log_loss_limit"),
        ),
    ),
    "classes_reliability": (
        ("table", "method"),
        (("calibration error {:.3f} ({})", "calibration_error", "limit"),),
    ),
    "classes_cost": (("n", "classes"), (("{:.2f} s ({})", "decision_s", "limit_s"),)),
    "accuracy_sparse": (
        ("set", "method"),
        (
            ("{:.2f} % errors ({})", "error", "error_limit"),
            ("{:.2g} % of the rows retained ({})", "retained", "retained_target"),
        ),
    ),
    "bayes_auc_summary": (("set",), (("AUC {:.2f} ({})", "rbf_auc", "rbf_reference"),)),
    "large_rows": (
        ("rows",),
        (("{:.2f} times the work ({})", "ratio", stated("large_rows.py", "LIMIT")),),
    ),
    "memory": (("path", "n"), (("{:.2f} n x n matrices ({})", "beyond_units_8n2", "limit"),)),
    "versus_svc": (
        ("grid", "family"),
        (
            ("{:.3g} times faster ({})", "times_faster", "faster_limit"),
            ("{:+.2f} points of error ({})", "difference", "difference_limit"),
        ),
    ),
}


def missed_limits() -> str:
    """Every row of a results file that does not keep the limit it was given."""
    table = []
    for path in sorted(RESULTS.glob("*.csv")):
        rows = read(str(path.relative_to(ROOT)))
        for name in rows[0]:
            for row in rows if name.endswith("holds") else ():
                if row[name] == "False":
                    keys, limits = LIMITS[path.stem]
                    what = ", ".join(row[key].replace("_", " ") for key in keys)
                    found = [
                        text.format(float(row[value]), row.get(limit, limit))
                        for text, value, limit in limits
                        if row.get(limit, limit)
                    ]
                    table.append([f"`{path.name}`", what, ", ".join(found)])
    return markdown(["file", "row", "measured, and the limit in brackets"], table)


def recorded() -> str:
    """Command, threads, processor and versions of every results file, as the file says."""
    table = []
    for path in sorted(RESULTS.glob("*.csv")):
        head = [
            line.removeprefix("# ")
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.startswith("#")
        ]
        command = re.sub(r"^commands?: ", "", head[0])
        command = re.sub(r" --folder \S+", "", command)
        machine = re.sub("(threads|cpu): ", "", head[-1])
        table.append([path.stem, f"`{command}`", machine])
    return markdown(["results", "command", "threads, processor, versions"], table)


def history() -> str:
    """The ratios of every recorded commit, oldest first."""
    rows = read("benchmarks/results/history.csv")
    names = list(dict.fromkeys(row["ratio_of"] for row in rows))
    table = []
    for key in dict.fromkeys((row["date"], row["commit"]) for row in rows):
        values = {
            row["ratio_of"]: row["ratio"] for row in rows if (row["date"], row["commit"]) == key
        }
        table.append([*key, *(short(values[name]) if name in values else "" for name in names)])
    return markdown(["date", "commit", *names], table)


TABLE_PEERS = {
    "table": "`TableClassifier()`",
    "fast": "`TableClassifier(learn=False)`",
    "catboost": "CatBoost",
    "catboost_once": "CatBoost, one fit at its defaults",
    "lightgbm": "LightGBM, tuned",
    "xrfm": "xRFM, tuned",
    "extratrees": "ExtraTrees",
    "xgboost": "XGBoost",
    "boosting": "HistGradientBoosting",
    "svc": "SVC, tuned",
    "logistic": "LogisticRegressionCV",
    "committee": "`FisherCommitteeClassifier` on indicators",
    "committee before": "`FisherCommitteeClassifier` on indicators, an earlier version",
}


def tables_peers() -> str:
    """Mean ranks, and TableClassifier over each peer."""
    rows = {row["method"]: row for row in read("benchmarks/results/tables_summary.csv")}
    table = []
    for method in [method for method in TABLE_PEERS if method in rows]:
        row = rows[method]
        ranks = [row[f"rank_{name}"] for name in ("error", "log_loss")]
        cells = ["" if rank in ("", "nan") else f"{float(rank):.1f}" for rank in ranks]
        ratios = [f"{float(row[f'table_{name}']):.2f}" for name in ("error", "log_loss", "seconds")]
        table.append([TABLE_PEERS[method], *cells, *ratios, row["table_fits"]])
    head = ["", "rank, error", "rank, log-loss", "error", "log-loss", "time", "fits"]
    return markdown(head, table)


def tables_choice() -> str:
    """Variants of TableClassifier over its default, on both halves of the tables."""
    names = [f"{name}_{half}" for half in ("A", "B") for name in ("error", "log_loss")]
    table = [
        [row["variant"], *(f"{float(row[name]):.3f}" for name in (*names, "seconds_both"))]
        for row in read("benchmarks/results/tables_choice_summary.csv")
    ]
    head = ["", "error, A", "log-loss, A", "error, B", "log-loss, B", "time"]
    return markdown(head, table)
