"""Posteriors in small cases that run as plain Python too: known laws, and parts by hand."""

import math
from math import inf

import numpy as np
import pytest
from scipy import integrate, stats

from agents.posteriors import chains, conditionals
from agents.posteriors.cells import log_prior, make_cells
from agents.posteriors.coordinate import Coordinate, mean_at, position_of
from agents.posteriors.gibbs import NUM_SUMMARY_SWEEPS, GibbsPosterior
from agents.posteriors.grid import GridPosterior
from agents.posteriors.moves import step_directions
from agents.posteriors.particles import ParticlePosterior
from agents.posteriors.tables import LARGEST_ERROR
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import (
    Beta,
    Gamma,
    InverseGamma,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
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
    """To twice what tables say of themselves, which is less than they promise."""
    counts, sums = (
        np.array(column)[:, None].repeat(2, axis=1) for column in zip(*DATA, strict=True)
    )
    posterior, law = follow(name, counts, sums)
    assert not posterior.is_unreliable().any()
    assert (posterior.tables.errors < LARGEST_ERROR).all()
    for p in LEVELS:
        found = posterior.quantile(p)
        for lane, (n, s) in enumerate(DATA):
            error = 2 * posterior.tables.errors[lane] + 1e-5
            assert (abs(law(n, s).cdf(found[lane]) - p) < error).all()
    for lane, (n, s) in enumerate(DATA):
        mean, std = law(n, s).mean(), law(n, s).std()
        assert posterior.mean()[lane] == pytest.approx([mean] * 2, abs=1e-3 * std)
        assert posterior.std()[lane] == pytest.approx([std] * 2, rel=5e-3)


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
    found = Coordinate.of_draws(np.array(support), draws)
    assert (found.low, found.high) == (expected.low, expected.high)
    assert (found.centre, found.scale) == pytest.approx((expected.centre, expected.scale))


def test_priors_are_nothing_outside_their_support():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1, 0.2, 0.8), 2)
    means = np.array([[0.1, 0.5], [0.2, 0.8], [0.9, 0.81]])
    is_inside = np.isfinite(log_prior(problem, problem.arm_support(), means))
    assert is_inside.tolist() == [[False, True], [True, True], [False, False]]


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


def test_the_density_along_an_axis_is_the_joint_one_up_to_a_constant():
    push = TARGET.precision @ AXIS
    line = chains.Line(
        MEANS, AXIS, TARGET.coefficients[0], push @ (MEANS - TARGET.mean), push @ AXIS
    )
    gaps = [
        chains.log_density_along(t, line) - posterior_log_density(MEANS + t * AXIS)
        for t in (-0.9, 0.0, 1.3)
    ]
    assert gaps == pytest.approx([gaps[0]] * 3)


def test_a_line_ends_where_the_first_arm_leaves_the_box():
    low, high = chains.ends_along(MEANS, AXIS, TARGET.box)
    assert (low, high) == pytest.approx((-1.5, 3.5))  # 0.3 down at 0.2 a step; 0.7 up
    low, high = chains.ends_along(MEANS, np.array([0.0, 0.1, 0.1]), TARGET.box)
    assert (low, high) == pytest.approx((-5.0, 3.0))


def test_principal_axes_are_one_standard_deviation_of_the_posterior_long():
    """Under precision plus information: of length one and at right angles, and all there is."""
    precision, information = TARGET.precision, np.array([[0.0, 4.0, 1.0], [90.0, 0.0, 0.0]])
    axes = chains.principal_axes(precision, information)
    for lane, own in enumerate(information):
        steps, whole = axes.steps[lane], precision + np.diag(own)
        assert steps @ whole @ steps.T == pytest.approx(np.eye(3), abs=1e-12)
        assert steps.T @ steps == pytest.approx(np.linalg.inv(whole))
        assert axes.pushes[lane] == pytest.approx(steps @ precision)
        assert axes.curvatures[lane] == pytest.approx(np.diag(steps @ precision @ steps.T))


NUM_PARTICLES = 200
PARTICLE_PROBLEM = BanditProblem(Bernoulli(), Beta(2.0, 3.0), 3)
COUNTS, SUMS = np.array([[3, 1, 0], [0, 2, 5]]), np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 4.0]])


def start_particles(seed=5, schedule=(NUM_PARTICLES,), **options):
    """Return particles of two lanes, and the (2, P, K) draws of the prior that they start from."""
    posterior = ParticlePosterior(PARTICLE_PROBLEM, schedule, **options)
    posterior.restart(np.random.default_rng(seed), np.array([True, True]))
    draws = PARTICLE_PROBLEM.prior.sample(
        np.random.default_rng(seed), (2, max(schedule), PARTICLE_PROBLEM.num_arms)
    )
    return posterior, draws


def weigh(draws, counts, sums):
    """Return the (2, P) normalised likelihoods of draws, over all arms."""
    weights = (draws ** sums[:, None] * (1 - draws) ** (counts - sums)[:, None]).prod(axis=2)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("is_gradual", [False, True], ids=["at once", "one by one"])
