"""Exact Thompson sampling: which method it takes, what it refuses, and the known regret."""

import numpy as np
import pytest
from families import CONJUGATE_PROBLEMS, DensityOnly, Flat, bernoulli, typical_mean
from geometric import Geometric
from refusals import check_refusals
from surface import assert_played, started

from agents import ExactThompson
from agents.oracle import action_probabilities
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Gamma, Normal, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.problem import BanditProblem

CUT = TruncatedNormal(0.4, 0.2, 0.2, 0.7)
BOX = TruncatedMultivariateNormal(0.5, [[1.0, 0.5], [0.5, 1.0]])


class Torn(Geometric):
    """A user's mistake: a likelihood that is NaN far below all means that a trial looks at."""

    def log_likelihood(self, means, counts, sums):
        value = super().log_likelihood(means, counts, sums)
        return np.where((np.asarray(means) < 1e-100) & (np.asarray(means) > 0), np.nan, value)


class Underflowing(Geometric):
    """Says -inf where floating point could not hold its log-likelihood, as many formulas do."""

    def log_likelihood(self, means, counts, sums):
        value = super().log_likelihood(means, counts, sums)
        return np.where(np.asarray(means) < 1e-100, -np.inf, value)


def test_the_first_method_that_fits_is_taken_and_told():
    for likelihood, prior, method in [
        (Bernoulli(), Beta(2.0, 2.0), "conjugate"),
        (Gaussian(), Normal(0.0, 1.0), "conjugate"),
        (Bernoulli(), CUT, "grid"),
        (Gaussian(), Beta(2.0, 2.0), "grid"),
        (Geometric(), Gamma(2.0, 1.0), "grid"),
        (Bernoulli(), BOX, "gibbs"),
    ]:
        assert ExactThompson(BanditProblem(likelihood, prior, 2)).method == method


def test_a_likelihood_that_says_no_more_than_numbers_hold_is_followed():
    problem, data = BanditProblem(Underflowing(), Gamma(3.0, 2.0), 3), ([1, 3, 2], [1.0, 3.0, 2.0])
    found = started("exact", problem, None, *data).action_probabilities()
    np.testing.assert_allclose(found, action_probabilities(problem, *data), atol=2e-3)


REFUSED = [
    (bernoulli(CUT), {"method": "conjugate"}, "must be conjugate to the rewards"),
    (bernoulli(BOX), {"method": "grid"}, "must offer arm_log_density"),
    (bernoulli(CUT), {"method": "gibbs"}, "must be a TruncatedMultivariateNormal"),
    (bernoulli(DensityOnly(CUT)), {}, "RacingThompson and SMCThompson take any prior"),
    (
        *(BanditProblem(Geometric(), Gamma(2.0, 1.0), 2), {"prior": "reference"}),
        "prior must be an object or a dict for users_geometric rewards",
    ),
    (BanditProblem(Torn(), Gamma(3.0, 2.0), 2), {}, "log_likelihood must be a number or -inf"),
    (BanditProblem(Gaussian(), Flat(), 2), {}, "must be a density that integrates", "arm 0"),
]


def test_what_it_cannot_hold_is_refused():
    check_refusals(lambda problem, options: ExactThompson(problem, **options), REFUSED)


def test_impossible_data_are_refused_and_leave_the_agent_as_it_was():
    problem = BanditProblem(Gaussian(1e-3), TruncatedNormal(0.5, 0.1, 0.2, 0.8), 2)
    agent, other = (started("exact", problem, 2) for _ in range(2))
    for each in (agent, other):
        each.observe([0, 1], [0.5, 0.5])
    agent.warm_start([[0, 0], [0, 4]], [[0, 0], [0, 1e200]])
    with pytest.raises(ValueError, match="in lane 1 must be possible"):
        agent.act()
    agent.reset_lanes(np.array([False, True]))
    other.reset_lanes(np.array([False, True]))
    np.testing.assert_array_equal(agent.act(), other.act())


def test_one_lane_knows_of_its_last_reward_at_once():
    """Draws that were made ahead hold no longer: each reward is the mean, but for 0.001."""
    agent = started("exact", BanditProblem(Gaussian(1e-3), Normal(0.0, 1.0), 5), None)
    for arm in range(5):
        agent.observe(arm, float(arm))
        assert agent.act() >= arm


def test_a_lane_that_starts_anew_forgets_its_draws():
    agent = started("exact", BanditProblem(Gaussian(1e-3), Normal(0.0, 1.0), 2), None)
    for total in (1e3, -1e3):
        agent.warm_start([100_000, 100_000], [total, 0.0])
        assert agent.act() == int(total < 0)
        agent.reset_lanes(np.array([True]))


@pytest.mark.parametrize("problem", CONJUGATE_PROBLEMS, ids=lambda each: each.likelihood.name)
def test_one_lane_plays_as_many_lanes_do(problem):
    low = typical_mean(problem.likelihood) - 0.5
    data = [0, 3, 4, 1], low * np.array([0, 3, 4, 1]) + [0, 2, 2, 0]
    alone = started("exact", problem, None, *data)
    assert_played([alone.act() for _ in range(20_000)], alone.action_probabilities(), 1e-6)


def test_there_is_room_for_many_arms():
    # Comparing all pairs of arms at draws of all of them would take 33 GB here.
    prior = TruncatedNormal([0.2] * 400 + [0.8] * 400, 0.05)
    agent = started("exact", bernoulli(prior, 800), 20)
    assert (agent.act() >= 400).all() and agent.lane_counts.shape == (20, 800)
