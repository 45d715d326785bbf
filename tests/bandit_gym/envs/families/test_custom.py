"""Worlds of any likelihood by name, one's own too."""

import gymnasium as gym
import pytest
from geometric import Geometric

from bandit_gym.envs.families import DEFAULT_PRIORS
from bandit_gym.likelihoods import LIKELIHOODS, Gaussian
from bandit_gym.priors import Gamma

ENV = "bandit_gym:CustomBandit-v0"
PRIOR = {"name": "gamma", "shape": 2, "rate": 1}


def problem(**options):
    env = gym.make_vec(ENV, 2, **options)
    assert gym.make(ENV, **options).unwrapped.problem == env.unwrapped.problem
    return env.unwrapped.problem


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_named_likelihood_is_the_problem_of_its_environment(name):
    known = gym.make(f"bandit_gym:{name.title()}Bandit-v0").unwrapped.problem
    assert problem(likelihood=name) == known
    assert problem(likelihood={"name": name}).prior == DEFAULT_PRIORS[name]


def test_a_likelihood_has_its_parameters():
    assert problem(likelihood={"name": "gaussian", "std": 0.5}).likelihood == Gaussian(0.5)


def test_ones_own_likelihood_is_imported_or_given():
    for likelihood in ("geometric:Geometric", {"name": "geometric:Geometric"}, Geometric()):
        found = problem(likelihood=likelihood, prior=PRIOR, num_arms=3)
        assert found.likelihood == Geometric()
        assert found.prior == Gamma(2.0, 1.0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"likelihood": "poison"}, "got 'poison'; the nearest known one is 'poisson'"),
        ({"likelihood": {"name": "gaussian", "sd": 1}}, "got 'sd'; the nearest known one is 'std'"),
        ({"likelihood": 5}, "likelihood must be a dict with the key 'name', got 5"),
        ({"likelihood": "no_such:Law"}, "likelihood must be importable, got 'no_such:Law'"),
        ({"likelihood": "os:getcwd"}, "likelihood os:getcwd must be a likelihood's class, got"),
        ({"likelihood": "geometric:Geometric"}, "prior must be given for geometric rewards"),
        (
            {"likelihood": {"name": "geometric:Geometric", "p": 1}, "prior": PRIOR},
            "likelihood geometric:Geometric must have no keys but 'name', got 'p'",
        ),
    ],
)
def test_what_names_no_likelihood_is_refused_in_a_sentence(options, text):
    with pytest.raises((TypeError, ValueError), match=text):
        gym.make(ENV, **options)
