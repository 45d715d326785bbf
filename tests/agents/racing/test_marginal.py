"""The proposal that draws every arm from its own posterior, by a table."""

import numpy as np
import pytest

from agents import RacingThompson
from agents.oracle import action_probabilities
from agents.posteriors.tabulation import fill_guide
from agents.racing.marginal import MarginalProposal, fit_marginals
from agents.racing.matching import effective_share, match_proposal
from bandit_gym.envs.families import unit_vector_covariance
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Gamma, Normal, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.priors.mixtures import LogitNormal
from bandit_gym.problem import BanditProblem

COUNTS, SUMS = np.array([0, 4, 30, 1]), np.array([0.0, 2.0, 14.0, 1.0])
NUM_SAMPLES = 40_000

INDEPENDENT = [
    (Bernoulli(), TruncatedNormal(0.2, 0.1)),
    (Exponential(), TruncatedNormal(1.0, 0.3, low=0.0, high=3.0)),
    (Gaussian(), TruncatedNormal(0.0, 1.0, low=-1.0)),
    (Poisson(), Gamma(2.0, 1.0)),
    (Gaussian(), Normal(0.0, 1.0)),
]


def _dependent(likelihood, num_arms=4, dimension=20, high=3.0):
    covariance = unit_vector_covariance(num_arms, dimension, 0).tolist()
    prior = TruncatedMultivariateNormal(0.5, covariance, low=0.0, high=high)
    return BanditProblem(likelihood, prior, num_arms)


class Dependent:
    """A truncated multivariate normal that says nothing of itself, as a user would write it."""

    def __init__(self, prior):
        self.prior = prior

    def sample(self, rng, shape):
        return self.prior.sample(rng, shape)

    def log_density(self, means):
        return self.prior.log_density(means)


def _draw(problem, rng, counts=COUNTS, sums=SUMS):
    """Return a proposal's normalised weights (m,) and winners (m,)."""
    proposal = MarginalProposal(problem, problem.prior.sample(rng, (10_000, problem.num_arms)))
    proposal.follow(rng, counts[None], sums[None])
    draws = proposal.draw(rng, np.arange(1), NUM_SAMPLES)
    weights = np.exp(draws.log_weights[0] - draws.log_weights.max())
    return weights / weights.sum(), draws.winners[0]


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "a user's own"])
@pytest.mark.parametrize(
    "likelihood", [Bernoulli(), Exponential(), Gaussian(), Poisson()], ids=lambda each: each.name
)
def test_weighted_draws_have_the_exact_action_probabilities(likelihood, is_known, rng):
    problem = _dependent(likelihood, high=1.0 if likelihood.name == "bernoulli" else 3.0)
    truth = action_probabilities(problem, COUNTS[None], SUMS[None], tolerance=0.003)[0]
    if not is_known:
        problem = BanditProblem(likelihood, Dependent(problem.prior), 4)
    weights, winners = _draw(problem, rng)
    wins = winners[:, None] == np.arange(4)
    found = weights @ wins
    errors = np.sqrt((weights**2) @ (wins - found) ** 2)
    np.testing.assert_array_less(abs(found - truth), 4 * errors + 0.003)


@pytest.mark.parametrize(("likelihood", "prior"), INDEPENDENT)
def test_a_draw_for_independent_arms_is_one_from_the_posterior(likelihood, prior, rng):
    problem = BanditProblem(likelihood, prior, 4)
    proposal = MarginalProposal(problem, np.empty((0, 4)))
    proposal.follow(rng, COUNTS[None], SUMS[None])
    draws = proposal.draw(rng, np.arange(1), NUM_SAMPLES)
    weights = np.exp(proposal.weigh(np.arange(1), draws.means)[0])
    # What is left are the errors of the tables: the draws are taken as they are.
    assert weights.sum() ** 2 / np.square(weights).sum() > 0.99 * NUM_SAMPLES
    assert not draws.log_weights.any()


def test_weights_mend_what_tables_get_wrong(rng):
    problem = _dependent(Bernoulli(), high=1.0)
    proposal = MarginalProposal(problem, problem.prior.sample(rng, (1000, 4)))
    counts, sums = COUNTS[None], SUMS[None]
    proposal.follow(rng, counts, sums)
    tables, arm = proposal.grid.tables, 3
    tables.points[0, arm, :, 0] **= 1.5  # draws of this arm are too large
    fill_guide(tables.points[0, arm], tables.guides[0, arm])
    truth = action_probabilities(problem, counts, sums, tolerance=2e-3)[0]  # by long chains
    draws = proposal.draw(rng, np.arange(1), 100_000)
    weights = np.exp(draws.log_weights[0] - draws.log_weights.max())
    weights /= weights.sum()
    wins = draws.winners[0][:, None] == np.arange(4)
    errors = 4 * np.sqrt((weights**2) @ (wins - truth) ** 2) + 2e-3
    assert (abs(weights @ wins - truth) < errors).all()
    assert wins.mean(axis=0)[arm] - truth[arm] > 10 * errors[arm]  # without weights


