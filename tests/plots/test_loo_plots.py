"""Pictures of permutation tests, label sets, audits and learning curves show their numbers."""

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from fisherkit import KernelFisherClassifier, audit  # noqa: E402
from fisherkit.datasets import make_torus  # noqa: E402
from fisherkit.model_selection import learning_curve, permutation_test_score  # noqa: E402
from fisherkit.plots import (  # noqa: E402
    AuditDisplay,
    LearningCurveDisplay,
    PermutationDisplay,
    SetDisplay,
)

X, y = make_torus(120, random_state=0)
MODEL = KernelFisherClassifier(gamma=0.5, regularization=1.0)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_the_histogram_holds_every_permutation_and_a_line_at_the_score():
    display = PermutationDisplay.from_estimator(MODEL, X, y, n_permutations=50, scoring="roc_auc")
    assert sum(bar.get_height() for bar in display.ax_.patches) == 50
    assert display.ax_.get_lines()[0].get_xdata()[0] == display.score
    assert "roc auc" in display.ax_.get_xlabel()
    _, ax = matplotlib.pyplot.subplots()
    result = permutation_test_score(MODEL, X, y, n_permutations=50)
    again = PermutationDisplay.from_predictions(*result, ax=ax)
    assert again.ax_ is ax
    assert any(f"p = {result[2]:.3g}" in text for text in legend(again))


def test_coverage_and_size_are_counted_by_class():
    fitted = make_pipeline(StandardScaler(), MODEL).fit(X[:80], y[:80])
    display = SetDisplay.from_estimator(fitted, X[80:], y[80:], confidence=0.8, method="jackknife+")
    sets = fitted[-1].predict_set(fitted[:-1].transform(X[80:]), 0.8, "jackknife+")
    for q in (0, 1):
        rows = y[80:] == q
        assert display.ax_.patches[q].get_height() == sets[rows, q].mean()
        assert display.size[q] == sets[rows].sum(axis=1).mean()
    with pytest.raises(ValueError, match="no row of class 1"):
        SetDisplay.from_predictions(np.zeros(40), sets, [0, 1])


def test_every_audited_row_is_a_point_and_the_first_ones_are_named():
    table = audit(MODEL, X, y)
    display = AuditDisplay.from_estimator(MODEL, X, y)
    points = [collection.get_offsets() for collection in display.ax_.collections]
    assert sum(len(some) for some in points) == len(X)
    assert len(points[1]) == (table.label != table.suggested).sum()
    names = [text.get_text() for text in display.ax_.texts]
    assert names == [str(i) for i in table.index[:5]]
    assert len(AuditDisplay.from_predictions(table).ax_.collections) == 2


def test_a_learning_curve_shows_the_means_over_the_folds():
    sizes = (30, 60, 90)
    display = LearningCurveDisplay.from_estimator(MODEL, X, y, train_sizes=sizes)
    curve = learning_curve(MODEL, X, y, train_sizes=sizes)
    for line, scores in zip(display.ax_.get_lines(), curve[1:], strict=True):
        np.testing.assert_array_equal(line.get_xdata(), sizes)
        np.testing.assert_array_equal(line.get_ydata(), scores.mean(axis=1))
    assert (
        LearningCurveDisplay.from_predictions(*curve, name="accuracy").ax_.get_ylabel()
        == "accuracy"
    )
