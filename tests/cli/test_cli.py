"""The command, and the code and commands that the README prints."""

import json
import logging
import os
import re
import subprocess
import sys
import types
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_runs import done, refused, run
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fisherkit import KernelFisherClassifier
from fisherkit.cli import commands
from fisherkit.core import Rates
from fisherkit.models import files
from fisherkit.rows import planning, routes

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    *("data", "target", "method", "kernel", "gamma", "mu", "rank", "settings compared", "status"),
    *("leave-one-out error", "held-out error", "held-out log-loss", "largest class alone", "time"),
]
COMMANDS = ["fit", "predict", "explain", "report", "inspect", "audit", "export"]


@pytest.fixture(scope="module")
def default_run():
    return done("fit")


def value_of(row, output):
    return re.search(rf"^{row} +(.*?) *$", output, re.MULTILINE).group(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Iris as a table with one column of text, in two files, and a model trained on the first."""
    folder = tmp_path_factory.mktemp("iris")
    bunch = load_iris(as_frame=True)
    table = bunch.data.rename(columns=lambda name: name.removesuffix(" (cm)"))
    table["petal"] = np.where(table.pop("petal width") > 1, "broad", "narrow")
    table["kind"] = bunch.target_names[bunch.target]
    table.iloc[::2].to_csv(folder / "train.csv", index=False)
    table.iloc[1::2].to_csv(folder / "new.csv", index=False)
    done("fit", folder / "train.csv", "-t", "kind", "--model", folder / "m.fisherkit", "-q")
    return folder


@pytest.fixture
def model(folder):
    return folder / "m.fisherkit"


@pytest.mark.parametrize("row", ROWS)
def test_fit_reports(default_run, row):
    assert value_of(row, default_run.stdout)


def test_fit_shows_stages_on_the_error_stream(default_run):
    assert "fold 5 of 5" in default_run.stderr
    assert default_run.stderr.strip() not in default_run.stdout


def test_fit_writes_no_control_characters_into_a_pipe(default_run):
    assert not re.search(r"[^\S\n ]|[\x00-\x09\x0b-\x1f\x7f]", default_run.output)


def test_fit_reports_the_errors_of_the_model_it_names(default_run):
    X, y = load_breast_cancer(return_X_y=True)
    classifier = KernelFisherClassifier(random_state=0)
    make_pipeline(StandardScaler(), classifier).fit(X, 1 - y)
    left_out = np.mean((classifier.loo_decision_ > 0) != (y == 0))
    assert value_of("leave-one-out error", default_run.stdout).startswith(
        f"{left_out:.2%} of 569 rows"
    )
    assert "after selection" in value_of("leave-one-out error", default_run.stdout)
    assert "5-fold nested" in value_of("held-out error", default_run.stdout)
    assert value_of("gamma", default_run.stdout) == f"{classifier.gamma_:.4g}"


def test_fit_leaves_the_logger_as_it_was():
    logger = logging.getLogger("fisherkit")
    before = logger.level, list(logger.handlers)
    run("fit", "--kernel", "linear", "--held-out", "none")
    assert (logger.level, list(logger.handlers)) == before


def test_a_kernel_without_width_reports_none():
    result = done("fit", "--kernel", "linear", "--penalty", "coefficients", "--held-out", "none")
    assert value_of("kernel", result.stdout) == "linear"
    assert "gamma" not in result.stdout and "held-out" not in result.stdout


def test_quiet_and_json_for_scripts(folder):
    train = folder / "train.csv"
    result = done("fit", train, "-t", "kind", "--test", folder / "new.csv", "--json", "-q")
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert found["rows"] == 75 and found["held_out"]["rows"] == 75
    assert found["classes"] == {"setosa": 25, "versicolor": 25, "virginica": 25}
    low, high = found["held_out"]["interval"]
    assert low < found["held_out"]["error"] < high


@pytest.mark.parametrize("method", ["committee", "sparse", "forward", "bayes"])
def test_every_method_speaks(folder, method):
    options = ["--held-out", "none", "--method", method, "--json"]
    found = json.loads(done("fit", folder / "train.csv", "-t", "kind", *options).stdout)
    assert found["method"] == method and found["error_after_selection"]["error"] < 0.2
    assert "kernel" in found["chosen"] or "kernels" in found["chosen"]


def test_predictions_are_those_of_python(folder, model):
    result = done("predict", model, folder / "new.csv", "-o", folder / "out.csv")
    assert "of 75 rows with a label: " in result.stderr and not result.stdout
    assert "of 4 rows that equal rows of the training" in result.stderr  # iris has rows twice
    out = pd.read_csv(folder / "out.csv", index_col="line")
    new = pd.read_csv(folder / "new.csv")
    fitted = files.load(model).model
    assert list(out.columns) == ["predicted", "p_setosa", "p_versicolor", "p_virginica", "set"]
    assert out["predicted"].tolist() == fitted.predict(new).tolist()
    words = pd.read_csv(folder / "out.csv", dtype=str)  # whose numbers old pandas may round
    p = words.filter(like="p_").to_numpy(dtype=float)
    np.testing.assert_array_equal(p, fitted.predict_proba(new))
    sets = out["set"].fillna("").str.split("|")
    assert np.mean([kind in row for kind, row in zip(new["kind"], sets, strict=True)]) > 0.8


def test_sets_of_another_confidence_are_larger(folder, model):
    sizes = []
    for confidence in ("0.6", "0.99"):
        out = done("predict", model, folder / "new.csv", "--confidence", confidence, "-q").stdout
        sizes.append(out.count("|") + out.count("\n"))
    assert sizes[0] < sizes[1]
    assert "confidence 2 is no" in refused(
        2, "predict", model, folder / "new.csv", "--confidence", "2"
    )


def test_rows_in_any_dress_get_the_same_answers(folder, model, tmp_path):
    new = pd.read_csv(folder / "new.csv")
    plain = done("predict", model, folder / "new.csv", "-q").stdout
    turned = new[new.columns[::-1]].assign(more="x").to_csv(index=False)
    for name, content in {
        "reordered.csv": turned.encode(),
        "windows.csv": b"\xef\xbb\xbf" + turned.replace("\n", "\r\n").encode(),
        "utf16.csv": turned.encode("utf-16"),
    }.items():
        (tmp_path / name).write_bytes(content)
        assert done("predict", model, tmp_path / name, "-q").stdout == plain


def test_unseen_and_missing_values_get_an_answer(folder, model, tmp_path):
    new = pd.read_csv(folder / "new.csv").drop(columns="kind").head(4)
    new.loc[0, "petal"], new.loc[1, "petal"], new.loc[2, "sepal width"] = "odd", None, None
    new.to_csv(tmp_path / "new.csv", index=False)
    result = done("predict", model, tmp_path / "new.csv")
    assert result.stdout.count("\n") == 5 and "nan" not in result.stdout.lower()
    said = "1 row has a value of 'petal' that training has not seen, such as 'odd'\n"
    assert result.stderr == said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"sepal length,petal\n1,x\n", "lacks 2 of the 4 columns that the model uses"),
        (
            b"sepal length,sepal width,petal length,petal\n1,2,3,x\n1,tall,3,x\n",
            "line 3, column 'sepal width': 'tall' is not a number",
        ),
        (b"sepal length,sepal width,petal length,petal\n1,2,3\n", "line 2: 3 fields"),
        (b"sepal length,sepal width,petal length,petal\n1,2,3,\xe9\n", "line 2: byte 0xe9"),
    ],
    ids=["empty", "columns", "text", "short", "encoding"],
)
def test_tables_that_cannot_be_used_end_with_code_3(model, tmp_path, content, said):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    message = refused(3, "predict", model, path)
    assert said in message and str(path) in message.replace(" ", "")


def test_labels_that_are_no_class_count_as_wrong(tmp_path):
    numbers = pd.DataFrame({"x": np.arange(40) * 7 % 40 / 10, "z": [0, 1] * 20})
    numbers["kind"] = (numbers["x"] > 2).astype(int)
    numbers.to_csv(tmp_path / "train.csv", index=False)
    model = tmp_path / "m.fisherkit"
    done("fit", tmp_path / "train.csv", "-t", "kind", "--model", model, "--held-out", "none", "-q")
    new = tmp_path / "new.csv"
    for odd in ("1.5", "a"):
        new.write_text(f"x,z,kind\n0.3,0,0\n3.6,1,1\n3.7,0,{odd}\n3.7,0,1\n")
        assert "25.00% of 4 rows" in done("predict", model, new).stderr


def test_none_can_be_a_class(folder, tmp_path):
    path, model = tmp_path / "t.csv", tmp_path / "m.fisherkit"
    path.write_text((folder / "train.csv").read_text().replace("setosa", "None"))
    done("fit", path, "-t", "kind", "--text", "kind", "--model", model, "--held-out", "none", "-q")
    assert files.load(model).model.classes_[0] == "None"
    assert "of 75 rows with a label" in done("predict", model, path).stderr


def test_models_that_cannot_be_used_end_with_code_4(folder, model, tmp_path):
    cut = tmp_path / "cut.fisherkit"
    cut.write_bytes(model.read_bytes()[:-100])
    for command in (["predict", cut, folder / "new.csv"], ["inspect", cut], ["report", cut]):
        assert "model file" in refused(4, *command)
    assert "is a folder" in refused(4, "predict", tmp_path, folder / "new.csv")
    assert "not a model file" in refused(4, "predict", folder / "new.csv", folder / "new.csv")


def test_a_question_for_the_target_shows_the_last_column(tmp_path):
    path = tmp_path / "t.csv"
    for names, shown in (
        ([f"x{k}" for k in range(40)], "'x6', 32 more columns and, last, 'x39'"),
        ([f"x{k}" for k in range(9)], "'x6', 1 more column and, last, 'x8'"),
        ([f"x{k}" for k in range(8)], "'x6', 'x7'."),
    ):
        path.write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
        assert shown in refused(3, "fit", path)
        assert shown in refused(3, "audit", path, "-t", "y")


def test_the_time_is_that_of_all_the_work(folder, monkeypatch):
    monkeypatch.setattr(
        "fisherkit.training.fitting.perf_counter", iter([5.0, 7.0, 8.0, 11.0]).__next__
    )
    train = folder / "train.csv"
    shown = done("fit", train, "-t", "kind", "--held-out", "none").stdout
    assert value_of("time", shown) == "5.00 s for reading and fitting"
    monkeypatch.undo()
    shown = done("fit", train, "-t", "kind").stdout
    assert value_of("time", shown).endswith("s for reading, estimating the error and fitting")


def test_the_plan_is_printed_and_follows_the_time(folder, monkeypatch):
    train = folder / "train.csv"
    shown = done("fit", train, "-t", "kind", "--held-out", "none", "--time", "30").stdout
    assert value_of("plan", shown) == "Every row is a centre."
    monkeypatch.setattr(planning, "_QUICK", 10)
    monkeypatch.setattr(routes, "_CENTRES", (7, 9, 11))
    slow = Rates(*(rate / 1e9 for rate in vars(routes.TWO_CORES).values()))
    monkeypatch.setattr(planning, "measured", lambda: slow)
    words = ["fit", train, "-t", "kind", "--held-out", "split", "--time", "5", "--json"]
    found = json.loads(done(*words).stdout)
    assert "All 75 rows are centres" in found["plan"] and "no fit is quicker" in found["plan"]
    monkeypatch.setattr(routes.Job, "all_rows", lambda job: 1e12)
    found = json.loads(done(*words).stdout)
    assert "7 of 75 rows are centres" in found["plan"]
    assert "For more, " in found["plan"] and "takes about" in found["plan"]
    refused(2, "fit", train, "-t", "kind", "--time", "0")


def test_models_saved_from_python_without_a_table_end_with_code_4(folder, tmp_path):
    path = tmp_path / "py.fisherkit"
    X, y = load_iris(return_X_y=True)
    files.save(KernelFisherClassifier(gamma=0.1).fit(X, y), path)
    for command in (
        ["predict", path, folder / "new.csv"],
        ["report", path],
        ["report", path, folder / "new.csv"],
        ["inspect", path, "--code"],
    ):
        assert "saved from Python" in refused(4, *command)


def test_a_wrong_command_line_ends_with_code_2(folder, model, tmp_path):
    train, new = folder / "train.csv", folder / "new.csv"
    for arguments, said in [
        (["fit", "--kernel", "cubic"], "--kernel"),
        (["fit", "--penalty", "none"], "--penalty"),
        (["fit", "--seed", "-1"], "--seed"),
        (["fit", "--target", "x"], "need a file"),
        (["fit", train, "-t", "kind", "--method", "bayes", "--kernel", "laplacian"], "laplacian"),
        (["fit", train, "-t", "kind", "--model", tmp_path / "no" / "m"], "there is no folder"),
        (["fit", train, "-t", "kind", "--report", tmp_path], "is a folder"),
        (["fit", train, "-t", "kind", "--model", train], "would overwrite"),
        (["fit", train, "-t", "kind", "--test", new, "--model", new], "would overwrite"),
        (["fit", train, "--model", tmp_path / "x", "--report", tmp_path / "x"], "two outputs"),
        (["predict", model, new, "-o", model], "would overwrite"),
        (["report", model, train, "-o", model], "would overwrite"),
        (["export", model, "--onnx", model], "would overwrite"),
        (["fit", "--max-memory", "lots"], "--max-memory"),
        (
            ["fit", train, "-t", "kind", "--max-memory", "1KB", "--centres", "9"],
            "leaves 1024 bytes",
        ),
        (["predict", model, new, "--confidence", "nan"], "--confidence"),
        (["export", model, "--onnx", tmp_path / "no" / "m.onnx"], "there is no folder"),
    ]:
        assert said in refused(2, *arguments)
    assert train.read_text().startswith("sepal")


def test_a_missing_extra_ends_with_code_5(folder, monkeypatch, model):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "fisherkit.onnx_export", raising=False)
    monkeypatch.delitem(sys.modules, "fisherkit.models.onnx", raising=False)
    monkeypatch.delitem(sys.modules, "fisherkit.models.onnx_graph", raising=False)
    assert "fisherkit[onnx]" in refused(5, "export", model, "--onnx", folder / "m.onnx")


def test_inspect_says_what_is_in_the_file(model):
    shown = done("inspect", model).stdout
    assert "sepal length" in shown and f"fisherkit {version('fisherkit')}" in shown
    about = json.loads(done("inspect", model, "--json").stdout)
    assert about["target"] == "kind" and [c["kind"] for c in about["columns"]].count("text") == 1
    scope = {}
    exec(done("inspect", model, "--code").stdout, scope)
    fitted = files.load(model).model
    X = scope["X"]
    assert np.array_equal(scope["model"].predict_proba(X), fitted.predict_proba(X))


def test_audit_lists_doubtful_lines(folder, tmp_path):
    train = pd.read_csv(folder / "train.csv")
    train.loc[4, "kind"] = "virginica"
    train.to_csv(tmp_path / "wrong.csv", index=False)
    arguments = ["audit", tmp_path / "wrong.csv", "-t", "kind", "-o", tmp_path / "all.csv"]
    first = json.loads(done(*arguments, "--json", "-q").stdout)[0]
    assert first["line"] == 6 and first["suggested"] == "setosa"
    assert len(pd.read_csv(tmp_path / "all.csv")) == 75
    assert done(*arguments, "--rows", "3").stdout.count("\n") == 4


def test_explain_says_why(folder, model):
    new = pd.read_csv(folder / "new.csv")
    fitted = files.load(model).model
    result = done("explain", model, folder / "new.csv", "--row", "40")
    assert result.stdout.startswith(f"line 40: The answer is {fitted.predict(new.iloc[[38]])[0]} ")
    assert "The answer would be" in result.stdout and "training rows" not in result.stdout
    result = done("explain", model, folder / "new.csv")
    assert result.stdout.count("line ") == 10 and "and 65 more rows" in result.stdout
    done("explain", model, folder / "new.csv", "-o", folder / "why.csv", "-q")
    out = pd.read_csv(folder / "why.csv", index_col="line")
    assert out["answer"].tolist() == fitted.predict(new).tolist()
    columns = ["sepal length", "sepal width", "petal length", "petal"]
    assert list(out.columns) == ["answer", "second", "margin", "base", *columns, "would be"]
    np.testing.assert_allclose(out["base"] + out[columns].sum(axis=1), out["margin"], atol=1e-8)
    done("explain", model, folder / "new.csv", "--row", "3", "-o", folder / "why.html", "-q")
    page = (folder / "why.html").read_text(encoding="utf-8")
    assert page.count("<h2>line 3</h2>") == 1 == page.count("<h2>") and page.count("<tr>") == 5
    assert "no row that begins in line 400" in refused(
        3, "explain", model, folder / "new.csv", "--row", "400"
    )
    assert ".csv or .html" in refused(
        2, "explain", model, folder / "new.csv", "-o", folder / "why.txt"
    )


def test_export_writes_a_graph(folder, model):
    pytest.importorskip("onnx", reason="ONNX export needs the extra onnx")
    path = folder / "m.onnx"
    assert "bytes" in done("export", model, "--onnx", path).stderr
    assert path.stat().st_size > 500


@pytest.fixture
def rendered(monkeypatch):
    """The trainings that a report was asked for."""
    asked = []
    page = types.ModuleType("fisherkit.report")
    page.render = lambda training: asked.append(training) or "<!doctype html>"
    monkeypatch.setitem(sys.modules, "fisherkit.report", page)
    return asked


def test_a_report_can_be_written_at_once_or_later(folder, model, rendered, tmp_path):
    options = ["-t", "kind", "--report", tmp_path / "now.html"]
    done("fit", folder / "train.csv", *options)
    done("report", model, folder / "train.csv", "-o", tmp_path / "later.html")
    assert (tmp_path / "now.html").read_text() == (tmp_path / "later.html").read_text()
    now, later = rendered
    pd.testing.assert_frame_equal(now.X, later.X)
    assert np.array_equal(now.y, later.y) and now.code == later.code and now.notes == later.notes
    assert np.array_equal(now.held_out.probabilities, later.held_out.probabilities)
    assert np.array_equal(now.model.estimator_.loo_decision_, later.model.estimator_.loo_decision_)


def test_the_report_of_other_rows_is_refused(folder, model, rendered, tmp_path):
    out = tmp_path / "r.html"
    assert "rows that the model was trained on" in refused(
        3, "report", model, folder / "new.csv", "-o", out
    )
    assert "needs the rows" in refused(3, "report", model, "-o", out)
    assert not rendered and not out.exists()


def test_the_embedded_example_needs_no_rows_for_its_report(rendered, tmp_path):
    path = tmp_path / "m.fisherkit"
    done("fit", "--model", path, "--held-out", "none", "-q")
    done("report", path, "-o", tmp_path / "r.html")
    assert len(rendered[0].y) == 569


def test_control_characters_are_written_out(tmp_path):
    """What a file says must not steer the terminal of who looks at it."""
    table = pd.DataFrame({"a\x1b[2Jb\u202e": np.arange(40.0) % 7, "y\x07": np.arange(40) % 2})
    table["y\x07"] = table["y\x07"].map({0: "no\x9b", 1: "yes"})
    path, model = tmp_path / "t.csv", tmp_path / "m.fisherkit"
    table.to_csv(path, index=False)
    options = ["-t", "y\x07", "--held-out", "none", "--model", model]
    shown = [done("fit", path, *options), done("inspect", model), done("inspect", model, "--code")]
    shown += [done("audit", path, "-t", "y\x07"), run("fit", path, "-t", "\x1b[2J")]
    for result in shown:
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", result.output)
    assert "a\\x1b[2Jb\\u202e" in shown[1].stdout.replace("\n", "")


def test_every_exit_code_is_documented():
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    table = page.split("Exit codes:")[1].split("##")[0]
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    used = (commands.WRONG_USE, commands.WRONG_TABLE, commands.WRONG_MODEL, commands.MISSING_EXTRA)
    assert codes == {0, 1, *used, commands.INTERRUPTED, commands.CLOSED_PIPE}
    assert all(f"{code} " in done("--help").stdout for code in codes)


def test_an_interrupt_ends_with_code_130(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fisherkit.training.fitting.train", interrupt)
    assert "interrupted" in refused(130, "fit", "-q")


@pytest.mark.skipif(os.name != "posix", reason="closed pipes are signals of Unix")
@pytest.mark.parametrize("words", [("inspect",), ("predict", "-q")], ids=["table", "csv"])
def test_a_closed_pipe_ends_quietly_with_code_141(folder, model, words):
    """As if the signal had ended it: `fisherkit predict ... | head -3`."""
    command, *options = words
    rows = [str(folder / "new.csv")] if command == "predict" else []
    code = "from fisherkit.cli.commands import app; app()"
    arguments = [sys.executable, "-c", code, command, str(model), *rows, *options]
    read, write = os.pipe()
    os.close(read)  # the reader has left
    ran = subprocess.run(arguments, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (commands.CLOSED_PIPE, "")


def test_one_is_no_plural(folder, tmp_path):
    one, model = tmp_path / "one.csv", tmp_path / "one.fisherkit"
    table = pd.read_csv(folder / "train.csv")[["petal length", "kind"]]
    table.to_csv(tmp_path / "train.csv", index=False)
    table.iloc[:1].to_csv(one, index=False)
    fit = ("fit", tmp_path / "train.csv", "-t", "kind", "--test", one, "--model", model)
    shown = done(*fit).stdout
    assert "75 rows, 1 column\n" in re.sub(" +\n", "\n", shown)
    assert "of 1 row (" in shown and "; 1 row of" in shown
    assert "of 1 row with a label" in done("predict", model, one).stderr


def test_markup_in_names_is_shown_as_it_is(tmp_path):
    table = pd.DataFrame({"[bold]x[/]": np.arange(40.0) % 7, "y": np.arange(40) % 2})
    table.to_csv(tmp_path / "[red].csv", index=False)
    shown = done("fit", tmp_path / "[red].csv", "-t", "y", "--held-out", "none").stdout
    assert "[red].csv" in shown.replace("\n", "")


def test_version():
    assert run("--version").stdout == f"fisherkit {version('fisherkit')}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command):
    assert f"fisherkit {command}" in done(command, "--help").stdout.split("Example")[1]


def test_help_names_commands_and_exit_codes():
    shown = done("--help").stdout
    assert all(command in shown for command in [*COMMANDS, "--install-completion", "Exit codes"])


def test_help_waits_for_no_heavy_library():
    heavy = "{'numpy', 'scipy', 'pandas', 'sklearn', 'skops', 'onnx', 'matplotlib'}"
    code = f"import sys, fisherkit.cli.commands; print(sorted({heavy} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_python_of_the_readme_runs():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert blocks
    for code in blocks:  # each by itself, as readers copy them
        exec(code, {})


def test_a_loop_of_links_is_named_as_what_cannot_be_written(folder, model):
    (folder / "one").symlink_to(folder / "two")
    (folder / "two").symlink_to(folder / "one")
    message = refused(2, "predict", model, folder / "new.csv", "-o", folder / "one")
    assert "one: Too many levels of symbolic links" in message


def test_labels_of_no_class_are_said(folder, model):
    table = pd.read_csv(folder / "new.csv").assign(kind="moss")
    table.to_csv(folder / "moss.csv", index=False)
    said = done("predict", model, folder / "moss.csv", "-o", folder / "out.csv").stderr
    assert f"{len(table)} rows have labels that are no class of the model (such as 'moss')" in said
