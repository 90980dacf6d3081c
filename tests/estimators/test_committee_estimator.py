"""The committee as scikit-learn users meet it: conventions, limits, bad input."""

import pickle

import numpy as np
import oracles
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fisherkit import FisherCommitteeClassifier, KernelFisherClassifier
from fisherkit.committee.members import Status

CLASSES = pytest.mark.parametrize("n_classes", [2, 3])
COMBINE = pytest.mark.parametrize("combine", ["average", "stack", "best"])
KERNELS = {"rbf": rbf_kernel, "laplacian": laplacian_kernel}


@parametrize_with_checks(
    [
        FisherCommitteeClassifier(),
        FisherCommitteeClassifier(combine="stack", n_widths=3),
        FisherCommitteeClassifier(("rbf", "linear"), combine="best", n_widths=2),
        FisherCommitteeClassifier(penalty="coefficients", n_widths=2, class_weight="balanced"),
        FisherCommitteeClassifier(("rbf",), basis="random", n_components=3, random_state=0),
    ]
)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


def winners(decisions):
    return (decisions > 0).astype(int) if decisions.ndim == 1 else np.argmax(decisions, axis=1)


def assert_sound(model, X):
    """Finite, consistent decisions, probabilities and labels; weights that add up."""
    g, p = model.decision_function(X), model.predict_proba(X)
    assert np.all(np.isfinite(g)) and np.all(np.isfinite(p))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[winners(g)])
    np.testing.assert_array_equal(model.predict(X), model.classes_[np.argmax(p, axis=1)])
    logits = np.c_[np.zeros(len(g)), g] if g.ndim == 1 else g
    mass = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(p, mass / mass.sum(axis=1, keepdims=True), atol=1e-12)
    numbers = [name for name in model.members_.dtype.names if name != "kernel"]
    for name in numbers:
        if name not in ("width", "gamma"):
            assert np.all(np.isfinite(model.members_[name])), name
    assert np.all(model.weights_ >= 0)
    np.testing.assert_array_equal(model.weights_, model.members_["weight"])
    assert np.all(np.isfinite(model.loo_proba_))
    assert len(model.status_.value) > 10


@COMBINE
@CLASSES
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_labels_decisions_and_probabilities_agree_on_every_row(n_classes, combine, penalty):
    X, y = oracles.noisy_classes(40, n_classes)
    model = FisherCommitteeClassifier(combine=combine, penalty=penalty, n_widths=4).fit(X, y)
    new = np.random.default_rng(1).normal(size=(300, 2), scale=3)
    assert_sound(model, np.r_[X, new, 1e3 * new])
    assert model.loo_proba_.shape == (40, n_classes)


@CLASSES
def test_dual_coefficients_of_each_kernel_and_width_add_up_to_the_decision(n_classes):
    X, y = oracles.noisy_classes(40, n_classes)
    model = FisherCommitteeClassifier(n_widths=3).fit(X, y)
    new = np.random.default_rng(1).normal(size=(20, 2))
    total = np.zeros((20, 1 if n_classes == 2 else n_classes)) + model.intercept_
    for (kernel, gamma), coef in model.dual_coef_.items():
        K = KERNELS[kernel](new, X[model.basis_indices_[kernel, gamma]], gamma=gamma)
        total += K @ np.reshape(coef, (-1, K.shape[1])).T
    g = model.decision_function(new)
    np.testing.assert_allclose(np.reshape(g, total.shape), total, rtol=1e-9, atol=1e-10)


@CLASSES
def test_members_make_a_data_frame_with_one_row_each(n_classes):
    X, y = oracles.noisy_classes(40, n_classes)
    model = FisherCommitteeClassifier().fit(X, y)
    frame = pd.DataFrame(model.members_)
    assert len(frame) == 2 * 7 * 25
    assert set(frame["kernel"]) == {"rbf", "laplacian"}
    offsets = ["offset"] if n_classes == 2 else ["offset_0", "offset_1", "offset_2"]
    expected = [
        "kernel",
        "width",
        "gamma",
        "mu",
        "unit",
        "weight",
        "slope",
        *offsets,
        "loo_log_loss",
        "bounded",
    ]
    assert list(frame.columns) == expected
    rbf = frame[frame["kernel"] == "rbf"]
    np.testing.assert_allclose(rbf["width"], 1 / np.sqrt(2 * rbf["gamma"]))
    np.testing.assert_allclose(np.unique(rbf["width"])[1:] / np.unique(rbf["width"])[:-1], 2)
    if n_classes == 3:
        np.testing.assert_allclose(frame[offsets].sum(axis=1), 0, atol=1e-10)


