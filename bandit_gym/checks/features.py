"""Checks of the features that an environment shows and that agents decide on."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bandit_gym.checks.arguments import as_numbers, message
from bandit_gym.checks.typing import BoolArray, FloatArray


def check_features(
    observation: Any,
    num_features: int,
    num_envs: int | None,
    *,
    mask: BoolArray | None = None,
    takes_played: bool = False,
) -> FloatArray:
    """Return a copy of the (N, K, d) features of each arm, or of the (N, d) of the played arms.

    K may be another at each decision.

    Args:
        observation: (N, K, d) features, or (K, d) when `num_envs` is None.
        num_features: d.
        num_envs: N, or None for a single run.
        mask: (N,) lanes to read; the others come back as 0, and may hold NaN.
        takes_played: whether (N, d) features, or (d,), of the played arms are taken too.

    Raises:
        TypeError: if they are no numbers, or None.
        ValueError: if the shape is another, or a feature is NaN or infinite.
    """
    lanes = () if num_envs is None else (num_envs,)
    values = as_numbers(observation, "biuf")
    shape = () if values is None else values.shape
    is_shaped = shape[: len(lanes)] == lanes and shape[-1:] == (num_features,) and 0 not in shape
    num_axes = len(shape) - len(lanes)
    if values is None or not is_shaped or not (num_axes == 2 or (num_axes == 1 and takes_played)):
        before = "".join(f"{size}, " for size in lanes)
        condition = f"be features of shape ({before}K, {num_features})"
        if takes_played:
            condition += f", or ({before}{num_features}{'' if lanes else ','}) of the arm pulled"
        if values is None:
            raise TypeError(message("observation", condition, observation))
        raise ValueError(f"observation must {condition}, got shape {shape}.")
    values = np.ascontiguousarray(values if lanes else values[None])
    if mask is not None:
        values[~mask] = 0.0
    is_finite = np.isfinite(values)
    if np.count_nonzero(is_finite) < is_finite.size:  # a third of the time of `all`
        raise ValueError(message("observation", "have finite features", values[~is_finite][0]))
    return values


def check_plain_options(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse options that have no meaning where arms have features.

    Args:
        options: what was given, by name.
        defaults: what each is then to be.
    """
    for name, value in options.items():
        if value != defaults[name]:
            condition = f"be {defaults[name]!r} where arms have features"
            raise ValueError(message(name, condition, value))
