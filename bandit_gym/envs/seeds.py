"""What the lanes of a vector environment are seeded with, as `SyncVectorEnv` understands it."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from gymnasium.utils import seeding

from bandit_gym.checks import check_seed

Seeds = int | Sequence[int | None] | None


def spread_seeds(seed: Seeds, num_envs: int) -> list[Any]:
    """Return one seed or None per lane."""
    if not isinstance(seed, Sequence | np.ndarray):
        check_seed("seed", seed, num_lanes=num_envs)
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, Integral):
        seed = [int(seed) + lane for lane in range(num_envs)]
    if not isinstance(seed, Sequence | np.ndarray) or len(seed) != num_envs:
        raise ValueError(
            f"seed must be an integer, None or a list of num_envs={num_envs} of them, got {seed!r}."
        )
    return [_check_lane_seed(entry) for entry in seed]


def _check_lane_seed(seed: Any) -> Any:
    check_seed("seed", seed)
    plain = int(seed) if isinstance(seed, Integral) else seed
    if plain is not None and not (isinstance(plain, int) and plain >= 0):
        seeding.np_random(plain)  # raises, in Gymnasium's words
    return plain
