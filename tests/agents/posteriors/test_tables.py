"""Tables of posteriors where they are hard: spikes, holes, and data beyond all means."""

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy import stats
from scipy.special import betaln

from agents import ExactThompson
from agents.posteriors.cells import find_twins
from agents.posteriors.coordinate import Coordinate, position_of
from agents.posteriors.grid import GridPosterior
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian
from bandit_gym.priors import Beta, Mixture, Normal, TruncatedNormal
from bandit_gym.priors.mixtures import spike_and_slab
from bandit_gym.problem import BanditProblem

LEVELS = np.linspace(0.01, 0.99, 99)
PROMISE = 1e-3  # of `agents.posteriors.tables`


class Holed:
    """A user's prior: uniform on [0.1, 0.4] or on [0.6, 0.8], half of the mass on each."""

    support = (0.0, 1.0)

    def sample(self, rng, shape):
        is_low, place = rng.random(shape) < 0.5, rng.random(shape)
        return np.where(is_low, 0.1 + 0.3 * place, 0.6 + 0.2 * place)

    def arm_log_density(self, means):
        x = np.asarray(means)
        density = ((x > 0.1) & (x < 0.4)) * 0.5 / 0.3 + ((x > 0.6) & (x < 0.8)) * 0.5 / 0.2
        with np.errstate(divide="ignore"):
            return np.log(density)

    def log_density(self, means):
        return self.arm_log_density(means).sum(axis=-1)


def follow(problem, counts, sums):
    """Return the posterior of these (N, K) statistics."""
    posterior = GridPosterior(problem)
    posterior.follow(np.random.default_rng(0), np.asarray(counts), np.asarray(sums, dtype=float))
    return posterior


def reached(problem, pulls, total, scales, values):
    """Return the distribution function at values by Gauss-Legendre between points of all scales.

    Args:
        problem: with means in [0, 1].
        pulls: of the arm.
        total: of its rewards.
        scales: pairs of a centre and a width, around which points lie ever closer.
        values: (m,) increasing.
    """
    steps = np.concatenate([np.arange(0, 12, 0.25), 12 * 1.4 ** np.arange(40)])
    points = [centre + sign * width * steps for centre, width in scales for sign in (-1, 1)]
    ends = np.unique(np.clip(np.concatenate([*points, values, [0.0, 1.0]]), 0.0, 1.0))
    nodes, weights = leggauss(16)
    half = np.diff(ends)[:, None] / 2
    x = ends[:-1, None] + half * (1 + nodes)
    density = problem.prior.arm_log_density(x) + problem.likelihood.log_likelihood(x, pulls, total)
    mass = (np.exp(density - density.max()) * weights * half).sum(axis=1)
    distribution = np.concatenate([[0.0], np.cumsum(mass)]) / mass.sum()
    return distribution[np.searchsorted(ends, values)]


