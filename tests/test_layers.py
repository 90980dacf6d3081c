"""Packages import downwards and through their fronts, and ARCHITECTURE.md shows what `ls` does."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "fisherkit"
FILES = sorted(PACKAGE.rglob("*.py"))

# Each may import from those before it. Names without a folder are modules of the package itself.
ORDER = [
    *("interfaces", "stored", "terminal", "whole_files"),
    *("core", "tuning", "rows", "sparse", "bayes", "committee", "inference"),
    *(
        "columns",
        "estimators",
        "methods",
        "inspection",
        "model_selection",
        "datasets",
        "tables",
        "models",
    ),
    *("training", "plots", "report", "reproduction"),
    *("model_files", "onnx_export", "out_of_core", "cli", "__init__"),
]
LEVEL = {name: level for level, name in enumerate(ORDER)}
ARRAY_LIBRARIES = {"array_api_compat", "cupy", "torch"}
DASK = {"dask", "dask_expr", "distributed"}
MAX_LINES = 600
MOST_MODULES = 14  # of a package; the papers' experiments have as many as they have tables
MOST_ON_TOP = 12
MOST_ANY = 250


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def package_of(module: str) -> str:
    return module.split(".")[0]


def own_imports(source: str, module: str) -> set[str]:
    """Modules of fisherkit that ``source`` imports, as dotted paths below it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ["fisherkit", *above] if node.level else []
            base += node.module.split(".") if node.module else []
            paths = [".".join([*base, alias.name]) for alias in node.names]
        else:
            continue
        found |= {
            existing(path.split(".")[1:]) for path in paths if path.split(".")[0] == "fisherkit"
        }
    return found


def existing(parts: list[str]) -> str:
    """The module that a dotted path within fisherkit names or lies in."""
    for length in range(len(parts), 0, -1):
        place = PACKAGE.joinpath(*parts[:length])
        if place.with_suffix(".py").is_file():
            return ".".join(parts[:length])
        if place.is_dir():
            return ".".join([*parts[:length], "__init__"])
    return "__init__"


def outside_imports(source: str) -> set[str]:
    """Top-level names of the other packages that ``source`` imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).split(".")[0])
    return found


def upward(module: str, source: str) -> set[str]:
    """Packages above that of ``module`` from which it imports."""
    own = LEVEL[package_of(module)]
    packages = {package_of(other) for other in own_imports(source, module)}
    return {other for other in packages if LEVEL[other] > own}


def behind_fronts(module: str, source: str) -> set[str]:
    """Imports of names from within other packages, past their ``__init__``."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            parts = node.module.split(".")
            if parts[0] == "fisherkit" and len(parts) > 2 and parts[1] != package_of(module):
                found.add(node.module)
    return found


each_file = pytest.mark.parametrize("path", FILES, ids=module_name)
FRONTS = {"model_files", "onnx_export", "out_of_core", "__init__"}  # names for modules within


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_package_has_its_place():
    assert {package_of(module_name(path)) for path in FILES} == set(ORDER)


@each_file
def test_imports_point_down(path):
    module = module_name(path)
    above = upward(module, read(path))
    assert not above, f"{module} imports from {sorted(above)}, which come after it in ORDER"


@each_file
def test_packages_are_imported_through_their_fronts(path):
    module = module_name(path)
    if module not in FRONTS:
        assert not behind_fronts(module, read(path))


def test_no_import_cycle():
    graph = {}
    for path in FILES:
        module = module_name(path)
        graph[module] = {
            other for other in own_imports(read(path), module) if not other.endswith("__init__")
        } - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


@each_file
def test_only_the_array_module_knows_array_libraries(path):
    known = outside_imports(read(path)) & ARRAY_LIBRARIES
    assert not known or module_name(path) == "core.arrays", f"imports {sorted(known)}"


@each_file
def test_only_the_rows_on_dask_know_dask(path):
    assert not outside_imports(read(path)) & DASK or module_name(path) == "rows.dask_rows"


def private_uses(source: str, names: set[str]) -> set[str]:
    """Private names of estimators, read from or written to anything but ``self``."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in names:
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not own and not isinstance(node.value, ast.Call):  # super()
                found.add(node.attr)
    return found


def written(source: str) -> set[str]:
    """Attributes that are assigned on anything but ``self``."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in [*targets, getattr(node, "target", None)]:
            for part in ast.walk(target) if target is not None else ():
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                    name = ast.unparse(part.value)
                    if name != "self" and not name.startswith("tags"):  # scikit-learn's tags
                        found.add(f"{name}.{part.attr}")
    return found


