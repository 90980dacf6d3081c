"""Explanations of answers: they add up, equal enumeration, and name changes that do change."""

import sys
from types import SimpleNamespace

import numpy as np
import oracles
import pandas as pd
import pytest
from oracles import gap
from sklearn.decomposition import PCA
from sklearn.gaussian_process.kernels import RBF
from sklearn.inspection import PartialDependenceDisplay, partial_dependence
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fisherkit import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    SparseFisherClassifier,
    TableClassifier,
    TableRegressor,
)
from fisherkit.core import View
from fisherkit.inspection import explain

NUMBERS = {"gamma": 0.4, "regularization": 0.6}


def problem(n_classes=2, n=60, d=3):
    return oracles.noisy_classes(n, n_classes, d=d, seed=3)


def log_ratio(p):
    """The logarithm of the two largest probabilities' ratio."""
    ordered = np.sort(p, axis=1)
    return np.log(ordered[:, -1] / ordered[:, -2])


def mixed_table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "town": rng.choice(["Oslo", "Rome", None], n),
            "kids": rng.integers(0, 5, n),
            "noise": rng.normal(size=n),
        }
    )
    label = np.where((table["size"] > 0) ^ (table["town"] == "Rome"), "yes", "no")
    table.loc[::17, "size"] = np.nan
    return table, label


MODELS = [
    KernelFisherClassifier(),
    KernelFisherClassifier(kernel="laplacian", multiclass="lda", threshold="balanced"),
    KernelFisherClassifier(kernel="additive", multiclass="ovr"),
    KernelFisherClassifier(kernel="polynomial", gamma=0.2, degree=2),
    KernelFisherClassifier(basis="pivoted", n_components=10),
    KernelFisherClassifier(ard=True),
    FisherCommitteeClassifier(),
    FisherCommitteeClassifier(
        ["rbf", ("exponential", View(np.array([0, 2]), np.array([0.5, 2.0]))), ("laplacian", [1])],
        learn=True,
        combine="families",
    ),
    SparseFisherClassifier(),
    ForwardFisherClassifier(),
    BayesianFisherClassifier(ard=True),
    BayesianFisherClassifier(kernel="linear"),
    BayesianFisherClassifier(n_inducing=9, random_state=0),
]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: str(m).replace("Classifier", ""))
def test_contributions_add_up_to_the_margin(model, n_classes):
    X, y = problem(n_classes)
    model = model.fit(X[:40], y[:40])
    found = explain(model, X[40:46], changes=False, n_pairs=4)
    p = model.predict_proba(X[40:46])
    assert gap(found.base + found.contributions.sum(axis=1), found.margin) < 1e-9
    np.testing.assert_allclose(found.margin, log_ratio(p), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found.answers, model.predict(X[40:46]))
    assert not np.any(found.answers == found.seconds)
    sampled = "exponential" in str(model) or "polynomial" in str(model)
    assert sampled or not found.standard_error.any()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_values_are_those_of_all_coalitions(n_classes):
    X, y = problem(n_classes, d=4)
    model = KernelFisherClassifier(**NUMBERS, multiclass="ovr").fit(X[:40], y[:40])
    found = explain(model, X[40:43], changes=False)
    coef, centres = np.atleast_2d(model.dual_coef_), X[model.basis_indices_]
    for x, phi, row in zip(X[40:43], found.contributions, range(3), strict=True):
        first, second = found.answers[row], found.seconds[row]
        margin = coef[first] - coef[second] if n_classes == 3 else (2 * first - 1) * coef[0]
        margin = margin * model.calibration_.value

        def value(known, x=x, margin=margin):
            near = [oracles.partly_known(x, z, sorted(known), "rbf", 0.4) for z in centres]
            return margin @ near

        assert gap(phi, oracles.shapley(value, 4)) < 1e-8


def test_the_training_rows_add_up_to_the_score():
    X, y = problem()
    model = KernelFisherClassifier(**NUMBERS).fit(X[:40], y[:40])
    found = explain(model, X[40:42], n_rows=40, changes=False)
    for row in range(2):
        sign = 2 * found.answers[row] - 1
        k = oracles.gram(X[[40 + row]], X[:40], gamma=0.4)[0]
        shares = sign * model.calibration_.value * k * model.dual_coef_
        for side, order in ((found.rows_for, -shares), (found.rows_against, shares)):
            listed = np.argsort(order)[: np.sum(order < 0)]
            np.testing.assert_array_equal(side[row].rows, listed)
            assert gap(np.array(side[row].shares), shares[listed]) < 1e-9


