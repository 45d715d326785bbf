"""Threads change nothing but the time."""

import numpy as np
import pytest
from surface import MOVED_SMC, limited_to

from agents import make_agent
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.problem import BanditProblem

BETA = BanditProblem(Bernoulli(), Beta(2.0, 3.0), 4)
TRUNCATED = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 4)
CASES = {
    "exact": (BETA, 2001, "exact", {}),
    "grid": (TRUNCATED, 1001, "exact", {}),
    "particles": (TRUNCATED, 90, "smc", {}),
    "renewed": (TRUNCATED, 30, MOVED_SMC[0], MOVED_SMC[1] | {"num_particles": 1000}),
}


def play(agent, num_lanes, numbers_of_threads):
    """Return the (6, N) actions of six steps of 0-1 rewards that depend on lane and arm alone."""
    rewards = np.random.default_rng(0).integers(2, size=(num_lanes, 4)).astype(float)
    lanes, found = np.arange(num_lanes), []
    agent.reset(num_lanes, seed=0)
    for num_threads in numbers_of_threads:
        with limited_to(num_threads):
            found.append(agent.act())
            agent.observe(found[-1], rewards[lanes, found[-1]])
    return np.array(found)


@pytest.mark.parametrize(("problem", "num_lanes", "name", "options"), CASES.values(), ids=CASES)
def test_actions_do_not_depend_on_the_number_of_threads(problem, num_lanes, name, options):
    agent = make_agent(name, problem, **options)
    alone = play(agent, num_lanes, [1] * 6)
    for numbers in ([2] * 6, [5] * 6, [1, 4, 2, 1, 3, 2]):
        assert (play(agent, num_lanes, numbers) == alone).all()
