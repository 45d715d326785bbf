"""The families that each contract is tested over; all rows of a likelihood or prior are here."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from itertools import cycle
from math import inf, nan
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from geometric import Geometric
from scipy import stats
from surface import OBSERVATIONS

import agents
from agents import AGENTS
from bandit_gym import ENV_IDS
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Likelihood, Poisson
from bandit_gym.likelihoods.built_in import BUILT_IN
from bandit_gym.priors import (
    Beta,
    Gamma,
    HierarchicalBeta,
    InverseGamma,
    MultivariateNormal,
    Normal,
    Prior,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem, ContextualProblem
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
OBSERVED = tuple(zip(ALL_ENV_IDS, cycle(OBSERVATIONS), strict=False))
"""Ids, and what their environments show in turn."""
FOR_FEATURES = "laplace", "lin_ucb"
ALL_AGENTS = tuple(name for name in AGENTS if name not in ("optimal", *FOR_FEATURES))
"""All but those for arms with features alone, and the Bayes-optimal agent, which must be told its
horizon and leaves nothing to chance."""
QUICKER = {"discounted_gittins": {"discount": 0.9}}
"""Options of agents that take half a second to make by default."""
FACTORIES = {name: attrgetter(target.partition(":")[2])(agents) for name, target in AGENTS.items()}


def names_with(*options):
    """Return the names of the agents that have all these options."""
    taken = {name: signature(factory).parameters for name, factory in FACTORIES.items()}
    return [name for name, parameters in taken.items() if {*options} <= {*parameters}]


def bernoulli(prior, num_arms=2):
    """Return a problem whose rewards are 0 or 1."""
    return BanditProblem(Bernoulli(), prior, num_arms)


class DensityOnly:
    """A prior that says nothing of another one's draws but their density, up to a constant."""

    def __init__(self, prior, constant=7.0):
        self.prior, self.constant = prior, constant

    def sample(self, rng, shape):
        """Return draws of the other prior."""
        return self.prior.sample(rng, shape)

    def log_density(self, means):
        """Return the log-density, and a constant."""
        return self.prior.log_density(means) + self.constant


class Flipped(Beta):
    """A law of a user's own, who has found it handy to begin with ours."""

    def sample(self, rng, shape):
        """Return draws from the other end."""
        return 1 - super().sample(rng, shape)


class JointNormal:
    """A user's normal prior of dependent arms, up to a constant."""

    def __init__(self, mean, covariance):
        self.law = stats.multivariate_normal(mean, covariance)

    def sample(self, rng, shape):
        """Return draws of the law."""
        size = int(np.prod(shape[:-1], dtype=int))
        return self.law.rvs(size, random_state=rng).reshape(shape)

    def log_density(self, means):
        """Return the log-density, and a constant."""
        return self.law.logpdf(means) + 7.0


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


def make_problems(num_arms, num_features=3):
    """Return kind -> a problem, one for each way in which agents hold a posterior."""
    priors = {
        "conjugate": Beta(2.0, 3.0),
        "grid": TruncatedNormal(0.4, 0.2),
        "chains": TruncatedMultivariateNormal(0.5, 0.05 * np.eye(num_arms) + 0.02),
        "mixture": HierarchicalBeta([2.0, 3.0], [3.0, 2.0]),
    }
    problems = {kind: BanditProblem(Bernoulli(), prior, num_arms) for kind, prior in priors.items()}
    covariance = np.array([[1.0, 0.5, 0.0], [0.5, 2.0, 0.3], [0.0, 0.3, 1.0]])
    own = slice(num_features)
    coefficients = MultivariateNormal([0.2, 0.0, -0.1][own], covariance[own, own])
    return problems | {
        "normal": BanditProblem(Gaussian(), Normal(0.0, 1.0), num_arms),
        "linear": ContextualProblem(Gaussian(0.5), coefficients, num_arms, num_features),
        "logistic": ContextualProblem(Bernoulli(), Normal(0.0, 1.0), num_arms, num_features),
    }


PROBLEMS = make_problems(num_arms=4)


class Facts(NamedTuple):
    """What is known of a likelihood from elsewhere.

    Attributes:
        likelihood: of which they are.
        distribution: mean -> SciPy's law of a reward.
        means: at which that law is looked at.
        ends: more that are possible, where rewards may be sure or beyond SciPy.
        means_refused: which are impossible.
        rewards: which are possible at some mean.
        rewards_refused: which are not, nor are NaN and infinity.
        sums_refused: of two rewards, which are not possible either.
        by_hand: mean, count and sum of rewards -> log-likelihood, but for a constant.
    """

    likelihood: Likelihood
    distribution: Callable[[float], Any]
    means: Sequence[float]
    ends: Sequence[float]
    means_refused: Sequence[float]
    rewards: Sequence[float]
    rewards_refused: Sequence[float] = ()
    sums_refused: Sequence[float] = ()
    by_hand: Mapping[tuple[float, int, float], float] = {}


