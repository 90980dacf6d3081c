"""What fitted models say, and why: columns that matter, single answers, labels that are doubtful.

`explain` takes the answer for a row apart, `column_importance` says which columns the left-out
error hangs on. scikit-learn's ``PartialDependenceDisplay`` takes every estimator of fisherkit.
"""

from fisherkit.inspection.auditing import audit, doubted_targets, doubts, harms
from fisherkit.inspection.changes import Change
from fisherkit.inspection.explaining import Explanation, TrainingRows, explain
from fisherkit.inspection.importance import ColumnImportance, column_importance
from fisherkit.inspection.labels import TaskLabels, metric_name, missing
from fisherkit.inspection.left_out import (
    cross_fitted,
    how_left_out,
    in_blocks,
    left_out_coordinates,
    left_out_logits,
    left_out_path,
)
from fisherkit.inspection.searches import WidthCurve, size_curve, width_curves
from fisherkit.inspection.streamed import streamed_path

__all__ = [
    "Change",
    "ColumnImportance",
    "Explanation",
    "TrainingRows",
    "column_importance",
    "explain",
]
