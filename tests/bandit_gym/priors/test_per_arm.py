"""A law for each arm: its columns are the laws, and agents treat it exactly."""

import numpy as np
import pytest
from scipy import stats

from agents import ExactThompson
from agents.oracle import action_probabilities
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, Mixture, PerArm, TruncatedNormal
from bandit_gym.problem import BanditProblem

LAWS = (Beta(2.0, 5.0), TruncatedNormal(0.5, 0.1, 0.2, 0.9), Mixture([Beta(1, 1)], [1.0]))
PRIOR = PerArm(LAWS)


def test_each_column_is_drawn_from_its_law(rng):
    draws = PRIOR.sample(rng, (4000, 3))
    ends = (0.2 - 0.5) / 0.1, (0.9 - 0.5) / 0.1
    for column, law in enumerate((stats.beta(2, 5), stats.truncnorm(*ends, 0.5, 0.1))):
        assert stats.kstest(draws[:, column], law.cdf).pvalue > 1e-4


def test_densities_are_those_of_the_laws(rng):
    means = PRIOR.sample(rng, (2, 5, 3))
    expected = [law.arm_log_density(means[..., i]) for i, law in enumerate(LAWS)]
    np.testing.assert_array_equal(PRIOR.arm_log_density(means), np.stack(expected, axis=-1))
    np.testing.assert_allclose(PRIOR.log_density(means), np.sum(expected, axis=0))


def test_means_lie_where_those_of_each_arm_do():
    assert PRIOR.arm_support(3).tolist() == [[0, 1], [0.2, 0.9], [0, 1]]
    assert PRIOR.support == (0.0, 1.0)
    assert PRIOR.num_arms == 3


def test_exact_thompson_follows_the_oracle():
    problem = BanditProblem(Bernoulli(), PRIOR, 3)
    agent = ExactThompson(problem)
    agent.reset(seed=0)
    agent.warm_start([5, 3, 8], [2, 2, 3])
    expected = action_probabilities(problem, [5, 3, 8], [2, 2, 3])
    np.testing.assert_allclose(agent.action_probabilities(), expected, atol=1e-3)


def test_a_law_for_all_arms_alike_is_that_law(rng):
    means = rng.random((4, 2))
    alike = PerArm([Beta(2.0, 5.0)] * 2)
    np.testing.assert_allclose(alike.log_density(means), Beta(2.0, 5.0).log_density(means))


@pytest.mark.parametrize("call", ["arm_support", "sample", "log_density"])
def test_another_number_of_arms_is_refused(call, rng):
    calls = {
        "arm_support": lambda: PRIOR.arm_support(4),
        "sample": lambda: PRIOR.sample(rng, (2, 4)),
        "log_density": lambda: PRIOR.log_density(np.full(4, 0.5)),
    }
    with pytest.raises(ValueError, match="laws must be one for each of 4 arms, got 3"):
        calls[call]()


def test_a_problem_of_another_number_of_arms_is_refused():
    with pytest.raises(ValueError, match="prior must have 4 values in its per-arm param.*, got 3"):
        BanditProblem(Bernoulli(), PRIOR, 4)


def test_laws_of_several_arms_are_refused():
    with pytest.raises(ValueError, match="laws must be laws of a single arm, .* got Beta"):
        PerArm([Beta(1.0, [1.0, 2.0]), Beta(1.0, 1.0)])
