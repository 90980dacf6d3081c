"""The same numbers from other array namespaces, in the namespace and precision of X."""

import os

import numpy as np
import oracles
import pandas as pd
import pytest
from sklearn import clone, config_context

from fisherkit import (
    FisherCommitteeClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    TableClassifier,
    TableRegressor,
    audit,
)
from fisherkit.model_files import load, save
from fisherkit.model_selection import permutation_test_score

pytestmark = pytest.mark.skipif(
    os.environ.get("SCIPY_ARRAY_API") != "1",
    reason="array dispatch needs SCIPY_ARRAY_API=1 set before SciPy is imported",
)

CLASSIFIERS = {
    "numbers": dict(gamma=0.3, regularization=0.5),
    "tuned": {},
    "laplacian coefficients": dict(kernel="laplacian", penalty="coefficients"),
    "linear, log loss": dict(kernel="linear", criterion="log_loss"),
    "polynomial": dict(kernel="polynomial", gamma=0.1, degree=2),
    "centres": dict(gamma=0.3, basis=np.arange(0, 60, 5)),
    "centres, coefficients": dict(gamma=0.3, basis=np.arange(0, 60, 5), penalty="coefficients"),
    "random centres": dict(gamma="scale", basis="random", n_components=9, random_state=0),
    "greedy centres": dict(gamma=0.3, basis="greedy", n_components=9, random_state=0),
    "balanced": dict(gamma="median", threshold="balanced", class_weight="balanced"),
    "one versus rest": dict(gamma=0.3, bias="none", multiclass="ovr"),
    "folds": dict(gamma=0.3, cv=4),
}
METHODS = ["decision_function", "predict_proba", "transform", "predict"]


@pytest.fixture(params=["torch", "array_api_strict"])
def xp(request):
    return pytest.importorskip(request.param)


def to_numpy(array):
    return array.numpy() if hasattr(array, "numpy") else np.from_dlpack(array)


def same_namespace(array, xp):
    return type(array) is type(xp.asarray([1.0]))


# Rounding decides which of two equally good pivots a namespace draws: new rows then agree to the
# accuracy of the low-rank path, not to rounding.
LOW_RANK = 1e-6


def assert_equal_outputs(model, reference, X, new, xp, methods, tolerance=1e-8):
    for method in methods:
        ours = getattr(model, method)(xp.asarray(new))
        truth = getattr(reference, method)(new)
        assert same_namespace(ours, xp), method
        ours = to_numpy(ours)
        assert ours.shape == truth.shape
        np.testing.assert_allclose(ours, truth, rtol=tolerance, atol=tolerance, err_msg=method)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_classifier_equals_numpy(xp, options, n_classes):
    X, y = oracles.noisy_classes(60, n_classes)
    new = np.random.default_rng(0).normal(size=(25, 2))
    reference = KernelFisherClassifier(**options).fit(X, y)
    with config_context(array_api_dispatch=True):
        model = KernelFisherClassifier(**options).fit(xp.asarray(X), xp.asarray(y))
        assert_equal_outputs(model, reference, X, new, xp, METHODS)
        assert same_namespace(model.loo_decision_, xp)
        assert same_namespace(model.dual_coef_, xp)
    loo = to_numpy(model.loo_decision_)
    np.testing.assert_allclose(loo, reference.loo_decision_, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(float(model.regularization_), reference.regularization_, rtol=1e-7)


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_low_rank_classifier_equals_numpy(xp, n_classes, penalty):
    X, y = oracles.noisy_classes(700, n_classes)
    options = dict(gamma=0.3, penalty=penalty, random_state=0)
    reference = KernelFisherClassifier(**options).fit(X, y)
    assert reference.selection_.method == "low-rank"
    with config_context(array_api_dispatch=True):
        model = KernelFisherClassifier(**options).fit(xp.asarray(X), xp.asarray(y))
        assert model.selection_.method == "low-rank"
        assert_equal_outputs(model, reference, X, X[:40] + 0.1, xp, METHODS, LOW_RANK)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("n", [60, 700])
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_regression_equals_numpy(xp, penalty, n, outputs):
    X, _ = oracles.noisy_classes(n)
    rng = np.random.default_rng(0)
    Y = np.c_[np.sin(X[:, 0]), X[:, 1] ** 2] + 0.2 * rng.normal(size=(n, 2))
    Y = Y if outputs == 2 else Y[:, 0]
    options = dict(gamma=0.3, penalty=penalty, random_state=0)
    reference = KernelRidgeCV(**options).fit(X, Y)
    with config_context(array_api_dispatch=True):
        model = KernelRidgeCV(**options).fit(xp.asarray(X), xp.asarray(Y))
        tolerance = 1e-8 if n <= 500 else LOW_RANK
        assert_equal_outputs(model, reference, X, X[:40] + 0.1, xp, ["predict"], tolerance)
        assert same_namespace(model.loo_prediction_, xp)
    loo = to_numpy(model.loo_prediction_)
    np.testing.assert_allclose(loo, reference.loo_prediction_, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sample_weight_follows_the_namespace(xp, n_classes):
    X, y = oracles.noisy_classes(60, n_classes)
    w = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], 60)
    reference = KernelFisherClassifier(gamma=0.3).fit(X, y, w)
    with config_context(array_api_dispatch=True):
        model = KernelFisherClassifier(gamma=0.3)
        model.fit(xp.asarray(X), xp.asarray(y), sample_weight=xp.asarray(w))
        assert_equal_outputs(model, reference, X, X, xp, METHODS)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_string_labels_stay_numpy(xp, n_classes):
    X, y = oracles.noisy_classes(60, n_classes)
    names = np.array(["a", "b", "c"])[y]
    reference = KernelFisherClassifier(gamma=0.3).fit(X, names)
    with config_context(array_api_dispatch=True):
        model = KernelFisherClassifier(gamma=0.3).fit(xp.asarray(X), names)
        label = model.predict(xp.asarray(X))
        assert_equal_outputs(model, reference, X, X, xp, METHODS[:3])
    assert isinstance(label, np.ndarray)
    np.testing.assert_array_equal(label, reference.predict(X))


