import numpy as np
import pytest
from scipy import stats

from agents import KnowledgeGradient
from bandit_gym.likelihoods import Bernoulli, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, Normal, TruncatedNormal
from bandit_gym.problem import BanditProblem


def gains(problem, counts, sums, left, variant="kg*"):
    """Return the (K,) gains per pull that the agent counts with, `left` pulls after this one."""
    horizon = left + 1 + int(np.sum(counts))
    agent = KnowledgeGradient(problem, horizon=horizon, variant=variant)
    agent.reset(1, seed=0)
    agent.warm_start(counts, sums)
    posterior = agent.up_to_date()
    mean = posterior.mean()
    levels = np.sort(mean[0])[-2:][::-1][(mean[0] == mean[0].max()).astype(int)]
    most = np.array([left if variant == "kg*" else min(left, 1)])
    return agent._gains(mean, posterior.std(), levels[None], most)[0]


def beta_gain(a, b, level, m):
    """E max(M, level) - max(E M, level), term by term."""
    s = np.arange(m + 1)
    after = (a + s) / (a + b + m)
    weights = stats.betabinom(m, a, b).pmf(s)
    return weights @ np.maximum(after, level) - max(a / (a + b), level)


@pytest.mark.parametrize("left", [1, 2, 7, 40])
def test_gain_of_bernoulli_pulls_is_the_sum_over_their_outcomes(left):
    # Posteriors Beta(7, 3), Beta(3, 2) and Beta(1, 1), of means 0.7, 0.6 and 0.5
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
    found = gains(problem, [8, 3, 0], [6, 2, 0], left)
    ahead = [m for m in (1, 2, 3, 4, 5, 7, 9, 12, 16, 22, 31, 40) if m <= left]
    for arm, (a, b, level) in enumerate([(7, 3, 0.6), (3, 2, 0.7), (1, 1, 0.7)]):
        expected = max(beta_gain(a, b, level, m) / m for m in ahead)
        assert found[arm] == pytest.approx(expected, rel=1e-10, abs=1e-15)


def test_kg_looks_one_pull_ahead():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    found = gains(problem, [8, 0], [6, 0], 40, variant="kg")
    assert found == pytest.approx([beta_gain(7, 3, 0.5, 1), beta_gain(1, 1, 0.7, 1)], abs=1e-15)
    assert found[1] == 0  # after one success its mean would be 2 / 3, below 0.7


def test_kg_star_tries_an_arm_that_one_reward_cannot_lift():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    for variant, arm in (("kg", 0), ("kg*", 1)):
        agent = KnowledgeGradient(problem, horizon=200, variant=variant)
        agent.reset(20, seed=0)
        agent.warm_start([8, 0], [6, 0])
        assert (agent.act() == arm).all()


def test_gain_of_normal_pulls_is_their_expectation():
    problem = BanditProblem(Gaussian(2.0), Normal(0.0, 1.0), 2)
    found = gains(problem, [4, 0], [3.0, 0.0], 1)
    # arm 0: precision 1 + 4 / 4, mean 3 / 4 / 2; its mean after one more pull has the variance
    # 1 / 2 - 1 / (2 + 1 / 4); that of arm 1 the variance 1 - 1 / (1 + 1 / 4)
    rng = np.random.default_rng(0)
    for arm, (mean, variance, level) in enumerate([(0.375, 1 / 18, 0.0), (0.0, 0.2, 0.375)]):
        draws = np.maximum(rng.normal(mean, np.sqrt(variance), 400_000), level)
        error = draws.std() / np.sqrt(len(draws))
        assert abs(found[arm] - (draws.mean() - max(mean, level))) <= 4 * error


def test_last_pull_is_greedy():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    agent = KnowledgeGradient(problem, horizon=9, variant="kg*")
    agent.reset(20, seed=0)
    agent.warm_start([8, 0], [5, 0])
    assert (agent.act() == 0).all()


def test_prior_that_is_not_conjugate_is_served_by_its_moments():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 2)
    close = BanditProblem(Bernoulli(), Beta(2.5, 2.5), 2)
    found = [gains(each, [10, 10], [6, 5], 20) for each in (problem, close)]
    assert found[0] == pytest.approx(found[1], rel=0.1)  # priors of nearly the same moments


def test_prior_as_narrow_as_a_point_is_served():
    for prior in (TruncatedNormal(0.4, 1e-9), Beta(1e12, 1e12)):
        found = gains(BanditProblem(Bernoulli(), prior, 2), [10, 10], [6, 5], 20)
        assert (found >= 0).all() and (found < 1e-3).all()


def test_other_rewards_are_refused():
    with pytest.raises(ValueError, match="must be Bernoulli or Gaussian for KnowledgeGradient"):
        KnowledgeGradient(BanditProblem(Poisson(), Gamma(2.0, 2.0), 2))
