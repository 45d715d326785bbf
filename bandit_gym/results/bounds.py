"""The Lai-Robbins rate of a fixed instance: what no consistent rule beats in the long run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bandit_gym.results.results import RunResults
from bandit_gym.results.summary import lower_bound_slope
from bandit_gym.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Bound(NamedTuple):
    """A line of regrets: (S,) steps and the value after each."""

    label: str
    steps: IntArray
    values: FloatArray


def find_bounds(found: RunResults) -> list[Bound]:
    """Return the Lai-Robbins rate of a fixed instance, if known."""
    slope = lower_bound_slope(found)
    if slope is None:
        return []
    label = f"Lai-Robbins rate, {slope:.1f} log t"
    return [Bound(label, found.steps, slope * np.log(found.steps))]


def draw_lower_bound(axes: Axes, found: RunResults) -> None:
    """Draw the Lai-Robbins rate of a fixed instance."""
    for bound in find_bounds(found):
        axes.plot(bound.steps, bound.values, ":", color="0.4", label=bound.label)
