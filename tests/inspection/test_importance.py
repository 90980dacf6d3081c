"""The importance of columns against permuting, refitting and answering everything anew."""

import numpy as np
import oracles
import pandas as pd
import pytest
from oracles import gap
from scipy.special import logsumexp
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fisherkit import (
    BayesianFisherClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    SparseFisherClassifier,
    TableClassifier,
    TableRegressor,
)
from fisherkit.datasets import make_relevance
from fisherkit.inspection import column_importance, left_out_logits

NUMBERS = {"gamma": 0.4, "regularization": 0.6}
N = 24


def permutations(n, columns, repeats, seed=0):
    """Those that the function draws."""
    rng = np.random.RandomState(seed)
    return [[rng.permutation(n) for _ in range(repeats)] for _ in range(columns)]


def losses(logits, y):
    """Log-loss and error of each row, of logits (n,) or (n, c)."""
    wide = np.column_stack([0 * logits, logits]) if logits.ndim == 1 else logits
    loss = logsumexp(wide, axis=1) - wide[np.arange(len(y)), y]
    return np.stack([loss, np.argmax(wide, axis=1) != y])


def by_refits(logits_of, X, y, repeats, measure=losses):
    """Rises (columns, measures) and their standard errors; ``logits_of(i, x)`` refits without i."""
    n, d = X.shape
    base = measure(np.array([logits_of(i, X[i]) for i in range(n)]), y)
    rises = []
    for column, drawn in enumerate(permutations(n, d, repeats)):
        values = []
        for order in drawn:
            changed = X.copy()
            changed[:, column] = X[order, column]
            values.append(measure(np.array([logits_of(i, changed[i]) for i in range(n)]), y))
        rises.append(np.mean(values, axis=0) - base)
    rises = np.array(rises)
    return rises.mean(axis=2), rises.std(axis=2, ddof=1) / n**0.5


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": "laplacian", "bias": "none"},
        {"kernel": "exponential", "bias": "penalized"},
        {"kernel": "chi2"},
        {"threshold": "balanced"},
        {"penalty": "coefficients", "basis": np.arange(0, N, 2)},
    ],
    ids=str,
)
def test_importance_of_two_classes_equals_refits(options):
    X, y = oracles.noisy_classes(N, 2, d=3, seed=3)
    X = np.abs(X)  # for chi2
    model = KernelFisherClassifier(**NUMBERS, **options).fit(X, y)
    found = column_importance(model, X, y, n_repeats=2)
    assert found.left_out and found.rows == N
    if isinstance(options.get("basis"), np.ndarray):  # centres stay when their row goes
        words = {"penalty": "coefficients", "centres": options["basis"]}
        fits = [
            oracles.ridge(
                oracles.gram(X, gamma=0.4), 2.0 * y - 1, 0.6, v=np.arange(N) != i, **words
            )
            for i in range(N)
        ]
        refits = None
    else:
        rest = [np.arange(N) != i for i in range(N)]
        refits = [KernelFisherClassifier(**NUMBERS, **options).fit(X[r], y[r]) for r in rest]

    def logits_of(i, x):
        if refits is not None:
            return model.calibration_.value * refits[i].decision_function(x[None])[0]
        k = oracles.gram(x[None], X, gamma=0.4)
        f = oracles.predict(k, fits[i], options["basis"])[0]
        return model.calibration_.value * f

    rise, error = by_refits(logits_of, X, y, 2)
    # The exponential kernel has the root of what rounding leaves of distances.
    assert gap(found.rise, rise[:, 0]) < (1e-8 if options.get("kernel") == "exponential" else 1e-10)
    assert gap(found.standard_error, error[:, 0]) < 1e-8
    assert gap(found.error_rise, rise[:, 1]) < 1e-10
    assert gap(found.error_standard_error, error[:, 1]) < 1e-8


@pytest.mark.parametrize("multiclass", ["softmax", "lda", "ovr"])
def test_importance_of_three_classes_equals_refits(multiclass):
    X, y = oracles.noisy_classes(N, 3, d=3, seed=3)
    model = KernelFisherClassifier(**NUMBERS, multiclass=multiclass).fit(X, y)
    found = column_importance(model, X, y, n_repeats=1)
    plain = "ovr" if multiclass == "softmax" else multiclass
    rest = [np.arange(N) != i for i in range(N)]
    refits = [KernelFisherClassifier(**NUMBERS, multiclass=plain).fit(X[r], y[r]) for r in rest]
    means = oracles.fold_means(oracles.indicators(y))

    def logits_of(i, x):
        decision = refits[i].decision_function(x[None])[0]
        if multiclass == "softmax":
            return model.calibration_((decision - means[i] * decision.sum())[None])[0]
        return model.calibration_.value * decision

    rise, _ = by_refits(logits_of, X, y, 1)
    assert gap(found.rise, rise[:, 0]) < 1e-10
    assert gap(found.error_rise, rise[:, 1]) < 1e-10


