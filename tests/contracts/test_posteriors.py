"""What a posterior tells is that of prior times likelihood, whichever way it is held.

The truth is a sum over 40,001 points of each arm's own coordinate, with nothing of the agents in
it. Priors are independent across arms, for chains as a normal law with a diagonal covariance. Each
of a few histories is held in many lanes: averages over them show the Monte Carlo error.
"""

import pickle
from functools import cache

import numpy as np
import pytest
from families import CONJUGATES
from geometric import Geometric
from scipy import stats
from scipy.interpolate import CubicSpline
from scipy.special import expit
from surface import started

import bandit_gym
from agents.base.table_1 import is_compiled
from agents.oracle import action_probabilities
from bandit_gym.checks.doubts import Doubt
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

CONJUGATE = {each.likelihood: each.prior for each in CONJUGATES}
BOX = (0.05, 0.95)
CUT = TruncatedNormal(0.5, 0.3, *BOX)


class DensityOnly:
    """The same prior, which says nothing of its arms."""

    def sample(self, rng, shape):
        return CUT.sample(rng, shape)

    def log_density(self, means):
        return CUT.log_density(means)


NUM_PARTICLES, NUM_DRAWS, NUM_ARMS = 200, 10_000, 3
CHAIN = TruncatedMultivariateNormal(0.5, np.diag(np.full(NUM_ARMS, 0.09)).tolist(), *BOX)
TIED = TruncatedMultivariateNormal(0.5, (np.diag(np.full(NUM_ARMS, 0.09)) + 1e-6).tolist(), *BOX)
ROUTES = {
    "conjugate": ("exact", None, {}, 4),
    "conjugate, by tables": ("exact", None, {"method": "grid"}, 4),
    "tables": ("exact", CUT, {}, 4),
    "chains": ("exact", CHAIN, {}, 200),
    "particles": ("smc_paper", CUT, {"num_particles": NUM_PARTICLES}, 400),
    "moved": ("smc", CUT, {"num_particles": NUM_PARTICLES}, 400),
    "race": ("racing", CUT, {}, 4),
    "race, joint density": ("racing", DensityOnly(), {}, 4),
    "race, weighed": ("racing", TIED, {}, 4),
}
"""Agent, prior (None is the conjugate one), options, lanes."""
NOISY = "chains", "particles", "moved"
CASES = [
    pytest.param((route, likelihood), id=f"{route} - {likelihood.name}")
    for route in ROUTES
    for likelihood in (*CONJUGATE, Geometric())
    if likelihood in CONJUGATE or route in ("tables", "moved", "race")
    if is_compiled(likelihood) or route not in ("chains", "race, weighed")
]
every_case = pytest.mark.parametrize("case", CASES)
LEVELS = (0.05, 0.5, 0.9)
ERROR = {"conjugate": 1e-6} | dict.fromkeys(
    ("conjugate, by tables", "tables", "race", "race, joint density"), 1e-3
)
"""Largest error of a distribution function where nothing is drawn: tables promise 1e-3."""
BIAS = {
    "chains": 4 / 400,
    "particles": 4 / NUM_PARTICLES,
    "moved": 4 / NUM_PARTICLES,
    "race, weighed": 4 / np.sqrt(NUM_DRAWS),
}
"""In deviations. The bias of weighted averages of P particles is of order 1 / P, and so is that of
400 sweeps of a chain. A race's weighted draws: four standard errors."""


def problem_of(case):
    route, likelihood = case
    prior = ROUTES[route][1] or CONJUGATE[likelihood]
    return BanditProblem(likelihood, prior, NUM_ARMS)


@cache
def histories(likelihood):
    """Return (4, K) pulls and rewards, played with a fixed seed; the first has none."""
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 30, (4, NUM_ARMS))
    counts[0] = 0
    sums = np.zeros(counts.shape)
    for place in np.ndindex(counts.shape):
        rewards = likelihood.sample(np.full(counts[place], 0.4), rng.random(counts[place]))
        sums[place] = rewards.sum()
    return counts, sums


@cache
def snapshot_of(case):
    """Return what an agent tells, and which history each of its lanes has."""
    name, _, options, num_lanes = ROUTES[case[0]]
    which = np.arange(num_lanes) % 4
    counts, sums = histories(case[1])
    agent = started(name, problem_of(case), num_lanes, counts[which], sums[which], **options)
    for _ in range(10 if case[0] == "chains" else 1):  # chains forget where they started
        agent.act()
    return agent.posterior(), which


