"""Exact Thompson sampling: its law against the oracle's, by every method."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from families import ALL_LIKELIHOODS
from scipy.special import expit, logsumexp
from scipy.stats import beta

from agents import ExactThompson
from agents.oracle import action_probabilities
from agents.posteriors.choosing import exact_method
from agents.posteriors.grid import GridPosterior
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import (
    Beta,
    InverseGamma,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout

NUM_LANES = 20_000
FEWER_LANES = 4000
"""Of chains, whose acts are dearer."""
PER_ARM = TruncatedNormal([0.4, 0.5, 0.7], 0.2, [0.2, 0.1, 0.3], [0.6, 0.8, 0.9])
CORRELATED = TruncatedMultivariateNormal(
    0.5, [[0.04, 0.03, 0.01], [0.03, 0.04, -0.01], [0.01, -0.01, 0.04]], 0.01, 0.99
)
FEW, MANY, HUGE = [1, 0, 3], [200, 300, 100], [10**6, 10**6, 2 * 10**4]


def follow(posterior, counts, sums):
    """Return the tables of a grid posterior for these statistics."""
    posterior.follow(np.random.default_rng(0), counts, sums)
    return posterior.tables


class Spikes:
    """A user's prior: half of the arms are at 0.3 or 0.7, within 0.001, the others anywhere."""

    def sample(self, rng, shape):
        spikes = rng.choice([0.3, 0.7], shape) + 0.001 * rng.standard_normal(shape)
        return np.where(rng.random(shape) < 0.5, spikes, rng.random(shape))

    def arm_log_density(self, means):
        z = (np.asarray(means)[..., None] - [0.3, 0.7]) / 0.001
        spikes = logsumexp(-0.5 * z**2, axis=-1) - np.log(4 * 0.001 * np.sqrt(2 * np.pi))
        return np.logaddexp(spikes, np.where((means >= 0) & (means <= 1), np.log(0.5), -np.inf))

    def log_density(self, means):
        return self.arm_log_density(means).sum(axis=-1)

    def arm_support(self, num_arms):
        return np.tile([0.0, 1.0], (num_arms, 1))


class Blocks(Spikes):
    """A user's prior with jumps: uniform on [0.1, 0.4] or on [0.6, 0.8]."""

    def sample(self, rng, shape):
        is_low, place = rng.random(shape) < 0.5, rng.random(shape)
        return np.where(is_low, 0.1 + 0.3 * place, 0.6 + 0.2 * place)

    def arm_log_density(self, means):
        x = np.asarray(means)
        density = ((x > 0.1) & (x < 0.4)) * 0.5 / 0.3 + ((x > 0.6) & (x < 0.8)) * 0.5 / 0.2
        with np.errstate(divide="ignore"):
            return np.log(density)


class Flat(Spikes):
    """A user's mistake: a density of 1 everywhere."""

    def sample(self, rng, shape):
        return rng.standard_normal(shape)

    def arm_log_density(self, means):
        return np.zeros(np.shape(means))

    def arm_support(self, num_arms):
        return np.tile([-np.inf, np.inf], (num_arms, 1))


class Shapeless(Spikes):
    """A user's mistake: the density of all arms at once."""

    def arm_log_density(self, means):
        return np.zeros(np.shape(means)[:-1])

    def log_density(self, means):
        return np.zeros(np.shape(means)[:-1])


def statistics(likelihood, counts):
    """Return (K,) counts and sums of rewards near 0.5, a little better for later arms."""
    counts = np.array(counts)
    gaps = np.array([0.0, 0.5, 1.0]) / np.sqrt(counts + 10)
    sums = counts * (0.5 + 0.5 * gaps)
    return counts, np.round(sums) if isinstance(likelihood, Bernoulli | Poisson) else sums


def frequencies(problem, counts, sums, num_acts=1, num_lanes=NUM_LANES, **options):
    agent = ExactThompson(problem, **options)
    agent.reset(num_lanes, seed=4)
    agent.warm_start(counts, sums)
    for _ in range(num_acts):
        actions = agent.act()
    return np.bincount(actions, minlength=problem.num_arms) / num_lanes


def assert_frequencies(seen, expected, error=0.0, num_lanes=NUM_LANES):
    """Compare with multinomial frequencies: 4 standard deviations, and one lane for rare arms."""
    std = np.sqrt(expected * (1 - expected) / num_lanes)
    assert (np.abs(seen - expected) <= 4 * std + 1 / num_lanes + error).all(), (seen, expected)


def make_problem(likelihood, prior):
    return BanditProblem(likelihood, prior, 3)


