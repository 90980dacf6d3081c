"""Row blocks give the model that memory gives, from any container and with any block size."""

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs

from fisherkit import KernelFisherClassifier, KernelRidgeCV
from fisherkit.core.bias import BIASES
from fisherkit.core.kernels import Distinct, Kernel
from fisherkit.core.weights import Weights
from fisherkit.rows.moments import Centres, FirstPass, Form, left_out
from fisherkit.rows.passes import SecondPass, _Pilot
from fisherkit.rows.planning import automatic_centres, memory_budget, plan
from fisherkit.rows.sources import Budget, LocalRows, Survey
from fisherkit.rows.sums import Block
from fisherkit.tuning.select import Status

N = 1200
SMALL = 600_000  # bytes: below what these fits take in memory


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    y = (np.sum(X[:, :3] ** 2, axis=1) + 0.7 * rng.normal(size=N) > 3).astype(int)
    return X, y


@pytest.fixture(scope="module")
def classes():
    X, y = make_blobs(N, 3, centers=4, cluster_std=3.0, random_state=1)
    return X / 4, np.array(["a", "b", "c", "d"])[y]


def pair(X, y, sample_weight=None, memory=SMALL, estimator=KernelFisherClassifier, **options):
    """The fit in memory and the one on row blocks."""
    options = {"gamma": 0.2, "basis": "random", "n_components": 60, "random_state": 0} | options
    whole = estimator(**options, max_memory="8GB").fit(X, y, sample_weight)
    blocks = estimator(**options, max_memory=memory).fit(X, y, sample_weight)
    assert whole.selection_.method == "centres"
    assert blocks.selection_.method == "streamed"
    return whole, blocks


def gap(a, b):
    return np.max(np.abs(a - b)) / np.max(np.abs(a))


def assert_same(whole, blocks, X, tolerance=1e-8):
    assert sorted(whole.basis_indices_) == sorted(blocks.basis_indices_)
    assert blocks.regularization_ == pytest.approx(whole.regularization_, rel=tolerance)
    assert whole.selection_.status is blocks.selection_.status
    if isinstance(whole, KernelRidgeCV):
        assert gap(whole.predict(X), blocks.predict(X)) < tolerance
        assert gap(whole.loo_prediction_, blocks.loo_prediction_) < tolerance
    else:
        assert gap(whole.decision_function(X), blocks.decision_function(X)) < tolerance
        assert gap(whole.predict_proba(X), blocks.predict_proba(X)) < tolerance
        assert gap(whole.transform(X), blocks.transform(X)) < tolerance
        assert gap(whole.loo_decision_, blocks.loo_decision_) < tolerance


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
def test_every_penalty_and_bias_agrees_with_memory(data, penalty, bias):
    X, y = data
    assert_same(*pair(X, y, penalty=penalty, bias=bias), X)


@pytest.mark.parametrize("criterion", ["press", "log_loss", "error", "smoothed_error"])
def test_every_criterion_chooses_the_same_mu(data, criterion):
    X, y = data
    assert_same(*pair(X, y, criterion=criterion, threshold="balanced"), X)


@pytest.mark.parametrize("multiclass", ["softmax", "lda", "ovr"])
def test_several_classes_agree_with_memory(classes, multiclass):
    X, y = classes
    options = {"multiclass": multiclass, "class_weight": "balanced", "criterion": "press"}
    whole, blocks = pair(X, y, **options)
    assert_same(whole, blocks, X)
    assert list(blocks.predict(X[:5])) == list(whole.predict(X[:5]))


@pytest.mark.parametrize("threshold", ["prior", "balanced"])
@pytest.mark.parametrize("bias", ["free", "penalized", "none"])
def test_the_calibrated_log_loss_of_every_row_agrees_with_memory(classes, bias, threshold):
    X, y = classes
    X = np.concatenate([np.sin(3 * X), X[:, :1] * X[:, 1:2]], axis=1)  # where some mu is best
    weight = np.random.default_rng(0).integers(1, 3, N).astype(float)
    options = {"bias": bias, "threshold": threshold, "n_components": 200, "memory": 3_200_000}
    whole, blocks = pair(X, y, weight, **options)
    assert whole.selection_.criterion == "log_loss"
    assert_same(whole, blocks, X, 1e-6)
    assert blocks.calibration_.ridge == whole.calibration_.ridge
    assert blocks.calibration_.log_loss == pytest.approx(whole.calibration_.log_loss, rel=1e-6)


