"""The conjugate laws against SciPy's."""

import copy
import pickle

import numpy as np
import pytest

from agents.numerics.families import (
    BETA_LAW,
    GAMMA_LAW,
    INVERSE_GAMMA_LAW,
    NORMAL_LAW,
    law_of,
)

LAWS = [
    (BETA_LAW, 2.0, 5.0),
    (INVERSE_GAMMA_LAW, 4.5, 2.0),
    (NORMAL_LAW, 1.5, 4.0),
    (GAMMA_LAW, 2.5, 3.0),
]
every_law = pytest.mark.parametrize(("law", "first", "second"), LAWS)


@every_law
def test_moments_and_quantiles_are_those_of_scipys_law(law, first, second):
    frozen, p = law.frozen(first, second), np.array([1e-6, 0.1, 0.5, 0.99])
    assert law.mean(first, second) == pytest.approx(frozen.mean())
    assert law.quantile(first, second, p) == pytest.approx(frozen.ppf(p))


@every_law
def test_a_match_has_the_moments_asked_for(law, first, second):
    frozen = law.frozen(first, second)
    assert law.match(frozen.mean(), frozen.var()) == pytest.approx((first, second))


@every_law
def test_coefficients_make_the_log_density(law, first, second):
    x = np.array([0.2, 0.5, 0.9])
    features = np.array([np.log(x), np.log1p(-x), x, x**2, 1 / x])
    values = law.coefficients(np.array([first]), second)[0] @ features
    assert np.diff(values) == pytest.approx(np.diff(law.frozen(first, second).logpdf(x)))


@every_law
def test_draws_have_mean_and_spread_of_the_law(law, first, second):
    """10,000 draws, of kurtosis below 20: four standard errors of each."""
    draws, frozen = (
        law.draw(np.random.default_rng(0), first, second, 10_000),
        law.frozen(first, second),
    )
    assert abs(draws.mean() - frozen.mean()) < 4 * frozen.std() / 100
    assert abs(draws.var() / frozen.var() - 1) < 4 * np.sqrt(21) / 100


@every_law
def test_there_is_one_of_each_law_even_of_copies(law, first, second):
    assert law_of(law.code) is law
    assert pickle.loads(pickle.dumps(law)) is copy.deepcopy(law) is law


def test_an_inverse_gamma_law_has_no_mean_up_to_shape_one():
    assert INVERSE_GAMMA_LAW.mean(np.array([0.5, 1.0, 2.0]), 3.0).tolist() == [np.inf, np.inf, 3.0]


def test_a_spread_that_no_beta_law_has_is_matched_by_the_widest():
    """A mean of 0.25 allows a variance of 3 / 16 at most."""
    assert BETA_LAW.match(0.25, 0.3) == pytest.approx((0.25e-3, 0.75e-3))
    assert law_of(BETA_LAW.code).match(0.25, 3 / 32) == pytest.approx((0.25, 0.75))


def test_draws_too_small_for_a_number_stay_positive():
    rng = np.random.default_rng(0)
    draws = [law.draw(rng, 1e-5, 1.0, 100) for law in (GAMMA_LAW, INVERSE_GAMMA_LAW)]
    assert np.all(np.array(draws) > 0)
    assert np.isfinite(draws).all()
