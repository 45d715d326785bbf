"""Table 1 in numbers: reference priors, quantiles and matched moments, against SciPy's laws."""

import numpy as np
import pytest
from scipy import stats

from agents.numerics.families import INVERSE_GAMMA_LAW, NORMAL_LAW
from agents.posteriors.conjugate import reference_posterior
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal
from bandit_gym.problem import BanditProblem

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