def test_the_rows_of_a_committee_are_counted_over_all_kernels():
    X, y = problem(d=2)
    model = FisherCommitteeClassifier().fit(X, y)
    found = explain(model, X[40:41] + 0.1, n_rows=60, changes=False)
    total = sum(found.rows_for[0].shares) + sum(found.rows_against[0].shares)
    sign = 2 * found.answers[0] - 1
    assert gap(total, found.margin[0] - sign * model.intercept_) < 1e-9
    assert len(set(found.rows_for[0].rows)) == len(found.rows_for[0].rows)


@pytest.mark.parametrize("method", ["committee", "fisher", "sparse", "forward", "bayes"])
def test_columns_of_a_table_are_explained_whole(method):
    table, label = mixed_table()
    model = TableClassifier(method).fit(table[["noise", "kids", "town", "size"]], label)
    found = explain(model, table.iloc[[0, 3, 17]], n_pairs=8)
    assert found.columns == ["noise", "kids", "town", "size"]
    assert gap(found.base + found.contributions.sum(axis=1), found.margin) < 1e-9
    np.testing.assert_allclose(
        found.margin, log_ratio(model.predict_proba(table.iloc[[0, 3, 17]])), rtol=1e-6
    )
    for row, change in zip([0, 3, 17], found.changes, strict=True):
        changed = table.iloc[[row]].copy()
        changed[change.column] = [change.value]
        assert model.predict(changed)[0] == change.label != model.predict(table.iloc[[row]])[0]


def test_columns_that_matter_get_the_contributions():
    table, label = mixed_table(300)
    found = explain(TableClassifier().fit(table, label), table, changes=False, n_pairs=4)
    size = np.abs(found.contributions).mean(axis=0)
    assert {found.columns[j] for j in np.argsort(-size)[:2]} == {"size", "town"}


def test_the_smallest_change_is_at_the_boundary():
    """A step at 0.3 in one column: the answer changes where the model changes its mind."""
    X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    y = np.where(X[:, 0] > 0.3, "high", "low")
    model = make_pipeline(StandardScaler(), KernelFisherClassifier()).fit(X, y)
    row = np.array([[-0.2, 0.1]])
    (change,) = explain(model, row).changes
    assert (change.column, change.label) == ("x0", "high")
    assert abs(change.value - 0.3) < 0.1
    beside = [[change.value + 1e-9, 0.1], [change.value - 1e-5, 0.1]]
    assert model.predict(np.array(beside)).tolist() == ["high", "low"]
    assert abs(change.size - (change.value + 0.2) / X[:, 0].std()) < 0.1


def test_whole_numbers_stay_whole_and_texts_are_levels():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kids": rng.integers(0, 8, 150), "town": rng.choice(["a", "b"], 150)})
    for method in ("fisher", "bayes", "committee"):
        model = TableClassifier(method).fit(table, table.kids > 4)
        (change,) = explain(model, table[table.kids == 2].iloc[:1]).changes
        assert (change.column, change.value, change.label) == ("kids", 5.0, True)
    model = TableClassifier("fisher").fit(table, table.town == "b")
    (change,) = explain(model, table[table.town == "a"].iloc[:1]).changes
    assert (change.column, change.value, change.size) == ("town", "b", 1.0)


def test_there_may_be_no_such_change():
    """The classes differ in two columns together, and the row is far away."""
    X = np.random.default_rng(0).normal(size=(80, 6))
    y = (X.sum(axis=1) > 0).astype(int)
    model = KernelFisherClassifier("linear").fit(X, y)
    assert explain(model, np.full((1, 6), 9.0)).changes == [None]


def test_regressions_are_explained_as_well():
    X, _ = problem(n=80)
    y = X[:, 0] ** 2 + X[:, 1]
    model = KernelRidgeCV().fit(X, y)
    found = explain(model, X[:3])
    assert gap(found.base + found.contributions.sum(axis=1), model.predict(X[:3])) < 1e-7
    assert found.seconds is None and found.changes == [None] * 3
    assert "The prediction is" in str(found)
    with pytest.raises(ValueError, match="2 outputs"):
        explain(KernelRidgeCV().fit(X, np.column_stack([y, y])), X)
    table, _ = mixed_table()
    target = table.kids + 3 * (table.town == "Rome") + table.noise
    model = TableRegressor(keep=True).fit(table, target)
    found = explain(model, table.iloc[:4])
    assert gap(found.base + found.contributions.sum(axis=1), model.predict(table.iloc[:4])) < 1e-7
    assert np.argmax(np.abs(found.contributions).mean(axis=0)) in (1, 2)


def test_words_frames_and_html():
    table, label = mixed_table()
    model = TableClassifier("fisher").fit(table, label)
    found = explain(model, table.iloc[:5])
    frame = found.to_frame()
    assert list(frame.columns) == ["answer", "second", "margin", "base", *table.columns]
    np.testing.assert_array_equal(frame.index, table.index[:5])
    text = repr(found)
    assert text.count("The answer is") == 3 and "(and 2 more rows)" in text
    assert "The answer would be" in text and "speak most for it" in text
    assert found._repr_html_().count("<li>") == 5
    assert "town = missing" in str(explain(model, table[table.town.isna()].iloc[:1]))


