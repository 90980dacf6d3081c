"""Cross-validation of sparse expansions against plain loops over rows, folds and refits."""

from dataclasses import dataclass, field, replace

import numpy as np
import oracles
import pytest
from forward_paths import prefix_scores
from sklearn.linear_model import Lasso
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold, PredefinedSplit

from fisherkit import ForwardFisherClassifier, SparseFisherClassifier
from fisherkit.core import forward
from fisherkit.core.kernels import Gram, Kernel
from fisherkit.core.labels import Labels
from fisherkit.core.weights import Weights
from fisherkit.sparse import crossfit
from fisherkit.sparse.crossfit import Family, HeldOut, Sample
from fisherkit.sparse.learners import ForwardLearner, LqLearner

GAMMA = 0.7
CV = KFold(4, shuffle=True, random_state=0)


def labels_of(y, frequency=None, cost=None):
    y = np.asarray(y)
    frequency = np.ones(len(y)) if frequency is None else np.asarray(frequency, dtype=float)
    cost = np.ones(len(y)) if cost is None else np.asarray(cost, dtype=float)
    return Labels(np.arange(y.max() + 1), y, Weights(frequency, cost))


def sample_of(X, y, pairs, frequency=None, cost=None, **options):
    """The rows merged, with all distinct x as candidates."""
    labels = labels_of(y, frequency, cost)
    gram, merged, first, group = crossfit.merge(Gram(X, Kernel("rbf")), labels)
    centres, centre_of = crossfit.centres_of(gram.distinct())
    sample = Sample(
        gram=gram,
        labels=merged,
        rows=first,
        centres=centres,
        centre_of=centre_of,
        folds=crossfit.merged_folds(pairs, group, labels.weights.frequency),
        tests=[test for _, test in pairs],
        group=group,
        basis="all",
        n_candidates=len(centres),
        given=None,
        seed=0,
    )
    return replace(sample, **options)


