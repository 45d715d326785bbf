"""What every likelihood promises, the built-in ones and one of a user's own."""

import json
import pickle
from math import exp, inf, nan

import numpy as np
import pytest
from families import ALL_LIKELIHOODS, FACTS

from bandit_gym.envs.rendering import compute_intervals, mark_centres
from bandit_gym.likelihoods import (
    LINKS,
    Bernoulli,
    Exponential,
    Gaussian,
    Likelihood,
    Poisson,
    likelihood_from_dict,
)
from bandit_gym.priors import NormalInverseGamma

LAST_UNIFORM = 1 - 2.0**-53
HALF_CHI_SQUARED_95 = 0.5 * 3.841458820694124

every_likelihood = pytest.mark.parametrize("facts", FACTS, ids=lambda each: repr(each.likelihood))


class Scaled(Likelihood):
    """No dataclass, and a parameter: Gaussian rewards, of which everything is derived."""

    name, support = "scaled", (-inf, inf)

    def __init__(self, std):
        self.std = std

    def is_possible(self, rewards):
        return np.isfinite(rewards)

    def log_likelihood(self, means, counts, sums):
        return Gaussian(self.std).log_likelihood(means, counts, sums)

    def sample(self, means, uniforms):
        return Gaussian(self.std).sample(means, uniforms)


def is_discrete(distribution):
    return hasattr(distribution, "pmf")


def hard_uniforms():
    """Return uniforms in the middle and in both tails, down to the smallest that are drawn."""
    middle = np.random.default_rng(0).random(2000)
    tail = 2.0 ** -np.arange(2, 54)
    return np.sort(np.concatenate([middle, tail, 1 - tail]))


def test_half_a_gaussian_reward_has_half_its_log_likelihood():
    """Both once took its average for that of a whole one."""
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        LINKS[Gaussian].log_likelihood(x, 0.5, 1.0, 1.0), -((x - 2) ** 2) / 4
    )
    given = NormalInverseGamma(0.0, 1.0, 3.0, 2.0).log_likelihood(x, 0.5, 1.0, 0.0)
    b, c = 2.0 + x**2 / 2, 0.25 * (x - 2.0) ** 2
    np.testing.assert_allclose(given, -3.75 * np.log1p(c / b) - 0.25 * np.log(b))


@every_likelihood
def test_sample_is_the_inverse_cdf(facts):
    uniforms = hard_uniforms()
    for mean in facts.means:
        distribution = facts.distribution(mean)
        rewards = facts.likelihood.sample(mean, uniforms)
        if is_discrete(distribution):  # the first count whose distribution exceeds the uniform
            assert (distribution.cdf(rewards - 1) <= uniforms + 1e-12).all(), mean
            assert (distribution.sf(rewards) <= (1 - uniforms) * (1 + 1e-8)).all(), mean
            is_low = uniforms < 0.5
            assert (distribution.cdf(rewards)[is_low] >= uniforms[is_low] - 1e-12).all(), mean
        else:
            np.testing.assert_allclose(distribution.cdf(rewards), uniforms, rtol=1e-10)
            np.testing.assert_allclose(distribution.sf(rewards), 1 - uniforms, rtol=1e-10)
        assert (np.diff(rewards) >= 0).all(), mean


@every_likelihood
def test_sample_never_falls_as_the_mean_rises(facts):
    low, high = facts.likelihood.support
    means = np.linspace(low, high, 400) if high <= 1 else np.geomspace(1e-8, 1e6, 400)
    means = np.unique([*means, *facts.means, *(-means if low < 0 else ())])
    rewards = facts.likelihood.sample(means, np.linspace(0, LAST_UNIFORM, 200)[:, None])
    assert (np.diff(rewards, axis=1) >= 0).all()


@every_likelihood
def test_sample_is_possible_and_no_outlier_at_the_ends(facts):
    uniforms = np.array([0.0, 2.0**-53, *hard_uniforms(), LAST_UNIFORM])
    for mean in facts.means:
        rewards = facts.likelihood.sample(mean, uniforms)
        assert facts.likelihood.is_possible(rewards).all(), mean
        if isinstance(facts.likelihood, Gaussian | Poisson) and mean >= 80:
            assert (abs(rewards - mean) <= 10 * facts.likelihood.reward_std(mean)).all(), mean


def test_sample_and_deviation_are_sure_at_an_end_of_the_support():
    for likelihood, mean in ((Bernoulli(), 0.0), (Bernoulli(), 1.0), (Poisson(), 0.0)):
        rewards = likelihood.sample(mean, np.array([0.0, 0.5, LAST_UNIFORM]))
        assert (rewards == mean).all(), likelihood
        assert Likelihood.reward_std(likelihood, mean) == 0.0, likelihood


@every_likelihood
def test_sample_of_one_equals_sample_of_many_in_every_memory_layout(facts, rng):
    for mean in facts.means:
        uniforms, sample = rng.random((30, 10)), facts.likelihood.sample
        many = sample(np.full((30, 10), mean), uniforms)
        assert (many == sample(mean, np.asfortranarray(uniforms))).all()
        one_by_one = [sample([mean], [uniform])[0] for uniform in uniforms.ravel()]
        assert many.ravel().tolist() == one_by_one and many.dtype == np.float64


@every_likelihood
def test_means_counts_and_sums_broadcast(facts):
    likelihood = facts.likelihood
    counts, sums = np.array([[0], [2]]), np.array([[0.0], [1.0]])
    assert likelihood.log_likelihood(np.full(5, 0.5), counts, sums).shape == (2, 5)
    assert likelihood.sample(np.full((3, 1), 0.5), np.full(4, 0.7)).shape == (3, 4)
    mixed = likelihood.sample(np.array([0.25, 0.5, 0.75]), 0.5)
    assert mixed.tolist() == [likelihood.sample(mean, 0.5) for mean in (0.25, 0.5, 0.75)]


