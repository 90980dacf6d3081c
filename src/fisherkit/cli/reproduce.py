"""``fisherkit reproduce``: the tables and figures of the papers, measured again.

What it does is in `fisherkit.reproduction.command`, which is imported when it is asked for.
"""

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT", help="An experiment such as orkfd-table1; or list, all, page."
        ),
    ] = "list",
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="One data set and two splits of each, in a folder of its own."
        ),
    ] = False,
    splits: Annotated[
        int, typer.Option(metavar="N", min=1, max=100, help="At most this many splits.")
    ] = 100,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Processes, each on one thread.")
    ] = 1,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where journal, results and page are kept.")
    ] = Path("reproduction"),
) -> None:
    """Run the experiments of the five papers on the real data, and publish them as a page.

    What is finished is kept: an interrupted run goes on where it stopped, several may work in one
    folder, and tables of results that came with the sources count as done.

    Examples: fisherkit reproduce list / fisherkit reproduce orkfd-table1 --splits 20 --jobs 2 /
    fisherkit reproduce all --quick / fisherkit reproduce page
    """
    from fisherkit.reproduction import command

    raise typer.Exit(command.execute(name, folder, quick=quick, splits=splits, jobs=jobs))
