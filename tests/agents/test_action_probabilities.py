"""The law of the next `act`: `Agent.action_probabilities`, over all agents."""

import numpy as np
import pytest
from families import ALL_AGENTS

from agents import ExactThompson, RacingThompson, UniformRandom, make_agent
from agents.base import Agent
from agents.oracle import action_probabilities
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.problem import BanditProblem

CONJUGATE = BanditProblem(Bernoulli(), Beta(2.0, 3.0), 4)
GRID = BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 4)
CHAINS = BanditProblem(
    Bernoulli(), TruncatedMultivariateNormal(0.5, (0.05 * np.eye(4) + 0.02).tolist()), 4
)
PROBLEMS = {"conjugate": CONJUGATE, "grid": GRID, "chains": CHAINS}
REFERENCE = BanditProblem(Gaussian(), Normal(0.0, 1.0), 4)
SETTINGS = {
    **{f"{name}, {kind}": (name, kind, {}) for name in ALL_AGENTS for kind in PROBLEMS},
    "exact, reference": ("exact", "reference", {"prior": "reference"}),
    "smc, moves": ("smc", "grid", {"resampling": "systematic", "move": "random-walk"}),
    "greedy, chains": ("greedy", "chains", {"estimate": "posterior"}),
    "racing, pull": ("racing", "reference", {"unpulled_arms": "pull"}),
}


def make(setting, num_envs, num_steps):
    """Return an agent that has played some steps in N lanes."""
    name, kind, options = SETTINGS[setting]
    agent = make_agent(name, (PROBLEMS | {"reference": REFERENCE})[kind], **options)
    agent.reset(num_envs, seed=1)
    rng = np.random.default_rng(2)
    for _ in range(num_steps):
        agent.observe(agent.act(), rng.integers(2, size=num_envs).astype(float))
    return agent


def excess(agent, num_rounds):
    """Return by how much arms were played more often than the law says, and four deviations."""
    law = agent.action_probabilities()
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-12)
    shares = np.mean([agent.act()[:, None] == np.arange(4) for _ in range(num_rounds)], axis=0)
    variance = (law * (1 - law)).sum(axis=0) / num_rounds
    return abs((shares - law).sum(axis=0)), 4 * np.sqrt(variance) + 1e-9


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.split(",")[0] != "racing"])
@pytest.mark.parametrize("num_steps", [0, 2, 12])
def test_arms_are_played_as_often_as_the_law_says(setting, num_steps):
    is_chain = "chains" in setting  # whose answers cost milliseconds
    num_envs = 20 if is_chain else 200
    agent = make(setting, num_envs, min(num_steps, 2) if is_chain else num_steps)
    found, allowed = excess(agent, 1 if is_chain else 10)
    if not agent.has_exact_law:  # a chain of 128 sweeps, worth 40 draws, answers for each lane
        allowed = allowed * np.sqrt(1 + 1 / 40) + num_envs * 0.01
    assert (found <= allowed).all()


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.split(",")[0] == "racing"])
def test_law_of_a_race_is_the_one_that_it_approximates(setting):
    agent = make(setting, 2, 0)
    agent.warm_start([[4, 2, 2, 3], [1, 1, 9, 1]], [[2, 1, 0, 2], [1, 0, 4, 0]])
    assert not agent.has_exact_law
    problem = agent.problem
    tolerance = 0.01 if problem is CHAINS else None
    expected = action_probabilities(problem, agent.counts, agent.sums, tolerance=tolerance)
    # the oracle's own chains, and 10,000 weighted draws of weights not too unequal
    error = 0.02 + 4 * np.sqrt(0.25 / 2000) if problem is CHAINS else 2e-3
    np.testing.assert_allclose(agent.action_probabilities(), expected, atol=error)


def test_race_that_pulls_missing_arms_first_says_so():
    agent = make("racing, pull", 1, 0)
    agent.warm_start([[1, 0, 1, 0]], [[3.0, 0.0, 1.0, 0.0]])
    assert agent.action_probabilities().tolist() == [[0.0, 0.5, 0.0, 0.5]]


@pytest.mark.parametrize("num_arms", [2, 10, 100])
def test_law_of_exact_thompson_is_that_of_quadrature(num_arms):
    problem, rng = BanditProblem(Bernoulli(), Beta(1.0, 1.0), num_arms), np.random.default_rng(0)
    counts = rng.geometric(0.05, num_arms)
    sums = rng.binomial(counts, rng.random(num_arms))
    agent = ExactThompson(problem)
    agent.reset(seed=0)
    agent.warm_start(counts, sums)
    expected = action_probabilities(problem, counts, sums)
    np.testing.assert_allclose(agent.action_probabilities(), expected, atol=1e-6)


def test_ties_are_shared():
    agent = make("greedy, conjugate", 1, 0)
    agent.warm_start([[2, 2, 2, 1]], [[1.0, 1.0, 0.0, 0.0]])
    assert agent.action_probabilities().tolist() == [[0.5, 0.5, 0.0, 0.0]]


def test_epsilon_is_spread_over_all_arms():
    agent = make_agent("epsilon_greedy", CONJUGATE, epsilon=0.2)
    agent.reset(seed=0)
    agent.warm_start([1, 1, 1, 1], [0.0, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(agent.action_probabilities(), [0.05, 0.85, 0.05, 0.05])


def test_law_of_a_single_run_has_one_axis():
    agent = UniformRandom(CONJUGATE)
    agent.reset(seed=0)
    assert agent.action_probabilities().shape == (4,)


@pytest.mark.parametrize(
    ("agent", "is_exact"),
    [
        (ExactThompson(CONJUGATE), True),
        (ExactThompson(GRID), True),
        (ExactThompson(CHAINS), False),
        (RacingThompson(GRID, proposal="matched"), False),
        (make_agent("smc", GRID), True),
        (make_agent("bayes_ucb", GRID), True),
    ],
)
def test_agents_say_whether_their_law_is_exact(agent, is_exact):
    assert agent.has_exact_law is is_exact


def test_agent_of_ones_own_without_a_law_is_told_what_to_define():
    class Stubborn(Agent):
        def _choose(self):
            return np.zeros(self.num_lanes, dtype=np.int64)

    agent = Stubborn(CONJUGATE)
    agent.reset(seed=0)
    assert agent.act() == 0
    with pytest.raises(TypeError, match="Stubborn must define _choose, and _law for its propens"):
        agent.action_probabilities()
