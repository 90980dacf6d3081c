"""How kernel parameters are learned: climbs, hyper-prior, relevance, and the two EM algorithms."""

import logging

import em
import numpy as np
import oracles
import pytest
from oracles import gap
from scipy.stats import multivariate_normal
from sklearn.metrics import roc_auc_score

from fisherkit import BayesianFisherClassifier
from fisherkit.bayes import learning
from fisherkit.bayes.climb import Climb, Ending, maximise, promising
from fisherkit.bayes.evidence import Contrasts, Dense, Thin
from fisherkit.bayes.learning import (
    Sample,
    TiedPrior,
    learn_relevance,
    marginal,
    score,
    score_on_inducing,
)
from fisherkit.core.canonical import NotPositiveError
from fisherkit.core.covariance import Parametric
from fisherkit.core.ridge import RidgePath
from fisherkit.core.weights import Weights
from fisherkit.datasets import make_bumpy, make_overlap, make_relevance, make_waveform

CLASSES = pytest.mark.parametrize("n_classes", [2, 3])
BOX = np.array([[-5.0, 5.0], [-5.0, 5.0]])


def hill(centre, height=0.0):
    """-1/2 |theta - centre|_Q^2 and its gradient."""
    Q = np.array([[3.0, 1.0], [1.0, 2.0]])

    def objective(theta):
        z = theta - np.asarray(centre)
        return height - 0.5 * z @ Q @ z, -Q @ z

    return objective


def two_hills(theta):
    """A high, narrow maximum at (3, 3) and a low, wide one at (-2, -2)."""
    value, slope = 0.0, np.zeros(2)
    for centre, height, width in [((3.0, 3.0), 5.0, 1.0), ((-2.0, -2.0), 2.0, 2.0)]:
        z = (theta - np.array(centre)) / width
        bump = height * np.exp(-0.5 * z @ z)
        value, slope = value + bump, slope - bump * z / width
    return value, slope


def sample_of(X, y, U=None):
    ones = np.ones(X.shape[1])
    return Sample(X, 0 * ones, ones, X.std(axis=0), oracles.indicators(y), Weights.unit(X), U)


def contrasts_of(y, frequency=None):
    frequency = np.ones(len(y)) if frequency is None else frequency
    return Contrasts.of(oracles.indicators(y), Weights(frequency, np.ones(len(y))))


# --- climbs ---------------------------------------------------------------------------------------


def test_a_climb_ends_at_the_top():
    (climb,) = maximise(hill([1.0, -2.0], 7.0), [np.zeros(2)], BOX)
    np.testing.assert_allclose(climb.theta, [1.0, -2.0], atol=1e-2)
    assert climb.value == pytest.approx(7.0, abs=1e-4)
    assert climb.ending is Ending.CONVERGED
    np.testing.assert_array_equal(climb.start, 0.0)


def test_the_best_of_several_starts_comes_first_and_goes_on_alone():
    starts = [np.array([-1.9, -2.1]), np.array([2.0, 2.0]), np.array([4.5, -4.5])]
    climbs = maximise(two_hills, starts, BOX)
    assert len(climbs) == 3
    np.testing.assert_allclose(climbs[0].theta, [3.0, 3.0], atol=2e-2)
    np.testing.assert_array_equal(climbs[0].start, starts[1])
    values = [climb.value for climb in climbs]
    assert values == sorted(values, reverse=True)


def test_a_top_beyond_the_bounds_is_said_to_be_there():
    (climb,) = maximise(hill([9.0, 0.0]), [np.zeros(2)], BOX)
    assert climb.theta[0] == 5.0 and climb.ending is Ending.AT_BOUND


def test_starts_outside_the_bounds_are_moved_to_them():
    (climb,) = maximise(hill([1.0, 1.0]), [np.array([50.0, -50.0])], BOX)
    np.testing.assert_array_equal(climb.start, [5.0, -5.0])
    assert climb.ending is Ending.CONVERGED


def banana(theta):
    """Rosenbrock's valley, upside down: more than five iterations from anywhere."""
    x, z = theta
    rise = np.array([2 * (1 - x) + 400 * x * (z - x**2), -200 * (z - x**2)])
    return -((1 - x) ** 2) - 100 * (z - x**2) ** 2, rise


