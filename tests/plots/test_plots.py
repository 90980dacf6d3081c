"""Pictures show every width priced and the model chosen."""

import numpy as np
import pandas as pd
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from sklearn.datasets import load_iris  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from fisherkit import (  # noqa: E402
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    KernelFisherClassifier,
)
from fisherkit.datasets import make_relevance, make_torus  # noqa: E402
from fisherkit.plots import (  # noqa: E402
    CommitteeDisplay,
    ProjectionDisplay,
    RegularizationPathDisplay,
    RelevanceDisplay,
    SparsityPathDisplay,
)

X, y = make_torus(120, random_state=0)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


def test_there_is_one_curve_for_each_width_and_a_mark_at_the_choice():
    model = make_pipeline(StandardScaler(), KernelFisherClassifier()).fit(X, y)
    display = RegularizationPathDisplay.from_estimator(model)
    selection = model[-1].selection_
    assert len(display.lines_) == len(np.unique(selection.path["gamma"]))
    mark = display.ax_.get_lines()[-1]
    assert mark.get_xdata()[0] == selection.mu / selection.unit
    assert mark.get_ydata()[0] == selection.value


@pytest.mark.parametrize("options", [{"kernel": "linear"}, {"gamma": 0.5}])
def test_a_model_without_a_width_to_choose_has_one_curve(options):
    _, ax = matplotlib.pyplot.subplots()
    display = RegularizationPathDisplay.from_estimator(
        KernelFisherClassifier(**options).fit(X, y), ax=ax
    )
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


@pytest.mark.parametrize("kernels", [("rbf",), ("rbf", "laplacian"), ("linear", "rbf")])
def test_the_weight_of_every_member_is_shown_in_the_panel_of_its_kernel(kernels):
    model = make_pipeline(StandardScaler(), FisherCommitteeClassifier(kernels)).fit(X, y)
    display = CommitteeDisplay.from_estimator(model)
    members = model[-1].members_
    assert [ax.get_title() for ax in display.axes_] == list(kernels)
    for kernel, mesh in zip(kernels, display.meshes_, strict=True):
        own = members[members["kernel"] == kernel]
        shown = mesh.get_array()
        assert shown.shape == (25, len(own) // 25)
        np.testing.assert_allclose(shown.sum(), 100 * own["weight"].sum(), rtol=1e-12)
        heaviest = own[np.argmax(own["weight"])]
        row, column = np.unravel_index(np.argmax(shown), shown.shape)
        assert row == round(np.log2(heaviest["mu"] / heaviest["unit"])) + 14
        assert column == np.searchsorted(np.unique(own["width"]), heaviest["width"])


def test_given_axes_are_drawn_on_one_for_each_kernel():
    model = FisherCommitteeClassifier(n_widths=2).fit(X, y)
    _, axes = matplotlib.pyplot.subplots(1, 2)
    display = CommitteeDisplay.from_estimator(model, ax=axes)
    assert display.axes_ == list(axes)
    with pytest.raises(ValueError, match="1 entries for 2 kernels"):
        CommitteeDisplay.from_estimator(model, ax=axes[0])


def test_a_committee_without_weight_is_drawn_empty():
    model = FisherCommitteeClassifier(n_widths=2).fit(np.ones((20, 2)), np.arange(20) % 2)
    display = CommitteeDisplay.from_estimator(model)
    assert all(np.all(mesh.get_array() == 0) for mesh in display.meshes_)


@pytest.mark.parametrize("model", [KernelFisherClassifier(), FisherCommitteeClassifier()])
def test_an_estimator_shows_itself_in_a_notebook(model):
    assert type(model).__name__ in model._repr_html_()


def test_projections_of_two_classes_are_a_histogram_that_counts_every_row():
    _, ax = matplotlib.pyplot.subplots()
    model = make_pipeline(StandardScaler(), KernelFisherClassifier()).fit(X, y)
    display = ProjectionDisplay.from_estimator(model, X, y, ax=ax)
    assert display.ax_ is ax
    assert display.projections.shape == (len(y), 1)
    np.testing.assert_allclose(display.projections, model.transform(X))
    bars = [patch for patch in ax.patches if hasattr(patch, "get_height")]
    assert sum(bar.get_height() for bar in bars) == len(y)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [str(c) for c in set(y)]


def test_projections_of_more_classes_are_a_scatter_with_a_shape_for_each():
    Z, labels = load_iris(return_X_y=True)
    display = ProjectionDisplay.from_estimator(KernelFisherClassifier().fit(Z, labels), Z, labels)
    markers = {line.get_marker() for line in display.ax_.get_lines()}
    assert len(markers) == 3
    assert sum(len(line.get_xdata()) for line in display.ax_.get_lines()) == len(labels)


def test_a_committee_shows_decisions_of_two_classes_and_refuses_more():
    model = FisherCommitteeClassifier(kernels=("rbf",), n_widths=1).fit(X, y)
    display = ProjectionDisplay.from_estimator(model, X, y)
    np.testing.assert_allclose(display.projections[:, 0], model.decision_function(X))
    Z, labels = load_iris(return_X_y=True)
    model = FisherCommitteeClassifier(kernels=("rbf",), n_widths=1).fit(Z, labels)
    with pytest.raises(ValueError, match="no discriminant coordinates"):
        ProjectionDisplay.from_estimator(model, Z, labels)


@pytest.mark.parametrize("display", [RegularizationPathDisplay, SparsityPathDisplay])
def test_a_model_without_the_path_is_refused_in_words(display):
    model = BayesianFisherClassifier(n_restarts=1).fit(X, y)
    with pytest.raises(ValueError, match="BayesianFisherClassifier has no path"):
        display.from_estimator(model)