def test_particles_are_weighed_by_the_likelihood(is_gradual):
    posterior, draws = start_particles()
    rng = np.random.default_rng(0)
    if is_gradual:
        for pulls in range(1, 6):
            counts = np.minimum(COUNTS, pulls)
            posterior.follow(rng, counts, np.minimum(SUMS, counts))
    posterior.follow(rng, COUNTS, SUMS)
    weights = weigh(draws, COUNTS, SUMS)
    mean = np.einsum("np,npk->nk", weights, draws)
    variance = np.einsum("np,npk->nk", weights, (draws - mean[:, None]) ** 2)
    assert posterior.mean() == pytest.approx(mean)
    assert posterior.std() == pytest.approx(np.sqrt(variance))
    assert posterior.effective_sample_size() == pytest.approx(1 / (weights**2).sum(axis=1))
    best = np.array(
        [np.bincount(d.argmax(axis=1), w, 3) for d, w in zip(draws, weights, strict=True)]
    )
    assert posterior.best_arm_probabilities() == pytest.approx(best)
    for p in (0.1, 0.5, np.array([[0.9], [0.3]])):
        found, levels = posterior.quantile(p), np.broadcast_to(p, (2, 3))
        for place in np.ndindex(2, 3):
            lane, arm = place
            below = weights[lane][draws[lane, :, arm] < found[place]].sum()
            upto = weights[lane][draws[lane, :, arm] <= found[place]].sum()
            assert below < levels[place] <= upto + 1e-12


def test_a_draw_is_one_of_the_particles_by_its_weight():
    """2000 draws of each lane: their mean is within 4 errors of the weighted one."""
    posterior, draws = start_particles()
    posterior.follow(np.random.default_rng(0), COUNTS, SUMS)
    rng = np.random.default_rng(1)
    found = np.array([posterior.sample(rng) for _ in range(2000)])
    assert all(np.isin(found[:, lane], draws[lane]).all() for lane in (0, 1))
    error = 4 * posterior.std() / math.sqrt(2000)
    assert (abs(found.mean(axis=0) - posterior.mean()) < error).all()


def test_as_many_particles_take_part_as_the_schedule_says():
    """After 4 and 7 pulls, of a schedule that holds on from 5 pulls on."""
    posterior, draws = start_particles(schedule=(10, 20, 30, 40, 50, 60))
    assert posterior.num_taking_part().tolist() == [10, 10]
    posterior.follow(np.random.default_rng(0), COUNTS, SUMS)
    assert posterior.num_taking_part().tolist() == [50, 60]
    for lane, size in enumerate((50, 60)):
        part = weigh(draws[:, :size], COUNTS, SUMS)[lane]
        assert posterior.mean()[lane] == pytest.approx(part @ draws[lane, :size])


def test_a_lane_that_starts_anew_leaves_the_others_alone():
    posterior, _ = start_particles()
    posterior.follow(np.random.default_rng(0), COUNTS, SUMS)
    before = posterior.mean()
    posterior.restart(np.random.default_rng(9), np.array([False, True]))
    counts, sums = COUNTS * [[1], [0]], SUMS * [[1], [0]]
    posterior.follow(np.random.default_rng(0), counts, sums)
    fresh = PARTICLE_PROBLEM.prior.sample(np.random.default_rng(9), (1, NUM_PARTICLES, 3))
    assert posterior.mean()[0] == pytest.approx(before[0])
    assert posterior.mean()[1] == pytest.approx(fresh[0].mean(axis=0))


