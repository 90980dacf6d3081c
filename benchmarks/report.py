"""Time, memory and size of the report, beside the fit that it describes.

    python benchmarks/report.py

Rows of two classes that overlap, 20 features, 500 centres, a width by rule of thumb: one
decomposition in the fit and one in the report, which prices every mu again row by row.
"""

import resource

import numpy as np
import pandas as pd
from _common import Row, print_table, timed, write_csv
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from fisherkit import KernelFisherClassifier
from fisherkit.report import render
from fisherkit.training.fitting import Training


def measure(n: int) -> Row:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 20)), columns=[f"x{j}" for j in range(20)])
    y = np.where(X["x0"] * X["x1"] + X["x2"] + rng.normal(size=n) > 0, "yes", "no")
    model = Pipeline(
        [
            ("prepare", ColumnTransformer([("numbers", StandardScaler(), list(X.columns))])),
            ("classify", KernelFisherClassifier(gamma="scale", n_components=500, random_state=0)),
        ]
    )
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