def privates_of_estimators() -> set[str]:
    """Private methods and attributes of the classes in ``estimators/``."""
    names = set()
    for path in (PACKAGE / "estimators").glob("*.py"):
        for node in ast.walk(ast.parse(read(path))):
            if isinstance(node, ast.ClassDef):
                inside = list(ast.walk(node))
                names |= {n.name for n in inside if isinstance(n, ast.FunctionDef)}
                names |= {
                    n.attr
                    for n in inside
                    if isinstance(n, ast.Attribute)
                    and isinstance(n.ctx, ast.Store)
                    and getattr(n.value, "id", "") == "self"
                }
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


PRIVATES = privates_of_estimators()


@each_file
def test_no_other_package_touches_what_is_private_to_an_estimator(path):
    if package_of(module_name(path)) != "estimators":
        defined = {
            node.name
            for node in ast.walk(ast.parse(read(path)))
            if isinstance(node, ast.FunctionDef)
        }
        assert not private_uses(read(path), PRIVATES - defined)


@each_file
def test_only_estimators_write_into_themselves(path):
    if package_of(module_name(path)) == "estimators":
        assert not written(read(path))


def test_private_uses_and_foreign_writes_are_seen():
    assert private_uses("model._expansion.coef", {"_expansion"}) == {"_expansion"}
    assert private_uses("self._expansion, super()._store(x)", {"_expansion", "_store"}) == set()
    assert written("model.gamma_ = 1\nself.gamma_ = 2\nmodel.a.b, c = 1, 2") == {
        "model.gamma_",
        "model.a.b",
    }


@each_file
def test_the_file_is_short(path):
    n_lines = len(read(path).splitlines())
    assert n_lines <= MAX_LINES, f"{n_lines} lines: split the file at a seam"


def compares_the_bias(source: str) -> bool:
    """Whether something called bias is compared with anything."""
    return any(
        (getattr(side, "id", "") or getattr(side, "attr", "")) == "bias"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
    )


@each_file
def test_only_the_strategy_asks_which_bias_it_is(path):
    assert module_name(path) == "core.bias" or not compares_the_bias(read(path))


def test_a_comparison_of_the_bias_is_seen():
    assert compares_the_bias("if form.bias == 'free':\n    pass")
    assert compares_the_bias("x = 1 if 'free' != bias else 0")
    assert not compares_the_bias("row = form.bias.directions == 1")


def test_packages_are_small():
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_ON_TOP
    for package in {path.parent for path in FILES} - {PACKAGE}:
        modules = [path for path in package.glob("*.py") if path.stem != "__init__"]
        assert len(modules) <= MOST_MODULES or package.name == "reproduction", package.name


def test_any_stands_where_no_type_exists():
    names = [
        node.id
        for path in FILES
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, ast.Name)
    ]
    assert names.count("Any") <= MOST_ANY


def test_the_architecture_shows_the_tree():
    text = read(ROOT / "ARCHITECTURE.md")
    assert len(text.splitlines()) <= 150
    tree = text.split("## The tree")[1].split("\n## ")[0]
    bullets, rest = tree.rsplit("\n\nBeside them", 1)
    shown = {}
    for part in bullets.split("**`")[1:]:
        package, words = part.split("/`**", 1)
        shown[package] = set(re.findall(r"`(\w+)`", words))
    for package in PACKAGE.iterdir():
        if not (package / "__init__.py").is_file():
            continue
        parts = {part.parent.name for part in package.glob("*/__init__.py")}
        modules = {path.stem for path in package.glob("*.py")} - {"__init__"} | parts
        if package.name == "reproduction":
            modules = set()
        assert shown.pop(package.name) - {"__init__"} == modules, package.name
    assert not shown
    assert set(re.findall(r"`(\w+)\.py`", rest)) == {
        path.stem for path in PACKAGE.glob("*.py") if path.stem != "__init__"
    }


@pytest.mark.parametrize(
    "line",
    [
        "from ..estimators import KernelFisherClassifier",
        "from .. import estimators",
        "import fisherkit.estimators",
        "from fisherkit.estimators import KernelFisherClassifier",
        "from fisherkit import estimators",
        "def f():\n    from ..estimators import KernelFisherClassifier",
    ],
)
def test_every_spelling_of_an_upward_import_is_seen(line):
    assert upward("core.canonical", line) == {"estimators"}


def test_importing_the_package_itself_is_upward():
    assert upward("cli.commands", "from fisherkit import KernelFisherClassifier") == {"__init__"}
    assert upward("cli.commands", "import fisherkit") == {"__init__"}


def test_a_downward_import_is_allowed():
    line = "import numpy\nfrom .kernels import gram\nfrom . import arrays\nfrom .. import terminal"
    assert upward("core.canonical", line) == set()


def test_an_import_past_a_front_is_seen():
    line = "from fisherkit.core.kernels import Gram"
    assert behind_fronts("tuning.search", line) == {"fisherkit.core.kernels"}
    assert not behind_fronts("core.ridge", line)
