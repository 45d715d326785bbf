"""The proposal whose draws are those of a truncated normal."""

import math

import numpy as np
import pytest
from scipy import special, stats

from agents import RacingThompson
from agents.oracle import action_probabilities
from agents.racing.matching import effective_share, match_proposal
from agents.racing.normal import NormalProposal, _cut_box, factorise
from bandit_gym.envs.families import unit_vector_covariance
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem

LIKELIHOODS = (Bernoulli(), Exponential(), Gaussian(), Poisson())
COUNTS, SUMS = np.array([0, 4, 30, 1]), np.array([0.0, 2.0, 14.0, 1.0])
NUM_SAMPLES = 40_000


def _near_singular(likelihood, num_arms=4, low=0.0, high=1.5):
    covariance = unit_vector_covariance(num_arms, num_arms, 0).tolist()
    prior = TruncatedMultivariateNormal(0.5, covariance, low=low, high=high)
    return BanditProblem(likelihood, prior, num_arms)


class CommonFactor:
    """A prior as users write it: log-odds with a part that all arms share."""

    def sample(self, rng, shape):
        return special.expit(rng.normal(size=(*shape[:-1], 1)) + 0.2 * rng.normal(size=shape))

    def log_density(self, means):
        num_arms = means.shape[-1]
        covariance = np.ones((num_arms, num_arms)) + 0.04 * np.eye(num_arms)
        with np.errstate(divide="ignore"):
            odds, slope = special.logit(means), np.log(means * (1 - means))
        return stats.multivariate_normal.logpdf(odds, cov=covariance) - slope.sum(axis=-1)


def _weigh(proposal, rng, counts=COUNTS, sums=SUMS, num_samples=NUM_SAMPLES):
    """Return the action probabilities that weighted draws give, and their standard errors."""
    proposal.follow(rng, counts[None], sums[None])
    draws = proposal.draw(rng, np.arange(1), num_samples)
    weights = np.exp(draws.log_weights[0] - draws.log_weights.max())
    weights /= weights.sum()
    wins = draws.winners[0][:, None] == np.arange(len(counts))
    probabilities = weights @ wins
    return probabilities, np.sqrt((weights**2) @ (wins - probabilities) ** 2)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
def test_weighted_draws_have_the_exact_action_probabilities(likelihood, rng):
    problem = _near_singular(likelihood, high=1.0 if likelihood.name == "bernoulli" else 1.5)
    truth = action_probabilities(problem, COUNTS[None], SUMS[None], tolerance=0.003)[0]
    found, errors = _weigh(NormalProposal(problem, None), rng)
    np.testing.assert_array_less(abs(found - truth), 4 * errors + 0.003)


