import pytest
from surface import started

from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import (
    Beta,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem


def indices(problem, counts, sums, name="optimistic_gittins", **options):
    return started(name, problem, 1, counts, sums, **options).indices()[0]


def test_prior_that_is_not_conjugate_is_served_from_tables():
    flat = indices(BanditProblem(Bernoulli(), TruncatedNormal(0.5, 20.0), 2), [8, 0], [6, 0])
    uniform = indices(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), [8, 0], [6, 0])
    assert flat == pytest.approx(uniform, abs=5e-3)
