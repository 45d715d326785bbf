"""Gittins indices: with a discount, with a horizon, and those of one step of look-ahead."""

import numpy as np
import pytest
from surface import started

from agents import FiniteHorizonGittins
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedNormal
from bandit_gym.problem import BanditProblem

PUBLISHED = {
    # Christian and Griffiths (2016), "Algorithms to live by", chapter 2, who quote the tables of
    # Gittins, Glazebrook and Weber: (successes, failures) after a uniform prior -> index
    0.9: {(0, 0): 0.7029, (1, 1): 0.6346, (2, 2): 0.6010, (9, 1): 0.8695},
    0.99: {(0, 0): 0.8699},
}


def indices(prior, counts, sums, name="discounted_gittins", **options):
    problem = BanditProblem(Bernoulli(), prior, len(counts[0]))
    return started(name, problem, len(counts), counts, sums, **options).indices()


@pytest.mark.parametrize("discount", PUBLISHED)
def test_indices_are_those_published(discount):
    states = np.array(list(PUBLISHED[discount]))
    counts = np.stack([states.sum(axis=1), np.zeros(len(states))], axis=1)
    sums = np.stack([states[:, 0], np.zeros(len(states))], axis=1)
    found = indices(Beta(1.0, 1.0), counts, sums, discount=discount)
    expected = np.array(list(PUBLISHED[discount].values()))
    assert np.abs(found[:, 0] - expected).max() <= 1e-4  # four digits, half of it rounding


def calibrate(alpha, beta, discount, depth):
    """Return the index of a Beta posterior, by bisection of the sure payment."""
    low, high = 0.0, 1.0
    for _ in range(40):
        level = (low + high) / 2
        values = np.maximum(level, (alpha + np.arange(depth + 1)) / (alpha + beta + depth))
        for n in range(depth - 1, -1, -1):
            mean = (alpha + np.arange(n + 1)) / (alpha + beta + n)
            ahead = mean * values[1:] + (1 - mean) * values[:-1]
            worth = (1 - discount) * mean + discount * ahead
            values = np.maximum(level, worth)
        low, high = (level, high) if worth[0] > level else (low, level)
    return level


@pytest.mark.parametrize(
    ("alpha", "beta", "error"), [(3000.0, 7000.0, 2e-6), (1.0, 9999.0, 5e-7), (1.0, 1.0, 1e-6)]
)
def test_indices_are_those_of_bisection(alpha, beta, error):
    """That of 3,000 in 10,000 was .30065 for .30012, by known payments that were too far apart."""
    found = indices(Beta(alpha, beta), [[0, 0]], [[0, 0]], discount=0.95)[0, 0]
    assert abs(found - calibrate(alpha, beta, 0.95, 400)) <= error


def test_index_without_a_future_is_the_mean():
    found = indices(Beta([1.0, 2.0], [1.0, 5.0]), [[3, 1]], [[2, 1]], discount=1e-9)
    assert found == pytest.approx(np.array([[3 / 5, 3 / 8]]), abs=1e-4)


def test_arms_have_tables_of_their_own_priors():
    both = indices(Beta([1.0, 2.0], [1.0, 5.0]), [[3, 1]], [[2, 1]], discount=0.9)
    assert both[0, 0] == indices(Beta(1.0, 1.0), [[3, 1]], [[2, 1]], discount=0.9)[0, 0]
    assert both[0, 1] == indices(Beta(2.0, 5.0), [[3, 1]], [[2, 1]], discount=0.9)[0, 1]


@pytest.mark.parametrize("pulls", [15, 16, 400])
def test_tables_end_where_the_diffusion_takes_over(pulls, monkeypatch):
    monkeypatch.setattr("agents.rules.gittins.FIRST_TABLE_PULLS", 8)
    monkeypatch.setattr("agents.rules.gittins.MAX_TABLE_PULLS", 16)
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    agent = started("discounted_gittins", problem, None, [pulls, 0], [1, 0], discount=0.5)
    assert agent.act() == 1 and agent._num_pulls == 16


def test_prior_that_is_not_conjugate_has_indices_of_its_own():
    # A normal law cut to [0, 1] and so wide as to be flat is all but uniform.
    for name, options, error in [
        ("discounted_gittins", {"discount": 0.9}, 2e-4),  # of two indices, 1e-4 each
        ("optimistic_gittins", {}, 5e-3),  # of tables
    ]:
        flat = indices(TruncatedNormal(0.5, 20.0), [[3, 1]], [[2, 1]], name, **options)
        uniform = indices(Beta(1.0, 1.0), [[3, 1]], [[2, 1]], name, **options)
        assert flat == pytest.approx(uniform, abs=error), name


def agent_after(problem, counts, sums, left, num_envs=1):
    return started("finite_horizon_gittins", problem, num_envs, counts, sums, horizon=left)


def are_worth_trying(a, b, left, payments):
    """Whether pulls of a Beta(a, b) arm beat payments a pull, by recursion over its states."""
    values = np.zeros((left + 1, len(payments)))
    for n in range(left - 1, -1, -1):
        means = ((a + np.arange(n + 1)) / (a + b + n))[:, None]
        ahead = means * values[1 : n + 2] + (1 - means) * values[: n + 1]
        values = np.maximum(means - payments + ahead, 0)
    return values[0] > 0


def exact_index(a, b, left):
    """Return the largest payment that is beaten, of 32 in the interval that is left, six times."""
    low, high = a / (a + b), 1.0
    for _ in range(6):
        payments = np.linspace(low, high, 33)
        last = np.count_nonzero(are_worth_trying(a, b, left, payments[1:]))
        low, high = payments[last], payments[min(last + 1, 32)]
    return low


def bonus_of(a, b, left):
    """Return the index less the mean that the agent has for a Beta(a, b) arm."""
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    return agent_after(problem, [a + b - 2, 0], [a - 1, 0], left).indices()[0, 0] - a / (a + b)


@pytest.mark.parametrize("left", [1, 2, 10, 50])
def test_index_of_bernoulli_arms_near_the_end_is_that_of_the_recursion(left):
    for a, b in [(1, 1), (39, 3), (96, 6), (20, 20), (13, 29), (476, 26)]:
        exact = exact_index(a, b, left) - a / (a + b)
        assert bonus_of(a, b, left) == pytest.approx(exact, abs=1e-8), (a, b)


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


def test_index_of_normal_arms_is_the_boundary_in_posterior_deviations():
    # prior N(0, 2^2) and noise 2: n = 1 before, 5 after four pulls; r = 20 after them
    problem = BanditProblem(Gaussian(2.0), Normal(0.0, 2.0), 2)
    found = agent_after(problem, [4, 0], [4.0, 0.0], 20).indices()[0]
    # h(4) = 0.977 and h(20) between h(16) = 1.461 and h(32) = 1.712, a third of the way in log2
    heights = np.array([0.977 - 0.583 / 6**0.5, 1.461 + 0.251 * np.log2(1.25) - 0.583 / 2**0.5])
    assert found == pytest.approx([0.8, 0.0] + heights * [2 / 5**0.5, 2.0], rel=1e-9)
