"""Examples in docstrings that need the benchmark files; fixtures are in tests/conftest.py."""

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The examples of the loaders run where the benchmark files are."""
    if not os.environ.get("FISHERKIT_DATA"):
        needed = pytest.mark.skip(reason="FISHERKIT_DATA is not set")
        for item in items:
            if item.name in ("fisherkit.datasets.load_ida", "fisherkit.datasets.load_uci"):
                item.add_marker(needed)
