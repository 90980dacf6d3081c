"""The methods for tables: one entry for each, with all that the command and the report know of it.

A new method is a classifier, registered for model files (`fisherkit.stored`), and an entry here,
or from outside `register(Method(...))`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature

import numpy as np
from sklearn.base import ClassifierMixin

from fisherkit.core import Kernel, View, length
from fisherkit.estimators import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    SparseFisherClassifier,
)
from fisherkit.interfaces import Json
from fisherkit.terminal import counted, percent

Parameters = dict[str, object]
Pairs = list[tuple[str, str]]  # of a kernel and a view
Chosen = dict[str, Json]
Fact = tuple[str, str]

CRITERION_WORDS = {
    "press": "squared error (PRESS)",
    "log_loss": "log-loss",
    "error": "error rate",
    "smoothed_error": "smoothed error rate",
}
_KERNEL_FISHER = (
    "K. Saadi, N. L. C. Talbot and G. C. Cawley. Optimally regularised kernel Fisher "
    "discriminant classification. Neural Networks 20(7):832-841, 2007.",
    "G. C. Cawley and N. L. C. Talbot. Efficient cross-validation of kernel Fisher "
    "discriminant classifiers. ESANN, 241-246, 2003.",
)
_SPARSE = (
    "R. F. Harrison and K. Pasupa. A simple iterative algorithm for parsimonious binary kernel "
    "Fisher discrimination. Pattern Analysis and Applications 13(1):15-22, 2010."
)
_FORWARD = (
    "X. Hong, S. Chen and C. J. Harris. Fast kernel classifier construction using orthogonal "
    "forward selection to minimise leave-one-out misclassification rate. ICIC, LNCS "
    "4113:106-114, 2006."
)
_BAYES = (
    "T. Peña Centeno and N. D. Lawrence. Optimising kernel parameters and regularisation "
    "coefficients for non-linear discriminant analysis. Journal of Machine Learning Research "
    "7:455-491, 2006."
)


class RecipeError(ValueError):
    """Options that do not go together."""


def kernel_and_width(model: ClassifierMixin) -> Chosen:
    """The kernel and, where it has one, its coefficient gamma with the width that this means."""
    kernel, gamma = model.kernel, getattr(model, "gamma_", None)
    if gamma is None:
        return {"kernel": kernel}
    return {"kernel": kernel, "gamma": float(gamma), "width": length(Kernel(kernel), gamma)}


def by_threshold() -> Parameters:
    return {"threshold": "balanced"}


def nothing_more(model: ClassifierMixin) -> list[Fact]:
    return []


@dataclass(frozen=True)
class Method:
    """A way to train a classifier: what the command and the report have to know of it.

    Fitted objects of ``estimator`` have ``loo_decision_`` or ``cv_decision_`` and ``calibration_``,
    from which the report judges left-out rows.
    """

    name: str  # as the command and model files know it
    estimator: type[ClassifierMixin]
    title: str  # what the report calls it
    papers: tuple[str, ...] = ()  # what the report asks its readers to cite
    # Rows up to which every one is a centre, and the number of centres of more rows, where time and
    # memory do not choose: methods that are not `planned`, and questions that leave out every row.
    exact_rows: int = 1000
    centres: int = 300
    centres_parameter: str = "n_components"  # the parameter that takes this number
    basis: str | None = "random"  # the parameter that goes with it, if there is one
    # the parameters that ask for a kernel of a given name, and the names (None: all)
    kernel: Callable[[str], Parameters] = lambda name: {"kernel": name}
    kernels: tuple[str, ...] | None = None
    # the parameters for kernels on views (None: all that are worth it), where the method has views
    of_views: Callable[[Pairs | None, Mapping[str, View]], Parameters] | None = None
    learns: bool = False  # whether kernels may learn which columns matter, with ``learn``
    groups: str | None = None  # whether "fit" takes groups, or "folds" given as ``cv`` do
    # the parameters that make classes count alike; None where there are none
    balanced: Parameters | None = field(default_factory=by_threshold)
    penalties: bool = False  # whether there is a ``penalty`` to choose
    in_blocks: bool = False  # whether rows may be read in blocks, with ``max_memory``
    one_width: bool = True  # whether fits search for one ``gamma_``, which a part of the rows finds
    # What the settings compared differ in, which the report draws: "mu" has ``selection_``, "size"
    # ``path_`` and ``n_terms_``, "members" ``members_``; "evidence" compares none.
    search: str | None = None
    # whether one regression on codes is behind the model, which gives the influence of single rows
    influence: bool = False
    # names and values of what was chosen, for the summary that the command prints
    chosen: Callable[[ClassifierMixin], Chosen] = kernel_and_width
    # names and words of what was chosen, for the report, beside the kernel and its width
    facts: Callable[[ClassifierMixin], list[Fact]] = nothing_more

    @property
    def planned(self) -> bool:
        """Whether the estimator chooses its centres by time and memory, as ``max_time`` says."""
        return "max_time" in signature(self.estimator).parameters

    @property
    def sets(self) -> bool:
        """Whether the classifier has label sets."""
        return hasattr(self.estimator, "predict_set")


METHODS: dict[str, Method] = {}


def register(method: Method) -> None:
    """Let command, training and report know a method."""
    METHODS[method.name] = method


def method_named(name: str) -> Method:
    """The entry of a method; `RecipeError` if there is none."""
    if name not in METHODS:
        raise RecipeError(f"there is no method {name!r}; there are {', '.join(METHODS)}.")
    return METHODS[name]


def names_where(holds: Callable[[Method], bool]) -> list[str]:
    """Names of the methods for which something holds."""
    return [method.name for method in METHODS.values() if holds(method)]


def _selection(model: KernelFisherClassifier | KernelRidgeCV) -> Chosen:
    selection = model.selection_
    return kernel_and_width(model) | {
        "mu": float(selection.mu),
        "relative_mu": float(selection.mu / selection.unit),
        "rank": int(selection.rank),
        "decomposition": selection.method,
        "settings_compared": len(selection.path),
        "status": selection.status.value,
    }


def _planned(model: KernelFisherClassifier | FisherCommitteeClassifier) -> list[Fact]:
    """What was done with the rows, where time and memory have chosen it."""
    plan = model.plan_
    return [] if np.isnan(plan.seconds) else [("Plan by time and memory", f"{plan.words}.")]


def _selection_facts(model: KernelFisherClassifier | KernelRidgeCV) -> list[Fact]:
    selection = model.selection_
    relative, criterion = selection.mu / selection.unit, selection.criterion
    words = CRITERION_WORDS.get(criterion, criterion)
    return [
        ("Regularisation", f"mu {selection.mu:.4g} ({relative:.3g} times tr(G)/n)"),
        ("Chosen by", f"leave-one-out {words}: {selection.value:.4g}"),
        ("Settings compared", f"{len(selection.path):,}"),
        ("Why the search ended", selection.status.value),
        ("Computed by", f"{selection.method} path, rank {selection.rank:,}"),
        *_planned(model),
    ]


# Kernels and views of a committee, and whether they learn which columns matter.
_FAMILIES = {
    ("rbf", "standard"): False,
    ("laplacian", "standard"): True,
    ("rbf", "rank"): False,
    ("laplacian", "rank"): True,
    ("exponential", "standard"): True,
}


def _of_views(pairs: Pairs | None, views: Mapping[str, View]) -> Parameters:
    chosen = [pair for pair in _FAMILIES if pair[1] in views] if pairs is None else pairs
    return {
        "kernels": tuple((kernel, views[view]) for kernel, view in chosen),
        "learn": [_FAMILIES[pair] for pair in chosen] if pairs is None else True,
        "combine": "families",
    }


def _committee(model: FisherCommitteeClassifier) -> Chosen:
    return {
        "kernels": list(dict.fromkeys(model.members_["kernel"].tolist())),
        "members": len(model.members_),
        "effective_members": float(model.effective_members_),
        "status": model.status_.value,
    }


def _committee_facts(model: FisherCommitteeClassifier) -> list[Fact]:
    used = int(np.sum(np.asarray(model.weights_) > 0))
    facts = [
        ("Members", f"{len(model.members_):,} compared, {used:,} in use"),
        ("Effective number of members", f"{model.effective_members_:.3g}"),
        ("Combination", model.combine),
    ]
    bounded = model.members_[model.members_["bounded"]]
    weight = float(np.sum(bounded["weight"]))
    if weight > 0:  # members whose slope lies at a bound
        members = counted(int(np.sum(bounded["weight"] > 0)), "member")
        words = f"{members}, {percent(weight)} of the weight: left-out rows gave them no slope"
        facts.append(("Slope at a bound", f"{words} inside the bounds"))
    return [*facts, ("Why the search ended", model.status_.value), *_planned(model)]


def _few_kernels(model: SparseFisherClassifier | ForwardFisherClassifier) -> Chosen:
    penalty: Chosen = {"rho": model.rho_} if hasattr(model, "rho_") else {}
    size: Chosen = {"kernels_kept": int(model.n_terms_), "settings_compared": len(model.path_)}
    return kernel_and_width(model) | penalty | size


def _few_kernels_facts(model: SparseFisherClassifier | ForwardFisherClassifier) -> list[Fact]:
    facts = [("Kernels retained", f"{model.n_terms_:,}")]
    if hasattr(model, "rho_"):
        facts.insert(0, ("Penalty", f"rho {model.rho_:.4g}, q {model.q:g}"))
    return facts


def _evidence(model: BayesianFisherClassifier) -> Chosen:
    return {
        "kernel": model.kernel,
        "length_scale": float(model.length_scale_),
        "noise_precision": float(model.noise_precision_),
        "log_evidence": float(model.log_evidence_),
        "status": model.status_.value,
    }


def _evidence_facts(model: BayesianFisherClassifier) -> list[Fact]:
    facts = [
        ("Log evidence", f"{model.log_evidence_:.4g}"),
        ("Noise precision, nugget", f"{model.noise_precision_:.4g}, {model.nugget_:.4g}"),
        ("Why the search ended", model.status_.value),
    ]
    if isinstance(model.length_scale_, float):
        facts.append(("Length scale", f"{model.length_scale_:.4g}"))
    return facts


register(
    Method(
        name="fisher",
        estimator=KernelFisherClassifier,
        title="kernel Fisher discriminant, tuned by leave-one-out",
        papers=_KERNEL_FISHER,
        exact_rows=5000,
        centres=1000,
        groups="folds",
        penalties=True,
        in_blocks=True,
        search="mu",
        influence=True,
        chosen=_selection,
        facts=_selection_facts,
    )
)
register(
    Method(
        name="committee",
        estimator=FisherCommitteeClassifier,
        title="committee of kernel Fisher discriminants, weighted by leave-one-out",
        papers=_KERNEL_FISHER,
        exact_rows=4000,
        centres=1000,
        of_views=_of_views,
        learns=True,
        groups="fit",
        balanced={"class_weight": "balanced"},
        penalties=True,
        in_blocks=True,
        one_width=False,
        search="members",
        chosen=_committee,
        facts=_committee_facts,
    )
)
register(
    Method(
        name="sparse",
        estimator=SparseFisherClassifier,
        title="sparse kernel Fisher discriminant, tuned by cross-validation",
        papers=(_SPARSE,),
        exact_rows=20000,  # the classifier itself takes fewer candidates of many rows
        centres=1000,
        centres_parameter="n_candidates",
        groups="folds",
        search="size",
        chosen=_few_kernels,
        facts=_few_kernels_facts,
    )
)
register(
    Method(
        name="forward",
        estimator=ForwardFisherClassifier,
        title="kernel Fisher discriminant grown term by term",
        papers=(_FORWARD,),
        exact_rows=20000,  # the classifier itself takes fewer candidates of many rows
        centres=1000,
        centres_parameter="n_candidates",
        groups="folds",
        search="size",
        chosen=_few_kernels,
        facts=_few_kernels_facts,
    )
)
register(
    Method(
        name="bayes",
        estimator=BayesianFisherClassifier,
        title="Bayesian Fisher discriminant",
        papers=(_BAYES,),
        exact_rows=3000,
        centres_parameter="n_inducing",
        basis=None,
        kernels=("rbf", "linear"),
        balanced=None,
        one_width=False,
        search="evidence",
        influence=True,
        chosen=_evidence,
        facts=_evidence_facts,
    )
)

# What predicts numbers, and the kernels and views that it compares. It trains no classifiers, so
# that it is not among the methods above.
RIDGE = Method(
    name="ridge",
    estimator=KernelRidgeCV,
    title="kernel ridge regression, tuned by leave-one-out",
    exact_rows=4000,
    centres=1000,
    groups="folds",
    penalties=True,
    in_blocks=True,
    search="mu",
    influence=True,
    chosen=_selection,
    facts=_selection_facts,
)
REGRESSION = [
    *(("rbf", "standard"), ("laplacian", "standard"), ("exponential", "standard")),
    *(("rbf", "rank"), ("laplacian", "rank")),
]
