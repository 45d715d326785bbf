import numpy as np
import pytest

from bandit_gym.experiments.entries import read_entries
from bandit_gym.fidelity.candidates import (
    SamplerAgent,
    best_arms,
    can_be_told,
    draw_means,
    find_sampler,
    rewards_that_add_up,
    tell_history,
)
from bandit_gym.likelihoods import Bernoulli, Exponential, Poisson
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
DATA = np.array([4, 0, 2]), np.array([3.0, 0.0, 1.0])


def draw(returned):
    rng = np.random.default_rng(0)
    return draw_means(lambda *_: returned, PROBLEM, DATA, rng, 2, "case 7")


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (np.full((2, 4), 0.5), r"'case 7' must have shape \(2, 3\), got \(2, 4\)\."),
        (np.full((1, 3), 0.5), r"'case 7' must have shape \(2, 3\), got \(1, 3\)\."),
        ([[0.5, np.nan, 0.5]] * 2, r"'case 7' must be finite, got nan\."),
        ([[0.5, 0.5, 1.5]] * 2, r"'case 7' must lie in the support of arm 2, \[0, 1\], got 1\.5\."),
        ("means", r"'case 7' must be numbers of shape \(2, 3\), got 'means'\."),
        (np.full((2, 3), "0.5"), r"'case 7' must be numbers of shape \(2, 3\), got array"),
        (np.full((2, 3), 0.5 + 0.1j), r"'case 7' must be numbers of shape \(2, 3\), got array"),
        (None, r"'case 7' must"),
    ],
)
def test_what_is_no_sample_is_refused_in_a_sentence_that_names_the_problem(returned, words):
    with pytest.raises(ValueError, match=words):
        draw(returned)


def test_samplers_cannot_spoil_the_data():
    def spoil(problem, counts, sums, rng, size):
        counts[:] = 0
        return np.full((size, 3), 0.5)

    draw_means(spoil, PROBLEM, DATA, np.random.default_rng(0), 2, "case")
    np.testing.assert_array_equal(DATA[0], [4, 0, 2])


def test_best_arms_breaks_ties_at_random():
    means = np.tile([0.2, 1.0, 1.0], (1000, 1))
    counts = np.bincount(best_arms(means, np.random.default_rng(0)), minlength=3)
    assert counts[0] == 0
    assert abs(counts[1] - 500) < 4 * (1000 / 4) ** 0.5


@pytest.mark.parametrize("likelihood", [Bernoulli(), Poisson(), Exponential()])
def test_rewards_add_up_and_are_possible(likelihood):
    counts = np.array([3, 0, 4])
    sums = np.array([2.0, 0.0, 4.0]) if likelihood.name != "poisson" else np.array([10.0, 0, 3])
    totals, pulls = np.zeros(3), np.zeros(3)
    for arm, reward in rewards_that_add_up(likelihood, counts, sums):
        assert likelihood.is_possible(reward)
        totals[arm] += reward
        pulls[arm] += 1
    np.testing.assert_array_equal(pulls, counts)
    np.testing.assert_allclose(totals, sums)


class Plain:
    """Has `observe` and no `warm_start`."""

    def __init__(self):
        self.seen = []

    def observe(self, action, reward, mask=None):
        self.seen.append((action.tolist(), reward.tolist()))


def test_agents_without_warm_start_are_shown_short_histories_only():
    agent = Plain()
    tell_history(agent, Bernoulli(), np.array([1, 1]), np.array([1.0, 0.0]), 2)
    assert agent.seen == [([0, 0], [1.0, 1.0]), ([1, 1], [0.0, 0.0])]
    assert can_be_told(agent, np.array([5000, 5000]))
    assert not can_be_told(agent, np.array([5000, 5001]))


def test_sampler_agent_gives_each_lane_its_own_data():
    def certain(problem, counts, sums, rng, size):
        return np.tile(sums / np.maximum(counts, 1), (size, 1))

    agent = SamplerAgent(PROBLEM, certain, "case")
    agent.reset(2, seed=0)
    agent.observe(np.array([0, 2]), np.array([1.0, 1.0]))
    np.testing.assert_array_equal(agent.act(), [0, 2])


def test_sampler_that_says_so_is_handed_the_data_of_all_lanes_in_a_call():
    shapes = []

    def certain(problem, counts, sums, rng, size):
        shapes.append((counts.shape, sums.shape, size))
        return np.broadcast_to(sums / np.maximum(counts, 1), (size, 3))

    certain.is_batched = True
    agent = SamplerAgent(PROBLEM, certain, "case")
    agent.reset(2, seed=0)
    agent.observe(np.array([0, 2]), np.array([1.0, 1.0]))
    np.testing.assert_array_equal(agent.act(), [0, 2])
    assert shapes == [((2, 3), (2, 3), 2)]


def test_sampler_keeps_what_it_says_of_itself_among_its_options():
    (entry,) = read_entries("agents", "agent", [{"agent": f"{__name__}:flat", "level": 0.5}])
    sampler = find_sampler(entry)
    assert sampler.is_batched
    assert (sampler(PROBLEM, *DATA, None, 2) == 0.5).all()


def flat(problem, counts, sums, rng, size, *, level):
    return np.full((size, 3), level)


flat.is_batched = True
