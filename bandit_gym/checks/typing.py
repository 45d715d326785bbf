"""Array types used in signatures across the package; shapes are in the docstrings."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
RealArray: TypeAlias = NDArray[np.float64] | NDArray[np.int64] | float
"""Numbers to broadcast against each other: reals or counts, an array or one."""
Parameter: TypeAlias = float | tuple[float, ...]
"""A distribution's parameter: one number for all arms, or one per arm."""
