"""What an agent holds of the arms, as heights over a range of means."""

from types import SimpleNamespace

import numpy as np
import pytest

from agents import UCB1, ExactThompson, SMCThompson
from bandit_gym.likelihoods import Bernoulli, Gaussian, Poisson
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem
from bandit_gym.watching.belief import NUM_CELLS, NUM_DRAWS, Belief, find_belief, find_range

PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
UNIT = (0.0, 1.0)


def told(agent_class, counts, sums, **options):
    agent = agent_class(PROBLEM, **options)
    agent.reset(num_envs=1, seed=0)
    agent.warm_start(counts, sums)
    return find_belief(agent, Bernoulli(), np.array(counts), np.array(sums))


def test_a_posterior_is_drawn_by_its_density_each_arm_to_its_own_height():
    belief = told(ExactThompson, [0, 4], [0, 3])
    flat, humped = belief.draw(UNIT)
    middles = (np.arange(NUM_CELLS) + 0.5) / NUM_CELLS
    np.testing.assert_allclose(flat, 1.0)
    density = middles**3 * (1 - middles)  # Beta(4, 2)
    np.testing.assert_allclose(humped, density / density.max())
    np.testing.assert_allclose(belief.centre, [1 / 2, 4 / 6])
    assert belief.name == "posterior, from the conjugate law"


def test_a_posterior_that_falls_between_the_cells_stands_at_its_mean():
    heights = told(ExactThompson, [10**12, 1], [5 * 10**11 + 10**10, 1]).draw(UNIT)[0]
    assert np.flatnonzero(heights).tolist() == [int(0.51 * NUM_CELLS)]
    assert heights.max() == 1.0


def test_draws_of_a_posterior_are_counted():
    belief = told(SMCThompson, [0, 40], [0, 30], num_particles=500)
    heights = belief.draw(UNIT)
    assert heights.max(axis=1).tolist() == [1.0, 1.0]
    middles = (np.arange(NUM_CELLS) + 0.5) / NUM_CELLS
    found = heights @ middles / heights.sum(axis=1)
    std = (belief.high - belief.low) / 6
    assert (abs(found - belief.centre) < 4 * std / NUM_DRAWS**0.5 + 0.5 / NUM_CELLS).all()


def test_a_rule_without_a_posterior_shows_averages_and_intervals():
    agent = UCB1(BanditProblem(Gaussian(), Beta(1.0, 1.0), 2))
    agent.reset(num_envs=1, seed=0)
    belief = find_belief(agent, Gaussian(), np.array([4, 0]), np.array([2.0, 0.0]))
    assert belief.name == "average, 95 % interval"
    np.testing.assert_allclose(belief.centre, [0.5, np.nan])
    half = 1.959964 / 2  # of a mean of four rewards of standard deviation 1
    np.testing.assert_allclose([belief.low[0], belief.high[0]], [0.5 - half, 0.5 + half], rtol=1e-6)
    seen, unseen = belief.draw((0.5 - 2 * half, 0.5 + 2 * half))
    inside = seen[NUM_CELLS // 4 : 3 * NUM_CELLS // 4]
    assert sorted(set(inside)) == [0.4, 1.0]
    assert seen.argmax() in (NUM_CELLS // 2 - 1, NUM_CELLS // 2)  # it lies on their edge
    assert seen[: NUM_CELLS // 4 - 1].max() == seen[3 * NUM_CELLS // 4 + 1 :].max() == 0.0
    assert unseen.max() == 0.0


@pytest.mark.parametrize(
    "agent",
    [
        SimpleNamespace(),
        SimpleNamespace(posterior=np.ones(2)),
        SimpleNamespace(posterior=lambda: np.ones(2)),
    ],
    ids=["none", "an array", "what returns an array"],
)
def test_another_posterior_of_somebodys_agent_is_left_alone(agent):
    belief = find_belief(agent, Bernoulli(), [1, 1], [0, 1])
    assert belief.name == "average, 95 % interval"


def flat_belief(low, high):
    return Belief("", np.zeros(2), np.array(low), np.array(high), lambda cells: np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("means", "likelihood", "before", "expected"),
    [
        ([0.4, 0.6], Bernoulli(), None, (0.3, 0.7)),
        ([0.2, 0.9], Bernoulli(), None, (0.0, 1.0)),
        ([-1.0, 3.0], Gaussian(), None, (-3.0, 5.0)),
        ([2.0, 2.0], Gaussian(std=0.5), None, (1.5, 2.5)),
        ([0.0, 0.0], Poisson(), None, (0.0, 1.0)),
        ([-1.0, 3.0], Gaussian(), (-4.0, 4.0), (-4.0, 5.0)),
        (None, Gaussian(), None, (-1.0, 3.0)),
    ],
    ids=["near", "wide", "real", "equal", "nothing", "before", "untold"],
)
def test_the_range_is_that_of_the_true_means_and_half_as_much_on_either_side(
    means, likelihood, before, expected
):
    belief = flat_belief([-1.0, -np.inf], [3.0, np.inf])
    told_means = None if means is None else np.array(means)
    np.testing.assert_allclose(find_range(told_means, belief, likelihood, before), expected)


def test_there_is_a_range_where_nothing_is_known():
    belief = flat_belief([-np.inf, np.nan], [np.inf, np.nan])
    assert find_range(None, belief, Gaussian(), None) == (-1.0, 1.0)
