"""Reward laws: quantiles, moments, fit, likelihoods and what is possible."""

import json
import re

import numpy as np
import pytest
from families import ALL_LIKELIHOODS
from scipy import stats

from bandit_gym.likelihoods import (
    Bernoulli,
    Exponential,
    Gaussian,
    Likelihood,
    Poisson,
    likelihood_from_dict,
)
from bandit_gym.numerics.poisson import _quantile_by_adding, _quantile_by_correcting

LAST_UNIFORM = 1 - 2.0**-53
NUM_DRAWS = 100_000
CASES = (
    *((Bernoulli(), mean) for mean in (0.001, 0.3, 0.5, 0.999)),
    *((Exponential(), mean) for mean in (1e-8, 0.3, 1e6)),
    *((Gaussian(std), mean) for std, mean in ((1.0, 0.0), (0.01, -5.0), (100.0, 1e6))),
    *((Poisson(), mean) for mean in (0.01, 0.7, 4.0, 15.99, 16.0, 80.0, 1e4, 1e6)),
)


def _law(likelihood: Likelihood, mean: float):
    """Return scipy's frozen distribution of the reward."""
    if isinstance(likelihood, Gaussian):
        return stats.norm(mean, likelihood.std)
    if isinstance(likelihood, Exponential):
        return stats.expon(scale=mean)
    return (stats.bernoulli if isinstance(likelihood, Bernoulli) else stats.poisson)(mean)


def _is_discrete(likelihood: Likelihood) -> bool:
    return isinstance(likelihood, Bernoulli | Poisson)


def _hard_uniforms() -> np.ndarray:
    """Return uniforms in the middle and in both tails, down to the smallest that are drawn."""
    middle = np.random.default_rng(0).random(2000)
    tail = 2.0 ** -np.arange(2, 54)
    return np.sort(np.concatenate([middle, tail, 1 - tail]))


@pytest.mark.parametrize(("likelihood", "mean"), CASES)
def test_sample_is_the_inverse_cdf(likelihood, mean):
    uniforms, law = _hard_uniforms(), _law(likelihood, mean)
    rewards = likelihood.sample(mean, uniforms)
    if _is_discrete(likelihood):
        assert (law.cdf(rewards - 1) <= uniforms + 1e-14).all()
        assert (law.sf(rewards) <= (1 - uniforms) * (1 + 1e-8)).all()
    else:
        np.testing.assert_allclose(law.cdf(rewards), uniforms, rtol=1e-10)
        np.testing.assert_allclose(law.sf(rewards), 1 - uniforms, rtol=1e-10)


@pytest.mark.parametrize(("likelihood", "mean"), CASES)
def test_sample_has_the_mean(likelihood, mean, rng):
    rewards = likelihood.sample(mean, rng.random(NUM_DRAWS))
    standard_error = likelihood.reward_std(mean) / np.sqrt(NUM_DRAWS)
    assert abs(rewards.mean() - mean) <= 4 * standard_error


@pytest.mark.parametrize(("likelihood", "mean"), CASES)
def test_sample_has_the_variance(likelihood, mean, rng):
    rewards, law = likelihood.sample(mean, rng.random(NUM_DRAWS)), _law(likelihood, mean)
    squares = (rewards - mean) ** 2
    fourth_moment = law.var() ** 2 * (3 + law.stats("k"))
    standard_error = np.sqrt((fourth_moment - law.var() ** 2) / NUM_DRAWS)
    assert abs(squares.mean() - law.var()) <= 4 * standard_error


@pytest.mark.parametrize(("likelihood", "mean"), CASES)
def test_sample_passes_a_test_of_fit(likelihood, mean, rng):
    rewards, law = likelihood.sample(mean, rng.random(NUM_DRAWS)), _law(likelihood, mean)
    if _is_discrete(likelihood):
        edges = np.unique(law.ppf([0.0005, *np.linspace(0.02, 0.98, 25)]))  # where bins end
        expected = NUM_DRAWS * np.diff([0.0, *law.cdf(edges), 1.0])
        observed = np.bincount(np.searchsorted(edges, rewards), minlength=len(expected))
        is_filled = expected > 0
        p_value = stats.chisquare(observed[is_filled], expected[is_filled]).pvalue
    else:
        p_value = stats.kstest(rewards, law.cdf).pvalue
    assert p_value > 1e-3


@pytest.mark.parametrize(("likelihood", "mean"), CASES)
def test_sample_never_falls_as_the_uniform_rises(likelihood, mean):
    assert (np.diff(likelihood.sample(mean, _hard_uniforms())) >= 0).all()


@pytest.mark.parametrize(
    ("likelihood", "means"),
    [
        (Bernoulli(), np.linspace(0, 1, 400)),
        (Exponential(), np.geomspace(1e-8, 1e6, 400)),
        (Gaussian(2.0), np.linspace(-10, 10, 400)),
        (Poisson(), np.append(0.0, np.geomspace(1e-8, 1e6, 400))),
    ],
)
def test_sample_never_falls_as_the_mean_rises(likelihood, means):
    rewards = likelihood.sample(means, np.linspace(0, LAST_UNIFORM, 200)[:, None])
    assert (np.diff(rewards, axis=1) >= 0).all()


