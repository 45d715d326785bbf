"""What every kind of posterior keeps: `agents.posteriors.base.Posterior`, kind by kind.

The truth is a sum over 40,001 points of each arm's own coordinate, with nothing of the kinds in it;
priors are independent across arms, for the Gibbs kind as a normal law with a diagonal covariance.
N lanes have one of a few histories each, so that averages over lanes show the Monte Carlo error.
"""

import pickle
from functools import cache

import numpy as np
import pytest
from geometric import Geometric
from scipy.interpolate import CubicSpline
from scipy.special import expit

from agents.oracle import action_probabilities
from agents.posteriors.choosing import KINDS
from agents.posteriors.particles import ParticlePosterior
from agents.racing.matching import make_proposal
from agents.racing.proposal import NUM_DRAWS
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

CONJUGATE = {
    Bernoulli(): Beta(2.0, 3.0),
    Exponential(): InverseGamma(8.0, 7.0),
    Gaussian(0.5): Normal(0.5, 1.0),
    Poisson(): Gamma(4.0, 4.0),
}
LIKELIHOODS = (*CONJUGATE, Geometric())
BOX = (0.05, 0.95)
NUM_PARTICLES = 100
LEVELS = (0.05, 0.5, 0.9)


def make_problem(kind, likelihood, num_arms):
    """Return a problem that the kind can hold, with independent arms."""
    if kind == "conjugate":
        return BanditProblem(likelihood, CONJUGATE[likelihood], num_arms)
    if kind == "gibbs":
        covariance = np.diag(np.full(num_arms, 0.09))
        prior = TruncatedMultivariateNormal(0.5, covariance.tolist(), *BOX)
        return BanditProblem(likelihood, prior, num_arms)
    return BanditProblem(likelihood, TruncatedNormal(0.5, 0.3, *BOX), num_arms)


def make_posterior(kind, problem):
    """Return a posterior of the kind."""
    if kind == "particles":
        return ParticlePosterior(problem, [NUM_PARTICLES], resampling="systematic", num_moves=3)
    if kind == "race":
        return make_proposal(problem, "matched")
    return KINDS[kind].make(problem, 4)


def make_history(problem, num_histories=4):
    """Return (H, K) pulls and rewards, played with a fixed seed; no arm of H = 0 has any."""
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 30, (num_histories, problem.num_arms))
    counts[0] = 0
    sums = np.zeros(counts.shape)
    for place in np.ndindex(counts.shape):
        rewards = problem.likelihood.sample(np.full(counts[place], 0.4), rng.random(counts[place]))
        sums[place] = rewards.sum()
    return counts, sums


@cache
def follow(kind, likelihood, num_arms, num_lanes):
    """Return problem, posterior, statistics, and which history each of N lanes has."""
    problem = make_problem(kind, likelihood, num_arms)
    counts, sums = make_history(problem)
    which = np.arange(num_lanes) % len(counts) if num_lanes > 1 else np.array([3])
    posterior, rng = make_posterior(kind, problem), np.random.default_rng(5)
    posterior.restart(rng, np.ones(num_lanes, dtype=bool))
    posterior.follow(rng, counts[which], sums[which])
    for _ in range(25 if kind == "gibbs" else 0):  # chains forget where they started
        posterior.sample(rng)
    return problem, posterior, counts, sums, which


@cache
def law(kind, likelihood, num_arms):
    """Return (H, K) means, deviations, and (H, K, M) points and distribution functions."""
    problem, _, counts, sums, _ = follow(kind, likelihood, num_arms, 1)
    if kind == "gibbs":
        problem = BanditProblem(likelihood, TruncatedNormal(0.5, 0.3, *BOX), num_arms)
    x, mass = masses(problem, counts, sums, np.linspace(-35.0, 35.0, 2001))
    felt = np.flatnonzero((mass > 1e-25).any(axis=(1, 2)))
    ends = np.linspace(-35.0, 35.0, 2001)[[max(felt[0] - 1, 0), min(felt[-1] + 1, 2000)]]
    x, mass = masses(problem, counts, sums, np.linspace(*ends, 40_001))
    means = x[:, None, None]
    average = (mass * means).sum(axis=0)
    std = np.sqrt((mass * (means - average) ** 2).sum(axis=0))
    return average, std, x, mass.cumsum(axis=0) - mass / 2


