"""The page about the architecture: its recipes work as they stand, from outside the packages."""

import re
import sys
from types import ModuleType

import gymnasium as gym
import numpy as np
import pytest
from documents import ROOT, blocks, read, run
from families import FACTORIES, names_with
from gymnasium.envs.registration import registry
from surface import assert_played, started

from agents import SMCThompson, load
from agents.oracle import action_probabilities
from bandit_gym.likelihoods import Bernoulli, Gaussian, check_likelihood
from bandit_gym.priors import Beta, Normal, check_prior
from bandit_gym.problem import BanditProblem, ContextualProblem
from bandit_gym.rollout import rollout

COUNTS, SUMS = np.array([8, 5, 3, 0]), np.array([4.0, 2.0, 2.0, 0.0])
NUM_LANES = 4000


@pytest.fixture
def recipe(request, monkeypatch):
    """The module that a recipe's code makes, importable under the name that the page gives it."""
    heading, name = request.param
    (code,) = blocks(f"docs/architecture.md#{heading}")
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    known = set(registry)
    run(code, vars(module))
    yield module
    for name in set(registry) - known:
        del registry[name]


@pytest.mark.parametrize("package", ["agents", "bandit_gym"])
def test_each_file_is_the_home_of_a_concept_and_each_home_a_file(package):
    folder = ROOT / package
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}
    page = read("docs/architecture.md")
    (table,) = re.findall(rf"\| concept [^\n]*`{package}` \|\n.*?\n\n", page, re.DOTALL)
    homes = set(re.findall(r"`([\w/]+\.py)`", table))
    assert homes <= files
    assert not [name for name in files - homes if not name.endswith(("__init__.py", "__main__.py"))]


def take(heading, name):
    return pytest.mark.parametrize("recipe", [(heading, name)], indirect=True, ids=[name])


@take("A prior", "kumaraswamy")
def test_prior_draws_by_the_densities_that_it_tells(recipe):
    check_prior(recipe.Kumaraswamy(2, 5), Bernoulli(), 4)


@take("An agent", "top_two")
def test_agent_plays_the_law_of_top_two_sampling(recipe):
    problem = BanditProblem(Bernoulli(), Beta(2.0, 2.0), 4)
    agent = started(recipe.TopTwoThompson, problem, NUM_LANES, COUNTS, SUMS, share=0.3)
    best = action_probabilities(problem, COUNTS, SUMS)
    odds = best / (1 - best)
    expected = best * (0.3 + 0.7 * (odds.sum() - odds))  # sum over leaders j != i of p_j/(1-p_j)
    assert expected.sum() == pytest.approx(1.0)
    assert_played(agent.act(), expected)


@take("A posterior with features", "ridge")
def test_posterior_with_features_is_right_under_every_rule_that_takes_them(recipe, tmp_path):
    """Ridge regression is the posterior under N(0, 1) and noise 1; 1,000 draws answer for it."""
    problem = ContextualProblem(Gaussian(1.0), Normal(0.0, 1.0), 3, 2)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3, 2))
    for name in names_with("posterior"):
        if FACTORIES[name].takes_features and name != "sliding_window":
            agent = started(name, problem, None, posterior="ridge:Ridge")
            exact = started("exact", problem, None)
            for x in rng.normal(size=(6, 3, 2)):
                arm = agent.act(x, available=[True, False, True])
                assert arm != 1
                agent.observe(arm, x[arm, 0], observation=x)
                exact.observe(arm, x[arm, 0], observation=x)
            found, expected = agent.posterior(features), exact.posterior(features)
            errors = 4 * expected.std() / np.sqrt(1000)
            assert (abs(found.mean() - expected.mean()) <= errors).all(), name
            assert (abs(found.std() / expected.std() - 1) <= 4 / np.sqrt(2000)).all(), name
            coefficients = found.coefficients.mean() - expected.coefficients.mean()
            assert (abs(coefficients) <= 4 * expected.coefficients.std() / np.sqrt(1000)).all()
            found.coefficients.quantile(1e-4)  # for which 1,000 draws are too few
            assert repr(found) and found.coefficients.doubts
            assert agent.action_probabilities(features).sum() == pytest.approx(1.0)
            agent.save(tmp_path / "agent")
            copied = load(tmp_path / "agent", problem, posterior=recipe.Ridge(problem))
            assert copied.act(features) == agent.act(features)


@take("A likelihood", "my_geometric")
def test_likelihood_is_right_and_learned_in_its_own_environment(recipe):
    check_likelihood(recipe.Geometric())
    env = gym.make_vec("MyGeometricBandit-v0", num_envs=50)
    agent = SMCThompson(recipe.PROBLEM)
    found = rollout(agent, env, seed=0, horizon=200).regret
    early, late = found[:, :50].mean(axis=1), found[:, 150:].mean(axis=1)
    fall = early - late
    assert fall.mean() > 4 * fall.std() / np.sqrt(len(fall))


@take("An observation", "averages")
def test_observation_is_the_average_reward_of_each_arm(recipe):
    env = recipe.Averages(gym.make("bandit_gym:BernoulliBandit-v0", num_arms=3))
    observation, _ = env.reset(seed=0)
    assert observation.tolist() == [0.0, 0.0, 0.0]
    rewards = [env.step(action)[1] for action in (1, 1, 2, 1)]
    expected = [0.0, np.mean([*rewards[:2], rewards[3]]), rewards[2]]
    assert env.record.empirical_means[0] == pytest.approx(expected)
