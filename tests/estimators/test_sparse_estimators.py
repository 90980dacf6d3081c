"""The sparse classifiers as scikit-learn users meet them."""

import pickle
import warnings

import numpy as np
import oracles
import pytest
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fisherkit import ForwardFisherClassifier, SparseFisherClassifier
from fisherkit.core.kernels import Gram, Kernel

BOTH = pytest.mark.parametrize("Model", [SparseFisherClassifier, ForwardFisherClassifier])
CLASSES = pytest.mark.parametrize("n_classes", [2, 3])
MODELS = {
    "q=1": SparseFisherClassifier(),
    "q=0.5": SparseFisherClassifier(q=0.5),
    "loo_error": ForwardFisherClassifier(),
    "press": ForwardFisherClassifier(criterion="press"),
    "err": ForwardFisherClassifier(criterion="err"),
}
EVERY = pytest.mark.parametrize("name", MODELS)


def model_of(name, **options):
    """One of `MODELS` with options: by default, one width and three folds."""
    return clone(MODELS[name]).set_params(**{"gamma": 0.5, "cv": 3, **options})


def one_rho(name):
    """Options that leave out the search for rho, where it is not what is tested."""
    return {"rho": 0.02} if "q" in name else {}


def winners(decisions):
    return (decisions > 0).astype(int) if decisions.ndim == 1 else np.argmax(decisions, axis=1)


def assert_same_model(one, two, X, tolerance=1e-7):
    scale = np.abs(one.decision_function(X)).max()
    for method in ("decision_function", "predict_proba"):
        a, b = getattr(one, method)(X), getattr(two, method)(X)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, scale))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert one.n_terms_ == two.n_terms_


def assert_sound(model, X):
    """Finite, consistent decisions, probabilities and labels."""
    decisions, p = model.decision_function(X), model.predict_proba(X)
    assert np.all(np.isfinite(decisions))
    assert np.all(np.isfinite(model.dual_coef_))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[winners(decisions)])
    np.testing.assert_array_equal(model.predict(X), model.classes_[np.argmax(p, axis=1)])
    assert model.n_terms_ == len(model.basis_indices_) == model.dual_coef_.shape[-1]
    assert np.all(np.diff(model.basis_indices_) > 0)
    assert 0 <= model.cv_error_ <= 1


@parametrize_with_checks(
    [
        SparseFisherClassifier(),
        SparseFisherClassifier(q=0.5, cv=2),
        SparseFisherClassifier(gamma=0.5, cv=2, penalize_bias=True, threshold="balanced"),
        ForwardFisherClassifier(),
        ForwardFisherClassifier(
            criterion="press", gamma="median", evidence=True, select="sparsest", n_candidates=20
        ),
    ]
)
def test_sklearn_compatible(estimator, check):
    with warnings.catch_warnings():
        # scikit-learn's own remark on classes with fewer members than folds
        warnings.filterwarnings("ignore", message="The least populated class")
        check(estimator)


# --- prediction -----------------------------------------------------------------------------------


@CLASSES
@EVERY
@pytest.mark.parametrize(
    "options",
    [{}, {"select": "sparsest", "gamma": "scale"}, {"threshold": "balanced", "gamma": "median"}],
    ids=["plain", "sparsest", "balanced"],
)
def test_labels_decisions_and_probabilities_agree_on_every_row(name, n_classes, options):
    X, y = oracles.noisy_classes(30, n_classes)
    model = model_of(name, class_weight="balanced", **options).fit(X, y)
    new = np.random.default_rng(1).normal(size=(300, 2), scale=3)
    assert_sound(model, np.r_[X, new, 1e3 * new])
    K = rbf_kernel(new, X[model.basis_indices_], gamma=model.gamma_)
    truth = K @ model.dual_coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(new), truth, rtol=1e-9, atol=1e-10)
    order = np.argsort(truth if n_classes == 2 else truth[:, 1] - truth[:, 0])
    p = model.predict_proba(new)
    odds = p[:, 1] / np.maximum(p[:, 0], 1e-300)
    assert np.all(np.diff(odds[order]) >= -1e-9 * odds[order][:-1])


