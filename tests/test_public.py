"""What is public is documented, shown by an example that runs, typed, and quick to import."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import fisherkit
from fisherkit.training.fitting import opened, train

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
    """Modules and packages of fisherkit that say what is public in them."""
    found = set()
    source = ROOT / "src" / "fisherkit"
    for path in [*source.glob("*.py"), *source.glob("*/__init__.py")]:
        if path.parent.name in INTERNAL:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        targets = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
        if any(isinstance(name, ast.Name) and name.id == "__all__" for name in targets):
            parts = path.relative_to(source.parent).with_suffix("").parts
            found.add(".".join(part for part in parts if part != "__init__"))
    return found


# Packages that name what they offer to others of fisherkit, and promise nothing to users.
INTERNAL = {
    *("core", "tuning", "rows", "sparse", "bayes", "committee", "inference", "columns"),
    *("estimators", "models", "cli", "reproduction"),
}
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
    for title, member in inspect.getmembers(item, callable) if inspect.isclass(item) else ():
        ours = str(getattr(member, "__module__", "")).startswith("fisherkit")
        assert title.startswith("_") or not ours or member.__doc__, f"{module}.{name}.{title}"


SECTION = re.compile(r"^(\w[\w ]*)\n-+\n", re.M)
# what they say of formulas is said where they refer to
LIKE = {"permutation_test_score": "cross_val_predict", "learning_curve": "cross_val_predict"}


def sections(item) -> dict[str, str]:
    """The parts of a docstring by their titles, in the form of numpydoc."""
    _, *parts = SECTION.split(inspect.getdoc(item) or "")
    return dict(zip(parts[::2], parts[1::2], strict=True))


def named(section: str) -> set[str]:
    """The names that a list of parameters or attributes explains."""
    heads = [line.split(" : ")[0] for line in section.splitlines() if re.match(r"[\w*]", line)]
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


@each_public_name
def test_every_parameter_and_result_is_explained(module, name):
    item = getattr(import_module(module), name)
    if inspect.isclass(item) and issubclass(item, Exception):
        return
    found = sections(item)
    explained = named(found.get("Parameters", found.get("Attributes", "")))
    assert explained == set(inspect.signature(item).parameters)
    if not inspect.isclass(item):
        returned = inspect.signature(item).return_annotation
        assert returned in (None, "None") or "Returns" in found


@pytest.mark.parametrize("name", [n for n in fisherkit.__all__ if n[0].isupper()])
def test_every_fitted_attribute_is_explained(name):
    X, y = load_iris(return_X_y=True)
    model = getattr(fisherkit, name)().fit(X[::3], y[::3])
    fitted = {key for key in dir(model) if key.endswith("_") and not key.startswith("_")}
    assert named(sections(model)["Attributes"]) == fitted - {"n_features_in_"}


COMPUTING = [(m, n) for m, n in PUBLIC if m in ("fisherkit", "fisherkit.model_selection")]


@pytest.mark.parametrize(("module", "name"), COMPUTING, ids=lambda text: text)
def test_what_computes_says_what_and_at_which_cost(module, name):
    item = getattr(import_module(module), name)
    assert "*Cost.* " in sections(item)["Notes"]
    text = inspect.getdoc(item)
    assert ".. math::" in text or f"`{LIKE[name]}`" in text


@pytest.mark.parametrize(
    "method",
    [fisherkit.KernelFisherClassifier.predict_set, fisherkit.KernelRidgeCV.predict_interval],
)
def test_conformal_methods_say_at_which_cost(method):
    found = sections(method)
    assert ">>> " in found["Examples"]
    assert "*Cost.* " in found["Notes"]


def test_importing_is_clean_and_does_not_wait_for_scikit_learn():
    program = "import sys, fisherkit; print('sklearn' in sys.modules, len(fisherkit.__all__))"
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.split() == ["False", "9"]


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


@pytest.mark.parametrize("out_of_core", [False, True], ids=["memory", "out of core"])
@pytest.mark.parametrize("constant", [0, 101], ids=["named", "found anew"])
def test_the_code_that_inspect_shows_uses_documented_names_only(tmp_path, constant, out_of_core):
    numbers = {"x": np.arange(40.0) % 7, "z": np.arange(40) % 3}
    numbers |= {f"same_{k}": np.ones(40) for k in range(constant)}
    pd.DataFrame({**numbers, "y": ["a", "b"] * 20}).to_csv(tmp_path / "t.csv", index=False)
    with opened(tmp_path / "t.csv", "y", out_of_core=out_of_core) as data:
        code = train(data, held_out="none").code
    exec(code, {})
    imports = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom)]
    ours = {(str(node.module), name.name) for node in imports for name in node.names}
    ours = {(module, name) for module, name in ours if module.startswith("fisherkit")}
    assert ours and ours <= {(module, name) for module, some in listed().items() for name in some}
