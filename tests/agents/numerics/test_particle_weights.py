"""Weights of particles in compiled loops: against NumPy, against exact sums, and at the edges."""

import math

import numpy as np
import pytest

from agents.numerics import particle_weights as kernels
from agents.numerics.laws import BETA, GAMMA, INVERSE_GAMMA, NORMAL
from agents.numerics.particle_weights import MOST_PRODUCTS, Populations, Rewards, make_weights
from agents.posteriors.resampling import accumulate, effective_sample_size, normalise
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson

LIKELIHOODS = {
    BETA: (Bernoulli(), [0.0, 1.0]),
    INVERSE_GAMMA: (Exponential(), [0.0, 2.5]),
    NORMAL: (Gaussian(0.5), [-3.0, 0.25]),
    GAMMA: (Poisson(), [0.0, 7.0]),
}
EDGES = [0.0, 1.0, 1e-300, 1 - 2.0**-53, 0.3]
FARTHER_EDGES = [1e8, np.inf]


def weights_of(logs):
    weights = make_weights(*np.shape(logs))
    weights.logs[:] = logs
    return weights


def everywhere(weights, num_particles=None):
    num_lanes, num_groups, size = weights.logs.shape
    lanes, groups = np.indices((num_lanes, num_groups)).reshape(2, -1)
    return Populations(lanes, groups, np.full(lanes.size, num_particles or size))


@pytest.mark.parametrize("family", LIKELIHOODS)
@pytest.mark.parametrize("which", [0, 1])
def test_rewards_are_weighed_by_the_likelihood_itself(family, which, rng):
    likelihood, rewards = LIKELIHOODS[family]
    edges = EDGES if family == BETA else EDGES + FARTHER_EDGES
    means = np.append(edges, rng.random(200))[None, None, None]
    weights = weights_of(np.zeros(means.shape[:2] + means.shape[3:]))
    values = np.array([rewards[which]])
    news = Rewards(family, 0.5, means, np.array([0]), values)
    kernels.learn_rewards(weights, news, everywhere(weights))
    expected = likelihood.log_likelihood(means[0, 0, 0], 1, values)
    np.testing.assert_allclose(weights.logs[0, 0], expected, rtol=1e-14, atol=2e-15)


def test_sums_of_weights_are_exact_to_the_twelfth_digit(rng):
    """Log-weights over 60 units and far from 0; the sums are those of `math.fsum`."""
    logs = 1e5 + rng.normal(0, 15, size=(1, 1, 20_000))
    weights = weights_of(logs)
    kernels.weigh(weights, everywhere(weights))
    raw = [math.exp(x - logs.max()) for x in logs[0, 0]]
    total = math.fsum(raw)
    # The logarithm itself is a number near 1e5, which has ten digits after the point.
    assert weights.log_means[0, 0] - logs.max() == pytest.approx(
        math.log(total / len(raw)), abs=np.spacing(1e5)
    )
    size = total**2 / math.fsum(x * x for x in raw)
    assert weights.effective_sizes[0, 0] == pytest.approx(size, rel=1e-12)
    for place in (10, 5000, 19_000):
        share = math.fsum(raw[: place + 1]) / total
        assert weights.cumulative[0, 0, place] == pytest.approx(share, rel=1e-12)


def test_log_mean_near_zero_is_exact_to_the_twelfth_digit(rng):
    logs = rng.normal(0, 2, size=(1, 1, 3000))
    weights = weights_of(logs)
    kernels.weigh(weights, everywhere(weights))
    exact = math.log(math.fsum(map(math.exp, logs[0, 0])) / 3000)
    assert weights.log_means[0, 0] == pytest.approx(exact, abs=1e-12)


def test_weights_are_those_of_numpy(rng):
    logs = rng.normal(-1e4, 300, size=(7, 3, 50))
    logs[0, 0, ::2], logs[1, 1] = -np.inf, -np.inf
    weights = weights_of(logs)
    kernels.weigh(weights, everywhere(weights))
    shares, log_totals = normalise(logs)
    np.testing.assert_allclose(weights.cumulative, accumulate(shares), rtol=1e-12)
    np.testing.assert_allclose(weights.effective_sizes, effective_sample_size(shares), rtol=1e-12)
    np.testing.assert_allclose(weights.log_means, log_totals - math.log(50), rtol=1e-14)
    assert weights.log_means[1, 1] == -np.inf


def test_only_the_particles_that_take_part_have_weight():
    weights = weights_of(np.log([[[1.0, 3.0, 100.0]]]))
    kernels.weigh(weights, everywhere(weights, num_particles=2))
    assert weights.cumulative[0, 0].tolist() == pytest.approx([0.25, 1.0, 1.0])
    assert weights.log_means[0, 0] == pytest.approx(math.log(2.0))


def test_only_the_populations_named_are_touched():
    weights = weights_of(np.zeros((3, 2, 4)))
    for values in weights[1:]:
        values[:] = -7.0
    kernels.weigh(weights, Populations(np.array([1]), np.array([0]), np.array([4])))
    assert np.argwhere(weights.log_means != -7.0).tolist() == [[1, 0]]


def test_a_particle_is_picked_where_a_linear_scan_finds_it(rng):
    shares = rng.dirichlet(np.ones(9), size=2000)[:, None]
    shares[..., [0, 4, 8]] = 0.0
    cumulative, places = accumulate(shares), rng.random((2000, 1))
    places[:2] = [[0.0], [1 - 2.0**-53]]
    means, draw = rng.random((2000, 1, 3, 9)), np.empty((2000, 1, 3))
    kernels.pick(cumulative, means, places, draw)
    chosen = (cumulative[:, 0] > places).argmax(axis=1)
    assert (draw[:, 0] == means[np.arange(2000), 0, :, chosen]).all()
    assert not np.isin(chosen, [0, 4, 8]).any()


def play(weights, means, rewards):
    """Learn rewards of one population's single mean, and return sizes and log-means on the way."""
    found = []
    for reward in rewards:
        news = Rewards(BETA, 1.0, means[None, None, None], np.zeros(1, int), np.array([reward]))
        kernels.learn_rewards(weights, news, everywhere(weights))
        found.append((weights.effective_sizes[0, 0], weights.log_means[0, 0]))
    return np.array(found)


@pytest.mark.parametrize("low", [1e-3, 1e-12])
def test_multiplied_shares_are_those_of_logarithms_to_the_twelfth_digit(low, rng):
    """First failures, then successes: particles come back that were nothing, e^-1000 and less."""
    means = np.append(10 ** rng.uniform(np.log10(low), 0, 300), [0.0, 1.0, 1 - 1e-12])
    rewards = np.repeat([0.0, 1.0, 0.0], [150, 400, 3])
    kept, fresh = weights_of(np.zeros((1, 1, 303))), weights_of(np.zeros((1, 1, 303)))
    found = play(kept, means, rewards)
    for reward, (size, log_mean) in zip(rewards, found, strict=True):
        fresh.ages[:] = MOST_PRODUCTS
        assert play(fresh, means, [reward])[0] == pytest.approx([size, log_mean], rel=1e-12)
    np.testing.assert_allclose(kept.cumulative, fresh.cumulative, rtol=1e-12, atol=1e-12)


def test_shares_that_become_small_are_found_anew(rng):
    """Of a mean of 1e-30 five successes leave 1e-150 of all that there was."""
    weights, means = weights_of(np.zeros((1, 1, 2))), np.array([1e-30, 5e-31])
    play(weights, means, [1.0] * 5)
    assert weights.ages[0, 0] == 0
    assert weights.cumulative[0, 0, 0] == pytest.approx(32 / 33, rel=1e-14)
