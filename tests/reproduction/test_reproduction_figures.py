"""Figures of the papers: their studies give the numbers they claim, and every figure is drawn."""

import math
import shutil
from html import escape
from pathlib import Path

import numpy as np
import oracles
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from fisherkit.estimators.fisher import KernelFisherClassifier
from fisherkit.reproduction import catalogue, loo_studies, tables, toy_studies
from fisherkit.reproduction.experiments import PAPERS, TABLES
from fisherkit.reproduction.figures import FIGURES
from fisherkit.reproduction.findings import about_figures
from fisherkit.reproduction.journal import Journal
from fisherkit.reproduction.studies import STUDIES
from fisherkit.reproduction.table_findings import about_tables
from fisherkit.reproduction.tasks import TRIAL, Task
from fisherkit.reproduction.trials import as_text, by_setting, numbers, options

NAMES = {
    *("orkfd-figure1", "orkfd-figure2", "orkfd-figure3", "orkfd-figure4"),
    *("esann-figure1", "esann-figure2", "kfdaq-figure1", "kfdaq-figure2", "bfd-table1"),
    *(f"bfd-figure{number}" for number in range(5, 12)),
}
ROOT = Path(__file__).resolve().parents[2]
NEED_DATA = {"relevances", "projections"}


@pytest.fixture
def torus():
    return loo_studies.draw(24, 3)


