"""What rules are told of the horizon."""

import pytest

import agents
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
WITH_HORIZON = [
    *(agents.FiniteHorizonGittins, agents.InformationRelaxation, agents.KnowledgeGradient),
    *(agents.MOSS, agents.BayesOptimal),
]


@pytest.mark.parametrize("rule", WITH_HORIZON)
def test_a_horizon_that_cannot_be_counted_is_one_sentence(rule):
    for horizon, text in [(0, "a positive integer, got 0"), (10**400, "at most .*, got 1000")]:
        with pytest.raises(ValueError, match=f"horizon must be {text}"):
            rule(PROBLEM, horizon=horizon)