@pytest.mark.parametrize("width", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("pulls", [10, 1000, 32_152, 10**6, 10**8])
def test_spike_beside_a_slab_is_held_wherever_the_data_lie_or_flagged_if_narrow(width, pulls):
    problem = BanditProblem(Bernoulli(), spike_and_slab(0.5, width, Beta(1.0, 1.0), 0.5), 2)
    for errors in (0, 1, 2, 3, 4, 10):  # standard errors from the spike
        total = min(float(round(pulls / 2 + errors * np.sqrt(pulls) / 2)), pulls)
        shape = (len(LEVELS), 2)
        posterior = follow(problem, np.full(shape, pulls), np.full(shape, total))
        found = posterior.quantile(LEVELS[:, None])[:, 0]
        average, std = total / pulls, 0.5 / np.sqrt(pulls)
        truth = reached(problem, pulls, total, [(0.5, width), (average, std)], found)
        is_flagged = posterior.is_unreliable().all()
        assert is_flagged or np.abs(truth - LEVELS).max() < PROMISE
        assert not is_flagged or width < 1e-5


@pytest.mark.parametrize("width", [1e-7, 1e-9, 1e-10])
def test_what_is_wide_is_kept_or_flagged_however_high_the_spike_beside_it(width):
    """The spike is 10^10 times as high as a density that has 30 % of the mass."""
    prior = spike_and_slab(0.5, width, Beta(1.0, 1.0), 0.7)
    slab = 0.3 * np.exp(betaln(121, 81) + 200 * np.log(2))
    spike = 0.7 / (0.7 + slab)  # that the arm with 120 rewards of 200 has its mean in the spike
    wins = 0.7 * stats.beta.sf(0.5, 121, 81) + 0.3 * 121 / 202  # over an arm without data, if not
    found = follow(BanditProblem(Bernoulli(), prior, 2), [[200, 0]], [[120, 0]])
    law = found.best_arm_probabilities()[0, 0]
    is_right = abs(law - (0.5 * spike + wins * (1 - spike))) < 2 * PROMISE
    assert is_right or found.is_unreliable().all()


def test_density_is_that_of_the_law_where_it_is_conjugate_and_0_outside():
    """Of Beta(3, 5) and Beta(1, 1) from tables, whose density is a line between points."""
    found = follow(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), [[6, 0]], [[2, 0]])
    x = np.array([-0.1, 0.05, 0.3, 0.8, 1.1])
    truth = np.stack([stats.beta.pdf(x, 3, 5), stats.beta.pdf(x, 1, 1)], axis=1)
    np.testing.assert_allclose(found.density(x)[:, 0], truth, rtol=0.02, atol=1e-12)


@pytest.mark.parametrize(
    ("ends", "is_lost"),
    [((109.0, 0.5), False), ((109.0, 0.03), True), ((0.03, 109.0), False), ((0.003, 109.0), True)],
)
def test_lane_is_flagged_where_mass_lies_nearer_to_an_end_than_means_have_digits(ends, is_lost):
    """Means have 15 digits below 1, where (1e-15)^0.03 = 0.35, and 300 above 0: (1e-300)^0.003."""
    prior = Mixture((TruncatedNormal(0.5, 1e-4), Beta(*ends)), (0.9, 0.1))
    posterior = follow(BanditProblem(Bernoulli(), prior, 2), [[0, 0]], [[0, 0]])
    assert posterior.is_unreliable().tolist() == [is_lost]


def test_data_inside_a_hole_of_the_support_lie_at_its_edges():
    problem = BanditProblem(Bernoulli(), Holed(), 2)
    posterior = follow(problem, [[10**6, 10**6]], [[500_000, 500_250]])
    # Likelihoods are equal at 0.4 and 0.6 for arm 0, so that densities 5/3 and 5/2 decide.
    shares = np.array([5 / 3, 5 / 2]) / (5 / 3 + 5 / 2)
    slope = 5e5 / 0.4 - 5e5 / 0.6  # of the log-likelihood, away from the hole: 1 / slope beyond it
    expected = shares @ np.array([0.4 - 1 / slope, 0.6 + 1 / slope])
    assert posterior.mean()[0, 0] == pytest.approx(expected, abs=0.2 * PROMISE)
    assert posterior.mean()[0, 1] == pytest.approx(0.6, abs=0.2 * PROMISE)


@pytest.mark.parametrize("best", [0, 1, 2])
@pytest.mark.parametrize("reward", [1e9, 1e11, 1e13])
def test_arm_of_extreme_rewards_is_played(reward, best):
    agent = ExactThompson(BanditProblem(Gaussian(), TruncatedNormal(0.5, 0.2), 3))
    agent.reset(50, seed=0)
    sums = np.full(3, 1.5)
    sums[best] = reward
    agent.warm_start([3, 3, 3], sums)
    assert (agent.act() == best).all()


