"""Agents that believe in another world than theirs: refused, warned of, or nothing to say."""

import warnings
from dataclasses import dataclass, replace

import gymnasium as gym
import numpy as np
import pytest

from agents import ExactThompson, UniformRandom
from bandit_gym.checks import find_problem
from bandit_gym.checks.fit import is_other
from bandit_gym.envs.bandit import BanditEnv
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, Normal, TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout

WORLD = BanditProblem(Bernoulli(), Beta(1, 1), 3)
NOISE = BanditProblem(Gaussian(1.0), Normal(0, 1), 3)
COUNTS = BanditProblem(Poisson(), Gamma(2, 1), 3)


def play(agent, problem=WORLD):
    return rollout(agent, BanditEnv(problem), seed=0, horizon=3)


@pytest.mark.parametrize(
    ("believed", "world"),
    [(WORLD, COUNTS), (BanditProblem(Exponential(), Gamma(2, 1), 3), NOISE)],
)
def test_an_agent_for_which_the_worlds_rewards_are_impossible_is_refused(believed, world):
    rule = "agent must believe in rewards that the environment pays, as .*, got"
    with pytest.raises(ValueError, match=rule):
        play(UniformRandom(believed), world)


def test_gaussian_thompson_sampling_on_bernoulli_rewards_is_warned_of_and_plays():
    agent = ExactThompson(BanditProblem(Gaussian(0.5), Normal(0.5, 1), 3))
    with pytest.warns(UserWarning, match="environment's likelihood, Bernoulli") as told:
        assert play(agent).rewards.shape == (1, 3)
    assert [warning.filename for warning in told] == [__file__]


def test_another_prior_is_said():
    rule = "agent must have the environment's prior, .*, got Beta.*; its results are those of a"
    with pytest.warns(UserWarning, match=rule):
        play(UniformRandom(replace(WORLD, prior=Beta(2, 1))))


def test_equal_problems_are_nothing_to_speak_of():
    covariance = [[1.0, 0.5], [0.5, 1.0]]
    first, second = (
        BanditProblem(Bernoulli(), TruncatedMultivariateNormal(0.5, covariance), 2) for _ in "ab"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        play(UniformRandom(first), second)


@dataclass(frozen=True)
class OfArrays:
    """A prior that does not compare: `==` of arrays is no bool."""

    edges: np.ndarray

    def sample(self, rng, shape):
        return rng.uniform(*self.edges, shape)

    def log_density(self, means):
        is_inside = (means >= self.edges[0]) & (means <= self.edges[1])
        return np.where(is_inside.all(axis=-1), 0.0, -np.inf)


class Nameless:
    """A prior that neither compares nor pickles."""

    def __init__(self):
        self.secret = lambda: None


def test_priors_of_ones_own_are_compared_by_content():
    first, same, other = (OfArrays(np.array([0.0, high])) for high in (1.0, 1.0, 0.5))
    assert [is_other(first, prior) for prior in (first, same, other)] == [False, False, True]


def test_of_what_cannot_be_compared_nothing_is_said():
    assert not is_other(Nameless(), Nameless())


@pytest.mark.parametrize("mode", ["vector_entry_point", "sync"])
def test_the_problem_of_a_vector_environment_is_found(mode):
    env = gym.make_vec("BernoulliBandit-v0", num_envs=2, num_arms=3, vectorization_mode=mode)
    assert find_problem(env) == WORLD
    assert find_problem(gym.make("CartPole-v1")) is None
