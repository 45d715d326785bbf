import numpy as np
import pytest
from surface import started

from bandit_gym.likelihoods import Bernoulli, Exponential
from bandit_gym.priors import (
    Beta,
    InverseGamma,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem


def indices(problem, counts, sums, name="optimistic_gittins", **options):
    return started(name, problem, 1, counts, sums, **options).indices()[0]


def test_index_of_a_uniform_law_is_that_by_hand():
    # v = 1/2 + g v^2 / 2 is solved by (1 - sqrt(1 - g)) / g; here g = 1 - 1 / 101
    found = indices(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), [0, 0], [0, 0])
    assert found == pytest.approx(np.full(2, (1 - 101**-0.5) * 101 / 100))


def test_index_is_above_that_of_gittins():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    # t = 8, so that a pace of 91 makes the discount 1 - 1 / 100
    optimistic = indices(problem, [8, 0], [6, 0], pace=91)
    exact = indices(problem, [8, 0], [6, 0], "discounted_gittins", discount=0.99)
    assert (optimistic > exact).all()


def test_prior_that_is_not_conjugate_is_served_from_tables():
    flat = indices(BanditProblem(Bernoulli(), TruncatedNormal(0.5, 20.0), 2), [8, 0], [6, 0])
    uniform = indices(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), [8, 0], [6, 0])
    assert flat == pytest.approx(uniform, abs=5e-3)


def test_infinite_mean_comes_first():
    problem = BanditProblem(Exponential(), InverseGamma(0.5, 1.0), 2)
    found = indices(problem, [0, 9], [0.0, 900.0])
    assert found[0] == np.inf and np.isfinite(found[1])
