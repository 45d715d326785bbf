"""Priors that are products over arms and do not say so."""

import numpy as np
import pytest

from agents.racing.marginal import MarginalProposal
from agents.racing.matching import effective_share, match_proposal
from agents.racing.slices import SlicedPrior, take_apart
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.priors.mixtures import HierarchicalBeta, Mixture
from bandit_gym.problem import BanditProblem

CAMPS = Mixture([Beta(20.0, 20.0), TruncatedNormal(0.97, 0.003)], [0.998, 0.002])


class DensityOnly:
    """A prior as somebody would write it: two functions."""

    def __init__(self, prior):
        self.prior = prior

    def sample(self, rng, shape):
        return self.prior.sample(rng, shape)

    def log_density(self, means):
        return self.prior.log_density(means) + 7.0


def _take_apart(prior, num_arms=3):
    problem = BanditProblem(Bernoulli(), DensityOnly(prior), num_arms)
    return take_apart(problem, prior.sample(np.random.default_rng(0), (10_000, num_arms))).prior


@pytest.mark.parametrize(
    "prior", [Beta(0.5, 3.0), TruncatedNormal((0.2, 0.5, 0.7), 0.1), CAMPS], ids=repr
)
def test_slices_are_the_densities_of_the_arms_up_to_constants(prior):
    sliced = _take_apart(prior)
    means = np.random.default_rng(1).uniform(0.1, 0.9, (50, 3))
    differences = sliced.arm_log_density(means) - prior.arm_log_density(means)
    np.testing.assert_allclose(differences, np.tile(differences[:1], (50, 1)), atol=1e-9)


@pytest.mark.parametrize(
    "prior",
    [
        HierarchicalBeta((0.2, 0.8), (5.0, 5.0)),
        TruncatedMultivariateNormal(0.5, [[0.04, 1e-4, 0], [1e-4, 0.04, 0], [0, 0, 0.04]]),
    ],
    ids=["hierarchy", "a correlation of 1 / 400"],
)
def test_arms_that_depend_on_each_other_are_left_together(prior):
    assert not isinstance(_take_apart(prior), SlicedPrior)


def test_arms_of_one_law_share_a_slice():
    means = np.tile(np.linspace(0.1, 0.9, 20)[:, None], 3)
    values = _take_apart(TruncatedNormal((0.3, 0.5, 0.3), 0.1)).arm_log_density(means)
    assert (values[:, 0] == values[:, 2]).all()
    assert (values[:, 0] != values[:, 1]).any()


@pytest.mark.parametrize("prior", [CAMPS, DensityOnly(CAMPS)], ids=["known", "density only"])
def test_a_rare_camp_that_the_data_ask_for_is_drawn_from(prior):
    proposal = match_proposal(BanditProblem(Bernoulli(), prior, 2))
    assert isinstance(proposal, MarginalProposal) and proposal.has_equal_weights
    assert effective_share(proposal) > 0.99
    counts, sums = np.array([[30, 1000]]), np.array([[30.0, 850.0]])
    proposal.follow(np.random.default_rng(0), counts, sums)
    means = proposal.draw(np.random.default_rng(0), np.arange(1), 1000).means
    assert (means[0, 0] > 0.9).mean() > 0.99  # 30 of 30 rewards: the camp has nearly all mass


def test_sliced_priors_are_equal_to_themselves_alone():
    """By fields they could not be compared, which are arrays."""
    one, other = _take_apart(CAMPS), _take_apart(CAMPS)
    assert one == one and one != other and len({one, other}) == 2
