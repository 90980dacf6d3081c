"""Newton on log mu, the search over mu and the march over widths, where the minima are known."""

import math

import numpy as np
import oracles
import pytest
from scipy.linalg import hadamard

from fisherkit import KernelFisherClassifier
from fisherkit.core.bias import BIASES
from fisherkit.core.canonical import Canonical, mu_floor
from fisherkit.core.ridge import RidgePath
from fisherkit.core.weights import Weights
from fisherkit.tuning import select
from fisherkit.tuning.criteria import CRITERIA, Criterion, HeldOut
from fisherkit.tuning.select import (
    AT_BOUNDS,
    MuSearch,
    PathPrices,
    Status,
    march,
    newton,
    settle,
    settled,
)

# --- Newton ---------------------------------------------------------------------------------------


def quadratic(x):
    return (x - 1.3) ** 2 + 2.0, 2 * (x - 1.3), 2.0


def catenary(x):
    return math.cosh(x - 1.3), math.sinh(x - 1.3), math.cosh(x - 1.3)


def bell(x):
    """Concave away from the minimum at 1.3."""
    e = math.exp(-((x - 1.3) ** 2))
    return -e, 2 * (x - 1.3) * e, (2 - 4 * (x - 1.3) ** 2) * e


def lopsided(x):
    """Minimum at log 2, where exp(x) = 2; steep on one side, almost linear on the other."""
    return math.exp(x) - 2 * x, math.exp(x) - 2, math.exp(x)


def wavy(x):
    return math.sin(5 * x) + 0.1 * x * x, 5 * math.cos(5 * x) + 0.2 * x, 0.2 - 25 * math.sin(5 * x)


@pytest.mark.parametrize("start", [-2.0, 0.0, 0.9, 1.3, 3.9])
@pytest.mark.parametrize(
    "function, minimum",
    [(quadratic, 1.3), (catenary, 1.3), (bell, 1.3), (lopsided, math.log(2))],
)
def test_newton_finds_the_minimum_to_rounding(function, minimum, start):
    assert abs(newton(function, start, -3.0, 4.0)[0] - minimum) < 1e-12


@pytest.mark.parametrize("function", [quadratic, catenary, bell, lopsided])
def test_newton_ends_exactly_on_the_bound_that_the_minimum_lies_beyond(function):
    for lower, upper in np.random.default_rng(0).uniform(0.1, 1.0, size=(50, 2)):
        right = 1.3 + lower, 1.3 + lower + upper
        assert newton(function, 0.5 * sum(right), *right)[0] == right[0]
        left = 0.6 - lower - upper, 0.6 - lower
        assert newton(function, 0.5 * sum(left), *left)[0] == left[1]


def test_newton_never_looks_outside_of_its_bounds():
    for start, left, right in np.random.default_rng(1).uniform(0.0, 1.0, size=(200, 3)):
        seen = []
        newton(lambda x, seen=seen: seen.append(x) or wavy(x), start, start - left, start + right)
        assert start - left <= min(seen) and max(seen) <= start + right


def test_newton_never_increases_the_value_and_ends_where_the_gradient_vanishes():
    for start in np.linspace(-4, 4, 81):
        x, _ = newton(wavy, start, -4.0, 4.0)
        assert wavy(x)[0] <= wavy(start)[0]
        assert abs(x) == 4.0 or abs(wavy(x)[1]) < 1e-12


def kinked(x):
    """The larger of a falling and a rising curve; they meet at 0.3."""
    t = x - 0.3
    if t < 0:
        return 1 - t + 0.4 * t * t - 0.1 * t**3, -1 + 0.8 * t - 0.3 * t * t, 0.8 - 0.6 * t
    return 1 + 0.5 * t + 0.2 * t * t, 0.5 + 0.4 * t, 0.4


@pytest.mark.parametrize("start", [-2.9, -0.4, 0.29, 0.31, 1.5, 3.9])
def test_newton_finds_a_kink_in_a_few_steps(start):
    seen = []
    x, value = newton(lambda x: seen.append(x) or kinked(x), start, -3.0, 4.0)
    assert x == pytest.approx(0.3, abs=3e-8)
    assert value == pytest.approx(1.0, abs=1e-7)
    assert len(seen) < 30


