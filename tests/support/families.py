"""The families that each contract is tested over; a likelihood has one row here for all."""

from collections.abc import Callable
from inspect import signature
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import agents
from agents import AGENTS
from bandit_gym import ENV_IDS
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Likelihood, Poisson
from bandit_gym.likelihoods.built_in import BUILT_IN
from bandit_gym.priors import (
    Beta,
    Gamma,
    InverseGamma,
    Normal,
    Prior,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem
from bandit_gym.registration import FEATURE_ENV_IDS

ALL_ENV_IDS = tuple(env_id for env_id in ENV_IDS if env_id not in FEATURE_ENV_IDS)
"""Those whose means last an episode, and which can show counts and histories."""
FEATURE_ENVS = tuple(
    ("ContextualBandit-v0", {"contexts": contexts, "likelihood": likelihood})
    for contexts, likelihood in (
        ("normal", "bernoulli"),
        ("fixed", "gaussian"),
        ("disjoint", "poisson"),
        ("hierarchical", "exponential"),
        ("features_drawn:in_turn", "bernoulli"),
    )
)
"""Environments whose arms have features that change: ids and options."""
FOR_FEATURES = "laplace", "lin_ucb"
ALL_AGENTS = tuple(name for name in AGENTS if name not in ("optimal", *FOR_FEATURES))
"""All but those for arms with features alone, and the Bayes-optimal agent, which must be told its
horizon and leaves nothing to chance."""
FACTORIES = {name: attrgetter(target.partition(":")[2])(agents) for name, target in AGENTS.items()}


def names_with(*options):
    """Return the names of the agents that have all these options."""
    taken = {name: signature(factory).parameters for name, factory in FACTORIES.items()}
    return [name for name, parameters in taken.items() if {*options} <= {*parameters}]


class DensityOnly:
    """A prior that says nothing of another one's draws but their density, up to a constant."""

    def __init__(self, prior):
        self.prior = prior

    def sample(self, rng, shape):
        """Return draws of the other prior."""
        return self.prior.sample(rng, shape)

    def log_density(self, means):
        """Return the log-density, and a constant."""
        return self.prior.log_density(means) + 7.0


class OnlyArmDensities:
    """A user's prior: the same one-dimensional law for every arm."""

    def __init__(self, law, support):
        self.law, self.support = law, support

    def sample(self, rng, shape):
        """Return draws of the law."""
        return self.law.rvs(size=shape, random_state=rng)

    def log_density(self, means):
        """Return the sum over the arms."""
        return self.arm_log_density(means).sum(axis=-1)

    def arm_log_density(self, means):
        """Return the log-density of the law."""
        return self.law.logpdf(means)

    def arm_support(self, num_arms):
        """Return the same ends for every arm."""
        return np.tile(self.support, (num_arms, 1))


class Flat(OnlyArmDensities):
    """An improper prior on the line; `sample` can only pretend."""

    def __init__(self):
        super().__init__(stats.norm(), (-np.inf, np.inf))

    def arm_log_density(self, means):
        """Return 0 for every mean."""
        return np.zeros_like(means)


class Conjugate(NamedTuple):
    """A likelihood and a prior that is conjugate to it.

    Attributes:
        likelihood: of rewards.
        prior: of a mean, near the `typical_mean` and with four moments.
        posterior: (n, s) -> SciPy's law of a mean after n rewards of total s.
    """

    likelihood: Likelihood
    prior: Prior
    posterior: Callable[[Any, Any], Any]


def typical_mean(likelihood):
    """Return a mean inside the support: 0.5, or as far above the least one."""
    return max(likelihood.support[0], 0.0) + 0.5


def normal(n, s):
    """Return the posterior of Normal(0.5, 1) after rewards of deviation 0.5."""
    return stats.norm((0.5 + 4 * s) / (1 + 4 * n), (1 + 4 * n) ** -0.5)


CONJUGATES = (
    Conjugate(Bernoulli(), Beta(5.0, 5.0), lambda n, s: stats.beta(5 + s, 5 + n - s)),
    Conjugate(
        Exponential(), InverseGamma(8.0, 4.0), lambda n, s: stats.invgamma(8 + n, scale=4 + s)
    ),
    Conjugate(Gaussian(0.5), Normal(0.5, 1.0), normal),
    Conjugate(Poisson(), Gamma(4.0, 8.0), lambda n, s: stats.gamma(4 + s, scale=1 / (8 + n))),
)
CONJUGATE_PROBLEMS = tuple(BanditProblem(each.likelihood, each.prior, 4) for each in CONJUGATES)
ALL_LIKELIHOODS = tuple(kind() for kind in BUILT_IN)
ALL_PRIORS = (
    *(each.prior for each in CONJUGATES),
    TruncatedNormal(0.4, 0.2),
    TruncatedMultivariateNormal(0.5, [[1.0, 0.6, 0.2], [0.6, 1.0, 0.3], [0.2, 0.3, 1.0]]),
)
