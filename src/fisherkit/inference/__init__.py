"""Exact leave-one-out at work: relabelling, influence, conformal prediction."""

from fisherkit.inference.conformal import Reach
from fisherkit.inference.influence import influences, leverages
from fisherkit.inference.relabel import Relabelled
from fisherkit.inference.sampled import SampledReach