def test_newton_stays_at_a_minimum_and_stops_on_a_constant():
    calls = []

    def constant(x):
        calls.append(x)
        return 1.0, 0.0, 0.0

    assert newton(quadratic, 1.3, 0.0, 4.0)[0] == 1.3
    assert 0.0 <= newton(constant, 1.0, 0.0, 4.0)[0] <= 4.0
    assert len(calls) < 100


# --- the search over mu ---------------------------------------------------------------------------


def search_of(K, y, *, rule="press", bias="free", **options):
    n = len(y)
    Y = np.reshape(np.asarray(y, dtype=float), (n, -1))
    weights = Weights(np.ones(n), np.ones(n))
    path = RidgePath.of(Canonical.from_gram(np.array(K, dtype=float), weights, BIASES[bias]), Y)
    held_out = HeldOut(Y, weights.fold_mean(Y), np.zeros_like(Y), weights.v, labels=y)
    return MuSearch(PathPrices(path, Criterion(rule, held_out)), **options)


def two_classes(n=60, seed=0):
    X, y = oracles.noisy_classes(n, seed=seed)
    return oracles.gram(X, gamma=0.5), 2 * y - 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rule", ["press", "log_loss", "smoothed_error"])
def test_an_interior_optimum_is_that_of_a_dense_scan(rule, seed):
    search = search_of(*two_classes(seed=seed), rule=rule)
    mu, value, status = search.refine()
    assert status is Status.INTERIOR
    assert value == pytest.approx(search.prices.values([mu])[0], rel=1e-13)
    scan = np.geomspace(search.mus[0], search.mus[-1], 4001)
    values = search.prices.values(list(scan))
    assert value <= values.min()
    assert abs(math.log(mu / scan[np.argmin(values)])) <= math.log(scan[1] / scan[0])
    assert abs(search.prices.derivatives(math.log(mu))[1]) < 1e-13


def one_direction(shrinkage):
    """Kernel, targets and the relative mu where press is smallest, all of it by hand.

    K = q q' and y = beta q + e with entries of equal size, so that all leverages are equal and
    press is (1 + c^2 beta^2) / (n - 2 + c)^2 up to a factor: smallest at c = 1/((n - 2) beta^2).
    The relative mu is n c / (1 - c).
    """
    n = 64
    _, q, e = hadamard(n)[:3] / n**0.5
    beta = ((n - 2) * shrinkage) ** -0.5
    return np.outer(q, q), beta * q + e, n * shrinkage / (1 - shrinkage)


@pytest.mark.parametrize("shrinkage, extended", [(1e-3, False), (0.5, False), (0.97, True)])
def test_the_grid_is_extended_only_while_the_optimum_is_on_its_upper_edge(shrinkage, extended):
    K, y, relative_mu = one_direction(shrinkage)
    search = search_of(K, y)
    unit = search.prices.path.canonical.unit
    mu, _, status = search.refine()
    assert status is Status.INTERIOR
    assert mu / unit == pytest.approx(relative_mu, rel=1e-8)
    assert search.mus[0] / unit == pytest.approx(select.GRID[0])
    if extended:
        assert select.GRID[-1] < relative_mu < search.mus[-1] / unit
    else:
        assert search.mus[-1] / unit == pytest.approx(select.GRID[-1])


def test_the_grid_is_extended_while_the_optimum_is_on_its_lower_edge():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    search = search_of(X @ X.T, X @ [1.0, -2.0, 0.5] + 3e-4 * rng.normal(size=50))
    mu, value, status = search.refine()
    assert status is Status.INTERIOR
    assert search.floor < search.mus[0] < mu < select.GRID[0] * search.prices.path.canonical.unit
    scan = np.geomspace(search.mus[0], search.mus[-1], 8001)
    assert value <= search.prices.values(list(scan)).min() * (1 + 1e-14)


def test_an_extended_grid_stays_sorted_and_priced():
    for K, y in (one_direction(0.97)[:2], clean_labels()):
        search = search_of(K, y)
        assert len(search.mus) > len(select.GRID)
        np.testing.assert_array_less(0, np.diff(search.mus))
        np.testing.assert_allclose(
            search.values, search.prices.values(list(search.mus)), rtol=1e-12
        )


