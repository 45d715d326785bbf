"""Rules that look ahead: the knowledge gradient, information-directed sampling and relaxation."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy import integrate, stats
from surface import assert_played, in_states, started

from agents import InformationRelaxation
from agents.numerics.kernels import find_best_gains
from agents.rules.lookahead import find_normal_gains, list_lookaheads, minimise_information_ratio
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedNormal
from bandit_gym.problem import BanditProblem


def test_arms_without_regret_are_played_alone_whatever_they_tell():
    (law,) = minimise_information_ratio(np.array([[0.0, 0.0, 1.0]]), np.array([[1.0, 2.0, 1.0]]))
    assert law.tolist() == [0.5, 0.5, 0.0]


def test_of_arms_that_tell_nothing_the_least_regret_is_played():
    (law,) = minimise_information_ratio(np.array([[0.2, 0.1, 0.3]]), np.zeros((1, 3)))
    assert law.tolist() == [0.0, 1.0, 0.0]


def test_an_arm_that_is_hardly_ever_the_best_has_a_mean_all_the_same():
    counts = [1, 130, 41, 1, 38, 0, 2, 1, 1, 5]  # arm 2 has a probability of 7e-10
    sums = [0.0, 130.0, 32.0, 0.0, 32.0, 0.0, 1.0, 0.0, 0.0, 4.0]
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 10)
    agent = started("information_directed", problem, None, counts, sums, gain="information")
    means = agent.belief().best_arm_moments()[1]
    assert (means >= 0).all() and (means <= 1).all()
    assert agent.action_probabilities().sum() == pytest.approx(1)


def test_a_race_on_the_posterior_itself_is_asked_anew_after_data():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
    options = {"num_envs": None, "posterior": "racing"}
    asked, fresh = (started("information_directed", problem, **options) for _ in range(2))
    asked.act()
    for agent in (asked, fresh):
        agent.warm_start([50] * 3, [5, 45, 10])
    assert asked.action_probabilities().tolist() == fresh.action_probabilities().tolist()


UNIFORM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)


def test_better_arm_is_pulled_more():
    pairs = (Gaussian(), Normal(0.0, 1.0)), (Bernoulli(), TruncatedNormal(0.5, 0.2))
    for (likelihood, prior), penalty in product(pairs, ["fh", "v_zero"]):
        data, options = ([20, 20], [14.0, 5.0]), {"horizon": 10, "penalty": penalty}
        problem = BanditProblem(likelihood, prior, 2)
        agent = started("information_relaxation", problem, 40, *data, **options)
        least = 0.5 + 4 * np.sqrt(0.25 / 40)  # more than chance gives
        assert (agent.act() == 0).mean() > least, (prior, penalty)


def test_lanes_may_have_different_numbers_of_pulls_left():
    """With one pull left the better mean is played; with eleven, as where all lanes have these."""
    make = partial(in_states, "information_relaxation", UNIFORM, penalty="v_zero", horizon=12)
    last, early = ([10, 1], [6, 0]), ([1, 0], [1, 0])
    acts = make(*([one] * 1000 + [two] * 1000 for one, two in zip(last, early, strict=True))).act()
    alone = make(*([each] * 1000 for each in early)).act()
    assert (acts[:1000] == 0).all()
    gap = abs(acts[1000:].mean() - alone.mean())
    assert gap < 4 * np.sqrt(2 * alone.var() / 1000) and alone.any()


def test_propensities_do_not_depend_on_the_generator():
    agent, laws = InformationRelaxation(UNIFORM), []
    for seed in (0, 1):
        agent.reset(2, seed=seed)
        laws.append(agent.action_probabilities().tolist())
    assert laws[0] == laws[1]


def test_frequencies_of_simulated_acts_have_their_errors():
    """All three arms are alike: four standard errors of 1,000 acts around a third."""
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
    agent = started("information_relaxation", problem, None, horizon=50)
    found, errors = agent.action_probabilities(return_error=True)
    np.testing.assert_allclose(errors, np.sqrt(found * (1 - found) / 1000), rtol=0.01)
    assert (abs(found - 1 / 3) < 4 * errors).all()


def test_ties_are_broken_in_each_lane_by_itself():
    agent = started("information_relaxation", UNIFORM, 1000, penalty="v_zero", horizon=1)
    assert_played(agent.act(), [1 / 2, 1 / 2])


BY_HAND = {
    100: [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 100],
    20: [1, 2, 3, 4, 6, 8, 11, 16, 20],
    8: [1, 2, 3, 4, 6, 8],
    5: [1, 2, 3, 4, 5],
    1: [1],
    0: [0],
}


def test_pulls_ahead_are_rounded_powers_of_the_root_of_two_up_to_those_that_are_left():
    columns = list_lookaheads(np.array([*BY_HAND])).T.tolist()
    assert [sorted({*column}) for column in columns] == [*BY_HAND.values()]
    assert list_lookaheads(np.array([2**62]))[-1].tolist() == [2**62]


LEVELS = np.linspace(0.3, 0.9, 7)[None]


def test_beta_and_normal_posteriors_are_looked_at_after_the_same_pulls():
    """The largest of E max(M(m), level) - max(E M, level), over m, by sums and by quadrature."""
    a, b, mean, std, noise = 2.0, 3.0, 0.4, 0.1, 0.7
    beta, normal = np.zeros((2, 20, LEVELS.size))
    for m in BY_HAND[20]:
        s = np.arange(m + 1)
        after = np.maximum((a + s[:, None]) / (a + b + m), LEVELS)
        beta[m - 1] = stats.betabinom.pmf(s, m, a, b) @ after - np.maximum(mean, LEVELS)
        law = stats.norm(mean, std * np.sqrt(m / (m + noise**2 / std**2)))
        for i, level in enumerate(LEVELS[0]):
            upper, _ = integrate.quad(lambda x, c=level, law=law: (x - c) * law.pdf(x), level, 2)
            normal[m - 1, i] = level + upper - max(mean, level)
    found, left = np.empty(LEVELS.shape), list_lookaheads(np.array([20]))
    pulls = np.arange(1, 21)[:, None]
    find_best_gains(np.full(LEVELS.shape, a), np.full(LEVELS.shape, b), LEVELS, left, found)
    np.testing.assert_allclose(found[0], (beta / pulls).max(axis=0), rtol=1e-9, atol=1e-15)
    found = find_normal_gains(np.full((1, 7), mean), np.full((1, 7), std), LEVELS, left, noise)
    np.testing.assert_allclose(found[0], (normal / pulls).max(axis=0), rtol=1e-6, atol=1e-12)


def test_gains_of_what_is_known_or_told_no_more_are_nothing():
    mean, std = np.array([[0.5, 0.5, 1e9]]), np.array([[0.0, 1e-200, 1.0]])
    levels = np.zeros((1, 3))
    for left in (0, 9):
        found = find_normal_gains(mean, std, levels, list_lookaheads(np.array([left])), 1.0)
        assert found.tolist() == [[0.0, 0.0, 0.0]]
