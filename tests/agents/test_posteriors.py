"""Posteriors in small cases that run as plain Python too: known laws, and parts by hand."""

import math
from math import inf

import numpy as np
import pytest
from scipy import integrate, stats

from agents.posteriors import chains
from agents.posteriors.grid import GridPosterior
from agents.posteriors.quadrature import (
    Coordinate,
    first_edges,
    log_prior,
    make_coordinate,
    require_density,
)
from agents.posteriors.tabulation import LARGEST_ERROR
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, TruncatedNormal
from bandit_gym.problem import BanditProblem

DATA = [(0, 0.0), (1, 1.0), (10, 3.0), (1000, 300.0), (10**6, 6e5)]
LAWS = {
    "beta": (Bernoulli(), Beta(2.0, 3.0), lambda n, s: stats.beta(2 + s, 3 + n - s)),
    "bathtub": (Bernoulli(), Beta(0.5, 0.5), lambda n, s: stats.beta(0.5 + s, 0.5 + n - s)),
    "gamma": (Poisson(), Gamma(2.0, 3.0), lambda n, s: stats.gamma(2 + s, scale=1 / (3 + n))),
    "inverse gamma": (
        Exponential(),
        InverseGamma(6.0, 5.0),
        lambda n, s: stats.invgamma(6 + n, scale=5 + s),
    ),
    "normal": (
        Gaussian(0.5),
        Normal(1.0, 2.0),
        lambda n, s: stats.norm((0.25 + 4 * s) / (0.25 + 4 * n), (0.25 + 4 * n) ** -0.5),
    ),
}
LEVELS = np.array([1e-3, 0.01, 0.05, 0.2, 0.4, 0.5, 0.6, 0.8, 0.95, 0.99, 0.999])


def cut_normal(n, s):
    """Return the posterior of TruncatedNormal(0.4, 0.2) on [0, 1] after rewards of deviation 1."""
    precision = 25 + n
    mean, std = (10 + s) / precision, precision**-0.5
    return stats.truncnorm((0 - mean) / std, (1 - mean) / std, mean, std)


LAWS["cut normal"] = (Gaussian(1.0), TruncatedNormal(0.4, 0.2, 0.0, 1.0), cut_normal)


def follow(name, counts, sums):
    likelihood, prior, law = LAWS[name]
    posterior = GridPosterior(BanditProblem(likelihood, prior, counts.shape[1]))
    posterior.follow(np.random.default_rng(0), counts, sums)
    return posterior, law


@pytest.mark.parametrize("name", LAWS)
def test_tables_are_those_of_known_laws(name):
    """To what tables promise of distribution functions, and ten times closer to the moments."""
    counts, sums = (
        np.array(column)[:, None].repeat(2, axis=1) for column in zip(*DATA, strict=True)
    )
    posterior, law = follow(name, counts, sums)
    assert not posterior.is_unreliable().any()
    for p in LEVELS:
        found = posterior.quantile(p)
        for lane, (n, s) in enumerate(DATA):
            assert law(n, s).cdf(found[lane]) == pytest.approx([p, p], abs=LARGEST_ERROR)
    for lane, (n, s) in enumerate(DATA):
        mean, std = law(n, s).mean(), law(n, s).std()
        assert posterior.mean()[lane] == pytest.approx([mean] * 2, abs=1e-3 * std)
        assert posterior.std()[lane] == pytest.approx([std] * 2, rel=2e-3)


@pytest.mark.parametrize("name", LAWS)
def test_best_arms_of_tables_are_those_of_known_laws(name):
    """Of two arms P(1 is better) = int F_0 p_1, by SciPy's quadrature over levels."""
    counts, sums = np.array([[10, 4], [0, 30]]), np.array([[3.0, 2.0], [0.0, 12.0]])
    posterior, law = follow(name, counts, sums)
    for lane in range(2):
        first, second = (law(n, s) for n, s in zip(counts[lane], sums[lane], strict=True))
        expected, _ = integrate.quad(lambda p, a=first, b=second: a.cdf(b.ppf(p)), 0, 1)
        assert posterior.best_arm_probabilities()[lane, 1] == pytest.approx(expected, abs=1e-3)


