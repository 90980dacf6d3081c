"""Sections of the report on the data: doubtful rows, columns, code, papers, words."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from fisherkit.report.blocks import Block, Section, number, section, text
from fisherkit.terminal import percent
from fisherkit.training import Training

_COLUMNS = 60
_LONG = 9  # columns from which their table is drawn in two halves

_SHARED = {
    "Leave-one-out": "Every training row is judged by a model that was fitted to all other rows. "
    "fisherkit computes these judgements exactly, without fitting again.",
    "Held out": "Rows that were used neither to fit the judging model nor to choose its settings.",
    "After selection": "The same rows that chose the settings also measure the error, which makes "
    "it look slightly smaller than it will be on new rows. Held-out rows chose nothing.",
    "Shuffling, permutation importance": "The values of one column are exchanged among the rows, "
    "so that they say nothing any more. How much worse the answers get says how much the model "
    "needs the column.",
    "Partial dependence": "The mean answer if all rows had the same value in one column and were "
    "otherwise as they are.",
    "Reasons of a row": "What each column adds to the answer when the columns become known one by "
    "one, on average over all orders (Shapley values). They say what the model makes of a column, "
    "not what the column does in the world.",
    "Kernel and width": "The kernel says how alike two rows are; the width is the distance beyond "
    "which they count as different. The coefficient gamma falls as the width grows.",
    "Regularisation, mu": "How strongly the model is smoothed. With too little it follows "
    "accidents of single rows, with too much it misses the pattern. In units of tr(G)/n, the mean "
    "diagonal of the matrix that is fitted, mu can be compared between tables.",
    "Settings compared": "Pairs of width and mu whose error on left-out rows was computed, to "
    "choose among them. PRESS is the squared error of left-out rows, with labels as numbers.",
    "Centres, rank": "Centres are the training rows whose kernels make up the model. The rank is "
    "the number of independent directions that the fit can use.",
    "Gradient boosting": "Many small decision trees, each of which corrects those before it: "
    "HistGradientBoosting of scikit-learn with its usual settings.",
}
WORDS = _SHARED | {
    "Logistic regression": "A weighted sum of the columns, turned into probabilities.",
    "Precision and recall": "Precision is the share of right answers among those of a class; "
    "recall is the share of a class that is found. F1 lies between them, nearer to the smaller. "
    "Average precision is the mean precision over all values of recall.",
    "Balanced accuracy": "The share of each class that is found, averaged over the classes: "
    "frequent classes count no more than rare ones.",
    "Log-loss": "How surprising the true labels are: minus the logarithm of the probability that "
    "each was given, on average. Lower is better; 0 is being sure and right.",
    "Threshold": "How sure the model must be before it answers with the second class. 50 % gives "
    "the fewest mistakes; other values trade one kind of mistake for the other.",
    "Log-odds": "A probability on a scale without ends: 0 is 50 %, +2.2 is 90 %, -2.2 is 10 %.",
    "ROC curve": "The share of hits against the share of false alarms, for every threshold. The "
    "area under it is 1 for a perfect model and 0.5 for guessing.",
    "Reliability": "Whether answers given with a probability of 80 % are right in 80 % of cases.",
    "Label set": "The labels that a row may well have: one, several or none. At a confidence of "
    "90 %, the sets of nine in ten new rows hold the true label, if these rows are like the "
    "training rows.",
}
NUMBER_WORDS = _SHARED | {
    "Linear regression": "A weighted sum of the columns, slightly drawn to zero (ridge).",
    "R²": "The share of the variance of the target that the predictions explain: 1 is perfect, 0 "
    "is no better than the mean.",
    "Root mean squared error": "The root of the mean of squared errors, in the unit of the target; "
    "large errors weigh more.",
    "Mean absolute error": "The error of a prediction, without its sign, on average.",
    "Interval": "Two numbers between which the target of a new row lies with the stated "
    "confidence, if new rows are like the training rows.",
}


def data(training: Training, target: Block) -> Section:
    """What is in the target, columns and how they were prepared."""
    X = training.X
    columns: Block = {
        "type": "table",
        "title": "Columns",
        "head": ["column", "kind", "missing", "values"],
        "rows": [_column(X.iloc[:, j]) for j in range(min(_COLUMNS, X.shape[1]))],
        "halves": X.shape[1] >= _LONG,
        "wide": True,
    }
    if X.shape[1] > _COLUMNS:
        columns["note"] = f"The first {_COLUMNS} of {X.shape[1]:,} columns."
    return section(
        "The data",
        f"{X.shape[0]:,} training rows and {X.shape[1]:,} column{'s' * (X.shape[1] != 1)} from "
        f"{training.source}.",
        target,
        *_preparation(training),
        columns,
    )


def class_table(training: Training) -> Block:
    """The classes and their sizes, the largest first."""
    classes, counts = np.unique(np.asarray(training.y), return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_COLUMNS]
    return {
        "type": "table",
        "title": f"Classes of {training.target}",
        "head": ["class", "rows", "share"],
        "rows": [
            [str(classes[c]), f"{counts[c]:,}", percent(counts[c] / counts.sum())] for c in order
        ],
        "numbers": 1,
        "halves": len(order) >= _LONG,
        "wide": len(order) >= _LONG,
    }


def _column(values: pd.Series) -> list[str]:
    missing = float(values.isna().mean())
    share = percent(missing) if missing else "none"
    name, seen = str(values.name), values.dropna()
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        if not len(seen):
            return [name, "number", share, ""]
        numbers = seen.astype(float)
        return [
            name,
            "number",
            share,
            f"mean {number(numbers.mean())}, from {number(numbers.min())} to "
            f"{number(numbers.max())}",
        ]
    levels = seen.astype(str).value_counts()
    top = ", ".join(f"{level} ({count:,})" for level, count in levels.iloc[:3].items())
    more = f" and {len(levels) - 3:,} more" if len(levels) > 3 else ""
    return [name, "category", share, top + more]


def _preparation(training: Training) -> list[Block]:
    """How columns become features."""
    features = training.model.features_
    levels = [text.name for text in features.texts]
    ranks = "; their ranks" if len(features.numbers.ranked) else ""
    kinds = {
        f"numbers: median where missing, scaled{ranks}": features.numbers.names,
        "texts: an indicator of each level, rare ones together": levels,
    }
    rows = []
    for how, names in kinds.items():
        more = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
        if names:
            rows.append([how, ", ".join(names[:12]) + more])
    return [
        {
            "type": "table",
            "title": "Preparation",
            "head": ["how", "columns"],
            "rows": rows,
            "note": f"The model sees {training.model.estimator_.n_features_in_:,} features.",
        }
    ]


def ending(training: Training, words: dict[str, str]) -> list[Section]:
    """The code of the model, the papers, and the words."""
    cite = [
        f"The fisherkit developers. fisherkit {version('fisherkit')}: kernel discriminants that "
        "tune themselves by closed-form leave-one-out.",
        *training.goal.method(training.method).papers,
    ]
    return [
        section(
            "The same model in Python",
            "This code gives the same predictions, to the last digit.",
            {"type": "code", "text": training.code},
        ),
        section(
            "How to cite",
            "Please cite the software and the paper behind the method.",
            *(text(paper) for paper in cite),
        ),
        section(
            "Words used here", "", {"type": "terms", "rows": [list(one) for one in words.items()]}
        ),
    ]