def test_precomputed_kernels_follow_the_namespace(xp):
    X, y = oracles.noisy_classes(60)
    K = oracles.gram(X, gamma=0.3)
    reference = KernelFisherClassifier("precomputed").fit(K, y)
    with config_context(array_api_dispatch=True):
        model = KernelFisherClassifier("precomputed").fit(xp.asarray(K), xp.asarray(y))
        assert_equal_outputs(model, reference, K, K[:20], xp, METHODS)


@pytest.mark.parametrize("n", [60, 700])
def test_float32_stays_float32(n):
    torch = pytest.importorskip("torch")
    X, y = oracles.noisy_classes(n)
    options = dict(gamma=0.3, regularization=1.0)
    reference = KernelFisherClassifier(**options).fit(X, y)
    single = torch.asarray(X, dtype=torch.float32)
    with config_context(array_api_dispatch=True):
        model = KernelFisherClassifier(**options).fit(single, torch.asarray(y))
        for method in METHODS[:3]:
            output = getattr(model, method)(single)
            assert output.dtype == torch.float32
            truth = getattr(reference, method)(X)
            np.testing.assert_allclose(output.numpy(), truth, rtol=1e-3, atol=1e-3)
        tuned = KernelRidgeCV(gamma=0.3).fit(single, torch.asarray(y, dtype=torch.float32))
        assert tuned.predict(single).dtype == torch.float32
        assert torch.all(torch.isfinite(tuned.loo_prediction_))


