"""The report counts exactly, stays small, covers every classifier and lets nothing out."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from trainings import CLASSIFIERS, table, train

from fisherkit import TableClassifier
from fisherkit.report.blocks import rows_table
from fisherkit.report.left_out_scores import (
    BINS,
    LARGEST_PATH,
    LEVELS,
    STOPS,
    ScoreScale,
    live,
    stratified,
    thinned,
    wilson,
)
from fisherkit.report.page import describe, embedded, render
from fisherkit.terminal import percent
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


@pytest.mark.parametrize("steps", [26, 60])
def test_the_data_of_many_rows_stay_under_three_megabytes(steps):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(25_000, 1, steps))
    index = (rng.random(25_000) < 0.2).astype(int)
    data = live(logits, index, chosen=3, log_mu=np.zeros(steps), sample=20_000, seed=0)
    assert data["rows"] == min(20_000, LARGEST_PATH // steps)
    page = len(render(train(n=60)))
    assert page + len(json.dumps(data)) < 3_000_000


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
        "At a glance",
        "What was fitted and chosen",
        "Rows worth a second look",
        "The data",
        "The same model in Python",
        "How to cite",
    ):
        assert title in found
    slides = n_classes == 2 or method == "fisher"
    assert ("Try it" if slides else "Mistakes by class") in found
    assert ("Retained rows" in found) == (method in ("sparse", "forward"))
    assert ("Which columns matter" in found) == (method in ("bayes", "committee"))
    assert ("Each class against the others" in found) == (n_classes > 2)
    (data,) = [block["data"] for block in blocks(page, "live")]
    assert (data["logMu"] is not None) == (method == "fisher")
    assert len(html) < 1_000_000


def test_the_headline_figures_are_those_of_the_model():
    training = train()
    model = training.model.estimator_
    wrong = np.sum((model.loo_decision_ > 0) != (training.y == model.classes_[1]))
    cards = blocks(describe(training), "cards")[0]["items"]
    labelled = {card["label"]: card for card in cards}
    left_out = labelled["Leave-one-out error, after selection"]
    assert left_out["value"] == percent(wrong / len(training.y))
    low, high = wilson(wrong, len(training.y))
    assert percent(low) in left_out["range"] and percent(high) in left_out["range"]
    held = training.held_out
    assert labelled["Held-out error"]["value"] == percent(np.mean(held.predicted != held.y))


@pytest.mark.parametrize("method", ["fisher", "committee", "sparse"])
def test_three_classes_show_the_figures_of_rows_that_the_matrix_had_not_seen(method):
    training = train(method, n_classes=3)
    page, found = describe(training), training.model.estimator_.calibration_
    (cards,) = blocks(page, "cards")
    (card,) = [c for c in cards["items"] if "after selection" in c["label"]]
    assert card["value"] == percent(round(found.error * found.rows) / found.rows)
    assert f"Log-loss {found.log_loss:.3f}" in card["note"]
    facts = dict(row for block in blocks(page, "facts") for row in block["rows"])
    assert f"ridge {found.ridge:g}" in facts["Decision"]


def test_cross_validated_methods_do_not_claim_leave_one_out():
    cards = blocks(describe(train("sparse")), "cards")[0]["items"]
    assert any(card["label"] == "Cross-validation error, after selection" for card in cards)


@pytest.mark.parametrize(("name", "said"), [("fisher", "yes: "), ("sparse", "none: Sparse")])
def test_label_sets_are_explained(name, said):
    facts = dict(blocks(describe(train(name)), "facts")[0]["rows"])
    assert facts["Label sets"].startswith(said)


def test_a_training_without_held_out_rows_says_so():
    page = describe(train(held_out=False))
    assert any("No rows were held out" in block["text"] for block in blocks(page, "text"))
    assert not any(c["label"] == "Held-out error" for c in blocks(page, "cards")[0]["items"])


def test_held_out_labels_that_training_never_saw_are_named():
    training = train()
    held = training.held_out
    held.y[0] = "new"
    card = blocks(describe(training), "cards")[0]["items"][0]
    assert "never occurred in training" in card["note"]


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
    section = next(
        s for s in describe(training)["sections"] if s["title"] == "Rows worth a second look"
    )
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
    shown = pd.DataFrame(X)
    page = describe(type(training)(**{**vars(training), "X": shown}))
    columns = next(b for b in blocks(page, "table") if b.get("title") == "Columns")
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
    page = str(blocks(describe(replace(done, held_out=held_out)), "cards"))
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
