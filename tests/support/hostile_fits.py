"""Fits as hostile as users make them without meaning to, and what must be true of each of them.

Strategies of Hypothesis draw an estimator with parameters, and a problem: rows of any scale, rows
that repeat, columns that do not vary, classes of one, weights from nothing to a million copies.
`verdict` fits and says how it ended, or raises `Broken`. `test_hostile_fits` tries a few in the
suite, `benchmarks/fuzz.py` tens of thousands.
"""

import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning

from fisherkit import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    SparseFisherClassifier,
)

SLOW = 20.0  # seconds that no fit of so few rows may take
# What scikit-learn says of few rows, and what NumPy says while it looks for infinity among them.
EXPECTED = (
    "No term is retained",
    "The least populated class",
    "The number of unique classes is greater than 50%",
    "invalid value encountered in reduce",
)
_OURS = ("fisherkit", "sklearn")


class Broken(AssertionError):
    """A fit that broke a promise."""


@dataclass
class Problem:
    X: np.ndarray
    y: np.ndarray
    sample_weight: np.ndarray | None
    new: np.ndarray

    def __repr__(self):
        w = None if self.sample_weight is None else self.sample_weight.tolist()
        rows = f"np.array({self.X.tolist()}, dtype={self.X.dtype.name!r})"
        return f"Problem({rows}, np.array({self.y.tolist()}), {w}, np.array({self.new.tolist()}))"


def powers(least, most):
    """Positive numbers, even in their logarithm."""
    return st.floats(least, most).map(lambda power: float(10.0**power))


def columns(rng, kind, n):
    noise = rng.normal(size=n)
    if kind == "constant":
        return np.full(n, noise[0])
    if kind == "nearly constant":
        return 1.0 + 1e-13 * noise
    if kind == "truth":
        return (noise > 0).astype(float)
    if kind == "integer":
        return rng.integers(-3, 4, size=n).astype(float)
    if kind == "heavy":
        return rng.standard_cauchy(size=n) ** 3
    if kind == "outlier":
        noise[0] = 1e8
        return noise
    return noise


KINDS = ("normal", "normal", "constant", "nearly constant", "truth", "integer", "heavy", "outlier")


@st.composite
def problems(draw, regression=False):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(2, 60)), draw(st.integers(1, 6))
    X = np.stack([columns(rng, draw(st.sampled_from(KINDS)), n) for _ in range(d)], axis=1)
    scale = draw(st.sampled_from(["one", "one", "common", "each"]))
    if scale == "common":
        X = X * draw(powers(-200, 140))
    elif scale == "each":
        X = X * 10.0 ** rng.uniform(-30, 30, size=d)
    if draw(st.booleans()):  # rows that repeat
        X = X[rng.integers(0, draw(st.integers(1, n)), size=n)]
    if draw(st.integers(0, 19)) == 0:
        X[rng.integers(n), rng.integers(d)] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    if draw(st.integers(0, 4)) == 0:
        with np.errstate(over="ignore"):
            X = X.astype(np.float32)
    if regression:
        y = X[:, 0].astype(float) if draw(st.booleans()) else rng.normal(size=n)
        y = np.nan_to_num(y, posinf=0, neginf=0) * draw(powers(-160, 140)) + draw(
            st.sampled_from([0.0, 1.0, -1e6])
        )
    else:
        k = draw(st.integers(2, 6))
        shapes = 4 * ["even", "skewed", "separable"] + ["each its own", "one"]
        shape = draw(st.sampled_from(shapes))
        y = rng.integers(k, size=n)
        if shape == "skewed":
            y = np.minimum(rng.geometric(0.7, size=n) - 1, k - 1)
        elif shape == "separable":
            y = np.digitize(np.nan_to_num(X[:, 0]), np.quantile(np.nan_to_num(X[:, 0]), [0.5]))
        elif shape == "each its own":
            y = np.arange(n)
        elif shape == "one":
            y = np.zeros(n, dtype=int)
        if draw(st.integers(0, 3)) == 0:
            y = np.array(["a", "b|c", "", "=d", "é", "f"])[y % 6]
    weight = None
    kinds = 5 * ["none", "counts"] + 2 * ["zeros", "spread"] + ["tiny", "large"]
    kind = draw(st.sampled_from(kinds))
    if kind == "counts":
        weight = rng.integers(1, 4, size=n).astype(float)
    elif kind == "zeros":
        weight = rng.integers(0, 2, size=n).astype(float)
    elif kind == "spread":
        weight = 10.0 ** rng.uniform(-6, 6, size=n)
    elif kind != "none":
        weight = np.full(n, draw(powers(-60, -3) if kind == "tiny" else powers(3, 165)))
    with np.errstate(all="ignore"):
        new = X * draw(st.sampled_from([0.0, 1.0, 1.0, 1e3, 1e-3, -1e140]))
    return Problem(X, y, weight, new)


