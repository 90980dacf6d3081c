"""The ``fisherkit`` command.

Modules that are slow to import are imported inside the commands that need them, so that
``fisherkit --help`` and shell completion answer at once. Progress goes to standard error,
results to standard output.

Exit codes: 0 done; 1 unexpected (a fault of fisherkit); 2 wrong command line, or a file that cannot
be written; 3 a table that cannot be used; 4 a model file that cannot be used; 5 an extra is not
installed; 130 interrupted; 141 the output is a closed pipe, as after ``| head``.
"""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from fisherkit.cli.options import (
    AsJson,
    AsText,
    Drop,
    Encoding,
    Groups,
    HeldOutRows,
    Keep,
    Kernel,
    Method,
    ModelPath,
    Penalty,
    Quiet,
    Raw,
    Seconds,
    Seed,
    Target,
    Task,
    Weights,
)
from fisherkit.cli.reproduce import reproduce
from fisherkit.terminal import close_broken_pipes, printable
from fisherkit.whole_files import check, written, written_text

if TYPE_CHECKING:
    import pandas as pd

    from fisherkit.training import Training, Words

WRONG_USE, WRONG_TABLE, WRONG_MODEL, MISSING_EXTRA = 2, 3, 4, 5
INTERRUPTED, CLOSED_PIPE = 130, 141  # as if the signals had ended it


class _App(typer.Typer):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # characters that it lacks are written out
                stream.reconfigure(errors="backslashreplace")
        return super().__call__(*args, **kwargs)


