"""The ``fisherkit`` command.

``fisherkit fit`` trains a self-tuning classifier on a real table and says what it chose and how
well it does. Progress goes to the standard error stream, the result to the standard output.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import version
from math import sqrt
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fisherkit.cli_reproduce import reproduce
from fisherkit.estimators import KernelFisherClassifier

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="markdown",
)


class Kernel(StrEnum):
    """Kernels that suit standardised features."""

    rbf = "rbf"
    laplacian = "laplacian"
    polynomial = "polynomial"
    linear = "linear"


class Penalty(StrEnum):
    """Penalties of ``KernelFisherClassifier``."""

    rkhs = "rkhs"
    coefficients = "coefficients"


app.command()(reproduce)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fisherkit {version('fisherkit')}")
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Kernel discriminants that tune themselves by closed-form leave-one-out."""


@app.command()
def fit(
    kernel: Annotated[
        Kernel, typer.Option(metavar="NAME", help="rbf, laplacian, polynomial or linear.")
    ] = Kernel.rbf,
    penalty: Annotated[
        Penalty,
        typer.Option(
            metavar="NAME",
            help="rkhs: least-squares SVM and kernel ridge; coefficients: the kernel Fisher "
            "discriminant of the papers.",
        ),
    ] = Penalty.rkhs,
    seed: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=2**32 - 1, help="Seed of the held-out split."),
    ] = 0,
) -> None:
    """Train on the breast-cancer table that scikit-learn carries and report the result.

    A third of the rows is held out. On the others, features are standardised, and kernel width
    and regularisation are chosen together by leave-one-out.
    """
    table = load_breast_cancer()
    X, X_held_out, y, y_held_out = train_test_split(
        table.data, table.target, test_size=1 / 3, stratify=table.target, random_state=seed
    )
    classifier = KernelFisherClassifier(kernel.value, penalty=penalty.value, random_state=seed)
    model = make_pipeline(StandardScaler(), classifier)

    start = perf_counter()
    with _progress(Console(stderr=True), "choosing kernel width and regularisation"):
        model.fit(X, y)
    seconds = perf_counter() - start

    chosen = classifier.selection_
    loo_error = np.mean((classifier.loo_decision_ > 0) != (y == classifier.classes_[1]))
    held_out_error = 1 - model.score(X_held_out, y_held_out)
    held_out_log_loss = log_loss(y_held_out, model.predict_proba(X_held_out))

    report = Table.grid(padding=(0, 3))
    report.add_column(style="bold", no_wrap=True)
    report.add_column()
    report.add_row(
        "data",
        f"breast cancer: {len(table.data)} rows, {X.shape[1]} features, "
        f"{len(classifier.classes_)} classes",
    )
    report.add_row("kernel", _describe_kernel(kernel, classifier.gamma_))
    report.add_row(
        "regularisation", f"mu {chosen.mu:.3g} ({chosen.mu / chosen.unit:.3g} of tr(G)/n)"
    )
    report.add_row("rank", f"{chosen.rank} of {len(X)} ({chosen.method})")
    report.add_row("leave-one-out error", f"{loo_error:.2%} of {len(X)} training rows")
    report.add_row("held-out error", f"{held_out_error:.2%} of {len(X_held_out)} rows")
    report.add_row("held-out log-loss", f"{held_out_log_loss:.4f}")
    report.add_row("models priced", f"{len(chosen.path)}")
    report.add_row("time to tune and fit", f"{seconds:.2f} s")
    report.add_row("status", chosen.status.value)
    Console(highlight=False).print(report)


def _describe_kernel(kernel: Kernel, gamma: float | None) -> str:
    if gamma is None:
        return kernel.value
    # exp(-gamma |x - z|^2) = exp(-|x - z|^2 / (2 sigma^2))
    width = f", width sigma {1 / sqrt(2 * gamma):.4g}" if kernel is Kernel.rbf else ""
    return f"{kernel.value}, gamma {gamma:.4g}{width}"


class _StatusHandler(logging.Handler):
    """Shows each log record: on the live line of a terminal, as a line of its own elsewhere."""

    def __init__(self, status: Status, console: Console) -> None:
        super().__init__(logging.INFO)
        self.status = status
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if self.console.is_interactive:
            self.status.update(message)
        else:
            self.console.print(message, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _progress(console: Console, message: str) -> Iterator[None]:
    """Follow the library's log while the block runs, then leave the logger as it was."""
    logger = logging.getLogger("fisherkit")
    level = logger.level
    with console.status(message) as status:
        handler = _StatusHandler(status, console)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.setLevel(level)
            logger.removeHandler(handler)
