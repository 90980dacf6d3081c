"""Columns to features: medians, ranks and levels, with weights as copies."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from fisherkit.columns import features as module
from fisherkit.columns.features import Features


def table(n=60, seed=0):
    """Sixty rows, of which one is from Trier."""
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 9, n)),
            "rooms": rng.integers(1, 5, n),
            "owner": rng.random(n) < 0.5,
            "town": rng.choice(["Bonn", "Ulm", "Trier", None], n, p=[0.6, 0.3, 0.02, 0.08]),
        }
    )
    town = found["town"].where(found["town"] != "Trier", "Bonn")
    town[0] = "Trier"
    return found.assign(town=town)


def test_numbers_are_those_of_the_definition():
    X = table()
    found = Features.of(X).transform(X)
    age = X["age"].fillna(X["age"].median()).to_numpy()
    np.testing.assert_allclose(found[:, 0], (age - age.mean()) / age.std(), rtol=1e-12)
    place = rankdata(age) / len(age)
    np.testing.assert_allclose(found[:, 3], (place - place.mean()) / place.std(), rtol=1e-12)


def test_names_sources_and_views():
    X = table()
    features = Features.of(X)
    assert features.names == [
        *("age", "rooms", "owner", "rank of age", "rank of rooms"),
        *("town: Bonn", "town: Ulm", "town: missing", "town: other"),
    ]
    assert features.sources.tolist() == [0, 1, 2, 0, 1, 3, 3, 3, 3]
    views = features.views
    assert views["standard"].columns.tolist() == [0, 1, 2, 5, 6, 7, 8]
    assert views["rank"].columns.tolist() == [3, 4, 2, 5, 6, 7, 8]  # two values have no ranks
    assert list(Features.of(X, ranks=False).views) == ["standard"]
    assert list(Features.of(X[["owner", "town"]]).views) == ["standard"]


def test_levels_that_are_rare_unseen_or_missing():
    X = table()
    features = Features.of(X)
    (town,) = features.texts
    assert town.known == ["Bonn", "Ulm", "missing"] and town.rare == ["Trier"]
    new = pd.DataFrame({"town": ["Bonn", "Trier", "Atlantis", None]})
    assert town.indicators(new["town"]).argmax(axis=1).tolist() == [0, 3, 3, 2]
    nowhere = Features.of(X[X["town"] != "Trier"]).texts[0]
    assert not nowhere.indicators(pd.Series(["Atlantis"])).any()


@given(st.lists(st.integers(0, 3), min_size=60, max_size=60), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_weights_are_copies(copies, seed):
    copies = np.array(copies)
    if copies.sum() < 2:
        return
    X = table(seed=seed)
    twice = X.iloc[np.repeat(np.arange(60), copies)]
    kept = copies > 0
    weighed = Features.of(X[kept], copies[kept].astype(float))
    repeated = Features.of(twice)
    assert weighed.names == repeated.names
    np.testing.assert_allclose(weighed.transform(X), repeated.transform(X), atol=1e-12)


def test_ranks_of_new_numbers_lie_between_and_end_at_the_ends():
    X = pd.DataFrame({"x": [1.0, 2.0, 2.0, 8.0]})
    features = Features.of(X)
    low, middle, top = features.transform(pd.DataFrame({"x": [1.0, 2.0, 8.0]}))[:, 1]
    new = features.transform(pd.DataFrame({"x": [-5.0, 1.5, 5.0, 99.0]}))[:, 1]
    np.testing.assert_allclose(new, [low, (low + middle) / 2, (middle + top) / 2, top], rtol=1e-12)


def test_monotone_changes_of_a_column_leave_its_ranks(monkeypatch):
    x = np.random.default_rng(0).normal(size=5000)
    plain, bent = (Features.of(pd.DataFrame({"x": v})) for v in (x, np.exp(3 * x)))
    ranks = [
        features.transform(pd.DataFrame({"x": values}))[:, 1]
        for features, values in ((plain, x), (bent, np.exp(3 * x)))
    ]
    np.testing.assert_allclose(*ranks, atol=4e-3)  # between knots they are straight
    assert len(plain.numbers.knots) <= 1000
    monkeypatch.setattr(module, "_KNOTS", 10_000)
    exact = Features.of(pd.DataFrame({"x": x})).transform(pd.DataFrame({"x": x}))[:, 1]
    np.testing.assert_allclose(ranks[0], exact, atol=4e-3)


@pytest.mark.parametrize(
    "values", [[1e150, -1e150, 3.0], [5e-324, 0.0, 0.0], [1e300, 1e300, 1e300]]
)
def test_numbers_at_the_ends_of_doubles(values):
    X = pd.DataFrame({"x": values})
    assert np.isfinite(Features.of(X).transform(X)).all()


def test_a_column_without_a_value():
    X = pd.DataFrame({"x": [np.nan, np.nan], "y": [1.0, 2.0]})
    assert np.array_equal(Features.of(X).transform(X)[:, 0], [0.0, 0.0])
