"""Imports only point down, only one file knows array namespaces, and no file grows too long."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "fisherkit"
FILES = sorted(PACKAGE.rglob("*.py"))

LAYERS = [
    ["_array", "_blas", "_cityblock", "progress", "whole_files"],
    ["kernels", "coding", "weights", "covariance"],
    ["basis"],
    ["canonical", "ridge", "sums", "moments"],
    ["criteria", "decompose", "evidence"],
    [
        *(
            "copies",
            "select",
            "tune",
            "calibrate",
            "descent",
            "sparse",
            "crossfit",
            "learners",
            "climb",
        ),
        *("forward", "forward_sweep", "greedy"),
        *("bayes", "posterior", "em", "relevance", "likelihood", "committee", "blocks"),
        *("refined", "rows", "large", "committee_rows", "dask_rows"),
        *("relabel", "influence", "conformal"),
    ],
    [
        *("validation", "kernel_model", "discriminant", "estimators", "sparse_estimators"),
        *("bayes_parameters", "bayes_estimator", "committee_estimator", "labels"),
        *("model_selection", "inspection", "left_out", "streaming", "dask_fit", "ard"),
        *("dask_committee", "streamed_path"),
    ],
    [
        *("generators", "fetch", "datasets", "loo_plots", "plots", "tables", "recipes"),
        *(
            "frames",
            "asked",
            "label_words",
            "sheets",
            "training_rows",
            "text_files",
            "columnar_files",
            "training_data",
            "preparation",
            "out_of_core",
        ),
        *("training", "training_code", "training_files", "model_files", "prediction"),
        *("model_archives", "model_checks"),
        *("onnx_graph", "onnx_export", "console", "terminal", "cli_options"),
        *("report", "report_blocks", "report_scores", "report_quality", "report_model"),
        "report_data",
    ],
    [
        f"reproduction.{module}"
        for module in (
            *("tasks", "splits", "printed", "methods", "studies", "experiments", "figures"),
            *("catalogue", "journal", "runner", "tables", "findings", "page", "__init__"),
            *("trials", "loo_studies", "toy_studies", "canvas", "loo_figures", "toy_figures"),
            *("rank_figure", "table_findings", "command"),
        )
    ],
    ["cli_reproduce", "cli"],
    ["__init__"],
]
LEVEL = {module: level for level, modules in enumerate(LAYERS) for module in modules}
ARRAY_LIBRARIES = {"array_api_compat", "cupy", "torch"}
MAX_LINES = 600


def own_imports(source: str) -> set[str]:
    """Modules of the package that ``source`` imports; ``__init__`` for the package itself."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            paths = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ["fisherkit"] if node.level else []
            base += node.module.split(".") if node.module else []
            # "from . import x" names modules, "from .x import name" names what x holds
            names_modules = base in (["fisherkit"], ["fisherkit", "reproduction"])
            paths = [[*base, alias.name] for alias in node.names] if names_modules else [base]
        else:
            continue
        for path in paths:
            if path[0] == "fisherkit":
                found.add(module_of(path[1:]))
    return found


def module_of(path: list[str]) -> str:
    """The module that a dotted path within the package names or lies in."""
    names = (".".join(path[:length]) for length in (2, 1))
    return next((name for name in names if name in LEVEL), "__init__")


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
    """Imports of ``module`` that do not point down or sideways."""
    return {other for other in own_imports(source) if LEVEL[other] > LEVEL[module]}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


MODULES = {module_name(path) for path in FILES}
each_file = pytest.mark.parametrize("path", FILES, ids=module_name)


def test_the_package_is_found():
    assert "__init__" in MODULES


@each_file
def test_the_module_has_a_layer(path):
    module = module_name(path)
    assert module in LEVEL, f"{module}.py has no layer: give it one in LAYERS of this file"


@each_file
def test_imports_point_down(path):
    module = module_name(path)
    above = upward(module, path.read_text(encoding="utf-8"))
    assert not above, f"{module} (layer {LEVEL[module]}) imports {sorted(above)} from above"


def test_no_import_cycle():
    graph = {module_name(path): own_imports(path.read_text(encoding="utf-8")) for path in FILES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


@each_file
def test_only_the_array_module_knows_array_libraries(path):
    known = outside_imports(path.read_text(encoding="utf-8")) & ARRAY_LIBRARIES
    assert not known or module_name(path) == "_array", f"imports {sorted(known)}"


@each_file
def test_the_file_is_short(path):
    n_lines = len(path.read_text(encoding="utf-8").splitlines())
    assert n_lines <= MAX_LINES, f"{n_lines} lines: split the file at a seam"


@pytest.mark.parametrize(
    "line",
    [
        "from .estimators import KernelFisherClassifier",
        "from . import estimators",
        "import fisherkit.estimators",
        "from fisherkit.estimators import KernelFisherClassifier",
        "from fisherkit import estimators",
        "def f():\n    from .estimators import KernelFisherClassifier",
    ],
)
def test_every_spelling_of_an_upward_import_is_seen(line):
    assert upward("canonical", line) == {"estimators"}


def test_importing_the_package_itself_is_upward():
    assert upward("cli", "from fisherkit import KernelFisherClassifier") == {"__init__"}
    assert upward("cli", "import fisherkit") == {"__init__"}


def test_a_downward_import_is_allowed():
    assert (
        upward("canonical", "import numpy\nfrom .kernels import gram\nfrom . import _array")
        == set()
    )
