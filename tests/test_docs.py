"""Every Python block of the documentation runs, page by page, as a reader would run it."""

import doctest
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "_build" not in path.parts
]
# what the build draws from an example: its page, or its first picture
DRAWN = re.compile(r"auto_examples/(?:images/sphx_glr_)?(plot_\w+?|index)(?:\.rst|_001\.png)$")
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# what is neither prose nor typed by hand: what docs/tables.py writes, code, formulas, links
NOT_PROSE = re.compile(
    r"<!-- (?:table|value): .*?<!-- end -->|^ *```.*?^ *```$|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$"
    r"|\]\([^)]*\)",
    re.MULTILINE | re.DOTALL,
)
MEASURE = re.compile(r"\d[\d.,]*\s?(?:%|times|points?|seconds?|minutes?|hours?|m?s|[kMG]B)(?!\w)")
# definitions, settings, limits of the program, and what a session on the page shows
STATED = {
    "bayes.md": {"300 points", "1,000 points"},
    "benchmarks.md": {"6 points"},
    "command_line.md": {"95 %", "128MB", "1 %"},
    "committee.md": {"60 %"},
    "errata.md": {"5 %", "13 %", "1 %"},
    "exact_loo.md": {"5 %", "10 %", "20 %"},
    "inside.md": {"0.05 %", "1 %", "3 %"},
    "large_data.md": {"2GB", "512 MB", "8 %"},
    "permutation.md": {"60 %"},
    "report.md": {"3 MB", "95 %", "0.1 %", "99.9 %", "1 %", "30 %"},
    "table.md": {"0.3 points", "5 %", "70 %"},
    "tutorial.md": {"80 %", "90 %", "95 %"},
}


each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


@each_page
def test_the_blocks_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    namespace: dict = {"__name__": "__main__"}
    for match in BLOCK.finditer(text):
        if match[1] == "python":
            line = text[: match.start()].count("\n") + 1
            exec(compile("\n" * line + match[2], str(page), "exec"), namespace)
        elif page.stem == "tutorial":  # other pages show commands that take long or need a cluster
            words = shlex.split(match[2])
            assert words[0] == "fisherkit"
            command = [
                sys.executable,
                "-c",
                "from fisherkit.cli.commands import app; app()",
                *words[1:],
            ]
            subprocess.run(command, check=True, capture_output=True, timeout=300)


@each_page
def test_the_sessions_of_a_page_show_what_python_answers(page):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(str(page), module_relative=False, optionflags=flags, encoding="utf-8")
    assert found.failed == 0


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_number_is_looked_up_in_its_csv_file(tables):
    text = 'at <!-- value: cell("bayes_em", "n", n=100) + 1:.1f -->5<!-- end --> rows'
    assert ">101.0<" in tables.rewritten(text)
    reproduced = 'cell("overview", "splits", data="heart") / 4:.0f'
    assert ">25<" in tables.rewritten(f"<!-- value: {reproduced} --><!-- end -->")
    halves = 'ratios("bayes_em", "n", "n", n=100)[0] / 2:.1f'
    assert ">0.5<" in tables.rewritten(f"<!-- value: {halves} --><!-- end -->")
    with pytest.raises(LookupError, match="no row"):
        tables.rewritten(text.replace("n=100", "n=7"))


@each_page
def test_tables_show_what_the_csv_files_hold(page, tables):
    text = page.read_text(encoding="utf-8")
    assert tables.rewritten(text) == text, "run: python docs/tables.py"
    assert not re.search("^ *<!-- value", text, re.M), "Markdown ends a paragraph at such a line"


@each_page
def test_measurements_are_not_typed_by_hand(page):
    prose = NOT_PROSE.sub(" ", page.read_text(encoding="utf-8"))
    typed = {" ".join(found.split()) for found in MEASURE.findall(prose)}
    unknown = typed - STATED.get(page.name, set())
    assert not unknown, (
        f"{page.name} states {sorted(unknown)}: write <!-- value: ... --> (docs/tables.py) if it "
        "was measured, and add it to STATED if it is a definition or a setting"
    )


def anchors(page):
    """What the headings of a page are called in links to them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@each_page
def test_internal_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        linked = page.parent / target if target else page
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), f"{page.name} links to {target}#{anchor}"
        if drawn := DRAWN.search(target):
            source = "README.rst" if drawn[1] == "index" else f"{drawn[1]}.py"
            assert (ROOT / "examples" / source).exists(), f"{page.name} links to {target}"
        elif not target.startswith(("http", "mailto:")):
            assert linked.exists(), f"{page.name} links to {target}"
