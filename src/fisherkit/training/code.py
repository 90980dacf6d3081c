"""The Python program that reproduces what ``fisherkit fit`` has done, to the last bit."""

from __future__ import annotations

import pprint
from collections.abc import Sequence
from inspect import signature

from fisherkit.columns import ColumnOptions
from fisherkit.methods import TableModel

MOST_NAMES = 100  # columns that are given by name
_LINE = 88

READ_EXAMPLE = """\
bunch = load_breast_cancer(as_frame=True)
X, y = bunch.data, bunch.target_names[bunch.target]
"""

_READERS = {"read_table": "fisherkit.tables", "read_data": "fisherkit.training"}


def read_file(
    asked: ColumnOptions,
    left_out: Sequence[str],
    task: str,
    conversion: str,
    *,
    as_written: bool = False,
) -> str:
    """Code that reads X and y for a task; ``conversion`` makes targets of the column.

    ``as_written`` says that labels are text although they look like numbers. Where very many
    columns were left out, the code finds them anew instead of naming them.
    """
    path, target = str(asked.path), str(asked.target)
    if len(left_out) > MOST_NAMES:
        options = "".join(_options(asked, "drop", "keep", "text"))
        roles = {"task": task, "weights": asked.weights, "groups": asked.groups}
        options += "".join(f", {key}={name!r}" for key, name in roles.items() if name is not None)
        return f"data = read_data({path!r}, {target!r}{options})\nX, y = data.X, data.y\n"
    levels = f", levels=[{target!r}]" if as_written else ""
    options = levels + "".join(_options(asked, "text"))
    return (
        f"table = read_table({path!r}{options})\n"
        f"table = table.dropna(subset=[{target!r}])\n"
        f"X = table.drop(columns={_listed([target, *left_out])})\n"
        f"y = table[{target!r}]{conversion}\n"
    )


def program(reading: str, fitted: TableModel, asked: ColumnOptions | None = None) -> str:
    """The whole program; it leaves the fitted estimator in ``model``."""
    roles = {} if asked is None else {"sample_weight": asked.weights, "groups": asked.groups}
    words = {"sample_weight": "data.weights", "groups": "data.groups"}
    if "data = " not in reading:
        words = {role: f"table[{name!r}].to_numpy()" for role, name in roles.items()}
    given = "".join(f", {role}={words[role]}" for role, name in roles.items() if name is not None)
    reader = reading.split("(")[0].split()[-1]  # the first function that is called
    home = _READERS.get(reader, "sklearn.datasets")
    imports = [f"from {home} import {reader}", *_imports(fitted)]
    order = sorted(imports, key=lambda line: (line.split()[1].partition(".")[0] != "sklearn", line))
    blank = [""] * (home == "sklearn.datasets")
    lines = [*order[: len(blank)], *blank, *order[len(blank) :]]
    call = _call(fitted.explicit_)
    return "\n".join([*lines, "", f"{reading}model = {call}.fit(X, y{given})", ""])


def out_of_core_program(asked: ColumnOptions, left_out: Sequence[str], fitted: TableModel) -> str:
    """The program that calls `fit_table`, for a table that was read out of core."""
    many = len(left_out) > MOST_NAMES
    model = fitted.explicit_.set_params(
        drop=list(asked.drop if many else left_out),
        keep=list(asked.keep) if many else True,
        text=list(asked.text),
    )
    encoding = "".join(_options(asked))
    return "\n".join(
        [
            *_imports(fitted),
            "from fisherkit.out_of_core import fit_table",
            "",
            f"unfitted = {_call(model)}",
            f"model = fit_table({str(asked.path)!r}, {asked.target!r}, unfitted{encoding})",
            "",
        ]
    )


def _imports(fitted: TableModel) -> list[str]:
    """What makes the estimator known, and its method, if that is somebody else's."""
    home = type(fitted.estimator_).__module__
    others = [] if home.partition(".")[0] == "fisherkit" else [f"import {home}"]
    return [*others, f"from fisherkit import {type(fitted).__name__}"]


def _call(model: TableModel) -> str:
    """Python that builds the estimator."""
    words, name_of_class = [], type(model).__name__
    for name, parameter in signature(type(model)).parameters.items():
        value = getattr(model, name)
        if name in ("method", "random_state") or (value != parameter.default and value != []):
            words.append(f"{name}={value!r}")
    call = f"{name_of_class}({', '.join(words)})"
    if len(call) <= _LINE:
        return call
    return f"{name_of_class}(\n" + "".join(f"    {word},\n" for word in words) + ")"


def _options(asked: ColumnOptions, *names: str) -> list[str]:
    """Arguments that differ from their defaults, each after a comma."""
    given = [(name, list(getattr(asked, name))) for name in names]
    arguments = [f", {name}={value!r}" for name, value in given if value]
    return arguments + [f", encoding={asked.encoding!r}"] * (asked.encoding != "utf-8")


def _listed(names: Sequence[str]) -> str:
    return pprint.pformat(list(names), width=88, compact=True)