def gammas(*rules):
    rule = st.sampled_from(rules)
    return st.one_of(rule, rule, rule, powers(-300, 300), powers(-4, 4))


@st.composite
def kernels(draw):
    named = st.sampled_from(
        4 * ["rbf", "laplacian", "linear", "polynomial"] + ["sigmoid", "cosine", "chi2"]
    )
    return {
        "kernel": draw(named),
        "degree": draw(st.sampled_from([3, 2, 1, 0, 0.5, 7])),
        "coef0": draw(st.sampled_from([1.0, 1.0, 0.0, -1.0, 1e10])),
    }


costs = st.sampled_from([None, None, "balanced"])
folds = st.sampled_from([None, None, 2, 3, 5])
seeds = st.integers(0, 9)
thresholds = st.sampled_from(["prior", "balanced"])


@st.composite
def bases(draw, *names):
    """basis and n_components that go together, but for n_components beyond the rows."""
    basis = draw(st.sampled_from([*3 * ["auto", "full"], *names]))
    few = draw(st.integers(1, 12)) if basis not in ("auto", "full") else None
    return {"basis": basis, "n_components": few}


@st.composite
def ridges(draw):
    return {
        **draw(kernels()),
        **draw(bases("pivoted", "random", "greedy")),
        "gamma": draw(gammas("loo", "loo", "scale", "median")),
        "penalty": draw(st.sampled_from(["rkhs", "rkhs", "coefficients"])),
        "bias": draw(st.sampled_from(["free", "free", "penalized", "none"])),
        "regularization": draw(
            st.one_of(st.just("loo"), st.just("loo"), powers(-300, 300), powers(-6, 6))
        ),
        "cv": draw(folds),
        "random_state": draw(seeds),
    }


@st.composite
def fisher(draw):
    options = draw(ridges())
    options["criterion"] = draw(st.sampled_from(["press", "log_loss", "error", "smoothed_error"]))
    ard = draw(st.integers(0, 19)) == 0
    if ard:
        options |= {"kernel": "rbf", "gamma": "loo", "regularization": "loo", "cv": None}
        options |= {"basis": "auto", "n_components": None}
        options["criterion"] = "press"
    rules = ["lda", "ovr"] if options["bias"] == "free" else ["ovr"]
    return KernelFisherClassifier(
        **options,
        multiclass=draw(st.sampled_from(rules)),
        threshold=draw(thresholds),
        class_weight=draw(costs),
        ard=ard,
    )


@st.composite
def ridge(draw):
    return KernelRidgeCV(**draw(ridges()))


@st.composite
def expansions(draw):
    n_candidates = draw(st.sampled_from([None, None, 1, 5]))
    return {
        **draw(kernels()),
        "gamma": draw(gammas("cv", "scale", "median")),
        "cv": draw(st.sampled_from([2, 3, 5])),
        "select": draw(st.sampled_from(["error", "sparsest"])),
        "threshold": draw(thresholds),
        "n_candidates": n_candidates,
        "class_weight": draw(costs),
        "random_state": draw(seeds),
    }


@st.composite
def sparse(draw):
    return SparseFisherClassifier(
        **draw(expansions()),
        q=draw(st.sampled_from([1.0, 1.0, 0.5, 0.1, 1.5, 2.0])),
        rho=draw(st.one_of(st.just("cv"), powers(-8, 4))),
        penalize_bias=draw(st.booleans()),
    )


@st.composite
def forward(draw):
    return ForwardFisherClassifier(
        **draw(expansions()),
        criterion=draw(st.sampled_from(["loo_error", "press", "err"])),
        max_terms=draw(st.sampled_from([None, 1, 5])),
        evidence=draw(st.booleans()),
    )


