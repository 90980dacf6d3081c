"""Penalties in one dimension, and the toys, relevances and projections of the Bayesian paper."""

import csv
import math
from collections.abc import Callable
from importlib.resources import files

import numpy as np
from scipy.special import ndtr
from scipy.stats import ks_2samp
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold

from fisherkit.core import FittedKernel
from fisherkit.datasets import make_bumpy, make_overlap, make_relevance, make_spiral
from fisherkit.estimators import BayesianFisherClassifier, KernelFisherClassifier, inside
from fisherkit.reproduction.splits import split_of
from fisherkit.reproduction.tasks import Result, rounded
from fisherkit.reproduction.trials import as_text, options

Q, RHO = 0.25, 3.5  # of Harrison and Pasupa, figure 2
SLOPE, NOISE = 1.0, 0.2
STARTS = {"left": 0.1, "right": 1.6}
TEST_ROWS = 2000
GAMMAS = 2.0 ** np.arange(-6, 8)
BINS = np.linspace(-3, 3, 25)  # of projections whose class centres are at -1 and 1


def regression_rows(trial: int) -> tuple[np.ndarray, np.ndarray]:
    """Five rows of a simple linear regression."""
    x = np.linspace(-1, 1, 5)
    return x, SLOPE * x + NOISE * np.random.default_rng(trial).standard_normal(5)


def objective(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """||y - x w||^2 + rho |w|^q for each w."""
    return np.sum((y[:, None] - x[:, None] * w) ** 2, axis=0) + RHO * np.abs(w) ** Q


def iterates(w: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Majorise-minimise steps from w: |w|^q is replaced by the parabola that touches it."""
    steps = [w]
    while len(steps) < 1000 and abs(w) > 1e-12:
        w = float(x @ y / (x @ x + 0.5 * RHO * Q * abs(w) ** (Q - 2)))
        steps.append(w)
        if abs(steps[-1] - steps[-2]) < 1e-12:
            break
    return np.array(steps)


def penalised_regression(setting: str, trial: int) -> Result:
    """Where the iteration ends, "start=left"."""
    x, y = regression_rows(trial)
    steps = iterates(STARTS[options(setting)["start"]], x, y)
    end = steps[-1] if abs(steps[-1]) > 1e-12 else 0.0
    return {
        "least_squares": rounded(float(x @ y / (x @ x))),
        "end": rounded(float(end)),
        "objective": rounded(float(objective(np.array([end]), x, y)[0])),
        "steps": len(steps) - 1,
    }


def generalisation_error(beta: float, d: float) -> float:
    """Error of two Gaussians of precision beta at distance d, equal priors: Phi(-d sqrt(beta)/2).

    Peña Centeno and Lawrence, section 6, have it for d = 2.
    """
    return float(ndtr(-0.5 * d * math.sqrt(beta)))


def projected_error(setting: str, trial: int) -> Result:
    """The formula beside a simulation, "beta=1 d=2"."""
    chosen = options(setting)
    beta, d = float(chosen["beta"]), float(chosen["d"])
    rng = np.random.default_rng(trial)
    signs = rng.choice([-1.0, 1.0], 200_000)
    projected = 0.5 * d * signs + rng.standard_normal(len(signs)) / math.sqrt(beta)
    return {
        "error": rounded(100 * generalisation_error(beta, d)),
        "simulated": rounded(100 * float(np.mean(projected * signs < 0))),
    }


def _relevance(n: int = 100, *, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """The second feature is the relevant one, as in the paper's table 1."""
    X, y = make_relevance(n, random_state=random_state)
    return X[:, ::-1].copy(), y


TOYS: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    "spiral": make_spiral,
    "overlap": make_overlap,
    "bumpy": make_bumpy,
    "relevance": _relevance,
}


Tuned = BayesianFisherClassifier | KernelFisherClassifier


def _errors(model: Tuned, toy: str, trial: int) -> Result:
    X, y = TOYS[toy](random_state=trial)
    X_test, y_test = TOYS[toy](TEST_ROWS, random_state=10_000 + trial)
    return {
        "training_error": rounded(100 * float(np.mean(model.predict(X) != y))),
        "test_error": rounded(100 * float(np.mean(model.predict(X_test) != y_test))),
    }


def _by_ten_folds(penalty: str, X: np.ndarray, y: np.ndarray) -> KernelFisherClassifier:
    """Width and mu by the error rate of ten folds, as the paper tunes its comparators.

    The widest of equally good kernels is taken.
    """
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    fits = [
        KernelFisherClassifier(
            penalty=penalty, gamma=gamma, criterion="error", cv=folds, random_state=0
        ).fit(X, y)
        for gamma in GAMMAS
    ]
    return min(fits, key=lambda fit: fit.selection_.value)


PENALTIES = {"KFD": "coefficients", "LS-SVM": "rkhs"}


def one_width(setting: str, trial: int) -> Result:
    """One classifier with one width for both features, "toy=spiral method=BFD".

    BFD is tuned by evidence, KFD and LS-SVM by ten folds.
    """
    chosen = options(setting)
    toy, method = chosen["toy"], chosen["method"]
    X, y = TOYS[toy](random_state=trial)
    model: Tuned
    if method == "BFD":
        model = BayesianFisherClassifier(random_state=0).fit(X, y)
    else:
        model = _by_ten_folds(PENALTIES[method], X, y)
    result = _errors(model, toy, trial)
    if method == "BFD":
        return result | {
            "gamma": rounded(0.5 / model.length_scale_**2),
            "log_evidence": rounded(model.log_evidence_, 5),
            "beta": rounded(model.noise_precision_, 5),
            "expected_error": rounded(100 * model.expected_error_, 5),
        }
    return result | {
        "gamma": rounded(model.gamma_),
        "mu": rounded(model.regularization_),
        "ten_fold_error": rounded(100 * model.selection_.value),
    }


# of kernel (33): what the data can tell. theta_2 and theta_3 only come as products with the
# weights theta_6 and theta_7, and the bias theta_4 not at all
PARAMETERS = {
    "ln_theta1": r"\theta_1",
    "ln_theta5": r"\theta_5",
    "ln_theta2_theta6": r"\theta_2\theta_6",
    "ln_theta2_theta7": r"\theta_2\theta_7",
    "ln_theta3_theta6": r"\theta_3\theta_6",
    "ln_theta3_theta7": r"\theta_3\theta_7",
}


def printed_toys() -> dict[str, dict[str, float]]:
    """The printed parameters of table 1."""
    file = files("fisherkit.reproduction").joinpath("published/bfd_table1_toy_theta.csv")
    printed = {}
    for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines()):
        printed[row["experiment"]] = {
            name: sum(
                float(row[f"ln_theta{i}"]) for i in name.removeprefix("ln_theta").split("_theta")
            )
            for name in PARAMETERS
        }
    return printed


