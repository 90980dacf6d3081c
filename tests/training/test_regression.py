"""Trainings that predict numbers, and how a target decides whether it is one."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from houses import houses
from people import people, rerun
from scipy.stats import binomtest
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from trainings import little_time

from fisherkit import TableClassifier, TableRegressor
from fisherkit.columns import TableError
from fisherkit.methods import RIDGE, RecipeError, are_classes, registry
from fisherkit.training import doubtful, read_data, train
from fisherkit.training.fitting import opened
from fisherkit.training.numbers import NUMBERS
from fisherkit.training.out_of_core import fit_table


@pytest.fixture
def saved(tmp_path):
    def write(table, name="houses.csv"):
        path = tmp_path / name
        table.to_csv(path, index=False)
        return path

    return write


@pytest.mark.parametrize(
    ("target", "task"),
    [
        (np.array(["a", "b"] * 40), "classification"),
        (np.array([True, False] * 40), "classification"),
        (np.arange(80) % 20, "classification"),
        (np.arange(80) % 21, "regression"),
        (np.arange(80.0) % 4, "classification"),
        (np.arange(80) % 2 + 0.5, "regression"),
        (np.arange(8), "regression"),
        (np.array([0, 1, 0]), "classification"),
    ],
)
def test_the_target_decides(saved, target, task):
    assert are_classes(target) == (task == "classification")
    data = read_data(
        saved(pd.DataFrame({"x": np.linspace(0, 1, len(target)) ** 2, "y": target})), "y"
    )
    assert data.goal.name == task
    other = {"classification": "regression", "regression": "classification"}[task]
    notes = [note for note in data.notes if "--task" in note]
    assert [other in note for note in notes] == ([] if target.dtype.kind in "Ub" else [True])


def test_the_user_decides(saved):
    table = houses().assign(rooms=houses().rooms)
    few = read_data(saved(table), "rooms", task="regression")
    assert few.goal is NUMBERS and few.y.dtype == np.float64 and not few.notes
    halves = saved(table.assign(price=np.arange(len(table)) % 3 / 2))
    names = read_data(halves, "price", task="classification")
    assert names.goal.name == "classification" and set(names.y) == {"0.0", "0.5", "1.0"}
    assert same_model(train(names, held_out="none"))
    with pytest.raises(RecipeError, match="--text 'rooms' makes texts"):
        read_data(saved(table), "rooms", text=("rooms",), task="regression")
    with pytest.raises(TableError, match=r"'town' holds texts such as '(Rome|Oslo)'.*--task class"):
        read_data(saved(table), "town", task="regression")
    with pytest.raises(TableError, match="one value only, 7"):
        read_data(saved(table.assign(price=7.0)), "price", task="regression")


def test_classifiers_refuse_numbers_with_fractions_with_the_same_rule():
    X = pd.DataFrame({"x": np.arange(40.0)})
    with pytest.raises(ValueError, match=r"such as 0.5, .*TableRegressor predicts numbers"):
        TableClassifier("fisher").fit(X, np.arange(40) / 2)


def same_model(done):
    twin = rerun(done)
    assert np.array_equal(twin.predict(done.X), done.model.predict(done.X))
    return True


@pytest.mark.parametrize("options", [{}, {"kernel": "linear"}, {"penalty": "coefficients"}])
def test_the_code_shown_gives_the_same_model_to_the_last_bit(saved, options):
    done = train(read_data(saved(houses()), "price"), held_out="none", **options)
    assert done.goal is NUMBERS and done.method == "ridge"
    assert isinstance(done.model, TableRegressor) and same_model(done)


def test_the_code_on_centres(saved, monkeypatch):
    little_time(monkeypatch, 20)
    done = train(read_data(saved(houses()), "price"), held_out="none")
    assert "centres=20" in done.code and same_model(done)


def test_errors_are_those_of_the_rows_held_out(saved):
    new = saved(houses(60, seed=1), "new.csv")
    done = train(read_data(saved(houses()), "price"), test=new)
    y = houses(60, seed=1)["price"].to_numpy()
    np.testing.assert_array_equal(done.held_out.y, y)
    predicted = done.model.predict(houses(60, seed=1))
    np.testing.assert_allclose(done.held_out.predicted, predicted, rtol=1e-12)
    found = done.goal.summary(done.model, done.y, done.held_out)
    assert found["held_out"]["rmse"] == pytest.approx(root_mean_squared_error(y, predicted))
    assert found["held_out"]["mae"] == pytest.approx(mean_absolute_error(y, predicted))
    assert found["held_out"]["r2"] == pytest.approx(r2_score(y, predicted))
    low, high = found["held_out"]["interval"]
    assert low < found["held_out"]["rmse"] < high
    left_out = done.model.estimator_.loo_prediction_
    rmse = root_mean_squared_error(done.y, left_out)
    assert found["error_after_selection"]["rmse"] == pytest.approx(rmse)
    assert found["error_of_the_mean"]["rmse"] == pytest.approx(done.y.std())
    assert found["held_out"]["rmse"] < 0.5 * found["error_of_the_mean"]["rmse"]


@pytest.mark.parametrize(("how", "rows"), [("folds", 120), ("split", 24)])
def test_rows_held_out_have_not_been_seen(saved, how, rows):
    done = train(read_data(saved(houses()), "price"), held_out=how)
    assert len(done.held_out.y) == rows and done.held_out.probabilities is None
    assert not np.array_equal(done.held_out.predicted, done.model.predict(done.X)[:rows])
    assert r2_score(done.held_out.y, done.held_out.predicted) > 0.8


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("committee", {}, "method committee trains classifiers.*Leave --method out"),
        ("ridge", {"balanced": True}, "--balanced makes classes count alike"),
    ],
)
def test_options_of_classes(saved, method, options, said):
    with pytest.raises(RecipeError, match=said):
        train(read_data(saved(houses()), "price"), method, **options)
    with pytest.raises(RecipeError, match=r"method ridge predicts numbers.*--task regression"):
        train(read_data(saved(people()), "label"), "ridge")


def test_targets_that_are_wrong_come_first(saved):
    table = houses()
    table.loc[40, "price"] += 300
    found = doubtful(read_data(saved(table), "price"))
    columns = ["target", "predicted", "residual", "ratio", "leverage", "influence"]
    assert list(found.columns) == columns
    assert found.index[0] == 42 and found["ratio"].iloc[0] > 8  # lines are counted from the header
    np.testing.assert_allclose(found["target"] - found["predicted"], found["residual"])
    assert found["influence"].iloc[0] > 0


def test_out_of_core(saved):
    path = saved(houses(400))
    whole = train(read_data(path, "price"), held_out="none")
    with opened(path, "price", out_of_core=True) as data:
        done = train(data, held_out="split", max_memory="1MB")
        assert done.goal is NUMBERS and same_model(done)
        np.testing.assert_allclose(done.model.predict(whole.X), whole.model.predict(whole.X), 0.02)
    again = fit_table(path, "price", TableRegressor(kernel="rbf", max_memory="64MB"))
    assert again.kernel_[0] == "rbf"


def test_missing_targets_are_named_without_advice_on_classes(saved):
    table = houses().astype({"price": object})
    table.loc[[1, 2], "price"] = "NA"
    (note, _) = read_data(saved(table), "price").notes
    assert note == (
        "2 rows without a value in 'price' left out: 'NA' in 2 rows of 'price' counts as missing."
    )


def test_the_registry_has_no_classifier_of_that_name():
    assert RIDGE.name not in registry.METHODS


def roles(saved, make, target, **columns):
    rng = np.random.RandomState(3)
    table = make(120)
    table = table.assign(copies=rng.randint(1, 4, 120), person=np.arange(120) // 4, **columns)
    return read_data(saved(table), target, weights="copies", groups="person"), table


@pytest.mark.parametrize(("make", "target"), [(houses, "price"), (people, "label")])
def test_weights_and_groups_are_no_features_and_are_passed_on(saved, make, target):
    data, table = roles(saved, make, target)
    assert {"copies", "person"}.isdisjoint(data.X.columns)
    done = train(data)
    assert "groups kept together" in done.held_out.how and same_model(done)
    X, y = data.X, data.y
    words = {"sample_weight": table["copies"].to_numpy(), "groups": table["person"].to_numpy()}
    asked = data.goal.asked(done.method, 0)
    np.testing.assert_array_equal(asked.fit(X, y, **words).predict(X), done.model.predict(X))
    repeated = X.loc[X.index.repeat(table["copies"])], np.repeat(y, table["copies"])
    found = data.goal.summary(done.model, y, done.held_out, data.weights)["held_out"]
    held, copies = done.held_out, table["copies"]
    twice = np.repeat(held.y, copies), np.repeat(held.predicted, copies)
    assert len(repeated[1]) == len(twice[0]) and found["rows"] == 120
    if target == "price":
        assert found["rmse"] == pytest.approx(root_mean_squared_error(*twice))
        assert found["mae"] == pytest.approx(mean_absolute_error(*twice))
        assert found["r2"] == pytest.approx(r2_score(*twice))
    else:
        assert found["error"] == pytest.approx(np.mean(twice[0] != twice[1]))


def test_groups_are_held_out_together(saved, monkeypatch):
    data, _ = roles(saved, houses, "price")
    seen = []
    fit = TableRegressor.fit

    def spied(self, X, y, sample_weight=None, groups=None):
        seen.append(set(groups))
        assert len(sample_weight) == len(X)
        return fit(self, X, y, sample_weight, groups)

    monkeypatch.setattr(TableRegressor, "fit", spied)
    done = train(data, held_out="split")
    assert done.held_out.how == "20 % of the groups, set aside"
    assert len(seen[0]) == 24 and len(seen[1]) == 30 and len(done.held_out.y) == 24


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("copies", [0.0, *[1.0] * 119], "line 2, column 'copies': the weight 0 is not a positive"),
        ("copies", ["many"] * 120, "holds texts such as 'many'; a weight is a number"),
        ("person", [None, *range(119)], "line 2, column 'person': the group is missing"),
        ("person", [7] * 120, "one value only; rows are compared"),
    ],
)
def test_weights_and_groups_that_are_none(saved, column, values, said):
    option = {"copies": "weights", "person": "groups"}[column]
    with pytest.raises(TableError, match=said):
        read_data(saved(houses().assign(**{column: values})), "price", **{option: column})


def test_where_weights_and_groups_are_refused(saved):
    path = saved(houses().assign(person=np.arange(120) // 4))
    with pytest.raises(TableError, match="is the target, and holds neither weights nor groups"):
        read_data(path, "price", weights="price")
    with pytest.raises(TableError, match="no column 'nix' \\(--groups\\)"):
        read_data(path, "price", groups="nix")
    with (
        opened(path, "price", out_of_core=True, groups="person") as data,
        pytest.raises(RecipeError, match="--out-of-core takes neither"),
    ):
        train(data)


def test_equal_weights_change_no_interval(saved):
    done = train(read_data(saved(people()), "label"), held_out="split")
    ones = np.ones(len(done.held_out.y))
    plain, weighted = (
        done.goal.summary(done.model, done.y, replace(done.held_out, weights=w))["held_out"]
        for w in (None, ones)
    )
    assert plain == weighted
    wrong = int(np.sum(done.held_out.y != done.held_out.predicted))
    low, high = binomtest(wrong, len(ones)).proportion_ci(0.95, "wilson")
    assert plain["interval"] == pytest.approx([low, high])