def clean_labels():
    """Labels without noise in a direction just above the floor of mu, beside a strong one."""
    n = 64
    _, q, y = hadamard(n)[:3]
    return np.outer(q, q) + 1e-7 * np.outer(y, y), y


@pytest.mark.parametrize("rule", ["press", "log_loss", "smoothed_error"])
def test_an_optimum_on_the_floor_is_exactly_the_floor(rule):
    search = search_of(*clean_labels(), rule=rule)
    mu, value, status = search.refine()
    assert status is Status.AT_LOWER_BOUND
    canonical = search.prices.path.canonical
    assert mu == mu_floor(canonical.unit, canonical.weights) == search.floor
    assert value == search.values.min()


def test_targets_predicted_to_rounding_end_at_the_largest_mu_that_does_so():
    X = np.random.default_rng(0).normal(size=(50, 3))
    search = search_of(X @ X.T, X @ [1.0, -2.0, 0.5])
    mu, value, status = search.refine()
    assert status is Status.NOISELESS
    assert value <= 2 * search.prices.negligible
    larger = search.values[search.mus > mu]
    assert np.all(larger > search.values.min() + search.prices.negligible)


def test_targets_that_no_kernel_direction_sees_end_on_the_ceiling():
    _, q, e = hadamard(64)[:3]
    search = search_of(np.outer(q, q), e)
    mu, value, status = search.refine()
    assert status is Status.AT_UPPER_BOUND
    assert mu == search.ceiling == search.mus[-1]
    assert value == search.values.min()


@pytest.mark.parametrize("seed", range(8))
def test_pure_noise_ends_at_the_upper_bound_or_at_a_large_mu(seed):
    rng = np.random.default_rng(seed)
    K = oracles.gram(rng.normal(size=(80, 5)), gamma=0.2)
    search = search_of(K, rng.normal(size=80))
    mu, value, status = search.refine()
    assert status in (Status.AT_UPPER_BOUND, Status.INTERIOR)
    assert mu > 0.3 * search.prices.path.canonical.unit
    assert value == pytest.approx(search.prices.values([1e12])[0], rel=0.1)


def test_the_largest_of_equally_good_mu_is_taken():
    search = search_of(*two_classes(), rule="error")
    best = np.flatnonzero(search.values == search.values.min())[-1]
    mu, value, status = search.refine()
    assert mu == search.mus[best] and value == search.values[best]
    assert status is Status.GRID_MINIMUM


def test_a_given_mu_is_only_priced():
    search = search_of(*two_classes(), given=1e-13)
    assert search.mus.tolist() == [1e-13]
    assert search.value == search.prices.values([1e-13])[0]


# --- the march over widths ------------------------------------------------------------------------

REFERENCE, STEP = 0.7, 2.0


class Prices:
    """A price for each half octave j, and a record of which were asked for."""

    def __init__(self, heights):
        self.heights, self.asked = heights, []

    def price(self, gamma):
        self.asked.append(self.position(gamma))
        return self.heights(self.asked[-1])

    def position(self, gamma):
        j = math.log(gamma / REFERENCE, STEP)
        assert abs(j - round(j)) < 1e-9
        return round(j)

    def run(self, negligible=0.0):
        gamma, status = march(self.price, REFERENCE, STEP, negligible=negligible)
        return self.position(gamma), status


def valley(centre):
    return lambda j: 1.0 + 0.1 * (j - centre) ** 2


INSIDE = range(-select.FARTHEST + 1, select.FARTHEST)


@pytest.mark.parametrize("offset", [-0.3, 0.0, 0.3])
@pytest.mark.parametrize("centre", INSIDE)
def test_the_march_finds_the_minimum_of_a_valley(centre, offset):
    prices = Prices(valley(centre + offset))
    assert prices.run() == (centre, None)
    assert len(set(prices.asked)) == len(prices.asked)


def test_the_march_stops_after_two_rises():
    best = select._WIDE + 2
    prices = Prices(lambda j: 1.0 + 0.03 * (j - best) ** 2)
    assert prices.run() == (best, None)
    assert prices.asked[:4] == [best - 2, best, best + 2, best + 4]
    assert sorted(prices.asked[4:]) == [best - 1, best + 1]


