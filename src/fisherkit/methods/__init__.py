"""The ways to train on a table, and the estimators that take it as it is."""

from fisherkit.methods.base import TableModel
from fisherkit.methods.plans import Plan, part_of
from fisherkit.methods.registry import (
    CRITERION_WORDS,
    METHODS,
    RIDGE,
    Fact,
    Method,
    RecipeError,
    method_named,
    names_where,
    register,
)
from fisherkit.methods.regression import TableRegressor
from fisherkit.methods.table import TableClassifier
from fisherkit.methods.targets import are_classes, has_fractions
