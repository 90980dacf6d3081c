"""The command on a table whose target is a number, from fit to export."""

import json

import numpy as np
import pandas as pd
import pytest
from command_runs import done, refused
from houses import houses

from fisherkit.models import ModelFileError, files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("houses")
    houses(150).to_csv(folder / "train.csv", index=False)
    houses(60, seed=1).to_csv(folder / "new.csv", index=False)
    options = ("--test", folder / "new.csv", "--model", folder / "m.fisherkit")
    fit = done("fit", folder / "train.csv", "-t", "price", *options)
    (folder / "printed").write_text(fit.stdout)
    return folder


@pytest.fixture
def model(folder):
    return folder / "m.fisherkit"


def test_fit_prints_how_far_predictions_are(folder):
    printed = " ".join((folder / "printed").read_text().split())
    for part in (
        "target price: numbers from",
        "method ridge (KernelRidgeCV)",
        "leave-one-out error R^2 0.9",
        "held-out error R^2 0.9",
        "mean alone RMSE",
        "note 'price' has 149 different numbers, some of them with fractions, so they are "
        "predicted as numbers (a regression). If they are names of classes, use --task "
        "classification.",
    ):
        assert part in printed


def test_json(folder):
    options = ("--task", "regression", "--held-out", "none", "--json", "-q")
    result = done("fit", folder / "train.csv", "-t", "rooms", *options)
    found = json.loads(result.stdout)
    assert found["task"] == "regression" and found["notes"] == [] and found["held_out"] is None
    assert found["target_range"] == [1, 6] and found["regressor"] == "KernelRidgeCV"
    assert set(found["error_after_selection"]) == {"how", "rows", "r2", "rmse", "mae", "interval"}


def test_predictions_have_intervals(folder, model):
    result = done("predict", model, folder / "new.csv", "-o", folder / "out.csv")
    out, new = pd.read_csv(folder / "out.csv", index_col="line"), houses(60, seed=1)
    assert list(out.columns) == ["prediction", "lower", "upper"]
    fitted = files.load(model).model
    np.testing.assert_allclose(out["prediction"], fitted.predict(new), rtol=1e-12)
    inside = (out["lower"] <= new["price"].to_numpy()) & (new["price"].to_numpy() <= out["upper"])
    assert 0.75 < inside.mean() <= 1
    assert "error on " in result.stderr and "RMSE" in result.stderr
    assert f"{inside.sum()} of 60 intervals for new rows contain the target" in result.stderr
    done("predict", model, folder / "new.csv", "-o", folder / "o.csv", "--confidence", "0.5", "-q")
    narrow = pd.read_csv(folder / "o.csv")
    assert (narrow["upper"] - narrow["lower"]).mean() < (out["upper"] - out["lower"]).mean()


def test_predictions_without_targets_or_with_texts_for_them(folder, model):
    path = folder / "bare.csv"
    houses(60, seed=1).drop(columns="price").to_csv(path, index=False)
    assert "RMSE" not in done("predict", model, path).stderr
    houses(60, seed=1).assign(price="unknown").to_csv(path, index=False)
    said = done("predict", model, path).stderr
    assert "60 rows with a target that is not a number" in said and "RMSE" not in said


def test_explanations_are_of_the_prediction(folder, model):
    printed = done("explain", model, folder / "new.csv", "--row", "4").stdout
    assert "line 4: The prediction is" in printed and "raised by" in printed
    done("explain", model, folder / "new.csv", "-o", folder / "why.csv", "-q")
    why = pd.read_csv(folder / "why.csv", index_col="line")
    assert list(why.columns) == ["prediction", "base", "size", "rooms", "town", "garden"]
    np.testing.assert_allclose(why.iloc[:, 1:].sum(axis=1), why["prediction"])
    done("explain", model, folder / "new.csv", "-o", folder / "why.html", "-q")
    assert "what a column adds to the prediction" in (folder / "why.html").read_text()


def test_audit_lists_doubtful_targets(folder):
    result = done("audit", folder / "train.csv", "-t", "price", "--rows", "3")
    assert "ratio" in result.stdout and "--task classification" in result.stderr
    result = done("audit", folder / "train.csv", "-t", "price", "--json", "-q")
    ratios = [abs(row["ratio"]) for row in json.loads(result.stdout)]
    assert ratios == sorted(ratios, reverse=True) and not result.stderr


def test_inspect_and_code(model):
    assert "mean alone" in done("inspect", model).stdout
    assert "TableRegressor(" in done("inspect", model, "--code").stdout


def test_export(folder, model):
    pytest.importorskip("onnx", reason="ONNX export needs the extra onnx")
    done("export", model, "--onnx", folder / "m.onnx")
    assert (folder / "m.onnx").stat().st_size > 1000


def test_reports_are_of_numbers_too(folder, model):
    done("report", model, folder / "train.csv", "-o", folder / "r.html", "-q")
    first = (folder / "r.html").read_text(encoding="utf-8")
    assert "How far off is it?" in first and "Can I trust the intervals?" in first


def test_options_that_do_not_go_together(folder):
    path = folder / "train.csv"
    said = refused(2, "fit", path, "-t", "price", "-q", "--method", "sparse")
    assert "method sparse trains classifiers" in said
    said = refused(2, "fit", path, "-t", "price", "-q", "--balanced")
    assert "--balanced makes classes count alike" in said
    said = refused(3, "fit", path, "-t", "town", "-q", "--task", "regression")
    assert "--task classification" in said
    assert "there is no method 'nix'" in refused(2, "fit", path, "-t", "price", "--method", "nix")
    assert "--task" in refused(2, "fit", "--task", "regression")


@pytest.mark.parametrize(
    "change",
    [
        {"target_range": [1.0]},
        {"error_of_the_mean": {"rmse": 1.0}},
        {"held_out": {"how": "x", "rows": 3, "r2": 0.0, "rmse": 1.0, "mae": 1.0, "interval": [1]}},
        {"task": "classification"},
    ],
)
def test_damaged_summaries_are_refused(folder, model, change):
    file = files.load(model)
    metadata = dict(file.metadata)
    metadata["summary"] = metadata["summary"] | change
    with pytest.raises(ModelFileError):
        files.save(file.model, folder / "bad.fisherkit", metadata=metadata, extra=file.extra)
