"""Names of curves at their right ends, in place of a legend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.axes import Axes

SPACING = 0.065
"""Of the height of the axes, between two labels."""


class End(NamedTuple):
    """Where a curve ends, in data coordinates, and its colour."""

    height: float
    colour: str


def label_ends(axes: Axes, ends: Mapping[str, End]) -> None:
    """Write each label beside the right edge at its curve's end, moved up where labels would meet.

    Ends above the axes are labelled at their top. Limits must have been set before.
    """
    low, high = axes.get_ylim()
    lowest = 0.0
    for label, end in sorted(ends.items(), key=lambda item: item[1].height):
        place = max((min(end.height, high) - low) / (high - low), lowest)
        axes.text(
            1.02, place, label, color=end.colour, fontsize="small", va="center",
            transform=axes.transAxes,
        )  # fmt: skip
        lowest = place + SPACING