def test_a_climb_out_of_iterations_says_so():
    (climb,) = maximise(banana, [np.array([-2.0, 2.0])], BOX, max_iter=3)
    assert climb.ending is Ending.EXHAUSTED


def test_losers_that_were_still_climbing_are_screened():
    starts = [np.array([-2.0, 2.0]), np.array([0.9, 0.8]), np.array([-1.5, 3.0])]
    best, *losers = maximise(banana, starts, BOX)
    assert best.ending is Ending.CONVERGED
    assert {loser.ending for loser in losers} == {Ending.SCREENED}
    assert best.evaluations > max(loser.evaluations for loser in losers)


def test_promising_points_are_the_highest_of_the_grid():
    grid = [np.array([x]) for x in (-3.0, 1.0, 0.0, 5.0)]
    chosen = promising(lambda theta: -abs(theta[0]), grid, 2)
    np.testing.assert_array_equal(np.ravel(chosen), [0.0, 1.0])
    assert len(promising(lambda theta: 0.0, grid, 9)) == 4


def test_a_climb_that_cannot_rise_says_so():
    """A wall that the line search cannot see, and a plateau, are no maxima."""

    def wall(theta):
        if np.any(theta != 1.0):
            raise NotPositiveError("rounding")
        return 0.0, np.full(2, 50.0)

    assert maximise(wall, [np.ones(2)], BOX)[0].ending is Ending.STALLED
    flat = maximise(lambda theta: (0.0, np.zeros(2)), [np.ones(2)], BOX)[0]
    assert flat.ending is Ending.FLAT


def test_every_ending_is_a_sentence_and_every_climb_is_logged(caplog):
    assert all(len(ending.value.split()) > 5 for ending in Ending)
    with caplog.at_level(logging.INFO):
        maximise(hill([0.0, 0.0]), [np.ones(2)], BOX)
    assert "objective" in caplog.text and "converged" in caplog.text


# --- the hyper-prior ------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_the_prior_integrates_to_one(spread):
    prior = TiedPrior.of(Parametric(1), 4, spread)
    grid = np.linspace(-30, 30, 121)
    total = sum(np.exp(prior(np.array([a, b]))[0]) for a in grid for b in grid)
    assert total * (grid[1] - grid[0]) ** 2 == pytest.approx(1.0, abs=1e-9)


def test_the_prior_is_one_common_weight_plus_a_deviation_for_each_feature():
    prior = TiedPrior.of(Parametric(3, linear=True), 3, 2.0)
    covariance = np.diag([9.0, 9.0, 4.0, 4.0, 4.0])
    covariance[2:, 2:] += 2.25
    mean = [0.0, 0.0, *[np.log(0.5 / 3)] * 3]
    theta = np.array([0.3, -1.0, 0.2, 1.4, -2.0])
    truth = multivariate_normal(mean, covariance).logpdf(theta)
    assert prior(theta)[0] == pytest.approx(truth, abs=1e-12)


def test_the_gradient_of_the_prior_equals_differences():
    prior = TiedPrior.of(Parametric(3), 3, 0.7)
    theta = np.array([0.3, 0.2, 1.4, -2.0])
    truth = oracles.slope_by_differences(lambda t: prior(t)[0], theta)
    np.testing.assert_allclose(prior(theta)[1], truth, atol=1e-8)


def test_the_prior_on_top_adds_values_and_gradients():
    prior = TiedPrior.of(Parametric(1), 2, 0.5)
    theta = np.array([0.4, -0.2])
    value, slope = prior.on_top_of(hill([1.0, 2.0]))(theta)
    assert value == pytest.approx(hill([1.0, 2.0])(theta)[0] + prior(theta)[0])
    np.testing.assert_allclose(slope, hill([1.0, 2.0])(theta)[1] + prior(theta)[1])


