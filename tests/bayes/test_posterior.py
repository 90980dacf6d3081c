"""The posterior at new rows against Gaussian conditioning, and its limits (section 1.5)."""

import em
import numpy as np
import oracles
import pytest
from oracles import gap
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.gaussian_process.kernels import RBF, Matern

from fisherkit import BayesianFisherClassifier, KernelFisherClassifier
from fisherkit.bayes.evidence import Contrasts
from fisherkit.bayes.posterior import Exact, Posterior, Projected
from fisherkit.core.weights import Weights

D = 3
CLASSES = pytest.mark.parametrize("n_classes", [2, 3])
rng = np.random.default_rng(5)
NEW = 1.5 * rng.normal(size=(12, D))
OPTIONS = {
    "rbf": {},
    "ard": dict(ard=True),
    "ard, evidence alone": dict(ard=True, hyperprior=None),
    "lssvm": dict(evidence="lssvm"),
    "em": dict(Model=em.FisherByEM, n_restarts=1),
    "object": dict(kernel=RBF(1.0)),
    "Matern": dict(kernel=Matern(1.0, nu=1.5), n_restarts=1),
}
EVERY = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def fitted(X, y, *, Model=BayesianFisherClassifier, **options):
    return Model(random_state=0, **options).fit(X, y)


def contrasts_of(y, frequency=None):
    frequency = np.ones(len(y)) if frequency is None else frequency
    return Contrasts.of(oracles.indicators(y), Weights(frequency, np.ones(len(y))))


def noise_of(model):
    """The total noise."""
    return 1 / model.noise_precision_ + model.nugget_


def gram_of(model, X, Z):
    """The covariance in absolute units from what the fitted model says of itself."""
    if model.kernel_ is not None:
        return model.amplitude_ * model.kernel_(X, Z)
    return model.amplitude_ * oracles.gram(
        X / model.length_scale_, Z / model.length_scale_, gamma=0.5
    )


def assert_matches(model, X, y, new, tolerance=1e-10):
    """`latent` is Gaussian conditioning with the fitted kernel and noise."""
    prior = np.diag(gram_of(model, new, new))
    mean, variance = oracles.fisher_posterior(
        gram_of(model, X, X),
        y,
        model.noise_precision_,
        model.nugget_,
        gram_of(model, new, X),
        prior,
    )
    ours, std = model.latent(new, return_std=True)
    assert gap(ours.reshape(mean.shape), mean) < tolerance
    assert gap(std**2, variance) < tolerance
    np.testing.assert_array_equal(ours, model.latent(new))


# --- Gaussian conditioning ------------------------------------------------------------------------


@CLASSES
@pytest.mark.parametrize("ratio", [1.0, 1.8])
@pytest.mark.parametrize("beta", [0.2, 3.0, 50.0])
def test_mean_and_variance_equal_conditioning(n_classes, ratio, beta):
    X, y = oracles.noisy_classes(30, n_classes, D)
    K, k = (1.5 * oracles.gram(rows, X, gamma=0.4) for rows in (X, NEW))
    contrasts = contrasts_of(y)
    units = beta / ratio  # one over the total noise
    moments = Exact.of(units * K, contrasts, oracles.indicators(y))
    posterior = Posterior(moments, contrasts, beta, ratio)
    truth = oracles.fisher_posterior(K, y, beta, posterior.nugget, k, np.full(12, 1.5))
    assert posterior.nugget == pytest.approx((ratio - 1) / beta)
    assert gap(posterior.mean(units * k), truth[0]) < 1e-10
    assert gap(posterior.variance(units * k, np.full(12, units * 1.5)), truth[1]) < 1e-10


@CLASSES
@EVERY
def test_latent_equals_conditioning(options, n_classes):
    X, y = oracles.noisy_classes(40, n_classes, D)
    model = fitted(X, y, **options)
    assert model.nugget_ > 0
    assert_matches(model, X, y, NEW)
    assert_matches(model, X, y, X)


@CLASSES
def test_latent_equals_conditioning_without_a_nugget(n_classes):
    X, y = oracles.noisy_classes(40, n_classes, D)
    X[:, :n_classes] += 7 * oracles.indicators(y)
    model = BayesianFisherClassifier().fit(X, y)
    assert model.nugget_ == 0
    assert_matches(model, X, y, X + 0.3 * NEW[0], tolerance=1e-8)