def test_the_calibrated_log_loss_of_a_sample_is_about_that_of_all_rows(classes):
    X, y = classes
    whole, blocks = pair(X, y, memory=1_800_000)
    assert blocks.selection_.value == pytest.approx(whole.selection_.value, rel=0.5)
    assert_same(*pair(X, y, memory=1_800_000, regularization=1.0), X)


@pytest.mark.parametrize("multiclass", ["lda", "ovr"])
@pytest.mark.parametrize("seed", range(3))
def test_kinks_between_several_classes_are_resolved(multiclass, seed):
    X, y = make_blobs(N, 3, centers=4, cluster_std=3.0, random_state=seed)
    weight = np.random.default_rng(seed).integers(1, 3, N).astype(float)
    options = {"criterion": "smoothed_error", "multiclass": multiclass}
    assert_same(*pair(X / 4, y, weight, **options), X / 4)


@pytest.mark.parametrize("gamma", ["median", "scale"])
def test_widths_by_rules_of_thumb_are_those_of_memory(gamma):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3)) * [1, 2, 5]
    y = (X[:, 0] * X[:, 1] + rng.normal(size=4000) > 0).astype(int)
    assert_same(*pair(X, y, memory=6_000_000, gamma=gamma), X)


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_weights_count_copies_and_zero_is_absence(data, penalty):
    X, y = data
    weight = np.random.default_rng(1).integers(0, 4, N).astype(float)
    weight[7] = 0.3
    whole, blocks = pair(X, y, weight, penalty=penalty, class_weight={0: 2.0, 1: 1.0})
    assert_same(whole, blocks, X)


def test_regression_with_several_outputs_agrees_with_memory(data):
    X, _ = data
    Y = np.stack([np.sin(X[:, 0]), X[:, 1] ** 2], axis=1)
    Y += 0.1 * np.random.default_rng(0).normal(size=Y.shape)
    assert_same(*pair(X, Y, estimator=KernelRidgeCV, gamma="scale"), X)


@pytest.mark.parametrize("memory", [300_000, 1_000_000, 1_800_000])
def test_block_size_does_not_matter(data, memory):
    X, y = data
    assert_same(*pair(X, y, memory=memory), X, 1e-9)


def test_centres_can_be_named(data):
    X, y = data
    options = {"basis": np.arange(5, 1000, 20), "n_components": None}
    assert_same(*pair(X, y, memory=400_000, **options), X)