def kernel_33(ln: dict[str, float], X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Kernel (33) without bias and nugget, between the rows of X and Z."""
    w, slope = (
        np.exp([ln[f"ln_theta{part}_theta{feature}"] for feature in (6, 7)]) for part in (2, 3)
    )
    local = rbf_kernel(X * np.sqrt(w), Z * np.sqrt(w), gamma=0.5)
    return np.exp(ln["ln_theta1"]) * local + (X * slope) @ Z.T


def _printed_error(toy: str, trial: int) -> float:
    """Lowest test error (%) with the printed kernel at 31 noise levels, the nugget and up."""
    ln = printed_toys()[toy]
    X, y = TOYS[toy](random_state=trial)
    X_test, y_test = TOYS[toy](TEST_ROWS, random_state=10_000 + trial)
    K, K_test = kernel_33(ln, X, X), kernel_33(ln, X_test, X)
    errors = []
    for noise in math.exp(ln["ln_theta5"]) * 2.0 ** np.arange(31):
        model = KernelFisherClassifier(kernel="precomputed", regularization=noise).fit(K, y)
        errors.append(np.mean(model.predict(K_test) != y_test))
    return 100 * float(min(errors))


def fit_ard(toy: str, trial: int) -> BayesianFisherClassifier:
    """RBF and linear part, one width per feature, evidence alone: kernel (33) of the paper."""
    X, y = TOYS[toy](random_state=trial)
    return BayesianFisherClassifier(ard=True, linear=True, hyperprior=None, random_state=0).fit(
        X, y
    )


def two_widths(setting: str, trial: int) -> Result:
    """`PARAMETERS` on one toy, "toy=spiral", as logarithms."""
    toy = options(setting)["toy"]
    model = fit_ard(toy, trial)
    kernel = inside(model).expansion.kernel
    assert isinstance(kernel, FittedKernel)
    theta = kernel.theta
    ratio = theta[1] - theta[0]
    linear = math.log(model.amplitude_) + ratio  # log theta_3 where theta_2 = 1
    weights = -2 * np.log(model.length_scale_)
    nugget = model.nugget_
    return {
        **_errors(model, toy, trial),
        "printed_error": rounded(_printed_error(toy, trial)),
        "log_evidence": rounded(model.log_evidence_, 5),
        "beta": rounded(model.noise_precision_, 5),
        "ln_theta1": rounded(math.log(model.amplitude_), 5),
        "ln_theta2_theta6": rounded(weights[0], 5),
        "ln_theta2_theta7": rounded(weights[1], 5),
        "ln_theta3_theta6": rounded(linear + weights[0], 5),
        "ln_theta3_theta7": rounded(linear + weights[1], 5),
        "ln_theta5": rounded(math.log(nugget), 5) if nugget > 0 else None,
    }


def fit_from(theta2: float, trial: int) -> BayesianFisherClassifier:
    """The spiral, one width per feature, climbed from 1 / width^2 = theta2 alone."""
    X, y = TOYS["spiral"](random_state=trial)
    kernel = RBF([theta2**-0.5] * 2, (1e-3, 1e3))
    return BayesianFisherClassifier(kernel=kernel, n_restarts=1, random_state=0).fit(X, y)


def from_start(setting: str, trial: int) -> Result:
    """Where the spiral ends from one start, "theta2=1"."""
    model = fit_from(float(options(setting)["theta2"]), trial)
    lengths = model.kernel_.length_scale
    return {
        **_errors(model, "spiral", trial),
        "log_evidence": rounded(model.log_evidence_, 5),
        "ln_theta2_theta6": rounded(float(-2 * np.log(lengths[0])), 4),
        "ln_theta2_theta7": rounded(float(-2 * np.log(lengths[1])), 4),
        "ending": model.status_.name.lower(),
    }


def relevances(setting: str, trial: int) -> Result:
    """Weights 1 / width^2 of standardised features, "data=ringnorm evidence=fisher"."""
    chosen = options(setting)
    data = split_of(chosen["data"], trial)
    model = BayesianFisherClassifier(
        ard=True, hyperprior=None, evidence=chosen["evidence"], random_state=0
    ).fit(data.X, data.y)
    assert model.relevance_ is not None
    return {
        "origin": data.origin,
        "weights": as_text(model.relevance_, 4),
        "log_evidence": rounded(model.log_evidence_, 5),
        "auc": rounded(
            100 * float(roc_auc_score(data.y_test, model.decision_function(data.X_test))), 5
        ),
    }


def projections(setting: str, trial: int) -> Result:
    """Histograms of training and test projections by class, "data=twonorm method=BFD".

    Scaled so that the training rows of the classes have the means -1 and 1. ``loo`` are the
    training rows, each projected by the model without it.
    """
    chosen = options(setting)
    data = split_of(chosen["data"], trial)
    model: Tuned
    if chosen["method"] == "BFD":
        model = BayesianFisherClassifier(random_state=0)
    else:
        model = KernelFisherClassifier(penalty="coefficients", random_state=0)
    model.fit(data.X, data.y)
    rows = {
        "training": (model.decision_function(data.X), data.y),
        "loo": (model.loo_decision_, data.y),
        "test": (model.decision_function(data.X_test), data.y_test),
    }
    first, second = model.classes_
    centres = [float(np.mean(rows["training"][0][data.y == c])) for c in (first, second)]
    middle, half = 0.5 * sum(centres), 0.5 * (centres[1] - centres[0])
    result: Result = {"origin": data.origin, "n_training": len(data.y), "n_test": len(data.y_test)}
    scaled = {
        (part, k): (scores[y == c] - middle) / half
        for part, (scores, y) in rows.items()
        for k, c in enumerate((first, second))
    }
    for (part, k), values in scaled.items():
        counts = np.histogram(np.clip(values, BINS[0], BINS[-1]), BINS)[0]
        result[f"{part}_{k}"] = as_text(counts)
        result[f"{part}_{k}_mean"] = rounded(float(np.mean(values)), 5)
        result[f"{part}_{k}_sd"] = rounded(float(np.std(values)), 5)
    for part in ("training", "loo"):
        gaps = [ks_2samp(scaled[part, k], scaled["test", k]).statistic for k in (0, 1)]
        result[f"{part}_gap"] = rounded(float(max(gaps)), 5)
    scores, y = rows["test"]
    return result | {"auc": rounded(100 * float(roc_auc_score(y == second, scores)), 5)}