def test_light_members_are_dropped_and_their_widths_not_evaluated():
    X, y = oracles.noisy_classes(150, d=3)
    whole = FisherCommitteeClassifier(min_weight=0).fit(X, y)
    pruned = FisherCommitteeClassifier(min_weight=5e-3).fit(X, y)
    np.testing.assert_allclose(whole.weights_.sum(), 1)
    np.testing.assert_allclose(pruned.weights_.sum(), 1)
    assert np.all(whole.weights_ > 0)
    kept = whole.weights_ >= 5e-3
    np.testing.assert_array_equal(pruned.weights_ > 0, kept)
    np.testing.assert_allclose(
        pruned.weights_[kept], whole.weights_[kept] / whole.weights_[kept].sum(), rtol=1e-10
    )
    assert len(pruned.dual_coef_) < len(whole.dual_coef_) == 14
    np.testing.assert_allclose(
        pruned.effective_members_, 1 / np.sum(pruned.weights_**2), rtol=1e-12
    )
    default = FisherCommitteeClassifier().fit(X, y)
    new = np.random.default_rng(0).normal(size=(200, 3))
    np.testing.assert_allclose(default.predict_proba(new), whole.predict_proba(new), atol=5e-3)


def test_a_dominating_threshold_leaves_one_member():
    X, y = oracles.noisy_classes(60)
    model = FisherCommitteeClassifier(min_weight=0.99).fit(X, y)
    assert model.status_ is Status.ONE_MEMBER
    assert model.effective_members_ == 1
    assert model.weights_.max() == 1
    assert len(model.dual_coef_) == 1


def test_best_is_the_member_of_the_smallest_loss_with_its_own_threshold():
    X, y = oracles.noisy_classes(60)
    model = FisherCommitteeClassifier(combine="best", n_widths=3).fit(X, y)
    j = np.argmax(model.weights_)
    assert model.weights_[j] == 1
    member = model.members_[j]
    assert member["loo_log_loss"] == model.members_["loo_log_loss"].min()
    single = KernelFisherClassifier(
        str(member["kernel"]), gamma=float(member["gamma"]), regularization=float(member["mu"])
    ).fit(X, y)
    centred = single.decision_function(X) - np.mean(2 * y - 1)
    truth = member["slope"] * centred + member["offset"]
    np.testing.assert_allclose(model.decision_function(X), truth, rtol=1e-8, atol=1e-8)


def test_loo_proba_is_conditional_on_the_weights_but_not_on_the_row():
    X, y = oracles.noisy_classes(80, seed=1)
    model = FisherCommitteeClassifier().fit(X, y)
    fitted, left_out = log_loss(y, model.predict_proba(X)), log_loss(y, model.loo_proba_)
    new, truth = oracles.noisy_classes(2000, seed=2)
    assert fitted < left_out
    assert abs(left_out - log_loss(truth, model.predict_proba(new))) < 0.15