@pytest.mark.parametrize("counts", [FEW, MANY, HUGE], ids=["few", "many", "huge"])
@pytest.mark.parametrize(
    ("likelihood", "prior"),
    [
        (Bernoulli(), PER_ARM),
        (Bernoulli(), Spikes()),
        (Bernoulli(), Blocks()),
        (Exponential(), TruncatedNormal(0.5, 0.3, 0.1, 4.0)),
        (Gaussian(), PER_ARM),
        (Gaussian(), Beta(0.5, 0.5)),
        (Poisson(), TruncatedNormal(0.5, 0.3, 0.1, 4.0)),
        (Poisson(), InverseGamma(3.0, [1.0, 1.2, 0.8])),
    ],
    ids=lambda part: type(part).__name__,
)
def test_grid_plays_with_exact_probabilities(likelihood, prior, counts):
    problem = make_problem(likelihood, prior)
    counts, sums = statistics(likelihood, counts)
    seen = frequencies(problem, counts, sums)
    assert_frequencies(seen, action_probabilities(problem, counts, sums))


@pytest.mark.parametrize("counts", [FEW, MANY], ids=["few", "many"])
def test_grid_equals_conjugate_in_law(conjugate_problem, counts):
    problem = BanditProblem(conjugate_problem.likelihood, conjugate_problem.prior, 3)
    counts, sums = statistics(problem.likelihood, counts)
    seen = frequencies(problem, counts, sums, method="grid")
    assert_frequencies(seen, action_probabilities(problem, counts, sums))
    other = frequencies(problem, counts, sums, method="conjugate")
    std = np.sqrt(2 * seen * (1 - seen) / NUM_LANES)
    assert (np.abs(seen - other) <= 4 * std + 1 / NUM_LANES).all()


