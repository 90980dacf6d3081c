"""The reproduction: nothing is lost, nothing is done twice, tables are what they say."""

import csv
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student

from fisherkit.reproduction import (
    catalogue,
    journal,
    methods,
    page,
    runner,
    splits,
    tables,
)
from fisherkit.reproduction.command import execute
from fisherkit.reproduction.experiments import PAPERS, TABLES, Figure, Table
from fisherkit.reproduction.journal import Journal, Record
from fisherkit.reproduction.printed import select
from fisherkit.reproduction.tasks import HONEST, LEAK, PAPER, TUNING, Task

TRACKED = Path(__file__).resolve().parents[2] / "reproduction" / "results"
HEART = catalogue.find("fofsloo-table3")


def record(task, **result):
    values = {"error": 10.0, "auc": 90.0, "origin": "random", "size": 7, "chosen": {}, **result}
    return Record(task, task.key(catalogue.settings(task.method)), values, 0.5, "abc", "here")


def filled(folder, table, *, n=3, seed=0):
    """A journal with invented results for n splits of every cell of a table."""
    rng = np.random.default_rng(seed)
    book = runner.open_journal(folder)
    for method, protocol in table.columns():
        for data in table.sets:
            for split in range(n):
                error = float(np.round(20 + 3 * rng.standard_normal(), 3))
                book.append(record(Task(method, data, protocol, split), error=error))
    return book


# ---- journal


def test_what_is_appended_is_read_again(tmp_path):
    task = Task("lda", "heart", HONEST, 3)
    runner.open_journal(tmp_path).append(record(task, error=12.5))
    assert runner.open_journal(tmp_path).result(task)["error"] == 12.5


def test_a_corrupt_line_is_named_and_nothing_else_is_lost(tmp_path):
    tasks = [Task("lda", "heart", HONEST, split) for split in range(3)]
    book = runner.open_journal(tmp_path)
    for task in tasks:
        book.append(record(task))
    lines = book.path.read_bytes().splitlines(keepends=True)
    lines[1] = b'{"task": nonsense\n'
    book.path.write_bytes(b"".join(lines))
    with pytest.warns(UserWarning, match="line 2 is not a record"):
        again = runner.open_journal(tmp_path)
    assert set(again.records) == {tasks[0], tasks[2]}


WRONG = {
    "split": {"task": {"method": "lda", "data": "heart", "protocol": HONEST, "split": "1"}},
    "method": {"task": {"method": ["lda"], "data": "heart", "protocol": HONEST, "split": 1}},
    "result": {"result": [1]},
    "value": {"result": {"error": [1]}},
    "part": {"result": {"chosen": {"C": None}}},
    "seconds": {"seconds": "long"},
    "key": {"key": 7},
    "more": {"more": 1},
}


def changed(**fields):
    """A line of the journal in which these fields have other values."""
    good = record(Task("lda", "heart", HONEST, 1)).fields
    return json.dumps(good | fields).encode() + b"\n"


@pytest.mark.parametrize(
    "line",
    [b"[1, 2]\n", b'{"a": 1}\n', b"\xff\xfe\n", b'{"task": 3}\n', b"[" * 100_000 + b"\n"]
    + [changed(**fields) for fields in WRONG.values()],
    ids=["list", "fields", "bytes", "number", "nested", *WRONG],
)
def test_every_kind_of_nonsense_is_skipped(tmp_path, line):
    (tmp_path / "journal.jsonl").write_bytes(line)
    with pytest.warns(UserWarning, match="line 1"):
        assert not runner.open_journal(tmp_path).records


def test_the_command_says_so_in_a_sentence(tmp_path, capsys):
    (tmp_path / "journal.jsonl").write_bytes(b"[" * 100_000 + b"\n")
    assert execute("list", tmp_path, quick=False, splits=1, jobs=1) == 0
    said = capsys.readouterr().err
    assert said.startswith("fisherkit reproduce: ") and said.count("\n") == 1
    assert "line 1 is not a record and is skipped" in said


@pytest.mark.parametrize("value", ["high", None, {"a": 1.0}])
def test_a_result_that_is_no_number_is_named(tmp_path, capsys, value):
    filled(tmp_path, HEART)
    method, protocol = next(iter(HEART.columns()))
    task = Task(method, HEART.sets[0], protocol, 1)
    runner.open_journal(tmp_path).append(record(task, error=value))
    assert execute("page", tmp_path, quick=False, splits=3, jobs=1) == 1
    said = capsys.readouterr().err
    assert f"the result of {task} has {value!r} for 'error', which is no number" in said


