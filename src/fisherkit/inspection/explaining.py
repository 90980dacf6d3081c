"""Why did a model answer so? What each column and each training row has to do with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from fisherkit.core import arrays, winners
from fisherkit.estimators import inside, validation
from fisherkit.inference import base_values, shapley_values
from fisherkit.inspection.changes import Change, shown, smallest_change
from fisherkit.inspection.columns import Preparation, opened
from fisherkit.interfaces import Seed
from fisherkit.rows import Terms
from fisherkit.terminal import amount

if TYPE_CHECKING:
    import shap  # type: ignore[import-not-found]

_CHANGED = "would be"  # a column that sheets of explanations have beside these
_VALUES = 1 << 21  # kernel values held at once


@dataclass(frozen=True)
class TrainingRows:
    """Rows of the training data that speak for an answer, or against it; the strongest first.

    Attributes
    ----------
    rows : sequence of int
        Their positions in the training data.
    shares : sequence of float
        What each adds to the margin, or takes from it if it is negative.

    Examples
    --------
    >>> from fisherkit.inspection import TrainingRows
    >>> TrainingRows(rows=[17, 3], shares=[0.5, 0.25]).rows
    [17, 3]
    """

    rows: Sequence[int]
    shares: Sequence[float]


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """What `explain` finds; n rows of c columns.

    The *margin* is the logit of the likeliest class less that of the second: its exponential is the
    ratio of their probabilities. Of a regression it is the prediction.

    Attributes
    ----------
    table : DataFrame
        The rows, with the columns that the model uses.
    contributions : (n, c)
        What each column adds to the margin. With ``base`` they add up to it.
    standard_error : (n, c)
        Standard errors of the contributions: zero where these are exact.
    base : (n,)
        The margin where no column is known.
    margin : (n,)
    answers : (n,)
        The likeliest class, or the prediction.
    seconds : (n,) or None
        The second likeliest class; ``None`` of a regression.
    rows_for, rows_against : list of TrainingRows
        The training rows that add most to the margin, and take most from it: coefficient times
        kernel value. Their shares add up to the margin less the intercept, not less ``base``.
    changes : list of Change or None
        The smallest change of one column that changes the answer; ``None`` where there is none, or
        none was looked for.
    two_classes : bool
        Whether the model knows two classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.inspection import explain
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> found = explain(KernelFisherClassifier().fit(X, y), X[:2])
    >>> found.to_frame().shape
    (2, 8)
    """

    table: pd.DataFrame
    contributions: np.ndarray
    standard_error: np.ndarray
    base: np.ndarray
    margin: np.ndarray
    answers: np.ndarray
    seconds: np.ndarray | None
    rows_for: list[TrainingRows]
    rows_against: list[TrainingRows]
    changes: list[Change | None]
    two_classes: bool

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.table.columns)

    def to_frame(self) -> pd.DataFrame:
        """One row for each row: the answer, and what each column adds to it.

        Of a classifier the columns are "answer", "second", "margin" and "base", of a regression
        "prediction" and "base", before those of the table. A column of the table that is called as
        one of these is followed by "(column)".
        """
        found: dict[str, np.ndarray] = {"prediction": self.answers, "base": self.base}
        if self.seconds is not None:
            found = {"answer": self.answers, "second": self.seconds}
            found |= {"margin": self.margin, "base": self.base}
        names: list[str] = []
        for name in self.columns:
            while name in (*found, _CHANGED, *names):
                name += " (column)"
            names.append(name)
        values = pd.DataFrame(self.contributions, columns=names, index=self.table.index)
        return pd.concat([pd.DataFrame(found, index=self.table.index), values], axis=1)

    def to_shap(self) -> shap.Explanation:
        """The explanation for the plots of the package shap.

        Of two classes the values speak for ``classes_[1]`` in every row, so that rows compare.
        """
        try:
            import shap
        except ImportError as error:
            raise ImportError("to_shap needs the package shap; pip install shap.") from error
        sign = np.ones(len(self.base))
        if self.two_classes and self.seconds is not None:
            sign = np.where(self.answers > self.seconds, 1.0, -1.0)
        return shap.Explanation(
            values=sign[:, None] * self.contributions,
            base_values=sign * self.base,
            data=self.table.to_numpy(),
            feature_names=self.columns,
        )

    def shown(self, row: int, column: int) -> str:
        """A value of the rows, as text."""
        return shown(self.table.iloc[row, column])

    def sentences(self, row: int = 0, most: int = 5, *, training: bool = True) -> list[str]:
        """The explanation of one row in words; ``most`` columns are named on either side.

        ``training`` says whether training rows are named, by their positions.
        """
        margin = self.margin[row]
        if self.seconds is None:
            said = [
                f"The prediction is {amount(margin)}; if no column were known it would "
                f"be {amount(self.base[row])}."
            ]
            names = "It is raised by", "It is lowered by"
        else:
            odds = math.exp(min(margin, 700.0))
            said = [
                f"The answer is {self.answers[row]} rather than {self.seconds[row]}, with odds of "
                f"{odds:.3g} to 1 (a margin of {margin:.3g}; if no column were known it "
                f"would be {self.base[row]:.3g})."
            ]
            names = "In favour are", "Against it are"
        values = self.contributions[row]
        for name, sign in zip(names, (1, -1), strict=True):
            order = [j for j in np.argsort(-sign * values, kind="stable") if sign * values[j] > 0]
            named = [
                f"{self.columns[j]} = {self.shown(row, j)} ({_signed(values[j])})"
                for j in order[:most]
            ]
            if named:
                said.append(f"{name} {', '.join(named)}.")
        for name, found in (("for", self.rows_for[row]), ("against", self.rows_against[row])):
            if found.rows and training:
                numbers = ", ".join(map(str, found.rows))
                said.append(f"The training rows that speak most {name} it: {numbers}.")
        if self.seconds is not None and (change := self.changes[row]) is not None:
            said.append(f"The answer would be {change}.")
        if np.any(self.standard_error[row] > 0):
            said.append(
                "Contributions are sampled, with standard errors of up to "
                f"{self.standard_error[row].max():.2g}."
            )
        return said

    def __repr__(self) -> str:
        n = len(self.base)
        rest = f"\n(and {n - 3} more rows)" if n > 3 else ""
        blocks = (
            f"Row {self.table.index[row]}. " + " ".join(self.sentences(row))
            for row in range(min(n, 3))
        )
        return "\n".join(blocks) + rest

    def _repr_html_(self) -> str:
        rows = (
            f"<li><b>Row {escape(str(self.table.index[row]))}.</b> "
            f"{escape(' '.join(self.sentences(row)))}</li>"
            for row in range(len(self.base))
        )
        return f"<ul>{''.join(rows)}</ul>"


def _signed(value: float) -> str:
    """A contribution with its sign, in three digits or as a whole number."""
    return f"{value:+,.0f}" if abs(value) >= 1e3 else f"{value:+.3g}"


def explain(
    model: BaseEstimator,
    X: ArrayLike,
    *,
    n_rows: int = 5,
    n_pairs: int = 64,
    changes: bool = True,
    random_state: Seed = 0,
) -> Explanation:
    r"""Why a fitted model answers as it does, row by row.

    Parameters
    ----------
    model : a fitted estimator of fisherkit, or a Pipeline of scalers that ends in one
        Classifiers and regressors, with kernels that follow from sums over columns: rbf, laplacian,
        additive, exponential, linear, polynomial. A pipeline may scale each column by itself.
    X : (n, d)
        The rows to explain, as the model takes them.
    n_rows : int, default=5
        How many training rows are named on either side.
    n_pairs : int, default=64
        Pairs of orders that are drawn for kernels without an exact formula.
    changes : bool, default=True
        Whether to look for the smallest change of one column that changes the answer.
    random_state : int, RandomState or None, default=0

    Returns
    -------
    Explanation

    Notes
    -----
    A model is a sum of kernels over training rows. The margin m between the two likeliest classes
    is linear in logits, hence such a sum, too. Where only the columns S of x are known, the others
    are taken out of the kernel: a factor of a product is set to one, a difference to zero. The
    contribution of column c is its Shapley value: what it adds to m when the columns become known
    one by one, on average over all orders. With factors k_c(x_c, z_jc) of the kernel and
    coefficients a_j of the margin it is

    .. math::

        \phi_c = \sum_j a_j (k_c - 1) \int_0^1 \prod_{c' \ne c} (1 + t (k_{c'} - 1)) \, dt ,
        \qquad \sum_c \phi_c = m(x) - m(\text{nothing}) ,

    which Gauss-Legendre quadrature finds to rounding for rbf, laplacian and additive kernels. It is
    a_j x_c z_jc for the linear kernel. Exponential and polynomial kernels are no products: pairs of
    a random order and its reverse are averaged, ``standard_error`` says how well. The features that
    a column of a table has become count as one factor.

    What a column adds is what the *model* makes of it, not what it does in the world. Columns that
    say the same share what they say. Every column that becomes known makes rows less alike, so that
    columns of noise take from a margin what the others, by themselves, would give too much; which
    columns matter to the error, `column_importance` says.

    For the smallest change of one column up to 32 values that training rows have are tried, every
    level of a text, and the boundary between two numbers is narrowed down; whole numbers stay
    whole. Sizes of changes are compared in standard deviations among the training rows.

    *Cost.* For each row and kernel width about min(d / 2, 5 sqrt(d)) passes over m d numbers for
    products, and 2 ``n_pairs`` such passes for sampled kernels. Changes take the prediction of
    about 32 d rows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from fisherkit import KernelFisherClassifier
    >>> from fisherkit.inspection import explain
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> y = y.map({0: "malignant", 1: "benign"})
    >>> model = make_pipeline(StandardScaler(), KernelFisherClassifier()).fit(X, y)
    >>> found = explain(model, X.iloc[[19]])
    >>> found.answers[0], found.changes[0].label
    ('benign', 'malignant')
    >>> total = found.base + found.contributions.sum(axis=1)
    >>> bool(abs(total - found.margin).max() < 1e-9)
    True
    """
    n_rows = validation.positive("n_rows", n_rows)
    n_pairs = validation.positive("n_pairs", n_pairs)
    if n_pairs < 2:
        raise ValueError("n_pairs=1 gives no standard error; use at least 2.")
    validation.flag("changes", changes)
    front, preparation = opened(model)
    terms = inside(front).terms
    classes = getattr(front, "classes_", None)
    require_columns(terms)
    if classes is None and terms.k > 1:
        raise ValueError(
            f"{type(front).__name__} has {terms.k} outputs; explain a model of one output."
        )
    table = preparation.table(X)
    features = preparation.features(table)
    numbers = terms(features)
    first, second, direction = _margin(numbers, classifier=classes is not None)
    shares = shapley_values(
        terms.parts,
        features,
        direction,
        preparation.sources,
        len(preparation.names),
        n_pairs=n_pairs,
        rng=check_random_state(random_state),
    )
    rows_for, rows_against = _training_rows(terms, features, direction, n_rows)
    intercept = direction @ terms.intercept
    answers, seconds = numbers[:, 0], None
    found: list[Change | None] = [None] * len(table)
    if classes is not None:
        names = arrays.to_numpy(classes)
        answers, seconds = names[first], names[second]
        if changes:
            found = _changes(terms, preparation, table, names)
    return Explanation(
        table=table,
        contributions=shares.values,
        standard_error=shares.standard_error,
        base=base_values(terms.parts, direction) + intercept,
        margin=np.sum(numbers * direction, axis=1),
        answers=answers,
        seconds=seconds,
        rows_for=rows_for,
        rows_against=rows_against,
        changes=found,
        two_classes=classes is not None and len(classes) == 2,
    )


def require_columns(terms: Terms) -> None:
    """Refuse kernels of which single columns cannot be taken out."""
    for part in terms.parts:
        kernel = part.kernel
        if not kernel.family.by_column:
            name = getattr(kernel.name, "__name__", str(kernel.name))
            raise ValueError(
                f"Kernel {name!r} does not say what a single column adds to it. Explanations know "
                "rbf, laplacian, additive, exponential, linear and polynomial kernels; "
                "column_importance takes any."
            )


def _margin(numbers: np.ndarray, *, classifier: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two likeliest classes of each row, and the margin between them as weights (n, k)."""
    n, k = numbers.shape
    if not classifier:
        nothing = np.zeros(n, dtype=int)
        return nothing, nothing, np.ones((n, 1))
    first = winners(numbers)
    if k == 1:
        return first, 1 - first, np.where(first == 1, 1.0, -1.0)[:, None]
    rest = numbers.copy()
    rest[np.arange(n), first] = -np.inf
    second = np.argmax(rest, axis=1)
    direction = np.zeros((n, k))
    direction[np.arange(n), first], direction[np.arange(n), second] = 1.0, -1.0
    return first, second, direction


