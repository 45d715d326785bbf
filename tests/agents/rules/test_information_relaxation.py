from itertools import product

import numpy as np
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


def test_better_arm_is_pulled_more():
    pairs = (Gaussian(), Normal(0.0, 1.0)), (Bernoulli(), TruncatedNormal(0.5, 0.2))
    for (likelihood, prior), penalty in product(pairs, ["fh", "v_zero"]):
        data, options = ([20, 20], [14.0, 5.0]), {"horizon": 10, "penalty": penalty}
        problem = BanditProblem(likelihood, prior, 2)
        agent = started("information_relaxation", problem, 40, *data, **options)
        assert (agent.act() == 0).mean() > 0.5, (prior, penalty)


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
    agent, laws = InformationRelaxation(UNIFORM), []
    for seed in (0, 1):
        agent.reset(2, seed=seed)
        laws.append(agent.action_probabilities().tolist())
    assert laws[0] == laws[1]


def test_ties_are_broken_in_each_lane_by_itself():
    agent = InformationRelaxation(UNIFORM, penalty="v_zero", horizon=1)
    agent.reset(1000, seed=0)
    shares = np.bincount(agent.act()) / 1000
    assert (np.abs(shares - 1 / UNIFORM.num_arms) < 4 * (0.25 / 1000) ** 0.5).all()
