"""Laws of the (K,) means of the arms: `sample` and `log_density` side by side.

An environment draws from the very object whose density the agents use, so that the two cannot
disagree. A prior of one's own needs nothing but these two methods.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Protocol, runtime_checkable

from numpy.random import Generator

from bandit_gym.checks import check_choice, check_has_name, check_keys
from bandit_gym.priors.dependent import TruncatedMultivariateNormal
from bandit_gym.priors.independent import (
    Beta,
    Gamma,
    IndependentPrior,
    InverseGamma,
    Normal,
    TruncatedNormal,
)
from bandit_gym.typing import FloatArray

__all__ = [
    "PRIORS",
    "Beta",
    "BuiltInPrior",
    "Gamma",
    "IndependentPrior",
    "InverseGamma",
    "Normal",
    "Prior",
    "TruncatedMultivariateNormal",
    "TruncatedNormal",
    "prior_from_dict",
]

BuiltInPrior = Beta | Gamma | InverseGamma | Normal | TruncatedNormal | TruncatedMultivariateNormal


@runtime_checkable
class Prior(Protocol):
    """A law of the arms' means."""

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means from `rng` alone.

        Args:
            rng: the only source of randomness.
            shape: shape of the result; its last axis is the K arms, the others are draws.
        """

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the log-density of the means, up to a constant; -inf outside the support.

        Args:
            means: (..., K) means.

        Returns:
            (...) log-densities.
        """


PRIORS: dict[str, type[BuiltInPrior]] = {
    prior.name: prior
    for prior in (Beta, Gamma, InverseGamma, Normal, TruncatedNormal, TruncatedMultivariateNormal)
}


def prior_from_dict(settings: Mapping[str, Any]) -> BuiltInPrior:
    """Make the prior that a dict such as `{"name": "beta", "alpha": 1, "beta": 1}` describes.

    Raises:
        TypeError: if a value is of the wrong kind.
        ValueError: if the name or a key is unknown, a key is missing, or a value is out of range.
    """
    check_has_name("prior", settings)
    cls = PRIORS[check_choice("prior name", settings["name"], PRIORS)]
    required = [field.name for field in fields(cls) if field.default is MISSING]
    optional = [field.name for field in fields(cls) if field.default is not MISSING]
    check_keys("prior", settings, required=["name", *required], optional=optional)
    return cls(**{key: value for key, value in settings.items() if key != "name"})
