import numpy as np
import pytest
from surface import started

from agents import FiniteHorizonGittins
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal
from bandit_gym.problem import BanditProblem


def agent_after(problem, counts, sums, left, num_envs=1):
    return started("finite_horizon_gittins", problem, num_envs, counts, sums, horizon=left)


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


def bonus_of(a, b, left):
    """Return the index less the mean that the agent has for a Beta(a, b) arm."""
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    return agent_after(problem, [a + b - 2, 0], [a - 1, 0], left).indices()[0, 0] - a / (a + b)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (39, 3), (96, 6), (20, 20), (13, 29), (476, 26)])
def test_index_of_bernoulli_arms_near_the_end_is_that_of_the_recursion(a, b):
    for left in (2, 10, 50):
        exact = exact_index(a, b, left) - a / (a + b)
        assert bonus_of(a, b, left) == pytest.approx(exact, abs=1e-8)


def test_docstring_tells_the_error_of_the_approximation():
    lines = FiniteHorizonGittins.__doc__.splitlines()
    rows = [line.split() for line in lines if line.strip()[:2] in ("0.", "sh")]
    lefts = [int(entry) for entry in rows[0][4:]]
    assert lefts == [51, 100, 400] and len(rows) == 11
    for share, pulls, *told in rows[1:]:
        a = 1 + round(float(share) * int(pulls))
        b = 2 + int(pulls) - a
        for left, error in zip(lefts, told, strict=True):
            exact = exact_index(a, b, left) - a / (a + b)
            assert 100 * (bonus_of(a, b, left) / exact - 1) == pytest.approx(float(error), abs=0.06)


def test_last_pull_is_greedy():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    assert agent_after(problem, [10, 1], [6, 0], 1).indices()[0] == pytest.approx([7 / 12, 1 / 3])


def test_index_of_normal_arms_is_the_boundary_in_posterior_deviations():
    # prior N(0, 2^2) and noise 2: n = 1 before, 5 after four pulls; r = 20 after them
    problem = BanditProblem(Gaussian(2.0), Normal(0.0, 2.0), 2)
    found = agent_after(problem, [4, 0], [4.0, 0.0], 20).indices()[0]
    # h(4) = 0.977 and h(20) between h(16) = 1.461 and h(32) = 1.712, a third of the way in log2
    heights = np.array([0.977 - 0.583 / 6**0.5, 1.461 + 0.251 * np.log2(1.25) - 0.583 / 2**0.5])
    assert found == pytest.approx([0.8, 0.0] + heights * [2 / 5**0.5, 2.0], rel=1e-9)
