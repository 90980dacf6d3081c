"""Fits of more rows than memory holds kernel values of: K found anew for each product."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fisherkit.core import BIASES, Gram, Kernel, Limits, Weights, half_held, solve, solve_many
from fisherkit.core.solvers import checkpoints, recomputed, tiles
from fisherkit.core.solvers.rates import Rates
from fisherkit.core.solvers.sampled import preconditioner_rank, sample_size
from fisherkit.core.solvers.tiles import Recomputed

N, MU = 700, 0.05
LITTLE = Limits(memory=500_000)  # bytes, which do not hold half of K


def problem(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    Y = np.stack([np.sign(X[:, 0] + 0.3 * rng.normal(size=n)), X[:, 1] * X[:, 2]], axis=1) + 3
    weights = Weights(rng.choice([0.5, 1.0, 3.0], size=n), rng.choice([1.0, 1.5], size=n))
    return X, Y, weights


def fit(gram, Y, weights, *, bias="free", mu=MU, limits=LITTLE, sample=60):
    return solve_many(gram, Y, weights, BIASES[bias], mu, np.arange(gram.n), sample, limits)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "exponential", "linear", "additive"])
def test_products_are_those_of_the_kernel_matrix(kernel, workers, monkeypatch):
    monkeypatch.setattr(tiles, "blas_threads", lambda: workers)
    monkeypatch.setattr(tiles, "_STRIP", 50)
    monkeypatch.setattr(tiles, "_TILE", 90)
    monkeypatch.setattr(tiles, "_SLOW_STRIP", 300)
    X, Y, _ = problem()
    gram = Gram(X + 10, Kernel(kernel, gamma=0.4))
    K, V = gram.full(), Y * [1e-30, 1e30]
    matrix, size = Recomputed.of(gram), np.abs(K @ V).max(axis=0)
    assert_allclose((matrix @ V) / size, K @ V / size, atol=1e-8)
    assert_allclose((matrix.single @ V) / size, K @ V / size, atol=2e-6)
    product = matrix.single @ Y.astype(np.float32)
    assert product.dtype == np.float32
    assert_allclose(product, K @ Y, atol=5e-6 * np.abs(K @ Y).max())
    assert np.all(matrix @ np.zeros((N, 2)) == 0)


def test_products_hardly_depend_on_the_number_of_threads(monkeypatch):
    X, Y, _ = problem(3000)
    gram, found = Gram(X, Kernel("rbf", gamma=0.4)), []
    for workers in (1, 2, 5):
        monkeypatch.setattr(tiles, "blas_threads", lambda workers=workers: workers)
        matrix = Recomputed.of(gram).single
        found.append(matrix @ Y)
        assert np.all(matrix @ Y == found[-1])
    for other in found[1:]:
        assert_allclose(other, found[0], rtol=1e-12)


def test_a_thread_that_fails_ends_the_product(monkeypatch):
    monkeypatch.setattr(tiles, "blas_threads", lambda: 2)
    X, Y, _ = problem()
    matrix = Recomputed.of(Gram(X, Kernel("rbf", gamma=0.4)))
    monkeypatch.setattr(Recomputed, "_values", lambda *words: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        matrix @ Y


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("bias", BIASES)
def test_it_is_the_fit_in_double_precision(bias, kernel):
    X, Y, weights = problem()
    gram = Gram(X, Kernel(kernel, gamma=0.4))
    exact, unit = solve(gram.full(), Y, weights, bias=BIASES[bias], penalty="rkhs", mu=MU)
    found = fit(gram, Y, weights, bias=bias)
    assert found.method == "recomputed"
    assert found.unit == pytest.approx(unit)
    K = gram.kernel.block(np.random.default_rng(1).normal(size=(99, 3)), X)
    gap = K @ (found.ridge.coef - exact.coef) + found.ridge.intercept - exact.intercept
    assert np.abs(gap).max() < 1e-7 * np.abs(Y).max()
    rows = np.arange(N - 60, N)
    assert_allclose(
        found.ridge.leave_one_out()[rows], exact.leave_one_out()[rows], rtol=5e-3, atol=1e-4
    )
    assert np.all(np.isnan(found.ridge.leave_one_out()[: N - 60]))


def test_what_single_precision_cannot_do_takes_steps_in_double_precision(caplog, monkeypatch):
    monkeypatch.setattr(recomputed, "_ROUND", 1e-9)  # more than single precision can do
    monkeypatch.setattr(recomputed, "_GAIN", 1e-6)
    X, Y, weights = problem()
    gram, mu = Gram(X, Kernel("rbf", gamma=0.4)), MU
    exact, _ = solve(gram.full(), Y, weights, bias=BIASES["free"], penalty="rkhs", mu=mu)
    with caplog.at_level("INFO", "fisherkit"):
        found = fit(gram, Y, weights, mu=mu).ridge
    assert "double precision" in caplog.text
    K = gram.full()
    gap = K @ (found.coef - exact.coef) + found.intercept - exact.intercept
    assert np.abs(gap).max() < 1e-7 * np.abs(Y).max()


def test_what_rounding_hides_is_refused(monkeypatch):
    X, Y, weights = problem()
    gram = Gram(X * 0.01, Kernel("rbf", gamma=0.4))
    with pytest.raises(ValueError, match=r"do not settle.*mu=1e-15.*Raise regularization"):
        fit(gram, Y, weights, mu=1e-15)
    monkeypatch.setattr(recomputed, "_STEPS", 1)
    with pytest.raises(ValueError, match="coefficients are not found after 2 steps"):
        fit(Gram(X, Kernel("rbf", gamma=0.4)), Y, weights)


def test_memory_decides_what_is_held():
    assert half_held(1000, Limits()) and half_held(1000, Limits(memory=20_000_000))
    assert not half_held(1000, Limits(memory=4_000_000))
    assert preconditioner_rank(50_000, Limits(memory=2 << 30)) < 2000
    assert preconditioner_rank(50_000) == 2000
    reference = np.empty(0)
    assert sample_size(3000, 1, reference) is None
    assert sample_size(3000, 1, reference, Limits(memory=1 << 26)) == 500


def test_the_time_of_recomputed_kernels_grows_with_columns_and_with_the_square_of_rows():
    speed = Rates(product=1e11, factor=1e11, memory=1e10, exponential=2e9)
    seconds = speed.recomputed(50_000, 20, 1500, 500)
    assert speed.recomputed(50_000, 200, 1500, 500) > seconds
    assert 3.9 < speed.sweep(100_000, 20, 2) / speed.sweep(50_000, 20, 2) < 4.1
    assert (
        speed.recomputed(50_000, 20, 1500, 1000) > seconds > speed.recomputed(50_000, 20, 1500, 0)
    )


class Stop(BaseException):
    """What Ctrl-C does, at a step of our choice."""


def stopped(monkeypatch, after):
    """Products stop after so many."""
    plain, count = Recomputed.__matmul__, [0]

    def product(self, V):
        count[0] += 1
        if count[0] > after:
            raise Stop
        return plain(self, V)

    monkeypatch.setattr(Recomputed, "__matmul__", product)
    return count


@pytest.mark.parametrize("after", [0, 2, 9, 14, 21, 24])
def test_a_stopped_fit_goes_on_to_the_same_result(after, tmp_path, monkeypatch):
    X, Y, weights = problem()
    gram, path = Gram(X, Kernel("rbf", gamma=0.4)), tmp_path / "state"
    monkeypatch.setattr("fisherkit.core.solvers.conjugate._TOGETHER", 1)
    monkeypatch.setattr("fisherkit.core.solvers.conjugate._COLUMNS", 20)
    limits = Limits(LITTLE.memory, path)
    with monkeypatch.context() as patch:
        count = stopped(patch, 10**6)
        whole = fit(gram, Y, weights).ridge
        products = count[0]
    assert products > 24
    with monkeypatch.context() as patch:
        stopped(patch, after)
        with pytest.raises(Stop):
            fit(gram, Y, weights, limits=limits)
    assert path.exists()
    with monkeypatch.context() as patch:
        count = stopped(patch, 10**6)
        found = fit(gram, Y, weights, limits=limits).ridge
        assert count[0] <= products - after + 5  # a step, or some rows, are done again
    assert_allclose(found.coef, whole.coef, rtol=0, atol=1e-12 * np.abs(whole.coef).max())
    assert_allclose(found.B_diag, whole.B_diag, rtol=1e-9)


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    X, Y, weights = problem()
    gram, path = Gram(X, Kernel("rbf", gamma=0.4)), tmp_path / "state"
    limits = Limits(LITTLE.memory, path)
    whole = fit(gram, Y, weights, limits=limits).ridge
    assert path.exists()
    for words in (
        (gram, Y + 1e-9, weights),
        (gram, Y, weights.take(np.arange(N)[::-1])),
        (Gram(X[::-1] + 0.0, gram.kernel), Y, weights),
        (Gram(X, Kernel("laplacian", gamma=0.4)), Y, weights),
    ):
        with pytest.raises(ValueError, match="another fit: its rows, targets, weights or kernel"):
            fit(*words, limits=limits)
    with pytest.raises(ValueError, match="another fit: its width or regularisation"):
        fit(gram, Y, weights, limits=limits, mu=2 * MU)
    # What other threads change of mu is no other fit.
    again = fit(gram, Y, weights, limits=limits, mu=MU * (1 + 1e-12)).ridge
    assert_allclose(again.coef, whole.coef, atol=1e-6 * np.abs(whole.coef).max())
    for content in (b"my thesis", b"", path.read_bytes()[:-99]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"is no checkpoint of fisherkit.*Give another path"):
            fit(gram, Y, weights, limits=limits)
        assert path.read_bytes() == content
    np.savez(path.with_suffix(".npz"), format="fisherkit checkpoint 0")
    with pytest.raises(ValueError, match="another version"):
        fit(gram, Y, weights, limits=Limits(LITTLE.memory, path.with_suffix(".npz")))


def test_a_path_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    X, Y, weights = problem()
    stopped(monkeypatch, 0)
    with pytest.raises(OSError, match="nowhere"):
        limits = Limits(LITTLE.memory, tmp_path / "nowhere" / "state")
        fit(Gram(X, Kernel("rbf", gamma=0.4)), Y, weights, limits=limits)


def test_states_are_written_now_and_then(tmp_path, monkeypatch):
    X, Y, weights = problem()
    path, written = tmp_path / "state", []
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "_PATIENCE", 0.0)
    plain = checkpoints.Checkpoint.write
    monkeypatch.setattr(
        checkpoints.Checkpoint, "write", lambda *words: [written.append(1), plain(*words)]
    )
    fit(Gram(X, Kernel("rbf", gamma=0.4)), Y, weights, limits=Limits(LITTLE.memory, path))
    assert len(written) > 10


CHILD = """
import sys, time
import numpy as np
from fisherkit import KernelRidgeCV
from fisherkit.core.solvers import checkpoints, recomputed
from fisherkit.core.solvers.conjugate import Descent
from fisherkit.rows import planning