@pytest.mark.parametrize("reward", [1e9, 1e13])
def test_arms_of_extreme_rewards_are_played_by_the_law_at_the_end_of_the_support(reward):
    agent = ExactThompson(BanditProblem(Gaussian(), TruncatedNormal(0.5, 0.2), 3))
    num_lanes = 4000
    agent.reset(num_lanes, seed=0)
    agent.warm_start([1, 1, 1], [reward, 2 * reward, reward])
    # Distances from the end are exponential with rates in proportion to rewards: shares 1, 2, 1.
    share = np.mean(agent.act() == 1)
    assert share == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(num_lanes) + 2 * PROMISE)


@pytest.mark.parametrize("reward", [1e16, -1e16])
def test_lane_is_flagged_where_means_have_no_more_digits(reward):
    problem = BanditProblem(Gaussian(), TruncatedNormal(1.5, 0.2, 1.0, 2.0), 2)
    posterior = follow(problem, [[1, 1], [1, 1]], [[1.5, 1.5], [reward, 2 * reward]])
    assert posterior.is_unreliable().tolist() == [False, True]


def test_lane_is_flagged_where_the_prior_is_too_deep_to_be_known():
    problem = BanditProblem(Gaussian(), spike_and_slab(0.5, 1e-4, Normal(0.5, 1e-3), 0.5), 2)
    posterior = follow(problem, [[1, 1], [10**8, 10**8]], [[0.5, 0.5], [0.0, 0.6e8]])
    assert posterior.is_unreliable().tolist() == [False, True]


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_lane_is_flagged_where_all_its_mass_is_350_below_the_top_of_the_prior(side):
    """Prior and data of deviations 1e-3 and 1e-4 overlap from 0.65 deviations of the prior below.

    At 26.4 that is from 25.75^2 / 2 = 332 to 27.05^2 / 2 = 366 below: at one end alone too deep.
    """
    problem = BanditProblem(Gaussian(), Normal(0.0, 1e-3), 2)
    pulls = 10**8
    for deviations, is_flagged in ((25.0, False), (26.4, False), (28.0, True)):
        total = side * deviations * 1e-3 * (1 + 1e-2) * pulls  # the prior draws back by a hundredth
        posterior = follow(problem, [[pulls, pulls]], [[total, total]])
        assert posterior.is_unreliable().tolist() == [is_flagged]


def test_impossible_data_are_refused_and_leave_the_agent_as_it_was():
    problem = BanditProblem(Exponential(), TruncatedNormal(0.5, 0.1, 0.2, 0.8), 2)
    agent, other = ExactThompson(problem), ExactThompson(problem)
    for each in (agent, other):
        each.reset(2, seed=0)
        each.observe([0, 1], [0.5, 0.5])
    agent.warm_start([[0, 0], [0, 4]], [[0, 0], [0, 1e200]])
    with pytest.raises(ValueError, match=r"arm 1 in lane 1 .* got 5 rewards of total 1e\+200"):
        agent.act()
    agent.reset_lanes(np.array([False, True]))
    other.reset_lanes(np.array([False, True]))
    np.testing.assert_array_equal(agent.act(), other.act())


def test_arms_with_one_density_and_two_supports_are_no_twins():
    problem = BanditProblem(Bernoulli(), Beta(2.0, 2.0), 2)
    draws = np.full((4, 2), 0.5)
    same = find_twins(problem, np.array([[0.0, 1.0], [0.0, 1.0]]), draws)
    other = find_twins(problem, np.array([[0.0, 1.0], [0.0, 0.9]]), draws)
    assert (same.tolist(), other.tolist()) == ([0, 0], [0, 1])


@pytest.mark.parametrize(
    "ends", [(0.0, 1.0), (0.5, np.inf), (-np.inf, 2.0), (-np.inf, np.inf)], ids=str
)
def test_kernels_and_numpy_have_one_coordinate(ends):
    coordinate = Coordinate(*ends, 0.7, 3.0)
    for u in (-4.0, 0.3, 5.0):
        x = float(coordinate.means(np.array(u)))
        assert position_of(np.array([*ends, 0.7, 3.0]), x) == pytest.approx(u, rel=1e-9)
