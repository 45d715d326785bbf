"""Particles that cannot vouch for what they hold say so, and those that can do not."""

import numpy as np
import pytest

from agents import SMCThompson
from agents.oracle import action_probabilities
from agents.posteriors.lineage import count_draws, is_noisy, label
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture
from bandit_gym.problem import BanditProblem

COPIES = {"resampling": "systematic"}
MOVED = COPIES | {"move": "random-walk"}
VAGUE = BanditProblem(Gaussian(), Normal(0.0, 1e4), 3)
PLAIN = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 3)


def started(problem, options, counts, sums, num_lanes=20):
    agent = SMCThompson(problem, **options)
    agent.reset(num_lanes, seed=0)
    agent.warm_start(counts, sums)
    agent.act()
    return agent


def distances(agent):
    """Return the (N,) total variation of each lane's law from the oracle's."""
    truth = action_probabilities(agent.problem, agent.counts[0], agent.sums[0])
    return np.abs(agent.action_probabilities() - truth).sum(axis=1) / 2


def is_unreliable(agent):
    return agent.diagnostics()["is_unreliable"]


def test_a_family_that_forgot_its_ancestor_is_worth_its_members(rng):
    families = np.arange(1000)[None] // 20
    worth, num_families = count_draws(families, rng.integers(2, size=(1, 1000)))
    # 50 squares, each of variance 2 about 1: a standard error of sqrt(2 / 50), of which we take 4
    assert 1000 / (1 + 4 * np.sqrt(2 / 50)) <= worth[0] <= 1000
    assert num_families[0] == pytest.approx(50)


def test_a_family_that_stayed_is_worth_one_draw(rng):
    families = np.arange(1000)[None] // 20
    labels = np.repeat(np.arange(50) % 2, 20)[None]
    assert count_draws(families, labels)[0][0] == pytest.approx(50)


def test_families_count_by_their_sizes():
    families = np.repeat([3, 7], [900, 100])[None]
    size = count_draws(families, np.zeros((1, 1000), dtype=int))[1][0]
    assert size == pytest.approx(1 / (0.9**2 + 0.1**2))


def test_the_expected_distance_of_independent_draws_is_that_of_equal_arms(rng):
    """At n draws of K equal arms; noisy beyond an excess of 0.04 over P draws."""
    draws = rng.multinomial(300, np.full(10, 0.1), size=20_000) / 300
    found = np.abs(draws - 0.1).sum(axis=1) / 2
    expected = np.sqrt(9 / (2 * np.pi * 300))
    assert abs(found.mean() - expected) < 0.01 * expected + 4 * found.std() / np.sqrt(len(found))
    reference = 1 / (1 / np.sqrt(300) - 0.04 / np.sqrt(9 / (2 * np.pi))) ** 2
    assert is_noisy(1 / 300, reference * 1.01, 10)
    assert not is_noisy(1 / 300, reference * 0.99, 10)


def test_moved_particles_are_right_under_a_vague_prior_at_once_and_by_steps():
    agent = started(VAGUE, MOVED, [10, 10, 10], [1000.0, 1003.0, 1005.0])
    noise = np.sqrt(2 / (2 * np.pi * 1000))  # of as many independent draws, at most
    assert distances(agent).mean() < 0.02 + noise and not is_unreliable(agent).any()
    agent.reset(20, seed=1)
    for step in range(30):
        agent.observe(np.full(20, step % 3), np.full(20, 100.0 + (0.0, 0.3, 0.5)[step % 3]))
        agent.act()
    assert distances(agent).mean() < 0.02 + noise and not is_unreliable(agent).any()


@pytest.mark.parametrize("options", [{}, COPIES], ids=["weights", "copies"])
def test_collapse_under_a_vague_prior_is_flagged(options):
    agent = started(VAGUE, options, [10, 10, 10], [3.0, 9.0, 6.0])
    assert distances(agent).mean() > 0.2 and is_unreliable(agent).all()


