import numpy as np
import pytest
from numpy.random import default_rng

from agents.optimum.predictive import predictive_means
from agents.optimum.pull_splits import worths
from agents.optimum.relaxations import _charges, draw_scenario, level_gains
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

UNIFORM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
UNLIKE = BanditProblem(Bernoulli(), Beta([1.0, 2.0], [3.0, 1.0]), 2)


def test_gain_of_a_level_is_by_how_much_a_success_raises_what_an_arm_is_worth_beyond_it():
    # T = 2, uniform: the mean is 2/3 after a success and 1/3 after a failure; c = 1/2, times T.
    means = predictive_means(UNIFORM, 2)
    assert level_gains(means, 0.5)[0, 0, 0] == pytest.approx(2 * (2 / 3 - 1 / 2))
    assert (level_gains(means, 0.5)[0, 1] == 0).all()  # the last pull's reward comes too late


@pytest.mark.parametrize("problem", [UNIFORM, UNLIKE])
def test_charges_are_what_worths_take_off(problem):
    horizon = 9
    means = predictive_means(problem, horizon)
    gains = np.stack([level_gains(means, level) for level in (0.4, 0.6)])
    sums = draw_scenario(problem, horizon, default_rng(0)).sums
    weights = np.array([0.3, -0.2])
    plain = worths(sums, means, np.zeros_like(means))
    charged = worths(sums, means, np.tensordot(weights, gains, axes=1))
    charges = np.tensordot(weights, _charges(sums, means, gains), axes=1)
    np.testing.assert_allclose(plain - charges, charged, atol=1e-12)


def test_charges_are_zero_on_average():
    horizon, num = 6, 4000
    means, rng = predictive_means(UNIFORM, horizon), default_rng(1)
    gains = level_gains(means, 0.5)[None]
    drawn = np.array([
        _charges(draw_scenario(UNIFORM, horizon, rng).sums, means, gains)[0, 0, -1]
        for _ in range(num)
    ])  # fmt: skip
    assert abs(drawn.mean()) < 4 * drawn.std() / np.sqrt(num)
