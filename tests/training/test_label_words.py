"""Labels as they are written, where numbers and missing values would merge or lose them."""

import io
from time import perf_counter

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fisherkit.cli.commands import app
from fisherkit.columns.frames import TableError
from fisherkit.tables.reading import open_table
from fisherkit.training import read_data, train
from fisherkit.training.label_words import MISSING_WORDS, LabelWords
from fisherkit.training.out_of_core import map_data

CODES = ["01", "1", "2", "01", "1", "2"] * 10


@pytest.fixture(params=["memory", "out of core"])
def read(request, tmp_path):
    """Rows to train on, of a file with two columns of numbers and these labels."""

    def read(labels, target="y", **words):
        numbers = np.random.RandomState(0).normal(size=(len(labels), 2))
        table = pd.DataFrame(numbers, columns=["a", "b"]).assign(y=labels)
        table.to_csv(tmp_path / "t.csv", index=False)
        if request.param == "memory":
            return read_data(tmp_path / "t.csv", target, **words)
        (tmp_path / "mapped").mkdir(exist_ok=True)
        return map_data(tmp_path / "mapped", tmp_path / "t.csv", target, **words)

    return read


def said(data):
    return " ".join(data.notes)


@pytest.mark.parametrize(
    "labels",
    [["01", "1", "2"], ["01234", "99999"], [str(2**53), str(2**53 + 1)], [str(9**30), "1"]],
)
def test_identifiers_are_taken_as_they_are_written(read, labels):
    data = read(labels * 20)
    assert np.unique(data.y).tolist() == sorted(labels)


def test_classes_that_numbers_would_merge_are_named(read):
    assert "the labels '01', '1' of 'y' are different classes" in said(read(CODES))
    assert "own" not in said(read(["01", "02"] * 20))


def test_one_number_written_in_two_ways_is_one_class_with_a_note(read):
    data = read(["1.0", "1", "2"] * 20)
    assert np.unique(data.y).tolist() == [1, 2]
    assert "the labels '1', '1.0' of 'y' are the same number and one class" in said(data)
    kept = read(["1.0", "1", "2"] * 20, text=("y",))
    assert np.unique(kept.y).tolist() == ["1", "1.0", "2"] and not said(kept)


@pytest.mark.parametrize("word", ["NA", "None", "null"])
def test_a_class_that_counts_as_missing_is_named(read, word):
    labels = [word, "yes", "no"] * 20
    data = read(labels)
    assert len(data.y) == 40
    assert f"20 rows without a value in 'y' left out: '{word}' in 20 rows" in said(data)
    assert "--text 'y'" in said(data)
    assert len(np.unique(read(labels, text=("y",)).y)) == 3
    for rest in (word, "yes"):
        with pytest.raises(TableError, match=f"'{word}' in .*--text 'y'"):
            read([word, rest] * 20)


def test_rows_that_are_empty_need_no_advice(read):
    assert said(read(["", "yes", "no", "?"] * 20)) == "40 rows without a value in 'y' left out."


@pytest.mark.parametrize("word", [*MISSING_WORDS, "na", "missing", "-"])
def test_the_words_are_those_that_pandas_takes_for_missing(word):
    known = pd.read_csv(io.StringIO(f'word,x\n"{word}",1\n'))["word"].notna()
    assert bool(known.all()) is (word not in MISSING_WORDS)


def test_the_code_shown_reads_the_same_labels(read):
    done = train(read(CODES), held_out="none")
    scope = {}
    exec(done.code, scope)
    assert scope["model"].classes_.tolist() == ["01", "1", "2"]
    assert np.array_equal(scope["model"].predict_proba(done.X), done.model.predict_proba(done.X))


def test_answers_are_labels_as_they_are_written(tmp_path):
    path, model = tmp_path / "t.csv", tmp_path / "m.fisherkit"
    numbers = np.random.RandomState(0).normal(size=(60, 2))
    pd.DataFrame(numbers, columns=["a", "b"]).assign(y=CODES).to_csv(path, index=False)
    options = ["-t", "y", "--test", path, "--model", model]
    for command in (["fit", path, *options], ["predict", model, path]):
        result = CliRunner().invoke(app, [str(word) for word in command])
        assert result.exit_code == 0, result.output
    assert {line.split(",")[1] for line in result.stdout.splitlines()[1:]} <= {"01", "1", "2"}
    assert "of 60 rows with a label" in result.stderr


@pytest.mark.parametrize("rows", [None, 4])
@pytest.mark.parametrize("first", [str(2**63), str(2**64), "-5", "1.5"])
def test_whole_numbers_from_two_to_the_63_are_text(tmp_path, first, rows):
    values = ["7", "8", "9", "", first, "0" + str(2**63), str(2**64 + 1), "4"]
    path = tmp_path / "t.csv"
    pd.DataFrame({"id": values, "x": 1}).to_csv(path, index=False)
    table = pd.concat(open_table(path).parts(rows))
    assert table["id"].notna().sum() == 7
    if first == "1.5":  # a fraction says that these are quantities
        assert table["id"].dropna().astype(float).tolist() == [float(v) for v in values if v]
    else:
        assert table["id"].dropna().tolist() == [value for value in values if value]


