"""Fixtures shared by the test files."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from fisherkit.datasets import load_ida, load_uci


@pytest.fixture
def benchmark_data() -> str:
    """The folder of benchmark files; skips where there is none."""
    folder = os.environ.get("FISHERKIT_DATA")
    if not folder:
        pytest.skip("FISHERKIT_DATA is not set: the benchmark sets are not available")
    return folder


@pytest.fixture
def ida(benchmark_data: str) -> Callable[..., Any]:
    """``load_ida``, in a test that needs the benchmark files."""
    return load_ida


@pytest.fixture
def uci(benchmark_data: str) -> Callable[..., Any]:
    """``load_uci``, in a test that needs the benchmark files."""
    return load_uci