app = _App(no_args_is_help=True, pretty_exceptions_show_locals=False, rich_markup_mode="markdown")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fisherkit {version('fisherkit')}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 done, 1 unexpected, 2 wrong command line, 3 table cannot be used, "
    "4 model file cannot be used, 5 an extra is missing, 130 interrupted, 141 closed pipe."
)
def main(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Kernel discriminants that tune themselves by closed-form leave-one-out."""


@app.command(
    epilog="Examples: `fisherkit fit patients.csv --target outcome --model outcome.fisherkit "
    "--report outcome.html` · `fisherkit fit train.parquet -t income --test test.parquet "
    "--method committee`"
)
def fit(
    data: Annotated[
        Path | None,
        typer.Argument(metavar="DATA", help="CSV, TSV, Parquet or Arrow (Feather) file."),
    ] = None,
    target: Target = None,
    test: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Other rows, on which the error is estimated."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the model here.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report page (HTML) here.")
    ] = None,
    task: Task = "auto",
    method: Method = None,
    kernel: Kernel = None,
    penalty: Penalty = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Decide as if classes were equally frequent.")
    ] = False,
    centres: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of kernels in the model; fewer are faster."),
    ] = None,
    time: Seconds = 60.0,
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory of the fit, such as 500MB, beyond which it reads its rows in blocks "
            "(methods fisher, committee and ridge).",
        ),
    ] = None,
    out_of_core: Annotated[
        bool,
        typer.Option(
            "--out-of-core",
            help="Also read the table in parts, for files larger than memory (methods fisher, "
            "committee and ridge). Temporary files take about eight bytes for each feature of each "
            "row; TMPDIR names their folder.",
        ),
    ] = False,
    held_out: HeldOutRows = "auto",
    no_baseline: Annotated[
        bool,
        typer.Option(
            "--no-baseline",
            help="Leave out of report and model file how other methods do on the same rows "
            "(at most ten seconds, or 30 % of the time of the fit if that is longer).",
        ),
    ] = False,
    drop: Drop = None,
    keep: Keep = None,
    text: AsText = None,
    weights: Weights = None,
    groups: Groups = None,
    encoding: Encoding = "utf-8",
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on a table, and say what was chosen and how well it does.

    It predicts classes or numbers, as the target asks. Numbers are scaled, text becomes one column
    for each level, missing values are filled. Without a file, the breast-cancer table of
    scikit-learn is used.
    """
    with _failing():
        _check_outputs((data, test), model, report)
        from fisherkit.cli import console
        from fisherkit.training import check_method, fitting, saved

        check_method(method)
        said = (target, test, drop, keep, text, weights, groups)
        if data is None and (any(said) or task != "auto"):
            raise typer.BadParameter(
                "--target, --task, --test, --drop, --keep, --text, --weights and --groups need a "
                "file."
            )
        if data is None and out_of_core:
            raise typer.BadParameter("--out-of-core needs a file.")
        with (
            console.following("reading", quiet=quiet),
            fitting.opened(
                data,
                target,
                out_of_core=out_of_core,
                **_words(drop, keep, text, encoding, task, weights, groups),
            ) as rows,
        ):
            done = fitting.train(
                rows,
                method,
                test=test,
                held_out=held_out,
                seed=seed,
                encoding=encoding,
                baseline=not no_baseline and not (model is None and report is None),
                kernel=kernel,
                penalty=penalty,
                balanced=balanced,
                centres=centres,
                max_memory=max_memory,
                max_time=time,
                leaving_out=report is not None,
            )
            summary = console.describe(done)
            if model is not None:
                saved.save(done, model, summary)
            if report is not None:
                _write_report(done, report)
        if as_json:
            files = {"model": model and str(model), "report": report and str(report)}
            typer.echo(json.dumps({**summary, **files}, indent=1))
            return
        console.show(summary)
        for path in (model, report):
            if path is not None and not quiet:
                typer.echo(f"written: {path}", err=True)


@app.command(
    epilog="Example: `fisherkit predict outcome.fisherkit new.csv -o answers.csv --confidence 0.9`"
)
def predict(
    model: ModelPath,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Rows with the same columns.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="CSV to write; default: print."),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Add label sets (methods fisher and bayes) or intervals (ridge) that hold the "
            "truth with this probability. Models of up to 2,000 training rows add them at 0.9 "
            "by default.",
        ),
    ] = None,
    raw: Raw = False,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
) -> None:
    """Predict the target of every row.

    A classifier writes the label, probabilities and, where available, label sets; a regressor
    writes the prediction with the lower and upper end of its interval. Columns are found by name,
    in any order; other columns are ignored. If the target is among them, the error is printed on
    the standard error stream. Texts that a spreadsheet would take for formulas begin with an
    apostrophe.
    """
    with _failing():
        _check_outputs((model, data), output)
        from fisherkit.cli import console
        from fisherkit.models import files
        from fisherkit.tables import sheets
        from fisherkit.training import prediction, saved

        with _warnings_as_notes():
            file = files.load(model)
        rows = saved.open_rows(file, data, encoding)
        answers = prediction.Predictions(file, rows, confidence)
        tables = answers if raw else map(sheets.guarded, answers)
        if output is None:
            _write_parts(tables, sys.stdout)
        else:
            with console.following("predicting", quiet=quiet), written_text(output) as out:
                _write_parts(tables, out)
        for remark in answers.remarks:
            if not quiet:
                typer.echo(printable(remark), err=True)


@app.command(epilog="Example: `fisherkit explain outcome.fisherkit new.csv --row 7`")
def explain(
    model: ModelPath,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Rows with the same columns.")],
    row: Annotated[
        int | None,
        typer.Option(metavar="LINE", min=1, help="The row that begins in this line of the file."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="All rows, as CSV or HTML; default: print ten."
        ),
    ] = None,
    raw: Raw = False,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
) -> None:
    """Explain the answer for every row: what each column adds, and which change would turn it.

    Columns add to the margin between the two likeliest classes, or take from it, beyond where it
    is if nothing is known of the row. The margin is the logarithm of how many times likelier the
    answer is than the second class. Where a model predicts numbers, columns add to the prediction.
    """
    with _failing():
        _check_outputs((model, data), output)
        from fisherkit.cli import console
        from fisherkit.models import files
        from fisherkit.tables import sheets
        from fisherkit.training import explanations, saved

        if output is not None and output.suffix.lower() not in (".csv", ".html"):
            raise typer.BadParameter(f"{output}: -o writes .csv or .html.")
        with _warnings_as_notes():
            file = files.load(model)
        rows = saved.open_rows(file, data, encoding)
        if output is None:
            for line in explanations.printed(file, rows, row):
                typer.echo(printable(line, lines=True))
            return
        found = explanations.explanations(file, rows, row)
        with console.following("explaining", quiet=quiet), written_text(output) as out:
            if output.suffix.lower() == ".csv":
                tables = map(explanations.sheet, found)
                _write_parts(tables if raw else map(sheets.guarded, tables), out)
            else:
                out.writelines(explanations.page(file, found, f"{data.name}: why these answers"))
        if not quiet:
            typer.echo(f"written: {output}", err=True)


