"""Tables of very many columns: nothing may take a time that grows with the square of them."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fisherkit import KernelFisherClassifier
from fisherkit.cli.commands import app
from fisherkit.columns.features import Features, in_memory
from fisherkit.columns.frames import number_mask, replaced
from fisherkit.core import arrays
from fisherkit.core.kernels import Kernel
from fisherkit.model_files import load
from fisherkit.report import page
from fisherkit.training.code import MOST_NAMES
from fisherkit.training.fitting import opened, train
from fisherkit.training.intake import read_data
from fisherkit.training.out_of_core import workspace
from fisherkit.training.saved import restore

MANY = 20_000
ROWS = 24


def wide(columns, *, constant=0, rows=ROWS):
    """A table in which a tenth of the columns tell the label; five are texts, some values missing.

    ``constant`` more columns say nothing.
    """
    rng = np.random.RandomState(0)
    y = np.arange(rows) % 2
    X = rng.normal(size=(rows, columns))
    X[:, : columns // 10] += y[:, None]
    X[rng.randint(0, rows, 30), rng.randint(0, columns, 30)] = np.nan
    table = pd.DataFrame(X.round(4)).add_prefix("gene_")
    for place in np.linspace(0, columns - 1, 5).astype(int):
        table[f"gene_{place}"] = rng.choice(["red", "green"], rows)
    same = pd.DataFrame(np.ones((rows, constant))).add_prefix("same_")
    label = pd.Series(np.where(y, "yes", "no"), name="outcome")
    return pd.concat([table, same, label], axis=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The table, a model of it, its report and what the command said."""
    path = tmp_path_factory.mktemp("wide")
    wide(MANY).to_csv(path / "wide.csv", index=False)
    words = ["fit", str(path / "wide.csv"), "--target", "outcome", "--held-out", "split"]
    words += ["--model", str(path / "m.fisherkit"), "--report", str(path / "r.html"), "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.stderr
    (path / "summary.json").write_text(result.stdout)
    return path


def said(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    return result


def test_texts_are_told_from_numbers(folder):
    features = load(folder / "m.fisherkit").model.features_
    assert len(features.numbers.names) == MANY - 5
    assert [levels.name for levels in features.texts] == [
        "gene_0",
        "gene_4999",
        "gene_9999",
        "gene_14999",
        "gene_19999",
    ]


def test_a_fit_ends_with_the_right_answers(folder):
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["columns"] == MANY and summary["features"] == MANY + 5
    assert summary["held_out"]["error"] == 0


def test_answers_are_those_of_the_code_shown(folder):
    said("predict", folder / "m.fisherkit", folder / "wide.csv", "-o", folder / "out.csv")
    answers = pd.read_csv(folder / "out.csv", dtype=str)  # whose numbers pandas may round
    code = said("inspect", folder / "m.fisherkit", "--code").stdout
    assert len(code) < 2000
    scope = {}
    exec(code, scope)
    p = scope["model"].predict_proba(scope["X"])
    assert np.array_equal(answers[["p_no", "p_yes"]].to_numpy(dtype=float), p)
    assert answers["predicted"].tolist() == scope["y"].tolist()


def test_the_page_stays_small(folder):
    assert (folder / "r.html").stat().st_size < 3_000_000
    file = load(folder / "m.fisherkit")
    with workspace() as temporary:
        described = page.describe(restore(file, folder / "wide.csv", temporary))
    words = json.dumps(
        [section for section in described["sections"] if section["id"] == "the-data"]
    )
    assert "The first 60 of 20,000 columns." in words and "gene_1, gene_2" in words
    assert "gene_0, gene_4999, gene_9999" in words


def test_inspect_shows_the_first_columns(folder):
    shown = said("inspect", folder / "m.fisherkit").stdout
    assert "gene_49 " in shown and "gene_50" not in shown and "and 19950 more columns" in shown


def rerun(done):
    scope = {}
    exec(done.code, scope)
    return scope["model"]


def test_many_columns_left_out_are_not_listed(tmp_path):
    wide(30, constant=MOST_NAMES + 1).to_csv(tmp_path / "same.csv", index=False)
    asked = {"drop": ("gene_7",), "keep": ("same_3",)}
    done = train(read_data(tmp_path / "same.csv", "outcome", **asked), held_out="none")
    assert "same_1" not in done.code.replace("same_3", "") and done.X.shape[1] == 30
    twin = rerun(done)
    assert np.array_equal(twin.predict_proba(done.X), done.model.predict_proba(done.X))


def test_many_columns_left_out_are_not_listed_out_of_core(tmp_path):
    path = tmp_path / "same.csv"
    wide(30, constant=MOST_NAMES + 1, rows=200).to_csv(path, index=False)
    with opened(path, "outcome", out_of_core=True, drop=("gene_7",)) as data:
        done = train(data, held_out="none")
        assert "same_1" not in done.code and len(done.code) < 500
        twin, X = rerun(done), in_memory(done.X)
        assert np.array_equal(twin.predict_proba(X), done.model.predict_proba(X))


def test_many_columns_are_prepared_in_parts():
    X = wide(2 * MOST_NAMES).drop(columns="outcome")
    mapped = X.astype(dict.fromkeys(X.columns[~number_mask(X)], "category"))
    (features,) = Features.of(mapped).transformed(mapped, None)
    assert np.array_equal(features, Features.of(X).transform(X))


def test_columns_are_replaced_in_place():
    table = wide(6)
    changed = {"gene_4": table["gene_4"] + 1, "gene_0": table["gene_0"].str.upper()}
    truth = table.assign(**changed)
    pd.testing.assert_frame_equal(replaced(table, changed), truth)
    assert replaced(table, {}) is table


def test_blocks_of_long_rows_are_as_high_as_the_centres(monkeypatch):
    """Every block goes through all centres: blocks of single rows would copy them every time."""
    X = np.random.RandomState(0).normal(size=(90, 50))
    model = KernelFisherClassifier(gamma=0.01).fit(X[:30], X[:30, 0] > 0)
    truth, calls, block = model.decision_function(X), [], Kernel.block
    monkeypatch.setattr(arrays, "BLOCK_ELEMENTS", 100)
    monkeypatch.setattr(Kernel, "block", lambda *given: calls.append(1) or block(*given))
    np.testing.assert_allclose(model.decision_function(X), truth, rtol=1e-12, atol=1e-12)
    assert len(calls) == 3
