"""What the lanes of a vector environment are seeded with, as `SyncVectorEnv` understands it."""

from collections.abc import Sequence

import numpy as np

from bandit_gym.checks import check_seed

Seeds = int | Sequence[int | None] | None


def spread_seeds(seed: Seeds, num_envs: int) -> list[int | None]:
    """Return one seed or None per lane."""
    is_list = isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str)
    if not is_list or getattr(seed, "ndim", 1) == 0:
        first = check_seed("seed", seed, num_lanes=num_envs)
        return [None if first is None else first + lane for lane in range(num_envs)]
    if len(seed) != num_envs:  # type: ignore[arg-type]
        raise ValueError(
            f"seed must be an integer, None or a list of num_envs={num_envs} of them, got {seed!r}."
        )
    return [check_seed("seed", entry) for entry in seed]  # type: ignore[union-attr]