@cache
def law(case):
    """Return (H, K) means and deviations, and (M,) points with (M, H, K) distribution functions."""
    problem = problem_of(case)
    if case[0] not in ("conjugate", "conjugate, by tables"):
        problem = BanditProblem(case[1], CUT, NUM_ARMS)
    u = np.linspace(-35.0, 35.0, 2001)
    _, mass = masses(problem, u)
    felt = np.flatnonzero((mass > 1e-25).any(axis=(1, 2)))
    x, mass = masses(
        problem, np.linspace(u[max(felt[0] - 1, 0)], u[min(felt[-1] + 1, 2000)], 40_001)
    )
    means = x[:, None, None]
    average = (mass * means).sum(axis=0)
    std = np.sqrt((mass * (means - average) ** 2).sum(axis=0))
    return average, std, x, mass.cumsum(axis=0) - mass / 2


def masses(problem, u):
    """Return (M,) means at equal steps of a coordinate, and (M, H, K) shares of the mass there."""
    low, high = problem.arm_support()[0]
    if np.isfinite(high):
        x, slope = low + (high - low) * expit(u), expit(u) * expit(-u)
    elif np.isfinite(low):
        x, slope = np.exp(u), np.exp(u)
    else:
        x, slope = np.sinh(u), np.cosh(u)
    means = np.repeat(x[:, None], NUM_ARMS, axis=1)[:, None]
    with np.errstate(all="ignore"):
        log_density = problem.prior.arm_log_density(means)
        log_density = log_density + problem.likelihood.log_likelihood(
            means, *histories(problem.likelihood)
        )
    mass = np.exp(log_density - log_density.max(axis=0)) * slope[:, None, None]
    return x, mass / mass.sum(axis=0)


def assert_averages(case, found, expected, allowed):
    """Compare (N, K) answers with (H, K) truths, by four standard errors over lanes and more."""
    _, which = snapshot_of(case)
    for history in range(4):
        lanes = found[which == history]
        noise = 4 * lanes.std(axis=0) / np.sqrt(len(lanes)) if case[0] in NOISY else 0.0
        gap = np.abs(lanes.mean(axis=0) - expected[history])
        assert (gap <= noise + np.broadcast_to(allowed, expected.shape)[history]).all()


def rank(case, values, history, arm):
    """Return the distribution function at values, by cubics where it is not yet 0 or 1."""
    _, _, x, below = law(case)
    below = below[:, history, arm]
    is_inside = (below > 1e-12) & (below < 1 - 1e-12)
    return np.clip(CubicSpline(x[is_inside], below[is_inside])(values), 0.0, 1.0)


def error_of(case):
    """Return the errors of distribution functions, and of averages in deviations."""
    return ERROR.get(case[0], 0.0), BIAS.get(case[0], 0.0)


@every_case
def test_moments_quantiles_and_densities_are_those_of_quadrature(case):
    snapshot, which = snapshot_of(case)
    average, std, *_ = law(case)
    error, bias = error_of(case)
    # |E - E'| <= int |F - F'| dx over some eight deviations; of variances, 16 variances
    assert_averages(case, snapshot.mean(), average, (8 * error + bias) * std + 1e-9)
    assert_averages(case, snapshot.std(), std, (8 * error + 2 * bias) * std + 1e-9)
    found = snapshot.quantile(LEVELS)
    np.testing.assert_allclose(snapshot.interval(0.9), snapshot.quantile([0.05, 0.95]))
    grain = 1 / NUM_PARTICLES if case[0] in ("particles", "moved") else 0.0
    for level, values in zip(LEVELS, found, strict=True):
        reached = np.empty(values.shape)
        for history, arm in np.ndindex(4, NUM_ARMS):
            lanes = which == history
            reached[lanes, arm] = rank(case, values[lanes, arm], history, arm)
        assert_averages(case, reached, np.full((4, NUM_ARMS), level), error + bias / 2 + grain)
    assert_densities(case)


LAWS = ("conjugate", "conjugate, by tables", "tables", "race", "race, joint density")
DENSITY_ERROR = {"conjugate": 1e-6}


def assert_densities(case):
    """Where there is a law, on average over what lies between its quantiles 0.2 and 0.8."""
    snapshot, _ = snapshot_of(case)
    if case[0] not in LAWS:
        with pytest.raises(TypeError, match="density must be asked of laws, got .*; use sample"):
            snapshot.density(0.5)
        return
    for history, arm in np.ndindex(4, NUM_ARMS):
        ends = snapshot.quantile([0.2, 0.8])[:, history, arm]
        x = np.linspace(*ends, 2001)
        found = np.trapezoid(snapshot.density(x)[:, history, arm], x)
        expected = np.diff(rank(case, ends, history, arm))[0]
        assert found == pytest.approx(expected, abs=DENSITY_ERROR.get(case[0], 2e-3))


@every_case
def test_best_arms_are_those_of_the_oracle(case):
    snapshot, _ = snapshot_of(case)
    problem = problem_of(case)
    if not problem.offers("arm_log_density"):
        problem = BanditProblem(case[1], CUT, NUM_ARMS)
    found, (error, bias) = snapshot.best_arm_probabilities(), error_of(case)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)
    # each P_i is an integral over K distribution functions
    expected = action_probabilities(problem, *histories(case[1]))
    assert_averages(case, found, expected, NUM_ARMS * error + bias / 2)


