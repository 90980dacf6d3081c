"""The committee on Dask collections is the committee in memory."""

import numpy as np
import pytest

from fisherkit import FisherCommitteeClassifier

da = pytest.importorskip("dask.array", reason="Dask is an extra")
dd = pytest.importorskip("dask.dataframe", reason="Dask is an extra")

# What a cluster says about itself is not what is tested here.
pytestmark = pytest.mark.filterwarnings("default")

N, D = 600, 4


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    return X, (np.sum(X[:, :3] ** 2, axis=1) + 0.7 * rng.normal(size=N) > 3).astype(int)


def committee(**options):
    defaults = {"n_widths": 1, "basis": "random", "n_components": 40, "random_state": 0}
    return FisherCommitteeClassifier(**(defaults | options))


def gap(a, b):
    return np.max(np.abs(a - b)) / np.max(np.abs(a))


def assert_same(whole, lazy, X):
    assert list(whole.dual_coef_) == list(lazy.dual_coef_)
    for key, rows in whole.basis_indices_.items():
        assert sorted(rows) == sorted(lazy.basis_indices_[key])
    assert gap(whole.weights_, lazy.weights_) < 1e-8
    assert gap(whole.decision_function(X), lazy.decision_function(X)) < 1e-8
    assert gap(whole.loo_proba_, lazy.loo_proba_.compute()) < 1e-8


@pytest.mark.parametrize("chunks", [(600, 4), ((1, 299, 300), 2)])
def test_chunks_do_not_matter(client, data, chunks):
    X, y = data
    lazy = committee().fit(da.from_array(X, chunks=chunks), da.from_array(y, chunks=200))
    assert_same(committee().fit(X, y), lazy, X)


def test_classes_weights_and_stacking_agree(client, data):
    X, _ = data
    rng = np.random.default_rng(1)
    y = np.array(["low", "mid", "top"])[np.digitize(X[:, 0] + 0.5 * rng.normal(size=N), [-0.5, 1])]
    weight = rng.integers(0, 3, N).astype(float)
    options = {"combine": "stack", "class_weight": "balanced", "kernels": ("rbf",)}
    lazy = committee(**options).fit(
        da.from_array(X, chunks=(250, 4)), da.from_array(y, chunks=250), weight
    )
    assert_same(committee(**options).fit(X, y, weight), lazy, X)


def test_frames_and_named_centres(client, data):
    pd = pytest.importorskip("pandas", reason="Dask frames are pandas frames")
    X, y = data
    options = {"kernels": ("rbf",), "basis": np.arange(3, 600, 17), "n_components": None}
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")).assign(y=y), npartitions=3)
    lazy = committee(**options).fit(frame[list("abcd")], frame["y"])
    whole = committee(**options).fit(pd.DataFrame(X, columns=list("abcd")), y)
    assert_same(whole, lazy, pd.DataFrame(X, columns=list("abcd")))
    answer = lazy.predict_proba(frame[list("abcd")])
    assert gap(lazy.predict_proba(frame[list("abcd")].compute()), answer.compute()) < 1e-12


def test_logits_that_tasks_do_not_hold_are_found_again(client, data):
    X, y = data
    options = {"kernels": ("rbf",), "n_widths": 4, "min_weight": 0}
    lazy = committee(**options, max_memory=600_000).fit(
        da.from_array(X, chunks=(300, 4)), da.from_array(y, chunks=300)
    )
    assert_same(committee(**options).fit(X, y), lazy, X)


def test_what_needs_every_row_is_refused(client, data):
    X, y = data
    with pytest.raises(ValueError, match="basis='full'"):
        committee(basis="full", n_components=None).fit(da.from_array(X, chunks=(300, 4)), y)