@pytest.mark.parametrize("uniform", [0.0, 2.0**-53, LAST_UNIFORM])
@pytest.mark.parametrize(("likelihood", "mean"), CASES)
def test_sample_is_within_ten_deviations_at_the_ends(likelihood, mean, uniform):
    reward = likelihood.sample(mean, uniform)
    assert likelihood.is_possible(reward)
    if isinstance(likelihood, Gaussian | Poisson) and mean >= 80:
        assert abs(reward - mean) <= 10 * likelihood.reward_std(mean)


@pytest.mark.parametrize(("likelihood", "mean"), CASES)
def test_sample_of_one_equals_sample_of_many(likelihood, mean, rng):
    means, uniforms = np.full(301, mean), rng.random(301)
    many = likelihood.sample(means, uniforms)
    one_by_one = [likelihood.sample(means[i : i + 1], uniforms[i : i + 1])[0] for i in range(301)]
    assert many.tolist() == one_by_one


@pytest.mark.parametrize(("likelihood", "mean"), CASES)
def test_sample_is_the_same_in_every_memory_layout(likelihood, mean, rng):
    uniforms = rng.random((50, 40))
    by_columns = likelihood.sample(mean, np.asfortranarray(uniforms))
    assert (likelihood.sample(mean, uniforms) == by_columns).all()


@pytest.mark.parametrize("likelihood", ALL_LIKELIHOODS, ids=lambda law: law.name)
def test_sample_broadcasts_to_floats(likelihood):
    rewards = likelihood.sample(np.full((3, 1), 0.5), np.full(4, 0.7))
    assert rewards.shape == (3, 4)
    assert rewards.dtype == np.float64


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_bernoulli_sample_is_sure_at_the_ends(mean):
    assert (Bernoulli().sample(mean, np.array([0.0, 0.5, LAST_UNIFORM])) == mean).all()


def test_poisson_sample_is_zero_at_mean_zero():
    assert (Poisson().sample(0.0, np.array([0.0, 0.5, LAST_UNIFORM])) == 0).all()


def test_poisson_sample_finds_rare_counts_at_a_tiny_mean():
    uniforms = 1 - np.array([2e-8, 0.9e-8, 1e-15])  # P(X > 0) = 1e-8, P(X > 1) = 5e-17
    assert Poisson().sample(1e-8, uniforms).tolist() == [0.0, 1.0, 1.0]


def test_poisson_sample_takes_small_and_large_means_together():
    assert Poisson().sample(np.array([0.0, 1.0, 100.0]), 0.5).tolist() == [0.0, 1.0, 100.0]


def test_poisson_ways_agree_where_both_hold():
    means, uniforms = np.meshgrid(np.linspace(16, 18, 21), _hard_uniforms())
    added = _quantile_by_adding(means, uniforms)
    assert (added == _quantile_by_correcting(means, uniforms)).all()


@pytest.mark.parametrize(("likelihood", "mean"), CASES)
def test_log_likelihood_differs_from_the_exact_one_by_a_constant(likelihood, mean, rng):
    rewards = likelihood.sample(mean, rng.random(20))
    room = min(mean - likelihood.support[0], likelihood.support[1] - mean)
    means = mean + np.array([0.0, 0.3, -0.3]) * min(room, likelihood.reward_std(mean))
    exact = [
        getattr(law, "logpmf" if _is_discrete(likelihood) else "logpdf")(rewards).sum()
        for law in (_law(likelihood, value) for value in means)
    ]
    found = likelihood.log_likelihood(means, 20, rewards.sum())
    rounding = 1e-14 * np.abs([exact, found]).max()
    np.testing.assert_allclose(np.diff(found), np.diff(exact), atol=rounding, rtol=1e-9)


@pytest.mark.parametrize(
    ("likelihood", "mean", "count", "total", "expected"),
    [
        (Bernoulli(), 0.0, 3, 0.0, 0.0),
        (Bernoulli(), 1.0, 3, 3.0, 0.0),
        (Bernoulli(), 0.0, 3, 1.0, -np.inf),
        (Bernoulli(), 1.0, 3, 2.0, -np.inf),
        (Bernoulli(), 0.5, 2, 1.0, 2 * np.log(0.5)),
        (Bernoulli(), -0.1, 0, 0.0, -np.inf),
        (Bernoulli(), 1.1, 0, 0.0, -np.inf),
        (Exponential(), 2.0, 3, 4.0, -3 * np.log(2.0) - 2.0),
        (Exponential(), 5.0, 0, 0.0, 0.0),
        (Exponential(), 0.0, 1, 1.0, -np.inf),
        (Exponential(), -1.0, 0, 0.0, -np.inf),
        (Exponential(), 5e-324, 1, 1e300, -np.inf),
        (Gaussian(2.0), 1.0, 4, 8.0, -0.5),
        (Gaussian(), 7.0, 0, 0.0, 0.0),
        (Gaussian(), 1e200, 1, 0.0, -np.inf),
        (Gaussian(), np.inf, 0, 0.0, -np.inf),
        (Poisson(), 2.0, 3, 4.0, 4 * np.log(2.0) - 6.0),
        (Poisson(), 0.0, 3, 0.0, 0.0),
        (Poisson(), 0.0, 3, 1.0, -np.inf),
        (Poisson(), -1.0, 0, 0.0, -np.inf),
        (Poisson(), np.inf, 0, 0.0, -np.inf),
    ],
)
def test_log_likelihood_by_hand(likelihood, mean, count, total, expected):
    assert likelihood.log_likelihood(mean, count, total) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("likelihood", ALL_LIKELIHOODS, ids=lambda law: law.name)
