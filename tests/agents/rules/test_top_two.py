import numpy as np
import pytest
from surface import started

from bandit_gym.likelihoods import Bernoulli, Exponential, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma
from bandit_gym.problem import BanditProblem


def test_challenger_of_a_sure_leader_is_the_arm_hardest_to_tell_from_it():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
    actions = started("top_two", problem, 200, [9000, 9000, 100], [8100, 4500, 50]).act()
    # both others have a mean of 1/2; the posterior of the one pulled less is wider
    assert set(actions.tolist()) == {0, 2}
    assert abs((actions == 0).mean() - 0.5) <= 4 * np.sqrt(0.25 / 200)


def test_leader_without_an_expectation_has_a_challenger():
    problem = BanditProblem(Exponential(), InverseGamma(0.5, 1.0), 2)
    actions = started("top_two", problem, 50, [0, 9], [0.0, 1e-9], max_draws=0).act()
    assert set(actions.tolist()) == {0, 1}


def test_probabilities_under_a_vague_prior_sum_to_one():
    problem = BanditProblem(Poisson(), Gamma(1e-3, 1e-3), 3)
    agent = started("top_two", problem, None, [1, 1, 1], [8.0, 0.0, 1.0])
    assert agent.action_probabilities() == pytest.approx(np.array([0.5, 0.0, 0.5]), abs=1e-3)
