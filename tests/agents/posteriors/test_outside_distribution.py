"""A conjugate law from outside: geometric rewards, under a Beta law of the chance of success."""

import pickle

import geometric
import numpy as np
import pytest
from families import OnlyArmDensities
from scipy import stats
from surface import assert_played, started

from agents.base.conjugacy import ConjugateRow
from agents.numerics.distributions import Distribution
from agents.oracle import action_probabilities
from bandit_gym.likelihoods import Gaussian
from bandit_gym.priors import Normal
from bandit_gym.problem import BanditProblem

COUNTS, SUMS = np.array([6, 4, 0]), np.array([9.0, 10.0, 0.0])


class BetaPrime(OnlyArmDensities):
    """The law of (1 - p) / p for p of Beta(beta, alpha), independently for each arm."""

    def __init__(self, alpha, beta):
        super().__init__(stats.betaprime(alpha, beta), (0.0, np.inf))


class Geometric(geometric.Geometric):
    """Failures before the first success: each adds to alpha, each success to beta."""

    law = Distribution(lambda stats, alpha, beta: stats.betaprime(alpha, beta))
    conjugate_row = ConjugateRow(law, BetaPrime, lambda prior: prior.law.args, ((0, 1), (1, 0)))


class Level(Gaussian):
    """Gaussian rewards, whose law has any second parameter, also 0."""

    name = "users_gaussian"
    law = Distribution(lambda stats, tau, h: stats.norm(h / tau, tau**-0.5))
    conjugate_row = ConjugateRow(law, Normal, lambda p: (p.std**-2, p.mean), ((1, 0), (0, 1)))


OWN = BanditProblem(Geometric(), BetaPrime(3.0, 4.0), 3)
LEVEL = BanditProblem(Level(), Normal(0.0, 1.0), 3)


@pytest.mark.parametrize("problem", [OWN, LEVEL])
@pytest.mark.parametrize(("name", "num_envs"), [("exact", 9000), ("racing", 9000), ("exact", None)])
def test_a_law_from_outside_is_played_by_the_oracles_probabilities(name, num_envs, problem):
    expected = action_probabilities(problem, COUNTS, SUMS)
    agent = started(name, problem, num_envs, COUNTS, SUMS)
    arms = agent.act() if num_envs else np.array([agent.act() for _ in range(2000)])
    assert_played(arms, expected)


@pytest.mark.parametrize("problem", [OWN, LEVEL])
def test_a_law_from_outside_is_conjugate_and_pickled_and_has_the_oracles_probabilities(problem):
    agent = pickle.loads(pickle.dumps(started("exact", problem, None, COUNTS, SUMS)))
    assert agent.method == "conjugate"
    expected = action_probabilities(problem, COUNTS, SUMS)
    assert agent.action_probabilities() == pytest.approx(expected, abs=1e-5)
