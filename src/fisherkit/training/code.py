"""The Python program that reproduces what ``fisherkit fit`` has done, to the last bit."""

from __future__ import annotations

import pprint
from collections.abc import Sequence

from fisherkit.columns import MOST_NAMES, ColumnOptions
from fisherkit.training.recipes import Recipe

READ_EXAMPLE = """\
bunch = load_breast_cancer(as_frame=True)
X, y = bunch.data, bunch.target_names[bunch.target]
"""

_READERS = {"read_table": "fisherkit.tables", "read_data": "fisherkit.training"}
_POSITIONS = "X.columns.get_indexer(X.select_dtypes({}).columns)"
_NUMBER = """\
number = Pipeline([("impute", SimpleImputer(strategy="median")), ("scale", StandardScaler())])
"""
_TEXT = """\
text = Pipeline(
    [
        ("impute", SimpleImputer(strategy="constant", fill_value="missing")),
        (
            "encode",
            OneHotEncoder(
                min_frequency={rare},
                handle_unknown="infrequent_if_exist",
                sparse_output=False,
            ),
        ),
    ]
)
"""


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


def program(
    reading: str, numbers: Sequence[str], texts: Sequence[str], rare: int, recipe: Recipe
) -> str:
    """The whole program; it leaves the fitted pipeline in ``model``."""
    many = len(numbers) + len(texts) > MOST_NAMES  # then by position
    preparations, steps = [], []
    if numbers:
        columns = _POSITIONS.format('"number"') if many else _listed(numbers)
        preparations.append(f"numbers = {columns}\n{_NUMBER}")
        steps.append('("number", number, numbers)')
    if texts:
        columns = _POSITIONS.format('exclude="number"') if many else _listed(texts)
        preparations.append(f"texts = {columns}\n{_TEXT.format(rare=rare)}")
        steps.append('("text", text, texts)')
    prepare = f"prepare = ColumnTransformer([{', '.join(steps)}])\n"
    model = (
        f"classify = {recipe.code}\n"
        'model = Pipeline([("prepare", prepare), ("classify", classify)]).fit(X, y)\n'
    )
    body = [reading, *preparations, prepare + model]
    return "\n".join([_imports(reading, numbers, texts, recipe), *body])


def out_of_core_program(asked: ColumnOptions, left_out: Sequence[str], recipe: Recipe) -> str:
    """The program that calls `fit_table`, for a table that was read out of core."""
    many = len(left_out) > MOST_NAMES
    names = asked.drop if many else left_out
    arguments = [f", left_out={_listed(names)}"] if names else []
    arguments += [f", keep={list(asked.keep)!r}"] if many else []
    options = "".join(f",\n    {option[2:]}" for option in [*arguments, *_options(asked, "text")])
    return "\n".join(
        [
            f"from {recipe.home} import {recipe.name}",
            "from fisherkit.out_of_core import fit_table",
            "",
            f"classify = {recipe.code}",
            f"model = fit_table({str(asked.path)!r}, {asked.target!r}, classify{options})",
            "",
        ]
    )


def _options(asked: ColumnOptions, *names: str) -> list[str]:
    """Arguments that differ from their defaults, each after a comma."""
    given = [(name, list(getattr(asked, name))) for name in names]
    arguments = [f", {name}={value!r}" for name, value in given if value]
    return arguments + [f", encoding={asked.encoding!r}"] * (asked.encoding != "utf-8")


def _imports(reading: str, numbers: Sequence[str], texts: Sequence[str], recipe: Recipe) -> str:
    reader = reading.split("(")[0].split()[-1]  # the first function that is called
    preprocessing = ["OneHotEncoder"] * bool(texts) + ["StandardScaler"] * bool(numbers)
    return "\n".join(
        [
            "from sklearn.compose import ColumnTransformer",
            *["from sklearn.datasets import load_breast_cancer"] * (reader not in _READERS),
            "from sklearn.impute import SimpleImputer",
            "from sklearn.pipeline import Pipeline",
            f"from sklearn.preprocessing import {', '.join(preprocessing)}",
            "",
            f"from {recipe.home} import {recipe.name}",
            *[f"from {_READERS.get(reader)} import {reader}"] * (reader in _READERS),
            "",
        ]
    )


def _listed(names: Sequence[str]) -> str:
    return pprint.pformat(list(names), width=88, compact=True)
