"""The generators follow their stated laws; the loaders return what the files hold.

A statistic of n draws is compared with its expectation to six standard errors, so that any seed
passes.
"""

import numpy as np
import pytest
from scipy.stats import kstest, norm, uniform

from fisherkit.datasets import (
    load_ida,
    load_uci,
    make_bumpy,
    make_overlap,
    make_relevance,
    make_ringnorm,
    make_spiral,
    make_torus,
    make_twonorm,
    make_waveform,
)

DRAWS = [make_overlap, make_bumpy, make_relevance]  # half of the rows of each label
GENERATORS = [make_torus, make_ringnorm, make_twonorm, make_waveform, *DRAWS]
SHIFT = 2 / np.sqrt(20)


def assert_mean(values, expected, variance):
    """The mean over rows is ``expected`` within six standard errors."""
    error = np.abs(values.mean(axis=0) - expected)
    assert np.all(error <= 6 * np.sqrt(variance / len(values)))


@pytest.mark.parametrize("make", GENERATORS)
def test_the_seed_decides_the_draw(make):
    X, y = make(50, random_state=3)
    X_again, y_again = make(50, random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(X, X_again)
    np.testing.assert_array_equal(y, y_again)
    assert not np.array_equal(X, make(50, random_state=4)[0])


@pytest.mark.parametrize(
    ("make", "d", "labels"),
    [
        (make_torus, 2, [0, 1]),
        (make_ringnorm, 20, [0, 1]),
        (make_twonorm, 20, [0, 1]),
        (make_waveform, 21, [0, 1, 2]),
        (make_overlap, 2, [0, 1]),
        (make_bumpy, 2, [0, 1]),
        (make_relevance, 2, [0, 1]),
    ],
)
def test_shapes_and_labels(make, d, labels):
    X, y = make(200, random_state=0)
    assert X.shape == (200, d) and X.dtype == np.float64
    assert y.shape == (200,) and y.dtype == np.int64
    np.testing.assert_array_equal(np.unique(y), labels)


@pytest.mark.parametrize("n", [4, 8, 10, 4096])
def test_a_quarter_of_the_torus_is_the_blob(n):
    assert make_torus(n, random_state=0)[1].sum() == n // 4


def test_torus_rows_are_shuffled():
    y = make_torus(400, random_state=0)[1]
    assert 0 < y[:100].sum() < 100


def test_torus_follows_the_law_of_orkfd_section_4():
    X, y = make_torus(40_000, random_state=0)
    blob, annulus = X[y == 1], X[y == 0]
    assert_mean(blob, 0.0, 1.0)
    assert_mean(blob**2, 1.0, 2.0)
    assert_mean(blob[:, 0] * blob[:, 1], 0.0, 1.0)
    # a radius below zero, of probability 3e-5, comes out on the opposite side
    radius = np.hypot(*annulus.T)
    assert kstest(radius, norm(4, 1).cdf).pvalue > 1e-6
    angle = np.arctan2(annulus[:, 1], annulus[:, 0])
    assert kstest(angle, uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-6


def test_ringnorm_moments():
    X, y = make_ringnorm(20_000, random_state=0)
    assert_mean(y, 0.5, 0.25)
    wide, narrow = X[y == 1], X[y == 0]
    assert_mean(wide, 0.0, 4.0)
    assert_mean(wide**2, 4.0, 32.0)
    assert_mean(narrow, SHIFT, 1.0)
    assert_mean((narrow - SHIFT) ** 2, 1.0, 2.0)


def test_twonorm_bayes_error_is_phi_of_minus_two():
    X, y = make_twonorm(40_000, random_state=0)
    assert_mean(y, 0.5, 0.25)
    error = norm.cdf(-2)
    assert_mean((X.sum(axis=1) > 0) != (y == 1), error, error * (1 - error))
    centred = X - SHIFT * (2 * y[:, None] - 1)
    assert_mean(centred, 0.0, 1.0)
    assert_mean(centred**2, 1.0, 2.0)


def test_waveform_means_and_variances():
    X, y = make_waveform(60_000, random_state=0)
    tent = [0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0]
    peak_7 = np.array(tent + 8 * [0])
    peak_11 = np.array(4 * [0] + tent + 4 * [0])
    peak_15 = np.array(8 * [0] + tent)
    for label, (a, b) in enumerate([(peak_7, peak_15), (peak_7, peak_11), (peak_15, peak_11)]):
        rows = X[y == label]
        assert_mean(y == label, 1 / 3, 2 / 9)
        # var(u) = 1/12 and the noise adds 1
        variance = (a - b) ** 2 / 12 + 1
        mean = (a + b) / 2
        assert_mean(rows, mean, variance)
        # fourth central moments: ((a - b)^4 / 80) + 6 (a - b)^2 / 12 + 3
        fourth = (a - b) ** 4 / 80 + (a - b) ** 2 / 2 + 3
        assert_mean((rows - mean) ** 2, variance, fourth - variance**2)


def test_waveform_mixes_with_one_uniform_number_per_row():
    # along a - b the mixture is uniform, so neighbouring features move together
    X, y = make_waveform(60_000, random_state=0)
    rows = X[y == 0]  # peaks at t = 7 and 15, which do not overlap there: cov = -6 * 6 / 12
    covariance = np.cov(rows[:, 6], rows[:, 14])[0, 1]
    assert covariance == pytest.approx(-3.0, abs=6 * 6 / np.sqrt(len(rows)))


@pytest.mark.parametrize("make", DRAWS)
@pytest.mark.parametrize("n", [2, 7, 100])
def test_the_draws_of_the_bayesian_paper_are_balanced_and_shuffled(make, n):
    y = make(n, random_state=0)[1]
    assert y.sum() == n // 2
    if n == 100:
        assert 5 < y[:50].sum() < 45


def test_overlap_follows_its_law():
    X, y = make_overlap(40_000, random_state=0)
    for label, centre in [(1, 1.0), (0, -1.0)]:
        rows = X[y == label] - [0.0, centre]
        assert_mean(rows, 0.0, np.array([1.5, 0.5]))
        assert_mean(rows**2, [1.5, 0.5], 2 * np.array([1.5, 0.5]) ** 2)
    error = norm.cdf(-np.sqrt(2))  # of the line between the centres
    assert_mean((X[:, 1] > 0) != (y == 1), error, error * (1 - error))


def test_bumpy_follows_its_law():
    X, y = make_bumpy(40_000, random_state=0)
    for label, variance in [(1, np.array([4.0, 0.16])), (0, np.array([0.16, 4.0]))]:
        assert_mean(X[y == label], 0.0, variance)
        assert_mean(X[y == label] ** 2, variance, 2 * variance**2)


@pytest.mark.parametrize("n_irrelevant", [0, 1, 6])
def test_relevance_has_one_feature_that_matters(n_irrelevant):
    X, y = make_relevance(20_000, n_irrelevant=n_irrelevant, random_state=0)
    assert X.shape == (20_000, 1 + n_irrelevant)
    for label in (0, 1):
        rows = X[y == label]
        assert_mean(rows[:, 0], 3.0 * label - 1.5, 0.25)
        assert_mean((rows[:, 0] - 3.0 * label + 1.5) ** 2, 0.25, 2 * 0.25**2)
        assert_mean(rows[:, 1:], 0.0, 9.0)
        assert_mean(rows[:, 1:] ** 2, 9.0, 2 * 81.0)


def test_the_spiral_is_194_points_on_two_arms_that_mirror_each_other():
    X, y = make_spiral(random_state=0)
    assert X.shape == (194, 2) and y.dtype == np.int64
    np.testing.assert_array_equal(np.bincount(y), [97, 97])
    arms = [X[y == label][np.argsort(-np.hypot(*X[y == label].T))] for label in (0, 1)]
    np.testing.assert_allclose(arms[0], -arms[1], atol=1e-12)
    i = np.arange(97)
    for arm in arms:
        np.testing.assert_allclose(np.hypot(*arm.T), 6.5 * (104 - i) / 104, rtol=1e-12)
        turn = np.diff(np.unwrap(np.arctan2(arm[:, 1], arm[:, 0])))
        np.testing.assert_allclose(np.abs(turn), np.pi / 16, rtol=1e-9)
    for again, first in zip(make_spiral(random_state=0), (X, y), strict=True):
        np.testing.assert_array_equal(again, first)


def test_ringnorm_labels_agree_with_the_ida_file(ida):
    for X, y in [make_ringnorm(5000, random_state=0), ida("ringnorm", return_X_y=True)]:
        ratio = X[y == 1].var(axis=0) / X[y == 0].var(axis=0)
        np.testing.assert_allclose(ratio, 4.0, atol=0.8)
        assert np.all(X[y == 0].mean(axis=0) > X[y == 1].mean(axis=0))


def test_twonorm_labels_agree_with_the_ida_file(ida):
    X, y = ida("twonorm", return_X_y=True)
    assert ((X.sum(axis=1) > 0) != (y == 1)).mean() == pytest.approx(norm.cdf(-2), abs=0.01)


def test_waveform_label_one_is_the_ida_class(ida):
    X, y = ida("waveform", return_X_y=True)
    contrast = X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)
    X, y = make_waveform(5000, random_state=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    ours = X[y == 1].mean(axis=0) - X[y != 1].mean(axis=0)
    np.testing.assert_allclose(ours, contrast, atol=0.2)


@pytest.mark.parametrize(
    ("name", "n", "d", "n_train"),
    [
        ("banana", 5300, 2, 400),
        ("breast_cancer", 277, 9, 200),
        ("diabetis", 768, 8, 468),
        ("flare_solar", 1066, 9, 666),
        ("german", 1000, 20, 700),
        ("heart", 270, 13, 170),
        ("image", 2310, 18, 1300),
        ("ringnorm", 7400, 20, 400),
        ("splice", 3175, 60, 1000),
        ("thyroid", 215, 5, 140),
        ("titanic", 2201, 3, 150),
        ("twonorm", 7400, 20, 400),
        ("waveform", 5000, 21, 400),
    ],
)
def test_every_ida_split_partitions_the_rows(ida, name, n, d, n_train):
    bunch = ida(name)
    assert bunch.data.shape == (n, d)
    assert np.isfinite(bunch.data).all()
    np.testing.assert_array_equal(np.unique(bunch.target), [0, 1])
    assert bunch.n_train == n_train
    assert bunch.train_idx.shape == (len(bunch.train_idx), n_train)
    assert bunch.test_idx.shape == (len(bunch.train_idx), n - n_train)
    for train, test in zip(bunch.train_idx, bunch.test_idx, strict=True):
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n))