@st.composite
def bayes(draw):
    kernel, ard = draw(st.sampled_from(["rbf", "rbf", "linear"])), draw(st.integers(0, 4)) == 0
    return BayesianFisherClassifier(
        kernel=kernel,
        ard=ard,
        linear=kernel == "rbf" and draw(st.booleans()),
        evidence=draw(st.sampled_from(["fisher", "lssvm"])),
        n_restarts=draw(st.integers(1, 2)),
        hyperprior=draw(st.sampled_from(["auto", None, 1.0])) if ard else "auto",
        n_inducing=draw(st.sampled_from([None, None, 5])) if kernel == "rbf" else None,
        probability=draw(st.sampled_from(["loo", "noise_model"])),
        random_state=draw(seeds),
    )


@st.composite
def committees(draw):
    some = st.sampled_from(["rbf", "laplacian", "linear", "polynomial", "cosine"])
    return FisherCommitteeClassifier(
        tuple(draw(st.lists(some, min_size=1, max_size=2, unique=True))),
        n_widths=draw(st.integers(1, 4)),
        combine=draw(st.sampled_from(["average", "stack", "best"])),
        min_weight=draw(st.sampled_from([0.0, 1e-4, 0.5])),
        penalty=draw(st.sampled_from(["rkhs", "coefficients"])),
        **draw(bases("pivoted", "random")),
        class_weight=draw(costs),
        random_state=draw(seeds),
    )


classifiers = st.one_of(fisher(), fisher(), sparse(), forward(), bayes(), committees())
cases = st.one_of(
    st.tuples(classifiers, problems()),
    st.tuples(classifiers, problems()),
    st.tuples(classifiers, problems()),
    st.tuples(ridge(), problems(regression=True)),
)


def verdict(model, problem):
    """How the fit ended, "fitted" or "refused", and the words of the refusal.

    Raises `Broken` where the fit is neither right nor clearly refused.
    """
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", DataConversionWarning)
            for words in EXPECTED:
                warnings.filterwarnings("ignore", words)
            try:
                model.fit(problem.X, problem.y, sample_weight=problem.sample_weight)
            except (ValueError, TypeError) as error:
                _require_clear(error)
                return "refused", str(error)
            for rows in (problem.X, problem.new):
                try:
                    _require_consistent(model, rows)
                except Broken:
                    raise
                except ValueError as error:
                    _require_clear(error)
                    if rows is problem.X:
                        return "refused", str(error)  # a model, but rows without finite scores
    except Broken:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
        raise Broken(f"{type(error).__name__}: {error} at {where}") from error
    if time.perf_counter() - start > SLOW:
        raise Broken(f"slow: {time.perf_counter() - start:.1f} s")
    return "fitted", ""


def _require_clear(error):
    """A sentence of ours or of scikit-learn's checks: no fault of LAPACK, no IndexError."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = any(f"/{name}/" in frame.filename for name in _OURS)
    if isinstance(error, np.linalg.LinAlgError) or not ours or len(str(error)) < 20:
        raise Broken(f"unclear: {type(error).__name__}: {error} at {frame.filename}:{frame.lineno}")


def _require_consistent(model, X):
    """Finite answers, and the label predicted is the one decided and the most probable one."""
    predicted = model.predict(X)
    if not hasattr(model, "classes_"):
        if not np.all(np.isfinite(predicted)):
            raise Broken("NaN or infinity predicted")
        return
    p, decisions = model.predict_proba(X), model.decision_function(X)
    if not (np.all(np.isfinite(p)) and np.all(np.isfinite(decisions))):
        raise Broken("NaN or infinity in probabilities or decisions")
    if np.any(p < 0) or np.max(np.abs(p.sum(axis=1) - 1)) > 1e-5:
        raise Broken("probabilities do not sum to one")
    winner = (decisions > 0).astype(int) if decisions.ndim == 1 else np.argmax(decisions, axis=1)
    if np.any(model.classes_[winner] != predicted):
        raise Broken("predict and decision_function disagree")
    if np.any(model.classes_[np.argmax(p, axis=1)] != predicted):
        raise Broken("predict and predict_proba disagree")
