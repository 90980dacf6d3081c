"""Small trainings for the tests of the report."""

import numpy as np
import oracles
import pandas as pd
from houses import houses

from fisherkit import TableClassifier, TableRegressor
from fisherkit.rows import planning, routes
from fisherkit.training.baselines import Split, baselines
from fisherkit.training.fitting import Training
from fisherkit.training.goals import HeldOut

CLASSIFIERS = {
    "fisher": {},
    "committee": {"n_widths": 3},
    "sparse": {"gamma": 0.3},
    "forward": {"gamma": 0.3},
    "bayes": {"ard": True, "n_restarts": 1},
}
NAMES = ("no", "yes", "perhaps", "never", "always", *"abcdefghijklmnopqrstu")


def table(n, n_classes, seed=0):
    """Numbers, a category and labels."""
    X, y = oracles.noisy_classes(n, n_classes, seed=seed)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame["colour"] = np.where(np.arange(n) % 3 == 0, "red", "blue")
    return frame, np.array(NAMES)[y]


def train(
    method="fisher", n=120, n_classes=2, *, X=None, y=None, held_out=True, compared=False, **names
):
    """A training of the method, on a table made for it unless one is given."""
    if X is None:
        X, y = table(n, n_classes)
    model = TableClassifier(method, centres="all", parameters=CLASSIFIERS[method]).fit(X, y)
    aside, others = None, ()
    if held_out:
        part, labels = X[:40], y[:40].copy()
        aside = HeldOut("rows set aside", labels, model.predict(part), model.predict_proba(part))
    if compared:
        others = answers_of_others(X, y, len(aside.y), np.unique(y))
    given = {"target": "answer", "source": "table.csv", "code": "model.fit(X, y)\n"} | names
    return Training(
        model,
        X,
        y,
        method=method,
        held_out=aside,
        notes=(),
        seconds=0.1,
        baselines=others,
        **given,
    )


def train_numbers(n=120, *, held_out=True, compared=False, **names):
    """A training that predicts prices."""
    rows = houses(n)
    X, y = rows.drop(columns="price"), rows["price"].to_numpy()
    model = TableRegressor([("rbf", "standard")]).fit(X, y)
    aside = HeldOut("rows set aside", y[:40], model.predict(X[:40])) if held_out else None
    others = answers_of_others(X, y, 40, None) if compared else ()
    given = {"target": "price", "source": "houses.csv", "code": "model.fit(X, y)\n"} | names
    return Training(
        model,
        X,
        y,
        method="ridge",
        held_out=aside,
        notes=(),
        seconds=0.1,
        baselines=others,
        **given,
    )


def answers_of_others(X, y, n, classes):
    """The baselines, fitted to all rows after the first n."""
    split = Split.aside(X, y, np.arange(n, len(y)), np.arange(n))
    return baselines([split], n, classes, seconds=30.0)


def little_time(monkeypatch, centres):
    """Tables are planned by time from ten rows on, and time is for so few centres alone."""
    monkeypatch.setattr(planning, "_QUICK", 10)
    monkeypatch.setattr(planning, "_AUTO_SECONDS", 1e-9)
    monkeypatch.setattr(routes, "_CENTRES", (centres,))
