"""The classifiers that the tables compare, each with the parameters it chooses.

A `Method` is run under four protocols (`tasks`): tuned on every training part; tuned on the first
five splits, then fitted with the median of their parameters; or, to explain the printed figures of
Harrison and Pasupa, one classifier scored on test parts that hold its own training rows.
"""

import inspect
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from fisherkit.estimators import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    SparseFisherClassifier,
)
from fisherkit.reproduction.printed import PrintedForwardSelection
from fisherkit.reproduction.splits import Split, split_of
from fisherkit.reproduction.tasks import HONEST, LEAK, TUNING, TUNING_SPLITS, Result, Task, rounded

Chosen = dict[str, float | np.ndarray]  # parameters by name
SVC_GRID = {"C": 2.0 ** np.arange(-5, 12, 2), "gamma": 2.0 ** np.arange(-9, 2, 2)}


def _set(model: BaseEstimator, chosen: Chosen) -> BaseEstimator:
    return clone(model).set_params(**chosen)


def _svc(model: BaseEstimator, chosen: Chosen) -> BaseEstimator:
    return SVC(**chosen)


def _bayes(model: BaseEstimator, chosen: Chosen) -> BaseEstimator:
    """The width is held; amplitude, noise and nugget follow from the evidence of each split."""
    return clone(model).set_params(kernel=RBF(chosen["length_scale"], "fixed"), ard=False)


@dataclass(frozen=True)
class Method:
    """A classifier of the tables.

    ``parameters`` maps its parameters to the fitted attributes that hold what was chosen, and
    ``fix`` builds the classifier that has them given. ``revision`` is raised when the same settings
    come to mean something else.
    """

    name: str
    title: str
    model: BaseEstimator
    parameters: dict[str, str] = field(default_factory=dict)
    fix: Callable[[BaseEstimator, Chosen], BaseEstimator] = _set
    shuffled: bool = False
    revision: int = 1

    @property
    def settings(self) -> str:
        """All that determines a result but the rows: part of the key it is journaled under."""
        return f"{_text(self.model)} shuffled={self.shuffled} revision={self.revision}"


def _text(value: object) -> str:
    """A value in words that no version of a library prints differently; defaults are left out."""
    if isinstance(value, BaseEstimator):
        defaults = inspect.signature(type(value)).parameters
        given = {
            name: _text(argument)
            for name, argument in value.get_params(deep=False).items()
            if _text(argument) != _text(defaults[name].default)
        }
        return f"{type(value).__name__}({given})"
    if isinstance(value, dict):
        return str({name: _text(member) for name, member in value.items()})
    return str(value.tolist() if isinstance(value, np.ndarray) else value)


_KERNEL = {"gamma": "gamma_", "regularization": "regularization_"}
_SPARSE = {"gamma": "gamma_", "rho": "rho_"}
_WIDTH = {"gamma": "gamma_"}
_LENGTHS = {"length_scale": "length_scale_"}

METHODS = {
    method.name: method
    for method in (
        Method("majority", "majority class", DummyClassifier()),
        Method(
            "shuffled", "labels shuffled", KernelFisherClassifier(random_state=0), shuffled=True
        ),
        Method("lda", "LDA", LinearDiscriminantAnalysis()),
        Method("qda", "QDA", QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=1e-3)),
        Method(
            "svc",
            "SVC, 5-fold grid",
            GridSearchCV(SVC(), SVC_GRID, cv=5),
            {"C": "C", "gamma": "gamma"},
            _svc,
        ),
        Method("kernel-fisher", "KernelFisher", KernelFisherClassifier(random_state=0), _KERNEL),
        Method(
            "kernel-fisher-coefficients",
            "KernelFisher, coefficients",
            KernelFisherClassifier(penalty="coefficients", random_state=0),
            _KERNEL,
        ),
        Method("committee", "FisherCommittee", FisherCommitteeClassifier(random_state=0)),
        Method("forward", "Forward", ForwardFisherClassifier(random_state=0), _WIDTH),
        Method("forward-printed", "F-OFS-LOO as printed", PrintedForwardSelection(), _WIDTH),
        Method(
            "ols", "Forward, err", ForwardFisherClassifier(criterion="err", random_state=0), _WIDTH
        ),
        Method("sparse-q1", "Sparse, q = 1", SparseFisherClassifier(random_state=0), _SPARSE),
        Method(
            "bayes",
            "Bayesian",
            BayesianFisherClassifier(random_state=0),
            _LENGTHS,
            _bayes,
        ),
        Method(
            "bayes-lssvm",
            "Bayesian LS-SVM",
            BayesianFisherClassifier(evidence="lssvm", random_state=0),
            _LENGTHS,
            _bayes,
        ),
        Method(
            "bayes-ard",
            "Bayesian, ARD",
            BayesianFisherClassifier(ard=True, random_state=0),
            _LENGTHS,
            _bayes,
        ),
        Method(
            "bayes-lssvm-ard",
            "Bayesian LS-SVM, ARD",
            BayesianFisherClassifier(ard=True, evidence="lssvm", random_state=0),
            _LENGTHS,
            _bayes,
        ),
        Method(
            "sparse-q05", "Sparse, q = 0.5", SparseFisherClassifier(q=0.5, random_state=0), _SPARSE
        ),
    )
}


