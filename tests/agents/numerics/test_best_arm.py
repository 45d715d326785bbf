"""`bandit_gym.best_arm_probabilities`: posteriors of one's own, values, costs, floors, refusals."""

import numpy as np
import pytest
from families import SCIPY
from refusals import check_refusals
from scipy import integrate, stats

from bandit_gym import best_arm_probabilities

NAMED = {
    "beta": ([31.0, 45.0, 2.0], [970.0, 1156.0, 60.0]),
    "gamma": ([3.0, 5.5, 2.0], [2.0, 4.0, 1.0]),
    "inverse_gamma": ([3.0, 5.5, 2.0], [2.0, 4.0, 1.0]),
    "normal": ([0.3, 0.5, 0.1], [0.2, 0.1, 0.9]),
    "student_t": ([3.0, 8.0, 1.2], [0.3, 0.5, 0.1], [0.2, 0.1, 0.9]),
}
FROZEN = SCIPY | {"student_t": stats.t}


def integrate_pair(arms, scale=(1.0, 1.0), cost=(0.0, 0.0)):
    """Return P(the first of two arms is the best), by adaptive quadrature over its levels."""
    one, other = arms

    def below(u):
        y = scale[0] * one.ppf(u) - cost[0]
        return other.cdf((y + cost[1]) / scale[1])

    return integrate.quad(below, 0, 1, epsabs=1e-11, epsrel=1e-11, limit=500)[0]


@pytest.mark.parametrize("name", NAMED)
def test_named_families_and_frozen_ones_agree_with_adaptive_quadrature(name):
    parameters = [np.array(each) for each in NAMED[name]]
    named, frozen = best_arm_probabilities((name, *parameters)), FROZEN[name](*parameters)
    np.testing.assert_allclose(best_arm_probabilities(frozen), named, rtol=0, atol=1e-7)
    pair = best_arm_probabilities((name, *parameters), available=[True, True, False])
    one, other, _ = (FROZEN[name](*each) for each in zip(*parameters, strict=True))
    truth = integrate_pair([one, other])
    np.testing.assert_allclose(pair, [truth, 1 - truth, 0.0], rtol=0, atol=1e-8)


def test_mixed_families_values_and_costs_agree_with_adaptive_quadrature():
    arms = [stats.beta(0.5, 0.5), stats.t(3, loc=0.4)]
    found = best_arm_probabilities(arms)
    np.testing.assert_allclose(found[0], integrate_pair(arms), rtol=0, atol=1e-6)
    prices, costs = [5.0, 2.0], [0.1, 0.0]
    pair = [stats.beta(31, 970), stats.beta(45, 1156)]
    truth = integrate_pair(pair, prices, costs)
    for given in (pair, ("beta", [31, 45], [970, 1156])):
        found = best_arm_probabilities(given, values=prices, costs=costs)
        np.testing.assert_allclose(found, [truth, 1 - truth], rtol=0, atol=1e-7)


@pytest.mark.parametrize("offset", [2.0**20, -(2.0**40), 2.0**50])
def test_normal_arms_far_from_0_have_the_probabilities_of_those_near_it(offset):
    """All numbers are exact. At 2^40 the answers were once shares of 1,000 draws, or wrong."""
    mean, std = np.array([0.5, 0.0, -0.25]), [1.0, 0.5, 2.0]
    near, far = (best_arm_probabilities(("normal", m, std)) for m in (mean, mean + offset))
    np.testing.assert_allclose(far, near, rtol=0, atol=1e-7)
    hidden = {"available": [True, True, False]}
    near = best_arm_probabilities(("normal", mean, std), **hidden)
    far = best_arm_probabilities(("normal", mean + [0, 0, offset], std), **hidden)
    np.testing.assert_allclose(far, near, rtol=0, atol=1e-7)


def test_lanes_are_done_at_once_and_a_floor_is_kept():
    """The rows are as each alone; max(s p, floor) sums to 1 with one s."""
    first, second = np.array([[9.0, 4.0, 1.0], [2.0, 2.0, 2.0]]), np.array([[2.0, 9.0, 40.0]] * 2)
    found = best_arm_probabilities(("beta", first, second))
    for row, a, b in zip(found, first, second, strict=True):
        np.testing.assert_allclose(best_arm_probabilities(("beta", a, b)), row, rtol=0, atol=1e-15)
    raised = best_arm_probabilities(("beta", first, second), floor=0.05)
    assert raised.sum(axis=1) == pytest.approx(1.0, abs=1e-15) and raised.min() == 0.05
    is_raised = raised > 0.05
    ratios = raised[0][is_raised[0]] / found[0][is_raised[0]]
    assert np.ptp(ratios) < 1e-12


BETAS = ("beta", [1, 2], [1, 2])
REFUSED = [
    (("beta", [1, 0], [1, 1]), {}, "alpha", "above 0"),
    (("bet", [1], [1]), {}, "'beta'", "bet"),
    (("beta", [1, 2]), {}, "alpha, beta"),
    (("student_t", [1, 2], [1, 2]), {}, "df, location, scale"),
    (("student_t", [1, 0], [1, 2], [1, 1]), {}, "df", "above 0"),
    (("beta", [1, 2], [1, 2, 3]), {}, "(2,)", "(3,)"),
    (BETAS, {"floor": 0.6}, "floor", "0.5", "0.6"),
    (BETAS, {"values": [0, 1]}, "values", "above 0"),
    (BETAS, {"costs": [0, np.inf]}, "costs", "finite"),
    (BETAS, {"costs": [0, 1, 2]}, "(2,)", "(3,)"),
    (BETAS, {"available": [1, 0]}, TypeError, "available", "booleans"),
    ([stats.poisson(3)] * 2, {}, TypeError, "continuous"),
    (stats.beta([1, 2], [3, -1]), {}, "parameters in range"),
    ([stats.norm([0, 1]), stats.norm(0)], {}, "single ones"),
    (3, {}, TypeError, "scipy.stats", "3"),
]


def test_what_it_cannot_take_is_refused_in_words():
    check_refusals(lambda given, options: best_arm_probabilities(given, **options), REFUSED)
