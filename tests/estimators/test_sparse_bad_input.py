"""Bad input to the sparse classifiers: words that name the parameter, or a correct finite model."""

import re
import warnings

import numpy as np
import oracles
import pytest
from sklearn.exceptions import NotFittedError

from fisherkit import ForwardFisherClassifier, SparseFisherClassifier

BOTH = pytest.mark.parametrize("Model", [SparseFisherClassifier, ForwardFisherClassifier])
CLASSES = pytest.mark.parametrize("n_classes", [2, 3])
CASES = {
    "q=1": lambda **options: SparseFisherClassifier(**options),
    "q=0.5": lambda **options: SparseFisherClassifier(q=0.5, **options),
    "q=2": lambda **options: SparseFisherClassifier(q=2, **options),
    "penalised bias": lambda **options: SparseFisherClassifier(penalize_bias=True, **options),
    "loo_error": lambda **options: ForwardFisherClassifier(**options),
    "press": lambda **options: ForwardFisherClassifier(criterion="press", **options),
    "err": lambda **options: ForwardFisherClassifier(criterion="err", evidence=True, **options),
}
EVERY = pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
X, y = oracles.noisy_classes(30)


def assert_refused(model, *words, X=X, y=y, **fit):
    """fit raises ValueError and every word (a regular expression) is in the message."""
    with pytest.raises(ValueError) as caught:
        model.fit(X, y, **fit)
    for word in words:
        assert re.search(word, str(caught.value)), f"{word!r} is not in {caught.value}"