def masses(problem, counts, sums, u):
    """Return (M,) means at equal steps of a coordinate, and (M, H, K) shares of the mass there."""
    low, high = problem.arm_support()[0]
    if np.isfinite(high):
        x, slope = low + (high - low) * expit(u), expit(u) * expit(-u)
    elif np.isfinite(low):
        x, slope = np.exp(u), np.exp(u)
    else:
        x, slope = np.sinh(u), np.cosh(u)
    means = np.repeat(x[:, None], problem.num_arms, axis=1)[:, None]
    with np.errstate(all="ignore"):
        log_density = problem.prior.arm_log_density(means)
        log_density = log_density + problem.likelihood.log_likelihood(means, counts, sums)
    mass = np.exp(log_density - log_density.max(axis=0)) * slope[:, None, None]
    return x, mass / mass.sum(axis=0)


CASES = [
    (kind, likelihood, num_arms)
    for kind in (*KINDS, "particles", "race")
    for likelihood in LIKELIHOODS
    for num_arms in (2, 10)
    if not (isinstance(likelihood, Geometric) and kind in ("conjugate", "gibbs"))
]
every_case = pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case[0]}-{case[1].name}-{case[2]}"
)
exact_cases = pytest.mark.parametrize(
    "case",
    [case for case in CASES if case[0] in ("conjugate", "grid")],
    ids=lambda case: f"{case[0]}-{case[1].name}-{case[2]}",
)
NUM_LANES = 1000
FEWER_LANES = 300
"""Of chains of ten arms, whose sweeps are dearer; errors are those of as many lanes."""

CDF_ERROR = {"conjugate": 1e-6, "grid": 1e-3, "gibbs": 0.0, "particles": 0.0, "race": 0.0}
"""What each kind promises beside its Monte Carlo error, of distribution functions."""


def check_averages(kind, found, truth, which, systematic):
    """Compare (N, K) answers with (H, K) truths, by four standard errors over the lanes."""
    for history in np.unique(which):
        lanes = found[which == history]
        error = 4 * lanes.std(axis=0) / np.sqrt(len(lanes)) if kind in NOISY else 0.0
        assert (np.abs(lanes.mean(axis=0) - truth[history]) <= error + systematic[history]).all()


def rank(values, x, distribution):
    """Return the distribution function at values, by cubics where it is not yet 0 or 1."""
    is_inside = (distribution > 1e-12) & (distribution < 1 - 1e-12)
    return np.clip(CubicSpline(x[is_inside], distribution[is_inside])(values), 0.0, 1.0)


NOISY = ("gibbs", "particles")
BIAS = {
    "conjugate": 0.0,
    "grid": 0.0,
    "gibbs": 0.005,
    "particles": 2 / NUM_PARTICLES,
    "race": 4 / np.sqrt(NUM_DRAWS),
}
"""In deviations. Gibbs: steps of a quarter of a conditional one, by the trapezoidal rule, are off
by 1 / (12 * 16) of its variance. Particles: the bias of weighted averages is of order 1 / P. Race:
four standard errors of so many draws, the same for lanes of the same data."""


def num_drawn(case):
    """Return how many lanes are drawn from."""
    return FEWER_LANES if (case[0], case[2]) == ("gibbs", 10) else NUM_LANES


def num_asked(case):
    """Return how many lanes are asked; a race's answer is of its data alone and takes 3 ms."""
    return 8 if case[0] == "race" else num_drawn(case)


@every_case
def test_means_are_those_of_quadrature(case):
    _, posterior, _, _, which = follow(*case, num_asked(case))
    average, std, *_ = law(*case)
    # |E - E'| <= int |F - F'| dx, over some eight deviations
    systematic = (8 * CDF_ERROR[case[0]] + BIAS[case[0]]) * std + 1e-9
    check_averages(case[0], posterior.mean(), average, which, systematic)


@every_case
def test_deviations_are_those_of_quadrature(case):
    _, posterior, _, _, which = follow(*case, num_asked(case))
    _, std, *_ = law(*case)
    # |V - V'| <= 2 int |x - E| |F - F'| dx, four deviations to either side: 16 variances
    systematic = (8 * CDF_ERROR[case[0]] + 2 * BIAS[case[0]]) * std + 1e-9
    check_averages(case[0], posterior.std(), std, which, systematic)


@every_case
@pytest.mark.parametrize("level", LEVELS)
def test_quantiles_are_those_of_quadrature(case, level):
    _, posterior, _, _, which = follow(*case, num_asked(case))
    _, _, x, distribution = law(*case)
    found = posterior.quantile(level)
    reached = np.empty(found.shape)
    for history, arm in np.ndindex(distribution.shape[1:]):
        lanes = which == history
        reached[lanes, arm] = rank(found[lanes, arm], x, distribution[:, history, arm])
    truth = np.full((which.max() + 1, found.shape[1]), level)
    grain = 1 / NUM_PARTICLES if case[0] == "particles" else 0.0
    systematic = np.full(truth.shape, CDF_ERROR[case[0]] + BIAS[case[0]] / 2 + grain)
    check_averages(case[0], reached, truth, which, systematic)