NEARLY_SINGULAR = (
    [6, 12, 133, 94, 86, 8322, 27, 1284, 28, 8],
    [3.0, 0.0, 49.0, 34.0, 30.0, 4328.0, 4.0, 674.0, 5.0, 0.0],
)
NEARLY_SINGULAR_LAW = 1e-4 * np.array([0, 0, 6, 4, 7, 3901, 4, 6074, 4, 0])
"""In `DependentPriorBandit-v0`, by the oracle, to 0.002."""


@pytest.mark.parametrize("name", ["racing", "exact", "smc"])
def test_best_arms_are_as_near_to_the_oracle_as_draws_say(name):
    """One heavy draw of 10,000 was off by 0.066, and 400 sweeps of a chain by up to 0.033."""
    problem = bandit_gym.make("DependentPriorBandit-v0", num_arms=10).unwrapped.problem
    agent = started(name, problem, None, *NEARLY_SINGULAR)
    posterior = agent.posterior()
    stated = posterior.best_arm_error()
    assert f"worth {posterior.effective_sample_size():,.0f}: P(best) within" in str(posterior)
    assert 0 < stated <= 0.05 and not posterior.doubts
    for found in (posterior.best_arm_probabilities(), agent.action_probabilities()):
        assert abs(found - NEARLY_SINGULAR_LAW).sum() / 2 <= max(0.01, stated) + 0.002


@pytest.mark.parametrize("name", ["exact", "racing", "smc"])
def test_a_quantile_beyond_what_draws_resolve_is_doubted(name):
    """Fewer than four effective draws of 400 sweeps, 160,000 weighted ones, or 500 particles."""
    agent = started(name, BanditProblem(Bernoulli(), TIED, NUM_ARMS), 2, [9, 4, 2], [5.0, 2.0, 1.0])
    posterior = agent.posterior()
    posterior.interval(0.8)
    assert not posterior.doubts.any()
    posterior.quantile(1 - 1e-6)
    assert (posterior.doubts == Doubt.FEW_EFFECTIVE_SAMPLES).all()


@pytest.mark.parametrize(("pulls", "is_doubted"), [(10, False), (1000, True)])
def test_bayes_ucb_says_that_it_asks_for_more_than_a_chain_resolves(pulls, is_doubted):
    agent = started("bayes_ucb", BanditProblem(Bernoulli(), TIED, 3), 2, [pulls] * 3, [pulls / 2] * 3)
    agent.act()
    doubts = agent.diagnostics()["doubts"]
    assert (doubts == is_doubted * Doubt.FEW_EFFECTIVE_SAMPLES).all()


@every_case
def test_draws_and_rewards_have_the_law_that_they_are_drawn_from(case):
    """Draws lie below quantiles as often as these say; rewards average what the means do."""
    snapshot, which = snapshot_of(case)
    size = 5 if case[0] in NOISY else 1000
    draws, rewards = snapshot.sample(size, seed=1), snapshot.predictive(size, seed=2)
    assert (snapshot.sample(size, seed=1) == draws).all()
    assert (snapshot.sample(size) != draws).any()
    error, bias = error_of(case)
    # five draws of a lane's particles or chain are no five independent ones; lanes are
    worth = (which == 0).sum() if case[0] in NOISY else size
    average, std, *_ = law(case)
    for history, arm in np.ndindex(4, NUM_ARMS):
        own = draws[:, which == history, arm].ravel()
        reached = rank(case, own, history, arm)
        for level in LEVELS:
            noise = 4 * np.sqrt(level * (1 - level) / worth)
            assert abs((reached < level).mean() - level) <= noise + error + bias
        noise = 4 * std[history, arm] / np.sqrt(worth)
        assert abs(own.mean() - average[history, arm]) <= noise * (1 + bias) + 8 * error
        paid = rewards[:, which == history, arm]
        noise = 4 * paid.std() / np.sqrt(worth)
        assert abs(paid.mean() - average[history, arm]) <= noise + (8 * error + bias)


