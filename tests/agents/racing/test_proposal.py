"""What proposals say of the posterior, as every posterior does, from weighted draws."""

import pickle

import numpy as np
import pytest
from scipy import stats

from agents.oracle import action_probabilities
from agents.posteriors.conjugate import conjugate_posterior
from agents.racing.marginal import MarginalProposal
from agents.racing.matching import make_proposal
from agents.racing.normal import NormalProposal
from agents.racing.proposal import (
    NUM_DRAWS,
    TILE_SIZE,
    prior_log_density,
    split_lanes,
    weighted_quantile,
)
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.problem import BanditProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(5.0, 5.0), 3)
COUNTS, SUMS = np.array([[6, 3, 0], [9, 0, 2]]), np.array([[4.0, 1.0, 0.0], [8.0, 0.0, 0.0]])
LAWS = stats.beta(*conjugate_posterior(PROBLEM).parameters(COUNTS, SUMS))


def _draws_of_the_prior():
    return PROBLEM.prior.sample(np.random.default_rng(0), (10_000, 3))


KINDS = {
    "reference": lambda: make_proposal(PROBLEM, "reference"),
    "one's own": lambda: make_proposal(PROBLEM, Beta(2.0, 2.0)),
    "marginal": lambda: MarginalProposal(PROBLEM, _draws_of_the_prior()),
    "normal": lambda: NormalProposal(PROBLEM, _draws_of_the_prior()),
}


@pytest.fixture(params=KINDS)
def proposal(request, rng):
    made = KINDS[request.param]()
    made.follow(rng, COUNTS, SUMS)
    return made


def _four_errors(proposal):
    """Return four standard errors of averages of unit variance, (N, 1), by effective samples."""
    draws = proposal.draw(np.random.default_rng(1), np.arange(2), NUM_DRAWS)
    weights = np.exp(draws.log_weights)
    return 4 * np.sqrt(np.square(weights).sum(axis=1, keepdims=True)) / weights.sum(axis=1)[:, None]


def test_moments_are_those_of_the_posterior(proposal):
    error = _four_errors(proposal)
    assert (abs(proposal.mean() - LAWS.mean()) < error * LAWS.std()).all()
    assert (abs(proposal.std() / LAWS.std() - 1) < error).all()  # their kurtosis is below 3


@pytest.mark.parametrize("p", [0.1, 0.5, np.array([[0.9], [0.2]])])
def test_quantiles_are_those_of_the_posterior(proposal, p):
    ranks = LAWS.cdf(proposal.quantile(p))
    assert (abs(ranks - p) < _four_errors(proposal) / 2).all()


def test_best_arms_are_those_of_the_posterior(proposal):
    found = proposal.best_arm_probabilities()
    truth = [action_probabilities(PROBLEM, n, s) for n, s in zip(COUNTS, SUMS, strict=True)]
    assert (abs(found - truth) < _four_errors(proposal) / 2).all()


def test_samples_have_the_law_of_the_posterior(proposal, rng):
    num_lanes = 4000
    proposal.follow(rng, np.tile(COUNTS[0], (num_lanes, 1)), np.tile(SUMS[0], (num_lanes, 1)))
    means = proposal.sample(rng)
    for arm in range(3):
        law = stats.beta(LAWS.args[0][0, arm], LAWS.args[1][0, arm])
        assert stats.kstest(means[:, arm], law.cdf).pvalue > 1e-4


def test_a_lane_says_the_same_alone(proposal, rng):
    both = proposal.mean(), proposal.quantile(0.3)
    proposal.follow(rng, COUNTS[1:], SUMS[1:])
    for answers, alone in zip(both, (proposal.mean(), proposal.quantile(0.3)), strict=True):
        np.testing.assert_array_equal(answers[1:], alone)


@pytest.mark.parametrize("expected_samples", [0.0, 1e4], ids=["without tables", "with tables"])
def test_a_pickled_copy_says_and_draws_the_same(proposal, expected_samples):
    proposal.expected_samples = expected_samples
    before = proposal.mean()
    copy = pickle.loads(pickle.dumps(proposal))
    np.testing.assert_array_equal(copy.mean(), before)
    first, second = (each.sample(np.random.default_rng(3)) for each in (proposal, copy))
    np.testing.assert_array_equal(first, second)


