"""The command, and the code and commands that the README prints."""

import logging
import re
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from fisherkit import KernelFisherClassifier
from fisherkit.cli import app

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    "data",
    "kernel",
    "regularisation",
    "rank",
    "leave-one-out error",
    "held-out error",
    "held-out log-loss",
    "models priced",
    "time to tune and fit",
    "status",
]


def run(*arguments):
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})


@pytest.fixture(scope="module")
def default_run():
    result = run("fit")
    assert result.exit_code == 0, result.output
    return result


def value_of(row, output):
    return re.search(rf"^{row} +(.*?) *$", output, re.MULTILINE).group(1)


@pytest.mark.parametrize("row", ROWS)
def test_fit_reports(default_run, row):
    assert value_of(row, default_run.stdout)


def test_fit_shows_progress_on_the_error_stream(default_run):
    assert default_run.stderr.strip()
    assert default_run.stderr.strip() not in default_run.stdout


def test_fit_writes_no_control_characters_into_a_pipe(default_run):
    assert not re.search(r"[^\S\n ]|[\x00-\x09\x0b-\x1f\x7f]", default_run.output)


def test_fit_reports_the_errors_of_the_model_it_names(default_run):
    X, y = load_breast_cancer(return_X_y=True)
    X, X_held_out, y, y_held_out = train_test_split(
        X, y, test_size=1 / 3, stratify=y, random_state=0
    )
    classifier = KernelFisherClassifier(random_state=0)
    model = make_pipeline(StandardScaler(), classifier).fit(X, y)
    held_out = np.mean(model.predict(X_held_out) != y_held_out)
    left_out = np.mean((classifier.loo_decision_ > 0) != (y == 1))
    assert value_of("held-out error", default_run.stdout) == f"{held_out:.2%} of 190 rows"
    assert (
        value_of("leave-one-out error", default_run.stdout)
        == f"{left_out:.2%} of 379 training rows"
    )
    assert f"gamma {classifier.gamma_:.4g}" in value_of("kernel", default_run.stdout)
    assert f"mu {classifier.regularization_:.3g} " in value_of("regularisation", default_run.stdout)


def test_fit_leaves_the_logger_as_it_was():
    logger = logging.getLogger("fisherkit")
    before = logger.level, list(logger.handlers)
    run("fit", "--kernel", "linear")
    assert (logger.level, list(logger.handlers)) == before


def test_a_kernel_without_width_reports_none():
    result = run("fit", "--kernel", "linear", "--penalty", "coefficients", "--seed", "1")
    assert result.exit_code == 0, result.output
    assert value_of("kernel", result.stdout) == "linear"


@pytest.mark.parametrize(
    "arguments", [("--kernel", "cubic"), ("--penalty", "none"), ("--seed", "-1")]
)
def test_a_bad_option_is_refused(arguments):
    result = run("fit", *arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.output


def test_version():
    assert run("--version").stdout == f"fisherkit {version('fisherkit')}\n"


def test_help_names_the_options():
    result = run("fit", "--help")
    assert result.exit_code == 0
    for option in ["--kernel", "--penalty", "--seed"]:
        assert option in result.stdout


def test_the_python_of_the_readme_runs():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    exec(code, {})