@pytest.mark.parametrize("case", [case for case in CASES if case.values[0][0] not in NOISY])
def test_a_lane_is_answered_as_if_it_were_alone(case):
    """To rounding; particles and chains, whose lanes have other draws, are left out."""
    route, likelihood = case
    together, _ = snapshot_of(case)
    name, _, options, _ = ROUTES[route]
    counts, sums = histories(likelihood)
    alone = started(name, problem_of(case), None, counts[3], sums[3], **options).posterior()
    assert alone.mean().shape == (NUM_ARMS,) and alone.sample(4, seed=0).shape == (4, NUM_ARMS)
    for ask in ("mean", "std", "best_arm_probabilities"):
        one, all_lanes = getattr(alone, ask)(), getattr(together, ask)()
        np.testing.assert_allclose(one, all_lanes[3], rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(alone.quantile(0.3), together.quantile(0.3)[3], rtol=1e-9)


@pytest.mark.parametrize("route", ROUTES)
def test_a_copy_tells_the_same(route):
    for case in (case for (case,) in (each.values for each in CASES) if case[0] == route):
        snapshot, _ = snapshot_of(case)
        copy = pickle.loads(pickle.dumps(snapshot))
        for one, other in zip(answers(snapshot), answers(copy), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9)


def answers(snapshot):
    """Return what every posterior answers."""
    return [
        *(snapshot.mean(), snapshot.std(), snapshot.quantile(0.7)),
        *(snapshot.best_arm_probabilities(), snapshot.sample(2, seed=3)),
    ]


KNOWN = {
    **{each.likelihood.name: each for each in CONJUGATES},
    "bathtub": (Bernoulli(), Beta(0.5, 0.5), lambda n, s: stats.beta(0.5 + s, 0.5 + n - s)),
}


def cut_normal(n, s):
    """Return the posterior of TruncatedNormal(0.4, 0.2) on [0, 1] after rewards of deviation 1."""
    mean, std = (10 + s) / (25 + n), (25 + n) ** -0.5
    return stats.truncnorm((0 - mean) / std, (1 - mean) / std, mean, std)


KNOWN["cut normal"] = (Gaussian(1.0), TruncatedNormal(0.4, 0.2, 0.0, 1.0), cut_normal)


@pytest.mark.parametrize("method", ["auto", "grid"])
@pytest.mark.parametrize("name", KNOWN)
def test_laws_that_are_known_are_told_after_no_data_and_after_a_million(name, method):
    likelihood, prior, law = KNOWN[name]
    data = [(0, 0.0), (1, 1.0), (10, 3.0), (1000, 300.0), (10**6, 6e5)]
    counts, sums = (
        np.array(column)[:, None].repeat(2, axis=1) for column in zip(*data, strict=True)
    )
    problem = BanditProblem(likelihood, prior, 2)
    snapshot = started("exact", problem, 5, counts, sums, method=method).posterior()
    levels = np.array([1e-3, 0.01, 0.05, 0.2, 0.4, 0.5, 0.6, 0.8, 0.95, 0.99, 0.999])
    found = snapshot.quantile(levels)
    for lane, (n, s) in enumerate(data):
        reached = law(n, s).cdf(found[:, lane, 0])
        assert np.abs(reached - levels).max() < 1e-3  # what tables promise
        mean, std = law(n, s).mean(), law(n, s).std()
        assert snapshot.mean()[lane] == pytest.approx([mean] * 2, abs=1e-3 * std)
        assert snapshot.std()[lane] == pytest.approx([std] * 2, rel=5e-3)


REFERENCES = [  # after 5 rewards of total 3: the last column of Table 1
    (BanditProblem(Bernoulli(), Beta(2, 2), 2), stats.beta(4, 3)),
    (BanditProblem(Exponential(), InverseGamma(2, 2), 2), stats.invgamma(6, scale=4)),
    (BanditProblem(Gaussian(2.0), Normal(0, 1), 2), stats.norm(0.6, 2 / np.sqrt(5))),
    (BanditProblem(Poisson(), Gamma(2, 2), 2), stats.gamma(3.5, scale=1 / 5)),
]


@pytest.mark.parametrize(
    ("problem", "law"), REFERENCES, ids=lambda each: getattr(each, "prior", "")
)
def test_reference_posteriors_are_those_of_table_1(problem, law):
    agent = started("exact", problem, None, [5, 5], [3.0, 3.0], prior="reference")
    for level in (0.01, 0.3, 0.9):
        found = agent.posterior().quantile(level)
        np.testing.assert_allclose(found, law.ppf(level), rtol=1e-9)


@pytest.mark.parametrize(
    ("likelihood", "is_proper"),
    [(Bernoulli(), True), (Exponential(), True), (Gaussian(), False), (Poisson(), False)],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_arms_without_a_posterior_come_first(likelihood, is_proper):
    """Of Gaussian and Poisson rewards, whose references are improper."""
    problem = BanditProblem(likelihood, CONJUGATE.get(likelihood, Normal(0.0, 1.0)), 3)
    agent = started("exact", problem, 300, [3, 0, 0], [2.0, 0.0, 0.0], prior="reference")
    posterior = agent.posterior()
    assert np.isinf(posterior.quantile(0.5)[0]).tolist() == [False, not is_proper, not is_proper]
    if not is_proper:
        assert posterior.best_arm_probabilities()[0].tolist() == [0.0, 0.5, 0.5]
        assert set(agent.act().tolist()) == {1, 2}
