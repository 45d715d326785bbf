"""Pools of weighted draws, decisions by them, and how often others would have been made."""

import pickle
from itertools import product

import numpy as np
import pytest
from surface import assert_same, started

from agents.regression.comparison import compare_ordered, count_best
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Normal
from bandit_gym.problem import ContextualProblem


def test_combinations_of_draws_in_which_arms_tie_are_shared():
    """Enumerated, of arms with six values each out of four, and of weights that differ."""
    rng = np.random.default_rng(2)
    values, weights = rng.integers(4, size=(4, 6)) / 4, rng.dirichlet(np.ones(6), size=4)
    expected = np.zeros(4)
    for chosen in product(range(6), repeat=4):
        mass = weights[range(4), chosen].prod()
        expected += count_best(values[range(4), chosen][:, None], np.array([mass]))
    np.testing.assert_allclose(compare_ordered(values, weights), expected, rtol=1e-12)


def logistic_after(num_rewards, num_arms=3, num_features=3):
    """Return an agent whose arms own their coefficients, after rewards of its own play."""
    problem = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), num_arms, num_arms * num_features)
    agent, rng = started("racing", problem, None), np.random.default_rng(3)
    theta = rng.normal(size=(num_arms, num_features))
    visitors = draw_visitors(rng, num_rewards, num_arms, num_features)
    for features in visitors:
        arm = agent.act(features)
        chance = 1 / (1 + np.exp(-features[arm] @ theta.ravel()))
        agent.observe(arm, float(rng.random() < chance))
    return agent, theta.ravel()


def draw_visitors(rng, size, num_arms=3, num_features=3):
    """Return (size, K, K p) features of arms that have an intercept and their own coefficients."""
    x = rng.normal(size=(size, num_features))
    x[:, 0] = 1.0
    return np.einsum("kl,np->nklp", np.eye(num_arms), x).reshape(size, num_arms, -1)


@pytest.fixture(scope="module")
def learned():
    return logistic_after(120)


def test_inverse_propensities_estimate_any_arm_without_bias_where_there_is_a_floor(learned):
    """The mean of 40 logs of 400 rows is within 4 of its standard errors, of each arm."""
    agent, theta = learned
    agent, rng = pickle.loads(pickle.dumps(agent)), np.random.default_rng(8)
    estimates = np.empty((40, 3))
    for log in range(40):
        visitors = draw_visitors(rng, 400)
        actions, propensities, _ = agent.decide(visitors, floor=0.01)
        chances = 1 / (1 + np.exp(-visitors @ theta))
        rewards = rng.random(400) < chances[np.arange(400), actions]
        weights = (actions[:, None] == np.arange(3)) / propensities[:, None]
        estimates[log] = (weights * rewards[:, None] - chances).mean(axis=0)
    error = estimates.std(axis=0, ddof=1) / np.sqrt(40)
    assert (abs(estimates.mean(axis=0)) < 4 * error).all()


def test_pools_agree_with_many_draws_of_the_posterior(learned):
    """Each of 20 visitors: 4 deviations of 50,000 draws that weigh as the race's, and of a pool."""
    agent, _ = learned
    visitors = draw_visitors(np.random.default_rng(4), 20)
    found = agent.action_probabilities(visitors)
    draws = agent._posterior.sample_many(np.random.default_rng(6), 50_000)[:, 0]
    best = np.argmax(np.einsum("nkd,md->nmk", visitors, draws), axis=2)
    shares = (best[..., None] == np.arange(3)).mean(axis=1)
    # Draws are taken from a pool that is worth 4,096, of independent draws.
    allowed = 4 * np.sqrt((found * (1 - found) + 1e-4) * (1 / 4096 + 1 / 50_000))
    assert (abs(shares - found) < allowed).all()


def test_questions_about_many_visitors_are_those_about_each_and_move_nothing(learned):
    agent, twin = (pickle.loads(pickle.dumps(learned[0])) for _ in "ab")
    visitors = draw_visitors(np.random.default_rng(4), 6)
    found = agent.action_probabilities(visitors)
    for features, row in zip(visitors, found, strict=True):
        np.testing.assert_allclose(agent.action_probabilities(features), row, rtol=1e-12)
    assert_same(agent.decide(visitors), twin.decide(visitors))
    assert_same(agent.action_probabilities(visitors), found)


@pytest.mark.parametrize(
    ("name", "likelihood"), [("exact", Gaussian(1.0)), ("laplace", Bernoulli())]
)
def test_arms_too_narrow_for_integrals_are_compared_by_draws(name, likelihood):
    """One that is known to be 0 is the best of three where both normals are below it, 1/4."""
    prior = Normal(0.0, [1.0, 1e-11, 1.0])
    agent = started(name, ContextualProblem(likelihood, prior, 3, 3))
    found = agent.action_probabilities(np.eye(3))
    np.testing.assert_allclose(found, [3 / 8, 1 / 4, 3 / 8], rtol=0, atol=0.01)  # of 6,144 draws
    assert agent.posterior(np.eye(3)).best_arm_error() > 0
    np.testing.assert_array_equal(agent.decide(np.eye(3)[None]).probabilities.shape, [1, 3])
