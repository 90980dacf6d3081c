"""Ways to a fit, their costs, and the choice among them by time and memory."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from fisherkit import (
    FisherCommitteeClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    TableClassifier,
    TableRegressor,
)
from fisherkit.core import Rates
from fisherkit.models import files
from fisherkit.rows import planning, routes
from fisherkit.rows.routes import TWO_CORES, FitPlan, Job, Outlook
from fisherkit.tuning.trends import End, Trend

FALLING, FLAT = Trend(4000, 0.3, 0.05), Trend(4000, 0.04, 0.01)
PLENTY = 1e12  # bytes, or seconds


def job(n=60_000, d=20, k=1, **words):
    return Job(n, d, k, TWO_CORES, 2, **words)


def chosen(seconds, trend, memory=PLENTY, *, n=60_000, spent=0.0, **words):
    outlook = Outlook(job(n, **words), seconds, memory)
    return outlook.choose(trend, spent)


# --- costs ----------------------------------------------------------------------------------------


def test_costs_grow_with_what_a_fit_has():
    for more in ({"n": 70_000}, {"d": 40}, {"k": 10}):
        few, many = job(), job(**more)
        assert many.on_centres(1000) > few.on_centres(1000)
        assert many.all_rows() > few.all_rows() or "k" in more
    assert job().on_centres(2000) > 2 * job().on_centres(1000)
    assert job(5000).all_rows() < job(6000).all_rows() < job(30_000).all_rows()
    assert job().search(4000) > job().search(2000) > job().search(500) > 0


def test_a_machine_of_twice_the_rates_takes_half_the_time():
    twice = Rates(*(2 * rate for rate in vars(TWO_CORES).values()))
    one, two = job(30_000), replace(job(30_000), rates=twice)
    assert two.on_centres(1000) == pytest.approx(0.5 * one.on_centres(1000))
    assert two.search(4000) == pytest.approx(0.5 * one.search(4000))
    assert two.all_rows() == pytest.approx(0.5 * one.all_rows())


def test_ways_are_those_that_memory_holds_and_one_at_least():
    every = job().routes(PLENTY)
    assert every[-1].centres is None and every[0].centres == 500
    seconds = [route.seconds for route in every[:-1]]
    assert seconds == sorted(seconds)
    some = job().routes(2e9)
    assert 500 < some[-1].centres < 10_000 and len(some) < len(every)
    assert [route.centres for route in replace(job(), whole=False).routes(PLENTY)][-1] == 20_000
    (least,) = job().routes(1e6)
    assert 1 <= least.centres < 500


# --- the choice -----------------------------------------------------------------------------------


def test_time_for_all_rows_takes_them_where_losses_fall():
    route, plan = chosen(PLENTY, FALLING)
    assert route.centres is None and plan.parameters == {"basis": "full"}
    assert plan.sentence.startswith("All 60,000 rows are centres: about")
    assert not plan.more


def test_flat_losses_take_enough_centres_and_say_what_more_cost():
    route, plan = chosen(PLENTY, FLAT)
    assert route.centres == routes.ENOUGH
    assert plan.parameters == {"n_components": 2000, "basis": "random"}
    assert "nearly flat (4 % lower with twice the rows, at 4,000)" in plan.sentence
    assert "basis='full' takes about" in plan.sentence


def test_where_no_way_is_quick_enough_the_quickest_is_taken():
    route, _ = chosen(1e-9, None, n=1100)
    assert route.seconds == min(way.seconds for way in job(1100).routes(PLENTY))


def test_without_levels_all_rows_cost_decompositions():
    plain, slow = job(5000), replace(job(5000), levels=False)
    assert slow.all_rows() > 10 * plain.all_rows() and slow.search(4000) == 0
    given = replace(slow, searched=False)
    assert given.all_rows() == pytest.approx(TWO_CORES.exact(5000))
    assert not Outlook(slow, 10.0, PLENTY).decided and Outlook(given, 60.0, PLENTY).decided


@pytest.mark.parametrize("trend", [FALLING, FLAT, None])
def test_little_time_takes_as_many_centres_as_it_has(trend):
    before = 0
    for seconds in (1, 3, 10, 30):
        route, plan = chosen(seconds, trend)
        if before and trend is not FLAT:
            assert route.centres > before
        before = route.centres
        if before > 500:
            assert route.seconds <= seconds and plan.seconds == pytest.approx(route.seconds)
        assert plan.more_seconds > plan.seconds


def test_what_is_spent_is_missing():
    assert chosen(30, FALLING, spent=20)[0].centres < chosen(30, FALLING)[0].centres
    assert chosen(30, FALLING, spent=20)[1].seconds > 20
    route, plan = chosen(30, FALLING, spent=40)
    assert route.centres == 500
    assert "more than the 30 s given, and no fit is quicker" in plan.sentence


def test_memory_bounds_the_choice():
    route, plan = chosen(PLENTY, FALLING, memory=2e9)
    assert route.bytes <= 2e9 and route.centres is not None
    assert not plan.more  # nothing more accurate fits


def test_the_most_that_centres_can_cost_is_what_losses_still_fall():
    assert "by 51 % at most" in FALLING.words(4)  # 1 - .7^2
    assert "by 0 % at most" in Trend(4000, -0.02, 0.01).words(8)


def test_few_levels_where_time_is_short():
    outlook = Outlook(job(), 60.0, PLENTY)
    assert outlook.most_rows >= 4000
    assert replace(outlook, seconds=1.0).most_rows < 4000
    assert replace(outlook, seconds=1e-6).most_rows == 500
    assert replace(outlook, seconds=240.0).most_rank == pytest.approx(2 * outlook.most_rank, abs=2)


def test_gains_are_those_of_the_same_rows():
    rng = np.random.default_rng(0)
    few = rng.exponential(size=100)
    many = np.concatenate([0.8 * few, rng.exponential(size=100)])
    weight = rng.uniform(0.5, 2, size=100)
    trend = Trend.between(End(100, np.zeros(2), few), End(200, np.zeros(2), many), weight)
    assert trend.gain == pytest.approx(0.2) and trend.falling and trend.rows == 200
    twice = Trend.between(End(100, np.zeros(2), few), End(400, np.zeros(2), many), weight)
    assert twice.gain == pytest.approx(0.1)
    gaps = weight * 0.2 * (few - np.average(few, weights=weight))
    assert trend.error == pytest.approx(np.sum(gaps**2) ** 0.5 / (weight @ few))


# --- fits -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=1500)
    return X, (y > 0).astype(int), np.digitize(y, [-0.5, 0.5]), y


@pytest.fixture
def quick(monkeypatch):
    """A machine on which time is short for 1,500 rows, but not for some centres."""
    slow = Rates(*(rate / 2000 for rate in vars(TWO_CORES).values()))
    monkeypatch.setattr(planning, "measured", lambda: slow)
    monkeypatch.setattr(routes, "_CENTRES", (50, 100, 200))


FITS = {
    "two classes": (KernelFisherClassifier, 1),
    "three classes": (KernelFisherClassifier, 2),
    "error rate": (lambda **words: KernelFisherClassifier(criterion="error", **words), 1),
    "committee": (lambda **words: FisherCommitteeClassifier(n_widths=2, **words), 1),
    "regression": (KernelRidgeCV, 3),
}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("memory", [None, "3MB"], ids=["held", "blocks"])
@pytest.mark.parametrize("name", FITS)
def test_the_plan_as_parameters_fits_the_same_model(name, memory, data):
    make, target = FITS[name]
    X, y = data[0], data[target]
    words = {"random_state": 0, "max_memory": memory}
    model = make(max_time=60, **words).fit(X, y)
    plan = model.plan_
    assert isinstance(plan, FitPlan) and plan.parameters["n_components"] in (50, 100, 200)
    assert "1,500 rows are centres" in plan.sentence and plan.seconds > 0 and plan.bytes > 0
    twin = make(**words, **plan.parameters).fit(X, y)
    np.testing.assert_allclose(twin.predict(X[:50]), model.predict(X[:50]), rtol=1e-6)
    if name != "regression":
        np.testing.assert_allclose(
            twin.predict_proba(X[:50]), model.predict_proba(X[:50]), rtol=1e-6, atol=1e-9
        )


@pytest.mark.usefixtures("quick")
def test_all_rows_where_there_is_time_are_the_fit_without_a_bound(data):
    X, y = data[:2]
    model = KernelFisherClassifier(max_time=1e6).fit(X, y)
    plain = KernelFisherClassifier().fit(X, y)
    assert model.plan_.parameters in ({"basis": "full"}, {})
    assert np.array_equal(model.decision_function(X), plain.decision_function(X))
    assert plain.plan_.parameters == {"basis": "full"} and np.isnan(plain.plan_.seconds)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("words", [{"n_components": 30}, {"basis": np.arange(40)}])
def test_centres_that_are_asked_for_come_first(words, data):
    model = KernelFisherClassifier(max_time=0.001, gamma=0.3, **words).fit(*data[:2])
    assert len(model.basis_indices_) in (30, 40)
    assert model.plan_.sentence.startswith(f"{len(model.basis_indices_)} rows are centres")


@pytest.mark.usefixtures("quick")
def test_folds_need_every_row_whatever_the_time(data):
    model = KernelFisherClassifier(max_time=0.001, cv=3, gamma=0.3).fit(
        data[0][:300], data[1][:300]
    )
    assert len(model.basis_indices_) == 300 or model.selection_.method == "low-rank"


def test_few_rows_are_planned_without_a_measurement(data, monkeypatch):
    monkeypatch.setattr(planning, "measured", lambda: pytest.fail("measured"))
    model = KernelFisherClassifier(max_time=5).fit(data[0][:200], data[1][:200])
    assert "Every row is a centre" in model.plan_.sentence
    TableClassifier("fisher").fit(data[0], data[1])  # a nominal machine


@pytest.mark.parametrize("value", [0, -3, float("nan"), float("inf"), "soon", True, "60"])
@pytest.mark.parametrize("estimator", [KernelFisherClassifier, KernelRidgeCV, TableClassifier])
def test_times_that_are_none_are_refused(value, estimator, data):
    with pytest.raises(ValueError, match=r"max_time=.* is not valid; use None, a positive number"):
        estimator(max_time=value).fit(data[0][:50], data[1][:50])


def test_other_methods_have_no_plan_by_time(data):
    with pytest.raises(ValueError, match=r"method sparse has no plan by time; .*committee"):
        TableClassifier("sparse", max_time=60).fit(data[0][:50], data[1][:50])
    model = TableClassifier("sparse", parameters={"gamma": 0.3}).fit(data[0][:50], data[1][:50])
    with pytest.raises(AttributeError, match="SparseFisherClassifier has no plan"):
        _ = model.plan_


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("method", ["fisher", "committee"])
def test_tables_have_the_plan_in_their_own_words(method, data):
    X, y = data[:2]
    parameters = {"n_widths": 2} if method == "committee" else None
    model = TableClassifier(method, max_time=60, parameters=parameters).fit(X, y)
    m = model.plan_.parameters["centres"]
    assert m in (50, 100, 200) and model.explicit_.centres == m
    assert ("gamma" in (model.explicit_.parameters or {})) == (method == "fisher")
    twin = model.explicit_.fit(X, y)
    assert np.array_equal(twin.predict_proba(X[:50]), model.predict_proba(X[:50]))


@pytest.mark.usefixtures("quick")
def test_groups_of_a_committee_stay_in_memory(data, monkeypatch):
    monkeypatch.setattr(planning, "SUMS", 1)
    X, y = data[:2]
    model = FisherCommitteeClassifier(("rbf",), n_widths=2, max_time=60, random_state=0)
    model.fit(X, y, groups=np.arange(1500) // 3)
    assert model.plan_.parameters["n_components"] in (50, 100, 200)
    given = FisherCommitteeClassifier(("rbf",), n_widths=2, random_state=0)
    given.set_params(**model.plan_.parameters).fit(X, y, groups=np.arange(1500) // 3)
    np.testing.assert_allclose(given.predict_proba(X), model.predict_proba(X), atol=1e-9)


@pytest.mark.usefixtures("quick")
def test_a_regression_shares_its_time_among_kernels(data):
    model = TableRegressor(max_time=300).fit(data[0], data[3])
    assert model.plan_.parameters["centres"] in (50, 100, 200)


@pytest.mark.usefixtures("quick")
def test_the_plan_is_logged_and_kept_in_a_file(data, tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="fisherkit"):
        model = TableClassifier("fisher", max_time=60).fit(*data[:2])
    assert any("of 1,500 rows are centres" in message for message in caplog.messages)
    files.save(model, tmp_path / "model")
    assert files.load(tmp_path / "model").model.plan_ == model.plan_


def test_a_long_fit_on_centres_says_so(monkeypatch, caplog):
    slow = Rates(*(rate / 1e7 for rate in vars(TWO_CORES).values()))
    monkeypatch.setattr(planning, "measured", lambda: slow)
    monkeypatch.setattr(planning, "_NOMINAL", 0.0)
    monkeypatch.setattr(planning, "SUMS", 1)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    KernelFisherClassifier(n_components=20, gamma=0.3).fit(X, X[:, 0] > 0)
    assert "max_time=60 bounds it" in caplog.text and "600 rows on 20 centres" in caplog.text