@EVERY
@CLASSES
def test_probabilities_tell_more_than_class_shares(name, n_classes):
    X, y = oracles.noisy_classes(120, n_classes, seed=1)
    new, truth = oracles.noisy_classes(600, n_classes, seed=2)
    p = model_of(name, **one_rho(name)).fit(X, y).predict_proba(new)
    shares = np.bincount(y) / len(y)
    loss = -np.mean(np.log(p[np.arange(600), truth]))
    assert loss < -np.mean(np.log(shares[truth]))
    confident = p.max(axis=1) > np.median(p.max(axis=1))
    right = np.argmax(p, axis=1) == truth
    assert right[confident].mean() > right[~confident].mean()


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ("laplacian", {"gamma": 0.4}),
        ("polynomial", {"gamma": 0.3, "degree": 2, "coef0": 0.5}),
        ("linear", {}),
    ],
)
@EVERY
def test_other_kernels_are_those_of_scikit_learn(name, kernel, options):
    X, y = oracles.noisy_classes(40)
    model = model_of(name, kernel=kernel, **options, **one_rho(name)).fit(X, y)
    K = pairwise_kernels(X, X, kernel, **options)
    truth = K[:, model.basis_indices_] @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), truth, rtol=1e-9, atol=1e-10)
    assert model.gamma_ == options.get("gamma")
    precomputed = model_of(name, kernel="precomputed", **one_rho(name)).fit(K, y)
    np.testing.assert_allclose(precomputed.decision_function(K), truth, atol=1e-7)


def similarity(a, b, *, width):
    return float(np.exp(-np.sum((a - b) ** 2) / width))


@CLASSES
@EVERY
def test_precomputed_and_callable_kernels_equal_the_named_one(name, n_classes):
    X, y = oracles.noisy_classes(30, n_classes)
    new = X[:9] + 0.1
    weight = np.r_[np.zeros(5), np.ones(25)]
    options = one_rho(name)
    named = model_of(name, **options).fit(X, y, weight)
    own = model_of(name, kernel=similarity, kernel_params={"width": 2.0}, **options)
    own.fit(X, y, weight)
    assert own.gamma_ is None
    assert_same_model(named, own, new)
    precomputed = model_of(name, kernel="precomputed", **options)
    precomputed.fit(rbf_kernel(X, gamma=0.5), y, weight)
    truth = named.decision_function(new)
    decisions = precomputed.decision_function(rbf_kernel(new, X, gamma=0.5))
    np.testing.assert_allclose(decisions, truth, rtol=1e-7, atol=1e-7 * np.abs(truth).max())
    np.testing.assert_array_equal(precomputed.basis_indices_, named.basis_indices_)
    assert named.basis_indices_.min() >= 5


# --- weights --------------------------------------------------------------------------------------


def folds_of_rows(row):
    """Three pairs for data whose i-th row is a copy of row[i]; copies stay together."""
    return [(np.flatnonzero(row % 3 != k), np.flatnonzero(row % 3 == k)) for k in range(3)]


@CLASSES
@EVERY
@pytest.mark.parametrize("seed", [0, 1])
def test_a_weight_equals_repeated_and_shuffled_rows(name, n_classes, seed):
    n = 24
    X, y = oracles.noisy_classes(n, n_classes, seed=seed)
    X = np.round(X, 1 + seed)  # some rows are equal anyway
    rng = np.random.default_rng(seed)
    copies = rng.integers(0, 4, size=n)
    row = rng.permutation(np.repeat(np.arange(n), copies))
    select = ("error", "sparsest")[seed]
    gamma = "cv" if n_classes == 2 else "scale"
    pairs, pairs_of_copies = folds_of_rows(np.arange(n)), folds_of_rows(row)
    weighted = model_of(name, gamma=gamma, cv=pairs, select=select).fit(X, y, copies)
    repeated = model_of(name, gamma=gamma, cv=pairs_of_copies, select=select).fit(X[row], y[row])
    assert_same_model(weighted, repeated, X)
    np.testing.assert_allclose(weighted.path_["n_terms"], repeated.path_["n_terms"])
    np.testing.assert_allclose(weighted.path_["cv_error"], repeated.path_["cv_error"])
    centres = {tuple(x) for x in X[weighted.basis_indices_]}
    assert centres == {tuple(x) for x in X[row][repeated.basis_indices_]}