def test_laplace_is_exact_for_a_gaussian():
    prior = TiedPrior.of(Parametric(1), 2, 0.5)
    evidence = hill([1.0, -1.0], height=-4.0)
    objective = prior.on_top_of(evidence)
    (climb,) = maximise(objective, [np.zeros(2)], np.array([[-14.0, 14.0]] * 2))
    grid = np.linspace(-10, 10, 161)
    values = np.array([[objective(np.array([a, b]))[0] for b in grid] for a in grid])
    truth = np.log(np.exp(values).sum() * (grid[1] - grid[0]) ** 2)
    assert marginal(evidence, climb, prior) == pytest.approx(truth, abs=1e-3)
    top = np.linalg.solve(
        np.array([[3.0, 1.0], [1.0, 2.0]]) + prior.precision, objective(np.zeros(2))[1]
    )
    exact = Climb(top, top, objective(top)[0], 1, Ending.CONVERGED)
    assert marginal(evidence, exact, prior) == pytest.approx(truth, abs=1e-8)

    def half(theta):  # the evidence of half of the rows
        return tuple(0.5 * part for part in evidence(theta))

    assert marginal(half, exact, prior, share=0.5) == pytest.approx(truth, abs=1e-8)


def test_a_direction_that_the_evidence_does_not_curve_counts_as_the_prior():
    """An evidence that says nothing leaves the integral of the prior: one."""
    prior = TiedPrior.of(Parametric(1), 2, 0.5)

    def valley(theta):  # curved the wrong way
        return 0.01 * theta @ theta, 0.02 * theta

    for evidence in (lambda theta: (0.0, np.zeros(2)), valley):
        climb = Climb(prior.mean, prior.mean, prior(prior.mean)[0], 1, Ending.CONVERGED)
        assert marginal(evidence, climb, prior) == pytest.approx(0.0, abs=1e-9)


# --- relevance ------------------------------------------------------------------------------------


def learned(X, y, spread=None):
    sample = sample_of((X - X.mean(axis=0)) / X.std(axis=0), y)
    d = X.shape[1]
    starts = [np.array([0.0, np.log(w / d)]) for w in (0.1, 1.6)]
    single, many = Parametric(1), Parametric(d)
    return learn_relevance(sample, "fisher", single, many, starts, spread=spread)


def test_a_part_of_the_rows_gives_about_the_curvature_of_all(monkeypatch):
    X, y = make_waveform(400, random_state=0)
    whole = learned(X[:, 5:13], y % 2).spreads
    monkeypatch.setattr(learning, "_CURVATURE_ROWS", 300)
    part = learned(X[:, 5:13], y % 2).spreads
    common = sorted(whole.keys() & part.keys())
    gains = np.array([[table[s] - table[0.0] for s in common] for table in (whole, part)])
    assert np.max(np.abs(gains[0] - gains[1])) < 3


@pytest.mark.parametrize("seed", range(4))
def test_the_relevant_feature_comes_first(seed):
    X, y = make_relevance(80, n_irrelevant=10, random_state=seed)
    found = learned(X, y)
    assert found.covariance == Parametric(11)
    w = found.theta[1:]
    assert np.argmax(w) == 0 and w[0] - np.max(w[1:]) > np.log(20)
    assert max(found.spreads, key=found.spreads.get) > 0


def test_features_that_matter_alike_or_not_at_all_share_one_width():
    single = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 5))
        alike = (X.sum(axis=1) + rng.normal(size=60) > 0).astype(int)
        nothing = rng.permutation(np.arange(60) % 2)
        for y in (alike, nothing):
            found = learned(X, y)
            best = max(found.spreads, key=found.spreads.get)
            assert (best == 0.0) == (found.covariance == Parametric(1))
            assert len(found.theta) == (2 if best == 0.0 else 6)
            single += best == 0.0
    assert single >= 10


def test_a_spread_that_is_given_is_taken_and_nothing_compared():
    X, y = make_overlap(60, random_state=0)
    found = learned(X, y, spread=1.0)
    assert found.spreads == {} and found.covariance == Parametric(2)
    prior = TiedPrior.of(Parametric(2), 2, 1.0)
    sample = sample_of((X - X.mean(axis=0)) / X.std(axis=0), y)
    objective = prior.on_top_of(sample.evidence(Parametric(2), "fisher"))
    assert np.max(np.abs(objective(found.theta)[1])) < 0.1


def test_larger_spreads_are_tried_while_they_are_better_and_a_smaller_one_in_doubt():
    X, y = make_relevance(60, n_irrelevant=10, random_state=0)
    clear = learned(X, y).spreads
    assert {0.0, 1.0, 2.0} <= clear.keys() and 0.5 not in clear
    rng = np.random.default_rng(0)
    doubtful = learned(rng.normal(size=(60, 5)), np.arange(60) % 2).spreads
    assert {0.0, 0.5, 1.0} <= doubtful.keys() and 3.0 not in doubtful


