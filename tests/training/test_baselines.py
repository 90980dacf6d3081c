"""Other methods answer for the same rows, and take no longer than they may."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_runs import done
from houses import houses
from people import people
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier

from fisherkit.model_files import load
from fisherkit.training import baselines, example, fitting, read_data, saved, train
from fisherkit.training.baselines import CLASSIFIERS, Peer, Split


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    people().to_csv(path, index=False)
    return path


def splits(n=100, folds=5, columns=2, seed=0):
    """Folds of a table of noise with two classes."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, columns)))
    y = np.array(["a", "b"])[rng.integers(2, size=n)]
    parts = np.array_split(rng.permutation(n), folds)
    all_rows = np.arange(n)
    return [Split.of(X, y, np.setdiff1d(all_rows, part), np.sort(part)) for part in parts], y


class Clock:
    """Time that passes only when somebody works."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Slow(ClassifierMixin, BaseEstimator):
    """Takes a while for each iteration and row."""

    def __init__(self, clock, iterations, seconds):
        self.clock, self.iterations, self.seconds = clock, iterations, seconds

    def fit(self, X, y):
        self.clock.now += self.seconds * self.iterations * len(y)
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.tile([0.4, 0.6], (len(X), 1))


def judged(seconds, allowed, n=100, folds=5, converges=False):
    """What a slow method does in the time allowed, and the time that it took."""
    clock = Clock()
    peer = Peer("slow", lambda X, k: Slow(clock, k, seconds), 100, converges)
    parts, y = splits(n, folds)
    (found,) = baselines.baselines(parts, n, np.unique(y), allowed, peers=[peer], clock=clock)
    return found, clock.now


def test_a_method_with_time_enough_judges_every_row():
    found, spent = judged(seconds=1e-4, allowed=10.0)
    assert found.judged.all() and not found.note and (found.predicted == "b").all()
    assert spent == found.seconds < 10.0


def test_fewer_folds_and_then_fewer_iterations_and_then_fewer_rows():
    found, spent = judged(seconds=4e-4, allowed=10.0)  # 3.2 seconds a fold
    assert found.judged.sum() == 60 and spent <= 10.0
    assert found.note == "judged on 3 of the 5 folds to save time"
    found, spent = judged(seconds=4e-3, allowed=10.0)
    assert found.judged.sum() == 20 and spent <= 10.0
    assert found.note.startswith("stopped after 23 iterations to save time")
    found, spent = judged(seconds=1e-3, allowed=40.0, n=10_000)
    assert "fitted to 1,000 of 8,000 rows" in found.note and spent <= 40.0


def test_a_method_that_could_do_nothing_is_left_out():
    found, _ = judged(seconds=1.0, allowed=10.0)
    assert not found.judged.any() and "would have taken too long" in found.note


def test_a_method_that_fails_is_left_out_and_says_why():
    class Failing(DummyClassifier):
        def fit(self, X, y):
            raise ValueError("no such rows")

    parts, y = splits()
    peer = Peer("failing", lambda X, k: Failing(), 1)
    (found,) = baselines.baselines(parts, 100, np.unique(y), 10.0, peers=[peer])
    assert not found.judged.any() and found.note == "could not be fitted: no such rows"


def test_the_share_of_time_is_the_larger_of_two():
    assert (baselines.SECONDS, baselines.SHARE) == (10.0, 0.3)


def test_folds_are_those_of_the_model(table):
    trained = train(read_data(table, "label"), held_out="folds", baseline=True)
    names = [one.name for one in trained.baselines]
    assert names == ["The most frequent class", "Logistic regression", "Gradient boosting"]
    assert all(one.judged.all() for one in trained.baselines)
    majority, logistic, _ = trained.baselines
    labels, counts = np.unique(trained.y, return_counts=True)
    assert set(majority.predicted) == {labels[np.argmax(counts)]}
    assert np.mean(logistic.predicted == trained.held_out.y) > counts.max() / len(trained.y)
    np.testing.assert_allclose(logistic.probabilities.sum(axis=1), 1)
    assert not train(read_data(table, "label"), held_out="none", baseline=True).baselines
    assert not train(read_data(table, "label")).baselines


def test_rows_held_out_never_reach_the_fit():
    seen = []

    class Spy(DummyClassifier):
        def fit(self, X, y):
            seen.append(set(X[0]))
            return super().fit(X, y)

    parts, y = splits()
    peer = Peer("spy", lambda X, k: Spy(strategy="prior"), 1)
    baselines.baselines(parts, 100, np.unique(y), 10.0, peers=[peer])
    for values, split in zip(seen, parts, strict=True):
        for _, part in split.held_out():
            assert not values & set(part[0])


def test_words_and_holes_are_prepared(table, tmp_path):
    rows = people()
    rows.loc[::7, rows.columns[0]] = np.nan
    other = tmp_path / "other.csv"
    people(seed=1).to_csv(other, index=False)
    trained = train(read_data(table, "label"), test=other, baseline=True)
    assert all(one.judged.all() and not one.note for one in trained.baselines)
    assert len(trained.baselines[0].predicted) == len(trained.held_out.y)


def test_numbers_are_compared_with_the_mean(tmp_path):
    path = tmp_path / "houses.csv"
    houses().to_csv(path, index=False)
    trained = train(read_data(path, "price"), held_out="split", baseline=True)
    mean, linear, boosting = trained.baselines
    assert mean.probabilities is None and len(set(mean.predicted)) == 1
    y = trained.held_out.y
    errors = [np.mean((one.predicted - y) ** 2) for one in (mean, linear, boosting)]
    assert errors[1] < errors[0] and errors[2] < errors[0]


def test_the_model_file_keeps_them(table, tmp_path):
    trained = train(read_data(table, "label"), held_out="split", baseline=True)
    path = tmp_path / "model"
    done("fit", table, "-t", "label", "--held-out", "split", "--model", path, "-q", "--json")
    again = saved.restore(load(path), table, tmp_path)
    for one, other in zip(trained.baselines, again.baselines, strict=True):
        assert one.name == other.name
        np.testing.assert_array_equal(one.predicted, other.predicted)
        np.testing.assert_array_equal(one.judged, other.judged)
    done("fit", table, "-t", "label", "--no-baseline", "--model", path, "-q", "--json")
    assert saved.restore(load(path), table, tmp_path).baselines == ()


def test_tables_that_are_not_in_memory_have_them(table):
    with fitting.opened(table, "label", out_of_core=True) as data:
        mapped = train(data, held_out="split", baseline=True)
    whole = train(read_data(table, "label"), held_out="split", baseline=True)
    for one, other in zip(mapped.baselines, whole.baselines, strict=True):
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-6)


def test_all_peers_know_the_example():
    data = example()
    rows, others = np.arange(400), np.arange(400, 569)
    split = Split.aside(data.X, data.y, rows, others)
    found = baselines.baselines([split], 169, np.unique(data.y), 60.0, peers=CLASSIFIERS[1:])
    assert all(np.mean(one.predicted == data.y[others]) > 0.9 for one in found)
    assert replace(found[0], note="x").note == "x"
