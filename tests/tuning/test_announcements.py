"""A fit that will take more than two minutes says so before it starts."""

import logging

import numpy as np
import pytest

from fisherkit import KernelFisherClassifier
from fisherkit.core.solvers import Rates, sampled
from fisherkit.tuning import levels, search

N = 500
SLOW, FAST = Rates(1e5, 1e5, 1e5), Rates(1e15, 1e15, 1e15)


@pytest.fixture(params=[SLOW, FAST], ids=["slow", "fast"])
def speed(request, monkeypatch):
    """Whether the machine is slow, and few rows many."""
    monkeypatch.setattr(search, "_QUICK", 100)
    monkeypatch.setattr(search, "ALL_ROWS", 400)
    monkeypatch.setattr(levels, "ALL_ROWS", 400)
    monkeypatch.setattr(levels, "LEVELS", (150,))
    monkeypatch.setattr(search, "measured", lambda: request.param)
    monkeypatch.setattr(sampled.rates, "measured", lambda: request.param)
    return request.param


def said(caplog, **words):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 5))
    y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=N) > 0).astype(int)
    with caplog.at_level(logging.WARNING, logger="fisherkit"):
        KernelFisherClassifier(**words).fit(X, y)
    return [record.getMessage() for record in caplog.records if "take" in record.getMessage()]


@pytest.mark.parametrize(
    ("words", "about"),
    [
        ({"gamma": 0.5, "regularization": 0.1}, "will take about 42 minutes"),
        ({}, "will take about 14 minutes"),
        ({"basis": "full", "criterion": "error"}, "will take up to about 3250 minutes"),
        ({"n_components": 50}, None),
    ],
)
def test_the_estimate_comes_first_where_it_is_long(words, about, speed, caplog):
    if speed is FAST or about is None:
        assert not said(caplog, **words)
    else:
        (message,) = said(caplog, **words)
        assert f"The fit of {N} rows {about}" in message
        assert "max_time" in message and "n_components" in message


def test_few_rows_are_fitted_without_a_measurement(monkeypatch, caplog):
    monkeypatch.setattr(search, "measured", lambda: pytest.fail("measured"))
    assert not said(caplog, gamma=0.5, regularization=0.1)
