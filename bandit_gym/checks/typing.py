"""Array types used in signatures across the package; shapes are in the docstrings."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
RealArray: TypeAlias = NDArray[np.float64] | NDArray[np.int64] | float
"""Numbers to broadcast against each other: reals or counts, an array or one."""
Parameter: TypeAlias = float | tuple[float, ...]
"""A distribution's parameter: one number for all arms, or one per arm."""

Info: TypeAlias = dict[str, Any]
"""What an environment reports beside observations, and takes as options."""
RewardsAndInfo: TypeAlias = tuple[FloatArray, dict[str, np.ndarray]]
"""Rewards, one per lane, and what is reported of the pulls: name -> (N, ...) values, of which those
of the lanes at hand mean something."""
