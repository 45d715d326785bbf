"""Priors: samples and densities agree with each other and with scipy; bad parameters are named."""

import json
import pickle
import re
from itertools import pairwise, product

import numpy as np
import pytest
from families import ALL_PRIORS
from scipy import integrate, stats

from bandit_gym.priors import (
    Beta,
    Gamma,
    IndependentPrior,
    InverseGamma,
    Normal,
    Prior,
    TruncatedMultivariateNormal,
    TruncatedNormal,
    prior_from_dict,
)

NUM_DRAWS = 20_000
NUM_ARMS = 3
COVARIANCE = [[1.0, 0.5], [0.5, 1.0]]
INDEPENDENT_PRIORS = (
    *(prior for prior in ALL_PRIORS if isinstance(prior, IndependentPrior)),
    Beta([0.5, 1.0, 300.0], [0.5, 1.0, 100.0]),
    Gamma([0.3, 1.0, 50.0], [1e-3, 1.0, 1e3]),
    InverseGamma(2.5, [1e-3, 1.0, 1e3]),
    Normal([-1e3, 0.0, 1e3], [1e-3, 1.0, 1e3]),
    TruncatedNormal([-5.0, 0.5, 7.0], 0.1),
    TruncatedNormal(0.3, [1e-3, 0.3, 1e4]),
    TruncatedNormal([0.0, 2.0, 4.0], 1.0, [-1.0, 2.0, 1.0], [np.pi, 2.01, 1e6]),
)


def _arm_law(prior: IndependentPrior, arm: int):
    """Return scipy's frozen distribution of one arm's mean."""
    values = {
        key: value[arm] if isinstance(value, tuple) else value for key, value in vars(prior).items()
    }
    if isinstance(prior, Beta):
        return stats.beta(values["alpha"], values["beta"])
    if isinstance(prior, Gamma):
        return stats.gamma(values["shape"], scale=1 / values["rate"])
    if isinstance(prior, InverseGamma):
        return stats.invgamma(values["shape"], scale=values["scale"])
    mean, std = values["mean"], values["std"]
    if isinstance(prior, Normal):
        return stats.norm(mean, std)
    limits = (values["low"] - mean) / std, (values["high"] - mean) / std
    return stats.truncnorm(*limits, loc=mean, scale=std)


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_sample_passes_kolmogorov_smirnov_on_every_arm(prior, rng):
    draws = prior.sample(rng, (NUM_DRAWS, NUM_ARMS))
    for arm in range(NUM_ARMS):
        assert stats.kstest(draws[:, arm], _arm_law(prior, arm).cdf).pvalue > 1e-3


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_sample_has_the_moments_of_every_arm(prior, rng):
    draws = prior.sample(rng, (NUM_DRAWS, NUM_ARMS))
    for arm in range(NUM_ARMS):
        law = _arm_law(prior, arm)
        tolerance = 4 * draws[:, arm].std() / np.sqrt(NUM_DRAWS)
        assert abs(draws[:, arm].mean() - law.mean()) <= tolerance
        if not isinstance(prior, InverseGamma):  # whose squares have no variance at shape <= 4
            squares = (draws[:, arm] - law.mean()) ** 2
            assert abs(squares.mean() - law.var()) <= 4 * squares.std() / np.sqrt(NUM_DRAWS)


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_sample_draws_independent_arms(prior, rng):
    ranks = stats.rankdata(prior.sample(rng, (NUM_DRAWS, NUM_ARMS)), axis=0)
    correlations = np.corrcoef(ranks.T)[np.triu_indices(NUM_ARMS, 1)]
    assert (np.abs(correlations) <= 4 / np.sqrt(NUM_DRAWS)).all()


