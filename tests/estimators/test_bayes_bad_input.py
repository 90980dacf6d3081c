"""Bad input to the Bayesian classifier: words that name the parameter, or a sound finite model."""

import re

import numpy as np
import oracles
import pytest
from em import FisherByEM
from scipy.sparse import csr_array
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from fisherkit import BayesianFisherClassifier
from fisherkit.bayes.climb import Ending

CLASSES = pytest.mark.parametrize("n_classes", [2, 3])
CASES = {
    "rbf": {},
    "ard": dict(ard=True),
    "ard, evidence alone": dict(ard=True, hyperprior=None),
    "rbf + linear": dict(linear=True),
    "linear": dict(kernel="linear"),
    "linear ard": dict(kernel="linear", ard=True),
    "lssvm": dict(evidence="lssvm"),
    "inducing": dict(n_inducing=5, random_state=0),
    "noise model": dict(probability="noise_model"),
    "object": dict(kernel=RBF(1.0), random_state=0),
}
EVERY = pytest.mark.parametrize("options", CASES.values(), ids=CASES)
X, y = oracles.noisy_classes(30)


def assert_refused(options, *words, X=X, y=y, Model=BayesianFisherClassifier, **fit):
    """fit raises ValueError and every word (a regular expression) is in the message."""
    with pytest.raises(ValueError) as caught:
        Model(**options).fit(X, y, **fit)
    for word in words:
        assert re.search(word, str(caught.value)), f"{word!r} is not in {caught.value}"


def assert_sound(model, X):
    """Finite numbers, and labels, decisions and probabilities that agree."""
    decisions, p = model.decision_function(X), model.predict_proba(X)
    mean, std = model.latent(X, return_std=True)
    noise = [model.noise_precision_, model.nugget_, model.amplitude_, model.log_evidence_]
    for values in (decisions, p, mean, std, model.transform(X), model.loo_decision_, noise):
        assert np.all(np.isfinite(values))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    winner = (decisions > 0).astype(int) if decisions.ndim == 1 else np.argmax(decisions, axis=1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[winner])
    np.testing.assert_array_equal(model.predict(X), model.classes_[np.argmax(p, axis=1)])
    assert isinstance(model.status_, Ending)


def sound_or_refused(X, y, options, *words, Model=BayesianFisherClassifier, **fit):
    """A sound model, or a ValueError that has one of the words in it."""
    try:
        model = Model(**options).fit(X, y, **fit)
    except ValueError as error:
        assert any(re.search(word, str(error)) for word in words), f"unclear: {error}"
    else:
        assert_sound(model, X)


# --- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("kernel", ["rbf", "linear", "sklearn.gaussian_process"]),
        ("evidence", ["fisher", "lssvm"]),
        ("probability", ["loo", "noise_model"]),
        ("hyperprior", ["auto", "positive number"]),
    ],
)
@pytest.mark.parametrize("value", ["nonsense", ""])
def test_an_unknown_word_is_refused_with_the_valid_ones(name, valid, value):
    assert_refused({"ard": True, name: value}, f"{name}={value!r}", *valid)


@pytest.mark.parametrize("name", ["kernel", "evidence", "probability"])
@pytest.mark.parametrize("value", [None, 3, ["rbf"]])
def test_what_is_not_a_word_is_refused_with_the_value(name, value):
    assert_refused({name: value}, re.escape(f"{name}={value!r}"))


@pytest.mark.parametrize("name", ["n_restarts", "n_inducing"])
@pytest.mark.parametrize("value", [0, -3, 2.5, "many", True])
def test_counts_that_are_not_positive_integers_are_refused_with_the_value(name, value):
    assert_refused({name: value}, f"{name}=", re.escape(repr(value)), "1")


def test_no_number_of_starts_is_refused():
    assert_refused(dict(n_restarts=None), "n_restarts=None")


@pytest.mark.parametrize("value", [-1, 0, 0.0, np.nan, np.inf, True])
def test_a_spread_that_is_not_positive_is_refused_with_the_value(value):
    assert_refused(dict(ard=True, hyperprior=value), "hyperprior=", re.escape(repr(value)), "auto")


def test_a_spread_without_features_to_spread_is_refused():
    assert_refused(dict(hyperprior=0.5), "hyperprior=0.5", "ard=True")


