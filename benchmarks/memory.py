"""Peak resident memory of one fit, each case in a fresh process (Linux).

The peak is VmHWM of the process; `beyond` subtracts what it held just before the fit, with
everything imported, the thread pools started and X in memory. On the full path the unit is one
n x n matrix of doubles: K itself and at most 1.3 more.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from _common import Row, make_gaussians, print_table, write_csv

from fisherkit import KernelFisherClassifier
from fisherkit.datasets import make_torus

FULL_LIMIT_UNITS = 2.3
LOW_RANK_LIMIT_BYTES = 2e9
LOW_RANK_LIMIT_RANK = 1000
FULL = {
    "full": {"gamma": 0.1, "basis": "full"},
    "full, 5 folds": {"gamma": 0.1, "basis": "full", "cv": 5},
    "full, width tuned": {},
}
CASES = [("full", 4000), ("full", 6000), *((path, 4000) for path in FULL if path != "full")]
CASES += [("low-rank", 50_000)]


def resident(field: str) -> int:
    """VmRSS (now) or VmHWM (peak) of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no field {field}")


def measure(path: str, n: int) -> Row:
    if path in FULL:
        X, y = make_gaussians(n, 10, random_state=0)
        model = KernelFisherClassifier(random_state=0, **FULL[path])
    else:
        X, y = make_torus(n, random_state=0)
        model = KernelFisherClassifier(gamma=0.5, random_state=0)
    KernelFisherClassifier(gamma=0.5).fit(X[:600], y[:600])
    before = resident("VmRSS")
    model.fit(X, y)
    peak = resident("VmHWM")
    units = (peak - before) / (8 * n**2)
    rank = model.selection_.rank
    if path in FULL:
        limit, holds = f"{FULL_LIMIT_UNITS} units beyond", units <= FULL_LIMIT_UNITS
    else:
        limit = f"{LOW_RANK_LIMIT_BYTES / 1e9:g} GB in all, rank < {LOW_RANK_LIMIT_RANK}"
        holds = peak < LOW_RANK_LIMIT_BYTES and rank < LOW_RANK_LIMIT_RANK
    return {
        "path": path,
        "n": n,
        "d": X.shape[1],
        "rank": rank,
        "method": model.selection_.method,
        "before_mb": before / 1e6,
        "peak_mb": peak / 1e6,
        "beyond_mb": (peak - before) / 1e6,
        "beyond_units_8n2": units,
        "limit": limit,
        "holds": holds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", nargs=2, metavar=("PATH", "N"), help="measure here, print JSON")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case[0], int(options.case[1]))))
        return
    rows = []
    for path, n in CASES:
        command = [sys.executable, __file__, "--case", path, str(n)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append(json.loads(output))
    print_table(rows)
    write_csv("memory", rows)


if __name__ == "__main__":
    main()
