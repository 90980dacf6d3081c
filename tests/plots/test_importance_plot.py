"""The picture of the importance of columns shows the numbers."""

import numpy as np
import oracles
import pytest

from fisherkit import KernelFisherClassifier
from fisherkit.inspection import column_importance

pytest.importorskip("matplotlib").use("Agg")

from fisherkit.plots import ImportanceDisplay  # noqa: E402


def test_the_picture_has_the_most_important_columns_on_top():
    X, y = oracles.noisy_classes(60, 2, d=5, seed=3)
    model = KernelFisherClassifier(gamma=0.4, regularization=0.6).fit(X, y)
    display = ImportanceDisplay.from_estimator(model, X, y, max_columns=3, n_repeats=2)
    found = column_importance(model, X, y, n_repeats=2).to_frame()
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == found.index[:3][::-1].tolist()
    widths = [bar.get_width() for bar in display.ax_.patches]
    np.testing.assert_allclose(widths, found["rise"].to_numpy()[:3][::-1], rtol=1e-12)
    assert "left-out rows" in display.ax_.get_xlabel()
    assert display.ax_.texts[0].get_text().startswith("2 less important")
    whole = ImportanceDisplay(display.importance).plot()
    assert len(whole.ax_.patches) == 5 and not whole.ax_.texts
