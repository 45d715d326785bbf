"""A prior fitted to earlier arms is the maximum of the marginal likelihood."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from geometric import Geometric
from scipy import stats

from bandit_gym import fit_prior
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson

RNG = np.random.default_rng(3)
COUNTS = RNG.integers(50, 200, 40)
SUMS = RNG.binomial(COUNTS, RNG.beta(3, 12, 40)).astype(float)


def integrate(log_density, log_likelihood, low, high):
    """Return the log of the integral of a density times a likelihood, scaled by its largest."""
    grid = np.linspace(low, high, 4001)
    values = log_density(grid) + log_likelihood(grid)
    return np.log(np.trapezoid(np.exp(values - values.max()), grid)) + values.max()


def logit_normal(n, s, mean, std):
    return integrate(
        stats.norm(mean, std).logpdf,
        lambda x: s * x - n * np.logaddexp(0, x),
        mean - 9 * std,
        mean + 9 * std,
    )


def inverse_gamma(n, s, shape, scale):
    rate = stats.gamma(shape, scale=1 / scale)  # 1 / mean
    top = (shape + n) / (scale + s)
    return integrate(rate.logpdf, lambda x: n * np.log(x) - s * x, top / 1000, 4 * top)


FAMILIES = {
    "beta": (Bernoulli(), lambda n, s, *p: stats.betabinom.logpmf(s, n, *p)),
    "logit_normal": (Bernoulli(), logit_normal),
    "normal": (
        Gaussian(0.5),
        lambda n, s, mean, std: stats.norm.logpdf(s / n, mean, np.hypot(std, 0.5 / n**0.5)),
    ),
    "gamma": (Poisson(), lambda n, s, a, b: stats.nbinom.logpmf(s, a, b / (b + n))),
    "inverse_gamma": (Exponential(), inverse_gamma),
}


def test_of_several_maxima_it_is_the_largest():
    n, s = np.array([2898.0, 3368.0, 7.0]), np.array([572.737, 1065.402, 10.27])
    fitted = fit_prior(Gaussian(1.0), n, s, "normal")

    def profile(std):  # with the mean that is best for it
        variance = std**2 + 1 / n
        mean = (s / n / variance).sum() / (1 / variance).sum()
        return stats.norm(mean, variance**0.5).logpdf(s / n).sum()

    values = np.array([profile(std) for std in np.exp(np.linspace(-8, 2, 4001))])
    is_maximum = (values[1:-1] > values[:-2]) & (values[1:-1] > values[2:])
    assert is_maximum.sum() == 2
    assert values.max() - 1e-9 < fitted.log_likelihood < values.max() + 1e-4  # of the grid's step


def test_arms_that_are_alike_are_refused_wherever_a_smaller_maximum_is():
    uneven = [3, 50, 1000, 2, 7, 100_000]
    for likelihood, n, s, family in [
        (
            Gaussian(1.0),
            [125, 20, 8, 4472, 16],
            [-31.483, 8.511, 0.271, -1055.969, 0.809],
            "normal",
        ),
        (Bernoulli(), uneven, [1, 3, 70, 2, 3, 9000], "beta"),
        (Bernoulli(), uneven, [1, 3, 70, 2, 3, 9000], "logit_normal"),
    ]:
        with pytest.raises(ValueError, match="means that differ by more than chance"):
            fit_prior(likelihood, n, s, family)


def test_it_is_the_best_of_a_grid_about_it():
    for family, (likelihood, log_marginal) in FAMILIES.items():
        fitted = fit_prior(likelihood, COUNTS, SUMS, family)
        first, second = (v for key, v in fitted.prior.to_dict().items() if key != "name")
        found = {
            (x, y): sum(
                log_marginal(n, s, first * x, second * y) for n, s in zip(COUNTS, SUMS, strict=True)
            )
            for x, y in product((0.98, 1.0, 1.02), repeat=2)
        }
        assert max(found, key=found.get) == (1.0, 1.0), family
        assert fitted.num_arms == len(COUNTS), family


def test_rates_may_be_as_rare_as_one_in_a_million():
    """Counts of rare successes are Poisson's, and a Beta rate a gamma one, to relative 1e-6."""
    rng, counts = np.random.default_rng(0), np.full(60, 2e8)
    sums = rng.poisson(rng.gamma(5.0, 2e8 / 5e6, 60)).astype(float)
    beta = fit_prior(Bernoulli(), counts, sums, "beta").prior
    gamma = fit_prior(Poisson(), counts, sums, "gamma").prior
    assert (beta.alpha, beta.beta) == pytest.approx((gamma.shape, gamma.rate), rel=1e-3)


def test_the_unit_of_rewards_changes_only_the_scale():
    widths = [fit_prior(Gaussian(u), COUNTS, SUMS * u, "normal").prior.std / u for u in (1, 1e-20)]
    assert widths[0] == pytest.approx(widths[1], rel=1e-3)
    for family, likelihood in (("inverse_gamma", Exponential()), ("gamma", Poisson())):
        fits = [fit_prior(likelihood, COUNTS, SUMS * unit, family) for unit in (1e8, 1e10)]
        first, second = (each.prior for each in fits)
        ratios = {"scale": 100.0} if family == "inverse_gamma" else {"rate": 0.01}
        for name, value in second.to_dict().items():
            if name != "name":
                expected = getattr(first, name) * ratios.get(name, 1.0)
                assert value == pytest.approx(expected, rel=1e-3), (family, name)


def test_rewards_may_be_negative():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = fit_prior(Gaussian(0.5), COUNTS, -SUMS, "normal").prior
    positive = fit_prior(Gaussian(0.5), COUNTS, SUMS, "normal").prior
    assert fitted.mean == pytest.approx(-positive.mean, rel=1e-4)


def test_equal_arms_which_have_no_finite_maximum_and_a_family_that_does_not_fit_are_refused():
    for family in ("beta", "logit_normal", "normal"):
        likelihood = Gaussian(1.0) if family == "normal" else Bernoulli()
        with pytest.raises(ValueError, match="differ by more than chance"):
            fit_prior(likelihood, [100] * 5, [30.0, 31, 30, 29, 30], family)
    for likelihood, counts, sums, family in [  # flat, and at infinity
        (Bernoulli(), [1] * 100, [1] * 30 + [0] * 70, "beta"),
        (Bernoulli(), [5, 5, 5], [0, 5, 5], "logit_normal"),
        (Bernoulli(), [100] * 5, [100] * 5, "logit_normal"),
        (Poisson(), [2, 2], [2, 0], "gamma"),
    ]:
        with pytest.raises(ValueError, match="differ by more than chance"):
            fit_prior(likelihood, counts, sums, family)
    totals = pd.DataFrame({"counts": COUNTS, "sums": SUMS})
    assert fit_prior(Bernoulli(), **totals) == fit_prior(Bernoulli(), COUNTS, SUMS)
    with pytest.raises(ValueError, match="sums must have the labels of counts in their order"):
        fit_prior(Bernoulli(), totals["counts"].sort_values(), totals["sums"])
    with pytest.raises(ValueError, match="family must be one of"):
        fit_prior(Bernoulli(), COUNTS, SUMS, "gamma")
    with pytest.raises(ValueError, match=r"family must go with the likelihood, .* has none"):
        fit_prior(Geometric(), COUNTS, SUMS)
