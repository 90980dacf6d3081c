"""What holds of the tables of each paper, what does not, and why: a short text each.

As in `findings`, the verdicts are ours and the figures worked out: from the rows of the tables, so
that a text can only be had where all rows it speaks of are there.
"""

from collections.abc import Callable, Mapping

from fisherkit.reproduction.experiments import TABLES
from fisherkit.reproduction.splits import IDA, SIZES, UCI
from fisherkit.reproduction.tables import MEAN, Row
from fisherkit.reproduction.tasks import HONEST, LEAK, PAPER

_PRINTED = "printed"
_ALIKE = 0.05  # points of AUC
_FORWARD = {table.name: table.sets[0] for table in TABLES if table.name.startswith("fofsloo-")}


class _MissingRow(LookupError):
    pass


class _Tables:
    """The tables of a paper: numbers by table, data set, column and protocol."""

    def __init__(self, tables: Mapping[str, list[Row]]) -> None:
        self._rows = {
            (name, row["data"], row["method"], row["protocol"]): row
            for name, rows in tables.items()
            for row in rows
        }

    def mean(self, table: str, data: str, method: str, protocol: str = HONEST) -> float:
        return self._number("mean", table, data, method, protocol)

    def share(self, table: str, data: str, method: str, protocol: str = HONEST) -> float:
        return self._number("share", table, data, method, protocol)

    def _number(self, what: str, *key: str) -> float:
        if key not in self._rows:
            raise _MissingRow(key)
        return float(str(self._rows[key][what]))


def _orkfd(tables: _Tables) -> str:
    rkhs, papers = (
        {data: tables.mean("orkfd-table1", data, method) for data in (*IDA, MEAN)}
        for method in ("kernel-fisher", "kernel-fisher-coefficients")
    )
    printed = tables.mean("orkfd-table1", MEAN, "ORKFD", _PRINTED)
    shared = tables.mean("orkfd-table1", MEAN, "kernel-fisher", PAPER)
    committee = tables.mean("orkfd-table1", MEAN, "committee")
    worse = max(rkhs[data] - papers[data] for data in IDA)
    return (
        "Table 1 holds. With the penalty of the paper, tuned by leave-one-out on every split, the "
        f"mean error over the {len(IDA)} sets is {papers[MEAN]:.2f} % where {printed:.2f} % is "
        "printed, and single sets differ by both signs. The penalty on the function (rkhs) has "
        f"{rkhs[MEAN]:.2f} %: it is better on image ({rkhs['image']:.2f} against "
        f"{papers['image']:.2f}), and nowhere worse by more than {worse:.1f} points. The protocol "
        "of the paper, one choice for all splits, flatters by "
        f"{rkhs[MEAN] - shared:.1f} points. A committee of the models that tuning prices has "
        f"{committee:.2f} %, most of it from splice and image, where distances are better measured "
        "by L1."
    )


def _kfdaq(tables: _Tables) -> str:
    columns = {"sparse-q1": "kFDA_1", "sparse-q05": "kFDA_0.5", "ols": "kFDA_OLS"}

    def row(protocol: str, data: str = MEAN, table: str = "kfdaq-table3") -> str:
        """The three methods, or their printed columns."""
        names = columns.values() if protocol == _PRINTED else columns
        numbers = [f"{tables.mean(table, data, name, protocol):.1f}" for name in names]
        return f"{numbers[0]}, {numbers[1]} and {numbers[2]} %"

    def kept(name: str, protocol: str = HONEST) -> str:
        return f"{tables.share('kfdaq-table3', MEAN, name, protocol):.0f} %"

    full = tables.mean("kfdaq-table3", MEAN, "kernel-fisher")
    lasso = tables.mean("kfdaq-table3", MEAN, "sparse-q1")
    return (
        "The errors of Tables 1 to 3 do not hold. Tuned on every training part, q = 1, q = 0.5 and "
        f"forward regression (kFDA_OLS) err on {row(HONEST)} of the test rows (means of "
        f"{len(IDA) + len(UCI)} sets), where {row(_PRINTED)} are printed; one choice for all "
        f"splits has {row(PAPER)}. One classifier that is scored on test parts which hold rows it "
        f"was trained on has {row(LEAK)}, which goes a good part of the way to print; the choice "
        "of a lucky one among many would do the rest. The effect is largest where sets are small: "
        f"sonar has {row(HONEST, 'sonar', 'kfdaq-table2')} honest, "
        f"{row(LEAK, 'sonar', 'kfdaq-table2')} leaking, and "
        f"{row(_PRINTED, 'sonar', 'kfdaq-table2')} in print. kFDA_OLS of Table 1, which the paper "
        "quotes from elsewhere, is close: "
        f"{tables.mean('kfdaq-table1', MEAN, 'ols'):.1f} % measured, "
        f"{tables.mean('kfdaq-table1', MEAN, 'kFDA_OLS', _PRINTED):.1f} % printed. What the paper "
        f"is about does hold: q = 1 keeps {kept('sparse-q1')} of the training rows, q = 0.5 "
        f"{kept('sparse-q05')} (printed: {kept('kFDA_1', _PRINTED)} and "
        f"{kept('kFDA_0.5', _PRINTED)}), and q = 1 errs {lasso - full:.1f} points more than a "
        "discriminant on all rows."
    )


