from fractions import Fraction
from functools import cache

import numba
import numpy as np
import pytest

from agents.bayes_optimal import optimal_regret, optimal_value
from agents.optimum.policy import solve_policy
from agents.optimum.predictive import predictive_means
from agents.optimum.recursion import margin, optimal_total
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture
from bandit_gym.problem import BanditProblem

UNIFORM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
RARE_STAR = Mixture((Beta(20.0, 20.0), Beta(97.0, 3.0)), (0.95, 0.05))


def exact_worths(priors, horizon):
    """The function from a state to what each arm's pull is worth there, in exact arithmetic."""

    @cache
    def worths(state):
        left = horizon - sum(n for n, _ in state)
        if left == 0:
            return (Fraction(0),)
        found = []
        for arm, ((n, s), (alpha, beta)) in enumerate(zip(state, priors, strict=True)):
            mean = Fraction(alpha + s, alpha + beta + n)
            paid, failed = (
                max(worths((*state[:arm], (n + 1, s + reward), *state[arm + 1 :])))
                for reward in (1, 0)
            )
            found.append(mean * (1 + paid) + (1 - mean) * failed)
        return tuple(found)

    return worths


@pytest.mark.parametrize(("horizon", "regret"), [(20, 0.9021), (50, 1.3366), (100, 1.7482)])
def test_regret_of_two_uniform_arms_is_the_known_one(horizon, regret):
    assert optimal_regret(UNIFORM, horizon) == pytest.approx(regret, abs=5e-5)


@pytest.mark.parametrize(
    ("priors", "horizon"),
    [(((1, 1), (1, 1)), 20), (((1, 2), (3, 1)), 20), (((1, 1), (2, 1), (1, 3)), 9)],
)
def test_value_is_that_of_exact_arithmetic(priors, horizon):
    alpha, beta = zip(*priors, strict=True)
    problem = BanditProblem(Bernoulli(), Beta(alpha, beta), len(priors))
    exact = max(exact_worths(priors, horizon)(((0, 0),) * len(priors)))
    assert optimal_value(problem, horizon) == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("priors", [((1, 1), (1, 1)), ((1, 2), (2, 1))])
def test_choices_are_the_best_arms_of_exact_arithmetic_ties_and_all(priors):
    horizon, worths = 14, exact_worths(priors, 14)
    problem = BanditProblem(Bernoulli(), Beta(*zip(*priors, strict=True)), 2)
    policy = solve_policy(predictive_means(problem, horizon), horizon, 2)
    states = [
        ((n, s), (m, r))
        for n in range(horizon)
        for m in range(horizon - n)
        for s in range(n + 1)
        for r in range(m + 1)
    ]
    counts, sums = np.moveaxis(np.array(states), 2, 0)
    expected = [max((0, 1), key=lambda arm, state=state: worths(state)[arm]) for state in states]
    np.testing.assert_array_equal(policy.best_arms(counts, sums), expected)
    assert len({worths(state)[0] == worths(state)[1] for state in states}) == 2  # some are ties


@pytest.mark.parametrize(("num_arms", "horizon"), [(2, 60), (3, 20), (4, 12), (5, 8)])
@pytest.mark.parametrize("law", [Beta(1.0, 1.0), RARE_STAR])
def test_symmetry_changes_neither_value_nor_policy(num_arms, horizon, law):
    means = predictive_means(BanditProblem(Bernoulli(), law, num_arms), horizon)
    folded = solve_policy(means, horizon, num_arms)
    whole = solve_policy(np.repeat(means, num_arms, axis=0), horizon, num_arms)
    assert folded.value == pytest.approx(whole.value, rel=1e-14)
    rng = np.random.default_rng(0)
    pulls = rng.integers(horizon, size=5000)
    counts = rng.multinomial(pulls, np.ones(num_arms) / num_arms)
    sums = rng.integers(counts + 1)
    np.testing.assert_array_equal(folded.best_arms(counts, sums), whole.best_arms(counts, sums))


def test_numbers_do_not_depend_on_the_number_of_threads():
    means = predictive_means(UNIFORM, 130)  # whose last stages are worth threads
    means = np.repeat(means, 2, axis=0)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        alone = optimal_total(means, 130, 2)
    finally:
        numba.set_num_threads(before)
    assert optimal_total(means, 130, 2) == alone


def test_rounding_stays_below_the_margin():
    # Of like arms neither is better: what the values of their pulls differ by is rounding.
    means = predictive_means(BanditProblem(Bernoulli(), Beta(0.3, 0.7), 2), 200)
    whole = optimal_total(np.repeat(means, 2, axis=0), 200, 2)
    assert abs(whole - optimal_total(means, 200, 2)) < margin(200)


@pytest.mark.parametrize(
    ("problem", "horizon", "words"),
    [
        (UNIFORM, 0, "horizon must be a positive integer, got 0"),
        (UNIFORM, 3000, "not 42.8 GB, got 3000; optimal_bracket"),
        (UNIFORM, 10**7, "optimal_bracket"),
        (BanditProblem(Bernoulli(), Beta(1.0, 1.0), 6), 10, "at most 5 arms.*optimal_bracket"),
        (BanditProblem(Gaussian(), Normal(0.0, 1.0), 2), 10, "must be Bernoulli"),
        (
            BanditProblem(
                Bernoulli(), TruncatedMultivariateNormal(0.5, [[1.0, 0.5], [0.5, 1.0]]), 2
            ),
            10,
            "independent a priori",
        ),
    ],
)
def test_what_the_recursion_cannot_do_is_refused_in_one_sentence(problem, horizon, words):
    with pytest.raises(ValueError, match=words) as caught:
        optimal_value(problem, horizon)
    assert str(caught.value).count(". ") == 0


def test_two_wide_normals_are_as_good_as_uniform_arms():
    wide = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 1e4), 2)
    assert optimal_regret(wide, 50) == pytest.approx(optimal_regret(UNIFORM, 50), rel=1e-6)
