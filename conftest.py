"""Threads of the test run, and examples in docstrings that need the benchmark files.

Fixtures are in tests/conftest.py.
"""

import os

import pytest
from threadpoolctl import threadpool_limits

# The matrices of the tests are small: threads only get in each other's way, here and in the
# processes that tests start. Rounding, too, is then that of one thread.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
threadpool_limits(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The examples of the loaders run where the benchmark files are."""
    if not os.environ.get("FISHERKIT_DATA"):
        needed = pytest.mark.skip(reason="FISHERKIT_DATA is not set")
        for item in items:
            if item.name in (
                "fisherkit.datasets.loaders.load_ida",
                "fisherkit.datasets.loaders.load_uci",
            ):
                item.add_marker(needed)
