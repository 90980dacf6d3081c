"""The command, run in this process: with success, or refused with an exit code."""

import re

from typer.testing import CliRunner

from fisherkit.cli.commands import app


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120"})


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(code, *arguments):
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output and not result.stdout
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.stderr).split())
