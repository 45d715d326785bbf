"""Table 1 by hand: parameters, moments and fits of each law."""

import math

import numpy as np
import pytest
from scipy import stats

from agents.numerics.laws import INVERSE_GAMMA_LAW, NORMAL_LAW
from agents.posteriors.conjugate import (
    conjugate_posterior,
    data_weights,
    has_row,
    is_conjugate,
    likelihood_coefficients,
    matched_posterior,
    reference_posterior,
)
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, TruncatedNormal
from bandit_gym.problem import BanditProblem

N, S = np.array([[4, 2]]), np.array([[3.0, 1.0]])
ROWS = [  # after 4 pulls of sum 3 and 2 pulls of sum 1
    (Bernoulli(), Beta(2.0, 5.0), [[5.0, 3.0]], [[6.0, 6.0]]),
    (Exponential(), InverseGamma(3.0, 2.0), [[7.0, 5.0]], [[5.0, 3.0]]),
    (Gaussian(0.5), Normal(1.0, 2.0), [[12.25, 4.25]], [[16.25, 8.25]]),
    (Poisson(), Gamma(2.0, 1.5), [[5.0, 3.0]], [[5.5, 3.5]]),
]
NAMES = [row[0].name for row in ROWS]


def followed(likelihood, prior, counts=N, sums=S):
    posterior = conjugate_posterior(BanditProblem(likelihood, prior, 2))
    posterior.follow(np.random.default_rng(0), counts, sums)
    return posterior


@pytest.mark.parametrize(("likelihood", "prior", "first", "second"), ROWS, ids=NAMES)
def test_data_are_added_to_the_parameters(likelihood, prior, first, second):
    posterior = conjugate_posterior(BanditProblem(likelihood, prior, 2))
    found = posterior.parameters(N, S)
    assert found[0].tolist() == first
    assert found[1].tolist() == second


MOMENTS = [
    ((5 / 11, 1 / 3), (math.sqrt(5 * 6 / 11**2 / 12), math.sqrt(3 * 6 / 9**2 / 10))),
    ((5 / 6, 3 / 4), (5 / 6 / math.sqrt(5), 3 / 4 / math.sqrt(3))),
    ((12.25 / 16.25, 4.25 / 8.25), (16.25**-0.5, 8.25**-0.5)),
    ((5 / 5.5, 3 / 3.5), (math.sqrt(5) / 5.5, math.sqrt(3) / 3.5)),
]


@pytest.mark.parametrize(("row", "moments"), list(zip(ROWS, MOMENTS, strict=True)), ids=NAMES)
def test_moments_are_those_of_the_law(row, moments):
    posterior = followed(*row[:2])
    assert posterior.mean()[0] == pytest.approx(moments[0])
    assert posterior.std()[0] == pytest.approx(moments[1])


@pytest.mark.parametrize(("likelihood", "prior"), [row[:2] for row in ROWS], ids=NAMES)
@pytest.mark.parametrize("p", [0.01, 0.3, 0.9])
def test_quantiles_are_where_so_much_of_the_law_lies_below(likelihood, prior, p):
    posterior = followed(likelihood, prior)
    law = posterior.law.frozen(*posterior.parameters(N, S))
    assert law.cdf(posterior.quantile(p))[0] == pytest.approx([p, p])


def test_quantiles_of_a_normal_law_by_hand():
    """97.5 % point 1.959964 standard deviations above the mean."""
    posterior = followed(Gaussian(0.5), Normal(1.0, 2.0))
    expected = np.array([12.25, 4.25]) / [16.25, 8.25] + 1.959964 / np.sqrt([16.25, 8.25])
    assert posterior.quantile(0.975)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("likelihood", "parameters", "is_proper"),
    [
        (Bernoulli(), (1.0, 1.0), True),
        (Exponential(), (1.0, 1.0), True),
        (Gaussian(), (0.0, 0.0), False),
        (Poisson(), (0.5, 0.0), False),
    ],
)
def test_reference_priors_are_those_of_table_1(likelihood, parameters, is_proper):
    posterior = reference_posterior(BanditProblem(likelihood, TruncatedNormal(0.5, 0.1), 2))
    assert posterior.prior.tolist() == [list(parameters)] * 2
    assert posterior.is_proper().tolist() == [is_proper] * 2


def test_a_normal_prior_is_proper_wherever_its_mean_is():
    posterior = conjugate_posterior(BanditProblem(Gaussian(), Normal([-1.0, 0.0], 1.0), 2))
    assert posterior.is_proper().all()


def test_arms_without_data_and_a_proper_prior_are_at_infinity_and_share_the_first_place():
    posterior = reference_posterior(BanditProblem(Poisson(), Gamma(1.0, 1.0), 3))
    posterior.follow(np.random.default_rng(0), np.array([[3, 0, 0]]), np.array([[2.0, 0, 0]]))
    for answer in (posterior.mean(), posterior.std(), posterior.quantile(0.5)):
        assert np.isinf(answer)[0].tolist() == [False, True, True]
    assert np.isinf(posterior.sample(np.random.default_rng(0)))[0].tolist() == [False, True, True]
    assert posterior.best_arm_probabilities().tolist() == [[0.0, 0.5, 0.5]]


