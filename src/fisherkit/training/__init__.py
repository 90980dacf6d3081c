"""From a table to a fitted pipeline and an honest figure of its error: what ``fisherkit fit`` does.

Columns are prepared by a `ColumnTransformer`: numbers get their median where missing and are
scaled, text becomes one column for each level, rare levels (and those that training has not seen)
together. The error is estimated on rows that took no part in any choice: another file, folds in
each of which everything is chosen anew, or a fifth of the rows set aside. The model itself is then
fitted to all rows.
"""

from fisherkit.training.fitting import STAGES, Training, doubtful, train
from fisherkit.training.intake import example, read_data
from fisherkit.training.methods import (
    CRITERION_WORDS,
    METHODS,
    Fact,
    Method,
    RecipeError,
    method_named,
    register,
)
from fisherkit.training.prediction import about_sets, has_sets
from fisherkit.training.saved import NO_TABLE

__all__ = [
    "doubtful",
    "example",
    "read_data",
    "train",
]
