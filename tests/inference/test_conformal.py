"""Prediction sets and intervals against refits for every candidate and every left-out row."""

import pickle

import numpy as np
import oracles
import pytest

from fisherkit import BayesianFisherClassifier, KernelFisherClassifier, KernelRidgeCV

N, NEW = 18, 7
NUMBERS = {"gamma": 0.4, "regularization": 0.6}
METHODS = pytest.mark.parametrize("method", ["full", "jackknife+"])


def rows(n_classes, n=N, seed=2):
    X, y = oracles.noisy_classes(n + NEW, n_classes, seed=seed)
    return X[:n], y[:n], X[n:]


def codes(y, n_classes):
    return (2.0 * y - 1)[:, None] if n_classes == 2 else np.eye(n_classes)[y]


def margins(F, Y):
    if F.shape[1] == 1:
        return F[:, 0] * Y[:, 0]
    return np.sum(F * Y, axis=1) - np.max(np.where(Y > 0.5, -np.inf, F), axis=1)


class Refits:
    """f at the last row, and at row i, by models that lack one row; one refit for each."""

    def __init__(self, K, mu, cost=None, centres=None, **options):
        self.K, self.mu, self.options, self.centres = K, mu, options, centres
        self.cost = np.ones(len(K)) if cost is None else cost

    def without(self, Y, gone, at):
        v = self.cost.copy()
        v[gone] = 0
        model = oracles.ridge(self.K, Y, self.mu, v=v, centres=self.centres, **self.options)
        f = oracles.predict(self.K[[at]], model, self.centres)[0]
        return f, v @ Y / v.sum()


def brute_p_values(X, y, x, n_classes, method, *, balanced, conditional, costs, **options):
    """Of every label at the row x; the last row of the kernel matrix is x."""
    n = len(X)
    K = oracles.gram(np.vstack([X, x]), gamma=0.4)
    values = []
    for label in range(n_classes):
        labels = np.append(y, label)
        Y = codes(labels, n_classes)
        refits = Refits(K, 0.6, cost=costs[labels], **options)
        usual, new = np.empty(n), np.empty(n)
        for i in range(n):
            gone = [i] if method == "full" else [i, n]
            f, mean = refits.without(Y, gone, i)
            usual[i] = margins((f - balanced * mean)[None], Y[[i]])[0]
            gone = [n] if method == "full" else [i, n]
            f, mean = refits.without(Y, gone, n)
            new[i] = margins((f - balanced * mean)[None], Y[[n]])[0]
        compared = (y == label) if conditional else np.ones(n, dtype=bool)
        values.append((np.sum((usual <= new + 1e-12) & compared) + 1) / (compared.sum() + 1))
    return np.array(values)


@METHODS
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"threshold": "balanced"},
        {"bias": "penalized", "multiclass": "ovr"},
        {"bias": "none", "multiclass": "ovr"},
        {"basis": np.arange(0, N, 3)},
        {"penalty": "coefficients"},
        {"basis": np.arange(0, N, 3), "penalty": "coefficients"},
        {"basis": np.arange(0, N, 3), "penalty": "coefficients", "bias": "penalized"},
        {"class_weight": {0: 1.0, 1: 2.5, 2: 0.5}},
        {"class_conditional": True},
    ],
    ids=lambda options: ", ".join(options) or "plain",
)
def test_sets_are_those_of_refits_for_every_candidate_label(options, n_classes, method):
    options = dict(options)
    conditional = options.pop("class_conditional", False)
    costs = np.ones(n_classes)
    if "class_weight" in options:
        options["class_weight"] = {q: options["class_weight"][q] for q in range(n_classes)}
        costs = np.array(list(options["class_weight"].values()))
    if n_classes == 3 and options.get("bias", "free") != "free":
        options["multiclass"] = "ovr"
    X, y, new = rows(n_classes)
    model = KernelFisherClassifier(**NUMBERS, **options).fit(X, y)
    words = {k: v for k, v in options.items() if k in ("bias", "penalty")}
    # The new row is no centre of the coefficients penalty.
    centres = options.get("basis", np.arange(N) if "penalty" in options else None)
    truth = np.array(
        [
            brute_p_values(
                X,
                y,
                x,
                n_classes,
                method,
                balanced=options.get("threshold") == "balanced",
                conditional=conditional,
                costs=costs,
                centres=centres,
                **words,
            )
            for x in new
        ]
    )
    for confidence in (0.5, 0.8, 0.93):
        sets = model.predict_set(new, confidence, method, class_conditional=conditional)
        np.testing.assert_array_equal(sets, truth > 1 - confidence + 1e-9)