def test_tables_follow_what_changes_and_copy_what_they_have():
    """Three lanes whose statistics change in turn, beside tables that are made anew."""
    rng = np.random.default_rng(0)
    counts, sums = np.zeros((3, 2), int), np.zeros((3, 2))
    posterior, _ = follow("beta", counts, sums)
    for lane, arm, reward in [(0, 0, 1.0), (1, 0, 1.0), (2, 1, 1.0), (0, 0, 0.0), (1, 1, 0.0)]:
        counts[lane, arm] += 1
        sums[lane, arm] += reward
        posterior.follow(rng, counts, sums)
        anew, _ = follow("beta", counts, sums)
        np.testing.assert_array_equal(posterior.quantile(0.3), anew.quantile(0.3))
        np.testing.assert_array_equal(posterior.tables.errors, anew.tables.errors)


def test_arms_with_priors_of_their_own_have_their_own_tables():
    prior = Beta([2.0, 5.0, 2.0], [3.0, 1.0, 3.0])
    posterior = GridPosterior(BanditProblem(Bernoulli(), prior, 3))
    posterior.follow(np.random.default_rng(0), np.array([[4, 4, 4]]), np.array([[1.0, 1.0, 1.0]]))
    laws = stats.beta([3.0, 6.0, 3.0], [6.0, 4.0, 6.0])
    assert laws.cdf(posterior.quantile(0.3)[0]) == pytest.approx([0.3] * 3, abs=LARGEST_ERROR)


COORDINATES = [
    Coordinate(0.0, 1.0),
    Coordinate(-2.0, 5.0),
    Coordinate(1.0, inf, 0.0, 3.0),
    Coordinate(-inf, 2.0, 0.0, 0.5),
    Coordinate(-inf, inf, 4.0, 2.0),
]
every_coordinate = pytest.mark.parametrize("coordinate", COORDINATES, ids=str)
U = np.linspace(-8.0, 8.0, 33)


@every_coordinate
def test_positions_are_where_means_lie(coordinate):
    assert coordinate.positions(coordinate.means(U)) == pytest.approx(U, abs=1e-9)
    assert (np.diff(coordinate.means(U)) > 0).all()


@every_coordinate
def test_slopes_are_those_of_the_means(coordinate):
    step = 1e-5
    slopes = (coordinate.means(U + step) - coordinate.means(U - step)) / (2 * step)
    assert coordinate.log_slope(U) == pytest.approx(np.log(slopes), abs=1e-5)


@every_coordinate
def test_means_stay_inside_up_to_the_limits(coordinate):
    low, high = coordinate.means(coordinate.limits)
    assert coordinate.low < low < high < coordinate.high
    assert coordinate.positions(np.array([coordinate.low, coordinate.high])) == pytest.approx(
        coordinate.limits
    )
    room = 8 * np.finfo(float).eps
    for end, near in ((coordinate.low, low), (coordinate.high, high)):
        if math.isfinite(end):
            assert abs(end - near) == pytest.approx(max(room * abs(end), 1e-300), rel=0.2)
        else:
            assert 1e149 < abs(near) < 1e151


def test_rests_are_what_is_left_of_an_interval():
    coordinate = Coordinate(-2.0, 5.0)
    assert coordinate.rests(U) == pytest.approx(5.0 - coordinate.means(U))
    assert coordinate.rests(np.array([100.0]))[0] == pytest.approx(7 * math.exp(-100))


@pytest.mark.parametrize(
    ("support", "expected"),
    [
        ([[0.0, 1.0], [-1.0, 0.5]], Coordinate(-1.0, 1.0, 0.3, 1.3)),
        ([[0.0, inf], [0.0, 1.0]], Coordinate(0.0, inf, 0.3, 0.3)),
        ([[-inf, 2.0]] * 2, Coordinate(-inf, 2.0, 0.3, 1.7)),
        ([[-inf, inf]] * 2, Coordinate(-inf, inf, 0.3, 0.075)),
    ],
)
def test_coordinates_are_centred_and_scaled_by_medians_of_draws(support, expected):
    draws = np.array([[0.1, 0.3], [0.2, 0.4], [0.3, 0.35]])
    found = make_coordinate(np.array(support), draws)
    assert (found.low, found.high) == (expected.low, expected.high)
    assert (found.centre, found.scale) == pytest.approx((expected.centre, expected.scale))


