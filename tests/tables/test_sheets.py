"""Tables that the command writes: for spreadsheets, for programs, for outputs of few letters."""

import io
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fisherkit.cli.commands import app
from fisherkit.tables.sheets import guarded, joined

LABELS = ["=1+1", "-b\x1b[2J", "@ö"]
PRINTABLE = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        *[(f"{sign}1", f"'{sign}1") for sign in "=+-@"],
        ("\t=1", "\\t=1"),
        ("\r1", "\\r1"),
        (" =1", "' =1"),
        ("\uff1d1", "'\uff1d1"),
        ("'x", "''x"),
        ("a\nb", "a\\nb"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_texts_that_would_be_formulas_are_marked(text, cell):
    found = guarded(pd.DataFrame({text: [text], "x": [-1.5]}))
    assert found.columns.tolist() == [cell, "x"] and found.iloc[0].tolist() == [cell, -1.5]


def test_missing_cells_stay_missing():
    assert guarded(pd.DataFrame({"a": ["=x", None, np.nan]}))["a"].isna().tolist() == [0, 1, 1]


@given(PRINTABLE)
def test_taking_the_mark_away_gives_the_text_again(text):
    cell = guarded(pd.DataFrame({"a": [text]}))["a"].iloc[0]
    unmarked = cell.removeprefix("'") if cell.startswith("'") else cell
    written_out = re.search(r"\\([nrt]|[xuU][0-9a-f])", text)
    assert (unmarked.replace("\\\\", "\\") if written_out else unmarked) == text
    assert not cell.lstrip().startswith(("=", "+", "-", "@"))


@given(*2 * [st.text(st.sampled_from("\\nx07aU=\n\x07\x1b"), max_size=6)])
@example("b\nc", "b\\nc")
@example("\x07", "\\x07")
def test_different_texts_have_different_cells(one, other):
    cells = guarded(pd.DataFrame({"a": [one, other]}))["a"]
    assert (cells[0] == cells[1]) == (one == other)


@given(st.lists(PRINTABLE))
def test_joined_labels_can_be_told_apart(labels):
    cell = joined(labels)
    parts = re.findall(r"(?:[^|\\]|\\.)+", cell)
    assert [re.sub(r"\\(.)", r"\1", part) for part in parts] == labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sheets")
    rng = np.random.RandomState(0)
    x = rng.normal(size=60)
    table = pd.DataFrame({"x": x, "größe": rng.choice(["Köln", "Bonn"], 60)})
    table["y"] = np.asarray(LABELS)[np.digitize(x + rng.normal(size=60) / 4, [-0.5, 0.5])]
    table.to_csv(folder / "t.csv", index=False)
    done("fit", folder / "t.csv", "-t", "y", "--held-out", "none", "--model", folder / "m", "-q")
    return folder


def done(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return result


def test_what_predict_and_audit_write_is_guarded_unless_raw_is_asked_for(folder):
    predict, audit = ["predict", folder / "m", folder / "t.csv", "-q"], ["audit", folder / "t.csv"]
    audit += ["-t", "y", "-q", "-o", folder / "audit.csv"]
    for raw, labels in (([], ["'=1+1", "'-b\\x1b[2J", "'@ö"]), (["--raw"], LABELS)):
        done(*audit, *raw)
        printed, written = done(*predict, *raw).stdout, folder / "answers.csv"
        done(*predict, *raw, "-o", written)
        assert written.read_text(encoding="utf-8") == printed
        answers = pd.read_csv(io.StringIO(printed))
        assert set(answers["predicted"]) <= set(labels)
        assert "p_-b\\x1b[2J" in answers or raw
        audited = pd.read_csv(folder / "audit.csv")
        assert set(audited["label"]) == set(labels) >= set(audited["suggested"])
        assert audited["leverage"].dtype == float


@pytest.mark.parametrize("words", ["predict m t.csv", "inspect m", "audit t.csv -t y", "--help"])
def test_an_output_that_knows_ascii_only_gets_what_it_can_show(folder, words):
    ran = subprocess.run(
        [sys.executable, "-c", "from fisherkit.cli.commands import app; app()", *words.split()],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.isascii() and b"Traceback" not in ran.stderr
    if words.startswith("predict"):
        assert b"'@\\xf6" in ran.stdout
