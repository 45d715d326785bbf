"""The base class of likelihoods: what a subclass that gives only the essentials gets for free."""

import pickle
from math import inf

import numpy as np
import pytest
from families import ALL_LIKELIHOODS
from geometric import Geometric

from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Likelihood, Poisson

CASES = (
    (Bernoulli(), [1e-6, 0.3, 0.5, 0.999]),
    (Exponential(), [1e-8, 0.3, 1e6]),
    (Gaussian(0.01), [-5.0, 0.0, 1e4]),
    (Gaussian(100.0), [0.0, 1e6]),
    (Poisson(), [1e-8, 4.0, 1e6]),
)


class Scaled(Likelihood):
    """No dataclass, and a parameter: Gaussian rewards, of which everything is derived."""

    name, support = "scaled", (-inf, inf)

    def __init__(self, std):
        self.std = std

    def is_possible(self, rewards):
        return np.isfinite(rewards)

    def log_likelihood(self, means, counts, sums):
        return Gaussian(self.std).log_likelihood(means, counts, sums)

    def sample(self, means, uniforms):
        return Gaussian(self.std).sample(means, uniforms)


def test_a_subclass_without_the_essentials_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        type("Empty", (Likelihood,), {"name": "empty", "support": (0.0, 1.0)})()


@pytest.mark.parametrize(("likelihood", "means"), CASES, ids=repr)
def test_default_std_is_that_of_the_law(likelihood, means):
    expected = likelihood.reward_std(np.array(means))
    np.testing.assert_allclose(Likelihood.reward_std(likelihood, means), expected, rtol=1e-7)


def test_default_std_of_geometric_rewards_is_that_of_the_law():
    means = np.array([1e-8, 0.01, 1.0, 50.0])
    expected = np.sqrt(means + means**2)
    np.testing.assert_allclose(Geometric().reward_std(means), expected, rtol=1e-7)


@pytest.mark.parametrize(("likelihood", "end"), [(Bernoulli(), 1.0), (Geometric(), 0.0)])
def test_default_std_is_zero_at_an_end_of_the_support(likelihood, end):
    assert Likelihood.reward_std(likelihood, end) == 0.0


def test_default_contains_the_support_with_its_finite_ends():
    inside = Geometric().contains(np.array([0.0, 1e-300, 1e300, -1e-9, inf, np.nan]))
    assert inside.tolist() == [True, True, True, False, False, False]


@pytest.mark.parametrize(
    ("likelihood", "count", "total", "is_possible"),
    [
        (Geometric(), 0, 0.0, True),
        (Geometric(), 0, 1.0, False),
        (Geometric(), 2, 7.0, True),
        (Geometric(), 2, 7.5, False),
        (Geometric(), 2, -1.0, False),
        (Geometric(), 2, inf, False),
        (Geometric(), 2, np.nan, False),
        (Bernoulli(), 2, 3.0, False),
        (Bernoulli(), 3, 3.0, True),
        (Scaled(1.0), 2, -7.5, True),
    ],
)
def test_default_is_possible_sum(likelihood, count, total, is_possible):
    assert likelihood.is_possible_sum(count, total) == is_possible


def test_default_dict_and_repr_name_the_parameters():
    assert Scaled(2.0).to_dict() == {"name": "scaled", "std": 2.0}
    assert repr(Scaled(2.0)) == "Scaled(std=2.0)"
    assert Geometric().to_dict() == {"name": "geometric"}


@pytest.mark.parametrize("likelihood", [*ALL_LIKELIHOODS, Geometric(), Scaled(2.0)], ids=repr)
def test_likelihood_pickles_to_an_equal_one(likelihood):
    copy = pickle.loads(pickle.dumps(likelihood))
    assert copy == likelihood
    assert hash(copy) == hash(likelihood)


def test_likelihoods_of_other_parameters_or_classes_differ():
    assert Scaled(1.0) != Scaled(2.0)
    assert Scaled(1.0) != Gaussian(1.0)