def test_one_surviving_particle_is_flagged_though_it_is_possible():
    agent = started(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), {}, [10**6] * 2, [5e5, 4.999e5])
    told = agent.diagnostics()
    assert not told["is_degenerate"].any() and told["is_unreliable"].all()


@pytest.mark.parametrize("options", [{}, MOVED], ids=["paper", "moved"])
def test_a_rare_camp_is_flagged_even_where_no_particle_is_in_it(options):
    prior = Mixture([Beta(20.0, 20.0), TruncatedNormal(0.97, 0.003)], [1 - 1e-5, 1e-5])
    agent = started(BanditProblem(Bernoulli(), prior, 2), options, [30, 1000], [30, 970])
    assert is_unreliable(agent).all()


def test_camps_that_moves_do_not_join_are_flagged_where_one_wide_camp_is_not():
    teeth = [TruncatedNormal(place, 1e-4) for place in (np.arange(40) + 0.5) / 40]
    comb, options = Mixture(teeth, [1.0] * 40), MOVED | {"num_particles": 200}
    data = [10_000] * 2, [5003, 4980]
    flagged = [
        is_unreliable(started(BanditProblem(Bernoulli(), prior, 2), options, *data)).mean()
        for prior in (comb, Beta(1.0, 1.0))
    ]
    assert flagged[0] > 0.9 and flagged[1] < 0.1


def test_a_spike_that_holds_all_particles_is_flagged_where_one_beside_it_would_outweigh_them():
    """The data are 4 standard errors from the spike: a part in a thousand of the prior fits better.

    Half of the particles are in the spike, so that nothing calls for a renewal.
    """
    prior = Mixture([TruncatedNormal(0.5, 1e-7), Beta(1.0, 1.0)], [0.5, 0.5])
    problem, options = BanditProblem(Bernoulli(), prior, 2), MOVED | {"num_particles": 100}
    agent = started(problem, options, [10**6] * 2, [502_000.0, 502_100.0], 40)
    is_stuck = (agent.inner.lineage._num_families == 100).all(axis=1)
    assert is_stuck.sum() > 5 and is_unreliable(agent)[is_stuck].all()
    assert distances(agent)[is_stuck].mean() > 0.05


@pytest.mark.parametrize("options", [{}, MOVED], ids=["paper", "moved"])
def test_little_data_flag_nothing(options):
    assert not is_unreliable(started(PLAIN, options, [4, 3, 2], [2.0, 1, 1])).any()


def test_ordinary_data_flag_no_moved_particles():
    assert not is_unreliable(started(PLAIN, MOVED, [4000, 60, 40], [2400.0, 33, 22])).any()


def test_rewards_beyond_what_numbers_tell_apart_are_flagged():
    problem = BanditProblem(Gaussian(), TruncatedNormal(0.0, 1.0, -1.0, 1.0), 2)
    assert is_unreliable(started(problem, MOVED, [5, 5], [5e9, 1e10])).all()


def test_data_that_outrun_the_moves_are_flagged_until_the_lane_begins_anew():
    size = 40
    covariance = (0.04 * (0.5 * np.eye(size) + 0.5)).tolist()
    problem = BanditProblem(Bernoulli(), TruncatedMultivariateNormal(0.5, covariance), size)
    agent = started(problem, MOVED | {"num_particles": 100}, [10_000] * size, [5000.0] * size, 2)
    assert agent.inner.lineage.is_capped.all() and is_unreliable(agent).all()
    agent.reset_lanes(np.array([True, False]))
    agent.act()
    assert is_unreliable(agent).tolist() == [False, True]


def test_labels_of_one_arm_are_half_deviations_from_the_average():
    means = np.array([-2.0, -1.3, -0.8, -0.2, 0.3, 0.9, 1.2, 1.9])
    means = 5.0 + 3.0 * (means - means.mean()) / means.std()
    halves = np.floor((means - 5.0) / 1.5)
    assert label(means[None, :, None])[0].tolist() == (np.clip(halves, -4, 3) + 4).tolist()