def test_a_tiny_spread_is_one_width():
    X, y = make_relevance(60, n_irrelevant=3, random_state=0)
    w = learned(X, y, spread=1e-3).theta[1:]
    assert np.ptp(w) < 1e-2


# --- samples and scores ---------------------------------------------------------------------------


def test_a_thinned_sample_keeps_two_rows_of_every_class():
    rng = np.random.default_rng(0)
    y = np.r_[np.zeros(95), np.ones(3), np.full(2, 2)].astype(int)
    X = rng.normal(size=(100, 2))
    part = sample_of(X, y).thinned(10)
    counts = part.indicator.sum(axis=0)
    assert 10 <= len(part.X) <= 16 and np.all(counts[1:] >= 2)
    assert len(part.weights.v) == len(part.indicator) == len(part.X)
    position = [np.flatnonzero(np.all(row == X, axis=1))[0] for row in part.X]
    np.testing.assert_array_equal(np.argmax(part.indicator, axis=1), y[position])
    np.testing.assert_array_equal(part.X, sample_of(X, y).thinned(10).X)


def test_a_sample_has_the_evidence_of_its_inducing_points_if_it_has_any():
    X, y = oracles.noisy_classes(30)
    assert isinstance(sample_of(X, y).evidence(Parametric(1), "fisher"), Dense)
    thin = sample_of(X, y, X[:5]).evidence(Parametric(1), "lssvm")
    assert isinstance(thin, Thin) and thin.kind == "lssvm"


@CLASSES
@pytest.mark.parametrize("amplitude", [0.1, 10.0, 1e4])
def test_the_score_is_the_regression_on_codes(n_classes, amplitude):
    X, y = oracles.noisy_classes(40, n_classes)
    new = X[:10] + 0.2
    K, k = (amplitude * oracles.gram(rows, X, gamma=1.0) for rows in (X, new))
    Y = oracles.indicators(y)
    w = np.random.default_rng(0).integers(1, 4, 40).astype(float)
    ridge = score(K.copy(), Y, Weights(w, np.ones(40)))
    truth = oracles.predict(k, oracles.ridge(K, Y, 1.0, v=w))
    assert gap(k @ ridge.coef + ridge.intercept, truth) < 1e-9


@CLASSES
@pytest.mark.parametrize("gamma", [1e-3, 0.05, 1.0])
@pytest.mark.parametrize("amplitude", [1e15, 1e20])
def test_noise_below_rounding_is_raised_to_it(n_classes, amplitude, gamma):
    X, y = oracles.noisy_classes(200, n_classes)
    K, Y = amplitude * oracles.gram(X, gamma=gamma), oracles.indicators(y)
    ridge = score(K.copy(), Y, Weights.unit(X))
    fitted = K @ ridge.coef + ridge.intercept
    np.testing.assert_allclose(fitted, Y - ridge.residual, atol=0.1)
    assert np.all(np.isfinite(ridge.leave_one_out()))
    weights = Weights.unit(X)
    mu = learning.noise(K, weights)
    assert mu > 1
    again = RidgePath.of(learning.canonical(K, None, weights), Y).at(
        mu
    )  # as sets of labels take it
    assert np.sqrt(np.mean((Y - again.residual - fitted) ** 2)) < 0.1


@CLASSES
def test_the_score_on_inducing_points_is_the_regression_on_their_kernel(n_classes):
    X, y = oracles.noisy_classes(40, n_classes)
    centres = np.arange(0, 40, 5)
    new, Y = X[:10] + 0.2, oracles.indicators(y)
    K, k = (oracles.gram(rows, X, gamma=1.0) for rows in (X, new))
    inner = K[np.ix_(centres, centres)]
    ridge = score_on_inducing(K[:, centres], inner, Y, Weights.unit(X))
    truth = oracles.predict(k, oracles.ridge(K, Y, 1.0, centres=centres), centres)
    assert gap(k[:, centres] @ ridge.coef + ridge.intercept, truth) < 1e-9


# --- expectation-maximisation ---------------------------------------------------------------------