@COMBINE
def test_row_order_does_not_matter(combine):
    X, y = oracles.noisy_classes(60, 3)
    order = np.random.default_rng(2).permutation(60)
    one = FisherCommitteeClassifier(combine=combine).fit(X, y)
    two = FisherCommitteeClassifier(combine=combine).fit(X[order], y[order])
    np.testing.assert_allclose(two.weights_, one.weights_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(two.loo_proba_, one.loo_proba_[order], atol=1e-8)


# Kernels and widths


def cauchy(x, y, gamma):
    return 1 / (1 + gamma * np.sum((x - y) ** 2))


def test_a_callable_is_given_its_widths():
    X, y = oracles.noisy_classes(30)
    model = FisherCommitteeClassifier((cauchy, "rbf"), n_widths=3).fit(X, y)
    assert set(model.members_["kernel"]) == {"cauchy", "rbf"}
    gammas = [
        np.unique(model.members_["gamma"][model.members_["kernel"] == k]) for k in ("cauchy", "rbf")
    ]
    np.testing.assert_array_equal(*gammas)
    assert_sound(model, X)


def test_one_kernel_as_a_callable_or_by_name_is_the_same_model():
    X, y = oracles.noisy_classes(30)

    def gauss(x, y, gamma):
        return np.exp(-gamma * np.sum((x - y) ** 2))

    named = FisherCommitteeClassifier(("rbf",), n_widths=3).fit(X, y)
    called = FisherCommitteeClassifier((gauss,), n_widths=3).fit(X, y)
    np.testing.assert_allclose(called.decision_function(X), named.decision_function(X), rtol=1e-6)


@pytest.mark.parametrize(
    "kernels", [("linear",), ("polynomial", "cosine"), ("rbf", "linear", "laplacian")]
)
def test_kernels_with_and_without_a_width_sit_together(kernels):
    X, y = oracles.noisy_classes(40, 3)
    model = FisherCommitteeClassifier(kernels, n_widths=2).fit(X, y)
    for kernel in kernels:
        own = model.members_[model.members_["kernel"] == kernel]
        assert len(own) == (25 if kernel in ("linear", "cosine") else 50)
        assert np.all(np.isnan(own["gamma"])) == (kernel in ("linear", "cosine"))
    assert_sound(model, X)


def test_families_have_equal_weight_before_the_data_speak():
    """The same kernel under two names: each side gets half, however many widths it has."""
    X, y = oracles.noisy_classes(40)

    def rbf_again(x, y, gamma):
        return np.exp(-gamma * np.sum((x - y) ** 2))

    model = FisherCommitteeClassifier(("rbf", rbf_again), gammas=[[0.5], [0.5]]).fit(X, y)
    halves = [model.weights_[model.members_["kernel"] == k].sum() for k in ("rbf", "rbf_again")]
    np.testing.assert_allclose(halves, 0.5, rtol=1e-6)


def test_given_widths_are_used():
    X, y = oracles.noisy_classes(40)
    same = FisherCommitteeClassifier(gammas=np.array([0.1, 1.0])).fit(X, y)
    each = FisherCommitteeClassifier(gammas=[[0.1], [0.2, 2.0]]).fit(X, y)
    assert list(np.unique(same.members_["gamma"])) == [0.1, 1.0]
    assert list(np.unique(each.members_["gamma"])) == [0.1, 0.2, 2.0]
    assert len(same.members_) == 100 and len(each.members_) == 75


# Large n


@CLASSES
def test_the_low_rank_path_agrees_with_the_full_one(n_classes):
    X, y = oracles.noisy_classes(700, n_classes)
    options = dict(kernels=("rbf",), gammas=[0.1, 0.3])
    quick = FisherCommitteeClassifier(**options, random_state=1).fit(X, y)
    full = FisherCommitteeClassifier(**options, basis="full").fit(X, y)
    assert all(len(rows) < 400 for rows in quick.basis_indices_.values())
    np.testing.assert_allclose(quick.weights_, full.weights_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(quick.loo_proba_, full.loo_proba_, atol=1e-6)
    np.testing.assert_allclose(quick.predict_proba(X + 0.1), full.predict_proba(X + 0.1), atol=1e-4)


@pytest.mark.parametrize("basis", ["pivoted", "random", np.arange(0, 120, 3)])
def test_centres_are_the_only_rows_evaluated(basis):
    X, y = oracles.noisy_classes(120, 3)
    m = None if isinstance(basis, np.ndarray) else 40
    model = FisherCommitteeClassifier(basis=basis, n_components=m, random_state=0).fit(X, y)
    assert all(len(rows) <= 40 for rows in model.basis_indices_.values())
    full = FisherCommitteeClassifier().fit(X, y)
    assert abs(model.score(X, y) - full.score(X, y)) < 0.1
    assert_sound(model, X)


def test_weights_count_copies_on_the_low_rank_path():
    X, y = oracles.noisy_classes(600)
    w = np.random.default_rng(0).integers(0, 3, size=len(X))
    options = dict(kernels=("rbf",), gammas=[0.1, 0.3], random_state=0)
    weighted = FisherCommitteeClassifier(**options).fit(X, y, sample_weight=w)
    repeated = FisherCommitteeClassifier(**options).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(
        weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-7, atol=1e-7
    )


# Conventions


def test_it_clones_pickles_and_searches():
    X, y = oracles.noisy_classes(60)
    assert not hasattr(FisherCommitteeClassifier(), "members_")
    model = FisherCommitteeClassifier(n_widths=2).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert clone(model).get_params() == model.get_params()
    grid = {"combine": ["average", "best"], "kernels": [("rbf",), ("rbf", "laplacian")]}
    search = GridSearchCV(FisherCommitteeClassifier(n_widths=2), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.5


def test_data_frames_and_string_labels_are_accepted():
    X, y = oracles.noisy_classes(60, 3)
    frame = pd.DataFrame(X, columns=["a", "b"])
    labels = pd.Series(np.array(["ant", "bee", "cat"])[y])
    model = make_pipeline(StandardScaler(), FisherCommitteeClassifier(n_widths=2))
    model.fit(frame, labels)
    assert set(model.predict(frame)) <= {"ant", "bee", "cat"}
    direct = FisherCommitteeClassifier(n_widths=2).fit(frame, labels)
    assert list(direct.feature_names_in_) == ["a", "b"]


def test_float32_rows_give_float32_results_close_to_float64():
    X, y = oracles.noisy_classes(60)
    single = FisherCommitteeClassifier().fit(X.astype("f4"), y)
    double = FisherCommitteeClassifier().fit(X, y)
    p = single.predict_proba(X.astype("f4"))
    assert p.dtype == np.float32
    np.testing.assert_allclose(p, double.predict_proba(X), atol=1e-4)
    np.testing.assert_array_equal(np.argmax(p, axis=1), single.predict(X.astype("f4")))


# Bad input


def assert_refused(model, *words, X=None, y=None):
    data = oracles.noisy_classes(30)
    X, y = data[0] if X is None else X, data[1] if y is None else y
    with pytest.raises(ValueError) as caught:
        model.fit(X, y)
    for word in words:
        assert word in str(caught.value), (word, str(caught.value))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernels": ("rbf", "gauss")}, ["'gauss'", "rbf", "laplacian", "callable"]),
        ({"kernels": ("precomputed",)}, ["'precomputed'", "rbf"]),
        ({"kernels": "rbf"}, ["kernels='rbf'", "sequence"]),
        ({"kernels": None}, ["kernels=None", "sequence"]),
        ({"kernels": ()}, ["empty", "rbf"]),
        ({"kernels": ("rbf", "rbf")}, ["twice"]),
        ({"n_widths": 0}, ["n_widths=0", ">= 1"]),
        ({"n_widths": 2.5}, ["n_widths=2.5"]),
        ({"n_widths": None}, ["n_widths=None", ">= 1"]),
        ({"gammas": []}, ["gammas=[]", "positive"]),
        ({"gammas": 0.5}, ["gammas=0.5", "sequence"]),
        ({"gammas": [0.1, -1.0]}, ["gammas", "-1.0", "positive"]),
        ({"gammas": [0.1, 0.1]}, ["gammas", "twice"]),
        ({"gammas": [[0.1]]}, ["gammas", "1 sequences for 2 kernels"]),
        ({"gammas": [[0.1], "x"]}, ["gammas", "positive"]),
        ({"combine": "vote"}, ["combine='vote'", "average", "stack", "best"]),
        ({"min_weight": 1.0}, ["min_weight=1.0", "below 1"]),
        ({"min_weight": -0.1}, ["min_weight=-0.1"]),
        ({"min_weight": "small"}, ["min_weight='small'"]),
        ({"penalty": "l1"}, ["penalty='l1'", "rkhs", "coefficients"]),
        ({"basis": "greedy"}, ["basis='greedy'", "pivoted"]),
        ({"basis": "random"}, ["n_components"]),
        ({"n_components": 31}, ["n_components=31", "30"]),
        ({"class_weight": "even"}, ["class_weight='even'"]),
    ],
    ids=str,
)
def test_a_value_that_makes_no_sense_is_refused_with_the_way_out(options, words):
    assert_refused(FisherCommitteeClassifier(**options), *words)


def saddle(x, y, gamma):
    return -gamma * np.sum((x - y) ** 2)


@pytest.mark.parametrize("kernels", [("rbf", saddle), ("sigmoid",)])
def test_a_kernel_that_is_not_positive_is_named_with_its_width_and_eigenvalue(kernels):
    name = getattr(kernels[-1], "__name__", kernels[-1])
    words = [repr(name), "gamma=", "not positive semi-definite", "smallest eigenvalue"]
    assert_refused(FisherCommitteeClassifier(kernels), *words)


def test_one_class_is_refused():
    assert_refused(FisherCommitteeClassifier(), "two classes", y=np.zeros(30))


@CLASSES
@COMBINE
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_features_leave_the_class_shares(n_classes, combine, value):
    _, y = oracles.noisy_classes(40, n_classes)
    X = np.full((40, 3), value)
    model = FisherCommitteeClassifier(combine=combine).fit(X, y)
    assert_sound(model, X)
    assert model.status_ is Status.CLASS_PRIOR
    assert "class shares" in model.status_.value
    shares = np.bincount(y) / 40
    np.testing.assert_allclose(model.predict_proba(X), np.tile(shares, (40, 1)), atol=0.03)
    assert model.effective_members_ == 0
    assert len(model.dual_coef_) == 0


def test_one_constant_feature_does_no_harm():
    X, y = oracles.noisy_classes(60)
    with_constant = np.c_[X, np.full(60, 7.0)]
    one = FisherCommitteeClassifier().fit(X, y)
    two = FisherCommitteeClassifier().fit(with_constant, y)
    np.testing.assert_allclose(two.loo_proba_, one.loo_proba_, atol=1e-7)


@CLASSES
@COMBINE
def test_labels_that_features_contradict_leave_the_class_shares(n_classes, combine):
    """Each row has twins of every other label: whatever a member finds is wrong."""
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 2)), n_classes, axis=0)
    y = np.arange(20 * n_classes) % n_classes
    model = FisherCommitteeClassifier(combine=combine).fit(X, y)
    assert model.status_ is Status.CLASS_PRIOR
    np.testing.assert_allclose(model.predict_proba(X), 1 / n_classes, atol=1e-10)
    assert_sound(model, X)


