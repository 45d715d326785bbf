import numpy as np
import pytest
from surface import started

from agents import DiscountedGittins
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import (
    Beta,
    HierarchicalBeta,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem

PUBLISHED = {
    # Christian and Griffiths (2016), "Algorithms to live by", chapter 2, who quote the tables of
    # Gittins, Glazebrook and Weber: (successes, failures) after a uniform prior -> index
    0.9: {(0, 0): 0.7029, (1, 1): 0.6346, (2, 2): 0.6010, (9, 1): 0.8695},
    0.99: {(0, 0): 0.8699},
}


def indices(prior, counts, sums, **options):
    problem = BanditProblem(Bernoulli(), prior, len(counts[0]))
    return started("discounted_gittins", problem, len(counts), counts, sums, **options).indices()


@pytest.mark.parametrize("discount", PUBLISHED)
def test_indices_are_those_published(discount):
    states = np.array(list(PUBLISHED[discount]))
    counts = np.stack([states.sum(axis=1), np.zeros(len(states))], axis=1)
    sums = np.stack([states[:, 0], np.zeros(len(states))], axis=1)
    found = indices(Beta(1.0, 1.0), counts, sums, discount=discount)
    expected = np.array(list(PUBLISHED[discount].values()))
    assert np.abs(found[:, 0] - expected).max() <= 1e-4  # four digits, half of it rounding


def test_index_without_a_future_is_the_mean():
    found = indices(Beta([1.0, 2.0], [1.0, 5.0]), [[3, 1]], [[2, 1]], discount=1e-9)
    assert found == pytest.approx(np.array([[3 / 5, 3 / 8]]), abs=1e-4)


def test_arms_have_tables_of_their_own_priors():
    both = indices(Beta([1.0, 2.0], [1.0, 5.0]), [[3, 1]], [[2, 1]], discount=0.9)
    assert both[0, 0] == indices(Beta(1.0, 1.0), [[3, 1]], [[2, 1]], discount=0.9)[0, 0]
    assert both[0, 1] == indices(Beta(2.0, 5.0), [[3, 1]], [[2, 1]], discount=0.9)[0, 1]


def test_prior_that_is_not_conjugate_has_indices_of_its_own():
    # A normal law cut to [0, 1] and so wide as to be flat is all but uniform.
    flat = indices(TruncatedNormal(0.5, 20.0), [[3, 1]], [[2, 1]], discount=0.9)
    uniform = indices(Beta(1.0, 1.0), [[3, 1]], [[2, 1]], discount=0.9)
    assert flat == pytest.approx(uniform, abs=2e-4)  # of two indices, 1e-4 each


def test_others_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"must be Bernoulli\(\) for DiscountedGittins"):
        DiscountedGittins(BanditProblem(Gaussian(), Normal(0.0, 1.0), 2))
    normal = TruncatedMultivariateNormal(0.5, [[1.0, 0.9], [0.9, 1.0]])
    for prior in (normal, HierarchicalBeta([1.0, 2.0], [2.0, 1.0])):
        with pytest.raises(ValueError, match="must have independent arms for DiscountedGittins"):
            DiscountedGittins(BanditProblem(Bernoulli(), prior, 2))