@pytest.mark.parametrize("rows", [None, 4])
@pytest.mark.parametrize("turned", [False, True])
def test_fractions_anywhere_make_quantities_of_large_numbers(tmp_path, rows, turned):
    values = [str(2**63), "7", "8", "9", "1.5", "2.5", "3.5", "4.5"]
    path = tmp_path / "t.csv"
    pd.DataFrame({"id": values[::-1] if turned else values, "x": 1}).to_csv(path, index=False)
    table = pd.concat(open_table(path).parts(rows))
    assert sorted(table["id"]) == sorted(map(float, values))


def test_identifiers_beyond_double_precision_are_no_constant(tmp_path):
    path = tmp_path / "u.csv"
    y = ["a", "b"] * 20
    ids = [2**63 + k for k in range(40)]
    table = pd.DataFrame({"id": ids, "near": [2**60 + k * k % 7 for k in range(40)], "y": y})
    table.assign(x=np.random.RandomState(0).normal(size=40)).to_csv(path, index=False)
    for data in (read_data(path, "y"), map_data(tmp_path, path, "y")):
        assert "column 'id' was left out: every row has a different text" in said(data)
        assert "column 'near' was left out: its numbers are all 1.1529215" in said(data)
        assert "--text 'near'" in said(data)


@pytest.mark.parametrize("value", ["1e308", "-1e308"])
def test_numbers_too_large_to_compute_with_are_refused_with_their_place(tmp_path, value):
    path, model = tmp_path / "t.csv", tmp_path / "m.fisherkit"
    table = pd.DataFrame({"x": np.arange(40.0) % 7, "z": 1.5, "y": ["a", "b"] * 20})
    table["z"] = table["z"] + np.arange(40) % 3
    table.to_csv(path, index=False)
    fit = ["fit", path, "-t", "y", "--held-out", "none"]
    assert CliRunner().invoke(app, [str(w) for w in [*fit, "--model", model]]).exit_code == 0
    table["z"] = table["z"].astype(object)
    table.loc[5, "z"] = value
    table.to_csv(path, index=False)
    for command in (fit, [*fit, "--out-of-core"], ["predict", model, path]):
        result = CliRunner().invoke(app, [str(word) for word in command])
        assert result.exit_code == 3
        message = " ".join(result.stderr.split())
        assert f"line 7, column 'z': {float(value):g} is too large to compute with" in message
    dropped = CliRunner().invoke(app, [str(word) for word in [*fit, "--drop", "z"]])
    assert dropped.exit_code == 0


def test_bars_in_labels_do_not_run_together(tmp_path):
    path, model = tmp_path / "t.csv", tmp_path / "m.fisherkit"
    labels = ["a|b", "a", "b", "c\\"] * 15
    numbers = np.random.RandomState(0).normal(size=(60, 2))
    pd.DataFrame(numbers, columns=["a", "b"]).assign(y=labels).to_csv(path, index=False)
    fit = ["fit", path, "-t", "y", "--held-out", "none", "--model", model]
    assert CliRunner().invoke(app, [str(word) for word in fit]).exit_code == 0
    answers = CliRunner().invoke(app, ["predict", str(model), str(path), "--confidence", "0.9999"])
    sets = pd.read_csv(io.StringIO(answers.stdout))["set"]
    assert sets.iloc[0] == "a|a\\|b|b|c\\\\"


def test_a_target_of_very_many_numbers_is_looked_at_in_no_time(tmp_path):
    path = tmp_path / "t.csv"
    values = np.random.RandomState(0).normal(size=200_000)
    pd.DataFrame({"y": values, "x": 1}).to_csv(path, index=False)
    file = open_table(path)
    start = perf_counter()
    assert LabelWords.of(file, "y") == LabelWords()
    assert perf_counter() - start < 10  # group by group it was minutes


def test_labels_beyond_double_precision_are_taken_as_they_are_written(read):
    data = read(["1e20", "2e20", "1"] * 20)
    assert sorted(set(data.y)) == ["1", "1e20", "2e20"]


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_large_labels_beside_missing_ones_keep_their_digits(kind, ending, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    big = 2**60
    y = pa.array([big, big + 1, 5, None] * 15, getattr(pa, kind)())
    a = pa.array(np.random.RandomState(0).normal(size=60))
    write = parquet.write_table if ending == "parquet" else feather.write_feather
    write(pa.table({"a": a, "b": a, "y": y}), str(path := tmp_path / f"t.{ending}"))
    (tmp_path / "mapped").mkdir()
    for data in (read_data(path, "y"), map_data(tmp_path / "mapped", path, "y")):
        assert sorted(set(data.y)) == [str(big), str(big + 1), "5"]


def test_floats_that_no_double_tells_apart_are_no_labels_unless_as_text(tmp_path):
    pytest.importorskip("pyarrow")
    a = np.random.RandomState(0).normal(size=60)
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": a, "b": -a, "y": [1e20, 2e20, 1.0] * 20}).to_parquet(path)
    with pytest.raises(TableError, match=r"labels of up to 2e\+20.*--text 'y'"):
        read_data(path, "y")
    assert len(set(read_data(path, "y", text=("y",)).y)) == 3