def _fofsloo(tables: _Tables) -> str:
    def row(method: str, protocol: str) -> str:
        numbers = [
            f"{tables.mean(table, data, method, protocol):.1f}" for table, data in _FORWARD.items()
        ]
        return f"{numbers[0]}, {numbers[1]} and {numbers[2]} %"

    def terms(method: str, protocol: str) -> str:
        numbers = [
            tables.share(table, data, method, protocol) * SIZES[data][0] / 100
            for table, data in _FORWARD.items()
        ]
        return ", ".join(f"{number:.0f}" for number in numbers)

    return (
        f"The SVM column holds: {row('svc', PAPER)} on breast_cancer, diabetis and heart under the "
        f"paper's protocol, {row('SVM', _PRINTED)} in print. That of F-OFS-LOO does not: printed "
        f"are {row('F-OFS-LOO', _PRINTED)} with {terms('F-OFS-LOO', _PRINTED)} terms, and the "
        "algorithm as printed, without a bias and ending at the first term that does not lower the "
        f"leave-one-out error, has {row('forward-printed', PAPER)} with "
        f"{terms('forward-printed', PAPER)}: it ends too early, since many candidates leave the "
        "count of errors as it is. With a bias, ties broken by the squared error and some patience "
        f"it has {row('forward', PAPER)} with {terms('forward', PAPER)} terms, nearer to print. "
        f"Tuned on every training part these are {row('forward', HONEST)}."
    )


def _bfd(tables: _Tables) -> str:
    columns = {
        "bayes": "BFD",
        "bayes-lssvm": "LS-SVM",
        "kernel-fisher-coefficients": "KFD",
        "lda": "LDA",
        "qda": "QDA",
    }
    ours = {name: tables.mean("bfd-table2", MEAN, name) for name in columns}
    printed = {name: tables.mean("bfd-table2", MEAN, columns[name], _PRINTED) for name in columns}
    listed = [
        f"{title} {ours[name]:.1f} ({printed[name]:.1f})"
        for name, title in columns.items()
        if name not in ("lda", "qda")
    ]
    one, ard, lssvm = (
        {data: tables.mean("bfd-table3", data, name) for data in (*IDA, MEAN)}
        for name in ("bayes", "bayes-ard", "bayes-lssvm-ard")
    )
    printed_ard, printed_lssvm = (
        {data: tables.mean("bfd-table3", data, f"{name}, ARD", _PRINTED) for data in (*IDA, MEAN)}
        for name in ("BFD", "LS-SVM")
    )
    gains = {data: ard[data] - one[data] for data in IDA}
    least, most = (pick(gains, key=lambda data: gains[data]) for pick in (min, max))
    furthest = max(IDA, key=lambda data: abs(ard[data] - printed_ard[data]))
    alike = sum(abs(ard[data] - lssvm[data]) < _ALIKE for data in IDA)
    return (
        "Table 2 holds for what needs no tuning: the mean AUC of LDA is "
        f"{ours['lda']:.1f} (printed: {printed['lda']:.1f}) and that of QDA {ours['qda']:.1f} "
        f"({printed['qda']:.1f}). The kernel methods are all better than printed, and as good as "
        f"each other: {', '.join(listed)}. The printed lead of BFD is not there when all are tuned "
        "with the same care. Table 3 does not hold: with one width per feature BFD has "
        f"{ard[MEAN]:.1f} ({printed_ard[MEAN]:.1f}), furthest from print on {furthest} with "
        f"{ard[furthest]:.1f} ({printed_ard[furthest]:.1f}), and LS-SVM {lssvm[MEAN]:.1f} "
        f"({printed_lssvm[MEAN]:.1f}); on {alike} of {len(IDA)} sets the two agree to {_ALIKE} "
        "points. On the same splits, widths per feature change the AUC of BFD by between "
        f"{gains[least]:+.1f} ({least}) and {gains[most]:+.1f} ({most}) points."
    )


_TEXTS: dict[str, Callable[[_Tables], str]] = {
    "orkfd": _orkfd,
    "kfdaq": _kfdaq,
    "fofsloo": _fofsloo,
    "bfd": _bfd,
}


def about_tables(paper: str, tables: Mapping[str, list[Row]]) -> str | None:
    """The text about the tables of a paper, their rows by name; None if rows are missing."""
    if paper not in _TEXTS:
        return None
    try:
        return _TEXTS[paper](_Tables(tables))
    except _MissingRow:
        return None