def test_importance_of_a_regression_equals_refits():
    X, _ = oracles.noisy_classes(N, 2, d=3, seed=3)
    Y = np.column_stack([X[:, 0] ** 2, X[:, 1] + X[:, 2]])
    model = KernelRidgeCV(**NUMBERS).fit(X, Y)
    found = column_importance(model, X, Y, n_repeats=2)
    rest = [np.arange(N) != i for i in range(N)]
    refits = [KernelRidgeCV(**NUMBERS).fit(X[r], Y[r]) for r in rest]
    rise, error = by_refits(
        lambda i, x: refits[i].predict(x[None])[0],
        X,
        Y,
        2,
        measure=lambda numbers, Y: np.sum((Y - numbers) ** 2, axis=1)[None],
    )
    assert gap(found.rise, rise[:, 0]) < 1e-10
    assert gap(found.standard_error, error[:, 0]) < 1e-8
    assert found.measure == "squared error" and found.error_rise is None
    assert list(found.to_frame().columns) == ["rise", "standard_error"]


@pytest.mark.parametrize(
    "model",
    [
        KernelFisherClassifier(),
        KernelFisherClassifier(ard=True),
        KernelFisherClassifier(kernel=lambda x, z: x @ z + 1.0, regularization=1.0),
        make_pipeline(StandardScaler(), KernelFisherClassifier(class_weight="balanced")),
    ],
    ids=["kernel", "ard", "callable", "pipeline"],
)
def test_the_base_is_the_left_out_loss(model):
    X, y = oracles.noisy_classes(60, 2, d=3, seed=3)
    model = model.fit(X, np.array(["no", "yes"])[y])
    found = column_importance(model, X, np.array(["no", "yes"])[y], n_repeats=1)
    front = model[-1] if hasattr(model, "steps") else model
    logits = left_out_logits(front)[:, 0]
    if getattr(front, "ard", False) and front.widths_.strength > 0:  # widths stay as they are
        size, mu = np.sqrt(front.gamma_), front.regularization_
        held = KernelFisherClassifier(gamma=1.0, regularization=mu).fit(X * size, y)
        logits = front.calibration_.value * held.loo_decision_
    base = losses(logits, y).mean(axis=1)
    assert gap(np.array([found.base, found.base_error]), base) < 1e-8
    assert found.left_out


def test_weights_are_copies_and_rows_of_weight_zero_do_not_count():
    X, y = oracles.noisy_classes(40, 2, d=2, seed=5)
    weight = np.ones(40)
    weight[:6], weight[30:] = 2, 0
    model = KernelFisherClassifier(**NUMBERS).fit(X, y, sample_weight=weight)
    found = column_importance(model, X, y)
    assert (found.rows, found.left_out) == (30, True)
    logits = left_out_logits(model)[:30, 0]
    base = losses(logits, y[:30]) @ weight[:30] / 36
    assert gap(np.array([found.base, found.base_error]), base) < 1e-10


def test_at_most_so_many_rows_are_judged():
    X, y = oracles.noisy_classes(90, 2, d=2, seed=5)
    model = KernelFisherClassifier(**NUMBERS).fit(X, y)
    few, all_of = (column_importance(model, X, y, max_rows=m) for m in (40, 2000))
    assert (few.rows, all_of.rows) == (40, 90)
    assert np.all(np.abs(few.rise - all_of.rise) < 4 * few.standard_error)


