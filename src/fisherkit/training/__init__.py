"""From a table to a fitted pipeline and an honest figure of its error: what ``fisherkit fit`` does.

Columns are prepared by a `ColumnTransformer`: numbers get their median where missing and are
scaled, text becomes one column for each level, rare levels (and those that training has not seen)
together. The error is estimated on rows that took no part in any choice: another file, folds in
each of which everything is chosen anew, or a fifth of the rows set aside. The model itself is then
fitted to all rows.
"""

from fisherkit.training.fitting import STAGES as STAGES
from fisherkit.training.fitting import Training as Training
from fisherkit.training.fitting import doubtful, train
from fisherkit.training.intake import example, read_data
from fisherkit.training.methods import CRITERION_WORDS as CRITERION_WORDS
from fisherkit.training.methods import METHODS as METHODS
from fisherkit.training.methods import Fact as Fact
from fisherkit.training.methods import Method as Method
from fisherkit.training.methods import RecipeError as RecipeError
from fisherkit.training.methods import method_named as method_named
from fisherkit.training.methods import register as register
from fisherkit.training.prediction import about_sets as about_sets
from fisherkit.training.prediction import has_sets as has_sets
from fisherkit.training.saved import NO_TABLE as NO_TABLE

__all__ = [
    "doubtful",
    "example",
    "read_data",
    "train",
]