@EVERY
def test_a_weight_equals_repeated_rows_under_leave_one_out(name):
    X, y = oracles.noisy_classes(16)
    copies = np.r_[np.full(5, 2), np.ones(11, dtype=int)]
    X_copies, y_copies = np.repeat(X, copies, axis=0), np.repeat(y, copies)
    weighted = model_of(name, cv=None, **one_rho(name)).fit(X, y, copies)
    repeated = model_of(name, cv=None, **one_rho(name)).fit(X_copies, y_copies)
    assert_same_model(weighted, repeated, X)


@CLASSES
@EVERY
def test_zero_weights_equal_absent_rows(name, n_classes):
    X, y = oracles.noisy_classes(30, n_classes)
    weight = (np.arange(30) % 5 > 0).astype(float)
    kept = np.flatnonzero(weight)
    weighted = model_of(name).fit(X, y, weight)
    absent = model_of(name).fit(X[kept], y[kept])
    assert_same_model(weighted, absent, X, 1e-12)
    np.testing.assert_array_equal(weighted.basis_indices_, kept[absent.basis_indices_])


@pytest.mark.parametrize("name", ["q=1", "q=0.5", "err"])
def test_the_cost_of_a_class_weighs_its_rows(name):
    X, y = oracles.noisy_classes(40)
    options = one_rho(name) or {"max_terms": 6}
    by_class = model_of(name, class_weight={0: 1, 1: 3}, **options).fit(X, y)
    by_row = model_of(name, **options).fit(X, y, np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(by_class.decision_function(X), by_row.decision_function(X), 1e-6)
    plain = model_of(name, **options).fit(X, y)
    assert np.mean(by_class.predict(X)) > np.mean(plain.predict(X))
    count = np.bincount(y)
    balanced = model_of(name, class_weight="balanced", **options).fit(X, y)
    named = model_of(name, class_weight=dict(enumerate(20 / count)), **options).fit(X, y)
    assert_same_model(balanced, named, X, 1e-12)


@CLASSES
@pytest.mark.parametrize("name", ["q=1", "press"])
def test_a_balanced_threshold_removes_the_class_shares(name, n_classes):
    X, y = oracles.noisy_classes(40, n_classes)
    share = np.bincount(y) / len(y)
    shift = np.log(share) if "q" in name else share
    shift = share[1] - share[0] if n_classes == 2 else shift
    prior = model_of(name, **one_rho(name)).fit(X, y).decision_function(X)
    model = model_of(name, threshold="balanced", **one_rho(name)).fit(X, y)
    balanced = model.decision_function(X)
    if n_classes > 2:  # logits are fitted with classes that count alike
        mean = model.predict_proba(X).mean(axis=0)
        assert np.ptp(mean) < np.ptp(softmax(prior, axis=1).mean(axis=0))
        return
    np.testing.assert_allclose(prior - balanced, np.broadcast_to(shift, prior.shape), rtol=1e-9)


# --- cross-validation -----------------------------------------------------------------------------


@EVERY
def test_every_kind_of_cv_names_the_same_folds(name):
    n = 24
    X, y = oracles.noisy_classes(n)
    groups = np.arange(n) % 8
    splits = [
        (3, StratifiedKFold(3).split(X, y), {}),
        (np.int64(4), list(StratifiedKFold(4).split(X, y)), {}),
        (KFold(3), [(train.tolist(), test) for train, test in KFold(3).split(X)], {}),
        (GroupKFold(4), list(GroupKFold(4).split(X, y, groups)), {"groups": groups}),
        (None, [(np.arange(n) != i, np.array([i])) for i in range(n)], {}),
    ]
    for cv, pairs, fit in splits:
        one = model_of(name, cv=cv, **one_rho(name)).fit(X, y, **fit)
        assert_same_model(one, model_of(name, cv=pairs, **one_rho(name)).fit(X, y), X, 1e-9)


def error_of(model, X, y):
    """Share of wrong answers of the learner, behind which three classes have a softmax."""
    u, found = model.decision_function(X), model.calibration_
    if u.ndim == 1:
        return np.mean((u > 0) != y)
    g = np.linalg.solve(found.matrix.T, (u - found.shift).T).T
    return np.mean(np.argmax((g - found.offset) / found.slope, axis=1) != y)


@pytest.mark.parametrize("name", ["q=1", "q=0.5", "loo_error", "press"])
@CLASSES
def test_the_path_holds_the_errors_of_refits(name, n_classes):
    X, y = oracles.noisy_classes(32, n_classes)
    cv = list(KFold(4, shuffle=True, random_state=1).split(X))
    model = model_of(name, cv=cv).fit(X, y)
    fixed = {"rho": model.rho_} if "q" in name else {}
    refits = [model_of(name, **fixed).fit(X[train], y[train]) for train, _ in cv]
    wrong = [error_of(m, X[test], y[test]) for m, (_, test) in zip(refits, cv, strict=True)]
    row = model.path_[model.path_["rho"] == model.rho_ if "q" in name else model.path_["stopped"]]
    assert len(row) == 1
    assert model.cv_error_ == row["cv_error"][0] == pytest.approx(np.mean(wrong))
    assert row["n_terms"][0] == pytest.approx(np.mean([m.n_terms_ for m in refits]))
    assert row["cv_se"][0] == pytest.approx(np.std(wrong, ddof=1) / 2)


@CLASSES
@EVERY
def test_the_path_prices_every_width_and_size(name, n_classes):
    X, y = oracles.noisy_classes(24, n_classes)
    model = model_of(name, gamma="cv", cv=2).fit(X, y)
    path = model.path_
    widths = np.unique(path["gamma"])
    assert len(widths) == 7
    assert model.gamma_ in widths
    np.testing.assert_allclose(widths[1:] / widths[:-1], 2.0)
    if "q" in name:
        assert path.dtype.names == ("gamma", "rho", "n_terms", "cv_error", "cv_se")
        assert len(path) == 7 * 20
        priced = path
    else:
        assert path.dtype.names == ("gamma", "n_terms", "cv_error", "cv_se", "stopped")
        priced = path if name == "err" else path[path["stopped"]]
        assert len(priced) == 7 or name == "err"
        for gamma in widths:
            sizes = path["n_terms"][(path["gamma"] == gamma) & ~path["stopped"]]
            np.testing.assert_array_equal(sizes[:2], [0, 1])
            assert np.all(np.diff(sizes) > 0)
    assert model.cv_error_ == priced["cv_error"].min()
    assert np.all((path["cv_error"] >= 0) & (path["cv_error"] <= 1) & (path["cv_se"] >= 0))


@CLASSES
@pytest.mark.parametrize("name", ["loo_error", "press", "err"])
def test_growth_records_the_run_on_all_rows(name, n_classes):
    X, y = oracles.noisy_classes(70, n_classes)  # without ties of classes when a row is left out
    model = model_of(name).fit(X, y)
    growth = model.growth_
    assert growth.dtype.names == ("row", "conditional_loo_error", "conditional_loo_mse")
    assert growth["row"][0] == -1
    assert set(growth["row"][1 : model.n_terms_ + 1]) == set(model.basis_indices_)
    Y = oracles.indicators(y) if n_classes > 2 else 2.0 * y[:, None] - 1
    left_out = oracles.fold_means(Y)
    decided = np.argmax(left_out, axis=1) if n_classes > 2 else (left_out[:, 0] > 0)
    assert growth["conditional_loo_error"][0] == pytest.approx(np.mean(decided != y))
    assert growth["conditional_loo_mse"][0] == pytest.approx(oracles.press(Y, left_out))
    if name != "err":
        value = growth["conditional_loo_error" if name == "loo_error" else "conditional_loo_mse"]
        assert value[model.n_terms_] == value.min()
        assert len(growth) <= model.n_terms_ + model.patience + 1


@pytest.mark.parametrize("seed", range(3))
@EVERY
def test_the_sparsest_model_has_no_more_terms(name, seed):
    X, y = oracles.noisy_classes(40, 2 + seed % 2, seed=seed)
    gamma = "cv" if "q" not in name else 0.5
    largest = model_of(name, gamma=gamma).fit(X, y)
    sparsest = model_of(name, gamma=gamma, select="sparsest").fit(X, y)
    assert sparsest.n_terms_ <= largest.n_terms_
    best = largest.path_[largest.path_["cv_error"] == largest.cv_error_]
    assert sparsest.cv_error_ <= largest.cv_error_ + best["cv_se"].max()


# --- candidates -----------------------------------------------------------------------------------


@pytest.fixture
def kernel_values(monkeypatch):
    """Sizes of the kernel blocks that are computed (rbf rows do not pass through `block`)."""
    sizes = []

    def watch(owner, name):
        plain = getattr(owner, name)

        def counting(*args):
            values = plain(*args)
            sizes.append(values.size)
            return values

        monkeypatch.setattr(owner, name, counting)

    watch(Kernel, "block")
    watch(Gram, "rows")
    return sizes


@pytest.mark.parametrize(
    "options",
    [
        {"n_candidates": 12},
        {"n_candidates": 12, "basis": "random"},
        {"n_candidates": 12, "basis": "pivoted"},
        {"basis": np.arange(3, 183, 15)},
    ],
    ids=["auto", "random", "pivoted", "given"],
)
@EVERY
def test_candidates_spare_the_full_kernel_matrix(name, options, kernel_values):
    X, y = oracles.noisy_classes(300)
    model = model_of(name, random_state=0, **options, **one_rho(name)).fit(X, y)
    assert max(kernel_values) <= 12 * 300
    assert sum(kernel_values) <= 5 * 12 * 300 < 300**2 / 4
    assert 0 < model.n_terms_ <= 12
    assert "n_candidates" in options or set(model.basis_indices_) <= set(options["basis"])
    kernel_values.clear()
    model.predict(X[:7])
    assert kernel_values == [7 * model.n_terms_]


@EVERY
@pytest.mark.parametrize("basis", ["random", "pivoted"])
def test_the_random_state_alone_decides_the_candidates(name, basis):
    X, y = oracles.noisy_classes(60)
    fits = [
        model_of(name, basis=basis, n_candidates=8, random_state=seed).fit(X, y)
        for seed in (0, 0, np.random.RandomState(0), 1)
    ]
    assert_same_model(fits[0], fits[1], X, 0)
    assert_same_model(fits[0], fits[2], X, 0)
    assert set(fits[0].basis_indices_) != set(fits[3].basis_indices_)


@EVERY
def test_all_rows_as_candidates_equal_the_default(name):
    X, y = oracles.noisy_classes(40)
    default = model_of(name, **one_rho(name)).fit(X, y)
    for options in ({"basis": np.arange(40)[::-1]}, {"n_candidates": 99}, {"n_candidates": 40}):
        same = model_of(name, **options, **one_rho(name)).fit(X, y)
        assert_same_model(default, same, X, 1e-9)


# --- in company -----------------------------------------------------------------------------------


@EVERY
def test_pipelines_clones_pickles_and_searches(name):
    X, y = oracles.noisy_classes(30, 3)
    labels = np.array(["ape", "bee", "cow"])[y]
    plain = model_of(name, **one_rho(name))
    model = make_pipeline(StandardScaler(), plain).fit(X, labels)
    np.testing.assert_array_equal(model.classes_, ["ape", "bee", "cow"])
    assert set(model.predict(X)) <= {"ape", "bee", "cow"}
    numbers = make_pipeline(StandardScaler(), clone(plain)).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), numbers.decision_function(X))
    for copy in (clone(model).fit(X, labels), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(model.predict_proba(X), copy.predict_proba(X))
    assert GridSearchCV(plain, {"gamma": [0.1, 1.0]}, cv=2).fit(X, labels).best_score_ > 0.4


@BOTH
def test_column_names_are_kept_and_checked(Model):
    pandas = pytest.importorskip("pandas")
    X, y = oracles.noisy_classes(40)
    frame = pandas.DataFrame(X, columns=["u", "v"])
    model = Model(gamma=0.5, cv=3).fit(frame, pandas.Series(y))
    np.testing.assert_array_equal(model.feature_names_in_, ["u", "v"])
    np.testing.assert_array_equal(model.predict(frame), Model(gamma=0.5, cv=3).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"u": "w"}))


