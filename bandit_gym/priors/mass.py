"""Whether a normal law that is cut to an interval is left any mass there."""

import numpy as np

from bandit_gym.checks import message
from bandit_gym.numerics.truncated_normal import rounding_error
from bandit_gym.typing import Parameter

_LARGEST_ROUNDING_ERROR = 1e-6


def check_mass(mean: Parameter, std: Parameter, low: Parameter, high: Parameter) -> None:
    """Refuse intervals that are empty, or whose mass under Normal(mean, std) rounding loses."""
    if not np.less(low, high).all():
        raise ValueError(message("low", f"be below high ({high!r})", low))
    m, s = np.asarray(mean), np.asarray(std)
    error = rounding_error((np.asarray(low) - m) / s, (np.asarray(high) - m) / s)
    if not (error < _LARGEST_ROUNDING_ERROR).all():
        condition = "leave the interval from low to high a mass that floating point can represent"
        settings = {"mean": mean, "std": std, "low": low, "high": high}
        raise ValueError(message("mean and std", condition, settings))