checkpoints._EVERY = checkpoints._PATIENCE = 0.0
plain = Descent.step
def slow(*words):
    time.sleep(float(sys.argv[3]))
    return plain(*words)
Descent.step = slow
rng = np.random.default_rng(0)
X = rng.normal(size=(900, 3))
y = np.sin(X[:, 0]) + X[:, 1]
model = KernelRidgeCV(gamma=0.3, regularization=0.01, basis="full", max_memory=500_000,
                      checkpoint=sys.argv[1])
np.save(sys.argv[2], model.fit(X, y).predict(X))
assert model.selection_.method == "recomputed"
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_process_leaves_a_checkpoint_that_another_ends(ending, tmp_path):
    state, answer = tmp_path / "state", tmp_path / "answer.npy"

    def child(path, pause):
        words = [sys.executable, "-c", CHILD, str(path), str(answer), str(pause)]
        return subprocess.Popen(words, env=os.environ, stderr=subprocess.PIPE)

    process = child(state, 0.2)
    while not state.exists():
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(ending)
    process.communicate()
    assert state.exists() and not answer.exists()
    _, errors = child(state, 0.0).communicate()
    assert answer.exists(), errors.decode()
    assert not state.exists()  # it has served
    resumed = np.load(answer)
    child(tmp_path / "other", 0.0).communicate()
    assert_allclose(resumed, np.load(answer), atol=1e-12)
