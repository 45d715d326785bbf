"""Particles: schedules, data that fade, and the lanes that cannot vouch for themselves."""

import numpy as np
import pytest
from surface import started

from agents.oracle import action_probabilities
from bandit_gym.doubts import Doubt
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture
from bandit_gym.problem import BanditProblem, ContextualProblem

COLLAPSED, FEW = Doubt.PARTICLES_COLLAPSED, Doubt.FEW_EFFECTIVE_SAMPLES
PAPERS, COPIES = {"resampling": "never"}, {"move": "none"}
MOVED: dict = {}
VAGUE = BanditProblem(Gaussian(), Normal(0.0, 1e4), 3)
UNIFORM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
PLAIN = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 3)


def acted(problem, options, counts, sums, num_lanes=20):
    """Return an agent that has decided once after these data, of 1,000 particles by default."""
    options = {"num_particles": 1000} | options
    agent = started("smc", problem, num_lanes, counts, sums, **options)
    agent.act()
    return agent


def distances(agent, counts, sums):
    """Return the (N,) total variation of each lane's law from the oracle's."""
    truth = action_probabilities(agent.problem, counts, sums)
    return np.abs(agent.action_probabilities() - truth).sum(axis=1) / 2


def is_unreliable(agent):
    return agent.diagnostics()["is_unreliable"]


def test_a_schedule_says_how_many_particles_take_part():
    agent = started("smc_paper", UNIFORM, 2, num_particles=[5, 9, 3])
    seen = []
    for _ in range(4):
        agent.act()
        seen.append(agent.diagnostics()["num_samples"].tolist())
        agent.observe([0, 1], [1.0, 0.0])
    assert seen == [[5, 5], [9, 9], [3, 3], [3, 3]]


class Certain:
    """Every arm pays for certain."""

    support = (0.0, 1.0)

    def sample(self, rng, shape):
        return np.ones(shape)

    def log_density(self, means):
        return np.zeros(means.shape[:-1])


def test_the_reference_of_few_particles_is_their_average():
    agent = started("smc", UNIFORM, None, num_particles=12)
    means = agent._posterior._means
    means[:, -1] = 40.0  # what memory may hold
    agent.reset_lanes([True])
    np.testing.assert_allclose(means[:, -1], means[:, :-1].mean(axis=1), rtol=1e-12)


