"""What the search for the kernel width gives up in criterion value, against a dense scan.

PRESS reached, time and number of widths decomposed by KernelFisherClassifier(), beside 25 widths
x 25 mu by dense eigh (reference.py).
"""

import argparse
from functools import partial

import numpy as np
import reference
from _common import Row, draw, print_table, timed, write_csv

from fisherkit import KernelFisherClassifier

FAMILIES = ("banana", "torus", "gauss10")
SIZES = (400, 1000)
DENSE_WIDTHS = 2.0 ** np.arange(-3, 3.25, 0.25)


def compare(family: str, n: int, seed: int) -> Row:
    X, y, X_test, y_test = draw(family, n, seed)
    signs, signs_test = (np.where(labels == y.max(), 1.0, -1.0) for labels in (y, y_test))
    search_s, model = timed(partial(KernelFisherClassifier(random_state=0).fit, X, signs))
    scan_s, scan = timed(partial(reference.fit, X, signs, DENSE_WIDTHS))
    press = float(np.mean((signs - model.loo_decision_) ** 2))
    search_error, scan_error = (
        100 * np.mean(fitted.decision_function(X_test) * signs_test <= 0)
        for fitted in (model, scan)
    )
    return {
        "family": family,
        "n": n,
        "seed": seed,
        "search_press": press,
        "scan_press": scan.press,
        "press_excess_percent": 100 * (press / scan.press - 1),
        "search_gamma": model.gamma_,
        "scan_gamma": scan.gamma,
        "search_widths": len(np.unique(model.selection_.path["gamma"])),
        "scan_widths": len(DENSE_WIDTHS),
        "search_s": search_s,
        "scan_s": scan_s,
        "time_ratio": search_s / scan_s,
        "search_error": search_error,
        "scan_error": scan_error,
        "method": model.selection_.method,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    options = parser.parse_args()
    # The first call of a process pays for thread pools and lazy imports.
    KernelFisherClassifier().fit(*draw("torus", 600, 0)[:2])
    rows = [
        compare(family, n, seed)
        for family in FAMILIES
        for n in SIZES
        for seed in range(options.draws)
    ]
    print_table(rows)
    write_csv("width_search", rows)


if __name__ == "__main__":
    main()
