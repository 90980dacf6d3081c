"""The report in a real browser: numbers, keyboard, accessibility, and nothing let in or out.

Needs Playwright, axe-core and a Chromium: that of the system, the one named by
``FISHERKIT_CHROMIUM``, or Playwright's own. Skipped with a reason where one of them is missing.
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.metrics import average_precision_score, roc_auc_score
from trainings import table, train, train_numbers

from fisherkit import KernelFisherClassifier
from fisherkit.core import winners
from fisherkit.inspection.left_out import left_out_logits, left_out_path
from fisherkit.report import render
from fisherkit.report.left_out_scores import STOPS, wilson

why = (
    "the browser tests need playwright and axe-playwright-python: pip install 'fisherkit[browser]'"
)
sync_api = pytest.importorskip("playwright.sync_api", reason=why)
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=why)

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="module")
def browser():
    path = os.environ.get("FISHERKIT_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), None
    )
    with sync_api.sync_playwright() as playwright:
        if path is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip(
                "no Chromium: apt-get install chromium, playwright install chromium, or name one "
                "in FISHERKIT_CHROMIUM"
            )
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Trainings by name, and the files of their reports."""
    trainings = {
        "two": train(n=150, compared=True),
        "five": train(n=200, n_classes=5, compared=True),
        "many": train(n=520, n_classes=26, compared=True),
        "numbers": train_numbers(compared=True),
        "bayes": train("bayes", n=80),
        "sparse": train("sparse", n=80, n_classes=3),
    }
    folder = tmp_path_factory.mktemp("reports")
    for name, training in trainings.items():
        (folder / f"{name}.html").write_text(render(training), encoding="utf-8")
    return trainings, folder


