"""Passes say how far they are to those who listen; the command line draws a bar."""

import io
import logging
import threading
from itertools import pairwise

import numpy as np
import pytest
from rich.console import Console
from sklearn.base import clone
from typer.testing import CliRunner

from fisherkit import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    SparseFisherClassifier,
)
from fisherkit.cli import console
from fisherkit.cli.commands import app
from fisherkit.core.progress import LOGGER, Meter, Progress, printed
from fisherkit.tables import text_files
from fisherkit.training.fitting import STAGES
from fisherkit.training.out_of_core import map_data

N = 2000


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return X, (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=N) > 0).astype(int)


def streamed(**options):
    options = {"basis": "random", "n_components": 30, "random_state": 0} | options
    return KernelFisherClassifier(gamma=0.2, max_memory=700_000, **options)


def reports(caplog):
    return [record.progress for record in caplog.records if record.name == LOGGER]


def test_the_library_is_silent_by_default(data, caplog):
    streamed().fit(*data)
    assert reports(caplog) == []


def test_information_is_not_progress(data, caplog):
    with caplog.at_level(logging.INFO, "fisherkit"):
        streamed().fit(*data)
    assert caplog.records and reports(caplog) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_every_pass_counts_all_rows(data, caplog, monkeypatch, threads):
    monkeypatch.setattr("fisherkit.rows.sources.blas_threads", lambda: threads)
    monkeypatch.setattr("fisherkit.core.progress._SECONDS", 0.0)
    X, y = data
    weight = np.ones(N)
    weight[100:300] = 0  # read all the same
    with caplog.at_level(logging.DEBUG, LOGGER):
        streamed().fit(X, y, weight)
    seen = reports(caplog)
    titles = list(dict.fromkeys(report.title for report in seen))
    assert titles == ["survey", "pass 1", "pass 2"]
    starts = [i for i, (a, b) in enumerate(pairwise(seen), 1) if b.done <= a.done]
    for one_pass in np.split(np.array([report.done for report in seen]), starts):
        assert np.all(np.diff(one_pass) > 0)
        assert one_pass[-1] == N
    assert len(starts) >= 2
    assert {report.total for report in seen} == {N}
    assert len(seen) > 6


def test_passes_of_several_widths_say_so(data, caplog):
    model = FisherCommitteeClassifier(
        ("rbf",), n_widths=2, basis="random", n_components=40, max_memory=4_000_000
    )
    with caplog.at_level(logging.DEBUG, LOGGER):
        model.fit(*data)
    assert {report.title for report in reports(caplog)} == {
        "survey",
        "pass 1, 2 widths",
        "pass 2, 2 widths",
    }


def test_reports_are_not_more_frequent_than_eyes_can_follow(caplog):
    meter = Meter("pass 1", 10_000)
    with caplog.at_level(logging.DEBUG, LOGGER):
        for _ in range(10_000):
            meter.advance(1)
    seen = reports(caplog)
    assert len(seen) < 1000
    assert seen[-1] == Progress("pass 1", 10_000, 10_000, "rows")