def fitted(model, X, y, **fit):
    """Fitted, without scikit-learn's remark on classes with fewer members than folds."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        return model.fit(X, y, **fit)


def assert_sound(model, X):
    """Finite numbers, and labels, decisions and probabilities that agree."""
    decisions, p = model.decision_function(X), model.predict_proba(X)
    for values in (decisions, p, model.dual_coef_, model.intercept_, model.cv_error_):
        assert np.all(np.isfinite(values))
    for name in ("n_terms", "cv_error", "cv_se"):
        assert np.all(np.isfinite(model.path_[name]))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    winner = (decisions > 0).astype(int) if decisions.ndim == 1 else np.argmax(decisions, axis=1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[winner])
    np.testing.assert_array_equal(model.predict(X), model.classes_[np.argmax(p, axis=1)])
    assert model.n_terms_ == len(model.basis_indices_) == len(set(model.basis_indices_))


# --- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 0.0, -1, 2.5, np.nan, np.inf, "one", None])
def test_q_outside_its_range_is_refused_with_the_value(value):
    assert_refused(SparseFisherClassifier(q=value), r"\bq=", str(value))


@pytest.mark.parametrize("value", [0, -0.1, np.nan, np.inf, "loo", None, True])
def test_rho_that_is_not_positive_is_refused_with_the_value(value):
    assert_refused(SparseFisherClassifier(rho=value), "rho=", str(value), "cv")


@BOTH
@pytest.mark.parametrize("value", [0, -0.1, np.nan, np.inf, "loo", None])
def test_gamma_that_is_not_positive_is_refused_with_the_value(Model, value):
    assert_refused(Model(gamma=value), "gamma=", str(value), "cv", "scale", "median")


@pytest.mark.parametrize("name", ["max_terms", "patience", "n_candidates"])
@pytest.mark.parametrize("value", [0, -3, 2.5, "many", True])
def test_counts_that_are_not_positive_integers_are_refused_with_the_value(name, value):
    assert_refused(ForwardFisherClassifier(**{name: value}), f"{name}=", str(value))
    if name == "n_candidates":
        assert_refused(SparseFisherClassifier(**{name: value}), f"{name}=", str(value))


def test_patience_without_a_number_is_refused():
    assert_refused(ForwardFisherClassifier(patience=None), "patience=None")


@BOTH
@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("kernel", ["rbf", "laplacian", "precomputed", "callable"]),
        ("select", ["error", "sparsest"]),
        ("threshold", ["prior", "balanced"]),
        ("basis", ["auto", "random", "pivoted", "array"]),
        ("class_weight", ["balanced", "dict", "None"]),
    ],
)
def test_an_unknown_name_is_refused_with_the_valid_ones(Model, name, valid):
    assert_refused(Model(**{name: "nonsense"}), f"{name}='nonsense'", *valid)


def test_an_unknown_name_of_one_model_is_refused_with_the_valid_ones():
    assert_refused(SparseFisherClassifier(select="most"), "select='most'", "error", "sparsest")
    assert_refused(
        ForwardFisherClassifier(criterion="gcv"), "criterion='gcv'", "loo_error", "press", "err"
    )


@BOTH
@pytest.mark.parametrize("value", ["five", 1, 0, -2, 2.5])
def test_a_bad_cv_is_refused(Model, value):
    assert_refused(Model(cv=value), re.escape(str(value)))


@BOTH
def test_bad_folds_are_refused(Model):
    rows = np.arange(30)
    assert_refused(Model(cv=[(rows, rows[:3])]), "cv", "fold 0", "trains")
    assert_refused(Model(cv=[(rows[:0], rows)]), "cv", "fold 0", "no rows")
    assert_refused(Model(cv=[]), "cv", "no fold")
    assert_refused(Model(cv=3), "groups", "29", "30", groups=np.ones(29))


@BOTH
def test_bad_candidates_are_refused(Model):
    for rows, seen in (([0, 30], "30"), ([-1, 2], "-1"), ([], "empty"), ([0.5], "integer")):
        assert_refused(Model(basis=np.array(rows)), "basis", seen)
    assert_refused(Model(basis=[0, 0]), "basis", "twice")
    assert_refused(Model(basis="random"), "basis='random'", "n_candidates")
    assert_refused(Model(basis=[0, 1, 2], n_candidates=5), "n_candidates=5", "contradicts", "3")
    weight = np.r_[0.0, np.ones(29)]
    assert_refused(Model(basis=[0, 1]), "basis", "row 0", "weight", sample_weight=weight)


# --- rows -----------------------------------------------------------------------------------------


@BOTH
def test_rows_that_are_not_numbers_and_labels_that_are_not_classes_are_refused(Model):
    spoiled = X.copy()
    spoiled[3, 0] = np.nan
    assert_refused(Model(), "X", "NaN", X=spoiled)
    with pytest.raises(ValueError, match="NaN"):
        Model(gamma=1.0, cv=2).fit(X, y).predict(spoiled)
    assert_refused(Model(), "[Uu]nknown label type|continuous", y=y + 0.5 * X[:, 0])
    assert_refused(Model(), "class", "only", y=np.full(30, "only"))
    assert_refused(Model(), "one class", sample_weight=(y == 0).astype(float))
    assert_refused(Model(), "sample_weight", "-0.5", sample_weight=np.r_[-0.5, np.ones(29)])
    assert_refused(Model(class_weight={0: 1.0, 1: -2.0}), "class_weight", "-2")
    assert_refused(Model("precomputed"), "square", X=np.ones((30, 20)))
    with pytest.raises(NotFittedError):
        Model().predict(X)


@CLASSES
@pytest.mark.parametrize("q", [1.0, 0.5])
@pytest.mark.parametrize("threshold", ["prior", "balanced"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("rho", [1e3, 1e300])
def test_a_huge_rho_gives_a_constant_model_and_says_so(n_classes, q, threshold, class_weight, rho):
    X, y = oracles.noisy_classes(30, n_classes)
    model = SparseFisherClassifier(
        q=q, rho=rho, gamma=1.0, cv=3, threshold=threshold, class_weight=class_weight
    )
    with pytest.warns(UserWarning, match=rf"No term .* rho={re.escape(f'{rho:g}')}: .*constant"):
        model.fit(X, y)
    assert model.n_terms_ == 0
    assert_sound(model, X)
    assert len(np.unique(model.predict(X))) == 1
    p = model.predict_proba(X)
    np.testing.assert_array_equal(p, np.tile(p[0], (30, 1)))
    if n_classes > 2 and threshold == class_weight == "balanced":
        # Costs stay where classes are as frequent: those of rare classes are the largest.
        assert model.predict(X[:1]) == np.argmin(np.bincount(y))
    elif threshold == "balanced" or class_weight == "balanced":
        np.testing.assert_allclose(p, 1 / n_classes, atol=1e-9)
        assert model.predict(X[:1]) == 0
    else:
        assert model.predict(X[:1]) == np.argmax(np.bincount(y))


@EVERY
@CLASSES
def test_a_class_of_one_is_learned_or_lost_but_never_breaks(make, n_classes):
    X, y = oracles.noisy_classes(12, n_classes)
    y = np.where(np.arange(12) == 7, n_classes - 1, np.arange(12) % (n_classes - 1))
    for cv in (3, None):
        model = fitted(make(gamma=0.5, cv=cv), X, y)
        assert len(model.classes_) == n_classes
        assert_sound(model, X)


@EVERY
@pytest.mark.parametrize("n", [2, 3, 4])
def test_fewer_rows_than_folds_are_enough(make, n):
    model = fitted(make(gamma=0.5), X[:n], np.arange(n) % 2)
    assert_sound(model, X)
    if n == 3:
        assert_sound(fitted(make(gamma=0.5), X[:n], np.arange(n)), X)


@EVERY
def test_more_folds_than_rows_are_as_many_as_the_largest_class_allows(make):
    X, y = oracles.noisy_classes(14)
    largest = int(np.bincount(y).max())
    many, most = (fitted(make(gamma=0.5, cv=cv), X, y) for cv in (50, largest))
    np.testing.assert_array_equal(many.decision_function(X), most.decision_function(X))


@EVERY
@pytest.mark.parametrize("labels", ["consistent", "conflicting", "conflicting3"])
def test_duplicated_rows_are_deterministic_under_permutation(make, labels):
    X = np.repeat(oracles.noisy_classes(10)[0], 4, axis=0)
    repeated = np.repeat(np.arange(10) % 2, 4)
    y = {"consistent": repeated, "conflicting": np.arange(40) % 2}.get(labels, np.arange(40) % 3)
    row = np.random.default_rng(0).permutation(40)
    fold, shuffled = np.arange(40) // 4 % 3, row // 4 % 3
    one, two = (
        make(gamma=0.5, cv=[(f != k, f == k) for k in range(3)]).fit(X[order], y[order])
        for order, f in ((np.arange(40), fold), (row, shuffled))
    )
    assert_sound(one, X)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-10)
    centres = X[one.basis_indices_]
    assert len(np.unique(centres, axis=0)) == one.n_terms_ <= 10
    np.testing.assert_array_equal(
        np.sort(centres, axis=0), np.sort(X[row][two.basis_indices_], axis=0)
    )


@EVERY
@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("equal rows", np.ones((24, 2))),
        ("zeros", np.zeros((24, 2))),
        ("equal columns", np.tile(np.arange(24.0)[:, None] % 7, (1, 3))),
        ("constant feature", np.c_[X[:24], np.full(24, 1e6)]),
        ("huge", 1e150 * X[:24]),
        ("tiny", 1e-150 * X[:24]),
        ("far from zero", 1e8 + X[:24]),
    ],
)
def test_degenerate_features_give_a_finite_model(make, name, features):
    for labels in (np.arange(24) % 2, np.arange(24) % 3, (np.arange(24) % 4 == 0).astype(int)):
        model = fitted(make(gamma="scale", cv=2), features, labels)
        assert_sound(model, features)
        if name in ("equal rows", "zeros"):
            assert model.n_terms_ == 0
            assert np.all(model.predict(features) == np.argmax(np.bincount(labels)))


@EVERY
@pytest.mark.parametrize("kernel", ["linear", "polynomial", "cosine"])
def test_equal_kernel_columns_give_a_finite_model(make, kernel):
    for features in (np.zeros((24, 2)), np.repeat(X[:3], 8, axis=0), X[:24, :1]):
        model = fitted(make(kernel=kernel, gamma=1.0, cv=2), features, np.arange(24) % 3)
        assert_sound(model, features)
    K = np.ones((24, 24))
    model = fitted(make(kernel="precomputed", cv=2), K, np.arange(24) % 2)
    assert_sound(model, K)
    assert model.n_terms_ == 0


@pytest.mark.parametrize("criterion", ["loo_error", "press", "err"])
@pytest.mark.parametrize("max_terms", [1, 29, 31, 10**9])
def test_more_terms_than_rows_are_as_many_as_there_are(criterion, max_terms):
    model = ForwardFisherClassifier(
        criterion=criterion, gamma=0.5, cv=3, max_terms=max_terms, patience=10**6
    ).fit(X, y)
    assert_sound(model, X)
    assert model.n_terms_ <= min(max_terms, 30)
    assert len(model.growth_) <= min(max_terms, 30) + 1


@EVERY
def test_more_candidates_than_rows_and_one_candidate_are_enough(make):
    assert_sound(make(gamma=0.5, cv=3, n_candidates=10**6).fit(X, y), X)
    assert_sound(make(gamma=0.5, cv=3, n_candidates=1, random_state=0).fit(X, y), X)
    model = make(gamma=0.5, cv=3, basis=[4]).fit(X, y)  # a fold has no centre at all
    assert_sound(model, X)
    assert set(model.basis_indices_) <= {4}


@EVERY
def test_extreme_sample_weights_give_a_finite_model(make):
    for weight in (np.full(30, 1e6), np.full(30, 1e-6), np.r_[1e6, np.ones(29)]):
        assert_sound(make(gamma=0.5, cv=3).fit(X, y, weight), X)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@BOTH
def test_a_kernel_that_is_not_defined_on_some_rows_is_refused(Model):
    assert_refused(Model(kernel="poly", degree=1.5, gamma=1.0), "not finite", "NaN")


@pytest.mark.parametrize("options", [{}, {"q": 0.5}, {"penalize_bias": True}])
def test_a_model_without_terms_says_what_is_known_of_why(options):
    with pytest.warns(UserWarning, match=r"All rows of X are equal, so that no rho") as caught:
        SparseFisherClassifier(rho=1e-9, **options).fit(np.ones_like(X), y)
    assert "smaller rho" not in str(caught[0].message)
    assert caught[0].filename == __file__  # the line of the user who calls fit
    with pytest.warns(UserWarning, match=r"rho=1e\+09: .* Use a smaller rho"):
        SparseFisherClassifier(rho=1e9, **options).fit(X, y)
