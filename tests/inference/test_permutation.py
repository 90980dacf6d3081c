"""permutation_test_score against refits on the permuted labels, and what it refuses."""

import warnings

import numpy as np
import oracles
import pytest
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, ShuffleSplit, StratifiedKFold
from sklearn.model_selection import cross_val_predict as refitted_predict
from sklearn.model_selection import permutation_test_score as refitted
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fisherkit import BayesianFisherClassifier, KernelFisherClassifier, KernelRidgeCV
from fisherkit.core import Decomposer
from fisherkit.estimators import inside
from fisherkit.model_selection import permutation_test_score

N = 45
NUMBERS = {"gamma": 0.4, "regularization": 0.6}
GROUPS = np.arange(N) % 5
MODELS = {
    "prior": {"multiclass": "lda"},
    "balanced": {"threshold": "balanced", "multiclass": "lda"},
    "no bias": {"bias": "none", "multiclass": "ovr"},
    "one versus rest": {"multiclass": "ovr"},
}
SPLITTERS = {
    "shared folds": lambda: KFold(5, shuffle=True, random_state=1),
    "folds that follow the labels": lambda: StratifiedKFold(3),
    "an integer": lambda: 3,
    "random parts": lambda: ShuffleSplit(3, test_size=0.3, random_state=0),
    "pairs": lambda: list(KFold(4).split(np.zeros(N))),
}


def labelled(n_classes, n=N, seed=6):
    return oracles.noisy_classes(n, n_classes, seed=seed)


def orders(count, n=N):
    rng = np.random.RandomState(0)
    return [np.arange(n)] + [rng.permutation(n) for _ in range(count)]


def joined(result):
    return np.append(result[0], result[1])


@pytest.mark.parametrize("options", MODELS, ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_leave_one_out_accuracies_are_those_of_refits(n_classes, options):
    X, y = labelled(n_classes)
    model = KernelFisherClassifier(**NUMBERS, **MODELS[options])
    ours = permutation_test_score(model, X, y, n_permutations=3)
    theirs = refitted(model, X, y, cv=LeaveOneOut(), n_permutations=3, random_state=0)
    np.testing.assert_array_equal(joined(ours), joined(theirs))
    assert ours[2] == theirs[2]


@pytest.mark.parametrize("split", SPLITTERS)
@pytest.mark.parametrize(
    ("n_classes", "scoring"),
    [
        *((2, "accuracy"), (2, "balanced_accuracy"), (2, "roc_auc")),
        *((3, "accuracy"), (3, "balanced_accuracy")),
    ],
)
def test_folds_score_as_refits_do(n_classes, split, scoring):
    X, y = labelled(n_classes)
    y = np.array(["lo", "mid", "up"])[y]
    model = KernelFisherClassifier(**NUMBERS, multiclass="lda")
    options = dict(n_permutations=6, random_state=3, scoring=scoring)
    ours = permutation_test_score(model, X, y, cv=SPLITTERS[split](), **options)
    with warnings.catch_warnings():  # of classes that a small fold does not test
        warnings.simplefilter("ignore")
        theirs = refitted(model, X, y, cv=SPLITTERS[split](), **options)
    np.testing.assert_allclose(joined(ours), joined(theirs), rtol=0, atol=1e-10)
    assert ours[2] == pytest.approx(theirs[2])


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
def test_r2_is_that_of_refits(outputs, bias):
    X, y = labelled(2)
    Y = np.c_[np.sin(X[:, 0]), X[:, 1] - y] if outputs == 2 else np.sin(X[:, 0]) + y
    model = KernelRidgeCV(bias=bias, **NUMBERS)
    ours = permutation_test_score(model, X, Y, cv=5, n_permutations=6)
    theirs = refitted(model, X, Y, cv=5, n_permutations=6, random_state=0)
    np.testing.assert_allclose(joined(ours), joined(theirs), rtol=0, atol=1e-10)
    pooled = [
        r2_score(Y[order], refitted_predict(model, X, Y[order], cv=LeaveOneOut()))
        for order in orders(2)
    ]
    ours = permutation_test_score(model, X, Y, n_permutations=2)
    np.testing.assert_allclose(joined(ours), pooled, rtol=0, atol=1e-10)


@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
def test_the_leave_one_out_auc_ranks_scores_less_the_mean_label_of_their_fold(bias):
    X, y = labelled(2)
    model = KernelFisherClassifier(**NUMBERS, bias=bias)
    truth = []
    for order in orders(3):
        f = refitted_predict(model, X, y[order], cv=LeaveOneOut(), method="decision_function")
        truth.append(roc_auc_score(y[order], f - oracles.fold_means(2.0 * y[order] - 1)))
    ours = permutation_test_score(model, X, y, n_permutations=3, scoring="roc_auc")
    np.testing.assert_allclose(joined(ours), truth, rtol=0, atol=1e-10)


def test_the_leave_one_out_balanced_accuracy_is_pooled():
    X, y = labelled(3)
    model = KernelFisherClassifier(**NUMBERS, multiclass="lda")
    truth = [
        balanced_accuracy_score(y[order], refitted_predict(model, X, y[order], cv=LeaveOneOut()))
        for order in orders(2)
    ]
    ours = permutation_test_score(model, X, y, n_permutations=2, scoring="balanced_accuracy")
    np.testing.assert_allclose(joined(ours), truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"penalty": "coefficients", "basis": np.arange(0, 20, 3)}])