@pytest.mark.parametrize(
    ("name", "n", "d", "d_onehot"),
    [
        ("chess", 3196, 36, 37),
        ("credit", 653, 15, 46),
        ("ionosphere", 351, 34, None),
        ("liver", 345, 6, None),
        ("sonar", 208, 60, None),
        ("wbc", 683, 9, None),
        ("wdbc", 569, 30, None),
    ],
)
def test_uci_sizes(uci, name, n, d, d_onehot):
    bunch = uci(name)
    assert bunch.data.shape == (n, d)
    np.testing.assert_array_equal(np.unique(bunch.target), [0, 1])
    if d_onehot is None:
        assert "data_onehot" not in bunch
    else:
        assert bunch.data_onehot.shape == (n, d_onehot)


@pytest.fixture
def small_folder(tmp_path, monkeypatch):
    """One IDA file of 200 rows without splits, and one UCI file with one-hot data."""
    X = np.arange(600.0).reshape(200, 3)
    y = (np.arange(200) % 2).astype(np.int8)
    np.savez(tmp_path / "ida_heart.npz", X=X, y=y)
    np.savez(tmp_path / "uci_credit.npz", X=X, y=y, X_onehot=np.eye(200))
    monkeypatch.setenv("FISHERKIT_DATA", str(tmp_path))
    return X, y


