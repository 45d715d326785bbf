"""Laws of a mean: each formula, plain and compiled, against SciPy and the likelihood itself."""

import numpy as np
import pytest
from families import CONJUGATES
from scipy import stats

from agents.base.conjugacy import TABLE_1, find_update_matrix, is_compiled
from agents.numerics import kernels, march
from agents.numerics.distributions import BETA, GAMMA, INVERSE_GAMMA, NORMAL, MeanDistributions


def case_of(each):
    """Return a likelihood, the two parameters of its conjugate law, and four means."""
    row, distribution = TABLE_1[type(each.likelihood)], each.posterior(7, 3.0)
    (a, b), (c, d) = find_update_matrix(each.likelihood)
    first, second = row.parameters(each.prior)
    parameters = float(first + 7 * a + 3 * b), float(second + 7 * c + 3 * d)
    return each.likelihood, parameters, distribution.ppf([0.02, 0.3, 0.8, 0.98])


CASES = {
    TABLE_1[type(each.likelihood)].distribution.code: case_of(each)
    for each in CONJUGATES
    if is_compiled(each.likelihood)
}
LAWS = {row.distribution.code: row.distribution for row in TABLE_1.values()}
LINES = {
    BETA: (lambda x: np.log(x / (1 - x)), lambda x: x * (1 - x)),
    INVERSE_GAMMA: (np.log, lambda x: x),
    NORMAL: (lambda x: x, np.ones_like),
    GAMMA: (np.log, lambda x: x),
}
every_law = pytest.mark.parametrize("code", CASES, ids=lambda code: CASES[code][0].name)


def constant(values):
    return values == pytest.approx(np.full(len(values), values[0]), abs=1e-9)


@pytest.mark.parametrize("code", CASES.keys() - {INVERSE_GAMMA})
def test_members_are_found_by_their_moments(code):
    _, parameters, _ = CASES[code]
    frozen = LAWS[code].frozen(*parameters)
    assert LAWS[code].match_moments(frozen.mean(), frozen.var()) == pytest.approx(parameters)


def test_scipys_distribution_alone_has_the_partial_moments_of_the_formulas():
    for code, (_, parameters, x) in CASES.items():
        found = type(LAWS[code])(LAWS[code].scipy_distribution).partial_moment(*parameters, x)
        np.testing.assert_allclose(found, LAWS[code].partial_moment(*parameters, x), rtol=1e-10)


@pytest.mark.parametrize("shape", [0.1, 0.7, 0.9, 1.0])
def test_a_mean_without_expectation_has_one_below_a_level(shape):
    """By quantiles, as above; the formula divides rounding of 1e-16 by at least 0.1."""
    law, x = LAWS[INVERSE_GAMMA], np.array([0.05, 0.5, 3.0, 40.0])
    found = type(law)(law.scipy_distribution).partial_moment(shape, 2.0, x)
    np.testing.assert_allclose(law.partial_moment(shape, 2.0, x), found, rtol=1e-10)


def test_bounds_far_above_an_average_are_where_the_divergence_says():
    """y - 1 + e^-y, y = log of the ratio: within some 2^-53 of y. Rates next to 1 round to it."""
    distances = np.array([[0.5, 1.001, 3.0, 37.0, 200.0, 300.0, 690.0]])
    bounds, average = np.empty((2, 1, 7)), np.full((1, 7), 0.3)
    for code, found in zip((INVERSE_GAMMA, BETA), bounds, strict=True):
        kernels.find_upper_means(code, average, distances, found)
    y = np.log(bounds[0] / average)
    np.testing.assert_allclose(y - 1 + np.exp(-y), distances, rtol=1e-14)
    assert (bounds[1, 0, 3:] == 1.0).all() and (bounds[1, 0, :3] < 1.0).all()


@every_law
def test_log_density_along_the_line_is_the_laws_own(code):
    _, parameters, x = CASES[code]
    to_line, slope = LINES[code]
    mode, bend = march.find_mode_and_curvature(code, *parameters)
    found = [march.centred_log_density(code, *parameters, u - mode) for u in to_line(x)]
    expected = LAWS[code].log_density(*parameters, x) + np.log(slope(x))
    assert constant(np.array(found) - expected)
    step = 1e-4
    sides = [march.centred_log_density(code, *parameters, sign * step) for sign in (-1, 1)]
    assert -sum(sides) / step**2 == pytest.approx(bend, rel=1e-3)


@every_law
def test_compiled_draws_have_the_law(code):
    """By Kolmogorov and Smirnov, at a level of 1e-4 for this seed."""
    _, parameters, _ = CASES[code]
    size = 20_000
    means, winners = np.empty((1, 1, size)), np.empty((1, size), dtype=np.int64)
    columns = [np.full((1, 1), parameter) for parameter in parameters]
    laws = MeanDistributions(code, *columns)
    kernels.draw_chunk(np.random.default_rng(3), laws, np.arange(1), means, winners)
    assert stats.kstest(means[0, 0], LAWS[code].frozen(*parameters).cdf).pvalue > 1e-4
