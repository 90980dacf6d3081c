"""Pictures show every width priced and the model chosen."""

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from fisherkit import KernelFisherClassifier  # noqa: E402
from fisherkit.datasets import make_torus  # noqa: E402
from fisherkit.plots import SelectionDisplay  # noqa: E402

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