def with_copies(n=24, n_classes=2, seed=0):
    """Rows of which some are repeated, some with another label."""
    X, y = oracles.noisy_classes(n, n_classes, seed=seed)
    rng = np.random.default_rng(seed)
    extra = rng.integers(n, size=n // 2)
    y_extra = np.where(rng.random(n // 2) < 0.5, y[extra], (y[extra] + 1) % n_classes)
    order = rng.permutation(n + n // 2)
    return np.r_[X, X[extra]][order], np.r_[y, y_extra][order]


# --- merging --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_merged_rows_are_the_distinct_pairs_of_x_and_label(seed, n_classes):
    X, y = with_copies(n_classes=n_classes, seed=seed)
    frequency = np.random.default_rng(seed).integers(1, 5, size=len(y)).astype(float)
    gram, merged, first, group = crossfit.merge(Gram(X, Kernel("rbf")), labels_of(y, frequency))
    seen = {(*x, label) for x, label in zip(gram.X, merged.index, strict=True)}
    assert seen == {(*x, label) for x, label in zip(X, y, strict=True)}
    assert len(seen) == gram.n == len(merged.index)
    for i in range(len(y)):
        np.testing.assert_array_equal(gram.X[group[i]], X[i])
        assert merged.index[group[i]] == y[i]
    for j, row in enumerate(first):
        copies = np.flatnonzero(np.all(gram.X[j] == X, axis=1) & (merged.index[j] == y))
        assert row == copies[0]
        assert merged.weights.frequency[j] == frequency[copies].sum()


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_repeated_and_weighted_rows_merge_into_the_same_problem(seed):
    X, y = with_copies(n_classes=3, seed=seed)
    rng = np.random.default_rng(seed)
    copies = rng.integers(1, 4, size=len(y))
    cost = np.array([1.0, 2.0, 0.3])[y]
    rows = rng.permutation(np.repeat(np.arange(len(y)), copies))
    one = crossfit.merge(Gram(X, Kernel("rbf")), labels_of(y, copies, cost))
    two = crossfit.merge(Gram(X[rows], Kernel("rbf")), labels_of(y[rows], None, cost[rows]))
    np.testing.assert_array_equal(one[0].X, two[0].X)
    np.testing.assert_array_equal(one[1].index, two[1].index)
    np.testing.assert_array_equal(one[1].weights.frequency, two[1].weights.frequency)
    np.testing.assert_array_equal(one[1].weights.cost, two[1].weights.cost)
    np.testing.assert_array_equal(one[3][rows], two[3])


def test_minus_zero_is_zero():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])
    gram, merged, *_ = crossfit.merge(Gram(X, Kernel("rbf")), labels_of([0, 0, 1]))
    assert gram.n == 2
    assert sorted(merged.weights.frequency) == [1.0, 2.0]


def test_rows_of_a_precomputed_kernel_are_not_merged():
    X, y = with_copies()
    K = rbf_kernel(X)
    gram, _, first, group = crossfit.merge(Gram(K, Kernel("precomputed")), labels_of(y))
    np.testing.assert_array_equal(first, np.arange(len(y)))
    np.testing.assert_array_equal(group, np.arange(len(y)))
    np.testing.assert_array_equal(gram.X, K)


def test_rows_equal_in_x_share_a_centre_whatever_their_label():
    X, y = with_copies(n_classes=3)
    gram, *_ = crossfit.merge(Gram(X, Kernel("rbf")), labels_of(y))
    centres, centre_of = crossfit.centres_of(gram.distinct())
    assert len(centres) == len(np.unique(X, axis=0)) < gram.n
    np.testing.assert_array_equal(gram.X[centres[centre_of]], gram.X)
    np.testing.assert_array_equal(centres, np.sort(centres))
    assert all(np.flatnonzero(centre_of == c)[0] == row for c, row in enumerate(centres))


# --- folds ----------------------------------------------------------------------------------------


def test_a_fold_of_merged_rows_has_the_frequencies_of_its_rows():
    X, y = with_copies()
    rng = np.random.default_rng(0)
    frequency = rng.integers(1, 4, size=len(y)).astype(float)
    _, merged, _, group = crossfit.merge(Gram(X, Kernel("rbf")), labels_of(y, frequency))
    pairs = list(CV.split(X))
    folds = crossfit.merged_folds(pairs, group, frequency)
    for (train, test), (inside, outside) in zip(pairs, folds, strict=True):
        for merged_row in range(len(merged.index)):
            own = np.flatnonzero(group == merged_row)
            assert inside[merged_row] == sum(frequency[i] for i in own if i in train)
            assert outside[merged_row] == sum(frequency[i] for i in own if i in test)
        np.testing.assert_array_equal(inside + outside, merged.weights.frequency)


def test_leave_one_out_removes_one_copy_and_tests_them_all():
    frequency = np.array([1.0, 3.0, 0.4, 2.5])
    folds = crossfit.leave_one_out(frequency)
    assert len(folds) == 4
    for i, (train, test) in enumerate(folds):
        left = frequency.copy()
        left[i] = [0.0, 2.0, 0.0, 1.5][i]
        np.testing.assert_array_equal(train, left)
        np.testing.assert_array_equal(test, np.where(np.arange(4) == i, frequency, 0.0))
    np.testing.assert_array_equal(frequency, [1.0, 3.0, 0.4, 2.5])


def test_weighted_leave_one_out_is_that_of_repeated_rows():
    """Each copy has a fold of its own; together they test what the merged fold tests."""
    frequency = np.array([2.0, 1.0, 3.0])
    group = np.array([0, 0, 1, 2, 2, 2])
    pairs = [(np.delete(np.arange(6), i), np.array([i])) for i in range(6)]
    by_copy = crossfit.merged_folds(pairs, group, np.ones(6))
    by_row = crossfit.leave_one_out(frequency)
    for i, (train, test) in enumerate(by_copy):
        np.testing.assert_array_equal(train, by_row[group[i]][0])
        np.testing.assert_array_equal(test * frequency, by_row[group[i]][1])


# --- families -------------------------------------------------------------------------------------


def random_family(k, seed=0):
    rng = np.random.default_rng(seed)
    models = []
    for size in (0, 1, 3, 4):
        terms = np.sort(rng.choice(7, size=size, replace=False))
        models.append((terms, rng.normal(size=(size, k)), rng.normal(size=k)))
    return models


@pytest.mark.parametrize("k", [1, 3])
def test_decisions_of_a_family_are_those_of_its_models(k):
    models = random_family(k)
    family = Family.of(models)
    P = np.random.default_rng(1).normal(size=(7, 5))
    decisions = family.decisions(P)
    assert decisions.shape == (4, 5, k)
    np.testing.assert_array_equal(family.sizes, [0, 1, 3, 4])
    for own, (terms, coef, intercept) in zip(decisions, models, strict=True):
        for i in range(5):
            truth = intercept + sum(P[t, i] * c for t, c in zip(terms, coef, strict=True))
            np.testing.assert_allclose(own[i], truth, atol=1e-11)


def test_a_family_without_terms_is_constant():
    family = Family.of([(np.empty(0, dtype=int), np.empty((0, 2)), np.array([0.5, -1.0]))] * 3)
    np.testing.assert_array_equal(
        family.decisions(np.empty((0, 4))), np.tile([0.5, -1.0], (3, 4, 1))
    )


def test_rounding_does_not_break_the_ties_of_a_constant_model():
    none = np.empty(0, dtype=int), np.empty((0, 1))
    family = Family.of([(*none, np.array([1e-17])), (*none, np.array([-1e-17]))])
    np.testing.assert_array_equal(family.intercept, 0.0)


def test_the_member_is_the_number_given_or_the_last_or_the_one_preferred():
    family = Family.of(random_family(1), stop=2)
    assert [family.member(m) for m in (0, 3, 9, None)] == [0, 3, 3, 2]


# --- held-out decisions ---------------------------------------------------------------------------


@dataclass
class Spy:
    """Keeps what it is fitted on, and decides by the mean label."""

    rhos: None = None
    seen: list = field(default_factory=list)

    def settle(self, P, labels):
        return self

    def fit(self, P, labels):
        self.seen.append((P.copy(), labels))
        P[:] = np.nan  # which a learner is allowed to do
        mean = labels.weights.mean(2.0 * labels.index[:, None] - 1)
        terms = np.arange(len(P))
        return Family.of([(terms, np.zeros((len(terms), 1)), mean)])


@pytest.mark.parametrize("basis", ["all", "random", "pivoted", "given"])
@pytest.mark.parametrize("seed", range(3))
def test_centres_are_never_rows_held_out(basis, seed):
    X, y = with_copies(seed=seed)
    sample = sample_of(X, y, list(CV.split(X)), basis=basis, n_candidates=10, seed=seed)
    if basis == "given":
        sample = replace(sample, given=sample.centres[::2])
    spy = Spy()
    held, _ = crossfit.hold_out(sample, spy, GAMMA)
    allowed = sample.candidates(GAMMA)
    for (P, labels), (train, _) in zip(spy.seen, sample.folds, strict=True):
        inside = np.flatnonzero(train > 0)
        there = {tuple(x) for x in sample.gram.X[inside]}
        centres = [x for x in sample.gram.X[allowed] if tuple(x) in there]
        np.testing.assert_allclose(P, rbf_kernel(centres, sample.gram.X[inside], GAMMA))
        np.testing.assert_array_equal(labels.weights.frequency, train[inside])
        np.testing.assert_array_equal(labels.index, sample.labels.index[inside])
    assert np.all(np.isfinite(held.decisions))


@pytest.mark.parametrize("n_candidates", [5, 17, 100])
@pytest.mark.parametrize("basis", ["random", "pivoted"])
def test_candidates_are_distinct_and_no_more_than_asked_for(basis, n_candidates):
    X, y = with_copies()
    sample = sample_of(X, y, [], basis=basis, n_candidates=n_candidates)
    chosen = sample.candidates(GAMMA)
    distinct = np.unique(sample.gram.X[chosen], axis=0)
    assert len(distinct) == len(chosen) == min(n_candidates, len(sample.centres))


def lasso_decisions(K_train, y, K_test, rho):
    """The lasso on standardised codes, decided at the midpoint, by scikit-learn."""
    share = np.mean(y)
    spread = 2 * np.sqrt(share * (1 - share))
    codes = (2.0 * y - 1 - (2 * share - 1)) / spread
    lasso = Lasso(alpha=rho, tol=1e-12, max_iter=1_000_000).fit(K_train, codes)
    return spread * lasso.predict(K_test) + 2 * share - 1


def test_held_out_lasso_decisions_are_those_of_a_plain_loop():
    X, y = with_copies()
    frequency = np.random.default_rng(0).integers(1, 4, size=len(y))
    pairs = list(CV.split(X))
    rhos = np.array([0.1, 0.02])
    learner = LqLearner(q=1.0, penalize_bias=False, balanced=False, rhos=rhos)
    held, _ = crossfit.hold_out(sample_of(X, y, pairs, frequency), learner, GAMMA)
    sample = sample_of(X, y, pairs, frequency)
    for k, (train, test) in enumerate(pairs):
        rows = np.repeat(train, frequency[train])
        centres = np.unique(X[train], axis=0)
        K_train, K_test = rbf_kernel(X[rows], centres, GAMMA), rbf_kernel(X[test], centres, GAMMA)
        tested = held.rows[held.fold == k]
        for m, rho in enumerate(rhos):
            truth = lasso_decisions(K_train, y[rows], K_test, rho)
            for i, decision in zip(tested, held.decisions[m, held.fold == k, 0], strict=True):
                copies = np.all(X[test] == sample.gram.X[i], axis=1) & (
                    y[test] == sample.labels.index[i]
                )
                np.testing.assert_allclose(truth[copies], decision, atol=1e-6)
                assert held.frequency[held.fold == k][tested == i] == frequency[test][copies].sum()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("criterion", forward.CRITERIA)
def test_held_out_forward_decisions_are_those_of_a_plain_loop(criterion, n_classes):
    X, y = oracles.noisy_classes(40, n_classes)
    pairs = list(CV.split(X))
    sample = sample_of(X, y, pairs)
    learner = ForwardLearner(criterion, max_terms=6, patience=3, evidence=False, balanced=False)
    held, _ = crossfit.hold_out(sample, learner, GAMMA)
    Y = oracles.indicators(y) if n_classes > 2 else 2.0 * y[:, None] - 1
    position = np.argsort(sample.rows)  # no row is repeated: where each row is among the merged
    sizes = []
    for k, (train, test) in enumerate(pairs):
        train, test = sample.rows[np.sort(position[train])], sample.rows[np.sort(position[test])]
        ones = np.ones(len(train))
        path = forward.select_terms(
            rbf_kernel(X[train], X[train], GAMMA),
            Y[train],
            Weights(ones, ones),
            criterion=criterion,
            max_terms=6,
            patience=3,
        )
        truth = prefix_scores(path, rbf_kernel(X[test], X[train[path.order]], GAMMA))
        mine = held.fold == k
        np.testing.assert_array_equal(sample.rows[held.rows[mine]], test)
        sizes.append(len(path.order))
        for m, decisions in enumerate(held.decisions[:, mine]):
            np.testing.assert_allclose(decisions, truth[min(m, sizes[-1])], atol=1e-8)
        if criterion == "err":
            assert held.own is None
        else:
            np.testing.assert_allclose(held.own[mine], truth[path.best], atol=1e-8)
    mass = [len(test) for _, test in pairs]
    truth = [np.average(np.minimum(m, sizes), weights=mass) for m in range(max(sizes) + 1)]
    np.testing.assert_allclose(held.sizes, truth)


@pytest.mark.parametrize("make", ["lq", "forward"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_that_a_fold_never_saw_is_not_known_and_not_decided(n_classes, make):
    X, y = oracles.noisy_classes(30, n_classes)
    alone = np.flatnonzero(y == 0)
    rest = np.flatnonzero(y > 0)
    pairs = [(rest, alone), (np.r_[alone[1:], rest[1:]], np.r_[alone[:1], rest[:1]])]
    learner = LqLearner(
        q=1.0, penalize_bias=False, balanced=False, rhos=np.array([10.0, 0.1, 1e-3])
    )
    if make == "forward":
        learner = ForwardLearner("err", 4, 5, False, False)
    sample = sample_of(X, y, pairs)
    held, _ = crossfit.hold_out(sample, learner, GAMMA)
    np.testing.assert_array_equal(held.known, held.fold == 1)
    for decisions in held.decisions[:, held.fold == 0]:
        winner = (decisions[:, 0] > 0) if n_classes == 2 else np.argmax(decisions, axis=1)
        assert np.all(winner != 0)


# --- errors and choice ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_error_is_the_weighted_share_and_its_spread_that_of_the_folds(seed, n_classes):
    rng = np.random.default_rng(seed)
    index = rng.integers(n_classes, size=12)
    index[:n_classes] = np.arange(n_classes)
    cost = rng.random(n_classes)[index] + 0.5
    labels = labels_of(index, rng.integers(1, 4, size=12), cost)
    rows, fold = np.r_[0:12, 3, 5], np.r_[np.arange(12) % 3, 0, 1]
    frequency = rng.integers(1, 4, size=14).astype(float)
    decisions = rng.normal(size=(14, 1 if n_classes == 2 else n_classes))
    held = HeldOut(decisions[None], None, rows, frequency, fold, np.ones(14, bool), np.ones(1), 0.0)
    wrong, mass = np.zeros(3), np.zeros(3)
    for i in range(14):
        d = decisions[i]
        decided = int(d[0] > 0) if n_classes == 2 else int(np.argmax(d))
        mass[fold[i]] += frequency[i] * cost[rows[i]]
        wrong[fold[i]] += frequency[i] * cost[rows[i]] * (decided != index[rows[i]])
    error, spread = crossfit.fold_errors(held, decisions, labels)
    assert error == pytest.approx(wrong.sum() / mass.sum(), rel=1e-12)
    assert spread == pytest.approx(np.std(wrong / mass, ddof=1) / np.sqrt(3), rel=1e-12)


def test_a_single_fold_has_no_standard_error():
    labels = labels_of([0, 1])
    held = HeldOut(
        np.ones((1, 2, 1)), None, np.arange(2), np.ones(2), np.zeros(2, int), np.ones(2, bool),
        np.ones(1), 0.0,
    )  # fmt: skip
    assert crossfit.fold_errors(held, held.decisions[0], labels) == (0.5, 0.0)


def table(*rows):
    """Rows (cv_error, cv_se, stopped) of a path."""
    return np.array([(1.0, 1.0, 0.0, *row) for row in rows], dtype=crossfit.PATH_DTYPE)


@pytest.mark.parametrize(
    ("rows", "sizes", "best", "chosen"),
    [
        ([(0.10, 0.02, False), (0.12, 0.5, False), (0.13, 0.5, False)], [9, 4, 1], 0, 1),
        ([(0.10, 0.0, False), (0.12, 0.5, False)], [9, 1], 0, 0),
        ([(0.12, 0.0, False), (0.11, 0.0, False), (0.10, 0.05, False)], [3, 3, 9], 2, 1),
        ([(0.11, 0.0, False), (0.11, 0.0, False), (0.10, 0.05, False)], [3, 3, 9], 2, 0),
        ([(0.05, 0.9, False), (0.10, 0.05, True), (0.12, 0.1, True)], [0, 9, 4], 1, 2),
        ([(0.10, 0.02, False), (0.11, 0.0, False)], [2, 5], 0, 0),
    ],
    ids=["within", "no spread", "smaller error", "first", "comparable", "best is sparsest"],
)
def test_the_sparsest_has_the_fewest_terms_within_one_standard_error(rows, sizes, best, chosen):
    assert crossfit._sparsest(table(*rows), best, sizes.__getitem__) == chosen


def softmax_of(decisions, index, *, balanced):
    """Logits of held-out decisions, less the mean of their row."""
    Z = decisions - decisions.mean(axis=1, keepdims=True)
    counts = np.bincount(index)
    share = 1 / counts[index] / len(counts) if balanced else np.full(len(Z), 1 / len(Z))
    a, b, _ = oracles.calibrate(Z, oracles.smoothed_targets(index), share)
    g, weight = a * Z + b, len(Z) * share
    W, c = oracles.matrix_form(g, index, weight, oracles.best_ridge(g, index, weight)[0])
    return g @ W + c


@pytest.mark.parametrize("sparsest", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_choice_is_that_of_a_loop_over_the_path(seed, n_classes, sparsest):
    X, y = oracles.noisy_classes(50, n_classes, seed=seed)
    sample = sample_of(X, y, list(CV.split(X)))
    balanced = seed == 1
    learner = LqLearner(q=1.0, penalize_bias=False, balanced=balanced)
    gammas = [0.1, 0.4, 1.6]
    choice = crossfit.choose(sample, learner, gammas, sparsest=sparsest, balanced=balanced)
    path = choice.path
    assert len(path) == 60
    best = min(range(60), key=lambda j: (path["cv_error"][j], path["n_terms"][j]))
    if not sparsest:
        assert choice.chosen == best
    else:
        bound = path["cv_error"][best] + path["cv_se"][best]
        sizes = []
        for gamma in gammas:
            P = sample.kernel_rows(gamma, sample.centres)
            sizes += list(learner.settle(P, sample.labels).fit(P, sample.labels).sizes)
        within = [j for j in range(60) if path["cv_error"][j] <= bound]
        assert sizes[choice.chosen] == min(sizes[j] for j in within)
        assert choice.chosen in within
    family, member, candidates = crossfit.refit(sample, choice)
    assert choice.gamma == path["gamma"][choice.chosen] == gammas[choice.chosen // 20]
    assert member == choice.member == choice.chosen % 20
    assert choice.learner.rhos[member] == path["rho"][choice.chosen]
    np.testing.assert_array_equal(candidates, sample.centres)
    assert family.coef.shape[0] == 20
    held, _ = crossfit.hold_out(sample, learner, choice.gamma)
    decisions = held.decisions[choice.member]
    index = sample.labels.index[held.rows]
    if n_classes > 2:
        truth = softmax_of(decisions, index, balanced=balanced)
        np.testing.assert_allclose(crossfit.logits(choice.slope, decisions), truth, atol=1e-6)
        return
    scores = decisions[:, 0]
    truth = oracles.slope(scores, index, None, 1 / np.bincount(index)[index] if balanced else None)
    assert choice.slope.value == pytest.approx(truth, rel=1e-5)


@pytest.mark.parametrize("Model", [SparseFisherClassifier, ForwardFisherClassifier])
def test_some_rows_say_which_widths_are_compared_on_all(monkeypatch, Model):
    X, y = oracles.noisy_classes(160)
    every = Model(random_state=0).fit(X, y)
    monkeypatch.setattr(crossfit, "_LEVELS", (60,))
    some = Model(random_state=0).fit(X, y)
    widths = np.unique(some.path_["gamma"])
    assert 1 <= len(widths) <= 3 and set(widths) < set(np.unique(every.path_["gamma"]))
    assert some.cv_error_ <= every.cv_error_ + 0.05
    order = np.random.default_rng(0).permutation(160)
    folds = PredefinedSplit(np.arange(160) % 5)
    one = Model(random_state=0, cv=folds).fit(X, y)
    shuffled = PredefinedSplit((np.arange(160) % 5)[order])
    other = Model(random_state=0, cv=shuffled).fit(X[order], y[order])
    assert one.gamma_ == pytest.approx(other.gamma_, rel=1e-9)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-7)
    twice = 1.0 + np.arange(160) % 2
    weighted = Model(random_state=0, cv=folds).fit(X, y, sample_weight=twice)
    copies = np.repeat(np.arange(160), twice.astype(int))
    repeated = PredefinedSplit((np.arange(160) % 5)[copies])
    several = Model(random_state=0, cv=repeated).fit(X[copies], y[copies])
    assert weighted.gamma_ == pytest.approx(several.gamma_, rel=1e-9)
    np.testing.assert_allclose(
        weighted.decision_function(X), several.decision_function(X), atol=1e-6
    )


def test_of_many_rows_some_are_candidates(monkeypatch):
    X, y = oracles.noisy_classes(90)
    monkeypatch.setattr(crossfit, "MANY", 80)
    monkeypatch.setattr(crossfit, "CANDIDATES", 15)
    unasked = SparseFisherClassifier(random_state=0, gamma=0.5).fit(X, y)
    asked = SparseFisherClassifier(random_state=0, gamma=0.5, basis="random", n_candidates=15)
    assert np.array_equal(asked.fit(X, y).basis_indices_, unasked.basis_indices_)
    assert SparseFisherClassifier(gamma=0.5, n_candidates=90).fit(X, y).n_terms_ > 0


def test_folds_that_test_none_of_some_rows_say_nothing_of_widths(monkeypatch):
    X, y = oracles.noisy_classes(120)
    monkeypatch.setattr(crossfit, "_LEVELS", (30,))
    for test in range(0, 120, 17):
        folds = [(np.setdiff1d(np.arange(120), [test]), np.array([test]))]
        assert SparseFisherClassifier(cv=folds, random_state=0).fit(X, y).n_terms_ >= 0