def test_options_that_contradict_each_other_are_refused():
    assert_refused(dict(kernel="linear", linear=True), "linear=True", "kernel='linear'")
    assert_refused(dict(kernel=RBF(1.0), linear=True), "linear=True", "RBF")
    assert_refused(dict(kernel=RBF(1.0), ard=True), "ard=True", "length scale")
    assert_refused(dict(kernel=RBF(1.0), n_inducing=5), "n_inducing", "rbf")
    assert_refused(dict(kernel="linear", n_inducing=5), "n_inducing", "linear")


def test_em_with_inducing_points_is_refused():
    """Expectation-maximisation knows no inducing points: it would learn with another kernel."""
    for options in (dict(n_inducing=5), dict(kernel="linear")):
        assert_refused(options, "every row", Model=FisherByEM)


def test_em_with_another_evidence_is_refused():
    """Expectation-maximisation climbs the evidence of the discriminant only."""
    assert_refused(dict(evidence="lssvm"), "evidence='fisher'", Model=FisherByEM)


@pytest.mark.parametrize(
    "kernel", [WhiteKernel(), RBF(1.0) + WhiteKernel(0.1), 2.0 * (RBF() + WhiteKernel())]
)
def test_a_white_kernel_is_refused(kernel):
    assert_refused(dict(kernel=kernel), "WhiteKernel", "always part")


def test_a_kernel_object_of_other_features_is_refused():
    with pytest.raises(ValueError, match=r"[Aa]nisotropic|dimension"):
        BayesianFisherClassifier(RBF([1.0, 2.0, 3.0])).fit(X, y)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(1.0, length_scale_bounds="fixed"),
        ConstantKernel(2.0, "fixed") * Matern(1.0, "fixed", nu=1.5),
    ],
)
def test_a_kernel_object_without_parameters_learns_its_amplitude(kernel):
    model = BayesianFisherClassifier(kernel, n_restarts=4).fit(X, y)
    assert_sound(model, X)
    assert model.kernel_ == kernel and len(model.restarts_) == 1


def test_em_takes_no_weights_but_ones():
    assert_refused({}, "count once", Model=FisherByEM, sample_weight=np.full(30, 2.0))
    FisherByEM(n_restarts=1).fit(X, y, np.ones(30))


# --- rows -----------------------------------------------------------------------------------------


def test_rows_that_are_not_numbers_and_labels_that_are_not_classes_are_refused():
    spoiled = X.copy()
    spoiled[3, 0] = np.nan
    assert_refused({}, "X", "NaN", X=spoiled)
    assert_refused({}, "infinity", X=np.where(np.isnan(spoiled), np.inf, spoiled))
    model = BayesianFisherClassifier().fit(X, y)
    for method in (model.predict, model.latent, model.transform):
        with pytest.raises(ValueError, match="NaN"):
            method(spoiled)
        with pytest.raises(ValueError, match="3 features"):
            method(np.c_[X, X[:, 0]])
    assert_refused({}, "[Uu]nknown label type|continuous", y=y + 0.5 * X[:, 0])
    assert_refused({}, "class", "only", y=np.full(30, "only"))
    assert_refused({}, "one class", sample_weight=(y == 0).astype(float))
    assert_refused({}, "sample_weight", "-0.5", sample_weight=np.r_[-0.5, np.ones(29)])


def test_sparse_rows_are_refused():
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        BayesianFisherClassifier().fit(csr_array(X), y)


def rows_of(*counts, d=2):
    """Rows of as many classes as there are counts."""
    label = np.repeat(np.arange(len(counts)), counts)
    return np.random.default_rng(0).normal(size=(len(label), d)) + label[:, None], label


@EVERY
@pytest.mark.parametrize("counts", [(1, 10), (10, 1), (2, 1), (2, 2), (1, 1, 8), (2, 2, 2)])
def test_classes_of_one_or_two_rows_are_learned(options, counts):
    rows, label = rows_of(*counts)
    assert_sound(BayesianFisherClassifier(**options).fit(rows, label), rows)


@EVERY
@pytest.mark.parametrize("counts", [(1, 1), (1, 1, 1)])
def test_nothing_but_classes_of_one_row_is_learned_or_refused_in_words(options, counts):
    rows, label = rows_of(*counts)
    sound_or_refused(rows, label, options, "rows", "class")


@pytest.mark.parametrize("counts", [(2, 1), (1, 1, 1)])
def test_em_on_hardly_any_rows_learns_or_refuses_in_words(counts):
    rows, label = rows_of(*counts)
    sound_or_refused(rows, label, dict(n_restarts=1), "rows", "class", Model=FisherByEM)


@pytest.mark.parametrize("weight", [1e-6, 0.01, 0.1, 0.5])
def test_hardly_any_weight_is_learned_or_refused_in_words(weight):
    sound_or_refused(X, y, {}, "sample_weight", "rows", sample_weight=np.full(30, weight))