def _write_parts(tables: Iterable[pd.DataFrame], file: TextIO) -> None:
    for number, table in enumerate(tables):
        table.to_csv(file, header=number == 0, lineterminator="\n")


@app.command(epilog="Example: `fisherkit report outcome.fisherkit patients.csv -o outcome.html`")
def report(
    model: ModelPath,
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="The table that the model was trained on.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="HTML file to write.")
    ] = Path("report.html"),
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
) -> None:
    """Write the report page of a model that was trained before."""
    with _failing():
        _check_outputs((model, data), output)
        from fisherkit.cli import console
        from fisherkit.models import files
        from fisherkit.training import out_of_core, saved

        with _warnings_as_notes():
            file = files.load(model)
        with console.following("reading", quiet=quiet), out_of_core.workspace() as folder:
            _write_report(saved.restore(file, data, folder, encoding), output)
        if not quiet:
            typer.echo(f"written: {output}", err=True)


@app.command(epilog="Example: `fisherkit inspect outcome.fisherkit`")
def inspect(
    model: ModelPath,
    code: Annotated[
        bool, typer.Option("--code", help="Print the Python that reproduces the model.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Describe what a model file holds, without opening the model in it."""
    with _failing():
        from fisherkit.cli import console
        from fisherkit.models import ModelFileError, files
        from fisherkit.training import saved

        about = files.read_metadata(model)
        if code and "code" not in about:
            from fisherkit.training import NO_TABLE

            raise ModelFileError(NO_TABLE)
        if as_json:
            typer.echo(json.dumps(about, indent=1))
        elif "summary" not in about:
            typer.echo(json.dumps(about["versions"], indent=1))
        elif code:
            typer.echo(printable(about["code"], lines=True))
        else:
            console.show(about["summary"])
            console.show_columns(saved.described(about), about["versions"])


@app.command(epilog="Example: `fisherkit audit patients.csv --target outcome --rows 10`")
def audit(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A table with labels.")],
    target: Target = None,
    task: Task = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="All rows, as CSV.")
    ] = None,
    rows: Annotated[int, typer.Option(metavar="N", min=1, help="Rows to show.")] = 20,
    raw: Raw = False,
    drop: Drop = None,
    keep: Keep = None,
    text: AsText = None,
    encoding: Encoding = "utf-8",
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """List the rows whose targets are doubtful: what would the model without them say?"""
    with _failing():
        _check_outputs((data,), output)
        from fisherkit.cli import console
        from fisherkit.tables import sheets
        from fisherkit.training import fitting, intake

        with console.following("reading", quiet=quiet):
            read = intake.read_data(data, target, **_words(drop, keep, text, encoding, task))
            table = fitting.doubtful(read, seed=seed)
        if output is not None:
            with written_text(output) as out:
                _write_parts([table if raw else sheets.guarded(table)], out)
        shown = table.head(rows)
        if as_json:
            typer.echo(shown.reset_index().to_json(orient="records", indent=1))
        else:
            for note in [] if quiet else read.notes:
                typer.echo(printable(f"note: {note}"), err=True)
            console.show_table(shown)


@app.command(epilog="Example: `fisherkit export outcome.fisherkit --onnx outcome.onnx`")
def export(
    model: ModelPath,
    onnx: Annotated[Path, typer.Option(metavar="FILE", help="ONNX file to write.")],
    quiet: Quiet = False,
) -> None:
    """Write a model in another format, with its preparation and calibration."""
    with _failing():
        _check_outputs((model,), onnx)
        from fisherkit.models import files
        from fisherkit.onnx_export import ExportError, to_onnx

        with _warnings_as_notes():
            file = files.load(model)
        try:
            graph = to_onnx(file.model).SerializeToString()
        except ExportError as error:
            raise _stop(error, WRONG_MODEL) from error
        with written(onnx) as out:
            out.write(graph)
        if not quiet:
            typer.echo(f"written: {onnx} ({len(graph):,} bytes)", err=True)


def _words(
    drop: list[str] | None,
    keep: list[str] | None,
    text: list[str] | None,
    encoding: str,
    task: str,
    weights: str | None = None,
    groups: str | None = None,
) -> Words:
    """What the user says of the columns of a file."""
    return {
        "drop": tuple(drop or ()),
        "keep": tuple(keep or ()),
        "text": tuple(text or ()),
        "encoding": encoding,
        "task": task,
        "weights": weights,
        "groups": groups,
    }


def _write_report(done: Training, path: Path) -> None:
    from fisherkit.report import render

    page = render(done)
    with written_text(path) as out:
        out.write(page)


def _check_outputs(inputs: tuple[Path | None, ...], *outputs: Path | None) -> None:
    """Refuse, before any work, files that cannot be written or would overwrite one another."""
    wanted = [path for path in outputs if path is not None]
    for number, path in enumerate(wanted):
        if not path.absolute().parent.is_dir():
            raise typer.BadParameter(f"{path}: there is no folder {path.absolute().parent}.")
        if path.is_dir():
            raise typer.BadParameter(f"{path} is a folder.")
        if any(given is not None and _same_file(path, given) for given in inputs):
            raise typer.BadParameter(f"{path} would overwrite an input file.")
        if any(_same_file(path, other) for other in wanted[:number]):
            raise typer.BadParameter(f"{path} is named for two outputs; give two names.")
        check(path)


def _same_file(path: Path, other: Path) -> bool:
    if path.exists() and other.exists():
        return path.samefile(other)
    return os.path.realpath(path) == os.path.realpath(other)


app.command()(reproduce)


@contextmanager
def _failing() -> Iterator[None]:
    """Errors of the user become one sentence and an exit code; others stay as they are."""
    try:
        yield
        sys.stdout.flush()
    except ImportError as error:
        if "pip install" not in str(error):
            raise
        raise _stop(error, MISSING_EXTRA) from error
    except BrokenPipeError as error:
        close_broken_pipes()
        raise typer.Exit(CLOSED_PIPE) from error
    except OSError as error:
        raise _stop(f"{error.filename or 'file'}: {error.strerror or error}", WRONG_USE) from error
    except MemoryError as error:
        words = "this table and its model do not fit into memory; --out-of-core reads it in parts."
        raise _stop(words, WRONG_TABLE) from error
    except KeyboardInterrupt as error:
        raise _stop("interrupted", INTERRUPTED) from error
    except ValueError as error:
        from fisherkit.methods import RecipeError
        from fisherkit.models import ModelFileError
        from fisherkit.rows import BudgetError

        codes = {ModelFileError: WRONG_MODEL, RecipeError: WRONG_USE, BudgetError: WRONG_USE}
        raise _stop(error, codes.get(type(error), WRONG_TABLE)) from error


def _stop(message: object, code: int) -> typer.Exit:
    typer.echo(f"fisherkit: {printable(message, lines=True)}", err=True)
    return typer.Exit(code)


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Warnings as sentences, without the line of code they come from."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        typer.echo(f"fisherkit: {printable(warning.message)}", err=True)
