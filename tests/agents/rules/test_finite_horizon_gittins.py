import numpy as np
import pytest

from agents import FiniteHorizonGittins
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian
from bandit_gym.priors import Beta, InverseGamma, Normal, TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem


def agent_after(problem, counts, sums, left, num_envs=1):
    agent = FiniteHorizonGittins(problem, horizon=left + int(np.sum(counts)))
    agent.reset(num_envs, seed=0)
    agent.warm_start(counts, sums)
    return agent


def is_worth_trying(a, b, left, payment):
    """Whether pulls of a Beta(a, b) arm beat a payment a pull, by recursion over its states."""
    values = np.zeros(left + 1)
    for n in range(left - 1, -1, -1):
        means = (a + np.arange(n + 1)) / (a + b + n)
        ahead = means * values[1 : n + 2] + (1 - means) * values[: n + 1]
        values = np.maximum(means - payment + ahead, 0)
    return values[0] > 0


def exact_index(a, b, left):
    low, high = a / (a + b), 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if is_worth_trying(a, b, left, middle) else (low, middle)
    return low


@pytest.mark.parametrize(
    ("a", "b", "left", "tolerance"),
    [
        (20, 20, 10, 0.06),
        (20, 20, 400, 0.03),
        (60, 20, 100, 0.03),
        (200, 300, 400, 0.03),
        (8, 3, 100, 0.06),
        (1, 1, 10, 0.2),
        (1, 1, 400, 0.2),
    ],
)
def test_index_is_near_that_of_the_recursion(a, b, left, tolerance):
    # the approximation's own errors, as its docstring has them, and a little
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    agent = agent_after(problem, [a + b - 2, 0], [a - 1, 0], left)
    mean = a / (a + b)
    bonus = exact_index(a, b, left) - mean
    assert agent.indices()[0, 0] - mean == pytest.approx(bonus, rel=tolerance)


def test_index_of_normal_arms_is_the_boundary_in_posterior_deviations():
    # prior N(0, 2^2) and noise 2: n = 1 before, 5 after four pulls; r = 20 after them
    problem = BanditProblem(Gaussian(2.0), Normal(0.0, 2.0), 2)
    found = agent_after(problem, [4, 0], [4.0, 0.0], 20).indices()[0]
    # h(4) = 0.977 and h(20) between h(16) = 1.461 and h(32) = 1.712, a third of the way in log2
    heights = np.array([0.977 - 0.583 / 6**0.5, 1.461 + 0.251 * np.log2(1.25) - 0.583 / 2**0.5])
    assert found == pytest.approx([0.8, 0.0] + heights * [2 / 5**0.5, 2.0], rel=1e-9)


def test_last_pull_is_greedy():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    assert agent_after(problem, [10, 1], [6, 0], 1).indices()[0] == pytest.approx([7 / 12, 1 / 3])


def test_infinite_mean_comes_first():
    problem = BanditProblem(Exponential(), InverseGamma(0.5, 1.0), 2)
    assert (agent_after(problem, [0, 9], [0.0, 900.0], 10, 20).act() == 0).all()


def test_dependent_prior_is_served():
    prior = TruncatedMultivariateNormal(0.5, [[1.0, 0.9], [0.9, 1.0]])
    problem = BanditProblem(Gaussian(), prior, 2)
    assert agent_after(problem, [0, 40], [0.0, 4.0], 10, 4).act().shape == (4,)
