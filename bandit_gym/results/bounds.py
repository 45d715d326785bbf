"""Lines below the curves of regret: what nobody can do better than, in the long run or at all."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from bandit_gym.results.results import RunResults
from bandit_gym.results.summary import lower_bound_slope

_ENDS = {"least": "lower", "most": "upper"}


def draw_lower_bound(axes: Axes, found: RunResults) -> None:
    """Draw the Lai-Robbins rate of a fixed instance."""
    slope = lower_bound_slope(found)
    if slope is not None:
        label = f"Lai-Robbins rate, {slope:.1f} log t"
        axes.plot(found.steps, slope * np.log(found.steps), ":", color="0.4", label=label)


def draw_optimum(axes: Axes, found: RunResults) -> None:
    """Draw the least regret that is possible after so many steps, or its bounds, if known."""
    optimum = found.optimum
    if optimum is None or not optimum.is_known:
        return
    bounds = {"least possible": optimum.lower}
    if optimum.kind == "bracket":
        bounds = {
            f"least possible, at {end}": getattr(optimum, name) for end, name in _ENDS.items()
        }
    for (label, values), style in zip(bounds.items(), (":", (0, (1, 4))), strict=False):
        axes.plot(optimum.steps, np.maximum(values, 0.0), ls=style, color="0.4", label=label)