def test_a_column_called_as_one_of_the_answer_is_told_apart():
    table, label = mixed_table()
    table = table.rename(columns={"noise": "margin", "kids": "margin (column)"})
    found = explain(TableClassifier("fisher").fit(table, label), table.iloc[:2])
    names = {"margin (column)", "margin (column) (column)", *table.columns} - {"margin"}
    frame = found.to_frame()
    own = ["answer", "second", "margin", "base"]
    assert frame.columns.is_unique and frame.shape[1] == 4 + table.shape[1]
    assert list(frame.columns[:4]) == own and set(frame.columns[4:]) == names
    np.testing.assert_array_equal(frame.to_numpy()[:, 4:].astype(float), found.contributions)


def test_frames_keep_their_names_and_index():
    X, y = problem()
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=[f"row {i}" for i in range(60)])
    for model in (KernelFisherClassifier(**NUMBERS), make_pipeline(StandardScaler(), MODELS[0])):
        found = explain(model.fit(frame, y), frame[:2])
        assert found.columns == ["a", "b", "c"]
        assert found.to_frame().index.tolist() == ["row 0", "row 1"]
        with pytest.raises(ValueError, match="feature names"):
            explain(model, frame[["b", "a", "c"]])


def test_to_shap_turns_all_rows_to_the_second_class(monkeypatch):
    X, y = problem()
    model = KernelFisherClassifier(**NUMBERS).fit(X, y)
    found = explain(model, X[:9], changes=False)
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match="pip install shap"):
        found.to_shap()
    monkeypatch.setitem(sys.modules, "shap", SimpleNamespace(Explanation=SimpleNamespace))
    shown = found.to_shap()
    total = shown.base_values + shown.values.sum(axis=1)
    np.testing.assert_allclose(
        total, model.calibration_.value * model.decision_function(X[:9]), rtol=1e-9
    )
    assert shown.feature_names == ["x0", "x1", "x2"]


def test_what_cannot_be_explained_is_refused():
    X, y = problem()
    cases = [
        (LogisticRegression(), TypeError, "LogisticRegression"),
        (make_pipeline(PCA(), KernelFisherClassifier()), ValueError, "PCA.*may mix columns"),
        (make_pipeline(StandardScaler(), TableClassifier("fisher")), ValueError, "prepares"),
        (KernelFisherClassifier(kernel="cosine"), ValueError, "'cosine' does not say"),
        (BayesianFisherClassifier(kernel=RBF()), ValueError, "kernel object"),
        (BayesianFisherClassifier(probability="noise_model"), ValueError, "probability='loo'"),
    ]
    for model, error, words in cases:
        with pytest.raises(error, match=words):
            explain(model.fit(X, y), X)
    K = oracles.gram(X)
    with pytest.raises(ValueError, match="precomputed"):
        explain(KernelFisherClassifier("precomputed").fit(K, y), K)
    fitted = KernelFisherClassifier(**NUMBERS).fit(X, y)
    with pytest.raises(ValueError, match="n_pairs=1"):
        explain(fitted, X, n_pairs=1)
    with pytest.raises(ValueError, match="features"):
        explain(fitted, X[:, :2])


@pytest.mark.parametrize("method", ["committee", "fisher"])
def test_partial_dependence_of_scikit_learn_takes_tables(method, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    table, label = mixed_table()
    table["kids"] = table["kids"].astype(float)  # scikit-learn would round its grid
    model = TableClassifier(method).fit(table, label)
    filled = table.fillna({"town": "missing"})  # the same to the model, and can be sorted
    np.testing.assert_array_equal(model.predict_proba(filled), model.predict_proba(table))
    display = PartialDependenceDisplay.from_estimator(
        model, filled, ["noise", "town"], categorical_features=["town"], grid_resolution=5
    )
    assert display.axes_.size == 2
    known = table.dropna(subset=["size"])
    PartialDependenceDisplay.from_estimator(model, known, ["size"], grid_resolution=5)
    found = partial_dependence(model, table, ["kids"], kind="average", grid_resolution=4)
    for value, average in zip(found["grid_values"][0], found["average"][0], strict=True):
        changed = table.assign(kids=value)
        assert abs(model.predict_proba(changed)[:, 1].mean() - average) < 1e-9


def test_rows_with_holes_of_nullable_types_are_explained():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, 60)
    X = pd.DataFrame({"a": pd.array(x, dtype="Int64"), "b": rng.normal(size=60)})
    model = TableClassifier("fisher").fit(X, x % 2)
    row = X[:1].copy()
    row.loc[0, "a"] = pd.NA
    found = explain(model, row)
    assert np.isfinite(found.contributions).all()
