"""Tables in parts, preparation in parts, and fits on mapped files against those in memory."""

import json
import subprocess
import sys
import tempfile

import numpy as np
import oracles
import pandas as pd
import pytest
from command_runs import done, refused
from people import people, rerun
from trainings import little_time

from fisherkit import KernelFisherClassifier, TableClassifier
from fisherkit.columns import frames
from fisherkit.columns.features import Features
from fisherkit.columns.frames import TableError
from fisherkit.estimators import inside
from fisherkit.inspection.left_out import left_out_path
from fisherkit.inspection.streamed import streamed_path
from fisherkit.methods import plans
from fisherkit.rows import planning
from fisherkit.tables import reading
from fisherkit.tables.reading import open_table, read_table
from fisherkit.training import out_of_core
from fisherkit.training.fitting import opened, train
from fisherkit.training.intake import read_data
from fisherkit.training.out_of_core import fit_table, map_data, workspace

ROWS = 300
SMALL = "750KB"  # a fit of 300 rows in blocks


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of few rows, and blocks for few rows."""
    monkeypatch.setattr(reading, "_PART_CELLS", 200)
    monkeypatch.setattr(reading, "_PART_ROWS", (16, 1 << 16))
    monkeypatch.setattr(frames, "_CELLS", 500)
    monkeypatch.setattr(plans, "WIDTH_ROWS", 150)
    little_time(monkeypatch, centres=100)
    monkeypatch.setattr(planning, "_COPY_SHARE", 0.0)  # rows are never in memory together


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary folders are made."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def crowd(classes=("no", "yes")):
    """People with rare levels, identifiers, grouped digits and a row without a label."""
    table = people(ROWS, classes=classes)
    table["money"] = [f"{1000 + 37 * k:,}" for k in range(ROWS)]
    table["key"] = [f"k{k}" for k in range(ROWS)]
    table.loc[7, "town"], table.loc[9, "label"] = "Ulm", None
    table.loc[40:, "late"] = "seen"  # empty in the first part
    table.loc[60:90, "late"] = "other"
    return table


@pytest.fixture(params=["csv", "tsv", "parquet", "feather"])
def file(request, tmp_path):
    path = tmp_path / f"crowd.{request.param}"
    if request.param in ("csv", "tsv"):
        crowd().to_csv(path, index=False, sep="," if request.param == "csv" else "\t")
    else:
        pytest.importorskip("pyarrow", reason="Parquet and Arrow files need pyarrow")
        table = crowd()
        table["money"] = table["money"].str.replace(",", "").astype(float)
        table.to_parquet(path) if request.param == "parquet" else table.to_feather(path)
    return path


def test_parts_are_the_table(file):
    whole, parts = read_table(file), list(open_table(file).parts(32))
    assert len(parts) == 10 and all(len(part) <= 32 for part in parts)
    pd.testing.assert_frame_equal(pd.concat(parts), whole, check_dtype=False)


def test_kinds_are_decided_by_all_rows(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("a,b,c\n" + "01,1,true\n" * 20 + 'x,"1,000",\n')
    first, *_, last = open_table(path).parts(4)
    assert first["a"].tolist() == ["01"] * 4 and first["c"].tolist() == ["True"] * 4
    assert frames.is_number(first["b"]) and last["b"].tolist() == [1000] and last["c"].isna().all()


def test_mapped_data_are_those_in_memory(file, tmp_path, small_parts):
    here = read_data(file, "label")
    with workspace() as folder:
        there = map_data(folder, file, "label")
        assert there.notes == here.notes and there.left_out == here.left_out
        assert np.array_equal(there.y, here.y) and there.texts == here.texts
        for name in here.X.columns:
            left, right = (X[name].astype(object).fillna("").tolist() for X in (here.X, there.X))
            assert left == right
        for rows in (None, np.arange(5, 280)):
            some = here.X if rows is None else here.X.iloc[rows]
            truth, found = Features.of(some), Features.of(there.X, rows=rows)
            assert found.names == truth.names and np.array_equal(found.sources, truth.sources)
            features = np.concatenate(list(found.transformed(there.X, rows)))
            assert np.array_equal(features, truth.transform(some))


def test_a_column_of_rare_levels_alone_is_one_feature():
    levels = [f"a{k}" for k in range(150)] * 2
    X = pd.DataFrame({"t": pd.Categorical(levels), "u": pd.Categorical(["p", "q"] * 150)})
    truth, found = Features.of(X.astype(object)), Features.of(X)
    assert found.names == truth.names == ["t: other", "u: p", "u: q"]


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")], ids=["two", "three"])
def test_the_code_shown_gives_the_same_model(tmp_path, small_parts, classes):
    path = tmp_path / "crowd.csv"
    crowd(classes).to_csv(path, index=False)
    with opened(path, "label", out_of_core=True, text=("children",)) as data:
        trained = train(data, held_out="split", max_memory=SMALL)
        model = trained.model
        assert (
            inside(model.estimator_).in_blocks and model.estimator_.selection_.method == "streamed"
        )
        assert "fit_table(" in trained.code and len(trained.held_out.y) == 60
        X = read_data(path, "label", text=("children",)).X
        assert np.array_equal(rerun(trained).predict_proba(X), model.predict_proba(X))
    memory = train(read_data(path, "label", text=("children",)), held_out="split", max_memory="1GB")
    assert np.array_equal(memory.held_out.y, trained.held_out.y)
    assert np.mean(memory.held_out.predicted != trained.held_out.predicted) < 0.1


def test_small_tables_are_fitted_in_memory(tmp_path):
    path = tmp_path / "crowd.csv"
    crowd().to_csv(path, index=False)
    classify = TableClassifier("fisher", drop=["key"], max_memory="64MB", parameters={"gamma": 0.1})
    model = fit_table(path, "label", classify)
    assert type(inside(model.estimator_).training.problem.design.gram.X) is np.ndarray
    assert model.predict_set(read_data(path, "label").X).any()


def test_predict_inspect_and_report_of_a_model_fitted_out_of_core(tmp_path, small_parts, temporary):
    path, model, page = tmp_path / "crowd.csv", tmp_path / "m.fisherkit", tmp_path / "r.html"
    crowd().to_csv(path, index=False)
    other = tmp_path / "other.csv"
    people(ROWS, seed=1).assign(money=5, late="seen").to_csv(other, index=False)
    options = ["--out-of-core", "--max-memory", SMALL, "--test", other, "--json", "-q"]
    written = ["--model", model, "--report", page]
    found = json.loads(done("fit", path, "-t", "label", *options, *written).stdout)
    assert found["chosen"]["decomposition"] == "streamed" and found["held_out"]["rows"] == ROWS
    assert not list(temporary.iterdir())
    done("report", model, path, "-o", tmp_path / "later.html")
    assert (tmp_path / "later.html").read_text() == page.read_text()
    assert "none: label sets need the training rows" in page.read_text()
    assert "fit_table" in done("inspect", model, "--code").stdout
    answers = done("predict", model, other, "-o", tmp_path / "out.csv")
    assert f"of {ROWS} rows with a label" in answers.stderr
    assert len(pd.read_csv(tmp_path / "out.csv")) == ROWS
    assert "fitted in blocks" in refused(2, "predict", model, other, "--confidence", "0.9")
    assert "rows that the model was trained on" in refused(
        3, "report", model, other, "-o", tmp_path / "no.html"
    )
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    "trouble", [ValueError("no"), KeyboardInterrupt()], ids=["error", "ctrl-c"]
)
def test_nothing_is_left_behind(tmp_path, temporary, monkeypatch, trouble):
    path = tmp_path / "crowd.csv"
    crowd().to_csv(path, index=False)

    def stop(*_):
        assert list(temporary.iterdir())
        raise trouble

    monkeypatch.setattr(out_of_core.Prepared, "fit", stop)
    code = 3 if isinstance(trouble, ValueError) else 130
    refused(code, "fit", path, "-t", "label", "--out-of-core", "-q")
    assert not list(temporary.iterdir())


def test_answers_of_a_file_that_turns_out_wrong_are_not_half_written(tmp_path, small_parts):
    path, model, out = tmp_path / "crowd.csv", tmp_path / "m.fisherkit", tmp_path / "out.csv"
    table = crowd()
    table.to_csv(path, index=False)
    done("fit", path, "-t", "label", "--model", model, "--held-out", "none", "-q")
    table["age"] = table["age"].astype(object)
    table.loc[250, "age"] = "old"
    table.to_csv(path, index=False)
    assert "line 252, column 'age'" in refused(3, "predict", model, path, "-o", out)
    assert not out.exists() and not list(tmp_path.glob("*.part"))


def test_texts_of_too_many_levels(tmp_path, small_parts, monkeypatch):
    monkeypatch.setattr(out_of_core, "_MOST_LEVELS", 50)
    path = tmp_path / "crowd.csv"
    crowd().to_csv(path, index=False)
    with workspace() as folder:
        data = map_data(folder, path, "label")
        assert "key" in data.left_out and any("identifiers" in note for note in data.notes)
        with pytest.raises(TableError, match="column 'key' has more than 50 different texts"):
            map_data(folder, path, "label", keep=("key",))
    crowd().assign(key=[f"k{k // 2}" for k in range(ROWS)]).to_csv(path, index=False)
    with workspace() as folder, pytest.raises(TableError, match="--drop 'key'"):
        map_data(folder, path, "label")


def test_dates_of_columnar_files_are_refused(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet and Arrow files need pyarrow")
    path = tmp_path / "t.parquet"
    people(40).assign(seen=pd.Timestamp("2024-05-01")).to_parquet(path)
    with workspace() as folder:
        with pytest.raises(TableError, match="column 'seen' holds dates"):
            map_data(folder, path, "label")
        assert "seen" not in map_data(folder, path, "label", drop=("seen",)).X


def test_methods_that_need_all_rows_say_so(tmp_path):
    path = tmp_path / "crowd.csv"
    crowd().to_csv(path, index=False)
    options = ["-t", "label", "--out-of-core", "--method", "bayes"]
    assert "needs all rows at once" in refused(2, "fit", path, *options)
    assert "needs a file" in refused(2, "fit", "--out-of-core")
    assert "max_memory='much'" in refused(2, "fit", path, "-t", "label", "--max-memory", "much")


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("bias", ["free", "penalized"])
def test_the_path_of_a_fit_in_blocks_is_that_in_memory(n_classes, bias):
    X, y = oracles.noisy_classes(300, n_classes, seed=3)
    words = {"gamma": 0.4, "basis": np.arange(0, 300, 4), "bias": bias}
    words["multiclass"] = "lda" if bias == "free" else "ovr"
    memory = KernelFisherClassifier(**words).fit(X, y)
    blocks = KernelFisherClassifier(**words, max_memory=600_000).fit(X, y)
    assert blocks._training is None
    truth = left_out_path(memory)
    found = streamed_path(blocks, X, y, np.arange(300))
    # moments square the condition number, and grids start at tr(G)/n of either
    np.testing.assert_allclose(found.coordinates, truth.coordinates, rtol=1e-4, atol=1e-5)
    assert len(found.mu) == len(truth.mu)
    np.testing.assert_allclose(found.mu, truth.mu, rtol=1e-6)
    usual = truth.mu > 1e-2  # below, leave-one-out itself is good to fewer digits
    np.testing.assert_allclose(
        found.logits[:, :, usual], truth.logits[:, :, usual], rtol=1e-3, atol=1e-3
    )
    part = streamed_path(blocks, X, y, np.arange(0, 300, 3))
    np.testing.assert_allclose(part.coordinates, found.coordinates[::3], rtol=1e-7, atol=1e-9)


# getrusage would start at the peak of the process that started this one
MEASURE = """
import sys
from pathlib import Path
from fisherkit.cli.commands import app
import fisherkit.training, fisherkit.model_files, fisherkit.rows

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

base = peak()
app(sys.argv[1:], standalone_mode=False)
print(peak() - base)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is measured in kB on Linux")
def test_memory_does_not_hold_the_table(tmp_path):
    """80,000 rows with long texts: 35 MB of text, of which in-memory frames are larger."""
    rng = np.random.default_rng(0)
    block = pd.DataFrame(
        {f"t{k}": rng.choice([f"{j:090d}" for j in range(20)], 4000) for k in range(5)}
    ).assign(x=rng.normal(size=4000), y=rng.choice(["a", "b"], 4000))
    path = tmp_path / "wide.csv"
    for number in range(20):
        block.to_csv(path, index=False, mode="a", header=number == 0)
    size = path.stat().st_size
    words = ["fit", path, "-t", "y", "--held-out", "none", "--centres", "20", "--kernel", "linear"]
    peaks = {}
    for how in ([], ["--out-of-core", "--max-memory", "16MB"]):
        command = [sys.executable, "-c", MEASURE, *map(str, words), *how, "-q", "--json"]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks[bool(how)] = 1024 * int(ran.stdout.split()[-1])
    assert peaks[True] < 5 * size and peaks[True] < 0.7 * peaks[False], (size, peaks)