def spoil_number(text):
    return text.replace("\nheart,honest,1,", "\nheart,honest,one,")


DAMAGE = {
    "cut in a row": ("splits/lda.csv", lambda text: text[:-9], "line 4: "),
    "cut in a number": ("splits/lda.csv", lambda text: text[:-1], "line 4: the end of the line"),
    "empty": ("splits/lda.csv", lambda text: "", "line 1: the header lacks 'data'"),
    "header": ("runs/lda.csv", lambda text: text.replace("key", "kee"), "the header lacks 'key'"),
    "more": ("splits/lda.csv", lambda text: text.replace("\n", ",1\n", 3), "line 4: "),
    "split": ("splits/lda.csv", spoil_number, "line 3"),
    "nested": ("splits/lda.csv", lambda text: text.replace("{}", '{""a"":' * 9999), "line 2: "),
    "json": ("splits/lda.csv", lambda text: text.replace("{}", "{"), "line 2: "),
    "seconds": ("runs/lda.csv", lambda text: text.replace("0.5", "long"), "line 2: "),
    "quotes": ("splits/lda.csv", lambda text: text.replace("heart", '"heart', 1), "line 4: "),
    "versions": ("environments.csv", lambda text: "environment\n0\n", "the header lacks"),
    "bytes": (
        "splits/lda.csv",
        lambda text: text.replace("random", "\udcff", 1),
        "0xff is not UTF-8",
    ),
}


@pytest.mark.parametrize(("name", "damage", "said"), DAMAGE.values(), ids=DAMAGE)
def test_tables_that_are_not_what_was_written_are_named_with_the_line(
    tmp_path, capsys, name, damage, said
):
    book = runner.open_journal(tmp_path)
    for split in range(3):
        book.append(record(Task("lda", "heart", HONEST, split)))
    book.write_tables()
    book.path.unlink()
    path = tmp_path / "results" / name
    path.write_text(
        damage(path.read_text(encoding="utf-8")), encoding="utf-8", errors="surrogateescape"
    )
    assert execute("list", tmp_path, quick=False, splits=1, jobs=1) == 1
    message = capsys.readouterr().err
    assert f"{path}, line " in message and said in message
    assert "put back the file that came with the sources, or delete it" in message


def test_a_torn_last_line_does_not_swallow_the_next_record(tmp_path):
    first, second = Task("lda", "heart", HONEST, 0), Task("lda", "heart", HONEST, 1)
    book = runner.open_journal(tmp_path)
    book.append(record(first))
    with book.path.open("ab") as file:
        file.write(b'{"task": {"meth')  # a process was killed here
    runner.open_journal(tmp_path).append(record(second))
    with pytest.warns(UserWarning, match="line 2"):
        assert set(runner.open_journal(tmp_path).records) == {first, second}


def test_results_of_other_settings_are_not_taken(tmp_path):
    task = Task("lda", "heart", HONEST, 0)
    stale = Record(task, task.key("other settings"), {"error": 1.0}, 0.1, "", "")
    runner.open_journal(tmp_path).append(stale)
    assert task not in runner.open_journal(tmp_path)


def test_a_full_disk_stops_the_run_with_the_journal_intact(tmp_path, monkeypatch):
    book = runner.open_journal(tmp_path)
    book.append(record(Task("lda", "heart", HONEST, 0)))
    before = book.path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="could not be written: No space left"):
        book.append(record(Task("lda", "heart", HONEST, 1)))
    assert book.path.read_bytes() == before
    assert Task("lda", "heart", HONEST, 1) not in book


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot be written to .*choose another folder"):
        runner.open_journal(tmp_path / "file" / "folder")


def test_the_journal_is_rebuilt_from_the_tracked_tables(tmp_path):
    book = filled(tmp_path / "a", HEART)
    book.append(record(Task("svc", "heart", TUNING, 0), chosen={"C": "2.0", "gamma": "0.5"}))
    book.append(record(Task("mu-search", "n=8", "trial", 0), ours_seconds=0.25))
    book.write_tables()
    assert "ours_seconds" not in (tmp_path / "a/results/splits/mu-search.csv").read_text()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "results").rename(tmp_path / "b" / "results")
    again = runner.open_journal(tmp_path / "b")
    assert again.records.keys() == book.records.keys()
    for task, one in book.records.items():
        other = again.records[task]
        assert (other.key, other.seconds, other.commit) == (one.key, one.seconds, one.commit)
        assert {k: v for k, v in other.result.items() if v is not None} == one.result


