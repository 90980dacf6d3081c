"""From a table to a model: columns, errors held out, and the code that does the same."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from people import people, rerun
from trainings import little_time

from fisherkit.columns.frames import TableError
from fisherkit.methods import METHODS, RecipeError, plans
from fisherkit.training import fitting, train
from fisherkit.training.intake import Data, example, read_data


@pytest.fixture
def saved(tmp_path):
    def write(table, name="people.csv"):
        path = tmp_path / name
        table.to_csv(path, index=False)
        return path

    return write


def same_model(done):
    twin, X = rerun(done), done.X
    assert np.array_equal(twin.predict_proba(X), done.model.predict_proba(X))
    assert np.array_equal(twin.predict(X), done.model.predict(X))
    return True


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")], ids=["two", "three"])
def test_the_code_shown_gives_the_same_model_to_the_last_bit(saved, method, classes):
    data = read_data(saved(people(60, classes=classes)), "label")
    done = train(data, method, held_out="none")
    assert done.held_out is None and done.method == method
    assert type(done.model.estimator_) is METHODS[method].estimator
    assert same_model(done)


def test_the_code_of_the_embedded_example():
    assert same_model(train(example(), held_out="none"))


@pytest.mark.parametrize("method", ["fisher", "sparse", "forward", "bayes", "committee"])
def test_many_rows_have_centres_and_a_width_from_a_part_of_them(saved, monkeypatch, method):
    monkeypatch.setattr(plans, "WIDTH_ROWS", 80)
    if METHODS[method].planned:
        little_time(monkeypatch, centres=20)
    else:
        monkeypatch.setitem(METHODS, method, replace(METHODS[method], centres=20, exact_rows=50))
    done = train(read_data(saved(people()), "label"), method, held_out="split")
    assert done.held_out.how == "20 % of the rows, set aside" and len(done.held_out.y) == 24
    assert "=20" in done.code
    assert ("'gamma': " in done.code) == (method in ("fisher", "sparse", "forward"))
    assert same_model(done)


def test_a_report_of_many_rows_has_centres_whatever_the_time(saved, monkeypatch):
    monkeypatch.setitem(METHODS, "fisher", replace(METHODS["fisher"], centres=20, exact_rows=50))
    data = read_data(saved(people()), "label")
    done = train(data, "fisher", held_out="none", max_time=60, leaving_out=True)
    assert "centres=20" in done.code and done.model.max_time == "auto"
    assert any("20 rows are centres" in note for note in done.notes)
    plain = train(data, "fisher", held_out="none", max_time=60)
    assert "centres='all'" in plain.code and plain.notes == data.notes
    assert plain.model.max_time != "auto"


def test_the_code_does_not_grow_with_the_columns(saved):
    rng = np.random.RandomState(0)
    table = pd.DataFrame(rng.normal(size=(40, 120))).add_prefix("x")
    table["town"] = rng.choice(["a", "b"], 40)
    table["label"] = np.where(table["x0"] > 0, 1, 0)
    done = train(read_data(saved(table), "label"), held_out="none")
    assert len(done.code) < 500
    assert same_model(done)


def test_options_reach_the_classifier_and_the_code(saved):
    data = read_data(saved(people()), "label")
    done = train(
        data, held_out="none", kernel="linear", penalty="coefficients", balanced=True, seed=3
    )
    model = done.model.estimator_
    assert (model.kernel, model.penalty, model.threshold) == ("linear", "coefficients", "balanced")
    assert model.random_state == 3 and same_model(done)


def test_rows_held_out_by_folds_are_those_of_models_that_never_saw_them(saved):
    data = read_data(saved(people()), "label")
    found = train(data, held_out="folds").held_out
    assert found.how == "5-fold nested cross-validation"
    assert np.array_equal(found.y, data.y)
    assert np.array_equal(
        np.array(["no", "yes"])[found.probabilities.argmax(axis=1)], found.predicted
    )
    shuffled = np.random.RandomState(1).permutation(data.y)
    noise = train(Data(**{**vars(data), "y": shuffled}), held_out="folds").held_out
    assert np.mean(noise.predicted != noise.y) > 0.3  # nothing to learn, and nothing learned


def test_another_file_is_the_test(saved):
    data = read_data(saved(people()), "label")
    other = people(seed=1)[["label", "town", "member", "children", "age"]].assign(more=1)
    done = train(data, test=saved(other, "other.csv"))
    assert done.held_out.how.startswith("120 rows of ")
    assert np.array_equal(done.held_out.predicted, done.model.predict(other))
    other.loc[7, "label"] = "maybe"
    with pytest.raises(TableError, match=r"other.csv, line 9, column 'label': 'maybe' is none"):
        train(data, test=saved(other, "other.csv"))


def test_a_rare_class_has_no_folds_of_its_own(saved):
    table = people()
    table.loc[0, "label"] = "once"
    found = train(read_data(saved(table), "label"), held_out="folds").held_out
    assert found.probabilities.shape == (120, 3)
    assert np.allclose(found.probabilities.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["x", "y"] * 60, ["x", "y"]),
        ([0, 1, 2] * 40, [0, 1, 2]),
        ([1.0, 2.0] * 59 + [None, None], [1, 2]),
        ([True, False] * 60, ["False", "True"]),
    ],
    ids=["text", "integers", "missing", "truth"],
)
def test_targets_of_any_type(saved, labels, classes):
    data = read_data(saved(people().assign(label=labels)), "label")
    assert np.unique(data.y).tolist() == classes
    assert same_model(train(data, held_out="none"))
    assert any("without a value in 'label'" in note for note in data.notes) == (None in labels)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"label": 1}, "one value only"),
        ({"label": None}, "no row has a value"),
        ({"label": [f"c{k}" for k in range(120)]}, "too few rows"),
        ({"seen": "2024-05-01"}, "column 'seen' holds dates, such as '2024-05-01'.*--drop 'seen'"),
        ({"age": ["12"] * 119 + ["old"]}, "line 121, column 'age': 'old' is not a number.*--text"),
    ],
)
def test_tables_that_cannot_be_used(saved, columns, said):
    with pytest.raises(TableError, match=said):
        read_data(saved(people().assign(**columns)), "label")


def test_names_that_the_table_does_not_have(saved):
    path = saved(people())
    with pytest.raises(TableError, match=r"no column 'nix' \(--target\); its columns are 'age'"):
        read_data(path, "nix")
    with pytest.raises(TableError, match=r"Which column .* Name it with --target"):
        read_data(path, None)
    with pytest.raises(TableError, match="--drop"):
        read_data(path, "label", drop=("nix",))
    with pytest.raises(TableError, match="no column to predict"):
        read_data(path, "label", drop=("age", "children", "town", "member"))


def test_a_name_that_is_nearly_that_of_a_column_is_asked_about(saved):
    path = saved(people())
    with pytest.raises(TableError, match=r"Do you mean 'label'\?$"):
        read_data(path, "labels")
    with pytest.raises(TableError, match=r"\(--drop\); .* Do you mean 'age'\?$"):
        read_data(path, "label", drop=("Age",))
    with pytest.raises(TableError, match=r"Do you mean 'children'\?$"):
        read_data(path, "ren")
    with pytest.raises(TableError, match=r"[^?]$"):
        read_data(path, "nix")


def test_columns_that_say_nothing_are_left_out_and_named(saved):
    table = people().assign(
        id=range(1, 121), code=[f"p{k}" for k in range(120)], same="x", empty=None
    )
    data = read_data(saved(table), "label")
    assert list(data.X.columns) == ["age", "children", "town", "member"]
    notes = "\n".join(data.notes)
    for name, why in {
        "id": "numbers the rows",
        "code": "identifiers",
        "same": "always 'x'",
        "empty": "no values",
    }.items():
        assert f"column {name!r} was left out" in notes and why in notes
    kept = read_data(saved(table), "label", keep=("id",), drop=("code", "same", "empty"))
    assert "id" in kept.X.columns and not kept.notes


def test_columns_left_out_for_one_reason_share_a_note(saved):
    blanks = {f"blank {j}": None for j in range(4)}
    data = read_data(
        saved(people().assign(**{f"same {j}": j for j in range(40)}, **blanks)), "label"
    )
    same, blank = data.notes
    assert same.startswith("40 columns were left out: each has one value only: 'same 0', 'same 1'")
    assert same.endswith("'same 7' and 32 more.")
    assert blank == (
        "4 columns were left out: they have no values: 'blank 0', 'blank 1', 'blank 2', 'blank 3'."
    )
    assert set(data.left_out) == {*blanks, *(f"same {j}" for j in range(40))}
    assert same_model(train(data, held_out="none"))


def test_numbers_of_rows_are_left_out_in_any_order(saved):
    rng = np.random.default_rng(0)
    index = np.sort(rng.choice(1000, 120, replace=False))
    table = people().assign(case=rng.permutation(120) + 5)
    table.insert(0, "", index)
    data = read_data(saved(table), "label")
    assert {"column 1", "case"}.isdisjoint(data.X.columns)
    assert sum("numbers the rows" in note for note in data.notes) == 2
    kept = read_data(saved(table), "label", keep=("column 1", "case"))
    assert {"column 1", "case"} <= set(kept.X.columns)


def test_dates_can_be_text(saved):
    table = people().assign(seen=["2024-05-01", "2024-05-02"] * 60)
    assert "seen" in read_data(saved(table), "label", text=("seen",)).texts
    with pytest.raises(TableError, match="--text 'seen'"):
        read_data(saved(table), "label")


def test_numbers_can_be_text(saved):
    data = read_data(saved(people()), "label", text=("children",))
    assert data.texts == ["children", "town", "member"]
    assert same_model(train(data, held_out="none"))


def test_unequal_classes_are_named(saved):
    table = people(400)
    table["label"] = np.where(np.arange(400) % 25 == 0, "rare", "common")
    (note,) = read_data(saved(table), "label").notes
    assert "rare has 16 of 400 rows (4.0%)" in note
    assert not read_data(saved(people()), "label").notes


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (np.linspace(0, 1, 120), "120 different values.*too few rows.*--task regression"),
        (np.arange(120), "120 different values in 120 rows, which are not classes.*--task"),
    ],
)
def test_numbers_that_are_no_classes_although_they_are_to_be(saved, label, said):
    path = saved(people().assign(label=label))
    with pytest.raises(TableError, match=said):
        read_data(path, "label", task="classification")


def test_rare_unseen_and_missing_levels_are_one_column(saved):
    table = people()
    table.loc[:2, "town"] = ["Ulm", "Trier", "Celle"]
    done = train(read_data(saved(table), "label"), held_out="none")
    features = done.model.features_.names
    assert "town: other" in features and "town: Ulm" not in features
    new = done.X.iloc[[0, 0, 0]].assign(town=["Ulm", "Nirgends", None])
    p = done.model.predict_proba(new)
    assert np.allclose(p, p[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("sparse", {"penalty": "rkhs"}),
        ("bayes", {"kernel": "laplacian"}),
        ("bayes", {"balanced": True}),
        ("sparse", {"max_memory": "1GB"}),
    ],
)
def test_options_that_a_method_does_not_have(method, options):
    with pytest.raises(RecipeError, match=method):
        train(example(), method, held_out="none", **options)


def test_doubtful_labels_come_first(saved):
    table = people(200).dropna()
    clear = (table["age"] > 70) & (table["town"] == "Bonn")
    row = int(np.flatnonzero(clear)[0])
    table.iloc[row, table.columns.get_loc("label")] = "no"
    found = fitting.doubtful(read_data(saved(table), "label"))
    assert row + 2 in found.index[:3]  # lines are counted from the header
    assert found["suggested"].loc[row + 2] == "yes"


def test_a_fitted_pipeline_shows_itself_in_a_notebook(saved):
    done = train(read_data(saved(people()), "label"), held_out="none")
    page = done.model._repr_html_()
    assert "TableClassifier" in page
