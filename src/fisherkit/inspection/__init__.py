"""What fitted classifiers say of rows that they have not seen, and which labels they doubt."""

from fisherkit.inspection.auditing import audit, doubts, harms
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