def test_without_dispatch_torch_tensors_are_plain_data():
    torch = pytest.importorskip("torch")
    X, y = oracles.noisy_classes(60)
    model = KernelFisherClassifier(gamma=0.3).fit(torch.asarray(X), torch.asarray(y))
    assert isinstance(model.decision_function(torch.asarray(X)), np.ndarray)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(combine="stack", class_weight="balanced"),
        dict(combine="best", penalty="coefficients"),
        dict(kernels=("rbf", "linear"), n_components=20, random_state=0),
    ],
    ids=str,
)
def test_committee_equals_numpy(xp, options, n_classes):
    X, y = oracles.noisy_classes(60, n_classes)
    new = np.random.default_rng(0).normal(size=(25, 2))
    options = {"n_widths": 3} | options
    reference = FisherCommitteeClassifier(**options).fit(X, y)
    methods = ["decision_function", "predict_proba", "predict"]
    with config_context(array_api_dispatch=True):
        model = FisherCommitteeClassifier(**options).fit(xp.asarray(X), xp.asarray(y))
        assert_equal_outputs(model, reference, X, new, xp, methods, tolerance=1e-7)
        for fitted in (model.loo_proba_, model.weights_, *model.dual_coef_.values()):
            assert same_namespace(fitted, xp)
    weights = to_numpy(model.weights_)
    np.testing.assert_allclose(weights, reference.weights_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(to_numpy(model.loo_proba_), reference.loo_proba_, atol=1e-8)
    np.testing.assert_allclose(model.members_["slope"], reference.members_["slope"], rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("cv", [None, 4])
@pytest.mark.parametrize("options", [CLASSIFIERS["numbers"], {"gamma": 0.3}], ids=str)
def test_permuted_scores_agree(xp, options, cv, n_classes):
    X, y = oracles.noisy_classes(60, n_classes)
    model = KernelFisherClassifier(**options)
    truth = permutation_test_score(model, X, y, cv=cv, n_permutations=5)
    with config_context(array_api_dispatch=True):
        ours = permutation_test_score(model, xp.asarray(X), xp.asarray(y), cv=cv, n_permutations=5)
    assert ours[0] == truth[0] and ours[2] == truth[2]
    np.testing.assert_array_equal(ours[1], truth[1])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("method", ["full", "jackknife+"])
@pytest.mark.parametrize("name", ["numbers", "tuned", "centres, coefficients", "balanced"])
def test_sets_agree(xp, name, method, n_classes):
    X, y = oracles.noisy_classes(90, n_classes)
    reference = KernelFisherClassifier(**CLASSIFIERS[name]).fit(X[:60], y[:60])
    with config_context(array_api_dispatch=True):
        model = KernelFisherClassifier(**CLASSIFIERS[name])
        model.fit(xp.asarray(X[:60]), xp.asarray(y[:60]))
        sets = model.predict_set(xp.asarray(X[60:]), 0.8, method)
        assert same_namespace(sets, xp)
        np.testing.assert_array_equal(to_numpy(sets), reference.predict_set(X[60:], 0.8, method))


@pytest.mark.parametrize("method", ["full", "jackknife+"])
def test_intervals_agree(xp, method):
    X, y = oracles.noisy_classes(90)
    reference = KernelRidgeCV(gamma=0.3).fit(X[:60], X[:60, 0] + y[:60])
    truth = reference.predict_interval(X[60:], 0.8, method)
    with config_context(array_api_dispatch=True):
        model = KernelRidgeCV(gamma=0.3).fit(xp.asarray(X[:60]), xp.asarray(X[:60, 0] + y[:60]))
        ends = model.predict_interval(xp.asarray(X[60:]), 0.8, method)
        for ours, theirs in zip(ends, truth, strict=True):
            assert same_namespace(ours, xp)
            np.testing.assert_allclose(to_numpy(ours), theirs, rtol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_audits_agree(xp, n_classes):
    X, y = oracles.noisy_classes(60, n_classes)
    model = KernelFisherClassifier(**CLASSIFIERS["numbers"])
    truth = audit(model, X, y).sort_index()
    with config_context(array_api_dispatch=True):
        table = audit(model, xp.asarray(X), xp.asarray(y)).sort_index()
    np.testing.assert_allclose(table.to_numpy(float), truth.to_numpy(float), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"basis": "random", "n_components": 20}], ids=str)
def test_a_callable_kernel_off_the_full_path_equals_numpy(xp, options):
    """Its diagonal is found row by row."""
    X, y = oracles.noisy_classes(520)

    def kernel(a, b):
        return float(a @ b) + 1.0

    plain = KernelFisherClassifier(kernel, random_state=0, **options).fit(X, y)
    with config_context(array_api_dispatch=True):
        model = KernelFisherClassifier(kernel, random_state=0, **options)
        model.fit(xp.asarray(X), xp.asarray(y))
    np.testing.assert_allclose(to_numpy(model.loo_decision_), plain.loo_decision_, atol=1e-8)


@pytest.mark.parametrize("words", [True, False])
def test_a_table_fitted_on_a_torch_device_is_a_model_of_numpy_arrays(words, tmp_path):
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(size=150), "town": rng.choice(["a", "b"], size=150)})
    y = np.where(table["size"] + (table["town"] == "a") > 0.5, "yes", "no")
    weights = rng.integers(1, 3, size=150)
    model, target = TableClassifier(), y
    if not words:
        model, target = TableRegressor(), table["size"].to_numpy() ** 2
    here = clone(model).fit(table, target, weights)
    there = clone(model).set_params(device="cpu").fit(table, target, weights)
    answer = "predict_proba" if words else "predict"
    found = getattr(there, answer)(table)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, getattr(here, answer)(table), rtol=1e-6, atol=1e-8)
    save(there, tmp_path / "model.fisherkit")
    opened = load(tmp_path / "model.fisherkit").model
    np.testing.assert_array_equal(getattr(opened, answer)(table), found)


def test_a_torch_device_that_is_not_there_is_refused():
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="device='cuda:77' cannot be used"):
        TableClassifier(device="cuda:77").fit(np.arange(12.0)[:, None], np.arange(12) % 2)
