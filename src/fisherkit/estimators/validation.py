"""The friendly shell: what users pass is checked here, once, and becomes what the core expects."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import PredefinedSplit, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from fisherkit.core import BIASES, Array, Bias, Fold, arrays


def one_of(name: str, value: Any, valid: Collection[str], also: str = "") -> str:
    """``value`` if it is a valid word, an error that lists the valid ones otherwise."""
    if isinstance(value, str) and value in valid:
        return value
    options = ", ".join(repr(v) for v in valid)
    raise ValueError(f"{name}={value!r} is not valid; use one of {options}{also}.")


def bias(name: Any) -> Bias:
    """What the bias of this name does."""
    return BIASES[one_of("bias", name, BIASES)]


def number(name: str, value: Any, least: float = -np.inf) -> float:
    """``value`` if it is a finite number, and not below the least one."""
    if _real(value) and np.isfinite(float(value)) and float(value) >= least:
        return float(value)
    bound = f" of at least {least:g}" if np.isfinite(least) else ""
    raise ValueError(f"{name}={value!r} is not valid; use a finite number{bound}.")


def flag(name: str, value: Any) -> bool:
    """``value`` if it is True or False: any other value would count as one of them unsaid."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ValueError(f"{name}={value!r} is not valid; use True or False.")


def path(name: str, value: object) -> Path | None:
    """A path, if there is one."""
    if value is None or isinstance(value, (str, PathLike)):
        return None if value is None else Path(value)
    raise ValueError(f"{name}={value!r} is not valid; use None, or the path of a file.")


def kernel_arguments(params: Any, kernels: Sequence[Any]) -> dict[str, Any]:
    """The extra arguments of callable kernels; without such a kernel there is no use for any."""
    if params is None:
        return {}
    if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
        raise ValueError(
            f"kernel_params={params!r} is not valid; use None, or a dict from names of arguments "
            "to their values."
        )
    named = [kernel for kernel in kernels if not callable(kernel)]
    if params and len(named) == len(kernels):
        raise ValueError(
            f"kernel_params={dict(params)!r} are arguments for a callable kernel, and "
            f"{', '.join(map(repr, named))} is none. Kernels given by name take gamma, degree and "
            "coef0, which are parameters of their own; leave kernel_params at None."
        )
    return dict(params)


def _real(value: Any) -> bool:
    """Whether it is a number; truth values, which Python counts among them, are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def number_or_rule(name: str, value: Any, rules: Sequence[str]) -> float | None:
    """The positive number given, or ``None`` for a rule."""
    if isinstance(value, str):
        one_of(name, value, rules, also=" or a positive number")
        return None
    if not _real(value) or not 0 < float(value) < np.inf:
        options = ", ".join(repr(v) for v in rules)
        raise ValueError(f"{name}={value!r} is not valid; use {options} or a positive number.")
    return float(value)


def fraction(name: str, value: Any) -> float:
    """A number from 0 to below 1."""
    if not _real(value) or not 0 <= float(value) < 1:
        raise ValueError(f"{name}={value!r} is not valid; use a number of at least 0 and below 1.")
    return float(value)


def gamma_lists(name: str, value: Any, n_kernels: int) -> list[tuple[float, ...]] | None:
    """The widths of each kernel: one list for all of them, one for each, or ``None``."""
    if value is None:
        return None
    hint = "use None, a sequence of positive numbers, or one such sequence for each kernel."
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{name}={value!r} is not valid; {hint}")
    lists = list(value)
    if not any(isinstance(entry, Iterable) for entry in lists):
        lists = [lists] * n_kernels
    if len(lists) != n_kernels:
        raise ValueError(f"{name} has {len(lists)} sequences for {n_kernels} kernels; {hint}")
    for entry in lists:
        numbers = isinstance(entry, Iterable) and not isinstance(entry, str) and list(entry)
        if not numbers or not all(_real(g) and 0 < float(g) < np.inf for g in numbers):
            raise ValueError(f"{name}={value!r} is not valid; {hint}")
        if len({float(g) for g in numbers}) < len(numbers):
            raise ValueError(f"{name}={value!r} names a width twice; each must appear once.")
    return [tuple(float(g) for g in entry) for entry in lists]


def positive(name: str, value: Any, also: str = "") -> int:
    """A positive integer."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name}={value!r} is not valid; use {also}an integer >= 1.")
    return int(value)


def count(name: str, value: Any) -> int | None:
    """A positive integer, or ``None``."""
    return None if value is None else positive(name, value, also="None or ")


def confidence(value: Any) -> float:
    """A confidence, strictly between 0 and 1."""
    if isinstance(value, Real) and 0 < float(value) < 1:
        return float(value)
    raise ValueError(f"confidence={value!r} is not valid; use a number between 0 and 1, as 0.9.")


def train_sizes(value: Any, largest: int) -> np.ndarray:
    """Numbers of training rows, from shares of the largest training set or numbers; increasing."""
    sizes = np.asarray(value)
    shares = sizes.dtype.kind == "f"
    valid = sizes.ndim == 1 and sizes.size and sizes.dtype.kind in "iuf"
    if not valid or sizes.min() <= 0 or sizes.max() > (1 if shares else largest):
        raise ValueError(
            f"train_sizes={value!r} is not valid; use shares in (0, 1] or numbers of rows from 1 "
            f"to {largest}, the rows of the largest training set."
        )
    return np.unique(np.maximum((sizes * largest).astype(int), 1) if shares else sizes)