@pytest.mark.parametrize("count", [0, 1, 10**3, 10**6])
def test_grid_table_holds_the_beta_distribution(count):
    problem = make_problem(Bernoulli(), Beta(2.0, 3.0))
    sums = np.array([0.0, count // 3, count])
    points = follow(GridPosterior(problem), np.full((1, 3), count), sums[None]).points[0]
    for arm in range(3):
        posterior = beta(2 + sums[arm], 3 + count - sums[arm])
        truth = posterior.cdf(expit(points[arm, :, 1]))
        assert (
            np.abs(points[arm, :, 0] - truth).max() < 1e-3
        )  # promised in agents.posteriors.tables


def test_grid_follows_a_posterior_step_by_step():
    followed, anew = (GridPosterior(make_problem(Bernoulli(), PER_ARM)) for _ in range(2))
    counts, sums = np.zeros((1, 3), dtype=np.int64), np.zeros((1, 3))
    for arm, reward in [(0, 1.0), (1, 0.0), (1, 1.0), (2, 1.0)]:
        counts[0, arm] += 1
        sums[0, arm] += reward
        tables = follow(followed, counts, sums)
    np.testing.assert_array_equal(tables.points, follow(anew, counts, sums).points)


def test_grid_needs_no_arm_support():
    class Bare:
        prior = TruncatedNormal(0.4, 0.2, 0.2, 0.7)

        def sample(self, rng, shape):
            return self.prior.sample(rng, shape)

        def arm_log_density(self, means):
            return self.prior.arm_log_density(means)

        def log_density(self, means):
            return self.prior.log_density(means)

    counts, sums = statistics(Bernoulli(), MANY)
    seen = frequencies(make_problem(Bernoulli(), Bare()), counts, sums)
    truth = action_probabilities(make_problem(Bernoulli(), Bare.prior), counts, sums)
    assert_frequencies(seen, truth)


@pytest.mark.filterwarnings("ignore:prior.sample and prior.log_density")
def test_grid_refuses_a_prior_that_does_not_integrate():
    with pytest.raises(ValueError, match="must be a density that integrates.*arm 0"):
        ExactThompson(make_problem(Gaussian(), Flat()))


def test_grid_shows_the_shape_it_wants():
    with pytest.raises(ValueError, match=r"must return numbers of shape \(3,\), got shape \(\)"):
        ExactThompson(make_problem(Bernoulli(), Shapeless()))


def test_grid_refuses_impossible_data():
    agent = ExactThompson(make_problem(Gaussian(1e-3), PER_ARM))
    agent.reset(2, seed=0)
    agent.observe([0, 1], [0.5, 1e200])
    with pytest.raises(ValueError, match="arm 1 in lane 1 must be possible"):
        agent.act()
    agent.reset_lanes(np.array([False, True]))
    assert agent.act().shape == (2,)


@pytest.mark.parametrize("likelihood", ALL_LIKELIHOODS, ids=lambda likelihood: likelihood.name)
def test_gibbs_plays_with_exact_probabilities(likelihood):
    problem = make_problem(likelihood, CORRELATED)
    counts, sums = statistics(likelihood, [3, 20, 8])
    truth = action_probabilities(problem, counts, sums)
    seen = frequencies(problem, counts, sums, num_acts=5, num_lanes=FEWER_LANES)
    assert_frequencies(seen, truth, error=2e-3, num_lanes=FEWER_LANES)  # the oracle's own tolerance


@pytest.mark.parametrize("likelihood", [Bernoulli(), Gaussian()], ids=lambda part: part.name)
def test_gibbs_equals_grid_when_the_covariance_is_diagonal(likelihood):
    variances = np.array([0.04, 0.02, 0.06])
    dependent = TruncatedMultivariateNormal([0.4, 0.5, 0.6], np.diag(variances).tolist())
    same = TruncatedNormal([0.4, 0.5, 0.6], np.sqrt(variances).tolist())
    counts, sums = statistics(likelihood, FEW)
    seen = frequencies(
        make_problem(likelihood, dependent), counts, sums, num_acts=2, num_lanes=FEWER_LANES
    )
    truth = action_probabilities(make_problem(likelihood, same), counts, sums)
    assert_frequencies(seen, truth, num_lanes=FEWER_LANES)


def test_gibbs_gets_to_data_far_from_all_that_the_prior_draws():
    dependent = TruncatedMultivariateNormal(0.5, np.diag([0.04] * 3).tolist())
    counts, sums = [10**6] * 3, [1e-3, 1.001e-3, 0.9985e-3]
    far = make_problem(Exponential(), dependent)
    seen = frequencies(far, counts, sums, num_acts=2, num_lanes=FEWER_LANES)
    same = make_problem(Exponential(), TruncatedNormal(0.5, 0.2))
    assert_frequencies(seen, action_probabilities(same, counts, sums), num_lanes=FEWER_LANES)


def test_gibbs_follows_data_that_come_one_by_one():
    problem = make_problem(Bernoulli(), CORRELATED)
    agent = ExactThompson(problem)
    agent.reset(FEWER_LANES, seed=2)
    for arm, reward in [(0, 1.0), (2, 0.0), (1, 1.0), (0, 0.0), (1, 1.0), (1, 1.0)]:
        actions = agent.act()
        agent.observe(np.full(FEWER_LANES, arm), np.full(FEWER_LANES, reward))
    actions = agent.act()
    truth = action_probabilities(problem, agent.counts[0], agent.sums[0])
    seen = np.bincount(actions, minlength=3) / FEWER_LANES
    assert_frequencies(seen, truth, error=2e-3, num_lanes=FEWER_LANES)


def test_gibbs_keeps_up_under_a_nearly_singular_covariance():
    shared = 0.04 * (0.999 * np.ones((3, 3)) + np.diag([0.001, 0.002, 0.003]))
    problem = make_problem(Bernoulli(), TruncatedMultivariateNormal(0.5, shared.tolist()))
    counts, sums = statistics(Bernoulli(), FEW)
    seen = frequencies(problem, counts, sums, num_acts=2, num_lanes=FEWER_LANES)
    truth = action_probabilities(problem, counts, sums)
    assert_frequencies(seen, truth, error=2e-3, num_lanes=FEWER_LANES)


def test_gibbs_reset_lanes_restarts_only_those_chains():
    agent = ExactThompson(make_problem(Bernoulli(), CORRELATED))
    agent.reset(3, seed=0)
    agent.act()
    before = agent.inner._means.copy()
    agent.reset_lanes(np.array([False, True, False]))
    assert (agent.inner._means != before).all(axis=1).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("likelihood", "prior", "method"),
    [
        (Bernoulli(), Beta(2.0, 2.0), "conjugate"),
        (Gaussian(), Normal(0.0, 1.0), "conjugate"),
        (Bernoulli(), PER_ARM, "grid"),
        (Gaussian(), Beta(2.0, 2.0), "grid"),
        (Bernoulli(), Spikes(), "grid"),
        (Bernoulli(), CORRELATED, "gibbs"),
    ],
)
def test_auto_picks_a_method_and_says_which(likelihood, prior, method):
    problem = make_problem(likelihood, prior)
    assert exact_method(problem) == ExactThompson(problem).method == method


def test_auto_names_the_agents_for_a_prior_it_cannot_treat():
    class Dependent:
        def sample(self, rng, shape):
            return CORRELATED.sample(rng, shape)

        def log_density(self, means):
            return CORRELATED.log_density(means)

    with pytest.raises(ValueError, match="RacingThompson and SMCThompson take any prior"):
        ExactThompson(make_problem(Bernoulli(), Dependent()))


@pytest.mark.parametrize(
    ("prior", "options", "message"),
    [
        (PER_ARM, {"method": "conjugate"}, "must be conjugate to bernoulli rewards, a Beta"),
        (CORRELATED, {"method": "grid"}, "must offer arm_log_density"),
        (PER_ARM, {"method": "gibbs"}, "must be a TruncatedMultivariateNormal"),
        (PER_ARM, {"method": "grid", "prior": "reference"}, "method must be 'conjugate' where"),
        (PER_ARM, {"method": "grd"}, "grid"),
        (CORRELATED, {"num_sweeps": 0}, "num_sweeps must be"),
    ],
)
def test_exact_thompson_refuses_what_cannot_be(prior, options, message):
    with pytest.raises(ValueError, match=message):
        ExactThompson(make_problem(Bernoulli(), prior), **options)


@pytest.mark.parametrize("prior", [PER_ARM, CORRELATED, Spikes()], ids=["grid", "gibbs", "user"])
def test_exact_thompson_pickled_continues_bit_for_bit(prior):
    agent = ExactThompson(make_problem(Bernoulli(), prior))
    agent.reset(20, seed=0)
    agent.observe(agent.act(), np.ones(20))
    copy = pickle.loads(pickle.dumps(agent))
    for _ in range(3):
        actions = agent.act()
        assert (actions == copy.act()).all()
        agent.observe(actions, np.zeros(20))
        copy.observe(actions, np.zeros(20))


@pytest.mark.parametrize("prior", [PER_ARM, CORRELATED], ids=["grid", "gibbs"])
def test_exact_thompson_act_changes_no_statistics(prior):
    agent = ExactThompson(make_problem(Bernoulli(), prior))
    agent.reset(5, seed=0)
    agent.observe([0, 1, 2, 0, 1], np.ones(5), mask=np.array([True, True, False, True, True]))
    counts, sums = agent.counts.copy(), agent.sums.copy()
    agent.act()
    assert (agent.counts == counts).all() and (agent.sums == sums).all()


def test_grid_tables_that_are_copied_equal_those_that_are_built():
    # Arms 0 and 2 have one prior, arm 1 another.
    problem = BanditProblem(Bernoulli(), Beta([2.0, 5.0, 2.0], [2.0, 3.0, 2.0]), 3)
    counts = np.array([[3, 7, 3], [7, 3, 0], [3, 7, 7], [0, 0, 0], [3, 3, 3]])
    sums = np.array([[1, 4, 1], [4, 1, 0], [1, 4, 4], [0, 0, 0], [1, 1, 2.0]])
    together = follow(GridPosterior(problem), counts, sums)
    for lane in range(5):
        alone = follow(GridPosterior(problem), counts[[lane]], sums[[lane]])
        np.testing.assert_array_equal(together.points[lane], alone.points[0])
        np.testing.assert_array_equal(together.guides[lane], alone.guides[0])


def test_grid_has_room_for_many_arms():
    # Comparing all pairs of arms at draws of all of them would take 33 GB here.
    problem = BanditProblem(Bernoulli(), TruncatedNormal([0.2] * 400 + [0.8] * 400, 0.05), 800)
    agent = ExactThompson(problem, method="grid")
    agent.reset(20, seed=0)
    assert (agent.act() >= 400).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "regret", "half_width"),
    [("reference", 50.7, 0.8), ("problem", 47.6, 0.9)],
    ids=["uniform prior", "exact prior"],
)
def test_exact_thompson_reproduces_the_known_regret_in_a_beta_world(prior, regret, half_width):
    """Known from 2,000 replications of an independent implementation; half widths are of 95 %."""
    venv = gym.make_vec(
        "bandit_gym:BernoulliBandit-v0",
        num_envs=2000,
        num_arms=10,
        prior={"name": "beta", "alpha": 5.0, "beta": 5.0},
        max_episode_steps=1000,
    )
    agent = ExactThompson(venv.unwrapped.problem, prior=prior)
    found = rollout(agent, venv, seed=1).pseudo_regret.sum(axis=1)
    error = np.hypot(half_width / 1.96, found.std() / np.sqrt(2000))
    assert abs(found.mean() - regret) < 2.6 * error  # 1 % of correct programs would fail by chance
