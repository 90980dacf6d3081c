"""Time, memory and size of the report, beside the fit that it describes.

    python benchmarks/report.py

Rows of two classes that overlap, 20 columns, 500 centres, a width by rule of thumb: one
decomposition in the fit; in the report one for the path over mu, which prices every mu again row by
row, and one for the columns that matter. No other methods are compared.
"""

import resource

import numpy as np
import pandas as pd
from _common import Row, print_table, timed, write_csv

from fisherkit import TableClassifier
from fisherkit.report import render
from fisherkit.training.fitting import Training


def measure(n: int) -> Row:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 20)), columns=[f"x{j}" for j in range(20)])
    y = np.where(X["x0"] * X["x1"] + X["x2"] + rng.normal(size=n) > 0, "yes", "no")
    model = TableClassifier("fisher", centres=500, parameters={"gamma": "scale"})
    fit_seconds, _ = timed(lambda: model.fit(X, y))
    training = Training(model, X, y, "y", "rows", "fisher", None, "", (), fit_seconds)
    seconds, page = timed(lambda: render(training))
    return {
        "rows": n,
        "fit_s": round(fit_seconds, 2),
        "report_s": round(seconds, 2),
        "page_mb": round(len(page.encode()) / 1e6, 2),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }


if __name__ == "__main__":
    rows = [measure(n) for n in (1_000, 5_000, 20_000, 45_000)]
    print_table(rows)
    write_csv("report", rows)
