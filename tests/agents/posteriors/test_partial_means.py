import numpy as np
import pytest
from scipy import integrate

from agents.posteriors.choosing import exact_posterior
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import (
    Beta,
    Gamma,
    InverseGamma,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem

PROBLEMS = (
    BanditProblem(Bernoulli(), Beta([1.0, 30.0], [1.0, 20.0]), 2),
    BanditProblem(Exponential(), InverseGamma(3.0, 2.0), 2),
    BanditProblem(Gaussian(2.0), Normal(1.0, 3.0), 2),
    BanditProblem(Poisson(), Gamma(2.0, 3.0), 2),
)
COUNTS, SUMS = np.array([[0, 7]]), np.array([[0.0, 3.0]])


def followed(problem, method="auto", counts=COUNTS, sums=SUMS):
    posterior, rng = exact_posterior(problem, method=method)[1], np.random.default_rng(0)
    posterior.restart(rng, np.ones(len(counts), dtype=bool))
    posterior.follow(rng, counts, sums)
    return posterior


def levels(problem):
    return [followed(problem).quantile(p) for p in (0.01, 0.3, 0.8, 0.99)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.likelihood.name)
def test_shortfall_of_a_conjugate_law_is_its_integral(problem):
    posterior = followed(problem)
    laws = [
        posterior.law.frozen(*(each[0, arm] for each in posterior._current()[:2]))
        for arm in range(2)
    ]
    for level in levels(problem):
        below, shortfall = posterior.shortfall(level)
        for arm, law in enumerate(laws):
            assert below[0, arm] == pytest.approx(law.cdf(level[0, arm]))
            low = law.ppf(1e-12)
            expected = integrate.quad(law.cdf, low, level[0, arm], epsabs=0, epsrel=1e-8)[0]
            assert shortfall[0, arm] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.likelihood.name)
def test_tables_tell_what_conjugate_laws_do(problem):
    for level in levels(problem):
        below, shortfall = followed(problem, "grid").shortfall(level)
        expected = followed(problem).shortfall(level)
        assert np.abs(below - expected[0]).max() < 1e-3  # which tables may be off by
        assert (np.abs(shortfall - expected[1]) < 1e-3 * followed(problem).std()).all()


def test_no_mean_falls_short_of_the_least_and_all_of_the_largest():
    for prior in (Beta(2.0, 3.0), TruncatedNormal(0.4, 0.2)):
        posterior = followed(BanditProblem(Bernoulli(), prior, 2))
        assert np.abs(posterior.shortfall(np.zeros((1, 2)))).max() < 1e-12
        below, shortfall = posterior.shortfall(np.ones((1, 2)))
        assert below == pytest.approx(np.ones((1, 2)))
        assert shortfall == pytest.approx(1 - posterior.mean(), rel=1e-3)


def test_chain_tells_what_its_marginal_laws_do():
    prior = TruncatedMultivariateNormal(0.5, [[1.0, 0.9], [0.9, 1.0]])
    posterior = followed(BanditProblem(Gaussian(), prior, 2), counts=COUNTS * 1.0)
    level = posterior.quantile(0.5)
    below, shortfall = posterior.shortfall(level)
    assert below == pytest.approx(np.full((1, 2), 0.5), abs=0.03)  # a point of its grid
    # E(level - x)^+ - E(x - level)^+ = level - mean; the two are about equal at the median
    assert (shortfall > 0.1 * posterior.std()).all() and (shortfall < posterior.std()).all()


def test_kinds_without_it_say_so():
    from agents import SMCThompson

    agent = SMCThompson(PROBLEMS[0])
    agent.reset(1, seed=0)
    with pytest.raises(NotImplementedError, match="must be asked of an exact posterior"):
        agent.inner.shortfall(np.zeros((1, 2)))
