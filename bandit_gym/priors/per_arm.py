"""A law of its own for each arm: priors that do not know the same of all arms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from bandit_gym.checks import message
from bandit_gym.priors.independent import IndependentPrior
from bandit_gym.priors.mixtures import check_laws, describe_laws
from bandit_gym.typing import FloatArray


@dataclass(frozen=True)
class PerArm:
    """Each arm's mean has a law of its own, and knows nothing of the others.

    Args:
        laws: K of them, each for a single arm.
    """

    laws: Sequence[IndependentPrior]

    name: ClassVar[str] = "per_arm"

    def __post_init__(self) -> None:
        object.__setattr__(self, "laws", check_laws("laws", self.laws))
        for law in self.laws:
            if getattr(law, "num_arms", None) not in (None, 1):
                condition = "be laws of a single arm, with one number for each parameter"
                raise ValueError(message("laws", condition, law))

    @property
    def num_arms(self) -> int:
        """K, the number of laws."""
        return len(self.laws)

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest mean over all arms."""
        low, high = self.arm_support(self.num_arms).T
        return float(low.min()), float(high.max())

    def arm_support(self, num_arms: int) -> FloatArray:
        """Return the (K, 2) lowest and highest mean of each arm."""
        self._check_number(num_arms)
        return np.concatenate([np.asarray(law.arm_support(1)) for law in self.laws])

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, whose last axis is the K arms."""
        self._check_number(shape[-1])
        draws = [law.sample(rng, (*shape[:-1], 1)) for law in self.laws]
        return np.concatenate(draws, axis=-1)

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the (..., K) log-densities of each arm."""
        x = np.asarray(means, dtype=np.float64)
        self._check_number(x.shape[-1])
        parts = [law.arm_log_density(x[..., i : i + 1]) for i, law in enumerate(self.laws)]
        return np.concatenate(parts, axis=-1)

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (...) log-density of (..., K) means."""
        return np.asarray(self.arm_log_density(means).sum(axis=-1))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-able dict from which `prior_from_dict` makes an equal prior."""
        return {"name": self.name, "laws": describe_laws("laws", self.laws)}

    def _check_number(self, num_arms: int) -> None:
        if num_arms != self.num_arms:
            raise ValueError(message("laws", f"be one for each of {num_arms} arms", self.num_arms))