@pytest.fixture
def show(browser, reports):
    """Open a report; fails at the end if it wrote to the console or asked for anything."""
    contexts, complaints = [], []

    def open_page(name, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        path = name if isinstance(name, Path) else reports[1] / f"{name}.html"
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("footer")
        assert complaints.pop(0) == path.as_uri()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


READ = """(settings) => settings.map((setting) => {
  for (const [id, value] of Object.entries(setting)) {
    const slider = document.getElementById(id);
    slider.value = value;
    slider.dispatchEvent(new Event("input"));
  }
  const cells = document.querySelectorAll("dd[data-value], td[data-value], p[data-value]");
  return Object.fromEntries([...cells].map((cell) => [cell.id, cell.dataset.value]));
})"""


def refit(training, mu):
    """Left-out logits by a model fitted on its own with this mu."""
    model = training.model.estimator_
    X = training.model.features_.transform(training.X)
    alone = KernelFisherClassifier(gamma=model.gamma_, regularization=mu).fit(X, training.y)
    return left_out_logits(alone)


def test_numbers_under_the_sliders_are_those_of_python_at_fifty_positions(show, reports):
    training = reports[0]["two"]
    rng = np.random.default_rng(0)
    # Costs move the threshold, so they come first.
    settings = [
        {
            "missed": float(rng.integers(1, 50)),
            "alarm": float(rng.integers(1, 50)),
            "threshold": int(rng.integers(len(STOPS))),
        }
        for _ in range(50)
    ]
    shown = show("two").evaluate(READ, settings)
    truth = training.y == training.model.classes_[1]
    n, logits = len(truth), left_out_logits(training.model.estimator_)[:, 0]
    for setting, numbers in zip(settings, shown, strict=True):
        found = {name: np.array(str(value).split(), dtype=float) for name, value in numbers.items()}
        answer = logits > np.float32(STOPS[setting["threshold"]])
        counts = {
            "tp": np.sum(answer & truth),
            "fp": np.sum(answer & ~truth),
            "fn": np.sum(~answer & truth),
            "tn": np.sum(~answer & ~truth),
        }
        for name, count in counts.items():
            assert found[name] == count, (setting, name)
        wrong = counts["fp"] + counts["fn"]
        spent = setting["missed"] * counts["fn"] + setting["alarm"] * counts["fp"]
        assert found["error"] == wrong / n
        np.testing.assert_allclose(found["interval"], wilson(wrong, n), atol=1e-12)
        assert found["spent"] == pytest.approx(100 * spent / n)
        assert found["recall"] == counts["tp"] / truth.sum()
        assert found["specificity"] == counts["tn"] / (~truth).sum()
        if answer.any():
            assert found["precision"] == counts["tp"] / answer.sum()
        assert found["area"] == pytest.approx(roc_auc_score(truth, logits), abs=1e-6)
        assert found["average"] == pytest.approx(average_precision_score(truth, logits), abs=1e-6)
        even = np.log(setting["alarm"] / setting["missed"])
        assert found["advised"] == np.argmin(np.abs(STOPS - even))


@pytest.mark.parametrize("name", ["two", "five"])
def test_the_error_follows_mu(show, reports, name):
    training = reports[0][name]
    classes = training.model.classes_
    path = left_out_path(training.model.estimator_)
    mus = path.mu
    shown = show(name).evaluate(READ, [{"mu": step} for step in range(len(mus))])
    index = np.searchsorted(classes, training.y)
    for step, numbers in enumerate(shown):
        error = float(numbers["mu-error"])
        assert error == np.mean(winners(path.logits[:, :, step]) != index)
        if name == "two":  # of more classes, a fit of its own would have a softmax of its own
            assert error == np.mean(winners(refit(training, mus[step])) != index)
    unit = training.model.estimator_.selection_.unit
    exact = [float(numbers["mu-value-exact"]) for numbers in shown]
    np.testing.assert_allclose(exact, mus / unit, rtol=1e-3)


@pytest.mark.parametrize("name", ["five", "many"])
def test_answers_of_lowest_cost_are_those_of_python(show, reports, name):
    training = reports[0][name]
    classes = training.model.classes_
    k, n = len(classes), len(training.y)
    logits = left_out_logits(training.model.estimator_)
    p = softmax(logits.astype(np.float32).astype(float), axis=1)
    index = np.searchsorted(classes, training.y)
    rng, page = np.random.default_rng(0), show(name)
    for trial in range(5):
        costs = np.ones((k, k))
        if trial:
            costs = rng.integers(1, 9, size=(k, k) if k <= 6 else (k, 1)) * np.ones((k, k))
        np.fill_diagonal(costs, 0)
        if k <= 6:
            typed = {f"cost-{t}-{d}": costs[t, d] for t in range(k) for d in range(k) if t != d}
        else:
            typed = {f"cost-{t}-any": costs[t, (t + 1) % k] for t in range(k)}
        (shown,) = page.evaluate(READ, [typed])
        answer = np.argmin(p @ costs, axis=1)
        table = np.zeros((k, k), dtype=int)
        np.add.at(table, (index, answer), 1)
        cells = [[int(shown[f"cell-{t}-{d}"]) for d in range(k)] for t in range(k)]
        np.testing.assert_array_equal(cells, table)
        assert float(shown["error"]) == np.mean(answer != index)
        assert float(shown["spent"]) == pytest.approx(100 * np.sum(costs * table) / n)
        assert float(shown["balanced"]) == pytest.approx(
            np.mean(np.diag(table) / table.sum(axis=1))
        )
        np.fill_diagonal(table, 0)
        worst = page.locator("#worst tbody tr").evaluate_all(
            "rows => rows.map((row) => row.dataset.value.split(' ').map(Number))"
        )
        assert [count for _, _, count in worst] == sorted(table[table > 0])[::-1][:10]
        assert all(table[t, d] == count for t, d, count in worst)


def test_the_cost_moves_the_threshold_to_where_it_pays(show):
    page = show("two")
    page.locator("#missed").fill("20")
    page.locator("#alarm").fill("5")
    assert page.locator("#threshold-value").inner_text().replace("\xa0", " ") == "20 %"
    said = page.locator("#advised").inner_text().replace("\xa0", " ")
    assert "answer “yes” from 20 % on" in said and "NaN" not in said
    page.locator("#missed").fill("")  # while a number is being typed
    assert page.locator("#threshold-value").inner_text().replace("\xa0", " ") == "20 %"


def test_everything_can_be_done_with_the_keyboard(show):
    page = show("two")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"

    def tab_to(name):
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == name:
                return
        raise AssertionError(name)

    tab_to("threshold")
    before = page.locator("#tp").get_attribute("data-value"), page.locator("#fn").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator("#threshold").input_value() == str(len(STOPS) // 2 + 1)
    page.keyboard.press("End")
    assert (page.locator("#tp").get_attribute("data-value"), before[1]) != before
    assert page.locator("#threshold").get_attribute("aria-valuetext").endswith("%")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "reset"
    page.keyboard.press("Enter")
    assert page.locator("#tp").get_attribute("data-value") == before[0]
    assert page.locator("#threshold").input_value() == str(len(STOPS) // 2)
    tab_to("mu")
    page.keyboard.press("Home")
    assert "less smooth" in page.locator("#mu").get_attribute("aria-valuetext")
    tab_to("mu-reset")
    page.keyboard.press("Enter")
    assert page.locator("#mu-value").inner_text() == "as chosen"


@pytest.mark.parametrize(
    "name, scheme",
    [
        ("two", "light"),
        ("two", "dark"),
        ("five", "light"),
        ("many", "light"),
        ("many", "dark"),
        ("numbers", "light"),
        ("numbers", "dark"),
        ("bayes", "dark"),
        ("sparse", "light"),
    ],
)
def test_axe_finds_no_serious_fault(show, name, scheme):
    assert faults(show(name, color_scheme=scheme)) == []


def test_axe_finds_a_fault_that_was_planted(show):
    page = show("five")
    page.evaluate("document.querySelector('h1').style.color = '#f0f0f0'")
    assert [fault[0] for fault in faults(page, "header")] == ["color-contrast"]


def faults(page, where=None):
    """Serious and critical violations, with the element and what to do."""
    return [
        (fault["id"], node["html"][:200], node.get("failureSummary"))
        for fault in axe.Axe().run(page, where).response["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


@pytest.mark.parametrize("name", ["two", "five", "many", "numbers", "bayes", "sparse"])
def test_nothing_sticks_out_on_a_phone(show, name):
    page = show(name, viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("figure svg").count() >= 3


def test_the_matrix_of_many_classes_scrolls_with_its_names_in_sight(show):
    page = show("many", viewport={"width": 390, "height": 844})
    box = page.locator(".matrix")
    assert box.evaluate("box => box.scrollWidth > box.clientWidth + 100")
    box.evaluate("box => box.scrollTo(300, 300)")
    corner, name, head = (
        box.locator(which).first.bounding_box()
        for which in ("thead td", "tbody tr:last-child th", "thead th:last-child")
    )
    frame = box.bounding_box()
    assert abs(name["x"] - frame["x"]) < 2 and abs(corner["x"] - frame["x"]) < 2
    assert abs(head["y"] - frame["y"]) < 2
    assert box.locator("tbody td").first.bounding_box()["height"] >= 20


def test_two_columns_on_a_desktop_and_one_on_a_phone(show):
    for width, columns in ((1280, 2), (390, 1)):
        page = show("two", viewport={"width": width, "height": 900})
        page.wait_for_selector("figure svg")
        lefts = page.locator("#columns figure").evaluate_all(
            "all => [...new Set(all.map((one) => Math.round(one.getBoundingClientRect().left)))]"
        )
        assert len(lefts) == columns


@pytest.mark.parametrize("name", ["two", "many", "numbers"])
def test_tables_repeat_their_heads_in_print(show, name):
    page = show(name)
    page.emulate_media(media="print")
    heads = page.locator("thead").evaluate_all("all => all.map((h) => getComputedStyle(h).display)")
    assert set(heads) == {"table-header-group"}
    boxes = page.locator(".scroll").evaluate_all(
        "all => all.map((b) => getComputedStyle(b).overflow)"
    )
    assert set(boxes) == {"visible"}  # within a box that scrolls, heads are not repeated


def test_every_figure_is_drawn_and_described(show):
    page = show("two")
    figures = page.locator("figure")
    assert figures.count() >= 11
    for number in range(figures.count()):
        drawing = figures.nth(number).locator(".canvas > svg")
        assert drawing.get_attribute("role") == "img"
        assert len(drawing.get_attribute("aria-label")) > 20


def test_markup_in_the_data_stays_text(show, tmp_path):
    X, y = table(60, 2)
    attack = "<script>window.hacked = 1</script>"
    image = '<img src=x onerror="window.hacked = 1">'
    X.columns = [attack, *X.columns[1:]]
    X["colour"] = np.where(X["colour"] == "red", image, "</script>" + attack)
    y = np.where(y == "yes", "</script>" + attack, "{{data}}" + image)
    training = train(
        X=pd.DataFrame(X),
        y=y,
        target=f"</title>{attack}",
        source=f'"><!--{image}.csv',
        code=f"print('{attack}')",
    )
    path = tmp_path / "attack.html"
    path.write_text(render(training), encoding="utf-8")
    page = show(path)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 7
    assert attack in page.locator("h1").inner_text()
    assert attack in page.locator("main").inner_text()
    assert image in page.locator("main").inner_text()
    assert page.title().startswith("Predicting </title><script>")


def test_injected_scripts_and_requests_are_refused(browser, reports):
    page = browser.new_page()
    page.goto((reports[1] / "two.html").as_uri())
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.hacked = 1";
          document.body.append(script);
        }"""
    )
    assert page.evaluate("window.hacked") is None
    blocked = "fetch('http://localhost:9/').then(() => 'reached', () => 'blocked')"
    assert page.evaluate(blocked) == "blocked"
    page.close()


def test_a_sampled_report_counts_the_sample(show, reports, tmp_path):
    path = tmp_path / "sample.html"
    path.write_text(render(reports[0]["two"], sample=60), encoding="utf-8")
    page = show(path)
    (numbers,) = page.evaluate(READ, [{}])
    assert sum(int(numbers[name]) for name in ("tp", "fp", "fn", "tn")) == 60
    assert "sample of 60 of 150 rows" in page.locator("main").inner_text()


def test_a_printed_page_is_light_even_in_the_dark(show):
    page = show("two", color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert json.loads(background.replace("rgb(", "[").replace(")", "]")) == [255, 255, 255]
    assert page.locator("nav").is_hidden()
    assert len(page.pdf(format="A4")) > 10_000


def test_figures_are_drawn_for_the_paper_and_then_for_the_screen_again(show):
    page = show("two", viewport={"width": 1280, "height": 900})
    page.wait_for_selector("figure svg")
    widths = """[...document.querySelectorAll("figure .canvas > *")].map(
        (drawing) => drawing.getBoundingClientRect().width)"""
    screen = page.evaluate(widths)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert set(page.evaluate(widths)) == {340} and min(screen) > 400
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(widths) == screen
