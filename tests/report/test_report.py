"""The report counts exactly, stays small, covers every classifier and lets nothing out."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.inspection import partial_dependence
from sklearn.metrics import (
    balanced_accuracy_score,
    log_loss,
    mean_absolute_error,
    precision_recall_fscore_support,
    r2_score,
)
from trainings import CLASSIFIERS, table, train, train_numbers

from fisherkit import TableClassifier, TableRegressor
from fisherkit.inspection import column_importance, explain
from fisherkit.report.blocks import rows_table
from fisherkit.report.data_sections import data
from fisherkit.report.left_out_scores import (
    BINS,
    LARGEST_LOGITS,
    LARGEST_PATH,
    LEVELS,
    STOPS,
    ScoreScale,
    live,
    stratified,
    thinned,
    wilson,
)
from fisherkit.report.numbers import CONFIDENCES, NumberEvidence
from fisherkit.report.page import describe, embedded, render
from fisherkit.report.reasons import effects, mattering
from fisherkit.terminal import amount, percent
from fisherkit.training.goals import HeldOut
from fisherkit.tuning import calibrate


def blocks(page, kind):
    return [b for section in page["sections"] for b in section["blocks"] if b["type"] == kind]


def titles(page):
    return [section["title"] for section in page["sections"]]


# --- the scale ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n, p", [(50, 1), (300, 30), (4000, 40)])
def test_counts_are_exact_at_every_threshold(n, p):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(n, p)) * np.exp(rng.normal(size=p))
    logits[:3, 0] = STOPS[[0, 80, 81]]  # a score on a threshold does not pass it
    scale = ScoreScale.of(logits, chosen=0)
    assert len(scale.edges) < LEVELS
    levels = scale.levels(logits)
    for thresholds in (STOPS, np.log(BINS / (1 - BINS))):
        exact = thresholds.astype(np.float32).astype(float)
        for threshold, position in zip(exact, scale.positions(thresholds), strict=True):
            np.testing.assert_array_equal(levels > position, logits > threshold)


def test_ranks_are_kept_at_the_mu_in_use_and_never_reversed_elsewhere():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5000, 30))
    levels = ScoreScale.of(logits, chosen=7).levels(logits).astype(int)
    order = np.argsort(logits[:, 7])
    assert np.mean(np.diff(levels[order, 7]) > 0) > 0.9995
    for step in (0, 29):
        assert np.all(np.diff(levels[np.argsort(logits[:, step]), step]) >= 0)


def test_infinitely_sure_scores_have_a_level():
    logits = np.array([[-700.0], [0.0], [3.0], [1e6]])
    levels = ScoreScale.of(logits, chosen=0).levels(logits)[:, 0]
    assert np.all(np.diff(levels.astype(int)) > 0)


def test_the_interval_is_that_of_wilson():
    for wrong, n in ((0, 10), (3, 40), (40, 40), (117, 20_000)):
        expected = binomtest(wrong, n).proportion_ci(method="wilson")
        np.testing.assert_allclose(wilson(wrong, n), expected, atol=1e-12)


def test_a_sample_keeps_the_class_shares_and_every_class():
    index = np.repeat([0, 1, 2], [90_000, 9_000, 3])
    rows = stratified(index, 1000, seed=0)
    counts = np.bincount(index[rows])
    assert abs(len(rows) - 1000) <= 1
    assert abs(counts[1] - 91) <= 1 and counts[2] == 1
    assert len(np.unique(rows)) == len(rows) and np.all(np.diff(rows) > 0)
    np.testing.assert_array_equal(stratified(index[:50], 100, seed=0), np.arange(50))


def test_thinned_curves_keep_their_ends():
    x, y = thinned(np.linspace(0, 1, 5000), np.linspace(1, 2, 5000), most=100)
    assert len(x) == len(y) == 100
    assert (x[0], x[-1], y[0], y[-1]) == (0, 1, 1, 2)


def test_rows_that_were_never_left_out_are_not_counted():
    logits = np.array([[1.0], [np.nan], [-2.0]])[:, :, None]
    data = live(logits, np.array([1, 0, 0]), chosen=0, log_mu=None, sample=10, seed=0)
    assert (data["rows"], data["of"]) == (2, 2)


@pytest.mark.parametrize(("steps", "classes"), [(26, 2), (60, 2), (30, 5), (30, 26), (1, 100)])
def test_the_data_of_many_rows_stay_under_three_megabytes(steps, classes):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(25_000, 1 if classes == 2 else classes, steps)).astype(np.float32)
    index = rng.integers(classes, size=25_000)
    found = live(logits, index, chosen=0, log_mu=np.zeros(steps), sample=20_000, seed=0)
    most = LARGEST_LOGITS // classes if classes > 2 else 20_000
    assert abs(found["rows"] - min(20_000, LARGEST_PATH // steps, most)) <= 1
    page = len(render(train(n=60)))
    assert page + len(json.dumps(found)) < 3_000_000


# --- the page -------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=sorted(CLASSIFIERS))
def method(request):
    return request.param


@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_classifier_has_a_page(method, n_classes):
    training = train(method, n=90, n_classes=n_classes)
    html = render(training)
    page = json.loads(re.search(r'type="application/json">(.*?)</script>', html, re.S)[1])
    assert page == json.loads(json.dumps(describe(training)))
    found = titles(page)
    for title in (
        "In short",
        "Is it better than what I have?",
        "Which columns matter?",
        "Why this row?",
        "Can I trust the probabilities?",
        "The numbers",
        "Rows worth a second look",
        "The data",
        "What was fitted and chosen",
        "The same model in Python",
        "How to cite",
        "Words used here",
    ):
        assert title in found
    two = n_classes == 2
    assert (
        "What mistakes cost" if two else "Which classes are confused, and what it costs"
    ) in found
    assert ("How smooth should the model be?" in found) == (method == "fisher")
    assert ("Retained rows" in found) == (method in ("sparse", "forward"))
    (data,) = [block["data"] for block in blocks(page, "live")]
    assert (data["logMu"] is not None) == (method == "fisher")
    assert len(html) < 1_000_000


def verdict_of(page):
    (block,) = blocks(page, "verdict")
    return block, {item["question"]: item for item in block["answers"]}


def numbers_of(page):
    return next(section for section in page["sections"] if section["id"] == "in-numbers")


def test_the_headline_figures_are_those_of_the_model():
    training = train()
    model, held = training.model.estimator_, training.held_out
    page = describe(training)
    block, _ = verdict_of(page)
    wrong = np.sum(held.predicted != held.y)
    assert block["value"] == percent(1 - wrong / len(held.y))
    low, high = wilson(len(held.y) - wrong, len(held.y))
    assert percent(low) in block["range"] and percent(high) in block["range"]
    wrong = np.sum((model.loo_decision_ > 0) != (training.y == model.classes_[1]))
    said = numbers_of(page)["blocks"][2]["text"]
    assert f"Leave-one-out error, after selection: {percent(wrong / len(training.y))}" in said
    assert all(percent(end) in said for end in wilson(wrong, len(training.y)))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_measures_are_those_of_scikit_learn(n_classes):
    training = train(n_classes=n_classes)
    held = training.held_out
    tables = [b for b in numbers_of(describe(training))["blocks"] if b["type"] == "table"]
    shown = {row[0]: row[1] for row in tables[0]["rows"]}
    assert shown["Accuracy"] == percent(np.mean(held.predicted == held.y))
    assert shown["Balanced accuracy"] == percent(balanced_accuracy_score(held.y, held.predicted))
    assert shown["Log-loss"] == f"{log_loss(held.y, held.probabilities):.3f}"
    classes = {row[0]: row[2:] for row in tables[1]["rows"]}
    scores = precision_recall_fscore_support(held.y, held.predicted, zero_division=0)
    for name, *of_class in zip(np.unique(held.y), *scores[:3], strict=True):
        assert classes[name] == [percent(value) for value in of_class]


@pytest.mark.parametrize("method", ["fisher", "committee", "sparse"])
def test_three_classes_show_the_figures_of_rows_that_the_matrix_had_not_seen(method):
    training = train(method, n_classes=3)
    page, found = describe(training), training.model.estimator_.calibration_
    said = numbers_of(page)["blocks"][2]["text"]
    assert f"after selection: {percent(round(found.error * found.rows) / found.rows)}" in said
    assert f"log-loss {found.log_loss:.3f}" in said
    facts = dict(row for block in blocks(page, "facts") for row in block["rows"])
    assert f"ridge {found.ridge:g}" in facts["Decision"]


def test_cross_validated_methods_do_not_claim_leave_one_out():
    said = numbers_of(describe(train("sparse")))["blocks"][2]["text"]
    assert "Cross-validation error, after selection" in said


@pytest.mark.parametrize(("name", "said"), [("fisher", "yes: "), ("sparse", "none: Sparse")])
def test_label_sets_are_explained(name, said):
    facts = dict(blocks(describe(train(name)), "facts")[0]["rows"])
    assert facts["Label sets"].startswith(said)


def test_a_training_without_held_out_rows_says_so():
    page = describe(train(held_out=False))
    block, answers = verdict_of(page)
    assert any("without --held-out none" in words for words in block["todo"])
    assert answers["Is it better than what I have?"]["answer"] == "Not compared"
    assert "no figure here is free of selection" in numbers_of(page)["intro"]


def test_held_out_labels_that_training_never_saw_are_named():
    training = train()
    held = training.held_out
    held.y[0] = "new"
    page = describe(training)
    assert "Of their labels, 1 never occurred in training" in numbers_of(page)["intro"]
    assert verdict_of(page)[0]["value"] == percent(np.mean(held.predicted == held.y))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_other_methods_are_shown_on_the_same_rows(n_classes):
    training = train(n_classes=n_classes, compared=True)
    page = describe(training)
    section = next(each for each in page["sections"] if each["id"] == "comparison")
    assert "answered the same held-out rows (rows set aside)" in section["intro"]
    (chart,) = [block for block in section["blocks"] if block["type"] == "intervals"]
    assert chart["labels"][0] == "This model"
    assert chart["labels"][1:3] == ["Logistic regression", "Gradient boosting"]
    logistic = training.baselines[1]
    assert chart["values"][1] == np.mean(logistic.predicted == training.held_out.y)
    answer = verdict_of(page)[1]["Is it better than what I have?"]
    assert "Logistic regression is right for" in answer["text"]


def test_what_other_methods_have_not_done_is_said():
    training = train(compared=True)
    first, second, third = training.baselines
    some = replace(second, judged=np.arange(40) < 20, note="judged on 1 of the 2 folds")
    none = replace(third, judged=np.zeros(40, dtype=bool), note="left out")
    page = describe(replace(training, baselines=(first, some, none)))
    said = [block["text"] for block in blocks(page, "text")]
    assert "Logistic regression: judged on 1 of the 2 folds." in said
    assert "Gradient boosting: left out." in said
    (chart,) = blocks(page, "intervals")
    assert "Gradient boosting" not in chart["labels"]


def test_a_model_that_says_nothing_is_called_no_better_than_guessing():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"])
    training = train(X=X, y=np.array(["no", "yes"])[rng.integers(2, size=120)])
    held = training.held_out
    guessed = np.full(40, np.unique(held.y)[0])
    guess = replace(held, predicted=guessed, probabilities=np.full((40, 2), 0.5))
    block, answers = verdict_of(describe(replace(training, held_out=guess)))
    assert answers["How good is it?"]["answer"] == "No better than guessing"
    assert block["todo"][0].startswith("Do not use the answers yet")


def test_probabilities_that_are_too_sure_come_with_what_to_do():
    training = train(n=400, held_out=False)
    rows, p = 400, training.model.predict_proba(training.X)
    rng = np.random.default_rng(0)
    y = training.model.classes_[(rng.random(rows) < p[:, 1]).astype(int)]
    odds = 3 * np.log(p[:, 1] / p[:, 0])
    sure = np.column_stack([1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))])
    held = HeldOut("rows set aside", y, training.model.predict(training.X), sure)
    page = describe(replace(training, held_out=held))
    block, answers = verdict_of(page)
    assert answers["Can I trust the probabilities?"]["answer"] == "Not as they are: too sure"
    assert any("Correct the probabilities" in words for words in block["todo"])
    assert any(b["text"].startswith("What to do: correct them") for b in blocks(page, "text"))


def test_columns_are_ranked_by_exact_leave_one_out():
    training = train()
    found = column_importance(training.model, training.X, training.y, n_repeats=3)
    page = describe(training)
    bars = blocks(page, "bars")[0]
    assert bars["labels"] == found.to_frame().index.tolist()
    np.testing.assert_allclose(bars["values"], found.to_frame().rise, rtol=1e-3)
    section = next(each for each in page["sections"] if each["id"] == "columns")
    assert "exact leave-one-out" in section["intro"]


def test_effects_are_the_partial_dependence_of_scikit_learn():
    training = train(n=120)
    found = effects(training, ["x0", "colour"], training.model.predict_proba, seed=0)
    number, word = found
    twin = partial_dependence(
        training.model, training.X, ["x0"], custom_values={"x0": np.array(number.values)}
    )
    np.testing.assert_allclose(number.means[:, 1], twin["average"][0], rtol=1e-9)
    assert word.values == ["blue", "red"] and not word.numeric
    filled = training.model.predict_proba(training.X.assign(colour="red"))
    np.testing.assert_allclose(word.means[1], filled.mean(axis=0))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_examples_are_rows_that_the_model_answers_so(n_classes):
    training = train(n=150, n_classes=n_classes)
    page = describe(training)
    (block,) = blocks(page, "examples")
    assert 2 <= len(block["items"]) <= 6
    predicted = training.model.predict(training.X)
    for item in block["items"]:
        row = int(item["title"].rsplit(" ", 1)[1])
        assert f"Answered “{predicted[row]}”" in item["text"]
        right = predicted[row] == training.y[row]
        assert ("That is right" in item["text"]) == right == ("wrong" not in item["title"]) or (
            "close call" in item["title"]
        )
        names = [reason["column"] for reason in item["reasons"]]
        assert names and set(names) <= set(training.X.columns)
        values = explain(training.model, training.X.iloc[[row]]).contributions[0]
        for reason in item["reasons"]:
            own = values[list(training.X.columns).index(reason["column"])]
            assert np.sign(reason["share"]) == np.sign(own)


def test_weights_are_said_not_to_count():
    training = train()
    page = describe(replace(training, weights=np.ones(len(training.y))))
    assert any(
        "counts each row once" in block["text"] for block in page["sections"][0]["blocks"][1:]
    )


def test_very_many_columns_are_not_shuffled_one_by_one():
    training = train(n=60)
    wide = pd.concat([training.X] * 700, axis=1).set_axis(range(2100), axis=1)
    assert mattering(replace(training, X=wide), seed=0) is None


# --- numbers --------------------------------------------------------------------------------------


def test_predicted_numbers_have_a_page():
    training = train_numbers(compared=True)
    html = render(training)
    page = json.loads(re.search(r'type="application/json">(.*?)</script>', html, re.S)[1])
    found = titles(page)
    for title in (
        "In short",
        "Is it better than what I have?",
        "Which columns matter?",
        "Why this row?",
        "Can I trust the intervals?",
        "How far off is it?",
        "Rows worth a second look",
    ):
        assert title in found
    held = training.held_out
    block, answers = verdict_of(page)
    assert block["value"].endswith(amount(mean_absolute_error(held.y, held.predicted)))
    assert f"R² {r2_score(held.y, held.predicted):.3f}" in block["range"]
    assert set(answers) == {
        "How good is it?",
        "Is it better than what I have?",
        "Can I trust the intervals?",
        "Which columns matter?",
    }
    (chart,) = blocks(page, "intervals")
    assert chart["labels"] == ["This model", "Linear regression", "Gradient boosting", "The mean"]
    facts = dict(blocks(page, "facts")[0]["rows"])
    assert facts["Intervals"].startswith("yes") and "Probabilities" not in facts
    assert "probabilities" not in str(page["sections"][0])


def test_predicted_numbers_without_held_out_rows():
    training = train_numbers(held_out=False)
    block, answers = verdict_of(describe(training))
    left_out = training.model.estimator_.loo_prediction_
    assert block["value"].endswith(amount(mean_absolute_error(training.y, left_out)))
    assert answers["Is it better than what I have?"]["answer"] == "Not compared"


def test_intervals_are_counted_on_rows_that_their_models_have_not_seen():
    found = NumberEvidence.of(train_numbers(300), seed=0).coverage
    assert found.rows == 300 and found.fitted == 240
    for held, level in zip(found.held, CONFIDENCES, strict=True):
        assert abs(held - level) < 4 * np.sqrt(level * (1 - level) / 300)
    assert found.width == sorted(found.width)


def test_numbers_fitted_in_blocks_have_a_page():
    training = train_numbers(3000)
    model = TableRegressor(
        [("rbf", "standard")], centres=20, max_memory="400KB", parameters={"gamma": 0.3}
    ).fit(training.X, training.y)
    assert model.estimator_.selection_.method == "streamed"
    page = describe(replace(training, model=model))
    assert "Can I trust the intervals?" not in titles(page)
    assert verdict_of(page)[1]["Can I trust the intervals?"]["answer"] == "There are none"


def test_a_table_in_memory_that_was_fitted_in_blocks_has_a_page():
    training = train(n=2000)
    model = TableClassifier(
        "fisher", centres=20, max_memory="300KB", parameters={"gamma": 0.3}
    ).fit(training.X, training.y)
    assert model.estimator_.selection_.method == "streamed"
    (data,) = [block["data"] for block in blocks(describe(replace(training, model=model)), "live")]
    assert data["rows"] == 2000 and len(data["logMu"]) > 10


def test_a_sample_is_stated():
    page = describe(train(), sample=50)
    assert blocks(page, "live")[0]["data"]["rows"] == 50
    assert any("sample of 50 of 120 rows" in block["text"] for block in blocks(page, "text"))


def test_doubted_rows_are_those_of_the_audit():
    from fisherkit import audit

    training = train()
    doubted = audit(training.model, training.X, training.y)
    doubted = doubted[doubted.label != doubted.suggested]
    section = next(s for s in describe(training)["sections"] if s["id"] == "doubts")
    rows = section["blocks"][0]["rows"]
    assert [row[0] for row in rows] == [str(i) for i in doubted.index[:15]]
    assert [row[4] for row in rows] == [
        "yes" if value > 0 else "no" for value in doubted.influence[:15]
    ]


def test_columns_are_described_whatever_they_hold():
    X, y = table(60, 2)
    X["empty"] = np.nan
    X["x0"] = X["x0"].where(np.arange(60) > 5)
    X["flag"] = np.arange(60) % 2 == 0
    training = train(X=X.drop(columns=["empty", "x0"]), y=y)
    section = data(replace(training, X=X), {"type": "text", "text": ""})
    columns = next(b for b in section["blocks"] if b.get("title") == "Columns")
    kinds = {row[0]: row[1:] for row in columns["rows"]}
    assert kinds["x0"][:2] == ["number", percent(0.1)]
    assert kinds["colour"] == ["category", "none", "blue (40), red (20)"]
    assert kinds["flag"][0] == "category"
    assert kinds["empty"] == ["number", percent(1.0), ""]


def test_json_holds_no_markup_and_no_numbers_that_json_lacks():
    words = embedded({"a": "</script><!-- &", "b": [float("nan"), float("inf"), 1.5]})
    assert not set("<>&") & set(words)
    assert json.loads(words) == {"a": "</script><!-- &", "b": [None, None, 1.5]}


def test_the_policy_names_every_script_and_forbids_the_network():
    html = render(train(n=60))
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', html)[1]
    assert policy.startswith("default-src 'none'")
    assert policy.count("'sha256-") == html.count("<script>") == 6
    assert "unsafe-eval" not in policy


def test_scripts_of_others_carry_their_licences():
    html = render(train(n=60))
    assert html.count("Permission to use, copy, modify, and/or distribute this software") == 2
    assert "Mike Bostock" in html and "Observable, Inc." in html


def test_placeholders_in_the_data_are_left_alone():
    html = render(train(n=60, target="{{style}} {{data}}"))
    assert "<title>Predicting {{style}} {{data}} from table.csv</title>" in html


def test_rows_are_named_as_the_file_names_them():
    X, y = table(120, 2)
    for index, head, said in [
        (pd.RangeIndex(120), "row", "from 0"),
        (pd.RangeIndex(2, 122, name="line"), "line", "Lines are those of the file"),
        (pd.RangeIndex(1, 121, name="row"), "row", "from 1"),
    ]:
        shown = rows_table(train(X=X.set_axis(index), y=y), np.array([0]), [], [[]], 0)
        assert shown["head"][0] == head and said in shown["note"]
        assert shown["rows"][0][0] == str(index[0])


@pytest.mark.parametrize("above", [True, False])
def test_the_error_after_selection_is_not_called_too_low_where_it_is_not(above):
    done = train()
    rows = done.held_out
    flipped = np.where(rows.y == "no", "yes", "no")
    held_out = replace(rows, predicted=rows.y if above else flipped)
    page = str(numbers_of(describe(replace(done, held_out=held_out))))
    assert "a little too low on average" in page and "optimistic" not in page
    assert ("above the held-out error, which is within what chance does" in page) is above


def test_a_slope_that_a_bound_decided_is_said(caplog):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    training = train(X=X, y=rng.integers(2, size=60))
    slope = training.model.estimator_.calibration_
    assert slope.status is calibrate.Status.FLAT and slope.status.value in caplog.text
    assert (
        dict(blocks(describe(training), "facts")[0]["rows"])["Probabilities"] == slope.status.value
    )
    assert "Probabilities" not in dict(blocks(describe(train()), "facts")[0]["rows"])


def test_members_whose_slope_a_bound_decided_are_said():
    training = train("committee")
    members = training.model.estimator_._record.members
    assert not members["bounded"][members["weight"] > 0].any()
    members["bounded"][np.argmax(members["weight"])] = True
    facts = dict(blocks(describe(training), "facts")[0]["rows"])
    assert facts["Slope at a bound"].startswith("1 member, ")
