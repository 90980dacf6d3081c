"""Options of the commands of ``fisherkit``, with the words that they take."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def _methods() -> list[str]:
    """Names of the methods, for completion."""
    from fisherkit.methods import METHODS

    return list(METHODS)


Kernel = Annotated[
    Literal["rbf", "laplacian", "polynomial", "linear"] | None,
    typer.Option(metavar="NAME", help="rbf, laplacian, polynomial or linear."),
]
Task = Annotated[
    Literal["auto", "classification", "regression"],
    typer.Option(
        metavar="NAME",
        help="What the target holds: classification, regression, or auto: texts and few whole "
        "numbers are classes, other numbers are predicted as numbers.",
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=_methods,
        help="For classes: fisher, one tuned discriminant (default); committee, many, weighted; "
        "sparse, forward, few kernels, small and fast; bayes, tuned by evidence. For numbers: "
        "ridge, kernel ridge regression (default).",
    ),
]
Penalty = Annotated[
    Literal["rkhs", "coefficients"] | None,
    typer.Option(
        metavar="NAME",
        help="rkhs: least-squares SVM and kernel ridge; coefficients: the kernel Fisher "
        "discriminant of the papers.",
    ),
]
HeldOutRows = Annotated[
    Literal["auto", "folds", "split", "none"],
    typer.Option(
        metavar="HOW",
        help="How the error is estimated without --test: folds (auto up to 2,000 rows), split "
        "(auto beyond), none.",
    ),
]
Seconds = Annotated[
    float,
    typer.Option(
        "--time",
        metavar="SECONDS",
        min=1,
        help="All of it should end in about this time (methods fisher, committee): of all rows "
        "and of fewer centres, the most accurate that fits is chosen.",
    ),
]
Target = Annotated[
    str | None, typer.Option("--target", "-t", metavar="COLUMN", help="Column to predict.")
]
Encoding = Annotated[
    str, typer.Option(metavar="NAME", help="Encoding of text files without a byte-order mark.")
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
Weights = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of positive weights: how often each row counts."),
]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of groups, such as persons: their rows stay together in every fold.",
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Seed of every random choice.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by fit.")]
Raw = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Write texts as they are, for programs; a spreadsheet may take some for formulas.",
    ),
]