def test_log_likelihood_is_minus_infinity_at_nan(likelihood):
    assert likelihood.log_likelihood(np.nan, 1, 1.0) == -np.inf


@pytest.mark.parametrize("likelihood", ALL_LIKELIHOODS, ids=lambda law: law.name)
def test_log_likelihood_broadcasts(likelihood):
    counts, sums = np.array([[0], [2]]), np.array([[0.0], [1.0]])
    assert likelihood.log_likelihood(np.full(5, 0.5), counts, sums).shape == (2, 5)


def test_gaussian_log_likelihood_keeps_its_digits_after_a_million_pulls():
    count, total = 10**6, 10.0**6 * 1e6
    at_average, beside = Gaussian().log_likelihood(np.array([1e6, 1e6 + 1e-3]), count, total)
    assert at_average - beside == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize(
    ("likelihood", "inside", "outside"),
    [
        (Bernoulli(), [0.0, 0.5, 1.0], [-1e-9, 1 + 1e-9, np.nan, np.inf]),
        (Exponential(), [1e-300, 1.0, 1e300], [0.0, -1.0, np.inf, np.nan]),
        (Gaussian(), [-1e300, 0.0, 1e300], [np.inf, -np.inf, np.nan]),
        (Poisson(), [0.0, 1.0, 1e300], [-1e-9, np.inf, np.nan]),
    ],
)
def test_contains_separates_the_possible_means(likelihood, inside, outside):
    assert likelihood.contains(np.array(inside)).all()
    assert not likelihood.contains(np.array(outside)).any()


@pytest.mark.parametrize(
    ("likelihood", "possible", "impossible"),
    [
        (Bernoulli(), [0.0, 1.0], [0.5, -1.0, 2.0, np.nan, np.inf]),
        (Exponential(), [0.0, 0.5, 1e300], [-0.5, np.nan, np.inf]),
        (Gaussian(), [-1e300, 0.0], [np.nan, np.inf, -np.inf]),
        (Poisson(), [0.0, 7.0, 1e15], [0.5, -1.0, np.nan, np.inf]),
    ],
)
def test_is_possible_separates_the_rewards(likelihood, possible, impossible):
    assert likelihood.is_possible(np.array(possible)).all()
    assert not likelihood.is_possible(np.array(impossible)).any()


@pytest.mark.parametrize(("likelihood", "mean"), CASES)
def test_reward_std_is_that_of_the_law(likelihood, mean):
    assert likelihood.reward_std(mean) == pytest.approx(_law(likelihood, mean).std(), rel=1e-9)


@pytest.mark.parametrize("likelihood", [*ALL_LIKELIHOODS, Gaussian(0.3)])
def test_dict_makes_an_equal_likelihood(likelihood):
    settings = json.loads(json.dumps(likelihood.to_dict()))
    assert settings == likelihood.to_dict()
    assert likelihood_from_dict(settings) == likelihood


def test_dict_may_leave_out_the_default_std():
    assert likelihood_from_dict({"name": "gaussian"}) == Gaussian(1.0)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ("gaussian", TypeError, "likelihood must be a dict with the key 'name', got 'gaussian'."),
        ({}, ValueError, "likelihood must be a dict with the key 'name', got {}."),
        ({"name": "gausian"}, ValueError, "the nearest known one is 'gaussian'."),
        ({"name": 3}, TypeError, "likelihood name must be one of 'bernoulli', 'exponential',"),
        ({"name": "poisson", "std": 1.0}, ValueError, "must have no keys but 'name', got 'std'"),
        ({"name": "gaussian", "sd": 1}, ValueError, "the nearest known one is 'std'."),
        (
            {"name": "gaussian", "std": 0},
            ValueError,
            "std must be a finite number above 0 and at most 1e+150, got 0.",
        ),
        (
            {"name": "gaussian", "std": "1"},
            TypeError,
            "std must be a finite number above 0 and at most 1e+150, got",
        ),
    ],
)
def test_dict_names_what_is_wrong(settings, error, text):
    with pytest.raises(error, match=re.escape(text)):
        likelihood_from_dict(settings)


def test_likelihoods_compare_by_value():
    assert Gaussian(1) == Gaussian(1.0) != Gaussian(2.0)
    assert hash(Poisson()) == hash(Poisson())