def test_a_bunch_describes_and_cites(small_folder):
    X, y = small_folder
    bunch = load_ida("heart")
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y)
    assert bunch.target.dtype == np.int64
    assert "heart: 200 rows, 3 features" in bunch.DESCR
    assert "Rätsch" in bunch.DESCR
    bunch = load_uci("credit")
    np.testing.assert_array_equal(bunch.data_onehot, np.eye(200))
    assert "UCI" in bunch.DESCR


def test_a_file_without_splits_gives_index_arrays_without_rows(small_folder):
    bunch = load_ida("heart")
    assert bunch.train_idx.shape == (0, 170)
    assert bunch.test_idx.shape == (0, 30)


@pytest.mark.parametrize(("load", "name"), [(load_ida, "heart"), (load_uci, "credit")])
def test_return_X_y_gives_a_plain_pair(small_folder, load, name):
    X, y = load(name, return_X_y=True)
    np.testing.assert_array_equal(X, small_folder[0])
    np.testing.assert_array_equal(y, small_folder[1])


@pytest.mark.parametrize("load", [load_ida, load_uci])
def test_an_unknown_name_lists_the_valid_ones(load):
    with pytest.raises(ValueError, match=r"name='iris' .* choose one of \w+, "):
        load("iris")


@pytest.mark.parametrize(
    ("load", "name", "near"),
    [
        (load_ida, "bannana", "banana"),
        (load_uci, "wdcb", "wdbc, wbc"),
        (load_ida, "Heart", "heart"),
    ],
)
def test_an_unknown_name_lists_the_nearest(load, name, near):
    with pytest.raises(ValueError, match=rf"name='{name}' is no \w+ set \(nearest: {near}\)"):
        load(name)


def test_a_missing_folder_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("FISHERKIT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="nowhere' is not a folder"):
        load_uci("wbc")
