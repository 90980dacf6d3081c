"""Rows of the training are told by their content, whatever file they are in."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fisherkit.cli.commands import app
from fisherkit.models import files
from fisherkit.training import fingerprints, read_data
from fisherkit.training.fingerprints import TrainingRows
from fisherkit.training.out_of_core import map_data

SPLIT = r"of 30 rows that are new, and [\d.]+% of 30 rows that equal rows of the training"


def people(n, seed=0):
    rng = np.random.RandomState(seed)
    x = rng.normal(size=n).round(6)
    table = pd.DataFrame(
        {"x": x, "town": rng.choice(["Bonn", "Köln"], n), "n": rng.randint(9, size=n)}
    )
    table["y"] = np.where(x + rng.normal(size=n) > 0, "yes", "no")
    table.loc[3, "x"], table.loc[4, "town"] = np.nan, None
    return table


def done(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(params=[(), ("--out-of-core",)], ids=["memory", "out of core"])
def predict(request, tmp_path):
    """What predict says of a table, of a model that was fitted to 60 people."""
    people(60).to_csv(tmp_path / "train.csv", index=False)
    fit = ["fit", tmp_path / "train.csv", "-t", "y", "--held-out", "none", "-q"]
    done(*fit, "--model", tmp_path / "m.fisherkit", *request.param)

    def predict(table, **options):
        table.to_csv(tmp_path / "other.csv", index=False, **options)
        return done("predict", tmp_path / "m.fisherkit", tmp_path / "other.csv").stderr

    return predict


def test_rows_of_the_training_are_told_in_any_file_and_dress(predict):
    table = people(60)
    for dressed in (table, table[table.columns[::-1]].assign(more=1), table.iloc[::-1]):
        said = predict(dressed)
        assert "60 rows with a label; all of them equal rows of the training" in said
        assert "see the held-out error" in said
    assert "all of them equal" in predict(table.astype({"n": float}), sep=";")
    assert "all of them equal" in predict(table.assign(y="yes"))  # a label put right is no new row


def test_new_rows_are_new(predict):
    assert predict(people(40, seed=1)).endswith("of 40 rows with a label\n")
    changed = people(60)
    changed["n"] += 10
    assert "training" not in predict(changed)


def test_rows_of_both_kinds_have_errors_of_their_own(predict):
    table = pd.concat([people(60).iloc[:30], people(60, seed=1).iloc[30:]])
    assert pd.Series(predict(table)).str.contains(SPLIT).all()


def test_rows_without_labels_are_told_if_they_are_the_most(predict):
    table = pd.concat([people(60).iloc[:40], people(60, seed=1).iloc[40:]])
    assert "40 of 60 rows equal rows of the training" in predict(table.drop(columns="y"))
    assert not predict(people(60, seed=1).drop(columns="y"))


def test_tables_that_repeat_rows_say_that_rows_may_be_equal_by_chance(tmp_path):
    table = people(80)[["town", "n", "y"]]
    table.to_csv(tmp_path / "train.csv", index=False)
    fit = ["fit", tmp_path / "train.csv", "-t", "y", "--held-out", "none", "-q"]
    done(*fit, "--model", tmp_path / "m.fisherkit")
    assert "equal by chance" in done("predict", tmp_path / "m.fisherkit", fit[1]).stderr


def test_memory_and_mapped_files_have_the_same_fingerprints(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprints.secrets, "token_hex", lambda size: "ab" * size)
    people(60).to_csv(tmp_path / "t.csv", index=False)
    here = TrainingRows.of(read_data(tmp_path / "t.csv", "y").X)
    there = TrainingRows.of(map_data(tmp_path, tmp_path / "t.csv", "y").X)
    assert len(here.prints) == 60 and here.prints.tolist() == there.prints.tolist()


def test_a_file_has_a_salt_of_its_own():
    X = people(30).drop(columns="y")
    one, two = TrainingRows.of(X), TrainingRows.of(X)
    assert one.salt != two.salt and not np.isin(one.prints, two.prints).any()
    assert one.told(X)[1].all() and two.told(X)[1].all()


def test_very_many_rows_are_told_by_a_sample(monkeypatch, tmp_path):
    monkeypatch.setattr(fingerprints, "MOST", 20)
    train, new = people(60).drop(columns="y"), people(60, seed=1).drop(columns="y")
    rows = TrainingRows.of(train)
    assert len(rows.prints) == 20 and not rows.whole
    told, seen = rows.told(train)
    assert told.sum() == seen.sum() == 20
    told, seen = rows.told(new)
    assert not seen.any() and 0 < told.sum() < 60
    people(60).to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", tmp_path / "t.csv", "-t", "y", "--held-out", "none", "-q"]
    done(*fit, "--model", tmp_path / "m.fisherkit")
    said = done("predict", tmp_path / "m.fisherkit", fit[1]).stderr
    assert "all of them, by a sample of 20 rows, equal rows of the training" in said


def test_a_million_rows_take_seconds_and_eight_megabytes():
    X = pd.DataFrame(np.arange(3e5).reshape(100_000, 3))
    rows = TrainingRows.of(X)
    assert rows.prints.nbytes == 800_000
    assert rows.told(X[::-1])[1].all()


def test_files_without_fingerprints_say_nothing_of_them(tmp_path):
    path = tmp_path / "m.fisherkit"
    people(60).to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", tmp_path / "t.csv", "-t", "y", "--held-out", "none", "-q"]
    done(*fit, "--model", path)
    file = files.load(path)
    metadata = {k: v for k, v in file.metadata.items() if k not in ("format", "versions")}
    files.save(file.model, path, metadata=metadata, extra={"held_out": None})
    assert done("predict", path, fit[1]).stderr.endswith("of 60 rows with a label\n")


@pytest.mark.parametrize(
    "wrong",
    [
        {"salt": "xy"},
        {"salt": 3},
        {"salt": "ab"},
        {"prints": np.arange(9.0)},
        {"prints": [1, 2]},
        {"prints": np.empty(0, dtype=np.uint64)},
        {"count": 1},
        {"count": "many"},
        {"more": 1},
    ],
    ids=str,
)
def test_fingerprints_that_are_none_are_refused(wrong):
    entry = TrainingRows.of(people(30).drop(columns="y")).entry
    assert TrainingRows.read(entry).count == 30
    for spoiled in (entry | wrong, [entry], 7):
        with pytest.raises(files.ModelFileError, match="fingerprints of the training rows"):
            TrainingRows.read(spoiled)