@EVERY
@pytest.mark.parametrize("weight", [1e3, 1e4, 1e6])
def test_much_weight_is_learned(options, weight):
    model = BayesianFisherClassifier(**options).fit(X, y, np.full(30, weight))
    assert_sound(model, X)


@EVERY
@CLASSES
def test_separable_classes_are_learned(options, n_classes):
    rows, label = oracles.noisy_classes(30, n_classes)
    rows = rows + 50 * np.stack([np.cos(2.1 * label), np.sin(2.1 * label)], axis=1)
    model = BayesianFisherClassifier(**options).fit(rows, label)
    assert_sound(model, rows)
    np.testing.assert_array_equal(model.predict(rows), label)


@EVERY
def test_more_features_than_rows_are_learned(options):
    rows = np.random.default_rng(0).normal(size=(16, 30))
    label = np.arange(16) % 2
    rows[:, 0] += 3 * label
    assert_sound(BayesianFisherClassifier(**options).fit(rows, label), rows)


@EVERY
@CLASSES
def test_rows_that_occur_in_every_class_are_learned(options, n_classes):
    rows = np.tile(X[:4], (6, 1))
    label = np.arange(24) // 4 % n_classes
    model = BayesianFisherClassifier(**options).fit(rows, label)
    assert_sound(model, rows)


@EVERY
def test_features_that_do_not_vary_at_all_give_the_shares_of_the_classes(options):
    flat, label = np.full((30, 2), 3.0), np.arange(30) % 3 // 2  # a third of them are 1
    model = BayesianFisherClassifier(**options).fit(flat, label)
    assert_sound(model, flat)
    assert np.all(model.predict(flat) == 0)
    if model.relevance_ is not None:
        np.testing.assert_array_equal(model.relevance_, 0.0)
    if model.ard:
        np.testing.assert_array_equal(model.length_scale_, np.inf)


@EVERY
@pytest.mark.parametrize("value", [0.0, 0.1, 7.0])
def test_a_constant_feature_is_not_relevant(options, value):
    rows = np.c_[X, np.full(30, value)]
    model = BayesianFisherClassifier(**options).fit(rows, y)
    assert_sound(model, rows)
    if model.relevance_ is not None:
        assert model.relevance_[2] == 0 and np.all(model.relevance_[:2] > 0)
    if model.ard:
        assert model.length_scale_[2] == np.inf and np.all(np.isfinite(model.length_scale_[:2]))


@pytest.mark.parametrize("name", ["rbf", "rbf + linear", "linear", "ard", "linear ard"])
@pytest.mark.parametrize("value", [7.0, 1e9, 1e50])
def test_a_constant_feature_changes_nothing(name, value):
    rows = np.c_[X, np.full(30, value)]
    one = BayesianFisherClassifier(**CASES[name]).fit(X, y).decision_function(X)
    two = BayesianFisherClassifier(**CASES[name]).fit(rows, y).decision_function(rows)
    np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-8)


@EVERY
@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_huge_and_tiny_features_are_learned(options, scale):
    if "kernel" in options and options["kernel"] != "linear":
        pytest.skip("a kernel object has bounds of its own")
    one = BayesianFisherClassifier(**options).fit(X, y)
    two = BayesianFisherClassifier(**options).fit(X * scale, y)
    assert_sound(two, X * scale)
    if "n_inducing" not in options:  # other values draw other inducing points
        np.testing.assert_allclose(two.predict_proba(X * scale), one.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("name", ["rbf", "ard", "linear"])
@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e300])
def test_features_whose_squares_are_not_numbers_are_learned_or_refused_in_words(name, scale):
    sound_or_refused(X * scale, y, CASES[name], "overflow", "scale", "large", "small")


def test_features_of_very_different_scales_are_learned_with_their_own_widths():
    rows = X * [1e100, 1e-100]
    model = BayesianFisherClassifier(ard=True).fit(rows, y)
    assert_sound(model, rows)
    plain = BayesianFisherClassifier(ard=True).fit(X, y)
    np.testing.assert_allclose(model.relevance_, plain.relevance_, rtol=1e-5)


def test_a_large_offset_costs_digits_only():
    plain, far = (BayesianFisherClassifier().fit(rows, y) for rows in (X, X + 1e8))
    assert_sound(far, X + 1e8)
    moved = far.decision_function(X + 1e8)
    np.testing.assert_allclose(moved, plain.decision_function(X), atol=1e-4)
