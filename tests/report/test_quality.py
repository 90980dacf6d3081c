"""Measures are scikit-learn's, comparisons see what is there and no more, and so does trust."""

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    log_loss,
    mean_absolute_error,
    precision_score,
    r2_score,
    recall_score,
    root_mean_squared_error,
)

from fisherkit.report.numbers import Coverage, Predicted
from fisherkit.report.quality import (
    Counts,
    Difference,
    Judged,
    Measures,
    Trust,
    Verdict,
    bins,
    places,
)


def judged(n=400, k=2, scale=1.0, offset=0.0, seed=0):
    """Labels drawn with the probabilities stated, after these were bent."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, k))
    p = softmax(logits, axis=1)
    truth = np.array([rng.choice(k, p=row) for row in p])
    if k == 2:
        odds = scale * logit(p[:, 1]) + offset
        p = np.column_stack([expit(-odds), expit(odds)])
    else:
        p = softmax(scale * np.log(p), axis=1)
    return Judged(truth, np.argmax(p, axis=1), p)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_measures_are_those_of_scikit_learn(k):
    found = judged(k=k)
    measures, counts = Measures.of(found), Counts.of(found)
    average = "binary" if k == 2 else "macro"
    assert measures.accuracy == accuracy_score(found.truth, found.answer)
    assert measures.balanced_accuracy == pytest.approx(
        balanced_accuracy_score(found.truth, found.answer)
    )
    assert measures.f1 == pytest.approx(f1_score(found.truth, found.answer, average=average))
    assert measures.log_loss == pytest.approx(log_loss(found.truth, found.p))
    for values, score in ((counts.precision, precision_score), (counts.recall, recall_score)):
        np.testing.assert_allclose(values, score(found.truth, found.answer, average=None))
    np.testing.assert_allclose(counts.f1, f1_score(found.truth, found.answer, average=None))


def test_classes_without_rows_or_answers_have_no_shares():
    p = np.array([[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1]])
    found = Judged(np.array([0, 1, 1]), np.array([0, 0, 1]), p)
    counts = Counts.of(found)
    assert np.isnan(counts.precision[2]) and np.isnan(counts.recall[2])
    assert Measures.of(found).balanced_accuracy == 0.75


def test_unknown_labels_count_as_wrong_and_have_no_loss():
    found = judged(50)
    truth = places(np.array(["no", "yes"]), np.array(["yes", "new", "no"]))
    assert truth.tolist() == [1, -1, 0]
    strange = Judged(np.where(np.arange(50) < 5, -1, found.truth), found.answer, found.p)
    assert not strange.right[:5].any() and np.isnan(strange.losses[:5]).all()
    assert Measures.of(strange).log_loss == pytest.approx(np.mean(found.losses[5:]))


def test_differences_are_paired():
    found = judged(500)
    worse = Judged(found.truth, np.where(np.arange(500) % 4, found.answer, 1), found.p)
    difference = Difference.of(found, worse)
    gain = found.right.astype(float) - worse.right
    assert difference.accuracy == pytest.approx(gain.mean())
    assert difference.accuracy_error == pytest.approx(gain.std(ddof=1) / np.sqrt(500))
    assert difference.side_of_answers == 1 and Difference.of(worse, found).side_of_answers == -1
    same = Difference.of(found, found)
    assert same.side_of_answers == same.side_of_probabilities == 0
    bent = Judged(found.truth, found.answer, found.p**3 / np.sum(found.p**3, axis=1)[:, None])
    assert Difference.of(found, bent).side_of_probabilities == 1
    assert Difference.of(bent, found).side_of_probabilities == -1


def test_chance_alone_is_seldom_called_a_difference():
    sides = []
    for seed in range(40):
        found, rng = judged(200, seed=seed), np.random.default_rng(seed)
        flip = rng.choice(200, 20, replace=False)
        answer = found.answer.copy()
        other = answer.copy()
        answer[flip[:10]], other[flip[10:]] = 1 - answer[flip[:10]], 1 - other[flip[10:]]
        pair = Judged(found.truth, answer, found.p), Judged(found.truth, other, found.p)
        sides.append(Difference.of(*pair).side_of_answers)
    assert np.mean(np.array(sides) != 0) <= 0.2


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize(
    ("scale", "verdict"),
    [(1.0, Verdict.TRUSTED), (2.5, Verdict.TOO_SURE), (0.4, Verdict.TOO_CAUTIOUS)],
)
def test_bent_probabilities_are_found_out(k, scale, verdict):
    found = Trust.of(judged(1500, k=k, scale=scale))
    assert found.verdict is verdict
    assert found.scale == pytest.approx(1 / scale, rel=0.25)


def test_probabilities_that_lean_to_one_side_are_found_out():
    found = Trust.of(judged(1500, offset=1.0))
    assert found.verdict is Verdict.SHIFTED and found.offset == pytest.approx(-1.0, abs=0.25)
    assert found.corrected(0.5) < 0.4


def test_few_rows_do_not_tell():
    assert Trust.of(judged(40, scale=5.0)).verdict is Verdict.UNKNOWN


def test_the_correction_is_a_logistic_regression_on_the_log_odds():
    found = judged(600, scale=1.7, offset=0.4)
    odds = logit(np.clip(found.p[:, 1], 1e-6, 1 - 1e-6))[:, None]
    twin = LogisticRegression(C=1e9, tol=1e-8).fit(odds, found.truth)
    trust = Trust.of(found)
    assert trust.scale == pytest.approx(float(twin.coef_[0, 0]), rel=1e-3)
    assert trust.offset == pytest.approx(float(twin.intercept_[0]), abs=1e-3)


@pytest.mark.parametrize("k", [2, 3])
def test_bins_hold_every_row(k):
    found = judged(300, k=k)
    parts = bins(found)
    assert sum(part.n for part in parts) == 300
    right = (found.truth == 1).sum() if k == 2 else found.right.sum()
    assert sum(part.right for part in parts) == right
    stated = found.p[:, 1] if k == 2 else found.p.max(axis=1)
    assert sum(part.n * part.stated for part in parts) == pytest.approx(stated.sum())


def test_measures_of_numbers_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=300)
    near, far = (Predicted(truth, truth + s * rng.normal(size=300)) for s in (0.3, 0.6))
    assert near.rmse == pytest.approx(root_mean_squared_error(truth, near.predicted))
    assert near.mae == pytest.approx(mean_absolute_error(truth, near.predicted))
    assert near.r2 == pytest.approx(r2_score(truth, near.predicted))
    assert near.beside(far) == 1 and far.beside(near) == -1 and near.beside(near) == 0
    low, high = near.interval
    assert low < near.rmse < high < far.rmse


def test_intervals_that_hold_too_seldom_are_not_trusted():
    assert Coverage([0.5, 0.8, 0.9, 0.95], [1, 2, 3, 4], 400, 320).trusted
    assert Coverage([0.6, 0.9, 0.97, 0.99], [1, 2, 3, 4], 400, 320).trusted
    assert not Coverage([0.5, 0.7, 0.8, 0.9], [1, 2, 3, 4], 400, 320).trusted
