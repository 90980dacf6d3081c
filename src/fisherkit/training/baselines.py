"""What well-known methods say of the same held-out rows, in a bounded time.

A figure of error means little by itself. Beside it stand the answers of a rule that looks at no
column, of a linear method and of boosted trees, each fitted to the rows that the model was fitted
to and judged on the rows that the model was judged on. They may take a share of the time of the
training and no more: a method that needs longer is stopped after fewer iterations or judged on
fewer folds, and says so; one that could do hardly anything in that time is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from fisherkit.columns import in_memory, number_mask, row_parts
from fisherkit.methods import part_of

SECONDS, SHARE = 10.0, 0.3  # baselines may take so long, or that share of the fit's time if longer

_CELLS = 20_000_000  # of the rows that a baseline is fitted to
_LEVELS = 200  # of a text that are told apart, the most frequent ones
_FIRST = 2  # iterations of the fit that says how long one takes
_FEW_ROWS, _FEWER = 500, 8  # a fit to fewer rows is tried: so many times fewer, and no fewer
_LEAST = 10  # iterations below which the answers would not be those of the method
_CAUTION = 0.8  # of the time left that is planned with

Clock = Callable[[], float]
Part = tuple[np.ndarray, pd.DataFrame]


@dataclass(frozen=True)
class Split:
    """Rows to fit to, and rows held out from them.

    The former are the ``rows`` of a table, with their targets ``y``; ``held_out`` gives the latter
    in parts, each with the places of its rows among all rows that any split holds out.
    """

    table: pd.DataFrame
    rows: np.ndarray
    y: np.ndarray
    held_out: Callable[[], Iterator[Part]]

    @classmethod
    def of(cls, table: pd.DataFrame, y: np.ndarray, rows: np.ndarray, others: np.ndarray) -> Split:
        """Of one table; answers for its rows ``others`` are kept in the order of the table."""
        return cls(table, rows, y[rows], lambda: _in_parts(table, others, others))

    @classmethod
    def aside(
        cls, table: pd.DataFrame, y: np.ndarray, rows: np.ndarray, others: np.ndarray
    ) -> Split:
        """Of one table; no answers but those for its rows ``others`` are kept."""
        return cls(table, rows, y[rows], lambda: _in_parts(table, others, np.arange(len(others))))

    @classmethod
    def elsewhere(
        cls, table: pd.DataFrame, y: np.ndarray, others: Callable[[], Iterator[pd.DataFrame]]
    ) -> Split:
        """All rows of a table to fit to, and parts of another one to answer for."""

        def held_out() -> Iterator[Part]:
            first = 0
            for part in others():
                yield np.arange(first, first + len(part)), part
                first += len(part)

        return cls(table, np.arange(len(y)), y, held_out)


def _in_parts(table: pd.DataFrame, rows: np.ndarray, places: np.ndarray) -> Iterator[Part]:
    for part in row_parts(rows, table.shape[1]):
        yield places[part], in_memory(table.iloc[rows[part]])


@dataclass(frozen=True)
class Baseline:
    """Answers of another method to the held-out rows.

    ``predicted`` (n,) and ``probabilities`` (n, n_classes; ``None`` of a regression) belong to the
    rows of `HeldOut`; they count where ``judged`` (n,) is true. ``seconds`` is the time that the
    method took, ``note`` says what was done to save time.
    """

    name: str
    predicted: np.ndarray
    probabilities: np.ndarray | None
    judged: np.ndarray
    seconds: float
    note: str = ""


@dataclass(frozen=True)
class Peer:
    """A method to compare with.

    ``build`` takes rows to fit to and a number of iterations. A method that ``converges`` stops
    when nothing changes any more; others use all of their iterations.
    """

    name: str
    build: Callable[[pd.DataFrame, int], BaseEstimator]
    iterations: int
    converges: bool = False


def _prepared(
    X: pd.DataFrame, numbers: TransformerMixin | str, levels: TransformerMixin
) -> ColumnTransformer:
    mask = number_mask(X)
    return ColumnTransformer(
        [("numbers", numbers, np.flatnonzero(mask)), ("texts", levels, np.flatnonzero(~mask))]
    )


def _scaled(X: pd.DataFrame) -> ColumnTransformer:
    """Medians where numbers are missing, all on one scale; an indicator of each level of a text."""
    numbers = make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
    )
    levels = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=_LEVELS)
    return _prepared(X, numbers, levels)


def _for_trees(X: pd.DataFrame) -> tuple[ColumnTransformer, dict[str, object]]:
    """Numbers as they are, and texts as levels; trees find their own way with missing values."""
    levels = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=_LEVELS
    )
    texts = np.sort(~number_mask(X))  # the numbers come first
    options = {"categorical_features": texts, "early_stopping": False, "random_state": 0}
    return _prepared(X, "passthrough", levels), options


def _logistic(X: pd.DataFrame, iterations: int) -> BaseEstimator:
    from sklearn.linear_model import LogisticRegression

    return make_pipeline(_scaled(X), LogisticRegression(max_iter=iterations))


def _boosted_classifier(X: pd.DataFrame, iterations: int) -> BaseEstimator:
    from sklearn.ensemble import HistGradientBoostingClassifier

    prepared, options = _for_trees(X)
    return make_pipeline(prepared, HistGradientBoostingClassifier(max_iter=iterations, **options))


def _linear(X: pd.DataFrame, iterations: int) -> BaseEstimator:
    from sklearn.linear_model import Ridge

    return make_pipeline(_scaled(X), Ridge(solver="lsqr", max_iter=iterations))


def _boosted_regressor(X: pd.DataFrame, iterations: int) -> BaseEstimator:
    from sklearn.ensemble import HistGradientBoostingRegressor

    prepared, options = _for_trees(X)
    return make_pipeline(prepared, HistGradientBoostingRegressor(max_iter=iterations, **options))


CLASSIFIERS = (
    Peer("The most frequent class", lambda X, n: DummyClassifier(strategy="prior"), 1),
    Peer("Logistic regression", _logistic, 1000, converges=True),
    Peer("Gradient boosting", _boosted_classifier, 100),
)
REGRESSIONS = (
    Peer("The mean", lambda X, n: DummyRegressor(), 1),
    Peer("Linear regression", _linear, 1000, converges=True),
    Peer("Gradient boosting", _boosted_regressor, 100),
)


def baselines(
    splits: Sequence[Split],
    n_rows: int,
    classes: np.ndarray | None,
    seconds: float,
    *,
    peers: Sequence[Peer] | None = None,
    clock: Clock = perf_counter,
) -> tuple[Baseline, ...]:
    """The answers of other methods to ``n_rows`` held-out rows, in about so many seconds.

    Each method has an equal share of the time, and of what those before it have left over.
    ``classes`` are the labels in order; ``None`` for a regression.
    """
    chosen = peers or (REGRESSIONS if classes is None else CLASSIFIERS)
    start, found = clock(), list[Baseline]()
    for number, peer in enumerate(chosen):
        left = seconds - (clock() - start)
        found.append(_judged(peer, splits, n_rows, classes, left / (len(chosen) - number), clock))
    return tuple(found)


def _judged(
    peer: Peer,
    splits: Sequence[Split],
    n_rows: int,
    classes: np.ndarray | None,
    seconds: float,
    clock: Clock,
) -> Baseline:
    """One method on as many splits as there is time for."""
    start, done = clock(), 0
    answers = np.zeros((n_rows, 1 if classes is None else len(classes)))
    judged, notes = np.zeros(n_rows, dtype=bool), list[str]()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # what a method has to say of itself, we say in notes
            iterations, most = _affordable(peer, splits[0], seconds, clock)
            for split in splits if iterations else ():
                if done and (clock() - start) * (done + 1) / done > seconds:
                    notes.append(f"judged on {done} of the {len(splits)} folds to save time")
                    break
                X, y = _some(split, most)
                if len(y) < len(split.y):
                    notes.append(f"fitted to {len(y):,} of {len(split.y):,} rows to save time")
                model, stopped = _fitted(peer, X, y, iterations)
                if stopped:
                    notes.append(f"stopped after {iterations} iterations to save time")
                _answer(model, split, classes, answers, judged)
                done += 1
        if not iterations:
            notes.append("left out: it would have taken too long")
    except ValueError as error:
        judged[:] = False
        notes = [f"could not be fitted: {error}"]
    return Baseline(
        name=peer.name,
        predicted=answers[:, 0] if classes is None else classes[np.argmax(answers, axis=1)],
        probabilities=None if classes is None else answers,
        judged=judged,
        seconds=round(clock() - start, 3),
        note="; ".join(dict.fromkeys(notes)),
    )


def _affordable(peer: Peer, split: Split, seconds: float, clock: Clock) -> tuple[int, int]:
    """How many iterations of a fit to how many rows there is time for; no iterations if too few."""
    start, most = clock(), max(_FEW_ROWS, _CELLS // max(split.table.shape[1], 1))
    if peer.iterations == 1:
        return 1, most
    while True:
        before = clock()
        X, y = _some(split, most)
        peer.build(X, _FIRST).fit(X, y)
        one = (clock() - before) / _FIRST
        possible = int(_CAUTION * (seconds - (clock() - start)) / max(one, 1e-9))
        if possible >= _LEAST:
            return min(possible, peer.iterations), most
        most = len(y) // _FEWER
        if most < _FEW_ROWS:
            return 0, most


def _fitted(
    peer: Peer, X: pd.DataFrame, y: np.ndarray, iterations: int
) -> tuple[BaseEstimator, bool]:
    """A fit, and whether it would have gone on for longer."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = peer.build(X, iterations).fit(X, y)
    goes_on = not peer.converges or any(w.category is ConvergenceWarning for w in caught)
    return model, goes_on and iterations < peer.iterations


