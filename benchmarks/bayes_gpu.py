"""The Bayesian Fisher discriminant on a GPU, through the array API.

Exact fits of n rows on the GPU beside the same fit in NumPy on all cores of that machine, and one
million rows with 1,000 inducing points.

    SCIPY_ARRAY_API=1 python benchmarks/bayes_gpu.py
"""

import numpy as np
import sklearn
import torch
from _common import Row, print_table, timed, write_csv

from fisherkit import BayesianFisherClassifier
from fisherkit.datasets import make_ringnorm


def row(n: int, m: int | None, *, on_host: bool) -> Row:
    X, y = make_ringnorm(n + 10_000, random_state=0)
    model = BayesianFisherClassifier(n_inducing=m, random_state=0)
    host = np.nan
    if on_host:
        host, fitted = timed(lambda: model.fit(X[:n], y[:n]))
        on_cpu = fitted.decision_function(X[n:])
    X_gpu, y_gpu = torch.asarray(X, device="cuda"), torch.asarray(y, device="cuda")
    with sklearn.config_context(array_api_dispatch=True):
        BayesianFisherClassifier(random_state=0).fit(X_gpu[:500], y_gpu[:500])  # warm up

        def fit() -> BayesianFisherClassifier:
            model.fit(X_gpu[:n], y_gpu[:n])
            torch.cuda.synchronize()
            return model

        seconds, fitted = timed(fit)
        decision = fitted.decision_function(X_gpu[n:]).cpu().numpy()
    return {
        "n": n,
        "inducing": m if m is not None and m < n else "-",
        "gpu": torch.cuda.get_device_name(),
        "gpu_s": seconds,
        "cpu_s": host,
        "ratio": host / seconds,
        "largest_difference": float(np.max(np.abs(decision - on_cpu))) if on_host else np.nan,
        "error_percent": 100 * float(np.mean((decision > 0) != (y[n:] == 1))),
        "evaluations": sum(climb.evaluations for climb in fitted.restarts_),
        "peak_gpu_gb": torch.cuda.max_memory_allocated() / 1e9,
    }


def main() -> None:
    rows = [
        row(4000, 4000, on_host=True),
        row(16_000, 16_000, on_host=False),
        row(100_000, 200, on_host=True),
        row(1_000_000, 1000, on_host=False),
    ]
    write_csv("bayes_gpu", rows)
    print_table(rows)


if __name__ == "__main__":
    main()
