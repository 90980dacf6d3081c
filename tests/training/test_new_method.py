"""A method from outside: one class and one entry, and command, model files and report know it."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_runs import done, refused
from people import people
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fisherkit.methods import METHODS, Method, RecipeError, register
from fisherkit.model_files import ModelFileError, load
from fisherkit.report.page import describe, render
from fisherkit.stored import NAMES, TYPES, stored
from fisherkit.training import read_data, train
from fisherkit.tuning import LOG_ODDS

ROOT = Path(__file__).resolve().parents[2]


class NearestMean(ClassifierMixin, BaseEstimator):
    """Two normal classes of variance one, whose means may be drawn towards each other."""

    def __init__(self, pull=0.0):
        self.pull = pull

    def fit(self, X, y):
        X, y = validate_data(self, X, y)
        self.classes_, rows = np.unique(y), np.arange(len(y))
        self.means_ = self._means(X, y)
        self.loo_decision_ = np.array(
            [decide(X[[i]], self._means(X[rows != i], y[rows != i]))[0] for i in rows]
        )
        self.calibration_ = LOG_ODDS
        return self

    def _means(self, X, y):
        means = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        return means + self.pull * (means.mean(axis=0) - means)

    def decision_function(self, X):
        check_is_fitted(self)
        return decide(validate_data(self, X, reset=False), self.means_)

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-self.decision_function(X)))
        return np.c_[1 - p, p]


def decide(X, means):
    """Log-odds of the second class."""
    distance = np.sum((X[:, None, :] - means) ** 2, axis=2)
    return (distance[:, 0] - distance[:, 1]) / 2


ENTRY = Method(
    name="nearest",
    estimator=NearestMean,
    title="the nearer of two means",
    papers=("R. A. Fisher. Annals of Eugenics 7:179-188, 1936.",),
    balanced={"pull": 0.5},
    one_width=False,
    chosen=lambda model: {"pull": model.pull},
    facts=lambda model: [("Pull", f"{model.pull:g}")],
)


@pytest.fixture
def registered():
    registries = METHODS, TYPES, NAMES
    before = [dict(registry) for registry in registries]
    stored("test: nearest mean")(NearestMean)
    register(ENTRY)
    yield
    for registry, content in zip(registries, before, strict=True):
        registry.clear()
        registry.update(content)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    people().to_csv(path, index=False)
    return path


@pytest.mark.usefixtures("registered")
def test_train_knows_a_registered_method(table):
    trained = train(read_data(table, "label"), "nearest", balanced=True)
    model = trained.model.estimator_
    assert type(model) is NearestMean and model.pull == 0.5
    assert "method='nearest'," in trained.code and "class_weight='balanced'" in trained.code
    assert f"import {NearestMean.__module__}\n" in trained.code
    wrong = trained.held_out.predicted != trained.held_out.y
    assert np.mean(wrong) < 0.5 and len(wrong) == len(trained.y)
    with pytest.raises(RecipeError, match="nearest has no penalty"):
        train(read_data(table, "label"), "nearest", penalty="rkhs")
    with pytest.raises(RecipeError, match="held_out='half' is none of auto"):
        train(read_data(table, "label"), "nearest", held_out="half")
    with pytest.raises(RecipeError, match="fisher, committee"):
        train(read_data(table, "label"), "nearest", max_memory="1GB")


@pytest.mark.usefixtures("registered")
def test_the_page_of_a_registered_method(table):
    trained = train(read_data(table, "label"), "nearest", held_out="none")
    page = describe(trained)
    chosen = next(each for each in page["sections"] if each["title"].startswith("What was fitted"))
    facts = dict(chosen["blocks"][0]["rows"])
    assert facts["Method"] == "the nearer of two means" and facts["Pull"] == "0"
    assert "methods fisher and bayes have" in facts["Label sets"]
    assert len(chosen["blocks"]) == 1, "there is no search to draw"
    assert "Annals of Eugenics" in render(trained)


@pytest.mark.usefixtures("registered")
def test_the_command_fits_saves_predicts_and_reports(table, tmp_path):
    model, report = tmp_path / "model", tmp_path / "report.html"
    options = "--method", "nearest", "--model", model, "--report", report, "--json", "-q"
    summary = json.loads(done("fit", table, "-t", "label", *options).stdout)
    assert summary["classifier"] == "NearestMean" and summary["chosen"] == {"pull": 0.0}
    assert summary["error_after_selection"]["how"] == "leave-one-out"
    again = load(model).model
    trained = train(read_data(table, "label"), "nearest", held_out="none")
    assert np.array_equal(again.predict_proba(trained.X), trained.model.predict_proba(trained.X))
    assert "% of 120 rows" in done("predict", model, table, "-o", tmp_path / "out.csv").stderr
    first = report.read_bytes()
    done("report", model, table, "-o", report)
    assert len(report.read_bytes()) > 0.9 * len(first)


@pytest.mark.usefixtures("registered")
def test_a_class_that_model_files_do_not_know_is_not_saved(table, tmp_path):
    del TYPES["test: nearest mean"], NAMES[NearestMean]
    options = "-t", "label", "--method", "nearest", "--model", tmp_path / "model", "-q"
    assert "NearestMean" in refused(4, "fit", table, *options)


def test_an_unknown_method_is_refused_with_the_ones_there_are(table):
    words = refused(2, "fit", table, "-t", "label", "--method", "nearest")
    assert "fisher, committee, sparse, forward, bayes" in words


def test_a_file_of_a_method_that_is_not_there_is_refused(table, tmp_path, registered):
    options = "-t", "label", "--method", "nearest", "--model", tmp_path / "model", "-q"
    done("fit", table, *options)
    del TYPES["test: nearest mean"]
    with pytest.raises(ModelFileError, match=r"nearest mean.*does not know"):
        load(tmp_path / "model")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_in_the_help_and_in_the_documentation(name):
    assert f"`{name}`" in (ROOT / "docs/command_line.md").read_text(encoding="utf-8")
    assert name in done("fit", "--help").stdout
    assert METHODS[name].papers and METHODS[name].search in ("mu", "size", "members", "evidence")
