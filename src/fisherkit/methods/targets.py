"""What a target holds: names of classes, or numbers to predict."""

from __future__ import annotations

import numpy as np

MOST_CLASSES = 20  # different whole numbers that are still taken for names of classes


def has_fractions(y: np.ndarray) -> bool:
    """Whether targets are numbers that are not all whole: amounts, not names of classes."""
    return y.dtype.kind == "f" and bool(np.any(y[np.isfinite(y)] % 1 != 0))


def are_classes(y: np.ndarray) -> bool:
    """Whether targets are names of classes, unless their user says otherwise.

    Texts and truth values are. Numbers are if they are whole and few: at most 20 different ones,
    each of which two rows have on average.
    """
    if y.dtype.kind not in "iuf":
        return True
    count = len(np.unique(y))
    return not has_fractions(y) and count <= min(MOST_CLASSES, max(2, len(y) // 2))


def refuse_fractions(y: np.ndarray) -> None:
    """Refuse numbers that are not whole as labels, with advice."""
    if has_fractions(y):
        strange = y[np.isfinite(y) & (y % 1 != 0)][0]
        raise ValueError(
            f"Unknown label type: continuous. y holds numbers with fractions, such as {strange:g}, "
            "which are not names of classes. TableRegressor predicts numbers; if they are names, "
            "pass them as texts, with y.astype(str) for example."
        )
