"""What an agent is told: a problem, or an environment that has one."""

import gymnasium as gym
import pytest
from surface import make_world

from agents import ExactThompson, RacingThompson, SMCThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(2.0, 3.0), 4)
WORLDS = {
    "single": lambda: make_world(PROBLEM),
    "wrapped": lambda: gym.wrappers.TimeAwareObservation(make_world(PROBLEM, horizon=9)),
    "vectorised": lambda: make_world(PROBLEM, 3),
    "vectorised, wrapped": lambda: gym.wrappers.vector.RecordEpisodeStatistics(
        make_world(PROBLEM, 3)
    ),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    "make", [ExactThompson, RacingThompson, RacingThompson.paper, SMCThompson.paper]
)
def test_an_agent_finds_the_problem_of_an_environment(make, world):
    assert make(WORLDS[world]()).problem == PROBLEM


def test_the_problem_may_be_named():
    assert repr(ExactThompson(problem=make_world(PROBLEM))) == repr(ExactThompson(PROBLEM))


@pytest.mark.parametrize("make", [ExactThompson, RacingThompson, SMCThompson])
def test_an_environment_without_a_problem_is_refused(make):
    with pytest.raises(TypeError, match="problem must be a BanditProblem or an environment with"):
        make(gym.make("CartPole-v1"))
