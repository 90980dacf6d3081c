"""The committee on row blocks is the committee in memory, from any container, block by block."""

import logging
import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from fisherkit import FisherCommitteeClassifier
from fisherkit.committee import streamed
from fisherkit.committee.members import Status
from fisherkit.rows import blocks as row_blocks
from fisherkit.rows import planning
from fisherkit.rows.sources import LocalRows
from fisherkit.tuning import likelihood

N = 900
SMALL = 1_200_000  # bytes: below what these fits take in memory


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    y = (np.sum(X[:, :3] ** 2, axis=1) + 0.7 * rng.normal(size=N) > 3).astype(int)
    return X, y


def committee(**options):
    defaults = {"n_widths": 2, "basis": "random", "n_components": 80, "random_state": 0}
    return FisherCommitteeClassifier(**(defaults | options))


def gap(a, b):
    return np.max(np.abs(a - b)) / np.max(np.abs(a))


def assert_same(whole, blocks, X, tolerance=1e-8):
    assert whole.status_ is blocks.status_
    assert list(whole.dual_coef_) == list(blocks.dual_coef_)
    for key, rows in whole.basis_indices_.items():
        assert sorted(rows) == sorted(blocks.basis_indices_[key])
    assert whole.members_.dtype == blocks.members_.dtype
    for name in ("gamma", "mu", "unit", "loo_log_loss"):
        np.testing.assert_allclose(blocks.members_[name], whole.members_[name], rtol=tolerance)
    assert gap(whole.weights_, blocks.weights_) < tolerance
    assert gap(whole.decision_function(X), blocks.decision_function(X)) < tolerance
    assert gap(whole.predict_proba(X), blocks.predict_proba(X)) < tolerance
    assert gap(whole.loo_proba_, blocks.loo_proba_) < tolerance


@pytest.fixture
def sweeps(monkeypatch):
    """The passes over the rows, by type."""
    seen, sweep = [], LocalRows.sweep

    def counted(self, step):
        inner = getattr(step, "steps", [step])
        seen.append((type(inner[0]).__name__, len(inner)))
        return sweep(self, step)

    monkeypatch.setattr(LocalRows, "sweep", counted)
    return seen


def pair(X, y, weight=None, memory=SMALL, **options):
    """The fit in memory and the one on row blocks."""
    whole = committee(**options, max_memory="8GB").fit(X, y, weight)
    blocks = committee(**options, max_memory=memory)
    assert blocks._plan(X).streamed
    return whole, blocks.fit(X, y, weight)


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_the_committee_is_that_of_memory(data, penalty):
    X, y = data
    assert_same(*pair(X, y, penalty=penalty), X)


@pytest.mark.parametrize("memory", [1_000_000, 2_000_000, 4_000_000])
def test_block_size_does_not_matter(data, memory):
    X, y = data
    assert_same(*pair(X, y, memory=memory), X, 1e-9)


def test_rows_are_read_twice_where_memory_allows(data, sweeps):
    X, y = data
    committee(n_components=40, max_memory=3_000_000).fit(X, y)
    assert sweeps == [("Survey", 1), ("FirstPass", 4), ("ScorePass", 4)]


def test_widths_are_read_in_groups_where_it_does_not(data, sweeps, caplog):
    X, y = data
    with caplog.at_level(logging.INFO, "fisherkit"):
        committee(max_memory=SMALL).fit(X, y)
    assert sweeps[:9] == [("Survey", 1)] + 4 * [("FirstPass", 1), ("ScorePass", 1)]
    assert "two passes for each of 4 groups of widths" in caplog.text


@pytest.mark.parametrize("combine", ["stack", "best"])
def test_other_ways_to_combine_agree(data, combine):
    X, y = data
    assert_same(*pair(X, y, memory=4_000_000, combine=combine), X)


def test_members_of_a_width_are_scored_in_parts_where_their_scores_do_not_fit(data, sweeps):
    X, y = data
    assert_same(*pair(X, y, memory=600_000, combine="best", n_components=60), X)
    assert sweeps[:4] == [("Survey", 1), ("FirstPass", 1), ("ScorePass", 1), ("ScorePass", 1)]


