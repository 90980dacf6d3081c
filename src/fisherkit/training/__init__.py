"""From a table to a fitted classifier and an honest figure of its error: ``fisherkit fit``.

The classifier is a `fisherkit.TableClassifier`. Its error is estimated on rows that took no part in
any choice: another file, folds in each of which everything is chosen anew, or a fifth of the rows
set aside. The model itself is then fitted to all rows.
"""

from fisherkit.training.fitting import STAGES, Training, doubtful, train
from fisherkit.training.intake import example, read_data
from fisherkit.training.prediction import about_sets, has_sets
from fisherkit.training.saved import NO_TABLE

__all__ = [
    "doubtful",
    "example",
    "read_data",
    "train",
]
