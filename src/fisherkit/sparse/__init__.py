"""Sparse least squares on codes of the classes, chosen on folds that select their own centres."""

from fisherkit.sparse.crossfit import Choice, Family, Sample
from fisherkit.sparse.learners import ForwardLearner, LqLearner
