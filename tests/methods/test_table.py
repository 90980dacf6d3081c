"""Tables as users have them: containers, kinds of columns, weights, groups, files and graphs."""

import re

import numpy as np
import pandas as pd
import pytest
from people import people
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.inspection import partial_dependence
from sklearn.model_selection import GroupKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from fisherkit import (
    FisherCommitteeClassifier,
    KernelFisherClassifier,
    TableClassifier,
    TableRegressor,
    audit,
)
from fisherkit.columns import frame_of
from fisherkit.methods import METHODS, RecipeError
from fisherkit.model_files import load, save

# Folds over rows would part the copies of a row; leave-one-out does not.
WITHOUT_FOLDS = {"cv": None}


def expected_to_fail(estimator):
    if getattr(estimator, "method", "") == "bayes":
        return {"check_class_weight_classifiers": "the evidence has no class weights"}
    return {}


@parametrize_with_checks(
    [
        TableClassifier(),
        TableClassifier("fisher"),
        TableClassifier("bayes"),
        TableClassifier("forward", parameters=WITHOUT_FOLDS),
        TableClassifier("sparse", parameters={**WITHOUT_FOLDS, "gamma": "median"}),
        TableRegressor(),
    ],
    expected_failed_checks=expected_to_fail,
)
def test_sklearn_compatible(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    table = people(120)
    return table.drop(columns="label"), table["label"]


@pytest.fixture(scope="module")
def fitted(data):
    return TableClassifier().fit(*data)


def test_one_line_is_all(data, fitted):
    X, _ = data
    assert fitted.predict_proba(X).shape == (120, 2)
    assert set(fitted.classes_) == {"no", "yes"}
    assert fitted.columns_.loc["town", "kind"] == "text"
    assert fitted.relevance_.max() == 1 and (fitted.relevance_ >= 0).all()
    assert list(fitted.relevance_.index) == list(X.columns)


@pytest.mark.parametrize("container", ["polars", "pyarrow", "objects", "categories"])
def test_every_container_gives_the_same(data, fitted, container):
    X, y = data
    new, target = X, y
    if container == "polars":
        polars = pytest.importorskip("polars", reason="polars is not installed")
        new = polars.DataFrame({name: values.to_list() for name, values in X.items()}, strict=False)
        target = polars.Series(y.to_list())
    elif container == "pyarrow":
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        new = arrow.Table.from_pandas(X)
    elif container == "objects":
        new = X.astype(object)
    else:
        texts = X.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in X.dtypes]]
        new, target = X.astype(dict.fromkeys(texts, "category")), y.astype("category")
    model = TableClassifier().fit(new, target)
    assert np.array_equal(model.predict_proba(new), fitted.predict_proba(X))


def test_missing_values_of_every_kind(data, fitted):
    X, _ = data
    row = X.iloc[[0]].astype(object)
    found = [
        fitted.predict_proba(row.assign(town=hole, age=hole)) for hole in (None, np.nan, pd.NA)
    ]
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_columns_in_another_order_and_others_beside_them(data, fitted):
    X, _ = data
    new = X[X.columns[::-1]].assign(more=1)
    assert np.array_equal(fitted.predict(new), fitted.predict(X))
    with pytest.raises(ValueError, match="lacks 1 of the 4 columns"):
        fitted.predict(X.drop(columns="town"))
    with pytest.raises(ValueError, match="'old' is not a number, but the column held numbers"):
        fitted.predict(X.astype(object).assign(age="old"))
    assert len(fitted.predict(X.assign(town="Atlantis"))) == len(X)


def test_what_is_refused_says_why(data):
    X, y = data
    dates = pd.date_range("2020-01-01", periods=len(X))
    with pytest.raises(ValueError, match=re.escape("leave it out with drop=['when']")):
        TableClassifier().fit(X.assign(when=dates), y)
    with pytest.raises(ValueError, match="holds dates"):
        TableClassifier().fit(X.assign(when=dates.strftime("%Y-%m-%d")), y)
    with pytest.raises(ValueError, match="all of its 120 values are missing"):
        TableClassifier().fit(X, y.where(np.arange(120) > 120))
    with pytest.raises(ValueError, match=r"text=\['age'\]"):
        TableClassifier().fit(X.assign(age=[*map(str, range(119)), "old"]), y)
    with pytest.raises(ValueError, match="no column 'nothing'"):
        TableClassifier(drop=["nothing"]).fit(X, y)
    with pytest.raises(ValueError, match="several columns called 'age'"):
        TableClassifier().fit(pd.concat([X, X[["age"]]], axis=1), y)
    with pytest.raises(RecipeError, match="there is no method 'best'; there are"):
        TableClassifier("best").fit(X, y)
    with pytest.raises(RecipeError, match="no parameter 'depth'"):
        TableClassifier(parameters={"depth": 3}).fit(X, y)


