"""The families that each contract is tested over."""

from agents import AGENTS
from bandit_gym import ENV_IDS
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

ALL_ENV_IDS = ENV_IDS
ALL_AGENTS = tuple(name for name in AGENTS if name != "optimal")
"""All but the Bayes-optimal agent, which must be told its horizon and leaves nothing to chance."""
ALL_LIKELIHOODS = (Bernoulli(), Exponential(), Gaussian(), Poisson())
ALL_PRIORS = (
    Beta(2.0, 3.0),
    Gamma(2.0, 1.5),
    InverseGamma(3.0, 2.0),
    Normal(0.5, 2.0),
    TruncatedNormal(0.4, 0.2),
    TruncatedMultivariateNormal(0.5, [[1.0, 0.6, 0.2], [0.6, 1.0, 0.3], [0.2, 0.3, 1.0]]),
)
CONJUGATE_PROBLEMS = (
    BanditProblem(Bernoulli(), Beta(5.0, 5.0), 4),
    BanditProblem(Exponential(), InverseGamma(3.0, 2.0), 4),
    BanditProblem(Gaussian(), Normal(0.0, 1.0), 4),
    BanditProblem(Poisson(), Gamma(2.0, 2.0), 4),
)