def test_pivots_are_those_of_memory_while_all_rows_compete(data):
    X, y = data
    whole, blocks = pair(X, y, basis="pivoted", memory=2_000_000 // 4)
    assert blocks.selection_.rank == 60
    assert blocks.selection_.value == pytest.approx(whole.selection_.value, rel=0.02)


def test_a_given_mu_is_used_as_it_is(data):
    X, y = data
    whole, blocks = pair(X, y, regularization=0.5)
    assert blocks.selection_.status is Status.GIVEN
    assert_same(whole, blocks, X)


def test_residuals_that_memory_does_not_hold_are_swept_for(data, monkeypatch):
    X, y = data
    monkeypatch.setattr(LocalRows, "keep_bytes", 0.0)
    assert_same(*pair(X, y), X)


def test_a_pilot_that_misleads_costs_a_pass_but_no_accuracy(data, monkeypatch):
    X, y = data
    monkeypatch.setattr("fisherkit.rows.passes._Pilot.window", lambda self, search: (-14.0, -13.0))
    assert_same(*pair(X, y), X)


# --- containers -----------------------------------------------------------------------------------


def containers(X, folder):
    import pandas as pd

    np.save(folder / "X.npy", X)
    single = np.lib.format.open_memmap(folder / "X.npy", mode="r")
    return {
        "memmap": single,
        "fortran": np.asfortranarray(X),
        "csr": scipy.sparse.csr_matrix(X),
        "coo": scipy.sparse.coo_array(X),
        "pandas": pd.DataFrame(X, columns=list("abcd")),
    }


@pytest.mark.parametrize("kind", ["memmap", "fortran", "csr", "coo", "pandas"])
def test_containers_agree(data, tmp_path, kind):
    X, y = data
    whole, _ = pair(X, y)
    container = containers(X, tmp_path)[kind]
    blocks = KernelFisherClassifier(
        gamma=0.2, basis="random", n_components=60, random_state=0, max_memory=SMALL
    ).fit(container, y)
    assert blocks.selection_.method == "streamed"
    assert gap(whole.loo_decision_, blocks.loo_decision_) < 1e-8
    assert gap(whole.decision_function(X), blocks.decision_function(container)) < 1e-8


def test_polars_frames_agree(data):
    pl = pytest.importorskip("polars", reason="polars frames are one of the containers")
    X, y = data
    whole, _ = pair(X, y)
    blocks = KernelFisherClassifier(
        gamma=0.2, basis="random", n_components=60, random_state=0, max_memory=SMALL
    ).fit(pl.DataFrame(X, schema=list("abcd")), y)
    assert gap(whole.loo_decision_, blocks.loo_decision_) < 1e-8


def test_a_sparse_matrix_that_fits_is_fitted_in_memory(data):
    X, y = data
    sparse = KernelFisherClassifier(gamma=0.2).fit(scipy.sparse.csr_matrix(X[:200]), y[:200])
    dense = KernelFisherClassifier(gamma=0.2).fit(X[:200], y[:200])
    np.testing.assert_array_equal(sparse.loo_decision_, dense.loo_decision_)


def test_single_precision_rows_are_widened_block_by_block(data):
    X, y = data
    X = X.astype(np.float32)
    whole, blocks = pair(X, y)
    assert_same(whole, blocks, X, 1e-6)
    assert gap(whole.loo_decision_, blocks.loo_decision_) < 1e-8
    assert blocks.decision_function(X).dtype == np.float32


def test_integers_need_no_copy(data):
    X, y = data
    X = np.round(40 * X + 128).astype(np.uint8)
    assert_same(*pair(X, y, gamma=0.2 / 40**2), X)


@pytest.mark.skipif(
    os.environ.get("SCIPY_ARRAY_API") != "1",
    reason="array dispatch needs SCIPY_ARRAY_API=1 set before SciPy is imported",
)
def test_torch_rows_stay_torch(data):
    torch = pytest.importorskip("torch", reason="torch stands in for a GPU here")
    from sklearn import config_context

    X, y = data
    whole, _ = pair(X, y)
    with config_context(array_api_dispatch=True):
        blocks = KernelFisherClassifier(
            gamma=0.2, basis="random", n_components=60, random_state=0, max_memory=SMALL
        ).fit(torch.asarray(X), torch.asarray(y))
        decision = blocks.decision_function(torch.asarray(X))
    assert isinstance(decision, torch.Tensor)
    assert isinstance(blocks.dual_coef_, torch.Tensor)
    assert blocks.selection_.method == "streamed"
    assert gap(whole.decision_function(X), decision.numpy()) < 1e-8
    assert gap(whole.loo_decision_, blocks.loo_decision_.numpy()) < 1e-8


# --- the parts ------------------------------------------------------------------------------------


def test_the_survey_draws_what_memory_draws(data):
    X, _ = data
    X = np.concatenate([X, X[:50]])
    n = len(X)
    chances = np.random.default_rng(0).uniform(0.5, 2, n)
    rows = LocalRows(X, np.zeros((n, 1)), chances, np.ones(n), Budget(1 << 20))
    survey = Survey(40, 3, 4, 1, rows.describe)
    drawn = survey.drawn(rows.sweep(survey))
    np.testing.assert_array_equal(drawn.index, Distinct.rows(X).draw(chances, 40, 3))


def test_the_survey_measures_all_rows(data):
    X, _ = data
    rows = LocalRows(X, np.zeros((N, 1)), np.ones(N), np.ones(N), Budget(400_000))
    seen = rows.sweep(Survey(10, 0, 4, 1, rows.describe))
    assert seen.rows == N
    assert seen.variance == pytest.approx(X.var(), rel=1e-12)
    np.testing.assert_array_equal(seen.highest, X.max(axis=0))


@pytest.mark.parametrize("gamma", [1e-3, 0.05, 5.0])
def test_moments_are_those_of_the_features_however_many_pivots_are_solved_for(data, gamma):
    X, _ = data
    kernel = Kernel("rbf", gamma=gamma)
    centres = Centres.of(kernel, X[:40], np.ones(40), "rkhs")
    block = Block(X, np.ones((N, 1)), Weights.unit(X), np.arange(N))
    step = FirstPass(centres, None, 1)
    sums = step.begin()
    step.add(sums, block)
    upper = np.triu(sums.features.second)
    G = centres.finish(centres.finish(upper + np.triu(upper, 1).T).T)
    Z = np.linalg.solve(centres.corner, kernel.block(X, centres.X).T).T
    assert gap(Z.T @ Z, G) < 1e-9


@pytest.fixture(scope="module", params=["free", "penalized", "none"])
def form(request, data):
    """A canonical form from moments, and the rows, of three targets and uneven weights."""
    X, _ = data
    rng = np.random.default_rng(2)
    weights = Weights(rng.integers(1, 4, N).astype(float), rng.choice([0.5, 1.0, 2.0], N))
    block = Block(X, np.eye(3)[rng.integers(0, 3, N)], weights, np.arange(N))
    centres = Centres.of(Kernel("rbf", gamma=0.2), X[:40], np.ones(40), "rkhs")
    step = FirstPass(centres, None, 3)
    sums = step.begin()
    step.add(sums, block)
    return Form.of(step, sums, BIASES[request.param], smallest=1e-6), block


def test_training_errors_follow_from_the_moments(form):
    form, block = form
    mus = [1e-3, 0.1, 10.0]
    e, B = form.residuals(form.coordinates(block.X), block, mus)
    direct = block.weights.v @ np.sum(e * e, axis=1) / block.weights.mass
    assert form.training_errors(mus) == pytest.approx(direct, rel=1e-10)
    assert form.mean_complements(mus) == pytest.approx(B.mean(axis=0), abs=0.05)


def test_derivatives_of_left_out_residuals_agree_with_differences(form):
    form, block = form
    t, h = np.log(0.3), 1e-4

    def at(t):
        e, B = form.residuals(form.coordinates(block.X), block, [np.exp(t)])
        return left_out(e, B, block.weights)[:, :, 0]

    r, r1, r2 = form.left_out_derivatives(form.coordinates(block.X), block, float(np.exp(t)))
    assert gap(at(t), r) < 1e-13
    assert gap((at(t + h) - at(t - h)) / (2 * h), r1) < 1e-7
    assert gap((at(t + h) - 2 * at(t) + at(t - h)) / h**2, r2) < 1e-5


@pytest.mark.parametrize("rule", ["press", "smoothed_error"])
def test_a_pilot_of_all_rows_knows_the_prices(form, rule):
    form, block = form
    block = Block(block.X, block.Y, Weights.unit(block.X), block.index)
    step = FirstPass(form.centres, None, 3)
    sums = step.begin()
    step.add(sums, block)
    form = Form.of(step, sums, form.bias, smallest=1e-6)
    mus = (0.01, 1.0, 100.0)
    second = SecondPass(form, rule, False, mus, len(mus))
    tally = second.begin()
    second.add(tally, block)
    parts = [block.rows(slice(0, N // 2)), block.rows(slice(N // 2, N))]
    pilot = _Pilot(second, 0.0, [(form.coordinates(b.X), b) for b in parts])
    assert pilot.values(mus) == pytest.approx(tally.sums / tally.weight, rel=1e-10)


def test_a_plan_says_what_and_why():
    chosen = plan(10**6, 20, 0, "auto", None, 10**9)
    assert chosen.streamed and chosen.basis == "pivoted"
    assert str(chosen.n_components) in chosen.reason and "1000000 rows" in chosen.reason
    assert not plan(1000, 20, 0, "auto", None, 10**9).streamed
    assert automatic_centres(10**6, 10**12) == 2000


@pytest.mark.parametrize(
    ("value", "bytes_"), [("2GB", 2 << 30), ("512 MB", 512 << 20), (12345, 12345), ("1.5kb", 1536)]
)
def test_budgets_are_numbers_or_texts(value, bytes_):
    assert memory_budget(value, np.empty(0)) == bytes_


# --- bad input ------------------------------------------------------------------------------------


def small_fit(X, y, **options):
    options = {"gamma": 0.2, "basis": "random", "n_components": 60, "max_memory": SMALL} | options
    return KernelFisherClassifier(**options).fit(X, y)


@pytest.mark.parametrize("value", [0, -1, "2 parsecs", True, "GB"])
def test_a_budget_that_is_none_is_refused(data, value):
    with pytest.raises(ValueError, match="max_memory="):
        small_fit(*data, max_memory=value)


def test_a_budget_smaller_than_a_block_is_refused(data):
    with pytest.raises(ValueError, match="smaller than one block"):
        small_fit(*data, max_memory=1000)


def test_nan_in_a_distant_block_is_named(data):
    X, y = data
    X = X.copy()
    X[1111, 2] = np.nan
    with pytest.raises(ValueError, match="NaN in row 1111, column 2"):
        small_fit(X, y)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_column_of_text_is_named(data, library):
    frames = pytest.importorskip(library, reason="frames of this library are one of the containers")
    X, y = data
    columns = dict(zip("abcd", X.T, strict=True)) | {"town": ["x"] * N, "even": [True, False] * 600}
    with pytest.raises(ValueError, match="column 'town' has dtype"):
        small_fit(frames.DataFrame(columns), y)


def test_more_centres_than_rows_are_refused(data):
    with pytest.raises(ValueError, match="n_components=5000 is more than the 1200"):
        small_fit(*data, n_components=5000)


@pytest.mark.parametrize(
    ("option", "message"),
    [({"cv": 5}, "cv=5"), ({"criterion": lambda y, d, w: 0.0}, "a callable needs every decision")],
)
def test_what_needs_all_rows_at_once_is_refused_before_they_are_read(data, option, message):
    with pytest.raises(ValueError, match=message):
        small_fit(*data, **option)


def test_what_needs_the_rows_later_says_so(data):
    X, y = data
    model = small_fit(X, y)
    with pytest.raises(ValueError, match="has read them in blocks"):
        model.predict_set(X[:3])


def test_an_interrupted_fit_leaves_nothing_that_predicts(data, monkeypatch):
    from sklearn.exceptions import NotFittedError

    X, y = data
    model = clone(small_fit(X, y))
    calls = []

    def interrupt(self, sums, block):
        calls.append(block)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("fisherkit.rows.moments.FirstPass.add", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X[:2])


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_every_thread_and_leaves_nothing_that_predicts(data, monkeypatch):
    from sklearn.exceptions import NotFittedError

    X, y = data
    before, add, waiting = threading.enumerate(), FirstPass.add, threading.Semaphore(1)

    def interrupted(self, sums, block):
        if waiting.acquire(blocking=False):
            os.kill(os.getpid(), signal.SIGINT)  # a worker sends it, the main thread gets it
        add(self, sums, block)

    monkeypatch.setattr(FirstPass, "add", interrupted)
    monkeypatch.setattr("fisherkit.rows.sources.blas_threads", lambda: 2)
    model = KernelFisherClassifier(gamma=0.2, basis="random", n_components=60, max_memory=SMALL)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    for _ in range(300):  # one that was just being started ends after its block
        if set(threading.enumerate()) <= set(before):
            break
        time.sleep(0.1)
    assert set(threading.enumerate()) <= set(before)
    with pytest.raises(NotFittedError):
        model.predict(X[:2])


def test_copies_of_rows_do_not_crowd_others_out_of_the_race():
    rng = np.random.RandomState(0)
    X = rng.randint(0, 16, (40_000, 2)).astype(float)
    truth = ((X[:, 0] // 2 + X[:, 1] // 2) % 2) > 0
    y = (rng.rand(len(X)) < np.where(truth, 0.9, 0.1)).astype(int)
    options = dict(basis="random", n_components=100, gamma=1.0, random_state=0)
    small = KernelFisherClassifier(max_memory="5MB", **options).fit(X, y)
    large = KernelFisherClassifier(max_memory="2GB", **options).fit(X, y)
    assert small.selection_.method == "streamed" != large.selection_.method
    np.testing.assert_allclose(
        small.decision_function(X[:100]), large.decision_function(X[:100]), rtol=1e-6, atol=1e-8
    )


def test_more_centres_than_different_rows_are_no_error():
    X = np.repeat(np.arange(8.0)[:, None], 500, axis=0)
    y = (X[:, 0] > 3).astype(int)
    y[0] = 1
    options = dict(basis="random", n_components=60, gamma=1.0, random_state=0)
    model = KernelFisherClassifier(max_memory="1MB", **options).fit(X, y)
    assert model.score(X, y) > 0.99


def test_a_row_of_weight_zero_must_hold_numbers_too():
    rng = np.random.RandomState(0)
    X, y, w = rng.randn(3000, 5), np.arange(3000) % 2, np.ones(3000)
    X[2900, 3], w[2900] = np.nan, 0
    with pytest.raises(ValueError, match="row 2900"):
        KernelFisherClassifier(basis="random", n_components=60, gamma=0.2, max_memory="5MB").fit(
            X, y, sample_weight=w
        )


def test_an_interrupted_refit_leaves_the_model_before_it_whole(monkeypatch):
    rng = np.random.RandomState(0)
    X = rng.randn(80, 2)
    y = (X[:, 0] > 0).astype(int)
    model = KernelFisherClassifier().fit(X, y)
    before = model.predict(X)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("fisherkit.rows.fits.tune", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, np.where(y, "b", "a"))
    np.testing.assert_array_equal(model.predict(X), before)


def test_frames_of_several_number_types_are_read_in_blocks():
    rng = np.random.RandomState(0)
    X = rng.randn(3000, 3)
    y = (X[:, 0] > 0).astype(int)
    frame = pd.DataFrame(X, columns=list("abc")).assign(c=X[:, 2] > 0)
    frame["b"] = frame["b"].astype("Float64")
    options = dict(basis="random", n_components=40, gamma=0.2, random_state=0)
    small = KernelFisherClassifier(max_memory="2MB", **options).fit(frame, y)
    large = KernelFisherClassifier(max_memory="2GB", **options).fit(frame, y)
    assert small.selection_.method == "streamed"
    np.testing.assert_allclose(small.loo_decision_, large.loo_decision_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("value", [float("inf"), "infGB", 0, -1, "lots", True])
def test_memory_that_is_no_number_of_bytes_is_refused(value):
    X = np.arange(20.0)[:, None]
    with pytest.raises(ValueError, match="max_memory"):
        KernelFisherClassifier(max_memory=value).fit(X, np.arange(20) % 2)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_a_fit_on_few_centres_takes_sums_over_rows_and_keeps_what_sets_need(
    penalty, n_classes, monkeypatch
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=1200), [0, 0.4][: n_classes - 1])
    w = (np.arange(1200) % 7 != 0).astype(float)
    options = dict(basis=1 + 7 * np.arange(30), gamma=0.3, penalty=penalty)
    fits = []
    for least in (1, 1 << 40):
        monkeypatch.setattr("fisherkit.rows.planning.SUMS", least)
        model = KernelFisherClassifier(**options).fit(X, y, sample_weight=w)
        ridge = KernelRidgeCV(**options).fit(X, X[:, 1])
        fits.append((model, ridge))
    (sums, sums_ridge), (matrix, matrix_ridge) = fits
    assert sums.selection_.method == "streamed" and "sums" in sums.selection_.reason
    assert matrix.selection_.method == "centres" and not matrix.selection_.reason
    assert sums.regularization_ == pytest.approx(matrix.regularization_, rel=1e-6)
    assert gap(sums.loo_decision_, matrix.loo_decision_) < 1e-8
    assert gap(sums.decision_function(X), matrix.decision_function(X)) < 1e-8
    np.testing.assert_array_equal(sums.predict_set(X[:100]), matrix.predict_set(X[:100]))
    for one, other in zip(
        sums_ridge.predict_interval(X[:50]), matrix_ridge.predict_interval(X[:50]), strict=True
    ):
        assert gap(one, other) < 1e-7


def test_a_fit_with_folds_keeps_its_matrix_however_tall(monkeypatch):
    monkeypatch.setattr("fisherkit.rows.planning.SUMS", 1)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] > 0).astype(int)
    model = KernelFisherClassifier(basis="random", n_components=20, gamma=0.3, cv=3).fit(X, y)
    assert model.selection_.method == "centres"


@pytest.fixture
def by_sums(monkeypatch):
    monkeypatch.setattr("fisherkit.rows.planning.SUMS", 1)


@pytest.mark.parametrize("given", [False, True])
def test_the_width_of_a_fit_by_sums_is_that_for_the_centres_asked_for(given, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.3 * rng.normal(size=4000)
    centres = dict(basis=np.arange(30)) if given else dict(n_components=30, random_state=0)
    fits = []
    for least in (1, 1 << 40):
        monkeypatch.setattr("fisherkit.rows.planning.SUMS", least)
        fits.append(KernelRidgeCV(**centres).fit(X, y))
    sums, matrix = fits
    assert sums.selection_.method == "streamed" and matrix.selection_.method == "centres"
    assert sums.gamma_ == pytest.approx(matrix.gamma_, rel=0.5)
    assert sums.selection_.value <= 1.02 * matrix.selection_.value


@pytest.mark.usefixtures("by_sums")
@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_sums_refuse_kernels_that_are_not_positive_on_the_centres(penalty):
    X = np.random.default_rng(0).normal(size=(600, 3))
    y = (X[:, 0] > 0).astype(int)
    model = KernelFisherClassifier("sigmoid", gamma=0.3, basis=np.arange(30), penalty=penalty)
    with pytest.raises(ValueError, match="positive semi-definite"):
        model.fit(X, y)


@pytest.mark.usefixtures("by_sums")
@pytest.mark.parametrize("kind", ["texts", "frame", "categories"])
def test_numbers_that_memory_converts_are_converted_however_many_rows_there_are(kind):
    X = np.random.default_rng(0).normal(size=(600, 3)).round(3)
    y = (X[:, 0] > 0).astype(int)
    frame = pd.DataFrame(X, columns=list("abc"))
    converted = {
        "texts": X.astype(str),
        "frame": frame.astype(object),
        "categories": frame.assign(a=pd.Categorical(frame["a"])),
    }[kind]
    options = dict(gamma=0.3, basis=np.arange(30))
    model = KernelFisherClassifier(**options).fit(converted, y)
    plain = KernelFisherClassifier(**options).fit(X, y)
    assert gap(plain.loo_decision_, model.loo_decision_) < 1e-8


@pytest.mark.usefixtures("by_sums")
def test_sums_refuse_what_memory_refuses_in_its_words():
    X = np.random.default_rng(0).normal(size=(600, 3))
    y = (X[:, 0] > 0).astype(float)
    model = KernelFisherClassifier(gamma=0.3, basis=np.arange(30))
    with pytest.raises(ValueError, match="Input y contains NaN"):
        model.fit(X, np.where(np.arange(600) == 3, np.nan, y))
    huge = X.copy()
    huge[7, 1] = -1e200
    for kernel in ("rbf", "linear"):
        with pytest.raises(ValueError, match=r"X has values of size 1e\+200, whose squares"):
            clone(model).set_params(kernel=kernel).fit(huge, y)


@pytest.mark.parametrize("penalty", ["rkhs", "coefficients"])
def test_targets_far_from_zero_are_fitted_as_those_about_it(penalty):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = np.c_[X[:, 0] + 0.1 * rng.normal(size=2000), np.sin(X[:, 1])]
    w = rng.integers(0, 3, size=2000)
    w[:50] = 1
    options = dict(gamma=0.3, basis=np.arange(50), penalty=penalty, max_memory=SMALL)
    near = KernelRidgeCV(**options).fit(X, y, sample_weight=w)
    far = KernelRidgeCV(**options).fit(X, y + 1e9, sample_weight=w)
    assert near.selection_.method == far.selection_.method == "streamed"
    assert far.regularization_ == pytest.approx(near.regularization_, rel=1e-3)
    np.testing.assert_allclose(far.predict(X) - 1e9, near.predict(X), atol=1e-4)
    np.testing.assert_allclose(far.loo_prediction_ - 1e9, near.loo_prediction_, atol=1e-4)
