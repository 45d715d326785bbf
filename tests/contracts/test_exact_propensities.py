"""Propensities of independent arms are integrals, to 1e-7, and not frequencies of draws.

Truths are exact fractions where Beta parameters are integers, else the oracle's quadrature.
"""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy import special
from surface import started

from agents import ExactThompson
from agents.numerics import march
from agents.oracle import action_probabilities
from bandit_gym import best_arm_probabilities
from bandit_gym.doubts import Doubt
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, HierarchicalBeta, InverseGamma, Normal
from bandit_gym.problem import BanditProblem

ALLOWED = 1e-7


def enumerate_beta(pairs):
    """Return P(arm is best) of independent Beta(a, b) arms with integer a and b, as fractions.

    A density of degree n = a + b - 2 is a combination of x^i (1 - x)^(n - i), its distribution
    function is P(Binomial(n + 1, x) >= a), and products of these are again such combinations.
    """
    found = []
    for best, (a, b) in enumerate(pairs):
        product = [Fraction(0)] * (a + b - 1)  # coefficients of x^i (1 - x)^(degree - i)
        product[a - 1] = Fraction((a + b - 1) * comb(a + b - 2, a - 1))
        for c, d in pairs[:best] + pairs[best + 1 :]:
            terms = [(k, comb(c + d - 1, k)) for k in range(c, c + d)]
            longer = [Fraction(0)] * (len(product) + c + d - 1)
            for i, value in enumerate(product):
                if value:
                    for k, count in terms:
                        longer[i + k] += value * count
            product = longer
        degree = len(product) - 1
        scale = [Fraction(1, (degree + 1) * comb(degree, i)) for i in range(degree + 1)]
        found.append(sum(value * each for value, each in zip(product, scale, strict=True)))
    return found


def test_integer_beta_posteriors_have_the_propensities_of_enumeration():
    for pulls, wins in (
        ([0, 0], [0, 0]),
        ([3, 1, 8], [2, 0, 3]),
        ([60, 55, 9], [31, 27, 5]),
        ([20, 20, 20, 20], [12, 12, 11, 0]),
        ([1, 2, 3, 4, 5, 6], [1, 1, 2, 3, 3, 6]),
    ):
        exact = enumerate_beta([(1 + w, 1 + n - w) for n, w in zip(pulls, wins, strict=True)])
        assert sum(exact) == 1
        problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), len(pulls))
        agent = started("exact", problem, None, pulls, np.array(wins, dtype=float))
        truth = [float(each) for each in exact]
        np.testing.assert_allclose(agent.action_probabilities(), truth, rtol=0, atol=ALLOWED)


MODELS = {
    "beta": (Bernoulli(), Beta(1.0, 1.0)),
    "beta, arcsine": (Bernoulli(), Beta(0.5, 0.5)),
    "gamma": (Poisson(), Gamma(2.0, 1.0)),
    "inverse gamma": (Exponential(), InverseGamma(2.0, 1.0)),
    "normal": (Gaussian(), Normal(0.0, 1.0)),
}
CENTRE = 0.37


def make_data(name, shape):
    """Return the (K,) counts and sums of a kind of posterior, by formulas, near a mean of .37."""
    num_arms = {"hundred": 100, "pair": 2}.get(shape, 10)
    place = np.arange(num_arms) / (num_arms - 1) - 0.5
    counts = np.full(num_arms, {"narrow": 1e7, "hundred": 300.0}.get(shape, 40.0))
    if shape == "uneven":
        counts = np.floor(10 ** (7 * (place + 0.5)))
    means = CENTRE + 0.6 * place * {"uneven": 0.0, "equal": 0.0}.get(shape, 3 / np.sqrt(counts))
    if shape == "ahead":
        means[3] = 0.9
    sums = means * counts
    if name in ("gamma", "beta", "beta, arcsine"):
        sums = np.round(sums)
    if shape == "unpulled":
        counts[[0, 4]] = sums[[0, 4]] = 0.0
    return counts, sums


