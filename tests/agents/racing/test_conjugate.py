"""The paper's proposal: what its weights are, and the largest of them."""

import math

import numpy as np
import pytest

from agents.numerics.draw_tables import NO_TABLES
from agents.racing.conjugate import MAX_TABLES, MIN_TABLE_DRAWS
from agents.racing.matching import make_proposal
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, TruncatedNormal
from bandit_gym.problem import BanditProblem

CASES = [  # the prior in question, and the conjugate one drawn from
    (Bernoulli(), Beta(3.0, 4.0), Beta(2.0, 2.0)),
    (Bernoulli(), TruncatedNormal(0.4, 0.2), Beta(2.0, 2.0)),
    (Exponential(), InverseGamma(4.0, 3.0), InverseGamma(2.0, 2.0)),
    (Poisson(), Gamma(3.0, 2.0), Gamma(2.0, 1.5)),
    (Poisson(), TruncatedNormal(1.0, 0.5, 0.2, 2.0), Gamma(2.0, 1.5)),
    (Gaussian(), Normal(0.5, 0.8), Normal(0.0, 1.0)),
]
IDS = [f"{likelihood.name}-{type(prior).__name__}" for likelihood, prior, _ in CASES]
COUNTS, SUMS = np.array([[0, 4], [3, 30]]), np.array([[0.0, 2.0], [1.0, 14.0]])


def log_ratio(prior, other, means):
    return (prior.arm_log_density(means) - other.arm_log_density(means)).sum(axis=-1)


@pytest.mark.parametrize(("likelihood", "prior", "other"), CASES, ids=IDS)
def test_weights_are_the_prior_over_the_conjugate_one(likelihood, prior, other, rng):
    proposal = make_proposal(BanditProblem(likelihood, prior, 2), other)
    proposal.follow(rng, COUNTS, SUMS)
    draws = proposal.draw(rng, np.array([1, 0]), 40)
    expected = log_ratio(prior, other, draws.means.transpose(0, 2, 1))
    is_inside = np.isfinite(expected)
    assert (np.isfinite(draws.log_weights) == is_inside).all()
    gaps = draws.log_weights[is_inside] - expected[is_inside]
    assert gaps == pytest.approx(gaps[0], abs=1e-9)


BOUNDED = [
    *(CASES[i] for i in (0, 2, 3, 5)),
    (Bernoulli(), TruncatedNormal(0.4, 0.2), Beta(1.0, 1.0)),
    (Bernoulli(), TruncatedNormal(0.9, 0.2, 0.3, 0.8), Beta(1.0, 1.0)),
    (Poisson(), TruncatedNormal(1.0, 0.5, 0.2, 2.0), Gamma(2.0, 1.5)),
]


@pytest.mark.parametrize(("likelihood", "prior", "other"), BOUNDED)
def test_the_largest_weight_is_found(likelihood, prior, other, rng):
    """Of two arms, on a grid of steps below 2e-4; it has the constant of the weights of draws."""
    problem = BanditProblem(likelihood, prior, 2)
    proposal = make_proposal(problem, other)
    low, high = np.clip(problem.arm_support()[0], -20, 20)
    largest = 2 * log_ratio(prior, other, np.linspace(low, high, 200_003)[1:-1, None]).max()
    proposal.follow(rng, COUNTS, SUMS)
    draws = proposal.draw(rng, np.arange(2), 50)
    ratios, is_inside = log_ratio(prior, other, draws.means.transpose(0, 2, 1)), np.isfinite
    constant = (draws.log_weights - np.where(is_inside(ratios), ratios, 0.0)).max()
    assert proposal.log_supremum() == pytest.approx(largest + constant, abs=1e-4)


def test_weights_without_bound_have_no_largest_one():
    problem = BanditProblem(Bernoulli(), Beta(0.1, 2.0), 2)
    with pytest.raises(ValueError, match="where the weight pi / q_0 is unbounded"):
        make_proposal(problem, Beta(1.0, 1.0)).log_supremum()


def test_weights_that_are_all_the_same_have_that_as_their_largest():
    problem = BanditProblem(Bernoulli(), Beta(2.0, 2.0), 2)
    assert make_proposal(problem, Beta(2.0, 2.0)).log_supremum() == 0.0


def test_an_arm_without_data_is_drawn_from_the_stand_in_where_the_reference_is_improper(rng):
    """Its mean under Normal(5, 0.1), a hundred draws, is within 4 errors of 0.01."""
    proposal = make_proposal(BanditProblem(Gaussian(), Normal(5.0, 0.1), 2), "reference")
    proposal.follow(rng, COUNTS[:1], SUMS[:1])
    assert proposal.is_missing(COUNTS).tolist() == [[True, False], [False, False]]
    draws = proposal.draw(rng, np.arange(1), 100)
    assert abs(draws.means[0, 0].mean() - 5.0) < 4 * 0.01
    other = draws.means[0, 1]  # N(1 / 2, 1 / 4) from 4 rewards of sum 2
    assert abs(other.mean() - 0.5) < 4 * 0.5 / 10
    weights = draws.log_weights[0] - -0.5 * ((other - 5.0) / 0.1) ** 2
    assert weights == pytest.approx(weights[0], abs=1e-6)


@pytest.mark.parametrize(
    ("likelihood", "prior", "expected_samples", "lanes", "has_tables"),
    [
        (Bernoulli(), Beta(2.0, 2.0), MIN_TABLE_DRAWS / 2, 2, True),
        (Bernoulli(), Beta(2.0, 2.0), MIN_TABLE_DRAWS / 2 - 1, 2, False),
        (Poisson(), Gamma(2.0, 2.0), MIN_TABLE_DRAWS, 2, False),
        (Bernoulli(), Beta(2.0, 2.0), MIN_TABLE_DRAWS, MAX_TABLES // 2, True),
        (Bernoulli(), Beta(2.0, 2.0), MIN_TABLE_DRAWS, MAX_TABLES // 2 + 1, False),
    ],
)
def test_tables_are_kept_where_they_pay(likelihood, prior, expected_samples, lanes, has_tables):
    proposal = make_proposal(BanditProblem(likelihood, prior, 2), "reference")
    proposal.expected_samples = expected_samples
    proposal.follow(np.random.default_rng(0), np.ones((lanes, 2), int), np.ones((lanes, 2)))
    tables = proposal.weighed_laws().tables
    assert (len(tables.keys) == 2 * lanes) == has_tables
    assert (tables is NO_TABLES) == (not has_tables)


def test_weights_that_only_the_prior_knows_are_for_no_compiled_loop():
    class Own:
        def sample(self, rng, shape):
            return rng.random(shape)

        def log_density(self, means):
            return np.zeros(means.shape[:-1])

    proposal = make_proposal(BanditProblem(Bernoulli(), Own(), 2), "reference")
    proposal.follow(np.random.default_rng(0), COUNTS, SUMS)
    assert proposal.weighed_laws() is None
    assert math.isfinite(proposal.draw(np.random.default_rng(0), np.arange(2), 5).log_weights.sum())
