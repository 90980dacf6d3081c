"""Pictures show every width priced and the model chosen."""

import numpy as np
import pandas as pd
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from fisherkit import BayesianFisherClassifier, KernelFisherClassifier  # noqa: E402
from fisherkit.datasets import make_relevance, make_torus  # noqa: E402
from fisherkit.plots import RelevanceDisplay, SelectionDisplay  # noqa: E402

X, y = make_torus(120, random_state=0)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


def test_there_is_one_curve_for_each_width_and_a_mark_at_the_choice():
    model = make_pipeline(StandardScaler(), KernelFisherClassifier()).fit(X, y)
    display = SelectionDisplay.from_estimator(model)
    selection = model[-1].selection_
    assert len(display.lines_) == len(np.unique(selection.path["gamma"]))
    mark = display.ax_.get_lines()[-1]
    assert mark.get_xdata()[0] == selection.mu / selection.unit
    assert mark.get_ydata()[0] == selection.value


@pytest.mark.parametrize("options", [{"kernel": "linear"}, {"gamma": 0.5}])
def test_a_model_without_a_width_to_choose_has_one_curve(options):
    _, ax = matplotlib.pyplot.subplots()
    display = SelectionDisplay.from_estimator(KernelFisherClassifier(**options).fit(X, y), ax=ax)
    assert display.ax_ is ax
    assert len(display.lines_) == 1


def test_relevances_are_drawn_largest_on_top_with_their_names():
    table = pd.DataFrame(make_relevance(80, n_irrelevant=4, random_state=0)[0])
    table.columns = ["signal", "a", "b", "c", "d"]
    labels = make_relevance(80, n_irrelevant=4, random_state=0)[1]
    model = BayesianFisherClassifier(ard=True).fit(table, labels)
    display = RelevanceDisplay.from_estimator(model, max_features=3)
    ticks = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert len(ticks) == 3 and ticks[-1] == "signal"
    assert any("2 less relevant" in text.get_text() for text in display.ax_.texts)


def test_a_model_without_relevances_is_refused_in_words():
    with pytest.raises(ValueError, match="ard=True"):
        RelevanceDisplay.from_estimator(KernelFisherClassifier(gamma=0.5).fit(X, y))