@pytest.mark.parametrize("memory", [600_000, 1_000_000])
def test_logits_that_memory_does_not_hold_are_found_again(data, sweeps, memory, caplog):
    X, y = data
    options = {"min_weight": 0, "n_components": 50}
    with caplog.at_level(logging.INFO, "fisherkit"):
        whole, blocks = pair(X, y, memory=memory, **options)
    assert_same(whole, blocks, X)
    assert np.all(blocks.weights_ > 0)
    assert "both passes again" in caplog.text


@pytest.mark.parametrize("combine", ["average", "stack"])
def test_several_classes_with_costs_agree(combine):
    X, y = make_blobs(N, 3, centers=3, cluster_std=3.0, random_state=1)
    y = np.array(["a", "b", "c"])[y]
    memory, n_widths = (4_500_000, 1) if combine == "stack" else (SMALL, 2)
    options = {"combine": combine, "class_weight": "balanced", "n_widths": n_widths}
    whole, blocks = pair(X / 4, y, memory=memory, n_components=100, **options)
    assert_same(whole, blocks, X / 4)
    assert list(blocks.predict(X[:9] / 4)) == list(whole.predict(X[:9] / 4))


def test_weights_count_copies_and_zero_is_absence(data):
    X, y = data
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
    weight[7] = 0.3
    options = {"memory": 2_000_000, "class_weight": {0: 2.0, 1: 1.0}}
    assert_same(*pair(X, y, weight, **options), X)


def test_centres_and_widths_can_be_named(data):
    X, y = data
    options = {"basis": np.arange(5, 900, 11), "n_components": None, "gammas": [0.1, 0.3]}
    assert_same(*pair(X, y, **options), X)


def test_pivots_are_found_for_each_width(data):
    X, y = data
    whole, blocks = pair(X, y, basis="pivoted")
    assert all(len(rows) == 80 for rows in blocks.basis_indices_.values())
    best = whole.members_["loo_log_loss"].min()
    assert blocks.members_["loo_log_loss"].min() == pytest.approx(best, rel=0.05)


@pytest.mark.parametrize("kind", ["memmap", "csr", "pandas"])
def test_containers_agree(data, tmp_path, kind):
    X, y = data
    np.save(tmp_path / "X.npy", X)
    container = {
        "memmap": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "csr": scipy.sparse.csr_matrix(X),
        "pandas": pd.DataFrame(X, columns=list("abcd")),
    }[kind]
    options = {"kernels": ("rbf",), "n_components": 150}
    whole = committee(**options, max_memory="8GB").fit(X, y)
    blocks = committee(**options, max_memory=SMALL).fit(container, y)
    assert gap(whole.loo_proba_, blocks.loo_proba_) < 1e-8
    assert gap(whole.decision_function(X), blocks.decision_function(container)) < 1e-8


def test_a_sparse_matrix_that_fits_is_fitted_in_memory(data):
    X, y = data
    sparse = committee().fit(scipy.sparse.csr_matrix(X[:200]), y[:200])
    np.testing.assert_array_equal(sparse.loo_proba_, committee().fit(X[:200], y[:200]).loo_proba_)


@pytest.mark.skipif(
    os.environ.get("SCIPY_ARRAY_API") != "1",
    reason="array dispatch needs SCIPY_ARRAY_API=1 set before SciPy is imported",
)
@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_arrays_of_another_library_stay_there(data, library):
    xp = pytest.importorskip(library, reason="another array library is optional")
    X, y = data
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
    whole = committee(max_memory="8GB").fit(X, y, weight)
    with config_context(array_api_dispatch=True):
        blocks = committee(max_memory=SMALL).fit(*map(xp.asarray, (X, y, weight)))
        decision = blocks.decision_function(xp.asarray(X))
    for fitted in (blocks.loo_proba_, blocks.weights_, *blocks.dual_coef_.values(), decision):
        assert type(fitted).__module__.startswith(library)
    assert gap(whole.loo_proba_, np.asarray(blocks.loo_proba_)) < 1e-8
    assert gap(whole.decision_function(X), np.asarray(decision)) < 1e-8


def test_features_without_information_leave_the_class_shares():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 4)), rng.integers(0, 2, N)
    whole, blocks = pair(X, y)
    assert blocks.status_ is whole.status_ is Status.CLASS_PRIOR
    np.testing.assert_allclose(blocks.loo_proba_, whole.loo_proba_, rtol=1e-12)
    assert blocks.dual_coef_ == {}