@BOTH
def test_weights_are_routed(Model):
    X, y = oracles.noisy_classes(40)
    weight = 1.0 + (np.arange(40) % 3)
    with config_context(enable_metadata_routing=True):
        model = Model(gamma=0.5, cv=2).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = make_pipeline(scaler, model).fit(X, y, sample_weight=weight)
        search = GridSearchCV(model[-1], {"gamma": [0.5]}, cv=2).fit(X, y, sample_weight=weight)
    direct = Model(gamma=0.5, cv=2).fit(model[0].transform(X), y, weight)
    np.testing.assert_allclose(model[-1].dual_coef_, direct.dual_coef_, 1e-12)
    assert_same_model(search.best_estimator_, Model(gamma=0.5, cv=2).fit(X, y, weight), X, 1e-12)


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@CLASSES
@EVERY
def test_the_picture_shows_error_against_size_at_the_width_chosen(name, n_classes, pyplot):
    from fisherkit.plots import SparsityPathDisplay

    X, y = oracles.noisy_classes(24, n_classes)
    gamma = "cv" if n_classes == 2 and name != "q=0.5" else 0.5
    pipeline = make_pipeline(StandardScaler(), model_of(name, gamma=gamma)).fit(X, y)
    model = pipeline[-1]
    display = SparsityPathDisplay.from_estimator(pipeline)
    display.figure_.canvas.draw()
    curve, *others, mark = display.ax_.get_lines()
    path = model.path_[model.path_["gamma"] == model.gamma_]
    if "q" not in name:
        path = path[~path["stopped"]]
    assert sorted(curve.get_xdata()) == sorted(path["n_terms"])
    assert sorted(curve.get_ydata()) == sorted(100 * path["cv_error"])
    assert mark.get_xdata()[0] == model.n_terms_
    assert mark.get_ydata()[0] == 100 * model.cv_error_
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    conditional = [text for text in legend if "conditional on the selection" in text]
    assert len(others) == len(conditional) == ("q" not in name)
    assert all("leave-one-out" not in text for text in legend if text not in conditional)
    if others:
        np.testing.assert_array_equal(
            others[0].get_ydata(), 100 * model.growth_["conditional_loo_error"]
        )
    ax = pyplot.figure().gca()
    assert SparsityPathDisplay.from_estimator(model, ax=ax).ax_ is ax


@pytest.mark.parametrize("options", [{"kernel": "linear"}, {"rho": 0.1}])
def test_a_picture_needs_neither_widths_nor_a_path(options, pyplot):
    from fisherkit.plots import SparsityPathDisplay

    X, y = oracles.noisy_classes(30)
    display = SparsityPathDisplay.from_estimator(model_of("q=1", **options).fit(X, y))
    display.figure_.canvas.draw()
    with pytest.raises(NotFittedError):
        SparsityPathDisplay.from_estimator(SparseFisherClassifier())
