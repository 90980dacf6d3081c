"""Kernels, and their matrices on the rows of a data set."""

from fisherkit.core.kernels.distinct import (
    Distinct,
    fingerprints,
    race,
    race_seed,
    repeated_columns,
)
from fisherkit.core.kernels.families import KERNELS, Kernel, Stationary, View
from fisherkit.core.kernels.gram import LARGEST, Gram, Prefixes, not_finite, require_squares
from fisherkit.core.kernels.widths import (
    feature_moments,
    gamma_of_variance,
    length,
    median_gamma,
    reference_width,
    scale_gamma,
    width_of_moments,
    width_step,
)

__all__ = [
    "KERNELS",
    "LARGEST",
    "Distinct",
    "Gram",
    "Kernel",
    "Prefixes",
    "Stationary",
    "View",
    "feature_moments",
    "fingerprints",
    "gamma_of_variance",
    "length",
    "median_gamma",
    "not_finite",
    "race",
    "race_seed",
    "reference_width",
    "repeated_columns",
    "require_squares",
    "scale_gamma",
    "width_of_moments",
    "width_step",
]