FRACTIONS = {"rewards_refused": (0.5, -1.0), "sums_refused": (0.5, -1.0)}
FACTS = (
    Facts(
        Bernoulli(),
        distribution=stats.bernoulli,
        means=(0.001, 0.3, 0.5, 0.999),
        ends=(0.0, 1.0),
        means_refused=(-1e-9, 1 + 1e-9, nan, inf),
        rewards=(0.0, 1.0),
        rewards_refused=(0.5, -1.0, 2.0),
        sums_refused=(3.0, 0.5, -1.0),
        by_hand={(0, 3, 0): 0.0, (1, 3, 3): 0.0, (0, 3, 1): -inf, (1, 3, 2): -inf},
    ),
    Facts(
        Exponential(),
        distribution=lambda mean: stats.expon(scale=mean),
        means=(1e-8, 0.3, 1e6),
        ends=(1e-300, 1e300),
        means_refused=(0.0, -1.0, inf, nan),
        rewards=(0.0, 0.5, 1e300),
        rewards_refused=(-0.5,),
        sums_refused=(-1.0, inf),
        by_hand={(5.0, 0, 0.0): 0.0, (0.0, 1, 1.0): -inf, (5e-324, 1, 1e300): -inf},
    ),
    *(
        Facts(
            Gaussian(std),
            distribution=lambda mean, std=std: stats.norm(mean, std),
            means=(mean,),
            ends=(-1e300, 0.0, 1e300),
            means_refused=(inf, -inf, nan),
            rewards=(-1e300, 0.0),
            by_hand={(7.0, 0, 0.0): 0.0, (1e200, 1, 0.0): -inf},
        )
        for std, mean in ((1.0, 0.0), (0.01, -5.0), (100.0, 1e6))
    ),
    Facts(
        Poisson(),
        distribution=stats.poisson,
        means=(1e-8, 0.01, 0.7, 4.0, 15.99, 16.0, 80.0, 1e4, 1e6),
        ends=(0.0, 1e300),
        means_refused=(-1e-9, inf, nan),
        rewards=(0.0, 7.0, 1e15),
        by_hand={(0.0, 3, 0.0): 0.0, (0.0, 3, 1.0): -inf},
        **FRACTIONS,
    ),
    Facts(
        Geometric(),
        distribution=lambda mean: stats.geom(1 / (1 + mean), loc=-1),
        means=(1e-4, 0.3, 4.0, 1e4),
        ends=(0.0, 1e-300, 1e300),
        means_refused=(-1e-9, inf, nan),
        rewards=(0.0, 7.0, 1e15),
        **FRACTIONS,
    ),
)
"""Of every built-in likelihood, and of a user's own."""

BETA = {"name": "beta", "alpha": 1, "beta": 2}
CUT = {"name": "truncated_normal", "mean": 0.4, "std": 0.1}
COMPONENTS = {"components": [BETA, CUT], "weights": [0.1, 0.3]}
MIXTURE = {"name": "mixture", **COMPONENTS}
DEPENDENT = {"mean": 0.5, "covariance": [[1, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 1]]}
PARAMETERS = {
    "beta": {"alpha": 1, "beta": 2},
    "gamma": {"shape": 2, "rate": [1, 2, 3]},
    "inverse_gamma": {"shape": 3, "scale": 2},
    "normal": {"mean": [0, 1, 2], "std": 1},
    "normal_inverse_gamma": {"mean": [0, 1, 2], "precision": 2, "shape": 3, "scale": 1},
    "truncated_normal": {"mean": 0.4, "std": 0.1},
    "truncated_multivariate_normal": DEPENDENT,
    "student_t": {"df": 3, "mean": [0, 1, 2], "scale": 1},
    "laplace": {"mean": [0, 1, 2], "scale": 1},
    "multivariate_normal": DEPENDENT,
    "logit_normal": {"mean": [0, 1, 2], "std": 1},
    "mixture": COMPONENTS,
    "camps": COMPONENTS,
    "hierarchical_beta": {"alphas": [2, 3, 1], "betas": [1, 4, 2], "weights": [0.1, 0.3, 0.2]},
    "per_arm": {"arms": [BETA, MIXTURE, CUT]},
    "spike_and_slab": {"spike": 0.3, "width": 0.01, "share": 0.4, "slab": MIXTURE},
}
NAMED = {name: {"name": name, **parameters} for name, parameters in PARAMETERS.items()}


def truncated_normal(mean, std, low, high):
    return stats.truncnorm((low - mean) / std, (high - mean) / std, loc=mean, scale=std)


SCIPY = {
    "beta": lambda alpha, beta: stats.beta(alpha, beta),
    "gamma": lambda shape, rate: stats.gamma(shape, scale=1 / rate),
    "inverse_gamma": lambda shape, scale: stats.invgamma(shape, scale=scale),
    "normal": lambda mean, std: stats.norm(mean, std),
    "normal_inverse_gamma": lambda mean, precision, shape, scale: stats.t(
        2 * shape, mean, np.sqrt(scale / (shape * precision))
    ),
    "truncated_normal": truncated_normal,
}
POSITIVE = {
    "beta": ("alpha", "beta"),
    "gamma": ("shape", "rate"),
    "inverse_gamma": ("shape", "scale"),
    "normal_inverse_gamma": ("precision", "shape", "scale"),
    "hierarchical_beta": ("alphas", "betas", "weights"),
    **dict.fromkeys(("normal", "truncated_normal", "logit_normal"), ("std",)),
    **dict.fromkeys(("mixture", "camps"), ("weights",)),
    "spike_and_slab": ("width", "share"),
}