def test_all_figures_are_there():
    assert {figure.name for figure in FIGURES} == NAMES
    assert len(FIGURES) == len(NAMES)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_figure_has_known_studies_and_a_caption_with_its_rows(figure):
    for task in (*figure.tasks(), *figure.tasks(quick=True)):
        assert task.method in STUDIES
        assert options(task.data)
    assert set(figure.tasks(quick=True)) <= set(figure.tasks())
    assert "rows" in figure.caption or "n = " in figure.caption or "points" in figure.caption
    assert any(word in figure.caption for word in ("seed", "split"))


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_figure_is_drawn_from_a_quick_run(figure, request, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the plot extra")
    tasks = list(figure.tasks(quick=True))
    if any(task.method in NEED_DATA for task in tasks):
        request.getfixturevalue("benchmark_data")
    picture = figure.draw({task: STUDIES[task.method].run(task.data, task.split) for task in tasks})
    assert picture.get_figwidth() * picture.dpi == 700
    texts = [label for ax in picture.axes for label in (ax.xaxis.label, ax.yaxis.label)]
    assert all(text.get_fontsize() >= 9 for text in texts)
    picture.savefig(tmp_path / "figure.png")


def test_drawing_leaves_pyplot_alone():
    plt = pytest.importorskip("matplotlib.pyplot", reason="figures need the plot extra")
    before = plt.get_fignums()
    FIGURES[0].draw({})
    assert plt.get_fignums() == before


@pytest.mark.parametrize(
    "study, setting",
    [
        ("leave-one-out", "n=16 mu=1"),
        ("mu-search", "route=canonical n=16"),
        ("toy-rbf", "toy=overlap method=KFD"),
        ("toy-ard", "toy=relevance"),
        ("projected-error", "beta=1 d=2"),
    ],
)
def test_a_trial_is_the_same_twice_but_for_its_seconds(study, setting):
    first, second = (STUDIES[study].run(setting, 1) for _ in range(2))
    assert {k: v for k, v in first.items() if not k.endswith("_seconds")} == {
        k: v for k, v in second.items() if not k.endswith("_seconds")
    }
    assert first != STUDIES[study].run(setting, 2)


@pytest.mark.parametrize("route", ["closed", "canonical", "ours"])
def test_closed_forms_equal_refits_that_keep_the_kernel(torus, route):
    X, y = torus
    mus = np.array([0.1, 1.0, 30.0])
    _, residuals = loo_studies.ROUTES[route](X, y, mus)
    K = rbf_kernel(X, gamma=loo_studies.GAMMA)
    for j, mu in enumerate(mus):
        left_out = oracles.leave_one_out(K, y[:, None], mu, penalty="coefficients")[:, 0]
        refits = loo_studies.refits(X, y, mu, keep_centre=True)
        np.testing.assert_allclose(y - refits, left_out, atol=1e-9)
        np.testing.assert_allclose(residuals[:, j], refits, atol=1e-9)


def test_direct_refits_know_nothing_of_the_row(torus):
    X, y = torus
    _, residuals = loo_studies.direct(X, y, np.array([0.5]))
    for i in (0, 7):
        rows = np.arange(len(y)) != i
        model = KernelFisherClassifier(
            gamma=loo_studies.GAMMA, regularization=0.5, penalty="coefficients", threshold="prior"
        ).fit(X[rows], y[rows])
        predicted = model.decision_function(X[i : i + 1])[0]
        assert y[i] - residuals[i, 0] == pytest.approx(predicted, abs=1e-9)


def test_every_closed_form_chooses_the_same_mu():
    chosen = {
        loo_studies.mu_search(f"route={route} n=48", 0)["log2_mu"]
        for route in ("closed", "canonical", "ours")
    }
    assert len(chosen) == 1


def test_the_approximation_error_is_that_of_the_dropped_kernel():
    result = loo_studies.approximation("n=30 mu=1", 0)
    assert result["kept_closed"] == result["kept_canonical"] == loo_studies.ROUNDING
    assert 1e-4 < result["removed_closed"] == result["removed_canonical"] < 0.5


def test_majorise_minimise_descends_to_one_of_two_minima():
    x, y = toy_studies.regression_rows(0)
    for start in toy_studies.STARTS.values():
        heights = toy_studies.objective(toy_studies.iterates(start, x, y), x, y)
        assert np.all(np.diff(heights) <= 1e-12)
    left, right = (toy_studies.penalised_regression(f"start={s}", 0) for s in ("left", "right"))
    assert left["end"] == 0 < right["end"] < right["least_squares"]
    around = right["end"] + np.array([-1e-3, 0.0, 1e-3])
    assert np.argmin(toy_studies.objective(around, x, y)) == 1


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_the_generalisation_error_is_that_of_the_paper_at_distance_two(beta):
    expected = 0.5 - 0.5 * math.erf(math.sqrt(beta / 2))
    assert toy_studies.generalisation_error(beta, 2.0) == pytest.approx(expected)
    result = toy_studies.projected_error(f"beta={beta} d=2", 0)
    sd = 100 * math.sqrt(expected * (1 - expected) / 200_000)
    assert abs(result["simulated"] - 100 * expected) < 5 * sd


def test_the_parameters_of_table_1_give_back_the_kernel():
    ln = toy_studies.two_widths("toy=overlap", 0)
    X, _ = toy_studies.TOYS["overlap"](random_state=0)
    model = toy_studies.fit_ard("overlap", 0)
    noise = 1 / model.noise_precision_ + math.exp(ln["ln_theta5"])
    kernel = model._expansion.kernel
    inner = kernel.block(X, (X - kernel.shift) / kernel.scale)
    J = np.eye(len(X)) - 1 / len(X)
    centred = J @ toy_studies.kernel_33(ln, X, X) @ J / noise
    np.testing.assert_allclose(centred, J @ inner @ J, atol=2e-4 * np.abs(inner).max())


def test_printed_parameters_are_products_that_data_can_tell():
    printed = toy_studies.printed_toys()
    assert set(printed) == set(toy_studies.TOYS)
    assert printed["spiral"]["ln_theta1"] == 8.5015
    assert printed["overlap"]["ln_theta2_theta7"] == pytest.approx(-7.9801 - 0.1026)


def test_the_poor_start_of_the_paper_is_poor():
    poor, good = (toy_studies.from_start(f"theta2={t}", 0) for t in (1, 10))
    assert good["log_evidence"] - poor["log_evidence"] > 50
    assert poor["test_error"] > 40 > 1 > good["test_error"]


def test_results_are_found_by_setting_in_the_order_of_trials():
    results = {Task("s", "n=8", TRIAL, trial): {"x": trial} for trial in (1, 0)}
    results[Task("other", "n=8", TRIAL, 0)] = {"x": 5}
    assert by_setting(results, "s") == {"n=8": [{"x": 0}, {"x": 1}]}
    np.testing.assert_array_equal(numbers(as_text(np.array([0.5, 3]))), [0.5, 3])


def test_the_tracked_page_says_what_the_tracked_results_say(tmp_path):
    shutil.copytree(ROOT / "reproduction" / "results", tmp_path / "results")  # without a journal
    book = Journal(tmp_path, catalogue.settings)
    found = {
        table.name: tables.View(book, table, splits=100, quick=False).summary() for table in TABLES
    }
    texts = [about_tables(paper, found) for paper in ("orkfd", "kfdaq", "fofsloo", "bfd")]
    texts += [about_figures(book, paper) for paper in ("orkfd", "esann", "kfdaq", "bfd")]
    page = (ROOT / "reproduction" / "page.html").read_text(encoding="utf-8")
    for text in texts:
        assert escape(text) in page, "run: fisherkit reproduce page"


def test_nothing_is_found_where_results_are_missing(tmp_path):
    book = Journal(tmp_path, catalogue.settings)
    assert all(about_figures(book, paper) is None for paper in PAPERS)
    assert all(about_tables(paper, {}) is None for paper in PAPERS)
