"""audit against refits without a row, and without every pair of rows."""

import numpy as np
import oracles
import pandas as pd
import pytest
from oracles import gap
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fisherkit import BayesianFisherClassifier, KernelFisherClassifier, KernelRidgeCV, audit
from fisherkit.core.kernels import Gram
from fisherkit.estimators import inside
from fisherkit.inference.influence import influences

N = 24
NUMBERS = {"gamma": 0.4, "regularization": 0.6}
COLUMNS = ["label", "suggested", "probability", "leverage", "influence"]


def press(residual, v):
    return v @ np.sum(np.reshape(residual, (len(v), -1)) ** 2, axis=1) / v.sum()


def influence(K, Y, mu, i, **options):
    """Mean squared left-out residual of all rows but i, with and without row i in training."""
    rest = np.setdiff1d(np.arange(len(K)), [i])
    everyone = oracles.leave_one_out(K, Y, mu, **options)
    without = [oracles.leave_group_out(K, Y, mu, [np.array([i, j])], **options)[j] for j in rest]
    ones = np.ones(len(rest))
    return press(Y[rest] - everyone[rest], ones) - press(Y[rest] - np.array(without), ones)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": "penalized", "multiclass": "ovr"},
        {"bias": "none", "multiclass": "ovr"},
        {"basis": np.arange(0, N, 4)},
        {"basis": np.arange(0, N, 4), "penalty": "coefficients"},
    ],
    ids=str,
)
def test_influence_and_leverage_are_those_of_refits(options, n_classes):
    X, y = oracles.noisy_classes(N, n_classes, seed=3)
    table = audit(KernelFisherClassifier(**NUMBERS, **options), X, y).sort_index()
    K = oracles.gram(X, gamma=0.4)
    Y = 2.0 * y - 1 if n_classes == 2 else oracles.indicators(y)
    words = {k: v for k, v in options.items() if k != "multiclass"}
    words["centres"] = words.pop("basis", None)
    truth = [influence(K, Y, 0.6, i, **words) for i in range(N)]
    assert gap(table.influence.to_numpy(), np.array(truth)) < 1e-8
    fits = [oracles.ridge(K, e, 0.6, **words) for e in np.eye(N)]
    hat = [oracles.predict(K, fits[i], words["centres"])[i] for i in range(N)]
    assert gap(table.leverage.to_numpy(), np.array(hat)) < 1e-8


@pytest.mark.parametrize(
    "options", [{}, {"bias": "none"}, {"basis": np.arange(0, N, 4), "penalty": "coefficients"}]
)
def test_doubts_of_a_regression_are_those_of_refits(options):
    X, _ = oracles.noisy_classes(N, 2, seed=3)
    y = np.sin(X[:, 0]) + 0.1 * np.random.RandomState(0).normal(size=N)
    y[7] += 2
    table = audit(KernelRidgeCV(**NUMBERS, **options), X, y)
    assert table.index[0] == 7 and np.all(np.diff(np.abs(table["ratio"])) <= 0)
    table, words = table.sort_index(), dict(options)
    words["centres"] = words.pop("basis", None)
    K, Y = oracles.gram(X, gamma=0.4), y[:, None]
    left_out = oracles.leave_one_out(K, Y, 0.6, **words)[:, 0]
    assert gap(table["predicted"].to_numpy(), left_out) < 1e-8
    assert gap(table["residual"].to_numpy(), y - left_out) < 1e-8
    truth = [influence(K, Y, 0.6, i, **words) for i in range(N)]
    assert gap(table["influence"].to_numpy(), np.array(truth)) < 1e-8
    fits = [oracles.ridge(K, e, 0.6, **words) for e in np.eye(N)]
    hat = np.array([oracles.predict(K, fits[i], words["centres"])[i] for i in range(N)])
    assert gap(table["leverage"].to_numpy(), hat) < 1e-8
    alike = (y - left_out) * np.sqrt(1 - hat)
    scale = 1.4826 * np.median(np.abs(alike))
    assert gap(table["ratio"].to_numpy(), alike / scale) < 1e-8


def test_the_spread_of_a_residual_is_that_of_a_gaussian_process():
    """The variance of a target, given all others, is mu / (1 - leverage) in units of the noise."""
    X, _ = oracles.noisy_classes(N, 2, seed=3)
    K = oracles.gram(X, gamma=0.4)
    table = audit(KernelRidgeCV(**NUMBERS, bias="none"), X, X[:, 0]).sort_index()
    for i in range(0, N, 5):
        rest = np.setdiff1d(np.arange(N), [i])
        noisy = K[np.ix_(rest, rest)] + 0.6 * np.eye(N - 1)
        variance = K[i, i] + 0.6 - K[i, rest] @ np.linalg.solve(noisy, K[rest, i])
        assert variance == pytest.approx(0.6 / (1 - table["leverage"].iloc[i]))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_those_of_the_left_out_decisions(n_classes):
    X, y = oracles.noisy_classes(60, n_classes, seed=3)
    names = np.array(["a", "b", "c"])[y]
    model = KernelFisherClassifier(**NUMBERS)
    table = audit(model, X, names)
    assert list(table.columns) == COLUMNS
    assert table.probability.is_monotonic_increasing
    table = table.sort_index()
    decision = model.fit(X, names).loo_decision_
    label = (decision > 0).astype(int) if n_classes == 2 else np.argmax(decision, axis=1)
    np.testing.assert_array_equal(table.suggested, model.classes_[label])
    np.testing.assert_array_equal(table.label, names)
    wrong = (table.label != table.suggested).to_numpy()
    if n_classes == 2:
        np.testing.assert_array_equal(table.probability < 0.5, wrong)
    assert table.probability[~wrong].min() > 1 / n_classes