@pytest.mark.parametrize("Model", [TableClassifier, TableRegressor])
def test_rows_without_a_target_are_left_out(data, Model):
    X, y = data
    y = y if Model is TableClassifier else X["age"].fillna(40.0)
    some, weights = np.arange(120) > 1, 1.0 + np.arange(120) % 2
    with pytest.warns(UserWarning, match="2 of 120 targets are missing"):
        model = Model().fit(X, y.where(some), sample_weight=weights)
    plain = Model().fit(X[some], y[some], sample_weight=weights[some])
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_columns_that_say_nothing_are_left_out_and_said(data):
    X, y = data
    more = X.assign(number=np.arange(120), key=[f"k{i}" for i in range(120)], same=7)
    model = TableClassifier("fisher").fit(more, y)
    notes = model.columns_
    unused = notes.index[notes["kind"] == "unused"]
    assert {"number", "key", "same"} <= set(unused)
    assert notes.loc["number", "note"] == "it numbers the rows (keep=['number'] to use it)"
    kept = TableClassifier("fisher", keep=["number"]).fit(more, y)
    assert kept.columns_.loc["number", "kind"] == "number"
    dropped = TableClassifier("fisher", drop=["number", "key", "same"]).fit(more, y)
    assert np.array_equal(dropped.predict_proba(more), model.predict_proba(more))


def test_text_columns_of_numbers(data):
    X, y = data
    code = np.random.default_rng(0).integers(1, 4, 120).astype(float)
    code[5] = np.nan
    model = TableClassifier("fisher", text=["code"]).fit(X.assign(code=code), y)
    assert model.columns_.loc["code", "kind"] == "text"
    (levels,) = [levels for levels in model.features_.texts if levels.name == "code"]
    assert levels.known[:3] == ["1", "2", "3"]
    whole = X.assign(code=2)  # whole numbers instead of floats
    assert np.array_equal(model.predict(whole), model.predict(X.assign(code=2.0)))


@pytest.mark.parametrize("method", ["committee", "fisher", "bayes"])
def test_weight_two_is_the_row_twice(data, method):
    X, y = data
    rng = np.random.default_rng(1)
    copies = rng.integers(0, 3, len(y))
    twice = np.repeat(np.arange(len(y)), copies)
    weighed = TableClassifier(method).fit(X, y, sample_weight=copies)
    repeated = TableClassifier(method).fit(X.iloc[twice], y.iloc[twice])
    np.testing.assert_allclose(weighed.predict_proba(X), repeated.predict_proba(X), atol=2e-6)


