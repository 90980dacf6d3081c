"""The Python program that reproduces what ``fisherkit fit`` has done, to the last bit."""

from __future__ import annotations

import pprint
from collections.abc import Sequence
from typing import Any

from fisherkit.preparation import MOST_NAMES
from fisherkit.recipes import Recipe

READ_EXAMPLE = """\
bunch = load_breast_cancer(as_frame=True)
X, y = bunch.data, bunch.target_names[bunch.target]
"""

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
    path: Any,
    text: Sequence[str],
    encoding: str,
    target: str,
    left_out: Sequence[str],
    conversion: str,
) -> str:
    """Code that reads X and y; ``conversion`` makes labels of the column ``target``."""
    options = f", text={list(text)!r}" if text else ""
    options += f", encoding={encoding!r}" if encoding != "utf-8" else ""
    return (
        f"table = read_table({str(path)!r}{options})\n"
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


def out_of_core_program(
    path: str,
    target: str,
    left_out: Sequence[str],
    text: Sequence[str],
    encoding: str,
    recipe: Recipe,
) -> str:
    """As `program`, by the function that does what the command did out of core."""
    options = f",\n    left_out={_listed(left_out)}" if left_out else ""
    options += f",\n    text={list(text)!r}" if text else ""
    options += f",\n    encoding={encoding!r}" if encoding != "utf-8" else ""
    return "\n".join(
        [
            f"from fisherkit import {recipe.name}",
            "from fisherkit.out_of_core import fit_table",
            "",
            f"classify = {recipe.code}",
            f"model = fit_table({path!r}, {target!r}, classify{options})",
            "",
        ]
    )


def _imports(reading: str, numbers: Sequence[str], texts: Sequence[str], recipe: Recipe) -> str:
    of_file = reading != READ_EXAMPLE
    preprocessing = ["OneHotEncoder"] * bool(texts) + ["StandardScaler"] * bool(numbers)
    return "\n".join(
        [
            "from sklearn.compose import ColumnTransformer",
            *["from sklearn.datasets import load_breast_cancer"] * (not of_file),
            "from sklearn.impute import SimpleImputer",
            "from sklearn.pipeline import Pipeline",
            f"from sklearn.preprocessing import {', '.join(preprocessing)}",
            "",
            f"from fisherkit import {recipe.name}",
            *["from fisherkit.tables import read_table"] * of_file,
            "",
        ]
    )


def _listed(names: Sequence[str]) -> str:
    return pprint.pformat(list(names), width=88, compact=True)
