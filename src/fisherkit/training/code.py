"""The Python program that reproduces what ``fisherkit fit`` has done, to the last bit."""

from __future__ import annotations

import pprint
from collections.abc import Sequence
from inspect import signature

from fisherkit.columns import ColumnOptions
from fisherkit.methods import TableClassifier, method_named

MOST_NAMES = 100  # columns that are given by name
_LINE = 88

READ_EXAMPLE = """\
bunch = load_breast_cancer(as_frame=True)
X, y = bunch.data, bunch.target_names[bunch.target]
"""

_READERS = {"read_table": "fisherkit.tables", "read_data": "fisherkit.training"}


def read_file(
    asked: ColumnOptions, left_out: Sequence[str], conversion: str, *, as_written: bool = False
) -> str:
    """Code that reads X and y; ``conversion`` makes labels of the target.

    ``as_written`` says that labels are text although they look like numbers. Where very many
    columns were left out, the code finds them anew instead of naming them.
    """
    path, target = str(asked.path), str(asked.target)
    if len(left_out) > MOST_NAMES:
        options = "".join(_options(asked, "drop", "keep", "text"))
        return f"data = read_data({path!r}, {target!r}{options})\nX, y = data.X, data.y\n"
    levels = f", levels=[{target!r}]" if as_written else ""
    options = levels + "".join(_options(asked, "text"))
    return (
        f"table = read_table({path!r}{options})\n"
        f"table = table.dropna(subset=[{target!r}])\n"
        f"X = table.drop(columns={_listed([target, *left_out])})\n"
        f"y = table[{target!r}]{conversion}\n"
    )


def program(reading: str, model: TableClassifier) -> str:
    """The whole program; it leaves the fitted classifier in ``model``."""
    reader = reading.split("(")[0].split()[-1]  # the first function that is called
    home = _READERS.get(reader, "sklearn.datasets")
    imports = [f"from {home} import {reader}", *_imports(model)]
    order = sorted(imports, key=lambda line: (line.split()[1].partition(".")[0] != "sklearn", line))
    blank = [""] * (home == "sklearn.datasets")
    lines = [*order[: len(blank)], *blank, *order[len(blank) :]]
    return "\n".join([*lines, "", f"{reading}model = {_call(model)}.fit(X, y)", ""])


def out_of_core_program(
    asked: ColumnOptions, left_out: Sequence[str], model: TableClassifier
) -> str:
    """The program that calls `fit_table`, for a table that was read out of core."""
    many = len(left_out) > MOST_NAMES
    model.set_params(
        drop=list(asked.drop if many else left_out),
        keep=list(asked.keep) if many else True,
        text=list(asked.text),
    )
    encoding = "".join(_options(asked))
    return "\n".join(
        [
            *_imports(model),
            "from fisherkit.out_of_core import fit_table",
            "",
            f"classify = {_call(model)}",
            f"model = fit_table({str(asked.path)!r}, {asked.target!r}, classify{encoding})",
            "",
        ]
    )


def _imports(model: TableClassifier) -> list[str]:
    """What makes the classifier known, and its method, if that is somebody else's."""
    home = method_named(model.method).estimator.__module__
    others = [] if home.partition(".")[0] == "fisherkit" else [f"import {home}"]
    return [*others, "from fisherkit import TableClassifier"]


def _call(model: TableClassifier) -> str:
    """Python that builds the classifier."""
    words = []
    for name, parameter in signature(TableClassifier).parameters.items():
        value = getattr(model, name)
        if name in ("method", "random_state") or (value != parameter.default and value != []):
            words.append(f"{name}={value!r}")
    call = f"TableClassifier({', '.join(words)})"
    if len(call) <= _LINE:
        return call
    return "TableClassifier(\n" + "".join(f"    {word},\n" for word in words) + ")"


def _options(asked: ColumnOptions, *names: str) -> list[str]:
    """Arguments that differ from their defaults, each after a comma."""
    given = [(name, list(getattr(asked, name))) for name in names]
    arguments = [f", {name}={value!r}" for name, value in given if value]
    return arguments + [f", encoding={asked.encoding!r}"] * (asked.encoding != "utf-8")


def _listed(names: Sequence[str]) -> str:
    return pprint.pformat(list(names), width=88, compact=True)
