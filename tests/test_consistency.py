"""Whether `sample` and `log_density` agree: disagreement is seen, agreement raises no alarm."""

import warnings

import numpy as np
import pytest

from bandit_gym.priors.consistency import find_drift, restrict
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors.mixtures import HierarchicalBeta, LogitNormal, Mixture, spike_and_slab
from bandit_gym.priors import (
    Beta,
    Gamma,
    InverseGamma,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem

NUM_ARMS = 4
CORRELATED = TruncatedMultivariateNormal(0.5, (0.02 * (0.2 * np.eye(4) + 0.8)).tolist())


class Pair:
    """A user's prior that draws from one law and has the density of another."""

    def __init__(self, drawn, believed):
        self.drawn, self.believed = drawn, believed

    def sample(self, rng, shape):
        return self.drawn.sample(rng, shape)

    def log_density(self, means):
        return self.believed.log_density(means) + 3.0  # known up to a constant


class Flat:
    """The improper density 1 on the whole line, and draws that cannot be its."""

    def sample(self, rng, shape):
        return rng.normal(size=shape)

    def log_density(self, means):
        return np.zeros(means.shape[:-1])


class Boundless(Flat):
    """Draws from [0, 1] whose density does not say that it ends there."""

    def sample(self, rng, shape):
        return rng.random(shape)


@pytest.mark.parametrize(
    ("likelihood", "prior"),
    [
        (Bernoulli(), Pair(TruncatedNormal(0.5, 0.1), TruncatedNormal(0.5, 0.15))),
        (Bernoulli(), Pair(Beta(2.0, 3.0), Beta(3.0, 2.0))),
        (Bernoulli(), Pair(CORRELATED, TruncatedNormal(0.5, 0.02**0.5))),
        (Exponential(), Pair(InverseGamma(3.0, 2.0), Gamma(3.0, 2.0))),  # a forgotten Jacobian
        (Poisson(), Pair(Gamma(2.0, 3.0), Gamma(2.0, 1 / 3.0))),  # rate for scale
        (Gaussian(), Flat()),
        (Gaussian(), Boundless()),
    ],
    ids=["width", "swapped", "correlation", "jacobian", "rate", "improper", "unbounded"],
)
def test_problem_warns_of_a_density_that_is_not_that_of_the_draws(likelihood, prior):
    with pytest.warns(UserWarning, match="must describe the same law, got ones that do not: over"):
        BanditProblem(likelihood, prior, NUM_ARMS)


@pytest.mark.parametrize(
    ("likelihood", "prior"),
    [
        (Bernoulli(), Pair(Beta(0.1, 0.1), Beta(0.1, 0.1))),  # piled up at both edges
        (Bernoulli(), Mixture([Beta(2.0, 8.0), Beta(8.0, 2.0)], [4.0, 1.0])),
        (Bernoulli(), spike_and_slab(0.3, 0.001, Beta(1.0, 1.0), 0.8)),
        (Bernoulli(), LogitNormal(-0.5, 0.8)),
        (Bernoulli(), HierarchicalBeta([2.0, 18.0], [18.0, 2.0])),
        (Bernoulli(), Pair(CORRELATED, CORRELATED)),
        (Exponential(), Pair(InverseGamma(1.1, 1.0), InverseGamma(1.1, 1.0))),  # no variance
        (Gaussian(), Pair(Normal(0.0, 1e-6), Normal(0.0, 1e-6))),
    ],
    ids=["edges", "mixture", "spike", "logit", "levels", "correlated", "tails", "narrow"],
)
def test_problem_does_not_warn_of_a_prior_that_agrees_with_itself(likelihood, prior):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BanditProblem(likelihood, prior, NUM_ARMS)


def test_warning_points_at_the_line_that_made_the_problem():
    with pytest.warns(UserWarning) as caught:
        BanditProblem(Gaussian(), Flat(), NUM_ARMS)
    assert caught[0].filename == __file__


def test_warning_is_the_same_each_time():
    texts = []
    for _ in range(2):
        with pytest.warns(UserWarning) as caught:
            BanditProblem(Gaussian(), Flat(), NUM_ARMS)
        texts.append(str(caught[0].message))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("prior", [InverseGamma(1.1, 1.0), Normal(0.0, 1.0)], ids=["tails", "thin"])
def test_drift_by_chance_is_no_more_likely_than_its_level(prior, rng):
    """At a level of 0.05; the bound is an inequality, so that the share may be far below."""
    num_trials, level = 200, 0.05
    found = 0
    for _ in range(num_trials):
        pilot, draws = prior.sample(rng, (100, 3)), prior.sample(rng, (100, 3))
        found += find_drift(pilot, draws, prior.log_density, level=level) is not None
    assert found / num_trials <= level + 4 * np.sqrt(level * (1 - level) / num_trials)


def test_restricted_density_is_not_asked_outside():
    asked = []
    density = restrict(lambda means: asked.append(means) or means.sum(axis=1), lambda x: x > 0)
    values = density(np.array([[1.0, 2.0], [1.0, -2.0], [3.0, 4.0]]))
    assert values.tolist() == [3.0, -np.inf, 7.0]
    assert asked[0].tolist() == [[1.0, 2.0], [3.0, 4.0]]
