"""Exact leave-one-out at work: relabelling, influence, conformal prediction, explanations."""

from fisherkit.inference.changed_rows import (
    LeftOutTerm,
    left_out_fit,
    left_out_sum,
    score_changes,
)
from fisherkit.inference.conformal import Reach
from fisherkit.inference.influence import influences, leverages, remaining
from fisherkit.inference.relabel import Relabelled
from fisherkit.inference.sampled import SampledReach
from fisherkit.inference.shapley import Shares, base_values, shapley_values