def needs(task: Task) -> list[Task]:
    """Tasks that must be done first: those whose parameters this one takes over."""
    if task.protocol in (HONEST, TUNING) or not METHODS[task.method].parameters:
        return []
    return [Task(task.method, task.data, TUNING, split) for split in range(TUNING_SPLITS)]


def run(task: Task, tuned: list[Result]) -> tuple[Result, float]:
    """What a task yields and the seconds of its fit; ``tuned`` are the results of `needs`."""
    method = METHODS[task.method]
    scale = "training" if task.protocol == HONEST else "all"
    data = split_of(task.data, task.split, scale=scale)
    X, y = data.X, data.y
    model = clone(method.model)
    if tuned and task.protocol == LEAK:
        best = int(np.argmin([float(result["cv_error"]) for result in tuned]))  # type: ignore[arg-type]
        model = method.fix(method.model, _values(tuned[best]["chosen"]))
        source = split_of(task.data, best, scale=scale)
        X, y = source.X, source.y
    elif tuned:
        model = method.fix(method.model, median([_values(result["chosen"]) for result in tuned]))
    if method.shuffled:
        y = np.random.default_rng(task.split).permutation(y)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the peers' collinear features and unreached tolerances
        model.fit(X, y)
    seconds = time.process_time() - start
    chosen = {} if tuned else method.parameters
    return {**score(model, data), **record(model, chosen, len(y))}, seconds


def score(model: BaseEstimator, data: Split) -> Result:
    """Error and AUC in percent, and the log-loss where there are probabilities."""
    scores = (
        model.decision_function(data.X_test)
        if hasattr(model, "decision_function")
        else model.predict_proba(data.X_test)[:, 1]
    )
    loss = None
    if hasattr(model, "predict_proba"):
        p = np.clip(model.predict_proba(data.X_test), 1e-12, 1.0)
        loss = rounded(log_loss(data.y_test, p / p.sum(axis=1, keepdims=True)))
    return {
        "origin": data.origin,
        "error": rounded(100 * float(np.mean(model.predict(data.X_test) != data.y_test))),
        "auc": rounded(100 * float(roc_auc_score(data.y_test, scores))),
        "log_loss": loss,
    }


def record(model: BaseEstimator, parameters: Mapping[str, str], n_rows: int) -> Result:
    """Kernels in the model, the parameters chosen and, where there is one, their error."""
    best = getattr(model, "best_estimator_", model)
    size: int | None = getattr(best, "n_terms_", None)
    if size is None and hasattr(best, "support_vectors_"):
        size = len(best.support_vectors_)
    if size is None and hasattr(best, "dual_coef_"):
        size = n_rows
    chosen: dict[str, float | str] = {}
    for parameter, attribute in parameters.items():
        value = np.ravel(getattr(best, attribute))
        chosen[parameter] = " ".join(str(rounded(float(v))) for v in value)
    return {
        "size": size,
        "cv_error": rounded(model.cv_error_) if hasattr(model, "cv_error_") else None,
        "chosen": chosen,
    }


def median(chosen: list[Chosen]) -> Chosen:
    """Median of every parameter on a logarithmic scale; features have medians of their own."""
    return {
        name: _scalar(np.exp(np.median(np.log([np.ravel(c[name]) for c in chosen]), axis=0)))
        for name in chosen[0]
    }


def _values(chosen: Any) -> Chosen:
    return {name: _scalar(np.array(str(v).split(), dtype=float)) for name, v in chosen.items()}


def _scalar(values: np.ndarray) -> float | np.ndarray:
    return float(values[0]) if len(values) == 1 else values