@pytest.mark.parametrize("name", MODELS)
def test_propensities_are_those_of_quadrature(name):
    for shape in "pair", "hundred", "narrow", "uneven", "equal", "ahead", "unpulled":
        counts, sums = make_data(name, shape)
        problem = BanditProblem(*MODELS[name], len(counts))
        truth = action_probabilities(problem, counts, sums, tolerance=2e-8)
        found = started("exact", problem, None, counts, sums).action_probabilities()
        np.testing.assert_allclose(found, truth, rtol=0, atol=ALLOWED, err_msg=shape)
        assert found.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_arms_that_are_not_available_do_not_count_in_any_lane(name):
    """Each lane has a mask of its own, and one lane's arms have no part in another's."""
    counts, sums = make_data(name, "unpulled")
    problem = BanditProblem(*MODELS[name], len(counts))
    masks = np.ones((3, len(counts)), dtype=bool)
    masks[1, [3, 9]] = masks[2, 1:9] = False
    agent = started("exact", problem, 3, counts, sums)
    found = agent.action_probabilities(available=masks)
    assert (found[~masks] == 0).all()
    for row, mask in zip(found, masks, strict=True):
        fewer = BanditProblem(*MODELS[name], int(mask.sum()))
        truth = action_probabilities(fewer, counts[mask], sums[mask], tolerance=2e-8)
        np.testing.assert_allclose(row[mask], truth, rtol=0, atol=ALLOWED)


@pytest.mark.parametrize("place", [0.0, 1e6])
def test_an_arm_without_a_posterior_that_is_not_available_leaves_integrals_exact(place):
    """They were frequencies of draws, .5870 for .5840, said to be off by 1e-6."""
    problem, mask = BanditProblem(Gaussian(1.0), Normal(0.0, 1.0), 3), [True, True, False]
    agent = started("exact", problem, prior="reference")
    agent.warm_start([1, 1, 0], [place + 0.5, place + 0.2, 0.0])
    for options, gap in (({"top": 1}, 0.3), ({"costs": [0.0, 0.7, 0.0]}, 1.0)):
        found = np.ravel(agent.action_probabilities(available=mask, **options))
        right = special.ndtr(gap / 2**0.5)
        np.testing.assert_allclose(found, [right, 1 - right, 0.0], rtol=0, atol=1e-6)


def test_an_arm_without_a_posterior_in_one_lane_leaves_the_others_exact():
    agent = started(
        "exact", BanditProblem(Gaussian(1.0), Normal(0.0, 1.0), 3), 2, prior="reference"
    )
    agent.warm_start([[1, 1, 0], [1, 1, 1]], [[0.5, 0.2, 0.0], [0.5, 0.2, -20.0]])
    for options, gap in (({"top": 1}, 0.3), ({"costs": [0.0, 0.7, 0.0]}, 1.0)):
        found = agent.action_probabilities(**options).reshape(2, 3)
        right = special.ndtr(gap / 2**0.5)
        np.testing.assert_allclose(found, [[0, 0, 1], [right, 1 - right, 0]], rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [0.01, 0.02, 0.025])
def test_beta_arms_that_pay_always_or_never_have_their_shares(size):
    """Their log-odds are in the hundreds: from 600 on, the density is a constant times a power."""
    for num_arms in (2, 3):
        problem = BanditProblem(Bernoulli(), Beta(size, size), num_arms)
        counts, sums = np.eye(num_arms)[0], np.zeros(num_arms)
        truth = action_probabilities(problem, counts, sums, tolerance=2e-7)
        found = started("exact", problem, None, counts, sums).action_probabilities()
        np.testing.assert_allclose(found, truth, rtol=0, atol=ALLOWED + 2e-7)


def test_densities_that_rise_far_from_where_they_fall_are_resolved():
    """A slow power on one side and a cutoff on the other, which a step from the slow side misses.

    All pulls of an arm were wins under Beta(.5, .5), or a mean time has a heavy upper tail.
    """
    for likelihood, prior, counts, sums in (
        (Bernoulli(), Beta(0.5, 0.5), [31254, 23], [31254.0, 23.0]),
        (Bernoulli(), Beta(0.5, 0.5), [10_000_000, 1_000_000], [0.0, 0.0]),
        (Exponential(), InverseGamma(0.5, 1.0), [0, 0, 3], [0.0, 0.0, 300.0]),
        (Exponential(), InverseGamma(0.5, 1.0), [1, 3, 0], [0.01, 300.0, 0.0]),
    ):
        problem = BanditProblem(likelihood, prior, len(counts))
        truth = action_probabilities(problem, counts, sums, tolerance=2e-8)
        found = started("exact", problem, None, counts, sums).action_probabilities()
        np.testing.assert_allclose(found, truth, rtol=0, atol=ALLOWED, err_msg=repr(counts))