@pytest.mark.parametrize(
    "model",
    [
        KernelFisherClassifier(),
        SparseFisherClassifier(),
        ForwardFisherClassifier(),
        BayesianFisherClassifier(),
    ],
    ids=lambda m: str(m).replace("Classifier", ""),
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_new_rows_are_judged_by_the_model_as_it_is(model, n_classes):
    X, y = oracles.noisy_classes(80, n_classes, d=2, seed=3)
    model = model.fit(X[:50], y[:50])
    X, y = X[50:], y[50:]
    found = column_importance(model, X, y, n_repeats=1)
    assert not found.left_out

    def log_loss(X):
        return -np.log(model.predict_proba(X)[np.arange(30), y]).mean()

    assert abs(found.base - log_loss(X)) < 1e-6
    for column, (order,) in enumerate(permutations(30, 2, 1)):
        changed = X.copy()
        changed[:, column] = X[order, column]
        assert abs(found.rise[column] - (log_loss(changed) - log_loss(X))) < 1e-6


def test_columns_of_tables_are_permuted_whole():
    rng = np.random.default_rng(0)
    n = 150
    table = pd.DataFrame(
        {
            "noise": rng.normal(size=n),
            "town": rng.choice(["Oslo", "Rome", None], n),
            "size": rng.normal(size=n),
        }
    )
    label = np.where((table["size"] > 0) ^ (table["town"] == "Rome"), "yes", "no")
    table.loc[::17, "size"] = np.nan
    model = TableClassifier("fisher").fit(table, label)
    found = column_importance(model, table, label)
    assert found.left_out
    assert set(found.to_frame().index[:2]) == {"town", "size"}
    drawn = permutations(n, 3, 5)
    new = column_importance(model, table, label, left_out=False)
    for column, name in enumerate(found.columns):
        rises = []
        for order in drawn[column]:
            changed = table.copy()
            changed[name] = table[name].to_numpy()[order]
            p = model.predict_proba(changed)
            rises.append(-np.log(p[np.arange(n), (label == "yes").astype(int)]).mean())
        assert abs(np.mean(rises) - new.base - new.rise[column]) < 1e-8
    target = table["noise"] + 2 * (table["town"] == "Rome")
    regressor = TableRegressor().fit(table, target)
    found = column_importance(regressor, table, target)
    assert found.left_out and set(found.to_frame().index[:2]) == {"noise", "town"}


@pytest.mark.parametrize("method", ["fisher", "committee"])
def test_rows_of_a_table_without_weight_or_label_are_no_part_of_it(method):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {"a": rng.normal(size=70), "b": rng.normal(size=70), "c": [*"xyzxyzx"] * 10}
    )
    label = (table["a"] + 0.5 * rng.normal(size=70) > 0).to_numpy()
    weight = np.ones(len(table))
    weight[::7] = 0
    some = table[weight > 0], label[weight > 0]
    found = column_importance(
        TableClassifier(method).fit(table, label, sample_weight=weight), table, label, n_repeats=1
    )
    bare = column_importance(TableClassifier(method).fit(*some), *some, n_repeats=1)
    assert found.left_out and found.rows == len(some[0])
    np.testing.assert_allclose(found.rise, bare.rise, rtol=1e-6, atol=1e-9)


def test_the_column_that_matters_comes_first():
    X, y = make_relevance(300, n_irrelevant=8, random_state=0)
    model = make_pipeline(StandardScaler(), KernelFisherClassifier()).fit(X, y)
    frame = column_importance(model, X, y).to_frame()
    assert frame.index[0] == "x0" and frame["rise"].iloc[0] > 10 * frame["rise"].iloc[1]


def test_what_has_no_left_out_rows_is_refused():
    X, y = oracles.noisy_classes(40, 2, d=2)
    model = KernelFisherClassifier(**NUMBERS).fit(X, y)
    for rows, labels, words in (
        (X[:30], y[:30], "X has 30 rows, and the fit had 40"),
        (X[::-1], y, "not those of the fit"),
        (X, 1 - y, "y is not what"),
    ):
        assert not column_importance(model, rows, labels).left_out
        with pytest.raises(ValueError, match=words):
            column_importance(model, rows, labels, left_out=True)
    with pytest.raises(ValueError, match="label 7, which is no class"):
        column_importance(model, X, y + 7 * (y == 1) - (y == 1))
    with pytest.raises(ValueError, match="X has 40 rows and y has 39"):
        column_importance(model, X, y[1:])
    sparse = SparseFisherClassifier().fit(X, y)
    with pytest.raises(ValueError, match="no exact leave-one-out"):
        column_importance(sparse, X, y, left_out=True)
    blocks = KernelFisherClassifier(max_memory="1MB", n_components=5).fit(
        np.tile(X, (500, 1)), np.tile(y, 500)
    )
    assert not column_importance(blocks, X, y).left_out
    with pytest.raises(ValueError, match="may mix columns"):
        column_importance(make_pipeline(PCA(), model).fit(X, y), X, y)
    noise = BayesianFisherClassifier(probability="noise_model").fit(X, y)
    with pytest.raises(ValueError, match="log-odds of a noise model"):
        column_importance(noise, X, y)
    with pytest.raises(ValueError, match="max_rows=0"):
        column_importance(model, X, y, max_rows=0)
