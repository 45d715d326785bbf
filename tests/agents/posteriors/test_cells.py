"""How many points tables have, how precise they are, and that copies of them are the same."""

import numpy as np
import pytest
from scipy.special import beta, betainc, ndtr, ndtri
from surface import started

from agents import make_agent
from agents.posteriors import mixture
from agents.posteriors.cells import make_cells
from agents.posteriors.tables import MAX_RECENT_TABLES, count_points
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import (
    Beta,
    HierarchicalBeta,
    Mixture,
    Normal,
    PerArm,
    SharedMixture,
    TruncatedNormal,
    spike_and_slab,
)
from bandit_gym.problem import BanditProblem


def test_draws_of_a_copied_table_are_those_of_a_table_that_was_made():
    """The second lane's arms have been near 1, and then have the data of the first lane's.

    A fork makes its tables when it is asked.
    """
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 2)
    copied, made = (started("exact", problem, 2) for _ in range(2))
    copied.warm_start([[40, 60], [5, 20]], [[10, 50], [5, 20]])
    copied.belief()
    copied.warm_start([[0, 0], [35, 40]], [[0, 0], [5, 30]])
    made.warm_start([[1, 1], [40, 60]], [[1, 1], [10, 50]])
    levels, lanes = np.broadcast_to(np.arange(99) / 99, (1, 2, 99)), np.array([1])
    beliefs = copied.belief(), made.belief().fork()
    np.testing.assert_array_equal(*(each.positions(levels, lanes) for each in beliefs))


def test_many_draws_of_tables_are_those_that_come_one_by_one():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 3)
    agent = started("exact", problem, 2, [[0, 2, 30], [7, 5, 1]], [[0, 1, 9], [4, 5, 0]])
    one_by_one, rng = agent.belief(), np.random.default_rng(7)
    draws = one_by_one.sample_many(np.random.default_rng(7), 1_000)
    np.testing.assert_array_equal(draws, [one_by_one.sample(rng) for _ in range(1_000)])


@pytest.mark.parametrize("width", [1e-9, 1e-10, 1e-12])
def test_a_spike_too_narrow_for_tables_is_refused(width):
    """It had 90 % of the prior's mass, and none in the tables."""
    problem = BanditProblem(Bernoulli(), spike_and_slab(0.1, width, Beta(1.0, 1.0), 0.9), 3)
    with pytest.raises(ValueError, match="got 0.9 of the draws of arm 0 on shorter ones; widen"):
        make_agent("exact", problem)


@pytest.mark.parametrize(("num_arms", "weight"), [(2, 0.001), (32, 0.1), (200, 0.1), (600, 0.3)])
def test_an_arm_among_many_is_told_apart_by_a_rare_mode(num_arms, weight):
    """Of 32 arms the odd ones were compared at draws of the even ones, of 600 at one draw each."""
    low, high = Beta(20.0, 980.0), Beta(300.0, 700.0)
    odd = Mixture([low, high], [1 - weight, weight])
    problem = BanditProblem(Bernoulli(), PerArm([*[low] * (num_arms - 1), odd]), num_arms)
    kinds = make_cells(problem).kind_of_arm
    assert kinds[0] != kinds[-1] and (kinds[:-1] == kinds[0]).all()


@pytest.mark.parametrize(("width", "share"), [(1e-3, 0.1), (1e-4, 0.01)])
def test_arms_among_many_are_told_apart_by_a_spike_that_others_miss(width, share):
    """Arms were compared at the same eight quantiles of each: all of them had the first one's."""
    slab, odd = Beta(2.0, 2.0), [3, 129]
    spiked = spike_and_slab(0.5, width, slab, share)
    arms = [spiked if arm in odd else slab for arm in range(130)]
    kinds = make_cells(BanditProblem(Bernoulli(), PerArm(arms), 130)).kind_of_arm
    assert not set(kinds[odd]) & set(np.delete(kinds, odd))


