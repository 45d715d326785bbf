import pytest
from surface import in_states, started

from agents import InformationRelaxation
from bandit_gym.likelihoods import Bernoulli, Gaussian, Poisson
from bandit_gym.priors import (
    Beta,
    Gamma,
    HierarchicalBeta,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem

UNIFORM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)


def agent_after(problem, counts, sums, left, num_envs=1, **options):
    options |= {"horizon": left}
    return started("information_relaxation", problem, num_envs, counts, sums, **options)


@pytest.mark.parametrize("penalty", ["fh", "v_zero"])
@pytest.mark.parametrize(
    "problem",
    [
        BanditProblem(Gaussian(), Normal(0.0, 1.0), 2),
        BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 2),
    ],
    ids=lambda problem: problem.likelihood.name,
)
def test_better_arm_is_pulled_more(problem, penalty):
    agent = agent_after(problem, [20, 20], [14.0, 5.0], 10, 40, penalty=penalty)
    assert (agent.act() == 0).mean() > 0.5


def test_lanes_may_have_different_numbers_of_pulls_left():
    options = {"penalty": "v_zero", "horizon": 12}
    states = [[10, 1], [1, 0]], [[6, 0], [1, 0]]
    agent = in_states("information_relaxation", UNIFORM, *states, **options)
    assert agent.act()[0] == 0


def test_what_cannot_be_served_is_refused_in_a_sentence():
    tied = TruncatedMultivariateNormal(0.5, [[1.0, 0.9], [0.9, 1.0]])
    cases = [(BanditProblem(Poisson(), Gamma(2.0, 2.0), 2), "must be Bernoulli or Gaussian")]
    for prior in (tied, HierarchicalBeta([1.0, 2.0], [2.0, 1.0])):
        cases.append((BanditProblem(Bernoulli(), prior, 2), "must have independent arms"))
    for problem, words in cases:
        with pytest.raises(ValueError, match=words):
            InformationRelaxation(problem)


def test_propensities_do_not_depend_on_the_generator():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    agent, laws = InformationRelaxation(problem), []
    for seed in (0, 1):
        agent.reset(2, seed=seed)
        laws.append(agent.action_probabilities().tolist())
    assert laws[0] == laws[1]