@pytest.mark.parametrize("num_moves", [0, 4])
@pytest.mark.parametrize("prior", [Beta(2.0, 3.0), TruncatedNormal(0.4, 0.3)], ids=["beta", "cut"])
def test_resampled_particles_keep_the_law_of_the_posterior(prior, num_moves):
    """Arm 0 after 30 successes of 40, one at a time; SciPy integrates what is expected.

    4000 particles, renewed below half: an average is off by at most 4 errors of 1000 draws.
    """
    problem = BanditProblem(Bernoulli(), prior, 2)
    posterior = ParticlePosterior(
        problem, [4000], resampling="systematic", num_moves=num_moves, ess_threshold=0.5
    )
    rng = np.random.default_rng(0)
    posterior.restart(rng, np.array([True]))
    for pulls in range(1, 41):
        posterior.follow(rng, np.array([[pulls, 0]]), np.array([[pulls - pulls // 4, 0.0]]))
    x = np.linspace(0, 1, 20_001)[1:-1]
    density = np.exp(prior.arm_log_density(x[:, None])[:, 0]) * x**30 * (1 - x) ** 10
    density /= density.sum()
    mean = density @ x
    std = math.sqrt(density @ (x - mean) ** 2)
    assert abs(posterior.mean()[0, 0] - mean) < 4 * std / math.sqrt(1000)
    assert abs(posterior.std()[0, 0] / std - 1) < 4 * math.sqrt(0.5 / 1000)
    assert 2000 <= posterior.effective_sample_size()[0] <= 4000


def test_steps_along_principal_axes_are_one_deviation_long(rng):
    particles = rng.normal(size=(2, 500, 3)) @ rng.normal(size=(3, 3))
    covariance = np.array([np.cov(p, rowvar=False, bias=True) for p in particles])
    axes = step_directions(particles, is_along_axes=False)
    assert {axes.shape} == {(2, 3, 3)}
    for directions, c in zip(axes, covariance, strict=True):
        whitened = directions @ np.linalg.inv(c) @ directions.T
        assert np.diag(whitened) == pytest.approx(np.ones(3), rel=1e-3)
    along = step_directions(particles, is_along_axes=True)
    for directions, c in zip(along, covariance, strict=True):
        if np.count_nonzero(abs(directions) > 1e-12) == 3:
            expected = 1 / np.sqrt(np.diag(np.linalg.inv(c)))
            assert np.diag(directions) == pytest.approx(expected, rel=1e-3)


NORMAL_BOX = BanditProblem(
    Gaussian(0.5),
    TruncatedMultivariateNormal(
        0.5, [[0.09, 0.04, 0.0], [0.04, 0.16, 0.02], [0.0, 0.02, 0.04]], low=0.0, high=1.0
    ),
    3,
)


def accepted_draws(counts, sums, num=400_000):
    """Return (M, 3) exact draws of the posterior: of the untruncated normal, those in the box."""
    prior = NORMAL_BOX.prior
    precision = np.linalg.inv(prior.covariance) + np.diag(4.0 * counts)
    shift = np.linalg.solve(np.array(prior.covariance), np.full(3, 0.5)) + 4.0 * sums
    covariance = np.linalg.inv(precision)
    draws = np.random.default_rng(0).multivariate_normal(covariance @ shift, covariance, num)
    return draws[((draws > 0) & (draws < 1)).all(axis=1)]


def test_chains_tell_moments_quantiles_and_best_arms_of_the_posterior():
    """To a tenth of a deviation: a chain's own answers have an error of a few hundredths."""
    counts, sums = np.array([6, 3, 0]), np.array([4.0, 1.0, 0.0])
    posterior = GibbsPosterior(NORMAL_BOX, 4)
    rng = np.random.default_rng(0)
    posterior.restart(rng, np.array([True]))
    posterior.follow(rng, counts[None], sums[None])
    draws = accepted_draws(counts, sums)
    std = draws.std(axis=0)
    assert abs(posterior.mean()[0] - draws.mean(axis=0)).max() < 0.1 * std.min()
    assert posterior.std()[0] == pytest.approx(std, rel=0.1)
    for p in (0.1, 0.7):
        assert abs(posterior.quantile(p)[0] - np.quantile(draws, p, axis=0)).max() < 0.1 * std.max()
    best = np.bincount(draws.argmax(axis=1), minlength=3) / len(draws)
    error = 4 * math.sqrt(0.25 / NUM_SUMMARY_SWEEPS)
    assert posterior.best_arm_probabilities()[0] == pytest.approx(best, abs=error)


def test_chains_start_inside_the_box_near_the_data():
    posterior = GibbsPosterior(NORMAL_BOX, 4)
    posterior.restart(np.random.default_rng(0), np.ones(50, dtype=bool))
    start = posterior.sample(np.random.default_rng(0))
    assert ((start > 0) & (start < 1)).all()
    counts = np.tile([10**6, 0, 0], (50, 1))
    posterior.follow(np.random.default_rng(0), counts, counts * 0.25)
    assert posterior.sample(np.random.default_rng(0))[:, 0] == pytest.approx(0.25, abs=6 * 0.5e-3)


@every_coordinate
def test_compiled_positions_are_those_of_the_coordinate(coordinate):
    ends = np.array([coordinate.low, coordinate.high, coordinate.centre, coordinate.scale])
    u = np.linspace(-6.0, 6.0, 13)
    found = [position_of(ends, x) for x in coordinate.means(u)]
    assert found == pytest.approx(u, abs=1e-9)
    means = [mean_at(ends, place) for place in u]
    assert means == pytest.approx(coordinate.means(u), rel=1e-12)
    assert position_of(ends, coordinate.low) == -inf
    assert position_of(ends, coordinate.high) == inf


def test_conditional_densities_of_chains_are_sums_of_their_features():
    coefficients = np.array([[C, [0.0, 0.0, 1.0, 0.0, 0.0]]])
    x = np.array([[[0.2, 0.5, 0.8], [-1.0, 0.0, 2.0]]])
    found = conditionals._log_features(coefficients, x)
    expected = [chains.log_density(C, value) for value in x[0, 0]]
    assert found[0, 0] == pytest.approx(expected)
    assert found[0, 1] == pytest.approx([-1.0, 0.0, 2.0])


def test_cells_of_an_arm_run_over_its_own_support():
    prior = TruncatedNormal([0.15, 0.5], 0.1, [0.1, 0.4], [0.2, 0.95])
    coordinate, cells = make_cells(BanditProblem(Bernoulli(), prior, 2))
    for arm, ends in enumerate([(0.1, 0.2), (0.4, 0.95)]):
        edges = cells.edges[arm, : cells.sizes[arm] + 1]
        assert coordinate.means(edges[[0, -1]]) == pytest.approx(ends)
        assert (np.diff(edges) > 0).all()