@pytest.mark.parametrize("features", [None, np.eye(2)], ids=["arms", "features"])
def test_an_interrupt_loses_no_data(features, monkeypatch):
    problem, told = UNIFORM, {}
    if features is not None:
        told = {"observation": features}
        problem = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 2, 2)
    agent = started("smc", problem, None)
    agent.warm_start([40, 40], [20.0, 10.0], **told)
    with monkeypatch.context() as patch:
        patch.setattr(agent._posterior, "_log_likelihood_gain", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            agent.act(features)
    agent.act(features)
    assert agent.action_probabilities(features)[0] > 0.9  # 0.5 of particles that know nothing


def test_data_that_no_particle_explains_are_told():
    problem = BanditProblem(Bernoulli(), Certain(), 3)
    agent = started("smc", problem, 2, num_particles=10)
    agent.observe([0, 1], [0.0, 1.0])
    agent.act()
    assert agent.diagnostics()["is_degenerate"].tolist() == [True, False]


@pytest.mark.parametrize("name", ["smc", "smc_paper"])
def test_two_halves_of_a_reward_are_no_success(name):
    """Their sum is a half of one pull, as which fast ways took it for a whole one: 2 in 3."""
    agent = started(name, UNIFORM, None, num_particles=5000)
    for reward in (1.0, 0.0):
        agent.observe(0, reward, weight=0.5)
    mean = agent.posterior().mean()[0]  # Beta(1.5, 1.5) has a deviation of 1/4
    assert abs(mean - 0.5) < 4 * 0.25 / 2000**0.5


def test_weights_fade_by_the_discount():
    """L_t = discount L_{t-1} + l(reward), as if particles were weighed by faded sums at once."""
    problem, rng = BanditProblem(Bernoulli(), Beta(2.0, 2.0), 2), np.random.default_rng(0)
    agent = started("smc", problem, 1, discount=0.8, **PAPERS | {"num_particles": 50})
    draws = agent.posterior().sample(20_000, seed=0)[:, 0]
    particles, counts, sums = np.unique(draws, axis=0), np.zeros(2), np.zeros(2)
    assert len(particles) == 50
    for _ in range(20):
        arm, reward = int(rng.integers(2)), float(rng.integers(2))
        agent.observe([arm], [reward])
        agent.act()
        counts, sums = 0.8 * counts, 0.8 * sums
        counts[arm] += 1
        sums[arm] += reward
    weights = (particles**sums * (1 - particles) ** (counts - sums)).prod(axis=1)
    expected = weights @ particles / weights.sum()
    np.testing.assert_allclose(agent.posterior().mean()[0], expected, atol=1e-9)


@pytest.mark.parametrize(
    "problem",
    [BanditProblem(Bernoulli(), Beta(2.0, 2.0), 2), BanditProblem(Gaussian(), Normal(1.0, 1.0), 2)],
    ids=["bernoulli", "gaussian"],
)
@pytest.mark.parametrize("options", [COPIES, MOVED], ids=["copies", "moved"])
def test_resampled_particles_follow_data_that_fade(options, problem):
    """The exact posterior's mean, within four errors of 1,000 particles at half of that size."""
    smc = started("smc", problem, None, discount=0.8, **{"num_particles": 2000} | options)
    exact = started("exact", problem, None, discount=0.8)
    for agent in (smc, exact):
        for t in range(30):
            agent.observe(t % 2, float(t % 3 == 0))
            agent.act()
    found, truth = smc.posterior(), exact.posterior()
    assert (abs(found.mean() - truth.mean()) < 4 * truth.std() / 1000**0.5).all()


@pytest.mark.parametrize("options", [PAPERS, MOVED], ids=["weighed", "moved"])
def test_diagnostics_are_those_of_the_last_act_whenever_they_are_asked_for(options):
    data = [300, 300, 300], [180.0, 120.0, 150.0]
    at_once, later = (acted(PLAIN, options | {"num_particles": 20}, *data) for _ in range(2))
    told = at_once.diagnostics()
    later.observe(np.zeros(20, dtype=int), np.ones(20))
    later.action_probabilities(), later.posterior().mean()
    later.reset_lanes(np.arange(20) < 10)
    for name, values in later.diagnostics().items():
        np.testing.assert_array_equal(values, told[name])


def test_data_that_have_faded_to_nothing_flag_nothing():
    """After 1,080 rewards of the other arm, an arm's only pull counts 0.5 ** 1080, which is 0."""
    agent = started("smc", UNIFORM, None, num_particles=200, discount=0.5)
    agent.observe(0, 1.0)
    for t in range(1080):
        agent.observe(1, float(t % 2))
        agent.act()
    assert agent.lane_counts[0, 0] == 0.0
    assert not agent.diagnostics()["is_unreliable"].any()


def assert_off_as_1000_draws(agent, counts, sums):
    """The average over lanes, four errors of its own beside what independent draws are off by."""
    noise = np.sqrt(2 / (2 * np.pi * 1000))  # at most, of three arms
    off = distances(agent, counts, sums)
    assert off.mean() < noise + 4 * off.std() / np.sqrt(off.size)
    assert not is_unreliable(agent).any()


def test_moved_particles_are_right_under_a_vague_prior_at_once_and_by_steps():
    data = [10, 10, 10], [1000.0, 1003.0, 1005.0]
    agent = acted(VAGUE, MOVED, *data)
    assert_off_as_1000_draws(agent, *data)
    agent.reset(20, seed=1)
    for step in range(30):
        agent.observe(np.full(20, step % 3), np.full(20, 100.0 + (0.0, 0.3, 0.5)[step % 3]))
        agent.act()
    assert_off_as_1000_draws(agent, *data)


RARE = Mixture([Beta(20.0, 20.0), TruncatedNormal(0.97, 0.003)], [1 - 1e-5, 1e-5])
COMB = Mixture([TruncatedNormal((i + 0.5) / 40, 1e-4) for i in range(40)], [1.0] * 40)
FLAGGED = {
    "collapsed weights": (VAGUE, PAPERS, [10, 10, 10], [3.0, 9.0, 6.0]),
    "collapsed copies": (VAGUE, COPIES, [10, 10, 10], [3.0, 9.0, 6.0]),
    "one survivor": (UNIFORM, PAPERS, [10**6] * 2, [5e5, 4.999e5]),
    "a rare camp, weighed": (BanditProblem(Bernoulli(), RARE, 2), PAPERS, [30, 1000], [30, 970]),
    "a rare camp, moved": (BanditProblem(Bernoulli(), RARE, 2), MOVED, [30, 1000], [30, 970]),
    "camps that moves do not join": (
        *(BanditProblem(Bernoulli(), COMB, 2), MOVED | {"num_particles": 200}),
        *([10_000] * 2, [5003, 4980]),
    ),
    "rewards beyond numbers": (
        *(BanditProblem(Gaussian(), TruncatedNormal(0.0, 1.0, -1.0, 1.0), 2), MOVED),
        *([5, 5], [5e9, 1e10]),
    ),
}
UNFLAGGED = {
    "little data, weighed": (PLAIN, PAPERS, [4, 3, 2], [2.0, 1, 1]),
    "little data, moved": (PLAIN, MOVED, [4, 3, 2], [2.0, 1, 1]),
    "ordinary data, moved": (PLAIN, MOVED, [4000, 60, 40], [2400.0, 33, 22]),
    "one wide camp": (UNIFORM, MOVED | {"num_particles": 200}, [10_000] * 2, [5003, 4980]),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_particles_that_cannot_vouch_for_themselves_are_flagged(name):
    told = acted(*FLAGGED[name]).diagnostics()
    np.testing.assert_array_equal(told["is_unreliable"], told["doubts"] != 0)
    expected = FEW if name == "rewards beyond numbers" else COLLAPSED
    assert ((told["doubts"] & expected) != 0).mean() > 0.9


@pytest.mark.parametrize("name", UNFLAGGED)
def test_particles_that_can_are_not(name):
    assert is_unreliable(acted(*UNFLAGGED[name])).mean() < 0.1


@pytest.mark.parametrize("mean", [0.0, 0.1, 8.0])
@pytest.mark.parametrize("std", [1.0, 0.5])
def test_two_modes_and_data_far_from_both_are_right_or_flagged(std, mean):
    modes = Mixture([Normal(-3.0, std), Normal(3.0, std)], [0.5, 0.5])
    data = [10, 10], [10 * mean, 10 * mean + 0.2]
    agent = acted(BanditProblem(Gaussian(), modes, 2), MOVED | {"num_particles": 500}, *data)
    off = distances(agent, *data)[~is_unreliable(agent)]
    noise = np.sqrt(0.5 / (np.pi * 500))  # of as many independent draws, for two equal arms
    assert off.sum() <= off.size * noise + 4 * noise * np.sqrt(off.size)


def test_data_that_outrun_the_moves_are_flagged_until_the_lane_begins_anew():
    size = 40
    covariance = (0.04 * (0.5 * np.eye(size) + 0.5)).tolist()
    problem = BanditProblem(Bernoulli(), TruncatedMultivariateNormal(0.5, covariance), size)
    options = MOVED | {"num_particles": 100}
    agent = acted(problem, options, [10_000] * size, [5000.0] * size, 2)
    assert is_unreliable(agent).all()
    agent.reset_lanes(np.array([True, False]))
    agent.act()
    assert is_unreliable(agent).tolist() == [False, True]


def test_particles_come_back_to_where_data_have_left():
    problem, num_lanes = BanditProblem(Bernoulli(), Beta(0.2, 0.2), 4), 40
    agents = [started(name, problem, num_lanes, window=5) for name in ("smc", "exact")]
    rng, means = np.random.default_rng(0), problem.prior.sample(np.random.default_rng(1), (40, 4))
    off = []
    for step in range(60):
        actions = agents[0].act()
        rewards = 1.0 * (rng.random(num_lanes) < means[np.arange(num_lanes), actions])
        for agent in agents:
            agent.act()
            agent.observe(actions, rewards)
        if step >= 20 and step % 4 == 0:
            first, second = (agent.action_probabilities() for agent in agents)
            off.append(np.abs(first - second).sum(axis=1) / 2)
    # As far off as 250 draws are on average, of four arms that are equally likely; and hardly ever
    # more than twice that.
    worst = np.sqrt(3 / (2 * np.pi * 250))
    assert np.mean(off) < worst
    assert np.mean(np.array(off) > 2 * worst) < 0.01
