"""What an agent is told: a problem, or an environment that has one."""

from itertools import product

import gymnasium as gym
import pytest
from families import ALL_AGENTS
from surface import make_env

from agents import make_agent
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem
from bandit_gym.wrappers import BinaryReward

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
    for name in ("exact", "racing", "racing_paper", "smc_paper"):
        assert make_agent(name, WORLDS[world]()).problem == PROBLEM


def test_what_is_no_problem_and_has_none_is_refused():
    normalised = gym.wrappers.NormalizeReward(make_env(PROBLEM))
    sticky = gym.wrappers.StickyAction(make_env(PROBLEM), 0.5)
    others = [gym.make("CartPole-v1"), normalised, sticky, BinaryReward(normalised), None]
    others.append(gym.wrappers.MaxAndSkipObservation(make_env(PROBLEM)))
    if hasattr(gym.wrappers, "RepeatAction"):
        others.append(gym.wrappers.RepeatAction(make_env(PROBLEM), 3))
    for name, world in product(ALL_AGENTS, others):
        with pytest.raises(TypeError, match="problem must be a BanditProblem, got (<|None)"):
            make_agent(name, world)


def make_contextual():
    return gym.make("ContextualBandit-v0")


@pytest.mark.parametrize(
    "make",
    [
        lambda: gym.wrappers.NormalizeObservation(make_contextual()),
        lambda: gym.wrappers.DelayObservation(make_contextual(), 1),
        lambda: gym.wrappers.TimeLimit(
            gym.wrappers.RescaleObservation(make_contextual(), -1.0, 1.0), 9
        ),
        lambda: gym.vector.SyncVectorEnv(
            [lambda: gym.wrappers.NormalizeObservation(make_contextual())]
        ),
        lambda: gym.wrappers.vector.NormalizeObservation(gym.make_vec("ContextualBandit-v0")),
    ],
)
def test_the_problem_is_not_that_of_features_that_a_wrapper_changes(make):
    """Agents learned from other features than the environment's, without a word."""
    with pytest.raises(TypeError, match="problem must be a BanditProblem, got"):
        make_agent("racing", make())


def test_a_prior_stands_in_place_of_the_problems():
    own = Beta(5.0, 5.0)
    priors = (own, own), ({"name": "beta", "alpha": 5, "beta": 5}, own), ("reference", Beta(1, 1))
    for name, (prior, expected) in product(ALL_AGENTS, priors):
        agent = make_agent(name, make_env(PROBLEM), prior=prior)
        assert agent.problem == BanditProblem(Bernoulli(), expected, 4), name
        assert "prior" not in agent.options(), name
