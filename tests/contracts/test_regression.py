"""Posteriors of coefficients where features nearly determine each other or a prior is narrow."""

import itertools

import numpy as np
import pytest
from exact_values import exact_moments
from learning import learn
from scipy import stats
from surface import started

from agents.regression.gaussian import GaussianCoefficients
from agents.regression.posterior import CoefficientRace, LaplaceCoefficients
from bandit_gym.doubts import Doubt
from bandit_gym.likelihoods import Bernoulli, Gaussian, Poisson
from bandit_gym.priors import Normal, StudentT
from bandit_gym.problem import ContextualProblem

# -- Nearly singular data --------------------------------------------------------------------------


def make_nearly_singular(name):
    """Return features that nearly determine each other."""
    rng = np.random.default_rng(1)
    times = 1.7e9 + np.cumsum(rng.integers(30, 90, 5))
    groups = np.eye(3)[rng.integers(3, size=30)]
    return {
        "two time stamps": np.stack([times, times + rng.integers(1, 40, 5)], axis=1),
        "seconds and milliseconds": np.stack([times, 1000 * times], axis=1),
        "a constant and its groups": np.column_stack([np.ones(30), groups]),
        "fewer rows than features": rng.normal(size=(3, 5)),
        "one row": rng.normal(size=(1, 2)),
        "rows enough": rng.normal(size=(10, 4)),
    }[name]


NAMES = [
    *("two time stamps", "seconds and milliseconds", "a constant and its groups"),
    *("fewer rows than features", "one row", "rows enough"),
]


@pytest.mark.parametrize("prior_std", [1.0, 3e7, 1e9, 1e12])
@pytest.mark.parametrize("name", NAMES)
def test_normal_posteriors_of_nearly_singular_data_are_right(name, prior_std):
    features, rng = make_nearly_singular(name), np.random.default_rng(2)
    size, rewards = features.shape[1], rng.normal(size=len(features))
    arms = np.concatenate([rng.normal(size=(2, size)), np.eye(size)])
    mean, std = exact_moments(features, rewards, np.ones(len(rewards)), (0.0, prior_std), arms)
    problem = ContextualProblem(Gaussian(1.0), Normal(0.0, prior_std), len(arms), size)
    posterior = learn(GaussianCoefficients(problem), features, rewards, is_asked=True)
    belief = posterior.predict(arms[None])
    np.testing.assert_allclose(belief.std()[0], std, rtol=1e-6)
    np.testing.assert_allclose((belief.mean()[0] - mean) / std, 0.0, atol=1e-6)
    # These columns are proportional: the condition number is 1e12 times the prior's deviation.
    is_flagged = name == "seconds and milliseconds" and prior_std > 1.0
    assert belief.doubts() == [is_flagged * Doubt.ILL_CONDITIONED]
    for kind in (LaplaceCoefficients, CoefficientRace):
        posterior = learn(kind(problem), features, rewards, is_asked=True)
        fit = posterior.fits.fit
        of_coefficients = mean[2:][fit.order], std[2:][fit.order]
        found = np.sqrt(np.square(fit.factor[0]).sum(axis=1))
        np.testing.assert_allclose(found, of_coefficients[1], rtol=1e-6)
        off = (fit.mean[0] - of_coefficients[0]) / of_coefficients[1]
        np.testing.assert_allclose(off, 0.0, atol=1e-6)
        assert (posterior.doubts() != 0) == is_flagged


def test_only_what_rounding_decides_is_flagged():
    rng = np.random.default_rng(3)
    x, rewards = rng.normal(size=(2, 30)), rng.normal(size=30)
    for share, prior_std, is_flagged in (
        *((1e-9, 1e12, False), (1e-11, 1e12, False), (1e-14, 1.0, False)),
        *((1e-14, 1e12, True), (0.0, 1e15, True)),
    ):
        features = np.stack([x[0], x[0] + share * x[1]], axis=1)
        problem = ContextualProblem(Gaussian(0.1), Normal(0.0, prior_std), 2, 2)
        for kind in (GaussianCoefficients, LaplaceCoefficients, CoefficientRace):
            posterior = learn(kind(problem), features, rewards, is_asked=True)
            doubts = posterior.predict(np.eye(2)[None]).doubts()
            assert (doubts & Doubt.ILL_CONDITIONED != 0) == is_flagged, (share, kind)


@pytest.mark.parametrize("name", ["exact", "laplace", "lin_ucb", "racing"])
def test_columns_in_two_units_stop_no_agent(name):
    features = make_nearly_singular("seconds and milliseconds")
    likelihood = Bernoulli() if name in ("laplace", "racing") else Gaussian(1.0)
    agent = started(name, ContextualProblem(likelihood, Normal(0.0, 1.0), 2, 2))
    for x in features:
        arms = np.stack([x, x / 2])
        agent.observe(agent.act(arms), 1.0)
    assert agent.act(features[:2]) in (0, 1)


# -- Priors with narrow modes ----------------------------------------------------------------------


