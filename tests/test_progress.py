"""Passes say how far they are to those who listen; the command line draws a bar."""

import io
import logging
import threading
from itertools import pairwise

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from fisherkit import FisherCommitteeClassifier, KernelFisherClassifier, console, text_files
from fisherkit.cli import app
from fisherkit.out_of_core import map_data
from fisherkit.progress import LOGGER, Meter, Progress
from fisherkit.training import STAGES

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
    monkeypatch.setattr("fisherkit.rows.blas_threads", lambda: threads)
    monkeypatch.setattr("fisherkit.progress._SECONDS", 0.0)
    X, y = data
    weight = np.ones(N)
    weight[100:300] = 0  # read all the same
    with caplog.at_level(logging.DEBUG, LOGGER):
        streamed().fit(X, y, weight)
    seen = reports(caplog)
    titles = list(dict.fromkeys(report.title for report in seen))
    assert titles == ["survey", "pass 1", "pass 2"]
    starts = [i for i, (a, b) in enumerate(pairwise(seen), 1) if b.rows <= a.rows]
    for one_pass in np.split(np.array([report.rows for report in seen]), starts):
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
    assert seen[-1] == Progress("pass 1", 10_000, 10_000)


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
    counts = [report.rows for report in reports(caplog)]
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
    monkeypatch.setattr("fisherkit.progress._SECONDS", 0.0)
    shown = following(monkeypatch, terminal=True)
    assert "fitting [the] model" in shown
    for title in ("pass 1", "pass 2"):
        assert title in shown
    assert "25%" in shown and "75%" in shown


def test_a_file_gets_the_stages_only(monkeypatch):
    assert following(monkeypatch, terminal=False) == "fitting [the] model\n"


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
    monkeypatch.setattr("fisherkit.progress._SECONDS", 0.0)
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
