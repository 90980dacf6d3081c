"""Shapley values of kernel expansions against the sum over all coalitions."""

from dataclasses import replace

import numpy as np
import oracles
import pytest
from oracles import gap

from fisherkit.core import Kernel
from fisherkit.inference import base_values, shapley, shapley_values
from fisherkit.rows import Term

PRODUCTS = ["rbf", "laplacian", "additive"]
OTHERS = ["exponential", "polynomial"]


def term(name, d, m=9, k=1, *, gamma=0.3, seed=0, coef0=1.0):
    rng = np.random.default_rng(seed)
    return Term(
        kernel=Kernel(name, gamma=gamma, coef0=coef0),
        columns=np.arange(d),
        shift=np.zeros(d),
        scale=np.ones(d),
        centres=rng.normal(size=(m, d)),
        places=np.arange(m),
        coef=rng.normal(size=(m, k)),
    )


def values_of(terms, X, direction, sources=None, n_columns=None, *, n_pairs=2, seed=0):
    sources = np.arange(X.shape[1]) if sources is None else sources
    return shapley_values(
        terms,
        X,
        direction,
        sources,
        n_columns or len(np.unique(sources)),
        n_pairs=n_pairs,
        rng=np.random.RandomState(seed),
    )


def truth(terms, x, direction, sources, n_columns):
    def value(known):
        total = 0.0
        for t in terms:
            seen = (x[t.columns] - t.shift) * t.scale
            features = [p for p, j in enumerate(t.columns) if sources[j] in known]
            words = {"gamma": t.kernel.gamma, "coef0": t.kernel.coef0}
            for z, a in zip(t.centres, t.coef @ direction, strict=True):
                total += a * oracles.partly_known(seen, z, features, t.kernel.name, **words)
        return total

    return oracles.shapley(value, n_columns)


@pytest.mark.parametrize("name", [*PRODUCTS, "linear"])
@pytest.mark.parametrize("d", [1, 2, 3, 6, 9])
def test_values_of_products_and_sums_equal_all_coalitions(name, d):
    t, rng = term(name, d, k=2), np.random.default_rng(1)
    X, direction = rng.normal(size=(2, d)), np.array([[1.0, -1.0], [-0.5, 2.0]])
    found = values_of([t], X, direction)
    for x, a, phi in zip(X, direction, found.values, strict=True):
        assert gap(phi, truth([t], x, a, np.arange(d), d)) < 1e-8
    assert not found.standard_error.any()


def test_twelve_columns_equal_all_coalitions():
    t, x = term("rbf", 12, m=3), np.random.default_rng(1).normal(size=(1, 12))
    found = values_of([t], x, np.ones((1, 1))).values[0]
    assert gap(found, truth([t], x[0], np.ones(1), np.arange(12), 12)) < 1e-8


def test_features_of_a_column_are_one_factor_and_terms_add_up():
    """A table: two views of the columns, of which one does not see the last column."""
    sources = np.array([0, 1, 2, 0, 1, 2, 3])
    rng = np.random.default_rng(2)
    first = replace(term("rbf", 4), columns=np.array([0, 1, 2, 6]), scale=rng.uniform(1, 2, 4))
    second = replace(
        term("laplacian", 3, m=5), columns=np.array([3, 4, 5]), shift=rng.normal(size=3)
    )
    levels = replace(term("rbf", 4, gamma=0.7), columns=np.array([0, 3, 4, 6]))
    terms, X, direction = [first, second, levels], rng.normal(size=(3, 7)), np.ones((3, 1))
    found = values_of(terms, X, direction, sources)
    for x, phi in zip(X, found.values, strict=True):
        assert gap(phi, truth(terms, x, np.ones(1), sources, 4)) < 1e-8


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_factors_that_vanish_do_no_harm(name):
    """Some centres are so far away in one or two columns that their factor is zero."""
    t = term(name, 4)
    t.centres[0, 1], t.centres[1, 2], t.centres[1, 3] = 1e6, -1e5, 1e4
    x = np.random.default_rng(1).normal(size=(1, 4))
    found = values_of([t], x, np.ones((1, 1))).values[0]
    assert gap(found, truth([t], x[0], np.ones(1), np.arange(4), 4)) < 1e-8


@pytest.mark.parametrize("d", [60, 300])
@pytest.mark.parametrize("spread", [0.02, 1.0, 10.0, 300.0])
def test_fewer_nodes_have_the_same_digits(d, spread, monkeypatch):
    t, rng = term("rbf", d, gamma=spread / d), np.random.default_rng(1)
    X, ones = rng.normal(size=(2, d)), np.ones((2, 1))
    assert len(shapley.nodes(d)[0]) < d / 2
    few = values_of([t], X, ones).values
    monkeypatch.setattr(shapley, "nodes", lambda n: shapley._legendre(-(-n // 2)))
    assert np.abs(few - values_of([t], X, ones).values).max() < 1e-12


@pytest.mark.parametrize("names", [["exponential"], ["polynomial"], ["exponential", "rbf"]])
def test_values_add_up_to_the_number_less_the_base_value(names):
    terms = [term(name, 7, seed=s) for s, name in enumerate(names)]
    X, direction = np.random.default_rng(1).normal(size=(4, 7)), np.full((4, 1), -1.5)
    found = values_of(terms, X, direction)
    total = sum(t.values(X) @ t.coef for t in terms)[:, 0] * -1.5
    assert gap(found.values.sum(axis=1), total - base_values(terms, direction)) < 1e-12
    assert found.standard_error.min() >= 0


@pytest.mark.parametrize("name", OTHERS)
def test_sampled_values_are_within_their_standard_errors(name):
    """Of 200 values about 95 % are within two standard errors."""
    d, rng, errors = 5, np.random.default_rng(0), []
    for case in range(40):
        t = term(name, d, gamma=0.5, seed=case)
        x = rng.normal(size=(1, d))
        found = values_of([t], x, np.ones((1, 1)), n_pairs=64, seed=case)
        exact = truth([t], x[0], np.ones(1), np.arange(d), d)
        errors.append(np.abs(found.values[0] - exact) / found.standard_error[0])
    assert np.mean(np.concatenate(errors) <= 2) >= 0.93
    assert np.max(errors) < 5
