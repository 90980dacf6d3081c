"""What is public is documented, shown by an example that runs, typed, and quick to import."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import fisherkit

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference.md"
BLOCK = re.compile(r"\.\. currentmodule:: (\S+)\n\.\. autosummary::\n(.*?)^```", re.M | re.S)


def listed() -> dict[str, set[str]]:
    """Names of the reference, by module."""
    return {
        module: {line.strip() for line in body.splitlines() if re.fullmatch(r"   \w+", line)}
        for module, body in BLOCK.findall(REFERENCE.read_text(encoding="utf-8"))
    }


def public_modules() -> set[str]:
    """Modules of the package that say what is public in them."""
    found = set()
    for path in (ROOT / "src" / "fisherkit").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        targets = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
        if any(isinstance(name, ast.Name) and name.id == "__all__" for name in targets):
            found.add("fisherkit" if path.stem == "__init__" else f"fisherkit.{path.stem}")
    return found


PUBLIC = [(module, name) for module in sorted(listed()) for name in sorted(listed()[module])]
each_public_name = pytest.mark.parametrize(("module", "name"), PUBLIC, ids=lambda text: text)


def test_the_reference_lists_every_public_module():
    assert set(listed()) == public_modules()


@pytest.mark.parametrize("module", sorted(listed()))
def test_the_reference_lists_what_a_module_calls_public(module):
    names = import_module(module).__all__
    assert listed()[module] == set(names)
    assert list(names) == sorted(names)


@each_public_name
def test_a_public_name_has_an_example_that_runs(module, name):
    item = getattr(import_module(module), name)
    text = inspect.getdoc(item) or ""
    assert text, f"{module}.{name} has no docstring"
    if not (inspect.isclass(item) and issubclass(item, Exception)):
        assert ">>> " in text, f"{module}.{name} has no example"
        assert "+SKIP" not in text, f"the example of {module}.{name} does not run"


def test_importing_is_clean_and_does_not_wait_for_scikit_learn():
    program = "import sys, fisherkit; print('sklearn' in sys.modules, len(fisherkit.__all__))"
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.split() == ["False", "7"]


@pytest.mark.parametrize("module", sorted(listed()))
def test_every_public_module_can_be_imported_without_a_warning(module):
    command = [sys.executable, "-W", "error", "-c", f"import {module}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert project["version"] == fisherkit.__version__
    assert f"\nversion: {fisherkit.__version__}\n" in citation


def test_the_package_is_typed():
    assert (ROOT / "src" / "fisherkit" / "py.typed").exists()
    for module, name in PUBLIC:
        item = getattr(import_module(module), name)
        members = vars(item) if inspect.isclass(item) else {name: item}
        for title, function in members.items():
            public = title == "__init__" or not title.startswith("_")
            if inspect.isfunction(function) and public:
                assert function.__annotations__, f"{module}.{name}: {title}"
