"""The gallery keeps its rules; that its claims hold, the build of the documentation checks."""

import ast
import re
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("plot_*.py"))
TREES = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in EXAMPLES}
each_example = pytest.mark.parametrize("name", TREES)


def stated(name, field):
    """What the docstring says under ``:field:``."""
    found = re.search(rf"^:{field}: (.+)$", ast.get_docstring(TREES[name]), re.MULTILINE)
    assert found, f"{name} does not name its {field}"
    return found[1]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60


@each_example
def test_the_claim_of_an_example_is_asserted(name):
    assert any(isinstance(node, ast.Assert) for node in ast.walk(TREES[name]))


def test_no_two_examples_share_a_claim_or_a_pair_of_data_and_method():
    assert len(TREES) >= 15
    titles = [ast.get_docstring(tree).splitlines()[0] for tree in TREES.values()]
    assert len(set(titles)) == len(titles)
    pairs = [(head(stated(name, "Data")), head(stated(name, "Method"))) for name in TREES]
    assert len(set(pairs)) == len(pairs)


def head(text):
    """The name without what is said about it: neither a subset nor an option makes a new pair."""
    return re.split(r"[,(]| with ", text)[0].strip()
