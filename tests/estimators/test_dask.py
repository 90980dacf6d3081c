"""Dask collections on a real cluster of processes give the model that memory gives."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.rows.moments import FirstPass

dask = pytest.importorskip("dask", reason="Dask is an extra")
distributed = pytest.importorskip("distributed", reason="the cluster is part of Dask's extra")
da = pytest.importorskip("dask.array", reason="Dask is an extra")
dd = pytest.importorskip("dask.dataframe", reason="Dask is an extra")

# What a cluster of processes says about itself is not what is tested here.
pytestmark = pytest.mark.filterwarnings("default")

N, D = 900, 4
OPTIONS = {"gamma": 0.2, "basis": "random", "n_components": 50, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    return X, (np.sum(X[:, :3] ** 2, axis=1) + 0.7 * rng.normal(size=N) > 3).astype(int)


def gap(a, b):
    return np.max(np.abs(a - b)) / np.max(np.abs(a))


def assert_same(whole, lazy, X):
    assert lazy.regularization_ == pytest.approx(whole.regularization_, rel=1e-8)
    assert sorted(lazy.basis_indices_) == sorted(whole.basis_indices_)
    assert gap(whole.decision_function(X), lazy.decision_function(X)) < 1e-8
    assert gap(whole.predict_proba(X), lazy.predict_proba(X)) < 1e-8
    assert gap(whole.loo_decision_, lazy.loo_decision_.compute()) < 1e-8


@pytest.mark.parametrize("chunks", [(900, 4), (250, 4), ((1, 399, 500), 2)])
def test_chunks_do_not_matter(client, data, chunks):
    X, y = data
    whole = KernelFisherClassifier(**OPTIONS).fit(X, y)
    lazy = KernelFisherClassifier(**OPTIONS).fit(
        da.from_array(X, chunks=chunks), da.from_array(y, chunks=200)
    )
    assert_same(whole, lazy, X)
    assert "Dask collection of 900 rows" in lazy.selection_.reason


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_classes_weights_and_costs_agree(client, data, penalty):
    X, _ = data
    rng = np.random.default_rng(1)
    y = np.array(["low", "mid", "top"])[np.digitize(X[:, 0] + 0.5 * rng.normal(size=N), [-0.5, 1])]
    weight = rng.integers(0, 3, N).astype(float)
    options = OPTIONS | {"penalty": penalty, "class_weight": "balanced", "threshold": "balanced"}
    whole = KernelFisherClassifier(**options).fit(X, y, weight)
    lazy = KernelFisherClassifier(**options).fit(da.from_array(X, chunks=(300, 4)), y, weight)
    assert_same(whole, lazy, X)
    assert gap(whole.transform(X), lazy.transform(X)) < 1e-8


def test_frames_of_unknown_partition_sizes(client, data):
    import pandas as pd

    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    whole = KernelFisherClassifier(**OPTIONS).fit(frame[list("abcd")], y)
    lazy_frame = dd.from_pandas(frame, npartitions=3)
    model = KernelFisherClassifier(**OPTIONS).fit(lazy_frame[list("abcd")], lazy_frame["y"])
    assert_same(whole, model, frame[list("abcd")])
    probability = model.predict_proba(lazy_frame[list("abcd")])
    assert gap(whole.predict_proba(frame[list("abcd")]), probability.compute()) < 1e-8


def test_arrays_of_unknown_chunk_sizes(client, data):
    X, y = data
    some = X[:, 0] > -1
    lazy_X, lazy_y = da.from_array(X, chunks=(300, 4)), da.from_array(y, chunks=300)
    mask = da.from_array(some, chunks=300)
    whole = KernelFisherClassifier(**OPTIONS).fit(X[some], y[some])
    lazy = KernelFisherClassifier(**OPTIONS).fit(lazy_X[mask], lazy_y[mask])
    assert_same(whole, lazy, X)


def test_regression_agrees(client, data):
    X, _ = data
    Y = np.stack([np.sin(X[:, 0]), X[:, 1] ** 2], axis=1)
    Y += 0.1 * np.random.default_rng(0).normal(size=Y.shape)
    whole = KernelRidgeCV(**OPTIONS).fit(X, Y)
    lazy_X = da.from_array(X, chunks=(200, 4))
    lazy = KernelRidgeCV(**OPTIONS).fit(lazy_X, da.from_array(Y, chunks=(300, 1)))
    assert gap(whole.predict(X), lazy.predict(lazy_X).compute()) < 1e-8
    assert gap(whole.loo_prediction_, lazy.loo_prediction_.compute()) < 1e-8


def test_predictions_are_lazy(client, data):
    X, y = data
    model = KernelFisherClassifier(**OPTIONS).fit(X, y)
    lazy_X = da.from_array(X, chunks=(400, 4))
    for method in ("predict", "decision_function", "predict_proba", "transform"):
        result = getattr(model, method)(lazy_X)
        assert isinstance(result, da.Array)
        np.testing.assert_allclose(result.compute(), getattr(model, method)(X), rtol=1e-12)


def test_named_centres_are_gathered(client, data):
    X, y = data
    options = OPTIONS | {"basis": np.arange(3, 900, 20), "n_components": None}
    whole = KernelFisherClassifier(**options).fit(X, y)
    lazy = KernelFisherClassifier(**options).fit(da.from_array(X, chunks=(250, 4)), y)
    assert_same(whole, lazy, X)


def counted(block, folder):
    """A chunk that notes every time it is computed."""
    with open(os.path.join(folder, "count"), "a") as file:
        file.write("x\n")
    return block


def test_persisted_rows_are_computed_once(client, data, tmp_path):
    X, y = data
    lazy = da.from_array(X, chunks=(300, 4)).map_blocks(counted, str(tmp_path), dtype=float)
    lazy = lazy.persist()
    distributed.wait(lazy, timeout=120)
    before = (tmp_path / "count").read_text().count("x")
    KernelFisherClassifier(**OPTIONS).fit(lazy, y)
    assert (tmp_path / "count").read_text().count("x") == before


def test_tasks_grow_with_chunks_only(data, monkeypatch):
    from dask.delayed import Delayed

    X, y = data
    sizes, compute = [], Delayed.compute

    def count(task):
        sizes.append(len(task.__dask_graph__()))
        return compute(task, scheduler="synchronous")

    monkeypatch.setattr(Delayed, "compute", count)
    totals = []
    for rows in (100, 50):
        sizes.clear()
        with dask.config.set(scheduler="synchronous"):
            KernelFisherClassifier(**OPTIONS).fit(da.from_array(X, chunks=(rows, 4)), y)
        totals.append(max(sizes) / (N / rows))
    assert totals[1] < 1.3 * totals[0]


def test_a_killed_worker_does_not_change_the_model(data, tmp_path):
    # nested, so that it travels to the workers by value: they may not find this file
    def killing(block, folder, number, block_info=None):
        """Kills the worker that computes this chunk the third time (that is, in mid-fit), once."""
        flag = os.path.join(folder, "killed")
        if block_info and block_info[0]["chunk-location"][0] == number:
            seen = os.path.join(folder, "seen")
            with open(seen, "a") as file:
                file.write("x")
            if os.path.getsize(seen) == 2 and not os.path.exists(flag):
                with open(flag, "w"):
                    pass
                os.kill(os.getpid(), signal.SIGKILL)
        return block

    X, y = data
    whole = KernelFisherClassifier(**OPTIONS).fit(X, y)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
    ):
        lazy_X = da.from_array(X, chunks=(300, 4)).map_blocks(
            killing, str(tmp_path), 1, dtype=float
        )
        lazy = KernelFisherClassifier(**OPTIONS).fit(lazy_X, y)
        assert (tmp_path / "killed").exists()
        assert_same(whole, lazy, X)


LIMITED = """
    import resource
    import dask.array as da
    import numpy as np
    from distributed import Client, LocalCluster
    from fisherkit import KernelFisherClassifier

    if __name__ == "__main__":
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
            with Client(cluster) as client:
                X = da.random.default_rng(0).normal(size=(600_000, 20), chunks=(50_000, 20))
                y = (X[:, 0] > 0.3).astype(int)
                model = KernelFisherClassifier(
                    gamma=0.05, regularization=1.0, basis="random", n_components=10,
                    max_memory="30MB", random_state=0,
                )
                model.fit(X[:100_000], y[:100_000])
                size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (size + X.nbytes // 2, -1))
                model.fit(X, y)
                print("rows", model.loo_decision_.shape[0])
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's /proc")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_leaves_no_worker_busy_and_nothing_that_predicts(client, data, monkeypatch):
    X, y = data
    add, waiting = FirstPass.add, threading.Semaphore(1)

    def interrupted(self, sums, block):
        if waiting.acquire(blocking=False):
            os.kill(os.getpid(), signal.SIGINT)  # a worker sends it, the client gets it
        add(self, sums, block)

    monkeypatch.setattr(FirstPass, "add", interrupted)
    model = KernelFisherClassifier(**OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        model.fit(da.from_array(X, chunks=(20, D)), da.from_array(y, chunks=20))
    with pytest.raises(NotFittedError):
        model.predict(X[:2])
    deadline = time.monotonic() + 30  # what a worker has in hand is finished
    while any(client.processing().values()) and time.monotonic() < deadline:
        pass
    assert not any(client.processing().values())
    lazy = KernelFisherClassifier(**OPTIONS).fit(da.from_array(X), da.from_array(y))
    assert_same(KernelFisherClassifier(**OPTIONS).fit(X, y), lazy, X)


def test_the_client_never_holds_the_rows(tmp_path):
    script = tmp_path / "limited.py"
    script.write_text(textwrap.dedent(LIMITED))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert "rows 600000" in done.stdout, done.stderr[-2000:]


# --- bad input ------------------------------------------------------------------------------------


def fit(X, y, **options):
    with dask.config.set(scheduler="synchronous"):
        return KernelFisherClassifier(**(OPTIONS | options)).fit(X, y)


def test_a_string_column_is_named(data):
    import pandas as pd

    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd")).assign(town="x")
    with pytest.raises(ValueError, match="column 'town'"):
        fit(dd.from_pandas(frame, npartitions=2), y)


def test_a_chunk_without_rows_is_named(data):
    X, y = data
    lazy, target = da.from_array(X, chunks=(300, 4)), da.from_array(y, chunks=300)
    mask = da.from_array(np.arange(N) < 600, chunks=300)
    with pytest.raises(ValueError, match="Chunk 2 of y has no rows"):
        fit(lazy[mask], target[mask])


def test_nan_in_a_distant_chunk_is_named(data):
    X, y = data
    X = X.copy()
    X[700, 3] = np.nan
    with pytest.raises(ValueError, match="NaN in row 100 of chunk 2, column 3"):
        fit(da.from_array(X, chunks=(300, 4)), y)


def test_chunks_of_another_dtype_or_width_are_named(data):
    X, y = data
    lazy = da.from_array(X, chunks=(300, 4))

    def odd(block, change, block_info=None):
        return change(block) if block_info and block_info[0]["chunk-location"][0] == 1 else block

    with pytest.raises(ValueError, match="Chunk 1 of X has dtype float32"):
        fit(lazy.map_blocks(odd, lambda b: b.astype(np.float32), dtype=float), y)
    with pytest.raises(ValueError, match=r"Chunk 1 of X has shape \(300, 3\)"):
        fit(lazy.map_blocks(odd, lambda b: b[:, :3], dtype=float, chunks=lazy.chunks), y)


def test_a_budget_smaller_than_a_block_is_refused(data):
    X, y = data
    with pytest.raises(
        ValueError, match="max_memory leaves 1000 bytes, which is smaller than one block"
    ):
        fit(da.from_array(X, chunks=(300, 4)), y, max_memory=1000)


def test_targets_must_be_cut_like_the_rows(data):
    X, y = data
    lazy = da.from_array(X, chunks=(300, 4))
    unknown = lazy[lazy[:, 0] > -9]
    with pytest.raises(ValueError, match="y must be a Dask collection"):
        fit(unknown, y)
    with pytest.raises(ValueError, match="y has 899 rows, X has 900"):
        fit(lazy, y[1:])


def test_more_centres_than_rows_and_every_row_a_centre_are_refused(data):
    X, y = data
    lazy = da.from_array(X, chunks=(300, 4))
    with pytest.raises(ValueError, match="n_components=1000 is more than the 900"):
        fit(lazy, y, n_components=1000)
    with pytest.raises(ValueError, match="basis='full'"):
        fit(lazy, y, basis="full", n_components=None)