def test_a_table_that_no_pass_makes_precise_is_that_of_the_best_pass():
    """Between two modes without density; it was that of the last pass, six times as far off."""
    modes = [TruncatedNormal(0.2, 0.05, 0.1, 0.3), TruncatedNormal(0.8, 0.05, 0.7, 0.9)]
    agent = started("exact", BanditProblem(Bernoulli(), Mixture(modes, [1, 1]), 2))
    belief, errors, levels = agent.posterior(), agent.belief().tables.errors, np.arange(1, 10) / 20
    assert not belief.doubts and errors.max() < 5e-3
    truth = 0.2 + 0.05 * ndtri(ndtr(-2.0) + 2 * levels * (1 - 2 * ndtr(-2.0)))
    off = ndtr((belief.quantile(levels).T - 0.2) / 0.05) - ndtr((truth - 0.2) / 0.05)
    assert np.abs(off).max() / (1 - 2 * ndtr(-2.0)) / 2 < errors.max()


def test_a_mixture_doubts_what_draws_had_to_answer(monkeypatch):
    monkeypatch.setattr(
        mixture, "conjugate_best_arms", lambda arms, available: np.full(arms.first.shape, np.nan)
    )
    prior = HierarchicalBeta([1.0, 2.0], [2.0, 1.0])
    belief = started("exact", BanditProblem(Bernoulli(), prior, 2)).posterior()
    assert belief.best_arm_probabilities().sum() == 1 and belief.doubts


def test_a_spike_that_tables_hold_has_its_mass():
    """By the evidence of spike and slab: share s^k (1 - s)^(n - k), and B(1 + k, 1 + n - k)."""
    problem = BanditProblem(Bernoulli(), spike_and_slab(0.1, 1e-6, Beta(1.0, 1.0), 0.9), 3)
    counts, sums = np.array([30, 0, 10]), np.array([4, 0, 1])
    snapshot = started("exact", problem, None, counts, sums).posterior()
    spike = 0.9 * 0.1**sums * 0.9 ** (counts - sums)
    slab = 0.1 * beta(1 + sums, 1 + counts - sums)
    mean = (0.1 * spike + slab * (1 + sums) / (2 + counts)) / (spike + slab)
    np.testing.assert_allclose(snapshot.mean(), mean, atol=1e-3)


def test_tables_follow_rewards_that_are_a_million_times_as_precise_as_the_prior():
    """Up to where one reward of a typical size is e^-1e6 as likely; below 1e-3, as promised."""
    problem, levels = BanditProblem(Gaussian(1e-6), Normal(0.0, 1.0), 2), [0.1, 0.5, 0.9]
    averages = make_cells(problem).coordinate.typical[0] + np.array([6e-8, 1e-3])
    agent = started("exact", problem, None, [31_965] * 2, 31_965 * averages, method="grid")
    belief = agent.posterior()
    off = (belief.quantile(levels) - averages) * (31_965**0.5 / 1e-6)
    assert np.abs(ndtr(off).T - levels).max() < 1e-3 and not belief.doubts


@pytest.mark.parametrize("pulls", [10**5, 10**6, 10**7, 10**8, 10**9])
def test_tables_of_rare_rewards_among_very_many_pulls_are_right_or_doubted(pulls):
    """Fits of the likelihood leave .04 of a distribution function at 1e8, once without a word."""
    sums, levels = np.array([0, 1, 2]), [0.1, 0.25, 0.5, 0.75, 0.9]
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
    belief = started("exact", problem, None, [pulls] * 3, sums, method="grid").posterior()
    off = betainc(1.0 + sums[:, None], 1.0 + pulls - sums[:, None], belief.quantile(levels).T)
    error = np.abs(off - levels).max()
    assert error < 1e-3 if not belief.doubts else pulls >= 10**7
    often = started("exact", problem, None, [pulls] * 3, 3 * pulls // 10 + sums, method="grid")
    assert not often.posterior().doubts


def test_lanes_whose_tables_would_not_fit_into_memory_are_refused():
    """At once, to the last lane, and by a posterior that is brought to more data."""
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 2)
    agent = make_agent("exact", problem)
    num_bytes = 26 * count_points(agent._posterior.cells)
    most = int(4e9 / num_bytes - MAX_RECENT_TABLES) // 2
    with pytest.raises(ValueError, match=f"num_envs must be at most {most}, got 2000000"):
        agent.reset(2_000_000)
    counts = np.zeros((2_000_000, 2))
    with pytest.raises(ValueError, match="num_envs times num_arms must be so few that tables of"):
        agent._posterior.build_tables(counts, counts)
    shared = SharedMixture([problem.prior] * 4, [1] * 4)
    assert (
        make_agent("exact", BanditProblem(Bernoulli(), shared, 2)).max_lanes == most
    )  # of each part
