"""Left-out scores of changed rows against refits without the row."""

import numpy as np
import oracles
import pytest
from oracles import gap
from sklearn.metrics.pairwise import cosine_similarity

from fisherkit.core import BIASES, Design, Gram, Kernel, Weights
from fisherkit.inference import LeftOutTerm, changed_rows, left_out_fit, score_changes
from fisherkit.rows import Term

N, D, MU = 14, 4, 0.3
KERNELS = {
    "rbf": lambda X, Z: oracles.gram(X, Z, "rbf", gamma=0.4),
    "laplacian": lambda X, Z: oracles.gram(X, Z, "laplacian", gamma=0.4),
    "exponential": lambda X, Z: np.exp(-0.4 * np.linalg.norm(X[:, None] - Z[None], axis=2)),
    "polynomial": lambda X, Z: oracles.gram(X, Z, "polynomial", gamma=0.4),
    "cosine": cosine_similarity,
}


def data(k=1, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, D)), rng.normal(size=(N, k)), rng


def design(X, name="rbf", w=None, c=None, *, bias="free", penalty="rkhs", centres=None):
    ones = np.ones(N)
    return Design(
        gram=Gram(X, Kernel(name, gamma=0.4)),
        weights=Weights(ones if w is None else w, ones if c is None else c),
        penalty=penalty,
        bias=BIASES[bias],
        basis="auto" if centres is None else "given",
        n_components=None,
        rows=centres,
        seed=0,
    )


def changed_scores(asked, X, Y, rows, sources, donors):
    """Scores (c, r, b, k) by the module."""
    fit = left_out_fit(asked, Y, MU, rows)
    term = Term(
        kernel=asked.gram.kernel,
        columns=np.arange(X.shape[1]),
        shift=np.zeros(X.shape[1]),
        scale=np.ones(X.shape[1]),
        centres=X[fit.centres],
        places=fit.centres,
        coef=fit.coef,
    )
    part = LeftOutTerm(term, np.arange(len(rows)), fit.reach[None], fit.pull[None])
    changes = score_changes([part], X[rows], sources, donors, Y.shape[1])
    return changes + (fit.residuals.Y - fit.residuals.leave_one_out())


def refitted_scores(
    name, X, Y, rows, sources, donors, w=None, c=None, *, bias="free", penalty="rkhs", centres=None
):
    """The same by a refit without each row."""
    kernel, n = KERNELS[name], len(X)
    w, c = (np.ones(n) if part is None else part for part in (w, c))
    words = {"bias": bias, "penalty": penalty, "centres": centres}
    if penalty == "coefficients" and centres is None:
        words["centre_weight"] = w
    K, out = kernel(X, X), np.empty((*donors.shape, Y.shape[1]))
    for b, i in enumerate(rows):
        model = oracles.ridge(K, Y, MU, v=oracles.reduced(w, c, i), **words)
        for column, repeat in np.ndindex(*donors.shape[:2]):
            x = X[i].copy()
            own = sources == column
            x[own] = X[rows[donors[column, repeat, b]], own]
            out[column, repeat, b] = oracles.predict(kernel(x[None], X), model, centres)[0]
    return out


def both(name="rbf", k=1, *, rows=None, sources=None, **options):
    X, Y, rng = data(k)
    rows = np.arange(N) if rows is None else rows
    sources = np.arange(D) if sources is None else sources
    donors = np.array([[rng.permutation(len(rows)) for _ in range(2)] for _ in set(sources)])
    found = changed_scores(design(X, name, **options), X, Y, rows, sources, donors)
    return found, refitted_scores(name, X, Y, rows, sources, donors, **options)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_equals_refits(name, k):
    assert gap(*both(name, k)) < 1e-10


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize("centres", [None, np.arange(0, N, 3)], ids=["all", "some"])
def test_every_form_equals_refits(bias, penalty, centres, k):
    assert gap(*both("rbf", k, bias=bias, penalty=penalty, centres=centres)) < 1e-10


@pytest.mark.parametrize("bias", ["free", "penalized"])
@pytest.mark.parametrize("centres", [None, np.arange(0, N, 3)], ids=["all", "some"])
def test_a_row_of_weight_two_loses_one_copy_and_costs_leave_whole(bias, centres):
    rng = np.random.default_rng(1)
    w, c = np.where(np.arange(N) % 3, 1.0, 2.0), rng.uniform(0.5, 2, N)
    w[4] = 0.5
    assert gap(*both(bias=bias, centres=centres, w=w, c=c)) < 1e-10


def test_some_rows_and_columns_of_several_features():
    rows, sources = np.array([1, 3, 4, 8, 13]), np.array([0, 1, 1, 2])
    assert gap(*both("exponential", rows=rows, sources=sources)) < 1e-10
    assert gap(*both("laplacian", 2, rows=rows, sources=sources)) < 1e-10


def test_centres_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(changed_rows, "_NUMBERS", 3 * D * N)
    for name in ("rbf", "exponential"):
        assert gap(*both(name)) < 1e-10


def test_a_kernel_matrix_without_a_factor_is_decomposed(monkeypatch):
    monkeypatch.setattr(changed_rows, "coefficients_at", lambda *args: None)
    assert gap(*both()) < 1e-10


def test_a_low_rank_is_used_on_many_rows(monkeypatch):
    X, Y, rng = data()
    X = np.vstack([X, rng.normal(size=(600, D))]) * 0.2
    Y = np.vstack([Y, rng.normal(size=(600, 1))])
    n, rows = len(X), np.arange(6)
    asked = Design(
        gram=Gram(X, Kernel("rbf", gamma=0.4)),
        weights=Weights(np.ones(n), np.ones(n)),
        penalty="rkhs",
        bias=BIASES["free"],
        basis="auto",
        n_components=None,
        rows=None,
        seed=0,
    )
    donors = np.array([[rng.permutation(6)] for _ in range(D)])
    exact = left_out_fit(asked, Y, MU, rows)
    scores = [changed_scores(asked, X, Y, rows, np.arange(D), donors)]
    monkeypatch.setattr(changed_rows, "_LARGE", 500)
    low = left_out_fit(asked, Y, MU, rows)
    scores.append(changed_scores(asked, X, Y, rows, np.arange(D), donors))
    assert len(low.centres) < n / 2 < len(exact.centres)
    assert gap(low.residuals.leave_one_out(), exact.residuals.leave_one_out()) < 1e-6
    assert gap(*scores) < 1e-6


def test_a_column_that_does_not_change_changes_nothing():
    X, Y, _ = data()
    donors = np.broadcast_to(np.arange(N), (D, 1, N))
    fit = left_out_fit(design(X), Y, MU, np.arange(N))
    scores = changed_scores(design(X), X, Y, np.arange(N), np.arange(D), donors)
    assert gap(scores, np.broadcast_to(Y - fit.residuals.leave_one_out(), scores.shape)) < 1e-13