@CLASSES
def test_em_never_descends(n_classes):
    X, y = make_bumpy(40, random_state=0) if n_classes == 2 else oracles.noisy_classes(40, 3)
    contrasts = contrasts_of(y)
    _, values = em.climb(Parametric(1), X, contrasts, oracles.indicators(y), np.zeros(2))
    assert len(values) > 5
    assert np.all(np.diff(values) >= -1e-9 * np.abs(values[:-1]))
    assert values[-1] - values[0] > 1


@CLASSES
def test_the_objective_of_em_is_the_density(n_classes):
    X, y = oracles.noisy_classes(30, n_classes)
    at = em.Parameters(np.array([0.4, -0.3]), np.log(0.6), 1.7)
    ours = em.log_joint(Parametric(1), X, contrasts_of(y), at)
    K = np.exp(0.4) * oracles.gram(X, gamma=0.5 * np.exp(-0.3))
    assert ours == pytest.approx(oracles.fisher_evidence(K, y, 1.7, 0.6), abs=1e-9)


@pytest.mark.parametrize(("make", "seed"), [(make_bumpy, 0), (make_overlap, 1)])
def test_em_and_direct_reach_the_same_top(make, seed):
    X, y = make(60, random_state=seed)
    direct = BayesianFisherClassifier(n_restarts=1).fit(X, y)
    slow = em.FisherByEM(n_restarts=1).fit(X, y)
    assert direct.nugget_ > 0 and slow.status_ is Ending.CONVERGED
    assert slow.log_evidence_ == pytest.approx(direct.log_evidence_, rel=1e-5)
    assert slow.restarts_[0].value == pytest.approx(slow.log_evidence_, rel=1e-5)
    assert slow.length_scale_ == pytest.approx(direct.length_scale_, rel=0.05)
    assert slow.noise_precision_ == pytest.approx(direct.noise_precision_, rel=1e-6)
    assert slow.restarts_[0].evaluations > 3 * direct.restarts_[0].evaluations


def test_where_the_nugget_vanishes_em_creeps_and_its_own_noise_is_no_better():
    X, y = make_overlap(30, random_state=0)
    X[:, 1] += 4 * y
    direct = BayesianFisherClassifier(n_restarts=1).fit(X, y)
    slow = em.FisherByEM(n_restarts=1).fit(X, y)
    assert direct.nugget_ == 0
    assert slow.restarts_[0].value <= slow.log_evidence_ <= direct.log_evidence_ + 1e-4
    assert slow.restarts_[0].value > direct.log_evidence_ - 0.5


def test_em_and_direct_reach_the_same_top_with_three_classes():
    X, y = oracles.noisy_classes(50, 3)
    direct = BayesianFisherClassifier(n_restarts=1).fit(X, y)
    slow = em.FisherByEM(n_restarts=1).fit(X, y)
    assert slow.log_evidence_ == pytest.approx(direct.log_evidence_, rel=1e-5)


def test_em_by_other_hands_reaches_the_same_top():
    X, y = make_bumpy(60, random_state=1)
    rho, w, nugget, beta = oracles.fisher_em(X, y, constrained=True, iterations=150)[-1]
    model = BayesianFisherClassifier().fit(X, y)
    value = oracles.fisher_evidence(rho * oracles.gram(X, gamma=w / 2), y, beta, nugget)
    assert value == pytest.approx(model.log_evidence_, rel=1e-5)
    assert w**-0.5 == pytest.approx(model.length_scale_, rel=0.05)
    assert beta == pytest.approx(model.noise_precision_, rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_the_algorithm_as_printed_collapses(seed):
    """Without the centres in the E-step nothing rewards separation: the kernel becomes flat."""
    X, y = make_bumpy(80, random_state=seed)
    rho, w, nugget, beta = oracles.fisher_em(X, y, constrained=False)[-1]
    K = rho * oracles.gram(X, gamma=w / 2)
    printed = oracles.fisher_posterior(K, y, beta, nugget, K, np.full(80, rho))[0][:, 0]
    model = BayesianFisherClassifier().fit(X, y)
    assert w < 1e-3 / model.length_scale_**2 and rho < 0.1 * model.amplitude_
    assert beta > 0.95 * 79  # the prior stops it at N - 1, the data do not
    assert abs(roc_auc_score(y, printed) - 0.5) < 0.2
    assert roc_auc_score(y, model.decision_function(X)) > 0.9
    assert roc_auc_score(y, model.loo_decision_) > 0.9
