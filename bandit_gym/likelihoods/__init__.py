"""The law of a reward given its arm's mean: four built-in ones, and the base class of any other."""

from collections.abc import Mapping
from typing import Any

from bandit_gym.checks import make_named
from bandit_gym.likelihoods.base import Likelihood
from bandit_gym.likelihoods.built_in import (
    LIKELIHOODS,
    Bernoulli,
    Exponential,
    Gaussian,
    Poisson,
)


def likelihood_from_dict(settings: Mapping[str, Any]) -> Likelihood:
    """Make the likelihood that a dict such as `{"name": "gaussian", "std": 1.0}` describes.

    Raises:
        TypeError: if a value is of the wrong kind.
        ValueError: if the name or a key is unknown, or a value is out of range.
    """
    return make_named("likelihood", settings, LIKELIHOODS)