def test_a_task_claimed_by_a_living_process_is_left_to_it(tmp_path):
    task = Task("lda", "heart", HONEST, 0)
    runner.open_journal(tmp_path)
    code = (
        "import sys, time; from pathlib import Path\n"
        "from fisherkit.reproduction import runner\n"
        "from fisherkit.reproduction.tasks import Task\n"
        f"book = runner.open_journal(Path({str(tmp_path)!r}))\n"
        f"print(book.claim({task!r}), flush=True)\n"
        "time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline().strip() == "True"
        book = runner.open_journal(tmp_path)
        assert not book.claim(task)
        assert book.claim(Task("lda", "heart", HONEST, 1))
    finally:
        other.kill()
        other.communicate()
    assert book.claim(task)  # the claim of a dead process is free


# ---- runs


@pytest.fixture
def made_up_heart(tmp_path, monkeypatch):
    """A folder with a set of the size of heart, so that no real data is needed."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 270)
    X = rng.standard_normal((270, 2)) + y[:, None]
    folder = tmp_path / "data"
    folder.mkdir()
    np.savez(folder / "ida_heart.npz", X=X, y=y)
    monkeypatch.setenv("FISHERKIT_DATA", str(folder))
    splits.load.cache_clear()
    yield folder
    splits.load.cache_clear()


def command(folder):
    code = "from fisherkit.cli.commands import app; app()"
    words = ["reproduce", "fofsloo-table3", "--quick", "--folder", str(folder)]
    return [sys.executable, "-c", code, *words]


def tables_of(folder):
    return {path.name: path.read_bytes() for path in (folder / "quick/results/splits").iterdir()}


def test_a_killed_run_goes_on_and_ends_with_the_same_tables(tmp_path, made_up_heart):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(whole), check=True, capture_output=True, timeout=300)
    lines = (whole / "quick/journal.jsonl").read_bytes().count(b"\n")
    stop_after = random.randrange(lines - 1)
    process = subprocess.Popen(
        command(broken),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    path = broken / "quick/journal.jsonl"
    while process.poll() is None and (
        not path.exists() or path.read_bytes().count(b"\n") <= stop_after
    ):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert path.read_bytes().count(b"\n") < lines or stop_after >= lines - 2
    subprocess.run(command(broken), check=True, capture_output=True, timeout=300)
    assert tables_of(broken) == tables_of(whole)
    columns = [c for c in tables.COLUMNS if c not in ("seconds", "commit")]
    published = [
        [
            [row[c] for c in columns]
            for _, row in journal.read_csv(f / "quick/results/fofsloo-table3.csv")
        ]
        for f in (whole, broken)
    ]
    assert published[0] == published[1]
    keys = [
        json.loads(line)["key"] for line in path.read_bytes().splitlines() if line.endswith(b"}")
    ]
    assert len(keys) == len(set(keys))  # nothing was done twice


def test_missing_data_is_a_clear_error(tmp_path, monkeypatch):
    result = subprocess.run(
        command(tmp_path / "r"),
        env={**os.environ, "FISHERKIT_DATA": str(tmp_path / "nowhere")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 1
    assert "nowhere" in result.stderr
    assert "Traceback" not in result.stderr


def test_unknown_experiments_are_answered_with_the_nearest_names():
    with pytest.raises(
        ValueError, match=r"no experiment 'orkdf-table1'; did you mean orkfd-table1"
    ):
        catalogue.find("orkdf-table1")


def test_parameters_are_taken_from_tasks_that_come_first():
    for experiment in catalogue.EXPERIMENTS.values():
        seen = set()
        for task in experiment.tasks():
            assert all(needed in seen for needed in catalogue.needs(task)), task
            seen.add(task)


def test_every_experiment_belongs_to_a_paper_and_every_method_has_settings():
    for name, experiment in catalogue.EXPERIMENTS.items():
        assert name.split("-")[0] in PAPERS
        for task in experiment.tasks(quick=True):
            assert catalogue.settings(task.method)


def test_every_table_has_both_controls():
    assert all({"majority", "shuffled"} <= set(table.methods) for table in TABLES)


# ---- methods


def test_settings_tell_methods_apart():
    texts = [method.settings for method in methods.METHODS.values()]
    assert len(set(texts)) == len(texts)


def test_medians_are_logarithmic_and_by_feature():
    chosen = [{"a": 1.0, "b": np.array([1.0, 4.0])}, {"a": 100.0, "b": np.array([9.0, 1.0])}]
    found = methods.median(chosen)
    assert found["a"] == pytest.approx(10.0)
    np.testing.assert_allclose(found["b"], [3.0, 2.0])


def test_all_protocols_of_a_method(made_up_heart):
    tuned = [methods.run(Task("sparse-q1", "heart", TUNING, s), [])[0] for s in range(5)]
    fixed, _ = methods.run(Task("sparse-q1", "heart", PAPER, 7), tuned)
    leaking, _ = methods.run(Task("sparse-q1", "heart", LEAK, 7), tuned)
    assert fixed["chosen"] == {} and tuned[0]["chosen"].keys() == {"gamma", "rho"}
    # the leaking protocol scores the same classifier on every part
    other, _ = methods.run(Task("sparse-q1", "heart", LEAK, 8), tuned)
    assert leaking["size"] == other["size"]


def test_shuffled_labels_teach_nothing(made_up_heart):
    tasks = [Task("shuffled", "heart", HONEST, split) for split in range(5)]
    errors = [methods.run(task, [])[0]["error"] for task in tasks]
    honest = [methods.run(Task("lda", "heart", HONEST, s), [])[0]["error"] for s in range(5)]
    assert np.mean(errors) > np.mean(honest) + 10


def test_a_split_keeps_training_and_test_rows_apart(made_up_heart):
    _, y, n_train, _ = splits.load("heart")
    part = splits.split_of("heart", 4)
    assert len(part.y) == n_train and len(part.y) + len(part.y_test) == len(y)
    np.testing.assert_allclose(part.X.mean(axis=0), 0, atol=1e-12)
    assert abs(part.X_test.mean()) > 1e-6  # scaled by the training part, not by itself
    pool = splits.split_of("heart", 4, scale="all")
    both = np.vstack([pool.X, pool.X_test])
    np.testing.assert_allclose(both.mean(axis=0), 0, atol=1e-12)


def test_forward_selection_as_printed_prices_terms_by_refits():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((25, 2))
    signs = np.where(X[:, 0] + 0.3 * rng.standard_normal(25) > 0, 1.0, -1.0)
    P = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))

    def loo_error(terms):
        wrong = 0
        for i in range(25):
            kept = np.arange(25) != i
            coef = np.linalg.lstsq(P[kept][:, terms], signs[kept], rcond=None)[0]
            wrong += signs[i] * (P[i, terms] @ coef) <= 0
        return wrong / 25

    terms, best = [], np.inf
    while True:
        rates = [loo_error([*terms, j]) if j not in terms else np.inf for j in range(25)]
        if min(rates) >= best:
            break
        best = min(rates)
        terms.append(int(np.argmin(rates)))
    found, coef = select(P, signs)
    assert found == terms
    np.testing.assert_allclose(coef, np.linalg.lstsq(P[:, terms], signs, rcond=None)[0])


# ---- tables


def test_holm_is_that_of_the_textbook():
    found = tables.holm({("a", ""): 0.01, ("b", ""): 0.04, ("c", ""): 0.03, ("d", ""): 0.005})
    expected = {"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06}
    assert {key[0]: value for key, value in found.items()} == pytest.approx(expected)


def test_the_paired_test_has_the_variance_of_overlapping_splits(tmp_path):
    book = filled(tmp_path, HEART, n=100)
    view = tables.View(book, HEART)
    rows = {(r["method"], r["protocol"]): r for r in view.summary() if r["data"] == "heart"}
    d = np.array(
        [
            book.result(Task("lda", "heart", HONEST, s))["error"]
            - book.result(Task("committee", "heart", HONEST, s))["error"]
            for s in range(100)
        ]
    )
    n_train, n = splits.SIZES["heart"]
    t = d.mean() / np.sqrt(d.var(ddof=1) * (1 / 100 + (n - n_train) / n_train))
    raw = 2 * student.sf(abs(t), 99)
    assert rows["lda", HONEST]["p_holm"] >= round(raw, 3)
    row = rows["forward-printed", PAPER]
    errors = [book.result(Task("forward-printed", "heart", PAPER, s))["error"] for s in range(100)]
    assert row["mean"] == pytest.approx(np.mean(errors), rel=1e-5)
    assert row["printed"] == 15.8
    z = (np.mean(errors) - 15.8) / np.sqrt(np.var(errors, ddof=1) / 100 + 3.7**2 / 100)
    assert row["in_se"] == pytest.approx(z, rel=1e-2)


def test_rows_with_too_few_splits_are_not_published(tmp_path):
    book = filled(tmp_path, HEART, n=3)
    assert tables.View(book, HEART).summary() == []
    assert tables.View(book, HEART, splits=3).summary()


def test_ranks_are_those_of_the_means(tmp_path):
    table = catalogue.find("bfd-table3")
    book = runner.open_journal(tmp_path)
    for data in table.sets:
        for i, method in enumerate(table.methods):
            for split in range(2):
                book.append(record(Task(method, data, HONEST, split), auc=50.0 + i))
    found = tables.View(book, table, splits=2).ranks()
    assert found.mean == {"bayes": 3.0, "bayes-ard": 2.0, "bayes-lssvm-ard": 1.0}
    assert found.critical == pytest.approx(2.344 * np.sqrt(3 * 4 / (6 * 13)), rel=1e-3)


def test_printed_tables_have_every_column_that_is_named():
    for table in TABLES:
        for data in table.sets:
            assert tables.printed_values(table, data), (table.name, data)
        columns = tables.published(table.published[0])[table.sets[0]]
        for column in table.printed:
            assert {column.column, column.spread} <= columns.keys()


def test_printed_sizes_are_shares_of_the_training_rows():
    def share(table, data, title):
        found = tables.printed_values(catalogue.find(table), data)
        return next(value.share for column, value in found.items() if column.title == title)

    assert share("kfdaq-table1", "banana", "kFDA_1") == 15.3
    assert share("fofsloo-table3", "heart", "F-OFS-LOO") == pytest.approx(100 * 10 / 170, rel=1e-3)
    assert np.isnan(share("orkfd-table1", "heart", "ORKFD"))


def test_the_sizes_of_the_sets_are_those_of_the_data():
    if not os.environ.get("FISHERKIT_DATA"):
        pytest.skip("FISHERKIT_DATA, the folder with the benchmark sets, is not set")
    for name, size in splits.SIZES.items():
        _, y, n_train, _ = splits.load(name)
        assert (n_train, len(y)) == size


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_published_rows_have_all_the_splits_asked_for(table):
    path = TRACKED / f"{table.name}.csv"
    if not path.exists():
        pytest.skip(f"{path.name} has not been published yet")
    for _, row in journal.read_csv(path):
        if row["splits"] and row["data"] in table.sets:
            assert int(row["splits"]) >= table.asked(row["method"], row["data"]), row


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_full_run_is_published(table):
    found = {
        (row["data"], row["method"], row["protocol"])
        for _, row in journal.read_csv(TRACKED / f"{table.name}.csv")
    }
    sets = [tables.MEAN] if table.means_only else table.sets
    assert {(data, *column) for data in sets for column in table.columns()} <= found


# ---- page


def test_the_page_stands_alone_and_shows_what_is_there(tmp_path):
    book = filled(tmp_path, HEART, n=2)
    files = page.publish(book, splits=2)
    text = files[-1].read_text(encoding="utf-8")
    assert "http://" not in text.replace("http://www.w3.org", "") and "<script" not in text
    assert "F-OFS-LOO as printed" in text and "labels shuffled" in text
    for name, experiment in catalogue.EXPERIMENTS.items():
        assert f"id='{name}'" in text
        assert isinstance(experiment, Table | Figure)
    with files[0].open(newline="") as file:
        assert {row["data"] for row in csv.DictReader(file)} == {"heart"}


def test_journal_reads_only_what_is_new(tmp_path):
    first, second = Task("lda", "heart", HONEST, 0), Task("lda", "heart", HONEST, 1)
    one = runner.open_journal(tmp_path)
    two = Journal(tmp_path, catalogue.settings)
    one.append(record(first))
    two.append(record(second))
    one.refresh()
    assert set(one.records) == {first, second}


def test_the_page_says_what_was_tried_where_print_is_ahead():
    def row(method, protocol, mean):
        return {"data": "heart", "method": method, "protocol": protocol, "mean": mean, "se": 0.3}

    behind = {"data": "heart", "printed_by": "ORKFD", "best_printed": 15.78}
    errors = [row("svc", HONEST, 16.7), row("kernel-fisher", PAPER, 16.4), row("lda", HONEST, 17.0)]
    errors += [row("majority", HONEST, 43.0), row("ORKFD", "printed", 15.8)]
    text = page._tried(behind, errors)
    assert text == (
        "heart: ORKFD 15.78 in print; KernelFisher (paper's protocol) 16.40 ± 0.30, "
        "SVC, 5-fold grid 16.70 ± 0.30, LDA 17.00 ± 0.30"
    )
