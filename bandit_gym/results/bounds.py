"""Lines below the curves of regret: what nobody can do better than, in the long run or at all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from bandit_gym.results.results import RunResults
from bandit_gym.results.summary import lower_bound_slope
from bandit_gym.typing import FloatArray, IntArray


class Bound(NamedTuple):
    """A line of regrets: (S,) steps and the value after each."""

    label: str
    steps: IntArray
    values: FloatArray


def find_bounds(found: RunResults) -> list[Bound]:
    """Return the Lai-Robbins rate of a fixed instance and the least possible regret, if known.

    Where the least regret is known between bounds only, those are two lines.
    """
    return [*_lower_bound(found), *_least_regret(found)]


def draw_lower_bound(axes: Axes, found: RunResults) -> None:
    """Draw the Lai-Robbins rate of a fixed instance."""
    for bound in _lower_bound(found):
        axes.plot(bound.steps, bound.values, ":", color="0.4", label=bound.label)


def draw_optimum(axes: Axes, found: RunResults) -> None:
    """Draw the least regret that is possible after so many steps, or its bounds, if known."""
    for bound, style in zip(_least_regret(found), (":", (0, (1, 4))), strict=False):
        axes.plot(bound.steps, bound.values, ls=style, color="0.4", label=bound.label)


def _lower_bound(found: RunResults) -> list[Bound]:
    slope = lower_bound_slope(found)
    if slope is None:
        return []
    label = f"Lai-Robbins rate, {slope:.1f} log t"
    return [Bound(label, found.steps, slope * np.log(found.steps))]


def _least_regret(found: RunResults) -> list[Bound]:
    optimum = found.optimum
    if optimum is None or not optimum.is_known:
        return []
    values = {"least possible": optimum.lower}
    if optimum.kind == "bracket":
        values = {
            "least possible, at least": optimum.lower,
            "least possible, at most": optimum.upper,
        }
    steps = np.asarray(optimum.steps)
    return [Bound(label, steps, np.maximum(line, 0.0)) for label, line in values.items()]
