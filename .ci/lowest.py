"""Print the lower bounds of pyproject.toml as exact versions: ``.ci/lowest.py EXTRA ...``."""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]
BOUND = re.compile(r"([\w.-]+(?:\[[\w,]+\])?)>=([\d.]+)")


def pinned(requirements: list[str]) -> list[str]:
    """``name>=1.2`` as ``name==1.2``; a requirement of another form is a mistake."""
    bounds = [BOUND.fullmatch(requirement) for requirement in requirements]
    if None in bounds:
        raise SystemExit(f"not of the form name>=version: {requirements[bounds.index(None)]}")
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


if __name__ == "__main__":
    extras = [PROJECT["optional-dependencies"][extra] for extra in sys.argv[1:]]
    print("\n".join(pinned(sum(extras, PROJECT["dependencies"]))))