@pytest.mark.parametrize(
    "model",
    [
        KernelFisherClassifier(**NUMBERS),
        KernelFisherClassifier(**NUMBERS, class_weight={0: 1.0, 1: 2.5}),
        BayesianFisherClassifier(),
        BayesianFisherClassifier(n_inducing=9, random_state=0),
    ],
    ids=["kernel", "costs", "bayesian", "inducing"],
)
def test_a_weight_of_two_is_the_row_twice_and_zero_its_absence(model):
    X, y = oracles.noisy_classes(40, 2, seed=5)
    weight = np.ones(40)
    weight[:6], weight[30:] = 2, 0
    weighted = audit(model, X, y, sample_weight=weight).sort_index()
    rows = np.concatenate([np.arange(30), np.arange(6)])
    repeated = audit(model, X[rows], y[rows]).sort_index()
    for column in COLUMNS[2:]:
        left, right = weighted[column].to_numpy(), repeated[column].to_numpy()
        np.testing.assert_allclose(left[:30], right[:30], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(right[30:], right[:6], rtol=1e-6, atol=1e-9)
    assert np.all(weighted[["leverage", "influence"]].to_numpy()[30:] == 0)


def test_the_low_rank_path_is_audited_without_the_kernel_matrix(monkeypatch):
    """Influences of a fit that never formed K: those of the full path, and of some rows alone."""
    X, y = oracles.noisy_classes(600, 2, seed=5)
    model = KernelFisherClassifier(gamma=0.05, regularization=0.6, random_state=0)
    table = audit(model.set_params(regularization="loo"), X, y).sort_index()
    fitted = model.fit(X, y)
    assert fitted.selection_.method == "low-rank"
    words = {"gamma": 0.05, "regularization": fitted.regularization_}
    full = audit(KernelFisherClassifier(**words, basis="full"), X, y).sort_index()
    for column in ("leverage", "influence"):
        assert gap(table[column].to_numpy(), full[column].to_numpy()) < 1e-5
    monkeypatch.setattr(Gram, "full", lambda self: pytest.fail("K was formed"))
    rows = np.array([17, 3, 400])
    some = influences(inside(fitted).refit(), rows)
    np.testing.assert_allclose(some, table["influence"].to_numpy()[rows], rtol=1e-9)


def test_flipped_labels_of_separable_classes_come_first():
    X, y = oracles.noisy_classes(120, 2, seed=1)
    X[y == 1] += 6
    flipped = [3, 50, 77]
    noisy = y.copy()
    noisy[flipped] = 1 - noisy[flipped]
    for model in (KernelFisherClassifier(), BayesianFisherClassifier()):
        table = audit(model, X, noisy)
        assert sorted(table.index[:3]) == flipped
        assert (table.influence.iloc[:3] > 0).all()
        np.testing.assert_array_equal(table.suggested.loc[flipped], y[flipped])


def test_the_index_is_that_of_the_frame_and_pipelines_are_fitted_without_labels():
    X, y = oracles.noisy_classes(N, 2)
    frame = pd.DataFrame(X, columns=["u", "v"], index=[f"row {i}" for i in range(N)])
    pipeline = make_pipeline(StandardScaler(), KernelFisherClassifier(**NUMBERS))
    table = audit(pipeline, frame, pd.Series(y, index=frame.index))
    assert set(table.index) == set(frame.index)
    plain = audit(KernelFisherClassifier(**NUMBERS), StandardScaler().fit_transform(X), y)
    np.testing.assert_allclose(table.probability, plain.probability, rtol=1e-12)
    assert not hasattr(pipeline[0], "scale_")


def test_what_cannot_be_audited_is_refused():
    X, y = oracles.noisy_classes(N, 2)
    with pytest.raises(TypeError, match="LogisticRegression"):
        audit(LogisticRegression(), X, y)
    with pytest.raises(ValueError, match="judges one target; the model has 2"):
        audit(KernelRidgeCV(**NUMBERS), X, X)
    with pytest.raises(ValueError, match="1 of 24 rows have sample_weight 0"):
        audit(KernelRidgeCV(**NUMBERS), X, X[:, 0], sample_weight=np.append(np.ones(N - 1), 0))
    with pytest.raises(ValueError, match="sample_weight is 0"):
        audit(
            KernelFisherClassifier(**NUMBERS),
            X,
            np.append(y[:-1], 7),
            sample_weight=np.append(np.ones(N - 1), 0),
        )


def test_the_noise_model_changes_no_doubt():
    """Doubts come from leave-one-out scores and their slope, whatever predict_proba shows."""
    X, y = oracles.noisy_classes(60)
    plain, noise = (
        audit(BayesianFisherClassifier(probability=probability), X, y)
        for probability in ("loo", "noise_model")
    )
    np.testing.assert_array_equal(plain.index, noise.index)
    np.testing.assert_allclose(plain.probability, noise.probability, rtol=1e-12)
