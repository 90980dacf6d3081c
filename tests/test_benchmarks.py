"""Every benchmark can still be imported, and explains its options: the code it calls is there."""

import os
import re
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.stem != "_common")
RESULTS = sorted((FOLDER / "results").glob("*.csv"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_benchmark_imports_and_explains_its_options(script, monkeypatch, capsys):
    source = script.read_text(encoding="utf-8")
    for library in ("torch", "dask", "cleanlab", "skglm"):
        if re.search(rf"^(import|from) {library}\b", source, re.M):  # some import it when needed
            pytest.importorskip(library)
    before = dict(os.environ)  # some set the number of threads for their own process
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    try:
        if "argparse" in source:
            with pytest.raises(SystemExit) as end:
                runpy.run_path(str(script), run_name="__main__")
            assert end.value.code == 0
            assert "usage" in capsys.readouterr().out
        else:
            runpy.run_path(str(script), run_name="imported")
    finally:
        os.environ.clear()
        os.environ.update(before)
        for module in [name for name in sys.modules if (FOLDER / f"{name}.py").exists()]:
            del sys.modules[module]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_list_of_benchmarks_names_the_script(script):
    assert script.name in (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("results", RESULTS, ids=lambda path: path.stem)
def test_a_results_file_says_how_it_was_made(results):
    head = results.read_text(encoding="utf-8").splitlines()[0]
    assert head.startswith(("# command: ", "# commands: "))
    assert "benchmarks/" in head
