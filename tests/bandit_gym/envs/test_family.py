"""A family is one declaration, from which registration, both environments and help are made."""

import inspect
from pathlib import Path

import gymnasium as gym
import pytest
from families import ALL_ENV_IDS

import bandit_gym.envs.families
from bandit_gym.envs import BanditVectorEnv
from bandit_gym.envs.bandit import BanditEnv
from bandit_gym.envs.families.gaussian import GaussianBanditEnv
from bandit_gym.envs.family import FamilyEnv
from bandit_gym.likelihoods import Gaussian

COMMON = list(inspect.signature(BanditEnv).parameters)[1:]


class TwoArmsEnv(FamilyEnv):
    """A family of ones own."""

    @staticmethod
    def make_problem(num_arms=2, prior=None, *, std=1.0):
        return GaussianBanditEnv.make_problem(num_arms, prior, std=std)


def test_ids_are_the_files_of_the_families():
    files = Path(bandit_gym.envs.families.__file__).parent.glob("[!_]*.py")
    names = {file.stem.replace("_", "") for file in files}
    assert {env_id.removesuffix("Bandit-v0").lower() for env_id in ALL_ENV_IDS} == names


@pytest.mark.parametrize("env_id", ALL_ENV_IDS)
def test_single_and_vector_env_have_one_problem(env_id):
    assert gym.make(env_id).unwrapped.problem == gym.make_vec(env_id, 2).problem


def test_arguments_are_those_of_the_problem_and_of_every_bandit():
    found = list(inspect.signature(TwoArmsEnv).parameters)
    assert found == ["num_arms", "prior", *COMMON, "std"]


def test_keyword_arguments_of_the_problem_reach_it_from_both_environments():
    envs = TwoArmsEnv(3, std=0.5, observation="constant"), TwoArmsEnv.make_vec(4, std=0.5)
    assert [env.problem.likelihood for env in envs] == [Gaussian(0.5)] * 2
    assert [env.problem.num_arms for env in envs] == [3, 2]
    assert isinstance(envs[1], BanditVectorEnv)


@pytest.mark.parametrize("make", [TwoArmsEnv, TwoArmsEnv.make_vec], ids=["single", "vector"])
def test_unknown_argument_is_refused(make):
    with pytest.raises(TypeError, match="unexpected keyword argument 'sd'"):
        make(sd=0.5)