def _training_rows(
    terms: Terms, X: np.ndarray, direction: np.ndarray, most: int
) -> tuple[list[TrainingRows], list[TrainingRows]]:
    """The training rows that add most to the margin, and those that take most from it."""
    centres = [part.places for part in terms.parts]
    places = np.unique(np.concatenate(centres)) if centres else np.empty(0, dtype=int)
    if not len(places) or places[0] < 0:  # centres that are no rows
        nothing = [TrainingRows([], []) for _ in range(len(X))]
        return nothing, nothing
    sides: tuple[list[TrainingRows], list[TrainingRows]] = ([], [])
    for rows in arrays.row_blocks(len(X), len(places), _VALUES):
        total = np.zeros((len(X[rows]), len(places)))
        for part in terms.parts:
            own = np.searchsorted(places, part.places)
            total[:, own] += part.values(X[rows]) * (direction[rows] @ part.coef.T)
        for found, sign in zip(sides, (1, -1), strict=True):
            for shares in sign * total:
                order = np.argsort(-shares, kind="stable")[:most]
                order = order[shares[order] > 0]
                added = (sign * shares[order]).tolist()
                found.append(TrainingRows(places[order].tolist(), added))
    return sides


def _changes(
    terms: Terms, preparation: Preparation, table: pd.DataFrame, classes: np.ndarray
) -> list[Change | None]:
    """The smallest change of each row."""
    values = preparation.values(terms)

    def answer(rows: pd.DataFrame) -> np.ndarray:
        return winners(terms(preparation.features(rows)))

    return [
        smallest_change(table.iloc[[row]], answer, values, classes) for row in range(len(table))
    ]
