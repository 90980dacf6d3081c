"""KernelFisherClassifier() against GridSearchCV(SVC, 9 C x 6 gamma, cv=5): time and test error.

Four families at n=1000, features standardised on the training part for both. Times are totals of
`fit` over all draws, the two sides taking turns; the row `all` sums the families.
"""

import argparse
from functools import partial

import numpy as np
from _common import Row, draw, print_table, timed, write_csv
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from fisherkit import KernelFisherClassifier

FAMILIES = ("banana", "torus", "gauss2", "gauss10")
# Steps of the LIBSVM guide (Hsu, Chang and Lin: powers of 4), 9 x 6 of them; its range goes on to
# C = 2^15, where SVC takes much longer on overlapping classes.
GRID = {"C": 2.0 ** np.arange(-5, 12, 2), "gamma": 2.0 ** np.arange(-9, 2, 2)}
LOW_RANK = ("banana", "torus", "gauss2")  # two features: the kernel matrix has low rank
RATIO_LIMIT, LOW_RANK_RATIO_LIMIT = 8, 20
ERROR_LIMIT = 0.2


def compare(family: str, n: int, draws: int) -> Row:
    times, errors, ranks, methods = [], [], [], []
    for seed in range(draws):
        X, y, X_test, y_test = draw(family, n, seed)
        models = (
            KernelFisherClassifier(random_state=0),
            GridSearchCV(SVC(), GRID, cv=5, n_jobs=1),
        )
        times.append([timed(partial(model.fit, X, y))[0] for model in models])
        errors.append([100 * np.mean(model.predict(X_test) != y_test) for model in models])
        ranks.append(models[0].selection_.rank)
        methods.append(models[0].selection_.method)
    (ours_s, svc_s), (ours, svc) = np.sum(times, axis=0), np.mean(errors, axis=0)
    gaps = np.subtract(*np.transpose(errors))
    low_rank = family in LOW_RANK
    fast_enough = not low_rank or svc_s >= LOW_RANK_RATIO_LIMIT * ours_s
    return {
        "family": family,
        "draws": draws,
        "fisherkit_s": ours_s,
        "svc_s": svc_s,
        "times_faster": svc_s / ours_s,
        "faster_limit": LOW_RANK_RATIO_LIMIT if low_rank else "",
        "median_rank": int(np.median(ranks)),
        "method": "/".join(sorted(set(methods))),
        "fisherkit_error": ours,
        "svc_error": svc,
        "difference": gaps.mean(),
        "difference_se": gaps.std(ddof=1) / np.sqrt(draws),
        "difference_limit": ERROR_LIMIT,
        "holds": bool(gaps.mean() <= ERROR_LIMIT and fast_enough),
    }


def total(rows: list[Row]) -> Row:
    """The four families together: summed times, and no limit on the error beyond each family's."""
    ours_s, svc_s = (sum(row[key] for row in rows) for key in ("fisherkit_s", "svc_s"))
    return dict.fromkeys(rows[0], "") | {
        "family": "all",
        "fisherkit_s": ours_s,
        "svc_s": svc_s,
        "times_faster": svc_s / ours_s,
        "faster_limit": RATIO_LIMIT,
        "holds": bool(svc_s >= RATIO_LIMIT * ours_s),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--n", type=int, default=1000)
    options = parser.parse_args()
    # The first call of a process pays for thread pools and lazy imports.
    KernelFisherClassifier().fit(*draw("torus", options.n, 0)[:2])
    rows = []
    for family in FAMILIES:
        rows.append(compare(family, options.n, options.draws))
        print_table(rows[-1:])
    rows.append(total(rows))
    print_table(rows)
    write_csv("versus_svc", rows)


if __name__ == "__main__":
    main()
