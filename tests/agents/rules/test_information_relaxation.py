import numpy as np
import pytest
from surface import in_states

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
    agent = InformationRelaxation(problem, horizon=left, **options)
    agent.reset(num_envs, seed=0)
    agent.warm_start(counts, sums)
    return agent


def test_fh_plays_thompson_sampling_while_the_end_is_far():
    # after 10^6 more pulls posterior means are all but the means themselves
    actions = agent_after(UNIFORM, [6, 1], [4, 1], 1_000_000, 4000).act()
    x = np.linspace(0, 1, 20_001)
    density = 105 * x**4 * (1 - x) ** 2
    expected = np.trapezoid(density * x**2, x)  # P(Beta(2, 1) <= x) = x^2
    share = (actions == 0).mean()
    assert abs(share - expected) <= 4 * np.sqrt(expected * (1 - expected) / 4000)


def test_fh_plays_the_largest_final_mean_whatever_was_paid_in_all():
    # Final means are 0.6 and 0.9 or so, with deviations of 0.02 and 0.03; final sums 1080 and 900.
    assert (agent_after(UNIFORM, [900, 100], [540, 90], 902, 40).act() == 1).all()


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
    cases = [
        (BanditProblem(Poisson(), Gamma(2.0, 2.0), 2), {}, "must be Bernoulli or Gaussian"),
        (
            BanditProblem(
                Bernoulli(), TruncatedMultivariateNormal(0.5, [[1.0, 0.9], [0.9, 1.0]]), 2
            ),
            {},
            "must have independent arms",
        ),
    ]
    mixture = BanditProblem(Bernoulli(), HierarchicalBeta([1.0, 2.0], [2.0, 1.0]), 2)
    cases.append((mixture, {}, "must have independent arms"))
    for problem, options, words in cases:
        with pytest.raises(ValueError, match=words):
            InformationRelaxation(problem, **options)


def test_propensities_do_not_depend_on_the_generator():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    agent, laws = InformationRelaxation(problem), []
    for seed in (0, 1):
        agent.reset(2, seed=seed)
        laws.append(agent.action_probabilities().tolist())
    assert laws[0] == laws[1]