class IndependentPrior:
    """A user's prior of coefficients of which each is a mixture of SciPy's distributions."""

    def __init__(self, *mixtures):
        self.mixtures = mixtures

    def sample(self, rng, shape):
        return np.stack([draw_mixture(rng, mixture, shape[:-1]) for mixture in self.mixtures], -1)

    def log_density(self, theta):
        return self.arm_log_density(theta).sum(axis=-1)

    def arm_log_density(self, theta):
        columns = zip(self.mixtures, np.moveaxis(theta, -1, 0), strict=True)
        terms = [[np.log(w) + part.logpdf(x) for w, part in mixture] for mixture, x in columns]
        return np.stack([np.logaddexp.reduce(each) for each in terms], axis=-1)


def draw_mixture(rng, mixture, shape):
    chosen = rng.choice(len(mixture), size=shape, p=[weight for weight, _ in mixture])
    draws = [part.rvs(size=shape, random_state=rng) for _, part in mixture]
    return np.choose(chosen, draws)


def spike_and_slab(std):
    return [(0.8, stats.norm(0.0, std)), (0.2, stats.norm(0.0, 1.0))]


TWO_MODES = [(0.5, stats.norm(-2.0, 0.1)), (0.5, stats.norm(2.0, 0.1))]
STANDARD = [(1.0, stats.norm(0.0, 1.0))]


def draw_exactly(mixtures, features, rewards, num_draws):
    """Return draws of the coefficients under noise 1: of each choice of components in turn."""
    log_weights, parts = [], []
    for choice in itertools.product(*mixtures):
        mean = np.array([part.mean() for _, part in choice])
        std = np.array([part.std() for _, part in choice])
        covariance = features * std**2 @ features.T + np.eye(len(features))
        gain = np.linalg.solve(covariance, features * std**2).T
        off = rewards - features @ mean
        log_weight = stats.multivariate_normal(np.zeros(len(off)), covariance).logpdf(off)
        log_weights.append(log_weight + np.log([weight for weight, _ in choice]).sum())
        inner = np.linalg.inv(np.diag(std**-2.0) + features.T @ features)
        parts.append((mean + gain @ off, inner))
    weights, rng = np.exp(log_weights - np.max(log_weights)), np.random.default_rng(4)
    counts = rng.multinomial(num_draws, weights / weights.sum())
    pairs = zip(parts, counts, strict=True)
    return np.concatenate([rng.multivariate_normal(*part, size) for part, size in pairs])


def play_arms(problem, features, rewards, arms, num_lanes=10, num_plays=180):
    """Return how often each arm was played, and the posterior."""
    posterior = learn(CoefficientRace(problem), features, rewards, num_lanes, is_asked=True)
    rng = np.random.default_rng(3)
    belief = posterior.predict(np.tile(arms, (num_lanes, 1, 1)))
    played = np.concatenate([belief.draw_best(rng) for _ in range(num_plays)])
    return np.bincount(played, minlength=len(arms)) / played.size, posterior


@pytest.mark.parametrize(
    "mixtures",
    [
        [spike_and_slab(1e-4)],
        [spike_and_slab(1e-4)] * 2,
        [spike_and_slab(3e-4)] * 4,
        [TWO_MODES] * 2,
        [STANDARD, spike_and_slab(1e-4)],
    ],
    ids=["spike", "two spikes", "four spikes", "two modes", "one of its own"],
)
def test_a_users_narrow_modes_are_met(mixtures):
    num_features, rng = len(mixtures), np.random.default_rng(5)
    features = rng.normal(size=(12, num_features))
    rewards = features @ rng.normal(size=num_features) / 2 + rng.normal(size=12)
    arms = rng.normal(size=(4, num_features))
    problem = ContextualProblem(Gaussian(1.0), IndependentPrior(*mixtures), 4, num_features)
    found, posterior = play_arms(problem, features, rewards, arms)
    draws = draw_exactly(mixtures, features, rewards, 100_000)
    best = np.bincount((draws @ arms.T).argmax(axis=1), minlength=4) / len(draws)
    error = np.sqrt(best * (1 - best) * (1 / 1800 + 1 / len(draws)))
    bias = 0.01  # of choosing among draws that are worth 12
    np.testing.assert_array_less(abs(found - best), 4 * error + bias)
    assert not posterior.doubts().any() and posterior.fits.efficiencies.min() > 0.5


def test_the_tails_of_a_users_cauchy_prior_are_met():
    num_features, rng = 8, np.random.default_rng(6)
    features, rewards = rng.normal(size=(8, num_features)), rng.integers(2, size=8).astype(float)
    arms = rng.normal(size=(4, num_features))
    own = IndependentPrior(*[[(1.0, stats.cauchy(0.0, 2.5))]] * num_features)
    played = []
    for prior in (own, StudentT(1.0, 0.0, 2.5)):  # the latter's components are known
        problem = ContextualProblem(Bernoulli(), prior, 4, num_features)
        found, posterior = play_arms(problem, features, rewards, arms)
        played.append(found)
    error, bias = np.sqrt(2 * played[1] * (1 - played[1]) / 1800), 0.02  # twice that above
    np.testing.assert_array_less(abs(played[0] - played[1]), 4 * error + bias)


def test_equal_densities_share_one_fitted_mixture():
    prior = IndependentPrior(spike_and_slab(0.01), TWO_MODES, spike_and_slab(0.01))
    fits = CoefficientRace(ContextualProblem(Poisson(), prior, 2, 3)).fits
    means = fits.components.means
    assert (means[0] == means[2]).all() and abs(means[1]).min() > 1.0
