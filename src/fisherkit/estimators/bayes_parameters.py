"""Which parameters of the Bayesian classifier are valid, and which go together."""

from __future__ import annotations

from typing import Any

from sklearn.gaussian_process.kernels import Kernel as KernelOfSklearn
from sklearn.gaussian_process.kernels import WhiteKernel

from fisherkit.bayes import EVIDENCE
from fisherkit.estimators import validation

KERNELS = ("rbf", "linear")
SOLVERS = ("direct", "em")
PROBABILITIES = ("loo", "noise_model")


def check_parameters(model: Any) -> None:
    """Refuse parameters of a `BayesianFisherClassifier` that are not valid, or not together."""
    if not isinstance(model.kernel, KernelOfSklearn):
        also = " or a kernel of sklearn.gaussian_process"
        validation.one_of("kernel", model.kernel, KERNELS, also=also)
    validation.flag("ard", model.ard)
    validation.flag("linear", model.linear)
    validation.one_of("evidence", model.evidence, tuple(EVIDENCE))
    validation.one_of("solver", model.solver, SOLVERS)
    validation.one_of("probability", model.probability, PROBABILITIES)
    validation.count("n_inducing", model.n_inducing)
    validation.positive("n_restarts", model.n_restarts)
    if model.hyperprior is not None:
        spread = validation.number_or_rule("hyperprior", model.hyperprior, ("auto",))
        if spread is not None and (not model.ard or model.solver == "em"):
            raise ValueError(
                f"hyperprior={model.hyperprior!r} is a spread of the features' log weights and "
                "needs ard=True and solver='direct'; leave it at 'auto'."
            )
    if model.kernel != "rbf" and model.linear:
        raise ValueError(f"linear=True adds to kernel='rbf' only; got kernel={model.kernel!r}.")
    if isinstance(model.kernel, KernelOfSklearn):
        if model.ard:
            raise ValueError(
                "ard=True has no meaning with a kernel object; give the object one length "
                "scale per feature instead."
            )
        if model.n_inducing is not None:
            raise ValueError(
                "n_inducing needs kernel='rbf': kernel objects have no gradient between "
                "different rows. Leave it at None."
            )
        parts = [model.kernel, *model.kernel.get_params().values()]
        if any(isinstance(part, WhiteKernel) for part in parts):
            raise ValueError(
                f"kernel={model.kernel!r} has a WhiteKernel; noise is always part of the model. "
                "Leave it out."
            )
    if model.kernel == "linear" and model.n_inducing is not None:
        raise ValueError(
            "n_inducing has no meaning with kernel='linear', which is exact at the cost of "
            "the number of features; leave it at None."
        )
    if model.solver == "em":
        refused = {"kernel": "linear", "evidence": "lssvm"}
        if model.n_inducing is not None:
            refused["n_inducing"] = model.n_inducing
        for name in [name for name, bad in refused.items() if getattr(model, name) == bad]:
            raise ValueError(
                "solver='em' needs kernel='rbf' or a kernel object, evidence='fisher' and "
                f"n_inducing=None; got {name}={getattr(model, name)!r}. Use solver='direct'."
            )