def _answer(
    model: BaseEstimator,
    split: Split,
    classes: np.ndarray | None,
    answers: np.ndarray,
    judged: np.ndarray,
) -> None:
    """Answers of a fit for the rows held out."""
    for places, part in split.held_out():
        judged[places] = True
        if classes is None:
            answers[places, 0] = model.predict(_plain(part))
        else:
            seen = np.searchsorted(classes, model.classes_)
            answers[places[:, None], seen] = model.predict_proba(_plain(part))


def _some(split: Split, most: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The rows to fit to, or a part of so many of them."""
    rows, y = split.rows, split.y
    if len(y) > most:
        strata = np.zeros(len(y)) if y.dtype.kind == "f" else y
        part = part_of(strata, most, 0)
        rows, y = rows[part], y[part]
    return _plain(in_memory(split.table.iloc[rows])), y


def _plain(X: pd.DataFrame) -> pd.DataFrame:
    """Numbers in double precision, then texts, among which a missing value is a level."""
    mask = number_mask(X)
    numbers = X.loc[:, mask].to_numpy(dtype=np.float64, na_value=np.nan)
    texts = X.loc[:, ~mask].astype(object)
    words = texts.where(texts.notna(), "").astype(str).to_numpy(dtype=object)
    both = pd.concat([pd.DataFrame(numbers), pd.DataFrame(words, dtype=object)], axis=1)
    return both.set_axis(range(X.shape[1]), axis=1)
