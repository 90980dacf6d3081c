"""How many factorisations a question costs, counted through the public API."""

import array_api_compat.numpy as compat_numpy
import numpy as np
import oracles
import pytest
from sklearn.model_selection import LeaveOneOut, StratifiedKFold

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.core import arrays, basis
from fisherkit.model_selection import cross_val_predict, learning_curve, permutation_test_score

NUMBERS = {"gamma": 0.3, "regularization": 0.5}
CV = [None, 2, 5, 20, StratifiedKFold(7), LeaveOneOut()]
cv_names = [str(cv) for cv in CV]


class Counter(dict):
    """Calls of every factorisation of a matrix larger than the number of classes."""

    largest = 0  # rows of a matrix whose eigenvectors were found

    @property
    def eigen(self):
        return self["eigh"] + self["svd"]

    @property
    def all(self):
        return sum(self.values())


@pytest.fixture
def count(monkeypatch):
    counter = Counter()

    def watch(owner, name, size):
        plain = getattr(owner, name)
        counter[name] = 0

        def counted(*args, **options):
            counter[name] += size(args[0]) > 5  # the discriminant axes need one of class size
            if name == "eigh":
                counter.largest = max(counter.largest, size(args[0]))
            return plain(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    for name in ("eigh", "spd_inverse", "is_positive_definite"):
        watch(arrays, name, len)
    for name in ("svd", "eigvalsh", "cholesky", "qr"):
        watch(compat_numpy.linalg, name, len)
    watch(basis, "low_rank", lambda gram: gram.n)
    return counter


def data(n=100, n_classes=2, d=2):
    return oracles.noisy_classes(n, n_classes, d=d, seed=4)


def test_the_counter_sees_every_factorisation(count):
    """Negative control: each path shows up where it is expected."""
    X, y = data()
    KernelFisherClassifier(gamma=0.3).fit(X, y)
    assert count["eigh"] == 1 and count.largest == len(y)
    KernelFisherClassifier(gamma=0.3, penalty="coefficients").fit(X, y)
    assert count["svd"] == 1
    KernelFisherClassifier(**NUMBERS).fit(X, y)
    assert count["spd_inverse"] == 1
    KernelFisherClassifier(**NUMBERS, kernel="precomputed").fit(oracles.gram(X, gamma=0.3), y)
    assert count["is_positive_definite"] == 1
    KernelFisherClassifier(gamma=0.3).fit(*data(700))
    assert count["low_rank"] > 0 and count["eigh"] > 1


# --- numbers given --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [100, 700])
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_numbers_cost_one_cholesky_and_no_eigendecomposition(n_classes, penalty, n, count):
    KernelFisherClassifier(**NUMBERS, penalty=penalty).fit(*data(n, n_classes))
    assert count["spd_inverse"] == count.all == 1


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba"])
@pytest.mark.parametrize("cv", CV, ids=cv_names)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_cross_val_predict_costs_one_factorisation_for_any_cv(n_classes, cv, method, count):
    X, y = data(80, n_classes)
    cross_val_predict(KernelFisherClassifier(**NUMBERS), X, y, cv=cv, method=method)
    assert count["spd_inverse"] == count.all == 1


@pytest.mark.parametrize("cv", [None, 5], ids=str)
def test_cross_val_predict_on_centres_costs_one_factorisation(cv, count):
    X, y = data(80)
    model = KernelRidgeCV(**NUMBERS, basis="random", n_components=10, random_state=0)
    cross_val_predict(model, X, y.astype(float), cv=cv)
    assert count["svd"] == count.all == 1


# --- mu searched ----------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["press", "log_loss", "error", "smoothed_error"])
@pytest.mark.parametrize("cv", CV, ids=cv_names)
def test_one_decomposition_serves_every_mu_and_every_cv(cv, criterion, count):
    model = KernelFisherClassifier(gamma=0.3, cv=cv, criterion=criterion).fit(*data())
    assert len(model.selection_.path) > 20
    assert count["eigh"] == count.all == 1


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("multiclass", ["lda", "ovr"])
def test_one_decomposition_serves_every_class(multiclass, n_classes, count):
    KernelFisherClassifier(gamma=0.3, multiclass=multiclass).fit(*data(n_classes=n_classes))
    assert count["eigh"] == count.all == 1


def test_one_decomposition_serves_every_output(count):
    X, y = data()
    KernelRidgeCV(gamma=0.3).fit(X, np.stack([y, X[:, 0], X[:, 1] ** 2], axis=1))
    assert count["eigh"] == count.all == 1


@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_one_decomposition_serves_every_bias_and_penalty(penalty, bias, count):
    KernelFisherClassifier(gamma=0.3, penalty=penalty, bias=bias).fit(*data())
    assert count.eigen == count.all == 1


@pytest.mark.parametrize("cv", [None, 5], ids=str)
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_a_low_rank_kernel_costs_at_most_two_factorisations(penalty, cv, count):
    model = KernelFisherClassifier(gamma=0.1, penalty=penalty, cv=cv, random_state=0)
    model.fit(*data(700))
    assert model.selection_.method == "low-rank"
    assert count["low_rank"] <= 2
    assert count.largest < 350
    assert count["svd"] == count["spd_inverse"] == 0


def test_a_full_rank_kernel_costs_one_attempt_and_a_few_factorisations_of_all_rows(count):
    model = KernelFisherClassifier(gamma=1.0, random_state=0).fit(*data(700, d=10))
    assert model.selection_.method == "cholesky"
    assert (count["low_rank"], count["eigh"]) == (1, 0)
    assert count["spd_inverse"] == count.all - 1 <= len(model.selection_.path)
    assert np.sum(model.selection_.path["rows"] == 700) <= 8


# --- widths searched ------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("seed", range(2))
def test_a_width_search_costs_one_decomposition(seed, d, kernel, count):
    X, y = oracles.noisy_classes(100, d=d, seed=seed)
    KernelFisherClassifier(kernel=kernel).fit(X, y)
    assert count["eigh"] == count.eigen == 1
    assert count["spd_inverse"] == count.all - 1 < 70


def test_a_criterion_without_slopes_costs_one_decomposition_per_width(count):
    model = KernelFisherClassifier(criterion="error").fit(*data())
    assert count["eigh"] == count.all == len(np.unique(model.selection_.path["gamma"]))


@pytest.mark.parametrize("criterion", ["press", "log_loss"])
def test_folds_cost_a_few_decompositions_near_the_width_of_leave_one_out(criterion, count):
    KernelFisherClassifier(cv=5, criterion=criterion).fit(*data())
    assert count.eigen == count["eigh"] <= 10


def test_a_given_mu_costs_no_decomposition(count):
    KernelFisherClassifier(regularization=0.1).fit(*data())
    assert count.eigen == 0


@pytest.mark.parametrize("n_permutations", [1, 30])
@pytest.mark.parametrize("cv", [None, 5, StratifiedKFold(4)], ids=str)
def test_all_permutations_share_one_factorisation(count, cv, n_permutations):
    X, y = data()
    model = KernelFisherClassifier(**NUMBERS)
    permutation_test_score(model, X, y, cv=cv, n_permutations=n_permutations)
    assert count.all == 1


@pytest.mark.parametrize("options", [{}, {"regularization": 0.5}, {"gamma": 0.3}], ids=str)
def test_reselection_decomposes_once_for_each_width(count, options):
    X, y = data()
    model = KernelFisherClassifier(**options)
    seen = []
    for n_permutations in (8, 40):
        before = count.all
        permutation_test_score(model, X, y, n_permutations=n_permutations)
        seen.append(count.all - before)
    assert seen[0] <= seen[1] <= (1 if "gamma" in options else 23)


@pytest.mark.parametrize("cv", [3, 10])
def test_a_learning_curve_costs_one_factorisation(count, cv):
    learning_curve(KernelFisherClassifier(**NUMBERS), *data(), cv=cv)
    assert count.all == 1