def test_the_leave_pair_out_auc_is_that_of_all_refits_without_a_pair(options):
    n = 20
    X, y = labelled(2, n)
    K, centres = oracles.gram(X, gamma=0.4), options.get("basis")
    penalty = options.get("penalty", "rkhs")
    truth = []
    for order in orders(2, n):
        s = 2.0 * y[order] - 1
        wins = []
        for i in np.flatnonzero(s > 0):
            for j in np.flatnonzero(s < 0):
                pair, rest = np.array([i, j]), np.setdiff1d(np.arange(n), [i, j])
                f = oracles.leave_group_out(
                    K, s, 0.6, [pair, rest], penalty=penalty, centres=centres
                )
                wins.append(float(f[i] > f[j]))
        truth.append(np.mean(wins))
    model = KernelFisherClassifier(**NUMBERS, **options)
    ours = permutation_test_score(model, X, y, n_permutations=2, scoring="leave_pair_out_auc")
    np.testing.assert_allclose(joined(ours), truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_chosen_centres_stay_in_place(penalty):
    X, y = labelled(2)
    centres = np.arange(0, N, 4)
    model = KernelFisherClassifier(**NUMBERS, penalty=penalty, basis=centres)
    K = oracles.gram(X, gamma=0.4)
    truth = []
    for order in orders(3):
        f = oracles.leave_one_out(K, 2.0 * y[order] - 1, 0.6, penalty=penalty, centres=centres)
        truth.append(np.mean((f > 0) == y[order]))
    ours = permutation_test_score(model, X, y, n_permutations=3)
    np.testing.assert_array_equal(joined(ours), truth)


@pytest.mark.parametrize("splitter", [None, GroupKFold(5)], ids=["leave-one-out", "GroupKFold"])
def test_labels_are_permuted_within_groups(splitter):
    X, y = labelled(2)
    model = KernelFisherClassifier(**NUMBERS)
    ours = permutation_test_score(model, X, y, groups=GROUPS, cv=splitter, n_permutations=4)
    cv = splitter or list(LeaveOneOut().split(X))  # LeaveOneOut itself warns about groups
    theirs = refitted(model, X, y, groups=GROUPS, cv=cv, n_permutations=4, random_state=0)
    np.testing.assert_allclose(joined(ours), joined(theirs), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gamma": 0.4},
        {"regularization": 0.6, "criterion": "log_loss"},
        {"criterion": "error", "kernel": "laplacian"},
        {"cv": 3, "gamma": 0.4},
        {"gamma": 0.4, "penalty": "coefficients"},
    ],
    ids=str,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_reselection_chooses_for_each_permutation_anew(n_classes, options):
    """Width and mu by one march for all labellings; then the model of `fit` with these."""
    X, y = labelled(n_classes)
    model = KernelFisherClassifier(**options, multiclass="lda")
    ours = permutation_test_score(model, X, y, n_permutations=3)
    for order, score in zip(orders(3), joined(ours), strict=True):
        task = inside(model).task(X, y[order])
        found = task.tune(Decomposer(task.problem.design)).selection
        chosen = {"gamma": found.gamma, "regularization": found.mu}
        given = KernelFisherClassifier(**options | chosen, multiclass="lda")
        decision = given.fit(X, y[order]).loo_decision_
        label = (decision > 0) if n_classes == 2 else np.argmax(decision, axis=1)
        assert score == np.mean(label == y[order])


@pytest.mark.parametrize("threshold", ["prior", "balanced"])
def test_a_softmax_is_scored_by_its_largest_score(threshold):
    """Its logits would have to be fitted anew for each permutation."""
    X, y = labelled(3)
    options = NUMBERS | {"threshold": threshold}
    ours = permutation_test_score(KernelFisherClassifier(**options), X, y, n_permutations=3, cv=3)
    scores = KernelFisherClassifier(**options, multiclass="ovr")
    theirs = permutation_test_score(scores, X, y, n_permutations=3, cv=3)
    np.testing.assert_array_equal(joined(ours), joined(theirs))


def test_reselection_on_a_low_rank_path_agrees_with_fits():
    X, y = labelled(2, n=620)
    model = KernelRidgeCV(gamma=0.02)
    ours = permutation_test_score(model, X, y, n_permutations=2)
    for order, score in zip(orders(2, 620), joined(ours), strict=True):
        left_out = model.fit(X, y[order]).loo_prediction_
        assert abs(score - r2_score(y[order], left_out)) < 1e-6


def test_without_reselection_the_choice_for_the_true_labels_is_kept():
    X, y = labelled(2)
    tuned = KernelFisherClassifier().fit(X, y)
    given = KernelFisherClassifier(gamma=tuned.gamma_, regularization=tuned.regularization_)
    kept = permutation_test_score(KernelFisherClassifier(), X, y, reselect=False, n_permutations=9)
    fixed = permutation_test_score(given, X, y, reselect=True, n_permutations=9)
    np.testing.assert_array_equal(joined(kept), joined(fixed))


def test_a_pipeline_is_fitted_once_on_all_rows_without_labels():
    X, y = labelled(2)
    model = KernelFisherClassifier(**NUMBERS)
    pipeline = make_pipeline("passthrough", StandardScaler(), model)
    ours = permutation_test_score(pipeline, 50 * X, y, n_permutations=5)
    scaled = permutation_test_score(model, StandardScaler().fit_transform(X), y, n_permutations=5)
    np.testing.assert_array_equal(joined(ours), joined(scaled))
    assert not hasattr(pipeline[1], "scale_")


@pytest.mark.parametrize(
    "step",
    [SelectKBest(k=1), SelectFromModel(LogisticRegression()), KernelFisherClassifier()],
    ids=lambda step: type(step).__name__,
)
def test_a_step_that_uses_labels_is_refused_by_name(step):
    X, y = labelled(2)
    pipeline = make_pipeline(step, KernelFisherClassifier(**NUMBERS))
    with pytest.raises(ValueError, match=type(step).__name__):
        permutation_test_score(pipeline, X, y)


def test_blocks_of_permutations_do_not_change_their_scores(monkeypatch):
    X, y = labelled(3)
    model = KernelFisherClassifier(**NUMBERS, multiclass="ovr")
    whole = permutation_test_score(model, X, y, n_permutations=20)
    monkeypatch.setattr("fisherkit.inference.relabel.BLOCK", 3 * 3 * N)
    np.testing.assert_array_equal(
        joined(permutation_test_score(model, X, y, n_permutations=20)), joined(whole)
    )


def test_a_labelling_equal_to_the_true_one_counts_as_reaching_its_score():
    """Two rows of each class: many permutations repeat the labelling; rounding must not tell."""
    X = np.array([[0.0], [0.3], [2.0], [2.4]])
    y = np.array([0.0, 0.0, 1.0, 1.0])
    pvalue = permutation_test_score(
        KernelRidgeCV(gamma=0.5, regularization=0.1), X, y, n_permutations=60
    )[2]
    rng = np.random.RandomState(0)
    same = sum(np.array_equal(y[rng.permutation(4)], y) for _ in range(60))
    assert same > 0 and pvalue >= (same + 1) / 61


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scoring": "f1"}, "balanced_accuracy"),
        ({"scoring": lambda *_: 0.0}, "closed form"),
        ({"scoring": "r2"}, "closed form"),
        ({"scoring": "leave_pair_out_auc", "cv": 3}, "cv=None"),
        ({"n_permutations": 0}, "n_permutations=0"),
        ({"n_permutations": None}, "n_permutations=None"),
        ({"reselect": "yes"}, "reselect='yes'"),
        ({"cv": 100}, "cv=100"),
        ({"groups": np.zeros(3)}, "groups"),
        ({"groups": np.arange(N) // 30, "sorted": True}, "one class only"),
        ({"cv": [(np.arange(5, N), np.arange(5))], "scoring": "roc_auc", "sorted": True}, "ROC"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_is_named(options, message):
    X, y = labelled(2)
    options = dict(options)
    y = np.sort(y) if options.pop("sorted", False) else y
    with pytest.raises(ValueError, match=message):
        permutation_test_score(KernelFisherClassifier(**NUMBERS), X, y, **options)


def test_what_has_no_closed_form_is_refused_with_the_reason():
    X, y = labelled(3)
    with pytest.raises(TypeError, match="LogisticRegression"):
        permutation_test_score(LogisticRegression(), X, y)
    with pytest.raises(TypeError, match="BayesianFisherClassifier"):
        permutation_test_score(BayesianFisherClassifier(), X, y)
    with pytest.raises(ValueError, match="class_weight"):
        permutation_test_score(KernelFisherClassifier(class_weight="balanced"), X, y)
    with pytest.raises(ValueError, match="ard"):
        permutation_test_score(KernelFisherClassifier(ard=True), X, y)
    with pytest.raises(ValueError, match="two classes"):
        permutation_test_score(KernelFisherClassifier(**NUMBERS), X, y, scoring="roc_auc")
    with pytest.raises(ValueError, match="one row"):
        permutation_test_score(KernelRidgeCV(**NUMBERS), X, y * 1.0, cv=LeaveOneOut())
    with pytest.raises(ValueError, match="class 9 is missing"):
        permutation_test_score(KernelFisherClassifier(**NUMBERS), X, np.append(y[:-1], 9))
    with pytest.raises(ValueError, match="is missing"):
        permutation_test_score(
            KernelFisherClassifier(**NUMBERS), X, np.sort(y), cv=KFold(3), n_permutations=1
        )