def test_weighted_draws_are_right_where_the_prior_is_no_normal_law(rng):
    problem = BanditProblem(Bernoulli(), CommonFactor(), 4)
    means = problem.prior.sample(rng, (400_000, 4))
    log_likelihood = problem.likelihood.log_likelihood(means, COUNTS, SUMS).sum(axis=-1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    truth = np.bincount(means.argmax(axis=1), weights, 4) / weights.sum()
    effective = weights.sum() ** 2 / np.square(weights).sum()
    proposal = match_proposal(problem)
    assert isinstance(proposal, NormalProposal)
    found, errors = _weigh(proposal, rng)
    np.testing.assert_array_less(abs(found - truth), 4 * errors + 2 / math.sqrt(effective))


def test_correlation_makes_samples_worth_more():
    problem = _near_singular(Bernoulli(), num_arms=10, high=1.0)
    matched = match_proposal(problem)
    reference = RacingThompson.paper(problem)._proposal
    assert effective_share(matched) > 5 * effective_share(reference)


class TiedNormal:
    """As users of SciPy write a prior: normal arms of any mean, with correlation 0.99."""

    law = stats.multivariate_normal(np.zeros(3), np.full((3, 3), 0.99) + 0.01 * np.eye(3))

    def sample(self, rng, shape):
        return self.law.rvs(shape[:-1], random_state=rng).reshape(shape)

    def log_density(self, means):
        return self.law.logpdf(means)


@pytest.mark.filterwarnings("error")
def test_unbounded_means_and_densities_that_drop_dimensions_of_length_one(rng):
    problem = BanditProblem(Gaussian(), TiedNormal(), 3)
    counts, sums = np.array([5, 1, 0]), np.array([2.0, -1.0, 0.0])
    precision = np.linalg.inv(problem.prior.law.cov) + np.diag(counts)
    mean = np.linalg.solve(precision, sums)
    draws = rng.multivariate_normal(mean, np.linalg.inv(precision), 100_000)
    truth = np.bincount(draws.argmax(axis=1), minlength=3) / len(draws)
    proposal = match_proposal(problem)
    assert isinstance(proposal, NormalProposal)
    found, errors = _weigh(proposal, rng, counts, sums)
    np.testing.assert_array_less(abs(found - truth), 4 * errors + 2 / math.sqrt(len(draws)))
    agent = RacingThompson(problem, stopping=1)
    agent.reset(1, seed=1)
    assert agent.act().shape == (1,)


class OneMean:
    """A prior under which all arms are the same: its covariance is singular."""

    def sample(self, rng, shape):
        return np.broadcast_to(rng.random((*shape[:-1], 1)), shape).copy()

    def log_density(self, means):
        return np.where(np.ptp(means, axis=-1) < 1e-3, 0.0, -np.inf)


def test_a_prior_that_no_proposal_meets_is_refused():
    with pytest.raises(ValueError, match="must have a density where .*; use SMCThompson"):
        match_proposal(BanditProblem(Bernoulli(), OneMean(), 3))


def test_intervals_are_cut_near_their_most_likely_point_and_within_the_support():
    box = np.array([[0.0, 1.0], [0.0, 1.0], [-np.inf, np.inf], [2.0, np.inf]])
    mean, variance = np.array([0.5, -3.0, 1.0, 0.0]), np.array([1e-4, 0.01, 4.0, 1.0])
    found = _cut_box(mean, variance, box)
    np.testing.assert_allclose(found, [[0.38, 0.62], [0.0, 1.0], [-23.0, 25.0], [2.0, 14.0]])


def test_draws_lie_strictly_inside_the_support(rng):
    problem = _near_singular(Bernoulli(), high=1.0)
    proposal = NormalProposal(problem, None)
    counts, sums = np.full((1, 4), 10**17), np.array([[1e17, 0.0, 1e17, 0.0]])
    proposal.follow(rng, counts, sums)
    means = proposal.draw(rng, np.arange(1), 1000).means
    assert (means > 0.0).all() and (means < 1.0).all()


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
@pytest.mark.parametrize("sums", [SUMS, 0.01 * SUMS], ids=["usual", "at an end"])
def test_draws_weigh_the_same_whatever_they_were_drawn_from(likelihood, sums, rng):
    problem = _near_singular(likelihood, high=1.0 if likelihood.name == "bernoulli" else 1.5)
    proposal = NormalProposal(problem, None)
    proposal.follow(rng, COUNTS[None], sums[None])
    draws = proposal.draw(rng, np.arange(1), 1000)
    difference = proposal.weigh(np.arange(1), draws.means) - draws.log_weights
    np.testing.assert_allclose(difference, difference[0, 0], atol=1e-6)


def test_factorise_solves(rng):
    root = rng.normal(size=(6, 6))
    matrix, vector = root @ root.T, rng.normal(size=6)
    factor, solution = matrix.copy(), vector.copy()
    factorise(factor, solution)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix))
    np.testing.assert_allclose(matrix @ solution, vector)


@pytest.mark.slow
def test_racing_is_faithful_where_arms_are_nearly_tied_together():
    problem = _near_singular(Bernoulli(), num_arms=10, high=1.0)
    counts, sums = np.full(10, 3), np.array([3, 2, 3, 1, 0, 2, 3, 3, 1, 2.0])
    truth = action_probabilities(problem, counts[None], sums[None], tolerance=0.003)[0]
    agent = RacingThompson(problem)
    agent.reset(1000, seed=1)
    agent.warm_start(counts, sums)
    actions = np.concatenate([agent.act() for _ in range(20)])
    frequencies = np.bincount(actions, minlength=10) / actions.size
    floor = np.sqrt(truth * (1 - truth) / actions.size).sum() / 2
    assert abs(frequencies - truth).sum() / 2 < 0.01 + floor + 0.003
    assert agent.diagnostics()["num_samples"].mean() < 100


def test_supremum_scale_is_refused():
    with pytest.raises(ValueError, match="scale must be 'value' or 'weight'"):
        RacingThompson(
            _near_singular(Bernoulli(), num_arms=10, high=1.0), stopping="paper", scale="supremum"
        )