def test_tails_that_end_in_a_steep_fall_are_resolved_beyond_the_oracle():
    """All pulls were wins: Beta(1/2 + n, 1/2), by fine panels of log(1 - x)."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    ends = np.linspace(-90.0, -1e-9, 1401)
    half = np.diff(ends)[:, None] / 2
    v = (ends[1:] + ends[:-1])[:, None] / 2 + half * nodes
    for pulls in ([388, 2_966_811], [27, 1, 8_203_643], [145_050, 10_779, 2_195_212]):
        below, densities = [], []
        for a in np.array(pulls) + 0.5:
            below.append(special.betaincc(0.5, a, np.exp(v)))
            log_density = 0.5 * v + (a - 1) * np.log1p(-np.exp(v)) - special.betaln(a, 0.5)
            densities.append(half * weights * np.exp(log_density))
        others = [np.prod(below[:i] + below[i + 1 :], axis=0) for i in range(len(below))]
        truth = np.multiply(densities, others).sum(axis=(1, 2))
        assert sum(truth) == pytest.approx(1.0, abs=1e-8)
        problem = BanditProblem(Bernoulli(), Beta(0.5, 0.5), len(pulls))
        agent = started("exact", problem, None, pulls, np.array(pulls, dtype=float))
        np.testing.assert_allclose(agent.action_probabilities(), truth, rtol=0, atol=ALLOWED)


class Shaken(ExactThompson):
    """Adds noise of its generator to the probabilities that it knows."""

    def _action_probabilities(self):
        noisy = super()._action_probabilities() + 0.01 * self.rng.random(self._num_arms)
        return noisy / noisy.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", ["beta", "gamma", "inverse_gamma"])
def test_tails_that_reach_far_take_no_longer_and_are_right(name):
    """With parameters e, the log-mean is e times as fast in its tail: ratios of rates decide."""
    first, second = [1e-9, 2e-9], [1.0, 1.0]
    if name == "beta":  # one in three is near 1, whose tails are alike, or both are near 0
        first, second = [1e-9, 1e-9], [2e-9, 2e-9]
    found = best_arm_probabilities((name, first, second))
    expected = {"beta": 1 / 2, "gamma": 1 / 3, "inverse_gamma": 2 / 3}[name]
    np.testing.assert_allclose(found, [expected, 1 - expected], rtol=0, atol=ALLOWED)
    steep = [2.7e6, 0.34], [329.0, 154329.0]  # where the march once went on for ever
    assert best_arm_probabilities(("inverse_gamma", *steep))[1] == pytest.approx(1.0, abs=ALLOWED)


def test_where_integrals_miss_their_precision_draws_answer_and_are_doubted(monkeypatch):
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    agent = started("exact", problem, 2, [[3, 5], [4, 1]], [[2.0, 3.0], [4.0, 0.0]])
    exact = agent.action_probabilities()

    def miss(*options):
        return np.where([[True], [False]], np.nan, exact)

    monkeypatch.setattr(march, "conjugate_best_arms", miss)
    posterior = agent.posterior()
    found = posterior.best_arm_probabilities()
    np.testing.assert_array_equal(found[1], exact[1])
    np.testing.assert_allclose(found[0], exact[0], atol=4 * 0.5 / np.sqrt(1000))  # of the draws
    assert posterior.doubts.tolist() == [Doubt.FEW_EFFECTIVE_SAMPLES, 0]
    agent.decide()
    assert agent.diagnostics()["doubts"].tolist() == [Doubt.FEW_EFFECTIVE_SAMPLES, 0]


def test_asking_for_probabilities_leaves_what_the_last_act_says_of_itself():
    agent = started("exact", BanditProblem(Bernoulli(), HierarchicalBeta([1.0], [2.0]), 2), 2)
    agent.belief()._note_shortage(np.array([True, False]))  # as answers from draws do
    agent.action_probabilities()
    assert agent.diagnostics()["doubts"].tolist() == [Doubt.FEW_EFFECTIVE_SAMPLES, 0]


def test_lopsided_parameters_lose_no_digits():
    """Of two that are next to 0, the smaller rate is best as seldom; offsets are below 1e-3."""
    found = best_arm_probabilities(("beta", [8e-6, 1.2e-5], [1e9, 1e9]))
    np.testing.assert_allclose(found, [0.4, 0.6], rtol=0, atol=ALLOWED)


def test_a_subclass_that_draws_for_its_propensities_does_not_move_its_generator_either():
    agent = started(Shaken, BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3))
    np.testing.assert_array_equal(agent.action_probabilities(), agent.action_probabilities())