@every_case
def test_draws_lie_below_the_quantiles_as_often_as_they_say(case):
    _, posterior, _, _, which = follow(*case, num_drawn(case))
    _, _, x, distribution = law(*case)
    posterior, rng = pickle.loads(pickle.dumps(posterior)), np.random.default_rng(11)
    counts, sums = make_history(make_problem(*case))
    posterior.follow(rng, counts[which], sums[which])
    draws = posterior.sample(rng)
    for history in np.unique(which):
        for arm in range(case[2]):
            below = rank(draws[which == history, arm], x, distribution[:, history, arm])
            for level in LEVELS:
                error = 4 * np.sqrt(level * (1 - level) / len(below))
                share = (below < level).mean()
                systematic = CDF_ERROR[case[0]] + BIAS[case[0]]
                assert abs(share - level) <= error + systematic


@every_case
def test_best_arm_probabilities_are_those_of_the_oracle(case):
    problem, posterior, counts, sums, which = follow(*case, num_asked(case))
    if case[0] == "gibbs":
        problem = BanditProblem(case[1], TruncatedNormal(0.5, 0.3, *BOX), case[2])
    truth = action_probabilities(problem, counts, sums)
    found = posterior.best_arm_probabilities()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)
    # each P_i is an integral over K distribution functions
    systematic = np.full(truth.shape, 2 * CDF_ERROR[case[0]] + BIAS[case[0]] / 2)
    check_averages(case[0], found, truth, which, systematic)


@every_case
def test_drawn_best_arms_have_the_law_of_the_best_of_a_sample(case):
    problem, _, counts, sums, _ = follow(*case, 1)
    num_lanes, rng = num_drawn(case), np.random.default_rng(2)
    which = np.arange(num_lanes) % len(counts)
    posteriors = [make_posterior(case[0], problem) for _ in range(2)]
    shares = np.zeros((2, len(counts), case[2]))
    rounds = 4 if case[0] in ("conjugate", "grid") else 1
    for share, posterior, draw in zip(shares, posteriors, ("draw_best", "sample"), strict=True):
        posterior.restart(rng, np.ones(num_lanes, dtype=bool))
        posterior.follow(rng, counts[which], sums[which])
        for _ in range(rounds):
            drawn = getattr(posterior, draw)(rng)
            best = drawn if draw == "draw_best" else drawn.argmax(axis=1)
            np.add.at(share, (which, best), 1)
    size = rounds * num_lanes / len(counts)
    first, second = shares / size
    middle = (first + second) / 2
    error = 4 * np.sqrt(2 * middle * (1 - middle) / size)
    assert (np.abs(first - second) <= error).all()


@exact_cases
def test_one_lane_is_answered_like_many(case):
    _, alone, *_ = follow(*case, 1)
    _, together, _, _, which = follow(*case, NUM_LANES)
    lane = np.flatnonzero(which == 3)[0]
    for ask in ("mean", "std", "best_arm_probabilities"):
        np.testing.assert_allclose(
            getattr(alone, ask)()[0], getattr(together, ask)()[lane], rtol=1e-12, atol=1e-300
        )
    np.testing.assert_allclose(alone.quantile(0.3)[0], together.quantile(0.3)[lane], rtol=1e-12)


@every_case
@pytest.mark.parametrize("num_lanes", [1, 7])
def test_pickled_copy_goes_on_like_the_original(case, num_lanes):
    _, posterior, counts, sums, _ = follow.__wrapped__(*case, num_lanes)  # others share the cached
    which = np.arange(num_lanes) % len(counts)
    answers = []
    for each in (posterior, pickle.loads(pickle.dumps(posterior))):
        rng = np.random.default_rng(9)
        each.follow(rng, counts[which], sums[which])
        answers.append([each.sample(rng), each.draw_best(rng), each.mean(), each.quantile(0.7)])
    for one, other in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, other)


@every_case
def test_asking_changes_no_draw(case):
    problem, _, counts, sums, _ = follow(*case, 1)
    draws = []
    for is_asked in (False, True):
        posterior, rng = make_posterior(case[0], problem), np.random.default_rng(4)
        posterior.restart(rng, np.ones(len(counts), dtype=bool))
        posterior.follow(rng, counts, sums)
        if is_asked:
            posterior.mean(), posterior.std(), posterior.quantile(0.5)
            posterior.best_arm_probabilities()
        draws.append(posterior.sample(rng))
    np.testing.assert_array_equal(*draws)
