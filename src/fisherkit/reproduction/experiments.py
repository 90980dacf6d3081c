"""What an experiment is, and the tables of the papers: one declarative entry each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fisherkit.reproduction.methods import METHODS
from fisherkit.reproduction.splits import IDA, UCI, n_splits
from fisherkit.reproduction.tasks import (
    HONEST,
    LEAK,
    PAPER,
    TRIAL,
    TUNING,
    TUNING_SPLITS,
    Result,
    Task,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PAPERS = {
    "orkfd": (
        "K. Saadi, N. L. C. Talbot and G. C. Cawley. Optimally regularised kernel Fisher "
        "discriminant classification. Neural Networks 20(7):832-841, 2007."
    ),
    "esann": (
        "G. C. Cawley and N. L. C. Talbot. Efficient cross-validation of kernel Fisher "
        "discriminant classifiers. ESANN, 241-246, 2003."
    ),
    "kfdaq": (
        "R. F. Harrison and K. Pasupa. A simple iterative algorithm for parsimonious binary "
        "kernel Fisher discrimination. Pattern Analysis and Applications 13(1):15-22, 2010."
    ),
    "fofsloo": (
        "X. Hong, S. Chen and C. J. Harris. Fast kernel classifier construction using orthogonal "
        "forward selection to minimise leave-one-out misclassification rate. ICIC, LNCS "
        "4113:106-114, 2006."
    ),
    "bfd": (
        "T. Peña Centeno and N. D. Lawrence. Optimising kernel parameters and regularisation "
        "coefficients for non-linear discriminant analysis. JMLR 7:455-491, 2006."
    ),
}
LEAKED = "scored on rows it was trained on"
OTHER_PROTOCOL = "quoted from work with other protocols"
QUICK_SETS, QUICK_SPLITS = 1, 2


@dataclass(frozen=True)
class Printed:
    """A column of a printed table: ours that it compares with, or quoted only."""

    column: str  # in the file of published figures
    title: str
    method: str = ""  # empty: quoted, not run
    spread: str = ""  # the column of its printed spread
    size: str = ""  # the column of its printed model size, in terms or, "_pct", percent of rows
    doubt: str = ""  # why it is no fair comparison; empty: it is

    @property
    def kind(self) -> str:
        """The protocol that its rows and its column are marked with."""
        return "printed" if self.method else "quoted"


@dataclass(frozen=True)
class Table:
    """A table of test errors or AUCs over splits of data sets.

    ``methods`` run under the honest protocol; those in ``paper`` and ``leak`` under these too.
    """

    name: str
    what: str
    title: str
    sets: tuple[str, ...]
    methods: tuple[str, ...]
    published: tuple[str, ...]  # files of the printed figures
    printed: tuple[Printed, ...]
    paper: tuple[str, ...] = ()
    leak: tuple[str, ...] = ()
    reference: str = "committee"  # the method that all others are tested against
    measure: str = "error"
    means_only: bool = False  # shows means over the sets, not each set
    most_splits: Mapping[str, int] = field(default_factory=dict)  # of methods that take long

    def columns(self) -> list[tuple[str, str]]:
        """The measured columns: (method, protocol)."""
        return [
            (method, protocol)
            for method in self.methods
            for protocol, members in (
                (HONEST, self.methods),
                (PAPER, self.paper),
                (LEAK, self.leak),
            )
            if method in members
        ]

    def asked(self, method: str, data: str, splits: int = 100) -> int:
        """Splits a full run has for a method on a set."""
        return n_splits(data, min(splits, self.most_splits.get(method, splits)))

    def tasks(self, *, splits: int = 100, quick: bool = False) -> Iterator[Task]:
        """All tasks, those first whose parameters others take over."""
        sets = self.sets[:QUICK_SETS] if quick else self.sets
        splits = QUICK_SPLITS if quick else splits
        for method, protocol in self.columns():
            if protocol in (PAPER, LEAK) and METHODS[method].parameters:
                for data in sets:
                    yield from (Task(method, data, TUNING, s) for s in range(TUNING_SPLITS))
        for method, protocol in self.columns():
            for data in sets:
                for split in range(self.asked(method, data, splits)):
                    yield Task(method, data, protocol, split)


@dataclass(frozen=True)
class Figure:
    """A figure: trials of studies, and how they are drawn.

    ``trials`` lists (study, setting, number of trials); ``quick`` those of a quick run. ``draw``
    makes a matplotlib figure of the results of these tasks.
    """

    name: str
    what: str
    title: str
    trials: tuple[tuple[str, str, int], ...]
    quick: tuple[tuple[str, str, int], ...]
    draw: Callable[[Mapping[Task, Result]], Drawing]
    caption: str  # states n, seed and settings

    def tasks(self, *, splits: int = 100, quick: bool = False) -> Iterator[Task]:
        for study, setting, trials in self.quick if quick else self.trials:
            for trial in range(min(trials, splits)):
                yield Task(study, setting, TRIAL, trial)


CONTROLS = ("majority", "shuffled")
KERNEL = ("kernel-fisher", "kernel-fisher-coefficients")
ALL = (
    *CONTROLS,
    *("lda", "qda", "svc", *KERNEL, "sparse-q1", "sparse-q05", "ols", "forward", "bayes"),
    "committee",
)
_FOFSLOO_PRINTED = (
    Printed("FOFSLOO", "F-OFS-LOO", "forward-printed", "FOFSLOO_pm", "FOFSLOO_size"),
    Printed("SVM", "SVM", "svc", "SVM_pm"),
    Printed("RBF", "RBF network", "", "RBF_pm", "RBF_size"),
    Printed("AB", "AdaBoost", "", "AB_pm"),
    Printed("ABR", "AdaBoost reg.", "", "ABR_pm"),
    Printed("LPreg_AB", "LP reg. AdaBoost", "", "LPreg_AB_pm"),
    Printed("QPreg_AB", "QP reg. AdaBoost", "", "QPreg_AB_pm"),
)
_KFDAQ_PRINTED = (
    Printed("q1_mcr", "kFDA_1", "sparse-q1", "q1_pm", "q1_nrs_pct", doubt=LEAKED),
    Printed("q05_mcr", "kFDA_0.5", "sparse-q05", "q05_pm", "q05_nrs_pct", doubt=LEAKED),
    Printed(
        "q1min_mcr", "kFDA_1, sparsest", "sparse-q1", "q1min_pm", "q1min_nrs_pct", doubt=LEAKED
    ),
    Printed(
        *("q05min_mcr", "kFDA_0.5, sparsest", "sparse-q05", "q05min_pm", "q05min_nrs_pct"),
        doubt=LEAKED,
    ),
    Printed("best_mcr", "best quoted", "", "best_pm", "best_nrs_pct", doubt=OTHER_PROTOCOL),
)


def _fofsloo(number: int, data: str) -> Table:
    return Table(
        name=f"fofsloo-table{number}",
        what=f"Table {number}",
        title=f"forward selection by leave-one-out error on {data}",
        sets=(data,),
        methods=(*CONTROLS, "lda", "svc", "forward-printed", "forward", "committee"),
        paper=("svc", "forward-printed", "forward"),
        published=("fofsloo_tables.csv",),
        printed=_FOFSLOO_PRINTED,
    )


TABLES = (
    Table(
        name="orkfd-table1",
        what="Table 1",
        title="optimally regularised KFD on the 13 IDA sets",
        sets=IDA,
        methods=(*CONTROLS, "lda", "qda", "svc", *KERNEL, "committee"),
        paper=("svc", *KERNEL),
        published=("orkfd_table1.csv",),
        printed=(
            Printed("ORKFD", "ORKFD", "kernel-fisher-coefficients", "ORKFD_pm"),
            Printed("KFD", "KFD", "kernel-fisher-coefficients", "KFD_pm"),
            Printed("SVM", "SVM", "svc", "SVM_pm"),
            Printed("RBF", "RBF network", "", "RBF_pm"),
            Printed("AB", "AdaBoost", "", "AB_pm"),
            Printed("ABL", "LP reg. AdaBoost", "", "ABL_pm"),
            Printed("ABQ", "QP reg. AdaBoost", "", "ABQ_pm"),
            Printed("ABR", "AdaBoost reg.", "", "ABR_pm"),
        ),
    ),
    Table(
        name="kfdaq-table1",
        what="Table 1",
        title="lq-sparse KFD on the 13 IDA sets",
        sets=IDA,
        methods=ALL,
        paper=("sparse-q1", "sparse-q05", "ols"),
        leak=("sparse-q1", "sparse-q05", "ols"),
        published=("kfdaq_table1_ida.csv",),
        printed=(*_KFDAQ_PRINTED, Printed("ols_mcr", "kFDA_OLS", "ols", "ols_pm", "ols_nrs_pct")),
    ),
    Table(
        name="kfdaq-table2",
        what="Table 2",
        title="lq-sparse KFD on 7 UCI sets",
        sets=UCI,
        methods=ALL,
        paper=("sparse-q1", "sparse-q05", "ols"),
        leak=("sparse-q1", "sparse-q05", "ols"),
        published=("kfdaq_table2_uci.csv",),
        printed=(
            *_KFDAQ_PRINTED,
            Printed("ols_mcr", "kFDA_OLS", "ols", "ols_pm", "ols_nrs_pct", doubt=LEAKED),
        ),
    ),
    Table(
        name="kfdaq-table3",
        what="Table 3",
        title="lq-sparse KFD, means over all 20 sets",
        sets=(*IDA, *UCI),
        methods=ALL,
        paper=("sparse-q1", "sparse-q05", "ols"),
        leak=("sparse-q1", "sparse-q05", "ols"),
        published=("kfdaq_table1_ida.csv", "kfdaq_table2_uci.csv"),
        printed=(
            *_KFDAQ_PRINTED,
            Printed("ols_mcr", "kFDA_OLS", "ols", "ols_pm", "ols_nrs_pct", doubt=LEAKED),
        ),
        means_only=True,
    ),
    _fofsloo(1, "breast_cancer"),
    _fofsloo(2, "diabetis"),
    _fofsloo(3, "heart"),
    Table(
        name="bfd-table2",
        what="Table 2",
        title="area under the ROC curve, one width",
        sets=IDA,
        methods=(*CONTROLS, "lda", "qda", "svc", *KERNEL, "bayes-lssvm", "bayes", "committee"),
        paper=("bayes", "bayes-lssvm", "kernel-fisher-coefficients"),
        published=("bfd_table2_rbf_auc.csv",),
        printed=(
            Printed("BFD", "BFD", "bayes", "BFD_sd"),
            Printed("LSSVM", "LS-SVM", "bayes-lssvm", "LSSVM_sd"),
            Printed("KFD", "KFD", "kernel-fisher-coefficients", "KFD_sd"),
            Printed("LDA", "LDA", "lda", "LDA_sd"),
            Printed("QDA", "QDA", "qda", "QDA_sd"),
        ),
        measure="auc",
        most_splits={"bayes-lssvm": 20},
    ),
    Table(
        name="bfd-table3",
        what="Table 3",
        title="area under the ROC curve, one width per feature",
        sets=IDA,
        methods=(*CONTROLS, "bayes", "bayes-ard", "bayes-lssvm-ard"),
        paper=("bayes-ard", "bayes-lssvm-ard"),
        reference="bayes-ard",
        published=("bfd_table3_ard_auc.csv",),
        printed=(
            Printed("BFD", "BFD, ARD", "bayes-ard", "BFD_sd"),
            Printed("LSSVM", "LS-SVM, ARD", "bayes-lssvm-ard", "LSSVM_sd"),
        ),
        measure="auc",
        most_splits={"bayes": 20, "bayes-ard": 20, "bayes-lssvm-ard": 20},
    ),
)
