"""Priors that are products over arms and do not say so."""

import numpy as np
import pytest
from scipy import stats

from agents import RacingThompson
from agents.racing.bank import Bank
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


class CommonCamp:
    """All arms are of one law or all of another, which one draw in `rarity` is: a dependence."""

    rare, usual = stats.truncnorm(-0.97 / 0.003, 10.0, 0.97, 0.003), stats.beta(20, 20)

    def __init__(self, rarity):
        self.rarity = rarity

    def sample(self, rng, shape):
        laws = [law.rvs(size=shape, random_state=rng) for law in (self.rare, self.usual)]
        return np.where(rng.random((*shape[:-1], 1)) * self.rarity < 1, *laws)

    def log_density(self, means):
        rare, usual = (law.logpdf(means).sum(axis=-1) for law in (self.rare, self.usual))
        return np.logaddexp(rare - np.log(self.rarity), usual + np.log1p(-1 / self.rarity))


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


@pytest.mark.parametrize("make", [RacingThompson, RacingThompson.paper])
@pytest.mark.parametrize("rarity", [1e7, 1e5])
@pytest.mark.parametrize(
    ("counts", "sums"), [([30, 1000], [29, 970]), ([3, 30], [3, 29])], ids=["many", "few"]
)
def test_a_dependence_that_no_draw_of_the_prior_shows_is_flagged_where_the_data_lead(
    make, rarity, counts, sums
):
    """With 1e7 all 10,000 draws are of arms that look independent; with 1e5 a pair may tell.

    The total variation between the arms that are played and the truth is 0.05 to 0.5, by
    quadrature.
    """
    agent = make(BanditProblem(Bernoulli(), CommonCamp(rarity), 2))
    agent.reset(20, seed=0)
    agent.warm_start(counts, sums)
    agent.act()
    assert agent.diagnostics()["is_unreliable"].all()


@pytest.mark.parametrize("prior", [CAMPS, Beta(2.0, 3.0), TruncatedNormal(0.5, 0.02)], ids=repr)
@pytest.mark.parametrize("pulls", [0, 3, 1000])
def test_arms_that_are_independent_are_not_flagged_wherever_the_data_lead(prior, pulls):
    agent = RacingThompson(BanditProblem(Bernoulli(), DensityOnly(prior), 3))
    agent.reset(20, seed=0)
    agent.warm_start([pulls, pulls, 0], [pulls, 0, 0])
    agent.act()
    assert not agent.diagnostics()["is_unreliable"].any()


def test_rewards_beyond_all_draws_of_a_prior_are_far():
    """Of 4,096 draws of Beta(20, 20) the largest is about 0.77, where 30 rewards err by 0.077."""
    bank = Bank(BanditProblem(Bernoulli(), DensityOnly(Beta(20.0, 20.0)), 2))
    counts = np.array([[30, 0], [30, 0], [30, 30], [0, 0]])
    sums = np.array([[23, 0], [29, 0], [15, 1], [0, 0]], dtype=float)
    bank.follow(np.random.default_rng(0), counts, sums)
    assert bank.is_far.tolist() == [False, True, True, False]


class Box:
    """Uniform on a part of the likelihood's support that it does not state."""

    def sample(self, rng, shape):
        return rng.uniform(0.2, 0.4, shape)

    def log_density(self, means):
        is_inside = ((means > 0.2) & (means < 0.4)).all(axis=-1)
        return np.where(is_inside, 0.0, -np.inf)


def test_slices_that_end_within_the_support_are_drawn_from():
    """Of 200 rewards in as many pulls an arm is sure to be at the upper end, of 3 it is not."""
    problem = BanditProblem(Bernoulli(), Box(), 2)
    proposal = match_proposal(problem)
    assert isinstance(proposal, MarginalProposal) and proposal.has_equal_weights
    agent = RacingThompson(problem)
    agent.reset(1000, seed=0)
    agent.warm_start([3, 200], [3, 200])
    share = np.bincount(agent.act(), minlength=2)[1] / 1000
    x = np.linspace(0.2, 0.4, 20_001)
    few, many = x**4 - 0.2**4, 201 * x**200  # a distribution function and a density, unnormalised
    truth = np.trapezoid(few / few[-1] * many, x) / np.trapezoid(many, x)
    assert share == pytest.approx(truth, abs=4 * 0.5 / np.sqrt(1000))
    assert not agent.diagnostics()["is_unreliable"].any()


class Band:
    """The second arm within 0.1 of the first: few exchanges of two draws are possible."""

    def sample(self, rng, shape):
        first = rng.uniform(0.1, 0.9, shape[:-1])
        return np.stack([first, first + rng.uniform(-0.1, 0.1, shape[:-1])], axis=-1)

    def log_density(self, means):
        first, second = means[..., 0], means[..., 1]
        is_inside = (abs(first - second) < 0.1) & (first > 0.1) & (first < 0.9)
        return np.where(is_inside, 0.0, -np.inf)


def test_arms_that_exclude_each_others_means_are_left_together():
    problem = BanditProblem(Bernoulli(), Band(), 2)
    draws = Band().sample(np.random.default_rng(0), (1000, 2))
    assert not isinstance(take_apart(problem, draws).prior, SlicedPrior)
    sliced = SlicedPrior(Band(), np.full(2, 0.5), problem.arm_support(), draws.ravel()[:100])
    means = np.array([[0.45, 0.52], [0.41, 0.59], [0.2, 0.21], [0.05, 0.95]])
    found = sliced.is_product(np.repeat(means, 30, axis=0)).reshape(4, 30)  # half exchange nothing
    assert found.all(axis=1).tolist() == [True, False, False, True]
