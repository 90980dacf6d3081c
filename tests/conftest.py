"""Fixtures shared by the test files."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fisherkit.datasets import load_ida, load_uci


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of other machines cannot be resolved, so that no test starts a download."""
    resolve = socket.getaddrinfo

    def local_only(host: Any, *args: Any, **kwargs: Any) -> Any:
        own = (None, "", "localhost", "127.0.0.1", "0.0.0.0", "::1", "::", socket.gethostname())
        if host not in own:
            raise socket.gaierror(f"no network in tests: {host}")
        return resolve(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", local_only)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT interrupts, also where this process was told to ignore it, as in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A Dask client of two workers within this process."""
    distributed = pytest.importorskip("distributed", reason="the cluster is part of Dask's extra")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