@every_likelihood
def test_log_likelihood_of_count_and_sum_is_the_exact_one_up_to_a_constant(facts, rng):
    """So that count and sum are all there is to remember of twenty rewards."""
    for mean in facts.means:
        rewards = facts.likelihood.sample(mean, rng.random(20))
        low, high = facts.likelihood.support
        step = 0.3 * min(mean - low, high - mean, facts.distribution(mean).std())
        means = mean + np.array([0.0, step, -step])
        distributions = map(facts.distribution, means)
        log_of = "logpmf" if is_discrete(facts.distribution(mean)) else "logpdf"
        exact = [getattr(distribution, log_of)(rewards).sum() for distribution in distributions]
        found = facts.likelihood.log_likelihood(means, 20, rewards.sum())
        rounding = 1e-14 * np.abs([exact, found]).max()
        np.testing.assert_allclose(np.diff(found), np.diff(exact), atol=rounding, rtol=1e-9)


@every_likelihood
def test_log_likelihood_by_hand(facts):
    impossible = {(mean, count, 0.0): -inf for mean in facts.means_refused for count in (0, 1)}
    by_hand = {**facts.by_hand, **impossible}
    found = [facts.likelihood.log_likelihood(*told) for told in by_hand]
    assert found == pytest.approx([*by_hand.values()], rel=1e-15)


def test_gaussian_log_likelihood_keeps_its_digits_after_a_million_pulls():
    count, total = 10**6, 10.0**6 * 1e6
    at_average, beside = Gaussian().log_likelihood(np.array([1e6, 1e6 + 1e-3]), count, total)
    assert at_average - beside == pytest.approx(0.5, rel=1e-4)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("likelihood", "count", "total", "expected"),
    [
        (Bernoulli(), 10, 0.0, (0.0, 1 - exp(-HALF_CHI_SQUARED_95 / 10))),
        (Bernoulli(), 10, 10.0, (exp(-HALF_CHI_SQUARED_95 / 10), 1.0)),
        (Poisson(), 5, 0.0, (0.0, HALF_CHI_SQUARED_95 / 5)),
        (Exponential(), 2, 0.0, (0.0, 0.0)),  # whose log-likelihood has no largest value
        (Gaussian(2.0), 4, -2.0, (-0.5 - 1.959964, -0.5 + 1.959964)),
    ],
    ids=repr,
)
def test_cells_of_an_interval_by_hand(likelihood, count, total, expected):
    counts, sums = np.array([count, 0]), np.array([total, 0.0])
    averages, cells = np.array([total / count, np.nan]), (-4.0, 4.0)
    bars = compute_intervals(likelihood, counts, sums, cells)
    heights, unseen = mark_centres(bars, averages, cells)
    edges = np.linspace(-4.0, 4.0, len(heights) + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    is_expected = (middles >= expected[0]) & (middles <= expected[1])
    is_expected[int((total / count + 4.0) / 8.0 * len(heights))] = True  # the average's own
    np.testing.assert_array_equal(heights > 0, is_expected)
    assert not unseen.any()


@every_likelihood
def test_what_is_possible_is_told_from_what_is_not(facts):
    likelihood = facts.likelihood
    assert likelihood.contains(np.array([*facts.means, *facts.ends])).all()
    assert not likelihood.contains(np.array(facts.means_refused)).any()
    assert likelihood.is_possible(np.array(facts.rewards)).all()
    assert not likelihood.is_possible(np.array([*facts.rewards_refused, nan, inf, -inf])).any()
    for kind in (type(likelihood), Likelihood):  # its own, and what a subclass gets
        assert kind.is_possible_sum(likelihood, 2, np.add.outer(facts.rewards, facts.rewards)).all()
        assert not kind.is_possible_sum(likelihood, 2, np.array([*facts.sums_refused, nan])).any()
        assert kind.is_possible_sum(likelihood, 0, [0.0, 1.0]).tolist() == [True, False]


@every_likelihood
def test_reward_std_is_that_of_the_distribution_also_as_a_subclass_gets_it(facts):
    for mean in facts.means:
        expected = facts.distribution(mean).std()
        assert facts.likelihood.reward_std(mean) == pytest.approx(expected, rel=1e-7)
        assert Likelihood.reward_std(facts.likelihood, mean) == pytest.approx(expected, rel=1e-7)


def test_dict_makes_an_equal_likelihood_and_may_leave_out_the_default():
    for likelihood in ALL_LIKELIHOODS:
        settings = json.loads(json.dumps(likelihood.to_dict()))
        assert settings == likelihood.to_dict() and likelihood_from_dict(settings) == likelihood
    assert Scaled(2.0).to_dict() == {"name": "scaled", "std": 2.0}
    assert repr(Scaled(2.0)) == "Scaled(std=2.0)"
    assert likelihood_from_dict({"name": "gaussian"}) == Gaussian(1.0)


def test_pickle_makes_an_equal_likelihood_and_parameters_or_class_another_one():
    for likelihood in (*(facts.likelihood for facts in FACTS), Scaled(2.0)):
        copy = pickle.loads(pickle.dumps(likelihood))
        assert copy == likelihood and hash(copy) == hash(likelihood)
        assert all(copy != other for other in (Scaled(1.0), Gaussian(2.0)))
