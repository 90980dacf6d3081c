"""Decompose once: arrays, kernels, weights, the canonical form and the ridge read off it.

Nothing here knows an estimator, a file or a criterion. A new regularisation costs O(n r), new
labels O(n r), a row left out nothing; only a new kernel parameter costs a new `Canonical`.
"""

from fisherkit.core.arrays import Array, read
from fisherkit.core.basis import BASES, choose_rows, leading_rows
from fisherkit.core.bias import BIASES, FREE, Bias, rank_two_update
from fisherkit.core.blas import blas_threads
from fisherkit.core.canonical import (
    Canonical,
    NotPositiveError,
    mu_floor,
    relative_floor,
    require_positive,
    trace_unit,
)
from fisherkit.core.coding import Rule, ahead
from fisherkit.core.covariance import (
    LOG_BOUND,
    Covariance,
    CovarianceBlock,
    FittedKernel,
    KernelObject,
    Parametric,
    Piece,
)
from fisherkit.core.decompose import (
    SMALL,
    Budget,
    Decomposed,
    Decomposer,
    Design,
    RankError,
    SharedDecomposer,
)
from fisherkit.core.forward import ForwardPath, select_terms
from fisherkit.core.kernels import (
    KERNELS,
    LARGEST,
    Distinct,
    Gram,
    Kernel,
    Prefixes,
    Stationary,
    View,
    feature_moments,
    fingerprints,
    gamma_of_variance,
    length,
    median_gamma,
    not_finite,
    race,
    race_seed,
    reference_width,
    repeated_columns,
    require_squares,
    scale_gamma,
    width_of_moments,
    width_step,
)
from fisherkit.core.labels import Labels, decode, encode, membership, winners
from fisherkit.core.progress import Meter
from fisherkit.core.ridge import (
    DenseResolvent,
    Fold,
    Pullback,
    Residuals,
    Resolvent,
    Ridge,
    RidgePath,
    coefficients_at,
    left_out,
    left_out_and_fit,
    solve,
    solve_left_out,
)
from fisherkit.core.solvers import (
    UNLIMITED,
    Factored,
    Limits,
    Original,
    Rates,
    System,
    expected_seconds,
    factor_held,
    half_held,
    leave_out,
    measured,
    preconditioner_rank,
    sample_size,
    solve_many,
)
from fisherkit.core.weights import Weights
