"""One width per feature by leave-one-out: what the guard against over-fitting the criterion costs.

Test errors of KernelFisherClassifier on small training parts: one width for all, one width per
feature without a guard (a spread of 2 whatever other rows say) and with it (ard=True).

    FISHERKIT_DATA=<folder> OPENBLAS_NUM_THREADS=1 python benchmarks/relevance_loo.py
"""

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
from _common import Row, print_table, timed, write_csv
from sklearn.preprocessing import StandardScaler

from fisherkit import KernelFisherClassifier
from fisherkit.datasets import load_ida, load_uci
from fisherkit.reproduction.splits import random_split
from fisherkit.tuning import relevance

SETS = {
    "heart": 170,
    "breast_cancer": 200,
    "thyroid": 140,
    "titanic": 150,
    "diabetis": 468,
    "waveform": 400,
    "splice": 400,
    "sonar": 124,
    "ionosphere": 210,
}
SPLITS = 10


def unguarded(
    left_out: relevance.LeftOut, classes: np.ndarray, start: np.ndarray
) -> relevance.Widths:
    at = relevance.candidates_of(left_out, start, relevance.SPREADS)[-1]
    return relevance.Widths(at[1:], relevance.SPREADS[-1], np.empty(0, relevance.RECORD_DTYPE))


def errors(name: str, n_train: int) -> Iterator[tuple[float, ...]]:
    """Error (%) with one width, free widths and guarded widths, whether widths were used, time."""
    data = load_uci(name) if name in ("sonar", "ionosphere") else load_ida(name)
    for split in range(SPLITS):
        train, test = random_split(name, split, len(data.target), n_train)
        scaler = StandardScaler().fit(data.data[train])
        X, X_test = scaler.transform(data.data[train]), scaler.transform(data.data[test])
        y, y_test = data.target[train], data.target[test]
        one = KernelFisherClassifier(random_state=0).fit(X, y)
        with patch.object(relevance, "learn_widths", unguarded):
            free = KernelFisherClassifier(ard=True, random_state=0).fit(X, y)
        seconds, guarded = timed(
            lambda X=X, y=y: KernelFisherClassifier(ard=True, random_state=0).fit(X, y)
        )
        scores = [100 * (1 - model.score(X_test, y_test)) for model in (one, free, guarded)]
        used = len(np.unique(np.round(np.log(guarded.relevance_[guarded.relevance_ > 0]), 9))) > 1
        yield (*scores, float(used), seconds)


def main() -> None:
    rows: list[Row] = []
    for name, n_train in SETS.items():
        values = np.array(list(errors(name, n_train)))
        one, free, guarded, used, seconds = values.mean(axis=0)
        paired = values[:, 2] - values[:, 0]
        rows.append(
            {
                "set": name,
                "n": n_train,
                "splits": SPLITS,
                "one_width": one,
                "free_widths": free,
                "guarded_widths": guarded,
                "guarded_minus_one": float(np.mean(paired)),
                "standard_error": float(np.std(paired, ddof=1)) / SPLITS**0.5,
                "share_with_many_widths": used,
                "seconds": seconds,
            }
        )
        print_table(rows[-1:])
    write_csv("relevance_loo", rows)


if __name__ == "__main__":
    main()
