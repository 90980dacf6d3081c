"""What learning costs where there is nothing to learn: tables of pure noise.

200 columns of normal numbers, labels by a coin, 20 draws; test log-loss on 2,000 other rows, less
that of the class shares of the training rows. Learned relevance has 200 chances to be fooled.

    python benchmarks/tables_noise.py
"""

import time

import numpy as np
from _common import Row, print_table, write_csv

from fisherkit import TableClassifier

SIZES, COLUMNS, DRAWS, TEST = (150, 400), 200, 20, 2000


def log_loss(P: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(P[np.arange(len(y)), y]).mean())


def excess(n: int, draw: int) -> tuple[float, float]:
    """Log-loss beyond that of the class shares, and processor seconds."""
    rng = np.random.default_rng([n, draw])
    X, y = rng.normal(size=(n + TEST, COLUMNS)), rng.integers(0, 2, n + TEST)
    start = time.process_time()
    model = TableClassifier().fit(X[:n], y[:n])
    seconds = time.process_time() - start
    shares = np.tile(np.bincount(y[:n]) / n, (TEST, 1))
    return log_loss(model.predict_proba(X[n:]), y[n:]) - log_loss(shares, y[n:]), seconds


def main() -> None:
    rows: list[Row] = []
    for n in SIZES:
        found, seconds = np.array([excess(n, draw) for draw in range(DRAWS)]).T
        rows.append(
            {
                "n": n,
                "columns": COLUMNS,
                "draws": DRAWS,
                "excess_log_loss": float(found.mean()),
                "standard_error": float(found.std(ddof=1) / DRAWS**0.5),
                "largest": float(found.max()),
                "seconds": float(seconds.mean()),
            }
        )
    print_table(rows)
    write_csv("tables_noise", rows)


if __name__ == "__main__":
    main()
