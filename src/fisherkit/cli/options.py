"""Options that the commands of ``fisherkit`` share, and the words that some of them take."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Method(StrEnum):
    """Classifiers of fisherkit."""

    fisher = "fisher"
    committee = "committee"
    sparse = "sparse"
    forward = "forward"
    bayes = "bayes"


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


class Check(StrEnum):
    """How the error on rows not seen is estimated."""

    AUTO = "auto"
    FOLDS = "folds"
    SPLIT = "split"
    NONE = "none"


Target = Annotated[
    str | None, typer.Option("--target", "-t", metavar="COLUMN", help="Column to predict.")
]
Encoding = Annotated[
    str, typer.Option(metavar="NAME", help="Of text files without a byte-order mark.")
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Leave a column out (repeatable).")
]
Keep = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Use a column although it looks like an identifier."),
]
AsText = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="COLUMN", help="Take a column as text, not as numbers."),
]
Seed = Annotated[
    int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Seed of every random choice.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by fit.")]
Raw = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Write texts as they are, for programs; a spreadsheet may take some for formulas.",
    ),
]