def test_the_wrong_noise_is_noticed():
    X, y = oracles.noisy_classes(40, 2, D)
    model = BayesianFisherClassifier().fit(X, y)
    model.nugget_ *= 1.001
    with pytest.raises(AssertionError):
        assert_matches(model, X, y, NEW)


@CLASSES
def test_latent_does_not_see_the_origin_of_a_linear_part(n_classes):
    X, y = oracles.noisy_classes(40, n_classes, D)
    shift = np.array([30.0, -20.0, 5.0])
    one, two = (BayesianFisherClassifier(linear=True).fit(rows, y) for rows in (X, X + shift))
    for a, b in zip(one.latent(NEW, True), two.latent(NEW + shift, True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


@CLASSES
def test_the_variance_does_not_contain_the_level(n_classes):
    """A constant added to the kernel is a level of f that nothing observes."""
    X, y = oracles.noisy_classes(30, n_classes, D)
    K, k = (oracles.gram(rows, X, gamma=0.4) for rows in (X, NEW))
    contrasts = contrasts_of(y)
    values = []
    for level in (0.0, 5.0):
        moments = Exact.of(K + level, contrasts, oracles.indicators(y))
        values.append(Posterior.of(moments, contrasts).variance(k + level, np.ones(12) + level))
    np.testing.assert_allclose(*values, rtol=1e-10)


@CLASSES
def test_weights_are_copies(n_classes):
    X, y = oracles.noisy_classes(25, n_classes, D)
    frequency = np.random.default_rng(0).integers(1, 4, 25)
    again = np.repeat(np.arange(25), frequency)
    K, k = (oracles.gram(rows, X, gamma=0.4) for rows in (X, NEW))
    results = []
    for rows, w in [(np.arange(25), frequency.astype(float)), (again, np.ones(len(again)))]:
        contrasts = contrasts_of(y[rows], w)
        moments = Exact.of(K[np.ix_(rows, rows)], contrasts, oracles.indicators(y[rows]))
        posterior = Posterior.of(moments, contrasts)
        assert posterior.ratio > 1
        results.append([posterior.mean(k[:, rows]), posterior.variance(k[:, rows], np.ones(12))])
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-11)


@CLASSES
def test_class_centres_are_a_simplex_of_side_two_where_the_mean_puts_the_classes(n_classes):
    """Without a nugget the posterior mean of every class centre is the centre itself."""
    X, y = oracles.noisy_classes(40, n_classes, D)
    X[:, :n_classes] += 7 * oracles.indicators(y)
    model = BayesianFisherClassifier().fit(X, y)
    assert model.nugget_ == 0
    centres = model.class_centres_
    for i in range(n_classes):
        for j in range(i):
            assert np.linalg.norm(centres[i] - centres[j]) == pytest.approx(2.0)
        found = model.latent(X[y == i]).reshape(-1, n_classes - 1).mean(axis=0)
        np.testing.assert_allclose(found, centres[i], atol=1e-9)
    np.testing.assert_allclose(centres.sum(axis=0), 0.0, atol=1e-12)


def test_far_away_the_variance_is_that_of_the_prior_and_the_midpoint():
    X, y = oracles.noisy_classes(40, 2, D)
    model = BayesianFisherClassifier().fit(X, y)
    mean, std = model.latent(np.array([[1e3, 0.0, 0.0], [0.0, -1e4, 0.0]]), return_std=True)
    np.testing.assert_allclose(mean, mean[0], rtol=1e-12)
    np.testing.assert_allclose(std, std[0], rtol=1e-12)
    assert std[0] ** 2 > model.amplitude_ > model.latent(X, True)[1].max() ** 2


# --- inducing points ------------------------------------------------------------------------------


@CLASSES
def test_all_rows_as_inducing_points_are_exact(n_classes):
    X, y = oracles.noisy_classes(30, n_classes, D)
    K, k = (oracles.gram(rows, X, gamma=1.0) for rows in (X, NEW))
    contrasts, Y = contrasts_of(y), oracles.indicators(y)
    exact, thin = (
        Posterior.of(moments, contrasts)
        for moments in (Exact.of(K, contrasts, Y), Projected.of(K, K, contrasts, Y))
    )
    assert thin.beta == pytest.approx(exact.beta) and thin.ratio == pytest.approx(exact.ratio)
    assert gap(thin.mean(k), exact.mean(k)) < 1e-9
    assert gap(thin.variance(k, np.ones(12)), exact.variance(k, np.ones(12))) < 1e-9


@CLASSES
def test_an_inducing_model_is_conditioning_with_its_kernel_and_the_variance_left_out(n_classes):
    X, y = oracles.noisy_classes(40, n_classes, D)
    U = X[:9]
    K_mm, K_nm, k_m = (oracles.gram(rows, U, gamma=0.4) for rows in (U, X, NEW))
    contrasts = contrasts_of(y)
    posterior = Posterior.of(Projected.of(K_nm, K_mm, contrasts, oracles.indicators(y)), contrasts)
    noise = posterior.ratio / posterior.beta
    low = [a @ np.linalg.solve(K_mm, b.T) for a, b in [(K_nm, K_nm), (k_m, K_nm), (k_m, k_m)]]
    mean, variance = oracles.fisher_posterior(
        noise * low[0], y, posterior.beta, posterior.nugget, noise * low[1], noise * np.diag(low[2])
    )
    missing = noise * (1 - np.diag(low[2]))
    assert missing.max() > 0.1 * noise
    assert gap(posterior.mean(k_m), mean) < 1e-9
    assert gap(posterior.variance(k_m, np.ones(12)), variance + missing) < 1e-9


@CLASSES
def test_as_many_inducing_points_as_rows_are_the_exact_classifier(n_classes):
    X, y = oracles.noisy_classes(40, n_classes, D)
    exact = BayesianFisherClassifier().fit(X, y)
    thin = BayesianFisherClassifier(n_inducing=40, random_state=0).fit(X, y)
    np.testing.assert_allclose(thin.latent(NEW), exact.latent(NEW), rtol=1e-12)


# --- the relatives of the discriminant ------------------------------------------------------------


@CLASSES
@EVERY
def test_the_decision_is_that_of_kernel_fisher_with_penalty_one_over_beta(options, n_classes):
    X, y = oracles.noisy_classes(40, n_classes, D)
    model = fitted(X, y, **options)
    K, k = (gram_of(model, rows, X) / noise_of(model) for rows in (X, NEW))
    twin = KernelFisherClassifier("precomputed", regularization=1.0).fit(K, y)
    assert gap(model.decision_function(NEW), twin.decision_function(k)) < 1e-9
    assert gap(model.predict_proba(NEW), twin.predict_proba(k)) < 1e-7
    assert gap(model.loo_decision_, twin.loo_decision_) < 1e-9
    assert gap(model.transform(NEW), twin.transform(k)) < 1e-8


def test_latent_is_an_affine_function_of_the_regression_on_labels():
    X, y = oracles.noisy_classes(40, 2, D)
    model = BayesianFisherClassifier().fit(X, y)
    assert model.nugget_ > 0
    line = np.polyfit(model.decision_function(NEW), model.latent(NEW), 1)
    assert line[0] > 0
    assert gap(model.latent(NEW), np.polyval(line, model.decision_function(NEW))) < 1e-10


def test_without_nugget_the_affine_function_is_that_of_section_1_3():
    X, y = oracles.noisy_classes(40, 2, D)
    K, k = (oracles.gram(rows, X, gamma=0.4) for rows in (X, NEW))
    contrasts, counts = contrasts_of(y), np.bincount(y)
    posterior = Posterior(Exact.of(K, contrasts, oracles.indicators(y)), contrasts, 1.0, 1.0)
    coef, b = oracles.ridge(K, y - 0.5, 1.0)
    r = coef @ (y - 0.5)
    middle = (r / 2) * (1 / counts[0] - 1 / counts[1])
    g = 2 * (oracles.predict(k, (coef, b)) - middle) / (1 - np.sum(1 / counts) * r)
    assert gap(posterior.mean(k)[:, 0], g) < 1e-10


def test_without_noise_precision_it_is_a_parzen_window():
    X, y = oracles.noisy_classes(40, 2, D)
    K, k = (oracles.gram(rows, X, gamma=0.4) for rows in (X, NEW))
    contrasts, averages = contrasts_of(y), oracles.fisher_observations(y)[3]
    a, h = averages[1] - averages[0], averages.mean(axis=0)
    beta = 1e-7
    moments = Exact.of(beta * K, contrasts, oracles.indicators(y))
    posterior = Posterior(moments, contrasts, beta, 1.0)
    k_a = (k - h @ K) @ a
    assert gap(posterior.mean(beta * k)[:, 0], 2 * k_a / (a @ K @ a)) < 1e-4
    variance = 1 - 2 * k @ h + h @ K @ h - k_a**2 / (a @ K @ a)
    assert gap(posterior.variance(beta * k, np.full(12, beta)), variance) < 1e-4


@pytest.mark.parametrize("ard", [False, True])
def test_a_linear_kernel_is_a_prior_on_weights(ard):
    X, y = oracles.noisy_classes(40, 2, D)
    contrasts = contrasts_of(y)
    w = np.array([0.5, 1.0, 2.0]) if ard else np.full(D, 0.7)
    beta = 3.0
    truth = oracles.fisher_weight_space(X, y, beta, np.diag(1 / w), NEW)
    Y, U, prior = oracles.indicators(y), np.eye(D), beta * np.sum(NEW**2 * w, axis=1)
    dense = Exact.of(beta * (X * w) @ X.T, contrasts, Y), beta * (NEW * w) @ X.T
    thin = Projected.of(beta * X * w, beta * U * w, contrasts, Y), beta * NEW * w
    for moments, k in (dense, thin):
        posterior = Posterior(moments, contrasts, beta, 1.0)
        assert gap(posterior.mean(k)[:, 0], truth[0]) < 1e-10
        assert gap(posterior.variance(k, prior), truth[1]) < 1e-9


def test_a_flat_prior_on_weights_gives_the_direction_of_lda():
    X, y = oracles.noisy_classes(40, 2, D)
    contrasts = contrasts_of(y)
    amplitude = 1e6
    moments = Projected.of(amplitude * X, amplitude * np.eye(D), contrasts, oracles.indicators(y))
    posterior = Posterior(moments, contrasts, 1.0, 1.0)
    g = posterior.mean(amplitude * NEW)[:, 0]
    lda = LinearDiscriminantAnalysis().fit(X, y).decision_function(NEW)
    assert gap(g, np.polyval(np.polyfit(lda, g, 1), lda)) < 1e-5


@CLASSES
def test_the_linear_classifier_in_weight_space_equals_the_one_in_row_space(n_classes):
    """Fewer rows than features use the rows, more rows the features: here both on the same rows."""
    X, y = oracles.noisy_classes(30, n_classes, D)
    wide = np.c_[X, np.zeros((30, 30))]  # constant features say nothing, but are features
    one = BayesianFisherClassifier("linear").fit(X, y)
    two = BayesianFisherClassifier("linear").fit(wide, y)
    new = np.c_[NEW, np.zeros((12, 30))]
    for a, b in zip(one.latent(NEW, True), two.latent(new, True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    assert one.log_evidence_ == pytest.approx(two.log_evidence_, abs=1e-8)


def test_a_linear_fit_says_what_prior_its_weights_have():
    """As documented: amplitude one, and length scales that are inverse roots of variances."""
    X, y = oracles.noisy_classes(40, 2, D)
    model = BayesianFisherClassifier("linear").fit(X, y)
    K, k, prior = (
        rows @ others.T / model.length_scale_**2 for rows, others in [(X, X), (NEW, X), (NEW, NEW)]
    )
    mean, variance = oracles.fisher_posterior(
        K, y, model.noise_precision_, model.nugget_, k, np.diag(prior)
    )
    ours, std = model.latent(NEW, return_std=True)
    assert model.amplitude_ == 1.0
    assert gap(ours, mean[:, 0]) < 1e-8
    assert gap(std**2, variance) < 1e-8


# --- the noise model ------------------------------------------------------------------------------


@CLASSES
def test_log_odds_of_the_noise_model_are_those_of_gaussians_about_the_centres(n_classes):
    X, y = oracles.noisy_classes(60, n_classes, D)
    model = BayesianFisherClassifier(probability="noise_model").fit(X, y)
    mean, std = model.latent(NEW, return_std=True)
    mean = mean.reshape(12, -1)
    log_density = np.empty((12, n_classes))
    for q in range(n_classes):
        away = np.sum((mean - model.class_centres_[q]) ** 2, axis=1)
        log_density[:, q] = np.log(np.mean(y == q)) - away / (2 * (noise_of(model) + std**2))
    p = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(NEW), p, rtol=1e-8)
    if n_classes == 2:
        odds = log_density[:, 1] - log_density[:, 0]
        np.testing.assert_allclose(model.decision_function(NEW), odds, rtol=1e-8)