def propose(prior, rng):
    """Return `NUM_DRAWS` proposals for each arm, and which are kept."""
    uniforms = rng.random((prior.num_uniforms, NUM_ARMS, NUM_DRAWS))
    return prior.propose(uniforms, np.arange(NUM_ARMS)[:, None])


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_proposals_that_are_kept_pass_kolmogorov_smirnov_on_every_arm(prior, rng):
    for arm, (means, is_kept) in enumerate(zip(*propose(prior, rng), strict=True)):
        assert stats.kstest(means[is_kept], _arm_law(prior, arm).cdf).pvalue > 1e-3


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_proposals_are_mostly_kept(prior, rng):
    """Of each of two Gamma variates at least 95.1 %, which is at shape 1."""
    _, is_kept = propose(prior, rng)
    assert (is_kept.mean(axis=1) >= 0.951**2 - 4 * (0.1 * 0.9 / NUM_DRAWS) ** 0.5).all()


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_proposals_are_the_same_alone_and_in_any_batch(prior, rng):
    uniforms, arms = rng.random((prior.num_uniforms, NUM_ARMS, 40)), np.arange(NUM_ARMS)
    means, is_kept = prior.propose(uniforms, arms[:, None])
    for lane in range(40):
        alone, is_alone_kept = prior.propose(uniforms[:, :, lane], arms)
        assert alone.tolist() == means[:, lane].tolist()
        assert is_alone_kept.tolist() == is_kept[:, lane].tolist()


@pytest.mark.parametrize(
    "prior",
    [Gamma(1e-3, 1.0), InverseGamma(1e-3, 1.0), Beta(1e-3, 1e-3), Beta(1e9, 1e-9), Gamma(1e12, 1)],
    ids=repr,
)
def test_proposals_that_are_kept_lie_inside_at_the_ends_of_the_numbers(prior):
    ends = list(product([0.0, 0.5, 1 - 2.0**-53], repeat=prior.num_uniforms))
    means, is_kept = prior.propose(np.transpose(ends), np.zeros(len(ends), dtype=int))
    low, high = prior.support
    assert is_kept.any()
    assert ((means > low) & (means < high))[is_kept].all()


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_arm_log_density_is_that_of_scipy(prior, rng):
    draws = prior.sample(rng, (200, NUM_ARMS))
    expected = [_arm_law(prior, arm).logpdf(draws[:, arm]) for arm in range(NUM_ARMS)]
    np.testing.assert_allclose(
        prior.arm_log_density(draws), np.transpose(expected), rtol=1e-7, atol=1e-7
    )


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_arm_density_integrates_to_one(prior):
    def density(mean: float, arm: int) -> float:
        return np.exp(prior.arm_log_density(np.full(NUM_ARMS, mean))[arm])

    tails = np.geomspace(1e-6, 0.1, 6)  # cuts, so that quad meets neither ends nor sharp peaks
    for arm in range(NUM_ARMS):
        cuts = _arm_law(prior, arm).ppf([*tails, 0.5, *(1 - tails[::-1])])
        pieces = [integrate.quad(density, *ends, args=(arm,)) for ends in pairwise(cuts)]
        assert np.sum(pieces, axis=0)[0] == pytest.approx(1 - 2e-6, abs=1e-7)


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_log_density_is_the_sum_over_arms(prior, rng):
    means = prior.sample(rng, (4, 5, NUM_ARMS))
    assert prior.log_density(means).shape == (4, 5)
    np.testing.assert_array_equal(prior.log_density(means), prior.arm_log_density(means).sum(-1))


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_natural_parameters_give_the_log_density_up_to_a_constant(prior, rng):
    x = np.sort(prior.sample(rng, (50, NUM_ARMS)), axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):  # features of weight 0 may not exist
        features = np.stack([np.log(x), np.log1p(-x), x, x**2, 1 / x], axis=-1)
    weights = prior.natural_parameters(NUM_ARMS)
    terms = np.where(weights == 0, 0.0, weights * np.where(weights == 0, 0.0, features))
    rest = prior.arm_log_density(x) - terms.sum(axis=-1)
    rounding = 1e-13 * np.abs(terms).max(axis=(0, 2))
    assert (np.ptp(rest, axis=0) <= 1e-9 + rounding).all()


