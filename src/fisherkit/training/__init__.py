"""From a table to a fitted model and an honest figure of its error: ``fisherkit fit``.

The model is a `fisherkit.TableClassifier` or a `fisherkit.TableRegressor`, as the target asks. Its
error is estimated on rows that were used neither to fit nor to choose anything: another file, folds
in each of which everything is chosen anew, or a fifth of the rows set aside. The model itself is
then fitted to all rows.
"""

from fisherkit.training.classes import CLASSES, about_sets, has_sets
from fisherkit.training.fitting import STAGES, Training, doubtful, goal_named, goal_of, train
from fisherkit.training.goals import Goal, check_method
from fisherkit.training.intake import Words, example, read_data
from fisherkit.training.saved import NO_TABLE

__all__ = [
    "doubtful",
    "example",
    "read_data",
    "train",
]