def test_best_arms_of_two_lanes_are_each_their_own():
    """Two normal arms: the chance is Phi(difference over its standard deviation)."""
    counts, sums = np.array([[1, 1], [4, 1], [1, 1]]), np.array([[0.0, 1.0], [4.0, 0.0], [0, 1]])
    posterior = followed(Gaussian(1.0), Normal(0.0, 1.0), counts, sums)
    gaps = np.array([0.0 - 0.5, 4 / 5 - 0.0, 0.0 - 0.5])
    spreads = np.sqrt([1.0, 1 / 5 + 1 / 2, 1.0])
    first = [0.5 * math.erfc(-z / math.sqrt(2)) for z in gaps / spreads]
    found = posterior.best_arm_probabilities()
    assert found[:, 0] == pytest.approx(first, abs=1e-6)
    assert found.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize(("likelihood", "prior"), [row[:2] for row in ROWS], ids=NAMES)
def test_a_fit_has_the_moments_of_the_draws(likelihood, prior):
    other = TruncatedNormal([0.3, 0.6], 0.1)
    problem = BanditProblem(likelihood, other, 2)
    draws = other.sample(np.random.default_rng(0), (10_000, 2))
    fitted = matched_posterior(problem)
    law = fitted.law.frozen(*fitted.prior.T)
    assert law.mean() == pytest.approx(draws.mean(axis=0), rel=1e-6)
    assert law.std() == pytest.approx(draws.std(axis=0), rel=1e-6)


def test_a_conjugate_prior_fits_itself():
    fitted = matched_posterior(BanditProblem(Bernoulli(), Beta(2.0, 5.0), 2))
    assert fitted.prior.tolist() == [[2.0, 5.0]] * 2


@pytest.mark.parametrize(("likelihood", "prior"), [row[:2] for row in ROWS], ids=NAMES)
def test_coefficients_make_the_log_likelihood(likelihood, prior):
    x = np.array([0.2, 0.5, 0.7])
    features = np.array([np.log(x), np.log1p(-x), x, x**2, 1 / x])
    c = likelihood_coefficients(likelihood, N, S)
    assert c.shape == (1, 2, 5)
    for arm in range(2):
        gaps = c[0, arm] @ features - likelihood.log_likelihood(x, N[0, arm], S[0, arm])
        assert gaps == pytest.approx(gaps[0])


@pytest.mark.parametrize(("likelihood", "prior"), [row[:2] for row in ROWS], ids=NAMES)
def test_natural_parameters_make_the_priors_log_density(likelihood, prior):
    posterior, x = conjugate_posterior(BanditProblem(likelihood, prior, 2)), np.array([0.2, 0.7])
    features = np.array([np.log(x), np.log1p(-x), x, x**2, 1 / x])
    values = posterior.natural_parameters()[0] @ features
    law = posterior.law.frozen(*posterior.prior[0])
    assert np.diff(values) == pytest.approx(np.diff(law.logpdf(x)))


def test_conjugacy_is_the_classs_own():
    assert is_conjugate(Bernoulli(), Beta(1.0, 1.0))
    assert not is_conjugate(Poisson(), Beta(1.0, 1.0))
    assert has_row(Poisson())
    assert data_weights(Gaussian(0.5)).tolist() == [[0.0, 4.0], [4.0, 0.0]]


REFERENCES = [  # after 5 rewards of total 3: the last column of Table 1
    (BanditProblem(Bernoulli(), Beta(2, 2), 2), stats.beta(4, 3)),
    (BanditProblem(Exponential(), InverseGamma(2, 2), 2), stats.invgamma(6, scale=4)),
    (BanditProblem(Gaussian(2.0), Normal(0, 1), 2), stats.norm(0.6, 2 / np.sqrt(5))),
    (BanditProblem(Poisson(), Gamma(2, 2), 2), stats.gamma(3.5, scale=1 / 5)),
]


@pytest.mark.parametrize(
    ("problem", "law"), REFERENCES, ids=[problem.likelihood.name for problem, _ in REFERENCES]
)
def test_reference_posteriors_have_the_quantiles_of_table_1(problem, law):
    posterior = reference_posterior(problem)
    posterior.follow(np.random.default_rng(0), np.full((1, 2), 5), np.full((1, 2), 3.0))
    for level in (0.01, 0.3, 0.9):
        np.testing.assert_allclose(posterior.quantile(level), law.ppf(level), rtol=1e-9)


def test_inverse_gamma_match_has_the_moments():
    shape, scale = INVERSE_GAMMA_LAW.match(np.array(3.0), np.array(0.5))
    law = stats.invgamma(shape, scale=scale)
    np.testing.assert_allclose([law.mean(), law.var()], [3.0, 0.5], rtol=1e-12)


def test_normal_quantiles_are_as_wide_as_the_root_of_the_precision_says():
    np.testing.assert_allclose(
        NORMAL_LAW.quantile(8.0, 4.0, 0.9), stats.norm(2.0, 0.5).ppf(0.9), rtol=1e-12
    )
