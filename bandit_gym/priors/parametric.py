"""What the built-in priors share: they are told by parameters, for all arms or for each."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bandit_gym.typing import FloatArray


@dataclass(frozen=True)
class ParametricPrior(ABC):
    """A prior whose fields are its parameters, and all there is to know of it.

    Subclasses are frozen dataclasses; a parameter is one number for all arms or a list with an
    entry per arm (kept as a tuple, so that priors compare, hash and pickle).

    Attributes:
        name: the name used in dicts, e.g. "beta".
    """

    name: ClassVar[str]

    @abstractmethod
    def arm_support(self, num_arms: int) -> FloatArray:
        """Return the (K, 2) lowest and highest mean of each arm."""

    @property
    def num_arms(self) -> int | None:
        """K if some parameter is given per arm, None if the prior fits any number of arms."""
        lengths = [len(value) for value in self._parameters().values() if isinstance(value, tuple)]
        return lengths[0] if lengths else None

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest mean over all arms."""
        low, high = self.arm_support(self.num_arms or 1).T
        return float(low.min()), float(high.max())

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-able dict from which `prior_from_dict` makes an equal prior."""
        listed = {key: np.asarray(value).tolist() for key, value in self._parameters().items()}
        return {"name": self.name, **listed}

    def _parameters(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _arrays(self) -> tuple[FloatArray, ...]:
        return tuple(np.asarray(value) for value in self._parameters().values())


def columns(num_arms: int, *values: ArrayLike) -> FloatArray:
    """Return the values, each one number or (K,) numbers, side by side in K rows."""
    rows = [np.broadcast_to(np.asarray(value, dtype=np.float64), num_arms) for value in values]
    return np.stack(rows, axis=1)
