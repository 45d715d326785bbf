"""What an agent is told: a problem, or an environment that has one."""

import gymnasium as gym
import pytest
from families import ALL_AGENTS
from surface import make_env

from agents import ExactThompson, RacingThompson, SMCThompson, make_agent
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(2.0, 3.0), 4)
WORLDS = {
    "single": lambda: make_env(PROBLEM),
    "wrapped": lambda: gym.wrappers.TimeAwareObservation(make_env(PROBLEM, horizon=9)),
    "vectorised": lambda: make_env(PROBLEM, 3),
    "vectorised, wrapped": lambda: gym.wrappers.vector.RecordEpisodeStatistics(
        make_env(PROBLEM, 3)
    ),
}


@pytest.mark.parametrize("world", WORLDS)
def test_an_agent_finds_the_problem_of_an_environment(world):
    for make in (ExactThompson, RacingThompson, RacingThompson.paper, SMCThompson.paper):
        assert make(WORLDS[world]()).problem == PROBLEM


def test_the_problem_may_be_named():
    assert repr(ExactThompson(problem=make_env(PROBLEM))) == repr(ExactThompson(PROBLEM))


@pytest.mark.parametrize("name", ALL_AGENTS)
def test_what_is_no_problem_and_has_none_is_refused(name):
    with pytest.raises(TypeError, match="problem must be a BanditProblem or an environment with"):
        make_agent(name, gym.make("CartPole-v1"))
    with pytest.raises(TypeError, match="problem must be a BanditProblem, got None"):
        make_agent(name, None)


@pytest.mark.parametrize("name", ALL_AGENTS)
def test_a_prior_stands_in_place_of_the_problems(name):
    as_dict = {"name": "beta", "alpha": 5, "beta": 5}
    for prior in (Beta(5.0, 5.0), as_dict, "reference"):
        agent = make_agent(name, make_env(PROBLEM), prior=prior)
        expected = Beta(1.0, 1.0) if prior == "reference" else Beta(5.0, 5.0)
        assert agent.problem == BanditProblem(Bernoulli(), expected, 4)
        assert "prior" not in agent.options()