@pytest.mark.parametrize(("likelihood", "prior"), INDEPENDENT[:3])
def test_own_posteriors_are_drawn_from_where_conjugate_ones_will_not_do(likelihood, prior):
    proposal = match_proposal(BanditProblem(likelihood, prior, 10))
    assert isinstance(proposal, MarginalProposal)
    assert effective_share(proposal) > 0.99


def test_own_posteriors_are_drawn_from_where_arms_depend_on_each_other_loosely():
    problem = _dependent(Exponential(), num_arms=10, dimension=50)
    assert isinstance(match_proposal(problem), MarginalProposal)


def test_an_independent_prior_is_its_own_marginals(rng):
    prior = LogitNormal(0.0, 1.0)
    problem = BanditProblem(Bernoulli(), prior, 3)
    assert fit_marginals(problem, prior.sample(rng, (10, 3))) is prior


def test_marginals_of_a_truncated_normal_are_its_own_before_truncation():
    prior = TruncatedMultivariateNormal(0.5, [[0.04, 0.01], [0.01, 0.09]], low=0.0, high=1.0)
    problem = BanditProblem(Bernoulli(), prior, 2)
    marginals = fit_marginals(problem, np.zeros((1, 2)))
    np.testing.assert_allclose(marginals.std, [0.2, 0.3])
    assert marginals.mean == (0.5, 0.5)
    np.testing.assert_array_equal(marginals.arm_support(2), problem.arm_support())


def test_draws_weigh_the_same_whatever_they_were_drawn_from(rng):
    problem = _dependent(Exponential())
    proposal = MarginalProposal(problem, problem.prior.sample(rng, (1000, 4)))
    proposal.follow(rng, COUNTS[None], SUMS[None])
    draws = proposal.draw(rng, np.arange(1), 1000)
    difference = proposal.weigh(np.arange(1), draws.means) - draws.log_weights
    np.testing.assert_allclose(difference, difference.mean(), atol=1e-6)


def test_racing_is_faithful_and_thrifty():
    problem = _dependent(Exponential(), num_arms=10, dimension=50)
    counts = np.array([46, 2, 5, 2, 2, 5, 17, 2, 1, 18])
    sums = counts * np.array([2.49, 0.31, 0.84, 0.02, 0.74, 0.68, 1.61, 0.57, 0.09, 1.79])
    truth = action_probabilities(problem, counts[None], sums[None], tolerance=0.003)[0]
    agent = RacingThompson(problem)
    agent.reset(1000, seed=1)
    agent.warm_start(counts, sums)
    actions = np.concatenate([agent.act() for _ in range(20)])
    frequencies = np.bincount(actions, minlength=10) / actions.size
    floor = np.sqrt(truth * (1 - truth) / actions.size).sum() / 2
    assert abs(frequencies - truth).sum() / 2 < 0.01 + floor + 0.003
    assert agent.diagnostics()["num_samples"].mean() < 30


def test_marginals_of_unbounded_means_are_normal_laws_far_enough_cut(rng):
    class Factor:
        def sample(self, rng, shape):
            return rng.normal(size=shape) + rng.normal(size=(*shape[:-1], 1))

        def log_density(self, means):
            square = np.square(means).sum(axis=-1)
            return -0.5 * (square - np.square(means.sum(axis=-1)) / (1 + means.shape[-1]))

    problem = BanditProblem(Gaussian(), Factor(), 3)
    marginals = fit_marginals(problem, problem.prior.sample(rng, (10_000, 3)))
    np.testing.assert_allclose(marginals.std, np.sqrt(2), rtol=4 / np.sqrt(2 * 10_000))
    assert (marginals.arm_support(3)[:, 1] > 1000).all()


def test_races_in_one_compiled_loop_end_as_races_in_rounds_do(monkeypatch):
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), 4)
    agents = [RacingThompson(problem) for _ in range(2)]
    for agent in agents:
        agent.reset(3, seed=0)
        agent.warm_start([4, 0, 30, 2], [1, 0, 20, 2])
    in_loop = agents[0].race()
    monkeypatch.setattr(MarginalProposal, "run_races", lambda *arguments: False)
    in_rounds = agents[1].race()
    for one, other in zip(in_loop[1:], in_rounds[1:], strict=True):
        np.testing.assert_array_equal(one, other)