@pytest.mark.parametrize("prior", INDEPENDENT_PRIORS, ids=repr)
def test_arm_support_is_that_of_scipy(prior):
    expected = [_arm_law(prior, arm).support() for arm in range(NUM_ARMS)]
    np.testing.assert_allclose(prior.arm_support(NUM_ARMS), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("prior", [*INDEPENDENT_PRIORS, *ALL_PRIORS], ids=repr)
def test_support_encloses_every_arm(prior):
    limits = prior.arm_support(NUM_ARMS)
    assert prior.support == (limits[:, 0].min(), limits[:, 1].max())


@pytest.mark.parametrize("prior", [*INDEPENDENT_PRIORS, *ALL_PRIORS], ids=repr)
def test_log_density_is_minus_infinity_outside_the_support(prior, rng):
    inside = prior.sample(rng, (NUM_ARMS,))
    low, high = prior.arm_support(NUM_ARMS).T
    for arm in range(NUM_ARMS):
        for end, direction in ((low[arm], -np.inf), (high[arm], np.inf)):
            if np.isfinite(end):
                outside = inside.copy()
                outside[arm] = np.nextafter(end, direction)
                assert prior.log_density(outside) == -np.inf


@pytest.mark.parametrize("prior", [*INDEPENDENT_PRIORS, *ALL_PRIORS], ids=repr)
def test_log_density_is_finite_at_draws(prior, rng):
    assert np.isfinite(prior.log_density(prior.sample(rng, (1000, NUM_ARMS)))).all()


@pytest.mark.parametrize("prior", ALL_PRIORS, ids=repr)
def test_prior_has_the_methods_of_one(prior):
    assert isinstance(prior, Prior)


@pytest.mark.parametrize("shape", [(NUM_ARMS,), (1, NUM_ARMS), (4, 2, NUM_ARMS), (0, NUM_ARMS)])
@pytest.mark.parametrize("prior", [*INDEPENDENT_PRIORS, *ALL_PRIORS], ids=repr)
def test_sample_has_the_shape_asked_for(prior, shape, rng):
    draws = prior.sample(rng, shape)
    assert draws.shape == shape
    assert draws.dtype == np.float64
    assert prior.log_density(draws).shape == shape[:-1]


@pytest.mark.parametrize("prior", ALL_PRIORS, ids=repr)
def test_sample_depends_on_the_generator_alone(prior):
    first = prior.sample(np.random.default_rng(7), (5, NUM_ARMS))
    prior.sample(np.random.default_rng(8), (5, NUM_ARMS))
    np.testing.assert_array_equal(prior.sample(np.random.default_rng(7), (5, NUM_ARMS)), first)


@pytest.mark.parametrize("prior", [*INDEPENDENT_PRIORS, *ALL_PRIORS], ids=repr)
def test_dict_makes_an_equal_prior(prior):
    settings = json.loads(json.dumps(prior.to_dict()))
    assert settings == prior.to_dict()
    assert prior_from_dict(settings) == prior
    assert hash(prior_from_dict(settings)) == hash(prior)


@pytest.mark.parametrize("prior", ALL_PRIORS, ids=repr)
def test_pickle_is_the_same_before_and_after_use(prior, rng):
    before = pickle.dumps(prior)
    prior.log_density(prior.sample(rng, (2, NUM_ARMS)))
    assert pickle.dumps(prior) == before
    assert pickle.loads(before) == prior


@pytest.mark.parametrize("prior", ALL_PRIORS, ids=repr)
def test_prior_cannot_be_changed(prior):
    name = next(iter(vars(prior)))
    with pytest.raises(AttributeError, match=f"cannot assign to field '{name}'"):
        setattr(prior, name, 1.0)


@pytest.mark.parametrize(
    ("prior", "num_arms"),
    [
        (Beta(1, 1), None),
        (Beta([1, 2, 3], 1), 3),
        (TruncatedNormal(0.5, 0.1, [0, 0.1], 1), 2),
        (TruncatedMultivariateNormal(0.5, COVARIANCE), 2),
    ],
)
def test_num_arms_is_the_length_of_the_parameters(prior, num_arms):
    assert prior.num_arms == num_arms


@pytest.mark.parametrize("prior", [Gamma(1e-3, 1.0), InverseGamma(1e-3, 1.0), Beta(1e-3, 1e-3)])
def test_sample_keeps_inside_when_nearly_all_mass_is_at_the_ends(prior, rng):
    draws = prior.sample(rng, (1000, 2))
    low, high = prior.support
    assert ((draws > low) & (draws < high)).all()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Beta(0.0, 1.0), ValueError, "alpha must be finite and above 0, got 0.0."),
        (lambda: Beta(1.0, np.inf), ValueError, "beta must be finite and above 0, got inf."),
        (lambda: Gamma(1.0, [1.0, -1.0]), ValueError, "rate must be finite and above 0, got [1.0,"),
        (lambda: Gamma("1", 1.0), TypeError, "shape must be a number or a list of one number per"),
        (lambda: InverseGamma(-1, 1.0), ValueError, "shape must be finite and above 0, got -1."),
        (lambda: Normal(np.nan, 1.0), ValueError, "mean must be finite, got nan."),
        (lambda: Normal(0.0, 0.0), ValueError, "std must be finite and above 0, got 0.0."),
        (
            lambda: Normal([0.0, 1.0], [1.0, 1.0, 1.0]),
            ValueError,
            "std must have as many values as mean (2), got 3.",
        ),
        (
            lambda: TruncatedNormal(0.5, 0.1, 1.0, 1.0),
            ValueError,
            "low must be below high (1.0), got 1.0.",
        ),
        (
            lambda: TruncatedNormal(0.5, 0.1, [0.0, 2.0], 1.0),
            ValueError,
            "low must be below high (1.0), got (0.0, 2.0).",
        ),
        (
            lambda: TruncatedNormal(0.0, 1e-9, 0.5, 1.0),
            ValueError,
            "mean and std must leave the interval from low to high a mass that floating point can "
            "represent, got {'mean': 0.0, 'std': 1e-09, 'low': 0.5, 'high': 1.0}.",
        ),
        (
            lambda: TruncatedMultivariateNormal(0.5, [[1.0, 0.5], [0.4, 1.0]]),
            ValueError,
            "covariance must be symmetric, got [[1.0, 0.5], [0.4, 1.0]].",
        ),
        (
            lambda: TruncatedMultivariateNormal(0.5, np.ones((3, 3))),
            ValueError,
            "covariance must be positive definite, got eigenvalues of its correlations from",
        ),
        (
            lambda: TruncatedMultivariateNormal([0.5, 0.5, 0.5], COVARIANCE),
            ValueError,
            "mean must have as many values as covariance (2), got 3.",
        ),
        (
            lambda: TruncatedMultivariateNormal(0.5, COVARIANCE, low=1.0),
            ValueError,
            "low must be below high (1.0), got 1.0.",
        ),
        (
            lambda: TruncatedMultivariateNormal([0.5, 1e9], COVARIANCE),
            ValueError,
            "mean and std must leave the interval from low to high a mass that floating point can",
        ),
    ],
)
def test_bad_parameter_is_named(make, error, text):
    with pytest.raises(error, match=re.escape(text)):
        make()


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        (0.5, TypeError, "prior must be a dict with the key 'name', got 0.5."),
        ({"mean": 0}, ValueError, "prior must be a dict with the key 'name', got {'mean': 0}."),
        ({"name": "betta"}, ValueError, "got 'betta'; the nearest known one is 'beta'."),
        ({"name": None}, TypeError, "prior name must be one of 'beta', 'gamma', 'inverse_gamma',"),
        ({"name": "beta", "alpha": 1}, ValueError, "prior must have the key 'beta', got {'name':"),
        (
            {"name": "normal", "mean": 0, "sdt": 1},
            ValueError,
            "prior must have no keys but 'name', 'mean', 'std', got 'sdt'; "
            "the nearest known one is 'std'.",
        ),
        ({"name": "normal", "mean": 0, "std": "1"}, TypeError, "std must be a number or a list"),
        ({"name": "normal", "mean": 0, "std": -1}, ValueError, "std must be finite and above 0,"),
    ],
)
def test_dict_names_what_is_wrong(settings, error, text):
    with pytest.raises(error, match=re.escape(text)):
        prior_from_dict(settings)


def test_dict_may_leave_out_the_defaults():
    settings = {"name": "truncated_normal", "mean": 0.5, "std": 0.1}
    assert prior_from_dict(settings) == TruncatedNormal(0.5, 0.1, 0.0, 1.0)