def test_no_row_is_lost_between_threads(caplog):
    meter = Meter("pass 1", 4000)
    with caplog.at_level(logging.DEBUG, LOGGER):
        threads = [
            threading.Thread(target=lambda: [meter.advance(1) for _ in range(1000)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    counts = [report.done for report in reports(caplog)]
    assert counts == sorted(counts)
    assert counts[-1] == 4000


def following(monkeypatch, *, terminal):
    """What the command line shows while two stages and a pass go by."""
    shown = io.StringIO()
    screen = Console(file=shown, force_terminal=terminal, force_interactive=terminal, width=100)
    monkeypatch.setattr(console, "Console", lambda **options: screen)
    levels = [logging.getLogger(name).level for name in ("fisherkit", LOGGER)]
    with console.following("reading"):
        logging.getLogger(STAGES).info("fitting [the] model")
        live = screen._live_stack[-1] if terminal else None
        for title in ("pass 1", "pass 2"):
            meter = Meter(title, 200)
            for _ in range(4):
                meter.advance(50)
                if live is not None:
                    live.refresh()
        logging.getLogger("fisherkit").info("gamma 0.2")
    assert [logging.getLogger(name).level for name in ("fisherkit", LOGGER)] == levels
    assert not logging.getLogger("fisherkit").handlers
    return shown.getvalue()


def test_a_terminal_shows_a_bar_while_rows_are_read(monkeypatch):
    monkeypatch.setattr("fisherkit.core.progress._SECONDS", 0.0)
    shown = following(monkeypatch, terminal=True)
    assert "fitting [the] model" in shown
    for title in ("pass 1", "pass 2"):
        assert title in shown
    assert "25%" in shown and "75%" in shown


def test_a_file_gets_the_stages_only(monkeypatch):
    assert following(monkeypatch, terminal=False) == "fitting [the] model\n"


@pytest.mark.parametrize(
    "model",
    [
        KernelFisherClassifier(),
        KernelRidgeCV(),
        FisherCommitteeClassifier(n_widths=2),
        SparseFisherClassifier(cv=2),
        ForwardFisherClassifier(cv=2),
        BayesianFisherClassifier(n_restarts=1),
        streamed(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_verbose_fits_print_what_they_do_and_leave_the_loggers_alone(model, data, capsys):
    X, y = data
    X, y = (X, y) if model.get_params().get("max_memory") else (X[:90], y[:90])
    loggers = [logging.getLogger(name) for name in ("fisherkit", LOGGER)]
    before = [(logger.level, list(logger.handlers)) for logger in loggers]
    clone(model).fit(X, y)
    assert capsys.readouterr().err == ""
    clone(model).set_params(verbose=True).fit(X, y)
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("[fisherkit     0.")
    assert [(logger.level, list(logger.handlers)) for logger in loggers] == before
    with pytest.raises(ValueError):
        clone(model).set_params(verbose=True).fit(X, np.zeros(len(X) - 1))
    assert [(logger.level, list(logger.handlers)) for logger in loggers] == before
    with pytest.raises(ValueError, match="verbose='yes' is not valid; use True or False"):
        clone(model).set_params(verbose="yes").fit(X, y)


def test_verbose_prints_progress_every_two_seconds_only(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("fisherkit.core.progress.time.monotonic", lambda: now[0])
    with printed(True), printed(True):
        meter = Meter("cross-validation", 50, "folds")
        for _ in range(50):
            now[0] += 0.5
            meter.advance()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[fisherkit     2.0 s] cross-validation: 4 of 50 folds"
    assert len(lines) == 12


def test_a_terminal_shows_whatever_is_said_of_progress(monkeypatch):
    shown = io.StringIO()
    screen = Console(file=shown, force_terminal=True, force_interactive=True, width=100)
    monkeypatch.setattr(console, "Console", lambda **options: screen)
    with console.following("reading"):
        logging.getLogger(LOGGER).debug("width %d of %d", 3, 7)
        screen._live_stack[-1].refresh()
    assert "width 3 of 7" in shown.getvalue()


def test_a_file_gets_a_line_after_a_long_silence(monkeypatch):
    shown, clock = io.StringIO(), [0.0]
    screen = Console(file=shown, force_terminal=False, width=100)
    monkeypatch.setattr(console, "Console", lambda **options: screen)
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    with console.following("reading"):
        for step in range(100):
            clock[0] += 1.0
            logging.getLogger(LOGGER).debug("step %d", step)
    assert shown.getvalue().splitlines() == ["step 29", "step 59", "step 89"]


def test_quiet_is_quiet(capfd):
    with console.following("reading", quiet=True):
        logging.getLogger("fisherkit").warning("at the end of the range")
    assert capfd.readouterr() == ("", "")
    assert not logging.getLogger("fisherkit").handlers


def test_reading_a_large_table_is_not_silent(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(text_files, "_REPORTED", 100)
    monkeypatch.setattr("fisherkit.core.progress._SECONDS", 0.0)
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{k % 7},{k % 2}\n" for k in range(300)))
    with caplog.at_level(logging.DEBUG, LOGGER):
        map_data(tmp_path, path, "y")
    said = [record.getMessage() for record in caplog.records]
    assert f"checking the records of {path}, line 201" in said
    assert "reading: 300 of 300 rows" in said


def test_predictions_of_a_large_table_are_not_silent(tmp_path, monkeypatch, caplog):
    path, model = tmp_path / "t.csv", tmp_path / "m.fisherkit"
    path.write_text("x,y\n" + "".join(f"{k % 7},{k % 2}\n" for k in range(300)))
    fit = ["fit", path, "-t", "y", "--held-out", "none", "--model", model, "-q"]
    predict = ["predict", model, path, "-o", tmp_path / "answers.csv"]
    with caplog.at_level(logging.DEBUG, LOGGER):
        for command in (fit, predict):
            assert CliRunner().invoke(app, [str(word) for word in command]).exit_code == 0
    assert "predicting: 300 of 300 rows" in [record.getMessage() for record in caplog.records]