@pytest.mark.parametrize("method", ["committee", "fisher", "sparse", "forward"])
def test_rows_of_a_group_are_left_out_together(data, method):
    """Rows that come in threes: left out one by one, each has twins that know its label."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(np.repeat(rng.normal(size=(40, 4)), 3, axis=0))
    X += 0.01 * rng.normal(size=(120, 4))
    y = np.repeat(rng.integers(0, 2, 40), 3)
    group, new = np.repeat(np.arange(40), 3), pd.DataFrame(rng.normal(size=(400, 4)))
    parameters = {"gamma": "median"} if method == "sparse" else None
    model = TableClassifier(method, parameters=parameters)
    together = clone(model).fit(X, y, groups=group)
    if method == "committee":  # there is nothing to learn
        alone = clone(model).fit(X, y)
        sure = [each.predict_proba(new).max(axis=1).mean() for each in (together, alone)]
        assert sure[0] < 0.56 and sure[1] > 0.7
    else:
        assert isinstance(together.estimator_.cv, GroupKFold)
    with pytest.raises(RecipeError, match="no folds for groups"):
        TableClassifier("bayes").fit(X, y, groups=group)


@pytest.mark.parametrize("method", METHODS)
def test_a_file_gives_the_model_back(tmp_path, data, method):
    X, y = data
    model = TableClassifier(method).fit(X, y)
    save(model, tmp_path / "m")
    again = load(tmp_path / "m").model
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    pd.testing.assert_frame_equal(again.columns_, model.columns_)


@pytest.mark.parametrize("method", METHODS)
def test_what_was_chosen_can_be_said(data, method):
    X, y = data
    model = TableClassifier(method, random_state=3).fit(X, y)
    twin = model.explicit_.fit(X, y)
    assert np.array_equal(twin.predict_proba(X), model.predict_proba(X))


def test_kernels_and_views_of_ones_own(data):
    X, y = data
    model = TableClassifier(kernel=[("rbf", "standard"), ("additive", "rank")]).fit(X, y)
    assert set(model.estimator_.members_["kernel"]) == {
        *("rbf on standard", "additive on rank", "learned rbf on standard")
    }
    one = TableClassifier(kernel="laplacian", learn=False).fit(X, y)
    assert set(one.estimator_.members_["kernel"]) == {"laplacian on standard", "laplacian on rank"}
    with pytest.raises(RecipeError, match="no view 'best'"):
        TableClassifier(kernel=[("rbf", "best")]).fit(X, y)
    with pytest.raises(AttributeError, match="not learned"):
        _ = one.relevance_


def test_balanced_classes(data):
    X, y = data
    rare = y.to_numpy() != "yes"
    rare[np.flatnonzero(~rare)[:12]] = True
    plain, even = (
        TableClassifier(class_weight=weight).fit(X[rare], y[rare]) for weight in (None, "balanced")
    )
    assert even.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    with pytest.raises(RecipeError, match="bayes cannot be balanced"):
        TableClassifier("bayes", class_weight="balanced").fit(X, y)


def test_the_audit_and_scikit_learn_take_it(data):
    X, y = data
    found = audit(TableClassifier("fisher"), X, y)
    assert len(found) == 120 and found["probability"].is_monotonic_increasing
    model = TableClassifier("fisher").fit(X, y)
    grid = partial_dependence(model, X, ["age"], grid_resolution=5)
    assert grid["average"].shape == (1, 5)
    assert model.predict_set(X[:3]).shape == (3, 2)
    assert not hasattr(TableClassifier("sparse").fit(X, y), "predict_set")
    assert clone(model).get_params()["method"] == "fisher"


def test_arrays_with_words():
    X, y = load_iris(return_X_y=True)
    mixed = np.column_stack([X.astype(object), np.where(X[:, 0] > 6, "long", "short")])
    mixed[3, 1] = None
    model = TableClassifier("fisher").fit(mixed, y)
    assert model.columns_["kind"].tolist() == ["number"] * 4 + ["text"]
    assert model.score(mixed, y) > 0.9


def test_frames_of_dtypes():
    frame = frame_of(
        pd.DataFrame(
            {
                "nullable": pd.array([1, None, 3], dtype="Int64"),
                "truth": pd.array([True, None, False], dtype="boolean"),
                "objects": pd.Series([1, 2.5, None], dtype=object),
                "words": pd.Series(["a", None, "b"], dtype="string"),
                "category": pd.Categorical([3, 1, 3]),
                "nothing": [None, None, None],
            }
        )
    )
    numbers = [pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]
    assert numbers == [True, True, True, False, False, True]


def test_a_regression_with_intervals(data):
    X, _ = data
    rng = np.random.default_rng(0)
    y = X["age"].fillna(40) + 10 * (X["town"] == "Bonn") + rng.normal(size=120)
    model = TableRegressor().fit(X[:80], y[:80])
    assert model.score(X[80:], y[80:]) > 0.9
    lower, upper = model.predict_interval(X[80:], confidence=0.9)
    assert 0.75 < np.mean((lower <= y[80:]) & (y[80:] <= upper)) <= 1
    best = model.compared_.loc[model.compared_["left_out_error"].idxmin()]
    assert model.kernel_ == (best["kernel"], best["view"])
    with pytest.raises(ValueError, match="all of its 120 values are missing"):
        TableRegressor().fit(X, y.where(np.arange(120) > 120))


def test_a_fit_that_fails_leaves_the_model_as_it_was(data):
    X, y = data
    model = TableClassifier("fisher").fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="values are missing"):
        model.fit(X, y.where(np.arange(120) > 120))
    assert np.array_equal(model.predict_proba(X), before)


def coded_and_noise(n=60):
    rng = np.random.RandomState(0)
    x = rng.randint(0, 4, n)
    return pd.DataFrame({"a": x.astype(float), "b": rng.randn(n)}), x % 2


def test_levels_are_alike_however_their_numbers_are_written():
    X, y = coded_and_noise()
    model = TableClassifier("fisher", text=["a"]).fit(X, y)
    words = X.assign(a=X["a"].astype(int).astype(str))
    for new in (X, X.assign(a=X["a"].astype(int)), words):
        assert model.score(new, y) == 1.0
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert model.score(X.to_numpy(), y) == 1.0
    array = TableClassifier("fisher", text=["x0"]).fit(X.to_numpy(), y)
    assert array.score(X.to_numpy(), y) == 1.0
    for trained in (X["a"].astype(int), X["a"]):
        categories = TableClassifier("fisher").fit(X.assign(a=pd.Categorical(trained)), y)
        for new in (X, X.assign(a=X["a"].astype(int))):
            assert categories.score(new, y) == 1.0


@pytest.mark.parametrize("names", [[0, 1], pd.MultiIndex.from_tuples([("u", 1), ("u", 2)])])
def test_columns_with_names_of_any_type_may_come_in_any_order(names):
    X, y = coded_and_noise()
    X = X.set_axis(names, axis=1)
    model = TableClassifier("fisher").fit(X, y)
    np.testing.assert_array_equal(model.predict(X[X.columns[::-1]]), model.predict(X))


def test_targets_of_any_type_with_holes():
    X, y = coded_and_noise()
    holes = np.arange(60) < 3
    words = np.where(y == 1, "yes", "no")
    for given, classes in (
        (pd.Series(y == 1, dtype="boolean").mask(holes), [False, True]),
        (pd.Series(y == 1, dtype=object).mask(holes), [False, True]),
        ([float("nan")] * 3 + words[3:].tolist(), ["no", "yes"]),
    ):
        with pytest.warns(UserWarning, match="3 of 60 targets are missing"):
            model = TableClassifier("fisher").fit(X, given)
        assert model.classes_.tolist() == classes
    arrow = pytest.importorskip("pyarrow").array(words.tolist())
    assert TableClassifier("fisher").fit(X, arrow).classes_.tolist() == ["no", "yes"]


def test_a_regression_is_saved_with_what_it_compared(tmp_path):
    X = pd.DataFrame({"a": np.arange(40.0) ** 0.5})
    model = TableRegressor(kernel=[("rbf", "standard")]).fit(X, X["a"])
    save(model, tmp_path / "roots.fisherkit")
    again = load(tmp_path / "roots.fisherkit").model
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.compared_.equals(model.compared_)


@pytest.mark.parametrize("kernel", [[], [("rbf",)]])
def test_kernels_are_names_or_pairs(kernel):
    X, y = coded_and_noise()
    with pytest.raises(RecipeError, match="name or a pair"):
        TableClassifier(kernel=kernel).fit(X, y)


def test_an_infinite_value_is_called_so_with_its_place():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = TableClassifier("fisher").fit(X, y)
    X.iloc[3, 1] = np.inf
    with pytest.raises(
        ValueError, match=r"row 3, column 'sepal width \(cm\)': the value is infinite"
    ):
        model.predict(X)


@pytest.mark.parametrize("hole", [None, np.nan, pd.NA])
def test_rows_without_a_group_are_named(hole):
    X, y = load_iris(return_X_y=True)
    groups = np.arange(150).astype(object)
    groups[[4, 60]] = hole
    for fit in (
        TableClassifier().fit,
        FisherCommitteeClassifier().fit,
        KernelFisherClassifier(cv=GroupKFold(3)).fit,
    ):
        with pytest.raises(ValueError, match=r"groups has no value .* for 2 of .*: 4, 60. Give"):
            fit(X, y, groups=groups)