class Nowhere:
    """A prior whose density is lost once it has been accepted."""

    is_lost = False

    def sample(self, rng, shape):
        return rng.random(shape)

    def log_density(self, means):
        return np.full(means.shape[:-1], -np.inf if self.is_lost else 0.0)


@pytest.mark.parametrize("ask", ["mean", "std", "best_arm_probabilities"])
def test_a_posterior_without_weight_is_refused(ask, rng):
    prior = Nowhere()
    proposal = make_proposal(BanditProblem(Bernoulli(), prior, 3), "reference")
    prior.is_lost = True
    proposal.follow(rng, COUNTS, SUMS)
    with pytest.raises(
        ValueError, match="must be above -inf at some draw .* got -inf at all 10000"
    ):
        getattr(proposal, ask)()
    with pytest.raises(ValueError, match="at all 1000 draws for lane 0, whose data are hardly"):
        proposal.sample(rng)


def test_an_arm_whose_data_no_draw_explains_is_named_where_it_is_one_alone(rng):
    class Opposed:
        """Both means are within 0.01 of a line on which they add up to 1."""

        def sample(self, rng, shape):
            first = rng.random(shape[:-1])
            second = (1 - first + rng.uniform(-0.01, 0.01, first.shape)).clip(0, 1)
            return np.stack([first, second], axis=-1)

        def log_density(self, means):
            return np.where(abs(means.sum(axis=-1) - 1) <= 0.01, 0.0, -np.inf)

    proposal = make_proposal(BanditProblem(Bernoulli(), Opposed(), 2), "reference")
    proposal.follow(rng, np.array([[9, 9]]), np.array([[9.0, 9.0]]))
    assert proposal.describe_fault(0) == "data are hardly possible under the prior"  # of two arms
    problem = BanditProblem(Gaussian(0.1), TruncatedNormal(0.5, 0.1), 2)
    proposal = make_proposal(problem, "reference")
    proposal.follow(rng, np.array([[1, 0], [1, 1]]), np.array([[7.0, 0.0], [0.5, -7.0]]))
    told = [proposal.describe_fault(lane) for lane in range(2)]
    assert told == [
        "arm 0 has 1 rewards of total 7 that are hardly possible under the prior",
        "arm 1 has 1 rewards of total -7 that are hardly possible under the prior",
    ]


def test_lanes_are_split_into_tiles_that_a_cache_holds():
    assert [part.tolist() for part in split_lanes(np.arange(5), TILE_SIZE // 2)] == [
        [0, 1],
        [2, 3],
        [4],
    ]
    assert len(split_lanes(np.arange(3), 2 * TILE_SIZE)) == 3


def test_weighted_quantiles_lie_on_lines_through_middle_ranks():
    """Weights 0.2, 0.5, 0.3 of 1, 2, 4: middle ranks 0.1, 0.45, 0.85."""
    x, weights = np.array([4.0, 1.0, 2.0]), np.array([0.3, 0.2, 0.5])
    found = [weighted_quantile(x, weights, p) for p in (0.05, 0.1, 0.275, 0.45, 0.65, 0.9)]
    assert found == pytest.approx([1.0, 1.0, 1.5, 2.0, 3.0, 4.0])


def answering(values):
    """Return a problem whose prior, once it has been accepted, answers with these densities."""
    problem = BanditProblem(Bernoulli(), Nowhere(), 3)
    problem.prior.log_density = lambda means: np.asarray(values)
    return problem


@pytest.mark.parametrize("shape", [(2, 1), (2,)])
def test_densities_may_drop_dimensions_of_length_one(shape):
    assert prior_log_density(answering(np.zeros(shape)), np.full((2, 3, 1), 0.5)).shape == (2, 1)


def test_densities_of_another_shape_are_refused():
    message = r"to \(\.\.\.\): shape \(2, 4\) for means of shape \(2, 4, 3\), got \(2, 4, 3\)"
    with pytest.raises(ValueError, match=message):
        prior_log_density(answering(np.zeros((2, 4, 3))), np.full((2, 3, 4), 0.5))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_densities_that_are_no_numbers_are_refused_wherever_one_is(value):
    values = np.zeros((2, 4))
    values[1, 2] = value
    with pytest.raises(ValueError, match="must be finite or -inf, got NaN"):
        prior_log_density(answering(values), np.full((2, 3, 4), 0.5))