def test_first_edges_run_from_limit_to_limit_over_the_means_given():
    coordinate = Coordinate(0.0, 1.0)
    edges = first_edges(coordinate, np.array([0.25, 0.9]))
    assert (np.diff(edges) > 0).all()
    assert edges[[0, -1]] == pytest.approx(coordinate.limits)
    for u in (-math.log(3), math.log(9), 0.0, 0.5, 1.0, 2.0, 4.0, -0.5, -1.0, -16.0):
        assert abs(edges - u).min() < 1e-12


def test_priors_are_nothing_outside_their_support():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1, 0.2, 0.8), 2)
    means = np.array([[0.1, 0.5], [0.2, 0.8], [0.9, 0.81]])
    is_inside = np.isfinite(log_prior(problem, problem.arm_support(), means))
    assert is_inside.tolist() == [[False, True], [True, True], [False, False]]


@pytest.mark.parametrize("value", [np.nan, inf])
def test_densities_that_are_none_are_refused_by_arm_and_mean(value):
    values, means = np.zeros((3, 2)), np.arange(6.0).reshape(3, 2)
    require_density("density", values, means)
    values[1, 1] = value
    with pytest.raises(ValueError, match=f"got {value} for arm 1 at the mean 3.0"):
        require_density("density", values, means)


C = np.array([2.0, 3.0, 1.0, -4.0, -0.1])
TARGET = chains.GibbsTarget(
    coefficients=np.array([[C, 2 * C, [5.0, 1.0, 0.0, 0.0, 0.0]]]),
    widths=np.array([[0.2, 0.3, 0.4]]),
    mean=np.array([0.4, 0.5, 0.6]),
    precision=np.array([[9.0, -3.0, 1.0], [-3.0, 8.0, -2.0], [1.0, -2.0, 7.0]]),
    box=np.array([[0.0, 1.0], [0.1, 0.9], [0.0, 0.95]]),
)
MEANS, AXIS = np.array([0.3, 0.6, 0.5]), np.array([0.2, 0.0, -0.1])


def posterior_log_density(means):
    """Return log prior + log likelihood of (K,) means in lane 0, as they stand."""
    features = np.array([np.log(means), np.log1p(-means), means, means**2, 1 / means])
    off = means - TARGET.mean
    return (TARGET.coefficients[0].T * features).sum() - 0.5 * off @ TARGET.precision @ off


@pytest.mark.parametrize("arm", [0, 1, 2])
def test_the_density_of_an_arm_given_the_others_is_the_joint_one_up_to_a_constant(arm):
    c = np.empty(5)
    chains.condition(TARGET, 0, arm, MEANS, c)
    gaps = []
    for x in (0.2, 0.45, 0.8):
        moved = MEANS.copy()
        moved[arm] = x
        gaps.append(chains.log_density(c, x) - posterior_log_density(moved))
    assert gaps == pytest.approx([gaps[0]] * 3)


def test_the_density_along_an_axis_is_the_joint_one_where_the_axis_is_of_unit_length():
    """Under the prior, as principal axes are: axis . precision . axis = 1."""
    axis = AXIS / math.sqrt(AXIS @ TARGET.precision @ AXIS)
    pull = chains.pull_along(MEANS, axis, TARGET)
    found = [
        chains.log_density_along(t, pull, MEANS, axis, TARGET.coefficients[0])
        - posterior_log_density(MEANS + t * axis)
        for t in (-0.5, 0.0, 0.4)
    ]
    assert found == pytest.approx([found[0]] * 3)


def test_a_line_ends_where_the_first_arm_leaves_the_box():
    low, high = chains.ends_along(MEANS, AXIS, TARGET.box)
    assert (low, high) == pytest.approx((-1.5, 3.5))  # 0.3 down at 0.2 a step; 0.7 up
    low, high = chains.ends_along(MEANS, np.array([0.0, 0.1, 0.1]), TARGET.box)
    assert (low, high) == pytest.approx((-5.0, 3.0))


def test_widths_along_an_axis_add_up_information():
    own = np.maximum(4 / TARGET.widths[0] ** 2 - np.diag(TARGET.precision), 0)
    expected = 2 / math.sqrt(1 + (AXIS**2 * own).sum())
    assert chains.width_along(AXIS, TARGET, 0) == pytest.approx(expected)


def test_principal_axes_are_one_standard_deviation_long():
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    axes = chains.principal_axes(covariance)
    assert axes.T @ axes == pytest.approx(covariance)
    assert axes @ np.linalg.inv(covariance) @ axes.T == pytest.approx(np.eye(2))
