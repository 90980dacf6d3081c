"""Small trainings for the tests of the report."""

import numpy as np
import oracles
import pandas as pd

from fisherkit import TableClassifier
from fisherkit.rows import planning, routes
from fisherkit.training.fitting import HeldOut, Training

CLASSIFIERS = {
    "fisher": {},
    "committee": {"n_widths": 3},
    "sparse": {"gamma": 0.3},
    "forward": {"gamma": 0.3},
    "bayes": {"ard": True, "n_restarts": 1},
}
NAMES = ("no", "yes", "perhaps", "never", "always")


def table(n, n_classes, seed=0):
    """Numbers, a category and labels."""
    X, y = oracles.noisy_classes(n, n_classes, seed=seed)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame["colour"] = np.where(np.arange(n) % 3 == 0, "red", "blue")
    return frame, np.array(NAMES)[y]


def train(method="fisher", n=120, n_classes=2, *, X=None, y=None, held_out=True, **names):
    """A training of the method, on a table made for it unless one is given."""
    if X is None:
        X, y = table(n, n_classes)
    model = TableClassifier(method, centres="all", parameters=CLASSIFIERS[method]).fit(X, y)
    aside = None
    if held_out:
        part, labels = X[:40], y[:40].copy()
        aside = HeldOut("rows set aside", labels, model.predict(part), model.predict_proba(part))
    given = {"target": "answer", "source": "table.csv", "code": "model.fit(X, y)\n"} | names
    return Training(model, X, y, method=method, held_out=aside, notes=(), seconds=0.1, **given)


def little_time(monkeypatch, centres):
    """Tables are planned by time from ten rows on, and time is for so few centres alone."""
    monkeypatch.setattr(planning, "_QUICK", 10)
    monkeypatch.setattr(planning, "_AUTO_SECONDS", 1e-9)
    monkeypatch.setattr(routes, "_CENTRES", (centres,))