def label_free(estimator: Any, X: Any) -> tuple[Any, Any]:
    """A copy of the last step of a pipeline, and X after the steps before it, fitted without y.

    Steps that use labels are refused: every relabelling or left-out row would need them anew.
    Anything but a pipeline is copied, and X is returned as it is; a classifier of tables says
    itself what is behind it.
    """
    if hasattr(estimator, "behind"):
        return estimator.behind(X)
    if not isinstance(estimator, Pipeline):
        return clone(estimator), X
    for name, step in estimator.steps[:-1]:
        if step is None or step == "passthrough":
            continue
        reason = "it is fitted to labels"
        if not get_tags(step).target_tags.required:
            try:
                X = clone(step).fit_transform(X)
                continue
            except (TypeError, ValueError) as error:
                reason = f"without labels it fails ({error})"
        raise ValueError(
            f"Pipeline step {name!r} ({type(step).__name__}) has no closed form: {reason}, and "
            "steps before the last are fitted once, on all rows, without labels. Leave it out, or "
            "use the function of sklearn.model_selection, which refits."
        )
    return clone(estimator.steps[-1][1]), X


def precomputed(K: Array, rounding: float) -> None:
    """Refuse a kernel matrix that is not square or not symmetric."""
    xp = arrays.namespace(K)
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square matrix of kernel values; got shape {K.shape}."
        )
    largest = max(abs(float(xp.max(K))), abs(float(xp.min(K))))
    gap = max(
        float(xp.max(xp.abs(K[rows, :] - K[:, rows].T))) for rows in arrays.row_blocks(*K.shape)
    )
    if gap > max(1e-8, 10 * rounding) * largest:
        raise ValueError(
            "kernel='precomputed' needs a symmetric matrix; K and its transpose differ by up to "
            f"{gap:.3g} where the largest value is {largest:.3g}. Use (K + K.T) / 2 if this is "
            "rounding."
        )


def known_groups(groups: ArrayLike, kept: np.ndarray) -> np.ndarray:
    """The groups of the kept rows; refuses rows without one."""
    import pandas as pd

    found = np.asarray(arrays.to_numpy(groups))[kept]
    lacking = kept[np.asarray(pd.isna(found))]
    if len(lacking):
        shown = ", ".join(map(str, lacking[:5].tolist())) + ", ..." * (len(lacking) > 5)
        raise ValueError(
            f"groups has no value (None or NaN) for {len(lacking)} of the {len(kept)} rows used, "
            f"counted from 0: {shown}. Give each of these rows its group, or one of its own if it "
            "belongs to none."
        )
    return found


def fold_pairs(
    cv: Any, X: Array, y: Any, groups: Any, kept: np.ndarray, n: int, *, classifier: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test positions among the kept rows, of the folds that test any.

    Splitters see the kept rows; an iterable of index pairs, or a predefined split, names rows of
    the original data.
    """
    if isinstance(cv, PredefinedSplit):
        if len(cv.test_fold) != n:
            raise ValueError(f"cv: test_fold has {len(cv.test_fold)} entries for {n} rows of X.")
        pairs = _kept_pairs(cv.split(), kept, n)
    elif isinstance(cv, Iterable) and not hasattr(cv, "split") and not isinstance(cv, str):
        pairs = _kept_pairs(cv, kept, n)
    else:
        if isinstance(cv, (int, np.integer)) and cv > len(kept):
            raise ValueError(
                f"cv={cv} folds need at least as many rows of positive weight; got {len(kept)}."
            )
        kept_groups = None
        if groups is not None:
            if len(groups) != n:
                raise ValueError(f"groups has {len(groups)} entries for {n} rows of X.")
            kept_groups = known_groups(groups, kept)
        labels = None if y is None else arrays.to_numpy(y)
        splitter = check_cv(cv, labels, classifier=classifier)
        pairs = list(splitter.split(arrays.to_numpy(X), labels, kept_groups))
    for k, (train, test) in enumerate(pairs):
        if len(np.intersect1d(train, test)):
            raise ValueError(f"cv: fold {k} tests rows that it also trains on.")
        if len(train) == 0:
            raise ValueError(f"cv: fold {k} has no rows to train on.")
        if len(np.unique(train)) < len(train):
            raise ValueError(
                f"cv: fold {k} trains on a row more than once, which has no closed form: folds "
                "leave rows out. Say how often rows count by sample_weight."
            )
    pairs = [pair for pair in pairs if len(pair[1])]
    if not pairs:
        raise ValueError("cv: no fold tests any row.")
    return pairs


def _kept_pairs(
    pairs: Iterable[Any], kept: np.ndarray, n: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of positions among n rows as positions among those that are kept."""
    position = np.full(n, -1)
    position[kept] = np.arange(len(kept))
    found = []
    for k, pair in enumerate(pairs):
        try:
            train, test = (position[np.arange(n)[rows]] for rows in pair)
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"cv: fold {k} is {reprlib.repr(pair)}, not a pair (train, test) of positions "
                f"among the {n} rows: {error}."
            ) from error
        found.append((train[train >= 0], test[test >= 0]))
    return found


def folds_of(pairs: list[tuple[np.ndarray, np.ndarray]], X: Array) -> list[Fold]:
    """What a fold does not train on is removed; what it tests is part of that."""
    folds = []
    for train, test in pairs:
        removed = np.setdiff1d(np.arange(X.shape[0]), train)
        where = np.searchsorted(removed, test)
        folds.append(Fold(arrays.indices(removed, X), arrays.indices(where, X)))
    return folds


def nothing_retained(rho: float, distinct: int) -> str:
    """Why a model has no terms, as far as it is known."""
    said = f"No term is retained at rho={rho:g}: the model is constant."
    if distinct == 1:
        return f"{said} All rows of X are equal, so that no rho would retain any."
    return (
        f"{said} Use a smaller rho, or rho='cv'; if that retains none either, the rows of X do not "
        "tell the classes apart."
    )