def test_threads_change_rounding_only(data, monkeypatch):
    X, y = data
    monkeypatch.setattr("fisherkit.core.arrays.BLOCK_ELEMENTS", 5000)  # several parts
    one = committee(max_memory=2_000_000).fit(X, y)
    for module in ("rows.sources", "committee.streamed"):
        monkeypatch.setattr(f"fisherkit.{module}.blas_threads", lambda: 3)
    before = threading.active_count()
    many = committee(max_memory=2_000_000).fit(X, y)
    assert threading.active_count() == before
    assert gap(one.loo_proba_, many.loo_proba_) < 1e-9


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_members_are_calibrated_leaves_nothing_that_predicts(data, monkeypatch):
    X, y = data
    before, once = threading.enumerate(), threading.Semaphore(1)
    monkeypatch.setattr("fisherkit.core.arrays.BLOCK_ELEMENTS", 5000)
    for module in ("rows.sources", "committee.streamed"):
        monkeypatch.setattr(f"fisherkit.{module}.blas_threads", lambda: 2)
    sums = likelihood._logit_sums

    def interrupted(rows, arrays, theta):
        if once.acquire(blocking=False):
            os.kill(os.getpid(), signal.SIGINT)  # a worker sends it, the main thread gets it
        return sums(rows, arrays, theta)

    monkeypatch.setattr(likelihood, "_logit_sums", interrupted)
    model = committee(max_memory=2_000_000)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    for _ in range(300):  # one that was just being started ends after its block
        if set(threading.enumerate()) <= set(before):
            break
        time.sleep(0.1)
    assert set(threading.enumerate()) <= set(before)
    with pytest.raises(NotFittedError):
        model.predict(X[:2])


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "options", "message"),
    [
        (20_000, {}, "smaller than one block"),
        (1_000_000, {"combine": "stack"}, "combine='stack' needs 100"),
        (SMALL, {"n_components": N + 1}, "n_components"),
        (SMALL, {"combine": "mean"}, "combine='mean'"),
        (SMALL, {"gammas": [-1.0]}, "gammas"),
        ("much", {}, "max_memory='much' is not valid"),
    ],
)
def test_what_cannot_be_is_refused_before_the_passes(data, memory, options, message, sweeps):
    X, y = data
    with pytest.raises(ValueError, match=message):
        committee(**options, max_memory=memory).fit(X, y)
    assert {name for name, _ in sweeps} <= {"Survey"}


def test_memory_that_does_not_hold_one_member_is_refused_before_any_row_is_read(sweeps):
    X = np.zeros((200_000, 2))
    with pytest.raises(ValueError, match="combine='average' needs 1"):
        committee(max_memory=1_000_000).fit(X, np.arange(len(X)) % 2)
    assert sweeps == []


def test_nan_in_a_distant_block_is_named(data):
    X, y = data
    X = X.copy()
    X[N - 3, 2] = np.nan
    with pytest.raises(ValueError, match=f"NaN in row {N - 3}, column 2"):
        committee(max_memory=SMALL).fit(X, y)


def test_an_interrupted_fit_leaves_nothing_that_predicts(data, monkeypatch):
    X, y = data

    def interrupt(self, sums, block):
        raise KeyboardInterrupt

    monkeypatch.setattr("fisherkit.committee.streamed.ScorePass.add", interrupt)
    model = committee(max_memory=SMALL)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X[:2])


def test_some_rows_say_which_widths_take_part_whatever_the_container(data, monkeypatch):
    X, y = data
    every, _ = pair(X, y, n_widths=7)
    monkeypatch.setattr(planning, "SUMS", 1000)
    monkeypatch.setattr(streamed, "SUMS", 1000)
    monkeypatch.setattr(row_blocks, "SAMPLE_SHARE", 0.8)
    whole, blocks = pair(X, y, n_widths=7, memory=2_800_000)
    assert len(whole.members_) < len(every.members_)
    assert_same(whole, blocks, X)
    assert np.abs(whole.predict_proba(X) - every.predict_proba(X)).max() < 0.05
    twice = np.repeat(np.arange(N), 2)
    copies, weighted = (
        committee(n_widths=7, n_components=40).fit(*rows)
        for rows in ((X[twice], y[twice]), (X, y, np.full(N, 2.0)))
    )
    assert gap(copies.predict_proba(X), weighted.predict_proba(X)) < 1e-6