def test_on_noise_the_committee_stays_close_to_the_class_shares():
    rng = np.random.default_rng(0)
    fallen_back = 0
    for _ in range(20):
        X, y = rng.normal(size=(60, 4)), rng.permutation(np.arange(60) % 3 == 0)
        model = FisherCommitteeClassifier(n_widths=3).fit(X, y)
        fallen_back += model.status_ is Status.CLASS_PRIOR
        loss = log_loss(np.arange(300) % 3 == 0, model.predict_proba(rng.normal(size=(300, 4))))
        assert loss < 0.8  # the shares have 0.64
    assert fallen_back >= 10


@pytest.mark.parametrize("n", [4, 6, 10])
def test_few_rows_that_are_clearly_apart_are_separated(n):
    X = np.r_[np.zeros((n // 2, 2)), np.full((n // 2, 2), 5.0)]
    X = X + 0.1 * np.random.default_rng(0).normal(size=X.shape)
    y = np.arange(n) >= n // 2
    model = FisherCommitteeClassifier().fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)
    assert_sound(model, X)


def test_a_class_of_one_row_and_separable_classes_stay_finite():
    X, y = oracles.noisy_classes(40)
    y = np.where(np.arange(40) == 7, 2, y)
    assert_sound(FisherCommitteeClassifier().fit(X, y), X)
    far = X + 100.0 * (y == 1)[:, None]
    assert_sound(FisherCommitteeClassifier().fit(far, y), far)
    assert_sound(FisherCommitteeClassifier(combine="stack").fit(1e6 * X, y), X)


def test_duplicated_rows_stay_finite():
    X, y = oracles.noisy_classes(30)
    model = FisherCommitteeClassifier().fit(np.repeat(X, 3, axis=0), np.repeat(y, 3))
    assert_sound(model, X)


# Real data


def test_a_second_kernel_family_halves_the_error_on_splice(ida):
    pool = ida("splice")
    rows = np.random.default_rng(0).permutation(len(pool.target))
    train, test = rows[:600], rows[600:]
    scaler = StandardScaler().fit(pool.data[train])
    X, X_test = scaler.transform(pool.data[train]), scaler.transform(pool.data[test])
    y, y_test = pool.target[train], pool.target[test]
    rbf = FisherCommitteeClassifier(("rbf",)).fit(X, y).score(X_test, y_test)
    both = FisherCommitteeClassifier().fit(X, y).score(X_test, y_test)
    assert 1 - both < 0.6 * (1 - rbf)