def accepted(X, y, x, target, n, **options):
    """Whether full conformal prediction at 0.8 accepts the target at x, by refits."""
    K = oracles.gram(np.vstack([X, x]), gamma=0.4)
    Y = np.append(y, target)[:, None]
    refits = Refits(K, 0.6, **options)
    residual = np.array([Y[i] - refits.without(Y, [i], i)[0] for i in range(n + 1)])[:, 0]
    return np.mean(np.abs(residual) >= np.abs(residual[-1]) - 1e-12) > 0.2 + 1e-9


@pytest.mark.parametrize(
    "options",
    [{}, {"bias": "none"}, {"bias": "penalized"}, {"basis": np.arange(0, N, 4)}],
    ids=str,
)
def test_full_intervals_end_where_refits_stop_accepting(options):
    X, _, new = rows(2)
    y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(0).normal(size=N)
    model = KernelRidgeCV(**NUMBERS, **options).fit(X, y)
    lower, upper = model.predict_interval(new, confidence=0.8)
    words = dict(options)
    words["centres"] = words.pop("basis", None)
    for x, low, high in zip(new[:4], lower, upper, strict=False):
        step = 1e-6 * (high - low)
        verdicts = [
            accepted(X, y, x, t, N, **words)
            for t in (low - step, low + step, 0.5 * (low + high), high - step, high + step)
        ]
        assert verdicts == [False, True, True, True, False]


def test_jackknife_plus_intervals_are_those_of_refits():
    X, _, new = rows(2)
    y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(0).normal(size=N)
    model = KernelRidgeCV(**NUMBERS).fit(X, y)
    lower, upper = model.predict_interval(new, confidence=0.8, method="jackknife+")
    rank = int(0.2 * (N + 1) + 1e-9)
    for x, low, high in zip(new, lower, upper, strict=True):
        K = oracles.gram(np.vstack([X, x]), gamma=0.4)
        Y = np.append(y, 0.0)[:, None]
        refits = Refits(K, 0.6)
        f = np.array([refits.without(Y, [i, N], N)[0][0] for i in range(N)])
        own = np.array([refits.without(Y, [i, N], i)[0][0] for i in range(N)])
        residual = np.abs(y - own)
        assert low == pytest.approx(np.sort(f - residual)[rank - 1], rel=1e-9)
        assert high == pytest.approx(np.sort(f + residual)[-rank], rel=1e-9)


@METHODS
@pytest.mark.parametrize(
    "model",
    [KernelFisherClassifier(**NUMBERS), BayesianFisherClassifier(), KernelRidgeCV(**NUMBERS)],
    ids=lambda model: type(model).__name__,
)
def test_a_weight_of_two_is_the_row_twice_and_zero_its_absence(model, method):
    X, y, new = rows(2, n=40)
    weight = np.ones(40)
    weight[:6], weight[30:] = 2, 0
    again = np.concatenate([np.arange(30), np.arange(6)])
    if isinstance(model, KernelRidgeCV):
        weighted = model.fit(X, X[:, 0], weight).predict_interval(new, 0.8, method)
        repeated = model.fit(X[again], X[again, 0]).predict_interval(new, 0.8, method)
        np.testing.assert_allclose(weighted, repeated, rtol=1e-6)
        return
    for confidence in (0.5, 0.7, 0.9):
        weighted = model.fit(X, y, weight).predict_set(new, confidence, method)
        repeated = model.fit(X[again], y[again]).predict_set(new, confidence, method)
        np.testing.assert_array_equal(weighted, repeated)


@METHODS
def test_bayesian_sets_are_those_of_the_ridge_with_its_kernel(method):
    X, y, new = rows(2, n=40)
    model = BayesianFisherClassifier().fit(X, y)
    gamma = 0.5 / model.length_scale_**2
    noise = (1 / model.noise_precision_ + model.nugget_) / model.amplitude_
    twin = KernelFisherClassifier(gamma=gamma, regularization=noise).fit(X, y)
    for confidence in (0.5, 0.7, 0.9):
        np.testing.assert_array_equal(
            model.predict_set(new, confidence, method), twin.predict_set(new, confidence, method)
        )


