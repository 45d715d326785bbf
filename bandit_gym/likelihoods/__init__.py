"""The law of a reward given its arm's mean: four built-in ones, and the base class of any other."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from bandit_gym.checks import check_choice, check_has_name, check_keys
from bandit_gym.likelihoods.base import Likelihood
from bandit_gym.likelihoods.built_in import (
    LIKELIHOODS,
    Bernoulli,
    Exponential,
    Gaussian,
    Poisson,
)

__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Exponential",
    "Gaussian",
    "Likelihood",
    "Poisson",
    "likelihood_from_dict",
]


def likelihood_from_dict(settings: Mapping[str, Any]) -> Likelihood:
    """Make the likelihood that a dict such as `{"name": "gaussian", "std": 1.0}` describes.

    Raises:
        TypeError: if a value is of the wrong kind.
        ValueError: if the name or a key is unknown, or a value is out of range.
    """
    check_has_name("likelihood", settings)
    cls = LIKELIHOODS[check_choice("likelihood name", settings["name"], LIKELIHOODS)]
    check_keys("likelihood", settings, required=["name"], optional=list(signature(cls).parameters))
    return cls(**{key: value for key, value in settings.items() if key != "name"})
