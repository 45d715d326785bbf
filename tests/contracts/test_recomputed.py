"""Laws and bounds recomputed from their definitions, in NumPy and SciPy alone.

Nothing of `agents` is in the truths: a prior's density and a likelihood are SciPy's here too.
"""

from itertools import product

import numpy as np
import pytest
from scipy import stats
from surface import assert_played, started

from agents.bayes_optimal import optimal_bracket
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal
from bandit_gym.problem import BanditProblem

ALPHA, BETA = np.array([1.3, 2.1]), np.array([1.6, 2.9])


def v_zero_probabilities(left):
    """Return the law of IRS.V-ZERO's arm with two arms, by all futures and all ways to play them.

    A future is what each arm's next pulls would pay. Who knows it earns at each pull the posterior
    mean of the arm then, and plays the arm that the best way pulls most.
    """
    probabilities = np.zeros(2)
    for future in product(product([0, 1], repeat=left - 1), repeat=2):
        means, chance = np.zeros((2, left)), 1.0
        for arm, pays in enumerate(future):
            paid = np.concatenate([[0], np.cumsum(pays)])
            a, b = ALPHA[arm] + paid, BETA[arm] + np.arange(left) - paid
            means[arm] = a / (a + b)
            chance *= np.where(pays, means[arm, :-1], 1 - means[arm, :-1]).prod()
        ways = list(product([0, 1], repeat=left))
        earned = [sum(means[arm, way[:t].count(arm)] for t, arm in enumerate(way)) for way in ways]
        probabilities[int(2 * sum(ways[int(np.argmax(earned))]) > left)] += chance
    return probabilities


def fh_probabilities(left):
    """Return the law of IRS.FH's arm: the largest posterior mean after all pulls but one."""
    paid = np.arange(left)
    betas = zip(ALPHA, BETA, strict=True)
    chances = [stats.betabinom.pmf(paid, left - 1, alpha, beta) for alpha, beta in betas]
    means = (ALPHA[:, None] + paid) / (ALPHA + BETA + left - 1)[:, None]
    first = np.outer(*chances)[means[0][:, None] > means[1]].sum()
    return np.array([first, 1 - first])


@pytest.mark.parametrize(
    ("penalty", "probabilities"), [("v_zero", v_zero_probabilities), ("fh", fh_probabilities)]
)
@pytest.mark.parametrize("left", [1, 3, 5])
def test_information_relaxation_plays_as_its_inner_problem_says(penalty, probabilities, left):
    """With an odd number of pulls left, and odd parameters, nothing is equally good."""
    problem = BanditProblem(Bernoulli(), Beta(ALPHA.tolist(), BETA.tolist()), 2)
    options = {"penalty": penalty, "horizon": left}
    acts = started("information_relaxation", problem, 20_000, **options).act()
    assert_played(acts, probabilities(left))


def test_final_means_of_normal_arms_have_the_distribution_of_a_normal_difference():
    """Given n more rewards of variance 1, a mean of variance v moves by v^2 / (v + 1 / n)."""
    counts, sums, left = np.array([2, 5]), np.array([1.0, 3.0]), 3
    problem = BanditProblem(Gaussian(), Normal(0.0, 1.0), 2)
    options = {"horizon": left}  # the data are no decisions
    acts = started("information_relaxation", problem, 100_000, counts, sums, **options).act()
    means, variances = sums / (1 + counts), 1 / (1 + counts)
    moved = variances**2 / (variances + 1 / (left - 1))
    expected = stats.norm.cdf((means[0] - means[1]) / np.sqrt(moved.sum()))
    assert_played(acts, [expected, 1 - expected])


def value_beside_a_sure_arm(horizon, sure):
    """Return the optimal value of a uniform arm beside one that pays `sure` on average, known.

    Once the sure arm is best it stays so (Berry and Fristedt 1985, chapter 5), so that the uniform
    one is pulled until then. W(n, s) is the larger of sure (T - n) and
    m (1 + W(n + 1, s + 1)) + (1 - m) W(n + 1, s), with m = (s + 1) / (n + 2).
    """
    values = np.zeros(horizon + 1)
    for n in reversed(range(horizon)):
        m = (1 + np.arange(n + 1)) / (2 + n)
        pulled = m * (1 + values[1:]) + (1 - m) * values[:-1]
        values = np.maximum(sure * (horizon - n), pulled)
    return values[0]


@pytest.mark.slow
@pytest.mark.nightly
def test_a_bracket_of_a_thousand_pulls_holds_the_value_beside_a_sure_arm():
    """The sure arm's mean deviates a little: to know by how much is worth that much a pull."""
    weight, horizon = 1e6, 1000
    problem = BanditProblem(Bernoulli(), Beta([1.0, weight / 2], [1.0, weight / 2]), 2)
    found = optimal_bracket(problem, horizon, num_samples=60, confidence=0.9999)
    expected, off = value_beside_a_sure_arm(horizon, 0.5), horizon * 0.5 / np.sqrt(weight)
    assert found.best - expected == pytest.approx(2.55, abs=0.01)
    assert found.lower - off < expected < found.upper + off