def test_one_steep_rise_stops_the_march():
    best = select._WIDE + 2
    prices = Prices(valley(best))
    assert prices.run() == (best, None)
    assert max(prices.asked) == best + 2


def test_one_rise_does_not_stop_the_march():
    best = select._WIDE + 6
    bumpy = {select._WIDE: 1.0, select._WIDE + 2: 1.2, select._WIDE + 4: 0.9}
    prices = Prices(lambda j: bumpy.get(j, 0.5 + 0.1 * abs(j - best)))
    assert prices.run() == (best, None)


@pytest.mark.parametrize(
    "direction, end, status",
    [
        (1, -select.FARTHEST - 1, Status.AT_WIDEST),
        (-1, select.FARTHEST + 1, Status.AT_NARROWEST),
    ],
)
def test_the_march_goes_on_past_either_end_and_says_where_it_stopped(direction, end, status):
    prices = Prices(lambda j: math.exp(0.1 * direction * j))
    assert prices.run() == (end, status)
    assert all(abs(j) <= abs(end) for j in prices.asked)


def test_equal_prices_go_to_the_wider_kernel():
    prices = Prices(lambda j: 1.0 if j in (-1, 0, 1) else 1.5 + 0.1 * abs(j))
    assert prices.run() == (-1, None)
    assert Prices(lambda j: 1.0).run() == (-select.FARTHEST - 1, Status.AT_WIDEST)


def test_prices_that_differ_by_rounding_are_equal():
    prices = Prices(lambda j: 1.0 + 1e-15 * abs(j - 1) if abs(j) < 2 else 1.5 + 0.1 * abs(j))
    assert prices.run() == (-1, None)


def test_prices_that_differ_by_less_than_is_negligible_are_equal():
    prices = Prices(lambda j: 1e-20 * (10 - j) if j > -5 else 1.0)
    assert prices.run(negligible=1e-15) == (-4, None)


@pytest.mark.parametrize("seed", range(3))
def test_widths_that_see_no_more_than_a_constant_do_not_end_the_march(seed):
    """On a checkerboard all wide kernels are as good as the mean label, and no better."""
    X = np.random.default_rng(seed).uniform(0, 8, size=(300, 2))
    y = np.sum(np.floor(X), axis=1) % 2
    chosen = KernelFisherClassifier().fit(X, y).selection_
    widths = 2.0 ** np.arange(-8, 4)
    best = min(KernelFisherClassifier(gamma=g).fit(X, y).selection_.value for g in widths)
    assert chosen.value < 1.05 * best


# --- settling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("minimum", [-5.0, -1.2, 0.0, 0.07, 2.3, 5.0])
def test_a_width_settles_where_the_price_is_least(minimum):
    asked = []

    def price(x):
        asked.append(x)
        return 1.0 + 0.3 * (math.cosh(x - minimum) - 1)

    found = settle(price, 0.0, 0.35, -3.0, 3.0)
    best = min(max(minimum, -3.0), 3.0)
    assert abs(found - best) < 0.02 or price(found) < (1 + 2e-4) * price(best)
    assert len(asked) == len(set(asked)) <= select._MOST_PRICES + 1
    assert min(asked) >= -3.0 and max(asked) <= 3.0


def test_a_width_near_its_best_settles_after_three_prices():
    asked = []
    settle(lambda x: asked.append(x) or 1.0 + 0.1 * x * x, 0.01, 0.35, -3.0, 3.0)
    assert len(asked) == 3


def test_the_largest_mu_is_no_failing_where_scores_are_calibrated():
    for rule, expected in (("press", Status.AT_UPPER_BOUND), ("log_loss", Status.AVERAGES)):
        loss = CRITERIA[rule].of_columns(3)
        assert settled(Status.AT_UPPER_BOUND, loss) is expected
        assert settled(Status.AT_LOWER_BOUND, loss) is Status.AT_LOWER_BOUND
    assert Status.AVERAGES not in AT_BOUNDS
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 2)), 3, axis=0)
    model = KernelFisherClassifier(gamma=0.5).fit(X, np.arange(60) % 3)  # no structure at all
    assert model.selection_.status in (Status.AVERAGES, Status.INTERIOR, Status.AT_LOWER_BOUND)