@METHODS
def test_tuned_kernels_compare_new_rows_with_all_rows(method):
    """One width per feature, and a low-rank fit: the sets are those of the same kernel given."""
    X, y, new = rows(2, n=600)
    tuned = KernelFisherClassifier().fit(X, y)
    given = KernelFisherClassifier(gamma=tuned.gamma_, regularization=tuned.regularization_)
    np.testing.assert_array_equal(
        tuned.predict_set(new, 0.8, method), given.fit(X, y).predict_set(new, 0.8, method)
    )
    X, y, new = rows(2, n=80)
    ard = KernelFisherClassifier(ard=True).fit(X, y)
    scale = np.sqrt(ard.gamma_)
    twin = KernelFisherClassifier(gamma=1.0, regularization=ard.regularization_)
    sets = twin.fit(X * scale, y).predict_set(new * scale, 0.8, method)
    np.testing.assert_array_equal(ard.predict_set(new, 0.8, method), sets)


def test_precomputed_kernels_have_jackknife_plus_only():
    X, y, new = rows(2)
    K, k = oracles.gram(X, gamma=0.4), oracles.gram(new, X, gamma=0.4)
    model = KernelFisherClassifier("precomputed", regularization=0.6).fit(K, y)
    plain = KernelFisherClassifier(**NUMBERS).fit(X, y)
    np.testing.assert_array_equal(
        model.predict_set(k, 0.8, "jackknife+"), plain.predict_set(new, 0.8, "jackknife+")
    )
    with pytest.raises(ValueError, match="jackknife"):
        model.predict_set(k, 0.8)


@METHODS
@pytest.mark.parametrize("conditional", [False, True])
def test_sets_grow_with_the_confidence_and_cover(method, conditional):
    X, y = oracles.noisy_classes(900, 3, seed=8)
    model = KernelFisherClassifier(**NUMBERS).fit(X[:300], y[:300])
    last = np.zeros((600, 3), dtype=bool)
    for confidence in (0.6, 0.8, 0.95):
        sets = model.predict_set(X[300:], confidence, method, class_conditional=conditional)
        assert np.all(sets | ~last)
        last = sets
        covered = sets[np.arange(600), y[300:]]
        groups = [covered[y[300:] == q] for q in range(3)] if conditional else [covered]
        for group in groups:  # four standard errors of the test and the training draw together
            slack = 4 * np.sqrt(confidence * (1 - confidence) * (1 / len(group) + 3 / 300))
            assert abs(group.mean() - confidence) < slack


@pytest.mark.parametrize(
    "model",
    [KernelFisherClassifier(**NUMBERS), BayesianFisherClassifier()],
    ids=lambda m: type(m).__name__,
)
def test_asking_for_sets_does_not_change_the_model(model):
    X, y, new = rows(2, n=120)
    model.fit(X, y)
    before = pickle.dumps(model)
    sets = model.predict_set(new)
    assert pickle.dumps(model) == before
    np.testing.assert_array_equal(pickle.loads(before).predict_set(new), sets)


def test_too_few_rows_for_the_confidence_mean_anything_is_possible():
    X, y, new = rows(2)
    lower, upper = KernelRidgeCV(**NUMBERS).fit(X, y * 1.0).predict_interval(new, 0.99)
    assert np.all(np.isinf(lower)) and np.all(np.isinf(upper))
    assert np.all(KernelFisherClassifier(**NUMBERS).fit(X, y).predict_set(new, 0.99))


def test_several_outputs_have_an_interval_each():
    X, y, new = rows(2)
    Y = np.c_[X[:, 0], y]
    lower, upper = KernelRidgeCV(**NUMBERS).fit(X, Y).predict_interval(new, 0.8)
    assert lower.shape == upper.shape == (NEW, 2)
    for j in range(2):
        alone = KernelRidgeCV(**NUMBERS).fit(X, Y[:, j]).predict_interval(new, 0.8)
        np.testing.assert_allclose(alone, (lower[:, j], upper[:, j]), rtol=1e-9)


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, "high", None, np.nan])
def test_a_confidence_outside_0_and_1_is_refused(confidence):
    X, y, new = rows(2)
    with pytest.raises(ValueError, match="confidence="):
        KernelFisherClassifier(**NUMBERS).fit(X, y).predict_set(new, confidence)
    with pytest.raises(ValueError, match="confidence="):
        KernelRidgeCV(**NUMBERS).fit(X, y).predict_interval(new, confidence)


def test_an_unknown_method_is_refused():
    X, y, new = rows(2)
    with pytest.raises(ValueError, match="jackknife"):
        KernelFisherClassifier(**NUMBERS).fit(X, y).predict_set(new, method="split")
