"""L1 distances: the same bits from one thread, from several, from SciPy and from numba."""

import importlib.util

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import laplacian_kernel

from fisherkit.core import l1_distances
from fisherkit.core.kernels import Kernel

needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="numba is not installed"
)
COMPILED = pytest.mark.parametrize(
    "compiled", [pytest.param(False, id="plain"), pytest.param(True, marks=needs_numba, id="numba")]
)
SHAPES = [(1, 1, 1), (3, 5, 2), (64, 64, 4), (65, 130, 7), (200, 1100, 13)]


@pytest.fixture(params=[1, 3])
def threads(request, monkeypatch):
    monkeypatch.setattr(l1_distances, "_THREADED", 0)
    monkeypatch.setattr(l1_distances, "_threads", lambda: request.param)


@COMPILED
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_distances_are_those_of_scipy_to_the_last_bit(shape, compiled, threads):
    n, m, d = shape
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    np.testing.assert_array_equal(
        l1_distances.cityblock(X, Y, compiled=compiled), cdist(X, Y, "cityblock")
    )
    np.testing.assert_array_equal(
        l1_distances.cityblock(X, X, compiled=compiled), cdist(X, X, "cityblock")
    )
    mirrored = np.asfortranarray(X)
    np.testing.assert_array_equal(
        l1_distances.cityblock(mirrored, mirrored, compiled=compiled), cdist(X, X, "cityblock")
    )


def test_the_laplacian_kernel_is_that_of_scikit_learn(threads):
    X, Y = np.random.default_rng(0).normal(size=(2, 150, 6))
    kernel = Kernel("laplacian", gamma=0.3)
    np.testing.assert_allclose(kernel.block(X, Y), laplacian_kernel(X, Y, gamma=0.3), rtol=1e-13)
    np.testing.assert_allclose(kernel.block(X, X), laplacian_kernel(X, gamma=0.3), rtol=1e-13)


@needs_numba
def test_machine_code_is_used_only_where_it_pays(monkeypatch):
    calls = []
    compile_once = l1_distances._compile
    monkeypatch.setattr(l1_distances, "_compile", lambda: calls.append(1) or compile_once())
    X = np.random.default_rng(0).normal(size=(100, 4))
    l1_distances.cityblock(X, X)
    assert not calls
    monkeypatch.setattr(l1_distances, "_COMPILED", 0)
    l1_distances.cityblock(X, X)
    assert calls
    calls.clear()
    single = X.astype(np.float32)
    np.testing.assert_allclose(
        l1_distances.cityblock(single, single), cdist(X, X, "cityblock"), rtol=1e-5, atol=1e-5
    )
    assert not calls


@pytest.mark.parametrize(
    ("value", "expected"), [("", None), ("1", 1), ("0", None), ("many", None), ("100000", None)]
)
def test_the_environment_limits_the_threads(monkeypatch, value, expected):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = l1_distances._threads()
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert l1_distances._threads() == (cores if expected is None else expected)
