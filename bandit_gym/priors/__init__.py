"""Distributions of the (K,) means of the arms: `sample` and `log_density` side by side.

An environment draws from the very object whose density the agents use, so that the two cannot
disagree. A user's prior needs nothing but these two methods; `check_prior` tries it.
"""

from bandit_gym.priors.base import (
    CAPABILITIES,
    PRIORS,
    Prior,
    UnknownPrior,
    describe_prior,
    make_prior,
    prior_from_dict,
)
from bandit_gym.priors.checker import check_prior
from bandit_gym.priors.dependent import MultivariateNormal, TruncatedMultivariateNormal
from bandit_gym.priors.independent import *
from bandit_gym.priors.mixtures import (
    HierarchicalBeta,
    LogitNormal,
    Mixture,
    PerArm,
    SharedMixture,
    spike_and_slab,
)
